"""Programs as implementations: started, fed, judged, and watched.

A program that dies is `crash`, and its inputs are halved until the one that kills it is found; one
that is silent is `timeout`.  What it writes on stderr is shown, and not judged.

Source: design of this project.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feather_ref.conformance import c_process
from feather_ref.conformance.c_library import FILL, SIGNATURE, Library, join
from feather_ref.conformance.pipe import (
    Collector,
    ProtocolError,
    SilenceError,
    Step,
    blocks,
    broken,
    records,
    write_inputs,
)
from feather_ref.conformance.report import Report
from feather_ref.conformance.tally import Batch, Tally

Array = NDArray[Any]

STDERR, STDERR_LINES = "stderr: ", 5  # how they begin, and how many are shown
LAST_WORDS = 5  # seconds for the thread that feeds a program which has ended
SEARCHED = 1 << 20  # inputs after the last result among which a killer is looked for


class Program(NamedTuple):
    """A command line, how it talks, and how long one waits for it."""

    command: Sequence[str]
    as_hex: bool = False
    timeout: float = 60.0

    def run(self, data: bytes) -> tuple[int, bytes]:
        """Exit status and output for some input; SilenceError where it does not end."""
        with self.start(subprocess.DEVNULL) as process:
            try:
                output, _ = process.communicate(data, self.timeout)
                _end_children(process)
            except subprocess.TimeoutExpired:
                raise SilenceError from None
            finally:
                end(process)
        return process.returncode, output

    def start(self, stderr: IO[bytes] | int) -> subprocess.Popen[bytes]:
        """The running program, in a group of its own, which ends with it."""
        pipe = subprocess.PIPE
        return subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=stderr, start_new_session=True)


def library_command(path: str, symbol: str, input_bytes: int, result_bytes: int) -> list[str]:
    """The command of a process that calls a C function for every record on stdin."""
    return [sys.executable, "-I", str(c_process.__file__), path, symbol, str(input_bytes), str(result_bytes)]


class CrashError(Exception):
    """An implementation that died; its text says how."""


class HangError(Exception):
    """An implementation that did not end."""


class Isolated:
    """A C function as a callable, in a process of its own: it may die, and the judge does not.

    The process lives from call to call; where it died, the next call starts another.
    """

    def __init__(self, function: Library, result: np.dtype[Any], timeout: float = 600.0) -> None:
        """result: the dtype of its results.  timeout: seconds for one array of inputs."""
        self._library, self._result, self._timeout = function, result, timeout
        self._running: _Running | None = None

    def __call__(self, *inputs: Array) -> Array:
        """The results for arrays of one length.

        Raises CrashError where the function dies, HangError where it does not end.
        """
        records = join(tuple(np.asarray(column) for column in inputs))
        results = np.empty(records.size, self._result)
        running, self._running = self._running_for(records.itemsize), None  # until it has answered
        try:
            if running.exchange(records, results, self._timeout):
                self._running = running
                return results
            if running.late:
                raise HangError(f"{self._library.symbol} does not end within {self._timeout:g} s")
            raise CrashError(running.last_words())
        finally:
            if self._running is None:  # an interrupt, too: half an answer may be on its way
                running.close()

    def _running_for(self, input_bytes: int) -> _Running:
        """The process that takes records of this size: the one of the last call, if it does."""
        if self._running is not None and self._running.input_bytes == input_bytes:
            return self._running
        if self._running is not None:
            self._running.close()
        running = _Running(self._library, input_bytes, self._result.itemsize)
        weakref.finalize(self, running.close)
        return running


class _Running:
    """A process that answers one call after the other.  late: whether it was ended for being so."""

    def __init__(self, function: Library, input_bytes: int, result_bytes: int) -> None:
        self.input_bytes, self.late = input_bytes, False
        words = library_command(function.path, function.symbol, input_bytes, result_bytes)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = Program([*words, "calls"]).start(self._errors)
        threading.Thread(target=self._clear, daemon=True).start()

    def _clear(self) -> None:
        """End what the process started as soon as it has ended: that may hold the pipe which is read."""
        self._process.wait()
        _end_children(self._process)

    def exchange(self, records: Array, results: Array, timeout: float) -> bool:
        """Fill the results; False where the process ended before."""
        stdin, stdout = self._process.stdin, self._process.stdout
        guard = threading.Timer(timeout, self._expire)
        guard.start()
        try:
            stdin.write(records.size.to_bytes(8, sys.byteorder))  # type: ignore[union-attr]  # both are pipes
            stdin.write(records.view(np.uint8).data)  # type: ignore[union-attr]
            stdin.flush()  # type: ignore[union-attr]
            return bool(stdout.readinto(results.view(np.uint8).data) == results.nbytes)  # type: ignore[union-attr]
        except BrokenPipeError:
            return False
        finally:
            guard.cancel()
            guard.join()

    def _expire(self) -> None:
        self.late = True
        self._process.kill()

    def last_words(self) -> str:
        """How a process ended, and the last thing that it said."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that only closed its stdout
            self._process.wait(LAST_WORDS)
        status, said = self._process.poll(), _said(self._errors)
        text = "it closed its stdout" if status is None else _exit_text(status)
        return f"{text}, {said[-1]}" if said else text

    def close(self) -> None:
        """End the process, if it has not ended."""
        end(self._process)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(OSError):  # records that nobody takes any more
                stream.close()  # type: ignore[union-attr]  # they are pipes


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program, and what it started, if it has not ended by itself."""
    if process.returncode is None:
        _end_children(process)
        process.kill()
        process.wait()


def _end_children(process: subprocess.Popen[bytes]) -> None:
    """End what a program started: it would keep the pipes open, and run on.

    To be called at once when the program has ended, for later its number may be another's.
    """
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def judge_program(s: Tally, program: Program, step: Step | None = None) -> Report:
    """Run a program on all inputs of a suite.

    Raises ValueError for a program that cannot be started.
    """
    with tempfile.TemporaryFile() as errors:
        try:
            process = program.start(errors)
        except OSError as error:
            name = program.command[0]
            here = os.path.basename(name) == name and os.path.isfile(name)
            also = f"; did you mean {os.path.join(os.curdir, name)}?" if here else ""
            raise ValueError(f"{name}: cannot be started: {error.strerror}{also}") from error
        feeder = threading.Thread(target=_feed, args=(s, process.stdin, program.as_hex), daemon=True)
        feeder.start()
        try:
            found = _watch(s, program, process, step)
        finally:
            end(process)
            feeder.join(LAST_WORDS)  # it closes stdin
            process.stdout.close()  # type: ignore[union-attr]  # it is a pipe
        return replace(found, notes=(*found.notes, *_said(errors)))


def if_written(s: Tally, found: Report) -> Report:
    """The report of a C function; no verdict on numbers where every result is still what the memory held before."""
    if found.status != "fail" or not s.is_all(FILL):
        return found
    message = f"no result was written: all are {FILL:02X}, as before; the signature is {SIGNATURE}"
    return Report(s.id, "error", s.domain, message=message, notes=tuple(n for n in found.notes if n.startswith(STDERR)))


def _watch(s: Tally, program: Program, process: subprocess.Popen[bytes], step: Step | None) -> Report:
    collector = Collector(s, program.as_hex, step)
    try:
        with contextlib.closing(blocks(process.stdout, program.timeout)) as coming:  # type: ignore[arg-type]  # a pipe
            for block in coming:
                collector.feed(block)
        status = process.wait(program.timeout)
        _end_children(process)
    except (SilenceError, subprocess.TimeoutExpired):
        return _silent(s, program, collector)
    except ProtocolError as error:
        return broken(s, "error", error)
    complete = collector.count >= collector.wanted
    if status and not complete:
        return _crashed(s, program, collector, status)
    try:
        collector.finish()
    except ProtocolError as error:
        return broken(s, "error" if collector.received else "notrun", error, tuple(collector.notes()))
    if status:
        return broken(s, "error", f"all results came, but then {_exit_text(status)}", tuple(collector.notes()))
    try:
        found = s.report(lambda patterns: _ask(s, program, patterns))
    except (ProtocolError, SilenceError):
        found = s.report()  # it takes all inputs, and not some alone: no boundaries
    return replace(found, notes=(*found.notes, *collector.notes()))


def _feed(s: Tally, stdin: IO[bytes] | None, as_hex: bool) -> None:
    """Write the inputs; a program that does not take them all shows elsewhere."""
    with contextlib.suppress(OSError, ValueError):
        write_inputs(s, stdin, as_hex)  # type: ignore[arg-type]  # it is a pipe
    with contextlib.suppress(OSError, ValueError):
        stdin.close()  # type: ignore[union-attr]


def _silent(s: Tally, program: Program, collector: Collector) -> Report:
    if collector.count >= collector.wanted:
        return broken(s, "timeout", f"all results came, but it does not end within {program.timeout:g} s")
    message = f"no result for {program.timeout:g} s after {collector.count}; the next input is {collector.next_input()}"
    return broken(s, "timeout", message, tuple(collector.notes()))


def _ask(s: Tally, program: Program, patterns: Array) -> Array:
    """The codes of the program for some patterns; ProtocolError where it has none."""
    bits = patterns.astype(next(s.inputs()).bits[0].dtype)
    _, output = program.run(records(s, Batch(0, (bits,), (bits,)), program.as_hex))
    try:
        if program.as_hex:
            codes = np.array([int(token, 16) for token in output.split()], np.uint64)
        else:
            codes = np.frombuffer(output, s.result_dtype.newbyteorder("<")).astype(np.uint64)
    except (ValueError, OverflowError) as error:
        raise ProtocolError(str(error)) from error
    if codes.size != bits.size:
        raise ProtocolError(f"{codes.size} results for {bits.size} inputs")
    return codes


def _said(errors: IO[bytes]) -> list[str]:
    """The last lines of stderr."""
    size = errors.seek(0, 2)
    errors.seek(max(0, size - 4096))
    lines = [line for line in errors.read().decode(errors="backslashreplace").splitlines() if line.strip()]
    shown = ["".join(c if c.isprintable() else "." for c in line)[:200] for line in lines[-STDERR_LINES:]]
    return [f"{STDERR}{line}" for line in shown]


# --- crashes ----------------------------------------------------------------------------------


def _crashed(s: Tally, program: Program, collector: Collector, status: int) -> Report:
    how = _exit_text(status)
    where = _killer(s, program, collector.records)
    return broken(s, "crash", f"{how} {where}", tuple(collector.notes()))


def _exit_text(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def _killer(s: Tally, program: Program, count: int) -> str:
    """The input that kills a program: the last one of the shortest beginning that does."""
    bits = _inputs_from(s, count)
    size = bits[0].size
    if not size or not _dies(s, program, bits, size):
        return f"after {count} results; it does not die again from the next input on"
    alive, dead = 0, size
    while dead - alive > 1:
        middle = (alive + dead) // 2
        if _dies(s, program, bits, middle):
            dead = middle
        else:
            alive = middle
    last = tuple(column[dead - 1 : dead] for column in bits)
    alone = "" if _dies(s, program, last, 1) else ", after those before it"
    return f"at {s.input_text([int(column[0]) for column in last])}{alone}"


def _inputs_from(s: Tally, count: int) -> tuple[Array, ...]:
    """Inputs from an index on, as many as are searched."""
    stop = min(s.domain, count + SEARCHED)
    parts = []
    for batch in s.inputs():
        low, high = max(count - batch.offset, 0), min(stop - batch.offset, batch.bits[0].size)
        if low < high:
            parts.append(tuple(column[low:high] for column in batch.bits))
        if batch.offset + batch.bits[0].size >= stop:
            break
    if not parts:
        return (np.zeros(0, np.uint8),)
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _dies(s: Tally, program: Program, bits: tuple[Array, ...], count: int) -> bool:
    """Whether a program ends badly on the first `count` inputs."""
    some = tuple(column[:count] for column in bits)
    try:
        status, _ = program.run(records(s, Batch(0, some, some), program.as_hex))
    except SilenceError:
        return False
    return status != 0
