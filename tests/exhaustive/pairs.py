"""Ask the exact oracle for NVFP4 of every pair (amax of a block, amax of its tensor) of bf16: scale, and amax's code.

    python tests/exhaustive/pairs.py [--log FILE] [RULE ...]

All 128 x 128 mantissas in 21 binades, 335,936 pairs, by each rule; `quantize_blocks` answers the same
pairs.  The oracle works in fractions, one block at a time: two to four minutes a rule.  Printed for
each rule: pairs, mismatches of scales and of amax's codes, how many pairs lie half way between two scales
in the exact rule, and the SHA-256 of the oracle's scales, which is that of the rule's digest in
data/golden.  The exit status is 1 where a code or a hash differs.

Source: data/golden/README.md, "Blocks", for the pairs and their order.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from feather_ref import block_oracle, golden, oracle
from feather_ref.blocks import quantize_blocks
from feather_ref.conformance.block_vectors import bf16_pairs
from feather_ref.formats import get_format

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from exhaustive.sweep import SHOWN, Array, provenance

RULES = ("nvfp4_exact", "nvfp4_te2026", "nvfp4_te2025", "nvfp4_torchao")
_BF16, _UE4M3 = get_format("bf16"), get_format("ue4m3")
_HALVES = frozenset((_UE4M3.exact(code) + _UE4M3.exact(code + 1)) / 2 for code in range(_UE4M3.max_magnitude))


def exact_codes(amax: int, whole: int, rule: str) -> tuple[int, int]:
    """The oracle's scale, and the code of amax under it, for two bf16 patterns."""
    numbers = [oracle.decode(pattern, _BF16) for pattern in (amax, whole)]
    block = block_oracle.quantize(numbers[:1], "e2m1", "ue4m3", rule, tensor=numbers[1:])
    return block.scale, block.codes[0]


def our_codes(amax: Array, whole: Array, rule: str) -> Array:
    """Those of `quantize_blocks`: a column of scales, one of codes."""
    codes = np.empty((len(amax), 2), np.uint8)
    for top in np.unique(whole):
        chosen = np.flatnonzero(whole == top)
        numbers = np.concatenate([[top], amax[chosen]]).astype(np.uint32) << np.uint32(16)
        tensor = quantize_blocks(numbers.view(np.float32)[:, None], "nvfp4", scale_rule=rule)
        codes[chosen] = np.stack([tensor.scales[1:, 0], tensor.codes[1:, 0]], axis=1)
    return codes


def _hex(codes: Array) -> str:
    return " ".join(f"{code:02X}" for code in codes.tolist())


def is_tie(amax: int, whole: int) -> bool:
    """Whether 448 * amax / whole is half way between two scales."""
    a, b = (oracle.decode(pattern, _BF16).magnitude for pattern in (amax, whole))
    return Fraction(448) * a / b in _HALVES


def prove(rule: str, progress: Progress, every: int = 1) -> dict[str, Any]:
    """What one rule gives for every pair, or for each `every`th, whose hash is then compared with none."""
    start = time.perf_counter()
    columns = [column[::every] for column in bf16_pairs()]
    pairs = list(zip(*(column.tolist() for column in columns), strict=True))
    tracked = progress.track(pairs, description=rule)
    codes = np.array([exact_codes(amax, whole, rule) for amax, whole in tracked], np.uint8)
    ours = our_codes(*columns, rule)
    wrong = np.flatnonzero((codes != ours).any(axis=1))
    sha256 = hashlib.sha256(codes[:, 0].tobytes()).hexdigest()
    name = "scale.bf16.nvfp4.exact.sat." + ("" if rule == "nvfp4_exact" else f"rule={rule}.") + "dig"
    return {
        "pairs": len(pairs),
        "mismatches": int(wrong.size),
        "ties": sum(is_tie(*pair) for pair in pairs),
        "sha256": sha256,
        "is the digest's": every > 1 or sha256 == golden.load_digests(name).sha256[0],
        "first": [f"{pairs[i]}: got {_hex(ours[i])}, want {_hex(codes[i])}" for i in wrong[:SHOWN].tolist()],
        "seconds": round(time.perf_counter() - start, 1),
    }


def main(arguments: list[str]) -> int:
    """Prove the rules that are named, or all."""
    parser = argparse.ArgumentParser(description="all pairs of bf16 through the oracle of blocks")
    parser.add_argument("--log", type=Path, help="where to write a JSON log")
    parser.add_argument("rules", nargs="*", metavar="RULE", help=", ".join(RULES))
    options = parser.parse_args(arguments)
    if unknown := set(options.rules) - set(RULES):
        parser.error(f"unknown rule {', '.join(sorted(unknown))}; known: {', '.join(RULES)}")
    results = {}
    with Progress(transient=True) as progress:
        for rule in options.rules or RULES:
            found = results[rule] = prove(rule, progress)
            said = ", ".join(f"{key} {value}" for key, value in found.items() if key != "first")
            progress.print(f"{rule:14} {said}", *(f"\n    {line}" for line in found["first"]), highlight=False)
    if options.log:
        text = json.dumps({**provenance(), "rules": results}, indent=1)
        options.log.write_text(text + "\n", encoding="ascii", newline="\n")
    return int(any(found["mismatches"] or not found["is the digest's"] for found in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
