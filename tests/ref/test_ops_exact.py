"""dot, gemv, matmul against sums of fractions, one rounding by the oracle."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import zip_longest
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feather_ref import _exact, oracle
from feather_ref.blocks import BlockFormat, BlockTensor, get_block_format, quantize_blocks
from feather_ref.formats import get_format
from feather_ref.ops import Order, dot, gemm, gemv, matmul, replay
from feather_ref.tensors import PackedTensor, pack_tensor
from feather_ref.words import codes_to_words

Exact = oracle.Exact
ZERO = Exact("finite", False, Fraction(0))
NAN = Exact("nan", False, Fraction(0))
SPECIALS = (0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000)
INFINITE = (0x7F800000, 0xFF800000, 0x7FC00001, 0xFF800001)
PACKED = ("e4m3", "e5m2", "e2m1", "e3m2", "nf4", "fp16", "bf16", "tf32", "int8", "e8m0", "e4m3fnuz")
BLOCKS = ("mxfp8_e5m2", "mxfp4", "mxint8", "nvfp4", "uint4_g32", "q8_0", "fp8_block128", "fp8_1x128")
TILE = BlockFormat("tile", get_format("e2m1"), (2, 4), get_format("fp16"), "amax")


def finite(value: Fraction) -> Exact:
    return Exact("finite", value < 0, abs(value))


def product(*factors: Exact) -> Exact:
    """Signs, Inf * 0 and NaN as IEEE 754-2019, 6.1 and 7.2."""
    kinds = [x.kind for x in factors]
    zero = any(x.kind == "finite" and x.magnitude == 0 for x in factors)
    if "nan" in kinds or ("inf" in kinds and zero):
        return NAN
    negative = sum(x.negative for x in factors) % 2 == 1
    if "inf" in kinds:
        return Exact("inf", negative, Fraction(0))
    magnitude = Fraction(1)
    for x in factors:
        magnitude *= x.magnitude
    return Exact("finite", negative, magnitude)


def total(terms: list[Exact]) -> Exact:
    """A sum of real numbers: zero is +0."""
    signs = {x.negative for x in terms if x.kind == "inf"}
    if any(x.kind == "nan" for x in terms) or len(signs) == 2:
        return NAN
    if signs:
        return Exact("inf", signs.pop(), Fraction(0))
    return finite(sum((x.signed for x in terms), Fraction(0)))


def row_dot(w: list[Exact], x: list[Exact], bias: Exact = ZERO) -> Exact:
    return total([*(product(a, b) for a, b in zip(w, x, strict=True)), bias])


def exacts(values: Any) -> list[Exact]:
    return [oracle.exact(v) for v in np.asarray(values).ravel()]


def check(got: Any, want: list[Exact], out: str = "fp32", **policies: str) -> None:
    got = np.asarray(got)
    codes = got.view(f"u{got.dtype.itemsize}").ravel().tolist()
    assert [hex(c) for c in codes] == [hex(oracle.encode(x, out, **policies)) for x in want]


def draw_bits(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    """float32 of like size, of a wide range, and special ones, by what is drawn."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    low, high = draw(st.sampled_from([(0x3F000000, 0x40800000), (0x30000000, 0x50000000), (0, 0x7F800000)]))
    bits = rng.integers(low, high, shape) | rng.integers(0, 2, shape) << 31
    rare = draw(st.sampled_from([0.0, 0.3]))
    bits = np.where(rng.random(shape) < rare, rng.choice(SPECIALS, shape), bits)
    bits = np.where(rng.random(shape) < draw(st.sampled_from([0.0, 0.0, 0.02])), rng.choice(INFINITE, shape), bits)
    return bits.astype(np.uint32).view(np.float32)


# --- against fractions ------------------------------------------------------------------------


@settings(max_examples=100)
@given(st.data())
def test_float32(data: st.DataObject) -> None:
    m, n, k = (data.draw(st.integers(low, high)) for low, high in ((1, 3), (1, 3), (0, 40)))
    w, x = draw_bits(data.draw, (n, k)), draw_bits(data.draw, (m, k))
    bias = draw_bits(data.draw, (n,)) if data.draw(st.booleans()) else None
    ends = [ZERO] * n if bias is None else exacts(bias)
    want = [row_dot(exacts(w[i]), exacts(row), ends[i]) for row in x for i in range(n)]
    got = matmul(x, w, bias)
    assert (got.shape, got.dtype) == ((m, n), np.float32)
    check(got, want)
    check(gemv(w, x[0], bias), want[:n])
    out, rounding = data.draw(st.sampled_from(["fp16", "bf16", "e4m3", "fp32"])), data.draw(
        st.sampled_from(["nearest_even", "toward_zero", "toward_positive", "to_odd"])
    )  # fmt: skip
    check(matmul(x, w, bias, out, rounding=rounding), want, out, rounding=rounding)


