"""pack, unpack, inspect and diff on the command line."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feather_ref as fr
from command import ok, refused, run
from feather_ref import files, repack


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
    files.save("model.safetensors", {"w": x, "b": x[0].astype(np.float64), "ids": np.arange(3)}, {"format": "pt"})
    return tmp_path


PACK = ("pack", "model.safetensors", "-o", "small.safetensors", "--format", "e4m3", "--scale", "row")


def test_pack_prints_what_became_of_each_tensor(folder: Path) -> None:
    head, *rows, total = [line.split("  ") for line in ok(*PACK).splitlines()]
    table = {cells[0]: [cell.strip() for cell in cells if cell] for cells in rows}
    assert [cell.strip() for cell in head if cell] == [
        "tensor", "shape", "from", "to", "bytes", "becomes", "scale", "SQNR bits", "note",
    ]  # fmt: skip
    assert table["ids"] == ["ids", "[3]", "I64", "I64", "24", "24", "-", "-", "copied: not float"]
    assert table["w"][:7] == ["w", "[4, 6]", "F32", "F8_E4M3", "96", "40", "row"]
    assert table["b"][:7] == ["b", "[6]", "F64", "F8_E4M3", "48", "10", "tensor"]  # one row: the word of `inspect`
    assert 4 < float(table["w"][7]) < 8
    assert total == ["small.safetensors: 3 tensors, 168 bytes become 74"]


def test_options_reach_the_packer(folder: Path) -> None:
    more = ("--scale-rule", "pow2", "--rounding", "toward_zero", "--overflow", "nonsaturating", "--exclude", "b")
    lines = {line["name"]: line for line in json.loads(ok(*PACK, *more, "--json"))}
    assert lines["b"]["note"] == "copied: not selected"
    with files.load("model.safetensors") as before, files.load("small.safetensors") as after:
        policies: dict[str, Any] = {"rounding": "toward_zero", "overflow": "nonsaturating"}
        wanted = fr.pack_tensor(before["w"], "e4m3", "row", "pow2", **policies)
        assert after["w"].words.tobytes() == wanted.words.tobytes()
        assert after["w"].scale.tobytes() == wanted.scale.tobytes()


@pytest.mark.parametrize("fmt", ["e3m2", "e4m3", "fp16", "e2m1"])
def test_the_order_of_lanes(folder: Path, fmt: str) -> None:
    """The file says it, whatever dtype the codes have there."""
    packing = ("pack", "model.safetensors", "-o", "small.safetensors", "--scale", "row", "--format")
    ok(*packing, fmt, "--order", "big")
    with files.load("model.safetensors") as before, files.load("small.safetensors") as after:
        wanted = fr.pack_tensor(before["w"], fmt, "row", order="big")
        assert after["w"].order == "big"
        assert after["w"].words.tobytes() == wanted.words.tobytes()
    ok("pack", "small.safetensors", "-o", "copy.safetensors", "--format", "e4m3")
    assert ok("diff", "small.safetensors", "copy.safetensors") == "equal\n"


def test_an_order_that_has_no_place(folder: Path) -> None:
    packing = ("pack", "model.safetensors", "--order", "big", "-o")
    assert "'mxfp4' has the order 'little' alone" in refused(*packing, "a.safetensors", "--format", "mxfp4")
    assert "order='big': a .gguf file has" in refused(*packing, "a.gguf", "--format", "bf16")
    assert sorted(os.listdir()) == ["model.safetensors"]


def test_a_row_of_one_s_own_goes_through_a_file(folder: Path) -> None:
    row = '{"name": "tiny", "bits": 5, "exponent_bits": 2, "mantissa_bits": 2, "bias": 1}'
    ok("pack", "model.safetensors", "-o", "small.safetensors", "--format", row)
    ok("unpack", "small.safetensors", "-o", "back.npz")
    with np.load("back.npz") as back, files.load("model.safetensors") as before:
        fmt = fr.Format("tiny", 5, exponent_bits=2, mantissa_bits=2, bias=1)
        np.testing.assert_array_equal(back["w"], fr.quantize(before["w"], fmt), strict=True)


def test_inspect(folder: Path) -> None:
    ok(*PACK)
    size = os.path.getsize("small.safetensors")
    first, second, _, *rows = ok("inspect", "small.safetensors").splitlines()
    assert (first, second) == (f"small.safetensors: {size} bytes, 3 tensors", "  format: pt")
    assert [row.split() for row in rows if row.startswith("w")] == [
        ["w", "[4,", "6]", "F8_E4M3", "e4m3", "row", "40", "1", "0", "0"]
    ]
    tree = json.loads(ok("inspect", "small.safetensors", "--json"))
    assert (tree["bytes"], tree["metadata"], len(tree["tensors"])) == (size, {"format": "pt"}, 3)


def test_diff_of_files(folder: Path) -> None:
    np.save("a.npy", np.array([[0x7E, 0x01], [0x80, 0x00]], np.uint8))
    np.save("b.npy", np.array([[0x7E, 0x01], [0x00, 0x00]], np.uint8))
    np.save("c.npy", np.array([0x7E], np.uint16))
    assert ok("diff", "a.npy", "a.npy") == "equal\n"
    result = run("diff", "a.npy", "b.npy", "--format", "e4m3")
    assert (result.exit_code, result.output) == (
        1,
        "a: 1 of 4 differ\n  [1, 0]  80 1 0000 000 = -0  00 0 0000 000 = 0\n",
    )
    np.save("d.npy", np.array([0x0100, 2, 3], "<u2"))
    np.save("e.npy", np.array([0x0101, 2, 3], ">u2"))
    result = run("diff", "d.npy", "e.npy")
    assert (result.exit_code, result.output) == (1, "d: 1 of 3 differ\n  [0]  0100  0101\n")
    result = run("diff", "a.npy", "c.npy")
    assert (result.exit_code, result.output) == (1, "a: A is uint8 [2, 2]; B is uint16 [1]\n")


def test_diff_of_many_tensors(folder: Path) -> None:
    ok(*PACK)
    ok(*PACK[:3], "other.safetensors", *PACK[4:])
    assert ok("diff", "small.safetensors", "other.safetensors") == "equal\n"
    ok(*PACK[:3], "other.safetensors", *PACK[4:], "--exclude", "b", "--rounding", "toward_positive", "--force")
    lines = run("diff", "small.safetensors", "other.safetensors").output.splitlines()
    assert "b: A is e4m3 [6], little, scale [1]; B is float64 [6]" in lines
    assert any(line.startswith("w: ") and line.endswith("of 24 differ") for line in lines)
    assert "b: 5 of 6 values differ, by at most 0.0311 at [2]" in lines  # (384 - 370.09) / 448
    files.save("x.npz", {"p": 1.0, "q": np.nan})
    files.save("y.npz", {"p": -0.0, "r": np.nan})
    result = run("diff", "x.npz", "y.npz")
    assert result.output.splitlines() == [
        "q: only in A", "r: only in B", "p: 1 of 1 differ, by at most 1 at []",
        "  []  3FF0000000000000 = 1.0  8000000000000000 = -0.0",
    ]  # fmt: skip


def test_diff_of_floats_says_how_far(folder: Path) -> None:
    """0.1 and 3 are 0x2E66 and 0x4200 in float16; any NaN is 0 from another, and infinitely far from a number."""
    for name, dtype, bits in (("a", "<u2", [0x2E66, 0x7E00, 0x4200]), ("b", ">u2", [0x2E66, 0x7E01, 0x4000])):
        np.save(f"{name}.npy", np.array(bits, dtype).view(f"{dtype[0]}f2"))
    assert run("diff", "a.npy", "b.npy").output.splitlines() == [
        "a: 2 of 3 differ, by at most 1 at [2]", "  [1]  7E00 = nan  7E01 = nan", "  [2]  4200 = 3.0  4000 = 2.0",
    ]  # fmt: skip
    np.save("c.npy", np.float32([np.nan, -3e38, 0.1]))
    np.save("d.npy", np.float32([1, 3e38, 0.1]))
    assert run("diff", "c.npy", "d.npy").output.splitlines()[0] == "c: 2 of 3 differ, by at most inf at [0]"


def test_one_of_several_is_compared_with_its_input(folder: Path) -> None:
    ok(*PACK)
    both = ("diff", "small.safetensors", "--x", "model.safetensors")
    assert refused(*both) == (
        "small.safetensors: holds 3 tensors; --x compares one with its input: choose it with --include"
    )
    assert "small.safetensors: includes 2 tensors" in refused(*both, "--include", "[wb]")
    assert "is called like 'v'" in refused(*both, "--include", "v")
    assert ok(*both, "--include", "w").startswith("all 24 codes equal e4m3")
    np.save("other.npy", np.ones((4, 6), np.float32))
    assert run("diff", "small.safetensors", "--x", "other.npy", "--include", "w").exit_code == 1
    ok(*PACK[:3], "less.safetensors", *PACK[4:], "--exclude", "b")
    assert run("diff", "small.safetensors", "less.safetensors").exit_code == 1
    assert ok("diff", "small.safetensors", "less.safetensors", "--include", "[!b]*") == "equal\n"


def test_one_tensor_is_no_tensors(folder: Path) -> None:
    np.save("x.npy", np.ones(3, np.float32))
    assert ok("pack", "x.npy", "-o", "x.safetensors", "--format", "e4m3").endswith(": 1 tensor, 12 bytes become 3\n")
    assert ok("inspect", "x.npy").splitlines()[0].endswith(" bytes, 1 tensor")
    assert "\n1 tensor, " in ok("allocate", "x.npy", "--budget", "16")


def test_diff_of_what_is_packed_and_what_is_not(folder: Path) -> None:
    ok(*PACK)
    ok("unpack", "small.safetensors", "-o", "back.safetensors")
    assert ok("diff", "small.safetensors", "back.safetensors").splitlines() == [
        "b: A is e4m3 [6], little, scale [1]; B is float32 [6]", "b: all 6 values are equal",
        "w: A is e4m3 [4, 6], little, scale [4, 1]; B is float32 [4, 6]", "w: all 24 values are equal",
    ]  # fmt: skip
    ok("pack", "model.safetensors", "-o", "other.safetensors", "--format", "mxfp8")
    result = run("diff", "small.safetensors", "other.safetensors")
    assert (result.exit_code, "B is mxfp8_e4m3 [4, 6], axis -1" in result.output) == (1, True)
    assert "values differ, by at most" in result.output


@pytest.mark.parametrize(
    ("codes", "values", "line"),
    [
        ([0x7F, 0xFF], [np.nan, -np.nan], "all 2 values are equal"),
        ([0x80, 0x38], [0.0, 1.0], "1 of 2 values differ, by at most 0 at [0]"),
        ([0x7F, 0x38], [1.0, 1.5], "2 of 2 values differ, by at most inf at [0]"),
        ([0x30, 0x7E], [0.5, np.inf], "1 of 2 values differ, by at most inf at [1]"),
    ],
)
def test_diff_by_value_is_exact(folder: Path, codes: list[int], values: list[float], line: str) -> None:
    packed = fr.PackedTensor(np.array([codes[0] | codes[1] << 8], np.uint32), None, (2,), "e4m3")
    files.save("a.safetensors", {"t": packed})
    np.save("b.npy", np.array(values))
    result = run("diff", "a.safetensors", "b.npy")
    assert (result.exit_code, result.output.splitlines()[1]) == (int("differ" in line), f"t: {line}")


def packed(codes: list[int], scale: Any = None, order: Any = "little", shape: tuple[int, ...] = (2, 2)) -> Any:
    """Codes of e4m3 in rows."""
    rows = np.array(codes, np.uint8).reshape(shape)
    factor = None if scale is None else np.array(scale, np.float32)
    return fr.PackedTensor(fr.pack_codes(rows, 8, order=order), factor, shape, "e4m3", order)


@pytest.mark.parametrize(
    ("b", "lines"),
    [
        (packed([0x38, 0x80, 0x7F, 0x40], [[1], [1]], "big"), [  # lanes have no part in it, and 1 is as good as none
            "a: all 4 codes are equal; they differ in order and shape of scales alone",
        ]),
        (packed([0x38, 0x80, 0x7F, 0x40], None, "big"), ["a: all 4 codes are equal; they differ in order alone"]),
        (packed([0x38, 0x00, 0xFF, 0x40], 1.0), [
            "a: 2 of 4 differ",
            "  [0, 1]  80 1 0000 000 = -0  00 0 0000 000 = 0",
            "  [1, 0]  7F 0 1111 111 = NaN  FF 1 1111 111 = NaN",
        ]),
        (packed([0x38, 0x80, 0x7F, 0x38], [[1], [2]]), [  # the same four values by other codes
            "a: 1 of 4 differ",
            "  [1, 1]  40 0 1000 000 = 2  38 0 0111 000 = 1",
            "a scale: 1 of 2 differ",
            "  [1, 0]  3F800000 = 1  40000000 = 2",
        ]),
    ],
)  # fmt: skip
def test_diff_of_codes_that_are_stored_in_two_ways(b: Any, lines: list[str], folder: Path) -> None:
    files.save("a.safetensors", {"a": packed([0x38, 0x80, 0x7F, 0x40])})
    files.save("b.safetensors", {"a": b})
    result = run("diff", "a.safetensors", "b.safetensors")
    head, *said = result.output.splitlines()
    assert head.startswith("a: A is e4m3 [2, 2], little, no scale; B is e4m3 [2, 2], ")
    assert (said, result.exit_code) == (lines, "differ in" not in lines[0])


def test_diff_of_two_formats_is_exact(folder: Path) -> None:
    """1.125 * (1 + 2^-23) and 1 * (1.125 + 2^-23) are 2^-26 apart, and the same float32."""
    one = (("e4m3", 0x39, 1 + 2**-23), ("e5m2", 0x3C, 1.125 + 2**-23))
    a, b = (fr.PackedTensor(np.array([code], np.uint32), np.float32(scale), (1,), fmt) for fmt, code, scale in one)
    assert a.dequantize().tobytes() == b.dequantize().tobytes()
    for name, tensor in (("a", a), ("b", b), ("c", a.dequantize())):
        files.save(f"{name}.safetensors", {"t": tensor})
    result = run("diff", "a.safetensors", "b.safetensors")
    assert result.output.splitlines()[1] == "t: 1 of 1 values differ, by at most 1.49e-08 at [0]"
    assert run("diff", "a.safetensors", "c.safetensors").exit_code == 0  # as unpack rounds


def test_diff_of_blocks_by_two_names(folder: Path) -> None:
    """mxfp4 and ggml_mxfp4 have the same codes and scales; nvfp4 has others, and is compared by value."""
    x = np.linspace(-3, 3, 64, dtype=np.float32).reshape(2, 32)
    for name in ("mxfp4", "ggml_mxfp4", "nvfp4"):
        files.save(f"{name}.safetensors", {"w": fr.quantize_blocks(x, name)})
    ours, ggml = (fr.quantize_blocks(x, name) for name in ("mxfp4", "ggml_mxfp4"))
    result = run("diff", "mxfp4.safetensors", "ggml_mxfp4.safetensors")
    wrong = int(np.count_nonzero(ours.codes != ggml.codes))
    said = [line for line in result.output.splitlines() if line.endswith(" differ")]
    scales = int(np.count_nonzero(ours.scales != ggml.scales))
    assert said == [f"w: {wrong} of 64 differ"] * (wrong > 0) + [f"w scales: {scales} of 2 differ"] * (scales > 0)
    assert result.exit_code == (wrong + scales > 0)
    assert "values differ" in run("diff", "mxfp4.safetensors", "nvfp4.safetensors").output


def test_diff_of_two_rows_with_one_name(folder: Path) -> None:
    """The same codes are not the same numbers."""
    for bias in (1, 2):
        row = json.dumps({"name": "tiny", "bits": 5, "exponent_bits": 2, "mantissa_bits": 2, "bias": bias})
        files.save(f"x{bias}.npy", {"x": np.full(4, 2.0 ** (1 - bias), np.float32)})
        ok("pack", f"x{bias}.npy", "-o", f"x{bias}.safetensors", "--format", row)
    result = run("diff", "x1.safetensors", "x2.safetensors")
    assert result.exit_code == 1
    assert result.output.splitlines()[:3] == [
        "x1: both are tiny [4], little, no scale, by two rows of one name",
        "x1: 4 of 4 values differ, by at most 0.5 at [0]",
        "  [0]  1  0.5",
    ]


def test_diff_takes_no_long_integer_for_a_value(folder: Path) -> None:
    files.save("a.safetensors", {"t": fr.pack_tensor([1.0, 2.0], "e4m3")})
    np.save("b.npy", np.array([1, 2**53 + 1]))
    result = run("diff", "a.safetensors", "b.npy")
    assert (result.exit_code, result.output) == (1, "t: A is e4m3 [2], little, no scale; B is int64 [2]\n")


def test_diff_against_the_input(folder: Path) -> None:
    x = np.array([0.3, 465.0, -2.0, 1e-9], np.float32)
    np.save("x.npy", x)
    np.save("mine.npy", fr.encode(x, "e4m3", overflow="nonsaturating"))
    arguments = ("diff", "mine.npy", "--x", "x.npy", "--format", "e4m3")
    result = run(*arguments)
    assert result.exit_code == 1
    assert "nonsaturating" in result.output
    assert run(*arguments, "--overflow", "nonsaturating").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("pack", "model.safetensors", "-o", "model.safetensors", "--format", "e4m3"), "is the input itself"),
        (("pack", "model.safetensors", "-o", "a.npz", "--format", "e4m3"), ".npz holds no packed tensor"),
        (("pack", "model.safetensors", "-o", "no/a.safetensors", "--format", "e4m3"), "output: there is no folder no"),
        (("pack", "model.safetensors", "-o", "a.safetensors", "--format", "e4m3", "--exclude", "*"), "is left to pack"),
        (("pack", "-", "-o", "a.safetensors", "--format", "e4m3"), "stdin is read by encode, decode, check, and diff"),
        (("inspect", "-"), "stdin is read by"),
        (("allocate", "-", "--budget", "4"), "stdin is read by"),
        (("unpack", "model.safetensors", "-o", "-"), ": stdout: an .npy file holds one tensor, not 3; choose one with"),
        (("pack", "model.safetensors", "-o", "a.safetensors"), "give a --format, or a --plan"),
        (
            ("pack", "model.safetensors", "-o", "a.safetensors", "--format", "e4m3", "--include", "x*"),
            "called like 'x*'",
        ),
        (("pack", "cut.safetensors", "-o", "a.safetensors", "--format", "e4m3"), "is the file truncated?"),
        (("unpack", "model.safetensors", "-o", "a.npy"), "holds one tensor, not 3"),
        (("unpack", "model.safetensors", "-o", "a.txt"), "must end in"),
        (("inspect", "cut.safetensors"), "cut.safetensors: tensor "),
        (("diff", "model.safetensors", "--x", "model.safetensors", "--format", "e4m3"), "holds 3 tensors"),
        (("diff", "model.safetensors", "model.safetensors", "--nan", "zero"), "--nan needs --x"),
        (("diff", "model.safetensors", "model.safetensors", "--nan-equal"), "--nan-equal needs --x"),
        (("diff", "-", "-"), "A and B are both stdin"),
        (("diff", "ids.npy", "--x", "ids.npy"), "fmt"),
    ],
)
def test_refusals(arguments: tuple[str, ...], error: str, folder: Path) -> None:
    Path("cut.safetensors").write_bytes(Path("model.safetensors").read_bytes()[:-5])
    np.save("ids.npy", np.arange(3))
    before = sorted(os.listdir())
    result = run(*arguments)
    assert result.exit_code == 2
    assert error in result.output.splitlines()[-1]
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("failure", "exit_code", "message"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 2, "Error: No space left on device"),
        (KeyboardInterrupt(), 130, "Error: interrupted"),
        (MemoryError(), 2, "Error: not enough memory"),
    ],
)
def test_broken_off(
    failure: BaseException, exit_code: int, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("small.safetensors").write_bytes(b"old")

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise failure

    monkeypatch.setattr(repack, "pack_tensor", fail)
    result = run(*PACK, "--force")
    assert (result.exit_code, result.output.strip()) == (exit_code, message)
    assert Path("small.safetensors").read_bytes() == b"old"
    assert sorted(os.listdir()) == ["model.safetensors", "small.safetensors"]
