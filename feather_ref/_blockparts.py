"""Arrays cut into blocks: (m, k) bits, a block a row, chunk by chunk, and what a scale is made of.

A block along one axis never crosses a row; a tile takes rows and columns of the two last axes.
The last block of a row may be ragged: it is filled with +0, which changes no scale.

Numbers are held as bits, so that no flush-to-zero flag can change one: float32 bits for sources
of up to 32 bits, float64 bits for float64 and integers::

    Blocks.bits   (m, k) uint32 or uint64        Blocks.row   fp32 or fp64

Source: OCP MX 1.0, section 5 (blocks); the rest is a rule of this project.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from feather_ref._bits import I64, U64
from feather_ref._parts import FP64, split
from feather_ref._sources import as_array, bits_of, row_of
from feather_ref._sweep import Array, place, spell
from feather_ref.codec import decode, encode
from feather_ref.formats import FORMATS, Format

FP32 = FORMATS["fp32"]
CHUNK = 1 << 18  # numbers; a block of more is a chunk of its own
Bools = NDArray[np.bool_]
Values = NDArray[np.float64]


# --- sources ----------------------------------------------------------------------------------


def as_blockable(x: object) -> Array:
    """x as an array of floats up to float64, bool, or integers up to 2**53, with the same values."""
    array = as_array(x)
    row = row_of(array.dtype)
    if row is None:
        raise TypeError(f"x: dtype {array.dtype} is wider than float64, which has no blocks")
    if row.kind == "integer" and row.bits > 53:
        beyond = (array > 1 << 53) | (array < -(1 << 53)) if row.signed else array > 1 << 53
        if beyond.any():
            index = place(int(np.argmax(beyond)), array.shape)
            raise ValueError(f"{spell('x', index)} = {array[index]} is not exact in float64, and so has no scale")
    return array


def flushed(x: Array) -> Array:
    """x with its subnormals made zeros of their sign.

    >>> flushed(np.array([-(2.0**-24), 2.0**-14], np.float16)).tolist()
    [-0.0, 6.103515625e-05]
    """
    row = row_of(x.dtype) or FP64
    if row.kind != "float" or not row.has_subnormals:
        return x
    bits = bits_of(x)
    u = bits.dtype.type
    small = (bits & u(row.magnitude_mask)) < u(1 << row.mantissa_bits)
    return np.where(small, bits & u(row.sign_mask), bits).view(x.dtype.newbyteorder("="))


def load(x: Array, single: bool = False) -> tuple[Array, Format]:
    """The bits of numbers as float32 bits, or as float64 bits where float32 does not hold them all.

    single: as float32 bits in any case, rounded once.
    """
    row = row_of(x.dtype) or FP64
    bits = bits_of(x)
    bits = bits.astype(bits.dtype.newbyteorder("="), copy=False)
    if row is FP32 or (row is FP64 and not single):
        return bits, row
    if row.kind == "float" or single:
        return encode(x, FP32, nan="preserve_sign", overflow="nonsaturating"), FP32
    return x.astype(np.float64).view(np.uint64), FP64


# --- planes -----------------------------------------------------------------------------------


def as_planes(x: Array, axis: int, tile: tuple[int, int]) -> Array:
    """x as (planes, rows, columns), the block axis last; axis < 0.  A view, but where an axis is short.

    Tiles have the two last axes for a plane.  Runs have everything, unless what follows their axis is long.
    """
    *others, n = np.moveaxis(x, axis, -1).shape
    rows = x.shape[-2] if tile[0] > 1 else math.prod(x.shape[axis:]) // max(n, 1)
    if tile[0] == 1 and rows * n < CHUNK:
        rows = math.prod(others)
    return block_last(x, axis, (math.prod(others) // rows if rows else 0, rows, n))


def block_last(x: Array, axis: int, shape: tuple[int, ...]) -> Array:
    """x of another shape, the block axis last."""
    return np.moveaxis(x, axis, -1).reshape(shape)


def back(planes: Array, shape: tuple[int, ...], axis: int) -> Array:
    """The inverse of `as_planes`, contiguous."""
    moved = (*shape[:axis], *shape[len(shape) + axis + 1 :], shape[axis])
    return np.ascontiguousarray(np.moveaxis(planes.reshape(moved), -1, axis))


def grid_of(shape: tuple[int, ...], tile: tuple[int, int]) -> tuple[int, int, int]:
    """(planes, rows, columns) in blocks.

    >>> grid_of((1, 3, 70), (1, 32)), grid_of((2, 130, 70), (128, 128))
    ((1, 3, 3), (2, 2, 1))
    """
    return shape[0], -(-shape[1] // tile[0]), -(-shape[2] // tile[1])


# --- chunks -----------------------------------------------------------------------------------


class Chunk(NamedTuple):
    """Where a chunk of blocks lies: a plane, element rows and columns, block rows and columns."""

    plane: int
    rows: slice
    columns: slice
    block_rows: slice
    block_columns: slice

    @property
    def blocks(self) -> tuple[int, slice, slice]:
        """The index of the chunk's scales."""
        return self.plane, self.block_rows, self.block_columns


