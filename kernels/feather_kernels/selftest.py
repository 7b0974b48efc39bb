"""Are the kernels right on this GPU?  Every code, random words, the twins, and products by replay.

Source: design of this project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import ptx
from feather_kernels._target import SIMULATOR, cuda, kernel
from feather_kernels.calls import run
from feather_kernels.launch import Job
from feather_ref import ops

Check = tuple[str, bool]


def checks(processes: int = 1) -> Iterator[Check]:
    """Each check by name, and whether it holds; the formats are shared among processes."""
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            for found in pool.map(of_format, fr.FORMATS):
                yield from found
    else:
        for name in fr.FORMATS:
            yield from of_format(name)
    if not SIMULATOR:
        yield from _twins(0)


def of_format(name: str) -> list[Check]:
    """The checks of one format."""
    row = fr.get_format(name)
    return [*_codes(row), *_products(row, 0)]


def _same(a: Any, b: Any) -> bool:
    return bool((np.asarray(a).view(f"u{a.dtype.itemsize}") == np.asarray(b).view(f"u{b.dtype.itemsize}")).all())


def _codes(row: fr.Format) -> Iterator[Check]:
    """decode of every code of up to 16 bits, and encode of its values and midpoints."""
    if row.bits > (10 if SIMULATOR else 16):
        return
    codes = np.arange(1 << row.bits).astype(fr.code_dtype(row))
    values = fr.decode(codes, row)
    yield f"decode {row}", _same(fk.decode(codes, row), values)
    finite = np.unique(values[np.isfinite(values)])
    x = np.concatenate([finite, finite[1:] / 2 + finite[:-1] / 2])
    yield f"encode {row}", _same(fk.encode(x, row, negative="abs"), fr.encode(x, row, negative="abs"))


def _products(row: fr.Format, seed: int) -> Iterator[Check]:
    """gemv by its stated order, with special codes and a tail."""
    rng = np.random.default_rng(seed)
    k = 300 if SIMULATOR else 3001
    codes = rng.integers(0, 1 << min(row.bits, 32), (5, k)).astype(np.uint64).astype(fr.code_dtype(row))
    lanes = codes.astype(np.uint32) << np.uint32(row.storage_shift)
    W = fr.PackedTensor(fr.pack_codes(lanes, row.storage_bits), None, (5, k), row)  # noqa: N806
    for x in (rng.standard_normal(k).astype(np.float16), rng.standard_normal(k).astype(np.float32)):
        plan = fk.prepare(W, x=x.dtype.name)
        yield f"gemv {row} {x.dtype}", _same(plan(x), ops.replay(W, x, ops.Order(**plan.order())))


# --- the twins --------------------------------------------------------------------------------


def _twins(seed: int) -> Iterator[Check]:
    """Instructions on the GPU against their twins, on random words and on the ends."""
    rng = np.random.default_rng(seed)
    ends = np.array([0, 1, 31, 32, 0x7FFFFFFF, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF], np.uint32)
    words = np.concatenate([np.array(np.meshgrid(ends, ends, ends)).reshape(3, -1), _random(rng)], axis=1)
    for name in ("prmt", "shift_signed", "funnel", "low_half", "high_half", "fma", "mul", "add"):
        twin, count, floats = ptx.TWINS[name], _ARGUMENTS[name], name in _FLOATS
        given = np.ascontiguousarray(words[:count])
        if name == "prmt":
            given[2] &= 0xFFFF
        with np.errstate(all="ignore"):
            columns = given.view(np.float32) if floats else given
            wanted = np.array([np.asarray(twin(*column)) for column in columns.T])
        yield f"twin of {name}", _same(_on_gpu(name, given), wanted)


_ARGUMENTS = {
    "prmt": 3, "shift_signed": 2, "funnel": 3, "low_half": 1, "high_half": 1, "fma": 3, "mul": 2, "add": 2,
}  # fmt: skip
_FLOATS = ("fma", "mul", "add")


def _random(rng: np.random.Generator) -> Any:
    """Random words, half of them floats near 1 and near each other, where sums cancel."""
    every = rng.integers(0, 1 << 32, (3, 3000), dtype=np.uint32)
    near = rng.integers(0x3F000000, 0x40000000, (3, 3000), dtype=np.uint32) ^ (every & np.uint32(1 << 31))
    return np.concatenate([every, near], axis=1)


def _on_gpu(name: str, given: Any) -> Any:
    """The instruction, one thread a column."""
    count = given.shape[1]
    out = np.empty(count, np.uint32)
    import cupy

    device, result = cupy.asarray(given), cupy.asarray(out)
    job = Job(f"twin_{name}", lambda: _kernel(name), ("u32*", "u32*", "i64"), name)
    run(job, (-(-count // 128), 1), 128, (device.data.ptr, result.data.ptr, count), None)
    return result.get()


def _kernel(name: str) -> Any:
    one: Callable[..., Any] = getattr(ptx, name)
    f, bits = ptx.as_float, ptx.as_bits

    @kernel
    def words3(p, q, n):
        i = cuda.blockIdx.x * 128 + cuda.threadIdx.x
        if i < n:
            q[i] = one(p[i], p[n + i], p[2 * n + i])

    @kernel
    def words2(p, q, n):
        i = cuda.blockIdx.x * 128 + cuda.threadIdx.x
        if i < n:
            q[i] = one(p[i], p[n + i])

    @kernel
    def halves(p, q, n):
        i = cuda.blockIdx.x * 128 + cuda.threadIdx.x
        if i < n:
            q[i] = bits(one(p[i]))

    @kernel
    def floats3(p, q, n):
        i = cuda.blockIdx.x * 128 + cuda.threadIdx.x
        if i < n:
            q[i] = bits(one(f(p[i]), f(p[n + i]), f(p[2 * n + i])))

    @kernel
    def floats2(p, q, n):
        i = cuda.blockIdx.x * 128 + cuda.threadIdx.x
        if i < n:
            q[i] = bits(one(f(p[i]), f(p[n + i])))

    by_kind = {(False, 3): words3, (False, 2): words2, (False, 1): halves, (True, 3): floats3, (True, 2): floats2}
    return by_kind[name in _FLOATS, _ARGUMENTS[name]]


def exhaustive(fmt: str, **policies: Any) -> Check:
    """encode of all 2**32 float32 on the GPU, against the codec."""
    import cupy

    right = True
    for start in range(0, 1 << 32, 1 << 28):
        bits = cupy.arange(start, start + (1 << 28), dtype=cupy.uint64).astype(cupy.uint32)
        got = fk.encode(bits.view(cupy.float32), fmt, **policies).get()
        host = np.arange(start, start + (1 << 28), dtype=np.uint64).astype(np.uint32).view(np.float32)
        right = right and bool((got == fr.encode(host, fmt, **policies)).all())
    return f"encode {fmt} {policies} of 2**32 float32", right
