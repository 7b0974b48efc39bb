"""How much the judge costs beside the library that it judges, in one run.

    all 2**32 float32 into one format    at most the library's own time and a third, and 60 s
    memory                               at most 300 MB at the peak
    the manifest                         at most 0.2 s
    conform --impl ml_dtypes             at most 30 s

Every figure is printed beside its limit; the exit code is 1 where one is missed.

    python tools/bench_conform.py [--format e4m3] [--part 1]

Source: design of this project.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import ml_dtypes  # noqa: F401 - NumPy knows its dtypes by name then
import numpy as np

from feather_ref.conformance.adapters.ml_dtypes import adapter
from feather_ref.conformance.judge import number_suite
from feather_ref.conformance.vectors import CHUNK

MANIFEST = """
import time
from feather_ref import golden
begin = time.perf_counter()
golden.manifest()
print(time.perf_counter() - begin)
"""


def peer_seconds(run: Any, total: int) -> float:
    """The library alone, on the inputs that the judge gives it; making the inputs is not counted."""
    spent = 0.0
    for start in range(0, total, CHUNK):
        x = np.arange(start, start + CHUNK, dtype=np.uint32).view(np.float32)
        begin = time.process_time()
        run(x)
        spent += time.process_time() - begin
    return spent


def sweep(fmt: str, total: int) -> dict[str, float]:
    """Both, over the first `total` patterns."""
    s = number_suite(f"convert.f32.{fmt}.rne.nonsat.run", exhaustive=True)
    run = adapter().make(s.question)
    peer = peer_seconds(run, total)
    begin, judged = time.process_time(), 0.0
    for batch in s.inputs():
        if batch.offset >= total:
            break
        s.judge(batch, run(*batch.inputs))
    judged = time.process_time() - begin
    report = s.report()
    if report.failed:
        raise SystemExit(str(report))
    return {"peer": peer, "judged": judged, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def answer(*command: str) -> str:
    """What a Python process prints."""
    return subprocess.run([sys.executable, *command], check=True, stdout=subprocess.PIPE, text=True).stdout


def timed(*command: str) -> float:
    """Seconds of a Python process."""
    begin = time.perf_counter()
    answer(*command)
    return time.perf_counter() - begin


def main() -> int:
    """Measure and compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", default="e4m3", help="a float8 format (default: e4m3)")
    parser.add_argument("--part", type=int, default=1, help="one Nth of the inputs, for a quick look")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(sweep(options.format, (1 << 32) // options.part)))
        return 0
    found = json.loads(answer(__file__, "--child", "--format", options.format, "--part", str(options.part)))
    manifest = min(float(answer("-c", MANIFEST)) for _ in range(3))
    rows = [
        (f"ml_dtypes alone, {options.format}, s", found["peer"], float("inf")),
        ("judged, times that", found["judged"] / found["peer"], 4 / 3),
        ("judged, s", found["judged"], 60),
        ("peak memory, MB", found["megabytes"], 300),
        ("manifest, s", manifest, 0.2),
        ("conform --impl ml_dtypes, s", timed("-m", "feather_ref", "conform", "--impl", "ml_dtypes"), 30),
    ]
    for name, value, limit in rows:
        print(f"{name:32} {value:8.2f}   limit {limit:6.2f}{'   MISSED' if value > limit else ''}")
    return int(any(value > limit for _, value, limit in rows))


if __name__ == "__main__":
    sys.exit(main())
