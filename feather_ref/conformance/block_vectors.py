"""Vectors of blocks: records of numbers or codes, and the codes that each of them gives.

    op           a record                                          what it gives
    scale        amax; for nvfp4 also that of the tensor           the scale code
    block        [the tensor's amax,] the k numbers of a block     the scale code, then k element codes
    dequantize   [the tensor's scale,] the scale code, k codes     k float32

A suite to dequantize needs no file: its records are all pairs of a scale and an element, and their
product, rounded once, is the answer.  MX leaves open what a product beyond float32 gives.

Source: data/golden/README.md, "Blocks"; OCP MX 1.0, section 6 for the products.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from feather_ref import block_oracle, golden, oracle
from feather_ref.blocks import BLOCK_FORMATS, BlockFormat, get_block_format, quantize_blocks
from feather_ref.conformance.vectors import LISTED, Steps, Vectors, names_of, steps
from feather_ref.formats import Format, get_format
from feather_ref.golden import BlockQuestion, CorruptError, Question

Array = NDArray[Any]

DRAWN = 64  # blocks that a seed adds
_FP32 = get_format("fp32")
_TENSOR_AMAX = (2688.0, 1.0, 1.9921875, 3.0, 2.0**-100, 2.0**120)  # of the tensors that are dequantized


class BlockVectors(Vectors, Protocol):
    """What a suite of blocks asks of its vectors: a column for each number of a record, a row of codes and digits."""

    def name(self, index: int) -> str:
        """What the manifest calls the class of a record; "" where it says nothing."""


@dataclass(frozen=True, eq=False)
class Records:
    """A list of records, all of it in memory.  names: first and last line of each class, from 1."""

    columns: tuple[Array, ...]
    z: Array
    j: Array
    proof: str = LISTED
    names: tuple[tuple[int, int, str], ...] = ()

    @property
    def size(self) -> int:
        """The number of records."""
        return len(self.z)

    def operands(self, start: int, stop: int) -> tuple[Array, ...]:
        """Copies, for whoever takes them may write on them."""
        return tuple(column[start:stop].copy() for column in self.columns)

    def expected(self, start: int, stop: int) -> Array:
        """Their codes."""
        return self.z[start:stop]

    def digits(self, index: Array) -> Array:
        """Their digits."""
        return self.j[index]

    def name(self, index: int) -> str:
        """The class of a line."""
        return next((name for first, last, name in self.names if first <= index + 1 <= last), "")


@dataclass(frozen=True, eq=False)
class ScaleSteps:
    """A run file of scales."""

    steps: Steps

    @property
    def size(self) -> int:
        """The number of inputs."""
        return self.steps.size

    @property
    def proof(self) -> str:
        """As of any run file."""
        return self.steps.proof

    def operands(self, start: int, stop: int) -> tuple[Array, ...]:
        """amax."""
        return self.steps.operands(start, stop)

    def expected(self, start: int, stop: int) -> Array:
        """One code each."""
        return self.steps.expected(start, stop)[:, None]

    def digits(self, index: Array) -> Array:
        """One digit each."""
        return self.steps.digits(index)[:, None]

    def name(self, index: int) -> str:
        """Lines of a run file have no names."""
        return ""


@dataclass(frozen=True, eq=False)
class PairDigest:
    """The scales of all pairs of bf16 (amax of a block, of its tensor), of which the file has a hash.

    As for other digests the implementation's own results count where they have the hash of the file.
    """

    question: BlockQuestion
    digests: golden.Digests
    proof: str = "every pair of bf16 mantissas, 21 binades"

    @property
    def size(self) -> int:
        """The number of pairs."""
        return int(self.digests.count[0])

    def operands(self, start: int, stop: int) -> tuple[Array, ...]:
        """Both amax."""
        return tuple(column[start:stop].copy() for column in bf16_pairs())

    def expected(self, start: int, stop: int) -> Array:
        """One code each; CorruptError where they have another hash."""
        return _codes_of_pairs(self.question.bfmt.name, self.question.rule, self.digests.sha256[0])[start:stop, None]

    def digits(self, index: Array) -> Array:
        """These bits."""
        return np.ones((len(index), 1), np.uint8)

    def name(self, index: int) -> str:
        """They have no names."""
        return ""


# --- which there are --------------------------------------------------------------------------


@lru_cache(maxsize=1)
def block_rows() -> Mapping[str, golden.Row]:
    """The manifest's rows of blocks, and those that need no file: other rules for a list, and products.

    >>> block_rows()["dequantize.mxfp4.f32.exact.none.blk"]["domain"]
    256
    """
    rows: dict[str, golden.Row] = dict(golden.block_manifest())
    for name, row in golden.block_manifest().items():
        asked = golden.block_question(name)
        if asked.op == "scale" and asked.bfmt.tensor_scale == "none":
            said = "" if asked.rule == asked.bfmt.scale_rule else f".rule={asked.rule}"
            listed = rows[f"block.f32.{asked.bfmt.name}.rne.sat.blk"]
            made = f"block.f32.{asked.bfmt.name}.rne.sat{said}.blk"
            rows.setdefault(made, MappingProxyType({**listed, "id": made, "level": row["level"]}))
    for bfmt in map(get_block_format, blocks_with_vectors()):
        two_levels = bfmt.tensor_scale != "none"
        name = f"dequantize.{bfmt.name}.f32.{'rne.nonsat' if two_levels else 'exact.none'}.blk"
        count = len(_scales(bfmt)) * len(_code_blocks(bfmt)) * (len(_TENSOR_AMAX) if two_levels else 1)
        level = "derived" if two_levels else "must"
        rows[name] = MappingProxyType({"id": name, "level": level, "domain": count, "shape": "blk", "op": "dequantize"})
    return MappingProxyType(rows)


def find_block(vector_id: str) -> golden.Row:
    """The row of an id of blocks; ValueError with the closest ids for an unknown one."""
    return block_rows()[vector_id] if vector_id in block_rows() else golden.find(vector_id)


def blocks_with_vectors() -> list[str]:
    """The block formats that have vectors.

    >>> blocks_with_vectors()[-1]
    'nvfp4'
    """
    found = {golden.block_question(name).bfmt.name for name in golden.block_manifest()}
    return [name for name in BLOCK_FORMATS if name in found]


def conversion_of(question: BlockQuestion) -> str:
    """The id of the conversion that an element is."""
    return f"convert.f32.{question.bfmt.element.name}.rne.sat.{question.shape}"


def block_id(op: str, bfmt: BlockFormat, rule: str, exhaustive: bool = False) -> str:
    """The id that asks something of a block format; of nvfp4's scales the pairs at ties, or all.

    >>> block_id("block", get_block_format("mxfp4"), "rceil")
    'block.f32.mxfp4.rne.sat.rule=rceil.blk'

    Raises ValueError where there is none, with what there is.
    """
    two_levels = bfmt.tensor_scale != "none"
    said = "" if rule == bfmt.scale_rule else f".rule={rule}"
    name = {
        "block": f"block.f32.{bfmt.name}.rne.sat{said}.blk",
        "element": f"element.f32.{bfmt.name}.rne.sat.run",
        "scale": f"scale.f32.{bfmt.name}.exact.sat{said}.run",
        "dequantize": f"dequantize.{bfmt.name}.f32.{'rne.nonsat' if two_levels else 'exact.none'}.blk",
    }[op]
    if op == "scale" and two_levels:
        name = f"scale.{'bf16' if exhaustive else 'f32'}.{bfmt.name}.exact.sat{said}.{'dig' if exhaustive else 'tv'}"
    if BLOCK_FORMATS.get(bfmt.name) != bfmt:
        raise ValueError(f"bfmt: {bfmt.name!r} is a row of your own, and has no golden vectors")
    if name in block_rows():
        return name
    if bfmt.name not in blocks_with_vectors():
        raise ValueError(f"bfmt: {bfmt.name!r} has no golden vectors; {', '.join(blocks_with_vectors())} have")
    rules = [asked.rule for asked in map(golden.block_question, block_rows()) if (asked.op, asked.bfmt) == (op, bfmt)]
    raise ValueError(f"scale_rule: there are no vectors for {bfmt.name!r} by {rule!r}, to {op}; there are for "
                     f"{', '.join(dict.fromkeys(rules)) or 'none'}")  # fmt: skip


def load_block(vector_id: str, question: BlockQuestion, exhaustive: bool, seed: int | None) -> BlockVectors:
    """The vectors of an id: CorruptError where its file is not the manifest's."""
    if question.op == "dequantize":
        return _products(question.bfmt)
    row = find_block(vector_id)
    try:
        if question.op == "block":
            return _load_list(vector_id, question, seed)
        if question.shape == "run":
            return _load_run(vector_id, question, exhaustive, seed)
        if question.shape == "dig":
            return PairDigest(question, golden.load_digests(vector_id))
        return _load_pairs(vector_id)
    except CorruptError:
        raise
    except (ValueError, OverflowError, IndexError) as error:
        raise CorruptError(f"{row['path']}: {error}") from error


