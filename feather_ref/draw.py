"""Pictures: the bits of a code, a word with its lanes, a number line, the regions of a rounding.

Every function returns a matplotlib Figure, 4 inches wide with text of 9 points, so that it can be read
on a screen of 375 pixels; `figure.savefig("name.svg")` writes it.  Nothing touches pyplot.
matplotlib comes with the extra `draw`: pip install 'feather-ref[draw]'.

Bits are drawn as they are written, the highest on the left::

    7   6  5  4  3   2  1  0
    0 | 1  1  1  1 | 1  1  0

Source: design of this project; Okabe and Ito, Color Universal Design, 2008, for the colours.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from feather_ref._anatomy import SHORT, Field, Number, decimal_text, hex_code, number_of, with_sign
from feather_ref._explain import explain, explain_word
from feather_ref._ladder import around, last_code
from feather_ref._page import COLOURS, Explanation
from feather_ref.codec import decode, encode
from feather_ref.codes import CLASSES, classify, nextafter
from feather_ref.formats import Format, Overflow, get_format
from feather_ref.packing import Order
from feather_ref.rounding import Rounding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, MARGIN, GAP = 288.0, 8.0, 5.0  # points; 288 are 4 inches
SIZE, CHAR, LINE = 9, 5.42, 13.0  # points: text, the width of a character, from line to line
BOX, BOX_HEIGHT = 45.0, 20.0  # points: the greatest width of a bit, and its height
TINT = "55"  # the opacity of a field, so that one colour suits light and dark
RIGHT = 28.0  # points beside axes, for half the label of the last tick
LINE_HEIGHT, STEPS_HEIGHT = 42.0, 190.0  # points: the axes of a number line, and of steps
ALL_BITS = 10  # ticks that can be told apart: the values of a format of up to so many bits
POWERS = 64  # and powers of two side by side
STEPS_LEFT, STEPS_WIDTH = 66.0, WIDTH - 66.0 - RIGHT
MAX_CODES, LABELS = 64, 12  # steps that can be told apart, and named
_FAR = 1e300  # so that what matplotlib computes of both ends is finite
_INF = Number("inf", False)
Floats = NDArray[np.float64]


class _Theme(NamedTuple):
    """The colours that light and dark do not share."""

    ink: str
    paper: str


_LIGHT, _DARK = _Theme("#1a1a1a", "#ffffff"), _Theme("#e6e6e6", "#111111")


def _theme(dark: bool) -> _Theme:
    return _DARK if dark else _LIGHT


def _figure(height: float, dark: bool) -> Figure:
    """An empty figure; height in points."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra; the package loads NumPy alone
    except ImportError:
        raise ImportError("feather_ref.draw needs matplotlib: pip install 'feather-ref[draw]'") from None
    return Figure(figsize=(WIDTH / 72, height / 72), dpi=150, facecolor=_theme(dark).paper)


def _sheet(figure: Figure) -> Axes:
    """Axes over a whole figure, in points from its lower left corner."""
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, WIDTH), ylim=(0, figure.get_figheight() * 72))
    axes.axis("off")
    return axes


def _write(axes: Axes, x: float, y: float, text: str, dark: bool, **style: Any) -> None:
    """Text in the ink of the theme; a dollar sign is one."""
    given = {"color": _theme(dark).ink, "family": "DejaVu Sans Mono", "size": SIZE, "va": "center", **style}
    axes.text(x, y, text, parse_math=False, **given)


def _wrap(paragraphs: Iterable[str]) -> list[str]:
    kept = (text.replace(" = ", " =\N{NO-BREAK SPACE}") for text in paragraphs)  # no line ends with =
    return [line for text in kept for line in textwrap.wrap(text, int((WIDTH - 2 * MARGIN) / CHAR))]


def _lines(axes: Axes, top: float, lines: Sequence[str], dark: bool, **style: Any) -> float:
    """Lines of text from the top down; returns where they end."""
    for i, line in enumerate(lines):
        _write(axes, MARGIN, top - LINE * (i + 0.5), line, dark, **style)
    return top - LINE * len(lines)


def _fits(text: str, width: float) -> bool:
    return len(text) * CHAR <= width


# --- bits -------------------------------------------------------------------------------------


