"""replay: the result of a kernel with a stated order, bit for bit.

Rows of W are worked on side by side; every other step is as `Order` says, one float32 operation
after another.  Arrays are float64 and hold float32 numbers.

Source: design of this project; `_fma` for the arithmetic.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from feather_ref._fma import F64, add, fma, mul, narrow
from feather_ref._operands import Operand, check_bias, check_float32, check_shapes, dequantized, operand
from feather_ref._order import Order, Sum, offsets
from feather_ref._sweep import Array
from feather_ref.codec import decode, encode
from feather_ref.formats import Format, get_format
from feather_ref.policy import Policies

_CHUNK = 1 << 21  # weights at once, 8 bytes each


Indices = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Columns(NamedTuple):
    """Some rows of W, turned: k first; index k stands for what lies past the end."""

    weights: F64  # (k + 1, rows)
    scales: F64 | None = None  # (blocks + 1, rows), the last of them 1
    size: int = 0  # numbers in a block


def replay(
    W: object,  # noqa: N803 - the name of a matrix
    x: object,
    order: Order,
    bias: object = None,
    out: str | Format = "fp32",
    **policies: Unpack[Policies],
) -> Array:
    """x @ W.T as a kernel of this order computes it.

    W: (n, k) numbers, or packed, whose scale is taken as `Order` says.  x: (k,) or (m, k), of fp16,
    bf16, float32 or packed; a scaled x is dequantized first.  Neither may have a dtype that float32
    does not hold.  bias: (n,), likewise.  out, policies: the result's format, and how `encode`
    rounds to it.  Returns (n,) or (m, n): float32 for "fp32", float16 for "fp16", else codes; NaN
    is canonical: 7FC00000, 7E00, 7FC0 (bf16).

    >>> W = np.full((1, 64), 2.0**-24, np.float32)
    >>> W[0, 0] = 1.0
    >>> one, many = Order(vector=1, lanes=1), Order(vector=1)
    >>> [hex(v) for order in (one, many) for v in replay(W, np.ones(64, np.float32), order).view(np.uint32)]
    ['0x3f800000', '0x3f80001f']

    Raises TypeError or ValueError naming the argument.
    """
    if not isinstance(order, Order):
        raise TypeError(f"order must be an Order, got {type(order).__name__}")
    weights, inputs = operand(W, "W"), operand(dequantized(x), "x")
    shape = check_shapes(weights, inputs)
    n, k = weights.shape
    end = check_bias(dequantized(bias), n, single=True)
    for numbers in (weights, inputs):
        check_float32(numbers)
    vectors = mul(inputs.matrix().elements(), 2.0**order.x_factor)
    result = np.empty((len(vectors), n))
    rows = max(1, _CHUNK // (k + 1))
    for start in range(0, n, rows):
        chunk = slice(start, start + rows)
        columns = _columns(weights, chunk, order)
        for i, vector in enumerate(vectors):
            total = _total(columns, np.append(vector, 0.0), order)
            result[i, chunk] = _finish(total, weights, chunk, None if end is None else end[chunk], order)
    row = get_format(out)
    codes = encode(result, row, out=None, report=False, random_bits=None, n_bits=None, **policies)
    return as_numbers(codes.reshape(shape), row)


def as_numbers(codes: Array, row: Format) -> Array:
    """Codes as numbers where NumPy has them."""
    dtype = {"fp32": np.float32, "fp16": np.float16}.get(row.name)
    return codes if dtype is None else codes.view(dtype)


# --- the matrix -------------------------------------------------------------------------------


def _columns(weights: Operand, rows: slice, order: Order) -> Columns:
    """Rows of W without the factors that the order makes up for."""
    values = weights.elements(rows).T
    past = np.full((1, values.shape[1]), decode([0], weights.row, np.float64)[0])
    turned = np.ascontiguousarray(np.vstack([values, past]))
    power = -order.x_factor - order.factor
    if power:
        turned = turned * 2.0**power
        _check_power(turned, weights, power)
    if weights.blocks is None:
        return Columns(turned)
    _check_blocks(weights.blocks.size, order)
    scales = weights.blocks.scales[rows].T
    if order.fold:
        scales = mul(scales, 2.0**order.factor)
    return Columns(turned, np.vstack([scales, np.ones((1, scales.shape[1]))]), weights.blocks.size)


def _check_blocks(size: int, order: Order) -> None:
    if size % order.vector and order.vector % size:
        raise ValueError(f"order: vector={order.vector} cuts blocks of {size}")


def _check_power(values: F64, weights: Operand, power: int) -> None:
    wrong = (values != narrow(values)) & ~np.isnan(values)
    if wrong.any():
        value = float(values[wrong][0])
        raise ValueError(f"order: a weight of {weights.row.name} times 2**{power} is {value!r}, which is not a float32")


# --- the sum ----------------------------------------------------------------------------------


def _total(columns: Columns, x: F64, order: Order) -> F64:
    """(rows,) the sum of each row, before factor, scale and bias; x: (k + 1,), the last one 0."""
    k = len(x) - 1
    where, live = order.indices(k), order.live(k)
    if columns.scales is None:
        steps = (-1, *where.shape[2:])
        values = _chain(columns, x, where.reshape(steps), live.reshape(steps), order)
    else:
        values = _by_blocks(columns, columns.scales, x, where, live, order)
    for how in (order.sum_lanes, order.sum_warps, order.sum_splits):
        values = _sum(np.moveaxis(values, -2, 0), how)
    return values


def _chain(columns: Columns, x: F64, where: Indices, live: Bools, order: Order) -> F64:
    """(splits, warps, lanes, rows) fma after fma from +0; where, live: (steps, splits, warps, lanes)."""
    acc = np.zeros((order.accumulators, *where.shape[1:], columns.weights.shape[1]))
    at = np.minimum(where, len(x) - 1)
    for q in range(len(where)):
        j = q // order.run % order.accumulators
        acc[j] = _where(live[q], fma(columns.weights[at[q]], x[at[q]][..., None], acc[j]), acc[j])
    return _sum(acc, order.sum_accumulators)


def _by_blocks(columns: Columns, scales: F64, x: F64, where: Indices, live: Bools, order: Order) -> F64:
    """The same with a sum for each block of a vector, which then enters by its scale."""
    total = np.zeros((*where.shape[2:], columns.weights.shape[1]))
    blocks = np.array(order.positions()) // columns.size
    for load, on in zip(where, live, strict=True):
        for block in range(int(blocks.max()) + 1):
            at, there = load[blocks == block], on[blocks == block]
            scale = scales[np.minimum(at.min(axis=0) // columns.size, len(scales) - 1)]
            partial = _chain(columns, x, at, there, order)
            total = _where(there.any(axis=0), fma(partial, scale, total), total)
    return total


def _where(live: Bools, new: F64, old: F64) -> F64:
    return new if live.all() else np.where(live[..., None], new, old)


def _sum(values: F64, how: Sum) -> F64:
    """The sum over the first axis by its name."""
    if how == "serial":
        return reduce(add, values)
    lanes = np.arange(len(values))
    for offset in offsets(how, len(values)):
        values = add(values, values[lanes ^ offset])
    return values[0]


def _finish(total: F64, weights: Operand, rows: slice, bias: F64 | None, order: Order) -> F64:
    """Factor, scale and bias."""
    factor, scale = 2.0**order.factor, weights.row_scale(rows)
    if scale is not None:
        scale = scale.reshape(-1)
    # 1. the factor, where no scale has taken it
    if order.fold and weights.blocks is None and scale is not None:
        scale = mul(scale, factor)
    elif order.factor and not (order.fold and weights.blocks is not None):
        total = mul(total, factor)
    # 2. scale and bias
    if order.fused and scale is not None and bias is not None:
        return fma(total, scale, bias)
    if scale is not None:
        total = mul(total, scale)
    return total if bias is None else add(total, bias)
