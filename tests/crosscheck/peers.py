"""Our names of the formats that other libraries have, and what those call them."""

from __future__ import annotations

from typing import Any

from gfloat import formats

from feather_ref.conformance.adapters.ml_dtypes import DTYPES as ML_DTYPES  # its integers have our names

__all__ = ["GFLOAT", "ML_DTYPES"]

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
