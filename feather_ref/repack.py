"""Whole files: pack, unpack and inspect every tensor, one at a time.

Memory stays near one tensor: the input is mapped, the output goes where it belongs, and what is
unpacked or measured goes in blocks.

Source: design of this project; the files are `files`, the packing is `tensors`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, TypeVar, Unpack, get_args

import numpy as np

from feather_ref._choices import AnyTensor, pieces
from feather_ref._safetensors import Form, short
from feather_ref._stored import Note, form_of, to_bytes
from feather_ref._storedblocks import BlockNote, block_data, block_forms
from feather_ref._storedgguf import whole_rows
from feather_ref._sweep import Array
from feather_ref.blocks import BLOCK_FORMATS, BlockFormat, get_block_format, quantize_blocks
from feather_ref.codec import decode
from feather_ref.files import ByteOrder, PathLike, Put, Stored, Tensor, TensorFile, is_known, load, writer
from feather_ref.formats import Format
from feather_ref.packing import Order, check_order
from feather_ref.policy import Policies
from feather_ref.tensors import PackedTensor, Scale, pack_tensor
from feather_ref.words import check_lane

Progress = Callable[[str, int, int], None]
FloatName = Literal["float16", "float32", "float64"]

T = TypeVar("T")

FLOAT_NAMES: tuple[str, ...] = get_args(FloatName)

PACKED_ALREADY = "packed already"  # why a tensor is copied

_FLOATS = ("F16", "BF16", "F32", "F64")
_LABELS = {"float16": "F16", "float32": "F32", "float64": "F64"}


@dataclass(frozen=True)
class Line:
    """What became of one tensor; dtypes by their names in safetensors.

    bytes_after counts the scale.  sqnr: 0.5 * log2(sum x**2 / sum (x - y)**2) over the finite x, in
    bits; infinite where every y is exact.  note: why it was copied.
    """

    name: str
    shape: tuple[int, ...]
    before: str
    after: str
    bytes_before: int
    bytes_after: int
    scale: str = ""
    sqnr: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """What a tensor holds; amax: the greatest finite magnitude, None where none is known."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    format: str
    scale: str
    amax: float | None
    nan: int
    inf: int


# --- pack -------------------------------------------------------------------------------------


def pack_file(
    source: PathLike,
    target: PathLike,
    fmt: str | Format | BlockFormat,
    scale: Scale | None = None,
    scale_rule: str | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
    order: Order = "little",
    byte_order: ByteOrder = "little",
    **policies: Unpack[Policies],
) -> list[Line]:
    """Pack the float tensors of a file into a .safetensors or .gguf file; the others are copied.

    fmt: a format or a block format, or the name of one; of a name that both have, as mxint8, a scale
    says that the format is meant.  scale, scale_rule, policies: as for `pack_tensor`; block formats
    have a scale in any case, and take a rule and policies as `quantize_blocks` does.  include, exclude:
    patterns of names, as of a shell; without include, all.  progress: called as progress(name, bytes
    done, bytes in all).  order: of lanes in words, for .safetensors, which says it; blocks have "little".
    byte_order: "big" writes a .gguf file for machines of that order.

    Tensors of one axis are copied where blocks are tiles, which want two; and into .gguf, whose readers
    want them as they are.  There those are copied, too, whose rows are no whole number of blocks.

    Raises what `load`, `save`, `pack_tensor` and `quantize_blocks` raise; the target is then as it was.
    """
    row, gguf = _row_of(fmt, scale), os.fspath(target).lower().endswith(".gguf")
    if scale is None and scale_rule is not None and isinstance(row, Format):
        raise ValueError(f"scale_rule={scale_rule!r} has no scale to make; scale is None")
    if check_order(order) == "big" and (gguf or isinstance(row, BlockFormat)):
        raise ValueError(f"order='big': {'a .gguf file' if gguf else repr(row.name)} has the order 'little' alone")
    with load(source) as tensors:
        refuse_same(tensors, target)
        chosen = choose(tensors, include, exclude)
        if exclude and not chosen:
            raise ValueError(f"exclude: no tensor of {tensors.path} is left to pack")
        why = {
            name: why_copied(tensors, name, chosen) or _unfit(tensors.stored[name].shape, row, gguf) for name in tensors
        }
        announced = Announced({}, {}, {})
        for name in tensors:
            if why[name]:
                announce_copy(announced, tensors, name)
            elif isinstance(row, BlockFormat):
                announce_blocks(announced, tensors, name, BlockNote(row, tensors.stored[name].shape))
            else:
                announce_packed(announced, tensors, name, row, scale, order)

        with writer(target, announced.forms, announced.notes, tensors.metadata, announced.blocks, byte_order) as put:

            def work(name: str) -> Line:
                if why[name]:
                    return copy(put, tensors, name, why[name])
                x = numbers(tensors[name])
                try:
                    packed = _pack(x, row, scale, scale_rule, order, policies)
                except (ValueError, TypeError) as error:
                    raise ValueError(f"tensor {short(name)}: {error}") from None
                if isinstance(packed, PackedTensor):
                    return put_packed(put, tensors.stored[name], name, x, packed)
                return put_blocks(put, tensors.stored[name], name, x, packed, announced.blocks[name])

            return each(tensors, list(tensors), work, progress)


