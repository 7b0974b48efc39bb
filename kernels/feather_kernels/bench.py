"""Check, then time: what the kernels reach beside the ceilings and the libraries of the same GPU.

Every figure is the median of graph launches over buffers that rotate past the L2 cache, and bytes are
those of words, scales, x and y.  A kernel whose result is not right bit for bit is not timed.

Source: design of this project; the article's figure is that of its RTX 3050.
"""

from __future__ import annotations

import json
import math
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import ceilings, gpu, launch, matrix, naive
from feather_kernels.calls import run
from feather_kernels.cuts import Cut
from feather_kernels.launch import Job
from feather_kernels.matvec import Gemv
from feather_kernels.samples import device_matrices, host_rows
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


def host_us(call: Callable[[], Any], calls: int = 200, repeats: int = 50) -> float:
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
    us = graph_us(lambda i, stream: run(ceilings.EMPTY, (gpu.multiprocessors(), 1), 128, (0,), stream.ptr))
    yield {"work": "empty kernel", "us": us}


def _ceiling_us(job: Job, grid: int, a: Any, b: Any) -> float:
    arguments = a.data.ptr, b.data.ptr, a.size
    return graph_us(lambda i, stream: run(job, (grid, 1), ceilings.THREADS, arguments, stream.ptr), 6, 9)


def gemv_row(name: str, n: int, k: int, x: str = "float16", cut: Cut | None = None, finite: bool = True) -> Row:
    """Check the first rows against the replay, then time; name: of a format or a block format."""
    import cupy

    matrices = device_matrices(name, n, k, finite=finite)
    vector = cupy.random.standard_normal(k).astype(x)
    plans = [fk.prepare(W, x=x, cut=cut) for W in matrices]
    out = cupy.full(n, cupy.nan, cupy.float32)
    plans[0](vector, out=out)
    first = host_rows(matrices[0], 48)
    wanted = ops.replay(first, vector.get(), ops.Order(**plans[0].order()))
    got = out[: len(wanted)].get()
    right = bool((got.view(np.uint32) == wanted.view(np.uint32)).all()) and not bool(cupy.isnan(out).any())
    us = graph_us(lambda i, stream: plans[i % len(plans)](vector, out=out, stream=stream)) if right else float("nan")
    size = plans[0].nbytes + vector.nbytes + out.nbytes
    chosen = plans[0].kernel
    cubin = launch.compile_job(chosen.job(), machine()["arch"])
    speed = {"right": right, "us": us, "gbs": size / us / 1e3}
    how = {field: getattr(chosen, field) for field in Cut._fields}
    facts = {"registers": cubin.registers, "spills": cubin.spills}
    work = "gemv" if finite else "gemv, NaN looked for"
    return {"work": work, "format": name, "x": x, "n": n, "k": k, **speed, **how, **facts}


def columns_row(name: str, n: int, k: int, x: str = "float16", finite: bool = True, columns: int = 8) -> Row:
    """Several columns by tensor cores: check the first rows against the bound, then time.

    ulp: the greatest error of those rows, in units of the last place of a float32 of sum |w x|.
    """
    import cupy

    matrices = device_matrices(name, n, k, finite=finite)
    numbers = cupy.random.standard_normal((columns, k)).astype(x)
    plans = [fk.prepare(W, x=x, columns=columns) for W in matrices]
    out = cupy.full((columns, n), cupy.nan, cupy.float32)
    plans[0](numbers, out=out)
    right, ulp = _within(host_rows(matrices[0], 16), numbers.get(), out[:, :16].get(), plans[0].kernel)
    right = right and not bool(cupy.isnan(out).any())
    us = graph_us(lambda i, stream: plans[i % len(plans)](numbers, out=out, stream=stream)) if right else float("nan")
    size, chosen = plans[0].nbytes + numbers.nbytes + out.nbytes, plans[0].kernel
    cubin = launch.compile_job(chosen.job(), machine()["arch"])
    speed = {"right": right, "us": us, "gbs": size / us / 1e3, "ulp": ulp}
    how = {field: getattr(chosen, field) for field in ("tiles", "splits", "warps", "depth")}
    facts = {"registers": cubin.registers, "spills": cubin.spills}
    work = f"{columns} columns" if finite else f"{columns} columns, NaN looked for"
    return {"work": work, "format": name, "x": x, "n": n, "k": k, "columns": columns, **speed, **how, **facts}


def _within(W: Any, x: Any, y: Any, kernel: Any) -> tuple[bool, float]:  # noqa: N803 - the name of a matrix
    """Whether y is within the bound of a tensor core, and how far off it is."""
    error = np.abs(y.astype(np.float64) - ops.matmul(x, W))
    sizes = np.abs(x.astype(np.float64)) @ np.abs(W.dequantize().astype(np.float64)).T
    # Each part of x is a sum of its own.
    bound = ops.error_bound(W, x, ops.TensorCore(factor=kernel.pairs.factor)) * kernel.terms
    return bool((error <= bound).all()), float((error / np.spacing(sizes.astype(np.float32))).max())


