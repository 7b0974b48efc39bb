"""Laws that hold for every row: round trips, order, signs, half a gap; rows drawn at random, judged by the oracle."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feather_ref import oracle
from feather_ref.codec import code_dtype, convert, decode, encode, quantize
from feather_ref.formats import FORMATS, Format, get_format, p3109_formats
from helpers import FP64, ROUNDINGS, assert_bits, exacts, expected, roundings_of, storage, without_nan

NAMED = list(FORMATS.values())
SMALL = [*(row for row in NAMED if row.bits <= 11), *p3109_formats(range(5, 8))]
rows = st.sampled_from([*NAMED, *p3109_formats(range(3, 9)), get_format("binary12p5uf"), get_format("binary16p11se")])


def numbers(dtype: Any) -> st.SearchStrategy[np.ndarray]:
    """Arrays of any bits of a float dtype: all exponents alike, so subnormals, Inf and NaN too."""
    width = np.dtype(dtype).itemsize
    bits = st.lists(st.integers(0, (1 << 8 * width) - 1), min_size=1, max_size=40)
    return bits.map(lambda patterns: np.array(patterns, f"u{width}").view(dtype))


def near(row: Format) -> st.SearchStrategy[np.ndarray]:
    """float64 numbers of the size of the row's values."""
    top = 2.0 ** min(float(np.log2(abs(row.max))) + 2, 1000)
    sizes = st.lists(st.floats(-top, top, allow_nan=False), min_size=1, max_size=40)
    return sizes.map(lambda x: np.array(x, np.float64))


@st.composite
def random_rows(draw: st.DrawFn) -> Format:
    """Exponents of 1..6 bits, mantissas of 0..6, any coding of Inf and NaN that a row allows."""
    e, m, signed = draw(st.integers(1, 6)), draw(st.integers(0, 6)), draw(st.booleans())
    nan = draw(st.sampled_from(["none", "all_ones", *(["negative_zero"] if signed else []), *(["ieee"] if m else [])]))
    inf = draw(st.sampled_from(["none", "top", *(["ieee"] if nan == "ieee" else [])]))
    if nan == "ieee" and inf == "top":
        inf = "ieee"
    has_zero = draw(st.booleans()) or nan == "negative_zero" or signed
    try:
        return Format(
            "drawn", signed + e + m, exponent_bits=e, mantissa_bits=m, bias=draw(st.integers(-140, 170)),
            signed=signed, has_zero=has_zero, inf=inf, nan=nan, negative="nan" if nan != "none" else "zero",
            overflow=draw(st.sampled_from(["saturate", "nonsaturating", "propagate"])),
        )  # fmt: skip
    except ValueError:  # no finite value but the first
        return draw(random_rows())


# --- rows drawn at random ---------------------------------------------------------------------


def exact_inputs(row: Format, codes: list[int], parts: list[Fraction]) -> np.ndarray:
    """Fractions of the way from magnitudes to the next, both signs."""
    x = [row.exact(c) + d * (row.exact(c + 1) - row.exact(c)) for c in codes for d in parts]
    return np.array([float(v) for v in x] + [-float(v) for v in x], np.float64)


PARTS = [Fraction(0), Fraction(1, 2), Fraction(1, 2) - Fraction(1, 2**30), Fraction(1, 2) + Fraction(1, 2**30)]


