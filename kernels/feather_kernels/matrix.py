"""Every kernel of every format for every architecture, compiled without a GPU; what came of it.

    for each architecture and format    gemv with one, two and four rows a warp, pack, unpack

Source: CUDA 13.0 release notes for the architectures of each toolkit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from feather_kernels import jobs, launch
from feather_kernels.launch import Job
from feather_kernels.matvec import Gemv
from feather_ref import Format
from feather_ref.policy import resolve

ARCHS = {13: ("75", "80", "86", "89", "90", "100", "120"), 12: ("60", "61", "70")}
KERNELS = ("gemv", "gemv2", "gemv4", "pack", "unpack")


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
            "gemv": lambda: jobs.gemv_job(g),
            "gemv2": lambda: jobs.gemv_job(replace(g, rows=2, splits=2, depth=2)) if g.words <= 4 else None,
            "gemv4": lambda: jobs.gemv_job(replace(g, rows=4, splits=2)) if g.words <= 4 else None,
            "pack": lambda: jobs.pack_job(policy, "fp32", width, shift, True, True),
            "unpack": lambda: jobs.unpack_job(fmt, "fp32", width, shift, True, True, False),
        }[kernel]()
        if made is not None:
            made.make()
    except ValueError:  # no kernel has this format: the API says so
        return None
    return made


def compile_all(
    archs: Iterable[str],
    formats: Iterable[Format],
    kernels: Iterable[str] = KERNELS,
    folder: Path | None = None,
    processes: int = 1,
) -> Iterator[Compiled]:
    """Compile every kernel of every format for every architecture, into the cache.

    In processes of their own, which load the kernels for the GPU whatever this one did.
    """
    wanted = [(arch, fmt, kernel, folder) for arch in archs for fmt in formats for kernel in kernels]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from (done for done in pool.map(_compile, wanted) if done is not None)


def _compile(wanted: tuple[str, Format, str, Path | None]) -> Compiled | None:
    arch, fmt, kernel, folder = wanted
    job = job_of(kernel, fmt)
    if job is None:
        return None
    made = launch.compile_job(job, arch, folder)
    return Compiled(made.arch, job.name, made.registers, made.spills, made.stack, made.shared, made.size)
