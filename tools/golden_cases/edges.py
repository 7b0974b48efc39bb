"""Edge inputs of conversions, made from the rows: ties, carries, ends of the range, special values.

    magnitudes of the target    0 .. n finite, n + 1 as if the exponent went on
    value(k), half(k)           the value of k; half way between k and k + 1
    "-", "0", "+"               the source pattern below a point, the point, the pattern above

Only inputs are made here; what they become is the oracle's to say.

Source: the coverage classes of this project; OFP8 1.0 (round first, then compare); IEEE 754-2019, 4.3.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache

from feather_ref import oracle
from feather_ref.formats import Format
from golden_cases.case import CLASSES, TYPES, Case, row_of
from golden_steps import pattern_below

# target: sources, overflow policies; all to nearest, ties to even
CONVERSIONS = (
    ("e4m3", "f32 f64 f16 bf16 i64", "sat nonsat"),
    ("e5m2", "f32 f64 f16 bf16 i64", "sat nonsat"),
    ("e2m1", "f32 f64 bf16", "sat"),
    ("e2m3", "f32 f64", "sat"),
    ("e3m2", "f32 f64", "sat"),
    ("e8m0", "f32 f64 bf16", "sat nonsat"),
    ("e4m3fnuz", "f32 f64", "sat nonsat"),
    ("e5m2fnuz", "f32 f64", "sat nonsat"),
    ("e4m3ieee", "f32", "sat nonsat"),
    ("e3m4", "f32", "sat nonsat"),
    ("ue4m3", "f32", "sat nonsat"),
    ("f16", "f32 f64 bf16 i64", "nonsat"),
    ("bf16", "f32 f64 f16 i64", "nonsat"),
    ("f32", "f64 i64", "nonsat"),
    ("int8", "f32 f64", "sat"),
    ("nf4", "f32 f64", "sat"),
)

# choices where no standard speaks: target, option, class whose inputs are asked again
CHOICES = (
    ("e4m3", "nan=preserve_sign", "nan_low_payload"),
    ("e5m2", "nan=preserve_sign", "nan_low_payload"),
    *((target, f"nan={to}", "nan_low_payload") for target in ("e2m1", "e2m3", "e3m2") for to in ("max", "zero")),
    *((target, f"negative={to}", "negative") for target in ("e8m0", "ue4m3") for to in ("abs", "nan", "zero")),
)

Points = Callable[[Format], list[Fraction]]


# --- points of the target ---------------------------------------------------------------------


def half(row: Format, magnitude: int) -> Fraction:
    """Half way between a magnitude and the next."""
    return (row.exact(magnitude) + row.exact(magnitude + 1)) / 2


@lru_cache(maxsize=64)
def picked(row: Format) -> tuple[int, ...]:
    """An even and an odd magnitude of every binade, or of the ends and the middle where there are many."""
    if row.kind == "integer":
        return tuple(sorted({k + step for k in (2**i for i in range(1, row.bits - 1)) for step in (0, 1)}))
    last = row.max_magnitude >> row.mantissa_bits
    some = {0, 1, last - 1, last} | {row.bias + exponent for exponent in (-1, 0, 8, 30, 62)}
    fields = range(last + 1) if last < 32 else some
    found = {(field << row.mantissa_bits) + step for field in fields for step in (0, 1)}
    return tuple(k for k in sorted(found) if row.has_zero <= k < row.max_magnitude)


def carries(row: Format) -> list[Fraction]:
    """Half way above the last magnitude of the binades of `picked`."""
    binades = {k >> row.mantissa_bits for k in picked(row)} if row.mantissa_bits else set()
    tops = [((binade + 1) << row.mantissa_bits) - 1 for binade in sorted(binades)]
    return [half(row, k) for k in tops if k < row.max_magnitude]


def least_normal(row: Format) -> int:
    """The magnitude of the least normal value."""
    return 1 << row.mantissa_bits


def only(condition: Callable[[Format], bool], points: Points) -> Points:
    """The points of the rows that fulfil a condition."""
    return lambda row: points(row) if condition(row) else []


def has_subnormals(row: Format) -> bool:
    """Whether some code has no hidden bit."""
    return row.has_subnormals


def has_zero(row: Format) -> bool:
    """Whether the least magnitude is zero."""
    return row.has_zero


# class, points, which patterns at them
POINTS: tuple[tuple[str, Points, str], ...] = (
    ("tie_to_even_down", lambda row: [half(row, k) for k in picked(row) if k % 2 == 0], "0"),
    ("tie_to_even_up", lambda row: [half(row, k) for k in picked(row) if k % 2 == 1], "0"),
    ("tie_1_ulp", lambda row: [half(row, k) for k in picked(row)], "-+"),
    ("binade_carry", carries, "-0+"),
    ("tie_at_max", lambda row: [half(row, row.max_magnitude)], "-0+"),
    ("clamp_before_rounding", lambda row: [row.exact(row.max_magnitude)], "+"),
    ("clamp_before_rounding", lambda row: [half(row, row.max_magnitude)], "-"),
    ("overflow", lambda row: [row.exact(row.max_magnitude + 1)], "-0+"),
    ("overflow", lambda row: [row.exact(row.max_magnitude) * 2**power for power in (1, 8, 31)], "0"),
    ("first_subnormal_tie", only(has_subnormals, lambda row: [half(row, 1)]), "-0+"),
    ("subnormal_to_normal_carry", only(has_subnormals, lambda row: [half(row, least_normal(row) - 1)]), "-0+"),
    ("half_min_subnormal", only(has_zero, lambda row: [half(row, 0)]), "-0+"),
    ("deep_underflow", lambda row: [row.exact(1) / 2**power for power in (2, 3, 8, 16, 31, 32, 33, 64)], "0"),
    ("range_ends", lambda row: [row.exact(k) for k in ends(row)], "0"),
)


def ends(row: Format) -> list[int]:
    """First and last magnitude, and the ones where subnormals meet normals."""
    middle = {least_normal(row) - 1, least_normal(row)} if row.has_subnormals else set()
    return sorted({int(row.has_zero), row.max_magnitude} | middle)


# --- patterns of the source -------------------------------------------------------------------


@lru_cache(maxsize=1 << 14)
def floor_pattern(value: Fraction, source: Format) -> int | None:
    """The greatest positive pattern that is not above a value; None where the source does not reach it."""
    if source.kind == "integer":
        return math.floor(value) if 1 <= value < source.max_magnitude else None
    if value > source.exact(source.max_magnitude):
        return None
    return pattern_below(value, source) or None


def around(value: Fraction, source: Format) -> dict[str, int]:
    """The positive patterns "-" below a value, "0" at it, "+" above it; 0 for one that is not there."""
    floor = floor_pattern(value, source)
    if floor is None:
        return {}
    hit = oracle.decode(floor, source).magnitude == value
    above = floor + 1 if floor < source.max_magnitude else 0
    return {"-": floor - hit, "0": floor if hit else 0, "+": above}


def patterns(value: Fraction, source: Format, which: str) -> list[int]:
    """Those of `around` that are asked for; none where the source does not have the value itself."""
    near = around(value, source)
    return [near[mark] for mark in which if near[mark]] if near.get("0") else []


def negative(pattern: int, source: Format) -> int:
    """The pattern of the number with the other sign."""
    if source.kind == "integer":
        return -pattern % (1 << source.bits)
    return pattern | source.sign_mask


def signed(found: list[int], source: Format, target: Format) -> list[int]:
    """Every pattern once, with both signs where the target has a sign."""
    unique = sorted(set(found))
    return unique + [negative(pattern, source) for pattern in unique] if target.signed else unique


# --- special values of the source -------------------------------------------------------------


def zeros(source: Format) -> list[int]:
    """Zeros."""
    return [0] if source.kind == "integer" else [0, source.sign_mask]


def infinities(source: Format) -> list[int]:
    """Both infinities."""
    return [] if source.inf_magnitude is None else [source.inf_magnitude, negative(source.inf_magnitude, source)]


def nans(source: Format) -> list[int]:
    """NaN: the least payload, the quiet bit alone, all ones; and what float32 would keep nothing of."""
    if source.inf_magnitude is None:
        return []
    inf = source.inf_magnitude
    lost = [inf | 0x1FFFFFFF] if source.bits == 64 else []
    found = [inf | 1, *lost, inf | 1 << (source.mantissa_bits - 1), source.magnitude_mask]
    return found + [negative(pattern, source) for pattern in found]


def below_zero(source: Format, target: Format) -> list[int]:
    """Negative and rounded to zero: least subnormal and normal of the source, half of the least value."""
    points = [source.exact(1), source.exact(least_normal(source))] if source.kind == "float" else []
    points = [point for point in points if point < half(target, 0)] if target.has_zero else []
    found = [pattern for point in points for pattern in patterns(point, source, "0")]
    found += patterns(half(target, 0), source, "-0") if target.has_zero else []
    return [negative(pattern, source) for pattern in sorted(set(found))]


def small(source: Format, of: Format) -> list[int]:
    """The subnormals of a format, as patterns of the source: the ends and the middle."""
    top = least_normal(of)
    points = [of.exact(k) for k in (1, 2, 3, top // 2, top - 1)]
    found = sorted({pattern for point in points for pattern in patterns(point, source, "0")})
    return found + [negative(pattern, source) for pattern in found]


def through(source: Format, target: Format, via: Format) -> list[int]:
    """Beside half way by half or a quarter of a step of `via`, which rounds that to half way, and then wrongly.

    Half way goes to the even code: down from an even magnitude, so wrongly for what lies above it.
    """
    found = []
    for k in picked(target):
        tie = half(target, k)
        step = floor_pattern(tie, via)
        if step is None or via.exact(step) != tie:
            continue
        gap = (via.exact(step + 1) - tie) * (-1 if k % 2 else 1)
        for point in (tie + gap / 4, tie + gap / 2):  # half way has zeros at its end in `via`: it is the even one
            found += patterns(point, source, "0")
    return found


# --- integers and tables ----------------------------------------------------------------------


def of_table(source: Format, target: Format) -> list[int]:
    """Half way between neighbours of a table, and one step beside, with the sign of the point."""
    values = sorted({Fraction(value) for value in target.values})
    found = []
    for low, high in itertools.pairwise(values):
        point = (low + high) / 2
        near = [pattern for pattern in around(abs(point), source).values() if pattern]
        found += [negative(pattern, source) if point < 0 else pattern for pattern in near]
    return found


def least_integer(source: Format, target: Format) -> list[int]:
    """Two's complement reaches one further below zero: that value, half a step beyond it, and one step beside."""
    least = Fraction(-oracle.decode(1 << (target.bits - 1), target).signed)
    step = target.exact(1)
    near = [p for point in (least, least + step / 2, least + step) for p in patterns(point, source, "-0+")]
    return [negative(pattern, source) for pattern in sorted(set(near))]


