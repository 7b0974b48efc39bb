"""Read and verify data/golden: the vectors that other implementations are judged by.

A `.run` file holds lines `lo hi z j`: every input pattern from lo to hi gives z.  A `.tab` file
holds raw little-endian results, one an input, in order.  The judge digit j::

    0  the standard says nothing     1  these bits     2  any NaN of the format     3  z or z + 1

What a file means is in its name and in manifest.json; data/golden/README.md is the full text.

Source: design of this project; each manifest row names its standard.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feather_ref.policy import SHORT

Row = Mapping[str, Any]

TOKENS: Mapping[str, str] = MappingProxyType(
    {**SHORT, "f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "float64"}
)
"""What the short names in ids mean as arguments."""

SUMMED = ("manifest.json", "manifest.tsv", "manifest.schema.json")  # in SHA256SUMS beside the vectors
_UNLISTED = frozenset({"SHA256SUMS", "README.md", "LICENSE"})
_INSTALLED = Path(__file__).parent / "_golden"
_CHECKOUT = Path(__file__).parent.parent / "data" / "golden"


class Runs(NamedTuple):
    """A run file: inclusive input patterns lo .. hi give z, judged by digit j."""

    lo: NDArray[np.uint64]
    hi: NDArray[np.uint64]
    z: NDArray[np.uint64]
    j: NDArray[np.uint8]


def root() -> Path:
    """The folder of the vectors: in the installed package, or in a checkout."""
    for folder in (_INSTALLED, _CHECKOUT):
        if (folder / "manifest.json").is_file():
            return folder
    raise FileNotFoundError(f"no golden vectors in {_INSTALLED} or {_CHECKOUT}")


@lru_cache(maxsize=4)
def manifest(folder: Path | None = None) -> Mapping[str, Row]:
    """The manifest's rows by id.

    >>> manifest()["convert.f32.e4m3.rne.sat.run"]["lines"]
    256
    """
    text = (folder or root()).joinpath("manifest.json").read_text(encoding="utf-8")
    return MappingProxyType({row["id"]: MappingProxyType(row) for row in json.loads(text)["vectors"]})


def find(vector_id: str, folder: Path | None = None) -> Row:
    """The manifest row of an id; ValueError with the closest ids for an unknown one."""
    rows = manifest(folder)
    if vector_id not in rows:
        close = difflib.get_close_matches(vector_id, rows, n=3, cutoff=0.4)
        raise ValueError(f"vector_id: unknown vector {vector_id!r}" + (f"; close: {', '.join(close)}" if close else ""))
    return rows[vector_id]


def load_runs(vector_id: str, folder: Path | None = None) -> Runs:
    """A `.run` file.

    >>> runs = load_runs("convert.f32.e4m3.rne.nonsat.run")
    >>> [hex(v[i]) for v in runs[:3] for i in (127,)]
    ['0x43e80001', '0x7fffffff', '0x7f']
    """
    row = find(vector_id, folder)
    if row["shape"] != "run":
        raise ValueError(f"vector_id: {vector_id!r} is a .{row['shape']} file, not .run")
    lines = (folder or root()).joinpath(row["path"]).read_text(encoding="ascii").splitlines()
    fields = [line.split() for line in lines]
    bad = next((i for i, line in enumerate(fields) if len(line) != 4), None)
    if bad is not None:
        raise ValueError(f"{row['path']}: line {bad + 1} has {len(fields[bad])} fields, not 4")
    columns = np.array([[int(field, 16) for field in line] for line in fields], np.uint64).T
    return Runs(columns[0], columns[1], columns[2], columns[3].astype(np.uint8))


def load_table(vector_id: str, folder: Path | None = None) -> NDArray[Any]:
    """A `.tab` file as an array: float32 for decode tables.

    >>> load_table("decode.e2m1.f32.exact.none.tab")[:4]
    array([0. , 0.5, 1. , 1.5], dtype=float32)
    """
    row = find(vector_id, folder)
    if row["shape"] != "tab":
        raise ValueError(f"vector_id: {vector_id!r} is a .{row['shape']} file, not .tab")
    dtype = {"f32": "<f4"}[row["out"]]
    return np.fromfile((folder or root()) / row["path"], dtype).astype(dtype[1:])


def verify(folder: Path | None = None) -> list[str]:
    """Check every file against the manifest and SHA256SUMS: what is wrong, nothing if all is well.

    >>> verify()
    []
    """
    base = Path(folder) if folder else root()
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
    wrong = [f"{name}: twice in the manifest" for name in sorted(set(names)) if names.count(name) > 1]
    wrong += [f"{path}: not in SHA256SUMS" for path in sorted({*paths, *SUMMED} - sums.keys())]
    wrong += [f"{path}: not in the manifest" for path in sorted(sums.keys() - {*paths, *SUMMED})]
    wrong += [problem for path, wanted in sorted(sums.items()) for problem in _check_sum(base, path, wanted)]
    wrong += [problem for row in rows for problem in _check_row(base, row)]
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


_FACTS: Mapping[str, Callable[[bytes, Row], Any]] = MappingProxyType(
    {
        "sha256": lambda data, row: hashlib.sha256(data).hexdigest(),
        "crc32": lambda data, row: f"{zlib.crc32(data):08x}",
        "lines": lambda data, row: data.count(b"\n") if row["shape"] == "run" else 0,
    }
)


def _check_row(base: Path, row: Row) -> list[str]:
    """Problems of one manifest row's file."""
    data = _bytes(base, str(row["path"]))
    if data is None:
        return []  # said already
    wrong = [key for key, fact in _FACTS.items() if row[key] != fact(data, row)]
    return [f"{row['id']}: {key} differs from the manifest" for key in wrong]
