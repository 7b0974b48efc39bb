"""python -m feather_kernels: compile, selftest, bench.

Source: design of this project.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

ALL = "all"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """GPU kernels on packed words."""


def _names(given: str, known: list[str]) -> list[str]:
    return known if given == ALL else [name.strip() for name in given.split(",") if name.strip()]


@main.command("compile")
@click.option("--archs", default=ALL, show_default=True, help="As 75,90,120; all: what this toolkit compiles for.")
@click.option("--formats", default=ALL, show_default=True, help="As e4m3,e2m1.")
@click.option("--kernels", default=ALL, show_default=True, help="Of gemv, gemv2, gemv4, pack, unpack.")
@click.option("--cache", type=click.Path(path_type=Path), help="Where to keep the cubins; the user's cache otherwise.")
@click.option("--processes", default=1, show_default=True, help="How many compile at once.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def compile_command(archs: str, formats: str, kernels: str, cache: Path | None, processes: int, as_json: bool) -> None:
    """Compile kernels without a GPU, and say what registers they take and what they spill.

    Ends with status 1 where a kernel spills.
    """
    os.environ["FEATHER_TARGET"] = "gpu"  # of the processes that compile
    from rich.console import Console
    from rich.progress import track

    import feather_ref as fr
    from feather_kernels import gpu, launch, matrix

    toolkit = gpu.toolkit_version()
    if toolkit is None:
        raise click.ClickException("there is no CUDA toolkit to compile with: install feather-ref[cuda13]")
    try:
        pairs = [launch.parse_arch(arch) for arch in _names(archs, [*matrix.ARCHS[toolkit[0]]])]
        wanted = [f"{major}{minor}" for major, minor in pairs]
        rows = [fr.get_format(name) for name in _names(formats, [*fr.FORMATS])]
        chosen = _names(kernels, [*matrix.KERNELS])
        made = matrix.compile_all(wanted, rows, chosen, cache, processes)
        total = len(wanted) * len(rows) * len(chosen)
        results = [*track(made, "compiling", total=total, console=Console(stderr=True), transient=True)]
    except (ValueError, launch.ToolkitError) as error:
        raise click.ClickException(str(error)) from error
    for result in results:
        if as_json:
            click.echo(json.dumps(result._asdict()))
        else:
            facts = f"{result.registers:3} registers, {result.spills} bytes spill"
            click.echo(f"{result.arch:7} {result.kernel:44} {facts}")
    spilled = [result for result in results if result.spills]
    click.echo(f"{len(results)} kernels, {len(spilled)} spill, toolkit {toolkit[0]}.{toolkit[1]}", err=True)
    sys.exit(bool(spilled))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--exhaustive", is_flag=True, help="All 2**32 float32 into e4m3 and e5m2 too (minutes; needs a GPU).")
def selftest(as_json: bool, exhaustive: bool) -> None:
    """Check the kernels on this machine, bit for bit; status 1 where one is wrong."""
    from feather_kernels import TARGET, selftest

    found = list(selftest.checks(min(8, os.cpu_count() or 1) if TARGET == "gpu" else 1))
    if exhaustive:
        for fmt in ("e4m3", "e5m2"):
            found += [selftest.exhaustive(fmt, overflow=overflow) for overflow in ("saturate", "nonsaturating")]
    wrong = [name for name, right in found if not right]
    if as_json:
        click.echo(json.dumps({"target": TARGET, "checks": len(found), "wrong": wrong}))
    else:
        click.echo(f"{len(found)} checks on the {TARGET}, {len(wrong)} wrong{': ' if wrong else ''}{', '.join(wrong)}")
    sys.exit(bool(wrong))


@main.command()
@click.option("--quick", is_flag=True, help="Within a minute and 2 GB.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="A JSON file for the figures.")
def bench(quick: bool, output: Path | None) -> None:
    """Check, then time, the kernels on this GPU."""
    from feather_kernels import TARGET, bench, gpu

    if TARGET != "gpu":
        raise click.ClickException("there is nothing to measure without a GPU")
    try:
        result = bench.report(quick, click.echo)
    except gpu.GpuError as error:
        raise click.ClickException(str(error)) from error
    if output is not None:
        output.write_text(bench.dump(result), encoding="utf-8")


if __name__ == "__main__":
    main()
