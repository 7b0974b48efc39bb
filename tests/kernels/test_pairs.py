"""Codes to pairs of float16 and bfloat16: every code in every lane, beside every kind of neighbour."""

import numpy as np
import pytest

import feather_ref as fr
from feather_kernels.decoders import Pairs, make_pairs, make_short_pairs
from feather_kernels.ptx import TWINS
from kernel_inputs import ROWS, Array

pytestmark = pytest.mark.skipif("not __import__('feather_kernels')._target.SIMULATOR")
DECODERS = {
    "fp16": lambda row: make_pairs(row, finite=True),
    "fp16, native": lambda row: make_pairs(row, finite=True, native=True),
    "bf16": lambda row: make_short_pairs(row, finite=True),
}


def numbers(pairs: Pairs, codes: Array, row: fr.Format, short: bool) -> Array:
    """What the decoder makes of codes, a word of them after the other."""
    words = fr.pack_codes(codes.reshape(1, -1).astype(np.uint32), row.storage_bits)[0]
    into = np.zeros(len(codes) // 2, np.uint32)
    lanes, count = row.period
    for i in range(0, len(words), count):
        pairs.halves(words, i, into, i // count * lanes // 2)
    halves = into.view(np.uint16)
    values = (halves.astype(np.uint32) << np.uint32(16)).view(np.float32) if short else halves.view(np.float16)
    return values.astype(np.float64) * 2.0**pairs.factor


@pytest.mark.parametrize("kind", DECODERS)
def test_every_code_in_every_lane(kind: str) -> None:
    seen = []
    for row in ROWS:
        pairs = DECODERS[kind](row)
        if pairs is None or row.bits > 8:
            continue
        seen.append(row.name)
        every = np.arange(1 << row.bits)
        lanes = row.period[0]
        codes = np.concatenate(
            [np.roll(np.stack([every] + [every[::-1]] * (lanes - 1), -1), i, -1).ravel() for i in range(lanes)]
        )
        codes = np.where(fr.isfinite(codes.astype(fr.code_dtype(row)), row), codes, 0)
        wanted = fr.decode(codes.astype(fr.code_dtype(row)), row).astype(np.float64)
        got = numbers(pairs, codes, row, kind == "bf16")
        assert (got == wanted).all(), row
        assert (np.signbit(got) == np.signbit(wanted)).all(), row
    assert {"e4m3", "e5m2" if kind != "fp16, native" else "e4m3", "e2m1"} <= set(seen)


def test_every_pair_of_e4m3() -> None:
    row = fr.get_format("e4m3")
    both = np.arange(1 << 16)
    codes = np.stack([both & 0xFF, both >> 8], -1).ravel()
    codes = np.where(codes & 0x7F == 0x7F, 0, codes)
    wanted = fr.decode(codes.astype(np.uint8), row).astype(np.float64)
    pairs = make_pairs(row, finite=True)
    assert pairs is not None
    assert (numbers(pairs, codes, row, False) == wanted).all()


def test_what_stays_special() -> None:
    """Inf and NaN of e5m2 and float16 are those of float16; the instruction for e4m3 keeps NaN."""
    for name, native, codes, wanted in (
        ("e5m2", False, [0x7C, 0xFC, 0x7E, 0x80], [np.inf, -np.inf, np.nan, -0.0]),
        ("fp16", False, [0x7C00, 0xFC00, 0x7E00, 0x8000], [np.inf, -np.inf, np.nan, -0.0]),
        ("e4m3", True, [0x7F, 0xFF, 0x80, 0x7E], [np.nan, np.nan, -0.0, 448]),
    ):
        row = fr.get_format(name)
        pairs = make_pairs(row, native=native)
        assert pairs is not None
        got = numbers(pairs, np.array(codes), row, False)
        assert np.array_equal(got, wanted, equal_nan=True)
        assert np.signbit(got[2 if native else 3])
    assert make_pairs(fr.get_format("e4m3")) is None  # with NaN, and nobody to look for it
    assert make_short_pairs(fr.get_format("e5m2")) is None


def test_products_of_bfloat16() -> None:
    """1.5 * 2, -0 * 1; 2**-133 * 0.5 is a tie, to even; an overflow."""
    one = np.errstate(over="ignore")(TWINS["mul_bf16"])
    assert one(np.uint32(0x3FC08000), np.uint32(0x40003F80)) == 0x40408000
    assert one(np.uint32(0x00010003), np.uint32(0x3F003F00)) == 0x00000002
    assert one(np.uint32(0x7F007FC0), np.uint32(0x40803F80)) == 0x7F807FFF


def test_products_of_float16() -> None:
    """-0 * 1, 1.5 * 2; a tie of the least subnormal number, to even, and NaN."""
    one = np.errstate(invalid="ignore")(TWINS["mul_half"])
    assert one(np.uint32(0x3E008000), np.uint32(0x40003C00)) == 0x42008000
    assert one(np.uint32(0x7C000001), np.uint32(0x00003800)) == 0x7FFF0000
