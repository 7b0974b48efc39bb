"""A plan: a format for each tensor; its JSON, and whether it fits a file.

The JSON is described by `plan.schema.json` beside this module.  A plan knows its input by a hash of
names, dtypes and shapes, so that it cannot be applied to another model in silence.

Source: design of this project.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Protocol

from feather_ref._choices import parse_choice
from feather_ref._measures import MEASURES
from feather_ref._safetensors import short

KIND = "feather_ref.plan"
VERSION = 1
COSTS = ("bytes", "time")
_NAMED = 5  # tensors of a file, in a message


class HasForm(Protocol):
    """What is stored: the name of a dtype, and a shape."""

    @property
    def dtype(self) -> str:
        """A name."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements an axis."""


@dataclass(frozen=True)
class PlanLine:
    """One tensor.  format: a name as `mxfp4` or `e4m3/row`.  bytes: of the tensor in a .safetensors file,
    with all that belongs to it; in memory a row fills whole words, which may be more.  seconds: None
    where the cost is bytes.  error: the measure.  sqnr: in bits, None where all is exact or there is
    no figure.
    """

    name: str
    shape: tuple[int, ...]
    format: str
    bytes: int
    seconds: float | None
    error: float
    sqnr: float | None

    @property
    def values(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    @property
    def bits_per_value(self) -> float:
        """Bits of all that is stored for each number; 0 without numbers."""
        return 8 * self.bytes / self.values if self.values else 0.0


@dataclass(frozen=True)
class Plan:
    """Formats for tensors within a budget.

    budget: bits a value for the cost "bytes", seconds for "time".  optimal: whether it is proven that
    no other plan within the budget has a lower error.  header_sha256: of the file, "" for arrays.
    """

    budget: float
    cost: str
    error: str
    optimal: bool
    tensors: tuple[PlanLine, ...]
    header_sha256: str = ""

    def __str__(self) -> str:
        return "\n".join(f"{line.name}: {line.format}" for line in self.tensors)

    @cached_property
    def formats(self) -> dict[str, str]:
        """The name of the format of each tensor."""
        return {line.name: line.format for line in self.tensors}

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(line.bytes for line in self.tensors)

    @property
    def bits_per_value(self) -> float:
        """Bits of all that is stored for each number; 0 without numbers."""
        values = sum(line.values for line in self.tensors)
        return 8 * self.nbytes / values if values else 0.0

    @property
    def total_error(self) -> float:
        """The mean of the tensors' errors, each counted once for each of its numbers."""
        values = sum(line.values for line in self.tensors)
        return math.fsum(line.error * line.values for line in self.tensors) / values if values else 0.0

    def to_json(self) -> str:
        """The plan as JSON."""
        return json.dumps({"kind": KIND, "version": VERSION, **asdict(self)}, indent=1, allow_nan=False) + "\n"


def fingerprint(forms: Mapping[str, HasForm]) -> str:
    """The SHA-256 of names, dtypes and shapes, whatever their order."""
    rows = sorted([name, form.dtype, list(form.shape)] for name, form in forms.items())
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()


# --- read -------------------------------------------------------------------------------------

_NUMBER = (int, float)
_FIELDS: dict[str, Any] = {
    "kind": str, "version": int, "header_sha256": str, "cost": str, "budget": _NUMBER, "error": str, "optimal": bool,
    "tensors": list,
}  # fmt: skip
_LINE_FIELDS: dict[str, Any] = {
    "name": str, "shape": list, "format": str, "bytes": int, "seconds": (*_NUMBER, type(None)), "error": _NUMBER,
    "sqnr": (*_NUMBER, type(None)),
}  # fmt: skip


def read_plan(text: str | bytes) -> Plan:
    """The plan of a JSON text.

    Raises ValueError naming the field that is wrong.
    """
    try:
        tree = json.loads(text, object_pairs_hook=_unique)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        why = "" if isinstance(error, UnicodeDecodeError) else f" ({error})"
        raise ValueError(f"plan: it is not JSON{why}; `feather-ref allocate -o` writes a plan") from None
    if not isinstance(tree, dict) or tree.get("kind") != KIND:
        raise ValueError(f"plan: kind is not {KIND!r}: no plan of feather-ref allocate")
    if tree.get("version") != VERSION:
        raise ValueError(f"plan: version is {short(str(tree.get('version')))}; this program reads {VERSION}")
    _check("plan", tree, _FIELDS)
    for name, known in (("cost", COSTS), ("error", tuple(MEASURES))):
        if tree[name] not in known:
            raise ValueError(f"plan: {name} must be one of {', '.join(known)}; got {short(tree[name])}")
    if tree["budget"] <= 0:
        raise ValueError(f"plan: budget must be positive, got {tree['budget']}")
    if not re.fullmatch(r"([0-9a-f]{64})?", tree["header_sha256"]):
        raise ValueError(f"plan: header_sha256 is {short(tree['header_sha256'])}, no 64 digits")
    timed = tree["cost"] == "time"
    lines = tuple(_read_line(i, fields, timed) for i, fields in enumerate(tree.pop("tensors")))
    if len({line.name for line in lines}) < len(lines):
        raise ValueError("plan: a tensor stands there twice")
    del tree["kind"], tree["version"]
    return Plan(tensors=lines, **tree)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, in which no name stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"plan: {short(next(name for name in names if names.count(name) > 1))} stands there twice")
    return found


