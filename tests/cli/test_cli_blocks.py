"""Block formats and GGUF at the command line: pack, unpack, inspect, diff."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import ok, run
from feather_ref import _safetensors, files
from feather_ref.blocks import BLOCK_FORMATS, SCALE_RULES, BlockTensor, quantize_blocks

W = np.linspace(-3, 3, 256, dtype=np.float32).reshape(4, 64)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    files.save("model.safetensors", {"w": W, "b": W[0], "ids": np.arange(3)}, {"format": "pt"})
    return tmp_path


def pack(fmt: str, *more: str, output: str = "small.safetensors") -> dict[str, dict[str, Any]]:
    lines = json.loads(ok("pack", "model.safetensors", "-o", output, "--format", fmt, "--json", *more))
    return {line["name"]: line for line in lines}


def header() -> dict[str, tuple[str, tuple[int, ...]]]:
    with open("small.safetensors", "rb") as file:
        places = _safetensors.read_header(file, os.path.getsize("small.safetensors")).places
    return {name: (place.dtype, place.shape) for name, place in places.items() if name.startswith("w")}


@pytest.mark.parametrize(
    ("fmt", "nbytes", "stored"),
    [
        ("mxfp4", 136, {"w": ("F4", (4, 64)), "w_scale": ("F8_E8M0", (4, 2))}),
        ("mxfp8_e4m3", 264, {"w": ("F8_E4M3", (4, 64)), "w_scale": ("F8_E8M0", (4, 2))}),
        ("mxfp8_e5m2", 264, {"w": ("F8_E5M2", (4, 64)), "w_scale": ("F8_E8M0", (4, 2))}),
        ("mxfp6_e3m2", 200, {"w": ("U32", (4, 12)), "w_scale": ("F8_E8M0", (4, 2))}),
        ("nvfp4", 148, {"w": ("F4", (4, 64)), "w_scale": ("F8_E4M3", (4, 4)), "w_scale_2": ("F32", ())}),
        ("int4_g32", 160, {"w": ("U32", (4, 8)), "w_scale": ("F32", (4, 2))}),
        ("uint4_g32", 176, {"w": ("U32", (4, 8)), "w_scale": ("F32", (4, 2)), "w_zeros": ("U32", (4, 1))}),
        ("fp8_1x128", 272, {"w": ("F8_E4M3", (4, 64)), "w_scale": ("F32", (4, 1))}),
        ("q8_0", 272, {"w": ("I8", (4, 64)), "w_scale": ("F16", (4, 2))}),
    ],
)
def test_the_dtypes_are_those_that_others_know(fmt: str, nbytes: int, stored: dict[str, Any], folder: Path) -> None:
    lines = pack(fmt)
    assert header() == stored
    assert (lines["w"]["after"], lines["w"]["scale"], lines["ids"]["note"]) == (fmt, "block", "copied: not float")
    assert lines["w"]["bytes_after"] == nbytes
    with files.load("small.safetensors") as back:
        got, wanted = back["w"], quantize_blocks(W, fmt)
        assert isinstance(got, BlockTensor)
        assert got.fmt == wanted.fmt
        assert got.codes.tobytes() == wanted.codes.tobytes()
        assert got.scales.tobytes() == wanted.scales.tobytes()
        assert got.tensor_scale == wanted.tensor_scale


@pytest.mark.parametrize("fmt", [row.name for row in BLOCK_FORMATS.values() if row.tile[0] == 1])
def test_unpack_gives_the_numbers(fmt: str, folder: Path) -> None:
    pack(fmt)
    ok("unpack", "small.safetensors", "-o", "back.npz")
    with np.load("back.npz") as back:
        for name, x in (("w", W), ("b", W[0])):
            np.testing.assert_array_equal(back[name], quantize_blocks(x, fmt).dequantize(), strict=True)
        np.testing.assert_array_equal(back["ids"], np.arange(3), strict=True)


def test_tiles_want_two_axes(folder: Path) -> None:
    lines = pack("fp8_block128")
    assert (lines["w"]["after"], lines["b"]["note"]) == ("fp8_block128", "copied: one axis")
    assert header() == {"w": ("F8_E4M3", (4, 64)), "w_scale": ("F32", (1, 1))}


def test_rules_and_policies_reach_the_blocks(folder: Path) -> None:
    pack("mxfp4", "--scale-rule", "rceil", "--rounding", "toward_zero", "--include", "w")
    wanted = quantize_blocks(W, "mxfp4", scale_rule="rceil", rounding="toward_zero")
    with files.load("small.safetensors") as back:
        got: Any = back["w"]
        assert got.codes.tobytes() == wanted.codes.tobytes() != quantize_blocks(W, "mxfp4").codes.tobytes()
        assert got.scales.tobytes() == wanted.scales.tobytes()


def test_a_name_that_both_have_means_blocks_without_a_scale(folder: Path) -> None:
    assert pack("mxint8")["w"]["scale"] == "block"
    assert header()["w_scale"] == ("F8_E8M0", (4, 2))
    assert pack("mxint8", "--scale", "none", "--force")["w"]["scale"] == "none"
    assert pack("mxint8", "--scale", "row", "--force")["w"]["scale"] == "row"


def test_inspect_and_diff(folder: Path) -> None:
    pack("nvfp4")
    tree = json.loads(ok("inspect", "small.safetensors", "--json"))
    facts = {fact["name"]: fact for fact in tree["tensors"]}
    assert list(facts) == ["w", "b", "ids"] or set(facts) == {"w", "b", "ids"}
    nbytes = quantize_blocks(W, "nvfp4").nbytes
    assert [facts["w"][key] for key in ("format", "scale", "nbytes", "nan")] == ["nvfp4", "block", nbytes, 0]
    assert ok("diff", "small.safetensors", "small.safetensors") == "equal\n"
    pack("nvfp4", "--rounding", "toward_zero", output="other.safetensors")
    result = run("diff", "small.safetensors", "other.safetensors")
    assert result.exit_code == 1
    assert "w: " in result.output


# --- GGUF -------------------------------------------------------------------------------------


def test_gguf_at_the_command_line(folder: Path) -> None:
    lines = pack("q8_0", output="small.gguf")
    assert {name: line["note"] for name, line in lines.items()} == {
        "w": "", "b": "copied: one axis", "ids": "copied: not float",
    }  # fmt: skip
    head, *rest = ok("inspect", "small.gguf").splitlines()
    assert head == f"small.gguf: {os.path.getsize('small.gguf')} bytes, 3 tensors"
    assert "  general.file_type: 7" in rest
    assert ["w", "[4,", "64]", "I8", "q8_0", "block", str(4 * 68)] in [line.split()[:7] for line in rest]
    ok("pack", "small.gguf", "-o", "again.gguf", "--format", "q4_0")
    assert Path("again.gguf").read_bytes() == Path("small.gguf").read_bytes()
    ok("unpack", "small.gguf", "-o", "back.safetensors")
    with files.load("back.safetensors") as back:
        np.testing.assert_array_equal(back["w"], quantize_blocks(W, "q8_0").dequantize(), strict=True)


def test_a_vocabulary_is_shortened(folder: Path) -> None:
    files.save("a.gguf", {"w": W}, {"words": "x" * 5000})
    line = next(line for line in ok("inspect", "a.gguf").splitlines() if line.startswith("  words"))
    assert line == "  words: " + "x" * 200 + "... (5000 characters)"
    assert len(json.loads(ok("inspect", "a.gguf", "--json"))["metadata"]["words"]) == 5000


def test_a_plan_goes_into_gguf(folder: Path) -> None:
    files.save("only.npz", {"w": W})
    ok("allocate", "only.npz", "--budget", "9", "--formats", "q8_0", "-o", "plan.json")
    ok("pack", "only.npz", "-o", "small.gguf", "--plan", "plan.json")
    with files.load("small.gguf") as back:
        assert back.blocks["w"].fmt.name == "q8_0"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("-o", "a.safetensors", "--format", "mxfp5"), "unknown format 'mxfp5'; close:"),
        (("-o", "a.safetensors", "--format", "mxfp5"), "block formats: mxfp4"),
        (("-o", "a.safetensors", "--format", "mxfp4", "--scale", "row"), "'mxfp4' has scales of its own"),
        (("-o", "a.safetensors", "--format", "mxfp4", "--scale-rule", "nvfp4_te2026"), "it has no tensor scale"),
        (("-o", "a.safetensors", "--format", "mxfp4", "--scale-rule", "pow2"), "scale_rule must be one of floor"),
        (("-o", "a.safetensors", "--format", "mxfp4", "--scale-rule", "best"), "'best' is not one of"),
        (("-o", "a.gguf", "--format", "nvfp4"), "'w': GGUF holds no nvfp4; it holds q8_0"),
        (("-o", "a.gguf", "--format", "e4m3"), "'w': GGUF holds no e4m3"),
        (("-o", "a.npz", "--format", "mxfp4"), ".npz holds no packed tensor"),
    ],
)
def test_refusals(arguments: tuple[str, ...], error: str, folder: Path) -> None:
    before = sorted(os.listdir())
    result = run("pack", "model.safetensors", *arguments)
    assert result.exit_code == 2, result.output
    assert error in result.output.splitlines()[-1]
    assert sorted(os.listdir()) == before


def test_every_option_has_a_line_of_help() -> None:
    text = ok("pack", "--help")
    assert "--scale-rule NAME" in text
    assert {"amax", "pow2"} - set(SCALE_RULES) == {"pow2"}  # so that both kinds of rule fit one option
