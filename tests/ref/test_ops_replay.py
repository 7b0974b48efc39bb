"""replay against loops over Python numbers; and orders that must give other bits."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain_ops
from drawn_ops import float32s, orders
from feather_ref.blocks import BlockTensor, get_block_format, quantize_blocks
from feather_ref.codec import decode
from feather_ref.formats import get_format
from feather_ref.ops import Order, gemv, replay
from feather_ref.tensors import PackedTensor, pack_tensor
from feather_ref.words import codes_to_words

FORMATS = ("e4m3", "e5m2", "e2m1", "e3m2", "nf4", "fp16", "bf16", "int8")


def floats(x: Any) -> list[float]:
    with np.errstate(invalid="ignore"):  # signalling NaN
        return np.asarray(x).astype(np.float64).ravel().tolist()


def check(got: np.ndarray, want: list[float]) -> None:
    assert got.dtype == np.float32
    assert [hex(v) for v in got.ravel().view(np.uint32)] == [hex(v) for v in plain_ops.bits(want)]


def exact_weights(order: Order, w: np.ndarray) -> bool:
    """Whether the weights without the order's factor are float32 numbers."""
    down = 2.0 ** -(order.factor + order.x_factor)
    with np.errstate(over="ignore"):
        return all(float(np.float32(v * down)) == v * down for v in floats(w) if np.isfinite(v))


# --- against loops ----------------------------------------------------------------------------


@settings(max_examples=100)
@given(st.data())
def test_float32_arrays(data: st.DataObject) -> None:
    order, n, k = data.draw(orders()), data.draw(st.integers(1, 3)), data.draw(st.integers(0, 70))
    w, x = float32s(data.draw, (n, k)), float32s(data.draw, (k,))
    if not exact_weights(order, w):
        with pytest.raises(ValueError, match="which is not a float32"):
            replay(w, x, order)
        order = replace(order, factor=0, x_factor=0)
    bias = float32s(data.draw, (n,)) if data.draw(st.booleans()) else None
    ends = [None] * n if bias is None else floats(bias)
    want = [plain_ops.replay(floats(w[i]), floats(x), order, bias=ends[i]) for i in range(n)]
    check(replay(w, x, order, bias), want)


@settings(max_examples=100)
@given(st.data())
def test_packed_rows_with_scales(data: st.DataObject) -> None:
    order, fmt = data.draw(orders()), data.draw(st.sampled_from(FORMATS))
    n, k, m = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 40)), data.draw(st.integers(1, 2))
    codes = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, get_format(fmt).code_mask + 1, (n, k))
    shape = data.draw(st.sampled_from([None, (), (n, 1)]))
    scale = None if shape is None else np.asarray(np.abs(float32s(data.draw, shape)))
    if scale is not None:
        scale = np.where(np.isfinite(scale) & (scale > 0), scale, np.float32(0.1))
    packed = PackedTensor(codes_to_words(codes, get_format(fmt), "little"), scale, (n, k), fmt)
    x, bias = float32s(data.draw, (m, k)), float32s(data.draw, (n,))
    values = floats(decode(codes, fmt))
    if not exact_weights(order, values):
        order = replace(order, factor=0, x_factor=0)
    scales = [None] * n if scale is None else np.broadcast_to(scale.ravel(), n).astype(float).tolist()
    zero = float(decode(0, fmt))
    want = [
        plain_ops.replay(
            values[i * k : i * k + k], floats(row), order, scale=scales[i], bias=floats(bias)[i], zero=zero
        )
        for row in x
        for i in range(n)
    ]
    check(replay(packed, x, order, bias), want)


