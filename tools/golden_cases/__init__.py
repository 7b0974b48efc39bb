"""Edge and regression lists: the rows from which `make_golden.py` writes the `.tv` files.

`edges` are made from the format rows; `arithmetic` and `reports`, inputs that broke other people's
codecs, are typed by hand.  Each file holds its cases in this order.

Source: the names are those of data/golden/README.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from golden_cases.arithmetic import arithmetic
from golden_cases.case import ARITHMETIC, CLASSES, CLASSES_ELSEWHERE, Case, Line, lines, row_of
from golden_cases.edges import edges
from golden_cases.reports import NOT_HERE, REPORTS, reports

__all__ = [
    "ARITHMETIC", "CLASSES", "CLASSES_ELSEWHERE", "NOT_HERE", "REPORTS", "Case", "Line", "cases", "edges", "lines",
    "reports", "row_of", "vector_lists",
]  # fmt: skip


def cases() -> Iterator[Case]:
    """Every case, in a fixed order."""
    yield from edges()
    yield from arithmetic()
    yield from reports()


def vector_lists() -> dict[str, list[Case]]:
    """The cases of every `.tv` file by its id, sorted by id, in the order of `cases`."""
    found: dict[str, list[Case]] = {}
    for case in cases():
        found.setdefault(case.id, []).append(case)
    return dict(sorted(found.items()))