def bit_fields(fmt: str | Format, code: SupportsIndex | None = None, *, dark: bool = False) -> Figure:
    """The fields of a format or of one of its codes, and the arithmetic that gives the value.

    >>> bit_fields("e4m3", 0x7E).savefig("7E.png")  # doctest: +SKIP

    Raises what `explain` raises, and ImportError without matplotlib.
    """
    page = explain(fmt, code)
    formulas = [text for name, text in page.facts if name in ("value", "where e = 0")]
    names = [(field.name if _fits(field.name, width) else field.name[0],) for field, _, width in _spans(page)]
    return _draw_bits(page, names, formulas, dark)


def word(word: SupportsIndex, fmt: str | Format, order: Order = "little", *, dark: bool = False) -> Figure:
    """The lanes of a 32-bit word, each with its number, code and value.

    Raises what `explain_word` raises, and ImportError without matplotlib.
    """
    page = explain_word(word, fmt, order)
    lanes = {f"lane {row[0]}": row for row in page.tables[0].rows}
    names: list[tuple[str, ...]] = []
    for field, _, width in _spans(page):
        if field.name in lanes:
            number, _, code, _, _ = lanes[field.name]
            names.append((number, code, _value_text(page.fmt, int(code, 16), width)))
        else:
            names.append((field.name,))
    return _draw_bits(page, names, ["below: lane, code, value"], dark)


def _draw_bits(page: Explanation, names: Sequence[Sequence[str]], below: Sequence[str], dark: bool) -> Figure:
    """Title, boxes with a digit each, a column of names under each field, and lines of text."""
    title, text, deep = _wrap([page.title]), _wrap(below), max(map(len, names))
    height = 2 * MARGIN + 2 * GAP + BOX_HEIGHT + LINE * (len(title) + 1 + deep + len(text))
    figure = _figure(height, dark)
    axes = _sheet(figure)
    y = _lines(axes, height - MARGIN, title, dark, weight="bold") - GAP - LINE - BOX_HEIGHT
    both = all(
        _fits(field.at, width) for field, _, width in _spans(page) if len(field.bits) > 1 and field.role != "rest"
    )
    for (field, left, width), column in zip(_spans(page), names, strict=True):
        _draw_field(axes, field, left, y, width, both, dark)
        for i, name in enumerate(column):
            turned = 0 if _fits(name, width) else 90
            _write(axes, left + width / 2, y - LINE * i - 3, name, dark, ha="center", va="top", rotation=turned)
    _lines(axes, y - LINE * deep - GAP, text, dark)
    return figure


def _spans(page: Explanation) -> list[tuple[Field, float, float]]:
    """Each field with its left edge and its width in points."""
    box = min(BOX, (WIDTH - 2 * MARGIN) / sum(len(field.bits) for field in page.fields))
    widths = [box * len(field.bits) for field in page.fields]
    return list(zip(page.fields, itertools.accumulate(widths, initial=MARGIN), widths, strict=False))


def _draw_field(axes: Axes, field: Field, left: float, y: float, width: float, both: bool, dark: bool) -> None:
    """The boxes of one field, and above them the place of its last bit, or of the first and the last."""
    colour, box, top = COLOURS[field.role], width / len(field.bits), y + BOX_HEIGHT + LINE * 0.5
    axes.broken_barh([(left, width)], (y, BOX_HEIGHT), facecolors=colour + TINT, edgecolors=colour, linewidth=1.5)
    axes.vlines([left + i * box for i in range(1, len(field.bits))], y, y + BOX_HEIGHT, colors=colour, linewidth=0.5)
    for i, bit in enumerate(field.bits):
        _write(axes, left + (i + 0.5) * box, y + BOX_HEIGHT * 0.5, bit, dark, ha="center")
    high, _, low = field.at.partition("..")
    if low and both and _fits(field.at, width):
        _write(axes, left + 2, top, high, dark, ha="left")
        _write(axes, left + width - 2, top, low, dark, ha="right")
    elif _fits(low or high, width):
        _write(axes, left + width / 2, top, low or high, dark, ha="center")


def _value_text(row: Format, code: int, width: float) -> str:
    """The value with as many digits as there is room for."""
    texts = [number_of(code, row).text(digits) for digits in range(SHORT, 0, -1)]
    return next((text for text in texts if _fits(f"{text} ", width)), texts[-1])


