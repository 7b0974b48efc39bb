"""Where kernels run: a GPU through Numba, or plain Python in the simulator; chosen once, at import.

FEATHER_TARGET may say "gpu" or "simulator"; without it a GPU is taken where the driver shows one.
"gpu" needs no driver as long as kernels are only compiled.  FEATHER_ARCH, as 75, compiles for an older
architecture than the GPU's own: the driver makes of its PTX what runs here.  Kernels say::

    from feather_kernels._target import cuda, device, kernel

and use `cuda.threadIdx`, `cuda.blockIdx`, `cuda.gridDim`, `cuda.local.array`, `cuda.shared.array`,
`cuda.const.array_like` and `cuda.syncthreads`; all else comes from `feather_kernels.ptx`.

This is the only file that looks at the environment.

Source: design of this project; CUDA Driver API, cuInit and cuDeviceGetCount.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

TARGETS = ("gpu", "simulator")
_LIBRARIES = ("libcuda.so.1", "nvcuda.dll")


def load_driver() -> Any:
    """The CUDA driver's library; None without one."""
    for name in _LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def driver_devices() -> int:
    """How many GPUs the CUDA driver shows; 0 without a driver."""
    driver, count = load_driver(), ctypes.c_int(0)
    if driver is None or driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def choose(wanted: str | None, devices: Callable[[], int]) -> str:
    """The target of a setting: the setting itself, or what the driver shows.

    >>> choose(None, lambda: 0), choose("GPU", lambda: 0)
    ('simulator', 'gpu')
    """
    if not wanted:
        return "gpu" if devices() else "simulator"
    if wanted.lower() not in TARGETS:
        raise ValueError(f"FEATHER_TARGET must be one of {', '.join(TARGETS)}; got {wanted!r}")
    return wanted.lower()


TARGET = choose(os.environ.get("FEATHER_TARGET"), driver_devices)
ARCH = os.environ.get("FEATHER_ARCH") or None
SIMULATOR = TARGET == "simulator"


def cache_folder() -> str:
    """Where compiled kernels are kept: FEATHER_CACHE, else the user's cache folder."""
    if folder := os.environ.get("FEATHER_CACHE"):
        return folder
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/.cache")
    return os.path.join(base, "feather_kernels")


@contextmanager
def for_gpu() -> Iterator[None]:
    """Processes that are started meanwhile load the kernels for a GPU, whatever this one did."""
    before = os.environ.get("FEATHER_TARGET")
    os.environ["FEATHER_TARGET"] = "gpu"
    try:
        yield
    finally:
        if before is None:
            del os.environ["FEATHER_TARGET"]
        else:
            os.environ["FEATHER_TARGET"] = before


cuda: Any
kernel: Any
device: Any

if SIMULATOR:
    from feather_kernels import simulator

    cuda = simulator.cuda

    def kernel(function: Callable[..., None]) -> Callable[..., None]:
        """A kernel runs as it is written."""
        return function

    device = kernel
else:
    try:
        import numba.cuda
    except ImportError as error:
        raise ImportError(
            f"the GPU needs Numba, and {error}; install feather-ref[cuda13] (or [cuda12] for an older driver), "
            "or set FEATHER_TARGET=simulator"
        ) from error
    cuda = numba.cuda
    if getattr(cuda.config, "ENABLE_CUDASIM", 0):
        raise ImportError("numba.cuda is loaded as Numba's own simulator: unset NUMBA_ENABLE_CUDASIM")

    kernel = cuda.jit
    device = cuda.jit(device=True, inline="always")