@settings(max_examples=150)
@given(row=random_rows(), data=st.data())
def test_random_rows(row: Format, data: st.DataObject) -> None:
    """Codes to values and values to codes, every policy but "error", by the oracle."""
    code = st.integers(0, row.max_magnitude + 1)
    chosen = [0, row.max_magnitude, *data.draw(st.lists(code, min_size=4, max_size=8))]
    x = exact_inputs(row, chosen, PARTS)
    x = np.concatenate([x, [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-300, -5e-324]])
    policies = {
        "rounding": data.draw(st.sampled_from(ROUNDINGS)),
        "overflow": data.draw(st.sampled_from([None, "saturate", "nonsaturating", "propagate"])),
        "nan": data.draw(st.sampled_from(["max", "zero", row.code_mask, *(["canonical"] if row.has_nan else [])])),
        "subnormals": data.draw(st.sampled_from(["keep", "flush_output", "flush_input"])),
    }
    for dtype, source in ((np.float64, FP64), (np.float32, "fp32"), (np.float16, "fp16")):
        with np.errstate(all="ignore"):
            narrow = x.astype(dtype)
        want = expected(exacts(narrow), row, source=source, **policies)
        assert_bits(encode(narrow, row, **policies), want, narrow, row)
    for c in data.draw(st.lists(st.integers(0, row.code_mask), min_size=1, max_size=20)):
        value, exact = oracle.exact(decode(c, row, np.float64)[()]), oracle.decode(c, row)
        assert (value.kind, value.magnitude) == (exact.kind, exact.magnitude)


# --- round trips ------------------------------------------------------------------------------


def numbers_of(row: Format) -> np.ndarray:
    """The codes that are not NaN."""
    codes = np.arange(1 << row.bits) if row.bits <= 12 else np.random.default_rng(0).integers(0, 1 << row.bits, 3000)
    return np.array([c for c in codes if not row.is_nan(int(c))], code_dtype(row))


@pytest.mark.parametrize("row", [*NAMED, *p3109_formats(range(3, 8))], ids=str)
def test_values_come_back_to_their_codes(row: Format) -> None:
    """Under every rounding; Inf stays where overflow does not clamp it."""
    codes = numbers_of(row)
    values = decode(codes, row)
    for rounding in roundings_of(row):
        policies = {"rounding": rounding, "overflow": "propagate", **without_nan(row)}
        assert_bits(encode(values, row, **policies), codes, codes, row)
        assert_bits(convert(codes, row, row, **policies), codes, codes, row)


@given(row=rows, data=st.data())
def test_quantize_is_idempotent(row: Format, data: st.DataObject) -> None:
    x = data.draw(st.one_of(numbers(np.float32), near(row))).astype(np.float64)
    policies: dict[str, Any] = {"rounding": data.draw(st.sampled_from(roundings_of(row))), "overflow": "propagate"}
    policies |= without_nan(row) | ({} if row.signed else {"negative": "zero"})
    once = quantize(x, row, **policies)
    assert_bits(quantize(once, row, **policies), once, x)
    assert_bits(once, decode(encode(x, row, **policies), row, np.float64), x)


# --- order and sign ---------------------------------------------------------------------------


@given(row=rows, data=st.data())
def test_order_is_kept(row: Format, data: st.DataObject) -> None:
    """x <= y gives values in the same order; by one rounding for all."""
    x = np.sort(data.draw(st.one_of(near(row), numbers(np.float32))).astype(np.float64))
    x = x[~np.isnan(x)]
    policies: dict[str, Any] = {"rounding": data.draw(st.sampled_from(roundings_of(row))), "overflow": "saturate"}
    policies |= {} if row.signed else {"negative": "zero"}
    values = quantize(x, row, **policies)
    assert (values[1:] >= values[:-1]).all()


@given(row=rows.filter(lambda row: row.kind == "float" and row.signed), data=st.data())
def test_signs_are_symmetric(row: Format, data: st.DataObject) -> None:
    """encode(-x) is encode(x) with the other sign; directed roundings change places."""
    x = data.draw(st.one_of(near(row), numbers(np.float32))).astype(np.float64)
    x = x[~np.isnan(x)]
    rounding = data.draw(st.sampled_from(ROUNDINGS))
    mirror = {"toward_positive": "toward_negative", "toward_negative": "toward_positive"}.get(rounding, rounding)
    plus, minus = encode(x, row, rounding=rounding).astype(int), encode(-x, row, rounding=mirror).astype(int)
    sign, top = row.sign_mask, row.magnitude_mask
    only_one = (plus & top == 0) if row.nan == "negative_zero" else np.zeros(len(x), bool)
    assert (minus == np.where(only_one, plus, plus ^ sign)).all()


