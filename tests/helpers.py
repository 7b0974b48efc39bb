"""What the tests of the codec share: inputs that decide, the oracle's answers, equality of bits.

Expected codes come from the exact oracle, one element at a time; inputs are float64 arrays, and a
narrower source takes those of them that are exact in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref import oracle
from feather_ref.formats import Format, get_format

Array = NDArray[Any]

ROUNDINGS = ("nearest_even", "nearest_away", "toward_zero", "toward_positive", "toward_negative", "to_odd")
FP64 = Format("binary64", 64, exponent_bits=11, mantissa_bits=52, bias=1023, inf="ieee", nan="ieee")  # IEEE 754, 3.6
NAN_BITS = {  # quiet and signalling, both signs, payload in the high bits and in the lowest bit only
    np.float16: (0x7E00, 0xFE00, 0x7C01, 0xFC01, 0x7FFF),
    np.float32: (0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF),
    np.float64: (0x7FF8 << 48, 0xFFF8 << 48, (0x7FF << 52) + 1, (0xFFF << 52) + 1, (0x7FF << 52) + (1 << 29)),
}
TINY = (2.0**-1074, 2.0**-1022 - 2.0**-1074, 2.0**-1022, 2.0**-149, 2.0**-126 - 2.0**-149, 2.0**-126, 2.0**-24)
WIDE_SAMPLE = 2000


def roundings_of(row: Format) -> tuple[str, ...]:
    """The deterministic roundings that a row takes."""
    return ROUNDINGS if row.kind != "table" else ROUNDINGS[:1]


def without_nan(row: Format) -> dict[str, str]:
    """The policies that let a row without NaN take every input."""
    return {"nan": "canonical" if row.has_nan else "max"}


# --- inputs -----------------------------------------------------------------------------------


def _wide_codes(row: Format, sample: int) -> list[int]:
    """Magnitudes around every power of two, two on each side, around the ends, and a fixed sample."""
    top = row.max_magnitude
    powers = range(0, top + 2, max(1 << row.mantissa_bits, top >> 9))  # with no mantissa bit, every code is one
    firsts = [1 << k for k in range(row.mantissa_bits)]  # the powers among the subnormals
    near = {c + d for c in (*powers, *firsts, top) for d in range(-2, 3)}
    seeded = np.random.default_rng(row.bits).integers(0, top + 1, sample).tolist()
    return sorted(c for c in near | set(seeded) if 0 <= c <= top)


def magnitudes(row: Format, sample: int = WIDE_SAMPLE) -> list[Fraction]:
    """Values and midpoints, positive and exact, and what lies beyond both ends of the row."""
    if row.kind == "table":
        values = sorted({Fraction(v) for v in row.values})
        middles = [(a + b) / 2 for a, b in itertools.pairwise(values)]
        return sorted({abs(v) for v in (*values, *middles, max(map(abs, values)) * 3 / 2)})
    codes = range(row.max_magnitude + 1) if row.bits <= 8 else _wide_codes(row, sample)
    codes = [*codes, row.max_magnitude + 1, row.max_magnitude + 2]  # as if the exponent went on
    pairs = [(row.exact(c), row.exact(c + 1)) for c in codes]
    low = row.exact(0) or row.exact(1)
    below = [low / 4, low / 2, low * 3 / 4]
    return sorted({*below, *(a for a, _ in pairs), *((a + b) / 2 for a, b in pairs), row.exact(codes[-3]) * 4})


def steps(x: Array) -> Array:
    """x, one float64 step to either side, and the float32 numbers around."""
    inf = np.inf
    with np.errstate(all="ignore"):
        near = x.astype(np.float32)
        singles = [np.nextafter(near, np.float32(-inf)), near, np.nextafter(near, np.float32(inf))]
        doubles = [np.nextafter(x, -inf), x, np.nextafter(x, inf)]
        return np.concatenate([*doubles, *(s.astype(np.float64) for s in singles)])


def in_float64(values: Iterable[Fraction]) -> Array:
    """Those of the values that float64 holds; all have a power of two as denominator."""
    inside = (v for v in values if v.denominator <= 1 << 1074 and v < 1 << 1023)
    return np.array([float(v) for v in inside if Fraction(float(v)) == v], np.float64)


@lru_cache(maxsize=8)
def interesting(row: Format, sample: int = WIDE_SAMPLE) -> Array:
    """The numbers that decide a conversion into `row`, as float64: all but NaN.

    Every value, midpoint and end of the row (of a row beyond 8 bits: around the powers of two,
    and a sample), each with its neighbours one float64 and one float32 step away; zeros, Inf,
    subnormals of the sources; all with both signs.
    """
    points = np.concatenate([steps(in_float64(magnitudes(row, sample))), TINY, [0.0, np.inf]])
    both = np.unique(np.abs(points))
    return np.concatenate([both, -both])


def narrow(x: Array, dtype: Any) -> tuple[Array, Array]:
    """The elements of x that are exact in dtype, in dtype, and which those are."""
    with np.errstate(all="ignore"):
        there = x.astype(dtype)
        kept = there.astype(np.float64) == x
    return there[kept], kept


def nans(dtype: Any) -> Array:
    """NaN of both signs, quiet and signalling."""
    return np.array(NAN_BITS[dtype], f"u{np.dtype(dtype).itemsize}").view(dtype)


# --- answers ----------------------------------------------------------------------------------


def exacts(x: Iterable[Any]) -> list[oracle.Exact]:
    """The elements as the oracle reads them."""
    return [oracle.exact(value) for value in x]


def storage(row: Format) -> np.dtype[Any]:
    """The dtype that codes must have: uint8 up to 8 bits, uint16 up to 16, else uint32."""
    return np.dtype(np.uint8 if row.bits <= 8 else np.uint16 if row.bits <= 16 else np.uint32)


def expected(numbers: Iterable[Any], fmt: str | Format, **policies: Any) -> Array:
    """The oracle's code for every number."""
    row = get_format(fmt)
    return np.array([oracle.encode(x, row, **policies) for x in numbers], storage(row))


