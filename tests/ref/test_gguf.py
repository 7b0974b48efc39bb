"""GGUF files: bytes by hand, the gguf package both ways, broken and hostile headers."""

from __future__ import annotations

import io
import json
import os
import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feather_ref as fr
from feather_ref import _gguf, files, repack
from feather_ref._safetensors import Form
from feather_ref.blocks import BLOCK_FORMATS, BlockTensor, quantize_blocks
from feather_ref.layouts import to_bytes

X = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
KINDS = {"Q8_0": "q8_0", "Q4_0": "q4_0", "MXFP4": "ggml_mxfp4"}  # and NVFP4, which the package does not quantize


# --- by hand ----------------------------------------------------------------------------------


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def info(name: str, sizes: tuple[int, ...], code: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, code, offset)


def file_of(pairs: list[bytes], infos: list[bytes], data: bytes, version: int = 3, alignment: int = 32) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, len(infos), len(pairs)) + b"".join([*pairs, *infos])
    return head + bytes(-len(head) % alignment) + data


PAIRS = [
    pair("general.architecture", 8, text("test")),
    pair("u8", 0, b"\xff"),
    pair("i8", 1, b"\xff"),
    pair("i64", 11, struct.pack("<q", -(2**63))),
    pair("u64", 10, struct.pack("<Q", 2**64 - 1)),
    pair("third", 6, struct.pack("<f", 1 / 3)),
    pair("yes", 7, b"\x01"),
    pair("words", 9, struct.pack("<IQ", 8, 2) + text("a") + text("é")),
    pair("bools", 9, struct.pack("<IQ", 7, 2) + b"\x00\x01"),
    pair("doubles", 9, struct.pack("<IQd", 12, 1, 0.1)),
    pair("none", 9, struct.pack("<IQ", 4, 0)),
]
# w is (2, 3): the last axis is written first.  q is one block: scale 0.5 (3800), 1, -1, then zeros.
INFOS = [info("w", (3, 2), 0, 0), info("q", (32,), 8, 32), info("n", (1,), 26, 96)]
DATA = struct.pack("<6f8xH2b60xi", 1, 2, 3, 4, 5, 6, 0x3800, 1, -1, -7)
BY_HAND = file_of(PAIRS, INFOS, DATA + bytes(28))


def opened(data: bytes, tmp_path: Path) -> files.TensorFile:
    (tmp_path / "a.gguf").write_bytes(data)
    return files.load(tmp_path / "a.gguf")


@pytest.mark.parametrize("cut", [0, 28])
@pytest.mark.parametrize("version", [2, 3])
def test_a_file_by_hand(tmp_path: Path, cut: int, version: int) -> None:
    """Zeros behind the last tensor may be there or not."""
    data = file_of(PAIRS, INFOS, DATA + bytes(28 - cut), version)
    with opened(data, tmp_path) as tensors:
        assert list(tensors) == ["w", "q", "n"]
        np.testing.assert_array_equal(tensors["w"], np.float32([[1, 2, 3], [4, 5, 6]]), strict=True)
        np.testing.assert_array_equal(tensors["n"], np.int32([-7]), strict=True)
        q = tensors["q"]
        assert isinstance(q, BlockTensor)
        assert (q.fmt.name, q.shape, q.scales.tolist()) == ("q8_0", (32,), [0x3800])
        assert q.dequantize()[:3].tolist() == [0.5, -0.5, 0.0]
        assert tensors.metadata == {
            "general.architecture": "test", "u8": "255", "i8": "-1", "i64": str(-(2**63)), "u64": str(2**64 - 1),
            "third": "0.33333334", "yes": "true", "words": '["a", "é"]', "bools": "[false, true]", "doubles": "[0.1]",
            "none": "[]",
        }  # fmt: skip


def test_a_file_is_written_as_by_hand(tmp_path: Path) -> None:
    """The same bytes, but for the file type and the version of quantization, which readers ask for."""
    tensors: dict[str, Any] = {"w": np.float32([[1, 2, 3], [4, 5, 6]]), "n": np.int32([-7])}
    files.save(tmp_path / "b.gguf", tensors, {"general.architecture": "test", "note": "é"})
    pairs = [
        pair("general.architecture", 8, text("test")),
        pair("note", 8, text("é")),
        pair("general.file_type", 4, struct.pack("<I", 0)),
    ]
    infos = [info("w", (3, 2), 0, 0), info("n", (1,), 26, 32)]
    data = struct.pack("<6f", 1, 2, 3, 4, 5, 6) + bytes(8) + struct.pack("<i", -7) + bytes(28)
    assert (tmp_path / "b.gguf").read_bytes() == file_of(pairs, infos, data)


