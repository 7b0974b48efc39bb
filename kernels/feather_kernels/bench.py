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
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import ceilings, gpu, jobs, launch, matrix, naive
from feather_kernels.arrays import NUMBERS
from feather_kernels.calls import run
from feather_kernels.cuts import Cut
from feather_kernels.launch import Job
from feather_kernels.matvec import Gemv
from feather_kernels.samples import device_matrices, host_rows, row_of
from feather_ref import ops
from feather_ref.policy import resolve

Row = dict[str, Any]
Run = Callable[[int, Any], None]

ARTICLE = "the article, RTX 3050: 3.3x over float32 at 16384 x 16384, E5M2"
ADVICE = (
    "Do not use packed weights where one column times a small matrix is all there is (below about 4 MB a launch is the "
    "price), nor with hundreds of columns: unpack once and let cuBLAS multiply."
)


class Product(NamedTuple):
    """A product to measure: W of a format or a block format, and how it is prepared.

    finite: whether W is known to have neither Inf nor NaN.  columns: above 1, by tensor cores.
    step: of the ladder, what it shows.
    """

    name: str
    n: int
    k: int
    x: str = "float16"
    finite: bool = True
    cut: Cut | None = None
    columns: int = 1
    step: str = ""

    @property
    def work(self) -> str:
        """What a row calls it."""
        if self.step:
            return f"ladder: {self.step}"
        return ("gemv" if self.columns == 1 else f"{self.columns} columns") + ", NaN looked for" * (not self.finite)

    def jobs(self, arch: str) -> list[Job]:
        """What `prepare` compiles for it on an architecture."""
        row, number = row_of(self.name), NUMBERS[self.x]
        if self.columns > 1:
            return matrix.columns_jobs(row, arch, number, sizes=[(self.n, self.k)], finite=self.finite)
        return matrix.prepared_jobs(row, arch, number, "fp32", [(self.n, self.k)], self.finite, self.cut)


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


def product_row(product: Product) -> Row:
    """Check the first rows, one column against the replay and several against the bound; then time."""
    import cupy

    name, n, k, x, finite, cut, columns, _ = product
    matrices = device_matrices(name, n, k, finite=finite)
    many = () if columns == 1 else (columns,)
    numbers = cupy.random.standard_normal((*many, k)).astype(x)
    plans: list[Any] = [fk.prepare(W, x=x, cut=cut, columns=columns) for W in matrices]
    out = cupy.full((*many, n), cupy.nan, cupy.float32)
    plans[0](numbers, out=out)
    y = out.get()
    right, error = (_replayed if columns == 1 else _within)(matrices[0], numbers.get(), y, plans[0])
    right = right and not bool(np.isnan(y).any())
    us = graph_us(lambda i, stream: plans[i % len(plans)](numbers, out=out, stream=stream)) if right else float("nan")
    size, chosen = plans[0].nbytes + numbers.nbytes + out.nbytes, plans[0].kernel
    cubin = launch.compile_job(chosen.job(), machine()["arch"])
    row = {"work": product.work, "format": name, "x": x, "n": n, "k": k}
    if many:
        row["columns"] = columns
    speed = {"right": right, "us": us, "gbs": size / us / 1e3, **error}
    how = {field: getattr(chosen, field) for field in ("rows", "tiles", *Cut._fields[1:]) if hasattr(chosen, field)}
    return {**row, **speed, **how, "registers": cubin.registers, "spills": cubin.spills}


def _replayed(W: Any, x: Any, y: Any, plan: Any) -> tuple[bool, Row]:  # noqa: N803 - the name of a matrix
    """Whether the first rows of y are those of the replay, bit for bit."""
    wanted = ops.replay(host_rows(W, 48), x, ops.Order(**plan.order()))
    return bool((y[: len(wanted)].view(np.uint32) == wanted.view(np.uint32)).all()), {}