def _load_run(vector_id: str, question: BlockQuestion, exhaustive: bool, seed: int | None) -> ScaleSteps:
    asked = Question("convert", question.source, question.bfmt.scale.name, {}, None, None, "run")
    found = steps(asked, golden.load_runs(vector_id), exhaustive, seed)
    if not isinstance(found, Steps):
        raise TypeError(f"{vector_id}: scales have float32 for their source")
    if found.keys is not None:  # where other rules change, too, so that they can be told apart
        found = replace(found, keys=np.unique(np.concatenate([found.keys, *_turns(question)])))
    return ScaleSteps(found)


def _turns(question: BlockQuestion) -> list[Array]:
    """The first and last inputs of the lines of every rule of a format."""
    names = [name for name in golden.block_manifest() if name.startswith(f"scale.f32.{question.bfmt.name}.")]
    runs = [golden.load_runs(name) for name in names]
    return [column.astype(np.int64) for each in runs for column in (each.lo, each.hi)]


def _load_pairs(vector_id: str) -> Records:
    found = golden.load_vectors(vector_id)
    columns = tuple(column.astype(np.uint32) for column in found.operands)
    z = found.z.astype(np.uint8)[:, None]
    return Records(columns, z, found.j[:, None], names=names_of(golden.find(vector_id)))