@settings(max_examples=60)
@given(st.data())
def test_cancellation(data: st.DataObject) -> None:
    """x and -x beside each other leave one small product: what float64 would lose."""
    k = data.draw(st.integers(1, 20))
    a, b = draw_bits(data.draw, (k,)), draw_bits(data.draw, (k,))
    a, b = (np.where(np.isfinite(v), v, np.float32(1)) for v in (a, b))
    tiny = np.array([2.0**-140, 3.0], np.float32)
    order = np.random.default_rng(k).permutation(2 * k + 1)
    left, right = np.concatenate([a, -a, tiny[:1]])[order], np.concatenate([b, b, tiny[1:]])[order]
    assert dot(left, right) == np.float32(3 * 2.0**-140)
    check(dot(left, right), [finite(Fraction(3, 2**140))])


@settings(max_examples=60)
@given(st.data())
def test_packed(data: st.DataObject) -> None:
    fmt = data.draw(st.sampled_from(PACKED))
    row, n, k = get_format(fmt), data.draw(st.integers(1, 3)), data.draw(st.integers(0, 20))
    codes = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, row.code_mask + 1, (n, k))
    shape = data.draw(st.sampled_from([None, (), (n, 1)]))
    scale = None if shape is None or row.name == "e8m0" else np.asarray(np.abs(draw_bits(data.draw, shape)))
    if scale is not None:
        scale = np.where(np.isfinite(scale) & (scale > 0), scale, np.float32(0.1))
    w = PackedTensor(codes_to_words(codes, row, "big"), scale, (n, k), fmt, "big")
    scales = [oracle.exact(1.0)] * n if scale is None else exacts(np.broadcast_to(scale.ravel(), n))
    rows = [[product(oracle.decode(c, row), scales[i]) for c in codes[i].tolist()] for i in range(n)]
    x = draw_bits(data.draw, (k,))
    check(gemv(w, x), [row_dot(w, exacts(x)) for w in rows])
    check(matmul(w, w), [row_dot(a, b) for a in rows for b in rows])  # both packed
    check(dot(data_row(w, 0), x), [row_dot(rows[0], exacts(x))])


def data_row(w: PackedTensor, i: int) -> PackedTensor:
    """One row as a vector."""
    scale = None if w.scale is None else w.scale if w.scale.ndim == 0 else w.scale[i]
    return PackedTensor(w.words[i], scale, w.shape[1:], w.fmt, w.order)


