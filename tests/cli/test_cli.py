"""The command line: what it prints, refuses and returns; every example of every help text is run."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import feather_ref as fr
from command import apart, ok, refused, run
from feather_ref import files, oracle
from feather_ref.cli import cli
from feather_ref.formats import Format

ROOT = Path(fr.__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}


def cells(text: str) -> list[list[str]]:
    """Columns, which stand two blanks apart."""
    return [re.split(r" {2,}", line) for line in text.splitlines()]


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "feather_ref", *arguments]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=False, timeout=60, **options)


# --- the help texts ---------------------------------------------------------------------------


def helps() -> Iterator[tuple[str, click.Command]]:
    yield "feather-ref", cli
    for name, command in cli.commands.items():
        yield f"feather-ref {name}", command


# they need programs: tests/conformance/test_cli.py runs them; and a larger model: tests/cli/test_cli_allocate.py
ELSEWHERE = {"gen", "check", "suites", "conform", "allocate"}


def examples() -> Iterator[tuple[str, list[str]]]:
    """Every command of the help texts, with the lines that it is shown to print."""
    for _, command in helps():
        if command.name in ELSEWHERE:
            continue
        lines = (command.help or "").replace("\b", "").splitlines()
        for i, line in enumerate(lines):
            if line.strip().startswith("$ "):
                end = next((j for j in range(i + 1, len(lines)) if lines[j].strip()[:2] in ("", "$ ")), len(lines))
                yield line.strip()[2:], [shown.strip() for shown in lines[i + 1 : end]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the examples name."""
    monkeypatch.chdir(tmp_path)
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
    files.save("model.safetensors", {"layer.weight": x, "layer.bias": x[0], "ids": np.arange(3)})
    files.save("weights.npz", {"layer.weight": x, "layer.bias": x[0]})
    small = fr.pack_tensor(x, "e4m3", "row")
    files.save("small.safetensors", {"layer.weight": small})
    files.save("back.safetensors", {"layer.weight": small.dequantize()})
    files.save("model-f16.gguf", {"layer.weight": np.resize(x, (4, 32)).astype(np.float16)})
    codes = fr.encode(x, "e4m3")
    files.save("input.npy", {"x": x})
    files.save("mine.npy", {"x": codes})
    files.save("theirs.npy", {"x": codes})
    return tmp_path


@pytest.mark.parametrize(("line", "shown"), list(examples()), ids=[line for line, _ in examples()])
def test_every_example_of_every_help_text(line: str, shown: list[str], folder: Path) -> None:
    stdin = None
    if "|" in line:
        echo, line = line.split(" | ")
        assert echo.startswith("echo ")
        stdin = echo.removeprefix("echo ")
    program, *arguments = shlex.split(line)
    assert program == "feather-ref"
    if "-o" in arguments:
        Path(arguments[arguments.index("-o") + 1]).unlink(missing_ok=True)  # others read it
    output = ok(*arguments, stdin=stdin)
    assert output
    if shown:
        assert output.splitlines() == shown


def test_there_is_an_example_in_every_help_text() -> None:
    by_command = [line.split("feather-ref ")[-1].split()[0] for line, _ in examples()]
    assert set(by_command) | ELSEWHERE == set(cli.commands)
    assert sum(bool(shown) for _, shown in examples()) >= 2


@pytest.mark.parametrize("name", [name for name, _ in helps()])
def test_help_is_short_and_plain(name: str) -> None:
    text = ok(*name.split()[1:], "--help")
    assert text.startswith(f"Usage: {name} ")
    assert text.isascii()
    assert "..." not in text.split("Options:")[-1] or name != "feather-ref"  # no sentence is cut


# --- encode and decode ------------------------------------------------------------------------

