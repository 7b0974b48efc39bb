"""Mixed block formats: against the oracle of blocks, every row and rule tried in fractions."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feather_ref as fr
from feather_ref import block_oracle, oracle
from feather_ref.allocate import (
    MIXED_FORMATS,
    MixedBlockFormat,
    MixedBlockTensor,
    best_split,
    get_mixed_format,
    quantize_mixed,
    splits,
)
from feather_ref.blocks import quantize_blocks
from feather_ref.formats import FORMATS

RNG = np.random.default_rng(12)

# Multiples of 2**-8 below 2**8: errors are multiples too, so that float64 adds their squares exactly.
grid = st.integers(-(1 << 16) + 1, (1 << 16) - 1).map(lambda i: i * 2.0**-8)
even = st.integers(-15, 15).map(float)
powers = st.builds(lambda s, e: s * 2.0**e, st.sampled_from([1, -1]), st.integers(-8, 7))
blocks = st.one_of(
    *(st.lists(part | st.sampled_from([0.0, -0.0]), min_size=1, max_size=8) for part in (grid, even, powers))
)


def test_the_rows_by_hand() -> None:
    fields = {
        name: [(row.exponent_bits, row.mantissa_bits) for row in fmt.elements] for name, fmt in MIXED_FORMATS.items()
    }
    assert fields["mixed8"] == fields["mixed8_b64"] == [(5, 2), (4, 3), (3, 4), (2, 5)]
    assert fields["mixed6"] == [(4, 1), (3, 2), (2, 3), (1, 4)]
    assert fields["mixed4"] == [(3, 0), (2, 1), (1, 2)]
    assert MIXED_FORMATS["mixed8"].elements[:2] == (FORMATS["e5m2"], FORMATS["e4m3"])
    assert [row.max for row in MIXED_FORMATS["mixed8"].elements[2:]] == [30.0, 7.75]  # no Inf, one NaN
    assert [row.max for row in MIXED_FORMATS["mixed4"].elements] == [16.0, 6.0, 3.5]  # no NaN
    assert {name: fmt.bits_per_value for name, fmt in MIXED_FORMATS.items()} == {
        "mixed8": 8.5, "mixed8_b64": 8.25, "mixed6": 6.5, "mixed6_b64": 6.25, "mixed4": 4.5, "mixed4_b64": 4.25,
    }  # fmt: skip


def oracle_block(values: list[float], fmt: MixedBlockFormat) -> tuple[Fraction, int, list[int], int]:
    """The least (error, selector, codes, scale): the first of equals, row before rule."""
    best = None
    for selector, row in enumerate(fmt.elements):
        for rule in fmt.scale_rules:
            block = block_oracle.quantize(values, row, fmt.scale, rule)
            error = Fraction(0)
            for i, x in enumerate(values):
                y = oracle.decode(block_oracle.value(block, i, row, fmt.scale), "fp32")
                error += (Fraction(x) - y.signed) ** 2
            if best is None or error < best[0]:
                best = error, selector, list(block.codes), block.scale
    assert best is not None
    return best


@pytest.mark.parametrize("name", ["mixed8", "mixed6", "mixed4"])
@settings(max_examples=40)
@given(values=blocks)
def test_a_block_is_the_best_of_all_rows_and_rules(name: str, values: list[float]) -> None:
    fmt = MIXED_FORMATS[name]
    error, selector, codes, scale = oracle_block(values, fmt)
    tensor = quantize_mixed(np.float32(values), fmt)
    assert (tensor.selectors.tolist(), tensor.codes.tolist(), tensor.scales.tolist()) == ([selector], codes, [scale])
    back = tensor.dequantize().tolist()
    assert sum((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(values, back, strict=True)) == error


def test_the_better_of_two_scales_by_hand() -> None:
    fmt = MixedBlockFormat("one", (FORMATS["e2m1"],), (4,))
    # 7.5: at scale 1 it is cut to 6, at scale 2 it is 3.75 and becomes 4
    tensor = quantize_mixed([7.5, 0.0], fmt)
    assert (tensor.scales.tolist(), tensor.codes.tolist(), tensor.dequantize().tolist()) == ([0x80], [6, 0], [8, 0])
    # 7 and 0.5: at scale 1 they are 6 and 0.5, at scale 2 8 and 0.25 to 0 (even)
    tensor = quantize_mixed([7.0, 0.5], fmt)
    assert (tensor.scales.tolist(), tensor.codes.tolist(), tensor.dequantize().tolist()) == ([0x7F], [7, 1], [6, 0.5])
    # 7: both are 1 off, and the first rule stands
    assert quantize_mixed([7.0, 0.0], fmt).scales.tolist() == [0x7F]
    assert MIXED_FORMATS["mixed4"].scale_rules == ("floor", "rceil")


def test_each_row_wins_somewhere() -> None:
    for name in ("mixed8", "mixed6", "mixed4"):
        fmt = MIXED_FORMATS[name]
        for i, row in enumerate(fmt.elements):
            top = row.exact(row.max_magnitude)
            codes = np.unique(np.linspace(0, row.max_magnitude, fmt.size).round().astype(int))
            values = [float(row.exact(int(code)) / top) for code in codes]
            tensor = quantize_mixed(np.array(values) * float(top), fmt)
            assert tensor.selectors.tolist() == [i], (name, row.name)
            assert tensor.dequantize().tolist() == [float(row.exact(int(code))) for code in codes]


def test_every_code_of_every_row_decodes_as_the_oracle_says() -> None:
    for fmt in (MIXED_FORMATS["mixed8"], MIXED_FORMATS["mixed6"], MIXED_FORMATS["mixed4"]):
        codes = np.arange(fmt.element.code_mask + 1, dtype=np.uint8)
        for selector, row in enumerate(fmt.elements):
            for scale in (0x00, 0x7F, 0x80, 0xFE, 0xFF):
                grid = -(-len(codes) // fmt.size)
                tensor = MixedBlockTensor(codes, np.full(grid, scale, np.uint8), np.full(grid, selector), fmt)
                back = tensor.dequantize().view(np.uint32).tolist()
                block = block_oracle.Block(codes.tolist(), scale, None, Fraction(1))
                assert back == [block_oracle.value(block, i, row, fmt.scale) for i in range(len(codes))]


def test_it_packs_and_explains_like_any_other() -> None:
    x = (RNG.standard_normal((3, 70)) * 2.0 ** RNG.integers(-6, 6, (3, 1))).astype(np.float32)
    tensor = quantize_mixed(x, "mixed6")
    assert tensor.words.tobytes() == fr.pack_codes(tensor.codes, 6).tobytes()
    # 70 codes of 6 bits fill 14 words; three scales and three selectors
    assert (tensor.nbytes, tensor.padded, tensor.scales.shape) == (3 * (14 * 4 + 3 + 3), True, (3, 3))
    assert tensor.bits_per_value == 8 * tensor.nbytes / 210
    row = tensor.row_of(1, 65)
    assert row == tensor.fmt.elements[tensor.selectors[1, 2]]
    value = fr.explain(row, tensor.codes[1, 65]).value
    assert value is not None
    assert value.signed * Fraction(float(tensor.scale_values[1, 2])) == Fraction(float(tensor.dequantize()[1, 65]))
    with pytest.raises(TypeError, match="not an array"):
        np.asarray(tensor)
    with pytest.raises(ValueError, match="axes"):
        tensor.row_of(1)
    with pytest.raises(IndexError):
        tensor.row_of(1, 70)


def test_it_multiplies_like_any_other() -> None:
    from feather_ref import ops  # noqa: PLC0415 - for this test alone

    w, x = RNG.standard_normal((4, 64)).astype(np.float32), RNG.standard_normal(64).astype(np.float32)
    tensor = quantize_mixed(w, "mixed4")
    values = tensor.dequantize(np.float64)
    exact = [sum(Fraction(a) * Fraction(b) for a, b in zip(row, x.tolist(), strict=True)) for row in values.tolist()]
    wanted = [oracle.encode(total, "fp32") for total in exact]
    assert ops.gemv(tensor, x).view(np.uint32).tolist() == wanted


@pytest.mark.parametrize("shape", [(5,), (3, 70), (2, 33, 3), (1, 1), (0, 32), (4, 0)])
def test_any_axis_is_the_last_one_moved(shape: tuple[int, ...]) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    for axis in range(-len(shape), len(shape)):
        tensor, moved = quantize_mixed(x, "mixed8", axis), quantize_mixed(np.moveaxis(x, axis, -1), "mixed8")
        for part in ("codes", "scales", "selectors"):
            np.testing.assert_array_equal(np.moveaxis(getattr(tensor, part), axis, -1), getattr(moved, part))
        np.testing.assert_array_equal(np.moveaxis(tensor.dequantize(), axis, -1), moved.dequantize())
        assert tensor.shape == shape


def test_chunks_cut_nowhere_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    x = RNG.standard_normal((7, 100)).astype(np.float32)
    whole = quantize_mixed(x, "mixed4")
    monkeypatch.setattr("feather_ref._blockparts.CHUNK", 64)
    parts = quantize_mixed(x, "mixed4")
    for part in ("codes", "scales", "selectors"):
        np.testing.assert_array_equal(getattr(whole, part), getattr(parts, part))
    assert whole.dequantize().tobytes() == parts.dequantize().tobytes()


def test_sources_and_special_numbers() -> None:
    x = np.float64([1.5, -0.0, 0.0, 3.0])
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64):
        assert quantize_mixed(x.astype(dtype), "mixed6").codes.tolist() == quantize_mixed(x, "mixed6").codes.tolist()
    # a NaN takes its block: the scale says so, the first row stands
    bad = np.ones((1, 64), np.float32)
    bad[0, 3] = np.nan
    tensor = quantize_mixed(bad, "mixed8")
    assert (tensor.scales.tolist(), tensor.selectors[0, 0]) == ([[0xFF, tensor.scales[0, 1]]], 0)
    assert np.isnan(tensor.dequantize()[0, :32]).all() and (tensor.dequantize()[0, 32:] == 1).all()
    # Inf does not count, and saturates
    bad[0, 3] = -np.inf
    tensor = quantize_mixed(bad, "mixed8")
    row = tensor.row_of(0, 3)
    assert fr.decode(tensor.codes[0, 3], row) == -row.max
    assert tensor.dequantize()[0, 4] == 1
    # zeros keep their signs
    zeros = quantize_mixed(np.float32([0.0, -0.0]), "mixed4").dequantize()
    assert zeros.view(np.uint32).tolist() == [0, 1 << 31]
    # the greatest and the least float32: no row that gives Inf is taken
    for top in (np.finfo(np.float32).max, 2.0**-149):
        back = quantize_mixed(np.float32([top, -top]), "mixed8").dequantize()
        assert np.isfinite(back).all()


def test_measures_choose_differently() -> None:
    x = np.float32([1.0, 0.9, 0.8, 0.7, 2.0**-7, 2.0**-8])
    by = {error: quantize_mixed(x, "mixed8", error=error).row_of(0).exponent_bits for error in ("mse", "max_relative")}
    assert by["max_relative"] > by["mse"]


def test_splits_of_blocks_are_what_a_mixed_format_takes() -> None:
    x = (RNG.standard_normal((4, 100)) * 2.0 ** RNG.integers(-8, 8, (4, 100))).astype(np.float32)
    for error in ("mse", "max_relative"):
        found = best_split(x, 6, "block", error)
        tensor = quantize_mixed(x, MixedBlockFormat("own", splits(6), (32,)), error=error)
        np.testing.assert_array_equal(found.choice, tensor.selectors)
    one = best_split(x, [FORMATS["e3m2"]], "block", scale_rule="floor")
    back = quantize_blocks(x, "mxfp6_e3m2").dequantize()
    first = ((x[0, :32].astype(np.float64) - back[0, :32]) ** 2).tolist()
    assert one.errors[0, 0, 0] == sum(first) / 32


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"elements": (FORMATS["e4m3"], FORMATS["e2m1"])}, ValueError, "one width of at most 8 bits"),
        ({"elements": ()}, ValueError, "elements must be 1 to 256 rows"),
        ({"elements": [FORMATS["e2m1"]]}, TypeError, "elements must be a tuple"),
        ({"elements": (FORMATS["fp16"],)}, ValueError, "at most 8 bits"),
        ({"block": (4, 4)}, ValueError, "block must be one size"),
        ({"block": (0,)}, ValueError, "block must be"),
        ({"scale_rules": ()}, ValueError, "must name a rule"),
        ({"scale": FORMATS["int8"]}, ValueError, "scale must be a float"),
    ],
)
def test_bad_rows(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        replace(MIXED_FORMATS["mixed4"], **change)


def test_bad_tensors() -> None:
    good = quantize_mixed(np.ones(40, np.float32), "mixed4")
    for change, error, message in (
        ({"selectors": np.array([0, 3])}, ValueError, r"selectors\[1\] = 3; 'mixed4' has 3 rows"),
        ({"selectors": np.array([0, -1])}, ValueError, r"selectors\[1\] = -1"),
        ({"selectors": np.array([0])}, ValueError, "selectors has shape"),
        ({"selectors": np.array([0.0, 1.0])}, TypeError, "selectors must be integers"),
        ({"scales": np.array([1], np.uint8)}, ValueError, "scales has shape"),
        ({"codes": np.full(40, 16)}, ValueError, "codes"),
        ({"fmt": "mixed5"}, ValueError, "unknown mixed format 'mixed5'"),
    ):
        with pytest.raises(error, match=message):
            replace(good, **change)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="dtype"):
        good.dequantize(np.float16)
    with pytest.raises(TypeError, match="dtype must be float32 or float64, got None"):
        good.dequantize(None)
    with pytest.raises(TypeError, match="fmt"):
        get_mixed_format(8)
    assert get_mixed_format("MIXED4") is MIXED_FORMATS["mixed4"]
    assert math.isclose(good.fmt.bits_per_value, 4.5)
