"""float32 arithmetic with one rounding, on float64 arrays that hold float32 numbers.

A float64 sum of a product and a number is rounded at 53 bits, and the cast rounds it again: wrong
where the first rounding makes a tie.  So the sum is rounded to odd, which no second rounding mistakes::

    p = a * b           exact: 24 + 24 bits, and no exponent leaves float64
    s = p + c           nearest; e = what it lost, exact (TwoSum)
    s +- one bit        towards e, where e is not 0 and the last bit of s is 0: round to odd
    float32(s)          the one rounding

No intermediate is a subnormal float64, and subnormal float32 results are made by an addition in
float64: a processor that flushes subnormals gives the same bits.

Source: IEEE 754-2019, 5.4.1 (fusedMultiplyAdd); Knuth, TAOCP 2, 4.2.2, theorem B (TwoSum); Boldo
and Melquiond, Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from feather_ref._sweep import Array
from feather_ref.codec import encode

F64 = NDArray[np.float64]

_LEAST_NORMAL = 2.0**-126
_SHIFTER = 1.5 * 2.0**-97  # the last place of a float64 of this size is 2**-149, that of subnormal float32


def to_float32(x: F64) -> Array:
    """float64 numbers rounded to float32; a NaN is 7FC00000."""
    return encode(x, "fp32").view(np.float32)


def narrow(x: F64) -> F64:
    """x rounded to the nearest float32, ties to even, and kept as float64."""
    with np.errstate(over="ignore", invalid="ignore"):  # Inf and NaN are results, not accidents
        near: F64 = x.astype(np.float32).astype(np.float64)
        small = np.abs(x) < _LEAST_NORMAL
        if small.any():
            near = np.where(small, np.copysign((x + _SHIFTER) - _SHIFTER, x), near)
        return near


def _sum_to_odd(a: F64, b: F64) -> F64:
    """a + b rounded to odd at 53 bits; Inf and NaN as they come."""
    # 1. the nearest sum, and its error
    total = np.asarray(a + b)  # a scalar has no view to write through
    back = total - a
    error = (a - (total - back)) + (b - back)
    # 2. an inexact sum with an even last bit moves one step towards the error
    bits = total.view(np.int64)
    move = (np.abs(error) > 0) & ((bits & 1) == 0)  # the error of Inf and NaN is NaN
    if move.any():
        outwards = np.signbit(error) == np.signbit(total)
        bits += np.where(move, np.where(outwards, 1, -1), 0)
    return total


def fma(a: F64, b: F64, c: F64) -> F64:
    """a * b + c with one rounding to float32; the operands are float32 numbers.

    >>> a, c = np.float64(1 + 2.0**-12), np.float64(2.0**-60)
    >>> [float(x).hex() for x in (fma(a, a, c), narrow(a * a + c))]  # of 1 + 2**-11 + 2**-24 + 2**-60
    ['0x1.0020020000000p+0', '0x1.0020000000000p+0']
    """
    with np.errstate(invalid="ignore"):
        return narrow(_sum_to_odd(a * b, c))


def add(a: F64, b: F64) -> F64:
    """a + b with one rounding to float32; the operands are float32 numbers.

    >>> float(add(np.float64(1.0), np.float64(2.0**-24 + 2.0**-47))).hex()
    '0x1.0000020000000p+0'
    """
    with np.errstate(invalid="ignore"):
        return narrow(_sum_to_odd(a, b))


def mul(a: F64, b: F64 | float) -> F64:
    """a * b with one rounding to float32; the operands are float32 numbers.

    >>> float(mul(np.float64(2.0**-100), np.float64(1.5 * 2.0**-49))).hex()
    '0x1.0000000000000p-148'
    """
    with np.errstate(invalid="ignore"):
        return narrow(a * b)
