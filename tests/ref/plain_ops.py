"""float32 arithmetic and the replay of an order in plain Python: one number at a time, on whole numbers.

Numbers are Python floats that hold float32 numbers.  Nothing here comes from the code under test
but the fields of `Order`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def whole(x: float) -> int:
    """x in units of 2**-149, of which every float32 is a whole number."""
    n, d = x.as_integer_ratio()
    return n * ((1 << 149) // d)


def float32(exact: int, like: float) -> float:
    """exact * 2**-298 rounded to float32, ties to even; like: the sign of an exact zero."""
    magnitude = abs(exact)
    drop = max(magnitude.bit_length() - 24, 149)  # 24 bits stay, and nothing below 2**-149
    rounded, rest = divmod(magnitude, 1 << drop)
    half = 1 << drop - 1
    rounded += rest > half or (rest == half and rounded % 2 == 1)
    if rounded.bit_length() + drop - 298 > 128:
        return math.copysign(math.inf, exact)
    return math.copysign(math.ldexp(rounded, drop - 298), exact or like)


def fma(a: float, b: float, c: float) -> float:
    plain = a * b + c  # right where it is not finite, and for the sign of an exact zero
    if not all(map(math.isfinite, (a, b, c))):
        return plain
    return float32(whole(a) * whole(b) + (whole(c) << 149), plain)


def add(a: float, b: float) -> float:
    return fma(a, 1.0, b)


def mul(a: float, b: float) -> float:
    return fma(a, b, -0.0 if math.copysign(1, a) * math.copysign(1, b) < 0 else 0.0)


def total(values: list[float], how: Any) -> float:
    """The sum of values by its name."""
    if how == "serial":
        result = values[0]
        for value in values[1:]:
            result = add(result, value)
        return result
    n = len(values)
    steps = [n >> i for i in range(1, n.bit_length())] if how == "butterfly" else list(how)
    for o in steps:
        values = [add(values[i], values[i ^ o]) for i in range(n)]
    return values[0]


def replay(
    w: list[float],
    x: list[float],
    order: Any,
    *,
    scale: float | None = None,
    bias: float | None = None,
    blocks: tuple[int, list[float]] | None = None,
    zero: float = 0.0,
) -> float:
    """One output.  w: one row; zero: the value of code 0; blocks: the size and the row's scales."""
    o, k = order, len(w)
    stride = o.warps * o.lanes * o.vector
    part = math.ceil(k / (o.splits * stride)) * stride
    splits = []
    for s in range(o.splits):
        warps = []
        for wp in range(o.warps):
            lanes = []
            for t in range(o.lanes):
                vectors = []
                for base in range(s * part, (s + 1) * part, stride):
                    start = base + wp * o.lanes * o.vector + t * o.vector
                    vectors.append([_number(w, x, o, base, start, p, zero) for p in range(o.vector)])
                lanes.append(_lane(vectors, o, blocks))
            warps.append(total(lanes, o.sum_lanes))
        splits.append(total(warps, o.sum_warps))
    result = total(splits, o.sum_splits)
    factor = 2.0**o.factor
    if blocks is not None:
        result = result if o.fold else mul(result, factor)
    elif scale is not None and o.fold:
        scale = mul(scale, factor)
    else:
        result = mul(result, factor)
    if o.fused and scale is not None and bias is not None:
        return fma(result, scale, bias)
    if scale is not None:
        result = mul(result, scale)
    return result if bias is None else add(result, bias)


def _number(w: list[float], x: list[float], o: Any, base: int, start: int, position: int, zero: float) -> Any:
    """(k, weight, x) of one position of a vector; weight and x are None where it does not take part."""
    period = len(o.elements)
    k = start + position // period * period + o.elements[position % period]
    down, up = 2.0 ** -(o.x_factor + o.factor), 2.0**o.x_factor
    if k < len(w):
        return k, w[k] * down, mul(x[k], up)
    begins = {"skip": False, "vector": start < len(w), "stride": base < len(w)}[o.tail]
    return (k, zero * down, 0.0) if begins else (k, None, None)


def _lane(vectors: list[list[Any]], o: Any, blocks: tuple[int, list[float]] | None) -> float:
    if blocks is None:
        return _chain([number for vector in vectors for number in vector], o)
    size, scales = blocks
    acc = 0.0
    for vector in vectors:
        for block in sorted({k // size for k, _, _ in vector}):
            mine = [number for number in vector if number[0] // size == block]
            if all(weight is None for _, weight, _ in mine):
                continue
            scale = 1.0 if block >= len(scales) else mul(scales[block], 2.0**o.factor) if o.fold else scales[block]
            acc = fma(_chain(mine, o), scale, acc)
    return acc


def _chain(numbers: list[Any], o: Any) -> float:
    acc = [0.0] * o.accumulators
    for q, (_, weight, x) in enumerate(numbers):
        if weight is not None:
            j = (q // o.run) % o.accumulators
            acc[j] = fma(weight, x, acc[j])
    return total(acc, o.sum_accumulators)


def bits(values: Any) -> np.ndarray:
    """float32 bits of Python floats; a NaN is 7FC00000."""
    out = np.array(values, np.float64).astype(np.float32).view(np.uint32)
    return np.where(np.isnan(np.array(values, np.float64)), np.uint32(0x7FC00000), out)
