"""Golden vectors of blocks: which there are, and their bytes, from the exact oracle of blocks.

    scale.f32.<block format>.exact.sat[.rule=R].run     amax -> scale code, for every float32
    element.f32.<block format>.rne.sat.run              V / scale -> element code: the element's own file
    block.f32.<block format>.rne.sat[.rule=R].blk       whole blocks: NaN, Inf, zeros, clamped scales, ties; of
                                                        nvfp4 with the amax of the tensor
    scale.bf16.nvfp4.exact.sat[.rule=R].dig             scale codes of 335,936 pairs (amax of a block, of the tensor)
    scale.f32.nvfp4.exact.sat[.rule=R].tv               `a b z j`: such pairs at ties and at the ends

Source: data/golden/README.md; OCP MX 1.0, section 6.3; the rules are those of feather_ref.block_oracle.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from feather_ref import block_oracle, oracle
from feather_ref.blocks import BLOCK_FORMATS, BlockFormat
from feather_ref.formats import Format, Source, get_format
from golden_steps import pattern_below, steps

OPS = ("scale", "element", "block")
MX = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4", "mxint8")
MX_RULES = ("floor", "ceil", "even", "rceil", "nearest")
NVFP4_RULES = ("nvfp4_exact", "nvfp4_te2026", "nvfp4_te2025", "nvfp4_torchao")
_FP32 = get_format("fp32")
_E8M0 = get_format("e8m0")
# e8m0 with a longer exponent, which no scale leaves: whether a scale was clamped
_WIDE = replace(_E8M0, name="e10m0", bits=10, storage_bits=16, exponent_bits=10, bias=511, aliases=())


@dataclass(frozen=True)
class BlockVector:
    """One id, as golden_vectors.Vector is one of a conversion.  rule "": the format's own."""

    op: str
    src: str
    bfmt: BlockFormat
    rule: str
    shape: str

    @property
    def dst(self) -> str:
        """The block format."""
        return self.bfmt.name

    @property
    def round(self) -> str:
        """A rule says itself how it rounds."""
        return "exact" if self.op == "scale" else "rne"

    @property
    def row(self) -> Format:
        """The row of what is answered."""
        return self.bfmt.scale if self.op == "scale" else self.bfmt.element

    @property
    def id(self) -> str:
        """The name that says what the file means."""
        rule = f".rule={self.rule}" if self.rule else ""
        return f"{self.op}.{self.src}.{self.dst}.{self.round}.sat{rule}.{self.shape}"

    @property
    def level(self) -> str:
        """MX: the floor rule is a should, its elements a must, and what it leaves open is derived."""
        if self.rule:
            return f"alternatives/{'nvfp4' if self.dst == 'nvfp4' else 'mx'}_scale/{self.rule}"
        if self.dst == "nvfp4" or self.op == "block":
            return "derived"
        return "should" if self.op == "scale" else "must"

    @property
    def own_path(self) -> str:
        """Where the file lies; elements have the file of their own conversion."""
        if self.op == "element":
            family = "ofp8" if self.bfmt.element.bits == 8 and self.bfmt.element.kind == "float" else "mx"
            return f"must/{family}/{self.id}"
        return f"{self.level}/blocks/{self.id}"

    @property
    def stored(self) -> str:
        """The id of the file that answers."""
        element = self.bfmt.element.name
        return f"convert.f32.{element}.rne.sat.run" if self.op == "element" else self.id

    @property
    def order(self) -> tuple[int, str]:
        """Of several ids with equal bits the least gives the path: should before alternatives."""
        return ("must", "should", "derived", "alternatives").index(self.level.split("/", maxsplit=1)[0]), self.id

    @cached_property
    def rule_name(self) -> str:
        """The rule as block_oracle calls it."""
        return self.rule or self.bfmt.scale_rule


def block_vectors() -> list[BlockVector]:
    """Every vector of blocks, by id."""
    found = []
    for name in MX:
        row = BLOCK_FORMATS[name]
        found.append(BlockVector("element", "f32", row, "", "run"))
        for rule in MX_RULES:
            said = "" if rule == row.scale_rule else rule
            found.append(BlockVector("scale", "f32", row, said, "run"))
            if name == "mxfp4" or not said:
                found.append(BlockVector("block", "f32", row, said, "blk"))
    nvfp4 = BLOCK_FORMATS["nvfp4"]
    for rule in NVFP4_RULES:
        said = "" if rule == nvfp4.scale_rule else rule
        found += [BlockVector("scale", "bf16", nvfp4, said, "dig"), BlockVector("scale", "f32", nvfp4, said, "tv")]
        found.append(BlockVector("block", "f32", nvfp4, said, "blk"))
    return sorted(found, key=lambda vector: vector.id)