def naive_row(name: str, n: int, k: int) -> Row:
    """The first rung of the ladder: one launch of `feather_kernels.naive`, checked and timed."""
    import cupy

    matrices = device_matrices(name, n, k)
    x, out = cupy.random.standard_normal(k).astype("float16"), cupy.full(n, cupy.nan, cupy.float32)
    job, grid = naive.naive_job(fr.get_format(name)), (-(-n // naive.THREADS), 1)

    def multiply(i: int, stream: Any) -> None:
        words = matrices[i % len(matrices)].words
        arguments = words.data.ptr, x.data.ptr, out.data.ptr, n, k, words.strides[0]
        run(job, grid, naive.THREADS, arguments, stream.ptr)

    multiply(0, cupy.cuda.get_current_stream())
    wanted = ops.replay(host_rows(matrices[0], 48), x.get(), naive.ORDER)
    right = bool((out[: len(wanted)].get().view(np.uint32) == wanted.view(np.uint32)).all())
    us = graph_us(multiply, 4, 5) if right else float("nan")
    speed = {"right": right, "us": us, "gbs": (n * k + x.nbytes + out.nbytes) / us / 1e3}
    return {"work": "gemv", "format": name, "x": "float16", "n": n, "k": k, **speed}


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
    for name in CONVERTED:
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
        unpacked = back.view(cupy.uint32).copy()
        back[...] = cupy.nan
        fk.decode(codes, row, out=back)
        right = right and bool((back.view(cupy.uint32) == unpacked).all())
        del unpacked
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


def call_rows() -> Iterator[Row]:
    """What a call costs the host: the driver's part, which is the least, and ours."""
    import cupy

    W = fr.pack_tensor(np.ones((64, 64), np.float32), "e4m3")  # noqa: N806 - the name of a matrix
    plan: Any = fk.prepare(W)
    x, out = cupy.ones(64, cupy.float16), cupy.empty(64, cupy.float32)
    fixed, launch_kernel = plan.fixed(), cupy.cuda.driver.launchKernel
    values, pointers, _ = fixed.new_block()
    values[0], values[1] = x.data.ptr, out.data.ptr
    alone = fixed.entry, fixed.blocks, 1, 1, fixed.threads, 1, 1, 0, 0, pointers, 0
    yield {"work": "the driver's launch alone", "us": host_us(lambda: launch_kernel(*alone))}
    yield {"work": "prepared launch", "us": host_us(lambda: plan(x, out=out))}
    yield {"work": "gemv(plan, x), CuPy", "us": host_us(lambda: fk.gemv(plan, x))}
    large: Any = fk.prepare(fr.pack_tensor(np.ones((1024, 1024), np.float32), "e4m3"))
    wide, tall = cupy.ones(1024, cupy.float16), cupy.empty(1024, cupy.float32)
    yield {"work": "prepared launch that begins early", "us": host_us(lambda: large(wide, out=tall))}
    try:
        import torch
    except ImportError:
        return
    tx, tout = torch.ones(64, dtype=torch.float16, device="cuda"), torch.empty(64, device="cuda")
    yield {"work": "prepared launch, torch", "us": host_us(lambda: plan(tx, out=tout))}
    yield {"work": "gemv(plan, x), torch", "us": host_us(lambda: fk.gemv(plan, tx))}


def cache_rows() -> Iterator[Row]:
    """What a kernel costs the first time ever, and the first time of a process that finds it on the disk."""
    job, arch = Gemv(fr.get_format("e4m3")).job(), machine()["arch"]
    with tempfile.TemporaryDirectory() as folder:
        for work in ("compile", "find in the cache"):
            begin = time.perf_counter()
            launch.compile_job(job, arch, Path(folder))
            yield {"work": work, "us": (time.perf_counter() - begin) * 1e6}


SIZES = ((16384, 16384), (8192, 8192), (4096, 14336), (4096, 4096), (1024, 8192))
WIDE = ((8, 65536), (64, 65536), (256, 16384))
PLAIN = ("fp16", "e5m2", "e4m3", "e3m2", "e2m1", "nf4", "int8", "bf16")
BLOCKS = ("mxfp8_e4m3", "mxfp4", "nvfp4")
SMALLER = ("fp16", "e5m2", "e4m3", "mxfp8_e4m3", "nvfp4")
CONVERTED = ("e4m3", "e5m2", "e3m2", "e2m1", "bf16")
OTHER_BLOCKS = ("mxfp8_e5m2", "mxfp6_e3m2", "mxint8", "fp8_1x128", "int8_g32", "uint4_g32", "q4_0")
LADDER = (  # each a few lines over the last
    ("a thread a row, byte by byte", naive_row),
    ("a warp a row, 128-bit loads", partial(gemv_row, cut=Cut(1, 1))),
    ("two rows a warp, two loads at once", partial(gemv_row, cut=Cut(2, 1, 8, 2))),
    ("8 columns by tensor cores", columns_row),
)


def rows(quick: bool) -> Iterator[Row]:
    """Every figure, as it comes."""
    yield from ceilings_of(256 if quick else 1024)
    n, k = (8192, 8192) if quick else SIZES[0]
    yield from cublas_rows(n, k)
    yield from (gemv_row(name, n, k) for name in PLAIN)
    yield from (gemv_row(name, n, k) for name in BLOCKS)
    yield from call_rows()
    yield from cache_rows()
    if quick:
        return
    yield gemv_row("e4m3", n, k, finite=False)
    yield from ({**make("e4m3", n, k), "work": f"ladder: {step}"} for step, make in LADDER)
    yield from (columns_row(name, n, k) for name in ("fp16", "e5m2", "e4m3", "e2m1", "mxfp8_e4m3", "mxfp4", "nvfp4"))
    yield from (columns_row("e4m3", n, k, **other) for other in ({"finite": False}, {"x": "float32"}))
    yield from (columns_row(name, *size) for size in SIZES[1:] for name in ("e5m2", "e4m3"))
    yield from (gemv_row(name, n, k) for name in OTHER_BLOCKS)
    yield from (gemv_row(name, *size) for size in SIZES[1:] for name in SMALLER)
    yield from (gemv_row("e4m3", *size) for size in WIDE)
    yield from (gemv_row("e4m3", n, k, x="float32") for n, k in SIZES[:1])
    yield from convert_rows(1 << 28)


def line(row: Row) -> str:
    """A row as a line of text."""
    what = " ".join(str(row[key]) for key in ("work", "format", "x") if key in row)
    size = f"{row['n']} x {row['k']}" if "n" in row else ""
    speed = f"{row['gbs']:7.0f} GB/s" if "gbs" in row else ""
    return f"{what:34} {size:14} {row['us']:9.2f} us {speed}{'' if row.get('right', True) else '   WRONG'}"


def compile_ahead(quick: bool, processes: int) -> int:
    """Compile most of what the rows take, several at once, since one after the other takes longer than measuring."""
    names = (*PLAIN, *BLOCKS, *(() if quick else OTHER_BLOCKS))
    first: matrix.Sizes = ((8192, 8192),) if quick else SIZES[:1]
    wanted = [(name, "prepared", first) for name in names]
    if not quick:
        wanted += [(name, "prepared", (*SIZES[1:], *WIDE)) for name in SMALLER]
        wanted += [(name, "columns", SIZES) for name in ("e5m2", "e4m3")]
        wanted += [(name, "columns", SIZES[:1]) for name in ("fp16", "e2m1", "mxfp8_e4m3", "mxfp4", "nvfp4")]
        wanted += [(name, kernel, ()) for name in CONVERTED for kernel in ("pack", "unpack")]
    arch = machine()["arch"].removeprefix("sm_")
    tasks = [matrix.Task(arch, matrix.row_of(name), kernel, sizes) for name, kernel, sizes in wanted]
    return sum(len(made) for made in matrix.compile_all(tasks, processes))


Keep = Callable[[Row], None]


def report(quick: bool, say: Callable[[str], None], keep: Keep = lambda result: None, processes: int = 1) -> Row:
    """Run, say each figure, and return all of them.

    keep(result) is called after each figure, so that nothing is lost where a later one fails.  processes: how
    many compile at once; with 1 the rows compile by themselves.
    """
    import cupy

    begin = time.perf_counter()
    result: Row = {"machine": machine(), "quick": quick, "seconds": 0.0, "rows": []}
    if processes > 1:
        count = compile_ahead(quick, processes)
        say(f"{count} kernels compiled in {time.perf_counter() - begin:.0f} s by {processes} processes")
    for row in rows(quick):
        result["rows"].append(row)
        result["seconds"] = time.perf_counter() - begin
        say(line(row))
        keep(result)
        cupy.get_default_memory_pool().free_all_blocks()
    for text in conclusions(result["rows"]):
        say(text)
    return result


def conclusions(found: list[Row]) -> Iterator[str]:
    """What to make of the figures, in a line each."""
    first = next(row for row in found if "n" in row)
    by = {(row["work"], row.get("format")): row["us"] for row in reversed(found) if row.get("n") == first["n"]}
    base = by["cuBLAS float32", None], by["cuBLAS float16", None]
    for name in ("e5m2", "e4m3"):
        us = by["gemv", name]
        yield f"{name}: {base[0] / us:.2f}x over cuBLAS float32, {base[1] / us:.2f}x over float16 ({ARTICLE})"
    yield ADVICE


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def dump(result: Row) -> str:
    """The result as JSON, which has no NaN: what was not timed is null.  `bench.schema.json` describes it.

    >>> '"us": null' in dump({"rows": [{"work": "gemv", "right": False, "us": float("nan")}]})
    True
    """
    known = [{key: _known(value) for key, value in row.items()} for row in result["rows"]]
    return json.dumps({**result, "rows": known}, indent=1, allow_nan=False) + "\n"
