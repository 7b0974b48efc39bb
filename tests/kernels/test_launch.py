"""From a kernel to a cubin, where a toolkit is installed; and the cache."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from feather_kernels import _target, driver, launch
from feather_kernels.launch import Cubin, Job, ToolkitError
from kernel_inputs import needs_toolkit

ENVIRONMENT = {**os.environ, "FEATHER_TARGET": "simulator"}  # which the command does not mind


def compiled(folder: Path, *arguments: str) -> list[dict[str, object]]:
    """What the command says of every cubin."""
    command = [sys.executable, "-W", "error", "-m", "feather_kernels", "compile", "--json", "--cache", str(folder)]
    done = subprocess.run([*command, *arguments], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@needs_toolkit
def test_conversions_for_old_and_new_architectures(tmp_path: Path) -> None:
    """By the command; products, and all formats: test_cubins.py."""
    found = compiled(tmp_path, "--archs", "75,120", "--formats", "e4m3", "--kernels", "pack,unpack")
    assert [cubin["arch"] for cubin in found] == ["sm_75", "sm_75", "sm_120", "sm_120"]
    assert {(cubin["spills"], cubin["stack"]) for cubin in found} == {(0, 0)}


@needs_toolkit
def test_the_cache_is_keyed_by_content(tmp_path: Path) -> None:
    """A second run makes no file and reads the same; a file that is gone is made again, under its name."""
    arguments = ("--archs", "90", "--formats", "fp32", "--kernels", "unpack")
    first = compiled(tmp_path, *arguments)
    files = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert compiled(tmp_path, *arguments) == first
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files
    cubin = next(tmp_path.glob("*.cubin"))
    code = cubin.read_bytes()
    cubin.unlink()
    assert compiled(tmp_path, *arguments) == first
    assert cubin.read_bytes() == code


@needs_toolkit
def test_an_architecture_that_the_toolkit_left_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "feather_kernels", "compile", "--archs", "61", "--formats", "e4m3"]
    command += ["--kernels", "unpack", "--cache", str(tmp_path)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    version = driver.toolkit_version()
    if version is not None and version[0] >= 13:
        assert done.returncode == 1
        assert "compute capability 6.1" in done.stderr
        assert "feather-ref[cuda12]" in done.stderr


@needs_toolkit
def test_an_architecture_that_the_toolkit_does_not_know_yet(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "feather_kernels", "compile", "--archs", "990", "--formats", "e4m3"]
    command += ["--kernels", "unpack", "--cache", str(tmp_path)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("does not know compute capability 99.0: install a newer one")


@needs_toolkit
def test_a_gpu_newer_than_the_toolkit_takes_ptx_of_the_newest(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from feather_kernels import jobs, launch; import feather_ref as fr\n"
        "print(*(launch.links(cc) for cc in ((9, 0), (10, 0), (99, 0))))\n"
        "job = jobs.unpack_job(fr.get_format('e4m3'), 'fp32', 8, 0, True, True, False)\n"
        "print(launch.compile_job(job, '990', Path(sys.argv[1]), portable=True).path.read_text())"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(
        command, env={**ENVIRONMENT, "FEATHER_TARGET": "gpu"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True True False\n")
    assert ".target sm_1" in done.stdout


# --- without a toolkit ------------------------------------------------------------------------


@pytest.mark.skipif(not _target.SIMULATOR, reason="kernels are loaded for the GPU")
def test_the_simulator_does_not_compile(tmp_path: Path) -> None:
    job = Job("nothing", lambda: None, ("u32*",), "")
    with pytest.raises(ToolkitError, match="set FEATHER_TARGET=gpu"):
        launch.compile_job(job, "90", tmp_path)


@pytest.mark.parametrize(("text", "cc"), [("sm_90", (9, 0)), ("120", (12, 0)), ("7.5", (7, 5)), (86, (8, 6))])
def test_architectures_have_many_spellings(text: str | int, cc: tuple[int, int]) -> None:
    assert launch.parse_arch(text) == cc


@pytest.mark.parametrize("text", ["", "hopper", "9", "sm_9x", "1234"])
def test_no_architecture(text: str) -> None:
    with pytest.raises(ValueError, match="is no architecture; say sm_90, 90 or"):
        launch.parse_arch(text)


def test_facts_of_the_assembler() -> None:
    log = "144 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads\nUsed 255 registers, 512 bytes smem"
    assert launch._facts(log) == (255, 32, 144, 512)


def test_an_index_without_its_file_is_no_hit(tmp_path: Path) -> None:
    index = tmp_path / "a.txt"
    assert launch._read_index(index, tmp_path) is None
    index.write_text("b.cubin feather_x sm_90 30 0 0 0")
    assert launch._read_index(index, tmp_path) is None
    (tmp_path / "b.cubin").write_bytes(b"code")
    assert launch._read_index(index, tmp_path) == Cubin(tmp_path / "b.cubin", "feather_x", "sm_90", 30, 0, 0, 0)


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        launch._write(tmp_path / "taken", b"code")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_log_that_says_nothing_is_no_log_without_spills() -> None:
    with pytest.raises(launch.ToolkitError, match="does not say how many registers"):
        launch._facts("")
