"""A golden vector as steps: what every exported form of it is made from.

A step says that every input pattern lo .. hi gives z, judged by digit j (see `golden`).  The input
of an operation with several operands is their patterns end to end, the first in the high bits:
a * 256 + b for two codes of 8 bits, which is also the order of a `.tab` file.

Source: design of this project.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from feather_ref import golden
from feather_ref._sweep import Array
from feather_ref.formats import Format, get_format
from feather_ref.golden import Folder

Ranges = Sequence[tuple[int, int]]


class Steps(NamedTuple):
    """Inputs lo .. hi, inclusive and gap-free, of in_bits bits give z of out_bits bits, judged by j.

    nans: the results that are NaN, as inclusive ranges.
    """

    in_bits: int
    out_bits: int
    nans: Ranges
    lo: Array
    hi: Array
    z: Array
    j: Array

    def dense(self) -> tuple[Array, Array]:
        """z and j of every input."""
        count = self.hi - self.lo + 1
        return np.repeat(self.z, count), np.repeat(self.j, count)


def load_steps(vector_id: str, folder: Folder = None) -> Steps:
    """The steps of a `.run` or a `.tab` file.

    A run file of 16-bit inputs holds them as the float32 that they are; here they are themselves.

    Raises ValueError for an unknown id, another shape, and a file that is not the manifest's.

    >>> steps = load_steps("convert.f32.e4m3.rne.sat.run")
    >>> steps.in_bits, hex(steps.hi[0]), hex(steps.z[126])
    (32, '0x3a800000', '0x7e')
    """
    row = golden.find(vector_id, folder)
    op, operands, source, target = asked_of(vector_id)
    in_bits = source.bits * operands
    out_bits, nans = (8, []) if op == "compare" else (target.bits, nan_ranges(target))
    if row["shape"] == "tab":
        z, j = _table(vector_id, nans, folder)
    else:
        runs = golden.load_runs(vector_id, folder)
        if int(runs.hi[-1]) >> in_bits == 0:
            return Steps(in_bits, out_bits, nans, *(column.astype(np.int64) for column in runs))
        at = np.searchsorted(runs.lo, _widened(source), side="right") - 1
        z, j = runs.z[at], runs.j[at]
    return Steps(in_bits, out_bits, nans, *_merge(z.astype(np.int64), j.astype(np.int64)))


class Asked(NamedTuple):
    """What an id asks: how many operands of which row give which."""

    op: str
    operands: int
    source: Format
    target: Format


def asked_of(vector_id: str) -> Asked:
    """The rows of an id; of one of blocks amax and the scale, or a quotient and the element.

    >>> asked_of("scale.f32.mxfp4.exact.sat.run").target.name
    'e8m0'
    """
    if vector_id.partition(".")[0] in golden.BLOCK_OPERATIONS:
        blocks = golden.block_question(vector_id)
        target = blocks.bfmt.element if blocks.op == "element" else blocks.bfmt.scale
        operands = 2 if blocks.shape in ("tv", "dig") else 1
        return Asked(blocks.op, operands, get_format(blocks.source), target)
    asked = golden.question(vector_id)
    return Asked(asked.op, golden.OPERATIONS[asked.op], get_format(asked.source), get_format(asked.target))


def _table(vector_id: str, nans: Ranges, folder: Folder) -> tuple[Array, Array]:
    """Results and digits of a `.tab` file: of its mask, or 2 for each NaN and 1 for all else."""
    values = golden.load_table(vector_id, folder)
    z = values.view(f"u{values.itemsize}").reshape(-1)
    mask = golden.load_mask(vector_id, folder)
    if mask is not None:
        return z, mask
    nan = np.zeros(z.size, bool)
    for lo, hi in nans:
        nan |= (z >= lo) & (z <= hi)
    return z, 1 + nan


def _widened(source: Format) -> Array:
    """Every pattern of fp16 or bf16, in order, as the float32 pattern of the same number."""
    patterns = np.arange(1 << 16, dtype=np.uint32)
    if source.exponent_bits == 8:
        return patterns << 16
    infinity = source.exponent_mask
    singles = patterns.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    nan = (patterns & source.magnitude_mask) > infinity  # a processor may change a NaN that it widens
    return np.where(nan, (patterns >> 15) << 31 | 0xFF << 23 | (patterns & source.mantissa_mask) << 13, singles)


def _merge(z: Array, j: Array) -> tuple[Array, Array, Array, Array]:
    """lo, hi, z, j: neighbours with one answer become one step."""
    change = np.flatnonzero((z[1:] != z[:-1]) | (j[1:] != j[:-1])) + 1
    lo = np.concatenate([[0], change])
    hi = np.concatenate([change, [z.size]]) - 1
    return lo, hi, z[lo], j[lo]


def nan_ranges(row: Format) -> list[tuple[int, int]]:
    """The codes that are NaN, as inclusive ranges.

    >>> [(hex(lo), hex(hi)) for lo, hi in nan_ranges(get_format("e5m2"))]
    [('0x7d', '0x7f'), ('0xfd', '0xff')]
    """
    if row.nan == "none":
        return []
    if row.nan == "negative_zero":
        return [(row.sign_mask, row.sign_mask)]
    first = row.exponent_mask + 1 if row.nan == "ieee" else row.magnitude_mask
    positive = (first, row.magnitude_mask)
    return [positive, (first | row.sign_mask, row.code_mask)] if row.sign_mask else [positive]