LITERALS = (
    "0.3", "464", "464.00000000000000000000000001", "nan", "-nan", "inf", "-inf", "-0.0", "0", "1e-400", "-1e400",
    "1.0625", "1.06250000000000000000000000000001", "0x1.1p0", "-0x1.1000000000000000000001p0", "0.0009765625", ".5",
)  # fmt: skip


def exact(text: str) -> Any:
    """The literal as the oracle takes it; hexadecimal by hand."""
    by_hand = {"0x1.1p0": Fraction(17, 16), "-0x1.1000000000000000000001p0": -Fraction(17, 16) - Fraction(1, 16**22)}
    if text in by_hand:
        return by_hand[text]
    return float(text) if "n" in text or text == "-0.0" else Fraction(text)


@pytest.mark.parametrize("rounding", [None, "toward_zero", "nearest_away"])
@pytest.mark.parametrize("fmt", ["e4m3", "e5m2", "bf16", "fp32", "e8m0", "int8", "tf32", "minifloat(8,15,bias=300)"])
def test_encode_rounds_what_was_typed_once(fmt: str, rounding: str | None, tmp_path: Path) -> None:
    row = fr.get_format(fmt)
    texts = [text for text in LITERALS if row.has_nan or "nan" not in text]
    options = ["--rounding", rounding] if rounding else []
    rows = json.loads(ok("encode", fmt, *options, "--json", "--", *texts))
    policies = {"rounding": rounding} if rounding else {}
    for text, got in zip(texts, rows, strict=True):
        code = oracle.encode(exact(text), row, **policies)
        assert got["input"] == text
        assert got["code"] == f"{code:0{(row.bits + 3) // 4}X}", text
        assert got["bits"].replace(" ", "") == f"{code:0{row.bits}b}"
        value = oracle.decode(code, row)
        if value.kind == "finite" and not isinstance(exact(text), float):
            wanted = (-value.magnitude if value.negative else value.magnitude) - exact(text)
            assert abs(Fraction(got["error"].removeprefix("~")) - wanted) <= abs(wanted) / 10**16


def test_the_table_of_the_issue() -> None:
    assert cells(ok("encode", "e4m3", "0.3", "464", "nan")) == [
        ["input", "code", "bits", "value", "error"],
        ["0.3", "2A", "0 0101 010", "0.3125", "0.0125"],
        ["464", "7E", "0 1111 110", "448", "-16"],
        ["nan", "7F", "0 1111 111", "NaN", "-"],
    ]
    assert cells(ok("decode", "e4m3", "7E", "29", "0x80", "0b11111111")) == [
        ["code", "bits", "value"],
        ["7E", "0 1111 110", "448"],
        ["29", "0 0101 001", "0.28125"],
        ["80", "1 0000 000", "-0"],
        ["FF", "1 1111 111", "NaN"],
    ]


def test_codes_are_hex_and_what_looks_decimal_is_told_so() -> None:
    note = "note: codes are read in hex: 10 is 0x10 = 16"
    for arguments in (("decode", "e4m3", "7", "10"), ("explain", "e4m3", "--code", "10")):
        result = apart(*arguments)
        assert (result.exit_code, result.stderr) == (0, f"{note}\n")
        assert note not in result.stdout
    for plain in (("7", "8"), ("7E", "10"), ("0x10",), ("0b1",)):
        assert apart("decode", "e4m3", *plain).stderr == ""


def test_what_a_newcomer_types_first_is_answered_with_the_way() -> None:
    assert refused("encode", "0.3").endswith("'0.3' is a number; the format comes first: e4m3 0.3")
    assert refused("explain", "0.3").endswith("the format comes first: e4m3 0.3")
    assert refused("explain", "e4m3", "7E") == "'7E' is not a number; a code is written 0x7E"
    assert ok("encode", "-h") == ok("encode", "--help")


