"""precompile: it makes the kernels that `prepare` takes, and says what it cannot make."""

import os
from pathlib import Path

import numpy as np
import pytest

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import _target, calls, driver, launch, matrix, products
from feather_kernels.launch import parse_arch
from kernel_inputs import needs_toolkit

SIZES = ((1, 256), (256, 256), (300, 4096), (2048, 700), (9000, 256))


@pytest.mark.skipif(not _target.SIMULATOR, reason="the GPU here has one architecture")
@pytest.mark.parametrize("arch", ["75", "90"])
@pytest.mark.parametrize("name", ["e4m3", "e2m1", "uf11", "mxfp8_e4m3", "nvfp4"])
def test_what_prepare_takes_is_among_what_is_compiled(monkeypatch: pytest.MonkeyPatch, name: str, arch: str) -> None:
    monkeypatch.setattr(calls, "check_size", lambda numbers: None)
    monkeypatch.setattr(products, "_multiprocessors", lambda: matrix.MULTIPROCESSORS[arch])
    monkeypatch.setattr(products, "_native", lambda: parse_arch(arch) >= matrix.E4M3_SINCE)
    monkeypatch.setattr(products, "_capability", lambda: parse_arch(arch))
    blocks = name in fr.BLOCK_FORMATS
    fmt = fr.get_block_format(name) if blocks else fr.get_format(name)
    jobs = matrix.prepared_jobs(fmt, arch)
    taken = set()
    for n, k in SIZES:
        numbers = np.ones((n, k), np.float32)
        W = fr.quantize_blocks(numbers, name) if blocks else fr.pack_tensor(numbers, name)
        job = fk.prepare(W)._jobs[True]
        assert job in jobs, (n, k)
        taken.add(job.key)
    assert 1 <= len(taken) <= len(jobs)


def test_sizes_leave_out_what_they_do_not_need() -> None:
    every = matrix.prepared_jobs(fr.get_format("e4m3"), 90)
    some = matrix.prepared_jobs(fr.get_format("e4m3"), 90, sizes=[(16384, 16384)])
    assert len(some) == 2 < len(every)  # with NaN and without
    assert {job.key for job in some} < {job.key for job in every}


def test_codes_that_may_be_nan_have_kernels_of_their_own() -> None:
    names = [job.name for job in matrix.prepared_jobs(fr.get_format("e4m3"), 90)]
    assert any(name.endswith("f") for name in names)
    assert not all(name.endswith("f") for name in names)


def test_every_plain_format_is_one_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """mxint8 is the name of a block format, too."""
    seen: list[object] = []
    monkeypatch.setattr(driver, "toolkit_version", lambda: (13, 0))
    monkeypatch.setattr(matrix, "compile_all", lambda tasks, processes: seen.extend(task.fmt for task in tasks) or [])
    names = [*fr.FORMATS, "mxfp4", fr.get_block_format("mxint8")]
    fk.precompile([90], names, kernels=["prepared"], progress=False)
    assert seen == [*fr.FORMATS.values(), fr.get_block_format("mxfp4"), fr.get_block_format("mxint8")]


def test_bad_arguments_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "toolkit_version", lambda: (13, 0))
    for arguments, text in (
        ({"archs": ["hopper"]}, "'hopper' is no architecture"),
        ({"formats": ["e9m9"]}, "e9m9"),
        ({"formats": ["e4m3"], "kernels": ["gemm"]}, "kernels: 'gemm' is none of gemv, .*, prepared"),
    ):
        with pytest.raises(ValueError, match=text):
            fk.precompile(**arguments)
    monkeypatch.setattr(driver, "toolkit_version", lambda: None)
    with pytest.raises(launch.ToolkitError, match=r"no CUDA toolkit to compile with: install feather-ref\[cuda13\]"):
        fk.precompile(["90"], ["e4m3"])


def test_processes_for_the_gpu_leave_this_one_as_it_was() -> None:
    before = os.environ.get("FEATHER_TARGET")
    with pytest.raises(KeyError), _target.for_gpu():
        assert os.environ["FEATHER_TARGET"] == "gpu"
        raise KeyError
    assert os.environ.get("FEATHER_TARGET") == before


@needs_toolkit
def test_a_second_time_is_read_from_the_disk(tmp_path: Path) -> None:
    first = fk.precompile([90], ["e4m3"], kernels=["unpack"], folder=tmp_path, progress=False)
    files = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert [compiled.arch for compiled in first] == ["sm_90"]
    assert fk.precompile([90], ["e4m3"], kernels=["unpack"], folder=tmp_path, progress=False) == first
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files
