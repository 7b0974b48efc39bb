"""Blocks that decide: drawn by hypothesis, and compared with the exact oracle bit by bit."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from feather_ref import block_oracle, oracle
from feather_ref._blockrows import BlockFormat
from feather_ref._sources import row_of
from feather_ref.blocks import BLOCK_FORMATS, SCALE_RULES, BlockTensor, quantize_blocks
from feather_ref.formats import Format

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**-149, -(2.0**-149), 2.0**-126, 2.0**-127, 3.4028234663852886e38)
PAIRS = [
    (fmt.name, rule.name) for fmt in BLOCK_FORMATS.values() for rule in SCALE_RULES.values() if not rule.lacks(fmt)
]


def float32(x: float) -> float:
    """x rounded to float32, by the oracle; beyond the greatest it is that."""
    code = oracle.encode(x, "fp32", overflow="saturate")
    return float(np.uint32(code).view(np.float32))


def step(x: float, side: int) -> float:
    """The float32 number beside x >= 0, within the finite ones."""
    code = int(np.float32(x).view(np.uint32)) + side
    return float(np.uint32(min(max(code, 0), 0x7F7FFFFF)).view(np.float32))


def boundaries(row: Format) -> list[float]:
    """The values of an element row and the midpoints between them, positive."""
    values = sorted({abs(float(oracle.decode(c, row).signed)) for c in range(1 << row.bits)
                     if oracle.decode(c, row).kind == "finite"})  # fmt: skip
    return sorted({*values, *((a + b) / 2 for a, b in pairwise(values)), values[-1] * 1.25})


@st.composite
def blocks(draw: st.DrawFn, fmt: BlockFormat, most: int = 40, specials: bool = True) -> np.ndarray:
    """float32 numbers: boundaries between codes times one power of two, steps beside them, and specials.

    The first number is often just below a power of two, or at the greatest element.
    """
    power = draw(st.one_of(st.integers(-6, 6), st.integers(-149, 127)))
    edges = boundaries(fmt.element)
    numbers = []
    for _ in range(draw(st.integers(0, most))):
        exact = draw(st.sampled_from(edges)) * draw(st.sampled_from((1.0, 1.0, 3.0, 0.4375)))
        x = float32(float(np.ldexp(np.float64(exact), power)))
        side = draw(st.sampled_from((0, 0, 1, -1)))
        x = step(x, side)
        numbers.append(-x if draw(st.booleans()) else x)
    extra = st.sampled_from(SPECIAL) if specials else st.sampled_from(SPECIAL[:2])
    numbers += draw(st.lists(st.one_of(extra, st.floats(width=32, allow_nan=False, allow_infinity=False)), max_size=3))
    if draw(st.booleans()):
        numbers.append(float32(2.0**power * (1 - 2.0**-24)))
    return np.array(draw(st.permutations(numbers)), np.float32)


def oracle_rule(fmt: BlockFormat, rule: str) -> str:
    return "mse of two levels" if rule == "mse" and fmt.tensor_scale != "none" else rule


def check(x: np.ndarray, fmt: BlockFormat, rule: str | None = None, **policies: Any) -> BlockTensor:
    """quantize_blocks of one row against the oracle: codes, scales, zeros, tensor scale, values.

    random_bits: a list of integers, one for each number.
    """
    tensor = quantize_blocks(x, fmt, scale_rule=rule, **policies)
    k, wanted = fmt.size, [v.item() if v.dtype != np.longdouble else v for v in x]
    name = oracle_rule(fmt, rule or fmt.scale_rule)
    rows = [wanted[i : i + k] for i in range(0, len(wanted), k)]
    random = policies.pop("random_bits", None)
    operands = [{} if random is None else {"random": pad(random[i : i + k], k)} for i in range(0, len(wanted), k)]
    true = [
        block_oracle.quantize(
            pad(row, k), fmt.element, fmt.scale, name, tensor=wanted, source=row_of(x.dtype), **policies, **operand
        )
        for row, operand in zip(rows, operands, strict=True)
    ]
    codes = [code for block, row in zip(true, rows, strict=True) for code in block.codes[: len(row)]]
    assert [hex(c) for c in tensor.scales.tolist()] == [hex(block.scale) for block in true]
    assert [hex(c) for c in tensor.codes.tolist()] == [hex(c) for c in codes]
    assert (tensor.zeros is None) == (not fmt.zero_point)
    if tensor.zeros is not None:
        assert tensor.zeros.tolist() == [block.zero for block in true]
    if tensor.tensor_scale is not None and true:
        assert Fraction(float(tensor.tensor_scale)) == true[0].tensor_scale
    values = [
        block_oracle.value(block, i, fmt.element, fmt.scale)
        for block, row in zip(true, rows, strict=True) for i in range(len(row))
    ]  # fmt: skip
    assert [hex(v) for v in tensor.dequantize().view(np.uint32).tolist()] == [hex(v) for v in values]
    return tensor


def pad(row: list[Any], k: int) -> list[Any]:
    return row + [0] * (k - len(row))
