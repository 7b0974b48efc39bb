"""feather_ref: the executable specification of the number formats packed into 32-bit words.

codes are right-aligned integers, words are uint32; see `encode`, `decode`, `pack`, `unpack`.
For every format there are `pack_<name>` and `unpack_<name>`, made when first asked for:

>>> import feather_ref as fr
>>> words = fr.pack_e4m3([0.5, 2.0, 0.75, 3.0])
>>> hex(words[0]), fr.unpack_e4m3(words).tolist()
('0x44344030', [0.5, 2.0, 0.75, 3.0])

Importing this package loads NumPy alone.

Source: design of this project.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from feather_ref._explain import explain, explain_word
from feather_ref._hypotheses import Hypothesis
from feather_ref._page import Explanation
from feather_ref.allocate import (
    MIXED_FORMATS,
    MixedBlockFormat,
    MixedBlockTensor,
    Plan,
    Split,
    allocate,
    best_split,
    get_mixed_format,
    quantize_mixed,
)
from feather_ref.arith import add, compare, divide, encode_quotient, fma, multiply, subtract
from feather_ref.blocks import (
    BLOCK_FORMATS,
    SCALE_RULES,
    BlockFormat,
    BlockTensor,
    ScaleRule,
    get_block_format,
    quantize_blocks,
)
from feather_ref.codec import code_dtype, convert, decode, encode, quantize, value_table
from feather_ref.codes import (
    CLASSES,
    classify,
    isfinite,
    isinf,
    isnan,
    neg,
    nextafter,
    order_key,
    ulp,
)
from feather_ref.codes import (
    abs as abs,  # noqa: A004 - the name of the operation in IEEE 754, not in __all__
)
from feather_ref.diff import Diff, diff
from feather_ref.formats import FORMATS, Format, Source, get_format, minifloat, p3109, p3109_formats
from feather_ref.graphics import pack_r11g11b10f, pack_rgb9e5, unpack_r11g11b10f, unpack_rgb9e5
from feather_ref.packing import pack_codes, unpack_codes
from feather_ref.policy import NANS, NEGATIVES, OVERFLOWS, SUBNORMALS, Policies
from feather_ref.profiles import PROFILES, Profile
from feather_ref.report import Count, Report
from feather_ref.rounding import ROUNDINGS
from feather_ref.tensors import PackedTensor, pack_tensor
from feather_ref.words import as_float32, from_float32, make_packer, make_unpacker, pack, unpack

__version__ = "0.1.0.dev0"

# Without `abs`: an import of everything must not hide Python's own.
__all__ = [
    "BLOCK_FORMATS",
    "CLASSES",
    "FORMATS",
    "MIXED_FORMATS",
    "NANS",
    "NEGATIVES",
    "OVERFLOWS",
    "PROFILES",
    "ROUNDINGS",
    "SCALE_RULES",
    "SUBNORMALS",
    "BlockFormat",
    "BlockTensor",
    "Count",
    "Diff",
    "Explanation",
    "Format",
    "Hypothesis",
    "MixedBlockFormat",
    "MixedBlockTensor",
    "PackedTensor",
    "Plan",
    "Policies",
    "Profile",
    "Report",
    "ScaleRule",
    "Source",
    "Split",
    "add",
    "allocate",
    "as_float32",
    "best_split",
    "classify",
    "code_dtype",
    "compare",
    "convert",
    "decode",
    "diff",
    "divide",
    "encode",
    "encode_quotient",
    "explain",
    "explain_word",
    "fma",
    "from_float32",
    "get_block_format",
    "get_format",
    "get_mixed_format",
    "isfinite",
    "isinf",
    "isnan",
    "make_packer",
    "make_unpacker",
    "minifloat",
    "multiply",
    "neg",
    "nextafter",
    "order_key",
    "p3109",
    "p3109_formats",
    "pack",
    "pack_codes",
    "pack_r11g11b10f",
    "pack_rgb9e5",
    "pack_tensor",
    "quantize",
    "quantize_blocks",
    "quantize_mixed",
    "subtract",
    "ulp",
    "unpack",
    "unpack_codes",
    "unpack_r11g11b10f",
    "unpack_rgb9e5",
    "value_table",
]

_MAKERS: dict[str, Callable[[Format], Callable[..., Any]]] = {"pack": make_packer, "unpack": make_unpacker}


def __getattr__(name: str) -> Callable[..., Any]:
    """pack_<format> and unpack_<format>, for every name that `get_format` knows."""
    verb, _, fmt = name.partition("_")
    if verb in _MAKERS and fmt:
        try:
            function = _MAKERS[verb](get_format(fmt))
        except ValueError as error:
            raise AttributeError(f"module 'feather_ref' has no attribute {name!r}: {error}") from None
        function.__module__ = __name__  # so that it pickles
        globals()[name] = function
        return function
    raise AttributeError(f"module 'feather_ref' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, "abs", "__version__", *(f"{verb}_{fmt}" for verb in _MAKERS for fmt in FORMATS)})
