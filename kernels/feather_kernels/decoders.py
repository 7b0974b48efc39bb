"""From codes to float32, exactly: device functions made from a row of the table of formats.

A lane is first shifted so that its code stands at the top of 32 bits.  A float code is then the
top of a float32 whose exponent field is too wide, so one signed shift and one mask make a float32
that is too small by a power of two::

    e4m3      | s eeee mmm 0000...               |      top
    shift 4   | s ssss eeee mmm 0000...          |      8 - exponent_bits places, with the sign
    mask      | s 0000 eeee mmm 0000...          |      times 2**(127 - bias) is the value

Subnormals need nothing of their own.  The power of two is either multiplied in or left to the
caller (`factor`), who brings it in once a row.  Inf and NaN, where the row has them, cost one
comparison each, and nothing where the caller knows that there are none (`finite`).

Where float16 has the exponents, two lanes at once are cheaper, since hardware widens float16: fp16,
e5m2 (its top byte), other rows of 8 bits with up to 4 exponent bits (shift and mask as above, times
2**(15 - bias)), and rows of 4 bits, whose magnitudes select bytes from a table of 8.  Tables and rows
of another shape of up to 8 bits are looked up.

Source: the rows of `feather_ref.formats`; OFP8 1.0, IEEE 754-2019 3.4 for the layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, device
from feather_ref import Format, get_format, value_table
from feather_ref import decode as reference_decode

CANONICAL_NAN = 0x7FC00000
SIGN = 0x80000000

Function = Callable[..., Any]


class Decoder(NamedTuple):
    """lane(words, first, j): the value of lane j of the words from `first` on, times 2**-(factor + x_factor).

    x is to be taken times 2**x_factor, and the sum times 2**factor.  group(words, first, into): the values
    of all lanes of the least number of whole words, at once.
    """

    lane: Function
    group: Function
    factor: int = 0
    x_factor: int = 0


X_FACTOR = 60  # neither a float16 x times 2**60 nor a weight left as it is comes near the ends of float32


@cache
def make_decoder(
    fmt: str | Format, finite: bool = False, deferred: bool = False, short_x: bool = False, native: bool = False
) -> Decoder:
    """The decoder of a row's lanes.

    finite: the caller knows that there is no code of Inf or NaN.  deferred: leave a power of two to the
    caller, where that saves an instruction; short_x: who multiplies with a float16.  native: the target
    widens e4m3 itself.

    Raises ValueError for a row with values that are not exact in float32.
    """
    row = get_format(fmt)
    check_exact(row)
    lanes = row.period[0]
    if is_half(row) or (native and widens(row)):
        return Decoder(*_pairs(row, native))
    plain = finite or not (row.has_nan or row.has_inf)
    narrow = row.kind == "float" and row.signed and row.has_zero and row.exponent_bits < 5 and row.storage_shift == 0
    if plain and narrow and row.bits == row.storage_bits == 4 and _selects(row):
        return Decoder(_nibble_lane(row), _nibble_group(row))
    if plain and deferred and narrow and row.bits == row.storage_bits == 8:
        return Decoder(*_pairs(row), 15 - row.bias)
    width = row.storage_bits
    top = make_top(width, width - row.storage_shift - row.bits)
    later = plain and deferred and short_x and _factor(row) != 0
    value = make_value(row, finite, later)

    @device
    def lane(words, first, j):
        return value(top(words, first, j))

    both = _by_lane(lane, lanes)
    return Decoder(*both, _factor(row) - X_FACTOR, X_FACTOR) if later else Decoder(*both)


def _by_lane(lane: Function, lanes: int) -> tuple[Function, Function]:
    """A lane's decoder, and the group of all lanes made of it."""

    @device
    def group(words, first, into):
        for j in range(lanes):
            into[j] = lane(words, first, j)

    return lane, group


def check_exact(row: Format) -> None:
    """Refuse a row that float32 does not hold."""
    if row.bits > 32 or value_dtype(row) != np.float32:
        raise ValueError(f"fmt: {row.name!r} has values that are not exact in float32; kernels compute in float32")


def value_dtype(row: Format) -> np.dtype[Any]:
    """What `feather_ref.decode` makes of the row's codes."""
    return reference_decode(np.zeros(0, np.uint32), row).dtype


