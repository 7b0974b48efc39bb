"""The GPU: what it is, and a kernel ready to launch.

Source: CUDA Driver API 13.0, cuLaunchKernel, cuStreamGetId, cuStreamGetCaptureInfo, cuThreadExchangeStreamCaptureMode
and device attributes.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any

from feather_kernels import _target, driver, launch, overlap
from feather_kernels.launch import Job

_MULTIPROCESSORS, _CLOCK_KHZ, _BUS_BITS = 16, 36, 37  # cudaDevAttr...
_GREATEST_GRID = (1 << 31) - 1
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


@cache
def capability(device: int) -> tuple[int, int]:
    """The compute capability of a device that kernels can run on; that of FEATHER_ARCH where it is set."""
    cuda = driver.cupy().cuda
    cc = launch.parse_arch(cuda.Device(device).compute_capability)
    driver.check(cuda.runtime.driverGetVersion(), driver.toolkit_version(), cc)
    if _target.ARCH is None:
        return cc
    older = launch.parse_arch(_target.ARCH)
    if older > cc:
        raise driver.GpuError(f"FEATHER_ARCH={_target.ARCH} is newer than this GPU, which has {cc[0]}.{cc[1]}")
    return older


def current_device() -> int:
    """The number of the device that this thread uses."""
    return int(driver.cupy().cuda.runtime.getDevice())


def ensure_context(device: int) -> None:
    """A thread that has never spoken to the driver has no context, and cannot launch."""
    cupy = driver.cupy()
    if not cupy.cuda.driver.ctxGetCurrent():
        cupy.cuda.runtime.setDevice(device)


Send = Callable[[int, int, int], None]  # of a stream, the place of the arguments, and 0
Block = tuple[Any, int, Send]


def _block(values: Sequence[int], order: Iterable[int]) -> tuple[Any, int, Any]:
    """Arguments where the driver reads them: argument i is values[order[i]].

    Returns the values, to be written; the address of the pointers to them; and what must be kept alive.
    """
    memory = (ctypes.c_int64 * len(values))(*values)
    begin = ctypes.addressof(memory)
    addresses = [begin + 8 * place for place in order]
    pointers = (ctypes.c_void_p * len(addresses))(*addresses)
    return memoryview(memory).cast("B").cast("q"), ctypes.addressof(pointers), (memory, pointers)


class Launcher:
    """A loaded kernel, all of whose arguments have 8 bytes.

    launcher(blocks, threads, arguments, stream): stream is the address of one, None CuPy's current one.
    """

    def __init__(self, function: Any, count: int, device: int, early: bool = False) -> None:
        """Keep the function; lay out the arguments.  early: it may begin before the kernel before it has ended."""
        self.entry, self.device = function.ptr, device
        self._early = early
        self.launch_kernel = overlap.launch_kernel if early else driver.cupy().cuda.driver.launchKernel
        self._function, self._lock = function, threading.Lock()
        self._values, self._pointers, self._kept = _block([0] * count, range(count))

    def __call__(self, blocks: tuple[int, int], threads: int, arguments: tuple[int, ...], stream: int | None) -> None:
        """Launch; the driver has copied the arguments when this returns."""
        cuda = driver.cupy().cuda
        ensure_context(self.device)
        at = current_stream(self.device) if stream is None else stream
        if blocks[0] > _GREATEST_GRID:
            raise driver.GpuError(f"{blocks[0]} blocks are asked for, and a launch takes {_GREATEST_GRID}")
        with self._lock:
            for i, value in enumerate(arguments):
                self._values[i] = value
            try:
                self.launch_kernel(self.entry, *blocks, 1, threads, 1, 1, 0, at, self._pointers, 0)
            except cuda.driver.CUDADriverError as error:
                raise driver.GpuError(
                    f"the GPU refuses {blocks[0]} x {blocks[1]} blocks of {threads} threads: {error}; "
                    "where it lacks registers, a smaller cut helps"
                ) from error

    def sender(self, blocks: int, threads: int, pointers: int, height: int = 1) -> Send:
        """send(stream, pointers, 0): a launch of these blocks with the arguments at `pointers`, by one thread."""
        if self._early:
            return overlap.sender(self.entry, blocks, threads, pointers)
        return partial(self.launch_kernel, self.entry, blocks, height, 1, threads, 1, 1, 0)


class Fixed:
    """A kernel that lacks the address of x, that of the result, that of a workspace, and a stream.

    `feather_kernels.quick` launches it.  Each thread has a block of its own, so that none waits for another:
    `local.block` is (values, pointers, send), where values[0] is the address of x, values[1] that of the result,
    values[2] that of the workspace, and send(stream, pointers, 0) launches.
    """

    def __init__(
        self, launcher: Launcher, blocks: int, threads: int, before: Sequence[int], xs: int, middle: Sequence[int],
        after: Sequence[int], workspace: Callable[[int], Any] | None = None, ys: int = 1, height: int = 1,
    ) -> None:  # fmt: skip
        """Keep what does not change.

        The kernel takes before, xs times the address of x, middle, ys times that of y, that of the workspace, after.
        workspace: of a stream, what has its `address` until it is dropped; None where there is none.  height: of
        the grid; 1 where the kernel may begin early.
        """
        self.entry, self.device, self.blocks, self.threads = launcher.entry, launcher.device, blocks, threads
        self.local, self.workspace, self._launcher = threading.local(), workspace, launcher
        self._height = height
        self._known = (*before, *middle, *after)
        places = range(3, 3 + len(self._known))
        split = len(before) + len(middle)
        self._order = (*places[: len(before)], *[0] * xs, *places[len(before) : split], *[1] * ys, 2, *places[split:])

    def new_block(self) -> Block:
        """The block of a thread that has none yet."""
        ensure_context(self.device)
        values, pointers, self.local.kept = _block((0, 0, 0, *self._known), self._order)
        send = self._launcher.sender(self.blocks, self.threads, pointers, self._height)
        self.local.block = made = values, pointers, send
        return made


# --- streams ----------------------------------------------------------------------------------


_local = threading.local()  # where the driver writes an id, for each thread


def _ask(name: str, *given: Any) -> None:
    status = overlap.driver_function(name)(*given)
    if status:
        raise driver.cupy().cuda.driver.CUDADriverError(status)


def current_stream(device: int) -> int:
    """The address of CuPy's current stream."""
    return int(driver.cupy().cuda.get_current_stream(device).ptr)