def test_a_small_0b_is_binary_and_a_code_of_ours_is_hex() -> None:
    assert [row[0] for row in cells(ok("decode", "bf16", "0b10", "0B10", "0b1", "B1"))[1:]] == [
        "0002", "0B10", "0001", "00B1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "arguments", [("-0.5",), ("--", "-0.5"), ("-0.5", "--rounding", "to_odd"), ("--rounding", "to_odd", "-0.5")]
)
def test_negative_numbers_are_no_options(arguments: tuple[str, ...]) -> None:
    assert cells(ok("encode", "e4m3", *arguments))[1][:2] == ["-0.5", "B0"]


@pytest.mark.parametrize("text", ["-inf", "-nan", "-1e-3", "-.5", "-0x1p-3", "-5"])
def test_every_kind_of_negative(text: str) -> None:
    assert ok("encode", "e4m3", text).splitlines()[1].startswith(text)
    assert f"e4m3 of {'-' if text != '-nan' else ''}" in ok("explain", "e4m3", text)


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_values_come_from_stdin(arguments: tuple[str, ...]) -> None:
    assert cells(ok("encode", "e4m3", *arguments, stdin="0.3\n\t464 -nan\r\n"))[1:] == [
        ["0.3", "2A", "0 0101 010", "0.3125", "0.0125"],
        ["464", "7E", "0 1111 110", "448", "-16"],
        ["-nan", "7F", "0 1111 111", "NaN", "-"],
    ]
    assert cells(ok("decode", "e4m3", *arguments, stdin="7E\n29"))[2][2] == "0.28125"
    assert ok("decode", "e4m3", *arguments, stdin="") == "code  bits  value\n"


@pytest.mark.parametrize(
    ("options", "texts", "codes"),
    [
        (["--overflow", "nonsaturating"], ["465", "-465"], ["7F", "FF"]),
        (["--nan", "80"], ["nan"], ["80"]),
        (["--nan", "0x7F,0xFF"], ["nan", "-nan"], ["7F", "FF"]),
        (["--nan", "zero"], ["nan"], ["00"]),
        (["--nan", "preserve_sign"], ["-nan"], ["FF"]),
        (["--subnormals", "flush_output"], ["0.01"], ["00"]),
        (["--profile", "ml_dtypes"], ["465", "-nan"], ["7F", "FF"]),
        (["--profile", "ml_dtypes", "--overflow", "saturate"], ["465"], ["7E"]),
        (["--rounding", "toward_positive"], ["0.29"], ["2A"]),
        (["--rounding", "rup", "--overflow", "nonsat"], ["0.29", "465"], ["2A", "7F"]),
    ],
)
def test_policies(options: list[str], texts: list[str], codes: list[str]) -> None:
    assert [row[1] for row in cells(ok("encode", "e4m3", *options, "--", *texts))[1:]] == codes


def test_negative_policy() -> None:
    assert [cells(ok("encode", "ue4m3", "-1", "--negative", name))[1][1] for name in ("abs", "zero")] == ["38", "00"]


# --- formats ----------------------------------------------------------------------------------

TINY = '{"name": "tiny", "bits": 5, "exponent_bits": 2, "mantissa_bits": 2, "bias": 1}'


def test_a_format_is_a_name_an_expression_a_row_or_a_file(tmp_path: Path) -> None:
    # tiny: 2 exponent bits, bias 1, 2 mantissa bits: 3.5 is 2^1 * 1.75, exponent field 2
    (tmp_path / "tiny.json").write_text(TINY)
    (tmp_path / "name.txt").write_text("float8_e4m3fn\n")
    for fmt in (TINY, f"@{tmp_path / 'tiny.json'}"):
        assert cells(ok("encode", fmt, "3.5"))[1] == ["3.5", "0B", "0 10 11", "3.5", "0"]
    assert cells(ok("encode", f"@{tmp_path / 'name.txt'}", "448"))[1][1] == "7E"
    assert cells(ok("encode", "minifloat(4, 3, bias=11)", "28"))[1][1] == "7E"
    assert cells(ok("encode", "binary8p3se", "inf"))[1][1] == "7F"


