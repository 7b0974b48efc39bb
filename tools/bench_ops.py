"""Time exact products beside math.fsum, fractions and NumPy: ratios in one run, one thread.

    python tools/bench_ops.py [--k 4096] [--rows 256] [--repeat 5] [--json FILE]

W is normal deviates as float32, e4m3 with a scale for each row, mxfp8 and nvfp4; x is 1 or 32 vectors of
float32.  Ours cuts W into digits once for all vectors; the others do everything for each.
math.fsum takes the products in float64, where they are exact, and rounds their sum once to float64;
fractions round nothing.  NumPy's float64 product is no peer, as it rounds each sum as it goes: it says
what exactness costs.  Each pair is first compared bit by bit, then timed in turn, in CPU seconds; a
ratio above 1 means that ours is faster.

Measured on two busy cores, ratio to math.fsum for 1 and for 32 vectors: float32 1.6 and 29, e4m3 1.8 and
34, mxfp8 2.1 and 35, nvfp4 3.9 and 39; to fractions 200 to 560; NumPy's inexact product is 20 to 200
times as fast.

Source: design of this project.
"""

from __future__ import annotations

import itertools
import json
import math
import operator
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from feather_ref import ops
from feather_ref.blocks import quantize_blocks
from feather_ref.tensors import pack_tensor

Array = NDArray[Any]
VECTORS = (1, 32)
ROWS = {"math.fsum": 16, "fractions": 2}  # of W, for peers that are slow


@dataclass(frozen=True)
class Case:
    """x @ W.T, ours and a peer's, which has the first of the rows; exact: the peer must agree."""

    what: str
    peer: str
    vectors: int
    ours: Callable[[], Array]
    theirs: Callable[[], Array]
    exact: bool


@dataclass(frozen=True)
class Result:
    """Medians in million products a CPU second, their ratio pair by pair, and results that differ."""

    what: str
    peer: str
    vectors: int
    ours: float
    theirs: float
    ratio: float
    differ: int


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
                yield Case(name, peer, m, partial(ops.matmul, vectors, matrix), theirs, peer in ROWS)


def exact_values(matrix: Any) -> Array:
    """The numbers of a matrix in float64, exactly."""
    if isinstance(matrix, np.ndarray):
        return matrix.astype(np.float64)
    if hasattr(matrix, "scales"):
        return matrix.dequantize(np.float64)
    unscaled = pack_tensor(np.zeros(1), matrix.fmt)  # the same row without a scale
    plain = type(unscaled)(matrix.words, None, matrix.shape, matrix.fmt, matrix.order).dequantize()
    return plain.astype(np.float64) * matrix.scale.astype(np.float64)


def seconds(f: Callable[[], Any]) -> float:
    """CPU seconds of one run."""
    start = time.process_time()
    f()
    return time.process_time() - start


def measure(case: Case, k: int, repeat: int) -> Result:
    """Compare, then time both in turn."""
    ours, theirs = case.ours(), case.theirs()
    differ = int(np.count_nonzero(ours[:, : theirs.shape[1]].view(np.uint32) != theirs.view(np.uint32)))
    if differ and case.exact:
        raise click.ClickException(f"{case.what}: {differ} of {theirs.size} sums differ from {case.peer}")
    pairs = [(seconds(case.ours) / ours.size, seconds(case.theirs) / theirs.size) for _ in range(repeat)]
    mine, peer = (float(k * 1e-6 / max(np.median(column), 1e-12)) for column in zip(*pairs, strict=True))
    return Result(case.what, case.peer, case.vectors, mine, peer, float(np.median([b / a for a, b in pairs])), differ)


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--k", default=4096, show_default=True, help="Numbers in a row.")
@click.option("--rows", default=256, show_default=True, help="Rows.")
@click.option("--repeat", default=5, show_default=True, help="Timed runs of each.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the figures here as well.")
def main(k: int, rows: int, repeat: int, path: Path | None) -> None:
    """Check, then time."""
    with threadpool_limits(1):
        results = [measure(case, k, repeat) for case in cases(rows, k)]
    table = Table("W", "peer", "vectors", "ours M/s", "peer M/s", "ratio", "results that differ")
    for r in results:
        figures = f"{r.ours:.1f}", f"{r.theirs:.2f}", f"{r.ratio:.3f}", str(r.differ or "")
        table.add_row(r.what, r.peer, str(r.vectors), *figures)
    Console(width=100).print(table)
    if path:
        path.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
