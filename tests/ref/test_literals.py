"""Rows, oracle and codec against what was typed from the standards: literals.py and overflow_table.py.

Every comparison is on bits: codes as integers, values by their float64 bits (so +0 and -0 differ), NaN as
a class when decoding and by its code when encoding.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import literals
import overflow_table as table
from feather_ref import codec, oracle, packing
from feather_ref.formats import FORMATS, get_format
from literals import LITERALS, Literal

Encoder = Callable[..., int]


def _codec_encode(x: np.generic, fmt: str, **policies: Any) -> int:
    return int(codec.encode(np.array([x]), fmt, **policies)[0])


def _oracle_encode(x: np.generic, fmt: str, **policies: Any) -> int:
    source = "fp32" if x.dtype == np.float32 else None
    return int(oracle.encode(x, fmt, source=source, **policies))


ENCODERS: dict[str, Encoder] = {"codec": _codec_encode, "oracle": _oracle_encode}
encoders = pytest.mark.parametrize("encoder", ENCODERS)
each_literal = pytest.mark.parametrize("literal", LITERALS, ids=lambda literal: literal.name)


# --- helpers ----------------------------------------------------------------------------------


def lines(text: str) -> Iterator[list[str]]:
    """The words of each line that holds data."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            yield line.replace("|", " ").split()


def bits64(x: float) -> str:
    return struct.pack(">d", x).hex().upper()


def from_bits(bits: int, width: int) -> np.generic:
    """The float32 or float64 with these bits."""
    unsigned, floating = {32: (np.uint32, np.float32), 64: (np.uint64, np.float64)}[width]
    number: np.generic = np.array([bits], unsigned).view(floating)[0]
    return number


def nan_of(negative: bool, width: int) -> np.generic:
    sign = negative << (width - 1)
    return from_bits(sign | {32: 0x7FC00000, 64: 0x7FF8000000000000}[width], width)


def sources(x: float) -> list[np.generic]:
    """x as float64, and as float32 where that is exact."""
    with np.errstate(over="ignore"):
        single = np.float32(x)
    return [np.float64(x), single] if float(single) == x else [np.float64(x)]


def answer(encoder: str, x: np.generic, fmt: str, **policies: Any) -> str:
    """The code in hex, or "error" for a ValueError."""
    try:
        return f"{ENCODERS[encoder](x, fmt, **policies):X}"
    except ValueError:
        return "error"


def wanted(cell: str) -> str:
    """A table cell in the form of `answer`."""
    return "error" if cell in ("error", "refused") else f"{int(cell, 16):X}"


def check(encoder: str, fmt: str, cases: list[tuple[np.generic, str]], **policies: Any) -> None:
    """Encode every input and show all the differences at once."""
    wrong = []
    for x, cell in cases:
        got, want = answer(encoder, x, fmt, **policies), wanted(cell)
        if got != want:
            wrong.append(f"{encoder} {fmt} {policies}: in={x!r} ({x.tobytes()[::-1].hex().upper()}) {got=} {want=}")
    assert not wrong, "\n".join(wrong)


def nan_codes(literal: Literal) -> Iterator[int]:
    """The NaN codes; of formats beyond 16 bits the ends of the ranges."""
    for first, last in literal.nan:
        yield from range(first, last + 1) if last <= 0xFFFF else (first, first + 1, last - 1, last)


def all_values(literal: Literal) -> list[tuple[int, float]]:
    """Every typed (code, value) of a format."""
    typed = [literal.max, *literal.values]
    typed += [pair for pair in (literal.min_normal, literal.min_subnormal) if pair is not None]
    if literal.zero is not None:
        typed.append((literal.zero, 0.0))
    if literal.minus_zero is not None:
        typed.append((literal.minus_zero, -0.0))
    return typed


# --- the literals themselves ---------------------------------------------------------------------


def test_every_named_format_has_a_literal() -> None:
    names = [literal.name for literal in LITERALS]
    assert len(names) == len(set(names))
    assert set(FORMATS) <= set(names)


@each_literal
def test_a_literal_does_not_contradict_itself(literal: Literal) -> None:
    codes = [code for code, _ in all_values(literal)] + list(literal.inf) + list(nan_codes(literal))
    values: dict[int, str] = {}
    for code, value in all_values(literal):
        assert values.setdefault(code, bits64(value)) == bits64(value), f"{literal.name} {code:X}"
    special = {*literal.inf, *nan_codes(literal)}
    assert len(special) + len(values) == len(set(codes))
    boundary = (literal.last, literal.beyond, literal.saturate, literal.nonsaturating)
    if literal.name in ("nf4", "fp4_bnb"):  # nearest value, however far
        assert boundary == (None, None, None, None)
    else:
        assert None not in boundary
        assert (literal.last or 0) + 1 == literal.beyond
    assert (literal.satnone is not None) == literal.name.startswith("binary")


