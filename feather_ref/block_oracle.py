"""The oracle of block formats: slow, exact, one block at a time, from rows and fractions alone.

A scale is found by search or by the formula of its rule, in fractions; `_fl` is one rounding to
float32.  Elements are the oracle's `encode` of the exact quotient, or of what the recipe says.
This module and `blocks` share the format rows and nothing else.

Source: OCP MX 1.0, sections 5 and 6.3; the other rules as `RULES` names them, each from its
project's source: TransformerEngine, torchao 0.18, ggml.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from feather_ref import oracle
from feather_ref.formats import Format, get_format
from feather_ref.oracle import Exact

Number = Fraction | float  # a float is Inf alone
_FLOAT32_MAX = Fraction(2**24 - 1) * 2**104
_FLOAT64_MAX = float.fromhex("0x1.fffffffffffffp+1023")


class Block(NamedTuple):
    """Element codes, scale code, the code that means zero, and the tensor's scale."""

    codes: list[int]
    scale: int
    zero: int | None
    tensor_scale: Fraction


@dataclass(frozen=True)
class _Case:
    """One block and what is asked of it.  whole: the tensor's greatest finite magnitude.

    random: for stochastic rounding, an integer for each number.
    """

    values: list[Exact]
    element: Format
    scale: Format
    whole: Fraction
    policies: dict[str, Any]
    random: Sequence[int] | None = None

    @property
    def amax(self) -> Fraction:
        return max((x.magnitude for x in self.values if x.kind == "finite"), default=Fraction(0))

    @property
    def max(self) -> Fraction:
        return Fraction(self.element.max)

    @property
    def top(self) -> Fraction:
        return self.max * Fraction(self.scale.max)

    def encode(self, numbers: Sequence[Exact], row: Format | None = None, **others: Any) -> list[int]:
        """Codes of what the numbers became, in their order."""
        asked = self.policies | others
        random: Sequence[int | None] = self.random or [None] * len(numbers)
        return [oracle.encode(x, row or self.element, random=r, **asked) for x, r in zip(numbers, random, strict=True)]

    def divided(self, by: Fraction) -> list[int]:
        """Codes of x / by; by 0 makes Inf of all but zeros."""
        return self.encode([_over(x, by) for x in self.values])


def _over(x: Exact, by: Fraction) -> Exact:
    if x.kind != "finite" or (not by and not x.magnitude):
        return x
    return replace(x, magnitude=x.magnitude / by) if by else Exact("inf", x.negative, Fraction(0))


# --- numbers ----------------------------------------------------------------------------------


def _log2(x: Fraction) -> int:
    """floor(log2(x)), x > 0."""
    power = x.numerator.bit_length() - x.denominator.bit_length()
    return power if Fraction(2) ** power <= x else power - 1


def _fl(x: Number) -> Number:
    """One rounding to float32, of numbers >= 0: whole units of the last place, halves to even."""
    if x == 0 or isinstance(x, float):
        return x
    unit = Fraction(2) ** (max(_log2(x), -126) - 23)
    value = round(x / unit) * unit
    return value if value <= _FLOAT32_MAX else math.inf


def _times(a: Number, b: Number) -> Number:
    """fl(a * b); 0 * Inf is 0, as these rules have it."""
    if a == 0 or b == 0:
        return Fraction(0)
    return math.inf if math.inf in (a, b) else _fl(Fraction(a) * Fraction(b))


def _divide(a: Number, b: Number) -> Number:
    """fl(a / b), b >= 0; a / 0 is Inf, a / Inf is 0."""
    if b == 0 or a == math.inf:
        return math.inf
    return Fraction(0) if b == math.inf else _fl(Fraction(a) / Fraction(b))


def _at_most(x: Number, most: Fraction) -> Fraction:
    return Fraction(min(x, most))


def _scale_code(x: Number, row: Format) -> int:
    """The scale row's code of a number >= 0, clamped."""
    value = Exact("inf", False, Fraction(0)) if x == math.inf else Exact("finite", False, Fraction(x))
    return oracle.encode(value, row, overflow="saturate")


