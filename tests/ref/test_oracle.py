"""The oracle against hand calculations, the standards and other people's bug reports.

Every expected code is typed here, from a standard or worked out by hand; none comes from the codec.
"""

from __future__ import annotations

import itertools
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from feather_ref import oracle
from feather_ref.formats import FORMATS, Format, get_format, p3109_formats

P3109 = Path(__file__).resolve().parents[3] / "shared" / "p3109"
INF, NAN = float("inf"), float("nan")
MODES = ("nearest_even", "nearest_away", "toward_zero", "toward_positive", "toward_negative", "to_odd")
SMALL = [row for row in FORMATS.values() if row.bits <= 11]


def f32(bits: int) -> float:
    """The float32 of a bit pattern."""
    return float(np.uint32(bits).view(np.float32))


# --- numbers and codes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "negative", "magnitude"),
    [
        (3, False, 3),
        (-(2**70) - 1, True, 2**70 + 1),
        (True, False, 1),
        (Fraction(-1, 3), True, Fraction(1, 3)),
        (-0.0, True, 0),
        (0.1, False, Fraction(3602879701896397, 2**55)),
        (np.float32(-0.0), True, 0),
        (np.float16(2.0**-24), False, Fraction(1, 2**24)),
        (np.longdouble(1) + np.longdouble(2.0**-60), False, 1 + Fraction(1, 2**60)),
        (np.int64(-(2**62) - 1), True, 2**62 + 1),
        (np.uint8(200), False, 200),
        (np.bool_(True), False, 1),
    ],
)
def test_exact_finite(x: object, negative: bool, magnitude: Fraction | int) -> None:
    if isinstance(x, np.longdouble) and np.finfo(np.longdouble).nmant < 63:
        pytest.skip("long double is double here")
    assert oracle.exact(x) == oracle.Exact("finite", negative, Fraction(magnitude))


@pytest.mark.parametrize("maker", [float, np.float16, np.float32, np.float64, np.longdouble])
def test_exact_special(maker: type) -> None:
    found = [oracle.exact(maker(x)) for x in (INF, -INF, NAN)]
    assert [(x.kind, x.negative, x.magnitude) for x in found] == [
        ("inf", False, 0),
        ("inf", True, 0),
        ("nan", False, 0),
    ]
    assert oracle.exact(-maker(NAN)).negative


def test_exact_takes_ml_dtypes_scalars() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert oracle.exact(ml_dtypes.bfloat16(-0.0)) == oracle.Exact("finite", True, Fraction(0))
    assert oracle.exact(ml_dtypes.float8_e4m3fn(-448)) == oracle.Exact("finite", True, Fraction(448))
    assert oracle.exact(ml_dtypes.bfloat16(NAN)).kind == "nan"


@pytest.mark.parametrize("x", ["1", b"1", 1j, np.complex64(1), np.complex128(1), None, [1.0]])
def test_exact_refuses(x: object) -> None:
    with pytest.raises(TypeError, match="x must be a real number"):
        oracle.exact(x)


@pytest.mark.parametrize(
    ("fmt", "code", "value"),
    [
        ("e4m3", 0x01, 2.0**-9), ("e4m3", 0x07, 7 * 2.0**-9), ("e4m3", 0x08, 2.0**-6), ("e4m3", 0xFE, -448.0),
        ("e5m2", 0x01, 2.0**-16), ("e5m2", 0x02, 2.0**-15), ("e5m2", 0x03, 3 * 2.0**-16), ("e5m2", 0x04, 2.0**-14),
        ("e5m2", 0x7B, 57344.0), ("e5m2", 0xFC, -INF),
        ("e3m2", 0x1F, 28.0), ("e2m3", 0x1F, 7.5), ("e2m1", 0x1, 0.5), ("e2m1", 0x9, -0.5), ("e2m1", 0xF, -6.0),
        ("e8m0", 0x00, 2.0**-127), ("e8m0", 0x7F, 1.0), ("e8m0", 0xFE, 2.0**127),
        ("e4m3fnuz", 0x7F, 240.0), ("e4m3fnuz", 0x01, 2.0**-10), ("e5m2fnuz", 0x7F, 57344.0),
        ("e4m3b11fnuz", 0x7F, 30.0), ("e4m3ieee", 0x77, 240.0), ("e4m3ieee", 0x78, INF), ("e3m4", 0x6F, 15.5),
        ("ue4m3", 0x7E, 448.0), ("ue5m3", 248, 65536.0), ("ue5m3", 254, 114688.0),
        ("fp16", 0x7BFF, 65504.0), ("fp16", 0x0001, 2.0**-24), ("bf16", 0x3F80, 1.0), ("bf16", 0x0001, 2.0**-133),
        ("tf32", 0x1FC00, 1.0), ("fp32", 0x00000001, 2.0**-149), ("fp32", 0x7F7FFFFF, 2.0**128 - 2.0**104),
        ("int8", 0x80, -128.0), ("uint8", 0xFF, 255.0), ("int4", 0xF, -1.0), ("int2", 0x2, -2.0),
        ("mxint8", 0x7F, 1.984375), ("mxint8", 0x80, -2.0),
        ("nf4", 0x0, -1.0), ("nf4", 0x7, 0.0), ("fp4_bnb", 0x8, -0.0), ("fp4_bnb", 0xB, -1.0),
        ("uf11", 0x7BF, 65024.0), ("uf10", 0x3DF, 64512.0), ("uf11", 0x7C0, INF),
        ("binary8p3se", 0x7E, 49152.0), ("binary8p3se", 0xFF, -INF), ("binary8p3uf", 0xFE, 3.0 * 2.0**30),
    ],
)  # fmt: skip
def test_decode(fmt: str, code: int, value: float) -> None:
    assert oracle.decode(code, fmt) == oracle.exact(value)


NANS = {
    "e4m3": {0x7F, 0xFF}, "e5m2": {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}, "e3m2": set(), "e2m1": set(), "e8m0": {0xFF},
    "e4m3fnuz": {0x80}, "e5m2fnuz": {0x80}, "ue4m3": {0x7F}, "ue5m3": {0xFF}, "uf10": set(range(0x3E1, 0x400)),
    "binary8p3se": {0x80}, "binary8p3ue": {0xFF}, "int8": set(), "nf4": set(),
}  # fmt: skip


