"""Integer tools against Python's integers, which have no width."""

from __future__ import annotations

import numpy as np
import pytest

from feather_ref._bits import bit_length, funnel, shift_left, shift_right, shift_right_jam

ALL = (1 << 64) - 1


def words() -> list[int]:
    """Zero, every power of two with its neighbours, all ones below each, and a fixed sample of every length."""
    near = {(1 << k) + d for k in range(64) for d in (-1, 0, 1)}
    dense = {(1 << k) - (1 << j) for k in range(1, 65) for j in range(0, k, 7)}
    seeded = np.random.default_rng(11).integers(0, 1 << 64, 200, dtype=np.uint64).tolist()
    return sorted(near | dense | {n >> k for n in seeded for k in (0, 10, 11, 12, 40)} | {ALL, 0x55 << 56})


WORDS = words()
U64 = np.array(WORDS, np.uint64)


def test_bit_length() -> None:
    """float64 would round 2**54 - 1 up to a power of two, and 2**64 - 1 out of range."""
    assert bit_length(U64).tolist() == [n.bit_length() for n in WORDS]
    assert bit_length(np.array((1 << 54) - 1, np.uint64)) == 54


@pytest.mark.parametrize("shift", [0, 1, 2, 31, 32, 33, 52, 62, 63, 64, 65, 100, 127, 128, 1 << 20])
def test_shifts(shift: int) -> None:
    """A shift of the width of the word and more gives 0, where a processor takes it modulo 64."""
    shifts = np.full(U64.shape, shift)
    assert shift_right(U64, shifts).tolist() == [n >> shift for n in WORDS]
    assert shift_left(U64, shifts).tolist() == [n << shift & ALL for n in WORDS]
    jammed = [n >> shift | (n & ((1 << shift) - 1) != 0) for n in WORDS]
    assert shift_right_jam(U64, shifts).tolist() == jammed


@pytest.mark.parametrize("shift", [*range(1, 12), *range(60, 70), 100, 126, 127, 128, 129, 200, 1 << 20])
def test_funnel(shift: int) -> None:
    """The whole part, 64 bits of fraction, and whether anything lies below them."""
    whole, fraction = funnel(U64, np.full(U64.shape, shift))
    for n, w, f in zip(WORDS, whole.tolist(), fraction.tolist(), strict=True):
        wide = n << 64  # two words; the second one is the fraction
        below = wide & ((1 << shift) - 1)
        assert w == n >> shift
        assert f == (wide >> shift & ALL) | (below != 0)


def test_funnel_takes_a_shift_for_each() -> None:
    n = np.array([3 << 62, 3 << 62, 3 << 62, 1 << 63], np.uint64)
    whole, fraction = funnel(n, np.array([63, 64, 65, 200]))
    assert whole.tolist() == [1, 0, 0, 0]
    assert [f"{f:016X}" for f in fraction.tolist()] == [
        "8000000000000000",
        "C000000000000000",
        "6000000000000000",
        "0000000000000001",
    ]