def test_tables_hold_the_float32_values_of_their_documents() -> None:
    for bits, value in literals.NF4_FLOAT32:
        assert struct.pack(">f", value) == bits.to_bytes(4, "big"), f"{bits:08X} {value}"
    for bits, text in literals.FP4_BNB_FLOAT32:
        sign, quotient = text.startswith("-"), Fraction(text.lstrip("-"))
        nearest = np.float32(quotient.numerator) / np.float32(quotient.denominator)
        assert nearest.view(np.uint32) == bits & 0x7FFFFFFF, f"{bits:08X} {text}"
        assert bits >> 31 == sign, f"{bits:08X} {text}"


# --- rows ---------------------------------------------------------------------------------------


@each_literal
def test_row_range(literal: Literal) -> None:
    row = get_format(literal.name)
    assert row.name == literal.name
    assert bits64(row.max) == bits64(literal.max[1])
    assert row.sign_mask == (literal.sign or (row.kind == "integer" and row.signed) << (row.bits - 1))
    if row.kind == "table":
        return
    assert row.max_magnitude == literal.max[0]
    assert literal.min_normal is not None
    assert bits64(row.min_normal) == bits64(literal.min_normal[1])
    want = None if literal.min_subnormal is None else literal.min_subnormal[1]
    assert row.min_subnormal == want
    assert row.has_signed_zero == (literal.minus_zero is not None)


@each_literal
def test_row_special_codes(literal: Literal) -> None:
    row = get_format(literal.name)
    assert row.has_inf == bool(literal.inf)
    assert row.has_nan == bool(literal.nan)
    assert row.canonical_nan == literal.canonical_nan
    ranges = literal.nan
    if row.bits <= 16:
        codes = list(range(1 << row.bits))
    else:
        edges = {edge + step for pair in ranges for edge in pair for step in (-1, 0, 1)} | set(literal.inf)
        codes = sorted(edge for edge in edges if edge < 1 << row.bits)
    for code in codes:
        nan = any(first <= code <= last for first, last in ranges)
        assert row.is_nan(code) == nan, f"{literal.name} {code:X}"
        assert row.is_inf(code) == (code in literal.inf), f"{literal.name} {code:X}"


@each_literal
def test_row_values(literal: Literal) -> None:
    row = get_format(literal.name)
    for code, value in all_values(literal):
        if row.kind == "integer":
            magnitude = abs(code - (1 << row.bits)) if code & row.sign_mask else code
        else:
            magnitude = code & row.magnitude_mask
        assert row.exact(magnitude) == abs(Fraction(value)), f"{literal.name} {code:X}"
        assert bool(code & row.sign_mask) == (math.copysign(1, value) < 0) or row.kind == "table"


@pytest.mark.parametrize("name", table.DEFAULTS)
def test_row_default_policies(name: str) -> None:
    row = get_format(name)
    overflow, negative = table.DEFAULTS[name]
    assert row.overflow == overflow
    assert row.signed == (negative is None)
    assert negative is None or row.negative == negative


@pytest.mark.parametrize(
    ("name", "rows"), [("nf4", literals.NF4_FLOAT32), ("fp4_bnb", literals.FP4_BNB_FLOAT32)], ids=["nf4", "fp4_bnb"]
)
def test_table_rows_hold_every_value(name: str, rows: tuple[tuple[int, object], ...]) -> None:
    want = [f"{bits:08X}" for bits, _ in rows]
    assert [struct.pack(">f", value).hex().upper() for value in get_format(name).values] == want
    decoded = codec.decode(np.arange(16, dtype=np.uint8), name)
    assert decoded.dtype == np.float32
    assert [f"{bits:08X}" for bits in decoded.view(np.uint32)] == want
    for code, text in enumerate(want):
        exact = oracle.decode(code, name)
        assert exact.magnitude == abs(Fraction(float(from_bits(int(text, 16), 32)))), f"{name} {code:X}"
        assert exact.negative == (text[0] in "89AB"), f"{name} {code:X}"


# --- decode -------------------------------------------------------------------------------------


@each_literal
def test_codec_decode(literal: Literal) -> None:
    for code, value in all_values(literal):
        got = float(codec.decode(np.array([code], np.uint32), literal.name)[0])
        assert bits64(got) == bits64(value), f"{literal.name} {code:X} {got=} want={value}"
    for code, sign in zip(literal.inf, (1, -1), strict=False):
        assert codec.decode(np.array([code], np.uint32), literal.name)[0] == sign * math.inf, f"{code:X}"
    for code in nan_codes(literal):
        assert np.isnan(codec.decode(np.array([code], np.uint32), literal.name)[0]), f"{literal.name} {code:X}"