@pytest.mark.parametrize("fmt", NANS)
def test_codes_of_nan(fmt: str) -> None:
    codes = range(1 << get_format(fmt).bits)
    assert {code for code in codes if oracle.decode(code, fmt).kind == "nan"} == NANS[fmt]


def test_a_nan_has_a_sign_where_the_format_has_both() -> None:
    assert oracle.decode(0xFF, "e4m3").negative and not oracle.decode(0x7F, "e4m3").negative
    assert not oracle.decode(0x80, "e4m3fnuz").negative


@pytest.mark.parametrize("code", [-1, 16])
def test_decode_refuses_a_code_out_of_range(code: int) -> None:
    with pytest.raises(ValueError, match="is not a code of e2m1"):
        oracle.decode(code, "e2m1")


@pytest.mark.parametrize("row", [*SMALL, *p3109_formats(range(3, 7))], ids=str)
def test_the_row_says_the_same(row: Format) -> None:
    """What formats.py derives and what the oracle derives are two derivations of one row."""
    for code in range(1 << row.bits):
        x = oracle.decode(code, row)
        assert (x.kind == "nan", x.kind == "inf") == (row.is_nan(code), row.is_inf(code))
        magnitude = code & row.magnitude_mask
        if row.kind == "integer" and x.negative:
            magnitude = (1 << row.bits) - code
        if x.kind == "finite":
            assert x.magnitude == row.exact(magnitude)


@pytest.mark.parametrize("row", [*SMALL, *p3109_formats(range(3, 7))], ids=str)
def test_every_value_encodes_to_its_code(row: Format) -> None:
    for code in range(1 << row.bits):
        x = oracle.decode(code, row)
        for rounding in MODES[:1] if row.kind == "table" else MODES:
            if x.kind != "nan":
                overflow = "nonsaturating" if x.kind == "inf" else None
                assert oracle.encode(x, row, rounding=rounding, overflow=overflow) == code


@pytest.mark.skipif(not P3109.is_dir(), reason="the published tables are not here")
def test_p3109_tables() -> None:
    names = set()
    for row in p3109_formats():
        lines = (P3109 / f"B{row.name[1:]}.csv").read_text().splitlines()[1:]
        assert len(lines) == 1 << row.bits
        for line in lines:
            code, text, mark = line.split(",")
            x = oracle.decode(int(code, 16), row)
            assert x == oracle.exact(float.fromhex(text)), (row.name, line)
            flushed = oracle.encode(x, row, subnormals="flush_output")
            assert (flushed == 0) == ("*" in mark or x == oracle.exact(0.0)), (row.name, line)
        names.add(row.name)
    assert len(names) == len(list(P3109.glob("Binary*.csv"))) == 120


# --- rounding ---------------------------------------------------------------------------------

# e2m1: 0 0.5 1 1.5 2 3 4 6 are the codes 0 .. 7; the columns are MODES
ROUNDED = [
    ("e2m1", 2.25, (4, 4, 4, 5, 4, 5)),
    ("e2m1", 2.5, (4, 5, 4, 5, 4, 5)),
    ("e2m1", -2.5, (0xC, 0xD, 0xC, 0xC, 0xD, 0xD)),
    ("e2m1", 3.0, (5, 5, 5, 5, 5, 5)),
    ("e2m1", 3.5, (6, 6, 5, 6, 5, 5)),
    ("e2m1", -3.5, (0xE, 0xE, 0xD, 0xD, 0xE, 0xD)),
    ("e2m1", 0.25, (0, 1, 0, 1, 0, 1)),
    ("e2m1", -0.1, (8, 8, 8, 8, 9, 9)),
    ("e2m1", 0.25 + 2.0**-40, (1, 1, 0, 1, 0, 1)),
    ("e2m1", 6.5, (7, 7, 7, 7, 7, 7)),
    ("e4m3fnuz", -(2.0**-20), (0, 0, 0, 0, 0x81, 0x81)),
    ("e4m3", -(2.0**-1074), (0x80, 0x80, 0x80, 0x80, 0x81, 0x81)),
    ("e8m0", 3.0, (0x80, 0x81, 0x80, 0x81, 0x80, 0x81)),
    ("e8m0", 1.5 * 2.0**-127, (0, 1, 0, 1, 0, 1)),
    ("e8m0", 2.0**-128, (0, 0, 0, 0, 0, 0)),
    ("e8m0", 0.0, (0, 0, 0, 0, 0, 0)),
    ("e8m0", -0.0, (0, 0, 0, 0, 0, 0)),
    ("int8", 2.5, (2, 3, 2, 3, 2, 3)),
    ("int8", -2.5, (0xFE, 0xFD, 0xFE, 0xFE, 0xFD, 0xFD)),
    ("int8", -0.25, (0, 0, 0, 0, 0xFF, 0xFF)),
    ("int8", 127.5, (0x7F,) * 6),
    ("int8", -127.5, (0x80, 0x80, 0x81, 0x81, 0x80, 0x81)),
    ("int8", -129, (0x80,) * 6),
    ("uint8", 254.5, (0xFE, 0xFF, 0xFE, 0xFF, 0xFE, 0xFF)),
    ("mxint8", 1 / 128, (0, 1, 0, 1, 0, 1)),
    ("binary8p3se", 2.0**-18, (0, 1, 0, 1, 0, 1)),
    ("fp32", Fraction(1, 3), (0x3EAAAAAB, 0x3EAAAAAB, 0x3EAAAAAA, 0x3EAAAAAB, 0x3EAAAAAA, 0x3EAAAAAB)),
    ("fp32", 2.0**-150, (0, 1, 0, 1, 0, 1)),
    ("fp32", -(2.0**-150), (0x80000000, 0x80000001, 0x80000000, 0x80000000, 0x80000001, 0x80000001)),
]


@pytest.mark.parametrize(("fmt", "x", "codes"), ROUNDED)
def test_rounding(fmt: str, x: float, codes: tuple[int, ...]) -> None:
    assert tuple(oracle.encode(x, fmt, rounding=mode) for mode in MODES) == codes


