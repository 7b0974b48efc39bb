"""Order: in which sequence a kernel multiplies and adds, so that its float32 result can be replayed.

One row of W times x, k numbers each, is divided among splits, warps and lanes::

    split s     k in [s * part, (s + 1) * part)    part = ceil(k / (splits * stride)) * stride
    warp w      at w * lanes * vector              of every stride = warps * lanes * vector
    lane t      at t * vector                      of the warp's lanes * vector
    position p  at elements[p]                     of the lane's vector numbers

    acc[j] = fma(w, x, acc[j])    from +0, load by load, in the order of the positions; the q-th
                                  fma of a lane goes to accumulator j = (q // run) % accumulators

Warps that each take one contiguous part of k are splits.  Rows that a warp works on side by side do
not show: each has its own accumulators.

Then one value is left of the accumulators of a lane, of the lanes of a warp, of the warps and of
the splits, in this order, each by a named sum::

    "serial"       ((v0 + v1) + v2) + ...
    "butterfly"    v[i] = add(v[i], v[i ^ o]) at once for all i, for o = n/2, ..., 2, 1
    (1, 2, 4)      the same with offsets of one's own

Source: design of this project.
"""

from __future__ import annotations

import dataclasses
import json
import operator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from feather_ref.formats import check_int

Sum = Literal["serial", "butterfly"] | tuple[int, ...]
Tail = Literal["skip", "vector", "stride"]

TAILS: tuple[str, ...] = get_args(Tail)
_MOST = 1 << 16  # of anything that is counted here


@dataclass(frozen=True, repr=False)
class Order:
    """The sequence of operations of one output of a kernel; see the module for k, sums and fma.

    vector: numbers that a lane takes together, side by side along k.  elements: the order in which
    it takes them, a permutation of range(p) that repeats every p numbers.  lanes, warps, splits: how
    many share a row.  accumulators, run: above.  sum_accumulators, sum_lanes, sum_warps,
    sum_splits: above; a butterfly needs a power of two.

    tail, what becomes of positions past the end of k: "skip" nothing is done; "vector" a vector that
    begins before the end is multiplied in full; "stride" all vectors of a stride that begins before
    the end are.  There the weight is that of code 0, x is +0 and a block's scale is 1.

    factor, x_factor: powers of two, as exponents, which make up for a cheap decoding: the
    weight enters as w * 2**-(x_factor + factor), x as x * 2**x_factor, and the sum is multiplied by
    2**factor.  fold: that factor is multiplied into the scale (of the block, else of the row or
    tensor) where there is one, and not into the sum.

    Blocks: the numbers of one vector that share a scale have accumulators of their own, from +0; when
    the vector is done, block by block, acc = fma(their sum, scale, acc), acc from +0.

    At the end, one step each where it applies: times 2**factor, times scale, plus bias, all in
    float32; fused: the last two are one fma(sum, scale, bias).  Then one rounding to the output.

    >>> Order(vector=4, accumulators=2)
    Order(vector=4, accumulators=2)
    >>> Order.from_json(Order(vector=4).to_json()) == Order(vector=4)
    True

    Raises TypeError or ValueError naming the field.
    """

    vector: int = 16
    elements: tuple[int, ...] = (0,)
    lanes: int = 32
    warps: int = 1
    splits: int = 1
    accumulators: int = 1
    run: int = 1
    sum_accumulators: Sum = "serial"
    sum_lanes: Sum = "butterfly"
    sum_warps: Sum = "serial"
    sum_splits: Sum = "serial"
    tail: Tail = "skip"
    factor: int = 0
    x_factor: int = 0
    fold: bool = True
    fused: bool = False

    def __post_init__(self) -> None:
        for name in ("vector", "lanes", "warps", "splits", "accumulators", "run"):
            self._set(name, check_int(name, getattr(self, name), 1, _MOST))
        for name in ("factor", "x_factor"):
            self._set(name, check_int(name, getattr(self, name), -126, 127))  # normal float32
        for name in ("fold", "fused"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be a bool, got {type(getattr(self, name)).__name__}")
        if self.tail not in TAILS:
            raise ValueError(f"tail must be one of {', '.join(TAILS)}; got {self.tail!r}")
        self._set("elements", _check_elements(self.elements, self.vector))
        for name in ("accumulators", "lanes", "warps", "splits"):
            field = f"sum_{name}"
            self._set(field, _check_sum(field, getattr(self, field), name, getattr(self, name)))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        changed = {key: value for key, value in self._fields().items() if value != _DEFAULTS[key]}
        return f"Order({', '.join(f'{key}={value!r}' for key, value in changed.items())})"

    def __str__(self) -> str:
        """The order in a few lines of plain text."""
        return "\n".join(_lines(self))

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def lane_stride(self) -> int:
        """How far lanes lie apart along k."""
        return self.vector

    @property
    def warp_stride(self) -> int:
        """How far warps lie apart along k."""
        return self.lanes * self.vector

    @property
    def stride(self) -> int:
        """How far a lane's loads lie apart along k."""
        return self.warps * self.lanes * self.vector

    def loads(self, k: int) -> int:
        """How many vectors of its part of k a lane takes, the last ones perhaps empty.

        >>> Order(vector=16, splits=2).loads(1024), Order(vector=16).loads(1025)
        (1, 3)
        """
        return -(-k // (self.splits * self.stride))

    def indices(self, k: int) -> NDArray[np.int64]:
        """Which k each lane takes when: (loads, vector, splits, warps, lanes), by load and position.

        Numbers of k and more are past the end.

        >>> Order(vector=2, elements=(1, 0), lanes=2).indices(5)[:, :, 0, 0].tolist()
        [[[1, 3], [0, 2]], [[5, 7], [4, 6]]]
        """
        loads = self.loads(k)
        starts = np.ogrid[:loads, :1, : self.splits, : self.warps, : self.lanes]
        strides = (self.stride, 0, loads * self.stride, self.warp_stride, self.lane_stride)
        where = np.array(self.positions(), np.int64).reshape(-1, 1, 1, 1)
        for start, stride in zip(starts, strides, strict=True):
            where = where + start * stride
        return where

    def positions(self) -> tuple[int, ...]:
        """The order of the numbers of one vector, written out.

        >>> Order(vector=4, elements=(1, 0)).positions()
        (1, 0, 3, 2)
        """
        period = len(self.elements)
        return tuple(start + e for start in range(0, self.vector, period) for e in self.elements)

    def live(self, k: int) -> NDArray[np.bool_]:
        """Which of `indices(k)` are multiplied: all before the end, and what `tail` says."""
        where = self.indices(k)
        if self.tail == "skip":
            return where < k
        starts = where - np.array(self.positions()).reshape(-1, 1, 1, 1)  # of the vectors
        if self.tail == "stride":
            starts = starts[..., :1, :1]
        return np.broadcast_to(starts < k, where.shape)

    def to_json(self) -> str:
        """Every field as a JSON object."""
        return json.dumps(self._fields())

    @classmethod
    def from_json(cls, text: str) -> Order:
        """The order that a JSON object states; fields that are left out have their defaults.

        >>> Order.from_json('{"vector": 8, "lanes": 4, "sum_lanes": [1, 2]}')
        Order(vector=8, lanes=4, sum_lanes=(1, 2))

        Raises TypeError or ValueError naming the field.
        """
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"text is not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise ValueError(f"text must be a JSON object, got {type(fields).__name__}")
        unknown = [key for key in fields if key not in _DEFAULTS]
        if unknown:
            raise ValueError(f"an Order has no field {unknown[0]!r}; it has {', '.join(_DEFAULTS)}")
        values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()}
        return cls(**values)


_DEFAULTS: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(Order)}


