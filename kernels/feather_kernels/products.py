"""Products: prepare a matrix once, then multiply with one launch; or both in one call.

    plan = prepare(W)          compiles, loads, pads and uploads, once
    y = plan(x, out=y)         launches, once: nothing is allocated, so a graph can capture it

Source: design of this project.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from feather_kernels import _target, arrays, calls, gpu, matrices, tensorcore
from feather_kernels.arrays import NUMBERS
from feather_kernels.columns import ColumnsPlan
from feather_kernels.cuts import Cut, begins_early, choose_cut, choose_tiles
from feather_kernels.decoders import check_exact
from feather_kernels.matrices import DeviceTensor, Matrix
from feather_kernels.matvec import Gemv
from feather_kernels.operands import Product
from feather_kernels.plans import Arguments, Plan
from feather_kernels.tensorcore import Columns
from feather_kernels.tiles import COLUMNS
from feather_kernels.workspaces import Workspaces
from feather_ref import BlockTensor, PackedTensor, get_format

MODES = ("fast", "ordered")


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
    _check(W, mode, cut, columns)
    x_row, out_row = _names(x=x, out=out)
    n, k = W.shape
    calls.check_size(n * k)
    matrix = matrices.take(W)
    check_exact(matrix.fmt)
    ends = None if bias is None else matrices.floats(bias, "bias", n, None)
    base = Gemv(
        matrix.fmt,
        x_row,
        out_row,
        finite=matrix.finite,
        bias=bias is not None,
        aligned=matrix.aligned,
        native=_native(),
        overlap=begins_early(matrix.bytes, _capability()),
        shared=matrix.shared,
    )
    plan = _gemv_plan if columns == 1 else partial(_columns_plan, columns, mode)
    made = plan(base, (n, k), matrix, ends, cut)
    if not _target.SIMULATOR:
        arrays.wait_for_uploads()
    return made


def _check(W: Any, mode: str, cut: Cut | None, columns: int) -> None:  # noqa: N803 - the name of a matrix
    """Refuse what `prepare` does not take."""
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


def _names(**dtypes: Any) -> list[str]:
    """The rows of some dtypes of NumPy, torch, or by name."""
    found = []
    for argument, given in dtypes.items():
        name = str(getattr(given, "name", given)).removeprefix("torch.")
        if name not in NUMBERS:
            raise TypeError(f"{argument} must be float16, bfloat16 or float32, got {name!r}")
        found.append(NUMBERS[name])
    return found


def _columns_plan(
    columns: int, mode: str, base: Gemv, shape: tuple[int, int], matrix: Matrix, bias: Any, cut: Cut | None
) -> ColumnsPlan:
    """The plan of several columns: by tensor cores, or one after the other, and why."""
    scales, capability = matrices.ends_of_scales(matrix, shape[1]), _capability()
    center = matrices.center_of_scales(matrix, scales)
    core = tensorcore.from_gemv(base, capability, center is not None)
    against = tensorcore.reason_against(core, capability, scales) if mode == "fast" else "an order is wanted"
    if against:
        one = partial(_gemv_plan, base, shape, matrix, bias, cut)
        return ColumnsPlan(columns, 1, lambda _: one(), f"one column after the other: {against}")
    core = choose_tiles(core, *shape, _multiprocessors()) if cut is None else tensorcore.with_cut(core, *cut)
    make = partial(_core_plan, core, shape, _core_arguments(core, shape, matrix, bias, center or 0))
    return ColumnsPlan(columns, COLUMNS, make, f"tensor cores: up to {COLUMNS} columns a launch")


def _core_arguments(kernel: Columns, shape: tuple[int, int], matrix: Matrix, bias: Any, center: int) -> Arguments:
    """What the kernel of `feather_kernels.tensorcore` takes, but for the number of columns."""
    down = center if kernel.narrow else 0
    scale = matrix.scale * 2.0**down if down else matrix.scale
    pitch = 0 if matrix.scales is None else matrix.scales.shape[1]
    below = int(np.float32(2.0**-down).view(np.uint32))
    return Arguments(
        before=(*arrays.pointers(matrix.words, ("u32*",)), *arrays.pointers(matrix.scales, ("u8*",))),
        middle=(*arrays.pointers(scale, ("f32*",)), *arrays.pointers(bias, ("f32*",))),
        after=(*shape, matrix.stride, pitch, int(math.prod(scale.shape) > 1), below),
        keep=(matrix.words, matrix.scales, scale, bias),
        bytes=matrix.bytes,
        workspaces=_workspaces(kernel, shape[0]),
    )


def _core_plan(kernel: Columns, shape: tuple[int, int], arguments: Arguments, count: int) -> Plan:
    """The plan of `feather_kernels.tensorcore` for so many columns."""
    whole = shape[1] * get_format(kernel.x).bits % 128 == 0
    own = arguments._replace(after=(*arguments.after, count), columns=count)
    return Plan(replace(kernel, all_aligned=whole or count == 1), shape, own)


def _gemv_plan(base: Gemv, shape: tuple[int, int], matrix: Matrix, bias: Any, cut: Cut | None) -> Plan:
    """The plan of `feather_kernels.matvec`: its arguments in their order."""
    chosen = choose_cut(base, *shape, _multiprocessors()) if cut is None else cut
    kernel = replace(base, **chosen._asdict())
    kinds = kernel.job().arguments
    before, middle = (matrix.words, matrix.scales, matrix.zeros), (matrix.scale, bias)
    strides = matrix.stride, matrix.scales_stride, matrix.zeros_stride, int(matrix.scale.size > 1)
    return Plan(
        kernel,
        shape,
        Arguments(
            before=tuple(arrays.pointers(array, (kind,))[0] for array, kind in zip(before, kinds[:3], strict=True)),
            middle=tuple(arrays.pointers(array, (kind,))[0] for array, kind in zip(middle, kinds[5:7], strict=True)),
            after=(*shape, *strides),
            keep=(*before, *middle),
            bytes=matrix.bytes,
            workspaces=_workspaces(kernel, shape[0]),
        ),
    )


def _workspaces(kernel: Product, n: int) -> Workspaces | None:
    """Where the parts of n rows meet; None where there are none."""
    words = kernel.workspace(n)
    return Workspaces(words) if words else None


def _native() -> bool:
    """Whether the GPU widens e4m3 itself."""
    if _target.SIMULATOR:
        return False
    return gpu.widens_e4m3()


def _capability() -> tuple[int, int]:
    """Of the current GPU; the simulator has all that kernels use."""
    if _target.SIMULATOR:
        return (9, 0)
    return gpu.capability(gpu.current_device())


def _multiprocessors() -> int:
    if _target.SIMULATOR:
        return 1
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
    with arrays.cupy_stream(_stream_of_call(x, stream)):  # what goes up is gone with the plan, in that order
        plan = prepare(W, x=name, out=dtype, bias=bias, mode=mode, columns=columns)
    return plan(x, out=out, stream=stream)


def _stream_of_call(x: Any, stream: Any) -> int | None:
    """The address of the stream that x is multiplied on; None is CuPy's current one.

    Raises ValueError where it is captured: a graph would read what is gone when the call returns.
    """
    if _target.SIMULATOR:
        return None
    at = None if stream is None else arrays.stream_address(stream)
    if at is None and arrays.is_torch(x) and x.is_cuda:
        at = arrays.torch_stream()(arrays.device_of(x))
    if gpu.capturing()(gpu.current_stream(gpu.current_device()) if at is None else at):
        raise ValueError("stream: it is captured, and the plan of gemv goes when it returns; prepare one, and keep it")
    return at