def _load_list(vector_id: str, question: BlockQuestion, seed: int | None) -> Records:
    if vector_id not in golden.block_manifest():
        return _other_rule(question, seed)
    found = golden.load_blocks(vector_id)
    columns = [column.astype(np.uint32) for column in found.x.T]
    if found.tensor is not None:
        columns.insert(0, found.tensor.astype(np.uint32))
    z = np.column_stack([found.scale, found.z]).astype(np.uint8)
    listed = Records(tuple(columns), z, block_digits(z, found.j, question.bfmt), names=names_of(golden.find(vector_id)))
    return listed if seed is None else _with_drawn(listed, question, seed)


def block_digits(z: Array, j: Array, bfmt: BlockFormat) -> Array:
    """The digit of each code: a NaN scale leaves the elements free, and -128 of MX's int8 may be -127."""
    digits = np.repeat(j[:, None], z.shape[1], axis=1)
    digits[j == 2, 1:] = 0
    if bfmt.spare_code is not None:
        digits[:, 1:][(z[:, 1:] == bfmt.spare_code) & (digits[:, 1:] == 1)] = 3
    return digits


# --- pairs ------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def bf16_pairs() -> tuple[Array, Array]:
    """(amax of a block, of its tensor) as bf16 patterns, in the order that the README of the vectors has.

    >>> [len(column) for column in bf16_pairs()]
    [335936, 335936]
    """
    distance, whole, part = (column.ravel() for column in np.indices((21, 128, 128)))
    kept = (distance > 0) | (part <= whole)
    amax = (127 - distance[kept]) << 7 | part[kept]
    return amax.astype(np.uint16), (127 << 7 | whole[kept]).astype(np.uint16)


