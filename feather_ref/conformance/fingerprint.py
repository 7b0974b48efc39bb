"""The fingerprint: which option an implementation takes where the standards leave a choice.

Each choice is asked with a handful of inputs, and each option answered by the exact oracle; those
whose answers are the implementation's are named.  A choice that makes no difference for a format
is not asked.

Source: oracle and policies of this project; the profiles name their own sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feather_ref import oracle
from feather_ref._anatomy import hex_code
from feather_ref.codec import encode
from feather_ref.conformance.diagnose import value_text
from feather_ref.formats import FORMATS, Format
from feather_ref.policy import NEGATIVES, OVERFLOWS, SUBNORMALS
from feather_ref.profiles import PROFILES
from feather_ref.rounding import DETERMINISTIC

Array = NDArray[Any]
Encode = Callable[[Array], Array]  # float32 (or float64) numbers -> codes

_TEXT = {
    "saturate": "saturate, Inf too",
    "nonsaturating": "nonsaturating",
    "propagate": "saturate, but Inf stays Inf",
    "ocp_table3": "always Inf or NaN",
    "p3109_satnone": "SatNone",
}
_NANS = ("canonical", "preserve_sign", "max", "zero")


class Trait(NamedTuple):
    """One choice of an implementation for one format, in words."""

    fmt: str
    choice: str
    option: str


def traits(row: Format, run: Encode) -> Iterator[Trait]:
    """The choices of an implementation for a format."""
    fixed: dict[str, Any] = {}
    for choice, inputs, options in _questions(row):
        distinct = _distinct(row, choice, inputs, options, fixed)
        if len(distinct) < 2:
            continue  # no difference: no choice
        got = ask(run, inputs)
        matching = [option for option, want in distinct.items() if _same(row, want, got.tolist())]
        if matching:
            fixed[choice] = matching[0]
        text = " or ".join(_TEXT.get(name, name) for name in matching) or f"its own: {_codes(row, got)}"
        yield Trait(row.name, choice, text)
    yield from _nan_trait(row, run)
    if not row.has_zero:
        code = int(ask(run, np.zeros(1, np.float32))[0])
        yield Trait(row.name, "zero", _code(row, code))
    yield from _float64_trait(row, run, fixed)


def _questions(row: Format) -> Iterator[tuple[str, Array, tuple[str, ...]]]:
    """(choice, inputs, options) for a format."""
    if row.kind == "float" and row.max_magnitude > 3:
        yield "rounding", _ties(row), DETERMINISTIC
    top = float(row.exact(row.max_magnitude)) if row.kind != "table" else row.max
    with np.errstate(over="ignore"):
        beyond = np.float32(top) * np.float32(4)
    ends = np.array([beyond, np.inf, -beyond, -np.inf], np.float32)
    overflows = tuple(name for name in OVERFLOWS if _can(row, overflow=name))
    yield "overflow", ends if row.signed else ends[:2], overflows
    if not row.signed:
        options = tuple(name for name in NEGATIVES if name != "error" and _can(row, negative=name))
        yield "negative", np.array([-1.0, -4.0], np.float32), options
    if row.has_subnormals and row.bits <= 8:
        least = float(row.exact(1))
        yield "subnormals", np.array([least, -least][: 1 + row.signed], np.float32), SUBNORMALS[::2]


def _ties(row: Format) -> Array:
    """Inputs that tell the roundings apart: two ties, and a little more and less."""
    base = row.bias << row.mantissa_bits  # the code of 1
    base = base if base + 2 <= row.max_magnitude else 1
    points = []
    for code in (base, base + 1):
        low, high = row.exact(code), row.exact(code + 1)
        step = (high - low) / 8
        points += [(low + high) / 2, low + step, high - step]
    values = [float(Fraction(point)) for point in points]
    return np.array(values + [-value for value in values] if row.signed else values, np.float32)


def _can(row: Format, **policy: Any) -> bool:
    """Whether a format can follow a policy."""
    try:
        oracle.encode(1.0, row, **policy)
    except ValueError:
        return False
    return True


def _distinct(
    row: Format, choice: str, inputs: Array, options: tuple[str, ...], fixed: Mapping[str, Any]
) -> dict[str, list[int]]:
    """The codes of each option; of options with equal codes the first stands for all."""
    found: dict[str, list[int]] = {}
    for option in options:
        want = [oracle.encode(float(x), row, **{**fixed, choice: option}) for x in inputs]
        if want not in found.values():
            found[option] = want
    return found


def _same(row: Format, want: Sequence[int], got: Sequence[int]) -> bool:
    """Equal codes, any NaN as good as another."""
    return all(
        a == b or (b <= row.code_mask and row.is_nan(a) and row.is_nan(b)) for a, b in zip(want, got, strict=True)
    )


def ask(run: Encode, inputs: Array) -> Array:
    """The codes for some inputs; an error where they are none, or others in number."""
    codes = np.asarray(run(inputs)).astype(np.uint64)
    if codes.shape != inputs.shape:
        raise ValueError(f"results: {inputs.size} are wanted, got shape {codes.shape}")
    return codes


def _nan_trait(row: Format, run: Encode) -> Iterator[Trait]:
    """NaN of both signs: a named option, or the codes."""
    inputs = np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32)
    got = ask(run, inputs).tolist()
    for option in _NANS:
        if _can(row, nan=option) and [oracle.encode(x, row, nan=option) for x in inputs] == got:
            yield Trait(row.name, "NaN", option)
            return
    minus_zero = row.has_signed_zero and got == [row.sign_mask, 0]
    yield Trait(row.name, "NaN", "-0, and -NaN to +0" if minus_zero else _codes(row, np.array(got, np.uint64)))


def _float64_trait(row: Format, run: Encode, fixed: Mapping[str, Any]) -> Iterator[Trait]:
    """Just above a tie in float64, which float32 does not see."""
    if row.kind != "float" or fixed.get("rounding") not in ("nearest_even", "nearest_away"):
        return
    code = (row.bias << row.mantissa_bits) + (fixed["rounding"] == "nearest_away")
    tie = float((row.exact(code) + row.exact(code + 1)) / 2)
    x = np.array([np.nextafter(tie, np.inf if fixed["rounding"] == "nearest_even" else 0)])
    try:
        got = int(ask(run, x)[0])
    except (TypeError, ValueError):
        return  # it takes no float64
    once = oracle.encode(x[0], row, rounding=fixed["rounding"])
    yield Trait(row.name, "float64", "rounded once" if got == once else "through float32, rounded twice")


def _code(row: Format, code: int) -> str:
    return f"{hex_code(code, row)} ({value_text(code, row)})" if code <= row.code_mask else f"{code:X} (no code)"


def _codes(row: Format, codes: Array) -> str:
    if (codes > np.uint64(row.code_mask)).all():
        return "codes that the format does not have"
    return ", ".join(_code(row, int(code)) for code in codes)


# --- profiles ---------------------------------------------------------------------------------


class Nearness(NamedTuple):
    """How many probes of how many formats a profile answers as the implementation does."""

    profile: str
    formats: int
    same: int
    asked: int


def nearest(encoders: Mapping[str, Encode]) -> list[Nearness]:
    """The profiles by nearness, the nearest first."""
    answers = {name: (probes(FORMATS[name]), run) for name, run in encoders.items() if name in FORMATS}
    got = {name: ask(run, x) for name, (x, run) in answers.items()}
    asked = sum(x.size for x, _ in answers.values())
    found = []
    for profile in PROFILES:
        alike = [_alike(profile, name, x, got[name]) for name, (x, _) in answers.items()]
        known = [same for same in alike if same is not None]
        found.append(Nearness(profile, len(known), sum(known), asked))
    return sorted(found, key=lambda each: -each.same)


def probes(row: Format) -> Array:
    """Every input of the questions, zeros, NaNs."""
    nans = np.array([0x7FC00000, 0xFFC00000, 0, 0x80000000], np.uint32).view(np.float32)
    return np.concatenate([*(inputs for _, inputs, _ in _questions(row)), nans])


def _alike(profile: str, name: str, x: Array, got: Array) -> int | None:
    try:
        return int(np.count_nonzero(encode(x, name, profile=profile) == got))
    except ValueError:
        return None
