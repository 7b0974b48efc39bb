"""Plans whose blocks meet: on several streams at once, from threads, in graphs; and who has which words when."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import _target, driver, gpu, overlap, workspaces
from kernel_inputs import packed_codes, same_bits

on_gpu = pytest.mark.skipif(_target.SIMULATOR, reason="needs a GPU")
N, K = (3, 700) if _target.SIMULATOR else (8, 1 << 16)
CUTS = {
    "gemv": fk.Cut(1, 1, 1, 1, 3) if _target.SIMULATOR else fk.Cut(1, 8, 8, 1, 16),
    "columns": fk.Cut(16, 1, 1, 1, 3) if _target.SIMULATOR else fk.Cut(16, 8, 8, 1, 8),
}
kinds = pytest.mark.parametrize("kind", CUTS)


class Work(NamedTuple):
    """A plan, some x, and what each gives: sums of whole numbers, which are exact in every order."""

    plan: Any
    xs: list[Any]
    wanted: list[Any]


def work(kind: str, count: int = 2) -> Work:
    rng = np.random.default_rng(1)
    whole = np.array([-3, -2, -1, 0, 1, 2, 3, 4], np.float32)
    W = rng.choice(whole, (N, K))
    packed = packed_codes(fr.encode(W, "e4m3"), fr.get_format("e4m3"))
    shape = (K,) if kind == "gemv" else (3, K)
    xs = [rng.integers(-3, 4, shape).astype(np.float16) for _ in range(count)]
    wanted = [(x.astype(np.float64) @ W.T.astype(np.float64)).astype(np.float32) for x in xs]
    return Work(fk.prepare(packed, columns=1 if kind == "gemv" else 4, cut=CUTS[kind]), xs, wanted)


def together(*functions: Any) -> None:
    """Each in a thread; what one raises is raised here."""
    errors: list[BaseException] = []

    def run(function: Any) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@kinds
def test_threads_at_once_in_the_simulator(kind: str) -> None:
    """They take turns after every few instructions, in the middle of kernels."""
    if not _target.SIMULATOR:
        pytest.skip("the GPU has a test of its own")
    plan, xs, wanted = work(kind, 3)
    got: dict[int, Any] = {}
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        together(*(lambda i=i, x=x: got.update({i: plan(x)}) for i, x in enumerate(xs)))
    finally:
        sys.setswitchinterval(before)
    assert all(same_bits(got[i], wanted[i]) for i in range(3))


# --- on the GPU -------------------------------------------------------------------------------


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")


def stream_of(cupy: Any) -> Any:
    return cupy.cuda.Stream(non_blocking=True)


def close_a_gate(cupy: Any, *streams: int) -> None:
    """The streams at these addresses wait some 20 ms, so that what is launched on them meanwhile begins at once."""
    slow = stream_of(cupy)
    with slow:
        wide = cupy.ones(1 << 28, cupy.uint8)
        for _ in range(150):
            wide += 1
        gate = slow.record()
    for stream in streams:
        cupy.cuda.runtime.streamWaitEvent(stream, gate.ptr)


def right(outs: Any, wanted: Any) -> bool:
    """Whether every one of some results is what was wanted."""
    return all(same_bits(out, wanted) for out in outs.get())


@contextmanager
def captured(stream: Any, mode: int | None = None) -> Iterator[list[Any]]:
    """Gives a list that has the graph in the end; a capture is ended in any case."""
    graph: list[Any] = []
    stream.begin_capture(mode)
    try:
        yield graph
    except BaseException:
        with suppress(Exception):
            stream.end_capture()
        raise
    graph.append(stream.end_capture())


@on_gpu
@kinds
def test_two_streams_at_once(cupy: Any, kind: str) -> None:
    plan, xs, wanted = work(kind)
    streams, xs = [stream_of(cupy) for _ in xs], [cupy.asarray(x) for x in xs]
    outs = [cupy.zeros((200, *w.shape), np.float32) for w in wanted]
    cupy.cuda.Device().synchronize()
    close_a_gate(cupy, *(stream.ptr for stream in streams))
    for launch in range(200):
        for stream, x, out in zip(streams, xs, outs, strict=True):
            plan(x, out=out[launch], stream=stream)
    cupy.cuda.Device().synchronize()
    assert all(right(out, w) for out, w in zip(outs, wanted, strict=True))


@on_gpu
@kinds
def test_two_threads_at_once(cupy: Any, kind: str) -> None:
    """Each on its library's current stream."""
    torch = pytest.importorskip("torch")
    plan, xs, wanted = work(kind)
    outs = [torch.zeros((200, *w.shape), device="cuda") for w in wanted]
    streams, tensors = [torch.cuda.Stream() for _ in xs], [torch.from_numpy(x).cuda() for x in xs]
    torch.cuda.synchronize()
    close_a_gate(cupy, *(stream.cuda_stream for stream in streams))

    def run(i: int) -> None:
        with torch.cuda.stream(streams[i]):
            for launch in range(200):
                plan(tensors[i], out=outs[i][launch])

    together(lambda: run(0), lambda: run(1))
    torch.cuda.synchronize()
    for out, w in zip(outs, wanted, strict=True):
        assert all(same_bits(one, w) for one in out.cpu().numpy())


