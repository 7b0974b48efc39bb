"""compute-sanitizer over every kernel, on small shapes: python tools/sanitize_kernels.py [TOOL ...]

The self-test of some formats runs once as it is, which fills the cache, and once under each tool, by
default memcheck and racecheck.  Status 1 where a tool finds an error or a result is wrong.

Source: NVIDIA Compute Sanitizer documentation.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from feather_kernels import selftest

TOOLS = ("memcheck", "racecheck")
FORMATS = ("e4m3", "e3m2", "e2m1", "fp16", "uf11", "int8", "nf4")  # every way to load, convert and store
BLOCKS = ("mxfp8_e4m3", "nvfp4")
WORK = "work"


def main(tools: list[str]) -> int:
    """Run each tool, and say what it found."""
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(sanitizer):
        print("compute-sanitizer is not there: it comes with the CUDA toolkit", file=sys.stderr)
        return 2
    worst = subprocess.run([sys.executable, __file__, WORK, "8"], check=False).returncode
    running = {}
    for tool in tools:
        command = [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, __file__, WORK, "1"]
        running[tool] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for tool, process in running.items():
        lines = process.communicate()[0].splitlines()
        said = [line for line in lines if "SUMMARY" in line or "checks" in line]
        print(f"{tool}: status {process.returncode}: {'; '.join(said)}", flush=True)
        if process.returncode:
            print("\n".join(lines[:40]))
            worst = 1
    return worst


def work(processes: int) -> int:
    """The checks of each format."""
    tasks = [(selftest.of_format, name) for name in FORMATS] + [(selftest.of_blocks, name) for name in BLOCKS]
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            running = [pool.submit(function, name) for function, name in tasks]
            found = [check for each in running for check in each.result()]
    else:
        found = [check for function, name in tasks for check in function(name)]
    wrong = [name for name, right in found if not right]
    print(f"{len(found)} checks, {len(wrong)} wrong {', '.join(wrong)}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(work(int(sys.argv[2])) if sys.argv[1:2] == [WORK] else main(sys.argv[1:] or [*TOOLS]))