def _value(code: int, row: Format) -> Fraction:
    return oracle.decode(code, row).magnitude


# --- powers of two ----------------------------------------------------------------------------


def scale_of(amax: Fraction, element: str | Format, scale: str | Format, rule: str) -> int:
    """The scale code of a greatest magnitude, by a rule whose scale is a power of two.

    >>> hex(scale_of(Fraction(7), "e2m1", "e8m0", "even"))
    '0x80'
    """
    case = _Case([Exact("finite", False, amax)], get_format(element), get_format(scale), amax, {})
    return _scale_code(_power_of(case, POWERS[rule]), case.scale)


def _power_of(case: _Case, find: Callable[[_Case], int]) -> Fraction:
    """2**find, clamped to the powers of two that the scale row has; the least for zeros."""
    low, high = _log2(_least(case.scale)), _log2(Fraction(case.scale.max))
    return Fraction(2) ** (min(max(find(case), low), high) if case.amax else low)


def _power(find: Callable[[_Case], int]) -> Callable[[_Case], Block]:
    """A rule whose scale is a power of two."""

    def rule(case: _Case) -> Block:
        exact = _power_of(case, find)
        return Block(case.divided(exact), _scale_code(exact, case.scale), None, Fraction(1))

    return rule


def _least(row: Format) -> Fraction:
    """The least positive value."""
    first = _value(0, row)
    return first or _value(1, row)


def _floor(case: _Case) -> int:
    return _log2(case.amax) - _log2(case.max)


def _ceil(case: _Case) -> int:
    power = _log2(case.amax)
    return power + (Fraction(2) ** power < case.amax) - _log2(case.max)


def _even(case: _Case) -> int:
    row = case.element
    mantissa_bits = row.mantissa_bits if row.kind == "float" else row.bits - row.signed - 1
    half_unit = Fraction(2) ** (_log2(case.amax) - mantissa_bits - 1)
    return _log2(case.amax + half_unit) - _log2(case.max)


def _rceil(case: _Case) -> int:
    power = _floor(case) - 1
    while case.amax / Fraction(2) ** power > case.max:
        power += 1
    return power


def _nearest(case: _Case) -> int:
    return oracle.encode(case.amax / case.max, "e8m0") - 127


POWERS: dict[str, Callable[[_Case], int]] = {
    "floor": _floor,
    "ceil": _ceil,
    "even": _even,
    "rceil": _rceil,
    "nearest": _nearest,
}


# --- quotients --------------------------------------------------------------------------------


def _lifted(x: Fraction, case: _Case) -> int:
    """The scale nearest to x, at least the least normal one; 1 where amax is 0."""
    if not case.amax:
        return _scale_code(Fraction(1), case.scale)
    least = _scale_code(Fraction(case.scale.min_normal), case.scale)
    return max(_scale_code(x, case.scale), least)


def _amax(case: _Case) -> Block:
    code = _lifted(case.amax / case.max, case)
    return Block(case.divided(_value(code, case.scale)), code, None, Fraction(1))


def _mse(case: _Case, two_levels: bool) -> Block:
    """Candidates and errors in Python's float64, operation by operation as the rule says."""
    unit = (case.whole or Fraction(1)) if two_levels else Fraction(1)
    factor = case.top if two_levels else Fraction(1)
    best: Block | None = None
    least = math.inf
    for step in range(8, 33):
        wanted = float(case.amax) / float(unit) * (float(factor) / float(case.max)) * (step / 16)
        code = _lifted(Fraction(wanted) if math.isfinite(wanted) else _FLOAT32_MAX * 2, case)
        scale = _value(code, case.scale)
        codes = case.divided(unit * scale / factor)
        error = _square_error(case, codes, unit, scale, factor)
        if error < least:
            least, best = error, Block(codes, code, None, Fraction(1))
    if best is None:
        raise ValueError("no candidate has a finite error")
    return best._replace(tensor_scale=_exact_tensor(case)) if two_levels else best