@on_gpu
@kinds
def test_two_graphs_of_one_stream_launched_at_once(cupy: Any, kind: str) -> None:
    plan, xs, wanted = work(kind)
    stream, xs, graphs = stream_of(cupy), [cupy.asarray(x) for x in xs], []
    outs = [cupy.zeros((50, *w.shape), np.float32) for w in wanted]
    for x, out in zip(xs, outs, strict=True):
        with stream, captured(stream, cupy.cuda.runtime.streamCaptureModeGlobal) as graph:
            for launch in range(50):
                plan(x, out=out[launch])
        graphs += graph
    streams = [stream_of(cupy) for _ in graphs]
    for _ in range(20):
        for out in outs:
            out[...] = cupy.nan
        cupy.cuda.Device().synchronize()
        close_a_gate(cupy, *(stream.ptr for stream in streams))
        for graph, other in zip(graphs, streams, strict=True):
            graph.launch(other)
        plan(xs[0], stream=stream)  # and a call beside them
        cupy.cuda.Device().synchronize()
        assert all(right(out, w) for out, w in zip(outs, wanted, strict=True))


@on_gpu
@kinds
def test_two_branches_of_one_graph(cupy: Any, kind: str) -> None:
    """A second stream takes part in the capture of the first."""
    plan, xs, wanted = work(kind)
    first, second, xs = stream_of(cupy), stream_of(cupy), [cupy.asarray(x) for x in xs]
    outs = [cupy.zeros((50, *w.shape), np.float32) for w in wanted]
    with captured(first) as graph:
        second.wait_event(first.record())
        for launch in range(50):
            for stream, x, out in zip((first, second), xs, outs, strict=True):
                plan(x, out=out[launch], stream=stream)
        first.wait_event(second.record())
    for _ in range(20):
        for out in outs:
            out[...] = cupy.nan
        cupy.cuda.Device().synchronize()
        graph[0].launch(first)
        first.synchronize()
        assert all(right(out, w) for out, w in zip(outs, wanted, strict=True))


@on_gpu
@kinds
def test_a_graph_of_torch_has_the_first_call_of_a_plan(kind: str) -> None:
    """torch captures so that no thread may allocate; x begins anywhere, whose kernel is loaded then."""
    torch = pytest.importorskip("torch")
    plan, xs, wanted = work(kind)
    wide = torch.zeros((*xs[0].shape[:-1], K + 1), dtype=torch.float16, device="cuda")
    x = wide.flatten()[1 : 1 + xs[0].size].view(xs[0].shape)
    for given in (torch.from_numpy(xs[0]).cuda(), x):
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            y = plan(given)
        for numbers, w in zip(xs, wanted, strict=True):
            given.copy_(torch.from_numpy(numbers))
            graph.replay()
            torch.cuda.synchronize()
            assert same_bits(y.cpu().numpy(), w)


@on_gpu
@kinds
def test_a_new_stream_while_another_thread_captures(cupy: Any, kind: str) -> None:
    """The other one captures so that no thread may allocate, and ends well."""
    plan, xs, wanted = work(kind)
    count = workspaces.MOST + 3  # so that some are given back meanwhile
    xs, other, out = [cupy.asarray(x) for x in xs], stream_of(cupy), cupy.zeros(wanted[0].shape, np.float32)
    streams, outs = [stream_of(cupy) for _ in range(count)], cupy.zeros((count, *wanted[1].shape), np.float32)
    begun, done = threading.Event(), threading.Event()
    cupy.cuda.Device().synchronize()

    def capture() -> None:
        with captured(other, cupy.cuda.runtime.streamCaptureModeGlobal) as graph:
            begun.set()
            done.wait(60)
            plan(xs[0], out=out, stream=other)
        graph[0].launch(other)
        other.synchronize()

    def call() -> None:
        begun.wait(60)
        try:
            for stream, own in zip(streams, outs, strict=True):
                plan(xs[1], out=own, stream=stream)
        finally:
            done.set()

    together(capture, call)
    cupy.cuda.Device().synchronize()
    assert same_bits(out.get(), wanted[0])
    assert right(outs, wanted[1])


@on_gpu
def test_more_streams_than_are_kept(cupy: Any) -> None:
    """What is given back is given back when nothing runs: all launches wait at a gate."""
    plan, xs, wanted = work("gemv")
    x, streams = cupy.asarray(xs[0]), [stream_of(cupy) for _ in range(workspaces.MOST + 9)]
    outs = cupy.zeros((len(streams), N), np.float32)
    cupy.cuda.Device().synchronize()
    close_a_gate(cupy, *(stream.ptr for stream in streams))
    for _ in range(2):
        for stream, out in zip(streams, outs, strict=True):
            plan(x, out=out, stream=stream)
    cupy.cuda.Device().synchronize()
    assert right(outs, wanted[0])


# --- who has which words, without a GPU -------------------------------------------------------


