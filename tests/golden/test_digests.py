"""Every digest of data/golden: its form, one seeded chunk by the oracle, and one by the codec.

What takes long is asked in part: the oracle one of the six digests of stochastic rounding, the codec two
of the six of fma.
"""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

import feather_ref as fr
import golden_digests
import golden_tables
import golden_vectors
from feather_ref import arith, golden
from golden.golden_tools import ROOT, rows_of

DIGESTS = [row["id"] for row in rows_of("dig")]
VECTORS = {vector.id: vector for vector in golden_vectors.vectors() if vector.shape == "dig"}
STOCHASTIC = [name for name in DIGESTS if "n=8" in name]
SEED = 20260101
FMA = [name for name in DIGESTS if name.startswith("fma.")]
ASKED = [name for name in DIGESTS if name not in STOCHASTIC] + random.Random(SEED).sample(STOCHASTIC, 1)
SECOND = [name for name in DIGESTS if name not in FMA] + random.Random(SEED).sample(FMA, 2)


def lines_of(name: str) -> list[str]:
    return (ROOT / golden.find(name)["path"]).read_text(encoding="ascii").splitlines(keepends=True)


def seeded(name: str, seed: int) -> int:
    return random.Random(f"{seed} {name}").randrange(len(lines_of(name)))


def test_the_manifest_has_what_the_tool_makes() -> None:
    assert list(VECTORS) == DIGESTS


@pytest.mark.parametrize("name", DIGESTS)
def test_form(name: str) -> None:
    row, found = golden.find(name), golden.load_digests(name)
    assert re.fullmatch(r"([0-9A-F]{4} [0-9A-F]{7} [0-9a-f]{8} [0-9a-f]{64}\n)+", "".join(lines_of(name)))
    assert found.chunk.tolist() == list(range(row["lines"]))
    assert int(found.count.sum()) == row["domain"]
    assert (found.count[:-1] == golden.CHUNK).all()


@pytest.mark.parametrize("name", ASKED)
def test_one_chunk_by_the_oracle(name: str) -> None:
    assert golden_digests.wrong_chunks(VECTORS[name], lines_of(name), [seeded(name, SEED)]) == []


def by_the_codec(name: str, chunk: int) -> np.ndarray:
    """The results of a chunk by integer arithmetic, NaN canonical."""
    asked = golden.question(name)
    if asked.op == "decode":
        return fr.decode(np.arange(golden.find(name)["domain"]), asked.source, np.float32).view(np.uint32)
    fmt, policies = fr.get_format(asked.target), dict(asked.policies)
    if asked.op != "convert":
        codes = getattr(arith, asked.op)(*golden_tables.all_operands(asked), fmt, **policies)
        if asked.op == "compare":
            return codes
        return np.where(fr.isnan(codes, fmt), fmt.canonical_nan, codes).astype(codes.dtype)
    x: Any = np.arange(chunk << 24, (chunk + 1) << 24, dtype=np.uint32)
    if asked.n_bits is None:
        return fr.encode(x.view(np.float32), fmt, **policies)
    halves = (x & 0xFFFF).astype(np.uint16).view(np.float16)
    return fr.encode(halves, fmt, random_bits=x >> 16, n_bits=asked.n_bits, **policies)


@pytest.mark.parametrize("name", SECOND)
def test_one_chunk_by_the_codec(name: str) -> None:
    chunk = seeded(name, SEED + 1)
    results = by_the_codec(name, chunk)
    assert results.dtype == golden.result_dtype(name)
    assert golden_digests.digest_line(chunk, results) == lines_of(name)[chunk]


def test_a_wrong_chunk_is_found() -> None:
    name = "divide.e4m3.e4m3.rne.sat.dig"
    line = lines_of(name)[0]
    assert golden_digests.wrong_chunks(VECTORS[name], [line.replace(line[-3], "x")], [0]) == [
        f"{name}: chunk 0000 differs"
    ]
    assert golden_digests.wrong_chunks(VECTORS[name], [], [0]) == [f"{name}: 0 lines, not 1"]
