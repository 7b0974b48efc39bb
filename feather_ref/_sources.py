"""Sources: which row describes a dtype, and an array as the bits of that row.

Every source but longdouble is a Format row: float32 is fp32, int64 is a 64-bit integer row,
ml_dtypes.float8_e5m2 is e5m2.  So one `split` reads them all.  Arrays are viewed, not copied;
either byte order, any strides.

Source: NumPy dtype reference; ml_dtypes 0.6.0 README for the names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref._bits import ZERO
from feather_ref._parts import FP64, Parts, flush_subnormals, normalised, split
from feather_ref.formats import FORMATS, Format

_FLOATS = {np.float16: FORMATS["fp16"], np.float32: FORMATS["fp32"], np.float64: FP64}
_NARROW = {alias: row for row in FORMATS.values() for alias in row.aliases if row.kind == "float"}
_INTEGER = re.compile(r"(u?)int(\d+)")
_LEAF = (int, float, np.bool_, np.integer, np.floating)


@lru_cache(maxsize=64)
def row_of(dtype: np.dtype[Any]) -> Format | None:
    """The row whose codes the elements of `dtype` are; None for longdouble.

    >>> row_of(np.dtype(">f4")).name, row_of(np.dtype(np.int64)).bits
    ('fp32', 64)

    Raises TypeError for what is not a number with such a row.
    """
    if dtype.type in _FLOATS:
        return _FLOATS[dtype.type]
    if dtype.type is np.longdouble:
        return FP64 if dtype.itemsize == 8 else None
    if dtype.type is np.bool_:
        return FORMATS["uint8"]
    if match := _INTEGER.fullmatch(dtype.name):
        return Format(dtype.name, int(match[2]), kind="integer", signed=not match[1])
    if dtype.name in _NARROW and dtype.fields is None:
        return _NARROW[dtype.name]
    raise TypeError(f"x: dtype {dtype} is not a real number; use a float, integer or bool dtype")


def bits_of(x: NDArray[Any]) -> NDArray[Any]:
    """The elements of x as unsigned integers of the same size and byte order: a view."""
    order = x.dtype.byteorder if x.dtype.byteorder in "<>" else "="
    return x.view(np.dtype(f"{order}u{x.dtype.itemsize}"))


def as_array(x: object) -> NDArray[Any]:
    """x as an array, exactly: Python integers beyond 2**53 do not lose their last bits.

    Raises TypeError for what is not numbers, ValueError for ragged lists.
    """
    refuse_masked(x, "x")
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise ValueError(f"x: {error}") from error
    python = isinstance(x, (int, float)) or (isinstance(x, Sequence) and not hasattr(x, "__array__"))
    if not python or array.dtype.kind not in "fO" or array.size == 0 or _all_float_arrays(x):
        return array
    leaves = np.asarray(x, dtype=object)
    flat = list(leaves.flat)
    if not all(isinstance(leaf, _LEAF) for leaf in flat):
        return array  # not Python numbers: row_of says so
    if array.dtype.kind == "f" and not any(_is_big(leaf) for leaf in flat):
        return array
    whole = (int, np.integer)
    exact = [_odd_float(int(leaf), i) if isinstance(leaf, whole) else leaf for i, leaf in enumerate(flat)]
    wide = any(isinstance(leaf, np.longdouble) for leaf in flat)
    return np.array(exact, np.longdouble if wide else np.float64).reshape(leaves.shape)


def _all_float_arrays(x: object) -> bool:
    """Whether x is a sequence of float arrays, which lose nothing and should not be boxed."""
    return isinstance(x, Sequence) and all(isinstance(part, np.ndarray) and part.dtype.kind == "f" for part in x)


def refuse_masked(x: object, name: str) -> None:
    """A mask would be lost without a word."""
    parts = x if isinstance(x, (list, tuple)) else ()
    if isinstance(x, np.ma.MaskedArray) or any(isinstance(part, np.ma.MaskedArray) for part in parts):
        raise TypeError(f"{name}: a masked array; fill it first, for its mask would be lost")


def _is_big(leaf: object) -> bool:
    return isinstance(leaf, (int, np.integer)) and abs(int(leaf)) > 1 << 53


def _odd_float(value: int, index: int) -> float:
    """A Python integer as float64, rounded to odd: rounding it once more is rounding it once."""
    extra = max(abs(value).bit_length() - 53, 0)
    top = abs(value) >> extra
    top |= top << extra != abs(value)
    try:
        return math.copysign(math.ldexp(top, extra), value)
    except OverflowError:
        raise ValueError(f"x: the integer at flat index {index} has {abs(value).bit_length()} bits") from None


def source_parts(bits: NDArray[Any], src: Format | None, flush: bool = False) -> Parts:
    """Source bits (src None: longdouble values) as parts; flush: subnormals of the source are zero."""
    if src is None:
        parts, emin = split_longdouble(bits), int(np.finfo(np.longdouble).minexp)
    else:
        parts, emin = split(bits.astype(np.uint64) & np.uint64(src.code_mask), src), src.emin
    return flush_subnormals(parts, emin) if flush and (src is None or src.has_subnormals) else parts


def split_longdouble(x: NDArray[np.longdouble]) -> Parts:
    """Parts of extended precision; a significand of more than 64 bits is rounded to odd."""
    inf, nan = np.isinf(x), np.isnan(x)
    fraction, exponent = np.frexp(np.where(inf | nan, np.longdouble(0), np.abs(x)))
    scaled = np.ldexp(fraction, 64)  # in [2**63, 2**64), or 0
    whole = np.floor(scaled)
    significand = whole.astype(np.uint64) | (whole != scaled).astype(np.uint64)
    parts = normalised(np.signbit(x), exponent.astype(np.int64) - 64, significand, inf, nan)
    return parts._replace(significand=np.where(inf | nan, ZERO, parts.significand))
