"""Bad input: TypeError or ValueError naming argument, value and index, and nothing written."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from feather_ref._sweep import CHUNK
from feather_ref.codec import check_codes, code_dtype, convert, decode, encode, quantize, value_table
from feather_ref.formats import Format, get_format

NAN = float("nan")
FP64 = Format("wide", 64, exponent_bits=11, mantissa_bits=52, bias=1023, inf="ieee", nan="ieee")


def refuses(call: Callable[[], object], error: type[Exception], text: str) -> None:
    """The call raises exactly this type, and the message holds the text."""
    with pytest.raises(error, match=re.escape(text)) as found:
        call()
    assert found.type is error


# --- x ----------------------------------------------------------------------------------------

NOT_NUMBERS = [
    np.array([1.0, 2.0], object), np.array([2**70]), 1j, [1j, 2], np.array([1], np.complex64), "1", ["1", "2"], b"1",
    [1, "a"], np.str_("1"), None, [None], [1, None], Decimal(1), [Decimal("0.5"), 1], Fraction(1, 2), object(), {1}, {},
    np.datetime64(1, "s"), np.array([1], "m8[s]"), datetime.date(2020, 1, 1), np.zeros(2, "i4,f4"), np.zeros(2, "V4"),
    np.zeros(2, [("x", "f4")]), (i for i in range(2)), [[1, 2], [None, 2**70]], lambda: 1,
]  # fmt: skip


@pytest.mark.parametrize("x", NOT_NUMBERS, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("call", [encode, quantize])
def test_what_is_not_numbers(call: Callable[..., object], x: object) -> None:
    refuses(lambda: call(x, "e4m3"), TypeError, "x: dtype ")


def test_masked_arrays_are_refused() -> None:
    """Their masked elements would be encoded in silence."""
    refuses(lambda: encode(np.ma.masked_array([1.0, 2.0], [False, True]), "e4m3"), TypeError, "x: a masked array")


@pytest.mark.parametrize("x", [[[1], [1, 2]], [1, [2]], [[1.0, 2.0], 3.0], [np.zeros(2), np.zeros(3)]])
def test_ragged_lists(x: object) -> None:
    refuses(lambda: encode(x, "e4m3"), ValueError, "x: ")
    refuses(lambda: quantize(x, "e4m3"), ValueError, "x: ")


def test_ragged_codes() -> None:
    for call in (lambda: decode([[1], [1, 2]], "e4m3"), lambda: convert([[1], [1, 2]], "e4m3", "e5m2")):
        refuses(call, ValueError, "codes")


def test_integers_beyond_every_float() -> None:
    refuses(lambda: encode([1, 2**1024], "e4m3"), ValueError, "flat index 1 has 1025 bits")
    refuses(lambda: encode(-(2**2000), "e4m3"), ValueError, "flat index 0 has 2001 bits")


# --- values that the policy makes an error ----------------------------------------------------

BAD_VALUES: list[tuple[object, str, dict[str, Any], str]] = [
    (NAN, "e2m1", {}, "x = 7FF8000000000000 is NaN, and nan='error' for 'e2m1'"),
    ([1, NAN], "int8", {}, "x[1] = 7FF8000000000000 is NaN"),
    ([1, -NAN, NAN], "nf4", {}, "x[1] = FFF8000000000000 is NaN"),
    (np.array([[1, 2], [3, NAN]], np.float32), "e3m2", {}, "x[1, 1] = 7FC00000 is NaN"),
    (np.array([[1, NAN], [3, 2]], np.float32).T, "e3m2", {}, "x[1, 0] = 7FC00000 is NaN"),
    (np.array([0, 0x7F800001], np.uint32).view(np.float32), "e2m3", {}, "x[1] = 7F800001 is NaN"),
    (np.array([0, 0xFC01], np.uint16).view(np.float16), "uint4", {}, "x[1] = FC01 is NaN"),
    (np.array([0, NAN], ">f4"), "e2m1", {}, "x[1] = 7FC00000 is NaN"),
    (np.array([NAN, 1], ml_dtypes.bfloat16), "e2m1", {}, "x[0] = 7FC0 is NaN"),
    (np.array([1, 0xFF], np.uint8).view(ml_dtypes.float8_e4m3fn), "e2m1", {}, "x[1] = FF is NaN"),
    (np.array([1, 0x80], np.uint8).view(ml_dtypes.float8_e4m3fnuz), "e2m1", {}, "x[1] = 80 is NaN"),
    (np.array([1, NAN], np.longdouble), "e2m1", {}, "x[1] = nan is NaN"),
    ([1, NAN], "e4m3", {"nan": "error"}, "x[1] = 7FF8000000000000 is NaN, and nan='error' for 'e4m3'"),
    ([1, -2], "e8m0", {"negative": "error"}, "x[1] = FFFFFFFFFFFFFFFE is negative, and negative='error' for 'e8m0'"),
    ([1, -2.0], "uint8", {"negative": "error"}, "x[1] = C000000000000000 is negative"),
    (np.array([-0.0, -np.inf], np.float32), "uf11", {"negative": "error"}, "x[1] = FF800000 is negative"),
    (np.array([0, -1], np.longdouble), "ue4m3", {"negative": "error"}, "x[1] = -1.0 is negative"),
    (np.array([[0, 1], [2, -1]], np.int16), "uint4", {"negative": "error"}, "x[1, 1] = FFFF is negative"),
]


@pytest.mark.parametrize(("x", "name", "policies", "text"), BAD_VALUES)
def test_values_that_are_errors(x: object, name: str, policies: dict[str, Any], text: str) -> None:
    refuses(lambda: encode(x, name, **policies), ValueError, text)
    out = np.full(np.shape(x), 0xA, code_dtype(name))
    with pytest.raises(ValueError):
        encode(x, name, out=out, **policies)
    assert (out == 0xA).all()


def test_nan_of_an_unsigned_row_is_no_negative() -> None:
    assert encode([-NAN, -0.0], "ue4m3", negative="error").tolist() == [0x7F, 0x00]


# --- names of policies ------------------------------------------------------------------------

BAD_POLICIES: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("e4m3", {"rounding": "up"}, ValueError, "rounding must be one of nearest_even, nearest_away, "),
    ("e4m3", {"rounding": "up"}, ValueError, "got 'up'"),
    ("e4m3", {"rounding": "Nearest_Even"}, ValueError, "got 'Nearest_Even'"),
    ("e4m3", {"rounding": 3}, TypeError, "rounding must be a name, got int"),
    ("e4m3", {"rounding": None}, TypeError, "rounding must be a name, got NoneType"),
    ("e4m3", {"overflow": "clamp"}, ValueError, "overflow must be one of saturate, nonsaturating, "),
    ("e4m3", {"overflow": True}, TypeError, "overflow must be a name, got bool"),
    (
        "e4m3",
        {"nan": "quiet"},
        ValueError,
        "nan must be one of canonical, preserve_sign, error, max, zero; got",
    ),
    ("e4m3", {"nan": 256}, ValueError, "nan=0x100 is not a code of 'e4m3'"),
    ("e2m1", {"nan": 16}, ValueError, "nan=0x10 is not a code of 'e2m1'"),
    ("e4m3", {"nan": -1}, ValueError, "nan=-0x1 is not a code of 'e4m3'"),
    ("e4m3", {"nan": 127.0}, TypeError, "nan must be a name, got float"),
    ("e4m3", {"nan": True}, TypeError, "nan must be a name, got bool"),
    ("e8m0", {"negative": "clamp"}, ValueError, "negative must be one of nan, zero, abs, error; got 'clamp'"),
    ("e8m0", {"negative": 0}, TypeError, "negative must be a name, got int"),
    ("e4m3", {"subnormals": "ftz"}, ValueError, "subnormals must be one of keep, flush_input, flush_output; got 'ftz'"),
    ("e4m3", {"subnormals": False}, TypeError, "subnormals must be a name, got bool"),
    ("e4m3", {"saturate": True}, TypeError, "saturate"),
    # pairs that the row cannot carry out
    ("e4m3", {"overflow": "p3109_satnone"}, ValueError, "overflow='p3109_satnone' is for P3109 formats, not 'e4m3'"),
    ("e2m1", {"overflow": "ocp_table3"}, ValueError, "overflow='ocp_table3': format 'e2m1' has neither Inf nor NaN"),
    ("int8", {"overflow": "ocp_table3"}, ValueError, "overflow='ocp_table3': format 'int8' has neither Inf nor NaN"),
    ("nf4", {"rounding": "toward_zero"}, ValueError, "rounding='toward_zero': the table format 'nf4'"),
    ("fp4_bnb", {"rounding": "to_odd"}, ValueError, "rounding='to_odd': the table format 'fp4_bnb'"),
    ("e2m1", {"nan": "canonical"}, ValueError, "nan='canonical': format 'e2m1' has no NaN"),
    ("uint8", {"nan": "preserve_sign"}, ValueError, "nan='preserve_sign': format 'uint8' has no NaN"),
    ("uint8", {"negative": "nan"}, ValueError, "negative='nan': format 'uint8' has no NaN"),
]


@pytest.mark.parametrize(("name", "policies", "error", "text"), BAD_POLICIES)
def test_policies(name: str, policies: dict[str, Any], error: type[Exception], text: str) -> None:
    """The same in every function that takes policies, also for empty arrays."""
    for x in (1.0, np.zeros(0, np.float32)):
        refuses(lambda x=x: encode(x, name, **policies), error, text)
        refuses(lambda x=x: quantize(x, name, **policies), error, text)
    refuses(lambda: convert([0], "e4m3", name, **policies), error, text)


@pytest.mark.parametrize("fmt", ["e4m9", "fp64", "", "minifloat(4)", "binary17p3se", FP64])
def test_formats(fmt: str | Format) -> None:
    for call in (
        lambda: encode(1, fmt),
        lambda: decode([0], fmt),
        lambda: quantize(1.0, fmt),
        lambda: convert([0], fmt, "e4m3"),
        lambda: convert([0], "e4m3", fmt),
        lambda: code_dtype(fmt),
        lambda: check_codes([0], fmt),
        lambda: value_table(fmt),
    ):
        with pytest.raises(ValueError):
            call()
    for call in (encode, decode, quantize):
        refuses(lambda call=call: call([0], 8), TypeError, "fmt must be a format name, a dtype or a Format, got int")
    refuses(lambda: encode(1, FP64), ValueError, "fmt: 'wide' has 64 bits; codes have at most 32")


# --- stochastic operands ----------------------------------------------------------------------

A = {"rounding": "stochastic_a"}
OPERANDS: list[tuple[dict[str, Any], type[Exception], str]] = [
    (A, ValueError, "rounding='stochastic_a' needs random_bits and n_bits"),
    ({**A, "random_bits": 0}, ValueError, "needs random_bits and n_bits"),
    ({**A, "n_bits": 4}, ValueError, "needs random_bits and n_bits"),
    ({**A, "random_bits": [0, 1, 2], "n_bits": 2}, ValueError, "random_bits of shape (3,) do not broadcast to (2,)"),
    ({**A, "random_bits": [[0], [1]], "n_bits": 2}, ValueError, "random_bits of shape (2, 1) do not broadcast to (2,)"),
    ({**A, "random_bits": [0, 4], "n_bits": 2}, ValueError, "random_bits[1] = 0x4 is not in range: 0..0x3"),
    ({**A, "random_bits": -1, "n_bits": 2}, ValueError, "random_bits = -0x1 is not in range: 0..0x3"),
    ({**A, "random_bits": 0.5, "n_bits": 2}, TypeError, "random_bits must be integers, got dtype float64"),
    ({**A, "random_bits": True, "n_bits": 2}, TypeError, "random_bits must be integers, got dtype bool"),
    ({**A, "random_bits": 0, "n_bits": 0}, ValueError, "n_bits must be 1..32, got 0"),
    ({**A, "random_bits": 0, "n_bits": 33}, ValueError, "n_bits must be 1..32, got 33"),
    ({**A, "random_bits": 0, "n_bits": 2.0}, TypeError, "n_bits must be an int, got float"),
    ({"random_bits": 0}, ValueError, "random_bits and n_bits are for stochastic rounding, not 'nearest_even'"),
    ({"rounding": "to_odd", "n_bits": 2}, ValueError, "are for stochastic rounding, not 'to_odd'"),
]


@pytest.mark.parametrize(("policies", "error", "text"), OPERANDS)
def test_random_bits(policies: dict[str, Any], error: type[Exception], text: str) -> None:
    refuses(lambda: encode([1.0, 2.0], "e4m3", **policies), error, text)
    refuses(lambda: quantize([1.0, 2.0], "e4m3", **policies), error, text)
    refuses(lambda: convert([1, 2], "e5m2", "e4m3", **policies), error, text)


# --- codes ------------------------------------------------------------------------------------

BAD_CODES: list[tuple[object, str, type[Exception], str]] = [
    ([1, 256], "e4m3", ValueError, "codes[1] = 0x100 is not a code of 'e4m3': 0..0xff"),
    ([[1, 2], [3, 16]], "e2m1", ValueError, "codes[1, 1] = 0x10 is not a code of 'e2m1': 0..0xf"),
    (np.array([[1, 16], [3, 2]], np.uint8).T, "e2m1", ValueError, "codes[1, 0] = 0x10 "),
    ([1, -1], "e4m3", ValueError, "codes[1] = -0x1 is not a code"),
    (np.array([1, -128], np.int8), "e4m3", ValueError, "codes[1] = -0x80 is not a code of 'e4m3': 0..0xff; int8 has"),
    (np.array([-1], np.int16), "bf16", ValueError, "0..0xffff; int16 has a sign; take .view(np.uint16)"),
    (np.array([1, 128], np.uint8), "ue4m3", ValueError, "codes[1] = 0x80 is not a code of 'ue4m3': 0..0x7f"),
    (np.array([0, 1 << 19], np.uint32), "tf32", ValueError, "codes[1] = 0x80000 is not a code"),
    (np.array([0, 1 << 32]), "fp32", ValueError, "codes[1] = 0x100000000 is not a code"),
    (np.array([0, 2**64 - 1], np.uint64), "fp16", ValueError, "codes[1] = 0xffffffffffffffff is not a code"),
    (-1, "e4m3", ValueError, "codes = -0x1 is not a code"),
    (1.0, "e4m3", TypeError, "codes must be integers, got dtype float64"),
    ([1.0, 2.0], "e4m3", TypeError, "codes must be integers, got dtype float64"),
    (np.zeros(0, np.float32), "e4m3", TypeError, "codes must be integers, got dtype float32"),
    ([True], "e4m3", TypeError, "codes must be integers, got dtype bool"),
    ("1", "e4m3", TypeError, "codes must be integers, got dtype <U1"),
    (None, "e4m3", TypeError, "codes must be integers, got dtype object"),
    ([2**70], "e4m3", TypeError, "codes must be integers, got dtype object"),
    (1j, "e4m3", TypeError, "codes must be integers, got dtype complex128"),
    (np.array([1], ml_dtypes.float8_e4m3fn), "e4m3", TypeError, "codes must be integers, got dtype float8_e4m3fn"),
]


@pytest.mark.parametrize(("codes", "name", "error", "text"), BAD_CODES)
def test_codes(codes: object, name: str, error: type[Exception], text: str) -> None:
    refuses(lambda: decode(codes, name), error, text)
    refuses(lambda: convert(codes, name, "fp32"), error, text)
    refuses(lambda: check_codes(codes, name), error, text)
    refuses(lambda: check_codes(codes, name, "mine"), error, text.replace("codes", "mine", 1))


def test_a_nan_that_cannot_be_converted() -> None:
    refuses(lambda: convert([0x38, 0x7F], "e4m3", "e2m1"), ValueError, "codes[1] = 7F is NaN, and nan='error'")
    refuses(lambda: convert([0x38, 0xB8], "e4m3", "uint4", negative="error"), ValueError, "codes[1] = B8 is negative")


# --- the dtype of decode ----------------------------------------------------------------------

NOT_EXACT: list[tuple[list[int], str, Any, str]] = [
    ([0x7E, 0x01], "e5m2", ml_dtypes.float8_e4m3fn, "codes[1]: the value of 'e5m2' code 01 is not exact"),
    ([0x3C, 0x7C], "e5m2", ml_dtypes.float8_e4m3fn, "codes[1]: the value of 'e5m2' code 7C is not exact"),  # Inf
    ([0x7F, 0x8F], "e8m0", np.float16, "codes[1]: the value of 'e8m0' code 8F is not exact in float16"),  # 2**16
    ([0x3F80, 0x3F81, 0x0001], "bf16", np.float16, "codes[2]: the value of 'bf16' code 0001 is not exact in float16"),
    ([0x00, 0x80], "e4m3", ml_dtypes.float8_e4m3fnuz, "codes[1]: the value of 'e4m3' code 80 is not exact"),  # -0
    ([0x30, 0x38, 0x39], "e4m3", ml_dtypes.float4_e2m1fn, "codes[2]: the value of 'e4m3' code 39 is not exact"),
    ([0x38, 0x7F], "e4m3", ml_dtypes.float4_e2m1fn, "codes[1] = 7F is NaN"),
    ([0x3F800000, 0x3F800001], "fp32", np.float16, "codes[1]: the value of 'fp32' code 3F800001 is not exact"),
    ([0x4000, 0x0001], "binary16p1se", None, "codes[1]: the value of 'binary16p1se' code 0001 is not exact in float64"),
    ([7, 0, 1], "nf4", np.float16, "codes[2]: the value of 'nf4' code 1 is not exact in float16"),  # 0 and -1 are
]


@pytest.mark.parametrize(("codes", "name", "dtype", "text"), NOT_EXACT)
def test_a_value_that_the_dtype_does_not_hold(codes: list[int], name: str, dtype: Any, text: str) -> None:
    refuses(lambda: decode(codes, name, dtype), ValueError, text)


def test_values_that_it_holds_are_given_though_others_of_the_row_are_not_exact() -> None:
    assert decode([0x4000, 0x0000], "binary16p1se").tolist() == [1.0, 0.0]
    assert decode([0x7F], "e8m0", np.float16) == 1 and decode([7, 0], "nf4", np.float16).tolist() == [0.0, -1.0]


def test_result_dtypes() -> None:
    for dtype in (np.int8, "i4", bool, np.complex64, "U4", object, "M8[s]"):
        refuses(lambda dtype=dtype: decode([1], "e4m3", dtype), TypeError, "dtype must be a float dtype")


def test_quantize_names_x() -> None:
    """2**16 is a value of E8M0, and no float16; the caller gave x, not codes."""
    refuses(lambda: quantize(np.array([1, 65504], np.float16), "e8m0"), ValueError, "x[1]")


# --- out --------------------------------------------------------------------------------------

READ_ONLY = np.zeros(2, np.uint8)
READ_ONLY.flags.writeable = False
BAD_OUT: list[tuple[str, Any, type[Exception], str]] = [
    ("e4m3", np.zeros(2, np.int8), TypeError, "out must be an array of uint8, got int8"),
    ("e4m3", np.zeros(2, np.uint16), TypeError, "out must be an array of uint8, got uint16"),
    ("fp16", np.zeros(2, np.uint8), TypeError, "out must be an array of uint16, got uint8"),
    ("fp16", np.zeros(2, ">u2"), TypeError, "out must be an array of uint16, got >u2"),
    ("e4m3", [0, 0], TypeError, "out must be an array of uint8, got list"),
    ("e4m3", bytearray(2), TypeError, "out must be an array of uint8, got bytearray"),
    ("e4m3", np.zeros(3, np.uint8), ValueError, "out has shape (3,), not (2,)"),
    ("e4m3", np.zeros((1, 2), np.uint8), ValueError, "out has shape (1, 2), not (2,)"),
    ("e4m3", np.zeros((), np.uint8), ValueError, "out has shape (), not (2,)"),
    ("e4m3", READ_ONLY, ValueError, "out is read-only"),
    ("e4m3", np.broadcast_to(np.uint8(0), (2,)), ValueError, "out is read-only"),
]


@pytest.mark.parametrize(("name", "out", "error", "text"), BAD_OUT)
def test_out(name: str, out: Any, error: type[Exception], text: str) -> None:
    refuses(lambda: encode([1.0, 2.0], name, out=out), error, text)
    refuses(lambda: convert([1, 2], "e5m2", name, out=out), error, text)


def test_out_of_decode() -> None:
    refuses(lambda: decode([1, 2], "e4m3", out=np.zeros(2, np.int32)), TypeError, "dtype must be a float dtype")
    refuses(lambda: decode([1, 2], "e4m3", np.float32, out=np.zeros(2)), TypeError, "out must be an array of float32")
    refuses(lambda: decode([1, 2], "e4m3", out=np.zeros(3)), ValueError, "out has shape (3,), not (2,)")
    refuses(lambda: quantize(np.float32([1, 2]), "e4m3", out=np.zeros(2)), TypeError, "out must be an array of float32")


LONG = 3 * CHUNK + 5  # the fault lies in the last chunk


def test_nothing_is_written_before_the_last_element_is_checked() -> None:
    x = np.ones(LONG, np.float32)
    x[-1] = NAN
    codes = np.full(LONG, 0x3C)
    codes[-1] = 0x7D  # a NaN of e5m2
    small, wide = np.full(LONG, 0xAA, np.uint8), np.full(LONG, 7.5, np.float32)
    index = f"[{LONG - 1}] = "
    refuses(lambda: encode(x, "e2m1", out=small), ValueError, "x" + index + "7FC00000")
    refuses(lambda: encode(x[::-1], "e2m1", out=small), ValueError, "x[0] = 7FC00000")
    refuses(
        lambda: encode(x.reshape(1, -1, 1), "e2m1", out=small.reshape(1, -1, 1)), ValueError, f"x[0, {LONG - 1}, 0]"
    )
    refuses(lambda: encode(-np.abs(x[:-1]), "uint8", negative="error", out=small[:-1]), ValueError, "x[0] = BF800000")
    refuses(lambda: convert(codes, "e5m2", "e2m1", out=small), ValueError, "codes" + index + "7D")
    codes[-1] = 256
    refuses(lambda: convert(codes, "e5m2", "e2m1", out=small), ValueError, "codes" + index + "0x100")
    refuses(lambda: decode(codes, "e4m3", out=wide), ValueError, "codes" + index + "0x100")
    halves = np.zeros(LONG, np.float16)
    codes[-1] = 0xFE
    refuses(lambda: decode(codes[-1:], "e8m0", out=halves[-1:]), ValueError, "codes[0]: the value of 'e8m0' code FE")
    random = np.zeros(LONG, np.int64)
    random[-1] = 4
    a = {"rounding": "stochastic_a", "random_bits": random, "n_bits": 2}
    refuses(lambda: encode(x, "e4m3", out=small, **a), ValueError, "random_bits" + index + "0x4")
    refuses(lambda: quantize(x, "e2m1", out=wide), ValueError, "x" + index + "7FC00000")
    assert (small == 0xAA).all() and (wide == 7.5).all() and (halves == 0).all()


def test_tables_have_at_most_16_bits() -> None:
    refuses(lambda: value_table("tf32"), ValueError, "fmt: 'tf32' has 19 bits; a table has at most 16")


def test_names_are_names_of_rows() -> None:
    """An error of get_format passes through with its list of close names."""
    refuses(lambda: encode(1.0, "e4m3fm"), ValueError, "fmt: unknown format 'e4m3fm'; close: e4m3fn")
    assert get_format("e4m3fn").name == "e4m3"
