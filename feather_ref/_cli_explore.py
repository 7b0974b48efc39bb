"""feather-ref explore: the bit explorer, as a file or in a browser.

Source: design of this project.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from feather_ref._cli_output import FORCE, OUTPUT, check_free, check_stdout, is_stdout
from feather_ref.explorer import page
from feather_ref.files import replacing


@click.command()
@click.option("-o", "--output", type=OUTPUT, help="A file, or - for stdout, and open nothing.")
@FORCE
def explore(output: Path | None, force: bool) -> None:
    """Open the bit explorer: click bits, see numbers.

    One page shows every code of every format of up to 8 bits.

    Without -o the page is written to a temporary file and opened in a browser. It needs no network.

    \b
    Examples:
      $ feather-ref explore -o explorer.html
    """
    check_free(force, output=output)
    if is_stdout(output):
        check_stdout()
        click.echo(page(), nl=False)
        return
    where = output or Path(tempfile.mkdtemp(prefix="feather-ref-")) / "explorer.html"
    with replacing(where) as file:
        file.write(page().encode("utf-8"))
    if output is None and click.launch(str(where)) != 0:
        click.echo("no browser could be started", err=True)
    click.echo(where)
