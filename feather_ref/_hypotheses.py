"""Hypotheses: what a packer may have done otherwise, tried one at a time, then two at a time.

A hypothesis is a reading and a recipe::

    given codes or words  --reading-->  a code for each element      lane order, bytes swapped, ...
    input numbers         --recipe--->  the code that it should be   policies, another format between

It explains the given data where both agree.  All are ranked on a sample of elements, half of them
among those that differ; the best of them are then counted on every element.

Source: design of this project; the faults are those that packers in the wild have had.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feather_ref._anatomy import hex_code
from feather_ref._parts import Parts, flush_subnormals, merge, nan_codes, split
from feather_ref._sources import bits_of, row_of, split_longdouble
from feather_ref._sweep import Array
from feather_ref.arith import encode_quotient
from feather_ref.codec import convert, encode
from feather_ref.formats import FORMATS, Format
from feather_ref.packing import Order, Words
from feather_ref.policy import NANS, NEGATIVES, OVERFLOWS, SUBNORMALS, Policies, Policy, resolve
from feather_ref.profiles import PROFILES
from feather_ref.rounding import DETERMINISTIC
from feather_ref.words import codes_to_words, words_to_codes

SAMPLE = 1 << 12  # elements that differ, and as many that do not
COUNTED = 8  # hypotheses that are counted on every element, where all explain the sample
PARTIAL = 3  # where none does
BETWEEN = ("fp16", "bf16", "fp32")

Bools = NDArray[np.bool_]
Index = NDArray[np.intp]

# A quotient rounded to odd at 23 bits: rounding it once more to 21 bits or less is rounding it once.
_QUOTIENT = Format(
    "quotient", 32, exponent_bits=9, mantissa_bits=22, bias=255, inf="ieee", nan="ieee", overflow="nonsaturating"
)


@dataclass(frozen=True)
class Hypothesis:
    """What may have been done otherwise, and how many differences it leaves (0: it explains all)."""

    text: str
    left: int


class Change(NamedTuple):
    """One argument that is given another value."""

    axis: str
    value: Any


class Recipe(NamedTuple):
    """How codes are made of the input: a format, policies, and a format that it is rounded to before."""

    text: str
    row: Format
    policies: Policies
    between: str | None = None

    @property
    def policy(self) -> Policy:
        """The policies, complete; ValueError where the format cannot carry them out."""
        return resolve(self.row, **self.policies)


class Reading(NamedTuple):
    """How the given data is read: words are turned over and unpacked in an order, then codes moved."""

    text: str
    order: Order | None = None
    words: Callable[[Words], Array] | None = None
    codes: Callable[[Array], Array] | None = None


class Trial(NamedTuple):
    """A hypothesis that is still to be counted."""

    reading: Reading
    recipe: Recipe

    @property
    def text(self) -> str:
        """Both texts; the usual reading and the usual recipe have none."""
        return " and ".join(text for text in (self.reading.text, self.recipe.text) if text)


# --- what is compared -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Case:
    """The given codes or words (order is None: codes), the numbers that they stand for, the policies.

    x: numbers; scale: None, or what they are divided by, broadcast to x.
    """

    given: Array
    x: Array
    scale: Array | None
    row: Format
    order: Order | None
    policies: Policies
    nan_equal: bool

    def encode(self, fmt: str | Format, policies: Policies) -> Array:
        """The codes of x, or of x / scale, flat."""
        if self.scale is not None:
            return encode_quotient(self.x, self.scale, fmt, **policies).ravel()
        return encode(self.x, fmt, out=None, report=False, random_bits=None, n_bits=None, **policies).ravel()

    def make(self, recipe: Recipe) -> Array:
        """The codes by a recipe, flat."""
        if recipe.between is None:
            return self.encode(recipe.row, recipe.policies)
        between = self.encode(recipe.between, _BETWEEN)
        return convert(between, recipe.between, recipe.row, **recipe.policies)

    def read(self, reading: Reading) -> Array:
        """The codes by a reading, flat."""
        shape = self.x.shape or (1,)
        codes = self.given if self.order is None else self._lanes(reading)
        codes = codes.reshape(shape)
        return (codes if reading.codes is None else reading.codes(codes)).ravel()

    def stray(self, reading: Reading) -> Array:
        """The bits of words, by a reading, that are outside their codes."""
        if self.order is None:
            return np.zeros(0, np.uint32)
        return self._words(reading) ^ codes_to_words(self._lanes(reading), self.row, reading.order or self.order)

    def _words(self, reading: Reading) -> Array:
        return self.given if reading.words is None else reading.words(self.given)

    def _lanes(self, reading: Reading) -> Array:
        n = self.x.shape[-1] if self.x.shape else 1
        return words_to_codes(self._words(reading), self.row, n, reading.order or self.order or "little", False)

    def differ(self, a: Array, b: Array) -> Bools:
        """Where codes differ; with nan_equal, two NaNs do not."""
        wrong: Bools = a != b
        if self.nan_equal and wrong.any():
            wrong &= ~(nan_codes(a.astype(np.uint64), self.row) & nan_codes(b.astype(np.uint64), self.row))
        return wrong

    def left(self, trial: Trial) -> int:
        """How many elements, and words with stray bits, a hypothesis leaves unexplained."""
        wrong = self.differ(self.read(trial.reading), self.make(trial.recipe))
        return int(np.count_nonzero(wrong)) + int(np.count_nonzero(self.stray(trial.reading)))

    @cached_property
    def source(self) -> Format | None:
        """The row of the input numbers; None for longdouble."""
        return row_of(self.x.dtype) if self.scale is None else _QUOTIENT

    @cached_property
    def _numbers(self) -> Array:
        return (self.x if self.scale is None else self.encode(_QUOTIENT, {"rounding": "to_odd"})).ravel()

    @cached_property
    def nans(self) -> tuple[Bools, Bools]:
        """Where the input is +NaN, and where it is -NaN, flat."""
        numbers, row = self._numbers, self.source
        if row is None:
            nan, negative = np.isnan(numbers), np.signbit(numbers)
        else:
            bits = bits_of(numbers).astype(np.uint64) & np.uint64(row.code_mask)
            nan, negative = nan_codes(bits, row), bits & np.uint64(row.sign_mask) != 0
        return nan & ~negative, nan & negative

    @cached_property
    def has_negatives(self) -> bool:
        """Whether some input is below zero."""
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return bool((self.x < 0).any())

    def parts(self, index: Index) -> Parts:
        """Sign, exponent and significand of the input at flat indices."""
        numbers = self._numbers[index]
        if self.source is None:
            return split_longdouble(numbers)
        return split(bits_of(numbers).astype(np.uint64) & np.uint64(self.source.code_mask), self.source)


_BETWEEN: Policies = {"overflow": "nonsaturating", "nan": "preserve_sign"}
USUAL = Reading("")


# --- readings ---------------------------------------------------------------------------------


def readings(case: Case) -> Iterator[Reading]:
    """Other ways to read the given data."""
    row = case.row
    if case.order is not None:
        yield from _word_readings(case.order, row.storage_bits)
    if row.bits == 16:
        yield Reading("the bytes of each code swapped", codes=lambda codes: codes.byteswap())
    if row.bits == 8:
        yield Reading("the nibbles of each code swapped", codes=lambda codes: codes >> 4 | codes << 4)
    if row.signed or row.kind == "integer":
        top = 1 << (row.bits - 1)
        yield Reading("the top bit of each code turned over (offset binary)", codes=lambda codes: codes ^ top)
    if row.kind == "integer" and row.signed:
        yield Reading("sign and magnitude, not two's complement", codes=lambda codes: _from_magnitude(codes, row))
    twin = case.order is not None and row.storage_bits in (4, 16)  # a word reading does the same
    yield from _lane_readings(case.x.shape or (1,), row.storage_bits, twin)


def _word_readings(order: Order, width: int) -> Iterator[Reading]:
    other: Order = "big" if order == "little" else "little"
    yield Reading(f"order={other!r}", order=other)
    if width != 8:  # else it is the other order
        yield Reading("the bytes of each word swapped", words=lambda words: words.byteswap())
    if width != 16:
        yield Reading("the 16-bit halves of each word swapped", words=lambda words: words >> 16 | words << 16)
    if width != 8:  # else it is done to codes
        yield Reading(
            "the nibbles of each byte swapped",
            words=lambda words: words >> 4 & 0x0F0F0F0F | words << 4 & 0xF0F0F0F0,
        )


def _lane_readings(shape: tuple[int, ...], width: int, twin: bool) -> Iterator[Reading]:
    n = shape[-1]
    lanes = np.arange(n)
    if n > 1 and not twin:
        pairs = np.minimum(lanes ^ 1, n - 1)
        yield Reading("neighbouring elements swapped", codes=lambda codes: codes[..., pairs])
    if n > 1:
        yield Reading("the elements of each row reversed", codes=lambda codes: codes[..., ::-1])
    if n % 32 == 0 and n and width == 4:
        halves = (lanes & ~31) + 2 * (lanes & 15) + (lanes >> 4 & 1)
        yield Reading("elements j and j+16 of each 32 in one byte (ggml)", codes=lambda codes: codes[..., halves])
    if len(shape) > 1:
        yield Reading("transposed", codes=lambda codes: codes.reshape(shape[::-1]).transpose())


def _from_magnitude(codes: Array, row: Format) -> Array:
    sign = codes.dtype.type(row.sign_mask)
    negated = (-(codes & ~sign)) & codes.dtype.type(row.code_mask)
    return np.where(codes & sign, negated, codes)


# --- recipes ----------------------------------------------------------------------------------


def changes(case: Case, given: Array) -> Iterator[Change]:
    """Single changes to format and policies that can be carried out and are not made already."""
    policy = recipe_of(case).policy
    for axis, value in _values(case, given):
        recipe = recipe_of(case, Change(axis, value))
        if _possible(case, recipe) and (recipe.between is not None or recipe.policy != policy):
            yield Change(axis, value)


def _possible(case: Case, recipe: Recipe) -> bool:
    """Whether the format can carry the policies out, and they make no input an error."""
    try:
        policy = recipe.policy
    except ValueError:
        return False
    nan = policy.nan == "error" and any(where.any() for where in case.nans)
    negative = policy.negative == "error" and not policy.fmt.signed and case.has_negatives
    return not (nan or negative)


def _values(case: Case, given: Array) -> Iterator[tuple[str, Any]]:
    axes: dict[str, Iterable[Any]] = {
        "rounding": DETERMINISTIC,
        "overflow": OVERFLOWS,
        "nan": [*NANS, *_nan_codes_of(case, given)],
        "negative": [] if case.row.signed else NEGATIVES,
        "subnormals": SUBNORMALS,
        "profile": PROFILES,
        "between": BETWEEN,
        "fmt": [name for name, row in FORMATS.items() if row != case.row and _alike(row, case.row)],
    }
    return ((axis, value) for axis, values in axes.items() for value in values if value != "error")


def _alike(a: Format, b: Format) -> bool:
    """Whether codes of two formats are of one width and lie alike in words."""
    return (a.bits, a.storage_bits, a.storage_shift) == (b.bits, b.storage_bits, b.storage_shift)


def _nan_codes_of(case: Case, given: Array) -> list[int | tuple[int, int]]:
    """The codes that NaN inputs have in the given data, if they are the same everywhere."""
    match [np.unique(given[where]).tolist() for where in case.nans]:
        case [[plus], [minus]]:
            return [plus] if plus == minus else [(plus, minus)]
        case [[only], []] | [[], [only]]:
            return [only]
    return []


def recipe_of(case: Case, *made: Change) -> Recipe:
    """The policies of a case with changes made; a profile takes the place of all that are not changed."""
    policies: dict[str, Any] = {**case.policies}
    row, between = case.row, None
    for axis, value in sorted(made, key=lambda change: change.axis != "profile"):
        if axis == "profile":
            policies = {"profile": value}
        elif axis == "between":
            between = value
        elif axis == "fmt":
            row = FORMATS[value]
        else:
            policies[axis] = value
    text = " and ".join(spell_change(change, case.row) for change in made)
    return Recipe(text, row, Policies(**policies), between)  # type: ignore[typeddict-item]


def spell_change(change: Change, row: Format) -> str:
    """A change as an argument of `encode`, codes in hex with all their digits."""
    axis, value = change
    if axis == "between":
        return f"x rounded to {value} first"
    if isinstance(value, str):
        return f"{axis}={value!r}"
    codes = [f"0x{hex_code(code, row)}" for code in (value if isinstance(value, tuple) else [value])]
    return f"{axis}={codes[0] if len(codes) == 1 else '(' + ', '.join(codes) + ')'}"


# --- the search -------------------------------------------------------------------------------


class Found(NamedTuple):
    """What the search came to: hypotheses, best first; how many were tried, on how many elements."""

    hypotheses: tuple[Hypothesis, ...]
    tried: int
    sampled: int


def search(case: Case, wrong: Bools, stray: int) -> Found:
    """Try hypotheses on a case whose elements differ where `wrong`, with `stray` words."""
    total = int(np.count_nonzero(wrong)) + stray
    # 1. one change
    single = [recipe_of(case, change) for change in changes(case, case.read(USUAL))]
    other = list(readings(case))
    trials = [Trial(USUAL, recipe) for recipe in single]
    trials += [Trial(reading, recipe_of(case)) for reading in other]
    sample = _Sample(case, wrong)
    counted = sample.count(trials)
    # 2. two changes, on elements that the best single one leaves
    if counted and counted[0][1]:
        best, left = counted[0]
        if left < total:
            sample = _Sample(case, case.differ(case.read(best.reading), case.make(best.recipe)))
        second = list(_pairs(case, sample, other))
        trials += second
        counted += sample.count(second)
    exact = [Hypothesis(trial.text, left) for trial, left in counted if left == 0]
    partial = sorted((Hypothesis(t.text, left) for t, left in counted if 2 * left <= total), key=lambda h: h.left)
    return Found(tuple(exact or partial[:PARTIAL]), len(trials), sample.index.size)


def _pairs(case: Case, sample: _Sample, other: Sequence[Reading]) -> Iterator[Trial]:
    """Two changes: of the recipe, of which both have an effect; of the reading; one of each."""
    active = [change for change in changes(case, case.read(USUAL)) if sample.has_effect(recipe_of(case, change))]
    for a, b in itertools.combinations(active, 2):
        recipe = recipe_of(case, a, b)
        if a.axis != b.axis and _possible(case, recipe):
            yield Trial(USUAL, recipe)
    usual = recipe_of(case)
    for one, two in itertools.product(other, other):
        if one.codes is None and two.codes is not None:
            yield Trial(Reading(f"{one.text} and {two.text}", one.order, one.words, two.codes), usual)
    if other:
        best = min(other, key=lambda reading: sample.loss(Trial(reading, usual)))
        for change in changes(case, case.read(best)):
            yield Trial(best, recipe_of(case, change))


class _Sample:
    """Elements of a case, half of them among those that differ, and what a hypothesis makes of them."""

    def __init__(self, case: Case, wrong: Bools) -> None:
        groups = [np.flatnonzero(wrong), np.flatnonzero(~wrong)]
        picked = [_pick(group) for group in groups]
        self.case = case
        self.index = np.concatenate(picked)
        weights = [np.full(p.size, g.size / max(p.size, 1)) for p, g in zip(picked, groups, strict=True)]
        self.weight = np.concatenate(weights)
        self.parts = case.parts(self.index)
        self.usual = self._make(recipe_of(case))
        self.codes: dict[Reading, Array] = {}

    def _make(self, recipe: Recipe) -> Array:
        """The sample's codes by a recipe: the definition, which needs no table for each policy."""
        policy, parts, source = recipe.policy, self.parts, self.case.source
        if recipe.between is not None:
            source = FORMATS[recipe.between]
            parts = split(merge(parts, resolve(source, **_BETWEEN)), source)
        if policy.subnormals == "flush_input" and source is not None and source.has_subnormals:
            parts = flush_subnormals(parts, source.emin)
        return merge(parts, policy)

    def has_effect(self, recipe: Recipe) -> bool:
        """Whether a recipe makes other codes than the usual one."""
        return bool((self._make(recipe) != self.usual).any())

    def loss(self, trial: Trial) -> float:
        """About how many elements a hypothesis leaves unexplained."""
        if trial.reading not in self.codes:
            self.codes[trial.reading] = self.case.read(trial.reading)[self.index]
        return float(self.weight[self.case.differ(self.codes[trial.reading], self._make(trial.recipe))].sum())

    def count(self, trials: Sequence[Trial]) -> list[tuple[Trial, int]]:
        """Those that leave the least, the least first, counted on every element."""
        ranked = sorted(((self.loss(trial), i) for i, trial in enumerate(trials)))
        clean = sum(loss == 0 for loss, _ in ranked)
        chosen = [trials[i] for _, i in ranked[: min(max(clean, PARTIAL), COUNTED)]]
        return sorted(((trial, self.case.left(trial)) for trial in chosen), key=lambda pair: pair[1])


def _pick(index: Index) -> Index:
    """At most SAMPLE of the indices, the same ones every time."""
    if index.size <= SAMPLE:
        return index
    return index[np.unique(np.random.default_rng(0).integers(0, index.size, SAMPLE))]
