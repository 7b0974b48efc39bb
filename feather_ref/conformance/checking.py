"""check: a Python function judged in one call.

    print(conformance.check(my_encoder, "e4m3"))
    print(conformance.check(lambda x: my_code(x), "e4m3", scalar=True))

An exception of the function is a verdict, with the input that caused it.

Source: design of this project.
"""

from __future__ import annotations

import contextlib
import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref import golden
from feather_ref.blocks import BlockFormat, get_block_format
from feather_ref.conformance.block_vectors import block_id
from feather_ref.conformance.c_library import Library
from feather_ref.conformance.judge import Suite, live_suite, number_suite, refuse_idle, suite
from feather_ref.conformance.process import CrashError, HangError, Isolated, if_written
from feather_ref.conformance.recompute import as_values
from feather_ref.conformance.report import Report, Status
from feather_ref.conformance.tally import Batch, Tally
from feather_ref.conformance.vectors import sibling
from feather_ref.formats import Format, get_format
from feather_ref.golden import Question
from feather_ref.policy import Policies, Policy, resolve

Array = NDArray[Any]
Function = Callable[..., Any]
Progress = Callable[[int, int], None]

LINES = 10  # of a result
EXAMPLES = 4  # among them
_SHORT = {name: token for token, name in golden.TOKENS.items()}


class FaultError(Exception):
    """An implementation that failed on an input: not a wrong number, but none at all."""

    def __init__(self, message: str, operands: tuple[int, ...] = (), status: Status = "error") -> None:
        """operands: bit patterns of the input; nothing where it is not known."""
        super().__init__(message)
        self.message = message
        self.operands = operands
        self.status = status


@dataclass(frozen=True)
class Result:
    """What `check` found; true if all passed.  Its text has at most 10 lines."""

    name: str
    report: Report

    def __bool__(self) -> bool:
        return bool(self.report)

    def __str__(self) -> str:
        return "\n".join(self._text())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _text(self) -> list[str]:
        found = self.report
        if found.status != "fail":
            return [found.title().replace(found.id, self.name, 1)]
        lines = [f"{self.name}: {found.failed} of {found.judged} inputs wrong"]
        title = f"FAIL {found.id.rpartition('.')[0]} "
        lines += ["  " + line.removeprefix(title) for line in found.lines[:EXAMPLES]]
        lines += replace(found, lines=()).text()[1:][: LINES - len(lines)]
        return lines


def check(
    fn: Function,
    fmt: str | Format,
    *,
    scalar: bool = False,
    op: str = "convert",
    source: str = "fp32",
    exhaustive: bool = False,
    seed: int | None = None,
    progress: bool | Progress = False,
    **policies: Any,
) -> Result:
    """Judge a function.

    fn: takes an array and returns codes, of the same length; with scalar=True takes one Python
    number and returns one int; or a C function, by `library`, which may die: the result names the signal and
    the input.  bf16 inputs are uint16 patterns.  op: convert; decode (codes to
    float32); add, subtract, multiply, divide, compare (two codes each); fma (three).  source: fp32,
    fp16, bf16 or float64, for conversions.  exhaustive: every input there is, else those where a
    result can change; lists and float64 have no more.  seed: for one more input of each run, where not all
    are taken.  progress: True for a bar on stderr,
    or a function of done and total.  policies: those of `encode`; n_bits and random for stochastic
    rounding.  Formats and policies without a golden file are answered by the exact oracle.

    fmt may be a block format, an MX one or nvfp4; for mxint8, whose name is also an element's, say op.
    op is then block (the default: fn takes float32 blocks (n, k) and returns scale codes (n,) and
    element codes (n, k)), scale (amax to scale codes), element (quotients to codes) or dequantize
    (scale codes and element codes to float32 (n, k)).  nvfp4 has one operand more, the tensor's: its
    amax first for block, its scale first for dequantize, its amax last for scale.  The only policy is
    scale_rule, a name of `SCALE_RULES`.  seed: for 64 blocks more.

    >>> import feather_ref as fr
    >>> bool(check(lambda x: fr.encode(x, "e4m3"), "e4m3"))
    True
    >>> print(check(lambda x: fr.encode(x, "e4m3", rounding="toward_zero"), "e4m3").report.notes[0])
    equals rounding='toward_zero'
    >>> def mine(x):
    ...     blocks = fr.quantize_blocks(x, "mxfp4", scale_rule="rceil")
    ...     return blocks.scales, blocks.codes
    >>> print(check(mine, "mxfp4").report.notes[0])
    agrees with rule 'rceil'

    Raises TypeError or ValueError naming the argument; what fn does wrong is in the result.
    """
    if not callable(fn):
        raise TypeError(f"fn must be a function, got {type(fn).__name__}")
    if op in golden.BLOCK_OPERATIONS or (op == "convert" and _is_block_format(fmt)):
        return _check_blocks(fn, fmt, op, scalar, source, exhaustive, seed, progress, policies)
    row = get_format(fmt)
    s = _find(op, source, row, dict(policies), exhaustive, seed)
    refuse_idle(s, exhaustive, seed)
    run = scalar_function(fn, s) if scalar else array_function(fn, s)
    with _bar(progress, s.id) as step:
        report = run_function(s, run, step)
    if isinstance(fn, Library):
        report = if_written(s, report)
    if report.status == "error" and not scalar and _takes_one_number(run, s):
        report = replace(report, message=f"{report.message}; is it a function of one number? then scalar=True")
    said = ", ".join(f"{key}={value!r}" for key, value in s.question.policies.items())
    return Result(f"{row.name} {op}{f' ({said})' if said else ''}", report)


