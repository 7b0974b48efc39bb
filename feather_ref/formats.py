"""THE TABLE: one frozen row per number format; everything else is derived from the row.

Bit layout of a float code, right-aligned in `bits` bits::

    | sign (if signed) | exponent_bits | mantissa_bits |

The code without its sign bit is the *magnitude*.  Finite magnitudes are 0 .. max_magnitude
without a gap and rise with the value; Inf and NaN lie above them, or on the code of -0.  With
E the exponent field and M the mantissa field::

    E = 0 and has_zero   M * 2**(1 - bias - mantissa_bits)                     zero, subnormals
    otherwise            (2**mantissa_bits + M) * 2**(E - bias - mantissa_bits)

An integer code is two's complement (signed) or plain (unsigned), times 2**-bias.  A table code
is an index into `values`.

Source: each row names its document; the layout of this file follows none of them.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Literal, SupportsIndex, get_args

Kind = Literal["float", "integer", "table"]
InfCoding = Literal["none", "ieee", "top"]
NanCoding = Literal["none", "ieee", "all_ones", "negative_zero"]
Overflow = Literal["saturate", "nonsaturating", "propagate", "ocp_table3", "p3109_satnone"]
Negative = Literal["nan", "zero", "abs", "error"]

MAX_BITS = 64  # rows of up to 32 bits can be packed; wider ones describe source dtypes only
MAX_EXPONENT_BITS = 16  # exponents stay far inside int64


@dataclass(frozen=True)
class Source:
    """Where a row comes from: document, version, section."""

    document: str
    version: str = ""
    section: str = ""

    def __str__(self) -> str:
        return ", ".join(part for part in (self.document, self.version, self.section) if part)


@dataclass(frozen=True)
class Format:
    """One number format.  Frozen and hashable; build one to bring your own format.

    bits: of a code; for a float the sum of sign, exponent_bits and mantissa_bits.
    bias: of the exponent; an integer row is scaled by 2**-bias.
    inf: "ieee" (exponent all ones, mantissa 0), "top" (the greatest magnitude that is not NaN),
        "none".
    nan: "ieee" (exponent all ones, mantissa not 0), "all_ones" (the magnitude of all ones),
        "negative_zero" (the one code where -0 would be), "none".
    nan_code: the canonical NaN, where it is not the derived one.
    overflow, negative: what None means in `encode`.
    storage_bits, storage_shift: width of a lane in a word (0: bits); bits below the code in it.
    values: of a table row, floats in code order.

    >>> row = Format("tiny", bits=5, exponent_bits=2, mantissa_bits=2, bias=1)
    >>> row.max, row.min_subnormal, row.period
    (7.0, 0.25, (32, 5))
    """

    name: str
    bits: int
    kind: Kind = "float"
    exponent_bits: int = 0
    mantissa_bits: int = 0
    bias: int = 0
    signed: bool = True
    has_zero: bool = True
    inf: InfCoding = "none"
    nan: NanCoding = "none"
    nan_code: int | None = None  # the canonical NaN, where it is not the derived one
    overflow: Overflow = "saturate"  # what overflow=None means
    negative: Negative = "nan"  # what negative=None means; unsigned rows only
    storage_bits: int = 0  # lane width in a word; 0: bits
    storage_shift: int = 0  # bits below the code in its lane
    values: tuple[float, ...] = ()  # table kinds, in code order
    source: Source = Source("user-defined")
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"name must be a str, got {type(self.name).__name__}")
        if self.storage_bits == 0:
            object.__setattr__(self, "storage_bits", self.bits)
        _check_row(self)

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        """Field by field, where -0 among the values is not 0."""
        return self._identity == other._identity if isinstance(other, Format) else NotImplemented

    def __hash__(self) -> int:
        """Of the same."""
        return hash(self._identity)

    @cached_property
    def _identity(self) -> tuple[Any, ...]:
        """All fields, and the codes of -0, which Python takes for 0."""
        zeros = tuple(code for code, v in enumerate(self.values) if v == 0 and math.copysign(1, v) < 0)
        return *(getattr(self, name) for name in Format.__dataclass_fields__), zeros

    # --- fields -------------------------------------------------------------------------------

    @cached_property
    def code_mask(self) -> int:
        """All bits of a code."""
        return (1 << self.bits) - 1

    @cached_property
    def sign_mask(self) -> int:
        """The sign bit; 0 where there is none."""
        return 1 << (self.bits - 1) if self.signed and self.kind != "table" else 0

    @cached_property
    def magnitude_mask(self) -> int:
        """A code without its sign bit."""
        return self.code_mask & ~self.sign_mask

    @cached_property
    def mantissa_mask(self) -> int:
        """The mantissa field."""
        return (1 << self.mantissa_bits) - 1

    @cached_property
    def exponent_mask(self) -> int:
        """The exponent field, in place."""
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    # --- special codes ------------------------------------------------------------------------

    @property
    def has_inf(self) -> bool:
        """Whether some code is infinite."""
        return self.inf != "none"

    @property
    def has_nan(self) -> bool:
        """Whether some code is NaN."""
        return self.nan != "none"

    @property
    def has_signed_nan(self) -> bool:
        """Whether NaN exists with both signs."""
        return self.nan in ("ieee", "all_ones") and self.signed

    @cached_property
    def has_signed_zero(self) -> bool:
        """Whether -0 has a code of its own."""
        if self.kind == "table":
            return any(v == 0 and math.copysign(1, v) < 0 for v in self.values)
        return self.kind == "float" and self.signed and self.has_zero and self.nan != "negative_zero"

    @property
    def has_subnormals(self) -> bool:
        """Whether some nonzero code has no hidden bit."""
        return self.kind == "float" and self.has_zero and self.mantissa_bits > 0

    @cached_property
    def inf_magnitude(self) -> int | None:
        """The magnitude that means infinity, or None."""
        if self.inf == "ieee":
            return self.exponent_mask
        if self.inf == "top":
            return self.magnitude_mask - (self.nan == "all_ones")
        return None

    @cached_property
    def canonical_nan(self) -> int | None:
        """The code that nan="canonical" writes, or None where the format has no NaN."""
        if self.nan_code is not None:
            return self.nan_code
        quiet = self.exponent_mask | (1 << self.mantissa_bits >> 1)
        derived = {"ieee": quiet, "all_ones": self.magnitude_mask, "negative_zero": self.sign_mask}
        return derived.get(self.nan)

    def is_nan(self, code: int) -> bool:
        """Whether `code` is NaN.

        >>> [get_format("e5m2").is_nan(code) for code in (0x7C, 0x7D, 0xFF)]
        [False, True, True]
        """
        magnitude = code & self.magnitude_mask
        if self.nan == "ieee":
            return magnitude > self.exponent_mask
        if self.nan == "all_ones":
            return magnitude == self.magnitude_mask
        return self.nan == "negative_zero" and code == self.sign_mask

    def is_inf(self, code: int) -> bool:
        """Whether `code` is +Inf or -Inf."""
        return not self.is_nan(code) and code & self.magnitude_mask == self.inf_magnitude

    # --- range --------------------------------------------------------------------------------

    @cached_property
    def max_magnitude(self) -> int:
        """The greatest finite magnitude (of a negative integer it is one more)."""
        if self.kind == "table":
            return self.code_mask
        if self.inf_magnitude is not None:
            return self.inf_magnitude - 1
        if self.nan == "ieee":
            return self.exponent_mask - 1
        return self.magnitude_mask - (self.nan == "all_ones")

    @property
    def emin(self) -> int:
        """Exponent of the least binade: of the subnormals' spacing, or of the least value."""
        return 1 - self.bias if self.has_zero else -self.bias

    @cached_property
    def quantum(self) -> int:
        """log2 of the finest spacing."""
        return self.emin - self.mantissa_bits if self.kind == "float" else -self.bias

    def exact(self, magnitude: int) -> Fraction:
        """The value of a magnitude, also beyond the last one, as if the exponent went on."""
        if self.kind == "table":
            return abs(Fraction(self.values[magnitude]))
        if self.kind == "integer":
            return Fraction(magnitude) * Fraction(2) ** self.quantum
        field, fraction = divmod(magnitude, 1 << self.mantissa_bits)
        if field or not self.has_zero:
            fraction += 1 << self.mantissa_bits
        return Fraction(fraction) * Fraction(2) ** (max(field - self.has_zero, 0) + self.quantum)

    def _value(self, magnitude: int) -> float:
        exact = self.exact(magnitude)
        try:
            value = float(exact)
        except OverflowError:
            value = math.inf
        if Fraction(value if math.isfinite(value) else 0) != exact:
            raise ValueError(f"format {self.name!r}: the value of {magnitude:#x} is no float64; use exact()")
        return value

    @cached_property
    def max(self) -> float:
        """The greatest finite value, as a Python float."""
        return max(self.values) if self.kind == "table" else self._value(self.max_magnitude)

    @cached_property
    def min(self) -> float:
        """The least finite value: -max, 0, or the first of a format without zero."""
        if self.kind == "table":
            return min(self.values)
        if self.signed:
            return -self._value(self.max_magnitude + (self.kind == "integer"))
        return self._value(0)

    @cached_property
    def min_normal(self) -> float:
        """The least positive value with a hidden bit (for integers: the least positive value)."""
        if self.kind == "table":
            return min(v for v in self.values if v > 0)
        if self.kind == "integer":
            return self._value(1)
        return self._value(self.has_zero << self.mantissa_bits)

    @cached_property
    def min_subnormal(self) -> float | None:
        """The least positive subnormal, or None."""
        return self._value(1) if self.has_subnormals else None

    # --- words --------------------------------------------------------------------------------

    @property
    def period(self) -> tuple[int, int]:
        """(codes, words): the least number of codes that fills whole 32-bit words.

        >>> get_format("e3m2").period
        (16, 3)
        """
        bits = math.lcm(self.storage_bits, 32)
        return bits // self.storage_bits, bits // 32


