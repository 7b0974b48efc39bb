"""Pictures: every format can be drawn, nothing overlaps or leaves the sheet, and what is drawn is right."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="the extra `draw`")

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

import helpers
from feather_ref import draw, oracle
from feather_ref.formats import FORMATS, Format, get_format, minifloat

ROWS = [
    *FORMATS.values(),
    get_format("binary8p1uf"),
    get_format("binary8p3se"),
    minifloat(1, 6),
    minifloat(4, 3, bias=-2),
]
ODD = Format("odd $x$ row", 16, exponent_bits=13, mantissa_bits=2, bias=4095)
BIT = Format("bit", 1, kind="integer", signed=False)
# narrow and wide fields and lanes, long names, every kind
NAMES = ("e4m3", "e2m1", "e3m2", "e8m0", "tf32", "fp32", "int2", "nf4", "uf11", "ue4m3", "binary8p1uf", "e1m6fn")
LAYOUTS = [*map(get_format, NAMES), minifloat(4, 3, bias=-2), ODD, BIT]


def _texts(figure: Figure, renderer: Any) -> list[Text]:
    """What is written, tick labels included."""
    if any(axes.axison for axes in figure.axes):
        figure.draw(renderer)  # puts the ticks in their places
    ticks = [(*axes.get_xticklabels(), *axes.get_yticklabels()) for axes in figure.axes if axes.axison]
    written = itertools.chain(*(axes.texts for axes in figure.axes), *ticks)
    return [text for text in written if text.get_text()]


def check_layout(figure: Figure) -> None:
    """4 inches wide; text of 9 points and more, inside the figure; no two texts overlap."""
    assert figure.get_figwidth() == 4
    renderer = FigureCanvasAgg(figure).get_renderer()
    texts = _texts(figure, renderer)
    assert texts
    assert all(text.get_fontsize() >= 9 for text in texts)
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    page = figure.bbox
    for text, box in boxes:
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1, text
    for (one, a), (two, b) in itertools.combinations(boxes, 2):
        # two pixels of 150 to the inch: the boxes are a little larger than the glyphs
        assert min(a.x1, b.x1) - max(a.x0, b.x0) <= 2 or min(a.y1, b.y1) - max(a.y0, b.y0) <= 2, (one, two)


def _lines(figure: Figure) -> list[str]:
    """What stands side by side, from left to right."""
    by_height: dict[float, list[tuple[float, str]]] = {}
    for text in figure.axes[0].texts:
        x, y = text.get_position()
        by_height.setdefault(round(y, 3), []).append((x, text.get_text()))
    return ["".join(text for _, text in sorted(line)) for line in by_height.values()]


# --- bits and words ---------------------------------------------------------------------------


@pytest.mark.parametrize("row", [*ROWS, ODD, BIT], ids=str)
def test_bit_fields(row: Format) -> None:
    code = draw.bit_fields(row, row.max_magnitude, dark=True)
    assert f"{row.max_magnitude:0{row.bits}b}" in _lines(code)
    if row in LAYOUTS:
        check_layout(code)
        check_layout(draw.bit_fields(row))


@pytest.mark.parametrize("row", [*ROWS, ODD, BIT], ids=str)
def test_word(row: Format) -> None:
    for word, order in ((0x85103081, "little"), (0xF8FFFFF1, "big"))[: 1 + (row in LAYOUTS)]:
        figure = draw.word(word, row, order, dark=order == "big")  # type: ignore[arg-type]
        assert f"{word:032b}" in _lines(figure)
        if row in LAYOUTS:
            check_layout(figure)


def test_values_of_a_word_stand_under_their_lanes() -> None:
    assert {"3210", "44344030", "30.7520.5"} <= set(_lines(draw.word(0x44344030, "e4m3")))
    assert {"01", "38004000", "0.52"} <= set(_lines(draw.word(0x38004000, "fp16", "big")))


def test_arithmetic_stands_under_the_bits() -> None:
    assert "(-1)^0 * 2^(15-7) * (1 + 6/8) =\N{NO-BREAK SPACE}448" in _lines(draw.bit_fields("e4m3", 0x7E))


# --- number lines -----------------------------------------------------------------------------


@pytest.mark.parametrize("row", [*ROWS, BIT], ids=str)
def test_number_line(row: Format) -> None:
    linear, log = draw.number_line(row), draw.number_line(row, log=True, dark=True)
    if row in LAYOUTS:
        check_layout(linear)
        check_layout(log)


def _drawn(figure: Figure) -> set[float]:
    lines = [lines for lines in figure.axes[1].collections if isinstance(lines, LineCollection)]
    return {float(segment[0][0]) for collection in lines for segment in collection.get_segments()}


@pytest.mark.parametrize("name", ["e2m1", "e3m2", "nf4", "int4", "uint4", "fp4_bnb"])
def test_number_line_draws_every_value(name: str) -> None:
    numbers = [oracle.decode(code, name) for code in range(1 << get_format(name).bits)]
    want = {float(number.signed) for number in numbers if number.kind == "finite"}
    assert _drawn(draw.number_line(name)) == want
    assert _drawn(draw.number_line(name, log=True)) == {value for value in want if value > 0}


def test_number_line_of_a_wide_format_draws_powers_of_two() -> None:
    want = {2.0**k for k in range(-24, 16)}
    assert _drawn(draw.number_line("fp16", log=True)) == want


@pytest.mark.parametrize(("name", "first", "last", "step"), [("fp32", -149, 127, 8), ("e8m0", -127, 127, 4)])
def test_powers_of_two_that_stand_too_close_are_drawn_on_a_band(name: str, first: int, last: int, step: int) -> None:
    figure = draw.number_line(name, log=True)
    check_layout(figure)
    assert _drawn(figure) == {2.0**k for k in range(first, last + 1) if k % step == 0}
    title = figure.axes[0].texts[0].get_text()
    assert (f": {last - first + 1} positive" in title, f", every {step}th drawn" in title) == (True, True)
    bands = sorted(tuple(patch.get_bbox().intervalx) for patch in figure.axes[1].patches)
    assert (bands[0][0], bands[-1][1]) == (2.0**first, 2.0 ** (last + 1))
    assert all(one[1] == two[0] for one, two in itertools.pairwise(bands))
    ends = [label.get_text() for label in figure.axes[1].get_xticklabels()]
    assert (ends[0], ends[-1], "2^0" in ends) == (f"2^{first}", f"2^{last}", True)


@pytest.mark.parametrize("name", ["e3m2", "e4m3", "e5m2", "e8m0", "fp16", "bf16", "fp32", "ue4m3", "light"])
def test_no_two_labels_of_a_log_line_touch(name: str) -> None:
    light = Format("light", 6, exponent_bits=3, mantissa_bits=3, bias=3, signed=False)
    axes = draw.number_line(light if name == "light" else name, log=True).axes[1]
    renderer = FigureCanvasAgg(axes.figure).get_renderer()
    boxes = [label.get_window_extent(renderer) for label in axes.get_xticklabels()]
    assert len(boxes) >= 3
    assert all(one.x1 + draw.CHAR * 150 / 72 < two.x0 for one, two in itertools.pairwise(boxes))  # a character


# --- rounding regions -------------------------------------------------------------------------

REGIONS: list[tuple[str, float, float]] = [
    ("e4m3", 1, 2), ("e4m3", 400, 600), ("e5m2", -70000, -40000), ("e2m1", -7, 7), ("e8m0", 0.6, 9),
    ("int4", -10, 9), ("mxint8", -0.1, 0.1), ("uint4", -1, 3), ("uf10", 1, 1.5), ("fp32", 1, 1 + 2**-21),
    ("e4m3fnuz", -0.01, 0.01), ("binary8p3se", 30000, 60000), ("bf16", -1, -0.98),
    ("fp32", 1, 1.0000004), ("fp32", -(2.0**-147), 2.0**-147),
]  # fmt: skip


@pytest.mark.parametrize("rounding", helpers.ROUNDINGS)
@pytest.mark.parametrize(("name", "lo", "hi"), REGIONS)
def test_regions_are_the_oracles(name: str, lo: float, hi: float, rounding: Any) -> None:
    regions = draw._regions(get_format(name), lo, hi, rounding, "nonsaturating")
    assert (regions[0].left, regions[-1].right) == (lo, hi)

    def code(x: Fraction) -> int:
        return oracle.encode(x, name, rounding=rounding, overflow="nonsaturating")

    for region in regions:
        left, right = Fraction(region.left), Fraction(region.right)
        # one third and two thirds of the way, and both ends
        assert {code(left + (right - left) * k / 3) for k in (1, 2)} == {region.code}
        assert (code(left) == region.code, code(right) == region.code) == region.closed
    for one, two in itertools.pairwise(regions):
        assert one.right == two.left
        assert (one.closed[1], two.closed[0]) in ((True, False), (False, True))


@pytest.mark.parametrize(("name", "lo", "hi"), [*REGIONS, ("nf4", -1.5, 1.5), ("fp4_bnb", 0, 1)])
def test_rounding_regions(name: str, lo: float, hi: float) -> None:
    figure = draw.rounding_regions(name, lo, hi, dark=lo < 0)
    check_layout(figure)
    axes, renderer = figure.axes[1], FigureCanvasAgg(figure).get_renderer()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "value")
    for label in axes.texts:  # no step's name on the axis
        box = label.get_window_extent(renderer)
        assert axes.bbox.x0 - 1 <= box.x0 and box.x1 <= axes.bbox.x1 + 1


def test_steps_by_hand() -> None:
    """e2m1 near 2: 2 is code 4, even; the ties 1.75 and 2.5 go to it; 1.5 and 3 are codes 3 and 5."""
    regions = draw._regions(get_format("e2m1"), 1.5, 3.0, "nearest_even", None)
    assert [tuple(region) for region in regions] == [
        (3, 1.5, 1.75, (True, False)),
        (4, 1.75, 2.5, (True, True)),
        (5, 2.5, 3.0, (False, True)),
    ]
    odd = draw._regions(get_format("e2m1"), 1.5, 3.0, "to_odd", None)
    assert [tuple(region) for region in odd] == [
        (3, 1.5, 2.0, (True, False)),
        (4, 2.0, 2.0, (True, True)),
        (5, 2.0, 3.0, (False, True)),
    ]


# --- refusals and manners ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: draw.rounding_regions("e4m3", 2, 1), ValueError, "lo < hi, got lo=2.0, hi=1.0"),
        (lambda: draw.rounding_regions("e4m3", 0, float("inf")), ValueError, "hi must be finite"),
        (lambda: draw.rounding_regions("e4m3", float("nan"), 1), ValueError, "lo must be finite"),
        (lambda: draw.rounding_regions("e4m3", 0, 10**400), ValueError, "hi must be finite"),
        (lambda: draw.rounding_regions("nf4", -1e308, 1e308), ValueError, r"lo must be finite, and at most 1e\+300"),
        (lambda: draw.rounding_regions("e4m3", None, 1), TypeError, "lo must be a number, got NoneType"),  # type: ignore[arg-type]
        (lambda: draw.rounding_regions("fp32", 0, 1), ValueError, "more than 64 codes of 'fp32'"),
        (lambda: draw.rounding_regions("e4m3", 1, 2, "up"), ValueError, "rounding must be one of"),
        (lambda: draw.rounding_regions("e4m3", 1, 1 + 2.0**-52), ValueError, "float64 is too coarse for 'e4m3'"),
        (lambda: draw.bit_fields("e4m3", 256), ValueError, "code = 0x100 is not a code"),
        (lambda: draw.word(-1, "e4m3"), ValueError, "word = -0x1"),
        (lambda: draw.number_line("minifloat(16,15)"), ValueError, "not exact in float64"),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for call in (lambda: draw.number_line("e2m1"), lambda: draw.bit_fields("e2m1"), lambda: draw.word(0, "e2m1")):
        with pytest.raises(ImportError, match=r"pip install 'feather-ref\[draw\]'"):
            call()


def test_pyplot_stays_out() -> None:
    code = (
        "import sys; from feather_ref import draw; before = 'matplotlib' in sys.modules; "
        "draw.word(1, 'e4m3'); draw.number_line('e2m1'); draw.rounding_regions('e2m1', 0, 1); "
        "print(before, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_pictures_are_written(kind: str) -> None:
    for dark in (False, True):
        buffer = io.BytesIO()
        figure = draw.rounding_regions("e4m3", 380, 520, overflow="nonsaturating", dark=dark)
        figure.savefig(buffer, format=kind)
        assert len(buffer.getvalue()) > 1000
        assert (sum(figure.get_facecolor()[:3]) < 1) == dark
