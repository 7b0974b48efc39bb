"""GGUF: the header, read strictly and written as ggml and the gguf package write it.

All numbers have one byte order, little-endian in most files, and the data has it too; the version
tells which.  Here pairs and data are little-endian, whatever the file's order.  A text is 8 bytes for
its length, then UTF-8::

    "GGUF" | version u32 | tensors u64 | pairs u64 | pairs | tensors | zeros | data
    pair    key text | kind u32 | value          an array: kind u32 | count u64 | values
    tensor  name text | axes u32 | sizes u64 each, the last axis first | type u32 | offset u64

Offsets count from the start of the data, which is a multiple of "general.alignment" (32), as is every
offset.  The tensors follow each other in the order of the header, each filled with zeros to the
alignment; what lies otherwise is refused, as ggml does.

The gguf package cannot stand here: it maps a hostile header without a check of its sizes, and its
writer wants each tensor as one array.

Source: ggml, docs/gguf.md, version 3; src/gguf.cpp; ggml.h for the types and the limits; the gguf package,
gguf_convert_endian.py, for what has an order within a block.
"""

from __future__ import annotations

import io
import json
import math
import struct
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feather_ref._safetensors import Form, Place, short

Bytes = NDArray[np.uint8]
Order = Literal["<", ">"]

_MAGIC = b"GGUF"
_VERSION = 3
_READABLE = (2, 3)
_ALIGNMENT_KEY = "general.alignment"
_ALIGNMENT = 32
_MAX_ALIGNMENT = 1 << 20
_MAX_AXES = 4  # GGML_MAX_DIMS
_MAX_NAME = 63  # bytes; GGML_MAX_NAME counts a 0 behind them
_MAX_KEY = 65535  # bytes
_MAX_TEXT = 1 << 26  # bytes of one value
_MAX_ITEMS = 1 << 22  # of an array; a large vocabulary has 2**18
_MAX_SIZE = 2**63 - 1


class Type(NamedTuple):
    """A tensor type: its number, numbers in a block, bytes of a block."""

    code: int
    block: int
    size: int


TYPES: Mapping[str, Type] = {
    "F32": Type(0, 1, 4), "F16": Type(1, 1, 2), "Q4_0": Type(2, 32, 18), "Q4_1": Type(3, 32, 20),
    "Q5_0": Type(6, 32, 22), "Q5_1": Type(7, 32, 24), "Q8_0": Type(8, 32, 34), "Q8_1": Type(9, 32, 40),
    "Q2_K": Type(10, 256, 84), "Q3_K": Type(11, 256, 110), "Q4_K": Type(12, 256, 144), "Q5_K": Type(13, 256, 176),
    "Q6_K": Type(14, 256, 210), "Q8_K": Type(15, 256, 292), "IQ2_XXS": Type(16, 256, 66),
    "IQ2_XS": Type(17, 256, 74), "IQ3_XXS": Type(18, 256, 98), "IQ1_S": Type(19, 256, 50),
    "IQ4_NL": Type(20, 32, 18), "IQ3_S": Type(21, 256, 110), "IQ2_S": Type(22, 256, 82),
    "IQ4_XS": Type(23, 256, 136), "I8": Type(24, 1, 1), "I16": Type(25, 1, 2), "I32": Type(26, 1, 4),
    "I64": Type(27, 1, 8), "F64": Type(28, 1, 8), "IQ1_M": Type(29, 256, 56), "BF16": Type(30, 1, 2),
    "TQ1_0": Type(34, 256, 54), "TQ2_0": Type(35, 256, 66), "MXFP4": Type(39, 32, 17), "NVFP4": Type(40, 64, 36),
}  # fmt: skip
"""Every tensor type by name, also those whose bits are not read here: they can be copied."""

_HEADS = {"Q4_0": 2, "Q8_0": 2, "MXFP4": 0, "NVFP4": 0}  # bytes of a block that are one number and come first
_BY_CODE = {row.code: name for name, row in TYPES.items()}
_TEXT, _ARRAY, _BOOL, _U32 = 8, 9, 7, 4
_KINDS = {
    0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", _BOOL: "u1", 10: "u8", 11: "i8", 12: "f8",
}  # fmt: skip
_SMALLEST_PAIR, _SMALLEST_TENSOR = 8 + 4 + 1, 8 + 4 + 4 + 8  # bytes


