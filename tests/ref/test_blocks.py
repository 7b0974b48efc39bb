"""Block formats: the hand-written table, shapes, axes, sources, words, and what is refused."""

from __future__ import annotations

import re
import tracemalloc
from dataclasses import FrozenInstanceError, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import block_table
from feather_ref.blocks import BLOCK_FORMATS, SCALE_RULES, BlockFormat, BlockTensor, get_block_format, quantize_blocks
from feather_ref.codec import decode, encode
from feather_ref.formats import FORMATS, minifloat
from feather_ref.words import unpack

RNG = np.random.default_rng(5)
ALONG = [fmt for fmt in BLOCK_FORMATS.values() if fmt.tile[0] == 1]


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


def number(text: str) -> np.float32:
    return np.uint32(int(text[1:], 16)).view(np.float32) if text.startswith("b") else np.float32(text)


def numbers(text: str) -> np.ndarray:
    return np.array([number(part) for part in text.split()], np.float32)


def bits(x: np.ndarray) -> list[str]:
    assert x.dtype == np.float32
    return [f"{b:08X}" for b in x.ravel().view(np.uint32).tolist()]


def same(a: BlockTensor, b: BlockTensor) -> None:
    """Two tensors of the same codes, scales, zeros and tensor scale."""
    np.testing.assert_array_equal(a.codes, b.codes, strict=True)
    np.testing.assert_array_equal(a.scales, b.scales, strict=True)
    assert (a.fmt, a.axis, a.tensor_scale) == (b.fmt, b.axis, b.tensor_scale)
    if a.zeros is not None:
        np.testing.assert_array_equal(a.zeros, b.zeros, strict=True)


# --- the hand-written table -------------------------------------------------------------------


@pytest.mark.parametrize("row", rows(block_table.E8M0_SCALES), ids=" ".join)
def test_a_scale_by_hand(row: list[str]) -> None:
    rule, name, amax = row[0].split()
    for values in ([amax], ["0", "-" + amax, amax]):
        tensor = quantize_blocks(np.array(values, np.float32), name, scale_rule=rule)
        assert [f"{c:02X}" for c in tensor.scales] == [row[1]]


@pytest.mark.parametrize("row", rows(block_table.BLOCKS), ids=lambda row: re.sub(r"\s+", " ", row[0]))
def test_a_block_by_hand(row: list[str]) -> None:
    name, rule, values = row[0].split(maxsplit=2)
    tensor = quantize_blocks(numbers(values), name, scale_rule=None if rule == "-" else rule)
    digits = len(row[1].split()[0])
    assert [f"{c:0{digits}X}" for c in tensor.codes] == row[1].split()
    assert [f"{c:0{len(row[2])}X}" for c in tensor.scales] == [row[2]]
    assert bits(tensor.dequantize()) == bits(numbers(row[3]))


def test_a_zero_point_by_hand() -> None:
    # [-5, 10] in 15 steps of 1; zero is 5; 2.5 and 3.5 go to the even 2 and 4 before 5 is added
    tensor = quantize_blocks([-5.0, 10.0, 0.0, 2.5, 3.5, np.inf, -np.inf], "uint4_g32")
    assert tensor.codes.tolist() == [0, 15, 5, 7, 9, 15, 0]
    assert (tensor.zeros.tolist(), tensor.scale_values.tolist()) == ([5], [1.0])
    assert tensor.dequantize().tolist() == [-5.0, 10.0, 0.0, 2.0, 4.0, 10.0, -5.0]
    # only positive or only negative numbers: the range takes 0 in
    assert quantize_blocks([15.0, 30.0], "uint4_g32").zeros.tolist() == [0]
    assert quantize_blocks([-15.0, -30.0], "uint4_g32").zeros.tolist() == [15]
    assert quantize_blocks([0.0, -0.0], "uint4_g32").scale_values.tolist() == [1.0]


def test_the_range_of_a_zero_point_is_rounded_once() -> None:
    # (15 + 15 * 2**-24 + 2**-70) / 15 lies just above the middle between 1 and 1 + 2**-23; without 2**-70 on it
    high = 15 + 15 * 2.0**-24
    assert bits(quantize_blocks([high], "uint4_g32").scale_values) == ["3F800000"]
    assert bits(quantize_blocks([high, -(2.0**-70)], "uint4_g32").scale_values) == ["3F800001"]
    above = high + 2.0**-49  # and the greater of two numbers that cannot be added exactly
    assert bits(quantize_blocks([above, -(2.0**-70)], "uint4_g32").scale_values) == ["3F800001"]


