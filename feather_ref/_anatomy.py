"""The anatomy of a code: its fields, its exact value, the arithmetic between them, all as text too.

Bit layout: see `formats`.  A code is shown as its fields, bits over names, high bits first::

    0     1111      110
    sign  exponent  mantissa
    7     6..3      2..0

Every figure is exact, from fractions; one that is shortened has a ~ before it.

Source: the rows of `formats`; C11, 7.21.6.1 (%a) for the hexadecimal form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from typing import Literal, NamedTuple

from feather_ref.formats import Format

BRIEF, SHORT, LONG = 11, 17, 120  # digits of a number in a narrow table, in passing, and spelled out


class Number(NamedTuple):
    """An exact number: Inf and NaN have a sign too, and magnitude 0."""

    kind: Literal["finite", "inf", "nan"]
    negative: bool
    magnitude: Fraction = Fraction(0)

    @property
    def signed(self) -> Fraction:
        """The finite value with its sign (-0 becomes 0)."""
        return -self.magnitude if self.negative else self.magnitude

    def __str__(self) -> str:
        return self.text()

    def text(self, digits: int = SHORT) -> str:
        """The number as `decimal_text` writes it, -0, Inf, -Inf or NaN."""
        if self.kind == "nan":
            return "NaN"
        if self.kind == "inf":
            return "-Inf" if self.negative else "Inf"
        return decimal_text(self.signed, digits) if self.magnitude else "-0" if self.negative else "0"


class Field(NamedTuple):
    """Bits that belong together: a name, the bits from high to low, the place of the lowest, a role."""

    name: str
    bits: str
    low: int
    role: str

    @property
    def at(self) -> str:
        """The places of its bits: "6..3"."""
        return span(self.low, len(self.bits))


# --- numbers as text --------------------------------------------------------------------------


def decimal_text(x: Fraction, digits: int = SHORT) -> str:
    """x as a decimal, exact where that takes no more digits, else rounded and marked with ~.

    >>> decimal_text(Fraction(3, 8)), decimal_text(Fraction(-1, 3), 4), decimal_text(Fraction(1, 2**20))
    ('0.375', '~-0.3333', '9.5367431640625e-7')
    """
    context = Context(prec=digits)
    result = context.divide(Decimal(x.numerator), Decimal(x.denominator))
    inexact = context.flags[Inexact]
    if inexact or result.adjusted() >= digits:  # else the zeros of a whole number stay
        result = result.normalize(context)
    return "~" * inexact + str(result).lower()


def fraction_text(x: Fraction) -> str:
    """A dyadic x >= 0 as a fraction; beyond 32 bits with a power of two.

    >>> fraction_text(Fraction(3, 8)), fraction_text(Fraction(3, 2**40)), fraction_text(Fraction(3 * 2**40))
    ('3/8', '3/2^40', '3 * 2^40')
    """
    n, d = x.numerator, x.denominator
    if max(n, d) < 1 << 32:
        return str(x)
    if d > 1:
        return f"{n}/2^{d.bit_length() - 1}"
    zeros = (n & -n).bit_length() - 1
    power = f"2^{zeros}"
    return str(n) if zeros == 0 else power if n >> zeros == 1 else f"{n >> zeros} * {power}"


def hex_text(x: Fraction) -> str:
    """A dyadic x >= 0 as a hexadecimal float of C, without trailing zeros.

    >>> hex_text(Fraction(448)), hex_text(Fraction(1, 512)), hex_text(Fraction(0))
    ('0x1.cp+8', '0x1p-9', '0x0p+0')
    """
    if x == 0:
        return "0x0p+0"
    places = x.numerator.bit_length() - 1
    digits = (places + 3) // 4
    tail = f"{(x.numerator << (4 * digits - places)) - (1 << (4 * digits)):0{digits}x}".rstrip("0")
    return f"0x1{'.' if tail else ''}{tail}p{places - (x.denominator.bit_length() - 1):+d}"


def hex_code(code: int, row: Format) -> str:
    """A code as upper-case hex with all its digits.

    >>> from feather_ref.formats import get_format
    >>> hex_code(0xA, get_format("e3m2"))
    '0A'
    """
    return f"{code:0{(row.bits + 3) // 4}X}"


# --- a code: fields, value, arithmetic --------------------------------------------------------


def fields_of(row: Format, code: int | None = None) -> tuple[Field, ...]:
    """The fields of a code from high to low; without a code, the letter of each field for its bits.

    >>> from feather_ref.formats import get_format
    >>> [(field.name, field.bits, field.at) for field in fields_of(get_format("e4m3"), 0x7E)]
    [('sign', '0', '7'), ('exponent', '1111', '6..3'), ('mantissa', '110', '2..0')]
    """
    widths = {
        "sign": int(row.sign_mask > 0),
        "exponent": row.exponent_bits,
        "mantissa": row.mantissa_bits,
        "integer": row.bits - row.signed if row.kind == "integer" else 0,
        "index": row.bits if row.kind == "table" else 0,
    }
    letters = "".join(("x" if name == "index" else name[0]) * width for name, width in widths.items())
    text = letters if code is None else f"{code:0{row.bits}b}"
    fields, low = [], row.bits
    for name, width in widths.items():
        if width:
            low -= width
            fields.append(Field(name, text[row.bits - low - width : row.bits - low], low, name))
    return tuple(fields)


def span(low: int, bits: int) -> str:
    """The places of bits, from high to low.

    >>> span(3, 4), span(7, 1)
    ('6..3', '7')
    """
    return f"{low + bits - 1}..{low}" if bits > 1 else str(low)


def spaced(fields: Sequence[Field]) -> str:
    """The bits of fields with a blank between them."""
    return " ".join(field.bits for field in fields)


def magnitude_of(row: Format, code: int) -> int:
    """A code without its sign; of a negative integer, its distance from zero."""
    if row.kind == "integer" and code & row.sign_mask:
        return (1 << row.bits) - code
    return code & row.magnitude_mask


def with_sign(row: Format, magnitude: int, negative: bool) -> int:
    """The inverse of `magnitude_of`; a zero loses its sign where NaN has the code of -0."""
    if row.kind == "integer":
        return (-magnitude if negative else magnitude) & row.code_mask
    no_sign = magnitude == 0 and row.nan == "negative_zero"
    return magnitude | (row.sign_mask if negative and not no_sign else 0)


def number_of(code: int, row: Format) -> Number:
    """The exact value of a code.

    >>> from feather_ref.formats import get_format
    >>> number_of(0xFE, get_format("e4m3")).signed, number_of(0xFF, get_format("e4m3")).kind
    (Fraction(-448, 1), 'nan')
    """
    if row.kind == "table":
        return Number("finite", math.copysign(1, row.values[code]) < 0, row.exact(code))
    negative = bool(code & row.sign_mask)
    if row.is_nan(code):
        return Number("nan", negative and row.has_signed_nan)
    if row.is_inf(code):
        return Number("inf", negative)
    return Number("finite", negative, row.exact(magnitude_of(row, code)))


def arithmetic(row: Format, code: int) -> str:
    """How the value comes from the fields."""
    value = number_of(code, row)
    if value.kind != "finite":
        return f"{value}: {_special_reason(row, value.kind)}"
    if row.kind == "table":
        return f"values[{code}] = {value}"
    if row.kind == "integer":
        return f"{_integer_formula(row, code)} = {value}" if row.signed or row.bias else str(value)
    exponent, mantissa = divmod(code & row.magnitude_mask, 1 << row.mantissa_bits)
    sign = str(int(value.negative))
    return f"{_float_formula(row, sign, str(exponent), str(mantissa), exponent == 0)} = {value}"


def _float_formula(row: Format, sign: str, exponent: str, mantissa: str, lowest: bool) -> str:
    """The product of the fields; lowest: the exponent field is 0, where there is no hidden bit."""
    hidden = 0 if lowest and row.has_zero else 1
    power = f"2^({exponent if hidden or not row.has_zero else '1'}{-row.bias:+d})"
    factors = [f"(-1)^{sign}"] if row.signed else []
    factors.append(power)
    if row.mantissa_bits:
        factors.append(f"({hidden} + {mantissa}/{1 << row.mantissa_bits})")
    elif not hidden:
        factors.append("0")
    return " * ".join(factors)


def _integer_formula(row: Format, code: int) -> str:
    text = str(code)
    if row.signed:
        text = f"{code >> (row.bits - 1)} * -{row.sign_mask} + {code & row.magnitude_mask}"
    if row.bias:
        text = f"({text}) * 2^{-row.bias}"
    return text


def _special_reason(row: Format, kind: str) -> str:
    """Why a code is Inf or NaN."""
    coding = row.inf if kind == "inf" else row.nan
    return {
        "ieee": f"exponent all ones, mantissa {'' if kind == 'inf' else 'not '}0",
        "top": "the greatest magnitude" + (" but NaN" if row.nan == "all_ones" else ""),
        "all_ones": "exponent and mantissa all ones" if row.mantissa_bits else "exponent all ones",
        "negative_zero": "the code where -0 would be",
    }[coding]


def ulp_of(row: Format, magnitude: int) -> Fraction:
    """The distance to the next greater magnitude."""
    return row.exact(magnitude + 1) - row.exact(magnitude)


def formulas(row: Format) -> list[tuple[str, str]]:
    """The arithmetic, with letters for the fields."""
    if row.kind == "table":
        return [("value", "values[x]")]
    if row.kind == "integer":
        text = f"s * -{row.sign_mask} + i" if row.signed else "i"
        return [("value", f"({text}) * 2^{-row.bias}" if row.bias else text)]
    facts = [("value", _float_formula(row, "s", "e", "m", False))]
    if row.has_zero:
        facts.append(("where e = 0", _float_formula(row, "s", "e", "m", True)))
    return facts
