"""The golden files of blocks: form, by hand, against the implementation and the oracle.

How many lines a scale file has, by hand: of the exponents e = floor(log2 amax) from -149 to 127, the
scale is 2**(e - emax) where that is at least 2**-127; e2m1 has emax 2, so e from -125 to 127, 253
scales; below them, and above for Inf, NaN and negatives, two lines more: 255.  mxint8 has emax 0: 255
scales, and a line at each end.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import Any

import jsonschema
import numpy as np
import pytest

import golden_blocks
from feather_ref import block_oracle, golden, oracle
from feather_ref.blocks import BLOCK_FORMATS, quantize_blocks
from feather_ref.formats import get_format
from golden.golden_tools import MANIFEST, ROOT

ROWS = [row for row in MANIFEST["vectors"] if row["op"] in golden.BLOCK_OPERATIONS]
VECTORS = {vector.id: vector for vector in golden_blocks.block_vectors()}
RUNS = [row["id"] for row in ROWS if row["op"] == "scale" and row["shape"] == "run"]
LISTS = [row["id"] for row in ROWS if row["shape"] == "blk"]
PAIRS = [row["id"] for row in ROWS if row["shape"] == "tv"]
DIGESTS = [row["id"] for row in ROWS if row["shape"] == "dig"]
FP32 = get_format("fp32")
ALL_PAIRS = np.array(list(golden_blocks.pairs()), np.uint32)


def test_every_vector_is_there_and_no_other() -> None:
    assert list(golden.block_manifest()) == [row["id"] for row in ROWS] == sorted(VECTORS)
    assert not golden.block_manifest().keys() & golden.manifest().keys()
    schema = jsonschema.Draft202012Validator(json.loads((ROOT / "manifest.schema.json").read_text()))
    for row in ROWS:
        schema.validate({"version": "0.0.0", "vectors": [row]})
        asked = golden.block_question(row["id"])
        assert (asked.op, asked.bfmt.name, asked.shape) == (row["op"], row["out"], row["shape"])
        assert row["spec"]["document"] == asked.bfmt.source.document
        assert ".rule=" not in row["id"] or asked.rule in row["level"]


@pytest.mark.parametrize("name", [row["id"] for row in ROWS if row["shape"] != "dig" and row["op"] != "element"])
def test_the_tool_writes_these_bytes(name: str) -> None:
    assert golden_blocks.block_content(VECTORS[name]) == (ROOT / golden.find(name)["path"]).read_bytes()


# --- scales -----------------------------------------------------------------------------------

# (format, rule) -> amax as float32 bits -> scale code, by hand
BY_HAND: dict[tuple[str, str], dict[int, int]] = {
    # e2m1: emax 2, max 6.  1.0 -> 2**-2; the float32 below 2 as well, floor(log2) in float32 says 2**-1
    ("mxfp4", "floor"): {0x3F800000: 125, 0x3FFFFFFF: 125, 0x40000000: 126, 0x7F7FFFFF: 252, 0x01000000: 0},
    ("mxfp4", "ceil"): {0x3F800000: 125, 0x3F800001: 126, 0x40000000: 126, 0x7F7FFFFF: 253},
    # half a unit of the mantissa is 1/4: from 1.75 on the next power
    ("mxfp4", "even"): {0x3FDFFFFF: 125, 0x3FE00000: 126, 0x40000000: 126},
    # amax / s <= 6: from 1.5 * 2**e on the next power
    ("mxfp4", "rceil"): {0x3FC00000: 125, 0x3FC00001: 126, 0x3F800000: 125, 0x40C00000: 127},
    # 6 -> 1; 9 / 6 = 1.5 is the tie of 1 (code 127, odd) and 2: even is 128
    ("mxfp4", "nearest"): {0x40C00000: 127, 0x41100000: 128, 0x410FFFFF: 127, 0x40900000: 126},
    ("mxfp8_e4m3", "floor"): {0x43E00000: 127, 0x43FFFFFF: 127, 0x44000000: 128},  # 448 and on: 2**0 up to 512
    ("mxfp8_e4m3", "rceil"): {0x43E00000: 127, 0x43E00001: 128},
    ("mxfp8_e5m2", "floor"): {0x47600000: 127},  # 57344 = 1.75 * 2**15
    ("mxint8", "floor"): {0x3F800000: 127, 0x3FFFFFFF: 127, 0x7F7FFFFF: 254, 0x00400000: 0},
}


@pytest.mark.parametrize(("bfmt", "rule"), BY_HAND)
def test_scales_by_hand(bfmt: str, rule: str) -> None:
    said = "" if rule == "floor" else f"rule={rule}."
    runs = golden.load_runs(f"scale.f32.{bfmt}.exact.sat.{said}run")
    for pattern, code in BY_HAND[bfmt, rule].items():
        line = int(np.searchsorted(runs.hi, pattern))
        assert (int(runs.z[line]), int(runs.j[line])) == (code, 1), hex(pattern)


def test_lines_by_hand() -> None:
    assert {golden.find(f"scale.f32.{name}.exact.sat.run")["lines"] for name in ("mxfp4", "mxfp6_e2m3")} == {255}
    assert golden.find("scale.f32.mxint8.exact.sat.run")["lines"] == 257


@pytest.mark.parametrize("name", RUNS)
def test_scale_files(name: str) -> None:
    """Gap-free, and at both ends and the middle of each line what the implementation and the oracle say."""
    asked, runs = golden.block_question(name), golden.load_runs(name)
    assert (runs.lo[0], runs.hi[-1]) == (0, 0xFFFFFFFF)
    assert (runs.lo[1:] == runs.hi[:-1] + 1).all()
    assert ((runs.z[1:] != runs.z[:-1]) | (runs.j[1:] != runs.j[:-1])).all()
    amax = np.stack([runs.lo, (runs.lo + runs.hi) // 2, runs.hi], axis=1)[runs.j == 1]
    wanted = np.repeat(runs.z[runs.j == 1], 3).reshape(-1, 3)
    blocks = amax.astype(np.uint32).view(np.float32)[..., None]
    tensor = quantize_blocks(blocks, asked.bfmt, scale_rule=asked.rule)
    np.testing.assert_array_equal(tensor.scales[..., 0], wanted)
    for pattern, code in zip(amax[::17].ravel().tolist(), wanted[::17].ravel().tolist(), strict=True):
        exact = Fraction(float(np.uint32(pattern).view(np.float32)))
        assert block_oracle.scale_of(exact, asked.bfmt.element, "e8m0", asked.rule) == code
    # what has no verdict: zero, negatives, Inf, NaN; or a scale that e8m0 does not have
    for line in np.flatnonzero(runs.j == 0).tolist():
        inside = np.unique([max(int(runs.lo[line]), 1), min(int(runs.hi[line]), FP32.max_magnitude)])
        for pattern in (
            inside[inside <= FP32.max_magnitude].tolist() if int(runs.lo[line]) <= FP32.max_magnitude else []
        ):
            assert _clamped(asked.bfmt, asked.rule, pattern), hex(pattern)


def _clamped(bfmt: Any, rule: str, pattern: int) -> bool:
    """Twice the number would have the same scale, or half of it: the end of the range."""
    amax = Fraction(float(np.uint32(pattern).view(np.float32)))
    here, twice, half = (block_oracle.scale_of(x, bfmt.element, "e8m0", rule) for x in (amax, 2 * amax, amax / 2))
    return (here == 0 and half == 0) or (here == 254 and twice == 254)


@pytest.mark.parametrize("bfmt", golden_blocks.MX)
def test_elements_have_the_file_of_their_conversion(bfmt: str) -> None:
    row = golden.find(f"element.f32.{bfmt}.rne.sat.run")
    assert row["path"] == golden.find(f"convert.f32.{BLOCK_FORMATS[bfmt].element.name}.rne.sat.run")["path"]
    assert row["level"] == "must"


# --- blocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LISTS)
def test_block_files(name: str) -> None:
    asked, blocks = golden.block_question(name), golden.load_blocks(name)
    x = blocks.x.astype(np.uint32).view(np.float32)
    scales, codes = quantized(x, blocks.tensor, asked)
    np.testing.assert_array_equal(scales, blocks.scale)
    strict = blocks.j == 1
    np.testing.assert_array_equal(codes[strict], blocks.z[strict])
    np.testing.assert_array_equal(np.isnan(x).any(axis=1), blocks.j == 2)
    assert (blocks.scale[blocks.j == 2] == asked.bfmt.scale.canonical_nan).all()
    assert sum(part["last"] - part["first"] + 1 for part in golden.find(name)["classes"]) == len(x)


def quantized(x: Any, tensor: Any, asked: golden.BlockQuestion) -> tuple[Any, Any]:
    """Scales and codes by the implementation; each block of two levels beside one that has its tensor's amax."""
    if tensor is None:
        found = quantize_blocks(x, asked.bfmt, scale_rule=asked.rule)
        return found.scales[:, 0], found.codes
    rows = []
    for amax, block in zip(tensor.astype(np.uint32).view(np.float32), x, strict=True):
        first = np.zeros_like(block)
        first[0] = amax
        rows.append(quantize_blocks(np.stack([first, block]), asked.bfmt, scale_rule=asked.rule))
    return np.stack([row.scales[1, 0] for row in rows]), np.stack([row.codes[1] for row in rows])