@settings(max_examples=100)
@given(st.data())
def test_blocks(data: st.DataObject) -> None:
    bfmt = get_block_format(data.draw(st.sampled_from(["mxfp8_e4m3", "mxfp4", "nvfp4", "uint4_g32", "q8_0"])))
    order, n, k = data.draw(orders((1, 2, 4, 8, 16, 32))), data.draw(st.integers(1, 2)), data.draw(st.integers(0, 70))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    codes = rng.integers(0, bfmt.element.code_mask + 1, (n, k))
    scales = rng.integers(0, bfmt.scale.code_mask + 1, (n, -(-k // bfmt.size)))
    zeros = np.full(scales.shape, 7) if bfmt.zero_point else None
    whole = np.float32(data.draw(st.sampled_from([1.0, 0.1, 3e-38]))) if bfmt.tensor_scale == "float32" else None
    tensor = BlockTensor(codes, scales, bfmt, -1, whole, zeros)
    x = float32s(data.draw, (k,))
    elements = decode(tensor.codes, bfmt.element).astype(np.float64) - (0.0 if zeros is None else 7.0)
    if not exact_weights(order, elements):
        order = replace(order, factor=0, x_factor=0)
    end, zero = None if whole is None else float(whole), float(decode(0, bfmt.element))
    want = [
        plain_ops.replay(elements[i].tolist(), floats(x), order, scale=end, zero=zero, blocks=(bfmt.size, floats(row)))
        for i, row in enumerate(tensor.scale_values)
    ]
    check(replay(tensor, x, order), want)


# --- by hand ----------------------------------------------------------------------------------

ONE = Order(vector=1, lanes=1)
HALF = 2.0**-24  # half a place of 1: added to 1 alone it is lost, a tie to even


def hexes(y: np.ndarray) -> list[str]:
    return [f"{v:08X}" for v in y.ravel().view(np.uint32)]


def of(values: list[float], order: Order, **arguments: Any) -> str:
    """The sum of values times 1 in an order."""
    w = np.array([values], np.float32)
    return hexes(replay(w, np.ones(len(values), np.float32), order, **arguments))[0]


@pytest.mark.parametrize(
    ("order", "values", "want"),
    [
        (ONE, [1, HALF, HALF], "3F800000"),
        (ONE, [HALF, HALF, 1], "3F800001"),
        (Order(vector=3, lanes=1, elements=(1, 2, 0)), [1, HALF, HALF], "3F800001"),
        (Order(vector=4, lanes=1, accumulators=2), [1, HALF, 0, HALF], "3F800001"),  # 1 + 0, then the two halves
        (Order(vector=4, lanes=1, accumulators=2, run=2), [1, HALF, 0, HALF], "3F800000"),
        (Order(vector=1, lanes=4, sum_lanes="serial"), [HALF, HALF, 1, 0], "3F800001"),
        (Order(vector=1, lanes=4, sum_lanes="serial"), [1, HALF, HALF, HALF], "3F800000"),
        (Order(vector=1, lanes=4), [1, HALF, 0, HALF], "3F800001"),  # 0 + 2, 1 + 3; then both
        (Order(vector=1, lanes=4, sum_lanes=(1, 2)), [1, HALF, 0, HALF], "3F800000"),  # 0 + 1, 2 + 3
        (Order(vector=1, lanes=1, warps=4), [1, HALF, HALF, HALF], "3F800000"),
        (Order(vector=1, lanes=1, warps=4, sum_warps=(1, 2)), [1, 0, HALF, HALF], "3F800001"),
        (Order(vector=1, lanes=1, splits=2), [1, HALF, HALF, 0], "3F800000"),  # parts of two: [1, h] and [h, 0]
        (Order(vector=1, lanes=1, splits=2), [1, 0, HALF, HALF], "3F800001"),
        (Order(vector=1, lanes=1, splits=3), [1, 0, HALF, HALF], "3F800001"),  # the third part is empty
    ],
)
def test_orders_by_hand(order: Order, values: list[float], want: str) -> None:
    assert of(values, order) == want


def test_where_each_choice_shows() -> None:
    """Every field of an order changes some bit of a sum that it should change."""
    rng = np.random.default_rng(3)
    w, x = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, 300), (300,)))
    base = Order(vector=4, lanes=4, warps=2, splits=2, accumulators=4, sum_accumulators="serial")
    others = [
        {"vector": 2}, {"elements": (1, 0)}, {"lanes": 8}, {"warps": 1}, {"splits": 1}, {"accumulators": 2}, {"run": 2},
        {"sum_accumulators": (2, 1)}, {"sum_accumulators": (1, 2)}, {"sum_lanes": "serial"}, {"sum_lanes": (1, 2)},
    ]  # fmt: skip
    results = [hexes(replay(w, x, replace(base, **change))) for change in [{}, *others]]
    for i, a in enumerate(results):
        for b in results[:i]:
            assert a != b