def test_alignment_is_the_file_s_own(tmp_path: Path) -> None:
    pairs = [pair("general.alignment", 4, struct.pack("<I", 8))]
    infos = [info("a", (1,), 24, 0), info("b", (1,), 24, 8)]
    data = file_of(pairs, infos, b"\x05" + bytes(7) + b"\x06" + bytes(7), alignment=8)
    with opened(data, tmp_path) as tensors:
        assert [int(tensors[name][0]) for name in "ab"] == [5, 6]
        files.save(tmp_path / "b.gguf", dict(tensors), tensors.metadata)
    assert (tmp_path / "b.gguf").read_bytes() == data


def test_no_tensor_and_no_number(tmp_path: Path) -> None:
    with opened(b"GGUF" + struct.pack("<IQQ", 3, 0, 0), tmp_path) as tensors:
        assert len(tensors) == 0
    x = {"none": np.empty((2, 0), np.float32), "one": np.float32(3)}
    files.save(tmp_path / "b.gguf", x)
    with files.load(tmp_path / "b.gguf") as back:
        for name, wanted in x.items():
            np.testing.assert_array_equal(back[name], wanted, strict=True)


# --- the gguf package -------------------------------------------------------------------------


def theirs(path: Path, x: np.ndarray[Any, Any]) -> Any:
    """A file by the gguf package, with all kinds of values and every type that both know."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_string("general.name", "näme")
    writer.add_uint32("general.file_type", 0)
    writer.add_uint64("big", 2**63)
    writer.add_float32("eps", 1e-6)
    writer.add_float64("pi", 3.14)
    writer.add_bool("flag", False)
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "▁the", ""])
    writer.add_array("tokenizer.ggml.scores", [0.0, -1.5, 1e10])
    writer.add_array("tokenizer.ggml.token_type", [1, 2, 3])
    writer.add_tensor("f32", x)
    writer.add_tensor("f16", x.astype(np.float16))
    writer.add_tensor("f64", x.astype(np.float64))
    writer.add_tensor("i16", np.arange(-3, 4, dtype=np.int16))
    for name in ("BF16", *KINDS):
        kind = gguf.GGMLQuantizationType[name]
        writer.add_tensor(name, gguf.quants.quantize(x, kind), raw_dtype=kind)
    k = gguf.GGMLQuantizationType.Q4_K
    writer.add_tensor("k", np.arange(288, dtype=np.uint16).astype(np.uint8).reshape(2, 144), raw_dtype=k)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return gguf


def test_what_the_package_writes_is_read(tmp_path: Path) -> None:
    gguf = theirs(tmp_path / "a.gguf", X)
    reader = gguf.GGUFReader(tmp_path / "a.gguf")
    with files.load(tmp_path / "a.gguf") as tensors:
        assert list(tensors) == [tensor.name for tensor in reader.tensors]
        np.testing.assert_array_equal(tensors["f32"], X, strict=True)
        for name in ("f16", "f64", "i16"):
            wanted = next(t.data for t in reader.tensors if t.name == name)
            np.testing.assert_array_equal(tensors[name], wanted, strict=True)
        for name in ("BF16", *KINDS):
            raw = next(t.data for t in reader.tensors if t.name == name)
            values = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[name])
            tensor: Any = tensors[name]
            assert tensor.dequantize().tobytes() == values.tobytes()
        keys = {"general.name": "näme", "big": str(2**63), "eps": "1e-06", "pi": "3.14", "flag": "false"}
        assert keys.items() <= tensors.metadata.items()
        assert json.loads(tensors.metadata["tokenizer.ggml.tokens"]) == ["<s>", "▁the", ""]
        assert json.loads(tensors.metadata["tokenizer.ggml.scores"]) == [0.0, -1.5, 1e10]
        with pytest.raises(ValueError, match="'k': how Q4_K lies in bytes is not known"):
            tensors["k"]


def test_the_header_is_the_package_s(tmp_path: Path) -> None:
    """Read and written again, every byte before the data is the same."""
    theirs(tmp_path / "a.gguf", X)
    data = (tmp_path / "a.gguf").read_bytes()
    header = _gguf.read_header(io.BytesIO(data), len(data))
    forms = {name: Form(place.dtype, place.shape) for name, place in header.places.items()}
    made, again = _gguf.make_header(forms, header.pairs)
    assert made == data[: len(made)]
    assert again == header


def test_a_copy_is_the_same_file(tmp_path: Path) -> None:
    """Blocks come apart into codes and scales, and together again."""
    theirs(tmp_path / "a.gguf", X)
    lines = repack.pack_file(tmp_path / "a.gguf", tmp_path / "b.gguf", "q8_0", include=["i16"])
    assert {line.note for line in lines} == {"copied: not selected", "copied: not float"}
    a, b = ((tmp_path / name).read_bytes() for name in ("a.gguf", "b.gguf"))
    assert len(b) - len(a) in (0, 32, 64)  # a pair more: the version of quantization
    with files.load(tmp_path / "a.gguf") as before, files.load(tmp_path / "b.gguf") as after:
        assert after.metadata.pop("general.quantization_version") == "2"
        assert after.metadata.pop("general.file_type") != ""
        before.metadata.pop("general.file_type")
        assert after.metadata == before.metadata
        start_a, start_b = (min(p.begin for p in header(data).places.values()) for data in (a, b))
        assert a[start_a:] == b[start_b:]


def header(data: bytes) -> _gguf.Header:
    return _gguf.read_header(io.BytesIO(data), len(data))


@pytest.mark.parametrize("fmt", ["q8_0", "q4_0", "ggml_mxfp4", "mxfp4", "bf16", "fp16", "fp32"])
def test_what_we_write_the_package_reads(tmp_path: Path, fmt: str) -> None:
    gguf = theirs(tmp_path / "a.gguf", X)
    repack.pack_file(tmp_path / "a.gguf", tmp_path / "b.gguf", fmt, include=["f*"])
    before, after = (gguf.GGUFReader(tmp_path / name) for name in ("a.gguf", "b.gguf"))
    kinds = {"ggml_mxfp4": "MXFP4", "mxfp4": "MXFP4", "fp16": "F16", "fp32": "F32"}
    kind = gguf.GGMLQuantizationType[kinds.get(fmt, fmt.upper())]
    for old, new in zip(before.tensors, after.tensors, strict=True):
        assert (old.name, old.shape.tolist()) == (new.name, new.shape.tolist())
        if old.name not in ("f32", "f16", "f64"):
            assert (old.tensor_type, old.data.tobytes()) == (new.tensor_type, new.data.tobytes())
            continue
        assert new.tensor_type == kind
        x = X if old.name == "f32" else old.data
        if fmt in BLOCK_FORMATS:
            assert new.data.tobytes() == ggml_blocks(x, fmt)
        else:
            assert new.data.tobytes() == fr.encode(x, fmt).tobytes()
    changed = {"general.file_type", "general.quantization_version", "GGUF.kv_count"}
    for name, field in before.fields.items():
        if name not in changed:
            assert [p.tobytes() for p in after.fields[name].parts] == [p.tobytes() for p in field.parts]
    assert after.fields["general.quantization_version"].contents() == 2
    wanted = {"q8_0": 7, "q4_0": 2, "bf16": 32, "fp16": 1, "fp32": 0}.get(fmt, 38)
    assert after.fields["general.file_type"].contents() == wanted


def ggml_blocks(x: Any, fmt: str) -> bytes:
    """Blocks of 17 bytes, or what `to_bytes` gives, which test_layouts holds to account."""
    tensor = quantize_blocks(x, fmt)
    if fmt != "mxfp4":
        return to_bytes(tensor)["blocks"].tobytes()
    codes = tensor.codes.reshape(-1, 32)
    return np.hstack([tensor.scales.reshape(-1, 1), codes[:, :16] | codes[:, 16:] << 4]).astype(np.uint8).tobytes()


def test_the_package_writes_the_same_file(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "unknown")
    writer.add_uint32("general.file_type", 7)
    writer.add_uint32("general.quantization_version", 2)
    kind = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor("w", gguf.quants.quantize(X, kind), raw_dtype=kind)
    writer.add_tensor("b", X[0, :5].copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    files.save(tmp_path / "b.gguf", {"w": quantize_blocks(X, "q8_0"), "b": X[0, :5]})
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()


def test_nvfp4(tmp_path: Path) -> None:
    """The package reads what is written here; one scale for the tensor stays a tensor of its own."""
    gguf = pytest.importorskip("gguf")
    tensor = quantize_blocks(X, "ggml_nvfp4")
    files.save(tmp_path / "a.gguf", {"w.weight": tensor, "w.scale": np.float32([0.5])})
    found = {each.name: each for each in gguf.GGUFReader(tmp_path / "a.gguf").tensors}
    assert found["w.weight"].tensor_type == gguf.GGMLQuantizationType.NVFP4
    values = gguf.quants.dequantize(found["w.weight"].data, found["w.weight"].tensor_type)
    np.testing.assert_array_equal(values, tensor.dequantize())
    with files.load(tmp_path / "a.gguf") as back:
        again: Any = back["w.weight"]
        assert again.fmt.name == "ggml_nvfp4" and back.metadata["general.file_type"] == "39"
        np.testing.assert_array_equal(again.codes, tensor.codes)
        np.testing.assert_array_equal(again.scales, tensor.scales)
        np.testing.assert_array_equal(back["w.scale"], np.float32([0.5]), strict=True)
    files.save(tmp_path / "x.safetensors", {"whole": X, "short": X[:, :48]})
    lines = repack.pack_file(tmp_path / "x.safetensors", tmp_path / "b.gguf", "ggml_nvfp4")
    assert {line.name: line.note for line in lines} == {"whole": "", "short": "copied: rows are no whole blocks"}
    with pytest.raises(ValueError, match=r"'w': .*0x80"):
        opened(file_of([], [info("w", (64,), 40, 0)], b"\x80" + bytes(63)), tmp_path)["w"]


# --- the other byte order ---------------------------------------------------------------------


def convert_order(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's own conversion, in place."""
    script = pytest.importorskip("gguf.scripts.gguf_convert_endian")
    gguf = pytest.importorskip("gguf")
    monkeypatch.setattr("builtins.input", lambda prompt: "YES")
    args = type("Args", (), {"order": "big", "dry_run": False})
    script.convert_byteorder(gguf.GGUFReader(path, "r+"), args)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the package leaves its map open
