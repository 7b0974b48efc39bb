"""One test a kernel on the threads of Numba's own simulator: the bits do not depend on our scheduler."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_inputs import NO_NUMBA

PROGRAM = Path(__file__).parent / "numba_threads.py"
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.toolkit
@pytest.mark.skipif(NO_NUMBA and os.environ.get("CI") != "true", reason="Numba is not installed")
def test_every_kernel_on_threads() -> None:
    path = os.pathsep.join([str(ROOT / "kernels"), str(ROOT)])
    settings = {"NUMBA_ENABLE_CUDASIM": "1", "FEATHER_TARGET": "simulator", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = dict(line.split(": ") for line in done.stdout.splitlines())
    assert set(found.values()) == {"same"}, found
    assert len(found) == 10
