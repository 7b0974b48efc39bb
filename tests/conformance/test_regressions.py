"""What attackers and strangers found: false verdicts first, then errors that said something else."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

import feather_ref as fr
from feather_ref import golden, oracle
from feather_ref.cli import cli
from feather_ref.conformance import CorruptError, adapters, check, conform, library, suite, suites
from feather_ref.conformance.adapters import Adapter
from feather_ref.conformance.pipe import LONGEST, MORE, judge_stream, write_inputs
from feather_ref.conformance.process import Program, judge_program
from feather_ref.export import export

Array = NDArray[Any]
ID = "convert.f32.e4m3.rne.sat.run"
UNSIGNED = fr.Format("light", 5, exponent_bits=3, mantissa_bits=2, bias=3, signed=False, nan="none", negative="zero")


def by(fmt: Any, **policies: Any) -> Any:
    return lambda x: fr.encode(x, fmt, **policies)


def where(x: Array, some: Array, code: int, codes: Array) -> Array:
    return np.where(some, codes.dtype.type(code), codes)


# --- wrong ones that passed -------------------------------------------------------------------


@pytest.mark.parametrize(("fmt", "code"), [("e4m3fnuz", 0x7F), ("e5m2fnuz", 0x7F), ("e8m0", 0xFE), ("ue4m3", 0x7E)])
@pytest.mark.parametrize("source", ["fp32", "float64"])
def test_inf_is_asked_within_a_run_too(fmt: str, code: int, source: str) -> None:
    """Beyond max, Inf and NaN give one code here, so that Inf is no end of a run."""
    result = check(
        lambda x: where(x, np.isposinf(x), code, fr.encode(x, fmt, overflow="nonsaturating")),
        fmt, source=source, overflow="nonsaturating",
    )  # fmt: skip
    assert result.report.failed == 1 and "(inf)" in result.report.lines[0], str(result)


def test_named_nan_codes_are_judged_by_their_bits() -> None:
    result = check(by("e4m3", nan=0x7F), "e4m3", nan=(0x7F, 0xFF))
    assert result.report.failed == 3 and "got=7F (NaN) want=FF" in str(result)
    assert check(by("e4m3", nan=(0x7F, 0xFF)), "e4m3", nan=(0x7F, 0xFF))
    mixed = check(
        lambda x: where(x, ~np.isnan(x) & (x > 464), 0xFF, fr.encode(x, "e4m3", overflow="nonsaturating", nan=0x7F)),
        "e4m3", overflow="nonsaturating", nan=0x7F,
    )  # fmt: skip
    assert mixed, "of an overflow any NaN is right, though the oracle joins its run with that of NaN"


def test_what_is_said_of_negatives_is_asked() -> None:
    """The file of the default is silent about negatives into e8m0."""
    assert check(by("e8m0", negative="abs"), "e8m0")
    result = check(by("e8m0", negative="abs"), "e8m0", negative="nan")
    assert not result and "equals negative='abs'" in str(result)
    assert check(by("e8m0"), "e8m0", negative="nan")


LAZY = "#include <stddef.h>\nvoid encode(const void *in, void *out, size_t n) { if (n > 1) *(char *)out = 0; }\n"


def test_a_row_of_ones_own_is_not_judged_by_its_name() -> None:
    row = dataclasses.replace(fr.get_format("e4m3"), bias=8)
    assert check(by(row), row) and not check(by("e4m3"), row)
    assert check(by("e4m3"), "e4m3") and not check(by(row), "e4m3")
    with pytest.raises(ValueError, match="no vectors for e4m3"):
        check(lambda codes: fr.decode(codes, "e4m3"), row, op="decode")


def test_a_library_that_leaves_results_unwritten_fails(library_of: Callable[[str], Path]) -> None:
    lazy = library_of(LAZY)
    result = check(library(lazy, "encode"), "e4m3")
    assert result.report.failed > 700 and "in=1D400000 (2.54109884e-21) got=A5" in str(result)
    none = library_of(LAZY.replace("n > 1", "n == 0"))
    result = check(library(none, "encode"), "e4m3")
    assert result.report.status == "error" and "no result was written" in str(result)


BEYOND = """
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
void encode(const void *in, void *out, size_t n) {
    (void)in;
    printf("%zu\\n", n); fflush(stdout);
    for (size_t i = 0; i <= n; i++) ((uint8_t *)out)[i] = 0;
}
"""


def test_a_library_that_writes_beyond_its_results(library_of: Callable[[str], Path]) -> None:
    beyond = library_of(BEYOND)
    assert "encode writes beyond its 768 results" in str(check(library(beyond, "encode"), "e4m3"))
    result = CliRunner().invoke(cli, ["check", ID, "--library", f"{beyond}:encode"])
    assert result.exit_code == 1 and "writes beyond its" in result.output, result.output
    assert "stderr: 768" in result.output  # what it prints is no result


def test_an_implementation_that_ends_python_is_no_pass() -> None:
    for scalar in (False, True):
        result = check(lambda x: sys.exit(0), "e4m3", scalar=scalar)
        assert result.report.status == "error" and "SystemExit: 0 for in=00000000" in str(result)


def test_a_batch_of_another_suite_is_refused() -> None:
    s, other = suite(ID), suite("decode.e4m3.f32.exact.none.tab")
    (batch,), (wrong,) = s.inputs(), other.inputs()
    for bad in (wrong, batch._replace(offset=100), batch._replace(bits=(batch.bits[0][:5],))):
        with pytest.raises(ValueError, match="are no batch of convert"):
            s.judge(bad, np.zeros(bad.bits[0].size, np.uint8))
    with pytest.raises(TypeError, match="batch must be one of inputs"):
        s.judge(3, [])  # type: ignore[arg-type]  # that is the question
    with pytest.raises(ValueError, match="768 booleans are wanted"):
        s.judge(batch, np.zeros(768, np.uint8), np.zeros(3, np.bool_))


def test_inputs_that_are_written_over_come_again() -> None:
    s = suite("convert.f64.e4m3.rne.sat.run")
    for batch in s.inputs():
        codes = fr.encode(batch.inputs[0], "e4m3", rounding="toward_zero")
        batch.inputs[0].fill(1)
        s.judge(batch, codes)
    assert "in=3FF0000000000000 (1)" not in str(s.report())
    (batch,) = s.inputs()
    assert len(np.unique(batch.bits[0])) == s.domain


@pytest.fixture
def masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Vectors of one table whose mask is silent, and is not what the manifest says."""
    base, name = golden.root(), "decode.e2m1.f32.exact.none.tab"
    row = dict(golden.find(name))
    path = row["path"].removesuffix("tab") + "msk"
    digits = bytes([1] * 16)
    facts = {"sha256": hashlib.sha256(digits).hexdigest(), "crc32": "00000000", "lines": 0}
    twin = row | {"id": name.removesuffix("tab") + "msk", "path": path, "shape": "msk"} | facts
    (tmp_path / row["path"]).parent.mkdir(parents=True)
    shutil.copy(base / row["path"], tmp_path / row["path"])
    (tmp_path / path).write_bytes(bytes(16))
    shutil.copy(base / "manifest.schema.json", tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"version": "1.0.0", "vectors": [row, twin]}), encoding="utf-8")
    monkeypatch.setattr(golden, "_CHECKOUT", tmp_path)
    monkeypatch.setattr(golden, "_INSTALLED", tmp_path)
    golden.manifest.cache_clear()
    yield tmp_path
    golden.manifest.cache_clear()


