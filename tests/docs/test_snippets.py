"""Every snippet of the documentation does what it says there.

The ```python blocks of a page run one after the other, as a reader would type them; what follows "prints" is what they
print.  In a ```console block each line after $ is a command of ours, and below it stands what it prints.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click import Context
from click.testing import CliRunner

from feather_ref import golden
from feather_ref.cli import cli

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```(?:\n\nprints\n\n```text\n(.*?)^```)?$", re.MULTILINE | re.DOTALL)
SILENT = ("bash", "c", "powershell", "text")  # shown, not run: a shell's own work, or a file that other tests compile
every = pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Language, text, and what stands after "prints"."""
    return [(found[1], found[2], found[3] or "") for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, with what it prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, wanted = part.partition("\n")
        yield command, wanted


def printed(source: str, page: str, names: dict[str, Any]) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(source, page, "exec"), names)
    return shown.getvalue()


def answered(command: str) -> str:
    program, *arguments = shlex.split(command)
    assert program == "feather-ref"
    result = CliRunner().invoke(cli, arguments, prog_name=program)
    assert result.exit_code == 0, result.output
    return "".join(f"{line.rstrip()}\n" for line in result.output.splitlines())


def test_there_are_pages() -> None:
    assert {page.stem for page in PAGES} >= {"index", "start", "policies", "words", "blocks", "judge"}


@every
def test_languages_are_known(page: Path) -> None:
    """A misspelt language would leave a block out of the tests."""
    assert {language for language, _, _ in blocks(page)} <= {"python", "console", *SILENT}
    assert page.read_text(encoding="utf-8").count("\n```") % 2 == 0


@every
def test_python_prints_what_it_says(page: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for language, source, wanted in blocks(page):
        if language == "python":
            assert printed(source, page.name, names) == wanted, source


@every
def test_commands_print_what_they_say(page: Path) -> None:
    for language, text, _ in blocks(page):
        if language == "console":
            for command, wanted in commands(text):
                assert answered(command) == wanted, command


def test_the_adapter_of_the_page_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = [text for _, text, _ in blocks(DOCS / "judge.md") if "import Adapter" in text]
    (tmp_path / "own_mine.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    arguments = ["conform", "--impl", "own_mine:adapter", "--suite", "convert.f32.e4m3.*.run"]
    result = CliRunner().invoke(cli, arguments, prog_name="feather-ref")
    assert result.exit_code == 0, result.output
    assert re.search(r"^all +2 ", result.output, re.MULTILINE), result.output


@every
def test_commands_that_only_stand_there_exist(page: Path) -> None:
    """Those of ```bash blocks read and write files; their names, options and vectors are looked up."""
    lines = [line for language, text, _ in blocks(page) if language == "bash" for line in text.splitlines()]
    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        if program == "feather-ref":
            command = cli.commands[arguments[0]]
            command.make_parser(Context(command)).parse_args(arguments[1:])  # an unknown option is an error
            asked = [word for word in arguments if word.startswith("convert.") and "*" not in word]
            assert set(asked) <= set(golden.manifest())
