"""Policies: what happens beyond the greatest value, to Inf, to NaN and to negatives.

Libraries hardly ever disagree on arithmetic, but on these choices.  Each has a name here; the
defaults stand in the format's row.  `resolve` checks the names against a row and fills the
defaults in; `Policy` then answers with codes.

Source: OFP8 1.0 (saturate, nonsaturating, table 3); IEEE 754-2019, 7.4; IEEE P3109 interim
report 4.0 (SatNone).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypedDict, get_args

from feather_ref.formats import Format, Negative, Overflow
from feather_ref.profiles import choices
from feather_ref.rounding import ROUNDINGS, Rounding, moves_away

NanName = Literal["canonical", "preserve_sign", "error", "max", "zero"]
Nan = NanName | int | tuple[int, int]
Subnormals = Literal["keep", "flush_input", "flush_output"]

OVERFLOWS: tuple[str, ...] = get_args(Overflow)
NANS: tuple[str, ...] = get_args(NanName)
NEGATIVES: tuple[str, ...] = get_args(Negative)
SUBNORMALS: tuple[str, ...] = get_args(Subnormals)

SHORT: Mapping[str, str] = MappingProxyType(
    {
        "rne": "nearest_even",
        "rna": "nearest_away",
        "rtz": "toward_zero",
        "rup": "toward_positive",
        "rdn": "toward_negative",
        "rodd": "to_odd",
        "sat": "saturate",
        "nonsat": "nonsaturating",
        "prop": "propagate",
        "table3": "ocp_table3",
        "satnone": "p3109_satnone",
    }
)
"""The short names of roundings and overflows, as in the ids of golden vectors; both are taken."""

_UNSAID: Any = object()  # a rounding that is given wins over the profile's, also "nearest_even"


class Policies(TypedDict, total=False):
    """The keyword arguments that name choices; every one has a default.

    rounding: "nearest_even" unless given; one of `feather_ref.ROUNDINGS`.
    overflow: None is the row's own.  "saturate": beyond max, and Inf, become max.
        "nonsaturating": Inf, or NaN where there is none, or max where there is neither, when the
        rounding goes away from zero there.  "propagate": finite values clamp, Inf stays Inf.
        "ocp_table3": always Inf or NaN.  "p3109_satnone": SatNone of the P3109 draft.
    nan: for NaN inputs.  "canonical", "preserve_sign", "error" (the default where there is no
        NaN), "max", "zero", a code, or a pair of codes, for +NaN and for -NaN.
    negative: for unsigned rows, before rounding.  "nan", "zero", "abs", "error"; None is the row's.
    subnormals: "keep" unless given; "flush_input", "flush_output".
    profile: the choices of a library, one of `feather_ref.PROFILES`; what is given beside it wins.
    """

    rounding: Rounding
    overflow: Overflow | None
    nan: Nan | None
    negative: Negative | None
    subnormals: Subnormals
    profile: str | None


@dataclass(frozen=True)
class Policy:
    """The choices for one row, checked and complete; hashable, so that tables can be kept."""

    fmt: Format
    rounding: str
    overflow: str
    nan: str | int | tuple[int, int]
    negative: str
    subnormals: str

    def overflow_code(self, negative: bool, infinite: bool) -> int:
        """The code for a value beyond the greatest one (`infinite`: for an infinite input)."""
        row = self.fmt
        if self.overflow == "saturate":
            return self.max_code(negative)
        if self.overflow == "propagate":
            return self.inf_or(negative, self.max_code(negative)) if infinite else self.max_code(negative)
        if self.overflow == "p3109_satnone":
            return self._satnone_code(negative, infinite)
        away = infinite or self.overflow == "ocp_table3" or moves_away(self.rounding, negative)
        if not away:
            return self.max_code(negative)
        other = self.nan_made(negative) if row.has_nan else self.max_code(negative)
        return self.inf_or(negative, other)

    def _satnone_code(self, negative: bool, infinite: bool) -> int:
        """P3109 SatNone: never NaN, and round to odd takes the odd one of max and Inf."""
        top = self.max_code(negative)
        to_odd_inf = self.rounding == "to_odd" and top % 2 == 0
        away = infinite or to_odd_inf or moves_away(self.rounding, negative)
        return self.inf_or(negative, top) if away else top

    def max_code(self, negative: bool) -> int:
        """The greatest value of a sign; of a two's complement row, -max - 1."""
        row = self.fmt
        if row.kind == "table":
            return row.values.index(row.min if negative else row.max)
        if row.kind == "integer":
            return row.sign_mask if negative and row.signed else row.max_magnitude
        return row.max_magnitude | (row.sign_mask if negative else 0)

    def inf_or(self, negative: bool, other: int) -> int:
        """The infinity of a sign, or `other` where the row has none."""
        magnitude = self.fmt.inf_magnitude
        if magnitude is None:
            return other
        return magnitude | (self.fmt.sign_mask if negative else 0)

    def nan_made(self, negative: bool) -> int:
        """A NaN that the conversion makes itself: canonical, with a sign where it can have one."""
        row = self.fmt
        if row.canonical_nan is None:
            raise ValueError(f"format {row.name!r} has no NaN")
        return row.canonical_nan | (row.sign_mask if negative and row.has_signed_nan else 0)

    def nan_code(self, negative: bool) -> int | None:
        """The code for a NaN input of a sign; None where it is an error."""
        if isinstance(self.nan, int):
            return self.nan
        if isinstance(self.nan, tuple):
            return self.nan[negative]
        if self.nan == "error":
            return None
        if self.nan == "max":
            return self.max_code(False)
        if self.nan == "zero":
            return zero_code(self.fmt)
        return self.nan_made(negative and self.nan == "preserve_sign")

    @property
    def negative_after_rounding(self) -> bool:
        """P3109 SatNone refuses negatives of unsigned rows only where they round to nonzero."""
        return self.overflow == "p3109_satnone" and self.negative == "nan"


