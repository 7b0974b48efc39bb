"""Calls of encode, decode, pack and unpack that were seen before: what takes a way, and the same bits."""

from __future__ import annotations

import ctypes
import inspect
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import _target, api, conversions, driver, gpu
from feather_ref.policy import resolve
from kernel_inputs import same_bits

on_gpu = pytest.mark.skipif(_target.SIMULATOR, reason="needs a GPU")
simulated = pytest.mark.skipif(not _target.SIMULATOR, reason="looks at arrays of the host, or compiles for nothing")


# --- what is kept -----------------------------------------------------------------------------


def test_a_conversion_is_made_once_for_equal_choices() -> None:
    first = api._packing(False, "e4m3", overflow="saturate")
    assert api._packing(False, "e4m3", overflow="saturate") is first
    for other in (api._packing(True, "e4m3", overflow="saturate"), api._packing(False, "e4m3")):
        assert other is not first


@simulated
def test_what_python_calls_equal_is_still_told_apart() -> None:
    """1 == True, and a list cannot be looked up."""
    x = np.array([1, np.nan], np.float32)
    assert fk.encode(x, "e4m3", nan=1).tolist() == [0x38, 1]
    for nan, text in ((True, "nan must be a name, got bool"), ([1], "nan must be")):
        with pytest.raises(TypeError, match=text):
            fk.encode(x, "e4m3", nan=nan)
    assert fk.encode(x, "e4m3", nan=(1, 255)).tolist() == [0x38, 1]
    with pytest.raises(TypeError, match="nan must be"):
        fk.encode(x, "e4m3", nan=(True, 255))
    count: Any = type("Count", (), {"value": 1, "__index__": lambda self: self.value})()
    assert fk.unpack(np.zeros(1, np.uint32), "e4m3", count).shape == (1,)
    count.value = 2
    assert fk.unpack(np.zeros(1, np.uint32), "e4m3", count).shape == (2,)
    assert fk.unpack(np.zeros(1, np.uint32), "e4m3", 1).shape == (1,)
    with pytest.raises(TypeError, match="n must be an int, got bool"):
        fk.unpack(np.zeros(1, np.uint32), "e4m3", True)
    with pytest.raises(TypeError, match="fmt"):
        fk.encode(x, ["e4m3"])


def test_work_is_kept_for_some_shapes_alone() -> None:
    made = conversions.Packing(resolve(fr.get_format("e4m3")), False)
    for n in range(2 * conversions.KEPT):
        made.work("float32", (n,))
    assert made.work.cache_info().currsize == conversions.KEPT


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> tuple[conversions.Packing, list[Any], Callable[..., Any]]:
    """A conversion with a way for 4 float32 of NumPy, what it was called on, and what the long way gives."""
    made, seen = conversions.Packing(resolve(fr.get_format("e4m3")), False), []
    monkeypatch.setattr(conversions, "_key", lambda x: (type(x), x.dtype, x.shape))

    def call(x: Any, out: Any, stream: Any) -> Any:
        seen.append((x, out, stream))
        return None if stream == "unlike" else "short"

    made._ways[np.ndarray, np.dtype("float32"), (4,)] = call
    monkeypatch.setattr(made, "run", lambda x, out, stream: "long")
    return made, seen, made


def test_a_way_is_taken_by_what_is_as_before_and_by_nothing_else(way: Any) -> None:
    made, seen, _ = way
    x = np.ones(4, np.float32)
    assert made(x, None, None) == "short"
    memory = np.zeros(64, np.uint8)
    skip = -memory.ctypes.data % 16
    assert made(x, memory[skip : skip + 4], 3) == "short"
    assert len(seen) == 2
    assert made(x, memory[skip + 4 : skip + 8], None) == "long"  # off 16 bytes
    for other in (np.ones(5, np.float32), np.ones((2, 2), np.float32), np.ones(4, np.float16), [1.0] * 4, 1.0):
        assert made(other, None, None) == "long"
    assert len(seen) == 2
    assert made(x, None, "unlike") == "long"  # the way itself sees a difference


