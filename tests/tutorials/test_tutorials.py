"""The tutorials: pairs, form, and exercises that only a right answer passes."""

from __future__ import annotations

import contextlib
import functools
import io
import multiprocessing.process
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import nbformat
import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.image import imread

import docs_lite
import feather_ref
import notebooks
import shots

SOURCES = notebooks.sources()
FOLDER = notebooks.FOLDER
NAMES = (
    "01_one_byte", "02_rounding", "03_overflow", "04_packing_words", "05_blocks", "06_dynamic_bits", "07_first_kernel",
    "08_your_own_format", "09_judge",
)  # fmt: skip
SIMULATED = "07_first_kernel"  # needs greenlet and the kernels, which not everybody has

# For each exercise a change of its solution that makes it wrong: the judge must see it.
MISTAKES = {
    "01_one_byte": ("2.0**-14", "2.0**-15"),
    "02_rounding": ("(sticky or kept & 1)", "kept & 1"),
    "03_overflow": ("> 464", ">= 464"),
    "04_packing_words": ("return 0x7F\n", "return 0x7C\n"),
    "05_blocks": ("math.frexp(x)", "(0, math.floor(math.log2(x)) + 2)"),
    "06_dynamic_bits": ("1 - bias - m", "-bias - m"),
    "07_first_kernel": ("127 - 8", "127 - 7"),
    "08_your_own_format": ("code % 2", "code % 3"),
    "09_judge": ("bits |= np.uint32(1)", "pass"),
}
PARTS = (
    "After this you can", "You need", "No GPU", "## By hand", "## A common mistake", "## Your turn",
    "## In the standard", "CC BY 4.0",
)  # fmt: skip

# What Python in a browser cannot do; their modules are there, and can be imported.
IMPOSSIBLE = (
    (threading.Thread, "start"), (subprocess.Popen, "__init__"), (multiprocessing.process.BaseProcess, "start"),
    (socket.socket, "connect"),
)  # fmt: skip

every = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)


def cells(source: Path, kind: str) -> list[Any]:
    return [cell for cell in notebooks.read(source).cells if cell.cell_type == kind]


def lines(code: str) -> list[str]:
    return [line for line in code.splitlines() if line.strip()]


def solution(source: Path) -> str:
    return (FOLDER / "solutions" / source.name).read_text(encoding="utf-8")


class Ran(NamedTuple):
    """What a run left: its names, its text, and what it showed."""

    names: dict[str, Any]
    text: str
    shown: list[Any]


@contextlib.contextmanager
def as_in_a_browser() -> Iterator[None]:
    """No threads, no processes, no sockets."""
    with contextlib.ExitStack() as stack:
        for owner, name in IMPOSSIBLE:
            stack.enter_context(mock.patch.object(owner, name, side_effect=OSError("not in a browser")))
        yield


@functools.cache
def ran(source: Path) -> Ran:
    """A notebook, run as a student gets it; those for browsers, as if in one."""
    shown: list[Any] = []
    text = io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(text))
        stack.enter_context(mock.patch.dict(os.environ))
        if source.with_suffix(".ipynb") in docs_lite.notebooks():
            stack.enter_context(as_in_a_browser())
        if source.stem == SIMULATED:
            os.environ["FEATHER_TARGET"] = "simulator"
            kernels = pytest.importorskip("feather_kernels", reason="no kernels, or no greenlet", exc_type=ImportError)
            if kernels.TARGET != "simulator":
                pytest.skip("the kernels are already loaded for the GPU")
        names = notebooks.execute(notebooks.read(source), shown.append)
    return Ran(names, text.getvalue(), shown)


def judged(source: Path, code: str) -> bool:
    """The verdict of the notebook's judge on another exercise cell."""
    names = dict(ran(source).names)
    judge = next(cell.source for cell in cells(source, "code") if "judge" in cell.metadata.get("tags", []))
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, names)
        exec(judge, names)
    return bool(names["result"])


# --- in a browser -----------------------------------------------------------------------------


def test_six_are_for_browsers_and_a_browser_has_what_they_import() -> None:
    given = {*sys.stdlib_module_names, "feather_ref", "matplotlib", "numpy"}  # of Pyodide and of the page
    assert [path.stem for path in docs_lite.notebooks()] == list(NAMES[:6])
    for path in docs_lite.notebooks():
        code = "\n".join(cell.source for cell in cells(path.with_suffix(".py"), "code"))
        assert {name.partition(".")[0] for name in re.findall(r"^ *(?:import|from) ([\w.]+)", code, re.M)} <= given


def test_what_they_import_starts_no_threads_and_no_processes() -> None:
    owners = sorted({owner.__module__ for owner, _ in IMPOSSIBLE})
    taken = "".join(f"{owner.__module__}.{owner.__name__}.{name} = None\n" for owner, name in IMPOSSIBLE)
    code = f"import numpy, matplotlib.figure, {', '.join(owners)}\n{taken}"
    code += "from feather_ref import allocate, blocks, conformance, draw\n"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- pairs ------------------------------------------------------------------------------------


def test_all_are_there() -> None:
    assert tuple(source.stem for source in SOURCES) == NAMES


