"""The ladder: a code or a number among its neighbours, and why a rounding takes which of them.

Rungs are values of a format in rising order.  Inf stands where the next value would be, and past the last
finite value of a format without Inf the next one is shown without a code: midpoints towards them
are where overflow begins::

    next     480   no code, or Inf
    midpoint 464
    max      448   7E

Source: IEEE 754-2019, 4.3 and 7.4; `rounding` makes the decision, this module says why.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from feather_ref._anatomy import BRIEF, Number, decimal_text, hex_code, magnitude_of, number_of, ulp_of, with_sign
from feather_ref.codes import nextafter
from feather_ref.formats import Format
from feather_ref.policy import Policy
from feather_ref.rounding import goes_up


class Rung(NamedTuple):
    """A value on the ladder, with its code or without."""

    label: str
    value: Fraction
    code: int | None = None
    text: str = ""  # instead of the value


def around(row: Format, code: int) -> list[Rung]:
    """A code that is not NaN, its two neighbours, and the midpoints."""
    this = _rung(row, "this", code)
    steps = [_step(row, this, up) for up in (True, False)]
    rungs = [this]
    for step in steps:
        if step is not None:
            rungs += [step, Rung("midpoint", (this.value + step.value) / 2)]
    return rungs


def _rung(row: Format, label: str, code: int) -> Rung:
    """The rung of a code; Inf stands where the next value would be."""
    value = number_of(code, row)
    if value.kind == "finite":
        return Rung(label, value.signed, code, str(value))
    place = row.exact(row.max_magnitude + 1) * (-1 if value.negative else 1)
    return Rung(label, place, code, f"{value}; next {decimal_text(place, BRIEF)}")


def _step(row: Format, this: Rung, up: bool) -> Rung | None:
    """The next rung above or below; past the last finite one, what would be there."""
    code = this.code or 0
    label = "above" if up else "below"
    near = int(nextafter(code, last_code(row, up), row))
    step = _rung(row, label, near)
    if step.value != this.value:
        return step
    if row.kind == "table" or row.is_inf(code) or not (up or row.signed):
        return None
    ulp = ulp_of(row, magnitude_of(row, code))
    value = this.value + (ulp if up else -ulp)
    return Rung(label, value, None, f"none; next {decimal_text(value, BRIEF)}")


def last_code(row: Format, up: bool) -> int:
    """The code of the greatest or the least value, Inf included."""
    if row.kind == "table":
        return row.values.index(row.max if up else row.min)
    if not (up or row.signed):
        return 0
    if row.kind == "integer":
        return row.max_magnitude if up else row.sign_mask
    last = row.max_magnitude if row.inf_magnitude is None else row.inf_magnitude
    return last | (0 if up else row.sign_mask)


# --- a number --------------------------------------------------------------------------------


def _below(row: Format, x: Number) -> tuple[int, Fraction]:
    """The magnitude at or below |x|, -1 if there is none, and the fraction of the way to the next.

    One past the last magnitude stands for everything beyond it.
    """
    beyond = _last_magnitude(row, x.negative) + 1
    lower = bisect_right(range(beyond + 1), x.magnitude, key=row.exact) - 1
    if not 0 <= lower < beyond:
        return lower, Fraction(0)
    return lower, (x.magnitude - row.exact(lower)) / ulp_of(row, lower)


def _last_magnitude(row: Format, negative: bool) -> int:
    """Two's complement reaches one further below zero."""
    return row.max_magnitude + (row.kind == "integer" and negative)


def place_of(row: Format, x: Number) -> list[Rung]:
    """A finite number between its neighbours, or beside the last one."""
    if row.kind == "table":
        at_or_below = [value for value in row.values if value <= x.signed]
        near, inside = row.values.index(max(at_or_below, default=row.min)), bool(at_or_below)
        up = inside
    else:
        lower, _ = _below(row, x)
        near = with_sign(row, min(max(lower, 0), _last_magnitude(row, x.negative)), x.negative)
        inside = lower >= 0
        up = inside and not x.negative
    anchor = _rung(row, "below" if up else "above", near)
    if anchor.value == x.signed:
        return [rung._replace(label="given") if rung.label == "this" else rung for rung in around(row, near)]
    rungs = [anchor, Rung("given", x.signed)]
    other = _step(row, anchor, up) if inside else None
    if other is not None:
        rungs += [other, Rung("midpoint", (anchor.value + other.value) / 2)]
    return rungs


def reason(row: Format, x: Number, code: int | None, policy: Policy) -> str:
    """Why a rounding sends a number to its code."""
    if row.kind == "table":
        return _table_reason(row, x)
    lower, d = (0, Fraction(0)) if x.kind == "inf" else _below(row, x)
    if lower < 0:
        return "below the least value"
    up = _goes_up(policy.rounding, lower, d, x.negative)
    if x.kind == "inf" or lower + up > _last_magnitude(row, x.negative):
        return f"overflow, {policy.overflow}"
    chosen = with_sign(row, lower + up, x.negative)
    if code != chosen:
        return "flushed to zero"
    if d == 0:
        return "exact"
    return _rounding_reason(policy.rounding, d, x.negative, hex_code(chosen, row))


def _goes_up(rounding: str, lower: int, d: Fraction, negative: bool) -> bool:
    """`rounding.goes_up` for one magnitude and an exact fraction."""
    scaled = d * 2**64
    sticky = math.floor(scaled) | (scaled.denominator > 1)
    odd = np.array(lower % 2 == 1)
    return bool(goes_up(rounding, odd, np.array(sticky, np.uint64), np.array(negative), None, 0))


def _rounding_reason(rounding: str, d: Fraction, negative: bool, chosen: str) -> str:
    half = Fraction(1, 2)
    if rounding.startswith("nearest") and d != half:
        return "above the midpoint" if (d > half) != negative else "below the midpoint"
    return {
        "nearest_even": f"tie: {chosen} is even",
        "nearest_away": f"tie: {chosen} is farther from 0",
        "toward_zero": f"{chosen} is nearer to 0",
        "toward_positive": f"{chosen} is above",
        "toward_negative": f"{chosen} is below",
        "to_odd": f"{chosen} is odd",
    }[rounding]


def _table_reason(row: Format, x: Number) -> str:
    """A table knows nearest alone; a tie goes to the smaller magnitude."""
    values = sorted(set(map(Fraction, row.values)))
    if x.kind == "inf" or not values[0] <= x.signed <= values[-1]:
        return "beyond the last value"
    index = bisect_right(values, x.signed) - 1
    if values[index] == x.signed:
        return "exact"
    midpoint = (values[index] + values[index + 1]) / 2
    if x.signed == midpoint:
        return "tie: the smaller magnitude"
    return "above the midpoint" if x.signed > midpoint else "below the midpoint"
