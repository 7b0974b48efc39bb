"""gfloat beside the exact oracle and the codec: every code, every boundary, eight roundings.

gfloat rounds float64 to a value and then encodes it, so both steps are crossed here.  It names the
P3109 formats as report 4.0 does, after width, precision, signedness and domain.  It has no round
to odd.  What it does otherwise stands in a table and is checked too.
"""

from __future__ import annotations

import itertools
from importlib.metadata import version
from typing import Any

import gfloat
import numpy as np
import pytest
from gfloat.formats import format_info_p3109
from gfloat.types import Domain, RoundMode, Signedness
from numpy.typing import NDArray

import feather_ref as fr
from crosscheck.edges import decide
from crosscheck.peers import GFLOAT
from feather_ref import oracle
from feather_ref.formats import Format

VERSION = f"gfloat {version('gfloat')}"
NAN, INF = float("nan"), float("inf")

P3109 = {row.name: row for row in fr.p3109_formats(range(3, 9))}
TRIED = ("binary3", "binary4", "binary6p2", "binary8p1", "binary8p3", "binary8p4", "binary8p8")  # decode takes all
ENCODED = [name for name in (*GFLOAT, *P3109) if name in GFLOAT or name.startswith(TRIED)]

MODES = {
    "nearest_even": RoundMode.TiesToEven,
    "nearest_away": RoundMode.TiesToAway,
    "toward_zero": RoundMode.TowardZero,
    "toward_positive": RoundMode.TowardPositive,
    "toward_negative": RoundMode.TowardNegative,
}
STOCHASTIC = {
    "stochastic_a": RoundMode.StochasticFastest,
    "stochastic_b": RoundMode.StochasticFast,
    "stochastic_c": RoundMode.Stochastic,
}


def info(name: str) -> Any:
    """gfloat's description of one of our formats."""
    if name in GFLOAT:
        return GFLOAT[name]
    row = P3109[name]
    signedness = Signedness.Signed if row.signed else Signedness.Unsigned
    domain = Domain.Extended if row.has_inf else Domain.Finite
    return format_info_p3109(row.bits, row.mantissa_bits + 1, signedness, domain)


def theirs(name: str, x: NDArray[np.float64], mode: RoundMode, sat: bool, *random: Any) -> NDArray[np.uint64]:
    """The codes of gfloat."""
    with np.errstate(all="ignore"):
        codes: NDArray[np.uint64] = gfloat.encode_ndarray(
            info(name), gfloat.round_ndarray(info(name), x, mode, sat, *random)
        )
    return codes


def inputs(row: Format, dtype: type[np.floating[Any]] = np.float64) -> NDArray[np.float64]:
    """What decides; without what is a known disagreement below or an error there."""
    x = decide(row, dtype)
    if not row.has_nan:
        x = x[~np.isnan(x)]
    return x if row.has_zero else x[~(x < row.min)]


def same_codes(row: Format, ours: Any, codes: Any) -> bool:
    """Equal codes; NaN as a class."""
    nan = fr.isnan(ours, row)
    codes = np.asarray(codes)
    return bool((nan == fr.isnan(codes, row)).all() and (np.asarray(ours) == codes)[~nan].all())


# --- decode -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*GFLOAT, *P3109])
def test_every_code_decodes_alike(name: str) -> None:
    codes = np.arange(1 << fr.get_format(name).bits)
    with np.errstate(all="ignore"):
        peer = gfloat.decode_ndarray(info(name), codes)
    ours = fr.decode(codes, name, np.float64)
    nan = np.isnan(ours)
    np.testing.assert_array_equal(np.isnan(peer), nan)
    np.testing.assert_array_equal(ours.view(np.uint64)[~nan], peer.view(np.uint64)[~nan])
    for code in codes[:: 1 if len(codes) <= 256 else 97].tolist():
        x = oracle.decode(code, name)
        assert (x.kind == "nan") if nan[code] else (x == oracle.exact(peer[code])), hex(code)


# --- encode -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in ENCODED if fr.get_format(name).bits <= 8])
def test_every_boundary_encodes_alike(name: str) -> None:
    row = fr.get_format(name)
    x = inputs(row)
    # without Inf and NaN there is nothing to overflow to, and gfloat raises
    overflows = ("saturate", "nonsaturating") if row.has_inf or row.has_nan else ("saturate",)
    for (rounding, mode), overflow in itertools.product(MODES.items(), overflows):
        policies: dict[str, Any] = {"rounding": rounding, "overflow": overflow}
        codes = theirs(name, x, mode, overflow == "saturate")
        assert same_codes(row, fr.encode(x, row, **policies), codes), policies
        assert same_codes(row, [oracle.encode(v, row, **policies) for v in x.tolist()], codes), policies


@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_sixteen_bits_encode_alike(name: str) -> None:
    """Around every power of two and the ends, and a fixed draw of codes, each with its midpoint."""
    row = fr.get_format(name)
    step = 1 << row.mantissa_bits
    near = [code + d for code in range(0, row.max_magnitude + 2, step) for d in (-2, -1, 0, 1, 2)]
    drawn = np.random.default_rng(20260626).integers(0, row.max_magnitude, 500).tolist()
    codes = sorted({code for code in near + drawn if 0 <= code <= row.max_magnitude})
    x = np.array([float(row.exact(c) + d * (row.exact(c + 1) - row.exact(c))) for c in codes for d in (0, 0.5)])
    x = np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, 0)])
    x = np.concatenate([x, -x, [INF, -INF, NAN]])
    for rounding, mode in MODES.items():
        policies: dict[str, Any] = {"rounding": rounding, "overflow": "nonsaturating"}
        peer = theirs(name, x, mode, False)
        assert same_codes(row, fr.encode(x, row, **policies), peer), rounding
        some = slice(None, None, 7)
        assert same_codes(row, [oracle.encode(v, row, **policies) for v in x[some].tolist()], peer[some]), rounding


