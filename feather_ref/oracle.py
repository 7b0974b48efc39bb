"""The oracle: the slow, exact definition of every conversion, from the format row alone.

A number is an `Exact`: a sign and a Fraction, or Inf, or NaN.  Encoding searches the finite
magnitudes for the two neighbours of |x|, rounds between them, compares with the greatest finite
magnitude, and only then asks the overflow policy.  No float arithmetic and no bit tricks: this
module and the codec share the rows and nothing else.

Bit layout of a float code::

    | sign (if signed) | exponent_bits | mantissa_bits |      the code without sign: magnitude

Source: IEEE 754-2019, 4.3, 6.3 and 7.4; OCP OFP8 1.0 and MX 1.0; IEEE P3109 interim report 4.0.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import numbers
import operator
import struct
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Literal, get_args

from feather_ref.formats import Format, Negative, Overflow, get_format

_STOCHASTIC = ("stochastic_a", "stochastic_b", "stochastic_c")
_NAMES = {
    "rounding": (
        "nearest_even",
        "nearest_away",
        "toward_zero",
        "toward_positive",
        "toward_negative",
        "to_odd",
        *_STOCHASTIC,
    ),
    "overflow": get_args(Overflow),
    "nan": ("canonical", "preserve_sign", "error", "max", "zero"),
    "negative": get_args(Negative),
    "subnormals": ("keep", "flush_input", "flush_output"),
}


@dataclass(frozen=True)
class Exact:
    """An exact number: NaN and Inf have a sign too, and magnitude 0."""

    kind: Literal["finite", "inf", "nan"]
    negative: bool
    magnitude: Fraction

    @property
    def signed(self) -> Fraction:
        """The finite value with its sign (-0 becomes 0)."""
        return -self.magnitude if self.negative else self.magnitude


_NAN = Exact("nan", False, Fraction(0))
_FLOAT64 = Format("float64", 64, exponent_bits=11, mantissa_bits=52, bias=1023, inf="ieee", nan="ieee")


def exact(x: Any) -> Exact:
    """The exact value of a Python or NumPy scalar.  TypeError for what is not a real number.

    >>> exact(-0.375)
    Exact(kind='finite', negative=True, magnitude=Fraction(3, 8))
    >>> exact(float("-inf")).kind, exact(-0.0).negative
    ('inf', True)
    """
    if isinstance(x, Exact):
        return x
    # bits, not arithmetic: a processor that flushes subnormals would see zeros
    if isinstance(x, float):
        return decode(int.from_bytes(struct.pack("<d", x), "little"), _FLOAT64)
    row = _float_row(getattr(getattr(x, "dtype", None), "name", ""))
    if row is not None:
        return decode(int.from_bytes(x.tobytes(), sys.byteorder), row)
    if not hasattr(x, "as_integer_ratio"):  # NumPy integers and bool
        real = isinstance(x, numbers.Real) or not isinstance(x, numbers.Complex)
        if not real or not hasattr(x, "__float__"):
            raise TypeError(f"x must be a real number, got {type(x).__name__}")
        x = operator.index(x) if isinstance(x, numbers.Integral) else float(x)
    try:
        n, d = x.as_integer_ratio()
    except OverflowError:
        return Exact("inf", bool(x < 0), Fraction(0))
    except ValueError:
        return Exact("nan", math.copysign(1, float(x)) < 0, Fraction(0))
    # a zero has its sign in the float alone
    return Exact("finite", math.copysign(1, float(x)) < 0 if n == 0 else n < 0, Fraction(abs(n), d))


@lru_cache(maxsize=64)
def _float_row(dtype: str) -> Format | None:
    """The float format that a dtype of NumPy or ml_dtypes is named after."""
    with contextlib.suppress(ValueError):
        row = get_format(dtype)
        return row if row.kind == "float" else None
    return None


# --- the row ----------------------------------------------------------------------------------


def _value(fmt: Format, magnitude: int) -> Fraction:
    """The value of a magnitude, also beyond the finite ones, as if the exponent continued."""
    if fmt.kind == "integer":
        return magnitude * Fraction(2) ** -fmt.bias
    exponent, mantissa = divmod(magnitude, 1 << fmt.mantissa_bits)
    if exponent == 0 and fmt.has_zero:
        exponent = 1  # zero and subnormals: the exponent of the first binade, no hidden bit
    else:
        mantissa += 1 << fmt.mantissa_bits
    power = exponent - fmt.bias - fmt.mantissa_bits
    return Fraction(mantissa << power) if power >= 0 else Fraction(mantissa, 1 << -power)


@lru_cache(maxsize=256)
def _values(fmt: Format) -> tuple[Fraction, ...]:
    """The values of all finite magnitudes of a small format, and one more."""
    return tuple(_value(fmt, magnitude) for magnitude in range(_greatest(fmt, True) + 2))


def _fields(fmt: Format) -> int:
    """How many magnitudes exponent and mantissa have; the sign bit of a float code."""
    return 1 << (fmt.exponent_bits + fmt.mantissa_bits)


def _inf(fmt: Format) -> int | None:
    """The magnitude of Inf, or None."""
    if fmt.inf == "ieee":  # the top exponent, mantissa 0
        return _fields(fmt) - (1 << fmt.mantissa_bits)
    return _fields(fmt) - 1 - (fmt.nan == "all_ones") if fmt.inf == "top" else None


def _is_nan(fmt: Format, code: int) -> bool:
    """Whether a code is NaN."""
    magnitude = code % _fields(fmt)
    if fmt.nan == "ieee":
        return magnitude > _fields(fmt) - (1 << fmt.mantissa_bits)
    if fmt.nan == "all_ones":
        return magnitude == _fields(fmt) - 1
    return fmt.nan == "negative_zero" and code == _fields(fmt)


def _nan(fmt: Format, negative: bool | None = None) -> int:
    """The canonical NaN, or the one with the sign given, where the format has both."""
    fields = _fields(fmt)
    if fmt.nan == "negative_zero":
        return fields
    quiet = (1 << fmt.mantissa_bits) - (1 << fmt.mantissa_bits >> 1)  # from the top down to the quiet bit
    code = fmt.nan_code if fmt.nan_code is not None else fields - (quiet if fmt.nan == "ieee" else 1)
    return code if negative is None or not fmt.signed else code % fields + fields * negative


def _greatest(fmt: Format, negative: bool) -> int:
    """The greatest finite magnitude; two's complement reaches one further below zero."""
    if fmt.kind == "integer":
        return (1 << (fmt.bits - 1)) - (not negative) if fmt.signed else (1 << fmt.bits) - 1
    inf = _inf(fmt)
    return _fields(fmt) - 1 - (fmt.nan == "all_ones") if inf is None else inf - 1


