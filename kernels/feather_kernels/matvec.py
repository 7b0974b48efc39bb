"""y = W x: the words of W are read once, decoded in registers and multiplied in a stated order.

A block of threads has some warps; `splits` of them share the same `rows` rows of W, the next ones the rows
below, and `parts` blocks share the same rows, each with one stretch of k.  A vector is up to 128 bits
of one row, `lanes` codes; vector v of a stretch belongs to::

    lane     v % 32
    split    v / 32 % splits

A lane loads its vector of each row, and the same part of x once for all rows, and does
acc = fma(w, x, acc) in the order of k, from +0; `depth` vectors are loaded before the first is used.
Then the butterfly over the lanes (16, 8, 4, 2, 1), the sum over the splits through shared memory, in
order, the sum over the parts by the block that comes last, in order, times 2**factor, times scale, plus
bias, one rounding.  `Gemv.order` states this for `feather_ref.ops`, which replays it bit for bit,
whatever rows, warps and depth are.

Where numbers share a scale, those of one vector have a sum of their own, from +0, and
acc = fma(sum, scale, acc): a scale is read once for its vector.  Codes of zero points are taken off first.

Weights may keep a power of two that decoding would cost an instruction for; it is brought in at the
end, and part of it with x, so that no product comes near the ends of float32.

Where NaN is the only special value of a format, a flag a row tells that one was seen: the sum is NaN.

The last, partial vector of a row goes element by element: codes past k are not multiplied by zero,
they are left out, since code 0 is -1 in nf4 and NaN may stand behind the end.

Source: design of this project; PTX ISA 8.7 for the instructions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, kernel
from feather_kernels.decoders import CANONICAL_NAN, row_table
from feather_kernels.dots import make_multiply, make_multiply_rest
from feather_kernels.encoders import make_encoder
from feather_kernels.launch import Job, element
from feather_kernels.operands import Function
from feather_kernels.vectors import Vectors, make_load, make_load_marks, make_load_x
from feather_ref import get_format
from feather_ref.policy import resolve


@dataclass(frozen=True)
class Gemv(Vectors):
    """One kernel: what it computes and how it is cut up.

    overlap: it begins while the kernel before it ends, and asks for its first weights before it waits: sm_90 and up.
    """

    overlap: bool = False

    def order(self) -> dict[str, Any]:
        """The fields of the `feather_ref.ops.Order` of this kernel."""
        powers = {"factor": self.decoder.factor, "x_factor": self.decoder.x_factor}
        return {"vector": self.lanes, "warps": self.splits, "splits": self.parts, "fold": False, **powers}

    def explain(self, n: int, k: int) -> list[str]:
        """What it is and how it divides the work, in lines."""
        loads = "128-bit" if self.aligned else "32-bit"
        early = "; it begins while the kernel before it ends" if self.overlap else ""
        return [
            f"gemv of {n} x {k} {self.weights}, x in {self.x}, result in {self.out}",
            f"{self.division}; {loads} loads, {self.depth} at once{early}",
        ]

    def job(self, x_aligned: bool = True) -> Job:
        """What to compile, for an x that begins on 16 bytes or not."""
        g = replace(self, x_aligned=x_aligned)
        cut = f"r{g.rows}s{g.splits}w{g.warps}d{g.depth}p{g.parts}{'f' * g.finite}"
        blocks = "" if g.shared is None else f"_{g.shared.scale.name}_{g.shared.size}"
        name = f"gemv_{g.fmt.name}{blocks}_{g.x}_{g.out}_{cut}"
        small, out = element(get_format(g.x).bits), element(get_format(g.out).bits)
        scales, zeros = element(g.scale_bits), element(max(8, g.fmt.storage_bits))
        kinds = ("u32*", scales, zeros, "u32*", small, "f32*", "f32*", out, "u32*", *["i64"] * 6)
        return Job(name, g.make, kinds, repr(g), overlap=g.overlap)

    def make(self) -> Function:
        """The kernel of these choices: see `_make` for its arguments."""
        return _make(self)


@cache
def _make(g: Gemv) -> Function:
    """The kernel gemv(w, scales, zeros, x, x_small, scale, bias, y, work, n, k, and five strides)."""
    rows, splits, parts, depth, lanes, words = g.rows, g.splits, g.parts, g.depth, g.lanes, g.words
    groups, step, threads = g.warps // splits, 32 * splits, g.threads
    chunk = parts * step * lanes
    load_vector, load_marks, load_x = make_load(words, g.aligned), make_load_marks(g), make_load_x(g)
    multiply, multiply_rest = make_multiply(g), make_multiply_rest(g)
    # Sizes of arrays must be names.
    row_words, row_marks, x_words = rows * words, rows * g.marks, lanes * get_format(g.x).bits // 32
    code_size, mark_size, x_size, partials = (
        depth * row_words,
        max(1, depth * row_marks),
        depth * x_words,
        g.warps * rows,
    )
    factor = g.decoder.factor
    power = np.float32(2.0**factor)
    overlap = g.overlap
    deferred, has_bias, flagged = factor != 0, g.bias, g.flag is not None
    late, high = g.shared is not None, 1 if g.shared is None else g.shared.rows  # scales of blocks need the registers
    known = row_table(g.fmt)
    tabled = known is not None
    values = np.zeros(1, np.float32) if known is None else known
    entries = len(values)
    code_of = make_encoder(resolve(get_format(g.out)))

    @kernel
    def gemv(
        w, scales, zeros, x, x_small, scale, bias, y, work, n, k, stride, scales_stride, zeros_stride, scale_stride
    ):
        codes = cuda.local.array(code_size, np.uint32)
        marks = cuda.local.array(mark_size, np.uint32)
        xs = cuda.local.array(x_size, np.uint32)
        sums = cuda.local.array(rows, np.float32)
        flags = cuda.local.array(rows, np.uint32)
        row_at = cuda.local.array(rows, np.int64)  # where a row of words, of scales, of zeros begins
        scales_at = cuda.local.array(rows, np.int64)
        zeros_at = cuda.local.array(rows, np.int64)
        partial = cuda.shared.array(partials, np.float32)
        table = cuda.shared.array(entries, np.float32)
        thread, block, last = np.uint32(cuda.threadIdx.x), np.uint32(cuda.blockIdx.x), np.uint32(n - 1)
        lane, warp = np.uint32(thread % 32), np.uint32(thread // 32)
        split, part = np.uint32(warp % splits), np.uint32(block % parts)
        first = np.uint32(np.uint32(np.uint32(block // parts) * groups + np.uint32(warp // splits)) * rows)
        own = np.uint32(first + min(lane, np.uint32(rows - 1)))  # the row that this lane ends
        for r in range(rows):
            sums[r], flags[r] = np.float32(0), np.uint32(0)
            at = min(np.uint32(first + r), last)
            row_at[r] = ptx.wide(at, stride)
            scales_at[r] = ptx.wide(np.uint32(at // high), scales_stride)
            zeros_at[r] = ptx.wide(np.uint32(at // high), zeros_stride)
        if tabled:
            for i in range(thread, entries, threads):
                table[i] = cuda.const.array_like(values)[i]
            cuda.syncthreads()
        # 1. Whole vectors, `depth` at a time.
        whole = np.uint32(np.uint32(k) // lanes)
        begin, stop = np.uint32(0), np.uint32(whole + 1)
        if parts > 1:
            stretch = np.uint32((k + chunk - 1) // chunk * step)
            begin, stop = np.uint32(part * stretch), np.uint32(np.uint32(part + 1) * stretch)
        end = min(stop, whole)
        v = np.uint32(begin + lane + 32 * split)
        if overlap:
            ptx.let_next_start()
            if v < end:
                for r in range(rows):
                    ptx.prefetch(w, row_at[r] + np.int64(v) * words)
            ptx.wait_for_previous()
        own_scale, own_bias = np.float32(1), np.float32(0)
        if not late:
            own_scale = ptx.load_float(scale, ptx.wide(min(own, last), scale_stride))
            own_bias = ptx.load_float(bias, min(own, last)) if has_bias else np.float32(0)
        while v < end:
            here = np.int64(v)
            for d in range(depth):
                if np.uint32(v + step * d) < end:
                    for r in range(rows):
                        load_vector(w, row_at[r] + (here + step * d) * words, codes, d * row_words + r * words)
                        load_marks(scales, zeros, scales_at[r], zeros_at[r], v, d, marks, d * rows + r)
                    load_x(x, x_small, here + step * d, xs, d * x_words)
            for d in range(depth):
                if np.uint32(v + step * d) < end:
                    multiply(codes, d * row_words, marks, d * rows, xs, d * x_words, table, sums, flags)
            v = np.uint32(v + step * depth)
        # 2. The codes that fill no vector, by the lane whose turn it is.
        rest = np.uint32(k) - whole * lanes
        turn = np.uint32(np.uint32(whole - begin) % step) == np.uint32(lane + 32 * split)
        if rest > 0 and begin <= whole and whole < stop and turn:
            for r in range(rows):
                load_marks(scales, zeros, scales_at[r], zeros_at[r], whole, 0, marks, r)
            multiply_rest(w, row_at, whole, marks, x_small, rest, sums)
        if late:
            own_scale = ptx.load_float(scale, ptx.wide(min(own, last), scale_stride))
            own_bias = ptx.load_float(bias, min(own, last)) if has_bias else np.float32(0)
        # 3. The sums of the lanes: all lanes have them, and lane r goes on with row r.
        total = np.float32(0)
        for r in range(rows):
            one = sums[r]
            if flagged and flags[r] != np.uint32(0):
                one = ptx.as_float(np.uint32(CANONICAL_NAN))
            one = ptx.add(one, ptx.butterfly(one, np.uint32(16)))
            one = ptx.add(one, ptx.butterfly(one, np.uint32(8)))
            one = ptx.add(one, ptx.butterfly(one, np.uint32(4)))
            one = ptx.add(one, ptx.butterfly(one, np.uint32(2)))
            one = ptx.add(one, ptx.butterfly(one, np.uint32(1)))
            if lane == np.uint32(r):
                total = one
        # 4. Of the splits, and of the parts: the last block to come has them all.
        if splits > 1:
            if lane < np.uint32(rows):
                partial[np.uint32(warp * rows + lane)] = total
            cuda.syncthreads()
        ends = split == np.uint32(0) and lane < np.uint32(rows)
        if ends:
            for s in range(1, splits):
                total = ptx.add(total, partial[np.uint32(np.uint32(warp + s) * rows + lane)])
            if parts > 1:
                place = ptx.wide(own, np.uint32(parts + 1))
                ptx.store(work, place + 1 + part, ptx.as_bits(total))
                ends = ptx.count(work, place) == np.uint32(parts - 1)
                if ends:
                    total = ptx.as_float(ptx.load_fresh(work, place + 1))
                    for p in range(1, parts):
                        total = ptx.add(total, ptx.as_float(ptx.load_fresh(work, place + 1 + p)))
                    ptx.store(work, place, np.uint32(0))
        # 5. Factor, scale, bias, one rounding.
        if ends and own <= last:
            if deferred:
                total = ptx.mul(total, power)
            total = ptx.mul(total, own_scale)
            if has_bias:
                total = ptx.add(total, own_bias)
            y[own] = code_of(ptx.as_bits(total))

    return gemv
