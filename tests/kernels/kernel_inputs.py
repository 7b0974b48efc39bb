"""What the kernels' tests share: formats, codes, words, and equality of bits."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

import feather_ref as fr
from feather_kernels import _target, driver

Array = NDArray[Any]
Choice = TypeVar("Choice")

OWN = (
    fr.minifloat(4, 3, bias=11),
    fr.minifloat(3, 1),  # 5 bits: lanes straddle words
    fr.minifloat(2, 4, bias=-3),
    fr.get_format("binary8p3se"),  # Inf on top, NaN where -0 would be
    fr.get_format("binary8p1ue"),
    fr.get_format("binary6p2uf"),
)
ROWS = (*fr.FORMATS.values(), *OWN)
WHOLE = ("e4m3", "int8")
FEW = tuple(fr.get_format(name) for name in ("e4m3", "int8", "e3m2", "e2m1", "fp16", "uf11", "e8m0"))


def some_rows(rows: Iterable[fr.Format]) -> list[fr.Format]:
    """Every row; on a GPU FEW, in which is every way to load, to round and to store."""
    return [row for row in rows if _target.SIMULATOR or row in FEW]


def in_turn(choices: Iterable[Choice], row: fr.Format) -> list[Choice]:
    """Every choice; on a GPU, where each is a kernel to compile, every one for the rows WHOLE, and one for another."""
    every = list(choices)
    if _target.SIMULATOR or row.name in WHOLE:
        return every
    return [every[ROWS.index(row) % len(every)]]


def here(array: Array) -> Any:
    """An array where the kernels run."""
    return array if _target.SIMULATOR else pytest.importorskip("cupy").asarray(array)


def some_codes(row: fr.Format, most: int = 1 << 10) -> Array:
    """Every code of a narrow row; of a wide one the ends, the powers of two, and a fixed sample."""
    if 1 << row.bits <= most:
        return np.arange(1 << row.bits).astype(fr.code_dtype(row))
    edges = [0, 1, row.max_magnitude, row.max_magnitude + 1, row.code_mask, row.sign_mask, row.sign_mask + 1]
    powers = [1 << bit for bit in range(row.bits)]
    sample = np.random.default_rng(row.bits).integers(0, 1 << row.bits, most - len(edges) - len(powers))
    return np.array([*edges, *powers, *sample.tolist()], np.uint64).astype(fr.code_dtype(row))


def deciding_numbers(row: fr.Format) -> Array:
    """Float32 around every value and midpoint of a row, both signs, and what is no number."""
    codes = some_codes(row, 256)
    values = fr.decode(codes, row).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    with np.errstate(over="ignore"):
        near = np.concatenate([values, middles, [values[-1] * 1.25, values[-1] * 2]]).astype(np.float32)
        up, down = np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))
    special = np.array([0, 1, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001], np.uint32)
    every = np.concatenate([near, up, down]).view(np.uint32)
    both = np.concatenate([every, special, every ^ np.uint32(1 << 31), special | np.uint32(1 << 31)])
    return np.unique(both).view(np.float32)


def same_bits(got: Array, wanted: Array) -> bool:
    """Whether two arrays have the same dtype, shape and bits."""
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return False
    unsigned = f"u{got.dtype.itemsize}"
    return bool((np.ascontiguousarray(got).view(unsigned) == np.ascontiguousarray(wanted).view(unsigned)).all())


def packed_codes(codes: Array, row: fr.Format, scale: Array | None = None) -> fr.PackedTensor:
    """Codes as a PackedTensor."""
    shifted = codes.astype(np.uint32) << np.uint32(row.storage_shift)
    return fr.PackedTensor(fr.pack_codes(shifted, row.storage_bits), scale, codes.shape, row)


NO_NUMBA = importlib.util.find_spec("numba") is None
NO_TOOLKIT = driver.toolkit_version() is None or NO_NUMBA


def needs_toolkit(test: Callable[..., None]) -> Callable[..., None]:
    """A test that compiles, which takes seconds a kernel and needs the extra `cubins`, which CI must have."""
    away = NO_TOOLKIT and os.environ.get("CI") != "true"
    skip = pytest.mark.skipif(away, reason="no CUDA toolkit and Numba are installed")
    return pytest.mark.toolkit(pytest.mark.slow(skip(test)))
