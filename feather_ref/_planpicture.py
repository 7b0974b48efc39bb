"""A plan as a picture: a bar for each tensor, as long as its bits a value, in the colour of its format.

The width of a bar's line is the same for all; the number beside it is the SQNR in bits.  matplotlib
comes with the extra `draw`.

Source: Okabe and Ito, Color Universal Design, 2008, for the colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from feather_ref._plans import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
_WIDTH, _LINE, _MOST = 7.0, 0.16, 200.0  # inches: the figure, a tensor, the greatest height
_NAME = 44  # characters of a name


def picture(plan: Plan) -> Figure:
    """The plan as a matplotlib Figure; `savefig` writes it."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra; the package loads NumPy alone

    lines = plan.tensors
    figure = Figure(figsize=(_WIDTH, min(1.2 + _LINE * max(len(lines), 3), _MOST)), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    names = list(dict.fromkeys(line.format for line in lines))
    places = range(len(lines))
    bits = [line.bits_per_value for line in lines]
    for i, name in enumerate(names):
        mine = [place for place in places if lines[place].format == name]
        axes.barh(mine, [bits[place] for place in mine], color=COLOURS[i % len(COLOURS)], label=name)
    for place, line in zip(places, lines, strict=True):
        text = f" {line.sqnr:.1f}" if line.sqnr is not None else " exact" if line.error == 0 else ""
        axes.text(bits[place], place, text, va="center", fontsize=6)
    axes.set_yticks(places, [_short(line.name) for line in lines], fontsize=6, parse_math=False)
    axes.invert_yaxis()
    axes.margins(x=0.08, y=0.01)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("bits a value; beside each bar: SQNR in bits", fontsize=8)
    axes.set_title(f"{plan.bits_per_value:.3f} bits a value, {plan.nbytes} bytes", fontsize=9)
    if names:  # beside the bars, which end anywhere
        axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)
    return figure


def _short(name: str) -> str:
    """A name that fits beside a bar: its end says most.  What the font cannot draw is escaped."""
    from matplotlib.font_manager import FontProperties, findfont, get_font  # noqa: PLC0415 - as above

    glyphs = get_font(findfont(FontProperties())).get_charmap()
    shown = name if name.isprintable() and all(ord(letter) in glyphs for letter in name) else ascii(name)
    return shown if len(shown) <= _NAME else "..." + shown[3 - _NAME :]
