"""The report of an encode, counted again from the oracle's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from feather_ref import oracle
from feather_ref._sweep import CHUNK
from feather_ref.codec import encode
from feather_ref.formats import Format, get_format
from feather_ref.report import NAMES, Count, Report
from helpers import assert_bits, exacts, expected, interesting, nans, narrow, without_nan

NAN, INF = float("nan"), float("inf")


def counted(report: Report) -> dict[str, tuple[int, tuple[int, ...] | None]]:
    return {name: (getattr(report, name).count, getattr(report, name).first) for name in NAMES}


# --- by hand ----------------------------------------------------------------------------------

X = [1.0, 0.3, 448.0, 464.0, 465.0, INF, -INF, NAN, 2.0**-11, -0.0, -NAN]
BY_HAND: list[tuple[list[float], str, dict[str, Any], dict[str, tuple[int, tuple[int, ...] | None]]]] = [
    # 0.3, 464, 465 and 2**-11 have other values; 464 and 465 lie beyond 448, and Inf twice; 2**-11 became 0
    (X, "e4m3", {},
     {"inexact": (4, (1,)), "saturated": (4, (3,)), "nonfinite": (0, None), "flushed": (1, (8,)), "nan": (2, (7,))}),
    # 465 becomes NaN; 464 is rounded to 448, which lies inside; Inf was not finite before
    (X, "e4m3", {"overflow": "nonsaturating"},
     {"inexact": (4, (1,)), "saturated": (1, (3,)), "nonfinite": (1, (4,)), "flushed": (1, (8,)), "nan": (2, (7,))}),
    (X, "e5m2", {"overflow": "propagate"},
     {"inexact": (3, (1,)), "saturated": (0, None), "nonfinite": (0, None), "flushed": (0, None), "nan": (2, (7,))}),
    # E8M0 has no zero: 0 and 2**-200 become 2**-127, which is inexact and not flushed; -1 becomes NaN
    ([0.0, 2.0**-200, 1.0, 3.0, -1.0, 2.0**128], "e8m0", {},
     {"inexact": (5, (0,)), "saturated": (1, (5,)), "nonfinite": (1, (4,)), "flushed": (0, None), "nan": (0, None)}),
    ([-1.0, 255.0, 256.0, 0.5, 0.25], "uint8", {},
     {"inexact": (4, (0,)), "saturated": (1, (2,)), "nonfinite": (0, None), "flushed": (3, (0,)), "nan": (0, None)}),
    # two's complement reaches one further below zero
    ([127.0, 128.0, -128.0, -129.0], "int8", {},
     {"inexact": (2, (1,)), "saturated": (2, (1,)), "nonfinite": (0, None), "flushed": (0, None), "nan": (0, None)}),
    ([0.0, 1.0, -1.0, 1.5, 0.5], "nf4", {},
     {"inexact": (2, (3,)), "saturated": (1, (3,)), "nonfinite": (0, None), "flushed": (0, None), "nan": (0, None)}),
    ([], "e4m3", {}, dict.fromkeys(NAMES, (0, None))),
]  # fmt: skip


@pytest.mark.parametrize(("x", "name", "policies", "want"), BY_HAND)
def test_by_hand(x: list[float], name: str, policies: dict[str, Any], want: dict[str, Any]) -> None:
    codes, report = encode(x, name, report=True, **policies)
    assert report.size == len(x)
    assert counted(report) == want
    assert_bits(codes, encode(x, name, **policies), x, name)  # the codes are the same with and without


# --- by the oracle ----------------------------------------------------------------------------


def classes(x: oracle.Exact, y: oracle.Exact, greatest: dict[bool, Any]) -> tuple[bool, ...]:
    """inexact, saturated, nonfinite, flushed, nan: of one input and its result."""
    finite, lost = x.kind == "finite", y.kind != "finite"
    beyond = x.kind == "inf" or (finite and x.magnitude > greatest[x.negative])
    zero = y.kind == "finite" and y.magnitude == 0
    nonzero = x.kind == "inf" or (finite and x.magnitude != 0)
    return (
        finite and (lost or x.signed != y.signed),
        beyond and not lost,
        finite and lost,
        nonzero and zero,
        x.kind == "nan",
    )


def counts(numbers: list[oracle.Exact], codes: np.ndarray, row: Format, shape: tuple[int, ...]) -> dict[str, Any]:
    values = [oracle.decode(code, row) for code in range(1 << row.bits)]
    ends = {sign: [v.magnitude for v in values if v.kind == "finite" and v.negative == sign] for sign in (False, True)}
    greatest = {sign: max(ends[sign] or ends[False]) for sign in ends}
    table = np.array([classes(x, values[int(c)], greatest) for x, c in zip(numbers, codes.ravel(), strict=True)])
    first = [np.unravel_index(int(column.argmax()), shape) if column.any() else None for column in table.T]
    places = [None if f is None else tuple(int(i) for i in f) for f in first]
    return dict(zip(NAMES, zip(table.sum(axis=0).tolist(), places, strict=True), strict=True))


COUNTED = ["e4m3", "e5m2", "e2m1", "e8m0", "e4m3fnuz", "ue4m3", "int4", "uint4", "binary6p3ue", "uf10"]
POLICIES: list[dict[str, Any]] = [
    {},
    {"overflow": "nonsaturating"},
    {"overflow": "propagate", "rounding": "toward_positive"},
    {"overflow": "nonsaturating", "rounding": "toward_zero", "subnormals": "flush_output"},
    {"subnormals": "flush_input"},
]


@pytest.mark.parametrize("policies", POLICIES, ids=str)
@pytest.mark.parametrize(
    "name", ["e4m3", "e5m2", "e2m1", "e8m0", "e4m3fnuz", "ue4m3", "int4", "uint4", "binary6p3ue", "uf10"]
)
def test_counts_are_those_of_the_oracle(name: str, policies: dict[str, Any]) -> None:
    row = get_format(name)
    policies = {**without_nan(row), **policies}
    pool = np.random.default_rng(12).permutation(narrow(interesting(row, 20), np.float32)[0])[:600]
    x = np.concatenate([pool, nans(np.float32)]).reshape(6, -1)
    numbers = exacts(x.ravel())
    want = expected(numbers, row, source="fp32", **policies).reshape(x.shape)
    codes, report = encode(x, row, report=True, **policies)
    assert_bits(codes, want, x, row)
    assert counted(report) == counts(numbers, want, row, x.shape)
    if policies.get("subnormals") != "flush_input":  # longdouble has others
        with np.errstate(invalid="ignore"):  # NumPy warns of a signalling NaN
            wide = x.astype(np.longdouble)
        assert encode(wide, row, report=True, **policies)[1] == report


# --- places -----------------------------------------------------------------------------------


def test_first_is_an_index_of_x() -> None:
    x = np.zeros((3, 4, 5))
    x[2, 1, 3] = x[2, 3, 0] = 0.3
    assert encode(x, "e4m3", report=True)[1].inexact == Count(2, (2, 1, 3))
    assert encode(x.T, "e4m3", report=True)[1].inexact == Count(2, (0, 3, 2))
    assert encode(x[::-1, ::-1, ::-1], "e4m3", report=True)[1].inexact == Count(2, (0, 0, 4))
    assert encode(x.astype(">f4"), "e4m3", report=True)[1].inexact == Count(2, (2, 1, 3))
    assert encode(0.3, "e4m3", report=True)[1].inexact == Count(1, ())
    assert encode(np.broadcast_to(0.3, (2, 3)), "e4m3", report=True)[1].inexact == Count(6, (0, 0))


def test_counts_go_on_from_chunk_to_chunk() -> None:
    x = np.ones(3 * CHUNK + 1, np.float32)
    x[[CHUNK - 1, CHUNK, -1]] = 1e-9
    x[CHUNK + 1 : CHUNK + 3] = NAN
    report = encode(x, "e4m3", report=True)[1]
    assert report == Report(
        x.size, Count(3, (CHUNK - 1,)), Count(), Count(), Count(3, (CHUNK - 1,)), Count(2, (CHUNK + 1,))
    )


def test_other_sources() -> None:
    assert encode(np.array([1, 17, 1000, -7]), "e4m3", report=True)[1].inexact == Count(2, (1,))
    assert encode([2**60 + 1, 2**60], "fp32", report=True)[1].inexact == Count(1, (0,))
    assert encode(np.array([True, False]), "e2m1", report=True)[1].inexact == Count()
    report = encode([1.25, 1.0], "e2m1", report=True, rounding="stochastic_a", random_bits=3, n_bits=2)[1]
    assert report.inexact == Count(1, (0,))
