"""A launch that may begin before the kernel before it on the stream has ended; the kernel waits itself.

What lies before its `wait_for_previous` runs while the last blocks of the other still do: its blocks
come, and ask for their first weights.  In a row of small products that hides most of what a launch
costs.  A kernel before that never says `let_next_start` counts as ended when it has ended.

Source: CUDA Driver API 13.0, cuLaunchKernelEx, CUlaunchConfig, CUlaunchAttribute; CUDA C++ Programming
Guide, programmatic dependent launch; PTX ISA 8.7, griddepcontrol.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from feather_kernels import _target, driver

CAPABILITY = (9, 0)  # the least that has it
_MAY_BEGIN_EARLY = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute; value is a union of 64 bytes."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int * 16)]


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        *((f"{size}_{axis}", ctypes.c_uint) for size in ("grid", "block") for axis in "xyz"),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    ]


_local = threading.local()  # a configuration for each thread, so that none waits for another


def _config() -> tuple[Any, int]:
    """The configuration of this thread, and where it lies."""
    attribute = _Attribute(_MAY_BEGIN_EARLY, 0, (1,))
    config = _Config(attributes=ctypes.pointer(attribute), count=1)
    _local.config = config, ctypes.addressof(config)
    made: tuple[Any, int] = _local.config
    return made


@cache
def driver_function(name: str) -> Any:
    """A function of the CUDA driver, which ctypes calls quickest without a list of types: each argument has its own."""
    library = _target.load_driver()
    if library is None:
        raise driver.GpuError("there is no CUDA driver: install one")
    return library[name]


def launch_kernel(
    entry: int, grid_x: int, grid_y: int, grid_z: int, block_x: int, block_y: int, block_z: int,
    shared: int, stream: int, pointers: int, extra: int,
) -> None:  # fmt: skip
    """As `cupy.cuda.driver.launchKernel`, and the kernel may begin early."""
    try:
        config, address = _local.config
    except AttributeError:
        config, address = _config()
    config.grid_x, config.grid_y, config.grid_z = grid_x, grid_y, grid_z
    config.block_x, config.block_y, config.block_z = block_x, block_y, block_z
    config.shared, config.stream = shared, stream
    given = (ctypes.c_void_p(value) for value in (address, entry, pointers, extra))
    status = driver_function("cuLaunchKernelEx")(*given)
    if status:
        raise driver.cupy().cuda.driver.CUDADriverError(status)


def sender(entry: int, blocks: int, threads: int, pointers: int) -> Callable[[int, int, int], None]:
    """send(stream, pointers, 0): the same for one kernel, grid and place of arguments, and for one thread.

    All but the stream is written down before, since that is most of what a launch costs here.
    """
    attribute = _Attribute(_MAY_BEGIN_EARLY, 0, (1,))
    config = _Config(blocks, 1, 1, threads, 1, 1, 0, None, ctypes.pointer(attribute), 1)
    launch, where = driver_function("cuLaunchKernelEx"), ctypes.byref(config)
    kernel, arguments = ctypes.c_void_p(entry), ctypes.c_void_p(pointers)

    def send(stream: int, _pointers: int, _extra: int) -> None:
        config.stream = stream
        status = launch(where, kernel, arguments, None)
        if status:
            raise driver.cupy().cuda.driver.CUDADriverError(status)

    return send
