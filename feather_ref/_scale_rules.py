"""Scale rules of one formula: how the scale of a block follows from its greatest finite magnitude.

emax is floor(log2) of the greatest element, max its value::

    floor     2**(floor(log2 amax) - emax)                              OCP MX
    ceil      2**(ceil(log2 amax) - emax); an exact power adds nothing
    even      floor, after half a unit of the element's mantissa is added to amax; half goes up
    rceil     the smallest power of two s with amax / s <= max
    nearest   e8m0 nearest_even of amax / max
    amax      amax / max, rounded once; at least the scale's least normal number; 1 where amax is 0
    mse       of the scales nearest to amax / max * j/16, j = 8 .. 32, the one of least square error
    minmax    (max(x, 0) - min(x, 0)) / (codes - 1), and a zero point; 1 where all are 0

Exponents are read from bits: floor(log2(x)) in float32 is wrong just below a power of two.  Powers
clamp to the range of the scale row, and a block of zeros takes the least one.

Source: OCP MX 1.0, section 6.3 (floor); torchao 0.18, ScaleCalculationMode (ceil, even, rceil);
ONNX QuantizeLinear 23 (minmax: codes are nearest(x / scale) + zero).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from feather_ref._bits import I64
from feather_ref._blockparts import Blocks, Bools, Magnitudes, Values
from feather_ref._blockrows import BlockFormat
from feather_ref._quotients import Divisor, near_values, quotient_codes, quotients
from feather_ref._scaling import Job, Scaled, ScaleRule, exact_tensor, given, scale_codes, scale_values
from feather_ref._sweep import Array
from feather_ref.arith import encode_quotient
from feather_ref.codec import code_dtype, decode, encode
from feather_ref.formats import Format
from feather_ref.policy import resolve

_ONE = 1 << 63  # the significand of a power of two
_STEPS = range(8, 33)  # sixteenths of amax / max that "mse" tries
FLOAT64_MAX = float(np.finfo(np.float64).max)


# --- powers of two ----------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _powers(row: Format) -> tuple[int, int, Array]:
    """The least and the greatest power of two of a scale row, and the codes of all between them."""
    least = row.exact(int(row.has_zero))
    low = least.numerator.bit_length() - least.denominator.bit_length()
    high = int(np.frexp(row.max)[1]) - 1
    return low, high, encode(np.ldexp(1.0, np.arange(low, high + 1)), row, overflow="saturate")


def _power_rule(power: Callable[[Magnitudes, BlockFormat], I64]) -> Callable[[Blocks, Job], Scaled]:
    """The scale 2**power(amax), clamped to the scale row."""

    def scale(blocks: Blocks, job: Job) -> Scaled:
        low, high, codes = _powers(job.bfmt.scale)
        clamped = np.minimum(np.maximum(power(blocks.amax, job.bfmt), low), high)
        return Scaled(codes[clamped - low], clamped)

    return scale


def _floor(amax: Magnitudes, bfmt: BlockFormat) -> I64:
    return amax.exponent - bfmt.emax


floor_scale = _power_rule(_floor)


def _ceil(amax: Magnitudes, bfmt: BlockFormat) -> I64:
    return amax.exponent - bfmt.emax + (amax.significand > np.uint64(_ONE))


def _even(amax: Magnitudes, bfmt: BlockFormat) -> I64:
    half_unit = _ONE >> bfmt.mantissa_bits + 1
    return amax.exponent - bfmt.emax + (amax.significand >= np.uint64(2 * _ONE - half_unit))


def _rceil(amax: Magnitudes, bfmt: BlockFormat) -> I64:
    greatest = int(np.ldexp(bfmt.element.max, 63 - bfmt.emax))
    return amax.exponent - bfmt.emax + (amax.significand > np.uint64(greatest))


def _nearest(amax: Magnitudes, bfmt: BlockFormat) -> I64:
    code = encode_quotient(amax.value, np.float32(bfmt.element.max), "e8m0")
    return code.astype(np.int64) - 127


# --- quotients --------------------------------------------------------------------------------


def _lift(codes: Array, row: Format, zero: Bools) -> Array:
    """Scale codes at least that of the least normal number, and 1 where `zero`."""
    lifted = np.maximum(codes, codes.dtype.type(row.has_zero << row.mantissa_bits))
    if zero.any():
        lifted[zero] = encode(1.0, row)
    return lifted


def _amax(blocks: Blocks, job: Job) -> Scaled:
    row = job.bfmt.scale
    by = Divisor(np.full(len(blocks.top), job.bfmt.element.max))
    codes = _lift(scale_codes(blocks.amax, by, row), row, blocks.amax.zero)
    return Scaled(codes, by=Divisor(scale_values(codes, row)))


# --- least square error -----------------------------------------------------------------------


def _mse(blocks: Blocks, job: Job) -> Scaled:
    """The candidate of the least error; of equal ones that of the least j."""
    row, amax = job.bfmt.scale, blocks.amax
    factor, unit = (job.top, job.unit) if job.bfmt.tensor_scale != "none" else (1.0, 1.0)
    best, least = encode(np.zeros(amax.value.shape), row), np.full(amax.value.shape, np.inf)
    for step in _STEPS:
        with np.errstate(over="ignore"):
            wanted = amax.value / unit * (factor / job.bfmt.element.max) * (step / 16)
        tried = _lift(encode(wanted, row, overflow="saturate"), row, amax.zero)
        error = _square_error(blocks, Divisor(scale_values(tried, row), factor, unit), job)
        better = error < least
        least[better], best[better] = error[better], tried[better]
    return Scaled(best, by=Divisor(scale_values(best, row), factor, unit))


def _square_error(blocks: Blocks, by: Divisor, job: Job) -> Values:
    """Sum of ((x / s - q) * s)**2 over the finite x, in float64, in the order of the block."""
    codes = quotient_codes(blocks, by, job.policy)
    total = np.zeros(by.value.shape)
    with np.errstate(all="ignore"):
        error = (quotients(blocks, by) - decode(codes, job.bfmt.element, np.float64)) * by.value[:, None]
        error[~np.isfinite(blocks.values)] = 0
        for column in (error * error).T:
            total += column
    return np.minimum(total, FLOAT64_MAX)


# --- zero points ------------------------------------------------------------------------------


def _minmax(blocks: Blocks, job: Job) -> Scaled:
    """Scale and zero of [min, max], stretched to take 0 in."""
    element, row = job.bfmt.element, job.bfmt.scale
    # 1. the ends, as magnitudes: both have a 0 among them
    x = near_values(blocks)
    finite = np.where(np.isfinite(x), x, 0)
    above, below = np.maximum(finite.max(axis=1), 0), np.maximum(-finite.min(axis=1), 0)
    # 2. their distance, rounded to odd, so that the quotient rounds as the exact one
    span = _sum_to_odd(above, below)
    codes = encode_quotient(span, np.float32(element.code_mask), row, overflow="saturate")
    codes = _lift(codes, row, span == 0)
    value = scale_values(codes, row)
    # 3. the code that means zero
    zeros = encode_quotient(below, value.astype(np.float32), element, overflow="saturate")
    return Scaled(codes, by=Divisor(value), zeros=zeros)


def _sum_to_odd(a: Values, b: Values) -> Values:
    """a + b of numbers >= 0, rounded to odd: the last bit is set where the sum is not exact."""
    big, small = np.maximum(a, b), np.minimum(a, b)
    with np.errstate(over="ignore", invalid="ignore"):
        total = big + small
        error = small - (total - big)
    bits = total.view(np.uint64)
    bits = np.where(error < 0, bits - np.uint64(1), bits) | (error != 0)
    return np.where(np.isfinite(total), bits, total.view(np.uint64)).view(np.float64)


def _offset(blocks: Blocks, scaled: Scaled, job: Job) -> Array:
    """nearest(x / scale) + zero, clamped to the codes."""
    element, policy = job.bfmt.element, job.policy
    wide = Format("offset", element.bits + 2, kind="integer")
    rounding: Any = policy.rounding  # a name that has been checked
    steps = quotient_codes(blocks, given(scaled.by), resolve(wide, rounding, overflow="saturate", nan="zero"))
    moved = decode(steps, wide, np.float32).astype(np.int64) + given(scaled.zeros).astype(np.int64)[:, None]
    return np.clip(moved, 0, element.code_mask).astype(code_dtype(element))


def _needs_zero_point(bfmt: BlockFormat) -> str:
    return "" if bfmt.zero_point and not bfmt.element.signed else "it has no zero point"


ROWS = (
    ScaleRule("floor", "2**(floor(log2 amax) - emax)", floor_scale),
    ScaleRule("ceil", "2**(ceil(log2 amax) - emax)", _power_rule(_ceil)),
    ScaleRule("even", "floor of amax plus half a unit of the element's mantissa", _power_rule(_even)),
    ScaleRule("rceil", "the smallest power of two s with amax / s <= max", _power_rule(_rceil)),
    ScaleRule("nearest", "e8m0 nearest_even of amax / max", _power_rule(_nearest)),
    ScaleRule("amax", "amax / max, rounded once to the scale row", _amax),
    ScaleRule("mse", "the scale of least square error near amax / max", _mse, tensor_scale=exact_tensor),
    ScaleRule("minmax", "(max - min) / (codes - 1) and a zero point", _minmax, _offset, lacks=_needs_zero_point),
)
