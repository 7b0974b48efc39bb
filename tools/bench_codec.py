"""Time encode and decode beside their peers: ratios in one run, one thread, random data.

    python tools/bench_codec.py [--millions 16] [--repeat 5] [--json FILE]

Each pair is first compared (codes of finite results, where the peer rounds once), then timed in
turn, ours and the peer's, so that a drifting machine slows both.  A ratio above 1 means that ours
is faster.  Peers: ml_dtypes, NumPy's own float16 cast; torch and gfloat where installed.

Source: design of this project.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

import feather_ref as fr

Array = NDArray[Any]

NARROW = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "e2m1": "float4_e2m1fn", "bf16": "bfloat16"}
TORCH = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "bf16": "bfloat16", "fp16": "float16"}
GFLOAT = {"e4m3": "format_info_ocp_e4m3", "e5m2": "format_info_ocp_e5m2", "e2m1": "format_info_ocp_e2m1"}
# (what, format, data, source): the ratio that the project asks for
WANTED = {
    **{("encode", fmt, "normal", "float32"): 3.5 for fmt in ("e4m3", "e5m2", "e2m1")},
    **{("decode", fmt, "codes", ""): 3.5 for fmt in ("e4m3", "e5m2", "e2m1")},
    **{("encode", fmt, "normal", src): 1.0 for fmt in ("e4m3", "e5m2", "e2m1") for src in ("float64", "float16")},
    ("encode", "fp16", "normal", "float32"): 0.8,
    ("encode", "bf16", "normal", "float32"): 0.4,
}


@dataclass(frozen=True)
class Case:
    """One operation, ours and a peer's."""

    what: str
    fmt: str
    data: str
    source: str
    peer: str
    ours: Callable[[], Array]
    theirs: Callable[[], Any]
    n: int


@dataclass(frozen=True)
class Result:
    """Medians in million elements a second, and their ratio pair by pair."""

    what: str
    fmt: str
    data: str
    source: str
    peer: str
    ours: float
    theirs: float
    ratio: float
    wanted: float | None


def peer_dtype(fmt: str) -> np.dtype[Any]:
    """The NumPy dtype that holds a format."""
    return np.dtype(np.float16) if fmt == "fp16" else np.dtype(getattr(ml_dtypes, NARROW[fmt]))


def inputs(n: int) -> dict[str, Array]:
    """Normal deviates, and uniformly random bits (with NaN, Inf, subnormals)."""
    rng = np.random.default_rng(20260101)
    return {
        "normal": rng.standard_normal(n, np.float32),
        "bits": rng.integers(0, 1 << 32, n, np.uint32).view(np.float32),
    }


def cases(n: int) -> Iterator[Case]:
    """Everything that is timed, in the order of the table."""
    for data, x in inputs(n).items():
        for fmt in (*NARROW, "fp16"):
            # NaN into a format without NaN is an error here and -0 there
            y = np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf) if fmt == "e2m1" else x
            sources = ("float32", "float64", "float16") if data == "normal" and fmt in GFLOAT else ("float32",)
            for source in sources:
                z = y.astype(source)
                dtype = peer_dtype(fmt)
                name = "numpy" if fmt == "fp16" else "ml_dtypes"
                yield Case("encode", fmt, data, source, name, partial(fr.encode, z, fmt), partial(z.astype, dtype), n)
    for fmt in (*NARROW, "fp16"):
        row = fr.get_format(fmt)
        codes = np.random.default_rng(2).integers(0, 1 << row.bits, n, dtype=fr.code_dtype(fmt))
        typed = codes.view(peer_dtype(fmt))
        name = "numpy" if fmt == "fp16" else "ml_dtypes"
        yield Case("decode", fmt, "codes", "", name, partial(fr.decode, codes, fmt), partial(typed.astype, "f4"), n)
    yield from optional_cases(n)


