"""W where the kernels can read it: rows of words, and what its numbers share.

    words     (n, m) of 32 bits, each row from 16 bytes on where it was made here
    scales    a code for each block, rows of blocks padded so that every vector finds all its scales
    zeros     likewise, a code a block that means zero
    scale     float32, one for the whole matrix or one a row

Source: design of this project; `feather_ref.blocks` for what the numbers of a block share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from feather_kernels import _target, arrays, calls
from feather_kernels.matvec import Gemv
from feather_kernels.operands import Shared
from feather_ref import BlockFormat, BlockTensor, Format, PackedTensor, code_dtype, decode
from feather_ref import isfinite as reference_isfinite
from feather_ref.words import codes_to_words


@dataclass(frozen=True, eq=False)
class DeviceTensor:
    """Packed rows that are on the device already, with what they mean: as PackedTensor and BlockTensor.

    words: (n, m) of 32 bits, m at least ceil(k * storage_bits / 32), of CuPy, torch ...  fmt: a format, or one
    of blocks along k.  scale: None, or float32 of size 1 or n.  scales: codes of the scales of blocks, (n, k)
    divided by the block, rounded up; zeros: likewise, where the format has them.  finite: no code is Inf or
    NaN and no scale below the normal numbers of float32, now and later; it spares a test of every word.
    """

    words: Any
    shape: tuple[int, int]
    fmt: Format | BlockFormat
    scale: Any = None
    finite: bool = False
    scales: Any = None
    zeros: Any = None

    @property
    def element(self) -> Format:
        """The row of a code."""
        return self.fmt.element if isinstance(self.fmt, BlockFormat) else self.fmt


class Matrix(NamedTuple):
    """W on the target: see the module; strides in elements, of scales in those that a kernel loads at once."""

    fmt: Format
    words: Any
    stride: int
    scale: Any
    finite: bool
    bytes: int
    shared: Shared | None = None
    scales: Any = None
    scales_stride: int = 0
    zeros: Any = None
    zeros_stride: int = 0

    @property
    def aligned(self) -> bool:
        """Whether every row starts on 16 bytes."""
        return arrays.address(self.words) % 16 == 0 and self.stride % 4 == 0


def check(W: DeviceTensor) -> None:  # noqa: N803 - the name of a matrix
    """Refuse what is no matrix on the target; what its arrays must be is seen where they are taken.

    Raises TypeError or ValueError naming the field.
    """
    if not isinstance(W.fmt, (Format, BlockFormat)):
        raise TypeError(f"fmt must be a Format or a BlockFormat, as get_format gives it, got {type(W.fmt).__name__}")
    if not isinstance(W.shape, (tuple, list)) or any(
        not hasattr(size, "__index__") or isinstance(size, bool) for size in W.shape
    ):
        raise TypeError(f"shape must be two ints, (n, k), got {W.shape!r}")
    if len(W.shape) != 2 or min(W.shape) < 0:
        raise ValueError(f"W must have two axes, (n, k), got shape {tuple(W.shape)}")
    if not isinstance(W.finite, (bool, np.bool_)):
        raise TypeError(f"finite must be a bool, got {type(W.finite).__name__}")
    for name, codes in (("words", W.words), ("scales", W.scales), ("zeros", W.zeros)):
        missing = codes is None and name != "words"
        if not missing and not (hasattr(codes, "shape") and hasattr(codes, "dtype")):
            raise TypeError(f"{name} must be an array, got {type(codes).__name__}")
        if codes is not None and name != "words" and isinstance(W.fmt, Format):
            raise ValueError(f"{name}: {W.fmt.name!r} has no blocks")


def take(W: PackedTensor | BlockTensor | DeviceTensor) -> Matrix:  # noqa: N803 - the name of a matrix
    """W on the target, uploaded where it is not there yet.

    Raises TypeError or ValueError naming the argument.
    """
    n, k = W.shape
    fmt = W.element if isinstance(W, DeviceTensor) else W.fmt if isinstance(W, PackedTensor) else W.fmt.element
    needed = -(-k * fmt.storage_bits // 32)
    words, stride = _given_rows(W.words, n, needed) if isinstance(W, DeviceTensor) else _rows(_host_words(W), needed)
    scale = W.tensor_scale if isinstance(W, BlockTensor) else W.scale
    one = floats(None if scale is None else _at_least_1d(scale), "scale", n, np.ones(1, np.float32))
    size = n * needed * 4 + one.nbytes * (scale is not None)
    matrix = Matrix(fmt, words, stride, one, _finite(W, fmt), size)
    if isinstance(W, BlockTensor):
        return _with_blocks(matrix, W.fmt, W.axis, W.scales, W.zeros, _plain(W))
    if isinstance(W.fmt, BlockFormat):
        return _with_blocks(matrix, W.fmt, -1, *_given_blocks(W, W.fmt), bool(W.finite))
    return matrix


def _at_least_1d(scale: Any) -> Any:
    return scale if hasattr(scale, "shape") and scale.shape else np.atleast_1d(scale)


# --- words ------------------------------------------------------------------------------------


def _host_words(W: PackedTensor | BlockTensor) -> Any:  # noqa: N803 - the name of a matrix
    """The words along k, the first code in the low bits."""
    if isinstance(W, PackedTensor):
        return calls.little(W)
    return W.words if W.axis == -1 else codes_to_words(W.codes, W.fmt.element, "little")


def _rows(words: Any, needed: int) -> tuple[Any, int]:
    """Rows padded to 16 bytes, on the target, and how many words lie between two of them."""
    padded = np.zeros((words.shape[0], -(-needed // 4) * 4), np.uint32)
    padded[:, :needed] = words
    return arrays.upload(_on_16(padded)), padded.shape[1]


def _given_rows(words: Any, n: int, needed: int) -> tuple[Any, int]:
    """The same of words that are there already."""
    if len(words.shape) != 2 or words.shape[0] != n or words.shape[1] < needed:
        raise ValueError(f"words must have shape ({n}, {needed} or more), got {tuple(words.shape)}")
    if arrays.dtype_name(words) not in ("uint32", "int32"):
        raise TypeError(f"words must be uint32, got {arrays.dtype_name(words)}")
    strides = words.stride() if arrays.is_torch(words) else tuple(s // 4 for s in words.strides)
    if (strides[1] != 1 and words.shape[1] > 1) or strides[0] < 0:
        raise ValueError("words must be contiguous along k, and its rows in their order")
    host = isinstance(words, np.ndarray) or (arrays.is_torch(words) and not words.is_cuda)
    if host and not _target.SIMULATOR:
        raise ValueError("words must be on the GPU; a PackedTensor or a BlockTensor is uploaded")
    return words, int(strides[0])


def _finite(W: PackedTensor | BlockTensor | DeviceTensor, fmt: Format) -> bool:  # noqa: N803 - the name of a matrix
    """Whether no code is Inf or NaN: known of device rows, found in the codes of others."""
    if not (fmt.has_nan or fmt.has_inf):
        return True
    if isinstance(W, DeviceTensor):
        return bool(W.finite)
    codes = W.codes if isinstance(W, BlockTensor) else W.codes(strict=False)
    return bool(reference_isfinite(codes, fmt).all())


def _on_16(array: Any) -> Any:
    """A host array that begins on 16 bytes."""
    if array.ctypes.data % 16 == 0:
        return array
    raw = np.empty(array.nbytes + 16, np.uint8)
    begin = -raw.ctypes.data % 16
    copy = raw[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


# --- what blocks share ------------------------------------------------------------------------


def _with_blocks(matrix: Matrix, fmt: BlockFormat, axis: int, scales: Any, zeros: Any, plain: bool) -> Matrix:
    """The matrix with the scales and zeros of its blocks."""
    rows, size = fmt.tile if axis == -1 else (fmt.tile[1], 1)
    shared = Shared(size, rows, fmt.scale, fmt.zero_point, plain)
    vectors = Gemv(matrix.fmt, shared=shared)
    codes, pitch = _padded(scales, vectors.blocks)
    at_once = vectors.scale_bits // fmt.scale.storage_bits
    bytes_read = matrix.bytes + scales.size * scales.dtype.itemsize
    made = matrix._replace(shared=shared, scales=codes, scales_stride=pitch // at_once, bytes=bytes_read)
    if zeros is None:
        return made
    codes, pitch = _padded(zeros, vectors.blocks)
    return made._replace(zeros=codes, zeros_stride=pitch, bytes=bytes_read + zeros.size * zeros.dtype.itemsize)


def _padded(codes: Any, blocks: int) -> tuple[Any, int]:
    """Rows of codes that begin on 16 bytes and end with a whole vector's, on the target, and their pitch."""
    unit = 16 // codes.dtype.itemsize * blocks
    pitch = max(1, -(-codes.shape[1] // unit)) * unit
    if isinstance(codes, np.ndarray):
        padded = np.zeros((codes.shape[0], pitch), codes.dtype)
        padded[:, : codes.shape[1]] = codes
        return arrays.upload(_on_16(padded)), pitch
    import cupy

    on_device = cupy.zeros((codes.shape[0], pitch), codes.dtype)
    on_device[:, : codes.shape[1]] = codes
    return on_device, pitch


def _given_blocks(W: DeviceTensor, fmt: BlockFormat) -> tuple[Any, Any]:  # noqa: N803 - the name of a matrix
    """Scales and zeros that are there already."""
    high, wide = fmt.tile
    shape = (-(-W.shape[0] // high), -(-W.shape[1] // wide))
    wanted = {"scales": (W.scales, fmt.scale), "zeros": (W.zeros, fmt.element)}
    if not fmt.zero_point:
        if W.zeros is not None:
            raise ValueError(f"zeros: {fmt.name!r} has no zero points")
        wanted.pop("zeros")
    for name, (codes, row) in wanted.items():
        if codes is None:
            raise ValueError(f"{name} is missing: {fmt.name!r} has {name}")
        if tuple(codes.shape) != shape:
            raise ValueError(f"{name} must have shape {shape}, got {tuple(codes.shape)}")
        if arrays.dtype_name(codes) != code_dtype(row).name:
            raise TypeError(f"{name} must be {code_dtype(row).name}, got {arrays.dtype_name(codes)}")
    return _as_array(W.scales), None if W.zeros is None else _as_array(W.zeros)


def _as_array(codes: Any) -> Any:
    """Codes of torch as an array of CuPy or NumPy."""
    if not arrays.is_torch(codes):
        return codes
    return arrays.take(codes, "scales").array if not codes.is_cuda else _from_dlpack(codes)


def _from_dlpack(codes: Any) -> Any:
    import cupy

    return cupy.from_dlpack(codes)


def _plain(W: BlockTensor) -> bool:  # noqa: N803 - the name of a matrix
    """Whether no scale is Inf or NaN, nor below the normal numbers of float32."""
    values = decode(W.scales, W.fmt.scale, np.float64)
    return bool((np.isfinite(values) & ((values == 0) | (np.abs(values) >= 2.0**-126))).all())


def ends_of_scales(matrix: Matrix, k: int) -> tuple[float, float]:
    """The least scale of a block above 0, and the greatest; of formats without a sign, whose codes rise with them."""
    if matrix.shared is None or 0 in matrix.scales.shape or not k:
        return 1.0, 1.0
    codes = matrix.scales[:, : -(-k // matrix.shared.size)]
    ends = np.array([max(int(codes.min()), int(matrix.shared.scale.has_zero)), int(codes.max())])
    least, most = np.abs(decode(ends.astype(code_dtype(matrix.shared.scale)), matrix.shared.scale, np.float64))
    return float(least), float(most)


def center_of_scales(matrix: Matrix, ends: tuple[float, float]) -> int | None:
    """An exponent c such that float16 holds every code times its scale times 2**-c; None where none is known.

    ends: of the scales, as `ends_of_scales` finds them.
    """
    if matrix.shared is None:
        return None
    least, most = ends
    if not (0 < least <= most < math.inf):
        return None
    row, scale = matrix.fmt, matrix.shared.scale
    center = math.ceil(math.log2(most * row.max / 65504))
    step = least * 2.0**-scale.mantissa_bits * float(row.exact(1)) * 2.0**-center
    return center if step >= 2.0**-24 and abs(center) <= 60 else None


# --- float32 ----------------------------------------------------------------------------------


def floats(values: Any, name: str, n: int, default: Any) -> Any:
    """(1,) or (n,) float32 on the target.

    Raises TypeError or ValueError naming the argument.
    """
    if values is None:
        return arrays.upload(default)
    given = arrays.take(values, name)
    if given.name != "float32":
        raise TypeError(f"{name} must be float32, got {given.name}")
    size = math.prod(given.shape)
    if size not in ((n,) if name == "bias" else (1, n)):
        raise ValueError(f"{name} must have {n} elements, got shape {given.shape}")
    return given.array.reshape(-1)