@settings(max_examples=60)
@given(st.data())
def test_blocks(data: st.DataObject) -> None:
    bfmt = get_block_format(data.draw(st.sampled_from([*BLOCKS, TILE])))
    n, k = data.draw(st.sampled_from([(1, 0), (1, 1), (2, 40), (3, 65), (130, 2)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    axis = -1 if bfmt.tile[0] > 1 else data.draw(st.sampled_from([-1, 0]))
    high, wide = bfmt.tile if axis == -1 else bfmt.tile[::-1]
    codes = rng.integers(0, bfmt.element.code_mask + 1, (n, k))
    blocks = (-(-n // high), -(-k // wide))
    scales = rng.integers(0, bfmt.scale.code_mask + 1, blocks)
    zeros = rng.integers(0, 16, blocks) if bfmt.zero_point else None
    whole = np.float32(0.1) if bfmt.tensor_scale == "float32" else None
    w = BlockTensor(codes, scales, bfmt, axis, whole, zeros)
    end = oracle.exact(1.0 if whole is None else whole)

    def value(i: int, j: int) -> Exact:
        element = oracle.decode(int(codes[i, j]), bfmt.element)
        if zeros is not None:
            element = finite(element.signed - oracle.decode(int(zeros[i // high, j // wide]), bfmt.element).signed)
        return product(element, oracle.decode(int(scales[i // high, j // wide]), bfmt.scale), end)

    x = draw_bits(data.draw, (k,))
    rows = [[value(i, j) for j in range(k)] for i in range(n)]
    check(gemv(w, x), [row_dot(row, exacts(x)) for row in rows])


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int8, ">f4"])
def test_sources(dtype: Any) -> None:
    rng = np.random.default_rng(5)
    w, x = (rng.integers(-40, 40, shape).astype(np.float64) / 7 for shape in ((3, 17), (17,)))
    w, x = w.astype(dtype), x.astype(dtype)
    check(gemv(w, x), [row_dot(exacts(row), exacts(x)) for row in w])
    check(gemv(w[:, ::-2], x[::-2]), [row_dot(exacts(row), exacts(x[::-2])) for row in w[:, ::-2]])


def test_float64_and_integers_of_any_size() -> None:
    x = np.array([2.0**-1074, 2.0**1023, 1.0, -(2.0**1023)])
    y = np.array([2.0**1000, 1.0, 2.0**-149, 1.0])
    check(dot(x, y), [row_dot(exacts(x), exacts(y))])
    rng = np.random.default_rng(9)
    for spread in (0, 3, 30, 300):  # all 53 bits, and digits that end within them
        a, b = (rng.standard_normal(9) * 2.0 ** rng.integers(-spread, spread + 1, 9) for _ in "ab")
        check(dot(a, b), [row_dot(exacts(a), exacts(b))])
        rest = np.array([*(a * 2.0**20), *-a, 2.0**-130]), np.array([*b, *(b * 2.0**20), 1.0])
        check(dot(*rest), [finite(Fraction(1, 2**130))])
    check(dot(np.array([2**53, -1, 3]), [1, 1, 1]), [finite(Fraction(2**53 + 2))])
    with pytest.raises(ValueError, match=r"^a\[1\] = 9007199254740994 is beyond 2\*\*53"):
        dot(np.array([0, 2**53 + 2]), [1, 1])


def test_a_sum_that_float64_and_float32_round_twice() -> None:
    # 1 + 2**-24 + 2**-60: a tie but for the last product
    assert dot([1.0, 2.0**-24, 2.0**-30], [1.0, 1.0, 2.0**-30]).view(np.uint32) == 0x3F800001
    assert dot([1.0, 2.0**-24, 2.0**-30], [1.0, 1.0, -(2.0**-30)]).view(np.uint32) == 0x3F800000


@pytest.mark.parametrize("k", [4100, 5000, 6001, 7777, 8100, 8188])
def test_sums_of_the_greatest_digits(k: int) -> None:
    """k times (2**24 - 1)**2, brought to one above a tie: digits whose sum were not exact would lose the one."""
    top = 2**24 - 1
    base = k * top**2
    place = 1 << base.bit_length() - 24
    tie = (base // (2 * place) + 1) * 2 * place + place // 2  # above an even multiple of the last place
    high, low = divmod(tie + 1 - base, 1 << 16)
    a = np.array([*[top] * k, high >> 8, high & 0xFF, low], np.float32)
    b = np.array([*[top] * k, 1 << 24, 1 << 16, 1], np.float32)
    for sign in (1, -1):
        assert int(sum(Fraction(float(p)) * Fraction(float(q)) for p, q in zip(a, b, strict=True))) == tie + 1
        check(dot(a, sign * b), [finite(Fraction(sign * (tie + 1)))])


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        ([], [], 0x00000000),
        ([-0.0], [1.0], 0x00000000),  # an exact zero is +0, as of a sum that starts from +0
        ([1.0, -1.0], [1.0, 1.0], 0x00000000),
        ([-(2.0**-100)], [2.0**-100], 0x80000000),  # not zero, and rounds to it: the sign stays
        ([2.0**-75], [2.0**-75], 0x00000000),  # a tie to even
        ([2.0**-75], [1.5 * 2.0**-75], 0x00000001),
        ([2.0**127], [2.0], 0x7F800000),
        ([2.0**127, -(2.0**127)], [2.0, 1.0], 0x7F000000),  # no sum on the way overflows
        ([np.inf, 1.0], [2.0, -np.inf], 0x7FC00000),
        ([np.inf, 1.0], [-2.0, -np.inf], 0xFF800000),
        ([np.inf, 1.0], [0.0, 1.0], 0x7FC00000),
        ([np.inf, -(2.0**127)], [2.0**-149, 2.0**127], 0x7F800000),  # beyond float32, but a number
        ([np.nan, 1.0], [0.0, 1.0], 0x7FC00000),
    ],
)
def test_by_hand(a: list[float], b: list[float], want: int) -> None:
    assert f"{dot(np.array(a, np.float64), np.array(b, np.float64)).view(np.uint32):08X}" == f"{want:08X}"


def test_results() -> None:
    w = [[1.0, 2.0], [np.nan, 0.0]]
    assert gemv(w, [1.0, 1.0], out="fp16").view(np.uint16).tolist() == [0x4200, 0x7E00]
    assert gemv(w, [1.0, 1.0], out="bf16").tolist() == [0x4040, 0x7FC0]
    assert gemv(w, [1.0, 1.0], out="e4m3", overflow="nonsaturating").tolist() == [0x44, 0x7F]
    assert matmul(np.zeros((0, 2)), w).shape == (0, 2)
    assert matmul(np.zeros((3, 0)), np.zeros((2, 0))).view(np.uint32).tolist() == [[0, 0]] * 3
    assert gemv(np.zeros((0, 2)), [1.0, 2.0]).shape == (0,)
    assert gemv(np.zeros((2, 0)), [], bias=[-0.0, 1.5]).tolist() == [0.0, 1.5]
    assert gemm is matmul


def test_digits_are_the_same_by_floats_and_by_bits() -> None:
    """Both ways to cut: digits of sums near zero, wide rows, the ends of the quick way, and zeros."""
    rng = np.random.default_rng(4)
    rows = [
        rng.standard_normal((3, 40)), np.ldexp(rng.standard_normal((3, 40)), rng.integers(-400, 400, (3, 40))),
        np.zeros((2, 5)), np.array([[2.0**450, -(2.0**-450), 0.0, -0.0]]), np.array([[1 - 2.0**-53, -1.0]]),
        np.empty((2, 0)), np.empty((0, 3)),
    ]  # fmt: skip
    for x in rows:
        for width in (6, 20, 25):
            quick, plain = _exact._cut(x, width), _exact._cut_bits(x, width)
            used = np.any(x != 0, axis=1)
            np.testing.assert_array_equal(quick.top[used], plain.top[used])
            for a, b in zip_longest(quick.planes, plain.planes):
                zeros = np.zeros(x.shape)
                np.testing.assert_array_equal(zeros if a is None else a, zeros if b is None else b)
    for beyond in (2.0**451, 2.0**-451, 5e-324, np.inf, np.nan):
        assert len(_exact._cut(np.array([[beyond, 1.0]]), 20).planes) == len(
            _exact._cut_bits(np.array([[beyond, 1.0]]), 20).planes
        )


def test_chunks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    w, x, bias = rng.standard_normal((23, 9)), rng.standard_normal((4, 9)), rng.standard_normal(23).astype(np.float32)
    want = matmul(x, w, bias).view(np.uint32)
    monkeypatch.setattr("feather_ref._exact._CHUNK", 45)
    np.testing.assert_array_equal(matmul(x, w, bias).view(np.uint32), want)


def test_a_packed_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    w, x, bias = np.zeros((70, 1), np.float32), np.zeros(1, np.float32), np.arange(1, 71, dtype=np.float32)
    monkeypatch.setattr("feather_ref._exact._CHUNK", 3)
    monkeypatch.setattr("feather_ref._replay._CHUNK", 3)
    for packed in (pack_tensor(bias, "e4m3", "row"), quantize_blocks(bias, "mxfp8")):
        assert gemv(w, x, packed).tolist() == packed.dequantize().tolist()
        assert replay(w, x, Order(vector=1), packed).tolist() == packed.dequantize().tolist()


W22 = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: gemv(W22, [1.0]), ValueError, "W of shape (2, 2) and x of shape (1,) differ in k"),
        (lambda: dot([1.0, 2.0], [1.0]), ValueError, "a of shape (2,) and b of shape (1,) differ in k"),
        (lambda: gemv(W22, W22), ValueError, "x must have shape (k,), got (2, 2)"),
        (lambda: gemv(W22[0], W22[0]), ValueError, "W must have shape (n, k), got (2,)"),
        (lambda: matmul(1.0, W22), ValueError, "x must have shape (k,) or (m, k), got ()"),
        (lambda: dot(W22, W22), ValueError, "a must have shape (k,), got (2, 2)"),
        (lambda: dot(W22[0], W22), ValueError, "b must have shape (k,), got (2, 2)"),
        (lambda: gemv(W22, [1.0, 1.0], W22), ValueError, "bias must have shape (2,), got (2, 2)"),
        (lambda: gemv(W22.astype(complex), [1.0, 1.0]), TypeError, "W: dtype complex128"),
        (lambda: gemv(W22, W22[0].astype(np.longdouble)), TypeError, "x: dtype"),
        (lambda: gemv(W22, ["a", "b"]), TypeError, "x: dtype"),
        (lambda: gemv(W22, [1.0, 1.0], out="fp33"), ValueError, "unknown format 'fp33'"),
        (lambda: gemv(W22, [1.0, np.nan], out="e2m1"), ValueError, "is NaN, which is an error"),
        (lambda: gemv(W22, [1.0, 1.0], rounding="stochastic_a"), ValueError, "rounding='stochastic_a'"),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    if np.longdouble is np.float64 or np.dtype(np.longdouble).itemsize == 8:
        pytest.skip("longdouble is float64 here")
    with pytest.raises(error, match=re.escape(text)):
        call()
