"""Diagnosis: what a failure is about, and what all failures have in common.

    FAIL convert.f32.e4m3.rne.nonsat in=43E80001 (464.000031) got=7E (448) want=7F (NaN) [overflow, first above the tie]

The classes are those of `feather_ref.diff`; arithmetic is classed by its exact result, a decode
table by the class of the code.

Source: design of this project.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feather_ref import arith, golden
from feather_ref._anatomy import hex_code, number_of
from feather_ref._hypotheses import Case, Change, Hypothesis, changes, readings, recipe_of, spell_change
from feather_ref._parts import Parts, minus_zero_code
from feather_ref._sources import source_parts
from feather_ref.codes import CLASSES as CODE_CLASSES
from feather_ref.codes import classify
from feather_ref.conformance.recompute import POLICY_NAMES, as_values, compute, is_nan, row_named
from feather_ref.diff import CLASSES, _classes, _place
from feather_ref.formats import FORMATS, Format
from feather_ref.golden import Question
from feather_ref.policy import NANS, OVERFLOWS, SUBNORMALS, zero_code
from feather_ref.rounding import DETERMINISTIC

Array = NDArray[Any]
GUESSES = 3  # that are shown
LONGEST = 14  # characters of a number that is written exactly
_NAMES = {"zero": "signed zero", "carry": "binade carry"}
_EXACT: dict[str, Callable[..., Parts]] = {
    "add": arith._add,
    "subtract": arith._subtract,
    "multiply": arith._multiply,
    "divide": arith._divide,
    "fma": arith._fma,
}


class Sample(NamedTuple):
    """Results beside what they should be, in the order of the inputs."""

    operands: tuple[Array, ...]
    got: Array
    want: Array
    digits: Array

    def take(self, index: Any) -> Sample:
        """Some of them."""
        return Sample(tuple(x[index] for x in self.operands), self.got[index], self.want[index], self.digits[index])


# --- one failure ------------------------------------------------------------------------------


def classify_failures(question: Question, sample: Sample) -> list[str]:
    """The class of each failure."""
    if not sample.got.size:
        return []
    if question.op == "compare":
        return ["compare"] * sample.got.size
    if question.op == "decode":
        return [CODE_CLASSES[i] for i in classify(sample.operands[0], question.source)]
    row = row_named(question.target)
    x = _exact_parts(question, sample.operands)
    got = sample.got & sample.got.dtype.type(row.code_mask)
    names = [_NAMES.get(CLASSES[i], CLASSES[i]) for i in _classes(x, got, sample.want, row)]
    if question.source == "float64" and question.n_bits is None:
        twice = _through_float32(question, sample.operands[0])
        names = ["double rounding" if a else name for a, name in zip(twice == sample.got, names, strict=True)]
    return names


def _exact_parts(question: Question, operands: tuple[Array, ...]) -> Parts:
    """The exact number that is rounded."""
    row = row_named(question.source)
    parts = [source_parts(x, row) for x in operands[: golden.OPERATIONS[question.op]]]
    rounding = question.policies.get("rounding", "nearest_even")
    return parts[0] if question.op == "convert" else _EXACT[question.op](*parts, rounding)


def _through_float32(question: Question, bits: Array) -> Array:
    """The results where float64 is rounded to float32 first."""
    with np.errstate(all="ignore"):
        single = bits.view(np.float64).astype(np.float32)
    return compute(question._replace(source="fp32"), single.view(np.uint32), **_for_nan(question))


def _for_nan(question: Question) -> dict[str, Any]:
    """A policy for NaN and negatives where the question has none and the format needs one."""
    row = row_named(question.target)
    given = {}
    if question.policies.get("nan", "canonical" if row.has_nan else "error") == "error":
        given["nan"] = "max"
    negative = question.policies.get("negative", row.negative if row.has_nan else "error")
    if not row.signed and negative == "error":
        given["negative"] = "zero"
    return given


def failure_line(question: Question, title: str, sample: Sample, i: int, name: str, unknown: bool = False) -> str:
    """One failure as a line."""
    operands = [int(x[i]) for x in sample.operands]
    got = "x" if unknown else result_text(question, int(sample.got[i]))
    want = result_text(question, int(sample.want[i]))
    place = "" if question.op != "convert" or unknown else _place_text(question, operands[0], name)
    return f"FAIL {title} {input_text(question, operands)} got={got} want={want} [{name}{place}]"


def input_text(question: Question, operands: Sequence[int]) -> str:
    """An input as a line has it."""
    row = row_named(question.source)
    bits = " ".join(hex_code(code, row) for code in operands)
    values = ", ".join(value_text(code, row) for code in operands[: golden.OPERATIONS[question.op]])
    return f"in={bits} ({values})"


def value_text(code: int, row: Format) -> str:
    """The value of a code, exactly where that is short, else in nine digits (17 of a float64)."""
    if row.kind == "float" and row.bits in (32, 64):
        with np.errstate(all="ignore"):
            x = np.array(code, f"u{row.bits // 8}").view(f"f{row.bits // 8}")[()]
        return "NaN" if np.isnan(x) else f"{float(x):.{9 if row.bits == 32 else 17}g}"
    number = number_of(code, row)
    text = str(number)
    return text if len(text) <= LONGEST else f"{float(number.signed):.9g}"


def result_text(question: Question, code: int) -> str:
    """A result in hex, and what it means."""
    row = row_named(question.target)
    if question.op == "compare":
        return f"{code} ({('less', 'equal', 'greater', 'unordered')[code] if code < 4 else 'no verdict'})"
    if code > row.code_mask:
        return f"{code:X} (no code of {row})"
    return f"{hex_code(code, row)} ({value_text(code, row)})"


def _place_text(question: Question, pattern: int, name: str) -> str:
    """Where an input lies beside a tie, if it does."""
    target, source = row_named(question.target), row_named(question.source)
    if target.kind == "table" or source.kind != "float":
        return ""
    near = np.array([max(pattern - 1, 0), pattern, min(pattern + 1, source.code_mask)], np.uint64)
    parts = source_parts(near, source)
    if parts.nan.any() or parts.inf[1]:
        return ""
    before, here, after = (_place(parts, np.zeros(3, np.uint64), target)[0] == 2).tolist()
    if here:
        return "" if name.endswith("tie") else ", the tie"
    return ", first above the tie" if before else ", last below the tie" if after else ""


# --- what they have in common -----------------------------------------------------------------


def guess(question: Question, sample: Sample, total: int) -> list[str]:
    """What would explain the failures: other policies, an order of lanes or bytes; the best first.

    total: failures that there are, of which those of the sample may be some.
    """
    count, nearest = int(failures(question, sample).sum()), None
    if not count:
        return []
    for guesses in _GUESSERS.get(question.op, (_guess_arithmetic,)):
        found = sorted(guesses(question, sample), key=lambda hypothesis: hypothesis.left)
        exact = [each.text for each in found if each.left == 0]
        if exact:
            also = f"; so does {', '.join(exact[1:GUESSES])}" if exact[1:] else ""
            return [f"equals {exact[0]}{also}"]
        if found and (nearest is None or found[0].left < nearest.left):  # of two changes each must lessen it
            nearest = found[0]
    if nearest is None or 2 * nearest.left > count:
        return []
    some = "a sample of " if count < total else ""
    return [f"nearly equals {nearest.text}, which leaves {nearest.left} of {some}{count}"]


def failures(question: Question, sample: Sample) -> NDArray[np.bool_]:
    """Where results are wrong by their digits."""
    got, want, digits = sample.got, sample.want, sample.digits
    row = row_named(question.target)
    nan = is_nan(got, row) if question.op != "compare" else np.zeros(got.shape, np.bool_)
    above = got == want.astype(np.uint64) + 1
    right = (got == want) | (digits == 0) | ((digits == 2) & nan) | ((digits == 3) & above)
    return ~right


def _case(question: Question, sample: Sample) -> Case | None:
    """A conversion as `diff` compares it; None where it has no hypotheses."""
    row = row_named(question.target)
    if question.n_bits is not None or (sample.got > row.code_mask).any():
        return None
    sample = _with_verdict(sample)
    policies: Any = {key: value for key, value in question.policies.items() if key in POLICY_NAMES} | _for_nan(question)
    return Case(
        sample.got.astype(sample.want.dtype), _numbers(question, sample.operands[0]), None, row, None, policies, True
    )


def _guess_conversion(question: Question, sample: Sample) -> Iterator[Hypothesis]:
    """Single changes to policies and readings, as `diff` tries them."""
    case = _case(question, sample)
    if case is None:
        return
    for change in changes(case, case.given):
        yield Hypothesis(spell_change(change, case.row), _left(case, change))
    want = case.make(recipe_of(case))
    for reading in readings(case):
        yield Hypothesis(reading.text, int(np.count_nonzero(case.differ(case.read(reading), want))))
    if case.row.has_signed_zero:
        minus_zero = case.row.sign_mask or minus_zero_code(case.row)
        unsigned = np.where(want == minus_zero, want.dtype.type(zero_code(case.row)), want)
        yield Hypothesis("+0 in place of -0", int(np.count_nonzero(case.differ(case.given, unsigned))))


def _guess_two_changes(question: Question, sample: Sample) -> Iterator[Hypothesis]:
    """Two changes of kinds that often come together."""
    case = _case(question, sample)
    if case is None:
        return
    found = list(changes(case, case.given))
    for first, second in _PAIRS:
        firsts, seconds = ([change for change in found if change.axis in axes] for axes in (first, second))
        for a, b in itertools.product(firsts, seconds):
            yield Hypothesis(f"{spell_change(a, case.row)} and {spell_change(b, case.row)}", _left(case, a, b))


_PAIRS = (
    (("overflow",), ("rounding", "nan", "between", "subnormals")),
    (("rounding",), ("subnormals",)),
)


def _left(case: Case, *made: Change) -> int:
    """How many elements changes leave unexplained: all, where they cannot be carried out."""
    try:
        return int(np.count_nonzero(case.differ(case.given, case.make(recipe_of(case, *made)))))
    except ValueError:
        return case.given.size


def _with_verdict(sample: Sample) -> Sample:
    """Without the inputs about which the standard says nothing, in pairs, so that lanes stay lanes."""
    keep = sample.digits != 0
    paired = keep.copy()
    even = keep.size & ~1
    paired[:even] = np.repeat(keep[:even].reshape(-1, 2).all(axis=1), 2)
    return sample.take(paired)


def _numbers(question: Question, bits: Array) -> Array:
    """The inputs as numbers that `encode` takes."""
    values = as_values(bits, question)
    if values.dtype.kind != "u":
        return values
    from feather_ref.codec import decode  # noqa: PLC0415 - bf16 and codes alone

    return decode(bits, question.source)


def _guess_arithmetic(question: Question, sample: Sample) -> Iterator[Hypothesis]:
    """Other policies, or another order."""
    row = row_named(question.target)
    axes = {"rounding": DETERMINISTIC, "overflow": OVERFLOWS, "nan": NANS, "subnormals": SUBNORMALS}
    for axis, names in axes.items():
        for name in names:
            change = Change(axis, name)
            yield Hypothesis(spell_change(change, row), _unlike(question, sample, sample.operands, {axis: name}))
    yield from _guess_order(question, sample)


def _guess_order(question: Question, sample: Sample) -> Iterator[Hypothesis]:
    """Operands in another order, neighbours swapped."""
    if len(sample.operands) == 2:
        yield Hypothesis("the operands in the other order", _unlike(question, sample, sample.operands[::-1], {}))
    pairs = np.minimum(np.arange(sample.got.size) ^ 1, sample.got.size - 1)
    swapped = sample._replace(got=sample.got[pairs])
    yield Hypothesis("neighbouring elements swapped", int(failures(question, swapped).sum()))


def _unlike(question: Question, sample: Sample, operands: tuple[Array, ...], other: dict[str, Any]) -> int:
    """How many results are not those of other policies or operands."""
    try:
        want = compute(question, *operands, **other)
    except ValueError:
        return sample.got.size
    return int(failures(question, sample._replace(want=want)).sum())


def _guess_decode(question: Question, sample: Sample) -> Iterator[Hypothesis]:
    """Another format of the same width; bytes swapped."""
    row = row_named(question.source)
    for name, other in FORMATS.items():
        if other.bits == row.bits and name != row.name:
            swapped = question._replace(source=name)
            yield Hypothesis(f"fmt={name!r}", _unlike(swapped, sample, sample.operands, {}))
    turned = sample._replace(got=sample.got.byteswap())
    yield Hypothesis("the bytes of each result swapped", int(failures(question, turned).sum()))


_GUESSERS: dict[str, tuple[Callable[[Question, Sample], Iterator[Hypothesis]], ...]] = {
    "convert": (_guess_conversion, _guess_two_changes),
    "decode": (_guess_decode,),
    "compare": (_guess_order,),
}


# --- the implementation's own boundary ----------------------------------------------------------

Ask = Callable[[Array], Array]  # patterns -> codes of the implementation
STEPS = 64  # patterns that are asked at a time


def own_boundary(question: Question, ask: Ask, right: int, wrong: int) -> int:
    """The last pattern that still gives what `right` gives, between it and `wrong`, which does not.

    Patterns are narrowed 64 at a time, so that a process is started but a few times.
    """
    low, high = right, wrong
    first = int(ask(np.array([right], np.uint64))[0])
    while abs(high - low) > 1:
        count = min(STEPS, abs(high - low) - 1)
        points = np.unique(np.linspace(low, high, count + 2).astype(np.int64))
        points = points if low < high else points[::-1]
        same = ask(points.astype(np.uint64)) == first
        broken = int(np.argmin(same)) if not same.all() else points.size - 1
        low, high = int(points[max(broken - 1, 0)]), int(points[broken])
    return low


