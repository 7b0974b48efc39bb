"""y = W x for up to 8 columns of x at once, by tensor cores: the words of W are read once, as they lie.

A warp has `tiles` tiles of 16 rows; `splits` warps share the same rows, the next ones the rows below.
In `mma` of 16 x 8 x 16 the weights are A and x is B, columns past the last one repeat it and are not
written.  A sum does not change when k is permuted in both operands alike, so lane 4 g + t takes

    of W    16 bytes of row g, and of row g + 8: vector 4 s + t of step s, one load each
    of x    the same k of column g

and gives their pairs, in turn, as the fragments of the next mma.  No word is moved.  Steps s of the
warps of one row follow one another in chunks of `depth`, whose loads all come before the first mma::

    split     s / depth % splits

What is left of k goes step by step, with words masked past k and x taken as 0 there.  Then the sums of
the splits are added in order through shared memory, and where `parts` blocks share a row, those of the
parts by the last block to come; times 2**factor, times scale, plus bias, one rounding.  The result has
the same bits on every run, but no order of float32 operations replays it: `feather_ref.ops.error_bound`
with `TensorCore` says how far it may be off.

Products are exact, whatever x is: weights become float16, which e5m2 and fp16 are parts of, with x in
float16; else bfloat16.  A float32 x is then three bfloat16, each a sum of its own.  Scales of blocks are
multiplied into the weights: in float16 where the scales of a matrix are alike enough (`narrow`), else in
bfloat16, where a float16 x is two terms.

Where NaN is the only special value of a format, a flag a row tells that one was seen: its sums are NaN.

Source: design of this project; PTX ISA 8.7, 9.7.14.5 (mma.m16n8k16), for the fragments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, device, kernel
from feather_kernels.decoders import CANONICAL_NAN
from feather_kernels.encoders import make_encoder
from feather_kernels.fragments import make_multiply, pairs_of
from feather_kernels.launch import Job, element
from feather_kernels.operands import Function, Product, Shared
from feather_kernels.tiles import (
    COLUMNS,
    ROWS,
    WORDS,
    Tiles,
    make_load,
    make_load_marks,
    make_load_some,
    make_load_some_x,
    make_load_x,
)
from feather_ref import get_format
from feather_ref.policy import resolve


@dataclass(frozen=True)
class Columns(Tiles):
    """One kernel: what it computes and how it is cut up.

    all_aligned: where x begins on 16 bytes, so does every column.  registers: of a lane at the most, so that more
    blocks fit.
    """

    all_aligned: bool = True
    registers: int | None = None

    def order(self) -> None:
        """None: a tensor core's additions are not replayed."""

    def explain(self, n: int, k: int) -> list[str]:
        """What it is and how it divides the work, in lines."""
        loads = "128-bit" if self.aligned else "32-bit"
        return [
            f"mma of {n} x {k} {self.weights}, and up to {COLUMNS} columns of x in {self.x}, result in {self.out}",
            f"{self.division}; {loads} loads, {2 * self.tiles * self.depth} at once",
        ]

    def make(self) -> Function:
        """The kernel of these choices: see `_make` for its arguments."""
        return _make(self)

    def job(self, x_aligned: bool = True) -> Job:
        """What to compile, for columns of x that begin on 16 bytes or not."""
        g = replace(self, x_aligned=x_aligned and self.all_aligned, all_aligned=True)
        row = g.fmt.name if g.shared is None else f"{g.fmt.name}b{g.shared.size}"
        cut = f"t{g.tiles}s{g.splits}w{g.warps}d{g.depth}p{g.parts}"
        name = f"columns_{row}_{g.x}_{g.out}_{cut}{'f' * g.finite}"
        small = element(get_format(g.x).bits)
        kinds = ("u32*", "u8*", "u32*", small, "f32*", "f32*", element(get_format(g.out).bits), "u32*", *["i64"] * 7)
        return Job(name, g.make, kinds, repr(g), g.registers)


def from_gemv(g: Product, capability: tuple[int, int], narrow: bool = False) -> Columns:
    """The kernel for the same weights, x and result."""
    short = capability < (8, 0)
    same = {name: getattr(g, name) for name in ("finite", "bias", "aligned", "native", "shared")}
    return Columns(g.fmt, g.x, g.out, short=short, narrow=narrow and g.x == "fp16", **same)


