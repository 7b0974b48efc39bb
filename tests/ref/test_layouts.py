"""Byte layouts of block tensors: literals by hand, the documented index formulas, other libraries."""

from __future__ import annotations

import importlib
import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feather_ref as fr
from feather_ref.blocks import BLOCK_FORMATS, BlockFormat, BlockTensor, get_block_format, quantize_blocks, scales_shape
from feather_ref.layouts import LAYOUTS, from_bytes, part_sizes, to_bytes

ROWS = list(BLOCK_FORMATS.values())
GGML = [row for row in ROWS if row.layout != "dense"]
TILED = [row for row in ROWS if row.scale.storage_bits == 8 and row.tile[0] == 1]
E2M1, E3M2 = fr.get_format("e2m1"), fr.get_format("e3m2")
# name of the gguf package's type -> our format
PEERS = {"Q8_0": "q8_0", "Q4_0": "q4_0", "MXFP4": "ggml_mxfp4", "NVFP4": "ggml_nvfp4"}


def drawn(fmt: BlockFormat, shape: tuple[int, ...], axis: int = -1, seed: int = 0) -> BlockTensor:
    """Random codes, every one of the format's."""
    rng = np.random.default_rng(seed)

    def codes(row: fr.Format, size: tuple[int, ...]) -> Any:
        return rng.integers(0, 1 << row.bits, size, np.uint64).astype(fr.code_dtype(row))

    grid = scales_shape(shape, fmt, axis)
    whole = np.float32(0.75) if fmt.tensor_scale != "none" else None
    zeros = codes(fmt.element, grid) if fmt.zero_point else None
    return BlockTensor(codes(fmt.element, shape), codes(fmt.scale, grid), fmt, axis, whole, zeros)


def small(element: fr.Format, codes: Any, k: int = 4, scale: str = "e8m0") -> BlockTensor:
    """A tensor of these codes, its scales 1, 2, 3 ... as codes."""
    fmt = BlockFormat("small", element, (k,), fr.get_format(scale), "floor")
    codes = np.array(codes, fr.code_dtype(element))
    grid = scales_shape(codes.shape, fmt, -1)
    return BlockTensor(codes, np.arange(1, 1 + math.prod(grid), dtype=np.uint8).reshape(grid), fmt)


def same(a: BlockTensor, b: BlockTensor) -> None:
    assert (a.fmt, a.axis, a.tensor_scale) == (b.fmt, b.axis, b.tensor_scale)
    np.testing.assert_array_equal(a.codes, b.codes, strict=True)
    np.testing.assert_array_equal(a.scales, b.scales, strict=True)
    assert (a.zeros is None) == (b.zeros is None)
    if a.zeros is not None and b.zeros is not None:
        np.testing.assert_array_equal(a.zeros, b.zeros, strict=True)


# --- dense ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("element", "codes", "elements", "scales"),
    [
        (E2M1, [1, 2, 3, 4], "2143", "01"),  # the low nibble first
        (E2M1, [[1, 2, 3], [4, 5, 6]], "21035406", "0102"),  # a row ends at a whole byte
        (E3M2, [1, 2, 3, 4], "813010", "01"),  # 1 | 2 << 6 | 3 << 12 | 4 << 18 = 103081
        (E3M2, [1, 2, 3, 4, 63], "8130103f", "0102"),
        (fr.get_format("e4m3"), [0x7E, 0x80], "7e80", "01"),
    ],
)
def test_dense_by_hand(element: fr.Format, codes: Any, elements: str, scales: str) -> None:
    tensor = small(element, codes)
    data = to_bytes(tensor)
    assert {name: part.tobytes().hex() for name, part in data.items()} == {"elements": elements, "scales": scales}
    same(from_bytes(data, tensor.fmt, tensor.shape), tensor)


def test_a_scale_for_the_tensor_and_zeros_are_parts() -> None:
    nvfp4 = BlockTensor(np.full(16, 7, np.uint8), np.array([0x38], np.uint8), "nvfp4", -1, np.float32(0.5))
    assert {name: part.tobytes().hex() for name, part in to_bytes(nvfp4).items()} == {
        "elements": "77" * 8, "scales": "38", "tensor_scale": "0000003f",
    }  # fmt: skip
    group = fr_group([0, 15, 7], 1.0, 7)
    assert {name: part.tobytes().hex() for name, part in to_bytes(group).items()} == {
        "elements": "f007", "scales": "0000803f", "zeros": "07",
    }  # fmt: skip
    same(from_bytes(to_bytes(group), "uint4_g32", (3,)), group)


