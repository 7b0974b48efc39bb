"""Kernels of every format for every architecture, compiled without a GPU; what came of it.

    matrix      for each architecture and each format, plain or of blocks: what `prepare` takes for one size and for
                W that may hold NaN, of one column and, where tensor cores have a kernel, of several; pack, unpack
    besides     gemv with one, two and four rows a warp; what `prepare` takes for other sizes

Source: CUDA 13.0 release notes for the architectures of each toolkit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeVar

from feather_kernels import _target, driver, jobs, launch, tensorcore
from feather_kernels.cuts import Cut, begins_early, choose_cut, choose_tiles
from feather_kernels.decoders import check_exact
from feather_kernels.launch import Job
from feather_kernels.matvec import Gemv
from feather_kernels.operands import Shared
from feather_ref import BLOCK_FORMATS, FORMATS, BlockFormat, Format, get_block_format, get_format
from feather_ref.policy import resolve

ARCHS = {13: ("75", "80", "86", "89", "90", "100", "120"), 12: ("60", "61", "70")}
KERNELS = ("gemv", "gemv2", "gemv4", "pack", "unpack")
CHOSEN, PREPARED, COLUMNS = "chosen", "prepared", "columns"
ALL_KERNELS = (*KERNELS, PREPARED, COLUMNS, CHOSEN)
MATRIX = (CHOSEN, "pack", "unpack")
ONE_SIZE = (4096, 4096)
# Of the card of an architecture that is met most.
MULTIPROCESSORS = {
    "60": 56, "61": 28, "70": 80, "75": 40, "80": 108, "86": 84, "89": 128, "90": 132, "100": 148, "120": 170,
}  # fmt: skip
E4M3_SINCE = (8, 9)  # the compute capability that widens e4m3 itself
_SIZES = tuple(1 << i for i in range(8, 17))


Sizes = Sequence[tuple[int, int]]
What = TypeVar("What")


class Task(NamedTuple):
    """What one process compiles at a time."""

    arch: str
    fmt: Format | BlockFormat
    kernel: str
    sizes: Sizes = ()
    folder: Path | None = None


class Compiled(NamedTuple):
    """One cubin."""

    arch: str
    kernel: str
    registers: int
    spills: int
    stack: int
    shared: int
    bytes: int


def job_of(kernel: str, fmt: Format) -> Job | None:
    """The kernel of a format; None where the format has no such kernel."""
    width, shift = fmt.storage_bits, fmt.storage_shift
    policy = resolve(fmt, nan="canonical" if fmt.has_nan else "max", negative=None if fmt.signed else "abs")
    g = Gemv(fmt)
    try:
        made = {
            "gemv": g.job,
            "gemv2": lambda: replace(g, rows=2, splits=2, depth=2).job() if g.words <= 4 else None,
            "gemv4": lambda: replace(g, rows=4, splits=2).job() if g.words <= 4 else None,
            "pack": lambda: jobs.pack_job(policy, "fp32", width, shift, True, True),
            "unpack": lambda: jobs.unpack_job(fmt, "fp32", width, shift, True, True, False),
        }[kernel]()
        if made is not None:
            made.make()
    except ValueError:  # no kernel has this format: the API says so
        return None
    return made


def prepared_jobs(
    fmt: Format | BlockFormat, arch: str | int, x: str = "fp16", out: str = "fp32", sizes: Sizes = (),
    finite: bool | None = None, cut: Cut | None = None,
) -> list[Job]:  # fmt: skip
    """Every kernel that `prepare` may take for W of a format, of these sizes (n, k), and one column of x.

    Without sizes: of n and k from 256 to 65536.  finite: whether W has neither Inf nor NaN; None is both.
    cut: as `prepare` takes it.
    """
    cc = launch.parse_arch(arch)
    count = MULTIPROCESSORS.get(f"{cc[0]}{cc[1]}", 108)
    element, shared = (fmt.element, _shared(fmt)) if isinstance(fmt, BlockFormat) else (fmt, None)
    try:
        check_exact(element)
    except ValueError:  # no kernel has this format: the API says so
        return []
    found = {}
    for is_finite in _finite(element, finite):
        base = Gemv(element, x, out, finite=is_finite, native=cc >= E4M3_SINCE, shared=shared)
        for n, k in sizes or itertools.product(_SIZES, repeat=2):
            early = begins_early(n * k * element.storage_bits // 8, cc)
            chosen = choose_cut(base, n, k, count) if cut is None else cut
            made = replace(base, overlap=early, **chosen._asdict()).job()
            found[made.key] = made
    return [found[key] for key in sorted(found)]


def _finite(element: Format, known: bool | None) -> set[bool]:
    """What may be known of W: that it has neither Inf nor NaN, or not."""
    return {known} if known is not None else {True, not (element.has_nan or element.has_inf)}


def columns_jobs(
    fmt: Format | BlockFormat, arch: str | int, x: str = "fp16", out: str = "fp32", sizes: Sizes = (),
    finite: bool | None = None,
) -> list[Job]:  # fmt: skip
    """What `prepare` takes for W of a format and several columns, where tensor cores do; sizes, finite as above."""
    cc = launch.parse_arch(arch)
    count = MULTIPROCESSORS.get(f"{cc[0]}{cc[1]}", 108)
    element, shared = (fmt.element, _shared(fmt)) if isinstance(fmt, BlockFormat) else (fmt, None)
    found = {}
    # Blocks whose scales are alike take float16, others bfloat16.
    kinds = itertools.product(_finite(element, finite), {False, shared is not None})
    for is_finite, narrow in kinds:
        base = Gemv(element, x, out, finite=is_finite, native=cc >= E4M3_SINCE, shared=shared)
        core = tensorcore.from_gemv(base, cc, narrow)
        if tensorcore.reason_against(core, cc) is None:
            for n, k in sizes or itertools.product(_SIZES, repeat=2):
                made = choose_tiles(core, n, k, count).job()
                found[made.key] = made
    return [found[key] for key in sorted(found)]


def chosen_jobs(fmt: Format | BlockFormat, arch: str | int) -> list[Job]:
    """What `prepare` takes for W of ONE_SIZE whose codes may be NaN, for one column and for several."""
    element = fmt.element if isinstance(fmt, BlockFormat) else fmt
    finite = not (element.has_nan or element.has_inf)
    one = prepared_jobs(fmt, arch, sizes=[ONE_SIZE], finite=finite)
    return [*one, *columns_jobs(fmt, arch, sizes=[ONE_SIZE], finite=finite)]


def _shared(fmt: BlockFormat) -> Shared:
    rows, size = fmt.tile
    return Shared(size, rows, fmt.scale, fmt.zero_point, plain=True)


def precompile(
    archs: Iterable[str | int] | None = None,
    formats: Iterable[str | Format | BlockFormat] | None = None,
    *,
    kernels: Iterable[str] = ("prepared", "pack", "unpack"),
    sizes: Sizes = (),
    folder: Path | None = None,
    processes: int = 1,
    progress: bool = True,
) -> list[Compiled]:
    """Compile into the cache what later calls would compile one by one, for GPUs that need not be here.

    archs: such as 90, "sm_75" or "8.6"; None is all that the toolkit compiles for.  formats: names or rows, of
    blocks too (a name of both is the plain one's); None is every plain format.  kernels: of KERNELS,
    "prepared", what `prepare` takes by itself for x in float16 and a result in float32, "columns", the same for
    several columns, or "chosen", both for one size and codes that may be NaN.  sizes: (n, k) of the matrices
    that will be prepared; without them, all from 256 to 65536.  folder: None is the cache that calls look into.
    processes: how many compile at once.
    progress: a line on stderr.

    A script that calls this needs its `if __name__ == "__main__":`, since it starts processes.

    Raises ValueError naming the argument, and ToolkitError with what to do where the toolkit is missing or
    does not know an architecture.
    """
    toolkit = driver.toolkit_version()
    if toolkit is None:
        raise launch.ToolkitError("there is no CUDA toolkit to compile with: install feather-ref[cuda13], or [cuda12]")
    rows = [row_of(fmt) for fmt in (FORMATS if formats is None else formats)]
    chosen = list(kernels)
    for kernel in chosen:
        if kernel not in ALL_KERNELS:
            raise ValueError(f"kernels: {kernel!r} is none of {', '.join(ALL_KERNELS)}")
    from rich.console import Console
    from rich.progress import track

    pairs = [launch.parse_arch(arch) for arch in (ARCHS[toolkit[0]] if archs is None else archs)]
    wanted = itertools.product([f"{major}{minor}" for major, minor in pairs], rows, chosen)
    tasks = [Task(*what, sizes=tuple(sizes), folder=folder) for what in wanted]
    made, console = compile_all(tasks, processes), Console(stderr=True)
    done = track(made, "compiling", total=len(tasks), console=console, transient=True, disable=not progress)
    return [compiled for found in done for compiled in found]


def every_row() -> list[Format | BlockFormat]:
    """Every format of the tables, plain and of blocks."""
    return [*FORMATS.values(), *BLOCK_FORMATS.values()]


def row_of(fmt: str | Format | BlockFormat) -> Format | BlockFormat:
    """The row of a name: of a plain format where there is one, else of blocks."""
    if isinstance(fmt, str) and fmt in BLOCK_FORMATS and fmt not in FORMATS:
        return get_block_format(fmt)
    return fmt if isinstance(fmt, BlockFormat) else get_format(fmt)


def compile_all(tasks: Sequence[Task], processes: int = 1) -> Iterator[list[Compiled]]:
    """Compile into the cache: a list for each task."""
    return in_processes(_compile, tasks, processes)


def in_processes(
    compile_one: Callable[[What], list[Compiled]], tasks: Sequence[What], processes: int
) -> Iterator[list[Compiled]]:
    """What compile_one makes of each task.

    In processes of their own, which load the kernels for the GPU whatever this one did.
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    if find_spec("numba") is None:
        raise launch.ToolkitError("Numba compiles the kernels: install feather-ref[cuda13], or [cuda12]")

    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        with _target.for_gpu():
            found = pool.map(compile_one, tasks)  # starts the processes
        yield from found


def _jobs(task: Task) -> list[Job]:
    """None where a format has no such kernel: the API says so."""
    if task.kernel == CHOSEN:
        return chosen_jobs(task.fmt, task.arch)
    if task.kernel == PREPARED:
        return prepared_jobs(task.fmt, task.arch, sizes=task.sizes)
    if task.kernel == COLUMNS:
        return columns_jobs(task.fmt, task.arch, sizes=task.sizes)
    job = None if isinstance(task.fmt, BlockFormat) else job_of(task.kernel, task.fmt)
    return [] if job is None else [job]


def _compile(task: Task) -> list[Compiled]:
    return compiled(_jobs(task), task.arch, task.folder)


def compiled(found: Iterable[Job], arch: str, folder: Path | None = None) -> list[Compiled]:
    """Compile kernels into the cache, and say what came of each."""
    made = [(job, launch.compile_job(job, arch, folder)) for job in found]
    return [Compiled(c.arch, job.name, c.registers, c.spills, c.stack, c.shared, c.size) for job, c in made]
