"""What the failures of a block quantizer have in common: which scale rule it follows, and what its elements do.

Every rule of the table that the format can take is run on the same blocks, and so are known faults.
Elements are looked at beside the scales that were given, so that one fault does not hide another.

Source: design of this project; the faults are those of public bug reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feather_ref.blocks import SCALE_RULES, BlockFormat, quantize_blocks
from feather_ref.codec import decode, encode
from feather_ref.conformance.recompute import is_nan
from feather_ref.formats import Format
from feather_ref.golden import BlockQuestion
from feather_ref.rounding import DETERMINISTIC

Array = NDArray[Any]


class Found(NamedTuple):
    """Records, the codes that came, those that should, and their digits; see `block_vectors`."""

    columns: tuple[Array, ...]
    got: Array
    want: Array
    digits: Array


def wrong_codes(got: Array, want: Array, digits: Array, rows: Sequence[Format]) -> NDArray[np.bool_]:
    """Where codes are wrong by their digits; rows: the format of each column."""
    right = (got == want) | (digits == 0) | ((digits == 3) & (got == want.astype(np.uint64) + 1))
    for row in dict.fromkeys(rows):
        mine = [k for k, each in enumerate(rows) if each == row]
        if (digits[:, mine] == 2).any():
            right[:, mine] |= (digits[:, mine] == 2) & is_nan(got[:, mine], row)
    found: NDArray[np.bool_] = ~right
    return found


def guess(question: BlockQuestion, found: Found, rows: Sequence[Format], sampled: bool) -> Iterator[str]:
    """What would explain the failures.  rows: of the codes.  sampled: there are more records than these."""
    if question.op == "dequantize":
        yield from _guess_products(question.bfmt, found, rows)
        return
    # 1. where nothing is asked, or NaN, no rule shows
    plain = found.digits[:, 0] == 1
    kept = Found(tuple(column[plain] for column in found.columns), *(part[plain] for part in found[1:]))
    if not len(kept.got):
        return
    # 2. the rules
    answers = dict(_answers(question, kept))
    scales_differ = {name: int((codes[:, 0] != kept.got[:, 0]).sum()) for name, codes in answers.items()}
    all_differ = {name: int((codes != kept.got).any(axis=1).sum()) for name, codes in answers.items()}
    yield from _say_rules(kept, scales_differ, all_differ, sampled)
    # 3. the elements, for the scales that were given
    if question.op == "block" and min(all_differ.values()):
        yield from _guess_elements(question.bfmt, kept, answers, scales_differ)


def _say_rules(kept: Found, scales: Mapping[str, int], whole: Mapping[str, int], sampled: bool) -> Iterator[str]:
    some = f", in a sample of {len(kept.got)}" if sampled else ""
    exact = [name for name, wrong in whole.items() if not wrong]
    if exact:
        also = f"; so does {', '.join(exact[1:])}" if exact[1:] else ""
        yield f"agrees with {exact[0]}{also}{some}"
        return
    equal = [name for name, wrong in scales.items() if not wrong]
    if equal:
        also = f"; so do they with {', '.join(equal[1:])}" if equal[1:] else ""
        yield f"the scales agree with {equal[0]}{also}{some}"
        return
    name = min(scales, key=lambda each: scales[each])
    if 2 * scales[name] <= len(kept.got):
        yield f"the scales nearly agree with {name}: {scales[name]} of {len(kept.got)} differ"


# --- rules ------------------------------------------------------------------------------------


def _answers(question: BlockQuestion, kept: Found) -> Iterator[tuple[str, Array]]:
    """What each rule gives for the records: scale codes, and element codes where they are asked for."""
    bfmt = question.bfmt
    blocks, whole = _numbers(question, kept)
    for name, rule in SCALE_RULES.items():
        if not rule.lacks(bfmt) and (bfmt.tensor_scale == "none" or rule.name != "mse"):
            codes = np.column_stack(_quantized(blocks, whole, bfmt, name))
            yield f"rule {name!r}", codes[:, : kept.got.shape[1]]
    if bfmt.scale.mantissa_bits == 0:
        yield "floor(log2(amax)) in float32, one too high just below a power of two", _log2(blocks, bfmt, kept)


def _numbers(question: BlockQuestion, kept: Found) -> tuple[Array, Array | None]:
    """float32 blocks (n, k), and the amax of each one's tensor."""
    shift = np.uint32(16 if question.source == "bf16" else 0)
    columns = [column.astype(np.uint32) << shift for column in kept.columns]
    two_levels = question.bfmt.tensor_scale != "none"
    if question.op == "block":
        whole = columns.pop(0) if two_levels else None
        return np.stack(columns, axis=1).view(np.float32), whole
    blocks = np.zeros((len(columns[0]), question.bfmt.size), np.uint32)
    blocks[:, 0] = columns[0]
    return blocks.view(np.float32), columns[1] if two_levels else None


def _quantized(blocks: Array, whole: Array | None, bfmt: BlockFormat, rule: str) -> tuple[Array, Array]:
    """Scale codes (n, 1) and element codes (n, k); a tensor of its own for each amax of a tensor."""
    if whole is None:
        tensor = quantize_blocks(blocks, bfmt, scale_rule=rule)
        return tensor.scales, tensor.codes
    scales, codes = np.zeros((len(blocks), 1), np.uint8), np.zeros(blocks.shape, np.uint8)
    for top in np.unique(whole):
        chosen = np.flatnonzero(whole == top)
        first = np.zeros((1, bfmt.size), np.float32)
        first[0, 0] = top.view(np.float32)
        tensor = quantize_blocks(np.concatenate([first, blocks[chosen]]), bfmt, scale_rule=rule)
        scales[chosen], codes[chosen] = tensor.scales[1:], tensor.codes[1:]
    return scales, codes


