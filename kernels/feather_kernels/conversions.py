"""What encode, decode, pack and unpack prepare once, and how they then run.

    conversion    a format, its policies or the dtype of its numbers      what `api` asks for, kept
    work          the dtype and the shape of x                            kernel, grid, strides; kept
    way           the library, dtype, shape and GPU of x                  one launch; see `feather_kernels.quick`

A call that was seen before takes its way.  What is not exactly as before goes the long way, which says
what is wrong.

Where a policy refuses some inputs, the kernel says so in a word, and a call waits for it.  That of a
way is memory of the host that the GPU writes to, and is never taken back to 0: the way is left then.

Source: design of this project.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from feather_kernels import _target, arrays, calls, driver, gpu, jobs
from feather_kernels.arrays import NUMBERS, Given
from feather_kernels.convert import QUADS, THREADS, aligned, pack_quads
from feather_kernels.encoders import REFUSED, Special, make_noisy_encoder
from feather_kernels.launch import Job
from feather_kernels.quick import Quick
from feather_kernels.quick import make as make_quick
from feather_ref import Format, code_dtype, get_format
from feather_ref import encode as reference_encode
from feather_ref.codec import check_random
from feather_ref.policy import Policy

KEPT = 64  # works, and ways, of a conversion
_HIGHEST_GRID = 65535
_WHOLE = 16  # bytes: what begins there begins at a whole quad of anything

Shape = tuple[int, ...]
Kept = TypeVar("Kept", bound="Conversion")


class Work(NamedTuple):
    """What a launch needs besides addresses.

    y_shape, y_name: shape and dtype of the result.  size: of the numbers, rows and columns.  vector: whether every
    row begins at a whole quad where the arrays begin at `x_align` and `y_align` bytes.  strides: of x and y.
    """

    y_shape: Shape
    y_name: str
    size: tuple[int, int]
    grid: tuple[int, int]
    vector: bool
    x_align: int
    y_align: int
    strides: tuple[int, int]


class Conversion(ABC):
    """From an array to an array by one kernel: conversion(x, out, stream)."""

    name: str  # of the argument
    refuses = False  # whether the policy makes an error of some inputs

    def __init__(self, fmt: Format, words: bool) -> None:
        """Lanes are those of `feather_ref.pack`, in words, or codes one by one."""
        self.fmt, self.words = fmt, words
        self.width = fmt.storage_bits if words else 8 * code_dtype(fmt).itemsize
        self.shift = fmt.storage_shift if words else 0
        self.work = lru_cache(KEPT)(self._work)
        self.job = lru_cache(4 * len(NUMBERS))(self._job)
        self._ways: dict[Any, Quick] = {}
        self._lock = threading.Lock()

    @abstractmethod
    def _work(self, dtype: str, shape: Shape) -> Work:
        """The work of an array.  Raises TypeError or ValueError naming the argument."""

    @abstractmethod
    def _job(self, dtype: str, vector: bool) -> Job:
        """The kernel for arrays of a dtype."""

    def __call__(self, x: Any, out: Any, stream: Any) -> Any:
        """Convert; the short way where there is one."""
        try:
            way = self._ways[_key(x)]
        except (AttributeError, TypeError, ValueError, KeyError):  # a list, memory of the host, or not seen before
            return self.run(x, out, stream)
        if out is not None and type(out) is type(x) and arrays.address(out) % _WHOLE:
            return self.run(x, out, stream)
        made = way(x, out, stream)
        return self.run(x, out, stream) if made is None else made

    def run(self, x: Any, out: Any, stream: Any, other: Any = None) -> Any:
        """The long way: every check, then the launch; the next call like this one takes a way.

        other: a second array that is read, which closes the ways.
        """
        given = arrays.take(x, self.name)
        work = self.work(given.name, given.shape)
        with calls.here(given):
            named = arrays.named_stream(stream, given, self.name)
            made = calls.made(out, given, work.y_shape, work.y_name, named)
            at = arrays.stream_of(stream, given)
            with arrays.cupy_stream(at):  # what is copied must be there, and stay, for the launch
                beside = None if other is None else self.beside(other, given, named)
            if beside is not None and out is not None:
                calls.check_apart(made, beside)
            if math.prod(work.size):
                self._launch(given, made, work, beside, at)
                if other is None and given.lent and not _target.SIMULATOR:
                    self._keep(x, given, made, work)
        return arrays.give(given, made) if out is None else out

    def _launch(self, given: Given, made: Any, work: Work, beside: Any, at: int | None) -> None:
        """Launch, and raise for what is refused."""
        rows, n = work.size
        calls.check_size(rows * n)
        whole = given.address % work.x_align == 0 and arrays.address(made) % work.y_align == 0
        job = self.job(given.name, work.vector and whole)
        known = (*arrays.pointers(given.array, job.arguments[:2]), *arrays.pointers(made, job.arguments[2:4]))
        run, kinds = partial(calls.run, job, work.grid, THREADS, stream=at), job.arguments[4:5]
        if not self.refuses:
            run(arguments=(*known, *arrays.pointers(self.fifth(beside), kinds), *self.last(work, beside)))
            return
        _refuse_capture(given.array, at)
        with arrays.cupy_stream(at):  # which writes the status, and reads it
            status = np.zeros(1, np.uint32) if _target.SIMULATOR else driver.cupy().zeros(1, np.uint32)
            run(arguments=(*known, *arrays.pointers(status, kinds), *self.last(work, beside)))
            if status.item():
                self.explain(given)

    @abstractmethod
    def beside(self, other: Any, given: Given, stream: int | None) -> Any:
        """The second array where the kernel reads it."""

    @abstractmethod
    def fifth(self, beside: Any) -> Any:
        """The array of the fifth argument, where nothing is refused."""

    @abstractmethod
    def last(self, work: Work, beside: Any) -> tuple[Any, ...]:
        """The arguments after the fifth."""

    def explain(self, given: Given) -> None:
        """Say which element is refused, and why."""
        raise NotImplementedError

    # --- ways -----------------------------------------------------------------------------------

    def _keep(self, x: Any, given: Given, made: Any, work: Work) -> None:
        """Keep the way of a call whose arrays begin at whole quads: it is then the same for all of this shape."""
        known = arrays.is_cupy(x) or arrays.is_torch(x)  # another's array was made into one of these
        if not known or given.address % _WHOLE or arrays.address(made) % _WHOLE:
            return
        word = _HostWord() if self.refuses else None
        fixed = self.fixed(self.job(given.name, work.vector), work, word)
        way = make_quick(x, work.y_shape, work.y_name, fixed)
        if way is None:
            return
        key = _key(x)
        with self._lock:
            if len(self._ways) >= KEPT:
                self._ways.pop(next(iter(self._ways)))
            self._ways[key] = way if word is None else self._careful(way, word, key)

    def fixed(self, job: Job, work: Work, word: _HostWord | None) -> gpu.Fixed:
        """The kernel, which lacks two addresses and a stream; word: for what it refuses."""
        status = None if word is None else lambda stream: word
        blocks, height = work.grid
        last = self.last(work, None)
        return gpu.Fixed(gpu.launcher(job), blocks, THREADS, (), 2, (), last, status, ys=2, height=height)

    def _careful(self, way: Quick, word: _HostWord, key: Any) -> Quick:
        """A way that waits for what the kernel says; where it refuses, the long way says more."""
        wait = driver.cupy().cuda.runtime.streamSynchronize

        def call(x: Any, out: Any, stream: Any) -> Any:
            at = _refuse_capture(x, None if stream is None else arrays.stream_address(stream))
            made = way(x, out, stream)
            if made is None:
                return None
            wait(at)
            if not word.value[0]:
                return made
            with self._lock:
                self._ways.pop(key, None)
            return None

        return call


def _key(x: Any) -> Any:
    """What a way is for.  Raises AttributeError, TypeError or ValueError for much that is on no GPU."""
    return type(x), x.dtype, x.shape, arrays.device_of(x)


class _HostWord:
    """A word of the host that a kernel writes to; 0 at first."""

    def __init__(self) -> None:
        with gpu.relaxed():
            memory = driver.cupy().cuda.alloc_pinned_memory(4)
        self.value, self.address, self._memory = np.frombuffer(memory, np.uint32, 1), int(memory.ptr), memory
        self.value[0] = 0


def _refuse_capture(x: Any, at: int | None) -> int:
    """The address of the stream of a call, which must not be captured; at: of one that was named, or None."""
    if _target.SIMULATOR:
        return 0
    cuda = driver.cupy().cuda
    if at is None:
        at = arrays.torch_stream()(x.get_device()) if arrays.is_torch(x) else cuda.get_current_stream().ptr
    if cuda.runtime.streamIsCapturing(at):
        raise ValueError(
            "stream: it is captured, and a call that refuses NaN or negatives waits for the kernel; "
            "say with nan= or negative= what becomes of them"
        )
    return at


# --- numbers to lanes -------------------------------------------------------------------------


class Packing(Conversion):
    """Numbers to codes or words, by one policy."""

    name = "x"

    def __init__(self, policy: Policy, words: bool, n_bits: int = 0) -> None:
        """As `Conversion`.  n_bits: of the noise of stochastic rounding.  Raises ValueError for what no kernel has."""
        super().__init__(policy.fmt, words)
        make_noisy_encoder(policy, n_bits)
        special = Special.of(policy)
        self.n_bits = n_bits
        self.policy, self.refuses = policy, REFUSED in (*special.nan, special.negative)
        self._quads = pack_quads(policy, self.width, self.shift)

    def _work(self, dtype: str, shape: Shape) -> Work:
        row = _number_row(dtype)
        *lead, n = shape or (1,)
        rows, width = math.prod(lead), self.width
        words = -(-n * width // 32)
        y_shape, y_name = ((*lead, words), "uint32") if self.words else (shape, code_dtype(self.fmt).name)
        if not self.words or n * width % 32 == 0:
            rows, n = 1, rows * n
            words = n * width // 32
        y_stride = words if self.words else n
        lanes = -(-words * 32 // width) if self.words else n  # also those that fill the last word up
        return Work(
            y_shape, y_name, (rows, n), _grid(rows, lanes, self._quads),
            _are_whole(rows, n) and _are_whole_lanes(rows, y_stride, width, self.words),
            row.bits // 2, aligned(width), (n, y_stride),
        )  # fmt: skip

    def _job(self, dtype: str, vector: bool) -> Job:
        vector = vector and not self.n_bits
        return jobs.pack_job(self.policy, NUMBERS[dtype], self.width, self.shift, vector, self.words, self.n_bits)

    def beside(self, other: Any, given: Given, stream: int | None) -> Any:
        """The random bits, a word for each number; those of the host are checked as `feather_ref.encode` does."""
        if arrays.is_cupy(other) or (arrays.is_torch(other) and other.is_cuda):
            found = arrays.take(other, "random_bits")
            if found.name not in ("uint32", "int32"):
                raise TypeError(f"random_bits on the GPU must be uint32, got {found.name}")
            if found.shape != given.shape:
                raise ValueError(f"random_bits on the GPU must have the shape of x, {given.shape}, got {found.shape}")
            calls.check_devices(random_bits=arrays.device_of(found.array), x=arrays.device_of(given.array))
            if not found.lent and found.home == "torch" != given.home:  # on torch's stream, which is not that of x
                raise ValueError("random_bits of torch must be contiguous where x is not torch's")
        else:
            checked: Any = check_random(self.policy.rounding, other, self.n_bits, given.shape)
            words = np.ascontiguousarray(checked[0], np.uint32)
            found = Given(arrays.upload(words), "uint32", "numpy", _target.SIMULATOR)
        arrays.named_stream(stream, found, "random_bits")
        return found.array

    def fifth(self, beside: Any) -> Any:
        """Nothing: it is the word for what is refused."""

    def last(self, work: Work, beside: Any) -> tuple[Any, ...]:
        """The random bits, sizes and strides."""
        return *arrays.pointers(beside, ("u32*",)), *work.size, *work.strides

    def explain(self, given: Given) -> None:
        """Let the reference say it."""
        policy = self.policy
        choices: dict[str, Any] = {"overflow": policy.overflow, "nan": policy.nan, "negative": policy.negative}
        reference_encode(arrays.host(given), policy.fmt, **choices)
        raise ValueError(f"x: an element is NaN or negative, which {policy.fmt.name!r} does not hold")


def _number_row(dtype: str) -> Format:
    if dtype not in NUMBERS:
        raise TypeError(f"x must be float16, bfloat16 or float32, got {dtype}")
    return get_format(NUMBERS[dtype])


def _grid(rows: int, lanes: int, quads: int) -> tuple[int, int]:
    return -(-lanes // (4 * quads * THREADS)), min(rows, _HIGHEST_GRID)


def _are_whole(rows: int, n: int) -> bool:
    """Whether every row of numbers begins at a whole quad where the first one does."""
    return rows == 1 or n % 4 == 0


def _are_whole_lanes(rows: int, stride: int, width: int, words: bool) -> bool:
    """Whether every row of lanes does; stride: in words, or in lanes."""
    return rows == 1 or stride * (4 if words else width // 8) % aligned(width) == 0


# --- lanes to numbers -------------------------------------------------------------------------


class Unpacking(Conversion):
    """Codes or words to numbers of one dtype; scaled: each row, or all, is multiplied by a scale."""

    def __init__(self, fmt: Format, words: bool, dtype: str, n: int | None = None, scaled: bool = False) -> None:
        """As `Conversion`.  n: the columns of words; None is every whole lane."""
        super().__init__(fmt, words)
        self.name = "words" if words else "codes"
        self.dtype, self.n, self.scaled = dtype, n, scaled

    def _work(self, dtype: str, shape: Shape) -> Work:
        wanted = "uint32" if self.words else code_dtype(self.fmt).name
        if dtype not in (wanted, wanted.removeprefix("u")):
            raise TypeError(f"{self.name} must be {wanted}, got {dtype}")
        row = get_format(NUMBERS[self.dtype])
        y_shape = (*shape[:-1], self._columns(shape)) if self.words else shape
        rows, n = (math.prod(y_shape[:-1]), y_shape[-1]) if self.words else (1, math.prod(shape))
        x_stride = shape[-1] if self.words and shape else n
        return Work(
            y_shape, self.dtype, (rows, n), _grid(rows, n, QUADS),
            _are_whole(rows, n) and _are_whole_lanes(rows, x_stride, self.width, self.words),
            aligned(self.width), row.bits // 2, (x_stride, n),
        )  # fmt: skip

    def _columns(self, shape: Shape) -> int:
        count = shape[-1] if shape else 1
        lanes = count * 32 // self.width
        if self.n is not None and not 0 <= self.n <= lanes:
            raise ValueError(f"n must be 0..{lanes} for {count} words of {self.fmt.name!r}, got {self.n}")
        return lanes if self.n is None else self.n

    def _job(self, dtype: str, vector: bool) -> Job:
        return jobs.unpack_job(self.fmt, NUMBERS[self.dtype], self.width, self.shift, vector, self.words, self.scaled)

    def beside(self, other: Any, given: Given, stream: int | None) -> Any:
        """The scale, which is the host's."""
        return arrays.upload(np.ascontiguousarray(other.reshape(-1)))

    def fifth(self, beside: Any) -> Any:
        """The scale."""
        return beside

    def last(self, work: Work, beside: Any) -> tuple[Any, ...]:
        """Sizes and strides, and that of the scale."""
        return *work.size, *work.strides, int(beside is not None and beside.size > 1)


def kept(make: Callable[..., Kept]) -> Callable[..., Kept]:
    """Keep the conversions that a function makes, by its arguments and their types.

    An argument that cannot be a key goes to the function, which says what is wrong with it.
    """
    known = lru_cache(256, typed=True)(lambda inside, *given, **named: make(*given, **named))

    def conversion(*given: Any, **named: Any) -> Kept:
        nan = named.get("nan")
        inside = tuple(map(type, nan)) if isinstance(nan, tuple) else None  # 1 == True in there too
        try:
            return known(inside, *given, **named)
        except TypeError:
            return make(*given, **named)

    return conversion