def _within(W: Any, x: Any, y: Any, plan: Any) -> tuple[bool, Row]:  # noqa: N803 - the name of a matrix
    """Whether the first rows of y are within the bound of a tensor core, and how far off they are.

    ulp: the greatest error, in units of the last place of a float32 of sum |w x|.
    """
    W, kernel = host_rows(W, 16), plan.kernel  # noqa: N806 - as above
    error = np.abs(y[:, : W.shape[0]].astype(np.float64) - ops.matmul(x, W))
    sizes = np.abs(x.astype(np.float64)) @ np.abs(W.dequantize().astype(np.float64)).T
    # Each part of x is a sum of its own.
    bound = ops.error_bound(W, x, ops.TensorCore(factor=kernel.pairs.factor)) * kernel.terms
    return bool((error <= bound).all()), {"ulp": float((error / np.spacing(sizes.astype(np.float32))).max())}


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
    work = "ladder: a thread a row, byte by byte"
    return {"work": work, "format": name, "x": "float16", "n": n, "k": k, **speed}


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
        policy: dict[str, Any] = {"nan": None if row.has_nan else "max"}
        codes, words = fk.encode(x, row, **policy), fk.pack(x, row, **policy)
        sample = x[:2].get()
        right = bool((codes[:2].get() == fr.encode(sample, row)).all())
        right = right and bool((words[:2].get() == fr.pack(sample, row)).all())
        back[...] = cupy.nan
        fk.unpack(words, row, out=back)
        right = right and bool((back[:2].get() == fr.unpack(words[:2].get(), row)).all())
        unpacked = back.view(cupy.uint32).copy()
        right = right and bool(((unpacked & 0x7FFFFFFF) <= 0x7F800000).all())  # no NaN is left
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
    yield from _conversion_calls(cupy.ones((64, 64), cupy.float32), "CuPy")
    try:
        import torch
    except ImportError:
        return
    yield from _conversion_calls(torch.ones((64, 64), device="cuda"), "torch")
    tx, tout = torch.ones(64, dtype=torch.float16, device="cuda"), torch.empty(64, device="cuda")
    yield {"work": "prepared launch, torch", "us": host_us(lambda: plan(tx, out=tout))}
    yield {"work": "gemv(plan, x), torch", "us": host_us(lambda: fk.gemv(plan, tx))}


def _conversion_calls(x: Any, library: str) -> Iterator[Row]:
    codes, words = fk.encode(x, "e4m3"), fk.pack(x, "e4m3")
    for work, call in (
        ("encode(x, out=)", lambda: fk.encode(x, "e4m3", out=codes)),
        ("encode(x)", lambda: fk.encode(x, "e4m3")),
        ("decode(codes, out=)", lambda: fk.decode(codes, "e4m3", out=x)),
        ("pack(x, out=)", lambda: fk.pack(x, "e4m3", out=words)),
        ("unpack(words, out=)", lambda: fk.unpack(words, "e4m3", out=x)),
    ):
        yield {"work": f"{work}, {library}", "us": host_us(call)}


def cache_rows() -> Iterator[Row]:
    """What a kernel costs the first time ever, and the first time of a process that finds it on the disk."""
    job, arch = Gemv(fr.get_format("e4m3")).job(), machine()["arch"]
    with tempfile.TemporaryDirectory() as folder:
        for work in ("compile", "find in the cache"):
            begin = time.perf_counter()
            launch.compile_job(job, arch, Path(folder))
            yield {"work": work, "us": (time.perf_counter() - begin) * 1e6}


QUICK_SIZE = (8192, 8192)
SIZES = ((16384, 16384), (8192, 8192), (4096, 14336), (4096, 4096), (1024, 8192))
WIDE = ((8, 65536), (64, 65536), (256, 16384))
PLAIN = ("fp16", "e5m2", "e4m3", "e3m2", "e2m1", "nf4", "int8", "bf16")
BLOCKS = ("mxfp8_e4m3", "mxfp4", "nvfp4")
SMALLER = ("fp16", "e5m2", "e4m3", "mxfp8_e4m3", "nvfp4")
CONVERTED = ("e4m3", "e5m2", "e3m2", "e2m1", "bf16")
OTHER_BLOCKS = ("mxfp8_e5m2", "mxfp6_e3m2", "mxint8", "fp8_1x128", "int8_g32", "uint4_g32", "q4_0")
LADDER = (  # each a few lines over the last, `naive_row` before them
    {"step": "a warp a row, 128-bit loads", "cut": Cut(1, 1)},
    {"step": "two rows a warp, two loads at once", "cut": Cut(2, 1, 8, 2)},
    {"step": "8 columns by tensor cores", "columns": 8},
)
CALLED = (Product("e4m3", 64, 64), Product("e4m3", 1024, 1024))  # the second is large enough to begin early


def products(quick: bool) -> list[Product]:
    """Every product that is measured, but for the first rung of the ladder."""
    n, k = QUICK_SIZE if quick else SIZES[0]
    found = [Product(name, n, k) for name in (*PLAIN, *BLOCKS)]
    if quick:
        return found
    found += [Product("e4m3", n, k, finite=False), *(Product("e4m3", n, k, **step) for step in LADDER)]
    found += [Product(name, n, k, columns=8) for name in ("fp16", "e5m2", "e4m3", "e2m1", *BLOCKS)]
    found += [Product("e4m3", n, k, columns=8, finite=False), Product("e4m3", n, k, "float32", columns=8)]
    found += [Product(name, *size, columns=8) for size in SIZES[1:] for name in ("e5m2", "e4m3")]
    found += [Product(name, n, k) for name in OTHER_BLOCKS]
    found += [Product(name, *size) for size in SIZES[1:] for name in SMALLER]
    return [*found, *(Product("e4m3", *size) for size in WIDE), Product("e4m3", n, k, "float32")]


