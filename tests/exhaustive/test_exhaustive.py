"""A part of `make exhaustive` on every run: each 4099th float32, and all around what decides.

The full sweep is sweep.py; its last log is in results/.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.progress import Progress

from exhaustive import pairs, sweep
from exhaustive.sweep import CASES, GCC, Array, Case, Result, compare, ours, theirs

E4M3 = CASES[0]
STRIDE = 4099  # prime, so that all low bits come up


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    if GCC is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have gcc")
        pytest.skip("needs gcc")
    yield sweep.build(str(tmp_path_factory.mktemp("ref")))


def around_boundaries() -> Array:
    """The upper 13 bits of float32, sign, exponent and four of the mantissa, and two steps to either side.

    Every value and midpoint of the formats here has at most five significant bits, so that it is among them.
    """
    tops = np.arange(1 << 13, dtype=np.uint32) << np.uint32(19)
    subnormal = np.uint32(1) << np.arange(23, dtype=np.uint32)
    points = np.concatenate([tops, subnormal, subnormal | np.uint32(1 << 31)])
    return np.concatenate([points + np.uint32(d % (1 << 32)) for d in range(-2, 3)])


def few() -> list[Array]:
    """The inputs of the quick run."""
    strided = np.arange(0, 1 << 32, STRIDE, dtype=np.uint64).astype(np.uint32)
    return [strided, around_boundaries()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_code_differs(case: Case, library: ctypes.CDLL) -> None:
    found = compare(few(), ours(case), theirs(library, case))
    assert found.mismatches == 0, found.first
    assert found.inputs == -(-(1 << 32) // STRIDE) + 5 * (8192 + 46)


# By hand from the standards' tables: float32 bits and the code.
KNOWN = [
    ("e4m3-saturate", 0x43E80000, 0x7E),  # 464, half way beyond 448: to even is 448
    ("e4m3-nonsaturating", 0x43E80000, 0x7E),
    ("e4m3-nonsaturating", 0x43E80001, 0x7F),
    ("e4m3-nonsaturating", 0xFF800000, 0xFF),
    ("e4m3-saturate", 0xFF800000, 0xFE),
    ("e4m3-saturate", 0xFFC00000, 0x7F),
    ("e4m3-saturate", 0x3A800000, 0x00),  # 2**-10, half the least subnormal
    ("e4m3-saturate", 0x3A800001, 0x01),
    ("e4m3-saturate", 0xBC700000, 0x88),  # -7.5 * 2**-9, a tie that carries into the normals
    ("e5m2-saturate", 0x47700000, 0x7B),  # 61440 is Inf to nearest
    ("e5m2-nonsaturating", 0x47700000, 0x7C),
    ("e5m2-nonsaturating", 0x476FFFFF, 0x7B),
    ("e5m2-nonsaturating", 0xFF800000, 0xFC),
    ("e5m2-saturate", 0x7F800001, 0x7F),
    ("e2m1-saturate", 0x3E800000, 0x00),  # 0.25
    ("e2m1-saturate", 0xBF400000, 0x0A),  # -0.75: to even is -1
    ("e2m1-saturate", 0x40A00000, 0x06),  # 5: to even is 4
    ("e2m1-saturate", 0xFF800001, 0x07),
    ("e8m0-saturate-abs", 0x3F800000, 0x7F),
    ("e8m0-saturate-abs", 0x3FC00000, 0x80),  # 1.5: 7F is odd
    ("e8m0-saturate-abs", 0xC0400000, 0x80),  # 3: 80 is even
    ("e8m0-saturate-abs", 0x00600000, 0x00),  # 1.5 * 2**-127
    ("e8m0-saturate-abs", 0x00600001, 0x01),
    ("e8m0-saturate-abs", 0x7F800000, 0xFE),
    ("e8m0-nonsaturating-nan", 0x7F400000, 0xFE),  # 1.5 * 2**127
    ("e8m0-nonsaturating-nan", 0x7F400001, 0xFF),
    ("e8m0-nonsaturating-nan", 0x80000000, 0x00),
    ("e8m0-nonsaturating-nan", 0x80000001, 0xFF),
]  # fmt: skip


@pytest.mark.parametrize(("name", "bits", "code"), KNOWN)
def test_the_c_program_itself(name: str, bits: int, code: int, library: ctypes.CDLL) -> None:
    case = next(case for case in CASES if str(case) == name)
    assert theirs(library, case)(np.array([bits], np.uint32)) == code


def test_one_wrong_code_is_found(library: ctypes.CDLL) -> None:
    right = ours(E4M3)

    def wrong(bits: Array) -> Array:
        return right(bits) ^ (bits == 0x3F800000).astype(np.uint8)

    chunks = [np.arange(at, at + 4, dtype=np.uint32) for at in (0x3F7FFFFC, 0x3F7FFFFE)]
    found = compare(chunks, wrong, theirs(library, E4M3))
    assert found == Result(8, 1, found.sha256, ["3F800000: got 39, want 38"])


@pytest.mark.parametrize("rule", pairs.RULES)
def test_a_part_of_the_pairs_of_nvfp4(rule: str) -> None:
    with Progress(disable=True) as progress:
        found = pairs.prove(rule, progress, every=1009)
    assert (found["pairs"], found["mismatches"], found["first"]) == (333, 0, [])


@pytest.mark.parametrize("column", [0, 1])
def test_one_wrong_scale_or_code_of_a_pair_is_found(column: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right = pairs.our_codes

    def wrong(amax: Array, whole: Array, rule: str) -> Array:
        codes = right(amax, whole, rule)
        codes[5, column] ^= 1
        return codes

    monkeypatch.setattr(pairs, "our_codes", wrong)
    with Progress(disable=True) as progress:
        found = pairs.prove("nvfp4_exact", progress, every=40_009)
    assert (found["mismatches"], len(found["first"])) == (1, 1)


def test_ties_of_pairs_by_hand() -> None:
    """448 * 1 / 1 is a scale; 448 * 1.0625 / 1.75 = 272, half way between 256 and 288."""
    assert not pairs.is_tie(0x3F80, 0x3F80)
    assert pairs.is_tie(0x3F88, 0x3FE0)


def test_pairs_and_their_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash or a code that differs is status 1."""
    right = {"pairs": 1, "mismatches": 0, "ties": 0, "sha256": "00", "is the digest's": True, "first": []}
    wrong = {"mismatches": 1, "first": ["(1, 2): got 00, want 01"]}
    for change, status in (({}, 0), (wrong, 1), ({"is the digest's": False}, 1)):
        monkeypatch.setattr(pairs, "prove", lambda rule, progress, change=change: right | change)
        log = tmp_path / "log.json"
        assert pairs.main(["--log", str(log), "nvfp4_exact"]) == status
        assert '"nvfp4_exact": {' in log.read_text(encoding="ascii")
    with pytest.raises(SystemExit):
        pairs.main(["nvfp4_best"])


def test_an_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        sweep.main(["e4m3-clamp"])
    assert "unknown case e4m3-clamp; known: e4m3-saturate, " in capsys.readouterr().err


@pytest.mark.parametrize(("fault", "status"), [(0, 0), (1, 1)])
def test_the_run_and_its_log(
    fault: int, status: int, library: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole driver on the first 2**16 inputs."""
    right = sweep.ours
    monkeypatch.setattr(sweep, "ALL", 1 << 16)
    monkeypatch.setattr(sweep, "CHUNK", 1 << 14)
    monkeypatch.setattr(sweep, "ours", lambda case: lambda bits: right(case)(bits) ^ np.uint8(fault))
    log = tmp_path / "log.json"
    assert sweep.main(["--log", str(log), "e2m1-saturate"]) == status
    text = log.read_text(encoding="ascii")
    assert f'"mismatches": {fault << 16}' in text and '"inputs": 65536' in text and '"commit": "' in text
