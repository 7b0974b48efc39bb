"""The tools of the kernels: what the suite on a GPU counts, and the tables of the page."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import feather_ref as fr
import gpu_suite
import kernel_inputs
import kernel_tables
from feather_kernels import _target

# --- the suite --------------------------------------------------------------------------------


def report(name: str, when: str, outcome: str, said: Any = "", seconds: float = 1.0) -> Any:
    """What pytest reports of a part of a test."""
    return SimpleNamespace(
        nodeid=f"tests/kernels/{name}", when=when, longrepr=said, duration=seconds,
        failed=outcome == "failed", skipped=outcome == "skipped",
    )  # fmt: skip


def test_a_test_counts_once() -> None:
    """Set up, called and torn down; a test may fail twice, and be skipped before it is called."""
    outcome = gpu_suite.Outcome()
    for when in ("setup", "call", "teardown"):
        outcome.pytest_runtest_logreport(report("a.py::one", when, "passed", seconds=2.0))
    outcome.pytest_runtest_logreport(report("a.py::two[x/y]", "setup", "passed"))
    for when in ("call", "teardown"):
        outcome.pytest_runtest_logreport(report("a.py::two", when, "failed", "a long text"))
    for name in ("three", "four"):
        outcome.pytest_runtest_logreport(
            report(f"b.py::{name}@large", "setup", "skipped", ("b.py", 3, "Skipped: no torch"))
        )
    outcome.pytest_collectreport(SimpleNamespace(nodeid="c.py", failed=True))
    facts = outcome.facts()
    assert (facts["passed"], facts["failed"], facts["skipped"]) == (1, ["a.py::two", "c.py"], {"no torch": 2})
    assert facts["slowest"]["a.py::one"] == 6.0


def test_several_processes_share_the_tests() -> None:
    assert "-n" not in gpu_suite.options(1)
    assert gpu_suite.options(3)[-4:] == ["-n", "3", "--dist", "loadgroup"]


@pytest.mark.skipif(not _target.SIMULATOR, reason="there may be a GPU")
def test_the_suite_needs_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FEATHER_TARGET", "simulator")  # which the command changes
    monkeypatch.setitem(sys.modules, "cupy", None)
    line = tmp_path / "a.jsonl"
    done = CliRunner().invoke(gpu_suite.main, ["--processes", "1", "-o", str(line)])
    assert done.exit_code == 1
    assert done.output.startswith("Error: CuPy launches the kernels, and ")
    assert not line.exists()


def test_on_a_gpu_every_choice_is_met_by_some_row(monkeypatch: pytest.MonkeyPatch) -> None:
    every = ["a", "b", "c", "d", "e", "f"]
    assert all(kernel_inputs.in_turn(every, row) == every for row in kernel_inputs.ROWS) == _target.SIMULATOR
    monkeypatch.setattr(kernel_inputs._target, "SIMULATOR", False)
    found = {row.name: kernel_inputs.in_turn(every, row) for row in kernel_inputs.ROWS}
    assert found["e4m3"] == every
    assert {len(some) for name, some in found.items() if name not in kernel_inputs.WHOLE} == {1}
    assert {some[0] for name, some in found.items() if name not in kernel_inputs.WHOLE} == {*every}
    assert {*found} == {row.name for row in kernel_inputs.ROWS} >= {*fr.FORMATS}


# --- the tables -------------------------------------------------------------------------------


def test_the_page_has_the_figures_of_its_file() -> None:
    text = kernel_tables.PAGE.read_text(encoding="utf-8")
    assert len(kernel_tables.REGION.findall(text)) == 1
    assert kernel_tables.page(text) == text


def test_the_page_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the published run; what stood between the lines before is gone."""
    page, results = tmp_path / "README.md", tmp_path
    run = json.loads((kernel_tables.RESULTS / "h200.json").read_text(encoding="utf-8"))
    (results / "a.json").write_text(json.dumps(run), encoding="utf-8")
    page.write_text("before\n<!-- figures of a.json -->\nold\n<!-- end of figures -->\nafter\n", encoding="utf-8")
    monkeypatch.setattr(kernel_tables, "PAGE", page)
    monkeypatch.setattr(kernel_tables, "RESULTS", results)
    assert kernel_tables.main(["--check"]) == 1
    assert kernel_tables.main([]) == 0
    assert kernel_tables.main(["--check"]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- figures of a.json -->\n\nOne NVIDIA H200")
    assert text.endswith("<!-- end of figures -->\nafter\n")
    assert "old" not in text
    row = next(row for row in run["rows"] if row["work"] == "gemv" and row["format"] == "e4m3")
    assert f"| e4m3 | {row['us']:.1f} | {row['gbs']:,.0f} |" in text
