"""Products: prepare a matrix once, then multiply with one launch; or both in one call.

    plan = prepare(W)          compiles, loads, pads and uploads, once
    y = plan(x, out=y)         launches, once: nothing is allocated, so a graph can capture it

Source: design of this project.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from feather_kernels import _target, arrays, calls, matrices, tensorcore
from feather_kernels.arrays import DTYPES, NUMBERS, Given
from feather_kernels.columns import ColumnsPlan
from feather_kernels.cuts import Cut, begins_early, choose_cut
from feather_kernels.decoders import check_exact
from feather_kernels.gpu import Fixed
from feather_kernels.launch import Job
from feather_kernels.matrices import DeviceTensor, Matrix
from feather_kernels.matvec import Gemv
from feather_kernels.quick import Quick
from feather_kernels.quick import make as make_quick
from feather_kernels.tensorcore import Columns
from feather_ref import BlockTensor, PackedTensor, get_format

MODES = ("fast", "ordered")


class Kernel(Protocol):
    """What a plan needs to know of its kernel; `feather_kernels.matvec.Gemv` is one."""

    @property
    def fmt(self) -> Any:
        """The row of the weights, for the eye."""

    @property
    def x(self) -> str:
        """The row of x: fp16, bf16 or fp32."""

    @property
    def out(self) -> str:
        """The row of the result."""

    @property
    def threads(self) -> int:
        """Of a block."""

    def grid(self, n: int) -> int:
        """Blocks for n rows."""

    def job(self, x_aligned: bool = True) -> Job:
        """What to compile, for an x that begins on 16 bytes or not."""

    def order(self) -> dict[str, Any] | None:
        """The fields of the `Order` that replays it; None where there is none."""

    def explain(self, n: int, k: int) -> list[str]:
        """What it is and how it divides the work, in lines."""


class Arguments(NamedTuple):
    """What a kernel takes: before, pointers to x, middle, a pointer to the result, after.

    before, middle, after: pointers as `arrays.pointers` makes them, and ints.  keep: the arrays that the
    pointers lead to.  bytes: of W that a launch reads.  columns: where it takes several at once, how many.
    """

    before: tuple[Any, ...]
    middle: tuple[Any, ...]
    after: tuple[Any, ...]
    keep: tuple[Any, ...]
    bytes: int
    columns: int | None = None


class Plan:
    """A matrix that is ready to be multiplied: y = plan(x).

    Made by `prepare`.  Calling it launches one kernel; with `out` nothing is allocated.  Where several blocks
    share a row (`explain` says so), they meet in memory of the plan: it then runs on one stream at a time.
    """

    def __init__(self, kernel: Kernel, shape: tuple[int, int], arguments: Arguments) -> None:
        """Keep the arrays; compile and load the kernel."""
        self.kernel: Any = kernel
        self.shape, self._arguments = shape, arguments
        many = () if arguments.columns is None else (arguments.columns,)
        self._y_shape, self._x_shape = ((*many, size) for size in shape)
        self._jobs = {aligned: kernel.job(aligned) for aligned in (True, False)}
        self._grid = (kernel.grid(shape[0]), 1)
        self._dtype, self._x_name = DTYPES[kernel.out], DTYPES[kernel.x]
        self._launchers: dict[bool, Any] = {}
        kinds = self._jobs[True].arguments
        begin, after = len(arguments.before), len(arguments.middle) + len(arguments.after)
        end = len(kinds) - after - 1
        self._x_kinds = kinds[begin:end]
        self._y_kinds = kinds[end + len(arguments.middle) :][:1]
        self._quick: dict[type, Quick] = {}
        self.device = 0
        if not _target.SIMULATOR:
            self.device = arrays.device_of(arguments.keep[0])
            for array in arguments.keep:
                if array is not None:
                    calls.check_devices(**{"scale or bias": arrays.device_of(array), "W": self.device})
            with self.here():
                self._launcher(True)

    def here(self) -> Any:
        """A context in which the GPU of W is the current one."""
        if _target.SIMULATOR:
            return nullcontext()
        from feather_kernels import gpu

        return gpu.using(self.device)

    def _launcher(self, aligned: bool) -> Any:
        from feather_kernels import gpu

        if aligned not in self._launchers:
            self._launchers[aligned] = gpu.launcher(self._jobs[aligned])
        return self._launchers[aligned]

    def __call__(self, x: Any, out: Any = None, stream: Any = None) -> Any:
        """W @ x.

        x: (k,), or (c, k) for a plan of c columns, of the dtype that `prepare` was told.  out: (n,) or (c, n), on
        the device, of the result's dtype, and not x's memory.
        stream: of CuPy, torch, Numba or cuda.core, or its address; None is the current one of the library
        that x is from.  Threads may share a plan.  Where blocks share a row, as `explain` says, the plan
        has a workspace: its launches must follow each other, as those on one stream do.

        Raises TypeError or ValueError naming the argument.
        """
        try:
            made = self._quick[type(x)](x, out, stream)
        except KeyError:  # not seen before
            made = None
        if made is not None:
            return made
        with self.here():
            return self._call(x, out, stream)

    def _call(self, x: Any, out: Any, stream: Any) -> Any:
        """The long way: every check, then the launch; the next call like this one goes the short way."""
        given = arrays.take(x, "x")
        if given.name != self._x_name:
            raise TypeError(f"x must be {self._x_name}, as prepared, got {given.name}")
        if given.shape != self._x_shape:
            raise ValueError(f"x must have shape {self._x_shape}, got {given.shape}")
        at = arrays.stream_of(stream, given)
        made = calls.made(out, given, self._y_shape, self._dtype, None if stream is None else at)
        if not _target.SIMULATOR:
            calls.check_devices(x=arrays.device_of(given.array), out=arrays.device_of(made), W=self.device)
        if self.shape[0]:
            self.launch(given, made, at)
            self._remember(x)
        return arrays.give(given, made) if out is None else out

    def launch(self, given: Given, made: Any, stream: int | None) -> None:
        """Launch for arrays that were checked."""
        aligned = given.address % 16 == 0
        xs, ys = arrays.pointers(given.array, self._x_kinds), arrays.pointers(made, self._y_kinds)
        before, middle, after, *_ = self._arguments
        arguments = (*before, *xs, *middle, *ys, *after)
        if _target.SIMULATOR:
            calls.run(self._jobs[aligned], self._grid, self.kernel.threads, arguments, None)
        else:
            self._launcher(aligned)(self._grid, self.kernel.threads, arguments, stream)

    def _remember(self, x: Any) -> None:
        """Open the short way for arrays like x."""
        if not _target.SIMULATOR and type(x) not in self._quick:
            quick = make_quick(x, self._y_shape, self._dtype, self.fixed())
            if quick is not None:
                self._quick[type(x)] = quick

    def fixed(self) -> Fixed:
        """The kernel, which lacks two addresses and a stream."""
        before, middle, after, *_ = self._arguments
        blocks, threads, xs = self._grid[0], self.kernel.threads, len(self._x_kinds)
        return Fixed(self._launcher(True), blocks, threads, before, xs, middle, after)

    @property
    def nbytes(self) -> int:
        """Bytes of W that a launch reads."""
        return self._arguments.bytes

    def order(self) -> Any:
        """The fields of the `feather_ref.ops.Order` that replays the result bit for bit; None where none does."""
        return self.kernel.order()

    def explain(self) -> str:
        """Which kernel runs, why, and how long it should take."""
        lines = self.kernel.explain(*self.shape)
        lines.append(f"one launch of {self._grid[0]} blocks of {self.kernel.threads} threads reads {self.nbytes} bytes")
        if _target.SIMULATOR:
            return "\n".join([*lines, "in the simulator: no time is predicted"])
        from feather_kernels import gpu

        bandwidth = gpu.bandwidth()
        micros = self.nbytes / (0.9 * bandwidth) / 1e3 + 2.5
        return "\n".join([*lines, f"about {micros:.1f} us: bytes / (0.9 * {bandwidth:.0f} GB/s) + 2.5 us"])


def prepare(
    W: PackedTensor | BlockTensor | DeviceTensor,  # noqa: N803 - the name of a matrix
    *,
    x: Any = "float16",
    out: Any = "float32",
    bias: Any = None,
    mode: str = "fast",
    cut: Cut | None = None,
    columns: int = 1,
) -> Plan | ColumnsPlan:
    """Make a matrix ready: compile, load, pad its rows to 16 bytes and upload them, where that is needed.

    W: (n, k), packed along k or in blocks.  x, out: dtypes of x and of the result, "float16", "bfloat16" or
    "float32".  bias: (n,) float32.  mode: "fast" or "ordered"; at one column every kernel is ordered:
    its result is that of `feather_ref.ops.replay` with `Plan.order`.  cut: how the work is divided, where
    that is not left to the kernels.  columns: above 1 the plan takes x (c, k), c from 1 to columns, and gives
    (c, n); "fast" then means tensor cores where they have a kernel, whose sums no order replays.

    Raises TypeError or ValueError naming the argument, and RuntimeError with what to do where there is
    no way to run.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}; got {mode!r}")
    calls.check_columns(columns)
    if cut is not None:
        calls.check_cut(cut, Cut)
    if not isinstance(W, (PackedTensor, BlockTensor, DeviceTensor)):
        raise TypeError(f"W must be a PackedTensor, a BlockTensor or a DeviceTensor, got {type(W).__name__}")
    if isinstance(W, DeviceTensor):
        matrices.check(W)
    if len(W.shape) != 2:
        raise ValueError(f"W must have two axes, (n, k), got shape {W.shape}")
    names = [str(getattr(given, "name", given)).removeprefix("torch.") for given in (x, out)]
    for argument, name in zip(("x", "out"), names, strict=True):
        if name not in NUMBERS:
            raise TypeError(f"{argument} must be float16, bfloat16 or float32, got {name!r}")
    n, k = W.shape
    calls.check_size(n * k)
    matrix = matrices.take(W)
    check_exact(matrix.fmt)
    ends = None if bias is None else matrices.floats(bias, "bias", n, None)
    base = Gemv(
        matrix.fmt,
        NUMBERS[names[0]],
        NUMBERS[names[1]],
        finite=matrix.finite,
        bias=bias is not None,
        aligned=matrix.aligned,
        native=_native(),
        overlap=begins_early(matrix.bytes, _capability()),
        shared=matrix.shared,
    )
    if columns == 1:
        return _gemv_plan(base, (n, k), matrix, ends, cut)
    core, against = _core(base, (n, k), matrix, mode)
    if against:
        reason = f"one column after the other: {against}"
        return ColumnsPlan(columns, 1, lambda _: _gemv_plan(base, (n, k), matrix, ends, cut), reason)
    core = tensorcore.choose(core, n, k, _multiprocessors()) if cut is None else tensorcore.with_cut(core, *cut)
    make = partial(_core_plan, core, (n, k), matrix, ends, _workspace(core, n))
    return ColumnsPlan(columns, tensorcore.COLUMNS, make, f"tensor cores: up to {tensorcore.COLUMNS} columns a launch")


