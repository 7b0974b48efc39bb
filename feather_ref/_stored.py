"""How a packed tensor lies in a .safetensors file, and what says so.

    rows                                   dtype             how
    e4m3 e5m2 e8m0 e4m3fnuz e5m2fnuz       F8_E4M3, ...      a code a byte
    fp16 bf16 fp32 int8 uint8              F16, BF16, ...    a code an element
    e2m1, last axis even                   F4                two a byte, the low nibble first
    every other row and shape              U32               the words, of `pack_tensor`

Its scale is the tensor <name>_scale, F32, of shape () or (..., 1), to multiply with.  What dtype
and names do not say stands in the metadata, key "feather_ref.<name>": JSON of format, shape, order,
version, and scale where there is one.

Source: safetensors 0.8.0 for the dtypes; <name>_scale is the name that FP8 checkpoints use.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from feather_ref._rowjson import named_or_json, parse_row
from feather_ref._safetensors import BITS, Form, short
from feather_ref._sweep import Array
from feather_ref.formats import FORMATS, Format
from feather_ref.packing import ORDERS, Order, Words
from feather_ref.tensors import PackedTensor
from feather_ref.words import check_lane, codes_to_words

KEY = "feather_ref."
VERSION = 1

_CODES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "I32": "<i4", "U32": "<u4",
    "F32": "<f4", "C64": "<c8", "F64": "<f8", "I64": "<i8", "U64": "<u8",
}  # fmt: skip
NUMPY = {name: np.dtype(code) for name, code in _CODES.items()}
"""The dtypes that NumPy has, too."""

# F6 is left out: how its codes share bytes is written down nowhere.
ROWS = {alias: row for row in FORMATS.values() for alias in row.aliases if BITS.get(alias, 6) != 6}
_DTYPES = {row: dtype for dtype, row in ROWS.items()}
_SCALES = ("F32", "F16", "BF16")


class HasForm(Protocol):
    """What is stored: the name of a dtype, and a shape."""

    @property
    def dtype(self) -> str:
        """A name of `BITS`, or NumPy's."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements an axis."""


class Note(NamedTuple):
    """What the bytes of a packed tensor mean; scale: the name of another tensor, or None."""

    row: Format
    shape: tuple[int, ...]
    order: Order = "little"
    scale: str | None = None


# --- bytes ------------------------------------------------------------------------------------