def _check_row(row: Format) -> None:
    """Refuse a row that contradicts itself."""

    def need(condition: bool, text: str) -> None:
        if not condition:
            raise ValueError(f"format {row.name!r}: {text}")

    _check_types(row, need)
    need(bool(row.name), "name must not be empty")
    need(abs(row.bias) <= 1 << MAX_EXPONENT_BITS, f"bias {row.bias} is out of range")
    need(1 <= row.bits <= MAX_BITS, f"bits must be 1..{MAX_BITS}, got {row.bits}")
    need(
        row.bits + row.storage_shift <= row.storage_bits and row.storage_shift >= 0,
        f"{row.bits} bits shifted by {row.storage_shift} do not fit {row.storage_bits} storage bits",
    )
    if row.kind == "float":
        _check_float(row, need)
    else:
        plain = row.inf == row.nan == "none" and row.has_zero and row.exponent_bits == row.mantissa_bits == 0
        need(plain, f"a row of kind {row.kind!r} has no exponent, mantissa, Inf or NaN")
    if row.kind == "table":
        need(row.bits <= 16, "a table has at most 16 bits")
        need(row.signed, "a table's values have their own signs: signed is True")
        need(len(row.values) == 1 << row.bits, f"needs {1 << row.bits} values, got {len(row.values)}")
        sizes = [abs(v) for v in row.values if v != 0]
        need(all(map(math.isfinite, sizes)) and bool(sizes), "values must be finite and not all zero")
        # so that the codec's midpoints are exact in float64 with a bit to spare
        near = max(sizes) <= 2**27 * min(sizes) and all((Fraction(v) * 2**149).denominator == 1 for v in sizes)
        need(near and all(_precision(v) <= 24 for v in sizes), "values must be float32 within a factor of 2**27")
    else:
        need(row.values == (), "only a row of kind 'table' has values")
    if row.nan_code is not None:
        ok = 0 <= row.nan_code <= row.code_mask and row.is_nan(row.nan_code)
        need(ok, f"nan_code {row.nan_code:#x} is not a NaN of the format")


