"""diff: seeded wrong packers are recognised as what they are; reports typed by hand; classes; errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from html.parser import HTMLParser
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import feather_ref as fr
from feather_ref._hypotheses import SAMPLE
from feather_ref.diff import CLASSES, WIDTH, Diff, diff
from feather_ref.formats import get_format
from feather_ref.packing import pack_codes
from feather_ref.profiles import PROFILES

Array = NDArray[Any]
NANS = np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32)


def numbers(name: str, shape: tuple[int, ...] = (3, 64), special: bool = True) -> Array:
    """Numbers from far below the least value of a format to beyond the greatest, ties and specials among them."""
    row = get_format(name)
    dtype = np.float32 if row.max < 2.0**120 else np.float64
    rng = np.random.default_rng(row.bits)
    size = int(np.prod(shape))
    top, low = np.log2(row.max) + 2, np.log2(row.min_subnormal or row.min_normal) - 2
    x = (rng.choice([-1, 1], size) * 2 ** rng.uniform(low, top, size)).astype(dtype)
    codes = rng.integers(0, row.max_magnitude if row.kind == "float" else 1 << row.bits - 1, size // 4)
    x[: codes.size] = [float(row.exact(code) + row.exact(code + 1)) / 2 for code in codes.tolist()]
    rng.shuffle(x)
    if special:
        x[5:13] = [row.max * 4, -row.max * 4, np.inf, -np.inf, 0.0, -0.0, *NANS]
    return x.reshape(shape)


def check(found: Diff, *texts: str) -> None:
    """The hypotheses, all of which explain everything; the first ones by their texts."""
    assert found and not found.equal
    assert [hypothesis.left for hypothesis in found.hypotheses] == [0] * len(found.hypotheses)
    assert [hypothesis.text for hypothesis in found.hypotheses][: len(texts)] == list(texts)
    assert sum(found.classes.values()) == found.count
    assert max(map(len, str(found).split("\n"))) <= WIDTH


# --- seeded faults: policies ------------------------------------------------------------------

# format, what the packer does otherwise, what diff is told, what it says first
RECIPES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    *(("e4m3", {"rounding": name}, {}, f"rounding={name!r}") for name in fr.ROUNDINGS[1:6]),
    *(("bf16", {"rounding": name}, {}, f"rounding={name!r}") for name in fr.ROUNDINGS[1:6]),
    ("e4m3", {}, {"rounding": "toward_zero"}, "rounding='nearest_even'"),
    ("e4m3", {"overflow": "nonsaturating"}, {}, "overflow='nonsaturating'"),
    ("e5m2", {"overflow": "propagate"}, {}, "overflow='propagate'"),
    ("fp16", {"overflow": "saturate"}, {}, "overflow='saturate'"),
    ("e4m3", {"nan": "preserve_sign"}, {}, "nan='preserve_sign'"),
    ("e4m3", {"nan": "max"}, {}, "nan='max'"),
    ("e4m3", {"nan": "zero"}, {}, "nan='zero'"),
    ("e5m2", {"nan": 0x7D}, {}, "nan=0x7D"),
    ("e5m2", {"nan": (0x7E, 0xFE)}, {}, "nan=(0x7E, 0xFE)"),
    ("e2m1", {"nan": 0x8}, {"nan": "max"}, "nan=0x8"),
    ("ue4m3", {"negative": "abs"}, {}, "negative='abs'"),
    ("ue4m3", {"negative": "zero"}, {}, "negative='zero'"),
    ("e8m0", {"negative": "abs"}, {}, "negative='abs'"),
    ("e8m0", {"rounding": "nearest_away"}, {}, "rounding='nearest_away'"),
    ("e4m3", {"subnormals": "flush_output"}, {}, "subnormals='flush_output'"),
    ("e4m3", {"profile": "torch<=2.11"}, {}, "profile='ml_dtypes'"),  # the same choices
    ("e5m2", {"profile": "ml_dtypes"}, {}, "profile='ml_dtypes'"),
    ("e5m2", {"profile": "torch>=2.12"}, {}, "profile='torch>=2.12'"),
    ("e5m2", {"profile": "onnx"}, {"nan": 0x7D}, "nan=(0x7E, 0xFE)"),
    ("e5m2", {"profile": "hip"}, {}, "profile='hip'"),
    ("e8m0", {"profile": "cuda-nosat"}, {}, "profile='cuda-nosat'"),
    ("e4m3", {}, {"profile": "ml_dtypes"}, "profile='cuda-satfinite'"),  # the row's own defaults
]


@pytest.mark.parametrize(("name", "fault", "told", "text"), RECIPES)
def test_one_other_policy(name: str, fault: dict[str, Any], told: dict[str, Any], text: str) -> None:
    x = numbers(name)
    check(diff(fr.encode(x, name, **fault), x, name, **told), text)


PAIRS: list[tuple[str, dict[str, Any], str]] = [
    (
        "e4m3", {"rounding": "toward_zero", "overflow": "ocp_table3"},
        "rounding='toward_zero' and overflow='ocp_table3'",
    ),
    ("e4m3", {"rounding": "nearest_away", "nan": "max"}, "rounding='nearest_away' and nan='max'"),
    (
        "e5m2", {"rounding": "toward_zero", "subnormals": "flush_output"},
        "rounding='toward_zero' and subnormals='flush_output'",
    ),
    ("ue4m3", {"negative": "abs", "rounding": "toward_zero"}, "rounding='toward_zero' and negative='abs'"),
    ("e5m2", {"profile": "hip", "rounding": "nearest_away"}, "rounding='nearest_away' and profile='hip'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fault", "text"), PAIRS)
def test_two_other_policies(name: str, fault: dict[str, Any], text: str) -> None:
    x = numbers(name)
    check(diff(fr.encode(x, name, **fault), x, name), text)


def test_flushing_of_the_input() -> None:
    x = np.array([2.0**-15, 3 * 2.0**-16, 1.0, 2.0**-14], np.float16)  # two subnormals of float16
    check(diff(np.array([0, 0, 0x3C, 0x04]), x, "e5m2"), "subnormals='flush_input'")


# numbers that are rounded twice on the way: their codes if they are, typed from the definition
TWICE = [
    ("fp16", "e4m3", np.float32(1.0625 + 2.0**-20), 0x38, 0x39),
    ("bf16", "e4m3", np.float32(1.0625 + 2.0**-10), 0x38, 0x39),
    ("fp32", "e4m3", np.float64(1.0625 + 2.0**-40), 0x38, 0x39),
    ("fp32", "bf16", np.int64(16973823), 0x4B82, 0x4B81),
]


@pytest.mark.parametrize(("between", "name", "x", "twice", "once"), TWICE)
def test_another_format_between(between: str, name: str, x: Any, twice: int, once: int) -> None:
    many = np.array([x, x.dtype.type(1), -x, x.dtype.type(3)])
    mine = fr.encode(many, name)
    assert mine[0] == once
    mine[0], mine[2] = twice, twice | get_format(name).sign_mask
    found = diff(mine, many, name)
    texts = [hypothesis.text for hypothesis in found.hypotheses]
    assert f"x rounded to {between} first" in texts
    assert all(text.startswith(("x rounded", "rounding='toward_zero'")) for text in texts)


def test_another_format() -> None:
    x = numbers("e4m3")
    check(diff(fr.encode(x, "e4m3fnuz"), x, "e4m3"), "fmt='e4m3fnuz'")
    check(diff(fr.encode(x, "e4m3"), x, "e5m2"), "fmt='e4m3'")
    x = numbers("int8", special=False)
    check(diff(fr.encode(x, "mxint8"), x, "int8"), "fmt='mxint8'")


def test_a_policy_that_makes_nothing_an_error() -> None:
    x = np.abs(numbers("ue4m3", special=False))
    check(diff(fr.encode(x, "ue4m3", rounding="toward_zero"), x, "ue4m3", negative="error"), "rounding='toward_zero'")
    x[0, 0] = -1
    found = diff(fr.encode(x, "ue4m3", negative="abs"), x, "ue4m3")
    check(found, "negative='abs'")  # "error" is not tried, nor formats that would refuse
    x = numbers("e2m1", special=False)
    check(diff(fr.encode(x, "e2m1", rounding="to_odd"), x, "e2m1"), "rounding='to_odd'")  # nan is "error" there


@pytest.mark.parametrize("profile", [name for name in PROFILES if "e5m2" in PROFILES[name].choices])
def test_every_profile_is_tried(profile: str) -> None:
    x = np.array([1e6, np.inf, *NANS], np.float32)
    found = diff(fr.encode(x, "e5m2", profile=profile), x, "e5m2", nan=0)
    assert f"profile={profile!r}" in {hypothesis.text for hypothesis in found.hypotheses}


# --- seeded faults: lanes, bytes, bits ----------------------------------------------------------


def swap_halves(words: Array) -> Array:
    return words << 16 | words >> 16


def swap_nibbles(words: Array) -> Array:
    return (words & 0x0F0F0F0F) << 4 | words >> 4 & 0x0F0F0F0F


WORDS: list[tuple[str, Callable[[Array, int], Array], str]] = [
    *((name, lambda codes, width: pack_codes(codes, width, "big"), "order='big'") for name in ("e4m3", "e2m1", "e3m2")),
    ("fp16", lambda codes, width: pack_codes(codes, width, "big"), "order='big'"),
    ("e2m1", lambda codes, width: pack_codes(codes, width).byteswap(), "the bytes of each word swapped"),
    ("fp16", lambda codes, width: pack_codes(codes, width).byteswap(), "the bytes of each word swapped"),
    ("e3m2", lambda codes, width: pack_codes(codes, width).byteswap(), "the bytes of each word swapped"),
    ("e4m3", lambda codes, width: swap_halves(pack_codes(codes, width)), "the 16-bit halves of each word swapped"),
    ("e2m1", lambda codes, width: swap_halves(pack_codes(codes, width)), "the 16-bit halves of each word swapped"),
    ("e2m1", lambda codes, width: swap_nibbles(pack_codes(codes, width)), "the nibbles of each byte swapped"),
    ("e3m2", lambda codes, width: swap_nibbles(pack_codes(codes, width)), "the nibbles of each byte swapped"),
    ("e4m3", lambda codes, width: swap_nibbles(pack_codes(codes, width)), "the nibbles of each code swapped"),
]


@pytest.mark.parametrize(("name", "pack", "text"), WORDS)
def test_words_turned_over(name: str, pack: Callable[[Array, int], Array], text: str) -> None:
    row, x = get_format(name), numbers(name, (3, 62), special=False)
    check(diff(pack(fr.encode(x, row), row.storage_bits), x, row), text)


LANES: list[tuple[str, Callable[[Array], Array], str]] = [
    ("e4m3", lambda codes: codes.reshape(3, 32, 2)[..., ::-1].reshape(3, 64), "neighbouring elements swapped"),
    ("e4m3", lambda codes: codes[:, ::-1], "the elements of each row reversed"),
    ("e4m3", lambda codes: codes.T.reshape(3, 64), "transposed"),
    ("fp16", lambda codes: codes.byteswap(), "the bytes of each code swapped"),
    ("e4m3", lambda codes: codes << 4 | codes >> 4, "the nibbles of each code swapped"),
    ("int8", lambda codes: codes ^ 0x80, "the top bit of each code turned over (offset binary)"),
    ("uint8", lambda codes: codes ^ 0x80, "the top bit of each code turned over (offset binary)"),
    ("e4m3", lambda codes: codes ^ 0x80, "the top bit of each code turned over (offset binary)"),
    (
        "int8", lambda codes: np.where(codes > 0x80, 0x180 - codes.astype(int), codes).astype(np.uint8),
        "sign and magnitude, not two's complement",
    ),
    (
        "e2m1",  # ggml: byte j holds element j below element j + 16
        lambda codes: codes.reshape(3, 2, 2, 16).swapaxes(-1, -2).reshape(3, 64),
        "elements j and j+16 of each 32 in one byte (ggml)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "move", "text"), LANES)
def test_codes_moved(name: str, move: Callable[[Array], Array], text: str) -> None:
    row = get_format(name)
    x = numbers(name, special=False)
    x = np.where(np.abs(x) < row.max, x, 1) if row.kind == "integer" else x  # -128 has no such code
    check(diff(move(fr.encode(x, row)), x, row), text)


@pytest.mark.parametrize("n", [63, 64])
def test_neighbours_of_an_odd_row(n: int) -> None:
    x = numbers("e4m3", (2, n), special=False)
    codes = fr.encode(x, "e4m3")
    mine = codes.copy()
    mine[:, 0 : n - 1 : 2], mine[:, 1::2] = codes[:, 1::2], codes[:, 0 : n - 1 : 2]
    check(diff(mine, x, "e4m3"), "neighbouring elements swapped")


def test_an_order_and_a_policy() -> None:
    x = numbers("e4m3")
    check(diff(fr.pack(x, "e4m3", "big", nan="max"), x, "e4m3"), "order='big' and nan='max'")
    check(diff(fr.pack(x, "e4m3"), x, "e4m3", order="big", nan="max"), "order='little' and nan='canonical'")


def test_an_order_and_a_move() -> None:
    x = numbers("e4m3")
    check(diff(fr.pack(x[:, ::-1], "e4m3", "big"), x, "e4m3"), "order='big' and the elements of each row reversed")


# --- equal, and beyond explanation --------------------------------------------------------------


def test_equal() -> None:
    x = numbers("e4m3")
    found = diff(fr.pack(x, "e4m3", "big", profile="ml_dtypes"), x, "e4m3", order="big", profile="ml_dtypes")
    assert found.equal and not found
    assert (found.count, found.first, found.worst, found.steps, dict(found.classes)) == (0, None, None, 0, {})
    assert (found.hypotheses, found.tried) == ((), 0)
    assert str(found) == "all 192 codes equal e4m3, profile='ml_dtypes' (words, order='big')"
    assert str(diff(fr.encode(x, "e4m3", nan=3), x, "e4m3", nan=3)) == "all 192 codes equal e4m3, nan=0x03 (codes)"


def test_random_codes_are_not_explained() -> None:
    x = numbers("e4m3", (64, 64))
    found = diff(np.random.default_rng(5).integers(0, 256, x.shape), x, "e4m3")
    assert found.hypotheses == () and found.tried > 100
    assert found.count > 4000 and sum(found.classes.values()) == found.count
    assert f"\nnothing explains half of it ({found.tried} hypotheses tried)" in str(found)
    assert "by class: 2 NaN, " in str(found)


def test_most_is_explained() -> None:
    """A packer that truncates, and has a stuck bit in one place."""
    x = numbers("e4m3")
    mine = fr.encode(x, "e4m3", rounding="toward_zero")
    mine[2, 60] ^= 0x10
    found = diff(mine, x, "e4m3")
    assert found.hypotheses[0] == replace(found.hypotheses[0], text="rounding='toward_zero'", left=1)
    assert f"nothing explains all of it ({found.tried} hypotheses tried); nearest:\n" in str(found)
    assert "\n  rounding='toward_zero' leaves 1\n" in str(found)


def test_a_rare_fault_among_many_elements() -> None:
    """Found on a sample, counted on all: a second change that touches 3 of 262,144 elements."""
    x = np.random.default_rng(2).uniform(1, 2, (512, 512)).astype(np.float32)
    x[[7, 99, 500], [3, 3, 500]] = np.nan
    found = diff(fr.pack(x, "e4m3", "big", nan=0x55), x, "e4m3")
    check(found, "order='big' and nan=0x55")
    found = diff(np.random.default_rng(5).integers(0, 256, x.shape), x, "e4m3")
    assert found.sampled <= 2 * SAMPLE
    assert f"hypotheses tried, ranked on {found.sampled} elements)" in str(found)


# --- classes ------------------------------------------------------------------------------------

# format, x, the wrong code, class; the right code is never the wrong one
PLACES: list[tuple[str, Any, int, str]] = [
    ("e4m3", np.nan, 0x00, "NaN"), ("e4m3", np.inf, 0x00, "overflow"), ("e4m3", 449.0, 0x00, "overflow"),
    ("e4m3", -464.0, 0x00, "overflow"), ("e4m3", 448.0, 0x00, "exact"), ("e4m3", 0.0, 0x80, "zero"),
    ("e4m3", -0.0, 0x10, "zero"), ("e4m3", -1e-9, 0x00, "zero"), ("e4m3", -1e-9, 0x81, "subnormal"),
    ("e4m3", 1.0625, 0x39, "tie"), ("e4m3", 2.0**-10, 0x01, "tie"), ("e4m3", 1.5 * 2.0**-8, 0x04, "subnormal"),
    ("e4m3", 1.3 * 2.0**-8, 0x04, "subnormal"), ("e4m3", 1.99, 0x3F, "carry"), ("e4m3", 1.9, 0x3E, "inexact"),
    ("e4m3", 2.0**-6 * 0.99, 0x07, "subnormal"), ("e4m3", 1.0625 + 2.0**-40, 0x38, "inexact"),
    ("e4m3", 2.0**-6, 0x07, "exact"),
    ("e2m1", 6.5, 0x6, "overflow"), ("e2m1", 5.0, 0x7, "tie"), ("e2m1", 0.3, 0x0, "subnormal"),
    ("e8m0", 3.0, 0x81, "tie"), ("e8m0", 2.0, 0x81, "exact"), ("e8m0", 2.0**-128, 0x01, "subnormal"),
    ("e8m0", 0.0, 0xFF, "zero"), ("e8m0", -2.0, 0x80, "negative"), ("e8m0", 2.0**128, 0xFF, "overflow"),
    ("e8m0", 1.9, 0x7F, "inexact"), ("ue4m3", -2.0, 0x00, "negative"), ("ue4m3", -0.0, 0x01, "zero"),
    ("e4m3fnuz", -1e-9, 0x80, "subnormal"), ("e4m3fnuz", 241.0, 0x7E, "overflow"),
    ("int8", 127.25, 0x00, "overflow"), ("int8", -128, 0x00, "exact"), ("int8", -129, 0x00, "overflow"),
    ("int8", -128.5, 0x00, "overflow"), ("int8", 2.5, 0x03, "tie"), ("int8", 2.25, 0x03, "inexact"),
    ("int8", np.int64(1 << 40), 0x00, "overflow"), ("uint8", -1.0, 0xFF, "negative"),
    ("uint8", 300.0, 0x00, "overflow"), ("nf4", 0.07958029955625534 / 2, 0x8, "tie"),
    ("nf4", 2.0, 0x0, "overflow"), ("nf4", 0.9, 0x0, "inexact"), ("nf4", 1.0, 0x0, "exact"),
    ("fp4_bnb", 0.375, 0x5, "inexact"), ("fp4_bnb", 1 / 3, 0x0, "inexact"), ("fp4_bnb", -0.75, 0x0, "inexact"),
    ("fp16", 65520.0, 0x7BFF, "overflow"), ("fp16", 1 + 2.0**-11, 0x3C01, "tie"), ("bf16", 1e39, 0x0000, "overflow"),
    ("fp32", 1 + 2.0**-24, 0x3F800001, "tie"), ("fp32", 2 - 2.0**-26, 0x3F800001, "carry"),
    ("binary8p3se", 2.0**20, 0x00, "overflow"), ("tf32", 1 + 2.0**-11, 0x1FC01, "tie"),
    ("e4m3", np.longdouble(1.0625), 0x39, "tie"), ("e4m3", np.longdouble("1e-4000"), 0x01, "subnormal"),
    ("e4m3", np.float16(1.0625), 0x39, "tie"), ("e4m3", ml_dtypes.bfloat16(1.0625), 0x39, "tie"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "x", "code", "expected"), PLACES)
def test_classes(name: str, x: Any, code: int, expected: str) -> None:
    found = diff(np.array([code]), np.array([x]), name, kind="codes")
    assert dict(found.classes) == {expected: 1}


def test_every_class_is_met() -> None:
    assert {expected for *_, expected in PLACES} == set(CLASSES)


def test_first_and_worst() -> None:
    x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    mine = np.array([[0x38, 0x41, 0x44], [0x48, 0x4A, 0xCC]])  # right: 38 40 44 48 4A 4C
    found = diff(mine, x, "e4m3")
    assert (found.count, found.size, found.first, found.worst) == (2, 6, (0, 1), (1, 2))
    assert found.steps == 2 * 0x4C + 1  # from -6 up over -0 and +0 to 6
    assert dict(found.classes) == {"exact": 2}
    assert found.mine.tolist() == mine.tolist() and found.want.tolist() == [[0x38, 0x40, 0x44], [0x48, 0x4A, 0x4C]]


def test_the_worst_is_the_first_of_the_worst() -> None:
    x = np.ones((300, 300), np.float32)  # more than one chunk
    found = diff(np.full(x.shape, 0x39), x, "e4m3")
    assert (found.count, found.first, found.worst, found.steps) == (90000, (0, 0), (0, 0), 1)
    assert dict(found.classes) == {"exact": 90000}


# --- NaN ----------------------------------------------------------------------------------------


def test_any_nan_is_equal_if_one_says_so() -> None:
    x = np.array([1.0, *NANS], np.float32)
    mine = np.array([0x3C, 0x7E, 0xFD])
    assert diff(mine, x, "e5m2").count == 2
    assert str(diff(mine, x, "e5m2", nan_equal=True)) == "all 3 codes equal e5m2, any NaN equal (codes)"
    assert diff(np.array([0x3C, 0x7C, 0xFD]), x, "e5m2", nan_equal=True).first == (1,)  # Inf is no NaN
    assert diff(np.array([0x7F, 0x7F, 0x7F]), x, "e5m2", nan_equal=True).first == (0,)
    found = diff(np.array([0x3D, 0x7F, 0xFD]), x, "e5m2", nan_equal=True)
    assert "  want [0..2]  3C 7F 7F\n               ^^\n" in str(found)


# --- reports, typed by hand ---------------------------------------------------------------------


def test_report_of_codes() -> None:
    x = np.array([0.5, 465.0, -1000.0, 2.0**-10, np.nan], np.float32)
    found = diff(np.array([0x30, 0x7F, 0xFF, 0x00, 0x7F]), x, "e4m3")
    assert str(found) == repr(found)
    assert str(found).split("\n") == [
        "2 of 5 codes differ from e4m3",
        "",
        "first and worst [1]: overflow, 1 step",
        "  x     465.0 = 0x1.d1p+8 (43E88000)",
        "  mine  7F  0 1111 111  NaN",
        "  want  7E  0 1111 110  448",
        "",
        "by class: 2 overflow",
        "  mine [0..4]  30 7F FF 00 7F",
        "  want [0..4]  30 7E FE 00 7F",
        "                  ^^ ^^",
        "",
        "each of these makes all equal:",
        "  overflow='nonsaturating'",
        "  overflow='ocp_table3'",
        "  profile='ml_dtypes'",
        "  profile='torch<=2.11'",
        "  profile='cuda-nosat'",
        "  profile='riscv'",
    ]


def test_report_of_words() -> None:
    found = diff(np.array([0x38004000], np.uint32), np.array([0.5, 2.0], np.float32), "fp16")
    assert str(found).split("\n") == [
        "2 of 2 codes differ from fp16 (words, order='little')",
        "",
        "first and worst [0]: exact, 2048 steps",
        "  x     0.5 = 0x1p-1 (3F000000)",
        "  mine  4000  0 10000 0000000000  2",
        "  want  3800  0 01110 0000000000  0.5",
        "",
        "by class: 2 exact",
        "  mine [0..1]  4000 3800",
        "  want [0..1]  3800 4000",
        "               ^^^^ ^^^^",
        "  word [0]  mine 38004000  want 40003800",
        "",
        "each of these makes all equal:",
        "  order='big'",
        "  the elements of each row reversed",
    ]


def test_report_of_a_scaled_tensor() -> None:
    packed = fr.pack_tensor(np.array([[6.0, -3.0, 1.0]], np.float32), "e2m1", scale="row", scale_rule="pow2")
    assert (packed.scale.tolist(), packed.words.tolist()) == ([[1.0]], [[0x2D7]])
    x = np.array([[12.0, -6.0, 3.0]], np.float32)
    twice = replace(packed, scale=np.array([[2.0]], np.float32))
    lines = str(diff(twice, x, order="little")).split("\n")
    assert lines[:10] == [
        "1 of 3 codes differs from e2m1 (words, order='little')",
        "",
        "first and worst [0, 2]: exact, 1 step",
        "  x     3.0 = 0x1.8p+1 (40400000)",
        "  scale 2.0 = 0x1p+1 (40000000)",
        "  mine  2  0 01 0  1",
        "  want  3  0 01 1  1.5",
        "",
        "by class: 1 exact",
        "  mine [0, 0..2]  7 D 2",
    ]


def test_report_of_one_number() -> None:
    lines = str(diff(3, 1, "e4m3")).split("\n")
    assert lines[:5] == [
        "1 of 1 codes differs from e4m3",
        "",
        "first and worst: exact, 53 steps",
        "  x     1 = 0x1 (0000000000000001)",
        "  mine  03  0 0000 011  0.005859375",
    ]
    assert "  mine  03\n  want  38\n        ^^\n" in str(diff(3, 1, "e4m3"))


def test_bits_outside_the_codes() -> None:
    words = fr.pack_codes([0x30, 0x40, 0x34, 0x44, 0x38], 8)
    words[1] |= 0x8000
    found = diff(words, [0.5, 2.0, 0.75, 3.0, 1.0], "e4m3")
    assert (found.count, found.stray, bool(found)) == (0, 1, True)
    assert str(found).split("\n")[:3] == [
        "0 of 5 codes differ from e4m3 (words, order='little'); stray bits in 1 word",
        "",
        "word [1] 00008038: the bits 00008000 are outside the codes",
    ]
    words = fr.pack([0.5, 2.0, 0.75, 3.0, 1.0], "e4m3", "big") | np.uint32([0, 1])
    found = diff(words, [0.5, 2.0, 0.75, 3.0, 1.0], "e4m3")
    assert (found.hypotheses[0].text, found.hypotheses[0].left) == ("order='big'", 1)
    tf32 = np.array([0x3F800000, 0x3F800001], np.uint32)  # the lowest 13 bits of a lane are no code
    assert diff(tf32, [1.0, 1.0], "tf32", kind="words").stray == 1


class _Reader(HTMLParser):
    """Checks that elements close in order, and keeps the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_html_says_the_same() -> None:
    x = numbers("e5m2")
    found = diff(fr.encode(x, "e5m2", profile="torch>=2.12"), x, "e5m2")
    reader = _Reader()
    reader.feed(found._repr_html_())
    assert reader.open == []
    lines = {line.strip() for line in str(found).split("\n")}
    missing = [text for text in reader.text if text not in lines]
    assert missing == [] and "profile='torch>=2.12'" in reader.text  # > was escaped
    assert "all 2 codes equal" in diff([0x38, 0x40], [1.0, 2.0], "e4m3")._repr_html_()


