"""What stands in the way of a launch: each answer of the driver, faked, becomes one sentence with what to do."""

import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from feather_kernels import _target, driver, gpu, launch
from feather_kernels.launch import Cubin, Job


class RefusedError(RuntimeError):
    """An answer of CUDA."""


class FakeCupy(SimpleNamespace):
    """CuPy with the answers of a driver: its version, its devices, what it loads and launches."""

    def __init__(self, version: int = 13000, devices: int | Exception = 1, says: Exception | None = None) -> None:
        runtime = SimpleNamespace(
            CUDARuntimeError=RefusedError,
            driverGetVersion=lambda: version,
            getDevice=lambda: 0,
            setDevice=self.set_device,
        )
        runtime.getDeviceCount = lambda: self._answer(devices)
        self.launched = 0
        module = SimpleNamespace(get_function=lambda entry: SimpleNamespace(kernel=f"the kernel {entry}"))
        super().__init__(
            cuda=SimpleNamespace(
                runtime=runtime,
                driver=SimpleNamespace(
                    CUDADriverError=RefusedError, ctxGetCurrent=lambda: 1, launchKernel=lambda *_: self._count(says)
                ),
                Device=Device,
                get_current_stream=lambda device: SimpleNamespace(ptr=0),
            ),
            RawModule=lambda path: self._answer(says or module),
        )

    def set_device(self, device: int) -> None:
        raise AssertionError("there is a context")

    @staticmethod
    def _answer(answer: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _count(self, says: Exception | None) -> None:
        self._answer(says)
        self.launched += 1


class Device:
    """The one that is current while it is entered."""

    compute_capability = "90"

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def forget() -> Any:
    """What was answered is remembered only where it was good."""
    caches = driver.cupy, gpu.capability, gpu._launcher, launch.load, launch.links
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, fake: Any, toolkit: tuple[int, int] | None = (13, 0)) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(driver, "toolkit_version", lambda: toolkit)
    monkeypatch.setattr(_target, "ARCH", None)  # of the GPU that is faked


def test_all_is_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = FakeCupy()
    install(monkeypatch, fake)
    assert driver.cupy() is fake
    assert gpu.capability(0) == (9, 0)
    assert launch.load(Cubin(tmp_path / "a.cubin", "e", "sm_90", 1, 0, 0, 0), 0) == "the kernel e"
    gpu.Launcher(SimpleNamespace(ptr=1), 2, 0)((1, 1), 32, (3, 4), None)
    assert fake.launched == 1


@pytest.mark.parametrize(
    ("fake", "toolkit", "text"),
    [
        (None, (13, 0), r"CuPy launches the kernels, and .*cupy.*: install feather-ref\[cuda13\], or \[cuda12\]"),
        (FakeCupy(0), (13, 0), "there is no CUDA driver: install one, or unset FEATHER_TARGET to run small sizes"),
        (FakeCupy(), None, r"no CUDA toolkit to compile with: install feather-ref\[cuda13\], or \[cuda12\]"),
        (FakeCupy(12080), (13, 5), r"driver is for CUDA 12\.8 and the toolkit is 13\.5: update the driver, or install"),
        (FakeCupy(devices=0), (13, 0), "the CUDA driver shows no GPU: see CUDA_VISIBLE_DEVICES, or unset FEATHER"),
        (
            FakeCupy(devices=RefusedError("cudaErrorNoDevice")),
            (13, 0),
            "does not work, it says cudaErrorNoDevice: mend",
        ),
    ],
)
def test_no_way_to_run(monkeypatch: pytest.MonkeyPatch, fake: Any, toolkit: tuple[int, int] | None, text: str) -> None:
    install(monkeypatch, fake, toolkit)
    for _ in range(2):  # a second call is told the same
        with pytest.raises(driver.GpuError, match=text):
            driver.cupy()


