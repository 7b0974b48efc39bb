"""Integer tools of the codecs: bit lengths and sticky shifts on uint64 arrays.

The only float is a whole number on its way to its exponent field, always normal: no
flush-to-zero flag can change a result.

Layout: a significand is a uint64 with its leading 1 in bit 63; `funnel` shifts it right through
a second word of 64 bits, whose lowest bit is sticky.

Source: Berkeley SoftFloat 3e, shiftRightJam (the idea); Warren, Hacker's Delight, 5-3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

ZERO = np.uint64(0)
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_TOP_53 = np.uint64(0xFFFF_FFFF_FFFF_F800)


def bit_length(x: U64) -> I64:
    """Number of bits of each integer, 0 for 0.

    >>> bit_length(np.array([0, 1, 0xFF, 1 << 63], np.uint64)).tolist()
    [0, 1, 8, 64]
    """
    # 1. clear what float64 would round, 2. convert exactly, 3. read the exponent field
    clear = np.where(x >> np.uint64(53), _TOP_53, _ALL)
    exponent = (x & clear).astype(np.float64).view(np.int64) >> 52
    return np.maximum(exponent - 1022, 0)


def shift_right(x: U64, shift: I64) -> U64:
    """x >> shift, shift >= 0; NumPy makes a shift of 64 and more 0, where a processor would wrap."""
    return x >> shift.astype(np.uint64)


def shift_left(x: U64, shift: I64) -> U64:
    """x << shift, shift >= 0; a shift of 64 and more gives 0."""
    return x << shift.astype(np.uint64)


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
    fraction = shift_left(significand, 64 - np.minimum(shift, 64))
    if (shift > 64).any():
        far = shift_right_jam(significand, np.maximum(shift - 64, 0))
        fraction = np.where(shift > 64, far, fraction)
    return whole, fraction