# --- a number line ----------------------------------------------------------------------------


def number_line(fmt: str | Format, log: bool = False, *, dark: bool = False) -> Figure:
    """Every finite value of a format as a tick, powers of two longer; log: the positive ones, by log2.

    Of a format of more than 10 bits the powers of two alone; by log2, of more than 64 powers every
    eighth or so, on a band.  Raises ImportError without matplotlib, ValueError for values beyond float64.
    """
    row = get_format(fmt)
    values, kinds = _finite_values(row, log)
    whole = row.bits <= ALL_BITS
    what = ("positive " if log else "") + ("values" if whole else "powers of two")
    count = np.unique(values[whole | (values != 0)]).size
    every = _every(values) if log else 1
    what += f", every {every}th drawn" if every > 1 else ""
    figure = _figure(2 * MARGIN + 3 * LINE + 3 * GAP + LINE_HEIGHT, dark)
    sheet = _sheet(figure)
    top = sheet.get_ylim()[1] - MARGIN
    top = _lines(sheet, top, [f"{row.name}: {count} {what}"], dark, weight="bold")
    axes = _plain_axes(figure, MARGIN + LINE + GAP, LINE_HEIGHT, dark)
    axes.set(ylim=(0, 1), yticks=[], xscale="log" if log else "linear")
    _mark_ends(axes, values, log)
    left = MARGIN
    colours = {"normal": COLOURS["exponent"], "subnormal": COLOURS["sign"], "zero": _theme(dark).ink}
    for kind, colour in colours.items():
        chosen = values[kinds == kind]
        if chosen.size:
            if every > 1:
                axes.axvspan(chosen.min(), chosen.max() * 2, facecolor=colour + TINT, edgecolor="none")
                chosen = chosen[np.frexp(chosen)[1] % every == 1]  # of 2^0, too
            _draw_ticks(axes, chosen, colour, log)
            sheet.plot([left + 2, left + 2], [top - LINE + 2, top - 2], color=colour, linewidth=2)
            _write(sheet, left + 7, top - LINE / 2, kind, dark)
            left += CHAR * (len(kind) + 4)
    return figure


def _finite_values(row: Format, positive: bool) -> tuple[Floats, NDArray[np.str_]]:
    """The finite values of a format in code order, and the class of each."""
    if row.bits <= ALL_BITS or row.kind == "table":
        codes = np.arange(1 << row.bits)
    else:
        places = row.bits - row.signed if row.kind == "integer" else row.mantissa_bits
        powers = [0, *(1 << np.arange(places)), *range(1 << places, row.max_magnitude + 1, 1 << places)]
        signs = (False, True) if row.signed else (False,)
        codes = np.array([with_sign(row, int(power), sign) for sign in signs for power in powers])
    values = decode(codes, row, np.float64)
    kinds = np.char.lstrip(np.array(CLASSES)[classify(codes, row)], "+-")
    kept = np.isfinite(values) & ((values > 0) | (not positive))
    return values[kept], kinds[kept]


def _every(values: Floats) -> int:
    """1, or of powers of two that stand too close the step, in binades, between those that are drawn."""
    if values.size <= POWERS or _has_mantissa(values).any():
        return 1
    return 1 << math.ceil(math.log2(values.size / POWERS))


def _has_mantissa(values: Floats) -> NDArray[np.bool_]:
    """Whether a value is neither a power of two nor zero."""
    found: NDArray[np.bool_] = np.frexp(np.abs(values))[0] % 0.5 != 0
    return found


def _plain_axes(figure: Figure, bottom: float, height: float, dark: bool, left: float = 3 * MARGIN) -> Axes:
    """Axes in the style of the theme; bottom, height and left in points."""
    ink, tall = _theme(dark).ink, figure.get_figheight() * 72
    axes = figure.add_axes((left / WIDTH, bottom / tall, 1 - (left + RIGHT) / WIDTH, height / tall))
    axes.set_facecolor(_theme(dark).paper)
    axes.tick_params(which="both", colors=ink, labelsize=SIZE, labelfontfamily="DejaVu Sans Mono")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(ink)
    return axes


