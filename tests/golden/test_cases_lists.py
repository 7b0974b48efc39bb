"""tools/golden_cases: its form, what it covers, and every line against hand, oracle, codec and run files."""

from __future__ import annotations

import doctest
import importlib
import itertools
import re
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import feather_ref as fr
import golden_cases
from feather_ref import golden, oracle
from golden_cases import CLASSES, CLASSES_ELSEWHERE, NOT_HERE, REPORTS, Case, Line

REPOSITORY = Path(__file__).resolve().parents[2]
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i64": np.int64}

# the reports that were collected
NUMBERS = [
    *(1, 2, 3, 4, 6, 7, 9, 10, 11, 12, 13, 15, 16, 18, 19, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 34, 35),
    *(36, 37, 38, 39, 40, 42, 44, 45, 46, 47, 48, 49, 50, 51),
    *(52, 53, 54, 56, 57, 58, 59, 60, 61, 63, 64, 66, 67, 68, 69, 70, 72, 73, 74),
    *(75, 76, 77, 78, 80, 81, 82, 83, 84, 85, 87, 88, 89, 90, 91, 92),
    *(93, 94, 95, 96, 97, 99, 100, 101, 102, 103, 104, 105, 106, 108),
]


@cache
def answers() -> dict[str, list[tuple[Case, list[Line]]]]:
    """Every list: its cases and their lines."""
    lists = golden_cases.vector_lists()
    return {name: [(case, list(golden_cases.lines(case))) for case in cases] for name, cases in lists.items()}


def every() -> list[tuple[Case, list[Line]]]:
    return [pair for pairs in answers().values() for pair in pairs]


def judged(name: str) -> dict[tuple[int, ...], tuple[int, int]]:
    """Result and digit by operands."""
    return {operands: (z, j) for _, lines in answers()[name] for operands, z, j in lines}


# --- form -------------------------------------------------------------------------------------


def test_cases_are_well_formed() -> None:
    for case, lines in every():
        asked = golden.question(case.id)
        bits, width = golden_cases.row_of(case.src).bits, golden_cases.row_of(case.dst).bits
        assert asked.shape == "tv" and case.cls in CLASSES and case.note and case.inputs, case
        assert {len(operands) for operands in case.inputs} == {golden.OPERATIONS[case.op]}, case
        assert all(0 <= x < 1 << bits for operands in case.inputs for x in operands), case
        assert len(set(case.inputs)) == len(case.inputs) == len(lines), case
        assert case.want is None or len(case.want) == len(case.inputs), case
        assert all(j in (0, 1, 2) and (j or z == 0) and z < 1 << width for _, z, j in lines)


def test_lists_are_the_cases_in_order() -> None:
    lists = golden_cases.vector_lists()
    assert list(lists) == sorted(lists)
    assert all(case.id == name for name, cases in lists.items() for case in cases)
    in_order = list(golden_cases.cases())
    for name, cases in lists.items():
        assert cases == [case for case in in_order if case.id == name]


def test_every_class_is_used() -> None:
    assert {case.cls for case, _ in every()} == set(CLASSES)
    assert not CLASSES.keys() & CLASSES_ELSEWHERE.keys()


def test_every_report_is_here_or_elsewhere() -> None:
    assert sorted([*REPORTS, *NOT_HERE]) == NUMBERS
    assert all(case.want is not None and re.match(r"\S+/\S+ #\d+", case.note) for c in REPORTS.values() for case in c)
    assert [case for cases in REPORTS.values() for case in cases] == list(golden_cases.reports())


def test_what_is_elsewhere_is_there() -> None:
    for text in [*NOT_HERE.values(), *CLASSES_ELSEWHERE.values()]:
        for path in re.findall(r"tests/\S+?\.py", text):
            assert (REPOSITORY / path).is_file(), text


def test_examples() -> None:
    result = doctest.testmod(importlib.import_module("golden_cases.case"))
    assert result.attempted > 0 and result.failed == 0


# --- coverage ---------------------------------------------------------------------------------

CONVERSIONS = {
    "tie_to_even_down", "tie_to_even_up", "tie_1_ulp", "binade_carry", "tie_at_max", "clamp_before_rounding",
    "overflow", "first_subnormal_tie", "subnormal_to_normal_carry", "half_min_subnormal", "deep_underflow",
    "range_ends", "minus_zero", "underflow_to_minus_zero", "inf", "nan_low_payload",
}  # fmt: skip
NARROW = {"float16_subnormals", "float32_subnormals", "double_rounding_f16", "double_rounding_bf16"}
OF_SOURCE = {
    "f32": CONVERSIONS | NARROW,
    "f64": CONVERSIONS | NARROW | {"double_rounding_f32"},
    "bf16": CONVERSIONS | {"float32_subnormals"},
}
OF_FLOAT16 = {
    "e4m3": CONVERSIONS | {"float16_subnormals", "double_rounding_bf16"},
    "e5m2": CONVERSIONS - {"overflow"} | {"float16_subnormals", "double_rounding_bf16"},  # 65536 is no float16
}
NO_SIGN = {"underflow_to_minus_zero"}
NO_SUBNORMAL = {"first_subnormal_tie", "subnormal_to_normal_carry", "half_min_subnormal", "binade_carry"}