class Pair(NamedTuple):
    """A pair of the metadata: the value as text, JSON where it is no text, and all its bytes, little-endian."""

    text: str
    raw: bytes


class Header(NamedTuple):
    """What a header says; places count from the start of the file, size is all its bytes, order theirs."""

    places: dict[str, Place]
    pairs: dict[str, Pair]
    size: int
    order: Order = "<"


def nbytes(form: Form, name: str) -> int:
    """Bytes of a tensor; ValueError where its rows are not whole blocks.

    >>> nbytes(Form("Q8_0", (2, 64)), "w")
    136
    """
    row, n = TYPES[form.dtype], (form.shape or (1,))[-1]
    if n % row.block:
        raise ValueError(f"tensor {short(name)}: {form.dtype} has blocks of {row.block}, and rows of {n} are not whole")
    if math.prod(size for size in form.shape if size) * row.size > _MAX_SIZE:
        raise ValueError(f"tensor {short(name)}: shape {list(form.shape)} is too large")
    return math.prod(form.shape) // row.block * row.size


def swapped(data: Bytes, dtype: str, name: str) -> Bytes:
    """The flat bytes of a tensor in the other byte order.  Raises ValueError where that is not known.

    >>> swapped(np.array([1, 2, 3, 4], np.uint8), "F16", "w").tolist()
    [2, 1, 4, 3]
    """
    row = TYPES[dtype]
    head = row.size if row.block == 1 else _HEADS.get(dtype)
    if head is None:
        raise ValueError(f"tensor {short(name)}: how {dtype} lies in the other byte order is not known here")
    blocks = data.reshape(-1, row.size).copy()
    blocks[:, :head] = blocks[:, :head][:, ::-1].copy()
    return blocks.reshape(-1)


# --- write ------------------------------------------------------------------------------------


def _text(text: str, order: Order = "<") -> bytes:
    data = text.encode()
    return struct.pack(f"{order}Q", len(data)) + data


def text_pair(key: str, text: str) -> Pair:
    """A pair with a text.

    >>> text_pair("a", "hi").raw.hex()
    '0100000000000000610800000002000000000000006869'
    """
    return Pair(text, _text(key) + struct.pack("<I", _TEXT) + _text(text))


def u32_pair(key: str, value: int) -> Pair:
    """A pair with a number."""
    return Pair(str(value), _text(key) + struct.pack("<II", _U32, value))


def make_header(forms: Mapping[str, Form], pairs: Mapping[str, Pair], order: Order = "<") -> tuple[bytes, Header]:
    """The bytes before the data, and where each tensor goes, in the order of forms.  order: of bytes.

    Raises ValueError naming the tensor that GGUF cannot hold.
    """
    alignment = int(pairs[_ALIGNMENT_KEY].text) if _ALIGNMENT_KEY in pairs else _ALIGNMENT
    infos, spans, offset = [], {}, 0
    for name, form in forms.items():
        _check_form(name, form)
        axes = len(form.shape)
        infos.append(_text(name, order) + struct.pack(f"{order}I{axes}Q", axes, *form.shape[::-1]))
        infos.append(struct.pack(f"{order}IQ", TYPES[form.dtype].code, offset))
        spans[name] = offset, offset + nbytes(form, name)
        offset = _padded(spans[name][1], alignment)
    text = _MAGIC + struct.pack(f"{order}IQQ", _VERSION, len(forms), len(pairs))
    text += b"".join([*(_ordered(pair.raw, order) for pair in pairs.values()), *infos])
    text += bytes(_padded(len(text), alignment) - len(text))
    start = len(text)
    places = {name: Place(*forms[name], start + begin, start + end) for name, (begin, end) in spans.items()}
    return text, Header(places, dict(pairs), start + offset, order)


def _ordered(raw: bytes, order: Order) -> bytes:
    """The bytes of a pair in an order."""
    if order == "<":
        return raw
    reader = _Reader(io.BytesIO(raw), len(raw), said_in=order)
    _read_pair(reader, 0)
    return bytes(reader.said)


