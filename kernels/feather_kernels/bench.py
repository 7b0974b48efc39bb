"""Check, then time: what the kernels reach beside the ceilings and the libraries of the same GPU.

Every figure is the median of graph launches over buffers that rotate past the L2 cache, and bytes are
those of words, scales, x and y.  A kernel whose result is not right bit for bit is not timed.

Source: design of this project; the article's figure is that of its RTX 3050.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import ceilings, gpu, jobs, launch
from feather_kernels.calls import run
from feather_kernels.launch import Job
from feather_kernels.products import Cut, DeviceTensor
from feather_ref import ops

Row = dict[str, Any]
Run = Callable[[int, Any], None]

ARTICLE = "the article, RTX 3050: 3.3x over float32 at 16384 x 16384, E5M2"
ADVICE = (
    "Do not use packed weights where one column times a small matrix is all there is (below about 4 MB a launch is the "
    "price), nor with hundreds of columns: unpack once and let cuBLAS multiply."
)


def graph_us(run: Run, launches: int = 20, repeats: int = 15) -> float:
    """Microseconds of one of `launches` launches in a graph; run(i, stream) launches the i-th."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        run(0, stream)
        stream.synchronize()
        stream.begin_capture()
        for i in range(launches):
            run(i, stream)
        graph = stream.end_capture()
        times = []
        for _ in range(repeats + 1):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record(stream)
            graph.launch(stream)
            end.record(stream)
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(begin, end) * 1e3 / launches)
    return statistics.median(times[1:])


def host_us(call: Callable[[], Any], calls: int = 200, repeats: int = 20) -> float:
    """Microseconds of the host for one call, the best of some repeats, the device idle before each."""
    import cupy

    best = float("inf")
    for _ in range(repeats):
        cupy.cuda.Device().synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - begin) / calls * 1e6)
    cupy.cuda.Device().synchronize()
    return best


