"""What the tests of data/golden share: the rows, and a small tree that can be broken.

Source: data/golden/README.md.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import golden_manifest
from feather_ref import golden

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT = REPOSITORY / "data" / "golden"
MANIFEST = json.loads((ROOT / "manifest.json").read_text(encoding="ascii"))
# test_block_files has the others
ROWS: list[dict[str, Any]] = [row for row in MANIFEST["vectors"] if row["op"] not in golden.BLOCK_OPERATIONS]


def rows_of(shape: str) -> list[dict[str, Any]]:
    """The rows of a shape, one for each file: the one that the file is named after."""
    return [row for row in ROWS if row["shape"] == shape and row["path"].endswith("/" + row["id"])]


def small_tree(folder: Path, ids: list[str]) -> Path:
    """A tree of a few vectors, as the tool would write it."""
    chosen = [row for row in MANIFEST["vectors"] if row["id"] in ids]
    files = {row["path"]: (ROOT / row["path"]).read_bytes() for row in chosen}
    files["manifest.json"] = golden_manifest.manifest_json(chosen)
    files["manifest.tsv"] = golden_manifest.manifest_tsv(chosen)
    files["manifest.schema.json"] = (ROOT / "manifest.schema.json").read_bytes()
    files["SHA256SUMS"] = golden_manifest.sums(files)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    shutil.copy(ROOT / "README.md", folder)
    return folder


def replace_file(folder: Path, vector_id: str, data: bytes) -> None:
    """Other bytes for a file, and a manifest that has their hash."""
    tree = json.loads((folder / "manifest.json").read_text(encoding="ascii"))
    row = next(row for row in tree["vectors"] if row["id"] == vector_id)
    row |= {"sha256": hashlib.sha256(data).hexdigest(), "crc32": f"{zlib.crc32(data):08x}"}
    (folder / row["path"]).write_bytes(data)
    (folder / "manifest.json").write_text(json.dumps(tree), encoding="ascii")