def _core(base: Gemv, shape: tuple[int, int], matrix: Matrix, mode: str) -> tuple[Columns, str | None]:
    """The kernel of tensor cores, and why it is not taken."""
    narrow = matrices.center_of_scales(matrix, shape[1]) is not None
    core = replace(tensorcore.from_gemv(base, narrow), short=_capability() < (8, 0))
    if mode == "ordered":
        return core, "an order is wanted"
    return core, tensorcore.reason_against(core, _capability(), matrices.ends_of_scales(matrix, shape[1]))


def _core_plan(kernel: Columns, shape: tuple[int, int], matrix: Matrix, bias: Any, work: Any, count: int) -> Plan:
    """The plan of `feather_kernels.tensorcore` for so many columns."""
    center = matrices.center_of_scales(matrix, shape[1]) if kernel.narrow else None
    whole = shape[1] * get_format(kernel.x).bits % 128 == 0
    before = (*arrays.pointers(matrix.words, ("u32*",)), *arrays.pointers(matrix.scales, ("u8*",)))
    scale = matrix.scale * 2.0**center if center else matrix.scale
    middle = (*arrays.pointers(scale, ("f32*",)), *arrays.pointers(bias, ("f32*",)))
    pitch = 0 if matrix.scales is None else matrix.scales.shape[1]
    below = int(np.float32(2.0 ** -(center or 0)).view(np.uint32))
    strides = matrix.stride, pitch, int(math.prod(scale.shape) > 1), below
    after = (*arrays.pointers(work, ("u32*",)), *shape, *strides, count)
    keep = matrix.words, matrix.scales, scale, bias, work
    arguments = Arguments(before, middle, after, keep, matrix.bytes, count)
    return Plan(replace(kernel, all_aligned=whole or count == 1), shape, arguments)


