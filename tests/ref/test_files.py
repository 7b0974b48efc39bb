"""Files: round trips of every row, other readers and writers as judges, hostile and broken input.

Expected bytes are laid out here by hand, or by the safetensors library and by NumPy.
"""

from __future__ import annotations

import errno
import itertools
import json
import math
import os
import random
import subprocess
import sys
import tracemalloc
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors

import feather_ref as fr
from feather_ref import _choices, _npy, _safetensors, files, oracle, repack
from feather_ref.formats import Format
from feather_ref.tensors import PackedTensor

SHAPES = ((), (0,), (1,), (5,), (8,), (3, 7), (2, 0), (0, 3), (2, 3, 8), (2, 1, 5))
TINY = Format("tiny", bits=5, exponent_bits=2, mantissa_bits=2, bias=1)  # a row of one's own
ROWS = [*fr.FORMATS.values(), fr.minifloat(4, 3, bias=11), fr.p3109(5, 2), TINY]
# safetensors 0.8.0, Dtype; everything else is stored as words
DTYPES = {
    "e4m3": "F8_E4M3", "e5m2": "F8_E5M2", "e8m0": "F8_E8M0", "e4m3fnuz": "F8_E4M3FNUZ", "e5m2fnuz": "F8_E5M2FNUZ",
    "fp16": "F16", "bf16": "BF16", "fp32": "F32", "int8": "I8", "uint8": "U8", "e2m1": "F4",
}  # fmt: skip
BYTES = {"F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1, "I8": 1, "U8": 1}
BYTES |= {"F16": 2, "BF16": 2, "F32": 4}


def packed_of(row: Format, shape: tuple[int, ...], order: Any = "little", scale: str | None = None) -> PackedTensor:
    """Codes that count, from the top of the format down."""
    codes = (row.code_mask - np.arange(math.prod(shape)) * 7).reshape(shape) & row.code_mask
    lanes = codes.astype(np.uint32) << row.storage_shift
    words = fr.pack_codes(lanes, row.storage_bits, order)
    size = {None: None, "tensor": (), "row": (*shape[:-1], 1)}[scale]
    scales = None if size is None else (1.5 + np.arange(math.prod(size))).reshape(size).astype(np.float32)
    return PackedTensor(words, scales, shape, row, order)


def same(a: Any, b: Any) -> bool:
    """Equality of packed tensors, to the bit."""
    scales = [None if t.scale is None else (t.scale.shape, t.scale.tobytes()) for t in (a, b)]
    words = [(t.words.shape, t.words.astype("<u4").tobytes()) for t in (a, b)]
    return (a.fmt, a.shape, a.order) == (b.fmt, b.shape, b.order) and scales[0] == scales[1] and words[0] == words[1]


def stored(path: Path) -> dict[str, tuple[str, list[int], bytes]]:
    """What stands in a file: a reader of its own, in four lines, that believes everything."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tree = json.loads(data[8:start])
    places = {name: (t["dtype"], t["shape"], *t["data_offsets"]) for name, t in tree.items() if name != "__metadata__"}
    return {name: (dtype, shape, data[start + a : start + b]) for name, (dtype, shape, a, b) in places.items()}


# --- round trips ------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_row_shape_order_and_scale_survives(row: Format, tmp_path: Path) -> None:
    scales = (None, "row", "tensor") if 0 < row.max < 2.0**128 else (None,)
    cases = itertools.product(SHAPES, ("little", "big"), scales)
    tensors = {f"{i}": packed_of(row, *case) for i, case in enumerate(cases)}
    files.save(tmp_path / "a.safetensors", tensors)
    with files.load(tmp_path / "a.safetensors") as back:
        assert sorted(back) == sorted(tensors)
        for name, tensor in tensors.items():
            got = back[name]
            if not isinstance(got, PackedTensor):  # NumPy has the dtype, and there is nothing to add
                raise AssertionError((name, tensor))
            assert same(got, tensor), (name, tensor, got)
            assert got.dequantize().tobytes() == tensor.dequantize().tobytes()


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("shape", [(3, 6), (3, 5), ()], ids=str)
def test_the_dtype_and_bytes_that_others_read(row: Format, shape: tuple[int, ...], tmp_path: Path) -> None:
    tensor = packed_of(row, shape)
    files.save(tmp_path / "a.safetensors", {"w": tensor})
    dtype, there, data = stored(tmp_path / "a.safetensors")["w"]
    wanted = DTYPES.get(row.name, "U32")
    if wanted == "F4" and shape in ((3, 5), ()):
        wanted = "U32"
    assert dtype == wanted
    codes = tensor.codes().reshape(-1).tolist()
    if wanted == "U32":
        assert there == list(tensor.words.shape)
        assert data == tensor.words.astype("<u4").tobytes()
    elif wanted == "F4":
        assert there == list(shape)
        assert list(data) == [low | high << 4 for low, high in zip(codes[::2], codes[1::2], strict=True)]
    else:
        assert there == list(shape)
        assert data == b"".join(code.to_bytes(BYTES[dtype], "little") for code in codes)


def test_notes_are_written_only_where_dtype_and_name_do_not_say_it(tmp_path: Path) -> None:
    tensors = {
        "plain": packed_of(fr.get_format("e4m3"), (3,), scale="tensor"),
        "half": packed_of(fr.get_format("fp16"), (3,)),
        "six": packed_of(fr.get_format("e3m2"), (2, 3), scale="row"),
        "mine": packed_of(TINY, (3,)),
    }
    files.save(tmp_path / "a.safetensors", tensors, {"format": "pt"})
    with files.load(tmp_path / "a.safetensors") as back:
        notes = {key: text if key == "format" else json.loads(text) for key, text in back.metadata.items()}
    row = '{"name": "tiny", "bits": 5, "exponent_bits": 2, "mantissa_bits": 2, "bias": 1}'
    assert notes == {
        "format": "pt",
        "feather_ref.half": {"format": "fp16", "shape": [3], "order": "little", "version": 1},
        "feather_ref.six": {"format": "e3m2", "shape": [2, 3], "order": "little", "version": 1, "scale": "six_scale"},
        "feather_ref.mine": {"format": row, "shape": [3], "order": "little", "version": 1},
    }


PLAIN = ("?", "u1", "i1", "i2", "u2", "f2", "i4", "u4", "f4", "c8", "f8", "i8", "u8")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_every_numpy_dtype_layout_and_shape_survives(suffix: str, tmp_path: Path) -> None:
    base = np.arange(24).reshape(2, 3, 4)
    tensors: dict[str, Any] = {}
    for code in PLAIN:
        x = base.astype(code)
        layouts = (x, x.T, x[:, ::2, ::-1], np.asfortranarray(x), x[1, 2, 3], x[:0], np.broadcast_to(x[0, 0], (3, 4)))
        for i, layout in enumerate((*layouts, x.astype(x.dtype.newbyteorder(">")))):
            tensors[f"{code}/{i}"] = layout
    files.save(tmp_path / f"a{suffix}", tensors)
    with files.load(tmp_path / f"a{suffix}") as back:
        for name, x in tensors.items():
            got = back[name]
            assert (got.dtype.newbyteorder("="), got.shape) == (x.dtype.newbyteorder("="), x.shape), name
            assert got.tobytes() == x.astype(x.dtype.newbyteorder("<")).tobytes(), name


@pytest.mark.parametrize("x", [np.eye(2, 3).T, np.float32(3), np.zeros((0, 2)), np.arange(3, dtype=">i2")])
def test_npy_is_what_numpy_reads_and_writes(x: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", x)
    with files.load(tmp_path / "a.npy") as back:
        assert list(back) == ["a"]
        assert back["a"].dtype == x.dtype
        np.testing.assert_array_equal(back["a"], x)
    files.save(tmp_path / "b.npy", {"x": x})
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), x.astype(x.dtype.newbyteorder("<")), strict=True)


def test_npz_is_what_numpy_reads_and_writes(tmp_path: Path) -> None:
    tensors = {"a": np.arange(3), "layer.0/w": np.asfortranarray(np.eye(3, 2)), "e": np.zeros((0, 2), np.float16)}
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **tensors)
        with files.load(tmp_path / "a.npz") as back:
            assert list(back) == list(tensors)
            for name, x in tensors.items():
                np.testing.assert_array_equal(back[name], x, strict=True)
    files.save(tmp_path / "b.npz", tensors)
    first = (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "b.npz") as back:
        assert {name: back[name].tobytes() for name in back} == {name: x.tobytes() for name, x in tensors.items()}
    files.save(tmp_path / "b.npz", tensors)
    assert (tmp_path / "b.npz").read_bytes() == first


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("float8_e4m3fn", "F8_E4M3"), ("bfloat16", "BF16"), ("float4_e2m1fn", "F4"), ("int4", "U32")],
)
def test_arrays_of_ml_dtypes_are_codes(name: str, dtype: str, tmp_path: Path) -> None:
    x = np.array([[1, -2, 3, -4]]).astype(getattr(ml_dtypes, name))
    files.save(tmp_path / "a.safetensors", {"x": x})
    assert stored(tmp_path / "a.safetensors")["x"][0] == dtype
    assert files.load(tmp_path / "a.safetensors")["x"].dequantize().tolist() == [[1, -2, 3, -4]]


# --- the library as judge ---------------------------------------------------------------------


def library_bytes(tensors: dict[str, tuple[str, tuple[int, ...], bytes]], metadata: dict[str, str] | None) -> bytes:
    """The file that the safetensors library writes; its dtype names are those of PyTorch."""
    if hasattr(safetensors, "TensorSpec"):  # since 0.8
        alive = {name: np.frombuffer(data or b"\0", np.uint8) for name, (_, _, data) in tensors.items()}
        specs: Any = {
            name: safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=alive[name].ctypes.data, data_len=len(data))
            for name, (dtype, shape, data) in tensors.items()
        }
    else:
        specs = {name: {"dtype": dtype, "shape": shape, "data": data} for name, (dtype, shape, data) in tensors.items()}
    return bytes(safetensors.serialize(specs, metadata))


@pytest.mark.parametrize("metadata", [None, {"format": 'p"t\n\x01é\x7f'}])
def test_the_file_is_byte_for_byte_the_library_s(metadata: dict[str, str] | None, tmp_path: Path) -> None:
    e4m3, e5m2, bf16 = (packed_of(fr.get_format(name), (3, 5)) for name in ("e4m3", "e5m2", "bf16"))
    tensors: dict[str, Any] = {name: np.arange(6).astype(name).reshape(2, 3) for name in ("f8", "f4", "f2", "i8", "u1")}
    tensors |= {"b": e4m3, "a": e4m3, "Z": e5m2, "é": bf16, "\U0001f600": bf16, "empty": np.zeros((0, 2), np.float32)}
    tensors |= {"0d": np.float32(1.5), "bool": np.array([True, False])}
    files.save(tmp_path / "a.safetensors", tensors, metadata)
    names = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "bf16": "bfloat16"}
    flat = {}
    for name, x in tensors.items():
        if isinstance(x, PackedTensor):
            flat[name] = (names[x.fmt.name], x.shape, x.codes().tobytes())
        else:
            flat[name] = (np.asarray(x).dtype.name, np.shape(x), np.asarray(x).tobytes())
    assert (tmp_path / "a.safetensors").read_bytes() == library_bytes(flat, metadata)


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in DTYPES], ids=str)
def test_the_library_reads_every_dtype(row: Format, tmp_path: Path) -> None:
    files.save(tmp_path / "a.safetensors", {"w": packed_of(row, (3, 6))})
    data = (tmp_path / "a.safetensors").read_bytes()
    try:
        ((name, view),) = safetensors.deserialize(data)
    except safetensors.SafetensorError as error:  # older ones do not know all of them
        pytest.skip(str(error))
    assert (name, view["dtype"], list(view["shape"])) == ("w", DTYPES[row.name], [3, 6])
    assert bytes(view["data"]) == stored(tmp_path / "a.safetensors")["w"][2]


def test_scales_of_a_checkpoint_from_elsewhere(tmp_path: Path) -> None:
    """F8 with BF16 and F32 scales, of one number or one a row; values by hand."""
    codes = bytes([0x38, 0x40, 0x44, 0xB8])  # 1, 2, 3, -1
    half, three = bytes([0x00, 0x3F]), np.float32(3).tobytes()  # 0.5 as bfloat16
    tensors = {
        "a.weight": ("float8_e4m3fn", (2, 2), codes),
        "a.weight_scale": ("bfloat16", (1,), half),
        "b.weight": ("float8_e4m3fn", (2, 2), codes),
        "b.weight_scale": ("float32", (2, 1), three + np.float32(0.5).tobytes()),
        "c.weight": ("float8_e4m3fn", (2, 2), codes),
        "c.weight_scale": ("float32", (2,), three + three),
        "d": ("bfloat16", (2,), half + half),
        "d_scale": ("float32", (), three),
    }
    (tmp_path / "a.safetensors").write_bytes(library_bytes(tensors, None))
    with files.load(tmp_path / "a.safetensors") as back:
        assert sorted(back) == ["a.weight", "b.weight", "c.weight", "c.weight_scale", "d", "d_scale"]
        assert back["a.weight"].dequantize().tolist() == [[0.5, 1.0], [1.5, -0.5]]
        assert back["b.weight"].dequantize().tolist() == [[3.0, 6.0], [1.5, -0.5]]
        assert back["c.weight"].scale is None
        assert back["d"].dequantize().tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match=r"'c\.weight_scale' is neither one number nor one a row"):
        repack.unpack_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    repack.unpack_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", exclude=["c.*"])
    assert stored(tmp_path / "b.safetensors")["c.weight"] == ("F8_E4M3", [2, 2], codes)


def test_six_bits_are_copied_and_never_read(tmp_path: Path) -> None:
    text = b'{"w":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[0,3]}}'
    (tmp_path / "a.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"abc")
    with files.load(tmp_path / "a.safetensors") as back, pytest.raises(ValueError, match="'w': how F6_E3M2 lies"):
        back["w"]
    repack.pack_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", "e4m3")
    assert stored(tmp_path / "b.safetensors") == {"w": ("F6_E3M2", [4], b"abc")}
    assert repack.inspect_file(tmp_path / "b.safetensors")[0].amax is None


# --- whole files ------------------------------------------------------------------------------


def model(path: Path) -> dict[str, Any]:
    """A small file with something of everything."""
    rng = np.random.default_rng(3)
    tensors = {
        "a.weight": rng.normal(size=(6, 10)).astype(np.float32),
        "a.bias": rng.normal(size=7),
        "b.weight": rng.normal(size=(2, 3, 4)).astype(np.float16),
        "c.weight": packed_of(fr.get_format("bf16"), (3, 4)),
        "ids": np.arange(5),
        "mask": np.array([True, False]),
        "done": packed_of(fr.get_format("e3m2"), (2, 5), scale="row"),
        "phase": np.array([1 + 2j], np.complex64),
        "none": np.zeros((0, 3), np.float32),
        "one": np.float32(0.3),
    }
    files.save(path, tensors, {"format": "pt"})
    return tensors


@pytest.mark.parametrize("scale", [None, "row", "tensor"])
@pytest.mark.parametrize("fmt", ["e4m3", "e2m1", "e3m2", "nf4"])
def test_pack_file_is_pack_tensor_of_every_float(fmt: str, scale: Any, tmp_path: Path) -> None:
    tensors = model(tmp_path / "a.safetensors")
    nan = {} if fmt == "e4m3" else {"nan": "zero"}  # the bf16 codes have a NaN among them
    lines = repack.pack_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", fmt, scale, **nan)
    notes = {line.name: line.note for line in lines}
    assert notes == {
        **dict.fromkeys(("a.weight", "a.bias", "b.weight", "c.weight", "none", "one"), ""),
        **dict.fromkeys(("ids", "mask", "phase"), "copied: not float"),
        "done": "copied: packed already",
    }
    with files.load(tmp_path / "b.safetensors") as back:
        assert back.metadata["format"] == "pt"
        for name, x in tensors.items():
            got = back[name]
            if notes[name] == "":
                values = x.dequantize() if isinstance(x, PackedTensor) else x
                assert same(got, fr.pack_tensor(values, fmt, scale, **nan)), name
            elif isinstance(x, PackedTensor):
                assert same(got, x)
            else:
                np.testing.assert_array_equal(got, x, strict=True)
    for line in lines:
        here = [stored(tmp_path / "b.safetensors").get(f"{line.name}{end}") for end in ("", "_scale")]
        assert line.bytes_after == sum(len(t[2]) for t in here if t), line


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_unpack_file_gives_the_values(suffix: str, tmp_path: Path) -> None:
    rows = {"a": "e4m3", "b": "e3m2", "c": "bf16", "d": "int8", "e": "e2m1"}
    tensors = {name: packed_of(fr.get_format(fmt), (3, 300), scale="row") for name, fmt in rows.items()}
    files.save(tmp_path / "a.safetensors", {**tensors, "ids": np.arange(5)})
    lines = repack.unpack_file(tmp_path / "a.safetensors", tmp_path / f"b{suffix}")
    assert [(line.name, line.note) for line in lines if line.note] == [("ids", "copied: not packed")]
    with files.load(tmp_path / f"b{suffix}") as back:
        assert sorted(back) == ["a", "b", "c", "d", "e", "ids"]
        assert not [key for key in back.metadata if key.startswith("feather_ref.")]
        for name, x in tensors.items():
            assert back[name].dtype == np.float32
            assert back[name].tobytes() == x.dequantize().tobytes(), name
    repack.unpack_file(tmp_path / "a.safetensors", tmp_path / "one.npy", "float64", include=["b"])
    assert np.load(tmp_path / "one.npy").tobytes() == tensors["b"].dequantize().astype(np.float64).tobytes()


def test_blocks_cut_nowhere_it_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_choices, "_ROWS", 20)
    x = np.random.default_rng(5).normal(size=(5, 3, 7)).astype(np.float32)
    files.save(tmp_path / "a.npz", {"x": x})
    for fmt, scale in itertools.product(("e4m3", "e3m2"), (None, "row", "tensor")):
        (line,) = repack.pack_file(tmp_path / "a.npz", tmp_path / "b.safetensors", fmt, scale)
        repack.unpack_file(tmp_path / "b.safetensors", tmp_path / "c.npy")
        values = fr.pack_tensor(x, fmt, scale).dequantize()
        assert np.load(tmp_path / "c.npy").tobytes() == values.tobytes()
        signal = sum(Fraction(float(a)) ** 2 for a in x.flat)
        noise = sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(x.flat, values.flat, strict=True))
        assert line.sqnr == pytest.approx(0.5 * math.log2(signal / noise), rel=1e-12)
        (facts,) = repack.inspect_file(tmp_path / "b.safetensors")
        assert facts.amax == np.max(np.abs(values))


def test_inspect_counts(tmp_path: Path) -> None:
    x = np.array([[1.0, np.nan, -3.0], [np.inf, -np.inf, np.nan]])
    codes = np.array([0x7E, 0x7F, 0xFF, 0x01], np.uint8)  # 448, NaN, NaN, 2^-9 in e4m3
    packed = PackedTensor(fr.pack_codes(codes, 8), np.float32(2), (4,), "e4m3")
    files.save(tmp_path / "a.safetensors", {"x": x, "i": np.array([-(2**40), 3]), "w": packed, "e": np.zeros(0)})
    facts = {fact.name: fact for fact in repack.inspect_file(tmp_path / "a.safetensors")}
    assert [(facts[n].amax, facts[n].nan, facts[n].inf) for n in ("x", "i", "w", "e")] == [
        (3.0, 2, 2),
        (2.0**40, 0, 0),
        (896.0, 2, 0),
        (None, 0, 0),
    ]
    assert facts["w"] == repack.Facts("w", (4,), "F8_E4M3", 8, "e4m3", "tensor", 896.0, 2, 0)


def test_sqnr_of_what_is_exact_and_of_what_is_lost(tmp_path: Path) -> None:
    tensors = {"exact": np.array([0.5, np.nan]), "lost": np.array([1e-9, np.inf]), "nan": np.array([1.0, 1e9])}
    files.save(tmp_path / "a.npz", tensors)
    lines = repack.pack_file(tmp_path / "a.npz", tmp_path / "b.safetensors", "e4m3", overflow="nonsaturating")
    assert [line.sqnr for line in lines] == [math.inf, 0.0, None]


def test_patterns(tmp_path: Path) -> None:
    model(tmp_path / "a.safetensors")

    def packed(**patterns: list[str]) -> list[str]:
        lines = repack.pack_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", "e4m3", **patterns)
        return [line.name for line in lines if not line.note]

    assert sorted(packed(include=["*.weight"])) == ["a.weight", "b.weight", "c.weight"]
    assert sorted(packed(include=["*.weight", "one"], exclude=["b.*"])) == ["a.weight", "c.weight", "one"]
    assert sorted(packed(exclude=["?.*"])) == ["none", "one"]
    with pytest.raises(ValueError, match=r"called like '\*\.wieght'"):
        packed(include=["*.wieght"])


def test_memory_stays_near_one_tensor(tmp_path: Path) -> None:
    tensor = np.random.default_rng(0).normal(size=(1024, 1024)).astype(np.float32)
    files.save(tmp_path / "a.safetensors", dict.fromkeys("abcdef", tensor))
    repack.pack_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", "e4m3", include=["a"])  # fills the caches
    tracemalloc.start()
    try:
        repack.pack_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", "e4m3")
        repack.unpack_file(tmp_path / "b.safetensors", tmp_path / "c.safetensors")
        repack.inspect_file(tmp_path / "c.safetensors")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * tensor.nbytes  # beside the one that is mapped; the codes of all six are 1.5


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "tensors", "error"),
    [
        ("a.txt", {"x": 1.0}, "must end in .npy, .npz, .safetensors"),
        ("a.npy", {"x": 1.0, "y": 2.0}, "holds one tensor, not 2"),
        ("a.npz", {"x": packed_of(TINY, (3,))}, "'x': .npz holds no packed tensor"),
        ("a.safetensors", {"x": np.array([1j])}, "'x': safetensors has no dtype for complex128"),
        ("a.safetensors", {"x": np.zeros(1, np.longdouble)}, "'x': safetensors has no dtype for"),
        ("a.safetensors", {"__metadata__": 1.0}, "keeps this name for itself"),
        ("a.safetensors", {"\ud800": 1.0}, "not Unicode"),
        ("a.safetensors", {"w": packed_of(TINY, (3,), scale="row"), "w_scale": 1.0}, "the scale of 'w' needs"),
        ("a.npz", {"a\0b": 1.0}, "cannot keep this name"),
    ],
)
def test_save_refuses(path: str, tensors: dict[str, Any], error: str, tmp_path: Path) -> None:
    (tmp_path / path).write_bytes(b"old")
    with pytest.raises(ValueError, match=error):
        files.save(tmp_path / path, tensors)
    assert (tmp_path / path).read_bytes() == b"old"
    assert os.listdir(tmp_path) == [path]


@pytest.mark.parametrize("x", [np.array(["a"]), np.array([object()]), np.zeros(2, "i4,i4"), np.zeros(1, "M8[s]")])
def test_save_refuses_what_is_no_number(x: Any, tmp_path: Path) -> None:
    for suffix in files.SUFFIXES:
        with pytest.raises(TypeError, match=r"tensor 'x': dtype .* is not plain numbers"):
            files.save(tmp_path / f"a{suffix}", {"x": x})
    with pytest.raises(TypeError, match="names are text, got int"):
        files.save(tmp_path / "a.npz", {1: 2.0})  # type: ignore[dict-item]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "metadata", "error", "text"),
    [
        ("a.safetensors", {"k": 3}, TypeError, "metadata: keys and values are text, got int '3'"),
        ("a.gguf", {"k": 3}, TypeError, "metadata: keys and values are text, got int '3'"),
        ("a.gguf", {3: "k"}, TypeError, "metadata: keys and values are text, got int '3'"),
        ("a.gguf", {"k\ud800": "v"}, ValueError, r"metadata: 'k\\ud800' is not Unicode text"),
        ("a.safetensors", ["k"], TypeError, "metadata must be a mapping of texts, got list"),
        ("a.npz", {"k": "v"}, ValueError, "metadata: .*a.npz' has no place for it"),
        ("a.npy", {"k": "v"}, ValueError, "metadata: .*a.npy' has no place for it"),
    ],
)
def test_save_refuses_metadata(path: str, metadata: Any, error: type[Exception], text: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=text):
        files.save(tmp_path / path, {"x": np.zeros(1)}, metadata)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", files.SUFFIXES)
def test_save_names_what_is_no_name(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tensors: '\\ud800' is not Unicode text"):
        files.save(tmp_path / f"a{suffix}", {"\ud800": np.zeros(1)})
    with pytest.raises(TypeError, match="tensors must be a mapping from names, got list"):
        files.save(tmp_path / f"a{suffix}", [1])  # type: ignore[arg-type]


def test_a_mask_is_not_lost(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="tensor 'x': a masked array; fill it first"):
        files.save(tmp_path / "a.npy", {"x": np.ma.masked_array([1.0, 2.0], [0, 1])})
    assert not any(tmp_path.iterdir())


def test_what_only_numpy_knows(tmp_path: Path) -> None:
    x = {"c": np.array([1 + 2j]), "l": np.array([1.5], np.longdouble)}
    files.save(tmp_path / "a.npz", x)
    with files.load(tmp_path / "a.npz") as back:
        assert {name: back[name].tolist() for name in back} == {"c": [1 + 2j], "l": [1.5]}
    with pytest.raises(ValueError, match="'c': safetensors has no dtype for complex128"):
        repack.pack_file(tmp_path / "a.npz", tmp_path / "b.safetensors", "e4m3")
    files.save(tmp_path / "l.npy", {"l": x["l"]})
    repack.pack_file(tmp_path / "l.npy", tmp_path / "b.safetensors", "e4m3")
    assert stored(tmp_path / "b.safetensors") == {"l": ("F8_E4M3", [1], b"\x3c")}


def test_pack_refuses_and_leaves_the_old_file(tmp_path: Path) -> None:
    source, target = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    files.save(source, {"a": np.ones(3), "x": np.array([[1.0], [np.nan]]), "x_scale": np.ones(1)})
    target.write_bytes(b"old")
    with pytest.raises(ValueError, match=r"tensor 'x': x\[1, 0\] = 7FF8000000000000 is NaN"):
        repack.pack_file(source, target, "e2m1")
    with pytest.raises(ValueError, match="its scale would take the name of 'x_scale'"):
        repack.pack_file(source, target, "e4m3", "row")
    with pytest.raises(ValueError, match="is the input itself"):
        repack.pack_file(source, source, "e4m3")
    (tmp_path / "link.safetensors").symlink_to(source)
    with pytest.raises(ValueError, match="is the input itself"):
        repack.unpack_file(source, tmp_path / "link.safetensors")
    with pytest.raises(ValueError, match="dtype must be one of float16"):
        repack.unpack_file(source, target, "int8")  # type: ignore[arg-type]
    assert target.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["a.safetensors", "b.safetensors", "link.safetensors"]


def test_save_over_the_file_that_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    tensors = model(path)
    with files.load(path) as back:
        files.save(path, back, back.metadata)
    with files.load(path) as back:
        np.testing.assert_array_equal(back["a.weight"], tensors["a.weight"], strict=True)
        assert same(back["done"], tensors["done"])


def test_a_link_stays_a_link_and_modes_stay(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"old")
    (tmp_path / "a.npy").chmod(0o640)
    (tmp_path / "link.npy").symlink_to("a.npy")
    files.save(tmp_path / "link.npy", {"x": 1.5})
    assert (tmp_path / "link.npy").is_symlink()
    assert np.load(tmp_path / "a.npy") == 1.5
    assert (tmp_path / "a.npy").stat().st_mode & 0o777 == 0o640
    (tmp_path / "dir.npy").mkdir()
    with pytest.raises(ValueError, match="is there, and is not a file"):
        files.save(tmp_path / "dir.npy", {"x": 1.5})


# --- broken off -------------------------------------------------------------------------------

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["full", "interrupt"])
@pytest.mark.parametrize("where", ["os.replace", "os.fsync", "feather_ref.files._little", "shutil.copymode"])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_broken_off(
    suffix: str, where: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / f"a{suffix}"
    target.write_bytes(b"old")

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    monkeypatch.setattr(where, fail)
    with pytest.raises(type(error)):
        files.save(target, {"x": np.ones(100)})
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [target.name]


def test_interrupted_between_tensors(tmp_path: Path) -> None:
    model(tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").write_bytes(b"old")

    def progress(name: str, done: int, total: int) -> None:
        assert 0 < done < total
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repack.pack_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", "e4m3", progress=progress)
    assert (tmp_path / "b.safetensors").read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["a.safetensors", "b.safetensors"]


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are POSIX")
def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """No room, as the system says it: a limit on the size of files in a process of its own."""
    (tmp_path / "a.npy").write_bytes(b"old")
    program = (
        "import resource, numpy as np; from feather_ref import files\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "files.save('a.npy', {'x': np.ones(1 << 16)})"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(fr.__file__).parent.parent)}
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "OSError" in result.stderr
    assert (tmp_path / "a.npy").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.npy"]


# --- hostile headers --------------------------------------------------------------------------


def header(text: bytes | str, data: bytes = b"", length: int | None = None) -> bytes:
    text = text.encode() if isinstance(text, str) else text
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(name: str = "w", **fields: Any) -> str:
    return f'"{name}":' + json.dumps({"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **fields})


HOSTILE = [
    (b"", "it has 0 bytes"),
    (b"\x01\x02", "it has 2 bytes"),
    (header("{}", length=3), "header would have 3 bytes"),
    (header("{}", length=2**63), "header would have"),
    (header(" {}"), "does not begin with"),
    (header("{"), "not JSON"),
    (header(b'{"\xff":1}'), "not JSON"),
    (header("[" * 9), "does not begin"),
    (header('{"a":' + "[" * 100_000), "nested too deeply"),
    (header('{"a":NaN}'), "not JSON: NaN"),
    (header("{}", b"x"), "fill 0 bytes, and the data has 1"),
    (header('{"w":3}'), "'w': the header gives not just"),
    (header('{"w":{}}'), "'w': the header gives not just"),
    (header("{" + entry(more=1) + "}", b"1234"), "'w': the header gives not just"),
    (header("{" + entry() + "," + entry() + "}", b"1234"), "'w' stands there twice"),
    (header("{" + entry(dtype="F33") + "}", b"1234"), "unknown dtype 'F33'"),
    (header("{" + entry(dtype=["F32"]) + "}", b"1234"), "unknown dtype"),
    (header("{" + entry(shape=1) + "}", b"1234"), "shape is not a list"),
    (header("{" + entry(shape=[True]) + "}", b"1234"), "shape is not a list"),
    (header("{" + entry(shape=[-1]) + "}", b"1234"), "shape is not a list"),
    (header("{" + entry(shape=[1.0]) + "}", b"1234"), "shape is not a list"),
    (header("{" + entry(shape=[1] * 65) + "}", b"1234"), "at most 64"),
    (header("{" + entry(shape=[2**63]) + "}", b"1234"), "shape is not a list"),
    (header("{" + entry(shape=[2**40, 2**40]) + "}", b"1234"), "is too large"),
    (header("{" + entry(shape=[2**40, 2**40, 0], data_offsets=[0, 0]) + "}"), "is too large"),
    (header("{" + entry(shape=[2]) + "}", b"1234"), "fills 8 bytes, not 4"),
    (header("{" + entry(dtype="F4", shape=[3], data_offsets=[0, 1]) + "}", b"1"), "does not fill whole bytes"),
    (header("{" + entry(data_offsets=[0, 4, 8]) + "}", b"1234"), "two rising offsets"),
    (header("{" + entry(data_offsets=[4, 0]) + "}", b"1234"), "two rising offsets"),
    (header("{" + entry(data_offsets=[0, 8]) + "}", b"1234"), "two rising offsets in 4 bytes; is the file truncated"),
    (header("{" + entry(data_offsets=[-4, 0]) + "}", b"1234"), "two rising offsets"),
    (header("{" + entry(data_offsets=[1, 5]) + "}", b"12345"), "begins at byte 1 of the data, not 0"),
    (header("{" + entry() + "," + entry("v") + "}", b"1234"), "begins at byte 0 of the data, not 4"),
    (header("{" + entry() + "}", b"12345"), "fill 4 bytes, and the data has 5"),
    (header('{"__metadata__":3}'), "not a map from text to text"),
    (header('{"__metadata__":{"a":3}}'), "not a map from text to text"),
    (header('{"' + "w" * 10_000 + '":3}'), r"w\.\.\.'"),
    (header('{"\\n\\u001b[31m":3}'), r"'\\n\\x1b\[31m'"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "error"), HOSTILE, ids=[str(i) for i in range(len(HOSTILE))])
def test_hostile_safetensors(data: bytes, error: str, tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match=error) as caught:
        files.load(tmp_path / "a.safetensors")
    assert str(tmp_path) in str(caught.value)
    assert len(str(caught.value)) < 600 + len(str(tmp_path))


NOTE = {"format": "e3m2", "shape": [5], "order": "little", "version": 1}
FALSE_NOTES = [
    ("w", "{", "Expecting"),
    ("w", "[]", "not JSON of format"),
    ("w", "[" * 100_000, "recursion"),
    ("v", NOTE, "no such tensor"),
    ("w", {**NOTE, "more": 1}, "not JSON of format"),
    ("w", {**NOTE, "version": 2}, "version is '2'; this program reads 1"),
    ("w", {**NOTE, "format": "e9m9x"}, "unknown format"),
    ("w", {**NOTE, "format": 3}, "format is no text"),
    ("w", {**NOTE, "format": '{"name": "x", "bits": 1e3}'}, "field 'bits' cannot be 1000.0"),
    ("w", {**NOTE, "format": '{"name": "x", "bits": 64, "kind": "integer"}'}, "lanes of 64 bits"),
    ("w", {**NOTE, "order": "middle"}, "order none of"),
    ("w", {**NOTE, "shape": [2**60]}, "no list of sizes"),
    ("w", {**NOTE, "shape": [True]}, "no list of sizes"),
    ("w", {**NOTE, "shape": [6]}, "cannot hold e3m2"),
    ("w", {**NOTE, "scale": "v"}, "'v' is no scale"),
    ("w", {**NOTE, "scale": "w"}, "'w' is no scale"),
    ("w", {**NOTE, "scale": ["s"]}, "is no scale"),
    ("w", {**NOTE, "scale": "i"}, "'i' is no scale"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "note", "error"), FALSE_NOTES, ids=[str(i) for i in range(len(FALSE_NOTES))])
def test_false_notes(name: str, note: Any, error: str, tmp_path: Path) -> None:
    metadata = {f"feather_ref.{name}": note if isinstance(note, str) else json.dumps(note)}
    forms = {"w": _safetensors.Form("U32", (1,)), "i": _safetensors.Form("I32", (1,))}
    text, _ = _safetensors.make_header(forms, metadata)
    (tmp_path / "a.safetensors").write_bytes(text + bytes(8))
    with pytest.raises(ValueError, match=error):
        files.load(tmp_path / "a.safetensors")


def test_a_scale_belongs_to_one_tensor(tmp_path: Path) -> None:
    note = json.dumps({**NOTE, "scale": "s"})
    forms = {
        "w": _safetensors.Form("U32", (1,)),
        "v": _safetensors.Form("U32", (1,)),
        "s": _safetensors.Form("F32", ()),
    }
    own = json.dumps({"format": "fp32", "shape": [], "order": "little", "version": 1})
    for metadata in ({"feather_ref.w": note, "feather_ref.v": note}, {"feather_ref.w": note, "feather_ref.s": own}):
        text, _ = _safetensors.make_header(forms, metadata)
        (tmp_path / "a.safetensors").write_bytes(text + bytes(12))
        with pytest.raises(ValueError, match="a scale belongs to one tensor, and has none itself"):
            files.load(tmp_path / "a.safetensors")


def test_a_note_on_a_scale_sets_its_neighbour_free(tmp_path: Path) -> None:
    """w_scale is said to be packed, or the scale of another: then it is not w's, whatever its name."""
    w, other = packed_of(ROWS[0], (3,)), packed_of(fr.get_format("fp32"), ())
    files.save(tmp_path / "a.safetensors", {"w": w, "w_scale": other})
    with files.load(tmp_path / "a.safetensors") as back:
        assert same(back["w"], w)
        assert same(back["w_scale"], other)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes")
    os.mkfifo(tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").mkdir()
    for name in ("a.safetensors", "b.safetensors"):
        with pytest.raises(ValueError, match="is not a file"):
            files.load(tmp_path / name)


def test_many_tensors_take_no_square_of_time(tmp_path: Path) -> None:
    """5,000 packed tensors with scales and notes; no row is looked up, and no list searched, for each."""
    tensor = packed_of(TINY, (3,), scale="tensor")
    files.save(tmp_path / "a.safetensors", {f"layer.{i}": tensor for i in range(5_000)})
    with files.load(tmp_path / "a.safetensors") as back:
        assert len(back) == 5_000
        assert same(back["layer.4999"], tensor)


def test_false_data_of_a_packed_tensor(tmp_path: Path) -> None:
    note = json.dumps({**NOTE, "scale": "s"})
    forms = {"w": _safetensors.Form("U32", (1,)), "s": _safetensors.Form("F32", ())}
    text, _ = _safetensors.make_header(forms, {"feather_ref.w": note})
    for words, scale, error in (("00000040", 1.0, "past the last code"), ("00000000", -1.0, "finite and positive")):
        data = np.float32(scale).tobytes() + bytes.fromhex(words)
        (tmp_path / "a.safetensors").write_bytes(text + data)
        with files.load(tmp_path / "a.safetensors") as back, pytest.raises(ValueError, match=error):
            back["w"].dequantize()


HOSTILE_NPY = [
    (b"", "does not begin"),
    (b"\x93NUMPY", "does not begin"),
    (b"\x93NUMPY\x03\x00\x00\x00\x00\x00", "version 3.0"),
    (b"\x93NUMPY\x01\x00\x00", "truncated"),
    (b"\x93NUMPY\x01\x00\xff\xff{}", "65535 bytes"),
    (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", "4294967295 bytes"),
    *(
        (b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"1234", error)
        for text, error in [
            (b"{}", "not descr"),
            (b"__import__('os')", "not descr"),
            (b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "plain numbers"),
            (b"{'descr': '<V4', 'fortran_order': False, 'shape': (1,)}", "plain numbers"),
            (b"{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", "plain numbers"),
            (b"{'descr': '<f3', 'fortran_order': False, 'shape': (1,)}", "knows no dtype '<f3'"),
            (b"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "not descr"),
            (b"{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", "not descr"),
            (b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "not descr"),
            (b"{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}", "not descr"),
            (b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "fills 8 bytes, and the data has 4"),
            (b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999)}", "too large"),
            (b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"1," * 65 + b")}", "too large"),
        ]
    ),
]


@pytest.mark.parametrize(("data", "error"), HOSTILE_NPY, ids=[str(i) for i in range(len(HOSTILE_NPY))])
def test_hostile_npy(data: bytes, error: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(ValueError, match=error):
        files.load(tmp_path / "a.npy")


def test_npy_of_other_writers(tmp_path: Path) -> None:
    """Keys in another order, other quotes, no comma at the end, version 2.0: a reader must not mind."""
    text = b'{"shape":(2,) , "descr" : "=f4","fortran_order":True}'
    data = b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text + np.array([1, 2], "=f4").tobytes()
    (tmp_path / "a.npy").write_bytes(data)
    assert files.load(tmp_path / "a.npy")["a"].tolist() == [1, 2]


def test_hostile_npz(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"

    def refused(error: str) -> None:
        with pytest.raises(ValueError, match=error):
            dict(files.load(path))

    path.write_bytes(b"PK")
    refused("zip archive is broken")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    refused("'readme.txt' stands there twice or is no .npy")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.npy", b"hello")
    refused("neither stored nor deflated")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", b"hello")
    refused("member 'a.npy': it does not begin as an .npy")
    # the claim of a terabyte, in header and directory
    head = _npy.header_bytes(np.dtype("u1"), (1 << 40,))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", head)
        archive.infolist()[0].file_size = len(head) + (1 << 40)
    refused("claims 10995116")
    np.savez(path, a=np.arange(100))
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    path.write_bytes(data)
    refused("(?i)bad crc")


def test_a_file_that_shrinks_after_it_was_opened(tmp_path: Path) -> None:
    files.save(tmp_path / "a.safetensors", {"x": np.ones(1000)})
    with files.load(tmp_path / "a.safetensors") as back:
        os.truncate(tmp_path / "a.safetensors", 200)
        with pytest.raises(ValueError, match="'x'"):
            back["x"]


# --- fuzz -------------------------------------------------------------------------------------


def mutants(data: bytes, head: int, seed: int, count: int) -> Any:
    """Truncations, flipped bits, deleted and doubled pieces, foreign bytes; mostly in the header."""
    rng = random.Random(seed)
    for _ in range(count):
        mutant = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(min(head, len(mutant)) if rng.random() < 0.8 else len(mutant)) if mutant else 0
            kind, size = rng.randrange(6), rng.randrange(1, 20)
            if kind == 0:
                del mutant[at:]
            elif kind == 1:
                del mutant[at : at + size]
            elif kind == 2:
                mutant[at:at] = mutant[at : at + size]
            elif kind == 3:
                mutant[at : at + 1] = rng.choice((b"9", b"-", b"]", b"{", b'"', b"\\", b"\xff", b"0", b"e", b"\0"))
            elif mutant:
                at = min(at, len(mutant) - 1)
                mutant[at] ^= 1 << rng.randrange(8)
        yield bytes(mutant)


@pytest.mark.parametrize("kind", ["npy", "npz", "deflated", "safetensors"])
def test_fuzz(kind: str, tmp_path: Path) -> None:
    """500 broken files each: a ValueError or an OSError with a message, or a file that can be read."""
    path = tmp_path / f"a.{'npz' if kind == 'deflated' else kind}"
    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    if kind == "deflated":
        np.savez_compressed(path, x=x, y=x[0])
    else:
        tensors: dict[str, Any] = {"x": x} if kind == "npy" else {"x": x, "y": np.arange(3)}
        if kind == "safetensors":
            tensors |= {"six": packed_of(ROWS[2], (2, 5), scale="row"), "f8": packed_of(ROWS[0], (3, 3), "big")}
        files.save(path, tensors)
    data = path.read_bytes()
    head = {"npy": 140, "safetensors": 800}.get(kind, len(data))
    read = 0
    tracemalloc.start()
    try:
        for mutant in mutants(data, head, 7, 500):
            path.write_bytes(mutant)
            try:
                repack.inspect_file(path)
                read += 1
            except (ValueError, OSError) as error:
                assert str(error)
                assert "\n" not in str(error)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20
    assert 0 < read < 400  # the fuzz reaches both sides


def test_the_literal_of_the_docstring() -> None:
    """What `load` shows: 0.5 and 2 over a scale of 2/448, by the oracle."""
    scale = Fraction(float(np.float32(2 / 448)))
    codes = [oracle.encode(Fraction(x) / scale, fr.get_format("e4m3")) for x in ("0.5", "2")]
    assert codes == [0x6E, 0x7E]
