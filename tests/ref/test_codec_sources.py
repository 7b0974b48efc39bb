"""One number from every source: dtypes, byte orders, layouts, lists, out; one rounding always."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from feather_ref import oracle
from feather_ref.codec import check_codes, convert, decode, encode, quantize
from feather_ref.formats import FORMATS, get_format
from helpers import ROUNDINGS, assert_bits, exacts, expected, interesting, nans, roundings_of, without_nan

E4M3 = FORMATS["e4m3"]
TARGETS = ["e4m3", "e5m2", "e2m1", "e8m0", "int8", "uint4", "nf4", "fp16", "bf16", "fp32", "uf10", "binary8p3ue"]
EXTENDED = np.finfo(np.longdouble).nmant >= 63
needs_extended = pytest.mark.skipif(not EXTENDED, reason="long double is double here")

ML_FLOATS = [
    "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
]  # fmt: skip
ML_INTS = ["int2", "int4", "uint4"]
INTS = ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]


def check(x: Any, name: str, **policies: Any) -> None:
    """An array against the oracle, element by element."""
    row = get_format(name)
    policies = {**without_nan(row), **policies}
    want = expected(exacts(x.ravel()), row, **policies).reshape(x.shape)
    assert_bits(encode(x, row, **policies), want, x, row)


# --- dtypes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("source", ML_FLOATS)
def test_every_code_of_ml_dtypes(source: str, name: str) -> None:
    """The bits are ours to read: the oracle decodes them by our row, not by the library's conversion."""
    dtype = np.dtype(getattr(ml_dtypes, source))
    src, row = get_format(source), get_format(name)
    codes = np.arange(1 << src.bits, dtype=f"u{dtype.itemsize}")
    if src.bits == 16:
        codes = codes[::97]  # odd, so that every low part comes up
    x = codes.view(dtype)
    numbers = [oracle.decode(int(code), src) for code in codes]
    for rounding in roundings_of(row):
        policies = {"rounding": rounding, **without_nan(row)}
        want = expected(numbers, row, **policies)
        assert_bits(encode(x, row, **policies), want, codes, row)
        assert_bits(convert(codes, src, row, **policies), want, codes, row)


def integers_of(dtype: Any) -> np.ndarray:
    """All of a narrow dtype; of a wide one the powers of two with their neighbours, and the ends."""
    if np.dtype(dtype).name in ("bool", *ML_INTS):
        narrow = {"bool": (0, 2), "int2": (-2, 2), "int4": (-8, 8), "uint4": (0, 16)}
        return np.array(range(*narrow[np.dtype(dtype).name])).astype(dtype)
    limits = np.iinfo(dtype)
    if limits.bits == 8:
        return np.arange(limits.min, limits.max + 1).astype(dtype)
    near = {sign * (m << k) + d for sign in (1, -1) for m in (1, 17) for k in range(65) for d in (-1, 0, 1)}
    near |= {2**53 + 1, 2**62 + 2**54 + 1, 2**62 + 2**54, 2**63 - 1, limits.min, limits.max}
    return np.array(sorted(n for n in near if limits.min <= n <= limits.max), dtype)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("source", [*INTS, *ML_INTS])
def test_every_integer_dtype(source: str, name: str) -> None:
    x = integers_of(getattr(ml_dtypes, source) if source in ML_INTS else source)
    for rounding in ("nearest_even", "to_odd", "toward_negative")[: len(roundings_of(get_format(name)))]:
        check(x, name, rounding=rounding)


@pytest.mark.parametrize("name", TARGETS)
def test_float32_nan_payloads_and_subnormals(name: str) -> None:
    check(nans(np.float32), name)
    check(np.array([1, 0x80000001, 0x7FFFFF, 0x807FFFFF, 0x400000], np.uint32).view(np.float32), name)
    if get_format(name).has_signed_nan:
        check(nans(np.float32), name, nan="preserve_sign")
        check(nans(np.float64), name, nan="preserve_sign")


