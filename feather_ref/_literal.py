"""Numbers as they are typed: exact fractions, so that a decimal is rounded once, and their codes.

    0.3  -1e-3  464                    decimal, exact
    0x1.8p3  -0x1p-9                   hexadecimal with an exponent, as C's %a prints
    inf  -inf  nan  -nan               in any case, infinity too

Source: C11, 6.4.4.2, for the two notations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Unpack

import numpy as np

from feather_ref._anatomy import Number
from feather_ref._checks import refuse_parts
from feather_ref._parts import ZERO_EXPONENT, Parts, flush_subnormals, merge
from feather_ref._sweep import Array
from feather_ref.codec import code_dtype
from feather_ref.formats import Format, get_format
from feather_ref.policy import Policies, resolve

_DECIMAL = re.compile(r"([+-]?)((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)", re.IGNORECASE | re.ASCII)
_HEX = re.compile(r"([+-]?)0x([0-9a-f]*)\.?([0-9a-f]*)p([+-]?\d+)", re.IGNORECASE | re.ASCII)
_SPECIAL = re.compile(r"([+-]?)(?:(inf)(?:inity)?|nan)", re.IGNORECASE)
_MAX_EXPONENT = 100_000  # beyond every format; a Fraction with more would take for ever


def read_number(text: str) -> Number:
    """The number that a text means.

    >>> read_number("-0.3").signed, read_number("0x1.8p3").signed, read_number("-0").negative
    (Fraction(-3, 10), Fraction(12, 1), True)

    Raises ValueError for what is no number, and for a code.
    """
    if match := _SPECIAL.fullmatch(text):
        return Number("inf" if match[2] else "nan", match[1] == "-")
    if match := _DECIMAL.fullmatch(text):
        _check_exponent(text, match[2].lower().partition("e")[2])
        return Number("finite", match[1] == "-", Fraction(match[2]))
    match = _HEX.fullmatch(text)
    if not match or not (match[2] or match[3]):
        hint = "; a code goes to decode, a hexadecimal number needs its exponent: 0x1.8p3" * text.startswith("0x")
        hint = "; blanks stand between numbers, and a point before a fraction" if "," in text else hint
        raise ValueError(f"{text!r} is not a number{hint}")
    _check_exponent(text, match[4])
    magnitude = Fraction(int(match[2] + match[3], 16)) * Fraction(2) ** (int(match[4]) - 4 * len(match[3]))
    return Number("finite", match[1] == "-", magnitude)


def _check_exponent(text: str, exponent: str) -> None:
    if len(exponent.lstrip("+-0")) > 6 or abs(int(exponent or 0)) > _MAX_EXPONENT:
        raise ValueError(f"{text[:40]!r}: the exponent is beyond {_MAX_EXPONENT}")


def encode_numbers(numbers: Sequence[Number], fmt: str | Format, **policies: Unpack[Policies]) -> Array:
    """The codes of exact numbers: each is rounded once.  Subnormal inputs are those of float64.

    >>> [hex(c) for c in encode_numbers([read_number("1.0625"), read_number("1.06250000000000000001")], "e4m3")]
    ['0x38', '0x39']

    Raises ValueError for a number that a policy refuses.
    """
    row = get_format(fmt)
    dtype, policy = code_dtype(row), resolve(row, **policies)
    parts = _parts(numbers)
    if policy.subnormals == "flush_input":
        parts = flush_subnormals(parts, -1022)
    refuse_parts(parts, policy, "value", 0, (len(numbers),))
    return merge(parts, policy).astype(dtype)


def _parts(numbers: Sequence[Number]) -> Parts:
    tops = [_top(number.magnitude) for number in numbers]
    return Parts(
        np.array([number.negative for number in numbers], np.bool_),
        np.array([exponent for exponent, _ in tops], np.int64),
        np.array([significand for _, significand in tops], np.uint64),
        np.array([number.kind == "inf" for number in numbers], np.bool_),
        np.array([number.kind == "nan" for number in numbers], np.bool_),
    )


def _top(x: Fraction) -> tuple[int, int]:
    """Exponent and 64 bits of significand of x >= 0, the last one sticky."""
    if x == 0:
        return ZERO_EXPONENT, 0
    # 1. the exponent, or one more than it, from the lengths; 2. divide with bits to spare; 3. jam
    estimate = x.numerator.bit_length() - x.denominator.bit_length()
    shift = 64 - estimate
    whole, rest = divmod(x.numerator << max(shift, 0), x.denominator << max(-shift, 0))
    extra = whole.bit_length() - 64
    lost = rest != 0 or whole & ((1 << extra) - 1) != 0
    return 63 + extra - shift, whole >> extra | lost