def _check_blocks(
    fn: Function, fmt: Any, op: str, scalar: bool, source: str, exhaustive: bool, seed: int | None,
    progress: bool | Progress, policies: dict[str, Any],
) -> Result:  # fmt: skip
    """The same for blocks."""
    bfmt = get_block_format(fmt)
    op = "block" if op == "convert" else op
    said_rule = policies.pop("scale_rule", None)
    if said_rule is not None and not isinstance(said_rule, str):
        raise TypeError(f"scale_rule must be a name, got {type(said_rule).__name__}")
    if said_rule is not None and op not in ("block", "scale"):
        raise ValueError(f"scale_rule={said_rule!r}: op={op!r} asks for no scales")
    rule = bfmt.scale_rule if said_rule is None else said_rule
    if policies or source != "fp32":
        name = next(iter(policies), "source")
        raise TypeError(f"{name}: blocks have no policy but scale_rule, and float32 for their source")
    if scalar:
        raise TypeError("scalar: a block is an array; fn takes (n, k) of them")
    s = suite(block_id(op, bfmt, rule, exhaustive), exhaustive, seed)
    refuse_idle(s, exhaustive, seed)
    with _bar(progress, s.id) as step:
        report = run_function(s, array_function(fn, s), step)
    if isinstance(fn, Library):
        report = if_written(s, report)
    said = f" (scale_rule={rule!r})" if op in ("block", "scale") else ""
    return Result(f"{bfmt.name} {op}{said}", report)


def _is_block_format(fmt: Any) -> bool:
    """Whether a format is one of blocks alone; mxint8 is an element, too."""
    if isinstance(fmt, BlockFormat):
        return True
    try:
        get_format(fmt)
    except (TypeError, ValueError):
        try:
            return bool(get_block_format(fmt))
        except (TypeError, ValueError):
            return False
    return False


# --- which vectors ----------------------------------------------------------------------------


def _find(op: str, source: str, row: Format, given: dict[str, Any], exhaustive: bool, seed: int | None) -> Suite:
    """The suite of the arguments: a golden file, or the oracle's own runs."""
    operand = {"n_bits": given.pop("n_bits", None), "random": given.pop("random", None)}
    if op not in golden.OPERATIONS:
        raise ValueError(f"op must be one of {', '.join(golden.OPERATIONS)}; got {op!r}")
    if source not in _SOURCES:
        raise ValueError(f"source must be one of {', '.join(_SOURCES)}; got {source!r}")
    question = _question(op, source, row, given, **operand)
    for shape in ("run", "tab", "dig") if _is_named(row) else ():
        name = id_of(question._replace(shape=shape))
        if (sibling(name) if shape == "run" else name) in golden.manifest():
            return number_suite(name, exhaustive, seed)
    if op != "convert":
        raise ValueError(f"op={op!r}: there are no vectors for {row.name} with these policies")
    return live_suite(question, id_of(question), exhaustive, seed, row)


def _is_named(row: Format) -> bool:
    """Whether a row is what its name says; one of one's own may bear any name."""
    try:
        return get_format(row.name) == row
    except ValueError:
        return False


_SOURCES = ("fp32", "fp16", "bf16", "float64")
_OPERAND_OPS = ("add", "subtract", "multiply", "divide", "fma")