def _gemv_plan(base: Gemv, shape: tuple[int, int], matrix: Matrix, bias: Any, cut: Cut | None) -> Plan:
    """The plan of `feather_kernels.matvec`: its arguments in their order."""
    chosen = choose_cut(base, *shape, _multiprocessors()) if cut is None else cut
    kernel = replace(base, **chosen._asdict())
    kinds = kernel.job().arguments
    work = _workspace(kernel, shape[0])
    before = [matrix.words, matrix.scales, matrix.zeros]
    middle = [matrix.scale, bias]
    strides = matrix.stride, matrix.scales_stride, matrix.zeros_stride, int(matrix.scale.size > 1)
    return Plan(
        kernel,
        shape,
        Arguments(
            before=tuple(arrays.pointers(array, (kind,))[0] for array, kind in zip(before, kinds[:3], strict=True)),
            middle=tuple(arrays.pointers(array, (kind,))[0] for array, kind in zip(middle, kinds[5:7], strict=True)),
            after=(*arrays.pointers(work, kinds[8:9]), *shape, *strides),
            keep=(*before, *middle, work),
            bytes=matrix.bytes,
        ),
    )


def _workspace(kernel: Gemv | Columns, n: int) -> Any:
    """Where the parts of n rows meet; None where there are none."""
    words = kernel.workspace(n)
    return arrays.upload(np.zeros(words, np.uint32)) if words else None