def _mark_ends(axes: Axes, values: Floats, log: bool) -> None:
    """Limits and ticks: the ends and zero, or the end powers of two and round ones between."""
    axes.spines["left"].set_visible(False)
    axes.minorticks_off()
    low, high = float(values.min()), float(values.max())
    if log:
        axes.set_xlim(low * 0.9, high * 1.1)
        first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
        step = 1 << max(0, math.ceil(math.log2(max(1, last - first) / 5)))
        inner = (k for k in range(first, last) if k % step == 0 and first + step / 2 < k < last - step / 2)
        exponents = sorted({first, *inner, last})
        axes.set_xticks([2.0**k for k in exponents], [f"2^{k}" for k in exponents])
        return
    margin = (high - low) / 100
    axes.set_xlim(low - margin, high + margin)
    ticks = sorted({low, 0.0, high}) if low < 0 else [low, high]
    axes.set_xticks(ticks, [decimal_text(Fraction(tick), 6) for tick in ticks])
    axes.get_xticklabels()[0].set_horizontalalignment("left")
    axes.get_xticklabels()[-1].set_horizontalalignment("right")


def _draw_ticks(axes: Axes, values: Floats, colour: str, log: bool) -> None:
    """Ticks like those of a ruler; of several that fall on one place, one is drawn."""
    tall = ~_has_mantissa(values)
    low, high = axes.get_xlim()
    fraction = np.log(values / low) / math.log(high / low) if log else (values - low) / (high - low)
    for heights, height in ((tall, 1.0), (~tall, 0.6)):
        _, first = np.unique(np.round(fraction[heights] * WIDTH * 4), return_index=True)
        axes.vlines(values[heights][first], 0, height, colors=colour, linewidth=1.2 if values.size < 64 else 0.6)


# --- where a rounding goes --------------------------------------------------------------------


class _Region(NamedTuple):
    """The numbers from left to right that get one code; closed: whether an end belongs to them."""

    code: int
    left: float
    right: float
    closed: tuple[bool, bool]


def rounding_regions(
    fmt: str | Format,
    lo: float,
    hi: float,
    rounding: Rounding = "nearest_even",
    *,
    overflow: Overflow | None = None,
    dark: bool = False,
) -> Figure:
    """Which code each number from lo to hi gets: a step for every code, a dot at an end that belongs to it.

    Raises ImportError without matplotlib, ValueError for more than 64 steps and what `encode` raises.
    """
    row = get_format(fmt)
    lo, hi = _end("lo", lo), _end("hi", hi)
    regions = _regions(row, lo, hi, rounding, overflow)
    height = 2 * MARGIN + 4 * LINE + STEPS_HEIGHT + 2 * GAP
    figure = _figure(height, dark)
    _lines(_sheet(figure), height - MARGIN, [f"{row.name}, {rounding}: where x goes"], dark, weight="bold")
    axes = _plain_axes(figure, MARGIN + 2 * LINE + GAP, STEPS_HEIGHT, dark, left=STEPS_LEFT)
    axes.plot([lo, hi], [lo, hi], color=COLOURS["rest"], linewidth=0.8, linestyle=":")
    axes.set_xlim(lo, hi)
    for region in regions:
        _draw_region(axes, row, region, len(regions) <= LABELS, dark)
    axes.margins(y=0.08)
    axes.set_xticks(*_round_ticks(axes, axes.get_xlim()))
    axes.set_yticks(*_round_ticks(axes, axes.get_ylim()))
    named: Any = {"size": SIZE, "family": "DejaVu Sans Mono", "color": _theme(dark).ink}
    axes.set_xlabel("x", labelpad=2, **named)
    axes.set_ylabel("value", rotation=0, ha="right", va="bottom", **named)
    axes.yaxis.set_label_coords(-7 / STEPS_WIDTH, 1 + 2 / STEPS_HEIGHT)
    return figure


def _end(name: str, x: Any) -> float:
    """An end of axes, which need room beyond it."""
    try:
        found = float(x)
    except TypeError:
        raise TypeError(f"{name} must be a number, got {type(x).__name__}") from None
    except OverflowError:
        found = math.inf
    if not abs(found) <= _FAR:
        raise ValueError(f"{name} must be finite, and at most {_FAR:g}, got {found:g}")
    return found