def block_content(vector: BlockVector) -> bytes:
    """The bytes of one file; a digest takes a minute."""
    return {"run": _run, "blk": _blk, "dig": _dig, "tv": _tv}[vector.shape](vector)


# --- scales of MX -----------------------------------------------------------------------------


def _run(vector: BlockVector) -> bytes:
    """`lo hi z j`: a pattern that is no amax (zero, negative, Inf, NaN), or whose scale is clamped, has j 0."""
    element, rule = vector.bfmt.element, vector.rule_name

    def ask(pattern: int) -> tuple[int, int]:
        if not 0 < pattern <= _FP32.max_magnitude:
            return 0, 0
        amax = oracle.decode(pattern, _FP32).magnitude
        power = block_oracle.scale_of(amax, element, _WIDE, rule) - _WIDE.bias if rule != "nearest" else 0
        return (0, 0) if abs(power) > _E8M0.bias else (block_oracle.scale_of(amax, element, _E8M0, rule), 1)

    top = _FP32.max_magnitude
    points = {0, 1, top, top + 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF}
    # where a scale may change: at a power of two, at the greatest element, half a unit below a power, half way
    turns = {Fraction(1), Fraction(element.max), 2 - Fraction(1, 2 << vector.bfmt.mantissa_bits)}
    for turn in turns | {Fraction(3, 2) * Fraction(element.max)}:
        for power in range(-160, 129):
            points.add(pattern_below(turn * Fraction(2) ** power, _FP32))
    found = steps(ask, sorted(points))
    return "".join(f"{lo:08X} {hi:08X} {z:02X} {j}\n" for lo, hi, (z, j) in found).encode("ascii")


# --- whole blocks -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A class of blocks: the first numbers of each, the rest are 0; for nvfp4 the tensor's amax comes first."""

    name: str
    note: str
    blocks: tuple[tuple[float, ...], ...]


INF, NAN = float("inf"), float("nan")
_TINY = 2.0**-149
_HUGE = 2.0**127 * (2.0 - 2.0**-23)
# (amax of the tensor, of the block) as bf16: te2026, te2025, torchao and the exact rule differ
_APART_BITS = ((0x3F82, 0x3F43), (0x3F8C, 0x3D7A), (0x3F8E, 0x378E))
_APART = tuple((float(a), float(b)) for a, b in (np.array(_APART_BITS, np.uint32) << 16).view(np.float32))


@lru_cache(maxsize=8)
def cases(bfmt: BlockFormat) -> tuple[Case, ...]:
    """The blocks of a list, from the row: top is its greatest element, unit half a unit of its last place at 1."""
    if bfmt.tensor_scale != "none":
        return _two_level_cases(bfmt)
    top, least, half = bfmt.element.max, float(bfmt.element.exact(1)), 2.0 ** -(bfmt.mantissa_bits + 1)
    ladder = tuple((1 + half * step) * 2.0**bfmt.emax * (-1) ** step for step in range(8))
    below = 2.0 - 2.0**-23  # the float32 just below 2
    return (
        Case("nan", "A NaN makes the scale NaN; the elements are free.", ((1.0, NAN, -2.0), (NAN,) * 32)),
        Case("inf", "Inf leaves the scale alone and saturates; without a finite number the scale is the least.",
             ((INF, 1.0, -3.0, -INF), (INF, -INF))),
        Case("zero", "A block of zeros has the least scale, and keeps their signs.", ((), (-0.0,) * 5)),
        Case("below_power", "amax just below a power of two: floor(log2) in float32 is one too high.",
             ((below, -1.0, 0.25), (2.0**-126 * below, 2.0**-127))),
        Case("scale_clamp", "The scale would be below 2^-127, or at the top of float32.",
             ((_TINY, -_TINY), (3 * _TINY, 2 * _TINY, 1e-40), (2.0**127 * below, -(2.0**127), 2.0**100))),
        Case("tie", "Elements half way between two codes, with both signs.", (ladder,)),
        Case("saturate", "amax beyond the greatest element times the scale, and at its rounding boundary.",
             ((top * 1.25, -top * 1.25, top), (top, top + half * 2.0**bfmt.emax / 2, -top))),
        Case("underflow", "Elements that become zero keep their sign; the least one's half is a tie.",
             ((top, least / 2, -least / 2, least * 0.75, -least / 4, 1e-30, -1e-30),)),
        Case("rules", "Where the rules part: 1, then between the mantissas of amax at which each turns.",
             tuple((turn,) for turn in _turns(bfmt))),
    )  # fmt: skip


