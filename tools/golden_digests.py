"""Digests: CRC-32 and SHA-256 of the results of 2**24 inputs, where a file of them would be too long.

Results lie little-endian in the code's own storage (uint8, uint16, uint32), NaN canonical.

Source: design of this project; data/golden/README.md.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref import golden
from feather_ref.golden import CHUNK
from golden_steps import pieces
from golden_tables import decode_table, operation_table
from golden_vectors import Vector

N_BITS = 8  # of the operand that lies above a float16


def chunks(vector: Vector) -> int:
    """How many lines the file has."""
    return 1 << 8 if vector.op == "convert" and vector.src == "f32" else 1


def results(vector: Vector, chunk: int) -> NDArray[Any]:
    """The results of one chunk, in the dtype that is hashed."""
    question, dtype = vector.question, golden.result_dtype(vector.id)
    if vector.op == "decode":
        return decode_table(vector.row).astype(dtype)
    if vector.op != "convert":
        return operation_table(question).astype(dtype)
    if "n=8" in vector.choices:  # every operand, each with every float16
        rows = [question._replace(random=random) for random in range(1 << N_BITS)]
        return np.concatenate([_expanded(*_steps(row, 0, (1 << 16) - 1, dtype)) for row in rows])
    return _expanded(*_steps(question, chunk * CHUNK, (chunk + 1) * CHUNK - 1, dtype))


Steps = tuple[NDArray[Any], NDArray[np.int64]]  # codes, and for how many inputs each


def _steps(question: golden.Question, first: int, last: int, dtype: np.dtype[Any]) -> Steps:
    """The results of the inputs first .. last."""
    found = np.array(pieces(question, first, last), np.int64)
    return found[:, 2].astype(dtype), found[:, 1] - found[:, 0] + 1


def _expanded(codes: NDArray[Any], lengths: NDArray[np.int64]) -> NDArray[Any]:
    """One result for each input."""
    return np.repeat(codes, lengths)


def digest_line(chunk: int, codes: NDArray[Any]) -> str:
    """`chunk count crc32 sha256` of the results of one chunk."""
    data = codes.astype(codes.dtype.newbyteorder("<")).tobytes()
    return f"{chunk:04X} {codes.size:07X} {zlib.crc32(data):08x} {hashlib.sha256(data).hexdigest()}\n"


def chunk_line(vector: Vector, chunk: int) -> str:
    """One line of a `.dig` file, from the oracle."""
    if chunks(vector) == 1:
        return digest_line(chunk, results(vector, chunk))
    dtype = golden.result_dtype(vector.id)
    codes, lengths = _steps(vector.question, chunk * CHUNK, (chunk + 1) * CHUNK - 1, dtype)
    return f"{chunk:04X}" + _line_of_steps(codes.tobytes(), lengths.tobytes(), dtype)


@lru_cache(maxsize=2048)
def _line_of_steps(codes: bytes, lengths: bytes, dtype: np.dtype[Any]) -> str:
    """The rest of a line; chunks with equal results, beyond all values or under two policies, are hashed once."""
    return digest_line(0, _expanded(np.frombuffer(codes, dtype), np.frombuffer(lengths, np.int64)))[4:]


def wrong_chunks(vector: Vector, lines: Sequence[str], wanted: Iterable[int]) -> list[str]:
    """What is wrong with some chunks of a file that has these lines."""
    if len(lines) != chunks(vector):
        return [f"{vector.id}: {len(lines)} lines, not {chunks(vector)}"]
    return [f"{vector.id}: chunk {chunk:04X} differs" for chunk in wanted if chunk_line(vector, chunk) != lines[chunk]]
