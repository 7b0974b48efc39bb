"""The kernels' tests run in the simulator, unless FEATHER_TARGET says otherwise.

It is set before anything imports feather_kernels, which looks at it once.
"""

import os

import pytest

os.environ.setdefault("FEATHER_TARGET", "simulator")
LARGE = "test_large.py"  # whose tests fill much of a GPU's memory


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On a GPU first what takes longest, so that no process of many is the last with it; what is large by one."""
    if os.environ["FEATHER_TARGET"] != "gpu":
        return
    items.sort(key=_place)
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            if item.path.name == LARGE:
                item.add_marker(pytest.mark.xdist_group("large"))


def _place(item: pytest.Item) -> int:
    """0 for the tests of large arrays, 1 for those that hypothesis feeds, 2 for others."""
    if item.path.name == LARGE:
        return 0
    return 1 if getattr(getattr(item, "obj", None), "is_hypothesis_test", False) else 2