def _code(fmt: Format, magnitude: int, negative: bool) -> int:
    """Magnitude and sign put together; a zero loses its sign where there is no -0."""
    if not negative or not fmt.signed:
        return magnitude
    if fmt.kind == "integer":
        return -magnitude % (1 << fmt.bits)
    if magnitude == 0 and fmt.nan == "negative_zero":
        return 0
    return magnitude + (1 << (fmt.bits - 1))


def decode(code: int, fmt: str | Format) -> Exact:
    """The exact value of a code; a NaN has a sign where the format has both.

    >>> decode(0x7E, "e4m3").magnitude, decode(0xFF, "e4m3").kind
    (Fraction(448, 1), 'nan')

    Raises ValueError for a code that the format does not have.
    """
    row = get_format(fmt)
    code = operator.index(code)
    if not 0 <= code < 1 << row.bits:
        raise ValueError(f"code {code:#x} is not a code of {row.name}")
    if row.kind == "table":
        return exact(row.values[code])
    half = 1 << (row.bits - 1)
    negative = row.signed and code >= half
    if row.kind == "integer":
        return Exact("finite", negative, _value(row, (1 << row.bits) - code if negative else code))
    if _is_nan(row, code):
        return Exact("nan", negative and row.nan != "negative_zero", Fraction(0))
    magnitude = code - half if negative else code
    if magnitude == _inf(row):
        return Exact("inf", negative, Fraction(0))
    return Exact("finite", negative, _value(row, magnitude))


# --- policies ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rules:
    """The arguments of `encode`, checked, with the row's defaults filled in."""

    rounding: str
    overflow: str
    nan: str | int | tuple[int, int]
    negative: str
    subnormals: str
    source: Format | None
    random: int
    bits: int