_NAMES = {"kind": Kind, "inf": InfCoding, "nan": NanCoding, "overflow": Overflow, "negative": Negative}
_INTS = ("bits", "exponent_bits", "mantissa_bits", "bias", "storage_bits", "storage_shift")


def _check_types(row: Format, need: Callable[[bool, str], None]) -> None:
    """Names are known, numbers are ints, flags are bools, values are floats."""
    for field, names in _NAMES.items():
        known = get_args(names)
        need(getattr(row, field) in known, f"{field} must be one of {', '.join(known)}; got {getattr(row, field)!r}")
    for field in _INTS:
        value = getattr(row, field)
        need(type(value) is int, f"{field} must be an int, got {value!r}")
    for field in ("signed", "has_zero"):
        need(isinstance(getattr(row, field), bool), f"{field} must be a bool, got {getattr(row, field)!r}")
    floats = isinstance(row.values, tuple) and all(isinstance(value, float) for value in row.values)
    need(floats, "values must be a tuple of floats")
    texts = isinstance(row.aliases, tuple) and all(isinstance(alias, str) for alias in row.aliases)
    need(texts, "aliases must be a tuple of names")


def _precision(value: float) -> int:
    """Significant bits of a finite float other than 0."""
    numerator = abs(value.as_integer_ratio()[0])
    return (numerator // (numerator & -numerator)).bit_length()


def _check_float(row: Format, need: Callable[[bool, str], None]) -> None:
    """The part of the check that concerns float rows."""
    need(row.mantissa_bits >= 0, "mantissa_bits must not be negative")
    need(
        1 <= row.exponent_bits <= MAX_EXPONENT_BITS,
        f"exponent_bits must be 1..{MAX_EXPONENT_BITS}, got {row.exponent_bits}",
    )
    total = row.signed + row.exponent_bits + row.mantissa_bits
    need(total == row.bits, f"sign, exponent and mantissa make {total} bits, not {row.bits}")
    need(row.nan != "ieee" or row.mantissa_bits > 0, "an IEEE NaN needs a mantissa bit")
    need((row.inf == "ieee") == (row.nan == "ieee"), "IEEE Inf and IEEE NaN come together")
    need(row.has_zero or not row.signed, "a signed row has a zero")
    need(row.nan != "negative_zero" or (row.signed and row.has_zero), "no -0 whose code NaN could take")
    need(row.max_magnitude > 0, "there is no finite value but the first")


# --- sources ----------------------------------------------------------------------------------

_OFP8 = Source("OCP 8-bit Floating Point Specification (OFP8)", "1.0, 2023-06-20", "table 1")
_MX = Source("OCP Microscaling Formats (MX) Specification", "1.0, 2023-09-07", "section 5.3")
_IEEE = Source("IEEE 754", "2019", "table 3.5")
_BF16 = Source("Intel BFLOAT16 - Hardware Numerics Definition", "1.0, 2018-11")
_TF32 = Source("NVIDIA PTX ISA", "8.7", "alternate floating-point data formats")
_FNUZ = Source("Noune et al., 8-bit Numerical Formats for Deep Neural Networks", "arXiv:2206.02915")
_B11 = Source("ml_dtypes", "0.6.0", "README, float8_e4m3b11fnuz")
_ML_DTYPES = Source("ml_dtypes", "0.6.0", "README, IEEE 754 style 8-bit floats")
_NVFP4 = Source("NVIDIA PTX ISA", "8.7", "alternate floating-point data formats, ue4m3")
_UE5M3 = Source("NVIDIA CUTLASS", "4.x", "float_ue5m3_t")
_GL = Source("OpenGL specification", "4.6", "2.3.4 unsigned 11- and 10-bit floating-point numbers")
_TWOS = Source("two's complement", "", "")
_NF4 = Source("Dettmers et al., QLoRA", "arXiv:2305.14314", "appendix E")
_BNB = Source("bitsandbytes", "0.43", "create_fp4_map")
_P3109 = Source("IEEE P3109 interim report", "4.0, 2026-06-26", "value tables")

# float32 values, as the paper and the library print them; written as exact float64
_NF4_VALUES = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
# magnitudes 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4, each rounded to float32
_BNB_VALUES = tuple(
    sign * value
    for sign in (1.0, -1.0)
    for value in (
        0.0, 0.0052083334885537624, 0.6666666865348816, 1.0,
        0.3333333432674408, 0.5, 0.1666666716337204, 0.25,
    )
)  # fmt: skip


def _ieee(name: str, e: int, m: int, source: Source, *aliases: str, signed: bool = True) -> Format:
    """A row with IEEE Inf and NaN and the usual bias; overflow goes to Inf."""
    return Format(
        name, signed + e + m, exponent_bits=e, mantissa_bits=m, bias=2 ** (e - 1) - 1, signed=signed,
        inf="ieee", nan="ieee", overflow="nonsaturating", negative="nan" if signed else "zero",
        source=source, aliases=aliases,
    )  # fmt: skip


def _finite(name: str, e: int, m: int, bias: int, nan: NanCoding, source: Source, *aliases: str) -> Format:
    """A signed row without Inf; overflow saturates."""
    return Format(
        name, 1 + e + m, exponent_bits=e, mantissa_bits=m, bias=bias, nan=nan, source=source, aliases=aliases
    )


def _integer(name: str, bits: int, *aliases: str, signed: bool = True) -> Format:
    return Format(
        name, bits, kind="integer", signed=signed, negative="nan" if signed else "zero",
        source=_TWOS, aliases=aliases,
    )  # fmt: skip


_ROWS = (
    _finite("e4m3", 4, 3, 7, "all_ones", _OFP8, "e4m3fn", "float8_e4m3fn", "F8_E4M3", "fp8e4nv", "fp8_e4m3"),
    replace(
        _ieee("e5m2", 5, 2, _OFP8, "float8_e5m2", "F8_E5M2", "fp8e5", "fp8_e5m2"),
        overflow="saturate", nan_code=0x7F,
    ),
    _finite("e3m2", 3, 2, 3, "none", _MX, "e3m2fn", "float6_e3m2fn", "F6_E3M2", "fp6_e3m2"),
    _finite("e2m3", 2, 3, 1, "none", _MX, "e2m3fn", "float6_e2m3fn", "F6_E2M3", "fp6_e2m3"),
    _finite("e2m1", 2, 1, 1, "none", _MX, "e2m1fn", "float4_e2m1fn", "F4", "fp4", "fp4_e2m1"),
    Format(
        "e8m0", 8, exponent_bits=8, bias=127, signed=False, has_zero=False, nan="all_ones",
        source=_MX, aliases=("e8m0fnu", "float8_e8m0fnu", "F8_E8M0", "ue8m0"),
    ),
    _ieee("fp16", 5, 10, _IEEE, "float16", "F16", "half", "binary16", "e5m10"),
    _ieee("bf16", 8, 7, _BF16, "bfloat16", "BF16", "e8m7"),
    replace(_ieee("tf32", 8, 10, _TF32, "tensorfloat32", "e8m10"), storage_bits=32, storage_shift=13),
    _ieee("fp32", 8, 23, _IEEE, "float32", "F32", "single", "binary32", "e8m23"),
    _finite("e4m3fnuz", 4, 3, 8, "negative_zero", _FNUZ, "float8_e4m3fnuz", "F8_E4M3FNUZ", "fp8e4b8"),
    _finite("e5m2fnuz", 5, 2, 16, "negative_zero", _FNUZ, "float8_e5m2fnuz", "F8_E5M2FNUZ", "fp8e5b16"),
    _finite("e4m3b11fnuz", 4, 3, 11, "negative_zero", _B11, "float8_e4m3b11fnuz"),
    _ieee("e4m3ieee", 4, 3, _ML_DTYPES, "float8_e4m3"),
    _ieee("e3m4", 3, 4, _ML_DTYPES, "float8_e3m4", "F8_E3M4"),
    Format(
        "ue4m3", 7, exponent_bits=4, mantissa_bits=3, bias=7, signed=False, nan="all_ones",
        storage_bits=8, source=_NVFP4, aliases=("float8_ue4m3",),
    ),
    Format(
        "ue5m3", 8, exponent_bits=5, mantissa_bits=3, bias=15, signed=False, nan="all_ones",
        source=_UE5M3, aliases=("float8_ue5m3",),
    ),
    _integer("int8", 8, "I8"),
    _integer("uint8", 8, "U8", signed=False),
    _integer("int4", 4, "I4"),
    _integer("uint4", 4, "U4", signed=False),
    _integer("int2", 2, "I2"),
    replace(_integer("mxint8", 8), bias=6, source=_MX),
    Format("nf4", 4, kind="table", values=_NF4_VALUES, source=_NF4, aliases=("normalfloat4",)),
    Format("fp4_bnb", 4, kind="table", values=_BNB_VALUES, source=_BNB, aliases=("bnb_fp4",)),
    _ieee("uf11", 5, 6, _GL, "ufloat11", "ue5m6", signed=False),
    _ieee("uf10", 5, 5, _GL, "ufloat10", "ue5m5", signed=False),
)  # fmt: skip

FORMATS: Mapping[str, Format] = MappingProxyType({row.name: row for row in _ROWS})
"""Every named row, by canonical name."""

_ALIASES = {alias.lower(): row for row in _ROWS for alias in (row.name, *row.aliases)}


# --- factories --------------------------------------------------------------------------------


def _shape(row: Format) -> tuple[object, ...]:
    """What a row computes, without its name and source."""
    return tuple(
        value for field, value in vars(row).items() if field in Format.__dataclass_fields__
        and field not in ("name", "source", "aliases", "negative")
    )  # fmt: skip


@lru_cache(maxsize=1024, typed=True)  # 3 and 3.0 are not the same argument
def minifloat(e: int, m: int, bias: int | None = None, nan: bool = True) -> Format:
    """A signed float of `e` exponent and `m` mantissa bits without Inf, saturating.

    bias defaults to 2**(e-1) - 1.  nan: the magnitude of all ones is NaN, with both signs; else
    every code is finite.  Where a named row is the same, that row is returned.

    >>> minifloat(4, 3).name, minifloat(3, 2, nan=False).name, minifloat(3, 4).name
    ('e4m3', 'e3m2', 'e3m4fn')
    >>> minifloat(4, 3, bias=11).max
    28.0
    """
    e = check_int("e", e, 1, MAX_EXPONENT_BITS)
    m = check_int("m", m, 0, 31 - e)
    usual = 2 ** (e - 1) - 1
    limit = 1 << MAX_EXPONENT_BITS
    bias = usual if bias is None else check_int("bias", bias, -limit, limit)
    _check_bool("nan", nan)
    extra = (f",bias={bias}" if bias != usual else "") + ("" if nan else ",nan=False")
    short = f"e{e}m{m}fn"  # the MX names e3m2fn, e2m3fn, e2m1fn mean rows without NaN
    name = f"minifloat({e},{m}{extra})" if extra or short in _ALIASES else short
    row = _finite(name, e, m, bias, "all_ones" if nan else "none", Source("feather_ref.minifloat"))
    return next((known for known in _ROWS if _shape(known) == _shape(row)), row)


@lru_cache(maxsize=1024, typed=True)  # 3 and 3.0 are not the same argument
def p3109(k: int, p: int, signed: bool = True, extended: bool = True) -> Format:
    """A format of the IEEE P3109 draft: `k` bits, precision `p` (it counts the hidden bit).

    >>> row = p3109(8, 3)
    >>> row.name, row.max, hex(row.canonical_nan), hex(row.inf_magnitude)
    ('binary8p3se', 49152.0, '0x80', '0x7f')
    """
    _check_bool("signed", signed)
    _check_bool("extended", extended)
    k = check_int("k", k, 3, 16)
    p = check_int("p", p, 1, k - 1 if signed else k)
    return Format(
        f"binary{k}p{p}{'s' if signed else 'u'}{'e' if extended else 'f'}",
        k,
        exponent_bits=k - p + (not signed),
        mantissa_bits=p - 1,
        bias=2 ** (k - p - 1) if signed else 2 ** (k - p),
        signed=signed,
        inf="top" if extended else "none",
        nan="negative_zero" if signed else "all_ones",
        overflow="p3109_satnone",
        source=_P3109,
    )


def check_int(name: str, value: object, low: int, high: int) -> int:
    """value as an int within low .. high; TypeError or ValueError naming the argument."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    if not low <= operator.index(value) <= high:
        raise ValueError(f"{name} must be {low}..{high}, got {value}")
    return operator.index(value)


def _check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, got {type(value).__name__}")


# --- names ------------------------------------------------------------------------------------

_P3109_NAME = re.compile(r"binary(\d+)p(\d+)([su])([ef])")
_FN_NAME = re.compile(r"e(\d+)m(\d+)fn")
_MINIFLOAT = re.compile(r"minifloat\((\d+),(\d+)(?:,bias=(-?\d+))?(?:,nan=(true|false))?\)")


def get_format(fmt: object) -> Format:
    """The row of a name, an alias, a factory expression or a dtype, or the row itself; case is ignored.

    >>> get_format("float8_e4m3fn").name, get_format("torch.bfloat16").name
    ('e4m3', 'bf16')
    >>> get_format("minifloat(4, 3, bias=11)").bias, get_format("binary8p3se").bits
    (11, 8)

    Raises TypeError for another type, ValueError with the closest names for an unknown one.
    """
    if isinstance(fmt, Format):
        return fmt
    if not isinstance(fmt, str):
        return _row_of_dtype(fmt)
    name = re.sub(r"\s+", "", fmt.lower()).removeprefix("torch.").removeprefix("ml_dtypes.")
    row = _ALIASES.get(name) or _parse(name)
    if row is None:
        close = difflib.get_close_matches(name, sorted(_ALIASES), n=5, cutoff=0.5)
        hint = f"; close: {', '.join(close)}" if close else f"; known: {', '.join(FORMATS)}"
        hint = next((f"; {text}" for names, text in _HINTS.items() if re.fullmatch(names, name)), hint)
        raise ValueError(f"fmt: unknown format {fmt!r}{hint}")
    return row


_HINTS = {
    "fp8|float8": "say e4m3 or e5m2",
    "fp6": "say e3m2 or e2m3",
    "fp64|float64": "a source only: codes have at most 32 bits",
    r"(ggml_)?(mx|nv)fp[468](_e\dm\d)?|fp8_(1x|block)128|u?int[48]_g\d+|q[48]_0": "a block format, for quantize_blocks",
    r"mixed[468](_b64)?": "a mixed block format, for quantize_mixed",
}


def _row_of_dtype(fmt: object) -> Format:
    """The row that a dtype of NumPy, ml_dtypes or torch is named after."""
    name = getattr(fmt, "name", None) or getattr(fmt, "__name__", None) or str(fmt)
    row = _ALIASES.get(str(name).lower().removeprefix("torch."))
    if row is None:
        raise TypeError(f"fmt must be a format name, a dtype or a Format, got {type(fmt).__name__}")
    return row


def _parse(name: str) -> Format | None:
    """A row from a factory expression, or None."""
    if match := _P3109_NAME.fullmatch(name):
        k, p, sign, domain = match.groups()
        return p3109(int(k), int(p), sign == "s", domain == "e")
    if match := _FN_NAME.fullmatch(name):
        return minifloat(int(match[1]), int(match[2]))
    if match := _MINIFLOAT.fullmatch(name):
        bias = None if match[3] is None else int(match[3])
        return minifloat(int(match[1]), int(match[2]), bias, match[4] != "false")
    return None


def p3109_formats(bits: range = range(3, 9)) -> Iterator[Format]:
    """Every P3109 format of the given widths, in order of name parts.

    >>> [row.name for row in p3109_formats(range(3, 4))][:4]
    ['binary3p1se', 'binary3p1sf', 'binary3p2se', 'binary3p2sf']
    """
    for k in bits:
        for signed in (True, False):
            for p in range(1, k + (not signed)):
                for extended in (True, False):
                    yield p3109(k, p, signed, extended)