def test_lists_tell_the_rules_apart() -> None:
    """No two rules of a format give one list."""
    for name, rules in (("mxfp4", golden_blocks.MX_RULES), ("nvfp4", golden_blocks.NVFP4_RULES)):
        paths = {golden.find(each)["sha256"] for each in LISTS if f".{name}." in each}
        assert len(paths) == len(rules)


def test_a_block_of_two_levels_by_hand() -> None:
    """A tensor with amax 2688 = 6 * 448 has S = 1: ties as e2m1 has them.  6 / 1.0624 is 5.6: the scale is 1."""
    blocks = golden.load_blocks("block.f32.nvfp4.rne.sat.blk")
    classes = {part["name"]: part["first"] - 1 for part in golden.find("block.f32.nvfp4.rne.sat.blk")["classes"]}
    tie, rounded, gone = (classes[name] for name in ("tie", "scale_rounded", "scale_vanishes"))
    assert blocks.tensor is not None
    assert (int(blocks.tensor[tie]), int(blocks.scale[tie])) == (0x45280000, 0x38)  # 2688; 1 in ue4m3
    # 6; then 0.25 -> 0, 0.75 -> 1, 1.25 -> 1, 1.75 -> 2, 2.5 -> 2, 3.5 -> 4, 5 -> 4, each with its negative
    assert blocks.z[tie].tolist() == [7, 0, 8, 2, 10, 2, 10, 4, 12, 4, 12, 6, 14, 6, 14, 0]
    assert blocks.scale[rounded : rounded + 2].tolist() == [0x38, 0x39]  # 1.0624 below the tie 1.0625; 1.07 above
    # amax 2**-20 of 1: 448 * 2**-20 is below half of 2**-9, so the scale is 0, and all but zeros saturate
    assert (int(blocks.scale[gone]), blocks.z[gone, :3].tolist()) == (0, [7, 15, 0])
    assert int(blocks.scale[gone + 1]) == 1  # 448 * 2**-18 = 0.875 * 2**-9