@pytest.mark.parametrize("target", ["e4m3", "e5m2"])
@pytest.mark.parametrize("overflow", ["sat", "nonsat"])
def test_ofp8_has_every_class(target: str, overflow: str) -> None:
    for source, wanted in (OF_SOURCE | {"f16": OF_FLOAT16[target]}).items():
        found = {case.cls for case, _ in answers()[f"convert.{source}.{target}.rne.{overflow}.tv"]}
        assert wanted <= found, (source, wanted - found)


@pytest.mark.parametrize(
    ("target", "overflow", "without"),
    [
        *((target, "sat", set()) for target in ("e2m1", "e2m3", "e3m2", "e4m3fnuz", "e5m2fnuz", "e4m3ieee", "e3m4")),
        *((target, "nonsat", set()) for target in ("e4m3fnuz", "e5m2fnuz", "e4m3ieee", "e3m4")),
        ("f16", "nonsat", {"double_rounding_f16", "double_rounding_bf16"}),
        ("bf16", "nonsat", {"double_rounding_bf16", "overflow"}),  # what follows its greatest is no float32
        ("ue4m3", "sat", NO_SIGN),
        ("ue4m3", "nonsat", NO_SIGN),
        ("e8m0", "sat", NO_SIGN | NO_SUBNORMAL | {"overflow"}),
        ("e8m0", "nonsat", NO_SIGN | NO_SUBNORMAL | {"overflow"}),
        ("int8", "sat", NO_SIGN | NO_SUBNORMAL - {"half_min_subnormal"} | NARROW),
    ],
)
def test_others_have_what_applies(target: str, overflow: str, without: set[str]) -> None:
    found = {case.cls for case, _ in answers()[f"convert.f32.{target}.rne.{overflow}.tv"]}
    assert OF_SOURCE["f32"] - without <= found, OF_SOURCE["f32"] - without - found


def test_integers_go_through_floats() -> None:
    """Beside a tie of bfloat16 by less than float32 and float64 can tell."""
    for target, routes in (("bf16", ["f32", "f64"]), ("f32", ["f64"]), ("e5m2", ["f16", "bf16"])):
        found = {case.cls for case, _ in every() if (case.src, case.dst) == ("i64", target)}
        assert {f"double_rounding_{route}" for route in routes} <= found


# --- what the lines say -----------------------------------------------------------------------

