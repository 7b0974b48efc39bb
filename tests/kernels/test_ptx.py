"""The twins, against results worked out by hand or by exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feather_kernels.ptx import TWINS
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
