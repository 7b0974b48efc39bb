"""C functions as implementations: void f(const void *in, void *out, size_t n).

`in` holds n records as a pipe has them: the bits of the inputs in the width of their source, native
byte order, operands side by side.  `out` takes n results in the storage type of the target.

Source: Python reference, ctypes; System V and Windows calling conventions as ctypes has them.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]
SIGNATURE = "void f(const void *in, void *out, size_t n)"
FILL = 0xA5  # a result that is not written is not by chance a zero
GUARD = 64  # bytes behind the results that stay as they are


@dataclass(frozen=True, eq=False)
class Library:
    """A function of a shared library, called with arrays; it returns an array of `result`."""

    path: str
    symbol: str
    result: np.dtype[Any]
    function: Any = field(repr=False)

    def __call__(self, *inputs: Array) -> Array:
        """The results for arrays of one length."""
        records = join(tuple(np.asarray(column) for column in inputs))
        size = records.size * self.result.itemsize
        room = np.full(size + GUARD, FILL, np.uint8)
        self.function(records.ctypes.data, room.ctypes.data, records.size)
        if (room[size:] != FILL).any():
            raise ValueError(f"{self.symbol} writes beyond its {records.size} results")
        return room[:size].view(self.result)


def join(columns: tuple[Array, ...]) -> Array:
    """Operands side by side, as records.

    >>> join((np.array([1, 2], np.uint8), np.array([3, 4], np.uint8))).tobytes()
    b'\\x01\\x03\\x02\\x04'
    """
    if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
        raise ValueError(f"inputs: arrays of one length are wanted, got shapes {[c.shape for c in columns]}")
    if len(columns) == 1:
        return np.ascontiguousarray(columns[0])
    records = np.empty(columns[0].size, [(f"f{i}", column.dtype) for i, column in enumerate(columns)])
    for i, column in enumerate(columns):
        records[f"f{i}"] = column
    return records


def library(path: str | os.PathLike[str], symbol: str, result: DTypeLike = np.uint8) -> Library:
    """A C function as a callable.

    A call of it is a call in this process: a crash ends Python.  `check`, `conform` and the command
    `feather-ref check ID --library PATH:SYMBOL` call it in a process of its own.  result: the dtype of
    its results; those three set it by themselves.

    Raises ValueError for what is no library, or has no such function.
    """
    if not isinstance(symbol, str):
        raise TypeError(f"symbol must be a str, got {type(symbol).__name__}")
    full = Path(path).resolve()
    try:
        loaded = ctypes.CDLL(str(full))
    except OSError as error:
        raise ValueError(f"path: {os.fspath(path)!r} cannot be loaded: {error}") from error
    try:
        function = loaded[symbol]
    except AttributeError:
        raise ValueError(f"symbol: {os.fspath(path)!r} has no function {symbol!r}") from None
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    function.restype = None
    try:
        dtype = np.dtype(result)
    except TypeError as error:
        raise TypeError(f"result: {error}") from None
    if result is None:  # which NumPy takes for float64
        raise TypeError("result must be a dtype, got None")
    return Library(str(full), symbol, dtype, function)
