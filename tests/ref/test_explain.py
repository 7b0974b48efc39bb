"""explain: texts typed by hand, every code against the oracle, HTML that parses, refusals."""

from __future__ import annotations

import math
import textwrap
from fractions import Fraction
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest

import helpers
from feather_ref import oracle
from feather_ref._anatomy import decimal_text, fraction_text, hex_text, number_of
from feather_ref._explain import explain, explain_word
from feather_ref._page import COLOURS, WIDTH, Explanation
from feather_ref.formats import FORMATS, Format, Source, get_format, minifloat, p3109_formats

SMALL = [row for row in FORMATS.values() if row.bits <= 8]
WIDE = [row for row in FORMATS.values() if row.bits > 8]
EXTRA = [get_format(name) for name in ("binary8p1uf", "binary8p3se", "binary6p4sf", "minifloat(4,3,bias=-2)")]
INT1 = Format("int1", 1, kind="integer")
HOSTILE = Format(
    '<b onclick="x">&\'$', 4, kind="integer", source=Source("<script>alert(1)</script>"), aliases=("</table>", "&amp;")
)


# --- texts typed by hand ----------------------------------------------------------------------

TEXTS = {
    "the least subnormal": (
        lambda: explain("e4m3", 0x01),
        """
        e4m3 code 01 = 0.001953125

          bits      0     0000      001
          field     sign  exponent  mantissa
          at        7     6..3      2..0

          value     (-1)^0 * 2^(1-7) * (0 + 1/8) = 0.001953125
          decimal   0.001953125
          fraction  1/512
          hex       0x1p-9
          class     +subnormal, the least subnormal magnitude
          ulp       0.001953125

          ladder    code  bits        value
          above     02    0 0000 010  0.00390625
          midpoint                    0.0029296875
          this      01    0 0000 001  0.001953125
          midpoint                    0.0009765625
          below     00    0 0000 000  0
        """,
    ),
    "the greatest, without Inf": (
        lambda: explain("e4m3", 0x7E),
        """
        e4m3 code 7E = 448

          bits      0     1111      110
          field     sign  exponent  mantissa
          at        7     6..3      2..0

          value     (-1)^0 * 2^(15-7) * (1 + 6/8) = 448
          decimal   448
          fraction  448
          hex       0x1.cp+8
          class     +normal, the greatest finite magnitude
          ulp       32

          ladder    code  bits        value
          above                       none; next 480
          midpoint                    464
          this      7E    0 1111 110  448
          midpoint                    432
          below     7D    0 1111 101  416

          overflow       beyond 448  +Inf
          saturate *     7E = 448    7E = 448
          nonsaturating  7F = NaN    7F = NaN
          propagate      7E = 448    7E = 448
          ocp_table3     7F = NaN    7F = NaN
        """,
    ),
    "-Inf": (
        lambda: explain("e5m2", 0xFC),
        """
        e5m2 code FC = -Inf

          bits      1     11111     00
          field     sign  exponent  mantissa
          at        7     6..2      1..0

          value     -Inf: exponent all ones, mantissa 0
          class     -inf

          ladder    code  bits        value
          above     FB    1 11110 11  -57344
          midpoint                    -61440
          this      FC    1 11111 00  -Inf; next -65536

          overflow       beyond -57344  -Inf
          saturate *     FB = -57344    FB = -57344
          nonsaturating  FC = -Inf      FC = -Inf
          propagate      FB = -57344    FC = -Inf
          ocp_table3     FC = -Inf      FC = -Inf
        """,
    ),
    "the NaN of FNUZ": (
        lambda: explain("e4m3fnuz", 0x80),
        """
        e4m3fnuz code 80 = NaN

          bits      1     0000      000
          field     sign  exponent  mantissa
          at        7     6..3      2..0

          value     NaN: the code where -0 would be
          class     NaN, the canonical one

          overflow       beyond 240  +Inf
          saturate *     7F = 240    7F = 240
          nonsaturating  80 = NaN    80 = NaN
          propagate      7F = 240    7F = 240
          ocp_table3     80 = NaN    80 = NaN

          nan            NaN
          canonical *    80 = NaN
          preserve_sign  80 = NaN
          error          ValueError
          max            7F = 240
          zero           00 = 0
        """,
    ),
    "two's complement": (
        lambda: explain("int8", 0x80),
        """
        int8 code 80 = -128

          bits      1     0000000
          field     sign  integer
          at        7     6..0

          value     1 * -128 + 0 = -128
          decimal   -128
          fraction  -128
          hex       -0x1p+7
          class     -normal
          ulp       1

          ladder    code  bits       value
          above     81    1 0000001  -127
          midpoint                   -127.5
          this      80    1 0000000  -128
          midpoint                   -128.5
          below                      none; next -129
        """,
    ),
    "a P3109 Inf": (
        lambda: explain("binary8p3se", 0x7F),
        """
        binary8p3se code 7F = Inf

          bits      0     11111     11
          field     sign  exponent  mantissa
          at        7     6..2      1..0

          value     Inf: the greatest magnitude
          class     +inf

          ladder    code  bits        value
          this      7F    0 11111 11  Inf; next 57344
          midpoint                    53248
          below     7E    0 11111 10  49152

          overflow         beyond 49152  +Inf
          saturate         7E = 49152    7E = 49152
          nonsaturating    7F = Inf      7F = Inf
          propagate        7E = 49152    7F = Inf
          ocp_table3       7F = Inf      7F = Inf
          p3109_satnone *  7F = Inf      7F = Inf
        """,
    ),
    "a number between two codes": (
        lambda: explain("e4m3", value=0.3),
        """
        e4m3 of 0.3 = code 2A = 0.3125

          bits      0     0101      010
          field     sign  exponent  mantissa
          at        7     6..3      2..0

          given     0.3 (float64 3FD3333333333333)
          decimal   0.299999999999999988897769753748434595763683319091796875
          fraction  5404319552844595/2^54
          hex       0x1.3333333333333p-2
          result    (-1)^0 * 2^(5-7) * (1 + 2/8) = 0.3125
          class     +normal
          error     ~0.0125 = ~0.4 ulp
          policies  rounding=nearest_even, overflow=saturate, nan=canonical, subnormals=keep

          ladder    code  bits        value
          above     2A    0 0101 010  0.3125
          given                       ~0.29999999999999999
          midpoint                    0.296875
          below     29    0 0101 001  0.28125

          rounding         code  value    why
          nearest_even *   2A    0.3125   above the midpoint
          nearest_away     2A    0.3125   above the midpoint
          toward_zero      29    0.28125  29 is nearer to 0
          toward_positive  2A    0.3125   2A is above
          toward_negative  29    0.28125  29 is below
          to_odd           29    0.28125  29 is odd
        """,
    ),
    "a negative tie at the end": (
        lambda: explain("e4m3", value=-464, overflow="nonsaturating", rounding="to_odd"),
        """
        e4m3 of -464 = code FE = -448

          bits      1     1111      110
          field     sign  exponent  mantissa
          at        7     6..3      2..0

          given     -464 (int)
          decimal   -464
          fraction  -464
          hex       -0x1.dp+8
          result    (-1)^1 * 2^(15-7) * (1 + 6/8) = -448
          class     -normal, the greatest finite magnitude
          error     16 = 0.5 ulp
          policies  rounding=to_odd, overflow=nonsaturating, nan=canonical, subnormals=keep

          ladder    code  bits        value
          above     FE    1 1111 110  -448
          given                       -464
          midpoint                    -464
          below                       none; next -480

          rounding         code  value  why
          nearest_even     FE    -448   tie: FE is even
          nearest_away     FF    NaN    overflow, nonsaturating
          toward_zero      FE    -448   FE is nearer to 0
          toward_positive  FE    -448   FE is above
          toward_negative  FF    NaN    overflow, nonsaturating
          to_odd *         FE    -448   overflow, nonsaturating

          overflow         beyond -448  -Inf
          saturate         FE = -448    FE = -448
          nonsaturating *  FE = -448    FF = NaN
          propagate        FE = -448    FE = -448
          ocp_table3       FF = NaN     FF = NaN
        """,
    ),
    "a tie without mantissa bits": (
        lambda: explain("e8m0", value=np.float32(3)),
        """
        e8m0 of 3.0 = code 80 = 2

          bits      10000000
          field     exponent
          at        7..0

          given     3.0 (float32 40400000)
          decimal   3
          fraction  3
          hex       0x1.8p+1
          result    2^(128-127) = 2
          class     +normal
          error     -1 = -0.5 ulp
          policies  rounding=nearest_even, overflow=saturate, nan=canonical, negative=nan,
                    subnormals=keep

          ladder    code  bits      value
          above     81    10000001  4
          given                     3
          midpoint                  3
          below     80    10000000  2

          rounding         code  value  why
          nearest_even *   80    2      tie: 80 is even
          nearest_away     81    4      tie: 81 is farther from 0
          toward_zero      80    2      80 is nearer to 0
          toward_positive  81    4      81 is above
          toward_negative  80    2      80 is below
          to_odd           81    4      81 is odd
        """,
    ),
    "a scaled integer, exactly": (
        lambda: explain("mxint8", value=np.float16(-1.296875)),
        """
        mxint8 of -1.297 = code AD = -1.296875

          bits      1     0101101
          field     sign  integer
          at        7     6..0

          given     -1.297 (float16 BD30)
          decimal   -1.296875
          fraction  -83/64
          hex       -0x1.4cp+0
          result    (1 * -128 + 45) * 2^-6 = -1.296875
          class     -normal
          error     0 = 0 ulp
          policies  rounding=nearest_even, overflow=saturate, nan=error, subnormals=keep

          ladder    code  bits       value
          above     AE    1 0101110  -1.28125
          midpoint                   -1.2890625
          given     AD    1 0101101  -1.296875
          midpoint                   -1.3046875
          below     AC    1 0101100  -1.3125

          rounding         code  value      why
          nearest_even *   AD    -1.296875  exact
          nearest_away     AD    -1.296875  exact
          toward_zero      AD    -1.296875  exact
          toward_positive  AD    -1.296875  exact
          toward_negative  AD    -1.296875  exact
          to_odd           AD    -1.296875  exact
        """,
    ),
    "a table, beyond its end": (
        lambda: explain("nf4", value=-3),
        """
        nf4 of -3 = code 0 = -1

          bits      0000
          field     index
          at        3..0

          given     -3 (int)
          decimal   -3
          fraction  -3
          hex       -0x1.8p+1
          result    values[0] = -1
          class     -normal
          error     2
          policies  rounding=nearest_even, overflow=saturate, nan=error, subnormals=keep

          ladder  code  bits  value
          above   0     0000  -1
          given               -3

          rounding        code  value  why
          nearest_even *  0     -1     beyond the last value
        """,
    ),
    "a negative in an unsigned format": (
        lambda: explain("ue4m3", value=-3.0),
        """
        ue4m3 of -3.0 = code 7F = NaN

          bits      1111      111
          field     exponent  mantissa
          at        6..3      2..0

          given     -3.0 (float64 C008000000000000)
          decimal   -3
          fraction  -3
          hex       -0x1.8p+1
          result    NaN: exponent and mantissa all ones
          class     NaN, the canonical one
          policies  rounding=nearest_even, overflow=saturate, nan=canonical, negative=nan,
                    subnormals=keep

          negative  for -3.0
          nan *     7F = NaN
          zero      00 = 0
          abs       44 = 3
          error     ValueError
        """,
    ),
    "a NaN where there is none": (
        lambda: explain("e2m1", value=math.nan),
        """
        e2m1 of nan = ValueError

          given     nan (float64 7FF8000000000000)
          policies  rounding=nearest_even, overflow=saturate, nan=error, subnormals=keep

          nan      NaN
          error *  ValueError
          max      7 = 6
          zero     0 = 0
        """,
    ),
    "a format": (
        lambda: explain("e2m1"),
        """
        e2m1: float, 4 bits

          bits           s     ee        m
          field          sign  exponent  mantissa
          at             3     2..1      0

          value          (-1)^s * 2^(e-1) * (1 + m/2)
          where e = 0    (-1)^s * 2^(1-1) * (0 + m/2)
          max            7 = 6
          min            F = -6
          min normal     2 = 1
          min subnormal  1 = 0.5
          precision      2 bits
          zero           0 = 0, 8 = -0
          inf            none
          nan            none
          lane           4 bits; 8 codes in 1 word
          defaults       rounding=nearest_even, overflow=saturate, nan=error, subnormals=keep
          aliases        e2m1fn, float4_e2m1fn, F4, fp4, fp4_e2m1
          source         OCP Microscaling Formats (MX) Specification, 1.0, 2023-09-07, section
                         5.3

          overflow       beyond 6  +Inf
          saturate *     7 = 6     7 = 6
          nonsaturating  7 = 6     7 = 6
          propagate      7 = 6     7 = 6

          nan      NaN
          error *  ValueError
          max      7 = 6
          zero     0 = 0

          code  bits    value
          0     0 00 0  0
          1     0 00 1  0.5
          2     0 01 0  1
          3     0 01 1  1.5
          4     0 10 0  2
          5     0 10 1  3
          6     0 11 0  4
          7     0 11 1  6
          8     1 00 0  -0
          9     1 00 1  -0.5
          A     1 01 0  -1
          B     1 01 1  -1.5
          C     1 10 0  -2
          D     1 10 1  -3
          E     1 11 0  -4
          F     1 11 1  -6
        """,
    ),
    "a format with a lane of its own": (
        lambda: explain("tf32", overflow="saturate"),
        """
        tf32: float, 19 bits

          bits           s     eeeeeeee  mmmmmmmmmm
          field          sign  exponent  mantissa
          at             18    17..10    9..0

          value          (-1)^s * 2^(e-127) * (1 + m/1024)
          where e = 0    (-1)^s * 2^(1-127) * (0 + m/1024)
          max            3FBFF = ~3.4011621342146535e+38
          min            7FBFF = ~-3.4011621342146535e+38
          min normal     00400 = ~1.1754943508222875e-38
          min subnormal  00001 = ~1.1479437019748901e-41
          precision      11 bits
          zero           00000 = 0, 40000 = -0
          inf            3FC00, 7FC00
          nan            3FC01..3FFFF, 7FC01..7FFFF; canonical 3FE00
          lane           32 bits; the code in 31..13; 1 code in 1 word
          policies       rounding=nearest_even, overflow=saturate, nan=canonical,
                         subnormals=keep
          aliases        tensorfloat32, e8m10
          source         NVIDIA PTX ISA, 8.7, alternate floating-point data formats

          overflow       beyond ~3.4011621342e+38   +Inf
          saturate *     3FBFF = ~3.4011621342e+38  3FBFF = ~3.4011621342e+38
          nonsaturating  3FC00 = Inf                3FC00 = Inf
          propagate      3FBFF = ~3.4011621342e+38  3FC00 = Inf
          ocp_table3     3FC00 = Inf                3FC00 = Inf

          nan            NaN                        -NaN
          canonical *    3FE00 = NaN                3FE00 = NaN
          preserve_sign  3FE00 = NaN                7FE00 = NaN
          error          ValueError                 ValueError
          max            3FBFF = ~3.4011621342e+38  3FBFF = ~3.4011621342e+38
          zero           00000 = 0                  00000 = 0
        """,
    ),
    "a word in the article's order": (
        lambda: explain_word(0x38004000, "fp16", "big"),
        """
        word 38004000: 2 lanes of fp16, order big

          bits      0011100000000000  0100000000000000
          field     lane 0            lane 1
          at        31..16            15..0

          order     lane 0 in the high bits

          lane  at      code  bits                value
          0     31..16  3800  0 01110 0000000000  0.5
          1     15..0   4000  0 10000 0000000000  2
        """,
    ),
    "a word with a rest": (
        lambda: explain_word(0x85103081, "e3m2"),
        """
        word 85103081: 5 lanes of e3m2, order little

          bits      10      000101  000100  000011  000010  000001
          field     rest    lane 4  lane 3  lane 2  lane 1  lane 0
          at        31..30  29..24  23..18  17..12  11..6   5..0

          order     lane 0 in the low bits
          rest      the first bits of lane 5, which ends in the next word

          lane  at      code  bits      value
          0     5..0    01    0 000 01  0.0625
          1     11..6   02    0 000 10  0.125
          2     17..12  03    0 000 11  0.1875
          3     23..18  04    0 001 00  0.25
          4     29..24  05    0 001 01  0.3125
        """,
    ),
    "a word with bits outside a code": (
        lambda: explain_word(0x3F8F0001, "tf32", "big"),
        """
        word 3F8F0001: 1 lane of tf32, order big

          bits      00111111100011110000000000000001
          field     lane 0
          at        31..0

          order     lane 0 in the high bits
          lane      32 bits; the code in 31..13
          not zero  bits outside the code in lane 0

          lane  at     code   bits                   value
          0     31..0  1FC78  0 01111111 0001111000  1.1171875
        """,
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name: str) -> None:
    make, text = TEXTS[name]
    assert str(make()) == textwrap.dedent(text).strip("\n").rstrip()


# --- every code -------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _pages(row: Format) -> list[Explanation]:
    """Every code explained."""
    return [explain(row, code) for code in range(1 << row.bits)]


@pytest.mark.parametrize("row", [*SMALL, *EXTRA, INT1], ids=str)
def test_every_code_has_the_oracles_value(row: Format) -> None:
    for code, page in enumerate(_pages(row)):
        want = oracle.decode(code, row)
        assert page.value == (want.kind, want.negative, want.magnitude)
        assert (page.code, page.fmt) == (code, row)
        assert "".join(field.bits for field in page.fields) == f"{code:0{row.bits}b}"
        assert _widest(page) <= WIDTH
        if want.kind == "finite" and row.kind != "table":
            text = dict(page.facts)["value"]
            assert _arithmetic(text.rsplit(" = ", 1)[0]) == want.signed, text


def test_every_code_of_p3109_has_the_oracles_value() -> None:
    for row in p3109_formats():
        for code in range(1 << row.bits):
            want = oracle.decode(code, row)
            assert number_of(code, row) == (want.kind, want.negative, want.magnitude), (row, code)
        for code in {0, 1, row.max_magnitude, row.canonical_nan or 0, row.code_mask}:
            assert _widest(explain(row, code)) <= WIDTH


@pytest.mark.parametrize("row", WIDE, ids=str)
def test_codes_of_wide_formats(row: Format) -> None:
    special = [0, 1, row.max_magnitude, row.max_magnitude + 1, row.code_mask, row.canonical_nan or 0]
    sample = np.random.default_rng(row.bits).integers(0, 1 << row.bits, 60).tolist()
    for code in (*special, *sample):
        want, page = oracle.decode(code, row), explain(row, code)
        assert page.value == (want.kind, want.negative, want.magnitude)
        assert _widest(page) <= WIDTH


def _widest(page: Explanation) -> int:
    return max(map(len, str(page).splitlines()))


def _arithmetic(text: str) -> Fraction:
    """The right-hand side of a formula, worked out with fractions: `2^(5-7)` is a power."""
    names = text.replace("^", "**").replace("(", "(F(0)+").replace("F(0)+-1", "F(-1)")
    return eval(names, {"F": Fraction, "__builtins__": {}})  # only digits and operators of our own text


@pytest.mark.parametrize("row", [*SMALL, *EXTRA], ids=str)
def test_ladder_holds_the_neighbours_and_the_midpoints(row: Format) -> None:
    numbers = [oracle.decode(code, row) for code in range(1 << row.bits)]
    values = sorted({number.signed for number in numbers if number.kind == "finite"})
    for number, page in zip(numbers, _pages(row), strict=True):
        if number.kind != "finite":
            continue
        at = values.index(number.signed)
        rungs = page.tables[0].rows
        for label, near in (("above", at + 1), ("below", at - 1)):
            shown = [rung for rung in rungs if rung[0] == label and rung[1]]
            if not 0 <= near < len(values):
                assert not shown or oracle.decode(int(shown[0][1], 16), row).kind == "inf"
                continue
            assert oracle.decode(int(shown[0][1], 16), row).signed == values[near]
            middle = decimal_text((values[at] + values[near]) / 2)
            assert ("midpoint", "", "", middle) in rungs


# --- numbers on their way to a code -----------------------------------------------------------


def _rounding_rows(page: Explanation) -> list[tuple[str, ...]]:
    return [row for table in page.tables if table.head[0] == "rounding" for row in table.rows]


@pytest.mark.parametrize(
    "row", [get_format("e4m3"), get_format("e5m2"), get_format("uint4"), INT1, *EXTRA[:3]], ids=str
)
@pytest.mark.parametrize("policies", [{}, {"overflow": "nonsaturating"}, {"subnormals": "flush_output"}], ids=str)
def test_roundings_go_where_the_oracle_sends_them(row: Format, policies: dict[str, Any]) -> None:
    points = helpers.interesting(row)
    for x in (*points[:: max(1, points.size // 14)].tolist(), math.inf, -math.inf):
        page = explain(row, value=x, **policies)
        assert page.code == oracle.encode(x, row, **policies)
        assert _widest(page) <= WIDTH
        for name, code, _, why in _rounding_rows(page):
            want = oracle.encode(x, row, rounding=name.removesuffix(" *"), **policies)
            assert int(code, 16) == want
            assert why
            if " is " in why:  # it names the code that it explains
                assert why.removeprefix("tie: ").startswith(f"{code} is "), why


ROUNDED = [get_format(name) for name in ("e4m3", "e5m2", "e4m3fnuz", "uint4", "nf4")]


@pytest.mark.parametrize("row", [*ROUNDED, INT1, *EXTRA[:2]], ids=str)
def test_a_number_stands_between_its_neighbours(row: Format) -> None:
    numbers = [oracle.decode(code, row) for code in range(1 << row.bits)]
    values = sorted({number.signed for number in numbers if number.kind == "finite"})
    points = helpers.interesting(row)
    for x in (*points[:: max(1, points.size // 20)].tolist(), 5e-324, -5e-324, -0.0):
        if not math.isfinite(x) or (x < 0 and not row.signed):
            continue
        rungs = {label: code for label, code, _, _ in explain(row, value=x).tables[0].rows}
        codes = {label: code for label, code in rungs.items() if code}
        got = {label: number_of(int(code, 16), row) for label, code in codes.items()}
        want = {
            "below": max((v for v in values if v < x), default=None),
            "above": min((v for v in values if v > x), default=None),
        }
        if x in values:
            want["given"] = Fraction(x)
        finite = {label: number.signed for label, number in got.items() if number.kind == "finite"}
        assert finite == {label: value for label, value in want.items() if value is not None}, x


REASONS = [
    # e4m3: 08 is 2^-6, 09 is 1.125 * 2^-6; the tie is 1.0625 * 2^-6 and 08 is even
    ("e4m3", 1.0625 * 2**-6, {}, ("tie: 08 is even", "tie: 09 is farther from 0")),
    ("e4m3", -1.0625 * 2**-6, {}, ("tie: 88 is even", "tie: 89 is farther from 0")),
    ("e4m3", -1.07 * 2**-6, {}, ("below the midpoint", "below the midpoint")),
    ("e4m3", -1.05 * 2**-6, {}, ("above the midpoint", "above the midpoint")),
    ("e4m3", 480.0, {"overflow": "propagate"}, ("overflow, propagate",) * 2),
    ("e4m3", 2.0**-9, {"subnormals": "flush_output"}, ("flushed to zero",) * 2),
    ("bf16", np.float16(2**-15), {"subnormals": "flush_input"}, ("flushed to zero",) * 2),
    ("bf16", np.float16(2**-14), {"subnormals": "flush_input"}, ("exact",) * 2),
    ("e8m0", 0, {}, ("below the least value",) * 2),
    ("e8m0", -0.0, {}, ("below the least value",) * 2),
    ("e8m0", -3.0, {"negative": "abs"}, ("tie: 80 is even", "tie: 81 is farther from 0")),
    ("binary8p3uf", -(2.0**-40), {}, ("rounds to 0",) * 2),
    ("binary8p3uf", -1, {}, ("rounds to a negative",) * 2),
    ("e5m2", math.inf, {}, ("overflow, saturate",) * 2),
]


@pytest.mark.parametrize(("fmt", "x", "policies", "reasons"), REASONS)
def test_reasons(fmt: str, x: Any, policies: dict[str, Any], reasons: tuple[str, str]) -> None:
    whys = tuple(why for _, _, _, why in _rounding_rows(explain(fmt, value=x, **policies))[:2])
    assert whys == reasons


def test_reasons_of_the_directed_roundings() -> None:
    """The least of all float64 still counts: it is not exact, and goes up where the rounding does."""
    for x, reasons in (
        (5e-324, ("00 is nearer to 0", "01 is above", "00 is below", "01 is odd")),
        (-5e-324, ("80 is nearer to 0", "80 is above", "81 is below", "81 is odd")),
    ):
        assert tuple(row[3] for row in _rounding_rows(explain("e4m3", value=x))[2:]) == reasons


def test_ladders_without_a_neighbour_below() -> None:
    for x in (0, -0.0):
        assert explain("e8m0", value=x).tables[0].rows[0][:2] == ("above", "00")
    table = explain("e8m0", value=-3.0, negative="abs").tables[1]
    assert [(row[0], row[3]) for row in table.rows] == [
        ("above", "4"),
        ("given", "3"),
        ("midpoint", "3"),
        ("below", "2"),
    ]


def test_reasons_of_a_table() -> None:
    # fp4_bnb holds 0.25 and 0.16666667163372040; 1/192 is the least
    row = get_format("fp4_bnb")
    tie = (row.values[6] + 0.25) / 2
    got = [_rounding_rows(explain(row, value=x))[0] for x in (0.25, tie, -tie, tie * 1.01, tie * 0.99, 2, math.inf)]
    assert [(code, why) for _, code, _, why in got] == [
        ("7", "exact"),
        ("6", "tie: the smaller magnitude"),
        ("E", "tie: the smaller magnitude"),
        ("7", "above the midpoint"),
        ("6", "below the midpoint"),
        ("3", "beyond the last value"),
        ("3", "beyond the last value"),
    ]


@pytest.mark.parametrize(
    ("value", "given"),
    [
        (0.1, "0.1 (float64 3FB999999999999A)"),
        (np.float16(0.1), "0.1 (float16 2E66)"),
        (np.array(0.1, ">f4"), "0.1 (float32 3DCCCCCD)"),
        (ml_dtypes.bfloat16(0.1), "0.10009765625 (bfloat16 3DCD)"),
        (ml_dtypes.float8_e4m3fn(448), "448 (float8_e4m3fn 7E)"),
        (-(2**63), "-9223372036854775808 (int)"),
        (2**70 + 1, "~1.1805916207174113034e+21 (int)"),
        (np.uint8(7), "7 (uint8)"),
        (np.bool_(True), "1 (bool)"),
        (-0.0, "-0.0 (float64 8000000000000000)"),
    ],
)
def test_given(value: Any, given: str) -> None:
    page = explain("fp32", value=value)
    assert dict(page.facts)["given"] == given


def test_integers_and_longdoubles_are_exact() -> None:
    facts = dict(explain("fp32", value=2**70 + 1).facts)
    assert facts["decimal"] == str(2**70 + 1)
    x = np.longdouble(1) + np.longdouble(2) ** -60
    want = Fraction(*x.as_integer_ratio())
    assert dict(explain("fp32", value=x).facts)["fraction"] == fraction_text(want)


def test_profile_and_two_nan_codes() -> None:
    page = explain("e5m2", value=math.nan, nan=(0x7D, 0xFE))
    assert dict(page.facts)["policies"] == "rounding=nearest_even, overflow=saturate, nan=7D/FE, subnormals=keep"
    assert page.tables[0].rows[-1] == ("7D/FE *", "7D = NaN", "FE = NaN")
    page = explain("e5m2", value=math.nan, nan=0x7D)
    assert page.tables[0].rows[-1] == ("7D *", "7D = NaN", "7D = NaN")


# --- words ------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [row for row in FORMATS.values() if row.bits <= 16], ids=str)
@pytest.mark.parametrize("order", ["little", "big"])
def test_lanes(row: Format, order: Any) -> None:
    for word in (0, 0xFFFFFFFF, 0x12345678, 0x80000001):
        page = explain_word(word, row, order)
        assert "".join(field.bits for field in page.fields) == f"{word:032b}"
        assert _widest(page) <= WIDTH
        for lane, at, code, bits, value in page.tables[0].rows:
            # by hand: the lane's bits are a slice of the word, the code lies storage_shift above its lowest
            low = int(lane) * row.storage_bits
            low = low if order == "little" else 32 - low - row.storage_bits
            want = (word >> (low + row.storage_shift)) & ((1 << row.bits) - 1)
            assert (at, int(code, 16), bits.replace(" ", "")) == (
                f"{low + row.storage_bits - 1}..{low}",
                want,
                f"{want:0{row.bits}b}",
            )
            assert value == str(number_of(want, row))


def test_a_word_of_single_bits() -> None:
    page = explain_word(0x80000001, Format("bit", 1, kind="integer", signed=False))
    assert [row[2] for row in page.tables[0].rows] == ["1", *"0" * 30, "1"]
    assert _widest(page) <= WIDTH


# --- numbers as text --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "digits", "text"),
    [
        (Fraction(100), 17, "100"),
        (Fraction(10**30), 17, "1e+30"),
        (Fraction(2**60), 17, "~1.152921504606847e+18"),
        (Fraction(2**60), 19, "1152921504606846976"),
        (Fraction(-1, 3), 3, "~-0.333"),
        (Fraction(0), 17, "0"),
        (Fraction(1, 2**30), 17, "~9.3132257461547852e-10"),
    ],
)
def test_decimal_text(x: Fraction, digits: int, text: str) -> None:
    assert decimal_text(x, digits) == text


@pytest.mark.parametrize("x", [0.0, 1.0, 448.0, 0.1, 2.0**-1074, 2.0**1023, 1e300, 3.0, 255.0, 1.0625])
def test_hex_and_fraction_text_read_back(x: float) -> None:
    assert float.fromhex(hex_text(Fraction(x))) == x
    assert _arithmetic(fraction_text(Fraction(x))) == Fraction(x)


# --- HTML -------------------------------------------------------------------------------------


def _cells(page: Explanation) -> list[str]:
    """The texts of the HTML, which must parse, and be of known tags alone."""
    tree = ElementTree.fromstring(page._repr_html_())
    assert {element.tag for element in tree.iter()} <= {"div", "strong", "table", "thead", "tbody", "tr", "td", "th"}
    return [element.text or "" for element in tree.iter() if element.tag in ("td", "th", "strong")]


@pytest.mark.parametrize("row", [*FORMATS.values(), HOSTILE, *EXTRA], ids=lambda row: row.name[:11])
def test_html_says_what_the_text_says(row: Format) -> None:
    for page in (explain(row), explain(row, 1), explain(row, value=1.5), explain_word(0x12345678, row)):
        cells, text = _cells(page), "".join(str(page).split())
        assert all("".join(cell.split()) in text for cell in cells)
        tables = sum(len(table.head) * (1 + len(table.rows)) for table in page.tables)
        assert len(cells) == 1 + 3 * len(page.fields) + 2 * len(page.facts) + tables


def test_html_escapes() -> None:
    cells = _cells(explain(HOSTILE))
    assert cells[0] == f"{HOSTILE.name}: integer, 4 bits"
    assert "</table>, &amp;" in cells
    assert "<script>alert(1)</script>" in cells


def test_html_needs_nothing_from_outside() -> None:
    source = explain("e4m3", value=0.3)._repr_html_()
    assert not any(text in source for text in ("http", "url(", "<style", "<script", "<link", "@import"))


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("role", COLOURS)
@pytest.mark.parametrize("paper", ["#FFFFFF", "#111111"])
def test_colours_stand_out_in_light_and_dark(role: str, paper: str) -> None:
    """WCAG 2.2, 1.4.11: graphics need a contrast of 3 to 1; the grey of the rest, which says nothing, has less."""
    low, high = sorted((_luminance(COLOURS[role]), _luminance(paper)))
    assert (high + 0.05) / (low + 0.05) >= (2.8 if role == "rest" else 3)


# --- refusals and small things ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: explain("e4m3", 256), ValueError, "code = 0x100 is not a code of 'e4m3'"),
        (lambda: explain("e4m3", -1), ValueError, "code = -0x1 is not"),
        (lambda: explain("e4m3", 1.5), TypeError, "got dtype float64; a number goes to value=1.5"),
        (lambda: explain("e4m3", "0x7E"), TypeError, "got the text '0x7E'; write a code as 0x7E"),
        (lambda: explain("e4m3", word=3), TypeError, "unexpected argument 'word'; a word goes to explain_word"),
        (lambda: explain("e4m3", [1]), ValueError, r"code must be one integer, got shape \(1,\)"),
        (lambda: explain("e4m3", 1, value=2), ValueError, "give a code or a value, not both"),
        (lambda: explain("e4m3", value="0.3"), TypeError, "value must be a real number, got str"),
        (lambda: explain("e4m3", value=1j), TypeError, "value must be a real number, got complex"),
        (lambda: explain("e4m3", value=Fraction(1, 3)), TypeError, "value must be a real number, got Fraction"),
        (lambda: explain("e4m3", value=[1.0]), ValueError, r"value must be one number, got shape \(1,\)"),
        (lambda: explain("e4m3", value=[[1], [1, 2]]), ValueError, "value: "),
        (lambda: explain("e4m3", value=1 << 2000), ValueError, "value: the integer .* has 2001 bits"),
        (lambda: explain("e4m3", rounding="stochastic_a"), ValueError, "rounding='stochastic_a': explain takes"),
        (lambda: explain("e4m3", rounding="up"), ValueError, "rounding must be one of"),
        (lambda: explain("nope"), ValueError, "unknown format 'nope'"),
        (lambda: explain(helpers.FP64, 1), ValueError, "codes have at most 32"),
        (lambda: explain(helpers.FP64, value=1), ValueError, "codes have at most 32"),
        (lambda: explain_word(1 << 32, "e4m3"), ValueError, "word = 0x100000000 is not in range"),
        (lambda: explain_word(-1, "e4m3"), ValueError, "word = -0x1 is not in range"),
        (lambda: explain_word(1.0, "e4m3"), TypeError, "word must be integers"),
        (lambda: explain_word([1], "e4m3"), ValueError, "word must be one integer"),
        (lambda: explain_word(1, "e4m3", "middle"), ValueError, "order must be one of"),
        (lambda: explain_word(1, helpers.FP64), ValueError, "a word has 32"),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_a_source_format_of_64_bits_is_explained_without_codes() -> None:
    facts = dict(explain(helpers.FP64).facts)
    assert facts["max"] == "7FEFFFFFFFFFFFFF = ~1.7976931348623157e+308"
    assert (
        facts["nan"]
        == "7FF0000000000001..7FFFFFFFFFFFFFFF, FFF0000000000001..FFFFFFFFFFFFFFFF; canonical 7FF8000000000000"
    )


def test_an_interpreter_shows_the_text() -> None:
    page = explain("e4m3", np.uint8(0x7E))
    assert repr(page) == str(page)
    assert page == explain("float8_e4m3fn", 0x7E)


@pytest.mark.parametrize("row", [*FORMATS.values(), *EXTRA, INT1, minifloat(16, 15)], ids=str)
def test_formats_fit_the_width(row: Format) -> None:
    assert _widest(explain(row)) <= WIDTH
    assert _widest(explain(row, value=1.1)) <= WIDTH
