"""python -m feather_kernels: what it says without a GPU, and that its self-test can fail."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import feather_ref as fr
from feather_kernels import _target, selftest
from feather_kernels.__main__ import main


def test_help_names_the_commands() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert all(command in result.output for command in ("bench", "compile", "selftest"))


@pytest.mark.skipif(not _target.SIMULATOR, reason="there is something to measure")
def test_bench_needs_a_gpu() -> None:
    result = CliRunner().invoke(main, ["bench", "--quick"])
    assert result.exit_code == 1
    assert result.output == "Error: there is nothing to measure without a GPU\n"


@pytest.mark.skipif(not _target.SIMULATOR, reason="there is something to judge")
def test_natives_needs_a_gpu() -> None:
    result = CliRunner().invoke(main, ["natives"])
    assert (result.exit_code, result.output) == (1, "Error: there is nothing to judge without a GPU\n")


by_itself = pytest.mark.skipif(not _target.SIMULATOR, reason="the self-test runs by itself")


@by_itself
def test_the_self_test_of_a_format() -> None:
    found = selftest.of_format("e2m1")
    names = [name for name, _ in found]
    assert [name.split()[0] for name in names[:8]] == ["decode", "encode", *["pack", "unpack"] * 3]
    assert {"gemv e2m1 float16", "gemv e2m1 float32"} <= {*names}
    assert all(right for _, right in found)


@by_itself
def test_the_self_test_of_some_formats() -> None:
    result = CliRunner().invoke(main, ["selftest", "--formats", "int2", "--json"])
    assert result.exit_code == 0
    assert '"wrong": []' in result.output
    result = CliRunner().invoke(main, ["selftest", "--formats", "e9m9"])
    assert result.exit_code == 1
    assert "unknown format 'e9m9'" in result.output


def test_the_self_test_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = selftest.fk.decode
    monkeypatch.setattr(selftest.fk, "decode", lambda codes, row: -np.asarray(wrong(codes, row)))
    assert next(selftest._codes(fr.get_format("e2m1"))) == ("decode e2m1", False)


@pytest.mark.parametrize("command", ["selftest", "compile"])
def test_no_format_is_not_all_right(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--formats", " ,"])
    assert (result.exit_code, result.output) == (1, "Error: ' ,' names nothing; names are separated by commas\n")


READ = {"work": "read", "us": 1.0, "gbs": 4000.0}
ROW = {"work": "gemv", "format": "e4m3", "n": 1000, "k": 1000, "us": 0.25, "gbs": 3000.0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        "{}",
        *(json.dumps({"rows": [READ, {**ROW, **wrong}], "machine": {"gpu": "?"}}) for wrong in (
            {"us": 0}, {"us": -1}, {"n": 10**400}, {"work": 3},
        )),
        json.dumps({"rows": [{**READ, "gbs": -1.0}, ROW], "machine": {"gpu": "?"}}),
    ],
    ids=["empty", "deep", "none", "no time", "less", "huge", "no name", "no reading"],
)  # fmt: skip
def test_a_file_that_has_no_figures(tmp_path: Path, text: str) -> None:
    pytest.importorskip("matplotlib")
    figures, picture = tmp_path / "a.json", tmp_path / "a.svg"
    figures.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(main, ["plot", str(figures), str(picture)])
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {figures}: no figures of a bench: ")
    assert not picture.exists()


def test_a_picture_needs_its_folder(tmp_path: Path) -> None:
    figures, picture = tmp_path / "a.json", tmp_path / "none" / "a.svg"
    figures.write_text("{}", encoding="utf-8")
    result = CliRunner().invoke(main, ["plot", str(figures), str(picture)])
    assert result.exit_code == 1
    assert f"{picture} cannot be written: there is no folder {picture.parent}" in result.output