def test_a_row_with_everything() -> None:
    fields = {
        "name": "all", "bits": 4, "kind": "table", "values": [float(i) for i in range(16)], "signed": True,
        "has_zero": True, "inf": "none", "nan": "none", "nan_code": None, "overflow": "saturate", "negative": "zero",
        "exponent_bits": 0, "mantissa_bits": 0, "bias": 0, "storage_bits": 8, "storage_shift": 4,
        "source": "my desk", "aliases": ["a", "b"],
    }  # fmt: skip
    assert set(fields) == set(Format.__dataclass_fields__)
    assert cells(ok("encode", json.dumps(fields), "7.4"))[1][1] == "7"


@pytest.mark.parametrize(
    ("fmt", "error"),
    [
        ("e4m4x", "unknown format 'e4m4x'; close: "),
        ("{", "the row is not JSON"),
        ('{"name": "x"}', "the row lacks bits"),
        ('{"name": "x", "bits": true}', "field 'bits' cannot be true"),
        ('{"name": "x", "bits": 5, "colour": 1}', "a row has no field 'colour'"),
        ('{"name": "x", "bits": 5, "nan": "some"}', "field 'nan' cannot be \"some\""),
        ('{"name": "x", "bits": 5, "values": [[1]]}', "field 'values' cannot be [1]"),
        ('{"name": "x", "bits": 5, "exponent_bits": 2}', "format 'x': sign, exponent and mantissa make 3 bits"),
        ("@/no/such/file", "No such file"),
    ],
)
def test_bad_formats(fmt: str, error: str) -> None:
    assert error in refused("encode", fmt, "1")
    assert error in refused("table", fmt)


def test_formats_lists_and_filters() -> None:
    everything = json.loads(ok("formats", "--json"))
    assert [row["name"] for row in everything] == list(fr.FORMATS)
    e4m3 = next(row for row in everything if row["name"] == "e4m3")
    assert {**e4m3, "also called": "", "source": ""} == {
        "name": "e4m3", "bits": "8", "fields": "s1 e4 m3 bias 7", "max": "448", "least above 0": "~0.00195312",
        "Inf": "-", "NaN": "7F", "also called": "", "source": "",
    }  # fmt: skip
    assert [row[0] for row in cells(ok("formats", "fnuz", "B11"))[1:]] == ["e4m3b11fnuz"]
    assert {row[1] for row in cells(ok("formats", "--bits", "4"))[1:]} == {"4"}
    assert [row[0] for row in cells(ok("formats", "binary5p2uf"))[1:]] == ["binary5p2uf"]
    assert "unknown format" in refused("formats", "nothing like it")
    assert "'mxfp4' names block formats alone: add --blocks" in refused("formats", "mxfp4")
    assert "'mxfp4' is a block format, for pack and fr.quantize_blocks" in refused("encode", "mxfp4", "1")


def test_formats_lists_blocks() -> None:
    rows = {row["name"]: row for row in json.loads(ok("formats", "--blocks", "--json"))}
    assert rows.keys() == fr.BLOCK_FORMATS.keys()
    mxfp4 = [rows["mxfp4"][name] for name in ("element", "block", "scale", "bits each")]
    assert mxfp4 == ["e2m1", "32", "e8m0", "4.25"]
    assert rows["fp8_block128"]["block"] == "128 x 128" and "float32 for all" in rows["nvfp4"]["scale"]
    assert {row[0] for row in cells(ok("formats", "ggml", "--blocks"))[1:]} >= {"q8_0", "q4_0"}


