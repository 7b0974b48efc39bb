"""The rows: names, factories, refusals, derived properties, and that one row is all a new format needs.

Every number here is typed by hand; what the standards say of each format is in `literals`.
"""

from __future__ import annotations

import copy
import dataclasses
import io
import math
import pickle
import tokenize
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import feather_ref as fr
from feather_ref import oracle
from feather_ref.formats import FORMATS, Format, Source, get_format, minifloat, p3109, p3109_formats

PACKAGE = Path(fr.__file__).parent
NAMES = (
    "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "e8m0", "fp16", "bf16", "tf32", "fp32", "e4m3fnuz", "e5m2fnuz",
    "e4m3b11fnuz", "e4m3ieee", "e3m4", "ue4m3", "ue5m3", "int8", "uint8", "int4", "uint4", "int2", "mxint8",
    "nf4", "fp4_bnb", "uf11", "uf10",
)  # fmt: skip

# --- names ----------------------------------------------------------------------------------------

ALIASES = {
    "e4m3": "e4m3fn float8_e4m3fn F8_E4M3 fp8e4nv FP8_E4M3 torch.float8_e4m3fn ml_dtypes.float8_e4m3fn",
    "e5m2": "float8_e5m2 F8_E5M2 fp8e5 torch.float8_e5m2",
    "e3m2": "float6_e3m2fn F6_E3M2 e3m2fn ml_dtypes.float6_e3m2fn",
    "e2m3": "float6_e2m3fn F6_E2M3 e2m3fn",
    "e2m1": "float4_e2m1fn F4 fp4 e2m1fn",
    "e8m0": "e8m0fnu float8_e8m0fnu F8_E8M0 ue8m0",
    "fp16": "float16 F16 half binary16 torch.float16 e5m10",
    "bf16": "bfloat16 BF16 torch.bfloat16 ml_dtypes.bfloat16 e8m7",
    "tf32": "tensorfloat32",
    "fp32": "float32 F32 single binary32 torch.float32",
    "e4m3fnuz": "float8_e4m3fnuz fp8e4b8",
    "e5m2fnuz": "float8_e5m2fnuz fp8e5b16",
    "e4m3b11fnuz": "float8_e4m3b11fnuz",
    "e4m3ieee": "float8_e4m3 ml_dtypes.float8_e4m3",
    "e3m4": "float8_e3m4",
    "int8": "I8",
    "uint8": "U8",
    "uf11": "ufloat11",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_row_has_its_name(name: str) -> None:
    assert get_format(name) is FORMATS[name]
    assert str(FORMATS[name]) == FORMATS[name].name == name


def test_the_names_are_these_in_this_order() -> None:
    assert tuple(FORMATS) == NAMES


@pytest.mark.parametrize(("name", "alias"), [(name, alias) for name, text in ALIASES.items() for alias in text.split()])
def test_aliases_in_any_case_and_spacing(name: str, alias: str) -> None:
    for spelling in (alias, alias.upper(), alias.lower(), f"  {alias}\n", "\t".join(alias)):
        assert get_format(spelling) is FORMATS[name]


def test_float8_e4m3_is_the_row_with_inf() -> None:
    """A trap: ml_dtypes.float8_e4m3 is IEEE-like; F8_E4M3 of safetensors is not."""
    assert get_format("float8_e4m3").has_inf
    assert not get_format("F8_E4M3").has_inf


def test_every_alias_is_unique_and_found() -> None:
    spellings = {row: {alias.lower() for alias in (row.name, *row.aliases)} for row in FORMATS.values()}
    counted = Counter(alias for aliases in spellings.values() for alias in aliases)
    assert [alias for alias, count in counted.items() if count > 1] == []
    for row, aliases in spellings.items():
        for alias in aliases:
            assert get_format(alias) is row, alias


def test_no_name_of_a_row_is_a_factory_expression() -> None:
    """e3m4 is the IEEE one, e3m4fn is not: no alias may hide a factory's row behind its name."""
    assert get_format("e3m4fn") == minifloat(3, 4) != FORMATS["e3m4"]


def test_a_row_is_its_own_format() -> None:
    row = Format("mine", 8, exponent_bits=4, mantissa_bits=3, bias=7)
    assert get_format(row) is row


FACTORIES = [
    ("minifloat(4,3)", minifloat(4, 3)),
    ("minifloat(4, 3, bias=11)", minifloat(4, 3, 11)),
    ("MINIFLOAT( 5 , 2 )", minifloat(5, 2)),
    ("minifloat(4,3,bias=-2)", minifloat(4, 3, bias=-2)),
    ("minifloat(3,2,nan=False)", minifloat(3, 2, nan=False)),
    ("minifloat(3,3,nan=True)", minifloat(3, 3)),
    ("minifloat(4,3,bias=9,nan=false)", minifloat(4, 3, bias=9, nan=False)),
    ("e2m5fn", minifloat(2, 5)),
    ("torch.e2m5fn", minifloat(2, 5)),
    ("binary8p3se", p3109(8, 3)),
    ("Binary8P3SE", p3109(8, 3)),
    ("binary4p2uf", p3109(4, 2, signed=False, extended=False)),
    ("binary16p11sf", p3109(16, 11, extended=False)),
]


@pytest.mark.parametrize(("text", "row"), FACTORIES, ids=str)
def test_factory_expressions(text: str, row: Format) -> None:
    assert get_format(text) == row


@pytest.mark.parametrize(
    ("name", "close"),
    [("e4m4", "e4m3"), ("float8_e4m3fm", "float8_e4m3fn"), ("bfloat", "bfloat16"), ("nf3", "nf4"), ("int9", "int8")],
)
def test_an_unknown_name_lists_the_close_ones(name: str, close: str) -> None:
    with pytest.raises(ValueError, match=rf"fmt: unknown format '{name}'; close: .*\b{close}\b"):
        get_format(name)


@pytest.mark.parametrize(
    ("name", "to"),
    [
        *(
            (name, "a block format, for quantize_blocks")
            for row in fr.BLOCK_FORMATS.values()
            for name in (row.name, *row.aliases)
            if name != "mxint8"  # an element too
        ),
        *((name, "a mixed block format, for quantize_mixed") for name in fr.MIXED_FORMATS),
    ],
)
def test_a_name_of_blocks_is_sent_where_it_belongs(name: str, to: str) -> None:
    with pytest.raises(ValueError, match=rf"fmt: unknown format '{name}'; {to}$"):
        get_format(name)


@pytest.mark.parametrize("name", ["", "qqqqqqqqqq", "torch.", "binary8p3", "minifloat(4)", "minifloat(4,3,7)"])
def test_a_name_like_no_other_lists_something(name: str) -> None:
    with pytest.raises(ValueError, match=r"fmt: unknown format .*; (known|close): "):
        get_format(name)


def test_nothing_close_lists_every_name() -> None:
    with pytest.raises(ValueError, match=rf"known: {', '.join(NAMES)}$"):
        get_format("qqqqqqqqqqqqqqqq")


@pytest.mark.parametrize("fmt", [np.float16, np.dtype("float16"), np.dtype(">f2")])
def test_a_dtype_is_the_format_of_its_name(fmt: Any) -> None:
    assert get_format(fmt).name == "fp16"
    assert get_format(ml_dtypes.float8_e4m3fn).name == "e4m3"


@pytest.mark.parametrize("fmt", [None, 8, 4.3, b"e4m3", np.dtype("float64"), ("e4m3",), np.complex64])
def test_another_type_is_a_type_error(fmt: Any) -> None:
    with pytest.raises(TypeError, match=f"fmt must be a format name, a dtype or a Format, got {type(fmt).__name__}"):
        get_format(fmt)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("e99m3fn", "e must be 1..16, got 99"),
        ("minifloat(0,3)", "e must be 1..16, got 0"),
        ("minifloat(8,24)", "m must be 0..23, got 24"),
        ("minifloat(4,3,bias=99999)", "bias must be -65536..65536, got 99999"),
        ("binary2p1se", "k must be 3..16, got 2"),
        ("binary8p8se", "p must be 1..7, got 8"),
        ("binary8p9ue", "p must be 1..8, got 9"),
    ],
)
def test_factory_expressions_out_of_range(text: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        get_format(text)


# --- rows are values ------------------------------------------------------------------------------


def test_the_table_is_read_only() -> None:
    with pytest.raises(TypeError):
        FORMATS["mine"] = FORMATS["e4m3"]  # type: ignore[index]
    with pytest.raises(TypeError):
        del FORMATS["e4m3"]  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        FORMATS["e4m3"].bias = 8  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        FORMATS["e4m3"].source.document = "another"  # type: ignore[misc]


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_hashable_values(name: str) -> None:
    row = FORMATS[name]
    twin = dataclasses.replace(row)
    assert row.max_magnitude is not None  # a derived value is kept, and is no part of the row
    assert twin == row and hash(twin) == hash(row) and len({twin, row}) == 1
    assert pickle.loads(pickle.dumps(row)) == copy.deepcopy(row) == row
    assert dataclasses.replace(row, name="another") != row


def test_every_row_names_its_source() -> None:
    for row in FORMATS.values():
        assert row.source.document and row.source.document != "user-defined", row.name
        assert str(row.source).startswith(row.source.document)
    assert str(Source("Paper", "2", "table 1")) == "Paper, 2, table 1"
    assert str(Source("Paper", section="table 1")) == "Paper, table 1"


# --- factories ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (minifloat(4, 3), "e4m3"), (minifloat(3, 2, nan=False), "e3m2"), (minifloat(2, 3, nan=False), "e2m3"),
        (minifloat(2, 1, nan=False), "e2m1"), (minifloat(4, 3, bias=7), "e4m3"),
        (minifloat(5, 2), "e5m2fn"), (minifloat(3, 4), "e3m4fn"), (minifloat(2, 5), "e2m5fn"),
        (minifloat(4, 3, bias=11), "minifloat(4,3,bias=11)"), (minifloat(4, 3, nan=False), "minifloat(4,3,nan=False)"),
        (minifloat(3, 2, bias=4, nan=False), "minifloat(3,2,bias=4,nan=False)"),
    ],
    ids=str,
)  # fmt: skip
def test_minifloat_is_the_named_row_where_there_is_one(row: Format, name: str) -> None:
    assert row.name == name
    assert get_format(name) == row


