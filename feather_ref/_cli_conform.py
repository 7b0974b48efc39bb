"""The commands of conformance: gen, check, suites, conform.

    exit code 0   all pass                   2   usage, protocol or corrupt vectors
    exit code 1   mismatches                 3   nothing ran

Source: design of this project.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from feather_ref.files import replacing

if TYPE_CHECKING:
    from feather_ref.conformance.report import Report

PASSED, FAILED, BROKEN, NOTHING = 0, 1, 2, 3
_EXIT = {"pass": PASSED, "fail": FAILED, "crash": FAILED, "timeout": FAILED, "error": BROKEN, "notrun": NOTHING}

ID = click.argument("vector_id", metavar="ID")
OUTPUT = click.Path(dir_okay=False, path_type=Path)
HEX = click.option("--hex", "as_hex", is_flag=True, help="Text: one number in hex a line. Default: binary.")
EVERY = click.option("--exhaustive", is_flag=True, help="Every input there is, not those alone where results change.")


def _number(ctx: click.Context, param: click.Parameter, value: float) -> float:
    """Not NaN, which no range refuses."""
    if math.isnan(value):
        raise click.BadParameter("nan is no number of seconds")
    return value


SECONDS = click.FloatRange(0, 1e6, min_open=True)
SEED = click.option("--seed", type=click.IntRange(0), help="One more input of each run, drawn with this seed.")


@click.command()
@ID
@HEX
@EVERY
@SEED
@click.option("-o", "--output", type=OUTPUT, help="A file. Default: stdout.")
def gen(vector_id: str, as_hex: bool, exhaustive: bool, seed: int | None, output: Path | None) -> None:
    """Write the inputs of a suite.

    Binary: the bits of each input, little-endian, as wide as the source; operands side by side. Of
    a run file these are the first, the middle and the last input of each run.

    \b
    Examples:
      $ feather-ref gen convert.f32.e4m3.rne.sat.run -o in.bin
      $ feather-ref gen convert.f32.e4m3.rne.sat.run --hex -o in.hex
      $ feather-ref gen convert.f32.e4m3.rne.sat.run | ./dut | feather-ref check convert.f32.e4m3.rne.sat.run
    """
    from feather_ref.conformance.pipe import write_inputs  # noqa: PLC0415 - NumPy work, for these commands alone
    from feather_ref.conformance.progress import bar  # noqa: PLC0415

    s = _suite(vector_id, exhaustive, seed)
    if output is None:
        if sys.stdout is None:
            raise click.UsageError("stdout is closed; say -o FILE")
        if not as_hex and sys.stdout.isatty():
            raise click.UsageError("binary output is not for a terminal; say --hex, or -o FILE")
        write_inputs(s, sys.stdout.buffer, as_hex)
        return
    with replacing(output) as stream, bar(vector_id) as step:
        write_inputs(s, stream, as_hex, step)
    click.echo(f"{output}: {s.domain} inputs", err=True)


@click.command()
@ID
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--run", "command", metavar="COMMAND", help="A program to run: inputs on its stdin, results on stdout.")
@click.option("--library", "library_name", metavar="PATH:SYMBOL", help="void f(const void *in, void *out, size_t n).")
@HEX
@EVERY
@SEED
@click.option("--timeout", type=SECONDS, default=60, show_default=True, callback=_number, help="Seconds of silence.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def check(
    vector_id: str, file: Path | None, command: str | None, library_name: str | None, as_hex: bool, exhaustive: bool,
    seed: int | None, timeout: float, as_json: bool,
) -> None:  # fmt: skip
    """Judge the results of a converter.

    They come from a file, from stdin, from a program (--run) or from a C function (--library):
    results only, in the order of the inputs that `gen` writes with the same options; binary, in the
    storage type of the code, little-endian, or with --hex one a line. In hex, x and z are the
    verdict unknown. A program or C function that dies is run again to find the input that kills it.

    Protocol of --run: inputs, little-endian records of the source's width, on stdin; results, of
    the code's storage width, on stdout.

    Exit code 0: all pass; 1: wrong results, a crash or a timeout; 2: usage, too few or too many
    results, corrupt vectors; 3: nothing ran.

    \b
    Examples:
      $ feather-ref check convert.f32.e4m3.rne.sat.run out.bin
      $ feather-ref check convert.f32.e4m3.rne.sat.run out.hex --hex
      $ feather-ref check convert.f32.e4m3.rne.sat.run --run "./dut --fast"
      $ feather-ref check convert.f32.e4m3.rne.sat.run --library ./libdut.so:encode
    """
    from feather_ref.conformance.pipe import judge_stream  # noqa: PLC0415 - NumPy work, for these commands alone
    from feather_ref.conformance.process import judge_program  # noqa: PLC0415
    from feather_ref.conformance.progress import bar  # noqa: PLC0415

    if sum(given is not None for given in (file, command, library_name)) > 1:
        raise click.UsageError("give one of FILE, --run and --library")
    s = _suite(vector_id, exhaustive, seed)
    with bar(vector_id) as step:
        if command is not None or library_name is not None:
            report = judge_program(s, _program(s, command, library_name, as_hex, timeout), step)
        elif file is not None:
            with file.open("rb") as stream:
                report = judge_stream(s, stream, as_hex, None, step)
        elif sys.stdin is None or sys.stdin.isatty():
            raise click.UsageError("nothing is given; give a file, or pipe results in")
        else:
            report = judge_stream(s, sys.stdin.buffer, as_hex, timeout, step)
    click.echo(json.dumps(report.row(), indent=2) if as_json else str(report))
    sys.exit(exit_code([report]))


def _suite(vector_id: str, exhaustive: bool, seed: int | None) -> Any:
    """The suite of an id; where a format is given in place of one, the error names its ids."""
    from feather_ref.conformance.judge import suite  # noqa: PLC0415 - NumPy work, for these commands alone

    try:
        return suite(vector_id, exhaustive, seed)
    except ValueError as error:
        glob = _ids_of_a_format(vector_id) if vector_id.count(".") < 5 else None  # of six parts
        if glob is None:
            raise
        raise ValueError(f"{error}; try: feather-ref suites '{glob}'") from error


def _ids_of_a_format(text: str) -> str | None:
    """A pattern of the ids of the last format that a text names; None where it names none that has ids."""
    from feather_ref import golden  # noqa: PLC0415 - NumPy work, for these commands alone
    from feather_ref.conformance.checking import id_of  # noqa: PLC0415
    from feather_ref.conformance.judge import all_ids  # noqa: PLC0415
    from feather_ref.formats import get_format  # noqa: PLC0415

    known = all_ids()
    for word in (text, *reversed(text.split("."))):
        with contextlib.suppress(ValueError):
            name = get_format(golden.TOKENS.get(word, word)).name
            start = id_of(golden.Question("convert", "fp32", name, {}, None, None, "run")).split(".exact.")[0]
            if any(each.startswith(f"{start}.") for each in known):
                return f"{start}.*"
    return None


def _program(s: Any, command: str | None, library_name: str | None, as_hex: bool, timeout: float) -> Any:
    """The program to run: the user's own, or the one that calls a C function."""
    from feather_ref.conformance import c_process  # noqa: PLC0415 - for this command alone
    from feather_ref.conformance.process import Program  # noqa: PLC0415

    if command is not None:
        words = shlex.split(command, posix=os.name == "posix")
        if not words:
            raise click.UsageError("--run: no command")
        return Program(words, as_hex, timeout)
    path, colon, symbol = str(library_name).rpartition(":")
    if not colon:
        raise click.UsageError("--library: write PATH:SYMBOL, as ./libdut.so:encode")
    if as_hex:
        raise click.UsageError("--hex: a C function takes binary")
    sizes = sum(column.itemsize for column in next(s.inputs()).bits), s.result_dtype.itemsize
    words = [sys.executable, "-I", str(c_process.__file__), str(Path(path).resolve()), symbol, *map(str, sizes)]
    try:
        started = subprocess.run(words, input=b"", capture_output=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise ValueError(f"--library: {library_name!r} does not load within {timeout:g} s") from None
    if started.returncode:
        said = started.stderr.decode(errors="replace").strip() or f"exit status {started.returncode}"
        raise ValueError(f"--library: {library_name!r} cannot be used: {said.splitlines()[-1]}")
    return Program(words, False, timeout)


def exit_code(reports: Sequence[Report]) -> int:
    """One number for all: nothing ran, else the worst."""
    found = {_EXIT.get(report.status) for report in reports} - {None}
    if not found - {NOTHING}:
        return NOTHING
    return BROKEN if BROKEN in found else FAILED if FAILED in found else PASSED


@click.command()
@click.argument("pattern", metavar="[GLOB]", default="*")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of columns.")
def suites(pattern: str, as_json: bool) -> None:
    """List the suites whose id matches a pattern.

    \b
    Examples:
      $ feather-ref suites "convert.f32.e4m3.*"
      $ feather-ref suites "convert.f64.*.rne.sat.run"
    """
    from feather_ref import golden  # noqa: PLC0415 - NumPy work, for these commands alone
    from feather_ref.conformance.judge import suites as matching  # noqa: PLC0415
    from feather_ref.conformance.vectors import sibling  # noqa: PLC0415

    names = matching(pattern)
    rows = [golden.find(sibling(name) if ".f64." in name and name not in golden.manifest() else name) for name in names]
    if as_json:
        found = [{"id": name, "level": row["level"]} for name, row in zip(names, rows, strict=True)]
        click.echo(json.dumps(found, indent=2))
        return
    width = max(map(len, names))
    for name, row in zip(names, rows, strict=True):
        click.echo(f"{name.ljust(width)}  {row['level']}")


@click.command()
@click.option("--impl", metavar="NAME", help="gfloat, ml_dtypes, numpy, torch, or module:object with an adapter.")
@click.option("--format", "formats", metavar="FORMAT", multiple=True, help="Only this format. May be repeated.")
@click.option("--suite", "globs", metavar="GLOB", multiple=True, help="Only ids like this. May be repeated.")
@click.option("--json", "output", type=OUTPUT, help="Write the report, as JSON lines.")
@click.option("--shard", metavar="I/N", help="Only every Nth suite, from the Ith on: 1/4 to 4/4 are all.")
@click.option("--merge", "merged", metavar="FILE...", is_flag=True, help="Read the reports of all shards as one.")
@EVERY
@SEED
@click.argument("files", metavar="[FILES]...", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def conform(
    impl: str | None, formats: tuple[str, ...], globs: tuple[str, ...], output: Path | None, shard: str | None,
    merged: bool, exhaustive: bool, seed: int | None, files: tuple[Path, ...],
) -> None:  # fmt: skip
    """Judge a library on every suite that it can answer.

    Shows what fails, which option the library takes where the standards leave a choice, and which
    profile is nearest. A failure that the adapter expects is listed with its reason, and is an
    error when it passes.

    Exit code 0: all pass, or fail as expected; 1: mismatches; 2: usage, errors or corrupt vectors;
    3: nothing ran.

    \b
    Examples:
      $ feather-ref conform --impl numpy
      $ feather-ref conform --impl ml_dtypes --format e4m3 --json report.jsonl
      $ feather-ref conform --impl ml_dtypes --suite "decode.*" --shard 1/2 --json a.jsonl
      $ feather-ref conform --merge a.jsonl b.jsonl
    """
    from feather_ref.conformance import conform as runs  # noqa: PLC0415 - NumPy work, for these commands alone

    if merged:
        if not files or impl or formats or globs or shard or output or exhaustive or seed is not None:
            raise click.UsageError("--merge takes the files of all shards, and nothing else")
        found = runs.merge(files)
        _show_outcomes(found.outcomes, found.header["impl"], found.header["versions"])
        sys.exit(runs.exit_code(found.outcomes))
    if impl is None or files:
        raise click.UsageError("say --impl NAME, or --merge FILE...")
    selection = runs.Selection(formats, globs, exhaustive, seed)
    sys.exit(_conform(impl, selection, output, _shard(shard)))


def _shard(text: str | None) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text or "1/1")
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise click.UsageError(f"--shard: write I/N with 1 <= I <= N, got {text!r}")
    return int(match[1]), int(match[2])


def _conform(impl: str, selection: Any, output: Path | None, shard: tuple[int, int]) -> int:
    """Run, show and write; the exit code."""
    from feather_ref.conformance import conform as runs  # noqa: PLC0415 - for this command alone
    from feather_ref.conformance.adapters import load  # noqa: PLC0415
    from feather_ref.conformance.progress import bar  # noqa: PLC0415

    adapter, ids = load(impl), selection.ids()
    outcomes = []
    with contextlib.ExitStack() as stack:
        write = stack.enter_context(replacing(output)).write if output else lambda line: None
        writer = runs.Writer(lambda line: write(line.encode()))
        writer.header(adapter, selection, ids, shard)
        step = stack.enter_context(bar(adapter.name))
        mine = ids[shard[0] - 1 :: shard[1]]
        for outcome in runs.run(adapter, mine, selection, step):
            writer.outcome(outcome)
            outcomes.append(outcome)
        encoders = runs.encoders(adapter, ids)
        traits, near = runs.traits(encoders), runs.profiles(encoders)
        writer.traits(traits, near)
        writer.close()
    _show_outcomes(outcomes, adapter.name, runs.versions(adapter))
    _show_traits(traits, near)
    return runs.exit_code(outcomes)


FAILURES = 3  # of a suite, in the overview; all that are kept are in the report


def _show_outcomes(outcomes: Sequence[Any], name: str, versions: dict[str, str]) -> None:
    """What did not pass, and a table of verdicts."""
    said = ", ".join(f"{key} {value[:12]}" for key, value in versions.items())
    click.echo(f"{name} ({said})")
    for outcome in outcomes:
        if outcome.report.status in ("pass", "unsupported", "skip"):
            continue
        if outcome.expected:
            click.echo(f"expected {outcome.report.title()}\n  {outcome.expected}")
            click.echo("\n".join(f"  {line}" for line in outcome.report.lines[:1]))
        else:
            click.echo("\n  ".join(outcome.report.text(FAILURES)))
    rows: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        op, source, target = outcome.report.id.split(".")[:3]
        status = "expected" if outcome.expected else outcome.report.status
        rows.setdefault(f"{op} {source if op == 'decode' else target}", Counter())[status] += 1
    rows = {key: counts for key, counts in rows.items() if set(counts) != {"unsupported"}}
    rows["all"] = sum(rows.values(), Counter())
    heads = [head for head in ("pass", "expected", *_STATUSES) if any(counts[head] for counts in rows.values())]
    width = max(map(len, rows))
    click.echo("  ".join(["".ljust(width), *heads]))
    for key, counts in rows.items():
        click.echo("  ".join([key.ljust(width), *(str(counts[head] or "-").rjust(len(head)) for head in heads)]))


_STATUSES = ("fail", "error", "timeout", "crash", "notrun", "skip", "unsupported")


def _show_traits(traits: Sequence[Any], near: Sequence[Any]) -> None:
    """The fingerprint: what is alike for several formats on one line."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for trait in traits:
        grouped.setdefault((trait.choice, trait.option), []).append(trait.fmt)
    if grouped:
        click.echo("choices:")
    for (choice, option), names in sorted(grouped.items()):
        click.echo(f"  {choice}: {option}  [{', '.join(names)}]")
    for profile, formats, same, asked in near:
        click.echo(f"profile {profile}: {same} of {asked} probes alike, {formats} formats")


COMMANDS = (gen, check, suites, conform)