@pytest.mark.parametrize("fmt", ["e2m1", "e4m3", "e8m0", "int4", "nf4", "e5m2fnuz", "minifloat(10,3)"])
def test_table_in_four_ways(fmt: str) -> None:
    row = fr.get_format(fmt)
    values = fr.value_table(fmt)
    bits = values.view(f"u{values.itemsize}").tolist()
    text = cells(ok("table", fmt))
    assert len(text) == 1 + values.size
    table = list(csv.DictReader(io.StringIO(ok("table", fmt, "--as", "csv"))))
    read = np.array([float(line["value"]) for line in table]).astype(values.dtype)
    np.testing.assert_array_equal(read, values)
    assert [int(line["code"], 16) for line in table] == list(range(1 << row.bits))
    comment, *memh = ok("table", fmt, "--as", "memh").splitlines()
    assert comment == f"// {row.name}: the value of each code as binary{8 * values.itemsize}"
    assert [int(line, 16) for line in memh] == bits
    source = ok("table", fmt, "--as", "c")
    numbers = re.findall(r"^    (\S+?)f?, /\*", source.replace("INFINITY", "inf").replace("NAN", "nan"), re.MULTILINE)
    got = np.array([float.fromhex(number) for number in numbers]).astype(values.dtype)
    np.testing.assert_array_equal(got, values, strict=True)
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(values[~np.isnan(values)]))


def test_c_compiles(tmp_path: Path) -> None:
    compiler = next(
        (name for name in ("cc", "gcc", "clang") if any(Path(p, name).exists() for p in os.get_exec_path())), None
    )
    if compiler is None:
        pytest.skip("no C compiler")
    text = "".join(ok("table", fmt, "--as", "c") for fmt in ("e4m3", "e5m2", "minifloat(2,3,bias=4)"))
    (tmp_path / "a.c").write_text(f"{text}int main(void) {{ return e4m3_values[0x7E] != 448 || e5m2_values[0]; }}\n")
    subprocess.run([compiler, "-std=c11", "-Wall", "-o", tmp_path / "a", tmp_path / "a.c"], check=True)
    subprocess.run([tmp_path / "a"], check=True)


# --- explain ----------------------------------------------------------------------------------


def test_explain_says_where_float64_is_too_short() -> None:
    result = run("explain", "e4m3", "1.0625000000000000000000001")
    assert "code 38 = 1" in result.output
    assert "note: 1.0625000000000000000000001 as typed gives 39; float64 does not hold it" in result.output
    assert "note" not in ok("explain", "e4m3", "0.3") + ok("explain", "e4m3", "-nan")
    for text in ("1e400", "-1.5e400", "0x1p9999"):
        assert refused("explain", "e4m3", text).endswith("is beyond float64, in which numbers are explained")


def test_explain_knows_a_code_by_its_prefix() -> None:
    first = ok("explain", "e4m3", "--code", "7E")
    assert first == ok("explain", "e4m3", "0x7E") == ok("explain", "e4m3", "0b01111110")
    assert first.startswith("e4m3 code 7E = 448")
    assert first == ok("explain", "e4m3", "--code", "0x7e")
    number = ok("explain", "e4m3", "126")
    assert number == ok("explain", "e4m3", "--value", "126") != first
    assert number == ok("explain", "e4m3", "0x1.f8p6")
    assert "is not a number" in refused("explain", "e4m3", "7E")
    assert ok("explain", "e4m3").startswith("e4m3")
    assert ok("explain", "e4m3", "--word", "44344030").startswith("word 44344030: 4 lanes of e4m3, order little")
    assert "order big" in ok("explain", "e4m3", "--word", "30403444", "--order", "big")