@lru_cache(maxsize=4096)
def _rules(
    row: Format, rounding: str, overflow: str | None, nan: str | int | tuple[int, int] | None, **others: Any
) -> _Rules:
    """Check the policies and fill in the defaults."""
    has_nan = row.nan != "none"
    if nan is None:
        nan = "canonical" if has_nan else "error"
    negative = others["negative"]
    if negative is None:  # a row without NaN cannot answer "nan"
        negative = "error" if row.negative == "nan" and not has_nan else row.negative
    random, n_bits = (others["random"], others["n_bits"]) if rounding in _STOCHASTIC else (0, 1)
    if n_bits is None or n_bits < 1:
        raise ValueError(f"n_bits must be at least 1, got {n_bits!r}")
    if random is None or not 0 <= random < 1 << operator.index(n_bits):
        raise ValueError(f"random must be an integer of {n_bits} bits, got {random!r}")
    source = None if others["source"] is None else get_format(others["source"])
    overflow = row.overflow if overflow is None else overflow
    operand = operator.index(random), operator.index(n_bits)  # NumPy integers would wrap
    rules = _Rules(rounding, overflow, nan, negative, others["subnormals"], source, *operand)
    _check(row, rules)
    return rules


def _check(row: Format, rules: _Rules) -> None:
    """Refuse unknown names and what the row cannot follow."""
    for name, names in _NAMES.items():
        value = getattr(rules, name)
        if value not in names and not (name == "nan" and isinstance(value, (int, tuple))):
            raise ValueError(f"{name} must be one of {', '.join(names)}, got {value!r}")
    nan, overflow, has_nan = rules.nan, rules.overflow, row.nan != "none"
    codes = nan if isinstance(nan, tuple) else (nan,) if isinstance(nan, int) else ()
    satnone, table3 = overflow == "p3109_satnone", overflow == "ocp_table3"
    faults = {
        f"nan: {nan!r} is not a code of {row.name}": not all(0 <= code < 1 << row.bits for code in codes),
        f"nan={nan!r}: {row.name} has no NaN": nan in ("canonical", "preserve_sign") and not has_nan,
        f"negative='nan': {row.name} has no NaN": rules.negative == "nan" and not (row.signed or has_nan),
        f"overflow={overflow!r}: {row.name} is no P3109 format": satnone and row.overflow != overflow,
        f"overflow={overflow!r}: {row.name} has neither Inf nor NaN": table3 and _special(row, False) is None,
        f"rounding: table {row.name} takes nearest_even": row.kind == "table" and rules.rounding != "nearest_even",
        "subnormals='flush_input' needs a source": rules.subnormals == "flush_input" and rules.source is None,
    }
    for text, wrong in faults.items():
        if wrong:
            raise ValueError(text)


def _special(fmt: Format, negative: bool) -> int | None:
    """Inf, else NaN with the sign, else None."""
    inf = _inf(fmt)
    if inf is not None:
        return _code(fmt, inf, negative)
    return _nan(fmt, negative) if fmt.nan != "none" else None


def _nan_input(row: Format, rules: _Rules, negative: bool) -> int:
    """The code of a NaN input."""
    if isinstance(rules.nan, int):
        return rules.nan
    if isinstance(rules.nan, tuple):  # for +NaN and for -NaN
        return rules.nan[negative]
    if rules.nan == "error":
        raise ValueError(f"x is NaN, and nan='error' (format {row.name})")
    if rules.nan in ("max", "zero"):  # what +Inf and +0 saturate to
        end = Exact("inf" if rules.nan == "max" else "finite", False, Fraction(0))
        return encode(end, row, overflow="saturate")
    return _nan(row, negative) if rules.nan == "preserve_sign" else _nan(row)


def _leaves_zero(rounding: str, negative: bool) -> bool:
    """Whether a rounding goes away from zero beyond the greatest value."""
    inward = {"toward_positive": negative, "toward_negative": not negative, "toward_zero": True, "to_odd": True}
    return not inward.get(rounding, False)


