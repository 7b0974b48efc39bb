"""The strategies reach every class of input, their draws are valid, and a faulty encoder does not pass them."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import feather_ref as fr
from feather_ref import oracle, strategies
from feather_ref.formats import FORMATS, Format, get_format
from feather_ref.policy import resolve
from helpers import assert_bits, exacts, expected

FLOATS = (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)


def draws(strategy: st.SearchStrategy[Any], count: int = 150) -> list[Any]:
    """The same `count` draws on every run."""
    seen: list[Any] = []

    @settings(max_examples=count, derandomize=True, database=None, phases=[Phase.generate])
    @given(strategy)
    def collect(value: Any) -> None:
        seen.append(value)

    collect()
    return seen


# --- formats ----------------------------------------------------------------------------------


def test_formats_reach_every_kind_of_row() -> None:
    rows = draws(strategies.formats(), 500)
    found = Counter[str]()
    for row in rows:
        found.update([row.kind, f"inf {row.inf}", f"nan {row.nan}", f"overflow {row.overflow}", f"signed {row.signed}"])
        found.update({
            "no zero": not row.has_zero, "no mantissa": row.kind == "float" and row.mantissa_bits == 0,
            "one exponent bit": row.exponent_bits == 1, "named": row.name in FORMATS and FORMATS[row.name] is row,
            "p3109": row.name.startswith("binary"), "minifloat": row.name.startswith("minifloat("),
            "below float32": row.kind == "float" and row.quantum < -149,
            "beyond float32": row.kind == "float" and row.max > 2.0**128,
            "two zeros": row.kind == "table" and row.has_signed_zero, "wide": row.bits > 8,
        })  # fmt: skip
    expected_names = {
        "float", "integer", "table", "inf none", "inf ieee", "inf top", "nan none", "nan ieee", "nan all_ones",
        "nan negative_zero", "overflow saturate", "overflow nonsaturating", "overflow propagate",
        "overflow p3109_satnone", "signed True", "signed False",
    }  # fmt: skip
    assert expected_names <= set(found)
    assert min(found.values()) > 0, found


@pytest.mark.parametrize("most", [3, 4, 8, 16, 32])
def test_formats_are_as_narrow_as_asked(most: int) -> None:
    widths = {row.bits for row in draws(strategies.formats(most))}
    assert max(widths) == most if most < 32 else max(widths) > 24


@pytest.mark.parametrize("most", [2, 33])
def test_formats_of_no_width(most: int) -> None:
    with pytest.raises(ValueError, match=r"max_bits must be 3\.\.32"):
        strategies.formats(most)


# --- policies ---------------------------------------------------------------------------------

ANY_NAN = {None, "canonical", "preserve_sign", "max", "zero", int, tuple}
FREE = {None, "saturate", "nonsaturating", "propagate"}
CHOICES = [  # what each row can carry out without refusing an input, by hand
    ("e4m3", FREE | {"ocp_table3"}, ANY_NAN, {None, "nan", "zero", "abs", "error"}),
    ("e2m1", FREE, {"max", "zero", int, tuple}, {None, "nan", "zero", "abs", "error"}),
    ("e8m0", FREE | {"ocp_table3"}, ANY_NAN, {None, "nan", "zero", "abs"}),
    ("uint4", FREE, {"max", "zero", int, tuple}, {None, "zero", "abs"}),
    ("binary8p3ue", FREE | {"ocp_table3", "p3109_satnone"}, ANY_NAN, {None, "nan", "zero", "abs"}),
    ("nf4", FREE, {"max", "zero", int, tuple}, {None, "nan", "zero", "abs", "error"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "overflow", "nan", "negative"), CHOICES)
def test_policies_are_those_that_a_row_can_carry_out(
    name: str, overflow: set[Any], nan: set[Any], negative: set[Any]
) -> None:
    found = draws(strategies.policies(name), 250)
    assert {p["overflow"] for p in found} == overflow
    assert {type(p["nan"]) if isinstance(p["nan"], int | tuple) else p["nan"] for p in found} == nan
    assert {p["negative"] for p in found} == negative
    assert {p["subnormals"] for p in found} == {"keep", "flush_input", "flush_output"}
    assert {p["rounding"] for p in found} == set(fr.ROUNDINGS[:6]) if name != "nf4" else {"nearest_even"}
    x = np.array([np.nan, -np.nan, np.inf, -np.inf, -1, 1e30, -1e-30], np.float32)
    for policies in found:
        fr.encode(x, name, **policies)  # refuses nothing


def test_policies_with_errors_and_stochastic_rounding() -> None:
    found = draws(strategies.policies("ue4m3", fr.ROUNDINGS, errors=True), 200)
    assert {p["rounding"] for p in found} == set(fr.ROUNDINGS)
    assert "error" in {p["nan"] for p in found} and "error" in {p["negative"] for p in found}
    assert {None, "error"} <= {p["nan"] for p in draws(strategies.policies("e2m1", errors=True))}


# --- codes ------------------------------------------------------------------------------------


def test_codes_reach_every_code() -> None:
    for name in ("e2m1", "ue4m3", "e4m3"):
        seen = np.unique(np.concatenate(draws(strategies.codes(name, 100), 100)))
        assert_bits(seen, np.arange(1 << get_format(name).bits, dtype=np.uint8), seen)


@pytest.mark.parametrize(("name", "dtype"), [("fp16", np.uint16), ("tf32", np.uint32), ("fp32", np.uint32)])
def test_wide_codes_use_all_their_bits(name: str, dtype: Any) -> None:
    bits = get_format(name).bits
    found = np.concatenate(draws(strategies.codes(name)))
    assert found.dtype == dtype and int(found.max()) < 1 << bits
    ones = [np.count_nonzero(found >> k & 1) / found.size for k in range(bits)]
    assert min(ones) > 0.2 and max(ones) < 0.8


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ((), {()}), (3, {(3,)}), ((0,), {(0,)}), ((2, 3), {(2, 3)}),
        (st.sampled_from([(1,), (2, 0), ()]), {(1,), (2, 0), ()}),
    ],
)  # fmt: skip
def test_shapes(shape: Any, found: set[tuple[int, ...]]) -> None:
    for strategy in (
        strategies.codes("e4m3", shape), strategies.float_bits(np.float64, shape),
        strategies.near_ties("e4m3", np.float32, shape),
    ):  # fmt: skip
        assert {x.shape for x in draws(strategy, 40)} == found


# --- float bits -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_bits_reach_every_class(dtype: Any) -> None:
    arrays = draws(strategies.float_bits(dtype, 32))
    assert {x.dtype for x in arrays} == {np.dtype(dtype)}
    row = next(row for row in (FORMATS["fp16"], FORMATS["bf16"], FORMATS["fp32"], FP64) if row.name == NAMES[dtype])
    bits = np.concatenate(arrays).view(f"u{np.dtype(dtype).itemsize}").astype(np.uint64)
    negative = bits >> np.uint64(row.bits - 1) == 1
    field = (bits & np.uint64(row.exponent_mask)) >> np.uint64(row.mantissa_bits)
    mantissa, last = bits & np.uint64(row.mantissa_mask), (1 << row.exponent_bits) - 1
    quiet = mantissa >> np.uint64(row.mantissa_bits - 1) == 1
    classes = {
        "zero": (field == 0) & (mantissa == 0), "subnormal": (field == 0) & (mantissa != 0),
        "least": (field == 0) & (mantissa == 1), "least normal": (field == 1) & (mantissa == 0),
        "greatest": (field == last - 1) & (mantissa == row.mantissa_mask),
        "inf": (field == last) & (mantissa == 0), "quiet": (field == last) & quiet,
        "signalling": (field == last) & ~quiet & (mantissa != 0),
        "low payload": (field == last) & (mantissa == 1), "normal": (field > 1) & (field < last - 1),
    }  # fmt: skip
    for name, where in classes.items():
        assert (where & negative).any() and (where & ~negative).any(), name
    assert len(np.unique(field)) > min(last, 600) * 0.6  # not the edges alone
    assert len(np.unique(bits)) > min(len(bits), 1 << 12) / 4


FP64 = Format("fp64", 64, exponent_bits=11, mantissa_bits=52, bias=1023, inf="ieee", nan="ieee")  # IEEE 754, 3.6
NAMES = dict(zip(FLOATS, ("fp16", "fp32", "fp64", "bf16"), strict=True))


@pytest.mark.parametrize("dtype", [np.int32, np.longdouble, np.bool_, ml_dtypes.int4])
def test_float_bits_of_what_is_no_float(dtype: Any) -> None:
    if dtype is np.longdouble and np.dtype(dtype).itemsize == 8:
        pytest.skip("longdouble is float64 here")
    with pytest.raises(TypeError, match="dtype must be float16, float32, float64 or a float of ml_dtypes"):
        strategies.float_bits(dtype)
    with pytest.raises(TypeError, match="dtype must be"):
        strategies.near_ties("e4m3", dtype)


# --- near ties --------------------------------------------------------------------------------


def ends(row: Format) -> list[Fraction]:
    """Magnitudes in rising order, to two beyond the greatest; zero is one of them."""
    line = [row.exact(m) for m in range(row.max_magnitude + 3)]
    return line if row.has_zero else [Fraction(0), *line]


def patterns(points: Iterable[Fraction], dtype: Any) -> dict[int, Fraction]:
    """Bits of those magnitudes that dtype holds; Inf where they are beyond it."""
    found = {}
    for point in points:
        with np.errstate(over="ignore"):
            number = np.array(min(float(point), 2.0**1000)).astype(dtype)
        if np.isinf(number) or Fraction(float(number)) == point:
            found[int(number.view(f"u{number.itemsize}"))] = point
    return found


def magnitudes(numbers: np.ndarray) -> set[int]:
    return set(np.abs(numbers).view(f"u{numbers.itemsize}").tolist())


E2M1 = (0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10)  # by hand; 8 and 12 would be next
NF4 = [Fraction(v) for v in FORMATS["nf4"].values]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_near_ties_of_e2m1_are_these(dtype: Any) -> None:
    bits = {int(np.array(v, dtype).view(f"u{np.dtype(dtype).itemsize}")) for v in E2M1}
    numbers = np.concatenate(draws(strategies.near_ties("e2m1", dtype, 48)))
    assert magnitudes(numbers) == {max(b + d, 0) for b in bits for d in (-1, 0, 1)}
    assert numbers.dtype == dtype and {*numbers[numbers < 0]} == {*-numbers[numbers > 0]}
    assert {bool(sign) for sign in np.signbit(numbers[numbers == 0])} == {True, False}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e8m0", "ue4m3", "mxint8", "nf4", "binary8p3se", "fp16"])
def test_near_ties_are_values_and_midpoints_and_their_neighbours(name: str, dtype: Any) -> None:
    row = get_format(name)
    line = ends(row) if name != "nf4" else sorted(NF4)
    values = patterns(map(abs, line), dtype)
    middles = patterns((abs(a + b) / 2 for a, b in itertools.pairwise(line)), dtype)
    drawn = magnitudes(np.concatenate(draws(strategies.near_ties(row, dtype, 16))))
    exact = {*values, *middles}
    found = {
        "value": drawn & {*values}, "middle": drawn & {*middles},
        "above": drawn & {b + 1 for b in exact}, "below": drawn & {b - 1 for b in exact},
    }  # fmt: skip
    assert all(len(bits) > 5 for bits in found.values()), found
    assert {0, *patterns([abs(Fraction(row.max))], dtype)} <= drawn
    assert max(drawn) > max(patterns([abs(Fraction(row.max))], dtype))
    if (name, dtype) != ("nf4", np.float32):  # whose midpoints have 25 bits
        assert drawn <= set.union(*found.values()) or name == "nf4"


@pytest.mark.parametrize(("dtype", "name"), [(np.float16, "fp32"), (np.float16, "e8m0"), (np.float64, "fp32")])
def test_near_ties_in_a_dtype_that_does_not_reach_them(dtype: Any, name: str) -> None:
    numbers = np.concatenate(draws(strategies.near_ties(name, dtype)))
    assert (numbers == 0).any() and not np.isnan(numbers).any()
    assert np.isinf(numbers).any() == (dtype is np.float16)


# --- shapes for packers -----------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 4, 6, 19, 32])
def test_packed_shapes(width: int) -> None:
    shapes = draws(strategies.packed_shapes(width), 200)
    rest = {n * width % 32 for *_, n in shapes}
    assert 0 in {n for *_, n in shapes} and 0 in rest
    assert {width % 32, -width % 32} <= rest  # one code after a word, one code short of it
    assert {len(shape) for shape in shapes} == {1, 2, 3}
    assert any(0 in shape[:-1] for shape in shapes) and max(n for *_, n in shapes) > 32 // width


@given(st.data())
def test_packed_shapes_pack(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 32))
    codes = np.zeros(data.draw(strategies.packed_shapes(width)), np.uint32)
    codes[...] = np.uint32((1 << width) - 1)
    assert_bits(fr.unpack_codes(fr.pack_codes(codes, width), width, codes.shape[-1]).astype(np.uint32), codes, codes)


@pytest.mark.parametrize("width", [0, 33])
def test_packed_shapes_of_no_width(width: int) -> None:
    with pytest.raises(ValueError, match=r"width must be 1\.\.32"):
        draws(strategies.packed_shapes(width))


# --- at work ----------------------------------------------------------------------------------


@settings(max_examples=100)
@given(data=st.data())
def test_any_row_any_policy_any_input(data: st.DataObject) -> None:
    """The codec against the oracle, by the strategies alone."""
    row = data.draw(strategies.formats())
    policies = data.draw(strategies.policies(row))
    dtype, source = data.draw(st.sampled_from([(np.float16, "fp16"), (np.float32, "fp32"), (np.float64, FP64)]))
    x = data.draw(strategies.near_ties(row, dtype, 5) | strategies.float_bits(dtype, 5))
    assert_bits(fr.encode(x, row, **policies), expected(exacts(x), row, source=source, **policies), x, row)


def test_a_tie_that_goes_away_is_found() -> None:
    def faulty(x: np.ndarray) -> np.ndarray:
        return fr.encode(x, "e4m3", rounding="nearest_away")

    with pytest.raises(AssertionError):
        for x in draws(strategies.near_ties("e4m3"), 50):
            assert_bits(faulty(x), fr.encode(x, "e4m3"), x)


def test_the_default_policies_are_valid_for_every_drawn_row() -> None:
    for row in draws(strategies.formats(32), 200):
        assert resolve(row).fmt is row
        assert oracle.decode(0, row).kind in ("finite", "nan", "inf")


def test_without_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    spec = importlib.util.spec_from_file_location("strategies_again", strategies.__file__)
    assert spec and spec.loader
    with pytest.raises(ImportError, match=r"feather_ref\.strategies needs hypothesis: pip install hypothesis"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
