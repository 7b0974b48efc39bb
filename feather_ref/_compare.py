"""Two files bit by bit: which tensors differ, how often, and the first elements that do.

    w: 2 of 400 differ
      [0, 3]  7E 0 1111 110 = 448  7D 0 1111 101 = 416
    b: 1 of 3 differ, by at most 0.5 at [1]
      [1]  40000000 = 2.0  40200000 = 2.5

Codes of one row are compared as codes, and their scales beside them, whatever their order and however many
scales there are; a scale that is not there is 1::

    w: A is e4m3 [2, 200], little, scale [2, 1]; B is e4m3 [2, 200], big, scale []
    w: 1 of 400 differ
      [0, 3]  7E 0 1111 110 = 448  7D 0 1111 101 = 416
    w scale: 1 of 2 differ
      [1, 0]  3F800000 = 1  3F000000 = 0.5

What is packed by two rows, or in one file alone, is compared by the values that it stands for, exactly; beside
an array they are rounded to float32, as `unpack` does::

    w: A is e4m3 [400], little, scale [1]; B is float32 [400]
    w: 391 of 400 values differ, by at most 0.0156 at [7]
      [0]  0.296875  0.3

Source: design of this project; the count and the two dumps are those of ggml's bit-difference report.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feather_ref._anatomy import fields_of, hex_code, number_of, spaced
from feather_ref._mixed import MixedBlockTensor
from feather_ref._sweep import Array, place
from feather_ref.blocks import BlockTensor
from feather_ref.codec import code_dtype, decode
from feather_ref.files import Tensor
from feather_ref.formats import Format, get_format
from feather_ref.tensors import PackedTensor

SHOWN = 5  # elements of a tensor
DIGITS = 9  # of a value, which tell any two float32 apart
_FP32 = get_format("fp32")
PACKED = (PackedTensor, BlockTensor, MixedBlockTensor)
EXACT = {("b", 1), *(("f", size) for size in (2, 4, 8)), *((kind, size) for kind in "iu" for size in (1, 2, 4))}


def printable(name: str) -> str:
    """A name that cannot steer a terminal."""
    return name if name.isprintable() else ascii(name)


class Comparison(NamedTuple):
    """What there is to say, in lines, and whether everything is equal; without lines it is, bit by bit."""

    lines: list[str]
    equal: bool


def compare_tensors(a: Mapping[str, Tensor], b: Mapping[str, Tensor], fmt: Format | None = None) -> Comparison:
    """What differs, and what is the same but stored in another way.

    fmt: what unsigned integers are codes of.  Byte order does not count, nor does the name where
    each side has a single tensor.

    >>> compare_tensors({"a": np.array([0x7E], np.uint8)}, {"b": np.array([0x7D], np.uint8)})
    Comparison(lines=['a: 1 of 1 differ', '  [0]  7E  7D'], equal=False)
    """
    if len(a) == len(b) == 1:
        return _compare(next(iter(a)), next(iter(a.values())), next(iter(b.values())), fmt)
    lone = [f"{printable(name)}: only in A" for name in a if name not in b]
    lone += [f"{printable(name)}: only in B" for name in b if name not in a]
    return _joined([_found(lone), *(_compare(name, a[name], b[name], fmt) for name in a if name in b)])


def _found(differences: list[str]) -> Comparison:
    return Comparison(differences, not differences)


def _joined(parts: Iterable[Comparison]) -> Comparison:
    every = list(parts)
    return Comparison([line for part in every for line in part.lines], all(part.equal for part in every))


def _compare(name: str, a: Tensor, b: Tensor, fmt: Format | None) -> Comparison:
    name = printable(name)
    kinds = [_kind(tensor) for tensor in (a, b)]
    if kinds[0] != kinds[1]:
        return _compare_kinds(name, a, b, f"{name}: A is {kinds[0]}; B is {kinds[1]}")
    if getattr(a, "fmt", None) != getattr(b, "fmt", None):
        return _compare_kinds(name, a, b, f"{name}: both are {kinds[0]}, by two rows of one name")
    if isinstance(a, PackedTensor) and isinstance(b, PackedTensor):
        return _compare_packed(name, a, b)
    if isinstance(a, BlockTensor | MixedBlockTensor):
        return _compare_blocks(name, a, b)
    return _found(_compare_arrays(name, np.asarray(a), np.asarray(b), fmt))


def _compare_kinds(name: str, a: Tensor, b: Tensor, kinds: str) -> Comparison:
    """By codes where one row has them, else by the values where either is packed.

    -0 is not 0; among values any NaN is as good as another.
    """
    packed = [isinstance(tensor, PACKED) for tensor in (a, b)]
    if not any(packed) or a.shape != b.shape or not all(map(_has_values, (a, b))):
        return Comparison([kinds], False)
    if isinstance(a, PackedTensor) and isinstance(b, PackedTensor) and a.fmt == b.fmt:
        odd = ["order"] * (a.order != b.order) + ["shape of scales"] * (_scale_shape(a) != _scale_shape(b))
        return _told(name, kinds, _compare_packed(name, a, b), a, " and ".join(odd))
    if isinstance(a, BlockTensor) and isinstance(b, BlockTensor) and _structure(a) == _structure(b):
        return _told(name, kinds, _compare_blocks(name, a, b), a, "the name of the format")
    mine, theirs = (_values(tensor, exactly=all(packed)) for tensor in (a, b))
    wrong = np.flatnonzero((mine.view(np.uint64) != theirs.view(np.uint64)) & ~(np.isnan(mine) & np.isnan(theirs)))
    if not wrong.size:
        return Comparison([kinds, f"{name}: all {mine.size} values are equal"], True)
    most = _most(mine[wrong], theirs[wrong], wrong, a.shape)
    lines = [kinds, f"{name}: {wrong.size} of {mine.size} values differ, {most}"]
    for flat in wrong[:SHOWN].tolist():
        lines.append(f"  {list(place(flat, a.shape))}  {mine[flat]:.{DIGITS}g}  {theirs[flat]:.{DIGITS}g}")
    return Comparison(lines, False)


def _told(name: str, kinds: str, found: Comparison, tensor: PackedTensor | BlockTensor, odd: str) -> Comparison:
    """What differs, or that nothing does but how it is stored."""
    same = f"{name}: all {math.prod(tensor.shape)} codes are equal; they differ in {odd} alone"
    return Comparison([kinds, *(found.lines or [same])], found.equal)


def _scale_shape(tensor: PackedTensor) -> tuple[int, ...] | None:
    return None if tensor.scale is None else tensor.scale.shape


def _has_values(tensor: Tensor) -> bool:
    """Whether every number that a tensor can hold is a float64."""
    if isinstance(tensor, PACKED):
        return True
    return (tensor.dtype.kind, tensor.dtype.itemsize) in EXACT


def _values(tensor: Tensor, exactly: bool) -> NDArray[np.float64]:
    """The numbers of a tensor, flat; exactly: those of a packed one without the rounding to float32."""
    if isinstance(tensor, PackedTensor):
        array = _exact(tensor) if exactly else tensor.dequantize()
    elif isinstance(tensor, PACKED):
        array = tensor.dequantize(np.float64 if exactly else np.float32)
    else:
        array = np.asarray(tensor)
    return array.astype(np.float64).reshape(-1)


def _exact(tensor: PackedTensor) -> NDArray[np.float64]:
    """code * scale, which float64 holds: 25 bits and 24, see `PackedTensor.dequantize`."""
    values: NDArray[np.float64] = decode(tensor.codes(), tensor.fmt, np.float64)
    return values if tensor.scale is None else np.atleast_1d(values) * _scales(tensor)


def _scales(tensor: PackedTensor) -> NDArray[np.float32]:
    """A scale for each row, 1 where there is none."""
    lead = tensor.shape[:-1]
    return np.broadcast_to(np.float32(1) if tensor.scale is None else tensor.scale, (*lead, 1))


def _compare_packed(name: str, a: PackedTensor, b: PackedTensor) -> Comparison:
    """Codes, and scales for as many rows as either has."""
    parts = [_compare(name, a.codes(), b.codes(), a.fmt)]
    if a.scale is not None or b.scale is not None:
        same = a.scale is not None and b.scale is not None and a.scale.shape == b.scale.shape
        pair = (a.scale, b.scale) if same else (_scales(a), _scales(b))
        parts.append(_found(_compare_arrays(f"{name} scale", *pair, _FP32)))  # type: ignore[arg-type]
    return _joined(parts)


def _structure(tensor: BlockTensor) -> tuple[object, ...]:
    """What codes and scales mean, by whatever name."""
    fmt = tensor.fmt
    return fmt.element, fmt.scale, fmt.tile, fmt.tensor_scale != "none", fmt.zero_point, tensor.axis


def _compare_blocks(name: str, a: BlockTensor | MixedBlockTensor, b: Any) -> Comparison:
    """Part by part; a code of a mixed format is of a row that its block selects."""
    element = a.fmt.element if isinstance(a, BlockTensor) else None
    rows = {"codes": element, "scales": a.fmt.scale, "selectors": None, "zeros": element, "tensor_scale": _FP32}
    parts = []
    for part, row in rows.items():
        if (mine := getattr(a, part, None)) is not None:
            what = name if part == "codes" else f"{name} {part}"
            parts.append(_found(_compare_arrays(what, np.atleast_1d(mine), np.atleast_1d(getattr(b, part)), row)))
    return _joined(parts)


def _kind(tensor: Tensor) -> str:
    if isinstance(tensor, BlockTensor | MixedBlockTensor):
        return f"{tensor.fmt.name} {list(tensor.shape)}, axis {tensor.axis}"
    if isinstance(tensor, PackedTensor):
        scale = "no scale" if tensor.scale is None else f"scale {list(tensor.scale.shape)}"
        return f"{tensor.fmt.name} {list(tensor.shape)}, {tensor.order}, {scale}"
    return f"{tensor.dtype.newbyteorder('=')} {list(tensor.shape)}"


def _most(mine: Array, theirs: Array, where: NDArray[np.intp], shape: tuple[int, ...]) -> str:
    """The greatest distance; it is infinite to a NaN from anything else, and 0 between two."""
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(mine - theirs)
    distance[np.isnan(distance)] = np.inf
    distance[np.isnan(mine) & np.isnan(theirs)] = 0
    far = int(np.argmax(distance))
    return f"by at most {distance[far]:.3g} at {list(place(int(where[far]), shape))}"


def _compare_arrays(name: str, a: Array, b: Array, fmt: Format | None) -> list[str]:
    """Elements whose bytes differ."""
    rows = [np.ascontiguousarray(x, x.dtype.newbyteorder(">")).reshape(-1).view(np.uint8) for x in (a, b)]
    left, right = (row.reshape(a.size, a.itemsize) for row in rows)
    wrong = np.flatnonzero((left != right).any(axis=1))
    if not wrong.size:
        return []
    lines = [f"{name}: {wrong.size} of {a.size} differ"]
    floats = a.dtype.kind == "f" and fmt is not _FP32
    if floats:
        mine, theirs = (x.reshape(-1)[wrong].astype(np.promote_types(x.dtype, np.float64)) for x in (a, b))
        lines[0] += f", {_most(mine, theirs, wrong, a.shape)}"
    for flat in wrong[:SHOWN].tolist():
        cells = [_dump(row[flat].tobytes(), a.dtype, fmt) for row in (left, right)]
        if floats:
            cells = [f"{cell} = {x.reshape(-1)[flat]!s}" for cell, x in zip(cells, (a, b), strict=True)]
        lines.append(f"  {list(place(flat, a.shape))}  {cells[0]}  {cells[1]}")
    return lines


def _dump(data: bytes, dtype: np.dtype[Any], fmt: Format | None) -> str:
    """An element in hex, and as a code where it is one."""
    code = int.from_bytes(data, "big")
    if fmt is _FP32:
        return f"{data.hex().upper()} = {number_of(code, fmt)}"
    if fmt is None or dtype != code_dtype(fmt) or code > fmt.code_mask:
        return data.hex().upper()
    return f"{hex_code(code, fmt)} {spaced(fields_of(fmt, code))} = {number_of(code, fmt)}"
