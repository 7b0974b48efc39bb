"""PackedTensor and its scales, against exact fractions; and where a rounded division would differ."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from feather_ref import oracle
from feather_ref.formats import FORMATS, Format, get_format, minifloat
from feather_ref.packing import unpack_codes
from feather_ref.tensors import PackedTensor, pack_tensor
from feather_ref.words import as_float32, make_unpacker, unpack

ORDERS = ("little", "big")
RULES = ("amax", "pow2")
E4M3 = get_format("e4m3")
NAMES = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "int8", "int4", "mxint8", "fp16", "bf16", "tf32", "nf4", "e4m3fnuz")


def u32(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


# --- the definition, in fractions -------------------------------------------------------------


def true_scale(values: list[float], row: Format, rule: str) -> Fraction:
    """The scale of a row of Python floats."""
    finite = [abs(Fraction(v)) for v in values if np.isfinite(v)]
    if not any(finite):
        return Fraction(1)
    exact = max(finite) / Fraction(row.max)
    if rule == "pow2":
        power = next(p for p in range(-1100, 1100) if Fraction(2) ** p >= exact)
        return Fraction(2) ** max(power, -126)
    return max(oracle.decode(oracle.encode(exact, "fp32"), "fp32").magnitude, Fraction(2) ** -126)


def true_code(value: float, scale: Fraction, row: Format, **policies: str) -> int:
    exact = oracle.exact(value)
    return oracle.encode(replace(exact, magnitude=exact.magnitude / scale), row, **policies)


def true_value(code: int, scale: Fraction, row: Format) -> int:
    """The float32 bits of decode(code) * scale; NaN is canonical."""
    exact = replace(oracle.decode(code, row), negative=False) if row.is_nan(code) else oracle.decode(code, row)
    return oracle.encode(replace(exact, magnitude=exact.magnitude * scale), "fp32")


def bits(x: np.ndarray) -> list[int]:
    assert x.dtype == np.float32
    return x.ravel().view(np.uint32).tolist()


def check(w: np.ndarray, fmt: str | Format, scale: str, rule: str, order: str = "little", **policies: str) -> None:
    """pack_tensor against the definition, every bit."""
    row = get_format(fmt)
    packed = pack_tensor(w, row, scale, rule, order, **policies)
    rows = np.atleast_1d(w).reshape(-1, w.shape[-1] if w.ndim else 1).astype(np.float64).tolist()
    groups = rows if scale == "row" else [[v for values in rows for v in values]]
    scales = [true_scale(values, row, rule) for values in groups]
    assert packed.scale.shape == ((*w.shape[:-1], 1) if scale == "row" else ())
    assert [Fraction(s) for s in packed.scale.ravel().tolist()] == scales
    scales = scales if scale == "row" else scales * len(rows)
    codes = [true_code(v, s, row, **policies) for values, s in zip(rows, scales, strict=True) for v in values]
    assert packed.codes().shape == packed.shape == w.shape
    assert packed.codes().ravel().tolist() == codes
    repeated = [s for values, s in zip(rows, scales, strict=True) for _ in values]
    assert bits(packed.dequantize()) == [true_value(c, s, row) for c, s in zip(codes, repeated, strict=True)]


# --- made by hand -----------------------------------------------------------------------------


def test_a_row_by_hand() -> None:
    # amax 896 / 448 = 2; 448, -224, 1, 0 are 7E, F6, 38, 00
    packed = pack_tensor([896.0, -448.0, 2.0, 0.0], "e4m3", scale="row")
    assert packed.scale.tolist() == [2.0]
    assert [f"{word:08X}" for word in packed.words] == ["0038F67E"]
    assert packed.dequantize().tolist() == [896.0, -448.0, 2.0, 0.0]
    assert packed.nbytes == 8
    assert repr(packed) == "PackedTensor(e4m3, shape=(4,), order='little', scale=(1,), 8 bytes)"
    big = pack_tensor([896.0, -448.0, 2.0, 0.0], "e4m3", "row", order="big")
    assert [f"{word:08X}" for word in big.words] == ["7EF63800"]


@pytest.mark.parametrize(
    ("fmt", "amax", "scale"),
    [
        ("e4m3", 448.0, 1.0),
        ("e4m3", np.nextafter(np.float32(448), np.float32(0)), 1.0),
        ("e4m3", np.nextafter(np.float32(448), np.float32(500)), 2.0),
        ("e4m3", 224.0, 0.5),
        ("e4m3", 224.00000000000003, 1.0),
        ("e4m3", 512.0, 2.0),
        ("e2m1", 6.0, 1.0),
        ("e2m1", 6.000000000000001, 2.0),
        ("e2m1", 4.0, 1.0),
        ("e2m1", 3.0, 0.5),
        ("int8", 127.0, 1.0),
        ("int8", 128.0, 2.0),
        ("nf4", 1.0, 1.0),
        ("nf4", 0.75, 1.0),
        ("e2m1", 3e-320, 2.0**-126),
        ("e2m1", 6 * 2.0**-126, 2.0**-126),
        ("e2m1", 6 * 2.0**127, 2.0**127),
    ],
)
def test_pow2_by_hand(fmt: str, amax: float, scale: float) -> None:
    packed = pack_tensor(np.array([0, -amax]), fmt, "row", "pow2")
    assert packed.scale.tolist() == [scale]


@pytest.mark.parametrize("rule", RULES)
def test_rows_without_a_number_and_tiny_rows(rule: str) -> None:
    inf, nan = np.inf, np.nan
    w = np.array([[0, -0.0, 0], [nan, nan, inf], [-inf, nan, 0], [1e-44, 0, -1e-40], [inf, -448, nan]], np.float32)
    packed = pack_tensor(w, "e4m3", "row", rule)
    assert packed.scale.ravel().tolist() == [1, 1, 1, 2.0**-126, 1]
    assert packed.codes().tolist()[:3] == [[0, 0x80, 0], [0x7F, 0x7F, 0x7E], [0xFE, 0x7F, 0]]
    assert packed.codes().tolist()[4] == [0x7E, 0xFE, 0x7F]
    assert pack_tensor(w, "e4m3", "tensor", rule).scale.tolist() == 1
    check(w, "e4m3", "row", rule)
    check(w, "e4m3", "tensor", rule, overflow="nonsaturating")


# --- against the definition -------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("fmt", NAMES)
def test_random_tensors(fmt: str, rule: str) -> None:
    rng = np.random.default_rng(3)
    w = (rng.standard_normal((3, 2, 7)) * 2.0 ** rng.integers(-20, 20, (3, 2, 1))).astype(np.float32)
    for order in ORDERS:
        check(w, fmt, "row", rule, order)
    check(w[:2].astype(np.float64) / 3, fmt, "tensor", rule)


@pytest.mark.parametrize("fmt", ["e4m3", "e3m2", "e2m1", "int8"])
def test_the_quotient_is_exact(fmt: str) -> None:
    """Numbers nearest to a midpoint times the scale: a float32 quotient is the midpoint, the exact one is not."""
    row = get_format(fmt)
    rng = np.random.default_rng(4)
    magnitudes = range(row.max_magnitude)
    middles = [float(row.exact(m) + row.exact(m + 1)) / 2 for m in magnitudes]
    divided = reciprocal = 0
    for _ in range(4):
        amax = np.float32(rng.uniform(1, 2) * row.max)
        scale = np.float32(float(true_scale([float(amax)], row, "amax")))
        centre = (np.array(middles) * scale).astype(np.float32)
        w = np.concatenate([[amax], centre, np.nextafter(centre, 0), np.nextafter(centre, amax)], dtype=np.float32)
        check(w, fmt, "row", "amax")
        codes = pack_tensor(w, fmt, "row").codes()
        for naive, kind in ((w / scale, "divided"), (w * (np.float32(1) / scale), "reciprocal")):
            wrong = sum(oracle.encode(v, row) != c for v, c in zip(naive.tolist(), codes.tolist(), strict=True))
            divided += wrong * (kind == "divided")
            reciprocal += wrong * (kind == "reciprocal")
    assert divided > 0
    assert reciprocal > 0


def test_the_scale_is_rounded_once() -> None:
    """amax of 53 bits: rounded to float32 before the division, it gives another scale here and there."""
    wrong = 0
    for amax in np.random.default_rng(5).uniform(1, 1000, 50).tolist():
        check(np.array([amax]), "e4m3", "row", "amax")
        wrong += float(np.float32(amax) / np.float32(448)) != float(true_scale([amax], E4M3, "amax"))
    assert wrong > 0


def test_policies_reach_the_codes() -> None:
    w = np.array([1.0, 0.3, -0.7, np.inf, np.nan, 0.11], np.float32)
    for rounding in ("nearest_away", "toward_zero", "toward_positive", "toward_negative", "to_odd"):
        check(w, "e4m3", "row", "amax", rounding=rounding)
    check(w, "e5m2", "tensor", "pow2", overflow="nonsaturating", nan="preserve_sign")
    check(w, "e2m1", "row", "amax", nan="max")


SOURCES = [np.float16, ">f4", np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int8, np.int32, ">u2"]


@pytest.mark.parametrize("dtype", SOURCES, ids=str)
def test_sources(dtype: object) -> None:
    w = np.arange(-12, 12).reshape(4, 6)[::-1, ::2] + 3
    check((abs(w) if dtype == ">u2" else w).astype(dtype), "e2m3", "row", "amax")


def test_integers_are_exact() -> None:
    check(np.array([2**53, -3, 1 << 40]), "e5m2", "row", "pow2")
    w = np.array([2**31 - 1, -(2**31), 12345], np.int32)
    check(w, "e4m3", "row", "amax")
    assert pack_tensor([True, False], "e2m1", "row").dequantize().tolist() == [1.0, 0.0]
    assert pack_tensor([[1, 2], [3, 4]], "int4", "tensor").scale.tolist() == float(np.float32(4 / 7))


@pytest.mark.parametrize("scale", [None, "row", "tensor"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 5), (1,), (5,), (2, 3, 9)])
def test_shapes(shape: tuple[int, ...], scale: str | None) -> None:
    w = np.ones(shape, np.float32)
    packed = pack_tensor(w, "e3m2", scale)
    *lead, n = shape or (1,)
    assert packed.shape == packed.codes().shape == packed.dequantize().shape == shape
    assert packed.words.shape == (*lead, -(-n * 6 // 32))
    if scale is None:
        assert packed.scale is None
        assert packed.nbytes == packed.words.nbytes
    else:
        assert packed.scale.dtype == np.float32
        assert packed.scale.shape == ((*lead, 1) if scale == "row" else ())
        assert packed.nbytes == packed.words.nbytes + 4 * packed.scale.size


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("row", FORMATS.values(), ids=str)
def test_every_format_without_a_scale(row: Format, order: str) -> None:
    w = np.array([[1.0, 2.0, 0.5], [1.0, 1.0, 1.0]], np.float32)
    packed = pack_tensor(w, row, order=order)
    want = [oracle.encode(v, row) for v in w.ravel().tolist()]
    assert packed.codes().ravel().tolist() == want
    assert packed.dequantize().tolist() == [[float(oracle.decode(c, row).signed) for c in r] for r in packed.codes()]
    assert packed.fmt is row
    assert packed.order == order


def test_products_that_leave_float32() -> None:
    # 448 * 2**127 is Inf, 2**-9 * 2**127 is 2**118
    packed = PackedTensor(u32(0x81017EFE), np.float32(2.0**127), (4,), E4M3)
    assert bits(packed.dequantize()) == [0xFF800000, 0x7F800000, 245 << 23, 0x80000000 | 245 << 23]
    # 1 and 3 times 2**-9 * 2**-126 * (1 + 2**-15): subnormals, half a unit over, half a unit under
    packed = PackedTensor(u32(0x81830301), np.float32(2.0**-126 * (1 + 2.0**-15)), (4,), E4M3)
    assert bits(packed.dequantize()) == [0x4000, 0xC002, 0x8000C002, 0x80004000]
    # the least values of this row are below float32, so that they decode as float64
    wide = minifloat(8, 2, bias=200)
    packed = PackedTensor(u32(1 | 3 << 11), np.float32(1.5 * 2.0**60), (2,), wide)
    assert bits(packed.dequantize()) == [true_value(c, Fraction(1.5 * 2.0**60), wide) for c in (1, 3)]


# --- wherever words go ------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_functions_of_words_take_it(order: str) -> None:
    w = np.array([[1.0, -3.0, 0.25], [8.0, 0.0, 2.0]], np.float32)
    packed = pack_tensor(w, "tf32", "row", order=order)
    assert unpack(packed).tobytes() == packed.dequantize().tobytes()
    assert unpack(packed, "tf32", 3, order, dtype=np.float32).tobytes() == packed.dequantize().tobytes()
    assert make_unpacker("tf32")(packed).tobytes() == packed.dequantize().tobytes()
    assert (unpack_codes(packed, 32) >> 13).tolist() == packed.codes().tolist()
    assert as_float32(packed).view(np.uint32).tolist() == packed.words.tolist()
    other = "big" if order == "little" else "little"
    for call, text in [
        (lambda: unpack(packed, "e4m3"), "fmt='e4m3': the PackedTensor holds 'tf32'"),
        (lambda: unpack(packed, n=2), "n=2: the PackedTensor has rows of 3"),
        (lambda: unpack(packed, dtype=np.float64), "dtype=float64: the PackedTensor gives float32"),
        (lambda: unpack_codes(packed, 19), "width=19: the PackedTensor has lanes of 32 bits"),
        (lambda: unpack_codes(packed, 32, 4), "n=4: the PackedTensor has rows of 3"),
    ]:
        with pytest.raises(ValueError, match=re.escape(text)):
            call()
    if other == "big":
        with pytest.raises(ValueError, match="order='big': the PackedTensor has order 'little'"):
            unpack(packed, order="big")


def test_padding_bits_are_checked() -> None:
    packed = PackedTensor(u32(0x80383838), None, (3,), E4M3)
    for call in (packed.codes, packed.dequantize, lambda: unpack(packed)):
        with pytest.raises(ValueError, match=re.escape("words[0] = 0x80383838")):
            call()
    assert packed.codes(strict=False).tolist() == [0x38] * 3
    assert packed.dequantize(strict=False).tolist() == unpack(packed, strict=False).tolist() == [1.0] * 3


# --- refusals ---------------------------------------------------------------------------------

WORDS = np.zeros((2, 1), np.uint32)
ONE = np.ones((2, 1), np.float32)


def test_a_format_name_will_do() -> None:
    packed = PackedTensor(WORDS, ONE, (2, 4), "F8_E4M3")
    assert packed.fmt is E4M3
    with pytest.raises(AttributeError):
        packed.shape = (8,)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: PackedTensor(WORDS, None, (2, 5), E4M3), ValueError, "words have shape (2, 1); 'e4m3' codes of shape"),
        (lambda: PackedTensor(WORDS, None, (8,), E4M3), ValueError, "words have shape (2, 1)"),
        (lambda: PackedTensor(WORDS, None, (), E4M3), ValueError, "words have shape (2, 1)"),
        (
            lambda: PackedTensor(WORDS.view("i4"), None, (2, 4), E4M3),
            TypeError,
            "words must be uint32, got dtype int32",
        ),
        (lambda: PackedTensor(WORDS, None, 8, E4M3), TypeError, "shape must be a tuple of ints, got 8"),
        (lambda: PackedTensor(WORDS, None, (2, 4.0), E4M3), TypeError, "shape must be a tuple of ints, got (2, 4.0)"),
        (lambda: PackedTensor(WORDS, None, (2, -4), E4M3), ValueError, "shape must not be negative, got (2, -4)"),
        (lambda: PackedTensor(WORDS, None, (2, 4), "e9"), ValueError, "fmt: unknown format 'e9'"),
        (lambda: PackedTensor(WORDS, None, (2, 4), E4M3, "up"), ValueError, "order must be one of little, big"),
        (lambda: PackedTensor(WORDS, ONE.astype("f8"), (2, 4), E4M3), TypeError, "scale must be float32, got dtype"),
        (lambda: PackedTensor(WORDS, 1.0, (2, 4), E4M3), TypeError, "scale must be float32, got dtype float64"),
        (lambda: PackedTensor(WORDS, ONE.T, (2, 4), E4M3), ValueError, "scale has shape (1, 2), not () or (2, 1)"),
        (lambda: PackedTensor(WORDS, -ONE, (2, 4), E4M3), ValueError, "scale[0, 0] = 0xBF800000 is not finite and"),
        (lambda: PackedTensor(WORDS, np.float32("nan"), (2, 4), E4M3), ValueError, "scale = 0x7FC00000 is not finite"),
        (lambda: PackedTensor(WORDS, ONE, (2, 1), minifloat(1, 29)), ValueError, "is not a positive float32"),
        (lambda: pack_tensor([1e300, 1.0], "e4m3", "row"), ValueError, "scale[0] = 1e+300 / 448.0 is above 3.4"),
        (lambda: pack_tensor([[1.0], [1e300]], "e4m3", "row", "pow2"), ValueError, "scale[1, 0] = 1e+300 / 448.0 is"),
        (lambda: pack_tensor([1.0, 1e300], "e4m3", "tensor"), ValueError, "scale = 1e+300 / 448.0 is above 3.4"),
        (lambda: pack_tensor([2.0**128], "nf4", "row"), ValueError, "scale[0] = 3.402823669209385e+38 / 1.0"),
        (lambda: pack_tensor([2.0**127 * 1.5], "nf4", "row", "pow2"), ValueError, "scale[0] = 2.55"),
        (lambda: pack_tensor([1.0], "e4m3", "column"), ValueError, "scale must be one of row, tensor, or None; got"),
        (lambda: pack_tensor([1.0], "e4m3", 2.0), TypeError, "scale must be a name, got float"),
        (lambda: pack_tensor([1.0], "e4m3", "row", "mean"), ValueError, "scale_rule must be one of amax, pow2; got"),
        (lambda: pack_tensor([1.0], "e4m3", scale_rule="pow2"), ValueError, "scale_rule='pow2' has no scale to make"),
        (lambda: pack_tensor([1.0], "e4m3", order="up"), ValueError, "order must be one of little, big"),
        (lambda: pack_tensor([[1], [-(2**53) - 1]], "e4m3", "row"), ValueError, "x[1, 0] = -9007199254740993 is not"),
        (lambda: pack_tensor([2**64 - 1], "e4m3", "row"), ValueError, "x[0] = 18446744073709551615 is not"),
        (lambda: pack_tensor(np.ones(2, np.longdouble), "e4m3", "row"), TypeError, "is wider than float64"),
        (lambda: pack_tensor(["a"], "e4m3", "row"), TypeError, "dtype <U1 is not a real number"),
        (lambda: pack_tensor([1.0, np.nan], "e2m1", "row"), ValueError, "[1] is NaN, which is an error"),
        (lambda: pack_tensor([1.0], "e4m3", "row", rounding="stochastic_a"), ValueError, "rounding='stochastic_a'"),
        (lambda: pack_tensor([1.0], "e4m3", random_bits=[0]), TypeError, "'random_bits'"),
        (lambda: pack_tensor([1.0], minifloat(9, 6), "row"), ValueError, "is not a positive float32"),
    ],
)
def test_refusals(call: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()