class FakeGpu:
    """Memory, streams whose address and id are told, captures, and all that was done, in order."""

    def __init__(self) -> None:
        self.cuda = self.runtime = self.driver = self
        self.CUDADriverError = RuntimeError
        self.done: list[Any] = []
        self.ids: dict[int, int] = {}
        self.captures: set[int] = set()
        self.next = 4096

    def malloc(self, size: int) -> int:
        self.next += size
        self.done.append(("malloc", self.next, size))
        return self.next

    def free(self, address: int) -> None:
        self.done.append(("free", address))

    def memsetAsync(self, address: int, value: int, size: int, stream: int) -> None:  # noqa: N802 - CuPy's name
        self.done.append(("zero", address, value, size, stream))

    def Stream(self, non_blocking: bool) -> Any:  # noqa: N802 - CuPy's name
        assert non_blocking
        return SimpleNamespace(ptr=99, synchronize=lambda: self.done.append("wait"))

    def id_of(self, stream: int) -> int:
        assert stream not in self.captures, "the driver refuses that"
        return self.ids.get(stream, stream)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    made = FakeGpu()

    @contextmanager
    def relaxed() -> Iterator[None]:
        made.done.append("relaxed")
        yield
        made.done.append("strict")

    monkeypatch.setattr(driver, "cupy", lambda: made)
    monkeypatch.setattr(gpu, "relaxed", relaxed)
    monkeypatch.setattr(gpu, "stream_id", made.id_of)
    monkeypatch.setattr(gpu, "capturing", lambda: made.captures.__contains__)
    return made


def test_words_are_zero_before_anybody_has_them(fake: FakeGpu) -> None:
    held = workspaces.Workspaces(6).at(0)
    assert fake.done == ["relaxed", ("malloc", 4120, 24), ("zero", 4120, 0, 24, 99), "wait", "strict"]
    assert held.address == 4120


def test_every_stream_and_every_captured_launch_has_its_own(fake: FakeGpu) -> None:
    all_of = workspaces.Workspaces(6)
    first = all_of.at(10).address
    assert all_of.at(10).address == first
    assert all_of.at(0).address == all_of.at(1).address  # one stream, of two addresses
    fake.ids[10] = 77  # that stream is no more, and another one has its address
    seen = {first, all_of.at(10).address, all_of.at(20).address, all_of.at(0).address}
    assert len(seen) == 4
    for stream in (10, 20, 10, 10):  # two branches of one graph may have streams of one address
        fake.captures = {stream}
        seen.add(all_of.at(stream).address)
    together(lambda: seen.add(all_of.at(10).address))
    assert len(seen) == 9
    fake.captures = set()
    assert all_of.at(20).address in seen
    assert workspaces.Workspaces(6).at(10).address not in seen  # nor do two plans meet


def test_the_oldest_are_given_back_when_nobody_holds_them(fake: FakeGpu) -> None:
    all_of = workspaces.Workspaces(6)
    fake.captures = {5}
    captured = all_of.at(5).address
    fake.captures = set()
    held, other = all_of.at(100), all_of.at(101).address
    for stream in range(102, 102 + workspaces.MOST):
        all_of.at(stream)
    freed = [done[1] for done in fake.done if done[0] == "free"]
    assert freed == [other]
    assert held.address not in freed
    first = held.address
    del held
    assert fake.done[-3:] == ["relaxed", ("free", first), "strict"]
    del all_of
    freed = [done[1] for done in fake.done if done[0] == "free"]
    assert len(freed) == len(set(freed)) == workspaces.MOST + 3
    assert captured in freed


def test_what_the_driver_is_asked(monkeypatch: pytest.MonkeyPatch, fake: FakeGpu) -> None:
    """The id of a stream, and that a thread may allocate, which is taken back in any case."""
    monkeypatch.undo()
    monkeypatch.setattr(driver, "cupy", lambda: fake)
    asked: list[Any] = []
    answers = iter([0, 0, 0, 0, 0, 1])

    def function(name: str) -> Any:
        def call(*given: Any) -> int:
            if name == "cuThreadExchangeStreamCaptureMode":
                mode = given[0]._obj
                asked.append((name, mode.value))
                mode.value = 1 if mode.value == 2 else 2
                return next(answers)
            stream, told = given
            told._obj.value = 1 << 40
            asked.append((name, stream.value, len(given)))
            return next(answers)

        return call

    monkeypatch.setattr(overlap, "driver_function", function)
    monkeypatch.setattr(gpu, "_local", threading.local())
    assert gpu.stream_id(2**47) == 1 << 40
    with gpu.relaxed():
        asked.append("inside")
    with pytest.raises(ValueError, match="no"), gpu.relaxed():
        raise ValueError("no")
    mode = "cuThreadExchangeStreamCaptureMode"
    assert asked == [
        ("cuStreamGetId", 2**47, 2),
        (mode, 2), "inside", (mode, 1), (mode, 2), (mode, 1),
    ]  # fmt: skip
    with pytest.raises(RuntimeError, match="1"):
        gpu.stream_id(3)