@pytest.mark.parametrize(
    "arguments",
    [("1", "--code", "7E"), ("0x7E", "--value", "1"), ("--code", "7E", "--value", "1"), ("1", "--word", "0")],
)
def test_explain_takes_one_thing(arguments: tuple[str, ...]) -> None:
    assert refused("explain", "e4m3", *arguments) == "give one thing: a code, a value or a word"


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("encode", "e4m3", "abc"), "'abc' is not a number"),
        (("encode", "e4m3", "0x7E"), "a code goes to decode"),
        (("encode", "e4m3", "0.3,", "0.5"), "'0.3,' is not a number; blanks stand between numbers"),
        (("encode", "e4m3", "1", "--overflow", "rne"), "'rne' is not one of"),
        (("encode", "e4m3", "1e999999999"), "the exponent is beyond 100000"),
        (("encode", "e2m1", "1", "nan"), "value[1] is NaN, which is an error for 'e2m1'"),
        (("encode", "e2m1", "1", "--nan", "canonical"), "format 'e2m1' has no NaN"),
        (("encode", "e4m3", "1", "--roundign", "to_odd"), "No such option"),
        (("encode", "e4m3", "1", "--rounding", "up"), "'up' is not one of"),
        (("encode", "e4m3", "1", "--nan", "some"), "'some' is neither one of canonical"),
        (("encode", "e4m3", "1", "--nan", "1FF"), "is not a code of 'e4m3'"),
        (("encode", "e2m1", "1", "--overflow", "ocp_table3"), "has neither Inf nor NaN"),
        (("encode", '{"name": "wide", "bits": 40, "kind": "integer"}', "1"), "codes have at most 32"),
        (("decode", "e4m3", "100"), "codes[0] = 0x100 is not a code of 'e4m3'"),
        (("decode", "e4m3", "29", "126"), "'e4m3': 0..0xff; codes are hex: the decimal 126 is 7E"),
        (("explain", "e4m3", "--code", "126"), "'e4m3': 0..0xff; codes are hex: the decimal 126 is 7E"),
        (("decode", "e4m3", "F" * 17), "'FFFFFFFFFFFFFFFFF' is not a code: it has more than 64 bits"),
        (("explain", "e4m3", "--code", "0b" + "1" * 65), "is not a code: it has more than 64 bits"),
        (("decode", "e4m3", "7G"), "'7G' is not a code"),
        (("decode", "e4m3", "-1"), "No such option"),
        (("table", "fp32"), "a table has at most 16"),
        (("explain", "e4m3", "--code", "-1"), "'-1' is not a code"),
        (("diff", "a.npy"), "give a second file, or the input with --x"),
        (("diff", "a.npy", "no.npy"), "no.npy: No such file or directory"),
        (("inspect", "no.npy"), "does not exist"),
        (("nonsense",), "No such command"),
        (("formats", "--bits", "9"), "no named format has 9 bits"),
        (("formats", "--bits", "0"), "0 is not in the range"),
        (("formats", "ocp", "nothing"), "no named format mentions 'ocp' and mentions 'nothing'"),
        (("formats", "--blocks", "--bits", "8", "nothing"), "no block format has 8 bits and mentions 'nothing'"),
        (("encode", "@none.json", "1"), "none.json: No such file or directory"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], error: str, folder: Path) -> None:
    np.save("a.npy", np.zeros(1))
    assert error in refused(*arguments)


def test_nothing_given_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a pipe, nobody waits for input that does not come."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with pytest.raises(click.UsageError, match="nothing is given"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", Terminal())
        cli.main(["encode", "e4m3"], standalone_mode=False)


# --- processes --------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="how a shell closes a stream")
@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("decode e4m3 <&-", "nothing is given"),
        ("diff - a.npy <&-", "stdin is closed"),
        ("export block.f32.mxfp4.rne.sat.blk --as csv >&-", "stdout is closed"),
    ],
)
def test_closed_streams(command: str, error: str) -> None:
    program = shlex.join([sys.executable, "-m", "feather_ref"])
    result = subprocess.run(f"{program} {command}", shell=True, env=ENVIRONMENT, capture_output=True, check=False)
    assert result.returncode == 2
    assert b"Traceback" not in result.stderr and result.stderr.splitlines()[-1].startswith(f"Error: {error}".encode())


