"""encode, decode, quantize, convert: numbers to codes and back, one rounding always.

codes: uint8 up to 8 bits, uint16 up to 16, else uint32; right-aligned; the shape of x.  Arrays
are worked on in chunks of 64 Ki elements, so that memory beyond input and output stays small.

Source: the rows name their standards; the definition is `_parts`, the policies are `policy`.
"""

from __future__ import annotations

from typing import Any, Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from feather_ref._checks import check_range, integers, refuse_errors
from feather_ref._fast import convert_bits, kernel
from feather_ref._parts import FP64, split
from feather_ref._sources import as_array, bits_of, row_of
from feather_ref._sweep import Array, place, spell, sweep
from feather_ref.formats import FORMATS, Format, check_int, get_format
from feather_ref.policy import Nan, Policies, Policy, resolve
from feather_ref.report import Report, effects, make_report
from feather_ref.rounding import MAX_RANDOM_BITS, STOCHASTIC

_FP32 = FORMATS["fp32"]
Random = tuple[Array, int] | None


def code_dtype(fmt: str | Format) -> np.dtype[Any]:
    """The dtype of the codes of a format.

    >>> code_dtype("e2m1"), code_dtype("fp16"), code_dtype("tf32")
    (dtype('uint8'), dtype('uint16'), dtype('uint32'))
    """
    return _storage(_packable(fmt))


def _storage(row: Format) -> np.dtype[Any]:
    return np.dtype(next(f"u{size}" for size in (1, 2, 4, 8) if row.bits <= 8 * size))


def _packable(fmt: str | Format) -> Format:
    row = get_format(fmt)
    if row.bits > 32:
        raise ValueError(f"fmt: {row.name!r} has {row.bits} bits; codes have at most 32")
    return row


# --- encode -----------------------------------------------------------------------------------


@overload
def encode(
    x: object,
    fmt: str | Format,
    *,
    out: Array | None = ...,
    report: Literal[False] = ...,
    random_bits: ArrayLike | None = ...,
    n_bits: int | None = ...,
    **policies: Unpack[Policies],
) -> Array: ...


@overload
def encode(
    x: object,
    fmt: str | Format,
    *,
    out: Array | None = ...,
    report: Literal[True],
    random_bits: ArrayLike | None = ...,
    n_bits: int | None = ...,
    **policies: Unpack[Policies],
) -> tuple[Array, Report]: ...


def encode(
    x: object,
    fmt: str | Format,
    *,
    out: Array | None = None,
    report: bool = False,
    random_bits: ArrayLike | None = None,
    n_bits: int | None = None,
    **policies: Unpack[Policies],
) -> Array | tuple[Array, Report]:
    """The codes of the numbers x in format `fmt`, rounded once.

    x: float16 .. longdouble, ml_dtypes floats, integers, bool, Python numbers and lists; any
    shape, strides and byte order.  out: where to write, of dtype `code_dtype(fmt)` and the shape
    of x; untouched on an error.  report: also return a `Report` (slower).  random_bits: for
    stochastic rounding, integers below 2**n_bits that broadcast to x.  policies: rounding,
    overflow, nan, negative, subnormals: see `Policies`.

    >>> [hex(c) for c in encode([0.3, 464.0, -0.0, float("nan")], "e4m3")]
    ['0x2a', '0x7e', '0x80', '0x7f']
    >>> hex(encode(465.0, "e4m3", overflow="nonsaturating"))
    '0x7f'

    Raises TypeError or ValueError naming the argument, the value and its index.
    """
    row = _packable(fmt)
    policy = resolve(row, **policies)
    array = as_array(x)
    src = row_of(array.dtype)
    random = check_random(policy.rounding, random_bits, n_bits, array.shape)
    result = _output(out, array.shape, _storage(row))
    bits = array if src is None else bits_of(array)
    refuse_errors(bits, src, policy, "x")
    if report and out is not None and np.may_share_memory(bits, out):
        bits = bits.copy()
    _convert(bits, src, policy, result, random)
    return (result, make_report(bits, src, result, policy)) if report else result


def _convert(bits: Array, src: Format | None, policy: Policy, out: Array, random: Random = None) -> None:
    """Write the codes of source bits (src None: of longdouble values) to `out`, chunk by chunk."""
    if random is None and src is not None:
        run = kernel(src, policy, out.dtype)
        sweep([bits], out, lambda start, chunk, codes: run(chunk, codes))
        return

    def work(start: int, chunk: Array, *rest: Array) -> None:
        operand = (rest[0].astype(np.uint64), random[1]) if random else (None, 0)
        rest[-1][...] = convert_bits(chunk, src, policy, *operand)

    sweep([bits, random[0]] if random else [bits], out, work)


