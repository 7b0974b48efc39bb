"""Are the kernels right on this GPU?  Every code, random words, the twins, and products by replay.

Source: design of this project.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import exhaustive, twins
from feather_kernels._target import SIMULATOR
from feather_ref import ops

Check = tuple[str, bool]


def checks(processes: int = 1, names: Iterable[str] | None = None) -> Iterator[Check]:
    """Each check by name, and whether it holds; names: of formats, all where there are none, shared among processes.

    Raises ValueError for a name of no format.
    """
    names = [*fr.FORMATS, *fr.BLOCK_FORMATS] if names is None else list(names)
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            for found in pool.map(of_name, names):
                yield from found
    else:
        for name in names:
            yield from of_name(name)
    if not SIMULATOR:
        yield from twins.checks(0)


def of_name(name: str) -> list[Check]:
    """The checks of a format, or of a block format."""
    return of_blocks(name) if name in fr.BLOCK_FORMATS else of_format(name)


def of_format(name: str) -> list[Check]:
    """The checks of one format."""
    row = fr.get_format(name)
    return [*_codes(row), *_products(row, 0), *_columns(row, 0)]


def of_blocks(name: str) -> list[Check]:
    """gemv of a block format by its stated order, with any codes and scales, for some cuts."""
    fmt, rng = fr.get_block_format(name), np.random.default_rng(0)
    k = 300 if SIMULATOR else 3001
    shape = fr.blocks.scales_shape((5, k), fmt, -1)

    def codes(row: fr.Format, size: tuple[int, ...]) -> Any:
        return rng.integers(0, 1 << row.bits, size, np.uint64).astype(fr.code_dtype(row))

    whole = np.float32(0.75) if fmt.tensor_scale != "none" else None
    zeros = codes(fmt.element, shape) if fmt.zero_point else None
    W = fr.BlockTensor(codes(fmt.element, (5, k)), codes(fmt.scale, shape), fmt, -1, whole, zeros)  # noqa: N806
    x = rng.standard_normal(k).astype(np.float16)
    plans = [fk.prepare(W, cut=cut) for cut in (fk.Cut(), fk.Cut(2, 2, 4, 2), fk.Cut(parts=3))]
    right = [_same(plan(x), ops.replay(W, x, ops.Order(**plan.order()))) for plan in plans]
    return [(f"gemv {name}", all(right))]


def _same(a: Any, b: Any) -> bool:
    return bool((np.asarray(a).view(f"u{a.dtype.itemsize}") == np.asarray(b).view(f"u{b.dtype.itemsize}")).all())


def _codes(row: fr.Format) -> Iterator[Check]:
    """decode of every code of up to 16 bits, and encode of its values and midpoints."""
    if row.bits > (10 if SIMULATOR else 16):
        return
    codes = np.arange(1 << row.bits).astype(fr.code_dtype(row))
    values = fr.decode(codes, row)
    yield f"decode {row}", _same(fk.decode(codes, row), values)
    finite = np.unique(values[np.isfinite(values)])
    x = np.concatenate([finite, finite[1:] / 2 + finite[:-1] / 2])
    yield f"encode {row}", _same(fk.encode(x, row, negative="abs"), fr.encode(x, row, negative="abs"))
    yield from _tails(row, np.resize(x, 231 if SIMULATOR else 4099))


def _tails(row: fr.Format, x: Any) -> Iterator[Check]:
    """pack and unpack of rows with tails, aligned and not, NaN among them where the row has it."""
    x[::97] = np.nan if row.has_nan else 0
    shapes = [(len(x),), (3, len(x) // 12 * 4)]
    for shape in (*shapes, (5, 33)) if SIMULATOR else shapes:  # rows that are not aligned take other kernels
        part = x[: int(np.prod(shape))].reshape(shape)
        words = fr.pack(part, row, negative="abs")
        yield f"pack {row} {shape}", _same(fk.pack(part, row, negative="abs"), words)
        yield f"unpack {row} {shape}", _same(fk.unpack(words, row, shape[-1]), fr.unpack(words, row, shape[-1]))


def _products(row: fr.Format, seed: int) -> Iterator[Check]:
    """gemv by its stated order, with special codes and a tail."""
    rng = np.random.default_rng(seed)
    k = 300 if SIMULATOR else 3001
    codes = rng.integers(0, 1 << min(row.bits, 32), (5, k)).astype(np.uint64).astype(fr.code_dtype(row))
    lanes = codes.astype(np.uint32) << np.uint32(row.storage_shift)
    W = fr.PackedTensor(fr.pack_codes(lanes, row.storage_bits), None, (5, k), row)  # noqa: N806
    for x in (rng.standard_normal(k).astype(np.float16), rng.standard_normal(k).astype(np.float32)):
        plan = fk.prepare(W, x=x.dtype.name)
        yield f"gemv {row} {x.dtype}", _same(plan(x), ops.replay(W, x, ops.Order(**plan.order())))


def _columns(row: fr.Format, seed: int) -> Iterator[Check]:
    """Several columns, where tensor cores take them: within the bound, and NaN where it should be."""
    rng = np.random.default_rng(seed)
    k = 300 if SIMULATOR else 3001
    codes = rng.integers(0, 1 << min(row.bits, 32), (5, k)).astype(np.uint64).astype(fr.code_dtype(row))
    codes[:4][~fr.isfinite(codes[:4], row)] = 0  # the last row keeps them
    W = fr.PackedTensor(fr.pack_codes(codes, row.storage_bits), None, (5, k), row)  # noqa: N806
    for dtype in (np.float16, np.float32):
        x = rng.standard_normal((3, k)).astype(dtype)
        plan = fk.prepare(W, x=x.dtype.name, columns=3)
        if plan.order() is not None:
            continue
        y, exact = plan(x).astype(np.float64), ops.matmul(x, W).astype(np.float64)
        bound = ops.error_bound(W, x, ops.TensorCore(factor=plan.kernel.pairs.factor)) * plan.kernel.terms
        with np.errstate(invalid="ignore"):  # Inf minus Inf
            right = (np.abs(y - exact) <= bound) | (y == exact) | (np.isnan(y) & np.isnan(exact))
        yield f"columns {row} {x.dtype}", bool(right.all())


def every_float32(progress: bool = True) -> Iterator[exhaustive.Result]:
    """`encode` of all 2**32 float32, into the formats and by the policies that GPUs have; needs one."""
    for fmt in ("e4m3", "e5m2"):
        for overflow in ("saturate", "nonsaturating"):
            yield exhaustive.sweep(fmt, overflow, progress)
