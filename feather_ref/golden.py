"""Read and verify data/golden: the vectors that other implementations are judged by.

=======  =======================================================================================
`.run`   lines `lo hi z j`: every input pattern from lo to hi gives z
`.tab`   raw little-endian results, one an input, in order; `.memh` is its twin in text
`.msk`   one byte a cell of its twin `.tab`: the judge digits, where the class does not say them
`.tv`    lines `a [b [c]] z j`: operands and result
`.dig`   lines `chunk count crc32 sha256`: hashes of the results of 2**24 inputs each
`.blk`   lines `[A] x .. s z .. j`: a tensor's amax if it counts, a block's numbers, its scale code, its element codes
=======  =======================================================================================

The judge digit j::

    0  the standard says nothing     1  these bits     2  any NaN of the format     3  z or z + 1

What a file means is in its name and in manifest.json; data/golden/README.md is the full text.

Source: design of this project; each manifest row names its standard.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feather_ref.blocks import BLOCK_FORMATS, SCALE_RULES, BlockFormat
from feather_ref.formats import get_format
from feather_ref.policy import SHORT

Row = Mapping[str, Any]
Folder = str | Path | None
"""Where the vectors are; None: those of this package."""


class CorruptError(ValueError):
    """A file of vectors that is not what the manifest says, or a manifest that is none."""


TOKENS: Mapping[str, str] = MappingProxyType(
    {
        **SHORT,
        "sra": "stochastic_a",
        "srb": "stochastic_b",
        "src": "stochastic_c",
        "f16": "fp16",
        "bf16": "bf16",
        "f32": "fp32",
        "f64": "float64",
        "i64": "int64",
    }
)
"""What the short names in ids mean as arguments."""

OPERATIONS: Mapping[str, int] = MappingProxyType(
    {"decode": 1, "convert": 1, "add": 2, "subtract": 2, "multiply": 2, "divide": 2, "compare": 2, "fma": 3}
)
"""Every operation, and how many operands it takes."""

CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "nan": ("preserve_sign", "max", "zero"),
        "negative": ("nan", "zero", "abs"),
        "subnormals": ("flush_input", "flush_output"),
    }
)
"""The choices that an id can name, in the order of ids; `n` and `r` of stochastic rounding follow."""

BLOCK_OPERATIONS: Mapping[str, int] = MappingProxyType({"scale": 2, "element": 1, "block": 1, "dequantize": 1})
"""The operations of blocks, and how many operands a list of them has; `block_question` reads their ids."""

SHAPES = ("run", "tab", "msk", "memh", "tv", "dig")
CHUNK = 1 << 24
"""How many inputs one line of a `.dig` file speaks of, but for the last."""

SUMMED = ("manifest.json", "manifest.tsv", "manifest.schema.json")  # in SHA256SUMS beside the vectors
_UNLISTED = frozenset({"SHA256SUMS", "README.md", "ERRATA.md", "LICENSE"})
_INSTALLED = Path(__file__).parent / "_golden"
_CHECKOUT = Path(__file__).parent.parent / "data" / "golden"


class Question(NamedTuple):
    """What an id asks.

    source, target: names of the API: "fp32", "fp16", "bf16", "float64", "int64", or a format.
    policies: the keyword arguments of `encode`, `add` ... that the id names, and no others.
    n_bits, random: the operand of stochastic rounding; None where the id has none.
    """

    op: str
    source: str
    target: str
    policies: dict[str, Any]
    n_bits: int | None
    random: int | None
    shape: str


class Runs(NamedTuple):
    """A run file: inclusive input patterns lo .. hi give z, judged by digit j."""

    lo: NDArray[np.uint64]
    hi: NDArray[np.uint64]
    z: NDArray[np.uint64]
    j: NDArray[np.uint8]


class Vectors(NamedTuple):
    """A list: the bit patterns of each operand, the result z, judged by digit j."""

    operands: tuple[NDArray[np.uint64], ...]
    z: NDArray[np.uint64]
    j: NDArray[np.uint8]


class BlockQuestion(NamedTuple):
    """What an id of blocks asks.

    op: "scale": amax, or amax of a block and of its tensor, to the scale code; "element": V / scale to
    the element code; "block": numbers to scale and codes; "dequantize": scale and codes to numbers.
    source: as in `Question`; a block format for "dequantize".  bfmt: the block format.  rule: the name
    of a scale rule.  policies: of the elements.
    """

    op: str
    source: str
    bfmt: BlockFormat
    rule: str
    policies: dict[str, Any]
    shape: str


class Blocks(NamedTuple):
    """A list of blocks: float32 patterns (n, k), scale codes (n,), element codes (n, k), judge digits (n,).

    The digit 2 says that any NaN passes for the scale, and anything for the elements.  tensor: the
    greatest magnitude of each block's tensor, float32 patterns (n,), where the format has a tensor scale.
    """

    x: NDArray[np.uint64]
    scale: NDArray[np.uint64]
    z: NDArray[np.uint64]
    j: NDArray[np.uint8]
    tensor: NDArray[np.uint64] | None = None


class Digests(NamedTuple):
    """A digest file: hashes of the little-endian results of each chunk, NaN canonical."""

    chunk: NDArray[np.uint32]
    count: NDArray[np.uint64]  # type: ignore[assignment]  # the column's name; nobody counts in this tuple
    crc32: NDArray[np.uint32]
    sha256: tuple[str, ...]


# --- ids --------------------------------------------------------------------------------------


def question(vector_id: str) -> Question:
    """The meaning of any well-formed id, whether the manifest has it or not.

    >>> question("convert.f32.e8m0.rna.sat.negative=abs.run").policies
    {'rounding': 'nearest_away', 'overflow': 'saturate', 'negative': 'abs'}
    >>> question("convert.f16.e4m3.sra.sat.n=4.r=9.run")[4:]
    (4, 9, 'run')

    Raises ValueError that names the part which is wrong.
    """
    parts = vector_id.split(".") if isinstance(vector_id, str) else []
    if len(parts) < 6:
        raise ValueError(f"vector_id: {vector_id!r} is not op.from.to.round.overflow[.choice=option].shape")
    (op, source, target, rounding, overflow), choices, shape = parts[:5], parts[5:-1], parts[-1]
    for name, part, known in (("op", op, OPERATIONS), ("shape", shape, SHAPES)):
        if part not in known:
            raise ValueError(f"vector_id: {vector_id!r}: {name} must be one of {', '.join(known)}; got {part!r}")
    policies = {
        name: _token(vector_id, name, part, none)
        for name, part, none in (("rounding", rounding, "exact"), ("overflow", overflow, "none"))
        if part != none
    }
    options = _choices(vector_id, choices)
    n_bits, random = options.pop("n", None), options.pop("r", None)
    if (n_bits is not None or random is not None) and not policies.get("rounding", "").startswith("stochastic"):
        raise ValueError(f"vector_id: {vector_id!r}: n and r are for stochastic rounding")
    if n_bits is not None and random is not None and random >= 1 << n_bits:
        raise ValueError(f"vector_id: {vector_id!r}: r must be below 2**n")
    source, target = (_format_name(vector_id, part) for part in (source, target))
    return Question(op, source, target, policies | options, n_bits, random, shape)


_BLOCK_FORM = "scale|element|block|dequantize.from.to.round.overflow[.rule=name].shape"


def block_question(vector_id: str) -> BlockQuestion:
    """The meaning of an id of blocks.

    >>> asked = block_question("scale.f32.mxfp4.exact.sat.rule=rceil.run")
    >>> asked.bfmt.name, asked.rule, asked.policies
    ('mxfp4', 'rceil', {'overflow': 'saturate'})
    >>> block_question("dequantize.mxfp4.f32.exact.none.blk").source
    'mxfp4'

    Raises ValueError that names the part which is wrong.
    """
    parts = vector_id.split(".") if isinstance(vector_id, str) else []
    if len(parts) not in (6, 7) or parts[0] not in BLOCK_OPERATIONS:
        raise ValueError(f"vector_id: {vector_id!r} is not {_BLOCK_FORM}")
    (op, source, target, rounding, overflow), choices, shape = parts[:5], parts[5:-1], parts[-1]
    blocks, numbers = (source, target) if op == "dequantize" else (target, source)
    bfmt = BLOCK_FORMATS.get(blocks)
    if bfmt is None:
        raise ValueError(f"vector_id: {vector_id!r}: unknown block format {blocks!r}")
    numbers = _format_name(vector_id, numbers)
    policies = {
        name: _token(vector_id, name, part, none)
        for name, part, none in (("rounding", rounding, "exact"), ("overflow", overflow, "none"))
        if part != none
    }
    rule = choices[0].removeprefix("rule=") if choices else bfmt.scale_rule
    if rule not in SCALE_RULES or choices not in ([], [f"rule={rule}"]):
        raise ValueError(f"vector_id: {vector_id!r}: unknown choice {choices[0]!r}")
    if shape not in ("run", "tv", "dig", "blk"):
        raise ValueError(f"vector_id: {vector_id!r}: unknown shape {shape!r}")
    return BlockQuestion(op, source if op == "dequantize" else numbers, bfmt, rule, policies, shape)


_KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "rounding": ("rne", "rna", "rtz", "rup", "rdn", "rodd", "sra", "srb", "src"),
        "overflow": ("sat", "nonsat", "prop", "table3", "satnone"),
    }
)


def _token(vector_id: str, name: str, part: str, none: str) -> str:
    """The API's name of a rounding or an overflow."""
    if part not in _KINDS[name]:
        known = ", ".join((*_KINDS[name], none))
        raise ValueError(f"vector_id: {vector_id!r}: {name} must be one of {known}; got {part!r}")
    return TOKENS[part]