def test_warps_are_added_in_order() -> None:
    rng = np.random.default_rng(4)
    w, x = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, 256), (256,)))
    base = Order(vector=1, lanes=2, warps=4, splits=4)
    for name in ("sum_warps", "sum_splits"):
        results = {how: hexes(replay(w, x, replace(base, **{name: how}))) for how in ("serial", "butterfly", (1, 2))}
        assert results["serial"] != results["butterfly"] != results[1, 2] != results["serial"]


def test_tails_show_as_the_sign_of_zero() -> None:
    w, x = [-(2.0**-100)], [2.0**-100]  # the product rounds to -0
    for tail, want in (("skip", "80000000"), ("vector", "00000000"), ("stride", "00000000")):
        order = Order(vector=2, lanes=1, tail=tail)
        assert hexes(replay(np.array([w], np.float32), np.array(x, np.float32), order))[0] == want
    # a lane without numbers holds +0
    order = Order(vector=1, lanes=2)
    assert hexes(replay(np.array([w], np.float32), np.array(x, np.float32), order))[0] == "00000000"


def test_past_the_end_stands_code_0() -> None:
    """-1 * +0 is -0 for nf4, which leaves a sum of -0 alone; for e4m3 it is +0 * +0."""
    x = np.array([-(2.0**-149)], np.float32)
    for fmt, code, want in (("nf4", 0x8, "80000000"), ("e4m3", 0x01, "00000000")):
        packed = PackedTensor(np.array([[code]], np.uint32), None, (1, 1), fmt)
        order = Order(vector=2, lanes=1, tail="vector")
        assert hexes(replay(packed, x, order)) == [want]


def test_the_factor_and_the_scale_by_hand() -> None:
    def packed(scale: float) -> PackedTensor:
        return PackedTensor(np.array([[0x38]], np.uint32), np.float32(scale), (1, 1), "e4m3")  # 1.0 * scale

    x = np.array([2.0**-140], np.float32)
    # 2**-148, times 2**108
    assert replay(packed(2.0**100), x, replace(ONE, factor=8)) == 2.0**-40
    # the sum is 2**-150, which rounds to 0: the factor comes too late
    assert replay(packed(1.0), x / 4, replace(ONE, factor=8)) == 0.0
    # and so does x
    assert replay(packed(1.0), x / 4, replace(ONE, x_factor=-8)) == 0.0
    assert replay(packed(1.0), x / 4, replace(ONE, x_factor=8)) == 2.0**-142
    # 2**120 * 2**8 is no float32, but the sum times 2**8 is
    assert np.isinf(replay(packed(2.0**120), x, replace(ONE, factor=8)))
    assert replay(packed(2.0**120), x, replace(ONE, factor=8, fold=False)) == 2.0**-20


def test_scale_and_bias_in_two_steps_or_one() -> None:
    w = PackedTensor(np.array([[0x38]], np.uint32), np.float32(1 + 2.0**-12), (1, 1), "e4m3")
    x, bias = np.array([1 + 2.0**-12], np.float32), np.array([2.0**-60], np.float32)
    # (1 + 2**-12)**2 is a tie: the product alone goes to even, with the bias it is above
    assert hexes(replay(w, x, ONE, bias))[0] == "3F801000"
    assert hexes(replay(w, x, replace(ONE, fused=True), bias))[0] == "3F801001"


