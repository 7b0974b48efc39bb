"""Mixed block formats: each block has a selector beside its scale, and so an element row of its own.

    value = element of the selected row * scale
    bits  = codes of k numbers, a scale code, and a byte with the selector in its low bits

All rows of a format have codes of one width, so that codes pack as in any block format.  A block
takes the row, and the scale rule, that give it the least error; of equal ones the first, row before
rule.  Their names and figures::

    mixed8   e5m2, e4m3, e3m4fn, e2m5fn     8.5  bits a value in blocks of 32, 8.25 in blocks of 64
    mixed6   e4m1, e3m2, e2m3, e1m4         6.5                                6.25
    mixed4   e3m0, e2m1, e1m2               4.5                                4.25

NaN, Inf and zeros go as in `quantize_blocks`.

Source: a rule of this project; scales as in OCP MX 1.0.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from feather_ref._blockparts import (
    as_blockable,
    as_planes,
    back,
    block_last,
    check_value_dtype,
    cut,
    gather,
    grid_of,
    narrow,
    scatter,
)
from feather_ref._measures import Sums, check_measure, sums
from feather_ref._scaling import scale_values
from feather_ref._sweep import Array
from feather_ref.blocks import BlockFormat, BlockTensor, check_axis, quantize_blocks, scales_shape
from feather_ref.codec import code_dtype, decode
from feather_ref.formats import FORMATS, Format, Source, check_int, minifloat
from feather_ref.packing import Words

SELECTOR_BITS = 8  # a byte of its own
RULES = ("floor", "rceil")
_OWN = Source("user-defined")


def splits(bits: int) -> tuple[Format, ...]:
    """The ways to split `bits` into a sign, an exponent and a mantissa, most exponent bits first.

    From 8 bits on each has a NaN; below, every code is a number.  The exponent has up to 7 bits, so
    that float32 holds every value.

    >>> [row.name for row in splits(8)]
    ['e7m0fn', 'e6m1fn', 'e5m2fn', 'e4m3', 'e3m4fn', 'e2m5fn', 'e1m6fn']
    >>> [row.name for row in splits(4)]
    ['minifloat(3,0,nan=False)', 'e2m1', 'minifloat(1,2,nan=False)']

    Raises TypeError or ValueError for bits outside 3 .. 16.
    """
    bits = check_int("bits", bits, 3, 16)
    return tuple(minifloat(e, bits - 1 - e, nan=bits >= 8) for e in range(min(bits - 1, 7), 0, -1))


# --- rows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MixedBlockFormat:
    """One mixed block format.  Frozen and hashable; build one to bring your own.

    elements: rows of one width; the selector is an index into them.  block: (k,), k numbers along one
    axis.  scale: a row.  scale_rules: names of `SCALE_RULES`, each tried for each block.

    >>> row = MixedBlockFormat("own", (FORMATS["e2m1"], FORMATS["int4"]), (16,))
    >>> row.size, row.bits_per_value
    (16, 5.0)

    Raises TypeError or ValueError for a row that contradicts itself.
    """

    name: str
    elements: tuple[Format, ...]
    block: tuple[int, ...]
    scale: Format = FORMATS["e8m0"]
    scale_rules: tuple[str, ...] = RULES
    source: Source = _OWN
    parts: tuple[BlockFormat, ...] = field(init=False, repr=False, compare=False)
    """A block format for each element row."""

    def __post_init__(self) -> None:
        for name in ("elements", "scale_rules"):
            if not isinstance(getattr(self, name), tuple):
                raise TypeError(f"{name} must be a tuple, got {type(getattr(self, name)).__name__}")
        if not 1 <= len(self.elements) <= 1 << SELECTOR_BITS:
            raise ValueError(f"elements must be 1 to {1 << SELECTOR_BITS} rows, got {len(self.elements)}")
        if not self.scale_rules:
            raise ValueError("scale_rules must name a rule")
        rule = self.scale_rules[0]
        parts = tuple(BlockFormat(self.name, row, self.block, self.scale, rule) for row in self.elements)
        if len({(row.bits, row.storage_bits) for row in self.elements}) > 1 or self.element.bits > 8:
            widths = ", ".join(f"{row.name} {row.bits}" for row in self.elements)
            raise ValueError(f"elements must have one width of at most 8 bits, got {widths}")
        if len(self.block) != 1:
            raise ValueError(f"block must be one size, got {self.block!r}")
        object.__setattr__(self, "parts", parts)

    def __str__(self) -> str:
        return self.name

    @property
    def element(self) -> Format:
        """The first row, which stands for the width of all."""
        return self.elements[0]

    @property
    def size(self) -> int:
        """Numbers in a block."""
        return self.block[0]

    @property
    def tile(self) -> tuple[int, int]:
        """The block as (rows, columns)."""
        return 1, self.size

    @property
    def bits_per_value(self) -> float:
        """Bits of an element and its share of scale and selector."""
        return self.element.storage_bits + (self.scale.storage_bits + SELECTOR_BITS) / self.size


_CHOICES = {
    8: (FORMATS["e5m2"], *splits(8)[3:6]),
    6: splits(6)[1:],
    4: splits(4),
}


def _rows() -> Iterator[MixedBlockFormat]:
    source = Source("feather_ref", section="mixed blocks")
    for bits, elements in _CHOICES.items():
        for k in (32, 64):
            name = f"mixed{bits}" if k == 32 else f"mixed{bits}_b{k}"
            yield MixedBlockFormat(name, elements, (k,), source=source)


MIXED_FORMATS: Mapping[str, MixedBlockFormat] = MappingProxyType({row.name: row for row in _rows()})
"""Every named mixed block format."""


def get_mixed_format(fmt: object) -> MixedBlockFormat:
    """The row of a name, or the row itself; case is ignored.

    >>> [row.name for row in get_mixed_format("mixed6").elements]
    ['minifloat(4,1,nan=False)', 'e3m2', 'e2m3', 'minifloat(1,4,nan=False)']

    Raises TypeError for another type, ValueError for an unknown name.
    """
    if isinstance(fmt, MixedBlockFormat):
        return fmt
    if not isinstance(fmt, str):
        raise TypeError(f"fmt must be the name of a mixed format or a MixedBlockFormat, got {type(fmt).__name__}")
    name = fmt.lower()
    if name not in MIXED_FORMATS:
        close = difflib.get_close_matches(name, MIXED_FORMATS) or MIXED_FORMATS
        raise ValueError(f"fmt: unknown mixed format {fmt!r}; known: {', '.join(close)}")
    return MIXED_FORMATS[name]


# --- tensors ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class MixedBlockTensor:
    """Numbers in blocks of a mixed format.

    codes: element codes, of the shape of the numbers.  scales, selectors: of the shape of the blocks;
    selectors are uint8.  fmt: a mixed format or its name.  axis: that a block runs along.

    >>> tensor = MixedBlockTensor(np.array([0x2, 0xF], np.uint8), np.array([128], np.uint8), np.array([1]), "mixed4")
    >>> tensor
    MixedBlockTensor(mixed4, shape=(2,), axis=-1, scales=(1,), padded, 6 bytes)
    >>> tensor.dequantize(), tensor.row_of(0).name
    (array([  2., -12.], dtype=float32), 'e2m1')

    Raises TypeError or ValueError where these do not fit together.
    """

    codes: Array
    scales: Array
    selectors: Array
    fmt: MixedBlockFormat
    axis: int = -1

    def __post_init__(self) -> None:
        fmt = get_mixed_format(self.fmt)
        plain = BlockTensor(self.codes, self.scales, fmt.parts[0], self.axis)  # which checks them
        selectors = np.asarray(self.selectors)
        if selectors.dtype.kind not in "ui":
            raise TypeError(f"selectors must be integers, got dtype {selectors.dtype}")
        if selectors.shape != plain.scales.shape:
            raise ValueError(f"selectors has shape {selectors.shape}, not {plain.scales.shape}")
        wrong = (selectors < 0) | (selectors >= len(fmt.elements))
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            count = len(fmt.elements)
            raise ValueError(f"selectors{list(index)} = {selectors[index]}; {fmt.name!r} has {count} rows")
        named = {"codes": plain.codes, "scales": plain.scales, "fmt": fmt, "axis": plain.axis}
        for name, value in (*named.items(), ("selectors", selectors.astype(np.uint8, copy=False))):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        padded = "padded, " if self.padded else ""
        about = f"{self.fmt}, shape={self.shape}, axis={self.axis}, scales={self.scales.shape}"
        return f"MixedBlockTensor({about}, {padded}{self.nbytes} bytes)"

    def __array__(self, dtype: object = None, copy: object = None) -> Array:
        """No array is meant without a word: np.asarray of this is a TypeError."""
        raise TypeError("a MixedBlockTensor is not an array: use .dequantize(), .codes or .words")

    @cached_property
    def _plain(self) -> BlockTensor:
        """The same codes and scales, as though the first row were always selected."""
        return BlockTensor(self.codes, self.scales, self.fmt.parts[0], self.axis)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the numbers."""
        return self.codes.shape

    @property
    def scale_values(self) -> NDArray[np.float32]:
        """The values of the scales."""
        return self._plain.scale_values

    @property
    def words(self) -> Words:
        """uint32: the codes packed along the block axis, which comes last; first code in the low bits."""
        return self._plain.words

    @property
    def padded(self) -> bool:
        """Whether a last block is ragged: its missing numbers count as +0 and have no codes here."""
        return self._plain.padded

    @property
    def nbytes(self) -> int:
        """Bytes of words, scales and selectors."""
        return self._plain.nbytes + self.selectors.nbytes

    @property
    def bits_per_value(self) -> float:
        """Bits of all that is stored for each number; 0 for an empty tensor."""
        return 8 * self.nbytes / self.codes.size if self.codes.size else 0.0

    def row_of(self, *index: int) -> Format:
        """The element row of one number: `explain(tensor.row_of(i, j), tensor.codes[i, j])` shows its bits."""
        checked = range(self.shape[self.axis])[index[self.axis]] if len(index) == len(self.shape) else None
        if checked is None:
            raise ValueError(f"index {index} is not one of {len(self.shape)} axes")
        place = list(index)
        place[self.axis] = checked // self.fmt.size
        return self.fmt.elements[self.selectors[tuple(place)]]

    def dequantize(self, dtype: DTypeLike = np.float32) -> Array:
        """The values: the exact product, rounded once to float32, or exact in float64.

        Raises TypeError for another dtype.
        """
        wanted = check_value_dtype(dtype)
        every = np.arange(self.fmt.element.code_mask + 1)
        table = np.concatenate([decode(every, row, np.float64) for row in self.fmt.elements])
        tile, planes = self.fmt.tile, as_planes(self.codes, self.axis, self.fmt.tile)
        scales, selectors = (
            block_last(part, self.axis, grid_of(planes.shape, tile)) for part in (self.scales, self.selectors)
        )
        out = np.empty(planes.shape, wanted)
        for chunk in cut(planes.shape, tile):
            first = selectors[chunk.blocks].reshape(-1, 1).astype(np.int64) * len(every)
            values = table[first + gather(planes, chunk, tile)]
            with np.errstate(invalid="ignore"):  # Inf * 0 is NaN
                values *= scale_values(scales[chunk.blocks].reshape(-1, 1), self.fmt.scale)
            values[np.isnan(values)] = np.nan
            scatter(values if wanted == np.float64 else narrow(values).view(np.float32), out, chunk, tile)
        return back(out, self.shape, self.axis)


