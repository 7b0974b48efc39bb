"""encode, decode, pack and unpack, on the GPU.

Without a GPU the same calls run in the simulator, for up to `calls.SIMULATED` numbers.

Source: design of this project.
"""

from __future__ import annotations

import math
from functools import lru_cache
from operator import index
from typing import Any

import numpy as np

from feather_kernels import arrays, calls, jobs
from feather_kernels.arrays import DTYPES, NUMBERS, Given
from feather_kernels.convert import QUADS, THREADS, aligned, pack_quads
from feather_kernels.decoders import check_exact
from feather_kernels.encoders import REFUSED, Special
from feather_ref import Format, PackedTensor, code_dtype, get_format
from feather_ref import encode as reference_encode
from feather_ref.policy import Policy, resolve

_HIGHEST_GRID = 65535


def _number_row(given: Given, name: str) -> str:
    row = NUMBERS.get(given.name)
    if row is None:
        raise TypeError(f"{name} must be float16, bfloat16 or float32, got {given.name}")
    return row


# --- numbers to codes and words ---------------------------------------------------------------


def encode(x: Any, fmt: str | Format, *, out: Any = None, stream: Any = None, **policies: Any) -> Any:
    """The codes of x, as `feather_ref.encode` gives them.

    x: float16, bfloat16 or float32, any shape, of NumPy, CuPy, torch ...; the codes come back as that
    library's arrays, of dtype `feather_ref.code_dtype(fmt)`.  policies: rounding, but for the
    stochastic ones, overflow, nan, negative.

    Raises what `feather_ref.encode` raises, and ValueError for what no kernel has.
    """
    row = get_format(fmt)
    given = arrays.take(x, "x")
    width = 8 * code_dtype(row).itemsize
    shape = given.shape
    with calls.here(given):
        made = calls.made(out, given, shape, code_dtype(row).name, arrays.named_stream(stream, given, "x"))
        _pack(given, resolve(row, **policies), width, 0, made, (1, math.prod(shape)), False, stream)
    return arrays.give(given, made) if out is None else out


