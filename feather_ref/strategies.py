"""Strategies for hypothesis: inputs that decide, for tests of any encoder, packer or kernel.

Each strategy of arrays takes a shape: an int, a tuple, or a strategy of tuples; some hundred
elements at most, for hypothesis draws no more.  The arrays reach every class of input: NaN with
payloads of both signs, Inf, subnormals, ties and their neighbours, both ends.  Nothing is filtered
away; a test that cannot take an input says so itself.

    from hypothesis import given
    from feather_ref import strategies as frs

    @given(frs.near_ties("e4m3") | frs.float_bits("float32"))
    def test_mine(x):
        assert (my_encode(x) == fr.encode(x, "e4m3")).all()

Layout of a float, as everywhere: | sign | exponent | mantissa |.

Source: design of this project; Stillwater Universal (every value, every midpoint, one step either
side).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from feather_ref._sources import row_of
from feather_ref.codec import code_dtype
from feather_ref.formats import FORMATS, Format, check_int, get_format, minifloat, p3109
from feather_ref.policy import NANS, NEGATIVES, OVERFLOWS, SUBNORMALS, resolve
from feather_ref.rounding import DETERMINISTIC

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError("feather_ref.strategies needs hypothesis: pip install hypothesis") from error

Array = NDArray[Any]
Shape = int | tuple[int, ...] | st.SearchStrategy[tuple[int, ...]]
SHAPE = 8  # elements where no shape is asked for


# --- formats ----------------------------------------------------------------------------------


def formats(max_bits: int = 16) -> st.SearchStrategy[Format]:
    """Rows of up to `max_bits` bits (3 to 32): named, minifloat, P3109, and rows of one's own.

    >>> from hypothesis import find
    >>> row = find(formats(max_bits=8), lambda row: row.has_inf)
    >>> row.has_inf, row.bits <= 8
    (True, True)
    """
    max_bits = check_int("max_bits", max_bits, 3, 32)
    named = st.sampled_from([name for name, row in FORMATS.items() if row.bits <= max_bits]).map(get_format)
    drawn = (_minifloats, _p3109s, _floats, _integers)
    return st.one_of(named, *(rows(max_bits) for rows in drawn), _tables())


@st.composite
def _minifloats(draw: st.DrawFn, max_bits: int) -> Format:
    e = draw(st.integers(1, min(8, max_bits - 2)))
    m = draw(st.integers(0 if e > 1 else 1, max_bits - 1 - e))
    return minifloat(e, m, draw(st.none() | st.integers(-140, 170)), draw(st.booleans()))


@st.composite
def _p3109s(draw: st.DrawFn, max_bits: int) -> Format:
    k, signed = draw(st.integers(3, min(max_bits, 16))), draw(st.booleans())
    low = max(1, k - 10)  # up to 10 bits of exponent: values that float64 holds
    return p3109(k, draw(st.integers(low, k - signed)), signed, draw(st.booleans()))


@st.composite
def _floats(draw: st.DrawFn, max_bits: int) -> Format:
    """Any coding of Inf, NaN and zero that a row allows, any overflow but P3109's."""
    signed = draw(st.booleans())
    e = draw(st.integers(1, min(8, max_bits - signed - 1)))
    m = draw(st.integers(0 if e > 1 else 1, max_bits - signed - e))
    has_zero = signed or draw(st.booleans())
    nans = ["none", "all_ones", *["negative_zero"] * signed, *["ieee"] * (m > 0)]
    nan: Any = draw(st.sampled_from(nans))
    inf: Any = "ieee" if nan == "ieee" else draw(st.sampled_from(["none", "top"]))
    return Format(
        "drawn", signed + e + m, exponent_bits=e, mantissa_bits=m, bias=draw(st.integers(-140, 170)),
        signed=signed, has_zero=has_zero, inf=inf, nan=nan, negative="zero" if nan == "none" else "nan",
        overflow=draw(st.sampled_from(["saturate", "nonsaturating", "propagate"])),
    )  # fmt: skip


@st.composite
def _integers(draw: st.DrawFn, max_bits: int) -> Format:
    bits, signed = draw(st.integers(2, max_bits)), draw(st.booleans())
    scale = draw(st.integers(-20, 20))
    return Format("drawn", bits, kind="integer", bias=scale, signed=signed, negative="nan" if signed else "zero")


@st.composite
def _tables(draw: st.DrawFn) -> Format:
    """Distinct values in any order, with zero; some with -0 at the end."""
    bits, scale = draw(st.integers(1, 3)), 2.0 ** draw(st.integers(-20, 20))
    minus = [-0.0] * (bits > 1 and draw(st.booleans()))
    others = (1 << bits) - 1 - len(minus)
    value = st.integers(1, 100) | st.integers(-100, -1)
    values = draw(st.lists(value, min_size=others, max_size=others, unique=True))
    values.insert(draw(st.integers(0, len(values))), 0)
    return Format("drawn", bits, kind="table", values=(*(v * scale for v in values), *minus))


