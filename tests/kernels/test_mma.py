"""The twins of mma: where each lane's parts belong, one rounding, and what is no number."""

import numpy as np
import pytest

from feather_kernels import ptx, simulator
from feather_kernels._target import SIMULATOR, cuda
from kernel_inputs import Array

pytestmark = pytest.mark.skipif(not SIMULATOR, reason="the simulator runs plain Python functions")


def product(a: Array, b: Array, c: Array, kind: str = "mma") -> Array:
    """C + A B by one warp; A (16, k) and B (k, 8), given as bits of 16, and C (16, 8) of float32."""
    k, out = a.shape[1], np.zeros((16, 8), np.float32)
    pairs = [np.ascontiguousarray(x).view(np.uint32) for x in (a, b.T)]  # [row, k / 2] and [column, k / 2]

    def warp(_q: object) -> None:
        own, t = cuda.threadIdx.x // 4, cuda.threadIdx.x % 4
        parts = [pairs[0][own + 8 * half, t + 4 * step] for step in range(k // 8) for half in (0, 1)]
        parts += [pairs[1][own, t + 4 * step] for step in range(k // 8)]
        places = [(own, 2 * t), (own, 2 * t + 1), (own + 8, 2 * t), (own + 8, 2 * t + 1)]
        for place, value in zip(places, getattr(ptx, kind)(*parts, *(c[place] for place in places)), strict=True):
            out[place] = value

    simulator.launch(warp, 1, 32, (np.zeros(1, np.uint32),))
    return out


@pytest.mark.parametrize(("kind", "k"), [("mma", 16), ("mma8", 8)])
def test_every_place(kind: str, k: int) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-64, 65, shape).astype(np.float16) for shape in ((16, k), (k, 8)))
    c = rng.integers(-999, 1000, (16, 8)).astype(np.float32)
    assert (
        product(a.view(np.uint16), b.view(np.uint16), c, kind) == c + a.astype(np.float32) @ b.astype(np.float32)
    ).all()


def test_bfloat16() -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-64, 65, shape).astype(np.float32) * np.float32(2.0**40) for shape in ((16, 16), (16, 8)))
    bits = [(x.view(np.uint32) >> np.uint32(16)).astype(np.uint16) for x in (a, b)]
    assert (product(*bits, np.zeros((16, 8), np.float32), "mma_bf16") == a @ b).all()


def test_one_rounding_and_special_values() -> None:
    """1 + 2**-24 + 2**-48 is above a tie that would go to even; 2**15 * 2**15 * 16 is exact; Inf and NaN."""
    a, b, c = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16), np.zeros((16, 8), np.float32)
    a[0, :2], b[0, 0], b[1, 0], c[0, 0] = (2.0**-12, 2.0**-24), 2.0**-12, 2.0**-24, 1
    a[1, :], b[:, 1] = 2.0**15, 2.0**15
    a[2, 0], a[3, 0], c[4, 2] = np.inf, np.nan, -np.inf
    got = product(a.view(np.uint16), b.view(np.uint16), c)
    assert got[0, 0] == 1 + 2.0**-23
    assert got[1, 1] == 2.0**34
    assert (got[2, 0], got[4, 2]) == (np.inf, -np.inf)
    assert np.isnan(got[2, 2])  # Inf times 0
    assert (got[3].view(np.uint32) == 0x7FFFFFFF).all()
