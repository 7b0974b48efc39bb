"""A processor that flushes subnormal numbers to zero gives the same bits."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from feather_ref.ops import Order, error_bound, fma32, gemv, replay
from feather_ref.tensors import PackedTensor

SOURCE = """
#include <xmmintrin.h>
unsigned swap(unsigned mode) { unsigned old = _mm_getcsr(); _mm_setcsr(mode); return old; }
"""
FLUSHING = 0x9FC0  # flush results and operands, nearest even, no traps
EDGES = (0, 1, 2, 0x400000, 0x7FFFFF, 0x800000, 0x800001, 0xFFFFFF, 0x1000000, 0x20000001, 0x33800000, 0x3F800000)
BOTH = np.array([code | sign for code in EDGES for sign in (0, 1 << 31)], np.uint32).view(np.float32)


@pytest.fixture(scope="module")
def swap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("flush")
    compiler = shutil.which("cc")
    (folder / "swap.c").write_text(SOURCE)
    command = [str(compiler), "-O1", "-shared", "-fPIC", "-o", str(folder / "swap.so"), str(folder / "swap.c")]
    if compiler is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs a C compiler and an x86 processor")
    yield ctypes.CDLL(str(folder / "swap.so")).swap


def rows() -> tuple[np.ndarray, np.ndarray]:
    return np.stack([np.roll(BOTH, i) for i in range(len(BOTH))]), BOTH


def packed() -> PackedTensor:
    words = np.arange(24 * 6, dtype=np.uint32).reshape(24, 6) * np.uint32(0x01030507)
    return PackedTensor(words, np.float32(2.0**-126), (24, 24), "e5m2")


@pytest.mark.parametrize(
    "work",
    [
        lambda: fma32(BOTH[:, None, None], BOTH[:, None], BOTH),
        lambda: replay(*rows(), Order(vector=2, lanes=4, accumulators=2, x_factor=-4)),
        lambda: replay(packed(), BOTH, Order(vector=2, lanes=4), BOTH),
        lambda: gemv(*rows()),
        lambda: gemv(packed(), BOTH, BOTH),
        lambda: gemv([[2.0**-1074, np.inf]], [2.0**1023, 2.0**-1074]),
        lambda: error_bound(*rows(), Order()),
    ],
)
def test_the_same_bits(swap: Any, work: Callable[[], np.ndarray]) -> None:
    want = work()
    old = swap(FLUSHING)
    try:
        flushed = np.float32(2.0**-126) * np.float32(0.5)
        got = work()
    finally:
        swap(old)
    assert flushed.view(np.uint32) == 0  # the processor did flush
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))