def form_of(row: Format, shape: tuple[int, ...]) -> Form:
    """How a packed tensor is stored.

    >>> form_of(FORMATS["e2m1"], (3, 4)), form_of(FORMATS["e2m1"], (3, 5))
    (Form(dtype='F4', shape=(3, 4)), Form(dtype='U32', shape=(3, 1)))
    """
    dtype = _DTYPES.get(row)
    if dtype is not None and (row.bits >= 8 or (shape and shape[-1] % (8 // row.bits) == 0)):
        return Form(dtype, shape)
    *lead, n = shape or (1,)
    return Form("U32", (*lead, -(-n * row.storage_bits // 32)))


def to_bytes(packed: PackedTensor) -> Array:
    """The data of a packed tensor: words, or the bytes of each row.

    >>> to_bytes(PackedTensor(np.array([0x00ABCDEF], np.uint32), None, (3,), "e4m3")).tolist()
    [[239, 205, 171]]
    """
    form = form_of(packed.fmt, packed.shape)
    if form.dtype == "U32":
        return packed.words
    # In order "little" the words are the stream of bytes, with zeros in the last word of a row.
    *lead, n = packed.shape or (1,)
    words = packed.words
    if packed.order == "big":
        words = codes_to_words(packed.codes().reshape(*lead, n), packed.fmt, "little")
    rows = math.prod(lead)
    stream = np.ascontiguousarray(words, "<u4").reshape(-1).view(np.uint8).reshape(rows, 4 * words.shape[-1])
    return stream[:, : n * packed.fmt.storage_bits // 8]


def to_words(data: Array, dtype: str, note: Note) -> Words:
    """The words of a packed tensor from its data: `to_bytes`, back, and without a copy if it can be."""
    if dtype == "U32":
        return data
    *lead, n = note.shape or (1,)
    rows, used = math.prod(lead), n * note.row.storage_bits // 8
    stream = data.reshape(-1).view(np.uint8).reshape(rows, used)
    if used % 4:
        stream = np.pad(stream, ((0, 0), (0, -used % 4)))
    words: Words = stream.reshape(-1).view("<u4").reshape(*lead, -(-used // 4))
    if note.order == "little":
        return words
    codes = PackedTensor(words, None, note.shape, note.row).codes()
    return codes_to_words(codes.reshape(*lead, n), note.row, "big")


# --- notes ------------------------------------------------------------------------------------


def implied(name: str, forms: Mapping[str, HasForm]) -> Note | None:
    """What a dtype and a name say without metadata."""
    form = forms[name]
    row = ROWS.get(form.dtype)
    if row is None or form.dtype in NUMPY:
        return None
    # A 16-bit tensor beside one named _scale may be anything; a narrow one means it.
    joined = row.bits <= 8 and _fits(forms.get(f"{name}_scale"), form.shape)
    return Note(row, form.shape, "little", f"{name}_scale" if joined else None)


def _fits(scale: HasForm | None, shape: tuple[int, ...]) -> bool:
    """Whether a tensor can be the scale of another: one number, or one a row."""
    return scale is not None and scale.dtype in _SCALES and scale.shape in ((), (1,), (*shape[:-1], 1))


def to_metadata(notes: Mapping[str, Note], forms: Mapping[str, HasForm]) -> dict[str, str]:
    """The notes that dtype and name do not imply, as they are written."""
    return {f"{KEY}{name}": _text(note) for name, note in notes.items() if implied(name, forms) != note}


def _text(note: Note) -> str:
    fields = {"format": named_or_json(note.row), "shape": note.shape, "order": note.order, "version": VERSION}
    return json.dumps(fields if note.scale is None else {**fields, "scale": note.scale})


def from_metadata(metadata: Mapping[str, str], forms: Mapping[str, HasForm]) -> dict[str, Note]:
    """What is known of every packed tensor of a file.  Raises ValueError for a false note."""
    said = {}
    for key, text in metadata.items():
        if key.startswith(KEY):
            try:
                said[key.removeprefix(KEY)] = _read(key.removeprefix(KEY), text, forms)
            except (ValueError, TypeError, RecursionError) as error:
                raise ValueError(f"metadata {short(key)}: {error}") from None
    taken = [note.scale for note in said.values() if note.scale is not None]
    spoken = {*said, *taken}
    if len(spoken) < len(said) + len(taken):
        raise ValueError(f"metadata {KEY}*: a scale belongs to one tensor, and has none itself")
    notes = dict(said)
    for name in forms:
        note = implied(name, forms)
        if note is not None and name not in spoken:
            notes[name] = note._replace(scale=None) if note.scale in spoken else note
    scales = {note.scale for note in notes.values()}
    return {name: note for name, note in notes.items() if name not in scales}


def _read(name: str, text: str, forms: Mapping[str, HasForm]) -> Note:
    """One note.  Raises ValueError or TypeError."""
    if name not in forms:
        raise ValueError("there is no such tensor")
    fields = json.loads(text)
    if not isinstance(fields, dict) or fields.keys() - {"scale"} != {"format", "shape", "order", "version"}:
        raise ValueError("it is not JSON of format, shape, order and version")
    if fields["version"] != VERSION:
        raise ValueError(f"version is {short(str(fields['version']))}; this program reads {VERSION}")
    fmt, shape, order, scale = fields["format"], fields["shape"], fields["order"], fields.get("scale")
    if not isinstance(fmt, str) or order not in ORDERS:
        raise ValueError(f"format is no text, or order none of {', '.join(ORDERS)}")
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 1 << 48 for size in shape):
        raise ValueError("shape is no list of sizes")
    note = Note(check_lane(parse_row(fmt)), tuple(shape), order, scale)
    if (forms[name].dtype, forms[name].shape) != form_of(note.row, note.shape):
        raise ValueError(f"{forms[name].dtype} {list(forms[name].shape)} cannot hold {note.row.name} {shape}")
    if scale is not None and not (isinstance(scale, str) and scale != name and _fits(forms.get(scale), note.shape)):
        raise ValueError(f"{short(str(scale))} is no scale of it: one number, or one a row")
    return note


def read_scale(data: Array, dtype: str, shape: tuple[int, ...], note: Note) -> NDArray[np.float32]:
    """The scale of a note's tensor, from the data of another one."""
    if dtype == "BF16":
        row = ROWS[dtype]
        data = PackedTensor(to_words(data, dtype, Note(row, shape)), None, shape, row).dequantize()
    scale = data.reshape(shape).astype(np.float32)
    return scale if shape == (*note.shape[:-1], 1) else scale.reshape(())
