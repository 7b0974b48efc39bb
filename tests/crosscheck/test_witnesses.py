"""What the manifest says about other libraries, held against the libraries.

A claim names a version; it is judged with that version alone.  "every input" was once checked over
all 2**32 float32; here every boundary, the patterns around it, the middles and all 16-bit floats stand
for them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import gfloat
import ml_dtypes  # noqa: F401 - NumPy knows its dtypes by name then
import numpy as np
import pytest
from numpy.typing import NDArray

import feather_ref as fr
from crosscheck.peers import GFLOAT, ML_DTYPES
from feather_ref import golden

Array = NDArray[Any]
VECTORS = golden.manifest()
CLAIMS = [(name, claim) for name, row in VECTORS.items() for claim in row["witnesses"]]


def inputs(runs: golden.Runs) -> NDArray[np.uint32]:
    """float32 patterns: the ends of every run, one outside, the middle, and every bfloat16 and float16."""
    near = np.concatenate([runs.lo, runs.hi, runs.lo - 1, runs.hi + 1, (runs.lo + runs.hi) // 2])
    half = np.arange(1 << 16).astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    all_bf16 = np.arange(1 << 16, dtype=np.uint32) << 16
    return np.unique(np.concatenate([near[near < 1 << 32].astype(np.uint32), half, all_bf16]))


def encoded(library: str, row: golden.Row, x: Array) -> Array:
    """The codes of a library for float32 x, by the row's rounding and overflow."""
    assert row["round"] == "rne"
    with np.errstate(all="ignore"):
        if library == "ml_dtypes":
            return x.astype(ML_DTYPES[row["out"]]).view(np.uint8)
        info = GFLOAT[row["out"]]
        return gfloat.encode_ndarray(
            info, gfloat.round_ndarray(info, x.astype(np.float64), sat=row["overflow"] == "sat")
        )


def decoded(library: str, row: golden.Row) -> Array:
    """The values of a library for every code."""
    codes = np.arange(row["domain"])
    if library == "ml_dtypes":
        return codes.astype(np.uint8).view(ML_DTYPES[row["in"]]).astype(np.float32)
    with np.errstate(all="ignore"):
        return gfloat.decode_ndarray(GFLOAT[row["in"]], codes).astype(np.float32)


def beyond(row: golden.Row, x: Array) -> Array:
    """Where float32 x, rounded, is beyond the greatest value, or is Inf."""
    nonsat = golden.load_runs(str(row["id"]).replace(".sat.", ".nonsat."))
    z = nonsat.z[np.searchsorted(nonsat.hi, x.view(np.uint32))]
    return ~fr.isfinite(z, row["out"]) & ~np.isnan(x)


# what `where` says, as the inputs that differ
WHERE: dict[tuple[str, str], Callable[[golden.Row, Array], Array]] = {
    ("agrees", "every input"): lambda row, x: np.zeros(x.shape, np.bool_),
    ("agrees", "every boundary and one step either side"): lambda row, x: np.zeros(x.shape, np.bool_),
    ("differs", "beyond the greatest value, and Inf: it does not saturate"): beyond,
}


@pytest.mark.parametrize(("name", "claim"), CLAIMS, ids=lambda part: part if isinstance(part, str) else part["name"])
def test_claim_holds(name: str, claim: dict[str, str]) -> None:
    row = VECTORS[name]
    library, named = claim["name"].split(" ")
    if version(library) != named:
        pytest.skip(f"the claim is about {claim['name']}, installed is {version(library)}")
    if row["op"] == "decode":
        assert (claim["verdict"], claim["where"]) == ("agrees", "")
        table, theirs = golden.load_table(name), decoded(library, row)
        nan = np.isnan(table)
        assert (np.isnan(theirs) == nan).all()
        assert (theirs.view(np.uint32) == table.view(np.uint32))[~nan].all()
        return
    runs = golden.load_runs(name)
    x = inputs(runs).view(np.float32)
    line = np.searchsorted(runs.hi, x.view(np.uint32))
    codes = encoded(library, row, x)
    right = (codes == runs.z[line]) | ((runs.j[line] == 2) & fr.isnan(codes, row["out"]))
    differs = WHERE[claim["verdict"], claim["where"]](row, x)
    assert differs.any() == (claim["verdict"] == "differs")
    np.testing.assert_array_equal(~right, differs)


def test_every_library_that_has_the_format_is_asked() -> None:
    """A witness left out would look like one that agrees."""
    known = {"ml_dtypes": ML_DTYPES, "gfloat": GFLOAT}
    witnessed = {name: row for name, row in VECTORS.items() if row["witnesses"]}
    assert len(witnessed) == 12 + 4  # decode tables; e4m3 and e5m2, saturating and not
    for name, row in witnessed.items():
        fmt = row["in"] if row["op"] == "decode" else row["out"]
        asked = {claim["name"].split()[0] for claim in row["witnesses"]}
        has = {library for library, formats in known.items() if fmt in formats}
        assert asked == has, name
