"""A plan: a matrix that is ready, its kernels loaded, which a call only launches.

Source: design of this project.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

from feather_kernels import _target, arrays, calls, gpu
from feather_kernels.arrays import DTYPES, Given
from feather_kernels.operands import Product
from feather_kernels.quick import Quick
from feather_kernels.quick import make as make_quick
from feather_kernels.workspaces import Workspaces


class Arguments(NamedTuple):
    """What a kernel takes: before, pointers to x, middle, a pointer to the result, one to a workspace, after.

    before, middle: pointers as `arrays.pointers` makes them.  after: ints.  keep: the arrays that the pointers
    lead to.  bytes: of W that a launch reads.  workspaces: None where no blocks meet.  columns: where it takes
    several at once, how many.
    """

    before: tuple[Any, ...]
    middle: tuple[Any, ...]
    after: tuple[int, ...]
    keep: tuple[Any, ...]
    bytes: int
    workspaces: Workspaces | None = None
    columns: int | None = None


class Plan:
    """A matrix that is ready to be multiplied: y = plan(x).

    Made by `prepare`.  Calling it launches one kernel; with `out` nothing is allocated, but for a few words the
    first time on a stream or in a capture, where several blocks share a row (`explain` says so).  A graph that
    captured a call needs the plan as long as it is launched.
    """

    def __init__(self, kernel: Product, shape: tuple[int, int], arguments: Arguments) -> None:
        """Keep the arrays; compile and load the kernel."""
        self.kernel: Any = kernel  # tests look at what only one kind has
        self.shape, self._arguments = shape, arguments
        many = () if arguments.columns is None else (arguments.columns,)
        self._y_shape, self._x_shape = ((*many, size) for size in shape)
        self._jobs = {aligned: kernel.job(aligned) for aligned in (True, False)}
        self._grid = (kernel.grid(shape[0]), 1)
        self._dtype, self._x_name = DTYPES[kernel.out], DTYPES[kernel.x]
        self._launchers: dict[bool, Any] = {}
        kinds = self._jobs[True].arguments
        begin, y = len(arguments.before), len(kinds) - len(arguments.after) - 2
        self._x_kinds, self._y_kinds = kinds[begin : y - len(arguments.middle)], kinds[y : y + 1]
        self._quick: dict[type, Quick] = {}
        self.device = 0
        if not _target.SIMULATOR:
            self.device = arrays.device_of(arguments.keep[0])
            for array in arguments.keep:
                if array is not None:
                    calls.check_devices(**{"scale or bias": arrays.device_of(array), "W": self.device})
            with self.here():
                self._launcher(True)

    def __repr__(self) -> str:
        return f"<Plan: {self.kernel.explain(*self.shape)[0]}>"

    def here(self) -> Any:
        """A context in which the GPU of W is the current one."""
        if _target.SIMULATOR:
            return nullcontext()
        return gpu.using(self.device)

    def _launcher(self, aligned: bool) -> Any:
        if aligned not in self._launchers:
            self._launchers[aligned] = gpu.launcher(self._jobs[aligned])
        return self._launchers[aligned]

    def __call__(self, x: Any, out: Any = None, stream: Any = None) -> Any:
        """W @ x.

        x: (k,), or (c, k) for a plan of c columns, of the dtype that `prepare` was told.  out: (n,) or (c, n), on
        the device, of the result's dtype, and not x's memory.
        stream: of CuPy, torch, Numba or cuda.core, or its address; None is the current one of the library
        that x is from.  Threads may share a plan, and it may run on several streams at once.

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
            many = given.shape[1:] == self._x_shape and given.shape[0] > 1
            cure = f"; for columns, prepare(W, columns={given.shape[0]})" if many else ""
            raise ValueError(f"x must have shape {self._x_shape}, got {given.shape}{cure}")
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
        words, where = self._workspace(stream)
        arguments = (*before, *xs, *middle, *ys, where, *after)
        if _target.SIMULATOR:
            calls.run(self._jobs[aligned], self._grid, self.kernel.threads, arguments, None)
        else:
            self._launcher(aligned)(self._grid, self.kernel.threads, arguments, stream)
        del words  # a launch that waits has them all the same

    def _workspace(self, stream: int | None) -> tuple[Any, Any]:
        """What holds the workspace for a launch, and the argument that leads to it."""
        workspaces = self._arguments.workspaces
        if _target.SIMULATOR or workspaces is None:
            words = None if workspaces is None else workspaces.host()
            return words, arrays.pointers(words, ("u32*",))[0]
        gpu.ensure_context(self.device)
        words = workspaces.at(gpu.current_stream(self.device) if stream is None else stream)
        return words, words.address

    def _remember(self, x: Any) -> None:
        """Open the short way for arrays like x."""
        if not _target.SIMULATOR and type(x) not in self._quick:
            quick = make_quick(x, self._y_shape, self._dtype, self.fixed())
            if quick is not None:
                self._quick[type(x)] = quick

    def fixed(self) -> gpu.Fixed:
        """The kernel, which lacks two addresses and a stream."""
        before, middle, after, *_ = self._arguments
        blocks, threads, xs = self._grid[0], self.kernel.threads, len(self._x_kinds)
        workspaces = self._arguments.workspaces
        workspace = None if workspaces is None else workspaces.at
        return gpu.Fixed(self._launcher(True), blocks, threads, before, xs, middle, after, workspace)

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
        blocks = f"{self._grid[0]} block{'s' * (self._grid[0] != 1)}"
        lines.append(f"one launch of {blocks} of {self.kernel.threads} threads reads {self.nbytes} bytes")
        if _target.SIMULATOR:
            return "\n".join([*lines, "in the simulator: no time is predicted"])
        bandwidth = gpu.bandwidth()
        micros = self.nbytes / (0.9 * bandwidth) / 1e3 + 2.5
        return "\n".join([*lines, f"about {micros:.1f} us: bytes / (0.9 * {bandwidth:.0f} GB/s) + 2.5 us"])