def extended(x: np.ndarray) -> np.ndarray:
    """Long doubles between float64s: x, and one step of extended precision to either side."""
    wide = x.astype(np.longdouble)
    inf = np.longdouble(np.inf)
    return np.concatenate([np.nextafter(wide, -inf), wide, np.nextafter(wide, inf)])


@needs_extended
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", ["e4m3", "e8m0", "int8", "fp16", "fp32", "uf10", "binary8p3ue"])
def test_longdouble(name: str, rounding: str) -> None:
    points = np.random.default_rng(6).permutation(interesting(get_format(name), 20))[:400]
    x = np.concatenate([extended(points), np.array([np.nan, -np.nan, 0, -0.0, np.inf, -np.inf], np.longdouble)])
    check(x, name, rounding=rounding)
    check(x.astype(x.dtype.newbyteorder(">"))[::-1], name, rounding=rounding)


@needs_extended
def test_longdouble_beyond_the_range_of_float64() -> None:
    two = np.longdouble(2)
    x = np.array([two**9000, -(two**-9000), two**-16400, two**16383 * (2 - np.finfo(np.longdouble).eps)])
    for name in ("e4m3", "fp32", "binary16p1se"):  # the last one has an exponent as wide
        for rounding in ROUNDINGS:
            check(x, name, rounding=rounding)
    flushed = encode(np.array([two**-16400, two**-16382]), "binary16p1se", subnormals="flush_input")
    assert flushed.tolist() == [0x0000, 0x0002]  # 2**-16383 is the least value; 2**-16382 is normal in both


@needs_extended
def test_longdouble_between_two_float64() -> None:
    """A tie of e4m3, and the same with 2**-60 more: float64 cannot tell them apart."""
    tie = np.longdouble(1.0625)
    above = tie + np.longdouble(2) ** -60
    assert float(above) == 1.0625
    assert encode(np.array([tie, above, -above]), "e4m3").tolist() == [0x38, 0x39, 0xB9]
    assert encode(tie, "e4m3") == 0x38 and encode(above, "e4m3") == 0x39  # scalars too
    tie = np.longdouble(0.25)  # nf4 and e2m1: tables and float rows
    assert encode(np.array([tie, tie + np.longdouble(2) ** -62]), "e2m1").tolist() == [0, 1]


# --- Python numbers ---------------------------------------------------------------------------

PYTHON: list[tuple[Any, str, list[int]]] = [
    (1, "e4m3", [0x38]),
    (True, "e4m3", [0x38]),
    (-0.0, "e4m3", [0x80]),
    (1.0625 + 2.0**-40, "e4m3", [0x39]),
    (2**64 + 1, "fp32", [0x5F800000]),
    (2**63, "fp32", [0x5F000000]),
    (-(2**63) - 1, "fp32", [0xDF000000]),
    # the tie 2**100 + 2**76 of fp32, and one more
    (2**100 + 2**76, "fp32", [0x71800000]),
    (2**100 + 2**76 + 1, "fp32", [0x71800001]),
    ([2**100 + 2**76 + 1, 0.5], "fp32", [0x71800001, 0x3F000000]),
    ([0.5, 2**60 + 2**52 + 1], "bf16", [0x3F00, 0x5D81]),  # with a float in the list NumPy makes float64 of it
    ([2**63, -1], "bf16", [0x5F00, 0xBF80]),
    ([2**63 + 2**55 + 1, -1], "bf16", [0x5F01, 0xBF80]),
    ([2**64 + 1, 2**63, -(2**70), 3], "bf16", [0x5F80, 0x5F00, 0xE280, 0x4040]),
    ((2**64 + 2**56 + 1, True, 1.5), "bf16", [0x5F81, 0x3F80, 0x3FC0]),
    ([2**53 + 1, 2**53], "fp32", [0x5A000000, 0x5A000000]),
    (10**30, "fp32", [0x7149F2CA]),
    (2**1023, "e4m3", [0x7E]),
    ([float("nan"), float("-inf"), 1], "e4m3", [0x7F, 0xFE, 0x38]),
    ([np.float32(0.5), 2**60 + 2**52 + 1], "bf16", [0x3F00, 0x5D81]),
    ([np.int64(2**60 + 2**52 + 1), 0.5], "bf16", [0x5D81, 0x3F00]),
    ([np.uint64(2**63 + 2**55 + 1), np.int64(-1)], "bf16", [0x5F01, 0xBF80]),
    ([np.float16(0.5), np.float64(1.0625 + 2.0**-40)], "e4m3", [0x30, 0x39]),
    ([np.array([2**60 + 2**52 + 1]), np.array([0.5])], "bf16", [0x5D81, 0x3F00]),
]


