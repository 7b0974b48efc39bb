"""R11G11B10F and RGB9E5: words by hand, and models in exact fractions."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from feather_ref import oracle
from feather_ref.graphics import pack_r11g11b10f, pack_rgb9e5, unpack_r11g11b10f, unpack_rgb9e5

INF, NAN = math.inf, math.nan


def u32(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


# --- R11G11B10F -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rgb", "word"),
    [
        ([1.0, 0.5, 2.0], 0x801C03C0),  # 3C0 | 380 << 11 | 200 << 22
        ([0.0, 0.0, 0.0], 0x00000000),
        ([65024.0, 0, 0], 0x000007BF),
        ([0, 65024.0, 0], 0x003DF800),
        ([0, 0, 64512.0], 0xF7C00000),
        ([INF, 0, 0], 0x000007C0),
        ([0, INF, 0], 0x003E0000),
        ([0, 0, INF], 0xF8000000),
        ([NAN, NAN, NAN], 0xFC3F07E0),  # 7E0 | 7E0 << 11 | 3F0 << 22
        ([2.0**-20, 2.0**-20, 2.0**-19], 0x00400801),  # the least subnormals
        ([-1.0, -0.0, -INF], 0x00000000),
        ([1e9, 1e9, 1e9], 0xF83E07C0),
    ],
)
def test_r11g11b10f_by_hand(rgb: list[float], word: int) -> None:
    for x in (rgb, np.array(rgb, np.float32), np.array([rgb], ">f8")):
        packed = pack_r11g11b10f(x)
        assert packed.dtype == np.uint32
        assert packed.shape == np.shape(x)[:-1]
        assert f"{int(packed.ravel()[0]):08X}" == f"{word:08X}"
    back = unpack_r11g11b10f(u32(word))
    assert back.dtype == np.float32
    assert back.shape == (1, 3)
    finite = [abs(v) < 1e6 and v >= 0 for v in rgb]
    assert back[0][finite].tolist() == np.array(rgb)[finite].tolist()


def test_every_lane_of_r11g11b10f() -> None:
    codes = np.arange(2048)
    words = (codes | codes[::-1] << 11 | (codes % 1024) << 22).astype(np.uint32)
    lanes = [(codes.tolist(), "uf11"), (codes[::-1].tolist(), "uf11"), ((codes % 1024).tolist(), "uf10")]
    back = unpack_r11g11b10f(words.astype(">u4"))
    for channel, (lane, fmt) in enumerate(lanes):
        want = [oracle.encode(oracle.decode(code, fmt), "fp32") for code in lane]
        assert back[:, channel].view(np.uint32).tolist() == want
    again = unpack_r11g11b10f(pack_r11g11b10f(back))
    assert again.tobytes() == back.tobytes()


def test_policies_reach_every_lane() -> None:
    assert int(pack_r11g11b10f([1e9, INF, 1e9], overflow="saturate")) == 0x7BF | 0x7BF << 11 | 0x3DF << 22
    assert int(pack_r11g11b10f([-1.0, -0.5, -2.0], negative="abs")) == 0x801C03C0
    x = [1 + 2**-7, 1 + 2**-7, 1 + 2**-6]  # half way between two codes
    assert int(pack_r11g11b10f(x)) == 0x3C0 | 0x3C0 << 11 | 0x1E0 << 22
    assert int(pack_r11g11b10f(x, rounding="toward_positive")) == 0x3C1 | 0x3C1 << 11 | 0x1E1 << 22
    random = {"rounding": "stochastic_a", "random_bits": [0, 1, 1], "n_bits": 1}
    assert int(pack_r11g11b10f(x, **random)) == 0x3C0 | 0x3C1 << 11 | 0x1E1 << 22


# --- RGB9E5 -----------------------------------------------------------------------------------


def model(rgb: list[float]) -> int:
    """The least exponent in which the greatest colour, rounded half up, needs at most 9 bits."""

    def mantissa(colour: Fraction, exponent: int) -> int:
        return math.floor(colour / Fraction(2) ** (exponent - 24) + Fraction(1, 2))

    limit = Fraction(65408)
    colours = [Fraction(0) if math.isnan(v) or v <= 0 else limit if v == INF else min(Fraction(v), limit) for v in rgb]
    exponent = next(e for e in range(32) if mantissa(max(colours), e) < 512)
    red, green, blue = (mantissa(colour, exponent) for colour in colours)
    return red | green << 9 | blue << 18 | exponent << 27


@pytest.mark.parametrize(
    ("rgb", "word"),
    [
        ([1.0, 0.5, 2.0], 0x8C008080),  # exponent 17: units of 2**-7: 128, 64, 256
        ([0.0, 0.0, 0.0], 0x00000000),
        ([1.0, 1.0, 1.0], 0x84020100),  # exponent 16: 256 each
        ([65408.0, 0.0, 0.0], 0xF80001FF),
        ([65408.0, 65408.0, 65408.0], 0xFFFFFFFF),
        ([INF, 1e30, 65409.0], 0xFFFFFFFF),
        ([NAN, -1.0, -INF], 0x00000000),
        ([NAN, 1.0, -0.0], 0x80020000),
        ([2.0**-24, 0, 0], 0x00000001),
        ([2.0**-25, 0, 0], 0x00000001),  # half goes up
        ([float(np.nextafter(2.0**-25, 0)), 0, 0], 0x00000000),
        ([511 * 2.0**-24, 0, 0], 0x000001FF),
        ([511.5 * 2.0**-24, 0, 0], 0x08000100),  # the carry takes the next exponent
        ([float(np.nextafter(511.5 * 2.0**-24, 0)), 0, 0], 0x000001FF),
        ([511.5, 1.0, 0.0], 0xC8000300),  # 256 units of 2, and 1.0 is half a unit
        ([511.25, 1.0, 0.0], 0xC00003FF),
        ([0.99999994, 0, 0], 0x80000100),
    ],
)
def test_rgb9e5_by_hand(rgb: list[float], word: int) -> None:
    assert model(rgb) == word
    for x in (rgb, np.array([rgb]), np.array(rgb, ">f8")):
        packed = pack_rgb9e5(x)
        assert packed.dtype == np.uint32
        assert packed.shape == np.shape(x)[:-1]
        assert f"{int(packed.ravel()[0]):08X}" == f"{word:08X}"


def edges() -> list[float]:
    """Ties, carries and powers of two in every exponent, each with its float64 neighbours."""
    units = [2.0**power for power in range(-26, 8)]
    centres = [k * unit for unit in units for k in (0.5, 1, 1.5, 255.5, 256, 256.5, 510.5, 511, 511.5, 512)]
    return [float(v) for c in centres for v in (np.nextafter(c, 0), c, np.nextafter(c, INF))]


def test_rgb9e5_against_the_model() -> None:
    rng = np.random.default_rng(6)
    values = np.array([*edges(), 5e-324, 1e-40, -1e-40, 1e308])
    x = rng.choice(values, (3000, 3))
    x[: len(values), 0] = values
    x[: len(values), 1:] *= rng.choice([0, 1e-3], (len(values), 2))  # so that red decides the exponent
    assert pack_rgb9e5(x).tolist() == [model(row) for row in x.tolist()]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16])
def test_rgb9e5_of_random_bits(dtype: type) -> None:
    """Every class of number, NaN and Inf included."""
    size = np.dtype(dtype).itemsize
    raw = np.random.default_rng(7).integers(0, 1 << 8 * size, (2000, 3), np.uint64).astype(f"u{size}")
    raw[:200, 1] = raw[:200, 0] ^ 1
    x = raw.view(dtype)
    with np.errstate(invalid="ignore"):
        exact = x.astype(np.float64).tolist()
    assert pack_rgb9e5(x).tolist() == [model(row) for row in exact]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8, bool])
def test_rgb9e5_of_integers(dtype: type) -> None:
    x = np.array([[0, 1, 100], [1, -3, 127], [2**62, 65407, 70000]]).astype(dtype)
    assert pack_rgb9e5(x).tolist() == [model([float(min(int(v), 1 << 40)) for v in row]) for row in x]


def test_every_exponent_of_rgb9e5_decodes() -> None:
    words = [e << 27 | b << 18 | g << 9 | r for e in range(32) for r, g, b in ((0, 1, 511), (511, 256, 2), (3, 0, 255))]
    back = unpack_rgb9e5(u32(*words))
    assert back.dtype == np.float32
    for word, row in zip(words, back.tolist(), strict=True):
        unit = Fraction(2) ** ((word >> 27) - 24)
        assert [Fraction(v) for v in row] == [(word >> shift & 511) * unit for shift in (0, 9, 18)]
    normal = back.max(axis=-1) >= 256 * 2.0 ** ((u32(*words) >> 27).astype(int) - 24)
    assert normal.sum() > 60
    assert pack_rgb9e5(back)[normal].tolist() == u32(*words)[normal].tolist()


# --- shapes and refusals ----------------------------------------------------------------------

PACKERS = [pack_r11g11b10f, pack_rgb9e5]
UNPACKERS = [unpack_r11g11b10f, unpack_rgb9e5]


@pytest.mark.parametrize(("pack", "unpack"), list(zip(PACKERS, UNPACKERS, strict=True)))
def test_shapes(pack: object, unpack: object) -> None:
    x = np.arange(24.0).reshape(2, 4, 3)
    for view in (x, x[::-1, ::2], np.asfortranarray(x), x[0, 0], x[:0], np.broadcast_to(x[0, 0], (2, 5, 3))):
        words = pack(view)
        assert isinstance(words, np.ndarray)
        assert words.shape == view.shape[:-1]
        assert unpack(words).shape == view.shape
        flat = [int(pack(list(row))) for row in view.reshape(-1, 3)]
        assert words.ravel().tolist() == flat


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        *[(lambda f=f: f([1.0, 2.0]), ValueError, "rgb must have a last axis of 3, got shape (2,)") for f in PACKERS],
        *[(lambda f=f: f(1.0), ValueError, "rgb must have a last axis of 3, got shape ()") for f in PACKERS],
        *[(lambda f=f: f(np.ones(3, complex)), TypeError, "dtype complex128 is not a real number") for f in PACKERS],
        *[(lambda f=f: f(["a", "b", "c"]), TypeError, "is not a real number") for f in PACKERS],
        *[(lambda f=f: f(np.ones(3)), TypeError, "words must be uint32, got dtype float64") for f in UNPACKERS],
        (lambda: pack_rgb9e5(np.ones(3, np.longdouble)), TypeError, "is wider than float64"),
        (lambda: pack_r11g11b10f([1.0, NAN, 1.0], nan="error"), ValueError, "x[1] = 7FF8000000000000 is NaN"),
        (lambda: pack_r11g11b10f([[1.0, 1.0, -1.0]], negative="error"), ValueError, "x[0, 2] = BFF0000000000000 is"),
        (lambda: pack_r11g11b10f([1.0, 1.0, 1.0], report=True), TypeError, "'report'"),
    ],
)
def test_refusals(call: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()