def test_minifloat_is_never_a_row_with_inf() -> None:
    """The 8-bit splits of `allocate`: e5m2 and e3m4 would be the IEEE ones."""
    for e in range(1, 8):
        row = minifloat(e, 7 - e)
        assert (row.inf, row.nan, row.overflow, row.bits) == ("none", "all_ones", "saturate", 8)
        assert row.name not in ("e5m2", "e3m4")


@pytest.mark.parametrize(
    ("row", "greatest", "min_normal", "min_subnormal"),
    [
        (minifloat(5, 2), 1.5 * 2.0**16, 2.0**-14, 2.0**-16),  # 11111.10: all ones is NaN
        (minifloat(3, 4), 1.875 * 2.0**4, 0.25, 2.0**-6),
        (minifloat(2, 5), 1.9375 * 4, 1.0, 2.0**-5),
        (minifloat(4, 3, bias=11), 28.0, 2.0**-10, 2.0**-13),
        (minifloat(4, 3, nan=False), 480.0, 2.0**-6, 2.0**-9),
        (minifloat(4, 0, nan=False), 256.0, 2.0**-6, None),
        (minifloat(1, 2, nan=False), 3.5, 2.0, 0.5),  # bias 0: the exponent of both fields is 1
        (minifloat(2, 3), 7.0, 1.0, 0.125),
    ],
    ids=str,
)
def test_minifloat_range(row: Format, greatest: float, min_normal: float, min_subnormal: float | None) -> None:
    assert (row.max, row.min, row.min_normal, row.min_subnormal) == (greatest, -greatest, min_normal, min_subnormal)


