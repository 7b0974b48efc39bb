"""Byte layouts: how the elements and scales of blocks lie in memory, one row each.

A tensor becomes parts, each a run of bytes; whoever takes one part takes a pointer::

    layout       parts
    dense        elements, scales, and tensor_scale, zeros where the format has them
    tiled_128x4  the same, with the scales in tiles of 128 rows and 4 columns
    ggml         blocks: each block its scale, then its elements
    ggml_x4      blocks: four scales, then the elements of four blocks

**dense.** The block axis comes last.  Codes lie end to end, the first in the low bits, so that of two
nibbles in a byte the low one is first, and four six-bit codes fill three bytes.  Each row ends in zero
bits, at a whole byte.  Scales and zeros lie so, too; tensor_scale is a little-endian float32.

**tiled_128x4.** What tensor cores take for MX and NVFP4.  Scales are one byte; rows and columns are
filled with zeros to whole tiles, which follow each other row by row.  In a tile of 512 bytes the scale
of row r, column c is byte ::

    r % 32 * 16 + r // 32 * 4 + c

Every matrix of the two last axes is tiled for itself.

**ggml.** A block is its scale, little-endian, then k elements: bytes, or nibbles, of which byte i has
element i in the low half and element i + k/2 in the high half.  Four-bit integers lie in excess of 8:
-8 is 0.  A row holds whole blocks, and the block axis is the last.  **ggml_x4** puts four blocks together, the
scales of all before the elements of all; NVFP4 lies so: 4 bytes, then 8 bytes for each of four blocks.

Source: dense: ONNX 1.19, onnx.proto (4-bit types); torchao 0.18.  tiled_128x4: NVIDIA, cuBLAS 13, "1D
Block Scaling Factors Layout".  ggml: ggml-common.h, block_q8_0, block_q4_0, block_mxfp4, block_nvfp4.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref._blockrows import BlockFormat, get_block_format
from feather_ref._sweep import Array
from feather_ref.blocks import BlockTensor, check_axis, scales_shape
from feather_ref.formats import FORMATS, Format
from feather_ref.words import codes_to_words, words_to_codes

Bytes = NDArray[np.uint8]
Shape = tuple[int, ...]

__all__ = ["LAYOUTS", "Layout", "from_bytes", "part_sizes", "to_bytes"]

_FP32 = FORMATS["fp32"]
_TILE = (128, 4)


@dataclass(frozen=True)
class _Part:
    """Codes of a row, the block axis last: what becomes one run of bytes."""

    row: Format
    shape: Shape


@dataclass(frozen=True)
class Layout:
    """One layout.  lacks: why it is not for a format, an axis and a row of n numbers, "" where it is."""

    name: str
    text: str
    lacks: Callable[[BlockFormat, int, int], str]
    sizes: Callable[[dict[str, _Part], BlockFormat], dict[str, int]]
    write: Callable[[dict[str, Array], dict[str, _Part], BlockFormat], dict[str, Bytes]]
    read: Callable[[dict[str, Bytes], dict[str, _Part], BlockFormat], dict[str, Array]]


def _parts(fmt: BlockFormat, shape: Shape, axis: int) -> dict[str, _Part]:
    """What a tensor consists of: the shapes with the block axis last."""
    grid = _last(scales_shape(shape, fmt, axis), axis)
    found = {"elements": _Part(fmt.element, _last(shape, axis)), "scales": _Part(fmt.scale, grid)}
    if fmt.tensor_scale != "none":
        found["tensor_scale"] = _Part(_FP32, (1,))
    if fmt.zero_point:
        found["zeros"] = _Part(fmt.element, grid)
    return found


def _last(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[len(shape) + axis + 1 :], shape[axis])


# --- dense ------------------------------------------------------------------------------------


def _row_bytes(part: _Part) -> tuple[int, int]:
    """Rows, and bytes of each."""
    *lead, n = part.shape
    return math.prod(lead), -(-n * part.row.storage_bits // 8)


def _pack(codes: Array, part: _Part) -> Bytes:
    """Codes end to end, each row up to a whole byte."""
    rows, used = _row_bytes(part)
    words = np.ascontiguousarray(codes_to_words(codes, part.row, "little"), "<u4")
    stream = words.reshape(-1).view(np.uint8).reshape(rows, 4 * words.shape[-1])
    return stream[:, :used].reshape(-1)


def _unpack(data: Bytes, part: _Part, name: str) -> Array:
    """The codes again; the bits that fill a row must be zero."""
    rows, used = _row_bytes(part)
    stream = data.reshape(rows, used)
    spare = used * 8 - part.shape[-1] * part.row.storage_bits
    if spare and rows:
        over = stream[:, -1] >> (8 - spare)
        if over.any():
            at = int(np.argmax(over != 0))
            value = int(stream[at, -1])
            raise ValueError(f"{name}: byte {(at + 1) * used - 1} is 0x{value:02X}; its {spare} high bits must be 0")
    stream = np.pad(stream, ((0, 0), (0, -used % 4)))
    words = stream.reshape(-1).view("<u4").reshape(*part.shape[:-1], -(-used // 4))
    try:
        return words_to_codes(words, part.row, part.shape[-1], "little", True)
    except ValueError as error:  # bits beside the code
        raise ValueError(f"{name}: {str(error).removeprefix('words: ').partition(';')[0]}") from None


def _dense_sizes(parts: dict[str, _Part], fmt: BlockFormat) -> dict[str, int]:
    return {name: math.prod(_row_bytes(part)) for name, part in parts.items()}


def _dense_write(codes: dict[str, Array], parts: dict[str, _Part], fmt: BlockFormat) -> dict[str, Bytes]:
    return {name: _pack(codes[name], part) for name, part in parts.items()}


def _dense_read(data: dict[str, Bytes], parts: dict[str, _Part], fmt: BlockFormat) -> dict[str, Array]:
    return {name: _unpack(data[name], part, name) for name, part in parts.items()}


# --- tiles of scales --------------------------------------------------------------------------


def _matrices(part: _Part) -> tuple[int, int, int]:
    """Matrices, rows and columns of each; one axis is a row."""
    *lead, rows, columns = (1, *part.shape)[-max(2, len(part.shape)) :]
    return math.prod(lead), rows, columns


def _tiles(rows: int, columns: int) -> tuple[int, int]:
    """Tiles down and across."""
    return -(-rows // _TILE[0]), -(-columns // _TILE[1])


def _tiled_sizes(parts: dict[str, _Part], fmt: BlockFormat) -> dict[str, int]:
    matrices, rows, columns = _matrices(parts["scales"])
    return _dense_sizes(parts, fmt) | {"scales": matrices * math.prod(_tiles(rows, columns)) * math.prod(_TILE)}


def _tiled_write(codes: dict[str, Array], parts: dict[str, _Part], fmt: BlockFormat) -> dict[str, Bytes]:
    matrices, rows, columns = _matrices(parts["scales"])
    down, across = _tiles(rows, columns)
    filled = np.zeros((matrices, down * _TILE[0], across * _TILE[1]), np.uint8)
    filled[:, :rows, :columns] = codes["scales"].reshape(matrices, rows, columns)
    # axes: matrix, tile down, r // 32, r % 32, tile across, c
    split = filled.reshape(matrices, down, 4, 32, across, 4)
    return _dense_write(codes, parts, fmt) | {"scales": split.transpose(0, 1, 4, 3, 2, 5).reshape(-1)}


def _tiled_read(data: dict[str, Bytes], parts: dict[str, _Part], fmt: BlockFormat) -> dict[str, Array]:
    part = parts["scales"]
    matrices, rows, columns = _matrices(part)
    down, across = _tiles(rows, columns)
    split = data["scales"].reshape(matrices, down, across, 32, 4, 4)
    filled = split.transpose(0, 1, 4, 3, 2, 5).reshape(matrices, down * _TILE[0], across * _TILE[1])
    outside = filled.copy()
    outside[:, :rows, :columns] = 0
    if outside.any():
        at, row, column = (int(i) for i in np.argwhere(outside)[0])
        value = int(outside[at, row, column])
        raise ValueError(
            f"scales: row {row}, column {column} of matrix {at} is 0x{value:02X}; what fills a tile must be 0"
        )
    others = {name: each for name, each in parts.items() if name != "scales"}
    return _dense_read(data, others, fmt) | {"scales": filled[:, :rows, :columns].reshape(part.shape)}


def _lacks_bytes(fmt: BlockFormat, axis: int, n: int) -> str:
    if fmt.tile[0] > 1 or fmt.scale.storage_bits != 8 or fmt.zero_point:
        return "it is for blocks along one axis with scales of one byte and no zero point"
    return ""


# --- ggml -------------------------------------------------------------------------------------


def _lacks_ggml(together: int, fmt: BlockFormat, axis: int, n: int) -> str:
    if fmt.layout != ("ggml" if together == 1 else "ggml_x4"):
        return "its rows are not ggml's"
    fits = fmt.element.storage_bits == 8 or (fmt.element.storage_bits == 4 and fmt.size % 2 == 0)
    if len(fmt.block) > 1 or fmt.tensor_scale != "none" or fmt.zero_point or not fits or fmt.scale.storage_bits % 8:
        return "ggml has blocks along one axis, of bytes or pairs of nibbles, with a scale of whole bytes"
    if axis != -1:
        return f"blocks run along axis {axis}, not the last"
    size = fmt.size * together
    return f"a row of {n} is no whole number of blocks of {size}" if n % size else ""


def _excess(fmt: BlockFormat) -> int:
    """What turns two's complement of four bits into excess of 8, and back."""
    return 8 if fmt.element.kind == "integer" and fmt.element.signed and fmt.element.storage_bits == 4 else 0