def test_least_square_error_by_hand() -> None:
    # 1023 numbers of 3, 5 and 7 are exact with the scale 1, which clips 14 to 7: the first candidate, j = 8
    own = replace(BLOCK_FORMATS["int4_g32"], name="own", block=(1024,))
    x = np.resize(np.float32([3, -5, 7]), 1024)
    x[0] = 14
    assert quantize_blocks(x, own).scale_values.tolist() == [2.0]
    assert quantize_blocks(x, own, scale_rule="mse").scale_values.tolist() == [1.0]
    # alone, 14 is exact with 2, and every smaller scale clips it
    assert quantize_blocks([14.0], own, scale_rule="mse").scale_values.tolist() == [2.0]


def test_two_levels_by_hand() -> None:
    # the greatest number is 2688 * 4: T = 4; the second block has amax 24 = 6 * 4 and scale 1
    x = np.zeros((2, 16), np.float32)
    x[0, 0], x[1, :3] = 2688 * 4, (24, 4, -1)
    tensor = quantize_blocks(x, "nvfp4")
    assert float(tensor.tensor_scale) == 4.0
    assert tensor.scales.tolist() == [[0x7E], [0x38]]
    assert tensor.codes[1, :4].tolist() == [7, 2, 8, 0]  # 6, 1, -0.25 to -0
    assert bits(tensor.dequantize()[1, :3]) == bits(np.float32([24, 4, -0.0]))
    # a block far below the greatest has the scale 0: its numbers are lost, its codes the limits
    x[1, :3] = (2.0**-20, 0, -(2.0**-20))
    low = quantize_blocks(x, "nvfp4")
    assert low.scales.tolist() == [[0x7E], [0x00]]
    assert low.codes[1, :3].tolist() == [7, 0, 15]
    assert bits(low.dequantize()[1, :3]) == bits(np.float32([0, 0, -0.0]))


def test_products_beyond_float32() -> None:
    top = BlockTensor(np.array([0x7E, 0x38, 0xFE], np.uint8), np.array([0xFE], np.uint8), "mxfp8")
    assert bits(top.dequantize()) == ["7F800000", "7F000000", "FF800000"]
    assert top.dequantize(np.float64).tolist() == [448 * 2.0**127, 2.0**127, -448 * 2.0**127]
    # e5m2's Inf, and a NaN scale over it
    inf = np.array([0x7C, 0xFC, 0x7D], np.uint8)
    assert bits(BlockTensor(inf, np.array([0x7F], np.uint8), "mxfp8_e5m2").dequantize()) == [
        "7F800000", "FF800000", "7FC00000",
    ]  # fmt: skip
    assert bits(BlockTensor(inf, np.array([0xFF], np.uint8), "mxfp8_e5m2").dequantize()) == ["7FC00000"] * 3


# --- NaN, Inf, policies -----------------------------------------------------------------------


def test_nan_by_policy() -> None:
    x = np.float32([1.0, np.nan, -np.nan, 256.0])
    assert quantize_blocks(x, "mxfp8", nan="canonical").codes.tolist() == [0x38, 0x7F, 0x7F, 0x78]
    assert quantize_blocks(x, "mxfp8", nan="preserve_sign").codes.tolist() == [0x38, 0x7F, 0xFF, 0x78]
    assert quantize_blocks(x, "mxfp8", nan="preserve_sign").scales.tolist() == [0x7F]
    assert quantize_blocks(x, "mxfp8", nan=0x12).codes.tolist() == [0x38, 0x12, 0x12, 0x78]
    assert quantize_blocks(x, "mxfp4", nan="max").codes.tolist() == [0, 7, 7, 6]
    assert quantize_blocks(x, "mxfp4", nan="zero").codes.tolist() == [0, 0, 0, 6]
    with pytest.raises(ValueError, match=r"x\[1\] = 7FC00000 is NaN, and nan='error'"):
        quantize_blocks(x, "mxfp4", nan="error")
    with pytest.raises(ValueError, match="nan='canonical': format 'e2m1' has no NaN"):
        quantize_blocks(x, "mxfp4", nan="canonical")
    only = replace(BLOCK_FORMATS["mxfp4"], name="own", scale=minifloat(4, 3, nan=False))
    with pytest.raises(ValueError, match=r"x\[1\].*is NaN"):  # no NaN in the scale: an error by default
        quantize_blocks(x, only)
    with pytest.raises(ValueError, match=r"nan='scale': the scale .* has no NaN"):
        quantize_blocks(x, only, nan="scale")