def test_a_corrupt_mask_is_refused(masked: Path) -> None:
    """All zeros would let every decoder pass."""
    name = "decode.e2m1.f32.exact.none.tab"
    with pytest.raises(CorruptError, match="msk: SHA-256 differs"):
        suite(name)
    with pytest.raises(ValueError, match="msk: SHA-256 differs"):
        export(name, "c")
    with pytest.raises(CorruptError, match="msk: SHA-256 differs"):  # and does not fall back on something else
        check(lambda codes: np.zeros(16, np.float32), "e2m1", op="decode")


# --- right ones that failed -------------------------------------------------------------------


@pytest.mark.parametrize("scalar", [False, True])
def test_an_error_where_nothing_is_asked_is_no_fault(scalar: bool) -> None:
    fn = (lambda x: int(fr.encode(x, "e2m1"))) if scalar else by("e2m1")  # NaN is an error by default
    result = check(fn, "e2m1", scalar=scalar)
    assert result, str(result)
    assert any("where nothing is asked it fails: ValueError" in note for note in result.report.notes)

    def not_large(x: Any) -> Any:
        if (np.abs(x) > 5).any():
            raise ValueError("too large")
        return fn(x)

    assert check(not_large, "e2m1", scalar=scalar).report.status == "error"  # about which something is asked


