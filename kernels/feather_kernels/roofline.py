"""The figures of a bench as a picture: what the memory allows, and how near the kernels come.

A point is a product: multiplications and additions for each byte that is read or written, against how many
a second.  The line is the bandwidth of a kernel that only reads; nothing that reads its weights once from
memory can be above it.  matplotlib comes with the extra `draw`.

Source: Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009; Okabe and Ito, Color Universal Design,
2008, for the colours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
MARKERS = "osD^v<>ph*"
_WIDTH, _HEIGHT = 8.5, 5.0  # inches


class Point(NamedTuple):
    """One product: operations a byte, 10**9 operations a second, and the part of the reading bandwidth."""

    name: str
    intensity: float
    speed: float
    part: float


def points(result: Mapping[str, Any]) -> list[Point]:
    """The products of the greatest size, as a bench measured them; without those that were not right.

    >>> rows = [{"work": "read", "us": 1.0, "gbs": 4000.0},
    ...         {"work": "gemv", "format": "e4m3", "n": 1000, "k": 1000, "us": 0.25, "gbs": 3000.0}]
    >>> points({"rows": rows})
    [Point(name='gemv e4m3', intensity=2.6666666666666665, speed=8000.0, part=0.75)]
    """
    read = reading(result)
    rows = [row for row in result["rows"] if row.get("gbs") and row.get("right", True) and "n" in row and "k" in row]
    greatest = max((row["n"] * row["k"] for row in rows), default=0)
    found: dict[str, Point] = {}
    for row in rows:
        if row["n"] * row["k"] == greatest and not row["work"].startswith("ladder"):
            name = " ".join(str(row[key]) for key in ("work", "format") if key in row)
            if row.get("x", "float16") != "float16":
                name += f", x in {row['x']}"
            operations = 2 * greatest * row.get("columns", 1)
            moved, speed = row["gbs"] * row["us"] * 1e3, operations / row["us"] / 1e3
            found.setdefault(name, Point(name, operations / moved, speed, row["gbs"] / read))
    return list(found.values())


def reading(result: Mapping[str, Any]) -> float:
    """GB/s of the kernel that only reads.

    Raises ValueError where a bench has none.
    """
    for row in result["rows"]:
        if row["work"] == "read" and row.get("gbs") and 0 < float(row["gbs"]) < math.inf:
            return float(row["gbs"])
    raise ValueError("the result has no row 'read': it says what the memory gives")


def picture(result: Mapping[str, Any]) -> Figure:
    """The picture as a matplotlib Figure; `savefig` writes it.

    Raises ValueError for a result without the row "read" or without products.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import ScalarFormatter
    except ImportError:
        raise ImportError("the picture needs matplotlib: pip install 'feather-ref[draw]'") from None
    found, read = points(result), reading(result)
    if not found:
        raise ValueError("the result has no products to draw")
    figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=150, layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log")
    ends = [min(p.intensity for p in found) / 1.5, max(p.intensity for p in found) * 1.5]
    axes.plot(ends, [read * end for end in ends], color="black", label=f"reading, {read:.0f} GB/s")
    for i, point in enumerate(found):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i // len(COLOURS) % len(MARKERS)]
        label = f"{point.name}, {100 * point.part:.0f} %"
        axes.plot(point.intensity, point.speed, marker, color=colour, markeredgecolor="black", label=label)
    ticks = [2.0**i for i in range(math.floor(math.log2(ends[0])), math.ceil(math.log2(ends[1])) + 1)]
    axes.set_xticks([tick for tick in ticks if ends[0] <= tick <= ends[1]])
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.minorticks_off()
    axes.set_xlabel("operations for each byte moved")
    axes.set_ylabel("10^9 operations a second")
    axes.set_title(result["machine"]["gpu"], fontsize=10)
    axes.grid(alpha=0.3)
    figure.legend(fontsize=7, loc="outside right upper")
    return figure