# --- what it takes ------------------------------------------------------------------------------


def test_arrays_of_any_layout() -> None:
    x = numbers("e4m3", (4, 64))
    codes = fr.encode(x, "e4m3")
    words = fr.pack(x, "e4m3")
    for x_like in (x, np.asfortranarray(x), x.astype(">f4"), np.repeat(x, 2, 1)[:, ::2]):
        assert diff(codes, x_like, "e4m3").equal
        assert diff(np.asfortranarray(codes), x_like, "e4m3").equal
        assert diff(codes.astype(np.int64), x_like, "e4m3").equal
        assert diff(words.astype(">u4"), x_like, "e4m3").equal
        assert diff(np.repeat(words, 2, 1)[:, ::2], x_like, "e4m3").equal
    found = diff(words.byteswap().view(">u4").astype(">u4"), x, "e4m3")  # the same numbers, the other bytes
    assert found.equal


def test_arrays_of_the_formats_own_dtype() -> None:
    x = numbers("e4m3")
    for name, dtype in (("fp16", np.float16), ("fp32", np.float32)):
        with np.errstate(over="ignore"):
            own = np.where(np.isnan(x), np.abs(x), x).astype(dtype)
        assert diff(own, np.where(np.isnan(x), np.abs(x), x), name).equal
    with np.errstate(all="ignore"):
        found = diff(x.astype(ml_dtypes.float8_e4m3fn), x, "e4m3", profile="ml_dtypes")
    assert found.equal and found.kind == "codes"
    assert diff(np.array([-3, 7], np.int8), [-3, 7], "int8").equal


