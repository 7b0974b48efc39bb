"""Every run file of data/golden: its form, and its lines against the exact oracle and the codec.

Both ends and the middle of every line are asked.  Results rise or fall with the input between the
breaks, so that equal ends make a whole line right, and a file whose neighbouring lines differ is
the only one with these answers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import feather_ref as fr
from feather_ref import golden, oracle
from golden.golden_tools import ROOT, rows_of

RUNS = rows_of("run")
WIDE_SAMPLE = 2000  # lines of a 16-bit target that the oracle is asked for, at three points; the codec takes all
BY_FORMAT: dict[str, list[dict[str, Any]]] = defaultdict(list)
for _row in RUNS:
    BY_FORMAT[_row["out"] if not _row["out"].startswith("binary") else _row["out"][:7]].append(_row)
MXINT8_UNUSED = 0x80  # MX 1.0: may be left unused


def policies_of(row: dict[str, Any]) -> dict[str, Any]:
    return golden.question(row["id"]).policies


def points(runs: golden.Runs) -> np.ndarray:
    """Lines by three: lo, middle, hi."""
    return np.stack([runs.lo, (runs.lo + runs.hi) // 2, runs.hi], axis=1)


def unsaid(row: dict[str, Any], fmt: fr.Format, bits: np.ndarray) -> np.ndarray:
    """Where no standard, row or policy says what to do: j is 0.  By the README, from the float32 bits."""
    policies = policies_of(row)
    magnitude, negative = bits & 0x7FFFFFFF, bits >> 31 == 1
    nan = magnitude > 0x7F800000
    found = nan & (not fmt.has_nan and "nan" not in policies)
    silent = not fmt.signed and fmt.negative == "nan" and "negative" not in policies
    return found | (negative & (magnitude != 0) & ~nan & (silent and row["overflow"] != "satnone"))


@pytest.mark.parametrize("name", BY_FORMAT)
def test_form(name: str) -> None:
    """Upper-case hex of fixed width, in order, without a gap, no two lines that could be one."""
    for row in BY_FORMAT[name]:
        data = (ROOT / row["path"]).read_bytes()
        width = (fr.get_format(golden.question(row["id"]).target).bits + 3) // 4
        assert re.fullmatch(rb"([0-9A-F]{8} [0-9A-F]{8} [0-9A-F]{%d} [0-3]\n)+" % width, data), row["id"]
        runs = golden.load_runs(row["id"])
        assert (runs.lo[0], runs.hi[-1]) == (0, 0xFFFFFFFF)
        assert (runs.lo <= runs.hi).all() and (runs.lo[1:] == runs.hi[:-1] + 1).all()
        assert ((runs.z[1:] != runs.z[:-1]) | (runs.j[1:] != runs.j[:-1])).all(), row["id"]
        assert runs.lo.size == row["lines"]


@pytest.mark.parametrize("name", BY_FORMAT)
def test_codec(name: str) -> None:
    """The integer algorithm, and the judge digits."""
    for row in BY_FORMAT[name]:
        asked, runs = golden.question(row["id"]), golden.load_runs(row["id"])
        fmt, bits = fr.get_format(asked.target), points(runs)
        policies = dict(asked.policies)
        if not fmt.has_nan:
            policies.setdefault("nan", "max")
        x = bits.astype(np.uint32).view(np.float32)
        if asked.n_bits:
            policies |= {"random_bits": np.full(x.shape, asked.random, np.uint32), "n_bits": asked.n_bits}
        codes = fr.encode(x, fmt, **policies)
        open_here = unsaid(row, fmt, bits)
        np.testing.assert_array_equal(np.where(open_here, 0, codes), np.broadcast_to(runs.z[:, None], codes.shape))
        spare = 3 if row["out"] == "mxint8" else 1
        digits = np.where(fr.isnan(codes, fmt) & ("nan" not in asked.policies), 2, 1)
        digits = np.where((codes == MXINT8_UNUSED) & (digits == 1), spare, digits)
        np.testing.assert_array_equal(np.where(open_here, 0, digits), np.broadcast_to(runs.j[:, None], codes.shape))


@pytest.mark.parametrize("name", BY_FORMAT)
def test_oracle(name: str) -> None:
    """The exact answer at both ends and the middle of every line; files with a question in common ask it once."""
    source = fr.get_format("fp32")
    answers: dict[tuple[Any, ...], int] = {}
    for row in BY_FORMAT[name]:
        asked, runs = golden.question(row["id"]), golden.load_runs(row["id"])
        fmt = fr.get_format(asked.target)
        greatest = np.float32(fmt.max).view(np.uint32)
        policies = {**asked.policies, "n_bits": asked.n_bits, "random": asked.random, "source": source}
        inside = (fmt, *sorted((key, value) for key, value in policies.items() if key not in ("overflow", "source")))
        lines = np.flatnonzero(runs.j)
        if fmt.bits > 12:
            chosen = np.random.default_rng(fmt.bits).choice(lines, WIDE_SAMPLE, replace=False)
            lines = np.unique(np.concatenate([chosen, lines[:3], lines[-3:]]))
        for line in lines.tolist():
            lo, hi, z = int(runs.lo[line]), int(runs.hi[line]), int(runs.z[line])
            for pattern in {lo, (lo + hi) // 2, hi}:
                # up to the greatest value the overflow policy is not asked; the sign of unsigned rows is
                plain = pattern & 0x7FFFFFFF <= greatest and (fmt.signed or pattern < 1 << 31)
                question = (*inside, pattern, None if plain else row["overflow"])
                if question not in answers:
                    answers[question] = oracle.encode(oracle.decode(pattern, source), fmt, **policies)
                assert answers[question] == z, f"{row['id']}: {pattern:08X} gives {answers[question]:X}, not {z:X}"
