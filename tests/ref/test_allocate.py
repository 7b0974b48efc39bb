"""Bits for each tensor: the knapsack against all combinations, the measures against fractions, plans."""

from __future__ import annotations

import itertools
import json
import math
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feather_ref as fr
from feather_ref import _knapsack, _measures
from feather_ref._choices import parse_choice, pieces
from feather_ref._plans import Plan, PlanLine, check_fits, fingerprint, read_plan
from feather_ref._safetensors import Form
from feather_ref.allocate import allocate, best_split, measure, splits
from feather_ref.formats import minifloat

SCHEMA = Path(fr.__file__).parent / "plan.schema.json"
RNG = np.random.default_rng(11)

# --- the knapsack -----------------------------------------------------------------------------

anything = st.tuples(st.integers(0, 8), st.integers(0, 10))
tied = st.integers(0, 4).map(lambda cost: (cost, 4 - cost))  # many sums are equal in both
choices = st.lists(anything, min_size=1, max_size=4) | st.lists(tied, min_size=2, max_size=4)


def all_combinations(
    items: Sequence[Sequence[tuple[int, int]]], budget: int
) -> tuple[int, int, tuple[int, ...]] | None:
    """The least (error, cost, picks), by trying everything."""
    found = []
    for picks in itertools.product(*(range(len(item)) for item in items)):
        cost, error = (sum(item[pick][k] for item, pick in zip(items, picks, strict=True)) for k in (0, 1))
        if cost <= budget:
            found.append((error, cost, picks))
    return min(found, default=None)


@given(st.lists(choices, max_size=5), st.integers(0, 30))
def test_the_knapsack_is_the_best_of_all_combinations(items: list[list[tuple[int, int]]], budget: int) -> None:
    costs, errors = ([np.array([pair[k] for pair in item], np.int64) for item in items] for k in (0, 1))
    wanted, found = all_combinations(items, budget), _knapsack.solve(costs, errors, budget)
    assert (found is None) == (wanted is None)
    if found is not None:
        assert (found.error, found.cost, tuple(found.picks)) == wanted
        assert found.optimal


@given(st.lists(choices, min_size=2, max_size=5), st.integers(5, 30))
def test_few_sums_still_give_a_plan_within_the_budget(items: list[list[tuple[int, int]]], budget: int) -> None:
    costs, errors = ([np.array([pair[k] for pair in item], np.int64) for item in items] for k in (0, 1))
    wanted, found = all_combinations(items, budget), _knapsack.solve(costs, errors, budget, most=1)
    if found is not None and wanted is not None:
        sums = [sum(item[pick][k] for item, pick in zip(items, found.picks, strict=True)) for k in (0, 1)]
        assert [found.cost, found.error] == sums
        assert found.cost <= budget
        assert found.error == wanted[0] if found.optimal else found.error >= wanted[0]


