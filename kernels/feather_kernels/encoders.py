"""From float32 to codes, rounded once: device functions made from a row and a policy.

A float row to nearest even, with a = |x| as bits::

    a from the least normal up    add half a unit less one, and the unit's own bit; shift; new bias
    below                         add 2**(quantum + 23) as float32: its last place is the quantum

In the other modes a is cut off, and what was cut off decides whether one is added; in the stochastic ones
together with `noise`, of which the low n bits count.
The carry walks into the exponent, so the magnitude is right or past the greatest one, and what
stands for overflow, Inf, NaN and negatives comes from `feather_ref.policy` as constants.

Source: IEEE 754-2019 4.3.1; the rows and policies of `feather_ref`, and its `rounding` for the stochastic modes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, device
from feather_kernels.decoders import SIGN
from feather_ref import Format
from feather_ref.policy import Policy
from feather_ref.rounding import STOCHASTIC

Function = Callable[..., Any]

INFINITY = 0x7F800000
REFUSED = 0xFFFFFFFF  # a code that no row has: the policy makes an error of this input


class Special(NamedTuple):
    """Codes of what is not rounded, for + and for -; finite: of finite values beyond the greatest one."""

    finite: tuple[int, int]
    infinite: tuple[int, int]
    nan: tuple[int, int]
    negative: int | None  # of negatives, where the row has none; None: they are taken as positive

    @classmethod
    def of(cls, policy: Policy) -> Special:
        """The constants of a policy."""
        both = (False, True)
        nan = [policy.nan_code(sign) for sign in both]
        codes = [tuple(policy.overflow_code(sign, inf) for sign in both) for inf in both]
        plus, minus = (REFUSED if code is None else code for code in nan)
        return cls((codes[0][0], codes[0][1]), (codes[1][0], codes[1][1]), (plus, minus), _negative(policy))


def _negative(policy: Policy) -> int | None:
    """What a negative number becomes in an unsigned row."""
    if policy.fmt.signed or policy.negative == "abs":
        return None
    if policy.negative == "zero":
        return 0
    return REFUSED if policy.negative == "error" else policy.nan_made(True)


@cache
def make_encoder(policy: Policy) -> Function:
    """code(bits): the code of a float32, given as its bits; REFUSED for what the policy refuses.

    Raises ValueError for a rounding, a policy or a row that no kernel has.
    """
    if policy.rounding in STOCHASTIC:
        raise ValueError(f"rounding: {policy.rounding} needs random bits")
    noisy_code = make_noisy_encoder(policy, 0)

    @device
    def code(bits):
        return noisy_code(bits, np.uint32(0))

    return code


@cache
def make_noisy_encoder(policy: Policy, n_bits: int) -> Function:
    """code(bits, noise): as `make_encoder`; n_bits: how many bits of noise stochastic rounding looks at."""
    row = policy.fmt
    if policy.subnormals != "keep":
        raise ValueError(f"subnormals: kernels keep them, not {policy.subnormals!r}; use feather_ref.encode")
    plus, minus = (_MAGNITUDES[row.kind](row, _mode(policy.rounding, sign), n_bits) for sign in (False, True))
    return _signs(policy, plus, minus)


def _mode(rounding: str, minus: bool) -> str:
    """How a magnitude is rounded: a directed rounding goes away from zero, or towards it."""
    if rounding in ("toward_positive", "toward_negative"):
        return "away" if minus == (rounding == "toward_negative") else "toward_zero"
    return rounding


@cache
def _make_up(mode: str) -> Function:
    """up(odd, rest, half): 1 where a magnitude that was cut off goes up, else 0; rest: what was cut off."""
    nearest, even, to_odd, away = mode.startswith("nearest"), mode == "nearest_even", mode == "to_odd", mode == "away"

    @device
    def up(odd, rest, half):
        if nearest:
            return np.uint32(1 if rest > half or (rest == half and (odd != np.uint32(0) or not even)) else 0)
        if to_odd:
            return np.uint32(1 if rest != np.uint32(0) and odd == np.uint32(0) else 0)
        return np.uint32(1 if away and rest != np.uint32(0) else 0)

    return up


@cache
def _make_noisy(mode: str, n_bits: int) -> Function:
    """noisy(rest, places, noise): 1 where d = rest / 2**places goes up, else 0; N is `n_bits`, R the noise.

    stochastic_a, c    d * 2**N, cut off or rounded to nearest even, and R reach 2**N
    stochastic_b       d * 2**(N + 1), cut off, and 2 R + 1 reach 2**(N + 1)
    """
    fine, nearest = n_bits + (mode == "stochastic_b"), mode == "stochastic_c"
    twice, mask, one = fine - n_bits, (1 << n_bits) - 1, np.uint64(1)

    @device
    def noisy(rest, places, noise):
        given, low, half = np.uint64(rest), np.uint64(0), one
        if places > fine:
            down = np.uint64(min(places - fine, 63))
            low, half = (
                np.uint64(given & np.uint64(np.uint64(one << down) - one)),
                np.uint64(one << np.uint64(down - one)),
            )
            given = np.uint64(given >> down)
        else:
            given = np.uint64(given << np.uint64(fine - places))
        if nearest and (low > half or (low == half and np.uint64(given & one) != np.uint64(0))):
            given = np.uint64(given + one)
        random = np.uint64(np.uint64(np.uint64(noise & np.uint32(mask)) << np.uint64(twice)) + np.uint64(twice))
        return np.uint32(1 if np.uint64(given + random) >= np.uint64(one << np.uint64(fine)) else 0)

    return noisy


class _Magnitude(NamedTuple):
    """rounded(bits, noise): the code of a finite float32; beyond(bits, result, noise): whether it is too great.

    signed: both see the sign themselves.
    """

    rounded: Function
    beyond: Function
    signed: bool


def _signs(policy: Policy, magnitude: _Magnitude, of_minus: _Magnitude) -> Function:
    """The sign, NaN, Inf and overflow around a rounded magnitude."""
    row, special = policy.fmt, Special.of(policy)
    rounded_plus, beyond_plus, own_sign = magnitude
    rounded_minus, beyond_minus, directed = of_minus.rounded, of_minus.beyond, of_minus is not magnitude
    (over_plus, over_minus), (inf_plus, inf_minus), (nan_plus, nan_minus) = special[:3]
    unsigned = not row.signed
    refuse_negative = unsigned and special.negative is not None
    negative_code = special.negative or 0
    sign_code = row.sign_mask
    keeps_zero = row.has_signed_zero
    after = policy.negative_after_rounding

    @device
    def rounded(size, noise, minus):
        if directed and minus:
            return rounded_minus(size, noise)
        return rounded_plus(size, noise)

    @device
    def beyond(size, result, noise, minus):
        if directed and minus:
            return beyond_minus(size, result, noise)
        return beyond_plus(size, result, noise)

    @device
    def code(bits, noise):
        size = np.uint32(bits & np.uint32(0x7FFFFFFF))
        minus = bits != size
        if size > np.uint32(INFINITY):
            return np.uint32(nan_minus) if minus else np.uint32(nan_plus)
        if refuse_negative and minus and size > np.uint32(0):
            if after and size != np.uint32(INFINITY) and rounded(size, noise, minus) == np.uint32(0):
                return np.uint32(0)
            return np.uint32(negative_code)
        if unsigned:
            minus = False
        if size == np.uint32(INFINITY):
            return np.uint32(inf_minus) if minus else np.uint32(inf_plus)
        result = rounded(bits if own_sign else size, noise, minus)
        if beyond(bits if own_sign else size, result, noise, minus):
            return np.uint32(over_minus) if minus else np.uint32(over_plus)
        if minus and not own_sign:
            if not keeps_zero and result == np.uint32(0):
                return result
            return np.uint32(result | np.uint32(sign_code))
        return result

    return code


@cache
def _float_magnitude(row: Format, mode: str, n_bits: int) -> _Magnitude:
    top = np.uint32(row.max_magnitude)
    if not row.has_zero:
        return _Magnitude(_power_of_two(row, mode, n_bits), _above(top), False)
    if row.mantissa_bits == 23 and row.exponent_bits == 8 and row.bias == 127:
        return _Magnitude(_same, _never, False)
    if row.mantissa_bits > 22 or row.emin < -126 or row.quantum + 23 > 127 or row.exponent_bits > 8:
        raise ValueError(f"fmt: no kernel encodes {row.name!r}, beyond float32's exponents; use feather_ref.encode")
    if mode != "nearest_even":
        return _Magnitude(_cut_off(row, mode, n_bits), _above(top), False)
    least = row.min_normal if row.max_magnitude >> row.mantissa_bits else 2.0**row.emin
    normal = int(np.float32(least).view(np.uint32))
    drop = 23 - row.mantissa_bits
    half, rebias = (1 << drop - 1) - 1, (127 - row.bias) << 23
    magic = np.float32(2.0 ** (row.quantum + 23))
    magic_bits = int(magic.view(np.uint32))

    @device
    def rounded(size, noise):
        if size < np.uint32(normal):
            return np.uint32(ptx.as_bits(ptx.add(ptx.as_float(size), magic)) - np.uint32(magic_bits))
        own = np.uint32(size - np.uint32(rebias & 0xFFFFFFFF))
        odd = np.uint32(np.uint32(own >> np.uint32(drop)) & np.uint32(1))
        return np.uint32(np.uint32(np.uint32(own + np.uint32(half)) + odd) >> np.uint32(drop))

    return _Magnitude(rounded, _above(top), False)


def _cut_off(row: Format, mode: str, n_bits: int) -> Function:
    """The magnitude of a float row by its integer part and what is below: a subnormal is moved further down."""
    drop, normal, up, noisy = 23 - row.mantissa_bits, row.emin + 127, _make_up(mode), _make_noisy(mode, n_bits)
    rebias, stochastic = (127 - row.bias) << 23 & 0xFFFFFFFF, mode in STOCHASTIC

    @device
    def rounded(size, noise):
        field = np.uint32(size >> np.uint32(23))
        whole, places, deep = np.uint32(size - np.uint32(rebias)), np.uint32(drop), np.uint32(drop)
        if field < np.uint32(normal):
            hidden = np.uint32(0x00800000 if field > np.uint32(0) else 0)
            whole = np.uint32(np.uint32(size & np.uint32(0x007FFFFF)) | hidden)
            deep = np.uint32(drop + normal - max(field, np.uint32(1)))
            places = np.uint32(min(deep, np.uint32(25)))  # the hidden bit is below the last place of the code
        floor = np.uint32(whole >> places)
        unit = np.uint32(np.uint32(1) << places)
        rest = np.uint32(whole & np.uint32(unit - np.uint32(1)))
        if stochastic:
            return np.uint32(floor + noisy(rest, deep, noise))
        return np.uint32(floor + up(np.uint32(floor & np.uint32(1)), rest, np.uint32(unit >> np.uint32(1))))

    return rounded


def _above(top: Any) -> Function:
    @device
    def beyond(size, result, noise):
        return result > top

    return beyond


@device
def _never(size, result, noise):
    return False


@device
def _same(size, noise):
    return size


def _power_of_two(row: Format, mode: str, n_bits: int) -> Function:
    """A row without zero and mantissa, as e8m0: the exponent, rounded by the value."""
    if row.mantissa_bits != 0 or row.bias != 127:
        raise ValueError(f"fmt: no kernel encodes {row.name!r}; use feather_ref.encode")
    up, noisy, stochastic = _make_up(mode), _make_noisy(mode, n_bits), mode in STOCHASTIC

    @device
    def rounded(size, noise):
        exponent = np.uint32(size >> np.uint32(23))
        rest, half = np.uint32(size & np.uint32(0x007FFFFF)), np.uint32(0x00400000)
        if exponent == np.uint32(0):  # from 2**-127, which is a subnormal, to 2**-126
            rest, half = np.uint32(max(rest, np.uint32(0x00400000)) - np.uint32(0x00400000)), np.uint32(0x00200000)
        if stochastic:
            return np.uint32(exponent + noisy(rest, 22 if exponent == np.uint32(0) else 23, noise))
        return np.uint32(exponent + up(np.uint32(exponent & np.uint32(1)), rest, half))

    return rounded


@cache
def _integer_magnitude(row: Format, mode: str, n_bits: int) -> _Magnitude:
    """Two's complement: adding 1.5 * 2**23 leaves the rounded integer in the low bits."""
    if row.bits > 16:
        raise ValueError(f"fmt: no kernel encodes {row.name!r}, wider than 16 bits; use feather_ref.encode")
    unit, scaled = np.float32(2.0**row.bias), row.bias != 0
    magic, magic_bits = np.float32(1.5 * 2**23), 0x4B400000
    high = np.float32(row.max_magnitude)
    low = np.float32(-row.max_magnitude - 1 if row.signed else 0)
    half = np.float32(0.5)
    mask, nearest_even, up = row.code_mask, mode == "nearest_even", _make_up(mode)
    noisy, stochastic = _make_noisy(mode, n_bits), mode in STOCHASTIC

    @device
    def units(bits):
        x = ptx.as_float(bits)
        return ptx.mul(x, unit) if scaled else x

    @device
    def step(odd, rest, noise):
        if stochastic:  # rest is 24 bits of a float32, so many places below 1
            field = np.uint32(rest >> np.uint32(23))
            hidden = np.uint32(0x00800000 if field > np.uint32(0) else 0)
            mantissa = np.uint32(np.uint32(rest & np.uint32(0x007FFFFF)) | hidden)
            return noisy(mantissa, 150 - (field if field > np.uint32(0) else 1), noise)
        return up(odd, rest, np.uint32(0x3F000000))

    @device
    def whole(bits, noise):
        x = units(bits)
        size = ptx.as_float(np.uint32(ptx.as_bits(x) & np.uint32(0x7FFFFFFF)))
        floor = ptx.truncate(size)
        odd = np.uint32(ptx.as_bits(ptx.add(floor, magic)) & np.uint32(1))
        more = ptx.from_unsigned(step(odd, ptx.as_bits(ptx.add(size, -floor)), noise))
        size = ptx.as_bits(ptx.add(floor, more))
        return ptx.as_float(np.uint32(size | np.uint32(ptx.as_bits(x) & np.uint32(SIGN))))

    @device
    def rounded(bits, noise):
        x = units(bits) if nearest_even else whole(bits, noise)
        moved = np.uint32(ptx.as_bits(ptx.add(x, magic)) - np.uint32(magic_bits))
        return np.uint32(moved & np.uint32(mask))

    @device
    def beyond(bits, result, noise):
        if not nearest_even:
            x = whole(bits, noise)
            return x > high or x < low
        x = units(bits)  # high is odd and low is even: a tie leaves the range above, and stays below
        return x >= high + half or x < low - half

    return _Magnitude(rounded, beyond, row.signed)


