"""The page of an explanation, as text in columns and as HTML.

A page has a title, fields (bits over names over places), facts and tables::

    bits      0     1111      110
    field     sign  exponent  mantissa
    at        7     6..3      2..0

Text is at most 88 columns wide.  HTML has no script, style sheet or link; fields are tinted through, and
text keeps the notebook's own colour, so that light and dark both read.

Source: design of this project; Okabe and Ito, Color Universal Design, 2008, for the colours.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from feather_ref._anatomy import Field, Number
from feather_ref.formats import Format

WIDTH = 88  # columns of text

COLOURS = {
    "sign": "#D55E00",
    "exponent": "#0072B2",
    "mantissa": "#009E73",
    "integer": "#009E73",
    "index": "#CC79A7",
    "even lane": "#0072B2",
    "odd lane": "#D55E00",
    "rest": "#999999",
}
"""A colour for each role of a field: those of Okabe and Ito, which the colour-blind can tell apart."""


class Table(NamedTuple):
    """Rows of cells under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, repr=False)
class Explanation:
    """What `explain` found out; `str` gives text, a notebook shows HTML, an interpreter the text.

    code: None for a format or a word, or where a policy makes the number an error.  value: of the
    code; None where there is none.  facts: pairs of a name and a text.
    """

    title: str
    fmt: Format
    code: int | None
    value: Number | None
    fields: tuple[Field, ...]
    facts: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]

    def __str__(self) -> str:
        return _text(self)

    def __repr__(self) -> str:
        return _text(self)

    def _repr_html_(self) -> str:
        return _html(self)


# --- text -------------------------------------------------------------------------------------


def _text(explanation: Explanation) -> str:
    """Blocks with a blank line between them, all in columns, at most WIDTH wide."""
    indent = max([8, *(len(name) for name, _ in explanation.facts)]) + 2
    blocks = [[explanation.title]]
    blocks += [_columns(rows) for rows in _field_rows(explanation.fields, indent)]
    blocks.append([line for name, text in explanation.facts for line in _fact_lines(name, text, indent)])
    blocks += [_columns([table.head, *table.rows]) for table in explanation.tables]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return [f"  {line}".rstrip() for line in lines]


def _field_rows(fields: Sequence[Field], indent: int) -> list[list[list[str]]]:
    """Bits over names over places; as many rows of them as the width takes."""
    blocks: list[list[Field]] = []
    room = 0
    for field in fields:
        width = max(map(len, (field.bits, field.name, field.at))) + 2
        if not blocks or width > room:
            blocks.append([])
            room = WIDTH - indent
        blocks[-1].append(field)
        room -= width
    return [
        [
            ["bits".ljust(indent - 2), *(field.bits for field in block)],
            ["field", *(field.name for field in block)],
            ["at", *(field.at for field in block)],
        ]
        for block in blocks
    ]


def _fact_lines(name: str, text: str, indent: int) -> list[str]:
    wrapped = textwrap.wrap(text, WIDTH - indent - 2)
    return [f"  {label:<{indent}}{line}" for label, line in zip([name, *[""] * len(wrapped)], wrapped, strict=False)]


# --- HTML -------------------------------------------------------------------------------------

# Text keeps the notebook's own colour and fields are tinted through, so light and dark both read.
_CELL = "text-align:left;padding:0.1em 0.6em;vertical-align:top;white-space:nowrap"
_WRAP = ";white-space:normal;overflow-wrap:anywhere"  # 120 digits have no blank
_TABLE = "border-collapse:collapse;margin:0.5em 0;font-family:monospace;font-size:inherit"


def _html(explanation: Explanation) -> str:
    """One element without scripts, style sheets or links."""
    parts = [f"<div><strong>{html.escape(explanation.title)}</strong></div>"]
    if explanation.fields:
        parts.append(_html_fields(explanation.fields))
    parts.append(_html_table([], explanation.facts, _WRAP))
    parts += [_html_table(table.head, table.rows) for table in explanation.tables]
    return f'<div class="feather-explanation" style="overflow-x:auto">{"".join(parts)}</div>'


def _html_cell(text: str, tag: str = "td", style: str = "") -> str:
    return f'<{tag} style="{_CELL}{style}">{html.escape(text)}</{tag}>'


def _html_fields(fields: Sequence[Field]) -> str:
    tints = [f";background:{COLOURS[field.role]}40;border-bottom:3px solid {COLOURS[field.role]}" for field in fields]
    bits = "".join(_html_cell(field.bits, style=tint) for field, tint in zip(fields, tints, strict=True))
    names = "".join(_html_cell(field.name) for field in fields)
    places = "".join(_html_cell(field.at) for field in fields)
    return f'<table style="{_TABLE}"><tbody><tr>{bits}</tr><tr>{names}</tr><tr>{places}</tr></tbody></table>'


def _html_table(head: Sequence[str], rows: Iterable[Sequence[str]], style: str = "") -> str:
    top = f"<thead><tr>{''.join(_html_cell(cell, 'th') for cell in head)}</tr></thead>" if head else ""
    body = "".join(
        f"<tr>{_html_cell(row[0], 'th')}{''.join(_html_cell(cell, style=style) for cell in row[1:])}</tr>"
        for row in rows
    )
    return f'<table style="{_TABLE}">{top}<tbody>{body}</tbody></table>'
