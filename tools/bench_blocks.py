"""Time block formats beside torchao, gfloat and gguf: ratios in one run, one thread, normal deviates.

    python tools/bench_blocks.py [--millions 4] [--repeat 7] [--json FILE]

Each pair is first compared, codes and scales, then timed in turn; see peers.py.  A peer that is not
installed is left out and named.

Source: design of this project.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from feather_ref.blocks import BlockTensor, quantize_blocks
from feather_ref.layouts import from_bytes
from peers import JSON, Case, extra_memory, measure_all, show, write

Array = NDArray[Any]
HEAD = ("what", "peer")

# format: (name of torchao's dtype, the ratio that the project asks for)
TORCHAO = {
    "mxfp8_e4m3": ("float8_e4m3fn", 1.0),
    "mxfp8_e5m2": ("float8_e5m2", 1.0),
    "mxfp6_e3m2": ("fp6_e3m2", None),
    "mxfp6_e2m3": ("fp6_e2m3", None),
    "mxfp4": ("float4_e2m1fn_x2", 2.0),
}
GFLOAT = {"mxfp8_e4m3": "mxfp8_e4m3", "mxfp8_e5m2": "mxfp8_e5m2", "mxfp4": "mxfp4_e2m1"}
GFLOAT_WANTED = 100.0
GGUF = {"q8_0": "Q8_0", "q4_0": "Q4_0", "ggml_mxfp4": "MXFP4"}


def numbers(n: int) -> Array:
    """n normal deviates in rows of 1024."""
    return np.random.default_rng(20260101).standard_normal((max(n // 1024, 1), 1024), np.float32)


def installed(name: str) -> bool:
    """Whether a peer is there."""
    return importlib.util.find_spec(name) is not None


def case(
    what: str, peer: str, ours: Callable[[], Any], theirs: Callable[[], Any],
    codes: Callable[[Any], tuple[Array, Array]] | None, n: int, wanted: float | None, their_n: int = 0,
) -> Case:  # fmt: skip
    """A case.  codes: scale codes and element codes of what the peer gives, both flat."""

    def differing(mine: BlockTensor, other: Any) -> int:
        scales, elements = codes(other)  # type: ignore[misc]  # called where there is one
        wrong = [mine.scales.ravel() != scales, mine.codes.ravel() != elements]
        return sum(int(np.count_nonzero(part)) for part in wrong)

    return Case((what, peer), ours, theirs, n, their_n or n, None if codes is None else differing, True, wanted)


def torchao_cases(x: Array) -> Iterator[Case]:
    """Its eager functions on one thread, the OCP rule."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    mx = importlib.import_module("torchao.prototype.mx_formats.mx_tensor")
    nv = importlib.import_module("torchao.prototype.mx_formats.nvfp4_tensor")
    data = torch.from_numpy(x)
    for fmt, (name, wanted) in TORCHAO.items():
        theirs = partial(mx.to_mx, data, getattr(torch, name, name), 32)
        packed = partial(unpacked, pairs=fmt == "mxfp4")
        yield case(fmt, "torchao", partial(quantize_blocks, x, fmt), theirs, packed, x.size, wanted)

    def two_levels() -> Any:
        return nv.nvfp4_quantize(data, 16, nv.per_tensor_amax_to_scale(data.abs().max()))

    for rule in ("nvfp4_torchao", "nvfp4_exact"):
        ours = partial(quantize_blocks, x, "nvfp4", scale_rule=rule)
        compared = partial(unpacked, pairs=True) if rule == "nvfp4_torchao" else None  # the same sums, or others
        yield case(rule, "torchao", ours, two_levels, compared, x.size, 1.0)


def unpacked(pair: Any, pairs: bool) -> tuple[Array, Array]:
    """torchao's scales and codes; two codes a byte, the first in the low bits."""
    scales, codes = (part.view(importlib.import_module("torch").uint8).numpy().ravel() for part in pair)
    return scales, np.stack([codes & 15, codes >> 4], axis=-1).ravel() if pairs else codes


