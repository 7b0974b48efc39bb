"""The kernels on the threads of Numba's own simulator: one thread a lane, in whatever order they run.

Run as a program, with NUMBA_ENABLE_CUDASIM=1 and FEATHER_TARGET=simulator; for every kernel it prints
whether the bits are those of our own scheduler.  Instructions are the twins; only the scheduler is
another: Numba's threads and its `syncthreads` for the block, a barrier of threads for the warp.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import ceilings, simulator

LOCK = threading.Lock()


def part(key: object, make: Callable[[], Any]) -> Any:
    """What the lanes of a block share, under a key; make() is called by the first."""
    kept = threading.current_thread()._manager.__dict__  # Numba has one for each block
    with LOCK:
        if key not in kept:
            kept[key] = make()
        return kept[key]


def lane() -> Any:
    """The running thread as the simulator's lane."""
    thread: Any = threading.current_thread()
    if not hasattr(thread, "lane"):
        manager, index = thread._manager, thread.blockIdx
        grid, size = simulator.Dim(*manager._grid_dim), manager._block_dim[0]
        block = SimpleNamespace(index=index, grid=grid, size=size, shared=Shared())
        thread.lane = SimpleNamespace(thread=thread.threadIdx.x, block=block, shared_calls=0)
    return thread.lane


class Shared:
    """The shared arrays of a block as every lane sees them: the n-th call gives the n-th."""

    def __init__(self) -> None:
        self.seen = 0

    def __len__(self) -> int:
        return self.seen

    def append(self, array: Any) -> None:
        self.seen += 1
        part(("shared", self.seen - 1), lambda: array)

    def __getitem__(self, index: int) -> Any:
        return part(("shared", index), lambda: None)


def meet(scope: str, value: Any, resolve: Callable[[list[Any]], Sequence[Any]], depth: int = 2) -> Any:
    """As `simulator.meet`, with threads."""
    me = lane()
    count = 32 if scope == "warp" else me.block.size
    group, mine = divmod(me.thread, count)
    slots = part((scope, group), lambda: SimpleNamespace(barrier=threading.Barrier(count), values=[None] * count))
    wait = slots.barrier.wait if scope == "warp" else threading.current_thread().syncthreads
    slots.values[mine] = value
    wait()
    if mine == 0:
        slots.results = resolve(list(slots.values))
    wait()
    result = slots.results[mine]
    wait()
    return result


def launch(function: Callable[..., None], blocks: tuple[int, int], threads: int, arguments: Sequence[Any]) -> None:
    """As `simulator.launch`, by Numba."""
    from numba import cuda  # noqa: PLC0415 - for this program alone

    def body(*given: Any) -> None:
        with np.errstate(all="ignore"):
            function(*given)

    pointers = [simulator.Pointer(value) if isinstance(value, np.ndarray) else value for value in arguments]
    cuda.jit(body)[blocks, threads](*pointers)


def results() -> dict[str, Any]:
    """Each kernel once, on little."""
    rng = np.random.default_rng(1)
    numbers = rng.standard_normal((3, 140)).astype(np.float32)
    x, W = rng.standard_normal((2, 140)).astype(np.float16), fr.pack_tensor(numbers, "e4m3")
    words, copied = np.arange(1024, dtype=np.uint32), np.zeros(1024, np.uint32)
    simulator.launch(ceilings.COPY.make(), (1, 1), ceilings.THREADS, (words, copied, len(words)))
    return {
        "gemv": fk.prepare(W, cut=fk.Cut(2, 1, 1))(x[0]),
        "gemv, warps share a row": fk.prepare(W, cut=fk.Cut(1, 2, 2))(x[0]),
        "gemv, blocks share a row": fk.prepare(W, cut=fk.Cut(1, 1, 1, 1, 2))(x[0]),
        "gemv, blocks of numbers share a scale": fk.gemv(fr.quantize_blocks(numbers, "mxfp8_e4m3"), x[0]),
        "columns": fk.gemv(W, x),
        "encode": fk.encode(numbers, "e4m3"),
        "decode": fk.decode(fr.encode(numbers, "e4m3"), "e4m3"),
        "pack": fk.pack(numbers, "e3m2"),
        "unpack": fk.unpack(fr.pack(numbers, "e3m2"), "e3m2", 140),
        "copy": copied,
    }


if __name__ == "__main__":
    ours = results()
    simulator.launch, simulator.meet, simulator._current = launch, meet, lane
    theirs = results()
    for name, result in theirs.items():
        same = (result.dtype, result.tobytes()) == (ours[name].dtype, ours[name].tobytes())
        print(name, "same" if same else "other", sep=": ")  # noqa: T201 - the answer of the program
