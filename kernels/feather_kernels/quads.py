"""Four float32 at once to four lanes, by few instructions; what needs more is only noticed.

A code is made at the top of 32 bits, below its sign, and lanes are put together from there.  The
short ways, a = |x| cut off at the number that the code for overflow would have::

    float     m = the power of two of a, at least the least normal
              t = a + m * 2**(23 - mantissa_bits)     rounds at the quantum of a code
              y = (t - m * 2**(23 - mantissa_bits)) * 2**(bias - 127)
              y is a float32 whose lower exponent bits and mantissa are the code
    bf16      with the exponents of float32: add half a unit less one, and the unit's own bit
    fp16      the hardware's own conversion
    integer   add 1.5 * 2**23: the low bits are the code

All are exact but for the one addition, which rounds to nearest even.  The two multiplications
and additions of `float` are fma.  NaN, and what a policy refuses, is in doubt: who asks for these
four converts them one by one, as `encoders` does.  So does a row or a policy without a short way.

Source: IEEE 754-2019 4.3.1, 5.3.1; the rows and policies of `feather_ref`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, device
from feather_kernels.decoders import SIGN, is_half, make_decoder, make_nan_flag, make_top, make_value
from feather_kernels.encoders import INFINITY, REFUSED, Special, make_encoder
from feather_ref import Format
from feather_ref.policy import Policy

Function = Callable[..., Any]


class Quad(NamedTuple):
    """lanes(a, b, c, d, into): the words of four lanes, for bits of float32; doubt(a, b, c, d): not 0 where wrong.

    Lanes of less than 32 bits altogether stand at the bottom of into[0].  short: whether few instructions do.
    """

    lanes: Function
    doubt: Function
    short: bool


@cache
def make_quad(policy: Policy, width: int, shift: int) -> Quad:
    """Four float32 to lanes of `width` bits with the code `shift` bits above their bottom.

    Raises ValueError as `make_encoder`.
    """
    row = policy.fmt
    special = Special.of(policy)
    refuses_negative = special.negative == REFUSED
    if row.name == "fp16" and policy.rounding == "nearest_even" and _regular(special, row) == row.max_magnitude + 1:
        return Quad(_halves, _doubt(True, False), True)
    short = _short(policy, special)
    lanes = _by_top(short or _same, row.bits, width, shift)
    if short is None:
        lanes = _one_by_one(_long(policy), lanes)
    nan = short is not None or REFUSED in special.nan
    return Quad(lanes, _doubt(nan, refuses_negative), short is not None)


def _doubt(nan: bool, negative: bool) -> Function:
    """Whether one of four float32 is NaN, or has a sign."""
    as_float = ptx.as_float

    @device
    def doubt(a, b, c, d):
        found = np.uint32(0)
        if nan:
            found = ptx.any_nan(as_float(a), as_float(b), as_float(c), as_float(d))
        if negative:
            found = np.uint32(found | np.uint32(np.uint32(np.uint32(a | b) | np.uint32(c | d)) & np.uint32(SIGN)))
        return found

    return doubt


@device
def _halves(a, b, c, d, into):
    into[0] = ptx.half_pair(ptx.as_float(a), ptx.as_float(b))
    into[1] = ptx.half_pair(ptx.as_float(c), ptx.as_float(d))


# --- a code at the top of 32 bits -------------------------------------------------------------


def _long(policy: Policy) -> Function:
    code_of, up = make_encoder(policy), 32 - policy.fmt.bits

    @device
    def top(bits):
        return np.uint32(code_of(bits) << np.uint32(up))

    return top


def _regular(special: Special, row: Format) -> int | None:
    """The magnitude of every number beyond the greatest one, the sign beside it; None where there is no such."""
    plus, minus = special.finite
    same = special.infinite == special.finite and minus == plus | row.sign_mask
    return plus if same and plus - row.max_magnitude in (0, 1) else None


def _short(policy: Policy, special: Special) -> Function | None:
    row = policy.fmt
    if policy.rounding != "nearest_even" or policy.subnormals != "keep" or not row.signed:
        return None
    if row.kind == "integer":
        both = special.finite == special.infinite == (row.max_magnitude, row.sign_mask)
        return _integer(row) if both and row.bits <= 16 else None
    over = _regular(special, row) if row.kind == "float" and row.has_zero and row.has_signed_zero else None
    if over is None:
        return None
    if (row.exponent_bits, row.bias) == (8, 127):
        return _as_float32(row) if over << 23 - row.mantissa_bits == INFINITY else None
    fits = row.emin >= -126 and 1 <= row.mantissa_bits <= 22 and row.exponent_bits < 8
    highest = (over >> row.mantissa_bits) - row.bias + 23 - row.mantissa_bits
    return _float(row, over) if fits and highest <= 127 and -149 <= row.bias - 127 <= 127 else None


def _float(row: Format, over: int) -> Function:
    up, places = 8 - row.exponent_bits, 23 - row.mantissa_bits
    as_top = Fraction(float(np.uint32(over << places).view(np.float32)))
    cap = np.float32(float(as_top * Fraction(2) ** (127 - row.bias)))
    least, unit, back = np.float32(2.0**row.emin), np.float32(2.0**places), np.float32(2.0 ** (row.bias - 127))

    @device
    def top(bits):
        a = ptx.capped(ptx.as_float(bits), cap)
        m = ptx.as_float(np.uint32(ptx.as_bits(ptx.greater(a, least)) & np.uint32(INFINITY)))
        t = ptx.fma(m, unit, a)
        y = ptx.mul(ptx.fma(m, -unit, t), back)
        return np.uint32(np.uint32(ptx.as_bits(y) << np.uint32(up)) | np.uint32(bits & np.uint32(SIGN)))

    return top


def _as_float32(row: Format) -> Function:
    """A row with the exponents of float32; its carry ends in Inf, and Inf stays."""
    drop = 23 - row.mantissa_bits
    if drop == 0:
        return _same
    half, mask = (1 << drop - 1) - 1, 0xFFFFFFFF << drop & 0xFFFFFFFF

    @device
    def top(bits):
        odd = np.uint32(np.uint32(bits >> np.uint32(drop)) & np.uint32(1))
        return np.uint32(np.uint32(np.uint32(bits + np.uint32(half)) + odd) & np.uint32(mask))

    return top


@device
def _same(bits):
    return bits


def _integer(row: Format) -> Function:
    unit, scaled = np.float32(2.0**row.bias), row.bias != 0
    high, low, magic = np.float32(row.max_magnitude), np.float32(-row.max_magnitude - 1), np.float32(1.5 * 2**23)
    up = 32 - row.bits

    @device
    def top(bits):
        x = ptx.as_float(bits)
        if scaled:
            x = ptx.mul(x, unit)
        t = ptx.add(ptx.greater(ptx.lesser(x, high), low), magic)
        return np.uint32(ptx.as_bits(t) << np.uint32(up))

    return top


# --- lanes of codes ---------------------------------------------------------------------------


def _one_by_one(top: Function, put: Function) -> Function:
    """The lanes of put for the codes of a long encoder, which is in the kernel once: that compiles in half the time."""

    @device
    def lanes(a, b, c, d, into):
        four = cuda.local.array(4, np.uint32)
        four[0], four[1], four[2], four[3] = a, b, c, d
        for i in range(4):
            four[i] = top(four[i])
        put(four[0], four[1], four[2], four[3], into)

    return lanes


def _by_top(top: Function, bits: int, width: int, shift: int) -> Function:
    """lanes(a, b, c, d, into), by the code of each at the top of 32 bits."""
    above, rest = width - shift - bits, 32 - width

    @device
    def lane(x):
        return np.uint32(top(x) >> np.uint32(above)) if above else top(x)

    @device
    def words(a, b, c, d, into):
        into[0], into[1], into[2], into[3] = lane(a), lane(b), lane(c), lane(d)

    @device
    def halves(a, b, c, d, into):
        into[0] = ptx.prmt(lane(a), lane(b), np.uint32(0x7632))
        into[1] = ptx.prmt(lane(c), lane(d), np.uint32(0x7632))

    @device
    def narrow(a, b, c, d, into):
        word = np.uint32(lane(d) >> np.uint32(rest))
        word = ptx.funnel(lane(c), word, np.uint32(rest))
        word = ptx.funnel(lane(b), word, np.uint32(rest))
        into[0] = ptx.funnel(lane(a), word, np.uint32(rest))

    return {32: words, 16: halves}.get(width, narrow)


# --- the other way round ----------------------------------------------------------------------


class Numbers(NamedTuple):
    """four(words, first): the float32 of four lanes; doubt(words, first): not 0 where they are not right."""

    four: Function
    doubt: Function


@cache
def make_numbers(row: Format, width: int, shift: int) -> Numbers:
    """Four lanes of `width` bits, with the code `shift` bits above their bottom, to float32.

    Lanes of less than 32 bits altogether stand at the bottom of one word.  Inf and NaN are in doubt
    where a short test for them is known.
    """
    flag = _special_flag(row, width, shift)
    count = max(width // 8, 1)
    if flag is not None and is_half(row) and width == row.bits:
        return Numbers(_by_group(row, count), _any_word(flag, count))
    value, top = make_value(row, finite=flag is not None), make_top(width, width - shift - row.bits)

    @device
    def four(words, first):
        return (
            value(top(words, first, 0)), value(top(words, first, 1)),
            value(top(words, first, 2)), value(top(words, first, 3)),
        )  # fmt: skip

    return Numbers(four, _never if flag is None else _any_word(flag, count))


@device
def _never(words, first):
    return np.uint32(0)


def _any_word(flag: Function, count: int) -> Function:
    @device
    def doubt(words, first):
        found = flag(words[first])
        for i in range(1, count):
            found = np.uint32(found | flag(words[first + i]))
        return found

    return doubt


def _by_group(row: Format, count: int) -> Function:
    group, each = make_decoder(row, finite=True).group, 4 // count

    @device
    def four(words, first):
        into = cuda.local.array(4, np.float32)
        if each == 4:
            group(words, first, into)
        else:
            two = cuda.local.array(2, np.float32)
            group(words, first, into)
            group(words, first + 1, two)
            into[2], into[3] = two[0], two[1]
        return into[0], into[1], into[2], into[3]

    return four


def _special_flag(row: Format, width: int, shift: int) -> Function | None:
    """flag(word): not 0 where a lane is Inf or NaN and its value would be wrong; None where no short test is known.

    Adding what is missing to the bit above the magnitude carries into it from the first wrong one on.
    """
    if row.kind != "float" or not (row.has_inf or row.has_nan):
        return None
    if row.nan == "negative_zero":
        return make_nan_flag(row) if not row.has_inf and (width, shift) == (row.bits, 0) and width >= 8 else None
    above = row.bits - row.signed  # the place of the bit above the magnitude
    if above + shift >= width or row.nan not in ("ieee", "all_ones"):
        return None
    own_inf = row.has_inf and (is_half(row) or (row.exponent_bits, row.bias) == (8, 127))
    first = row.inf_magnitude + 1 if own_inf and row.inf_magnitude is not None else row.max_magnitude + 1
    starts = [start + shift for start in range(0, min(4 * width, 32), width)]
    magnitudes, missing, bits = (
        sum(one << start for start in starts) for one in (row.magnitude_mask, (1 << above) - first, 1 << above)
    )

    @device
    def flag(word):
        size = np.uint32(word & np.uint32(magnitudes))
        return np.uint32(np.uint32(size + np.uint32(missing)) & np.uint32(bits))

    return flag
