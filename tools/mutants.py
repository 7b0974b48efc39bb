"""Break the codec on purpose, one small change at a time, and see who notices.

    python tools/mutants.py [--each N | --all | --sample] [--results FILE]

Each mutant is judged by the golden vectors alone; those that they do not see, by the tests.  It is
made in a scratch copy: the tree is not touched.  tests/mutation/survivors.txt holds a line for
each mutant that nobody sees: its key, a tab, the reason.  The exit status is 1 where a mutant
survives without a reason, and where one of that list is seen after all.

Source: DeMillo, Lipton and Sayward, Hints on Test Data Selection, 1978.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path

import mutant_vectors
from feather_ref import golden
from mutant_judge import ALIVE, FILES, NO_VECTORS, ROOT, TESTS, VECTORS, Judge, Scratch, Verdict
from mutant_sites import Mutant, mutants_of

LISTS = ROOT / "tests" / "mutation"
EACH, SEED = 25, 1
QUICK = ".e4m3.rne."  # the vectors that judge the sample


# --- lists ------------------------------------------------------------------------------------


def choose(known: Iterable[Mutant], each: int) -> list[Mutant]:
    """`each` mutants of every file, by a fixed seed, in the order of the source."""
    chosen = []
    for file in FILES:
        own = [mutant for mutant in known if mutant.file == file]
        picked = random.Random(f"{SEED} {file}").sample(range(len(own)), min(each, len(own)))
        chosen += [own[i] for i in sorted(picked)]
    return chosen


def sample(known: Iterable[Mutant]) -> list[Mutant]:
    """Those of sample.txt."""
    by_key = {mutant.key: mutant for mutant in known}
    return [by_key[key] for key in (LISTS / "sample.txt").read_text("utf-8").splitlines()]


def reasons() -> dict[str, str]:
    """Why a mutant survives, by key."""
    lines = (LISTS / "survivors.txt").read_text("utf-8").splitlines()
    return dict(line.split("\t") for line in lines if line)


# --- results ----------------------------------------------------------------------------------


def rate(part: int, whole: int) -> str:
    """A share in per cent."""
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "none"


def head() -> str:
    """The commit that is checked out; with a plus where the package, its vectors or its tests differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--", "feather_ref", "data/golden", "tests/ref")
    return (git("rev-parse", "HEAD") or "unknown") + "+" * bool(changed)


def versions() -> str:
    """What a result may depend on."""
    manifest = json.loads((golden.root() / "manifest.json").read_text(encoding="utf-8"))
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "hypothesis", "pytest"))
    return f"vectors {manifest['version']}, Python {platform.python_version()}, {packages}"


def results(found: list[Verdict], why: Mapping[str, str], known: int, vectors: int, made: str) -> str:
    """RESULTS.md; made: at which commit, and how long it took."""
    alive = [verdict for verdict in found if verdict.by == ALIVE]
    equal = sum(why.get(verdict.mutant.key, "").startswith("equivalent") for verdict in alive)
    total = Counter(verdict.mutant.file for verdict in found)
    by = Counter((verdict.mutant.file, verdict.by) for verdict in found)
    converts = [file for file in FILES if file not in NO_VECTORS]
    seen, asked = sum(by[file, VECTORS] for file in converts), sum(total[file] for file in converts)
    lines = [
        "# Mutants",
        "",
        f"Made by `make mutants` (seed {SEED}) {made}.",
        "",
        f"{len(found)} of {known} possible mutants were tried.",
        "",
        f"- By the vectors alone: {rate(seen, asked)}. These are {vectors} files of data/golden, without the digests;",
        f"  {' and '.join(sorted(NO_VECTORS))} is left out here, for the vectors hold codes and not words.",
        f"- By vectors and tests: {rate(len(found) - len(alive), len(found))}.",
        f"- Not counting {equal} that change no result: {rate(len(found) - len(alive), len(found) - equal)}.",
        "",
        "| file | mutants | seen by the vectors | by the tests | by nobody |",
        "|---|---|---|---|---|",
        *(
            f"| {file} | {total[file]} | {'-' if file in NO_VECTORS else by[file, VECTORS]} "
            f"| {by[file, TESTS]} | {by[file, ALIVE]} |"
            for file in FILES
        ),
        "",
        "## Not seen by the vectors",
        "",
        *(f"- `{verdict.mutant.key}`: {verdict.seen}" for verdict in found if missed(verdict)),
        "",
        "## Survivors",
        "",
        *(f"- `{verdict.mutant.key}`: {why.get(verdict.mutant.key, 'unexplained')}" for verdict in alive),
    ]
    return "\n".join(lines) + "\n"


def missed(verdict: Verdict) -> bool:
    """Whether the vectors were asked and only a test saw it."""
    return verdict.by == TESTS and verdict.mutant.file not in NO_VECTORS


# --- the command ------------------------------------------------------------------------------


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description="break the codec on purpose; see whether vectors and tests notice")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--each", type=int, default=EACH, help=f"mutants of a file, by a fixed seed (default {EACH})")
    chosen.add_argument("--all", action="store_true", help="every mutant: takes hours")
    chosen.add_argument("--sample", action="store_true", help="those of tests/mutation/sample.txt, by few vectors")
    parser.add_argument("--results", type=Path, help="write a report in Markdown")
    options = parser.parse_args(arguments)
    if options.each < 1:
        parser.error(f"--each must be at least 1, got {options.each}")
    return options


def main(arguments: list[str]) -> int:
    """Exit status 1 where survivors.txt is not the whole truth."""
    options, start, commit, why = parse(arguments), time.perf_counter(), head(), reasons()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        scratch, cases = Scratch(ROOT, Path(folder) / "scratch"), Path(folder) / "cases"
        known = [mutant for file in FILES for mutant in mutants_of(scratch.package, file)]
        mutants = sample(known) if options.sample else known if options.all else choose(known, options.each)
        vectors = mutant_vectors.write(cases, QUICK if options.sample else "")
        print(f"{len(mutants)} mutants, {vectors} vectors; first without a mutant", flush=True)
        judge = Judge(scratch, cases, with_tests=not options.sample)
        for i, mutant in enumerate(mutants, 1):
            verdict = judge.verdict(mutant, mutant.key in why)
            print(f"{i:4} {verdict.by:8} {mutant.key}  {verdict.seen}", flush=True)
            found.append(verdict)
    minutes = (time.perf_counter() - start) / 60
    alive = {verdict.mutant.key for verdict in found if verdict.by == ALIVE}
    unexplained = alive - why.keys()
    stale = {mutant.key for mutant in mutants if mutant.key in why} - alive
    print(f"{len(found)} mutants, {len(alive)} survived, {minutes:.1f} minutes")
    for title, keys in (("without a reason", unexplained), ("listed as a survivor, but seen", stale)):
        for key in sorted(keys):
            print(f"{title}: {key}")
    if options.results:
        made = f"at commit {commit} in {minutes:.0f} minutes with {versions()}"
        text = results(found, why, len(known), vectors, made)
        options.results.write_text(text, encoding="utf-8", newline="\n")
    return int(bool(unexplained or stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