def rows(quick: bool) -> Iterator[Row]:
    """Every figure, as it comes."""
    yield from ceilings_of(256 if quick else 1024)
    size = QUICK_SIZE if quick else SIZES[0]
    yield from cublas_rows(*size)
    if not quick:
        yield naive_row("e4m3", *size)
    yield from map(product_row, products(quick))
    if not quick:
        yield from convert_rows(1 << 28)
    yield from call_rows()
    yield from cache_rows()


def line(row: Row) -> str:
    """A row as a line of text."""
    what = " ".join(str(row[key]) for key in ("work", "format", "x") if key in row)
    size = f"{row['n']} x {row['k']}" if "n" in row else ""
    speed = f"{row['gbs']:7.0f} GB/s" if "gbs" in row else ""
    return f"{what:34} {size:14} {row['us']:9.2f} us {speed}{'' if row.get('right', True) else '   WRONG'}"


def compile_ahead(quick: bool, processes: int) -> int:
    """Compile what the rows take, several at once, since one after the other takes longer than measuring."""
    arch = machine()["arch"]
    heavy = sorted([*products(quick), *CALLED], key=lambda product: product.columns == 1)  # those take longest
    tasks: list[tuple[str, Product | str]] = [(arch, product) for product in heavy]
    tasks += [(arch, name) for name in (OTHERS if quick else (*OTHERS, *CONVERTED))]
    return sum(len(made) for made in matrix.in_processes(_compile, tasks, processes))


OTHERS = ("ceilings", "naive")


def _compile(task: tuple[str, Product | str]) -> list[matrix.Compiled]:
    """In a process of its own: the kernels of a product, of the conversions of a format, or of OTHERS."""
    arch, what = task
    return matrix.compiled(jobs_of(what, arch), arch)


def jobs_of(what: Product | str, arch: str) -> Iterable[Job]:
    """What is compiled for a product, for the conversions of a format, or for OTHERS."""
    if isinstance(what, Product):
        return what.jobs(arch)
    if what in OTHERS:
        ceiling = (ceilings.READ, ceilings.COPY, ceilings.EMPTY)
        return ceiling if what == "ceilings" else (naive.naive_job(fr.get_format("e4m3")),)
    row = fr.get_format(what)
    policy = resolve(row, nan=None if row.has_nan else "max")
    width = 8 * fr.code_dtype(row).itemsize
    lanes = (width, 0, False), (row.storage_bits, row.storage_shift, True)
    packing = [jobs.pack_job(policy, "fp32", bits, shift, True, words) for bits, shift, words in lanes]
    return [*packing, *(jobs.unpack_job(row, "fp32", bits, shift, True, words, False) for bits, shift, words in lanes)]


Keep = Callable[[Row], None]
QUICK_SECONDS, QUICK_BYTES = 60, 2_000_000_000


def report(quick: bool, say: Callable[[str], None], keep: Keep = lambda result: None, processes: int = 1) -> Row:
    """Run, say each figure, and return all of them.

    keep(result) is called after each figure, so that nothing is lost where a later one fails.  processes: how
    many compile at once; with 1 the rows compile by themselves.
    """
    import cupy

    begin = time.perf_counter()
    result: Row = {"machine": machine(), "quick": quick, "seconds": 0.0, "memory": 0, "rows": []}
    if processes > 1:
        count = compile_ahead(quick, processes)
        say(f"{count} kernels compiled in {time.perf_counter() - begin:.0f} s by {processes} processes")
    for row in rows(quick):
        result["rows"].append(row)
        result["seconds"] = time.perf_counter() - begin
        pool = cupy.get_default_memory_pool()
        result["memory"] = max(result["memory"], pool.total_bytes())
        say(line(row))
        keep(result)
        pool.free_all_blocks()
    for text in (*conclusions(result["rows"]), cost(result)):
        say(text)
    return result


def cost(result: Row) -> str:
    """Seconds and GPU memory in a line; of a quick run also what it may take.

    >>> cost({"quick": True, "seconds": 41.3, "memory": 1_234_000_000})
    '41 s (a quick run may take 60), 1.2 GB of GPU memory for arrays at the most (it may take 2)'
    """
    limits = (f" (a quick run may take {QUICK_SECONDS})", f" (it may take {QUICK_BYTES // 10**9})")
    time_limit, memory_limit = limits if result["quick"] else ("", "")
    over = result["quick"] and (result["seconds"] > QUICK_SECONDS or result["memory"] > QUICK_BYTES)
    gigabytes = f"{result['memory'] / 1e9:.1f} GB of GPU memory for arrays at the most"
    return f"{result['seconds']:.0f} s{time_limit}, {gigabytes}{memory_limit}{': MORE THAN THAT' if over else ''}"


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
