"""error_bound: how far a kernel's result may lie from the exact one, under named assumptions.

Let A = sum |w * x| + |bias|, u = 2**-24, and each of at most L roundings on the way of one product
multiply it by 1 + d, |d| <= u.  Then the sum is off by at most ((1 + u)**L - 1) * A: this is `Order`.

A tensor core adds groups of g products to the accumulator.  It aligns them with the greatest, of
which it keeps at least f bits, and cuts off what lies below; the result is cut to 24 bits.  With M the
greatest of the g + 1 addends a step is off by at most (g + 1) * 2**(1 - f) * M for the alignment, and
2**-23 of the result for the cut, so ceil(k / g) steps multiply by (1 + a) * (1 + 2**-23) each,
a = (g + 1) * 2**(1 - f): this is `TensorCore`.

Subnormal float32 results add 2**-149 for each operation, times the scales that follow.

Source: Higham, Accuracy and Stability of Numerical Algorithms, 3.1; Fasi, Higham, Mikaitis and
Pranesh, Numerical behavior of NVIDIA tensor cores (2021), for what a step does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from feather_ref._exact import exact_products
from feather_ref._operands import F64, Operand, check_bias, check_shapes, operand
from feather_ref._order import Order
from feather_ref._parts import Bools
from feather_ref.codec import decode
from feather_ref.formats import FORMATS, Format, check_int, get_format
from feather_ref.policy import resolve

_FP32 = FORMATS["fp32"]
_GREATEST = float(np.finfo(np.float32).max)
_UNIT = 2.0**-24
_LEAST = 2.0**-149
_SLACK = 1 + 2.0**-40  # for the float64 arithmetic of the bound itself


@dataclass(frozen=True)
class TensorCore:
    """What a kernel on tensor cores is assumed to do; products are exact, the accumulator is float32.

    group: products that one step adds to the accumulator.  alignment_bits: bits that are kept of the
    greatest addend of a step, its leading one included, at the least.  roundings: of float32, that a
    product meets beside the steps and its block's scale: sums over warps and splits, scale, bias.
    x_error: what x may be off when it enters, as a part of the greatest |x| of its row.  factor:
    the accumulator holds the sum times 2**-factor.

    >>> TensorCore(group=8)
    TensorCore(group=8, alignment_bits=24, roundings=16, x_error=0.0, factor=0)

    Raises TypeError or ValueError naming the field.
    """

    group: int = 16
    alignment_bits: int = 24
    roundings: int = 16
    x_error: float = 0.0
    factor: int = 0

    def __post_init__(self) -> None:
        check_int("group", self.group, 1, 1 << 16)
        check_int("alignment_bits", self.alignment_bits, 2, 1 << 10)
        check_int("roundings", self.roundings, 0, 1 << 30)
        check_int("factor", self.factor, -126, 127)
        if not isinstance(self.x_error, (int, float)) or isinstance(self.x_error, bool):
            raise TypeError(f"x_error must be a number, got {type(self.x_error).__name__}")
        if not 0 <= self.x_error < 1:
            raise ValueError(f"x_error must be 0 or more and below 1, got {self.x_error}")


def error_bound(
    W: object,  # noqa: N803 - the name of a matrix
    x: object,
    assume: TensorCore | Order = TensorCore(),
    bias: object = None,
    out: str | Format = "fp32",
) -> F64:
    """The greatest |y - z| for a kernel's y and the exact z of `gemv` or `matmul`, both rounded to `out`.

    W, x, bias: as for `matmul`.  assume: a `TensorCore`, or the `Order` of a kernel.  Returns float64
    of the shape of the result; inf where an operand is not finite or a number on the way may
    leave the range of float32: there nothing is promised.

    >>> [float(b) for b in error_bound([[1.0, 2.0]], [3.0, 4.0]) / 2.0**-23 // 1]
    [297.0]
    >>> [float(b) for b in error_bound([[1.0, 2.0]], [3.0, 4.0], Order(vector=2, lanes=1)) / 2.0**-23 // 1]
    [22.0]

    Raises TypeError or ValueError naming the argument.
    """
    if not isinstance(assume, (TensorCore, Order)):
        raise TypeError(f"assume must be a TensorCore or an Order, got {type(assume).__name__}")
    weights, inputs = operand(W, "W"), operand(x, "x")
    shape = check_shapes(weights, inputs)
    end, row = check_bias(bias, weights.shape[0]), get_format(out)
    scaled, inputs = inputs.scale is not None or inputs.blocks is not None, inputs.matrix()
    if row.kind != "float":
        raise ValueError(f"out: {row.name!r} is no float format")
    with np.errstate(over="ignore", invalid="ignore"):  # of what is not finite
        return _bound(weights, inputs, scaled, assume, end, row).reshape(shape)


def _bound(w: Operand, x: Operand, scaled: bool, assume: TensorCore | Order, bias: F64 | None, row: Format) -> F64:
    """(m, n) of `error_bound`; scaled: x is dequantized before it is multiplied."""
    # 1. sums of magnitudes: of the products, and of the weights times what x may be off
    off = _off(x, scaled, assume)
    lost = _magnitudes(w, _ones(x), None) * off if off.any() else 0.0
    total = _magnitudes(w, x, bias) + lost
    # 2. what the sum may be off
    grown, operations = _growth(assume, w, bias)
    error = grown * total + lost + operations * _LEAST * _greatest_scale(w) * 2.0 ** max(assume.factor, 0)
    # 3. what both roundings to the result's format may add
    exact = np.abs(decode(exact_products(w, x, resolve(_FP32), bias), _FP32, np.float64))
    ulp = np.maximum((exact + error) * 2.0**-row.mantissa_bits, 2.0**row.quantum)
    bound = (error + ulp) * _SLACK
    # 4. nothing is promised where a number may leave the range
    held = np.maximum(_held(w, x, assume) * (1 + grown), exact + bound)
    return np.where((held < min(_GREATEST, row.max)) & ~_leaves(w, assume), bound, np.inf)


def _magnitudes(w: Operand, x: Operand, bias: F64 | None) -> F64:
    """sum |w * x| + |bias|, rounded up; Inf where it is not a float32."""
    policy = resolve(_FP32, rounding="toward_positive")
    sums = decode(exact_products(w, x, policy, bias, absolute=True), _FP32, np.float64)
    return np.where(np.isnan(sums), np.inf, sums)


def _ones(x: Operand) -> Operand:
    return operand(np.ones(x.shape, np.float32), "x")


def _off(x: Operand, scaled: bool, assume: TensorCore | Order) -> F64:
    """(m, 1) what each number of a row of x may be off when it is multiplied."""
    greatest = np.max(np.abs(x.values()), axis=1, keepdims=True, initial=0.0)
    off = np.zeros(greatest.shape)
    if scaled:  # it is dequantized first
        off += greatest * _UNIT + _LEAST
    if isinstance(assume, TensorCore):
        return off + greatest * assume.x_error
    return off + _LEAST * 2.0**-assume.x_factor if assume.x_factor else off


def _growth(assume: TensorCore | Order, w: Operand, bias: F64 | None) -> tuple[float, int]:
    """By which part of the sum of magnitudes the sum may be off, and how many operations make it."""
    k = w.shape[1]
    if isinstance(assume, Order):
        block = None if w.blocks is None else w.blocks.size
        roundings = _roundings(assume, k, block) + (w.scale is not None) + (bias is not None)
        operations = 2 * k + assume.splits * assume.warps * assume.lanes * assume.accumulators + 4
        return math.expm1(roundings * math.log1p(_UNIT)), operations
    steps = -(-k // assume.group)
    entries = 0 if w.blocks is None else -(-k // w.blocks.size)  # of blocks, each with its scale
    step = math.log1p((assume.group + 1) * 2.0 ** (1 - assume.alignment_bits)) + math.log1p(2 * _UNIT)
    grown = math.expm1(steps * step + (entries + assume.roundings) * math.log1p(_UNIT))
    return grown, steps * (assume.group + 2) + entries + assume.roundings


def _roundings(order: Order, k: int, block: int | None) -> int:
    """The most roundings that one product meets until the lanes, warps and splits are one sum.

    Of powers of two only subnormal results are rounded, which are counted apart.
    """
    numbers = order.loads(k) * order.vector
    chain = numbers if block is None else min(block, order.vector)
    most = min(chain, -(-chain // (order.accumulators * order.run)) * order.run)  # in one accumulator
    entries = 0 if block is None else order.loads(k) * -(-order.vector // block)  # of blocks
    sums = (
        (order.accumulators, order.sum_accumulators),
        (order.lanes, order.sum_lanes),
        (order.warps, order.sum_warps),
        (order.splits, order.sum_splits),
    )
    return most + entries + sum(n - 1 if how == "serial" else n.bit_length() - 1 for n, how in sums)


def _greatest_scale(w: Operand) -> F64:
    """(n,) the greatest factor that stands between the accumulators and the sum, at least 1."""
    greatest = np.ones(w.shape[0])
    if w.blocks is not None:
        greatest = np.max(np.abs(w.blocks.scales), axis=1, initial=1.0)
    scale = w.row_scale()
    return greatest if scale is None else greatest * np.maximum(scale.reshape(-1), 1.0)


def _held(w: Operand, x: Operand, assume: TensorCore | Order) -> F64:
    """The most that an accumulator may hold, the sum of magnitudes without the scales, or that x may be."""
    blocks = None if w.blocks is None else w.blocks._replace(scales=np.ones_like(w.blocks.scales))
    sums = _magnitudes(replace(w, scale=None, blocks=blocks), x, None) * 2.0**-assume.factor
    if isinstance(assume, Order) and assume.x_factor > 0:
        greatest = np.max(np.abs(x.values()), axis=1, keepdims=True, initial=0.0)
        return np.maximum(sums, greatest * 2.0**assume.x_factor)
    return sums


def _leaves(w: Operand, assume: TensorCore | Order) -> Bools:
    """(n,) or () whether a scale that takes the factor is no normal float32 any more."""
    scales = w.row_scale() if w.blocks is None else w.blocks.scales
    if not isinstance(assume, Order) or not assume.fold or not assume.factor or scales is None:
        return np.zeros((), np.bool_)
    folded = np.abs(scales) * 2.0**assume.factor
    wrong = (folded != 0) & ~((folded >= 2.0**-126) & (folded <= _GREATEST))
    return wrong.any(axis=-1) if wrong.ndim else wrong
