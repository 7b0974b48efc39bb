"""Kernels that encode and decode: numbers to lanes and lanes to numbers, four at a time.

A quad is four neighbours of a row: one vector of numbers on one side (128 bits of float32, 64 of
fp16 and bf16), four lanes on the other.  A thread takes some quads, a block's width apart, and loads
all of them before it computes::

    block b, thread t    quads b * quads * THREADS + t + THREADS * (0, 1, ..., quads - 1) of a row,
                         then of the row that is the grid's height away

    lanes of             8, 16, 32 bits     whole words, one, two or four
                         2, 4 bits          a byte, half a word
                         other widths       words of the lanes of neighbours, by shuffles; pack only

What is left over goes one by one: the end of a row, rows that are not aligned, and quads in doubt
(see `quads`), which are written a second time.  Nothing outside the arrays is read or written.
`words` says that lanes fill whole words, the last one up with zeros; without it they are elements.

Source: `feather_ref.packing` for the order of lanes, "little".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, device, kernel
from feather_kernels.decoders import SIGN, make_value
from feather_kernels.encoders import REFUSED, make_encoder, make_noisy_encoder
from feather_kernels.quads import make_numbers, make_quad
from feather_ref import Format, get_format
from feather_ref.policy import Policy, resolve
from feather_ref.rounding import STOCHASTIC

Function = Callable[..., Any]

NUMBERS = ("fp32", "fp16", "bf16")
THREADS = 128
QUADS = 4  # of a thread, where few instructions convert one


def small_bits(width: int) -> int:
    """Bits of an element of the lanes' side: a lane, or a quad of lanes, or a word."""
    return next((bits for bits in (width, 4 * width) if bits in (8, 16, 32)), 32)


