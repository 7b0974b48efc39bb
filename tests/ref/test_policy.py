"""resolve: the defaults of each row, and every refusal with its text.

What the policies do to numbers is in `overflow_table`, which `test_literals` reads.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import feather_ref as fr
from feather_ref.formats import FORMATS, Format, get_format
from feather_ref.policy import NANS, NEGATIVES, OVERFLOWS, SUBNORMALS, resolve
from feather_ref.rounding import DETERMINISTIC, ROUNDINGS, STOCHASTIC, moves_away
from overflow_table import DEFAULTS

WITHOUT_NAN = {"e3m2", "e2m3", "e2m1", "int8", "uint8", "int4", "uint4", "int2", "mxint8", "nf4", "fp4_bnb"}
P3109 = get_format("binary8p3se")


def test_the_names() -> None:
    assert ROUNDINGS == (
        "nearest_even", "nearest_away", "toward_zero", "toward_positive", "toward_negative", "to_odd",
        "stochastic_a", "stochastic_b", "stochastic_c",
    )  # fmt: skip
    assert ROUNDINGS[:6] == DETERMINISTIC and frozenset(ROUNDINGS[6:]) == STOCHASTIC
    assert OVERFLOWS == ("saturate", "nonsaturating", "propagate", "ocp_table3", "p3109_satnone")
    assert NANS == ("canonical", "preserve_sign", "error", "max", "zero")
    assert NEGATIVES == ("nan", "zero", "abs", "error")
    assert SUBNORMALS == ("keep", "flush_input", "flush_output")


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults(name: str) -> None:
    row = get_format(name)
    overflow, negative = DEFAULTS[name]
    policy = resolve(row)
    assert policy.fmt is row
    assert (policy.rounding, policy.overflow, policy.subnormals) == ("nearest_even", overflow, "keep")
    assert policy.nan == ("error" if name in WITHOUT_NAN else "canonical")
    if negative is not None:
        assert policy.negative == negative


def test_defaults_cover_every_row() -> None:
    assert set(FORMATS) <= set(DEFAULTS)


def test_a_row_without_nan_makes_negatives_an_error() -> None:
    """negative="nan" is what an unsigned row says by default, and here there is none."""
    row = Format("mine", 4, exponent_bits=2, mantissa_bits=2, bias=1, signed=False)
    assert (resolve(row).nan, resolve(row).negative) == ("error", "error")
    assert resolve(row, negative="abs").negative == "abs"


def test_what_is_given_is_kept() -> None:
    policy = resolve(FORMATS["ue4m3"], "toward_zero", "nonsaturating", 0x7F, "abs", "flush_output")
    assert dataclasses.astuple(policy)[1:] == ("toward_zero", "nonsaturating", 0x7F, "abs", "flush_output")


def test_policies_are_hashable_values() -> None:
    a, b = resolve(FORMATS["e4m3"]), resolve(FORMATS["e4m3"], overflow="saturate", nan="canonical")
    assert a == b and hash(a) == hash(b)
    with pytest.raises(dataclasses.FrozenInstanceError):
        a.rounding = "to_odd"  # type: ignore[misc]


@pytest.mark.parametrize("code", [0x7F, 0x00, 0xFF, np.uint8(0xFF), np.int64(3)])
def test_nan_is_a_code(code: Any) -> None:
    nan = resolve(FORMATS["e4m3"], nan=code).nan
    assert nan == code and type(nan) is int
    assert resolve(FORMATS["e2m1"], nan=0xF).nan == 0xF  # also where the format has none


ROUNDINGS_TEXT = (
    "nearest_even, nearest_away, toward_zero, toward_positive, toward_negative, to_odd, "
    "stochastic_a, stochastic_b, stochastic_c"
)
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("e4m3", {"rounding": "nearest"}, f"rounding must be one of {ROUNDINGS_TEXT}; got 'nearest'"),
    ("e4m3", {"rounding": "NEAREST_EVEN"}, "rounding must be one of .*; got 'NEAREST_EVEN'"),
    ("e4m3", {"overflow": "clamp"}, "overflow must be one of saturate, nonsaturating, propagate, .*; got 'clamp'"),
    ("e4m3", {"overflow": ""}, "overflow must be one of .*; got ''"),
    ("e4m3", {"nan": "quiet"}, "nan must be one of canonical, preserve_sign, error, max, zero; got 'quiet'"),
    ("ue4m3", {"negative": "clip"}, "negative must be one of nan, zero, abs, error; got 'clip'"),
    ("e4m3", {"negative": "clip"}, "negative must be one of"),  # also where it has no meaning
    ("e4m3", {"subnormals": "flush"}, "subnormals must be one of keep, flush_input, flush_output; got 'flush'"),
    ("e4m3", {"nan": 0x100}, r"nan=0x100 is not a code of 'e4m3' \(0..0xff\)"),
    ("e4m3", {"nan": -1}, r"nan=-0x1 is not a code of 'e4m3'"),
    ("e2m1", {"nan": 0x10}, r"nan=0x10 is not a code of 'e2m1' \(0..0xf\)"),
    ("e2m1", {"nan": "canonical"}, "nan='canonical': format 'e2m1' has no NaN; use 'error', 'max', 'zero' or a code"),
    ("int8", {"nan": "preserve_sign"}, "nan='preserve_sign': format 'int8' has no NaN"),
    ("nf4", {"nan": "canonical"}, "nan='canonical': format 'nf4' has no NaN"),
    ("e4m3", {"overflow": "p3109_satnone"}, "overflow='p3109_satnone' is for P3109 formats, not 'e4m3'"),
    ("e4m3fnuz", {"overflow": "p3109_satnone"}, "is for P3109 formats, not 'e4m3fnuz'"),
    ("e2m1", {"overflow": "ocp_table3"}, "overflow='ocp_table3': format 'e2m1' has neither Inf nor NaN"),
    ("uint8", {"overflow": "ocp_table3"}, "format 'uint8' has neither Inf nor NaN"),
    ("nf4", {"rounding": "toward_zero"}, "rounding='toward_zero': the table format 'nf4' takes nearest_even alone"),
    ("fp4_bnb", {"rounding": "nearest_away"}, "the table format 'fp4_bnb' takes nearest_even alone"),
    ("fp4_bnb", {"rounding": "stochastic_a"}, "the table format 'fp4_bnb' takes nearest_even alone"),
    ("uint8", {"negative": "nan"}, "negative='nan': format 'uint8' has no NaN; use 'zero', 'abs' or 'error'"),
]


@pytest.mark.parametrize(("fmt", "policies", "match"), REFUSED, ids=lambda v: str(v) if isinstance(v, dict) else "")
def test_refused(fmt: str, policies: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        resolve(FORMATS[fmt], **policies)
    with pytest.raises(ValueError, match=match):
        fr.encode([1.0], fmt, **policies)  # whatever the input


@pytest.mark.parametrize("name", ["rounding", "overflow", "nan", "negative", "subnormals"])
@pytest.mark.parametrize("value", [1.5, b"saturate", ("saturate",), True, object()])
def test_what_is_no_name_is_a_type_error(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{name} must be a name, got {type(value).__name__}"):
        resolve(FORMATS["e4m3"], **{name: value})


@pytest.mark.parametrize("name", ["rounding", "subnormals"])
def test_none_is_no_rounding(name: str) -> None:
    """None means the row's own where a row has its own."""
    with pytest.raises(TypeError, match=f"{name} must be a name, got NoneType"):
        resolve(FORMATS["e4m3"], **{name: None})


