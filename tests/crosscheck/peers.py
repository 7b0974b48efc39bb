"""Our names of the formats that other libraries have, and what those call them."""

from __future__ import annotations

from typing import Any

from gfloat import formats

ML_DTYPES = {
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
"""Float dtypes of ml_dtypes; its integers have our names."""

GFLOAT: dict[str, Any] = {
    "e4m3": formats.format_info_ocp_e4m3,
    "e5m2": formats.format_info_ocp_e5m2,
    "e3m2": formats.format_info_ocp_e3m2,
    "e2m3": formats.format_info_ocp_e2m3,
    "e2m1": formats.format_info_ocp_e2m1,
    "e8m0": formats.format_info_ocp_e8m0,
    "mxint8": formats.format_info_ocp_int8,
    "fp16": formats.format_info_binary16,
    "bf16": formats.format_info_bfloat16,
}
"""Descriptions of gfloat; its P3109 formats come from format_info_p3109."""
