"""What a kernel multiplies, and what all kernels of products divide alike.

Source: design of this project.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from feather_kernels._target import device
from feather_kernels.decoders import make_nan_flag, widens
from feather_kernels.launch import Job
from feather_ref import Format

Function = Callable[..., Any]


class Shared(NamedTuple):
    """What the numbers of a block share: size of them along k, and rows; the row of the scale.

    zero: a code that means zero, too.  plain: no scale is NaN, nor below the normal numbers of float32.
    """

    size: int
    rows: int
    scale: Format
    zero: bool = False
    plain: bool = False


@dataclass(frozen=True)
class Product(ABC):
    """A product: its operands, and how much of it a warp and a block have.

    fmt, x, out: rows of the weights, of x (fp16, bf16, fp32) and of the result.  warps: of a block, a multiple of
    splits, which share their rows; parts: blocks that do.  depth: steps that are loaded before the first is
    used.  finite: no code of W is Inf or NaN.  aligned: every row of W starts on 16 bytes; x_aligned: x does.
    native: the target widens e4m3 itself.  shared: what the numbers of blocks share, where they do.
    """

    fmt: Format
    x: str = "fp16"
    out: str = "fp32"
    splits: int = 1
    warps: int = 4
    depth: int = 1
    parts: int = 1
    finite: bool = False
    bias: bool = False
    aligned: bool = True
    x_aligned: bool = True
    native: bool = False
    shared: Shared | None = None

    @property
    @abstractmethod
    def warp_rows(self) -> int:
        """Rows of a warp."""

    @property
    @abstractmethod
    def lanes(self) -> int:
        """Codes in a vector."""

    @property
    def blocks(self) -> int:
        """Scales of a vector; 0 where there are none."""
        return 0 if self.shared is None else max(1, self.lanes // self.shared.size)

    @property
    @abstractmethod
    def block_words(self) -> int:
        """Words, zero at first, where the parts of the rows of a block meet: counters and partial sums."""

    @abstractmethod
    def job(self, x_aligned: bool = True) -> Job:
        """What to compile, for an x that begins on 16 bytes or not."""

    @abstractmethod
    def order(self) -> dict[str, Any] | None:
        """The fields of the `feather_ref.ops.Order` that replays it; None where there is none."""

    @abstractmethod
    def explain(self, n: int, k: int) -> list[str]:
        """What it is and how it divides the work, in lines."""

    @property
    def weights(self) -> str:
        """What W holds, in words."""
        shared = "" if self.shared is None else f" in blocks of {self.shared.size} with {self.shared.scale.name} scales"
        return f"{self.fmt.name}{shared}"

    @property
    def division(self) -> str:
        """Who shares a load of x, and a row, in words."""
        rows = f"{self.warp_rows} rows a warp share a load of x" if self.warp_rows > 1 else "1 row a warp"
        who = [f"{count} {what}" for count, what in ((self.splits, "warps"), (self.parts, "blocks")) if count > 1]
        return f"{rows}, {' and '.join(who)} share a row" if who else f"{rows}, 1 warp a row"

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return self.warp_rows * (self.warps // self.splits)

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * self.warps

    def grid(self, n: int) -> int:
        """Blocks for n rows."""
        return -(-n // self.block_rows) * self.parts

    def workspace(self, n: int) -> int:
        """Words, zero at first, that the parts of n rows need."""
        return self.grid(n) // self.parts * self.block_words if self.parts > 1 else 0

    @property
    def widened(self) -> bool:
        """Whether the target widens the weights itself, NaN too."""
        return self.native and widens(self.fmt)

    @property
    def flag(self) -> Function | None:
        """What tells whether a word holds a NaN, where that is asked."""
        return None if self.finite or self.widened else make_nan_flag(self.fmt)


@device
def no_flag(word):
    """In the place of `Product.flag`, where nothing is asked."""
    return np.uint32(0)