def pack(x: Any, fmt: str | Format, *, out: Any = None, stream: Any = None, **policies: Any) -> Any:
    """The words of x, as `feather_ref.pack` gives them in order "little".

    x: (..., n), as for `encode`.  Returns (..., ceil(n * storage_bits / 32)) uint32.

    Raises as `encode`.
    """
    row = get_format(fmt)
    given = arrays.take(x, "x")
    *lead, n = given.shape or (1,)
    words = -(-n * row.storage_bits // 32)
    rows = (1, math.prod(lead) * n) if n * row.storage_bits % 32 == 0 else (math.prod(lead), n)
    with calls.here(given):
        made = calls.made(out, given, (*lead, words), "uint32", arrays.named_stream(stream, given, "x"))
        _pack(given, resolve(row, **policies), row.storage_bits, row.storage_shift, made, rows, True, stream)
    return arrays.give(given, made) if out is None else out


def _pack(
    given: Given, policy: Policy, width: int, shift: int, made: Any, size: tuple[int, int], words: bool, stream: Any
) -> None:
    """Launch `pack` over `size` rows and columns."""
    source = _number_row(given, "x")
    rows, n = size
    if rows * n == 0:
        return
    calls.check_size(rows * n)
    number_bits = get_format(source).bits
    y_stride = -(-n * width // 32) if words else n
    vector = _is_aligned(given.address, rows, n, number_bits) and _is_aligned_lanes(made, rows, y_stride, width, words)
    job = jobs.pack_job(policy, source, width, shift, vector, words)
    special = Special.of(policy)
    refuses = REFUSED in (*special.nan, special.negative)
    x_kinds, y_kinds = job.arguments[:2], job.arguments[2:4]
    arguments = (*arrays.pointers(given.array, x_kinds), *arrays.pointers(made, y_kinds))
    lanes = -(-y_stride * 32 // width) if words else n  # also those that fill the last word up
    grid, at = _grid(rows, lanes, pack_quads(policy, width, shift)), arrays.stream_of(stream, given)
    with arrays.cupy_stream(at if refuses else None):  # which writes the status, and reads it
        status = arrays.upload(np.zeros(1, np.uint32)) if refuses else None
        arguments = (*arguments, *arrays.pointers(status, ("u32*",)), rows, n, n, y_stride)
        calls.run(job, grid, THREADS, arguments, at)
        if status is not None and int(status[0]):
            _explain_refusal(given, policy)


def _explain_refusal(given: Given, policy: Policy) -> None:
    """Let the reference say which element is refused, and why."""
    choices: dict[str, Any] = {"overflow": policy.overflow, "nan": policy.nan, "negative": policy.negative}
    reference_encode(arrays.host(given), policy.fmt, **choices)
    raise ValueError(f"x: an element is NaN or negative, which {policy.fmt.name!r} does not hold")


def _grid(rows: int, lanes: int, quads: int) -> tuple[int, int]:
    return -(-lanes // (4 * quads * THREADS)), min(rows, _HIGHEST_GRID)


def _is_aligned(address: int, rows: int, n: int, bits: int) -> bool:
    """Whether every row of numbers begins at a whole quad."""
    return address % (bits // 2) == 0 and (rows == 1 or n % 4 == 0)


def _is_aligned_lanes(array: Any, rows: int, stride: int, width: int, words: bool) -> bool:
    """Whether every row of lanes does; stride: in words, or in lanes."""
    size = aligned(width)
    return arrays.address(array) % size == 0 and (rows == 1 or stride * (4 if words else width // 8) % size == 0)


# --- codes and words to numbers ---------------------------------------------------------------


def decode(codes: Any, fmt: str | Format, *, dtype: Any = None, out: Any = None, stream: Any = None) -> Any:
    """The values of codes, exactly, as `feather_ref.decode` gives them.

    codes: of dtype `feather_ref.code_dtype(fmt)`, any shape; bits above a code are not looked at.
    dtype: "float32" (None), "float16" or "bfloat16", which must hold every value of the format;
    bfloat16 comes back as uint16 from NumPy and CuPy.

    Raises TypeError or ValueError naming the argument.
    """
    row = get_format(fmt)
    given = arrays.take(codes, "codes")
    wanted = code_dtype(row).name
    if given.name not in (wanted, wanted.removeprefix("u")):
        raise TypeError(f"codes must be {wanted}, got {given.name}")
    width = 8 * code_dtype(row).itemsize
    return _numbers(given, row, width, 0, given.shape, (1, math.prod(given.shape)), None, dtype, out, stream)


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
        packed = words
        given = arrays.take(calls.little(packed), "words")
        row, shape, scale = packed.fmt, packed.shape or (1,), packed.scale
    else:
        if fmt is None:
            raise TypeError("fmt is missing: words do not say what they hold")
        given, row, scale = arrays.take(words, "words"), get_format(fmt), None
        if given.name not in ("uint32", "int32"):
            raise TypeError(f"words must be uint32, got {given.name}")
        *lead, count = given.shape or (1,)
        lanes = count * 32 // row.storage_bits
        columns = lanes if n is None else _whole(n)
        if not 0 <= columns <= lanes:
            raise ValueError(f"n must be 0..{lanes} for {count} words of {row.name!r}, got {n}")
        shape = (*lead, columns)
    rows = (math.prod(shape[:-1]), shape[-1])
    return _numbers(given, row, row.storage_bits, row.storage_shift, shape, rows, scale, dtype, out, stream, True)


def _whole(n: Any) -> int:
    if not hasattr(n, "__index__") or isinstance(n, bool):
        raise TypeError(f"n must be an int, got {type(n).__name__}")
    return index(n)


def _numbers(
    given: Given, row: Format, width: int, shift: int, shape: tuple[int, ...], size: tuple[int, int], scale: Any,
    dtype: Any, out: Any, stream: Any, words: bool = False,
) -> Any:  # fmt: skip
    """Launch `unpack` over `size` rows and columns."""
    name = "float32" if dtype is None else str(getattr(dtype, "name", dtype)).removeprefix("torch.")
    if name not in NUMBERS:
        raise TypeError(f"dtype must be float32, float16 or bfloat16, got {dtype!r}")
    target = NUMBERS[name]
    _check_target(row, target, scale is not None)
    rows, n = size
    with calls.here(given):
        made = calls.made(out, given, shape, name, arrays.named_stream(stream, given, "words" if words else "codes"))
        if rows * n == 0:
            return arrays.give(given, made) if out is None else out
        calls.check_size(rows * n)
        number_bits = get_format(target).bits
        x_stride = given.shape[-1] if words and given.shape else n
        vector = _is_aligned(arrays.address(made), rows, n, number_bits)
        vector = vector and _is_aligned_lanes(given.array, rows, x_stride, width, words)
        job = jobs.unpack_job(row, target, width, shift, vector, words, scale is not None)
        factors = None if scale is None else arrays.upload(np.ascontiguousarray(scale.reshape(-1)))
        arguments = (*arrays.pointers(given.array, job.arguments[:2]), *arrays.pointers(made, job.arguments[2:4]))
        arguments = (*arguments, *arrays.pointers(factors, ("f32*",)), rows, n, x_stride, n)
        arguments = (*arguments, int(factors is not None and factors.size > 1))
        calls.run(job, _grid(rows, n, QUADS), THREADS, arguments, arrays.stream_of(stream, given))
    return arrays.give(given, made) if out is None else out


@lru_cache(maxsize=256)
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
