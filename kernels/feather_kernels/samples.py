"""Random matrices on the device to measure with, and their first rows on the host to check against.

Codes are finite, and scales of blocks are powers of two near 1 that their row has.

Source: design of this project.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import feather_ref as fr
from feather_kernels.matrices import DeviceTensor

SCALES = (0.25, 0.5, 1.0, 2.0)


def row_of(name: str) -> fr.Format | fr.BlockFormat:
    """The row of a name: of blocks where it is of both."""
    return fr.BLOCK_FORMATS.get(name) or fr.get_format(name)


def device_matrices(name: str, n: int, k: int, most: int = 300_000_000, finite: bool = True) -> list[DeviceTensor]:
    """Matrices of a format or a block format, together larger than `most` bytes, which is more than any L2 cache."""
    fmt = row_of(name)
    element = fmt.element if isinstance(fmt, fr.BlockFormat) else fmt
    stride = -(-k * element.storage_bits // 128) * 4
    copies = max(2, -(-most // (n * stride * 4)))
    words = random_words(element, (copies, n, stride))
    shared = [{}] * copies if isinstance(fmt, fr.Format) else [_shared(fmt, n, k) for _ in range(copies)]
    return [DeviceTensor(words[i], (n, k), fmt, finite=finite, **shared[i]) for i in range(copies)]


def random_words(row: fr.Format, shape: tuple[int, ...]) -> Any:
    """Words of random finite codes, on the device."""
    import cupy

    words = cupy.random.randint(0, 1 << 32, shape, dtype=cupy.uint32)
    if row.kind != "float" or not (row.has_nan or row.has_inf):
        return words
    lane = row.code_mask & ~(1 << (row.mantissa_bits + row.exponent_bits - 1))  # the highest exponent bit off
    every = sum(lane << start for start in range(0, 32, row.storage_bits)) if 32 % row.storage_bits == 0 else 0
    return words & cupy.uint32(every)


def _shared(fmt: fr.BlockFormat, n: int, k: int) -> dict[str, Any]:
    """What the blocks of a matrix share."""
    import cupy

    high, wide = fmt.tile
    shape = (-(-n // high), -(-k // wide))
    codes = cupy.asarray(fr.encode(np.array(SCALES, np.float32), fmt.scale))
    made = {"scales": codes[cupy.random.randint(0, len(SCALES), shape)]}
    if fmt.tensor_scale != "none":
        made["scale"] = cupy.full(1, 0.5, cupy.float32)
    if fmt.zero_point:
        made["zeros"] = cupy.random.randint(0, 1 << fmt.element.bits, shape).astype(fr.code_dtype(fmt.element))
    return made


def host_rows(W: DeviceTensor, rows: int) -> fr.PackedTensor | fr.BlockTensor:  # noqa: N803 - the name of a matrix
    """The first rows, for the reference."""
    (n, k), element = W.shape, W.element
    count = min(rows, n)
    words = np.ascontiguousarray(W.words[:count, : -(-k * element.storage_bits // 32)].get())
    packed = fr.PackedTensor(words, None, (count, k), element)
    if isinstance(W.fmt, fr.Format):
        return packed
    blocks = -(-count // W.fmt.tile[0])
    scales, zeros = W.scales[:blocks].get(), None if W.zeros is None else W.zeros[:blocks].get()
    whole = None if W.scale is None else np.float32(W.scale.get()[0])
    return fr.BlockTensor(packed.codes(), scales, W.fmt, -1, whole, zeros)