@pytest.mark.parametrize("name", ["e4m3", "e2m1", "e3m2", "nf4", "int4", "bf16", "ue4m3", "binary6p3se"])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (3, 1, 7), (1,), (0,), (2, 0), (0, 4)])
def test_shapes(name: str, shape: tuple[int, ...]) -> None:
    x = np.resize(np.array([0.5, 1.0, 0.25], np.float32), shape)
    assert diff(fr.encode(x, name), x, name).equal
    for order in ("little", "big"):
        assert diff(fr.pack(x, name, order), x, name, order=order, kind="words").equal
        assert diff(fr.pack_tensor(x, name, order=order), x, name).equal


def test_one_number() -> None:
    assert diff(0x38, 1.0, "e4m3").equal
    assert diff(np.uint32([0x38]), 1.0, "e4m3").equal  # words of a 0-d x have one dimension
    assert diff(fr.pack_tensor(1.0, "e4m3"), 1.0).equal
    assert diff(np.uint32([0x39]), 1.0, "e4m3").first == ()
    assert diff(fr.pack_tensor(3.0, "e4m3", scale="tensor"), 3.0).equal
    assert diff([], [], "e4m3").equal


@pytest.mark.parametrize("scale", ["row", "tensor"])
@pytest.mark.parametrize("rule", ["amax", "pow2"])
def test_scaled_tensors(scale: Any, rule: Any) -> None:
    x = numbers("bf16", (4, 30), special=False)
    packed = fr.pack_tensor(x, "e4m3", scale=scale, scale_rule=rule, rounding="toward_zero")
    assert diff(packed, x, rounding="toward_zero").equal
    check(diff(packed, x, "e4m3"), "rounding='toward_zero'")
    rounded = (x / packed.scale).astype(np.float16)
    between = fr.pack(rounded, "e4m3")
    found = diff(replace(packed, words=between), x)
    assert not found or found.hypotheses[0].text == "x rounded to fp16 first"