def _beyond(row: Format, rules: _Rules, negative: bool, infinite: bool) -> int:
    """The code of a result beyond the greatest finite magnitude."""
    greatest = _greatest(row, negative)
    limit = _code(row, greatest, negative)
    special = _special(row, negative)
    inf = None if _inf(row) is None else special
    away = infinite or _leaves_zero(rules.rounding, negative)
    if rules.overflow == "p3109_satnone" and rules.rounding == "to_odd":
        away = infinite or greatest % 2 == 0
    chosen = {
        "saturate": None,
        "propagate": inf if infinite else None,
        "nonsaturating": special if away else None,
        "ocp_table3": special,
        "p3109_satnone": inf if away else None,
    }[rules.overflow]
    return limit if chosen is None else chosen


# --- rounding ---------------------------------------------------------------------------------


def _goes_up(rules: _Rules, lower: int, d: Fraction, negative: bool) -> bool:
    """Whether a magnitude that lies d of the way above `lower` becomes lower + 1; 0 < d < 1."""
    half, scale = Fraction(1, 2), 1 << rules.bits
    match rules.rounding:
        case "nearest_even":
            up = d > half or (d == half and lower % 2 == 1)
        case "nearest_away":
            up = d >= half
        case "toward_zero":
            up = False
        case "toward_positive":
            up = not negative
        case "toward_negative":
            up = negative
        case "to_odd":
            up = lower % 2 == 0
        case "stochastic_a":
            up = math.floor(d * scale) + rules.random >= scale
        case "stochastic_b":
            up = math.floor(d * 2 * scale) + 2 * rules.random + 1 >= 2 * scale
        case _:  # stochastic_c; round() takes ties to even
            up = round(d * scale) + rules.random >= scale
    return up


def _round(row: Format, rules: _Rules, x: Exact) -> int:
    """The magnitude of a finite x with unbounded exponent; anything past the greatest looks alike.

    The search ends one magnitude past the greatest: what reaches that stays beyond in every mode.
    """
    past = _greatest(row, x.negative) + 1
    if row.bits <= 16:
        lower = bisect_right(_values(row), x.magnitude) - 1
    else:
        lower = bisect_right(range(past + 1), x.magnitude, key=partial(_value, row)) - 1
    if lower < 0:
        return 0  # below the least value of a format without zero: there is nothing under it
    below, above = _value(row, lower), _value(row, lower + 1)
    if lower >= past or x.magnitude == below:
        return lower
    return lower + _goes_up(rules, lower, (x.magnitude - below) / (above - below), x.negative)


def _in_table(row: Format, x: Exact) -> int:
    """The nearest table value: ties to the smaller magnitude, then the sign of x, then the first."""
    values = [exact(value) for value in row.values]
    ends = [value.signed for value in values]
    target = x.signed if x.kind == "finite" else min(ends) if x.negative else max(ends)

    def order(code: int) -> tuple[Fraction, Fraction, bool]:
        value = values[code]
        return abs(value.signed - target), value.magnitude, value.negative != x.negative

    return min(range(len(values)), key=order)


def _is_subnormal(row: Format, magnitude: int) -> bool:
    return row.kind == "float" and row.has_zero and 0 < magnitude < 1 << row.mantissa_bits


def _flush_input(x: Exact, source: Format) -> Exact:
    """A zero of the same sign, if x is subnormal in its source."""
    if source.kind == "float" and source.has_zero and x.magnitude < _value(source, 1 << source.mantissa_bits):
        return replace(x, magnitude=Fraction(0))
    return x


def encode(
    x: Any,
    fmt: str | Format,
    *,
    rounding: str = "nearest_even",
    overflow: str | None = None,
    nan: str | int | tuple[int, int] | None = None,
    negative: str | None = None,
    subnormals: str = "keep",
    source: str | Format | None = None,
    random: int | None = None,
    n_bits: int | None = None,
) -> int:
    """The code of one number: an `Exact` or anything that `exact` takes.

    source: the format that x comes from; subnormals="flush_input" needs it.
    random, n_bits: the operand of stochastic rounding, 0 <= random < 2**n_bits.

    >>> hex(encode(464, "e4m3", overflow="nonsaturating")), hex(encode(465, "e4m3", overflow="nonsaturating"))
    ('0x7e', '0x7f')
    >>> hex(encode(3, "e8m0")), hex(encode(3, "e8m0", rounding="nearest_away"))
    ('0x80', '0x81')

    Raises ValueError for an unknown policy, one that the format cannot follow, and where the
    policy says "error".
    """
    row = get_format(fmt)
    others = {"negative": negative, "subnormals": subnormals, "source": source, "random": random, "n_bits": n_bits}
    rules = _rules(row, rounding, overflow, nan, **others)
    return _encode(exact(x), row, rules)