def optional_cases(n: int) -> Iterator[Case]:
    """torch and gfloat, where they are installed."""
    if importlib.util.find_spec("torch"):
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        x = inputs(n)["normal"]
        for fmt, name in TORCH.items():
            theirs = partial(torch.from_numpy(x).to, getattr(torch, name))
            yield Case("encode", fmt, "normal", "float32", "torch", partial(fr.encode, x, fmt), theirs, n)
    if importlib.util.find_spec("gfloat"):
        gfloat, formats = importlib.import_module("gfloat"), importlib.import_module("gfloat.formats")
        few = inputs(n // 64)["normal"]  # it is some hundred times slower
        for fmt, name in GFLOAT.items():
            theirs = partial(gfloat_encode, gfloat, getattr(formats, name), few)
            yield Case("encode", fmt, "normal", "float32", "gfloat", partial(fr.encode, few, fmt), theirs, few.size)


def gfloat_encode(gfloat: Any, info: Any, x: Array) -> Any:
    """Round, then look the codes up."""
    return gfloat.encode_ndarray(info, gfloat.round_ndarray(info, x.astype(np.float64), sat=True))


def check(case: Case) -> None:
    """Ours and the peer's give the same finite results before anything is timed."""
    if case.peer in ("torch", "gfloat") or case.source == "float64":
        return  # another policy, or a peer that rounds twice: compared in tests/crosscheck
    ours, theirs = case.ours(), np.asarray(case.theirs())
    if case.what == "encode":
        theirs = theirs.astype(np.float32)
        ours = fr.decode(ours, case.fmt)
    top = fr.get_format(case.fmt).max
    both = np.isfinite(theirs) & (np.abs(theirs) < top)
    wrong = np.count_nonzero(ours.view(np.uint32)[both] != theirs.view(np.uint32)[both])
    if wrong:
        raise click.ClickException(f"{case.what} {case.fmt} {case.data}: {wrong} results differ from {case.peer}")


def seconds(f: Callable[[], Any]) -> float:
    """One run."""
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def measure(case: Case, repeat: int) -> Result:
    """Time both in turn."""
    check(case)
    pairs = [(seconds(case.ours), seconds(case.theirs)) for _ in range(repeat + 1)][1:]
    ours, theirs = (float(np.median(column)) for column in zip(*pairs, strict=True))
    ratio = float(np.median([b / a for a, b in pairs]))
    key = (case.what, case.fmt, case.data, case.source)
    wanted = WANTED.get(key) if case.peer in ("ml_dtypes", "numpy") else None
    speeds = (case.n / ours / 1e6, case.n / theirs / 1e6)
    return Result(*key, case.peer, *speeds, ratio, wanted)


def extra_memory(n: int) -> dict[str, int]:
    """Peak bytes beyond input and output, by what was done."""
    x = inputs(n)["normal"]
    codes = fr.encode(x, "e4m3")
    halves = fr.encode(x, "fp16")
    values = fr.decode(codes, "e4m3")
    jobs: dict[str, Callable[[], Array]] = {
        "encode to e4m3": partial(fr.encode, x, "e4m3", out=codes),
        "every second element": partial(fr.encode, x[::2], "e4m3", out=codes[::2]),
        "encode to fp16": partial(fr.encode, x, "fp16", out=halves),
        "decode": partial(fr.decode, codes, "e4m3", out=values),
    }
    found = {}
    for name, job in jobs.items():
        job()
        tracemalloc.start()
        job()
        found[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return found


def show(results: list[Result], memory: dict[str, int]) -> None:
    """The table, losing rows too."""
    table = Table("what", "format", "data", "source", "peer", "ours M/s", "peer M/s", "ratio", "wanted")
    for r in results:
        wanted = "" if r.wanted is None else f"{r.wanted:.1f} {'ok' if r.ratio >= r.wanted else 'MISSED'}"
        table.add_row(
            r.what, r.fmt, r.data, r.source, r.peer, f"{r.ours:.0f}", f"{r.theirs:.0f}", f"{r.ratio:.2f}", wanted
        )
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(table)
    for name, peak in memory.items():
        console.print(f"memory beyond input and output, {name}: {peak / 1024:.0f} KiB")


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--millions", default=16, show_default=True, help="Elements, in units of 2**20.")
@click.option("--repeat", default=5, show_default=True, help="Timed runs of each.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the figures here as well.")
def main(millions: int, repeat: int, path: Path | None) -> None:
    """Check, then time."""
    n = millions << 20
    with np.errstate(all="ignore"):  # the peers warn about overflow
        results = [measure(case, repeat) for case in track(list(cases(n)), description="timing", transient=True)]
    memory = extra_memory(n)
    show(results, memory)
    if path:
        about = {"machine": platform.machine(), "python": platform.python_version(), "elements": n}
        about |= {name: version(name) for name in ("numpy", "ml_dtypes")}
        record = {"about": about, "results": [asdict(r) for r in results], "extra_bytes": memory}
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    missed = [r for r in results if r.wanted is not None and r.ratio < r.wanted]
    click.echo(f"{len(missed)} of {sum(r.wanted is not None for r in results)} wanted ratios missed")


if __name__ == "__main__":
    main()