def _native() -> bool:
    """Whether the GPU widens e4m3 itself."""
    if _target.SIMULATOR:
        return False
    from feather_kernels import gpu

    return gpu.widens_e4m3()


def _capability() -> tuple[int, int]:
    """Of the current GPU; the simulator has all that kernels use."""
    if _target.SIMULATOR:
        return (9, 0)
    from feather_kernels import gpu

    return gpu.capability(gpu.current_device())


def _multiprocessors() -> int:
    if _target.SIMULATOR:
        return 1
    from feather_kernels import gpu

    return gpu.multiprocessors()


def gemv(
    W: PackedTensor | BlockTensor | DeviceTensor | Plan | ColumnsPlan,  # noqa: N803 - the name of a matrix
    x: Any,
    *,
    bias: Any = None,
    out: Any = None,
    dtype: Any = "float32",
    mode: str = "fast",
    stream: Any = None,
) -> Any:
    """W @ x, in one call.

    W: what is on the host is uploaded on every call; `prepare` it once where it stays.  x: (k,) of float16,
    bfloat16 or float32, or (c, k) for c columns.  bias: (n,) float32.  out: (n,) or (c, n), to write to; dtype: of
    the result.  mode: see `prepare`.

    >>> import numpy as np
    >>> import feather_ref as fr
    >>> W = fr.pack_tensor(np.array([[1.0, 2.0], [0.5, -1.0]]), "e4m3")
    >>> gemv(W, np.array([1.0, 1.0], np.float16)).tolist()
    [3.0, -0.5]

    Raises TypeError or ValueError naming the argument.
    """
    if isinstance(W, (Plan, ColumnsPlan)):
        if bias is not None or mode != "fast" or dtype != "float32":
            raise TypeError("bias, dtype and mode belong to prepare; W is a Plan")
        return W(x, out=out, stream=stream)
    name = arrays.dtype_name(x) if hasattr(x, "dtype") else "float32"
    shape: tuple[int, ...] = getattr(x, "shape", ())
    if len(shape) == 2 and not shape[0]:
        raise ValueError(f"x must have a column or more, got shape {tuple(shape)}")
    columns = max(2, shape[0]) if len(shape) == 2 else 1  # of one column too x is (c, k), where that was given
    plan = prepare(W, x=name, out=dtype, bias=bias, mode=mode, columns=columns)
    return plan(x, out=out, stream=stream)