def test_a_way_that_was_refused_once_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    made, waited = conversions.Packing(resolve(fr.get_format("e2m1")), False), []
    assert made.refuses
    runtime = SimpleNamespace(streamSynchronize=waited.append)
    monkeypatch.setattr(driver, "cupy", lambda: SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    monkeypatch.setattr(conversions, "_refuse_capture", lambda x, at: 7)
    word: Any = SimpleNamespace(value=np.zeros(1, np.uint32))
    key = "key"
    way: Any = made._careful(lambda x, out, stream: "codes", word, key)
    made._ways[key] = way
    assert way(1, None, None) == "codes"
    assert (waited, key in made._ways) == ([7], True)
    word.value[0] = 1
    assert way(1, None, None) is None
    assert key not in made._ways
    assert way(1, None, None) is None  # whoever still holds it goes the long way too


@simulated
@pytest.mark.parametrize(
    ("made", "dtype", "shape", "wanted"),
    [
        (api._packing(True, "e3m2"), "float32", (7, 35), "x x y y word 0 7 35 35 7"),
        (api._packing(False, "e4m3"), "float16", (7, 35), "x x y y word 0 1 245 245 245"),
        (api._unpacking(True, "e3m2", None, 35), "uint32", (7, 7), "x x y y word 7 35 7 35 0"),
        (api._unpacking(False, "e4m3", "float16"), "uint8", (), "x x y y word 1 1 1 1 0"),
    ],
)
def test_a_way_writes_the_arguments_where_the_kernel_reads_them(
    monkeypatch: pytest.MonkeyPatch, made: Any, dtype: str, shape: tuple[int, ...], wanted: str
) -> None:
    seen = []

    def sender(*given: int) -> Callable[..., None]:
        seen.append(given)
        return print

    monkeypatch.setattr(gpu, "ensure_context", lambda device: None)
    monkeypatch.setattr(conversions.arrays, "pointers", lambda array, kinds: (0,) * len(kinds))
    monkeypatch.setattr(gpu, "launcher", lambda job: SimpleNamespace(entry=5, device=0, sender=sender))
    work = made.work(dtype, shape)
    job = made.job(dtype, work.vector)
    fixed = made.fixed(job, work, None)  # held: the arguments are its memory
    values, pointers, _ = fixed.new_block()
    values[0], values[1], values[2] = 101, 102, 103
    addresses = (ctypes.c_void_p * len(job.arguments)).from_address(pointers)
    names = {101: "x", 102: "y", 103: "word"}
    got = [ctypes.c_int64.from_address(address).value for address in addresses]
    assert " ".join(str(names.get(value, value)) for value in got) == wanted
    assert len(inspect.signature(job.make()).parameters) == len(got)
    assert seen == [(work.grid[0], conversions.THREADS, pointers, work.grid[1])]


@simulated
def test_in_the_simulator_there_are_no_ways() -> None:
    made = api._packing(False, "e3m4")
    for _ in range(2):
        made(np.ones(8, np.float32), None, None)
    assert not made._ways


# --- on the GPU -------------------------------------------------------------------------------


def library(name: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """From NumPy to a library on the GPU, and back."""
    if name == "cupy":
        cupy = pytest.importorskip("cupy")
        return cupy.asarray, lambda array: array.get()
    torch = pytest.importorskip("torch")
    return lambda array: torch.from_numpy(array).cuda(), lambda array: array.cpu().numpy()


def calls_of(x: Any, fmt: str) -> dict[str, tuple[Any, Callable[..., Any], Any]]:
    """Each call: its array on the host, the call, what it gives."""
    codes, words = fr.encode(x, fmt), fr.pack(x, fmt)
    values = fr.decode(codes, fmt)
    n = x.shape[-1]
    return {
        "encode": (x, lambda a, **more: fk.encode(a, fmt, **more), codes),
        "pack": (x, lambda a, **more: fk.pack(a, fmt, **more), words),
        "decode": (codes, lambda a, **more: fk.decode(a, fmt, **more), values),
        "unpack": (words, lambda a, **more: fk.unpack(a, fmt, n, **more), values),
    }


@on_gpu
@pytest.mark.parametrize("home", ["cupy", "torch"])
@pytest.mark.parametrize("shape", [(1000,), (7, 35)])
@pytest.mark.parametrize("fmt", ["e4m3", "e2m1"])
def test_the_second_call_gives_the_same_bits(home: str, shape: tuple[int, ...], fmt: str) -> None:
    up, down = library(home)
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    for numbers in (x, np.ascontiguousarray(-x[::-1])):
        for name, (given, call, wanted) in calls_of(numbers, fmt).items():
            there, out = up(given), up(np.zeros_like(wanted))
            for _ in range(3):
                assert same_bits(down(call(there)), wanted), name
            assert call(there, out=out) is out
            assert same_bits(down(out), wanted), name


@on_gpu
@pytest.mark.parametrize("home", ["cupy", "torch"])
def test_arrays_that_begin_anywhere(home: str) -> None:
    """After a call that begins at 16 bytes, others of the same shape that do not."""
    up, down = library(home)
    x = np.random.default_rng(2).standard_normal(1004).astype(np.float32)
    for name, (given, call, wanted) in calls_of(x[:1000], "e4m3").items():
        call(up(given))
        whole = up(np.concatenate([given[:1], given]))
        assert same_bits(down(call(whole[1:])), wanted), name
        memory = up(np.concatenate([wanted[:1], np.zeros_like(wanted), wanted[:1]]))
        call(up(given), out=memory[1:-1])
        assert same_bits(down(memory), np.concatenate([wanted[:1], wanted, wanted[:1]])), name


@on_gpu
@pytest.mark.parametrize("home", ["cupy", "torch"])
def test_what_is_refused_is_named_also_the_second_time(home: str) -> None:
    up, down = library(home)
    x = np.random.default_rng(3).standard_normal(500).astype(np.float32)
    spoilt = x.copy()
    spoilt[123] = np.nan
    good, bad = up(x), up(spoilt)
    for _ in range(3):
        assert same_bits(down(fk.encode(good, "e2m1")), fr.encode(x, "e2m1"))
        for _ in range(2):
            with pytest.raises(ValueError, match=r"x\[123\]"):
                fk.encode(bad, "e2m1")
    stream = pytest.importorskip("cupy").cuda.Stream(non_blocking=True)
    out = fk.encode(good, "e2m1")
    with pytest.raises(ValueError, match=r"x\[123\]"):
        fk.encode(bad, "e2m1", out=out, stream=stream)
    fk.encode(good, "e2m1", out=out, stream=stream)
    assert same_bits(down(out), fr.encode(x, "e2m1"))


@on_gpu
def test_threads_that_refuse_and_threads_that_do_not() -> None:
    cupy = pytest.importorskip("cupy")
    x = np.random.default_rng(4).standard_normal(2000).astype(np.float32)
    spoilt = x.copy()
    spoilt[1999] = np.nan
    wanted, wrong = fr.encode(x, "e2m1"), []

    def work(number: int) -> None:
        with cupy.cuda.Stream(non_blocking=True):
            given = cupy.asarray(spoilt if number % 2 else x)
            for _ in range(200):
                try:
                    codes = fk.encode(given, "e2m1")
                except ValueError:
                    codes = None
                if (codes is None) != bool(number % 2) or (codes is not None and (codes.get() != wanted).any()):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@on_gpu
def test_a_call_that_was_seen_is_captured_in_a_graph() -> None:
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(4096, dtype=cupy.float32)
    out, stream = fk.encode(x, "e4m3"), cupy.cuda.Stream(non_blocking=True)
    out[...] = 0
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        fk.encode(x, "e4m3", out=out, stream=stream)
        graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
    assert same_bits(out.get(), fr.encode(x.get(), "e4m3"))


@on_gpu
@pytest.mark.parametrize("seen", [False, True])
def test_what_must_wait_is_not_captured(seen: bool) -> None:
    cupy = pytest.importorskip("cupy")
    x, stream = cupy.arange(64, dtype=cupy.float32), cupy.cuda.Stream(non_blocking=True)
    out = cupy.empty(64, cupy.uint8)
    if seen:
        fk.encode(x, "e2m1", out=out)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        with pytest.raises(ValueError, match="stream: it is captured"):
            fk.encode(x, "e2m1", out=out, stream=stream)
        stream.end_capture()
    assert same_bits(fk.encode(x, "e2m1").get(), fr.encode(x.get(), "e2m1"))