def test_overflow_and_rounding_reach_the_elements() -> None:
    x = np.float32([511.0, np.inf, -np.inf, 460.0, 1.0625])
    assert quantize_blocks(x, "mxfp8", overflow="nonsaturating").codes.tolist() == [0x7F, 0x7F, 0xFF, 0x7E, 0x38]
    assert quantize_blocks(x, "mxfp8", rounding="toward_positive").codes.tolist() == [0x7E, 0x7E, 0xFE, 0x7E, 0x39]
    assert quantize_blocks(x, "mxfp8", rounding="rtz").codes.tolist() == [0x7E, 0x7E, 0xFE, 0x7E, 0x38]
    assert quantize_blocks([2.0**-9, 1.0, 256.0], "mxfp8", subnormals="flush_output").codes.tolist() == [0, 0x38, 0x78]
    # a tiny number still goes up, however far below
    tiny = np.float32([256.0, 2.0**-149, -(2.0**-149)])
    assert quantize_blocks(tiny, "mxfp8", rounding="toward_positive").codes.tolist() == [0x78, 1, 0x80]
    wide = np.array([2.0**900, 2.0**-900, -(2.0**-1074)])
    assert quantize_blocks(wide, "mxfp8", rounding="toward_positive").codes.tolist() == [0x7E, 1, 0x80]
    assert quantize_blocks(wide, "mxfp8", overflow="nonsaturating").codes.tolist() == [0x7F, 0, 0x80]


def test_a_rounding_of_its_own() -> None:
    assert quantize_blocks([127.0, 0.5], "q8_0").codes.tolist() == [127, 1]
    assert quantize_blocks([127.0, 0.5], "q8_0", rounding="nearest_even").codes.tolist() == [127, 0]
    for name in ("q4_0", "ggml_mxfp4"):
        with pytest.raises(ValueError, match="has a rounding of its own"):
            quantize_blocks([1.0], name, rounding="nearest_even")


# --- shapes, axes, strides --------------------------------------------------------------------


@pytest.mark.parametrize("fmt", ALONG, ids=str)
@pytest.mark.parametrize("shape", [(5,), (32,), (3, 70), (2, 3, 33), (2, 65, 4), (1, 1), (7, 1, 3, 2)])
def test_any_axis_is_the_last_one_moved(fmt: BlockFormat, shape: tuple[int, ...]) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    for axis in range(-len(shape), len(shape)):
        tensor = quantize_blocks(x, fmt, axis)
        moved = quantize_blocks(np.ascontiguousarray(np.moveaxis(x, axis, -1)), fmt)
        assert tensor.codes.shape == tensor.shape == shape
        assert tensor.codes.flags.c_contiguous and tensor.axis < 0
        np.testing.assert_array_equal(np.moveaxis(tensor.codes, axis, -1), moved.codes)
        np.testing.assert_array_equal(np.moveaxis(tensor.scales, axis, -1), moved.scales)
        np.testing.assert_array_equal(tensor.words, moved.words)
        assert bits(np.moveaxis(tensor.dequantize(), axis, -1)) == bits(moved.dequantize())
        assert tensor.padded == (shape[axis] % fmt.size != 0)
        assert tensor.nbytes == moved.nbytes


def test_a_row_is_cut_into_its_blocks() -> None:
    """Blocks are independent, and never cross rows."""
    x = (RNG.standard_normal((3, 70)) * 2.0 ** RNG.integers(-20, 20, (3, 70))).astype(np.float32)
    tensor = quantize_blocks(x, "mxfp6_e2m3")
    assert tensor.scales.shape == (3, 3)
    for i in range(3):
        for j, part in enumerate((x[i, :32], x[i, 32:64], x[i, 64:])):
            one = quantize_blocks(part, "mxfp6_e2m3")
            assert one.scales[0] == tensor.scales[i, j]
            np.testing.assert_array_equal(one.codes, tensor.codes[i, 32 * j : 32 * j + len(part)])