def _block_bytes(fmt: BlockFormat) -> tuple[int, int]:
    """Bytes of a scale, and of the elements of a block."""
    return fmt.scale.storage_bits // 8, fmt.size * fmt.element.storage_bits // 8


def _ggml_sizes(parts: dict[str, _Part], fmt: BlockFormat) -> dict[str, int]:
    return {"blocks": math.prod(parts["scales"].shape) * sum(_block_bytes(fmt))}


def _ggml_write(together: int, codes: dict[str, Array], parts: dict[str, _Part], fmt: BlockFormat) -> dict[str, Bytes]:
    (head, body), blocks = _block_bytes(fmt), math.prod(parts["scales"].shape)
    elements = codes["elements"].reshape(blocks, fmt.size) ^ np.uint8(_excess(fmt))
    if body < fmt.size:
        elements = elements[:, :body] | elements[:, body:] << np.uint8(4)
    rows = blocks // together
    scales = _pack(codes["scales"], parts["scales"]).reshape(rows, together * head)
    return {"blocks": np.hstack([scales, elements.reshape(rows, together * body)]).reshape(-1)}


def _ggml_read(together: int, data: dict[str, Bytes], parts: dict[str, _Part], fmt: BlockFormat) -> dict[str, Array]:
    (head, body), part = _block_bytes(fmt), parts["scales"]
    rows = data["blocks"].reshape(math.prod(part.shape) // together, together * (head + body))
    scales = _unpack(np.ascontiguousarray(rows[:, : together * head]).reshape(-1), part, "blocks")
    elements = rows[:, together * head :].reshape(math.prod(part.shape), body)
    if body < fmt.size:
        elements = np.concatenate([elements & np.uint8(15), elements >> np.uint8(4)], axis=1)
    elements = elements ^ np.uint8(_excess(fmt))
    return {"elements": elements.reshape(parts["elements"].shape), "scales": scales}


def _ggml(name: str, text: str, together: int) -> Layout:
    """ggml's blocks, so many together."""
    lacks, write, read = partial(_lacks_ggml, together), partial(_ggml_write, together), partial(_ggml_read, together)
    return Layout(name, text, lacks, _ggml_sizes, write, read)


# --- rows -------------------------------------------------------------------------------------

_ROWS = (
    Layout("dense", "codes end to end, low bits first; scales apart", lambda fmt, axis, n: "",
           _dense_sizes, _dense_write, _dense_read),
    Layout("tiled_128x4", "as dense, with scales in tiles of 128 x 4", _lacks_bytes,
           _tiled_sizes, _tiled_write, _tiled_read),
    _ggml("ggml", "each block its scale, then its elements", 1),
    _ggml("ggml_x4", "four scales, then the elements of four blocks", 4),
)  # fmt: skip

LAYOUTS: Mapping[str, Layout] = MappingProxyType({row.name: row for row in _ROWS})
"""Every layout, by name."""


def to_bytes(tensor: BlockTensor, layout: str | None = None) -> dict[str, Bytes]:
    """The bytes of a tensor in blocks, by part.

    layout: a name of `LAYOUTS`; None is the format's own, "dense" for most.  Returns flat uint8.

    >>> from feather_ref.blocks import quantize_blocks
    >>> tensor = quantize_blocks(np.float32([0.5, -3.0, 40.0, 0.0]), "mxfp4")
    >>> {name: data.tobytes().hex() for name, data in to_bytes(tensor).items()}
    {'elements': '9006', 'scales': '82'}

    Raises TypeError or ValueError naming the argument, and why the format does not lie so.
    """
    if not isinstance(tensor, BlockTensor):
        raise TypeError(f"tensor must be a BlockTensor, got {type(tensor).__name__}")
    row, parts = _check(tensor.fmt, tensor.shape, tensor.axis, layout)
    named = {"elements": tensor.codes, "scales": tensor.scales, "zeros": tensor.zeros}
    codes = {name: np.moveaxis(part, tensor.axis, -1) for name, part in named.items() if part is not None}
    if tensor.tensor_scale is not None:
        codes["tensor_scale"] = np.atleast_1d(tensor.tensor_scale).view(np.uint32)
    return row.write(codes, parts, tensor.fmt)


def from_bytes(
    data: Mapping[str, Any], bfmt: str | BlockFormat, shape: Shape, layout: str | None = None, axis: int = -1
) -> BlockTensor:
    """A tensor in blocks from its bytes: `to_bytes`, back.

    data: by part, each bytes or flat uint8, of exactly the length that `part_sizes` gives.  bfmt: a
    name of `BLOCK_FORMATS` or a BlockFormat.  shape: of the numbers.

    >>> data = {"blocks": bytes.fromhex("003c" + "80" * 16)}  # scale 1, then 0 low, 8 high: -8 and 0
    >>> from_bytes(data, "q4_0", (32,)).dequantize()[[0, 15, 16, 31]]
    array([-8., -8.,  0.,  0.], dtype=float32)

    Raises TypeError or ValueError for a part that is missing, too long or too short, for a bit that
    is not zero where nothing is, and for a code that the format does not have.
    """
    fmt = get_block_format(bfmt)
    shape = _check_shape(shape)
    axis = check_axis(axis, shape, fmt)
    row, parts = _check(fmt, shape, axis, layout)
    sizes = row.sizes(parts, fmt)
    if not isinstance(data, Mapping):
        raise TypeError(f"data must map {', '.join(sizes)} to bytes, got {type(data).__name__}")
    if data.keys() != sizes.keys():
        raise ValueError(f"data has {', '.join(map(str, data)) or 'no parts'}; {row.name!r} has {', '.join(sizes)}")
    codes = row.read({name: _as_bytes(data[name], name, size) for name, size in sizes.items()}, parts, fmt)
    whole = codes.pop("tensor_scale").view(np.float32)[0] if "tensor_scale" in codes else None
    back = {name: np.ascontiguousarray(np.moveaxis(part, -1, axis)) for name, part in codes.items()}
    return BlockTensor(back["elements"], back["scales"], fmt, axis, whole, back.get("zeros"))


def part_sizes(bfmt: str | BlockFormat, shape: Shape, layout: str | None = None, axis: int = -1) -> dict[str, int]:
    """The bytes of each part.

    >>> part_sizes("nvfp4", (200, 64), "tiled_128x4")
    {'elements': 6400, 'scales': 1024, 'tensor_scale': 4}

    Raises what `from_bytes` raises.
    """
    fmt = get_block_format(bfmt)
    shape = _check_shape(shape)
    row, parts = _check(fmt, shape, check_axis(axis, shape, fmt), layout)
    return row.sizes(parts, fmt)


# --- checks -----------------------------------------------------------------------------------


def _check(fmt: BlockFormat, shape: Shape, axis: int, layout: Any) -> tuple[Layout, dict[str, _Part]]:
    name = fmt.layout if layout is None else layout
    if not isinstance(name, str):
        raise TypeError(f"layout must be a name, got {type(name).__name__}")
    if name not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}; got {name!r}")
    row = LAYOUTS[name]
    if lack := row.lacks(fmt, axis, shape[axis]):
        raise ValueError(f"layout={name!r} is not for {fmt.name!r}: {lack}")
    return row, _parts(fmt, shape, axis)


def _check_shape(shape: Any) -> Shape:
    if not isinstance(shape, (tuple, list)) or not shape or not all(hasattr(size, "__index__") for size in shape):
        raise TypeError(f"shape must be a tuple of one or more ints, got {shape!r}")
    sizes = tuple(operator.index(size) for size in shape)
    if min(sizes) < 0:
        raise ValueError(f"shape must not be negative, got {sizes}")
    return sizes


def _as_bytes(data: Any, name: str, size: int) -> Bytes:
    if isinstance(data, (bytes, bytearray, memoryview)):
        data = np.frombuffer(data, np.uint8)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 1:
        raise TypeError(f"{name} must be bytes or a flat array of uint8, got {_kind(data)}")
    if data.size != size:
        raise ValueError(f"{name} has {data.size} bytes, not {size}")
    return np.ascontiguousarray(data)


def _kind(data: Any) -> str:
    return f"{data.dtype} of shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
