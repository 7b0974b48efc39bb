"""How tensors lie in a GGUF file: as plain types, or in ggml's blocks.

    type                  here
    F32 F16 F64 I8 ...    arrays
    BF16                  packed bf16
    Q8_0 Q4_0 MXFP4       blocks: q8_0, q4_0, ggml_mxfp4; mxfp4 is written as MXFP4, too
    NVFP4                 blocks: ggml_nvfp4, which has no scale for the tensor; llama.cpp keeps one, where
                          there is one, in an F32 tensor of its own, and so it stays one here
    Q4_K and the others   bytes that are copied and not read

A tensor in blocks shows the parts that it would have in a .safetensors file, so that whoever copies,
packs or unpacks sees no difference; on the way back the parts become blocks again.  The pairs of the
metadata keep their bytes from one GGUF file to another; elsewhere they are text.

Source: ggml, docs/gguf.md; llama.cpp, include/llama.h, llama_ftype for general.file_type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from feather_ref._gguf import TYPES, Pair, text_pair, u32_pair
from feather_ref._safetensors import Form, short
from feather_ref._stored import Note
from feather_ref._storedblocks import BlockNote, block_data, block_forms, read_blocks
from feather_ref._sweep import Array
from feather_ref.blocks import BLOCK_FORMATS, BlockFormat, BlockTensor
from feather_ref.layouts import from_bytes, to_bytes

BLOCKS: Mapping[str, BlockFormat] = {
    "Q8_0": BLOCK_FORMATS["q8_0"], "Q4_0": BLOCK_FORMATS["q4_0"], "MXFP4": BLOCK_FORMATS["ggml_mxfp4"],
    "NVFP4": BLOCK_FORMATS["ggml_nvfp4"],
}  # fmt: skip


def _key(fmt: BlockFormat) -> tuple[object, ...]:
    return fmt.element, fmt.scale, fmt.block, fmt.tensor_scale


_TYPE_OF = {_key(row): name for name, row in BLOCKS.items()}
_PACKED = ("F32", "F16", "BF16")
_FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7, "BF16": 32, "MXFP4": 38, "NVFP4": 39}
_QUANTIZATION_VERSION = 2
_OWN = ("general.alignment",)  # of the file that is written, unless it comes with a GGUF file


class Texts(dict[str, str]):
    """The metadata of a GGUF file as text, with the pairs themselves."""

    def __init__(self, pairs: Mapping[str, Pair]) -> None:
        """Every value as its text."""
        super().__init__({key: pair.text for key, pair in pairs.items()})
        self.pairs = dict(pairs)


# --- read -------------------------------------------------------------------------------------


def read_part(raw: Callable[[], Array], name: str, note: BlockNote, part: str) -> Array:
    """One of the parts of a tensor in ggml's blocks, from all its bytes."""
    if not isinstance(note.fmt, BlockFormat):
        raise TypeError(f"fmt must be a BlockFormat, got {type(note.fmt).__name__}")
    tensor = from_bytes({"blocks": raw()}, note.fmt, note.shape)
    return block_data(name, tensor, note)[part]


# --- write ------------------------------------------------------------------------------------


def gguf_forms(
    forms: Mapping[str, Form], notes: Mapping[str, Note], blocks: Mapping[str, BlockNote]
) -> dict[str, Form]:
    """What the file will hold, each tensor in blocks as one.  Raises ValueError for what GGUF cannot hold."""
    parts = {part for name, note in blocks.items() for part in block_forms(name, note) if part != name}
    found = {}
    for name, form in forms.items():
        if name in blocks:
            found[name] = Form(_block_type(name, blocks[name]), blocks[name].shape)
        elif name in notes and (form.dtype not in _PACKED or notes[name].scale is not None):
            kind = notes[name].row.name + (" with a scale" if notes[name].scale else "")
            raise ValueError(f"tensor {short(name)}: GGUF holds no {kind}; {_HOLDS}")
        elif name not in parts:
            found[name] = form
    return found


_HOLDS = "it holds q8_0, q4_0, mxfp4, ggml_nvfp4, fp16, bf16 and fp32"


def whole_rows(fmt: BlockFormat) -> int:
    """What the rows of a tensor must be a multiple of; 1 for a format that GGUF does not hold."""
    return TYPES[_TYPE_OF[_key(fmt)]].block if _key(fmt) in _TYPE_OF else 1


def _block_type(name: str, note: BlockNote) -> str:
    fmt = note.fmt
    if not isinstance(fmt, BlockFormat) or _key(fmt) not in _TYPE_OF:
        raise ValueError(f"tensor {short(name)}: GGUF holds no {fmt.name}; {_HOLDS}")
    if note.axis != -1:
        raise ValueError(f"tensor {short(name)}: its blocks run along axis {note.axis}; those of GGUF along the last")
    return _TYPE_OF[_key(fmt)]


def block_bytes(name: str, note: BlockNote, parts: Mapping[str, Array]) -> Array:
    """ggml's blocks of a tensor, from its parts."""
    tensor = read_blocks(name, note, parts)
    if not isinstance(tensor, BlockTensor):
        raise TypeError(f"tensor must be a BlockTensor, got {type(tensor).__name__}")
    return to_bytes(replace(tensor, fmt=BLOCKS[_block_type(name, note)]))["blocks"]


def pairs_of(metadata: Mapping[str, str], forms: Mapping[str, Form]) -> dict[str, Pair]:
    """The pairs to write: those of a GGUF file as they were, others as text, and what readers ask for.

    general.file_type is that of the type with the most numbers, where it has one.
    """
    if isinstance(metadata, Texts):
        pairs = dict(metadata.pairs)
    else:
        pairs = {key: text_pair(key, text) for key, text in metadata.items() if key not in _OWN}
        pairs.setdefault("general.architecture", text_pair("general.architecture", "unknown"))
    numbers: Counter[str] = Counter()
    for form in forms.values():
        numbers[form.dtype] += prod(form.shape)
    most = max(numbers, key=lambda name: numbers[name], default="")
    if most in _FILE_TYPES:
        pairs["general.file_type"] = u32_pair("general.file_type", _FILE_TYPES[most])
    if any(TYPES[name].block > 1 for name in numbers if name in TYPES):
        version = u32_pair("general.quantization_version", _QUANTIZATION_VERSION)
        pairs.setdefault("general.quantization_version", version)
    return pairs
