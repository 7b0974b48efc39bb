"""Which scale rule is this? A library's scales of blocks against the golden files of every rule.

Asked are both ends and the middle of each line of each rule's run file, as blocks whose amax that is;
for nvfp4 the pairs of the lists, as tensors.  A rule that fits nowhere better has its first difference
beside it, which says more than a count.

Source: design of this project; data/golden/README.md, "Blocks".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feather_ref import golden
from feather_ref.blocks import BlockFormat, get_block_format

Scales = Callable[[NDArray[np.float32]], Any]
Patterns = NDArray[np.uint32]


class RuleVerdict(NamedTuple):
    """How a function compares with one rule; first: (amax, tensor's amax, got, want), None where all is equal."""

    rule: str
    inputs: int
    wrong: int
    first: tuple[int, int, int, int] | None

    def __str__(self) -> str:
        if self.first is None:
            return f"{self.rule}: equal at {self.inputs} inputs"
        amax, whole, got, want = self.first
        value = np.uint32(amax).view(np.float32)
        beside = f" of {whole:08X}" if whole != amax else ""
        where = f"first amax={amax:08X} ({value:.9g}){beside} got={got:02X} want={want:02X}"
        return f"{self.rule}: {self.wrong} of {self.inputs} inputs differ, {where}"


def fingerprint_scales(function: Scales, bfmt: str | BlockFormat) -> tuple[RuleVerdict, ...]:
    """Compare a function with each scale rule that has golden files; the best fit comes first.

    function: takes float32 blocks (m, k), k the block size, as one tensor, and returns the scale code of
    each, (m,) or (m, 1).  bfmt: one of the MX formats, or nvfp4.

    >>> from feather_ref.blocks import quantize_blocks
    >>> best, second, *_ = fingerprint_scales(lambda x: quantize_blocks(x, "mxfp4").scales, "mxfp4")
    >>> print(best)
    floor: equal at 759 inputs
    >>> second.wrong > 0
    True

    Raises TypeError for what is no function; ValueError for a format without files, for scales of another
    shape, and where the function fails.
    """
    if not callable(function):
        raise TypeError(f"function must be a function, got {type(function).__name__}")
    fmt = get_block_format(bfmt)
    shape = "tv" if fmt.tensor_scale != "none" else "run"
    asked = [golden.block_question(name) for name in golden.block_manifest()]
    names = [name for name, question in zip(golden.block_manifest(), asked, strict=True)
             if (question.op, question.bfmt, question.shape) == ("scale", fmt, shape)]  # fmt: skip
    if not names:
        raise ValueError(f"bfmt: {fmt.name!r} has no golden files of scale rules")
    found = [_verdict(function, fmt, name) for name in names]
    return tuple(sorted(found, key=lambda verdict: (verdict.wrong, verdict.rule)))


def _verdict(function: Scales, fmt: BlockFormat, name: str) -> RuleVerdict:
    amax, whole, want = _pairs(name) if fmt.tensor_scale != "none" else _ends(name)
    got = np.empty(len(want), np.int64)
    for chosen, x in _tensors(amax, whole, fmt):
        codes = _asked(function, x)
        if codes.size != len(x) or codes.dtype.kind not in "ui":
            raise ValueError(f"function: {len(x)} blocks gave {codes.dtype} of shape {codes.shape}, not a code each")
        got[chosen] = codes.reshape(-1)[len(x) - len(chosen) :]
    wrong = np.flatnonzero(got != want)
    first = None
    if wrong.size:
        at = int(wrong[0])
        first = int(amax[at]), int(whole[at]), int(got[at]), int(want[at])
    return RuleVerdict(golden.block_question(name).rule, len(want), wrong.size, first)


def _asked(function: Scales, x: NDArray[np.float32]) -> NDArray[Any]:
    """What it returns; one that ends Python must not end the judge with exit code 0."""
    try:
        return np.asarray(function(x))
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"function: {len(x)} blocks gave {type(error).__name__}{said and f': {said}'}") from error


def _ends(name: str) -> tuple[Patterns, Patterns, NDArray[np.int64]]:
    """amax and scale at both ends and the middle of every line with a verdict."""
    runs = golden.load_runs(name)
    lines = np.stack([runs.lo, (runs.lo + runs.hi) // 2, runs.hi], axis=1)[runs.j == 1].astype(np.uint32)
    want = np.repeat(runs.z[runs.j == 1].astype(np.int64), 3)
    return lines.reshape(-1), lines.reshape(-1), want


def _pairs(name: str) -> tuple[Patterns, Patterns, NDArray[np.int64]]:
    lists = golden.load_vectors(name)
    amax, whole = (column.astype(np.uint32) for column in lists.operands)
    return amax, whole, lists.z.astype(np.int64)


def _tensors(amax: Patterns, whole: Patterns, fmt: BlockFormat) -> Iterator[tuple[NDArray[np.intp], Any]]:
    """Indices and float32 blocks: all at once, or for each tensor's amax one with a block before that has it."""
    if fmt.tensor_scale == "none":
        yield np.arange(len(amax)), _blocks(amax, fmt)
        return
    for top in np.unique(whole):
        chosen = np.flatnonzero(whole == top)
        yield chosen, _blocks(np.concatenate([[top], amax[chosen]]).astype(np.uint32), fmt)


def _blocks(amax: Patterns, fmt: BlockFormat) -> NDArray[np.float32]:
    """Blocks of zeros but for amax."""
    x = np.zeros((len(amax), fmt.size), np.float32)
    x[:, 0] = amax.view(np.float32)
    return x