@pytest.mark.parametrize("fmt", [UNSIGNED, "uint8", "e8m0"], ids=str)
@pytest.mark.parametrize("negative", ["zero", "abs"])
def test_negatives_that_are_an_error_have_no_verdict(fmt: Any, negative: str) -> None:
    nan = {"nan": "zero"} if fmt != "e8m0" else {}
    for source in ("fp32", "float64") if fmt is UNSIGNED else ("fp32",):
        result = check(by(fmt, negative=negative, **nan), fmt, negative="error", source=source)
        assert result, str(result)
    wrong = check(lambda x: where(x, x == 0, 9, fr.encode(x, fmt, negative=negative, **nan)), fmt, negative="error")
    assert wrong.report.failed == 2, "of both zeros"
    assert check(by(fmt, negative="error", **nan), fmt, negative="error")


def test_nan_that_is_an_error_has_no_verdict() -> None:
    assert check(by("e4m3", nan="error"), "e4m3", nan="error")
    assert not check(by("e4m3", nan="error"), "e4m3")


def test_nan_is_open_though_negatives_give_the_same_code() -> None:
    """The oracle joins -Inf and -NaN, both 0, in one run."""
    assert check(by(UNSIGNED, nan="max"), UNSIGNED)
    assert not check(by(UNSIGNED, nan="max"), UNSIGNED, nan="zero")


def test_subnormals_of_float16_are_flushed_as_such() -> None:
    policies: Any = {"rounding": "toward_positive", "subnormals": "flush_input"}
    result = check(by("e5m2", **policies), "e5m2", source="fp16", **policies)
    assert result and result.report.judged == 1 << 16, str(result)
    smallest = np.array([1], np.uint16).view(np.float16)
    assert oracle.encode(float(smallest[0]), "e5m2", source="fp16", **policies) == 0


def test_an_array_of_another_library_that_fails() -> None:
    class Tensor:
        def __array__(self, *rest: Any, **more: Any) -> Array:
            raise RuntimeError("requires grad")

    assert "RuntimeError: requires grad" in str(check(lambda x: Tensor(), "e4m3"))


# --- what was said was not so -----------------------------------------------------------------


def test_a_list_of_some_runs_is_not_called_complete() -> None:
    assert suite("convert.f64.bf16.rne.nonsat.run").vectors.proof.startswith("the ends of 1024 of 65284 runs")
    assert "complete" in suite("convert.f64.e4m3.rne.sat.run").vectors.proof


def test_a_name_with_blanks() -> None:
    row = fr.Format("my odd [name", 5, exponent_bits=2, mantissa_bits=2, bias=1)
    text = str(check(by(row, rounding="toward_zero", nan="zero"), row)).splitlines()
    assert text[1].startswith("  in=3"), text


def test_arguments() -> None:
    for bad, error in ((-1, ValueError), ("a", TypeError), (True, TypeError)):
        with pytest.raises(error, match="seed must"):
            suite(ID, seed=bad)
        with pytest.raises(error, match="seed must"):
            check(by("e4m3"), fr.minifloat(3, 2), seed=bad)
    given: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
        ({"n_bits": 3}, ValueError, "n_bits=3: it is for stochastic rounding"),
        ({"rounding": "stochastic_a", "n_bits": "3", "random": 1}, TypeError, "n_bits must be an int"),
        ({"rounding": "stochastic_a", "n_bits": 3, "random": -1}, ValueError, "random must not be negative"),
        ({"rounding": "stochastic_a", "n_bits": 3, "random": 8}, ValueError, "8"),
    )
    for arguments, error, text in given:
        with pytest.raises(error, match=text):
            check(by("e4m3"), "e4m3", **arguments)
    with pytest.raises(ValueError, match="32 bits are too many"):
        check(by("fp32"), "fp32")
    with pytest.raises(ValueError, match="is a twin of a table"):
        suites("decode.e2m1.f32.exact.none.memh")
    with pytest.raises(TypeError, match="pattern must be a str"):
        suites(3)  # type: ignore[arg-type]  # that is the question
    for wrong, kind, name in ((None, "c", "vector_id"), (ID, [], "kind")):
        with pytest.raises(TypeError, match=f"{name} must be a str"):
            export(wrong, kind)  # type: ignore[arg-type]  # that is the question
    with pytest.raises(TypeError, match="symbol must be a str"):
        library("libc.so.6", 3)  # type: ignore[arg-type]  # that is the question