# e2m1 between 2 and 3, two random bits: the least R that rounds up; 4 is never
@pytest.mark.parametrize(
    ("d", "a", "b", "c"),
    [(0, 4, 4, 4), (1 / 16, 4, 4, 4), (1 / 8, 4, 3, 4), (3 / 16, 4, 3, 3), (1 / 4, 3, 3, 3), (1 / 2, 2, 2, 2),
     (5 / 8, 2, 1, 2), (7 / 8, 1, 0, 0), (15 / 16, 1, 0, 0)],
)  # fmt: skip
def test_stochastic_rounding(d: float, a: int, b: int, c: int) -> None:
    for name, least in (("a", a), ("b", b), ("c", c)):
        for random in range(4):
            policies = {"rounding": f"stochastic_{name}", "random": np.uint8(random), "n_bits": 2}
            assert oracle.encode(2 + d, "e2m1", **policies) == (5 if random >= least else 4)
            assert oracle.encode(-2 - d, "e2m1", **policies) == (0xD if random >= least else 0xC)


def test_a_random_operand_of_numpy_does_not_wrap() -> None:
    for name in "abc":
        assert oracle.encode(2.5, "e2m1", rounding=f"stochastic_{name}", random=np.uint8(200), n_bits=np.uint8(8)) == 5  # type: ignore[arg-type]


def test_stochastic_overflow_is_judged_on_the_result() -> None:
    policies = {"rounding": "stochastic_a", "overflow": "nonsaturating", "n_bits": 1}
    assert [oracle.encode(464, "e4m3", random=r, **policies) for r in (0, 1)] == [0x7E, 0x7F]
    assert [oracle.encode(480, "e4m3", random=r, **policies) for r in (0, 1)] == [0x7F, 0x7F]


@pytest.mark.parametrize(
    ("fmt", "x", "code"),
    [
        ("nf4", 0.0, 7), ("nf4", -0.0, 7), ("nf4", 5.0, 15), ("nf4", -INF, 0), ("nf4", 0.04, 8), ("nf4", -0.04, 7),
        ("nf4", Fraction(0.07958029955625534) / 2, 7),  # a tie: to the smaller magnitude
        ("nf4", (Fraction(1.0) + Fraction(0.7229568362236023)) / 2, 14),
        ("nf4", (Fraction(-1.0) + Fraction(-0.6961928009986877)) / 2, 1),
        ("fp4_bnb", 0.0, 0), ("fp4_bnb", -0.0, 8), ("fp4_bnb", -0.001, 8), ("fp4_bnb", 0.001, 0),
        ("fp4_bnb", INF, 3), ("fp4_bnb", -2.0, 0xB), ("fp4_bnb", 0.375, 4), ("fp4_bnb", 0.75, 2),
    ],
)  # fmt: skip
def test_tables(fmt: str, x: float, code: int) -> None:
    assert oracle.encode(x, fmt) == code
    assert oracle.encode(x, fmt, overflow="nonsaturating") == code


# --- overflow ---------------------------------------------------------------------------------

# (format, overflow, input): the codes under MODES, or one code for all
OVERFLOW = [
    ("e4m3", "saturate", 1e6, 0x7E), ("e4m3", "saturate", -INF, 0xFE),
    ("e4m3", "nonsaturating", 1e6, (0x7F, 0x7F, 0x7E, 0x7F, 0x7E, 0x7E)),
    ("e4m3", "nonsaturating", -1e6, (0xFF, 0xFF, 0xFE, 0xFE, 0xFF, 0xFE)),
    ("e4m3", "nonsaturating", 464, (0x7E, 0x7F, 0x7E, 0x7F, 0x7E, 0x7E)),
    ("e4m3", "nonsaturating", INF, 0x7F), ("e4m3", "nonsaturating", -INF, 0xFF),
    ("e4m3", "propagate", 1e6, 0x7E), ("e4m3", "propagate", INF, 0x7E),
    ("e4m3", "ocp_table3", -1e6, 0xFF), ("e4m3", "ocp_table3", INF, 0x7F),
    ("e4m3", "ocp_table3", 450, (0x7E, 0x7E, 0x7E, 0x7F, 0x7E, 0x7F)),
    ("e5m2", "saturate", 1e6, 0x7B), ("e5m2", "saturate", INF, 0x7B),
    ("e5m2", "nonsaturating", 1e6, (0x7C, 0x7C, 0x7B, 0x7C, 0x7B, 0x7B)),
    ("e5m2", "nonsaturating", -1e6, (0xFC, 0xFC, 0xFB, 0xFB, 0xFC, 0xFB)),
    ("e5m2", "nonsaturating", -INF, 0xFC), ("e5m2", "ocp_table3", 1e6, 0x7C),
    ("e5m2", "propagate", 1e6, 0x7B), ("e5m2", "propagate", -INF, 0xFC),
    ("e2m1", "nonsaturating", 1e6, 0x7), ("e2m1", "nonsaturating", -INF, 0xF), ("e2m1", "propagate", INF, 0x7),
    ("e4m3fnuz", "saturate", -INF, 0xFF),
    ("e4m3fnuz", "nonsaturating", -1e6, (0x80, 0x80, 0xFF, 0xFF, 0x80, 0xFF)),
    ("e4m3fnuz", "nonsaturating", 248, (0x80, 0x80, 0x7F, 0x80, 0x7F, 0x7F)),
    ("e4m3fnuz", "ocp_table3", 1e6, 0x80),
    ("e8m0", "saturate", 2.0**200, 0xFE), ("e8m0", "saturate", INF, 0xFE),
    ("e8m0", "nonsaturating", INF, 0xFF),
    ("e8m0", "nonsaturating", 2.0**200, (0xFF, 0xFF, 0xFE, 0xFF, 0xFE, 0xFE)),
    ("e8m0", "nonsaturating", 1.5 * 2.0**127, (0xFE, 0xFF, 0xFE, 0xFF, 0xFE, 0xFE)),
    ("int8", "saturate", 2.0**1000, 0x7F), ("int8", "nonsaturating", -INF, 0x80), ("int8", "propagate", 128, 0x7F),
    ("uint8", "saturate", 300, 0xFF), ("uint8", "nonsaturating", INF, 0xFF), ("int4", "saturate", -9, 0x8),
    ("uf11", "nonsaturating", 1e6, (0x7C0, 0x7C0, 0x7BF, 0x7C0, 0x7BF, 0x7BF)),
    ("fp32", "nonsaturating", 1e300, (0x7F800000, 0x7F800000, 0x7F7FFFFF, 0x7F800000, 0x7F7FFFFF, 0x7F7FFFFF)),
    ("fp32", "ocp_table3", -1e300, 0xFF800000),
    ("binary8p3se", "p3109_satnone", 1e9, (0x7F, 0x7F, 0x7E, 0x7F, 0x7E, 0x7F)),
    ("binary8p3se", "p3109_satnone", -1e9, (0xFF, 0xFF, 0xFE, 0xFE, 0xFF, 0xFF)),
    ("binary8p3se", "p3109_satnone", 49153, (0x7E, 0x7E, 0x7E, 0x7F, 0x7E, 0x7F)),
    ("binary8p3se", "p3109_satnone", INF, 0x7F), ("binary8p3se", "saturate", INF, 0x7E),
    ("binary8p3sf", "p3109_satnone", 1e9, 0x7F), ("binary8p3sf", "p3109_satnone", -INF, 0xFF),
    ("binary8p3ue", "p3109_satnone", 1e30, (0xFE, 0xFE, 0xFD, 0xFE, 0xFD, 0xFD)),
    ("binary8p3ue", "p3109_satnone", INF, 0xFE), ("binary8p3ue", "p3109_satnone", -INF, 0xFF),
    ("binary8p3ue", "p3109_satnone", -1e30, 0xFF),
    ("binary8p3uf", "p3109_satnone", 1e30, 0xFE), ("binary8p3uf", "p3109_satnone", INF, 0xFE),
    ("binary8p3uf", "p3109_satnone", -INF, 0xFF),
]  # fmt: skip


