"""A case: inputs of one id that belong together, why they are there, and the answers of the oracle.

    op.from.to.round.overflow[.choice=option]*.tv       the id of the file that a case stands in

Inputs are bit patterns of the source, an integer source's in two's complement.  Rows of 64 bits
are sources only, and have no name in `feather_ref.formats`; they stand here.

Source: the names are those of data/golden/README.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from feather_ref import golden, oracle
from feather_ref.formats import Format, get_format
from golden_steps import is_open, judge

Line = tuple[tuple[int, ...], int, int]

TYPES = {
    "f16": get_format("fp16"),
    "bf16": get_format("bf16"),
    "f32": get_format("fp32"),
    "f64": Format("float64", 64, exponent_bits=11, mantissa_bits=52, bias=1023, inf="ieee", nan="ieee"),
    "i64": Format("int64", 64, kind="integer"),
}
"""The rows of IEEE floats, bfloat16 and int64; every other token is the name of a format."""

ARITHMETIC: dict[str, Callable[..., int]] = {
    "add": oracle.add, "subtract": oracle.subtract, "multiply": oracle.multiply, "divide": oracle.divide,
    "fma": oracle.fma,
}  # fmt: skip
"""The operations of the oracle by the tokens of ids."""

CLASSES = {
    "tie_to_even_down": "half way between two codes, the lower one is even",
    "tie_to_even_up": "half way between two codes, the upper one is even",
    "tie_1_ulp": "one step of the source beside half way",
    "binade_carry": "rounding up goes into the next binade",
    "tie_at_max": "half way between the greatest value and the one that would follow, and one step beside",
    "clamp_before_rounding": "beyond the greatest value, but rounded to it: no overflow",
    "overflow": "beyond the greatest value after rounding",
    "first_subnormal_tie": "half way between the first two subnormals, and one step beside",
    "subnormal_to_normal_carry": "half way between the greatest subnormal and the least normal, and one step beside",
    "half_min_subnormal": "half of the least value, and one step beside",
    "deep_underflow": "far below the least value",
    "range_ends": "the ends of subnormals and normals themselves",
    "integer_ends": "the greatest and the least integer of the source",
    "least_integer": "two's complement reaches one further below zero; half a step beyond, and one step beside",
    "minus_zero": "zeros of both signs",
    "underflow_to_minus_zero": "negative, and rounded to zero: the sign stays where the format has -0",
    "inf": "infinity of both signs",
    "nan_low_payload": "NaN, also with a payload in the low bits alone, which a cut would make Inf",
    "negative": "negative into a format without sign",
    "float16_subnormals": "subnormal as float16",
    "float32_subnormals": "subnormal as float32",
    "double_rounding_f16": "rounded wrongly when it goes through float16",
    "double_rounding_bf16": "rounded wrongly when it goes through bfloat16",
    "double_rounding_f32": "rounded wrongly when it goes through float32",
    "double_rounding_f64": "rounded wrongly when it goes through float64",
    "sticky": "just beside half way: the bits below the guard bit decide",
    "nearest_value": "half way between two values of a table, and one step beside",
    "code_value": "codes and their values",
    "decode_subnormal": "codes without a hidden bit",
    "decode_special": "codes of zero, Inf and NaN",
    "zero_sum": "the sign of an exact zero",
    "fused": "one rounding, not two",
    "cancellation": "what is left when large terms cancel",
    "arithmetic": "the value counts, not the pattern",
    "product_over_f32_max": "a product over the greatest value",
    "stochastic": "the random bits stand against the bits that are cut",
    "order": "less, equal, greater, unordered",
}
"""The coverage classes that can be told as one conversion or one operation on codes."""

CLASSES_ELSEWHERE = {
    "swapped_lanes": "lanes of words: tests/ref/test_packing.py",
    "amax_below_power_of_two": "e8m0 of such an amax is here; the rule of a block: the tests of feather_ref.blocks",
    "amax_tie": "e8m0 ties are here; the rule of a block: the tests of feather_ref.blocks",
    "all_zero_block": "the tests of feather_ref.blocks",
    "nan_and_inf_in_a_block": "the tests of feather_ref.blocks",
    "scale_clamps": "e8m0 and ue4m3 beyond their ends are here; the rule of a block: the tests of feather_ref.blocks",
}
"""Coverage classes that need a word or a block, and where they belong."""


@dataclass(frozen=True)
class Case:
    """Inputs of one id and one class.

    cls: of `CLASSES`.  op .. choices: tokens of the id; choices as in it, "nan=max" or "n=4.r=7".
    inputs: operands as bit patterns, a tuple for each line.  note: why; for a public report where.
    want: results typed by hand, where there are some.
    """

    cls: str
    op: str
    src: str
    dst: str
    round: str
    overflow: str
    choices: str
    inputs: tuple[tuple[int, ...], ...]
    note: str
    want: tuple[int, ...] | None = None

    @property
    def id(self) -> str:
        """The id of the file that the case stands in."""
        parts = (self.op, self.src, self.dst, self.round, self.overflow, self.choices, "tv")
        return ".".join(part for part in parts if part)


def row_of(token: str) -> Format:
    """The row of a `from` or `to` token."""
    return TYPES.get(token) or get_format(token)


def lines(case: Case) -> Iterator[Line]:
    """Operands, result and judge digit of every input, by the exact oracle.

    >>> tie = Case("tie_at_max", "convert", "f32", "e4m3", "rne", "nonsat", "", ((0x43E80000,),), "464")
    >>> [[f"{x:X}" for x in (*operands, z, j)] for operands, z, j in lines(tie)]
    [['43E80000', '7E', '1']]
    """
    asked = golden.question(case.id)
    stochastic = {"n_bits": asked.n_bits, "random": asked.random} if asked.n_bits else {}
    for operands in case.inputs:
        yield (operands, *answer(case, operands, asked.policies | stochastic))


def answer(case: Case, operands: tuple[int, ...], said: dict[str, Any]) -> tuple[int, int]:
    """Result and judge digit: 0 the standard says nothing, 1 these bits, 2 any NaN."""
    source, target = row_of(case.src), row_of(case.dst)
    if case.op == "compare":
        return oracle.compare(operands[0], operands[1], target), 1
    if case.op in ARITHMETIC:
        z = ARITHMETIC[case.op](*operands, target, **said)
    else:
        x = oracle.decode(operands[0], source)
        if is_open(x, target, said):
            return 0, 0
        z = oracle.encode(x, target, source=source, **said)
        if case.op == "decode" and x.kind == "finite" and oracle.decode(z, target) != x:
            raise ValueError(f"{case.id}: the value of {operands[0]:#x} is not a number of {case.dst}")
    return z, judge(z, target, said)
