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

import numpy as np
import pytest

import arith_table as table
import feather_ref as fr
from feather_ref import oracle
from feather_ref.formats import FORMATS, Format, get_format, minifloat
from helpers import ROUNDINGS, Array, assert_bits, storage, without_nan
from overflow_table import ROUNDING_LETTERS

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


@lru_cache(maxsize=8)
def judge_of(row: Format, policies: tuple[tuple[str, Any], ...]) -> Judge:
    """The judge, made once for all operations."""
    return Judge(row, **dict(policies))


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
    judge = judge_of(row, tuple(policies.items()))
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
    p, rng = row.mantissa_bits + 1, np.random.default_rng(SEED)
    one = row.bias << row.mantissa_bits
    triples = []
    while len(triples) < 60:
        # odd factors of p - s and s + 1 bits, or one less: the product ends s + t bits above its last place
        s = int(rng.integers(1, p - 1))
        t = p - 1 - s - int(rng.integers(0, 2))
        x, y = (int(rng.integers(1 << (p - k - 1), 1 << (p - k)) | 1) << k for k in (s, t))
        if (x * y).bit_length() - p == s + t + 1:  # so that the last one is the bit below the last place
            a, b = (one | (v & row.mantissa_mask) for v in (x, y))
            triples += [(a, b, 1), (a, b, 1 | row.sign_mask), (a | row.sign_mask, b, 1)]
    check("fma", list(np.array(triples, storage(row)).T), row, rounding=rounding)


def numpy_codes(result: Array, row: Format) -> Array:
    """The bits of a NumPy result, every NaN the canonical one."""
    return np.where(np.isnan(result), row.canonical_nan, result.view(storage(row))).astype(storage(row))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(("fmt", "dtype"), [("fp16", np.float16), ("fp32", np.float32)])
def test_against_the_processor(fmt: str, dtype: type, name: str) -> None:
    """NumPy's own float16 (through float32, whose 24 bits are at least 2 * 11 + 2) and float32 round correctly."""
    row = get_format(fmt)
    a, b = sample(row, 20_000, 2)
    with np.errstate(all="ignore"):
        want = NUMPY[name](a.view(dtype), b.view(dtype))
    assert_bits(getattr(fr, name)(a, b, row), numpy_codes(want, row), a, row)


# --- exact quotients ------------------------------------------------------------------------------


def quotient(x: Any, y: Any, fmt: str, **policies: Any) -> int:
    """num / den as a Fraction, then one encode; the special cases by hand (IEEE 754, 7.2 and 7.3)."""
    a, b = oracle.exact(x), oracle.exact(y)
    negative = a.negative != b.negative
    zero_a, zero_b = (v.kind == "finite" and v.magnitude == 0 for v in (a, b))
    if "nan" in (a.kind, b.kind) or (a.kind == b.kind == "inf") or (zero_a and zero_b):
        return oracle.encode(oracle.Exact("nan", False, Fraction(0)), fmt, **policies)
    if a.kind == "inf" or zero_b:
        return oracle.encode(oracle.Exact("inf", negative, Fraction(0)), fmt, **policies)
    size = Fraction(0) if b.kind == "inf" else a.magnitude / b.magnitude
    return oracle.encode(oracle.Exact("finite", negative, size), fmt, **policies)


def numbers(dtype: str, count: int, seed: int) -> Array:
    """Random bit patterns (so Inf, NaN, subnormals too) and numbers near 1."""
    rng = np.random.default_rng([SEED, seed])
    width = np.dtype(dtype).itemsize
    patterns = rng.integers(0, 256, count * width, np.uint8).view(dtype)
    if np.dtype(dtype).kind != "f":
        return patterns
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -3.0], dtype)
    near = rng.normal(size=count).astype(dtype)
    return np.choose(rng.integers(0, 3, count), [patterns, near, rng.choice(special, count)])


@pytest.mark.parametrize("fmt", ["e4m3", "e2m1", "fp16", "fp32", "int8", "ue4m3"])
@pytest.mark.parametrize("den", ["<f2", "<f4"])
@pytest.mark.parametrize("num", ["<f2", "<f4", "<f8", ">f8", "i1", "<u2", "<i4", "<u4"])
def test_encode_quotient(num: str, den: str, fmt: str) -> None:
    x, y = numbers(num, 60, 1), numbers(den, 60, 2)
    policies = without_nan(get_format(fmt))
    want = np.array([quotient(a, b, fmt, **policies) for a, b in zip(x, y, strict=True)], storage(get_format(fmt)))
    assert_bits(fr.encode_quotient(x, y, fmt, **policies), want, x, fmt)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_encode_quotient_under_every_rounding(rounding: str) -> None:
    x, y = numbers("<f4", 200, 3), numbers("<f4", 200, 4)
    for policies in ({"overflow": "nonsaturating"}, {"subnormals": "flush_output"}):
        want = [quotient(a, b, "e5m2", rounding=rounding, **policies) for a, b in zip(x, y, strict=True)]
        assert_bits(fr.encode_quotient(x, y, "e5m2", rounding=rounding, **policies), np.array(want, np.uint8), x)