def _read_line(i: int, fields: Any, timed: bool) -> PlanLine:
    where = f"plan: tensors[{i}]"
    if not isinstance(fields, dict):
        raise ValueError(f"{where} is not an object")
    _check(where, fields, _LINE_FIELDS)
    if not all(type(size) is int and 0 <= size < 1 << 48 for size in fields["shape"]):
        raise ValueError(f"{where}: shape is no list of sizes")
    for name in ("bytes", "seconds", "error"):
        if (fields[name] or 0) < 0:
            raise ValueError(f"{where}: {name} is negative: {fields[name]}")
    if (fields["seconds"] is not None) != timed:
        raise ValueError(f"{where}: seconds {'are missing' if timed else 'are for the cost time'}")
    try:
        name = parse_choice(fields["format"]).name
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: format: {str(error).removeprefix('formats: ')}") from None
    return PlanLine(**{**fields, "shape": tuple(fields["shape"]), "format": name})


def _check(where: str, tree: dict[str, Any], fields: dict[str, Any]) -> None:
    """Every field is there, and of its type; True is no number."""
    if tree.keys() != fields.keys():
        odd = sorted(map(short, tree.keys() ^ fields.keys()))
        raise ValueError(f"{where}: missing or unknown: {', '.join(odd)}")
    for name, kind in fields.items():
        value = tree[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{where}: {name} cannot be {short(json.dumps(value))}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{where}: {name} is not finite")
        if type(value) is int and abs(value) >= 1 << 63:
            raise ValueError(f"{where}: {name} is too large")


def check_fits(plan: Plan, forms: Mapping[str, HasForm], where: str = "the file") -> None:
    """Refuse a file that a plan was not made for.

    forms: the tensors of the file.  where: its name.  Raises ValueError that says what differs.
    """
    for line in plan.tensors:
        form = forms.get(line.name)
        if form is None:
            names = [*map(short, forms)]
            has = ", ".join([*names[:_NAMED], *["..."] * (len(names) > _NAMED)]) or "none"
            raise ValueError(f"plan: it asks for {short(line.name)}; {where} has {has}")
        if form.shape != line.shape:
            what = f"tensor {short(line.name)} has shape {list(form.shape)}, not {list(line.shape)}"
            raise ValueError(f"plan: in {where} {what}")
    found = fingerprint(forms)
    if plan.header_sha256 and plan.header_sha256 != found:
        raise ValueError(
            f"plan: made for a file with the header {plan.header_sha256[:16]}..., {where} has {found[:16]}...: "
            "its tensors have other names, dtypes or shapes"
        )
