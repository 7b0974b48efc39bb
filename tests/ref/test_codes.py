"""Questions and steps on codes, against the exact value of every code.

Of rows of up to 8 bits every code is tried, and for nextafter every pair; of wider ones what lies around the
ends and the powers of two.  What is asked of the oracle is `decode` alone; the rest is stated here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import feather_ref as fr
from feather_ref import CLASSES, oracle
from feather_ref.formats import FORMATS, Format, get_format, minifloat, p3109_formats
from feather_ref.oracle import Exact
from helpers import Array, assert_bits, storage

NAMED = [row for row in FORMATS.values() if row.bits <= 8]
MINIFLOATS = [minifloat(5, 2), minifloat(2, 5), minifloat(4, 0), minifloat(1, 4, nan=False), minifloat(4, 3, bias=11)]
P3109 = [*p3109_formats(range(3, 6)), *(get_format(f"binary8p{p}{kind}") for p in (1, 3, 4) for kind in ("se", "uf"))]
SMALL = [*NAMED, *MINIFLOATS, *P3109]
every_small_row = pytest.mark.parametrize("row", SMALL, ids=str)
ZERO = Exact("finite", False, Fraction(0))


@lru_cache(maxsize=128)
def values_of(row: Format) -> tuple[Exact, ...]:
    """The exact value of every code."""
    return tuple(oracle.decode(code, row) for code in range(1 << row.bits))


def all_codes(row: Format) -> Array:
    return np.arange(1 << row.bits, dtype=storage(row))


def is_subnormal(x: Exact, row: Format) -> bool:
    """Below 2**(1 - bias), the first value with a hidden bit."""
    hidden = row.kind == "float" and row.has_zero
    return hidden and 0 < x.magnitude < Fraction(2) ** (1 - row.bias)


# --- classes --------------------------------------------------------------------------------------


def class_of(x: Exact, row: Format) -> str:
    if x.kind == "nan":
        return "nan"
    size = "inf" if x.kind == "inf" else "zero" if not x.magnitude else "normal"
    return ("-" if x.negative else "+") + ("subnormal" if is_subnormal(x, row) else size)


@every_small_row
def test_classes_of_every_code(row: Format) -> None:
    codes = all_codes(row)
    kinds = np.array([x.kind for x in values_of(row)])
    assert_bits(fr.isnan(codes, row).view(np.uint8), (kinds == "nan").view(np.uint8), codes)
    assert_bits(fr.isinf(codes, row).view(np.uint8), (kinds == "inf").view(np.uint8), codes)
    assert_bits(fr.isfinite(codes, row).view(np.uint8), (kinds == "finite").view(np.uint8), codes)
    got = fr.classify(codes, row)
    assert got.dtype == np.uint8
    assert [CLASSES[i] for i in got] == [class_of(x, row) for x in values_of(row)]


def test_names_of_the_classes() -> None:
    """IEEE 754-2019, 5.7.2, but one NaN; in the order of values."""
    assert CLASSES == (
        "nan", "-inf", "-normal", "-subnormal", "-zero", "+zero", "+subnormal", "+normal", "+inf",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fmt", "code", "name"),
    [
        ("e4m3", 0x80, "-zero"), ("e4m3", 0xFF, "nan"), ("e4m3", 0x07, "+subnormal"), ("e4m3", 0x88, "-normal"),
        ("e4m3fnuz", 0x80, "nan"), ("e4m3fnuz", 0x00, "+zero"), ("e5m2", 0xFC, "-inf"), ("e5m2", 0x03, "+subnormal"),
        ("e8m0", 0x00, "+normal"), ("e8m0", 0xFF, "nan"), ("int8", 0x80, "-normal"), ("int8", 0x00, "+zero"),
        ("mxint8", 0x01, "+normal"), ("nf4", 0x7, "+zero"), ("fp4_bnb", 0x8, "-zero"), ("uf11", 0x7C0, "+inf"),
        ("fp16", 0x7C01, "nan"), ("fp16", 0x83FF, "-subnormal"), ("fp16", 0x8400, "-normal"), ("bf16", 0xFF80, "-inf"),
        ("tf32", 0x003FF, "+subnormal"), ("tf32", 0x7FC00, "-inf"), ("tf32", 0x40000, "-zero"),
        ("fp32", 0x007FFFFF, "+subnormal"), ("fp32", 0x00800000, "+normal"), ("fp32", 0xFF800001, "nan"),
        ("fp32", 0x80000000, "-zero"),
    ],
)  # fmt: skip
def test_classify(fmt: str, code: int, name: str) -> None:
    assert CLASSES[fr.classify([code], fmt)[0]] == name


# --- neg and abs ----------------------------------------------------------------------------------


def with_sign(row: Format, negative: Any) -> list[int | None]:
    """For each code the one whose value has the sign negative(x); None where there is none.

    A NaN keeps its payload; a lone NaN, and a zero without a sign, stay.
    """
    values = values_of(row)
    known = {x: code for code, x in reversed(list(enumerate(values))) if x.kind != "nan"}
    signed_nan = row.signed and any(x.negative for x in values if x.kind == "nan")
    result: list[int | None] = []
    for code, x in enumerate(values):
        turned = replace(x, negative=negative(x))
        if x.kind == "nan":
            half = len(values) // 2
            result.append(code % half + half * turned.negative if signed_nan else code)
        else:
            result.append(known.get(turned, code if x == ZERO else None))
    return result


def check_signs(function: Any, row: Format, wanted: list[int | None]) -> None:
    """Codes with an answer together; each of the others is an error that names it."""
    codes = np.array([code for code, want in enumerate(wanted) if want is not None], storage(row))
    assert_bits(function(codes, row), np.array([wanted[code] for code in codes], storage(row)), codes, row)
    for code in (code for code, want in enumerate(wanted) if want is None):
        with pytest.raises(ValueError, match=rf"codes = {code:#x} has no negative in '{row.name}'"):
            function(np.uint8(code), row)


@pytest.mark.parametrize("row", [row for row in SMALL if row.signed], ids=str)
def test_neg_of_every_code(row: Format) -> None:
    check_signs(fr.neg, row, with_sign(row, lambda x: not x.negative))


@pytest.mark.parametrize("row", SMALL, ids=str)
def test_abs_of_every_code(row: Format) -> None:
    check_signs(fr.abs, row, with_sign(row, lambda x: False))


@pytest.mark.parametrize(
    ("function", "fmt", "codes", "want"),
    [
        (fr.neg, "e4m3", [0x00, 0x80, 0x38, 0x7F, 0xFF], [0x80, 0x00, 0xB8, 0xFF, 0x7F]),
        (fr.neg, "e4m3fnuz", [0x00, 0x80, 0x40, 0xFF], [0x00, 0x80, 0xC0, 0x7F]),
        (fr.neg, "binary8p3se", [0x00, 0x80, 0x7F], [0x00, 0x80, 0xFF]),
        (fr.neg, "e2m1", [0x0, 0x7, 0x8], [0x8, 0xF, 0x0]),
        (fr.neg, "int8", [0x00, 0x01, 0x7F, 0x81, 0xFF], [0x00, 0xFF, 0x81, 0x7F, 0x01]),
        (fr.neg, "int4", [0x1, 0xF, 0x9], [0xF, 0x1, 0x7]),
        (fr.neg, "nf4", [0x7, 0x0, 0xF], [0x7, 0xF, 0x0]),
        (fr.neg, "fp4_bnb", [0x0, 0x8, 0x3], [0x8, 0x0, 0xB]),
        (fr.neg, "fp16", [0x7C01, 0xFE00, 0x0000], [0xFC01, 0x7E00, 0x8000]),
        (fr.neg, "tf32", [0x1FC00, 0x40000], [0x5FC00, 0x00000]),
        (fr.neg, "fp32", [0x3F800000, 0xFFC00001], [0xBF800000, 0x7FC00001]),
        (fr.abs, "e4m3", [0x80, 0xFF, 0xB8, 0x38], [0x00, 0x7F, 0x38, 0x38]),
        (fr.abs, "e5m2fnuz", [0x80, 0xFF, 0x7F], [0x80, 0x7F, 0x7F]),
        (fr.abs, "int8", [0x81, 0xFF, 0x7F, 0x00], [0x7F, 0x01, 0x7F, 0x00]),
        (fr.abs, "nf4", [0x0, 0x7, 0x8], [0xF, 0x7, 0x8]),
        (fr.abs, "fp4_bnb", [0x8, 0xB, 0x3], [0x0, 0x3, 0x3]),
        (fr.abs, "e8m0", [0x00, 0xFF], [0x00, 0xFF]),
        (fr.abs, "bf16", [0xFF81, 0x8000], [0x7F81, 0x0000]),
        (fr.abs, "fp32", [0xFF800001, 0x80000000], [0x7F800001, 0x00000000]),
    ],
)
def test_signs(function: Any, fmt: str, codes: list[int], want: list[int]) -> None:
    assert_bits(function(codes, fmt), np.array(want, storage(get_format(fmt))), np.array(codes), fmt)


@pytest.mark.parametrize("fmt", ["uint8", "uint4", "e8m0", "ue4m3", "uf11", "binary8p3ue"])
def test_neg_of_an_unsigned_row_is_refused(fmt: str) -> None:
    for codes in ([1], 0, []):
        with pytest.raises(ValueError, match=f"neg: format '{fmt}' is unsigned"):
            fr.neg(codes, fmt)


@pytest.mark.parametrize(("fmt", "least"), [("int8", 0x80), ("mxint8", 0x80), ("int4", 0x8), ("int2", 0x2)])
def test_the_least_integer_has_no_negative(fmt: str, least: int) -> None:
    with pytest.raises(ValueError, match=rf"codes\[0, 1\] = {least:#x} has no negative in '{fmt}'"):
        fr.neg([[1, least], [least, 0]], fmt)
    with pytest.raises(ValueError, match=f"= {least:#x} has no negative in '{fmt}'"):
        fr.abs([1, least], fmt)


def test_abs_names_the_place_of_the_least_integer() -> None:
    with pytest.raises(ValueError, match=r"codes\[1, 0\] = 0x80 has no negative"):
        fr.abs([[1, 0xFF], [0x80, 1]], "int8")


@pytest.mark.parametrize("function", [fr.neg, fr.abs])
def test_a_table_value_without_its_negative(function: Any) -> None:
    with pytest.raises(ValueError, match=r"= 0x1 has no negative in 'nf4'"):
        function([0x7, 0x0, 0x1], "nf4")


# --- order ----------------------------------------------------------------------------------------


def total_order(code: int, row: Format) -> tuple[int, Fraction, int]:
    """-NaN, -Inf, finite with -0 before +0, +Inf, +NaN; payloads of NaN rise away from zero."""
    x = values_of(row)[code]
    sign = -1 if x.negative else 1
    if x.kind == "finite":
        return 0, x.signed, -1 if x.negative and not x.magnitude else 0
    outside = (1 if x.kind == "inf" else 2) * sign
    return outside, Fraction(0), sign * (code % (len(values_of(row)) // 2 or 1) if x.kind == "nan" else 0)


@every_small_row
def test_order_of_every_code(row: Format) -> None:
    codes = all_codes(row)
    keys = fr.order_key(codes, row)
    assert keys.dtype == np.int64 and keys.shape == codes.shape
    assert len(set(keys.tolist())) == len(codes)
    want = sorted(codes.tolist(), key=lambda code: total_order(code, row))
    assert sorted(codes.tolist(), key=lambda code: keys[code]) == want


@pytest.mark.parametrize(
    ("fmt", "rising"),
    [
        ("e4m3", [0xFF, 0xFE, 0xB8, 0x81, 0x80, 0x00, 0x01, 0x38, 0x7E, 0x7F]),
        ("e5m2", [0xFF, 0xFE, 0xFD, 0xFC, 0xFB, 0x80, 0x00, 0x7B, 0x7C, 0x7D, 0x7F]),
        ("e4m3fnuz", [0xFF, 0x81, 0x00, 0x01, 0x7F, 0x80]),
        ("binary8p3se", [0xFF, 0xFE, 0x81, 0x00, 0x01, 0x7E, 0x7F, 0x80]),
        ("e8m0", [0x00, 0x01, 0x7F, 0xFE, 0xFF]),
        ("ue4m3", [0x00, 0x01, 0x7E, 0x7F]),
        ("int8", [0x80, 0x81, 0xFF, 0x00, 0x01, 0x7F]),
        ("uint8", [0x00, 0x01, 0x7F, 0x80, 0xFF]),
        ("nf4", [0x0, 0x1, 0x7, 0x8, 0xF]),
        ("fp4_bnb", [0xB, 0xA, 0xD, 0xC, 0xF, 0xE, 0x9, 0x8, 0x0, 0x1, 0x6, 0x7, 0x4, 0x5, 0x2, 0x3]),
        ("fp16", [0xFFFF, 0xFC01, 0xFC00, 0xFBFF, 0x8001, 0x8000, 0x0000, 0x0001, 0x7BFF, 0x7C00, 0x7C01, 0x7E00]),
        ("tf32", [0x7FFFF, 0x7FC00, 0x40001, 0x40000, 0x00000, 0x00001, 0x3FBFF, 0x3FC00, 0x3FE00]),
        ("fp32", [0xFFFFFFFF, 0xFF800000, 0x80000001, 0x80000000, 0, 1, 0x7F7FFFFF, 0x7F800000, 0x7FC00000]),
    ],
)
def test_order(fmt: str, rising: list[int]) -> None:
    keys = fr.order_key(rising, fmt)
    assert (np.diff(keys) > 0).all()
    shuffled = np.array(rising)[::-1]
    assert shuffled[np.argsort(fr.order_key(shuffled, fmt))].tolist() == rising


@pytest.mark.parametrize("fmt", ["bf16", "fp16", "uf11", "uf10"])
def test_order_of_every_wide_code(fmt: str) -> None:
    """Ordered by key, the values of all codes never fall."""
    row = get_format(fmt)
    codes = all_codes(row)
    order = np.argsort(fr.order_key(codes, row))
    values = fr.decode(codes, row)[order]
    kept = values[~np.isnan(values)]
    assert (kept[1:] >= kept[:-1]).all()
    signs = np.signbit(kept[kept == 0])
    assert signs.tolist() == sorted(signs.tolist(), reverse=True)


# --- nextafter ------------------------------------------------------------------------------------


def neighbours(row: Format) -> tuple[Array, Array, Array]:
    """The rank of every code among the distinct values, and the codes one rank down and up.

    NaN has rank -1.  A zero reached from below is -0 where there is one, from above +0, as in C.
    """
    values = values_of(row)

    def place(x: Exact) -> tuple[int, Fraction]:
        return (0 if x.kind == "finite" else -1 if x.negative else 1), x.signed

    distinct = sorted({place(x) for x in values if x.kind != "nan"})
    rank = np.array([-1 if x.kind == "nan" else distinct.index(place(x)) for x in values])
    code_of = {(place(x), x.negative): code for code, x in reversed(list(enumerate(values))) if x.kind != "nan"}
    falling, rising = [], []
    for where in distinct:
        zero = where == (0, 0)
        plus = code_of.get((where, False), -1) if zero else code_of.get((where, where < (0, 0)), -1)
        falling.append(plus)
        rising.append(code_of.get((where, True), plus) if zero else plus)
    return rank, np.array([-1, *falling]), np.array([*rising[1:], -1])


def expected_steps(row: Format) -> Array:
    """nextafter of every pair of codes, by the definition."""
    codes = all_codes(row)
    rank, down, up = neighbours(row)
    a, b = rank[:, None], rank[None, :]
    step = np.where(b > a, up[a], np.where(b < a, down[a], codes[None, :]))
    nan = row.canonical_nan if row.canonical_nan is not None else 0
    return np.where((a < 0) | (b < 0), nan, step).astype(storage(row))


@pytest.mark.parametrize("row", [row for row in SMALL if row.name != "fp4_bnb"], ids=str)
def test_nextafter_of_every_pair(row: Format) -> None:
    codes = all_codes(row)
    pairs = np.broadcast_to(codes[:, None].astype(np.uint32) << 8 | codes, (len(codes),) * 2)
    assert_bits(fr.nextafter(codes[:, None], codes, row), expected_steps(row), pairs, row)


def test_nextafter_of_every_pair_of_a_table_with_two_zeros() -> None:
    codes = all_codes(FORMATS["fp4_bnb"])
    want = expected_steps(FORMATS["fp4_bnb"])
    assert_bits(fr.nextafter(codes[:, None], codes, "fp4_bnb"), want, np.zeros(want.shape))


@pytest.mark.parametrize(
    ("fmt", "code", "toward", "want"),
    [
        # equal values give `toward`; NumPy's half gave +0 (numpy #31472)
        ("e4m3", 0x00, 0x80, 0x80), ("e4m3", 0x80, 0x00, 0x00), ("fp16", 0x0000, 0x8000, 0x8000),
        ("fp32", 0x00000000, 0x80000000, 0x80000000), ("fp32", 0x80000000, 0x00000000, 0x00000000),
        ("e5m2", 0x7C, 0x7C, 0x7C), ("e5m2", 0xFC, 0xFC, 0xFC), ("e4m3", 0x38, 0x38, 0x38),
        # across zero to the least value of the other sign; onto zero with the sign it came from
        ("e4m3", 0x00, 0x81, 0x81), ("e4m3", 0x80, 0x01, 0x01), ("e4m3", 0x00, 0xFE, 0x81), ("e4m3", 0x80, 0xFE, 0x81),
        ("e4m3", 0x01, 0x00, 0x00), ("e4m3", 0x01, 0x80, 0x00), ("e4m3", 0x81, 0x00, 0x80), ("e4m3", 0x81, 0x80, 0x80),
        ("e4m3fnuz", 0x81, 0x01, 0x00), ("e4m3fnuz", 0x00, 0xFF, 0x81), ("binary8p3se", 0x81, 0x00, 0x00),
        # max, Inf, and where there is none
        ("e5m2", 0x7B, 0x7C, 0x7C), ("e5m2", 0x7C, 0x00, 0x7B), ("e5m2", 0xFC, 0x7C, 0xFB), ("e5m2", 0xFB, 0xFC, 0xFC),
        ("binary8p3se", 0x7E, 0x7F, 0x7F), ("e4m3", 0x7E, 0x00, 0x7D), ("e4m3", 0x7D, 0x7E, 0x7E),
        # subnormal to normal
        ("e4m3", 0x07, 0x7E, 0x08), ("e4m3", 0x88, 0x00, 0x87), ("fp32", 0x007FFFFF, 0x7F800000, 0x00800000),
        # NaN on either side: the canonical one
        ("e5m2", 0x7D, 0x00, 0x7F), ("e5m2", 0x00, 0xFF, 0x7F), ("e4m3", 0xFF, 0xFF, 0x7F),
        ("e4m3fnuz", 0x80, 0x01, 0x80), ("e8m0", 0xFF, 0x00, 0xFF),
        ("fp16", 0x7C01, 0x0000, 0x7E00), ("ue4m3", 0x7F, 0x00, 0x7F),
        # rows without a sign, without zero; integers; tables
        ("e8m0", 0x00, 0xFE, 0x01), ("e8m0", 0x01, 0x00, 0x00), ("e8m0", 0x00, 0x00, 0x00), ("ue4m3", 0x01, 0x00, 0x00),
        ("uf11", 0x7BF, 0x7C0, 0x7C0), ("int8", 0xFF, 0x7F, 0x00), ("int8", 0x00, 0x80, 0xFF),
        ("int8", 0x81, 0x80, 0x80),        ("uint8", 0x7F, 0xFF, 0x80), ("mxint8", 0x80, 0x00, 0x81),
        ("nf4", 0x6, 0xF, 0x7), ("nf4", 0x7, 0x0, 0x6),
        ("fp4_bnb", 0x0, 0x8, 0x8), ("fp4_bnb", 0x1, 0x8, 0x0), ("fp4_bnb", 0x8, 0x3, 0x1), ("fp4_bnb", 0x1, 0x3, 0x6),
        ("tf32", 0x00000, 0x7FC00, 0x40001), ("tf32", 0x3FBFF, 0x3FC00, 0x3FC00), ("bf16", 0x8001, 0x0000, 0x8000),
    ],
)  # fmt: skip
def test_nextafter(fmt: str, code: int, toward: int, want: int) -> None:
    got = fr.nextafter(code, toward, fmt)
    assert (hex(got), got.dtype) == (hex(want), storage(get_format(fmt)))


def test_nextafter_broadcasts() -> None:
    got = fr.nextafter([[0x38], [0xB8]], [0x7E, 0xFE], "e4m3")
    assert_bits(got, np.uint8([[0x39, 0x37], [0xB7, 0xB9]]), got)
    assert fr.nextafter(np.zeros((0, 2), np.uint8), 1, "e4m3").shape == (0, 2)
    with pytest.raises(ValueError, match=r"codes of shape \(2,\) and toward of shape \(3,\) do not broadcast"):
        fr.nextafter([1, 2], [1, 2, 3], "e4m3")


def wide_sample(row: Format) -> Array:
    """Zero, the ends of the subnormals and of the finite codes, powers of two, Inf, NaN, and random codes."""
    top = row.inf_magnitude or row.max_magnitude
    binades = range(0, top, max(top // 40 & ~row.mantissa_mask, 1 << row.mantissa_bits))
    near = [0, 1, 1 << row.mantissa_bits, top, *binades]
    codes = {c + d for c in near for d in (-2, -1, 0, 1, 2) if 0 <= c + d <= row.magnitude_mask}
    codes |= set(np.random.default_rng(row.bits).integers(0, row.magnitude_mask, 200).tolist())
    return np.array(sorted(codes | {c | row.sign_mask for c in codes}), storage(row))


def place(code: int, row: Format) -> tuple[int, Fraction] | None:
    """Where a code lies on the line, None for NaN."""
    x = oracle.decode(code, row)
    return None if x.kind == "nan" else ((0 if x.kind == "finite" else -1 if x.negative else 1), x.signed)


def candidates(code: int, row: Format) -> Iterator[int]:
    """A superset of the neighbours of a code: two codes on each side, and what lies around zero."""
    around = {code + d for d in (-2, -1, 0, 1, 2)} | {0, 1, row.sign_mask, row.sign_mask | 1}
    yield from (c for c in around if 0 <= c <= row.code_mask and place(c, row) is not None)


@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("fmt", ["fp16", "bf16", "tf32", "fp32", "uf11", "binary12p5se", "binary12p5uf"])
def test_nextafter_of_wide_rows(fmt: str, rising: bool) -> None:
    """The nearest value beyond, among the codes around; at the end of the line the code itself."""
    row = get_format(fmt)
    codes = wide_sample(row)
    top = row.inf_magnitude or row.max_magnitude
    goal = top if rising else top | row.sign_mask if row.signed else 0
    pick = min if rising else max
    for code, got in zip(codes.tolist(), fr.nextafter(codes, goal, row).tolist(), strict=True):
        here = place(code, row)
        if here is None:
            assert got == row.canonical_nan
            continue
        places = {place(c, row) for c in candidates(code, row)}
        beyond = [there for there in places if there is not None and (there > here if rising else there < here)]
        assert place(got, row) == (pick(beyond) if beyond else here), hex(code)
        if beyond and pick(beyond) == (0, 0):
            assert got == (row.sign_mask if rising and row.has_signed_zero else 0)


NUMPY_ROWS = [("fp16", np.float16, np.uint16), ("fp32", np.float32, np.uint32)]


@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize(("fmt", "dtype", "word"), NUMPY_ROWS)
def test_nextafter_as_numpy_does_it(fmt: str, dtype: type, word: type, rising: bool) -> None:
    """Toward Inf, where no two operands are zeros of unlike sign (there NumPy's half is wrong, #31472)."""
    row = get_format(fmt)
    codes = np.arange(1 << 16, dtype=word) if row.bits == 16 else wide_sample(row).astype(word)
    goal = dtype(np.inf if rising else -np.inf)
    with np.errstate(all="ignore"):
        want = np.nextafter(codes.view(dtype), goal)
    want_codes = np.where(np.isnan(want), row.canonical_nan, want.view(word)).astype(word)
    assert_bits(fr.nextafter(codes, goal.view(word), row), want_codes, codes, row)


# --- ulp ------------------------------------------------------------------------------------------


def floor_log2(x: Fraction) -> int:
    guess = x.numerator.bit_length() - x.denominator.bit_length()
    return guess if Fraction(2) ** guess <= x else guess - 1


def ulp_of(x: Exact, row: Format) -> float:
    """2**(exponent - mantissa_bits); subnormals and zero have the exponent of the first binade."""
    if x.kind != "finite":
        return np.nan
    if row.kind == "integer":
        return 2.0**-row.bias
    below = x.magnitude < Fraction(2) ** (1 - row.bias) and row.has_zero
    return 2.0 ** ((1 - row.bias if below else floor_log2(x.magnitude)) - row.mantissa_bits)


@pytest.mark.parametrize("row", [row for row in SMALL if row.kind != "table"], ids=str)
def test_ulp_of_every_code(row: Format) -> None:
    codes = all_codes(row)
    want = np.array([ulp_of(x, row) for x in values_of(row)])
    got = fr.ulp(codes, row)
    assert got.dtype == np.float64
    assert np.array_equal(got, want, equal_nan=True)


@pytest.mark.parametrize("row", [row for row in SMALL if row.kind == "float"], ids=str)
def test_ulp_is_the_way_to_the_next_greater_magnitude(row: Format) -> None:
    values = values_of(row)
    for code in range(row.max_magnitude):
        assert Fraction(float(fr.ulp(code, row))) == values[code + 1].magnitude - values[code].magnitude


@pytest.mark.parametrize(
    ("fmt", "code", "want"),
    [
        ("e4m3", 0x7E, 32.0), ("e4m3", 0xFE, 32.0), ("e4m3", 0x00, 2.0**-9), ("e4m3", 0x80, 2.0**-9),
        ("e4m3", 0x08, 2.0**-9), ("e4m3", 0x0F, 2.0**-9), ("e4m3", 0x10, 2.0**-8), ("e5m2", 0x7B, 8192.0),
        ("e8m0", 0x00, 2.0**-127), ("e8m0", 0xFE, 2.0**127), ("int8", 0x80, 1.0), ("mxint8", 0x00, 2.0**-6),
        ("tf32", 0x1FC00, 2.0**-10), ("tf32", 0x00001, 2.0**-136), ("bf16", 0x7F7F, 2.0**120),
        ("fp32", 0x00000001, 2.0**-149), ("fp32", 0x7F7FFFFF, 2.0**104), ("uf11", 0x7BF, 512.0),
    ],
)  # fmt: skip
def test_ulp(fmt: str, code: int, want: float) -> None:
    assert fr.ulp([code], fmt).tolist() == [want]


@pytest.mark.parametrize(
    ("fmt", "code"), [("e4m3", 0xFF), ("e5m2", 0x7C), ("e5m2", 0xFC), ("e8m0", 0xFF), ("fp16", 0x7C01)]
)
def test_ulp_of_inf_and_nan_is_nan(fmt: str, code: int) -> None:
    assert np.isnan(fr.ulp(code, fmt))


@pytest.mark.parametrize(("fmt", "dtype", "word"), NUMPY_ROWS)
def test_ulp_as_numpy_does_it(fmt: str, dtype: type, word: type) -> None:
    """np.spacing of what is not negative; below zero its sign is the number's."""
    row = get_format(fmt)
    codes = np.arange(1 << 15, dtype=word) if row.bits == 16 else wide_sample(row).astype(word)
    codes = codes[codes < row.max_magnitude]  # NumPy's spacing of the greatest is Inf or not, by version
    with np.errstate(all="ignore"):
        want = np.spacing(codes.view(dtype)).astype(np.float64)
    assert np.array_equal(fr.ulp(codes, row), want)


def test_ulp_refuses_tables_and_what_float64_has_not() -> None:
    for fmt in ("nf4", "fp4_bnb"):
        with pytest.raises(ValueError, match=f"ulp: the table format '{fmt}' has no last place"):
            fr.ulp([0], fmt)
    tiny, huge = minifloat(3, 2, bias=1100), minifloat(3, 2, bias=-1100)
    with pytest.raises(ValueError, match=r"codes\[1\] = 0x1 has an ulp beyond float64 in 'minifloat\(3,2,bias=1100\)'"):
        fr.ulp([0x1F, 0x01], tiny)  # NaN has none, and is fine
    with pytest.raises(ValueError, match="codes = 0x0 has an ulp beyond float64"):
        fr.ulp(0, huge)
    assert fr.ulp(0, minifloat(3, 2, bias=1073)) == 2.0**-1074


# --- shapes, dtypes, refusals ---------------------------------------------------------------------

ONE_OPERAND = {
    "isnan": bool, "isinf": bool, "isfinite": bool, "classify": np.uint8, "neg": np.uint8, "abs": np.uint8,
    "order_key": np.int64, "ulp": np.float64,
}  # fmt: skip
one_operand = pytest.mark.parametrize("name", ONE_OPERAND)


@one_operand
def test_shapes_and_dtypes(name: str) -> None:
    function = getattr(fr, name)
    codes = np.arange(256, dtype=np.uint8)
    want = function(codes, "e4m3")
    assert want.dtype == ONE_OPERAND[name]
    for other in (codes.tolist(), codes.astype(np.int64), codes.astype(">u2"), np.repeat(codes, 2)[::2]):
        assert np.array_equal(function(other, "e4m3"), want, equal_nan=name == "ulp")
    square = function(codes.reshape(16, 16).T, "e4m3")
    assert np.array_equal(square, want.reshape(16, 16).T, equal_nan=name == "ulp")
    assert np.shape(function(0x38, "e4m3")) == () and function(0x38, "e4m3") == want[0x38]
    assert np.shape(function([], "e4m3")) == (0,)
    assert np.shape(function(np.zeros((2, 0), np.uint8), "e4m3")) == (2, 0)
    assert (codes == np.arange(256)).all()  # the input is not written


SCALARS = ["e4m3", "e4m3fnuz", "e8m0", "ue4m3", "nf4", "fp4_bnb", "int8", "uint8", "mxint8", "int4"]


@pytest.mark.parametrize("fmt", SCALARS)
def test_a_single_code_is_answered_as_in_an_array(fmt: str) -> None:
    """NumPy warns of a wrapped scalar where it wraps arrays in silence."""
    row = get_format(fmt)
    codes = all_codes(row)
    for name in ONE_OPERAND:
        function = getattr(fr, name)
        for code in range(len(codes)):
            try:
                want = function(codes[code : code + 1], row)[0]
            except ValueError:
                continue  # tested above
            got = function(code, row)
            assert np.array_equal(got, want, equal_nan=name == "ulp"), (name, hex(code))
    for code in range(len(codes)):
        assert fr.nextafter(code, codes[1], row) == fr.nextafter(codes, codes[1], row)[code]


@pytest.mark.parametrize("name", ["neg", "abs"])
@pytest.mark.parametrize(("fmt", "dtype"), [("e2m1", np.uint8), ("fp16", np.uint16), ("tf32", np.uint32)])
def test_codes_come_back_in_the_dtype_of_codes(name: str, fmt: str, dtype: type) -> None:
    assert getattr(fr, name)(np.array([1], np.int64), fmt).dtype == dtype


@one_operand
def test_codes_out_of_range_are_refused(name: str) -> None:
    function = getattr(fr, name)
    with pytest.raises(ValueError, match=r"codes\[0, 1\] = 0x10 .*'e2m1'"):
        function([[15, 16]], "e2m1")
    with pytest.raises(ValueError, match=r"codes\[1\] = -0x1 "):
        function([0, -1], "e4m3")
    with pytest.raises(TypeError, match="codes must be integers, got dtype float64"):
        function([1.0], "e4m3")
    with pytest.raises(ValueError, match="unknown format"):
        function([0], "e9m9")


def test_nextafter_names_the_operand_that_is_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"codes\[0\] = 0x10 .*'e2m1'"):
        fr.nextafter([16], [0], "e2m1")
    with pytest.raises(ValueError, match=r"toward = 0x10 .*'e2m1'"):
        fr.nextafter([0], 16, "e2m1")
    with pytest.raises(TypeError, match="toward must be integers"):
        fr.nextafter([0], [1.5], "e2m1")
