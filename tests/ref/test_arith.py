"""Arithmetic on codes: the hand-written table, the exact oracle, and float64 where it is exact.

For formats of up to 8 bits every pair of codes is tried.  A float64 sum or product of them is exact and a
float64 quotient rounds onto or across no value or midpoint, so that only its place between those matters; the
oracle says what each place encodes to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import arith_table as table
import numpy as np
import pytest
from helpers import ROUNDINGS, Array, assert_bits, storage, without_nan
from overflow_table import ROUNDING_LETTERS

import feather_ref as fr
from feather_ref import oracle
from feather_ref.formats import FORMATS, Format, get_format, minifloat

BINARY = ("add", "subtract", "multiply", "divide")
NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
}  # fmt: skip
SEED = 20260626

# --- the table ------------------------------------------------------------------------------------


def lines(text: str) -> Iterator[str]:
    """Lines that are neither empty nor a comment."""
    yield from (line for line in text.splitlines() if line and not line.startswith("#"))


def policies_of(text: str) -> dict[str, Any]:
    """`key=value` words; a NaN code is hex."""
    pairs = dict(word.split("=") for word in text.split())
    names = ("canonical", "preserve_sign", "error", "max", "zero")
    return {key: int(value, 16) if key == "nan" and value not in names else value for key, value in pairs.items()}


def answer(side: str, name: str, operands: list[int], fmt: str, policies: dict[str, Any]) -> str:
    """The code in hex, or "error"."""
    try:
        code = getattr(fr if side == "arith" else oracle, name)(*operands, fmt, **policies)
    except ValueError:
        return "error"
    return f"{int(code):X}"


TABLE = [pytest.param(line, id=" ".join(line.split())) for text in table.SECTIONS.values() for line in lines(text)]


@pytest.mark.parametrize("side", ["arith", "oracle"])
@pytest.mark.parametrize("line", TABLE)
def test_table(line: str, side: str) -> None:
    question, modes, want, *extra = (part.strip() for part in line.split("|"))
    name, fmt, *operands = question.split()
    letters, overflows = modes.split()
    more = policies_of(extra[0]) if extra else {}
    codes = [int(operand, 16) for operand in operands]
    wanted = want if want == "error" else f"{int(want, 16):X}"
    for letter, word in itertools.product(letters, overflows.split(",")):
        policies = {"rounding": ROUNDING_LETTERS[letter], "overflow": table.OVERFLOW_WORDS[word], **more}
        assert answer(side, name, codes, fmt, policies) == wanted, (letter, word)


@pytest.mark.parametrize("side", [fr, oracle], ids=["arith", "oracle"])
@pytest.mark.parametrize("line", list(lines(table.COMPARED)))
def test_table_of_comparisons(line: str, side: Any) -> None:
    fmt, a, b, verdict = line.split()
    a, b = int(a, 16), int(b, 16)
    assert side.compare(a, b, fmt) == int(verdict)
    assert side.compare(b, a, fmt) == {0: 2, 1: 1, 2: 0, 3: 3}[int(verdict)]


def test_every_cell_of_the_table_has_its_roundings() -> None:
    """A line with a typing error would test nothing."""
    for text in table.SECTIONS.values():
        for line in lines(text):
            letters, overflows = line.split("|")[1].split()
            assert set(letters) <= set(ROUNDING_LETTERS) and len(set(letters)) == len(letters), line
            assert set(overflows.split(",")) <= set(table.OVERFLOW_WORDS), line


# --- all pairs ------------------------------------------------------------------------------------


class Judge:
    """The oracle's encode of a row under one set of policies, as a function of float64 arrays.

    Every deterministic rounding is constant between two neighbours of the list of values and midpoints, so
    the oracle is asked once for each of those points and once for each gap.  The list ends one unit past the
    greatest value, beyond which everything overflows.
    """

    def __init__(self, row: Format, **policies: Any) -> None:
        values = sorted({x.magnitude for x in decoded(row) if x.kind == "finite" and not x.negative})
        values.append(2 * values[-1] - values[-2])
        points = sorted({*values, *((a + b) / 2 for a, b in itertools.pairwise(values))})
        gaps = [(a + b) / 2 for a, b in itertools.pairwise(points)]
        places = [points[0] / 2, *itertools.chain.from_iterable(zip(points, [*gaps, 2 * points[-1]], strict=True))]
        finite = [[oracle.Exact("finite", negative, x) for x in places] for negative in (False, True)]
        self.points = np.array([float(point) for point in points])
        self.finite = np.array([[oracle.encode(x, row, **policies) for x in side] for side in finite])
        self.inf = [oracle.encode(x, row, **policies) for x in (np.inf, -np.inf)]
        self.nan = oracle.encode(np.nan, row, **policies)
        self.dtype = storage(row)

    def __call__(self, x: Array) -> Array:
        size, negative = np.abs(x), np.signbit(x)
        gap = np.searchsorted(self.points, size)
        on = self.points[np.minimum(gap, len(self.points) - 1)] == size
        codes = self.finite[negative.astype(int), 2 * gap + on]
        codes = np.where(np.isinf(x), np.where(negative, self.inf[1], self.inf[0]), codes)
        return np.where(np.isnan(x), self.nan, codes).astype(self.dtype)


@lru_cache(maxsize=64)
def decoded(row: Format) -> list[oracle.Exact]:
    """The exact value of every code."""
    return [oracle.decode(code, row) for code in range(1 << row.bits)]


def as_float(x: oracle.Exact) -> float:
    """An exact value that float64 holds."""
    size = {"finite": float(x.magnitude), "inf": np.inf, "nan": np.nan}[x.kind]
    return -size if x.negative else size


def pairs_of(row: Format) -> tuple[Array, Array]:
    """All codes as a column, and as a row."""
    codes = np.arange(1 << row.bits, dtype=storage(row))
    return codes[:, None], codes


def in_float64(name: str, a: Array, b: Array, rounding: str) -> Array:
    """The operation in float64, with the zero of toward_negative (IEEE 754, 6.3)."""
    with np.errstate(all="ignore"):
        result: Array = NUMPY[name](a, b)
    if rounding == "toward_negative" and name in ("add", "subtract"):
        unlike = np.signbit(a) != np.signbit(-b if name == "subtract" else b)
        result = np.where((result == 0) & unlike, -0.0, result)
    return result


# Significands of 4 bits and exponents from -17 to 15: a sum spans at most 34 bits, a product has 8, so both are
# exact in float64.  A quotient a / b that misses a point m (5 bits) misses it by |a - m b| / b, where a - m b is a
# whole number of units of m b, a product of 9 bits: by 2**-10 of itself, while float64 errs by 2**-53; and one
# that is m is exact.
ALL_PAIRS = ("e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz")
MORE_PAIRS = (
    "e4m3b11fnuz", "e4m3ieee", "e3m4", "ue4m3", "ue5m3", "int8", "uint8", "mxint8", "e2m1", "e3m2", "e2m3",
    "int4", "uint4", "int2", "binary8p3se", "binary8p3sf", "binary8p4se", "binary6p3ue", "binary6p2uf",
)  # fmt: skip


def check_all_pairs(name: str, row: Format, **policies: Any) -> None:
    judge = Judge(row, **policies)
    values = np.array([as_float(x) for x in decoded(row)])
    rounding = policies.get("rounding", "nearest_even")
    exact = in_float64(name, values[:, None], values, rounding)
    a, b = pairs_of(row)
    got = getattr(fr, name)(a, b, row, **policies)
    assert_bits(got, judge(exact), np.broadcast_to(a.astype(np.uint32) << 8 | b, got.shape), row)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("fmt", ALL_PAIRS)
def test_all_pairs(fmt: str, rounding: str) -> None:
    for name, overflow in itertools.product(BINARY, ("saturate", "nonsaturating")):
        check_all_pairs(name, get_format(fmt), rounding=rounding, overflow=overflow)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("fmt", MORE_PAIRS)
def test_all_pairs_of_other_rows(fmt: str, name: str) -> None:
    row = get_format(fmt)  # significands of up to 8 bits: a quotient misses a point by 2**-18 of itself or more
    check_all_pairs(name, row, **without_nan(row))


@pytest.mark.parametrize("fmt", [*ALL_PAIRS, *MORE_PAIRS, "e8m0"])
def test_all_comparisons(fmt: str) -> None:
    row = get_format(fmt)
    values = np.array([as_float(x) for x in decoded(row)])
    a, b = values[:, None], values
    want = np.select([a < b, a == b, a > b], [0, 1, 2], 3).astype(np.uint8)
    assert_bits(fr.compare(*pairs_of(row), row), want, want)


# --- the oracle's own arithmetic ------------------------------------------------------------------


def want_of(name: str, operands: list[Array], row: Format, **policies: Any) -> Array:
    """The oracle's result for every element."""
    function = getattr(oracle, name)
    codes = [function(*map(int, each), row, **policies) for each in zip(*operands, strict=True)]
    return np.array(codes, storage(row))


