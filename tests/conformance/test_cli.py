"""The help texts of the four commands: every example is run; corrupt vectors are refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import feather_ref as fr
from feather_ref import golden
from feather_ref._cli_conform import COMMANDS
from feather_ref.cli import cli
from feather_ref.conformance import CorruptError, suite, suites
from feather_ref.golden import _fields

ID = "convert.f32.e4m3.rne.sat.run"
TAB = "decode.e4m3.f32.exact.none.tab"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, prog_name="feather-ref")


def examples() -> Iterator[str]:
    for command in COMMANDS:
        lines = (command.help or "").splitlines()
        yield from (line.strip()[2:] for line in lines if line.strip().startswith("$ "))


@pytest.fixture
def folder(tmp_path: Path, dut: Path, shared: Path, quantizer: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the examples name, and a feather-ref to call."""
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "feather-ref"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m feather_ref "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(Path(fr.__file__).parent.parent))
    shutil.copy(dut, "dut")
    shutil.copy(shared, "libdut.so")
    shutil.copy(quantizer, "quantizer")
    for name, options in (("out.bin", ""), ("out.hex", "--hex")):
        given = f"feather-ref gen {ID} {options} | ./dut none {'hex' if options else ''} > {name}"
        subprocess.run(given, shell=True, check=True)
    shard = ("conform", "--impl", "ml_dtypes", "--suite", "decode.*")
    assert run(*shard, "--shard", "2/2", "--json", "b.jsonl").exit_code == 0  # an example makes the other one
    return tmp_path


def test_every_example_of_every_help_text(folder: Path) -> None:
    lines = list(examples())
    assert len(lines) >= 12
    assert {line.split()[1] for line in lines} == {command.name for command in COMMANDS}
    for line in lines:
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False, cwd=folder)
        assert done.returncode == 0, (line, done.stdout, done.stderr)


def test_the_list_of_commands_is_grouped() -> None:
    text = run("--help").output
    for title, names in (("Numbers and codes:", ("encode", "explain")), ("Conformance:", ("check", "conform", "gen"))):
        part = text.split(title)[1].split("\n\n")[0]
        for name in names:
            assert f"\n  {name} " in part
    listed = [line.split()[0] for line in text.split("Options:")[1].splitlines() if line.startswith("  ")]
    assert set(cli.commands) <= set(listed)


def test_suites_lists() -> None:
    assert run("suites", "convert.f32.e4m3.rne.*sat.run").output.splitlines() == [
        "convert.f32.e4m3.rne.nonsat.run  must  2^32 inputs",
        "convert.f32.e4m3.rne.sat.run     must  2^32 inputs",
    ]
    assert json.loads(run("suites", "convert.f64.e4m3.rne.sat.run", "--json").output)[0]["level"] == "must"
    assert run("suites", "nothing").exit_code == 2
    assert len(suites()) == len(set(suites())) > 1000


def test_the_library_needs_numpy_alone() -> None:
    program = "import sys, feather_ref.conformance; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"click", "rich", "ml_dtypes", "gfloat", "torch", "hypothesis"}


# --- corrupt vectors --------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of vectors that may be damaged: two files of the real one."""
    base = golden.root()
    chosen = [golden.find(name) for name in (ID, TAB)]
    for row in chosen:
        (tmp_path / row["path"]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(base / row["path"], tmp_path / row["path"])
    shutil.copy(base / "manifest.schema.json", tmp_path)
    manifest = json.loads((base / "manifest.json").read_text(encoding="utf-8"))
    write(tmp_path, {**manifest, "vectors": [dict(row) for row in chosen]})
    monkeypatch.setattr(golden, "_CHECKOUT", tmp_path)
    monkeypatch.setattr(golden, "_INSTALLED", tmp_path)
    golden.manifest.cache_clear()
    yield tmp_path
    golden.manifest.cache_clear()


def write(folder: Path, manifest: dict[str, Any]) -> None:
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def edited(key: str, value: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        for row in manifest["vectors"]:
            row[key] = value
        write(folder, manifest)

    return edit


def flipped(vector_id: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / golden.find(vector_id)["path"]
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(bytes(data))

    return edit


def without(key: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        for row in manifest["vectors"]:
            del row[key]
        write(folder, manifest)

    return edit


def removed(vector_id: str) -> Callable[[Path], None]:
    return lambda folder: (folder / golden.find(vector_id)["path"]).unlink()


DAMAGE: tuple[tuple[str, Callable[[Path], None], str], ...] = (
    ("a bit of a run file", flipped(ID), "SHA-256 differs from the manifest"),
    ("a file is gone", removed(ID), "No such file"),
    ("a wrong hash", edited("sha256", "0" * 64), "SHA-256 differs from the manifest"),
    ("an unknown field", edited("colour", "red"), "unknown fields in the manifest: colour"),
    ("a field less", without("crc32"), "missing fields in the manifest: crc32"),
    ("no schema", lambda folder: (folder / "manifest.schema.json").unlink(), "manifest.schema.json"),
)


@pytest.mark.parametrize(("what", "damage", "text"), DAMAGE, ids=[row[0] for row in DAMAGE])
def test_corrupt_vectors_are_exit_code_2(copy: Path, what: str, damage: Any, text: str) -> None:
    assert run("gen", ID, "--hex").exit_code == 0
    damage(copy)
    golden.manifest.cache_clear()
    _fields.cache_clear()
    with pytest.raises(CorruptError, match=text):
        suite(ID)
    for command in (("gen", ID, "--hex"), ("check", ID, str(copy / "manifest.json"))):
        result = run(*command)
        assert result.exit_code == 2 and text in result.output, (command, result.output)


def test_a_corrupt_table_stops_a_run(copy: Path) -> None:
    assert run("conform", "--impl", "ml_dtypes").exit_code == 0
    flipped(TAB)(copy)
    result = run("conform", "--impl", "ml_dtypes", "--json", str(copy / "r.jsonl"))
    assert result.exit_code == 2 and "SHA-256 differs" in result.output
    assert not (copy / "r.jsonl").exists()


def test_a_broken_manifest_is_exit_code_2(copy: Path) -> None:
    (copy / "manifest.json").write_text("{", encoding="utf-8")
    golden.manifest.cache_clear()
    for command in (("gen", ID), ("suites",), ("conform", "--impl", "numpy")):
        assert run(*command).exit_code == 2, command


def test_no_vectors_is_no_pass(copy: Path) -> None:
    write(copy, {"version": "1.0.0", "vectors": []})
    golden.manifest.cache_clear()
    assert run("conform", "--impl", "ml_dtypes").exit_code in (2, 3)
    assert run("check", ID, str(copy / "manifest.json")).exit_code == 2


@pytest.mark.parametrize("text", ["e5m2", "convert.f32.e5m2", "float8_e5m2", "nothing"])
@pytest.mark.parametrize("command", ["gen", "check"])
def test_a_format_in_place_of_an_id(command: str, text: str) -> None:
    result = run(command, text)
    assert result.exit_code == 2
    assert ("try: feather-ref suites 'convert.f32.e5m2.*'" in result.output) == (text != "nothing"), result.output


def test_a_program_of_this_folder(dut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(dut, "dut")
    result = run("check", ID, "--run", "dut")
    assert result.exit_code == 2 and "did you mean ./dut?" in result.output, result.output
    assert "did you mean" not in run("check", ID, "--run", "no_dut").output
