"""check: functions of arrays and of one number, judged; the guesses; the text for a student."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import feather_ref as fr
from feather_ref import oracle
from feather_ref.conformance import Result, check

Array = NDArray[Any]


def by(fmt: Any = "e4m3", **policies: Any) -> Any:
    return lambda x: fr.encode(x, fmt, **policies)


def scalar(x: float) -> int:
    """A student's e4m3, from the definition: the nearest value, ties to the even code."""
    sign = 0x80 if math.copysign(1, x) < 0 else 0
    if math.isnan(x):
        return sign | 0x7F
    best = min(range(0x7F), key=lambda code: (abs(VALUES[code] - min(abs(x), 448.0)), code & 1))
    return sign | best


VALUES = [float(oracle.decode(code, "e4m3").magnitude) for code in range(0x7F)]


# --- right ones -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "policies", "source"),
    [
        ("e4m3", {}, "fp32"),
        ("e4m3", {"overflow": "nonsaturating"}, "float64"),
        ("e4m3", {}, "fp16"),
        ("e5m2", {"rounding": "toward_negative", "overflow": "nonsaturating"}, "fp32"),
        ("e2m1", {"nan": "max"}, "fp32"),
        ("e8m0", {"negative": "abs", "rounding": "nearest_away"}, "fp32"),
        ("fp16", {}, "fp32"),
        ("binary8p3se", {}, "fp32"),
        ("e4m3", {"subnormals": "flush_output"}, "fp32"),
        ("nf4", {"nan": "zero"}, "fp32"),
        ("e4m3", {"nan": (0x7F, 0xFF)}, "fp32"),  # no file: the oracle answers
        (fr.minifloat(3, 2, bias=5), {"rounding": "to_odd"}, "fp32"),
        (fr.minifloat(3, 2, bias=5), {}, "float64"),
        (fr.Format("mine", 5, exponent_bits=2, mantissa_bits=2, bias=1), {"nan": "max"}, "fp32"),
    ],
    ids=str,
)  # fmt: skip
def test_right_ones_pass(fmt: Any, policies: dict[str, Any], source: str) -> None:
    result = check(by(fmt, **policies), fmt, source=source, **policies)
    assert result, str(result)
    assert result.report.judged == result.report.size > 16
    assert "all" in str(result) and len(str(result).splitlines()) == 1


def test_bfloat16_inputs_are_patterns() -> None:
    assert check(lambda x: fr.convert(x, "bf16", "e4m3"), "e4m3", source="bf16")


def test_without_a_policy_nan_into_a_format_without_one_is_open() -> None:
    for fmt in ("e2m1", fr.Format("mine", 5, exponent_bits=2, mantissa_bits=2, bias=1)):
        for nan in ("max", "zero"):
            assert check(by(fmt, nan=nan), fmt), (fmt, nan)
            assert not check(by(fmt, nan="zero" if nan == "max" else "max"), fmt, nan=nan)


@pytest.mark.parametrize("rounding", ["stochastic_a", "stochastic_b", "stochastic_c"])
def test_stochastic(rounding: Any) -> None:
    def run(x: Array) -> Array:
        return fr.encode(x, "e4m3", rounding=rounding, n_bits=3, random_bits=5)

    assert check(run, "e4m3", rounding=rounding, n_bits=3, random=5)
    assert not check(run, "e4m3", rounding=rounding, n_bits=3, random=4)


def test_other_operations() -> None:
    assert check(lambda c: fr.decode(c, "e5m2"), "e5m2", op="decode")
    assert check(lambda a, b: fr.multiply(a, b, "e4m3"), "e4m3", op="multiply")
    wrong = check(lambda a, b: fr.subtract(b, a, "e4m3"), "e4m3", op="subtract")
    assert "equals the operands in the other order" in str(wrong)
    wrong = check(lambda a, b: fr.compare(b, a, "e4m3"), "e4m3", op="compare")
    assert "equals the operands in the other order" in str(wrong)
    wrong = check(lambda a, b: fr.add(a, b, "e4m3", rounding="toward_zero"), "e4m3", op="add")
    assert "equals rounding='toward_zero'" in str(wrong)


def test_a_scalar_function() -> None:
    assert check(scalar, "e4m3", scalar=True)
    assert check(lambda c: float(fr.decode(c, "e4m3")), "e4m3", op="decode", scalar=True)
    codes = np.arange(256)
    products = fr.multiply(codes[:, None], codes, "e4m3").tolist()
    assert check(lambda a, b: products[a][b], "e4m3", op="multiply", scalar=True)


# --- wrong ones -------------------------------------------------------------------------------

