"""fma32, add32, mul32 against fractions: one rounding, every boundary, and no flush to zero."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain_ops
from feather_ref import oracle
from feather_ref.ops import add32, fma32, mul32
from feather_ref.tensors import pack_tensor

EDGES = (
    0x00000000, 0x00000001, 0x00000002, 0x00400000, 0x007FFFFE, 0x007FFFFF, 0x00800000, 0x00800001, 0x00FFFFFF,
    0x01000000, 0x1F800000, 0x20000001, 0x33800000, 0x33800001, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3FFFFFFF,
    0x4B000000, 0x4B7FFFFF, 0x4B800000, 0x5F7FFFFF, 0x5F800000, 0x7F000000, 0x7F7FFFFE, 0x7F7FFFFF, 0x7F800000,
    0x7FC00000, 0x7F800001,
)  # fmt: skip
BOTH = tuple(code | sign for code in EDGES for sign in (0, 0x80000000))
ANY = st.integers(0, 2**32 - 1) | st.sampled_from(BOTH)


def number(bits: int) -> np.float32:
    return np.uint32(bits).view(np.float32)


def value(bits: int) -> float:
    return float(number(bits))


def test_the_plain_arithmetic_is_that_of_the_oracle() -> None:
    rng = np.random.default_rng(1)
    triples = rng.choice(np.array(BOTH), (300, 3)).tolist() + rng.integers(0, 2**32, (100, 3)).tolist()
    for a, b, c in triples:
        want = oracle.fma(a, b, c, "fp32")
        assert plain_ops.bits([plain_ops.fma(value(a), value(b), value(c))])[0] == want, (hex(a), hex(b), hex(c))


def test_all_edges() -> None:
    """A seventh of the 58^3 triples."""
    codes = np.array(BOTH, np.uint32).view(np.float32)
    got = fma32(codes[:, None, None], codes[:, None], codes).view(np.uint32)
    values = [value(code) for code in BOTH]
    sample = range(0, len(BOTH) ** 3, 7)  # 7 divides no axis, so all pairs come
    want = plain_ops.bits([plain_ops.fma(*(values[i] for i in np.unravel_index(s, got.shape))) for s in sample])
    np.testing.assert_array_equal(got.ravel()[::7], want)


@settings(max_examples=60)
@given(st.lists(st.tuples(ANY, ANY, ANY), min_size=20, max_size=20))
def test_any_three(triples: list[tuple[int, int, int]]) -> None:
    rows = np.array(triples, np.uint32)
    a, b, c = rows.view(np.float32).T
    numbers = [tuple(map(value, row)) for row in triples]
    for got, want in (
        (fma32(a, b, c), [plain_ops.fma(*row) for row in numbers]),
        (add32(a, c), [plain_ops.add(row[0], row[2]) for row in numbers]),
        (mul32(a, b), [plain_ops.mul(*row[:2]) for row in numbers]),
    ):
        np.testing.assert_array_equal(got.view(np.uint32), plain_ops.bits(want), str(triples))


def ties() -> np.ndarray:
    """(p, q, r): p * q is half a place of r, give or take a little: float64 cannot tell them apart."""
    rows = []
    for r in (0x3F800000, 0x3F800001, 0x40490FDB, 0x7F7FFFFF, 0x4B7FFFFF, 0x10000000):
        half = (r >> 23) - 24 << 23  # of the last place of r
        for p in (0x3F800000, 0x3F800001, 0x3FFFFFFF, 0x3F7FFFFF):
            rows += [(p, half + d, r | sign) for d in (-2, -1, 0, 1, 2) for sign in (0, 0x80000000)]
    return np.array(rows, np.uint32)


def test_half_a_place_and_a_little() -> None:
    rows = ties()
    got = fma32(*rows.view(np.float32).T).view(np.uint32)
    want = plain_ops.bits([plain_ops.fma(*map(value, row)) for row in rows.tolist()])
    np.testing.assert_array_equal(got, want)


def test_float64_rounds_twice() -> None:
    """1 + 2**-11 + 2**-24 + 2**-60 is above a tie; float64 drops the last term and makes it one."""
    a, c = np.float32(1 + 2.0**-12), np.float32(2.0**-60)
    exact = Fraction(float(a)) ** 2 + Fraction(float(c))
    assert exact > 1 + Fraction(1, 2**11) + Fraction(1, 2**24)
    twice = (np.float64(a) * np.float64(a) + np.float64(c)).astype(np.float32)
    assert (hex(twice.view(np.uint32)), hex(fma32(a, a, c).view(np.uint32))) == ("0x3f801000", "0x3f801001")
    assert fma32(a, a, -c).view(np.uint32) == 0x3F801000  # just below the tie


@pytest.mark.parametrize(
    ("a", "b", "c", "want"),
    [
        (0x7F7FFFFF, 0x3F800000, 0x73000000, 0x7F800000),  # max + half a place: a tie that goes to Inf
        (0x7F7FFFFF, 0x3F800000, 0x72FFFFFF, 0x7F7FFFFF),  # just below it
        (0x7F7FFFFF, 0x40000000, 0xFF7FFFFF, 0x7F7FFFFF),  # 2 max - max: the product alone is beyond
        (0x00800000, 0x3F000000, 0x00000000, 0x00400000),  # a subnormal
        (0x00000001, 0x3F000000, 0x00000000, 0x00000000),  # half the least: a tie to even
        (0x00000003, 0x3F000000, 0x00000000, 0x00000002),  # 1.5 of the least: a tie to even
        (0x80000001, 0x3F000000, 0x00000000, 0x80000000),  # below zero, half the least is -0
        (0x00000001, 0x3F000001, 0x00000000, 0x00000001),
        (0x00000001, 0x00000001, 0x00000001, 0x00000001),  # 2**-298 is nothing beside 2**-149
        (0x00000001, 0x00000001, 0x80000000, 0x00000000),  # and rounds to +0 alone
        (0x00FFFFFF, 0x3F000000, 0x00000000, 0x00800000),  # carries into the normal numbers
        (0x80000000, 0x3F800000, 0x80000000, 0x80000000),  # -0 + -0
        (0x80000000, 0x3F800000, 0x00000000, 0x00000000),
        (0x3F800000, 0xBF800000, 0x3F800000, 0x00000000),  # x - x
        (0x7F800000, 0x00000000, 0x3F800000, 0x7FC00000),  # Inf * 0
        (0x7F800000, 0x3F800000, 0xFF800000, 0x7FC00000),  # Inf - Inf
        (0x3F800000, 0x3F800000, 0xFFC00001, 0x7FC00000),
        (0x7F7FFFFF, 0x7F7FFFFF, 0xFF800000, 0xFF800000),  # a finite product, however great, and -Inf
    ],
)
def test_by_hand(a: int, b: int, c: int, want: int) -> None:
    got = fma32(number(a), number(b), number(c)).view(np.uint32)
    assert f"{got:08X}" == f"{want:08X}"


def test_shapes_and_dtypes() -> None:
    half = np.array([1.5, -2.0], np.float16)
    assert fma32(half, np.array([[2], [4]], np.int8), np.float32(1)).tolist() == [[4.0, -3.0], [7.0, -7.0]]
    assert add32(np.zeros((0, 3), np.float32), np.float32(1)).shape == (0, 3)
    big_endian = np.array([1.5, 2.5], ">f4")
    assert add32(big_endian, big_endian).tolist() == [3.0, 5.0]
    packed = pack_tensor(np.full(2, 3.0, np.float32), "e4m3", "row")  # 448 times a scale
    assert add32(packed, packed).tolist() == (2 * packed.dequantize()).tolist()
    with pytest.raises(ValueError, match=r"^shapes do not broadcast: a \(2,\), b \(3,\)"):
        add32(np.ones(2, np.float32), np.ones(3, np.float32))
    with pytest.raises(TypeError, match=r"^b: .* holds numbers that float32 does not"):
        mul32(np.float32(1), 1.0)
    with pytest.raises(TypeError, match=r"^c: dtype complex64"):
        fma32(np.float32(1), np.float32(1), np.complex64(1))
