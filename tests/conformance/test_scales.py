"""Which scale rule a function has: our own by name, and those of libraries."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import ok, refused, run
from feather_ref.blocks import BLOCK_FORMATS, quantize_blocks
from feather_ref.conformance import fingerprint_scales
from feather_ref.conformance.scale_libraries import scale_functions

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
    for each in scale_functions("gfloat", ("mxfp4", "mxfp8")):
        best, *_ = fingerprint_scales(each.function, each.bfmt)
        assert (best.rule, best.wrong) == ("floor", 0)


def test_gguf_has_floor_with_the_fault_of_log2() -> None:
    pytest.importorskip("gguf")
    best, *_ = fingerprint_scales(scale_functions("gguf")[0].function, "mxfp4")
    assert best.rule == "floor"
    assert best.first is not None
    assert best.first[0] & 0x7FFFFF == 0x7FFFFF
    assert best.first[2] == best.first[3] + 1


# torchao 0.18, to_mx, mode RCEIL: ceil(log2(fl(amax / max))), the logarithm in float32.
#
# The float32 after max * 2**k has the quotient q = 2**k * (1 + 2**-23), rounded; its scale is 2**(k + 1).  But
# log2(q) = k + 1.72e-7, and float32 has a spacing of 2.4e-7 from 2 to 4 and of 4.8e-7 from 4 to 8: beyond k = 3, and
# below k = -4 (whose side toward zero is the finer one), k + 1.72e-7 rounds to k, and the scale is one too low.  So
# all k are wrong but the eight from -4 to 3.  max * 2**k is an amax for k = -127 .. 119 in e4m3 (448 * 2**119 is
# 1.75 * 2**127), .. 112 in e5m2, .. 125 in e2m1: 247, 240 and 253 inputs.
RCEIL_WRONG = {"mxfp8_e4m3": 247 - 8, "mxfp8_e5m2": 240 - 8, "mxfp4": 253 - 8}
# amax -> scale code by torchao, by the rule
RCEIL_FROZEN = {
    0x04600001: (0x00, 0x01),  # k = -127: the quotient is subnormal, and fl(amax / 448) is 2**-127 already
    0x04E00001: (0x01, 0x02),  # k = -126
    0x41600001: (0x7A, 0x7B),  # k = -5
    0x41E00001: (0x7C, 0x7C),  # k = -4
    0x43E00001: (0x80, 0x80),  # k = 0: 448 and a step
    0x45600001: (0x83, 0x83),  # k = 3
    0x45E00001: (0x83, 0x84),  # k = 4
    0x7F600001: (0xF6, 0xF7),  # k = 119
}


def rceil_of_torchao(amax: Any, greatest: float) -> Any:
    """Its scales: each float32 operation is one in float64, rounded; the logarithm's error there is far below."""
    with np.errstate(divide="ignore", under="ignore"):  # amax 0 has the least scale
        quotient = amax / np.float32(greatest)
        logarithm = np.log2(quotient.astype(np.float64)).astype(np.float32)
    return (np.clip(np.ceil(logarithm), -127, 127) + 127).astype(np.uint8)


@pytest.mark.parametrize("name", RCEIL_WRONG)
def test_why_rceil_of_torchao_is_one_too_low(name: str) -> None:
    greatest = BLOCK_FORMATS[name].element.max
    best, *_ = fingerprint_scales(lambda x: rceil_of_torchao(np.abs(x).max(axis=1), greatest), name)
    assert (best.rule, best.wrong) == ("rceil", RCEIL_WRONG[name])


def test_inputs_of_rceil_by_hand() -> None:
    patterns = np.array(list(RCEIL_FROZEN), np.uint32)
    theirs = rceil_of_torchao(patterns.view(np.float32), 448.0)
    ours = quantize_blocks(patterns.view(np.float32)[:, None], "mxfp8", scale_rule="rceil").scales[:, 0]
    assert list(zip(theirs.tolist(), ours.tolist(), strict=True)) == list(RCEIL_FROZEN.values())


TORCHAO = {
    **{(name, mode): (mode.lower(), 0) for name in RCEIL_WRONG for mode in ("FLOOR", "CEIL", "EVEN")},
    **{(name, "RCEIL"): ("rceil", wrong) for name, wrong in RCEIL_WRONG.items()},
    ("nvfp4", ""): ("nvfp4_torchao", 2),  # a tensor of zeros: 0 / 0
}


