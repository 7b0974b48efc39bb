"""Tables: the value of every code, and the result of every pair or triple of codes.

The exact results of an operation, in order, are answered as a step function: two pairs with the
same sum, not zero, have the same code, and a greater sum has no smaller one.  Zero, Inf and NaN are
asked once for each class of operands: NaN, Inf, zero, finite, each with its sign.

Source: design of this project; data/golden/README.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref import golden, oracle
from feather_ref.formats import Format, get_format
from golden_steps import pattern_below, steps

Array = NDArray[Any]
NAN_F32 = 0x7FC00000
_F32 = get_format("fp32")

# A product beyond this stays beyond the greatest value whatever is added to it, 2**18 - 57344 > 61440; cut
# off there, every sum of formats down to 2**-17 is exact in float64.
FAR = 2.0**18
EXACT: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,  # not exact, but in order: different quotients differ by more than 2**-10
    "fma": lambda a, b, c: np.clip(a * b, -FAR, FAR) + c,
}


# --- values -----------------------------------------------------------------------------------


def decode_table(row: Format) -> Array:
    """float32 patterns of every code; NaN is canonical."""
    return np.array([float32_bits(oracle.decode(code, row)) for code in range(1 << row.bits)], np.uint32)


def float32_bits(value: oracle.Exact) -> int:
    """The float32 pattern of an exact value, by Fractions; an inexact one is an error."""
    if value.kind == "nan":
        return NAN_F32
    sign = 0x80000000 if value.negative else 0
    if value.kind == "inf":
        return sign | 0x7F800000
    code = pattern_below(value.magnitude, _F32)
    if oracle.decode(code, _F32).magnitude != value.magnitude:
        raise ValueError(f"{value} is not a float32")
    return sign | code


def float64_value(value: oracle.Exact) -> float:
    """The float64 of an exact value of a narrow format."""
    size = {"nan": float("nan"), "inf": float("inf")}.get(value.kind)
    size = float(value.magnitude) if size is None else size
    return -size if value.negative else size


# --- operations -------------------------------------------------------------------------------


def all_operands(vector: golden.Question) -> list[Array]:
    """The codes of every operand, in the order of the file: the last operand runs fastest."""
    bits, count = get_format(vector.target).bits, golden.OPERATIONS[vector.op]
    index = np.arange(1 << (bits * count), dtype=np.uint32)
    return [index >> np.uint32(bits * at) & np.uint32((1 << bits) - 1) for at in reversed(range(count))]


def operation_table(question: golden.Question) -> Array:
    """The result of every pair or triple of codes, as codes; every NaN is the canonical one."""
    row = get_format(question.target)
    operands = all_operands(question)
    if question.op == "compare":
        return np.array([oracle.compare(int(a), int(b), row) for a, b in zip(*operands, strict=True)], np.uint8)
    if question.op != "fma":
        return _canonical(row)[_answers(question, operands)]
    # a triple is a product and an addend: few products differ
    addend = np.arange(1 << row.bits, dtype=np.uint32)
    a, b = all_operands(question._replace(op="multiply"))
    first, inverse = _equal_products(a, b, row)
    few = [np.repeat(codes[first], addend.size) for codes in (a, b)]
    answers = _answers(question, [*few, np.tile(addend, first.size)]).reshape(-1, addend.size)
    return _canonical(row)[answers][inverse].reshape(-1)


def _equal_products(a: Array, b: Array, row: Format) -> tuple[Array, Array]:
    """The first pair of each product, and which product each pair has; special ones go by class."""
    values, kinds = _values(row)
    with np.errstate(all="ignore"):
        product = values[a] * values[b]
    key = kinds[a].astype(np.uint64) * np.uint64(8) + kinds[b]  # small, and so no float64 of any product
    plain = np.isfinite(product) & (product != 0)
    key[plain] = product.view(np.uint64)[plain]
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse


def _values(row: Format) -> tuple[Array, Array]:
    """float64 and class of every code."""
    exacts = [oracle.decode(code, row) for code in range(1 << row.bits)]
    return np.array([float64_value(x) for x in exacts]), np.array([_class(x) for x in exacts], np.uint16)


def _answers(question: golden.Question, operands: list[Array]) -> Array:
    """The codes of the results for arrays of operands."""
    row, operate = get_format(question.target), getattr(oracle, question.op)

    def ask(at: int) -> int:
        return operate(*(int(codes[at]) for codes in operands), row, **question.policies)

    # 1. the exact results, and which of them are neither zero nor special
    values, kinds = _values(row)
    with np.errstate(all="ignore"):
        result = EXACT[question.op](*(values[codes] for codes in operands))
    plain = np.isfinite(result) & (result != 0)
    codes = np.empty(result.size, np.uint8)
    # 2. those in order
    at = np.flatnonzero(plain)
    exact, first, inverse = np.unique(result[at], return_index=True, return_inverse=True)
    codes[at] = _in_order(exact, lambda i: ask(at[first[i]]))[inverse]
    # 3. the others by class
    key = np.zeros(result.size, np.uint16)
    for operand in operands:
        key = key * np.uint16(8) + kinds[operand]
    rest = np.flatnonzero(~plain)
    _, first, inverse = np.unique(key[rest], return_index=True, return_inverse=True)
    codes[rest] = np.array([ask(rest[i]) for i in first], np.uint8)[inverse]
    return codes


def _canonical(row: Format) -> Array:
    """Every code, but the canonical one for NaN."""
    codes = range(1 << row.bits)
    return np.array([row.canonical_nan if row.is_nan(code) else code for code in codes], np.uint8)


def _class(x: oracle.Exact) -> int:
    """NaN (whatever its sign), Inf, zero, finite: the last three with their sign."""
    if x.kind == "nan":
        return 0
    return 1 + 2 * ((x.kind == "finite") + (x.kind == "finite" and x.magnitude > 0)) + x.negative


def _in_order(exact: Array, ask: Callable[[int], int]) -> Array:
    """The codes of ascending exact results, asked at the ends of every step."""
    zero = int(np.searchsorted(exact, 0.0))
    borders = sorted({0, zero - 1, zero, exact.size - 1} & set(range(exact.size)))
    pieces = list(steps(lru_cache(maxsize=None)(ask), borders))
    lengths = [hi - lo + 1 for lo, hi, _ in pieces]
    return np.repeat(np.array([code for _, _, code in pieces], np.uint8), lengths)


def memh(table: Array) -> bytes:
    """A table as text for $readmemh: a word of hex a line."""
    digits = 2 * table.dtype.itemsize
    return "".join(f"{word:0{digits}X}\n" for word in table.tolist()).encode("ascii")
