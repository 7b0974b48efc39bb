"""PackedTensor: words, a scale, and what they mean; value = decode(code) * scale.

The scale is one float32 a row or a tensor, and amax its greatest finite magnitude::

    scale_rule   scale                                            then
    "amax"       amax / max, exact, rounded once to float32       at least 2**-126,
    "pow2"       the smallest power of two >= amax / max          1 where amax is 0

Codes are those of the exact quotient x / scale, neither of a rounded division nor of a product
with a rounded reciprocal; dequantizing rounds once.

Source: a rule of this project; "pow2" is what an E8M0 scale can hold.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from feather_ref._parts import FP64
from feather_ref._sources import as_array, bits_of, row_of
from feather_ref._sweep import Array, place, spell
from feather_ref.arith import encode_quotient
from feather_ref.codec import decode, encode
from feather_ref.formats import Format
from feather_ref.packing import Order, Words, check_order, check_words
from feather_ref.policy import Policies
from feather_ref.words import check_lane, codes_to_words, words_to_codes

Scale = Literal["row", "tensor"]
ScaleRule = Literal["amax", "pow2"]

SCALES: tuple[str, ...] = get_args(Scale)
SCALE_RULES: tuple[str, ...] = get_args(ScaleRule)

_LEAST = 2.0**-126  # the least normal float32
_GREATEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False, repr=False)
class PackedTensor:
    """Packed numbers with all that is needed to read them.

    words: uint32, shape[:-1] + (ceil(shape[-1] * fmt.storage_bits / 32),).  scale: None, or float32,
    finite and positive, of shape () or shape[:-1] + (1,).  A shape () is packed as (1,).

    >>> packed = PackedTensor(np.array([0x44344030], np.uint32), None, (4,), "e4m3", "little")
    >>> packed
    PackedTensor(e4m3, shape=(4,), order='little', scale=None, 4 bytes)
    >>> packed.dequantize()
    array([0.5 , 2.  , 0.75, 3.  ], dtype=float32)

    Raises TypeError or ValueError where these do not fit together.
    """

    words: Words
    scale: NDArray[np.float32] | None
    shape: tuple[int, ...]
    fmt: Format
    order: Order = "little"

    def __post_init__(self) -> None:
        row = check_lane(self.fmt)
        shape = _check_shape(self.shape)
        check_order(self.order)
        *lead, n = shape or (1,)
        words = check_words(self.words)
        expected = (*lead, -(-n * row.storage_bits // 32))
        if words.shape != expected:
            raise ValueError(f"words have shape {words.shape}; {row.name!r} codes of shape {shape} fill {expected}")
        scale = None if self.scale is None else _check_scale(self.scale, row, ((), (*lead, 1)))
        for name, value in (("words", words), ("scale", scale), ("shape", shape), ("fmt", row)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        scale = None if self.scale is None else self.scale.shape
        return f"PackedTensor({self.fmt}, shape={self.shape}, order={self.order!r}, scale={scale}, {self.nbytes} bytes)"

    def __array__(self, dtype: object = None, copy: object = None) -> Array:
        """No array is meant without a word: np.asarray of this is a TypeError."""
        raise TypeError("a PackedTensor is not an array: use .dequantize(), .codes() or .words")

    @property
    def nbytes(self) -> int:
        """Bytes of the words and the scale."""
        return self.words.nbytes + (0 if self.scale is None else self.scale.nbytes)

    def codes(self, strict: bool = True) -> Array:
        """The codes, of shape `shape`; strict: padding bits must be zero."""
        return self._rows(strict).reshape(self.shape)

    def dequantize(self, strict: bool = True) -> Array:
        """decode(code) * scale, rounded once to float32; without a scale, what `decode` gives."""
        codes = self._rows(strict)
        if self.scale is None:
            return decode(codes, self.fmt).reshape(self.shape)
        # Exact and normal in float64, whose 53 bits hold 25 and 24; the encode is the one rounding.
        values = decode(codes, self.fmt, np.float64)
        values *= decode(self.scale.view(bits_of(self.scale).dtype), "fp32", np.float64)
        return encode(values, "fp32").view(np.float32).reshape(self.shape)

    def _rows(self, strict: bool) -> Array:
        n = self.shape[-1] if self.shape else 1
        return words_to_codes(self.words, self.fmt, n, self.order, strict)


def pack_tensor(
    x: object,
    fmt: str | Format,
    scale: Scale | None = None,
    scale_rule: ScaleRule = "amax",
    order: Order = "little",
    **policies: Unpack[Policies],
) -> PackedTensor:
    """Scale, encode and pack a tensor.

    x: (..., n) numbers; with a scale, floats up to float64, bool, or integers up to 2**53.
    scale: None, "row" (one for the last axis) or "tensor".  scale_rule: "amax" or "pow2", see
    above.  policies: as for `encode`, without stochastic rounding; NaN and Inf in x go by them and
    leave the scale alone.

    >>> packed = pack_tensor([[1.0, -2.0], [0.0, 0.0]], "e2m1", scale="row", scale_rule="pow2")
    >>> packed.scale.tolist(), packed.dequantize().tolist()
    ([[0.5], [1.0]], [[1.0, -2.0], [0.0, 0.0]])

    Raises what `encode` raises, and ValueError for a scale above the greatest float32.
    """
    row = check_lane(fmt)
    check_order(order)
    _check_name("scale_rule", scale_rule, SCALE_RULES)
    array = as_array(x)
    if scale is None:
        if scale_rule != "amax":
            raise ValueError(f"scale_rule={scale_rule!r} has no scale to make; scale is None")
        codes = encode(array, row, out=None, report=False, random_bits=None, n_bits=None, **policies)
        return PackedTensor(codes_to_words(codes, row, order), None, array.shape, row, order)
    _check_name("scale", scale, SCALES)
    array = _as_float(array)
    factor = _scale(_amax(array, scale), row, scale_rule)
    codes = encode_quotient(np.atleast_1d(array), factor, row, **policies)
    return PackedTensor(codes_to_words(codes, row, order), factor, array.shape, row, order)


# --- the scale --------------------------------------------------------------------------------


def _as_float(x: Array) -> Array:
    """x as a float array that NumPy can compare, with the same values."""
    row = row_of(x.dtype)
    if row is None:
        raise TypeError(f"x: dtype {x.dtype} is wider than float64, which has no scale")
    if x.dtype.kind == "f":
        return x
    if row.kind == "float":  # of ml_dtypes
        return x.astype(np.float32)
    if row.bits > 53:
        beyond = (x > 1 << 53) | (x < -(1 << 53)) if row.signed else x > 1 << 53
        if beyond.any():
            index = place(int(np.argmax(beyond)), x.shape)
            raise ValueError(f"{spell('x', index)} = {x[index]} is not exact in float64, and so has no scale")
    return x.astype(np.float64)


def _amax(x: Array, scale: str) -> NDArray[np.float64]:
    """The greatest finite magnitude, found among the bits: () or (..., 1); 0 where there is none."""
    bits, row = bits_of(np.atleast_1d(x)), row_of(x.dtype) or FP64
    magnitude = bits & bits.dtype.type(row.magnitude_mask)
    magnitude[magnitude > bits.dtype.type(row.max_magnitude)] = 0
    top: Array = np.asarray(magnitude.max(initial=0))
    if scale == "row":
        top = magnitude.max(axis=-1, keepdims=True, initial=0)
    return top.view(np.float64) if row is FP64 else decode(top, row, np.float64)


def _scale(amax: NDArray[np.float64], row: Format, rule: str) -> NDArray[np.float32]:
    """The scale of each amax, by a rule."""
    greatest = _check_max(row)
    if rule == "amax":
        scale = decode(encode_quotient(amax, greatest, "fp32"), "fp32", np.float64)
    else:
        up = encode_quotient(amax, greatest, "e8m0", rounding="toward_positive", overflow="nonsaturating")
        scale = decode(up, "e8m0", np.float64)
    if not np.isfinite(scale).all():
        index = place(int(np.argmin(np.isfinite(scale))), scale.shape)
        raise ValueError(
            f"{spell('scale', index)} = {float(amax[index])!r} / {float(greatest)!r} is above {_GREATEST!r}"
        )
    nothing = amax.view(np.uint64) == 0
    return np.where(nothing, 1.0, np.maximum(scale, _LEAST)).astype(np.float32)


def _check_max(row: Format) -> np.float32:
    """The greatest value; where it is a float32, every product with a scale rounds once."""
    greatest = row.exact(row.max_magnitude) if row.kind != "table" else Fraction(row.max)
    if not 0 < greatest <= _GREATEST or Fraction(float(np.float32(greatest))) != greatest:
        raise ValueError(f"fmt: the greatest value of {row.name!r} is not a positive float32, so it takes no scale")
    return np.float32(greatest)


# --- checks -----------------------------------------------------------------------------------


def _check_name(name: str, value: object, known: tuple[str, ...]) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a name, got {type(value).__name__}")
    if value not in known:
        none = ", or None" if known is SCALES else ""
        raise ValueError(f"{name} must be one of {', '.join(known)}{none}; got {value!r}")


def _check_shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, (tuple, list)) or not all(hasattr(size, "__index__") for size in shape):
        raise TypeError(f"shape must be a tuple of ints, got {shape!r}")
    if any(size < 0 for size in shape):
        raise ValueError(f"shape must not be negative, got {shape}")
    return tuple(operator.index(size) for size in shape)


def _check_scale(scale: Any, row: Format, shapes: tuple[tuple[int, ...], ...]) -> NDArray[np.float32]:
    _check_max(row)
    array = np.asarray(scale)
    if array.dtype.newbyteorder("=") != np.dtype(np.float32):
        raise TypeError(f"scale must be float32, got dtype {array.dtype}")
    if array.shape not in shapes:
        raise ValueError(f"scale has shape {array.shape}, not {' or '.join(map(str, shapes))}")
    good = np.isfinite(array) & (array > 0)
    if not good.all():
        index = place(int(np.argmin(good)), array.shape)
        bits = int(array[index].astype(np.float32).view(np.uint32))
        raise ValueError(f"{spell('scale', index)} = 0x{bits:08X} is not finite and positive")
    return array
