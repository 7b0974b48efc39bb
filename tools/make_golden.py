"""Write data/golden from the exact oracle, or check that it is what this tool writes.

    python tools/make_golden.py            write
    python tools/make_golden.py --check    compare, change nothing
    python tools/make_golden.py --prove    send all 2**32 float32 through the codec as well

Expected bits come from feather_ref.oracle alone; --prove compares the codec's integer algorithm
with the run files over the whole domain.

Source: the layout is described in data/golden/README.md.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import click
import numpy as np
from rich.progress import track

from feather_ref import codec, golden, oracle
from feather_ref.formats import FORMATS, Format, Overflow, get_format

ROOT = Path(__file__).parent.parent / "data" / "golden"
VERSION = "0.1.0"
GENERATOR = {"name": "tools/make_golden.py", "version": VERSION}
SCHEMA = "manifest.schema.json"
WRITTEN = ("manifest.json", "manifest.tsv", "SHA256SUMS")
NAN_F32 = 0x7FC00000


@dataclass(frozen=True)
class Vector:
    """One id: what is asked of whom, and why."""

    level: str
    family: str
    op: str
    src: str
    dst: str
    round: str
    overflow: str
    shape: str
    row: Format
    notes: str

    @property
    def id(self) -> str:
        """The name that says what the file means."""
        return f"{self.op}.{self.src}.{self.dst}.{self.round}.{self.overflow}.{self.shape}"

    @property
    def path(self) -> str:
        """Where the file lies."""
        return f"{self.level}/{self.family}/{self.id}"


# format: (level, family); a row that is not here is "derived", in the family of its kind
LEVELS = {
    "e4m3": ("must", "ofp8"), "e5m2": ("must", "ofp8"),
    "e3m2": ("must", "mx"), "e2m3": ("must", "mx"), "e2m1": ("must", "mx"),
    "e8m0": ("must", "mx"), "mxint8": ("must", "mx"),
    "e4m3fnuz": ("vendor/fnuz", "float8"), "e5m2fnuz": ("vendor/fnuz", "float8"),
    "e4m3b11fnuz": ("vendor/ml_dtypes", "float8"), "e4m3ieee": ("vendor/ml_dtypes", "float8"),
    "e3m4": ("vendor/ml_dtypes", "float8"),
    "ue4m3": ("vendor/nvidia", "scale"), "ue5m3": ("vendor/nvidia", "scale"),
    "nf4": ("vendor/qlora", "table"), "fp4_bnb": ("vendor/bitsandbytes", "table"),
}  # fmt: skip
RUNS = [(name, overflow) for name in ("e4m3", "e5m2") for overflow in ("sat", "nonsat")]
DECODE_NOTES = "The value of every code. Failing means that the decoder is wrong: no choice is left open."
RUN_NOTES = (
    "Every float32, rounded to nearest, ties to even, once. Rounding comes before the comparison with the greatest "
    "value. NaN may have any NaN code. Failing at a line's first or last input means a wrong boundary."
)


def level(row: Format) -> tuple[str, str]:
    """Level and family of a row's decode table."""
    return LEVELS.get(row.name, ("derived", row.kind))


def vectors() -> Iterator[Vector]:
    """Every id, sorted."""
    found = [
        Vector(*level(row), "decode", name, "f32", "exact", "none", "tab", row, DECODE_NOTES)
        for name, row in FORMATS.items()
        if row.bits <= 8
    ]
    found += [
        Vector("must", "ofp8", "convert", "f32", name, "rne", overflow, "run", get_format(name), RUN_NOTES)
        for name, overflow in RUNS
    ]
    yield from sorted(found, key=lambda vector: vector.id)


# --- contents ---------------------------------------------------------------------------------


def content(vector: Vector) -> bytes:
    """The bytes of one file."""
    return decode_table(vector.row) if vector.op == "decode" else run_lines(vector)


def decode_table(row: Format) -> bytes:
    """float32 of every code, little-endian; NaN is canonical."""
    return b"".join(struct.pack("<I", float32_bits(oracle.decode(code, row))) for code in range(1 << row.bits))


def float32_bits(value: oracle.Exact) -> int:
    """The float32 pattern of an exact value, by Fractions; an inexact one is an error."""
    if value.kind == "nan":
        return NAN_F32
    sign = 0x80000000 if value.negative else 0
    if value.kind == "inf":
        return sign | 0x7F800000
    code = oracle.encode(value, "fp32")
    if oracle.decode(code, "fp32").magnitude != Fraction(value.magnitude):
        raise click.ClickException(f"{value} is not a float32")
    return code


def run_lines(vector: Vector) -> bytes:
    """`lo hi z j` over all float32 patterns."""
    runs = oracle.runs(
        vector.row, "fp32", rounding=golden.TOKENS[vector.round], overflow=golden.TOKENS[vector.overflow]
    )
    digits = (vector.row.bits + 3) // 4
    lines = [f"{lo:08X} {hi:08X} {z:0{digits}X} {2 if vector.row.is_nan(z) else 1}\n" for lo, hi, z in runs]
    return "".join(lines).encode("ascii")


# --- manifest ---------------------------------------------------------------------------------