@lru_cache(maxsize=4)
def _codes_of_pairs(bfmt: str, rule: str, sha256: str) -> Array:
    amax, whole = (column.astype(np.uint32) << np.uint32(16) for column in bf16_pairs())
    codes = scales_of_pairs(amax, whole, bfmt, rule)
    if hashlib.sha256(codes.tobytes()).hexdigest() != sha256:
        raise CorruptError(f"the pairs of {bfmt}: no results with this hash are known")
    return codes


def scales_of_pairs(amax: Array, whole: Array, bfmt: str | BlockFormat, rule: str) -> Array:
    """Scale codes of blocks with a greatest magnitude in tensors with another, from float32 patterns."""
    codes = np.empty(len(amax), np.uint8)
    for top in np.unique(whole):
        chosen = np.flatnonzero(whole == top)
        numbers = np.concatenate([[top], amax[chosen]]).astype(np.uint32).view(np.float32)
        codes[chosen] = quantize_blocks(numbers[:, None], bfmt, scale_rule=rule).scales[1:, 0]
    return codes


def _other_rule(question: BlockQuestion, seed: int | None) -> Records:
    """The list of the format's own rule, answered by the exact oracle for another."""
    own = f"block.f32.{question.bfmt.name}.rne.sat.blk"
    listed = _load_list(own, golden.block_question(own), None)
    z, j = _answered(listed.columns, question)
    found = Records(listed.columns, z, j, listed.proof, listed.names)
    return found if seed is None else _with_drawn(found, question, seed)


# --- blocks that are drawn --------------------------------------------------------------------


def _with_drawn(listed: Records, question: BlockQuestion, seed: int) -> Records:
    """The list, and some more blocks, answered by the exact oracle."""
    columns = _drawn(question.bfmt, seed)
    z, drawn = _answered(columns, question)
    return Records(
        tuple(np.concatenate(both) for both in zip(listed.columns, columns, strict=True)),
        np.concatenate([listed.z, z]),
        np.concatenate([listed.j, drawn]),
        f"{LISTED}, and {len(z)} blocks that were drawn",
        (*listed.names, (listed.size + 1, listed.size + len(z), "drawn")),
    )


def _drawn(bfmt: BlockFormat, seed: int) -> list[Array]:
    """Columns of float32 patterns: half of the blocks have short mantissas, so that there are ties."""
    rng = np.random.default_rng(seed)
    shape = (DRAWN, bfmt.size)
    short = rng.integers(0, 16, shape) << 19
    mantissa = np.where(np.arange(DRAWN)[:, None] % 2, short, rng.integers(0, 1 << 23, shape))
    exponent = np.clip(rng.integers(20, 230, (DRAWN, 1)) - rng.geometric(0.3, shape), 0, 254)
    patterns = (rng.integers(0, 2, shape) << 31 | exponent << 23 | mantissa).astype(np.uint32)
    patterns[rng.random(shape) < 0.05] = 0
    columns = list(patterns.T)
    if bfmt.tensor_scale != "none":
        top = (patterns & np.uint32(_FP32.magnitude_mask)).max(axis=1)
        columns.insert(0, top + (rng.integers(0, 10, DRAWN) << 23).astype(np.uint32))
    return columns


def _answered(columns: Sequence[Array], question: BlockQuestion) -> tuple[Array, Array]:
    """What the oracle answers for columns of float32 patterns, and the digits."""
    numbers = [column.view(np.float32).tolist() for column in columns]
    z = np.array([_answer(row, question) for row in zip(*numbers, strict=True)], np.uint8)
    nan = np.array([question.bfmt.scale.is_nan(code) for code in z[:, 0].tolist()])
    return z, block_digits(z, np.where(nan, 2, 1).astype(np.uint8), question.bfmt)


