"""What a plan does however it is called: the first time, again, wrongly, from threads, on streams, in graphs."""

import ctypes
import math
import sys
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import _target, calls, driver, gpu, overlap, quick
from feather_ref import ops
from kernel_inputs import same_bits

on_gpu = pytest.mark.skipif(_target.SIMULATOR, reason="needs a GPU")
N, K = (2, 70) if _target.SIMULATOR else (130, 600)


def matrix() -> fr.PackedTensor:
    return fr.pack_tensor(np.random.default_rng(1).standard_normal((N, K)), "e4m3")


def prepared() -> fk.Plan:
    return fk.prepare(matrix(), cut=fk.Cut(warps=1) if _target.SIMULATOR else None)


def right(plan: fk.Plan, x: Any) -> Any:
    """The result by the stated order."""
    return ops.replay(matrix(), x, ops.Order(**plan.order()))


def numbers(seed: int, count: int = K) -> Any:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float16)


def here(array: Any) -> Any:
    """An array where the kernels run."""
    return array if _target.SIMULATOR else pytest.importorskip("cupy").asarray(array)


def host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.get() if hasattr(array, "get") else array.cpu().numpy()


def tensor(array: Any) -> Any:
    """The array as torch's, where the kernels run."""
    torch = pytest.importorskip("torch")
    return torch.from_numpy(array) if _target.SIMULATOR else torch.from_numpy(array).cuda()


def as_float32(array: Any) -> Any:
    """The bytes of an array of float16."""
    torch = sys.modules.get("torch")
    return array.view(torch.float32 if torch is not None and isinstance(array, torch.Tensor) else np.float32)


@pytest.mark.parametrize("place", [here, tensor])
def test_every_call_gives_the_same_bits(place: Callable[[Any], Any]) -> None:
    """The first call takes the long way, the next ones the short one; other numbers follow."""
    plan = prepared()
    for seed in (2, 3) if _target.SIMULATOR else (2, 2, 3, 3):
        wanted = right(plan, numbers(seed))
        x, out = place(numbers(seed)), place(np.full(N, np.nan, np.float32))
        assert same_bits(host(plan(x)), wanted)
        assert plan(x, out=out) is out
        assert same_bits(host(out), wanted)
        assert same_bits(host(fk.gemv(plan, x)), wanted)


@pytest.mark.parametrize("place", [here, tensor])
@pytest.mark.parametrize("warm", [False, True])
def test_what_is_wrong_is_refused_the_first_time_and_later(place: Callable[[Any], Any], warm: bool) -> None:
    plan = prepared()
    x, y = place(numbers(2)), place(np.zeros(N, np.float32))
    if warm:
        plan(x), plan(x, out=y)
    wrong: list[tuple[Any, Any, type[Exception], str]] = [
        (place(np.zeros(K, np.float32)), y, TypeError, "x must be float16, as prepared, got float32"),
        (place(np.zeros(K, np.int16)), y, TypeError, "x must be float16, as prepared, got int16"),
        (place(numbers(2, K + 1)), y, ValueError, rf"x must have shape \({K},\), got \({K + 1},\)"),
        (place(numbers(2)[:, None]), y, ValueError, rf"x must have shape \({K},\), got \({K}, 1\)"),
        (x, place(np.zeros(N, np.float16)), TypeError, "out must have dtype float32, got float16"),
        (x, place(np.zeros(N + 1, np.float32)), ValueError, rf"out must have shape \({N},\), got \({N + 1},\)"),
        (x, place(np.zeros((1, N), np.float32)), ValueError, rf"out must have shape \({N},\), got \(1, {N}\)"),
        (x, place(np.zeros(2 * N, np.float32))[::2], ValueError, "out must be contiguous"),
    ]
    for given, out, kind, text in wrong:
        with pytest.raises(kind, match=text):
            plan(given, out=out)
    with pytest.raises(TypeError, match=r"stream must be a stream of CuPy, torch or .* got str"):
        plan(x, out=y, stream="0")
    wide = place(np.zeros(2 * K, np.float16))
    for over in (wide[K : K + 2 * N], wide[-2 * N :], wide[K - 2 : K - 2 + 2 * N]):
        with pytest.raises(ValueError, match="out shares memory with what is read"):
            plan(wide[K:], out=as_float32(over))
    plan(wide[K:], out=as_float32(wide[K - 2 * N : K]))
    if not _target.SIMULATOR:
        with pytest.raises(ValueError, match="out must be on the GPU"):
            plan(x, out=np.zeros(N, np.float32))


