"""PyTorch on the CPU: tensor.to(dtype).

Source: PyTorch reference, torch.Tensor.to; tests/crosscheck/test_profiles_libraries.py.
"""

from __future__ import annotations

import warnings
from typing import Any

from numpy.typing import NDArray

from feather_ref.conformance.adapters import Adapter, Expected, Function, decodes, from_profile
from feather_ref.golden import Question

Array = NDArray[Any]

DTYPES = {
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
    "e8m0": "float8_e8m0fnu",
    "bf16": "bfloat16",
    "fp16": "float16",
}
NEW_SATURATION = (2, 12)  # from this version on, e4m3 saturates

EXPECTED = (
    Expected(
        ("convert.f[36][24].e8m0.*.run", "convert.bf16.e8m0.*.run"),
        "E8M0: above 2^-127 and below 1.5 x 2^-127 becomes 01; float64 goes through float32",
        ("inexact", "negative", "double rounding"),
    ),
    Expected(("convert.f64.*",), "float64 goes through float32 and is rounded twice", ("double rounding",)),
    Expected(("convert.i64.bf16.*",), "int64 goes through float32 and is rounded twice", ("inexact", "tie")),
)


def adapter() -> Adapter:
    """The adapter; ImportError without the library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it says about itself is not ours
        import torch  # noqa: PLC0415 - only where it is asked about

    number = tuple(int(part) for part in torch.__version__.split(".")[:2])
    profile = "torch>=2.12" if number >= NEW_SATURATION else "torch<=2.11"
    known = {name: dtype for name, dtype in DTYPES.items() if hasattr(torch, dtype)}
    policies = from_profile(profile, known) | decodes(known)
    versions = {"torch": torch.__version__, "cpu": torch.backends.cpu.get_cpu_capability()}
    return Adapter("torch", versions, ("fp32", "fp16", "bf16", "float64", "int64"), policies, _make, EXPECTED)


def _make(question: Question) -> Function:
    import torch  # noqa: PLC0415

    name = question.source if question.op == "decode" else question.target
    dtype = getattr(torch, DTYPES[name])
    unsigned = torch.uint8 if dtype.itemsize == 1 else torch.uint16

    def convert(x: Array) -> Array:
        given = torch.from_numpy(x)
        codes = (given.view(torch.bfloat16) if question.source == "bf16" else given).to(dtype)
        found: Array = codes.view(unsigned).numpy()
        return found

    def decode(codes: Array) -> Array:
        values: Array = torch.from_numpy(codes).view(dtype).to(torch.float32).numpy()
        return values

    return convert if question.op == "convert" else decode


