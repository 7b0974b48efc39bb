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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from feather_ref._cli_output import FORCE, OUTPUT, binary_stdout, check_free, check_stdout, is_stdout
from feather_ref.blocks import get_block_format
from feather_ref.files import replacing

if TYPE_CHECKING:
    from feather_ref.conformance.report import Report

PASSED, FAILED, BROKEN, NOTHING = 0, 1, 2, 3
_EXIT = {"pass": PASSED, "fail": FAILED, "crash": FAILED, "timeout": FAILED, "error": BROKEN, "notrun": NOTHING}

ID = click.argument("vector_id", metavar="ID")
HEX = click.option("--hex", "as_hex", is_flag=True, help="Text: one number in hex a line. Default: binary.")
EVERY = click.option("--exhaustive", is_flag=True, help="Every input there is, not those alone where results change.")


def _number(ctx: click.Context, param: click.Parameter, value: float) -> float:
    """Not NaN, which no range refuses."""
    if math.isnan(value):
        raise click.BadParameter("nan is no number of seconds")
    return value


SECONDS = click.FloatRange(0, 1e6, min_open=True)
SEED = click.option(
    "--seed", type=click.IntRange(0), help="One more input of each run, or 64 more blocks, drawn with this seed."
)


@click.command()
@ID
@HEX
@EVERY
@SEED
@click.option("-o", "--output", type=OUTPUT, help="A file. Default: -, which is stdout.")
@FORCE
def gen(vector_id: str, as_hex: bool, exhaustive: bool, seed: int | None, output: Path | None, force: bool) -> None:
    """Write the inputs of a suite.

    Binary: the bits of each input, little-endian, as wide as the source; operands side by side. Of
    a run file these are the first, the middle and the last input of each run.

    A block is one record, in hex one line: for block.* its float32 numbers; for dequantize.* its
    scale code and its element codes, a byte each. For nvfp4 the amax of the block's tensor stands
    before its numbers, and the tensor's float32 scale before its codes.

    \b
    Examples:
      $ feather-ref gen convert.f32.e4m3.rne.sat.run -o in.bin
      $ feather-ref gen convert.f32.e4m3.rne.sat.run --hex -o in.hex
      $ feather-ref gen convert.f32.e4m3.rne.sat.run | ./dut | feather-ref check convert.f32.e4m3.rne.sat.run
      $ feather-ref gen block.f32.mxfp4.rne.sat.blk --hex
    """
    from feather_ref.conformance.pipe import write_inputs  # noqa: PLC0415 - NumPy work, for these commands alone
    from feather_ref.conformance.progress import bar  # noqa: PLC0415

    check_free(force, output=output)
    s = _suite(vector_id, exhaustive, seed)
    if output is None or is_stdout(output):
        if as_hex:
            check_stdout()
        write_inputs(s, sys.stdout.buffer if as_hex else binary_stdout("--hex, or -o FILE"), as_hex)
        return
    with replacing(output) as stream, bar(vector_id) as step:
        write_inputs(s, stream, as_hex, step)
    click.echo(f"{output}: {s.domain} {'blocks' if s.width > 1 else 'inputs'}", err=True)


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
@click.pass_context
def check(
    ctx: click.Context, vector_id: str, file: Path | None, command: str | None, library_name: str | None,
    as_hex: bool, exhaustive: bool, seed: int | None, timeout: float, as_json: bool,
) -> None:  # fmt: skip
    """Judge the results of a converter.

    They come from a file, from stdin, from a program (--run) or from a C function (--library):
    results only, in the order of the inputs that `gen` writes with the same options; binary, in the
    storage type of the code, little-endian, or with --hex one a line. In hex, x and z are the
    verdict unknown. A program or C function that dies is run again to find the input that kills it.

    Protocol of --run: inputs, little-endian records of the source's width, on stdin; results, of
    the code's storage width, on stdout. The results of a block are its scale code and then its
    element codes, a byte each; those of dequantize.* are float32.

    Exit code 0: all pass; 1: wrong results, a crash or a timeout; 2: usage, too few or too many
    results, corrupt vectors; 3: nothing ran.

    \b
    Examples:
      $ feather-ref check convert.f32.e4m3.rne.sat.run out.bin
      $ feather-ref check convert.f32.e4m3.rne.sat.run out.hex --hex
      $ feather-ref check convert.f32.e4m3.rne.sat.run --run "./dut --fast"
      $ feather-ref check convert.f32.e4m3.rne.sat.run --library ./libdut.so:encode
      $ feather-ref check block.f32.mxfp4.rne.sat.blk --run ./quantizer --seed 1
    """
    from feather_ref.conformance.pipe import judge_stream  # noqa: PLC0415 - NumPy work, for these commands alone
    from feather_ref.conformance.process import if_written, judge_program  # noqa: PLC0415
    from feather_ref.conformance.progress import bar  # noqa: PLC0415

    if sum(given is not None for given in (file, command, library_name)) > 1:
        raise click.UsageError("give one of FILE, --run and --library")
    if file is not None and ctx.get_parameter_source("timeout") is not ParameterSource.DEFAULT:
        raise click.UsageError("--timeout is for --run, --library and stdin; a file is never silent")
    s = _suite(vector_id, exhaustive, seed)
    if seed is not None:
        s.unseeded = _suite(vector_id, exhaustive, None).domain
    with bar(vector_id) as step:
        if command is not None or library_name is not None:
            report = judge_program(s, _program(s, command, library_name, as_hex, timeout), step)
            report = report if library_name is None else if_written(s, report)
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
    from feather_ref.conformance.judge import refuse_idle, suite  # noqa: PLC0415 - NumPy work, for these commands alone

    try:
        s = suite(vector_id, exhaustive, seed)
    except ValueError as error:
        raise naming_ids(error, vector_id) from error
    refuse_idle(s, exhaustive, seed)
    return s


