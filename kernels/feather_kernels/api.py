"""encode, decode, pack and unpack, on the GPU.

Without a GPU the same calls run in the simulator, for up to `calls.SIMULATED` numbers.

Source: design of this project.
"""

from __future__ import annotations

from operator import index
from typing import Any

from feather_kernels import calls
from feather_kernels.arrays import DTYPES, NUMBERS
from feather_kernels.conversions import Packing, Unpacking, kept
from feather_kernels.decoders import check_exact
from feather_ref import Format, PackedTensor, get_format
from feather_ref.codec import check_random
from feather_ref.policy import resolve


@kept
def _packing(words: bool, fmt: str | Format, n_bits: Any = None, **policies: Any) -> Packing:
    if words and "order" in policies:
        raise TypeError("order: kernels pack little alone; feather_ref.pack(x, fmt, order='big') packs the other")
    policy = resolve(get_format(fmt), **policies)
    checked = check_random(policy.rounding, None if n_bits is None else 0, n_bits, ())
    return Packing(policy, words, 0 if checked is None else checked[1])


def encode(
    x: Any, fmt: str | Format, *, out: Any = None, stream: Any = None, random_bits: Any = None,
    n_bits: int | None = None, **policies: Any,
) -> Any:  # fmt: skip
    """The codes of x, as `feather_ref.encode` gives them.

    x: float16, bfloat16 or float32, any shape, of NumPy, CuPy, torch ...; the codes come back as that
    library's arrays, of dtype `feather_ref.code_dtype(fmt)`.  policies: rounding, overflow, nan, negative.
    random_bits, n_bits: for stochastic rounding, as `feather_ref.encode` takes them, or uint32 on the GPU
    of the shape of x, whose low n_bits are looked at.

    Raises what `feather_ref.encode` raises, and ValueError for what no kernel has.
    """
    return _packed(False, x, fmt, out, stream, random_bits, n_bits, policies)


def pack(
    x: Any, fmt: str | Format, *, out: Any = None, stream: Any = None, random_bits: Any = None,
    n_bits: int | None = None, **policies: Any,
) -> Any:  # fmt: skip
    """The words of x, as `feather_ref.pack` gives them in order "little".

    x: (..., n), and the rest, as for `encode`.  Returns (..., ceil(n * storage_bits / 32)) uint32.

    Raises as `encode`.
    """
    return _packed(True, x, fmt, out, stream, random_bits, n_bits, policies)


def _packed(
    words: bool, x: Any, fmt: str | Format, out: Any, stream: Any, random: Any, n_bits: Any, policies: dict[str, Any]
) -> Any:
    if random is None and n_bits is None:
        return _packing(words, fmt, **policies)(x, out, stream)
    made = _packing(words, fmt, n_bits, **policies)
    check_random(made.policy.rounding, random if random is None else 0, n_bits, ())
    return made.run(x, out, stream, random)


@kept
def _unpacking(words: bool, fmt: str | Format, dtype: Any, n: Any = None, scaled: bool = False) -> Unpacking:
    row, name = get_format(fmt), "float32" if dtype is None else str(getattr(dtype, "name", dtype))
    name = name.removeprefix("torch.")
    if name not in NUMBERS:
        raise TypeError(f"dtype must be float32, float16 or bfloat16, got {dtype!r}")
    _check_target(row, NUMBERS[name], scaled)
    return Unpacking(row, words, name, None if n is None else _whole(n), scaled)


def decode(codes: Any, fmt: str | Format, *, dtype: Any = None, out: Any = None, stream: Any = None) -> Any:
    """The values of codes, exactly, as `feather_ref.decode` gives them.

    codes: of dtype `feather_ref.code_dtype(fmt)`, any shape; bits above a code are not looked at.
    dtype: "float32" (None), "float16" or "bfloat16", which must hold every value of the format;
    bfloat16 comes back as uint16 from NumPy and CuPy.

    Raises TypeError or ValueError naming the argument.
    """
    return _unpacking(False, fmt, dtype)(codes, out, stream)


def unpack(
    words: Any, fmt: str | Format | None = None, n: int | None = None, *, dtype: Any = None, out: Any = None,
    stream: Any = None,
) -> Any:  # fmt: skip
    """The values of words, as `feather_ref.unpack` gives them in order "little".

    words: (..., m) uint32, or a PackedTensor, which brings fmt, n and its scale.  n: how many of a
    row; None is every whole lane.  Bits past n are not looked at.  dtype: as for `decode`.

    Raises TypeError or ValueError naming the argument.
    """
    if isinstance(words, PackedTensor):
        if fmt is not None or n is not None:
            raise TypeError("a PackedTensor brings its own fmt and n")
        columns, scale = (words.shape or (1,))[-1], words.scale
        made = _unpacking(True, words.fmt, dtype, columns, scale is not None)
        return made.run(calls.little(words), out, stream, scale)
    if fmt is None:
        raise TypeError("fmt is missing: words do not say what they hold")
    count = n if n is None or type(n) is int else _whole(n)  # an array of one number may hold another tomorrow
    return _unpacking(True, fmt, dtype, count)(words, out, stream)


def _whole(n: Any) -> int:
    if not hasattr(n, "__index__") or isinstance(n, bool):
        raise TypeError(f"n must be an int, got {type(n).__name__}")
    return index(n)


def _check_target(row: Format, target: str, scaled: bool) -> None:
    """Refuse numbers that do not hold every value."""
    check_exact(row)
    if target == "fp32" or scaled:
        return
    held = get_format(target)
    inside = row.kind != "table" and row.quantum >= held.quantum and row.mantissa_bits <= held.mantissa_bits
    greatest = abs(row.max) <= held.max and abs(row.min) <= held.max
    if not inside or not greatest or (row.kind == "integer" and row.bits - 1 > held.mantissa_bits + 1):
        raise ValueError(f"dtype: {DTYPES[target]} does not hold every value of {row.name!r}; use float32")
