"""Broken converters, each recognised as exactly what it is: programs, a C library, files, streams."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import feather_ref as fr
from feather_ref.cli import cli
from feather_ref.conformance import check, library, suite
from feather_ref.conformance.pipe import judge_stream, write_inputs

ID = "convert.f32.e4m3.rne.sat.run"

# fault, is it asked in hex, exit code, status, what the report says
FAULTS: tuple[tuple[str, bool, int, str, tuple[str, ...]], ...] = (
    ("none", False, 0, "pass", ("all 768 right",)),
    ("none", True, 0, "pass", ("all 768 right",)),
    ("truncate", False, 1, "fail", ("equals rounding='toward_zero'", "126 tie")),
    ("ties_away", False, 1, "fail", ("equals rounding='nearest_away'", "126 tie",
                                     "your code 00 (0) ends at input 3A7FFFFF, and should end at 3A800000")),
    ("overflow", False, 1, "fail", ("equals overflow='nonsaturating'", "4 overflow",
                                    "your code 7E (448) ends at input 43E80000")),
    ("flush", False, 1, "fail", ("equals subnormals='flush_output'",)),
    ("swap", False, 1, "fail", ("equals neighbouring elements swapped",)),
    ("swap", True, 1, "fail", ("equals neighbouring elements swapped",)),
    ("die_on_nan", False, 1, "crash", ("killed by SIGABRT at in=7F800001 (NaN)",)),
    ("die_on_nan", True, 1, "crash", ("killed by SIGABRT at in=7F800001 (NaN)",)),
    ("segfault", False, 1, "crash", ("killed by SIGSEGV at in=7F800001 (NaN)",)),
    ("hang", False, 1, "timeout", ("no result for 1 s after 7; the next input is in=3B700000 (0.00366210938)",)),
    ("few", False, 2, "error", ("too few results: 100 of 768; the first input without one is in=3E100000",)),
    ("few", True, 2, "error", ("too few results: 100 of 768",)),
    ("many", False, 2, "error", ("too many results: 769 for 768 inputs",)),
    ("many", True, 2, "error", ("too many results: 769 for 768 inputs",)),
    ("nothing", False, 3, "notrun", ("no result at all",)),
    ("noisy", False, 0, "pass", ("all 768 right", "stderr: warning: 3 lanes", "stderr: bye")),
    ("status", False, 2, "error", ("all results came, but then exit status 3",)),
    ("unknown", True, 1, "fail", ("2 of 768 wrong", "got=x", "[unknown]", "x or z in line 4, 6")),
    ("words", True, 2, "error", ("line 3: 'ready' is no hex number",)),
)  # fmt: skip


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin, prog_name="feather-ref")


@pytest.mark.parametrize(("fault", "as_hex", "code", "status", "texts"), FAULTS, ids=[f"{r[0]}-{r[1]}" for r in FAULTS])
def test_a_program(dut: Path, fault: str, as_hex: bool, code: int, status: str, texts: tuple[str, ...]) -> None:
    command = f"{shlex.quote(str(dut))} {fault}" + " hex" * as_hex
    options = ["--hex"] * as_hex + ["--timeout", "1" if fault == "hang" else "20"]
    result = run("check", ID, "--run", command, *options)
    assert result.exit_code == code, result.output
    assert result.output.startswith(f"{status} {ID}: "), result.output
    for text in texts:
        assert text in result.output, result.output


def test_every_fault_of_the_source_is_tried() -> None:
    source = (Path(__file__).parent / "duts" / "dut.c").read_text(encoding="utf-8")
    named = {part.split('"')[0] for part in source.split('is("')[1:]}
    assert {row[0] for row in FAULTS} - {"none"} == named


def test_a_long_report_is_bounded(dut: Path) -> None:
    lines = run("check", ID, "--run", f"{dut} truncate").output.splitlines()
    assert sum(line.startswith("FAIL ") for line in lines) == 20
    assert len(lines) < 30


def test_json(dut: Path) -> None:
    result = run("check", ID, "--run", f"{dut} overflow", "--json")
    row = json.loads(result.output)
    assert (row["status"], row["failed"], row["classes"]) == ("fail", 4, {"overflow": 4})


def test_programs_that_cannot_be_started(tmp_path: Path) -> None:
    result = run("check", ID, "--run", str(tmp_path / "nowhere"))
    assert result.exit_code == 2 and "cannot be started" in result.output
    assert run("check", ID, "--run", " ").exit_code == 2


# --- a C library ------------------------------------------------------------------------------


def test_a_library_in_process(shared: Path) -> None:
    assert check(library(shared, "encode"), "e4m3")
    s = suite(ID)
    for batch in s.inputs():
        s.judge(batch, library(shared, "encode")(*batch.inputs))
    assert s.report()


@pytest.mark.parametrize(
    ("fault", "code", "text"),
    [
        ("none", 0, "all 768 right"),
        ("truncate", 1, "equals rounding='toward_zero'"),
        ("segfault", 1, "killed by SIGSEGV at in=7F800001 (NaN)"),
        ("die_on_nan", 1, "killed by SIGABRT at in=7F800001 (NaN)"),
    ],
)
def test_a_library_of_the_command(
    shared: Path, monkeypatch: pytest.MonkeyPatch, fault: str, code: int, text: str
) -> None:
    monkeypatch.setenv("DUT_FAULT", fault)
    result = run("check", ID, "--library", f"{shared}:encode")
    assert result.exit_code == code, result.output
    assert text in result.output


def test_bad_libraries(shared: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no function 'decode'"):
        library(shared, "decode")
    with pytest.raises(ValueError, match="cannot be loaded"):
        library(tmp_path / "none.so", "encode")
    for name in (f"{shared}:decode", f"{tmp_path}/none.so:encode", str(shared)):
        result = run("check", ID, "--library", name)
        assert result.exit_code == 2 and result.output.splitlines()[-1].startswith("Error: --library"), result.output


# --- files and streams ------------------------------------------------------------------------


def inputs(as_hex: bool = False, vector_id: str = ID) -> bytes:
    stream = io.BytesIO()
    write_inputs(suite(vector_id), stream, as_hex)
    return stream.getvalue()


def answers() -> bytes:
    x = np.frombuffer(inputs(), "<f4")
    return fr.encode(x, "e4m3").tobytes()


def test_inputs_are_little_endian_records() -> None:
    data = inputs()
    assert len(data) == 768 * 4 and data[:8] == bytes([0, 0, 0, 0, 0, 0, 0x40, 0x1D])  # 0, and the middle of its run
    text = inputs(as_hex=True).decode().splitlines()
    assert text[:2] == ["00000000", "1D400000"] and len(text) == 768
    pairs = inputs(vector_id="add.e4m3.e4m3.rne.sat.tab")
    assert len(pairs) == 1 << 17 and pairs[:6] == bytes([0, 0, 0, 1, 0, 2])
    assert inputs(True, "add.e4m3.e4m3.rne.sat.tab").splitlines()[1] == b"00 01"


def test_files(tmp_path: Path) -> None:
    for as_hex in (False, True):
        options = ["--hex"] * as_hex
        given, out = tmp_path / "in", tmp_path / "out"
        assert run("gen", ID, *options, "--force", "-o", str(given)).exit_code == 0
        assert given.read_bytes() == inputs(as_hex)
        good = answers()
        out.write_bytes("\n".join(f"{code:02x}" for code in good).encode() if as_hex else good)
        assert run("check", ID, str(out), *options).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_streams_of_real_processes(dut: Path) -> None:
    program = shlex.join([sys.executable, "-m", "feather_ref"])
    for fault, code in (("none", 0), ("truncate", 1), ("few", 2), ("nothing", 3)):
        line = f"{program} gen {ID} | {shlex.quote(str(dut))} {fault} | {program} check {ID}"
        assert subprocess.run(line, shell=True, capture_output=True, check=False).returncode == code, fault


def test_silence_on_stdin_is_a_timeout() -> None:
    """A pipe that stays open, as from a simulator that hangs."""
    command = [sys.executable, "-m", "feather_ref", "check", ID, "--timeout", "0.5"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        process.stdin.write(answers()[:9])
        process.stdin.flush()
        output = process.stdout.read().decode()
        assert process.wait(20) == 1
    assert "no result for 0.5 s after 9" in output


TEXT: tuple[tuple[bytes, str, str], ...] = (
    (b"", "notrun", "nothing came"),
    (b"\n\n", "error", "too few results: 0 of 768"),
    (b"// made by a simulator\n@0 00\n", "error", "too few results: 1 of 768"),
    (b"0x00\nG1\n", "error", "line 2: 'G1' is no hex number"),
    (b"00 00\n00\nZZZ!\n", "error", "line 3: 'ZZZ!' is no hex number"),
    (b"\xff\xfe\n", "error", "line 1: "),
    (b"1" * 17 + b"\n", "error", "line 1: '11111111111111111' has more than 64 bits"),
)


@pytest.mark.parametrize(("data", "status", "text"), TEXT)
def test_bad_text(data: bytes, status: str, text: str) -> None:
    found = judge_stream(suite(ID), io.BytesIO(data), True)
    assert found.status == status and text in found.message
    assert found.title().isascii()


def test_text_where_binary_is_wanted_is_recognised() -> None:
    found = judge_stream(suite(ID), io.BytesIO(b"simulation done\n"), False)
    assert found.status == "error" and "--hex reads results as text" in found.message


@pytest.mark.parametrize(
    ("vector_id", "dtype", "text"),
    [
        (ID, "<u4", "3072 for 768 inputs; exactly 4 bytes came for each result, and uint8, 1 byte, is wanted"),
        ("convert.f32.f16.rne.nonsat.run", "u1", "exactly 1 byte came for each result, and uint16, 2 bytes, is wanted"),
    ],
)
def test_results_of_another_width_are_no_verdicts(vector_id: str, dtype: str, text: str) -> None:
    s = suite(vector_id)
    found = judge_stream(s, io.BytesIO(np.full(s.domain, 0x81, dtype).tobytes()), False)
    assert (found.status, found.judged, found.lines, found.classes) == ("error", 0, (), {})
    assert found.message.endswith(text)
    plain = judge_stream(suite(ID), io.BytesIO(bytes(4 * 768 + 1)), False)  # of no width
    assert plain.message == "too many results: 3073 for 768 inputs" and plain.judged == 768


@pytest.mark.parametrize("vector_id", [ID, "block.f32.mxfp4.rne.sat.blk"])
def test_inputs_without_the_seed_are_recognised(vector_id: str, tmp_path: Path) -> None:
    s, out = suite(vector_id), tmp_path / "out.bin"
    out.write_bytes(bytes(s.domain * s.width))
    result = run("check", vector_id, str(out), "--seed", "1")
    assert result.exit_code == 2
    assert result.output.endswith(f"; {s.domain} inputs are what `gen` writes without --seed\n")
    assert len(result.output.splitlines()) == 1
    out.write_bytes(bytes(s.domain * s.width - s.width))
    assert "without --seed" not in run("check", vector_id, str(out), "--seed", "1").output


def test_x_and_z_are_unknown_in_every_spelling() -> None:
    lines = [f"{code:02X}" for code in answers()]
    for i, digits in enumerate(("xx", "XX", "0X", "z7", "Zz", "?0", "0xzz", "x")):
        lines[i * 7] = digits
    found = judge_stream(suite(ID), io.BytesIO("\n".join(lines).encode()), True)
    assert (found.status, found.failed, found.unknown) == ("fail", 8, 8)
    assert all(line.endswith("[unknown]") for line in found.lines)
    assert found.notes[-1] == "x or z in line 1, 8, 15, 22, 29 and 3 more"


def test_writememh_is_read() -> None:
    lines = [f"{code:02x}" for code in answers()]
    text = "// memory\n@00000000\n" + "\n".join(lines)
    assert judge_stream(suite(ID), io.BytesIO(text.encode()), True)


def test_results_of_two_bytes() -> None:
    name = "convert.f32.f16.rne.nonsat.run"
    x = np.frombuffer(inputs(vector_id=name), "<f4")
    with np.errstate(all="ignore"):
        good = x.astype("<f2").tobytes()
    assert judge_stream(suite(name), io.BytesIO(good), False)
    short = judge_stream(suite(name), io.BytesIO(good[:-1]), False)
    assert short.status == "error" and "1 of its 2 bytes" in short.message
    turned = judge_stream(suite(name), io.BytesIO(np.frombuffer(good, "<u2").byteswap().tobytes()), False)
    assert "equals the bytes of each code swapped" in str(turned)


def test_what_came_before_an_error_is_judged() -> None:
    data = bytearray(answers()[:500])
    data[4] ^= 1
    found = judge_stream(suite(ID), io.BytesIO(bytes(data)), False)
    assert (found.status, found.judged, found.failed) == ("error", 500, 1)
    assert "1 of the 500 before are wrong" in found.title() and len(found.lines) == 1


@pytest.mark.parametrize(
    "arguments",
    [("check", ID, "--run", "a", "--library", "b:c"), ("check", "nonsense"), ("check", ID, "--timeout", "0"),
     ("check", ID, "nowhere.bin"), ("check", ID, "--library", "a:b", "--hex"), ("gen", "nonsense"),
     ("gen", ID, "--seed", "-1")],
)  # fmt: skip
def test_usage(arguments: tuple[Any, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and "Error: " in result.output