P3109_ROWS = [
    # row, bias, max, least positive, NaN, Inf
    (p3109(8, 3), 16, 49152.0, 2.0**-17, 0x80, 0x7F),
    (p3109(8, 3, extended=False), 16, 57344.0, 2.0**-17, 0x80, None),
    (p3109(8, 4, extended=False), 8, 240.0, 2.0**-10, 0x80, None),
    (p3109(8, 3, signed=False), 32, 1.25 * 2.0**31, 2.0**-33, 0xFF, 0xFE),
    (p3109(8, 1), 64, 2.0**62, 2.0**-63, 0x80, 0x7F),
    (p3109(4, 2, extended=False), 2, 3.0, 0.25, 0x8, None),
    (p3109(3, 1), 2, 1.0, 0.5, 0x4, 0x3),
    (p3109(3, 3, signed=False), 1, 1.25, 0.25, 0x7, 0x6),
]


@pytest.mark.parametrize(("row", "bias", "greatest", "least", "nan", "inf"), P3109_ROWS, ids=str)
def test_p3109(row: Format, bias: int, greatest: float, least: float, nan: int, inf: int | None) -> None:
    assert (row.bias, row.max, row.canonical_nan, row.inf_magnitude) == (bias, greatest, nan, inf)
    assert float(row.exact(1)) == least
    assert row.overflow == "p3109_satnone" and not row.has_signed_zero


def test_the_fnuz_rows_are_p3109_finite_rows() -> None:
    """E4M3FNUZ is Binary8p4sf and E5M2FNUZ is Binary8p3sf, code by code."""
    for fnuz, row in (("e4m3fnuz", p3109(8, 4, extended=False)), ("e5m2fnuz", p3109(8, 3, extended=False))):
        assert [oracle.decode(code, fnuz) for code in range(256)] == [oracle.decode(code, row) for code in range(256)]