@pytest.mark.parametrize(("fmt", "overflow", "x", "codes"), OVERFLOW)
def test_overflow(fmt: str, overflow: str, x: float, codes: int | tuple[int, ...]) -> None:
    found = tuple(oracle.encode(x, fmt, overflow=overflow, rounding=mode) for mode in MODES)
    assert found == (codes if isinstance(codes, tuple) else (codes,) * len(MODES))


@pytest.mark.parametrize("row", FORMATS.values(), ids=str)
def test_overflow_none_is_the_rows_own(row: Format) -> None:
    huge = [oracle.encode(x, row) for x in (2.0**300, INF)]
    assert huge == [oracle.encode(x, row, overflow=row.overflow) for x in (2.0**300, INF)]
    assert (oracle.decode(huge[0], row).kind == "finite") == (row.overflow == "saturate")


# --- NaN, negatives, subnormals ---------------------------------------------------------------

CANONICAL = {
    "e4m3": 0x7F, "e5m2": 0x7F, "e4m3ieee": 0x7C, "e3m4": 0x78, "fp16": 0x7E00, "bf16": 0x7FC0, "tf32": 0x3FE00,
    "fp32": 0x7FC00000, "e4m3fnuz": 0x80, "e5m2fnuz": 0x80, "e4m3b11fnuz": 0x80, "e8m0": 0xFF, "ue4m3": 0x7F,
    "ue5m3": 0xFF, "uf11": 0x7E0, "uf10": 0x3F0, "binary8p3se": 0x80, "binary8p3uf": 0xFF,
}  # fmt: skip


@pytest.mark.parametrize("fmt", CANONICAL)
def test_canonical_nan(fmt: str) -> None:
    assert oracle.encode(NAN, fmt) == oracle.encode(-NAN, fmt, nan="canonical") == CANONICAL[fmt]


@pytest.mark.parametrize("row", FORMATS.values(), ids=str)
def test_nan_is_an_error_where_there_is_none(row: Format) -> None:
    if row.name in CANONICAL:
        assert oracle.encode(NAN, row) == CANONICAL[row.name]
    else:
        with pytest.raises(ValueError, match="x is NaN"):
            oracle.encode(NAN, row)


@pytest.mark.parametrize(
    ("fmt", "nan", "plus", "minus"),
    [
        ("e4m3", "preserve_sign", 0x7F, 0xFF), ("e5m2", "preserve_sign", 0x7F, 0xFF),
        ("fp16", "preserve_sign", 0x7E00, 0xFE00), ("e4m3fnuz", "preserve_sign", 0x80, 0x80),
        ("e8m0", "preserve_sign", 0xFF, 0xFF), ("e5m2", 0x7D, 0x7D, 0x7D), ("e2m1", 0x0F, 0x0F, 0x0F),
        ("e4m3", "max", 0x7E, 0x7E), ("e2m1", "max", 0x7, 0x7), ("int8", "max", 0x7F, 0x7F), ("nf4", "max", 15, 15),
        ("fp4_bnb", "max", 3, 3), ("e8m0", "max", 0xFE, 0xFE), ("binary8p3se", "max", 0x7E, 0x7E),
        ("e4m3", "zero", 0, 0), ("nf4", "zero", 7, 7), ("e8m0", "zero", 0, 0), ("uint4", "zero", 0, 0),
    ],
)  # fmt: skip
def test_nan_policies(fmt: str, nan: str | int, plus: int, minus: int) -> None:
    assert (oracle.encode(NAN, fmt, nan=nan), oracle.encode(-NAN, fmt, nan=nan)) == (plus, minus)


def test_nan_policy_leaves_a_nan_made_by_overflow_alone() -> None:
    for nan in ("zero", "max", "error", 0x01):
        assert oracle.encode(-1e6, "e4m3", overflow="nonsaturating", nan=nan) == 0xFF


