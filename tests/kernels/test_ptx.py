"""The twins, against results worked out by hand or by exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feather_ref as fr
from feather_kernels.ptx import TWINS
from feather_kernels.simulator import Pointer
from feather_ref import oracle

WORDS = st.integers(0, 2**32 - 1)
SPECIAL = st.sampled_from([0, 1, 0x80000000, 0x80000001, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF, 0x3F800000])
FLOATS = WORDS | SPECIAL


def float_of(bits: int) -> np.float32:
    return np.uint32(bits).view(np.float32)


@pytest.mark.parametrize(
    ("a", "b", "selector", "result"),
    [
        (0x44332211, 0x88776655, 0x3210, 0x44332211),
        (0x44332211, 0x88776655, 0x7654, 0x88776655),
        (0x44332211, 0x88776655, 0x0246, 0x11335577),
        (0x44332211, 0, 0x1404, 0x22001100),  # two bytes, each the high one of a half
        (0x80FF7F01, 0, 0xBA98, 0xFFFF0000),  # signs: 80, FF, 7F, 01
    ],
)
def test_prmt(a: int, b: int, selector: int, result: int) -> None:
    assert TWINS["prmt"](np.uint32(a), np.uint32(b), np.uint32(selector)) == result


def test_shifts() -> None:
    assert TWINS["shift_signed"](np.uint32(0x80000000), np.uint32(4)) == 0xF8000000
    assert TWINS["shift_signed"](np.uint32(0x40000000), np.uint32(30)) == 1
    assert TWINS["shift_signed"](np.uint32(0x80000000), np.uint32(99)) == 0xFFFFFFFF
    assert TWINS["funnel"](np.uint32(0xAABBCCDD), np.uint32(0x11223344), np.uint32(8)) == 0x44AABBCC
    assert TWINS["funnel"](np.uint32(0xAABBCCDD), np.uint32(0x11223344), np.uint32(32)) == 0xAABBCCDD


def test_halves() -> None:
    pair = np.uint32(0xC0003555)  # -2 and about a third
    assert (TWINS["low_half"](pair), TWINS["high_half"](pair)) == (0.333251953125, -2.0)
    assert TWINS["low_half"](np.uint32(0x0001)) == 2.0**-24
    assert TWINS["high_half"](np.uint32(0x7C010000)).view(np.uint32) == 0x7FFFFFFF


def test_signed_and_unsigned_numbers() -> None:
    assert TWINS["from_signed"](np.uint32(0xFFFFFFFE)) == -2
    assert TWINS["from_unsigned"](np.uint32(0xFFFFFFFF)) == 2.0**32
    assert TWINS["from_unsigned"](np.uint32(2**24 + 1)) == 2.0**24  # a tie, to even


def rounded(exact: Fraction, negative_zero: bool) -> np.uint32:
    """An exact number as float32 bits, by the oracle."""
    code = oracle.encode(exact, "fp32", overflow="nonsaturating")
    return np.uint32(0x80000000 if exact == 0 and negative_zero else int(code))


@given(FLOATS, FLOATS, FLOATS)
def test_fma_rounds_once(a: int, b: int, c: int) -> None:
    x, y, z = map(float_of, (a, b, c))
    with np.errstate(all="ignore"):
        got = TWINS["fma"](x, y, z).view(np.uint32)
    if not all(map(np.isfinite, (x, y, z))):
        with np.errstate(all="ignore"):
            wanted = np.float64(x) * np.float64(y) + np.float64(z)  # only Inf and NaN: no rounding matters
        assert got == 0x7FFFFFFF if np.isnan(wanted) else float_of(int(got)) == wanted
        return
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    product_negative = bool(np.signbit(x) ^ np.signbit(y))
    assert got == rounded(exact, product_negative and bool(np.signbit(z)))


def test_fma_where_float64_rounds_twice() -> None:
    a = np.float32(1 + 2.0**-23)
    c = np.float32(2.0**-77)  # just above a tie that float64 does not see
    product = Fraction(float(a)) * Fraction(float(a))
    x, y, z = a, a, c
    exact = product + Fraction(float(c))
    assert TWINS["fma"](x, y, z).view(np.uint32) == rounded(exact, False)
    b, d = np.float32(1 + 2.0**-12), np.float32(1 + 2.0**-12)  # 1 + 2**-11 + 2**-24: a tie
    assert TWINS["fma"](b, d, np.float32(2.0**-80)).view(np.uint32) == 0x3F801001
    assert TWINS["fma"](b, d, np.float32(-(2.0**-80))).view(np.uint32) == 0x3F801000
    assert np.float32(np.float64(b) * np.float64(d) + 2.0**-80).view(np.uint32) == 0x3F801000  # twice: wrong


@given(FLOATS, FLOATS)
def test_mul_and_add_are_float32(a: int, b: int) -> None:
    x, y = float_of(a), float_of(b)
    with np.errstate(all="ignore"):
        for got, wanted in ((TWINS["mul"](x, y), x * y), (TWINS["add"](x, y), x + y)):
            assert got.view(np.uint32) == (0x7FFFFFFF if np.isnan(wanted) else wanted.view(np.uint32))


def test_e4m3_as_float16() -> None:
    """Every code, low and high; NaN is 7FFF with either sign."""
    every = np.arange(256, dtype=np.uint8)
    wanted = fr.decode(every, "e4m3").astype(np.float16).view(np.uint16)
    wanted[[0x7F, 0xFF]] = 0x7FFF
    for code, half in zip(every.tolist(), wanted.tolist(), strict=True):
        word = np.uint32(code | 0x3800 | code << 16 | 0xC0000000)
        assert TWINS["e4m3_low"](word) == half | 0x3C000000  # 1.0 above
        assert TWINS["e4m3_high"](word) == half | 0xC0000000  # -2.0 above


def test_a_counter_and_a_wide_product() -> None:
    words = Pointer(np.array([0, 0xFFFFFFFF], np.uint32))
    assert [int(TWINS["count"](words, i)) for i in (0, 0, 1)] == [0, 1, 0xFFFFFFFF]
    assert words.array.tolist() == [2, 0]
    assert TWINS["wide"](np.uint32(0xFFFFFFFF), np.uint32(3)) == 3 * (2**32 - 1)


def test_greater_and_lesser() -> None:
    greater, lesser, nan = TWINS["greater"], TWINS["lesser"], np.float32(np.nan)
    assert (greater(1.0, 2.0), lesser(1.0, 2.0)) == (2, 1)
    assert (greater(nan, -1.0), lesser(-1.0, nan)) == (-1, -1)
    for one, two in ((0.0, -0.0), (-0.0, 0.0)):
        assert not np.signbit(greater(one, two))
        assert np.signbit(lesser(one, two))
    assert greater(nan, nan).view(np.uint32) == 0x7FFFFFFF


def test_capped_cuts_the_magnitude_off() -> None:
    capped = TWINS["capped"]
    assert [float(capped(np.float32(x), np.float32(448))) for x in (-3, 449, -np.inf, np.nan)] == [3, 448, 448, 448]


def test_truncate_and_half_pairs() -> None:
    assert [float(TWINS["truncate"](np.float32(x))) for x in (2.9, -2.9, 0.5, 1e30)] == [2, -2, 0, np.float32(1e30)]
    pair = TWINS["half_pair"]
    assert pair(np.float32(-2), np.float32(65520)) == 0x7C00C000  # 65520 is the tie beyond the greatest float16
    assert pair(np.float32(np.nan), np.float32(2.0**-25)) == 0x00007FFF  # a tie between 0 and the least, to even
    assert TWINS["any_nan"](np.float32(1), np.float32(np.inf), np.float32(np.nan), np.float32(0)) == 1
    assert TWINS["any_nan"](*[np.float32(np.inf)] * 4) == 0


def test_loads_that_are_not_wanted_do_not_look() -> None:
    p = Pointer(np.arange(8, dtype=np.uint32))
    for name, count in (("fetch4", 4), ("fetch2", 2)):
        assert list(TWINS[name](p, 4, 1)) == list(range(4, 4 + count))
        assert list(TWINS[name](p, 99, 0)) == [0] * count
    assert (TWINS["fetch"](p, 7, 1), TWINS["fetch"](p, 99, 0)) == (7, 0)