def test_nothing_is_changed() -> None:
    x = numbers("e4m3")
    words = fr.pack(x, "e4m3", "big")
    before = x.copy(), words.copy()
    x.setflags(write=False)
    words.setflags(write=False)
    found = diff(words, x, "e4m3")
    str(found)
    assert (x.view(np.uint32) == before[0].view(np.uint32)).all() and (words == before[1]).all()
    with pytest.raises(ValueError, match="read-only"):
        found.mine[0, 0] = 1
    with pytest.raises(FrozenInstanceError):
        found.count = 0  # type: ignore[misc]


@pytest.mark.parametrize("name", [*fr.FORMATS, "binary8p3ue", "minifloat(4,3,bias=11)"])
def test_every_format(name: str) -> None:
    """A turned bit is reported in every format, as codes and as words."""
    row = get_format(name)
    x = np.array([0.5, 1.0, 0.75, 2.0, 0.25], np.float32)
    codes = fr.encode(x, row)
    codes[3] ^= 1
    packed = fr.pack_tensor(x, row)
    if row.storage_shift == 0:
        packed = replace(packed, words=pack_codes(codes, row.storage_bits))
        assert diff(packed, x).count == 1
    found = diff(codes, x, row, kind="codes")
    assert (found.count, found.first) == (1, (3,))
    assert max(map(len, str(found).split("\n"))) <= WIDTH