def cut(shape: tuple[int, ...], tile: tuple[int, int]) -> Iterator[Chunk]:
    """Chunks that cover (planes, rows, columns), whole blocks each; none crosses a plane."""
    (_, rows, columns), (r, c) = shape, tile
    planes, high, wide = grid_of(shape, tile)
    beside = max(min(wide, CHUNK // (r * c)), 1)
    below = max(CHUNK // (r * c * beside), 1)
    for plane, top, left in product(range(planes), range(0, high, below), range(0, wide, beside)):
        bottom, right = min(top + below, high), min(left + beside, wide)
        yield Chunk(
            plane,
            slice(top * r, min(bottom * r, rows)),
            slice(left * c, min(right * c, columns)),
            slice(top, bottom),
            slice(left, right),
        )


def gather(planes: Array, chunk: Chunk, tile: tuple[int, int]) -> Array:
    """The numbers of a chunk as (m, k), a block a row; ragged blocks are filled with 0."""
    (r, c), part = tile, planes[chunk.plane, chunk.rows, chunk.columns]
    high, wide = _extent(chunk)
    if part.shape != (high * r, wide * c):
        filled = np.zeros((high * r, wide * c), part.dtype)
        filled[: part.shape[0], : part.shape[1]] = part
        part = filled
    return part.reshape(high, r, wide, c).transpose(0, 2, 1, 3).reshape(high * wide, r * c)


def scatter(blocks: Array, planes: Array, chunk: Chunk, tile: tuple[int, int]) -> None:
    """Write (m, k) back to the chunk's place; what fills a ragged block is dropped."""
    (r, c), target = tile, planes[chunk.plane, chunk.rows, chunk.columns]
    high, wide = _extent(chunk)
    part = blocks.reshape(high, wide, r, c).transpose(0, 2, 1, 3).reshape(high * r, wide * c)
    target[...] = part[: target.shape[0], : target.shape[1]]


def _extent(chunk: Chunk) -> tuple[int, int]:
    return (
        chunk.block_rows.stop - chunk.block_rows.start,
        chunk.block_columns.stop - chunk.block_columns.start,
    )


# --- blocks -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Magnitudes:
    """Finite numbers >= 0 as bits of fp32 or fp64: significand * 2**(exponent - 63), or 0.

    >>> top = Magnitudes(np.array([3 << 22, 1, 0], np.uint32), FP32)  # 1.5 * 2**-126, 2**-149, 0
    >>> top.exponent[:2].tolist(), [hex(s) for s in top.significand], top.zero.tolist()
    ([-126, -149], ['0xc000000000000000', '0x8000000000000000', '0x0'], [False, False, True])
    """

    bits: Array
    row: Format

    @property
    def zero(self) -> Bools:
        """Where the number is 0."""
        return self.bits == 0

    @cached_property
    def exponent(self) -> I64:
        """floor(log2) of each number, from its bits; far below any for 0."""
        exponent = (self.bits >> self.bits.dtype.type(self.row.mantissa_bits)).astype(np.int64) - self.row.bias
        small = self._subnormal
        if small.any():
            exponent[small] = split(self.bits[small].astype(np.uint64), self.row).exponent
        return exponent

    @cached_property
    def significand(self) -> U64:
        """The significand with its leading 1 in bit 63; 0 for 0."""
        significand = self.bits.astype(np.uint64) << np.uint64(63 - self.row.mantissa_bits) | np.uint64(1 << 63)
        small = self._subnormal
        if small.any():
            significand[small] = split(self.bits[small].astype(np.uint64), self.row).significand
        return significand

    @cached_property
    def _subnormal(self) -> Bools:
        """Where there is no hidden bit: subnormals and 0."""
        return self.bits < self.bits.dtype.type(1 << self.row.mantissa_bits)

    @cached_property
    def value(self) -> Values:
        """The numbers, exactly."""
        return self.bits.view(np.float64) if self.row is FP64 else widen(self.bits)


class Random(NamedTuple):
    """The operand of stochastic rounding: integers below 2**n_bits."""

    bits: Array
    n_bits: int


@dataclass(frozen=True, eq=False)
class Blocks:
    """A chunk of blocks: (m, k) bits of fp32 or fp64.  random: what stochastic rounding takes, (m, k) too."""

    bits: Array
    row: Format
    random: Random | None = None

    @cached_property
    def magnitude(self) -> Array:
        """The bits without their sign."""
        return self.bits & self.bits.dtype.type(self.row.magnitude_mask)

    @cached_property
    def _extremes(self) -> tuple[Array, Bools]:
        """The bits of each block's greatest finite magnitude, and whether the block has a NaN."""
        u = self.bits.dtype.type
        starts = np.arange(0, self.bits.size, self.bits.shape[1])
        top = np.maximum.reduceat(self.magnitude.reshape(-1), starts)  # faster than a maximum along an axis
        special = top > u(self.row.max_magnitude)
        if special.any():
            rest = self.magnitude[special]
            rest[rest > u(self.row.max_magnitude)] = 0
            nan = top > u(self.row.exponent_mask)
            top[special] = rest.max(axis=1)
            return top, nan
        return top, special

    @property
    def top(self) -> Array:
        """(m,) the bits of amax, in the blocks' own row."""
        return self._extremes[0]

    @property
    def nan(self) -> Bools:
        """(m,) whether a block has a NaN."""
        return self._extremes[1]

    @cached_property
    def amax(self) -> Magnitudes:
        """(m,) the greatest finite magnitudes; 0 where there is none."""
        return Magnitudes(self.top, self.row)

    @cached_property
    def values(self) -> Values:
        """(m, k) the numbers as float64, exactly."""
        return self.bits.view(np.float64) if self.row is FP64 else widen(self.bits)


# --- float32 and float64 ----------------------------------------------------------------------


def widen(bits: Array) -> Values:
    """float32 bits as float64, exactly; subnormals not through the processor, which may flush them."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        values = bits.view(np.float32).astype(np.float64)
    small = ((bits & np.uint32(FP32.magnitude_mask)) - np.uint32(1)) < np.uint32(FP32.mantissa_mask)  # 0 wraps
    if small.any():
        values[small] = decode(bits[small], FP32, np.float64)
    return values


def check_value_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """float32 or float64; None, which NumPy takes for float64, is neither."""
    try:
        wanted = np.dtype(dtype)
    except TypeError as error:
        raise TypeError(f"dtype: {error}") from None
    if dtype is None or wanted not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise TypeError(f"dtype must be float32 or float64, got {dtype if dtype is None else wanted}")
    return wanted


def narrow(x: Values) -> Array:
    """float64 rounded to float32, as bits; subnormal results not through the processor."""
    with np.errstate(all="ignore"):
        bits = x.astype(np.float32).view(np.uint32)
    small = ((bits & np.uint32(FP32.magnitude_mask)) <= np.uint32(1 << FP32.mantissa_bits)) & (x != 0)
    if small.any():
        bits[small] = encode(x[small], FP32)
    return bits
