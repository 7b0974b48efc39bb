"""What a command reads, and where it writes: to a new file, over one with --force, or to stdout for "-".

Source: design of this project; the dash is guideline 13 of POSIX, Utility Conventions.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import click


class _Input(click.Path):
    """A file that is there; a dash is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse the dash by what to do instead."""
        if value == "-":
            self.fail("stdin is read by encode, decode, check, and diff for A or B; give a file here", param, ctx)
        return super().convert(value, param, ctx)


INPUT = _Input(exists=True, dir_okay=False, path_type=Path)
OUTPUT = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
FORCE = click.option("--force", is_flag=True, help="Replace a file that is there.")

_SPELLED = {"output": "-o FILE", "json": "--json FILE", "draw": "--draw FILE"}


def is_stdout(path: Path | None) -> bool:
    """Whether a path is the dash that stands for stdout."""
    return path is not None and str(path) == "-"


def check_free(force: bool, source: Path | None = None, **targets: Path | None) -> None:
    """Refuse to write over a file, unless that is asked for, or into no folder; a device or a pipe is no file.

    source: what is read, which nothing may replace; whoever reads it says so.  targets: by the name of their option.
    """
    files = {name: path for name, path in targets.items() if path is not None and not is_stdout(path)}
    if force and not files:
        raise click.UsageError(f"--force replaces a file; say {' or '.join(_SPELLED[name] for name in targets)}")
    for name, path in files.items():
        if not path.parent.is_dir():
            raise ValueError(f"{name}: there is no folder {path.parent}")
        if path.is_file() and not force and not (source is not None and os.path.samefile(source, path)):
            raise ValueError(f"{name}: {path} is there already; --force replaces it")


def binary_stdout(instead: str = "-o FILE") -> BinaryIO:
    """stdout for bytes; an error where it is closed, or a terminal.  instead: what to say then."""
    check_stdout()
    if sys.stdout.isatty():
        raise click.UsageError(f"binary output is not for a terminal; say {instead}")
    return sys.stdout.buffer


def check_stdout() -> None:
    """Refuse to write to a stdout that is closed."""
    if sys.stdout is None:
        raise click.UsageError("stdout is closed; say -o FILE")


@contextmanager
def tensor_target(output: Path, suffix: str) -> Iterator[Path]:
    """The file of tensors to write; for stdout one with a suffix, which goes there at the end."""
    if not is_stdout(output):
        yield output
        return
    stdout = binary_stdout()
    with TemporaryDirectory(prefix="feather-ref-") as folder:
        path = Path(folder) / f"stdout{suffix}"
        try:
            yield path
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), "stdout")) from error
        with path.open("rb") as file:
            shutil.copyfileobj(file, stdout)
        stdout.flush()
