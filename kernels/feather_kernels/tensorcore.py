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

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, device, kernel
from feather_kernels.decoders import (
    CANONICAL_NAN,
    Pairs,
    make_nan_flag,
    make_pairs,
    make_scale,
    make_short_pairs,
    widens,
)
from feather_kernels.encoders import make_encoder
from feather_kernels.launch import Job, element
from feather_kernels.matvec import Gemv, Shared
from feather_ref import Format, get_format
from feather_ref.policy import resolve

COLUMNS = 8
ROWS = 16  # of a tile
WORDS = 4  # of a vector

Function = Callable[..., Any]


@dataclass(frozen=True)
class Columns:
    """One kernel: what it computes and how it is cut up.

    fmt, x, out: rows of the weights, of x and of the result.  tiles, splits, warps, depth: see above;
    warps is a multiple of splits.  finite: no code of W is Inf or NaN.  aligned: every row of W starts on
    16 bytes.  x_aligned: x does, all_aligned: and so does every column then.  short: `mma` with
    half the k, for sm_75.  native: the target widens e4m3 itself.  shared: what codes of a block share;
    narrow: float16 holds every code times its scale times one power of two, which `scale` makes up for.
    registers: of a lane at the most, so that more blocks fit.
    """

    fmt: Format
    x: str = "fp16"
    out: str = "fp32"
    tiles: int = 1
    splits: int = 8
    warps: int = 8
    depth: int = 1
    parts: int = 1
    finite: bool = False
    bias: bool = False
    aligned: bool = True
    x_aligned: bool = True
    all_aligned: bool = True
    short: bool = False
    native: bool = False
    shared: Shared | None = None
    narrow: bool = False
    registers: int | None = None

    @property
    def lanes(self) -> int:
        """Codes in a vector."""
        return WORDS * 32 // self.fmt.storage_bits

    @property
    def flag(self) -> Function | None:
        """What tells whether a word holds a NaN, where that is asked."""
        widened = self.native and widens(self.fmt) and not self.short_floats
        return None if self.finite or widened else make_nan_flag(self.fmt)

    @property
    def short_floats(self) -> bool:
        """Whether pairs are of bfloat16, which has the range of float32, and not of float16."""
        return self.x != "fp16" or (self.shared is not None and not self.narrow)

    @property
    def marks(self) -> int:
        """Scales of a vector."""
        return 0 if self.shared is None else max(1, self.lanes // self.shared.size)

    @property
    def pairs(self) -> Pairs | None:
        """The decoder of the weights; None where there is none for tensor cores."""
        plain = self.finite or self.flag is not None
        return make_short_pairs(self.fmt, plain) if self.short_floats else make_pairs(self.fmt, plain, self.native)

    @property
    def terms(self) -> int:
        """How many bfloat16 or float16 make an element of x."""
        return 3 if self.x == "fp32" else 2 if self.x == "fp16" and self.short_floats else 1

    def order(self) -> None:
        """None: a tensor core's additions are not replayed."""

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * self.warps

    @property
    def rows(self) -> int:
        """Of a block."""
        return ROWS * self.tiles * (self.warps // self.splits)

    def grid(self, n: int) -> int:
        """Blocks for n rows."""
        return -(-n // self.rows) * self.parts

    def workspace(self, n: int) -> int:
        """Words, zero at first, that the parts of n rows need."""
        return self.grid(n) // self.parts * self.block_words if self.parts > 1 else 0

    @property
    def block_words(self) -> int:
        """Words where the parts of one block's rows meet: a counter, and each part's sums."""
        return 1 + self.parts * self.rows * COLUMNS

    def explain(self, n: int, k: int) -> list[str]:
        """What it is and how it divides the work, in lines."""
        loads = "128-bit" if self.aligned else "32-bit"
        across = f" and {self.parts} blocks do" if self.parts > 1 else ""
        return [
            f"mma of {n} x {k} {self.fmt.name} and up to {COLUMNS} columns of x in {self.x}, result in {self.out}",
            f"{ROWS * self.tiles} rows a warp share a load of x, {self.splits} warps share a row{across}; "
            f"{loads} loads, {2 * self.tiles * self.depth} at once",
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


def from_gemv(g: Gemv, narrow: bool = False) -> Columns:
    """The kernel for the same weights, x and result."""
    same = {name: getattr(g, name) for name in ("finite", "bias", "aligned", "native", "shared")}
    return Columns(g.fmt, g.x, g.out, narrow=narrow and g.x == "fp16", **same)


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


_MOST_TILES = {(True, False): 2, (True, True): 4, (False, False): 4, (False, True): 2}  # of 8 bits, of blocks


def choose(g: Columns, n: int, k: int, multiprocessors: int) -> Columns:
    """A kernel cut up as measured on one H200.

    Many tiles a warp spare loads and conversions of x, as far as registers go and there are two blocks of 8 or
    16 warps for every multiprocessor; with few rows, several blocks share them.
    """
    byte = g.fmt.bits == 8 and not g.short_floats
    most = 4 if g.short_floats else 1 if g.fmt.bits == 16 else _MOST_TILES[byte, g.shared is not None]
    tiles = next(tiles for tiles in (4, 2, 1) if tiles == 1 or (tiles <= most and n >= 30 * tiles * multiprocessors))
    many = n >= 60 * multiprocessors
    warps = 16 if (byte and tiles < 4) or (g.fmt.bits == 16 and not many) else 8
    blocks = -(-n // (ROWS * tiles))
    wanted = 1 if 2 * blocks > multiprocessors else 4 if 4 * blocks > multiprocessors else 8
    parts = next(parts for parts in (8, 4, 2, 1) if parts <= max(1, min(wanted, k // (4 * g.lanes * warps))))
    registers = 64 if byte and tiles == 2 else None
    return replace(g, tiles=tiles, splits=warps, warps=warps, parts=parts, registers=registers)


@cache
def _make(g: Columns) -> Function:
    tiles, splits, parts, depth, lanes = g.tiles, g.splits, g.parts, g.depth, g.lanes
    step_words, step_codes = 4 * WORDS, 4 * lanes
    chunk_codes, turns, turn_steps = step_codes * depth, parts * splits, splits * depth
    warp_rows, block_rows, threads, block_words = ROWS * tiles, g.rows, g.threads, g.block_words
    pitch = warp_rows + 4  # a column of sums in shared memory: no two lanes of a store meet in a bank
    # Sizes of arrays must be names.
    halves, sums_size, partials = 2 * tiles, 4 * tiles, g.warps * COLUMNS * pitch
    step_size, step_marks, x_size = halves * WORDS, halves * g.marks, g.terms * (lanes // 2)
    code_words, mark_words, x_words = depth * step_size, max(1, depth * step_marks), depth * x_size
    factor = _pairs_of(g).factor
    rest = np.float32(2.0**factor)
    deferred, has_bias, flagged, shared = factor != 0, g.bias, g.flag is not None, g.shared is not None
    load, load_marks, load_x, multiply = _make_load(g), _make_load_marks(g), _make_load_x(g), _make_multiply(g)
    load_some, load_some_x = _make_load_some(g), _make_load_some_x(g)
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


# --- parts ------------------------------------------------------------------------------------


def _pairs_of(g: Columns) -> Pairs:
    if g.pairs is None:
        raise ValueError(f"fmt: tensor cores have no decoder of {g.fmt.name!r}")
    return g.pairs


def _make_multiply(g: Columns) -> Function:
    """multiply(codes, at, marks, marks_at, below, numbers, x_at, sums, flags): one step of every tile."""
    tiles, lanes = g.tiles, g.lanes
    group_lanes, group_words = g.fmt.period
    groups, group_pairs, pairs = WORDS // group_words, group_lanes // 2, lanes // 2
    mmas, both, terms, marks_each = pairs // 2, 2 * pairs, g.terms, g.marks
    decode, flagged, flag = _pairs_of(g).halves, g.flag is not None, g.flag or _no_flag
    mma = ptx.mma_bf16 if g.short_floats else _mma8_twice if g.short else ptx.mma
    shared, share = g.shared is not None, _make_share(g)

    @device
    def multiply(codes, at, marks, marks_at, below, numbers, x_at, sums, flags):
        a = cuda.local.array(both, np.uint32)
        for i in range(tiles):
            for r in range(2):
                begin = at + (2 * i + r) * WORDS
                for j in range(groups):
                    decode(codes, begin + j * group_words, a, r * pairs + j * group_pairs)
                if shared:
                    share(marks, marks_at + (2 * i + r) * marks_each, below, a, r * pairs)
                if flagged:
                    for j in range(WORDS):
                        flags[2 * i + r] = np.uint32(flags[2 * i + r] | flag(codes[begin + j]))
            for m in range(mmas):
                for p in range(terms):
                    b = x_at + p * pairs + 2 * m
                    sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3] = mma(
                        a[2 * m], a[pairs + 2 * m], a[2 * m + 1], a[pairs + 2 * m + 1], numbers[b], numbers[b + 1],
                        sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3],
                    )  # fmt: skip

    return multiply


def _make_share(g: Columns) -> Function:
    """share(marks, at, below, a, begin): the pairs of a vector times the scales of their blocks, and below."""
    if g.shared is None:
        return _no_share
    value, marks, each = make_scale(g.shared.scale, True), g.marks, g.lanes // 2 // g.marks

    @device
    def share_short(marks_of, at, below, a, begin):
        for b in range(marks):
            scale = ptx.prmt(ptx.as_bits(value(marks_of[at + b])), np.uint32(0), np.uint32(0x3232))
            for i in range(each):
                a[begin + b * each + i] = ptx.mul_bf16(a[begin + b * each + i], scale)

    @device
    def share_half(marks_of, at, below, a, begin):
        for b in range(marks):
            one = ptx.mul(value(marks_of[at + b]), below)
            scale = ptx.half_pair(one, one)
            for i in range(each):
                a[begin + b * each + i] = ptx.mul_half(a[begin + b * each + i], scale)

    return share_short if g.short_floats else share_half


@device
def _no_share(marks_of, at, below, a, begin):
    pass


def _make_load_marks(g: Columns) -> Function:
    """load(scales, at, v, into, slot): the codes of the scales of vector v of the row whose scales begin at `at`."""
    marks = g.marks
    each = 1 if g.shared is None else max(1, g.shared.size // g.lanes)  # vectors that share a block

    @device
    def load(scales, at, v, into, slot):
        for i in range(marks):
            into[slot * marks + i] = ptx.load_8(scales, at + np.uint32(np.uint32(v // each) * marks + i))

    return load


def _make_load(g: Columns) -> Function:
    """load(w, at, into, begin): a vector of a row."""
    four = ptx.stream4 if g.short else ptx.stream4_wide

    @device
    def by_vector(w, at, into, begin):
        into[begin], into[begin + 1], into[begin + 2], into[begin + 3] = four(w, at)

    @device
    def by_word(w, at, into, begin):
        for i in range(WORDS):
            into[begin + i] = ptx.stream(w, at + i)

    return by_vector if g.aligned else by_word


@device
def _no_flag(word):
    return np.uint32(0)


@device
def _mma8_twice(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3):
    c0, c1, c2, c3 = ptx.mma8(a0, a1, b0, c0, c1, c2, c3)
    return ptx.mma8(a2, a3, b1, c0, c1, c2, c3)


def _make_load_x(g: Columns) -> Function:
    """load_x(x, x_small, column, k, into, begin): pairs of x from element k of a column on, for one vector."""
    pairs, wide, whole, put = g.lanes // 2, g.x == "fp32", g.terms == 1, _make_put(g)
    words, shift = (2 * pairs, 0) if wide else (pairs, 1)

    @device
    def by_vector(x, x_small, column, k, into, begin):
        packed = cuda.local.array(words, np.uint32)
        start = (column >> shift) + np.uint32(k >> np.uint32(shift))
        for i in range(0, words, 4):
            packed[i], packed[i + 1], packed[i + 2], packed[i + 3] = ptx.load4(x, start + i)
        for i in range(pairs):
            if wide:
                put(packed[2 * i], packed[2 * i + 1], into, begin + i)
            elif whole:
                into[begin + i] = packed[i]
            else:
                put(np.uint32(packed[i] & np.uint32(0xFFFF)), np.uint32(packed[i] >> np.uint32(16)), into, begin + i)

    @device
    def by_element(x, x_small, column, k, into, begin):
        at = column + k
        for i in range(pairs):
            put(np.uint32(x_small[at + 2 * i]), np.uint32(x_small[at + 2 * i + 1]), into, begin + i)

    return by_vector if g.x_aligned else by_element


def _make_put(g: Columns) -> Function:
    """put(low, high, into, at): two elements of x as a pair; in parts of bfloat16, a vector's pairs apart."""
    pairs, terms, widened = g.lanes // 2, g.terms, g.x == "fp16"

    @device
    def put(low, high, into, at):
        into[at] = np.uint32(low | np.uint32(high << np.uint32(16)))

    @device
    def put_terms(low, high, into, at):
        if widened:
            low, high = ptx.as_bits(ptx.low_half(low)), ptx.as_bits(ptx.low_half(high))
        for term in range(terms):
            into[at + term * pairs] = ptx.prmt(low, high, np.uint32(0x7632))
            low, high = _without_top(low), _without_top(high)

    return put_terms if terms > 1 else put


@device
def _without_top(bits):
    """A float32 without its upper half, exactly; 0 of Inf."""
    x = ptx.as_float(bits)
    top = ptx.as_float(np.uint32(bits & np.uint32(0xFFFF0000)))
    minus = ptx.as_float(np.uint32(np.uint32(bits & np.uint32(0xFFFF0000)) ^ np.uint32(0x80000000)))
    return np.uint32(0) if x == top else ptx.as_bits(ptx.add(x, minus))


def _make_load_some(g: Columns) -> Function:
    """load_some(w, at, left, into, begin): a vector of which `left` codes count, and the others are 0."""
    bits = g.fmt.storage_bits
    each = 32 // bits

    @device
    def load_some(w, at, left, into, begin):
        for i in range(WORDS):
            got = np.uint32(0)
            if left > np.uint32(i * each):
                got = ptx.stream(w, at + i)
                if left < np.uint32((i + 1) * each):
                    kept = np.uint32(np.uint32(left - np.uint32(i * each)) * bits)
                    got = np.uint32(got & np.uint32(np.uint32(np.uint32(1) << kept) - np.uint32(1)))
            into[begin + i] = got

    return load_some


def _make_load_some_x(g: Columns) -> Function:
    """load_some_x(x_small, at, left, into): pairs of x of which `left` elements count, and the others are 0."""
    pairs, put = g.lanes // 2, _make_put(g)

    @device
    def load_some_x(x_small, at, left, into):
        for i in range(pairs):
            low, high = np.uint32(0), np.uint32(0)
            if left > np.uint32(2 * i):
                low = np.uint32(x_small[at + 2 * i])
            if left > np.uint32(2 * i + 1):
                high = np.uint32(x_small[at + 2 * i + 1])
            put(low, high, into, i)

    return load_some_x