def test_great_numbers_and_many_items() -> None:
    """A hundred items near 2**58: more than fractions of float64 tell apart, the same as by plain lists of sums."""
    bits = np.array([4, 5, 6, 8, 16])
    sizes = RNG.choice([3, 5, 9], 100)
    costs = [size * bits for size in sizes]
    errors = [((1 << 58) // 100 * size // 9 >> 2 * bits) + RNG.integers(0, 99, 5) for size in sizes]
    sums = {0: 0}
    for cost, error in zip(costs, errors, strict=True):
        rest: dict[int, int] = {}
        for (at, so_far), (more, wrong) in itertools.product(
            sums.items(), zip(cost.tolist(), error.tolist(), strict=True)
        ):
            rest[at + more] = min(rest.get(at + more, 1 << 62), so_far + wrong)
        sums = rest
    budget = int(sizes.sum() * 5.3)
    found = _knapsack.solve(costs, errors, budget)
    assert found is not None and found.optimal
    assert found.error == min(error for cost, error in sums.items() if cost <= budget)


# --- measures ---------------------------------------------------------------------------------

numbers = st.one_of(
    st.floats(width=32, allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 2.0**-149, 2.0**127, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-30]),
)


@given(st.lists(st.tuples(numbers, numbers), max_size=12))
def test_measures_in_fractions(pairs: list[tuple[float, float]]) -> None:
    x, y = (np.array([[pair[k] for pair in pairs]], np.float32).reshape(1, -1) for k in (0, 1))
    finite = [(float(a), float(b)) for a, b in zip(x[0], y[0], strict=True) if math.isfinite(a)]
    of = _measures.sums(x, y)
    assert of.finite[0] == len(finite)
    lost = any(not math.isfinite(b) for _, b in finite)
    errors = [] if lost else [(abs(Fraction(a) - Fraction(b)), abs(Fraction(a))) for a, b in finite]
    noise = math.inf if lost else sum((error**2 for error, _ in errors), Fraction(0))
    relative = (
        math.inf if lost or any(not a and e for e, a in errors) else max((e / a for e, a in errors if e), default=0)
    )
    assert of.signal[0] == pytest.approx(float(sum(Fraction(a) ** 2 for a, _ in finite)), rel=1e-12)
    assert of.noise[0] == pytest.approx(float(noise), rel=1e-12, abs=1e-300)
    assert of.greatest[0] == (math.inf if relative == math.inf else pytest.approx(float(relative), rel=1e-12))
    for measure_of in _measures.MEASURES.values():
        assert not np.isnan(measure_of(of)).any()


def test_sqnr_by_hand() -> None:
    # signal 16 + 9, noise 1: 0.5 * log2(25)
    assert _measures.sqnr_bits(_measures.sums(np.float32([[4, 3]]), np.float32([[4, 2]]))) == 0.5 * math.log2(25)
    assert _measures.sqnr_bits(_measures.sums(np.float32([[0]]), np.float32([[0]]))) == math.inf
    assert _measures.sqnr_bits(_measures.sums(np.float32([[1]]), np.float32([[np.nan]]))) is None


# --- splits -----------------------------------------------------------------------------------


def exact_noise(x: np.ndarray, y: np.ndarray) -> Fraction:
    pairs = zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)
    return sum(((Fraction(a) - Fraction(b)) ** 2 for a, b in pairs), Fraction(0))