def _padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _check_form(name: str, form: Form) -> None:
    where = f"tensor {short(name)}"
    if form.dtype not in TYPES:
        raise ValueError(f"{where}: GGUF has no type for {form.dtype}")
    if len(form.shape) > _MAX_AXES:
        raise ValueError(f"{where}: it has {len(form.shape)} axes; GGUF has at most {_MAX_AXES}")
    if not 0 < len(name.encode()) <= _MAX_NAME:
        raise ValueError(f"{where}: its name has {len(name.encode())} bytes; GGUF has 1 to {_MAX_NAME}")


# --- read -------------------------------------------------------------------------------------


class _Reader:
    """A file of known size, read from its start; nothing is taken that is not there.

    order: of the file's bytes.  said: all that was read since it was last cleared, in the order said_in.
    """

    def __init__(self, file: BinaryIO, size: int, order: Order = "<", said_in: Order = "<") -> None:
        self.file, self.size, self.at = file, size, 0
        self.order, self.said, self.said_in = order, bytearray(), said_in

    def take(self, count: int, what: str) -> bytes:
        """The next bytes, as they are."""
        if count > self.size - self.at:
            raise ValueError(
                f"{what} would take {count} bytes at byte {self.at} of {self.size}; is the file truncated?"
            )
        data = self.file.read(count)
        if len(data) < count:
            raise ValueError(f"{what}: the file ends at byte {self.at + len(data)}; it was longer a moment ago")
        self.at += count
        return data

    def numbers(self, dtype: str, count: int, what: str) -> NDArray[Any]:
        """Numbers of a dtype."""
        kind = np.dtype(dtype).newbyteorder(self.order)
        values = np.frombuffer(self.take(count * kind.itemsize, what), kind)
        self.said += values.astype(kind.newbyteorder(self.said_in)).tobytes()
        return values

    def number(self, dtype: str, what: str) -> int:
        """One number."""
        return int(self.numbers(dtype, 1, what)[0])

    def text(self, most: int, what: str) -> bytes:
        """A text, not decoded."""
        length = self.number("u8", what)
        if length > most:
            raise ValueError(f"{what} would have {length} bytes; at most {most} are read")
        data = self.take(length, what)
        self.said += data
        return data

    def count(self, smallest: int, what: str) -> int:
        """How many things follow, each of some bytes at least."""
        count = self.number("u8", what)
        if count > (self.size - self.at) // smallest:
            raise ValueError(f"{what} is {count}, more than {self.size} bytes can hold; is the file truncated?")
        return count


def _swapped_32(value: int) -> int:
    return int.from_bytes(value.to_bytes(4, "little"), "big")


def read_header(file: BinaryIO, size: int) -> Header:
    """Read and check the header of a file of `size` bytes, opened at its start.  Raises ValueError."""
    reader = _Reader(file, size)
    if reader.take(4, "its magic") != _MAGIC:
        raise ValueError("it does not begin with 'GGUF'")
    version = reader.number("u4", "its version")
    if _swapped_32(version) in _READABLE:
        reader.order, version = ">", _swapped_32(version)
    if version not in _READABLE:
        raise ValueError(f"GGUF version {version}: 2 and 3 are read")
    tensors = reader.number("u8", "the number of tensors")
    if tensors > size // _SMALLEST_TENSOR:
        raise ValueError(f"the number of tensors is {tensors}, more than {size} bytes can hold; is the file truncated?")
    pairs = _read_pairs(reader, reader.count(_SMALLEST_PAIR, "the number of pairs"))
    alignment = _alignment(pairs)
    infos = [_read_info(reader, i) for i in range(tensors)]
    places = _places(infos, _padded(reader.at, alignment), alignment, size)
    return Header(places, pairs, size, reader.order)


def _read_pairs(reader: _Reader, count: int) -> dict[str, Pair]:
    pairs: dict[str, Pair] = {}
    for i in range(count):
        reader.said.clear()
        key, text = _read_pair(reader, i)
        if key in pairs:
            raise ValueError(f"the key {short(key)} stands there twice")
        pairs[key] = Pair(text, bytes(reader.said))
    return pairs


