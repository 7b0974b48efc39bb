"""The pipe: inputs as a stream of records, and results that come back as a stream.

    binary   an input: the bits of each operand, little-endian, in the width of the source
             a result: the code, little-endian, in its storage type; nothing between them
    hex      one input a line, operands with a blank between them; one result a line

In hex, digits x and z are what a simulator writes for a value that it does not know; lines that
begin with // are no results, and @ begins an address, which must be that of the next result, so
that Verilog's $writememh can be judged.

Source: design of this project; IEEE 1364-2005, 17.2.9 for the files of $writememh.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import threading
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from feather_ref.conformance.c_library import join
from feather_ref.conformance.report import Report, Status
from feather_ref.conformance.tally import Batch, Tally
from feather_ref.conformance.vectors import Digests

Array = NDArray[Any]
Step = Callable[[int, int], None]  # takes done and total

BLOCK = 1 << 16  # bytes that are read at a time
AHEAD = 64  # blocks that wait to be judged
MORE = 1 << 16  # results too many after which one listens no longer
LINES = 4  # of a result in hex, comments and all, on average
LONGEST = 1 << 20  # bytes of a line
BOM = b"\xef\xbb\xbf"
_UNKNOWN = re.compile(rb"(0[xX])?[0-9a-fA-F_]*[xXzZ?][0-9a-fA-FxXzZ_?]*")
_HEX = re.compile(rb"(0[xX])?[0-9a-fA-F]+")


class ProtocolError(Exception):
    """Results that are not one for each input, or no results at all by their form.

    misread: whether it is known how they were meant; then nothing judged before is a verdict.
    """

    def __init__(self, message: str, misread: bool = False) -> None:
        """As the class says."""
        super().__init__(message)
        self.misread = misread


class SilenceError(Exception):
    """Nothing came for as long as one was ready to wait."""


# --- inputs -----------------------------------------------------------------------------------


def records(s: Tally, batch: Batch, as_hex: bool) -> bytes:
    """The inputs of a batch as bytes."""
    columns = batch.bits
    if not as_hex:
        return join(tuple(_little(column) for column in columns)).tobytes()
    widths = [s.hex_digits(operand) for operand in range(len(columns))]
    if len(columns) == 1:
        return "".join(f"{x:0{widths[0]}X}\n" for x in columns[0].tolist()).encode()
    line = " ".join(f"%0{width}X" for width in widths) + "\n"
    return "".join(line % row for row in zip(*(column.tolist() for column in columns), strict=True)).encode()


def _little(column: Array) -> Array:
    return column.astype(column.dtype.newbyteorder("<"), copy=False)


def write_inputs(s: Tally, stream: BinaryIO, as_hex: bool, step: Step | None = None) -> None:
    """Every input of a suite, in order."""
    for batch in s.inputs():
        stream.write(records(s, batch, as_hex))
        if step:
            step(batch.offset + batch.bits[0].size, s.domain)
    stream.flush()


# --- results ----------------------------------------------------------------------------------


class Collector:
    """Takes the bytes of results as they come, and judges each batch when it is complete."""

    def __init__(self, s: Tally, as_hex: bool, step: Step | None = None) -> None:
        """Nothing has come yet.  step: is told done and total."""
        self.suite = s
        self.as_hex = as_hex
        self.count = self.received = 0  # results so far; bytes so far
        self._step = step
        self._batches = s.inputs()
        self._batch = next(self._batches, None)
        self._rest = b""
        self._codes: list[Array] = []
        self._unknown: list[Array] = []
        self._waiting = 0
        self._line = 0
        self._unknown_lines: list[int] = []
        self._start = b""

    def feed(self, data: bytes) -> None:
        """Some more bytes."""
        self.received += len(data)
        self._start = (self._start + data)[:64] if len(self._start) < 64 else self._start
        data = self._rest + data
        if self.as_hex and self.received == len(data):
            data = data.removeprefix(BOM)  # some editors and shells write it
        end = data.rfind(b"\n") + 1 if self.as_hex else len(data) - len(data) % self.suite.result_dtype.itemsize
        self._rest = data[end:]
        if end:
            self._take(data[:end])
        if len(self._rest) > LONGEST:
            raise ProtocolError(f"line {self._line + 1} has more than {LONGEST} bytes")
        if max(self.count, self._line // LINES) > self.wanted + MORE:
            raise self._error(f"too many results: more than {MORE} beyond {self.wanted}{self._each()}", ended=False)

    def finish(self) -> None:
        """The end of the results: ProtocolError where they are too few or too many."""
        if self.as_hex and self._rest.strip():
            self._take(self._rest + b"\n")
            self._rest = b""
        self._judge_rest()
        if not self.received:
            raise ProtocolError("nothing came: no result at all")
        if self._rest:
            whole = self.suite.result_dtype.itemsize
            raise self._error(f"ends within a result: {len(self._rest)} of its {whole} bytes")
        if self.count < self.wanted:
            first = f"the first input without one is {self.next_input()}"
            raise self._error(f"too few results: {self.count} of {self.wanted}{self._each()}; {first}")
        if self.count > self.wanted:
            raise self._error(f"too many results: {self.count} for {self.suite.domain} inputs{self._each()}")

    def notes(self) -> list[str]:
        """The lines with x or z."""
        if not self._unknown_lines:
            return []
        more = f" and {len(self._unknown_lines) - 5} more" if len(self._unknown_lines) > 5 else ""
        return [f"x or z in line {', '.join(map(str, self._unknown_lines[:5]))}{more}"]

    def next_input(self) -> str:
        """The input after the last result, as a line has it."""
        for batch in self.suite.inputs():
            at = self.records - batch.offset
            if 0 <= at < batch.bits[0].size:
                return self.suite.input_text([int(column[at]) for column in batch.bits])
        return "none"

    @property
    def wanted(self) -> int:
        """How many results there should be."""
        return self.suite.domain * self.suite.width

    @property
    def records(self) -> int:
        """How many inputs have all of their results."""
        return self.count // self.suite.width

    def _each(self) -> str:
        return f" ({self.suite.width} for each block)" if self.suite.width > 1 else ""

    def _error(self, message: str, ended: bool = True) -> ProtocolError:
        """What is wrong, and how the results were meant, where that can be told.  ended: whether all have come."""
        hint = self._hint(ended)
        return ProtocolError(f"{message}; {hint}" if hint else message, misread=bool(hint))

    def _hint(self, ended: bool) -> str:
        text = re.fullmatch(rb"[\x09-\x0d\x20-\x7e]*", self._start) is not None
        if not self.as_hex and text and len(self._start) >= 2:
            return f"it looks like text ({self._start[:20].decode()!r}): --hex reads results as text"
        if ended and 0 < self.count == self.suite.unseeded * self.suite.width:
            return f"{self.suite.unseeded} inputs are what `gen` writes without --seed"
        came, rest = divmod(self.received, self.wanted)
        if ended and not self.as_hex and not rest and came in (1, 2, 4, 8):
            dtype = self.suite.result_dtype
            return f"exactly {_bytes(came)} came for each result, and {dtype}, {_bytes(dtype.itemsize)}, is wanted"
        return ""

    def _take(self, data: bytes) -> None:
        if self.as_hex:
            codes, unknown = self._parse(data)
        else:
            codes = np.frombuffer(data, self.suite.result_dtype.newbyteorder("<")).astype(self.suite.result_dtype)
            unknown = np.zeros(codes.size, np.bool_)
        self.count += codes.size
        self._codes.append(codes)
        self._unknown.append(unknown)
        self._waiting += codes.size
        while self._batch is not None and self._waiting >= self._batch.bits[0].size * self.suite.width:
            self._judge(self._batch)
            self._batch = next(self._batches, None)
        if self._batch is None:  # too many: they are counted, not kept
            self._codes, self._unknown, self._waiting = [], [], 0

    def _parse(self, data: bytes) -> tuple[Array, Array]:
        """The results of whole lines, and which of them are unknown."""
        codes: list[int] = []
        unknown: list[bool] = []
        for line in data.split(b"\n")[:-1]:
            self._line += 1
            if line.lstrip()[:2] == b"//":
                continue
            for token in line.split():
                if token[:1] == b"@":
                    self._check_address(token, self.count + len(codes))
                    continue
                is_hex = _HEX.fullmatch(token)
                if not is_hex and not _UNKNOWN.fullmatch(token):
                    shown = ascii(token[:24].decode(errors="replace"))
                    raise ProtocolError(f"line {self._line}: {shown} is no hex number")
                unknown.append(not is_hex)
                codes.append(int(token, 16) if is_hex else 0)
                if codes[-1] >> 64:
                    raise ProtocolError(f"line {self._line}: {token[:40].decode()!r} has more than 64 bits")
                if not is_hex:
                    self._unknown_lines.append(self._line)
        return np.array(codes, np.uint64), np.array(unknown, np.bool_)

    def _check_address(self, token: bytes, count: int) -> None:
        """Whether an address of $writememh is that of the next result."""
        if not re.fullmatch(rb"@[0-9a-fA-F]{1,16}", token) or int(token[1:], 16) != count:
            shown = ascii(token[:24].decode(errors="replace"))
            raise ProtocolError(f"line {self._line}: {shown} is not @{count:X}, the address of the next result")

    def _judge(self, batch: Batch) -> None:
        codes, unknown = np.concatenate(self._codes), np.concatenate(self._unknown)
        size = batch.bits[0].size * self.suite.width
        self._codes, self._unknown = [codes[size:]], [unknown[size:]]
        self._waiting -= size
        self.suite.judge_beginning(batch, codes[:size], unknown[:size] if unknown[:size].any() else None)
        if self._step:
            self._step(batch.offset + batch.bits[0].size, self.suite.domain)

    def _judge_rest(self) -> None:
        """What has come of a batch that will not be complete; a digest judges whole chunks alone."""
        n = self._waiting // self.suite.width
        if self._batch is None or not n or isinstance(self.suite.vectors, Digests):
            return
        part = Batch(
            self._batch.offset, tuple(x[:n] for x in self._batch.inputs), tuple(x[:n] for x in self._batch.bits)
        )
        self._judge(part)
        self._batch = None


def _bytes(count: int) -> str:
    return f"{count} byte{'s' if count > 1 else ''}"


def broken(s: Tally, status: Status, reason: str | ProtocolError, notes: tuple[str, ...] = ()) -> Report:
    """The report of what did not come to its end; what was judged before is in it, but for what was misread."""
    if isinstance(reason, ProtocolError) and reason.misread:
        return Report(s.id, status, s.domain, message=str(reason), notes=notes)
    found = s.report()
    return replace(found, status=status, message=str(reason), notes=(*found.notes, *notes))


# --- streams ----------------------------------------------------------------------------------


def blocks(stream: BinaryIO, timeout: float | None) -> Generator[bytes, None, None]:
    """The bytes of a stream as they come; SilenceError when none come for `timeout` seconds."""
    waiting: queue.Queue[bytes | None] = queue.Queue(AHEAD)
    left = threading.Event()
    try:
        number = os.dup(stream.fileno())  # one's own: the other may be closed, and its number mean another file
    except OSError:  # in memory
        number = -1
    threading.Thread(target=_read, args=(stream, number, waiting, left), daemon=True).start()
    try:
        while True:
            try:
                block = waiting.get(timeout=timeout)
            except queue.Empty:
                raise SilenceError from None
            if block is None:
                return
            yield block
    finally:
        left.set()
        with contextlib.suppress(queue.Empty):
            waiting.get_nowait()  # room for a block that a full queue keeps the thread from giving up


def _read(stream: BinaryIO, number: int, waiting: queue.Queue[bytes | None], left: threading.Event) -> None:
    try:  # not by stream.read: its lock, held by a thread that waits, would abort Python at its end
        while not left.is_set() and (block := os.read(number, BLOCK) if number >= 0 else stream.read(BLOCK)):
            waiting.put(block)
    except (OSError, ValueError):
        pass  # closed: the end
    if number >= 0:
        os.close(number)
    if not left.is_set():
        waiting.put(None)


def judge_stream(
    s: Tally, stream: BinaryIO, as_hex: bool, timeout: float | None = None, step: Step | None = None
) -> Report:
    """Judge results from a stream."""
    collector = Collector(s, as_hex, step)
    try:
        with contextlib.closing(blocks(stream, timeout)) as coming:
            for block in coming:
                collector.feed(block)
        collector.finish()
    except ProtocolError as error:
        return broken(s, "error" if collector.received else "notrun", error, tuple(collector.notes()))
    except SilenceError:
        message = f"no result for {timeout:g} s after {collector.count}; the next input is {collector.next_input()}"
        return broken(s, "timeout", message, tuple(collector.notes()))
    found = s.report()
    return replace(found, notes=(*found.notes, *collector.notes()))
