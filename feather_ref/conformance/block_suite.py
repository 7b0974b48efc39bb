"""A suite of blocks: records of numbers or codes, and the judge of the codes that each of them gives.

    FAIL block.f32.mxfp4.rne.sat block 6, scale: in=3FFFFFFF (1.99999988) got=7E (0.5) want=7D (0.25) [below_power]
    FAIL block.f32.mxfp4.rne.sat block 11, element 3: in=C0E00000 (-7) got=D (-3) want=E (-4) [tie]

Blocks and elements count from 0.  A block whose scale is wrong is one failure, and its elements are
not looked at; otherwise the first of its wrong elements is shown.

Source: data/golden/README.md, "Blocks", for the judge digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref._anatomy import hex_code
from feather_ref.conformance.block_diagnose import Found, guess, wrong_codes
from feather_ref.conformance.block_vectors import BlockVectors
from feather_ref.conformance.diagnose import Ask, value_text
from feather_ref.conformance.recompute import is_own, pattern_dtype
from feather_ref.conformance.report import SHOWN
from feather_ref.conformance.tally import Batch, Tally, hash_of
from feather_ref.formats import Format, get_format
from feather_ref.golden import BlockQuestion

Array = NDArray[Any]

KEPT = 1 << 14  # records that a diagnosis looks at
CLASSED = 1 << 12  # failures that are put into classes
NUMBERS = 4  # of a block that is written out
_FP32 = get_format("fp32")
_STEPS = {1: "one step too high", -1: "one step too low"}


class BlockSuite(Tally):
    """The inputs and the judge of one id of blocks.  Make one with `suite`.

    columns, codes: the rows of the numbers of a record, and of the codes that it gives.
    """

    vectors: BlockVectors

    def __init__(self, vector_id: str, question: BlockQuestion, vectors: BlockVectors) -> None:
        """Nothing is judged yet."""
        self.question = question
        self.columns, self.codes = _shape_of(question)
        dtype = pattern_dtype(max(self.codes, key=lambda row: row.bits))
        super().__init__(vector_id, vectors, dtype, width=len(self.codes))
        self._lines_kept: list[tuple[int, int, str]] = []  # how many of its class came before, record, line
        self._kept: list[Found] = []

    # --- inputs and results -------------------------------------------------------------------

    def hex_digits(self, operand: int) -> int:
        """How many digits an operand has as text."""
        return (self.columns[operand].bits + 3) // 4

    def _as_inputs(self, bits: tuple[Array, ...]) -> tuple[Array, ...]:
        """amax, tensor scales and numbers as float32 (bf16 as patterns), codes as they are; a block is one array."""
        columns = [
            column.view(np.float32) if row == _FP32 else column for column, row in zip(bits, self.columns, strict=True)
        ]
        if self.question.op == "scale":
            return tuple(columns)
        k = self.question.bfmt.size
        return (*columns[:-k], np.stack(columns[-k:], axis=1))

    def input_text(self, operands: Sequence[int]) -> str:
        """An input as a line of a report has it; of a block its first numbers."""
        pairs = list(zip(operands, self.columns, strict=True))
        more = "" if len(pairs) <= NUMBERS + 1 else " ..."
        codes = " ".join(hex_code(code, row) for code, row in pairs[:NUMBERS])
        values = ", ".join(value_text(code, row) for code, row in pairs[:NUMBERS])
        return f"in={codes}{more} ({values}{more})"

    def asked(self, batch: Batch) -> NDArray[np.bool_]:
        """Where something is asked of at least one code."""
        return np.asarray(self._digits(batch.offset, batch.bits[0].size).any(axis=1))

    def _digits(self, offset: int, count: int) -> Array:
        return self.vectors.digits(np.arange(offset, offset + count))

    def check_results(self, results: object, count: int) -> Array:
        """Results as unsigned integers, (count, width); an error says what is wrong."""
        array = self._joined(results) if self._has_scale and _is_pair(results) else np.asarray(results)
        if array.dtype.newbyteorder("=") == np.float32 and self.codes[0] == _FP32:
            array = array.view(array.dtype.str.replace("f", "u"))
        if array.shape not in ((count, self.width), (count * self.width,)):
            pair = f", or a pair of {count} scales and ({count}, {self.width - 1}) codes" if self._has_scale else ""
            raise ValueError(f"results: shape ({count}, {self.width}) is wanted{pair}; got {array.shape}")
        if array.dtype.kind not in "ui":
            also = " or float32" if self.codes[0] == _FP32 else ""
            raise TypeError(f"results: codes are wanted, integers{also}; got {array.dtype}")
        array = array.astype(array.dtype.newbyteorder("="), copy=False).view(f"u{array.itemsize}")
        if array.dtype != self.result_dtype and not (array > np.iinfo(self.result_dtype).max).any():
            array = array.astype(self.result_dtype)
        return array.reshape(count, self.width)

    def _joined(self, results: Any) -> Array:
        """Scales and codes side by side; a dtype of a format of its own, as ml_dtypes has them, is its codes."""
        parts = [np.asarray(part) for part in results]
        if len(parts) != 2 or parts[1].ndim != 2 or parts[0].size != len(parts[1]):
            shapes = ", ".join(str(part.shape) for part in parts)
            raise ValueError(f"results: a pair of scales (n,) and codes (n, k) is wanted; got shapes {shapes}")
        for k, name in enumerate(("scales", "codes")):
            if parts[k].dtype.kind not in "ui" and is_own(parts[k].dtype, self.codes[k]):
                parts[k] = parts[k].view(np.uint8)
            if parts[k].dtype.kind not in "ui":
                raise TypeError(f"results: {name} must be integers, got {parts[k].dtype}")
        native = [part.astype(part.dtype.newbyteorder("="), copy=False) for part in parts]
        scales, codes = (part.view(f"u{part.itemsize}").astype(np.uint64) for part in native)
        return np.column_stack([scales.reshape(-1, 1), codes])

    @property
    def _has_scale(self) -> bool:
        """Whether a result is a scale and elements."""
        return self.question.op == "block"

    # --- judging ------------------------------------------------------------------------------

    def _take(self, batch: Batch, got: Array, unknown: Array | None) -> str:
        want = self.vectors.expected(batch.offset, batch.offset + len(got))
        digits = self._digits(batch.offset, len(got))
        wrong = wrong_codes(got, want, digits, self.codes)
        if unknown is not None:
            wrong |= unknown
        failed = np.flatnonzero(wrong.any(axis=1))
        self._failed += failed.size
        self._unknown += 0 if unknown is None else int(unknown.any(axis=1).sum())
        room = max(CLASSED - self._classed, 0)
        for at in failed[:room].tolist():
            self._note(batch, at, got[at], want[at], wrong[at], None if unknown is None else unknown[at])
        self._keep(batch, got, want, digits, failed)
        return hash_of(got)

    def _note(self, batch: Batch, at: int, got: Array, want: Array, wrong: Array, unknown: Array | None) -> None:
        """Count one failure, and keep its line where few of its class came before."""
        place = int(np.argmax(wrong))
        code, right = int(got[place]), int(want[place])
        is_unknown = unknown is not None and bool(unknown[place])
        what = "unknown" if is_unknown else self._class_of(place, code, right)
        listed = self.vectors.name(batch.offset + at)
        name = f"{what} ({listed})" if listed else what
        self._classes[name] += 1
        self._classed += 1
        if self._classes[name] <= SHOWN:
            operands = [int(x[0]) for x in self.vectors.operands(batch.offset + at, batch.offset + at + 1)]
            line = self._line(batch.offset + at, place, operands, "x" if is_unknown else self._text(place, code), right)
            self._lines_kept.append((self._classes[name], batch.offset + at, f"{line} [{listed or what}]"))

    def _class_of(self, place: int, code: int, right: int) -> str:
        if self._has_scale:
            return "element" if place else "scale"
        if self.question.op == "scale":
            return "NaN" if self.codes[0].is_nan(right) else _STEPS.get(code - right, "another scale")
        return "NaN" if self.codes[place].is_nan(right) else "product"

    def _line(self, number: int, place: int, operands: Sequence[int], got: str, right: int) -> str:
        title = self.id.rpartition(".")[0]
        want = self._text(place, right)
        if self.question.op == "scale":
            return f"FAIL {title} {self.input_text(operands)} got={got} want={want}"
        if self._has_scale and not place:
            numbers = operands[-self.question.bfmt.size :]
            amax = _amax([x & _FP32.magnitude_mask for x in numbers])
            given = f"in={hex_code(amax, _FP32)} ({value_text(amax, _FP32)})"
            whole = f" of {hex_code(operands[0], _FP32)}" if len(operands) > len(numbers) else ""
            return f"FAIL {title} block {number}, scale: {given}{whole} got={got} want={want}"
        element = place - self._has_scale
        code, row = operands[len(operands) - self.question.bfmt.size + element], self.columns[-1]
        given = f"in={hex_code(code, row)} ({value_text(code, row)})"
        if not self._has_scale:
            scale, scale_row = operands[-self.question.bfmt.size - 1], self.question.bfmt.scale
            given += f" scale={hex_code(scale, scale_row)} ({value_text(scale, scale_row)})"
        return f"FAIL {title} block {number}, element {element}: {given} got={got} want={want}"

    def _text(self, place: int, code: int) -> str:
        row = self.codes[place]
        if code > row.code_mask:
            return f"{code:X} (no code of {row})"
        return f"{hex_code(code, row)} ({value_text(code, row)})"

    # --- the report ---------------------------------------------------------------------------

    def _keep(self, batch: Batch, got: Array, want: Array, digits: Array, failed: Array) -> None:
        """Some records for the diagnosis: all, or of each batch some that are wrong and some beside them."""
        some = np.arange(len(got))
        if self.domain > KEPT:
            half = max(KEPT * len(got) // self.domain // 2, 8)
            some = np.unique(np.concatenate([failed[:: -(-failed.size // half) or 1], some[:: -(-len(got) // half)]]))
        bits = self.vectors.operands(batch.offset, batch.offset + len(got))
        self._kept.append(Found(tuple(column[some] for column in bits), got[some].copy(), want[some], digits[some]))

    def _lines(self) -> Iterator[str]:
        """Some failures of each class: the first of each, then the second, and so on."""
        for _, _, line in sorted(self._lines_kept)[:SHOWN]:
            yield line

    def _diagnose(self, ask: Ask | None, thorough: bool) -> Iterator[str]:
        if thorough and self._failed > self._unknown:
            columns = zip(*(found.columns for found in self._kept), strict=True)
            parts = [np.concatenate([found[k] for found in self._kept]) for k in (1, 2, 3)]
            together = Found(tuple(np.concatenate(column) for column in columns), *parts)
            yield from guess(self.question, together, self.codes, self._judged > len(together.got))


def _is_pair(results: object) -> bool:
    """Whether results are scales and codes: a tuple, or a list of two with a block a row in the second."""
    if isinstance(results, list) and len(results) == 2:
        return np.ndim(results[1]) == 2
    return isinstance(results, tuple)


def _amax(magnitudes: Sequence[int]) -> int:
    """What a scale is made from: a NaN, else the greatest finite magnitude."""
    greatest, infinity = max(magnitudes), _FP32.exponent_mask
    return greatest if greatest > infinity else max((x for x in magnitudes if x < infinity), default=0)


def _shape_of(question: BlockQuestion) -> tuple[tuple[Format, ...], tuple[Format, ...]]:
    """The rows of the numbers of a record, and of the codes that it gives."""
    bfmt, whole = question.bfmt, () if question.bfmt.tensor_scale == "none" else (_FP32,)
    if question.op == "dequantize":
        return (*whole, bfmt.scale, *[bfmt.element] * bfmt.size), (_FP32,) * bfmt.size
    if question.op == "block":
        return (*whole, *[_FP32] * bfmt.size), (bfmt.scale, *[bfmt.element] * bfmt.size)
    source = get_format(question.source)
    return (source,) * (1 + len(whole)), (bfmt.scale,)
