"""A vector of W times one of x: decoded, multiplied and added in the order of k, block by block where there are.

Source: design of this project; see `feather_kernels.matvec`.
"""

from __future__ import annotations

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, device
from feather_kernels.decoders import make_decoder, make_scale, make_top, make_value, row_table
from feather_kernels.operands import Function, no_flag
from feather_kernels.vectors import Vectors
from feather_ref import get_format


def _make_mark(g: Vectors) -> tuple[Function, Function]:
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


def _make_decode(g: Vectors) -> Function:
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


def _make_values(g: Vectors) -> Function:
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


def make_multiply(g: Vectors) -> Function:
    """multiply(codes, at, marks, slot, xs, x_at, table, sums, flags): one vector of every row."""
    rows, lanes, words = g.rows, g.lanes, g.words
    group_lanes, group_words = g.fmt.period
    groups = words // group_words
    decode, values_of, scaled = _make_decode(g), _make_values(g), g.shared is not None
    blocks_of = _make_blocks(g) if scaled else _no_blocks
    flagged, flag = g.flag is not None, g.flag or no_flag

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


def _make_blocks(g: Vectors) -> Function:
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


def make_multiply_rest(g: Vectors) -> Function:
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
