"""Run tests/kernels on the GPU that is here, in many processes, and write down what came of it.

    python tools/gpu_suite.py [--arch 75] [--processes 16] [-o FILE] [-- ARGUMENTS OF PYTEST]

Most of the time goes to compiling, so the tests are shared among processes, those that compile most first,
and the processes share a cache of kernels that is made for the run, in memory where the system has /dev/shm.
FILE gets one more line of JSON: the machine, the sources by their hash, the architecture that was compiled
for, how many tests passed, which failed, why others were skipped, seconds, and how many kernels were compiled.
The status is pytest's: 0 where all passed.

Source: design of this project; documentation of pytest and pytest-xdist.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest

ROOT = Path(__file__).parents[1]
TESTS, KERNELS = ROOT / "tests" / "kernels", ROOT / "kernels" / "feather_kernels"
MEMORY = Path("/dev/shm")
SELECTED = "not slow and not network and not toolkit"


class Outcome:
    """A plugin of pytest that counts, in the process that sees what all others report."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self.passed = 0
        self.failed: list[str] = []
        self.skipped: Counter[str] = Counter()
        self.slowest: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test is set up, called and torn down: it passes when called, and may fail or be skipped in all three."""
        name = report.nodeid.split("/")[-1].removesuffix("@large")
        self.slowest[name] = self.slowest.get(name, 0.0) + report.duration
        if report.failed:
            self.failed.append(name)
        elif report.skipped:
            self.skipped[_reason(report)] += 1
        elif report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported has no tests that fail."""
        if report.failed:
            self.failed.append(report.nodeid)

    def facts(self) -> dict[str, Any]:
        """What goes into the file."""
        longest = sorted(self.slowest.items(), key=lambda item: -item[1])[:10]
        return {
            "passed": self.passed,
            "failed": sorted(set(self.failed)),
            "skipped": dict(sorted(self.skipped.items())),
            "slowest": {name: round(seconds, 1) for name, seconds in longest},
        }


def _reason(report: pytest.TestReport) -> str:
    """Why a test was skipped: what its mark or its call says."""
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return said.removeprefix("Skipped: ")


def sources() -> str:
    """A hash of what was tested: the kernels and their tests."""
    files = sorted([*KERNELS.glob("*.py"), *TESTS.glob("*.py")])
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


def commit() -> str | None:
    """The commit that is checked out, with a + where files were changed; None outside a repository."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty=+"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


def options(processes: int) -> list[str]:
    """The arguments of pytest: not what is slow without a GPU too; pytest-benchmark refuses several processes."""
    chosen = ["-q", "-m", SELECTED, "-p", "no:cacheprovider", "-p", "no:benchmark", str(TESTS)]
    return [*chosen, "-n", str(processes), "--dist", "loadgroup"] if processes > 1 else chosen


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--arch", help="An older architecture, as 75, whose PTX the driver takes; the GPU's own otherwise.")
@click.option("--processes", default=min(16, os.cpu_count() or 1), show_default=True, help="Each has some GPU memory.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Gets a line of JSON more.")
@click.argument("arguments", nargs=-1)
def main(arch: str | None, processes: int, output: Path | None, arguments: tuple[str, ...]) -> None:
    """Run the tests of the kernels on this GPU."""
    if processes > 1 and find_spec("xdist") is None:
        raise click.ClickException("several processes need pytest-xdist: pip install 'feather-ref[test]'")
    os.environ["FEATHER_TARGET"] = "gpu"
    if arch is not None:
        os.environ["FEATHER_ARCH"] = arch
    from feather_kernels import bench, driver, gpu  # noqa: PLC0415 - it looks at FEATHER_TARGET when it is loaded

    try:
        device = gpu.current_device()
        major, minor = gpu.capability(device)
        machine = bench.machine()
    except (driver.GpuError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    outcome, begin = Outcome(), time.perf_counter()
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as cache:
        os.environ["FEATHER_CACHE"] = cache
        status = int(pytest.main([*options(processes), *arguments], plugins=[outcome]))
        kernels = len([*Path(cache).glob("*.txt")])
    seconds = round(time.perf_counter() - begin)
    told = {"machine": machine, "commit": commit(), "sources": sources(), "target": f"sm_{major}{minor}"}
    line = {**told, **outcome.facts(), "status": status, "seconds": seconds, "processes": processes, "kernels": kernels}
    click.echo(
        f"sm_{major}{minor} on {machine['gpu']}: {outcome.passed} passed, {len(line['failed'])} failed, "
        f"{sum(outcome.skipped.values())} skipped, {kernels} kernels compiled, {seconds} s"
    )
    if output is not None:
        with output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    sys.exit(status)


if __name__ == "__main__":
    main()