def _read_pair(reader: _Reader, i: int) -> tuple[str, str]:
    """Key and value."""
    key = _name(reader.text(_MAX_KEY, f"key {i}"), f"key {i}")
    kind = reader.number("u4", f"the kind of {short(key)}")
    return key, _read_value(reader, kind, f"the value of {short(key)}")


def _name(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{what} is no UTF-8: {data[:40].hex()}") from None


def _read_value(reader: _Reader, kind: int, what: str) -> str:
    """A value as text: as it is, or JSON."""
    if kind == _TEXT:
        return reader.text(_MAX_TEXT, what).decode(errors="backslashreplace")
    if kind != _ARRAY:
        return json.dumps(_numbers(reader, kind, 1, what)[0])
    kind = reader.number("u4", what)
    if kind == _ARRAY:
        raise ValueError(f"{what} is an array of arrays, which ggml does not read either")
    count = reader.count(8 if kind == _TEXT else 1, f"the length of {what}")
    if count > _MAX_ITEMS:
        raise ValueError(f"{what} has {count} items; at most {_MAX_ITEMS} are read")
    if kind == _TEXT:
        texts = [reader.text(_MAX_TEXT, what).decode(errors="backslashreplace") for _ in range(count)]
        return json.dumps(texts, ensure_ascii=False)
    return json.dumps(_numbers(reader, kind, count, what))


def _numbers(reader: _Reader, kind: int, count: int, what: str) -> list[Any]:
    if kind not in _KINDS:
        raise ValueError(f"{what} is of kind {kind}, which GGUF does not have")
    values = reader.numbers(_KINDS[kind], count, what)
    if kind == _BOOL:
        if count and int(values.max()) > 1:
            raise ValueError(f"{what}: 0x{int(values.max()):02X} is neither false nor true")
        values = values.astype(bool)
    return [float(str(x)) for x in values] if values.dtype.kind == "f" else values.tolist()


def _alignment(pairs: Mapping[str, Pair]) -> int:
    if _ALIGNMENT_KEY not in pairs:
        return _ALIGNMENT
    text, raw = pairs[_ALIGNMENT_KEY]
    kind = int.from_bytes(raw[8 + len(_ALIGNMENT_KEY) :][:4], "little")
    if kind != _U32 or not 0 < int(text) <= _MAX_ALIGNMENT or int(text) & (int(text) - 1):
        raise ValueError(f"{_ALIGNMENT_KEY} is {short(text)}, no power of two up to {_MAX_ALIGNMENT} of 32 bits")
    return int(text)


def _read_info(reader: _Reader, i: int) -> tuple[str, Form, int]:
    """Name, form and offset of a tensor."""
    name = _name(reader.text(_MAX_KEY, f"the name of tensor {i}"), f"the name of tensor {i}")
    where = f"tensor {short(name)}"
    axes = reader.number("u4", f"{where}: its axes")
    if axes > _MAX_AXES:
        raise ValueError(f"{where}: it has {axes} axes; at most {_MAX_AXES} are read")
    sizes = tuple(reader.numbers("u8", axes, f"{where}: its shape").tolist())
    code, offset = reader.number("u4", f"{where}: its type"), reader.number("u8", f"{where}: its offset")
    if code not in _BY_CODE:
        raise ValueError(f"{where}: unknown type {code}; known: {', '.join(TYPES)}")
    return name, Form(_BY_CODE[code], sizes[::-1]), offset


def _places(infos: Iterable[tuple[str, Form, int]], start: int, alignment: int, size: int) -> dict[str, Place]:
    """Where each tensor lies: one after the other, and nothing else in the file."""
    places: dict[str, Place] = {}
    end = 0
    for name, form, offset in infos:
        where = f"tensor {short(name)}"
        if name in places:
            raise ValueError(f"{where}: stands there twice")
        if offset != _padded(end, alignment):
            raise ValueError(f"{where}: begins at byte {offset} of the data, not {_padded(end, alignment)}")
        end = offset + nbytes(form, name)
        if start + end > size:
            raise ValueError(f"{where}: ends at byte {start + end} of {size}; is the file truncated?")
        places[name] = Place(*form, start + offset, start + end)
    if size > start + _padded(end, alignment):
        raise ValueError(f"{size - start - _padded(end, alignment)} bytes behind the tensors belong to none")
    return places