@pytest.mark.parametrize("rounding", STOCHASTIC)
@pytest.mark.parametrize("name", ["e4m3", "e3m2", "e2m1", "binary6p2se", "binary6p2uf"])
def test_stochastic_encodes_alike(name: str, rounding: str) -> None:
    """Every operand of three bits, at every boundary and one float32 step away."""
    row, n_bits = fr.get_format(name), 3
    x = inputs(row, np.float32)
    for operand in range(1 << n_bits):
        random = np.full(x.shape, operand)
        codes = theirs(name, x, STOCHASTIC[rounding], True, random, n_bits)
        policies: dict[str, Any] = {"rounding": rounding, "overflow": "saturate", "n_bits": n_bits}
        assert same_codes(row, fr.encode(x, row, random_bits=operand, **policies), codes), operand
        exact = [oracle.encode(v, row, random=operand, **policies) for v in x.tolist()]
        assert same_codes(row, exact, codes), operand


# --- known disagreements ----------------------------------------------------------------------

UNDERFLOW = "below 2**-127 the value stays outside the format and its code is NaN (graphcore-research/gfloat #62)"
ZERO = "zero has no code, so its code is NaN; ours takes the least"
NEGATIVE = "a negative of an unsigned format saturates at its least value, or fails; ours is NaN"
SATNONE = "sat=False is older than SatNone of report 4.0, which keeps the greatest value where there is no Inf"

# (why, name, x, sat, their code by encode_float or the error, our code, our policies)
DISAGREEMENTS: tuple[tuple[str, str, float, bool, int | str, int, dict[str, Any]], ...] = (
    (ZERO, "e8m0", 0.0, True, 0xFF, 0x00, {}),
    (UNDERFLOW, "e8m0", 2.0**-128, True, 0xFF, 0x00, {}),
    (UNDERFLOW, "e8m0", 2.0**-149, True, 0xFF, 0x00, {}),
    (UNDERFLOW, "e8m0", 1e-300, False, 0xFF, 0x00, {}),
    (NEGATIVE, "e8m0", -INF, True, 0xFE, 0xFF, {}),
    (NEGATIVE, "binary8p3uf", -INF, True, 0xFE, 0xFF, {}),
    (NEGATIVE, "binary8p3ue", -1.0, True, "No -Inf in p3109_k8p3ue", 0xFF, {}),
    (SATNONE, "binary8p3sf", 1e6, False, 0x80, 0x7F, {}),
    (SATNONE, "binary8p3sf", -INF, False, 0x80, 0xFF, {}),
    ("fails for want of a NaN; ours by policy", "e2m1", NAN, True, "No NaN in format", 0x7, {"nan": "max"}),
    ("fails for want of an Inf; ours clamps", "e2m1", 7.0, False, "No Infs or NaNs", 0x7, {}),
    ("another canonical NaN", "e4m3", NAN, True, 0xFF, 0x7F, {}),
    ("another canonical NaN", "e5m2", NAN, True, 0xFF, 0x7F, {}),
)


@pytest.mark.parametrize("row", DISAGREEMENTS, ids=lambda row: f"{row[1]}-{row[2]!r}-{row[3]}")
def test_known_disagreements(row: tuple[str, str, float, bool, int | str, int, dict[str, Any]]) -> None:
    why, name, x, sat, wanted, ours, policies = row
    assert wanted != ours
    assert fr.encode(x, name, **policies) == oracle.encode(x, name, **policies) == ours
    got: int | str
    try:
        got = gfloat.encode_float(info(name), gfloat.round_float(info(name), x, sat=sat))
    except ValueError as error:
        got = str(error)
    same = got.startswith(wanted) if isinstance(got, str) and isinstance(wanted, str) else got == wanted
    assert same, f"{VERSION} no longer gives {wanted!r} but {got!r} ({why}): change the table"


@pytest.mark.parametrize("x", [2.0**-128, -1.0])
def test_arrays_into_e8m0_leave_the_code_space(x: float) -> None:
    """The vectorised encoder lets the exponent wrap: the code has 64 bits."""
    code = int(theirs("e8m0", np.array([x]), RoundMode.TiesToEven, True)[0])
    assert code > 0xFF, f"{VERSION} now gives {code:X}: change this test"


def test_stochastic_sum_is_rounded() -> None:
    """gfloat adds the fraction and the operand in float64, where 1/2 - 2**-54 + 1/2 is 1."""
    x = np.array([0.25 - 2.0**-55])  # half a step of e2m1, but for the last bit of float64
    codes = theirs("e2m1", x, RoundMode.StochasticFastest, True, np.array([4]), 3)
    assert codes[0] == 1, f"{VERSION} now gives {codes[0]}: change this test"
    assert fr.encode(x, "e2m1", rounding="stochastic_a", random_bits=4, n_bits=3)[0] == 0
    assert oracle.encode(x[0], "e2m1", rounding="stochastic_a", random=4, n_bits=3) == 0