def _row_of(fmt: Any, scale: Scale | None) -> Format | BlockFormat:
    """The row that a name means; the names of block formats come first."""
    row = fmt
    if isinstance(fmt, str) and scale is None:
        with suppress(ValueError):
            row = get_block_format(fmt)
    if not isinstance(row, BlockFormat):
        return check_lane(fmt)
    if scale is not None:
        raise ValueError(f"scale={scale!r}: {row.name!r} has a scale for each block")
    if BLOCK_FORMATS.get(row.name) != row:
        raise ValueError(f"fmt: {row.name!r} is no named block format, and a file names it")
    return row


def _unfit(shape: tuple[int, ...], row: Format | BlockFormat, gguf: bool) -> str:
    """Why a tensor stays as it is, "" for no reason."""
    tile = row.tile if isinstance(row, BlockFormat) else (1, 1)
    if len(shape) < 2 and (gguf or tile[0] > 1):
        return "one axis"
    multiple = whole_rows(row) if isinstance(row, BlockFormat) and gguf else 1
    return "rows are no whole blocks" if shape and shape[-1] % multiple else ""


def _pack(
    x: Array,
    row: Format | BlockFormat,
    scale: Scale | None,
    scale_rule: Any,
    order: Order,
    policies: Mapping[str, Any],
) -> AnyTensor:
    if isinstance(row, BlockFormat):
        return quantize_blocks(x, row, -1, scale_rule, **policies)
    return pack_tensor(x, row, scale, "amax" if scale_rule is None else scale_rule, order, **policies)


def put_packed(put: Put, stored: Stored, name: str, x: Array, packed: PackedTensor) -> Line:
    """Write a packed tensor with its scale."""
    data = to_bytes(packed)
    put(name, [data])
    if packed.scale is not None:
        put(f"{name}_scale", [packed.scale])
    size = data.nbytes + (0 if packed.scale is None else packed.scale.nbytes)
    after = form_of(packed.fmt, packed.shape).dtype
    return Line(
        name, stored.shape, stored.dtype, after, stored.nbytes, size, _scale_name(packed.scale), sqnr(x, packed)
    )


def put_blocks(put: Put, stored: Stored, name: str, x: Array, packed: Any, note: BlockNote) -> Line:
    """Write a tensor in blocks with its parts."""
    data = block_data(name, packed, note)
    for part, array in data.items():
        put(part, [array])
    size = sum(array.nbytes for array in data.values())
    return Line(name, stored.shape, stored.dtype, note.fmt.name, stored.nbytes, size, "block", sqnr(x, packed))


def why_copied(tensors: TensorFile, name: str, chosen: Collection[str]) -> str:
    """The reason to leave a tensor as it is, "" for none."""
    stored, note = tensors.stored[name], tensors.notes.get(name)
    if name not in chosen:
        return "not selected"
    if name in tensors.blocks:
        return PACKED_ALREADY
    if note is not None and (note.row.bits < 16 or note.scale or stored.dtype not in _FLOATS):
        return PACKED_ALREADY
    if stored.dtype not in _FLOATS and not stored.dtype.startswith(("float", "longdouble")):
        return "not float"
    return ""


def sqnr(x: Array, packed: AnyTensor) -> float | None:
    """Signal to noise in bits; None where there is no finite signal."""
    signal = noise = 0.0
    with np.errstate(all="ignore"):
        for before, after in zip(pieces(x), pieces(packed), strict=True):
            wide = before.astype(np.float64)
            finite = np.isfinite(wide)
            error = np.where(finite, wide - after, 0.0)
            wide = np.where(finite, wide, 0.0)
            signal += float(np.vdot(wide, wide))
            noise += float(np.vdot(error, error))
    if noise == 0:
        return math.inf
    ratio = signal / noise
    return 0.5 * math.log2(ratio) if math.isfinite(ratio) and ratio > 0 else None


# --- unpack -----------------------------------------------------------------------------------


