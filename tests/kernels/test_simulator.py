"""The scheduler: lanes meet in warps and blocks, divergence and stray addresses are errors."""

import threading

import numpy as np
import pytest

from feather_kernels import _target, ptx, simulator
from feather_kernels.simulator import DivergenceError, cuda, launch

pytestmark = pytest.mark.skipif(not _target.SIMULATOR, reason="the simulator is not loaded")


def test_lanes_exchange_values_within_their_warp() -> None:
    def kernel(y):
        t = cuda.threadIdx.x
        y[t] = ptx.butterfly(np.float32(t), np.uint32(5))

    y = np.full(64, -1, np.float32)
    launch(kernel, 1, 64, (y,))
    assert y.tolist() == [t ^ 5 for t in range(64)]


def test_a_block_waits_and_shares_memory() -> None:
    def kernel(y):
        t = cuda.threadIdx.x
        first = cuda.shared.array(64, np.uint32)
        second = cuda.shared.array(64, np.uint32)  # the same line of the source would be another array too
        first[t], second[t] = t, 100 + t
        cuda.syncthreads()
        y[cuda.blockIdx.x * 64 + t] = first[63 - t] + second[t]

    y = np.zeros(128, np.uint32)
    launch(kernel, 2, 64, (y,))
    assert y.tolist() == [163] * 128


def test_unwritten_memory_is_poison() -> None:
    def kernel(y):
        y[0] = cuda.local.array(2, np.float32)[1]
        y[1] = cuda.shared.array(2, np.float32)[0]

    y = np.zeros(2, np.float32)
    launch(kernel, 1, 1, (y,))
    assert np.isnan(y).all()


def test_a_lane_that_goes_elsewhere_is_named() -> None:
    def returns(y):
        if cuda.threadIdx.x != 7:
            ptx.butterfly(np.float32(0), np.uint32(1))

    def elsewhere(y):
        if cuda.threadIdx.x == 40:
            ptx.butterfly(np.float32(0), np.uint32(1))
        else:
            ptx.butterfly(np.float32(0), np.uint32(1))

    def half_a_block(y):
        if cuda.threadIdx.x < 32:
            cuda.syncthreads()

    y = np.zeros(1, np.float32)
    with pytest.raises(DivergenceError, match=r"block 0: lane 0 waits for its warp .* lane 7 has returned"):
        launch(returns, 1, 32, (y,))
    with pytest.raises(DivergenceError, match=r"lane 32 waits for its warp at line \d+ of elsewhere, lane 40 waits at"):
        launch(elsewhere, 1, 64, (y,))
    with pytest.raises(DivergenceError, match=r"lane 0 waits for its block .* lane 32 has returned"):
        launch(half_a_block, 1, 64, (y,))


def test_a_lane_that_fails_says_which_it_was() -> None:
    def kernel(y):
        if cuda.threadIdx.x == 3:
            y[5] = 1

    with pytest.raises(IndexError, match=r"elements 5\.\.5 of a pointer to 4") as caught:
        launch(kernel, 2, 32, (np.zeros(4, np.uint32),))
    assert caught.value.__notes__ == ["in lane 3 of block 0"]


@pytest.mark.parametrize("index", [-1, 4, 2**40])
def test_pointers_have_ends(index: int) -> None:
    p = simulator.Pointer(np.zeros(4, np.uint32))
    with pytest.raises(IndexError, match="of a pointer to 4"):
        p[index]
    with pytest.raises(IndexError, match="of a pointer to 4"):
        p[index] = 1


def test_a_vector_needs_its_alignment() -> None:
    memory = np.zeros(12, np.uint32)
    begin = -memory.ctypes.data % 16 // 4
    p = simulator.Pointer(memory[begin : begin + 8])
    assert len(ptx.TWINS["load4"](p, 4)) == 4
    with pytest.raises(ValueError, match=r"address of element 1 is not aligned to 16 bytes"):
        ptx.TWINS["load4"](p, 1)
    with pytest.raises(IndexError, match=r"elements 8\.\.11"):
        ptx.TWINS["store4"](p, 8, 0, 0, 0, 0)


def test_outside_a_kernel_there_is_no_lane() -> None:
    with pytest.raises(RuntimeError, match="only inside a kernel"):
        cuda.syncthreads()


def test_two_threads_simulate_at_once() -> None:
    def kernel(y):
        for _ in range(50):
            y[cuda.threadIdx.x] = ptx.butterfly(y[cuda.threadIdx.x], np.uint32(1))

    results = [np.arange(32, dtype=np.float32) + 100 * i for i in range(4)]
    threads = [threading.Thread(target=launch, args=(kernel, 1, 32, (y,))) for y in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [y.tolist() for y in results] == [[100 * i + t for t in range(32)] for i in range(4)]