def _question(
    op: str, source: str, row: Format, given: dict[str, Any], n_bits: int | None, random: int | None
) -> Question:
    """What is asked, with the defaults of the row."""
    if op in ("decode", "compare"):
        if given:
            raise TypeError(f"{next(iter(given))}: {op} has no policies")
        return Question(op, row.name, "fp32" if op == "decode" else row.name, {}, None, None, "tab")
    policy = resolve(row, **Policies(**{key: value for key, value in given.items() if value is not None}))  # type: ignore[typeddict-item]
    policies: dict[str, Any] = {"rounding": policy.rounding, "overflow": policy.overflow}
    policies |= _choices(row, given, policy)
    _check_operand(policy.rounding, n_bits, random)
    return Question(op, row.name if op in _OPERAND_OPS else source, row.name, policies, n_bits, random, "run")


def _choices(row: Format, given: dict[str, Any], policy: Policy) -> dict[str, Any]:
    """What is not the row's default; negatives also where it is, but said: the default file may be silent there."""
    found: dict[str, Any] = {}
    if policy.nan != ("canonical" if row.has_nan else "error"):
        found["nan"] = policy.nan
    said = given.get("negative") is not None or given.get("profile") is not None
    if not row.signed and (said or policy.negative != row.negative):
        found["negative"] = policy.negative
    if policy.subnormals != "keep":
        found["subnormals"] = policy.subnormals
    return found


def _check_operand(rounding: str, n_bits: object, random: object) -> None:
    """The operand of stochastic rounding, and of no other."""
    for name, value in (("n_bits", n_bits), ("random", random)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name} must be an int, got {type(value).__name__}")
        if not rounding.startswith("stochastic"):
            raise ValueError(f"{name}={value}: it is for stochastic rounding, not {rounding}")
        if value < 0:
            raise ValueError(f"{name} must not be negative, got {value}")


def id_of(question: Question) -> str:
    """The id that asks a question.

    >>> id_of(golden.question("convert.f32.e4m3.rne.sat.run"))
    'convert.f32.e4m3.rne.sat.run'
    """
    policies = dict(question.policies)
    parts = [question.op, *(_SHORT.get(name, name) for name in (question.source, question.target))]
    parts += [_SHORT.get(policies.pop("rounding", ""), "exact"), _SHORT.get(policies.pop("overflow", ""), "none")]
    parts += [f"{name}={policies[name]}" for name in golden.CHOICES if name in policies]
    parts += [f"{key}={value}" for key, value in (("n", question.n_bits), ("r", question.random)) if value is not None]
    return ".".join([*parts, question.shape])


# --- calling ----------------------------------------------------------------------------------


def array_function(fn: Function, s: Tally) -> Function:
    """A function of arrays; one of C runs in a process of its own, and of a block it gets each number for itself."""
    if not isinstance(fn, Library):
        return fn
    if s.width == 1:
        return Isolated(fn, s.result_dtype)
    whole = Isolated(fn, np.dtype(f"V{s.width * s.result_dtype.itemsize}"))

    def blocks(*inputs: Array) -> Array:
        found = whole(*inputs[:-1], *inputs[-1].T)
        return found.view(s.result_dtype).reshape(-1, s.width)

    return blocks


def scalar_function(fn: Function, s: Suite) -> Function:
    """A function of one number, called for each; it raises FaultError with the input."""

    def each(*columns: Array) -> Array:
        found = np.empty(columns[0].size, np.uint64)
        for i, numbers in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            try:
                found[i] = _scalar_code(fn(*numbers), s)
            except FaultError:
                raise
            except FAULTS as error:
                raise FaultError(_describe(error), tuple(int(_bits(column)[i]) for column in columns)) from error
        return found

    return each


def _scalar_code(value: Any, s: Suite) -> int:
    """One result as an unsigned integer."""
    if s.question.op == "decode":
        if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)):
            raise TypeError(f"returned {value!r}; a float is wanted")
        with np.errstate(all="ignore"):
            single = np.float32(value)
        exact = bool(single == value or np.isnan(single))
        return int(single.view(np.uint32)) if exact else (1 << 64) - 1
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"returned {value!r}, a {type(value).__name__}; a code is an int")
    within = -(1 << 63) <= value < 1 << 64
    return int(value) % (1 << 64) if within else (1 << 64) - 1  # a negative one, as in an array of int64, is no code