def test_results_and_their_nan() -> None:
    w = np.array([[np.nan], [np.inf], [-np.inf], [3.0]], np.float32)
    x = np.array([-1.0], np.float32)
    assert hexes(replay(w, x, ONE)) == ["7FC00000", "FF800000", "7F800000", "C0400000"]
    assert replay(w, x, ONE, out="fp16").view(np.uint16).tolist() == [0x7E00, 0xFC00, 0x7C00, 0xC200]
    assert replay(w, x, ONE, out="bf16").tolist() == [0x7FC0, 0xFF80, 0x7F80, 0xC040]
    # float32 first, then the output: 1 + 2**-11 + 2**-25 is a tie for fp16 once it is a float32
    parts = np.array([[1 + 2.0**-11, 2.0**-25]], np.float32)
    ones = np.ones(2, np.float32)
    assert replay(parts, ones, Order(vector=2, lanes=1), out="fp16").view(np.uint16) == 0x3C00
    assert gemv(parts, ones, out="fp16").view(np.uint16) == 0x3C01


def test_x_of_every_kind() -> None:
    rng = np.random.default_rng(6)
    w, x = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 70), (70,)))
    order = Order(vector=4, lanes=8)
    for given_x in (
        x.astype(np.float16), x.astype(ml_dtypes.bfloat16), pack_tensor(x, "e4m3"), x.astype(">f4"),
        pack_tensor(x, "e4m3", "row"), quantize_blocks(x, "mxfp8"), np.stack([x, -x])[:, ::-1],
    ):  # fmt: skip
        plain = given_x.dequantize() if hasattr(given_x, "dequantize") else given_x.astype(np.float32)
        np.testing.assert_array_equal(hexes(replay(w, given_x, order)), hexes(replay(w, plain, order)))


def test_chunks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    w, x = (rng.standard_normal(shape).astype(np.float32) for shape in ((23, 40), (2, 40)))
    bias = w[:, 0]
    packed = pack_tensor(w, "e4m3", "row")
    want = hexes(replay(packed, x, Order(), bias))
    monkeypatch.setattr("feather_ref._replay._CHUNK", 41 * 5)
    assert hexes(replay(packed, x, Order(), bias)) == want


def test_empty() -> None:
    order = Order()
    assert replay(np.zeros((0, 4), np.float32), np.zeros(4, np.float32), order).shape == (0,)
    assert replay(np.zeros((2, 4), np.float32), np.zeros((0, 4), np.float32), order).shape == (0, 2)
    assert hexes(replay(np.zeros((2, 0), np.float32), np.zeros(0, np.float32), order)) == ["00000000"] * 2


F = np.float32
SMALL = Order(vector=2, lanes=1)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: replay(np.ones((2, 2)), np.ones(2, F), SMALL), TypeError, "W: fp64 holds numbers that float32"),
        (lambda: replay(np.ones((2, 2), F), np.ones(2, np.int32), SMALL), TypeError, "x: int32 holds numbers"),
        (lambda: replay(np.ones((2, 2), F), np.ones(2, F), "serial"), TypeError, "order must be an Order, got str"),
        (lambda: replay(np.ones((2, 2), F), np.ones(3, F), SMALL), ValueError, "differ in k"),
        (lambda: replay(np.ones((2, 2), F), np.ones(2, F), SMALL, np.ones(2)), TypeError, "bias: fp64 holds"),
        (lambda: replay(np.ones((2, 2), F), np.ones(2, F), SMALL, np.ones(3, F)), ValueError, "bias must have shape"),
        (
            lambda: replay(np.full((1, 2), 2.0**-149, F), np.ones(2, F), replace(SMALL, factor=1)),
            ValueError,
            "order: a weight of fp32 times 2**-1 is 7.006492321624085e-46, which is not a float32",
        ),
        (
            lambda: replay(quantize_blocks(np.ones((1, 64)), "mxfp4"), np.ones(64, F), Order(vector=24)),
            ValueError,
            "order: vector=24 cuts blocks of 32",
        ),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()
