"""Recipes of libraries: scale rules that are an order of float32 operations, or have their own rounding.

fl is one rounding to float32; amax is a block's, AMAX the tensor's; max and MAX are the greatest
element and scale: 6 and 448 for nvfp4.  Wider numbers are rounded to float32 before::

    nvfp4_exact    S = max * MAX / AMAX; scale = amax / max * S; code of x * S / scale: one rounding each
    nvfp4_te2026   S = fl(max * MAX / AMAX), at most the greatest float32, 1 where AMAX or S is 0;
                   scale = fl(amax * fl(S * fl(1 / max))); e = fl(1 / fl(scale * fl(1 / S))), at most the
                   greatest float32; code of fl(x * e)
    nvfp4_te2025   as te2026 with scale = fl(fl(amax / max) * S)
    nvfp4_torchao  T = fl(AMAX / (max * MAX)); scale = fl(fl(amax / max) / T), at least its least normal;
                   code of fl(x * fl(fl(1 / T) / scale))
    ggml_q8_0      d = fl(amax / 127), scale = d in the scale row, code of fl(x * fl(1 / d)), ties away
    ggml_q4_0      d = fl(m / -8), m the first x of magnitude amax; scale = d; floor(fl(fl(x / d) + 8.5)) - 8,
                   where x / d is fl(x * fl(1 / d)), not contracted with the sum
    ggml_mxfp4     the rule "floor"; the nearest element, ties to the smaller magnitude, no -0
    ggml_nvfp4     d = fl(amax / max); scale = d, ties away; from 248 on it is MAX, and below the least
                   normal number floor(fl(d * 512 + 0.5)), at most 7; the nearest element to x / scale,
                   ties to the smaller magnitude, no -0; 0 where scale is 0

Scales saturate, but ggml's float16 ones go to Inf.  The tensor scale is the float32 nearest to 1 / S,
and for te fl(1 / S), for torchao T; 1 where all numbers are 0.

Source: NVIDIA TransformerEngine, core_nvfp4.cuh of 2026 and of 2025; torchao 0.18, nvfp4_tensor.py;
ggml, quantize_row_q8_0_ref, quantize_row_q4_0_ref, quantize_row_mxfp4_ref, quantize_row_nvfp4_ref, ggml_fp32_to_ue4m3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from feather_ref._blockparts import FP32, Blocks, Values, narrow, widen
from feather_ref._blockrows import BlockFormat
from feather_ref._quotients import Divisor, encode_by, quotients
from feather_ref._scale_rules import floor_scale
from feather_ref._scaling import (
    FLOAT32_MAX,
    Job,
    Scaled,
    ScaleRule,
    exact_tensor,
    fl,
    given,
    product,
    quotient,
    scale_codes,
    scale_values,
)
from feather_ref._sweep import Array
from feather_ref.codec import encode
from feather_ref.formats import FORMATS
from feather_ref.policy import resolve

# --- NVFP4: two levels ------------------------------------------------------------------------


def _exact(blocks: Blocks, job: Job) -> Scaled:
    row = job.bfmt.scale
    by = Divisor(np.ones(len(blocks.top)), row.max, job.unit)  # amax / max * S is amax * MAX / AMAX
    codes = scale_codes(blocks.amax, by, row)
    return Scaled(codes, by=Divisor(scale_values(codes, row), job.top, job.unit))


def _te_encode(job: Job) -> Values:
    """S, as float64 of shape (1,)."""
    s = np.minimum(quotient(np.array([job.top]), job.whole.value), FLOAT32_MAX)
    return np.where(job.whole.zero | (s == 0), 1.0, s)


def _te_factor(codes: Array, s: Values, job: Job) -> Values:
    """What x is multiplied by: e."""
    scale = scale_values(codes, job.bfmt.scale)
    one = np.ones(1)
    return np.minimum(quotient(one, product(scale, quotient(one, s))), FLOAT32_MAX)


def _te2026(blocks: Blocks, job: Job) -> Scaled:
    s = _te_encode(job)
    sixth = quotient(np.ones(1), np.array([job.bfmt.element.max]))
    codes = encode(product(blocks.amax.value, product(s, sixth)), job.bfmt.scale, overflow="saturate")
    return Scaled(codes, factor=_te_factor(codes, s, job))


def _te2025(blocks: Blocks, job: Job) -> Scaled:
    s = _te_encode(job)
    sixth = quotient(blocks.amax.value, np.array([job.bfmt.element.max]))
    codes = encode(product(sixth, s), job.bfmt.scale, overflow="saturate")
    return Scaled(codes, factor=_te_factor(codes, s, job))


def _te_tensor(job: Job) -> float:
    return float(quotient(np.ones(1), _te_encode(job))[0])


def _torchao_tensor(job: Job) -> float:
    return float(quotient(job.whole.value, np.array([job.top]))[0]) or 1.0


def _torchao(blocks: Blocks, job: Job) -> Scaled:
    row, t = job.bfmt.scale, np.array([_torchao_tensor(job)])
    sixth = quotient(blocks.amax.value, np.array([job.bfmt.element.max]))
    codes = encode(np.maximum(quotient(sixth, t), row.min_normal), row, overflow="saturate")
    scale = scale_values(codes, row)
    return Scaled(codes, factor=quotient(quotient(np.ones(1), t), scale))


def _multiplied(blocks: Blocks, scaled: Scaled, job: Job) -> Array:
    """Codes of fl(x * factor); zeros stay as they are."""
    return encode_by(_times(blocks, given(scaled.factor)), job.policy, blocks.random)


def _times(blocks: Blocks, factor: Values) -> Array:
    """fl(x * factor) as float32; a factor of 0 or Inf leaves zeros and Inf alone."""
    with np.errstate(all="ignore"):
        y = blocks.bits.view(np.float32) * factor.astype(np.float32)[:, None]
    small = (y.view(np.uint32) & np.uint32(FP32.magnitude_mask)) <= np.uint32(1 << FP32.mantissa_bits)
    small &= blocks.magnitude != 0  # what a processor may have flushed
    again = np.isinf(factor) | (factor == 0)
    if small.any():
        again |= small.any(axis=1)
    if again.any():
        y[again] = _times_exactly(widen(blocks.bits[again]), factor[again])
    return y


def _times_exactly(x: Values, factor: Values) -> Array:
    """The same by way of float64, which holds every product."""
    with np.errstate(all="ignore"):
        exact = x * factor[:, None]
    ends = (np.isinf(factor) | (factor == 0))[:, None] & ((x == 0) | np.isinf(x))
    return narrow(np.where(ends, x, exact)).view(np.float32)


def _two_levels(bfmt: BlockFormat) -> str:
    return "" if bfmt.tensor_scale == "float32" and not bfmt.zero_point else "it has no tensor scale"


# --- ggml -------------------------------------------------------------------------------------


def _inverse(d: Values) -> Values:
    """fl(1 / d), and 0 for 0."""
    return np.where(d == 0, 0.0, quotient(np.ones(1), d))


def _q8_0(blocks: Blocks, job: Job) -> Scaled:
    d = quotient(blocks.amax.value, np.array([job.bfmt.element.max]))
    return Scaled(encode(d, job.bfmt.scale), factor=_inverse(d))


def _q4_0(blocks: Blocks, job: Job) -> Scaled:
    first = np.argmax(blocks.magnitude == blocks.top[:, None], axis=1)
    signed = blocks.values[np.arange(len(first)), first]
    signed[blocks.amax.zero] = 0
    d = fl(signed / job.bfmt.element.min)
    return Scaled(encode(d, job.bfmt.scale), factor=_inverse(d))


def _half_up(blocks: Blocks, scaled: Scaled, job: Job) -> Array:
    """floor(fl(fl(x / d) + 8.5)) - 8, clamped to the codes."""
    row = job.bfmt.element
    moved = _times(blocks, given(scaled.factor)) + np.float32(0.5 - row.min)
    moved[np.isnan(moved)] = -row.min
    return encode(np.floor(moved) + np.float32(row.min), row, overflow="saturate")


_TIES = np.array([np.nan, np.nan, 0.75, np.nan, 1.75, np.nan, 3.5, np.nan] * 2)  # that go up to a code of e2m1


def _smaller(blocks: Blocks, scaled: Scaled, job: Job) -> Array:
    """The nearest e2m1, ties to the smaller magnitude; its zero is +0, and a scale of 0 makes zeros."""
    by = given(scaled.by) if scaled.power is None else Divisor(np.ldexp(1.0, scaled.power))
    quotient = quotients(blocks, by)
    nan: Any = job.policy.nan  # a policy that has been checked
    codes = encode_by(quotient, resolve(job.bfmt.element, nan=nan))
    codes -= np.abs(quotient) == _TIES[codes]
    minus = codes == job.bfmt.element.sign_mask
    if blocks.nan.any():
        minus &= ~np.isnan(quotient)
    codes[minus] = 0
    codes[by.value == 0] = 0
    return codes


def _nvfp4(blocks: Blocks, job: Job) -> Scaled:
    """ggml makes MAX of all that has an exponent field of 15, and nothing goes up from the subnormals."""
    row = job.bfmt.scale
    d = quotient(blocks.amax.value, np.array([job.bfmt.element.max]))
    codes = encode(d, row, rounding="nearest_away", overflow="saturate")
    codes[codes >> row.mantissa_bits == 15] = row.max_magnitude
    small = d < row.min_normal
    codes[small] = np.minimum(np.floor(fl(np.ldexp(d[small], -row.quantum) + 0.5)), row.mantissa_mask)
    return Scaled(codes, by=Divisor(scale_values(codes, row)))


def _symmetric(bfmt: BlockFormat) -> str:
    return "" if bfmt.element.kind == "integer" and bfmt.element.signed else "its elements are no signed integers"


def _only(element: str) -> Callable[[BlockFormat], str]:
    """The rule is for one element format."""
    return lambda bfmt: "" if bfmt.element == FORMATS[element] else f"its elements are not {element}"


def _only_nvfp4(bfmt: BlockFormat) -> str:
    one_level = bfmt.scale == FORMATS["ue4m3"] and bfmt.tensor_scale == "none"
    return _only("e2m1")(bfmt) or ("" if one_level else "its scales are not ue4m3 alone")


ROWS = (
    ScaleRule(
        "nvfp4_exact", "S = max * MAX / AMAX, scale of amax / max * S, code of x * S / scale, all exact",
        _exact, tensor_scale=exact_tensor, lacks=_two_levels,
    ),
    ScaleRule(
        "nvfp4_te2026", "TransformerEngine 2026: scale of fl(amax * fl(S * fl(1 / max)))",
        _te2026, _multiplied, _te_tensor, single=True, lacks=_two_levels,
    ),
    ScaleRule(
        "nvfp4_te2025", "TransformerEngine 2025: scale of fl(fl(amax / max) * S)",
        _te2025, _multiplied, _te_tensor, single=True, lacks=_two_levels,
    ),
    ScaleRule(
        "nvfp4_torchao", "torchao: scale of fl(fl(amax / max) / T), at least its least normal number",
        _torchao, _multiplied, _torchao_tensor, single=True, lacks=_two_levels,
    ),
    ScaleRule(
        "ggml_q8_0", "d = fl(amax / max), code of fl(x * fl(1 / d)), ties away",
        _q8_0, _multiplied, rounding="nearest_away", single=True, lacks=_symmetric,
    ),
    ScaleRule(
        "ggml_q4_0", "d = fl(m / min), m the first of the greatest magnitude; half goes up",
        _q4_0, _half_up, rounding=None, single=True, lacks=_only("int4"),
    ),
    ScaleRule(
        "ggml_mxfp4", "floor; ties to the smaller magnitude, no -0",
        floor_scale, _smaller, rounding=None, single=True, lacks=_only("e2m1"),
    ),
    ScaleRule(
        "ggml_nvfp4", "ggml's ue4m3 of fl(amax / max); ties to the smaller magnitude, no -0",
        _nvfp4, _smaller, rounding=None, single=True, lacks=_only_nvfp4,
    ),
)  # fmt: skip