# unsigned rows: the codes of -tiny, -1, -Inf, -0; None is an error
NEGATIVE = [
    ("e8m0", None, (0xFF, 0xFF, 0xFF, 0)), ("e8m0", "zero", (0, 0, 0, 0)), ("e8m0", "abs", (0, 0x7F, 0xFE, 0)),
    ("e8m0", "error", (None, None, None, 0)),
    ("ue4m3", None, (0x7F, 0x7F, 0x7F, 0)), ("ue4m3", "abs", (0, 0x38, 0x7E, 0)),
    ("ue5m3", None, (0xFF, 0xFF, 0xFF, 0)),
    ("uf11", None, (0, 0, 0, 0)), ("uf11", "nan", (0x7E0, 0x7E0, 0x7E0, 0)), ("uf11", "abs", (0, 0x3C0, 0x7C0, 0)),
    ("uint8", None, (0, 0, 0, 0)), ("uint8", "abs", (0, 1, 0xFF, 0)), ("uint8", "error", (None, None, None, 0)),
    ("binary8p3ue", None, (0, 0xFF, 0xFF, 0)), ("binary8p3ue", "abs", (0, 0x80, 0xFE, 0)),
    ("binary8p3ue", "zero", (0, 0, 0, 0)), ("binary8p3ue", "error", (None, None, None, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("fmt", "negative", "codes"), NEGATIVE)
def test_negative(fmt: str, negative: str | None, codes: tuple[int | None, ...]) -> None:
    for x, code in zip((-(2.0**-300), -1.0, -INF, -0.0), codes, strict=True):
        if code is None:
            with pytest.raises(ValueError, match="x is negative"):
                oracle.encode(x, fmt, negative=negative)
        else:
            assert oracle.encode(x, fmt, negative=negative) == code, x


def test_negative_looks_before_rounding_but_satnone_after() -> None:
    tiny = -(2.0**-300)
    assert [oracle.encode(tiny, "ue4m3", rounding=mode) for mode in MODES] == [0x7F] * 6
    assert [oracle.encode(tiny, "ue4m3", rounding=mode, negative="abs") for mode in MODES] == [0, 0, 0, 1, 0, 1]
    assert [oracle.encode(tiny, "binary8p3ue", rounding=mode) for mode in MODES] == [0, 0, 0, 0, 0xFF, 0xFF]
    assert oracle.encode(tiny, "binary8p3ue", overflow="saturate") == 0xFF


def test_subnormals() -> None:
    for x, fmt, code in [(2.0**-9, "e4m3", 0), (-(2.0**-9), "e4m3", 0x80), (-(2.0**-10), "e4m3fnuz", 0),
                         (2.0**-6, "e4m3", 0x08), (2.0**-6 - 2.0**-20, "e4m3", 0x08), (7 * 2.0**-9, "e4m3", 0),
                         (2.0**-127, "e8m0", 0), (2.0**-126, "e8m0", 1), (1.0, "int8", 1)]:  # fmt: skip
        assert oracle.encode(x, fmt, subnormals="flush_output") == code
    flush = {"subnormals": "flush_input", "source": "fp32"}
    assert oracle.encode(-(2.0**-126) + 2.0**-149, "bf16", **flush) == 0x8000
    assert oracle.encode(2.0**-126, "bf16", **flush) == 0x0080
    assert oracle.encode(2.0**-130, "e8m0", **flush) == 0x00
    assert oracle.encode(-(2.0**-130), "e8m0", **flush) == 0x00  # flushed to -0, which is not negative
    assert oracle.encode(2.0**-9, "e4m3", **flush) == 0x01  # subnormal in the target, not in the source
    assert oracle.encode(2.0**-20, "bf16", subnormals="flush_input", source="fp16") == 0
    assert oracle.encode(-INF, "e5m2", overflow="nonsaturating", **flush) == 0xFC


@pytest.mark.parametrize(
    ("fmt", "policies", "match"),
    [
        ("e4m3", {"rounding": "nearest"}, "rounding must be one of"),
        ("e4m3", {"overflow": "wrap"}, "overflow must be one of"),
        ("e4m3", {"nan": "quiet"}, "nan must be one of"),
        ("e4m3", {"negative": "keep"}, "negative must be one of"),
        ("e4m3", {"subnormals": "flush"}, "subnormals must be one of"),
        ("e4m3", {"nan": 0x100}, "nan: 256 is not a code of e4m3"),
        ("e4m3", {"nan": -1}, "nan: -1 is not a code"),
        ("e2m1", {"nan": "canonical"}, "e2m1 has no NaN"),
        ("e2m1", {"nan": "preserve_sign"}, "e2m1 has no NaN"),
        ("uint8", {"negative": "nan"}, "uint8 has no NaN"),
        ("e2m1", {"overflow": "ocp_table3"}, "neither Inf nor NaN"),
        ("int8", {"overflow": "ocp_table3"}, "neither Inf nor NaN"),
        ("e4m3fnuz", {"overflow": "p3109_satnone"}, "no P3109 format"),
        ("nf4", {"rounding": "toward_zero"}, "takes nearest_even"),
        ("nf4", {"overflow": "ocp_table3"}, "neither Inf nor NaN"),
        ("e4m3", {"subnormals": "flush_input"}, "needs a source"),
        ("e4m3", {"rounding": "stochastic_a"}, "n_bits must be at least 1"),
        ("e4m3", {"rounding": "stochastic_a", "n_bits": 2}, "random must be an integer of 2 bits"),
        ("e4m3", {"rounding": "stochastic_c", "n_bits": 2, "random": 4}, "random must be an integer of 2 bits"),
        ("e4m3", {"source": "e9m9x", "subnormals": "flush_input"}, "unknown format"),
    ],
)
def test_refused_policies(fmt: str, policies: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        oracle.encode(1.0, fmt, **policies)  # type: ignore[arg-type]


def test_a_row_of_ones_own() -> None:
    """An unsigned row without NaN cannot answer "nan", so its default is an error."""
    row = Format("u3", 3, exponent_bits=2, mantissa_bits=1, bias=1, signed=False)
    assert oracle.encode(3.0, row) == 5
    with pytest.raises(ValueError, match="x is negative"):
        oracle.encode(-3.0, row)


# --- other people's bugs ----------------------------------------------------------------------

NONSAT = {"overflow": "nonsaturating"}
SAT = {"overflow": "saturate"}
REPORTS = [
    # float64 and integers must not go through float32
    ("e4m3", -431.99999999999994, 0xFD, {}), ("bf16", 1 + 2.0**-8 + 2.0**-40, 0x3F81, {}),
    ("bf16", 16973823, 0x4B81, {}), ("e4m3", 1.0625 + 2.0**-40, 0x39, {}), ("e2m1", 0.25 + 2.0**-40, 0x1, {}),
    ("fp16", 1 + 2.0**-11 + 2.0**-40, 0x3C01, {}), ("fp16", 0.499999990234375, 0x3800, {}),
    # nor float32 through float16 or bfloat16
    ("e4m3", 1.0625 + 2.0**-20, 0x39, {}), ("e5m2", 1.125 + 2.0**-20, 0x3D, {}), ("e4m3", 1.0625 + 2.0**-10, 0x39, {}),
    # saturating or not
    *(("e4m3", x, code, NONSAT) for x, code in [
        (464.0, 0x7E), (f32(0x43E80001), 0x7F), (465.0, 0x7F), (1e6, 0x7F), (INF, 0x7F), (-1000.0, 0xFF)]),
    *(("e4m3", x, code, SAT) for x, code in [
        (464.0, 0x7E), (f32(0x43E80001), 0x7E), (465.0, 0x7E), (1e6, 0x7E), (INF, 0x7E), (-1000.0, 0xFE)]),
    *(("e5m2", x, code, NONSAT) for x, code in [
        (INF, 0x7C), (-INF, 0xFC), (65504.0, 0x7C), (61440.0, 0x7C), (f32(0x476FFFFF), 0x7B)]),
    *(("e5m2", x, code, SAT) for x, code in [
        (INF, 0x7B), (-INF, 0xFB), (65504.0, 0x7B), (61440.0, 0x7B), (f32(0x476FFFFF), 0x7B)]),
    # the carry, the sticky bits, the tie
    ("e4m3", 126.24, 0x70, {}), ("e4m3", 1.8131605, 0x3F, {}), ("e4m3", 4.25, 0x48, {}),
    # deep underflow
    *(("e5m2", x, 0x00, {}) for x in (4.1e-25, 1e-24, 3.3e-24)),
    # subnormals
    ("e4m3", 0.000538887, 0x00, {}), ("e4m3", 0.00103349, 0x01, {}), ("e4m3", 0.0015, 0x01, {}),
    ("e4m3", 2.0**-10, 0x00, {}), ("fp16", 2.0**-25 * (1 + 2.0**-20), 0x0001, {}),
    # bfloat16 is rounded, and its NaN stays one
    ("bf16", 0.2691408770272292, 0x3E8A, {}), ("bf16", f32(0x7F800001), 0x7FC0, {}),
    # four decisions at once
    ("e5m2", 1.125, 0x3C, {}), ("e5m2", 1.625, 0x3E, {}), ("e5m2", 2.0**-16, 0x01, {}), ("e5m2", 1e-5, 0x01, {}),
    ("e5m2", -0.0, 0x80, {}), ("e4m3", np.float16(-0.0), 0x80, {}),
    # NaN codes, FNUZ
    ("e5m2", NAN, 0x7F, {}), ("e3m4", NAN, 0x78, {}), ("bf16", NAN, 0x7FC0, {}), ("e4m3", NAN, 0x7F, {}),
    ("e4m3fnuz", INF, 0x7F, SAT), ("e4m3fnuz", INF, 0x80, NONSAT), ("e4m3fnuz", 248.0, 0x7F, SAT),
    # truncation clamps, also where overflow does not saturate
    ("e4m3", f32(0x5BF80000), 0x7E, NONSAT | {"rounding": "toward_zero"}),
    # e8m0: zero, underflow, ties, negatives, the top
    *(("e8m0", x, 0x00, {"rounding": mode}) for x in (0.0, 2.0**-128, 2.0**-149, 1e-300) for mode in MODES),
    ("e8m0", 1.5, 0x80, {}), ("e8m0", 3.0, 0x80, {}), ("e8m0", 3.0, 0x81, {"rounding": "nearest_away"}),
    ("e8m0", -1.0, 0xFF, {}), ("e8m0", -1.0, 0x7F, {"negative": "abs"}), ("e8m0", -1.0, 0x00, {"negative": "zero"}),
    ("e8m0", 1.5 * 2.0**127, 0xFE, NONSAT), ("e8m0", INF, 0xFF, NONSAT), ("e8m0", INF, 0xFE, SAT),
]  # fmt: skip


@pytest.mark.parametrize(("fmt", "x", "code", "policies"), REPORTS)
def test_reports(fmt: str, x: float, code: int, policies: dict[str, str]) -> None:
    assert oracle.encode(x, fmt, **policies) == code  # type: ignore[arg-type]


def test_powers_of_two_below_the_least_normal() -> None:
    """2**k into e4m3: subnormals 2**-9 .. 2**-7 are the codes 1, 2, 4; all below 2**-9 is zero."""
    codes = {k: oracle.encode(Fraction(2) ** k, "e4m3") for k in range(-149, -6)}
    assert {k: code for k, code in codes.items() if code} == {-9: 1, -8: 2, -7: 4}


# --- runs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "policies", "count"),
    [
        ("e4m3", {"overflow": "saturate"}, 256),
        ("e4m3", {"overflow": "nonsaturating"}, 257),
        ("e4m3", {"overflow": "nonsaturating", "nan": "preserve_sign"}, 256),
        ("e5m2", {"overflow": "nonsaturating"}, 252),
        ("e3m2", {"nan": "max"}, 65),
        ("e2m1", {"nan": "max"}, 17),
        ("e8m0", {"negative": "abs"}, 512),
        pytest.param("bf16", {}, 65284, marks=pytest.mark.slow),
    ],
)
def test_number_of_runs(fmt: str, policies: dict[str, str], count: int) -> None:
    runs = oracle.runs(fmt, **policies)
    assert len(runs) == count
    assert runs[0][0] == 0 and runs[-1][1] == 0xFFFFFFFF
    for (_, end, code), (start, _, other) in itertools.pairwise(runs):
        assert start == end + 1 and code != other


def test_runs_of_e4m3_at_the_top() -> None:
    runs = oracle.runs("e4m3", overflow="nonsaturating")
    # 432 (tie to 448), 464 (tie to 448), and every Inf and NaN
    assert (0x43D80000, 0x43E80000, 0x7E) in runs
    assert (0x43E80001, 0x7FFFFFFF, 0x7F) in runs
    assert runs[-2:] == [(0xC3E80001, 0xFF800000, 0xFF), (0xFF800001, 0xFFFFFFFF, 0x7F)]
    assert oracle.runs("e4m3")[127:129] == [(0x7F800001, 0x7FFFFFFF, 0x7F), (0x80000000, 0x3A800000 | 1 << 31, 0x80)]


def test_runs_of_e8m0_at_the_bottom() -> None:
    # 1.5 * 2**-127 is a tie and goes to the even code 00; 1.5 * 2**-126 is one and goes to 02
    expected = [(0, 0x00600000, 0), (0x00600001, 0x00BFFFFF, 1), (0x00C00000, 0x01400000, 2)]
    assert oracle.runs("e8m0")[:3] == expected


SOURCES = ("e4m3", "e5m2", "e4m3fnuz", "e3m2", "e8m0", "ue4m3", "uf10", "binary8p3se", "binary6p2ue")
CHOICES: list[dict[str, object]] = [
    {"nan": 1, "negative": "abs"},
    {"nan": 1, "rounding": "toward_negative", "overflow": "nonsaturating", "negative": "zero"},
    {"nan": 1, "rounding": "to_odd", "overflow": "propagate", "subnormals": "flush_input"},
    {"nan": 1, "rounding": "stochastic_b", "random": 5, "n_bits": 3, "subnormals": "flush_output"},
]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("policies", CHOICES)
def test_runs_are_every_pattern_encoded(source: str, policies: dict[str, object]) -> None:
    src = get_format(source)
    for fmt in ("e4m3", "e5m2fnuz", "e2m1", "e8m0", "int8", "uf11", "binary8p3se", "binary6p2ue"):
        expected = [
            oracle.encode(oracle.decode(p, src), fmt, source=src, **policies)  # type: ignore[arg-type]
            for p in range(1 << src.bits)
        ]
        runs = oracle.runs(fmt, source, **policies)
        assert [code for lo, hi, code in runs for _ in range(lo, hi + 1)] == expected, fmt
        assert all(a[2] != b[2] for a, b in itertools.pairwise(runs))


def test_runs_with_a_nan_code_that_a_value_has_too() -> None:
    """The NaN of e4m3fnuz stands before its negatives, one of which has the same code."""
    runs = oracle.runs("e4m3", "e4m3fnuz", nan=0x88)
    assert [code for lo, hi, code in runs for _ in range(lo, hi + 1)] == [
        oracle.encode(oracle.decode(p, "e4m3fnuz"), "e4m3", nan=0x88) for p in range(256)
    ]


def test_all_halves_into_e4m3_by_runs() -> None:
    for lo, hi, code in oracle.runs("e4m3", "fp16"):
        for bits in {lo, (lo + hi) // 2, hi}:
            x = struct.unpack("<e", struct.pack("<H", bits))[0]
            assert oracle.encode(x, "e4m3") == code


def test_runs_refuse_what_is_no_float_of_32_bits() -> None:
    for source in ("int8", "nf4", Format("fp64", 64, exponent_bits=11, mantissa_bits=52, bias=1023)):
        with pytest.raises(ValueError, match="source must be a float format"):
            oracle.runs("e4m3", source)


# --- arithmetic -------------------------------------------------------------------------------

# e5m2: 1 is 3C, 2 is 40, 3 is 42, max 7B, Inf 7C, NaN 7F; e4m3: 1 is 38, 2 is 40, max 7E, NaN 7F
DOWN = {"rounding": "toward_negative"}
ARITHMETIC = [
    ("add", "e5m2", (0x3C, 0x40), 0x42, {}), ("add", "e5m2", (0x3C, 0xBC), 0x00, {}),
    ("add", "e5m2", (0x3C, 0xBC), 0x80, DOWN), ("add", "e5m2", (0x00, 0x00), 0x00, DOWN),
    ("add", "e5m2", (0x00, 0x80), 0x80, DOWN), ("add", "e5m2", (0x00, 0x80), 0x00, {}),
    ("add", "e5m2", (0x80, 0x80), 0x80, {}), ("add", "e5m2", (0x7C, 0xFC), 0x7F, NONSAT),
    ("add", "e5m2", (0xFC, 0x3C), 0xFC, NONSAT), ("add", "e5m2", (0x3C, 0xFC), 0xFC, NONSAT),
    ("add", "e5m2", (0x7C, 0x7C), 0x7C, NONSAT), ("add", "e5m2", (0x7B, 0x7B), 0x7B, {}),
    ("add", "e5m2", (0x7B, 0x7B), 0x7C, NONSAT), ("add", "e5m2", (0xFF, 0x3C), 0x7F, {"nan": "preserve_sign"}),
    ("add", "e4m3", (0x38, 0x18), 0x38, {}), ("add", "e4m3", (0x39, 0x18), 0x3A, {}),  # two ties: 1/16 on 1, 9/8
    ("add", "e4m3fnuz", (0x40, 0xC0), 0x00, DOWN), ("add", "int8", (0x7F, 0x01), 0x7F, {}),
    ("add", "int8", (0x80, 0xFF), 0x80, {}), ("add", "e8m0", (0x7F, 0x7F), 0x80, {}), ("add", "nf4", (0, 15), 7, {}),
    ("add", "e5m2", (0x01, 0x01), 0x00, {"subnormals": "flush_output"}),
    ("add", "e5m2", (0x03, 0x04), 0x04, {"subnormals": "flush_input"}),
    ("subtract", "e5m2", (0x05, 0x04), 0x01, {"subnormals": "flush_input"}),  # the result is no input
    ("subtract", "e5m2", (0x3C, 0x40), 0xBC, {}), ("subtract", "e5m2", (0x00, 0x00), 0x00, {}),
    ("subtract", "e5m2", (0x00, 0x00), 0x80, DOWN), ("subtract", "e5m2", (0x80, 0x00), 0x80, {}),
    ("subtract", "e5m2", (0x7C, 0x7C), 0x7F, NONSAT), ("subtract", "e5m2", (0x7C, 0xFC), 0x7C, NONSAT),
    ("subtract", "uint8", (1, 2), 0, {}), ("subtract", "e8m0", (0x7F, 0x80), 0xFF, {}),
    ("subtract", "e8m0", (0x7F, 0x7F), 0x00, {}), ("subtract", "binary8p3se", (0x40, 0x40), 0x00, DOWN),
    ("multiply", "e5m2", (0x40, 0xC2), 0xC6, {}), ("multiply", "e5m2", (0x00, 0xBC), 0x80, {}),
    ("multiply", "e5m2", (0x80, 0xBC), 0x00, {}), ("multiply", "e5m2", (0x00, 0x7C), 0x7F, NONSAT),
    ("multiply", "e5m2", (0xFC, 0x40), 0xFC, NONSAT), ("multiply", "e5m2", (0xFC, 0xFC), 0x7C, NONSAT),
    ("multiply", "e5m2", (0xFC, 0x40), 0xFB, SAT), ("multiply", "e5m2", (0x01, 0x81), 0x80, {}),
    ("multiply", "e5m2", (0x01, 0x81), 0x81, DOWN), ("multiply", "e4m3fnuz", (0x00, 0xC0), 0x00, {}),
    ("multiply", "e4m3", (0x7F, 0x00), 0x7F, {}), ("multiply", "e4m3", (0x39, 0x39), 0x3A, {}),  # 81/64
    ("divide", "e5m2", (0x3C, 0x42), 0x35, {}), ("divide", "e5m2", (0x3C, 0x00), 0x7C, NONSAT),
    ("divide", "e5m2", (0xBC, 0x00), 0xFC, NONSAT), ("divide", "e5m2", (0x3C, 0x80), 0xFC, NONSAT),
    ("divide", "e5m2", (0x3C, 0x80), 0xFB, SAT), ("divide", "e5m2", (0x00, 0x80), 0x7F, {}),
    ("divide", "e5m2", (0x7C, 0xFC), 0x7F, {}), ("divide", "e5m2", (0x3C, 0xFC), 0x80, {}),
    ("divide", "e5m2", (0x7C, 0x80), 0xFC, NONSAT), ("divide", "e5m2", (0x00, 0xBC), 0x80, {}),
    ("divide", "e4m3", (0xB8, 0x00), 0xFF, NONSAT), ("divide", "e4m3", (0xB8, 0x00), 0xFE, SAT),
    ("divide", "e4m3fnuz", (0xC0, 0x00), 0x80, NONSAT), ("divide", "e4m3fnuz", (0xC0, 0x00), 0xFF, SAT),
    ("divide", "binary8p3se", (0xC0, 0x00), 0xFF, {}), ("divide", "binary8p3ue", (0x80, 0x00), 0xFE, {}),
    ("divide", "e4m3", (0x7F, 0x38), 0x7F, {}), ("divide", "e4m3", (0x38, 0x7F), 0x7F, {}),
    ("divide", "int8", (1, 0), 0x7F, {}), ("divide", "e8m0", (0x7F, 0x80), 0x7E, {}),
    ("fma", "e4m3", (0x39, 0x39, 0xBA), 0x08, {}),  # 81/64 - 80/64: one rounding, 2**-6
    ("fma", "e4m3", (0x39, 0x39, 0x01), 0x3A, {}), ("fma", "e5m2", (0x00, 0x7C, 0x3C), 0x7F, NONSAT),
    ("fma", "e5m2", (0x00, 0x7C, 0x7F), 0x7F, NONSAT), ("fma", "e5m2", (0x7C, 0x3C, 0xFC), 0x7F, NONSAT),
    ("fma", "e5m2", (0x7B, 0x40, 0xFC), 0xFC, NONSAT), ("fma", "e5m2", (0x7B, 0x40, 0xFB), 0x7B, NONSAT),
    ("fma", "e5m2", (0x3C, 0x3C, 0xBC), 0x00, {}), ("fma", "e5m2", (0x3C, 0x3C, 0xBC), 0x80, DOWN),
    ("fma", "e5m2", (0x00, 0xBC, 0x80), 0x80, {}), ("fma", "e5m2", (0x00, 0xBC, 0x00), 0x00, {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fmt", "operands", "code", "policies"), ARITHMETIC)
def test_arithmetic(name: str, fmt: str, operands: tuple[int, ...], code: int, policies: dict[str, str]) -> None:
    assert getattr(oracle, name)(*operands, fmt, **policies) == code


def test_arithmetic_on_nan_follows_the_nan_policy() -> None:
    with pytest.raises(ValueError, match="x is NaN"):
        oracle.divide(0, 0, "e2m1")
    assert oracle.divide(0, 0, "e2m1", nan="max") == 0x7
    assert oracle.multiply(0x7F, 0x38, "e4m3", nan="zero") == 0x00


@pytest.mark.parametrize(
    ("fmt", "a", "b", "verdict"),
    [
        ("e5m2", 0x3C, 0x40, 0), ("e5m2", 0xBC, 0xC0, 2), ("e5m2", 0x00, 0x80, 1), ("e5m2", 0x7C, 0x7B, 2),
        ("e5m2", 0xFC, 0xFB, 0), ("e5m2", 0xFC, 0x7C, 0), ("e5m2", 0x7C, 0x7C, 1), ("e5m2", 0x7D, 0x7D, 3),
        ("e5m2", 0xFC, 0x00, 0), ("e4m3fnuz", 0x80, 0x00, 3), ("int8", 0x80, 0x7F, 0), ("nf4", 7, 8, 0),
        ("fp4_bnb", 0x0, 0x8, 1), ("fp4_bnb", 0x3, 0x2, 2),
    ],
)  # fmt: skip
def test_compare(fmt: str, a: int, b: int, verdict: int) -> None:
    assert oracle.compare(a, b, fmt) == verdict
    assert oracle.compare(b, a, fmt) == {0: 2, 1: 1, 2: 0, 3: 3}[verdict]
