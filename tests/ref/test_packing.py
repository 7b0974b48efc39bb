"""Codes and words of any width, against bit strings, the standard library's codecs and hand-made words."""

from __future__ import annotations

import base64
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feather_ref import packing
from feather_ref.packing import pack_codes, unpack_codes

WIDTHS = range(1, 33)
ORDERS = ("little", "big")
SHAPES = [(), (0,), (3, 0), (0, 5), (1,), (7,), (33,), (2, 65), (2, 3, 35), (2, 0, 3)]
INTEGERS = [f"{byteorder}{kind}{size}" for byteorder in "<>" for kind in "ui" for size in (1, 2, 4, 8)]


def model(codes: np.ndarray, width: int, order: str) -> np.ndarray:
    """The rule of the module, on strings of "0" and "1"."""
    codes = np.atleast_1d(codes)
    rows = []
    for row in codes.reshape(int(np.prod(codes.shape[:-1])), codes.shape[-1]).tolist():
        lanes = [f"{code:0{width}b}" for code in row]
        stream = "".join(lane[::-1] for lane in lanes) if order == "little" else "".join(lanes)
        stream += "0" * (-len(stream) % 32)
        pieces = [stream[i : i + 32] for i in range(0, len(stream), 32)]
        rows.append([int(piece[::-1] if order == "little" else piece, 2) for piece in pieces])
    return np.array(rows, np.uint32).reshape(*codes.shape[:-1], -(-codes.shape[-1] * width // 32))


def random_codes(shape: tuple[int, ...], width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, width]).integers(0, 1 << width, shape, np.uint64)


def code_dtype(width: int) -> str:
    return "uint8" if width <= 8 else "uint16" if width <= 16 else "uint32"


def same(got: np.ndarray, want: np.ndarray, dtype: str) -> None:
    assert got.dtype == dtype
    assert got.dtype.isnative
    assert got.shape == want.shape
    assert got.tobytes() == want.astype(dtype).tobytes()


# --- words made by hand and by others ---------------------------------------------------------


@pytest.mark.parametrize(
    ("codes", "width", "order", "words"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], 4, "little", "87654321"),
        ([1, 2, 3, 4, 5, 6, 7, 8], 4, "big", "12345678"),
        ([0x30, 0x40, 0x34, 0x44], 8, "little", "44344030"),
        ([0x30, 0x40, 0x34, 0x44], 8, "big", "30403444"),
        ([0x38, 0x40, 0x3A, 0x42], 8, "little", "423A4038"),
        ([0x38, 0x40, 0x3A, 0x42], 8, "big", "38403A42"),
        ([0x3800, 0x4000], 16, "little", "40003800"),
        ([0x3800, 0x4000], 16, "big", "38004000"),
        ([0x3F800001, 0x2], 32, "little", "3F800001 00000002"),
        ([0x3F800001, 0x2], 32, "big", "3F800001 00000002"),
        # 0 | 1<<6 | 2<<12 | 3<<18 | 4<<24 | (5 & 3)<<30, then 5>>2 | 6<<4 | 7<<10 | ...
        (range(16), 6, "little", "440C2040 A2481C61 3CE34C2C"),
        # 000000 000001 000010 000011 000100 00|0101 000110 ...
        (range(16), 6, "big", "00108310 51872092 8B30D38F"),
        # 12 bits: 0xABC | 0xDEF<<12 | (0x123 & 0xFF)<<24, then 0x123>>8
        ([0xABC, 0xDEF, 0x123], 12, "little", "23DEFABC 00000001"),
        ([0xABC, 0xDEF, 0x123], 12, "big", "ABCDEF12 30000000"),
        ([1], 1, "little", "00000001"),
        ([1], 1, "big", "80000000"),
        ([0x7FFFFFFF, 0x7FFFFFFF], 31, "little", "FFFFFFFF 3FFFFFFF"),
        ([0x7FFFFFFF, 0x7FFFFFFF], 31, "big", "FFFFFFFF FFFFFFFC"),
        ([0x3F], 6, "little", "0000003F"),
        ([0x3F], 6, "big", "FC000000"),
        (5, 8, "little", "00000005"),
        (5, 8, "big", "05000000"),
    ],
)
def test_hand_made_words(codes: object, width: int, order: str, words: str) -> None:
    got = pack_codes(np.array(codes), width, order)
    assert " ".join(f"{word:08X}" for word in got) == words
    back = unpack_codes(got, width, np.size(codes), order)
    assert back.tolist() == np.atleast_1d(codes).tolist()


