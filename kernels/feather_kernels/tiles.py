"""The tiles of tensor cores: how much of W, of x and of scales goes into a step, and how a lane loads it.

Source: design of this project; see `feather_kernels.tensorcore`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, device
from feather_kernels.decoders import Pairs, make_pairs, make_short_pairs
from feather_kernels.operands import Function, Product

COLUMNS = 8
ROWS = 16  # of a tile
WORDS = 4  # of a vector


@dataclass(frozen=True)
class Tiles(Product):
    """The tiles of a product.

    tiles: of a warp.  short: `mma` with half the k, for sm_75.  narrow: float16 holds every code times its scale
    times one power of two, which `scale` makes up for.
    """

    splits: int = 8
    warps: int = 8
    tiles: int = 1
    short: bool = False
    narrow: bool = False

    @property
    def warp_rows(self) -> int:
        """Rows of a warp."""
        return ROWS * self.tiles

    @property
    def block_words(self) -> int:
        """Words where the parts of a block's rows meet: a counter, and each part's sums."""
        return 1 + self.parts * self.block_rows * COLUMNS

    @property
    def lanes(self) -> int:
        """Codes in a vector."""
        return WORDS * 32 // self.fmt.storage_bits

    @property
    def short_floats(self) -> bool:
        """Whether pairs are of bfloat16, which has the range of float32, and not of float16."""
        return self.x != "fp16" or (self.shared is not None and not self.narrow)

    @property
    def widened(self) -> bool:
        """Whether the target widens the weights itself, to float16."""
        return super().widened and not self.short_floats

    @property
    def pairs(self) -> Pairs | None:
        """The decoder of the weights; None where there is none for tensor cores."""
        plain = self.finite or self.flag is not None
        return make_short_pairs(self.fmt, plain) if self.short_floats else make_pairs(self.fmt, plain, self.native)

    @property
    def terms(self) -> int:
        """How many bfloat16 or float16 make an element of x."""
        return 3 if self.x == "fp32" else 2 if self.x == "fp16" and self.short_floats else 1


def make_load_marks(g: Tiles) -> Function:
    """load(scales, at, v, into, slot): the codes of the scales of vector v of the row whose scales begin at `at`."""
    marks = g.blocks
    each = 1 if g.shared is None else max(1, g.shared.size // g.lanes)  # vectors that share a block

    @device
    def load(scales, at, v, into, slot):
        for i in range(marks):
            into[slot * marks + i] = ptx.load_8(scales, at + np.uint32(np.uint32(v // each) * marks + i))

    return load


def make_load(g: Tiles) -> Function:
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


def make_load_x(g: Tiles) -> Function:
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


def _make_put(g: Tiles) -> Function:
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


def make_load_some(g: Tiles) -> Function:
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


def make_load_some_x(g: Tiles) -> Function:
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