@pytest.mark.parametrize("place", [here, tensor])
def test_x_may_lie_anywhere(place: Callable[[Any], Any]) -> None:
    """Aligned, off by an element, every second, backwards: by one plan, one after the other."""
    plan = prepared()
    wide = place(numbers(5, 2 * K + 1))
    for start, step in ((0, 1), (1, 1), (8, 1), (0, 2), (1, 2), (0, 1)):
        view = wide[start : start + step * K : step]
        assert same_bits(host(plan(view)), right(plan, host(view)))


def test_threads_share_a_plan() -> None:
    plan = prepared()
    xs = [numbers(seed) for seed in range(4)]
    wanted = [right(plan, x) for x in xs]
    wrong: list[int] = []

    def work(i: int) -> None:
        x, out = here(xs[i]), here(np.zeros(N, np.float32))
        for _ in range(1 if _target.SIMULATOR else 500):
            if not (same_bits(host(plan(x, out=out)), wanted[i]) and same_bits(host(plan(x)), wanted[i])):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(xs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        ({"x": 1, "W": 0}, "x is on GPU 1, and W on GPU 0"),
        ({"x": 0, "out": 1, "W": 0}, "out is on GPU 1, and W on GPU 0"),
        ({"bias": 2, "W": 1}, "bias is on GPU 2, and W on GPU 1"),
    ],
)
def test_arrays_on_several_gpus(devices: dict[str, int], text: str) -> None:
    calls.check_devices(**dict.fromkeys(devices, 1))
    with pytest.raises(ValueError, match=text):
        calls.check_devices(**devices)


# --- streams and graphs -----------------------------------------------------------------------


@on_gpu
@pytest.mark.parametrize("library", ["cupy", "torch", "numba", "address", "cuda.core"])
def test_a_stream_of_any_library(library: str) -> None:
    """The kernel waits for what was put into its stream before: a slow fill of x."""
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    given: Any = {
        "cupy": lambda: stream,
        "torch": lambda: pytest.importorskip("torch").cuda.ExternalStream(stream.ptr),
        "numba": lambda: pytest.importorskip("numba.cuda").external_stream(stream.ptr),
        "address": lambda: stream.ptr,
        "cuda.core": lambda: _ProtocolStream(stream.ptr),
    }[library]()
    plan = prepared()
    wanted = right(plan, numbers(2))
    x, out = here(np.zeros(K, np.float16)), here(np.zeros(N, np.float32))
    wide, late = cupy.ones(1 << 28, cupy.uint8), here(numbers(2))
    cupy.cuda.Device().synchronize()
    with stream:
        for _ in range(20):
            wide += 1
        x[...] = late
    plan(x, out=out, stream=given)
    made = plan(x, stream=given)
    stream.synchronize()
    assert same_bits(host(out), wanted)
    assert same_bits(host(made), wanted)


