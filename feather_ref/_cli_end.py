"""Told to end: SIGTERM and SIGHUP as an exception, so that files are closed and temporary ones removed.

    exit code 143   SIGTERM: 128 and its number, as a shell says it
    exit code 129   SIGHUP

Source: POSIX, Shell Command Language 2.8.2, for the exit codes.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # no HUP on Windows


class Ended(BaseException):
    """The program is told to end; no Exception, and no SystemExit, so that no judge takes it for a fault."""

    def __init__(self, number: int) -> None:
        """number: of the signal."""
        super().__init__(number)
        self.number = number


@contextmanager
def orderly() -> Iterator[None]:
    """End with an exit code, after everything is put away.  A signal that is ignored stays so, as by nohup."""
    ours = [number for number in _SIGNALS if signal.getsignal(number) == signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> None:
        for each in ours:
            signal.signal(each, signal.SIG_IGN)  # another one must not break off the clean-up
        raise Ended(number)

    for number in ours:
        signal.signal(number, end)
    try:
        yield
    except Ended as ended:
        sys.exit(128 + ended.number)
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