def _choices(vector_id: str, parts: list[str]) -> dict[str, Any]:
    """`choice=option` parts as arguments; they stand in the order of CHOICES, n and r last."""
    order = (*CHOICES, "n", "r")
    found: dict[str, Any] = {}
    for part in parts:
        name, _, option = part.partition("=")
        number = name in ("n", "r") and option.isdecimal() and str(int(option)) == option and len(option) < 4
        if not number and option not in CHOICES.get(name, ()):
            raise ValueError(f"vector_id: {vector_id!r}: unknown choice {part!r}")
        found[name] = int(option) if number else option
    if list(found) != [name for name in order if name in found] or len(found) != len(parts):
        raise ValueError(f"vector_id: {vector_id!r}: choices stand once each, in the order {', '.join(order)}")
    if found.get("n", 1) < 1:
        raise ValueError(f"vector_id: {vector_id!r}: n must be at least 1")
    return found


def _format_name(vector_id: str, part: str) -> str:
    """The API's name of a source or target; a format goes by its canonical name alone."""
    name = TOKENS.get(part, part) if part not in SHORT else part
    if part in ("f64", "i64"):
        return name
    try:
        canonical = get_format(name).name
    except ValueError:
        canonical = ""
    if canonical != name or part in ("fp16", "fp32"):
        raise ValueError(f"vector_id: {vector_id!r}: unknown format {part!r}")
    return name


