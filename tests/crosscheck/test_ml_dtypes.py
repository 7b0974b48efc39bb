"""ml_dtypes beside the exact oracle and the codec: every code, every boundary, every 16-bit float.

Where the policies agree the codes are equal, bit for bit.  Where ml_dtypes chooses otherwise the
choice stands in a table and is checked too: one that vanishes is an error that names the version.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import feather_ref as fr
from crosscheck.edges import Steps, decide
from crosscheck.peers import ML_DTYPES
from feather_ref import oracle

Array = NDArray[Any]
VERSION = f"ml_dtypes {ml_dtypes.__version__}"
NAN, INF = float("nan"), float("inf")

# E8M0 alone: zero is NaN, ties go up, and between 2**-127 and 1.5 * 2**-127 everything is rounded up
E8M0_CHOICES = ((0x00000000, 0x00000000, 0xFF), (0x00400001, 0x005FFFFF, 0x01), (0x80000000, 0x80000000, 0xFF))


@dataclass(frozen=True)
class Peer:
    """A float format of ml_dtypes, and its choices."""

    name: str
    nan: tuple[int, int]  # what +NaN and -NaN become
    rounding: str = "nearest_even"
    elsewhere: tuple[tuple[int, int, int], ...] = ()  # float32 patterns lo .. hi that get a code of its own

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(ML_DTYPES[self.name])

    def encode(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            return x.astype(self.dtype).view(f"u{self.dtype.itemsize}")

    def decode(self, codes: Array) -> Array:
        return codes.astype(f"u{self.dtype.itemsize}").view(self.dtype).astype(np.float32)

    def own_choices(self, bits: Array, codes: Array) -> Array:
        """Our codes for float32 patterns, with its choices in their places."""
        is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
        codes = np.where(is_nan, np.where(bits >> 31, self.nan[1], self.nan[0]), codes)
        for lo, hi, code in self.elsewhere:
            codes = np.where((bits >= lo) & (bits <= hi), code, codes)
        return codes

    @property
    def policies(self) -> dict[str, Any]:
        """Ours where they agree.  NaN is in the table above; any code will do here."""
        return {"rounding": self.rounding, "overflow": "nonsaturating", "nan": 0}


# The FP6 and FP4 formats have neither Inf nor NaN: overflow clamps, and NaN becomes a zero of the other sign.
PEERS = (
    Peer("e4m3", (0x7F, 0xFF)),
    Peer("e5m2", (0x7E, 0xFE)),
    Peer("e4m3fnuz", (0x80, 0x80)),
    Peer("e5m2fnuz", (0x80, 0x80)),
    Peer("e4m3b11fnuz", (0x80, 0x80)),
    Peer("e4m3ieee", (0x7C, 0xFC)),
    Peer("e3m4", (0x78, 0xF8)),
    Peer("e8m0", (0xFF, 0xFF), "nearest_away", E8M0_CHOICES),
    Peer("e2m3", (0x20, 0x00)),
    Peer("e3m2", (0x20, 0x00)),
    Peer("e2m1", (0x8, 0x0)),
)
BF16 = Peer("bf16", (0x7FC0, 0xFFC0))
INTEGERS = ("int4", "uint4", "int2")

every_peer = pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)


@cache
def steps(peer: Peer) -> Steps:
    return Steps(peer.name, **peer.policies)


def same_values(ours: Array, theirs: Array) -> bool:
    """Equal bits; NaN as a class."""
    nan = np.isnan(ours)
    return bool((nan == np.isnan(theirs)).all() and (ours.view(np.uint32) == theirs.view(np.uint32))[~nan].all())


# --- decode -----------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", [*PEERS, BF16], ids=lambda peer: peer.name)
def test_every_code_decodes_alike(peer: Peer) -> None:
    codes = np.arange(1 << fr.get_format(peer.name).bits)
    theirs = peer.decode(codes)
    assert same_values(fr.decode(codes, peer.name), theirs)
    nan = np.isnan(theirs)
    assert [oracle.decode(code, peer.name).kind == "nan" for code in codes.tolist()] == nan.tolist()
    for code in codes[~nan].tolist():
        assert oracle.decode(code, peer.name) == oracle.exact(theirs[code]), hex(code)


@pytest.mark.parametrize("name", INTEGERS)
def test_every_integer_code_decodes_alike(name: str) -> None:
    codes = np.arange(1 << fr.get_format(name).bits)
    theirs = codes.astype(np.uint8).view(name).astype(np.float32)
    assert same_values(fr.decode(codes, name), theirs)
    assert [oracle.decode(code, name).signed for code in codes.tolist()] == theirs.tolist()


# --- encode -----------------------------------------------------------------------------------


def check_encode(peer: Peer, x: Array, bits: Array) -> None:
    """x, an array of any float dtype whose values are the float32 patterns `bits`."""
    expected = steps(peer).expected(bits)
    np.testing.assert_array_equal(fr.encode(x, peer.name, **peer.policies), expected)
    np.testing.assert_array_equal(peer.encode(x), peer.own_choices(bits, expected))


@every_peer
def test_every_boundary_encodes_alike(peer: Peer) -> None:
    bits = steps(peer).inputs()
    for lo, hi, _ in peer.elsewhere:
        bits = np.append(bits, np.array([lo, hi, hi + 1], np.uint32))
    check_encode(peer, bits.view(np.float32), bits)


@every_peer
def test_every_float16_encodes_alike(peer: Peer) -> None:
    x = np.arange(1 << 16).astype(np.uint16).view(np.float16)
    check_encode(peer, x, x.astype(np.float32).view(np.uint32))


@every_peer
def test_every_bfloat16_encodes_alike(peer: Peer) -> None:
    codes = np.arange(1 << 16).astype(np.uint16)
    check_encode(peer, codes.view("bfloat16"), codes.astype(np.uint32) << 16)


def test_bfloat16_encodes_alike() -> None:
    """Every code with what decides in the 16 bits below it: the tie, its neighbours, the ends."""
    below = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    bits = ((np.arange(1 << 16, dtype=np.uint32) << 16)[:, None] | below).ravel()
    x = bits.view(np.float32)
    ours = fr.encode(x, "bf16", nan="preserve_sign")
    np.testing.assert_array_equal(BF16.encode(x), ours)
    for i in range(0, len(x), 331):  # 331 is prime to 6 and to 2**7, so that all kinds of tie are met
        assert oracle.encode(x[i], "bf16", nan="preserve_sign") == ours[i], hex(bits[i])


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_encode_alike_in_range(name: str) -> None:
    row = fr.get_format(name)
    x = np.arange(row.min, row.max + 1)
    for source in (x.astype(np.int8), x.astype(np.float32), x[x >= 0] + 0.75, x[x <= 0] - 0.75):
        inside = source[(source > row.min - 1) & (source < row.max + 1)]
        theirs = inside.astype(name).view(np.uint8) & row.code_mask
        np.testing.assert_array_equal(fr.encode(inside, name, rounding="toward_zero"), theirs)
        assert [oracle.encode(v, name, rounding="toward_zero") for v in inside] == theirs.tolist()


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer.name != "e8m0"], ids=lambda peer: peer.name)
def test_every_code_converts_alike(peer: Peer) -> None:
    """Between narrow formats, one rounding.  ml_dtypes has no such casts for E8M0."""
    for source in PEERS:
        if source.name in ("e8m0", peer.name):
            continue
        codes = np.arange(1 << fr.get_format(source.name).bits).astype(np.uint8)
        values = fr.decode(codes, source.name)
        bits, number = values.view(np.uint32), ~np.isnan(values)
        expected = steps(peer).expected(bits)
        np.testing.assert_array_equal(fr.convert(codes, source.name, peer.name, **peer.policies), expected)
        theirs = peer.encode(codes.view(source.dtype))
        np.testing.assert_array_equal(theirs[number], expected[number])
        assert set(theirs[~number].tolist()) <= set(peer.nan)  # decode lost the sign of NaN


# --- known disagreements ----------------------------------------------------------------------

F64 = "float64 goes through float32 and is rounded twice (jax-ml/ml_dtypes #401)"
SATURATES = "ours saturates unless told otherwise (jax-ml/ml_dtypes #400)"
NAN_BITS = "another canonical NaN"
NAN_TO_ZERO = "no NaN in the format: a zero of the other sign, where ours refuses or does as told"
WRAPS = "integers wrap, where ours clamps"

# (why, format, x, our policies, our code, their code)
DISAGREEMENTS: tuple[tuple[str, str, Any, dict[str, Any], int, int], ...] = (
    (F64, "e4m3", np.float64(-431.99999999999994), {}, 0xFD, 0xFE),
    (F64, "e4m3", np.float64(1.0625 + 2.0**-40), {}, 0x39, 0x38),
    (F64, "e5m2", np.float64(1.125 + 2.0**-40), {}, 0x3D, 0x3C),
    (F64, "e2m1", np.float64(0.25 + 2.0**-40), {}, 0x1, 0x0),
    (F64, "bf16", np.float64(1 + 2.0**-8 + 2.0**-40), {}, 0x3F81, 0x3F80),
    (F64, "bf16", np.int64(16973823), {}, 0x4B81, 0x4B82),
    (SATURATES, "e4m3", np.float32(465), {}, 0x7E, 0x7F),
    (SATURATES, "e4m3", np.float32(-INF), {}, 0xFE, 0xFF),
    (SATURATES, "e5m2", np.float32(61440), {}, 0x7B, 0x7C),
    (SATURATES, "e4m3fnuz", np.float32(INF), {}, 0x7F, 0x80),
    (SATURATES, "e5m2fnuz", np.float32(-INF), {}, 0xFF, 0x80),
    (SATURATES, "e8m0", np.float32(INF), {}, 0xFE, 0xFF),
    (NAN_BITS, "e5m2", np.float32(NAN), {}, 0x7F, 0x7E),
    (NAN_TO_ZERO, "e2m3", np.float32(NAN), {"nan": "max"}, 0x1F, 0x20),
    (NAN_TO_ZERO, "e3m2", np.float32(NAN), {"nan": "zero"}, 0x00, 0x20),
    (NAN_TO_ZERO, "e2m1", np.float32(NAN), {"nan": "max"}, 0x7, 0x8),
    (NAN_TO_ZERO, "e2m1", np.float32(-NAN), {"nan": "max"}, 0x7, 0x0),
    ("zero has no code: NaN, where ours takes the least", "e8m0", np.float32(0), {}, 0x00, 0xFF),
    ("ties go up, ours to the even code", "e8m0", np.float32(3), {}, 0x80, 0x81),
    ("rounds up too early", "e8m0", np.float32(2.0**-127 + 2.0**-149), {}, 0x00, 0x01),
    ("rounds up too early", "e8m0", np.float32(1.25 * 2.0**-127), {}, 0x00, 0x01),
    (WRAPS, "int4", np.int64(8), {}, 0x7, 0x8),
    (WRAPS, "uint4", np.int64(-1), {}, 0x0, 0xF),
    (WRAPS, "int2", np.int64(2), {}, 0x1, 0x2),
)


@pytest.mark.parametrize("row", DISAGREEMENTS, ids=lambda row: f"{row[1]}-{row[2]!r}")
def test_known_disagreements(row: tuple[str, str, Any, dict[str, Any], int, int]) -> None:
    why, name, x, policies, ours, theirs = row
    assert ours != theirs
    assert fr.encode(x, name, **policies) == oracle.encode(x, name, **policies) == ours
    with np.errstate(all="ignore"):
        cast = np.array([x]).astype(ML_DTYPES.get(name, name))
    got = int(cast.view(f"u{cast.dtype.itemsize}")[0]) & fr.get_format(name).code_mask
    assert got == theirs, f"{VERSION} no longer gives {theirs:X} but {got:X} ({why}): change the table"


@every_peer
def test_float64_goes_through_float32(peer: Peer) -> None:
    """At every boundary and one float64 step away, theirs is the code of the float32 in between."""
    x = decide(fr.get_format(peer.name))
    with np.errstate(over="ignore", under="ignore"):
        bits = x.astype(np.float32).view(np.uint32)
    exact = [oracle.encode(v, peer.name, **peer.policies) for v in x]
    np.testing.assert_array_equal(fr.encode(x, peer.name, **peer.policies), exact)
    theirs = peer.encode(x)
    np.testing.assert_array_equal(theirs, peer.own_choices(bits, steps(peer).expected(bits)))
    number = ~np.isnan(x)
    assert (theirs != np.array(exact))[number].any(), f"{VERSION} rounds float64 to {peer.name} once: change the table"
