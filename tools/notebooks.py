"""The tutorials: py:percent sources, and beside each its .ipynb, which opens with one click.

    python tools/notebooks.py build          # write the .ipynb, and the release into the first cells
    python tools/notebooks.py check          # say which .ipynb are not what their source makes; exit 1
    python tools/notebooks.py run [NAME ...]  # in a real Jupyter kernel; the results go to build/notebooks

A notebook has no outputs, and the id of a cell is its place, so that a rebuild gives the same bytes.
Magics such as %pip are comments in the source, so that Python runs it as it stands.

Source: jupytext's documentation of the percent format; nbformat 4.5 for the ids of cells.
"""

from __future__ import annotations

import ast
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import jupytext
import nbformat

import feather_ref

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tutorials"
RESULTS = ROOT / "build" / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
PIN = re.compile(r'("feather-ref(?:\[[\w,]+\])?==)[^"]*(")')  # in the first code cell
SECONDS = 300  # for one cell
QUIET = ["--log-level=ERROR"]  # of the kernel: it warns that TCP is not encrypted

Cell = Any  # a NotebookNode, which has no types
Show = Callable[[Any], None]


def sources() -> list[Path]:
    """The sources of all notebooks, in order."""
    return sorted(FOLDER.glob("[0-9][0-9]_*.py"))


def read(source: Path, magics: bool = False) -> Any:
    """A source as a notebook; magics: as such, not as comments."""
    text = source.read_text(encoding="utf-8")
    notebook = jupytext.reads(text, {"extension": ".py", "format_name": "percent", "comment_magics": magics})
    for place, cell in enumerate(notebook.cells, 1):
        cell["id"] = f"{source.stem}-{place:02d}"
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def render(source: Path) -> str:
    """The text of the .ipynb that belongs to a source."""
    notebook = read(source, magics=True)
    nbformat.validate(notebook)
    return str(nbformat.writes(notebook)) + "\n"


def differing() -> list[Path]:
    """The .ipynb that are missing, left over, or not what their source makes."""
    wanted = {source.with_suffix(".ipynb"): render(source) for source in sources()}
    found = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.ipynb")}
    return sorted(path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path))


def pinned(text: str) -> str:
    """A source whose first cell installs this release.

    >>> pinned('%pip install -q "feather-ref[draw]==0.0"').endswith(f'[draw]=={feather_ref.__version__}"')
    True
    """
    return PIN.sub(rf"\g<1>{feather_ref.__version__}\g<2>", text)


# --- as a script ------------------------------------------------------------------------------


def execute(notebook: Any, show: Show | None = None, instead: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run the code cells of `read`, one after the other; returns the names that they made.

    show: gets the value of each cell that ends in an expression, as a reader would see it.
    instead: other code for the cells with a tag, by tag.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            tags = cell.metadata.get("tags", [])
            code = next((text for tag, text in (instead or {}).items() if tag in tags), cell.source)
            value = _run(code, cell["id"], names)
            if show and value is not None:
                show(value)
    return names


def _run(code: str, name: str, names: dict[str, Any]) -> Any:
    """Run one cell; returns the value of its last line, if that is an expression."""
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    return eval(compile(ast.Expression(last.value), name, "eval"), names) if isinstance(last, ast.Expr) else None


# --- in a kernel ------------------------------------------------------------------------------


def run_in_kernel(source: Path) -> int:
    """Run a notebook in Jupyter and keep what came out; returns how many pictures did.

    Raises RuntimeError where a cell fails, or writes to stderr as warnings do.
    """
    from nbclient import NotebookClient  # noqa: PLC0415 - for this command alone
    from nbclient.exceptions import CellExecutionError  # noqa: PLC0415 - as above

    notebook = read(source, magics=True)
    place = {"metadata": {"path": str(FOLDER)}}
    try:
        NotebookClient(notebook, timeout=SECONDS, resources=place, extra_arguments=QUIET).execute()
    except CellExecutionError as error:
        raise RuntimeError(f"{source.name}: {error}") from error
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    for output in outputs:
        if output.get("name") == "stderr":
            raise RuntimeError(f"{source.name} wrote to stderr: {output['text']}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{source.stem}.ipynb").write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
    return sum("image/png" in output.get("data", {}) for output in outputs)


# --- the commands -----------------------------------------------------------------------------


@click.group()
def main() -> None:
    """Build, check and run the notebooks in tutorials/."""


@main.command()
def build() -> None:
    """Write every .ipynb from its source, and the release into the first cells."""
    for source in sources():
        text = source.read_text(encoding="utf-8")
        if (right := pinned(text)) != text:
            source.write_text(right, encoding="utf-8")
        source.with_suffix(".ipynb").write_text(render(source), encoding="utf-8")
    print(f"{len(sources())} notebooks in {FOLDER.relative_to(ROOT)}")


@main.command()
def check() -> None:
    """Exit 1 where an .ipynb is not what its source makes."""
    wrong = differing()
    for path in wrong:
        print(f"{path.relative_to(ROOT)} is not what its source makes: run python tools/notebooks.py build")
    sys.exit(bool(wrong))


@main.command()
@click.argument("names", nargs=-1)
def run(names: tuple[str, ...]) -> None:
    """Run notebooks in a real Jupyter kernel: all, or those whose name begins with NAMES."""
    chosen = [source for source in sources() if not names or source.name.startswith(names)]
    if not chosen:
        raise click.UsageError(f"no notebook is called {' or '.join(names)}")
    failed: list[str] = []
    for place, source in enumerate(chosen, 1):
        start = time.monotonic()
        print(f"{place}/{len(chosen)} {source.stem} ... ", end="", flush=True)
        try:
            pictures = run_in_kernel(source)
        except RuntimeError as error:
            failed.append(source.stem)
            print(f"FAILED\n{error}")
        else:
            print(f"{time.monotonic() - start:.1f} s, {pictures} pictures")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