# --- cases ------------------------------------------------------------------------------------


@lru_cache(maxsize=128)
def inputs(source: Format, target: Format) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The classes of a conversion and their patterns, each once; classes without a pattern are left out."""
    found: dict[str, dict[int, None]] = {}
    for cls, more in classes(source, target):
        found.setdefault(cls, {}).update(dict.fromkeys(more))
    return tuple((cls, tuple(every)) for cls, every in found.items() if every)


def classes(source: Format, target: Format) -> Iterator[tuple[str, list[int]]]:
    """Classes and patterns; a class may come more than once."""
    if target.kind == "table":
        yield "nearest_value", of_table(source, target)
    else:
        for cls, points, which in POINTS:
            found = [pattern for point in points(target) for pattern in patterns(point, source, which)]
            yield cls, signed(found, source, target)
    yield "minus_zero", zeros(source)
    if target.kind == "float" and target.signed:
        yield "underflow_to_minus_zero", below_zero(source, target)
    if source.kind == "integer":
        yield "integer_ends", [source.max_magnitude, source.sign_mask]
    if target.kind == "integer":
        yield "least_integer", least_integer(source, target)
    if not target.signed:
        ones = patterns(Fraction(1), source, "0") + patterns(target.exact(1), source, "0")
        yield "negative", [negative(pattern, source) for pattern in [*ones, *infinities(source)[:1]]]
    yield "inf", infinities(source)
    yield "nan_low_payload", nans(source)
    yield from narrow_floats(source, target)


def narrow_floats(source: Format, target: Format) -> Iterator[tuple[str, list[int]]]:
    """Subnormals of the narrower floats, and double rounding through them."""
    wide = source if source.mantissa_bits == TYPES["bf16"].mantissa_bits else TYPES["f32"]  # of one exponent range
    for name, of in (("float16", TYPES["f16"]), ("float32", wide)):
        if of.mantissa_bits <= source.mantissa_bits:
            found = small(source, of)
            yield f"{name}_subnormals", found if target.signed else [p for p in found if p < source.sign_mask]
    precise = source.mantissa_bits or source.bits
    for token in ("f16", "bf16", "f32", "f64"):
        via = TYPES[token]
        if target.kind == "float" and target.mantissa_bits < via.mantissa_bits < precise:
            yield f"double_rounding_{token}", signed(through(source, target, via), source, target)


def edges() -> Iterator[Case]:
    """The edge cases of every conversion of `CONVERSIONS`, then those of `CHOICES` from float32."""
    asked = [
        (source, target, overflow, "", "")
        for target, sources, overflows in CONVERSIONS
        for source in sources.split()
        for overflow in overflows.split()
    ]
    asked += [("f32", target, "sat", choice, wanted) for target, choice, wanted in CHOICES]
    for source, target, overflow, choice, wanted in asked:
        for cls, found in inputs(row_of(source), row_of(target)):
            if wanted in ("", cls):
                operands = tuple((pattern,) for pattern in found)
                yield Case(cls, "convert", source, target, "rne", overflow, choice, operands, CLASSES[cls])
