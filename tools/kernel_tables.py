"""The tables of kernels/README.md, made of one run of `python -m feather_kernels bench`.

    python tools/kernel_tables.py [--check]

Between the lines `<!-- figures of FILE -->` and `<!-- end of figures -->` of the page stand the tables that FILE, of
kernels/bench/results, gives; they are written anew, or compared, and the status is 1 where they differ.

Source: design of this project.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).resolve().parents[1] / "kernels"
PAGE, RESULTS = KERNELS / "README.md", KERNELS / "bench" / "results"
REGION = re.compile(r"(<!-- figures of (\S+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
NAN, FLOAT32 = ", NaN looked for", ", x in float32"
SMALLER = ("fp16", "e5m2", "e4m3", "mxfp8_e4m3", "nvfp4")
CONVERSIONS = ("encode", "pack", "decode", "unpack")

Row = dict[str, Any]


class Run:
    """A run, by what its rows are of."""

    def __init__(self, result: dict[str, Any]) -> None:
        """Find the ceilings, and the size of the largest matrix, which is the first."""
        self.machine, self.rows = result["machine"], result["rows"]
        self.us = {(row["work"], row.get("format")): row["us"] for row in reversed(self.rows)}
        self.read, self.copy = (
            next(row["gbs"] for row in self.rows if row["work"] == work) for work in ("read", "copy")
        )
        first = next(row for row in self.rows if "n" in row)
        self.size = first["n"], first["k"]

    def products(self, work: str, size: tuple[int, int] | None = None) -> list[Row]:
        """The rows of a work, of a size or of the largest; what was wrong has no time, and is not among them."""
        wanted = size or self.size
        rows = [row for row in self.rows if row["work"].removesuffix(NAN) == work and row["us"] is not None]
        return [row for row in rows if (row["n"], row["k"]) == wanted]

    def sizes(self, work: str) -> list[tuple[int, int]]:
        """The other sizes of a work, as they come."""
        found = [(row["n"], row["k"]) for row in self.rows if row["work"] == work]
        return [size for size in dict.fromkeys(found) if size != self.size]


def table(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table of Markdown.

    >>> print(table(["a", "b"], [[1, "x"]]))
    | a | b |
    |---|---|
    | 1 | x |
    """
    first = list(heads)
    lines = [first, ["---"] * len(first), *rows]
    text = ["| " + " | ".join(map(str, line)) + " |" for line in lines]
    return "\n".join([text[0], text[1].replace(" ", ""), *text[2:]])


def name(row: Row) -> str:
    """What a table calls a row: its format, and what is not as in the others."""
    more = NAN * row["work"].endswith(NAN) + FLOAT32 * (row["x"] == "float32")
    return str(row["format"]) + more


def ratio(value: float) -> str:
    """Two digits.

    >>> ratio(4.214), ratio(0.977), ratio(12.3)
    ('4.2x', '0.98x', '12x')
    """
    return f"{value:.{max(0, 1 - len(str(int(value))) + 1 if value >= 1 else 2)}f}x"


def percent(row: Row, of: float) -> str:
    """Of a ceiling."""
    return f"{100 * row['gbs'] / of:.0f} %"


def largest(run: Run) -> str:
    """One column and the largest matrix."""
    n, k = run.size
    base = run.us["cuBLAS float32", None], run.us["cuBLAS float16", None]
    heads = [f"W is {n} x {k}", "us", "GB/s", "of reading", "over cuBLAS float32", "over float16"]
    lines = []
    for row in run.products("gemv"):
        speed = [f"{row['us']:.1f}", f"{row['gbs']:,.0f}", percent(row, run.read)]
        lines.append([name(row), *speed, *(ratio(us / row["us"]) for us in base)])
    return table(heads, lines)


def smaller(run: Run) -> Iterator[str]:
    """One column and other matrices."""
    heads = ["us", *SMALLER, "bytes of FP8 / (0.9 reading) + 2.5 us"]
    rows, few = [], []
    for n, k in run.sizes("gemv"):
        us = {row["format"]: row["us"] for row in run.products("gemv", (n, k))}
        budget = f"{n * k / (0.9 * run.read) / 1e3 + 2.5:.1f}"
        if set(us) == {"e4m3"}:
            few.append([f"{n} x {k}", f"{us['e4m3']:.1f}", budget])
        else:
            rows.append([f"{n} x {k}", *(f"{us[fmt]:.1f}" for fmt in SMALLER), budget])
    yield table(heads, rows)
    yield table(["us, few rows", "e4m3", heads[-1]], few)