def manifest_row(vector: Vector, data: bytes) -> dict[str, Any]:
    """One row of manifest.json."""
    row = vector.row
    is_run = vector.shape == "run"
    return {
        "id": vector.id,
        "path": vector.path,
        "shape": vector.shape,
        "op": vector.op,
        "in": vector.src,
        "out": vector.dst,
        "round": vector.round,
        "overflow": vector.overflow,
        "nan": "canonical",
        "level": vector.level,
        "spec": {"document": row.source.document, "version": row.source.version, "section": row.source.section},
        "coverage": "exhaustive",
        "domain": 1 << (32 if is_run else row.bits),
        "lines": data.count(b"\n") if is_run else 0,
        "sha256": hashlib.sha256(data).hexdigest(),
        "crc32": f"{zlib.crc32(data):08x}",
        "notes": vector.notes,
        "source": GENERATOR,
        "witnesses": witnesses(vector),
    }


# What independent libraries say; tests/crosscheck holds each line against the installed library.
ML_DTYPES = {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "e8m0", "e4m3fnuz", "e5m2fnuz", "e4m3b11fnuz", "e4m3ieee", "e3m4"}
GFLOAT = {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "e8m0", "mxint8"}


def witnesses(vector: Vector) -> list[dict[str, str]]:
    """Who agrees with this file, and who differs where."""
    if vector.op == "decode":
        libraries = (("ml_dtypes 0.6.0", ML_DTYPES), ("gfloat 0.5.2", GFLOAT))
        return [{"name": name, "verdict": "agrees", "where": ""} for name, known in libraries if vector.src in known]
    gfloat = {"name": "gfloat 0.5.2", "verdict": "agrees", "where": "every boundary and one step either side"}
    if vector.overflow == "nonsat":
        return [{"name": "ml_dtypes 0.6.0", "verdict": "agrees", "where": "every input"}, gfloat]
    beyond = "beyond the greatest value, and Inf: it does not saturate"
    return [{"name": "ml_dtypes 0.6.0", "verdict": "differs", "where": beyond}, gfloat]


def build(folder: Path) -> None:
    """Write the vectors, the manifest in two forms, and the sums."""
    rows = []
    for vector in track(list(vectors()), description="oracle", transient=True):
        data = content(vector)
        path = folder / vector.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        rows.append(manifest_row(vector, data))
    text = json.dumps({"version": VERSION, "vectors": rows}, indent=1, ensure_ascii=True) + "\n"
    (folder / "manifest.json").write_bytes(text.encode("ascii"))
    (folder / "manifest.tsv").write_bytes(tsv(rows).encode("ascii"))
    if folder != ROOT:
        (folder / SCHEMA).write_bytes((ROOT / SCHEMA).read_bytes())
    summed = sorted([*(str(row["path"]) for row in rows), *golden.SUMMED])
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in summed}
    (folder / "SHA256SUMS").write_bytes("".join(f"{digests[n]}  {n}\n" for n in summed).encode("ascii"))


def tsv(rows: list[dict[str, Any]]) -> str:
    """The flat columns, for tools without JSON."""
    columns = [key for key, value in rows[0].items() if isinstance(value, (str, int))]
    lines = ["\t".join(columns)] + ["\t".join(str(row[key]) for key in columns) for row in rows]
    return "\n".join(lines) + "\n"


def differences(folder: Path) -> list[str]:
    """Files of the tree that differ from what `folder` holds."""
    names = [vector.path for vector in vectors()] + list(WRITTEN)
    return [name for name in names if not same(folder / name, ROOT / name)]


def same(a: Path, b: Path) -> bool:
    """Whether both files are there with equal bytes."""
    return a.is_file() and b.is_file() and a.read_bytes() == b.read_bytes()


def prove(vector: Vector) -> int:
    """How many of all 2**32 float32 the codec sends elsewhere."""
    runs = golden.load_runs(vector.id, ROOT)
    any_nan = np.zeros(1 << vector.row.bits, np.bool_)
    any_nan[[code for code in range(1 << vector.row.bits) if vector.row.is_nan(code)]] = True
    wrong, step = 0, 1 << 24
    for start in track(range(0, 1 << 32, step), description=vector.id, transient=True):
        x = np.arange(start, start + step, dtype=np.uint64)
        line = np.searchsorted(runs.hi, x)
        overflow = cast(Overflow, golden.TOKENS[vector.overflow])
        got = codec.encode(x.astype(np.uint32).view(np.float32), vector.row, overflow=overflow)
        good = (got == runs.z[line]) | ((runs.j[line] == 2) & any_nan[got])
        wrong += int(np.count_nonzero(~good))
    return wrong


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--check", "mode", flag_value="check", help="Compare with the tree; change nothing.")
@click.option("--prove", "mode", flag_value="prove", help="Sweep all 2**32 float32 through the codec (minutes).")
def main(mode: str | None) -> None:
    """Write, check or prove."""
    if mode is None:
        build(ROOT)
        click.echo(f"wrote {len(list(vectors()))} vectors")
    elif mode == "check":
        with tempfile.TemporaryDirectory() as folder:
            build(Path(folder))
            wrong = differences(Path(folder)) + golden.verify(ROOT)
        click.echo("\n".join(wrong) or "data/golden is what the oracle says")
        sys.exit(bool(wrong))
    else:
        counts = {vector.id: prove(vector) for vector in vectors() if vector.shape == "run"}
        for name, count in counts.items():
            click.echo(f"{name}: {count} of {1 << 32} differ")
        sys.exit(any(counts.values()))


if __name__ == "__main__":
    main()
