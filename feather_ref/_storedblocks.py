"""How a tensor in blocks lies in a .safetensors file, and what says so.

    <name>            element codes, like those of a packed tensor without a scale
    <name>_scale      scale codes, of the shape of the blocks; those of ue4m3 as F8_E4M3, which has the same
    <name>_scale_2    the scale of the whole tensor, F32, where the format has one
    <name>_zeros      element codes that mean zero, where the format has them
    <name>_selectors  U8, an index into the element rows, of mixed formats

The metadata has a key "feather_ref_blocks.<name>": JSON of block_format, shape, axis and version.

Source: design of this project; _scale and _scale_2 are the names that NVFP4 checkpoints use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from feather_ref._mixed import MIXED_FORMATS, MixedBlockFormat, MixedBlockTensor
from feather_ref._safetensors import Form, nbytes, short
from feather_ref._stored import HasForm, Note, form_of, to_bytes, to_words
from feather_ref._sweep import Array
from feather_ref.blocks import BLOCK_FORMATS, BlockFormat, BlockTensor, check_axis, scales_shape
from feather_ref.formats import FORMATS, Format
from feather_ref.tensors import PackedTensor
from feather_ref.words import codes_to_words

BLOCK_KEY = "feather_ref_blocks."
VERSION = 1
_KNOWN: dict[str, BlockFormat | MixedBlockFormat] = {**BLOCK_FORMATS, **MIXED_FORMATS}
_STORED_AS = {FORMATS["ue4m3"]: FORMATS["e4m3"]}


class BlockNote(NamedTuple):
    """What the parts of a tensor in blocks mean; the format has a name."""

    fmt: BlockFormat | MixedBlockFormat
    shape: tuple[int, ...]
    axis: int = -1


def note_of(name: str, tensor: BlockTensor | MixedBlockTensor) -> BlockNote:
    """The note of a tensor.  Raises ValueError where its format is none that has a name."""
    if _KNOWN.get(tensor.fmt.name) != tensor.fmt:
        raise ValueError(f"tensor {short(name)}: block format {tensor.fmt.name!r} has no entry to be found by again")
    return BlockNote(tensor.fmt, tensor.shape, tensor.axis)


class _Part(NamedTuple):
    """One tensor of the file: codes of a row."""

    row: Format
    shape: tuple[int, ...]


def _parts(note: BlockNote) -> dict[str, _Part]:
    """By what is added to the name."""
    fmt = note.fmt
    plain = fmt.parts[0] if isinstance(fmt, MixedBlockFormat) else fmt
    grid = scales_shape(note.shape or (1,), plain, note.axis)
    found = {"": _Part(fmt.element, note.shape), "_scale": _Part(_STORED_AS.get(fmt.scale, fmt.scale), grid)}
    if plain.tensor_scale != "none":
        found["_scale_2"] = _Part(FORMATS["fp32"], ())
    if plain.zero_point:
        found["_zeros"] = _Part(fmt.element, grid)
    if isinstance(fmt, MixedBlockFormat):
        found["_selectors"] = _Part(FORMATS["uint8"], grid)
    return found


def block_forms(name: str, note: BlockNote) -> dict[str, Form]:
    """The tensors that the file will hold.

    >>> list(block_forms("w", BlockNote(BLOCK_FORMATS["nvfp4"], (2, 32))).items())[:2]
    [('w', Form(dtype='F4', shape=(2, 32))), ('w_scale', Form(dtype='F8_E4M3', shape=(2, 2)))]
    """
    return {name + suffix: form_of(part.row, part.shape) for suffix, part in _parts(note).items()}


def stored_nbytes(tensor: PackedTensor | BlockTensor | MixedBlockTensor) -> int:
    """Bytes of a tensor in a .safetensors file, with all that belongs to it.

    >>> stored_nbytes(PackedTensor(np.zeros((2, 1), np.uint32), None, (2, 3), "e4m3"))  # 6 codes, not 2 words
    6
    """
    if isinstance(tensor, PackedTensor):
        forms = {"": form_of(tensor.fmt, tensor.shape)}
        if tensor.scale is not None:
            forms["_scale"] = Form("F32", tensor.scale.shape)
    else:
        forms = block_forms("", BlockNote(tensor.fmt, tensor.shape, tensor.axis))
    return sum(nbytes(form, suffix) for suffix, form in forms.items())


def block_data(name: str, tensor: BlockTensor | MixedBlockTensor, note: BlockNote) -> dict[str, Array]:
    """The data of each of them."""
    codes: dict[str, Any] = {"": tensor.codes, "_scale": tensor.scales}
    if isinstance(tensor, MixedBlockTensor):
        codes["_selectors"] = tensor.selectors
    else:
        whole = None if tensor.tensor_scale is None else np.asarray(tensor.tensor_scale).view(np.uint32)
        codes |= {"_scale_2": whole, "_zeros": tensor.zeros}
    return {name + suffix: _bytes(codes[suffix], part) for suffix, part in _parts(note).items()}


def _bytes(codes: Array, part: _Part) -> Array:
    words = codes_to_words(np.atleast_1d(codes), part.row, "little")
    return to_bytes(PackedTensor(words, None, part.shape, part.row))


def read_blocks(name: str, note: BlockNote, data: Mapping[str, Array]) -> BlockTensor | MixedBlockTensor:
    """The tensor, from the data of each part as it was read."""
    codes = {}
    for suffix, part in _parts(note).items():
        form = form_of(part.row, part.shape)
        words = to_words(data[name + suffix], form.dtype, Note(part.row, part.shape))
        codes[suffix] = PackedTensor(words, None, part.shape, part.row).codes()
    first = np.atleast_1d(codes[""])
    if isinstance(note.fmt, MixedBlockFormat):
        return MixedBlockTensor(first, codes["_scale"], codes["_selectors"], note.fmt, note.axis)
    whole = np.float32(codes["_scale_2"].view(np.float32).item()) if "_scale_2" in codes else None
    return BlockTensor(first, codes["_scale"], note.fmt, note.axis, whole, codes.get("_zeros"))


# --- notes ------------------------------------------------------------------------------------


def block_metadata(notes: Mapping[str, BlockNote]) -> dict[str, str]:
    """The notes as they are written."""
    return {
        f"{BLOCK_KEY}{name}": json.dumps(
            {"block_format": note.fmt.name, "shape": note.shape, "axis": note.axis, "version": VERSION}
        )
        for name, note in notes.items()
    }


def block_notes(metadata: Mapping[str, str], forms: Mapping[str, HasForm]) -> dict[str, BlockNote]:
    """What a file says of its tensors in blocks.  Raises ValueError for a false note."""
    notes: dict[str, BlockNote] = {}
    taken: set[str] = set()
    for key, text in metadata.items():
        if not key.startswith(BLOCK_KEY):
            continue
        name = key.removeprefix(BLOCK_KEY)
        try:
            note = _read(text)
            parts = block_forms(name, note)
            for part, form in parts.items():
                found = forms.get(part)
                if found is None or (found.dtype, found.shape) != form:
                    raise ValueError(f"{short(part)} is not {form.dtype} {list(form.shape)}")
            if taken & parts.keys():
                raise ValueError("a tensor has two meanings")
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"metadata {short(key)}: {error}") from None
        notes[name] = note
        taken |= parts.keys()
    return notes


def _read(text: str) -> BlockNote:
    fields = json.loads(text)
    if not isinstance(fields, dict) or fields.keys() != {"block_format", "shape", "axis", "version"}:
        raise ValueError("it is not JSON of block_format, shape, axis and version")
    if fields["version"] != VERSION:
        raise ValueError(f"version is {short(str(fields['version']))}; this program reads {VERSION}")
    fmt, shape, axis = fields["block_format"], fields["shape"], fields["axis"]
    if not isinstance(fmt, str) or fmt not in _KNOWN:
        raise ValueError(f"block_format {short(str(fmt))} is not known")
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 1 << 48 for size in shape):
        raise ValueError("shape is no list of sizes")
    row = _KNOWN[fmt]
    plain = row.parts[0] if isinstance(row, MixedBlockFormat) else row
    return BlockNote(row, tuple(shape), check_axis(axis, tuple(shape) or (1,), plain))
