"""Numbers and words: `pack` encodes and packs, `unpack` unpacks and decodes.

A lane has fmt.storage_bits bits; the code stands fmt.storage_shift bits above its lowest, and the
rest is zero.  So a ue4m3 code of 7 bits takes a lane of 8, and a tf32 code of 19 bits the top of a
lane of 32, which is the word that a float32 register holds::

    tf32       | 31 sign | 30..23 exponent | 22..13 mantissa | 12..0 zero |

`make_packer` and `make_unpacker` make the two functions of one format, and `as_float32` lends
words to a container that knows no uint32.

Source: `packing` for the order of lanes; the rows of `formats` for the lanes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from feather_ref._sweep import Array, place, spell
from feather_ref.codec import check_codes, code_dtype, decode, encode
from feather_ref.formats import Format, get_format
from feather_ref.packing import (
    Order,
    Packed,
    Words,
    check_order,
    check_packed,
    check_words,
    pack_codes,
    unpack_codes,
)
from feather_ref.policy import Policies


class PackPolicies(Policies, total=False):
    """The policies of `encode`, and the operands of stochastic rounding."""

    random_bits: ArrayLike | None
    n_bits: int | None


def pack(x: object, fmt: str | Format, order: Order = "little", **policies: Unpack[PackPolicies]) -> Words:
    """Encode numbers and pack them: `encode`, then `pack_codes` in lanes of fmt.storage_bits.

    x: (..., n) numbers, as for `encode`; 0-d counts as (1,).  policies: rounding, overflow, nan,
    negative, subnormals, random_bits, n_bits of `encode`.  Returns uint32, the last axis packed.

    >>> [f"{word:08X}" for word in pack([0.5, 2.0], "fp16", "big")]
    ['38004000']
    >>> [f"{word:08X}" for word in pack([0.5, 2.0, 0.75, 3.0], "e5m2")]
    ['423A4038']

    Raises what `encode` raises, and ValueError for a format whose lane is wider than a word.
    """
    row = check_lane(fmt)
    check_order(order)
    codes = encode(x, row, out=None, report=False, **policies)  # so those two are no policies
    return codes_to_words(codes, row, order)


def unpack(
    words: ArrayLike | Packed,
    fmt: str | Format | None = None,
    n: int | None = None,
    order: Order = "little",
    strict: bool = True,
    dtype: DTypeLike | None = None,
) -> Array:
    """The values of packed numbers: `unpack_codes`, then `decode`.

    words: (..., m) uint32, or a PackedTensor, which brings its own fmt, n, order and scale and is
    dequantized.  n, strict: as for `unpack_codes`; a bit in a lane outside the code counts as past
    the code.  dtype: as for `decode`.  Returns (..., n).

    >>> unpack(np.array([0x44344030], np.uint32), "e4m3")
    array([0.5 , 2.  , 0.75, 3.  ], dtype=float32)

    Raises TypeError or ValueError as `unpack_codes` and `decode` do.
    """
    check_order(order)
    if isinstance(words, Packed):
        return _unpack_packed(words, fmt, n, order, strict, dtype)
    if fmt is None:
        raise TypeError("fmt is missing; only a PackedTensor brings its own")
    row = check_lane(fmt)
    return decode(words_to_codes(words, row, n, order, strict), row, dtype)


def _unpack_packed(
    packed: Packed, fmt: str | Format | None, n: int | None, order: Order, strict: bool, dtype: DTypeLike | None
) -> Array:
    if fmt is not None and get_format(fmt) != packed.fmt:
        raise ValueError(f"fmt={get_format(fmt).name!r}: the PackedTensor holds {packed.fmt.name!r}")
    check_packed(packed, n, order)
    values = packed.dequantize(strict)
    if dtype is not None and np.dtype(dtype) != values.dtype:
        raise ValueError(f"dtype={np.dtype(dtype)}: the PackedTensor gives {values.dtype}")
    return values


def check_lane(fmt: str | Format) -> Format:
    """The row of a format that can be packed: its lane is at most one word."""
    row = get_format(fmt)
    if row.storage_bits > 32:
        raise ValueError(f"fmt: {row.name!r} has lanes of {row.storage_bits} bits; a word has 32")
    return row


def codes_to_words(codes: ArrayLike, row: Format, order: Order) -> Words:
    """Pack codes of a format: a lane is the code shifted left by storage_shift."""
    lanes = check_codes(codes, row)
    if row.storage_shift:
        lanes = lanes.astype(np.uint32) << row.storage_shift
    return pack_codes(lanes, row.storage_bits, order)


def words_to_codes(words: ArrayLike, row: Format, n: int | None, order: Order, strict: bool) -> Array:
    """The inverse of `codes_to_words`; strict: the bits of a lane outside its code must be zero."""
    lanes = unpack_codes(words, row.storage_bits, n, order, strict)
    outside = ((1 << row.storage_bits) - 1) & ~(row.code_mask << row.storage_shift)
    if not outside:
        return lanes
    if strict and int(np.bitwise_or.reduce(lanes, axis=None)) & outside:
        index = place(int(np.argmax((lanes & outside) != 0)), lanes.shape)
        raise ValueError(
            f"words: {spell('lane', index)} = {int(lanes[index]):#x} has bits outside the code of {row.name!r}, "
            f"mask {outside:#x}; strict=False drops them"
        )
    return ((lanes >> row.storage_shift) & row.code_mask).astype(code_dtype(row))


# --- one pair of functions a format -----------------------------------------------------------


def make_packer(fmt: str | Format) -> Callable[..., Words]:
    """The function pack_<format>(x, order="little", **policies).

    >>> pack_fp16 = make_packer("float16")
    >>> pack_fp16.__name__, [f"{word:08X}" for word in pack_fp16([0.5, 2.0], "big")]
    ('pack_fp16', ['38004000'])
    """
    row = check_lane(fmt)

    def packer(x: object, order: Order = "little", **policies: Unpack[PackPolicies]) -> Words:
        return pack(x, row, order, **policies)

    name = _function_name("pack", row)
    words = [f"{word:08X}" for word in pack([1.0, 0.5], row)]
    doc = f"""Encode numbers as {row.name!r} and pack them in lanes of {row.storage_bits} bits.

    x: (..., n) numbers; policies: as for `pack`.  Returns uint32 (..., ceil(n*{row.storage_bits}/32)).

    >>> [f"{{word:08X}}" for word in {name}([1.0, 0.5])]
    {words!r}
    """
    return _named(packer, name, doc)


def make_unpacker(fmt: str | Format) -> Callable[..., Array]:
    """The function unpack_<format>(words, n=None, order="little", strict=True, dtype=None).

    >>> unpack_fp16 = make_unpacker("float16")
    >>> unpack_fp16.__name__, unpack_fp16(np.array([0x38004000], np.uint32), 2, "big").tolist()
    ('unpack_fp16', [0.5, 2.0])
    """
    row = check_lane(fmt)

    def unpacker(
        words: ArrayLike | Packed,
        n: int | None = None,
        order: Order = "little",
        strict: bool = True,
        dtype: DTypeLike | None = None,
    ) -> Array:
        return unpack(words, row, n, order, strict, dtype)

    name = _function_name("unpack", row)
    words = pack([1.0, 0.5], row)
    shown = ", ".join(f"0x{word:08X}" for word in words)
    doc = f"""The values of {row.name!r} numbers, packed in lanes of {row.storage_bits} bits.

    words: (..., m) uint32, or a PackedTensor; n: numbers in a row, None for every whole lane; order,
    strict, dtype: as for `unpack`.  Returns (..., n).

    >>> import numpy as np
    >>> {name}(np.array([{shown}], np.uint32), 2).tolist()
    {unpack(words, row, 2).tolist()!r}
    """
    return _named(unpacker, name, doc)


def _function_name(verb: str, row: Format) -> str:
    """pack_e4m3; what an identifier cannot hold becomes an underscore."""
    return f"{verb}_{re.sub(r'[^a-z0-9]+', '_', row.name.lower()).strip('_')}"


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


# --- a float32 container ----------------------------------------------------------------------


def as_float32(words: ArrayLike | Packed) -> NDArray[np.float32]:
    """The same bits as float32: a view, for containers that know no uint32.

    Move such an array, do nothing else with it.  Words that look like signalling NaNs come out of
    arithmetic, .item(), .tolist() and casts with another bit; sort may rewrite NaNs, and puts words
    in the order of numbers; == takes 00000000 and 80000000 for equal and NaNs for unequal; where
    the processor flushes subnormals to zero, words up to 007FFFFF become 0.

    >>> container = as_float32(np.array([0x7F800001, 0x00000001], np.uint32))
    >>> [f"{word:08X}" for word in from_float32(container)]
    ['7F800001', '00000001']
    >>> with np.errstate(invalid="ignore"):
    ...     [f"{word:08X}" for word in from_float32(container * 1)]
    ['7FC00001', '00000001']

    Raises TypeError for words that are not uint32.
    """
    array = check_words(words.words if isinstance(words, Packed) else words)
    return array.view(array.dtype.str.replace("u", "f"))


def from_float32(container: NDArray[np.float32]) -> Words:
    """The words in a float32 container: a view, the inverse of `as_float32`.

    >>> f"{from_float32(np.float32([3.0]))[0]:08X}"
    '40400000'

    Raises TypeError for an array that is not float32; a list would have gone through float64.
    """
    if not isinstance(container, np.ndarray) or container.dtype.newbyteorder("=") != np.dtype(np.float32):
        kind = f"dtype {container.dtype}" if isinstance(container, np.ndarray) else type(container).__name__
        raise TypeError(f"container must be a float32 array, got {kind}")
    return container.view(container.dtype.str.replace("f", "u"))