def gfloat_cases(x: Array) -> Iterator[Case]:
    """Its scalar blocks, on few numbers."""
    gfloat = importlib.import_module("gfloat")
    formats = importlib.import_module("gfloat.formats")
    rows = x[:2].reshape(-1, 32).astype(np.float64)
    for fmt, name in GFLOAT.items():
        theirs = partial(gfloat_blocks, gfloat, getattr(formats, f"format_info_{name}"), rows)
        yield case(fmt, "gfloat", partial(values_of, x, fmt), theirs, None, x.size, GFLOAT_WANTED, rows.size)


def gfloat_blocks(gfloat: Any, info: Any, rows: Array) -> list[Any]:
    """Quantize and decode, block by block: it has no function for an array."""
    return [gfloat.quantize_block(info, row, gfloat.compute_scale_amax) for row in rows]


def values_of(x: Array, fmt: str) -> Array:
    """Ours, to the same end."""
    return quantize_blocks(x, fmt).dequantize()


def gguf_cases(x: Array) -> Iterator[Case]:
    """Its functions of NumPy."""
    gguf = importlib.import_module("gguf")
    for fmt, name in GGUF.items():
        theirs = partial(gguf.quants.quantize, x, gguf.GGMLQuantizationType[name])
        codes = partial(apart, fmt=fmt, shape=x.shape)
        yield case(fmt, "gguf", partial(quantize_blocks, x, fmt), theirs, codes, x.size, None)


def apart(data: Array, fmt: str, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Scales and codes of ggml's bytes."""
    tensor = from_bytes({"blocks": data.reshape(-1)}, fmt, shape)
    return tensor.scales.ravel(), tensor.codes.ravel()


def other_cases(x: Array) -> Iterator[Case]:
    """Without a peer: beside our own mxfp8, to see that none is lost."""
    base = partial(quantize_blocks, x, "mxfp8_e4m3")
    for fmt in ("fp8_1x128", "fp8_block128", "int8_g32", "int4_g32", "uint4_g32", "ggml_nvfp4"):
        yield case(fmt, "our mxfp8", partial(quantize_blocks, x, fmt), base, None, x.size, None)
    for fmt in ("mxfp8_e4m3", "nvfp4"):
        tensor = quantize_blocks(x, fmt)
        yield case(f"dequantize {fmt}", "our mxfp8", tensor.dequantize, base, None, x.size, None)


def memory(x: Array) -> dict[str, int]:
    """Peak bytes beyond input and output."""
    formats = ("mxfp8_e4m3", "mxfp4", "nvfp4", "fp8_block128")
    jobs = {fmt: partial(quantize_blocks, x, fmt) for fmt in formats}
    return extra_memory(jobs, lambda tensor: tensor.codes.nbytes + tensor.scales.nbytes)


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--millions", default=4, show_default=True, help="Numbers, in units of 2**20.")
@click.option("--repeat", default=7, show_default=True, help="Timed runs of each.")
@JSON
def main(millions: int, repeat: int, path: Path | None) -> None:
    """Check, then time."""
    x = numbers(millions << 20)
    logging.disable(logging.WARNING)  # torchao's, at import
    warnings.simplefilter("ignore")
    makers = {"torchao": torchao_cases, "gfloat": gfloat_cases, "gguf": gguf_cases}
    there = {name: make for name, make in makers.items() if installed(name)}
    cases = [case for make in (*there.values(), other_cases) for case in make(x)]
    results = measure_all(cases, repeat)
    extra = memory(x)
    show(HEAD, results, extra)
    for name in makers.keys() - there.keys():
        click.echo(f"{name} is not installed: left out")
    if path:
        write(path, HEAD, results, extra, x.size, there)


if __name__ == "__main__":
    main()
