"""y = W x: the words of W are read once, decoded in registers and multiplied in a stated order.

A block has some warps; `splits` of them share the same `rows` rows of W, the next ones the rows
below.  A vector is up to 128 bits of one row, `lanes` codes; vector v of a row belongs to::

    lane     v % 32
    split    v / 32 % splits

A lane loads its vector of each row, then the same part of x once for all rows, and does
acc = fma(w, x, acc) in the order of k, from +0; `depth` vectors are loaded before the first is used.
Then the butterfly over the lanes (16, 8, 4, 2, 1), the sum over the splits through shared memory, in
order, times 2**factor, times scale, plus bias, one rounding.  `Gemv.order` states this for
`feather_ref.ops`, which replays it bit for bit, whatever rows, warps and depth are.

Weights may keep a power of two that decoding would cost an instruction for; it is brought in at the
end, and part of it with x, so that no product comes near the ends of float32.

Where NaN is the only special value of a format, a flag a row tells that one was seen: the sum is NaN.

The last, partial vector of a row goes element by element: codes past k are not multiplied by zero,
they are left out, since code 0 is -1 in nf4 and NaN may stand behind the end.

Source: design of this project; PTX ISA 8.7 for the instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, device, kernel
from feather_kernels.decoders import CANONICAL_NAN, Decoder, make_decoder, make_nan_flag, make_value
from feather_kernels.encoders import make_encoder
from feather_ref import Format, get_format
from feather_ref.policy import resolve

Function = Callable[..., Any]


@dataclass(frozen=True)
class Gemv:
    """One kernel: what it computes and how it is cut up.

    fmt, x, out: rows of the weights, of x (fp16, bf16, fp32) and of the result.  rows, splits, warps,
    depth: see above; warps is a multiple of splits.  finite: no code of W is Inf or NaN.  aligned: every
    row of W starts on 16 bytes.  x_aligned: x does.
    """

    fmt: Format
    x: str = "fp16"
    out: str = "fp32"
    rows: int = 1
    splits: int = 1
    warps: int = 4
    depth: int = 1
    finite: bool = False
    bias: bool = False
    aligned: bool = True
    x_aligned: bool = True

    @property
    def lanes(self) -> int:
        """Codes in a vector: as many whole words' worth as 128 bits hold, at least one."""
        codes, words = self.fmt.period
        return codes * max(1, 4 // words)

    @property
    def words(self) -> int:
        """Words in a vector."""
        return self.lanes * self.fmt.storage_bits // 32

    @property
    def decoder(self) -> Decoder:
        """The decoder of the weights of whole vectors."""
        return make_decoder(self.fmt, self.finite or self.flag is not None, deferred=True, short_x=self.x == "fp16")

    @property
    def flag(self) -> Function | None:
        """What tells whether a word holds a NaN, where that is asked."""
        return None if self.finite else make_nan_flag(self.fmt)

    def order(self) -> dict[str, Any]:
        """The fields of the `feather_ref.ops.Order` of this kernel."""
        powers = {"factor": self.decoder.factor, "x_factor": self.decoder.x_factor}
        return {"vector": self.lanes, "warps": self.splits, "fold": False, **powers}

    def grid(self, n: int) -> int:
        """Blocks for n rows."""
        return -(-n // (self.rows * (self.warps // self.splits)))

    def make(self) -> Function:
        """The kernel gemv(w, x, x_small, scale, bias, y, n, k, stride, scale_stride)."""
        return _make(self)


@cache
def _make(g: Gemv) -> Function:
    rows, splits, depth, lanes, words = g.rows, g.splits, g.depth, g.lanes, g.words
    groups, step = g.warps // splits, 32 * splits
    # Sizes of arrays must be names.
    row_words, code_words, partials = rows * words, depth * rows * words, g.warps * rows
    factor = g.decoder.factor
    rest = np.float32(2.0**factor)
    deferred, has_bias, flagged = factor != 0, g.bias, g.flag is not None
    load_vector, multiply, multiply_one = _make_load(words, g.aligned), _make_multiply(g), _make_multiply_one(g)
    code_of = make_encoder(resolve(get_format(g.out)))

    @kernel
    def gemv(w, x, x_small, scale, bias, y, n, k, stride, scale_stride):
        codes = cuda.local.array(code_words, np.uint32)
        sums = cuda.local.array(rows, np.float32)
        flags = cuda.local.array(rows, np.uint32)
        partial = cuda.shared.array(partials, np.float32)
        lane = cuda.threadIdx.x % 32
        warp = cuda.threadIdx.x // 32
        split = warp % splits
        first = (cuda.blockIdx.x * groups + warp // splits) * rows
        for r in range(rows):
            sums[r] = np.float32(0)
            flags[r] = np.uint32(0)
        # 1. Whole vectors, `depth` at a time.
        whole = k // lanes
        v = lane + 32 * split
        while v < whole:
            for d in range(depth):
                if v + step * d < whole:
                    for r in range(rows):
                        at = min(first + r, n - 1) * stride + (v + step * d) * words
                        load_vector(w, at, codes, d * row_words + r * words)
            for d in range(depth):
                if v + step * d < whole:
                    multiply(codes, d * row_words, x, x_small, (v + step * d) * lanes, sums, flags)
            v += step * depth
        # 2. The codes that fill no vector.
        last = k - whole * lanes
        if whole % step == lane + 32 * split:  # the lane whose turn it is
            for j in range(last):
                for r in range(rows):
                    at = min(first + r, n - 1) * stride + whole * words
                    sums[r] = multiply_one(w, at, j, x_small[whole * lanes + j], sums[r])
        # 3. The sums of the lanes, then of the splits.
        for r in range(rows):
            total = sums[r]
            if flagged and flags[r] != np.uint32(0):
                total = ptx.as_float(np.uint32(CANONICAL_NAN))
            total = ptx.add(total, ptx.butterfly(total, np.uint32(16)))
            total = ptx.add(total, ptx.butterfly(total, np.uint32(8)))
            total = ptx.add(total, ptx.butterfly(total, np.uint32(4)))
            total = ptx.add(total, ptx.butterfly(total, np.uint32(2)))
            total = ptx.add(total, ptx.butterfly(total, np.uint32(1)))
            sums[r] = total
            if splits > 1 and lane == 0:
                partial[warp * rows + r] = total
        if splits > 1:
            cuda.syncthreads()
        # 4. Factor, scale, bias, one rounding: lane 0 of the first split.
        if split == 0 and lane == 0:
            for r in range(rows):
                if first + r < n:
                    total = sums[r]
                    for s in range(1, splits):
                        total = ptx.add(total, partial[(warp + s) * rows + r])
                    if deferred:
                        total = ptx.mul(total, rest)
                    total = ptx.mul(total, scale[(first + r) * scale_stride])
                    if has_bias:
                        total = ptx.add(total, bias[first + r])
                    y[first + r] = code_of(ptx.as_bits(total))

    return gemv


# --- parts ------------------------------------------------------------------------------------


def _make_load(words: int, aligned: bool) -> Function:
    """load(p, i, into, at): one vector of a row."""
    fours = words if aligned and words % 4 == 0 else 0

    @device
    def load(p, i, into, at):
        for j in range(0, fours, 4):
            into[at + j], into[at + j + 1], into[at + j + 2], into[at + j + 3] = ptx.stream4(p, i + j)
        for j in range(fours, words):
            into[at + j] = ptx.stream(p, i + j)

    return load


def _make_multiply(g: Gemv) -> Function:
    """multiply(codes, at, x, x_small, k, sums, flags): one vector of every row, with x from k on."""
    rows, lanes, words = g.rows, g.lanes, g.words
    _, decode_group, _, power = g.decoder
    moved, x_factor = power != 0, np.float32(2.0**power)
    group_lanes, group_words = g.fmt.period
    groups = words // group_words
    load_x = _make_load_x(get_format(g.x), lanes, g.x_aligned)
    flagged = g.flag is not None
    flag = g.flag or _no_flag

    @device
    def multiply(codes, at, x, x_small, k, sums, flags):
        values = cuda.local.array(lanes, np.float32)
        weights = cuda.local.array(group_lanes, np.float32)
        load_x(x, x_small, k, values)
        if moved:
            for j in range(lanes):
                values[j] = ptx.mul(values[j], x_factor)
        for i in range(groups):
            for r in range(rows):
                decode_group(codes, at + r * words + i * group_words, weights)
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


def _make_multiply_one(g: Gemv) -> Function:
    """one(w, at, j, x, sum): code j of the vector at `at` in memory, with one element of x."""
    _, _, factor, power = g.decoder
    deferred = factor != 0 or power != 0
    down, up = np.float32(2.0 ** -(factor + power)), np.float32(2.0**power)
    lane_of = make_decoder(g.fmt).lane
    x_row = get_format(g.x)
    value, place = make_value(x_row), 32 - x_row.bits

    @device
    def one(w, at, j, x, total):
        wj, xj = lane_of(w, at, j), value(np.uint32(np.uint32(x) << np.uint32(place)))
        if deferred:
            return ptx.fma(ptx.mul(wj, down), ptx.mul(xj, up), total)
        return ptx.fma(wj, xj, total)

    return one


def _make_load_x(row: Format, lanes: int, aligned: bool) -> Function:
    """load(x, x_small, k, values): the numbers k .. k + lanes - 1 of x."""
    words = lanes * row.bits // 32
    decode = make_decoder(row).lane
    value, place, bits = make_value(row), 32 - row.bits, row.bits

    @device
    def by_vector(x, x_small, k, values):
        packed = cuda.local.array(words, np.uint32)
        start = k * bits // 32
        for i in range(0, words, 4):
            packed[i], packed[i + 1], packed[i + 2], packed[i + 3] = ptx.load4(x, start + i)
        for j in range(lanes):
            values[j] = decode(packed, 0, j)

    @device
    def by_element(x, x_small, k, values):
        for j in range(lanes):
            values[j] = value(np.uint32(np.uint32(x_small[k + j]) << np.uint32(place)))

    return by_vector if aligned and words % 4 == 0 else by_element