def check(name: str, operands: list[Array], row: Format, **policies: Any) -> None:
    got = getattr(fr, name)(*operands, row, **policies)
    index = np.arange(len(operands[0]))
    try:
        assert_bits(got, want_of(name, operands, row, **policies), index, row)
    except AssertionError as error:
        wrong = int(np.argmax(got != want_of(name, operands, row, **policies)))
        raise AssertionError(f"{name} {row} {[hex(x[wrong]) for x in operands]} {policies}: {error}") from None


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("fmt", ["e2m1", "e3m2", "e2m3"])
def test_small_rows_against_the_oracle(fmt: str, name: str) -> None:
    row = get_format(fmt)
    a, b = (x.ravel() for x in np.broadcast_arrays(*pairs_of(row)))
    check(name, [a, b], row, nan="max")


@pytest.mark.parametrize("rounding", ROUNDINGS[1:])
@pytest.mark.parametrize("subnormals", ["keep", "flush_input", "flush_output"])
def test_e2m1_under_every_rounding_and_flush(rounding: str, subnormals: str) -> None:
    row = get_format("e2m1")
    a, b = (x.ravel() for x in np.broadcast_arrays(*pairs_of(row)))
    for name in BINARY:
        check(name, [a, b], row, nan="max", rounding=rounding, subnormals=subnormals)


