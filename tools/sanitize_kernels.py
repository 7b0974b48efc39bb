"""compute-sanitizer over every kernel, on small shapes: python tools/sanitize_kernels.py [TOOL ...]

The self-test of some formats runs once as it is, which fills the cache, and once under each tool, by
default memcheck and racecheck; each format in a process of its own, several at once.  Status 1 where a tool
finds an error or a result is wrong.

Source: NVIDIA Compute Sanitizer documentation.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

from feather_kernels import selftest

TOOLS = ("memcheck", "racecheck")
FORMATS = ("e4m3", "e3m2", "e2m1", "fp16", "uf11", "int8", "nf4")  # every way to load, convert and store
BLOCKS = ("mxfp8_e4m3", "nvfp4")
PROCESSES = min(16, os.cpu_count() or 1)
WORK = "work"


class Found(NamedTuple):
    """What a tool said of a format: status, checks and wrong ones of the self-test, errors, and all its lines."""

    tool: str
    name: str
    status: int
    checks: int
    wrong: int
    errors: int
    text: str


def main(tools: list[str]) -> int:
    """Run each tool over each format, and say what was found."""
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(sanitizer):
        print("compute-sanitizer is not there: it comes with the CUDA toolkit", file=sys.stderr)
        return 2
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        worst = sum([number_wrong(found) for found in pool.map(selftest.of_name, (*FORMATS, *BLOCKS))])
    print(f"{len((*FORMATS, *BLOCKS))} formats, {worst} wrong", flush=True)
    with ThreadPoolExecutor(PROCESSES) as pool:
        running = pool.map(lambda what: under(sanitizer, *what), itertools.product(tools, (*FORMATS, *BLOCKS)))
        every = list(running)
    for tool in tools:
        mine = [found for found in every if found.tool == tool]
        checks, wrong = sum(found.checks for found in mine), sum(found.wrong for found in mine)
        errors = sum(found.errors for found in mine)
        print(f"{tool}: {len(mine)} formats, {checks} checks, {wrong} wrong, {errors} errors or hazards", flush=True)
        for found in mine:
            if found.status or found.wrong or found.errors or not found.checks:
                worst += 1
                print(f"{tool} {found.name}: status {found.status}\n{found.text}")
    return int(worst > 0)


def number_wrong(found: Iterable[selftest.Check]) -> int:
    """How many checks do not hold."""
    return sum(not right for _, right in found)


def under(sanitizer: str, tool: str, name: str) -> Found:
    """The self-test of a format under a tool."""
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, __file__, WORK, name]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    counts = re.search(r"^(\d+) checks, (\d+) wrong", done.stdout, re.MULTILINE)
    checks, wrong = map(int, counts.groups()) if counts else (0, 0)
    errors = sum(map(int, re.findall(r"SUMMARY: (\d+)", done.stdout)))
    return Found(tool, name, done.returncode, checks, wrong, errors, "\n".join(done.stdout.splitlines()[:40]))


def work(name: str) -> int:
    """The checks of one format."""
    found = selftest.of_name(name)
    print(f"{len(found)} checks, {number_wrong(found)} wrong")
    return int(number_wrong(found) > 0)


if __name__ == "__main__":
    sys.exit(work(sys.argv[2]) if sys.argv[1:2] == [WORK] else main(sys.argv[1:] or [*TOOLS]))
