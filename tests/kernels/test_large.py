"""Indices beyond 2**31, of elements, of words and of bytes: the ends of large arrays are where they belong."""

from typing import Any

import numpy as np
import pytest

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import _target
from feather_ref import ops
from kernel_inputs import same_bits

BEYOND = (1 << 31) + 37
NEEDED = 30 << 30

pytestmark = pytest.mark.skipif(_target.SIMULATOR, reason="needs a GPU")


@pytest.fixture
def cupy() -> Any:
    """CuPy, with enough free memory, which is given back."""
    found = pytest.importorskip("cupy")
    if found.cuda.runtime.memGetInfo()[0] < NEEDED:
        pytest.skip(f"needs {NEEDED >> 30} GB of GPU memory")
    yield found
    found.get_default_memory_pool().free_all_blocks()


def test_rows_beyond(cupy: Any) -> None:
    """2**33 codes in 2**31 words: all are zero but the first row and the last two."""
    row, k = fr.get_format("e4m3"), 1 << 16
    n = (1 << 17) + 3
    words = cupy.zeros((n, k // 4), cupy.uint32)
    some = np.random.default_rng(1).integers(0, 1 << 32, (3, k // 4), dtype=np.uint32) & np.uint32(0x3F3F3F3F)
    places = [0, n - 2, n - 1]
    words[places] = cupy.asarray(some)
    assert (n - 1) * (k // 4) > 1 << 31
    x = np.random.default_rng(2).standard_normal(k).astype(np.float16)
    plan = fk.prepare(fk.DeviceTensor(words, (n, k), row, finite=True))
    y = plan(cupy.asarray(x))
    wanted = ops.replay(fr.PackedTensor(some, None, (3, k), row), x, ops.Order(**plan.order()))
    assert same_bits(y[places].get(), wanted)
    y[places] = 0
    assert not bool(y.any())


@pytest.mark.parametrize("name", ["e2m1", "int8"])
def test_k_beyond(cupy: Any, name: str) -> None:
    """Two rows of 2**31 numbers: a one at each end, the last ones in the part that fills no vector."""
    row = fr.get_format(name)
    count = -(-BEYOND * row.storage_bits // 32)
    one = int(fr.encode(np.float32(1), row))
    lanes = np.zeros(64, np.uint32)
    lanes[: BEYOND % 32] = one
    words = cupy.zeros((2, -(-count // 4) * 4), cupy.uint32)
    words[:, 0] = one
    begin = BEYOND // 32 * 32 * row.storage_bits // 32
    tail = fr.pack_codes(lanes, row.storage_bits)[: count - begin]
    words[1, begin : begin + len(tail)] = cupy.asarray(tail)
    x = cupy.ones(BEYOND, cupy.float16)
    y = fk.prepare(fk.DeviceTensor(words, (2, BEYOND), row, finite=True))(x)
    assert y.tolist() == [1, 1 + BEYOND % 32]


@pytest.mark.parametrize("name", ["e4m3", "e3m2", "e2m1"])
def test_conversions_beyond(cupy: Any, name: str) -> None:
    """2**31 float32, all zero but some at the end: to codes and words, and back."""
    ends = np.random.default_rng(3).standard_normal(5000).astype(np.float32)
    x = cupy.zeros(BEYOND, cupy.float32)
    x[-5000:] = cupy.asarray(ends)
    policy = {"nan": None if fr.get_format(name).has_nan else "max"}
    codes = fk.encode(x, name, **policy)
    wanted = fr.encode(ends, name)
    assert same_bits(codes[-5000:].get(), wanted)
    assert int(cupy.count_nonzero(codes)) == np.count_nonzero(wanted)
    back = fk.decode(codes, name)
    assert same_bits(back[-5000:].get(), fr.decode(wanted, name))
    assert int(cupy.count_nonzero(back)) == np.count_nonzero(fr.decode(wanted, name))
    del codes, back
    words = fk.pack(x, name, **policy)
    del x
    again = fk.unpack(words, name, BEYOND)
    assert again.shape == (BEYOND,)
    assert same_bits(again[-5000:].get(), fr.decode(wanted, name))
    assert int(cupy.count_nonzero(again)) == np.count_nonzero(fr.decode(wanted, name))