def zero_code(fmt: Format) -> int:
    """The code of +0; in a format without zero the least value, which zero becomes there."""
    if fmt.kind != "table":
        return 0
    keys = [(abs(value), -math.copysign(1, value)) for value in fmt.values]
    return keys.index(min(keys))


def resolve(
    fmt: Format,
    rounding: Rounding = _UNSAID,
    overflow: Overflow | None = None,
    nan: Nan | None = None,
    negative: Negative | None = None,
    subnormals: Subnormals = "keep",
    profile: str | None = None,
    **unknown: object,
) -> Policy:
    """Check every name against the row and fill the defaults in: the profile's, then the row's.

    >>> from feather_ref.formats import get_format
    >>> resolve(get_format("e2m1")).nan, resolve(get_format("bf16")).overflow
    ('error', 'nonsaturating')

    Raises TypeError or ValueError naming the argument.
    """
    if unknown:
        names = ", ".join(Policies.__annotations__)
        raise TypeError(f"unexpected argument {next(iter(unknown))!r}; policies are {names}")
    chosen = {} if profile is None else choices(profile, fmt)
    rounding = chosen.get("rounding", "nearest_even") if rounding is _UNSAID else rounding
    overflow = chosen.get("overflow", fmt.overflow) if overflow is None else overflow
    nan = chosen.get("nan", "canonical" if fmt.has_nan else "error") if nan is None else nan
    negative = chosen.get("negative") if negative is None else negative
    if negative is None:  # a row without NaN cannot answer "nan"
        negative = "error" if fmt.negative == "nan" and not fmt.has_nan else fmt.negative
    policy = Policy(
        fmt,
        _one_of("rounding", rounding, ROUNDINGS),
        _one_of("overflow", overflow, OVERFLOWS),
        _check_nan(fmt, nan),
        _one_of("negative", negative, NEGATIVES),
        _one_of("subnormals", subnormals, SUBNORMALS),
    )
    _check_pairs(policy)
    return policy


def _one_of(name: str, value: object, known: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a name, got {type(value).__name__}")
    value = SHORT.get(value, value)
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}")
    return value


def _check_nan(fmt: Format, nan: object) -> str | int | tuple[int, int]:
    if isinstance(nan, tuple) and len(nan) == 2:
        return _check_nan_code(fmt, nan[0]), _check_nan_code(fmt, nan[1])
    if hasattr(nan, "__index__") and not isinstance(nan, bool):
        return _check_nan_code(fmt, nan)
    name = _one_of("nan", nan, NANS)
    if name in ("canonical", "preserve_sign") and not fmt.has_nan:
        raise ValueError(f"nan={name!r}: format {fmt.name!r} has no NaN; use 'error', 'max', 'zero' or a code")
    return name


def _check_nan_code(fmt: Format, nan: Any) -> int:
    if isinstance(nan, bool) or not hasattr(nan, "__index__"):
        raise TypeError(f"nan must be a name, a code or two codes, got {type(nan).__name__}")
    code = operator.index(nan)
    if not 0 <= code <= fmt.code_mask:
        raise ValueError(f"nan={code:#x} is not a code of {fmt.name!r} (0..{fmt.code_mask:#x})")
    return code


def _check_pairs(policy: Policy) -> None:
    """Choices that a row cannot carry out."""
    row = policy.fmt
    if policy.overflow == "p3109_satnone" and row.overflow != "p3109_satnone":
        raise ValueError(f"overflow='p3109_satnone' is for P3109 formats, not {row.name!r}")
    if policy.overflow == "ocp_table3" and not (row.has_inf or row.has_nan):
        raise ValueError(f"overflow='ocp_table3': format {row.name!r} has neither Inf nor NaN")
    if row.kind == "table" and policy.rounding != "nearest_even":
        raise ValueError(f"rounding={policy.rounding!r}: the table format {row.name!r} takes nearest_even alone")
    if not row.signed and policy.negative == "nan" and not row.has_nan:
        raise ValueError(f"negative='nan': format {row.name!r} has no NaN; use 'zero', 'abs' or 'error'")
