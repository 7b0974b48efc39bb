"""Two files bit by bit: which tensors differ, how often, and the first elements that do.

    w: 2 of 400 differ
      [0, 3]  7E 0 1111 110 = 448  7D 0 1111 101 = 416

What is packed in two ways, or in one file alone, is compared by the values that it stands for::

    w: A is e4m3 [400], little, scale [1]; B is float32 [400]
    w: 391 of 400 values differ, by at most 0.0156 at [7]
      [0]  0.296875  0.3

Source: design of this project; the count and the two dumps are those of ggml's bit-difference report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feather_ref._anatomy import fields_of, hex_code, number_of, spaced
from feather_ref._mixed import MixedBlockTensor
from feather_ref._sweep import Array, place
from feather_ref.blocks import BlockTensor
from feather_ref.codec import code_dtype
from feather_ref.files import Tensor
from feather_ref.formats import Format
from feather_ref.tensors import PackedTensor

SHOWN = 5  # elements of a tensor
DIGITS = 9  # of a value, which tell any two float32 apart
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
        parts = [_compare(name, a.codes(), b.codes(), a.fmt)]
        if a.scale is not None and b.scale is not None:
            parts.append(_compare(f"{name} scale", a.scale, b.scale, None))
        return _joined(parts)
    if isinstance(a, BlockTensor | MixedBlockTensor):
        return _compare_blocks(name, a, b)
    return _found(_compare_arrays(name, np.asarray(a), np.asarray(b), fmt))


def _compare_kinds(name: str, a: Tensor, b: Tensor, kinds: str) -> Comparison:
    """By the values of the numbers, where either is packed; -0 is not 0, and any NaN is as good as another."""
    packed = [isinstance(tensor, PACKED) for tensor in (a, b)]
    if not any(packed) or a.shape != b.shape or not all(map(_has_values, (a, b))):
        return Comparison([kinds], False)
    mine, theirs = (_values(tensor) for tensor in (a, b))
    wrong = np.flatnonzero((mine.view(np.uint64) != theirs.view(np.uint64)) & ~(np.isnan(mine) & np.isnan(theirs)))
    if not wrong.size:
        return Comparison([kinds, f"{name}: all {mine.size} values are equal"], True)
    with np.errstate(invalid="ignore"):
        distance = np.nan_to_num(np.abs(mine[wrong] - theirs[wrong]), nan=np.inf, posinf=np.inf)
    far = int(np.argmax(distance))
    most = f"by at most {distance[far]:.3g} at {list(place(int(wrong[far]), a.shape))}"
    lines = [kinds, f"{name}: {wrong.size} of {mine.size} values differ, {most}"]
    for flat in wrong[:SHOWN].tolist():
        lines.append(f"  {list(place(flat, a.shape))}  {mine[flat]:.{DIGITS}g}  {theirs[flat]:.{DIGITS}g}")
    return Comparison(lines, False)


def _has_values(tensor: Tensor) -> bool:
    """Whether every number that a tensor can hold is a float64."""
    if isinstance(tensor, PACKED):
        return True
    return (tensor.dtype.kind, tensor.dtype.itemsize) in EXACT


def _values(tensor: Tensor) -> NDArray[np.float64]:
    """The numbers of a tensor, flat."""
    array = tensor.dequantize() if isinstance(tensor, PACKED) else np.asarray(tensor)
    return array.astype(np.float64).reshape(-1)


def _compare_blocks(name: str, a: BlockTensor | MixedBlockTensor, b: Any) -> Comparison:
    """Part by part; a code of a mixed format is of a row that its block selects."""
    parts = [_compare(name, a.codes, b.codes, a.fmt.element if isinstance(a, BlockTensor) else None)]
    for part in ("scales", "selectors", "zeros", "tensor_scale"):
        if (mine := getattr(a, part, None)) is not None:
            row = a.fmt.scale if part == "scales" else None
            parts.append(_compare(f"{name} {part}", np.atleast_1d(mine), np.atleast_1d(getattr(b, part)), row))
    return _joined(parts)


def _kind(tensor: Tensor) -> str:
    if isinstance(tensor, BlockTensor | MixedBlockTensor):
        return f"{tensor.fmt.name} {list(tensor.shape)}, axis {tensor.axis}"
    if isinstance(tensor, PackedTensor):
        scale = "no scale" if tensor.scale is None else f"scale {list(tensor.scale.shape)}"
        return f"{tensor.fmt.name} {list(tensor.shape)}, {tensor.order}, {scale}"
    return f"{tensor.dtype.newbyteorder('=')} {list(tensor.shape)}"


def _compare_arrays(name: str, a: Array, b: Array, fmt: Format | None) -> list[str]:
    """Elements whose bytes differ."""
    rows = [np.ascontiguousarray(x, x.dtype.newbyteorder(">")).reshape(-1).view(np.uint8) for x in (a, b)]
    left, right = (row.reshape(a.size, a.itemsize) for row in rows)
    wrong = np.flatnonzero((left != right).any(axis=1))
    if not wrong.size:
        return []
    lines = [f"{name}: {wrong.size} of {a.size} differ"]
    for flat in wrong[:SHOWN].tolist():
        cells = [_dump(row[flat].tobytes(), a.dtype, fmt) for row in (left, right)]
        lines.append(f"  {list(place(flat, a.shape))}  {cells[0]}  {cells[1]}")
    return lines


def _dump(data: bytes, dtype: np.dtype[Any], fmt: Format | None) -> str:
    """An element in hex, and as a code where it is one."""
    code = int.from_bytes(data, "big")
    if fmt is None or dtype != code_dtype(fmt) or code > fmt.code_mask:
        return data.hex().upper()
    return f"{hex_code(code, fmt)} {spaced(fields_of(fmt, code))} = {number_of(code, fmt)}"
