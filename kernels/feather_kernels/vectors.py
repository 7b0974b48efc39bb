"""The vectors of a row: how much of W, of x and of scales goes together, and how a lane loads it.

A vector is up to 128 bits of a row of W, the same numbers of x, and the scales and zeros of their blocks.

Source: design of this project; see `feather_kernels.matvec`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import device
from feather_kernels.decoders import Decoder, make_decoder
from feather_kernels.operands import Function, Product
from feather_ref import get_format


@dataclass(frozen=True)
class Vectors(Product):
    """The vectors of a product; rows: those of a warp, which share a load of x."""

    rows: int = 1

    @property
    def warp_rows(self) -> int:
        """Rows of a warp."""
        return self.rows

    @property
    def block_words(self) -> int:
        """Words where the parts of a block's rows meet: for each row a counter, and a sum a part."""
        return self.block_rows * (1 + self.parts)

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


def _nests(size: int, codes: int) -> bool:
    return size % codes == 0 or codes % size == 0


def make_load(words: int, aligned: bool) -> Function:
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


def make_load_marks(g: Vectors) -> Function:
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


def make_load_x(g: Vectors) -> Function:
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
