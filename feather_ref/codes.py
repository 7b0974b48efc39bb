"""Questions and steps on codes themselves: classes, neg, abs, neighbours, ulp, order.

Nothing is decoded and encoded again; sign and magnitude fields answer directly.  Layout: see
`feather_ref.formats`.

Source: IEEE 754-2019, 5.3.1 (neighbours), 5.5.1 (neg, abs), 5.7.2 (classes), 5.10 (total order).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feather_ref._parts import minus_zero_code, nan_codes, split
from feather_ref._sweep import Array, place, spell
from feather_ref.codec import check_codes
from feather_ref.formats import Format, get_format
from feather_ref.policy import zero_code

Bools = NDArray[np.bool_]
I64 = NDArray[np.int64]

CLASSES = ("nan", "-inf", "-normal", "-subnormal", "-zero", "+zero", "+subnormal", "+normal", "+inf")
"""What the numbers of `classify` mean."""


def _wide(codes: ArrayLike, fmt: str | Format, name: str = "codes") -> tuple[NDArray[np.uint64], Format]:
    row = get_format(fmt)
    return check_codes(codes, row, name).astype(np.uint64), row


def _narrow(codes: Any, row: Format) -> Array:
    return check_codes(codes, row)


def isnan(codes: ArrayLike, fmt: str | Format) -> Bools:
    """Where codes are NaN.

    >>> isnan([0x7E, 0x7F, 0x80, 0xFF], "e4m3").tolist(), isnan([0x80], "e4m3fnuz").tolist()
    ([False, True, False, True], [True])
    """
    return nan_codes(*_wide(codes, fmt))


def isinf(codes: ArrayLike, fmt: str | Format) -> Bools:
    """Where codes are +Inf or -Inf.

    >>> isinf([0x7B, 0x7C, 0xFC], "e5m2").tolist()
    [False, True, True]
    """
    return split(*_wide(codes, fmt)).inf


def isfinite(codes: ArrayLike, fmt: str | Format) -> Bools:
    """Where codes are neither Inf nor NaN.

    >>> isfinite([0x7B, 0x7C, 0x7D], "e5m2").tolist()
    [True, False, False]
    """
    parts = split(*_wide(codes, fmt))
    return ~(parts.inf | parts.nan)


def classify(codes: ArrayLike, fmt: str | Format) -> NDArray[np.uint8]:
    """The class of each code: an index into `CLASSES`.

    >>> [CLASSES[i] for i in classify([0x00, 0x81, 0x08, 0x7C, 0x7F], "e5m2")]
    ['+zero', '-subnormal', '+normal', '+inf', 'nan']
    """
    wide, row = _wide(codes, fmt)
    parts = split(wide, row)
    subnormal = parts.exponent < row.emin if row.has_subnormals else np.zeros(wide.shape, np.bool_)
    size = np.select([parts.zero, parts.inf, subnormal], [0, 3, 1], 2)
    signed = np.where(parts.negative, 4 - size, 5 + size)
    return np.where(parts.nan, 0, signed).astype(np.uint8)


def neg(codes: ArrayLike, fmt: str | Format) -> Array:
    """Each code with its sign turned; a lone NaN and a zero without sign stay.

    >>> [hex(c) for c in neg([0x38, 0x00, 0x80], "e4m3fnuz")]
    ['0xb8', '0x0', '0x80']

    Raises ValueError where the format has no such code: unsigned rows, the least integer.
    """
    wide, row = _wide(codes, fmt)
    if row.kind == "table":
        return _by_value(wide, row, operator.neg)
    if not row.signed:
        raise ValueError(f"neg: format {row.name!r} is unsigned")
    if row.kind == "integer":
        return _twos_complement(wide, row)
    stays = np.uint64(row.magnitude_mask) & wide == 0
    return _narrow(np.where(stays & (not row.has_signed_zero), wide, wide ^ np.uint64(row.sign_mask)), row)


def abs(codes: ArrayLike, fmt: str | Format) -> Array:  # noqa: A001 - the name of the operation in IEEE 754
    """Each code with its sign cleared.

    >>> [hex(c) for c in abs([0xB8, 0x80, 0xFF], "e4m3")]
    ['0x38', '0x0', '0x7f']
    """
    wide, row = _wide(codes, fmt)
    if row.kind == "table":
        return _by_value(wide, row, operator.abs)
    if row.kind == "integer":
        return _narrow(np.where((wide & np.uint64(row.sign_mask)) != 0, _twos_complement(wide, row), wide), row)
    lone_nan = nan_codes(wide, row) & (not row.has_signed_nan)
    return _narrow(np.where(lone_nan, wide, wide & np.uint64(row.magnitude_mask)), row)


def _twos_complement(wide: NDArray[np.uint64], row: Format) -> Array:
    """-x of an integer row; the least one has no negative."""
    if row.signed:
        _refuse(wide == np.uint64(row.sign_mask), wide, row, "has no negative")
    mask = np.uint64(row.code_mask)
    return _narrow(((wide ^ mask) + np.uint64(1)) & mask, row)


def _by_value(wide: NDArray[np.uint64], row: Format, turn: Callable[[float], float]) -> Array:
    """Codes of a table row whose value is turn(value), with the sign of zero."""
    known = {str(value): code for code, value in reversed(list(enumerate(row.values)))}
    turned = [known.get(str(turn(value)), -1) for value in row.values]
    for code, value in enumerate(row.values):
        if value == 0 and turned[code] < 0:
            turned[code] = code  # a zero without sign
    result = np.array(turned)[wide.astype(np.intp)]
    _refuse(result < 0, wide, row, "has no negative")
    return _narrow(result, row)


def _refuse(bad: Bools, wide: NDArray[np.uint64], row: Format, text: str) -> None:
    if bad.any():
        index = place(int(np.argmax(bad)), wide.shape)
        raise ValueError(f"{spell('codes', index)} = {int(wide[index]):#x} {text} in {row.name!r}")


# --- order ------------------------------------------------------------------------------------


def order_key(codes: ArrayLike, fmt: str | Format) -> I64:
    """Integers that sort like the codes in total order.

    -NaN < -Inf < .. < -0 < +0 < .. < +Inf < +NaN; a NaN that has no sign comes last.

    >>> order_key([0x80, 0x00, 0xB8, 0x38, 0x7F, 0xFF], "e4m3").tolist()
    [-1, 0, -57, 56, 127, -128]
    """
    wide, row = _wide(codes, fmt)
    if row.kind == "table":
        ranks = {code: rank for rank, code in enumerate(sorted(range(len(row.values)), key=_value_key(row)))}
        return np.array([ranks[code] for code in range(len(row.values))])[wide.astype(np.intp)]
    magnitude = (wide & np.uint64(row.magnitude_mask)).astype(np.int64)
    negative = (wide & np.uint64(row.sign_mask)) != 0
    if row.kind == "integer":
        return magnitude - negative * np.int64(row.sign_mask)
    key = np.where(negative, -magnitude - 1, magnitude)
    if row.nan == "negative_zero":
        key = np.where(nan_codes(wide, row), row.magnitude_mask + 1, key)
    return key


def _value_key(row: Format) -> Any:
    return lambda code: (row.values[code], str(row.values[code]) != "-0.0", code)


def nextafter(codes: ArrayLike, toward: ArrayLike, fmt: str | Format) -> Array:
    """The next code from `codes` in the direction of `toward`; equal values give `toward`.

    NaN in either gives the canonical NaN.  Shapes broadcast.  From +0 down to -0 is equal, so
    it gives -0, as in C; the step across zero goes to the least value of the other sign.

    >>> [hex(c) for c in nextafter([0x7B, 0x00, 0x00, 0x01], [0x7C, 0x80, 0xFC, 0x80], "e5m2")]
    ['0x7c', '0x80', '0x81', '0x0']
    """
    start, row = _wide(codes, fmt)
    goal, _ = _wide(toward, fmt, "toward")
    try:
        start, goal = np.broadcast_arrays(start, goal)
    except ValueError:
        raise ValueError(f"codes of shape {start.shape} and toward of shape {goal.shape} do not broadcast") from None
    nan = nan_codes(start, row) | nan_codes(goal, row)
    rank, codes_by_rank = _ranks(row) if row.kind == "table" else (None, None)
    a, b = (_ordinal(x, row) if rank is None else rank[x.astype(np.intp)] for x in (start, goal))
    step = a + np.sign(b - a)
    if codes_by_rank is not None:
        result = codes_by_rank[step]
        if row.has_signed_zero:  # zero reached from below is -0
            result = np.where((result == zero_code(row)) & (a < b), np.uint64(minus_zero_code(row)), result)
    else:
        result = _from_ordinal(step, b < a, row)
    result = np.where(a == b, goal, result)
    return _narrow(np.where(nan, np.uint64(row.canonical_nan or 0), result), row)


def _ordinal(wide: NDArray[np.uint64], row: Format) -> I64:
    """A signed count of steps from zero; both zeros are 0."""
    key = order_key(wide, row)
    return key + (key < 0) if row.kind == "float" else key


def _from_ordinal(step: I64, falling: Bools, row: Format) -> NDArray[np.uint64]:
    if row.kind == "integer":
        return step.astype(np.uint64) & np.uint64(row.code_mask)
    # zero reached from below is -0
    minus = (step < 0) | ((step == 0) & ~falling & row.has_signed_zero)
    return np.abs(step).astype(np.uint64) | np.where(minus, np.uint64(row.sign_mask), np.uint64(0))


def _ranks(row: Format) -> tuple[I64, NDArray[np.uint64]]:
    """Rank of each code among the distinct values of a table, and the first code of each rank."""
    values = sorted(set(row.values))
    place_of = {value: rank for rank, value in enumerate(values)}
    first = {value: code for code, value in reversed(list(enumerate(row.values)))}
    first.update({0.0: zero_code(row)} if 0.0 in first else {})
    return np.array([place_of[v] for v in row.values]), np.array([first[v] for v in values], np.uint64)


def ulp(codes: ArrayLike, fmt: str | Format) -> NDArray[np.float64]:
    """The unit in the last place of each code: the distance to the next greater magnitude.

    Inf and NaN give NaN; the greatest value goes on as if the exponent did.

    >>> ulp([0x00, 0x38, 0x7E], "e4m3").tolist()
    [0.001953125, 0.125, 32.0]
    """
    wide, row = _wide(codes, fmt)
    if row.kind == "table":
        raise ValueError(f"ulp: the table format {row.name!r} has no last place")
    field = (wide & np.uint64(row.exponent_mask)) >> np.uint64(row.mantissa_bits)
    exponent = np.maximum(field.astype(np.int64) - row.has_zero, 0) + row.quantum
    finite = isfinite(wide, row)
    outside = finite & ((exponent < -1074) | (exponent > 1023))
    _refuse(outside, wide, row, "has an ulp beyond float64")
    return np.where(finite, np.ldexp(1.0, np.where(finite, exponent, 0)), np.nan)
