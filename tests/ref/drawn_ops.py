"""What hypothesis draws for the tests of products: orders, and float32 numbers from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from feather_ref.ops import Order

SPECIALS = (0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000)
SPECIALS += (0x7FC00001, 0xFF800001, 0x3F800000, 0xBF800000, 0x33800000, 0x3F800001)


def sums(n: int) -> st.SearchStrategy[Any]:
    """A named sum over n values, or offsets in any sequence."""
    powers = [1 << i for i in range(n.bit_length() - 1)]
    named = st.sampled_from(["serial"] if n & (n - 1) else ["serial", "butterfly"])
    return named if n & (n - 1) or n == 1 else st.one_of(named, st.permutations(powers).map(tuple))


@st.composite
def orders(draw: st.DrawFn, vectors: tuple[int, ...] = (1, 2, 3, 4, 8)) -> Order:
    counts = {name: draw(st.sampled_from([1, 2, 3, 4])) for name in ("lanes", "warps", "splits", "accumulators")}
    vector = draw(st.sampled_from(vectors))
    period = draw(st.sampled_from([p for p in range(1, vector + 1) if vector % p == 0]))
    return Order(
        vector=vector,
        elements=tuple(draw(st.permutations(range(period)))),
        run=draw(st.integers(1, 5)),
        tail=draw(st.sampled_from(["skip", "vector", "stride"])),
        factor=draw(st.sampled_from([0, 0, 8, -3, 14])),
        x_factor=draw(st.sampled_from([0, 0, 2, -60])),
        fold=draw(st.booleans()),
        fused=draw(st.booleans()),
        **counts,
        **{f"sum_{name}": draw(sums(n)) for name, n in counts.items()},
    )


def float32s(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of like size, which round each other away, and in some draws special ones among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    bits = rng.integers(0x3F000000, 0x40800000, shape) | rng.integers(0, 2, shape) << 31
    rare = draw(st.sampled_from([0.0, 0.1, 0.6]))
    bits = np.where(rng.random(shape) < rare, rng.choice(SPECIALS, shape), bits)
    bits = np.where(rng.random(shape) < rare / 2, rng.integers(0, 2**32, shape), bits)
    return bits.astype(np.uint32).view(np.float32)
