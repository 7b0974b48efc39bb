"""The manifest: one row for each vector, in JSON and in TSV, and the sums.

Source: data/golden/README.md; manifest.schema.json is the form of a row.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from feather_ref import golden
from golden_blocks import BlockVector, block_row
from golden_vectors import Vector, lists

VERSION = "0.3.0"
GENERATOR = {"name": "tools/make_golden.py", "version": VERSION}
WITNESSES = Path(__file__).with_name("witnesses.json")
TSV = ("id", "path", "shape", "op", "in", "out", "round", "overflow", "nan", "level", "domain", "lines", "crc32")
Row = dict[str, Any]


# --- notes ------------------------------------------------------------------------------------

ROUND = {
    "rne": "Nearest, ties to even, once.",
    "rna": "Nearest, ties away from zero.",
    "rtz": "Toward zero.",
    "rup": "Up.",
    "rdn": "Down.",
    "rodd": "To odd: what is not exact takes the odd neighbour.",
    "sra": "Up where floor(d * 2^n) + r >= 2^n, d the fraction of the last place.",
    "srb": "Up where floor(d * 2^(n+1)) + 2r + 1 >= 2^(n+1), d the fraction of the last place.",
    "src": "Up where d * 2^n to nearest even, and r, reach 2^n, d the fraction of the last place.",
    "exact": "",
}
OVERFLOW = {
    "sat": "Rounded first; beyond the greatest value, and Inf, it is that.",
    "nonsat": "Rounded first; beyond the greatest value it is Inf, else NaN, if the rounding leads there.",
    "prop": "Rounded first; beyond the greatest value it is that, and Inf stays if there is one.",
    "table3": "Rounded first; beyond the greatest value it is Inf, else NaN.",
    "satnone": "Rounded first; beyond the greatest value it goes by SatNone of the draft.",
    "none": "",
}
CHOICE = {
    "nan=preserve_sign": "NaN keeps its sign, these bits.",
    "nan=max": "NaN becomes the greatest value.",
    "nan=zero": "NaN becomes zero.",
    "negative=nan": "A negative becomes NaN.",
    "negative=zero": "A negative becomes zero.",
    "negative=abs": "The sign of a negative is dropped.",
    "subnormals=flush_input": "A subnormal input counts as zero.",
    "subnormals=flush_output": "A subnormal result becomes zero.",
}
FAILING = {
    "run": "Failing at an end of a line: a wrong boundary.",
    "tab": "Failing: this pair of operands.",
    "tv": "Failing: the line's class names the rule.",
    "dig": "Failing: some result of the chunk.",
}
DECODE = "The value of every code. Failing: the decoder is wrong, no choice is left open."
WIDEN = "Every input is a float32 too: widen it, and look it up in that file."
MEMH = "Twin of the table, for $readmemh."


def notes(vector: Vector) -> str:
    """Why a vector exists, and what failing means."""
    if vector.op == "decode" and vector.shape != "tv":
        return MEMH if vector.shape == "memh" else DECODE
    if vector.shape == "run" and vector.src != "f32":
        return WIDEN
    choices = [part for part in vector.choices.split(".") if part in CHOICE]
    said = [ROUND[vector.round], OVERFLOW[vector.overflow], *(CHOICE[part] for part in choices), _nan_note(vector)]
    return " ".join(part for part in (*said, FAILING[vector.shape]) if part)


def _nan_note(vector: Vector) -> str:
    if "nan=" in vector.choices or vector.op == "compare":
        return ""
    return "Any NaN code passes." if vector.row.has_nan else "NaN: nothing is said, j is 0."


# --- rows -------------------------------------------------------------------------------------


def nan_policy(vector: Vector) -> str:
    """What stands for NaN in the file: a choice, the canonical code, or nothing."""
    if vector.op == "compare":
        return "none"
    chosen = vector.question.policies.get("nan")
    has_nan = vector.op == "decode" or vector.row.has_nan
    return str(chosen) if chosen else "canonical" if has_nan else "none"


def domain(vector: Vector, lines: int) -> int:
    """How many inputs there are; of a list, how many it has."""
    if vector.shape == "tv":
        return lines
    if vector.op == "convert":
        bits = 32 if vector.src == "f32" else 16
        return 1 << (bits + 8 * (vector.shape == "dig" and vector.choices == "n=8"))
    return 1 << (vector.row.bits * golden.OPERATIONS[vector.op])


AnyVector = Vector | BlockVector


def manifest_rows(found: Iterable[AnyVector], paths: Mapping[str, str], files: Mapping[str, bytes]) -> list[Row]:
    """All rows; the facts of each file are taken once."""
    claims = load_witnesses()
    facts = {path: _facts(path, data) for path, data in files.items()}
    rows = []
    for vector in sorted(found, key=lambda vector: vector.id):
        path = paths[vector.id]
        if isinstance(vector, BlockVector):
            rows.append(block_row(vector, path, facts[path], GENERATOR))
        else:
            rows.append(_row(vector, path, facts[path], witnesses(vector, claims)))
    return rows


def _facts(path: str, data: bytes) -> Row:
    text = not path.endswith((".tab", ".msk"))
    return {
        "lines": data.count(b"\n") if text else 0,
        "sha256": hashlib.sha256(data).hexdigest(),
        "crc32": f"{zlib.crc32(data):08x}",
    }


def _row(vector: Vector, path: str, facts: Row, claims: list[Row]) -> Row:
    source = vector.row.source
    row: Row = {
        "id": vector.id,
        "path": path,
        "shape": vector.shape,
        "op": vector.op,
        "in": vector.src,
        "out": vector.dst,
        "round": vector.round,
        "overflow": vector.overflow,
        "nan": nan_policy(vector),
        "level": vector.level,
        "spec": {"document": source.document, "version": source.version, "section": source.section},
        "coverage": "boundary" if vector.shape == "tv" else "exhaustive",
        "domain": domain(vector, facts["lines"]),
        **facts,
        "notes": notes(vector),
        "source": GENERATOR,
        "witnesses": claims,
    }
    return row | ({"classes": classes(lists()[vector.id])} if vector.shape == "tv" else {})


def classes(cases: Iterable[Any]) -> list[Row]:
    """Which lines of a list belong to which class, and why."""
    found, first = [], 1
    for case in cases:
        last = first + len(case.inputs) - 1
        found.append({"name": case.cls, "first": first, "last": last, "note": case.note})
        first = last + 1
    return found


# --- witnesses --------------------------------------------------------------------------------


def load_witnesses(path: Path = WITNESSES) -> list[Row]:
    """What independent libraries say: rows of {"ids": patterns, "name", "verdict", "where"}.

    Raises ValueError for another form.
    """
    rows = json.loads(path.read_text(encoding="utf-8"))
    for i, row in enumerate(rows):
        if set(row) != {"ids", "name", "verdict", "where"} or not isinstance(row["ids"], list):
            raise ValueError(f"{path.name}: row {i} must have ids, name, verdict and where")
        if row["verdict"] not in ("agrees", "differs") or (row["verdict"] == "differs" and not row["where"]):
            raise ValueError(f"{path.name}: row {i}: verdict is agrees, or differs and says where")
    return rows


def witnesses(vector: Vector, claims: list[Row]) -> list[Row]:
    """Who agrees with a vector, and who differs where."""
    return [
        {key: row[key] for key in ("name", "verdict", "where")}
        for row in claims
        if any(fnmatchcase(vector.id, pattern) for pattern in row["ids"])
    ]


# --- files ------------------------------------------------------------------------------------


def share(vectors: Iterable[AnyVector], made: Mapping[str, bytes]) -> dict[str, str]:
    """id -> path: conversions to one format with equal bits share the file of the first by level and id.

    So do scales, whose rule "floor" is one for elements of one emax, and the draft's formats, of which many
    differ in their names alone under some policies.

    made: contents by `Vector.stored`.
    """
    paths: dict[str, str] = {}
    first: dict[tuple[str, bytes], str] = {}
    for vector in sorted(vectors, key=lambda v: v.order):
        path = vector.own_path.replace(vector.id, vector.stored)
        shared = vector.shape == "run"
        paths[vector.id] = first.setdefault((_family(vector), made[vector.stored]), path) if shared else path
    return paths


def _family(vector: AnyVector) -> str:
    """The vectors that may share files."""
    if isinstance(vector, BlockVector) and vector.op == "scale":
        return "scale"
    return "draft" if vector.level.startswith("draft/") else vector.dst


def manifest_json(rows: Iterable[Row]) -> bytes:
    """One row a line."""
    lines = [json.dumps(row, ensure_ascii=True, separators=(",", ":")) for row in rows]
    text = f'{{"version":"{VERSION}","vectors":[\n' + ",\n".join(lines) + "\n]}\n"
    return text.encode("ascii")


def manifest_tsv(rows: Iterable[Row]) -> bytes:
    """The short columns, for tools without JSON."""
    lines = ["\t".join(TSV)] + ["\t".join(str(row[key]) for key in TSV) for row in rows]
    return ("\n".join(lines) + "\n").encode("ascii")


def sums(files: Mapping[str, bytes]) -> bytes:
    """SHA256SUMS."""
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)).encode("ascii")
