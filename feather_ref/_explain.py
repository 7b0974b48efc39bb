"""Explanations: a format, a code, a number on its way to a code, or a word.

Around a code stand its neighbours and the midpoints, greatest on top; a number is placed among them::

    ladder    code  bits        value
    above     2A    0 0101 010  0.3125
    given                       ~0.29999999999999999
    midpoint                    0.296875
    below     29    0 0101 001  0.28125

Every comparison is between fractions.  Bit layout: see `_anatomy`.

Source: the rows of `formats` for values, `codec` for codes, `policy` for what lies beyond.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, SupportsIndex, Unpack

import numpy as np

from feather_ref._anatomy import (
    BRIEF,
    LONG,
    SHORT,
    Field,
    Number,
    arithmetic,
    decimal_text,
    fields_of,
    formulas,
    fraction_text,
    hex_code,
    hex_text,
    magnitude_of,
    number_of,
    spaced,
    span,
    ulp_of,
)
from feather_ref._checks import check_range
from feather_ref._ladder import Rung, around, last_code, place_of, reason
from feather_ref._page import Explanation, Table
from feather_ref._sources import as_array, bits_of, row_of
from feather_ref.codec import check_codes, code_dtype, encode
from feather_ref.codes import CLASSES, classify
from feather_ref.formats import Format, get_format
from feather_ref.packing import Order, check_order, unpack_codes
from feather_ref.policy import NANS, NEGATIVES, OVERFLOWS, Policies, Policy, resolve
from feather_ref.rounding import DETERMINISTIC, STOCHASTIC
from feather_ref.words import check_lane

Choice = str | int | tuple[int, int]  # what a policy's argument can be

SMALL = 4  # formats of up to 4 bits list all their codes


# --- explain ----------------------------------------------------------------------------------


def explain(
    fmt: str | Format, code: SupportsIndex | None = None, *, value: object = None, **policies: Unpack[Policies]
) -> Explanation:
    """Explain a format, one of its codes, or what becomes of a number in it.

    code: one integer.  value: one number, as for `encode`.  policies: rounding (a deterministic
    one), overflow, nan, negative, subnormals: see `Policies`.  Neither: the format itself.

    >>> print(explain("e2m1", 0x5))
    e2m1 code 5 = 3
    <BLANKLINE>
      bits      0     10        1
      field     sign  exponent  mantissa
      at        3     2..1      0
    <BLANKLINE>
      value     (-1)^0 * 2^(2-1) * (1 + 1/2) = 3
      decimal   3
      fraction  3
      hex       0x1.8p+1
      class     +normal
      ulp       1
    <BLANKLINE>
      ladder    code  bits    value
      above     6     0 11 0  4
      midpoint                3.5
      this      5     0 10 1  3
      midpoint                2.5
      below     4     0 10 0  2

    Raises TypeError or ValueError naming the argument.
    """
    row = get_format(fmt)
    if "word" in policies:
        raise TypeError("unexpected argument 'word'; a word goes to explain_word")
    policy = resolve(row, **policies)
    if policy.rounding in STOCHASTIC:
        raise ValueError(
            f"rounding={policy.rounding!r}: explain takes the deterministic ones, {', '.join(DETERMINISTIC)}"
        )
    if code is not None and value is not None:
        raise ValueError("give a code or a value, not both")
    if value is not None:
        code_dtype(row)  # refuses what `encode` would
        return _explain_value(row, value, policy)
    return _explain_format(row, policy) if code is None else _explain_code(row, _one_code(code, row), policy)


def _one_code(code: SupportsIndex, row: Format) -> int:
    given = np.asarray(code)
    if given.dtype.kind == "f":
        raise TypeError(f"code must be integers, got dtype {given.dtype}; a number goes to value={code}")
    if given.dtype.kind == "U":
        raise TypeError(f"code must be integers, got the text {code!r}; write a code as 0x7E, without quotes")
    array = check_codes(given, row, "code")
    if array.shape:
        raise ValueError(f"code must be one integer, got shape {array.shape}")
    return int(array)


def _explain_code(row: Format, code: int, policy: Policy) -> Explanation:
    value = number_of(code, row)
    facts = [("value", arithmetic(row, code)), *_exact_facts(value), ("class", _class(row, code))]
    tables = []
    if value.kind == "finite" and row.kind != "table":
        facts.append(("ulp", decimal_text(ulp_of(row, magnitude_of(row, code)))))
    if value.kind != "nan":
        tables.append(_ladder(row, around(row, code)))
    if row.kind == "float" and (code & row.magnitude_mask >= row.max_magnitude or value.kind == "nan"):
        tables.append(_overflow_table(policy, value.negative))
    if value.kind == "nan":
        tables.append(_nan_table(policy))
    title = f"{row.name} code {hex_code(code, row)} = {value}"
    return Explanation(title, row, code, value, fields_of(row, code), tuple(facts), tuple(tables))


def _class(row: Format, code: int) -> str:
    """The class of a code, and what is remarkable about it."""
    name = CLASSES[int(classify(code, row))]
    if row.canonical_nan is not None and name == "nan":
        canonical = hex_code(row.canonical_nan, row)
        return "NaN, the canonical one" if code == row.canonical_nan else f"NaN; the canonical one is {canonical}"
    if row.kind != "float":
        return name
    remarks = {
        row.max_magnitude: "greatest finite",
        row.has_zero << row.mantissa_bits: "least normal",
        1 if row.has_subnormals else -1: "least subnormal",
    }
    remark = remarks.get(code & row.magnitude_mask)
    return f"{name}, the {remark} magnitude" if remark else name


def _exact_facts(x: Number) -> list[tuple[str, str]]:
    """Decimal, fraction and hex of a finite number."""
    if x.kind != "finite":
        return []
    forms = {"decimal": decimal_text(x.magnitude, LONG), "fraction": fraction_text(x.magnitude)}
    forms["hex"] = hex_text(x.magnitude)
    return [(name, "-" * x.negative + form) for name, form in forms.items()]


# --- the ladder -------------------------------------------------------------------------------


def _ladder(row: Format, rungs: Iterable[Rung]) -> Table:
    """Rungs as a table, greatest on top."""
    cells = []
    for rung in sorted(rungs, key=lambda rung: rung.value, reverse=True):
        code = ("", "") if rung.code is None else (hex_code(rung.code, row), spaced(fields_of(row, rung.code)))
        cells.append((rung.label, *code, rung.text or decimal_text(rung.value)))
    return Table(("ladder", "code", "bits", "value"), tuple(cells))


# --- policies ---------------------------------------------------------------------------------


def _variants(policy: Policy, argument: str, choices: Sequence[Choice]) -> list[tuple[str, Policy]]:
    """The policy with each choice of one argument that the row can carry out; the given one is marked."""
    given = _arguments(policy)
    variants = []
    for choice in choices:
        try:
            other = resolve(policy.fmt, **{**given, argument: choice})
        except ValueError:
            continue
        variants.append((_choice_text(choice, policy.fmt) + " *" * (choice == given[argument]), other))
    return variants


def _choice_text(choice: Choice, row: Format) -> str:
    """A name as it is, codes in hex."""
    if isinstance(choice, str):
        return choice
    codes = (choice,) if isinstance(choice, int) else choice
    return "/".join(hex_code(code, row) for code in codes)


def _arguments(policy: Policy) -> dict[str, Any]:
    """The policy as arguments of `encode`."""
    return {name: value for name, value in vars(policy).items() if name != "fmt"}


def _policies_text(policy: Policy) -> str:
    """The choices, without those that the row does not have."""
    shown = _arguments(policy)
    if policy.fmt.signed:
        del shown["negative"]
    return ", ".join(f"{name}={_choice_text(choice, policy.fmt)}" for name, choice in shown.items())


def _cells(row: Format, code: int | None) -> tuple[str, str]:
    """A code and its value; None is an error."""
    return ("", "ValueError") if code is None else (hex_code(code, row), str(number_of(code, row)))


def _result(row: Format, code: int | None, digits: int = SHORT) -> str:
    if code is None:
        return "ValueError"
    return f"{hex_code(code, row)} = {number_of(code, row).text(digits)}"


def _overflow_table(policy: Policy, negative: bool) -> Table:
    """What each overflow policy writes beyond the last value and for Inf."""
    row = policy.fmt
    sign = "-" if negative else "+"
    last = number_of(policy.max_code(negative), row)
    rows = [
        (name, *(_result(row, other.overflow_code(negative, infinite), BRIEF) for infinite in (False, True)))
        for name, other in _variants(policy, "overflow", OVERFLOWS)
    ]
    return Table(("overflow", f"beyond {last.text(BRIEF)}", f"{sign}Inf"), tuple(rows))


def _nan_table(policy: Policy) -> Table:
    """What each policy writes for NaN, of either sign where that makes a difference."""
    row = policy.fmt
    choices: Sequence[Choice] = NANS if isinstance(policy.nan, str) else (*NANS, policy.nan)
    signs = (False, True) if row.has_signed_nan else (False,)
    rows = [
        (name, *(_result(row, other.nan_code(sign), BRIEF) for sign in signs))
        for name, other in _variants(policy, "nan", choices)
    ]
    return Table(("nan", "NaN", "-NaN")[: 1 + len(signs)], tuple(rows))


def _negative_table(policy: Policy, value: object, text: str) -> Table:
    """What each policy makes of a negative number, and how that is printed."""
    rows = [
        (name, _result(policy.fmt, _encoded(value, other))) for name, other in _variants(policy, "negative", NEGATIVES)
    ]
    return Table(("negative", f"for {text}"), tuple(rows))


def _encoded(value: object, policy: Policy) -> int | None:
    """The code of a number, or None where the policy makes it an error."""
    try:
        return int(encode(value, policy.fmt, **_arguments(policy)))
    except ValueError:
        return None


# --- a number on its way to a code ------------------------------------------------------------


class _Given(NamedTuple):
    """The number that was given: exact, as it is printed, and its dtype with its bits."""

    number: Number
    text: str
    dtype: str


def _read_value(value: object) -> _Given:
    try:
        array = as_array(value)
        src = row_of(array.dtype)
    except TypeError:
        raise TypeError(f"value must be a real number, got {type(value).__name__}") from None
    except ValueError as error:
        raise ValueError(f"value: {str(error).removeprefix('x: ')}") from None
    if array.shape:
        raise ValueError(f"value must be one number, got shape {array.shape}")
    x: Any = value if isinstance(value, int) else array.item()
    if isinstance(x, int):
        number = Number("finite", x < 0, Fraction(abs(x)))
        return _Given(number, number.text(20), "int" if type(value) is int else array.dtype.name)
    negative = math.copysign(1, float(x)) < 0  # of a NaN and of -0 too
    if not math.isfinite(x):
        number = Number("nan" if math.isnan(x) else "inf", negative)
    else:
        number = Number("finite", negative, abs(Fraction(*x.as_integer_ratio())))
    bits = "" if src is None else f" {int(bits_of(array)):0{src.bits // 4}X}"
    item: Any = array[()]
    text = str(item) if isinstance(item, np.floating) else str(number)  # others print six digits
    return _Given(number, text, array.dtype.name + bits)


def _explain_value(row: Format, value: object, policy: Policy) -> Explanation:
    given = _read_value(value)
    x, code = given.number, _encoded(value, policy)
    result = None if code is None else number_of(code, row)
    # 1. the number, and the code that it gets
    facts = [("given", f"{given.text} ({given.dtype})"), *_exact_facts(x)]
    if code is not None:
        facts += [("result", arithmetic(row, code)), ("class", _class(row, code)), *_error(row, x, code)]
    facts.append(("policies", _policies_text(policy)))
    # 2. where it stands, where each rounding sends it, and what other policies would do
    tables = []
    below_zero = not row.signed and x.negative and x.kind != "nan" and (x.kind == "inf" or x.magnitude > 0)
    if below_zero:
        tables.append(_negative_table(policy, value, given.text))
    if below_zero and policy.negative == "abs":
        x, below_zero = x._replace(negative=False), False
    if x.kind == "nan":
        tables.append(_nan_table(policy))
    elif not below_zero or policy.negative_after_rounding:
        tables += _rounding_tables(row, x, value, policy, below_zero)
    title = f"{row.name} of {given.text} = {'code ' * (code is not None)}{_result(row, code)}"
    fields = () if code is None else fields_of(row, code)
    return Explanation(title, row, code, result, fields, tuple(facts), tuple(tables))


def _error(row: Format, x: Number, code: int) -> list[tuple[str, str]]:
    """The value of the code less the number, also in units of its last place."""
    result = number_of(code, row)
    if x.kind != "finite" or result.kind != "finite":
        return []
    error = result.signed - x.signed
    forms = [(error, "")]
    if row.kind != "table":
        forms.append((error / ulp_of(row, magnitude_of(row, code)), " ulp"))
    return [("error", " = ".join(f"{decimal_text(form, 6)}{unit}" for form, unit in forms))]


def _rounding_tables(row: Format, x: Number, value: object, policy: Policy, below_zero: bool) -> list[Table]:
    """The ladder, where each rounding goes and why; below_zero: a negative that an unsigned row rounds first."""
    rows, beyond = [], False
    for name, other in _variants(policy, "rounding", DETERMINISTIC):
        code = _encoded(value, other)
        why = reason(row, x, code, other) if not below_zero else f"rounds to {'a negative' if code else '0'}"
        beyond |= why.startswith("overflow")
        rows.append((name, *_cells(row, code), why))
    tables = [_ladder(row, place_of(row, x))] if x.kind == "finite" and not below_zero else []
    tables.append(Table(("rounding", "code", "value", "why"), tuple(rows)))
    if beyond and row.kind == "float":
        tables.append(_overflow_table(policy, x.negative))
    return tables


# --- a format ---------------------------------------------------------------------------------


def _explain_format(row: Format, policy: Policy) -> Explanation:
    facts = [*formulas(row), *_range_facts(row), *_special_facts(row)]
    codes, words = row.period
    place = f"; the code in {span(row.storage_shift, row.bits)}" if row.storage_bits > row.bits else ""
    facts += [
        ("lane", f"{_count(row.storage_bits, 'bit')}{place}; {_count(codes, 'code')} in {_count(words, 'word')}"),
        ("defaults" if policy == resolve(row) else "policies", _policies_text(policy)),
        ("aliases", ", ".join(row.aliases) or "none"),
        ("source", str(row.source)),
    ]
    tables = []
    if row.kind == "float" and row.bits <= 32:
        tables += [_overflow_table(policy, False), _nan_table(policy)]
    if not row.signed and row.bits <= 32:
        tables.append(_negative_table(policy, -1.0, "-1"))
    if row.bits <= SMALL:
        rows = ((hex_code(c, row), spaced(fields_of(row, c)), str(number_of(c, row))) for c in range(1 << row.bits))
        tables.append(Table(("code", "bits", "value"), tuple(rows)))
    title = f"{row.name}: {row.kind}, {_count(row.bits, 'bit')}"
    return Explanation(title, row, None, None, fields_of(row), tuple(facts), tuple(tables))


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _range_facts(row: Format) -> list[tuple[str, str]]:
    """The ends of the range, each with its code."""
    codes = {"max": _last_finite(row, True), "min": _last_finite(row, False)}
    if row.kind == "float":
        codes["min normal"] = row.has_zero << row.mantissa_bits
    if row.has_subnormals:
        codes["min subnormal"] = 1
    facts = [(name, _result(row, code)) for name, code in codes.items()]
    return [*facts, ("precision", _count(row.mantissa_bits + 1, "bit"))] if row.kind == "float" else facts


def _last_finite(row: Format, up: bool) -> int:
    code = last_code(row, up)
    return code - 1 if row.is_inf(code) else code


def _special_facts(row: Format) -> list[tuple[str, str]]:
    """The codes of zeros, Inf and NaN."""
    zeros = [0] if row.has_zero else []
    if row.kind == "table":
        zeros = [code for code, value in enumerate(row.values) if value == 0]
    elif row.has_signed_zero:
        zeros.append(row.sign_mask)
    inf = _both(row, row.inf_magnitude, row.inf_magnitude)
    first_nan = {"ieee": row.exponent_mask + 1, "all_ones": row.magnitude_mask}.get(row.nan)
    nan = hex_code(row.sign_mask, row) if row.nan == "negative_zero" else _both(row, first_nan, row.magnitude_mask)
    canonical = "" if row.canonical_nan is None else f"; canonical {hex_code(row.canonical_nan, row)}"
    facts = [("zero", ", ".join(_result(row, code) for code in zeros) or "none")]
    return facts if row.kind != "float" else [*facts, ("inf", inf), ("nan", nan + canonical)]


def _both(row: Format, first: int | None, last: int | None) -> str:
    """A range of magnitudes as codes of both signs."""
    if first is None or last is None:
        return "none"
    signs = (0, row.sign_mask) if row.signed else (0,)
    ends = [tuple(dict.fromkeys((first | sign, last | sign))) for sign in signs]
    return ", ".join("..".join(hex_code(code, row) for code in pair) for pair in ends)


# --- a word -----------------------------------------------------------------------------------


def explain_word(word: SupportsIndex, fmt: str | Format, order: Order = "little") -> Explanation:
    """Explain a 32-bit word as the first word of a row of packed codes: its lanes and their values.

    >>> print(explain_word(0x44344030, "e4m3"))
    word 44344030: 4 lanes of e4m3, order little
    <BLANKLINE>
      bits      01000100  00110100  01000000  00110000
      field     lane 3    lane 2    lane 1    lane 0
      at        31..24    23..16    15..8     7..0
    <BLANKLINE>
      order     lane 0 in the low bits
    <BLANKLINE>
      lane  at      code  bits        value
      0     7..0    30    0 0110 000  0.5
      1     15..8   40    0 1000 000  2
      2     23..16  34    0 0110 100  0.75
      3     31..24  44    0 1000 100  3

    Raises TypeError or ValueError naming the argument.
    """
    row, order = check_lane(fmt), check_order(order)
    array = np.asarray(word)
    check_range(array, 0xFFFFFFFF, "word")
    if array.shape:
        raise ValueError(f"word must be one integer, got shape {array.shape}")
    lanes = unpack_codes(array.astype(np.uint32), row.storage_bits, None, order, strict=False).tolist()
    fields = _lane_fields(row, int(array), len(lanes), order)
    by_name = {field.name: field for field in fields}
    rows = []
    for i, lane in enumerate(lanes):
        code = lane >> row.storage_shift & row.code_mask
        cells = _cells(row, code)
        rows.append((str(i), by_name[f"lane {i}"].at, cells[0], spaced(fields_of(row, code)), cells[1]))
    title = f"word {int(array):08X}: {_count(len(lanes), 'lane')} of {row.name}, order {order}"
    facts = tuple(_lane_facts(row, lanes, order))
    table = Table(("lane", "at", "code", "bits", "value"), tuple(rows))
    return Explanation(title, row, None, None, fields, facts, (table,))


def _lane_fields(row: Format, word: int, count: int, order: Order) -> tuple[Field, ...]:
    """The lanes of a word from high to low, and the rest that is no whole lane."""
    width = row.storage_bits
    text = f"{word:032b}"
    spans = [(f"lane {i}", i * width, width, ("even lane", "odd lane")[i % 2]) for i in range(count)]
    if rest := 32 - count * width:
        spans.append(("rest", count * width, rest, "rest"))
    fields = []
    for name, start, bits, role in spans:
        low = start if order == "little" else 32 - start - bits
        fields.append(Field(name, text[32 - low - bits : 32 - low], low, role))
    return tuple(sorted(fields, key=lambda field: -field.low))


def _lane_facts(row: Format, lanes: Sequence[int], order: Order) -> list[tuple[str, str]]:
    facts = [("order", f"lane 0 in the {'low' if order == 'little' else 'high'} bits")]
    if row.storage_bits > row.bits:
        facts.append(("lane", f"{row.storage_bits} bits; the code in {span(row.storage_shift, row.bits)}"))
        outside = ~(row.code_mask << row.storage_shift)
        bad = [str(i) for i, lane in enumerate(lanes) if lane & outside]
        if bad:
            facts.append(("not zero", f"bits outside the code in lane {', '.join(bad)}"))
    if 32 % row.storage_bits:
        facts.append(("rest", f"the first bits of lane {len(lanes)}, which ends in the next word"))
    return facts