def offsets(how: Sum, n: int) -> tuple[int, ...]:
    """The offsets of a butterfly over n values.

    >>> offsets("butterfly", 32), offsets((1, 2), 4)
    ((16, 8, 4, 2, 1), (1, 2))
    """
    if isinstance(how, tuple):
        return how
    return tuple(1 << bit for bit in reversed(range(n.bit_length() - 1)))


# --- checks -----------------------------------------------------------------------------------


def _ints(name: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)) or any(isinstance(v, bool) or not hasattr(v, "__index__") for v in value):
        raise TypeError(f"{name} must be a tuple of ints, got {value!r}")
    return tuple(operator.index(v) for v in value)


def _check_elements(elements: object, vector: int) -> tuple[int, ...]:
    period = _ints("elements", elements)
    if sorted(period) != list(range(len(period))) or not period or vector % len(period):
        raise ValueError(f"elements must be a permutation of range(p), p a divisor of vector={vector}; got {period}")
    return (0,) if period == tuple(range(len(period))) else period


def _check_sum(field: str, how: object, name: str, n: int) -> Sum:
    """A sum over n values; offsets that are those of a name become the name."""
    if isinstance(how, str):
        if how == "serial":
            return "serial"
        if how != "butterfly":
            raise ValueError(f"{field} must be 'serial', 'butterfly' or offsets; got {how!r}")
        if n & (n - 1):
            raise ValueError(f"{field}: a butterfly needs a power of two, and {name}={n}")
        return "butterfly"
    chosen = _ints(field, how)
    if n & (n - 1) or sorted(chosen) != sorted(offsets("butterfly", n)):
        raise ValueError(f"{field} must have each power of two below {name}={n} once; got {chosen}")
    return "butterfly" if chosen == offsets("butterfly", n) else chosen


# --- text -------------------------------------------------------------------------------------


def _lines(order: Order) -> list[str]:
    """What `str` says."""
    o = order
    lines = [
        f"{o.splits} x {o.warps} x {o.lanes} splits, warps, lanes share a row; a lane takes {o.vector} at a time",
        f"split s, warp w, lane t, load i: k = s * part + {o.stride} i + {o.warp_stride} w + {o.lane_stride} t; "
        f"part = {o.stride} * ceil(k / {o.splits * o.stride})",
    ]
    if len(o.elements) > 1:
        lines.append(f"order within a vector: {', '.join(map(str, o.elements))}, and so on")
    lines.append(f"acc = fma(w, x, acc) from +0; past the end of k: {o.tail}")
    if o.accumulators > 1:
        lines.append(f"{o.accumulators} accumulators, changing every {o.run}")
    for name in ("accumulators", "lanes", "warps", "splits"):
        n = getattr(o, name)
        how = getattr(o, f"sum_{name}")
        if n > 1:
            text = "in order" if how == "serial" else f"butterfly {', '.join(map(str, offsets(how, n)))}"
            lines.append(f"sum over {name}: {text}")
    if o.factor or o.x_factor:
        where = "the scale, else the sum" if o.fold else "the sum"
        lines.append(f"w enters times 2**{-o.factor - o.x_factor}, x times 2**{o.x_factor}; 2**{o.factor} into {where}")
    lines.append("then fma(sum, scale, bias)" if o.fused else "then times scale, plus bias")
    return lines