@each_literal
def test_oracle_decode(literal: Literal) -> None:
    for code, value in all_values(literal):
        got = oracle.decode(code, literal.name)
        want = oracle.Exact("finite", math.copysign(1, value) < 0, abs(Fraction(value)))
        assert got == want, f"{literal.name} {code:X}"
    for code, negative in zip(literal.inf, (False, True), strict=False):
        got = oracle.decode(code, literal.name)
        assert (got.kind, got.negative) == ("inf", negative), f"{literal.name} {code:X}"
    for code in nan_codes(literal):
        assert oracle.decode(code, literal.name).kind == "nan", f"{literal.name} {code:X}"


# --- encode -------------------------------------------------------------------------------------


def roundings_of(name: str) -> list[str]:
    """The roundings that a format takes: a table takes nearest_even alone."""
    return ["nearest_even"] if name in ("nf4", "fp4_bnb") else list(table.ROUNDING_LETTERS.values())


@encoders
@each_literal
def test_a_value_encodes_to_its_code_under_every_rounding(literal: Literal, encoder: str) -> None:
    if literal.sign == 0 and literal.zero is None:
        typed = [pair for pair in all_values(literal) if pair[1] > 0]
    else:
        typed = all_values(literal)
    cases = [(x, f"{code:X}") for code, value in typed for x in sources(value)]
    for rounding in roundings_of(literal.name):
        check(encoder, literal.name, cases, rounding=rounding)


@encoders
@each_literal
def test_minus_zero_is_a_zero(literal: Literal, encoder: str) -> None:
    want = literal.zero if literal.minus_zero is None else literal.minus_zero
    cases = [(x, f"{want or 0:X}") for x in sources(-0.0)]
    for rounding in roundings_of(literal.name):
        check(encoder, literal.name, cases, rounding=rounding)


BOUNDARIES = [
    pytest.param(literal, policy, code, id=f"{literal.name}-{policy}")
    for literal in LITERALS
    for policy, code in (
        ("saturate", literal.saturate),
        ("nonsaturating", literal.nonsaturating),
        ("p3109_satnone", literal.satnone),
    )
    if code is not None
]


@encoders
@pytest.mark.parametrize(("literal", "overflow", "after"), BOUNDARIES)
def test_overflow_boundary(literal: Literal, overflow: str, after: int, encoder: str) -> None:
    width = literal.boundary_bits
    assert literal.last is not None and literal.beyond is not None
    cases = [
        (from_bits(literal.last, width), f"{literal.max[0]:X}"),
        (from_bits(literal.beyond, width), f"{after:X}"),
    ]
    if literal.sign:  # sign and magnitude: the mirror image
        minus = 1 << (width - 1)
        cases += [
            (from_bits(literal.last | minus, width), f"{literal.max[0] | literal.sign:X}"),
            (from_bits(literal.beyond | minus, width), f"{after | literal.sign:X}"),
        ]
    check(encoder, literal.name, cases, overflow=overflow)


@encoders
@pytest.mark.parametrize(("name", "value", "codes"), literals.ROUNDED)
def test_rounding(name: str, value: float, codes: tuple[int, ...], encoder: str) -> None:
    for rounding, code in zip(table.ROUNDING_LETTERS.values(), codes, strict=True):
        check(encoder, name, [(x, f"{code:X}") for x in sources(value)], rounding=rounding)


@encoders
@pytest.mark.parametrize(("name", "value", "code"), literals.TABLE_TIES)
def test_table_ties_go_to_the_smaller_magnitude(name: str, value: float, code: int, encoder: str) -> None:
    check(encoder, name, [(x, f"{code:X}") for x in sources(value)])


@pytest.mark.parametrize(("name", "values", "order", "words"), literals.PACKED)
def test_packed_words(name: str, values: tuple[float, ...], order: packing.Order, words: tuple[int, ...]) -> None:
    width = get_format(name).storage_bits
    got = packing.pack_codes(codec.encode(np.array(values, np.float32), name), width, order)
    assert got.dtype == np.uint32
    assert [f"{word:08X}" for word in got] == [f"{word:08X}" for word in words]
    back = codec.decode(packing.unpack_codes(got, width, len(values), order), name)
    assert [bits64(float(v)) for v in back] == [bits64(v) for v in values]


# --- the policy table ---------------------------------------------------------------------------

OVERFLOW_ROWS = [
    (name, overflow, letter, cells) for name, overflow, letters, *cells in lines(table.OVERFLOW) for letter in letters
]


def test_overflow_table_is_complete() -> None:
    want = {(name, o, r) for name in table.FAR for o in table.OVERFLOW_NAMES for r in table.ROUNDING_LETTERS}
    got = [row[:3] for row in OVERFLOW_ROWS]
    assert len(got) == len(set(got))
    assert set(got) == want
    assert all(cells == ["refused"] or len(cells) == 6 for *_, cells in OVERFLOW_ROWS)


