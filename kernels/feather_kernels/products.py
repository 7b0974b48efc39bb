"""Products: prepare a matrix once, then multiply with one launch; or both in one call.

    plan = prepare(W)          compiles, loads, pads and uploads, once
    y = plan(x, out=y)         launches, once: nothing is allocated, so a graph can capture it

Source: design of this project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from feather_kernels import _target, arrays, calls, jobs
from feather_kernels.arrays import DTYPES, NUMBERS, Given
from feather_kernels.decoders import check_exact
from feather_kernels.matvec import Gemv
from feather_ref import Format, PackedTensor
from feather_ref import isfinite as reference_isfinite

MODES = ("fast", "ordered")


class Cut(NamedTuple):
    """How a product is divided: see `feather_kernels.matvec`."""

    rows: int = 1
    splits: int = 1
    warps: int = 4
    depth: int = 1


@dataclass(frozen=True, eq=False)
class DeviceTensor:
    """Packed rows that are on the device already, with what they mean: as `feather_ref.PackedTensor`.

    words: (n, m) of 32 bits, m at least ceil(k * storage_bits / 32), of CuPy, torch ...  scale: None, or
    float32 of size 1 or n.  finite: no code is Inf or NaN, now and later; it spares a test of every word.
    """

    words: Any
    shape: tuple[int, int]
    fmt: Format
    scale: Any = None
    finite: bool = False


class Plan:
    """A matrix that is ready to be multiplied: y = plan(x).

    Made by `prepare`.  Calling it launches one kernel; with `out` nothing is allocated.
    """

    def __init__(self, kernel: Gemv, shape: tuple[int, int], words: Any, scale: Any, bias: Any, stride: int) -> None:
        """Keep the arrays; compile and load the kernel."""
        self.kernel, self.shape = kernel, shape
        self._words, self._scale, self._bias, self._stride = words, scale, bias, stride
        self._jobs = {aligned: jobs.gemv_job(replace(kernel, x_aligned=aligned)) for aligned in (True, False)}
        self._grid = (kernel.grid(shape[0]), 1)
        self._dtype, self._x_name = DTYPES[kernel.out], DTYPES[kernel.x]
        self._launchers: dict[bool, Any] = {}
        job = self._jobs[True]
        self._before = arrays.pointers(words, job.arguments[:1])
        self._middle = (*arrays.pointers(scale, ("f32*",)), *arrays.pointers(bias, ("f32*",)))
        self._after = (*shape, stride, int(scale.size > 1))
        self._device = 0
        if not _target.SIMULATOR:
            self._device = arrays.device_of(words)
            self._launcher(True)

    def _launcher(self, aligned: bool) -> Any:
        from feather_kernels import gpu

        if aligned not in self._launchers:
            self._launchers[aligned] = gpu.launcher(self._jobs[aligned])
        return self._launchers[aligned]

    def __call__(self, x: Any, out: Any = None, stream: Any = None) -> Any:
        """W @ x.

        x: (k,), of the dtype that `prepare` was told.  out: (n,), on the device, of the result's dtype.
        stream: of CuPy or torch; None is the current one of the library that x is from.

        Raises TypeError or ValueError naming the argument.
        """
        given = arrays.take(x, "x")
        n, k = self.shape
        if given.name != self._x_name:
            raise TypeError(f"x must be {self._x_name}, as prepared, got {given.name}")
        if given.shape != (k,):
            raise ValueError(f"x must have shape ({k},), got {given.shape}")
        if not _target.SIMULATOR and arrays.device_of(given.array) != self._device:
            raise ValueError(f"x is on GPU {arrays.device_of(given.array)}, and W on GPU {self._device}")
        made = calls.made(out, given, (n,), self._dtype)
        if n:
            self._launch(given, made, arrays.stream_of(stream, given))
        return arrays.give(given, made) if out is None else out

    def _launch(self, given: Given, made: Any, stream: int | None) -> None:
        aligned = given.address % 16 == 0
        job = self._jobs[aligned]
        xs, ys = arrays.pointers(given.array, job.arguments[1:3]), arrays.pointers(made, job.arguments[5:6])
        arguments = (*self._before, *xs, *self._middle, *ys, *self._after)
        if _target.SIMULATOR:
            calls.run(job, self._grid, 32 * self.kernel.warps, arguments, None)
        else:
            self._launcher(aligned)(self._grid, 32 * self.kernel.warps, arguments, stream)

    @property
    def nbytes(self) -> int:
        """Bytes of the words that a launch reads."""
        return self.shape[0] * -(-self.shape[1] * self.kernel.fmt.storage_bits // 32) * 4

    def order(self) -> dict[str, Any]:
        """The fields of the `feather_ref.ops.Order` that replays the result bit for bit."""
        return self.kernel.order()

    def explain(self) -> str:
        """Which kernel runs, why, and how long it should take."""
        g, (n, k) = self.kernel, self.shape
        loads = "128-bit" if g.aligned else "32-bit"
        lines = [
            f"gemv of {n} x {k} {g.fmt.name}, x in {g.x}, result in {g.out}",
            f"{g.rows} rows a warp share a load of x, {g.splits} warps share a row; {loads} loads, {g.depth} at once",
            f"one launch of {self._grid[0]} blocks of {32 * g.warps} threads reads {self.nbytes} bytes",
        ]
        if _target.SIMULATOR:
            return "\n".join([*lines, "in the simulator: no time is predicted"])
        from feather_kernels import gpu

        bandwidth = gpu.bandwidth()
        micros = self.nbytes / (0.9 * bandwidth) / 1e3 + 2.5
        return "\n".join([*lines, f"about {micros:.1f} us: bytes / (0.9 * {bandwidth:.0f} GB/s) + 2.5 us"])


def prepare(
    W: PackedTensor | DeviceTensor,  # noqa: N803 - the name of a matrix
    *,
    x: Any = "float16",
    out: Any = "float32",
    bias: Any = None,
    mode: str = "fast",
    cut: Cut | None = None,
) -> Plan:
    """Make a matrix ready: compile, load, pad its rows to 16 bytes and upload them, where that is needed.

    W: (n, k) packed along k.  x, out: dtypes of x and of the result, "float16", "bfloat16" or
    "float32".  bias: (n,) float32.  mode: "fast" or "ordered"; at one column every kernel is ordered:
    its result is that of `feather_ref.ops.replay` with `Plan.order`.  cut: how the work is divided, where
    that is not left to the kernels.

    Raises TypeError or ValueError naming the argument, and RuntimeError with what to do where there is
    no way to run.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}; got {mode!r}")
    if not isinstance(W, (PackedTensor, DeviceTensor)):
        raise TypeError(f"W must be a PackedTensor or a DeviceTensor, got {type(W).__name__}")
    if len(W.shape) != 2:
        raise ValueError(f"W must have two axes, (n, k), got shape {W.shape}")
    names = [str(getattr(given, "name", given)).removeprefix("torch.") for given in (x, out)]
    for argument, name in zip(("x", "out"), names, strict=True):
        if name not in NUMBERS:
            raise TypeError(f"{argument} must be float16, bfloat16 or float32, got {name!r}")
    check_exact(W.fmt)
    n, k = W.shape
    calls.check_size(n * k)
    words, stride = _rows(W)
    scale = _floats(W.scale, "scale", n, np.ones(1, np.float32))
    ends = _floats(bias, "bias", n, np.zeros(1, np.float32))
    aligned = arrays.address(words) % 16 == 0 and stride % 4 == 0
    base = Gemv(W.fmt, NUMBERS[names[0]], NUMBERS[names[1]], finite=_finite(W), bias=bias is not None, aligned=aligned)
    chosen = choose_cut(base, n, k, _multiprocessors()) if cut is None else cut
    return Plan(replace(base, **chosen._asdict()), (n, k), words, scale, ends, stride)


