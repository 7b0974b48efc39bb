"""Print the lower bounds of pyproject.toml as pins, so that they can be installed and tested.

usage: lowest.py [EXTRA ...]      the dependencies, and those of the extras, one `name==version` a line

Needs the standard library alone.  A bound is the first `>=` of a requirement.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BOUND = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(\[[^]]*\])?>=(?P<version>[0-9][0-9A-Za-z.]*)")


def pins(*extras: str) -> list[str]:
    """`name==version` of every bound, sorted.

    Raises KeyError for an unknown extra, ValueError for a requirement without a bound.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    return sorted(_pin(line) for line in wanted if not line.startswith(project["name"]))


def _pin(requirement: str) -> str:
    bound = _BOUND.match(requirement)
    if bound is None:
        raise ValueError(f"requirement {requirement!r} has no lower bound")
    return f"{bound['name']}=={bound['version']}"


if __name__ == "__main__":
    print("\n".join(pins(*sys.argv[1:])))