def test_as_a_module_and_as_a_function() -> None:
    wanted = ok("encode", "e4m3", "0.3").encode()
    assert process("encode", "e4m3", "0.3").stdout.replace(b"\r\n", b"\n") == wanted
    program = "import sys; sys.argv[1:] = ['encode', 'e4m3', '0.3']; from feather_ref.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, check=True)
    assert result.stdout.replace(b"\r\n", b"\n") == wanted
    assert process("--version").stdout.decode().split() == ["feather-ref,", "version", fr.__version__]


def test_errors_go_to_stderr_and_nothing_else() -> None:
    result = process("encode", "e4m3", "abc")
    assert (result.returncode, result.stdout, result.stderr.split()[:2]) == (2, b"", [b"Error:", b"'abc'"])


def test_piped_output_is_neither_cut_nor_coloured() -> None:
    """COLUMNS is small and TERM says colours; a pipe gets neither."""
    environment = {**ENVIRONMENT, "COLUMNS": "20", "TERM": "xterm-256color"}
    result = subprocess.run(
        [sys.executable, "-m", "feather_ref", "formats"], env=environment, capture_output=True, check=True
    )
    assert b"\x1b" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) > 120
    assert result.stdout.decode("ascii").replace("\r\n", "\n") == ok("formats")


def test_a_reader_that_leaves_is_no_error() -> None:
    command = [sys.executable, "-m", "feather_ref", "table", "fp16", "--as", "csv"]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline().strip() == b"code,bits,class,value"
        child.stdout.close()
        assert child.stderr.read() == b""
        child.wait(timeout=60)


def on_a_terminal(*arguments: str, cwd: Path | None = None) -> str:
    """What a person sees, without the colours."""
    pty = pytest.importorskip("pty")
    main, side = pty.openpty()
    environment = {**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "60"}
    command = [sys.executable, "-m", "feather_ref", *arguments]
    with subprocess.Popen(command, env=environment, stdin=side, stdout=side, stderr=side, cwd=cwd) as child:
        os.close(side)
        text = b""
        while True:
            try:
                piece = os.read(main, 4096)
            except OSError:  # the end of a terminal, on Linux
                break
            if not piece:
                break
            text += piece
        child.wait(timeout=60)
    os.close(main)
    assert child.returncode == 0
    return re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", text).decode()


def test_a_terminal_gets_a_table_and_a_bar(folder: Path) -> None:
    text = on_a_terminal("decode", "e4m3", "7E")
    assert "448" in text
    assert "─" in text
    files.save("odd.safetensors", {"[red]name\x1b[2J[/]": np.zeros(3)})
    text = on_a_terminal("pack", "odd.safetensors", "-o", "out.safetensors", "--format", "e4m3", cwd=folder)
    assert "100%" in text
    assert "'[red]name\\x1b[2J[/]'" in text.replace("\r\n", "").replace(
        " ", ""
    )  # folded, neither a style nor a command


def test_a_binary_pipe(tmp_path: Path) -> None:
    """Bytes that a text pipe would change: line ends, a Ctrl-Z, what is no UTF-8."""
    codes = np.array([0x0D, 0x0A, 0x1A, 0xFF, 0x80], np.uint8)
    np.save(tmp_path / "a.npy", codes)
    data = (tmp_path / "a.npy").read_bytes()
    result = process("diff", "-", str(tmp_path / "a.npy"), input=data)
    assert (result.returncode, result.stdout.strip()) == (0, b"equal")
    np.save(tmp_path / "a.npy", codes + 1)
    result = process("diff", "-", str(tmp_path / "a.npy"), input=data)
    assert result.returncode == 1
    assert b"5 of 5 differ" in result.stdout


def test_a_stdout_that_knows_ascii_alone(tmp_path: Path) -> None:
    files.save(tmp_path / "a.npz", {"größe\x1b[31m": np.zeros(1)})
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "feather_ref", "inspect", str(tmp_path / "a.npz")]
    result = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert b"gr\\xf6\\xdfe\\x1b[31m" in result.stdout