def test_a_block_by_hand() -> None:
    """mxfp4: -0 and zeros have scale 00; Inf saturates; just below 2 the scale is 2**-2, and 8 saturates."""
    blocks = golden.load_blocks("block.f32.mxfp4.rne.sat.blk")
    classes = {part["name"]: part["first"] - 1 for part in golden.find("block.f32.mxfp4.rne.sat.blk")["classes"]}
    zero, inf, below = (classes[name] for name in ("zero", "inf", "below_power"))
    assert (int(blocks.scale[zero]), blocks.z[zero].tolist()) == (0, [0] * 32)
    assert (int(blocks.scale[zero + 1]), blocks.z[zero + 1].tolist()) == (0, [8] * 5 + [0] * 27)
    assert (int(blocks.scale[inf]), blocks.z[inf, :4].tolist()) == (126, [7, 4, 15, 15])  # over 2**-1: 2, -6
    assert (int(blocks.scale[inf + 1]), blocks.z[inf + 1, :2].tolist()) == (0, [7, 15])
    assert (int(blocks.scale[below]), blocks.z[below, :3].tolist()) == (125, [7, 14, 2])  # 8 -> 6; -4; 1


# --- NVFP4 ------------------------------------------------------------------------------------


def test_pairs_are_those_that_the_readme_counts() -> None:
    """21 binades of 128 x 128; in the first, a block with no more than its tensor: 128 * 129 / 2."""
    assert golden_blocks.PAIRS == 20 * 128 * 128 + 8256
    joined = ALL_PAIRS[:, 0] << 16 | ALL_PAIRS[:, 1]
    assert len(joined) == len(np.unique(joined)) == golden_blocks.PAIRS
    assert (ALL_PAIRS[:, 0] <= ALL_PAIRS[:, 1]).all()


