"""Integer tools of the codecs: bit lengths and sticky shifts on uint64 arrays.

Nothing here touches a floating-point unit, so that no flush-to-zero flag can change a result.

Layout: a significand is a uint64 with its leading 1 in bit 63; `funnel` shifts it right through
a second word of 64 bits, whose lowest bit is sticky.

Source: Berkeley SoftFloat 3e, shiftRightJam (the idea); Warren, Hacker's Delight, 5-3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

ONE = np.uint64(1)
ZERO = np.uint64(0)


def bit_length(x: U64) -> I64:
    """Number of bits of each integer, 0 for 0.

    >>> bit_length(np.array([0, 1, 0xFF, 1 << 63], np.uint64)).tolist()
    [0, 1, 8, 64]
    """
    smeared = x.copy()
    for step in (1, 2, 4, 8, 16, 32):
        smeared |= smeared >> np.uint64(step)
    return np.bitwise_count(smeared).astype(np.int64)


def shift_right(x: U64, shift: I64) -> U64:
    """x >> shift, where a shift of 64 and more gives 0 (a processor would wrap it)."""
    return np.where(shift < 64, x >> np.minimum(shift, 63).astype(np.uint64), ZERO)


def shift_left(x: U64, shift: I64) -> U64:
    """x << shift, where a shift of 64 and more gives 0."""
    return np.where(shift < 64, x << np.minimum(shift, 63).astype(np.uint64), ZERO)


def shift_right_jam(x: U64, shift: I64) -> U64:
    """x >> shift, with the lowest bit set where a one was shifted out.

    >>> [hex(v) for v in shift_right_jam(np.array([0x18, 0x18], np.uint64), np.array([3, 4]))]
    ['0x3', '0x1']
    """
    kept = shift_right(x, shift)
    return kept | (shift_left(kept, shift) != x).astype(np.uint64)


def funnel(significand: U64, shift: I64) -> tuple[U64, U64]:
    """significand / 2**shift as (whole part, 64 bits of fraction, the last one sticky).

    shift: 1 and more; anything beyond the two words is sticky.

    >>> whole, fraction = funnel(np.array([3 << 62], np.uint64), np.array([63]))
    >>> hex(whole[0]), hex(fraction[0])
    ('0x1', '0x8000000000000000')
    """
    whole = shift_right(significand, shift)
    near = shift_left(significand, 64 - np.minimum(shift, 64))
    far = shift_right_jam(significand, np.maximum(shift - 64, 0))
    return whole, np.where(shift < 64, near, far)