def test_big_endian_files_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the package has turned round is read as the one before, and turned round here is the same."""
    tensors: dict[str, Any] = {
        "f32": X, "f16": X.astype(np.float16), "bf16": fr.pack_tensor(X, "bf16"),
        "nvfp4": quantize_blocks(X, "ggml_nvfp4"),
        **{name: quantize_blocks(X, name) for name in KINDS.values()},
    }  # fmt: skip
    pairs = {"general.architecture": "llama", "note": "é"}
    files.save(tmp_path / "a.gguf", tensors, pairs)
    files.save(tmp_path / "ours.gguf", tensors, pairs, byte_order="big")
    (tmp_path / "b.gguf").write_bytes((tmp_path / "a.gguf").read_bytes())
    convert_order(tmp_path / "b.gguf", monkeypatch)
    assert (tmp_path / "b.gguf").read_bytes() == (tmp_path / "ours.gguf").read_bytes()
    assert (tmp_path / "b.gguf").read_bytes() != (tmp_path / "a.gguf").read_bytes()
    repack.pack_file(tmp_path / "b.gguf", tmp_path / "c.gguf", "q8_0", exclude=["*"])
    assert (tmp_path / "c.gguf").read_bytes() == (tmp_path / "a.gguf").read_bytes()


def test_big_endian_by_hand(tmp_path: Path) -> None:
    head = b"GGUF" + struct.pack(">IQQQ", 3, 2, 1, 1) + b"a" + struct.pack(">IIQ3h", 9, 3, 3, 1, -2, 3)
    infos = struct.pack(">Q", 1) + b"w" + struct.pack(">I2QIQ", 2, 3, 2, 0, 0)
    infos += struct.pack(">Q", 1) + b"q" + struct.pack(">IQIQ", 1, 32, 8, 32)
    data = struct.pack(">6f8xH2b60x", 1, 2, 3, 4, 5, 6, 0x3800, 1, -1)
    whole = head + infos
    with opened(whole + bytes(-len(whole) % 32) + data, tmp_path) as tensors:
        assert tensors.metadata == {"a": "[1, -2, 3]"}
        np.testing.assert_array_equal(tensors["w"], np.float32([[1, 2, 3], [4, 5, 6]]), strict=True)
        q: Any = tensors["q"]
        assert q.scales.tolist() == [0x3800] and q.codes[:2].tolist() == [1, 255]
        files.save(tmp_path / "b.gguf", dict(tensors), tensors.metadata)
    with files.load(tmp_path / "b.gguf") as back:
        assert back.metadata["a"] == "[1, -2, 3]"
        np.testing.assert_array_equal(back["w"], np.float32([[1, 2, 3], [4, 5, 6]]), strict=True)


@pytest.mark.parametrize("value", ["uint8", "int64", "float64", "bool", "string", "array"])
def test_every_kind_of_value_in_the_other_order(tmp_path: Path, value: str) -> None:
    """Big-endian files of the package's writer: the pairs say the same, and so do those that are written here."""
    gguf = pytest.importorskip("gguf")
    numbers = {"uint8": 200, "int64": -5, "float64": 0.1, "bool": True, "string": "é", "array": [1, 2, 70000]}
    for order in ("LITTLE", "BIG"):
        writer = gguf.GGUFWriter(tmp_path / f"{order}.gguf", "unknown", endianess=gguf.GGUFEndian[order])
        getattr(writer, f"add_{value}")("key", numbers[value])
        writer.add_tensor("w", X)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    with files.load(tmp_path / "LITTLE.gguf") as little, files.load(tmp_path / "BIG.gguf") as big:
        assert big.metadata == little.metadata
        assert big.metadata.pairs == little.metadata.pairs  # type: ignore[attr-defined] # of Texts
        np.testing.assert_array_equal(big["w"], X, strict=True)
        files.save(tmp_path / "again.gguf", dict(big), big.metadata, byte_order="big")
    with files.load(tmp_path / "again.gguf") as again:
        assert again.metadata["key"] == little.metadata["key"]


