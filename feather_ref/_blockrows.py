"""THE TABLE of block formats: one frozen row each; numbers that share a scale.

A block is a run of numbers along one axis, or a tile of the two last axes.  Each number has an
element code, each block a scale code, and some formats one float32 for the whole tensor::

    value = element * scale                    mxfp8, mxfp6, mxfp4, mxint8, FP8 blocks, groups, ggml
    value = element * scale * tensor scale     nvfp4
    value = (element - zero) * scale           groups with a zero point

Source: each row names its document.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Literal, get_args

from feather_ref.formats import FORMATS, Format, Source, get_format

TensorScale = Literal["none", "float32"]
Layout = Literal["dense", "ggml", "ggml_x4"]

_MOST_BITS = 46  # of a product: a quotient in float64 then lies on the right side of every boundary
_OWN = Source("user-defined")


@dataclass(frozen=True)
class BlockFormat:
    """One block format.  Frozen and hashable; build one to bring your own.

    element, scale: rows.  A signed scale is for ggml, whose scales may be negative.
    block: (k,) is k numbers along one axis; (r, c) is a tile of the two last axes.
    scale_rule: the name of the rule that None means in `quantize_blocks`.
    tensor_scale: "float32" where a whole tensor has a scale of its own, else "none".
    zero_point: each block has an element code that means zero.
    layout: how the bytes of a file stand: "dense" (elements, then scales, apart), "ggml" (each block
        its scale, then its elements) or "ggml_x4" (four scales, then four blocks of elements).
        Codes and words are the same in all.

    >>> from feather_ref.formats import FORMATS
    >>> tiny = BlockFormat("tiny", FORMATS["e2m1"], (8,), FORMATS["ue5m3"], "amax")
    >>> tiny.size, tiny.bits_per_value
    (8, 5.0)

    Raises TypeError or ValueError for a row that contradicts itself.
    """

    name: str
    element: Format
    block: tuple[int, ...]
    scale: Format
    scale_rule: str
    tensor_scale: TensorScale = "none"
    zero_point: bool = False
    layout: Layout = "dense"
    source: Source = _OWN
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(self)

    def __str__(self) -> str:
        return self.name

    @property
    def spare_code(self) -> int | None:
        """The element code that another implementation need not give: -2 of MX's int8 may be -(2 - 2**-6) (MX 1.0)."""
        return self.element.sign_mask if self.element.name == "mxint8" else None

    @property
    def tile(self) -> tuple[int, int]:
        """The block as (rows, columns); rows is 1 for a block along one axis."""
        return (1, self.block[0]) if len(self.block) == 1 else (self.block[0], self.block[1])

    @property
    def size(self) -> int:
        """Numbers in a block."""
        return math.prod(self.block)

    @property
    def emax(self) -> int:
        """floor(log2) of the greatest element: what the OCP rule subtracts.

        >>> [get_block_format(name).emax for name in ("mxfp8_e4m3", "mxfp4", "mxint8")]
        [8, 2, 0]
        """
        return math.frexp(self.element.max)[1] - 1

    @property
    def max(self) -> Fraction:
        """The greatest element."""
        return Fraction(self.element.max)

    @property
    def mantissa_bits(self) -> int:
        """Mantissa bits of an element; of an integer, the bits below its first one at most."""
        row = self.element
        return row.mantissa_bits if row.kind == "float" else row.bits - row.signed - 1

    @property
    def bits_per_value(self) -> float:
        """Bits of an element and its share of scale and zero point, without the tensor's scale."""
        shared = self.scale.storage_bits + self.zero_point * self.element.storage_bits
        return self.element.storage_bits + shared / self.size


def _check(row: BlockFormat) -> None:
    """Refuse a row that contradicts itself, or whose products are too wide for float64 to decide."""
    if not isinstance(row.name, str):
        raise TypeError(f"name must be a str, got {type(row.name).__name__}")

    def need(condition: bool, text: str) -> None:
        if not condition:
            raise ValueError(f"block format {row.name!r}: {text}")

    for field in ("element", "scale"):
        if not isinstance(getattr(row, field), Format):
            raise TypeError(f"{field} must be a Format, got {type(getattr(row, field)).__name__}")
    need(bool(row.name), "name must not be empty")
    sizes = isinstance(row.block, tuple) and all(type(size) is int and size > 0 for size in row.block)
    need(sizes and len(row.block) in (1, 2), f"block must be one or two positive ints, got {row.block!r}")
    need(isinstance(row.scale_rule, str) and bool(row.scale_rule), "scale_rule must be a name")
    need(row.tensor_scale in get_args(TensorScale), f"tensor_scale={row.tensor_scale!r} is not known")
    need(row.layout in get_args(Layout), f"layout={row.layout!r} is not known")
    need(isinstance(row.zero_point, bool), f"zero_point must be a bool, got {row.zero_point!r}")
    need(row.scale.kind == "float", "the scale must be a float format")
    for part in (row.element, row.scale):
        single = part.quantum >= -149 and part.exact(part.max_magnitude) < 2**128
        need(part.kind == "table" or single, f"{part.name!r} has values that are no float32")
    need(_precision(row.scale) <= 24, "the scale must have float32 values")
    need(row.element.bits <= 16, f"an element has at most 16 bits, got {row.element.bits}")
    need(not row.zero_point or row.element.kind == "integer", "a zero point is for integer elements")
    bits = _precision(row.element) + _precision(row.scale) + (24 if row.tensor_scale == "float32" else 0)
    need(bits <= _MOST_BITS, f"element * scale would have {bits} bits, more than {_MOST_BITS}")