# --- streams and programs ---------------------------------------------------------------------


def answers(**policies: Any) -> bytes:
    stream = io.BytesIO()
    write_inputs(suite(ID), stream, False)
    return fr.encode(np.frombuffer(stream.getvalue(), "<f4"), "e4m3", **policies).tobytes()


def test_hex_of_every_spelling() -> None:
    """A byte order mark, Windows line ends, small letters, 0x, blank lines, no last newline."""
    good = answers()
    text = "\r\n".join(f"0x{code:02x}" if i % 3 else f"\r\n 00{code:02X} " for i, code in enumerate(good))
    assert judge_stream(suite(ID), io.BytesIO(b"\xef\xbb\xbf" + text.encode()), True)
    assert judge_stream(suite(ID), io.BytesIO(text.encode()), True)


@pytest.mark.parametrize("address", ["@5", "@G", "@", "@5 00"])
def test_results_elsewhere_in_a_memory(address: str) -> None:
    lines = [f"{code:02X}" for code in answers()]
    assert judge_stream(suite(ID), io.BytesIO("\n".join([*lines[:4], "@4", *lines[4:]]).encode()), True)
    found = judge_stream(suite(ID), io.BytesIO("\n".join([*lines[:4], address, *lines[4:]]).encode()), True)
    assert found.status == "error" and "line 5: " in found.message
    assert "is not @4, the address of the next result" in found.message


class Endless(io.RawIOBase):
    """Output without an end."""

    def __init__(self, block: bytes) -> None:
        self.block = block

    def read(self, size: int = -1) -> bytes:
        return self.block


@pytest.mark.parametrize(
    ("block", "as_hex", "text"),
    [
        (bytes(1 << 18), False, f"too many results: more than {MORE} beyond 768"),
        (b"00 " * (1 << 14) + b"\n", True, "too many results"),
        (b"\n" * (1 << 20), True, "too many results"),
        (b"0" * (1 << 18), True, f"line 1 has more than {LONGEST} bytes"),
    ],
)
def test_endless_output_ends(block: bytes, as_hex: bool, text: str) -> None:
    found = judge_stream(suite(ID), Endless(block), as_hex)  # type: ignore[arg-type]  # as much of a stream as is used
    assert found.status == "error" and text in found.message


@pytest.mark.parametrize("also", ["cat >/dev/null", "sleep 20", "echo zz"])
def test_a_program_that_takes_all_inputs_or_none(tmp_path: Path, also: str) -> None:
    """Its own boundaries cannot be asked for; the verdict stands."""
    codes = answers(rounding="nearest_away")
    (tmp_path / "out").write_text("".join(f"{code:02X}\n" for code in codes), encoding="ascii")
    script = f'[ "$(wc -l)" -eq 768 ] && cat {tmp_path}/out || {also}'
    found = judge_program(suite(ID), Program(["sh", "-c", script], as_hex=True, timeout=1.0))
    assert found.status == "fail" and "equals rounding='nearest_away'" in str(found), str(found)


def test_the_children_of_a_silent_program_end_with_it(tmp_path: Path) -> None:
    """They would hold the pipes, and run on."""
    script = f"sleep 60 & echo $! > {tmp_path}/pid; wait"
    found = judge_program(suite(ID), Program(["sh", "-c", script], timeout=0.5))
    assert found.status == "timeout"
    state = Path(f"/proc/{(tmp_path / 'pid').read_text(encoding='ascii').strip()}/stat")
    for _ in range(100):  # one that is killed may run for a moment
        if not state.exists() or state.read_text(encoding="ascii").split()[2] in "ZX":
            return
        time.sleep(0.05)
    pytest.fail("it runs on")


def test_closed_streams_are_said(tmp_path: Path) -> None:
    for line, text in ((f"check {ID} <&-", "nothing is given"), (f"gen {ID} >&-", "stdout is closed")):
        command = f'"{sys.executable}" -m feather_ref {line}'
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and text in done.stderr


