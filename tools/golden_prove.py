"""The second algorithm: whole domains of the golden files through the codec's integer arithmetic.

Every `must` file, and every decode table; a file of 2**32 inputs takes half a minute or more.

Source: design of this project; data/golden/README.md, Provenance.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref import codec, golden
from feather_ref.formats import Format
from golden_digests import digest_line
from golden_manifest import VERSION
from golden_vectors import Vector

STEP = golden.CHUNK
STARTS = range(0, 1 << 32, STEP)
Array = NDArray[Any]
Result = dict[str, Any]


def provable(vectors: Iterable[Vector]) -> list[Vector]:
    """The vectors whose whole domain is sent: each file of level must once, and the decode tables."""
    return [
        vector
        for vector in vectors
        if (vector.op == "decode" and vector.shape == "tab")
        or (vector.level == "must" and vector.shape in ("run", "dig") and vector.src == "f32")
    ]


def prove(vector: Vector, folder: Path) -> Result:
    """id, inputs, how many the codec answers otherwise, SHA-256 of its answers, seconds."""
    start = time.perf_counter()
    judged = {"tab": _table, "run": _runs, "dig": _digest}[vector.shape](vector, folder)
    digest, inputs, mismatches = hashlib.sha256(), 0, 0
    for results, wrong in judged:
        digest.update(results.astype(results.dtype.newbyteorder("<")).tobytes())
        inputs += results.size
        mismatches += wrong
    seconds = round(time.perf_counter() - start, 1)
    return {
        "id": vector.id,
        "inputs": inputs,
        "mismatches": mismatches,
        "sha256": digest.hexdigest(),
        "seconds": seconds,
    }


def _table(vector: Vector, folder: Path) -> Iterator[tuple[Array, int]]:
    """float32 patterns of every code, NaN canonical."""
    wanted = golden.load_table(vector.id, folder).view(np.uint32)
    got = codec.decode(np.arange(1 << vector.row.bits), vector.row, np.float32).view(np.uint32)
    yield got, int(np.count_nonzero(got != wanted))


def _codes(vector: Vector, start: int) -> Array:
    """The codec's answers to one chunk of float32 patterns; where nothing is said about NaN, the greatest value."""
    policies = {"nan": "canonical" if vector.row.has_nan else "max"} | vector.question.policies
    x = np.arange(start, start + STEP, dtype=np.uint32).view(np.float32)
    return codec.encode(x, vector.row, **policies)


def _runs(vector: Vector, folder: Path) -> Iterator[tuple[Array, int]]:
    """All 2**32 float32, against the lines."""
    runs = golden.load_runs(vector.id, folder)
    is_nan = nan_codes(vector.row)
    for start in STARTS:
        got = _codes(vector, start)
        wrong = 0
        first, last = np.searchsorted(runs.hi, [start, start + STEP - 1])
        for at in range(first, last + 1):  # line by line: comparing with one code is fast
            lo, hi = max(int(runs.lo[at]) - start, 0), min(int(runs.hi[at]) - start, STEP - 1)
            wrong += count_wrong(got[lo : hi + 1], int(runs.z[at]), int(runs.j[at]), is_nan)
        yield got, wrong


def nan_codes(row: Format) -> NDArray[np.bool_]:
    """Which codes are NaN."""
    return np.array([row.is_nan(code) for code in range(1 << row.bits)])


def count_wrong(got: Array, z: int, j: int, is_nan: NDArray[np.bool_]) -> int:
    """How many codes do not pass for result z and judge digit j."""
    if j == 0:
        return 0
    bad = got[got != z]
    return int(np.count_nonzero(~is_nan[bad] if j == 2 else bad != z + 1 if j == 3 else bad != z))


def _digest(vector: Vector, folder: Path) -> Iterator[tuple[Array, int]]:
    """All 2**32 float32, chunk by chunk; a wrong chunk counts as many inputs."""
    lines = (folder / golden.find(vector.id, folder)["path"]).read_text(encoding="ascii").splitlines(keepends=True)
    for chunk, line in enumerate(lines):
        got = _codes(vector, chunk * STEP)
        yield got, STEP * (digest_line(chunk, got) != line)


def write_log(path: Path, results: list[Result]) -> None:
    """The log that is kept with the repository."""
    folder = Path(__file__).parent
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=False)
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", "feather_ref", "tools", "data/golden"],
        cwd=folder.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    log = {
        "commit": commit.stdout.strip(),
        "changed since": bool(changed.stdout.strip()),
        "vectors": VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "files": {result.pop("id"): result for result in (dict(result) for result in results)},
    }
    path.write_text(json.dumps(log, indent=1) + "\n", encoding="ascii", newline="\n")
