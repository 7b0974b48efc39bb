"""The bit explorer: one page of HTML that shows every bit of every format of up to 8 bits.

The page holds tables that are made here, and a search in them; it knows no arithmetic of its own.
For each format::

    values    the value of each code, in code order; "nan", "inf", "-inf"
    up, down  codes of the finite magnitudes in rising order, for x >= 0 and for x < 0
    past      the value that would follow the greatest, where overflow begins, for both
    beyond    overflow policy -> rounding -> codes for +, -, +Inf, -Inf
    nan       NaN policy -> codes for +NaN and for -NaN

It needs no network, no server and no build.

Source: design of this project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from typing import Any

import numpy as np

from feather_ref.codec import decode
from feather_ref.codes import CLASSES, classify
from feather_ref.formats import FORMATS, Format, minifloat, p3109_formats
from feather_ref.policy import NANS, NEGATIVES, OVERFLOWS, SUBNORMALS, resolve
from feather_ref.rounding import DETERMINISTIC

MAX_BITS = 8
PARTS = ("page.html", "style.css", "script.js")


def formats() -> Iterator[tuple[str, Format]]:
    """Group and row of every format on the page: the named ones, then P3109, then every split of up to 8 bits."""
    named = [row for row in FORMATS.values() if row.bits <= MAX_BITS]
    yield from (("named", row) for row in named)
    yield from (("P3109 draft", row) for row in p3109_formats())
    yield from (("split", row) for row in _splits())


def _splits() -> Iterator[Format]:
    """Every sign, exponent, mantissa split of 3 to 8 bits: with a NaN, without one, with Inf and NaN."""
    for e in range(1, MAX_BITS):
        for m in range(MAX_BITS - e):
            if e + m >= 2:
                yield replace(minifloat(e, m), name=f"e{e}m{m}, NaN")
                yield replace(minifloat(e, m, nan=False), name=f"e{e}m{m}, finite")
            if e >= 2 and m >= 1:
                ieee = replace(minifloat(e, m), inf="ieee", nan="ieee", nan_code=None, overflow="nonsaturating")
                yield replace(ieee, name=f"e{e}m{m}, Inf and NaN")


def tables() -> dict[str, Any]:
    """What the page knows.

    >>> e4m3 = tables()["formats"][0]
    >>> e4m3["name"], e4m3["values"][0x7E], e4m3["past"], e4m3["beyond"]["saturate"]["nearest_even"]
    ('e4m3', 448.0, [480.0, 480.0], [126, 254, 126, 254])
    """
    return {
        "roundings": list(DETERMINISTIC),
        "subnormals": list(SUBNORMALS),
        "classes": list(CLASSES),
        "formats": [describe(group, row) for group, row in formats()],
    }


def describe(group: str, row: Format) -> dict[str, Any]:
    """Everything about one format."""
    codes = np.arange(1 << row.bits)
    values = decode(codes, row, np.float64)
    classes = classify(codes, row)
    return {
        "group": group,
        "name": row.name,
        "about": str(row.source),
        "kind": row.kind,
        "bits": row.bits,
        "storage": row.storage_bits,
        "signed": row.signed,
        "zero": row.has_zero,
        "exponent": row.exponent_bits if row.kind == "float" else 0,
        "mantissa": row.mantissa_bits if row.kind == "float" else row.bits - row.signed,
        "bias": row.bias,
        "values": [float(v) if np.isfinite(v) else str(v) for v in values],
        "classes": "".join(str(c) for c in classes),
        **_ladders(row, values),
        **_policies(row),
    }


def _ladders(row: Format, values: Any) -> dict[str, Any]:
    """The finite codes by magnitude, for either sign of x."""
    finite = [code for code in range(1 << row.bits) if np.isfinite(values[code])]
    minus = {code for code in finite if np.signbit(values[code])}
    zero = [code for code in finite if values[code] == 0]
    positive = sorted((code for code in finite if code not in minus), key=lambda code: values[code])
    negative = sorted(minus, key=lambda code: -values[code])
    if row.signed and zero and not set(zero) & minus:  # no -0: what underflows from below becomes +0
        negative = [*zero, *negative]
    past = None
    if row.kind != "table":
        top = row.max_magnitude + 1
        low = top + (row.kind == "integer" and row.signed)  # two's complement reaches one further
        past = [float(row.exact(top)), float(row.exact(low))]
    return {"up": positive, "down": negative if row.signed else [], "past": past}


def _policies(row: Format) -> dict[str, Any]:
    """What each policy gives for what is not an ordinary number, and the row's own choices."""
    nearest = ("nearest_even",) if row.kind == "table" else DETERMINISTIC
    plain = resolve(row, nan=None if row.has_nan else "zero")
    overflows = [overflow for overflow in OVERFLOWS if _takes(row, overflow=overflow)]
    beyond = {overflow: {mode: _beyond(row, mode, overflow) for mode in nearest} for overflow in overflows}
    nan = {name: [_nan_code(row, name, sign) for sign in (False, True)] for name in NANS if _takes(row, nan=name)}
    return {
        "roundings": list(nearest),
        "beyond": beyond,
        "nan": nan,
        "negative": [] if row.signed else [name for name in NEGATIVES if _takes(row, negative=name)],
        "made": row.canonical_nan,
        "default": {"overflow": plain.overflow, "nan": resolve(row).nan, "negative": plain.negative},
    }


def _beyond(row: Format, rounding: Any, overflow: Any) -> list[int]:
    """Codes for what lies beyond the greatest value: +, -, +Inf, -Inf."""
    policy = resolve(row, rounding, overflow, nan="zero")
    return [policy.overflow_code(negative, infinite) for infinite in (False, True) for negative in (False, True)]


def _takes(row: Format, **choice: Any) -> bool:
    """Whether a row can follow a choice."""
    try:
        resolve(row, **({"nan": "zero"} | choice))
    except ValueError:
        return False
    return True


def _nan_code(row: Format, name: Any, negative: bool) -> int | None:
    """The code of a NaN input; None where it is an error."""
    return resolve(row, nan=name).nan_code(negative)


def page() -> str:
    """The page, whole: markup, style, script and tables in one text.

    >>> text = page()
    >>> text[:15], "http" in text.split("<script")[0]
    ('<!doctype html>', False)
    """
    folder = resources.files("feather_ref") / "_explorer"
    markup, style, script = (folder.joinpath(part).read_text(encoding="utf-8") for part in PARTS)
    data = json.dumps(tables(), separators=(",", ":")).replace("<", "\\u003c")
    return markup.replace("/* style */", style).replace("/* script */", script).replace("/* tables */", data)
