"""How a product is divided: a small table, measured.

Source: measured on one H200 (`bench/results/`); see `feather_kernels.matvec` for what the numbers mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from feather_kernels import overlap
from feather_kernels.decoders import row_table
from feather_kernels.matvec import Gemv
from feather_kernels.tensorcore import Columns
from feather_kernels.tiles import ROWS

WARPS = 31  # a multiprocessor that fill it: fewer leave bytes unasked for, more come in a second wave
MEGABYTE = 1 << 20
MOST = 16  # warps that share a row


class Cut(NamedTuple):
    """How a product is divided: see `feather_kernels.matvec`."""

    rows: int = 1
    splits: int = 1
    warps: int = 4
    depth: int = 1
    parts: int = 1


class Shape(NamedTuple):
    """Rows of a warp, vectors at once, and warps of a block, at least."""

    rows: int
    depth: int
    warps: int = 4


def _shape(base: Gemv, n: int, k: int, multiprocessors: int) -> Shape:
    """The table: what suits the kind of a kernel, and for bytes and more the size."""
    if base.words > 4 or base.lanes > 32:  # vectors of many words or lanes fit the registers alone
        return Shape(1, 1)
    if row_table(base.fmt) is not None:
        return Shape(4, 1, 8)
    if base.fmt.storage_bits <= 4:
        return Shape(2, 1)
    if base.shared is not None:
        return Shape(2, 2)
    waves = n / (2 * WARPS * multiprocessors)
    if base.words % 4 or base.fmt.kind == "integer" or waves >= 2:
        return Shape(2, 2, 8)
    return Shape(4, 1, 8) if n * k * base.fmt.storage_bits // 8 >= 32 * MEGABYTE else Shape(2, 2)


def choose_cut(base: Gemv, n: int, k: int, multiprocessors: int) -> Cut:
    """Some rows a warp, so that each load of x serves them all, but enough warps to fill the GPU once.

    Warps share a row where there are few rows, and blocks do where there are very few and they are long.
    """
    rows, depth, warps = _shape(base, n, k, multiprocessors)
    strides = max(1, k // (32 * base.lanes))  # what one warp would do in so many steps
    wanted = WARPS * multiprocessors
    if n * 2 <= multiprocessors and strides >= 8 * MOST:
        return Cut(1, 8, 8, 1, MOST)
    splits = _splits(-(-wanted * rows // max(1, n)), strides)
    if n * splits < wanted * rows:
        rows, depth = 1, depth if strides >= 2 * MOST else 1
        splits = _splits(-(-wanted // max(1, n)), strides)
    return Cut(rows, splits, max(warps, splits), depth)


def _splits(wanted: int, most: int) -> int:
    """The least power of two from `wanted` on; within MOST, and so that every warp has something to do."""
    splits = 1
    while splits < wanted and 2 * splits <= min(MOST, most):
        splits *= 2
    return splits


_MOST_TILES = {(True, False): 2, (True, True): 4, (False, False): 4, (False, True): 2}  # of 8 bits, of blocks


def choose_tiles(g: Columns, n: int, k: int, multiprocessors: int) -> Columns:
    """A kernel cut up as measured on one H200.

    Many tiles a warp spare loads and conversions of x, as far as registers go and there are two blocks of 8 or
    16 warps for every multiprocessor; with few rows, several blocks share them.
    """
    byte = g.fmt.bits == 8 and not g.short_floats
    most = 4 if g.short_floats else 1 if g.fmt.bits == 16 else _MOST_TILES[byte, g.shared is not None]
    tiles = next(tiles for tiles in (4, 2, 1) if tiles == 1 or (tiles <= most and n >= 30 * tiles * multiprocessors))
    many = n >= 60 * multiprocessors
    warps = 16 if (byte and tiles < 4) or (g.fmt.bits == 16 and not many) else 8
    blocks = -(-n // (ROWS * tiles))
    wanted = 1 if 2 * blocks > multiprocessors else 4 if 4 * blocks > multiprocessors else 8
    parts = next(parts for parts in (8, 4, 2, 1) if parts <= max(1, min(wanted, k // (4 * g.lanes * warps))))
    registers = 64 if byte and tiles == 2 and not g.short else None  # sm_75 takes more, and would spill
    return replace(g, tiles=tiles, splits=warps, warps=warps, parts=parts, registers=registers)


def begins_early(size: int, capability: tuple[int, int]) -> bool:
    """Whether a kernel that reads so many bytes begins before the one before it ends: not below a megabyte."""
    return capability >= overlap.CAPABILITY and size >= MEGABYTE