def naming_ids(error: ValueError, vector_id: str) -> ValueError:
    """The error, with a pattern of ids where a format is given in place of an id."""
    glob = _ids_of_a_format(vector_id) if vector_id.count(".") < 5 else None  # of six parts
    return error if glob is None else ValueError(f"{error}; try: feather-ref suites '{glob}'")


def _ids_of_a_format(text: str) -> str | None:
    """A pattern of the ids of the last format that a text names; None where it names none that has ids."""
    from feather_ref import golden  # noqa: PLC0415 - NumPy work, for these commands alone
    from feather_ref.conformance.block_vectors import blocks_with_vectors  # noqa: PLC0415
    from feather_ref.conformance.checking import id_of  # noqa: PLC0415
    from feather_ref.conformance.judge import all_ids  # noqa: PLC0415
    from feather_ref.formats import get_format  # noqa: PLC0415

    known = all_ids()
    for word in (text, *reversed(text.split("."))):
        with contextlib.suppress(ValueError):
            if (name := get_block_format(word).name) in blocks_with_vectors():
                return f"*.{name}.*"
        with contextlib.suppress(ValueError):
            name = get_format(golden.TOKENS.get(word, word)).name
            start = id_of(golden.Question("convert", "fp32", name, {}, None, None, "run")).split(".exact.")[0]
            if any(each.startswith(f"{start}.") for each in known):
                return f"{start}.*"
    return None