# --- the size of the error --------------------------------------------------------------------


def gap_around(row: Format, x: Fraction) -> tuple[Fraction, Fraction]:
    """The values of the row at or below, and above, a positive number; by bisection of the oracle's values."""
    low, high = 0, row.max_magnitude
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if oracle.decode(middle, row).magnitude <= x else (low, middle)
    return oracle.decode(low, row).magnitude, oracle.decode(high, row).magnitude


@given(row=rows.filter(lambda row: row.kind == "float"), data=st.data())
def test_error_is_at_most_half_a_gap(row: Format, data: st.DataObject) -> None:
    """Exactly, in Fractions: half for the nearest modes, less than one for the others, and on the side they say."""
    x = np.abs(data.draw(near(row)))
    inside = [v for v in x if row.exact(0) <= Fraction(float(v)) <= row.exact(row.max_magnitude)]
    for rounding in ROUNDINGS:
        values = quantize(np.array(inside, np.float64), row, rounding=rounding, overflow="saturate")
        for v, q in zip(inside, values, strict=True):
            exact, rounded = Fraction(float(v)), Fraction(float(q))
            low, high = gap_around(row, exact)
            assert rounded in (low, high)
            if rounding.startswith("nearest"):
                assert abs(rounded - exact) <= (high - low) / 2
            if rounding in ("toward_zero", "toward_negative"):
                assert rounded <= exact
            if rounding == "toward_positive":
                assert rounded >= exact


# --- convert ----------------------------------------------------------------------------------


@settings(max_examples=60)
@given(src=st.sampled_from(SMALL), dst=rows, data=st.data())
def test_convert_is_decode_then_encode(src: Format, dst: Format, data: st.DataObject) -> None:
    """Where decode is exact, which float64 is for all of these; and both are what the oracle says."""
    codes = np.array(data.draw(st.lists(st.integers(0, src.code_mask), min_size=1, max_size=60)), storage(src))
    rounding = data.draw(st.sampled_from(roundings_of(dst)))
    policies: dict[str, Any] = {"rounding": rounding, **without_nan(dst)}
    got = convert(codes, src, dst, **policies)
    assert_bits(got, encode(decode(codes, src, np.float64), dst, **policies), codes, dst)
    assert_bits(got, expected((oracle.decode(int(c), src) for c in codes), dst, **policies), codes, dst)


@pytest.mark.parametrize("rounding", ["stochastic_a", "stochastic_b", "stochastic_c"])
@given(data=st.data())
@settings(max_examples=30)
def test_stochastic_operands_broadcast_and_agree(rounding: str, data: st.DataObject) -> None:
    """encode, convert and quantize take the same operand to the same neighbour, which the oracle names."""
    n_bits = data.draw(st.integers(1, 32))
    codes = np.array(data.draw(st.lists(st.integers(0, 0x7BFF), min_size=3, max_size=3)), np.uint16)
    operands = np.array(data.draw(st.lists(st.integers(0, (1 << n_bits) - 1), min_size=2, max_size=2)))[:, None]
    policies: dict[str, Any] = {"rounding": rounding, "random_bits": operands, "n_bits": n_bits}
    halves = np.broadcast_to(codes.view(np.float16), (2, 3))
    exact = [oracle.decode(int(c), "fp16") for c in codes]
    want = np.stack([expected(exact, "e4m3", rounding=rounding, random=int(r), n_bits=n_bits) for r in operands[:, 0]])
    assert_bits(encode(halves, "e4m3", **policies), want, halves, "e4m3")
    assert_bits(convert(np.broadcast_to(codes, (2, 3)), "fp16", "e4m3", **policies), want, halves, "e4m3")
    assert_bits(quantize(halves, "e4m3", **policies), decode(want, "e4m3", np.float16), halves)
