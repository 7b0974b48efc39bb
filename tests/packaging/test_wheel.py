"""The wheel, installed beside the oldest dependencies that we promise, with the source out of reach."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
VERIFY = Path(__file__).with_name("verify_installed.py")
GOLDEN = ROOT / "data" / "golden"

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints; the test fails with its output where it does not end well."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def oldest_core() -> list[str]:
    """The dependencies at their lower bounds; the numpy bound must be among them."""
    pins = run(sys.executable, ROOT / "tools" / "lowest.py", cwd=ROOT).split()
    assert "numpy==2.0" in pins, pins
    return pins


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_name_is_pure(wheel: Path) -> None:
    assert re.fullmatch(r"feather_ref-[^-]+-py3-none-any\.whl", wheel.name)


def test_top_level_is_ours_alone(names: list[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"feather_ref", "feather_kernels"}


def test_types_and_licences_are_inside(names: list[str]) -> None:
    assert "feather_ref/py.typed" in names
    assert {name.split("/licenses/")[1] for name in names if "/licenses/" in name} == {"LICENSE", "data/golden/LICENSE"}


def test_every_module_is_inside(names: list[str]) -> None:
    homes = ((ROOT, "feather_ref"), (ROOT / "kernels", "feather_kernels"))
    source = {path.relative_to(home).as_posix() for home, name in homes for path in (home / name).rglob("*.py")}
    assert source == {name for name in names if name.endswith(".py")}


def test_golden_files_are_inside_byte_for_byte(wheel: Path) -> None:
    prefix = "feather_ref/_golden/"
    files = {path.relative_to(GOLDEN).as_posix(): path.read_bytes() for path in GOLDEN.rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        inside = [name for name in archive.namelist() if name.startswith(prefix)]
        assert {name.removeprefix(prefix): archive.read(name) for name in inside} == files


@pytest.mark.network
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="NumPy 2.0 has no wheels for it")
def test_installed_with_the_oldest_dependencies(wheel: Path, tmp_path: Path) -> None:
    # 1. an environment of its own; this interpreter's pip fills it
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    folder = "Scripts" if sys.platform == "win32" else "bin"
    python = tmp_path / "venv" / folder / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--only-binary", ":all:"]
    run(*pip, wheel, *oldest_core(), cwd=tmp_path)
    # 2. -I: neither the working folder nor PYTHONPATH is on sys.path
    shown = run(python, "-I", VERIFY, ROOT, cwd=tmp_path)
    assert shown.endswith("ok\n"), shown