def _turns(bfmt: BlockFormat) -> Iterator[float]:
    """1, and between: 1, the tie of nearest, the greatest element (rceil), half a unit below 2 (even), 2 (floor)."""
    greatest = bfmt.element.max / 2.0**bfmt.emax
    turns = [1.0, 0.75 * greatest, greatest, 2 - 2.0 ** -(bfmt.mantissa_bits + 1), 2.0]
    yield 1.0
    yield from ((a + b) / 2 for a, b in pairwise(turns))


def _two_level_cases(bfmt: BlockFormat) -> tuple[Case, ...]:
    """The same with the tensor's amax before each block: at one = top * top of scales, S is 1."""
    top, one = bfmt.element.max, bfmt.element.max * bfmt.scale.max
    middles = _middles(bfmt.element)
    ties = tuple(sign * middle for middle in middles for sign in (1, -1))
    near = tuple(block for whole, amax in ((1.0, 1.0), (255 / 128, 255 / 128), (1.0, 0.3))
                 for block in _boundary_blocks(whole, amax, bfmt))  # fmt: skip
    return (
        Case("nan", "A NaN makes the scale NaN; the elements are free.", ((top, 1.0, NAN, -2.0),)),
        Case("inf", "Inf leaves the scale alone and saturates; alone it has a scale of zero, or the least.",
             ((top, INF, 1.0, -3.0, -INF), (top, INF, -INF))),
        Case("zero", "Zeros keep their signs; in a tensor of zeros, too.", ((1.0,), (1.0, *(-0.0,) * 5), (0.0,))),
        Case("tie", "Elements half way between two codes, with both signs, where no float32 is rounded.",
             ((one, top, *ties),)),
        Case("boundary", "The float32 nearest to half way between two codes, one step less, one more.", near),
        Case("scale_rounded", "amax beyond the greatest element times the scale, and below it.",
             ((one, top * 1.0624, -top, top / 2), (one, top * 1.07, -top, top / 2))),
        Case("scale_vanishes", "The scale is zero: what is left is the greatest; and the least scale.",
             ((1.0, 2.0**-20, -(2.0**-24)), (1.0, 2.0**-18, -(2.0**-20)))),
        Case("range_ends", "The ends of float32.",
             ((_TINY, _TINY, -_TINY), (_HUGE, _HUGE, 2.0**100), (2.0**127, _TINY, -1.0))),
        Case("rules", "Where the recipes part: each block has another scale by one of them.", _APART),
    )  # fmt: skip


def _middles(row: Format) -> list[float]:
    """Half way between the values of a row, in order."""
    values = [row.exact(code) for code in range(row.max_magnitude + 1)]
    return [float((a + b) / 2) for a, b in pairwise(values)]


def _boundary_blocks(whole: float, amax: float, bfmt: BlockFormat) -> Iterator[tuple[float, ...]]:
    """Blocks of amax and of what lies at and beside each middle, by the scale of the exact rule."""
    numbers = [Fraction(float(np.float32(x))) for x in (amax, whole)]
    exact = oracle.exact(numbers[0]), oracle.exact(numbers[1])
    code = block_oracle.quantize(exact[:1], bfmt.element, bfmt.scale, "nvfp4_exact", tensor=exact[1:]).scale
    unit = numbers[1] * bfmt.scale.exact(code) / Fraction(bfmt.element.max * bfmt.scale.max)
    near = [np.float32(float(Fraction(middle) * unit)) for middle in _middles(bfmt.element)]
    around = [float(np.nextafter(x, np.float32(side))) for x in near for side in (0, x, INF)]
    signed = [x * (-1) ** i for i, x in enumerate(around)]
    room = bfmt.size - 1
    for start in range(0, len(signed), room):
        yield (float(numbers[1]), float(numbers[0]), *signed[start : start + room])


