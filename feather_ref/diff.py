"""diff: where codes or words differ from what they should be, and what would make them equal.

Each difference is put into the first of these classes that holds for its input::

    NaN        the input is NaN
    negative   below zero, for an unsigned format
    overflow   beyond the greatest value, or infinite
    zero       the input is zero, or both results are
    tie        half way between two neighbours
    subnormal  below the least normal value
    carry      rounding takes it into the next binade
    inexact    any other number that is between two neighbours
    exact      a number that the format has: rounding and policies have no part in this

Source: design of this project, after the bit-difference report of ggml.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feather_ref._anatomy import fields_of, hex_code, hex_text, number_of, spaced
from feather_ref._hypotheses import (
    USUAL,
    Bools,
    Case,
    Change,
    Found,
    Hypothesis,
    Index,
    recipe_of,
    search,
    spell_change,
)
from feather_ref._parts import FP64, Parts, merge, split
from feather_ref._sources import as_array, bits_of, row_of
from feather_ref._sweep import CHUNK, Array, place
from feather_ref.codec import check_codes
from feather_ref.codes import order_key
from feather_ref.formats import Format, get_format
from feather_ref.packing import Order, Packed, check_order, check_words
from feather_ref.policy import Policies, resolve
from feather_ref.rounding import STOCHASTIC
from feather_ref.words import check_lane, codes_to_words

Kind = Literal["codes", "words"]

CLASSES = ("NaN", "negative", "overflow", "zero", "tie", "subnormal", "carry", "inexact", "exact")
"""The classes of differences, in the order in which they are asked for."""

WIDTH = 88  # columns of the report


@dataclass(frozen=True, eq=False, repr=False)
class Diff:
    """What `diff` found; true if anything differs.  `str` gives the report, a notebook shows a table.

    kind: "codes" or "words"; order: of the words.  size: elements; count: those that differ.
    stray: words with bits outside their codes.  first, worst: index of the first difference, and of
    the one with the most steps between the two codes, which are `steps` (see `order_key`).
    classes: the number of differences in each class that has any.  mine, want: codes of the shape
    of x.  hypotheses: what would make them equal, or nearly; tried, sampled: how many were tried,
    and on how many elements first.  case: what was compared; it holds the arrays themselves.
    """

    fmt: Format
    kind: Kind
    order: Order | None
    size: int
    count: int
    stray: int
    first: tuple[int, ...] | None
    worst: tuple[int, ...] | None
    steps: int
    classes: Mapping[str, int]
    mine: Array
    want: Array
    hypotheses: tuple[Hypothesis, ...]
    tried: int
    sampled: int
    case: Case = field(repr=False)

    @property
    def equal(self) -> bool:
        """Whether nothing differs, stray bits included."""
        return not self

    def __bool__(self) -> bool:
        return self.count > 0 or self.stray > 0

    def __str__(self) -> str:
        return "\n".join(_report(self))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return _html(self)


def diff(
    mine: ArrayLike | Packed,
    x: object,
    fmt: str | Format | None = None,
    *,
    order: Order | None = None,
    kind: Kind | None = None,
    nan_equal: bool = False,
    **policies: Unpack[Policies],
) -> Diff:
    """Compare codes or words with what `encode` or `pack` make of x, and look for the reason.

    mine: codes, of the shape of x; or an array of the format's own dtype, as float16 for "fp16";
    or words, uint32 with the last axis packed; or a PackedTensor, which brings fmt, order and
    scale.  kind: "codes" or "words", where dtype and shape would allow both.  order: of words,
    "little" unless given.  nan_equal: any NaN is as good as another.  policies: as for `encode`.

    >>> print(diff([0x38, 0x7F, 0xC0], [1.0, 465.0, -2.0], "e4m3"))
    1 of 3 codes differs from e4m3
    <BLANKLINE>
    first and worst [1]: overflow, 1 step
      x     465.0 = 0x1.d1p+8 (407D100000000000)
      mine  7F  0 1111 111  NaN
      want  7E  0 1111 110  448
    <BLANKLINE>
    by class: 1 overflow
      mine [0..2]  38 7F C0
      want [0..2]  38 7E C0
                      ^^
    <BLANKLINE>
    each of these makes all equal:
      overflow='nonsaturating'
      overflow='ocp_table3'
      profile='ml_dtypes'
      profile='torch<=2.11'
      profile='cuda-nosat'
      profile='riscv'

    Raises TypeError or ValueError naming the argument.
    """
    numbers = as_array(x)
    scale = None
    if isinstance(mine, Packed):
        given, fmt, order, scale = _open(mine, numbers, fmt, order, kind)
        kind = "words"
    elif fmt is None:
        raise TypeError("fmt is missing; only a PackedTensor brings its own")
    else:
        given = np.asarray(mine)
        if given.size == 0 and not isinstance(mine, np.ndarray):
            given = given.astype(np.uint8)  # an empty list has dtype float64
    row = check_lane(fmt)
    if resolve(row, **policies).rounding in STOCHASTIC:
        raise ValueError(f"rounding={policies['rounding']!r}: diff compares deterministic roundings")
    given, kind = _check_given(given, numbers, row, kind)
    if kind == "codes" and order is not None:
        raise ValueError(f"order={order!r} is for words; mine are codes")
    order = check_order(order or "little") if kind == "words" else None
    case = Case(given, numbers, scale, row, order, policies, nan_equal)
    return _compare(case, kind)


def _open(
    packed: Any, x: Array, fmt: str | Format | None, order: Order | None, kind: Kind | None
) -> tuple[Array, Format, Order, Array | None]:
    """words, fmt, order and scale of a PackedTensor, none of which may be contradicted."""
    if fmt is not None and get_format(fmt) != packed.fmt:
        raise ValueError(f"fmt={get_format(fmt).name!r}: the PackedTensor holds {packed.fmt.name!r}")
    if order not in (None, packed.order):
        raise ValueError(f"order={order!r}: the PackedTensor has order {packed.order!r}")
    if kind not in (None, "words"):
        raise ValueError(f"kind={kind!r}: a PackedTensor has words")
    if packed.shape != x.shape:
        raise ValueError(f"mine: the PackedTensor has shape {packed.shape}, x has {x.shape}")
    scale = None if packed.scale is None else np.broadcast_to(packed.scale, x.shape or (1,)).reshape(x.shape)
    return packed.words, packed.fmt, packed.order, scale


def _check_given(given: Array, x: Array, row: Format, kind: Kind | None) -> tuple[Array, Kind]:
    """The given codes or words, checked, and which of the two they are."""
    if _is_own(given.dtype, row) and kind in (None, "codes"):
        given, kind = bits_of(given), "codes"
    if given.dtype.kind not in "ui":
        raise TypeError(f"mine must be codes or words, got dtype {given.dtype}")
    *lead, n = x.shape or (1,)
    packed = (*lead, -(-n * row.storage_bits // 32))
    is_words = given.dtype.newbyteorder("=") == np.uint32 and given.shape == packed
    fits = {"codes": given.shape == x.shape, "words": is_words}
    if kind is not None and kind not in fits:
        raise ValueError(f"kind must be codes or words; got {kind!r}")
    if kind is None and all(fits.values()) and given.size:
        raise ValueError(f"mine: uint32 of shape {given.shape} can be codes or words; say kind='codes' or kind='words'")
    chosen = [name for name in fits if fits[name] and kind in (None, name)]
    if not chosen:
        long = x.ndim > 1 and given.shape in ((x.size,), (-(-x.size * row.storage_bits // 32),))
        hint = "; if these are of one long row, give x.ravel()" * long
        raise ValueError(
            f"mine has dtype {given.dtype} and shape {given.shape}; codes have the shape {x.shape} of x, "
            f"words are uint32 of shape {packed} (bytes: view them as uint32){hint}"
        )
    if chosen == ["codes"]:
        return check_codes(given, row, "mine"), "codes"
    return check_words(given), "words"


def _is_own(dtype: np.dtype[Any], row: Format) -> bool:
    """Whether the elements of a dtype are the codes of a row."""
    try:
        own = row_of(dtype)
    except TypeError:
        return False
    return own is not None and own.name == row.name


# --- the comparison ---------------------------------------------------------------------------


def _compare(case: Case, kind: Kind) -> Diff:
    mine, stray = case.read(USUAL), int(np.count_nonzero(case.stray(USUAL)))
    want = case.make(recipe_of(case))
    wrong = case.differ(mine, want)
    index = np.flatnonzero(wrong)
    steps, worst, counts = _measure(case, mine, want, index)
    found = search(case, wrong, stray) if index.size or stray else Found((), 0, 0)
    shape = case.x.shape
    return Diff(
        case.row, kind, case.order, mine.size, index.size, stray,
        place(int(index[0]), shape) if index.size else None, None if worst is None else place(worst, shape), steps,
        MappingProxyType({name: n for name, n in zip(CLASSES, counts, strict=True) if n}),
        _frozen(mine, shape), _frozen(want, shape), *found, case,
    )  # fmt: skip


def _frozen(codes: Array, shape: tuple[int, ...]) -> Array:
    result = codes.reshape(shape).view()
    result.setflags(write=False)
    return result


def _measure(case: Case, mine: Array, want: Array, index: Index) -> tuple[int, int | None, list[int]]:
    """The most steps, the flat index where they are, and the number of differences in each class."""
    counts = np.zeros(len(CLASSES), np.int64)
    steps, worst = 0, None
    for start in range(0, index.size, CHUNK):
        some = index[start : start + CHUNK]
        a, b = mine[some], want[some]
        distance = np.abs(order_key(a, case.row) - order_key(b, case.row))
        if worst is None or distance.max() > steps:
            steps, worst = int(distance.max()), int(some[distance.argmax()])
        counts += np.bincount(_classes(case.parts(some), a, b, case.row), minlength=len(CLASSES))
    return steps, worst, counts.tolist()


def _classes(x: Parts, mine: Array, want: Array, row: Format) -> NDArray[np.intp]:
    """The class of each difference, for input parts x."""
    results = [split(codes.astype(np.uint64), row).zero for codes in (mine, want)]
    zero = x.zero | (results[0] & results[1])
    negative = x.negative & ~zero & (not row.signed)
    rest, overflow, subnormal, carry = _table_place(x, row) if row.kind == "table" else _place(x, want, row)
    tests = [x.nan, negative, overflow, zero, rest == 2, subnormal, carry, rest != 0]
    return np.select(tests, np.arange(len(tests)), len(tests))


@lru_cache(maxsize=64)
def _finer(row: Format) -> Format:
    """A row with two bits more behind the last place of `row`, and room at the ends."""
    if row.kind == "integer":
        return Format("finer", row.bits + 3, kind="integer", bias=row.bias + 2)
    below = 0 if row.has_zero else 1  # twice the exponents, so that underflow has codes of its own
    exponent = row.exponent_bits + below
    return Format(
        "finer", row.has_zero + exponent + row.mantissa_bits + 2, exponent_bits=exponent,
        mantissa_bits=row.mantissa_bits + 2, bias=row.bias + (below << row.exponent_bits),
        signed=row.has_zero, has_zero=row.has_zero,
    )  # fmt: skip


def _place(x: Parts, want: Array, row: Format) -> tuple[NDArray[np.int64], Bools, Bools, Bools]:
    """Where |x| lies: the rest behind the last place (0 none, 2 half, else odd), overflow, subnormal, carry."""
    finer = _finer(row)
    policy = resolve(finer, rounding="to_odd", overflow="saturate", nan=0)
    codes = merge(x._replace(negative=np.zeros_like(x.negative)), policy).astype(np.int64)
    below, rest = codes >> 2, codes & 3
    if not row.has_zero:
        below -= 1 << row.exponent_bits + row.mantissa_bits
    last = row.max_magnitude + (x.negative & (row.kind == "integer" and row.signed))
    overflow = (below > last) | ((below == last) & (rest != 0))
    none = np.zeros(below.shape, np.bool_)
    if row.kind == "integer":
        return rest, overflow, none, none
    normal = 1 << row.mantissa_bits if row.has_subnormals else 0
    exponent = (want & row.magnitude_mask).astype(np.int64) >> row.mantissa_bits
    carry = exponent > below >> row.mantissa_bits if row.mantissa_bits else none
    return rest, overflow, below < normal, carry


def _table_place(x: Parts, row: Format) -> tuple[NDArray[np.int64], Bools, Bools, Bools]:
    """The same for a table row, whose values and midpoints are exact in float64."""
    number = merge(x, resolve(FP64, rounding="to_odd", overflow="nonsaturating")).view(np.float64)
    values = np.unique(row.values)
    middles = (values[1:] + values[:-1]) / 2
    rest = np.select([np.isin(number, values), np.isin(number, middles)], [0, 2], 1)
    none = np.zeros(number.shape, np.bool_)
    return rest, (number > row.max) | (number < row.min), none, none


# --- the report -------------------------------------------------------------------------------


def _report(found: Diff) -> Iterator[str]:
    """The report, line by line, at most WIDTH columns wide."""
    yield from textwrap.wrap(_title(found), WIDTH, subsequent_indent="  ")
    if not found:
        return
    if found.first is not None and found.worst is not None:
        same = found.first == found.worst
        for name, index in [("first and worst" if same else "first", found.first), ("worst", found.worst)][: 2 - same]:
            yield ""
            yield from _element(found, name, index)
        yield ""
        yield from textwrap.wrap("by class: " + _counts(found), WIDTH, subsequent_indent="  ")
        yield from _dump(found, found.first)
    if found.stray:
        yield ""
        yield _stray_text(found)
    yield ""
    yield _verdict(found)
    for hypothesis in found.hypotheses:
        left = f" leaves {hypothesis.left}" if hypothesis.left else ""
        yield from textwrap.wrap(hypothesis.text + left, WIDTH, initial_indent="  ", subsequent_indent="    ")


def _title(found: Diff) -> str:
    what = found.kind if found.order is None else f"words, order={found.order!r}"
    said = (Change(name, value) for name, value in found.case.policies.items() if value is not None)
    given = "".join(f", {spell_change(change, found.fmt)}" for change in said)
    nan = ", any NaN equal" * found.case.nan_equal
    tail = f"{found.fmt}{given}{nan}"
    if not found:
        return f"all {found.size} codes equal {tail} ({what})"
    verb = "differs" if found.count == 1 else "differ"
    stray = f"; stray bits in {found.stray} word{'s' * (found.stray != 1)}" * (found.stray > 0)
    order = f" ({what})" * (found.order is not None)
    return f"{found.count} of {found.size} codes {verb} from {tail}{order}{stray}"


def _counts(found: Diff) -> str:
    return ", ".join(f"{n} {name}" for name, n in found.classes.items())


def _verdict(found: Diff) -> str:
    """What the hypotheses came to, in one line."""
    number = len(found.hypotheses)
    on = f", ranked on {found.sampled} elements" if found.sampled < found.size else ""
    if number == 0:
        return f"nothing explains half of it ({found.tried} hypotheses tried{on})"
    if found.hypotheses[0].left:
        return f"nothing explains all of it ({found.tried} hypotheses tried{on}); nearest:"
    return "this makes all equal:" if number == 1 else "each of these makes all equal:"


def _element(found: Diff, name: str, index: tuple[int, ...]) -> Iterator[str]:
    """One difference: input, both codes with fields and values."""
    mine, want = int(found.mine[index]), int(found.want[index])
    kind, steps = _judge(found, index)
    yield f"{name}{_at(index)}: {kind}, {steps} step{'s' * (steps != 1)}"
    yield f"  x     {_number_text(found.case.x, index)}"
    if found.case.scale is not None:
        yield f"  scale {_number_text(found.case.scale, index)}"
    for label, code in (("mine", mine), ("want", want)):
        value = number_of(code, found.fmt)
        yield f"  {label}  {hex_code(code, found.fmt)}  {spaced(fields_of(found.fmt, code))}  {value}"


def _judge(found: Diff, index: tuple[int, ...]) -> tuple[str, int]:
    """The class of one difference, and its steps."""
    flat = np.array([np.ravel_multi_index(index, found.mine.shape) if index else 0])
    steps, _, counts = _measure(found.case, found.mine.ravel(), found.want.ravel(), flat)
    return CLASSES[counts.index(1)], steps


def _number_text(x: Array, index: tuple[int, ...]) -> str:
    """A number as it prints, exactly in hexadecimal, and its bits."""
    number = x[index]
    row = row_of(x.dtype)
    if row is None:
        return str(number)
    bits = int(bits_of(x)[index])
    exact = "" if not np.isfinite(float(number)) else f" = {_hex(number)}"
    return f"{number}{exact} ({bits:0{x.dtype.itemsize * 2}X})"


def _hex(number: Any) -> str:
    if isinstance(number, (np.integer, np.bool_)):
        return f"{int(number):#x}"
    value = float(number)
    return ("-" if np.signbit(value) else "") + hex_text(abs(Fraction(value)))


def _dump(found: Diff, index: tuple[int, ...]) -> Iterator[str]:
    """The codes around an element in hex, and its word."""
    rows = [np.atleast_1d(codes[index[:-1]] if codes.ndim else codes) for codes in (found.mine, found.want)]
    digits = (found.fmt.bits + 3) // 4
    lane, many = (index[-1] if index else 0), 48 // (digits + 1)
    start = lane // many * many
    parts = [row[start : start + many] for row in rows]
    where = _at((*index[:-1], f"{start}..{start + len(parts[0]) - 1}")) if index else ""
    for label, codes in zip(("mine", "want"), parts, strict=True):
        yield f"  {label}{where}  {' '.join(hex_code(int(code), found.fmt) for code in codes)}"
    marks = [("^" if wrong else " ") * digits for wrong in found.case.differ(*parts)]
    yield f"  {'':{len(where) + 4}}  {' '.join(marks)}".rstrip()
    if found.order is not None:
        word = lane * found.fmt.storage_bits // 32
        mine = int(np.atleast_2d(found.case.given)[index[:-1] if len(index) > 1 else 0][word])
        want = int(codes_to_words(rows[1], found.fmt, found.order)[word])
        yield f"  word{_at((*index[:-1], word))}  mine {mine:08X}  want {want:08X}"


def _stray_text(found: Diff) -> str:
    """The first word with bits outside its codes."""
    bits = found.case.stray(USUAL)
    index = place(int(np.argmax(bits != 0)), bits.shape)
    return f"word{_at(index)} {int(found.case.given[index]):08X}: the bits {int(bits[index]):08X} are outside the codes"


def _at(index: tuple[Any, ...]) -> str:
    """[1, 2], or nothing where there is one element."""
    return f" [{', '.join(map(str, index))}]" if index else ""


def _html(found: Diff) -> str:
    """A table of the first and the worst difference, and the hypotheses as a list."""
    cell = '<td style="text-align:left;font-family:monospace">{}</td>'
    rows = []
    for name in ("first", "worst"):
        if (index := getattr(found, name)) is not None:
            lines = [line.strip() for line in _element(found, name, index)]
            rows.append("".join(cell.format(html.escape(line)) for line in lines))
    items = [f"{h.text}{f' leaves {h.left}' if h.left else ''}" for h in found.hypotheses]
    parts = [f"<p><b>{html.escape(_title(found))}</b></p>"]
    if rows:
        parts.append(f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>")
        parts.append(f"<p>by class: {html.escape(_counts(found))}</p>")
    if found:
        parts.append(f"<p>{html.escape(_verdict(found))}</p>")
        parts.append(f"<ul>{''.join(f'<li><code>{html.escape(item)}</code></li>' for item in items)}</ul>")
    return f"<div>{''.join(parts)}</div>"