def policies(
    fmt: str | Format, roundings: Sequence[str] = DETERMINISTIC, errors: bool = False
) -> st.SearchStrategy[dict[str, Any]]:
    """Keyword arguments of `encode` that the row can carry out.

    roundings: `feather_ref.ROUNDINGS` draws the stochastic ones too, which need random_bits beside.
    errors: also nan="error" and negative="error"; without, no input is refused.

    >>> from hypothesis import find
    >>> sorted(find(policies("e8m0"), lambda chosen: chosen["negative"] == "abs").items())
    [('nan', None), ('negative', 'abs'), ('overflow', None), ('rounding', 'nearest_even'), ('subnormals', 'keep')]
    """
    row = get_format(fmt)

    def valid(name: str, values: Sequence[str | None]) -> list[Any]:
        return [value for value in values if _answers(row, name, value, errors)]

    code = st.integers(0, row.code_mask)
    names = valid("nan", (None, *NANS))
    return st.fixed_dictionaries(
        {
            "rounding": st.sampled_from(valid("rounding", roundings)),
            "overflow": st.sampled_from(valid("overflow", (None, *OVERFLOWS))),
            "nan": st.sampled_from(names) | code | st.tuples(code, code),
            "negative": st.sampled_from(valid("negative", (None, *NEGATIVES))),
            "subnormals": st.sampled_from(SUBNORMALS),
        }
    )


def _answers(row: Format, name: str, value: str | None, errors: bool) -> bool:
    """Whether the row takes this policy, and (without errors) never answers by refusing."""
    choice: Any = {name: value}
    try:
        policy = resolve(row, **choice)
    except ValueError:
        return False
    if errors:
        return True
    if name == "negative":
        return row.signed or policy.negative != "error"
    return name != "nan" or policy.nan != "error"


# --- arrays -----------------------------------------------------------------------------------


def codes(fmt: str | Format, shape: Shape = SHAPE) -> st.SearchStrategy[Array]:
    """Arrays of codes, every code alike: uint8 up to 8 bits, uint16 up to 16, else uint32.

    >>> from hypothesis import find
    >>> find(codes("e4m3", 3), lambda c: bool((c > 0x7E).all()))
    array([127, 127, 127], dtype=uint8)
    """
    row = get_format(fmt)
    mask, dtype = np.uint64(row.code_mask), code_dtype(row)
    return _raw(shape, dtype.itemsize).map(lambda raw: (_number(raw) & mask).astype(dtype))