def _encode(x: Exact, row: Format, rules: _Rules) -> int:
    """`encode` with everything checked."""
    # 1. NaN has a policy of its own
    if x.kind == "nan":
        return _nan_input(row, rules, x.negative)
    # 2. the input: flush it, then look at its sign; P3109 looks at the sign after rounding
    if rules.subnormals == "flush_input" and rules.source:
        x = _flush_input(x, rules.source)
    below_zero = not row.signed and x.negative and (x.kind == "inf" or x.magnitude > 0)
    late = rules.overflow == "p3109_satnone" and rules.negative == "nan"
    if below_zero and not late:
        if rules.negative == "error":
            raise ValueError(f"x is negative, and negative='error' (format {row.name})")
        if rules.negative == "nan":
            return _nan(row)
        x = Exact("finite", False, Fraction(0)) if rules.negative == "zero" else replace(x, negative=False)
    if row.kind == "table":
        return _in_table(row, x)
    # 3. round, then compare with the greatest
    infinite = x.kind == "inf"
    magnitude = 0 if infinite else _round(row, rules, x)
    if below_zero and late:
        return _nan(row) if infinite or magnitude else 0
    if infinite or magnitude > _greatest(row, x.negative):
        return _beyond(row, rules, x.negative, infinite)
    # 4. the result
    if rules.subnormals == "flush_output" and _is_subnormal(row, magnitude):
        magnitude = 0
    return _code(row, magnitude, x.negative)


def runs(fmt: str | Format, source: str | Format = "fp32", **policies: Any) -> list[tuple[int, int, int]]:
    """All bit patterns of a float source of up to 32 bits as (lo, hi, code), inclusive, without a gap.

    Between two breaks the source is monotone or constant, so a code that stands at both ends of
    a stretch fills it.

    >>> [f"{lo:02X} {hi:02X} {code:X}" for lo, hi, code in runs("e2m1", "e4m3", nan="max")[:3]]
    ['00 28 0', '29 33 1', '34 3A 2']
    """
    row, src = get_format(fmt), get_format(source)
    if src.kind != "float" or src.bits > 32:
        raise ValueError(f"source must be a float format of up to 32 bits, got {src.name}")

    def code_of(pattern: int) -> int:
        return encode(decode(pattern, src), row, source=src, **policies)

    half, past = _fields(src) if src.signed else 0, _greatest(src, False) + 1
    # zero (or the NaN in its place), finite, Inf, NaN; for both signs
    starts = {base + step for base in (0, half) for step in (0, 1, past, past + 1)}
    breaks = [start for start in sorted(starts) if start < 1 << src.bits] + [1 << src.bits]
    found: list[tuple[int, int, int]] = []
    for start, stop in itertools.pairwise(breaks):
        lo, steps = start, (1, 1)
        while lo < stop:
            code = code_of(lo)
            end = _run_end(code_of, code, range(lo, stop), steps[0])
            steps = steps[1], end - lo  # ties to even make long and short runs in turn
            if found and found[-1][2] == code:
                found[-1] = (found[-1][0], end - 1, code)
            else:
                found.append((lo, end - 1, code))
            lo = end
    return found


def _run_end(code_of: Callable[[int], int], code: int, patterns: range, step: int) -> int:
    """The first pattern after those that give `code`; `step` is the length to try first."""
    guess = patterns[0] + step
    if guess < patterns.stop and code_of(guess - 1) == code != code_of(guess):
        return guess
    return patterns[0] + bisect_left(patterns, True, key=lambda pattern: code_of(pattern) != code)


# --- arithmetic -------------------------------------------------------------------------------


def _sum(a: Exact, b: Exact, rounding: str | None) -> Exact:
    """a + b; an exact zero is +0, or -0 toward_negative, or the common sign of the two."""
    if "nan" in (a.kind, b.kind) or (a.kind == b.kind == "inf" and a.negative != b.negative):
        return _NAN
    if "inf" in (a.kind, b.kind):
        return a if a.kind == "inf" else b
    total = a.signed + b.signed
    zero_sign = a.negative if a.negative == b.negative else rounding == "toward_negative"
    return Exact("finite", total < 0 if total else zero_sign, abs(total))


