"""Docstrings as Markdown, for the API reference: griffe, which reads them for mkdocstrings, runs this first.

Docstrings here are plain text in blocks with a blank line between::

    from >>> on               a doctest, which becomes a block of code
    from === on               a table, which becomes a block of text
    indented                  a block of text already
    any other                 a paragraph, with *, _, <, [ and # as they stand

Source: griffe's documentation of extensions; CommonMark 0.31, 2.4, for the escapes.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_FLAG = re.compile(r"\s*# doctest: .*")
_CODE = re.compile(r"(`[^`]*`)")
_SPECIAL = re.compile(r"([*_\[#\\])")


def markdown(text: str) -> str:
    """A docstring, dedented, as Markdown.

    >>> print(markdown("2**n of <x>, see `a*b`::\\n\\n    a  b"))
    2\\*\\*n of &lt;x>, see `a*b`:
    <BLANKLINE>
        a  b
    """
    return "\n\n".join(_block(block) for block in re.split(r"\n\s*\n", text.strip("\n")))


def _block(block: str) -> str:
    if block.startswith(">>>"):
        lines = "\n".join(_FLAG.sub("", line) for line in block.splitlines()).replace("<BLANKLINE>", "")
        return f"```pycon\n{lines}\n```"
    if block.startswith("==="):
        return f"```text\n{block}\n```"
    if block.startswith("    "):
        return block
    words = _CODE.split(block.removesuffix("::") + ":" * block.endswith("::"))
    return "".join(part if part.startswith("`") else _plain(part) for part in words)


def _plain(text: str) -> str:
    """Text that Markdown leaves as it stands; it has no escape for <."""
    return _SPECIAL.sub(r"\\\1", text).replace("<", "&lt;")


class Docstrings(griffe.Extension):  # type: ignore[misc] # the class has no types where griffe is missing
    """Rewrite every docstring, once."""

    def __init__(self) -> None:
        """Nothing is rewritten yet."""
        self.paths: set[str] = set()

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring and obj.path not in self.paths:
            self.paths.add(obj.path)
            obj.docstring.value = markdown(obj.docstring.value)

    def on_package(self, *, pkg: Any, **_: Any) -> None:
        """Called for the package, of which `on_object` does not hear."""
        self.on_object(obj=pkg)
