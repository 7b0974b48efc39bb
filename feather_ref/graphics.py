"""Words of unequal lanes: three colours in 32 bits, as GPUs sample and render them.

    R11G11B10F | 31..22 blue uf10     | 21..11 green uf11    | 10..0 red uf11     |
    RGB9E5     | 31..27 exponent      | 26..18 blue | 17..9 green | 8..0 red      |

The first is three numbers of their own.  In the second the colours share an exponent: a colour is
mantissa * 2**(exponent - 15 - 9), without hidden bit, sign, Inf or NaN.

Source: OpenGL 4.6 specification, 2.3.4.3, 2.3.4.4 and 8.25 (R11F_G11F_B10F, RGB9_E5);
EXT_texture_shared_exponent; EXT_packed_float.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feather_ref._sources import as_array, row_of
from feather_ref._sweep import Array
from feather_ref.codec import decode, encode
from feather_ref.packing import Words, check_words
from feather_ref.words import PackPolicies

MANTISSA_BITS, BIAS, MAX_EXPONENT = 9, 15, 31  # N, B and Emax of the extension
RGB9E5_MAX = 511 * 2.0 ** (MAX_EXPONENT - BIAS - MANTISSA_BITS)  # 65408


def pack_r11g11b10f(rgb: object, **policies: Unpack[PackPolicies]) -> Words:
    """Pack colours as uf11, uf11 and uf10.

    rgb: (..., 3) numbers, red first.  policies: as for `encode`, for all three; a NaN code must be
    one of both formats.  Returns uint32 (...).

    >>> f"{pack_r11g11b10f([1.0, 0.5, 2.0]):08X}"
    '801C03C0'

    Raises TypeError or ValueError as `encode` does, ValueError for another last axis than 3.
    """
    x = _colours(rgb)
    wide = encode(x, "uf11", out=None, report=False, **policies).astype(np.uint32)
    narrow = encode(x, "uf10", out=None, report=False, **policies).astype(np.uint32)
    return np.asarray(wide[..., 0] | wide[..., 1] << 11 | narrow[..., 2] << 22)


def unpack_r11g11b10f(words: ArrayLike) -> NDArray[np.float32]:
    """The colours of R11G11B10F words, exactly: uint32 (...) to float32 (..., 3).

    >>> unpack_r11g11b10f(np.array([0x801C03C0], np.uint32))
    array([[1. , 0.5, 2. ]], dtype=float32)
    """
    array = check_words(words)
    wide = decode(np.stack([array & 0x7FF, array >> 11 & 0x7FF], axis=-1), "uf11")
    narrow = decode(np.stack([array >> 22], axis=-1), "uf10")
    return np.concatenate([wide, narrow], axis=-1)


def pack_rgb9e5(rgb: object) -> Words:
    """Pack colours as three mantissas of 9 bits and one exponent, rounded half up.

    rgb: (..., 3) numbers, red first, of any float dtype up to float64, integers or bool; clamped to
    0 .. 65408, NaN counts as 0.  Returns uint32 (...).

    >>> f"{pack_rgb9e5([1.0, 0.5, 2.0]):08X}"
    '8C008080'

    Raises TypeError for what is not such numbers, ValueError for another last axis than 3.
    """
    x = _colours(rgb)
    if row_of(x.dtype) is None:
        raise TypeError(f"rgb: dtype {x.dtype} is wider than float64")
    # 1. Clamp; the widening is exact, or far above the greatest value.
    with np.errstate(all="ignore"):  # a signalling NaN, a subnormal: both end as they should
        return _rgb9e5(x.astype(np.float64))


def _rgb9e5(x: NDArray[np.float64]) -> Words:
    """`pack_rgb9e5` of float64."""
    x = np.clip(np.where(np.isnan(x), 0.0, x), 0.0, RGB9E5_MAX)
    # 2. The exponent of the greatest colour, from its bits: max(-B-1, floor(log2)) + 1 + B.
    greatest = np.max(x, axis=-1, keepdims=True)
    log2 = np.where(greatest > 0, np.frexp(greatest)[1] - 1, -BIAS - 1)
    exponent = np.maximum(log2, -BIAS - 1) + 1 + BIAS
    # 3. If its mantissa rounds up to 2**N, the exponent is one more.
    exponent += _mantissa(greatest, exponent) == 1 << MANTISSA_BITS
    # 4. Three mantissas and the exponent.
    mantissa = _mantissa(x, exponent)
    red, green, blue = mantissa[..., 0], mantissa[..., 1], mantissa[..., 2]
    return np.asarray(red | green << 9 | blue << 18 | exponent[..., 0].astype(np.uint32) << 27)


def unpack_rgb9e5(words: ArrayLike) -> NDArray[np.float32]:
    """The colours of RGB9E5 words, exactly: uint32 (...) to float32 (..., 3).

    >>> unpack_rgb9e5(np.array([0x8C008080], np.uint32))
    array([[1. , 0.5, 2. ]], dtype=float32)
    """
    array = check_words(words)
    mantissa = np.stack([array & 0x1FF, array >> 9 & 0x1FF, array >> 18 & 0x1FF], axis=-1)
    exponent = (array >> 27).astype(np.int32)[..., None] - (BIAS + MANTISSA_BITS)
    return np.ldexp(mantissa.astype(np.float32), exponent)


def _colours(rgb: object) -> Array:
    x = as_array(rgb)
    row_of(x.dtype)
    if x.ndim == 0 or x.shape[-1] != 3:
        raise ValueError(f"rgb must have a last axis of 3, got shape {x.shape}")
    return x


def _mantissa(x: NDArray[np.float64], exponent: NDArray[Any]) -> NDArray[np.uint32]:
    """floor(x / 2**(exponent - B - N) + 0.5); the sum itself would round, so the rest is compared."""
    scaled = np.ldexp(x, BIAS + MANTISSA_BITS - exponent)
    whole = np.floor(scaled)
    mantissa: NDArray[np.uint32] = whole.astype(np.uint32) + (scaled - whole >= 0.5)
    return mantissa
