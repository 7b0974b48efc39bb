"""GPU or simulator: chosen once, by the environment or by what the driver shows."""

import subprocess
import sys

import pytest

from feather_kernels import _target

LOADED = "import sys, feather_kernels; print(*sorted({'numba', 'cupy', 'torch', 'cuda'} & set(sys.modules)))"


def test_the_setting_wins_and_the_driver_decides_otherwise() -> None:
    assert _target.choose("simulator", lambda: 8) == "simulator"
    assert _target.choose("gpu", lambda: 0) == "gpu"
    assert [_target.choose(wanted, lambda: 1) for wanted in (None, "")] == ["gpu", "gpu"]
    assert _target.choose(None, lambda: 0) == "simulator"


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(ValueError, match=r"FEATHER_TARGET must be one of gpu, simulator; got 'cpu'"):
        _target.choose("cpu", lambda: 0)


def test_the_simulator_loads_neither_numba_nor_cupy() -> None:
    code = f"import os; os.environ['FEATHER_TARGET'] = 'simulator'; {LOADED}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
