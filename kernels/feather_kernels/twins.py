"""The twins of `ptx` against the instructions: each on the GPU, on random words and on the ends.

Every instruction that only computes is asked, as far as this GPU, or FEATHER_ARCH, has it.

Source: design of this project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from feather_kernels import ptx
from feather_kernels._target import cuda, device, kernel
from feather_kernels.calls import run
from feather_kernels.launch import Job

THREADS = 128
_SINCE = {"e4m3_low": (8, 9), "e4m3_high": (8, 9), "mul_bf16": (8, 0)}
_MEANT = {"prmt": (2, 0xFFFF), "capped": (1, 0x7F7FFFFF)}  # an argument, and the bits of it that mean something


def names() -> list[str]:
    """The instructions that only compute: words and float32 to one of them."""
    kinds = {ptx.U32, ptx.F32}
    return [name for name, (result, given) in ptx.TYPES.items() if result in kinds and {*given} <= kinds]


def checks(seed: int) -> Iterator[tuple[str, bool]]:
    """Each instruction by name, and whether its twin makes the same bits."""
    from feather_kernels import gpu

    here = gpu.capability(gpu.current_device())
    words = _words(np.random.default_rng(seed))
    for name in names():
        if here < _SINCE.get(name, (0, 0)):
            continue
        given = np.ascontiguousarray(words[: len(ptx.TYPES[name][1])])
        if name in _MEANT:
            place, mask = _MEANT[name]
            given[place] &= np.uint32(mask)
        with np.errstate(all="ignore"):
            wanted = np.array([_twin(name, column) for column in given.T], np.uint32)
        yield f"twin of {name}", bool((_on_gpu(name, given) == wanted).all())


def _twin(name: str, column: Any) -> Any:
    result, kinds = ptx.TYPES[name]
    given = (word.view(np.float32) if kind == ptx.F32 else word for word, kind in zip(column, kinds, strict=True))
    made = ptx.TWINS[name](*given)
    return np.float32(made).view(np.uint32) if result == ptx.F32 else made


def _words(rng: np.random.Generator) -> Any:
    """Every three ends, and random words, half of them floats near 1 and near each other, where sums cancel."""
    ends = np.array([0, 1, 31, 32, 0x7FFFFFFF, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF], np.uint32)
    three = np.array(np.meshgrid(ends, ends, ends)).reshape(3, -1)
    every = rng.integers(0, 1 << 32, (4, 3000), dtype=np.uint32)
    near = rng.integers(0x3F000000, 0x40000000, (4, 3000), dtype=np.uint32) ^ (every & np.uint32(1 << 31))
    return np.concatenate([np.concatenate([three, three[:1]]), every, near], axis=1)


def _on_gpu(name: str, given: Any) -> Any:
    """The instruction, one thread a column."""
    import cupy

    count = given.shape[1]
    x, y = cupy.asarray(given), cupy.empty(count, cupy.uint32)
    job = Job(f"twin_{name}", lambda: _kernel(name), ("u32*", "u32*", "i64"), name)
    run(job, (-(-count // THREADS), 1), THREADS, (x.data.ptr, y.data.ptr, count), None)
    return y.get()


@device
def _same(word):
    return word


def _kernel(name: str) -> Any:
    """kernel(p, q, n): the instruction on column i of n columns of p."""
    one: Callable[..., Any] = getattr(ptx, name)
    result, given = ptx.TYPES[name]
    put = ptx.as_bits if result == ptx.F32 else _same
    a, b, c, d = (ptx.as_float if kind == ptx.F32 else _same for kind in (*given, *[ptx.U32] * (4 - len(given))))

    @kernel
    def one_word(p, q, n):
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < n:
            q[i] = put(one(a(p[i])))

    @kernel
    def two_words(p, q, n):
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < n:
            q[i] = put(one(a(p[i]), b(p[n + i])))

    @kernel
    def three_words(p, q, n):
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < n:
            q[i] = put(one(a(p[i]), b(p[n + i]), c(p[2 * n + i])))

    @kernel
    def four_words(p, q, n):
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < n:
            q[i] = put(one(a(p[i]), b(p[n + i]), c(p[2 * n + i]), d(p[3 * n + i])))

    return (one_word, two_words, three_words, four_words)[len(given) - 1]