def _product(a: Exact, b: Exact) -> Exact:
    """a * b; 0 * Inf is NaN."""
    infinite = "inf" in (a.kind, b.kind)
    zero = any(x.kind == "finite" and not x.magnitude for x in (a, b))
    if "nan" in (a.kind, b.kind) or (infinite and zero):
        return _NAN
    return Exact("inf" if infinite else "finite", a.negative != b.negative, a.magnitude * b.magnitude)


def _inverse(x: Exact) -> Exact:
    """1 / x: 0 and Inf change places, with their sign."""
    if x.kind == "inf":
        return replace(x, kind="finite")
    if x.kind == "finite" and not x.magnitude:
        return replace(x, kind="inf")
    return x if x.kind == "nan" else replace(x, magnitude=1 / x.magnitude)


def _operate(operation: Callable[..., Exact], codes: tuple[int, ...], fmt: str | Format, policies: Any) -> int:
    """Decode, (flush,) operate exactly, encode once.  flush_input concerns the operands."""
    row = get_format(fmt)
    operands = [decode(code, row) for code in codes]
    if policies.get("subnormals") == "flush_input":
        operands = [_flush_input(x, row) for x in operands]
        policies = policies | {"subnormals": "keep"}
    return encode(operation(*operands, policies.get("rounding")), row, **policies)


def add(a: int, b: int, fmt: str | Format, **policies: Any) -> int:
    """The code of a + b; a, b are codes, the policies those of `encode`.

    >>> hex(add(0x38, 0x01, "e4m3")), hex(add(0x38, 0xB8, "e4m3", rounding="toward_negative"))
    ('0x38', '0x80')
    """
    return _operate(_sum, (a, b), fmt, policies)


def subtract(a: int, b: int, fmt: str | Format, **policies: Any) -> int:
    """The code of a - b.

    >>> hex(subtract(0x38, 0x40, "e4m3"))
    '0xb8'
    """
    return _operate(lambda x, y, mode: _sum(x, replace(y, negative=not y.negative), mode), (a, b), fmt, policies)


def multiply(a: int, b: int, fmt: str | Format, **policies: Any) -> int:
    """The code of a * b; 0 * Inf is NaN.

    >>> hex(multiply(0x7E, 0xC0, "e4m3")), hex(multiply(0x7C, 0x00, "e5m2"))
    ('0xfe', '0x7f')
    """
    return _operate(lambda x, y, _: _product(x, y), (a, b), fmt, policies)


def divide(a: int, b: int, fmt: str | Format, **policies: Any) -> int:
    """The code of a / b; x / 0 is Inf with the product of the signs, 0 / 0 and Inf / Inf are NaN.

    >>> hex(divide(0x3C, 0x80, "e5m2", overflow="nonsaturating")), hex(divide(0x00, 0x00, "e5m2"))
    ('0xfc', '0x7f')
    """
    return _operate(lambda x, y, _: _product(x, _inverse(y)), (a, b), fmt, policies)


def fma(a: int, b: int, c: int, fmt: str | Format, **policies: Any) -> int:
    """The code of a * b + c with one rounding; 0 * Inf + c is NaN.

    >>> hex(fma(0x39, 0x39, 0x01, "e4m3"))
    '0x3a'
    """
    return _operate(lambda x, y, z, mode: _sum(_product(x, y), z, mode), (a, b, c), fmt, policies)


def compare(a: int, b: int, fmt: str | Format) -> int:
    """0 less, 1 equal (-0 equals +0), 2 greater, 3 unordered.

    >>> [compare(a, 0x80, "e4m3") for a in (0xB8, 0x00, 0x38, 0x7F)]
    [0, 1, 2, 3]
    """
    x, y = decode(a, fmt), decode(b, fmt)
    if "nan" in (x.kind, y.kind):
        return 3
    # an Inf lies one step outside every finite value
    left, right = (((v.kind == "inf") * (-1 if v.negative else 1), v.signed) for v in (x, y))
    return 1 + (left > right) - (left < right)
