"""The GPU: what it is, whether kernels can run there, and a kernel ready to launch.

Every answer of the driver that stands in the way becomes one sentence with what to do.

Source: CUDA Driver API 13.0, cuDriverGetVersion and device attributes; CUDA compatibility guide.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from importlib import metadata
from typing import Any

from feather_kernels import launch
from feather_kernels.launch import Job

_MULTIPROCESSORS, _CLOCK_KHZ, _BUS_BITS = 16, 36, 37  # cudaDevAttr...
CUDA13 = (7, 5)  # the least compute capability of CUDA 13


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


def check(driver: int, toolkit: tuple[int, int] | None, cc: tuple[int, int]) -> None:
    """Whether a driver (as 12040), a toolkit and a compute capability go together.

    >>> check(13000, (13, 0), (9, 0))

    Raises GpuError that says what to do.
    """
    if driver == 0:
        raise GpuError("the CUDA driver shows no GPU: unset FEATHER_TARGET to run small sizes in the simulator")
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
def _cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise GpuError("CuPy is missing, which launches the kernels: install feather-ref[cuda13]") from error
    return cupy


@cache
def capability(device: int) -> tuple[int, int]:
    """The compute capability of a device that kernels can run on."""
    cupy = _cupy()
    cc = launch.parse_arch(cupy.cuda.Device(device).compute_capability)
    check(cupy.cuda.runtime.driverGetVersion(), toolkit_version(), cc)
    return cc


class Launcher:
    """A loaded kernel whose arguments all have 8 bytes: they are written to one place, and the driver reads them there.

    launcher(blocks, threads, arguments, stream): stream is the address of one, None CuPy's current one.
    """

    def __init__(self, function: Any, count: int) -> None:
        """Keep the function; lay out the arguments."""
        self._function, self._lock, self._cupy = function, threading.Lock(), _cupy()
        self._values = (ctypes.c_int64 * count)()
        begin = ctypes.addressof(self._values)
        self._pointers = (ctypes.c_void_p * count)(*(begin + 8 * i for i in range(count)))
        self._address, self._entry = ctypes.addressof(self._pointers), function.ptr
        self._launch = self._cupy.cuda.driver.launchKernel

    def __call__(self, blocks: tuple[int, int], threads: int, arguments: tuple[int, ...], stream: int | None) -> None:
        """Launch; the driver has copied the arguments when this returns."""
        ptr = self._cupy.cuda.get_current_stream().ptr if stream is None else stream
        with self._lock:
            self._values[:] = list(arguments)
            self._launch(self._entry, *blocks, 1, threads, 1, 1, 0, ptr, self._address, 0)


@cache
def _launcher(job: Job, device: int) -> Launcher:
    major, minor = capability(device)
    return Launcher(launch.load(launch.compile_job(job, f"{major}{minor}"), device), len(job.arguments))


def launcher(job: Job) -> Launcher:
    """The kernel on the current device, compiled where it has to be."""
    return _launcher(job, _cupy().cuda.runtime.getDevice())


def _attribute(number: int) -> int:
    cupy = _cupy()
    return int(cupy.cuda.runtime.deviceGetAttribute(number, cupy.cuda.runtime.getDevice()))


def multiprocessors() -> int:
    """How many the current device has."""
    return _attribute(_MULTIPROCESSORS)


def bandwidth() -> float:
    """Of the current device's memory, as the driver says, in GB/s."""
    return 2 * _attribute(_CLOCK_KHZ) * 1e3 * _attribute(_BUS_BITS) / 8 / 1e9