FAULTS = (
    ("toward_zero", {"rounding": "toward_zero"}, "equals rounding='toward_zero'"),
    ("ties away", {"rounding": "nearest_away"}, "equals rounding='nearest_away'"),
    ("overflow", {"overflow": "nonsaturating"}, "equals overflow='nonsaturating'"),
    ("flushes", {"subnormals": "flush_output"}, "equals subnormals='flush_output'"),
    ("two", {"overflow": "nonsaturating", "rounding": "toward_zero"}, "and rounding='toward_zero'"),
    ("both", {"rounding": "nearest_away", "subnormals": "flush_output"},
     "equals rounding='nearest_away' and subnormals='flush_output'"),
)  # fmt: skip


@pytest.mark.parametrize(("what", "policies", "text"), FAULTS, ids=[row[0] for row in FAULTS])
def test_a_wrong_policy_is_named(what: str, policies: dict[str, Any], text: str) -> None:
    result = check(by(**policies), "e4m3")
    assert not result
    assert text in str(result), str(result)
    assert len(str(result).splitlines()) <= 10


def test_a_policy_that_lessens_nothing_is_not_named() -> None:
    """Ties away from zero, and a fault that no policy has: nothing here is about overflow."""
    def fn(x: Array) -> Array:
        codes = fr.encode(x, "e4m3", rounding="nearest_away")
        return np.where((x > 1) & (x < 1.5), np.uint8(5), codes)

    notes = check(fn, "e4m3").report.notes
    assert notes[0].startswith("nearly equals rounding='nearest_away', which leaves "), notes
    assert "sample" not in notes[0]


def test_counts_of_a_sample_say_so() -> None:
    def fn(x: Array) -> Array:
        codes = fr.encode(x, "fp16", rounding="nearest_away")
        return np.where(codes % 64 == 0, codes + np.uint16(2), codes)

    notes = check(fn, "fp16").report.notes
    assert notes[0].startswith("nearly equals rounding='nearest_away'") and " of a sample of " in notes[0], notes


def test_failures_of_every_class_are_shown() -> None:
    result = check(by(rounding="toward_zero", overflow="nonsaturating"), "e4m3")
    lines = result.report.lines
    assert len(lines) == 20
    shown = [line.rpartition("[")[2].split(",")[0].rstrip("]") for line in lines]
    assert set(shown) == set(result.report.classes) == set(shown[: len(set(shown))])


def without_minus_zero(x: Array) -> Array:
    codes = fr.encode(x, "e4m3")
    return np.where(codes == 0x80, np.uint8(0), codes)


def without_nan(x: Array) -> Array:
    return np.where(np.isnan(x), np.uint8(0), fr.encode(x, "e4m3"))


READINGS = (
    ("e4m3", without_minus_zero, "+0 in place of -0"),
    ("e4m3", without_nan, "nan='zero'"),
    ("fp16", lambda x: fr.encode(x, "fp16").byteswap(), "the bytes of each code swapped"),
    ("e4m3", lambda x: fr.encode(x, "e4m3")[np.arange(x.size) ^ 1], "neighbouring elements swapped"),
    ("e4m3", lambda x: fr.encode(x, "e4m3")[::-1], "the elements of each row reversed"),
    ("e4m3", lambda x: fr.encode(x, "e4m3fnuz"), "fmt='e4m3fnuz'"),
    ("e4m3", lambda x: fr.convert(fr.encode(x, "fp16"), "fp16", "e4m3"), "x rounded to fp16 first"),
)


@pytest.mark.parametrize(("fmt", "fn", "text"), READINGS, ids=[row[2] for row in READINGS])
def test_a_wrong_layout_is_named(fmt: str, fn: Any, text: str) -> None:
    result = check(fn, fmt)
    assert f"equals {text}" in str(result), str(result)


def test_double_rounding_is_a_class_and_a_guess() -> None:
    result = check(lambda x: fr.encode(x.astype(np.float32), "e4m3"), "e4m3", source="float64")
    assert dict(result.report.classes) == {"double rounding": result.report.failed}
    assert "equals x rounded to fp32 first" in str(result)


def test_the_own_boundary_is_found() -> None:
    """Rounds up from 460 on, not from 464: 43E60000."""
    def fn(x: Array) -> Array:
        codes = fr.encode(x, "e4m3", overflow="nonsaturating")
        return np.where((x >= 460) & (x < 465), np.uint8(0x7F), codes)

    result = check(fn, "e4m3", overflow="nonsaturating")
    assert "your code 7E (448) ends at input 43E5FFFF, and should end at 43E80000" in str(result), str(result)