def test_an_unknown_policy_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="saturate"):
        fr.encode([1.0], "e4m3", saturate=True)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("fmt", "policies"),
    [
        ("binary8p3sf", {"overflow": "p3109_satnone"}), ("binary8p3se", {"overflow": "ocp_table3"}),
        ("e8m0", {"overflow": "ocp_table3"}), ("e4m3", {"overflow": "propagate"}),
        ("int8", {"overflow": "nonsaturating"}),
        ("int8", {"negative": "nan"}), ("nf4", {"overflow": "propagate"}), ("nf4", {"subnormals": "flush_output"}),
        ("e8m0", {"nan": "zero"}), ("e8m0", {"negative": "zero"}), ("uint8", {"negative": "error", "nan": "max"}),
    ],
)  # fmt: skip
def test_pairs_that_a_row_can_carry_out(fmt: str, policies: dict[str, Any]) -> None:
    policy = resolve(get_format(fmt), **policies)
    assert {key: getattr(policy, key) for key in policies} == policies


# Far beyond max, IEEE 754-2019 7.4: does the rounding go away from zero, for + and for -?
AWAY = {
    "nearest_even": (True, True), "nearest_away": (True, True), "toward_zero": (False, False),
    "toward_positive": (True, False), "toward_negative": (False, True), "to_odd": (False, False),
    "stochastic_a": (True, True), "stochastic_b": (True, True), "stochastic_c": (True, True),
}  # fmt: skip


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_moves_away(rounding: str) -> None:
    assert (moves_away(rounding, False), moves_away(rounding, True)) == AWAY[rounding]


@pytest.mark.parametrize(
    ("fmt", "ends"),
    [
        ("e4m3", (0x7E, 0xFE)), ("e5m2", (0x7B, 0xFB)), ("e8m0", (0xFE, 0xFE)), ("e4m3fnuz", (0x7F, 0xFF)),
        ("int8", (0x7F, 0x80)), ("mxint8", (0x7F, 0x80)), ("int2", (1, 2)), ("uint8", (0xFF, 0xFF)),
        ("nf4", (0xF, 0x0)), ("fp4_bnb", (0x3, 0xB)), ("binary8p3se", (0x7E, 0xFE)),
    ],
)  # fmt: skip
def test_the_greatest_code_of_a_sign(fmt: str, ends: tuple[int, int]) -> None:
    policy = resolve(get_format(fmt))
    assert (policy.max_code(False), policy.max_code(True)) == ends


def test_a_nan_made_by_the_conversion_needs_one() -> None:
    with pytest.raises(ValueError, match="format 'int8' has no NaN"):
        resolve(FORMATS["int8"]).nan_made(False)


def test_satnone_looks_at_negatives_after_rounding_unless_told_otherwise() -> None:
    row = get_format("binary8p3ue")
    assert resolve(row).negative_after_rounding
    assert not resolve(row, negative="abs").negative_after_rounding
    assert not resolve(row, overflow="saturate").negative_after_rounding
    assert resolve(P3109).overflow == "p3109_satnone"