def interesting_codes(row: Format) -> list[int]:
    """Zeros, ends, powers of two, Inf, NaN and their neighbours, of both signs."""
    top = row.max_magnitude
    powers = range(0, top + 2, max(1 << row.mantissa_bits, (top + 1) // 16))
    near = {c + d for c in (0, 1 << row.mantissa_bits, top, *powers, row.inf_magnitude or 0) for d in (-1, 0, 1, 2)}
    plus = {c for c in near if 0 <= c <= row.magnitude_mask}
    return sorted(plus | {c | row.sign_mask for c in plus})


def sample(row: Format, count: int, n: int) -> list[Array]:
    """n arrays of codes: random, interesting, and near cancellation (a code, and its negative a few steps off)."""
    rng = np.random.default_rng([SEED, row.bits, row.exponent_bits, n])
    special = np.array(interesting_codes(row))
    columns = [rng.integers(0, 1 << row.bits, count) for _ in range(n)]
    for column in columns:
        where = rng.random(count) < 0.35
        column[where] = rng.choice(special, where.sum())
    close = rng.random(count) < 0.3
    steps = columns[0] ^ row.sign_mask ^ rng.integers(0, 8, count)
    columns[-1][close] = steps[close]
    return [column.astype(storage(row)) for column in columns]


WIDE = ("fp16", "bf16", "tf32", "fp32", "uf11", "uf10", "binary10p4se", "binary12p5uf", "minifloat(6,9,bias=40)")
EIGHT = (*ALL_PAIRS, "e8m0", "int8", "uint8", "mxint8", "ue4m3", "binary8p1se", "binary8p3ue")


@pytest.mark.parametrize("fmt", [*EIGHT, *WIDE])
def test_sample_against_the_oracle(fmt: str) -> None:
    row = get_format(fmt)
    operands = sample(row, 400, 2)
    for name in BINARY:
        check(name, operands, row, **without_nan(row))
    a, b = operands
    want = np.array([oracle.compare(int(x), int(y), row) for x, y in zip(a, b, strict=True)], np.uint8)
    assert_bits(fr.compare(a, b, row), want, a)


POLICIES: list[dict[str, Any]] = [
    *({"rounding": rounding, "overflow": "nonsaturating"} for rounding in ROUNDINGS[1:]),
    {"subnormals": "flush_input"},
    {"subnormals": "flush_output"},
    {"overflow": "propagate", "rounding": "toward_negative"},
    {"nan": "max", "overflow": "saturate"},
]


@pytest.mark.parametrize("policies", POLICIES, ids=lambda p: " ".join(p.values()))
@pytest.mark.parametrize("fmt", ["e5m2", "fp16", "fp32", "uf11"])
def test_policies_against_the_oracle(fmt: str, policies: dict[str, Any]) -> None:
    row = get_format(fmt)
    operands = sample(row, 60, 2)
    for name in BINARY:
        check(name, operands, row, **policies)
    check("fma", sample(row, 60, 3), row, **policies)


# --- fma ------------------------------------------------------------------------------------------


def test_fma_of_every_triple_of_e2m1() -> None:
    row = get_format("e2m1")
    codes = np.arange(16, dtype=np.uint8)
    triples = [x.ravel() for x in np.meshgrid(codes, codes, codes, indexing="ij")]
    check("fma", triples, row)


@pytest.mark.parametrize("rounding", ROUNDINGS[1:])
def test_fma_of_e2m1_under_every_rounding(rounding: str) -> None:
    row = get_format("e2m1")
    check("fma", sample(row, 400, 3), row, rounding=rounding)


@pytest.mark.parametrize("fmt", [*EIGHT, *WIDE])
def test_fma_sample(fmt: str) -> None:
    row = get_format(fmt)
    check("fma", sample(row, 400, 3), row, **without_nan(row))


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2", "e4m3fnuz", "fp16", "bf16", "fp32"])
def test_fma_that_cancels(fmt: str) -> None:
    """c is the rounded product with its sign turned, a few steps off: what is left is the rounding error."""
    row = get_format(fmt)
    a, b = (x & row.magnitude_mask for x in sample(row, 300, 2))
    product = fr.multiply(a, b, row)  # where it rounds wrongly, c is another operand and no less a test
    near = product.astype(np.int64) + np.random.default_rng(SEED).integers(-1, 2, 300)
    c = (np.clip(near, 0, row.magnitude_mask) ^ row.sign_mask).astype(storage(row))
    check("fma", [a, b, c], row)
    check("fma", [a, b, c], row, rounding="toward_negative")


@pytest.mark.parametrize("rounding", ["nearest_even", "nearest_away", "toward_zero", "to_odd"])
@pytest.mark.parametrize("fmt", ["fp32", "fp16", "bf16"])
def test_fma_rounds_once_where_a_tie_is_broken_far_below(fmt: str, rounding: str) -> None:
    """A product that ends midway between two codes, and c far below: float64 would lose c and round twice."""
    row = get_format(fmt)
    p = row.mantissa_bits + 1
    rng = np.random.default_rng(SEED)
    triples = []
    while len(triples) < 60:
        x, y = (int(v) for v in rng.integers(1 << (p - 1), 1 << p, 2))
        below = (x * y).bit_length() - p
        y -= next((d for d in range(y) if x * (y - d) % (1 << below) == 1 << (below - 1)), 0)
        if y >= 1 << (p - 1) and (x * y).bit_length() - p == below:
            one = row.bias << row.mantissa_bits
            a, b = one | (x & row.mantissa_mask), one | (y & row.mantissa_mask)
            triples += [(a, b, 1), (a, b, 1 | row.sign_mask), (a | row.sign_mask, b, 1)]
    check("fma", list(np.array(triples, storage(row)).T), row, rounding=rounding)