@pytest.mark.parametrize(("x", "name", "codes"), PYTHON, ids=lambda v: str(v)[:40])
def test_python_numbers(x: Any, name: str, codes: list[int]) -> None:
    """The answers are typed: one rounding, whatever NumPy would make of the list."""
    got = encode(x, name)
    assert got.shape == np.shape(x)
    assert [f"{int(code):X}" for code in got.ravel()] == [f"{code:X}" for code in codes]


def test_nested_lists_keep_their_shape() -> None:
    got = encode([[1, 2**64 + 1], [0.5, -1]], "bf16")
    assert got.shape == (2, 2) and got.tolist() == [[0x3F80, 0x5F80], [0x3F00, 0xBF80]]


# --- one rounding -----------------------------------------------------------------------------

ONCE: list[tuple[Any, str, int]] = [  # input, target, code; through the dtype between, each gives another code
    (np.float64(-431.99999999999994), "e4m3", 0xFD),  # -416; by float32 -448
    (np.float64(1.0625 + 2.0**-40), "e4m3", 0x39),
    (np.float64(0.25 + 2.0**-40), "e2m1", 0x1),
    (np.float64(1 + 2.0**-8 + 2.0**-40), "bf16", 0x3F81),
    (np.float64(1 + 2.0**-11 + 2.0**-40), "fp16", 0x3C01),
    (np.float64(2.0**-10 + 2.0**-60), "e4m3", 0x01),  # the tie below the least subnormal
    (np.float64(464.0000000000001), "e4m3ieee", 0x78),
    (np.float64(1.5 * 2.0**-127 * (1 + 2.0**-40)), "e8m0", 0x01),
    (np.float64(0.5 + 2.0**-40), "int8", 1),
    (np.float64(1.0 + 2.0**-24 + 2.0**-50), "fp32", 0x3F800001),
    (np.float32(1.0625 + 2.0**-20), "e4m3", 0x39),  # by float16 1.0
    (np.float32(1.0625 + 2.0**-10), "e4m3", 0x39),  # by bfloat16 1.0
    (np.float32(1.125 + 2.0**-20), "e5m2", 0x3D),
    (np.int64(16973823), "bf16", 0x4B81),  # by float32 16973824, a tie
    (np.int64(2**62 + 2**54 + 1), "bf16", 0x5E81),  # by float64 a tie
    (np.int64(-(2**62) - 2**54 - 1), "bf16", 0xDE81),
    (np.uint64(2**63 + 2**39 + 1), "fp32", 0x5F000001),  # by float64 a tie
    (np.int64(2**62 + 2**54), "bf16", 0x5E80),  # a tie indeed
    (np.int64(2**53 + 1), "fp32", 0x5A000000),
    (np.int64(2**63 - 1), "fp32", 0x5F000000),
    (np.uint64(2**64 - 1), "fp32", 0x5F800000),
    (np.uint64(2**64 - 1), "e8m0", 0xBF),
]


