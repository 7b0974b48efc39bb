"""Time encode and decode beside their peers: ratios in one run, one thread, random data.

    python tools/bench_codec.py [--millions 16] [--repeat 5] [--json FILE]

Each pair is first compared (codes of finite results, where the peer rounds once), then timed in turn; see
peers.py.  Peers: ml_dtypes, NumPy's own float16 cast; torch and gfloat where installed.

Source: design of this project.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import feather_ref as fr
from peers import JSON, Case, extra_memory, measure_all, show, write

Array = NDArray[Any]

HEAD = ("what", "format", "data", "source", "peer")
NARROW = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "e2m1": "float4_e2m1fn", "bf16": "bfloat16"}
TORCH = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "bf16": "bfloat16", "fp16": "float16"}
GFLOAT = {"e4m3": "format_info_ocp_e4m3", "e5m2": "format_info_ocp_e5m2", "e2m1": "format_info_ocp_e2m1"}
# (what, format, data, source): the ratio that the project asks for
WANTED: dict[tuple[str, ...], float] = {
    **{("encode", fmt, "normal", "float32"): 3.5 for fmt in ("e4m3", "e5m2", "e2m1")},
    **{("decode", fmt, "codes", ""): 3.5 for fmt in ("e4m3", "e5m2", "e2m1")},
    **{("encode", fmt, "normal", src): 1.0 for fmt in ("e4m3", "e5m2", "e2m1") for src in ("float64", "float16")},
    ("encode", "fp16", "normal", "float32"): 0.8,
    ("encode", "bf16", "normal", "float32"): 0.4,
}


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
                yield case(("encode", fmt, data, source, name), partial(fr.encode, z, fmt), partial(z.astype, dtype), n)
    for fmt in (*NARROW, "fp16"):
        row = fr.get_format(fmt)
        codes = np.random.default_rng(2).integers(0, 1 << row.bits, n, dtype=fr.code_dtype(fmt))
        typed = codes.view(peer_dtype(fmt))
        name = "numpy" if fmt == "fp16" else "ml_dtypes"
        yield case(("decode", fmt, "codes", "", name), partial(fr.decode, codes, fmt), partial(typed.astype, "f4"), n)
    yield from optional_cases(n)


def optional_cases(n: int) -> Iterator[Case]:
    """torch and gfloat, where they are installed."""
    if importlib.util.find_spec("torch"):
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        x = inputs(n)["normal"]
        for fmt, name in TORCH.items():
            theirs = partial(torch.from_numpy(x).to, getattr(torch, name))
            yield case(("encode", fmt, "normal", "float32", "torch"), partial(fr.encode, x, fmt), theirs, n)
    if importlib.util.find_spec("gfloat"):
        gfloat, formats = importlib.import_module("gfloat"), importlib.import_module("gfloat.formats")
        few = inputs(n // 64)["normal"]  # it is some hundred times slower
        for fmt, name in GFLOAT.items():
            theirs = partial(gfloat_encode, gfloat, getattr(formats, name), few)
            yield case(("encode", fmt, "normal", "float32", "gfloat"), partial(fr.encode, few, fmt), theirs, few.size)


def gfloat_encode(gfloat: Any, info: Any, x: Array) -> Any:
    """Round, then look the codes up."""
    return gfloat.encode_ndarray(info, gfloat.round_ndarray(info, x.astype(np.float64), sat=True))


def differing(fmt: str, what: str, ours: Array, theirs: Any) -> int:
    """How many finite results differ."""
    got, wanted = ours, np.asarray(theirs)
    if what == "encode":
        got, wanted = fr.decode(got, fmt), wanted.astype(np.float32)
    both = np.isfinite(wanted) & (np.abs(wanted) < fr.get_format(fmt).max)
    return int(np.count_nonzero(got.view(np.uint32)[both] != wanted.view(np.uint32)[both]))


def case(labels: tuple[str, ...], ours: Callable[[], Array], theirs: Callable[[], Any], n: int) -> Case:
    """A case; what has another policy, or rounds twice, is compared in tests/crosscheck."""
    what, fmt, _, source, peer = labels
    compared = peer in ("ml_dtypes", "numpy") and source != "float64"
    wanted = WANTED.get(labels[:4]) if peer in ("ml_dtypes", "numpy") else None
    return Case(labels, ours, theirs, n, n, partial(differing, fmt, what) if compared else None, True, wanted)


def memory(n: int) -> dict[str, int]:
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
    return extra_memory(jobs, lambda out: 0)


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--millions", default=16, show_default=True, help="Elements, in units of 2**20.")
@click.option("--repeat", default=5, show_default=True, help="Timed runs of each.")
@JSON
def main(millions: int, repeat: int, path: Path | None) -> None:
    """Check, then time."""
    n = millions << 20
    with np.errstate(all="ignore"):  # the peers warn about overflow
        results = measure_all(list(cases(n)), repeat)
    extra = memory(n)
    show(HEAD, results, extra)
    if path:
        write(path, HEAD, results, extra, n, ["ml_dtypes"])


if __name__ == "__main__":
    main()
