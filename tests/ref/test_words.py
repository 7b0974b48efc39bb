"""Numbers and words: the article's examples, lanes wider than their code, the functions of a format."""

from __future__ import annotations

import doctest
import inspect
import re

import numpy as np
import pytest

from feather_ref import packing, words
from feather_ref.codec import encode
from feather_ref.formats import FORMATS, Format, get_format, minifloat
from feather_ref.words import as_float32, from_float32, make_packer, make_unpacker, pack, unpack

ORDERS = ("little", "big")
ROWS = [*FORMATS.values(), get_format("binary8p3se"), minifloat(4, 3, bias=11), minifloat(1, 29)]


def u32(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


# --- words made by hand -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "values", "little", "big"),
    [
        ("fp16", [0.5, 2.0], "40003800", "38004000"),
        ("e4m3", [0.5, 2.0, 0.75, 3.0], "44344030", "30403444"),
        ("e5m2", [0.5, 2.0, 0.75, 3.0], "423A4038", "38403A42"),
        ("bf16", [1.0, -2.0], "C0003F80", "3F80C000"),
        ("e2m1", [0.5, 6.0], "00000071", "17000000"),
        ("e2m1", [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0], "87654321", "12345678"),
        ("e2m3", [1.0, 2.0, 3.0, 4.0, 1.0], "08614408", "21051820"),  # 001000 010000 010100 011000 001000
        ("int4", [-8, 7, -1, 1], "00001F78", "87F10000"),
        ("tf32", [1.0, -0.5], "3F800000 BF000000", "3F800000 BF000000"),
        ("tf32", [1 + 2**-10], "3F802000", "3F802000"),
        ("fp32", [2.0**-149], "00000001", "00000001"),
        ("ue4m3", [448.0, 0.0, 1.0], "0038007E", "7E003800"),
        ("e8m0", [1.0, 2.0**127], "0000FE7F", "7FFE0000"),
        ("uf11", [1.0, 1.0, 1.0], "F01E03C0 00000000", "780F01E0 00000000"),
    ],
)
def test_hand_made_words(fmt: str, values: list[float], little: str, big: str) -> None:
    for order, text in (("little", little), ("big", big)):
        want = bytes.fromhex(text)
        got = pack(values, fmt, order)
        assert got.astype(">u4").tobytes().hex() == want.hex()
        assert unpack(got, fmt, len(values), order).tobytes() == np.array(values, np.float32).tobytes()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_code_comes_back(row: Format, order: str) -> None:
    last = row.code_mask
    codes = np.arange(last + 1) if row.bits <= 11 else np.random.default_rng(0).integers(0, last + 1, 999)
    packed = words.codes_to_words(codes, row, order)
    assert packed.shape == (-(-len(codes) * row.storage_bits // 32),)
    back = words.words_to_codes(packed, row, len(codes), order, strict=True)
    assert back.dtype.itemsize == (1 if row.bits <= 8 else 2 if row.bits <= 16 else 4)
    assert back.tolist() == codes.tolist()


def test_shapes() -> None:
    assert pack(1.0, "e4m3").tolist() == [0x38]
    assert pack([], "e4m3").shape == (0,)
    assert pack(np.ones((3, 0)), "e4m3").shape == (3, 0)
    assert pack(np.ones((0, 5)), "e4m3").shape == (0, 2)
    assert pack(np.ones((2, 3, 5)), "e3m2").shape == (2, 3, 1)
    assert unpack(np.zeros((2, 3, 1), np.uint32), "e3m2").shape == (2, 3, 5)
    assert unpack(np.uint32(0x38), "e4m3", 1).tolist() == [1.0]


def test_policies_reach_the_codec() -> None:
    x = np.array([1000.0, 1.0625, np.nan], np.float32)
    assert pack(x, "e4m3").tolist() == [0x7F387E]
    assert pack(x, "e4m3", overflow="nonsaturating", nan=0xFF).tolist() == [0xFF387F]
    assert pack(x, "e4m3", "big", rounding="toward_positive").tolist() == [0x7E397F00]
    assert pack([1.0625, 1.0625], "e4m3", rounding="stochastic_a", random_bits=[0, 1], n_bits=1).tolist() == [0x3938]
    assert make_packer("e4m3")(x, overflow="nonsaturating").tolist() == [0x7F387F]


def test_dtype_of_the_values() -> None:
    assert unpack(u32(0x38), "e4m3", 1).dtype == np.float32
    assert unpack(u32(0x38), "e4m3", 1, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match=re.escape("codes[0]: the value of 'fp32' code 7F7FFFFF")):
        unpack(u32(0x7F7FFFFF), "fp32", dtype=np.float16)


# --- lanes wider than their code --------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "good", "bad", "index"),
    [
        ("ue4m3", 0x38007E01, 0x38807E01, "[2]"),
        ("tf32", 0x3F802000, 0x3F802001, "[0]"),
        ("tf32", 0x3F802000, 0x3F803000, "[0]"),
        (Format("five", 5, exponent_bits=2, mantissa_bits=2, bias=1, storage_bits=16, storage_shift=3), 8, 4, "[0]"),
    ],
)
def test_bits_outside_the_code(fmt: str | Format, good: int, bad: int, index: str) -> None:
    want = unpack(u32(good), fmt)
    with pytest.raises(ValueError, match=re.escape(f"lane{index} = 0x")):
        unpack(u32(bad), fmt)
    loose = unpack(u32(bad), fmt, strict=False)
    if bad > good:
        assert loose.tobytes() == want.tobytes()
    else:  # the one bit lies below the code
        assert loose.tolist() == [0.0, 0.0]


def test_lanes_have_their_shift() -> None:
    five = Format("five", 5, exponent_bits=2, mantissa_bits=2, bias=1, storage_bits=16, storage_shift=3)
    assert pack([1.0, 7.0], five).tolist() == [0x00780020]  # codes 04 and 0F


# --- one pair of functions a format -----------------------------------------------------------


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_functions_of_a_format(row: Format) -> None:
    packer, unpacker = make_packer(row), make_unpacker(row)
    assert list(inspect.signature(packer).parameters) == ["x", "order", "policies"]
    assert list(inspect.signature(unpacker).parameters) == ["words", "n", "order", "strict", "dtype"]
    runner = doctest.DocTestRunner(verbose=False)
    for function in (packer, unpacker):
        assert function.__name__.isidentifier()
        names = {function.__name__: function}
        for case in doctest.DocTestFinder().find(function, function.__name__, globs=names, module=False):
            assert case.examples
            runner.run(case)
    assert runner.summarize(verbose=False) == (0, 3)
    for order in ORDERS:
        got = packer([1.0, 0.5, 1.0], order)
        assert got.tolist() == pack([1.0, 0.5, 1.0], row, order).tolist()
        assert unpacker(got, 3, order).tolist() == unpack(got, row, 3, order).tolist()


def test_names() -> None:
    assert make_packer("float8_e4m3fn").__name__ == "pack_e4m3"
    assert make_unpacker("float8_e4m3fn").__name__ == "unpack_e4m3"
    assert make_packer("minifloat(4, 3, bias=11)").__name__ == "pack_minifloat_4_3_bias_11"


# --- a float32 container ----------------------------------------------------------------------

ODD_WORDS = u32(0x7F800001, 0xFF812345, 0x7FC00000, 0xFFFFFFFF, 0x00000001, 0x80000000, 0x38004000, 0)


@pytest.mark.parametrize("dtype", ["<u4", ">u4"])
def test_views_keep_every_bit(dtype: str) -> None:
    source = ODD_WORDS.astype(dtype)
    container = as_float32(source)
    assert np.shares_memory(container, source)
    assert container.dtype == dtype.replace("u", "f")
    moved = container.reshape(2, 4)[::-1].copy()[::-1].ravel()
    assert from_float32(moved).astype(np.uint32).tolist() == ODD_WORDS.tolist()
    assert as_float32(np.uint32(1)).shape == ()


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        (lambda a: a * 1, 0x7F800001, 0x7FC00001),
        (lambda a: np.float32([a.item()]), 0x7F800001, 0x7FC00001),
        (lambda a: np.array(a.tolist(), np.float32), 0x7F800001, 0x7FC00001),
        (lambda a: a.astype(np.float64).astype(np.float32), 0x7F800001, 0x7FC00001),
        (lambda a: a + 0, 0x80000000, 0x00000000),
    ],
)
def test_hazards(change: object, before: int, after: int) -> None:
    with np.errstate(invalid="ignore"):
        changed = change(as_float32(u32(before)))
    assert from_float32(changed).tolist() == [after]


