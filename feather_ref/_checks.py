"""Refusals: what is wrong with an input is found before anything is written.

Every message names the argument, the index, the value (hex where it is bits) and the choice.

Source: design of this project.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feather_ref._parts import Parts, nan_codes
from feather_ref._sources import refuse_masked, source_parts
from feather_ref._sweep import Array, place, spell, sweep
from feather_ref.formats import Format
from feather_ref.policy import Policy

_CURE = "nan='max', nan='zero' or nan=<a code> would take it"


def integers(codes: ArrayLike, name: str) -> Array:
    """codes as an array; an empty list, which NumPy takes for floats, is uint8."""
    refuse_masked(codes, name)
    try:
        array = np.asarray(codes)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if array.size == 0 and not isinstance(codes, np.ndarray):
        return array.astype(np.uint8)
    return array


def check_range(array: Array, last: int, name: str, of: str = "") -> None:
    """Refuse what is not an integer array of values 0 .. last."""
    if array.dtype.kind not in "ui":
        raise TypeError(f"{name} must be integers, got dtype {array.dtype}")
    limits = np.iinfo(array.dtype)
    if array.size == 0 or (limits.min == 0 and limits.max <= last):
        return
    if int(array.min()) < 0 or int(array.max()) > last:
        index = place(int(np.argmax((array < 0) | (array > min(last, limits.max)))), array.shape)
        value = int(array[index])
        what = f"a code of {of!r}" if of else "in range"
        size = 8 * array.dtype.itemsize
        signed = value < 0 and last == (1 << size) - 1  # of the codes' own width
        cure = f"; {array.dtype.name} has a sign; take .view(np.uint{size})" if signed else ""
        raise ValueError(f"{spell(name, index)} = {value:#x} is not {what}: 0..{last:#x}{cure}")


def refuse_errors(bits: Array, src: Format | None, policy: Policy, name: str) -> None:
    """Raise for the first NaN or negative that the policy makes an error; src None is longdouble."""
    nan = policy.nan == "error" and (src is None or src.has_nan)
    below = policy.negative == "error" and not policy.fmt.signed and (src is None or src.signed)
    if nan:
        _refuse(bits, src, name, _is_nan, f"is NaN, and nan='error' for {policy.fmt.name!r}; {_CURE}")
    if below:
        found = partial(_is_negative, policy.subnormals == "flush_input")
        _refuse(bits, src, name, found, f"is negative, and negative='error' for {policy.fmt.name!r}")


def _refuse(bits: Array, src: Format | None, name: str, found: Any, text: str) -> None:
    def work(start: int, chunk: Array) -> None:
        hit = found(chunk, src)
        if hit.any():
            index = place(start + int(hit.argmax()), bits.shape)
            value = bits[index]
            shown = f"{int(value):0{bits.dtype.itemsize * 2}X}" if src else str(value)
            raise ValueError(f"{spell(name, index)} = {shown} {text}")

    sweep([bits], None, work)


def refuse_parts(parts: Parts, policy: Policy, name: str, start: int, shape: tuple[int, ...]) -> None:
    """The same for a computed result, of which only parts exist; start: its first flat index."""
    for choice, hit in (
        (policy.nan == "error", parts.nan),
        (policy.negative == "error" and not policy.fmt.signed, parts.negative & ~parts.zero & ~parts.nan),
    ):
        if choice and hit.any():
            index = place(start + int(hit.argmax()), shape)
            what = "NaN" if hit is parts.nan else "negative"
            raise ValueError(f"{spell(name, index)} is {what}, which is an error for {policy.fmt.name!r}")


def _is_nan(chunk: Array, src: Format | None) -> NDArray[np.bool_]:
    if src is None:
        return np.isnan(chunk)
    if src.nan == "ieee":  # in the source's own width: this is the common, timed case
        u = chunk.dtype.type
        above: NDArray[np.bool_] = (chunk & u(src.magnitude_mask)) > u(src.exponent_mask)
        return above
    return nan_codes(chunk.astype(np.uint64) & np.uint64(src.code_mask), src)


def _is_negative(flush: bool, chunk: Array, src: Format | None) -> NDArray[np.bool_]:
    parts = source_parts(chunk, src, flush)
    return parts.negative & ~parts.zero & ~parts.nan