# --- the manifest -----------------------------------------------------------------------------


def root() -> Path:
    """The folder of the vectors: in the installed package, or in a checkout."""
    for folder in (_INSTALLED, _CHECKOUT):
        if (folder / "manifest.json").is_file():
            return folder
    raise FileNotFoundError(f"no golden vectors in {_INSTALLED} or {_CHECKOUT}")


def _base(folder: Folder) -> Path:
    return root() if folder is None else Path(folder)


def _rows_of(folder: Folder, blocks: bool) -> Mapping[str, Row]:
    text = _base(folder).joinpath("manifest.json").read_text(encoding="utf-8")
    document = json.loads(text)
    vectors = document.get("vectors") if isinstance(document, dict) else None
    if not isinstance(vectors, list):
        raise ValueError("manifest.json: it has no list of vectors")
    for i, row in enumerate(vectors):
        for key in ("id", "op"):
            if not isinstance(row, dict) or not isinstance(row.get(key), str):
                raise ValueError(f"manifest.json: row {i} has no {key!r}")
    rows = [row for row in vectors if (row["op"] in BLOCK_OPERATIONS) == blocks]
    return MappingProxyType({row["id"]: MappingProxyType(row) for row in rows})


@lru_cache(maxsize=4)
def block_manifest(folder: Folder = None) -> Mapping[str, Row]:
    """The manifest's rows of blocks, by id.

    >>> block_manifest()["scale.f32.mxfp4.exact.sat.run"]["level"]
    'should'
    """
    return _rows_of(folder, True)