def test_the_splits_of_a_width() -> None:
    assert splits(6) == tuple(minifloat(e, 5 - e, nan=False) for e in (5, 4, 3, 2, 1))
    assert [row.name for row in splits(8)] == ["e7m0fn", "e6m1fn", "e5m2fn", "e4m3", "e3m4fn", "e2m5fn", "e1m6fn"]
    assert (splits(16)[0].exponent_bits, splits(16)[0].mantissa_bits) == (7, 8)
    for wrong in (2, 17):
        with pytest.raises(ValueError, match="bits"):
            splits(wrong)
    with pytest.raises(TypeError, match="bits"):
        splits(4.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("bits", [3, 4, 6, 8, 10])
@pytest.mark.parametrize("spread", [0, 3, 12])
@pytest.mark.parametrize("rule", ["amax", "pow2"])
def test_the_best_split_has_the_least_exact_error(bits: int, spread: int, rule: Any) -> None:
    x = (RNG.standard_normal((5, 40)) * 2.0 ** RNG.integers(-spread, spread + 1, (5, 40))).astype(np.float32)
    rows = splits(bits)
    noises = [exact_noise(x, fr.pack_tensor(x, row, "tensor", rule).dequantize()) for row in rows]
    assert noises[rows.index(best_split(x, bits, scale_rule=rule).fmt)] == min(noises)
    found = best_split(x, bits, "row", scale_rule=rule)
    assert found.choice.shape == (5, 1) and found.errors.shape == (len(rows), 5, 1)
    for i in range(5):
        noises = [exact_noise(x[i], fr.pack_tensor(x[i : i + 1], row, "row", rule).dequantize()) for row in rows]
        assert noises[int(found.choice[i, 0])] == min(noises)
    assert sum(found.counts.values()) == 5


def test_the_relative_error_asks_for_exponent_bits() -> None:
    x = np.float32(2.0) ** np.arange(-12, 1, dtype=np.float32)
    wide = best_split(x, 6, error="max_relative")
    assert (wide.fmt.name, float(wide.errors.min())) == ("minifloat(5,0,nan=False)", 0.0)
    # the squares see little but the greatest numbers
    x = np.append(x, np.float32([0.9, 0.8, 0.7, 0.6] * 5))
    assert best_split(x, 6).fmt.mantissa_bits > best_split(x, 6, error="max_relative").fmt.mantissa_bits


def test_ties_go_to_the_first() -> None:
    zeros = np.zeros((2, 32), np.float32)
    for per in ("tensor", "row", "block"):
        found = best_split(zeros, 6, per)  # type: ignore[arg-type]
        assert not found.choice.any() and not found.errors.any()
    rows = [fr.get_format("e2m3"), fr.get_format("e3m2")]
    assert best_split([1.0, 2.0], rows).fmt == rows[0]
    assert best_split([1.0, 2.0], rows[::-1]).fmt == rows[1]


def test_splits_of_odd_arrays() -> None:
    assert best_split(3.0, 4).choice.shape == ()
    assert best_split(np.zeros((2, 0)), 4, "row").choice.shape == (2, 1)
    assert best_split(np.zeros((2, 0)), 4, "block").choice.shape == (2, 0)
    assert best_split(np.zeros((0, 4)), 4, "block").choice.shape == (0, 1)
    x = RNG.standard_normal((3, 70)).astype(ml_dtypes.bfloat16)
    assert best_split(x, 8, "block", block=16).choice.shape == (3, 5)
    for bad in ({"per": "column"}, {"error": "mae"}, {"scale_rule": "floor"}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            best_split(x, 4, **bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bits"):
        best_split(x, ["e4m3"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="no one format"):
        _ = best_split(x, 4, "row").fmt


# --- plans ------------------------------------------------------------------------------------

TENSORS = {
    "a": RNG.standard_normal((4, 64)).astype(np.float32),
    "b": (RNG.standard_normal((2, 96)) * 8).astype(np.float16),
    "c": RNG.standard_normal(64) * 2.0 ** RNG.integers(-9, 9, 64),
    "d": np.full((1, 32), 3, ml_dtypes.bfloat16),
}
FORMATS = ("mxfp4", "mixed4", "mxfp6", "e4m3/row", "mxfp8", "bf16")


@pytest.mark.parametrize("error", ["mse", "sqnr", "max_relative"])
@pytest.mark.parametrize("budget", [4.25, 4.6, 5.5, 7.0, 9.0, 16.0])
def test_a_plan_is_the_best_of_all_plans(error: str, budget: float) -> None:
    """Bytes and errors of every format are counted here, in fractions; then all plans are tried."""
    plan = allocate(TENSORS, budget, formats=FORMATS, error=error)
    offers = []
    for x in TENSORS.values():
        offer = []
        for name in FORMATS:
            packed = parse_choice(name).quantize(x, error)
            wide = x.astype(np.float64)
            back = packed.dequantize().astype(np.float64)
            share = {
                "mse": exact_noise,
                "sqnr": lambda x, y: exact_noise(x, y) / exact_noise(x, 0 * x) * x.size,
                "max_relative": lambda x, y: max(
                    abs(Fraction(a) - Fraction(b)) / abs(Fraction(a)) for a, b in zip(x.flat, y.flat, strict=True)
                ) * x.size,
            }[error]  # fmt: skip
            offer.append((packed.nbytes, share(wide, back)))
        offers.append(offer)
    values = sum(x.size for x in TENSORS.values())
    plans = [
        (sum(offer[pick][1] for offer, pick in zip(offers, picks, strict=True)), picks)
        for picks in itertools.product(range(len(FORMATS)), repeat=len(offers))
        if sum(offer[pick][0] for offer, pick in zip(offers, picks, strict=True)) * 8 <= budget * values
    ]
    least = min(error for error, _ in plans)
    picked = [[parse_choice(name).name for name in FORMATS].index(line.format) for line in plan.tensors]
    mine = sum(offer[pick][1] for offer, pick in zip(offers, picked, strict=True))
    assert least <= mine <= least * (1 + Fraction(1, 2**45))  # figures are float64
    assert plan.nbytes == sum(offer[pick][0] for offer, pick in zip(offers, picked, strict=True))
    assert plan.bits_per_value <= budget
    assert plan.total_error * values == pytest.approx(float(mine), rel=1e-12)


def test_time_is_a_budget_too() -> None:
    times = {"mxfp4": 1e-9, "mxfp8": 2e-9, "bf16": 4e-9}
    values = sum(x.size for x in TENSORS.values())
    plan = allocate(TENSORS, 4e-9 * values * 1.0001, "time", formats=tuple(times), times=times)
    assert plan.formats == dict.fromkeys("abc", "bf16/none") | {"d": "mxfp4"}  # where d is exact
    plan = allocate(TENSORS, 1.5e-9 * values, "time", formats=tuple(times), times=times)
    seconds = sum(Fraction(line.seconds or 0) for line in plan.tensors)
    assert seconds <= Fraction(1.5e-9 * values)
    assert plan.formats["c"] != "mxfp4"  # whose numbers are the widest
    with pytest.raises(ValueError, match=r"the fastest formats take"):
        allocate(TENSORS, 1e-12, "time", formats=tuple(times), times=times)


def test_ties_are_decided_by_cost_and_then_by_order() -> None:
    ones = {"x": np.ones((1, 32), np.float32), "y": np.ones((1, 32), np.float32)}  # exact in all of them
    assert allocate(ones, 16, formats=("bf16", "mxfp8", "mxfp4")).formats == {"x": "mxfp4", "y": "mxfp4"}
    assert set(allocate(ones, 16, formats=("mxfp8_e5m2", "mxfp8_e4m3")).formats.values()) == {"mxfp8_e5m2"}
    assert allocate({}, 4).tensors == ()


def test_what_is_no_float_is_left_out_and_nan_needs_a_format() -> None:
    x = np.ones((2, 32), np.float32)
    tensors = {"ids": np.arange(4), "x": x, "packed": fr.pack_tensor(x, "bf16"), "flag": np.ones(3, bool)}
    assert list(allocate(tensors, 16).formats) == ["x", "packed"]
    x[1, 3] = np.nan
    assert allocate({"x": x}, 16, formats=("mxfp4", "bf16")).formats == {"x": "bf16/none"}  # a block would be lost
    with pytest.raises(ValueError, match=r"tensor 'x': none of these formats holds its numbers"):
        allocate({"x": x}, 16, formats=("mxfp4",))
    with pytest.raises(ValueError, match=r"tensor 'x': none of these formats holds its numbers; e2m1/row: .*NaN"):
        allocate({"x": x}, 16, formats=("mxfp4", "e2m1"))
    assert allocate({"x": x}, 16, formats=("e2m1", "bf16")).formats == {"x": "bf16/none"}


def test_tiles_are_not_for_vectors() -> None:
    tensors = {"m": np.ones((2, 64), np.float32), "v": np.ones(64, np.float32)}
    assert allocate(tensors, 64, formats=("fp8_block128", "bf16")).formats == {"m": "fp8_block128", "v": "bf16/none"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budget": 0}, "budget must be finite and positive"),
        ({"budget": float("nan")}, "budget must be finite and positive"),
        ({"budget": 10**400}, "budget must be finite and positive, got inf"),
        ({"cost": "time", "times": {"mxfp4": 10**400}}, "mxfp4 must be finite and positive, got inf"),
        ({"budget": 2}, r"budget=2 bits a value is too little: the smallest formats take 4\.25"),
        ({"formats": ()}, "formats must name a format"),
        ({"formats": ("mxfp4", "MXFP4")}, "mxfp4 stands there twice"),
        ({"formats": ("mxfp5",)}, "unknown format 'mxfp5'"),
        ({"formats": ("e4m3/column",)}, "the scale of 'e4m3' must be none, row or tensor; got 'column'"),
        ({"error": "mae"}, "error must be one of mse, max_relative, sqnr"),
        ({"cost": "space"}, "cost must be one of bytes, time"),
        ({"cost": "time"}, "needs seconds a value"),
        ({"times": {"mxfp4": 1e-9}}, "cost='bytes' takes none"),
        ({"cost": "time", "times": {"mxfp8": 1.0}}, "nothing is said of mxfp4"),
        ({"cost": "time", "times": {"mxfp4": -1.0}}, "mxfp4 must be finite and positive, got -1"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        allocate(TENSORS, **{"budget": 8.0, "formats": ("mxfp4",), **arguments})


@pytest.mark.parametrize(
    "arguments", [{"budget": "4"}, {"budget": True}, {"formats": "mxfp4"}, {"formats": (4,)}, {"error": 3}]
)
def test_bad_types(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(arguments))):
        allocate(TENSORS, **{"budget": 8.0, **arguments})


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({5: np.ones(4)}, "tensors: names are text, got int"),
        ([np.ones(4)], "tensors must be a mapping from names, got list"),
        ({"a": np.ma.masked_array([1.0, 2.0], [0, 1])}, "tensor 'a': a masked array"),
    ],
)
def test_bad_tensors(tensors: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        allocate(tensors, 8)


def test_a_budget_without_end() -> None:
    """More than all can take changes nothing, and seconds that no float holds are an error."""
    for budget in (100, 1e18, 1e300):
        assert allocate(TENSORS, budget, formats=FORMATS).formats == allocate(TENSORS, 64, formats=FORMATS).formats
    times = {"mxfp4": 1e-9, "mxfp8": 1e308}
    with pytest.raises(ValueError, match=r"times: mxfp8_e4m3 with 1e\+308 takes endless for \d+ values"):
        allocate(TENSORS, 1, "time", formats=tuple(times), times=times)
    times = {"mxfp4": 5e-324, "mxfp8": 1e-320}
    assert allocate(TENSORS, 1e300, "time", formats=tuple(times), times=times).cost == "time"


def test_measured_once_planned_often() -> None:
    seen: list[tuple[str, int, int]] = []
    measured = measure(TENSORS, FORMATS, progress=lambda *about: seen.append(about))
    assert seen == [(name, i + 1, 4) for i, name in enumerate(TENSORS)]
    for budget in (5, 8):
        assert measured.plan(budget) == allocate(TENSORS, budget, formats=FORMATS)


def test_memory_is_near_one_tensor() -> None:
    x = np.ones((4000, 256), np.float32)
    measure({"x": x[:8]}, ("mxfp4",))  # makes tables
    tracemalloc.start()
    measure({"x": x, "y": x}, ("mxfp4",))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * x.nbytes  # codes and some chunks; the sums of every number would be four times x


# --- JSON -------------------------------------------------------------------------------------

LINE = PlanLine("w", (2, 3), "e4m3/row", 14, None, 0.25, 4.5)
PLAN = Plan(9.5, "bytes", "mse", True, (LINE, replace(LINE, name="v", format="mxfp4", sqnr=None)), "0" * 64)


def test_a_plan_comes_back_from_json_and_fits_the_schema() -> None:
    times = dict.fromkeys(FORMATS, 1e-09)
    for plan in (
        PLAN,
        allocate(TENSORS, 6, formats=FORMATS),
        allocate(TENSORS, 1, "time", formats=FORMATS, times=times),
    ):
        assert read_plan(plan.to_json()) == plan
        jsonschema.validate(json.loads(plan.to_json()), json.loads(SCHEMA.read_text()))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("kind",), "other", "kind is not"),
        (("version",), 2, "version is '2'; this program reads 1"),
        (("cost",), "space", "cost must be one of"),
        (("budget",), "4", "budget cannot be"),
        (("optimal",), 1, "optimal cannot be"),
        (("extra",), 1, "missing or unknown: 'extra'"),
        (("tensors", 0, "format"), "mxfp5", r"tensors\[0\]: format: unknown format"),
        (("tensors", 1, "shape"), [2, -3], r"tensors\[1\]: shape is no list of sizes"),
        (("tensors", 1, "bytes"), True, r"tensors\[1\]: bytes cannot be"),
        (("tensors", 1, "name"), "w", "a tensor stands there twice"),
        (("tensors", 1), 3, r"tensors\[1\] is not an object"),
        (("budget",), 0, "budget must be positive, got 0"),
        (("budget",), -1.5, "budget must be positive, got -1.5"),
        (("budget",), 10**30, "budget is too large"),
        (("header_sha256",), "0" * 63, "header_sha256 is '0+', no 64 digits"),
        (("cost",), "time", r"tensors\[0\]: seconds are missing"),
        (("tensors", 0, "seconds"), 1e-9, r"tensors\[0\]: seconds are for the cost time"),
        (("tensors", 0, "seconds"), -1e-9, r"tensors\[0\]: seconds is negative: -1e-09"),
        (("tensors", 0, "bytes"), -1, r"tensors\[0\]: bytes is negative: -1"),
        (("tensors", 0, "bytes"), 10**400, r"tensors\[0\]: bytes is too large"),
        (("tensors", 0, "error"), -0.5, r"tensors\[0\]: error is negative: -0.5"),
        (("tensors", 0, "shape"), [1 << 48], r"tensors\[0\]: shape is no list of sizes"),
    ],
)
def test_a_false_plan_is_refused(path: tuple[Any, ...], value: Any, message: str) -> None:
    tree = json.loads(PLAN.to_json())
    *way, last = path
    place = tree
    for step in way:
        place = place[step]
    place[last] = value
    with pytest.raises(ValueError, match=f"plan: .*{message}"):
        read_plan(json.dumps(tree))


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "[" * 100000, '{"kind": "feather_ref.plan", "version": 1}', b"", b"\xa8\x00", b"GGUF"]
)
def test_what_is_no_plan(text: str | bytes) -> None:
    with pytest.raises(ValueError, match="plan: "):
        read_plan(text)