def check_random(
    rounding: str, random_bits: ArrayLike | None, n_bits: int | None, shape: tuple[int, ...]
) -> Random:
    """Check the operands of stochastic rounding: (integers of the shape of x, their bits)."""
    if rounding not in STOCHASTIC:
        if random_bits is not None or n_bits is not None:
            raise ValueError(f"random_bits and n_bits are for stochastic rounding, not {rounding!r}")
        return None
    if random_bits is None or n_bits is None:
        raise ValueError(f"rounding={rounding!r} needs random_bits and n_bits")
    n = check_int("n_bits", n_bits, 1, MAX_RANDOM_BITS)
    random = integers(random_bits, "random_bits")
    check_range(random, (1 << n) - 1, "random_bits")
    try:
        return np.broadcast_to(random, shape), n
    except ValueError:
        raise ValueError(f"random_bits of shape {random.shape} do not broadcast to {shape}") from None


def _output(out: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if out is None:
        return np.empty(shape, dtype)
    plain = isinstance(out, np.ndarray) and not isinstance(out, np.ma.MaskedArray)
    if not isinstance(out, np.ndarray) or not plain or out.dtype != dtype or not out.dtype.isnative:
        kind = out.dtype if isinstance(out, np.ndarray) else type(out).__name__
        raise TypeError(f"out must be an array of {dtype}, got {kind}")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}, not {shape}")
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    if any(stride == 0 and size > 1 for stride, size in zip(out.strides, out.shape, strict=True)):
        raise ValueError(f"out of strides {out.strides} overlaps itself")
    return out


# --- decode and convert -----------------------------------------------------------------------


def check_codes(codes: ArrayLike, fmt: str | Format, name: str = "codes") -> Array:
    """Codes as a native array of `code_dtype(fmt)`, range-checked.

    >>> check_codes([0x7E, 0x80], "e4m3")
    array([126, 128], dtype=uint8)

    Raises TypeError for what is not integers, ValueError for a code that is too wide.
    """
    row = _packable(fmt)
    array = integers(codes, name)
    check_range(array, row.code_mask, name, row.name)
    return array.astype(_storage(row), copy=False)


def decode(
    codes: ArrayLike, fmt: str | Format, dtype: DTypeLike | None = None, *, out: Array | None = None
) -> Array:
    """The values of codes, exactly; NaN codes give the canonical positive NaN.

    codes: any integer dtype, any shape.  dtype: a float dtype (ml_dtypes too); None is that of
    `out`, else float32 where every value of the format is exact in it, else float64.  out: where
    to write; untouched on an error.

    >>> decode([0x7E, 0x01, 0x80, 0xFF], "e4m3")
    array([ 4.480000e+02,  1.953125e-03, -0.000000e+00,           nan],
          dtype=float32)
    >>> hex(decode(0x7F, "e4m3").view("u4"))
    '0x7fc00000'

    Raises ValueError with the first code whose value is not exact in dtype.
    """
    row = _packable(fmt)
    return _decode(check_codes(codes, row), row, dtype, out, "codes")


def _decode(bits: Array, row: Format, dtype: DTypeLike | None, out: Array | None, name: str) -> Array:
    """`decode` of checked codes; name: what an error calls an element."""
    wanted = _value_dtype(row, dtype, out)
    dst = FP64 if wanted.type is np.longdouble else _float_row(wanted)
    nan: Nan = "canonical" if dst.has_nan else "error"
    policy = resolve(dst, overflow="nonsaturating", nan=nan, negative="error")
    result = _output(out, bits.shape, wanted)
    refuse_errors(bits, row, policy, name)
    if not _fits(row, dst):
        _refuse_inexact(bits, row, policy, wanted, name)
    if wanted.type is np.longdouble:
        result[...] = decode(bits, row, np.float64)  # exact
    else:
        _convert(bits, row, policy, bits_of(result))
    return result


