"""Block formats: numbers that share a scale; `quantize_blocks` makes a `BlockTensor` of an array.

Which formats there are stands in `_blockrows`, how a scale follows from a block in `_scale_rules`.
Codes and scales are arrays of their own::

    codes    the shape of x
    scales   that shape with each block axis divided by the block, rounded up
    words    codes packed along the block axis, which comes last

The last block of a row may be ragged.  A block with a NaN has a NaN for its scale, so that the
whole block is NaN; its element codes are the canonical NaN, or 0 where the element has none.  Inf
leaves the scale alone and goes by the overflow policy.  A block of zeros keeps their signs.

Source: OCP Microscaling Formats (MX) Specification 1.0, sections 5 and 6; the rows for the others.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from feather_ref import _recipes, _scale_rules
from feather_ref._blockparts import (
    FP32,
    Blocks,
    Chunk,
    Magnitudes,
    Random,
    as_blockable,
    as_planes,
    back,
    block_last,
    check_value_dtype,
    cut,
    flushed,
    gather,
    grid_of,
    load,
    narrow,
    scatter,
    widen,
)
from feather_ref._blockrows import BLOCK_FORMATS, BlockFormat, get_block_format
from feather_ref._checks import refuse_errors
from feather_ref._scaling import Job, Scaled, ScaleRule, given, scale_values
from feather_ref._sources import bits_of, row_of
from feather_ref._sweep import Array
from feather_ref.codec import check_codes, check_random, code_dtype, decode
from feather_ref.formats import Overflow
from feather_ref.packing import Words
from feather_ref.policy import Nan, Policy, Subnormals, resolve
from feather_ref.rounding import Rounding
from feather_ref.words import codes_to_words

__all__ = [
    "BLOCK_FORMATS",
    "SCALE_RULES",
    "BlockFormat",
    "BlockTensor",
    "ScaleRule",
    "get_block_format",
    "quantize_blocks",
]


SCALE_RULES: Mapping[str, ScaleRule] = MappingProxyType(
    {rule.name: rule for rule in (*_scale_rules.ROWS, *_recipes.ROWS)}
)
"""Every scale rule, by name."""


@dataclass(frozen=True, eq=False, repr=False)
class BlockTensor:
    """Numbers in blocks, with all that is needed to read them.

    codes: element codes of `shape`, dtype `code_dtype(fmt.element)`.  scales: codes of fmt.scale, of
    the shape of the blocks.  fmt: a block format or its name.  axis: that a block runs along.
    tensor_scale: float32, where the format has one.  zeros: element codes that mean zero, of the
    shape of scales, where the format has them.

    >>> tensor = BlockTensor(np.array([0x38, 0xC0], np.uint8), np.array([128], np.uint8), "mxfp8")
    >>> tensor
    BlockTensor(mxfp8_e4m3, shape=(2,), axis=-1, scales=(1,), padded, 5 bytes)
    >>> tensor.dequantize()
    array([ 2., -4.], dtype=float32)

    Raises TypeError or ValueError where these do not fit together.
    """

    codes: Array
    scales: Array
    fmt: BlockFormat
    axis: int = -1
    tensor_scale: np.float32 | None = None
    zeros: Array | None = None

    def __post_init__(self) -> None:
        fmt = get_block_format(self.fmt)
        codes = check_codes(self.codes, fmt.element, "codes")
        axis = check_axis(self.axis, codes.shape, fmt)
        expected = scales_shape(codes.shape, fmt, axis)
        scales = check_codes(self.scales, fmt.scale, "scales")
        if scales.shape != expected:
            raise ValueError(f"scales has shape {scales.shape}; {fmt.name!r} blocks of {codes.shape} have {expected}")
        zeros = _check_zeros(self.zeros, fmt, expected)
        whole = _check_tensor_scale(self.tensor_scale, fmt)
        named = {"codes": codes, "scales": scales, "fmt": fmt, "axis": axis, "tensor_scale": whole, "zeros": zeros}
        for name, value in named.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        padded = "padded, " if self.padded else ""
        scales = f"scales={self.scales.shape}"
        return f"BlockTensor({self.fmt}, shape={self.shape}, axis={self.axis}, {scales}, {padded}{self.nbytes} bytes)"

    def __array__(self, dtype: object = None, copy: object = None) -> Array:
        """No array is meant without a word: np.asarray of this is a TypeError."""
        raise TypeError("a BlockTensor is not an array: use .dequantize(), .codes or .words")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the numbers."""
        return self.codes.shape

    @cached_property
    def scale_values(self) -> NDArray[np.float32]:
        """The values of the scales, without the tensor's."""
        return decode(self.scales, self.fmt.scale, np.float32)

    @cached_property
    def words(self) -> Words:
        """uint32: the codes packed along the block axis, which comes last; first code in the low bits."""
        return codes_to_words(np.moveaxis(self.codes, self.axis, -1), self.fmt.element, "little")

    @property
    def padded(self) -> bool:
        """Whether a last block is ragged: its missing numbers count as +0 and have no codes here."""
        sizes = self.shape[-2:] if self.fmt.tile[0] > 1 else self.shape[self.axis :][:1]
        tile = self.fmt.tile if self.fmt.tile[0] > 1 else self.fmt.tile[1:]
        return any(size % k for size, k in zip(sizes, tile, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of words, scales, zeros and the tensor's scale."""
        n = self.shape[self.axis]
        rows = math.prod(self.shape) // n if n else 0
        words = rows * -(-n * self.fmt.element.storage_bits // 32) * 4
        shared = self.fmt.scale.storage_bits + self.fmt.zero_point * self.fmt.element.storage_bits
        return words + -(-self.scales.size * shared // 8) + (0 if self.tensor_scale is None else 4)

    @property
    def bits_per_value(self) -> float:
        """Bits of all that is stored for each number; 0 for an empty tensor."""
        return 8 * self.nbytes / self.codes.size if self.codes.size else 0.0

    def dequantize(self, dtype: DTypeLike = np.float32) -> Array:
        """The values: the exact product, rounded once to float32, or exact in float64.

        Beyond the greatest float32 they are Inf.  A NaN is the canonical one.

        Raises TypeError for another dtype.
        """
        wanted = check_value_dtype(dtype)
        planes = as_planes(self.codes, self.axis, self.fmt.tile)
        grid = grid_of(planes.shape, self.fmt.tile)
        scales = block_last(self.scales, self.axis, grid)
        zeros = None if self.zeros is None else block_last(self.zeros, self.axis, grid)
        out = np.empty(planes.shape, wanted)
        for chunk in cut(planes.shape, self.fmt.tile):
            codes = gather(planes, chunk, self.fmt.tile)
            values = self._products(codes, scales[chunk.blocks], None if zeros is None else zeros[chunk.blocks])
            scatter(values if wanted == np.float64 else narrow(values).view(np.float32), out, chunk, self.fmt.tile)
        return back(out, self.shape, self.axis)

    def _products(self, codes: Array, scales: Array, zeros: Array | None) -> NDArray[np.float64]:
        """element * scale * tensor scale of a chunk, exactly."""
        values = decode(codes, self.fmt.element, np.float64)
        with np.errstate(invalid="ignore"):  # Inf * 0 is NaN
            if zeros is not None:
                values -= decode(zeros.reshape(-1, 1), self.fmt.element, np.float64)
            values *= scale_values(scales.reshape(-1, 1), self.fmt.scale)
            if self.tensor_scale is not None:
                values *= widen(np.atleast_1d(self.tensor_scale).view(np.uint32))
        values[np.isnan(values)] = np.nan
        return values


class BlockPolicies(TypedDict, total=False):
    """The policies of `encode` that elements follow; see `Policies`."""

    overflow: Overflow | None
    subnormals: Subnormals


def quantize_blocks(
    x: object,
    bfmt: str | BlockFormat,
    axis: int = -1,
    scale_rule: str | None = None,
    rounding: Rounding | None = None,
    nan: Nan | str | None = None,
    *,
    random_bits: ArrayLike | None = None,
    n_bits: int | None = None,
    **policies: Unpack[BlockPolicies],
) -> BlockTensor:
    """Quantize an array in blocks.

    x: float16, bfloat16, float32, float64, other floats of ml_dtypes, integers up to 2**53; any
    shape and strides, empty too; 0-d counts as (1,).  bfmt: a name of `BLOCK_FORMATS` or a
    BlockFormat.  axis: that blocks run along; tiles of two axes take the last two.  scale_rule: a
    name of `SCALE_RULES`; None is the format's.  rounding: of the elements; None is the rule's,
    nearest_even for most.  nan: "scale" (the default: a NaN makes its whole block NaN), or what
    `encode` does with the element, whose block then keeps a number for its scale.  random_bits: for
    stochastic rounding of the elements, integers below 2**n_bits that broadcast to x; scales are as
    without it.  policies: overflow and subnormals of the elements; "flush_input" takes the
    subnormals of x for zeros before anything is scaled.

    >>> x = np.array([0.5, -3.0, 40.0, 0.0], np.float32)
    >>> tensor = quantize_blocks(x, "mxfp4")
    >>> [hex(c) for c in tensor.codes], [hex(c) for c in tensor.scales], tensor.scale_values.tolist()
    (['0x0', '0x9', '0x6', '0x0'], ['0x82'], [8.0])
    >>> tensor.dequantize().tolist()
    [0.0, -4.0, 32.0, 0.0]

    Raises TypeError or ValueError naming the argument, the value and its index.
    """
    fmt = get_block_format(bfmt)
    rule = _rule(fmt.scale_rule if scale_rule is None else scale_rule, fmt)
    array = np.atleast_1d(as_blockable(x))
    axis = check_axis(axis, array.shape, fmt)
    poison, policy = _policy(fmt, rule, rounding, nan, policies)
    random = check_random(policy.rounding, random_bits, n_bits, array.shape)
    refuse_errors(bits_of(array), row_of(array.dtype), policy, "x")
    flush = policy.subnormals == "flush_input"
    planes = as_planes(array, axis, fmt.tile)
    operand = None if random is None else Random(as_planes(random[0], axis, fmt.tile), random[1])
    source = _Source(planes, fmt.tile, rule.single, flush, operand)
    job = Job(fmt, replace(policy, subnormals="keep") if flush else policy, _whole(source, fmt))
    codes = np.empty(planes.shape, code_dtype(fmt.element))
    scales = np.empty(grid_of(planes.shape, fmt.tile), code_dtype(fmt.scale))
    zeros = np.empty(scales.shape, codes.dtype) if fmt.zero_point else None
    for chunk in cut(planes.shape, fmt.tile):
        scaled, part = _quantized(source.blocks(chunk), rule, job, poison)
        scatter(part, codes, chunk, fmt.tile)
        scales[chunk.blocks] = scaled.codes.reshape(scales[chunk.blocks].shape)
        if zeros is not None:
            zeros[chunk.blocks] = given(scaled.zeros).reshape(zeros[chunk.blocks].shape)
    grid = scales_shape(array.shape, fmt, axis)
    return BlockTensor(
        back(codes, array.shape, axis),
        back(scales, grid, axis),
        fmt,
        axis,
        None if fmt.tensor_scale == "none" else narrow(np.array([rule.tensor_scale(job)])).view(np.float32)[0],
        None if zeros is None else back(zeros, grid, axis),
    )


@dataclass(frozen=True, eq=False)
class _Source:
    """What is quantized, a chunk at a time.  single: as float32; flush: subnormals are zeros."""

    planes: Array
    tile: tuple[int, int]
    single: bool
    flush: bool
    random: Random | None

    def numbers(self, chunk: Chunk) -> Blocks:
        """The numbers of a chunk."""
        part = gather(self.planes, chunk, self.tile)
        return Blocks(*load(flushed(part) if self.flush else part, self.single))

    def blocks(self, chunk: Chunk) -> Blocks:
        """The same, with their part of the operand of stochastic rounding."""
        numbers = self.numbers(chunk)
        if self.random is None:
            return numbers
        return replace(numbers, random=self.random._replace(bits=gather(self.random.bits, chunk, self.tile)))


def _quantized(blocks: Blocks, rule: ScaleRule, job: Job, poison: bool) -> tuple[Scaled, Array]:
    """Scales and element codes of a chunk; poison: a NaN becomes the scale of its block."""
    scaled = rule.scale(blocks, job)
    codes = rule.elements(blocks, scaled, job)
    if poison and blocks.nan.any():
        scaled.codes[blocks.nan] = job.bfmt.scale.canonical_nan
        codes[blocks.nan] = job.bfmt.element.canonical_nan or 0
    return scaled, codes


# --- policies ---------------------------------------------------------------------------------


def _rule(name: object, fmt: BlockFormat) -> ScaleRule:
    if not isinstance(name, str):
        raise TypeError(f"scale_rule must be a name, got {type(name).__name__}")
    if name not in SCALE_RULES:
        raise ValueError(f"scale_rule must be one of {', '.join(SCALE_RULES)}; got {name!r}")
    rule = SCALE_RULES[name]
    if lack := rule.lacks(fmt):
        raise ValueError(f"scale_rule={name!r} is not for {fmt.name!r}: {lack}")
    return rule


def _policy(
    fmt: BlockFormat, rule: ScaleRule, rounding: Rounding | None, nan: Nan | str | None, others: BlockPolicies
) -> tuple[bool, Policy]:
    """Whether a NaN becomes the scale, and the policy of the elements."""
    known = BlockPolicies.__annotations__
    if unknown := [name for name in others if name not in known]:
        raise TypeError(f"unexpected argument {unknown[0]!r}; policies of blocks are {', '.join(known)}")
    if nan is None:
        nan = "scale" if fmt.scale.has_nan else "error"
    if rule.rounding is None and rounding is not None:
        raise ValueError(f"rounding={rounding!r}: the rule {rule.name!r} has a rounding of its own")
    poison = isinstance(nan, str) and nan == "scale"
    if poison:
        if not fmt.scale.has_nan:
            raise ValueError(f"nan='scale': the scale {fmt.scale.name!r} of {fmt.name!r} has no NaN")
        nan = "canonical" if fmt.element.has_nan else "zero"
    wanted: Any = {"rounding": rounding or rule.rounding or "nearest_even", "nan": nan, **others}
    return poison, resolve(fmt.element, **wanted)


# --- shapes -----------------------------------------------------------------------------------


def check_axis(axis: Any, shape: tuple[int, ...], fmt: BlockFormat) -> int:
    """The axis as a negative number; tiles of two axes take the last."""
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise TypeError(f"axis must be an int, got {type(axis).__name__}")
    index = operator.index(axis)
    if not -len(shape) <= index < len(shape):
        raise ValueError(f"axis={index} is out of range for shape {shape}")
    index -= len(shape) if index >= 0 else 0
    if fmt.tile[0] > 1 and (index != -1 or len(shape) < 2):
        raise ValueError(f"axis={axis}: tiles of {fmt.name!r} take the last two axes, axis -1; x has shape {shape}")
    return index


def scales_shape(shape: tuple[int, ...], fmt: BlockFormat, axis: int) -> tuple[int, ...]:
    """The shape of the blocks.

    >>> scales_shape((2, 33), get_block_format("mxfp8"), -1), scales_shape((64, 5), get_block_format("mxfp8"), -2)
    ((2, 2), (2, 5))
    """
    sizes = list(shape)
    for place, k in ((axis, fmt.tile[1]), (axis - 1, fmt.tile[0])):
        if k > 1:
            sizes[place] = -(-sizes[place] // k)
    return tuple(sizes)


def _whole(source: _Source, fmt: BlockFormat) -> Magnitudes:
    """The greatest finite magnitude of the tensor, for formats that have a tensor scale."""
    bits: Array = np.zeros(1, np.uint32)
    row = FP32
    if fmt.tensor_scale != "none":
        for chunk in cut(source.planes.shape, fmt.tile):
            part = source.numbers(chunk)
            row = part.row
            bits = np.maximum(bits, part.top.max(keepdims=True))
    return Magnitudes(bits, row)


def _check_zeros(zeros: Any, fmt: BlockFormat, shape: tuple[int, ...]) -> Array | None:
    if (zeros is not None) != fmt.zero_point:
        raise ValueError(f"zeros: {fmt.name!r} has {'' if fmt.zero_point else 'no '}zero points")
    if zeros is None:
        return None
    codes = check_codes(zeros, fmt.element, "zeros")
    if codes.shape != shape:
        raise ValueError(f"zeros has shape {codes.shape}, not {shape}")
    return codes


def _check_tensor_scale(scale: Any, fmt: BlockFormat) -> np.float32 | None:
    if (scale is not None) != (fmt.tensor_scale != "none"):
        raise ValueError(f"tensor_scale: {fmt.name!r} has {'one' if scale is None else 'none'}")
    if scale is None:
        return None
    array = np.asarray(scale)
    if array.dtype.newbyteorder("=") != np.dtype(np.float32) or array.shape != ():
        raise TypeError(f"tensor_scale must be a float32 scalar, got dtype {array.dtype} of shape {array.shape}")
    bits = int(array.astype(np.dtype(np.float32)).view(np.uint32))
    if not 0 < bits < FP32.exponent_mask:
        raise ValueError(f"tensor_scale = 0x{bits:08X} is not finite and positive")
    return np.uint32(bits).view(np.float32)