def blocks(vector: BlockVector) -> Iterator[list[int]]:
    """The float32 patterns of each block of a list, after that of its tensor's amax where that counts."""
    size = vector.bfmt.size + (vector.bfmt.tensor_scale != "none")
    for case in cases(vector.bfmt):
        for numbers in case.blocks:
            filled = [*numbers, *[0.0] * (size - len(numbers))][:size]
            yield [int(x) for x in np.array(filled, np.float32).view(np.uint32)]


def _blk(vector: BlockVector) -> bytes:
    """`[A] x0 .. x31 s z0 .. z31 j`: numbers, scale code, element codes; j 2: any NaN scale, elements free."""
    width, two_levels = (vector.bfmt.element.bits + 3) // 4, vector.bfmt.tensor_scale != "none"
    lines = []
    for patterns in blocks(vector):
        numbers = [oracle.decode(pattern, _FP32) for pattern in patterns]
        whole, own = (numbers[:1], numbers[1:]) if two_levels else (None, numbers)
        block = block_oracle.quantize(own, vector.bfmt.element, vector.bfmt.scale, vector.rule_name, tensor=whole)
        judge = 2 if vector.bfmt.scale.is_nan(block.scale) else 1
        fields = [*(f"{x:08X}" for x in patterns), f"{block.scale:02X}", *(f"{z:0{width}X}" for z in block.codes)]
        lines.append(f"{' '.join(fields)} {judge}\n")
    return "".join(lines).encode("ascii")


# --- scales of NVFP4 --------------------------------------------------------------------------

DISTANCES = range(21)  # binades from the tensor's amax to a block's, while the scale is not zero
PAIRS = 335_936
_ONE = 127 << 7  # 1 in bf16
_FIRST = (127 - DISTANCES[-1]) << 7


def pairs() -> Iterator[tuple[int, int]]:
    """bf16 patterns (amax of a block, of the tensor): every mantissa of both, the tensor's in 1 .. 2.

    By distance of the exponents, then the tensor's mantissa, then the block's; a block has no more than
    its tensor.
    """
    for distance in DISTANCES:
        for whole in range(128):
            for part in range(128 if distance else whole + 1):
                yield (127 - distance) << 7 | part, _ONE | whole


def scale_code(amax: int, whole: int, rule: str) -> int:
    """The ue4m3 code of a block, from float32 patterns."""
    numbers = [oracle.decode(pattern, _FP32) for pattern in (amax, whole)]
    return block_oracle.quantize(numbers[:1], "e2m1", "ue4m3", rule, tensor=numbers[1:]).scale


def _dig(vector: BlockVector) -> bytes:
    from golden_digests import digest_line  # noqa: PLC0415 - it imports the list of all vectors, which has this one

    found = {whole: _codes_of(whole, vector.rule_name) for whole in range(1 << 7)}
    codes = [found[b & 0x7F][a - _FIRST] for a, b in pairs()]
    return digest_line(0, np.array(codes, np.uint8)).encode("ascii")


def _codes_of(whole: int, rule: str) -> list[int]:
    """The codes of every amax of a block beside one of a tensor: steps, since no rule ever falls."""
    b = _ONE | whole
    points = {_FIRST, b}
    for middle in _midpoints():
        near = pattern_below(Fraction(middle * (128 + whole), 448 << 17), get_format("bf16"))
        points |= {point for point in (near - 1, near, near + 1) if _FIRST <= point <= b}
    found = steps(lambda a: scale_code(a << 16, b << 16, rule), sorted(points))
    return [code for lo, hi, code in found for _ in range(lo, hi + 1)]


@lru_cache(maxsize=1)
def _midpoints() -> list[int]:
    """Half way between two scales, in units of 2**-10."""
    row = get_format("ue4m3")
    return [int((row.exact(code) + row.exact(code + 1)) * 512) for code in range(0x7E)]


@lru_cache(maxsize=1)
def pair_cases() -> tuple[tuple[str, str, tuple[tuple[int, int], ...]], ...]:
    """(class, note, pairs of float32 patterns): what random numbers miss."""
    every = [(a << 16, b << 16) for a, b in ties()]
    ties_kept, near = every[::10], [(a + step, b) for a, b in every[3::36] for step in (-1, 1)]
    ends = (
        (0.0, 1.0), (0.0, 0.0), (_TINY, _TINY), (1.0, 1.0), (2.0**-18, 1.0), (2.0**-19, 1.0), (2.0**-20, 1.0),
        (2.0**-126, 2.0**-126), (2.0**-140, 2.0**-130), (1.0, 2.0**127), (2.0**127, 2.0**127), (_TINY, 2.0**127),
    )  # fmt: skip
    return (
        ("tie", "Half way between two scales, in the exact rule.", tuple(ties_kept)),
        ("tie_neighbours", "One step of float32 beside such a tie.", tuple(near)),
        ("range_ends", "Zeros, subnormals, the ends of float32, scales that vanish.",
         tuple((_pattern(a), _pattern(b)) for a, b in ends)),
    )  # fmt: skip


