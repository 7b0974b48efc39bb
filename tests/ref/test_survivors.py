"""Tests that a mutant had to survive before anybody thought of them (tools/mutants.py)."""

from __future__ import annotations

import re

import numpy as np
import pytest

import feather_ref as fr
from feather_ref import oracle
from feather_ref.formats import Format, get_format
from feather_ref.policy import SHORT, resolve
from feather_ref.report import Count
from feather_ref.rounding import DETERMINISTIC, Rounding

SHORT_NAMES = {  # as the ids of golden vectors spell them
    "rounding": [
        ("rne", "nearest_even"), ("rna", "nearest_away"), ("rtz", "toward_zero"), ("rup", "toward_positive"),
        ("rdn", "toward_negative"), ("rodd", "to_odd"),
    ],
    "overflow": [
        ("sat", "saturate"), ("nonsat", "nonsaturating"), ("prop", "propagate"), ("table3", "ocp_table3"),
        ("satnone", "p3109_satnone"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("argument", "short", "name"), [(argument, *pair) for argument, pairs in SHORT_NAMES.items() for pair in pairs]
)
def test_short_names(argument: str, short: str, name: str) -> None:
    choice: dict[str, str] = {argument: short}
    assert getattr(resolve(get_format("binary8p3se"), **choice), argument) == name


def test_every_short_name_is_tried() -> None:
    assert set(SHORT) == {short for pairs in SHORT_NAMES.values() for short, _ in pairs}


@pytest.mark.parametrize(
    ("bits", "signed", "dtype"),
    [(24, False, np.float32), (25, False, np.float64), (24, True, np.float32), (26, True, np.float64)],
)
def test_wide_integers_decode_to_float32_where_all_are_exact(bits: int, signed: bool, dtype: type) -> None:
    row = Format("mine", bits, kind="integer", signed=signed)
    top = (1 << (bits - signed)) - 1
    value = fr.decode([top], row)
    assert value.dtype == dtype and int(value[0]) == top


def test_an_infinity_is_not_exact_where_there_is_none() -> None:
    """Every finite value of the one is a value of the other."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert fr.decode([0x7E], "binary8p4se", ml_dtypes.float8_e4m3fnuz).view(np.uint8) == 0x7E
    with pytest.raises(ValueError, match=r"codes\[0\].*'binary8p4se' code 7F is not exact in float8_e4m3fnuz"):
        fr.decode([0x7F], "binary8p4se", ml_dtypes.float8_e4m3fnuz)


@pytest.mark.parametrize("rounding", DETERMINISTIC)
def test_a_target_whose_least_normal_is_a_subnormal_of_the_source(rounding: Rounding) -> None:
    row = get_format("minifloat(8,7,bias=128)")
    x = np.array([0, 1, 0x8000, 0x200000, 0x3FFFFF, 0x400000, 0x7FFFFF, 0x800000, 0x3F800001], np.uint32)
    x = np.concatenate([x, x | 1 << 31])
    want = [oracle.encode(oracle.decode(bits, "fp32"), row, rounding=rounding) for bits in x.tolist()]
    assert fr.encode(x.view(np.float32), row, rounding=rounding).tolist() == want


def test_zeros_of_a_table_that_begins_with_the_negative_one() -> None:
    row = Format("mine", 2, kind="table", values=(-0.0, 0.0, 1.0, -1.0))
    x = np.float32([0.0, -0.0, 0.25, -0.25, 1.0, -1.0])
    assert fr.encode(x, row).tolist() == [1, 0, 1, 0, 2, 3]
    assert [oracle.encode(value, row) for value in x] == [1, 0, 1, 0, 2, 3]
    assert fr.encode([np.nan], row, nan="zero").tolist() == [1]


def test_a_report_of_an_encoding_in_place_is_that_of_the_input() -> None:
    x = np.float16([3.0, 0.1, np.nan, np.inf])
    codes, report = fr.encode(x.copy(), "bf16", report=True)
    out = x.view(np.uint16)
    got, in_place = fr.encode(x, "bf16", out=out, report=True)
    assert got is out and out.tolist() == codes.tolist()
    assert in_place == report
    assert (report.inexact, report.nan) == (Count(1, (1,)), Count(1, (2,)))


@pytest.mark.parametrize(
    ("dtype", "cure"),
    [
        ("f4", "from_float32(words)"), ("i4", "words.view(np.uint32)"), ("f8", "np.array(words, np.uint32)"),
        ("i8", "np.array(words, np.uint32)"), ("u8", "np.array(words, np.uint32)"),
    ],
)  # fmt: skip
def test_words_of_a_wrong_dtype_are_told_the_cure(dtype: str, cure: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"perhaps {cure}") + "$"):
        fr.unpack_codes(np.zeros(1, dtype), 8)


@pytest.mark.parametrize("fmt", ["fp16", "bf16"])
def test_sixteen_bits_have_a_value_table(fmt: str) -> None:
    table = fr.value_table(fmt)
    assert table.shape == (1 << 16,) and (table[0x3C00], table[0x3F80])[fmt == "bf16"] == 1.0
    with pytest.raises(ValueError, match="'tf32' has 19 bits"):
        fr.value_table("tf32")
