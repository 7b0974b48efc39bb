"""The examples in README.md print what they say."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parent.parent.parent / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\s+prints\s+```text\n(.*?)```", README, re.DOTALL)


def test_there_is_an_example() -> None:
    assert EXAMPLES


@pytest.mark.parametrize(("source", "wanted"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_example_prints_what_it_says(source: str, wanted: str) -> None:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(source, "README.md", "exec"), {})
    assert shown.getvalue() == wanted