def test_p3109_formats_are_all_of_them() -> None:
    rows = list(p3109_formats())
    # k - 1 signed and k unsigned precisions, extended and finite, for k = 3..8
    assert len(rows) == sum(2 * (2 * k - 1) for k in range(3, 9)) == len({row.name for row in rows}) == 120
    assert [row.name for row in p3109_formats(range(3, 4))] == [
        "binary3p1se", "binary3p1sf", "binary3p2se", "binary3p2sf",
        "binary3p1ue", "binary3p1uf", "binary3p2ue", "binary3p2uf", "binary3p3ue", "binary3p3uf",
    ]  # fmt: skip
    for row in rows:
        assert get_format(row.name) is row


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((0, 3), ValueError, "e must be 1..16, got 0"),
        ((17, 3), ValueError, "e must be 1..16, got 17"),
        ((4, -1), ValueError, "m must be 0..27, got -1"),
        ((4, 28), ValueError, "m must be 0..27, got 28"),
        ((4, 3, 65537), ValueError, "bias must be -65536..65536, got 65537"),
        ((4.5, 3), TypeError, "e must be an int, got float"),
        (("4", 3), TypeError, "e must be an int, got str"),
        ((True, 20), TypeError, "e must be an int, got bool"),
        ((4, None), TypeError, "m must be an int, got NoneType"),
        ((4, 3, 7.5), TypeError, "bias must be an int, got float"),
        ((1, 0), ValueError, "there is no finite value but the first"),
    ],
)
def test_minifloat_refuses(arguments: tuple[Any, ...], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        minifloat(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((2, 1), ValueError, "k must be 3..16, got 2"),
        ((17, 3), ValueError, "k must be 3..16, got 17"),
        ((8, 0), ValueError, "p must be 1..7, got 0"),
        ((8, 8), ValueError, "p must be 1..7, got 8"),
        ((8, 9, False), ValueError, "p must be 1..8, got 9"),
        ((8.5, 3), TypeError, "k must be an int, got float"),
        ((8, "3"), TypeError, "p must be an int, got str"),
    ],
)
def test_p3109_refuses(arguments: tuple[Any, ...], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        p3109(*arguments)


def test_the_factories_refuse_a_float_whatever_they_were_asked_before() -> None:
    assert minifloat(3, 3).bits == 7 and p3109(5, 2).bits == 5
    with pytest.raises(TypeError, match="m must be an int"):
        minifloat(3, 3.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="p must be an int"):
        p3109(5, 2.0)  # type: ignore[arg-type]


def test_the_factories_take_numpy_integers_as_what_they_are() -> None:
    row = minifloat(np.int8(8), np.int8(5))  # type: ignore[arg-type]
    assert row == minifloat(8, 5) and row.bias == 127
    assert {type(value) for value in (row.bits, row.exponent_bits, row.mantissa_bits, row.bias)} == {int}
    row = p3109(np.uint8(13), np.uint8(3))  # type: ignore[arg-type]
    assert (row.name, row.bias) == ("binary13p3se", 512) and type(row.bits) is type(row.bias) is int


@pytest.mark.parametrize("nan", [True, False])
@pytest.mark.parametrize("e", range(1, 8))
def test_the_name_of_a_minifloat_names_it(e: int, nan: bool) -> None:
    for m in range(e == 1, 8 - e):
        row = minifloat(e, m, nan=nan)
        assert get_format(row.name) == row, row.name


# --- rows that contradict themselves --------------------------------------------------------------

FLOAT: dict[str, Any] = {"bits": 8, "exponent_bits": 4, "mantissa_bits": 3, "bias": 7}
TABLE4: dict[str, Any] = {"bits": 2, "kind": "table"}
REFUSED = [
    (FLOAT | {"nan": "allones"}, "nan must be one of none, ieee, all_ones, negative_zero; got 'allones'"),
    (FLOAT | {"inf": "IEEE"}, "inf must be one of none, ieee, top; got 'IEEE'"),
    (FLOAT | {"overflow": "wrap"}, "overflow must be one of saturate"),
    (FLOAT | {"negative": "clamp"}, "negative must be one of nan"),
    (FLOAT | {"bias": 7.5}, "bias must be an int, got 7.5"),
    (FLOAT | {"exponent_bits": 4.0}, "exponent_bits must be an int, got 4.0"),
    (FLOAT | {"signed": "yes"}, "signed must be a bool, got 'yes'"),
    (FLOAT | {"aliases": "mine"}, "aliases must be a tuple of names"),
    (TABLE4 | {"values": [0.0, 1.0, 2.0, 3.0]}, "values must be a tuple of floats"),
    (TABLE4 | {"values": ("a", "b", "c", "d")}, "values must be a tuple of floats"),
    (FLOAT | {"name": ""}, "format '': name must not be empty"),
    (FLOAT | {"bits": 0}, "bits must be 1..64, got 0"),
    (FLOAT | {"bits": 65}, "bits must be 1..64, got 65"),
    (FLOAT | {"storage_bits": 7}, "8 bits shifted by 0 do not fit 7 storage bits"),
    (FLOAT | {"storage_bits": 16, "storage_shift": 9}, "8 bits shifted by 9 do not fit 16 storage bits"),
    (FLOAT | {"storage_bits": 16, "storage_shift": -1}, "8 bits shifted by -1 do not fit 16"),
    (FLOAT | {"mantissa_bits": -1, "exponent_bits": 8}, "mantissa_bits must not be negative"),
    (FLOAT | {"exponent_bits": 0, "mantissa_bits": 7}, "exponent_bits must be 1..16, got 0"),
    (FLOAT | {"exponent_bits": 17, "bits": 21}, "exponent_bits must be 1..16, got 17"),
    (FLOAT | {"bits": 9}, "sign, exponent and mantissa make 8 bits, not 9"),
    (FLOAT | {"signed": False}, "sign, exponent and mantissa make 7 bits, not 8"),
    (FLOAT | {"exponent_bits": 7, "mantissa_bits": 0, "inf": "ieee", "nan": "ieee"}, "an IEEE NaN needs a mantissa"),
    (FLOAT | {"inf": "ieee"}, "IEEE Inf and IEEE NaN come together"),
    (FLOAT | {"inf": "ieee", "nan": "all_ones"}, "IEEE Inf and IEEE NaN come together"),
    (FLOAT | {"nan": "ieee"}, "IEEE Inf and IEEE NaN come together"),
    (FLOAT | {"nan": "ieee", "inf": "top"}, "IEEE Inf and IEEE NaN come together"),
    (FLOAT | {"bits": 7, "signed": False, "nan": "negative_zero"}, "no -0 whose code NaN could take"),
    (FLOAT | {"has_zero": False, "nan": "negative_zero"}, "a signed row has a zero"),
    (FLOAT | {"bias": 65537}, "bias 65537 is out of range"),
    (FLOAT | {"bias": -65537}, "bias -65537 is out of range"),
    ({"bits": 2, "exponent_bits": 1, "nan": "all_ones"}, "there is no finite value but the first"),
    ({"bits": 2, "exponent_bits": 1, "inf": "top", "nan": "all_ones"}, "there is no finite value but the first"),
    (FLOAT | {"kind": "integer"}, "a row of kind 'integer' has no exponent, mantissa, Inf or NaN"),
    ({"bits": 8, "kind": "integer", "nan": "all_ones"}, "a row of kind 'integer' has no"),
    ({"bits": 8, "kind": "integer", "inf": "top"}, "a row of kind 'integer' has no"),
    ({"bits": 8, "kind": "integer", "has_zero": False}, "a row of kind 'integer' has no"),
    (TABLE4 | {"values": (0.0, 1.0, 2.0, 3.0), "exponent_bits": 2}, "a row of kind 'table' has no exponent"),
    ({"bits": 17, "kind": "table"}, "a table has at most 16 bits"),
    (TABLE4 | {"values": (0.0, 1.0, 2.0)}, "needs 4 values, got 3"),
    (TABLE4 | {"values": (0.0, 1.0, 2.0, math.inf)}, "values must be finite and not all zero"),
    (TABLE4 | {"values": (0.0, 1.0, 2.0, math.nan)}, "values must be finite and not all zero"),
    (TABLE4 | {"values": (0.0, -0.0, 0.0, 0.0)}, "values must be finite and not all zero"),
    (TABLE4 | {"values": (0.0, 1.0, 2.0, 2.0**28)}, r"values must be float32 within a factor of 2\*\*27"),
    (TABLE4 | {"values": (0.0, 1.0, 2.0, 0.1)}, "values must be float32"),
    (TABLE4 | {"values": (0.0, 2.0**-150, 2.0**-149, 2.0**-148)}, "values must be float32"),
    (FLOAT | {"values": (1.0,)}, "only a row of kind 'table' has values"),
    ({"bits": 8, "kind": "posit"}, "kind must be one of float, integer, table; got 'posit'"),
    (FLOAT | {"nan_code": 0x7F}, "nan_code 0x7f is not a NaN of the format"),
    (FLOAT | {"nan": "all_ones", "nan_code": 0x7E}, "nan_code 0x7e is not a NaN of the format"),
    (FLOAT | {"nan": "all_ones", "nan_code": 0x17F}, "nan_code 0x17f is not a NaN of the format"),
    (FLOAT | {"nan": "all_ones", "nan_code": -1}, "nan_code -0x1 is not a NaN of the format"),
]


@pytest.mark.parametrize(("fields", "match"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_a_row_that_contradicts_itself_is_refused(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Format(**{"name": "mine", **fields})


def test_a_signed_row_without_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="format 'mine': "):
        Format("mine", **FLOAT, has_zero=False)


def test_a_refusal_names_the_row() -> None:
    with pytest.raises(ValueError, match=r"^format 'mine': "):
        Format("mine", 9, exponent_bits=4, mantissa_bits=3)


@pytest.mark.parametrize(
    "fields",
    [
        FLOAT,
        FLOAT | {"inf": "top", "nan": "all_ones", "nan_code": 0xFF},
        FLOAT | {"storage_bits": 32, "storage_shift": 24},
        {"bits": 1, "kind": "integer", "signed": False},
        TABLE4 | {"values": (-1.0, -0.0, 0.0, 2.0**26)},
        {"bits": 2, "exponent_bits": 1},
        {"bits": 64, "exponent_bits": 11, "mantissa_bits": 52, "bias": 1023, "inf": "ieee", "nan": "ieee"},
        {"bits": 31, "exponent_bits": 16, "mantissa_bits": 14, "bias": 65536},
    ],
    ids=str,
)
def test_rows_at_the_limits_are_accepted(fields: dict[str, Any]) -> None:
    assert Format("mine", **fields).name == "mine"


# --- derived properties ---------------------------------------------------------------------------

#           code mask,  sign,       mantissa,   exponent,   emin, quantum, period,   -0
DERIVED = {
    "e4m3": (0xFF, 0x80, 0x07, 0x78, -6, -9, (4, 1), True),
    "e5m2": (0xFF, 0x80, 0x03, 0x7C, -14, -16, (4, 1), True),
    "e3m2": (0x3F, 0x20, 0x03, 0x1C, -2, -4, (16, 3), True),
    "e2m3": (0x3F, 0x20, 0x07, 0x18, 0, -3, (16, 3), True),
    "e2m1": (0xF, 0x8, 0x1, 0x6, 0, -1, (8, 1), True),
    "e8m0": (0xFF, 0, 0, 0xFF, -127, -127, (4, 1), False),
    "fp16": (0xFFFF, 0x8000, 0x3FF, 0x7C00, -14, -24, (2, 1), True),
    "bf16": (0xFFFF, 0x8000, 0x7F, 0x7F80, -126, -133, (2, 1), True),
    "tf32": (0x7FFFF, 0x40000, 0x3FF, 0x3FC00, -126, -136, (1, 1), True),
    "fp32": (0xFFFFFFFF, 0x80000000, 0x7FFFFF, 0x7F800000, -126, -149, (1, 1), True),
    "e4m3fnuz": (0xFF, 0x80, 0x07, 0x78, -7, -10, (4, 1), False),
    "ue4m3": (0x7F, 0, 0x07, 0x78, -6, -9, (4, 1), False),
    "uf11": (0x7FF, 0, 0x3F, 0x7C0, -14, -20, (32, 11), False),
    "uf10": (0x3FF, 0, 0x1F, 0x3E0, -14, -19, (16, 5), False),
    "int8": (0xFF, 0x80, 0, 0, 1, 0, (4, 1), False),
    "uint4": (0xF, 0, 0, 0, 1, 0, (8, 1), False),
    "mxint8": (0xFF, 0x80, 0, 0, -5, -6, (4, 1), False),
    "nf4": (0xF, 0, 0, 0, 1, 0, (8, 1), False),
    "fp4_bnb": (0xF, 0, 0, 0, 1, 0, (8, 1), True),
}


@pytest.mark.parametrize("name", DERIVED)
def test_derived_properties(name: str) -> None:
    row = FORMATS[name]
    code, sign, mantissa, exponent, emin, quantum, period, minus_zero = DERIVED[name]
    assert (row.code_mask, row.sign_mask, row.magnitude_mask) == (code, sign, code - sign)
    assert (row.mantissa_mask, row.exponent_mask) == (mantissa, exponent)
    assert (row.period, row.has_signed_zero) == (period, minus_zero)
    if row.kind == "float":
        assert row.emin == emin
    if row.kind != "table":
        assert row.quantum == quantum


#           max,      min,       min normal,   min subnormal
RANGES = {
    "e4m3": (448.0, -448.0, 2.0**-6, 2.0**-9),
    "e8m0": (2.0**127, 2.0**-127, 2.0**-127, None),
    "ue5m3": (114688.0, 0.0, 2.0**-14, 2.0**-17),
    "uf10": (64512.0, 0.0, 2.0**-14, 2.0**-19),
    "int8": (127.0, -128.0, 1.0, None),
    "uint4": (15.0, 0.0, 1.0, None),
    "int2": (1.0, -2.0, 1.0, None),
    "mxint8": (1.984375, -2.0, 2.0**-6, None),
    "nf4": (1.0, -1.0, 0.07958029955625534, None),
    "fp4_bnb": (1.0, -1.0, 0.0052083334885537624, None),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges(name: str) -> None:
    row = FORMATS[name]
    assert (row.max, row.min, row.min_normal, row.min_subnormal) == RANGES[name]


def test_exact_goes_on_beyond_the_last_value() -> None:
    e4m3, e5m2, e8m0 = FORMATS["e4m3"], FORMATS["e5m2"], FORMATS["e8m0"]
    assert [e4m3.exact(code) for code in (0, 1, 7, 8, 0x7E, 0x7F, 0x80)] == [
        0, Fraction(1, 512), Fraction(7, 512), Fraction(1, 64), 448, 480, 512,
    ]  # fmt: skip
    assert e5m2.exact(0x7C) == 65536  # the code of Inf
    assert (e8m0.exact(0), e8m0.exact(0xFF)) == (Fraction(1, 2**127), 2**128)
    assert FORMATS["mxint8"].exact(65) == Fraction(65, 64)
    assert FORMATS["fp4_bnb"].exact(0xB) == 1  # a magnitude


# Codes of NaN and Inf, as lists of ranges, inclusive.
NAN_CODES: dict[str, list[tuple[int, int]]] = {
    "e4m3": [(0x7F, 0x7F), (0xFF, 0xFF)],
    "e5m2": [(0x7D, 0x7F), (0xFD, 0xFF)],
    "e4m3ieee": [(0x79, 0x7F), (0xF9, 0xFF)],
    "e3m4": [(0x71, 0x7F), (0xF1, 0xFF)],
    "e8m0": [(0xFF, 0xFF)],
    "e4m3fnuz": [(0x80, 0x80)],
    "e5m2fnuz": [(0x80, 0x80)],
    "e4m3b11fnuz": [(0x80, 0x80)],
    "ue4m3": [(0x7F, 0x7F)],
    "ue5m3": [(0xFF, 0xFF)],
    "fp16": [(0x7C01, 0x7FFF), (0xFC01, 0xFFFF)],
    "bf16": [(0x7F81, 0x7FFF), (0xFF81, 0xFFFF)],
    "uf11": [(0x7C1, 0x7FF)],
    "uf10": [(0x3E1, 0x3FF)],
    "binary8p3se": [(0x80, 0x80)],
    "binary8p3ue": [(0xFF, 0xFF)],
    "e5m2fn": [(0x7F, 0x7F), (0xFF, 0xFF)],
}
INF_CODES: dict[str, set[int]] = {
    "e5m2": {0x7C, 0xFC},
    "e4m3ieee": {0x78, 0xF8},
    "e3m4": {0x70, 0xF0},
    "fp16": {0x7C00, 0xFC00},
    "bf16": {0x7F80, 0xFF80},
    "uf11": {0x7C0},
    "uf10": {0x3E0},
    "binary8p3se": {0x7F, 0xFF},
    "binary8p3ue": {0xFE},
}


@pytest.mark.parametrize("name", [*NAMES[:8], *NAMES[10:], "binary8p3se", "binary8p3sf", "binary8p3ue", "e5m2fn"])
def test_is_nan_and_is_inf_of_every_code(name: str) -> None:
    row = get_format(name)
    nan = {"binary8p3sf": [(0x80, 0x80)], **NAN_CODES}.get(name, [])
    codes = range(1 << row.bits)
    assert {c for c in codes if row.is_nan(c)} == {c for first, last in nan for c in range(first, last + 1)}
    assert {c for c in codes if row.is_inf(c)} == INF_CODES.get(name, set())
    assert row.has_nan == bool(nan) and row.has_inf == (name in INF_CODES)


@pytest.mark.parametrize(
    ("name", "nans", "others"),
    [
        ("tf32", (0x3FC01, 0x3FE00, 0x3FFFF, 0x7FC01, 0x7FFFF), (0x3FC00, 0x3FBFF, 0x7FC00, 0)),
        ("fp32", (0x7F800001, 0x7FC00000, 0xFF800001, 0xFFFFFFFF), (0x7F800000, 0x7F7FFFFF, 0xFF800000, 0x80000000)),
    ],
)
def test_is_nan_of_wide_rows(name: str, nans: tuple[int, ...], others: tuple[int, ...]) -> None:
    row = FORMATS[name]
    assert all(map(row.is_nan, nans)) and not any(map(row.is_nan, others))
    assert [row.is_inf(code) for code in others] == [True, False, True, False]


def test_rows_say_which_specials_they_have() -> None:
    signed_nan = {name for name in NAMES if FORMATS[name].has_signed_nan}
    assert signed_nan == {"e4m3", "e5m2", "fp16", "bf16", "tf32", "fp32", "e4m3ieee", "e3m4"}
    without = {name for name in NAMES if not FORMATS[name].has_subnormals}
    assert without == {"e8m0", "int8", "uint8", "int4", "uint4", "int2", "mxint8", "nf4", "fp4_bnb"}


# --- a new format is one row ----------------------------------------------------------------------

NEW_ROWS = [
    Format("odd7", 7, exponent_bits=3, mantissa_bits=3, bias=5, inf="top", nan="all_ones", overflow="nonsaturating"),
    Format("plain5", 5, exponent_bits=2, mantissa_bits=2, bias=1),
    Format("scale6", 6, exponent_bits=6, bias=31, signed=False, has_zero=False, nan="all_ones"),
    Format("ieee11", 11, exponent_bits=4, mantissa_bits=6, bias=7, inf="ieee", nan="ieee", nan_code=0x3FF),
    Format("lonely", 9, exponent_bits=5, mantissa_bits=3, bias=20, nan="negative_zero", overflow="nonsaturating"),
    Format("fixed5", 5, kind="integer", bias=2),
    Format("index3", 3, kind="table", values=(-4.0, -1.0, -0.5, 0.0, 0.25, 1.0, 2.0, 8.0)),
    Format("padded", 6, exponent_bits=3, mantissa_bits=2, bias=3, storage_bits=8, storage_shift=2),
]
INPUTS = (0.0, -0.0, 0.3, -0.3, 1.0, 1.0625, -1.1, 2.5, 3.0, 100.0, -1e6, 1e-9, math.inf, -math.inf)


@pytest.mark.parametrize("row", NEW_ROWS, ids=str)
def test_a_new_format_is_one_row(row: Format) -> None:
    """Codec, packing, oracle, codes and arithmetic take a row that they have never heard of."""
    negative = None if row.signed or row.kind == "table" else "abs"
    codes = fr.encode(INPUTS, row, negative=negative)
    assert codes.tolist() == [oracle.encode(x, row, negative=negative) for x in INPUTS]
    values = fr.decode(codes, row)
    for value, code in zip(values, codes, strict=True):
        known = oracle.decode(int(code), row)
        assert known.kind == "nan" if math.isnan(value) else oracle.exact(value) == known
    words = fr.pack(INPUTS, row, negative=negative)
    lanes = 32 // row.storage_bits if 32 % row.storage_bits == 0 else None
    assert lanes is None or words.size == -(-len(INPUTS) // lanes)
    assert np.array_equal(fr.unpack(words, row, len(INPUTS)), values, equal_nan=True)
    assert np.array_equal(fr.make_unpacker(row)(fr.make_packer(row)(np.ones(3)), 3), fr.quantize(np.ones(3), row))
    assert len(fr.value_table(row)) == 1 << row.bits
    everything = np.arange(1 << row.bits)
    assert fr.convert(everything, row, "fp32").tolist() == [
        oracle.encode(oracle.decode(code, row), "fp32") for code in range(1 << row.bits)
    ]
    assert fr.isnan(everything, row).sum() == sum(map(row.is_nan, range(1 << row.bits)))
    one = fr.encode(1.0, row)
    assert fr.compare(one, one, row) == 1 and fr.nextafter(one, one, row) == one
    if row.kind != "table":
        assert fr.add(one, one, row) == oracle.add(int(one), int(one), row) == fr.encode(2.0, row)
        assert fr.fma(one, one, one, row) == oracle.fma(*[int(one)] * 3, row)


def strings_and_names(path: Path) -> set[str]:
    """The identifiers and the string literals of a module that are not docstrings."""
    found, before = set(), tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        starts = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        if token.type == tokenize.NAME or (token.type == tokenize.STRING and not starts):
            found.add(token.string.strip("\"'"))
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.type
    return found


RARE = ("e4m3b11fnuz", "e5m2fnuz", "ue5m3", "fp4_bnb", "mxint8", "int2", "e4m3ieee", "uf10")


@pytest.mark.parametrize("name", RARE)
def test_a_format_is_named_in_one_file(name: str) -> None:
    """ml_dtypes names one in 14.

    A new format is no lane of pack_r11g11b10f, no element of a block format, and in no library's
    profile or adapter yet.
    """
    paths = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "adapters"]
    files = {path.name for path in paths if name in strings_and_names(path)}
    assert files - {"graphics.py", "profiles.py", "_blockrows.py"} == {"formats.py"}


def test_the_counter_of_names_sees_names(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""uf11 in a docstring."""\nX = {"nf4": 1}  # int8\ndef f(e2m1):\n    "bf16"\n    return "fp16"\n')
    assert strings_and_names(path) == {"X", "nf4", "def", "f", "e2m1", "return", "fp16"}


def test_two_tables_that_differ_in_the_sign_of_zero_are_two_formats() -> None:
    """-0.0 == 0.0, and one of them got what was kept for the other."""
    plus, minus = (Format("t", bits=1, kind="table", values=(zero, 1.0)) for zero in (0.0, -0.0))
    assert plus != minus
    assert [np.signbit(fr.decode(np.zeros(1, np.uint8), row))[0] for row in (plus, minus)] == [False, True]
    assert minus == pickle.loads(pickle.dumps(minus)) == dataclasses.replace(minus)
    assert len({plus, minus, copy.copy(minus)}) == 2