def _rows(W: PackedTensor | DeviceTensor) -> tuple[Any, int]:  # noqa: N803 - the name of a matrix
    """The words on the target, and how many lie between two rows."""
    n, k = W.shape
    needed = -(-k * W.fmt.storage_bits // 32)
    if isinstance(W, PackedTensor):
        calls.check_order(W)
        padded = np.zeros((n, -(-needed // 4) * 4), np.uint32)
        padded[:, :needed] = W.words
        return arrays.upload(_on_16(padded)), padded.shape[1]
    given = W.words
    if len(given.shape) != 2 or given.shape[0] != n or given.shape[1] < needed:
        raise ValueError(f"words must have shape ({n}, {needed} or more), got {tuple(given.shape)}")
    if arrays.dtype_name(given) not in ("uint32", "int32"):
        raise TypeError(f"words must be uint32, got {arrays.dtype_name(given)}")
    strides = given.stride() if arrays.is_torch(given) else tuple(s // 4 for s in given.strides)
    if strides[1] != 1 and given.shape[1] > 1:
        raise ValueError("words must be contiguous along k")
    return given, int(strides[0])


def _finite(W: PackedTensor | DeviceTensor) -> bool:  # noqa: N803 - the name of a matrix
    """Whether no code is Inf or NaN: known of device rows, found in the words of others."""
    if isinstance(W, DeviceTensor) or not (W.fmt.has_nan or W.fmt.has_inf):
        return not (W.fmt.has_nan or W.fmt.has_inf) or bool(getattr(W, "finite", False))
    return bool(reference_isfinite(W.codes(strict=False), W.fmt).all())


def _on_16(array: Any) -> Any:
    """A host array that begins on 16 bytes."""
    if array.ctypes.data % 16 == 0:
        return array
    raw = np.empty(array.nbytes + 16, np.uint8)
    begin = -raw.ctypes.data % 16
    copy = raw[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _floats(values: Any, name: str, n: int, default: Any) -> Any:
    """(1,) or (n,) float32 on the target."""
    if values is None:
        return arrays.upload(default)
    given = arrays.take(values, name)
    if given.name != "float32":
        raise TypeError(f"{name} must be float32, got {given.name}")
    size = math.prod(given.shape)
    if size not in ((n,) if name == "bias" else (1, n)):
        raise ValueError(f"{name} must have {n} elements, got shape {given.shape}")
    return given.array.reshape(-1)


def _multiprocessors() -> int:
    if _target.SIMULATOR:
        return 1
    from feather_kernels import gpu

    return gpu.multiprocessors()


def choose_cut(base: Gemv, n: int, k: int, multiprocessors: int) -> Cut:
    """Many rows a warp, so that each load of x serves them all, but enough warps to fill the GPU.

    Measured on one H200.  Vectors of many words or lanes take one row a warp, which fits the registers.
    """
    if base.words > 4 or base.lanes > 32:
        return Cut(1, 1)
    if n >= 4 * 16 * multiprocessors:
        return Cut(4, 1)
    vectors = -(-k // (base.lanes * 32))
    fitting = [splits for splits in (1, 2, 4) if splits <= max(1, vectors)]
    enough = (splits for splits in fitting if n * splits >= 2 * 31 * multiprocessors)
    return Cut(2, next(enough, fitting[-1]), 4, 2)


def gemv(
    W: PackedTensor | DeviceTensor | Plan,  # noqa: N803 - the name of a matrix
    x: Any,
    *,
    bias: Any = None,
    out: Any = None,
    dtype: Any = "float32",
    mode: str = "fast",
    stream: Any = None,
) -> Any:
    """W @ x, in one call.

    W: a PackedTensor is uploaded on every call; `prepare` it once where it stays.  x: (k,) of float16,
    bfloat16 or float32.  bias: (n,) float32.  out: (n,), to write to; dtype: of the result.  mode: see
    `prepare`.

    >>> import numpy as np
    >>> import feather_ref as fr
    >>> W = fr.pack_tensor(np.array([[1.0, 2.0], [0.5, -1.0]]), "e4m3")
    >>> gemv(W, np.array([1.0, 1.0], np.float16)).tolist()
    [3.0, -0.5]

    Raises TypeError or ValueError naming the argument.
    """
    if isinstance(W, Plan):
        if bias is not None:
            raise TypeError("bias belongs to prepare; W is a Plan")
        return W(x, out=out, stream=stream)
    name = arrays.dtype_name(x) if hasattr(x, "dtype") else "float32"
    return prepare(W, x=name, out=dtype, bias=bias, mode=mode)(x, out=out, stream=stream)