def test_pairs_are_equal() -> None:
    assert notebooks.differing() == [], "run python tools/notebooks.py build"


@every
def test_nothing_of_a_run_is_kept(source: Path) -> None:
    notebook = nbformat.read(source.with_suffix(".ipynb"), 4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


@every
def test_first_cell_installs_this_release(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    assert notebooks.pinned(text) == text, "run python tools/notebooks.py build"
    first = cells(source, "code")[0].source
    assert f"=={feather_ref.__version__}" in first
    assert "except ImportError" in first


def test_build_mends_and_check_complains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tutorials"
    folder.mkdir()
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    monkeypatch.setattr(notebooks, "FOLDER", folder)
    shutil.copy(SOURCES[0], folder)
    run = functools.partial(CliRunner().invoke, notebooks.main)
    missing = run(["check"])
    assert (missing.exit_code, "01_one_byte.ipynb is not" in missing.output) == (1, True)
    assert run(["build"]).exit_code == 0
    built = folder / "01_one_byte.ipynb"
    assert built.read_text(encoding="utf-8") == SOURCES[0].with_suffix(".ipynb").read_text(encoding="utf-8")
    assert run(["check"]).exit_code == 0
    built.write_text(built.read_text(encoding="utf-8").replace("3.25", "3.5"), encoding="utf-8")
    assert run(["check"]).exit_code == 1


def test_run_wants_a_name_that_exists() -> None:
    answer = CliRunner().invoke(notebooks.main, ["run", "99"])
    assert (answer.exit_code, "no notebook is called 99" in answer.output) == (2, True)


def test_shots_draws_every_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    monkeypatch.setattr(shots, "FOLDER", tmp_path / "shots")
    answer = CliRunner().invoke(shots.main, ["01"])
    assert (answer.exit_code, answer.output) == (0, "shots/01_one_byte.png: 3 pictures\n")
    height, width, _ = imread(tmp_path / "shots" / "01_one_byte.png").shape
    assert (width, height > 3 * 200) == (3 * shots.WIDE + shots.NARROW + 5 * 2 * shots.GAP, True)


def test_deuteranopia_mixes_up_red_and_green() -> None:
    red, green, blue, grey = np.eye(4, 3, dtype=np.float32) + np.float32([[0], [0], [0], [0.5]])
    seen = [shots.as_deuteranope(colour) for colour in (red, green, blue, grey)]
    assert seen[0][2] < 0.1 and seen[1][2] < 0.3  # both are without blue, so yellow or brown
    assert np.abs(seen[0] - seen[1]).max() < 0.5 < np.abs(red - green).max()
    np.testing.assert_allclose(seen[3], grey, atol=1e-3)


# --- form -------------------------------------------------------------------------------------


@every
def test_cells_are_short(source: Path) -> None:
    code = [len(lines(cell.source)) for cell in cells(source, "code")]
    text = [len(cell.source.split()) for cell in cells(source, "markdown")]
    assert 3 <= statistics.median(code) <= 8
    assert 30 <= statistics.median(text) <= 60


@every
def test_every_part_is_there(source: Path) -> None:
    text = "\n".join(cell.source for cell in cells(source, "markdown"))
    assert [part for part in PARTS if part not in text] == []
    assert re.search(r"About \d+ minutes", text)
    mistake = text.partition("## A common mistake")[2].partition("\n## ")[0]
    assert "https://github.com/" in mistake  # where it happened


@every
def test_links_lead_somewhere(source: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", source.read_text(encoding="utf-8").replace("\n# ", " ")):
        assert target.startswith("https://") or (FOLDER / target).is_file(), target


def test_map_names_every_notebook() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    review = (FOLDER / "REVIEW.md").read_text(encoding="utf-8")
    for source in SOURCES:
        title = cells(source, "markdown")[0].source.splitlines()[0].removeprefix("# ")
        assert f"[{title}]({source.stem}.ipynb)" in text
        minutes = re.search(r"About (\d+) minutes", source.read_text(encoding="utf-8"))
        assert minutes and f"| {minutes[1]} |" in text
        assert source.stem in review


# --- they run ---------------------------------------------------------------------------------


@every
def test_runs_and_shows_pictures(source: Path) -> None:
    assert [type(value).__name__ for value in ran(source).shown if type(value).__name__ in ("Figure", "Explanation")]


@every
def test_unsolved_exercise_says_so_kindly(source: Path) -> None:
    assert not ran(source).names["result"]
    assert "Not solved yet, and that is fine" in ran(source).text


@every
def test_solution_passes(source: Path) -> None:
    assert judged(source, solution(source))


@every
def test_wrong_solution_does_not_pass(source: Path) -> None:
    right, wrong = MISTAKES[source.stem]
    assert solution(source).count(right) == 1
    assert not judged(source, solution(source).replace(right, wrong))


@every
def test_notebook_does_not_hold_its_solution(source: Path) -> None:
    there = {line.strip() for line in source.read_text(encoding="utf-8").splitlines()}
    _, _, body = solution(source).partition("\ndef ")
    answer = {line.strip() for line in lines(body)[1:]}
    assert answer
    assert not answer & there