def _answer(numbers: tuple[float, ...], question: BlockQuestion) -> list[int]:
    """Scale and elements of one block."""
    bfmt = question.bfmt
    whole, own = (numbers[:1], numbers[1:]) if bfmt.tensor_scale != "none" else (None, numbers)
    found = block_oracle.quantize(own, bfmt.element, bfmt.scale, question.rule, tensor=whole)
    return [found.scale, *found.codes]


# --- products ---------------------------------------------------------------------------------


def _scales(bfmt: BlockFormat) -> range:
    """Every scale code that a block can have."""
    return range(bfmt.scale.code_mask + 1)


def _code_blocks(bfmt: BlockFormat) -> Array:
    """Blocks that have every element code between them."""
    count = 1 << bfmt.element.bits
    blocks = -(-count // bfmt.size)
    return (np.arange(blocks * bfmt.size) % count).reshape(blocks, bfmt.size).astype(np.uint8)


@lru_cache(maxsize=2)
def _products(bfmt: BlockFormat) -> Records:
    """Every scale with every element, and for nvfp4 some scales of tensors."""
    blocks = _code_blocks(bfmt)
    scales = np.array(_scales(bfmt), np.uint8)
    two_levels = bfmt.tensor_scale != "none"
    wholes = [_tensor_scale(amax, bfmt) for amax in _TENSOR_AMAX] if two_levels else [0x3F800000]
    tables = [_product_table(bfmt, float(np.uint32(whole).view(np.float32))) for whole in wholes]
    tensor, scale, block = (column.ravel() for column in np.indices((len(wholes), len(scales), len(blocks))))
    z, j = (np.array([table[k] for table in tables])[tensor[:, None], scale[:, None], blocks[block]] for k in (0, 1))
    columns = [scales[scale], *blocks[block].T]
    if two_levels:
        columns.insert(0, np.array(wholes, np.uint32)[tensor])
    proof = "every scale with every element" + (f", {len(wholes)} scales of tensors" if two_levels else "")
    return Records(tuple(columns), z.astype(np.uint32), j.astype(np.uint8), proof)


def _tensor_scale(amax: float, bfmt: BlockFormat) -> int:
    """The float32 pattern of amax / 2688, rounded once."""
    exact = Fraction(amax) / Fraction(bfmt.element.max) / Fraction(bfmt.scale.max)
    return oracle.encode(exact, _FP32)


def _product_table(bfmt: BlockFormat, whole: float) -> tuple[Array, Array]:
    """(pattern, digit) of each scale code and element code: the product, exact in float64, rounded once."""
    # 1. the values; a product has at most 46 bits, which a block format promises
    scales = _values(_scales(bfmt), bfmt.scale)[:, None]
    elements = _values(range(bfmt.element.code_mask + 1), bfmt.element)
    with np.errstate(invalid="ignore", over="ignore"):  # Inf * 0 is NaN, and beyond float32 is Inf
        z = (elements * scales * whole).astype(np.float32).view(np.uint32)
    # 2. the digits; of MX a finite product beyond float32 is implementation-defined
    magnitude = z & np.uint32(_FP32.magnitude_mask)
    j = np.where(magnitude > _FP32.exponent_mask, 2, 1).astype(np.uint8)
    if bfmt.tensor_scale == "none":
        j[(magnitude == _FP32.exponent_mask) & np.isfinite(elements)] = 0
    return np.where(j == 0, 0, np.where(j == 2, 0x7FC00000, z)).astype(np.uint32), j


def _values(codes: range, row: Format) -> Array:
    """Values in float64, which holds them, as the oracle has them."""
    found = [oracle.decode(code, row) for code in codes]
    exact = {"nan": np.nan, "inf": np.inf}
    return np.array([np.copysign(exact.get(x.kind, float(x.magnitude)), -1 if x.negative else 1) for x in found])
