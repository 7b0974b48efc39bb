"""What the products take: a matrix or a vector of numbers, and the scales that go with them.

Source: design of this project.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from feather_ref._blockparts import FP32
from feather_ref._mixed import MixedBlockTensor
from feather_ref._parts import FP64
from feather_ref._scaling import scale_values
from feather_ref._sources import as_array, bits_of, row_of
from feather_ref._sweep import Array, place, spell
from feather_ref.blocks import BlockTensor
from feather_ref.codec import decode
from feather_ref.formats import Format
from feather_ref.tensors import PackedTensor

F64 = NDArray[np.float64]
Rows = slice | EllipsisType


class Blocks(NamedTuple):
    """What blocks along the last axis share: item [..., j] is for the numbers j * size and on."""

    size: int
    scales: F64
    zeros: F64 | None  # the values that mean zero

    def map(self, change: Callable[[F64], F64]) -> Blocks:
        """The same with scales and zeros changed alike."""
        return Blocks(self.size, change(self.scales), None if self.zeros is None else change(self.zeros))


@dataclass(frozen=True, eq=False)
class Operand:
    """Numbers along the last axis, as codes of a row.

    scale: one float32 number for all or for each row, of shape () or codes.shape[:-1] + (1,).
    value = (decode(code) - zero of its block) * scale of its block * scale, exactly.
    """

    name: str
    codes: Array
    row: Format
    scale: F64 | None = None
    blocks: Blocks | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the numbers."""
        return self.codes.shape

    def matrix(self) -> Operand:
        """A vector as a matrix of one row; a matrix as it is."""
        if self.codes.ndim > 1:
            return self
        scale = None if self.scale is None else self.scale.reshape(-1)[0]
        blocks = None if self.blocks is None else self.blocks.map(lambda shared: shared[None])
        return Operand(self.name, self.codes[None], self.row, scale, blocks)

    def elements(self, rows: Rows = ...) -> F64:
        """The numbers without their scales, exactly."""
        codes = self.codes[rows]
        values = codes.view(np.float64) if self.row is FP64 else _exact_values(codes, self.row)
        if self.blocks is not None and self.blocks.zeros is not None:
            values -= _each(self.blocks, self.blocks.zeros[rows], values)
        return values

    def values(self, rows: Rows = ...) -> F64:
        """The numbers, exactly: no product has more bits than float64 holds."""
        values, scale = self.elements(rows), self.row_scale(rows)
        with np.errstate(invalid="ignore"):  # Inf * 0 is NaN
            if self.blocks is not None:
                values = values * _each(self.blocks, self.blocks.scales[rows], values)
            return values if scale is None else values * scale

    def row_scale(self, rows: Rows = ...) -> F64 | None:
        """The scale of these rows, of shape () or (rows, 1)."""
        return self.scale[rows] if self.scale is not None and self.scale.ndim else self.scale


def _each(blocks: Blocks, shared: F64, values: F64) -> F64:
    """What blocks share, for each of the values."""
    return np.repeat(shared, blocks.size, axis=-1)[..., : values.shape[-1]]


def operand(x: object, name: str) -> Operand:
    """An array, a list, a PackedTensor or a BlockTensor as an Operand; TypeError for what is none of these."""
    if isinstance(x, PackedTensor):
        scale = None if x.scale is None else _exact_values(bits_of(x.scale), FP32)
        return Operand(name, np.atleast_1d(x.codes()), x.fmt, scale)
    if isinstance(x, MixedBlockTensor):  # its codes are of several rows; their values are exact in float64
        return Operand(name, x.dequantize(np.float64).view(np.uint64), FP64)
    if isinstance(x, BlockTensor):
        whole = None if x.tensor_scale is None else _exact_values(bits_of(np.asarray(x.tensor_scale, np.float32)), FP32)
        return Operand(name, x.codes, x.fmt.element, whole, _blocks(x))
    array = as_array(x)
    try:
        row = row_of(array.dtype)
    except TypeError as error:
        raise TypeError(f"{name}{str(error).removeprefix('x')}") from None
    if row is None:
        raise TypeError(f"{name}: dtype {array.dtype} is wider than float64")
    if row.bits > 32 and row.kind == "integer":
        return Operand(name, _whole(array, name).view(np.uint64), FP64)
    bits = bits_of(array)
    return Operand(name, bits.astype(bits.dtype.newbyteorder("="), copy=False), FP64 if row == FP64 else row)


def _blocks(x: BlockTensor) -> Blocks:
    """What the blocks of x share, for each of its rows."""
    zeros = None if x.zeros is None else decode(x.zeros, x.fmt.element, np.float64)
    high, wide = x.fmt.tile
    last = x.axis == -1
    blocks = Blocks(wide if last else 1, _exact_values(x.scales, x.fmt.scale), zeros)
    if last and high == 1:
        return blocks
    # rows of a tile share, and so do numbers of blocks that run along another axis than the last
    axis, size = (-2, high) if last else (x.axis, wide)
    return blocks.map(lambda shared: shared.repeat(size, axis).take(range(x.shape[axis]), axis))


def _exact_values(codes: Array, row: Format) -> F64:
    """The values of codes; those of float32 from their bits, so that no processor flushes a subnormal."""
    return scale_values(np.atleast_1d(codes), row).reshape(codes.shape)


def dequantized(x: object) -> object:
    """The numbers of a tensor with scales, each rounded once to float32; anything else as it is."""
    if isinstance(x, BlockTensor | MixedBlockTensor) or (isinstance(x, PackedTensor) and x.scale is not None):
        return x.dequantize()
    return x


def _whole(x: Array, name: str) -> F64:
    """Integers of 64 bits as float64, where that holds them."""
    values = x.astype(np.float64)
    beyond = np.abs(values) > 2.0**53
    if beyond.any():
        index = place(int(beyond.argmax()), x.shape)
        raise ValueError(f"{spell(name, index)} = {x[index]} is beyond 2**53")
    return values


def check_shapes(w: Operand, x: Operand) -> tuple[int, ...]:
    """The shape of x @ W.T, where W is (n, k) and x is (k,) or (m, k)."""
    if len(w.shape) != 2:
        raise ValueError(f"{w.name} must have shape (n, k), got {w.shape}")
    if len(x.shape) not in (1, 2):
        raise ValueError(f"{x.name} must have shape (k,) or (m, k), got {x.shape}")
    if w.shape[1] != x.shape[-1]:
        raise ValueError(f"{w.name} of shape {w.shape} and {x.name} of shape {x.shape} differ in k")
    return (*x.shape[:-1], w.shape[0])


def check_float32(x: Operand) -> None:
    """Refuse a row with values that float32 does not hold."""
    if x.row is FP64 or decode(np.atleast_1d(x.codes)[:0], x.row).dtype != np.float32:
        raise TypeError(f"{x.name}: {x.row.name} holds numbers that float32 does not; convert it first")


def check_bias(bias: object, n: int, single: bool = False) -> F64 | None:
    """bias as (n,) float64, exactly; single: of numbers that float32 holds."""
    if bias is None:
        return None
    numbers = operand(bias, "bias")
    if single:
        check_float32(numbers)
    if numbers.shape != (n,):
        raise ValueError(f"bias must have shape ({n},), got {numbers.shape}")
    return numbers.matrix().values()[0]