def test_a_plan_says_each_thing_once() -> None:
    with pytest.raises(ValueError, match="plan: 'budget' stands there twice"):
        read_plan(PLAN.to_json().replace('"budget"', '"budget": 8.0, "budget"', 1))
    with pytest.raises(ValueError, match="plan: 'format' stands there twice"):
        read_plan(PLAN.to_json().replace('"format"', '"format": "bf16", "format"', 1))


def test_a_format_of_a_plan_may_be_spelt_in_any_way() -> None:
    assert read_plan(PLAN.to_json().replace("mxfp4", " MXFP4_e2m1")).formats["v"] == "mxfp4"


def test_a_plan_knows_its_file() -> None:
    forms = {"w": Form("F32", (2, 3)), "v": Form("F32", (2, 3)), "ids": Form("I64", (1,))}
    plan = replace(PLAN, header_sha256=fingerprint(forms))
    check_fits(plan, forms)
    check_fits(plan, dict(reversed(forms.items())))
    for changed, message in (
        ({"ids": Form("I32", (1,))}, "made for a file with the header"),
        ({"w": Form("F32", (3, 2))}, r"tensor 'w' has shape \[3, 2\], not \[2, 3\]"),
        ({"more": Form("F32", (3, 2))}, "other names, dtypes or shapes"),
    ):
        with pytest.raises(ValueError, match=message):
            check_fits(plan, {**forms, **changed})
    with pytest.raises(ValueError, match=r"it asks for 'v'; the file has 'w'$"):
        check_fits(plan, {"w": forms["w"]})


