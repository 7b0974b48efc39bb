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

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, device, kernel
from feather_kernels.decoders import (
    CANONICAL_NAN,
    Decoder,
    make_decoder,
    make_nan_flag,
    make_scale,
    make_top,
    make_value,
    row_table,
    widens,
)
from feather_kernels.encoders import make_encoder
from feather_kernels.launch import Job, element
from feather_ref import Format, get_format
from feather_ref.policy import resolve

Function = Callable[..., Any]


class Shared(NamedTuple):
    """What the numbers of a block share: size of them along k, and rows; the row of the scale.

    zero: a code that means zero, too.  plain: no scale is NaN, nor below the normal numbers of float32.
    """

    size: int
    rows: int
    scale: Format
    zero: bool = False
    plain: bool = False


@dataclass(frozen=True)
class Gemv:
    """One kernel: what it computes and how it is cut up.

    fmt, x, out: rows of the weights, of x (fp16, bf16, fp32) and of the result.  rows, splits, warps,
    depth, parts: see above; warps is a multiple of splits.  finite: no code of W is Inf or NaN.  aligned:
    every row of W starts on 16 bytes.  x_aligned: x does.  native: the target widens e4m3 itself.
    shared: what the numbers of blocks share, where they do.  overlap: it begins while the kernel before it ends,
    and asks for its first weights before it waits: sm_90 and up.
    """

    fmt: Format
    x: str = "fp16"
    out: str = "fp32"
    rows: int = 1
    splits: int = 1
    warps: int = 4
    depth: int = 1
    parts: int = 1
    finite: bool = False
    bias: bool = False
    aligned: bool = True
    x_aligned: bool = True
    native: bool = False
    overlap: bool = False
    shared: Shared | None = None

    @property
    def lanes(self) -> int:
        """Codes in a vector: as many whole words' worth as 128 bits hold, at least one; of whole blocks or of one.

        Raises ValueError where blocks go with no vector.
        """
        codes, words = self.fmt.period
        sizes = [codes * times for times in range(max(1, 4 // words), 0, -1)]
        if self.shared is None:
            return sizes[0]
        size = self.shared.size
        fitting = [lanes for lanes in sizes if (size % lanes == 0 or lanes % size == 0) and _nests(size, codes)]
        if not fitting:
            raise ValueError(f"W: no kernel has blocks of {size} numbers of {self.fmt.name}, whose words hold {codes}")
        return fitting[0]

    @property
    def words(self) -> int:
        """Words in a vector."""
        return self.lanes * self.fmt.storage_bits // 32

    @property
    def blocks(self) -> int:
        """Scales of a vector; 0 where there are none."""
        return 0 if self.shared is None else max(1, self.lanes // self.shared.size)

    @property
    def scale_bits(self) -> int:
        """Of one load of scales: all those of a vector where these are a number of 16 or 32 bits."""
        if self.shared is None:
            return 32
        one = self.shared.scale.storage_bits
        return one * self.blocks if one * self.blocks in (16, 32) else one

    @property
    def marks(self) -> int:
        """Words for the scales and zeros of a vector."""
        if self.shared is None:
            return 0
        return self.blocks * self.shared.scale.storage_bits // self.scale_bits + self.blocks * self.shared.zero

    @property
    def decoder(self) -> Decoder:
        """The decoder of the weights of whole vectors."""
        finite, short = self.finite or self.flag is not None, self.x == "fp16" and self.shared is None
        return make_decoder(self.fmt, finite, deferred=True, short_x=short, native=self.native)

    @property
    def flag(self) -> Function | None:
        """What tells whether a word holds a NaN, where that is asked."""
        return None if self.finite or (self.native and widens(self.fmt)) else make_nan_flag(self.fmt)

    def order(self) -> dict[str, Any]:
        """The fields of the `feather_ref.ops.Order` of this kernel."""
        powers = {"factor": self.decoder.factor, "x_factor": self.decoder.x_factor}
        return {"vector": self.lanes, "warps": self.splits, "splits": self.parts, "fold": False, **powers}

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * self.warps

    def grid(self, n: int) -> int:
        """Blocks for n rows."""
        return -(-n // (self.rows * (self.warps // self.splits))) * self.parts

    def workspace(self, n: int) -> int:
        """Words, zero at first, that the parts of n rows need: a counter and partial sums a row."""
        rows = self.grid(n) // self.parts * (self.warps // self.splits) * self.rows
        return rows * (1 + self.parts) if self.parts > 1 else 0

    def explain(self, n: int, k: int) -> list[str]:
        """What it is and how it divides the work, in lines."""
        loads = "128-bit" if self.aligned else "32-bit"
        shares = f"{self.rows} rows a warp share a load of x, {self.splits} warps share a row"
        across = f" and {self.parts} blocks do" if self.parts > 1 else ""
        early = "; it begins while the kernel before it ends" if self.overlap else ""
        blocks = "" if self.shared is None else f" in blocks of {self.shared.size} with {self.shared.scale.name} scales"
        return [
            f"gemv of {n} x {k} {self.fmt.name}{blocks}, x in {self.x}, result in {self.out}",
            f"{shares}{across}; {loads} loads, {self.depth} at once{early}",
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


def _nests(size: int, codes: int) -> bool:
    return size % codes == 0 or codes % size == 0


@cache
def _make(g: Gemv) -> Function:
    """The kernel gemv(w, scales, zeros, x, x_small, scale, bias, y, work, n, k, and five strides)."""
    rows, splits, parts, depth, lanes, words = g.rows, g.splits, g.parts, g.depth, g.lanes, g.words
    groups, step, threads = g.warps // splits, 32 * splits, g.threads
    chunk = parts * step * lanes
    load_vector, load_marks, load_x = _make_load(words, g.aligned), _make_load_marks(g), _make_load_x(g)
    multiply, multiply_rest = _make_multiply(g), _make_multiply_rest(g)
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


# --- what is loaded ---------------------------------------------------------------------------


def _make_load(words: int, aligned: bool) -> Function:
    """load(p, i, into, at): one vector of a row; words one by one come from L1, where their neighbours wait."""
    fours = words if aligned and words % 4 == 0 else 0

    @device
    def load(p, i, into, at):
        for j in range(0, fours, 4):
            into[at + j], into[at + j + 1], into[at + j + 2], into[at + j + 3] = ptx.stream4(p, i + j)
        for j in range(fours, words):
            into[at + j] = ptx.load_32(p, i + j)

    return load


_LOADS = {8: ptx.load_8, 16: ptx.load_16, 32: ptx.load_32}


def _make_load_marks(g: Gemv) -> Function:
    """load(scales, zeros, scales_at, zeros_at, v, d, into, slot): codes of the scales and zeros of vector v + d * step.

    A slot has all scales, in as few words as were loaded, then all zeros.
    """
    if g.shared is None:
        return _no_marks
    bits, blocks, zero, marks = g.scale_bits, g.blocks, g.shared.zero, g.marks
    loads = blocks * g.shared.scale.storage_bits // bits
    each, step = max(1, g.shared.size // g.lanes), 32 * g.splits  # vectors that share a block, and of a step
    even = step % each == 0
    load_scale, load_zero = _LOADS[bits], _LOADS[max(8, g.fmt.storage_bits)]

    @device
    def load(scales, zeros, scales_at, zeros_at, v, d, into, slot):
        if even:
            block = np.int64(np.uint32(v // each)) + d * (step // each)
        else:
            block = np.int64(np.uint32(np.uint32(v + d * step) // each))
        for i in range(loads):
            into[slot * marks + i] = load_scale(scales, scales_at + block * loads + i)
        if zero:
            for i in range(blocks):
                into[slot * marks + loads + i] = load_zero(zeros, zeros_at + block * blocks + i)

    return load


@device
def _no_marks(scales, zeros, scales_at, zeros_at, v, d, into, slot):
    pass


def _make_mark(g: Gemv) -> tuple[Function, Function]:
    """scale(marks, slot, b), zero(marks, slot, b): the numbers of block b of a vector."""
    if g.shared is None:
        return _no_mark, _no_mark
    row, marks, bits = g.shared.scale, g.marks, g.shared.scale.storage_bits
    per = g.scale_bits // bits  # scales in a word
    mask, loads = (1 << bits) - 1, g.blocks // per
    value, shift = make_scale(row, g.shared.plain), row.storage_shift
    value_of, place = make_value(g.fmt), 32 - g.fmt.bits

    @device
    def scale(into, slot, b):
        word = into[slot * marks + b // per]
        if per > 1:
            word = np.uint32(np.uint32(word >> np.uint32(b % per * bits)) & np.uint32(mask))
        return value(np.uint32(word >> np.uint32(shift)))

    @device
    def zero(into, slot, b):
        return value_of(np.uint32(into[slot * marks + loads + b] << np.uint32(place)))

    return scale, zero


@device
def _no_mark(into, slot, b):
    return np.float32(0)


def _make_load_x(g: Gemv) -> Function:
    """load(x, x_small, v, into, at): the words of the numbers of x that go with vector v."""
    lanes, bits = g.lanes, get_format(g.x).bits
    words = lanes * bits // 32

    @device
    def by_vector(x, x_small, v, into, at):
        for i in range(0, words, 4):
            into[at + i], into[at + i + 1], into[at + i + 2], into[at + i + 3] = ptx.read4(x, v * words + i)

    @device
    def by_word(x, x_small, v, into, at):
        for i in range(words):
            into[at + i] = ptx.read_32(x, v * words + i)

    @device
    def by_half(x, x_small, v, into, at):
        for i in range(words):
            high = np.uint32(ptx.read_16(x_small, v * lanes + 2 * i + 1) << np.uint32(16))
            into[at + i] = np.uint32(ptx.read_16(x_small, v * lanes + 2 * i) | high)

    if g.x_aligned and words % 4 == 0:
        return by_vector
    return by_word if bits == 32 else by_half


# --- what is multiplied -----------------------------------------------------------------------


def _make_decode(g: Gemv) -> Function:
    """decode(codes, at, table, into): the codes of the least number of whole words."""
    group, values = g.decoder.group, row_table(g.fmt)
    lanes, down = g.fmt.period[0], np.uint32(32 - g.fmt.bits)
    top = make_top(g.fmt.storage_bits, g.fmt.storage_bits - g.fmt.storage_shift - g.fmt.bits)

    @device
    def computed(codes, at, table, into):
        group(codes, at, into)

    @device
    def looked_up(codes, at, table, into):
        for j in range(lanes):
            into[j] = table[np.uint32(top(codes, at, j) >> down)]

    return computed if values is None else looked_up


def _make_values(g: Gemv) -> Function:
    """values(xs, at, into): the numbers of x for one vector, times 2**x_factor."""
    lane, lanes, power = make_decoder(get_format(g.x)).lane, g.lanes, g.decoder.x_factor
    moved, factor = power != 0, np.float32(2.0**power)

    @device
    def values(xs, at, into):
        for j in range(lanes):
            into[j] = lane(xs, at, j)
        if moved:
            for j in range(lanes):
                into[j] = ptx.mul(into[j], factor)

    return values


def _make_multiply(g: Gemv) -> Function:
    """multiply(codes, at, marks, slot, xs, x_at, table, sums, flags): one vector of every row."""
    rows, lanes, words = g.rows, g.lanes, g.words
    group_lanes, group_words = g.fmt.period
    groups = words // group_words
    decode, values_of, scaled = _make_decode(g), _make_values(g), g.shared is not None
    blocks_of = _make_blocks(g) if scaled else _no_blocks
    flagged, flag = g.flag is not None, g.flag or _no_flag

    @device
    def multiply(codes, at, marks, slot, xs, x_at, table, sums, flags):
        values = cuda.local.array(lanes, np.float32)
        weights = cuda.local.array(group_lanes, np.float32)
        values_of(xs, x_at, values)
        if scaled:
            blocks_of(codes, at, marks, slot, values, table, sums)
        else:
            for i in range(groups):
                for r in range(rows):
                    decode(codes, at + r * words + i * group_words, table, weights)
                    for j in range(group_lanes):
                        sums[r] = ptx.fma(weights[j], values[i * group_lanes + j], sums[r])
        if flagged:
            for r in range(rows):
                for i in range(words):
                    flags[r] = np.uint32(flags[r] | flag(codes[at + r * words + i]))

    return multiply


@device
def _no_flag(word):
    return np.uint32(0)


def _make_blocks(g: Gemv) -> Function:
    """blocks(codes, at, marks, slot, values, table, sums): one vector of every row, block by block."""
    rows, words, decode = g.rows, g.words, _make_decode(g)
    scale_of, zero_of = _make_mark(g)
    zero = g.shared is not None and g.shared.zero
    group_lanes, group_words = g.fmt.period
    size = g.lanes // g.blocks  # codes of a block in this vector
    groups, cuts = max(1, size // group_lanes), max(1, group_lanes // size)  # words of a block, blocks of the words
    outer, inner = g.blocks // cuts, min(size, group_lanes)

    @device
    def blocks(codes, at, marks, slot, values, table, sums):
        own = cuda.local.array(rows, np.float32)
        weights = cuda.local.array(group_lanes, np.float32)
        for b in range(outer):
            for r in range(rows):
                own[r] = np.float32(0)
            for i in range(groups):
                for r in range(rows):
                    decode(codes, at + r * words + (b * groups + i) * group_words, table, weights)
                    for c in range(cuts):
                        if zero:
                            below = zero_of(marks, slot + r, b * cuts + c)
                            for j in range(inner):
                                weights[c * inner + j] = ptx.add(weights[c * inner + j], -below)
                        if cuts > 1:
                            own[r] = np.float32(0)
                        for j in range(inner):
                            x = values[(b * groups + i) * group_lanes + c * inner + j]
                            own[r] = ptx.fma(weights[c * inner + j], x, own[r])
                        if cuts > 1:
                            sums[r] = ptx.fma(own[r], scale_of(marks, slot + r, b * cuts + c), sums[r])
            if cuts == 1:
                for r in range(rows):
                    sums[r] = ptx.fma(own[r], scale_of(marks, slot + r, b), sums[r])

    return blocks


@device
def _no_blocks(codes, at, marks, slot, values, table, sums):
    pass


def _make_multiply_rest(g: Gemv) -> Function:
    """rest(w, row_at, whole, marks, x, count, sums): the `count` codes of every row behind its whole vectors."""
    rows, lanes, words = g.rows, g.lanes, g.words
    _, _, factor, power = g.decoder
    deferred = factor != 0 or power != 0
    down, up = np.float32(2.0 ** -(factor + power)), np.float32(2.0**power)
    lane_of = make_decoder(g.fmt).lane
    x_row = get_format(g.x)
    value, place = make_value(x_row), 32 - x_row.bits
    blocks, scaled = max(1, g.blocks), g.shared is not None
    zero, size = g.shared is not None and g.shared.zero, lanes // blocks
    scale_of, zero_of = _make_mark(g)

    @device
    def rest(w, row_at, whole, marks, x, count, sums):
        own = cuda.local.array(rows, np.float32)
        for b in range(blocks):
            for r in range(rows):
                own[r] = np.float32(0) if scaled else sums[r]
            for j in range(b * size, min((b + 1) * size, count)):
                xj = value(np.uint32(np.uint32(x[np.uint32(whole * lanes + j)]) << np.uint32(place)))
                if deferred:
                    xj = ptx.mul(xj, up)
                for r in range(rows):
                    wj = lane_of(w, row_at[r] + np.uint32(whole * words), j)
                    if zero:
                        wj = ptx.add(wj, -zero_of(marks, r, b))
                    if deferred:
                        wj = ptx.mul(wj, down)
                    own[r] = ptx.fma(wj, xj, own[r])
            if b * size < count:
                for r in range(rows):
                    sums[r] = ptx.fma(own[r], scale_of(marks, r, b), sums[r]) if scaled else own[r]

    return rest