def unpack_file(
    source: PathLike,
    target: PathLike,
    dtype: FloatName | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
    byte_order: ByteOrder = "little",
) -> list[Line]:
    """Unpack the packed tensors of a file; the others are copied, but to .npy, which holds one.

    dtype: "float16", "float32" or "float64"; None is float32 where that holds every value, else
    float64.  A value is rounded to float32 with its scale, and once more for float16.  byte_order: "big"
    writes a .gguf file for machines of that order.

    Raises what `load` and `save` raise; the target is then as it was.
    """
    if dtype is not None and dtype not in FLOAT_NAMES:
        raise ValueError(f"dtype must be one of {', '.join(FLOAT_NAMES)}; got {dtype!r}")
    with load(source) as tensors:
        refuse_same(tensors, target)
        chosen = choose(tensors, include, exclude)
        single = os.fspath(target).lower().endswith(".npy")
        names = [name for name in tensors if name in chosen or not single]
        if single and len(names) != 1:
            what = f"an .npy file holds one tensor, not {len(names)}; choose one with --include (include=)"
            raise ValueError(f"{os.fspath(target)}: {what}")
        packed = chosen & (tensors.notes.keys() | tensors.blocks.keys())
        unpacked = {name: _float_name(tensors, name, dtype) for name in names if name in packed}
        if dtype is not None and not unpacked:
            raise ValueError(f"dtype={dtype!r}: no packed tensor is selected, and others are copied as they are")
        announced = Announced({}, {}, {})
        for name in names:
            if name in unpacked:
                announced.forms[name] = Form(_LABELS[unpacked[name]], _shape(tensors, name))
            else:
                announce_copy(announced, tensors, name)

        with writer(target, announced.forms, announced.notes, tensors.metadata, announced.blocks, byte_order) as put:

            def work(name: str) -> Line:
                if name not in unpacked:
                    return copy(put, tensors, name, "not packed" if name in chosen else "not selected")
                return _put_unpacked(put, tensors, name, np.dtype(unpacked[name]))

            return each(tensors, names, work, progress)


def _put_unpacked(put: Put, tensors: TensorFile, name: str, dtype: np.dtype[Any]) -> Line:
    packed = tensors[name]
    with np.errstate(over="ignore", under="ignore"):
        put(name, (piece.astype(dtype, copy=False) for piece in pieces(packed)))
    fmt, before, scale = _describe(tensors, name)
    shape = _shape(tensors, name)
    after = math.prod(shape) * dtype.itemsize
    return Line(name, shape, fmt, _LABELS[dtype.name], before, after, scale)


def _float_name(tensors: TensorFile, name: str, dtype: FloatName | None) -> str:
    if name in tensors.blocks:
        return dtype or "float32"
    note = tensors.notes[name]
    if note.scale is None and note.row.bits <= 8 and f"{name}_scale" in tensors:
        raise ValueError(
            f"tensor {short(name)}: {short(name + '_scale')} is neither one number nor one a row; "
            "exclude both to copy them"
        )
    if dtype is not None:
        return dtype
    return "float32" if note.scale is not None else decode([], note.row).dtype.name


# --- inspect ----------------------------------------------------------------------------------


def inspect_file(path: PathLike, progress: Progress | None = None) -> list[Facts]:
    """Dtype, size, greatest magnitude, and count of NaN and Inf of every tensor.

    Raises what `load` raises.
    """
    with load(path) as tensors:

        def work(name: str) -> Facts:
            fmt, size, scale = _describe(tensors, name)
            stored, note = tensors.stored[name], tensors.notes.get(name)
            known = note is not None or name in tensors.blocks
            unreadable = not known and not is_known(stored.dtype)
            numbers = (None, 0, 0) if unreadable else _measure(tensors[name])
            return Facts(name, _shape(tensors, name), stored.dtype, size, fmt, scale, *numbers)

        return each(tensors, list(tensors), work, progress)


def _measure(tensor: Tensor) -> tuple[float | None, int, int]:
    """Greatest finite magnitude, and how many are NaN and Inf."""
    amax, nan, inf = None, 0, 0
    for block in pieces(tensor):
        sizes = np.abs(block) if block.dtype.kind in "fc" else block.astype(np.float64)
        finite = np.isfinite(sizes)
        nan += int(np.count_nonzero(np.isnan(sizes)))
        inf += int(np.count_nonzero(np.isinf(sizes)))
        if finite.any():
            amax = max(amax or 0.0, float(np.max(np.abs(sizes), where=finite, initial=0)))
    return amax, nan, inf


# --- what they share --------------------------------------------------------------------------


