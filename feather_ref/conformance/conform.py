"""conform: a library against every suite that it can answer, and the report of it.

A report is JSON lines: a header, one row a suite, a row of traits, and a footer.  Without a footer
it is no report, so that one which was cut off cannot pass for a whole one; shards of one run are
merged, if they are all there and were made alike.

    {"kind": "header", "impl": ..., "versions": {...}, "selection": {...}, "shard": [1, 2]}
    {"kind": "suite", "id": ..., "status": "pass" | "fail" | ..., "expected": "", ...}
    {"kind": "traits", "traits": [...], "profiles": [...]}
    {"kind": "footer", "suites": 12, "statuses": {...}, "sha256": of the lines before}

Source: design of this project.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import json
import platform
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from feather_ref import __version__, golden
from feather_ref.conformance import fingerprint
from feather_ref.conformance.adapters import Adapter
from feather_ref.conformance.c_library import Library
from feather_ref.conformance.checking import FAULTS, Progress, run_function
from feather_ref.conformance.judge import all_ids, number_suite
from feather_ref.conformance.process import Isolated, if_written
from feather_ref.conformance.recompute import pattern_dtype, row_named
from feather_ref.conformance.report import Report
from feather_ref.conformance.vectors import sibling
from feather_ref.formats import get_format

SCHEMA = 1
STATUSES = ("pass", "fail", "skip", "unsupported", "error", "timeout", "crash", "notrun")
OK = ("pass", "skip", "unsupported")
_KEYS = {
    "header": {"kind", "schema", "impl", "versions", "selection", "shard"},
    "suite": {
        "kind", "id", "status", "size", "judged", "failed", "unknown", "classes", "lines", "notes", "message",
        "sha256", "proof", "expected",
    },
    "traits": {"kind", "traits", "profiles"},
    "footer": {"kind", "suites", "statuses", "sha256"},
}  # fmt: skip


class Outcome(NamedTuple):
    """A suite's report, and the reason if its failure was expected."""

    report: Report
    expected: str = ""

    @property
    def is_fine(self) -> bool:
        """Whether it is no reason to worry."""
        return self.report.status in OK or bool(self.expected and self.report.status == "fail")


class Selection(NamedTuple):
    """Which suites are asked for."""

    formats: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()
    exhaustive: bool = False
    seed: int | None = None

    def ids(self) -> list[str]:
        """Every id that is selected, sorted.

        Raises ValueError for a format or a pattern that selects nothing.
        """
        found = sorted(all_ids())
        for pattern in self.globs:
            if not fnmatch.filter(found, pattern):
                of_blocks = pattern.partition(".")[0] in golden.BLOCK_OPERATIONS
                hint = "; blocks are judged by `check`, and --scales asks for their rule" if of_blocks else ""
                raise ValueError(f"suite: no id matches {pattern!r}{hint}")
        if self.globs:
            found = [name for name in found if any(fnmatch.fnmatchcase(name, pattern) for pattern in self.globs)]
        names = {_token(name) for name in self.formats}
        if names:
            found = [name for name in found if names & set(name.split(".")[1:3])]
        if not found:
            raise ValueError(f"nothing is selected by format {', '.join(self.formats)}")
        return found


def _token(name: str) -> str:
    """A format as ids spell it."""
    row = get_format(name)
    return {"fp16": "f16", "fp32": "f32"}.get(row.name, row.name)


# --- running ----------------------------------------------------------------------------------


def run(
    adapter: Adapter, ids: Sequence[str], selection: Selection, step: Progress | None = None
) -> Iterator[Outcome]:
    """The outcome of each id, in order; step is told the thousandths of suites."""
    for i, vector_id in enumerate(ids):
        part = partial(_part, step, i, len(ids)) if step else None
        yield run_one(adapter, vector_id, selection, part)
        if step:
            step(1000 * (i + 1), 1000 * len(ids))