@pytest.mark.parametrize(("x", "name", "code"), ONCE, ids=repr)
def test_one_rounding(x: Any, name: str, code: int) -> None:
    for source in (x, np.array([x]), np.array([x, x])[::-1], np.array(x).astype(x.dtype.newbyteorder(">"))):
        assert {f"{int(c):X}" for c in encode(source, name).ravel()} == {f"{code:X}"}
    assert oracle.encode(x, name) == code


def test_float64_neighbours_of_every_tie() -> None:
    """The tie goes to the even code, one float64 step above or below to the other or the same one."""
    for code in range(0x7E):
        low, high = (oracle.decode(c, "e4m3").magnitude for c in (code, code + 1))
        tie = float((low + high) / 2)
        x = np.array([np.nextafter(tie, 0), tie, np.nextafter(tie, np.inf)])
        assert encode(x, "e4m3").tolist() == [code, code + code % 2, code + 1]


# --- layouts ----------------------------------------------------------------------------------


def layouts(x: np.ndarray) -> dict[str, np.ndarray]:
    """A two-dimensional array in every layout NumPy has; equal elements."""
    rows, columns = x.shape
    gaps = np.zeros((2 * rows, 3 * columns), x.dtype)
    gaps[::2, ::3] = x
    back = np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    odd = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)  # not aligned
    odd[...] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    swapped = gaps.astype(x.dtype.newbyteorder(">"))
    return {
        "contiguous": x, "fortran": np.asfortranarray(x), "strided": gaps[::2, ::3], "negative": back,
        "unaligned": odd, "read-only": frozen, "little": x.astype(x.dtype.newbyteorder("<")),
        "big": x.astype(x.dtype.newbyteorder(">")), "big strided": swapped[::2, ::3],
    }  # fmt: skip


SHAPE = (7, 31)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "i2", "u8", "bfloat16"])
@pytest.mark.parametrize("name", ["e4m3", "bf16", "nf4"])
def test_layouts_give_the_same_codes(name: str, dtype: str) -> None:
    x = (np.random.default_rng(8).standard_normal(SHAPE) * 100).astype(dtype if dtype != "u8" else "i8").astype(dtype)
    want = expected(exacts(x.ravel()), name).reshape(SHAPE)
    forms = layouts(x) if dtype != "bfloat16" else {"strided": x.repeat(2, axis=1)[:, ::2], "fortran": x.copy("F")}
    for form, array in forms.items():
        assert array.shape == SHAPE
        assert_bits(encode(array, name), want, x, name), form
        assert_bits(encode(array.T, name), want.T, x.T, name), form
        assert_bits(encode(array[5], name), want[5], x[5], name), form


@pytest.mark.parametrize("dtype", ["f4", ">f8", "i4", ">g"])
def test_broadcast_arrays(dtype: str) -> None:
    row = np.array([1.0, -2.5, 7.0, 0.0]).astype(dtype)
    want = expected(exacts(row), "e4m3")
    assert_bits(encode(np.broadcast_to(row, (3, 4)), "e4m3"), np.tile(want, (3, 1)), np.tile(row, (3, 1)), "e4m3")
    column = np.broadcast_to(row[:, None], (4, 100_000))
    assert (encode(column, "e4m3") == want[:, None]).all()
    assert (encode(np.broadcast_to(row[1], (5, 6)), "e4m3") == want[1]).all()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3), (1,), (1, 1, 1)])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "i8", "?", ">f4"])
def test_shapes(shape: tuple[int, ...], dtype: str) -> None:
    x = np.ones(shape, dtype)
    codes = encode(x, "e4m3")
    assert isinstance(codes, np.ndarray) and (codes.shape, codes.dtype) == (shape, np.uint8) and (codes == 0x38).all()
    values = decode(codes, "e4m3")
    assert (values.shape, values.dtype) == (shape, np.float32) and (values == 1).all()
    assert quantize(x, "e4m3").shape == shape == convert(codes, "e4m3", "fp16").shape


