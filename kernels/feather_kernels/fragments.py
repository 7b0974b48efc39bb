"""A step of tensor cores: codes become pairs, times the scales of their blocks, and go into `mma`.

Source: design of this project; see `feather_kernels.tensorcore`.
"""

from __future__ import annotations

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, device
from feather_kernels.decoders import Pairs, make_scale
from feather_kernels.operands import Function, no_flag
from feather_kernels.tiles import WORDS, Tiles


def pairs_of(g: Tiles) -> Pairs:
    """The decoder of the weights."""
    if g.pairs is None:
        raise ValueError(f"fmt: tensor cores have no decoder of {g.fmt.name!r}")
    return g.pairs


def make_multiply(g: Tiles) -> Function:
    """multiply(codes, at, marks, marks_at, below, numbers, x_at, sums, flags): one step of every tile."""
    tiles, lanes = g.tiles, g.lanes
    group_lanes, group_words = g.fmt.period
    groups, group_pairs, pairs = WORDS // group_words, group_lanes // 2, lanes // 2
    mmas, both, terms, marks_each = pairs // 2, 2 * pairs, g.terms, g.blocks
    decode, flagged, flag = pairs_of(g).halves, g.flag is not None, g.flag or no_flag
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


def _make_share(g: Tiles) -> Function:
    """share(marks, at, below, a, begin): the pairs of a vector times the scales of their blocks, and below."""
    if g.shared is None:
        return _no_share
    value, marks, each = make_scale(g.shared.scale, True), g.blocks, g.lanes // 2 // g.blocks

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


@device
def _mma8_twice(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3):
    c0, c1, c2, c3 = ptx.mma8(a0, a1, b0, c0, c1, c2, c3)
    return ptx.mma8(a2, a3, b1, c0, c1, c2, c3)
