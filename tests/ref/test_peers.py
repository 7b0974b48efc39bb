"""What the benchmarks share: wrong results are never timed, and a ratio is of the medians' pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest

import peers
from peers import Case, extra_memory, measure, show, write

ADD, SUB = (lambda: 3), (lambda: 2)


def test_results_that_differ_are_not_timed() -> None:
    case = Case(("add", "numpy"), ADD, SUB, 1, 1, lambda a, b: abs(a - b))
    with pytest.raises(click.ClickException, match="add: 1 results differ from numpy"):
        measure(case, 1)


def test_ratios_are_pair_by_pair(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Seconds typed here: ours 1, 2, 4 and the peer's 2, 8, 4 after a first pair that does not count."""
    times: Iterator[float] = iter([9.0, 9.0, 1.0, 2.0, 2.0, 8.0, 4.0, 4.0])
    monkeypatch.setattr(peers, "seconds", lambda job: next(times))
    found = measure(Case(("add", "numpy"), ADD, SUB, 1_000_000, 500_000, lambda a, b: 7, False, 5.0), 3)
    assert (found.ours, found.theirs) == (0.5, 0.125)  # medians of 2 s, and of 4 s for half as many
    assert (found.ratio, found.best, found.differ, found.missed) == (4.0, 4.0, 7, True)  # of 4, 8 and 2
    write(tmp_path / "a.json", ("what", "peer"), [found], {"x": 1}, 5, ())
    row = json.loads((tmp_path / "a.json").read_text())["results"][0]
    assert row["what"] == "add" and row["ratio"] == 4.0 and "labels" not in row


def test_the_table_and_the_memory(capsys: pytest.CaptureFixture[str]) -> None:
    found = measure(Case(("add", "numpy"), ADD, ADD, 1, 1, wanted=1e30), 1)
    memory = extra_memory({"twice": lambda: np.ones(1 << 16)}, lambda out: out.nbytes)
    assert 0 <= memory["twice"] < 1 << 16
    show(("what", "peer"), [found], memory)
    text = capsys.readouterr().out
    assert "MISSED" in text and "1 of 1 wanted ratios missed" in text and "twice" in text