def _log2(blocks: Array, bfmt: BlockFormat, kept: Found) -> Array:
    """The scales of a rule whose logarithm is rounded before it is cut; elements as they came."""
    amax = np.where(np.isfinite(blocks), np.abs(blocks), np.float32(0)).max(axis=1)
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log2(amax.astype(np.float64)).astype(np.float32))
    low, high = 0, bfmt.scale.max_magnitude
    codes = kept.got.copy()
    codes[:, 0] = np.clip(np.maximum(exponent, -1000) - bfmt.emax + bfmt.scale.bias, low, high)
    return codes


# --- elements ---------------------------------------------------------------------------------


def _guess_elements(
    bfmt: BlockFormat, kept: Found, answers: Mapping[str, Array], scales_differ: Mapping[str, int]
) -> Iterator[str]:
    """What the elements are for the scales that came: another rounding, an order, a sign."""
    got = kept.got[:, 1:]
    options: dict[str, Array] = {}
    if bfmt.scale.mantissa_bits == 0:
        for rounding in DETERMINISTIC:
            options[f"rounding={rounding!r}"] = _divided(bfmt, kept, rounding)
    else:
        name = min(scales_differ, key=lambda each: scales_differ[each])
        options[name] = answers[name][:, 1:]
    first, right = next(iter(options.items()))
    if (got == right).all():
        yield f"the elements are right for these scales ({first})"
        return
    sign = bfmt.element.sign_mask
    options["+0 in place of -0"] = np.where(right == sign, 0, right)
    options["neighbouring elements swapped"] = right.reshape(len(right), -1, 2)[:, :, ::-1].reshape(right.shape)
    options["the elements in reverse"] = right[:, ::-1]
    options["every sign turned"] = right ^ np.uint8(sign)
    options["the signs lost"] = right & ~np.uint8(sign)
    found = [text for text, codes in options.items() if (got == codes).all()]
    if found:
        yield f"the elements agree with {', or '.join(found[:3])}"


def _divided(bfmt: BlockFormat, kept: Found, rounding: Any) -> Array:
    """Element codes of x over the scales that came, which are powers of two."""
    x = np.stack([column.astype(np.uint32) for column in kept.columns[-bfmt.size :]], axis=1).view(np.float32)
    power = kept.got[:, :1].astype(np.int64) - bfmt.scale.bias
    nan: Any = "canonical" if bfmt.element.has_nan else "zero"
    with np.errstate(invalid="ignore", over="ignore"):  # a signalling NaN; a scale that is no code
        exact = np.ldexp(x.astype(np.float64), -power)
    return encode(exact, bfmt.element, rounding=rounding, overflow="saturate", nan=nan)


# --- products ---------------------------------------------------------------------------------


def _guess_products(bfmt: BlockFormat, found: Found, rows: Sequence[Format]) -> Iterator[str]:
    """Known ways to read a block wrongly."""
    two_levels = bfmt.tensor_scale != "none"
    whole = found.columns[0].view(np.float32)[:, None] if two_levels else np.ones((len(found.got), 1), np.float32)
    scale_codes = found.columns[int(two_levels)]
    codes = np.stack(found.columns[1 + two_levels :], axis=1)
    scale = decode(scale_codes, bfmt.scale, np.float32)[:, None]
    element = decode(codes, bfmt.element, np.float32)
    for text, make in _READINGS:
        with np.errstate(all="ignore"):
            values = np.asarray(make(element, scale, whole, scale_codes[:, None]), np.float32)
        made = Found(found.columns, found.got, values.view(np.uint32), found.digits)
        if not wrong_codes(made.got, made.want, made.digits, rows).any():
            yield f"agrees with {text}"
            return


def _swapped(element: Array) -> Array:
    return element.reshape(len(element), -1, 2)[:, :, ::-1].reshape(element.shape)


_Reading = Callable[[Array, Array, Array, Array], Array]
_READINGS: tuple[tuple[str, _Reading], ...] = (
    ("fl(fl(element * scale) * tensor scale)", lambda e, s, t, c: e * s * t),
    ("fl(element * fl(scale * tensor scale))", lambda e, s, t, c: e * (s * t)),
    ("neighbouring elements swapped", lambda e, s, t, c: _swapped(e) * s * t),
    ("the scale left out", lambda e, s, t, c: e * t),
    ("the tensor's scale left out", lambda e, s, t, c: e * s),
    ("division by the tensor's scale", lambda e, s, t, c: e * s / t),
    ("the scale's code taken for its value", lambda e, s, t, c: e * c.astype(np.float32) * t),
    ("division by the scale", lambda e, s, t, c: e / s * t),
    ("scales of half the size", lambda e, s, t, c: e * (s * np.float32(0.5)) * t),
    ("scales of twice the size", lambda e, s, t, c: e * (s * np.float32(2)) * t),
    ("scale 00 as zero", lambda e, s, t, c: e * np.where(c == 0, np.float32(0), s) * t),
    ("subnormal results flushed to zero", lambda e, s, t, c: _flushed(e * s * t)),
    ("NaN scales ignored", lambda e, s, t, c: e * np.where(np.isnan(s), np.float32(np.inf), s) * t),
)


def _flushed(x: Array) -> Array:
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)