def codes_of(rule: str) -> Any:
    """Scale codes of all pairs by the implementation: each pair is a tensor of two blocks."""
    found = ALL_PAIRS << 16
    codes = np.empty(len(found), np.uint8)
    for whole in np.unique(found[:, 1]):
        mine = np.flatnonzero(found[:, 1] == whole)
        rows = np.concatenate([[whole], found[mine, 0]]).astype(np.uint32).view(np.float32)
        codes[mine] = quantize_blocks(rows[:, None], "nvfp4", scale_rule=rule).scales[1:, 0]
    return codes


@pytest.mark.parametrize("name", DIGESTS)
def test_digests_of_all_pairs(name: str) -> None:
    digests = golden.load_digests(name)
    codes = codes_of(golden.block_question(name).rule)
    assert (digests.chunk.tolist(), digests.count.tolist()) == ([0], [golden_blocks.PAIRS])
    assert hashlib.sha256(codes.tobytes()).hexdigest() == digests.sha256[0]
    chosen = np.random.default_rng(0).choice(golden_blocks.PAIRS, 150, replace=False)
    for at in chosen.tolist():
        a, b = ALL_PAIRS[at].tolist()
        assert golden_blocks.scale_code(a << 16, b << 16, golden.block_question(name).rule) == codes[at]


@pytest.mark.parametrize("name", PAIRS)
def test_lists_of_pairs(name: str) -> None:
    asked, lists = golden.block_question(name), golden.load_vectors(name)
    for a, b, z in zip(*(column.tolist() for column in (*lists.operands, lists.z)), strict=True):
        x = np.array([[b], [a]], np.uint32).view(np.float32)
        assert quantize_blocks(x, "nvfp4", scale_rule=asked.rule).scales[1, 0] == z, (hex(a), hex(b))


def test_ties_are_ties() -> None:
    """By fractions: 448 * a / b is half way between two scales; and the search misses none of a sample."""
    row = get_format("ue4m3")
    halves = {(row.exact(code) + row.exact(code + 1)) / 2 for code in range(0x7E)}

    def quotient(pair: tuple[int, int]) -> Fraction:
        a, b = (oracle.decode(pattern << 16, FP32).magnitude for pattern in pair)
        return 448 * a / b

    ties = set(golden_blocks.ties())
    assert all(quotient(pair) in halves for pair in ties)
    assert all((quotient(pair) in halves) == (pair in ties) for pair in map(tuple, ALL_PAIRS[::97].tolist()))


def test_the_rules_differ_somewhere() -> None:
    found = {hashlib.sha256((ROOT / golden.find(name)["path"]).read_bytes()).hexdigest() for name in DIGESTS}
    assert len(found) > 1


# --- ids --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("convert.f32.e4m3.rne.sat.run", "is not scale"),
        ("scale.f32.mxfp4.exact.run", "is not scale"),
        ("scale.f32.mxfp5.exact.sat.run", "unknown block format 'mxfp5'"),
        ("scale.f33.mxfp4.exact.sat.run", "unknown format 'f33'"),
        ("scale.f32.mxfp4.exact.sat.rule=best.run", "unknown choice 'rule=best'"),
        ("scale.f32.mxfp4.exact.sat.nan=max.run", "unknown choice 'nan=max'"),
        ("scale.f32.mxfp4.best.sat.run", "rounding must be one of"),
        ("scale.f32.mxfp4.exact.sat.tab", "unknown shape 'tab'"),
        ("dequantize.f32.mxfp4.exact.none.blk", "unknown block format 'f32'"),
    ],
)
def test_wrong_ids(name: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        golden.block_question(name)


def test_an_unknown_id_has_neighbours() -> None:
    with pytest.raises(ValueError, match=r"close: scale\.f32\.mxfp4"):
        golden.find("scale.f32.mxfp4.exact.sat.rule=best.run")