class _ProtocolStream:
    """A stream as cuda.core has it."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address


@on_gpu
@pytest.mark.parametrize("library", ["cupy", "torch", "torch's current one"])
def test_conversions_wait_for_their_stream(library: str) -> None:
    """Also those that read whether an element was refused."""
    cupy, torch = pytest.importorskip("cupy"), pytest.importorskip("torch")
    numbers = np.random.default_rng(4).standard_normal(1 << 16).astype(np.float32)
    stream = torch.cuda.Stream()
    x, late, wide = torch.zeros(1 << 16, device="cuda"), tensor(numbers), torch.ones(1 << 28, device="cuda")
    ours = cupy.from_dlpack(x) if library == "cupy" else x
    named = None if "current" in library else stream
    torch.cuda.synchronize()
    for fmt in ("e2m1", "e4m3"):  # a NaN is refused; and has a code
        x.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(20):
                wide += 1
            x.copy_(late)
            codes = fk.encode(ours, fmt, stream=named)
            back = fk.decode(codes, fmt, stream=named)
            words = fk.pack(ours, fmt, stream=named)
        stream.synchronize()
        assert same_bits(host(codes), fr.encode(numbers, fmt))
        assert same_bits(host(words).view(np.uint32), fr.pack(numbers, fmt))
        assert same_bits(host(back), fr.decode(fr.encode(numbers, fmt), fmt))
        late[7] = float("nan")
        torch.cuda.synchronize()
        if fmt == "e2m1":
            with torch.cuda.stream(stream):
                for _ in range(20):
                    wide += 1
                x.copy_(late)
                with pytest.raises(ValueError, match=r"x\[7\]"):
                    fk.encode(ours, fmt, stream=named)
        late[7] = float(numbers[7])


@on_gpu
def test_with_a_stream_nothing_is_copied_behind_it() -> None:
    plan, stream = prepared(), pytest.importorskip("cupy").cuda.Stream(non_blocking=True)
    for x in (numbers(2), here(numbers(2, 2 * K))[::2]):
        with pytest.raises(ValueError, match="stream: x must be on the GPU and contiguous"):
            plan(x, stream=stream)


@on_gpu
def test_a_graph_of_cupy() -> None:
    """Captured once, with a result that was there before; replayed with other numbers."""
    cupy = pytest.importorskip("cupy")
    plan, stream = prepared(), cupy.cuda.Stream(non_blocking=True)
    x, out = here(numbers(2)), here(np.zeros(N, np.float32))
    for by_argument in (True, False):
        with stream:
            stream.begin_capture()
            plan(x, out=out, stream=stream if by_argument else None)
            graph = stream.end_capture()
            for seed in (2, 3):
                x[...] = here(numbers(seed))
                out[...] = cupy.nan
                graph.launch(stream)
                stream.synchronize()
                assert same_bits(host(out), right(plan, numbers(seed)))


@on_gpu
@pytest.mark.parametrize("with_out", [True, False])
def test_a_graph_of_torch_on_a_side_stream(with_out: bool) -> None:
    """What plan(x) allocates comes from the graph's own pool."""
    torch = pytest.importorskip("torch")
    plan, side = prepared(), torch.cuda.Stream()
    x, out = tensor(numbers(2)), torch.zeros(N, device="cuda")
    plan(x)
    graph = torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.graph(graph, stream=side):
        y = plan(x, out=out) if with_out else plan(x)
        twice = y * 2
    for seed in (2, 3):
        x.copy_(tensor(numbers(seed)))
        graph.replay()
        torch.cuda.synchronize()
        wanted = right(plan, numbers(seed))
        assert same_bits(host(y), wanted)
        assert same_bits(host(twice), 2 * wanted)


@on_gpu
def test_a_new_thread_has_no_context_of_its_own() -> None:
    """Everything is there but the thread: the driver must be told where it is."""
    plan = prepared()
    wanted = right(plan, numbers(2))
    x, out = here(numbers(2)), here(np.zeros(N, np.float32))
    plan(x, out=out)
    out[...] = 0
    thread = threading.Thread(target=plan, args=(x, out))
    thread.start()
    thread.join()
    pytest.importorskip("cupy").cuda.Device().synchronize()
    assert same_bits(host(out), wanted)


# --- the launch, without a GPU ----------------------------------------------------------------


class FakeCupy:
    """What `gpu` and `quick` ask of CuPy: arrays with an address, and a driver that reads the arguments."""

    def __init__(self, count: int) -> None:
        self.cuda = self.driver = self.runtime = self
        self.CUDADriverError = RuntimeError
        self.count, self.context, self.seen = count, 0, []

    class ndarray:  # noqa: N801 - CuPy's name
        def __init__(self, shape: tuple[int, ...], dtype: Any, address: int = 4096, device: int = 0) -> None:
            self.shape, self.dtype, self._c_contiguous = shape, np.dtype(dtype), True
            self.size, self.ndim = math.prod(shape), len(shape)
            self.data = self
            self.ptr, self.device_id = address, device

    def ctxGetCurrent(self) -> int:  # noqa: N802 - CuPy's name
        return self.context

    def setDevice(self, device: int) -> None:  # noqa: N802 - CuPy's name
        self.context = 1

    def getDevice(self) -> int:  # noqa: N802 - CuPy's name
        return 0

    def getDeviceCount(self) -> int:  # noqa: N802 - CuPy's name
        return 2

    def get_current_stream(self, device: int) -> Any:
        return type("Stream", (), {"ptr": 77})()

    def launchKernel(self, *given: int) -> None:  # noqa: N802 - CuPy's name
        assert self.context == 1
        pointers = (ctypes.c_void_p * self.count).from_address(given[9])
        self.seen.append((given[0], *given[1:9], [ctypes.c_int64.from_address(p).value for p in pointers]))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    made = FakeCupy(8)
    monkeypatch.setattr(driver, "cupy", lambda: made)
    monkeypatch.setitem(sys.modules, "cupy", made)
    return made