@encoders
@pytest.mark.parametrize(("name", "overflow", "letter", "cells"), OVERFLOW_ROWS)
def test_overflow_table(name: str, overflow: str, letter: str, cells: list[str], encoder: str) -> None:
    policies = {"overflow": overflow, "rounding": table.ROUNDING_LETTERS[letter]}
    if cells == ["refused"]:  # whatever the input
        check(encoder, name, [(np.float32(1), "refused")], **policies)
        return
    plus, minus, inf, minus_inf, nan, negative = cells
    cases = [(x, plus) for x in sources(table.FAR[name])]
    cases += [(x, minus) for x in sources(-table.FAR[name])]
    cases += [(x, inf) for x in sources(math.inf)] + [(x, minus_inf) for x in sources(-math.inf)]
    cases += [(nan_of(sign, width), nan) for sign in (False, True) for width in (32, 64)]
    if negative != "-":
        cases += [(x, negative) for x in sources(-1.5)]
    check(encoder, name, cases, **policies)


NAN_ROWS = list(lines(table.NAN))


def test_nan_table_is_complete() -> None:
    assert set(FORMATS) <= {row[0] for row in NAN_ROWS}


@encoders
@pytest.mark.parametrize("row", NAN_ROWS, ids=lambda row: row[0])
def test_nan_policies(row: list[str], encoder: str) -> None:
    name, canon, minus_canon, plus, minus, code, top, zero = row
    default = "error" if canon == "refused" else canon
    want: dict[str | int | None, tuple[str, str]] = {
        None: (default, default),
        "canonical": (canon, minus_canon),
        "preserve_sign": (plus, minus),
    }
    want |= {int(code, 16): (code, code), "max": (top, top), "zero": (zero, zero), "error": ("error", "error")}
    for nan, cells in want.items():
        cases = [(nan_of(sign, width), cells[sign]) for sign in (False, True) for width in (32, 64)]
        check(encoder, name, cases, nan=nan)


@encoders
@pytest.mark.parametrize("row", NAN_ROWS, ids=lambda row: row[0])
def test_nan_policies_that_are_refused_are_refused_for_every_input(row: list[str], encoder: str) -> None:
    name, canon, _, _, _, _, top, _ = row
    one = np.float32(1)
    for nan in ("canonical", "preserve_sign"):
        assert (answer(encoder, one, name, nan=nan) == "error") == (canon == "refused"), f"{encoder} {name} {nan}"
    for accepted in ("error", "max", "zero", int(top, 16)):
        assert answer(encoder, one, name, nan=accepted) != "error", f"{encoder} {name} {accepted}"
    beyond = 1 << get_format(name).bits
    assert answer(encoder, one, name, nan=beyond) == "error", f"{encoder} {name} nan={beyond:X}"


@encoders
@pytest.mark.parametrize("row", list(lines(table.NAN_MADE)), ids="-".join)
def test_a_nan_made_by_the_conversion_ignores_the_nan_policy(row: list[str], encoder: str) -> None:
    name, overflow, nan, *cells = row
    inputs = (table.FAR[name], -table.FAR[name], math.inf, -math.inf)
    cases = [(x, cell) for value, cell in zip(inputs, cells, strict=True) for x in sources(value)]
    check(encoder, name, cases, overflow=overflow, nan=nan)


@encoders
@pytest.mark.parametrize("row", list(lines(table.NEGATIVE)), ids="-".join)
def test_negative_policies(row: list[str], encoder: str) -> None:
    name, value, *cells = row
    for negative, cell in zip(("nan", "zero", "abs", "error"), cells, strict=True):
        check(encoder, name, [(x, cell) for x in sources(float(value))], negative=negative)


@encoders
@pytest.mark.parametrize("row", list(lines(table.TINY_NEGATIVE)), ids="-".join)
def test_tiny_negatives(row: list[str], encoder: str) -> None:
    name, overflow, value, *cells = row
    cases = sources(float.fromhex(value))
    for rounding, cell in zip(table.ROUNDING_LETTERS.values(), cells, strict=True):
        check(encoder, name, [(x, cell) for x in cases], overflow=overflow, rounding=rounding)


@encoders
@pytest.mark.parametrize("row", list(lines(table.SUBNORMALS)), ids="-".join)
def test_subnormal_policies(row: list[str], encoder: str) -> None:
    name, bits, letter, *cells = row
    x, rounding = from_bits(int(bits, 16), 32), table.ROUNDING_LETTERS[letter]
    for subnormals, cell in zip(("keep", "flush_input", "flush_output"), cells, strict=True):
        check(encoder, name, [(x, cell)], subnormals=subnormals, rounding=rounding)
