"""The picture of a plan on the page docs/allocate.md: of the plan that its first Python block makes.

Source: design of this project.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import matplotlib

from docs_formats import INK, picture
from feather_ref._planpicture import picture as drawn

INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
PAGE = Path(__file__).resolve().parent.parent / "docs" / "allocate.md"


def plan_picture() -> str:
    """The plan as SVG."""
    found = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"{PAGE.name} has no block of Python")
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(found[1], PAGE.name, "exec"), names)  # the page's own, which tests run too
    inked: Any = dict.fromkeys(INKED, INK)
    with matplotlib.rc_context(inked):
        figure = drawn(names["plan"])
    return picture(figure, "a bar for each tensor of the plan, as long as its bits a value")
