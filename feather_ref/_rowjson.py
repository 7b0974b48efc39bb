"""A format row as JSON, for files and command lines that bring their own format.

    {"name": "tiny", "bits": 5, "exponent_bits": 2, "mantissa_bits": 2, "bias": 1}

The keys are the fields of `Format`; those that are left out have its defaults.

Source: design of this project.
"""

from __future__ import annotations

import dataclasses
import json
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from feather_ref.formats import Format, Source, get_format


@lru_cache(maxsize=64)  # a file has many tensors of a few rows
def named_or_json(row: Format) -> str:
    """The name of a row where `get_format` knows it, else the row as JSON.

    >>> named_or_json(get_format("F8_E4M3"))
    'e4m3'
    >>> named_or_json(Format("tiny", 5, exponent_bits=2, mantissa_bits=2))
    '{"name": "tiny", "bits": 5, "exponent_bits": 2, "mantissa_bits": 2}'
    """
    try:
        if get_format(row.name) == row:
            return row.name
    except ValueError:
        pass
    fields = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    fields["storage_bits"] = 0 if row.storage_bits == row.bits else row.storage_bits
    defaults = {field.name: field.default for field in dataclasses.fields(row)}
    changed = {key: value for key, value in fields.items() if value != defaults[key]}
    if "source" in changed:
        changed["source"] = str(changed["source"])
    return json.dumps(changed)


@lru_cache(maxsize=64)
def parse_row(text: str) -> Format:
    """The row that a name, an expression or a JSON object means.

    >>> parse_row('{"name": "tiny", "bits": 5, "exponent_bits": 2, "mantissa_bits": 2}').max
    14.0
    >>> parse_row("minifloat(4,3,bias=11)").max
    28.0

    Raises ValueError, for JSON naming the field.
    """
    if not text.lstrip().startswith("{"):
        return get_format(text)
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"fmt: the row is not JSON: {error}") from None
    hints = get_type_hints(Format)
    for key, value in fields.items():
        if key not in {field.name for field in dataclasses.fields(Format)}:
            raise ValueError(f"fmt: a row has no field {key!r}")
        fields[key] = _checked(key, value, hints[key])
    missing = [key for key in ("name", "bits") if key not in fields]
    if missing:
        raise ValueError(f"fmt: the row lacks {' and '.join(missing)}")
    return Format(**fields)


def _checked(key: str, value: Any, hint: Any) -> Any:
    """value as the type of its field; True is no integer."""
    if hint is Source:
        return Source(_checked(key, value, str))
    if get_origin(hint) is tuple and isinstance(value, list):
        return tuple(_checked(key, item, get_args(hint)[0]) for item in value)
    if hint is float and type(value) is int and abs(value) < 1 << 53:
        return float(value)
    literal = get_origin(hint) is Literal
    if value not in get_args(hint) if literal else type(value) not in (get_args(hint) or (hint,)):
        raise ValueError(f"fmt: field {key!r} cannot be {json.dumps(value)[:80]}")
    return value
