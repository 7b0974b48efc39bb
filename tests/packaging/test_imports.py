"""Importing feather_ref loads NumPy alone; the folder `kernels` is no package."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

LOADED = """
import sys
import numpy
before = set(sys.modules)
import feather_ref
tops = {name.split(".")[0] for name in set(sys.modules) - before}
print(*sorted(tops - set(sys.stdlib_module_names)))
"""


def test_import_loads_numpy_alone() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) - {"numpy"} == {"feather_ref"}


def test_kernels_is_a_source_root_and_no_package() -> None:
    """With kernels/__init__.py our checkout would shadow the package of that name on the index."""
    assert (ROOT / "kernels").is_dir()
    assert not (ROOT / "kernels" / "__init__.py").exists()
