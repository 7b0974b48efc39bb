"""python -m feather_kernels: what it says without a GPU, and that its self-test can fail."""

import numpy as np
import pytest
from click.testing import CliRunner

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


def test_the_self_test_of_a_format() -> None:
    found = selftest.of_format("e2m1")
    names = [name for name, _ in found]
    assert [name.split()[0] for name in names[:8]] == ["decode", "encode", *["pack", "unpack"] * 3]
    assert {"gemv e2m1 float16", "gemv e2m1 float32"} <= {*names}
    assert all(right for _, right in found)


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
    assert dict(selftest.of_format("e2m1"))["decode e2m1"] is False
