"""What the commands print: tables, JSON, a bar of progress.

Source: design of this project.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

from feather_ref._compare import printable


def show(head: Sequence[str], rows: Sequence[Sequence[str]], as_json: bool = False) -> None:
    """Rows under a head: a table on a terminal, plain columns elsewhere, or JSON."""
    if as_json:
        show_json([dict(zip(head, row, strict=True)) for row in rows])
    elif sys.stdout.isatty():
        _show_rich(head, rows)
    else:
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        for row in (head, *rows):
            click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _show_rich(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - slow to load, and not for pipes
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    longest = max((len(row[0]) for row in rows), default=0)
    for i, name in enumerate(head):  # names of tensors are long, and matter
        table.add_column(name, overflow="fold", min_width=0 if i else min(longest, 40))
    for row in rows:
        table.add_row(*map(Text, row))  # Text: a name in brackets is no style
    Console().print(table)


def show_json(tree: object) -> None:
    """A tree as JSON."""
    click.echo(json.dumps(tree, indent=2, allow_nan=False))


def counted(count: int, what: str) -> str:
    """1 tensor, 2 tensors."""
    return f"{count} {what}{'s' * (count != 1)}"


def finite(value: float | None) -> float | str | None:
    """JSON has no infinity."""
    return value if value is None or math.isfinite(value) else str(value)


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on stderr, where that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - slow to load
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")
        yield lambda name, done, total: bar.update(
            task, completed=done, total=total, description=escape(printable(name))
        )
