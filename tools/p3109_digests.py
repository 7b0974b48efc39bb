"""Print one SHA-256 for each published P3109 value table of a folder.

    python tools/p3109_digests.py FOLDER

A table is `Binary<K>p<P><s|u><e|f>.csv`: a heading, then a line `codepoint,value,subnormal` for each
code.  Hashed are the values in code order as little-endian float64, NaN as 7FF8000000000000.  The
output is the table of digests in tests/crosscheck/test_p3109.py; nothing of feather_ref is asked.

Source: IEEE P3109 working group, repository P3109/Public, report 4.0.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
import sys
from pathlib import Path

_NAME = re.compile(r"Binary(\d+)p(\d+)([su][ef])\.csv")
NAN = 0x7FF8000000000000


def read_values(path: Path) -> list[float]:
    """The values of one table, in code order; ValueError if a code is missing or out of place."""
    values: list[float] = []
    for line in path.read_text(encoding="ascii").splitlines()[1:]:
        code, text, _ = line.split(",")
        if int(code, 16) != len(values):
            raise ValueError(f"{path.name}: code {code} in place {len(values):#x}")
        values.append(float.fromhex(text))
    return values


def digest(values: list[float]) -> str:
    """SHA-256 of values as little-endian float64, every NaN with the same bits."""
    packed = (struct.pack("<Q", NAN) if math.isnan(x) else struct.pack("<d", x) for x in values)
    return hashlib.sha256(b"".join(packed)).hexdigest()


def tables(folder: Path) -> list[tuple[str, Path]]:
    """(our name, path) of every table, by K, P and the rest."""
    found = [(match, path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
    found.sort(key=lambda item: (int(item[0][1]), int(item[0][2]), item[0][3]))
    return [(path.stem.lower(), path) for _, path in found]


if __name__ == "__main__":
    for name, path in tables(Path(sys.argv[1])):
        print(f'    "{name}": "{digest(read_values(path))}",')
