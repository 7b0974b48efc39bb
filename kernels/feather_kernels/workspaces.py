"""Where blocks that share rows meet: words of their own for every stream, and for every captured launch.

Launches on one stream follow each other and may meet in the same words; those on two streams may run at
once.  A captured launch runs later, in whatever branch of its graph: what it meets in is its own, and stays
as long as the plan does.  (Two graphs of one capture write the same result, so that they cannot run at
once anyway.)

A stream is known by its id, which is never given again, as its address is.  The words are zero between two
launches: the last block to come leaves its counter as it was.

Source: CUDA Driver API 13.0, cuStreamGetId; CUDA Runtime API 13.0, cudaFree, which waits for what runs.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from feather_kernels import driver, gpu

MOST = 64  # streams whose words are kept
_LEGACY = 1  # the greatest address of the stream that everybody shares, which captures nothing


class Words:
    """Some words of a GPU's memory, zero at first, that are given back when nobody holds them."""

    def __init__(self, count: int) -> None:
        """Allocate on the current GPU, and wait until all are zero: no stream need wait for it, nor capture it."""
        cuda = driver.cupy().cuda
        with gpu.relaxed():
            self.address = cuda.runtime.malloc(4 * count)
            weakref.finalize(self, _free, cuda.runtime, self.address).atexit = False
            apart = cuda.Stream(non_blocking=True)
            cuda.runtime.memsetAsync(self.address, 0, 4 * count, apart.ptr)
            apart.synchronize()


def _free(runtime: Any, address: int) -> None:
    with gpu.relaxed():
        runtime.free(address)


class Workspaces:
    """Those of one plan.  Threads may share it."""

    def __init__(self, words: int) -> None:
        """Say how many words a launch needs."""
        self.words = words
        self._streams: dict[int, Words] = {}
        self._captured: list[Words] = []
        self._threads, self._lock = threading.local(), threading.Lock()

    def host(self) -> Any:
        """Those of this thread, in the simulator."""
        if not hasattr(self._threads, "words"):
            self._threads.words = np.zeros(self.words, np.uint32)
        return self._threads.words

    def at(self, stream: int) -> Words:
        """Those of a launch on the stream at an address; hold them until it was launched."""
        if stream <= _LEGACY:
            return self._streams.get(0) or self._of_stream(0)
        if gpu.capturing()(stream):  # it tells no id then
            return self._of_capture()
        own = gpu.stream_id(stream)
        return self._streams.get(own) or self._of_stream(own)

    def _of_stream(self, own: int) -> Words:
        with self._lock:
            if own not in self._streams:
                if len(self._streams) == MOST:  # the oldest are given back, once nothing runs
                    del self._streams[next(iter(self._streams))]
                self._streams[own] = Words(self.words)
            return self._streams[own]

    def _of_capture(self) -> Words:
        words = Words(self.words)
        with self._lock:
            self._captured.append(words)
        return words
