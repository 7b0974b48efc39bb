"""What a scale rule is: one row; and what it gives for a chunk of blocks.

    scale        the scale codes of a chunk, and how elements come of them
    elements     element codes: of the exact quotient, unless the rule is a library's own recipe

Source: a rule of this project.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from feather_ref._bits import I64
from feather_ref._blockparts import FP32, Blocks, Magnitudes, Values, narrow, widen
from feather_ref._blockrows import BlockFormat
from feather_ref._quotients import Divisor, power_codes, quotient_codes
from feather_ref._sweep import Array
from feather_ref.codec import decode
from feather_ref.formats import Format
from feather_ref.policy import Policy, resolve

T = TypeVar("T")
FLOAT32_MAX = float(np.finfo(np.float32).max)


class Job(NamedTuple):
    """What every chunk of one call shares.  whole: the greatest finite magnitude of the tensor, (1,)."""

    bfmt: BlockFormat
    policy: Policy
    whole: Magnitudes

    @property
    def top(self) -> float:
        """The greatest element times the greatest scale: 2688 for nvfp4."""
        return self.bfmt.element.max * self.bfmt.scale.max

    @property
    def unit(self) -> float:
        """The greatest finite magnitude of the tensor; 1 where there is none."""
        return float(self.whole.value[0]) or 1.0


class Scaled(NamedTuple):
    """Scales of a chunk: their codes (m,), and how elements come of them.

    Element codes are those of x / 2**power, or where power is None of x / by.  factor: (m,) what a
    recipe multiplies x by.  zeros: (m,) codes that mean zero.
    """

    codes: Array
    power: I64 | None = None
    by: Divisor | None = None
    factor: Values | None = None
    zeros: Array | None = None


def divided(blocks: Blocks, scaled: Scaled, job: Job) -> Array:
    """Element codes of the exact quotient: what most rules do."""
    if scaled.power is not None:
        return power_codes(blocks, scaled.power, job.policy)
    return quotient_codes(blocks, given(scaled.by), job.policy)


def given(value: T | None) -> T:
    """A part of `Scaled` that the rule has filled in."""
    if value is None:
        raise ValueError("scale rule: its scale lacks what its elements need")
    return value


def one(job: Job) -> float:
    """The tensor scale of rules that have no use for one."""
    return 1.0


def scale_codes(x: Magnitudes, by: Divisor, row: Format) -> Array:
    """The scale row's codes of x / by, exactly divided and rounded once; they saturate."""
    return quotient_codes(Blocks(x.bits[:, None], x.row), by, resolve(row, overflow="saturate"))[:, 0]


def scale_values(codes: Array, row: Format) -> Values:
    """The values of scale codes."""
    return widen(codes) if row == FP32 else decode(codes, row, np.float64)


def exact_tensor(job: Job) -> float:
    """AMAX / (max * MAX), rounded once; at least the least float32 above 0; 1 where AMAX is 0, or for one level."""
    if job.bfmt.tensor_scale == "none" or job.whole.zero[0]:
        return 1.0
    code = scale_codes(job.whole, Divisor(np.array([job.top])), FP32)
    return float(widen(np.maximum(code, np.uint32(1)))[0])


def any_format(bfmt: BlockFormat) -> str:
    """What a block format lacks for a rule: "" is nothing."""
    return "" if not bfmt.zero_point else "it has a zero point"


@dataclass(frozen=True)
class ScaleRule:
    """One rule: a row.  definition: in words.

    scale, elements: see above.  tensor_scale: of the whole tensor.  rounding: of the elements, where
    none is asked for; None where the rule's own is the only one.  single: the rule computes in
    float32, so that wider numbers are rounded to float32 first.  lacks: why a format cannot have it.
    """

    name: str
    definition: str
    scale: Callable[[Blocks, Job], Scaled]
    elements: Callable[[Blocks, Scaled, Job], Array] = divided
    tensor_scale: Callable[[Job], float] = one
    rounding: str | None = "nearest_even"
    single: bool = False
    lacks: Callable[[BlockFormat], str] = any_format


# --- arithmetic of float32, in float64 --------------------------------------------------------


def fl(x: Values) -> Values:
    """float64 numbers rounded to float32: exact products and quotients of float32 numbers once only."""
    return widen(narrow(x))


def product(a: Values, b: Values) -> Values:
    """fl(a * b) of float32 numbers: the product is exact in float64."""
    with np.errstate(all="ignore"):
        return fl(np.asarray(a * b))


def quotient(a: Values, b: Values) -> Values:
    """fl(a / b) of float32 numbers: 53 bits and then 24 round like 24 at once."""
    with np.errstate(all="ignore"):
        return fl(np.asarray(a / b))