def machine() -> Row:
    """The hardware and the versions that a figure belongs to."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    versions = {}
    for package in ("numba", "numba-cuda", "cupy-cuda13x", "cupy-cuda12x", "torch", "numpy", "nvidia-nvjitlink"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "gpu": properties["name"].decode(),
        "arch": f"sm_{properties['major']}{properties['minor']}",
        "multiprocessors": gpu.multiprocessors(),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "python": platform.python_version(),
        "versions": versions,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }


# --- the rows ---------------------------------------------------------------------------------


def ceilings_of(megabytes: int) -> Iterator[Row]:
    """What the memory gives to kernels that only read, or only copy."""
    import cupy

    count = megabytes << 18
    a, b = cupy.ones(count, cupy.uint32), cupy.empty(count, cupy.uint32)
    for work, job, size in (("read", ceilings.READ, a.nbytes), ("copy", ceilings.COPY, 2 * a.nbytes)):
        grids = [blocks * gpu.multiprocessors() for blocks in (2, 4, 16, 64)]
        us, grid = min((_ceiling_us(job, grid, a, b), grid) for grid in grids)
        yield {"work": work, "us": us, "gbs": size / us / 1e3, "grid": grid}


def _ceiling_us(job: Job, grid: int, a: Any, b: Any) -> float:
    arguments = a.data.ptr, b.data.ptr, a.size
    return graph_us(lambda i, stream: run(job, (grid, 1), ceilings.THREADS, arguments, stream.ptr), 6, 9)


def random_words(row: fr.Format, shape: tuple[int, ...]) -> Any:
    """Words of random finite codes, on the device."""
    import cupy

    words = cupy.random.randint(0, 1 << 32, shape, dtype=cupy.uint32)
    if row.kind != "float" or not (row.has_nan or row.has_inf):
        return words
    lane = row.code_mask & ~(1 << (row.mantissa_bits + row.exponent_bits - 1))  # the highest exponent bit off
    every = sum(lane << start for start in range(0, 32, row.storage_bits)) if 32 % row.storage_bits == 0 else 0
    return words & cupy.uint32(every)


def gemv_row(name: str, n: int, k: int, x: str = "float16", cut: Cut | None = None, finite: bool = True) -> Row:
    """Check the first rows against the replay, then time."""
    import cupy

    row, rows = fr.get_format(name), 48
    needed = -(-k * row.storage_bits // 32)
    stride = -(-needed // 4) * 4
    copies = max(2, -(-300_000_000 // (n * stride * 4)))
    words = random_words(row, (copies, n, stride))
    vector = cupy.random.standard_normal(k).astype(x)
    plans = [fk.prepare(DeviceTensor(words[i], (n, k), row, finite=finite), x=x, cut=cut) for i in range(copies)]
    out = cupy.full(n, cupy.nan, cupy.float32)
    plans[0](vector, out=out)
    host = fr.PackedTensor(np.ascontiguousarray(words[0, :rows, :needed].get()), None, (min(rows, n), k), row)
    wanted = ops.replay(host, vector.get(), ops.Order(**plans[0].order()))
    right = bool((out[:rows].get().view(np.uint32) == wanted.view(np.uint32)).all()) and not bool(cupy.isnan(out).any())
    us = graph_us(lambda i, stream: plans[i % copies](vector, out=out, stream=stream)) if right else float("nan")
    size = plans[0].nbytes + vector.nbytes + out.nbytes
    chosen = plans[0].kernel
    cubin = launch.compile_job(jobs.gemv_job(chosen), machine()["arch"])
    speed = {"right": right, "us": us, "gbs": size / us / 1e3}
    how = {"rows": chosen.rows, "splits": chosen.splits, "warps": chosen.warps, "depth": chosen.depth}
    facts = {"registers": cubin.registers, "spills": cubin.spills}
    work = "gemv" if finite else "gemv, NaN seen"
    return {"work": work, "format": name, "x": x, "n": n, "k": k, **speed, **how, **facts}


def cublas_rows(n: int, k: int) -> Iterator[Row]:
    """W @ x by cuBLAS, through CuPy, which captures none in a graph: launches in a row."""
    import cupy

    for dtype in ("float32", "float16"):
        item = np.dtype(dtype).itemsize
        copies = max(2, -(-300_000_000 // (n * k * item)))
        w = cupy.empty((copies, n, k), dtype)
        for i in range(copies):
            w[i] = cupy.random.standard_normal((n, k), dtype=cupy.float32)
        us = _matmul_us(w, cupy.random.standard_normal(k).astype(dtype), cupy.empty(n, dtype))
        yield {"work": f"cuBLAS {dtype}", "n": n, "k": k, "us": us, "gbs": (n * k + n + k) * item / us / 1e3}
        del w


def _matmul_us(w: Any, x: Any, out: Any) -> float:
    import cupy

    return queue_us(lambda i: cupy.matmul(w[i % len(w)], x, out=out))


def queue_us(call: Callable[[int], Any], calls: int = 50, repeats: int = 9) -> float:
    """Microseconds of one of many calls, one behind the other; where a call outlasts its launch, of the GPU."""
    import cupy

    times = []
    for _ in range(repeats + 1):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        for i in range(calls):
            call(i)
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end) * 1e3 / calls)
    return statistics.median(times[1:])


def convert_rows(numbers: int) -> Iterator[Row]:
    """encode, decode, pack and unpack, bytes read and written."""
    import cupy

    x = cupy.random.standard_normal(numbers, dtype=cupy.float32).reshape(-1, 1 << 14)
    back = cupy.empty_like(x)
    for name in ("e4m3", "e5m2", "e3m2", "e2m1", "bf16"):
        row = fr.get_format(name)
        policy = {"nan": None if row.has_nan else "max"}
        codes, words = fk.encode(x, row, **policy), fk.pack(x, row, **policy)
        sample = x[:2].get()
        right = bool((codes[:2].get() == fr.encode(sample, row)).all())
        right = right and bool((words[:2].get() == fr.pack(sample, row)).all())
        back[...] = cupy.nan
        fk.unpack(words, row, out=back)
        right = right and bool((back[:2].get() == fr.unpack(words[:2].get(), row)).all())
        right = right and not bool(cupy.isnan(back).any())
        for work, call, size in (
            ("encode", partial(fk.encode, x, row, out=codes, **policy), codes.nbytes),
            ("decode", partial(fk.decode, codes, row, out=back), codes.nbytes),
            ("pack", partial(fk.pack, x, row, out=words, **policy), words.nbytes),
            ("unpack", partial(fk.unpack, words, row, out=back), words.nbytes),
        ):
            us = _stream_us(call)
            yield {"work": work, "format": name, "right": right, "us": us, "gbs": (x.nbytes + size) / us / 1e3}


def _stream_us(call: Callable[..., Any]) -> float:
    return graph_us(lambda i, stream: call(stream=stream), 6, 9)


def host_rows() -> Iterator[Row]:
    """What a launch costs the host."""
    import cupy

    row = fr.get_format("e4m3")
    W = fr.pack_tensor(np.ones((64, 64), np.float32), row)  # noqa: N806 - the name of a matrix
    plan = fk.prepare(W)
    x, out = cupy.ones(64, cupy.float16), cupy.empty(64, cupy.float32)
    yield {"work": "prepared launch", "us": host_us(lambda: plan(x, out=out))}
    yield {"work": "gemv(plan, x), CuPy", "us": host_us(lambda: fk.gemv(plan, x))}
    try:
        import torch
    except ImportError:
        return
    tx, tout = torch.ones(64, dtype=torch.float16, device="cuda"), torch.empty(64, device="cuda")
    yield {"work": "prepared launch, torch", "us": host_us(lambda: plan(tx, out=tout))}
    yield {"work": "gemv(plan, x), torch", "us": host_us(lambda: fk.gemv(plan, tx))}


SIZES = ((16384, 16384), (8192, 8192), (4096, 14336), (4096, 4096), (1024, 8192))
LADDER = (("one row a warp", Cut(1, 1)), ("four rows a warp", Cut(4, 1)))


def rows(quick: bool) -> Iterator[Row]:
    """Every figure, as it comes."""
    yield from ceilings_of(256 if quick else 1024)
    n, k = (8192, 8192) if quick else SIZES[0]
    yield from cublas_rows(n, k)
    yield from (gemv_row(name, n, k) for name in ("fp16", "e5m2", "e4m3", "e3m2", "e2m1", "nf4", "int8", "bf16"))
    yield from host_rows()
    if quick:
        return
    yield gemv_row("e4m3", n, k, finite=False)
    yield from ({**gemv_row("e4m3", n, k, cut=cut), "work": f"ladder: {step}"} for step, cut in LADDER)
    yield from (gemv_row(name, *size) for size in SIZES[1:] for name in ("fp16", "e5m2", "e4m3", "e2m1"))
    yield from (gemv_row("e4m3", n, k, x="float32") for n, k in SIZES[:1])
    yield from convert_rows(1 << 28)


def line(row: Row) -> str:
    """A row as a line of text."""
    what = " ".join(str(row[key]) for key in ("work", "format", "x") if key in row)
    size = f"{row['n']} x {row['k']}" if "n" in row else ""
    speed = f"{row['gbs']:7.0f} GB/s" if "gbs" in row else ""
    return f"{what:34} {size:14} {row['us']:9.2f} us {speed}{'' if row.get('right', True) else '   WRONG'}"


def report(quick: bool, say: Callable[[str], None]) -> Row:
    """Run, say each figure, and return all of them."""
    found = []
    for row in rows(quick):
        found.append(row)
        say(line(row))
    first = next(row for row in found if "n" in row)
    by = {(row["work"], row.get("format")): row["us"] for row in reversed(found) if row.get("n") == first["n"]}
    base = by["cuBLAS float32", None], by["cuBLAS float16", None]
    for name in ("e5m2", "e4m3"):
        us = by["gemv", name]
        say(f"{name}: {base[0] / us:.2f}x over cuBLAS float32, {base[1] / us:.2f}x over float16 ({ARTICLE})")
    say(ADVICE)
    return {"machine": machine(), "quick": quick, "rows": found}


def dump(result: Row) -> str:
    """The result as JSON."""
    return json.dumps(result, indent=1)