@pytest.mark.parametrize("arguments", [("--timeout", "nan"), ("--timeout", "inf")])
def test_seconds_are_numbers(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, ["check", ID, "--run", "cat", *arguments])
    assert result.exit_code == 2 and "--timeout" in result.output


def test_a_device_is_not_replaced() -> None:
    result = CliRunner().invoke(cli, ["gen", ID, "-o", "/dev/null"])
    assert result.exit_code == 2 and not Path("/dev/null").is_file()


# --- conform ----------------------------------------------------------------------------------


def own(make: Any) -> Adapter:
    return Adapter("own", {"own": "1"}, ("fp32",), {("convert", "e4m3"): frozenset({"rne.sat"})}, make)


def test_an_adapter_that_makes_nothing_is_an_error_of_its_suite() -> None:
    found = conform.run_one(own(lambda question: {}["no"]), ID, conform.Selection())
    assert found.report.status == "error" and "makes no function: KeyError" in found.report.message
    assert conform.exit_code([found]) == 2


@pytest.mark.parametrize("result", [None, 3, "text", [1, 2]])
def test_the_fingerprint_bears_results_of_any_kind(result: Any) -> None:
    adapter = own(lambda question: lambda x: result)
    encoders = conform.encoders(adapter, [ID])
    assert conform.profiles(encoders) == []
    assert [trait.choice for trait in conform.traits(encoders)] == ["error"]


@pytest.mark.parametrize(
    ("text", "error"), [("import sys; sys.exit(0)", "SystemExit: 0"), ("1 +", "SyntaxError"), ("1 / 0", "ZeroDivision")]
)
def test_a_module_that_fails_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, error: str
) -> None:
    (tmp_path / "broken_adapter.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "broken_adapter", raising=False)
    result = CliRunner().invoke(cli, ["conform", "--impl", "broken_adapter:adapter"])
    assert result.exit_code == 2 and error in result.output


def test_versions_are_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Adapter("own", {"own": 1}, ("fp32",), {}, lambda question: None)  # type: ignore[dict-item]  # the question
    monkeypatch.setattr(conform, "mine", made, raising=False)
    with pytest.raises(TypeError, match="versions must be names and texts"):
        adapters.load("feather_ref.conformance.conform:mine")


def signed(rows: list[dict[str, Any]]) -> str:
    """Rows of a report with a footer that fits them."""
    body = "".join(json.dumps(row) + "\n" for row in rows)
    count = sum(row["kind"] == "suite" for row in rows)
    footer = {"kind": "footer", "suites": count, "statuses": {}, "sha256": hashlib.sha256(body.encode()).hexdigest()}
    return body + json.dumps(footer) + "\n"


def test_reports_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    run = ["conform", "--impl", "numpy", "--suite", "decode.f16.*", "--json", str(path)]
    assert CliRunner().invoke(cli, run).exit_code == 0
    header, *suites_, _ = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    other = [row | {"id": "decode.e4m3.f32.exact.none.tab"} if row["kind"] == "suite" else row for row in suites_]
    lying = [row | {"failed": 3} if row.get("status") == "pass" else row for row in suites_]
    bad: tuple[tuple[bytes, str], ...] = (
        (b"\xff\xfe\x00", "no report: 'utf-8'"),
        (b"[" * 100_000, "line 1 is no line of a report"),
        (signed([header, *other]).encode(), "are not those that were selected"),
        (signed([header, *lying]).encode(), "a pass with 3 of"),
        (signed([header | {"shard": []}, *suites_]).encode(), "selection or shard is none"),
        (signed([header | {"selection": {}}, *suites_]).encode(), "selection or shard is none"),
    )
    for data, text in bad:
        path.write_bytes(data)
        result = CliRunner().invoke(cli, ["conform", "--merge", str(path)])
        assert result.exit_code == 2 and text in result.output, (text, result.output)
    path.write_text(signed([header, *suites_]), encoding="utf-8")
    assert CliRunner().invoke(cli, ["conform", "--merge", str(path)]).exit_code == 0
    result = CliRunner().invoke(cli, ["conform", "--merge", str(path), "--json", str(tmp_path / "all")])
    assert result.exit_code == 2 and "and nothing else" in result.output
