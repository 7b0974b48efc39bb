"""The broken converters, compiled once."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

DUTS = Path(__file__).parent / "duts"
SOURCE, BLOCKS = DUTS / "dut.c", DUTS / "blocks.c"


def compiled(folder: Path, name: str, *options: str, source: Path = SOURCE) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no C compiler")
        pytest.skip("needs a C compiler")
    output = folder / name
    subprocess.run([compiler, "-O1", "-Wall", "-Werror", *options, str(source), "-o", str(output), "-lm"], check=True)
    return output


@pytest.fixture(scope="session")
def dut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("dut"), "dut")


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("shared"), "libdut.so", "-shared", "-fPIC")


@pytest.fixture(scope="session")
def quantizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that quantizes mxfp4 blocks."""
    return compiled(tmp_path_factory.mktemp("blocks"), "quantizer", source=BLOCKS)


@pytest.fixture(scope="session")
def quantizer_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("blocks"), "libblocks.so", "-shared", "-fPIC", source=BLOCKS)


@pytest.fixture
def library_of(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a shared library of a C text."""

    def make(text: str) -> Path:
        source = tmp_path / "own.c"
        source.write_text(text, encoding="utf-8")
        return compiled(tmp_path, "own.so", "-shared", "-fPIC", source=source)

    return make
