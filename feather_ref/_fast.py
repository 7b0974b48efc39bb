"""Fast paths: each gives the bits of the definition in `_parts`, or hands over to it.

1. A source of up to 16 bits is a table of all its codes.
2. A narrow target needs only the top bits of a float source, with "something lies below" OR-ed
   into the lowest one (round to odd): 65,536 entries for float32 into e4m3.  Layout of an index::

       | sign | exponent | first k mantissa bits, the last one sticky |      k = precision + 1

3. A wide target by integer addition, where the result is normal: the carry walks into the
   exponent.  Zero, Inf and NaN come from a list, subnormals from a shift; overflow goes the slow way.
4. Everything else is the definition itself.

The tables are made by running the definition.  Source: Boldo and Melquiond, 2008 (round to odd);
ml_dtypes (conversion by integer addition).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref._bits import U64, ZERO, funnel
from feather_ref._parts import merge
from feather_ref._sources import source_parts
from feather_ref._sweep import CHUNK
from feather_ref.formats import Format
from feather_ref.policy import Policy
from feather_ref.rounding import goes_up

MAX_INDEX_BITS = 20  # results of a byte: 1 MiB
MAX_WIDE_INDEX_BITS = 17  # wider results, where addition is as fast
Codes = NDArray[Any]
Kernel = Callable[[Codes, Codes], None]  # (source bits, result codes), one chunk, native order


def convert_bits(bits: Codes, src: Format | None, policy: Policy, random: U64 | None = None, n_bits: int = 0) -> U64:
    """The definition, on source bits (src None: on longdouble values)."""
    parts = source_parts(bits, src, policy.subnormals == "flush_input")
    return merge(parts, policy, random, n_bits)


def kernel(src: Format, policy: Policy, storage: np.dtype[Any]) -> Kernel:
    """The fastest exact kernel for one source row and one policy; no stochastic rounding."""
    if src.bits <= 16:
        return _whole_table(src, policy, storage)
    if src.bits in (32, 64) and src.nan == "ieee":  # Inf and NaN are where the two below look for them
        if src == policy.fmt and policy.overflow == "nonsaturating" and policy.subnormals == "keep":
            return _copy(src, policy)
        if index_bits(src, policy):
            return _top_table(src, policy, storage)
        if _adds(src, policy):
            return _addition(src, policy)
    return _definition(src, policy)


def _definition(src: Format, policy: Policy) -> Kernel:
    def run(bits: Codes, out: Codes) -> None:
        out[...] = convert_bits(bits, src, policy)

    return run


def _copy(src: Format, policy: Policy) -> Kernel:
    """The same row: only NaN may change."""
    nans = [policy.nan_code(sign) or 0 for sign in (False, True)]

    def run(bits: Codes, out: Codes) -> None:
        u = bits.dtype.type
        out[...] = bits
        nan = (bits & u(src.magnitude_mask)) > u(src.exponent_mask)
        if nan.any():
            out[nan] = np.array(nans, out.dtype)[(bits[nan] >> u(src.bits - 1)).astype(np.intp)]

    return run


# --- tables -----------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _table(src: Format, policy: Policy, index: int, storage: np.dtype[Any]) -> Codes:
    """Results for the top `index` bits of the source (all bits: for every code)."""
    tops = np.arange(1 << index, dtype=np.uint64) << np.uint64(src.bits - index)
    table = convert_bits(tops, src, policy).astype(storage)
    table.setflags(write=False)
    return table


def _whole_table(src: Format, policy: Policy, storage: np.dtype[Any]) -> Kernel:
    table = _table(src, policy, src.bits, storage)
    mask = src.code_mask

    def run(bits: Codes, out: Codes) -> None:
        masked = bits if bits.dtype.itemsize * 8 == src.bits else bits & bits.dtype.type(mask)
        np.take(table, masked, out=out, mode="clip")  # every index is in range; "raise" would buffer

    return run


def index_bits(src: Format, policy: Policy) -> int:
    """How many top bits of a float source decide the result, or 0 where that is too many.

    >>> from feather_ref.formats import get_format
    >>> from feather_ref.policy import resolve
    >>> [index_bits(get_format("fp32"), resolve(get_format(n))) for n in ("e4m3", "int8", "uint8", "fp16")]
    [14, 17, 18, 0]
    """
    dst = policy.fmt
    if src.kind != "float" or dst.kind == "table":
        return 0
    precision = dst.mantissa_bits + 1 if dst.kind == "float" else dst.bits - dst.signed
    # a bit for the midpoint and a sticky one, less the hidden one; and the steps of the source's
    # subnormals must separate the target's midpoints too
    kept = max(precision + 1, src.emin - dst.quantum + 2)
    index = src.bits - src.mantissa_bits + kept
    most = MAX_INDEX_BITS if dst.bits <= 8 else MAX_WIDE_INDEX_BITS
    return index if index <= min(most, src.bits) else 0


def _top_table(src: Format, policy: Policy, storage: np.dtype[Any]) -> Kernel:
    index = index_bits(src, policy)
    table = _table(src, policy, index, storage)
    signed = np.dtype(f"i{src.bits // 8}")
    shift = src.bits - index
    below = (1 << shift) - 1

    def run(bits: Codes, out: Codes) -> None:
        u = bits.dtype.type
        top = bits & u(below)
        top += u(below)  # carries into the lowest index bit where anything lies below it
        top |= bits
        top >>= u(shift)
        np.take(table, top.view(signed), out=out, mode="clip")

    return run


# --- integer addition -------------------------------------------------------------------------


def _adds(src: Format, policy: Policy) -> bool:
    """Whether addition serves: a signed float source into a narrower float with zero and subnormals."""
    dst = policy.fmt
    floats = dst.kind == "float" and src.signed and dst.max_magnitude > dst.mantissa_mask
    narrower = src.mantissa_bits > dst.mantissa_bits >= 1
    reaches = 0 <= src.bias - dst.bias < src.max_magnitude >> src.mantissa_bits  # the target's least normal
    return floats and narrower and reaches and dst.has_zero and policy.subnormals == "keep"


def _addition(src: Format, policy: Policy) -> Kernel:
    dst = policy.fmt
    drop = src.mantissa_bits - dst.mantissa_bits
    rebias = src.bias - dst.bias << src.mantissa_bits
    # the source's magnitudes from the least normal (or zero, where both start alike) to the greatest value
    same_start = rebias == 0 and (dst.has_signed_zero or not dst.signed)
    low = 0 if same_start else rebias + (1 << src.mantissa_bits)
    high = min((dst.max_magnitude << drop) + rebias, src.max_magnitude)
    sign_rides = src.bits - dst.bits == drop  # the sign is dropped to its place together with the rest
    abnormal = _abnormal(src, policy, low)
    words, flags = np.empty((3, CHUNK), f"u{src.bits // 8}"), np.empty(CHUNK, np.bool_)

    def run(bits: Codes, out: Codes) -> None:
        u = bits.dtype.type
        magnitude, carried, spare = words[:, : bits.size]
        outside = flags[: bits.size]
        # 1. which results are not normal: low <= magnitude <= high fails
        np.bitwise_and(bits, u(src.magnitude_mask), out=magnitude)
        np.greater(np.subtract(magnitude, u(low), out=spare) if low else magnitude, u(high - low), out=outside)
        # 2. add what makes the dropped bits carry, and drop them
        _carry(policy.rounding, bits, drop, rebias, carried)
        carried += bits if sign_rides else magnitude
        carried >>= u(drop)
        # 3. put the sign in its place
        if not sign_rides:
            np.bitwise_and(bits, u(src.sign_mask), out=spare)
            spare >>= u(src.bits - dst.bits)
            carried |= spare
        out[...] = carried
        if not dst.signed:
            outside |= bits > u(src.magnitude_mask)
        if outside.any():
            where = np.flatnonzero(outside)
            out[where] = abnormal(bits[where])

    return run


def _carry(rounding: str, bits: Codes, drop: int, rebias: int, out: Codes) -> None:
    """What to add to a magnitude so that dropping `drop` bits rounds it, less the difference in bias."""
    u, width = bits.dtype.type, bits.dtype.itemsize * 8
    below, half = (1 << drop) - 1, 1 << drop - 1
    if rounding in ("nearest_away", "toward_zero"):
        out[...] = u(((half if rounding == "nearest_away" else 0) - rebias) % (1 << width))
        return
    # one bit decides: the last bit kept, or the sign
    np.right_shift(bits, u(drop if rounding in ("nearest_even", "to_odd") else width - 1), out=out)
    out &= u(1)
    if rounding in ("to_odd", "toward_positive"):
        out ^= u(1)
    if rounding != "nearest_even":
        out *= u(below)
    out += u(((half - 1 if rounding == "nearest_even" else 0) - rebias) % (1 << width))


def _abnormal(src: Format, policy: Policy, low: int) -> Callable[[Codes], Codes]:
    """Zero, Inf and NaN from a list, results below the least normal by one shift, the rest by the definition."""
    signs = (0, src.sign_mask)
    listed = np.array([[m | s for s in signs] for m in (0, src.exponent_mask, src.exponent_mask + 1)], np.uint64)
    known = convert_bits(listed, src, policy)

    def results(bits: Codes) -> Codes:
        wide = bits.astype(np.uint64)
        magnitude = wide & np.uint64(src.magnitude_mask)
        negative = wide != magnitude
        special = magnitude >= np.uint64(src.exponent_mask)
        which = special.astype(np.intp) + (magnitude > np.uint64(src.exponent_mask))
        codes = known[which, negative.astype(np.intp)]
        small = (magnitude < np.uint64(low)) & (magnitude != ZERO)
        if not policy.fmt.signed:
            small &= ~negative
        if small.any():
            codes[small] = _small(magnitude[small], negative[small], src, policy)
        other = np.flatnonzero(~special & ~small & (magnitude != ZERO))
        if other.size:
            codes[other] = convert_bits(wide[other], src, policy)
        return codes

    return results


def _small(magnitude: U64, negative: NDArray[np.bool_], src: Format, policy: Policy) -> U64:
    """Source magnitudes below the target's least normal: shift the significand to the target's quantum."""
    dst = policy.fmt
    # 1. the significand and the exponent of its last place
    field = magnitude >> np.uint64(src.mantissa_bits)
    hidden = (field != ZERO).astype(np.uint64) << np.uint64(src.mantissa_bits)
    place = np.maximum(field.astype(np.int64) - 1, 0) + src.quantum
    # 2. whole quanta, rounded
    whole, fraction = funnel(magnitude & np.uint64(src.mantissa_mask) | hidden, dst.quantum - place)
    code = whole + goes_up(policy.rounding, (whole & np.uint64(1)) == 1, fraction, negative, None, 0)
    # 3. the sign
    signed = negative & (dst.has_signed_zero | (code != ZERO))
    return code | np.where(signed, np.uint64(dst.sign_mask), ZERO)