def test_order_and_equality_are_those_of_numbers() -> None:
    container = as_float32(u32(0x3F800000, 0xBF800000))
    assert from_float32(np.sort(container)).tolist() == [0xBF800000, 0x3F800000]
    assert (as_float32(u32(0)) == as_float32(u32(0x80000000))).all()
    assert not (as_float32(u32(0x7FC00000)) == as_float32(u32(0x7FC00000))).any()


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: pack([1.0, np.nan], "e2m1"), ValueError, "x[1] = 7FF8000000000000 is NaN"),
        (lambda: pack([1.0], "e4m3", "up"), ValueError, "order must be one of little, big; got 'up'"),
        (lambda: pack([1.0], "e4m9"), ValueError, "fmt: unknown format 'e4m9'"),
        (lambda: pack([1.0], "e4m3", report=True), TypeError, "'report'"),
        (lambda: pack([1.0], "e4m3", out=np.zeros(1, np.uint8)), TypeError, "'out'"),
        (lambda: pack([1.0], "e4m3", rounds="up"), TypeError, "'rounds'"),
        (lambda: pack([1.0], Format("w", 64, kind="integer")), ValueError, "fmt: 'w' has lanes of 64 bits"),
        (lambda: make_packer(Format("w", 64, kind="integer")), ValueError, "fmt: 'w' has lanes of 64 bits"),
        (lambda: unpack(u32(1)), TypeError, "fmt is missing"),
        (lambda: unpack(u32(1), "e4m3", 5), ValueError, "n must be 0..4, got 5"),
        (lambda: unpack(u32(0x3838), "e4m3", 1), ValueError, "words[0] = 0x00003838"),
        (lambda: unpack(np.zeros(1), "e4m3"), TypeError, "words must be uint32, got dtype float64"),
        (lambda: words.codes_to_words([0x80], get_format("ue4m3"), "little"), ValueError, "codes[0] = 0x80"),
        (lambda: as_float32(np.zeros(1)), TypeError, "words must be uint32, got dtype float64"),
        (lambda: from_float32(np.zeros(1)), TypeError, "container must be a float32 array, got dtype float64"),
        (lambda: from_float32([1.0]), TypeError, "container must be a float32 array, got list"),
    ],
)
def test_refusals(call: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()


def test_pack_is_encode_then_pack_codes() -> None:
    x = np.random.default_rng(2).standard_normal((3, 2, 37)).astype(np.float32)[:, ::-1].T
    for row in FORMATS.values():
        lanes = encode(x, row, negative="zero" if row.has_zero else "abs").astype(np.uint32) << row.storage_shift
        for order in ORDERS:
            got = pack(x, row, order, negative="zero" if row.has_zero else "abs")
            assert got.tolist() == packing.pack_codes(lanes, row.storage_bits, order).tolist()