def _square_error(case: _Case, codes: list[int], unit: Fraction, scale: Fraction, factor: Fraction) -> float:
    total = 0.0
    for x, code in zip(case.values, codes, strict=True):
        if x.kind == "finite":
            value = oracle.decode(code, case.element)
            exact = x.signed * factor / (unit * scale)
            difference = float(exact) - float(value.signed) if value.kind == "finite" else math.inf
            error = difference * float(scale)
            total += error * error
    return min(total, _FLOAT64_MAX)


def _minmax(case: _Case) -> Block:
    finite = [x.signed for x in case.values if x.kind == "finite"]
    low, high = min(finite, default=Fraction(0)), max(finite, default=Fraction(0))
    low, high = min(low, Fraction(0)), max(high, Fraction(0))
    last = (1 << case.element.bits) - 1
    code = _lifted((high - low) / last, case)
    scale = _value(code, case.scale)
    zero = oracle.encode(-low / scale, case.element, overflow="saturate")
    wide = Format("steps", case.element.bits + 2, kind="integer")
    steps = case.encode([_over(x, scale) for x in case.values], wide, overflow=None, nan="zero", subnormals="keep")
    codes = [min(max(int(oracle.decode(step, wide).signed) + zero, 0), last) for step in steps]
    return Block(codes, code, zero, Fraction(1))


# --- recipes ----------------------------------------------------------------------------------


def _exact_tensor(case: _Case) -> Fraction:
    if not case.whole:
        return Fraction(1)
    return max(_value(oracle.encode(case.whole / case.top, "fp32", overflow="saturate"), get_format("fp32")),
               Fraction(2) ** -149)  # fmt: skip


def _nvfp4_exact(case: _Case) -> Block:
    unit = case.whole or Fraction(1)
    code = _scale_code(case.amax * Fraction(case.scale.max) / unit, case.scale)
    by = unit * _value(code, case.scale) / case.top
    return Block(case.divided(by), code, None, _exact_tensor(case))


def _multiplied(case: _Case, factor: Number) -> list[int]:
    """Codes of fl(x * factor)."""
    return case.encode([_scaled(x, factor) for x in case.values])


def _scaled(x: Exact, factor: Number) -> Exact:
    """fl(x * factor)."""
    y = _times(x.magnitude, factor) if x.kind == "finite" else math.inf
    if x.kind == "finite" and y != math.inf:
        return replace(x, magnitude=Fraction(y))
    return x if x.kind == "nan" else Exact("inf", x.negative, Fraction(0))


def _te(first: Callable[[_Case, Fraction], Number]) -> Callable[[_Case], Block]:
    def rule(case: _Case) -> Block:
        s = _at_most(_divide(case.top, case.whole), _FLOAT32_MAX)
        s = s if case.whole and s else Fraction(1)
        code = _scale_code(first(case, s), case.scale)
        back = Fraction(_divide(Fraction(1), s))
        factor = _at_most(_divide(Fraction(1), _times(_value(code, case.scale), back)), _FLOAT32_MAX)
        return Block(_multiplied(case, factor), code, None, back)

    return rule


def _te2026(case: _Case, s: Fraction) -> Number:
    return _times(case.amax, _times(s, _divide(Fraction(1), case.max)))


def _te2025(case: _Case, s: Fraction) -> Number:
    return _times(_divide(case.amax, case.max), s)


def _torchao(case: _Case) -> Block:
    t = Fraction(_divide(case.whole, case.top)) or Fraction(1)
    wanted = max(_divide(_divide(case.amax, case.max), t), Fraction(case.scale.min_normal))
    code = _scale_code(wanted, case.scale)
    factor = _divide(_divide(Fraction(1), t), _value(code, case.scale))
    return Block(_multiplied(case, factor), code, None, t)