def stream_id(stream: int) -> int:
    """What tells the stream at an address from every other of this process, also from those that are no more."""
    try:
        ask, found, place = _local.id
    except AttributeError:
        found = ctypes.c_uint64()
        ask, place = overlap.driver_function("cuStreamGetId"), ctypes.byref(found)
        _local.id = ask, found, place
    status = ask(ctypes.c_void_p(stream), place)
    if status:
        raise driver.cupy().cuda.driver.CUDADriverError(status)
    return int(found.value)


@cache
def capturing() -> Callable[[int], bool]:
    """The function that says whether the stream at an address captures."""
    told: Callable[[int], bool] = driver.cupy().cuda.runtime.streamIsCapturing
    return told


@contextmanager
def relaxed() -> Iterator[None]:
    """Meanwhile this thread may allocate, free and load, which else spoils a capture, were it another thread's."""
    mode = ctypes.c_int(_RELAXED)  # exchanged with what it was
    _ask("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
    try:
        yield
    finally:
        _ask("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))


# --- kernels and devices ----------------------------------------------------------------------


@cache
def _launcher(job: Job, device: int) -> Launcher:
    major, minor = capability(device)
    portable = _target.ARCH is not None or not launch.links((major, minor))
    made = launch.compile_job(job, f"{major}{minor}", portable=portable)
    with relaxed():
        loaded = launch.load(made, device)
    return Launcher(loaded, len(job.arguments), device, job.overlap)


def launcher(job: Job) -> Launcher:
    """The kernel on the current device, compiled where it has to be."""
    return _launcher(job, current_device())


def using(device: int) -> Any:
    """A context in which a device is the current one."""
    return nullcontext() if current_device() == device else driver.cupy().cuda.Device(device)


def _attribute(number: int) -> int:
    cupy = driver.cupy()
    return int(cupy.cuda.runtime.deviceGetAttribute(number, current_device()))


def multiprocessors() -> int:
    """How many the current device has."""
    return _attribute(_MULTIPROCESSORS)


def bandwidth() -> float:
    """Of the current device's memory, as the driver says, in GB/s."""
    return 2 * _attribute(_CLOCK_KHZ) * 1e3 * _attribute(_BUS_BITS) / 8 / 1e9


def widens_e4m3() -> bool:
    """Whether the current device has the instruction that makes float16 of e4m3."""
    return capability(current_device()) >= (8, 9)
