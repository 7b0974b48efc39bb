"""The inputs that decide, with the answers of the exact oracle; used by the cross-checks.

A conversion is a step function of the input's bits, so its run list from the oracle gives the
answer for every input, and the ends of the runs are where a library can go wrong.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref import oracle
from feather_ref.formats import Format

U32 = NDArray[np.uint32]


class Steps:
    """All float32 patterns into one format, as the oracle has it."""

    def __init__(self, fmt: str | Format, **policies: Any) -> None:
        lo, hi, codes = np.array(oracle.runs(fmt, "fp32", **policies), np.int64).T
        self.lo, self.hi, self.codes = lo, hi, codes

    def inputs(self) -> U32:
        """Both ends of every run, the patterns just outside, and the middle."""
        middle = (self.lo + self.hi) // 2
        near = np.concatenate([self.lo - 1, self.lo, self.lo + 1, middle, self.hi - 1, self.hi, self.hi + 1])
        return np.unique(near[(near >= 0) & (near < 1 << 32)]).astype(np.uint32)

    def expected(self, bits: NDArray[Any]) -> NDArray[np.int64]:
        """The oracle's codes for float32 patterns."""
        return self.codes[np.searchsorted(self.hi, bits)]


def decide(row: Format, dtype: type[np.floating[Any]] = np.float64) -> NDArray[np.float64]:
    """Every value of a row and every midpoint, one step of `dtype` to each side; both signs, Inf, NaN."""
    last = row.max_magnitude + 1  # one beyond the greatest, for the overflow boundary
    values = [row.exact(magnitude) for magnitude in range(last + 1)]
    middles = [(a + b) / 2 for a, b in itertools.pairwise(values)]
    least = [values[0] / 2, values[0] / 4, Fraction(0)]
    x = np.array([float(v) for v in values + middles + least], dtype)
    near = np.concatenate([x, np.nextafter(x, dtype(np.inf)), np.nextafter(x, dtype(0)), [np.inf]])
    signed = np.concatenate([near, -near, [np.nan]]) if row.signed else np.concatenate([near, [np.nan]])
    wide = signed.astype(np.float64)
    return np.unique(wide.view(np.uint64)).view(np.float64)  # by bits, so that -0 stays
