"""Walk arrays of any layout in chunks: strides, byte orders, broadcasts, 0-d, empty.

np.nditer hands out one-dimensional chunks in C order and native byte order, so that memory stays
near one chunk; a chunk is a view where the array allows it.

Source: NumPy reference, numpy.nditer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 16  # elements: few enough for the second-level cache, enough to spread the cost of a call
Array = NDArray[Any]


def sweep(inputs: Sequence[Array], out: Array | None, work: Callable[..., None]) -> None:
    """Call work(start, *input chunks, out chunk) over all elements; start is a flat index.

    The inputs broadcast; `out`, if there is one, has the full shape.
    """
    arrays = [*inputs] if out is None else [*inputs, out]
    if any(array.size == 0 for array in arrays):
        return
    nditer: Any = np.nditer  # its stub wants literal lists
    iterator = nditer(
        arrays,
        flags=["external_loop", "buffered", "copy_if_overlap"],
        op_flags=[["readonly"]] * len(inputs) + [["writeonly"]] * (out is not None),
        op_dtypes=[array.dtype.newbyteorder("=") for array in arrays],
        order="C",
        casting="equiv",
        buffersize=CHUNK,
    )
    start = 0
    with iterator:
        for chunk in iterator:
            chunks = chunk if len(arrays) > 1 else (chunk,)
            work(start, *chunks)
            start += chunks[-1].size


def place(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of a flat C-order position.

    >>> place(5, (2, 3))
    (1, 2)
    """
    return tuple(int(i) for i in np.unravel_index(flat, shape))


def spell(name: str, index: tuple[int, ...]) -> str:
    """How an element is written in an error message.

    >>> spell("x", (1, 2)), spell("x", ())
    ('x[1, 2]', 'x')
    """
    return f"{name}[{', '.join(map(str, index))}]" if index else name