def test_what_cannot_change_its_order(tmp_path: Path) -> None:
    order = {"byte_order": "big"}
    head = b"GGUF" + struct.pack(">IQQ", 3, 1, 0) + struct.pack(">Q", 1) + b"k" + struct.pack(">IQIQ", 1, 256, 12, 0)
    data = head + bytes(-len(head) % 32) + bytes(144)
    with opened(data, tmp_path) as tensors:
        assert tensors.stored["k"].dtype == "Q4_K"
    with pytest.raises(ValueError, match="tensor 'k': how Q4_K lies in the other byte order is not known"):
        repack.pack_file(tmp_path / "a.gguf", tmp_path / "b.gguf", "q8_0")
    assert not (tmp_path / "b.gguf").exists()
    for name, asked in (("b.npz", order), ("b.safetensors", order), ("b.gguf", {"byte_order": "middle"})):
        with pytest.raises(ValueError, match=r"byte_order must be 'little', or 'big' for \.gguf"):
            files.save(tmp_path / name, {"w": X}, None, **asked)  # type: ignore[arg-type] # is wrong on purpose


# --- files in parts ---------------------------------------------------------------------------


def in_parts(folder: Path, tensors: dict[str, Any], each: int = 2) -> list[Path]:
    """A model in parts, by the gguf package."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(folder / "m.gguf", "llama", split_max_tensors=each)
    writer.add_string("general.name", "parts")
    for name, x in tensors.items():
        writer.add_tensor(name, x)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(folder.glob("m-*.gguf"))


PARTS = {f"w{i}": X + i for i in range(5)}


def test_parts_are_one_file(tmp_path: Path) -> None:
    paths = in_parts(tmp_path, PARTS)
    assert [path.name for path in paths] == [f"m-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    with files.load(paths[0]) as tensors:
        assert list(tensors) == list(PARTS) and tensors.paths == tuple(paths)
        assert tensors.metadata == {"general.architecture": "llama", "general.name": "parts"}
        for name, x in PARTS.items():
            np.testing.assert_array_equal(tensors[name], x, strict=True)
    repack.pack_file(paths[0], tmp_path / "one.gguf", "q8_0")
    with files.load(tmp_path / "one.gguf") as one:
        assert list(one) == list(PARTS) and not any(key.startswith("split.") for key in one.metadata)
    for path in paths:
        with pytest.raises(ValueError, match="is the input itself"):
            repack.pack_file(paths[0], path, "q8_0")


def test_a_first_part_without_tensors(tmp_path: Path) -> None:
    def part(no: int, infos: list[bytes], data: bytes) -> bytes:
        said = [pair("split.no", 2, struct.pack("<H", no)), pair("split.count", 2, struct.pack("<H", 2)),
                pair("split.tensors.count", 5, struct.pack("<i", 1))]  # fmt: skip
        return file_of([pair("a", 8, text("b")), *said] if no == 0 else said, infos, data)

    (tmp_path / "a-00001-of-00002.gguf").write_bytes(part(0, [], b""))
    (tmp_path / "a-00002-of-00002.gguf").write_bytes(part(1, [info("w", (1,), 0, 0)], struct.pack("<f", 2)))
    with files.load(tmp_path / "a-00001-of-00002.gguf") as tensors:
        assert tensors.metadata == {"a": "b"} and tensors["w"].tolist() == [2.0]  # type: ignore[union-attr]


def change(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))


def said(key: str, code: str, value: int) -> bytes:
    return pair(key, 2 if code == "H" else 5, struct.pack(f"<{code}", value))


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda p: p[1].unlink(), "of its 3 parts 1 are missing: m-00002-of-00003.gguf"),
        (lambda p: p[2].rename(p[0]), "it says that it is part 3 of 3, and is not named"),
        (lambda p: p[0].write_bytes(p[1].read_bytes()), "it says that it is part 2 of 3, and is not named"),
        (lambda p: p[1].write_bytes(p[2].read_bytes()), "m-00002-of-00003.gguf: split.no is 2, not 1"),
        (lambda p: change(p[1], said("split.count", "H", 3), said("split.count", "H", 4)), "split.count is 4, not 3"),
        (lambda p: change(p[1], b"w2", b"w0"), "tensor 'w0': two parts have it"),
        (
            lambda p: change(p[0], said("split.tensors.count", "i", 5), said("split.tensors.count", "i", 6)),
            "split.tensors.count is 6, and the parts have 5",
        ),
        (
            lambda p: change(p[0], said("split.tensors.count", "i", 5), said("split.tensors.count", "i", -1)),
            "split.tensors.count is '-1', no count",
        ),
        (lambda p: change(p[1], said("split.no", "H", 1), said("color.no", "H", 1)), "split.no is -1, not 1"),
        (lambda p: p[1].write_bytes(p[1].read_bytes()[:200]), r"m-00002-of-00003.gguf: .*truncated"),
    ],
)
def test_parts_that_do_not_go_together(tmp_path: Path, spoil: Any, error: str) -> None:
    paths = in_parts(tmp_path, PARTS)
    spoil(paths)
    with pytest.raises(ValueError, match=error):
        files.load(paths[0])


def test_only_the_first_part_is_opened(tmp_path: Path) -> None:
    paths = in_parts(tmp_path, PARTS)
    with pytest.raises(ValueError, match=r"it is part 2 of 3; open the first, m-00001-of-00003\.gguf"):
        files.load(paths[1])


def test_a_part_that_says_something_else(tmp_path: Path) -> None:
    for no, name in enumerate(("one", "two")):
        pairs = [said("split.no", "H", no), said("split.count", "H", 2), said("split.tensors.count", "i", 0),
                 pair("general.name", 8, text(name))]  # fmt: skip
        (tmp_path / f"a-0000{no + 1}-of-00002.gguf").write_bytes(file_of(pairs, [], b""))
    with pytest.raises(ValueError, match=r"a-00002-of-00002\.gguf: 'general.name' is not what the first part says"):
        files.load(tmp_path / "a-00001-of-00002.gguf")


# --- from and to other files ------------------------------------------------------------------


def test_what_does_not_fit_stays(tmp_path: Path) -> None:
    tensors = {"w": X, "bias": X[0], "odd": X[:, :33], "ids": np.arange(3)}
    files.save(tmp_path / "a.safetensors", tensors, {"format": "pt"})
    lines = repack.pack_file(tmp_path / "a.safetensors", tmp_path / "b.gguf", "q4_0")
    assert {line.name: line.note for line in lines} == {
        "w": "", "bias": "copied: one axis", "odd": "copied: rows are no whole blocks", "ids": "copied: not float",
    }  # fmt: skip
    with files.load(tmp_path / "b.gguf") as back:
        assert back.metadata == {
            "format": "pt", "general.architecture": "unknown", "general.file_type": "2",
            "general.quantization_version": "2",
        }  # fmt: skip
        np.testing.assert_array_equal(back["odd"], X[:, :33], strict=True)


@pytest.mark.parametrize("fmt", ["q8_0", "q4_0", "ggml_mxfp4"])
def test_through_safetensors_and_back(tmp_path: Path, fmt: str) -> None:
    tensor = quantize_blocks(X, fmt)
    files.save(tmp_path / "a.gguf", {"w": tensor})
    repack.pack_file(tmp_path / "a.gguf", tmp_path / "b.safetensors", "e4m3")
    repack.pack_file(tmp_path / "b.safetensors", tmp_path / "c.gguf", "e4m3")
    data = [(tmp_path / name).read_bytes() for name in ("a.gguf", "c.gguf")]
    first, last = (data[i][header(data[i]).places["w"].begin :] for i in (0, 1))
    assert first == last
    repack.unpack_file(tmp_path / "a.gguf", tmp_path / "d.npz")
    with np.load(tmp_path / "d.npz") as back:
        np.testing.assert_array_equal(back["w"], tensor.dequantize(), strict=True)


@pytest.mark.parametrize(
    ("tensors", "error"),
    [
        ({"w": quantize_blocks(X, "nvfp4")}, "'w': GGUF holds no nvfp4; it holds q8_0"),
        ({"w": quantize_blocks(X, "mxfp4", axis=0)}, "'w': its blocks run along axis -2"),
        ({"w": quantize_blocks(X[:, :33], "q8_0")}, "a row of 33|rows of 33 are not whole"),
        ({"w": fr.pack_tensor(X, "e4m3")}, "'w': GGUF holds no e4m3;"),
        ({"w": fr.pack_tensor(X, "bf16", scale="row")}, "'w': GGUF holds no bf16 with a scale;"),
        ({"w": np.zeros(3, np.uint8)}, "'w': GGUF has no type for U8"),
        ({"w": np.zeros((1,) * 5)}, "it has 5 axes; GGUF has at most 4"),
        ({"w" * 64: X}, "its name has 64 bytes; GGUF has 1 to 63"),
        ({"": X}, "its name has 0 bytes"),
    ],
)
def test_what_gguf_cannot_hold(tmp_path: Path, tensors: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        files.save(tmp_path / "a.gguf", tensors)
    assert os.listdir(tmp_path) == []


def test_a_type_that_is_only_copied_goes_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(file_of([], [info("k", (256,), 12, 0)], bytes(144 + 16)))
    repack.pack_file(tmp_path / "a.gguf", tmp_path / "b.gguf", "q8_0")
    with files.load(tmp_path / "b.gguf") as back:
        assert (back.stored["k"].dtype, back.stored["k"].shape) == ("Q4_K", (256,))
    for name, error in (("c.safetensors", "no dtype for Q4_K"), ("c.npz", "holds no packed tensor")):
        with pytest.raises(ValueError, match=error):
            repack.pack_file(tmp_path / "a.gguf", tmp_path / name, "q8_0")
    assert [fact.amax for fact in repack.inspect_file(tmp_path / "a.gguf")] == [None]


def test_memory_stays_near_one_tensor(tmp_path: Path) -> None:
    x = np.zeros((2048, 1024), np.float32)
    files.save(tmp_path / "a.gguf", {f"w{i}": x for i in range(6)})
    tracemalloc.start()
    try:
        repack.pack_file(tmp_path / "a.gguf", tmp_path / "b.gguf", "q8_0")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * x.nbytes  # with codes, scales and chunks; six tensors have more


# --- broken files -----------------------------------------------------------------------------

HUGE = 2**64 - 1


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "its magic would take 4 bytes"),
        (b"GGUG" + bytes(20), "does not begin with 'GGUF'"),
        (b"GGUF" + struct.pack("<I", 1) + bytes(16), "version 1: 2 and 3 are read"),
        (b"GGUF" + struct.pack(">I", 4) + bytes(16), "version 67108864: 2 and 3 are read"),
        (b"GGUF" + struct.pack("<IQQ", 3, HUGE, 0), f"number of tensors is {HUGE}"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, HUGE), f"number of pairs is {HUGE}"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0), "the name of tensor 0 would take 8 bytes"),
        (file_of([struct.pack("<Q", HUGE) + bytes(9)], [], b""), f"key 0 would have {HUGE} bytes"),
        (file_of([struct.pack("<Q", 40000) + bytes(9)], [], b""), "key 0 would take 40000 bytes"),
        (file_of([struct.pack("<Q", 1) + b"\xff" + bytes(5)], [], b""), "key 0 is no UTF-8: ff"),
        (file_of([pair("a", 8, struct.pack("<Q", HUGE))], [], b""), f"value of 'a' would have {HUGE} bytes"),
        (file_of([pair("a", 13, bytes(8))], [], b""), "'a' is of kind 13"),
        (file_of([pair("a", 7, b"\x02")], [], b""), "0x02 is neither false nor true"),
        (file_of([pair("a", 9, struct.pack("<IQ", 9, 1))], [], b""), "array of arrays"),
        (file_of([pair("a", 9, struct.pack("<IQ", 0, HUGE))], [], b""), f"length of .* is {HUGE}"),
        (file_of([pair("a", 9, struct.pack("<IQ", 8, 60))], [], bytes(64)), "the length of .* is 60"),
        (file_of([pair("a", 0, b"\x01")] * 2, [], b""), "the key 'a' stands there twice"),
        (file_of([pair("general.alignment", 4, struct.pack("<I", 24))], [], b""), "alignment is .24., no power of two"),
        (file_of([pair("general.alignment", 4, bytes(4))], [], b""), "alignment is .0."),
        (file_of([pair("general.alignment", 8, text("32"))], [], b""), "of 32 bits"),
        (file_of([], [info("w", (1,) * 5, 0, 0)], bytes(4)), "'w': it has 5 axes"),
        (file_of([], [info("w", (2**62, 4), 0, 0)], bytes(4)), "is too large"),
        (file_of([], [info("w", (4,), 4, 0)], bytes(4)), "unknown type 4"),
        (file_of([], [info("w", (33,), 8, 0)], bytes(68)), "rows of 33 are not whole"),
        (file_of([], [info("w", (4,), 0, 32)], bytes(48)), "begins at byte 32 of the data, not 0"),
        (file_of([], [info("w", (4,), 0, 0), info("v", (4,), 0, 0)], bytes(48)), "'v': begins at byte 0"),
        (file_of([], [info("w", (4,), 0, 0)] * 2, bytes(48)), "'w': stands there twice"),
        (file_of([], [info("w", (4,), 0, 0)], bytes(15)), "ends at byte 79 of 78|is the file truncated"),
        (file_of([], [info("w", (4,), 0, 0)], bytes(33)), "1 bytes behind the tensors"),
        (
            file_of([], [info("w", (32,), 8, 0), info("w_scale", (1,), 0, 64)], bytes(96)),
            "'w': its scale would take the name of 'w_scale'",
        ),
    ],
)
def test_broken_headers(tmp_path: Path, data: bytes, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        opened(data, tmp_path)


def test_every_truncation_is_an_error(tmp_path: Path) -> None:
    for length in [*range(0, len(BY_HAND) - 28, 5), len(BY_HAND) - 29]:
        with pytest.raises(ValueError, match=r"a\.gguf: .+"):
            opened(BY_HAND[:length], tmp_path)


def test_fuzz(tmp_path: Path) -> None:
    """Broken files: a ValueError with one line, or a file that can be read, in little memory."""
    rng = random.Random(7)
    read = 0
    tracemalloc.start()
    try:
        for _ in range(250):
            mutant = bytearray(BY_HAND)
            for _ in range(rng.choice((1, 1, 2))):
                at = rng.randrange(len(mutant))
                mutant[at : at + rng.choice((1, 1, 8))] = rng.randbytes(rng.choice((0, 1, 1, 8)))
            (tmp_path / "m.gguf").write_bytes(mutant)
            try:
                repack.inspect_file(tmp_path / "m.gguf")
                read += 1
            except ValueError as error:
                assert "\n" not in str(error)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
    assert 0 < read < 200  # the fuzz reaches both sides
