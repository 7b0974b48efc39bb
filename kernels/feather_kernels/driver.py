"""Whether kernels can run on a GPU here: CuPy, driver, toolkit, device.

Every answer that stands in the way becomes one sentence with what to do.

Source: CUDA Driver API 13.0, cuDriverGetVersion; CUDA compatibility guide.
"""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import Any

CUDA13 = (7, 5)  # the least compute capability of CUDA 13
_SIMULATE = "unset FEATHER_TARGET to run small sizes in the simulator"


class GpuError(RuntimeError):
    """Kernels cannot run here."""


def toolkit_version() -> tuple[int, int] | None:
    """The toolkit that compiles, by its assembler's package; None where none is installed."""
    for package in ("nvidia-nvjitlink", "nvidia-nvjitlink-cu12"):
        try:
            major, minor = metadata.version(package).split(".")[:2]
        except metadata.PackageNotFoundError:
            continue
        return int(major), int(minor)
    return None


def check(driver: int, toolkit: tuple[int, int] | None, cc: tuple[int, int] = CUDA13) -> None:
    """Whether a driver (as 12040), a toolkit and a compute capability go together.

    >>> check(13000, (13, 0), (9, 0))

    Raises GpuError that says what to do.
    """
    if driver == 0:
        raise GpuError(f"there is no CUDA driver: install one, or {_SIMULATE}")
    if toolkit is None:
        raise GpuError("there is no CUDA toolkit to compile with: install feather-ref[cuda13], or [cuda12]")
    have = (driver // 1000, driver % 1000 // 10)
    if have[0] < toolkit[0]:
        raise GpuError(
            f"the driver is for CUDA {have[0]}.{have[1]} and the toolkit is {toolkit[0]}.{toolkit[1]}: "
            f"update the driver, or install feather-ref[cuda{have[0]}]"
        )
    if toolkit[0] >= 13 and cc < CUDA13:
        raise GpuError(f"compute capability {cc[0]}.{cc[1]} needs CUDA 12: install feather-ref[cuda12]")


@cache
def cupy() -> Any:
    """CuPy, where it sees a GPU that kernels can run on; asked until it does.

    Raises GpuError that says what to do.
    """
    try:
        import cupy as found
    except ImportError as error:
        raise GpuError(f"CuPy launches the kernels, and {error}: install feather-ref[cuda13], or [cuda12]") from error
    runtime = found.cuda.runtime
    check(runtime.driverGetVersion(), toolkit_version())
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise GpuError(f"the CUDA driver does not work, it says {error}: mend it, or {_SIMULATE}") from error
    if count == 0:
        raise GpuError(f"the CUDA driver shows no GPU: see CUDA_VISIBLE_DEVICES, or {_SIMULATE}")
    return found