@cache
def _table_magnitude(row: Format, mode: str, n_bits: int) -> _Magnitude:
    """The rank of x among the values: how many of the least float32 that round past a value it reaches.

    Floats are compared by keys that rise with them, -0 before +0.
    """
    codes = sorted(range(row.code_mask + 1), key=lambda code: (row.values[code], math.copysign(1, row.values[code])))
    order = np.array(codes, np.uint32)
    limits = np.array([_limit(row.values[low], row.values[high]) for low, high in itertools.pairwise(codes)], np.uint32)
    count = len(limits)

    @device
    def rounded(bits, noise):
        key = np.uint32(bits ^ np.uint32(ptx.shift_signed(bits, np.uint32(31)) | np.uint32(SIGN)))
        bounds = cuda.const.array_like(limits)
        rank = 0
        for i in range(count):
            if key >= bounds[i]:
                rank = i + 1
        return cuda.const.array_like(order)[rank]

    return _Magnitude(rounded, _never, True)


def _limit(low: float, high: float) -> int:
    """The key of the least float32 that rounds to `high` and not to `low`; a tie goes to the smaller one."""
    if low == high:  # -0 and +0
        return SIGN
    middle = (Fraction(low) + Fraction(high)) / 2
    x = np.float32(float(middle))
    while Fraction(float(x)) > middle:
        x = np.nextafter(x, np.float32(-np.inf))
    while Fraction(float(x)) < middle or (Fraction(float(x)) == middle and abs(high) >= abs(low)):
        x = np.nextafter(x, np.float32(np.inf))
    bits = int(x.view(np.uint32))
    return bits ^ (0xFFFFFFFF if bits & SIGN else SIGN)


_MAGNITUDES: dict[str, Callable[[Format, str, int], _Magnitude]] = {
    "float": _float_magnitude,
    "integer": _integer_magnitude,
    "table": _table_magnitude,
}
