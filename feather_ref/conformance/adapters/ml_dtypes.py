"""ml_dtypes: array.astype(dtype), and arithmetic on its arrays.

Source: ml_dtypes 0.6.0 and 0.7.0; tests/crosscheck/test_ml_dtypes.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref.conformance.adapters import Adapter, Expected, Function, decodes, from_profile
from feather_ref.golden import Question

Array = NDArray[Any]

DTYPES = {
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
    "e4m3b11fnuz": "float8_e4m3b11fnuz",
    "e4m3ieee": "float8_e4m3",
    "e3m4": "float8_e3m4",
    "e8m0": "float8_e8m0fnu",
    "e2m3": "float6_e2m3fn",
    "e3m2": "float6_e3m2fn",
    "e2m1": "float4_e2m1fn",
    "bf16": "bfloat16",
}
INTEGERS = ("int4", "uint4", "int2")
ARITHMETIC = ("e4m3", "e5m2")
VALUES = ("fp32", "fp16", "bf16", "float64")
_NAMES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}

MENDED = (0, 7)  # from this version on, everything is rounded once
EXPECTED = (Expected(("convert.*.e8m0.*.run",), "E8M0: zero becomes NaN", ("signed zero",)),)
EXPECTED_BEFORE = (
    Expected(
        ("convert.*.e8m0.*.run",),
        "E8M0: zero becomes NaN; above 2^-127 and below 1.5 x 2^-127 becomes 01; float64 goes through float32",
        ("signed zero", "inexact", "exact", "tie", "double rounding", "subnormal", "binade carry"),
    ),
    Expected(("convert.f64.*",), "float64 goes through float32 and is rounded twice", ("double rounding",)),
    Expected(("convert.i64.bf16.*",), "int64 goes through float32 and is rounded twice", ("inexact", "tie")),
)


def adapter() -> Adapter:
    """The adapter; ImportError without the library."""
    import ml_dtypes  # noqa: PLC0415 - only where it is asked about

    policies = from_profile("ml_dtypes", DTYPES) | decodes((*DTYPES, *INTEGERS))
    for op in ("add", "subtract", "multiply", "divide"):
        policies |= {(op, name): frozenset({"rne.nonsat"}) for name in ARITHMETIC}
    policies |= {("compare", name): frozenset({"exact.none"}) for name in (*ARITHMETIC, "e4m3fnuz", "e5m2fnuz")}
    versions = {"ml_dtypes": ml_dtypes.__version__, "numpy": np.__version__}
    sources = ("fp32", "fp16", "bf16", "float64", "int64")
    mended = tuple(int(part) for part in ml_dtypes.__version__.split(".")[:2]) >= MENDED
    expected = EXPECTED if mended else EXPECTED_BEFORE
    return Adapter("ml_dtypes", versions, sources, policies, _make, expected, VALUES)


def _make(question: Question) -> Function:
    name = question.source if question.op == "decode" else question.target
    dtype = np.dtype(DTYPES.get(name, name))
    storage = f"u{dtype.itemsize}"

    def convert(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return (x.view("bfloat16") if question.source == "bf16" else x).astype(dtype).view(storage)

    def decode(codes: Array) -> Array:
        with np.errstate(all="ignore"):
            values = codes.view(dtype).astype(_NAMES.get(question.target, question.target))
        return values.view(np.uint16) if question.target == "bf16" else values

    def operate(a: Array, b: Array) -> Array:
        with np.errstate(all="ignore"):
            return _OPERATORS[question.op](a.view(dtype), b.view(dtype))

    return {"convert": convert, "decode": decode}.get(question.op, operate)


def _compare(a: Array, b: Array) -> Array:
    return np.select([a < b, a == b, a > b], [0, 1, 2], 3).astype(np.uint8)


_OPERATORS: dict[str, Function] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "compare": _compare,
}