def _takes_one_number(fn: Function, s: Suite) -> bool:
    """Whether a function answers for one ordinary number, and not for an array of two."""
    some = tuple(column[:2] for column in next(s.inputs()).inputs)
    try:
        _scalar_code(fn(*(column[0].item() for column in some)), s)
    except FAULTS:
        return False
    try:
        call(fn, some, s)
    except FaultError:
        return True
    return False


def run_function(s: Tally, fn: Function, step: Progress | None = None, thorough: bool = True) -> Report:
    """Give every batch to a function, and report.

    A function may fail for inputs about which nothing is asked: it is asked again without them.
    """
    refused: list[str] = []
    for batch in s.inputs():
        try:
            try:
                results = call(fn, batch.inputs, s)
            except FaultError as fault:
                results = _without_the_rest(fn, batch, s, fault)
                refused = refused or [f"where nothing is asked it fails: {fault.message}"]
            s.judge(batch, results)
        except FaultError as fault:
            where = f" for {s.input_text(fault.operands)}" if fault.operands else ""
            return replace(s.report(thorough=False), status=fault.status, message=fault.message + where)
        if step:
            step(batch.offset + batch.bits[0].size, s.domain)

    def ask(patterns: Array) -> Array:
        if not isinstance(s, Suite):
            raise FaultError("blocks have no boundaries of their own")
        bits = patterns.astype(batch.bits[0].dtype)
        return s.check_results(call(fn, (as_values(bits, s.question),), s), bits.size).astype(np.uint64)

    try:
        found = s.report(ask, thorough)
    except FaultError:
        found = s.report(None, thorough)
    return replace(found, notes=(*found.notes, *refused))


def _without_the_rest(fn: Function, batch: Batch, s: Tally, fault: FaultError) -> Array:
    """The results where something is asked, zero elsewhere; the fault itself where all is asked."""
    asked = s.asked(batch)
    if asked.all():
        raise fault
    if not asked.any():
        return np.zeros((asked.size, s.width) if s.width > 1 else asked.size, s.result_dtype)
    some = call(fn, tuple(column[asked] for column in batch.inputs), s)
    results = np.zeros((asked.size, *some.shape[1:]), some.dtype)
    results[asked] = some
    return results


FAULTS = (Exception, SystemExit)
"""What an implementation may raise; one that ends Python must not end the judge with exit code 0."""


def call(fn: Function, inputs: tuple[Array, ...], s: Tally) -> Array:
    """The results of a function, checked; FaultError with the input where there are none."""
    try:
        with np.errstate(all="ignore"):
            results = fn(*(column.copy() for column in inputs) if inputs[0].size < _SMALL else inputs)
    except FaultError:
        raise
    except HangError as error:  # to look for its input would be to wait again
        raise FaultError(str(error), (), "timeout") from error
    except CrashError as error:
        raise FaultError(str(error), _culprit(fn, inputs), "crash") from error
    except FAULTS as error:
        raise FaultError(_describe(error), _culprit(fn, inputs)) from error
    try:
        return s.check_results(results, len(inputs[0]))
    except FAULTS as error:  # also those of an array of another library
        raise FaultError(_describe(error)) from error


_SMALL = 1 << 20  # inputs that are copied first, so that a function may write on them


def _culprit(fn: Function, inputs: tuple[Array, ...]) -> tuple[int, ...]:
    """The first input that makes a function fail by itself, by halves; nothing if none does."""

    def fails(start: int, stop: int) -> bool:
        try:
            with np.errstate(all="ignore"):
                fn(*(column[start:stop].copy() for column in inputs))
        except FAULTS:
            return True
        return False

    start, stop = 0, len(inputs[0])
    while stop - start > 1:
        middle = (start + stop) // 2
        if fails(start, middle):
            stop = middle
        elif fails(middle, stop):
            start = middle
        else:
            return ()
    return tuple(int(bits) for column in inputs for bits in np.ravel(_bits(column)[start]))


def _bits(column: Array) -> Array:
    return column.view(f"u{column.itemsize}")


def _describe(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


@contextlib.contextmanager
def _bar(progress: bool | Progress, name: str) -> Iterator[Progress | None]:
    """A bar on stderr where that is asked for, or the caller's own."""
    if callable(progress):
        yield progress
        return
    if not progress:
        yield None
        return
    from feather_ref.conformance.progress import bar  # noqa: PLC0415 - rich is slow to load

    with bar(name) as step:
        yield step
