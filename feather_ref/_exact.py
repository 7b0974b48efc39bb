"""Exact sums of products: integers times a power of two, by matrix products of digits.

Each row of numbers is cut into signed digits of b bits below the top of its greatest number::

    x = 2**top * sum of digit[i] * 2**(-b * (i + 1))        |digit[i]| < 2**b

A matrix product of two planes of digits is a matrix of whole numbers below k * 2**2b <= 2**53, and
so is every partial sum: float64 is exact there, in whatever order a library adds.  Products of
equal weight are added as int64, carries go up, and the sum of any length becomes parts, which are
rounded once.

The sum is of real numbers: exactly zero is +0, and so is an empty sum.  A NaN, Inf * 0 and Inf of
both signs among the products make NaN; Inf of one sign is the sum.

Source: Ozaki, Ogita, Oishi and Rump, Error-free transformations of matrix multiplication by using
fast routines of matrix multiplication and its applications (2012).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from feather_ref._bits import I64, U64, ZERO, bit_length, shift_left, shift_right
from feather_ref._checks import refuse_parts
from feather_ref._operands import F64, Operand, Rows
from feather_ref._parts import FP64, Parts, merge, normalised, split
from feather_ref._sweep import Array
from feather_ref.codec import code_dtype
from feather_ref.policy import Policy

_CHUNK = 1 << 19  # numbers of W, and of the result, at once
_LEAST, _MOST = np.array([2.0**-450, 2.0**450]).view(np.uint64)


class Digits(NamedTuple):
    """Rows of numbers as planes of digits; None is a plane of zeros."""

    planes: list[F64 | None]  # each (rows, k)
    top: I64  # (rows,)


def exact_products(w: Operand, x: Operand, policy: Policy, bias: F64 | None = None, absolute: bool = False) -> Array:
    """x @ W.T + bias rounded once: codes of shape (m, n).  absolute: of the absolute values."""
    (n, k), (m, _) = w.shape, x.shape
    width = (53 - (k + 1).bit_length()) // 2
    vectors = _values(x, ..., None if bias is None else np.ones(m), absolute)
    digits = _cut(vectors, width)
    codes = np.empty((m, n), code_dtype(policy.fmt))
    rows = max(1, _CHUNK // max(k, m, 1))
    for start in range(0, n, rows):
        chunk = slice(start, start + rows)
        matrix = _values(w, chunk, None if bias is None else bias[chunk], absolute)
        parts = _with_specials(_products(_cut(matrix, width), digits, width), matrix, vectors)
        refuse_parts(parts, policy, f"the result for {chunk}", 0, (m, len(matrix)))
        codes[:, chunk] = merge(parts, policy)
    return codes


def _values(x: Operand, rows: Rows, last: F64 | None, absolute: bool) -> F64:
    """Rows of numbers, with one more at the end of each for the bias."""
    values = x.values(rows)
    if last is not None:
        values = np.column_stack([values, last])
    return np.abs(values) if absolute else values


# --- digits -----------------------------------------------------------------------------------


def _cut(x: F64, width: int) -> Digits:
    """The digits of rows of numbers; Inf and NaN count as 0 here."""
    magnitude = np.ascontiguousarray(x).view(np.uint64) & np.uint64(FP64.magnitude_mask)
    plain = (magnitude == 0) | ((magnitude >= _LEAST) & (magnitude <= _MOST))
    if not plain.all():
        return _cut_bits(x, width)
    # nothing here comes near a subnormal: every step is exact, whatever a processor flushes
    top = np.frexp(np.max(np.abs(x), axis=1, initial=0))[1].astype(np.int64)
    rest = x * np.ldexp(1.0, -top)[:, None]
    planes: list[F64 | None] = []
    while rest.any():
        rest *= 2.0**width
        digit = np.trunc(rest)
        rest -= digit
        planes.append(digit if digit.any() else None)
    return Digits(planes, top)


def _cut_bits(x: F64, width: int) -> Digits:
    """The same for numbers of any size, from their bits."""
    parts = split(np.ascontiguousarray(x).view(np.uint64), FP64)
    there = parts.significand != ZERO
    top = np.max(parts.exponent, axis=1, initial=-(1 << 20), where=there) + 1
    # 1. how far each leading bit lies below the top, and the last bit of all
    drop = np.where(there, top[:, None] - 1 - parts.exponent, 0)
    zeros = bit_length(parts.significand & -parts.significand) - 1
    depth = int(np.max(drop + 64 - zeros, initial=0, where=there))
    # 2. digit by digit from the top
    planes = [_plane(parts, drop, place, width) for place in range(width, depth + width, width)]
    return Digits(planes, top)


def _plane(parts: Parts, drop: I64, place: int, width: int) -> F64 | None:
    """The digits whose last bit is `place` bits below the top."""
    shift = 64 + drop - place
    digit = shift_right(parts.significand, np.maximum(shift, 0))
    if (shift < 0).any():
        digit = np.where(shift < 0, shift_left(parts.significand, np.maximum(-shift, 0)), digit)
    digit &= np.uint64((1 << width) - 1)
    if not digit.any():
        return None
    values = digit.astype(np.float64)
    return np.where(parts.negative, -values, values)


# --- the sum ----------------------------------------------------------------------------------


def _products(w: Digits, x: Digits, width: int) -> Parts:
    """The exact products as parts (m, n)."""
    length = max(len(w.planes) + len(x.planes) - 1, 1)
    total = np.zeros((length, len(x.top), len(w.top)), np.int64)  # the first one has room for all carries
    for i, wi in enumerate(w.planes):
        for j, xj in enumerate(x.planes):
            if wi is not None and xj is not None:
                total[i + j] += (xj @ wi.T).astype(np.int64)
    # 1. carry, and take the sign off
    _carry(total, width)
    negative = total[0] < 0
    np.negative(total, out=total, where=negative)
    _carry(total, width)
    # 2. the leading digits, and whether anything follows
    significand, last = _leading(total, width)
    exponent = x.top[:, None] + w.top[None, :] - width * (last + 2)
    none = np.zeros(negative.shape, np.bool_)
    return normalised(negative, exponent, significand, none, none)


def _carry(total: I64, width: int) -> None:
    """Digits 0 .. 2**width - 1 everywhere but in the first, which has the sign."""
    for d in range(len(total) - 1, 0, -1):
        total[d - 1] += total[d] >> width
        total[d] &= (1 << width) - 1


def _leading(total: I64, width: int) -> tuple[U64, I64]:
    """The first digits in at most 64 bits, the lowest bit sticky, and the index of the last of them."""
    significand = np.zeros(total.shape[1:], np.uint64)
    last = np.zeros(total.shape[1:], np.int64)
    for d, digit in enumerate(total.astype(np.uint64)):
        room = significand < np.uint64(1 << 64 - width)
        sticky = significand | (digit != ZERO)
        significand = np.where(room, significand << np.uint64(width) | digit, sticky)
        last = np.where(room, d, last)
    return significand, last


# --- Inf and NaN ------------------------------------------------------------------------------


def _with_specials(parts: Parts, w: F64, x: F64) -> Parts:
    """The parts, with the sums that an Inf or a NaN takes part in."""
    vectors, matrix = (~np.isfinite(rows).all(axis=1, keepdims=True) for rows in (x, w))
    where = vectors | matrix.T
    if not where.any():
        return parts
    # only the kind matters: every finite number becomes its sign, and IEEE 754 does the rest
    kinds = [np.where(np.isfinite(rows), np.copysign(rows.view(np.uint64) << 1 != 0, rows), rows) for rows in (x, w)]
    with np.errstate(invalid="ignore"):
        sums = np.einsum("mk,nk->mn", *kinds)  # not a library's product, which may leave out what is times 0
    nan, inf = where & np.isnan(sums), where & np.isinf(sums)
    negative = np.where(nan, False, np.where(inf, sums < 0, parts.negative))
    significand = np.where(nan | inf, ZERO, parts.significand)
    return Parts(negative, parts.exponent, significand, inf, nan)
