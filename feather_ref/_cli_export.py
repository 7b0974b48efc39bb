"""feather-ref export: golden vectors as SystemVerilog, C, memory images, CSV.

Source: design of this project.
"""

from __future__ import annotations

from pathlib import Path

import click

from feather_ref._cli_output import FORCE, OUTPUT, check_free, check_stdout, is_stdout
from feather_ref.export import KINDS
from feather_ref.export import export as as_text
from feather_ref.files import replacing


@click.command()
@click.argument("vector_id", metavar="ID")
@click.option("--as", "kind", type=click.Choice(KINDS), required=True, help="See above.")
@click.option("-o", "--output", type=OUTPUT, help="A file. Default: -, which is stdout.")
@FORCE
def export(vector_id: str, kind: str, output: Path | None, force: bool) -> None:
    """Write a golden vector for other tools.

    ID is a name of the manifest, as convert.f32.e4m3.rne.sat.run: see `suites`. NaN passes by class,
    and every judge digit is kept.

    \b
    sva   SystemVerilog: a package, and a module that asserts it: for formal tools and simulators
    sv    SystemVerilog: the package alone: expected value, digit, verdict
    c     a header of C99 and C++11: table, search, verdict, and a function for DPI-C
    rust  a module with table, search and verdict, which needs neither std nor a crate
    memh  an image for $readmemh, of up to 65536 words
    csv   the lines, under a head

    Of blocks, scales and elements have all of them but memh; a list of whole blocks has c and rust, an
    array of structures with a verdict, and csv. A list of pairs (.tv) has csv alone, dequantize.* nothing.

    \b
    Examples:
      $ feather-ref export convert.f32.e4m3.rne.sat.run --as sva -o e4m3_sat.sv
      $ feather-ref export decode.e4m3.f32.exact.none.tab --as memh
      $ feather-ref export block.f32.mxfp4.rne.sat.blk --as c
    """
    check_free(force, output=output)
    if output is None or is_stdout(output):
        check_stdout()
        output = None
    text = as_text(vector_id, kind)
    if output is None:
        click.echo(text, nl=False)
        return
    with replacing(output) as file:
        file.write(text.encode("ascii"))
    click.echo(f"{output}: {text.count(chr(10))} lines", err=True)
