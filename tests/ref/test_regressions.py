"""Inputs that once went wrong here: each line was a fault, and the right answer is the oracle's or by hand."""

from __future__ import annotations

import collections
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import feather_ref as fr
from feather_ref import Format, oracle
from helpers import assert_bits

TABLE = {"kind": "table"}
PLUS_MINUS = Format("pm", 1, kind="table", values=(-1.0, 1.0))
MINUS_FIRST = Format("z", 2, kind="table", values=(-0.0, 0.0, 1.0, -1.0))
FNUZ16 = Format("f", 16, exponent_bits=8, mantissa_bits=7, bias=127, nan="negative_zero")
SOURCES = ("tf32", "minifloat(8,22)", "minifloat(5,12)", "minifloat(8,16)", "minifloat(11,19)", "minifloat(8,23)")
SOURCES += ("minifloat(8,23,nan=False)", "fp32")
TARGETS = ("e4m3", "e5m2", "bf16", "fp16", "tf32", "e8m0", "int8", "minifloat(8,7,nan=False)", "minifloat(8,10)", "nf4")


def edges(row: Format) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Codes of a wide row: both ends of every field, and a fixed sample."""
    sample = np.random.default_rng(9).integers(0, 1 << row.bits, 60, np.uint64)
    fields = (0, row.sign_mask, row.exponent_mask, row.code_mask)
    ends = [(end + step) & row.code_mask for end in fields for step in (-1, 0, 1)]
    powers = [1 << i for i in range(row.bits)]
    return np.array([*ends, *powers, *sample.tolist()], np.uint32)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("target", TARGETS)
def test_every_wide_source_converts(source: str, target: str) -> None:
    """Fast paths once took every wide source for an IEEE float of 32 bits."""
    src, dst = fr.get_format(source), fr.get_format(target)
    policies: dict[str, Any] = {"negative": "abs"} | ({} if dst.has_nan else {"nan": "max"})
    codes = edges(src)
    want = [oracle.encode(oracle.decode(int(c), src), dst, **policies) for c in codes]
    assert_bits(fr.convert(codes, src, dst, **policies), np.array(want, fr.code_dtype(dst)), codes, dst)


def test_nan_of_a_float_without_inf() -> None:
    nan = np.uint32([0x7FFFFFFF, 0xFFFFFFFF])
    assert fr.convert(nan, "minifloat(8,23)", "bf16").tolist() == [0x7FC0, 0x7FC0]
    assert np.isnan(fr.decode(nan, "minifloat(8,23)", np.float16)).all()
    assert fr.decode([0], "tf32", ml_dtypes.float8_e5m2).view(np.uint8).tolist() == [0]


@pytest.mark.parametrize(
    ("x", "row", "policies", "codes"),
    [
        (np.float32([-0.0, -1e-45, -1.0, 0.0]), FNUZ16, {}, [0, 0, 0xBF80, 0]),
        (np.float32([0.0, 5e-45, -0.0]), MINUS_FIRST, {}, [1, 1, 0]),
        ([float("nan")], MINUS_FIRST, {"nan": "zero"}, [1]),
        ([0.0, -0.0, 0.5, -2.0], PLUS_MINUS, {}, [1, 0, 1, 0]),
        ([float("nan")], PLUS_MINUS, {"nan": "zero"}, [1]),
        ([1.5, 0.5], Format("x", 12, exponent_bits=1, mantissa_bits=10, inf="ieee", nan="ieee"), {}, [0x300, 0x100]),
    ],
)
def test_rows_of_ones_own(x: Any, row: Format, policies: dict[str, Any], codes: list[int]) -> None:
    assert fr.encode(x, row, **policies).tolist() == codes
    assert [oracle.encode(v, row, **policies) for v in x] == codes


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (TABLE | {"bits": 1, "values": (0.0, 1.0), "signed": False}, "a table's values have their own signs"),
        ({"bits": 8, "kind": "integer", "bias": 1 << 21}, "bias 2097152 is out of range"),
    ],
)
def test_rows_that_are_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Format(**{"name": "mine", **fields})


@pytest.mark.parametrize("source", ["e4m3fnuz", "e5m2fnuz", "binary8p3se"])
def test_a_lone_nan_has_no_sign_to_keep(source: str) -> None:
    assert fr.convert([0x80], source, "e4m3", nan="preserve_sign").tolist() == [0x7F]
    assert oracle.encode(oracle.decode(0x80, source), "e4m3", nan="preserve_sign") == 0x7F


def test_sequences_round_once() -> None:
    big = 2**60 + 2**52 + 1
    for x in ([big, 0.5], collections.deque([big, 0.5]), collections.UserList([big, 0.5])):
        assert fr.encode(x, "bf16").tolist() == [0x5D81, 0x3F00]
    wide = np.longdouble(1.0625) + np.longdouble(2) ** -60
    if wide != np.longdouble(1.0625):  # long double is more than float64 here
        assert fr.encode([wide, 2**60 + 1], "e4m3").tolist() == [0x39, 0x7E]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m: fr.encode(m, "e4m3"), "x: a masked array"),
        (lambda m: fr.encode([m, m], "e4m3"), "x: a masked array"),
        (lambda m: fr.decode(m.astype(np.uint8), "e4m3"), "codes: a masked array"),
        (lambda m: fr.pack_codes(m.astype(np.uint8), 8), "codes: a masked array"),
        (lambda m: fr.unpack_codes(m.astype(np.uint32), 8), "words: a masked array"),
        (lambda m: fr.encode([1.0, 2.0], "e4m3", out=m.astype(np.uint8)), "out must be an array of uint8"),
    ],
)
def test_masks_are_not_lost(call: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call(np.ma.array([1.0, 2.0], mask=[True, False]))


def test_out_that_overlaps_itself() -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (2,), (0,))
    with pytest.raises(ValueError, match="overlaps itself"):
        fr.encode(np.float32([1, 2]), "e4m3", out=out)


def test_empty_random_bits() -> None:
    assert fr.encode([], "e4m3", rounding="stochastic_a", random_bits=[], n_bits=8).shape == (0,)


def test_rgb9e5_in_a_strict_process() -> None:
    with np.errstate(all="raise"):
        assert fr.pack_rgb9e5([5e-324, 1e4, 0.0]) == fr.pack_rgb9e5([0.0, 1e4, 0.0])


@pytest.mark.parametrize("nan", ["canonical", "preserve_sign", 0x7F800001])
def test_fp32_to_itself(nan: Any) -> None:
    x = np.array([0, 0x80000000, 1, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00001, 0x3F800000], np.uint32)
    want = [oracle.encode(oracle.decode(int(c), "fp32"), "fp32", nan=nan) for c in x]
    assert fr.encode(x.view(np.float32), "fp32", nan=nan).tolist() == want
