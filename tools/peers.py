"""What the benchmarks beside a peer share: a case is checked, then both are timed in turn, in one run.

Times are CPU seconds of one thread.  A busy machine slows both, but not alike: what works on whole arrays
loses its cache.  So there are two ratios, above 1 where ours is faster: the median of all pairs, which is
judged, and that of the best run of each.

Source: design of this project.
"""

from __future__ import annotations

import json
import platform
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table


@dataclass(frozen=True)
class Case:
    """One operation, ours and a peer's.

    labels: cells of the table, the peer the last of them.  n, their_n: how many numbers a run takes; the peer
    may take fewer.  differ: how many results differ; exact: whether that is an error.  wanted: the least ratio.
    """

    labels: tuple[str, ...]
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    n: int
    their_n: int
    differ: Callable[[Any, Any], int] | None = None
    exact: bool = True
    wanted: float | None = None


@dataclass(frozen=True)
class Result:
    """Medians in million numbers a CPU second, their ratio pair by pair, that of the best runs, and what differs."""

    labels: tuple[str, ...]
    ours: float
    theirs: float
    ratio: float
    best: float
    wanted: float | None
    differ: int

    @property
    def missed(self) -> bool:
        """Whether a wanted ratio is not there."""
        return self.wanted is not None and self.ratio < self.wanted


def seconds(f: Callable[[], Any]) -> float:
    """CPU seconds of one run."""
    start = time.process_time()
    f()
    return time.process_time() - start


def measure(case: Case, repeat: int) -> Result:
    """Compare, then time both in turn.  Raises ClickException where results differ that must not."""
    differ = 0 if case.differ is None else case.differ(case.ours(), case.theirs())
    if differ and case.exact:
        raise click.ClickException(f"{' '.join(case.labels[:-1])}: {differ} results differ from {case.labels[-1]}")
    pairs = [(seconds(case.ours) / case.n, seconds(case.theirs) / case.their_n) for _ in range(repeat + 1)][1:]
    ours, theirs = (max(float(np.median(column)), 1e-15) for column in zip(*pairs, strict=True))
    ratio = float(np.median([b / max(a, 1e-15) for a, b in pairs]))
    best = min(b for _, b in pairs) / max(min(a for a, _ in pairs), 1e-15)
    return Result(case.labels, 1e-6 / ours, 1e-6 / theirs, ratio, best, case.wanted, differ)


def measure_all(cases: Sequence[Case], repeat: int) -> list[Result]:
    """Every case, with a bar."""
    return [measure(case, repeat) for case in track(cases, description="timing", transient=True)]


def extra_memory(jobs: Mapping[str, Callable[[], Any]], nbytes: Callable[[Any], int]) -> dict[str, int]:
    """Peak bytes beyond input and output.  nbytes: those of an output that the job makes."""
    found = {}
    for name, job in jobs.items():
        job()
        tracemalloc.start()
        made = job()
        found[name] = tracemalloc.get_traced_memory()[1] - nbytes(made)
        tracemalloc.stop()
    return found


def show(head: Sequence[str], results: Iterable[Result], memory: Mapping[str, int]) -> None:
    """The table, losing rows too.  head: of the labels."""
    rows = list(results)
    table = Table(*head, "ours M/s", "peer M/s", "ratio", "of the best", "wanted", "differ")
    for r in rows:
        wanted = "" if r.wanted is None else f"{r.wanted:.1f} {'MISSED' if r.missed else 'ok'}"
        figures = f"{r.ours:.1f}", f"{r.theirs:.2f}", f"{r.ratio:.2f}", f"{r.best:.2f}"
        table.add_row(*r.labels, *figures, wanted, str(r.differ or ""))
    console = Console(width=120)
    console.print(table)
    for name, peak in memory.items():
        console.print(f"memory beyond input and output, {name}: {peak / 1024:.0f} KiB")
    wanted_ones = [r for r in rows if r.wanted is not None]
    if wanted_ones:
        click.echo(f"{sum(r.missed for r in wanted_ones)} of {len(wanted_ones)} wanted ratios missed")


def write(
    path: Path,
    head: Sequence[str],
    results: Iterable[Result],
    memory: Mapping[str, int],
    n: int,
    packages: Iterable[str],
) -> None:
    """The figures as JSON.  packages: whose versions are told beside NumPy's."""
    about = {"machine": platform.machine(), "python": platform.python_version(), "numbers": n}
    about |= {name: version(name) for name in ("numpy", *packages)}
    rows = [{**dict(zip(head, r.labels, strict=True)), **asdict(r)} for r in results]
    for row in rows:
        del row["labels"]
    record = {"about": about, "results": rows, "extra_bytes": memory}
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


JSON = click.option("--json", "path", type=click.Path(path_type=Path), help="Write the figures here as well.")