def test_encode_quotient_flushes_its_inputs_as_what_they_are() -> None:
    """A float32 subnormal is one, the same number in float64 is not."""
    tiny = np.float32(2.0**-140)
    assert fr.encode_quotient(tiny, tiny, "fp32", subnormals="flush_input") == 0x7FC00000  # 0 / 0
    assert fr.encode_quotient(np.float64(tiny), np.float32(1), "fp32", subnormals="flush_input") == 1 << 9
    assert fr.encode_quotient(np.float32(1), tiny, "fp32", subnormals="flush_input") == 0x7F800000


def test_encode_quotient_is_not_the_code_of_a_rounded_quotient() -> None:
    """x / s a little above the tie 17/16 of e4m3: float32 divides onto the tie, which goes to the even 1."""
    s = np.float32(1.5)
    ties = {}
    for k in range(1, 4000):  # denominators in [1.5, 1.5 + 4000 / 2**23)
        s = np.nextafter(s, np.float32(2))
        x = np.nextafter(np.float32(1.0625 * float(s)), np.float32(2))
        if Fraction(float(x)) / Fraction(float(s)) > Fraction(17, 16) and x / s == np.float32(1.0625):
            ties[k] = (x, s)
    assert len(ties) > 10
    x, s = (np.array(v, np.float32) for v in zip(*ties.values(), strict=True))
    assert (fr.encode(x / s, "e4m3") == 0x38).all()
    assert (fr.encode_quotient(x, s, "e4m3") == 0x39).all()


@pytest.mark.parametrize(
    ("num", "den", "name", "dtype"),
    [
        (np.int64([1]), np.float32([1]), "x", "int64"),
        (np.longdouble([1]), np.float32([1]), "x", "longdouble"),
        (np.float32([1]), np.float64([1]), "scale", "float64"),
        (np.float32([1]), np.int64([1]), "scale", "int64"),
    ],
)
def test_encode_quotient_refuses_what_would_round_twice(num: Array, den: Array, name: str, dtype: str) -> None:
    dtype = str(np.dtype(dtype))  # longdouble is float128 here, or float64 on other machines
    if dtype == "float64" and name == "x":
        pytest.skip("long double is double here")
    with pytest.raises(TypeError, match=rf"{name}: dtype {dtype}"):
        fr.encode_quotient(num, den, "e4m3")


@pytest.mark.parametrize("bad", ["1", 1j, None, np.array(["a"])])
def test_encode_quotient_refuses_what_is_no_number(bad: object) -> None:
    with pytest.raises(TypeError):
        fr.encode_quotient(bad, np.float32(1), "e4m3")


def test_encode_quotient_broadcasts() -> None:
    """A scale for each row."""
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    scale = np.float32([[1], [2]])
    got = fr.encode_quotient(x, scale, "e4m3")
    assert_bits(got, np.uint8([[0x38, 0x40, 0x44], [0x40, 0x42, 0x44]]), x)  # 1 2 3, 2 2.5 3
    assert fr.encode_quotient(x[:0], scale[:1], "e4m3").shape == (0, 3)
    assert fr.encode_quotient(1.0, np.float32(4), "fp16") == 0x3400


# --- shapes and refusals --------------------------------------------------------------------------


def test_shapes_broadcast() -> None:
    a = np.array([[0x38], [0x40], [0xC0]], np.uint8)  # 1, 2, -2
    b = np.array([0x38, 0x40], np.uint8)  # 1, 2
    assert_bits(fr.add(a, b, "e4m3"), np.uint8([[0x40, 0x44], [0x44, 0x48], [0xB8, 0x00]]), np.zeros((3, 2)))
    assert_bits(fr.subtract(0x38, b, "e4m3"), np.uint8([0x00, 0xB8]), b)
    assert_bits(fr.compare(a, b, "e4m3"), np.uint8([[1, 0], [2, 1], [0, 0]]), np.zeros((3, 2)))
    assert fr.fma(a, b, 0x00, "e4m3").shape == (3, 2)
    assert fr.fma(0x38, 0x38, np.zeros((2, 1, 4), int), "e4m3").shape == (2, 1, 4)


def test_scalars_lists_and_empty_arrays() -> None:
    assert fr.add(0x38, 0x38, "e4m3").shape == ()
    assert fr.add([0x38], [0x38], "e4m3").tolist() == [0x40]
    assert fr.multiply([], [], "e4m3").shape == (0,)
    assert fr.compare(np.zeros((0, 3), np.uint8), 0, "e4m3").shape == (0, 3)
    assert fr.add([0x3C00], [0x3C00], "fp16").dtype == np.uint16
    assert fr.add([0x1FC00], [0x1FC00], "tf32").dtype == np.uint32


def test_layouts_and_dtypes_of_codes() -> None:
    """Strided, reversed, transposed, big-endian and wide integer codes are the same codes."""
    row = get_format("fp16")
    a, b = sample(row, 600, 2)
    want = fr.add(a, b, row)
    doubled = np.repeat(a, 2)[::2]
    assert_bits(fr.add(doubled, b[::-1][::-1], row), want, a)
    assert_bits(fr.add(a.astype(">u2"), b.astype(np.int64), row), want, a)
    square = fr.add(a.reshape(20, 30).T, b.reshape(20, 30).T, row)
    assert_bits(square, want.reshape(20, 30).T.copy(), square)
    assert_bits(fr.add(a[:, None], b, row)[7], fr.add(a[7], b, row), b)