def _precision(row: Format) -> int:
    """Significant bits of the values of a row, at most."""
    if row.kind == "table":
        return 24
    return row.mantissa_bits + 1 if row.kind == "float" else row.bits


# --- rows -------------------------------------------------------------------------------------

_MX = Source("OCP Microscaling Formats (MX) Specification", "1.0, 2023-09-07", "section 5.2")
_NVFP4 = Source("NVIDIA, Pretraining Large Language Models with NVFP4", "arXiv:2509.25149", "appendix B")
_DEEPSEEK = Source("DeepSeek-V3 Technical Report", "arXiv:2412.19437", "section 3.3.2")
_GROUP = Source("Krishnamoorthi, Quantizing deep convolutional networks", "arXiv:1806.08342", "section 2")
_GGML = Source("ggml", "0.9", "ggml-common.h and ggml-quants.c")
_GGML_NVFP4 = Source("ggml", "0.9.8", "ggml-common.h, block_nvfp4; ggml-quants.c, quantize_row_nvfp4_ref")


def _mx(name: str, element: str, *aliases: str) -> BlockFormat:
    return BlockFormat(name, FORMATS[element], (32,), FORMATS["e8m0"], "floor", source=_MX, aliases=aliases)


def _fp8(name: str, *block: int) -> BlockFormat:
    return BlockFormat(name, FORMATS["e4m3"], block, FORMATS["fp32"], "amax", source=_DEEPSEEK)


def _group(element: str, k: int) -> BlockFormat:
    zero = element.startswith("u")
    rule = "minmax" if zero else "amax"
    name = f"{element}_g{k}"
    return BlockFormat(name, FORMATS[element], (k,), FORMATS["fp32"], rule, zero_point=zero, source=_GROUP)


def _ggml(name: str, element: str, scale: str, rule: str) -> BlockFormat:
    return BlockFormat(name, FORMATS[element], (32,), FORMATS[scale], rule, layout="ggml", source=_GGML)


_ROWS = (
    _mx("mxfp8_e4m3", "e4m3", "mxfp8"),
    _mx("mxfp8_e5m2", "e5m2"),
    _mx("mxfp6_e3m2", "e3m2", "mxfp6"),
    _mx("mxfp6_e2m3", "e2m3"),
    _mx("mxfp4", "e2m1", "mxfp4_e2m1"),
    _mx("mxint8", "mxint8"),
    BlockFormat(
        "nvfp4", FORMATS["e2m1"], (16,), FORMATS["ue4m3"], "nvfp4_exact", tensor_scale="float32", source=_NVFP4
    ),
    _fp8("fp8_block128", 128, 128),
    _fp8("fp8_1x128", 1, 128),
    *(_group(element, k) for element in ("int8", "int4", "uint4") for k in (32, 64, 128)),
    _ggml("q8_0", "int8", "fp16", "ggml_q8_0"),
    _ggml("q4_0", "int4", "fp16", "ggml_q4_0"),
    _ggml("ggml_mxfp4", "e2m1", "e8m0", "ggml_mxfp4"),
    BlockFormat(
        "ggml_nvfp4", FORMATS["e2m1"], (16,), FORMATS["ue4m3"], "ggml_nvfp4", layout="ggml_x4", source=_GGML_NVFP4
    ),
)

BLOCK_FORMATS: Mapping[str, BlockFormat] = MappingProxyType({row.name: row for row in _ROWS})
"""Every named block format."""

_ALIASES = {alias.lower(): row for row in _ROWS for alias in (row.name, *row.aliases)}


def get_block_format(bfmt: object) -> BlockFormat:
    """The row of a name or an alias, or the row itself; case is ignored.

    >>> get_block_format("MXFP8").name, get_block_format("nvfp4").block
    ('mxfp8_e4m3', (16,))

    Raises TypeError for another type, ValueError with the closest names for an unknown one.
    """
    if isinstance(bfmt, BlockFormat):
        return bfmt
    if not isinstance(bfmt, str):
        raise TypeError(f"bfmt must be the name of a block format or a BlockFormat, got {type(bfmt).__name__}")
    name = re.sub(r"\s+", "", bfmt.lower())
    if name not in _ALIASES:
        close = difflib.get_close_matches(name, sorted(_ALIASES), n=5, cutoff=0.5)
        hint = f"close: {', '.join(close)}" if close else f"known: {', '.join(BLOCK_FORMATS)}"
        raise ValueError(f"bfmt: unknown block format {bfmt!r}; {_other_kind(name) or hint}")
    return _ALIASES[name]


def _other_kind(name: str) -> str:
    """What takes a name that is none of blocks; "" where nothing does."""
    if name.startswith("mixed"):
        return "mixed formats are for quantize_mixed"
    with suppress(ValueError):
        return f"{get_format(name).name} is a plain format, for pack_tensor"
    return ""