def reason_against(g: Columns, capability: tuple[int, int], scales: tuple[float, float] = (1.0, 1.0)) -> str | None:
    """Why tensor cores do not take it; None where they do.  scales: the least and the greatest of the blocks."""
    least, kind = ((8, 0), "bfloat16") if g.short_floats else ((7, 5), "float16")
    if capability < least:
        return f"tensor cores take {kind} from compute capability {least[0]}.{least[1]} on"
    if g.terms > 1 and g.fmt.has_inf and not g.finite:
        return "Inf times a part of x that is 0 would be NaN"
    if g.pairs is None:
        return f"{g.fmt.name} is not decoded to pairs of {kind}"
    if g.shared is not None and not _fits(g.shared, g.lanes):
        return f"scales in {g.shared.scale.name} of blocks of {g.shared.rows} x {g.shared.size} have no kernel"
    if not (scales[0] >= 2.0**-90 and scales[1] <= 2.0**90):
        return "scales are so far from 1 that their products leave bfloat16"
    return None


def _fits(shared: Shared, lanes: int) -> bool:
    """Whether scales can be multiplied in as bfloat16: exact ones, at the most as many as a vector has halves."""
    row, size = shared.scale, shared.size
    exact = row.kind == "float" and (row.storage_bits, row.storage_shift) == (8, 0) and row.mantissa_bits < 8
    whole = size % lanes == 0 or (lanes % size == 0 and size % 4 == 0)
    return exact and whole and shared.rows == 1 and not shared.zero and shared.plain