@lru_cache(maxsize=4)
def manifest(folder: Folder = None) -> Mapping[str, Row]:
    """The manifest's rows by id, but for those of blocks.

    >>> manifest()["convert.f32.e4m3.rne.sat.run"]["lines"]
    256
    """
    return _rows_of(folder, False)


def find(vector_id: str, folder: Folder = None) -> Row:
    """The manifest row of an id; TypeError for what is none, ValueError with the closest ids for an unknown one."""
    if not isinstance(vector_id, str):
        raise TypeError(f"vector_id must be a str, got {type(vector_id).__name__}")
    blocks = vector_id.partition(".")[0] in BLOCK_OPERATIONS
    rows = block_manifest(folder) if blocks else manifest(folder)
    if vector_id not in rows:
        close = difflib.get_close_matches(vector_id, rows, n=3, cutoff=0.4)
        raise ValueError(f"vector_id: unknown vector {vector_id!r}" + (f"; close: {', '.join(close)}" if close else ""))
    return rows[vector_id]


# --- files ------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _fields(folder: Path) -> tuple[frozenset[str], frozenset[str]]:
    """What a manifest row may have, and what it must, by the schema beside it."""
    try:
        schema = json.loads((folder / "manifest.schema.json").read_text(encoding="utf-8"))
        return frozenset(schema["$defs"]["vector"]["properties"]), frozenset(schema["$defs"]["vector"]["required"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptError(f"manifest.schema.json: {error}") from error


def read(vector_id: str, folder: Folder = None) -> bytes:
    """The bytes of a vector's file, checked: every function here that loads a file reads it by this one.

    >>> read("decode.e2m1.f32.exact.none.tab")[:8].hex()
    '000000000000003f'

    Raises ValueError for an unknown id, and CorruptError, a ValueError, where a field of the manifest's row is
    unknown or missing, and where the file is not there or has another SHA-256.
    """
    row = _whole_row(vector_id, folder)
    try:
        data = (_base(folder) / row["path"]).read_bytes()
    except OSError as error:
        raise CorruptError(f"{row['path']}: {error.strerror}") from error
    if f"{zlib.crc32(data):08x}" != row["crc32"] or hashlib.sha256(data).hexdigest() != row["sha256"]:
        raise CorruptError(f"{row['path']}: SHA-256 differs from the manifest")
    return data


def _whole_row(vector_id: str, folder: Folder) -> Row:
    """The manifest row of an id, with all the fields that it must have, and no other."""
    row = find(vector_id, folder)
    known, needed = _fields(_base(folder))
    for what, names in (("unknown", set(row) - known), ("missing", needed - set(row))):
        if names:
            raise CorruptError(f"{row['id']}: {what} fields in the manifest: {', '.join(sorted(names))}")
    return row


def load_runs(vector_id: str, folder: Folder = None) -> Runs:
    """A `.run` file.

    >>> runs = load_runs("convert.f32.e4m3.rne.nonsat.run")
    >>> [hex(v[i]) for v in runs[:3] for i in (127,)]
    ['0x43e80001', '0x7fffffff', '0x7f']
    """
    lo, hi, z, j = _columns(vector_id, "run", 4, folder)
    return Runs(lo, hi, z, j.astype(np.uint8))


def load_vectors(vector_id: str, folder: Folder = None) -> Vectors:
    """A `.tv` file: operands, results, judge digits."""
    op = str(vector_id).partition(".")[0]
    count = BLOCK_OPERATIONS[op] if op in BLOCK_OPERATIONS else OPERATIONS[question(vector_id).op]
    *operands, z, j = _columns(vector_id, "tv", count + 2, folder)
    return Vectors(tuple(operands), z, j.astype(np.uint8))


def load_blocks(vector_id: str, folder: Folder = None) -> Blocks:
    """A `.blk` file.

    >>> blocks = load_blocks("block.f32.mxfp4.rne.sat.blk")
    >>> blocks.x.shape == blocks.z.shape == (len(blocks.scale), 32)
    True
    """
    bfmt = block_question(vector_id).bfmt
    k, two_levels = bfmt.size, bfmt.tensor_scale != "none"
    columns = _columns(vector_id, "blk", 2 * k + 2 + two_levels, folder)
    tensor = columns.pop(0) if two_levels else None
    x, codes = (np.stack(part, axis=1) for part in (columns[:k], columns[k + 1 : -1]))
    return Blocks(x, columns[k], codes, columns[-1].astype(np.uint8), tensor)


def load_digests(vector_id: str, folder: Folder = None) -> Digests:
    """A `.dig` file: one entry for each chunk of 2**24 inputs."""
    row = _shaped(vector_id, "dig", folder)
    lines = read(vector_id, folder).decode("ascii").splitlines()
    fields = [line.split(" ") for line in lines]
    for i, line in enumerate(fields):
        if [len(field) for field in line] != [4, 7, 8, 64]:
            raise CorruptError(f"{row['path']}: line {i + 1} is not `chunk count crc32 sha256`")
    chunk, count, crc32 = ([int(line[at], 16) for line in fields] for at in range(3))
    return Digests(
        np.array(chunk, np.uint32), np.array(count, np.uint64), np.array(crc32, np.uint32),
        tuple(line[3] for line in fields),
    )  # fmt: skip


def load_table(vector_id: str, folder: Folder = None) -> NDArray[Any]:
    """A `.tab` file as a flat array: float32 for decode tables, else codes.

    The result of operands a, b lies at a << bits | b.

    >>> load_table("decode.e2m1.f32.exact.none.tab")[:4]
    array([0. , 0.5, 1. , 1.5], dtype=float32)
    """
    row = _shaped(vector_id, "tab", folder)
    dtype = "<f4" if row["out"] == "f32" else result_dtype(vector_id).newbyteorder("<")
    table = np.frombuffer(read(vector_id, folder), dtype)
    return table.astype(table.dtype.newbyteorder("="))


def load_mask(vector_id: str, folder: Folder = None) -> NDArray[np.uint8] | None:
    """The judge digits of a table's cells; None where the class says them: 2 for NaN, else 1."""
    _shaped(vector_id, "tab", folder)
    twin = vector_id.removesuffix("tab") + "msk"
    return np.frombuffer(read(twin, folder), np.uint8).copy() if twin in manifest(folder) else None


def result_dtype(vector_id: str) -> np.dtype[Any]:
    """The dtype of the results as stored: the code's, or uint32 for float32, uint8 for compare.

    >>> result_dtype("convert.f32.f16.rup.nonsat.dig")
    dtype('uint16')
    """
    asked = question(vector_id)
    bits = 8 if asked.op == "compare" else get_format(asked.target).bits
    return np.dtype(np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32)


def _shaped(vector_id: str, shape: str, folder: Folder) -> Row:
    """The manifest row of an id that must have a shape."""
    row = _whole_row(vector_id, folder)
    if row["shape"] != shape:
        raise ValueError(f"vector_id: {vector_id!r} is a .{row['shape']} file, not .{shape}")
    return row


# The value of a hex digit by its byte; 99 for what is none.
_HEX = np.full(256, 99, np.uint8)
_HEX[np.frombuffer(b"0123456789ABCDEF", np.uint8)] = np.arange(16)


def _columns(vector_id: str, shape: str, count: int, folder: Folder) -> list[NDArray[np.uint64]]:
    """The columns of a text file of fixed width, as numbers."""
    row = _shaped(vector_id, shape, folder)
    data = read(vector_id, folder)
    # 1. the first line says where the columns stand
    first = data.split(b"\n", 1)[0].split(b" ")
    if len(first) != count:
        raise CorruptError(f"{row['path']}: line 1 has {len(first)} fields, not {count}")
    width = len(b" ".join(first)) + 1
    lines = np.frombuffer(data, np.uint8, len(data) // width * width).reshape(-1, width)
    # 2. every line has a blank, or its end, where the first has one, and upper-case hex elsewhere
    ends = np.cumsum([len(field) + 1 for field in first]) - 1
    separators = np.frombuffer(b" " * (count - 1) + b"\n", np.uint8)
    digits = _HEX[lines]
    right = (digits < 16) != np.isin(np.arange(width), ends)
    right[:, ends] &= lines[:, ends] == separators
    bad = np.flatnonzero(~right.all(axis=1))
    if bad.size or len(data) % width:
        line = int(bad[0]) if bad.size else len(lines)
        raise CorruptError(f"{row['path']}: line {line + 1} is not {count} fields of hex as in line 1")
    # 3. sixteen times what is to the left, and the digit
    columns = []
    for end, field in zip(ends, first, strict=True):
        value = np.zeros(len(lines), np.uint64)
        for at in range(end - len(field), end):
            value = value << np.uint64(4) | digits[:, at]
        columns.append(value)
    return columns


# --- is all as it should be -------------------------------------------------------------------


def verify(folder: Folder = None) -> list[str]:
    """Check every file against the manifest and SHA256SUMS: what is wrong, nothing if all is well.

    >>> verify()
    []
    """
    base = _base(folder)
    try:
        sums = _read_sums(base)
        rows = json.loads((base / "manifest.json").read_text(encoding="utf-8"))["vectors"]
        missing = [key for row in rows for key in ("id", "path", "shape", *_FACTS) if key not in row]
        if missing:
            return [f"manifest.json: a row without {missing[0]!r}"]
        names = [str(row["id"]) for row in rows]
        paths = {str(row["path"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [f"{base}: unreadable: {type(error).__name__}: {error}"]
    wrong = [f"{name}: twice in the manifest" for name, times in sorted(Counter(names).items()) if times > 1]
    wrong += [f"{path}: not in SHA256SUMS" for path in sorted({*paths, *SUMMED} - sums.keys())]
    wrong += [f"{path}: not in the manifest" for path in sorted(sums.keys() - {*paths, *SUMMED})]
    wrong += [problem for path, wanted in sorted(sums.items()) for problem in _check_sum(base, path, wanted)]
    facts = {path: _facts(base, path) for path in paths}
    wrong += [problem for row in rows for problem in _check_row(row, facts[str(row["path"])])]
    present = {file.relative_to(base).as_posix() for file in base.rglob("*") if not file.is_dir() or file.is_symlink()}
    return wrong + [f"{path}: not listed" for path in sorted(present - {*sums, *_UNLISTED})]


def _read_sums(base: Path) -> dict[str, str]:
    lines = (base / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    return {path: digest for digest, path in (line.split("  ", 1) for line in lines)}


def _bytes(base: Path, path: str) -> bytes | None:
    """A file of the folder itself; None for one that is not there, is a link, or lies elsewhere."""
    file = base / path
    inside = not Path(path).is_absolute() and ".." not in Path(path).parts
    return file.read_bytes() if inside and file.is_file() and not file.is_symlink() else None


def _check_sum(base: Path, path: str, wanted: str) -> list[str]:
    data = _bytes(base, path)
    if data is None:
        return [f"{path}: missing, or not a file of this folder"]
    return [] if hashlib.sha256(data).hexdigest() == wanted else [f"{path}: SHA-256 differs from SHA256SUMS"]


_FACTS: Mapping[str, Callable[[bytes, str], Any]] = MappingProxyType(
    {
        "sha256": lambda data, path: hashlib.sha256(data).hexdigest(),
        "crc32": lambda data, path: f"{zlib.crc32(data):08x}",
        "lines": lambda data, path: 0 if path.endswith((".tab", ".msk")) else data.count(b"\n"),
    }
)


def _facts(base: Path, path: str) -> dict[str, Any]:
    """What a file is like; nothing for one that is missing, which `_check_sum` says."""
    data = _bytes(base, path)
    return {} if data is None else {key: fact(data, path) for key, fact in _FACTS.items()}


def _check_row(row: Row, facts: Mapping[str, Any]) -> list[str]:
    """Where a manifest row differs from its file."""
    return [f"{row['id']}: {key} differs from the manifest" for key in facts if row[key] != facts[key]]