@pytest.mark.parametrize(
    ("width", "decode", "alphabet"),
    [
        (4, base64.b16decode, "0123456789ABCDEF"),
        (5, base64.b32decode, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
        (6, base64.b64decode, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"),
    ],
)
def test_big_is_base16_32_64(width: int, decode: object, alphabet: str) -> None:
    codes = random_codes((480,), width)
    want = decode("".join(alphabet[code] for code in codes))
    assert pack_codes(codes, width, "big").astype(">u4").tobytes() == want


@pytest.mark.parametrize("order", ORDERS)
def test_width_1_is_packbits(order: str) -> None:
    codes = random_codes((3, 320), 1)
    want = np.packbits(codes.astype(np.uint8), axis=-1, bitorder=order)
    prefix = {"little": "<", "big": ">"}[order]
    assert pack_codes(codes, 1, order).astype(f"{prefix}u4").tobytes() == want.tobytes()


def test_nibbles_of_other_libraries() -> None:
    # pytorch/ao 3123, intel/llvm 22781: 0.5 and 6 in e2m1 are 1 and 7, the byte is 71
    assert pack_codes([1, 7], 4).tolist() == [0x71]
    assert unpack_codes(np.array([0x71], np.uint32), 4, 2).tolist() == [1, 7]
    # comfy-kitchen 41: the other order reads the halves swapped, and says so by name
    assert unpack_codes(np.array([0x71000000], np.uint32), 4, 2, "big").tolist() == [7, 1]
    # onnx 8349: a tail of 5 six-bit codes is 08 44 61 08, one of 3 nibbles 42 05
    assert pack_codes([0x08, 0x10, 0x14, 0x18, 0x08], 6).astype("<u4").tobytes().hex() == "08446108"
    assert pack_codes([2, 4, 5], 4).astype("<u4").tobytes().hex() == "42050000"
    # fastsafetensors 79: a row of 7 nibbles is not cut to 6
    assert pack_codes(np.full((2, 7), 0xF), 4).tolist() == [[0x0FFFFFFF]] * 2
    # llm-awq 91: the top nibble of F0000000 is 15, not -1
    assert unpack_codes(np.array([0xF0000000], np.uint32), 4).tolist() == [0] * 7 + [15]


# --- every width, shape and layout against the model ------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_width_and_shape(width: int, order: str) -> None:
    for shape in SHAPES:
        for codes in (random_codes(shape, width), np.full(shape, (1 << width) - 1, np.uint64)):
            words = pack_codes(codes, width, order)
            same(words, model(codes, width, order), "uint32")
            back = unpack_codes(words, width, codes.shape[-1] if shape else 1, order)
            same(back, np.atleast_1d(codes), code_dtype(width))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", WIDTHS)
def test_chunks_join(width: int, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "CHUNK", 64)
    for shape in [(200,), (3, 130), (50, 3), (5, 7, 11), (2, 64), (2, 65)]:
        codes = random_codes(shape, width)
        words = pack_codes(codes, width, order)
        same(words, model(codes, width, order), "uint32")
        same(unpack_codes(words, width, shape[-1], order), codes, code_dtype(width))


@pytest.mark.parametrize("width", [4, 6, 8, 16, 31])
def test_chunks_of_the_real_size_join(width: int) -> None:
    for shape in [(packing.CHUNK + 33,), (packing.CHUNK // 3 + 5, 3)]:
        codes = random_codes(shape, width)
        words = pack_codes(codes, width)
        same(words, model(codes, width, "little"), "uint32")
        same(unpack_codes(words, width, shape[-1]), codes, code_dtype(width))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_integer_dtype(dtype: str, order: str) -> None:
    for width in (3, 4, 7):
        codes = random_codes((3, 21), width).astype(dtype)
        same(pack_codes(codes, width, order), model(codes, width, order), "uint32")


def layouts(base: np.ndarray) -> dict[str, np.ndarray]:
    """Views of a (4, 6, 70) array that are not contiguous."""
    return {
        "strided": base[::2, :, 1::3],
        "negative": base[::-1, :, ::-1],
        "transposed": base.T,
        "swapped rows": base.swapaxes(0, 1),
        "fortran": np.asfortranarray(base),
        "broadcast": np.broadcast_to(base[:1, :1, :1], (3, 5, 70)),
        "broadcast rows": np.broadcast_to(base[0, 0], (2, 3, 70)),
        "column": base[0, :, 0],
        "0-d": base[1, 2, 3],
    }


@pytest.mark.parametrize("chunk", [64, packing.CHUNK])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", [4, 6, 8, 16, 32])
def test_layouts(width: int, order: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "CHUNK", chunk)
    for name, codes in layouts(random_codes((4, 6, 70), width)).items():
        words = pack_codes(codes, width, order)
        assert words.flags.c_contiguous, name
        same(words, model(codes, width, order), "uint32")
    base = np.random.default_rng(1).integers(0, 1 << 32, (4, 6, 70), np.uint32)
    for words in [*layouts(base).values(), base.astype(">u4"), base.astype("<u4")[::-1]]:
        copy = np.atleast_1d(np.array(words, np.uint32, order="C"))
        n = 32 * copy.shape[-1] // width
        want = unpack_codes(copy, width, n, order, strict=False)
        same(unpack_codes(words, width, None, order, strict=False), want, code_dtype(width))


def test_lists_and_scalars() -> None:
    assert pack_codes([], 8).shape == (0,)
    assert pack_codes([[], []], 8).shape == (2, 0)
    assert pack_codes(np.uint16(7), np.int64(16)).tolist() == [7]
    assert unpack_codes(np.uint32(0x71), 4, np.int8(2)).tolist() == [1, 7]


def test_input_is_left_alone() -> None:
    codes = np.arange(16, dtype=np.uint8)
    words = pack_codes(codes, 4)
    unpack_codes(words, 4)[...] = 0
    words[...] = 0
    assert codes.tolist() == list(range(16))


@given(st.data())
def test_round_trip(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 32), "width")
    order = data.draw(st.sampled_from(ORDERS), "order")
    shape = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=3), "shape")
    codes = random_codes(tuple(shape), width, data.draw(st.integers(0, 9), "seed"))
    words = pack_codes(codes, width, order)
    same(words, model(codes, width, order), "uint32")
    same(unpack_codes(words, width, shape[-1], order), codes, code_dtype(width))


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=9), st.integers(1, 32), st.sampled_from(ORDERS))
def test_whole_lanes_are_the_default(values: list[int], width: int, order: str) -> None:
    words = np.array(values, np.uint32)
    codes = unpack_codes(words, width, None, order, strict=False)
    assert codes.shape == (32 * len(values) // width,)
    left = 32 * len(values) % width
    clear = words.copy()
    clear[-1] &= (0xFFFFFFFF >> left if order == "little" else 0xFFFFFFFF << left) & 0xFFFFFFFF
    assert pack_codes(codes, width, order).tolist() == clear.tolist()[: -(-codes.size * width // 32)]


# --- bits past n ------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_bit_past_n_is_refused(width: int, order: str) -> None:
    codes = random_codes((2, 3), width)
    words = np.zeros((2, model(codes, width, order).shape[-1] + 1), np.uint32)
    words[:, :-1] = model(codes, width, order)
    same(unpack_codes(words, width, 3, order), codes, code_dtype(width))
    for stream_bit in range(3 * width, 32 * words.shape[-1]):
        column, bit = divmod(stream_bit, 32)
        wrong = words.copy()
        wrong[1, column] |= np.uint32(1 << (bit if order == "little" else 31 - bit))
        text = re.escape(f"words[1, {column}] = 0x{wrong[1, column]:08X}")
        with pytest.raises(ValueError, match=text):
            unpack_codes(wrong, width, 3, order)
        same(unpack_codes(wrong, width, 3, order, strict=False), codes, code_dtype(width))


def test_left_over_bits_of_whole_lanes_are_checked() -> None:
    words = np.array([[0], [1 << 30]], np.uint32)  # five six-bit lanes and two bits
    with pytest.raises(ValueError, match=re.escape("words[1, 0] = 0x40000000")):
        unpack_codes(words, 6)
    assert unpack_codes(words, 6, strict=False).shape == (2, 5)


@pytest.mark.parametrize("column", [1, 63, 64, 65, 128, 299])
def test_a_bit_far_past_n_is_found(column: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "CHUNK", 64)
    words = np.zeros((3, 4, 300), np.uint32)
    words[2, 1, column] = 0x80
    for layout, n in ((words, 1), (np.asfortranarray(words), 1), (words, 0)):
        with pytest.raises(ValueError, match=re.escape(f"words[2, 1, {column}] = 0x00000080")):
            unpack_codes(layout, 8, n)
        assert unpack_codes(layout, 8, n, strict=False).tolist() == [[[0] * n] * 4] * 3


# --- refusals ---------------------------------------------------------------------------------

W = np.zeros((2, 3), np.uint32)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: pack_codes([0, 1, 16], 4), ValueError, "codes[2] = 0x10"),
        (lambda: pack_codes([[0, 1], [-1, 0]], 4), ValueError, "codes[1, 0] = -0x1"),
        (lambda: pack_codes(np.int8(-1), 8), ValueError, "codes = -0x1"),
        (lambda: pack_codes(np.array([2**40]), 32), ValueError, "codes[0] = 0x10000000000"),
        (lambda: pack_codes(np.array([[1, 2], [3, 4]]).T, 2), ValueError, "codes[1, 1] = 0x4"),
        (lambda: pack_codes([1.0], 8), TypeError, "codes must be integers, got dtype float64"),
        (lambda: pack_codes(np.zeros(0), 8), TypeError, "codes must be integers, got dtype float64"),
        (lambda: pack_codes([True], 8), TypeError, "codes must be integers, got dtype bool"),
        (lambda: pack_codes([None], 8), TypeError, "codes must be integers, got dtype object"),
        (lambda: pack_codes([2**70], 8), TypeError, "codes must be integers, got dtype object"),
        (lambda: pack_codes(["1"], 8), TypeError, "codes must be integers, got dtype <U1"),
        (lambda: pack_codes([1], 0), ValueError, "width must be 1..32, got 0"),
        (lambda: pack_codes([1], 33), ValueError, "width must be 1..32, got 33"),
        (lambda: pack_codes([1], 8.0), TypeError, "width must be an int, got float"),
        (lambda: pack_codes([1], True), TypeError, "width must be an int, got bool"),
        (lambda: pack_codes([1], 8, "middle"), ValueError, "order must be one of little, big; got 'middle'"),
        (lambda: pack_codes([1], 8, 1), TypeError, "order must be a name, got int"),
        (lambda: unpack_codes(W.view(np.int32), 8), TypeError, "words must be uint32, got dtype int32"),
        (lambda: unpack_codes(W.view(np.float32), 8), TypeError, "words must be uint32, got dtype float32"),
        (lambda: unpack_codes(W.astype(np.uint64), 8), TypeError, "words must be uint32, got dtype uint64"),
        (lambda: unpack_codes([1, 2], 8), TypeError, "words must be uint32, got dtype int64"),
        (lambda: unpack_codes(W, 8, -1), ValueError, "n must be 0..12, got -1"),
        (lambda: unpack_codes(W, 8, 13), ValueError, "n must be 0..12, got 13"),
        (lambda: unpack_codes(W, 7, 14), ValueError, "n must be 0..13, got 14"),
        (lambda: unpack_codes(W, 8, 2.0), TypeError, "n must be an int, got float"),
        (lambda: unpack_codes(W, 8, True), TypeError, "n must be an int, got bool"),
        (lambda: unpack_codes(W, 40), ValueError, "width must be 1..32, got 40"),
        (lambda: unpack_codes(W, 8, None, "BIG"), ValueError, "order must be one of little, big; got 'BIG'"),
    ],
)
def test_refusals(call: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()


# --- memory -----------------------------------------------------------------------------------


def peak(call: object) -> int:
    """Bytes that a call took beyond its result, at the worst moment."""
    tracemalloc.start()
    try:
        result = call()
        return tracemalloc.get_traced_memory()[1] - result.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", [4, 6, 8])
def test_memory_is_that_of_a_chunk(width: int, order: str) -> None:
    flat = np.zeros(4_000_000, np.uint8)
    arrays = [
        flat,
        flat.reshape(-1, 2),
        flat[::-1].reshape(100, 200, 200).T,
        np.broadcast_to(flat[:40], (50, 2000, 40)),
    ]
    for codes in arrays:
        assert peak(lambda codes=codes: pack_codes(codes, width, order)) < 4 << 20
    words = np.zeros(1_000_000, np.uint32)
    for n in (None, 5):
        for array in (words, words.reshape(-1, 20), words.reshape(100, 100, 100).T):
            assert peak(lambda array=array, n=n: unpack_codes(array, width, n, order)) < 4 << 20
