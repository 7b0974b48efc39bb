"""The release archive of the vectors: the same bytes whoever packs it, and no Python needed to use it.

Source: tar as of POSIX.1-2001 (pax), gzip as of RFC 1952 without a time.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

from feather_ref import golden
from golden_manifest import VERSION

MTIME = 1767225600  # 2026-01-01


def pack(folder: Path, out: Path) -> int:
    """Write every file of `folder` into a `.tar.gz`; how many there are.

    Raises ValueError where the folder is not what its sums say.
    """
    if wrong := golden.verify(folder):
        raise ValueError(f"{folder}: {wrong[0]}")
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    plain, packed = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in names:
            data = (folder / name).read_bytes()
            entry = tarfile.TarInfo(f"feather-golden-{VERSION}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), MTIME, 0o644
            tar.addfile(entry, io.BytesIO(data))
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0, compresslevel=9) as stream:
        stream.write(plain.getvalue())
    beside = out.with_name(out.name + ".part")
    beside.write_bytes(packed.getvalue())
    beside.replace(out)
    return len(names)
