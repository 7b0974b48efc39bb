"""Kernels compiled in a process that has loaded them for the GPU, whatever the tests' own process did.

    gemv           what `prepare` takes for W of one size that may hold NaN, and one column
    columns        the same, and several columns
    pack, unpack   float32 to the codes of a row, and back

Source: design of this project.
"""

from __future__ import annotations

import traceback
from pathlib import Path

from feather_kernels import matrix
from feather_kernels.launch import Job
from feather_kernels.matrix import Compiled
from feather_ref import BlockFormat, Format

LINES = 6


def jobs_of(fmt: Format | BlockFormat, arch: str, kernel: str) -> list[Job]:
    """The kernels of a format for an architecture: two where blocks have scales that are alike and others."""
    if isinstance(fmt, Format) and kernel in ("pack", "unpack"):
        made = matrix.job_of(kernel, fmt)
        return [] if made is None else [made]
    element = fmt.element if isinstance(fmt, BlockFormat) else fmt
    finite = not (element.has_nan or element.has_inf)
    make = {"gemv": matrix.prepared_jobs, "columns": matrix.columns_jobs}[kernel]
    return make(fmt, arch, sizes=[matrix.ONE_SIZE], finite=finite)


def compile_one(fmt: Format | BlockFormat, arch: str, kernel: str, folder: Path) -> list[Compiled]:
    """Compile them into a folder; this runs in the other process.

    Raises RuntimeError with the beginning of what the compiler says, which would not come back otherwise.
    """
    try:
        return matrix.compiled(jobs_of(fmt, arch, kernel), arch, folder)
    except Exception as error:
        said = "".join(traceback.format_exception_only(error)).replace("\0", "").splitlines()
        raise RuntimeError("\n".join(said[:LINES])) from error
