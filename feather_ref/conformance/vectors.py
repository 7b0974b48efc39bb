"""Vectors: the inputs of a suite in their order, and what each of them should give.

Every shape of file answers the same three questions, for a range of indices::

    operands(start, stop)   the bit patterns of the inputs, one array for each operand
    expected(start, stop)   the results, in the storage type of the target
    digits(index)           how the results at these indices are judged (0 1 2 3)

Nothing is kept for a whole domain: a run file gives 2**32 results from some hundred lines.

Source: data/golden/README.md, which defines the shapes.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from feather_ref import golden, oracle
from feather_ref.conformance.recompute import POLICY_NAMES, compute, is_nan, pattern_dtype, row_named
from feather_ref.formats import Format
from feather_ref.golden import CorruptError, Question

Array = NDArray[Any]
CHUNK = 1 << 22  # inputs of a batch
MANY = 1 << 16  # indices of one batch for which its lines are written out
BLOCK = 1 << 20  # indices that are taken apart at a time
_F32 = row_named("fp32")
LISTED = "the lines of the list"
F64_ENDS = "run ends and one float64 step either side: complete for a monotone converter"
F64_RUNS = 1024  # so many runs of a list give float64 inputs: the oracle answers each of them


class Vectors(Protocol):
    """What a suite asks of a file."""

    @property
    def size(self) -> int:
        """How many inputs there are."""

    @property
    def proof(self) -> str:
        """What a pass proves: every input, or a part of them."""

    def operands(self, start: int, stop: int) -> tuple[Array, ...]:
        """Bit patterns, one array for each operand."""

    def expected(self, start: int, stop: int) -> Array:
        """The results."""

    def digits(self, index: Array) -> Array:
        """The judge digits."""


# --- run files --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Steps:
    """A run file: `keys` are the patterns that are tried, None for every one there is.

    widen: what makes a pattern of the file's source from a key, where the source is a narrower one.
    """

    lo: Array
    hi: Array
    z: Array
    j: Array
    source: Format
    keys: Array | None
    proof: str
    widen: Callable[[Array], Array] | None = None

    @property
    def size(self) -> int:
        """The number of keys, or of patterns."""
        return 1 << self.source.bits if self.keys is None else self.keys.size

    def operands(self, start: int, stop: int) -> tuple[Array, ...]:
        """One operand."""
        dtype = pattern_dtype(self.source)
        if self.keys is None:
            return (_ramp(dtype)[: stop - start] + dtype.type(start),)  # arange is slower
        return (self.keys[start:stop].astype(dtype, copy=False),)

    def expected(self, start: int, stop: int) -> Array:
        """Each line's result, as often as the line has inputs here."""
        if self.keys is not None or self.widen is not None:
            return self.z[self.line(np.arange(start, stop))]
        return self._repeated(self.z, start, stop)

    def _repeated(self, column: Array, start: int, stop: int) -> Array:
        """A column of the file for every pattern of a range."""
        first, last = np.searchsorted(self.hi, [start, stop - 1])
        part = slice(first, last + 1)
        lo, hi = np.maximum(self.lo[part], start), np.minimum(self.hi[part], stop - 1)
        return np.repeat(column[part], hi - lo + 1)

    def constant(self, start: int, stop: int) -> int | None:
        """The result of a range that lies on one line; most of all float32 do."""
        if self.keys is not None or self.widen is not None:
            return None
        first, last = np.searchsorted(self.hi, [start, stop - 1])
        return int(self.z[first]) if first == last else None

    def digits(self, index: Array) -> Array:
        """The digit of each one's line."""
        if self.keys is None and self.widen is None and index.size > MANY:  # quicker than to look each one up
            start, stop = int(index.min()), int(index.max()) + 1
            return self._repeated(self.j, start, stop)[index - start]
        return self.j[self.line(index)]

    def line(self, index: Array) -> Array:
        """The lines that inputs are on."""
        keys = index if self.keys is None else self.keys[index]
        return np.searchsorted(self.hi, (self.widen(keys) if self.widen else keys).astype(np.int64))


@lru_cache(maxsize=2)
def _ramp(dtype: np.dtype[Any]) -> Array:
    """0, 1, 2 ... for a batch."""
    return np.arange(CHUNK, dtype=dtype)


_WIDEN: dict[str, Callable[[Array], Array]] = {
    "fp16": lambda keys: keys.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32),
    "bf16": lambda keys: keys.astype(np.uint32) << np.uint32(16),
}
"""How the patterns of narrower sources become those of float32, exactly."""