def ladder(run: Run) -> str:
    """Version by version."""
    rows = [row for row in run.rows if row["work"].startswith("ladder")]
    lines = [[row["work"].removeprefix("ladder: "), f"{row['us']:,.1f}", percent(row, run.read)] for row in rows]
    return table([f"the ladder: e4m3, {run.size[0]} x {run.size[1]}", "us", "of reading"], lines)


def columns(run: Run) -> Iterator[str]:
    """Eight columns."""
    work = "8 columns"
    heads = [
        f"8 columns, {run.size[0]} x {run.size[1]}",
        "us",
        "of reading",
        "error, in 2^-24 of the sum of magnitudes",
    ]
    rows = run.products(work)
    yield table(heads, ([name(r), f"{r['us']:.1f}", percent(r, run.read), f"{r['ulp']:.1f}"] for r in rows))
    others = [row for size in run.sizes(work) for row in run.products(work, size)]
    lines = (
        [f"{r['format']}, {r['n']} x {r['k']}", f"{r['us']:.1f}", percent(r, run.read), f"{r['ulp']:.1f}"]
        for r in others
    )
    yield table(["8 columns, smaller", "us", "of reading", "error"], lines)


def conversions(run: Run) -> str:
    """Of copying."""
    found = {(row["work"], row["format"]): row for row in run.rows if row["work"] in CONVERSIONS}
    formats = dict.fromkeys(fmt for _, fmt in found)
    heads = ["2^28 numbers of float32; GB/s read and written, and of copying", *CONVERSIONS]
    lines = ([fmt, *(_speed(found[work, fmt], run.copy) for work in CONVERSIONS)] for fmt in formats)
    return table(heads, lines)


def _speed(row: Row, of: float) -> str:
    return f"{row['gbs']:,.0f}, {percent(row, of)}"


def host(run: Run) -> str:
    """What has no size and is no kernel: calls, and the cache."""
    kernels = ("read", "copy", "empty kernel", *CONVERSIONS)
    rows = [row for row in run.rows if "n" not in row and row["work"] not in kernels]
    return table(["of the host", "time"], ([row["work"], duration(row["us"])] for row in rows))


def duration(us: float) -> str:
    """Microseconds, or seconds where they are many.

    >>> duration(5.02), duration(1732946.09)
    ('5.0 us', '1.7 s')
    """
    return f"{us / 1e6:.1f} s" if us >= 1e5 else f"{us:,.1f} us"


def figures(result: dict[str, Any]) -> str:
    """Every table of a run, under a line that says where it was made."""
    run = Run(result)
    machine, us = run.machine, run.us
    versions = ", ".join(f"{package} {version}" for package, version in machine["versions"].items())
    driver = f"{machine['driver'] // 1000}.{machine['driver'] % 1000 // 10}"
    where = (
        f"One {machine['gpu']}, driver for CUDA {driver}, Python {machine['python']}, {versions}; {machine['when']}.\n"
        f"A kernel that only reads reached {run.read:,.0f} GB/s, one that copies {run.copy:,.0f} GB/s; "
        f"cuBLAS took {us['cuBLAS float32', None]:.0f} us in float32 and {us['cuBLAS float16', None]:.0f} us "
        f"in float16; a kernel that does nothing took {us['empty kernel', None]:.1f} us."
    )
    parts = [where, largest(run), *smaller(run), ladder(run), *columns(run), conversions(run), host(run)]
    return "\n\n".join(parts)


def page(text: str) -> str:
    """The page with its tables made anew."""

    def region(match: re.Match[str]) -> str:
        result = json.loads((RESULTS / match[2]).read_text(encoding="utf-8"))
        return f"{match[1]}\n{figures(result)}\n\n{match[3]}"

    return REGION.sub(region, text)


def main(arguments: list[str]) -> int:
    """Write the page, or compare it."""
    text = PAGE.read_text(encoding="utf-8")
    made = page(text)
    if arguments == ["--check"]:
        return int(made != text)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