def refuse_same(tensors: TensorFile, target: PathLike) -> None:
    """Refuse to write over the input."""
    if os.path.exists(target) and any(os.path.samefile(path, target) for path in tensors.paths):
        raise ValueError(f"{os.fspath(target)}: is the input itself; write to another name")


def choose(tensors: TensorFile, include: Sequence[str], exclude: Sequence[str]) -> set[str]:
    """The names that the patterns select; a pattern without a match is a typing error."""
    for pattern in (*include, *exclude):
        if not any(fnmatchcase(name, pattern) for name in tensors):
            raise ValueError(f"no tensor of {tensors.path} is called like {pattern!r}")
    return {
        name
        for name in tensors
        if (not include or any(fnmatchcase(name, pattern) for pattern in include))
        and not any(fnmatchcase(name, pattern) for pattern in exclude)
    }


def each(tensors: TensorFile, names: Sequence[str], work: Callable[[str], T], progress: Progress | None) -> list[T]:
    """work(name) of every tensor, in the order of the file."""
    total = sum(tensors.stored[name].nbytes for name in names)
    done, results = 0, []
    for name in names:
        results.append(work(name))
        done += tensors.stored[name].nbytes
        if progress is not None:
            progress(name, done, total)
    return results


class Announced(NamedTuple):
    """What a target will hold."""

    forms: dict[str, Form]
    notes: dict[str, Note]
    blocks: dict[str, BlockNote]


def announce_packed(
    to: Announced, tensors: TensorFile, name: str, row: Format, scale: Scale | None, order: Order = "little"
) -> None:
    """Announce a tensor packed, with its scale."""
    shape = tensors.stored[name].shape
    to.forms[name] = form_of(row, shape)
    to.notes[name] = Note(row, shape, order, f"{name}_scale" if scale else None)
    if scale:
        if f"{name}_scale" in tensors.stored:
            raise ValueError(f"tensor {short(name)}: its scale would take the name of {short(name + '_scale')}")
        to.forms[f"{name}_scale"] = Form("F32", () if scale == "tensor" else (*shape[:-1], 1))


def announce_blocks(to: Announced, tensors: TensorFile, name: str, note: BlockNote) -> None:
    """Announce a tensor in blocks, with its parts."""
    parts = block_forms(name, note)
    if taken := (parts.keys() - {name}) & tensors.stored.keys():
        raise ValueError(f"tensor {short(name)}: a part of it would take the name of {short(min(taken))}")
    to.forms.update(parts)
    to.blocks[name] = note


def announce_copy(to: Announced, tensors: TensorFile, name: str) -> None:
    """Announce a tensor as it is, with its scales."""
    for part in tensors.parts(name):
        to.forms[part] = Form(tensors.stored[part].dtype, tensors.stored[part].shape)
    if name in tensors.notes:
        to.notes[name] = tensors.notes[name]
    if name in tensors.blocks:
        to.blocks[name] = tensors.blocks[name]


def copy(put: Put, tensors: TensorFile, name: str, why: str) -> Line:
    """Write a tensor as it is, with its scales."""
    stored = tensors.stored[name]
    for part in tensors.parts(name):
        put(part, [tensors.stored[part].read()])
    _, size, scale = _describe(tensors, name)
    return Line(name, stored.shape, stored.dtype, stored.dtype, size, size, scale, None, f"copied: {why}")


def _describe(tensors: TensorFile, name: str) -> tuple[str, int, str]:
    """Format ("" where nothing is packed), bytes with the scale, kind of scale."""
    stored, note = tensors.stored[name], tensors.notes.get(name)
    if name in tensors.blocks:
        size = sum(tensors.stored[part].nbytes for part in tensors.parts(name))
        return tensors.blocks[name].fmt.name, size, "block"
    if note is None:
        return "", stored.nbytes, ""
    if note.scale is None:
        return note.row.name, stored.nbytes, "none"
    scale = tensors.stored[note.scale]
    return note.row.name, stored.nbytes + scale.nbytes, "tensor" if math.prod(scale.shape) == 1 else "row"


def _scale_name(scale: Array | None) -> str:
    return "none" if scale is None else "tensor" if scale.size == 1 else "row"


def _shape(tensors: TensorFile, name: str) -> tuple[int, ...]:
    """The shape of the numbers."""
    meant = tensors.notes.get(name) or tensors.blocks.get(name)
    return meant.shape if meant else tensors.stored[name].shape


def numbers(tensor: Tensor) -> Array:
    """The numbers of a tensor."""
    return tensor if isinstance(tensor, np.ndarray) else tensor.dequantize()