def test_pieces_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feather_ref._choices._ROWS", 100)
    x = RNG.standard_normal((3, 5, 40)).astype(np.float32)
    names = ("e4m3/row", "e3m2/tensor", "mxfp4", "nvfp4", "mixed6", "uint4_g32", "fp8_block128")
    for tensor in (x, *(parse_choice(name).quantize(x) for name in names)):
        whole = tensor if isinstance(tensor, np.ndarray) else tensor.dequantize()
        parts = list(pieces(tensor))
        assert len(parts) == 8 and parts[0].shape == (2, 40)
        assert np.concatenate(parts).tobytes() == whole.tobytes()


@pytest.mark.parametrize("n", [5, 15, 32, 40, 77])
@pytest.mark.parametrize("rows", [1, 3, 7])
def test_a_budget_that_is_just_enough(rows: int, n: int) -> None:
    """What the error says is enough; and 4.8, which float64 has a little less of than 24/5, is 4.8."""
    x = np.random.default_rng(n).standard_normal((rows, n)).astype(np.float32)
    measured = measure({"x": x, "y": 2 * x}, ("mxfp4", "bf16"))
    least = measured.plan(16)  # bf16 takes all of it
    cheap = min(line.bytes for line in measured.offers[0]) * 2
    exactly = 8 * cheap / x.size / 2
    assert measured.plan(exactly).nbytes == cheap and least.nbytes == 4 * x.size
    with pytest.raises(ValueError, match="the smallest formats take") as refused:
        measured.plan(float(np.nextafter(exactly, 0)))
    said = float(str(refused.value).split()[-1])
    assert 0 <= said - exactly < 1e-4 and measured.plan(said).nbytes == cheap
    times = {"mxfp4": 0.1 / 3, "bf16": 0.7}
    with pytest.raises(ValueError, match="the fastest formats take") as refused:
        measured.plan(1e-9, "time", times)
    fast = measured.plan(float(str(refused.value).split()[-1]), "time", times)
    assert set(fast.formats.values()) == {"mxfp4"}
    assert measured.plan(math.fsum(line.seconds or 0 for line in fast.tensors), "time", times).formats == fast.formats
