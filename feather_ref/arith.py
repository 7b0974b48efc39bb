"""Arithmetic on codes: the exact result, then one encode.

Operands and results are parts (see `_parts`): significand with its leading 1 in bit 63.  A sum
keeps 62 bits and a sticky one, a product is exact, a quotient keeps 62 bits and a sticky one;
formats have at most 24 significant bits, so nothing is rounded before the encode.

======================  ==========================================================
x / 0, x != 0           Inf of the product of signs, which then goes by `overflow`
0 / 0, Inf / Inf        NaN, which goes by `nan`; so do Inf - Inf and 0 * Inf
x - x                   +0; -0 with rounding="toward_negative"
-0 + -0                 -0; a format without -0 has +0 alone
======================  ==========================================================

Source: IEEE 754-2019, 5.4.1, 6.1 to 6.3, 7.2, 7.3; sticky alignment as in Berkeley SoftFloat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feather_ref._bits import ZERO, shift_right_jam
from feather_ref._checks import refuse_parts
from feather_ref._parts import Parts, merge, normalised, split
from feather_ref._sources import as_array, bits_of, row_of, source_parts
from feather_ref._sweep import Array, sweep
from feather_ref.codec import check_codes, code_dtype
from feather_ref.formats import Format, get_format
from feather_ref.policy import Policies, resolve
from feather_ref.rounding import STOCHASTIC

MAX_PRECISION = 24
_ONE = np.uint64(1)
_HALF_WORD = np.uint64(32)
Op = Callable[..., Parts]


def add(a: ArrayLike, b: ArrayLike, fmt: str | Format, **policies: Unpack[Policies]) -> Array:
    """a + b on codes; shapes broadcast.

    >>> hex(add(0x38, 0x01, "e4m3")), hex(add(0x7E, 0x7E, "e4m3", overflow="nonsaturating"))
    ('0x38', '0x7f')
    """
    return _apply(_add, {"a": a, "b": b}, fmt, policies)


def subtract(a: ArrayLike, b: ArrayLike, fmt: str | Format, **policies: Unpack[Policies]) -> Array:
    """a - b on codes; shapes broadcast.

    >>> hex(subtract(0x38, 0x38, "e4m3")), hex(subtract(0x38, 0x38, "e4m3", rounding="toward_negative"))
    ('0x0', '0x80')
    """
    return _apply(_subtract, {"a": a, "b": b}, fmt, policies)


def multiply(a: ArrayLike, b: ArrayLike, fmt: str | Format, **policies: Unpack[Policies]) -> Array:
    """a * b on codes; shapes broadcast.

    >>> hex(multiply(0x3C, 0xBC, "e4m3"))  # 1.5 * -1.5 = -2.25
    '0xc1'
    """
    return _apply(_multiply, {"a": a, "b": b}, fmt, policies)


def divide(a: ArrayLike, b: ArrayLike, fmt: str | Format, **policies: Unpack[Policies]) -> Array:
    """a / b on codes; shapes broadcast.

    >>> hex(divide(0x38, 0x44, "e4m3")), hex(divide(0x38, 0x80, "e5m2", overflow="nonsaturating"))
    ('0x2b', '0xfc')
    """
    return _apply(_divide, {"a": a, "b": b}, fmt, policies)


def fma(a: ArrayLike, b: ArrayLike, c: ArrayLike, fmt: str | Format, **policies: Unpack[Policies]) -> Array:
    """a * b + c on codes with one rounding; shapes broadcast.

    >>> hex(fma(0x39, 0x39, 0xBA, "e4m3"))  # 1.125 * 1.125 - 1.25 = 2**-6
    '0x8'
    """
    return _apply(_fma, {"a": a, "b": b, "c": c}, fmt, policies)


def compare(a: ArrayLike, b: ArrayLike, fmt: str | Format) -> NDArray[np.uint8]:
    """0 less, 1 equal, 2 greater, 3 unordered (a NaN); -0 equals +0; shapes broadcast.

    >>> compare([0x80, 0xB8, 0x7F], [0x00, 0x38, 0x38], "e4m3").tolist()
    [1, 0, 3]
    """
    row = get_format(fmt)
    operands = _operands({"a": a, "b": b}, row)
    out = np.empty(np.broadcast_shapes(*(x.shape for x in operands)), np.uint8)

    def work(start: int, *chunks: Array) -> None:
        x, y = (split(chunk.astype(np.uint64), row) for chunk in chunks[:-1])
        less, greater = _less(x, y), _less(y, x)
        chunks[-1][...] = np.where(x.nan | y.nan, 3, 1 - less.astype(np.int8) + greater)

    sweep(operands, out, work)
    return out


def encode_quotient(x: object, scale: object, fmt: str | Format, **policies: Unpack[Policies]) -> Array:
    """The codes of x / scale: divided exactly, rounded once.

    x: float16, float32, float64 or integers of up to 32 bits.  scale: float16 or float32.  Shapes
    broadcast.

    >>> [hex(c) for c in encode_quotient([1.0, 2.0], np.float32(3.0), "fp16")]
    ['0x3555', '0x3955']

    Raises TypeError for other dtypes.
    """
    num, den = as_array(x), as_array(scale)
    rows = (_source(num, "x", 53), _source(den, "scale", 32))
    return _run(_divide, (bits_of(num), bits_of(den)), rows, get_format(fmt), policies, name="x")


def _source(x: Array, name: str, precision: int) -> Format:
    row = row_of(x.dtype)
    bits = 64 if row is None else row.bits - row.signed if row.kind == "integer" else row.mantissa_bits + 1
    if row is None or bits > precision:
        raise TypeError(f"{name}: dtype {x.dtype} has more than {precision} significant bits")
    return row


# --- from codes to codes ----------------------------------------------------------------------


def _operands(named: dict[str, ArrayLike], row: Format) -> list[Array]:
    arrays = {name: check_codes(codes, row, name) for name, codes in named.items()}
    try:
        np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"shapes do not broadcast: {shapes}") from None
    return list(arrays.values())


def _apply(op: Op, named: dict[str, ArrayLike], fmt: str | Format, policies: Policies) -> Array:
    row = get_format(fmt)
    precision = row.mantissa_bits + 1 if row.kind == "float" else row.bits
    if precision > MAX_PRECISION or row.kind == "table":
        raise ValueError(f"fmt: arithmetic needs a float or integer format of up to {MAX_PRECISION} significant bits")
    operands = _operands(named, row)
    return _run(op, operands, [row] * len(operands), row, policies)


def _run(
    op: Op,
    arrays: Sequence[Array],
    rows: Sequence[Format],
    fmt: Format,
    policies: Policies,
    name: str = "the result",
) -> Array:
    """Sweep the operands; name: what an error calls the element."""
    policy = resolve(fmt, **policies)
    if policy.rounding in STOCHASTIC:
        raise ValueError(f"rounding={policy.rounding!r}: arithmetic on codes is deterministic")
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    out = np.empty(shape, code_dtype(fmt))

    def work(start: int, *chunks: Array) -> None:
        flush = policy.subnormals == "flush_input"
        parts = [source_parts(chunk, row, flush) for chunk, row in zip(chunks[:-1], rows, strict=True)]
        result = op(*parts, policy.rounding)
        refuse_parts(result, policy, name, start, shape)
        chunks[-1][...] = merge(result, policy)

    sweep(arrays, out, work)
    return out


# --- on parts ---------------------------------------------------------------------------------


def _less(x: Parts, y: Parts) -> NDArray[np.bool_]:
    """x < y for ordered operands."""
    smaller, greater = _magnitude_less(x, y), _magnitude_less(y, x)
    both_zero = x.zero & y.zero
    same = np.where(x.negative, greater, smaller)
    return np.where(x.negative == y.negative, same, x.negative & ~both_zero)


def _magnitude_less(x: Parts, y: Parts) -> NDArray[np.bool_]:
    finite = (x.exponent < y.exponent) | ((x.exponent == y.exponent) & (x.significand < y.significand))
    return np.where(x.inf | y.inf, ~x.inf & y.inf, finite)


def _negated(x: Parts) -> Parts:
    return x._replace(negative=~x.negative)


def _subtract(x: Parts, y: Parts, rounding: str) -> Parts:
    return _add(x, _negated(y), rounding)


def _add(x: Parts, y: Parts, rounding: str) -> Parts:
    # 1. the greater magnitude first
    swap = _magnitude_less(x, y)
    big = Parts(*(np.where(swap, b, a) for a, b in zip(x, y, strict=True)))
    small = Parts(*(np.where(swap, a, b) for a, b in zip(x, y, strict=True)))
    # 2. align below bit 63, sticky
    high = big.significand >> _ONE
    low = shift_right_jam(small.significand >> _ONE, np.minimum(big.exponent - small.exponent, 64))
    # 3. add or subtract; an exact zero of unlike signs is +0, or -0 when rounding down
    unlike = x.negative != y.negative
    total = np.where(unlike, high - low, high + low)
    negative = np.where(unlike & (total == ZERO), rounding == "toward_negative", big.negative)
    # 4. Inf and NaN
    nan = x.nan | y.nan | (x.inf & y.inf & unlike)
    inf = (x.inf | y.inf) & ~nan
    negative = np.where(inf, np.where(x.inf, x.negative, y.negative), negative) & ~nan
    return normalised(negative, big.exponent - 62, np.where(inf | nan, ZERO, total), inf, nan)


def _multiply(x: Parts, y: Parts, rounding: str) -> Parts:
    product = (x.significand >> _HALF_WORD) * (y.significand >> _HALF_WORD)
    nan = x.nan | y.nan | (x.inf & y.zero) | (x.zero & y.inf)
    inf = (x.inf | y.inf) & ~nan
    negative = (x.negative != y.negative) & ~nan
    exponent = x.exponent + y.exponent - 62
    return normalised(negative, exponent, np.where(inf | nan, ZERO, product), inf, nan)


def _divide(x: Parts, y: Parts, rounding: str) -> Parts:
    # 1. two digits of 32 bits, and whether anything remains
    divisor = np.where(y.significand == ZERO, _ONE, y.significand >> _HALF_WORD)
    first, rest = np.divmod(x.significand >> _ONE, divisor)
    second, rest = np.divmod(rest << _HALF_WORD, divisor)
    quotient = (first << _HALF_WORD) | second | (rest != ZERO)
    # 2. Inf and NaN
    nan = x.nan | y.nan | (x.inf & y.inf) | (x.zero & y.zero)
    inf = (x.inf | (y.zero & ~x.nan)) & ~nan
    negative = (x.negative != y.negative) & ~nan
    nothing = inf | nan | y.inf
    return normalised(negative, x.exponent - y.exponent - 63, np.where(nothing, ZERO, quotient), inf, nan)


def _fma(x: Parts, y: Parts, z: Parts, rounding: str) -> Parts:
    return _add(_multiply(x, y, rounding), z, rounding)
