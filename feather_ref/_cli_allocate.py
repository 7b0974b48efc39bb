"""feather-ref allocate: a format for each tensor of a model, within a budget.

Source: design of this project.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from feather_ref._cli_output import FORCE, INPUT, OUTPUT, check_free, check_stdout, is_stdout
from feather_ref._cli_show import counted, progress, show
from feather_ref._compare import printable
from feather_ref._measures import MEASURES
from feather_ref._planned import measure_file
from feather_ref._plans import COSTS, Plan, PlanLine
from feather_ref.allocate import DEFAULT_FORMATS
from feather_ref.files import load, replacing
from feather_ref.repack import refuse_same

_TIMES = "seconds_per_value"


def _read_formats(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Names, with commas between them or one an option; a comma in brackets is part of a name."""
    parts = [part for text in value for part in ([text] if text.startswith("{") else re.split(r",(?![^(]*\))", text))]
    return tuple(part.strip() for part in parts)


def _read_times(path: Path) -> dict[str, float]:
    """The seconds a value of a file of times."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: it is not JSON: {error}") from None
    times = tree.get(_TIMES) if isinstance(tree, dict) else None
    if not isinstance(times, dict) or not times:
        raise ValueError(f'{path}: it is not JSON like {{"{_TIMES}": {{"mxfp4": 2.5e-12}}}}')
    return times


@click.command()
@click.argument("source", metavar="IN", type=INPUT)
@click.option("--budget", type=float, required=True, help="Bits a value in the mean; with --cost time, seconds in all.")
@click.option("--cost", type=click.Choice(COSTS), default="bytes", show_default=True, help="What the budget is of.")
@click.option("--times", "times_path", metavar="FILE", type=INPUT, help="For --cost time: seconds a value, see above.")
@click.option(
    "--formats", multiple=True, metavar="NAMES", callback=_read_formats, help="What to choose among. May be repeated."
)
@click.option("--error", type=click.Choice(list(MEASURES)), default="mse", show_default=True, help="What to lessen.")
@click.option("--include", multiple=True, metavar="PATTERN", help="Only tensors called like this. May be repeated.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Not tensors called like this. May be repeated.")
@click.option("-o", "--output", type=OUTPUT, help="Write the plan here, as JSON; - is stdout, as with --json.")
@click.option("--draw", type=OUTPUT, help="A picture of the plan: .png, .svg or .pdf.")
@FORCE
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON instead of columns.")
def allocate(
    source: Path,
    budget: float,
    cost: Any,
    times_path: Path | None,
    formats: tuple[str, ...],
    error: str,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    output: Path | None,
    draw: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Choose formats for the tensors of a file.

    IN is an .npy, .npz, .safetensors or .gguf file. The plan is the best that the budget allows; scales
    and selectors count. The error is summed over all values: mse as it is, sqnr as a share of
    each tensor's own size. SQNR bits: how much stronger the numbers are than the error; one more
    halves the error. Other tensors, and those that are not selected, stay as they are.

    NAMES: mxfp4, nvfp4, mxfp6_e2m3, mxfp8, fp8_1x128, int4_g32, ...; mixed8, mixed6, mixed4, whose
    blocks choose their own split of the bits; and any FORMAT, as e4m3/row, e2m1/tensor, bf16.
    The FILE of --times is JSON like {"seconds_per_value": {"mxfp4": 2.5e-12, "bf16": 8e-12}}.

    \b
    Examples:
      $ feather-ref allocate model.safetensors --budget 4.5 -o plan.json
      $ feather-ref pack model.safetensors --plan plan.json -o small.safetensors
      $ feather-ref allocate model.safetensors --budget 6 --formats mxfp4,mxfp6,mxfp8 --draw plan.png
      $ feather-ref allocate model.safetensors --budget 2e-6 --cost time --times times.json
    """
    if (times_path is None) != (cost == "bytes"):
        raise click.UsageError("--cost time and --times belong together")
    times = None if times_path is None else _read_times(times_path)
    names = formats or (DEFAULT_FORMATS if times is None else tuple(times))
    figure = None if draw is None else _picture(draw)
    if is_stdout(output):
        check_stdout()
        if as_json:
            raise click.UsageError("--json and -o - are one and the same; say one of them")
        output, as_json = None, True
    _check_targets(source, times_path, [path for path in (output, draw) if path is not None])
    check_free(force, output=output, draw=draw)
    with progress() as report:
        measured = measure_file(source, names, error, include, exclude, report)
    plan = measured.plan(budget, cost, times)
    if output is not None:
        with replacing(output) as file:
            file.write(plan.to_json().encode())
    if draw is not None and figure is not None:
        with replacing(draw) as file:
            figure(plan).savefig(file, format=draw.suffix[1:].lower())
    if as_json:
        click.echo(plan.to_json(), nl=False)
        return
    _show(plan)


def _check_targets(source: Path, times: Path | None, targets: Sequence[Path]) -> None:
    """Refuse to write over what is read, or two things to one file."""
    with load(source) as tensors:
        for target in targets:
            refuse_same(tensors, target)
    for target in targets:
        if times is not None and target.exists() and times.samefile(target):
            raise ValueError(f"{target}: is the file of times; write to another name")
    if len({os.path.realpath(target) for target in targets}) < len(targets):
        raise ValueError(f"{targets[0]}: is to be the plan and the picture; write one to another name")


def _picture(path: Path) -> Any:
    """The function that draws; said before the long work if it cannot."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"draw: {path} must end in .png, .svg or .pdf")
    from importlib.util import find_spec  # noqa: PLC0415 - for this option alone

    from feather_ref._planpicture import picture  # noqa: PLC0415 - for this option alone

    if find_spec("matplotlib") is None:
        raise ValueError("draw: it needs matplotlib: python -m pip install matplotlib")
    return picture


def _show(plan: Plan) -> None:
    """A row for each tensor, with a mark for each bit, and the sums."""
    timed = plan.cost == "time"
    head = ("tensor", "shape", "format", "bytes", *(["seconds"] if timed else []), "SQNR bits", "bits", "a value")
    show(head, [_cells(line, timed) for line in plan.tensors])
    cost = f"{plan.nbytes} bytes, {plan.bits_per_value:.4f} bits a value"
    if timed:
        cost += f", {math.fsum(line.seconds or 0 for line in plan.tensors):.3g} seconds"
    best = "no plan within the budget is better" if plan.optimal else "it may not be the best"
    click.echo(f"{counted(len(plan.tensors), 'tensor')}, {cost}; {plan.error} {plan.total_error:.4g}; {best}")


def _cells(line: PlanLine, timed: bool) -> tuple[str, ...]:
    bits = line.bits_per_value
    sqnr = f"{line.sqnr:.2f}" if line.sqnr is not None else "exact" if line.error == 0 else "-"
    names = printable(line.name), str(list(line.shape)), line.format, str(line.bytes)
    return *names, *([f"{line.seconds:.3g}"] if timed else []), sqnr, f"{bits:.2f}", "#" * min(round(bits), 32)