def test_the_text_is_for_a_student() -> None:
    def student(x: float) -> int:
        return scalar(x) if abs(x) > 2.0**-6 or math.isnan(x) else 0

    result = check(student, "e4m3", scalar=True)
    lines = str(result).splitlines()
    assert len(lines) <= 10
    assert lines[0] == "e4m3 convert (rounding='nearest_even', overflow='saturate'): 50 of 768 inputs wrong" or (
        " of 768 inputs wrong" in lines[0]
    )
    assert "subnormal" in str(result) and "signed zero" in str(result)
    assert repr(result) == str(result) and result._repr_html_().startswith("<pre>")


# --- failures that are no wrong number ---------------------------------------------------------


def no_nan(x: Array) -> Array:
    if np.isnan(x).any():
        raise ValueError("no NaN please")
    return fr.encode(x, "e4m3")


def writes(x: Array) -> Array:
    codes = fr.encode(x, "e4m3")
    x[:] = 0
    return codes


BROKEN = (
    (no_nan, {}, "ValueError: no NaN please for in=7F800001 (NaN)"),
    (scalar, {"scalar": True}, None),
    (lambda x: int(x * 0), {"scalar": True}, "ValueError: cannot convert float NaN to integer for in=7F800000 (inf)"),
    (lambda x: x, {"scalar": True}, "TypeError: returned 0.0, a float; a code is an int for in=00000000 (0)"),
    (lambda x: None, {"scalar": True}, "returned None, a NoneType"),
    (lambda x: True, {"scalar": True}, "returned True, a bool"),
    (scalar, {}, "; is it a function of one number? then scalar=True"),
    (lambda x: int(x > 0), {}, "; is it a function of one number? then scalar=True"),
    (lambda x: None, {}, "ValueError: results: 768 in one dimension are wanted, got shape ()"),
    (lambda x: fr.encode(x, "e4m3")[:5], {}, "768 in one dimension are wanted, got shape (5,)"),
    (lambda x: x, {}, "results: codes are wanted"),
    (writes, {}, None),
)


@pytest.mark.parametrize(("fn", "how", "text"), BROKEN)
def test_an_exception_is_a_verdict_with_its_input(fn: Any, how: dict[str, Any], text: str | None) -> None:
    result = check(fn, "e4m3", **how)
    if text is None:
        assert result
        return
    assert not result and result.report.status == "error"
    assert text in str(result), str(result)
    assert len(str(result).splitlines()) == 1


def test_one_number_is_not_blamed_on_a_function_of_arrays() -> None:
    for fn in (no_nan, lambda x: None, lambda x: fr.encode(x, "e4m3")[:5]):
        assert "scalar=True" not in str(check(fn, "e4m3"))


@pytest.mark.parametrize(
    ("value", "text"), [(300, "12C"), (-1, "F" * 16), (-(1 << 64) + 1, "F" * 16), (1 << 70, "F" * 16)]
)
def test_a_number_that_is_no_code_is_a_wrong_result(value: int, text: str) -> None:
    result = check(lambda x: value, "e4m3", scalar=True)
    assert (result.report.status, result.report.failed) == ("fail", 768)
    assert f"got={text} (no code of e4m3)" in str(result), str(result)


def test_an_interrupt_is_not_swallowed() -> None:
    def stop(x: Array) -> Array:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(stop, "e4m3")


def test_progress_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int]] = []
    assert check(by(), "e4m3", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(768, 768)]
    assert check(by(), "e4m3", progress=True)
    assert capsys.readouterr() == ("", "")  # no terminal


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((3, "e4m3"), TypeError, "fn must be a function"),
        ((scalar, "e4m4"), ValueError, "unknown format"),
        ((scalar, "e4m3", {"op": "sine"}), ValueError, "op must be one of"),
        ((scalar, "e4m3", {"source": "fp8"}), ValueError, "source must be one of"),
        ((scalar, "e4m3", {"overflow": "wrap"}), ValueError, "overflow must be one of"),
        ((scalar, "e4m3", {"rouding": "x"}), TypeError, "rouding"),
        ((scalar, "e3m4", {"op": "add"}), ValueError, "no vectors for e3m4"),
        ((scalar, "e4m3", {"op": "decode", "overflow": "saturate"}), TypeError, "decode has no policies"),
    ],
)
def test_bad_arguments(arguments: Any, error: type[Exception], text: str) -> None:
    *given, options = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
    with pytest.raises(error, match=text):
        check(*given, **options)


def test_results_are_true_or_false() -> None:
    good, bad = check(by(), "e4m3"), check(by(rounding="toward_zero"), "e4m3")
    assert isinstance(good, Result)
    assert (bool(good), bool(bad)) == (True, False)
