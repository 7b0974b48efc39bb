"""Send all 2**32 float32 through `feather_ref.encode` and through ref.c, and compare every code.

    python tests/exhaustive/sweep.py [--log FILE] [CASE ...]

Codes are compared as they are, NaN by its code too: each case names the policy that chooses it.
Printed for each case: inputs, mismatches, SHA-256 of all codes of `encode` in the order of the
inputs' bits, seconds.  The exit status is 1 where a code differs.

Source: ref.c names the standards; README.md the choices that they leave.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

import feather_ref as fr

HERE = Path(__file__).resolve().parent
GCC = shutil.which("gcc")
ALL = 1 << 32
CHUNK = 1 << 24
SHOWN = 3  # mismatches that are printed

Array = NDArray[Any]
Coder = Callable[[Array], Array]  # float32 bits -> codes
FORMATS = ("e4m3", "e5m2", "e2m1", "e8m0")  # as ref.c numbers them
OVERFLOWS = ("saturate", "nonsaturating")
NEGATIVES = ("abs", "nan")


@dataclass(frozen=True)
class Case:
    """One sweep: a format, and the policies where the standard or the project leaves a choice."""

    fmt: str
    overflow: str
    nan: str = "canonical"
    negative: str | None = None

    def __str__(self) -> str:
        return "-".join(filter(None, (self.fmt, self.overflow, self.negative)))


CASES = (
    Case("e4m3", "saturate"),
    Case("e4m3", "nonsaturating"),
    Case("e5m2", "saturate"),
    Case("e5m2", "nonsaturating"),
    Case("e2m1", "saturate", nan="max"),
    Case("e8m0", "saturate", negative="abs"),
    Case("e8m0", "nonsaturating", negative="nan"),
)


@dataclass
class Result:
    """What one sweep found; `first` are the first mismatches as hex: input, got, wanted."""

    inputs: int
    mismatches: int
    sha256: str
    first: list[str]
    seconds: float = 0.0


def build(folder: str) -> ctypes.CDLL:
    """Compile ref.c into `folder` and load it."""
    if GCC is None:
        raise FileNotFoundError("gcc is not on the path")
    library = Path(folder) / "ref.so"
    flags = ["-O2", "-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-shared", "-fPIC"]
    subprocess.run([GCC, *flags, HERE / "ref.c", "-o", library], check=True)
    return ctypes.CDLL(str(library))


def ours(case: Case) -> Coder:
    """The codes of feather_ref."""
    policies: Any = {"overflow": case.overflow, "nan": case.nan, "negative": case.negative}
    return lambda bits: fr.encode(bits.view(np.float32), case.fmt, **policies)


def theirs(library: ctypes.CDLL, case: Case) -> Coder:
    """The codes of ref.c."""
    choice = (
        FORMATS.index(case.fmt),
        OVERFLOWS.index(case.overflow),
        NEGATIVES.index(case.negative) if case.negative else 0,
    )

    def codes(bits: Array) -> Array:
        out = np.empty(bits.size, np.uint8)
        status = library.ref_codes(
            *choice, ctypes.c_void_p(bits.ctypes.data), ctypes.c_uint32(bits.size), ctypes.c_void_p(out.ctypes.data)
        )
        if status:
            raise ValueError(f"ref.c does not know {case}")
        return out

    return codes


def compare(chunks: Iterable[Array], got: Coder, want: Coder) -> Result:
    """Compare two coders on chunks of contiguous uint32."""
    result, digest = Result(0, 0, "", []), hashlib.sha256()
    for bits in chunks:
        codes, wanted = got(bits), want(bits)
        digest.update(codes)
        result.inputs += bits.size
        wrong = codes != wanted
        if wrong.any():
            where = np.flatnonzero(wrong)
            result.mismatches += where.size
            shown = where[: SHOWN - len(result.first)]
            result.first += [f"{bits[i]:08X}: got {codes[i]:02X}, want {wanted[i]:02X}" for i in shown]
    result.sha256 = digest.hexdigest()
    return result


def everything(progress: Progress, text: str) -> Iterator[Array]:
    """All float32 bits in order, in chunks."""
    bits = np.arange(CHUNK, dtype=np.uint32)
    for _ in progress.track(range(ALL // CHUNK), description=text):
        yield bits
        bits += np.uint32(CHUNK)  # comes back to the first at the end


def provenance() -> dict[str, Any]:
    """What was compared: the commit, which of the files that were used differ from it, versions."""

    def run(*command: str) -> str:
        return subprocess.run(command, cwd=HERE, check=False, capture_output=True, text=True).stdout.rstrip()

    loaded = [module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "feather_ref"]
    changed = run("git", "status", "--porcelain", "--", str(HERE / "ref.c"), *filter(None, loaded))
    return {
        "commit": run("git", "rev-parse", "HEAD") or "unknown",
        "changed since": [line[3:] for line in changed.splitlines()],
        "ref.c sha256": hashlib.sha256((HERE / "ref.c").read_bytes()).hexdigest(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "compiler": run(str(GCC), "--version").splitlines()[0],
        "machine": f"{platform.system()} {platform.machine()}",
    }


def main(arguments: list[str]) -> int:
    """Run the cases that are named, or all."""
    parser = argparse.ArgumentParser(description="all float32 through encode and through ref.c")
    parser.add_argument("--log", type=Path, help="where to write a JSON log")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(map(str, CASES)))
    options = parser.parse_args(arguments)
    if unknown := set(options.cases) - set(map(str, CASES)):
        parser.error(f"unknown case {', '.join(sorted(unknown))}; known: {', '.join(map(str, CASES))}")
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, Progress(transient=True) as progress:
        library = build(folder)
        for case in CASES:
            if options.cases and str(case) not in options.cases:
                continue
            start = time.perf_counter()
            found = compare(everything(progress, str(case)), ours(case), theirs(library, case))
            found.seconds = round(time.perf_counter() - start, 1)
            results[str(case)] = asdict(case) | asdict(found)
            progress.print(
                f"{case!s:24} {found.inputs:,} inputs  {found.mismatches:,} mismatches  {found.seconds:.1f} s",
                f"\n    sha256 {found.sha256}", *(f"\n    {line}" for line in found.first), highlight=False,
            )  # fmt: skip
    if options.log:
        text = json.dumps({**provenance(), "cases": results}, indent=1)
        options.log.write_text(text + "\n", encoding="ascii", newline="\n")
    return int(any(result["mismatches"] for result in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
