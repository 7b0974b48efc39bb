"""What every suite does: inputs in batches, each judged once, a count of what is wrong, a report.

What a kind of suite asks, and how it tells right from wrong, is its own matter.

Source: design of this project.
"""

from __future__ import annotations

import hashlib
import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from feather_ref.conformance.diagnose import Ask
from feather_ref.conformance.report import Report, Status
from feather_ref.conformance.vectors import CHUNK

Array = NDArray[Any]


class Batch(NamedTuple):
    """Some inputs, side by side, as an implementation takes them.

    offset: of the first one in the suite.  inputs: an array for each operand; numbers for
    conversions from float16, float32, float64 and int64, else codes; the numbers of blocks as one
    array of (blocks, numbers).  bits: bit patterns, a column for each operand or number of a block.
    """

    offset: int
    inputs: tuple[Array, ...]
    bits: tuple[Array, ...]


class Inputs(Protocol):
    """What a tally asks of vectors."""

    @property
    def size(self) -> int:
        """How many inputs there are."""

    @property
    def proof(self) -> str:
        """What a pass proves."""

    def operands(self, start: int, stop: int) -> tuple[Array, ...]:
        """Bit patterns, a column for each operand."""


class Tally(ABC):
    """The inputs of one id, and what came out of them.

    width: how many codes one input gives.  result_dtype: of each of them.  unseeded: how many inputs there
    are without the seed, where that is noted.
    """

    def __init__(
        self, vector_id: str, vectors: Inputs, dtype: np.dtype[Any], starts: Sequence[int] | None = None, width: int = 1
    ) -> None:
        """Nothing is judged yet.  starts: of the batches, and the end of the last."""
        self.id = vector_id
        self.vectors = vectors
        self.result_dtype = dtype
        self.width = width
        self.unseeded = 0
        self._seen: dict[int, str] = {}
        self._judged = self._failed = self._unknown = self._classed = 0
        self._classes: Counter[str] = Counter()
        starts = starts or [*range(0, vectors.size, CHUNK), vectors.size]
        self._stops = dict(itertools.pairwise(starts))  # the end of each batch by its offset

    @property
    def domain(self) -> int:
        """How many inputs the suite has."""
        return self.vectors.size

    def inputs(self) -> Iterator[Batch]:
        """The inputs, in batches of up to 2**22; a digest's, in its chunks of 2**24."""
        for start, stop in self._stops.items():
            bits = self.vectors.operands(start, stop)
            yield Batch(start, self._as_inputs(bits), bits)

    def judge(self, batch: Batch, results: object, unknown: Array | None = None) -> None:
        """Judge the results of a batch, those of each input, in order.

        results: codes of any integer dtype, or an array of the target's own dtype (float32 for
        decode tables and blocks that are read); of blocks `width` for each, scale before elements, or
        a pair (scales, codes).  unknown: where a result has digits that are neither 0 nor 1.

        Raises TypeError or ValueError for results that are no such array, and for a batch that is
        none of this suite or was judged already.
        """
        if not isinstance(batch, Batch):
            raise TypeError(f"batch must be one of inputs(), got {type(batch).__name__}")
        size = batch.bits[0].size
        if size != self._stops.get(batch.offset, 0) - batch.offset:
            raise ValueError(f"batch: {size} inputs at offset {batch.offset} are no batch of {self.id}")
        self.judge_beginning(batch, results, unknown)

    def judge_beginning(self, batch: Batch, results: object, unknown: Array | None = None) -> None:
        """The same for the beginning of a batch whose other results will not come; the report will miss them."""
        size = batch.bits[0].size
        got = self.check_results(results, size)
        if unknown is not None and (unknown.dtype != np.bool_ or unknown.size != got.size):
            raise ValueError(f"unknown: {got.size} booleans are wanted, got {unknown.dtype} of shape {unknown.shape}")
        if batch.offset in self._seen:
            raise ValueError(f"batch: the one at offset {batch.offset} is judged already")
        self._judged += size
        self._seen[batch.offset] = self._take(batch, got, None if unknown is None else unknown.reshape(got.shape))

    def report(self, ask: Ask | None = None, thorough: bool = True) -> Report:
        """What came out.

        ask: gives the codes of the implementation for patterns, to look for its own boundaries.
        thorough: look for what the failures have in common.
        """
        status: Status = "pass" if not self._failed else "fail"
        message = ""
        if not self._judged:
            status, message = "notrun", "nothing was judged"
        elif self._judged < self.domain:
            status, message = "error", f"only {self._judged} of {self.domain} results were judged"
        return Report(
            self.id, status, self.domain, self._judged, self._failed, self._unknown, dict(self._classes), self._classed,
            tuple(self._lines()), tuple(self._diagnose(ask, thorough)), message, self.sha256(), self.vectors.proof,
        )  # fmt: skip

    def sha256(self) -> str:
        """Of the results, little-endian; of several batches, of their hashes in hex, in order."""
        parts = [self._seen[offset] for offset in sorted(self._seen)]
        return parts[0] if len(parts) == 1 else hashlib.sha256("".join(parts).encode()).hexdigest() if parts else ""

    def is_all(self, byte: int) -> bool:
        """Whether every result is made of one byte."""
        sizes = {start: (stop - start) * self.width for start, stop in self._stops.items()}
        filled = np.full(1, byte, np.uint8).repeat(self.result_dtype.itemsize).view(self.result_dtype)
        hashes = {size: hash_of(filled.repeat(size)) for size in set(sizes.values())}
        return self._seen == {start: hashes[size] for start, size in sizes.items()}

    # --- what each kind has of its own ----------------------------------------------------------

    @abstractmethod
    def hex_digits(self, operand: int) -> int:
        """How many digits an operand has as text."""

    @abstractmethod
    def input_text(self, operands: Sequence[int]) -> str:
        """An input as a line of a report has it."""

    @abstractmethod
    def asked(self, batch: Batch) -> NDArray[np.bool_]:
        """Where something is asked: not where the standard says nothing."""

    @abstractmethod
    def check_results(self, results: object, count: int) -> Array:
        """Results for `count` inputs as unsigned integers, in the storage type where they fit."""

    @abstractmethod
    def _as_inputs(self, bits: tuple[Array, ...]) -> tuple[Array, ...]:
        """Columns as an implementation gets them."""

    @abstractmethod
    def _take(self, batch: Batch, got: Array, unknown: Array | None) -> str:
        """Count and keep what is wrong in a batch; the hash of its results."""

    @abstractmethod
    def _lines(self) -> Iterator[str]:
        """Some failures."""

    @abstractmethod
    def _diagnose(self, ask: Ask | None, thorough: bool) -> Iterator[str]:
        """What they have in common."""


def hash_of(codes: Array) -> str:
    """The SHA-256 of results, little-endian."""
    little = np.ascontiguousarray(codes.astype(codes.dtype.newbyteorder("<"), copy=False))
    return hashlib.sha256(little.data).hexdigest()