def aligned(width: int) -> int:
    """The bytes that quads of lanes are to be aligned to."""
    return max(4, 4 * width // 8) if width >= 8 else 4


def _is_long(width: int) -> bool:
    """Whether lanes straddle words, and four of them are more than a word."""
    return width > 8 and 32 % width != 0


def pack_quads(policy: Policy, width: int, shift: int) -> int:
    """How many quads a thread of `make_pack` takes."""
    if _is_long(width):
        return 8  # 32 lanes fill whole words
    if policy.rounding in STOCHASTIC:
        return 1
    return QUADS if make_quad(policy, width, shift).short else 1


@cache
def make_pack(
    policy: Policy, source: str, width: int, shift: int, vector: bool, words: bool, n_bits: int = 0
) -> Function:
    """pack(x, x_small, y, y_small, status, noise, rows, n, x_stride, y_stride): numbers to lanes.

    x, y: words; x_small: the same memory by number, y_small by `small_bits`.  Strides count numbers of x,
    and words of y where `words`, else lanes.  vector: every row is aligned to its quads, of y to `aligned`.
    status: one word, 1 where an input is refused.  noise: a word for each number of x, whose low `n_bits` decide
    in stochastic rounding, which goes one by one; no memory for other modes.
    """
    row, noisy = get_format(source), policy.rounding in STOCHASTIC
    if _is_long(width):
        return _make_pack_long(policy, row, width, shift, n_bits)
    vector = vector and not noisy
    lanes, doubt, _ = make_quad(replace(policy, rounding="nearest_even") if noisy else policy, width, shift)
    quads, x_words, y_words = pack_quads(policy, width, shift), row.bits // 8, max(width // 8, 1)
    load, four, store, emit = _make_load(x_words), _make_four(row), _make_store(y_words), _make_emit(width)
    bits_of, code_of, left = _number_bits(row), make_noisy_encoder(policy, n_bits), 32 - row.bits
    narrow, gathers = width < 8, width < 8 and 32 % (4 * width) != 0
    per_word = 32 // width if words and not narrow else 1
    all_words = quads * x_words

    @device
    def quad(inputs, at, outputs, y, y_small, y_row, y_stride, first, skip, whole, given):
        a, b, c, d = four(inputs, at)
        lanes(a, b, c, d, outputs)
        if gathers:
            word = outputs[0] if np.uint32(skip) < whole else np.uint32(0)
            emit(y, y_small, word, y_row, y_stride, first, skip)
        elif np.uint32(skip) < whole:
            if narrow:
                emit(y, y_small, outputs[0], y_row, y_stride, first, skip)
            else:
                store(y, y_row, first, skip, outputs)
        return doubt(a, b, c, d)

    @device
    def rest(x, x_small, y, y_small, x_row, y_row, y_stride, first, skip, n, limit, given):
        status, noise = given
        word = np.uint32(0)
        for j in range(4):
            i = 4 * (first + skip) + j
            code = np.uint32(0)
            if i < n:
                random = noise[x_row + i] if noisy else np.uint32(0)
                code = code_of(bits_of(np.uint32(np.uint32(x_small[x_row + i]) << np.uint32(left))), random)
                if code == np.uint32(REFUSED):
                    status[0] = np.uint32(1)
                code = np.uint32(code << np.uint32(shift))
            if narrow:
                word = np.uint32(word | np.uint32(code << np.uint32(j * width)))
            elif i < limit:
                y_small[y_row + i] = code
        if narrow:
            emit(y, y_small, word, y_row, y_stride, first, skip)

    walk = _make_walk(quads, vector, load, x_words, quad, rest, gathers)

    @kernel
    def pack(x, x_small, y, y_small, status, noise, rows, n, x_stride, y_stride):
        inputs = cuda.local.array(all_words, np.uint32)
        outputs = cuda.local.array(4, np.uint32)
        first = cuda.blockIdx.x * (THREADS * quads) + cuda.threadIdx.x
        limit = y_stride * 32 // width if words else n
        r = cuda.blockIdx.y
        while r < rows and 4 * (first & -32) < limit:  # whole warps leave, since shuffles take all of one
            x_row, y_row = r * x_stride, r * y_stride * per_word
            walk(x, x_small, y, y_small, x_row, y_row, y_stride, first, n, limit, inputs, outputs, (status, noise))
            r += cuda.gridDim.y

    return pack


@cache
def make_unpack(fmt: Format, target: str, width: int, shift: int, vector: bool, words: bool, scaled: bool) -> Function:
    """unpack(x, x_small, y, y_small, scale, rows, n, x_stride, y_stride, scale_stride): lanes to numbers.

    As `make_pack`, the other way round.  scaled: numbers are multiplied by scale[row * scale_stride],
    which is finite, and rounded once.
    """
    row = get_format(target)
    policy = resolve(row)
    vector = vector and not _is_long(width)
    numbers, doubt = make_numbers(fmt, width, shift)
    quads, x_words, y_words = QUADS, max(width // 8, 1), row.bits // 8
    load = _make_load(x_words) if width in (8, 16, 32) else _make_narrow_load(width)
    lanes, store = make_quad(policy, row.bits, 0).lanes, _make_store(y_words)
    top, value, code_of = _make_code_at(width, shift + fmt.bits), make_value(fmt), make_encoder(policy)
    per_word = 32 // width if words and width in (8, 16, 32) else 1
    all_words = quads * x_words

    @device
    def quad(inputs, at, outputs, y, y_small, y_row, y_stride, first, skip, whole, factor):
        a, b, c, d = numbers(inputs, at)
        if scaled:
            a, b, c, d = ptx.mul(a, factor), ptx.mul(b, factor), ptx.mul(c, factor), ptx.mul(d, factor)
        lanes(ptx.as_bits(a), ptx.as_bits(b), ptx.as_bits(c), ptx.as_bits(d), outputs)
        if np.uint32(skip) < whole:
            store(y, y_row, first, skip, outputs)
        return doubt(inputs, at)

    @device
    def rest(x, x_small, y, y_small, x_row, y_row, y_stride, first, skip, n, limit, factor):
        begin = 4 * (first + skip)
        for i in range(begin, min(begin + 4, n)):
            number = value(top(x, x_small, x_row, i))
            if scaled:
                number = ptx.mul(number, factor)
            y_small[y_row + i] = code_of(ptx.as_bits(number))

    walk = _make_walk(quads, vector, load, x_words, quad, rest, False)

    @kernel
    def unpack(x, x_small, y, y_small, scale, rows, n, x_stride, y_stride, scale_stride):
        inputs = cuda.local.array(all_words, np.uint32)
        outputs = cuda.local.array(4, np.uint32)
        first = cuda.blockIdx.x * (THREADS * quads) + cuda.threadIdx.x
        r = cuda.blockIdx.y
        while r < rows and 4 * first < n:
            x_row, y_row = r * x_stride * per_word, r * y_stride
            factor = scale[r * scale_stride] if scaled else np.float32(1)
            walk(x, x_small, y, y_small, x_row, y_row, y_stride, first, n, n, inputs, outputs, factor)
            r += cuda.gridDim.y

    return unpack


def _make_walk(
    quads: int, vector: bool, load: Function, x_words: int, quad: Function, rest: Function, gathers: bool
) -> Function:
    """walk(x, x_small, y, y_small, x_row, y_row, y_stride, first, n, limit, inputs, outputs, given): a row's quads.

    first: of the thread's quads; n: numbers of the row; limit: of its lanes, those included that fill a word up.
    quad: converts and writes one that is whole, and says whether it is in doubt; rest: lane by lane, as much of one
    as there is; given: what both need besides.  gathers: whether a warp writes together, and so does all again where
    one lane must.
    """
    left_over, steps, all_quads = _make_left_over(quads), _make_steps(quads), quads * THREADS

    @device
    def walk(x, x_small, y, y_small, x_row, y_row, y_stride, first, n, limit, inputs, outputs, given):
        again = np.uint32(1)
        if vector:
            again = left_over(first, n >> 2, limit + 3 >> 2)
            whole = np.uint32(min(max((n >> 2) - first, 0), all_quads))
            # 1. Every quad that is whole is asked for.
            for u in range(quads):
                load(x, x_row, first, u * THREADS, np.uint32(np.uint32(u * THREADS) < whole), inputs, u * x_words)
            # 2. It is converted, and written.
            for u in range(quads):
                at, skip = u * x_words, u * THREADS
                doubt = quad(inputs, at, outputs, y, y_small, y_row, y_stride, first, skip, whole, given)
                again = np.uint32(again | doubt)
        # 3. What is left over, or in doubt, goes one by one.
        if gathers:
            again = ptx.any_lane(again)
        if again != np.uint32(0):
            u = 0
            while u < steps(limit):
                rest(x, x_small, y, y_small, x_row, y_row, y_stride, first, u * THREADS, n, limit, given)
                u += 1

    return walk


def _make_pack_long(policy: Policy, row: Format, width: int, shift: int, n_bits: int) -> Function:
    """As `make_pack`, of lanes that are longer than 8 bits and straddle words: a thread fills `width` words."""
    bits_of, code_of, left = _number_bits(row), make_noisy_encoder(policy, n_bits), 32 - row.bits
    noisy = policy.rounding in STOCHASTIC

    @kernel
    def pack(x, x_small, y, y_small, status, noise, rows, n, x_stride, y_stride):
        step = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        r = cuda.blockIdx.y
        while r < rows and step * 32 < n:
            word = np.uint32(0)
            for j in range(32):
                i = step * 32 + j
                lane = np.uint32(0)
                if i < n:
                    at = r * x_stride + i
                    random = noise[at] if noisy else np.uint32(0)
                    code = code_of(bits_of(np.uint32(np.uint32(x_small[at]) << np.uint32(left))), random)
                    if code == np.uint32(REFUSED):
                        status[0] = np.uint32(1)
                    lane = np.uint32(code << np.uint32(shift))
                start = j * width & 31
                word = np.uint32(word | np.uint32(lane << np.uint32(start)))
                if start + width >= 32:
                    place = step * width + (j * width >> 5)
                    if place < y_stride:
                        y[r * y_stride + place] = word
                    word = np.uint32(np.uint32(lane >> np.uint32(1)) >> np.uint32(31 - start))
            r += cuda.gridDim.y

    return pack


# --- moving a quad ----------------------------------------------------------------------------


@cache
def _make_left_over(quads: int) -> Function:
    """left_over(first, begin, end): 1 where a quad of the thread is from `begin` to before `end`, else 0."""

    @device
    def left_over(first, begin, end):
        steps = max(begin - first + THREADS - 1, 0) // THREADS
        return np.uint32(1 if steps < quads and first + steps * THREADS < end else 0)

    return left_over


@cache
def _make_steps(quads: int) -> Function:
    """steps(lanes): how many quads of a thread begin in a row of so many lanes; the same for the whole block.

    A loop over a constant would be unrolled, and what its steps have in common computed by everybody.
    """

    @device
    def steps(lanes):
        rest = (lanes + 3 >> 2) - cuda.blockIdx.x * (THREADS * quads)
        return min((rest + THREADS - 1) // THREADS, quads)

    return steps


@cache
def _make_load(count: int) -> Function:
    """load(x, row, first, skip, wanted, into, at): the words of quad first + skip of the row that begins at `row`."""

    @device
    def four(x, row, first, skip, wanted, into, at):
        into[at], into[at + 1], into[at + 2], into[at + 3] = ptx.fetch4(x, ((row >> 2) + first) * 4 + skip * 4, wanted)

    @device
    def two(x, row, first, skip, wanted, into, at):
        into[at], into[at + 1] = ptx.fetch2(x, ((row >> 2) + first) * 2 + skip * 2, wanted)

    @device
    def one(x, row, first, skip, wanted, into, at):
        into[at] = ptx.fetch(x, (row >> 2) + first + skip, wanted)

    return {4: four, 2: two, 1: one}[count]


@cache
def _make_store(count: int) -> Function:
    """store(y, row, first, skip, words): the `count` words of quad first + skip; the row begins at element `row`."""

    @device
    def four(y, row, first, skip, words):
        ptx.store4(y, ((row >> 2) + first) * 4 + skip * 4, words[0], words[1], words[2], words[3])

    @device
    def two(y, row, first, skip, words):
        ptx.store2(y, ((row >> 2) + first) * 2 + skip * 2, words[0], words[1])

    @device
    def one(y, row, first, skip, words):
        y[(row >> 2) + first + skip] = words[0]

    return {4: four, 2: two, 1: one}[count]


@cache
def _make_narrow_load(width: int) -> Function:
    """load(x, row, first, skip, wanted, into, at): a quad's lanes, in one word; the row begins at word `row`."""
    length = 4 * width
    straddles = 32 % length != 0

    @device
    def load(x, row, first, skip, wanted, into, at):
        start = first * length + skip * length
        low = ptx.fetch(x, row + (start >> 5), wanted)
        high = ptx.fetch(x, row + (start + length - 1 >> 5), wanted) if straddles else low
        into[at] = ptx.funnel(low, high, np.uint32(start & 31))

    return load


@cache
def _make_emit(width: int) -> Function:
    """emit(y, y_small, word, row, count, first, skip): a quad's lanes, in `word`, to `count` words from `row` on.

    A byte or half a word is written alone.  Otherwise `threads` neighbours make whole words: thread t
    of them makes word t, from the lanes of thread t * 32 / length and some behind it.
    """  # fmt: skip
    length = 4 * width
    threads = math.lcm(length, 32) // length
    many, down = threads * length // 32, threads.bit_length() - 1
    sources = max((32 * t + 31) // length - 32 * t // length + 1 for t in range(many))
    per_word = 32 // length

    @device
    def alone(y, y_small, word, row, count, first, skip):
        if skip < count * per_word - first:
            y_small[row * per_word + first + skip] = word

    @device
    def together(y, y_small, word, row, count, first, skip):
        lane = cuda.threadIdx.x & 31
        t = lane & (threads - 1)
        begin = 32 * t // length
        made = np.uint32(0)
        for s in range(sources):
            given = ptx.from_lane(word, np.uint32(lane - t + begin + s))
            left = (begin + s) * length - 32 * t
            if 0 <= left < 32:
                made = np.uint32(made | np.uint32(given << np.uint32(left)))
            elif left < 0:
                made = np.uint32(made | np.uint32(given >> np.uint32(-left)))
        at = (first >> down) * many + (skip >> down) * many + t
        if t < many and at < count:
            y[row + at] = made

    return alone if 32 % length == 0 else together


# --- numbers ----------------------------------------------------------------------------------


@cache
def _make_four(row: Format) -> Function:
    """four(words, first): the bits of four numbers as float32."""

    @device
    def wide(words, first):
        return words[first], words[first + 1], words[first + 2], words[first + 3]

    @device
    def half(words, first):
        a, b = ptx.low_half(words[first]), ptx.high_half(words[first])
        c, d = ptx.low_half(words[first + 1]), ptx.high_half(words[first + 1])
        return ptx.as_bits(a), ptx.as_bits(b), ptx.as_bits(c), ptx.as_bits(d)

    @device
    def short(words, first):
        low, high = words[first], words[first + 1]
        high_mask = np.uint32(0xFFFF0000)
        return (
            np.uint32(low << np.uint32(16)), np.uint32(low & high_mask),
            np.uint32(high << np.uint32(16)), np.uint32(high & high_mask),
        )  # fmt: skip

    return {"fp32": wide, "fp16": half, "bf16": short}[row.name]


def _number_bits(row: Format) -> Function:
    """bits(top): a number at the top of 32 bits as a float32, whose NaN keeps its sign."""

    @device
    def same(top):
        return top

    @device
    def widened(top):
        size = np.uint32(ptx.as_bits(ptx.high_half(top)) & np.uint32(0x7FFFFFFF))
        return np.uint32(size | np.uint32(top & np.uint32(SIGN)))

    return widened if row.name == "fp16" else same


@cache
def _make_code_at(width: int, end: int) -> Function:
    """top(x, x_small, row, i): the code of lane i of a row, up to bit `end` of its lane, at the top of 32 bits."""

    @device
    def element(x, x_small, row, i):
        return np.uint32(np.uint32(x_small[row + i]) << np.uint32(32 - end))

    @device
    def within(x, x_small, row, i):
        stop = i * width + end
        return ptx.funnel(x[row + (i * width >> 5)], x[row + (stop - 1 >> 5)], np.uint32(stop & 31))

    return element if width in (8, 16, 32) else within
