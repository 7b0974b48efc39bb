"""gfloat: round_ndarray and encode_ndarray, five IEEE roundings and three stochastic ones.

It fails for NaN where a format has none; those inputs, about which no standard says anything, are
given to it as zero.

Source: gfloat 0.5.2 documentation; tests/crosscheck/test_gfloat.py.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feather_ref.codec import decode
from feather_ref.conformance.adapters import SHORT, Adapter, Expected, Function, decodes
from feather_ref.formats import get_format, p3109_formats
from feather_ref.golden import Question

Array = NDArray[Any]

INFOS = {
    "e4m3": "format_info_ocp_e4m3",
    "e5m2": "format_info_ocp_e5m2",
    "e3m2": "format_info_ocp_e3m2",
    "e2m3": "format_info_ocp_e2m3",
    "e2m1": "format_info_ocp_e2m1",
    "e8m0": "format_info_ocp_e8m0",
    "mxint8": "format_info_ocp_int8",
    "fp16": "format_info_binary16",
    "bf16": "format_info_bfloat16",
}
MODES = {
    "nearest_even": "TiesToEven",
    "nearest_away": "TiesToAway",
    "toward_zero": "TowardZero",
    "toward_positive": "TowardPositive",
    "toward_negative": "TowardNegative",
    "stochastic_a": "StochasticFastest",
    "stochastic_b": "StochasticFast",
    "stochastic_c": "Stochastic",
}

_CLASSES = ("signed zero", "inexact", "exact", "tie", "subnormal", "negative", "overflow", "binade carry", "NaN")
_TINY = ("f64.e8m0.*", "bf16.e8m0.*", "f32.e8m0.r[dn][ne].*.tv", "f32.e8m0.rna.*.run", "f32.e8m0.r[dtu]*.run")
_UPPER_HALF = ("n=1.r=1", "n=2.r=[23]", "n=3.r=[4-7]", "n=4.r=[89]", "n=4.r=1?")
EXPECTED = (
    Expected(
        tuple(f"convert.{ids}" for ids in _TINY),
        "E8M0: below 2^-127 the value leaves the format, and the code wraps to 64 bits",
        _CLASSES,
    ),
    Expected(
        tuple(f"convert.f64.*.sr[ab].sat.{operand}.run" for operand in _UPPER_HALF),
        "stochastic rounding adds the fraction and the operand in float64, which rounds the sum",
        ("subnormal", "tie", "inexact"),
    ),
)


def adapter() -> Adapter:
    """The adapter; ImportError without the library."""
    import gfloat.formats  # noqa: F401, PLC0415 - only where it is asked about

    draft = [row.name for row in p3109_formats()]
    usual = [SHORT[name] for name in MODES if not name.startswith("stochastic")]
    policies = decodes([*INFOS, *draft])
    for name in INFOS:
        row = get_format(name)
        overflows = ("sat", "nonsat") if row.has_inf or row.has_nan else ("sat",)
        policies["convert", name] = frozenset(f"{mode}.{overflow}" for mode in usual for overflow in overflows)
    for name in draft:
        policies["convert", name] = frozenset(f"{mode}.sat" for mode in usual)
    for name in ("e4m3", "e5m2"):
        operands = [f"n={n}.r={r}" for n in (1, 2, 3, 4) for r in range(1 << n)] + ["n=8"]
        middles = {f"{mode}.sat.{operand}" for mode in ("sra", "srb", "src") for operand in operands}
        policies["convert", name] |= middles
    versions = {"gfloat": version("gfloat"), "numpy": np.__version__}
    return Adapter("gfloat", versions, ("fp32", "fp16", "bf16", "float64"), policies, _make, EXPECTED)


def _info(name: str) -> Any:
    """gfloat's description of a format."""
    from gfloat import formats  # noqa: PLC0415
    from gfloat.types import Domain, Signedness  # noqa: PLC0415

    if name in INFOS:
        return getattr(formats, INFOS[name])
    row = get_format(name)
    signedness = Signedness.Signed if row.signed else Signedness.Unsigned
    domain = Domain.Extended if row.has_inf else Domain.Finite
    return formats.format_info_p3109(row.bits, row.mantissa_bits + 1, signedness, domain)


def _make(question: Question) -> Function:
    import gfloat  # noqa: PLC0415
    from gfloat.types import RoundMode  # noqa: PLC0415

    info = _info(question.source if question.op == "decode" else question.target)

    def codes_of(codes: Array) -> Array:
        with np.errstate(all="ignore"):
            return gfloat.decode_ndarray(info, codes.astype(np.int64)).astype(np.float32)

    if question.op == "decode":
        return codes_of
    mode = getattr(RoundMode, MODES[question.policies["rounding"]])
    saturate = question.policies["overflow"] == "saturate"
    has_nan = get_format(question.target).has_nan

    def convert(x: Array, *operand: Array) -> Array:
        wide = (decode(x, "bf16") if question.source == "bf16" else x).astype(np.float64)
        wide = wide if has_nan else np.where(np.isnan(wide), 0.0, wide)
        random: tuple[Any, ...] = ()
        if question.n_bits is not None:
            given = operand[0].astype(np.int64) if operand else np.full(wide.shape, question.random)
            random = given, question.n_bits
        with np.errstate(all="ignore"):
            found: Array = gfloat.encode_ndarray(info, gfloat.round_ndarray(info, wide, mode, saturate, *random))
        return found

    return convert
