"""Whole files: pack, unpack and inspect every tensor, one at a time.

Memory stays near one tensor: the input is mapped, the output goes where it belongs, and what is
unpacked or measured goes in blocks.

Source: design of this project; the files are `files`, the packing is `tensors`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeVar, Unpack, get_args

import numpy as np

from feather_ref._safetensors import BITS, Form, short
from feather_ref._stored import NUMPY, Note, form_of, to_bytes
from feather_ref._sweep import Array
from feather_ref.codec import decode
from feather_ref.files import PathLike, Put, Stored, Tensor, TensorFile, load, writer
from feather_ref.formats import Format
from feather_ref.policy import Policies
from feather_ref.tensors import PackedTensor, Scale, ScaleRule, pack_tensor
from feather_ref.words import check_lane

Progress = Callable[[str, int, int], None]
FloatName = Literal["float16", "float32", "float64"]

T = TypeVar("T")

FLOAT_NAMES: tuple[str, ...] = get_args(FloatName)

_BLOCK = 1 << 16  # elements, about as many as the codec's chunks
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
    fmt: str | Format,
    scale: Scale | None = None,
    scale_rule: ScaleRule = "amax",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
    **policies: Unpack[Policies],
) -> list[Line]:
    """Pack the float tensors of a file into a .safetensors file; the others are copied.

    include, exclude: patterns of names, as of a shell; without include, all.  progress: called as
    progress(name, bytes done, bytes in all).  The rest: as for `pack_tensor`.

    Raises what `load`, `save` and `pack_tensor` raise; the target is then as it was.
    """
    row = check_lane(fmt)
    with load(source) as tensors:
        _refuse_same(source, target)
        chosen = _choose(tensors, include, exclude)
        why = {name: _why_copied(tensors, name, chosen) for name in tensors}
        forms, notes = _plan_pack(tensors, {name for name in why if not why[name]}, row, scale)

        with writer(target, forms, notes, tensors.metadata) as put:

            def work(name: str) -> Line:
                if why[name]:
                    return _copy(put, tensors, name, why[name])
                x = _numbers(tensors[name])
                try:
                    packed = pack_tensor(x, row, scale, scale_rule, "little", **policies)
                except (ValueError, TypeError) as error:
                    raise ValueError(f"tensor {short(name)}: {error}") from None
                return _put_packed(put, tensors.stored[name], name, x, packed)

            return _each(tensors, list(tensors), work, progress)


def _plan_pack(
    tensors: TensorFile, packed: Collection[str], row: Format, scale: Scale | None
) -> tuple[dict[str, Form], dict[str, Note]]:
    """What the target will hold."""
    forms: dict[str, Form] = {}
    notes: dict[str, Note] = {}
    for name in tensors:
        if name not in packed:
            _plan_copy(tensors, name, forms, notes)
            continue
        shape = tensors.stored[name].shape
        forms[name] = form_of(row, shape)
        notes[name] = Note(row, shape, "little", f"{name}_scale" if scale else None)
        if scale:
            if f"{name}_scale" in tensors.stored:
                raise ValueError(f"tensor {short(name)}: its scale would take the name of {short(name + '_scale')}")
            forms[f"{name}_scale"] = Form("F32", () if scale == "tensor" else (*shape[:-1], 1))
    return forms, notes


def _put_packed(put: Put, stored: Stored, name: str, x: Array, packed: PackedTensor) -> Line:
    data = to_bytes(packed)
    put(name, [data])
    if packed.scale is not None:
        put(f"{name}_scale", [packed.scale])
    size = data.nbytes + (0 if packed.scale is None else packed.scale.nbytes)
    after = form_of(packed.fmt, packed.shape).dtype
    return Line(
        name, stored.shape, stored.dtype, after, stored.nbytes, size, _scale_name(packed.scale), _sqnr(x, packed)
    )


def _why_copied(tensors: TensorFile, name: str, chosen: Collection[str]) -> str:
    """The reason to leave a tensor as it is, "" for none."""
    stored, note = tensors.stored[name], tensors.notes.get(name)
    if name not in chosen:
        return "not selected"
    if note is not None and (note.row.bits < 16 or note.scale or stored.dtype not in _FLOATS):
        return "packed already"
    if stored.dtype not in _FLOATS and not stored.dtype.startswith(("float", "longdouble")):
        return "not float"
    return ""


def _sqnr(x: Array, packed: PackedTensor) -> float | None:
    """Signal to noise in bits; None where there is no finite signal."""
    signal = noise = 0.0
    with np.errstate(all="ignore"):
        for before, after in zip(_blocks(x), _blocks(packed), strict=True):
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
) -> list[Line]:
    """Unpack the packed tensors of a file; the others are copied, but to .npy, which holds one.

    dtype: "float16", "float32" or "float64"; None is float32 where that holds every value, else
    float64.  A value is rounded to float32 with its scale, and once more for float16.

    Raises what `load` and `save` raise; the target is then as it was.
    """
    if dtype is not None and dtype not in FLOAT_NAMES:
        raise ValueError(f"dtype must be one of {', '.join(FLOAT_NAMES)}; got {dtype!r}")
    with load(source) as tensors:
        _refuse_same(source, target)
        chosen = _choose(tensors, include, exclude)
        single = os.fspath(target).lower().endswith(".npy")
        names = [name for name in tensors if name in chosen or not single]
        unpacked = {name: _float_name(tensors, name, dtype) for name in names if name in chosen & tensors.notes.keys()}
        forms: dict[str, Form] = {}
        notes: dict[str, Note] = {}
        for name in names:
            if name in unpacked:
                forms[name] = Form(_LABELS[unpacked[name]], tensors.notes[name].shape)
            else:
                _plan_copy(tensors, name, forms, notes)

        with writer(target, forms, notes, tensors.metadata) as put:

            def work(name: str) -> Line:
                if name not in unpacked:
                    return _copy(put, tensors, name, "not packed" if name in chosen else "not selected")
                return _put_unpacked(put, tensors, name, np.dtype(unpacked[name]))

            return _each(tensors, names, work, progress)


def _put_unpacked(put: Put, tensors: TensorFile, name: str, dtype: np.dtype[Any]) -> Line:
    packed = tensors[name]
    with np.errstate(over="ignore", under="ignore"):
        put(name, (block.astype(dtype, copy=False) for block in _blocks(packed)))
    fmt, before, scale = _describe(tensors, name)
    after = math.prod(packed.shape) * dtype.itemsize
    return Line(name, packed.shape, fmt, _LABELS[dtype.name], before, after, scale)


def _float_name(tensors: TensorFile, name: str, dtype: FloatName | None) -> str:
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
            shape = stored.shape if note is None else note.shape
            unreadable = note is None and stored.dtype in BITS and stored.dtype not in NUMPY
            numbers = (None, 0, 0) if unreadable else _measure(tensors[name])
            return Facts(name, shape, stored.dtype, size, fmt, scale, *numbers)

        return _each(tensors, list(tensors), work, progress)


def _measure(tensor: Tensor) -> tuple[float | None, int, int]:
    """Greatest finite magnitude, and how many are NaN and Inf."""
    amax, nan, inf = None, 0, 0
    for block in _blocks(tensor):
        sizes = np.abs(block) if block.dtype.kind in "fc" else block.astype(np.float64)
        finite = np.isfinite(sizes)
        nan += int(np.count_nonzero(np.isnan(sizes)))
        inf += int(np.count_nonzero(np.isinf(sizes)))
        if finite.any():
            amax = max(amax or 0.0, float(np.max(np.abs(sizes), where=finite, initial=0)))
    return amax, nan, inf


# --- what they share --------------------------------------------------------------------------


def _refuse_same(source: PathLike, target: PathLike) -> None:
    if os.path.exists(target) and os.path.samefile(source, target):
        raise ValueError(f"{os.fspath(target)}: is the input itself; write to another name")


def _choose(tensors: TensorFile, include: Sequence[str], exclude: Sequence[str]) -> set[str]:
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


def _each(tensors: TensorFile, names: Sequence[str], work: Callable[[str], T], progress: Progress | None) -> list[T]:
    """work(name) of every tensor, in the order of the file."""
    total = sum(tensors.stored[name].nbytes for name in names)
    done, results = 0, []
    for name in names:
        results.append(work(name))
        done += tensors.stored[name].nbytes
        if progress is not None:
            progress(name, done, total)
    return results


def _plan_copy(tensors: TensorFile, name: str, forms: dict[str, Form], notes: dict[str, Note]) -> None:
    """Announce a tensor as it is, with its scale."""
    note = tensors.notes.get(name)
    for part in (name, note.scale if note else None):
        if part is not None:
            forms[part] = Form(tensors.stored[part].dtype, tensors.stored[part].shape)
    if note:
        notes[name] = note


def _copy(put: Put, tensors: TensorFile, name: str, why: str) -> Line:
    """Write a tensor as it is, with its scale."""
    stored, note = tensors.stored[name], tensors.notes.get(name)
    put(name, [stored.read()])
    if note and note.scale is not None:
        put(note.scale, [tensors.stored[note.scale].read()])
    _, size, scale = _describe(tensors, name)
    return Line(name, stored.shape, stored.dtype, stored.dtype, size, size, scale, None, f"copied: {why}")


def _describe(tensors: TensorFile, name: str) -> tuple[str, int, str]:
    """Format ("" where nothing is packed), bytes with the scale, kind of scale."""
    stored, note = tensors.stored[name], tensors.notes.get(name)
    if note is None:
        return "", stored.nbytes, ""
    if note.scale is None:
        return note.row.name, stored.nbytes, "none"
    scale = tensors.stored[note.scale]
    return note.row.name, stored.nbytes + scale.nbytes, "tensor" if math.prod(scale.shape) == 1 else "row"


def _scale_name(scale: Array | None) -> str:
    return "none" if scale is None else "tensor" if scale.shape == () else "row"


def _numbers(tensor: Tensor) -> Array:
    return tensor.dequantize() if isinstance(tensor, PackedTensor) else tensor


def _blocks(tensor: Tensor) -> Iterator[Array]:
    """The numbers of a tensor in C order, some rows at a time."""
    *lead, n = tensor.shape or (1,)
    rows, step = math.prod(lead), max(1, _BLOCK // max(n, 1))
    for start in range(0, rows if n else 0, step):
        part = slice(start, start + step)
        if not isinstance(tensor, PackedTensor):
            yield tensor.reshape(rows, n)[part]
            continue
        words = tensor.words.reshape(rows, tensor.words.shape[-1])[part]
        scale = tensor.scale if tensor.scale is None or tensor.scale.ndim == 0 else tensor.scale.reshape(-1, 1)[part]
        yield PackedTensor(words, scale, (len(words), n), tensor.fmt, tensor.order).dequantize()
