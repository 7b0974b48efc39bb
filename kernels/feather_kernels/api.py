"""What users call: encode, decode, pack, unpack, gemv; and prepare, for a matrix that stays.

    plan = prepare(W)          compiles, loads, pads and uploads, once
    y = plan(x, out=y)         launches, once: nothing is allocated, so a graph can capture it

Without a GPU the same calls run in the simulator, for up to `SIMULATED` numbers.

Source: design of this project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from feather_kernels import _target, arrays, jobs, simulator
from feather_kernels.arrays import NUMBERS, Given
from feather_kernels.convert import THREADS, step_lanes
from feather_kernels.decoders import check_exact
from feather_kernels.encoders import REFUSED, Special
from feather_kernels.launch import Job
from feather_kernels.matvec import Gemv
from feather_ref import Format, PackedTensor, code_dtype, get_format
from feather_ref import encode as reference_encode
from feather_ref import isfinite as reference_isfinite
from feather_ref.policy import Policy, resolve

SIMULATED = 1 << 16
MODES = ("fast", "ordered")
_HIGHEST_GRID = 65535
_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def run(job: Job, blocks: tuple[int, int], threads: int, arguments: tuple[Any, ...], stream: int | None) -> None:
    """Launch a kernel: on the GPU, or in the simulator."""
    if _target.SIMULATOR:
        simulator.launch(job.make(), blocks, threads, arguments)
        return
    from feather_kernels import gpu

    gpu.launcher(job)(blocks, threads, arguments, stream)


def _check_size(numbers: int) -> None:
    if _target.SIMULATOR and numbers > SIMULATED:
        raise ValueError(
            f"no GPU here, and the simulator takes at most {SIMULATED} numbers, not {numbers}: use feather_ref instead"
        )


def _number_row(given: Given, name: str) -> str:
    row = NUMBERS.get(given.name)
    if row is None:
        raise TypeError(f"{name} must be float16, bfloat16 or float32, got {given.name}")
    return row


# --- numbers to codes and words ---------------------------------------------------------------


def encode(x: Any, fmt: str | Format, *, out: Any = None, stream: Any = None, **policies: Any) -> Any:
    """The codes of x, as `feather_ref.encode` gives them, rounded to nearest even.

    x: float16, bfloat16 or float32, any shape, of NumPy, CuPy, torch ...; the codes come back as that
    library's arrays, of dtype `feather_ref.code_dtype(fmt)`.  policies: overflow, nan, negative.

    Raises what `feather_ref.encode` raises, and ValueError for what no kernel has.
    """
    row = get_format(fmt)
    given = arrays.take(x, "x")
    width = 8 * code_dtype(row).itemsize
    shape = given.shape
    made = _made(out, given, shape, code_dtype(row).name)
    _pack(given, resolve(row, **policies), width, 0, made, (1, math.prod(shape)), False, stream)
    return arrays.give(given, made) if out is None else out


def pack(x: Any, fmt: str | Format, *, out: Any = None, stream: Any = None, **policies: Any) -> Any:
    """The words of x, as `feather_ref.pack` gives them in order "little".

    x: (..., n), as for `encode`.  Returns (..., ceil(n * storage_bits / 32)) uint32.

    Raises as `encode`.
    """
    row = get_format(fmt)
    given = arrays.take(x, "x")
    *lead, n = given.shape or (1,)
    words = -(-n * row.storage_bits // 32)
    made = _made(out, given, (*lead, words), "uint32")
    rows = (1, math.prod(lead) * n) if n * row.storage_bits % 32 == 0 else (math.prod(lead), n)
    _pack(given, resolve(row, **policies), row.storage_bits, row.storage_shift, made, rows, True, stream)
    return arrays.give(given, made) if out is None else out


def _made(out: Any, given: Given, shape: tuple[int, ...], dtype: str) -> Any:
    return arrays.result(given, shape, dtype) if out is None else arrays.check_out(out, shape, dtype)


def _pack(
    given: Given, policy: Policy, width: int, shift: int, made: Any, size: tuple[int, int], words: bool, stream: Any
) -> None:
    """Launch `pack` over `size` rows and columns."""
    source = _number_row(given, "x")
    rows, n = size
    if rows * n == 0:
        return
    _check_size(rows * n)
    number_bits = get_format(source).bits
    stride = n * number_bits // 8 * (rows > 1)
    vector = given.address % 16 == 0 and stride % 16 == 0 and arrays.address(made) % 4 == 0
    job = jobs.pack_job(policy, source, width, shift, vector, words)
    special = Special.of(policy)
    refuses = REFUSED in (*special.nan, special.negative)
    status = arrays.upload(np.zeros(1, np.uint32)) if refuses else None
    y_stride = -(-n * width // 32) if words else n
    x_kinds, y_kinds = job.arguments[:2], job.arguments[2:4]
    arguments = (*arrays.pointers(given.array, x_kinds), *arrays.pointers(made, y_kinds))
    arguments = (*arguments, *arrays.pointers(status, ("u32*",)), rows, n, n, y_stride)
    lanes = step_lanes(width, number_bits, vector)
    run(job, _grid(rows, n, lanes), THREADS, arguments, arrays.stream_of(stream, given))
    if status is not None and int(status[0]):
        _explain_refusal(given, policy)


def _explain_refusal(given: Given, policy: Policy) -> None:
    """Let the reference say which element is refused, and why."""
    choices: dict[str, Any] = {"overflow": policy.overflow, "nan": policy.nan, "negative": policy.negative}
    reference_encode(arrays.host(given), policy.fmt, **choices)
    raise ValueError(f"x: an element is NaN or negative, which {policy.fmt.name!r} does not hold")


def _grid(rows: int, n: int, lanes: int) -> tuple[int, int]:
    steps = -(-n // lanes)
    return -(-steps // THREADS), min(rows, _HIGHEST_GRID)


# --- codes and words to numbers ---------------------------------------------------------------


def decode(codes: Any, fmt: str | Format, *, dtype: Any = None, out: Any = None, stream: Any = None) -> Any:
    """The values of codes, exactly, as `feather_ref.decode` gives them.

    codes: of dtype `feather_ref.code_dtype(fmt)`, any shape.  dtype: "float32" (None), "float16" or
    "bfloat16", which must hold every value of the format; bfloat16 comes back as uint16 from NumPy
    and CuPy.

    Raises TypeError or ValueError naming the argument.
    """
    row = get_format(fmt)
    given = arrays.take(codes, "codes")
    wanted = code_dtype(row).name
    if given.name not in (wanted, wanted.removeprefix("u")):
        raise TypeError(f"codes must be {wanted}, got {given.name}")
    width = 8 * code_dtype(row).itemsize
    return _numbers(given, row, width, 0, given.shape, (1, math.prod(given.shape)), None, dtype, out, stream)


def unpack(
    words: Any, fmt: str | Format | None = None, n: int | None = None, *, dtype: Any = None, out: Any = None,
    stream: Any = None,
) -> Any:  # fmt: skip
    """The values of words, as `feather_ref.unpack` gives them in order "little".

    words: (..., m) uint32, or a PackedTensor, which brings fmt, n and its scale.  n: how many of a
    row; None is every whole lane.  Bits past n are not looked at.  dtype: as for `decode`.

    Raises TypeError or ValueError naming the argument.
    """
    if isinstance(words, PackedTensor):
        if fmt is not None or n is not None:
            raise TypeError("a PackedTensor brings its own fmt and n")
        packed = words
        _check_order(packed)
        given, row, shape, scale = arrays.take(packed.words, "words"), packed.fmt, packed.shape or (1,), packed.scale
    else:
        if fmt is None:
            raise TypeError("fmt is missing: words do not say what they hold")
        given, row, scale = arrays.take(words, "words"), get_format(fmt), None
        if given.name not in ("uint32", "int32"):
            raise TypeError(f"words must be uint32, got {given.name}")
        *lead, count = given.shape or (1,)
        lanes = count * 32 // row.storage_bits
        columns = lanes if n is None else n
        if not 0 <= columns <= lanes:
            raise ValueError(f"n must be 0..{lanes} for {count} words of {row.name!r}, got {n}")
        shape = (*lead, columns)
    rows = (math.prod(shape[:-1]), shape[-1])
    return _numbers(given, row, row.storage_bits, row.storage_shift, shape, rows, scale, dtype, out, stream, True)


def _check_order(packed: PackedTensor) -> None:
    if packed.order != "little":
        raise ValueError("W has order 'big', and kernels read 'little': pack it again, from W.codes()")


def _numbers(
    given: Given, row: Format, width: int, shift: int, shape: tuple[int, ...], size: tuple[int, int], scale: Any,
    dtype: Any, out: Any, stream: Any, words: bool = False,
) -> Any:  # fmt: skip
    """Launch `unpack` over `size` rows and columns."""
    name = "float32" if dtype is None else str(getattr(dtype, "name", dtype)).removeprefix("torch.")
    if name not in NUMBERS:
        raise TypeError(f"dtype must be float32, float16 or bfloat16, got {dtype!r}")
    target = NUMBERS[name]
    _check_target(row, target, scale is not None)
    made = _made(out, given, shape, name)
    rows, n = size
    if rows * n:
        _check_size(rows * n)
        number_bits = get_format(target).bits
        stride = n * number_bits // 8 * (rows > 1)
        vector = arrays.address(made) % 16 == 0 and stride % 16 == 0 and given.address % 4 == 0
        job = jobs.unpack_job(row, target, width, shift, vector, words, scale is not None)
        factors = None if scale is None else arrays.upload(np.ascontiguousarray(scale.reshape(-1)))
        x_stride = given.shape[-1] if words and given.shape else n
        arguments = (*arrays.pointers(given.array, job.arguments[:2]), *arrays.pointers(made, job.arguments[2:4]))
        arguments = (*arguments, *arrays.pointers(factors, ("f32*",)), rows, n, x_stride, n)
        arguments = (*arguments, int(factors is not None and factors.size > 1))
        lanes = step_lanes(width, number_bits, vector)
        run(job, _grid(rows, n, lanes), THREADS, arguments, arrays.stream_of(stream, given))
    return arrays.give(given, made) if out is None else out


@lru_cache(maxsize=256)
def _check_target(row: Format, target: str, scaled: bool) -> None:
    """Refuse numbers that do not hold every value."""
    check_exact(row)
    if target == "fp32" or scaled:
        return
    held = get_format(target)
    inside = row.kind != "table" and row.quantum >= held.quantum and row.mantissa_bits <= held.mantissa_bits
    greatest = abs(row.max) <= held.max and abs(row.min) <= held.max
    if not inside or not greatest or (row.kind == "integer" and row.bits - 1 > held.mantissa_bits + 1):
        raise ValueError(f"dtype: {_DTYPES[target]} does not hold every value of {row.name!r}; use float32")


# --- products ---------------------------------------------------------------------------------


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
        self._dtype, self._x_name = _DTYPES[kernel.out], _DTYPES[kernel.x]
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
        made = _made(out, given, (n,), self._dtype)
        if n:
            self._launch(given, made, arrays.stream_of(stream, given))
        return arrays.give(given, made) if out is None else out

    def _launch(self, given: Given, made: Any, stream: int | None) -> None:
        aligned = given.address % 16 == 0
        job = self._jobs[aligned]
        xs, ys = arrays.pointers(given.array, job.arguments[1:3]), arrays.pointers(made, job.arguments[5:6])
        arguments = (*self._before, *xs, *self._middle, *ys, *self._after)
        if _target.SIMULATOR:
            run(job, self._grid, 32 * self.kernel.warps, arguments, None)
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
    _check_size(n * k)
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
        _check_order(W)
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