# --- quantize ---------------------------------------------------------------------------------


class Best(NamedTuple):
    """What a chunk of blocks becomes: codes (m, k), the others (m,); errors (rows, m), each by its best rule."""

    codes: Array
    scales: Array
    selectors: Array
    errors: Array


def quantize_mixed(x: object, fmt: str | MixedBlockFormat, axis: int = -1, error: str = "mse") -> MixedBlockTensor:
    """Quantize an array in blocks, each by the row that suits it best.

    x: as for `quantize_blocks`.  fmt: a name of `MIXED_FORMATS` or a MixedBlockFormat.  axis: that
    blocks run along.  error: "mse", "max_relative" or "sqnr", over the finite numbers of a block.

    >>> x = np.array([7, 6, 5, 4, -3, 2, 1, 0], np.float32)  # even steps
    >>> tensor = quantize_mixed(x, "mixed4")
    >>> tensor.row_of(0).name, [hex(c) for c in tensor.codes], hex(tensor.scales[0])
    ('minifloat(1,2,nan=False)', ['0x7', '0x6', '0x5', '0x4', '0xb', '0x2', '0x1', '0x0'], '0x80')
    >>> tensor.dequantize().tolist()
    [7.0, 6.0, 5.0, 4.0, -3.0, 2.0, 1.0, 0.0]
    >>> wide = quantize_mixed(np.float32([8, 4, 2, 1, 0.5]), "mixed4")  # powers of two
    >>> wide.row_of(0).name, wide.dequantize().tolist()
    ('minifloat(3,0,nan=False)', [8.0, 4.0, 2.0, 1.0, 0.5])

    Raises TypeError or ValueError naming the argument, the value and its index.
    """
    row, array = get_mixed_format(fmt), np.atleast_1d(as_blockable(x))
    place = check_axis(axis, array.shape, row.parts[0])
    measure = check_measure(error)
    planes = as_planes(array, place, row.tile)
    codes = np.empty(planes.shape, code_dtype(row.element))
    scales = np.empty(grid_of(planes.shape, row.tile), code_dtype(row.scale))
    selectors = np.empty(scales.shape, np.uint8)
    for chunk in cut(planes.shape, row.tile):
        best = best_of(gather(planes, chunk, row.tile), row, measure)
        scatter(best.codes, codes, chunk, row.tile)
        for target, part in ((scales, best.scales), (selectors, best.selectors)):
            target[chunk.blocks] = part.reshape(target[chunk.blocks].shape)
    grid = scales_shape(array.shape, row.parts[0], place)
    parts = back(codes, array.shape, place), back(scales, grid, place), back(selectors, grid, place)
    return MixedBlockTensor(*parts, row, place)


def best_of(blocks: Array, fmt: MixedBlockFormat, measure: Callable[[Sums], Array]) -> Best:
    """The best of every row and rule for each of (m, k) numbers, a block a row."""
    m, k = blocks.shape
    codes, scales = np.zeros((m, k), code_dtype(fmt.element)), np.zeros(m, code_dtype(fmt.scale))
    selectors, least = np.zeros(m, np.uint8), np.full(m, np.nan)  # nothing is chosen yet
    errors = np.full((len(fmt.elements), m), np.inf)
    for selector, part in enumerate(fmt.parts):
        for rule in fmt.scale_rules:
            tensor = quantize_blocks(blocks, part, scale_rule=rule)
            error = measure(sums(blocks, tensor.dequantize()))
            errors[selector] = np.minimum(errors[selector], error)
            better = ~(error >= least)
            codes[better], scales[better] = tensor.codes[better], tensor.scales[better, 0]
            selectors[better], least[better] = selector, error[better]
    return Best(codes, scales, selectors, errors)
