"""What every exported form has: a name, a head, digits of hex, templates.

A template has @NAMES@ that are replaced.

Source: design of this project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from feather_ref import golden
from feather_ref._steps import asked_of
from feather_ref.golden import Folder

DENSE = 1 << 16  # inputs: up to here a table has a cell for each
PER_LINE = 8  # numbers on a line


def name_of(vector_id: str) -> str:
    """The id as a name in C and Verilog, without its shape.

    >>> name_of("decode.e2m1.f32.exact.none.tab")
    'decode_e2m1_f32_exact_none'
    """
    return re.sub(r"\W+", "_", vector_id.rpartition(".")[0])


def head(vector_id: str, mark: str, folder: Folder) -> Iterator[str]:
    """The comment that every file begins with."""
    row = golden.find(vector_id, folder)
    asked = asked_of(vector_id)
    yield f"{mark} {vector_id}, golden vectors of feather-ref, version {row['source']['version']}"
    yield f"{mark} SHA-256 of the vector: {row['sha256']}"
    yield f"{mark} Licence: CC0-1.0, no rights reserved."
    operands = "abc"[: asked.operands]
    layout = f"{', '.join(operands)}, the first in the high bits" if len(operands) > 1 else "one pattern"
    result = str(asked.target)
    if row["shape"] == "blk":
        bfmt = golden.block_question(vector_id).bfmt
        layout = f"{bfmt.size} numbers" + (", after the amax of their tensor" if bfmt.tensor_scale != "none" else "")
        result = f"a scale, {bfmt.scale}, and {bfmt.size} elements, {bfmt.element}"
    yield f"{mark} Input: {asked.source}, {layout}. Result: {result}."
    if asked.op in golden.BLOCK_OPERATIONS:
        yield f"{mark} Blocks of {golden.block_question(vector_id).bfmt}: {row['notes']}"
    yield f"{mark} Judge digit: 0 anything passes, 1 these bits, 2 any NaN, 3 z or z + 1."


def digits(bits: int) -> int:
    """Digits of hex for so many bits."""
    return (bits + 3) // 4


def fill(template: str, **values: object) -> list[str]:
    """The lines of a template, its @NAMES@ replaced; a value may hold names too."""
    text = template
    while (filled := re.sub(r"@([A-Z]+)@", lambda found: str(values[found[1]]), text)) != text:
        text = filled
    return text.splitlines()