def _program(s: Any, command: str | None, library_name: str | None, as_hex: bool, timeout: float) -> Any:
    """The program to run: the user's own, or the one that calls a C function."""
    from feather_ref.conformance.process import Program, library_command  # noqa: PLC0415 - for this command alone

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
    sizes = sum(column.itemsize for column in next(s.inputs()).bits), s.result_dtype.itemsize * s.width
    words = library_command(str(Path(path).resolve()), symbol, *sizes)
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

    With their level, and how many inputs, pairs or blocks there are.

    \b
    Examples:
      $ feather-ref suites "convert.f32.e4m3.*"
      $ feather-ref suites "convert.f64.*.rne.sat.run"
      $ feather-ref suites "*.mxfp4.*"
    """
    from feather_ref.conformance.judge import suites as matching  # noqa: PLC0415 - NumPy work, for these commands alone

    try:
        names = matching(pattern)
    except ValueError as error:
        raise naming_ids(error, pattern) from error
    found = [{"id": name, **dict(zip(("level", "domain", "unit"), _about(name), strict=True))} for name in names]
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    wide, level = (max(len(str(row[key])) for row in found) for key in ("id", "level"))
    for row in found:
        said = "ends of the float32 runs"
        if row["domain"]:
            said = f"{'2^32' if row['domain'] == 1 << 32 else format(row['domain'], ',')} {row['unit']}"
        click.echo(f"{row['id']:{wide}}  {row['level']:{level}}  {said}")


def _about(vector_id: str) -> tuple[str, int | None, str]:
    """Level, count and what is counted; None for a float64 suite, whose inputs are made from a run file."""
    from feather_ref import golden  # noqa: PLC0415 - NumPy work, for this command alone
    from feather_ref.conformance.block_vectors import find_block  # noqa: PLC0415
    from feather_ref.conformance.vectors import sibling  # noqa: PLC0415

    if vector_id.partition(".")[0] in golden.BLOCK_OPERATIONS:
        row = find_block(vector_id)
        pairs = ".nvfp4." in vector_id and row["op"] == "scale"
        return row["level"], int(row["domain"]), "blocks" if row["shape"] == "blk" else "pairs" if pairs else "inputs"
    made = ".f64." in vector_id and vector_id not in golden.manifest()
    row = golden.find(sibling(vector_id) if made else vector_id)
    return row["level"], None if made else int(row["domain"]), "inputs"


@click.command()
@click.option("--impl", metavar="NAME", help="gfloat, ml_dtypes, numpy, torch, or module:object with an adapter.")
@click.option("--format", "formats", metavar="FORMAT", multiple=True, help="Only this format. May be repeated.")
@click.option("--suite", "globs", metavar="GLOB", multiple=True, help="Only ids like this. May be repeated.")
@click.option("--json", "output", type=OUTPUT, help="Write the report, as JSON lines; - is stdout.")
@click.option("--shard", metavar="I/N", help="Only every Nth suite, from the Ith on: 1/4 to 4/4 are all.")
@click.option("--merge", "merged", metavar="FILE...", is_flag=True, help="Read the reports of all shards as one.")
@click.option("--scales", is_flag=True, help="Ask for scales of blocks alone: which rule is it?")
@FORCE
@EVERY
@SEED
@click.argument("files", metavar="[FILES]...", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def conform(
    impl: str | None, formats: tuple[str, ...], globs: tuple[str, ...], output: Path | None, shard: str | None,
    merged: bool, scales: bool, force: bool, exhaustive: bool, seed: int | None, files: tuple[Path, ...],
) -> None:  # fmt: skip
    """Judge a library on every suite that it can answer.

    Shows what fails, which option the library takes where the standards leave a choice, and which
    profile is nearest. A failure that the adapter expects is listed with its reason, and is an
    error when it passes. A C function of an adapter is called in a process of its own, so that one
    that dies is in the report, with its input.

    With --scales, the scale rules that gfloat, gguf, ml_dtypes, torchao or module:function have: for
    each function the rule that fits best, and where it first differs. The function takes float32
    blocks (n, k), as one tensor, and returns the scale code of each; say its --format. A module in
    this folder is found with PYTHONPATH=. before the command.

    Exit code 0: all pass, or fail as expected; 1: mismatches; 2: usage, errors or corrupt vectors;
    3: nothing ran.

    \b
    Examples:
      $ feather-ref conform --impl numpy
      $ feather-ref conform --impl ml_dtypes --format e4m3 --json report.jsonl
      $ feather-ref conform --impl ml_dtypes --suite "decode.*" --shard 1/2 --json a.jsonl
      $ feather-ref conform --merge a.jsonl b.jsonl
      $ feather-ref conform --impl gfloat --scales --format mxfp4
    """
    from feather_ref.conformance import conform as runs  # noqa: PLC0415 - NumPy work, for these commands alone

    if merged:
        others = impl or formats or globs or shard or output or scales or force or exhaustive or seed is not None
        if not files or others:
            raise click.UsageError("--merge takes the files of all shards, and nothing else")
        found = runs.merge(files)
        click.echo("\n".join(_outcome_lines(found.outcomes, found.header["impl"], found.header["versions"])))
        sys.exit(runs.exit_code(found.outcomes))
    if impl is None or files:
        raise click.UsageError("say --impl NAME, or --merge FILE...")
    if scales:
        if globs or shard or output or force or exhaustive or seed is not None:
            raise click.UsageError("--scales takes --impl and --format, and nothing else")
        sys.exit(_scales(impl, formats))
    check_free(force, json=output)
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
    for option, said, shapes in (
        ("--seed", selection.seed is not None, (".run", ".dig")),
        ("--exhaustive", selection.exhaustive, (".run", ".dig", ".tab")),
    ):
        if said and not any(name.endswith(shapes) for name in ids):
            raise click.UsageError(f"{option}: no suite that is selected has more inputs than those of its list")
    outcomes = []
    with contextlib.ExitStack() as stack:
        write: Callable[[bytes], object] = lambda line: None  # noqa: E731 - where no report is asked for
        if is_stdout(output):
            check_stdout()
            write = sys.stdout.buffer.write
        elif output is not None:
            write = stack.enter_context(replacing(output)).write
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
    lines = [*_outcome_lines(outcomes, adapter.name, runs.versions(adapter)), *_trait_lines(traits, near)]
    if not any(map(adapter.can, ids)):
        lines.append(_no_answer(adapter, selection))
    click.echo("\n".join(lines), err=is_stdout(output))
    return runs.exit_code(outcomes)


def _no_answer(adapter: Any, selection: Any) -> str:
    """That a library has none of what is asked, and what it has."""
    asked = "that is selected" if selection.globs else f"of {', '.join(selection.formats)}"
    has = ", ".join(dict.fromkeys(fmt for _, fmt in adapter.policies)) or "nothing"
    return f"{adapter.name} answers no suite {asked}; it has {has}"


def _scales(impl: str, formats: tuple[str, ...]) -> int:
    """Which scale rule each function of a library has; 1 where one has none of them."""
    from feather_ref.conformance.scale_libraries import scale_functions  # noqa: PLC0415 - for this command alone
    from feather_ref.conformance.scales import fingerprint_scales  # noqa: PLC0415

    failed = False
    for each in scale_functions(impl, formats):
        best = fingerprint_scales(each.function, each.bfmt)[0]
        click.echo(f"{each.bfmt.name}  {each.name}  {best}")
        failed |= best.wrong > 0
    return FAILED if failed else PASSED


FAILURES = 3  # of a suite, in the overview; all that are kept are in the report


def _outcome_lines(outcomes: Sequence[Any], name: str, versions: dict[str, str]) -> Iterator[str]:
    """What did not pass, and a table of verdicts."""
    said = ", ".join(f"{key} {value[:12]}" for key, value in versions.items())
    yield f"{name} ({said})"
    for outcome in outcomes:
        if outcome.report.status in ("pass", "unsupported", "skip"):
            continue
        if outcome.expected:
            yield f"expected {outcome.report.title()}\n  {outcome.expected}"
            yield from (f"  {line}" for line in outcome.report.lines[:1])
        else:
            yield "\n  ".join(outcome.report.text(FAILURES))
    rows: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        op, source, target = outcome.report.id.split(".")[:3]
        status = "expected" if outcome.expected else outcome.report.status
        rows.setdefault(f"{op} {source if op == 'decode' else target}", Counter())[status] += 1
    rows = {key: counts for key, counts in rows.items() if set(counts) != {"unsupported"}}
    if not rows:
        yield "nothing ran"
        return
    rows["all"] = sum(rows.values(), Counter())
    heads = [head for head in ("pass", "expected", *_STATUSES) if any(counts[head] for counts in rows.values())]
    width = max(map(len, rows))
    yield "  ".join(["".ljust(width), *heads])
    for key, counts in rows.items():
        yield "  ".join([key.ljust(width), *(str(counts[head] or "-").rjust(len(head)) for head in heads)])


_STATUSES = ("fail", "error", "timeout", "crash", "notrun", "skip", "unsupported")


def _trait_lines(traits: Sequence[Any], near: Sequence[Any]) -> Iterator[str]:
    """The fingerprint: what is alike for several formats on one line."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for trait in traits:
        grouped.setdefault((trait.choice, trait.option), []).append(trait.fmt)
    if grouped:
        yield "choices:"
    for (choice, option), names in sorted(grouped.items()):
        yield f"  {choice}: {option}  [{', '.join(names)}]"
    for profile, formats, same, asked in near:
        yield f"profile {profile}: {same} of {asked} probes alike, {formats} formats"


COMMANDS = (gen, check, suites, conform)
