"""What the codec makes of a question, and the dtypes and NaNs of its source and target.

The codec is never the judge by itself: its results count where a digest of the oracle's results
confirms them, and serve to guess which other policy an implementation follows.

Source: design of this project.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref import arith, codec
from feather_ref._parts import FP64
from feather_ref._sources import row_of
from feather_ref._steps import nan_ranges
from feather_ref.formats import Format, get_format
from feather_ref.golden import Question

Array = NDArray[Any]

POLICY_NAMES = ("rounding", "overflow", "nan", "negative", "subnormals")
INT64 = Format("int64", 64, kind="integer")
_WIDE = {"float64": FP64, "fp64": FP64, "int64": INT64}
_VALUES: dict[str, Any] = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64, "int64": np.int64}
_ARITH = {name: getattr(arith, name) for name in ("add", "subtract", "multiply", "divide", "fma")}


def row_named(name: str | Format) -> Format:
    """The row of a source or a target: a named format, float64 or int64, or a row as it is.

    >>> row_named("float64").bits, row_named("bf16").bits
    (64, 16)
    """
    return name if isinstance(name, Format) else _WIDE.get(name) or get_format(name)


def pattern_dtype(row: Format) -> np.dtype[Any]:
    """The unsigned type that holds a bit pattern of a row."""
    return np.dtype(next(f"u{size}" for size in (1, 2, 4, 8) if row.bits <= 8 * size))


def is_own(dtype: np.dtype[Any], row: Format) -> bool:
    """Whether a dtype is a format itself, NumPy's or that of ml_dtypes.

    >>> is_own(np.dtype(np.float16), row_named("fp16")), is_own(np.dtype(np.uint8), row_named("e4m3"))
    (True, False)
    """
    try:
        found = row_of(dtype)
    except TypeError:
        return False
    return found is not None and found.name == row.name


def as_values(bits: Array, question: Question) -> Array:
    """Patterns as an implementation gets them: numbers for conversions, where NumPy has the type."""
    row = row_named(question.source)
    return bits.view(_VALUES[row.name]) if question.op == "convert" and row.name in _VALUES else bits


@lru_cache(maxsize=64)
def _nan_table(row: Format) -> NDArray[np.bool_]:
    return np.array([row.is_nan(code) for code in range(1 << row.bits)], np.bool_)


def is_nan(codes: Array, row: Format) -> NDArray[np.bool_]:
    """Where codes are NaN; one beyond the code space is not."""
    if not row.has_nan:
        return np.zeros(codes.shape, np.bool_)
    if row.bits > 16:
        found = np.zeros(codes.shape, np.bool_)
        for lo, hi in nan_ranges(row):
            found |= (codes >= lo) & (codes <= hi)
        return found
    if codes.dtype.itemsize * 8 == row.bits:
        return _nan_table(row)[codes]
    inside = codes <= row.code_mask
    return _nan_table(row)[np.where(inside, codes, 0).astype(np.intp)] & inside


def compute(question: Question, *operands: Array, **other: Any) -> Array:
    """The codec's results for bit patterns; other: policies in place of the question's.

    Raises ValueError for policies that the format cannot follow.
    """
    policies: dict[str, Any] = {key: value for key, value in question.policies.items() if key in POLICY_NAMES}
    policies |= other
    target = row_named(question.target)
    if question.op == "decode":
        values = codec.decode(operands[0], question.source, _VALUES.get(target.name, np.float32))
        return values.view(f"u{values.itemsize}") if target.name in _VALUES else codec.encode(values, target)
    if question.op == "compare":
        return arith.compare(operands[0], operands[1], target)
    if question.op in _ARITH:
        found: Array = _ARITH[question.op](*operands, target, **policies)
        return found
    if question.op != "convert":
        raise ValueError(f"op must be decode, convert, compare or arithmetic, got {question.op!r}")
    if question.n_bits is not None:
        random = operands[1] if len(operands) > 1 else question.random
        policies |= {"n_bits": question.n_bits, "random_bits": random}
    row = row_named(question.source)
    if row.bits > 32:
        return codec.encode(as_values(operands[0], question), target, **policies)
    return codec.convert(operands[0], row, target, **policies)