@pytest.fixture(scope="module")
def torchao() -> dict[tuple[str, str], Any]:
    if importlib.util.find_spec("torchao") is None:  # before torch is loaded, which takes long
        pytest.skip("torchao is not here")
    found = scale_functions("torchao")
    return {(each.bfmt.name, each.name.partition(" ")[2]): each.function for each in found}


@pytest.mark.parametrize(("name", "mode"), TORCHAO)
def test_torchao(name: str, mode: str, torchao: dict[tuple[str, str], Any]) -> None:
    best, *_ = fingerprint_scales(torchao[name, mode], name)
    assert (best.rule, best.wrong) == TORCHAO[name, mode]
    if (name, mode) == ("mxfp8_e4m3", "RCEIL"):
        x = np.zeros((len(RCEIL_FROZEN), 32), np.float32)
        x[:, 0] = np.array(list(RCEIL_FROZEN), np.uint32).view(np.float32)
        assert torchao[name, mode](x).reshape(-1).tolist() == [theirs for theirs, _ in RCEIL_FROZEN.values()]


def test_the_functions_of_a_library() -> None:
    assert [each.bfmt.name for each in scale_functions("ml_dtypes", ("nvfp4", "mxfp8"))] == ["mxfp8_e4m3"]
    best, *_ = fingerprint_scales(scale_functions("ml_dtypes", ("mxfp8",))[0].function, "mxfp8")
    assert best.rule == "nearest"  # but ties go away, and what is too small is NaN
    for name, formats, error in (
        ("nobody", (), "impl must be one of gfloat, gguf, ml_dtypes, torchao, or module:function"),
        ("ml_dtypes", ("nvfp4",), "makes no scales of nvfp4"),
        ("no_such_module:f", ("mxfp4",), "No module named .*PYTHONPATH"),
        ("math:none", ("mxfp4",), "no attribute 'none'"),
        ("math:sqrt", (), "say --format"),
        ("ml_dtypes", ("mxfp5",), "unknown block format"),
    ):
        with pytest.raises(ValueError, match=error):
            scale_functions(name, formats)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ok("conform", "--impl", "gfloat", "--scales", "--format", "mxfp4") == (
        "mxfp4  compute_scale_amax  floor: equal at 759 inputs\n"
    )
    (tmp_path / "own_scales.py").write_text("def scales(x):\n    return (x[:, 0] * 0).astype('uint8')\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = run("conform", "--impl", "own_scales:scales", "--scales", "--format", "mxfp4")
    assert result.exit_code == 1
    assert result.output.startswith("mxfp4  scales  ") and "inputs differ, first amax=" in result.output
    assert refused("conform", "--impl", "gfloat", "--scales", "--seed", "1").startswith("--scales takes --impl and")


# --- refusals ---------------------------------------------------------------------------------


def test_refusals() -> None:
    with pytest.raises(ValueError, match="'q8_0' has no golden files of scale rules"):
        fingerprint_scales(lambda x: x, "q8_0")
    with pytest.raises(ValueError, match=r"function: 76. blocks gave uint8 of shape \(3,\)"):
        fingerprint_scales(lambda x: np.zeros(3, np.uint8), "mxfp4")
    with pytest.raises(ValueError, match="gave float32"):
        fingerprint_scales(lambda x: x[:, 0], "mxfp4")
    with pytest.raises(TypeError, match="function must be a function, got int"):
        fingerprint_scales(5, "mxfp4")  # type: ignore[arg-type]


@pytest.mark.parametrize("body", ["1 / 0", "sys.exit(0)"])
def test_a_function_that_fails_is_no_pass(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where it ends Python with exit code 0."""
    name = f"failing_{body[0]}"
    (tmp_path / f"{name}.py").write_text(f"import sys\ndef scales(x):\n    return {body}\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    line = refused("conform", "--impl", f"{name}:scales", "--scales", "--format", "mxfp4")
    assert re.fullmatch(r"function: 7\d\d blocks gave (ZeroDivisionError: division by zero|SystemExit: 0)", line)


@pytest.mark.parametrize(
    ("impl", "error"),
    [(":", "write module:function"), ("..x:f", "write module:function"), ("os:path", "is no function")],
)
def test_names_that_are_no_functions(impl: str, error: str) -> None:
    assert refused("conform", "--impl", impl, "--scales", "--format", "mxfp4") == f"impl={impl!r}: {error}"