def _q8_0(case: _Case) -> Block:
    d = _divide(case.amax, case.max)
    codes = _multiplied(case, _divide(Fraction(1), d) if d else Fraction(0))
    return Block(codes, oracle.encode(Fraction(d), case.scale), None, Fraction(1))


def _q4_0(case: _Case) -> Block:
    greatest = next((x for x in case.values if x.kind == "finite" and x.magnitude == case.amax and case.amax), None)
    d = _divide(case.amax, Fraction(8))
    minus = greatest is not None and not greatest.negative  # of d: m / -8
    inverse = _divide(Fraction(1), d) if d else Fraction(0)
    codes = []
    for x in case.values:
        y = _scaled(x, inverse)
        moved = _plus(y.magnitude if y.kind == "finite" else math.inf, y.negative != minus)
        step = Fraction(8) if x.kind == "nan" else max(min(moved, Fraction(15)), Fraction(0))
        codes.append((math.floor(step) - 8) % 16)
    below_zero = minus if greatest else True  # 0 / -8 is -0
    scale = oracle.encode(Exact("finite", below_zero, Fraction(d)), case.scale)
    return Block(codes, scale, None, Fraction(1))


def _plus(y: Number, negative: bool) -> Number:
    """fl(y + 8.5) of a signed y."""
    if y == math.inf:
        return -y if negative else y
    total = (-Fraction(y) if negative else Fraction(y)) + Fraction(17, 2)
    rounded = _fl(abs(total))
    return -rounded if total < 0 else rounded


def _ggml_mxfp4(case: _Case) -> Block:
    block = _power(_floor)(case)
    return block._replace(codes=_nearest_first(case, _value(block.scale, case.scale)))


def _nearest_first(case: _Case, scale: Fraction) -> list[int]:
    """The element of least distance to x / scale, the smaller magnitude of two; a zero is +0."""
    values = [oracle.decode(code, case.element).magnitude for code in range(8)]
    codes = []
    for x in case.values:
        distance = [abs(value * scale - x.magnitude) for value in values]
        nearest = {"finite": distance.index(min(distance)), "inf": 7 if scale else 0, "nan": 0}[x.kind]
        codes.append(nearest + 8 * (x.negative and nearest > 0))
    return codes


def _ggml_nvfp4(case: _Case) -> Block:
    d = Fraction(_divide(case.amax, case.max))
    code = 0
    if d < Fraction(1, 64):
        code = min(math.floor(_fl(d * 512 + Fraction(1, 2))), 7)
    else:  # half of the last place up, then three bits; 256 and more is the greatest
        power = _log2(d)
        eighths = math.floor(d / Fraction(2) ** power * 8 + Fraction(1, 2))
        code = min((power + 6) * 8 + eighths, 120)
        code = 126 if code == 120 else code
    return Block(_nearest_first(case, _value(code, case.scale)), code, None, Fraction(1))


# --- the rules by name ------------------------------------------------------------------------

_ROUNDINGS = {"ggml_q8_0": "nearest_away"}
_SINGLE = ("nvfp4_te2026", "nvfp4_te2025", "nvfp4_torchao", "ggml_q8_0", "ggml_q4_0", "ggml_mxfp4", "ggml_nvfp4")

RULES: dict[str, Callable[[_Case], Block]] = {
    **{name: _power(find) for name, find in POWERS.items()},
    "amax": _amax,
    "mse": partial(_mse, two_levels=False),
    "mse of two levels": partial(_mse, two_levels=True),
    "minmax": _minmax,
    "nvfp4_exact": _nvfp4_exact,
    "nvfp4_te2026": _te(_te2026),
    "nvfp4_te2025": _te(_te2025),
    "nvfp4_torchao": _torchao,
    "ggml_q8_0": _q8_0,
    "ggml_q4_0": _q4_0,
    "ggml_mxfp4": _ggml_mxfp4,
    "ggml_nvfp4": _ggml_nvfp4,
}