def test_what_was_mended_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same process: the answer is asked for again until it is good."""
    install(monkeypatch, FakeCupy(devices=0))
    with pytest.raises(driver.GpuError):
        driver.cupy()
    install(monkeypatch, FakeCupy())
    assert driver.cupy().cuda.runtime.getDeviceCount() == 1


def test_an_old_gpu_under_a_new_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeCupy())
    monkeypatch.setattr(Device, "compute_capability", "61")
    with pytest.raises(driver.GpuError, match=r"compute capability 6\.1 needs CUDA 12: install feather-ref\[cuda12\]"):
        gpu.capability(0)


def test_a_file_that_the_driver_does_not_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, FakeCupy(says=RefusedError("CUDA_ERROR_INVALID_IMAGE")))
    cubin = Cubin(tmp_path / "a.cubin", "e", "sm_90", 1, 0, 0, 0)
    with pytest.raises(driver.GpuError, match=r"a\.cubin, made for sm_90: CUDA_ERROR_INVALID_IMAGE; delete it"):
        launch.load(cubin, 0)


@pytest.mark.parametrize(("knows", "portable"), [(True, False), (False, True)])
def test_a_gpu_that_the_toolkit_does_not_know(monkeypatch: pytest.MonkeyPatch, knows: bool, portable: bool) -> None:
    """The driver compiles the PTX of the newest one that there is."""
    install(monkeypatch, FakeCupy())
    monkeypatch.setattr(Device, "compute_capability", "130")
    asked: list[Any] = []

    def link(ptx: str, cc: tuple[int, int], registers: int | None) -> tuple[bytes, str]:
        asked.append(cc)
        if not knows:
            raise launch.UnknownArchError("this CUDA toolkit does not know it")
        return b"", ""

    def compile_job(job: Job, arch: str, portable: bool) -> Cubin:
        asked.append((arch, portable))
        return Cubin(Path("a"), "e", "sm_130", 1, 0, 0, 0)

    monkeypatch.setattr(launch, "_link", link)
    monkeypatch.setattr(launch, "compile_job", compile_job)
    monkeypatch.setattr(launch, "load", lambda cubin, device: SimpleNamespace(ptr=1))
    monkeypatch.setattr(gpu, "relaxed", nullcontext)
    gpu.launcher(Job("none", lambda: None, ("i64",), repr(portable)))
    assert asked == [(13, 0), ("130", portable)]


def test_limits_of_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCupy(says=RefusedError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"))
    install(monkeypatch, fake)
    launcher = gpu.Launcher(SimpleNamespace(ptr=1), 2, 0)
    with pytest.raises(driver.GpuError, match="2147483648 blocks are asked for, and a launch takes 2147483647"):
        launcher((1 << 31, 1), 32, (3, 4), None)
    with pytest.raises(driver.GpuError, match=r"refuses 7 x 1 blocks of 1024 threads: .*OUT_OF_RESOURCES; where it"):
        launcher((7, 1), 1024, (3, 4), None)
    assert fake.launched == 0


# --- what goes together -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "toolkit", "cc", "text"),
    [
        (0, (13, 0), (9, 0), "there is no CUDA driver: install one, or unset FEATHER_TARGET"),
        (13000, None, (9, 0), "no CUDA toolkit to compile with: install feather-ref"),
        (12040, (13, 0), (9, 0), r"driver is for CUDA 12.4 and the toolkit is 13.0: update .* feather-ref\[cuda12\]"),
        (13000, (13, 0), (7, 0), r"compute capability 7.0 needs CUDA 12: install feather-ref\[cuda12\]"),
    ],
)
def test_what_stands_in_the_way(version: int, toolkit: tuple[int, int] | None, cc: tuple[int, int], text: str) -> None:
    with pytest.raises(driver.GpuError, match=text):
        driver.check(version, toolkit, cc)


def test_what_goes_together() -> None:
    driver.check(13000, (13, 5), (7, 5))
    driver.check(13000, (12, 9), (6, 1))
