"""The format catalogue of the documentation: a page for each named format, and tables of them, made from the rows.

    formats/<name>.md    fields and value as pictures, figures, policies with their codes, every value (up to 8 bits)
    formats/index.md     all of them in one table

Pictures are SVG in the page itself; their ink is the colour of the text around, so that light and dark both read.

Source: design of this project.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import matplotlib

import feather_ref as fr
from feather_ref import draw
from feather_ref._anatomy import decimal_text, fields_of, hex_code, number_of, spaced
from feather_ref.explorer import MAX_BITS

BRIEF = 7  # digits of a number in a table
LOG_FROM = 4  # exponent bits: so many cram the values of a plain number line together near zero
INK, PAPER = "#1a1a1a", "#ffffff"  # of `draw` in the light
ALONE = ("aliases", "source")  # facts that stand at the top of the page
Rows = Iterable[Sequence[str]]


def table(head: Sequence[str], rows: Rows) -> str:
    """A table in Markdown; cells are Markdown too.

    >>> print(table(("a", "b"), [("1", "x|y")]))
    | a | b |
    |---|---|
    | 1 | x\\|y |
    """
    lines = [head, ["---"] * len(head), *rows]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"|{'|'.join(line)}|" if i == 1 else f"| {' | '.join(line)} |" for i, line in enumerate(cells))


def code(text: str) -> str:
    """Text as code, where there is some."""
    return f"`{text}`" if text else ""


def _codes(text: str) -> str:
    """Parts with a comma between as codes, so that a line can end after each."""
    return ", ".join(map(code, text.split(", ")))


# --- pictures ---------------------------------------------------------------------------------


def picture(figure: Any, label: str) -> str:
    """A figure as SVG for a page; label: what a reader who does not see it is told."""
    file = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "feather-ref"}):  # the same names on every run
        figure.savefig(file, format="svg", metadata={"Date": None})
    svg = file.getvalue()
    unwanted = r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->"  # a style would reach the whole page
    svg = re.sub(unwanted, "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r"\s*\n\s*", " ", svg)  # Markdown takes a blank line for the end of HTML
    svg = svg.replace(INK, "currentColor").replace(f"fill: {PAPER}", "fill: none")
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    name = html.escape(label, quote=True)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{name}"', 1)
    return f'<div class="picture">{svg.strip()}</div>'


# --- a page -----------------------------------------------------------------------------------


def format_page(row: fr.Format) -> str:
    """The page of one format.

    >>> "[Open it in the bit explorer](../explorer.html#f=e4m3)" in format_page(fr.FORMATS["e4m3"])
    True
    """
    found = fr.explain(row)
    facts = dict(found.facts)
    parts = [f"# {row.name}", f"{kind_of(row)}. Source: {row.source}.", _aliases(row), _link(row)]
    parts += ["## Fields", picture(draw.bit_fields(row), f"The fields of {row.name}, and its value")]
    parts += ["## Values", *_lines(row)]
    parts.append(table(("what", row.name), [(name, _codes(text)) for name, text in facts.items() if name not in ALONE]))
    if row.bits <= MAX_BITS:
        parts.append(_values(row))
    policies = [each for each in found.tables if each.head[0] != "code"]
    if policies:
        parts += ["## Policies", "What each choice gives; a star marks the default. [What they mean](../policies.md)."]
        parts += [table(each.head, [(name, *map(code, cells)) for name, *cells in each.rows]) for each in policies]
    parts += ["## Use it", use(row)]
    return "\n\n".join(part for part in parts if part) + "\n"


def kind_of(row: fr.Format) -> str:
    """What a format is made of, in a few words.

    >>> kind_of(fr.FORMATS["e4m3"]), kind_of(fr.FORMATS["nf4"])
    ('8 bits: 1 sign, 4 exponent, 3 mantissa', '4 bits: a table of 16 values')
    """
    if row.kind == "table":
        return f"{row.bits} bits: a table of {1 << row.bits} values"
    if row.kind == "integer":
        return f"{row.bits} bits: {'' if row.signed else 'un'}signed integer"
    sizes = ((int(row.signed), "sign"), (row.exponent_bits, "exponent"), (row.mantissa_bits, "mantissa"))
    return f"{row.bits} bits: {', '.join(f'{size} {name}' for size, name in sizes if size)}"


def _aliases(row: fr.Format) -> str:
    return f"Also called {', '.join(map(code, row.aliases))}." if row.aliases else ""


def _link(row: fr.Format) -> str:
    """The explorer knows every format of up to 8 bits."""
    return f"[Open it in the bit explorer](../explorer.html#f={row.name})" if row.bits <= MAX_BITS else ""


def _lines(row: fr.Format) -> list[str]:
    """Number lines: of all values, and by log2 where they would lie too close."""
    plain = picture(draw.number_line(row), f"The values of {row.name} on a line")
    if row.kind != "float" or row.exponent_bits < LOG_FROM:
        return [plain]
    return [plain, picture(draw.number_line(row, log=True), f"The positive values of {row.name}, by log2")]


def _values(row: fr.Format) -> str:
    """Every code, folded; HTML, which is quicker to read than Markdown."""
    codes = range(1 << row.bits)
    cells = ((hex_code(each, row), spaced(fields_of(row, each)), str(number_of(each, row))) for each in codes)
    body = "".join(f"<tr><td>{'</td><td>'.join(f'<code>{cell}</code>' for cell in line)}</td></tr>" for line in cells)
    head = "<tr><th>code</th><th>bits</th><th>value</th></tr>"
    opened = f"<details data-search-exclude><summary>All {1 << row.bits} values</summary>"
    return f"{opened}<table><thead>{head}</thead><tbody>{body}</tbody></table></details>"


def use(row: fr.Format) -> str:
    """Lines that encode, decode and pack."""
    return (
        f'```python\nimport feather_ref as fr\n\ncodes = fr.encode([0.25, 1, 3], "{row.name}")\n'
        f'print(fr.decode(codes, "{row.name}"))\nwords = fr.pack_{row.name}([0.25, 1, 3])\n```'
    )


# --- tables of all ----------------------------------------------------------------------------


def index_page() -> str:
    """The table of all formats."""
    rows = [_index_row(row) for row in fr.FORMATS.values()]
    text = (
        "# Formats\n\nEvery format with a name. One row of a table defines each: the value, the codes of Inf and NaN, "
        "what happens beyond the greatest value. `fr.minifloat(e, m)`, `fr.p3109(k, p)` and `fr.Format(...)` make "
        "others; the [bit explorer](../explorer.html) shows every split of up to 8 bits. Fields are the bits of sign, "
        "exponent and mantissa; Inf and NaN are codes, where there are any.\n\n"
    )
    return text + table(("format", "bits", "fields", "max", "Inf", "NaN", "beyond max"), rows) + "\n"


def _index_row(row: fr.Format) -> tuple[str, ...]:
    """A line of that table; fields: bits of sign, exponent, mantissa."""
    fields = f"{int(row.signed)}, {row.exponent_bits}, {row.mantissa_bits}" if row.kind == "float" else row.kind
    greatest = decimal_text(Fraction(row.max), BRIEF)
    inf = "" if row.inf_magnitude is None else hex_code(row.inf_magnitude, row)
    nan = "" if row.canonical_nan is None else hex_code(row.canonical_nan, row)
    return f"[{row.name}]({row.name}.md)", str(row.bits), fields, greatest, code(inf), code(nan), row.overflow


def block_formats() -> str:
    """The table of block formats, and where each comes from."""
    every = fr.BLOCK_FORMATS.values()
    rows = (
        (code(row.name), _row_link(row.element), " by ".join(map(str, row.block)), _row_link(row.scale),
         code(row.scale_rule), f"{row.bits_per_value:g}")
        for row in every
    )  # fmt: skip
    named = {source: [code(row.name) for row in every if row.source == source] for source in (r.source for r in every)}
    sources = "\n".join(f"- {', '.join(names)}: {source}" for source, names in named.items())
    return f"{table(('block format', 'element', 'block', 'scale', 'rule', 'bits a value'), rows)}\n\n{sources}"


def scale_rules() -> str:
    """The table of scale rules."""
    rows = ((code(rule.name), code(rule.definition)) for rule in fr.SCALE_RULES.values())
    return table(("rule", "the scale"), rows)


def profiles() -> str:
    """The table of profiles."""
    rows = (
        (code(each.name), each.source, each.verified or "unverified", "; ".join(each.differs) or "nowhere known")
        for each in fr.PROFILES.values()
    )
    return table(("profile", "what it stands for", "compared with", "where that goes its own way"), rows)


def _row_link(row: fr.Format) -> str:
    return f"[{row.name}](formats/{row.name}.md)"
