"""Report: what an encode did to its input, counted exactly.

Input and output are both taken apart and compared as (sign, exponent, significand).

Source: design of this project.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from feather_ref._parts import Parts, split
from feather_ref._sources import source_parts
from feather_ref._sweep import Array, place, sweep
from feather_ref.formats import Format
from feather_ref.policy import Policy

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Count:
    """How many elements, and the index of the first one (None where there is none)."""

    count: int = 0
    first: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Report:
    """What an encode did to `size` elements.

    inexact: finite inputs whose code has another value.  saturated: inputs whose magnitude is
    beyond the greatest value, or infinite, that became finite.  nonfinite: finite inputs that
    became Inf or NaN.  flushed: nonzero inputs that became zero.  nan: NaN inputs.
    """

    size: int
    inexact: Count
    saturated: Count
    nonfinite: Count
    flushed: Count
    nan: Count


NAMES = ("inexact", "saturated", "nonfinite", "flushed", "nan")


def make_report(bits: Array, src: Format | None, codes: Array, policy: Policy) -> Report:
    """Compare what went in (src None: longdouble) with the codes that came out."""
    counts = dict.fromkeys(NAMES, 0)
    first: dict[str, int] = {}

    def work(start: int, before: Array, after: Array) -> None:
        x = source_parts(before, src)
        y = split(after.astype(np.uint64), policy.fmt)
        for name, hit in zip(NAMES, effects(x, y, policy), strict=True):
            if hit.any():
                counts[name] += int(np.count_nonzero(hit))
                first.setdefault(name, start + int(hit.argmax()))

    sweep([bits, codes], None, work)
    found = {n: Count(counts[n], place(first[n], bits.shape) if n in first else None) for n in NAMES}
    return Report(bits.size, **found)


def effects(x: Parts, y: Parts, policy: Policy) -> tuple[Bools, Bools, Bools, Bools, Bools]:
    """The five classes of `Report`, for input parts x and output parts y."""
    finite = ~(x.inf | x.nan)
    lost = y.inf | y.nan
    sign = (x.negative != y.negative) & ~x.zero
    differs = sign | (x.exponent != y.exponent) | (x.significand != y.significand)
    # the greatest value of each sign
    ends = split(np.array([policy.max_code(False), policy.max_code(True)], np.uint64), policy.fmt)
    side = x.negative.astype(np.intp)
    top, rest = ends.exponent[side], ends.significand[side]
    beyond = x.inf | finite & ((x.exponent > top) | (x.exponent == top) & (x.significand > rest))
    return finite & (differs | lost), beyond & ~lost, finite & lost, ~x.zero & ~x.nan & y.zero, x.nan
