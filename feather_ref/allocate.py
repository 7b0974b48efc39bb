"""Bits that follow the data, at three levels; each gives ordinary rows.

    best_split(x, bits)          how k bits divide into exponent and mantissa: a tensor, row or block
    quantize_mixed(x, fmt)       the same for each block, with a selector beside its scale
    allocate(tensors, budget)    which format for each tensor of a model, for the least error

Every answer is the best of all that were asked for, and ties go to the first: no randomness, no
search that depends on the machine.

Source: design of this project; the knapsack of `allocate` is exact, see `_knapsack`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from feather_ref._blockparts import as_blockable, cut, gather
from feather_ref._choices import AnyTensor, Choice, parse_choice, pieces
from feather_ref._knapsack import MOST, TOTAL_BITS, Solution, solve
from feather_ref._measures import Sums, check_measure, joined, sqnr_bits, stacked, sums
from feather_ref._mixed import (
    MIXED_FORMATS,
    RULES,
    MixedBlockFormat,
    MixedBlockTensor,
    best_of,
    get_mixed_format,
    quantize_mixed,
    splits,
)
from feather_ref._plans import COSTS, Plan, PlanLine, check_fits, fingerprint, read_plan
from feather_ref._safetensors import short
from feather_ref._sources import refuse_masked, row_of
from feather_ref._storedblocks import stored_nbytes
from feather_ref._sweep import Array
from feather_ref.formats import Format, check_int
from feather_ref.tensors import pack_tensor

__all__ = [
    "DEFAULT_FORMATS",
    "MIXED_FORMATS",
    "Measured",
    "MixedBlockFormat",
    "MixedBlockTensor",
    "Plan",
    "PlanLine",
    "Split",
    "allocate",
    "best_split",
    "check_fits",
    "fingerprint",
    "get_mixed_format",
    "measure",
    "quantize_mixed",
    "read_plan",
    "splits",
]

Per = Literal["tensor", "row", "block"]
Progress = Callable[[str, int, int], None]

DEFAULT_FORMATS = ("mxfp4", "mixed4", "nvfp4", "mxfp6_e2m3", "mixed6", "mxfp8_e4m3", "mixed8", "bf16")
"""What `allocate` chooses among."""


# --- one tensor -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Split:
    """The best splits of `bits`.

    rows: the candidates.  choice: an index into them for each group, of shape () for a tensor,
    (..., 1) for rows as in a scale, and of the shape of the blocks for blocks.  errors: the measure
    of each candidate, of shape (len(rows), *choice.shape).
    """

    per: str
    error: str
    rows: tuple[Format, ...]
    choice: NDArray[np.uint8]
    errors: NDArray[np.float64]

    @property
    def fmt(self) -> Format:
        """The row of a whole tensor.  Raises ValueError where there are more."""
        if self.choice.shape:
            raise ValueError(f"per={self.per!r}: there is no one format; see choice and rows")
        return self.rows[int(self.choice)]

    @property
    def counts(self) -> dict[str, int]:
        """How many groups chose each row."""
        found = np.bincount(self.choice.ravel(), minlength=len(self.rows))
        return {row.name: int(count) for row, count in zip(self.rows, found, strict=True)}


def best_split(
    x: object,
    bits: int | Sequence[Format],
    per: Per = "tensor",
    error: str = "mse",
    scale_rule: str | None = None,
    block: int = 32,
) -> Split:
    """The split of k bits into exponent and mantissa that changes x least.

    x: (..., n) floats.  bits: 3 to 16, for all of `splits(bits)`; or the rows to choose among.  per:
    "tensor" or "row", each with the scale of `pack_tensor`; or "block", of `block` numbers along the
    last axis with an e8m0 scale.  error: "mse", "max_relative" or "sqnr".  scale_rule: "amax" (the
    default) or "pow2"; for blocks a name of `SCALE_RULES`, by default the better of floor and rceil.

    Equal errors go to the row with more exponent bits, or the one that comes first.

    >>> even = np.arange(-100, 101, dtype=np.float32)
    >>> best_split(even, 6).fmt.name, best_split(2.0 ** np.arange(-8.0, 8), 6).fmt.name
    ('minifloat(1,4,nan=False)', 'minifloat(5,0,nan=False)')
    >>> best_split([[1, 2, 3, 4], [0.25, 16, 1, 4]], 4, per="row").choice.ravel().tolist()
    [1, 0]

    Use it as any row: `pack_tensor(x, split.fmt, scale="tensor")`; for blocks, a `MixedBlockFormat` of
    the rows chooses by the same rule.

    Raises TypeError or ValueError naming the argument.
    """
    if per not in ("tensor", "row", "block"):
        raise ValueError(f"per must be tensor, row or block; got {per!r}")
    rows = tuple(bits) if isinstance(bits, Sequence) else splits(bits)
    if not rows or not all(isinstance(row, Format) for row in rows):
        raise TypeError(f"bits must be an int or a list of rows, got {bits!r}")
    array, figure = np.atleast_1d(as_blockable(x)), check_measure(error)
    if per == "block":
        rules = RULES if scale_rule is None else (scale_rule,)
        fmt = MixedBlockFormat("splits", rows, (check_int("block", block, 1, 1 << 16),), scale_rules=rules)
        errors = _block_errors(array, fmt, figure)
    else:
        errors = np.stack([_errors(array, row, per, scale_rule or "amax", figure) for row in rows])
    return Split(per, error, rows, np.argmin(errors, axis=0).astype(np.uint8), errors)


def _errors(x: Array, row: Format, per: Any, rule: Any, figure: Callable[[Sums], Array]) -> Array:
    """The error of each row, or of the tensor."""
    of = sums_of(x, pack_tensor(x, row, per, rule))
    if per == "tensor":
        return figure(joined(of))[0]
    return figure(of).reshape(*x.shape[:-1], 1)


def _block_errors(x: Array, fmt: MixedBlockFormat, figure: Callable[[Sums], Array]) -> Array:
    """(rows, ..., blocks), each with its best rule."""
    *lead, n = x.shape
    planes = x.reshape(1, math.prod(lead), n)
    errors = np.empty((len(fmt.elements), planes.shape[1], -(-n // fmt.size)))
    for chunk in cut(planes.shape, fmt.tile):
        target = errors[:, chunk.block_rows, chunk.block_columns]
        target[...] = best_of(gather(planes, chunk, fmt.tile), fmt, figure).errors.reshape(target.shape)
    return errors.reshape(len(errors), *lead, errors.shape[-1])


def sums_of(x: Array, packed: AnyTensor) -> Sums:
    """The sums of each row of a tensor and what it became, a few rows at a time."""
    parts = [sums(before, after) for before, after in zip(pieces(x), pieces(packed), strict=True)]
    return stacked(parts) if parts else Sums(*np.zeros((4, math.prod(x.shape[:-1]))))


# --- a model ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """What each tensor of a model would become in each format; `plan` chooses, for any budget.

    offers: of each tensor, a line for each format that it can have, in the order of the formats.
    """

    error: str
    formats: tuple[str, ...]
    offers: tuple[tuple[PlanLine, ...], ...]
    header_sha256: str = ""

    def plan(
        self,
        budget: float,
        cost: Literal["bytes", "time"] = "bytes",
        times: Mapping[str, float] | None = None,
        most: int = MOST,
    ) -> Plan:
        """The best plan within a budget; see `allocate`."""
        budget = _check_budget(budget)
        seconds = _check_times(cost, times, self.formats)
        offers = self.offers
        if seconds is not None:
            offers = tuple(tuple(_timed(line, seconds[line.format]) for line in each) for each in offers)
        solution = _solve(offers, budget, cost, most)
        if solution is None:
            raise ValueError(f"budget={budget:g} {_least(offers, cost)}")
        lines = tuple(each[pick] for each, pick in zip(offers, solution.picks, strict=True))
        return Plan(budget, cost, self.error, solution.optimal, lines, self.header_sha256)


def measure(
    tensors: Mapping[str, Any],
    formats: Sequence[str | Format] = DEFAULT_FORMATS,
    error: str = "mse",
    header_sha256: str = "",
    progress: Progress | None = None,
) -> Measured:
    """Pack every tensor to every format, one at a time, and keep the errors: the slow half of `allocate`.

    Raises what `allocate` raises.
    """
    choices = _check_choices(formats)
    check_measure(error)
    offers = tuple(_offers(name, x, choices, error) for name, x in _floats(tensors, progress))
    return Measured(error, tuple(choice.name for choice in choices), offers, header_sha256)


def allocate(
    tensors: Mapping[str, Any],
    budget: float,
    cost: Literal["bytes", "time"] = "bytes",
    *,
    formats: Sequence[str | Format] = DEFAULT_FORMATS,
    error: str = "mse",
    times: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> Plan:
    """A format for each tensor, so that the error is the least that the budget allows.

    tensors: float arrays or packed tensors by name, read one at a time; others are left out.  budget:
    for "bytes", the mean bits a value, scales and selectors counted, as `Plan.bits_per_value` has it; for
    "time", seconds for all tensors together.  formats: names as `mxfp4`, `mixed8`, `e4m3/row`, `bf16`; a
    tile format is not offered to a vector.  error: the measure, summed over tensors with their numbers of values for
    weights; a format that makes Inf or NaN of a number is not offered to its tensor.  times: seconds
    a value of each format, for "time".  progress: called as progress(name, tensors done, in all).

    The plan is the best one, exactly: no other has a lower error; of equal errors it has the least
    cost, and then the first formats, tensor by tensor.  Errors count to 2**-58 of their greatest sum.
    Only where more than 131072 partial sums are left does it say `optimal=False`.

    >>> x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32)
    >>> plan = allocate({"small": x, "large": 100 * x}, 6.25, formats=("mxfp4", "mxfp8"))
    >>> plan.formats, plan.bits_per_value, plan.optimal
    ({'small': 'mxfp4', 'large': 'mxfp8_e4m3'}, 6.25, True)

    Raises TypeError or ValueError naming the argument or the tensor, also where the budget is below
    what the cheapest formats take.
    """
    _check_budget(budget)
    _check_times(cost, times, [choice.name for choice in _check_choices(formats)])
    return measure(tensors, formats, error, progress=progress).plan(budget, cost, times)


def _floats(tensors: Mapping[str, Any], progress: Progress | None) -> Iterator[tuple[str, Array]]:
    """The tensors of floats, as arrays."""
    if not isinstance(tensors, Mapping):
        raise TypeError(f"tensors must be a mapping from names, got {type(tensors).__name__}")
    for done, name in enumerate(tensors):
        if not isinstance(name, str):
            raise TypeError(f"tensors: names are text, got {type(name).__name__}")
        tensor = tensors[name]
        refuse_masked(tensor, f"tensor {short(name)}")
        x = tensor.dequantize() if hasattr(tensor, "dequantize") else np.asarray(tensor)
        row = row_of(x.dtype) if x.dtype.kind in "fV" else None
        if row is not None and row.kind == "float":
            yield name, x
        if progress is not None:
            progress(name, done + 1, len(tensors))


def _offers(name: str, x: Array, choices: Sequence[Choice], error: str) -> tuple[PlanLine, ...]:
    """Every choice that the tensor can have, measured."""
    figure, lines, why = check_measure(error), [], ""
    for choice in choices:
        if not choice.takes(x.shape):
            continue
        try:
            packed = choice.quantize(x, error)
        except ValueError as problem:  # a NaN, or numbers beyond any scale
            why = f"; {choice}: {problem}"
            continue
        of = joined(sums_of(np.atleast_1d(x), packed))
        found = float(figure(of)[0])
        if math.isfinite(found):
            bits = sqnr_bits(of)
            sqnr = None if bits is None or math.isinf(bits) else bits
            lines.append(PlanLine(name, x.shape, choice.name, stored_nbytes(packed), None, found, sqnr))
    if not lines:
        raise ValueError(f"tensor {short(name)}: none of these formats holds its numbers{why}")
    return tuple(lines)


def _timed(line: PlanLine, seconds: float) -> PlanLine:
    """A line with its seconds; seconds: a value."""
    total = seconds * line.values
    if not math.isfinite(total):
        raise ValueError(f"times: {line.format} with {seconds:g} takes endless for {line.values} values")
    return replace(line, seconds=total)


def _solve(offers: Sequence[Sequence[PlanLine]], budget: float, cost: str, most: int) -> Solution | None:
    """The line of each tensor, in integers."""
    if cost == "bytes":
        costs = [np.array([line.bytes for line in lines], np.int64) for lines in offers]
        limit, values = math.floor(Fraction(budget) * _values(offers) / 8), _values(offers)
        limit += values > 0 and 8 * (limit + 1) / values <= budget  # 4.8 is below 24/5, and means it
    else:
        times = [[Fraction(line.seconds or 0) for line in lines] for lines in offers]
        unit = _unit([*times, [Fraction(budget)]])
        costs = [np.array([math.ceil(x / unit) for x in part], np.int64) for part in times]
        limit = math.floor(Fraction(math.nextafter(budget, math.inf)) / unit)  # for the like reason
    limit = min(limit, sum(int(part.max()) for part in costs))  # what is left over is no matter
    errors = [[Fraction(line.error) * line.values for line in lines] for lines in offers]
    unit = _unit(errors)
    return solve(costs, [np.array([round(x / unit) for x in part], np.int64) for part in errors], limit, most)


def _unit(parts: Sequence[Sequence[Fraction]]) -> Fraction:
    """A power of two that the greatest numbers of all parts hold less than 2**60 times together."""
    total = sum((max(part) for part in parts), Fraction(0))
    power = total.numerator.bit_length() - total.denominator.bit_length() + 2
    return Fraction(2) ** (power - TOTAL_BITS)


def _values(offers: Sequence[Sequence[PlanLine]]) -> int:
    return sum(lines[0].values for lines in offers)


def _least(offers: Sequence[Sequence[PlanLine]], cost: str) -> str:
    if cost == "time":
        fastest = math.fsum(min(line.seconds or 0 for line in lines) for lines in offers)
        return f"seconds is too little: the fastest formats take {_upwards(fastest):g}"
    least = Fraction(8 * sum(min(line.bytes for line in lines) for lines in offers), max(_values(offers), 1))
    shown = Fraction(math.ceil(least * 10**4), 10**4)
    return f"bits a value is too little: the smallest formats take {float(shown):.4f}"


def _upwards(x: float) -> float:
    """x in six digits, not less, so that it is enough when it is typed; the last place of a float64 does not count.

    >>> _upwards(0.1 + 0.2), _upwards(1.2345671)
    (0.3, 1.23457)
    """
    return float(Context(prec=6, rounding=ROUND_CEILING).create_decimal_from_float(x * (1 - 2.0**-51)))


# --- checks -----------------------------------------------------------------------------------


def _check_choices(formats: object) -> list[Choice]:
    if isinstance(formats, str) or not isinstance(formats, Sequence):
        raise TypeError(f"formats must be a list of names, got {type(formats).__name__}")
    choices = [parse_choice(fmt) for fmt in formats]
    if not choices:
        raise ValueError("formats must name a format")
    names = [choice.name for choice in choices]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"formats: {twice[0]} stands there twice")
    return choices


def _check_budget(budget: Any) -> float:
    if isinstance(budget, bool) or not isinstance(budget, (int, float, np.integer, np.floating)):
        raise TypeError(f"budget must be a number, got {type(budget).__name__}")
    number = _as_float(budget)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"budget must be finite and positive, got {number:g}")
    return number


def _as_float(x: Any) -> float:
    """A number as a float; an int beyond every float is Inf."""
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def _check_times(cost: object, times: object, names: Sequence[str]) -> dict[str, float] | None:
    """Seconds a value of each choice, for the cost "time"."""
    if cost not in COSTS:
        raise ValueError(f"cost must be one of {', '.join(COSTS)}; got {cost!r}")
    if (times is not None) != (cost == "time"):
        raise ValueError(f"times: cost={cost!r} {'takes none' if cost == 'bytes' else 'needs seconds a value'}")
    if times is None:
        return None
    if not isinstance(times, Mapping):
        raise TypeError(f"times must be a mapping from formats to seconds a value, got {type(times).__name__}")
    found = {parse_choice(name).name: seconds for name, seconds in times.items()}
    for name in names:
        if name not in found:
            raise ValueError(f"times: nothing is said of {name}; it has {', '.join(found)}")
    for name, seconds in found.items():
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise TypeError(f"times: {name} must be a number, got {type(seconds).__name__}")
        if not (math.isfinite(_as_float(seconds)) and seconds > 0):
            raise ValueError(f"times: {name} must be finite and positive, got {_as_float(seconds):g}")
    return {name: float(seconds) for name, seconds in found.items()}
