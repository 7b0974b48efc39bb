"""A suite: the inputs of one id in batches, and the judge of the results.

    s = suite("convert.f32.e4m3.rne.nonsat.run")
    for batch in s.inputs():
        s.judge(batch, my_encoder(*batch.inputs))
    print(s.report())

Batches may come back in any order, as from an implementation that works asynchronously; each is
judged when it comes, and what is kept does not grow with the number of inputs.

Source: data/golden/README.md for the judge digits.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref import golden
from feather_ref.conformance.block_suite import BlockSuite
from feather_ref.conformance.block_vectors import block_rows, conversion_of, find_block, load_block
from feather_ref.conformance.diagnose import (
    Ask,
    Sample,
    classify_failures,
    failure_line,
    guess,
    input_text,
    own_boundary,
    result_text,
)
from feather_ref.conformance.recompute import as_values, is_nan, is_own, pattern_dtype, row_named
from feather_ref.conformance.report import SHOWN
from feather_ref.conformance.tally import Batch, Tally, hash_of
from feather_ref.conformance.vectors import (
    F64_ENDS,
    LISTED,
    Digests,
    Lines,
    Steps,
    Vectors,
    live_runs,
    load,
    sibling,
    steps,
)
from feather_ref.formats import Format
from feather_ref.golden import CorruptError, Question

Array = NDArray[Any]

CLASSED = 1 << 16  # failures of a suite that are put into classes
CLASSED_AT_ONCE = 1 << 13  # and of a batch
WINDOW = 1 << 11  # neighbours that a guess looks at together
WINDOWS = 4  # of a batch
KEPT = 12  # of a suite
_SPREAD = 2654435761  # Knuth's multiplicative hash
BOUNDARIES = 2  # that are looked for
LIVE_BITS = 16  # of a target whose runs are made when they are asked for
UNKNOWN = "unknown"  # the class of results with x or z in them
SMALL = 1 << 18  # inputs of a suite whose results are kept, to look for boundaries


class Suite(Tally):
    """The inputs and the judge of one id.  Make one with `suite`."""

    vectors: Vectors

    def __init__(self, vector_id: str, question: Question, vectors: Vectors) -> None:
        """Nothing is judged yet."""
        target = row_named(question.target)
        dtype = np.dtype(np.uint8) if question.op == "compare" else pattern_dtype(target)
        chunks = [*vectors.starts, vectors.size] if isinstance(vectors, Digests) else None
        super().__init__(vector_id, vectors, dtype, chunks)
        self.question = question
        self.target = target
        self._first: dict[str, list[tuple[int, Sample]]] = {}  # failures of each class, in order
        self._windows: dict[int, Sample] = {}  # by a number that spreads them, whatever the order of batches
        self._kept: dict[int, Array] = {}
        self._chunks: list[str] = []

    def hex_digits(self, operand: int) -> int:
        """How many digits an operand has as text."""
        return (row_named(self.question.source).bits + 3) // 4

    def input_text(self, operands: Sequence[int]) -> str:
        """An input as a line of a report has it."""
        return input_text(self.question, operands)

    def _as_inputs(self, bits: tuple[Array, ...]) -> tuple[Array, ...]:
        return (as_values(bits[0], self.question), *bits[1:])

    # --- judging ------------------------------------------------------------------------------

    def _take(self, batch: Batch, got: Array, unknown: Array | None) -> str:
        if self.domain <= SMALL:
            self._kept[batch.offset] = got.copy()  # the caller may use its array again
        z = self.vectors.constant(batch.offset, batch.offset + got.size) if isinstance(self.vectors, Steps) else None
        if z is not None and unknown is None and _is_all(got, z):
            return _hash_of_all(got.dtype, z, got.size)
        wrong, want = self._wrong(batch, got, unknown)
        if wrong.size:
            self._failed += wrong.size
            self._note(batch, got, want, wrong, unknown)
        return hash_of(got)

    def asked(self, batch: Batch) -> NDArray[np.bool_]:
        """Where something is asked: not where the standard says nothing."""
        return self.vectors.digits(np.arange(batch.offset, batch.offset + batch.bits[0].size)) != 0

    def check_results(self, results: object, count: int) -> Array:
        """Results as unsigned integers, in the storage type where they fit; an error says what is wrong."""
        array = np.asarray(results)
        if array.shape != (count,):
            raise ValueError(f"results: {count} in one dimension are wanted, got shape {array.shape}")
        if array.dtype.kind not in "ui" and is_own(array.dtype, self.target):
            array = array.view(self.result_dtype)
        if array.dtype.kind == "O" and all(isinstance(x, int) for x in array):
            raise ValueError("results: an integer has more than 64 bits")
        if array.dtype.kind not in "ui":
            also = ", or float32" if self.target.name == "fp32" else ""
            raise TypeError(
                f"results: codes are wanted, integers of up to {self.target.bits} bits{also}; got {array.dtype}"
            )
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        array = array.view(f"u{array.itemsize}")
        if array.dtype != self.result_dtype and not (array > np.iinfo(self.result_dtype).max).any():
            array = array.astype(self.result_dtype)
        return array

    def _wrong(self, batch: Batch, got: Array, unknown: Array | None) -> tuple[Array, Array]:
        """Where in the batch results are wrong, and what they should all be."""
        if isinstance(self.vectors, Digests) and unknown is None and self.vectors.agrees(batch.offset, got):
            return np.zeros(0, np.intp), got
        want = self._expected(batch, got.size)
        if want is None:
            return np.arange(got.size), got  # nothing is known but that the hash differs
        differ = got != want
        if unknown is not None:
            differ |= unknown
        if not differ.any():
            return np.zeros(0, np.intp), want
        index = np.flatnonzero(differ)
        digits = self.vectors.digits(index + batch.offset)
        some = got[index]
        right = digits == 0
        if (digits == 2).any() and self.question.op != "compare":
            right |= (digits == 2) & is_nan(some, self.target) & is_nan(want[index], self.target)
        right |= (digits == 3) & (some == want[index].astype(np.uint64) + 1)
        if unknown is not None:
            right &= ~unknown[index]
        return index[~right], want

    def _expected(self, batch: Batch, count: int) -> Array | None:
        try:
            return self.vectors.expected(batch.offset, batch.offset + count)
        except CorruptError:
            if not isinstance(self.vectors, Digests):
                raise
            number = self.vectors.numbers[self.vectors.chunk(batch.offset)]
            self._chunks.append(f"chunk {number}: the SHA-256 of the results differs")
            return None

    def _note(self, batch: Batch, got: Array, want: Array, wrong: Array, unknown: Array | None) -> None:
        """Keep the first failures of each class, some for the counts by class, and some neighbourhoods."""
        if want is got:
            return
        bits = self.vectors.operands(batch.offset, batch.offset + got.size)  # those of the batch may be written over
        whole = Sample(bits, got, want, np.zeros(0, np.uint8))
        is_unknown = np.zeros(got.shape, np.bool_) if unknown is None else unknown
        self._unknown += int(is_unknown[wrong].sum())
        known = wrong if unknown is None else wrong[~is_unknown[wrong]]
        some = known[:CLASSED_AT_ONCE]
        names = classify_failures(self.question, self._sample(whole, batch, some))
        places: dict[str, list[int]] = {UNKNOWN: wrong[is_unknown[wrong]][:SHOWN].tolist()}
        for i, name in zip(some.tolist(), names, strict=True):
            places.setdefault(name, []).append(i)
        for name, found in places.items():
            new = [(batch.offset + i, self._sample(whole, batch, np.array([i]))) for i in found[:SHOWN]]
            self._first[name] = sorted([*self._first.get(name, ()), *new], key=lambda each: each[0])[:SHOWN]
        counted = names[: CLASSED - self._classed]
        self._classes.update(counted)
        self._classed += len(counted)
        for part in _windows(got.size, known):
            self._windows[(batch.offset + int(part[0])) * _SPREAD % (1 << 32)] = self._sample(whole, batch, part)
        for key in sorted(self._windows)[KEPT:]:
            del self._windows[key]

    def _sample(self, whole: Sample, batch: Batch, index: Array) -> Sample:
        digits = self.vectors.digits(index + batch.offset)
        return whole._replace(digits=np.zeros(whole.got.shape, np.uint8)).take(index)._replace(digits=digits)

    # --- the report ---------------------------------------------------------------------------

    def _lines(self) -> Iterator[str]:
        """Some failures of each class: the first of each, then the second, and so on."""
        title = self.id.rpartition(".")[0]
        ranked = [(k, *each, name) for name, kept in self._first.items() for k, each in enumerate(kept)]
        for _, index, sample, name in sorted(ranked, key=lambda each: each[:2])[:SHOWN]:
            unknown = name == UNKNOWN
            said = name
            if isinstance(self.vectors, Lines) and (listed := self.vectors.name(index)):
                said = f"{listed}, {name}"
            yield failure_line(self.question, title, sample, 0, said, unknown)

    def _diagnose(self, ask: Ask | None, thorough: bool) -> Iterator[str]:
        yield from self._chunks
        if not thorough:
            return
        if self._windows:
            windows = [self._windows[key] for key in sorted(self._windows)]
            operands = zip(*(window.operands for window in windows), strict=True)
            got, want, digits = (np.concatenate([window[k] for window in windows]) for k in (1, 2, 3))
            together = Sample(tuple(np.concatenate(parts) for parts in operands), got, want, digits)
            yield from guess(self.question, together, self._failed - self._unknown)
        yield from self._boundaries(ask)

    def _boundaries(self, ask: Ask | None) -> Iterator[str]:
        """For run files: where the implementation changes from one result to the next."""
        vectors = self.vectors
        if ask is None or not isinstance(vectors, Steps) or vectors.keys is None or not self._kept:
            return
        got = np.concatenate([self._kept[offset] for offset in sorted(self._kept)])
        if got.size != vectors.size:
            return
        index = np.arange(vectors.size)
        right = got == vectors.expected(0, vectors.size)
        line = vectors.line(index)
        broken = np.flatnonzero((line[1:] == line[:-1]) & (right[1:] != right[:-1]) & (vectors.digits(index[1:]) == 1))
        for i in broken[:BOUNDARIES].tolist():
            good, bad = (i, i + 1) if right[i] else (i + 1, i)
            if any(ask(vectors.keys[[k]].astype(np.uint64))[0] != got[k] for k in (good, bad)):
                return  # it gives other results to an input alone: the fault is in the order, not in a boundary
            last = own_boundary(self.question, ask, int(vectors.keys[good]), int(vectors.keys[bad]))
            end = int((vectors.lo if good > bad else vectors.hi)[line[good]])
            verb = "begin" if good > bad else "end"
            code = result_text(self.question, int(got[good]))
            width = row_named(self.question.source).bits // 4
            yield f"your code {code} {verb}s at input {last:0{width}X}, and should {verb} at {end:0{width}X}"


def _windows(size: int, wrong: Array) -> list[Array]:
    """Neighbourhoods of some failures: everything, where that is little."""
    if not wrong.size:
        return []
    if size <= WINDOW * WINDOWS:
        return [np.arange(size)]
    picked = wrong[np.linspace(0, wrong.size - 1, WINDOWS).astype(np.intp)]
    starts = np.unique(np.clip((picked - WINDOW // 2) // WINDOW * WINDOW, 0, max(size - WINDOW, 0)) & ~1)
    return [np.arange(start, min(start + WINDOW, size)) for start in starts]


def _is_all(codes: Array, z: int) -> bool:
    """Whether every code is z; eight bytes at a time, for 2**32 codes come by here."""
    if codes.nbytes % 8 or not codes.flags.c_contiguous or z >> 8 * codes.itemsize:
        return bool((codes == z).all())
    eight = np.full(8 // codes.itemsize, z, codes.dtype).view(np.uint64)[0]
    return not (codes.view(np.uint64) != eight).any()


@lru_cache(maxsize=256)
def _hash_of_all(dtype: np.dtype[Any], z: int, size: int) -> str:
    """The SHA-256 of `size` codes z."""
    return hash_of(np.full(size, z, dtype))


# --- which suites there are -------------------------------------------------------------------


def suites(pattern: str = "*") -> tuple[str, ...]:
    """The ids that match a pattern, as of file names: those of the manifest, float64 and blocks too.

    >>> suites("convert.f64.e4m3.rne.*sat.run")
    ('convert.f64.e4m3.rne.nonsat.run', 'convert.f64.e4m3.rne.sat.run')

    Raises TypeError or ValueError where there is none.
    """
    if not isinstance(pattern, str):
        raise TypeError(f"pattern must be a str, got {type(pattern).__name__}")
    found = fnmatch.filter([*all_ids(), *block_rows()], pattern)
    if not found:
        golden.find(pattern)  # says which ids are close
        raise ValueError(f"pattern: {pattern!r} is a twin of a table; take the .tab")
    return tuple(sorted(found))


def all_ids() -> list[str]:
    """Every id of numbers and codes: a float32 run list has a float64 suite too.  `block_rows` has the blocks."""
    known = [name for name in golden.manifest() if not name.endswith((".memh", ".msk"))]
    wide = [name.replace(".f32.", ".f64.", 1) for name in known if name.startswith("convert.f32.")]
    return known + [name for name in wide if name.endswith(".run") and name not in golden.manifest()]


def suite(vector_id: str, exhaustive: bool = False, seed: int | None = None) -> Suite | BlockSuite:
    """The suite of an id.

    Of a run file the inputs are the first, the middle and the last of each run, and with a seed
    one more that is drawn; exhaustive: every input there is.  Of a digest, one chunk, drawn, or all.
    A float64 id takes the ends of the float32 runs and one float64 step either side.  Of a list of
    blocks, all of them, and with a seed some more that are drawn.

    >>> s = suite("convert.f32.e4m3.rne.sat.run")
    >>> s.domain, [batch.inputs[0].dtype.name for batch in s.inputs()]
    (768, ['float32'])

    Raises TypeError or ValueError for an unknown id, and CorruptError, a ValueError, where the file
    is not the manifest's.
    """
    if not isinstance(vector_id, str):
        raise TypeError(f"vector_id must be a str, got {type(vector_id).__name__}")
    if vector_id.partition(".")[0] in golden.BLOCK_OPERATIONS:
        return _suite_of_blocks(vector_id, exhaustive, seed)
    return number_suite(vector_id, exhaustive, seed)


def number_suite(vector_id: str, exhaustive: bool = False, seed: int | None = None) -> Suite:
    """The suite of an id that is not one of blocks."""
    _check_seed(seed)
    question = golden.question(vector_id)
    if question.shape in ("memh", "msk"):
        raise ValueError(f"vector_id: {vector_id!r} is a twin of a table; take the .tab")
    golden.find(sibling(vector_id) if question.source == "float64" and question.shape == "run" else vector_id)
    return Suite(vector_id, question, load(vector_id, question, exhaustive, seed))


def _suite_of_blocks(vector_id: str, exhaustive: bool, seed: int | None) -> Suite | BlockSuite:
    """The suite of an id of blocks; elements are judged as the conversion that they are."""
    _check_seed(seed)
    question = golden.block_question(vector_id)
    find_block(vector_id)
    if question.op == "element":
        name = conversion_of(question)
        asked = golden.question(name)
        return Suite(vector_id, asked, load(name, asked, exhaustive, seed))
    return BlockSuite(vector_id, question, load_block(vector_id, question, exhaustive, seed))


def live_suite(
    question: Question, vector_id: str, exhaustive: bool = False, seed: int | None = None, row: Format | None = None
) -> Suite:
    """A conversion that has no file: its runs come straight from the oracle.

    row: of the target, where that has no name.

    Raises ValueError for a target of more codes than there can be runs of.
    """
    _check_seed(seed)
    target = row or row_named(question.target)
    if target.bits > LIVE_BITS:
        raise ValueError(f"fmt: there are no vectors for {target} with these policies, and {target.bits} bits are too "
                         f"many to make them now; {LIVE_BITS} are not")  # fmt: skip
    base = question.source
    if base in ("float64", "bf16") or (base == "fp16" and question.policies.get("subnormals") != "flush_input"):
        base = "fp32"  # which holds all that they hold, and the same subnormals of bf16
    policies = dict(question.policies)
    if question.n_bits is not None:
        policies |= {"n_bits": question.n_bits, "random": question.random}
    runs = live_runs(target, row_named(base), policies)
    question = question._replace(target=target)  # type: ignore[arg-type]  # a row of one's own has no name
    return Suite(vector_id, question, steps(question, runs, exhaustive, seed, base))


def refuse_idle(s: Tally, exhaustive: bool, seed: int | None) -> None:
    """Refuse what a suite has no use for: to take every input of a list, to draw one more where all are taken.

    Raises ValueError naming the argument.
    """
    proof = s.vectors.proof
    whole = proof.startswith("every ")
    if exhaustive and not whole:
        raise ValueError(f"exhaustive: {s.id} cannot have more inputs than {proof}")
    if seed is not None and (whole or proof in (LISTED, F64_ENDS)):
        what = f"takes {proof} already" if whole else f"draws none; it takes {proof}"
        raise ValueError(f"seed={seed}: {s.id} {what}")


def _check_seed(seed: object) -> None:
    if seed is None:
        return
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"seed must be an int, got {type(seed).__name__}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
