"""Kernels of every format compile, and spill nothing: what CI compiles of the matrix of `make cubins`.

    every row, for ARCH                        gemv, and of plain rows pack and unpack
    one row a family, for every architecture   gemv
    one row, for every architecture            columns, which need instructions that are new

ARCH is that of the figures in kernels/README.md.  A test is a kernel, so that the name of one that fails says
which format, architecture and kernel it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import pytest

import cubins
import feather_ref as fr
from feather_kernels import _target, matrix
from feather_kernels.matrix import Compiled
from kernel_inputs import needs_toolkit

ARCH = "90"
OTHERS = tuple(arch for arch in matrix.ARCHS[13] if arch != ARCH)
# 8, 6, 4 and 16 bits; integers; a table; blocks of MX and of NVFP4.
FAMILIES = ("e4m3", "e3m2", "e2m1", "fp16", "int8", "nf4", "mxfp8_e4m3", "nvfp4")
Compile = Callable[["Case"], list[Compiled]]


class Case(NamedTuple):
    """What a test compiles."""

    row: fr.Format | fr.BlockFormat
    arch: str
    kernel: str

    def __str__(self) -> str:
        return f"{self.row.name}-{self.kernel}-sm_{self.arch}"


CASES = [
    *(Case(row, ARCH, kernel) for kernel in ("pack", "gemv", "unpack") for row in fr.FORMATS.values()),
    *(Case(row, ARCH, "gemv") for row in fr.BLOCK_FORMATS.values()),
    *(Case(matrix.row_of(name), arch, "gemv") for name in FAMILIES for arch in OTHERS),
    *(Case(matrix.row_of("e4m3"), arch, "columns") for arch in (*OTHERS, ARCH)),
]


@pytest.fixture(scope="session")
def compile_case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compile]:
    """One process for all tests, as Numba takes seconds to load."""
    folder = tmp_path_factory.mktemp("cubins")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:

        def compile_case(case: Case) -> list[Compiled]:
            with _target.for_gpu():  # the first call starts the process
                done = pool.submit(cubins.compile_one, case.row, case.arch, case.kernel, folder)
            return done.result()

        yield compile_case


@needs_toolkit
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_kernel_compiles_and_spills_nothing(case: Case, compile_case: Compile) -> None:
    try:
        found = compile_case(case)
    except RuntimeError as error:
        pytest.fail(f"{case.kernel} of {case.row.name} does not compile for sm_{case.arch}: {error}", pytrace=False)
    assert found, "no kernel was compiled"
    for cubin in found:
        said = f"{cubin.kernel} for {cubin.arch}: {cubin.registers} registers, {cubin.spills} bytes spilled"
        assert cubin.arch == f"sm_{case.arch}", said
        assert (cubin.spills, cubin.stack) == (0, 0), f"{said}, {cubin.stack} bytes of stack"


def test_every_format_is_compiled() -> None:
    """By its product; a plain one by its conversions too."""
    made = {(case.row.name, type(case.row), case.kernel) for case in CASES if case.arch == ARCH}
    for row in matrix.every_row():
        for kernel in ("gemv",) if isinstance(row, fr.BlockFormat) else ("gemv", "pack", "unpack"):
            assert (row.name, type(row), kernel) in made
