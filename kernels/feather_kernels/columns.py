"""Several columns at once: y = plan(x), x (c, k) -> (c, n), by tensor cores or one column after the other.

Source: design of this project.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from feather_kernels import _target, arrays, calls
from feather_kernels.arrays import DTYPES
from feather_kernels.plans import Plan


class ColumnsPlan:
    """A matrix that is ready for up to `columns` columns of x: y = plan(x).

    Made by `prepare` with columns above 1.  Tensor cores take up to 8 columns a launch; where they have no
    kernel, or an order is wanted, a gemv takes one.  `explain` says which, and why.
    """

    def __init__(self, columns: int, each: int, make: Callable[[int], Plan], reason: str) -> None:
        """Keep how a plan of some columns is made, of `each` at the most; make one, which compiles.

        make(count): the plan for x of (count, k), or of (k,) where each is 1.
        """
        self.columns, self._each, self._make, self._reason = columns, each, make, reason
        self._plans: dict[int, Plan] = {}
        self._first = self._plan(min(each, columns))
        self.kernel, self.shape = self._first.kernel, self._first.shape

    def __repr__(self) -> str:
        return f"<ColumnsPlan of {self.columns} columns: {self.kernel.explain(*self.shape)[0]}>"

    def _plan(self, count: int) -> Plan:
        """The plan that takes so many columns at once."""
        found = self._plans.get(count)
        # Two threads take one plan: words go with a plan that is replaced, and a graph needs them.
        return self._plans.setdefault(count, self._make(count)) if found is None else found

    def __call__(self, x: Any, out: Any = None, stream: Any = None) -> Any:
        """x @ W.T: the product of W with every row of x.

        x: (c, k), c from 1 to columns, of the dtype that `prepare` was told.  out: (c, n), on the device, of
        the result's dtype.  stream: as for a plan of one column.

        Raises TypeError or ValueError naming the argument.
        """
        shape: tuple[int, ...] = getattr(x, "shape", ())
        if self._each > 1 and len(shape) == 2 and 1 <= shape[0] <= min(self._each, self.columns):
            return self._plan(shape[0])(x, out=out, stream=stream)
        with self._first.here():
            return self._in_parts(x, out, stream)

    def _in_parts(self, x: Any, out: Any, stream: Any) -> Any:
        """A launch for every `each` columns."""
        given = arrays.take(x, "x")
        if given.name != DTYPES[self.kernel.x]:
            raise TypeError(f"x must be {DTYPES[self.kernel.x]}, as prepared, got {given.name}")
        if len(given.shape) != 2 or not 1 <= given.shape[0] <= self.columns or given.shape[1] != self.shape[1]:
            raise ValueError(f"x must have shape (1 to {self.columns}, {self.shape[1]}), got {given.shape}")
        at, count = arrays.stream_of(stream, given), given.shape[0]
        result = (count, self.shape[0])
        made = calls.made(out, given, result, DTYPES[self.kernel.out], None if stream is None else at)
        if not _target.SIMULATOR:
            calls.check_devices(x=arrays.device_of(given.array), out=arrays.device_of(made), W=self._first.device)
        for begin in range(0, count if self.shape[0] else 0, self._each):
            some = begin if self._each == 1 else slice(begin, begin + self._each)
            plan = self._plan(min(self._each, count - begin))
            plan.launch(given._replace(array=given.array[some]), made[some], at)
        return arrays.give(given, made) if out is None else out

    @property
    def nbytes(self) -> int:
        """Bytes of W that a launch reads."""
        return int(self._first.nbytes)

    def order(self) -> Any:
        """The fields of the `feather_ref.ops.Order` that replays each column bit for bit; None where none does."""
        return self._first.order()

    def explain(self) -> str:
        """Which kernel runs, why, and how long a launch should take."""
        return f"{self._reason}\n{self._first.explain()}"