@pytest.mark.parametrize("shape", [(128, 128), (130, 129), (1, 1), (256, 40), (2, 130, 257)])
def test_tiles_of_two_axes(shape: tuple[int, ...]) -> None:
    x = (RNG.standard_normal(shape) * 2.0 ** RNG.integers(-9, 9, shape)).astype(np.float32)
    tensor = quantize_blocks(x, "fp8_block128")
    high, wide = -(-shape[-2] // 128), -(-shape[-1] // 128)
    assert tensor.scales.shape == (*shape[:-2], high, wide)
    assert tensor.padded == (shape[-2] % 128 != 0 or shape[-1] % 128 != 0)
    for lead in np.ndindex(shape[:-2]):
        for i in range(high):
            for j in range(wide):
                part = np.s_[(*lead, slice(128 * i, 128 * i + 128), slice(128 * j, 128 * j + 128))]
                flat = quantize_blocks(x[part].ravel(), replace(BLOCK_FORMATS["fp8_1x128"], block=(16384,)))
                assert flat.scales[0] == tensor.scales[(*lead, i, j)]
                np.testing.assert_array_equal(flat.codes, tensor.codes[part].ravel())
    scale = np.repeat(np.repeat(tensor.scale_values, 128, -2), 128, -1)[..., : shape[-2], : shape[-1]]
    exact = decode(tensor.codes, "e4m3", np.float64) * scale.astype(np.float64)
    assert bits(tensor.dequantize()) == bits(exact.astype(np.float32))


def test_a_tile_of_one_row_is_a_run() -> None:
    x = RNG.standard_normal((3, 300)).astype(np.float32)
    along = replace(BLOCK_FORMATS["fp8_1x128"], block=(128,))
    np.testing.assert_array_equal(quantize_blocks(x, "fp8_1x128").codes, quantize_blocks(x, along).codes)
    assert quantize_blocks(x, "fp8_1x128").scales.shape == (3, 3)


@pytest.mark.parametrize("name", BLOCK_FORMATS)
@pytest.mark.parametrize("shape", [(0,), (0, 32), (4, 0), (0, 0, 5)])
def test_nothing(name: str, shape: tuple[int, ...]) -> None:
    if name == "fp8_block128" and len(shape) < 2:
        return
    tensor = quantize_blocks(np.zeros(shape, np.float32), name)
    assert tensor.dequantize().shape == tensor.shape == shape
    assert tensor.scales.size == tensor.words.size == 0
    assert tensor.bits_per_value == 0
    assert tensor.tensor_scale in (None, 1)


def test_0_d_counts_as_one() -> None:
    assert quantize_blocks(np.float32(3), "mxfp4").shape == (1,)
    assert quantize_blocks(3.0, "mxfp8").dequantize().tolist() == [3.0]


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4", "fp8_block128", "uint4_g32", "q4_0"])
def test_strides_and_byte_orders(name: str) -> None:
    x = RNG.standard_normal((40, 96)).astype(np.float32)
    for y in (x.T, x[::2, ::-1], np.asfortranarray(x), x.astype(">f4"), np.broadcast_to(x[0], (4, 96))):
        same(quantize_blocks(y, name), quantize_blocks(np.ascontiguousarray(y).astype("=f4"), name))
    frozen = x.copy()
    frozen.setflags(write=False)
    same(quantize_blocks(frozen, name), quantize_blocks(x, name))
    assert (frozen == x).all()


@pytest.mark.parametrize("fmt", ["mxfp8_e4m3", "nvfp4", "uint4_g32", "fp8_block128", "q4_0", "ggml_mxfp4"])
def test_chunks_do_not_show(fmt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result does not depend on where an array is cut, and the memory is about that of a chunk."""
    x = (RNG.standard_normal((33, 270)) * 2.0 ** RNG.integers(-30, 30, (33, 270))).astype(np.float32)
    x[3, 5], x[30, 269] = np.nan, -np.inf
    whole = quantize_blocks(x, fmt)
    monkeypatch.setattr("feather_ref._blockparts.CHUNK", 256)
    same(quantize_blocks(x, fmt), whole)
    assert bits(quantize_blocks(x, fmt).dequantize()) == bits(whole.dequantize())


def test_memory_is_bounded() -> None:
    x = np.ones((2048, 1024), np.float32)
    quantize_blocks(x[:1], "nvfp4")
    tracemalloc.start()
    tensor = quantize_blocks(x, "nvfp4")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - tensor.codes.nbytes - tensor.scales.nbytes < 10 << 20  # the array and its float64: 8 and 16 MiB


# --- sources ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_one_rounding_whatever_the_source(name: str) -> None:
    """The same numbers from float16, bfloat16, float32, float64, integers and lists are the same codes."""
    whole = RNG.integers(-100, 100, (130, 160)).astype(np.int8)
    whole[0, :3] = (0, 1, -1)
    reference = quantize_blocks(whole.astype(np.float32), name)
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float64, np.int8, np.int64, np.int32):
        same(quantize_blocks(whole.astype(dtype), name), reference)
    same(quantize_blocks(whole.tolist(), name), reference)
    small = (RNG.standard_normal((130, 130)) * 2.0 ** RNG.integers(-14, 5, (130, 130))).astype(np.float16)
    for wide in (np.float32, np.float64):
        same(quantize_blocks(small, name), quantize_blocks(small.astype(wide), name))
    fp8 = RNG.integers(0, 0x70, (130, 33)).astype(np.uint8).view(ml_dtypes.float8_e5m2)
    same(quantize_blocks(fp8, name), quantize_blocks(fp8.astype(np.float32), name))


def test_what_is_no_source() -> None:
    for x in (np.array(["a"]), np.array([1j]), np.array([None]), np.zeros(2, np.longdouble)):
        with pytest.raises(TypeError, match="x: dtype"):
            quantize_blocks(x, "mxfp8")
    with pytest.raises(ValueError, match=r"x\[1\] = 9007199254740993 is not exact in float64"):
        quantize_blocks(np.array([1, 2**53 + 1]), "mxfp8")
    with pytest.raises(TypeError, match="masked"):
        quantize_blocks(np.ma.masked_array([1.0], [True]), "mxfp8")


# --- the tensor -------------------------------------------------------------------------------


def test_words_and_sizes() -> None:
    x = RNG.standard_normal((3, 70)).astype(np.float32)
    for name, nbytes in (("mxfp8_e4m3", 3 * 72 + 9), ("mxfp4", 3 * 36 + 9), ("mxfp6_e3m2", 3 * 56 + 9),
                         ("nvfp4", 3 * 36 + 15 + 4), ("q8_0", 3 * 72 + 18), ("int4_g64", 3 * 36 + 24),
                         ("uint4_g64", 3 * 36 + 27)):  # fmt: skip
        tensor = quantize_blocks(x, name)
        assert tensor.nbytes == nbytes, name
        assert tensor.bits_per_value == 8 * nbytes / 210
        assert tensor.words.dtype == np.uint32
        values = unpack(tensor.words, tensor.fmt.element, 70)
        np.testing.assert_array_equal(values, decode(tensor.codes, tensor.fmt.element))
    assert [get_block_format(n).bits_per_value for n in ("mxfp4", "mxfp8", "nvfp4", "q8_0", "q4_0", "uint4_g32")] == [
        4.25, 8.25, 4.5, 8.5, 4.5, 5.125,
    ]  # fmt: skip
    exact = quantize_blocks(np.ones((2, 64)), "mxfp4")
    assert exact.bits_per_value == 4.25
    assert hex(quantize_blocks([6, 4, 3, 2, 1.5, 1, 0.5, -0.0], "mxfp4").words[0]) == "0x81234567"


def test_repr_and_scale_values() -> None:
    tensor = quantize_blocks(np.float32([[1, 2], [0, 0]]), "mxfp8")
    assert repr(tensor) == "BlockTensor(mxfp8_e4m3, shape=(2, 2), axis=-1, scales=(2, 1), padded, 10 bytes)"
    assert bits(tensor.scale_values) == ["3C000000", "00400000"]  # 2**-7 and 2**-127, which is no zero
    ends = BlockTensor(np.zeros(96, np.uint8), np.array([0, 254, 255], np.uint8), "mxfp8")
    assert bits(ends.scale_values) == ["00400000", "7F000000", "7FC00000"]
    assert not ends.padded
    with pytest.raises(TypeError, match="not an array"):
        np.asarray(tensor)
    with pytest.raises(TypeError, match="dtype must be float32 or float64, got None"):  # which is float64 for NumPy
        tensor.dequantize(None)
    with pytest.raises(TypeError, match="dtype: data type 'colour' not understood"):
        tensor.dequantize("colour")
    with pytest.raises(TypeError, match="dtype must be float32 or float64, got float16"):
        tensor.dequantize(np.float16)
    with pytest.raises(FrozenInstanceError):
        tensor.axis = 0  # type: ignore[misc]


U8 = np.uint8


@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        ({"codes": [1.5]}, TypeError, "codes must be integers"),
        ({"codes": [300, 1]}, ValueError, r"codes\[0\] = 0x12c is not a code of 'e2m1'"),
        ({"scales": np.array([[0]], U8)}, ValueError, r"scales has shape \(1, 1\); 'mxfp4' blocks of \(2,\) have \(1,"),
        ({"scales": [256]}, ValueError, "scales.* is not a code of 'e8m0'"),
        ({"fmt": "nvfp4"}, ValueError, "tensor_scale: 'nvfp4' has one"),
        ({"tensor_scale": np.float32(1)}, ValueError, "tensor_scale: 'mxfp4' has none"),
        ({"fmt": "nvfp4", "tensor_scale": 1.0}, TypeError, "tensor_scale must be a float32 scalar"),
        ({"fmt": "nvfp4", "tensor_scale": np.float32(0)}, ValueError, "tensor_scale = 0x00000000 is not finite"),
        ({"fmt": "nvfp4", "tensor_scale": np.float32(np.nan)}, ValueError, "tensor_scale = 0x7FC00000"),
        ({"zeros": [0]}, ValueError, "zeros: 'mxfp4' has no zero points"),
        ({"fmt": "uint4_g32"}, ValueError, "zeros: 'uint4_g32' has zero points"),
        ({"fmt": "uint4_g32", "zeros": [0, 0]}, ValueError, r"zeros has shape \(2,\), not \(1,\)"),
        ({"fmt": "uint4_g32", "zeros": [16]}, ValueError, r"zeros\[0\] = 0x10"),
        ({"axis": 1}, ValueError, r"axis=1 is out of range for shape \(2,\)"),
        ({"axis": 0.0}, TypeError, "axis must be an int"),
        ({"fmt": "mxfp5"}, ValueError, "unknown block format 'mxfp5'; close: mxfp"),
    ],
)
def test_a_tensor_that_does_not_fit_together(kwargs: dict[str, Any], error: type[Exception], text: str) -> None:
    good = {"codes": np.array([1, 2], U8), "scales": np.array([127], U8), "fmt": "mxfp4"}
    BlockTensor(**good)
    with pytest.raises(error, match=text):
        BlockTensor(**{**good, **kwargs})


@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        ({"bfmt": "mxfp9"}, ValueError, "unknown block format"),
        ({"bfmt": "mixed4"}, ValueError, "unknown block format 'mixed4'; mixed formats are for quantize_mixed"),
        ({"bfmt": "f32"}, ValueError, "unknown block format 'f32'; fp32 is a plain format, for pack_tensor"),
        ({"bfmt": 4}, TypeError, "bfmt must be the name of a block format or a BlockFormat, got int"),
        ({"bfmt": "zzz"}, ValueError, "known: mxfp8_e4m3"),
        ({"scale_rule": "ceiling"}, ValueError, "scale_rule must be one of floor, ceil, .*; got 'ceiling'"),
        ({"scale_rule": 3}, TypeError, "scale_rule must be a name, got int"),
        ({"scale_rule": "nvfp4_exact"}, ValueError, "'nvfp4_exact' is not for 'mxfp8_e4m3': it has no tensor scale"),
        ({"scale_rule": "minmax"}, ValueError, "it has no zero point"),
        ({"bfmt": "uint4_g32", "scale_rule": "floor"}, ValueError, "it has a zero point"),
        ({"scale_rule": "ggml_q8_0"}, ValueError, "its elements are no signed integers"),
        ({"scale_rule": "ggml_q4_0"}, ValueError, "its elements are not int4"),
        ({"scale_rule": "ggml_mxfp4"}, ValueError, "its elements are not e2m1"),
        ({"rounding": "up"}, ValueError, "rounding must be one of"),
        ({"nan": "quiet"}, ValueError, "nan must be one of"),
        ({"overflow": "wrap"}, ValueError, "overflow must be one of"),
        ({"subnormals": "flush"}, ValueError, "subnormals must be one of"),
        ({"colour": "red"}, TypeError, "unexpected argument 'colour'"),
        ({"profile": "hip"}, TypeError, "unexpected argument 'profile'; policies of blocks are overflow, subnormals"),
        ({"negative": "zero"}, TypeError, "unexpected argument 'negative'"),
        ({"axis": 2}, ValueError, "axis=2 is out of range"),
        ({"axis": True}, TypeError, "axis must be an int"),
        ({"bfmt": "fp8_block128", "axis": 0}, ValueError, "take the last two axes"),
        ({"bfmt": "fp8_block128", "x": [1.0]}, ValueError, "take the last two axes"),
    ],
)
def test_what_is_refused(kwargs: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        quantize_blocks(**{"x": np.ones((2, 2)), "bfmt": "mxfp8", **kwargs})


# --- rows -------------------------------------------------------------------------------------


def test_the_rows() -> None:
    assert list(BLOCK_FORMATS) == [
        "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4", "mxint8", "nvfp4", "fp8_block128", "fp8_1x128",
        *(f"{e}_g{k}" for e in ("int8", "int4", "uint4") for k in (32, 64, 128)), "q8_0", "q4_0", "ggml_mxfp4",
        "ggml_nvfp4",
    ]  # fmt: skip
    assert all(fmt.scale_rule in SCALE_RULES and not SCALE_RULES[fmt.scale_rule].lacks(fmt)
               for fmt in BLOCK_FORMATS.values())  # fmt: skip
    assert {fmt.emax for fmt in BLOCK_FORMATS.values()} == {8, 15, 4, 2, 0, 6, 3}
    assert get_block_format(" MXFP8 ") is get_block_format(BLOCK_FORMATS["mxfp8_e4m3"])
    assert hash(BLOCK_FORMATS["mxfp4"]) != hash(BLOCK_FORMATS["mxfp8_e4m3"])
    assert str(BLOCK_FORMATS["nvfp4"]) == "nvfp4"


def test_a_format_of_your_own() -> None:
    own = BlockFormat("own", minifloat(3, 1), (4,), FORMATS["ue5m3"], "amax")
    tensor = quantize_blocks(np.float32([16, -8, 1, 0.25, 3]), own)
    top = float(own.max)
    assert tensor.scale_values.tolist() == [float(decode(encode(16 / top, "ue5m3"), "ue5m3")), 0.1875]
    assert own.bits_per_value == 5 + 8 / 4
    assert quantize_blocks([1.0, 3.0], own, scale_rule="rceil").scales.shape == (1,)
    big = replace(BLOCK_FORMATS["mxfp8_e4m3"], name="own", block=(1 << 18,))
    x = RNG.standard_normal(1 << 18).astype(np.float32)
    assert (quantize_blocks(x, big).scales == encode(2.0 ** (int(np.log2(np.abs(x).max())) - 8), "e8m0")).all()


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"block": ()}, ValueError, "block must be one or two positive ints"),
        ({"block": (0,)}, ValueError, "block must be"),
        ({"block": (1, 2, 3)}, ValueError, "block must be"),
        ({"block": [32]}, ValueError, "block must be"),
        ({"element": "e4m3"}, TypeError, "element must be a Format, got str"),
        ({"scale": FORMATS["int8"]}, ValueError, "scale must be a float format"),
        ({"element": FORMATS["fp32"]}, ValueError, "an element has at most 16 bits"),
        ({"element": minifloat(10, 3)}, ValueError, "has values that are no float32"),
        ({"element": FORMATS["fp16"], "scale": FORMATS["fp32"], "tensor_scale": "float32"}, ValueError, "59 bits"),
        ({"zero_point": True}, ValueError, "a zero point is for integer elements"),
        ({"zero_point": 1}, ValueError, "zero_point must be a bool"),
        ({"tensor_scale": "fp32"}, ValueError, "tensor_scale='fp32' is not known"),
        ({"layout": "rows"}, ValueError, "layout='rows' is not known"),
        ({"name": ""}, ValueError, "name must not be empty"),
        ({"name": 3}, TypeError, "name must be a str"),
        ({"scale_rule": ""}, ValueError, "scale_rule must be a name"),
    ],
)
def test_a_row_that_contradicts_itself(change: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        replace(BLOCK_FORMATS["mxfp8_e4m3"], **change)
