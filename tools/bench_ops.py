"""Time exact products beside math.fsum, fractions and NumPy: ratios in one run, one thread.

    python tools/bench_ops.py [--k 4096] [--rows 256] [--repeat 5] [--json FILE]

W is normal deviates as float32, e4m3 with a scale for each row, mxfp8 and nvfp4; x is 1 or 32 vectors of
float32.  Ours cuts W into digits once for all vectors; the others do everything for each.
math.fsum takes the products in float64, where they are exact, and rounds their sum once to float64;
fractions round nothing.  NumPy's float64 product is no peer, as it rounds each sum as it goes: it says
what exactness costs.  Each pair is first compared bit by bit, then timed in turn; see peers.py.

Measured on two busy cores, ratio to math.fsum for 1 and for 32 vectors: float32 1.6 and 29, e4m3 1.8 and
34, mxfp8 2.1 and 35, nvfp4 3.9 and 39; to fractions 200 to 560; NumPy's inexact product is 20 to 200
times as fast.

Source: design of this project.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from feather_ref import ops
from feather_ref.blocks import quantize_blocks
from feather_ref.tensors import pack_tensor
from peers import JSON, Case, measure_all, show, write

Array = NDArray[Any]
HEAD = ("W", "vectors", "peer")
VECTORS = (1, 32)
ROWS = {"math.fsum": 16, "fractions": 2}  # of W, for peers that are slow


def by_fsum(x: Array, w: Array) -> Array:
    """Products, exact in float64, summed by math.fsum, row by row."""
    return np.array([[math.fsum(row) for row in (w * vector).tolist()] for vector in x]).astype(np.float32)


def by_fractions(x: Array, w: Array) -> Array:
    """Each row in fractions, rounded once to float64 and then to float32."""
    sums = [[sum(map(operator.mul, _fractions(row), _fractions(v)), Fraction(0)) for row in w] for v in x[:1]]
    return np.array([[float(total) for total in row] for row in sums]).astype(np.float32)


def _fractions(row: Array) -> list[Fraction]:
    return [Fraction(v) for v in row.tolist()]


def by_numpy(x: Array, w: Array) -> Array:
    """As it rounds."""
    return (x @ w.T).astype(np.float32)


PEERS = {"math.fsum": by_fsum, "fractions": by_fractions, "NumPy, inexact": by_numpy}


def cases(rows: int, k: int) -> Iterator[Case]:
    """Every format beside every peer."""
    rng = np.random.default_rng(20260101)
    w, x = rng.standard_normal((rows, k), np.float32), rng.standard_normal((max(VECTORS), k), np.float32)
    formats: dict[str, Any] = {
        "float32": w, "e4m3/row": pack_tensor(w, "e4m3", scale="row"), "mxfp8": quantize_blocks(w, "mxfp8"),
        "nvfp4": quantize_blocks(w, "nvfp4"),
    }  # fmt: skip
    for name, matrix in formats.items():
        values = exact_values(matrix)
        for m, (peer, product) in itertools.product(VECTORS, PEERS.items()):
            if peer != "fractions" or m == 1:
                vectors, few = x[:m], values[: ROWS.get(peer, rows)]
                theirs = partial(product, vectors.astype(np.float64), few)
                sizes = m * rows * k, m * len(few) * k
                ours, exact = partial(ops.matmul, vectors, matrix), peer in ROWS
                yield Case((name, str(m), peer), ours, theirs, *sizes, differing, exact)


def exact_values(matrix: Any) -> Array:
    """The numbers of a matrix in float64, exactly."""
    if isinstance(matrix, np.ndarray):
        return matrix.astype(np.float64)
    if hasattr(matrix, "scales"):
        return matrix.dequantize(np.float64)
    unscaled = pack_tensor(np.zeros(1), matrix.fmt)  # the same row without a scale
    plain = type(unscaled)(matrix.words, None, matrix.shape, matrix.fmt, matrix.order).dequantize()
    return plain.astype(np.float64) * matrix.scale.astype(np.float64)


def differing(ours: Array, theirs: Array) -> int:
    """How many sums differ, of the rows that the peer has."""
    return int(np.count_nonzero(ours[:, : theirs.shape[1]].view(np.uint32) != theirs.view(np.uint32)))


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--k", default=4096, show_default=True, help="Numbers in a row.")
@click.option("--rows", default=256, show_default=True, help="Rows.")
@click.option("--repeat", default=5, show_default=True, help="Timed runs of each.")
@JSON
def main(k: int, rows: int, repeat: int, path: Path | None) -> None:
    """Check, then time."""
    with threadpool_limits(1):
        results = measure_all(list(cases(rows, k)), repeat)
    show(HEAD, results, {})
    if path:
        write(path, HEAD, results, {}, rows * k, ())


if __name__ == "__main__":
    main()
