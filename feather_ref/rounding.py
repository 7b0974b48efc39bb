"""Rounding: the one place where a bit is rounded.

A magnitude that falls between two neighbouring codes is given as the lower code and the
fraction d of the way to the upper one, 0 <= d < 1.  The fraction arrives as 64 bits::

    bit 63   the guard bit: d >= 1/2
    bit 0    sticky: also 1 where anything nonzero lies below bit 0

`goes_up` answers whether the upper code is taken.  "Even" is the even code, so that formats
without a mantissa bit are covered too.

Source: IEEE 754-2019, 4.3 (nearest, directed); round to odd after Boldo and Melquiond, 2008;
stochastic A, B and C after the IEEE P3109 interim report 4.0.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Rounding = Literal[
    "nearest_even",
    "nearest_away",
    "toward_zero",
    "toward_positive",
    "toward_negative",
    "to_odd",
    "stochastic_a",
    "stochastic_b",
    "stochastic_c",
]

ROUNDINGS: tuple[str, ...] = get_args(Rounding)
STOCHASTIC = frozenset(name for name in ROUNDINGS if name.startswith("stochastic"))
DETERMINISTIC: tuple[str, ...] = tuple(name for name in ROUNDINGS if name not in STOCHASTIC)

MAX_RANDOM_BITS = 32
_HALF = np.uint64(1 << 63)
_ZERO = np.uint64(0)

Bools = NDArray[np.bool_]
U64 = NDArray[np.uint64]


def goes_up(
    rounding: str, odd: Bools, fraction: U64, negative: Bools, random: U64 | None, n_bits: int
) -> Bools:
    """Whether each magnitude goes to the code above.

    odd: the lower code is odd; fraction: d as above; negative: the sign of the value;
    random: for stochastic modes, integers below 2**n_bits.
    """
    if rounding == "nearest_even":
        return (fraction > _HALF) | ((fraction == _HALF) & odd)
    if rounding == "nearest_away":
        return fraction >= _HALF
    if rounding == "toward_zero":
        return np.zeros(fraction.shape, np.bool_)
    if rounding == "toward_positive":
        return (fraction != _ZERO) & ~negative
    if rounding == "toward_negative":
        return (fraction != _ZERO) & negative
    if rounding == "to_odd":
        return (fraction != _ZERO) & ~odd
    if random is None:
        raise ValueError(f"rounding={rounding!r} needs random_bits")
    return _stochastic(rounding, fraction, random, n_bits)


def _stochastic(rounding: str, fraction: U64, random: U64, n_bits: int) -> Bools:
    """The three stochastic modes; R is `random`, N is `n_bits`."""
    if rounding == "stochastic_a":  # floor(d * 2**N) + R >= 2**N
        return (fraction >> np.uint64(64 - n_bits)) + random >= np.uint64(1 << n_bits)
    if rounding == "stochastic_b":  # floor(d * 2**(N+1)) + 2R + 1 >= 2**(N+1)
        top = fraction >> np.uint64(63 - n_bits)
        return top + np.uint64(2) * random + np.uint64(1) >= np.uint64(2 << n_bits)
    # stochastic_c: rne(d * 2**N) + R >= 2**N
    top = fraction >> np.uint64(64 - n_bits)
    rest = fraction << np.uint64(n_bits)
    tie_up = (rest == _HALF) & ((top & np.uint64(1)) == 1)
    top = top + ((rest > _HALF) | tie_up)
    return top + random >= np.uint64(1 << n_bits)


def moves_away(rounding: str, negative: bool) -> bool:
    """Whether, far beyond the greatest value, the mode goes away from zero (IEEE 754, 7.4).

    >>> moves_away("toward_positive", negative=False), moves_away("toward_positive", negative=True)
    (True, False)
    """
    if rounding == "toward_positive":
        return not negative
    if rounding == "toward_negative":
        return negative
    return rounding not in ("toward_zero", "to_odd")