def with_cut(g: Columns, rows: int, splits: int, warps: int, depth: int, parts: int = 1) -> Columns:
    """A kernel that is cut up as told; rows is 16 a tile."""
    if rows % ROWS:
        raise ValueError(f"cut: tensor cores take a multiple of {ROWS} rows, got {rows}")
    return replace(g, tiles=rows // ROWS, splits=splits, warps=warps, depth=depth, parts=parts)


@cache
def _make(g: Columns) -> Function:
    tiles, splits, parts, depth, lanes = g.tiles, g.splits, g.parts, g.depth, g.lanes
    step_words, step_codes = 4 * WORDS, 4 * lanes
    chunk_codes, turns, turn_steps = step_codes * depth, parts * splits, splits * depth
    warp_rows, block_rows, threads, block_words = g.warp_rows, g.block_rows, g.threads, g.block_words
    pitch = warp_rows + 4  # a column of sums in shared memory: no two lanes of a store meet in a bank
    # Sizes of arrays must be names.
    halves, sums_size, partials = 2 * tiles, 4 * tiles, g.warps * COLUMNS * pitch
    step_size, step_marks, x_size = halves * WORDS, halves * g.blocks, g.terms * (lanes // 2)
    code_words, mark_words, x_words = depth * step_size, max(1, depth * step_marks), depth * x_size
    factor = pairs_of(g).factor
    rest = np.float32(2.0**factor)
    deferred, has_bias, flagged, shared = factor != 0, g.bias, g.flag is not None, g.shared is not None
    load, load_marks, load_x, multiply = make_load(g), make_load_marks(g), make_load_x(g), make_multiply(g)
    load_some, load_some_x = make_load_some(g), make_load_some_x(g)
    code_of = make_encoder(resolve(get_format(g.out)))

    @device
    def load_chunk(w, scales, x, x_small, rows, marks_at, column, step, quarter, codes, marks, numbers):
        for d in range(depth):
            for r in range(halves):
                load(w, rows[r] + np.uint32((step + d) * step_words), codes, d * step_size + r * WORDS)
        if shared:
            for d in range(depth):
                for r in range(halves):
                    load_marks(scales, marks_at[r], np.uint32((step + d) * 4 + quarter), marks, d * halves + r)
        for d in range(depth):
            load_x(x, x_small, column, np.uint32((step + d) * step_codes + quarter * lanes), numbers, d * x_size)

    @device
    def sum_splits(partial, i):
        j, r = np.uint32(i // block_rows), np.uint32(i % block_rows)
        at = np.uint32((r // warp_rows * splits * COLUMNS + j) * pitch + r % warp_rows)
        total = partial[at]
        for s in range(1, splits):
            total = ptx.add(total, partial[np.uint32(at + s * COLUMNS * pitch)])
        return total

    @device
    def sum_parts(work, place, results, i):
        total = ptx.as_float(ptx.load_fresh(work, place + 1 + i))
        for p in range(1, parts):
            total = ptx.add(total, ptx.as_float(ptx.load_fresh(work, place + 1 + np.uint32(p * results + i))))
        return total

    @kernel
    def columns(
        w, scales, x, x_small, scale, bias, y, work, n, k, stride, scales_stride, scale_stride, down, count
    ):  # fmt: skip
        codes = cuda.local.array(code_words, np.uint32)
        marks = cuda.local.array(mark_words, np.uint32)
        numbers = cuda.local.array(x_words, np.uint32)
        rows = cuda.local.array(halves, np.int64)
        marks_at = cuda.local.array(halves, np.int64)
        sums = cuda.local.array(sums_size, np.float32)
        flags = cuda.local.array(halves, np.uint32)
        partial = cuda.shared.array(partials, np.float32)
        turn = cuda.shared.array(1, np.uint32)
        thread, block = np.uint32(cuda.threadIdx.x), np.uint32(cuda.blockIdx.x)
        lane, warp = np.uint32(thread % 32), np.uint32(thread // 32)
        own, quarter, split = np.uint32(lane // 4), np.uint32(lane % 4), np.uint32(warp % splits)
        part, block_first = np.uint32(block % parts), np.uint32(block // parts * block_rows)
        first = np.uint32(block_first + warp // splits * warp_rows + own)
        size, last, columns_last = np.uint32(k), np.uint32(n - 1), np.uint32(count - 1)
        for r in range(halves):
            row = min(np.uint32(first + 8 * r), last)
            rows[r] = ptx.wide(row, stride) + np.uint32(quarter * WORDS)
            marks_at[r] = ptx.wide(row, scales_stride)
            flags[r] = np.uint32(0)
        for i in range(sums_size):
            sums[i] = np.float32(0)
        column, below = ptx.wide(min(own, columns_last), k), ptx.as_float(np.uint32(down))
        # 1. Whole steps, `depth` at a time.
        every = np.uint32(size // chunk_codes * depth)
        stretch = np.uint32((every // depth + turns - 1) // turns * turn_steps)
        stop = min(every, np.uint32((part + 1) * stretch))
        step = np.uint32(part * stretch + split * depth)
        while step < stop:
            load_chunk(w, scales, x, x_small, rows, marks_at, column, step, quarter, codes, marks, numbers)
            for d in range(depth):
                multiply(codes, d * step_size, marks, d * step_marks, below, numbers, d * x_size, sums, flags)
            step = np.uint32(step + turn_steps)
        # 2. What is left, for the last part.
        step = np.uint32(every + split)
        while part == np.uint32(parts - 1) and np.uint32(step * step_codes) < size:
            begin = np.uint32(step * step_codes + quarter * lanes)
            left = np.uint32(size - begin) if begin < size else np.uint32(0)
            for r in range(halves):
                load_some(w, rows[r] + np.uint32(step * step_words), left, codes, r * WORDS)
                if shared:
                    load_marks(scales, marks_at[r], np.uint32(step * 4 + quarter), marks, r)
            load_some_x(x_small, column + begin, left, numbers)
            multiply(codes, 0, marks, 0, below, numbers, 0, sums, flags)
            step = np.uint32(step + splits)
        # 3. The sums of the warps.
        for r in range(halves):
            if flagged:
                seen = ptx.as_float(np.uint32(CANONICAL_NAN if flags[r] != np.uint32(0) else 0))
                seen = ptx.add(seen, ptx.butterfly(seen, np.uint32(1)))
                seen = ptx.add(seen, ptx.butterfly(seen, np.uint32(2)))
                sums[2 * r] = ptx.add(sums[2 * r], seen)
                sums[2 * r + 1] = ptx.add(sums[2 * r + 1], seen)
            at = np.uint32((warp * COLUMNS + 2 * quarter) * pitch + 8 * r + own)
            partial[at] = sums[2 * r]
            partial[np.uint32(at + pitch)] = sums[2 * r + 1]
        cuda.syncthreads()
        # 4. Of the parts, the last block to come has them all.
        results, ends = np.uint32(block_rows * np.uint32(count)), True
        place = ptx.wide(np.uint32(block // parts), block_words)
        if parts > 1:
            item = thread
            while item < results:
                ptx.store(work, place + 1 + np.uint32(part * results + item), ptx.as_bits(sum_splits(partial, item)))
                item = np.uint32(item + threads)
            cuda.syncthreads()
            if thread == np.uint32(0):
                turn[0] = ptx.count(work, place)
            cuda.syncthreads()
            ends = turn[0] == np.uint32(parts - 1)
            if ends and thread == np.uint32(0):
                ptx.store(work, place, np.uint32(0))
        # 5. Factor, scale, bias, one rounding: a number of the result a thread.
        item = thread
        while ends and item < results:
            j, row = np.uint32(item // block_rows), np.uint32(block_first + item % block_rows)
            if row <= last:
                total = sum_parts(work, place, results, item) if parts > 1 else sum_splits(partial, item)
                if deferred:
                    total = ptx.mul(total, rest)
                total = ptx.mul(total, scale[ptx.wide(row, scale_stride)])
                if has_bias:
                    total = ptx.add(total, bias[row])
                y[ptx.wide(j, n) + row] = code_of(ptx.as_bits(total))
            item = np.uint32(item + threads)

    return columns