# --- errors -------------------------------------------------------------------------------------

X4 = np.ones(4, np.float32)
PACKED = fr.pack_tensor(X4, "e4m3")
ERRORS: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    ((np.zeros(4, np.uint8), X4), {}, TypeError, "fmt is missing; only a PackedTensor brings its own"),
    ((np.zeros(4), X4, "e4m3"), {}, TypeError, "mine must be codes or words, got dtype float64"),
    ((X4, X4, "e4m3"), {}, TypeError, "mine must be codes or words, got dtype float32"),
    ((["38"] * 4, X4, "e4m3"), {}, TypeError, "mine must be codes or words, got dtype <U2"),
    ((np.zeros(4, bool), X4, "e4m3"), {}, TypeError, "mine must be codes or words, got dtype bool"),
    ((np.zeros(5, np.uint8), X4, "e4m3"), {}, ValueError, r"mine has dtype uint8 and shape \(5,\); codes have the "),
    ((np.zeros(2, np.uint8), X4, "e2m1"), {}, ValueError, r"words are uint32 of shape \(1,\) \(bytes: view them as"),
    ((np.zeros(1, np.int32), X4, "e4m3"), {}, ValueError, r"mine has dtype int32 and shape .* view them as uint32\)$"),
    ((fr.pack_e4m3(np.ones(18)), np.ones((3, 6)), "e4m3"), {}, ValueError, r"of one long row, give x.ravel\(\)$"),
    ((np.zeros(18, np.uint8), np.ones((3, 6)), "e4m3"), {}, ValueError, r"of one long row, give x.ravel\(\)$"),
    ((np.zeros(1, np.uint32), X4[:1], "e4m3"), {}, ValueError, r"shape \(1,\) can be codes or words; say kind="),
    ((np.zeros(4, np.uint32), X4, "tf32"), {}, ValueError, "can be codes or words"),
    ((np.zeros(4, np.uint8), X4, "e4m3"), {"kind": "words"}, ValueError, "mine has dtype uint8"),
    ((np.zeros(4, np.uint8), X4, "e4m3"), {"kind": "bytes"}, ValueError, "kind must be codes or words; got 'bytes'"),
    ((np.full(4, 0x17), X4, "e2m1"), {}, ValueError, r"mine\[0\] = 0x17 is not a code of 'e2m1': 0..0xf"),
    ((np.array([1, -1, 0, 0]), X4, "e4m3"), {}, ValueError, r"mine\[1\] = -0x1 is not a code of 'e4m3'"),
    ((np.zeros(4, np.uint8), X4, "e4m3"), {"order": "big"}, ValueError, "order='big' is for words; mine are codes"),
    ((np.zeros(1, np.uint32), X4, "e4m3"), {"order": "middle"}, ValueError, "order must be one of little, big"),
    ((PACKED, X4, "e5m2"), {}, ValueError, "fmt='e5m2': the PackedTensor holds 'e4m3'"),
    ((PACKED, X4), {"order": "big"}, ValueError, "order='big': the PackedTensor has order 'little'"),
    ((PACKED, X4), {"kind": "codes"}, ValueError, "kind='codes': a PackedTensor has words"),
    ((PACKED, X4[:3]), {}, ValueError, r"mine: the PackedTensor has shape \(4,\), x has \(3,\)"),
    ((np.zeros(4, np.uint8), X4, "e4m4"), {}, ValueError, "fmt: unknown format 'e4m4'"),
    ((np.zeros(4, np.uint8), X4, "e4m3"), {"overflow": "clamp"}, ValueError, "overflow must be one of"),
    ((np.zeros(4, np.uint8), X4, "e4m3"), {"rounding": "stochastic_a"}, ValueError, "diff compares deterministic"),
    ((np.zeros(4, np.uint8), X4, "e4m3"), {"profile": "numpy"}, ValueError, "profile must be one of"),
    ((np.zeros(4, np.uint8), X4 * np.nan, "e2m1"), {}, ValueError, r"x\[0\] = 7FC00000 is NaN, and nan='error'"),
    ((np.zeros(4, np.uint8), X4.astype(complex), "e4m3"), {}, TypeError, "x: dtype complex128 is not a real number"),
    ((np.zeros(4, np.uint8), ["a"] * 4, "e4m3"), {}, TypeError, "x: dtype <U1 is not a real number"),
]


@pytest.mark.parametrize(("args", "kwargs", "error", "match"), ERRORS, ids=lambda v: v if isinstance(v, str) else "")
def test_errors(args: tuple[Any, ...], kwargs: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        diff(*args, **kwargs)
