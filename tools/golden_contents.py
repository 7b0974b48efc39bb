"""The bytes of each golden file, by its shape.

Source: data/golden/README.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import golden_cases.case as golden_cases
from feather_ref import golden
from golden_blocks import BlockVector, block_content
from golden_digests import chunk_line, chunks
from golden_steps import Piece, pieces
from golden_tables import decode_table, memh, operation_table
from golden_vectors import Vector, lists


def content(vector: Vector | BlockVector) -> bytes:
    """One file; a digest takes a minute or more."""
    if isinstance(vector, BlockVector):
        return block_content(vector)
    return _BY_SHAPE[vector.shape](vector)


def _run(vector: Vector) -> bytes:
    question = golden.question(vector.stored)
    return run_lines(pieces(question), 32, vector.row.bits)


def run_lines(found: Iterable[Piece], source_bits: int, bits: int) -> bytes:
    """`lo hi z j`, each of fixed width."""
    form = f"%0{source_bits // 4}X %0{source_bits // 4}X %0{(bits + 3) // 4}X %d\n"
    return "".join([form % piece for piece in found]).encode("ascii")


def _tab(vector: Vector) -> bytes:
    table = decode_table(vector.row) if vector.op == "decode" else operation_table(vector.question)
    return table.astype(table.dtype.newbyteorder("<")).tobytes()


def _memh(vector: Vector) -> bytes:
    return memh(decode_table(vector.row))


def _tv(vector: Vector) -> bytes:
    """`a [b [c]] z j`, each of fixed width."""
    width = _digits(vector.src)
    z_width = 1 if vector.op == "compare" else _digits(vector.dst)
    lines = [line for case in lists()[vector.id] for line in golden_cases.lines(case)]
    texts = [" ".join([*(f"{x:0{width}X}" for x in operands), f"{z:0{z_width}X}", str(j)]) for operands, z, j in lines]
    return "".join(f"{text}\n" for text in texts).encode("ascii")


def _digits(token: str) -> int:
    """How many hex digits a pattern of a source or target has."""
    return (golden_cases.row_of(token).bits + 3) // 4


def _dig(vector: Vector) -> bytes:
    return "".join(chunk_line(vector, chunk) for chunk in range(chunks(vector))).encode("ascii")


_BY_SHAPE = {"run": _run, "tab": _tab, "memh": _memh, "tv": _tv, "dig": _dig}
