"""Judge mutants in a scratch copy of the project: by the golden vectors, then by the tests.

The vectors see what a conversion gives; the tests also see errors, reports and words.  A mutant
that neither sees has survived.  One that takes far longer than the code as it is counts as seen.

Source: DeMillo, Lipton and Sayward, Hints on Test Data Selection, 1978.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import mutant_vectors
from mutant_sites import Mutant

ROOT = Path(__file__).resolve().parent.parent
FILES = ("rounding.py", "policy.py", "_parts.py", "codec.py", "_fast.py", "packing.py")
NO_VECTORS = frozenset({"packing.py"})  # the vectors hold codes, not words
ALIVE, VECTORS, TESTS = "survived", "vectors", "tests"
Tests = tuple[str, ...]

# The tests, from cheap to dear: most of what the vectors do not see are errors, which the first ones see in seconds.
CHEAP: Tests = (
    "test_survivors.py", "test_policy.py", "test_codec_errors.py", "test_api.py", "test_report.py",
    "test_regressions.py", "test_words.py",
)  # fmt: skip
DEAR: Tests = (
    "test_fast.py", "test_packing.py", "test_tensors.py", "test_literals.py", "test_codec_sources.py",
    "test_codec_properties.py", "test_strategies.py", "test_codec_exhaustive.py",
)  # fmt: skip
# Not all of the exhaustive ones: they take as long as the rest together.
KEPT = "not test_wide_targets and (not test_policy_matrix or e4m3] or e8m0 or uint4 or nf4 or binary8p4uf)"


@dataclass(frozen=True)
class Verdict:
    """Who saw a mutant (ALIVE: nobody), and what was seen."""

    mutant: Mutant
    by: str
    seen: str


def paths(names: Iterable[str], files: Iterable[str] = ()) -> list[str]:
    """The doctests of files of the package, then files of tests."""
    return [*(f"feather_ref/{file}" for file in files), *(f"tests/ref/{name}" for name in names)]


class Scratch:
    """A copy of what the judges need, in which one mutant at a time is put."""

    def __init__(self, origin: Path, folder: Path) -> None:
        """Copy the project `origin` to `folder`."""
        self.folder, self.package = folder, folder / "feather_ref"
        for name in ("feather_ref", "tests/ref"):
            shutil.copytree(origin / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "tests/conftest.py", "tests/helpers.py"):
            shutil.copy(origin / name, folder / name)
        self.clock = int(time.time())

    def put(self, file: str, source: bytes) -> None:
        """Write a file of the package, with a time of its own: a compiled copy must not outlive it."""
        self.clock += 10
        (self.package / file).write_bytes(source)
        os.utime(self.package / file, (self.clock, self.clock))

    def run(self, words: list[str], timeout: float | None) -> tuple[int, str]:
        """Exit status and the line that says most of a Python program that loads this package."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        try:
            done = subprocess.run(
                [sys.executable, *words], cwd=self.folder, env=environment, capture_output=True, text=True,
                timeout=timeout, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return 1, "too slow"
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        return done.returncode, (failed or lines or [""])[-1]


class Judge:
    """The two judges, and how long they take with the code as it is."""

    def __init__(self, scratch: Scratch, vectors: Path, with_tests: bool = True) -> None:
        """Run both without a mutant; RuntimeError where they are not content.

        vectors: a file written by `mutant_vectors.write`.
        """
        self.scratch, self.vectors, self.with_tests = scratch, vectors, with_tests
        self.limits: dict[str, float] = {}
        judges: dict[str, Callable[[], str | None]] = {VECTORS: self.by_vectors}
        if with_tests:
            judges[TESTS] = partial(self.by_tests, paths((*CHEAP, *DEAR), FILES))
        for name, judge in judges.items():
            start = time.perf_counter()
            seen = judge()
            if seen is not None:
                raise RuntimeError(f"{name}: not content without a mutant: {seen}")
            self.limits[name] = 3 * (time.perf_counter() - start) + 30

    def by_vectors(self) -> str | None:
        """What the vectors see."""
        words = [mutant_vectors.__file__, str(self.vectors), str(self.scratch.folder)]
        status, seen = self.scratch.run(words, self.limits.get(VECTORS))
        if status not in (0, 1):
            raise RuntimeError(f"{Path(mutant_vectors.__file__).name} gave {status}: {seen}")
        return seen if status else None

    def by_tests(self, tests: list[str]) -> str | None:
        """What the tests see."""
        words = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-k", KEPT, *tests]
        status, seen = self.scratch.run(words, self.limits.get(TESTS))
        if status not in (0, 1, 2, 4):  # 2 and 4: the mutant cannot even be imported
            raise RuntimeError(f"pytest gave {status}: {seen}")
        return seen if status else None

    def verdict(self, mutant: Mutant, listed: bool) -> Verdict:
        """Put the mutant in, ask the judges until one sees it, take it out again.

        listed: known to survive, so the cheap tests do.
        """
        source = (self.scratch.package / mutant.file).read_bytes()
        self.scratch.put(mutant.file, mutant.apply(source))
        try:
            if mutant.file not in NO_VECTORS and (seen := self.by_vectors()) is not None:
                return Verdict(mutant, VECTORS, seen)
            dear = () if listed else DEAR
            for tests in filter(None, (paths(CHEAP, [mutant.file]), paths(dear))) if self.with_tests else ():
                if (seen := self.by_tests(tests)) is not None:
                    return Verdict(mutant, TESTS, seen)
            return Verdict(mutant, ALIVE, "")
        finally:
            self.scratch.put(mutant.file, source)
