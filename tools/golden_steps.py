"""Step functions of bit patterns, asked of the exact oracle.

A conversion to a narrow format is a step function of the source's bits: between two breaks (zero,
Inf, NaN, the other sign) the results rise or fall and never turn.  So an answer that stands at both
ends of a stretch fills it.  Where the steps lie is guessed from the format's values; the oracle
decides, and a bad guess costs time alone.

Source: design of this project; data/golden/README.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from feather_ref import golden, oracle
from feather_ref.formats import Format, get_format

Answer = tuple[int, int]  # code z, judge digit j

# -128 "may be left unused" (MX 1.0, 5.3.4), so that the next code passes too: digit 3
SPARE = {"mxint8": 0x80}


class Piece(NamedTuple):
    """A line of a run file."""

    lo: int
    hi: int
    z: int
    j: int


# --- questions --------------------------------------------------------------------------------


def asker(question: golden.Question) -> Callable[[int], Answer]:
    """pattern of the source -> what the oracle answers, and how it is judged."""
    row, source = get_format(question.target), get_format(question.source)
    policies = {**question.policies, "random": question.random, "n_bits": question.n_bits, "source": source}

    def ask(pattern: int) -> Answer:
        x = oracle.decode(pattern, source)
        if is_open(x, row, question.policies):
            return 0, 0
        z = oracle.encode(x, row, **policies)
        return z, judge(z, row, question.policies)

    return ask


def is_open(x: oracle.Exact, row: Format, policies: dict[str, Any]) -> bool:
    """Whether the answer is a choice that nobody has made: no standard, no row, no policy.

    NaN where there is no NaN; a negative where there is no sign, unless the row names its own
    rule (uint8: zero) or the policy does (SatNone of P3109).
    """
    if x.kind == "nan":
        return not row.has_nan and "nan" not in policies
    below_zero = x.negative and (x.kind == "inf" or x.magnitude > 0)
    unsaid = row.negative == "nan" and "negative" not in policies
    return below_zero and not row.signed and unsaid and policies.get("overflow") != "p3109_satnone"


def judge(z: int, row: Format, policies: dict[str, Any]) -> int:
    """The digit: any NaN passes, but where the policy says which."""
    if row.is_nan(z) and "nan" not in policies:
        return 2
    return 3 if SPARE.get(row.name) == z else 1


# --- guesses ----------------------------------------------------------------------------------


def pattern_below(value: Fraction, source: Format) -> int:
    """The greatest finite pattern of a float source whose value is at most `value` (not negative).

    >>> hex(pattern_below(Fraction(1, 3), get_format("fp32")))
    '0x3eaaaaaa'
    """
    # 1. floor(log2 value), not below the subnormals
    n, d = value.numerator, value.denominator
    exponent = n.bit_length() - d.bit_length() if n else source.emin
    exponent -= n << max(-exponent, 0) < d << max(exponent, 0)
    exponent = max(exponent, source.emin)
    # 2. how many units of the last place; the hidden bit carries into the exponent field
    shift = source.mantissa_bits - exponent
    units = (n << max(shift, 0)) // (d << max(-shift, 0))
    return min(units + ((exponent - source.emin) << source.mantissa_bits), source.max_magnitude)


def _fractions(rounding: str, n_bits: int | None, random: int | None) -> tuple[Fraction, ...]:
    """How far between two neighbours a rounding turns."""
    if rounding.startswith("nearest"):
        return (Fraction(1, 2),)
    if n_bits is None or random is None:
        return (Fraction(0),)
    steps = 1 << n_bits
    return Fraction(steps - random, steps), Fraction(2 * (steps - random) - 1, 2 * steps)


@lru_cache(maxsize=64)
def marks(row: Format, source: Format, turns: tuple[Fraction, ...], magnitudes: range) -> tuple[int, ...]:
    """Patterns of the source at or after which the answer may change, with both sides of every break.

    turns: see `_fractions`.  magnitudes: those of the target among which it may change.
    """
    if row.kind == "table":
        signed = sorted({Fraction(v) for v in row.values})
        points = [*map(abs, signed), *(abs(a + b) / 2 for a, b in pairwise(signed))]
    else:
        scale = [row.exact(magnitude) for magnitude in magnitudes]
        points = [a + turn * (b - a) for a, b in pairwise(scale) for turn in turns]
    found = {pattern_below(point, source) for point in points}
    normal, top = 1 << source.mantissa_bits, source.max_magnitude
    found |= {0, 1, normal - 1, normal, top, top + 1, top + 2, source.sign_mask - 1}
    return tuple(sorted(found | {p | source.sign_mask for p in found}))


# --- steps ------------------------------------------------------------------------------------


def steps(ask: Callable[[int], Any], points: Sequence[int]) -> Iterator[tuple[int, int, Any]]:
    """(lo, hi, answer) over points[0] .. points[-1], each asked at both ends.

    points: sorted, with both sides of every break; other points only save questions.
    """
    ask = lru_cache(maxsize=8)(ask)  # of each end and its neighbour, once
    lo = at = points[0]
    answer = ask(lo)
    for mark in points[1:]:
        while (found := ask(mark)) != answer:
            end = _last(ask, answer, at, mark)
            yield lo, end, answer
            lo = at = end + 1
            answer = found if lo == mark else ask(lo)
        at = mark
    yield lo, points[-1], answer


def _last(ask: Callable[[int], Any], answer: Any, at: int, other: int) -> int:
    """The last point with `answer`, which stands at `at` and not at `other`."""
    if other - at == 1 or ask(at + 1) != answer:
        return at
    if ask(other - 1) == answer:
        return other - 1
    return at + bisect_left(range(at + 1, other - 1), True, key=lambda p: ask(p) != answer)


def pieces(question: golden.Question, first: int = 0, last: int | None = None) -> list[Piece]:
    """The lines of a run file, for the inputs first .. last (all there are)."""
    row, source = get_format(question.target), get_format(question.source)
    magnitudes = range(row.max_magnitude + 3)  # as if the exponent went on; two's complement reaches one further
    if last is None:
        last = source.code_mask
    elif row.bits > 12:  # few of them lie in a part of the inputs
        ends = (oracle.decode(pattern, source) for pattern in (first, last))
        low, high = (pattern_below(x.magnitude, row) if x.kind == "finite" else magnitudes[-1] for x in ends)
        magnitudes = magnitudes[max(low - 1, 0) : high + 3]
    turns = _fractions(question.policies["rounding"], question.n_bits, question.random)
    known = marks(row, source, turns, magnitudes)
    inside = known[bisect_left(known, first) : bisect_left(known, last + 1)]
    points = sorted({first, *inside, last})
    return [Piece(lo, hi, *answer) for lo, hi, answer in steps(asker(question), points)]