def quantize(
    values: Sequence[Any],
    element: str | Format,
    scale: str | Format,
    rule: str,
    *,
    tensor: Sequence[Any] | None = None,
    rounding: str | None = None,
    nan: str | int = "scale",
    random: Sequence[int] | None = None,
    source: str | Format = "fp32",
    **policies: Any,
) -> Block:
    """One block: its codes and its scale.

    values: numbers, as `oracle.exact` takes them.  tensor: all numbers of the tensor, for rules of
    two levels; None: values.  rounding: None is the rule's.  nan: "scale", or a policy of `encode`.
    random: for stochastic rounding, an integer for each number.  source: the format of the numbers,
    whose subnormals are zeros with subnormals="flush_input".  policies: n_bits, overflow and
    subnormals of the elements.

    >>> block = quantize([0.5, -3.0, 40.0, 0.0], "e2m1", "e8m0", "floor")
    >>> [hex(code) for code in block.codes], hex(block.scale)
    (['0x0', '0x9', '0x6', '0x0'], '0x82')
    """
    numbers, whole = ([oracle.exact(x) for x in part] for part in (values, values if tensor is None else tensor))
    if policies.get("subnormals") == "flush_input":
        least = Fraction(2) ** get_format(source).emin
        numbers, whole = ([_flushed(x, least) for x in part] for part in (numbers, whole))
        policies = policies | {"subnormals": "keep"}
    if rule in _SINGLE:
        numbers, whole = ([_single(x) for x in part] for part in (numbers, whole))
    row, scale_row = get_format(element), get_format(scale)
    poison = nan == "scale"
    chosen = {"rounding": rounding or _ROUNDINGS.get(rule, "nearest_even"), "nan": nan, **policies}
    if poison:
        chosen["nan"] = "canonical" if row.has_nan else "zero"
    greatest = max((x.magnitude for x in whole if x.kind == "finite"), default=Fraction(0))
    block = RULES[rule](_Case(numbers, row, scale_row, greatest, chosen, random))
    if poison and any(x.kind == "nan" for x in numbers):
        dead = oracle.encode(math.nan, row, nan=chosen["nan"])
        return block._replace(codes=[dead] * len(numbers), scale=oracle.encode(math.nan, scale_row))
    return block


def _flushed(x: Exact, least: Fraction) -> Exact:
    """x, or a zero of its sign below the least normal number."""
    return replace(x, magnitude=Fraction(0)) if x.kind == "finite" and x.magnitude < least else x


def _single(x: Exact) -> Exact:
    """x rounded to float32."""
    y = _fl(x.magnitude)
    return Exact("inf", x.negative, Fraction(0)) if y == math.inf else replace(x, magnitude=Fraction(y))


def value(block: Block, index: int, element: str | Format, scale: str | Format) -> int:
    """The float32 code of one number of a block: (element - zero) * scale * tensor scale, rounded once.

    >>> hex(value(Block([0x7], 0x82, None, Fraction(1)), 0, "e2m1", "e8m0"))
    '0x42400000'
    """
    x, s = oracle.decode(block.codes[index], element), oracle.decode(block.scale, scale)
    if "nan" in (x.kind, s.kind) or (s.kind == "inf" and x.kind == "finite" and not x.magnitude):
        return oracle.encode(math.nan, "fp32")
    if block.zero is not None:
        x = oracle.exact(int(x.signed - block.zero))
    negative = x.negative != s.negative
    if "inf" in (x.kind, s.kind):
        zero = (x.kind == "finite" and not x.magnitude) or (s.kind == "finite" and not s.magnitude)
        return oracle.encode(math.nan if zero else Exact("inf", negative, Fraction(0)), "fp32")
    rounded = _fl(x.magnitude * s.magnitude * block.tensor_scale)
    return _bits(-float(rounded) if negative else float(rounded))


def _bits(x: float) -> int:
    """The bits of a float32 number."""
    return int.from_bytes(struct.pack("<f", x), "little")