def _round_ticks(axes: Axes, limits: tuple[float, float]) -> tuple[list[float], list[str]]:
    """Round numbers within limits, and as many as have room side by side; no offset is split off."""
    for count in range(5, 0, -1):
        axes.locator_params(nbins=count)
        ticks = [tick for tick in axes.xaxis.get_major_locator().tick_values(*limits) if limits[0] <= tick <= limits[1]]
        labels = [f"{tick:.9g}" for tick in ticks]
        if sum(len(label) + 2 for label in labels) * CHAR < STEPS_WIDTH:
            break
    return ticks, labels


def _regions(row: Format, lo: float, hi: float, rounding: Rounding, overflow: Overflow | None) -> list[_Region]:
    """Regions in rising order: `encode` is asked at every break and between any two."""
    breaks = _breaks(row, lo, hi)
    samples = [float(breaks[0])]
    for a, b in itertools.pairwise(breaks):
        samples += [float((a + b) / 2), float(b)]
    if samples[::2] != breaks or any(a >= b for a, b in itertools.pairwise(samples)):
        raise ValueError(f"lo={lo!r}, hi={hi!r}: float64 is too coarse for {row.name!r} there")
    codes = encode(samples, row, rounding=rounding, overflow=overflow).tolist()
    regions, start = [], 0
    for code, run in itertools.groupby(codes):
        end = start + len(list(run)) - 1
        left, right = float(breaks[start // 2]), float(breaks[(end + 1) // 2])
        regions.append(_Region(code, left, right, (start % 2 == 0, end % 2 == 0)))
        start = end + 1
    return regions


def _breaks(row: Format, lo: float, hi: float) -> list[Fraction]:
    """Where the code can change: every value and midpoint from lo to hi, zero, and both ends."""
    if not lo < hi:
        raise ValueError(f"the ends must be lo < hi, got lo={lo!r}, hi={hi!r}")
    code = int(encode(lo, row, overflow="saturate", negative="zero"))  # near lo; `around` has the one below
    breaks = {Fraction(lo), Fraction(hi), Fraction(0)}
    for _ in range(MAX_CODES + 2):
        breaks |= {rung.value for rung in around(row, code)}
        value, code = number_of(code, row), int(nextafter(code, last_code(row, True), row))
        if value.signed >= hi or number_of(code, row) in (value, _INF):
            return sorted(x for x in breaks if lo <= x <= hi)
    raise ValueError(f"lo={lo!r}, hi={hi!r}: more than {MAX_CODES} codes of {row.name!r} lie between them")


def _draw_region(axes: Axes, row: Format, region: _Region, label: bool, dark: bool) -> None:
    """A step at the height of the code's value; Inf and NaN are a band."""
    value = number_of(region.code, row)
    colour = COLOURS["odd lane" if region.code % 2 else "even lane"]
    name = hex_code(region.code, row)
    middle = (region.left + region.right) / 2
    style: Any = {"ha": "center", "size": SIZE, "family": "DejaVu Sans Mono", "color": _theme(dark).ink}
    if value.kind != "finite":
        axes.axvspan(region.left, region.right, facecolor=COLOURS["rest"] + TINT, edgecolor="none")
        axes.annotate(f"{name}\n{value}", (middle, 0.5), xycoords=("data", "axes fraction"), va="center", **style)
        return
    y = float(value.signed)
    axes.plot([region.left, region.right], [y, y], color=colour, linewidth=2, solid_capstyle="butt")
    for x, closed in zip((region.left, region.right), region.closed, strict=True):
        if x not in axes.get_xlim() or region.left == region.right:
            fill = colour if closed else _theme(dark).paper
            axes.plot(
                [x], [y], "o", markersize=4, markerfacecolor=fill, markeredgecolor=colour, zorder=3, clip_on=False
            )
    if label:
        lo, hi = axes.get_xlim()
        half = len(name) * CHAR / 2 * (hi - lo) / STEPS_WIDTH
        inside = min(max(middle, lo + half), hi - half)
        away, side = (-5, "top") if value.negative else (5, "bottom")
        axes.annotate(name, (inside, y), xytext=(0, away), textcoords="offset points", va=side, **style)
