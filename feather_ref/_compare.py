"""Two files bit by bit: which tensors differ, how often, and the first elements that do.

    w: 2 of 400 differ
      [0, 3]  7E 0 1111 110 = 448  7D 0 1111 101 = 416

Source: design of this project; the count and the two dumps are those of ggml's bit-difference report.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from feather_ref._anatomy import fields_of, hex_code, number_of, spaced
from feather_ref._mixed import MixedBlockTensor
from feather_ref._sweep import Array, place
from feather_ref.blocks import BlockTensor
from feather_ref.codec import code_dtype
from feather_ref.files import Tensor
from feather_ref.formats import Format
from feather_ref.tensors import PackedTensor

SHOWN = 5  # elements of a tensor


def printable(name: str) -> str:
    """A name that cannot steer a terminal."""
    return name if name.isprintable() else ascii(name)


def compare_tensors(a: Mapping[str, Tensor], b: Mapping[str, Tensor], fmt: Format | None = None) -> list[str]:
    """What differs, in lines; none where all is equal.

    fmt: what unsigned integers are codes of.  Byte order does not count, nor does the name where
    each side has a single tensor.

    >>> compare_tensors({"a": np.array([0x7E], np.uint8)}, {"b": np.array([0x7D], np.uint8)})
    ['a: 1 of 1 differ', '  [0]  7E  7D']
    """
    if len(a) == len(b) == 1:
        return _compare(next(iter(a)), next(iter(a.values())), next(iter(b.values())), fmt)
    lines = [f"{printable(name)}: only in A" for name in a if name not in b]
    lines += [f"{printable(name)}: only in B" for name in b if name not in a]
    return lines + [line for name in a if name in b for line in _compare(name, a[name], b[name], fmt)]


def _compare(name: str, a: Tensor, b: Tensor, fmt: Format | None) -> list[str]:
    name = printable(name)
    kinds = [_kind(tensor) for tensor in (a, b)]
    if kinds[0] != kinds[1]:
        return [f"{name}: A is {kinds[0]}; B is {kinds[1]}"]
    if isinstance(a, PackedTensor) and isinstance(b, PackedTensor):
        lines = _compare(name, a.codes(), b.codes(), a.fmt)
        if a.scale is not None and b.scale is not None:
            lines += _compare(f"{name} scale", a.scale, b.scale, None)
        return lines
    if isinstance(a, BlockTensor | MixedBlockTensor):
        return _compare_blocks(name, a, b)
    return _compare_arrays(name, np.asarray(a), np.asarray(b), fmt)


def _compare_blocks(name: str, a: BlockTensor | MixedBlockTensor, b: Any) -> list[str]:
    """Part by part; a code of a mixed format is of a row that its block selects."""
    lines = _compare(name, a.codes, b.codes, a.fmt.element if isinstance(a, BlockTensor) else None)
    for part in ("scales", "selectors", "zeros", "tensor_scale"):
        if (mine := getattr(a, part, None)) is not None:
            row = a.fmt.scale if part == "scales" else None
            lines += _compare(f"{name} {part}", np.atleast_1d(mine), np.atleast_1d(getattr(b, part)), row)
    return lines


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