def _part(step: Progress, number: int, count: int, done: int, total: int) -> None:
    step(1000 * number + 1000 * done // total, 1000 * count)


def run_one(adapter: Adapter, vector_id: str, selection: Selection, step: Progress | None = None) -> Outcome:
    """Judge a library on one id."""
    if not adapter.can(vector_id):
        known = golden.find(sibling(vector_id) if vector_id not in golden.manifest() else vector_id)
        return Outcome(Report(vector_id, "unsupported", int(known["domain"])))
    s = number_suite(vector_id, selection.exhaustive, selection.seed)
    expected = adapter.expects(vector_id)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library
        try:
            function = _function(adapter, s.question)
        except FAULTS as error:
            message = f"the adapter makes no function: {type(error).__name__}: {error}"
            return Outcome(Report(vector_id, "error", s.domain, message=message))
        report = run_function(s, function, step, thorough=expected is None)
    if isinstance(function, Isolated):
        report = if_written(s, report)
    return judge_expectation(report, expected.reason, expected.classes) if expected else Outcome(report)


def _function(adapter: Adapter, question: golden.Question) -> Any:
    """What answers a question; a C function in a process of its own, so that a crash is in the report."""
    made = adapter.make(question)
    dtype = np.dtype(np.uint8) if question.op == "compare" else pattern_dtype(row_named(question.target))
    return Isolated(made, dtype) if isinstance(made, Library) else made


def judge_expectation(report: Report, reason: str, classes: Iterable[str]) -> Outcome:
    """An expected failure that passes is an error; one of another kind was not expected."""
    if report.status == "pass":
        return Outcome(replace(report, status="error", message=f"an expected failure passes: {reason}"))
    explained = report.status == "fail" and set(report.classes) <= set(classes)
    return Outcome(report, reason if explained else "")


def encoders(adapter: Adapter, ids: Iterable[str]) -> dict[str, fingerprint.Encode]:
    """The float32 conversion to each format, to nearest even where the adapter has that."""
    found: dict[str, fingerprint.Encode] = {}
    for vector_id in sorted(ids, key=lambda name: (".rne." not in name, name)):
        fmt = vector_id.split(".")[2]
        name = golden.TOKENS.get(fmt, fmt)
        if vector_id.startswith("convert.f32.") and adapter.can(vector_id) and name not in found:
            question = golden.question(vector_id)
            if question.n_bits is None and set(question.policies) == {"rounding", "overflow"}:
                found[name] = partial(_encode, adapter, question)
    return found


def _encode(adapter: Adapter, question: golden.Question, x: Any) -> Any:
    source = "float64" if x.dtype == np.float64 else "fp32"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _function(adapter, question._replace(source=source))(x)


def traits(found: Mapping[str, fingerprint.Encode]) -> list[fingerprint.Trait]:
    """The choices for every format; one whose probes fail is said to."""
    listed = []
    for name, encode in found.items():
        try:
            listed += list(fingerprint.traits(get_format(name), encode))
        except FAULTS as error:
            listed.append(fingerprint.Trait(name, "error", f"{type(error).__name__}: {error}"))
    return listed


def profiles(found: Mapping[str, fingerprint.Encode]) -> list[fingerprint.Nearness]:
    """The three nearest profiles, of the formats that can be asked."""
    can: dict[str, fingerprint.Encode] = {}
    for name, encode in found.items():
        with contextlib.suppress(*FAULTS):
            fingerprint.ask(encode, fingerprint.probes(get_format(name)))
            can[name] = encode
    return [each for each in fingerprint.nearest(can) if each.same][:3]


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 all pass, 1 mismatches, 2 errors, 3 nothing ran."""
    ran = [outcome for outcome in outcomes if outcome.report.status not in ("unsupported", "skip", "notrun")]
    if not ran:
        return 3
    bad = {outcome.report.status for outcome in ran if not outcome.is_fine}
    return 2 if "error" in bad else 1 if bad else 0


# --- writing ----------------------------------------------------------------------------------


class Writer:
    """Writes a report line by line; `close` with a footer, or it is none."""

    def __init__(self, write: Callable[[str], object]) -> None:
        """write: takes one line at a time."""
        self._write = write
        self._hash = hashlib.sha256()
        self._statuses: Counter[str] = Counter()

    def header(self, adapter: Adapter, selection: Selection, ids: Sequence[str], shard: tuple[int, int]) -> None:
        """What is asked, of whom."""
        chosen = {**selection._asdict(), "count": len(ids), "sha256": _sum(ids)}
        line = {"schema": SCHEMA, "impl": adapter.name, "versions": versions(adapter), "selection": chosen}
        self._line("header", {**line, "shard": list(shard)})

    def outcome(self, outcome: Outcome) -> None:
        """One suite."""
        self._statuses[outcome.report.status] += 1
        self._line("suite", {**outcome.report.row(), "expected": outcome.expected})

    def traits(self, found: Sequence[fingerprint.Trait], near: Sequence[fingerprint.Nearness]) -> None:
        """The fingerprint."""
        self._line("traits", {"traits": [t._asdict() for t in found], "profiles": [p._asdict() for p in near]})

    def close(self) -> None:
        """The footer."""
        self._line("footer", {
            "suites": self._statuses.total(), "statuses": dict(self._statuses), "sha256": self._hash.hexdigest()
        })  # fmt: skip

    def _line(self, kind: str, fields: Mapping[str, Any]) -> None:
        line = json.dumps({"kind": kind, **fields}) + "\n"
        self._hash.update(line.encode())
        self._write(line)


def _sum(ids: Iterable[str]) -> str:
    """The SHA-256 of ids, a line each."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()


def versions(adapter: Adapter) -> dict[str, str]:
    """Of everything that has a part in the results."""
    manifest = (golden.root() / "manifest.json").read_bytes()
    return {
        "feather_ref": __version__,
        "vectors": hashlib.sha256(manifest).hexdigest(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        **adapter.versions,
    }


# --- reading and merging ----------------------------------------------------------------------


class Document(NamedTuple):
    """A report that was read."""

    header: dict[str, Any]
    outcomes: list[Outcome]
    traits: list[dict[str, Any]]


def read(path: Path) -> Document:
    """A report from a file.

    Raises ValueError for what is none: no footer, lines that are missing, changed or unknown.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: no report: {error}") from error
    rows = [_parse(path, i, line) for i, line in enumerate(text.splitlines(), 1)]
    if not rows or rows[0]["kind"] != "header":
        raise ValueError(f"{path}: no report: line 1 is no header")
    if rows[-1]["kind"] != "footer" or not text.endswith("\n"):
        raise ValueError(f"{path}: no report: it has no footer, so it was cut off")
    header, footer = rows[0], rows[-1]
    if header["schema"] != SCHEMA:
        raise ValueError(f"{path}: schema {header['schema']!r}; this version reads {SCHEMA}")
    body = "".join(line + "\n" for line in text.splitlines()[:-1])
    found = [Outcome(_report(path, row), row["expected"]) for row in rows if row["kind"] == "suite"]
    if len(found) != footer["suites"] or hashlib.sha256(body.encode()).hexdigest() != footer["sha256"]:
        raise ValueError(f"{path}: the footer speaks of other lines: {footer['suites']} suites, found {len(found)}")
    return Document(header, found, [row for row in rows if row["kind"] == "traits"])


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
        keys = _KEYS[row["kind"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: line {number} is no line of a report") from error
    if set(row) != keys:
        odd = ", ".join(sorted(set(row) ^ keys))
        raise ValueError(f"{path}: line {number}: unknown or missing fields: {odd}")
    if row["kind"] == "header" and not _is_header(row):
        raise ValueError(f"{path}: line {number}: the header's selection or shard is none")
    found: dict[str, Any] = row
    return found


def _is_header(row: dict[str, Any]) -> bool:
    """Whether the fields that are read have the form that they are written in."""
    shard, selection = row["shard"], row["selection"]
    whole = isinstance(shard, list) and len(shard) == 2 and all(isinstance(number, int) for number in shard)
    return whole and isinstance(selection, dict) and {"count", "sha256"} <= set(selection)


def _report(path: Path, row: dict[str, Any]) -> Report:
    if row["status"] not in STATUSES:
        raise ValueError(f"{path}: {row['id']}: unknown status {row['status']!r}")
    if row["status"] == "pass" and (row["failed"] or row["judged"] != row["size"]):
        raise ValueError(f"{path}: {row['id']}: a pass with {row['failed']} of {row['judged']} wrong, of {row['size']}")
    fields = {key: value for key, value in row.items() if key not in ("kind", "expected")}
    return Report(**{**fields, "lines": tuple(row["lines"]), "notes": tuple(row["notes"])})


def merge(paths: Sequence[Path]) -> Document:
    """The shards of one run as one report.

    Raises ValueError where some are missing or given twice, or were not made alike.
    """
    found = [read(path) for path in paths]
    first = found[0].header
    for path, document in zip(paths, found, strict=True):
        for key in ("impl", "versions", "selection"):
            if document.header[key] != first[key]:
                what = _difference(document.header[key], first[key])
                raise ValueError(f"{path}: {key} differs from {paths[0]}: {what}")
    shards = sorted(tuple(document.header["shard"]) for document in found)
    total = first["shard"][1]
    wanted = [(i, total) for i in range(1, total + 1)]
    if shards != wanted:
        given = ", ".join(f"{i}/{n}" for i, n in shards)
        raise ValueError(f"merge: shards {given} are given; all of 1/{total} to {total}/{total} are wanted, once each")
    outcomes = sorted((each for document in found for each in document.outcomes), key=lambda each: each.report.id)
    names = [each.report.id for each in outcomes]
    if len(set(names)) != len(names) or len(names) != first["selection"]["count"]:
        wanted_count = first["selection"]["count"]
        raise ValueError(f"merge: {len(set(names))} suites in {len(names)} rows; {wanted_count} were selected")
    if _sum(names) != first["selection"]["sha256"]:
        raise ValueError("merge: the suites are not those that were selected")
    return Document(first, outcomes, [row for document in found for row in document.traits])


def _difference(a: Any, b: Any) -> str:
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [key for key in sorted({*a, *b}) if a.get(key) != b.get(key)]
        return ", ".join(f"{key} {a.get(key)!r}, {b.get(key)!r}" for key in keys)
    return f"{a!r}, {b!r}"
