"""What a tensor can be packed to, by name: one spelling for formats, block formats and mixed ones.

    mxfp4, nvfp4, fp8_1x128, ...      block formats
    mixed8, mixed6, mixed4_b64, ...   mixed block formats
    e4m3, e4m3/row, e4m3/tensor, e4m3/none, bf16    formats, with a scale of their own

Without a word, formats of up to 8 bits have a scale for each row, and wider ones none.  The names
of block formats come first: mxint8 is the block format, mxint8/none the element.

Source: design of this project.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from feather_ref._mixed import MIXED_FORMATS, MixedBlockFormat, MixedBlockTensor, get_mixed_format, quantize_mixed
from feather_ref._rowjson import named_or_json, parse_row
from feather_ref._sweep import Array
from feather_ref.blocks import BLOCK_FORMATS, BlockFormat, BlockTensor, get_block_format, quantize_blocks
from feather_ref.formats import Format
from feather_ref.tensors import SCALES, PackedTensor, Scale, pack_tensor
from feather_ref.words import check_lane

AnyTensor = PackedTensor | BlockTensor | MixedBlockTensor

_ROWS = 1 << 16  # numbers in a piece


@dataclass(frozen=True)
class Choice:
    """A format as a plan names it; scale: of plain formats.

    >>> [parse_choice(name).name for name in ("F8_E4M3", "bfloat16", "e2m1/tensor", "MXFP4", "mixed8")]
    ['e4m3/row', 'bf16/none', 'e2m1/tensor', 'mxfp4', 'mixed8']
    """

    name: str
    fmt: Format | BlockFormat | MixedBlockFormat
    scale: Scale | None = None

    def __str__(self) -> str:
        return self.name

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of this shape can have it: tiles want two axes."""
        return not isinstance(self.fmt, BlockFormat) or self.fmt.tile[0] == 1 or len(shape) > 1

    def quantize(self, x: Array, error: str = "mse") -> AnyTensor:
        """x packed; error: what mixed formats choose their rows by."""
        if isinstance(self.fmt, Format):
            return pack_tensor(x, self.fmt, self.scale)
        if isinstance(self.fmt, BlockFormat):
            return quantize_blocks(x, self.fmt)
        return quantize_mixed(x, self.fmt, error=error)


def parse_choice(fmt: object) -> Choice:
    """The choice that a name or a Format means.

    Raises TypeError or ValueError for what is none.
    """
    if isinstance(fmt, Format):
        return _plain(fmt, "")
    if not isinstance(fmt, str):
        raise TypeError(f"formats: names or Format, got {type(fmt).__name__}")
    for get in (get_block_format, get_mixed_format):
        try:
            row: Any = get(fmt)
        except ValueError:
            continue
        return Choice(row.name, row)
    name, slash, scale = fmt.rpartition("/") if not fmt.rstrip().endswith("}") else (fmt, "", "")
    try:
        row = parse_row(name if slash else fmt)
    except ValueError as error:
        known = (*BLOCK_FORMATS, *MIXED_FORMATS)
        close = difflib.get_close_matches(fmt.lower(), known, n=3)
        more = f"; formats of blocks: {', '.join(close)}" if close else ""
        raise ValueError(f"formats: {str(error).removeprefix('fmt: ')}{more}") from error
    return _plain(row, scale if slash else "")


def _plain(row: Format, scale: str) -> Choice:
    check_lane(row)
    scale = scale or ("row" if row.bits <= 8 else "none")
    if scale not in ("none", *SCALES):
        raise ValueError(f"formats: the scale of {row.name!r} must be none, {' or '.join(SCALES)}; got {scale!r}")
    kind: Any = None if scale == "none" else scale
    return Choice(f"{named_or_json(row)}/{scale}", row, kind)


# --- pieces -----------------------------------------------------------------------------------


def pieces(tensor: Array | AnyTensor) -> Iterator[Array]:
    """The numbers of a tensor in C order as (rows, n), some rows at a time."""
    *lead, n = tensor.shape or (1,)
    rows, step = int(np.prod(lead, dtype=np.int64)), max(1, _ROWS // max(n, 1))
    whole: Any = tensor
    if isinstance(tensor, (BlockTensor, MixedBlockTensor)) and (tensor.axis != -1 or tensor.fmt.tile[0] > 1):
        whole = tensor.dequantize()  # its blocks lie across rows
    for start in range(0, rows if n else 0, step):
        yield _piece(whole, rows, n, slice(start, start + step))


def _piece(tensor: Any, rows: int, n: int, part: slice) -> Array:
    def of(shared: Any) -> Any:
        return None if shared is None else shared.reshape(rows, shared.shape[-1])[part]

    if isinstance(tensor, PackedTensor):
        words = of(tensor.words)
        scale = tensor.scale if tensor.scale is None or tensor.scale.ndim == 0 else of(tensor.scale)
        return PackedTensor(words, scale, (len(words), n), tensor.fmt, tensor.order).dequantize()
    if isinstance(tensor, BlockTensor):
        parts = {"codes": of(tensor.codes), "scales": of(tensor.scales), "zeros": of(tensor.zeros)}
        return replace(tensor, **parts).dequantize()
    if isinstance(tensor, MixedBlockTensor):
        parts = {name: of(getattr(tensor, name)) for name in ("codes", "scales", "selectors")}
        return replace(tensor, **parts).dequantize()
    return tensor.reshape(rows, n)[part]