def float_bits(dtype: DTypeLike = np.float32, shape: Shape = SHAPE) -> st.SearchStrategy[Array]:
    """Float arrays of any bits: a third of all patterns alike, two thirds at the edges of the fields.

    dtype: float16, float32, float64, or a float of ml_dtypes.  Subnormals, Inf and NaN with any
    payload, quiet and signalling, are frequent.

    >>> from hypothesis import find
    >>> x = find(float_bits("float32", 1), lambda x: bool(np.isnan(x).all()))
    >>> x.dtype, bool(0x7F800000 < x.view(np.uint32)[0] & 0x7FFFFFFF)
    (dtype('float32'), True)
    """
    wanted, row = _float(dtype)
    fields = 0, 1, row.bias, (1 << row.exponent_bits) - 2, (1 << row.exponent_bits) - 1
    signs = 0, row.sign_mask
    heads = np.array(
        [sign | (f << row.mantissa_bits & row.magnitude_mask) for f in fields for sign in signs], np.uint64
    )
    tails = np.array([0, row.mantissa_mask, 1 << row.mantissa_bits >> 1, min(1, row.mantissa_mask)], np.uint64)

    def pattern(raw: Array) -> Array:
        choice, number = raw[..., 0], _number(raw[..., 1:])
        head, tail = heads[choice // 3 % 10], tails[choice // 30 % 4]
        within = head | (number & np.uint64(row.mantissa_mask))
        bits = np.choose(choice % 3, [head | tail, within, number & np.uint64(row.code_mask)])
        return _viewed(bits, wanted)

    return _raw(shape, 1 + wanted.itemsize).map(pattern)


def near_ties(fmt: str | Format, dtype: DTypeLike = np.float32, shape: Shape = SHAPE) -> st.SearchStrategy[Array]:
    """Float arrays of values and midpoints of a row, and one step of `dtype` to either side.

    Both signs; from zero and half the least value to one and a half steps beyond the greatest.
    Where `dtype` does not hold a point, the nearest number of `dtype` stands for it.  For NaN, and
    for numbers of any size, join `float_bits` with `|`.

    >>> from hypothesis import find
    >>> x = find(near_ties("e4m3", shape=1), lambda x: bool(464 < x[0] < 470))  # 464 is the tie at the end
    >>> hex(x.view(np.uint32)[0])
    '0x43e80001'
    """
    row, (wanted, source) = get_format(fmt), _float(dtype)
    first, last = 0 if row.has_zero else -1, _last(row)
    top = source.max_magnitude if source.inf_magnitude is None else source.inf_magnitude
    choices = list(product((0, -1, 1), (False, True), (0, source.sign_mask)))

    def place(where: int, number: int) -> int:
        if where == 0:  # both ends
            return (first, last, last - 1, min(1, last))[number % 4]
        spread = first + number % (last + 1 - first)
        return spread if where == 1 else spread >> row.mantissa_bits << row.mantissa_bits  # the edge of a binade

    def pattern(choice: int, number: int) -> int:
        step, half, sign = choices[choice % 12]
        near = _nearest_bits(_point(row, place(choice // 12 % 3, number), half), wanted)
        return min(max(near + step, 0), top) | sign

    def patterns(raw: Array) -> Array:
        pairs = zip(raw[..., 0].flat, _number(raw[..., 1:]).flat, strict=True)
        bits = np.array([pattern(int(choice), int(number)) for choice, number in pairs], np.uint64)
        return _viewed(bits.reshape(raw.shape[:-1]), wanted)

    return _raw(shape, 5).map(patterns)


@st.composite
def packed_shapes(draw: st.DrawFn, width: int) -> tuple[int, ...]:
    """Shapes of codes of `width` bits that try a packer: rows that end at a word, a code before or after.

    Up to three axes; empty ones too.  At most 4 periods, a period being the codes that fill whole
    words.

    >>> from hypothesis import find
    >>> find(packed_shapes(6), lambda shape: shape[-1] > 16)  # 16 codes of 6 bits are 3 words
    (17,)
    """
    width = check_int("width", width, 1, 32)
    period = math.lcm(width, 32) // width
    fits = [-(-32 * k // width) for k in range(1, 4)]  # codes that touch 1, 2, 3 words
    whole = st.integers(0, 4).map(lambda k: k * period) | st.sampled_from(fits)
    n = draw(st.tuples(whole, st.sampled_from([0, 1, -1])).map(lambda pair: max(sum(pair), 0)))
    lead = draw(st.lists(st.integers(0, 3), max_size=2))
    return (*lead, n)


# --- bits -------------------------------------------------------------------------------------


@st.composite
def _raw(draw: st.DrawFn, shape: Shape, size: int) -> Array:
    """(*shape, size) random bytes.  Hypothesis draws small integers more often than great ones, but not bytes."""
    wanted = draw(shape) if isinstance(shape, st.SearchStrategy) else shape
    wanted = (wanted,) if isinstance(wanted, int) else wanted
    count = math.prod(wanted) * size
    return np.frombuffer(draw(st.binary(min_size=count, max_size=count)), np.uint8).reshape(*wanted, size)


def _number(raw: Array) -> NDArray[np.uint64]:
    """Bytes of the last axis as integers, the least first."""
    wide = raw.astype(np.uint64) << np.arange(0, 8 * raw.shape[-1], 8, dtype=np.uint64)
    number: NDArray[np.uint64] = np.bitwise_or.reduce(wide, axis=-1)
    return number


def _viewed(bits: Array, dtype: np.dtype[Any]) -> Array:
    """Bits as floats: a number on its way through Python would lose a NaN's payload."""
    return np.asarray(bits).astype(f"u{dtype.itemsize}").view(dtype)


def _float(dtype: DTypeLike) -> tuple[np.dtype[Any], Format]:
    """A float dtype in native byte order, and the row of its elements."""
    wanted = np.dtype(dtype).newbyteorder("=")
    row = row_of(wanted)
    if row is None or row.kind != "float":
        raise TypeError(f"dtype must be float16, float32, float64 or a float of ml_dtypes, got {wanted}")
    return wanted, row


# --- values and midpoints ---------------------------------------------------------------------


@lru_cache(maxsize=64)
def _ladder(row: Format) -> list[Fraction]:
    """Zero, the magnitudes of a table and the midpoints of its values, rising, and one beyond."""
    values = sorted({Fraction(value) for value in row.values})
    middles = [(a + b) / 2 for a, b in pairwise(values)]
    rising = sorted({abs(v) for v in (*values, *middles, Fraction(0))})
    return [*rising, 2 * rising[-1]]


def _last(row: Format) -> int:
    """The last place of `_point`."""
    return len(_ladder(row)) - 1 if row.kind == "table" else row.max_magnitude + 1


def _point(row: Format, place: int, half: bool) -> Fraction:
    """A magnitude, or (half) the middle between it and the next; place -1 is zero, where no code is."""
    if row.kind == "table":
        return _ladder(row)[place]
    value = row.exact(place) if place >= 0 else Fraction(0)
    return (value + row.exact(place + 1)) / 2 if half else value


def _nearest_bits(value: Fraction, dtype: np.dtype[Any]) -> int:
    """The bits of a number of `dtype` next to a magnitude: the value itself where dtype holds it."""
    try:
        wide = float(value)
    except OverflowError:
        wide = float("inf")
    with np.errstate(over="ignore", under="ignore"):
        number = np.array(wide).astype(dtype)
    return int(number.view(f"u{dtype.itemsize}"))