def test_empty_lists() -> None:
    assert encode([], "e4m3").shape == decode([], "e4m3").shape == (0,)
    assert encode([[], []], "fp16").shape == (2, 0) and encode([[], []], "fp16").dtype == np.uint16
    assert check_codes([], "fp32").dtype == np.uint32


def test_codes_of_every_integer_dtype_and_layout() -> None:
    codes = np.arange(126).reshape(6, 21)
    want = np.array([[float(oracle.decode(int(c), "e4m3").magnitude) for c in row] for row in codes], np.float32)
    for dtype in ("i1", "u1", ">i2", "u2", ">u4", "i4", "i8", ">u8"):
        for form, array in layouts(codes.astype(dtype)).items():
            assert_bits(decode(array, "e4m3"), want, codes), (dtype, form)
    assert_bits(decode(np.broadcast_to(codes[2], (4, 21)), "e4m3"), np.tile(want[2], (4, 1)), codes[:4])


def test_chunks_join() -> None:
    """More than one chunk, at odd sizes; each element has its place."""
    x = np.arange(200_003, dtype=np.float32) % 449
    want = expected(exacts(np.arange(449, dtype=np.float32)), "e4m3")[np.arange(200_003) % 449]
    assert_bits(encode(x, "e4m3"), want, x, "e4m3")
    assert_bits(encode(x[::-1], "e4m3"), want[::-1].copy(), x[::-1], "e4m3")
    table = np.array([float(oracle.decode(c, "e4m3").magnitude) for c in range(127)], np.float32)
    assert_bits(decode(want, "e4m3"), table[want], want)


# --- out --------------------------------------------------------------------------------------


def test_out_is_written_and_returned() -> None:
    x = np.array([[1.0, 2.0], [3.0, -4.0]], np.float32)
    want = expected(exacts(x.ravel()), "e4m3").reshape(2, 2)
    plain = np.empty((2, 2), np.uint8)
    wide = np.full((4, 6), 0xAA, np.uint8)
    outs = {"plain": plain, "fortran": np.empty((2, 2), np.uint8, "F"), "strided": wide[::2, ::3]}
    outs["negative"] = np.empty((2, 2), np.uint8)[::-1, ::-1]
    for form, out in outs.items():
        assert encode(x, "e4m3", out=out) is out, form
        assert_bits(out.copy(), want, x, "e4m3")
    wide[::2, ::3] = 0xAA
    assert (wide == 0xAA).all()  # and nothing between
    codes, report = encode(x, "e4m3", out=plain, report=True)
    assert codes is plain and report.size == 4


@pytest.mark.parametrize("report", [False, True])
@pytest.mark.parametrize("offset", [0, 1, 5, 150_000])
def test_out_over_the_memory_of_x(offset: int, report: bool) -> None:
    """In place, shifted, and ahead of what is still to be read; the report is of the x that came in."""
    memory = np.random.default_rng(9).standard_normal(150_001).astype(np.float32)
    memory[::2] = 1
    x = memory[:150_000]
    fresh = encode(x.copy(), "bf16", report=True)
    out = memory.view(np.uint16)[offset : offset + len(x)]
    got = encode(x, "bf16", out=out, report=report)
    assert_bits(out.copy(), fresh[0], np.arange(len(x)), "bf16")
    if report:
        assert got[1] == fresh[1]


def test_out_over_the_memory_of_codes() -> None:
    """In place, and written backwards: the second half would read what the first half wrote."""
    codes = np.random.default_rng(10).integers(0, 0x7F, 300_000, dtype=np.uint8)
    want = convert(codes, "e4m3", "e5m2fnuz")
    for order in (slice(None), slice(None, None, -1)):
        memory = codes.copy()
        convert(memory, "e4m3", "e5m2fnuz", out=memory[order])
        assert_bits(memory[order].copy(), want, codes, "e5m2fnuz")


