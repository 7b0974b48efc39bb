"""Judge a codec by data/golden alone, in a process of its own.

    python tools/mutant_vectors.py CASES FOLDER

CASES is what `write` has made of the vectors, with the package as it is; FOLDER holds the package
to judge.  Prints the first difference.  Exit status 0: all equal, 1: a difference or an error,
3: the package of another folder was loaded.

Taken are run files at both ends and the middle of every run, tables and lists whole.  Digests are
left out, for they take too long.

Source: data/golden/README.md for the judge digits.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import feather_ref as fr
from feather_ref import arith, golden

Array = NDArray[Any]
SEED = 1  # of the order, in which every part of the code is soon reached
FP64 = fr.Format("fp64", 64, exponent_bits=11, mantissa_bits=52, bias=1023, inf="ieee", nan="ieee")
VIEWS: dict[str, Any] = {"fp16": np.float16, "fp32": np.float32, "float64": np.float64, "int64": np.int64}


class Case(NamedTuple):
    """One vector file: what to do, and the results with their judge digits."""

    id: str
    op: str
    source: str
    target: str
    policies: dict[str, Any]  # with random_bits and n_bits
    operands: tuple[Array, ...]  # bits
    z: Array
    j: Array


# --- reading the vectors ----------------------------------------------------------------------


def cases(only: str = "") -> Iterator[Case]:
    """Every vector that can be asked and whose id holds `only`, in a fixed, mixed order."""
    rows = [item for item in golden.manifest().items() if only in item[0]]
    random.Random(SEED).shuffle(rows)
    for name, row in rows:
        q = golden.question(name)
        widened = q.shape == "run" and q.source != "fp32"  # the same file again; the musts are enough
        if q.shape in ("run", "tab", "tv") and (row["level"] == "must" or not widened):
            operands, z, j = CONTENTS[q.shape](name, q)
            stochastic = {} if q.random is None else {"random_bits": q.random, "n_bits": q.n_bits}
            yield Case(name, q.op, q.source, q.target, {**q.policies, **stochastic}, operands, z, j)


def _runs(name: str, question: Any) -> tuple[tuple[Array, ...], Array, Array]:
    runs = golden.load_runs(name)
    if question.source == "fp32":
        x = np.concatenate([runs.lo, runs.lo + (runs.hi - runs.lo) // 2, runs.hi])
        return (x.astype(np.uint32),), np.tile(runs.z, 3), np.tile(runs.j, 3)
    codes = np.arange(1 << 16, dtype=np.uint16)
    is_half = question.source == "fp16"  # else bf16
    wide = codes.view(np.float16).astype(np.float32).view(np.uint32) if is_half else codes.astype(np.uint32) << 16
    at = np.searchsorted(runs.hi, wide)
    return (codes,), runs.z[at], runs.j[at]


def _table(name: str, question: Any) -> tuple[tuple[Array, ...], Array, Array]:
    z, mask = golden.load_table(name), golden.load_mask(name)
    z = z.view(f"u{z.itemsize}").ravel()
    if question.op == "decode":
        operands: tuple[Array, ...] = (np.arange(z.size),)
        nan = np.isnan(z.view(np.float32))
    else:
        side = round(z.size**0.5)
        operands = tuple(axis.ravel() for axis in np.indices((side, side)))
        nan = fr.isnan(z, question.target) if question.op != "compare" else np.zeros(z.shape, np.bool_)
    return operands, z, np.where(nan, 2, 1) if mask is None else mask.ravel()


def _list(name: str, question: Any) -> tuple[tuple[Array, ...], Array, Array]:
    vectors = golden.load_vectors(name)
    return tuple(vectors.operands), vectors.z, vectors.j


CONTENTS = {"run": _runs, "tab": _table, "tv": _list}


def write(path: Path, only: str = "") -> int:
    """Put the cases whose ids hold `only` into a file, one after the other; how many there are."""
    count = 0
    with path.open("wb") as file:
        for case in cases(only):
            pickle.dump(tuple(case), file)
            count += 1
    return count


def read(path: Path) -> Iterator[Case]:
    """The cases of a file, each read when it is wanted: most mutants are seen by one of the first."""
    with path.open("rb") as file:
        while file.peek(1):
            yield Case(*pickle.load(file))


# --- judging ----------------------------------------------------------------------------------


def answer(case: Case, operands: tuple[Array, ...]) -> Array:
    """What the package says, as bits."""
    if case.op == "decode" and case.target in VIEWS:
        values = fr.decode(operands[0], case.source, VIEWS[case.target])
        return values.view(f"u{values.itemsize}")
    if case.op == "convert" and case.source in VIEWS:
        dtype = np.dtype(VIEWS[case.source])
        x = operands[0].astype(f"u{dtype.itemsize}").view(dtype)
        codes: Array = fr.encode(x, case.target, **case.policies)
        return codes
    if case.op in ("decode", "convert"):
        return fr.convert(operands[0], case.source, case.target, **case.policies)
    return np.asarray(getattr(arith, case.op)(*operands, case.target, **case.policies))


def difference(case: Case) -> str | None:
    """The first wrong result; j: 0 no verdict, 1 z, 2 any NaN, 3 z or z + 1."""
    asked = case.j != 0
    operands = tuple(operand[asked] for operand in case.operands)
    result, z, j = answer(case, operands), case.z[asked].astype(np.uint64), case.j[asked]
    if result.dtype.itemsize != width(case):
        return f"{case.id}: results of dtype {result.dtype}"
    got = result.astype(np.uint64)
    right = (got == z) | ((j == 3) & (got == z + np.uint64(1)))
    for code in np.unique(got[(j == 2) & ~right]).tolist():
        right |= (j == 2) & (got == code) & row_of(case).is_nan(code)
    if right.all():
        return None
    i = int(np.argmin(right))
    shown = " ".join(f"{int(operand[i]):X}" for operand in operands)
    return f"{case.id}: in={shown} got={int(got[i]):X} want={int(z[i]):X}"


def width(case: Case) -> int:
    """The bytes of a result: one up to 8 bits, two up to 16, four up to 32."""
    bits = 2 if case.op == "compare" else row_of(case).bits
    return next(size for size in (1, 2, 4, 8) if bits <= 8 * size)


def row_of(case: Case) -> fr.Format:
    """The row of the results: `formats` makes it, which no mutant touches."""
    return FP64 if case.target == "float64" else fr.get_format(case.target)


def main(path: str, folder: str) -> int:
    """Judge the package in `folder`."""
    if Path(fr.__file__).resolve().parent.parent != Path(folder).resolve():
        print(f"loaded {fr.__file__}")
        return 3
    first = next(filter(None, map(difference, read(Path(path)))), None)
    print(first or "all equal")
    return int(first is not None)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
