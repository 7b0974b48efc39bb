"""python -m feather_kernels: compile, selftest, bench, plot.

Source: design of this project.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

ALL = "all"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """GPU kernels on packed words."""


def _names(given: str) -> list[str]:
    found = [name.strip() for name in given.split(",") if name.strip()]
    if not found:
        raise click.ClickException(f"{given!r} names nothing; names are separated by commas")
    return found


@main.command("compile")
@click.option("--archs", default=ALL, show_default=True, help="As 75,90,120; all: what this toolkit compiles for.")
@click.option("--formats", default=ALL, show_default=True, help="As e4m3,mxfp8_e4m3; all: those of blocks too.")
@click.option(
    "--kernels",
    default=ALL,
    show_default=True,
    help="Of gemv, gemv2, gemv4, pack, unpack; prepared: all that prepare takes; columns: for several columns; "
    "chosen: both for one size; all: chosen, pack, unpack.",
)
@click.option("--cache", type=click.Path(path_type=Path), help="Where to keep the cubins; the user's cache otherwise.")
@click.option("--processes", default=1, show_default=True, help="How many compile at once.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def compile_command(archs: str, formats: str, kernels: str, cache: Path | None, processes: int, as_json: bool) -> None:
    """Compile kernels without a GPU, and say what registers they take and what they spill.

    Ends with status 1 where a kernel spills.
    """
    from feather_kernels import driver, launch, matrix

    try:
        results = matrix.precompile(
            None if archs == ALL else _names(archs),
            matrix.every_row() if formats == ALL else _names(formats),
            kernels=matrix.MATRIX if kernels == ALL else _names(kernels),
            folder=cache,
            processes=processes,
        )
    except (ValueError, OSError, launch.ToolkitError) as error:
        raise click.ClickException(str(error)) from error
    for result in results:
        if as_json:
            click.echo(json.dumps(result._asdict()))
        else:
            facts = f"{result.registers:3} registers, {result.spills} bytes spill"
            click.echo(f"{result.arch:7} {result.kernel:44} {facts}")
    spilled = [result for result in results if result.spills]
    version = ".".join(map(str, driver.toolkit_version() or ()))
    click.echo(f"{len(results)} kernels, {len(spilled)} spill, toolkit {version}", err=True)
    sys.exit(bool(spilled))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--formats", default=ALL, show_default=True, help="As e4m3,mxfp4.")
@click.option("--exhaustive", is_flag=True, help="All 2**32 float32 into e4m3 and e5m2 too (a minute; needs a GPU).")
def selftest(as_json: bool, formats: str, exhaustive: bool) -> None:
    """Check the kernels on this machine, bit for bit; status 1 where one is wrong."""
    from feather_kernels import TARGET, _target, selftest

    if exhaustive and TARGET != "gpu":
        raise click.ClickException("--exhaustive needs a GPU")
    processes = min(16, os.cpu_count() or 1) if TARGET == "gpu" else 1
    names = None if formats == ALL else _names(formats)
    try:
        found = list(selftest.checks(processes, names))
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if exhaustive:
        found += [(str(result), bool(result)) for result in selftest.every_float32()]
    wrong = [name for name, right in found if not right]
    if as_json:
        click.echo(json.dumps({"target": TARGET, "arch": _target.ARCH, "checks": len(found), "wrong": wrong}))
    else:
        click.echo(f"{len(found)} checks on the {TARGET}, {len(wrong)} wrong{': ' if wrong else ''}{', '.join(wrong)}")
    sys.exit(bool(wrong))


@main.command()
def natives() -> None:
    """Judge the GPU's own conversions: which rules they follow, proved on every input."""
    from feather_kernels import TARGET, natives

    if TARGET != "gpu":
        raise click.ClickException("there is nothing to judge without a GPU")
    for line in natives.table():
        click.echo(line)


_FILE = click.Path(path_type=Path, dir_okay=False)


@main.command()
@click.option("--quick", is_flag=True, help="Within a minute and 2 GB.")
@click.option("-o", "--output", type=_FILE, help="A JSON file for the figures.")
@click.option("--plot", "drawn", type=_FILE, help="A picture of the figures: .svg, .png or .pdf.")
def bench(quick: bool, output: Path | None, drawn: Path | None) -> None:
    """Check, then time, the kernels on this GPU."""
    from feather_kernels import TARGET, bench, driver

    if TARGET != "gpu":
        raise click.ClickException("there is nothing to measure without a GPU")
    if output is not None:
        _check_folder(output)
    if drawn is not None:
        _check_picture(drawn)

    def keep(figures: dict[str, Any]) -> None:
        if output is not None:
            output.write_text(bench.dump(figures), encoding="utf-8")

    try:
        result = bench.report(quick, click.echo, keep, min(16, os.cpu_count() or 1))
    except driver.GpuError as error:
        raise click.ClickException(str(error)) from error
    if drawn is not None:
        _draw(result, drawn)


@main.command()
@click.argument("figures", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.argument("picture", type=_FILE)
def plot(figures: Path, picture: Path) -> None:
    """Draw FIGURES, a JSON file of bench, as PICTURE: .svg, .png or .pdf."""
    _check_picture(picture)
    try:
        _draw(json.loads(figures.read_text(encoding="utf-8")), picture)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise click.ClickException(f"{figures}: no figures of a bench: {error}") from error


def _check_folder(path: Path) -> None:
    """Say before the long work what cannot be written."""
    if not path.parent.is_dir():
        raise click.ClickException(f"{path} cannot be written: there is no folder {path.parent}")


def _check_picture(path: Path) -> None:
    """Say before the long work what cannot be drawn."""
    from importlib.util import find_spec

    _check_folder(path)
    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise click.ClickException(f"{path} must end in .svg, .png or .pdf")
    if find_spec("matplotlib") is None:
        raise click.ClickException("a picture needs matplotlib: pip install 'feather-ref[draw]'")


def _draw(result: dict[str, Any], path: Path) -> None:
    import matplotlib

    from feather_kernels import roofline

    figure = roofline.picture(result)
    with matplotlib.rc_context({"svg.hashsalt": "feather_kernels"}):  # the same picture on every run
        try:
            figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        except OSError as error:
            raise click.ClickException(f"{path} cannot be written: {error.strerror}") from error


if __name__ == "__main__":
    main()
