"""Libraries that make scales of blocks, as functions that `fingerprint_scales` asks.

    gfloat      block.compute_scale_amax                                MX
    gguf        quants.quantize, type MXFP4                             mxfp4
    ml_dtypes   float8_e8m0fnu of amax / max in float32                 MX
    torchao     prototype.mx_formats: to_mx by mode; nvfp4_quantize     mxfp8, mxfp4, nvfp4

A library is loaded where it is asked about.

Source: each library's own reference; torchao 0.18, gfloat 0.5, gguf 0.19, ml_dtypes 0.5.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feather_ref.blocks import BLOCK_FORMATS, BlockFormat, get_block_format
from feather_ref.conformance.adapters import own_module
from feather_ref.conformance.block_vectors import blocks_with_vectors
from feather_ref.conformance.scales import Scales

Array = NDArray[Any]


class ScaleFunction(NamedTuple):
    """A function of a library for one block format.  name: how it is called there."""

    bfmt: BlockFormat
    name: str
    function: Scales


def _mx() -> Iterator[BlockFormat]:
    return (BLOCK_FORMATS[name] for name in blocks_with_vectors() if BLOCK_FORMATS[name].tensor_scale == "none")


def _amax(x: Array) -> Array:
    found: Array = np.abs(x).max(axis=1)
    return found


# --- gfloat, ml_dtypes, gguf ------------------------------------------------------------------


def _gfloat() -> Iterator[ScaleFunction]:
    block = importlib.import_module("gfloat.block")

    def scales(bfmt: BlockFormat, x: Array) -> Array:
        found = [block.compute_scale_amax(bfmt.emax, row.astype(np.float64)) for row in x]
        return np.array([int(np.log2(scale)) + 127 for scale in found])

    for bfmt in _mx():
        yield ScaleFunction(bfmt, "compute_scale_amax", partial(scales, bfmt))


def _ml_dtypes() -> Iterator[ScaleFunction]:
    dtype = importlib.import_module("ml_dtypes").float8_e8m0fnu

    def scales(bfmt: BlockFormat, x: Array) -> Array:
        quotient = _amax(x) / np.float32(bfmt.element.max)
        found: Array = quotient.astype(dtype).view(np.uint8)
        return found

    for bfmt in _mx():
        yield ScaleFunction(bfmt, "float8_e8m0fnu(amax / max)", partial(scales, bfmt))


def _gguf() -> Iterator[ScaleFunction]:
    gguf = importlib.import_module("gguf")

    def scales(x: Array) -> Array:
        with np.errstate(all="ignore"):
            found: Array = gguf.quants.quantize(x, gguf.GGMLQuantizationType.MXFP4)[:, 0]
        return found

    yield ScaleFunction(BLOCK_FORMATS["mxfp4"], "quantize MXFP4", scales)


# --- torchao ----------------------------------------------------------------------------------

_MODES = ("FLOOR", "CEIL", "EVEN", "RCEIL")
_ELEMENTS = {"mxfp8_e4m3": "float8_e4m3fn", "mxfp8_e5m2": "float8_e5m2", "mxfp4": "float4_e2m1fn_x2"}


def _torchao() -> Iterator[ScaleFunction]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of while it loads is its own
        torch = importlib.import_module("torch")
        mx = importlib.import_module("torchao.prototype.mx_formats.mx_tensor")
        nvfp4 = importlib.import_module("torchao.prototype.mx_formats.nvfp4_tensor")

    def scales(element: str, mode: str, x: Array) -> Array:
        found, _ = mx.to_mx(torch.from_numpy(x), getattr(torch, element), 32, mx.ScaleCalculationMode[mode])
        codes: Array = found.view(torch.uint8).numpy()
        return codes

    def two_levels(x: Array) -> Array:
        numbers = torch.from_numpy(x)
        whole = nvfp4.per_tensor_amax_to_scale(numbers.abs().max())
        found, _ = nvfp4.nvfp4_quantize(numbers, 16, whole)
        codes: Array = found.view(torch.uint8).numpy()
        return codes

    for name, element in _ELEMENTS.items():
        for mode in _MODES:
            yield ScaleFunction(BLOCK_FORMATS[name], f"to_mx {mode}", partial(scales, element, mode))
    yield ScaleFunction(BLOCK_FORMATS["nvfp4"], "nvfp4_quantize", two_levels)


# --- by name ----------------------------------------------------------------------------------

_KNOWN: Mapping[str, Callable[[], Iterator[ScaleFunction]]] = MappingProxyType(
    {"gfloat": _gfloat, "gguf": _gguf, "ml_dtypes": _ml_dtypes, "torchao": _torchao}
)


def scale_functions(name: str, formats: tuple[str, ...] = ()) -> list[ScaleFunction]:
    """The functions of a library, or one of your own as module:function, for all or for some block formats.

    >>> {found.bfmt.name for found in scale_functions("ml_dtypes", ("mxfp4", "mxfp8"))} == {"mxfp4", "mxfp8_e4m3"}
    True

    Raises ValueError where it cannot be had, or has nothing for these formats.
    """
    wanted = [get_block_format(each) for each in formats]
    module, colon, attribute = name.partition(":")
    if colon and not re.fullmatch(r"\w+(\.\w+)*:\w+", name):
        raise ValueError(f"impl={name!r}: write module:function")
    try:
        if colon:
            function = getattr(own_module(module), attribute)
            if not callable(function):
                raise ValueError(f"impl={name!r}: is no function")
            if not wanted:
                raise ValueError(f"impl={name!r}: say --format, the block format that it makes scales of")
            return [ScaleFunction(bfmt, attribute, function) for bfmt in wanted]
        if name not in _KNOWN:
            raise ValueError(f"impl must be one of {', '.join(_KNOWN)}, or module:function; got {name!r}")
        found = [each for each in _KNOWN[name]() if not wanted or each.bfmt in wanted]
    except (ImportError, AttributeError) as error:
        raise ValueError(f"impl={name!r}: {error}") from error
    if not found:
        raise ValueError(f"impl={name!r} makes no scales of {', '.join(formats)}")
    return found
