"""Reports: what came out of a suite, as an object, as text and as a row of JSON.

    pass         every input that was asked for gave what it should
    fail         some did not
    skip         the implementation asked to leave it out
    unsupported  the implementation does not have it
    error        the implementation or the protocol broke; no verdict on numbers
    timeout      silence
    crash        the implementation died
    notrun       nothing was judged

Source: design of this project.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

Status = Literal["pass", "fail", "skip", "unsupported", "error", "timeout", "crash", "notrun"]

SHOWN = 20  # failures of a suite that are written out
_NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class Report:
    """The outcome of one suite; true if all passed.

    judged, size: inputs that were judged, and that there are.  failed: of them; unknown: results
    with x or z in them, which count as failed.  classes: failures by class, of the first `classed`
    of them.  lines: up to 20 failures, some of each class.  notes: what the failures have in common.  sha256: of the
    results.  proof: what a pass proves.
    """

    id: str
    status: Status
    size: int
    judged: int = 0
    failed: int = 0
    unknown: int = 0
    classes: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    classed: int = 0
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    message: str = ""
    sha256: str = ""
    proof: str = ""

    def __bool__(self) -> bool:
        return self.status == "pass"

    def __str__(self) -> str:
        return "\n".join(self.text())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def title(self) -> str:
        """One line: the verdict and how much it is about."""
        if self.status == "pass":
            return f"pass {self.id}: all {self.judged} right ({self.proof})"
        if self.status == "fail":
            return f"fail {self.id}: {self.failed} of {self.judged} wrong ({self.proof})"
        found = f"; {self.failed} of the {self.judged} before are wrong" if self.failed else ""
        return f"{self.status} {self.id}: {self.message}{found}"

    def text(self, shown: int = SHOWN) -> list[str]:
        """The verdict, at most `shown` failures, the classes, and the notes."""
        lines = [self.title(), *self.lines[:shown]]
        if self.failed > len(self.lines[:shown]) > 0:
            lines.append(f"... and {self.failed - len(self.lines[:shown])} more")
        if self.classes:
            some = f" (of the first {self.classed})" if self.classed < self.failed - self.unknown else ""
            counts = sorted(self.classes.items(), key=lambda pair: (-pair[1], pair[0]))
            lines.append("by class: " + ", ".join(f"{n} {name}" for name, n in counts) + some)
        return lines + list(self.notes)

    def row(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "id": self.id,
            "status": self.status,
            "size": self.size,
            "judged": self.judged,
            "failed": self.failed,
            "unknown": self.unknown,
            "classes": dict(self.classes),
            "lines": list(self.lines),
            "notes": list(self.notes),
            "message": self.message,
            "sha256": self.sha256,
            "proof": self.proof,
        }