def _value_dtype(row: Format, dtype: DTypeLike | None, out: object) -> np.dtype[Any]:
    if dtype is not None:
        try:
            wanted: np.dtype[Any] = np.dtype(dtype)
        except TypeError as error:
            raise TypeError(f"dtype: {error}") from None
        return wanted if wanted.isnative else wanted.newbyteorder("=")
    if isinstance(out, np.ndarray):
        return out.dtype
    return np.dtype(np.float32 if _fits(row, _FP32) else np.float64)


def _float_row(dtype: np.dtype[Any]) -> Format:
    try:
        row = row_of(dtype)
    except TypeError:
        row = None
    if row is None or row.kind != "float":
        raise TypeError(f"dtype must be a float dtype, got {dtype}")
    return row


def _fits(src: Format, dst: Format) -> bool:
    """Whether every value of src is surely exact in dst."""
    if src.kind == "table":  # float32 numbers
        return dst.mantissa_bits >= 23 and dst.exponent_bits >= 8
    precision = src.mantissa_bits if src.kind == "float" else src.bits - 1
    same = (not src.has_inf or dst.has_inf) and (not src.has_signed_zero or dst.has_signed_zero) and dst.signed
    return same and precision <= dst.mantissa_bits and src.quantum >= dst.quantum and _emax(src) <= _emax(dst)


def _emax(row: Format) -> int:
    """Exponent of the greatest value (for integers: an upper bound)."""
    if row.kind == "integer":
        return row.quantum + row.bits
    return row.emin + (row.max_magnitude >> row.mantissa_bits) - row.has_zero


def _refuse_inexact(codes: Array, row: Format, policy: Policy, dtype: np.dtype[Any], name: str) -> None:
    """Raise for the first code whose value the result dtype does not hold."""

    def work(start: int, chunk: Array) -> None:
        bits = chunk.astype(np.uint64)
        x, y = split(bits, row), split(convert_bits(bits, row, policy), policy.fmt)
        bad = effects(x, y, policy)[0] | (x.inf & ~y.inf) | (x.zero & (x.negative != y.negative))
        if bad.any():
            index = place(start + int(bad.argmax()), codes.shape)
            code = f"{int(codes[index]):0{(row.bits + 3) // 4}X}"
            raise ValueError(f"{spell(name, index)}: the value of {row.name!r} code {code} is not exact in {dtype}")

    sweep([codes], None, work)


def convert(
    codes: ArrayLike,
    src: str | Format,
    dst: str | Format,
    *,
    out: Array | None = None,
    random_bits: ArrayLike | None = None,
    n_bits: int | None = None,
    **policies: Unpack[Policies],
) -> Array:
    """Codes of format src as codes of format dst, rounded once; the arguments are those of `encode`.

    >>> [hex(c) for c in convert([0x7C, 0x7F, 0x01], "e5m2", "e4m3")]
    ['0x7e', '0x7f', '0x0']
    """
    row, target = _packable(src), _packable(dst)
    policy = resolve(target, **policies)
    bits = check_codes(codes, row)
    random = check_random(policy.rounding, random_bits, n_bits, bits.shape)
    result = _output(out, bits.shape, _storage(target))
    refuse_errors(bits, row, policy, "codes")
    _convert(bits, row, policy, result, random)
    return result


def quantize(
    x: object,
    fmt: str | Format,
    *,
    out: Array | None = None,
    random_bits: ArrayLike | None = None,
    n_bits: int | None = None,
    **policies: Unpack[Policies],
) -> Array:
    """The values of x after the round trip through `fmt`, in the float dtype of x.

    Integers and bool give what `decode` gives; the arguments are those of `encode`.

    >>> quantize(np.array([0.3, 1000.0], np.float16), "e4m3")
    array([3.125e-01, 4.480e+02], dtype=float16)
    """
    array = as_array(x)
    codes = encode(array, fmt, random_bits=random_bits, n_bits=n_bits, **policies)
    row = row_of(array.dtype)
    is_float = row is None or row.kind == "float"
    return _decode(codes, get_format(fmt), array.dtype if is_float else None, out, "x")


def value_table(fmt: str | Format) -> Array:
    """The value of every code of a format of up to 16 bits, in code order.

    >>> value_table("e2m1")[:8]
    array([0. , 0.5, 1. , 1.5, 2. , 3. , 4. , 6. ], dtype=float32)
    """
    row = _packable(fmt)
    if row.bits > 16:
        raise ValueError(f"fmt: {row.name!r} has {row.bits} bits; a table has at most 16")
    return decode(np.arange(1 << row.bits), row)
