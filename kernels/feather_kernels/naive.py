"""The first version of y = W x, to learn from: one thread a row, one byte a load, one product at a time.

It is right, and far from the limit of the memory: neighbouring threads load bytes that lie a whole row
apart, so most of what the memory brings is thrown away.  `feather_kernels.matvec` gives a row to a warp
and 16 bytes to a lane, then several rows to a warp; `feather_kernels.tensorcore` takes 8 columns.

Source: design of this project.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, kernel
from feather_kernels.decoders import make_value
from feather_kernels.launch import Job
from feather_ref import Format, get_format
from feather_ref.ops import Order

THREADS = 128
ORDER = Order(vector=1, lanes=1)  # which replays it


@cache
def _make(row: Format) -> Any:
    """naive(w, x, y, n, k, stride): w of bytes, stride of them from row to row; x in float16, y in float32."""
    weight, number = make_value(row), make_value(get_format("fp16"))

    @kernel
    def naive(w, x, y, n, k, stride):
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < n:
            total = np.float32(0)
            for j in range(k):
                code, bits = np.uint32(w[i * stride + j]), np.uint32(x[j])
                total = ptx.fma(
                    weight(np.uint32(code << np.uint32(24))), number(np.uint32(bits << np.uint32(16))), total
                )
            y[i] = total

    return naive


def naive_job(row: Format) -> Job:
    """What to compile for a format of 8 bits."""
    if row.bits != 8:
        raise ValueError(f"fmt: {row.name!r} does not have 8 bits")
    return Job(f"naive_{row.name}", lambda: _make(row), ("u8*", "u16*", "f32*", "i64", "i64", "i64"), row.name)
