"""Codes and words: codes of any width from 1 to 32 bits, packed without a gap into 32-bit words.

The last axis is packed.  Code i occupies bits [i*width, (i+1)*width) of the row's bit stream, and
word j holds bits [32*j, 32*j + 32) of it; a code may straddle two words, and the last word of a
row is filled with zero bits.  `order` says which end of a word the stream enters first; it orders
lanes, never the host's bytes.  Four codes of 8 bits in one word::

    order      bits 31..24  23..16  15..8   7..0    the stream is
    "little"   code 3       code 2  code 1  code 0  words.astype("<u4").tobytes(), LSB first
    "big"      code 0       code 1  code 2  code 3  words.astype(">u4").tobytes(), MSB first

How it is done: the stream is cut into units of 8, 16 or 32 bits, the smallest that the width
divides (else 32), and the lanes repeat after lcm(width, unit) bits.  For each lane of one such
period, one shift moves the codes of all periods.  Arrays go through in chunks, so that the memory
beyond input and output is about that of one chunk.

Source: a rule of this project.  "little" is the order of ONNX, torchao, TransformerEngine and
CUDA's cuda_fp4.h; "big" reads as the words are printed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feather_ref._checks import check_range, integers
from feather_ref._sources import refuse_masked
from feather_ref._sweep import Array, place, spell
from feather_ref.formats import Format, check_int

Order = Literal["little", "big"]
Words = NDArray[np.uint32]

ORDERS: tuple[str, ...] = get_args(Order)
CHUNK = 1 << 16  # codes; a multiple of 32, so that every chunk starts on a whole word


@runtime_checkable
class Packed(Protocol):
    """What the functions of this module ask of a PackedTensor, which is defined above them."""

    @property
    def words(self) -> Words:
        """The packed codes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the codes."""

    @property
    def fmt(self) -> Format:
        """What the codes mean."""

    @property
    def order(self) -> Order:
        """The order of lanes."""

    def dequantize(self, strict: bool = True) -> Array:
        """The values."""


# --- the bit rule -----------------------------------------------------------------------------


class _Plan(NamedTuple):
    """One period of the stream: `units` units of `unit` bits hold len(lanes) codes.

    A lane is the list of (unit index, shift left) that its code goes to; a negative shift is one
    to the right.  `byteorder`: of the units in a word.
    """

    unit: int
    units: int
    lanes: list[list[tuple[int, int]]]
    byteorder: str


def _plan(width: int, order: Order) -> _Plan:
    # 1. The smallest unit that whole codes fill; other widths straddle 32-bit units.
    unit = next((size for size in (8, 16) if size % width == 0), 32)
    bits = math.lcm(width, unit)
    # 2. Where each code of the period goes; every shift is smaller than the unit.
    lanes = []
    for start in range(0, bits, width):
        touched = range(start // unit, (start + width - 1) // unit + 1)
        if order == "little":
            lanes.append([(k, start - unit * k) for k in touched])
        else:
            lanes.append([(k, unit * (k + 1) - start - width) for k in touched])
    # 3. Units of 32 bits are words already.
    byteorder = "=" if unit == 32 else {"little": "<", "big": ">"}[order]
    return _Plan(unit, bits // unit, lanes, byteorder)


def _shift(x: Array, left: int) -> Array:
    return x << left if left >= 0 else x >> -left


def _pack_chunk(codes: Array, words: Words, width: int, plan: _Plan) -> None:
    """Pack rows of codes (r, n) into words (r, ceil(n*width/32))."""
    rows, count = words.shape
    dtype = f"u{plan.unit // 8}"
    codes = codes.astype(dtype, copy=False)
    units = np.zeros((rows, count * 32 // plan.unit), dtype)
    for lane, pieces in enumerate(plan.lanes):
        part = codes[:, lane :: len(plan.lanes)]
        for k, shift in pieces:
            target = units[:, k :: plan.units][:, : part.shape[1]]
            target |= _shift(part, shift)
    words[...] = units.astype(f"{plan.byteorder}{dtype}", copy=False).view(f"{plan.byteorder}u4")


def _unpack_chunk(words: Words, codes: Array, width: int, plan: _Plan) -> None:
    """The inverse of `_pack_chunk`; bits beyond the codes are not looked at."""
    dtype = f"u{plan.unit // 8}"
    streamed = np.ascontiguousarray(words, f"{plan.byteorder}u4")
    units = streamed.view(f"{plan.byteorder}{dtype}").astype(dtype, copy=False)
    mask = np.dtype(dtype).type((1 << width) - 1)
    for lane, pieces in enumerate(plan.lanes):
        target = codes[:, lane :: len(plan.lanes)]
        value = np.zeros(target.shape, dtype)
        for k, shift in pieces:
            value |= _shift(units[:, k :: plan.units][:, : target.shape[1]], -shift)
        target[...] = value & mask


# --- walking an array -------------------------------------------------------------------------


def _matrix(array: Array) -> Array:
    """(..., n) as (rows, n) where that needs no copy, else as it is."""
    if array.ndim > 2 and not array.flags.c_contiguous:
        return array
    return array.reshape(math.prod(array.shape[:-1]), array.shape[-1])


def _chunks(rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of about CHUNK elements: whole rows, or a piece of one."""
    step = max(1, CHUNK // max(columns, 1))
    for row in range(0, rows, step):
        for column in range(0, columns, CHUNK):
            yield slice(row, min(row + step, rows)), slice(column, min(column + CHUNK, columns))


def _block(array: Array, rows: slice, columns: slice) -> Array:
    """Some rows and columns of (..., n), rows counted in C order."""
    if array.ndim == 2:
        return array[rows, columns]
    index: tuple[Any, ...] = np.unravel_index(np.arange(rows.start, rows.stop), array.shape[:-1])
    block: Array = array[(*index, columns)]
    return block


def _word_slice(columns: slice, width: int) -> slice:
    """The words that hold the codes `columns`; its start is a multiple of 32."""
    return slice(columns.start * width // 32, -(-columns.stop * width // 32))


# --- codes <-> words --------------------------------------------------------------------------


def pack_codes(codes: ArrayLike, width: int, order: Order = "little") -> Words:
    """Pack codes of `width` bits along the last axis into 32-bit words.

    codes: (..., n) integers of any dtype, strides and byte order, 0 <= code < 2**width; 0-d counts
    as (1,).  width: 1 to 32.  Returns uint32 (..., ceil(n*width/32)).

    >>> [f"{word:08X}" for word in pack_codes([0x30, 0x40, 0x34, 0x44], 8, "big")]
    ['30403444']
    >>> [f"{word:08X}" for word in pack_codes([0x30, 0x40, 0x34, 0x44], 8)]
    ['44344030']
    >>> [f"{word:08X}" for word in pack_codes([1, 2, 3, 4, 5, 6], 6)]
    ['85103081', '00000001']

    Raises TypeError for codes that are not integers, ValueError for one that does not fit.
    """
    width, order = check_int("width", width, 1, 32), check_order(order)
    array = integers(codes, "codes")
    check_range(array, (1 << width) - 1, "codes")
    array = np.atleast_1d(array)
    *lead, n = array.shape
    words: Words = np.empty((*lead, -(-n * width // 32)), np.uint32)
    source, target, plan = _matrix(array), _matrix(words), _plan(width, order)
    for rows, columns in _chunks(math.prod(lead), n):
        _pack_chunk(_block(source, rows, columns), target[rows, _word_slice(columns, width)], width, plan)
    return words


def unpack_codes(
    words: ArrayLike | Packed, width: int, n: int | None = None, order: Order = "little", strict: bool = True
) -> Array:
    """The codes of `width` bits that are packed in words: the inverse of `pack_codes`.

    words: (..., m) uint32, or a PackedTensor, which brings its own n and order.  n: codes in a row;
    None is every whole lane, 32*m // width.  strict: every bit past them must be zero.  Returns
    (..., n), uint8 up to 8 bits, uint16 up to 16, else uint32.

    >>> unpack_codes(np.array([0x85103081, 0x00000001], np.uint32), 6, 6)
    array([1, 2, 3, 4, 5, 6], dtype=uint8)

    Raises TypeError for words that are not uint32, ValueError for n out of range or a bit past n.
    """
    width, order = check_int("width", width, 1, 32), check_order(order)
    if isinstance(words, Packed):
        if width != words.fmt.storage_bits:
            raise ValueError(f"width={width}: the PackedTensor has lanes of {words.fmt.storage_bits} bits")
        n, order = check_packed(words, n, order)
        words = words.words
    array = np.atleast_1d(check_words(words))
    *lead, m = array.shape
    n = _check_n(n, 32 * m // width)
    source, plan = _matrix(array), _plan(width, order)
    if strict:
        _check_rest(source, n * width, order, array.shape)
    codes = np.empty((*lead, n), f"u{1 if width <= 8 else 2 if width <= 16 else 4}")
    target = _matrix(codes)
    for rows, columns in _chunks(math.prod(lead), n):
        _unpack_chunk(_block(source, rows, _word_slice(columns, width)), target[rows, columns], width, plan)
    return codes


def check_order(order: Order) -> Order:
    """Refuse what is not the name of an order."""
    if not isinstance(order, str):
        raise TypeError(f"order must be a name, got {type(order).__name__}")
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}; got {order!r}")
    return order


def check_words(words: ArrayLike) -> Words:
    """Refuse what is not an array of uint32, in either byte order."""
    refuse_masked(words, "words")
    array = np.asarray(words)
    if array.dtype.newbyteorder("=") != np.dtype(np.uint32):
        cures = {"f": "from_float32(words)", "i": "words.view(np.uint32)"}
        cure = cures.get(array.dtype.kind, "") if array.dtype.itemsize == 4 else ""
        cure = cure or "np.array(words, np.uint32)"
        raise TypeError(f"words must be uint32, got dtype {array.dtype}; perhaps {cure}")
    return array


def _check_n(n: int | None, lanes: int) -> int:
    return lanes if n is None else check_int("n", n, 0, lanes)


def check_packed(packed: Packed, n: int | None, order: Order) -> tuple[int, Order]:
    """n and order of a PackedTensor; "little" is the default and says nothing against its own."""
    own = packed.shape[-1] if packed.shape else 1
    if n is not None and n != own:
        raise ValueError(f"n={n}: the PackedTensor has rows of {own}")
    if order not in ("little", packed.order):
        raise ValueError(f"order={order!r}: the PackedTensor has order {packed.order!r}")
    return own, packed.order


def _check_rest(words: Array, used: int, order: Order, shape: tuple[int, ...]) -> None:
    """Refuse a row with a one after its first `used` bits."""
    first, bits = divmod(used, 32)
    mask = np.uint32((0xFFFFFFFF << bits if order == "little" else 0xFFFFFFFF >> bits) & 0xFFFFFFFF)
    for rows, columns in _chunks(math.prod(shape[:-1]), shape[-1] - first):
        rest = _block(words, rows, slice(first + columns.start, first + columns.stop)).astype(np.uint32)
        if columns.start == 0:
            rest[:, 0] &= mask
        if rest.any():
            row, column = np.argwhere(rest)[0]
            index = (*place(int(rows.start + row), shape[:-1]), int(first + columns.start + column))
            word, extra = int(words.reshape(shape)[index]), int(rest[row, column])
            raise ValueError(
                f"{spell('words', index)} = 0x{word:08X}: bits 0x{extra:08X} past the last code are not zero; "
                "strict=False ignores them"
            )