def from_runs(bits: Array, runs: list[tuple[int, int, int]], row: Format) -> Array:
    """The codes that a run list gives to source bits."""
    starts = np.array([lo for lo, _, _ in runs], np.uint64)
    codes = np.array([code for _, _, code in runs], storage(row))
    return codes[np.searchsorted(starts, bits.astype(np.uint64), side="right") - 1]


# --- equality ---------------------------------------------------------------------------------


def bits(x: Array) -> Array:
    """An array as unsigned integers of the same size."""
    return x if x.dtype.kind == "u" else x.view(f"u{x.dtype.itemsize}")


def _dump(value: Any, width: int) -> str:
    return f"{int(value):0{(width + 3) // 4}X}"


def _report(got: Array, want: Array, inputs: Array, wrong: Array, width: int) -> Iterator[str]:
    """The count, and the first and the worst difference in hex."""
    yield f"{np.count_nonzero(wrong)} of {got.size} differ"
    distance = np.where(wrong, np.abs(got.astype(np.float64) - want.astype(np.float64)), -1)
    source = bits(inputs) if inputs.dtype.kind == "f" and inputs.dtype.itemsize <= 8 else None
    for name, flat in (("first", int(wrong.argmax())), ("worst", int(distance.argmax()))):
        shown = repr(inputs.flat[flat])
        if source is not None:
            shown += f" {_dump(source.flat[flat], 8 * source.dtype.itemsize)}"
        index = tuple(int(i) for i in np.unravel_index(flat, got.shape))
        yield f"  {name} {index}: in={shown} got={_dump(got.flat[flat], width)} want={_dump(want.flat[flat], width)}"


def assert_bits(got: Any, want: Any, inputs: Any, fmt: str | Format | None = None, any_nan: bool = False) -> None:
    """Equality of dtype, shape and bits; NaN by its code, unless any_nan lets every NaN of fmt pass."""
    got, want, inputs = np.asarray(got), np.asarray(want), np.asarray(inputs)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    got, want = bits(got), bits(want)
    wrong = got != want
    row = None if fmt is None else get_format(fmt)
    if any_nan and row is not None:
        is_nan = np.vectorize(row.is_nan, otypes=[bool])
        wrong &= ~(is_nan(got) & is_nan(want))
    if not wrong.any():
        return
    width = row.bits if row else 8 * got.dtype.itemsize
    shape = np.broadcast_to(inputs, got.shape)
    raise AssertionError("\n".join(_report(got, want, shape, wrong, width)))
