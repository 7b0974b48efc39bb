"""What the GPU gives: kernels that only read, that only copy, with the loads of all others, and that do nothing.

Source: design of this project.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, kernel
from feather_kernels.launch import Job

THREADS = 512


@cache
def _read() -> Any:
    """read(p, q, n): every word of p once; q would hold a sum that is never 1."""

    @kernel
    def read(p, q, n):
        i = (cuda.blockIdx.x * THREADS + cuda.threadIdx.x) * 4
        total = np.uint32(0)
        while i < n:
            a, b, c, d = ptx.stream4(p, i)
            total = np.uint32(total | np.uint32(np.uint32(a ^ b) ^ np.uint32(c ^ d)))
            i += cuda.gridDim.x * THREADS * 4
        if total == np.uint32(1):
            q[0] = total

    return read


@cache
def _copy() -> Any:
    """copy(p, q, n): every word of p to q."""

    @kernel
    def copy(p, q, n):
        i = (cuda.blockIdx.x * THREADS + cuda.threadIdx.x) * 4
        while i < n:
            a, b, c, d = ptx.stream4(p, i)
            ptx.store4(q, i, a, b, c, d)
            i += cuda.gridDim.x * THREADS * 4

    return copy


@cache
def _empty() -> Any:
    """empty(n): nothing."""

    @kernel
    def empty(n):
        pass

    return empty


READ = Job("read", _read, ("u32*", "u32*", "i64"), "read")
COPY = Job("copy", _copy, ("u32*", "u32*", "i64"), "copy")
EMPTY = Job("empty", _empty, ("i64",), "empty")
