"""A bar on stderr, where that is a terminal.

Source: rich, progress display.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(name: str) -> Iterator[Callable[[int, int], None]]:
    """A function of done and total that moves the bar; it does nothing where nobody looks."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console  # noqa: PLC0415 - slow to load
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(name))
        yield lambda done, total: progress.update(task, completed=done, total=total)
