"""The examples in the docstrings of the kernels, in the simulator."""

import doctest
import importlib
import pkgutil

import pytest

import feather_kernels
from feather_kernels import _target

NAMES = [f"feather_kernels.{module.name}" for module in pkgutil.iter_modules(feather_kernels.__path__)]


@pytest.mark.skipif(not _target.SIMULATOR, reason="the examples show the simulator")
@pytest.mark.parametrize("name", ["feather_kernels", *NAMES])
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