# --- the lane ---------------------------------------------------------------------------------


@cache
def make_top(width: int, left: int) -> Function:
    """top(words, first, j): lane j with its code at the top of 32 bits, other bits below it.

    width: of a lane; left: its bits above the code.  Loops over j are unrolled only where their body
    is small, so there is no branch here: in one word, the funnel is a rotation.
    """
    length = width - left

    @device
    def within(words, first, j):
        start = j * width
        return np.uint32(words[first + (start >> 5)] << np.uint32(32 - length - (start & 31)))

    @device
    def across(words, first, j):
        start = j * width
        end = start + length  # one past the code
        return ptx.funnel(words[first + (start >> 5)], words[first + (end - 1 >> 5)], np.uint32(end & 31))

    return within if 32 % width == 0 else across


def is_half(row: Format) -> bool:
    """Whether a lane is a float16, or the top byte of one."""
    layout = row.kind == "float" and row.signed and row.has_zero and (row.exponent_bits, row.bias) == (5, 15)
    return layout and row.nan == "ieee" and row.bits == row.storage_bits in (8, 16)


def widens(row: Format) -> bool:
    """Whether there is an instruction, on sm_89 and up, that makes float16 of the row's codes."""
    e4m3 = get_format("e4m3")
    layout = (row.kind, row.signed, row.has_zero, row.bits, row.storage_bits, row.exponent_bits, row.bias, row.nan)
    return not row.has_inf and layout == ("float", True, True, 8, 8, 4, e4m3.bias, e4m3.nan)


