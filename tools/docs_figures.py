"""The kernel figures of the documentation: every run in kernels/bench/results, as it was written.

    kernels/figures.md    for each *.json the machine, a picture, and a table of the rows that say the same things;
                          for each *.jsonl what was compiled, with registers and spills

A new file, work, or fact in a row is on the page without a change here.

Source: design of this project; `python -m feather_kernels bench -o` and `compile` write the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import docs_formats

RESULTS = Path(__file__).resolve().parent.parent / "kernels" / "bench" / "results"
HEADS = {"us": "us", "gbs": "GB/s", "right": "compared"}  # what a page calls a fact; others go by their own name
BAR = 15.0  # points a bar
COLOUR, INK = "#0072B2", docs_formats.INK
START = """# Kernel figures

What the files in [kernels/bench/results](bench/results/README.md) hold: medians, with the bytes that a work must
read and write over its time as GB/s, and whether the result was compared with the reference, bit for bit, before
it was timed. [The kernels' page](README.md) has the short story."""

Row = dict[str, Any]


def figures_page(folder: Path = RESULTS) -> str:
    """The page."""
    parts = [START]
    runs = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    for name, run in sorted(runs.items(), key=lambda item: bool(item[1].get("quick"))):  # long runs first
        parts += run_section(name, run) if "rows" in run else []
    for path in sorted(folder.glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        parts += [f"## Compiled without a GPU: {path.stem}", *tables(rows)]
    return "\n\n".join(parts) + "\n"


def run_section(name: str, run: dict[str, Any]) -> Iterator[str]:
    """One run: where and when, a picture, the tables."""
    facts = dict(run.get("machine", {}))
    yield f"## {facts.pop('gpu', 'A GPU')}: {name}" + (" (a quick run)" if run.get("quick") else "")
    versions = facts.pop("versions", {})
    yield ", ".join(f"{fact} {said}" for fact, said in (facts | versions).items()) + "."
    best = widest(run["rows"])
    if len(best) > 1:
        n, k = best[0]["n"], best[0]["k"]
        top = next((row["gbs"] for row in run["rows"] if row["work"] == "read"), None)
        yield docs_formats.picture(bars(best, top), f"GB/s of a matrix of {n} by {k} times a vector, for each format")
        yield f"W is {n} x {k}, times one vector" + ("; the line is a kernel that only reads." if top else ".")
    yield from tables(run["rows"])


def widest(rows: list[Row]) -> list[Row]:
    """Of the rows that time `gemv` those of the largest matrix, the first of each format."""
    found = [
        row for row in rows if row["work"] == "gemv" and all(row.get(fact) for fact in ("format", "n", "k", "gbs"))
    ]
    size = max((row["n"] * row["k"] for row in found), default=0)
    first: dict[str, Row] = {}
    for row in found:
        if row["n"] * row["k"] == size:
            first.setdefault(row["format"], row)
    return list(first.values())


def tables(rows: list[Row]) -> Iterator[str]:
    """A table for the rows that have the same facts, in the order in which they come.

    >>> print(*tables([{"work": "a", "us": 1.25}, {"work": "b", "us": 2048.0}]))
    | work | us |
    |---|---|
    | a | 1.2 |
    | b | 2,048 |
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row), []).append(row)
    for facts, group in groups.items():
        lines = [[cell(fact) for fact in row.values()] for row in group]
        yield docs_formats.table([HEADS.get(fact, fact) for fact in facts], lines)


def cell(fact: Any) -> str:
    """A fact as text: times and rates with a digit after the point below 1000."""
    if isinstance(fact, bool):
        return "yes" if fact else "NO"
    if isinstance(fact, float):
        return f"{fact:,.1f}" if abs(fact) < 1000 else f"{fact:,.0f}"
    return "" if fact is None else str(fact)


def bars(rows: list[Row], top: float | None) -> Figure:
    """A bar of GB/s for each format, fastest first, and a line at what the memory gives."""
    figure = Figure(figsize=(4, (len(rows) + 1) * BAR / 72), layout="constrained")
    axes = figure.subplots()
    ordered = sorted(rows, key=lambda row: row["gbs"])
    speeds = [row["gbs"] for row in ordered]
    axes.barh([f"{row['format']}  {row['gbs']:>6,.0f}" for row in ordered], speeds, color=COLOUR)
    if top:
        axes.axvline(top, color=INK, linewidth=1)
    axes.set_xlim(0, max([*speeds, top or 0]) * 1.02)
    axes.set_xticks([])
    axes.spines[["top", "right", "bottom", "left"]].set_visible(False)
    axes.tick_params(length=0, labelsize=9, colors=INK, labelfontfamily="DejaVu Sans Mono")
    return figure