def _pattern(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def ties() -> list[tuple[int, int]]:
    """The pairs for which 448 * a / b is half way between two scales, in the order of `pairs`."""
    found = []
    for distance in DISTANCES:
        for whole in range(128, 256):
            for middle in _midpoints():
                part, rest = divmod((middle * whole) << distance, 448 << 10)
                if not rest and 128 <= part <= (255 if distance else whole):
                    found.append((distance, whole, part))
    return [((127 - d) << 7 | part - 128, _ONE | whole - 128) for d, whole, part in sorted(found)]


def _tv(vector: BlockVector) -> bytes:
    found = [pair for _, _, part in pair_cases() for pair in part]
    return "".join(f"{a:08X} {b:08X} {scale_code(a, b, vector.rule_name):02X} 1\n" for a, b in found).encode("ascii")


# --- the manifest -----------------------------------------------------------------------------

_NOTES = {
    "scale": "The scale of a block by its greatest magnitude. Failing at an end of a line: a wrong boundary.",
    "element": "x divided by a power of two, exactly, and rounded; beyond float32 it is 0 or the greatest. Failing: "
    "a wrong boundary.",
    "block": "What a run cannot say. Failing: the line's class names the rule.",
}
_PAIR_NOTES = {
    "dig": "Scale codes of all pairs of bf16 mantissas, 21 binades. Failing: some pair.",
    "blk": "Whole blocks, each with its tensor's amax. Failing: the line's class names the rule.",
    "tv": "Pairs (amax of the block, of the tensor). Failing: the line's class names the rule.",
}
_RULES: Mapping[str, str] = {
    "floor": "2^(floor(log2 amax) - emax).",
    "ceil": "2^(ceil(log2 amax) - emax).",
    "even": "floor, after half a unit of the element's mantissa is added to amax.",
    "rceil": "The least power of two s with amax / s <= max.",
    "nearest": "e8m0 nearest even of amax / max.",
    "nvfp4_exact": "ue4m3 of amax * 448 / AMAX, exact.",
    "nvfp4_te2026": "TransformerEngine 2026, in float32.",
    "nvfp4_te2025": "TransformerEngine 2025, in float32.",
    "nvfp4_torchao": "torchao, in float32.",
}


def block_row(vector: BlockVector, path: str, facts: Mapping[str, Any], generator: Any) -> dict[str, Any]:
    """The row of the manifest."""
    source = vector.bfmt.source
    lists = vector.shape in ("tv", "blk")
    domain = {"run": 1 << 32, "dig": PAIRS}.get(vector.shape, facts["lines"])
    note = _PAIR_NOTES[vector.shape] if vector.dst == "nvfp4" else _NOTES[vector.op]
    row = {
        "id": vector.id, "path": path, "shape": vector.shape, "op": vector.op, "in": vector.src, "out": vector.dst,
        "round": vector.round, "overflow": "sat", "nan": "canonical" if vector.row.has_nan else "none",
        "level": vector.level, "spec": spec(source),
        "coverage": "boundary" if lists else "exhaustive", "domain": domain, **facts,
        "notes": f"{_RULES[vector.rule_name]} {note}" if vector.op != "element" else note,
        "source": generator, "witnesses": [],
    }  # fmt: skip
    return row | ({"classes": classes(vector)} if lists else {})


def spec(source: Source) -> dict[str, str]:
    """A source as the manifest writes it."""
    return {"document": source.document, "version": source.version, "section": source.section}


def classes(vector: BlockVector) -> list[dict[str, Any]]:
    """Which lines of a list belong to which class."""
    counted: list[tuple[str, str, int]] = [(case.name, case.note, len(case.blocks)) for case in cases(vector.bfmt)]
    if vector.shape == "tv":
        counted = [(name, note, len(found)) for name, note, found in pair_cases()]
    found, first = [], 1
    for name, note, count in counted:
        found.append({"name": name, "first": first, "last": first + count - 1, "note": note})
        first += count
    return found
