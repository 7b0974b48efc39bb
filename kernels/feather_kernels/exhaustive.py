"""Every float32 there is, 2**32 of them, through a conversion on the GPU, judged by the golden vectors.

    run file       says of every input what comes of it; its lines lie on the GPU, and each input finds its own
    digest file    says how 2**24 results hash; they come back to the host, and threads hash them
    no file        the codec on the host says what comes of every input, in threads

The vectors were made by the exact oracle of `feather_ref`, and are checked against their manifest first.

Source: data/golden/README.md, which defines the files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import driver
from feather_ref import golden
from feather_ref.conformance import vectors

CHUNK = golden.CHUNK
INPUTS = 1 << 32
THREADS = 16

_SHORT = {long: short for short, long in golden.TOKENS.items()}

Codes = Callable[[Any], Any]  # of the bits of float32, uint32 of CuPy


@dataclass(frozen=True)
class Result:
    """What came of all inputs; true where all are right.

    what: the conversion.  against: the vectors, or the codec.  wrong: inputs with a wrong code; other: NaN
    that became another NaN than the file's, where any will do.  first: the first wrong input, its code, and
    the right one.
    """

    what: str
    against: str
    wrong: int
    other: int = 0
    first: tuple[int, int, int] | None = None

    def __bool__(self) -> bool:
        return self.wrong == 0

    def __str__(self) -> str:
        """The verdict in one line.

        >>> print(Result("encode e4m3", "the codec", 2, 0, (0x3F800000, 0x39, 0x38)))
        encode e4m3 of 2**32 float32, against the codec: 2 wrong, the first 0x3f800000: 0x39, not 0x38
        """
        verdict = f"{self.what} of 2**32 float32, against {self.against}: {self.wrong} wrong"
        if self.first is None:
            return verdict
        x, code, wanted = self.first
        return f"{verdict}, the first {x:#010x}: {code:#x}, not {wanted:#x}"


@dataclass(frozen=True)
class Part:
    """What came of one chunk: as in `Result`."""

    wrong: int = 0
    other: int = 0
    first: tuple[int, int, int] | None = None


def sweep(fmt: str | fr.Format, overflow: str, progress: bool = True) -> Result:
    """`encode` on the GPU of every float32, rounded to nearest even.

    NaN must become the very code of the codec; by a digest file any NaN passes.  overflow: a name as `encode`
    takes it.  progress: a bar on stderr, where that is a terminal.
    """
    row, cupy = fr.get_format(fmt), driver.cupy()
    what = f"encode {row.name} {overflow}"

    def codes_of(bits: Any) -> Any:
        return fk.encode(bits.view(cupy.float32), row, overflow=overflow)

    file = find(row.name, overflow=overflow)
    if file is not None:
        return judge(file, codes_of, what, progress, any_nan=False)
    return _sum(what, "the codec", _by_codec(codes_of, row, overflow), progress)


def find(
    target: str, rounding: str = "nearest_even", overflow: str = "nonsaturating", nan: str | None = None
) -> str | None:
    """The id of the vectors that say of every float32 what comes of it; None where there are none here.

    >>> find("fp16", "toward_zero"), find("e2m1", overflow="saturate", nan="max")
    ('convert.f32.f16.rtz.nonsat.run', 'convert.f32.e2m1.rne.sat.nan=max.run')
    """
    try:
        known = golden.manifest()
    except FileNotFoundError:
        return None
    names = (_SHORT.get(name, name) for name in ("fp32", target, rounding, overflow))
    stem = ".".join(["convert", *names, *([] if nan is None else [f"nan={nan}"])])
    return next((name for name in (f"{stem}.run", f"{stem}.dig") if name in known), None)


def judge(vector_id: str, codes_of: Codes, what: str, progress: bool = True, any_nan: bool = True) -> Result:
    """Every float32 through a conversion, by the vectors of an id.

    codes_of: from the bits of float32, uint32 of CuPy, to codes of `code_dtype`.  any_nan: whether one NaN is as
    good as another where the vectors say so.

    Raises `feather_ref.conformance.CorruptError` where the file is not what its manifest says.
    """
    asked = golden.question(vector_id)
    loaded: Any = vectors.load(vector_id, asked, True, None)
    row = fr.get_format(asked.target)
    if isinstance(loaded, vectors.Steps):
        parts = _by_lines(codes_of, Lines(driver.cupy(), loaded, row, any_nan))
    else:
        parts = _by_hashes(codes_of, loaded)
    return _sum(what, vector_id, parts, progress)


def _sum(what: str, against: str, parts: Iterable[Part], progress: bool) -> Result:
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    hidden = not (progress and console.is_terminal)
    every = list(track(parts, what, total=INPUTS // CHUNK, console=console, transient=True, disable=hidden))
    first = next((part.first for part in every if part.first is not None), None)
    return Result(what, against, sum(part.wrong for part in every), sum(part.other for part in every), first)


def chunks() -> Iterator[tuple[int, Any]]:
    """Where a chunk of inputs begins, and their bits on the GPU."""
    cupy = driver.cupy()
    ramp = cupy.arange(CHUNK, dtype=cupy.uint32)
    for start in range(0, INPUTS, CHUNK):
        yield start, ramp + cupy.uint32(start)


# --- by the lines of a run file ---------------------------------------------------------------


class Lines:
    """The lines of a run file as arrays of NumPy or CuPy."""

    def __init__(self, library: Any, steps: Any, row: fr.Format, any_nan: bool = True) -> None:
        """Put them there.  steps: with hi, z and j of each line, in order."""
        dtype = fr.code_dtype(row)
        nans = np.zeros(1 << 8 * dtype.itemsize, np.bool_)
        nans[: 1 << row.bits] = [row.is_nan(code) for code in range(1 << row.bits)]
        self.library, self.is_nan = library, library.asarray(nans)
        self.hi, self.z = (library.asarray(np.asarray(a, t)) for a, t in ((steps.hi, np.uint32), (steps.z, dtype)))
        self.digits = library.asarray(steps.j if any_nan else np.minimum(steps.j, 1))

    def part(self, bits: Any, codes: Any) -> Part:
        """How the codes of a chunk are judged; the digit 3 is not asked of conversions, and would count as 1."""
        line = self.library.searchsorted(self.hi, bits)
        wanted, digits = self.z[line], self.digits[line]
        unlike = codes != wanted
        other = unlike & (digits == 2) & self.is_nan[codes]
        wrong = unlike & ~other & (digits != 0)
        return Part(int(wrong.sum()), int(other.sum()), _first(bits, codes, wanted, wrong))


def _first(bits: Any, codes: Any, wanted: Any, wrong: Any) -> tuple[int, int, int] | None:
    at = int(wrong.argmax())
    return (int(bits[at]), int(codes[at]), int(wanted[at])) if bool(wrong[at]) else None


def _by_lines(codes_of: Codes, lines: Lines) -> Iterator[Part]:
    for _, bits in chunks():
        yield lines.part(bits, codes_of(bits))


# --- on the host ------------------------------------------------------------------------------


def _by_hashes(codes_of: Codes, digests: Any) -> Iterator[Part]:
    def part(start: int, codes: Any) -> Part:
        return hashed(digests, start, codes)

    return _in_threads((part, start, codes_of(bits).get()) for start, bits in chunks())


def hashed(digests: Any, start: int, codes: Any) -> Part:
    """How the codes of a chunk on the host are judged; any NaN has the hash of the canonical one."""
    if digests.agrees(start, codes):
        return Part()
    row = fr.get_format(digests.question.target)
    wanted = digests.expected(start, start + codes.size)
    wrong = vectors.canonical(codes, row) != vectors.canonical(wanted, row)
    return Part(int(wrong.sum()), 0, _first(np.arange(start, start + codes.size), codes, wanted, wrong))


def _by_codec(codes_of: Codes, row: fr.Format, overflow: str) -> Iterator[Part]:
    policies: dict[str, Any] = {"overflow": overflow}

    def part(start: int, codes: Any) -> Part:
        bits = np.arange(start, start + CHUNK, dtype=np.int64).astype(np.uint32)
        wanted = fr.encode(bits.view(np.float32), row, **policies)
        wrong = codes != wanted
        return Part(int(wrong.sum()), 0, _first(bits, codes, wanted, wrong))

    return _in_threads((part, start, codes_of(bits).get()) for start, bits in chunks())


def _in_threads(work: Iterable[tuple[Callable[[int, Any], Part], int, Any]]) -> Iterator[Part]:
    """The parts in their order; no more than some chunks are on the host at once."""
    waiting: deque[Future[Part]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        for function, start, codes in work:
            waiting.append(pool.submit(function, start, codes))
            if len(waiting) > 2 * THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
