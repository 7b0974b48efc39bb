"""Kernels that begin before the kernel before them has ended: the launch, faked, and products of products."""

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import _target, matrices, overlap, products
from feather_ref import ops
from kernel_inputs import packed_codes, same_bits


def test_the_configuration_that_the_driver_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field where `cuLaunchKernelEx` looks for it, byte for byte."""
    seen: list[Any] = []

    def launch(address: Any, *others: Any) -> int:
        config = ctypes.string_at(address.value, 56)
        attribute = ctypes.string_at(int.from_bytes(config[40:48], "little"), 72)
        seen.append((config, attribute, *(other.value for other in others)))
        return 0

    monkeypatch.setattr(overlap, "driver_function", lambda name: launch)
    for stream in (0, 0x1234):
        overlap.launch_kernel(7, 5, 1, 1, 128, 1, 1, 16, stream, 9, 0)
        config, attribute, *others = seen.pop()
        assert np.frombuffer(config[:28], np.uint32).tolist() == [5, 1, 1, 128, 1, 1, 16]
        assert int.from_bytes(config[32:40], "little") == stream
        assert int.from_bytes(config[48:52], "little") == 1
        assert np.frombuffer(attribute[:12], np.uint32).tolist() == [6, 0, 1]
        assert others == [7, 9, None]


@pytest.mark.skipif(not _target.SIMULATOR, reason="a plan on the GPU overlaps by itself")
@pytest.mark.parametrize("cut", [fk.Cut(2, 2, 4, 2), fk.Cut(1, 1, 2, 1, 3)])
def test_the_same_bits_in_the_simulator(cut: fk.Cut) -> None:
    """There, nothing overlaps; what is asked for early lies within W."""
    row = fr.get_format("e4m3")
    rng = np.random.default_rng(1)
    W = packed_codes(rng.integers(0, 127, (3, 700)).astype(np.uint8), row)
    x = rng.standard_normal(700).astype(np.float16)
    plan = fk.prepare(W)
    early = products._gemv_plan(replace(plan.kernel, overlap=True), (3, 700), matrices.take(W), None, cut)
    assert early.kernel.job().overlap
    assert same_bits(early(x), ops.replay(W, x, ops.Order(**early.order())))


@pytest.mark.skipif(_target.SIMULATOR, reason="needs a GPU")
@pytest.mark.parametrize("cut", [fk.Cut(2, 2, 4, 2), fk.Cut(4, 4, 8), fk.Cut(2, 2, 2, 1, 4)])
def test_a_row_of_products_each_of_the_one_before(cut: fk.Cut) -> None:
    """x of each is the result of the last, in two buffers that are written in turn; so often that a race would show."""
    cupy = pytest.importorskip("cupy")
    n = 4096
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 96, (n, n)).astype(np.uint8) | rng.integers(0, 2, (n, n), np.uint8) << np.uint8(7)
    W = packed_codes(codes, fr.get_format("e4m3"))
    W = replace(W, scale=np.float32(2.0**-9))
    plan = fk.prepare(W, out="float16", cut=cut)
    assert plan.kernel.overlap == (products._capability() >= (9, 0))
    start = cupy.asarray(rng.standard_normal(n).astype(np.float16))
    buffers = [cupy.empty(n, cupy.float16) for _ in range(2)]

    def row(wait: bool) -> np.ndarray:
        x = start
        for i in range(24):
            x = plan(x, out=buffers[i % 2])
            if wait:
                cupy.cuda.Device().synchronize()
        return x.get()

    wanted = row(wait=True)
    assert np.isfinite(wanted).all()
    assert all(same_bits(row(wait=False), wanted) for _ in range(50))
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        x = start
        for i in range(24):
            x = plan(x, out=buffers[i % 2])
        graph = stream.end_capture()
        for _ in range(50):
            graph.launch(stream)
            stream.synchronize()
            assert same_bits(x.get(), wanted)