def test_the_driver_reads_the_arguments_in_their_order(fake: FakeCupy) -> None:
    launcher = gpu.Launcher(SimpleNamespace(ptr=5), 8, 0)
    launcher((3, 2), 64, (1, 2, 3, 4, 5, 6, 7, 2**47), 99)
    launcher((3, 1), 64, (8, 7, 6, 5, 4, 3, 2, 1), None)
    assert fake.seen == [
        (5, 3, 2, 1, 64, 1, 1, 0, 99, [1, 2, 3, 4, 5, 6, 7, 2**47]),
        (5, 3, 1, 1, 64, 1, 1, 0, 77, [8, 7, 6, 5, 4, 3, 2, 1]),
    ]


def test_the_short_way_is_for_what_was_seen_and_for_nothing_else(fake: FakeCupy) -> None:
    """It launches with the addresses of x and out; whatever differs in one thing is left to the long way."""
    array = fake.ndarray
    fixed = gpu.Fixed(gpu.Launcher(SimpleNamespace(ptr=5), 8, 0), 3, 64, (11,), 2, (12, 13), (15,))
    x, out = array((4,), "float16", 160), array((2,), "float32", 320)
    call = quick.make(x, (2,), "float32", fixed)
    assert call is not None
    assert call(x, out, None) is out
    assert call(x, out, SimpleNamespace(ptr=99)) is out
    assert call(x, None, None).ptr == 4096
    launched = [
        (5, 3, 1, 1, 64, 1, 1, 0, at, [11, 160, 160, 12, 13, y, 0, 15]) for at, y in ((77, 320), (99, 320), (77, 4096))
    ]
    assert fake.seen == launched
    others = [
        array((5,), "float16", 160),
        array((4, 1), "float16", 160),
        array((4,), "int16", 160),
        array((4,), ">f2", 160),
        array((4,), "float16", 162),  # off 16 bytes
        array((4,), "float16", 160, 1),  # another GPU
    ]
    apart = array((4,), "float16", 160)
    apart._c_contiguous = False
    for other in (*others, apart):
        assert call(other, out, None) is None
    for other in (
        array((3,), "float32"),
        array((2,), "float16"),
        array((2,), "float32", 320, 1),
        np.zeros(2, np.float32),
        array((2,), "float32", 160),  # over x, which has 8 bytes from 160 on
        array((2,), "float32", 164),
        array((2,), "float32", 156),
    ):
        assert call(x, other, None) is None
    assert call(x, None, SimpleNamespace(ptr=99)) is None
    assert fake.seen == launched
    for beside in (152, 168):
        assert call(x, array((2,), "float32", beside), None) is not None
    with pytest.raises(TypeError, match="stream must be a stream of CuPy"):
        call(x, out, "0")


@pytest.mark.parametrize("devices", [1, 2])
def test_of_several_axes_every_one_counts(monkeypatch: pytest.MonkeyPatch, fake: FakeCupy, devices: int) -> None:
    monkeypatch.setattr(fake, "getDeviceCount", lambda: devices)
    array = fake.ndarray
    fixed = gpu.Fixed(gpu.Launcher(SimpleNamespace(ptr=5), 8, 0), 3, 64, (11,), 2, (12, 13), (15,))
    x, out = array((2, 6), "float16", 160), array((2, 4), "float32", 320)
    call = quick.make(x, (2, 4), "float32", fixed)
    assert call is not None
    assert call(x, out, None) is out
    for other in ((3, 4), (6, 2), (1, 12), (12,), (2, 6, 1)):
        assert call(array(other, "float16", 160), out, None) is None
    for other in ((4, 2), (1, 8), (8,), (2, 2, 2)):
        assert call(x, array(other, "float32", 320), None) is None
    assert len(fake.seen) == 1


class Words:
    """Something that has an address, and can be watched."""

    def __init__(self, address: int) -> None:
        self.address = address


def test_each_launch_has_the_words_of_its_stream(fake: FakeCupy) -> None:
    """And holds them until it was launched."""
    held: list[Any] = []

    def workspace(stream: int) -> Any:
        words = Words(1000 + stream)
        held.append(weakref.ref(words))
        return words

    launch_kernel = fake.launchKernel

    def launch(*given: int) -> None:
        assert held[-1]() is not None
        launch_kernel(*given)

    fake.launchKernel = launch  # type: ignore[method-assign]
    fixed = gpu.Fixed(gpu.Launcher(SimpleNamespace(ptr=5), 8, 0), 3, 64, (11,), 2, (12, 13), (15,), workspace)
    x, out = fake.ndarray((4,), "float16", 160), fake.ndarray((2,), "float32", 320)
    call = quick.make(x, (2,), "float32", fixed)
    assert call is not None
    call(x, out, None), call(x, out, SimpleNamespace(ptr=99))
    assert [given[-1][6] for given in fake.seen] == [1077, 1099]
    assert [words() for words in held] == [None, None]


