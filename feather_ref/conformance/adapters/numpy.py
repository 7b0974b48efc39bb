"""NumPy: float16 by astype.

Source: NumPy reference, numpy.half.
"""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref.conformance.adapters import Adapter, Function, decodes
from feather_ref.golden import Question

Array = NDArray[Any]

POLICIES = {("convert", "fp16"): frozenset({"rne.nonsat"})} | decodes(["fp16"])


def adapter() -> Adapter:
    """The adapter."""
    versions = {"numpy": np.__version__, "machine": platform.machine()}
    return Adapter("numpy", versions, ("fp32", "float64", "int64"), POLICIES, _make)


def _make(question: Question) -> Function:
    def convert(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return x.astype(np.float16).view(np.uint16)

    def decode(codes: Array) -> Array:
        with np.errstate(all="ignore"):
            return codes.view(np.float16).astype(np.float32)

    return convert if question.op == "convert" else decode
