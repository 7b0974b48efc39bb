"""How far numbers are from what became of them: sums over groups, and the measures made of them.

Over the finite x of a group, with y what became of x; less is better in each::

    mse            sum (x - y)**2 / how many
    max_relative   the greatest abs(x - y) / abs(x), of x that are not 0
    sqnr           sum (x - y)**2 / sum x**2: the noise for a signal of 1

For one group mse and sqnr choose alike; they weigh groups differently.  A finite x that became Inf
or NaN is infinitely far.  Sums are float64, from the first number to the last, the same on every machine.

Source: design of this project.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from feather_ref._blockparts import Blocks, Values, load
from feather_ref._sweep import Array


class Sums(NamedTuple):
    """Of each group: sum (x - y)**2, sum x**2, the greatest relative error, how many x are finite."""

    noise: Values
    signal: Values
    greatest: Values
    finite: Values


def sums(x: Array, y: Array) -> Sums:
    """The sums of each row of x; x, y: (m, k).

    >>> [part.tolist() for part in sums(np.float32([[1, 4, np.inf]]), np.float32([[1, 3, 6]]))]
    [[1.0], [17.0], [0.25], [2.0]]
    """
    wide, became = values_of(x), values_of(y)
    finite = np.isfinite(wide)
    wide = np.where(finite, wide, 0.0)
    with np.errstate(all="ignore"):
        error = np.abs(wide - became)
        error[~finite] = 0.0
        error[np.isnan(error)] = np.inf
        relative = np.where(error == 0, 0.0, error / np.abs(wide))
        noise, signal = _total(error * error), _total(wide * wide)
    return Sums(noise, signal, relative.max(axis=1, initial=0), finite.sum(axis=1).astype(np.float64))


def joined(parts: Sums) -> Sums:
    """Groups made one, from the first to the last."""
    noise, signal, greatest, finite = parts
    with np.errstate(over="ignore"):
        noise, signal, finite = (_total(part[None]) for part in (noise, signal, finite))
    return Sums(noise, signal, greatest.max(keepdims=True, initial=0), finite)


def stacked(parts: list[Sums]) -> Sums:
    """Groups of several chunks, one after the other."""
    return Sums(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def values_of(x: Array) -> Values:
    """Numbers as float64, exactly, from their bits: no processor flushes a subnormal."""
    return Blocks(*load(x)).values


def _total(x: Values) -> Values:
    """The sum of each row, in order."""
    return np.add.accumulate(x, axis=1)[:, -1].copy() if x.shape[1] else np.zeros(len(x))  # the rest goes


def _ratio(a: Values, b: Values) -> Values:
    """a / b; 0 / 0 is 0, and Inf stays Inf."""
    with np.errstate(all="ignore"):
        return np.where((a == 0) | np.isinf(a), a, a / b)


MEASURES: Mapping[str, Callable[[Sums], Values]] = MappingProxyType(
    {
        "mse": lambda of: _ratio(of.noise, of.finite),
        "max_relative": lambda of: of.greatest,
        "sqnr": lambda of: _ratio(of.noise, of.signal),
    }
)
"""Every measure, by name; less is better."""


def check_measure(name: object) -> Callable[[Sums], Values]:
    """The measure of a name.  Raises TypeError or ValueError."""
    if not isinstance(name, str):
        raise TypeError(f"error must be a name, got {type(name).__name__}")
    if name not in MEASURES:
        raise ValueError(f"error must be one of {', '.join(MEASURES)}; got {name!r}")
    return MEASURES[name]


def sqnr_bits(of: Sums) -> float | None:
    """0.5 * log2(signal / noise) of one group, in bits: infinite without noise, None without a figure.

    >>> sqnr_bits(sums(np.float32([[4, 0]]), np.float32([[4, 1]])))
    2.0
    """
    noise, signal = float(of.noise[0]), float(of.signal[0])
    if noise == 0:
        return math.inf
    ratio = signal / noise
    return 0.5 * math.log2(ratio) if math.isfinite(ratio) and ratio > 0 else None