def test_each_thread_has_its_own_arguments(fake: FakeCupy) -> None:
    fixed = gpu.Fixed(gpu.Launcher(SimpleNamespace(ptr=5), 8, 0), 3, 64, (11,), 2, (12, 13), (15,))
    blocks: list[gpu.Block] = []
    threads = [threading.Thread(target=lambda: blocks.append(fixed.new_block())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({address for _, address, _ in blocks}) == 2
    assert not hasattr(fixed.local, "block")


def test_a_launch_that_begins_early_is_written_down_before(monkeypatch: pytest.MonkeyPatch, fake: FakeCupy) -> None:
    seen, answers = [], [0, 0, 1]

    def launch(where: Any, kernel: Any, arguments: Any, extra: None) -> int:
        config = where._obj
        sizes = config.grid_x, config.grid_y, config.grid_z, config.block_x, config.block_y, config.block_z
        attribute = config.attributes[0]
        values = (ctypes.c_void_p * 8).from_address(arguments.value)
        x = ctypes.c_int64.from_address(values[1]).value
        seen.append(
            (kernel.value, sizes, config.shared, config.stream, config.count, attribute.id, attribute.value[0], x)
        )
        return answers.pop(0)

    monkeypatch.setattr(overlap, "driver_function", lambda name: launch)
    fixed = gpu.Fixed(gpu.Launcher(SimpleNamespace(ptr=5), 8, 0, True), 3, 64, (11,), 2, (12, 13), (15,))
    x, out = fake.ndarray((4,), "float16", 160), fake.ndarray((2,), "float32", 320)
    call = quick.make(x, (2,), "float32", fixed)
    assert call is not None
    call(x, out, None), call(x, out, SimpleNamespace(ptr=99))
    assert seen == [(5, (3, 1, 1, 64, 1, 1), 0, stream, 1, 6, 1, 160) for stream in (77, 99)]
    with pytest.raises(RuntimeError, match="1"):
        call(x, out, None)


def test_other_arrays_never_go_the_short_way() -> None:
    fixed: Any = None
    never = quick.make(np.zeros(3, np.float16), (2,), "float32", fixed)
    assert never is not None
    assert never(np.zeros(3), None, None) is None


def test_a_tensor_on_the_host_closes_no_way_for_those_on_the_gpu() -> None:
    torch, fixed = pytest.importorskip("torch"), None
    assert quick.make(torch.zeros(3), (2,), "float32", fixed) is None


@pytest.mark.skipif(not _target.SIMULATOR, reason="arrays of NumPy are no result on the GPU")
def test_where_a_result_cannot_be_written() -> None:
    x = np.ones(64, np.float32)
    plan = fk.prepare(fr.pack_tensor(np.ones((64, 64)), "e4m3"), x="float32")
    sealed = np.zeros(64, np.float32)
    sealed.flags.writeable = False
    for out, text in (
        ([0.0] * 64, "out must be an array of NumPy, CuPy or torch, got list"),
        (sealed, "out is read-only"),
        (x, "out shares memory with what is read"),
    ):
        with pytest.raises((TypeError, ValueError), match=text):
            plan(x, out=out)
    for fmt, out in (("e4m3", x.view(np.uint8)[:64]), ("e4m3", x.view(np.uint8)[-64:]), ("fp32", x.view(np.uint32))):
        with pytest.raises(ValueError, match="out shares memory with what is read"):
            fk.encode(x, fmt, out=out)
    assert x.tolist() == [1.0] * 64


def test_a_mask_would_be_lost() -> None:
    with pytest.raises(TypeError, match="x: a masked array; fill it first, for its mask would be lost"):
        fk.encode(np.ma.array(np.ones(2, np.float32), mask=[0, 1]), "e4m3")


@pytest.mark.parametrize("n", [True, 1.0, "1"])
def test_how_many_is_a_whole_number(n: Any) -> None:
    words = np.zeros(2, np.uint32)
    with pytest.raises(TypeError, match=f"n must be an int, got {type(n).__name__}"):
        fk.unpack(words, "e4m3", n)
    assert fk.unpack(words, "e4m3", np.uint8(3)).tolist() == [0, 0, 0]
