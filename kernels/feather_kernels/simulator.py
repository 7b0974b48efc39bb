"""A GPU in plain Python: one greenlet a lane, a rendezvous where lanes exchange values.

A launch runs its blocks one after the other.  In a block every lane runs until it meets others::

    meeting   who                                     ends when
    warp      the 32 lanes with the same id // 32     all of them stand at the same call
    block     all lanes of the block                  all of them stand at the same call

A lane that returned, or that stands elsewhere, while another waits for it is a divergence: on a
GPU that is a hang or a wrong value, here it is an error that names the lane.  Lanes run in order,
so every run is the same.  Pointers check their bounds.

Source: CUDA C++ Programming Guide, 2.1 (threads), 10.22 (warp shuffle functions).
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from greenlet import getcurrent, greenlet
from numpy.typing import NDArray

WARP = 32

Array = NDArray[Any]
Site = tuple[str, int]
Resolve = Callable[[list[Any]], Sequence[Any]]


class DivergenceError(RuntimeError):
    """Lanes that should meet do not."""


class Dim(NamedTuple):
    """Three sizes or indices."""

    x: int
    y: int = 1
    z: int = 1


class Pointer:
    """A pointer as a kernel sees it: p[i] and p[i] = value, within the array.

    array: one axis.  Kernels get the elements from it, and no views.
    """

    def __init__(self, array: Array) -> None:
        """Refuse an array of other than one axis."""
        if array.ndim != 1:
            raise ValueError(f"a pointer is made of an array of one axis, got shape {array.shape}")
        self.array = array

    def __getitem__(self, index: int) -> Any:
        return self.array[self._check(index, 1)]

    def __setitem__(self, index: int, value: Any) -> None:
        self.array[self._check(index, 1)] = value

    def run(self, index: int, count: int) -> Array:
        """The `count` elements from `index` on, which a vector instruction moves: aligned to their size."""
        start = self._check(index, count)
        size = self.array.itemsize
        if (self.array.ctypes.data + start * size) % (count * size):
            raise ValueError(f"address of element {start} is not aligned to {count * size} bytes")
        return self.array[start : start + count]

    def _check(self, index: int, count: int) -> int:
        start = int(index)
        if not 0 <= start <= len(self.array) - count:
            raise IndexError(f"elements {start}..{start + count - 1} of a pointer to {len(self.array)}")
        return start


class _Meeting(NamedTuple):
    """What a lane waits for: a scope, a place in the source, a value, and what is made of all values."""

    scope: str
    site: Site
    value: Any
    resolve: Resolve


class _Lane(greenlet):
    """One thread of a block."""

    def __init__(self, thread: int, block: _Block, run: Callable[[], None]) -> None:
        super().__init__(run)
        self.gr_context = contextvars.copy_context()  # carries NumPy's errstate
        self.thread = thread
        self.block = block
        self.shared_calls = 0


class _Block:
    """One block: its lanes, their shared memory, and the scheduler."""

    def __init__(self, index: Dim, grid: Dim, threads: int, run: Callable[[], None]) -> None:
        self.index, self.grid, self.size = index, grid, threads
        self.shared: list[Array] = []
        self.lanes = [_Lane(thread, self, run) for thread in range(threads)]

    def execute(self) -> None:
        """Run every lane to its end."""
        waiting: dict[_Lane, _Meeting] = {}
        ready: list[tuple[_Lane, Any]] = [(lane, None) for lane in self.lanes]
        while ready or waiting:
            for lane, value in ready:
                meeting = _resume(lane, value)
                if meeting is not None:
                    waiting[lane] = meeting
            ready = [pair for group in self._groups(waiting) for pair in _meet(group, waiting)]
            if not ready and waiting:
                raise DivergenceError(self._divergence(waiting))

    def _groups(self, waiting: dict[_Lane, _Meeting]) -> Iterator[list[_Lane]]:
        """The groups that could meet: each warp that waits, or the block."""
        if all(lane in waiting and waiting[lane].scope == "block" for lane in self.lanes):
            yield self.lanes
            return
        for start in range(0, self.size, WARP):
            warp = self.lanes[start : start + WARP]
            if all(lane in waiting and waiting[lane].scope == "warp" for lane in warp):
                yield warp

    def _divergence(self, waiting: dict[_Lane, _Meeting]) -> str:
        lane, meeting = next(iter(waiting.items()))
        first = lane.thread // WARP * WARP if meeting.scope == "warp" else 0
        group = self.lanes[first : first + WARP] if meeting.scope == "warp" else self.lanes
        other = next(other for other in group if other not in waiting or waiting[other].site != meeting.site)
        where = f"waits at line {waiting[other].site[1]}" if other in waiting else "has returned"
        return (
            f"block {self.index.x}: lane {lane.thread} waits for its {meeting.scope} at line {meeting.site[1]} of "
            f"{meeting.site[0]}, lane {other.thread} {where}"
        )


def _resume(lane: _Lane, value: Any) -> _Meeting | None:
    try:
        meeting: _Meeting | None = lane.switch() if value is None else lane.switch(value)
    except Exception as error:
        error.add_note(f"in lane {lane.thread} of block {lane.block.index.x}")
        raise
    return meeting


def _meet(group: list[_Lane], waiting: dict[_Lane, _Meeting]) -> list[tuple[_Lane, Any]]:
    """The lanes of a group that stand at one place, each with the value that it gets."""
    first = waiting[group[0]]
    if any(waiting[lane].site != first.site for lane in group):
        return []
    values = first.resolve([waiting.pop(lane).value for lane in group])
    return list(zip(group, values, strict=True))


def meet(scope: str, value: Any, resolve: Resolve, depth: int = 2) -> Any:
    """Wait for the warp or the block; called by a twin, `depth` frames below the kernel's line.

    resolve: makes the list of every lane's result, none of them None, of the list of their values.
    """
    lane = _current()
    frame = sys._getframe(depth)
    site = (frame.f_code.co_name, frame.f_lineno)
    parent = lane.parent
    if parent is None:
        raise RuntimeError("a lane without a scheduler")
    return parent.switch(_Meeting(scope, site, value, resolve))


def _current() -> _Lane:
    lane = getcurrent()
    if not isinstance(lane, _Lane):
        raise RuntimeError("this call has a meaning only inside a kernel: use simulator.launch")
    return lane


def lane_id() -> int:
    """The place of the running lane in its warp."""
    return _current().thread % WARP


def launch(
    function: Callable[..., None], blocks: int | tuple[int, int], threads: int, arguments: Sequence[Any]
) -> None:
    """Run a kernel: `blocks` of `threads` lanes; arrays among the arguments become pointers.

    >>> def double(p, q):
    ...     q[cuda.threadIdx.x] = 2 * p[cuda.threadIdx.x]
    >>> out = np.zeros(2, np.uint32)
    >>> launch(double, 1, 2, (np.array([3, 4], np.uint32), out)); out
    array([6, 8], dtype=uint32)
    """
    grid = Dim(*blocks) if isinstance(blocks, tuple) else Dim(blocks)
    pointers = [Pointer(value) if isinstance(value, np.ndarray) else value for value in arguments]
    with np.errstate(all="ignore"):  # a GPU wraps and overflows without a word
        for y in range(grid.y):
            for x in range(grid.x):
                _Block(Dim(x, y, 0), grid, threads, lambda: function(*pointers)).execute()


# --- what kernels call `cuda` -----------------------------------------------------------------


class _Cuda:
    """The part of numba.cuda that kernels use."""

    @property
    def threadIdx(self) -> Dim:  # noqa: N802 - CUDA's name
        """Index of the lane in its block."""
        return Dim(_current().thread, 0, 0)

    @property
    def blockIdx(self) -> Dim:  # noqa: N802 - CUDA's name
        """Index of the block."""
        return _current().block.index

    @property
    def blockDim(self) -> Dim:  # noqa: N802 - CUDA's name
        """Lanes in a block."""
        return Dim(_current().block.size)

    @property
    def gridDim(self) -> Dim:  # noqa: N802 - CUDA's name
        """Blocks in the grid."""
        return _current().block.grid

    def syncthreads(self) -> None:
        """Wait for the block."""
        meet("block", True, lambda values: values)


def _poison(shape: int, dtype: Any) -> Array:
    """Memory nobody wrote to yet: NaN as a float, and far out of range as an index."""
    return np.full(shape * np.dtype(dtype).itemsize, 0xFF, np.uint8).view(dtype)


def _shared(shape: int, dtype: Any) -> Array:
    """The block's array: the n-th call of every lane gives the n-th array."""
    lane = _current()
    arrays = lane.block.shared
    if lane.shared_calls == len(arrays):
        arrays.append(_poison(shape, dtype))
    lane.shared_calls += 1
    return arrays[lane.shared_calls - 1]


cuda: Any = _Cuda()
cuda.local = SimpleNamespace(array=_poison)
cuda.shared = SimpleNamespace(array=_shared)
cuda.const = SimpleNamespace(array_like=lambda array: array)