def test_out_of_decode_and_quantize() -> None:
    codes = np.array([0x38, 0xB8, 0x7F], np.uint8)
    for dtype, want in (("f2", [0x3C00, 0xBC00, 0x7E00]), ("f4", [0x3F800000, 0xBF800000, 0x7FC00000])):
        out = np.empty(3, dtype)
        assert decode(codes, "e4m3", out=out) is out
        assert out.view(f"u{out.itemsize}").tolist() == want
        assert quantize(out, "e5m2", out=out) is out and out.view(f"u{out.itemsize}").tolist() == want


# --- decode into every float dtype ------------------------------------------------------------


@pytest.mark.parametrize("name", ["e4m3", "e2m1", "e5m2", "int4", "e4m3fnuz"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", ml_dtypes.bfloat16])
def test_decode_into_every_dtype(name: str, dtype: Any) -> None:
    codes = np.arange(1 << get_format(name).bits)
    got = decode(codes, name, dtype)
    assert got.dtype == np.dtype(dtype)
    for code, value in zip(codes, got, strict=True):
        x, y = oracle.decode(int(code), name), oracle.exact(value)
        assert (x.kind, x.magnitude) == (y.kind, y.magnitude)
        assert y.negative == (x.negative and x.kind != "nan")
    assert decode(codes, name, np.dtype("f4").newbyteorder(">")).dtype == np.float32  # native always


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", ml_dtypes.bfloat16])
def test_quantize_keeps_the_dtype(dtype: Any) -> None:
    x = np.array([0.3, -1000.0, 1.0625, 0.0]).astype(dtype)
    got = quantize(x, "e4m3")
    assert got.dtype == np.dtype(dtype)
    assert [float(v) for v in got] == [0.3125, -448.0, 1.0, 0.0]
    assert quantize(x.astype("f4").astype("i4"), "e4m3").dtype == np.float32


# --- memory -----------------------------------------------------------------------------------

LARGE = 1 << 24  # 16 Mi elements
SLACK = 4 << 20


def peak(call: Callable[[], object]) -> int:
    """Bytes allocated at the worst moment of a call, after one call that makes the tables."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_beyond_input_and_output_is_a_few_chunks() -> None:
    x = np.ones((4, LARGE // 4), np.float32)
    codes = np.full(x.shape, 0x38, np.uint8)
    forms = {"contiguous": x, "negative": x[::-1, ::-1], "transposed": x.reshape(-1, 4).T, "big": x.view(">f4")}
    forms["strided"] = np.ones((4, LARGE // 8), np.float32)[:, ::2]
    out = codes.copy()
    for form, array in forms.items():
        target = out[: array.shape[0], : array.shape[1]]
        encode(array[:, :1], "e4m3")
        assert peak(lambda a=array, t=target: encode(a, "e4m3", out=t)) < SLACK, form
    values = np.empty(x.shape, np.float32)
    for form, array in {"contiguous": codes, "negative": codes[::-1], "fortran": codes.reshape(-1, 4).T}.items():
        decode(array[:, :1], "e4m3")
        target = values if array.shape == values.shape else values.reshape(array.shape)
        assert peak(lambda a=array, t=target: decode(a, "e4m3", out=t)) < SLACK, form


@pytest.mark.parametrize("source", ["f8", ">f2", "i4", "u1"])
def test_memory_of_other_sources_and_of_reports(source: str) -> None:
    x = np.broadcast_to(np.ones(1, source), LARGE // 8)
    out = np.empty(x.shape, np.uint8)
    encode(x[:1], "e4m3")
    assert peak(lambda: encode(x, "e4m3", out=out)) < 2 * SLACK
    y = np.broadcast_to(np.ones(1, np.float32), LARGE // 8)
    wide = np.empty(y.shape, np.uint16)
    assert peak(lambda: encode(y, "bf16", out=wide)) < SLACK
    assert peak(lambda: convert(out, "e4m3", "bf16", out=wide)) < SLACK