def fr_group(codes: list[int], scale: float, zero: int) -> BlockTensor:
    bits = np.array([scale], np.float32).view(np.uint32)
    return BlockTensor(np.array(codes, np.uint8), bits, "uint4_g32", -1, None, np.array([zero], np.uint8))


def stream(codes: Any, width: int) -> bytes:
    """Codes end to end as one great integer."""
    total = sum(int(code) << (i * width) for i, code in enumerate(codes))
    return total.to_bytes(-(-len(codes) * width // 8), "little")


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("axis", [-1, -2])
def test_dense_is_one_integer_a_row(row: BlockFormat, axis: int) -> None:
    if row.tile[0] > 1 and axis == -2:
        pytest.skip("tiles take axis -1")
    tensor = drawn(row, (3, 37) if axis == -1 else (37, 3), axis)
    data = to_bytes(tensor, "dense")
    for name, codes, fmt in (("elements", tensor.codes, row.element), ("scales", tensor.scales, row.scale)):
        rows = codes if axis == -1 else codes.T
        assert data[name].tobytes() == b"".join(stream(line, fmt.storage_bits) for line in rows)
    same(from_bytes(data, row, tensor.shape, "dense", axis), tensor)


# --- tiles ------------------------------------------------------------------------------------


def tiled_by_formula(scales: Any) -> bytes:
    """The index formula of cuBLAS: a tile of 512 bytes, tiles row by row."""
    rows, columns = scales.shape
    across = -(-columns // 4)
    out = bytearray(512 * across * -(-rows // 128))
    for r in range(rows):
        for c in range(columns):
            tile = r // 128 * across + c // 4
            out[512 * tile + r % 128 % 32 * 16 + r % 128 // 32 * 4 + c % 4] = scales[r, c]
    return bytes(out)


@pytest.mark.parametrize("rows", [1, 31, 32, 33, 127, 128, 129, 256])
@pytest.mark.parametrize("columns", [1, 3, 4, 5, 8])
def test_tiles_follow_the_formula(rows: int, columns: int) -> None:
    tensor = drawn(get_block_format("nvfp4"), (rows, 16 * columns - 3))
    data = to_bytes(tensor, "tiled_128x4")
    assert data["scales"].tobytes() == tiled_by_formula(tensor.scales)
    assert data["elements"].tobytes() == to_bytes(tensor, "dense")["elements"].tobytes()
    same(from_bytes(data, "nvfp4", tensor.shape, "tiled_128x4"), tensor)


def test_a_tile_by_hand() -> None:
    """Row 1 is 16 bytes on, row 32 is 4, column 1 is 1, column 4 and row 128 are other tiles."""
    codes = np.zeros((129, 5), np.uint8)
    places = {(0, 0): 0, (1, 0): 16, (32, 0): 4, (96, 3): 15, (127, 3): 511, (0, 4): 512, (128, 0): 1024}
    for code, at in enumerate(places, 1):
        codes[at] = code
    tensor = BlockTensor(np.zeros((129, 160), np.uint8), codes, "mxfp4")
    scales = to_bytes(tensor, "tiled_128x4")["scales"]
    assert scales.size == 4 * 512
    assert {at: int(scales[byte]) for at, byte in places.items()} == {at: i for i, at in enumerate(places, 1)}
    assert np.count_nonzero(scales) == len(places)


def test_each_matrix_is_tiled_for_itself() -> None:
    tensor = drawn(get_block_format("mxfp8"), (2, 3, 64))
    tiled = to_bytes(tensor, "tiled_128x4")["scales"].tobytes()
    assert tiled == b"".join(tiled_by_formula(matrix) for matrix in tensor.scales)
    row = drawn(get_block_format("mxfp8"), (64,))
    assert to_bytes(row, "tiled_128x4")["scales"].tobytes() == tiled_by_formula(row.scales[None])
    same(from_bytes(to_bytes(row, "tiled_128x4"), "mxfp8", (64,), "tiled_128x4"), row)


def test_torchao_tiles_alike() -> None:
    torch = pytest.importorskip("torch")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it warns of while it loads is its own
            utils = importlib.import_module("torchao.prototype.mx_formats.utils")
    except ImportError:
        pytest.skip("torchao is not here")
    for shape in ((1, 16), (33, 80), (129, 640), (256, 128)):
        tensor = drawn(get_block_format("nvfp4"), shape)
        theirs = utils.to_blocked(torch.from_numpy(tensor.scales)).numpy()
        np.testing.assert_array_equal(to_bytes(tensor, "tiled_128x4")["scales"], theirs, strict=True)


# --- ggml -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "scale", "codes", "block"),
    [
        ("q8_0", 0x3C00, {0: 1, 1: 0xFF, 31: 0x81}, "003c01ff" + "00" * 29 + "81"),
        ("q4_0", 0xB800, {0: 8, 1: 15, 15: 7, 16: 7, 17: 1, 31: 0}, "00b8f097" + "88" * 13 + "8f"),
        ("ggml_mxfp4", 0x7F, {0: 1, 1: 2, 15: 3, 16: 0xF, 17: 0xA, 31: 4}, "7ff1a2" + "00" * 13 + "43"),
    ],
)
def test_ggml_by_hand(name: str, scale: int, codes: dict[int, int], block: str) -> None:
    """q4_0 lies in excess of 8, so that -8 (code 8) is 0 and 0 is 8; byte i has elements i and i + 16."""
    elements = np.zeros(32, np.uint8)
    for at, code in codes.items():
        elements[at] = code
    fmt = get_block_format(name)
    tensor = BlockTensor(elements, np.array([scale], fr.code_dtype(fmt.scale)), fmt)
    assert {part: data.tobytes().hex() for part, data in to_bytes(tensor).items()} == {"blocks": block}
    same(from_bytes({"blocks": bytes.fromhex(block)}, fmt, (32,)), tensor)


def test_nvfp4_of_ggml_by_hand() -> None:
    """Four scales, then four times 8 bytes, of which byte i has elements i and i + 8 of its block."""
    elements = np.zeros((4, 16), np.uint8)
    elements[0, [0, 8, 7, 15]] = 1, 2, 3, 4
    elements[3, [1, 9]] = 0xF, 0xA
    tensor = BlockTensor(elements.reshape(64), np.array([0x38, 1, 0, 0x7E], np.uint8), "ggml_nvfp4")
    block = "3801007e" + "21" + "00" * 6 + "43" + "00" * 16 + "00af" + "00" * 6
    assert {part: data.tobytes().hex() for part, data in to_bytes(tensor).items()} == {"blocks": block}
    same(from_bytes({"blocks": bytes.fromhex(block)}, "ggml_nvfp4", (64,)), tensor)
    with pytest.raises(ValueError, match=r"blocks: words\[.*|blocks: .*0x80"):
        from_bytes({"blocks": bytes.fromhex("80" + block[2:])}, "ggml_nvfp4", (64,))
    with pytest.raises(ValueError, match="a row of 48 is no whole number of blocks of 64"):
        part_sizes("ggml_nvfp4", (2, 48))


@pytest.mark.parametrize(("peer", "name"), PEERS.items())
def test_the_gguf_package_reads_the_same_numbers(peer: str, name: str) -> None:
    """Every scale code, over blocks of random elements: values bit by bit, NaN by class."""
    gguf = pytest.importorskip("gguf")
    fmt = get_block_format(name)
    tensor = drawn(fmt, (16, fmt.size << (fmt.scale.bits - 4)), seed=3)
    scales = np.arange(1 << fmt.scale.bits).astype(fr.code_dtype(fmt.scale)).reshape(16, -1)
    tensor = BlockTensor(tensor.codes, scales, fmt)
    kind = gguf.GGMLQuantizationType[peer]
    data = to_bytes(tensor)["blocks"].reshape(16, -1)
    with np.errstate(all="ignore"):
        theirs = gguf.quants.dequantize(data, kind)
    mine = tensor.dequantize()
    if fmt.element == E2M1:  # ggml gives NaN scales a value: FF of MXFP4 2**128, 7F of NVFP4 0
        end = mine.shape[1] - fmt.size
        assert np.isnan(mine[-1, end:]).all() and not np.isnan(theirs[-1, end:]).any()
        mine, theirs = mine[:, :end], theirs[:, :end]
        minus = tensor.codes[:, :end] == 8  # -0, which ggml reads as +0
        assert (mine.view(np.uint32)[minus] == 1 << 31).all()
        assert (theirs.view(np.uint32)[minus] == 0).all()
        mine = np.where(minus, np.float32(0), mine)
    nan = np.isnan(theirs)
    np.testing.assert_array_equal(np.isnan(mine), nan)
    assert np.array_equal(mine.view(np.uint32)[~nan], theirs.view(np.uint32)[~nan])


def nvfp4_by_the_package(x: Any) -> Any:
    """The package has the conversions of NVFP4, but does not put them together to quantize, as ggml does in C."""
    peer = importlib.import_module("gguf.quants").NVFP4
    blocks = x.reshape(-1, 4, 16)
    scales = peer.fp32_to_ue4m3(np.abs(blocks).max(axis=-1) / np.float32(6))
    steps = peer.ue4m3_to_fp32(scales).astype(np.float32)[..., None, None] * np.array(peer.kvalues, np.float32)
    best = np.argmin(np.abs(steps - blocks[..., None]), axis=-1).astype(np.uint8)  # the first of equal ones
    nibbles = best[..., :8] | best[..., 8:] << 4
    return np.hstack([scales, nibbles.reshape(-1, 32)])


def test_ggml_scales_of_nvfp4() -> None:
    """Every upper half of a float32, its neighbours and the numbers beside each boundary, in the package's words."""
    peer = pytest.importorskip("gguf.quants").NVFP4
    tops = np.arange(1 << 15, dtype=np.uint32) << 16
    edges = np.float32([2.0**-10, 2.0**-6, 248, 256, 448, 7.5 * 2.0**-9]).view(np.uint32)
    bits = np.unique(np.concatenate([tops, tops + 1, tops + 0xFFFF, edges, edges + 1, edges - np.uint32(1)]))
    d = bits[bits < 0x7F800000].view(np.float32)
    amax = d.astype(np.float64) * 6
    amax = amax[amax < 3.4e38].astype(np.float32)
    scales = quantize_blocks(amax[:, None], "ggml_nvfp4").scales[:, 0]
    np.testing.assert_array_equal(scales, peer.fp32_to_ue4m3(amax / np.float32(6)))


@pytest.mark.parametrize(("peer", "name"), PEERS.items())
def test_the_gguf_package_writes_the_same_bytes(peer: str, name: str) -> None:
    gguf = pytest.importorskip("gguf")
    x = np.random.default_rng(5).standard_normal((9, 128)).astype(np.float32)
    x[0, :32] = 0
    x[1, :32] = 1e-4 * x[2, :32]
    kind = gguf.GGMLQuantizationType[peer]
    with np.errstate(all="ignore"):
        theirs = nvfp4_by_the_package(x) if peer == "NVFP4" else gguf.quants.quantize(x, kind)
    assert to_bytes(quantize_blocks(x, name))["blocks"].tobytes() == theirs.tobytes()
    tensor = from_bytes({"blocks": theirs.reshape(-1)}, name, x.shape)
    assert to_bytes(tensor)["blocks"].tobytes() == theirs.tobytes()


# --- round trips ------------------------------------------------------------------------------


@given(
    row=st.sampled_from(ROWS),
    layout=st.sampled_from(list(LAYOUTS)),
    lead=st.lists(st.integers(0, 3), max_size=2),
    n=st.sampled_from([0, 1, 5, 31, 32, 33, 64, 129, 160]),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_round_trip(row: BlockFormat, layout: str, lead: list[int], n: int, seed: int, data: Any) -> None:
    shape = (*lead, n)
    if LAYOUTS[layout].lacks(row, -1, n) or (row.tile[0] > 1 and len(shape) < 2):
        return
    last = layout.startswith("ggml") or row.tile[0] > 1
    axis = -1 if last else data.draw(st.integers(-len(shape), -1))
    tensor = drawn(row, shape, axis, seed)
    parts = to_bytes(tensor, layout)
    assert {name: part.size for name, part in parts.items()} == part_sizes(row, shape, layout, axis)
    assert all(part.dtype == np.uint8 and part.ndim == 1 for part in parts.values())
    same(from_bytes({name: part.tobytes() for name, part in parts.items()}, row, shape, layout, axis), tensor)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_dense_and_ggml_take_the_bytes_that_a_tensor_says(row: BlockFormat) -> None:
    tensor = drawn(row, (4, 256))
    assert sum(part.size for part in to_bytes(tensor).values()) == tensor.nbytes


# --- refusals ---------------------------------------------------------------------------------


def refused(error: type[Exception], text: str, *arguments: Any, **named: Any) -> None:
    with pytest.raises(error, match=text):
        from_bytes(*arguments, **named)


def test_wrong_lengths_parts_and_padding() -> None:
    good = {"elements": b"\x21\x03", "scales": b"\x7f"}
    assert from_bytes(good, "mxfp4", (3,)).codes.tolist() == [1, 2, 3]
    refused(ValueError, "elements has 1 bytes, not 2", good | {"elements": b"\x21"}, "mxfp4", (3,))
    refused(ValueError, "scales has 0 bytes, not 1", good | {"scales": b""}, "mxfp4", (3,))
    refused(ValueError, "data has elements; 'dense' has elements, scales", {"elements": b"\x21\x03"}, "mxfp4", (3,))
    refused(ValueError, "data has .*, more;", good | {"more": b""}, "mxfp4", (3,))
    refused(TypeError, "data must map elements, scales to bytes, got bytes", b"\x21\x03", "mxfp4", (3,))
    refused(TypeError, "scales must be bytes .* got list", good | {"scales": [1]}, "mxfp4", (3,))
    refused(TypeError, "scales .* got int64", good | {"scales": np.array([1])}, "mxfp4", (3,))
    refused(ValueError, "elements: byte 1 is 0x13; its 4 high bits", good | {"elements": b"\x21\x13"}, "mxfp4", (3,))
    six = {"elements": b"\x01\x10", "scales": b"\x7f"}
    refused(ValueError, "elements: byte 1 is 0x10; its 4 high bits must be 0", six, "mxfp6", (2,))
    nvfp4 = {"elements": bytes(8), "scales": b"\x80", "tensor_scale": bytes(4)}
    refused(ValueError, "scales: lane.* = 0x80 has bits outside", nvfp4, "nvfp4", (16,))
    refused(ValueError, "tensor_scale = 0x00000000", nvfp4 | {"scales": b"\x38"}, "nvfp4", (16,))


def test_what_fills_a_tile_must_be_zero() -> None:
    data = to_bytes(drawn(get_block_format("mxfp4"), (2, 64)), "tiled_128x4")
    data["scales"][2] = 5  # row 0, column 2 of a matrix of 2 columns
    refused(ValueError, "row 0, column 2 of matrix 0 is 0x05", data, "mxfp4", (2, 64), "tiled_128x4")


@pytest.mark.parametrize(
    ("bfmt", "shape", "layout", "axis", "error", "text"),
    [
        ("mxfp4", (32,), "ggml", -1, ValueError, "layout='ggml' is not for 'mxfp4': its rows are not ggml's"),
        ("q8_0", (33,), None, -1, ValueError, "a row of 33 is no whole number of blocks of 32"),
        ("q8_0", (32, 32), None, 0, ValueError, "blocks run along axis -2, not the last"),
        ("fp8_block128", (128, 128), "tiled_128x4", -1, ValueError, "scales of one byte"),
        ("int4_g32", (32,), "tiled_128x4", -1, ValueError, "scales of one byte"),
        ("mxfp4", (32,), "swizzled", -1, ValueError, "layout must be one of dense, .* ggml_x4; got 'swizzled'"),
        ("mxfp4", (32,), 3, -1, TypeError, "layout must be a name, got int"),
        ("mxfp4", (), None, -1, TypeError, "shape must be a tuple"),
        ("mxfp4", (-1,), None, -1, ValueError, "shape must not be negative"),
        ("mxfp4", (32,), None, 1, ValueError, "axis=1 is out of range"),
        ("mxfp5", (32,), None, -1, ValueError, "unknown block format"),
    ],
)  # fmt: skip
def test_refusals(bfmt: str, shape: Any, layout: Any, axis: int, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        part_sizes(bfmt, shape, layout, axis)


def test_only_tensors_in_blocks() -> None:
    with pytest.raises(TypeError, match="tensor must be a BlockTensor, got ndarray"):
        to_bytes(np.zeros(3))  # type: ignore[arg-type]  # that is the test