# by hand: round first, then compare; ties to even; half of the least value; NaN and -0
BY_HAND: dict[str, dict[int, tuple[int, int]]] = {
    "convert.f32.e4m3.rne.nonsat.tv": {
        0x43E7FFFF: (0x7E, 1), 0x43E80000: (0x7E, 1), 0x43E80001: (0x7F, 2), 0xC3E80001: (0xFF, 2),
        0x43E00001: (0x7E, 1), 0x43F00000: (0x7F, 2), 0x3A800000: (0, 1), 0x3A800001: (1, 1), 0xBA800000: (0x80, 1),
        0x3B400000: (2, 1), 0x3C700000: (8, 1), 0x3F880000: (0x38, 1), 0x3F980000: (0x3A, 1), 0x3FF80000: (0x40, 1),
        0x7F800001: (0x7F, 2), 0x80000000: (0x80, 1), 0x80000001: (0x80, 1), 0x7F800000: (0x7F, 2),
    },
    "convert.f32.e4m3.rne.sat.tv": {
        0x43E80000: (0x7E, 1), 0x43E80001: (0x7E, 1), 0xFF800000: (0xFE, 1), 0x7F800001: (0x7F, 2),
    },
    "convert.f32.e5m2.rne.nonsat.tv": {
        0x476FFFFF: (0x7B, 1), 0x47700000: (0x7C, 1), 0xC7700000: (0xFC, 1), 0x37000000: (0, 1), 0x37000001: (1, 1),
        0x7F800001: (0x7F, 2), 0x7F800000: (0x7C, 1), 0x3F900000: (0x3C, 1), 0x3FB00000: (0x3E, 1),
    },
    "convert.f32.e5m2.rne.sat.tv": {0x47700000: (0x7B, 1), 0x7F800000: (0x7B, 1), 0xFF800001: (0x7F, 2)},
    "convert.f32.e2m1.rne.sat.tv": {0x40A00000: (6, 1), 0xC0A00001: (0xF, 1), 0x7FC00000: (0, 0), 0x3E800000: (0, 1)},
    "convert.f32.e2m1.rne.sat.nan=zero.tv": {0x7FC00000: (0, 1), 0xFFFFFFFF: (0, 1)},
    "convert.f32.e8m0.rne.sat.tv": {
        0xBF800000: (0, 0), 0xFF800000: (0, 0), 0x80000000: (0, 1), 0x005FFFFF: (0, 1), 0x00600000: (0, 1),
        0x00600001: (1, 1), 0x7F400000: (0xFE, 1), 0x7F800000: (0xFE, 1), 0x7F800001: (0xFF, 2),
    },
    "convert.f32.e8m0.rne.nonsat.tv": {0x7F400000: (0xFE, 1), 0x7F400001: (0xFF, 2)},
    "convert.f32.e8m0.rne.sat.negative=nan.tv": {0xBF800000: (0xFF, 2)},
    "convert.f32.e4m3fnuz.rne.sat.tv": {0x80000000: (0, 1), 0x80000001: (0, 1), 0x7F800000: (0x7F, 1)},
    "convert.f32.e4m3fnuz.rne.nonsat.tv": {0x43780000: (0x80, 2), 0x4377FFFF: (0x7F, 1)},
    "convert.f32.f16.rne.nonsat.tv": {0x477FEFFF: (0x7BFF, 1), 0x477FF000: (0x7C00, 1), 0x33000000: (0, 1)},
    "convert.f32.bf16.rne.nonsat.tv": {0x7F7F7FFF: (0x7F7F, 1), 0x7F7F8000: (0x7F80, 1), 0x7F800001: (0x7FC0, 2)},
    "convert.f32.int8.rne.sat.tv": {
        0x42FF0000: (0x7F, 1), 0xC3008000: (0x80, 1), 0xC3000000: (0x80, 1), 0x3F000000: (0, 1), 0x40200000: (2, 1),
    },
    "convert.f32.nf4.rne.sat.tv": {0x80000000: (7, 1), 0x7F800000: (15, 1), 0xFF800000: (0, 1), 0x7FC00000: (0, 0)},
    "convert.f64.e4m3.rne.nonsat.tv": {
        0x407D000000000000: (0x7E, 1), 0x407D000000000001: (0x7F, 2), 0x3F50000000000001: (1, 1),
        0x7FF0000000000001: (0x7F, 2), 0x3FF1000000000001: (0x39, 1),
    },
    "convert.i64.e4m3.rne.nonsat.tv": {464: (0x7E, 1), 465: (0x7F, 2), 2**64 - 464: (0xFE, 1), 17: (0x58, 1)},
    "convert.i64.f32.rne.nonsat.tv": {2**62 + 2**38 + 2**8: (0x5E800001, 1), 2**62 + 2**38: (0x5E800000, 1)},
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_lines_by_hand(name: str) -> None:
    found = judged(name)
    for x, want in BY_HAND[name].items():
        assert found.get((x,)) == want, f"{x:X}"


def test_results_typed_by_hand() -> None:
    for case, lines in every():
        if case.want is not None:
            assert tuple(z for _, z, _ in lines) == case.want, f"{case.id}: {case.note}"


def test_silence_is_for_nan_and_negatives_alone() -> None:
    for case, lines in every():
        for operands, _, j in lines:
            x = oracle.decode(operands[0], golden_cases.row_of(case.src))
            if j == 0:
                has_nan, below = golden_cases.row_of(case.dst).has_nan, x.negative and x.kind != "nan"
                assert (x.kind == "nan" and not has_nan) or (below and case.dst in ("e8m0", "ue4m3")), case
            elif case.op == "convert" and x.kind == "nan" and "nan=" not in case.id:
                assert j == 2, case


# --- the codec --------------------------------------------------------------------------------


def column(case: Case, index: int, rows: list[Line]) -> NDArray[Any]:
    """An operand: numbers of a NumPy type, or codes."""
    patterns = [operands[index] for operands, _, _ in rows]
    dtype = FLOATS.get(case.src)
    if dtype is None or case.op in golden_cases.ARITHMETIC:
        return np.array(patterns, np.uint32)
    return np.array(patterns, f"u{np.dtype(dtype).itemsize}").view(dtype)


def by_codec(case: Case, rows: list[Line]) -> NDArray[Any]:
    """What feather_ref gives."""
    asked = golden.question(case.id)
    said: dict[str, Any] = dict(asked.policies)
    if asked.n_bits is not None:
        said |= {"random_bits": np.full(len(rows), asked.random), "n_bits": asked.n_bits}
    columns = [column(case, index, rows) for index in range(golden.OPERATIONS[case.op])]
    if case.op not in ("decode", "convert"):
        return np.asarray(getattr(fr, case.op)(*columns, asked.target, **said))
    if case.op == "decode" and case.dst in FLOATS:
        values = fr.decode(columns[0], asked.source, FLOATS[case.dst])
        return values.view(f"u{values.itemsize}")
    if case.src in FLOATS:
        return fr.encode(columns[0], asked.target, **said)
    return fr.convert(columns[0], asked.source, asked.target, **said)


def test_codec_gives_every_line() -> None:
    for case, lines in every():
        rows = [line for line in lines if line[2]]  # without a verdict there is nothing to compare
        if not rows:
            continue
        got = by_codec(case, rows).tolist()
        is_nan = golden_cases.row_of(case.dst).is_nan
        for code, (operands, z, j) in zip(got, rows, strict=True):
            right = code == z or (j == 2 and is_nan(code))
            assert right, f"{case.id} {[hex(x) for x in operands]}: got {code:#x}, want {z:#x} [{case.cls}]"


# --- classes are what their names say ---------------------------------------------------------


def values_of(target: str) -> list[Fraction]:
    """The finite values of a small format, sorted."""
    row = golden_cases.row_of(target)
    found = (oracle.decode(code, row) for code in range(1 << row.bits))
    return sorted({x.signed for x in found if x.kind == "finite"})


@pytest.mark.parametrize("target", ["e4m3", "e5m2", "e2m1", "e3m2", "e8m0", "e4m3fnuz", "e3m4", "ue4m3", "int8"])
def test_ties_are_ties(target: str) -> None:
    values = values_of(target)
    middles = {(low + high) / 2 for low, high in itertools.pairwise(values)}
    for case in golden_cases.edges():
        if case.dst != target or not case.cls.startswith("tie_") or case.cls == "tie_at_max":
            continue
        row = golden_cases.row_of(case.src)
        for (x,) in case.inputs:
            near = [oracle.decode((x + step) % (1 << row.bits), row).signed in middles for step in (-1, 0, 1)]
            assert near[1] if "even" in case.cls else any((near[0], near[2])) and not near[1], (case.id, hex(x))


def test_ties_go_to_the_even_code() -> None:
    """The lower one in the class `down`, the upper one in `up`."""
    for case in golden_cases.edges():
        if case.cls in ("tie_to_even_down", "tie_to_even_up"):
            source, target = (golden_cases.row_of(token) for token in (case.src, case.dst))
            for (x,), z, _ in golden_cases.lines(case):
                shrinks = oracle.decode(z, target).magnitude < oracle.decode(x, source).magnitude
                assert z % 2 == 0 and shrinks == case.cls.endswith("down"), (case.id, hex(x))


def through(x: NDArray[Any], route: str, target: str, policies: dict[str, Any]) -> NDArray[Any]:
    """The codes of numbers that go through another type first."""
    if route == "bf16":
        return fr.convert(fr.encode(x, "bf16"), "bf16", target, **policies)
    with np.errstate(over="ignore"):  # float16 has no room for the greatest ones
        return fr.encode(x.astype(FLOATS[route]), target, **policies)


def test_double_rounding_shows() -> None:
    """Each line goes wrong on the way that its class names."""
    for case, lines in every():
        if case.cls.startswith("double_rounding"):
            asked = golden.question(case.id)
            wrong = through(column(case, 0, lines), case.cls.split("_")[-1], asked.target, asked.policies)
            same = [hex(operands[0]) for (operands, z, _), code in zip(lines, wrong.tolist(), strict=True) if z == code]
            assert not same, f"{case.id}: {same}"


# --- run files --------------------------------------------------------------------------------


def widened(case: Case) -> NDArray[np.uint64]:
    """Patterns as float32, which run files are made for."""
    patterns = np.array([operands[0] for operands in case.inputs], np.uint64)
    if case.src == "f32":
        return patterns
    if case.src == "bf16":
        return patterns << np.uint64(16)
    nan = (patterns & np.uint64(0x8000)) << np.uint64(16) | np.uint64(0x7FC00000)  # any will do, with its sign
    x = patterns.astype(np.uint16).view(np.float16)
    return np.where(np.isnan(x), nan, x.astype(np.float32).view(np.uint32))


def test_run_files_say_the_same() -> None:
    compared: set[str] = set()
    for name, pairs in answers().items():
        sibling = name.removesuffix("tv") + "run"
        if sibling not in golden.manifest():
            continue
        runs = golden.load_runs(sibling)
        for case, lines in pairs:
            line = np.searchsorted(runs.hi, widened(case))
            said = [(z, j) for _, z, j in lines]
            read = list(zip(runs.z[line].tolist(), runs.j[line].tolist(), strict=True))
            assert all(a == b or a[1] == b[1] == 2 for a, b in zip(said, read, strict=True)), (sibling, case.cls)
        compared.add(sibling)
    assert len(compared) >= 40