@cache
def _pairs(row: Format, native: bool = False) -> tuple[Function, Function]:
    """lane and group of a row of 8 or 16 bits, two lanes at a time: halves(word, pair) makes a pair of float16."""
    per = 32 // row.bits
    step = per.bit_length() - 1
    halves = _native_halves if native and widens(row) else _halves(row)

    @device
    def lane(words, first, j):
        pair = halves(words[first + (j >> step)], (j & (per - 1)) >> 1)
        return ptx.low_half(pair) if j & 1 == 0 else ptx.high_half(pair)

    @device
    def group(words, first, into):
        for i in range(per // 2):
            pair = halves(words[first], i)
            into[2 * i] = ptx.low_half(pair)
            into[2 * i + 1] = ptx.high_half(pair)

    return lane, group


def _halves(row: Format) -> Function:
    """halves(word, pair): a pair of float16 of a row of 8 or 16 bits."""
    return _word_halves if row.bits == 16 else _byte_halves if is_half(row) else _made_halves(row)


@device
def _native_halves(word, pair):
    return ptx.e4m3_low(word) if pair == 0 else ptx.e4m3_high(word)


@device
def _word_halves(word, pair):
    return word


@device
def _byte_halves(word, pair):
    """Two bytes of the word, each the high one of a half."""
    return ptx.prmt(word, np.uint32(0), np.uint32(0x1404 if pair == 0 else 0x3424))


def _made_halves(row: Format) -> Function:
    """Two lanes of 8 bits with up to 4 exponent bits, without Inf and NaN, times 2**(bias - 15)."""
    shift = 5 - row.exponent_bits
    mask = (row.magnitude_mask << 8 >> shift) * 0x00010001
    signs = SIGN | SIGN >> 16

    @device
    def halves(word, pair):
        both = _byte_halves(word, pair)
        size = np.uint32(np.uint32(both >> np.uint32(shift)) & np.uint32(mask))
        return np.uint32(size | np.uint32(both & np.uint32(signs)))

    return halves


def _selects(row: Format) -> bool:
    """Whether the magnitudes of a row of 4 bits are top bytes of float16."""
    values = [row.exact(magnitude) for magnitude in range(8)]
    exact = all(Fraction(float(np.float16(float(value)))) == value for value in values)
    return exact and not any(bits & 0xFF for bits in _half_values(row))


def _half_values(row: Format) -> tuple[int, ...]:
    """The magnitudes of a row of 4 bits as float16."""
    return tuple(int(np.float16(float(row.exact(magnitude))).view(np.uint16)) for magnitude in range(8))


def _table(values: Sequence[int], byte: int) -> tuple[int, int]:
    """Byte 0 or 1 of the 16 bits of 8 magnitudes: of 0..3 and of 4..7, each four in a word."""
    bytes_of = [value >> 8 * byte & 0xFF for value in values]
    low, high = (sum(one << 8 * i for i, one in enumerate(bytes_of[start : start + 4])) for start in (0, 4))
    return low, high


@cache
def _nibble_lane(row: Format) -> Function:
    """lane(words, first, j) of a row of 4 bits: its magnitude selects the top byte of a float16."""
    low, high = _table(_half_values(row), 1)

    @device
    def lane(words, first, j):
        code = np.uint32(words[first + (j >> 3)] >> np.uint32(4 * (j & 7)))
        top = ptx.prmt(np.uint32(low), np.uint32(high), np.uint32(code & np.uint32(7)))
        sign = np.uint32(np.uint32(code & np.uint32(8)) << np.uint32(12))
        return ptx.low_half(np.uint32(np.uint32(np.uint32(top & np.uint32(0xFF)) << np.uint32(8)) | sign))

    return lane


@cache
def _make_nibbles(values: tuple[int, ...]) -> Function:
    """halves(words, first, into, at): 8 lanes of 4 bits, two in a word, with 16 bits for each magnitude.

    A magnitude selects the top byte, and the bottom one where not all are 0.  Signs stand at bit 7 of the
    bytes of the word, and of the word moved by one lane.
    """
    (low0, low4), (top0, top4) = _table(values, 0), _table(values, 1)
    whole = bool(low0 | low4)

    @device
    def halves(words, first, into, at):
        word = words[first]
        even = np.uint32(word << np.uint32(4))
        size = np.uint32(word & np.uint32(0x77777777))
        for i in range(2):
            four = np.uint32(size >> np.uint32(16 * i))
            top = ptx.prmt(np.uint32(top0), np.uint32(top4), four)
            signs = ptx.prmt(even, word, np.uint32(0x5140 if i == 0 else 0x7362))
            top = np.uint32(top | np.uint32(signs & np.uint32(0x80808080)))
            if whole:
                low = ptx.prmt(np.uint32(low0), np.uint32(low4), four)
                into[at + 2 * i] = ptx.prmt(low, top, np.uint32(0x5140))
                into[at + 2 * i + 1] = ptx.prmt(low, top, np.uint32(0x7362))
            else:
                for pair in range(2):
                    into[at + 2 * i + pair] = _byte_halves(top, pair)

    return halves


def _nibble_halves(row: Format) -> Function:
    """8 lanes of 4 bits as four pairs of float16, by their top bytes."""
    return _make_nibbles(_half_values(row))


def _nibble_shorts(row: Format) -> Function:
    """8 lanes of 4 bits as four pairs of bfloat16, by both bytes."""
    values = (np.float32(float(row.exact(magnitude))).view(np.uint32) for magnitude in range(8))
    return _make_nibbles(tuple(int(bits) >> 16 for bits in values))


@cache
def _nibble_group(row: Format) -> Function:
    """group(words, first, into) of 8 lanes of 4 bits."""
    halves = _nibble_halves(row)

    @device
    def group(words, first, into):
        pairs = cuda.local.array(4, np.uint32)
        halves(words, first, pairs, 0)
        for i in range(4):
            into[2 * i] = ptx.low_half(pairs[i])
            into[2 * i + 1] = ptx.high_half(pairs[i])

    return group


class Pairs(NamedTuple):
    """halves(words, first, into, at): all lanes of the least whole words, two in a word, times 2**-factor."""

    halves: Function
    factor: int = 0


@cache
def make_pairs(fmt: str | Format, finite: bool = False, native: bool = False) -> Pairs | None:
    """The decoder of a row's lanes to pairs of float16, for tensor cores; None where no short one is known.

    Code 0 is +0 in all these rows.  finite: the caller knows that there is no code of Inf or NaN.  native: the
    target widens e4m3 itself.
    """
    row = get_format(fmt)
    if row.bits != row.storage_bits:
        return None
    if native and widens(row):
        return Pairs(_all_halves(_native_halves, 2))
    if is_half(row):
        return Pairs(_all_halves(_halves(row), 16 // row.bits))
    if not _is_narrow(row, finite):
        return None
    if row.bits == 8:
        return Pairs(_all_halves(_halves(row), 2), 15 - row.bias)
    return Pairs(_nibble_halves(row)) if row.bits == 4 and _selects(row) else None


def _is_narrow(row: Format, finite: bool) -> bool:
    """Whether a row of numbers alone has fewer exponents than float16."""
    plain = finite or not (row.has_nan or row.has_inf)
    return plain and row.kind == "float" and row.signed and row.has_zero and row.exponent_bits < 5


@cache
def make_short_pairs(fmt: str | Format, finite: bool = False) -> Pairs | None:
    """`make_pairs` to pairs of bfloat16: of bf16 itself, and of rows of 8 or 4 bits without Inf and NaN."""
    row = get_format(fmt)
    if row.name == "bf16":
        return Pairs(_all_halves(_word_halves, 1))
    plain = finite or not (row.has_nan or row.has_inf)
    if row.bits == row.storage_bits == 4 and _is_narrow(row, finite):
        return Pairs(_nibble_shorts(row))
    if plain and _is_top(row) and row.signed and row.bits == row.storage_bits == 8 and row.exponent_bits < 8:
        return Pairs(_all_halves(_made_shorts(row), 2))
    return None


def _made_shorts(row: Format) -> Function:
    """Two lanes of 8 bits as bfloat16: the shift and mask of `_made_halves`, and the factor, which is exact."""
    shift = 8 - row.exponent_bits
    mask = (row.magnitude_mask << 8 >> shift) * 0x00010001
    signs = SIGN | SIGN >> 16
    power = (127 + 127 - row.bias << 7) * 0x00010001  # 2**(127 - bias), twice

    @device
    def shorts(word, pair):
        both = _byte_halves(word, pair)
        size = np.uint32(np.uint32(both >> np.uint32(shift)) & np.uint32(mask))
        return ptx.mul_bf16(np.uint32(size | np.uint32(both & np.uint32(signs))), np.uint32(power))

    return shorts


def _all_halves(one: Function, pairs: int) -> Function:
    """halves(words, first, into, at) of a word, of one(word, pair)."""

    @device
    def halves(words, first, into, at):
        for i in range(pairs):
            into[at + i] = one(words[first], i)

    return halves


@cache
def make_nan_flag(row: Format) -> Function | None:
    """flag(word): not 0 where a lane of the word is NaN; None where no short test for it is known.

    With lanes of 8 bits: a magnitude of all ones carries into the sign bit when 1 is added, and a
    lane is -0 where subtracting 1 from what differs borrows.
    """
    width = row.storage_bits
    if not row.has_nan or row.has_inf or 32 % width or row.storage_shift or width == 32:
        return None
    every = sum(1 << start for start in range(0, 32, width))
    magnitudes, above, tops = every * row.magnitude_mask, every * (row.magnitude_mask + 1), every << (width - 1)

    @device
    def all_ones(word):
        return np.uint32(np.uint32(np.uint32(word & np.uint32(magnitudes)) + np.uint32(every)) & np.uint32(above))

    @device
    def negative_zero(word):
        other = np.uint32(word ^ np.uint32(tops))
        return np.uint32(np.uint32(np.uint32(other - np.uint32(every)) & ~other) & np.uint32(tops))

    if row.nan == "negative_zero":
        return negative_zero
    return all_ones if row.magnitude_mask >> (width - 1) == 0 else None


# --- the value --------------------------------------------------------------------------------


@cache
def make_scale(row: Format, plain: bool) -> Function:
    """value(code): the float32 of the scale of a block.

    plain: the caller knows that none is NaN, nor below the normal numbers of float32.
    """
    if row.kind == "float" and (row.exponent_bits, row.mantissa_bits, row.bias, row.has_zero) == (8, 0, 127, False):
        return _exponent_plain if plain else _exponent
    value, place = make_value(row, plain), 32 - row.bits

    @device
    def scale(code):
        return value(np.uint32(code << np.uint32(place)))

    return scale


@device
def _exponent_plain(code):
    return ptx.as_float(np.uint32(code << np.uint32(23)))


@device
def _exponent(code):
    """e8m0: 0 is 2**-127, which is half of the least normal number; 255 is NaN."""
    bits = np.uint32(code << np.uint32(23))
    if code == np.uint32(0):
        bits = np.uint32(0x00400000)
    if code == np.uint32(255):
        bits = np.uint32(CANONICAL_NAN)
    return ptx.as_float(bits)


def _is_top(row: Format) -> bool:
    """Whether a code is the top of a float32 with another bias."""
    return row.kind == "float" and row.has_zero and row.exponent_bits <= 8 and row.mantissa_bits <= 23 and (
        row.exponent_bits < 8 or row.nan == "ieee"
    )  # fmt: skip


def _factor(row: Format) -> int:
    return 127 - row.bias if _is_top(row) else 0


@cache
def make_value(row: Format, finite: bool = False, deferred: bool = False) -> Function:
    """value(top): the float32 of a code at the top of 32 bits."""
    if row.kind == "integer":
        return _integer_value(row)
    if not _is_top(row):
        return _table_value(row)
    # 1. The shift and the mask.
    shift = 8 - row.exponent_bits
    magnitude = ((1 << (row.bits - row.signed)) - 1) << (31 - shift - (row.bits - row.signed))
    mask = magnitude | (SIGN if row.signed else 0)
    whole = row.signed and row.bits == 32
    signed = row.signed
    # 2. The power of two, in two steps where one is no float32.
    factor = 0 if deferred else _factor(row)
    first = max(min(factor, 126), -126)
    step, rest = np.float32(2.0**first), np.float32(2.0 ** (factor - first))
    steps = (first != 0) + (factor != first)
    # 3. Inf and NaN, as they stand after the mask.
    special = not finite and row.has_inf | row.has_nan
    place = row.mantissa_bits - 23
    infinity = (row.inf_magnitude or 0) << -place
    has_inf, ieee, all_ones = row.has_inf, row.nan == "ieee", row.nan == "all_ones"
    ones = row.magnitude_mask << -place

    @device
    def bits_of(top):
        if whole:
            return top
        moved = ptx.shift_signed(top, np.uint32(shift)) if signed else np.uint32(top >> np.uint32(shift + 1))
        return np.uint32(moved & np.uint32(mask))

    @device
    def scaled(bits):
        x = ptx.as_float(bits)
        if steps > 0:
            x = ptx.mul(x, step)
        if steps > 1:
            x = ptx.mul(x, rest)
        return x

    @device
    def plain(top):
        return scaled(bits_of(top))

    @device
    def exact(top):
        bits = bits_of(top)
        size = np.uint32(bits & np.uint32(0x7FFFFFFF))
        if ieee:
            is_nan = size > np.uint32(infinity)
        elif all_ones:
            is_nan = size == np.uint32(ones)
        else:
            is_nan = bits == np.uint32(SIGN)
        x = scaled(bits)
        if has_inf and size == np.uint32(infinity):
            x = ptx.as_float(np.uint32(np.uint32(bits & np.uint32(SIGN)) | np.uint32(0x7F800000)))
        return ptx.as_float(np.uint32(CANONICAL_NAN)) if is_nan else x

    return exact if special else plain


def row_table(row: Format) -> Any:
    """The float32 of every code, of a row that is looked up; None of others."""
    if row.kind == "integer" or _is_top(row) or row.bits > 8:
        return None
    return np.ascontiguousarray(value_table(row), np.float32)


def _integer_value(row: Format) -> Function:
    down, signed = 32 - row.bits, row.signed
    unit = np.float32(2.0**-row.bias)
    scaled = row.bias != 0

    @device
    def value(top):
        if signed:
            x = ptx.from_signed(ptx.shift_signed(top, np.uint32(down)))
        else:
            x = ptx.from_unsigned(np.uint32(top >> np.uint32(down)))
        return ptx.mul(x, unit) if scaled else x

    return value


def _table_value(row: Format) -> Function:
    if row.bits > 8:
        raise ValueError(f"fmt: no kernel decodes {row.name!r}: with such an exponent it needs at most 8 bits")
    table, down = row_table(row), 32 - row.bits

    @device
    def value(top):
        return cuda.const.array_like(table)[np.uint32(top >> np.uint32(down))]

    return value
