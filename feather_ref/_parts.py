"""The definition of a conversion: codes -> parts -> codes, one rounding.

Parts are sign, exponent and significand of each value::

    value = (-1)**negative * significand * 2**(exponent - 63)     significand: leading 1 in bit 63

Every conversion goes through `split` (take a code of any row apart) and `merge` (round the parts
into any row), whatever the source.  It is slow and plain; `_fast` makes tables of it.

Source: design after the round-and-pack funnel of Berkeley SoftFloat; IEEE 754-2019, 4.3, 7.4.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from feather_ref._bits import I64, U64, ZERO, bit_length, funnel, shift_left
from feather_ref.formats import Format
from feather_ref.policy import Policy, zero_code
from feather_ref.rounding import goes_up

Bools = NDArray[np.bool_]

FP64 = Format(
    "fp64", 64, exponent_bits=11, mantissa_bits=52, bias=1023, inf="ieee", nan="ieee", overflow="nonsaturating"
)  # a source and a result, never packed
ZERO_EXPONENT = -(1 << 20)  # below every row, so that zero rounds like a tiny value
_TO_ODD = Policy(FP64, "to_odd", "saturate", "canonical", "nan", "keep")


class Parts(NamedTuple):
    """Sign, exponent and significand; zero has significand 0, Inf and NaN have flags."""

    negative: Bools
    exponent: I64
    significand: U64
    inf: Bools
    nan: Bools

    @property
    def zero(self) -> Bools:
        """Where the value is +0 or -0."""
        return (self.significand == ZERO) & ~self.inf & ~self.nan


def normalised(negative: Bools, exponent: I64, significand: U64, inf: Bools, nan: Bools) -> Parts:
    """Parts from significand * 2**exponent, the leading 1 anywhere."""
    length = bit_length(significand)
    top = np.where(significand == ZERO, ZERO_EXPONENT, exponent + length - 1)
    return Parts(negative, top, shift_left(significand, 64 - length), inf, nan)


# --- codes -> parts ---------------------------------------------------------------------------


def split(codes: U64, row: Format) -> Parts:
    """Take codes (uint64, in range) apart."""
    if row.kind == "table":
        return split(np.array(row.values, np.float64).view(np.uint64)[codes.astype(np.intp)], FP64)
    negative = (codes & np.uint64(row.sign_mask)) != ZERO
    none = np.zeros(codes.shape, np.bool_)
    if row.kind == "integer":
        mask = np.uint64(row.code_mask)
        magnitude = np.where(negative, ((codes ^ mask) + np.uint64(1)) & mask, codes)
        return normalised(negative, np.full(codes.shape, row.quantum), magnitude, none, none)
    # 1. the fields
    magnitude = codes & np.uint64(row.magnitude_mask)
    field = (magnitude >> np.uint64(row.mantissa_bits)).astype(np.int64)
    fraction = magnitude & np.uint64(row.mantissa_mask)
    # 2. the hidden bit, and the exponent of the last place
    hidden = field > 0 if row.has_zero else ~none
    significand = fraction | np.where(hidden, np.uint64(1 << row.mantissa_bits), ZERO)
    exponent = np.maximum(field - row.has_zero, 0) + row.quantum
    # 3. Inf and NaN
    nan = nan_codes(codes, row)
    inf = none if row.inf_magnitude is None else (magnitude == np.uint64(row.inf_magnitude)) & ~nan
    finite = ~(inf | nan)
    if not row.has_signed_nan:
        negative = negative & ~nan
    return normalised(negative, exponent, np.where(finite, significand, ZERO), inf, nan)


def nan_codes(codes: U64, row: Format) -> Bools:
    """Where codes are NaN: `Format.is_nan` for arrays."""
    magnitude = codes & np.uint64(row.magnitude_mask)
    if row.nan == "ieee":
        return magnitude > np.uint64(row.exponent_mask)
    if row.nan == "all_ones":
        return magnitude == np.uint64(row.magnitude_mask)
    if row.nan == "negative_zero":
        return codes == np.uint64(row.sign_mask)
    return np.zeros(codes.shape, np.bool_)


def flush_subnormals(parts: Parts, emin: int) -> Parts:
    """Values below 2**emin become zeros of their sign (subnormals="flush_input")."""
    small = parts.exponent < emin
    return parts._replace(
        exponent=np.where(small, ZERO_EXPONENT, parts.exponent), significand=np.where(small, ZERO, parts.significand)
    )


# --- parts -> codes ---------------------------------------------------------------------------


def merge(parts: Parts, policy: Policy, random: U64 | None = None, n_bits: int = 0) -> U64:
    """Round parts to codes of `policy.fmt`.

    Inputs that the policy makes an error (NaN, negatives) are the caller's to refuse.
    """
    row = policy.fmt
    if row.kind == "table":
        return _nearest_value(parts, policy)
    negative = parts.negative
    if not row.signed and policy.negative == "abs":
        negative = np.zeros_like(negative)
    # 1. the code below, and the fraction of the way to the next one
    lower, fraction = _code_below(parts, row)
    # 2. round
    magnitude = lower + goes_up(policy.rounding, (lower & 1) == 1, fraction, negative, random, n_bits)
    if not row.has_zero:  # zero and underflow are the least value
        magnitude = np.maximum(magnitude, 0)
    rounded = magnitude
    if policy.subnormals == "flush_output" and row.has_subnormals:
        magnitude = np.where(magnitude < 1 << row.mantissa_bits, 0, magnitude)
    # 3. compare with the greatest value
    last = row.max_magnitude + negative if row.kind == "integer" and row.signed else row.max_magnitude
    codes = _with_sign(magnitude, negative, row)
    codes = _overlay(codes, magnitude > last, negative, _ends(policy, infinite=False))
    codes = _overlay(codes, parts.inf, negative, _ends(policy, infinite=True))
    # 4. negatives of unsigned rows, and NaN
    if not row.signed:
        codes = _negatives(codes, rounded, parts, negative, policy)
    return _overlay(codes, parts.nan, parts.negative, _nans(policy))


def _overlay(codes: U64, where: Bools, negative: Bools, pair: U64) -> U64:
    """codes, with pair[sign] where `where`."""
    return np.where(where, pair[negative.astype(np.intp)], codes) if where.any() else codes


def _ends(policy: Policy, infinite: bool) -> U64:
    """The overflow codes of + and -; below zero an unsigned row has others (see `_negatives`)."""
    return np.array([policy.overflow_code(sign, infinite) for sign in (False, policy.fmt.signed)], np.uint64)


def _nans(policy: Policy) -> U64:
    """The codes of a NaN input of either sign; 0 where it is refused beforehand."""
    return np.array([policy.nan_code(False) or 0, policy.nan_code(True) or 0], np.uint64)


def _code_below(parts: Parts, row: Format) -> tuple[I64, U64]:
    """The magnitude code at or below each value, as if codes had no end, and the fraction above it."""
    if row.kind == "integer":
        exponent = np.minimum(parts.exponent, row.quantum + row.bits)  # beyond: overflow in any case
        whole, fraction = funnel(parts.significand, row.quantum + 63 - exponent)
        return whole.astype(np.int64), fraction
    beyond = row.emin + (row.max_magnitude >> row.mantissa_bits) + 1
    exponent = np.minimum(parts.exponent, beyond)
    binade = np.maximum(exponent, row.emin) if row.has_zero else exponent
    base = (binade - row.emin - (not row.has_zero)) << row.mantissa_bits
    whole, fraction = funnel(parts.significand, 63 - row.mantissa_bits + binade - exponent)
    return base + whole.astype(np.int64), fraction


def _with_sign(magnitude: I64, negative: Bools, row: Format) -> U64:
    if row.kind == "integer":
        signed = np.where(negative, -magnitude, magnitude)
        return signed.astype(np.uint64) & np.uint64(row.code_mask)
    signed_too = negative if row.has_signed_zero else negative & (magnitude != 0)
    return magnitude.astype(np.uint64) | np.where(signed_too, np.uint64(row.sign_mask), ZERO)


def _negatives(codes: U64, rounded: I64, parts: Parts, negative: Bools, policy: Policy) -> U64:
    """What negative inputs of an unsigned row become; -0 is a zero, NaN is not negative."""
    if policy.negative_after_rounding:
        return np.where(negative & ((rounded != 0) | parts.inf), np.uint64(policy.nan_made(False)), codes)
    if policy.negative in ("abs", "error"):
        return codes
    code = policy.nan_made(False) if policy.negative == "nan" else zero_code(policy.fmt)
    return np.where(negative & ~parts.zero, np.uint64(code), codes)


# --- table rows -------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _sorted_values(row: Format) -> tuple[NDArray[np.float64], U64]:
    """Midpoints between the distinct values, and the codes of those, both rising."""
    first: dict[float, int] = {0.0: zero_code(row)} if 0.0 in row.values else {}  # -0.0 == 0.0
    for code, value in enumerate(row.values):
        first.setdefault(value, code)
    values = sorted(first)
    midpoints = np.array([(a + b) / 2 for a, b in pairwise(values)])
    return midpoints, np.array([first[v] for v in values], np.uint64)


def _nearest_value(parts: Parts, policy: Policy) -> U64:
    """The nearest of the row's values; a tie goes to the smaller magnitude, zero keeps its sign.

    Rounding to odd at 53 bits moves no value onto or across a midpoint: those have 52 bits at most.
    """
    row = policy.fmt
    midpoints, codes = _sorted_values(row)
    x = merge(parts, _TO_ODD).view(np.float64)
    left = np.searchsorted(midpoints, x, side="left")
    right = np.searchsorted(midpoints, x, side="right")
    # between -v and v, zero goes by its sign
    result = codes[np.where(np.where(x == 0, ~parts.negative, parts.negative), right, left)]
    if row.has_signed_zero:
        zero, minus = np.uint64(zero_code(row)), np.uint64(minus_zero_code(row))
        result = np.where((result == zero) & parts.negative, minus, result)
    return _overlay(result, parts.nan, parts.negative, _nans(policy))


def minus_zero_code(row: Format) -> int:
    """The code of -0 in a table that has one."""
    return next(code for code, value in enumerate(row.values) if value == 0 and str(value) == "-0.0")
