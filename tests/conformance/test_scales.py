"""Which scale rule a function has: our own by name, and those of libraries."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import gfloat.block
import numpy as np
import pytest

from feather_ref.blocks import quantize_blocks
from feather_ref.conformance.scales import fingerprint_scales

MX_RULES = ("floor", "ceil", "even", "rceil", "nearest")
NVFP4_RULES = ("nvfp4_exact", "nvfp4_te2026", "nvfp4_te2025", "nvfp4_torchao")
CASES = [
    *((name, rule) for name in ("mxfp4", "mxfp8_e4m3", "mxint8") for rule in MX_RULES),
    *(("nvfp4", rule) for rule in NVFP4_RULES),
]


@pytest.mark.parametrize(("bfmt", "rule"), CASES)
def test_a_rule_is_known_by_its_scales(bfmt: str, rule: str) -> None:
    best, second, *_ = fingerprint_scales(lambda x: quantize_blocks(x, bfmt, scale_rule=rule).scales, bfmt)
    assert (best.rule, best.wrong, best.first) == (rule, 0, None)
    assert second.wrong > 0


def test_a_fault_has_its_first_input() -> None:
    """floor(log2(x)) in float32 is one too high just below a power of two."""

    def faulty(x: Any) -> Any:
        exponent = np.floor(np.log2(np.abs(x).max(axis=1)))
        return np.maximum(exponent - 2 + 127, 0).astype(np.uint8)

    best, *_ = fingerprint_scales(faulty, "mxfp4")
    assert best.rule == "floor"
    assert best.first is not None
    assert best.first[0] & 0x7FFFFF == 0x7FFFFF  # the greatest below a power
    assert best.first[2] == best.first[3] + 1
    assert str(best) == (
        f"floor: {best.wrong} of 759 inputs differ, first amax={best.first[0]:08X} "
        f"({np.uint32(best.first[0]).view(np.float32):.9g}) got={best.first[2]:02X} want={best.first[3]:02X}"
    )


def test_a_pair_names_both() -> None:
    best, *_ = fingerprint_scales(lambda x: np.full(len(x), 0x38, np.uint8), "nvfp4")
    assert " of " in str(best).partition("amax=")[2]


# --- libraries --------------------------------------------------------------------------------


def test_gfloat_has_floor() -> None:
    def scales(x: Any) -> Any:
        found = [gfloat.block.compute_scale_amax(2, row.astype(np.float64)) for row in x]
        return np.array([int(np.log2(scale)) + 127 for scale in found])

    best, *_ = fingerprint_scales(scales, "mxfp4")
    assert (best.rule, best.wrong) == ("floor", 0)


def test_gguf_has_floor_with_the_fault_of_log2() -> None:
    gguf = pytest.importorskip("gguf")

    def scales(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return gguf.quants.quantize(x, gguf.GGMLQuantizationType.MXFP4)[:, 0]

    best, *_ = fingerprint_scales(scales, "mxfp4")
    assert best.rule == "floor"
    assert best.first is not None
    assert best.first[0] & 0x7FFFFF == 0x7FFFFF
    assert best.first[2] == best.first[3] + 1


@pytest.mark.parametrize("mode", ["FLOOR", "CEIL", "EVEN", "RCEIL"])
def test_torchao(mode: str) -> None:
    torch = pytest.importorskip("torch")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it warns of while it loads is its own
            mx = importlib.import_module("torchao.prototype.mx_formats.mx_tensor")
    except ImportError:
        pytest.skip("torchao is not here")

    def scales(x: Any) -> Any:
        found, _ = mx.to_mx(torch.from_numpy(x), torch.float8_e4m3fn, 32, mx.ScaleCalculationMode[mode])
        return found.view(torch.uint8).numpy()

    best, *_ = fingerprint_scales(scales, "mxfp8_e4m3")
    assert best.rule == mode.lower()


# --- refusals ---------------------------------------------------------------------------------


def test_refusals() -> None:
    with pytest.raises(ValueError, match="'q8_0' has no golden files of scale rules"):
        fingerprint_scales(lambda x: x, "q8_0")
    with pytest.raises(ValueError, match=r"function: 76. blocks gave uint8 of shape \(3,\)"):
        fingerprint_scales(lambda x: np.zeros(3, np.uint8), "mxfp4")
    with pytest.raises(ValueError, match="gave float32"):
        fingerprint_scales(lambda x: x[:, 0], "mxfp4")
