"""Element codes of a chunk of blocks: x / scale, exactly divided and rounded once.

1. The scale is a power of two.  Division is a subtraction of exponents.  For float32 numbers the
   top bits of x, with "something lies below" OR-ed into the lowest (see `_fast`), and the power
   decide: a table for each power, made by running the definition when the power first comes up.
2. Any other scale.  x / s differs from a boundary m between two codes by more than m * 2**-47,
   unless it is m: `BlockFormat` sees to it that m * s has at most 47 bits, and so has x.  So the
   float64 quotient lies on the same side of m, and rounding it once more is rounding once.
   float64 numbers have 53 bits; where their quotient comes close to a boundary, fractions decide.
3. Stochastic rounding.  With its operand fixed it turns at one place between two codes, which has
   more bits than m: fractions decide there as well.

Source: Boldo and Melquiond, 2008 (round to odd); Figueroa, 1995 (when double rounding is harmless).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np

from feather_ref._bits import I64
from feather_ref._blockparts import FP32, Blocks, Random, Values
from feather_ref._parts import FP64, merge, split
from feather_ref._sweep import Array
from feather_ref.codec import code_dtype, encode
from feather_ref.policy import Policies, Policy

_FAR = 767  # float64 numbers beyond 2**+-767 round as that one does: a scale is a float32, an element narrower
_NEAR = 2.0**-48  # more than the relative error of two roundings in float64


# --- powers of two ----------------------------------------------------------------------------


class _PowerTable:
    """For one policy: a row for each power of two, with the codes of the top bits of float32 / 2**power.

    A row is made when its power first comes up.  From `least` on, what float32's subnormals become
    does not depend on more bits than the index has.
    """

    POWERS = range(-127, 128)

    def __init__(self, policy: Policy) -> None:
        fmt = policy.fmt
        precision = fmt.mantissa_bits + 1 if fmt.kind == "float" else fmt.bits - fmt.signed
        kept = precision + 1  # with the hidden bit: the midpoint's; and below it the sticky one
        self.policy = policy
        self.index = FP32.bits - FP32.mantissa_bits + kept
        self.least = max(FP32.emin - fmt.quantum + 2 - kept, self.POWERS.start)
        self.table = np.empty((len(self.POWERS), 1 << self.index), code_dtype(fmt))
        self.made = np.zeros(len(self.POWERS), np.bool_)

    def codes(self, bits: Array, power: I64) -> Array:
        """The codes of (m, k) float32 bits, each block divided by its power of two."""
        rows = np.maximum(power, self.least) - self.POWERS.start
        if not self.made[rows].all():
            for row in np.unique(rows[~self.made[rows]]):
                self._make(int(row))
        shift = FP32.bits - self.index
        below = np.uint32((1 << shift) - 1)
        top = bits & below
        top += below  # carries into the lowest index bit where anything lies below it
        top |= bits
        top >>= np.uint32(shift)
        flat = top.reshape(-1)
        flat += np.repeat((rows << self.index).astype(np.uint32), bits.shape[1])  # faster than short broadcast rows
        return np.take(self.table.reshape(-1), top.view(np.int32), mode="clip")

    def _make(self, row: int) -> None:
        tops = np.arange(1 << self.index, dtype=np.uint64) << np.uint64(FP32.bits - self.index)
        power = np.array([self.POWERS[row]])
        self.table[row] = _defined_codes(tops[None], power, self.policy)[0]
        self.made[row] = True


@lru_cache(maxsize=16)  # at most 4 MiB each for FP8, 32 for mxint8, where all powers come up
def _power_table(policy: Policy) -> _PowerTable | None:
    """The table for a policy, or None where it would be too wide."""
    fmt = policy.fmt
    narrow = fmt.kind != "table" and fmt.bits <= 8 and fmt.mantissa_bits <= 6
    return _PowerTable(policy) if narrow else None


def power_codes(blocks: Blocks, power: I64, policy: Policy) -> Array:
    """The codes of x / 2**power; power: (m,), one a block, -149 .. 127."""
    if blocks.row is FP64:
        return _shifted_codes(blocks, power, policy)
    if blocks.random is not None:
        return _defined_codes(blocks.bits, power, policy, blocks.random)
    table = _power_table(policy)
    if table is None:
        return _defined_codes(blocks.bits, power, policy)
    codes = table.codes(blocks.bits, power)
    low = power < table.least
    if low.any():
        low &= ~blocks.amax.zero  # zeros, Inf and NaN: any power does
        codes[low] = _defined_codes(blocks.bits[low], power[low], policy)
    return codes


def _defined_codes(bits: Array, power: I64, policy: Policy, random: Random | None = None) -> Array:
    """The definition: exponents of float32 parts, less the power."""
    parts = split(bits.astype(np.uint64), FP32)
    operand = (random.bits.astype(np.uint64), random.n_bits) if random else ()
    return merge(parts._replace(exponent=parts.exponent - power[:, None]), policy, *operand).astype(
        code_dtype(policy.fmt)
    )


def _shifted_codes(blocks: Blocks, power: I64, policy: Policy) -> Array:
    """The same for float64 bits."""
    return encode_by(_near(blocks.bits, power[:, None]), policy, blocks.random)


def _near(bits: Array, power: I64) -> Values:
    """float64 bits / 2**power, power within +-1100: exact, but for far numbers, which are brought near."""
    sign = bits & np.uint64(FP64.sign_mask)
    magnitude = bits ^ sign
    parts = split(magnitude, FP64)
    finite = (magnitude != 0) & (magnitude <= np.uint64(FP64.max_magnitude))
    # the mantissa below a clamped exponent field; a clamped number keeps some mantissa, which is nothing to it
    field = np.clip(parts.exponent - power, -_FAR, _FAR) + FP64.bias
    mantissa = (parts.significand >> np.uint64(11)) & np.uint64(FP64.mantissa_mask)
    moved = (field.astype(np.uint64) << np.uint64(FP64.mantissa_bits)) | mantissa
    return (np.where(finite, moved, magnitude) | sign).view(np.float64)


def near_values(blocks: Blocks) -> Values:
    """The numbers as float64, those of float64 that are too far for any scale brought near."""
    return _near(blocks.bits, np.zeros((1, 1), np.int64)) if blocks.row is FP64 else blocks.values


def encode_by(x: Array, policy: Policy, random: Random | None = None) -> Array:
    """`encode` with a policy that is there already; random: for a stochastic one."""
    names = ("rounding", "overflow", "nan", "negative", "subnormals")
    policies = cast(Policies, {name: getattr(policy, name) for name in names})
    bits, n = random or (None, None)
    return encode(x, policy.fmt, random_bits=bits, n_bits=n, **policies)


# --- any scale --------------------------------------------------------------------------------


class Divisor(NamedTuple):
    """What a block is divided by: unit * value / factor, exactly.  value: (m,) float64; unit > 0."""

    value: Values
    factor: float = 1.0
    unit: float = 1.0


def quotients(blocks: Blocks, by: Divisor) -> Values:
    """x / divisor in float64: exactly divided and rounded once for float32 numbers.

    A value of 0 makes Inf of all but zeros, which stay as they are.  float64 numbers that are too
    far away for any element are brought nearer, and their quotients are a little off.
    """
    x, unit = blocks.values, by.unit
    if blocks.row is FP64:
        unit, power = np.frexp(by.unit)
        x = _near(blocks.bits, np.asarray(power, np.int64))
    with np.errstate(all="ignore"):
        quotient = (x * by.factor if by.factor != 1 else x) / (by.value * unit)[:, None]
    nothing = by.value == 0
    if nothing.any():
        quotient[nothing] = np.where(x[nothing] == 0, x[nothing], quotient[nothing])
    return quotient


def quotient_codes(blocks: Blocks, by: Divisor, policy: Policy) -> Array:
    """The codes of x / divisor."""
    quotient = quotients(blocks, by)
    if blocks.row is FP64 or blocks.random is not None:
        _decide(quotient, blocks, by, policy)
    if blocks.random is not None:
        return encode_by(quotient, policy, blocks.random)
    if policy.fmt.kind == "integer" and abs(policy.fmt.bias) <= 64:  # float32 rounded to odd: there is a table
        return encode_by(encode(quotient, "fp32", rounding="to_odd", nan="preserve_sign").view(np.float32), policy)
    return encode_by(quotient, policy)


def _decide(quotient: Values, blocks: Blocks, by: Divisor, policy: Policy) -> None:
    """Where a rounded quotient lies too near a boundary, replace it by the exact one rounded to odd."""
    x = blocks.values
    with np.errstate(all="ignore"):
        inner, outer = (encode_by(quotient * (1 + e), policy, blocks.random) for e in (-_NEAR, _NEAR))
    for i, j in zip(*np.nonzero((inner != outer) & np.isfinite(quotient)), strict=True):
        divisor = Fraction(by.unit) * Fraction(float(by.value[i]))
        quotient[i, j] = _to_odd(Fraction(float(x[i, j])) * Fraction(by.factor) / divisor)


def _to_odd(exact: Fraction) -> float:
    """A fraction within the normal range of float64, rounded to odd."""
    near = float(exact)
    if Fraction(near) == exact:
        return near
    inward = int(np.float64(near).view(np.uint64)) - (abs(Fraction(near)) > abs(exact))
    return float(np.uint64(inward | 1).view(np.float64))