def test_operands_are_not_written() -> None:
    a, b = (np.arange(256, dtype=np.uint8) for _ in range(2))
    a.flags.writeable = b.flags.writeable = False
    fr.fma(a, b, a, "e4m3")
    fr.subtract(a, a, "e5m2", subnormals="flush_input")
    assert (a == np.arange(256)).all()


@pytest.mark.parametrize("name", [*BINARY, "compare"])
def test_shapes_that_do_not_fit(name: str) -> None:
    with pytest.raises(ValueError, match=r"shapes do not broadcast: a \(2,\), b \(3,\)"):
        getattr(fr, name)([1, 2], [1, 2, 3], "e4m3")
    with pytest.raises(ValueError, match=r"a \(\), b \(2,\), c \(3,\)"):
        fr.fma(1, [1, 2], [1, 2, 3], "e4m3")


@pytest.mark.parametrize("name", [*BINARY, "compare"])
def test_codes_out_of_range(name: str) -> None:
    function = getattr(fr, name)
    with pytest.raises(ValueError, match=r"b\[1, 0\] = 0x100 .*'e4m3'"):
        function([[1], [2]], [[0], [256]], "e4m3")
    with pytest.raises(ValueError, match=r"a\[1\] = -0x1 "):
        function([0, -1], [0, 0], "e4m3")
    with pytest.raises(TypeError, match="a must be integers, got dtype float64"):
        function([1.0], [0], "e4m3")
    with pytest.raises(ValueError, match=r"c = 0x10 .*'e2m1'"):
        fr.fma(1, 1, 16, "e2m1")


@pytest.mark.parametrize("mode", ["stochastic_a", "stochastic_b", "stochastic_c"])
def test_stochastic_rounding_is_refused(mode: Any) -> None:
    with pytest.raises(ValueError, match=f"rounding='{mode}': arithmetic on codes is deterministic"):
        fr.add(0x38, 0x38, "e4m3", rounding=mode)
    with pytest.raises(ValueError, match=f"rounding='{mode}'"):
        fr.encode_quotient(1.0, np.float32(2), "e4m3", rounding=mode)


def wide_row(kind: str, precision: int) -> Format:
    if kind == "integer":
        return Format("wide", precision, kind="integer")
    return minifloat(6, precision - 1)


@pytest.mark.parametrize("kind", ["integer", "float"])
def test_more_than_24_bits_are_refused_and_24_are_not(kind: str) -> None:
    with pytest.raises(ValueError, match="up to 24 significant bits"):
        fr.add(0, 0, wide_row(kind, 25))
    row = wide_row(kind, 24)
    for name in BINARY:
        check(name, sample(row, 200, 2), row, **without_nan(row))
    check("fma", sample(row, 200, 3), row, **without_nan(row))


@pytest.mark.parametrize("fmt", ["nf4", "fp4_bnb"])
def test_tables_are_refused_but_for_compare(fmt: str) -> None:
    for name in BINARY:
        with pytest.raises(ValueError, match="arithmetic needs a float or integer format"):
            getattr(fr, name)(0, 0, fmt)
    codes = np.arange(16, dtype=np.uint8)
    want = [[oracle.compare(a, b, fmt) for b in range(16)] for a in range(16)]
    assert_bits(fr.compare(codes[:, None], codes, fmt), np.array(want, np.uint8), np.zeros((16, 16)))


def test_an_error_in_the_result_names_its_place() -> None:
    """Also beyond the first chunk, and before anything is written or returned."""
    zeros = np.zeros((200, 300), np.uint8)
    ones = np.full((200, 300), 0x2, np.uint8)
    ones[199, 7] = 0
    with pytest.raises(ValueError, match=r"the result\[199, 7\] is NaN, which is an error for 'e2m1'"):
        fr.divide(zeros, ones, "e2m1")
    with pytest.raises(ValueError, match=r"the result\[1\] is negative, which is an error for 'uint8'"):
        fr.subtract([5, 5, 5], [5, 6, 7], "uint8", negative="error")
    with pytest.raises(ValueError, match=r"is NaN, which is an error for 'int8'"):
        fr.encode_quotient(0.0, np.float32(0), "int8")


def test_policies_are_checked() -> None:
    with pytest.raises(ValueError, match="overflow must be one of"):
        fr.add(0, 0, "e4m3", overflow="wrap")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="neither Inf nor NaN"):
        fr.multiply(0, 0, "e2m1", overflow="ocp_table3")
    with pytest.raises(ValueError, match="unknown format"):
        fr.compare(0, 0, "e9m9")


def test_no_named_row_is_forgotten() -> None:
    """Every row of FORMATS is computed with, or refused as a table, in this file."""
    tried = {*ALL_PAIRS, *MORE_PAIRS, *EIGHT, *WIDE}
    assert set(FORMATS) - tried == {"nf4", "fp4_bnb"}
