"""Older targets and the GPU's own conversions: what can be said of them without a GPU, and what one says of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import feather_ref as fr
from feather_kernels import _target, driver, gpu, launch, natives
from feather_kernels.launch import Job
from feather_kernels.natives import NATIVES
from kernel_inputs import needs_toolkit

on_gpu = pytest.mark.skipif(_target.SIMULATOR, reason="there is no GPU")


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch) -> object:
    """A driver that shows a GPU of compute capability 9.0."""
    device = SimpleNamespace(compute_capability="90")
    runtime = SimpleNamespace(driverGetVersion=lambda: 13000, getDevice=lambda: 0)
    fake = SimpleNamespace(cuda=SimpleNamespace(Device=lambda number: device, runtime=runtime))
    monkeypatch.setattr(driver, "cupy", lambda: fake)
    monkeypatch.setattr(driver, "toolkit_version", lambda: (13, 0))
    gpu.capability.cache_clear()
    yield fake
    gpu.capability.cache_clear()


def test_an_older_architecture_may_be_asked_for(h200: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_target, "ARCH", None)
    assert gpu.capability(0) == (9, 0)
    gpu.capability.cache_clear()
    monkeypatch.setattr(_target, "ARCH", "7.5")
    assert gpu.capability(0) == (7, 5)


def test_a_newer_one_may_not(h200: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_target, "ARCH", "100")
    with pytest.raises(driver.GpuError, match=r"FEATHER_ARCH=100 is newer than this GPU, which has 9\.0"):
        gpu.capability(0)


PTX = ".version 8.0\n.visible .entry mangled(\n ld.global.nc.L1::no_allocate.v4.u32 {a, b, c, d}, [p];"


@pytest.mark.parametrize(("arch", "hint"), [("61", False), ("70", True)])
def test_portable_kernels_are_ptx_without_what_pascal_lacks(
    arch: str, hint: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_target, "SIMULATOR", False)
    monkeypatch.setattr(_target, "cuda", SimpleNamespace(compile_ptx=lambda *_, **__: (PTX, None)))
    monkeypatch.setattr(launch, "_signature", lambda arguments: None)
    job = Job("one", lambda: SimpleNamespace(py_func=None), ("i64",), "key")
    made = launch.compile_job(job, arch, tmp_path, portable=True)
    assert (made.path.suffix, made.entry, made.registers) == (".ptx", "feather_one", 0)
    assert ("L1::no_allocate" in made.path.read_text()) == hint
    assert "feather_one(" in made.path.read_text()
    assert launch.compile_job(job, arch, tmp_path, portable=True) == made


# --- the GPU's own conversions ----------------------------------------------------------------


def test_every_instruction_is_there_once_and_of_known_formats() -> None:
    assert len({native.text for native in NATIVES}) == len(NATIVES)
    for native in NATIVES:
        assert {native.source, native.target} <= {*fr.FORMATS}
        assert native.text + " " in natives.ptx_of(native, native.since)
        if not native.decodes:
            fr.encode(np.ones(1, np.float32), native.target, **native.rules)  # rules that the codec knows


@needs_toolkit
def test_every_instruction_assembles_for_the_first_that_has_it() -> None:
    """In a process of its own, since it loads the compiler."""
    code = (
        "import json; from feather_kernels import natives\n"
        "size = lambda n: len(natives.assemble(n, n.since if n.since != '53' else '75'))\n"
        "print(json.dumps({n.text: size(n) for n in natives.NATIVES}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "FEATHER_TARGET": "gpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {*json.loads(done.stdout)} == {native.text for native in NATIVES}


@on_gpu
@pytest.mark.parametrize(
    "native", [native for native in NATIVES if native.source != "fp32"], ids=lambda native: native.text
)
def test_instructions_on_16_bits_and_less_are_the_codec(native: natives.Native) -> None:
    if not natives.runs_here(native):
        pytest.skip(f"sm_{native.since} has it")
    assert natives.judge(native).different == 0
