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

Scales saturate, but ggml's float16 ones go to Inf.  The tensor scale is the float32 nearest to 1 / S,
and for te fl(1 / S), for torchao T; 1 where all numbers are 0.

Source: NVIDIA TransformerEngine, core_nvfp4.cuh of 2026 and of 2025; torchao 0.18, nvfp4_tensor.py;
ggml, quantize_row_q8_0_ref, quantize_row_q4_0_ref, quantize_row_mxfp4_ref.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from feather_ref._blockparts import Blocks, Values, narrow, widen
from feather_ref._blockrows import BlockFormat
from feather_ref._quotients import Divisor, encode_by, power_codes
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
from feather_ref.formats import FORMATS, Format
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
    return encode_by(_times(blocks, given(scaled.factor)), job.policy)


def _times(blocks: Blocks, factor: Values) -> Array:
    """fl(x * factor) as float32; a factor of 0 or Inf leaves zeros and Inf alone."""
    with np.errstate(all="ignore"):
        exact = blocks.values * factor[:, None]
    ends = np.isinf(factor) | (factor == 0)
    if ends.any():
        x = blocks.values[ends]
        exact[ends] = np.where((x == 0) | np.isinf(x), x, exact[ends])
    return narrow(exact).view(np.float32)


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
    moved = fl(widen(_times(blocks, given(scaled.factor)).view(np.uint32)) + (0.5 - row.min))
    moved[np.isnan(moved)] = -row.min
    return encode(np.floor(moved) + row.min, row, overflow="saturate")


_HALF = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_NO_MINUS = Format("e2m1 without -0", 4, kind="table", values=(*_HALF, *(0.0 - value for value in _HALF)))


def _smaller(blocks: Blocks, scaled: Scaled, job: Job) -> Array:
    """The nearest e2m1 as a table row has it: ties to the smaller magnitude; its zero is +0."""
    nan: Any = job.policy.nan  # a policy that has been checked
    return power_codes(blocks, given(scaled.power), resolve(_NO_MINUS, nan=nan))


def _symmetric(bfmt: BlockFormat) -> str:
    return "" if bfmt.element.kind == "integer" and bfmt.element.signed else "its elements are no signed integers"


def _only(element: str) -> Callable[[BlockFormat], str]:
    """The rule is for one element format."""
    return lambda bfmt: "" if bfmt.element == FORMATS[element] else f"its elements are not {element}"


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
)  # fmt: skip
