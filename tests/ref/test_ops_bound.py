"""error_bound: no model that keeps its assumptions may leave it, and it is not far from what one reaches."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_ops import float32s, orders
from feather_ref.blocks import BlockTensor, quantize_blocks
from feather_ref.ops import Order, TensorCore, error_bound, gemv, matmul, replay
from feather_ref.tensors import PackedTensor, pack_tensor


def exponent_of(x: Fraction) -> int:
    """floor(log2(abs(x)))"""
    length = abs(x.numerator).bit_length() - x.denominator.bit_length()
    return length if abs(x) >= Fraction(2) ** length else length - 1


def cut(x: Fraction, bits: int, exponent: int | None = None) -> Fraction:
    """x with `bits` bits below and with the leading one of `exponent`, the rest cut off."""
    if x == 0:
        return x
    top = exponent_of(x) if exponent is None else exponent
    quantum = max(Fraction(2) ** (top - bits + 1), Fraction(1, 2**149))
    return int(x / quantum) * quantum


def tensor_core(w: list[float], x: list[float], group: int, bits: int) -> Fraction:
    """Group after group: align with the greatest, cut, add, cut to float32."""
    acc = Fraction(0)
    for start in range(0, len(w), group):
        pairs = zip(w[start : start + group], x[start : start + group], strict=True)
        addends = [acc, *(Fraction(a) * Fraction(b) for a, b in pairs)]
        greatest = max(map(abs, addends))
        if greatest == 0:
            continue
        acc = cut(sum((cut(a, bits, exponent_of(greatest)) for a in addends), Fraction(0)), 24)
    return acc


def finite(x: np.ndarray, most: float = 1e15) -> np.ndarray:
    return np.where(np.abs(x) < most, x, np.float32(1.5))


@settings(max_examples=60)
@given(st.data())
def test_a_tensor_core_stays_within(data: st.DataObject) -> None:
    group, bits = data.draw(st.sampled_from([(4, 24), (16, 24), (8, 25), (16, 14)]))
    k = data.draw(st.integers(0, 70))
    w, x = (finite(float32s(data.draw, (k,)), 6e4).astype(np.float16).astype(np.float32) for _ in "wx")
    got = tensor_core(w.tolist(), x.tolist(), group, bits)
    want = Fraction(float(gemv(w[None], x)[0]))
    bound = error_bound(w[None], x, TensorCore(group, bits, roundings=0))[0]
    assert abs(got - want) <= Fraction(float(bound))


@pytest.mark.parametrize(("group", "bits"), [(16, 24), (8, 25), (4, 24), (16, 14)])
def test_the_bound_is_not_far_from_what_happens(group: int, bits: int) -> None:
    """A great first product, then groups that lose nearly all of their last places each time."""
    k = 64 * group
    w = np.full(k, np.float32(2.0 ** (1 - bits)))
    w[1::2] -= np.float32(2.0 ** (-7 - bits))
    w[0] = 1.0
    w = w.astype(np.float32)
    x = np.ones(k, np.float32)
    x[1:] = np.float32(1 - 2.0**-11)  # just below one place of the accumulator, which is 1
    error = abs(tensor_core(w.tolist(), x.tolist(), group, bits) - Fraction(float(gemv(w[None], x)[0])))
    bound = Fraction(float(error_bound(w[None], x, TensorCore(group, bits, roundings=0))[0]))
    assert error <= bound <= 4 * error


@settings(max_examples=50)
@given(st.data())
def test_orders_stay_within(data: st.DataObject) -> None:
    order = data.draw(orders((1, 2, 4, 8)))
    n, m, k = 2, 2, data.draw(st.integers(0, 70))
    w: Any = finite(float32s(data.draw, (n, k)))
    kind = data.draw(st.sampled_from(["fp32", "e4m3", "mxfp8", "nvfp4"]))
    if kind == "e4m3":
        w = pack_tensor(w, "e4m3", "row")
    elif kind != "fp32":
        w = quantize_blocks(w, kind)
    elif order.factor or order.x_factor:
        order = Order(vector=order.vector, lanes=order.lanes, sum_lanes=order.sum_lanes)
    x, bias = finite(float32s(data.draw, (m, k))), finite(float32s(data.draw, (n,)))
    packed: Any = pack_tensor(x, "e4m3", "row") if data.draw(st.booleans()) else x
    for out in ("fp32", "fp16"):
        bound = error_bound(w, packed, order, bias, out)
        with np.errstate(all="ignore"):
            error = np.abs(
                replay(w, packed, order, bias, out).astype(np.float64) - matmul(packed, w, bias, out).astype(np.float64)
            )
        promised = np.isfinite(bound)
        assert (error <= bound)[promised].all()
        if k and np.abs(x).max() < 1e4 and out == "fp32" and kind == "fp32":
            assert promised.all()


def test_by_hand() -> None:
    # A = 1 * 3 + 2 * 4 + 0.5 = 11.5; two products a lane, a bias: 3 roundings of 2**-24, and the result's place
    w, x, bias = [[1.0, 2.0]], [3.0, 4.0], [0.5]
    bound = error_bound(w, x, Order(vector=2, lanes=1), bias)[0]
    assert bound / (11.5 * (3 * 2.0**-24 + 2.0**-23)) == pytest.approx(1, abs=1e-5)
    # one step of (4 + 1) * 2**-23 for the alignment and 2**-23 for the cut
    bound = error_bound(w, x, TensorCore(4, 24, roundings=0), bias)[0]
    assert bound / (11.5 * (6 * 2.0**-23 + 2.0**-23)) == pytest.approx(1, abs=1e-5)
    # x off by 2**-10 of 4: 3 * 4 * 2**-10
    off = error_bound(w, x, TensorCore(4, 24, roundings=0, x_error=2.0**-10), bias)[0] - bound
    assert off == pytest.approx(12 * 2.0**-10, rel=1e-4)


def test_roundings_of_a_long_sum() -> None:
    """1024 numbers: 8 fma in each of 4 accumulators, 3 + 5 + 1 sums; a row scale is one more."""
    w, x = np.ones((1, 1024), np.float32), np.ones(1024, np.float32)
    order = Order(vector=4, accumulators=4, lanes=4, warps=2)
    bound = error_bound(w, x, order)[0]
    assert bound == pytest.approx(1024 * ((32 + 3 + 2 + 1) * 2.0**-24 + 2.0**-23), rel=1e-4)
    scaled = error_bound(pack_tensor(w, "e4m3", "tensor", "pow2"), x, order)[0]
    assert scaled == pytest.approx(1024 * ((32 + 3 + 2 + 1 + 1) * 2.0**-24 + 2.0**-23), rel=1e-4)
    # blocks of 32, 4 numbers at a time: at most 1 fma in each of 4 accumulators, then 32 * 4 partial sums
    blocks = error_bound(quantize_blocks(w, "mxfp8"), x, order)[0]
    assert blocks == pytest.approx(1024 * ((1 + 32 + 3 + 2 + 1) * 2.0**-24 + 2.0**-23), rel=1e-4)


def test_nothing_is_promised_where_it_may_overflow() -> None:
    w, x = np.array([[1.0, 1.0], [np.inf, 0.0], [1.0, np.nan], [2.0**100, 0.0]], np.float32), [1.0, 2.0]
    assert np.isfinite(error_bound(w, x)).tolist() == [True, False, False, True]
    assert np.isinf(error_bound([[2.0**127, -(2.0**127)]], [1.0, 1.0])[0])  # a sum on the way may be Inf
    assert np.isfinite(error_bound([[2.0**126, -(2.0**126)]], [1.0, 1.0])[0])
    assert np.isinf(error_bound([[300.0]], [300.0], out="fp16")[0])
    # the accumulator holds the sum times 2**4
    assert np.isinf(error_bound([[2.0**125, 0.0]], [1.0, 1.0], TensorCore(factor=-4))[0])
    # or without the scale of the row, which is small
    packed = pack_tensor(np.full((1, 2), 2.0**-120, np.float32), "e5m2", "row")
    assert np.isfinite(error_bound(packed, [1.0, 1.0])[0])
    assert packed.dequantize().tolist() == [[2.0**-120] * 2]  # 64 * 2**-126
    assert np.isinf(error_bound(packed, [2.0**122, 1.0])[0])


def test_nothing_is_promised_where_x_or_a_scale_leaves_the_range() -> None:
    w, x = np.full((1, 2), 2.0**-120, np.float32), [1.0, 2.0**70]
    order = Order(vector=2, lanes=1, x_factor=60, factor=-60)
    assert np.isinf(error_bound(w, x, order)[0])  # x is 2**130
    assert np.isfinite(error_bound(w, x[:1] * 2, order)[0])
    packed = pack_tensor(w, "e5m2", "row")  # its scale is 2**-126, times 2**-60 it is 0
    assert np.isinf(error_bound(packed, [1.0, 1.0], order)[0])
    assert np.isfinite(error_bound(packed, [1.0, 1.0], replace(order, fold=False))[0])
    for bad in (np.inf, np.nan):
        assert np.isinf(error_bound(w, [bad, 1.0], order)[0])
        assert np.isinf(error_bound(w, [bad, 1.0], TensorCore(x_error=0.0))[0])


def test_products_that_round_to_subnormal_numbers() -> None:
    """64 times 1.4 * 2**-150, each of which rounds to 2**-149; then a scale makes the difference great."""
    x = np.full(64, np.float32(1.4 * 2.0**-148), np.float32)
    words = np.full((1, 16), 0x28282828, np.uint32)  # 0.25 in e4m3
    scales = np.full((1, 2), 127 + 100)
    blocks = BlockTensor(np.full((1, 64), 0x28), scales, "mxfp8")
    for w, most in ((PackedTensor(words, None, (1, 64), "e4m3"), 2.0**-143), (
        PackedTensor(words, np.float32(2.0**100), (1, 64), "e4m3"), 2.0**-43), (blocks, 2.0**-43),
    ):  # fmt: skip
        order = Order(vector=32, lanes=1)
        error = abs(float(replay(w, x, order)[0]) - float(gemv(w, x)[0]))
        bound = error_bound(w, x, order)[0]
        assert most / 16 < error <= bound < 8 * most


def test_a_packed_x_is_rounded_when_it_is_dequantized() -> None:
    w, order = [[1.0, 2.0]], Order(vector=2, lanes=1)
    x = PackedTensor(np.array([0x3838], np.uint32), np.float32(0.1), (2,), "e4m3")  # 1 * 0.1, twice
    more = error_bound(w, x, order)[0] - error_bound(w, x.dequantize(), order)[0]
    assert more == pytest.approx(3 * float(np.float32(0.1)) * 2.0**-24, rel=1e-3)


def test_each_block_is_one_more_rounding_on_a_tensor_core() -> None:
    w, x = np.ones((1, 256), np.float32), np.ones(256, np.float32)
    bound = error_bound(quantize_blocks(w, "mxfp8"), x, TensorCore(32, 24, roundings=0))[0]
    assert bound == pytest.approx(256 * (8 * (33 + 1) * 2.0**-23 + 8 * 2.0**-24 + 2.0**-23), rel=1e-4)


def test_shapes() -> None:
    w = np.ones((3, 5), np.float32)
    assert error_bound(w, np.ones((2, 5))).shape == (2, 3)
    assert error_bound(w, np.ones(5)).shape == (3,)
    assert error_bound(np.ones((0, 5)), np.ones(5)).shape == (0,)
    assert (error_bound(np.ones((2, 0)), np.ones(0)) <= 2.0**-140).all()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: error_bound([[1.0]], [1.0], "order"), TypeError, "assume must be a TensorCore or an Order, got str"),
        (lambda: error_bound([[1.0]], [1.0], out="int8"), ValueError, "out: 'int8' is no float format"),
        (lambda: error_bound([[1.0]], [1.0, 2.0]), ValueError, "differ in k"),
        (lambda: TensorCore(group=0), ValueError, "group must be 1.."),
        (lambda: TensorCore(alignment_bits=1), ValueError, "alignment_bits must be 2.."),
        (lambda: TensorCore(roundings=-1), ValueError, "roundings must be 0.."),
        (lambda: TensorCore(x_error=1.0), ValueError, "x_error must be 0 or more and below 1, got 1.0"),
        (lambda: TensorCore(x_error=math.nan), ValueError, "x_error must be 0 or more and below 1, got nan"),
        (lambda: TensorCore(x_error="0"), TypeError, "x_error must be a number, got str"),
        (lambda: TensorCore(factor=200), ValueError, "factor must be -126..127, got 200"),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()