def steps(
    question: Question, runs: golden.Runs, exhaustive: bool, seed: int | None, base: str | Format = "fp32"
) -> Vectors:
    """The inputs that a run list gives: ends and middle of each run, all, or those of another source.

    Inf and NaN are among them also within a run: a converter has code of its own for them.

    base: the source that the list speaks of.
    """
    source = row_named(question.source)
    dtype = pattern_dtype(row_named(question.target))
    lo, hi, z = runs.lo.astype(np.int64), runs.hi.astype(np.int64), runs.z.astype(dtype)
    if question.source == "float64":
        return _float64(question, lo, hi, z, runs.j, seed)
    widen = None if source == row_named(base) else _WIDEN.get(question.source)
    if exhaustive or source.bits <= 16:
        return Steps(lo, hi, z, runs.j, source, None, "every input", widen)
    keys = [lo, (lo + hi) // 2, hi, _specials(source)]
    if seed is not None:
        keys.append(np.random.default_rng(seed).integers(lo, hi, endpoint=True))
    proof = "run ends and middles: complete for a monotone converter"
    return Steps(lo, hi, z, runs.j, source, np.unique(np.concatenate(keys)), proof)


def _specials(source: Format) -> Array:
    """Zero, Inf and the first NaN, of both signs."""
    inf, sign = source.exponent_mask, source.sign_mask
    return np.array([base + x for base in (0, sign) for x in (0, inf, inf + 1)], np.int64)


def _float64(question: Question, lo: Array, hi: Array, z: Array, j: Array, seed: int | None) -> Vectors:
    """The ends of float32 runs as float64, one step either side, answered by the oracle.

    A code is judged as the float32 file judges it, and nothing is said where that says nothing.
    """
    numbers = (lo & _F32.magnitude_mask) <= _F32.exponent_mask
    of_numbers, of_nans = (
        {code: digit for code, digit in zip(z[some].tolist(), j[some].tolist(), strict=True) if digit}
        for some in (numbers, ~numbers)
    )
    silent = lo[j == 0], hi[j == 0]
    proof = F64_ENDS
    if lo.size > F64_RUNS:
        proof = f"the ends of {F64_RUNS} of {lo.size} runs and one float64 step either side"
        picked = np.random.default_rng(seed or 0).choice(lo.size, F64_RUNS, replace=False)
        lo, hi, j = lo[np.sort(picked)], hi[np.sort(picked)], j[np.sort(picked)]
    ends = np.concatenate([lo, hi, _specials(_F32)]).astype(np.uint32).view(np.float32)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        near = ends.astype(np.float64).view(np.uint64)
    one = np.uint64(1)
    bits = np.unique(np.concatenate([near - one, near, near + one]))
    row, policies = row_named(question.target), _oracle_policies(question)
    codes = [_answer(pattern, row, policies, silent) for pattern in bits.tolist()]
    found = np.array([0 if code is None else code for code in codes], pattern_dtype(row))
    judged = np.array(
        [
            0 if code is None else (of_nans if nan else of_numbers).get(code, 1)
            for code, nan in zip(codes, np.isnan(bits.view(np.float64)).tolist(), strict=True)
        ],
        np.uint8,
    )
    return Lines((bits,), found, judged, proof)


def _answer(pattern: int, row: Format, policies: dict[str, Any], silent: tuple[Array, Array]) -> int | None:
    """The oracle's code for a float64; None where the float32 file says nothing."""
    x = np.uint64(pattern).view(np.float64)
    with np.errstate(all="ignore"):
        single = np.float32(x)
    near = int(single.view(np.uint32))
    if np.abs(single) < np.abs(x):  # outward, so that a tiny negative is no zero
        near += 1
    if ((silent[0] <= near) & (near <= silent[1])).any():
        return None
    return oracle.encode(x, row, **policies)


def _oracle_policies(question: Question) -> dict[str, Any]:
    """The policies of a question as the oracle takes them."""
    given: dict[str, Any] = {key: value for key, value in question.policies.items() if key in POLICY_NAMES}
    if question.n_bits is not None:
        given |= {"n_bits": question.n_bits, "random": question.random}
    if given.get("subnormals") == "flush_input":
        given["source"] = row_named(question.source)
    return given


def live_runs(row: Format, source: Format, policies: dict[str, Any]) -> golden.Runs:
    """A run list straight from the oracle, for formats and policies without a file.

    What a policy calls an error has no verdict: NaN into a format without NaN unless something else
    is said, negatives by negative="error".  NaN inputs are judged by their bits where nan= names them.
    """
    # 1. what the policies say of NaN and of negatives; an error is something for the oracle, and then nothing
    nan = policies.get("nan", "canonical" if row.has_nan else "error")
    negative = "" if row.signed else policies.get("negative", row.negative)
    errors = {"nan": "zero"} if nan == "error" else {}
    errors |= {"negative": "zero"} if negative == "error" else {}
    lo, hi, z = np.array(oracle.runs(row, source, **{**policies, **errors}), np.uint64).T
    # 2. cut the runs where NaN and negatives begin and end: the oracle joins what gives one code
    sign, inf = source.sign_mask, source.exponent_mask
    edges = [inf + 1, sign, sign + 1, sign + inf + 1] if sign else [inf + 1]
    cut = np.unique(np.concatenate([lo, np.array(edges, np.uint64)]))
    z = z[np.searchsorted(hi, cut)]
    hi = np.concatenate([cut[1:] - np.uint64(1), hi[-1:]])
    # 3. the digits
    magnitude = cut & np.uint64(source.magnitude_mask)
    is_nan_input = magnitude > inf
    is_negative = (cut > magnitude) & (magnitude > 0) & ~is_nan_input
    by_class = np.array([row.is_nan(code) for code in z.tolist()]) & ~(is_nan_input & (nan != "canonical"))
    silent = (is_nan_input & (nan == "error")) | (is_negative & (negative == "error"))
    j = np.where(silent, 0, np.where(by_class, 2, 1)).astype(np.uint8)
    return golden.Runs(cut, hi, np.where(silent, np.uint64(0), z), j)


# --- tables and lists -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Table:
    """A .tab file: a result for every code, or for every pair of codes, row-major."""

    widths: tuple[int, ...]
    z: Array
    j: Array
    proof: str = "every input"

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.z.size

    def operands(self, start: int, stop: int) -> tuple[Array, ...]:
        """The codes of the cells."""
        return unravel(np.arange(start, stop), self.widths)

    def expected(self, start: int, stop: int) -> Array:
        """The cells."""
        return self.z[start:stop]

    def digits(self, index: Array) -> Array:
        """Their digits."""
        return self.j[index]


@dataclass(frozen=True, eq=False)
class Lines:
    """A .tv file: operands, result and digit of each line; names: first and last line of each class."""

    patterns: tuple[Array, ...]
    z: Array
    j: Array
    proof: str = LISTED
    names: tuple[tuple[int, int, str], ...] = ()

    @property
    def size(self) -> int:
        """The number of lines."""
        return self.z.size

    def operands(self, start: int, stop: int) -> tuple[Array, ...]:
        """The operands of the lines; copies, for whoever takes them may write on them."""
        return tuple(column[start:stop].copy() for column in self.patterns)

    def expected(self, start: int, stop: int) -> Array:
        """Their results."""
        return self.z[start:stop]

    def digits(self, index: Array) -> Array:
        """Their digits."""
        return self.j[index]

    def name(self, index: int) -> str:
        """What the manifest calls the class of a line; "" where it says nothing."""
        return next((name for first, last, name in self.names if first <= index + 1 <= last), "")


def unravel(index: Array, widths: Sequence[int]) -> tuple[Array, ...]:
    """The codes of row-major indices, the last one varying fastest.

    >>> [code.tolist() for code in unravel(np.array([0x0102, 0xFF00]), (8, 8))]
    [[1, 255], [2, 0]]
    """
    found, shift = [], sum(widths)
    for width in widths:
        shift -= width
        dtype = np.uint8 if width <= 8 else np.uint16 if width <= 16 else np.uint32
        found.append((index >> shift & ((1 << width) - 1)).astype(dtype))
    return tuple(found)


# --- digests ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Digests:
    """A .dig file: hashes of the results of chunks of 2**24 inputs.

    Where a chunk's hash differs, the codec says what was expected, if its own results have the
    hash of the file; so a wrong codec cannot judge.
    """

    question: Question
    numbers: tuple[int, ...]  # of the chunks that are tried
    counts: tuple[int, ...]
    sha256: tuple[str, ...]
    proof: str

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The index of each chunk's first input."""
        return (0, *itertools.accumulate(self.counts))[:-1]

    @property
    def size(self) -> int:
        """The inputs of all chunks."""
        return sum(self.counts)

    def chunk(self, start: int) -> int:
        """Which of the chunks an index is in."""
        return int(np.searchsorted(self.starts, start, side="right")) - 1

    def operands(self, start: int, stop: int) -> tuple[Array, ...]:
        """The operands of a part of one chunk."""
        k = self.chunk(start)
        first = self.numbers[k] * golden.CHUNK + start - self.starts[k]
        return operands_at(self.question, first, first + stop - start)

    def agrees(self, start: int, results: Array) -> bool:
        """Whether the results of a whole chunk have its hash."""
        row = row_named(self.question.target)
        little = canonical(results, row).astype(results.dtype.newbyteorder("<"), copy=False)
        return hashlib.sha256(np.ascontiguousarray(little).data).hexdigest() == self.sha256[self.chunk(start)]

    def expected(self, start: int, stop: int) -> Array:
        """The codec's results, with the hash of the file; CorruptError where they have another."""
        results = compute(self.question, *self.operands(start, stop))
        if not self.agrees(start, results):
            raise CorruptError(f"chunk {self.numbers[self.chunk(start)]}: no results with this hash are known")
        return results

    def digits(self, index: Array) -> Array:
        """Any NaN is as good as another, so NaN alone is asked about."""
        return np.full(index.shape, 2, np.uint8)


def operands_at(question: Question, start: int, stop: int) -> tuple[Array, ...]:
    """The operands that a digest's indices mean: a pattern, codes side by side, or R << 16 | x."""
    source = row_named(question.source)
    stochastic = question.n_bits is not None and question.random is None
    widths = (question.n_bits or 0, source.bits) if stochastic else (source.bits,) * golden.OPERATIONS[question.op]
    blocks = [  # of narrow arrays, so that the wide indices are few at a time
        unravel(np.arange(at, min(at + BLOCK, stop)), widths) for at in range(start, stop, BLOCK)
    ]
    columns = tuple(np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return columns[::-1] if stochastic else columns


def canonical(results: Array, row: Format) -> Array:
    """Results with the canonical code in place of every NaN; the same array where there is none."""
    nan = is_nan(results, row)
    if row.canonical_nan is None or not nan.any():
        return results
    return np.where(nan, results.dtype.type(row.canonical_nan), results)


# --- from files -------------------------------------------------------------------------------


def load(vector_id: str, question: Question, exhaustive: bool, seed: int | None) -> Vectors:
    """The vectors of an id, from its file: CorruptError where the file is not the manifest's."""
    name = sibling(vector_id) if question.source == "float64" and question.shape == "run" else vector_id
    row = golden.find(name)
    try:
        return _LOADERS[question.shape](name, question, exhaustive, seed)
    except CorruptError:
        raise
    except (ValueError, OverflowError, IndexError) as error:
        raise CorruptError(f"{row['path']}: {error}") from error


def sibling(vector_id: str) -> str:
    """The float32 file from which the inputs of a float64 suite are made.

    >>> sibling("convert.f64.e4m3.rne.sat.run")
    'convert.f32.e4m3.rne.sat.run'
    """
    return vector_id.replace(".f64.", ".f32.", 1)


def _load_runs(name: str, question: Question, exhaustive: bool, seed: int | None) -> Vectors:
    return steps(question, golden.load_runs(name), exhaustive, seed)


def _load_table(name: str, question: Question, exhaustive: bool, seed: int | None) -> Vectors:
    table, mask = golden.load_table(name), golden.load_mask(name)
    z = table.view(f"u{table.itemsize}") if table.dtype.kind == "f" else table
    widths = (row_named(question.source).bits,) * golden.OPERATIONS[question.op]
    if z.size != 1 << sum(widths):
        raise ValueError(f"{z.size} results for {1 << sum(widths)} inputs")
    if mask is not None and mask.size != z.size:
        raise ValueError(f"{mask.size} digits in its .msk for {z.size} results")
    by_class = np.where(result_is_nan(question, z), 2, 1).astype(np.uint8)
    return Table(widths, z, by_class if mask is None else mask)


def _load_lines(name: str, question: Question, exhaustive: bool, seed: int | None) -> Vectors:
    lines = golden.load_vectors(name)
    dtype = pattern_dtype(row_named(question.source))
    patterns = tuple(column.astype(dtype) for column in lines.operands)
    z = lines.z.astype(pattern_dtype(row_named(question.target)))
    return Lines(patterns, z, lines.j, names=names_of(golden.find(name)))


def names_of(row: golden.Row) -> tuple[tuple[int, int, str], ...]:
    """First line, last line and name of each class of a list."""
    return tuple((int(each["first"]), int(each["last"]), str(each["name"])) for each in row.get("classes", ()))


def _load_digests(name: str, question: Question, exhaustive: bool, seed: int | None) -> Vectors:
    found = golden.load_digests(name)
    some = np.arange(found.chunk.size)
    proof = "every input"
    if not exhaustive and some.size > 1:
        some = np.random.default_rng(seed or 0).choice(some, 1)
        proof = f"chunk {found.chunk[some[0]]} of {found.chunk.size}"
    numbers, counts = found.chunk[some].tolist(), found.count[some].tolist()
    return Digests(question, tuple(numbers), tuple(counts), tuple(found.sha256[i] for i in some), proof)


_LOADERS: dict[str, Callable[[str, Question, bool, int | None], Vectors]] = {
    "run": _load_runs,
    "tab": _load_table,
    "tv": _load_lines,
    "dig": _load_digests,
}


def result_is_nan(question: Question, z: Array) -> Array:
    """Where results are NaN; a comparison has none."""
    if question.op == "compare":
        return np.zeros(z.shape, np.bool_)
    return is_nan(z, row_named(question.target))
