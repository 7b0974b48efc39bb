"""The instructions that kernels need and Numba does not offer, each beside its twin in Python.

One row an instruction: the PTX text with LLVM's constraints, the types of the result and of the
arguments, and below it a Python function, the twin, that computes the same bits::

    @_asm("prmt.b32 $0, $1, $2, $3;", "=r,r,r,r", U32, U32, U32, U32)
    def prmt(a, b, selector): ...

On a GPU the name means the instruction, in the simulator the twin; `TWINS` holds every twin.
NaN results of arithmetic are 7FFFFFFF on both.  No instruction here flushes subnormals, and
fma, mul and add are never contracted.

Source: NVIDIA PTX ISA 8.7, the section named like the instruction.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from feather_kernels import simulator
from feather_kernels._target import SIMULATOR

TWINS: dict[str, Callable[..., Any]] = {}

U32, F32, I64, POINTER = "uint32", "float32", "int64", "pointer"
NAN = np.uint32(0x7FFFFFFF)


class _Row(NamedTuple):
    """One instruction: effects says whether it may not be moved, repeated or left out."""

    text: str
    constraints: str
    result: str | tuple[str, ...] | None
    arguments: tuple[str, ...]
    effects: bool


def _asm(
    text: str, constraints: str, result: str | tuple[str, ...] | None, *arguments: str, effects: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Keep the twin that is decorated, and give the name to what runs on this target."""

    def decorate(twin: Callable[..., Any]) -> Any:
        TWINS[twin.__name__] = twin
        return twin if SIMULATOR else _intrinsic(twin, _Row(text, constraints, result, arguments, effects))

    return decorate


def _intrinsic(twin: Callable[..., Any], row: _Row) -> Any:
    """The instruction as a Numba intrinsic.  A (pointer, index) pair becomes one address."""
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    names = {U32: types.uint32, F32: types.float32, I64: types.int64}
    many = isinstance(row.result, tuple)
    each = names[row.result[0] if isinstance(row.result, tuple) else row.result] if row.result else None
    returned = types.UniTuple(each, len(row.result)) if many and row.result else each or types.void

    def typing(_context: Any, *given: Any) -> Any:
        signature = returned(*(names.get(wanted, got) for wanted, got in zip(row.arguments, given, strict=True)))
        return signature, generate

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        values = list(values)
        if row.arguments[0] == POINTER:
            address = builder.gep(values[0], [values[1]])
            values[:2] = [builder.ptrtoint(address, ir.IntType(64))]
        word = ir.VoidType() if each is None else context.get_value_type(each)
        made = ir.LiteralStructType([word] * len(row.result)) if many and row.result else word
        text = ir.InlineAsm(ir.FunctionType(made, [v.type for v in values]), row.text, row.constraints, row.effects)
        answer = builder.call(text, values)
        if many and row.result:
            parts = [builder.extract_value(answer, i) for i in range(len(row.result))]
            return context.make_tuple(builder, returned, parts)
        return context.get_dummy_value() if each is None else answer

    typing.__name__ = twin.__name__
    # Numba counts the arguments of an intrinsic by its signature.
    parameters = [inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    typing.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # inspect reads it
        [*parameters, *inspect.signature(twin).parameters.values()]
    )
    return intrinsic(typing)


# --- bits -------------------------------------------------------------------------------------


@_asm("prmt.b32 $0, $1, $2, $3;", "=r,r,r,r", U32, U32, U32, U32)
def prmt(a: Any, b: Any, selector: Any) -> Any:
    """Four of the eight bytes b:a, chosen by the nibbles of selector; bit 3 repeats the byte's sign."""
    both = (int(b) << 32) | int(a)
    result = 0
    for i in range(4):
        nibble = int(selector) >> 4 * i & 0xF
        byte = both >> 8 * (nibble & 7) & 0xFF
        if nibble & 8:
            byte = 0xFF if byte & 0x80 else 0
        result |= byte << 8 * i
    return np.uint32(result)


@_asm("shr.s32 $0, $1, $2;", "=r,r,r", U32, U32, U32)
def shift_signed(a: Any, count: Any) -> Any:
    """Shift right, the sign bit comes in at the top; counts above 31 are 31."""
    value = int(a) - (int(a) >> 31 << 32)
    return np.uint32(value >> min(int(count), 31) & 0xFFFFFFFF)


@_asm("shf.r.wrap.b32 $0, $1, $2, $3;", "=r,r,r,r", U32, U32, U32, U32)
def funnel(low: Any, high: Any, count: Any) -> Any:
    """The 32 bits of high:low from bit count % 32 on."""
    return np.uint32(((int(high) << 32) | int(low)) >> int(count) % 32 & 0xFFFFFFFF)


@_asm("mov.b32 $0, $1;", "=f,r", F32, U32)
def as_float(bits: Any) -> Any:
    """The float32 of these bits."""
    return np.uint32(bits).view(np.float32)


@_asm("cvt.rn.f32.s32 $0, $1;", "=f,r", F32, U32)
def from_signed(a: Any) -> Any:
    """A two's complement number as float32."""
    return np.float32(int(a) - (int(a) >> 31 << 32))


@_asm("cvt.rn.f32.u32 $0, $1;", "=f,r", F32, U32)
def from_unsigned(a: Any) -> Any:
    """A number without a sign as float32."""
    return np.float32(int(a))


@_asm("mov.b32 $0, $1;", "=r,f", U32, F32)
def as_bits(x: Any) -> Any:
    """The bits of a float32."""
    return np.float32(x).view(np.uint32)


# --- float16 pairs ----------------------------------------------------------------------------


def _widen(half: int) -> Any:
    value = np.uint16(half).view(np.float16)
    return as_twin(NAN) if np.isnan(value) else np.float32(value)


def as_twin(bits: Any) -> Any:
    """The float32 of these bits, on every target."""
    return np.uint32(bits).view(np.float32)


@_asm("{.reg .b16 a, b; mov.b32 {a, b}, $1; cvt.f32.f16 $0, a;}", "=f,r", F32, U32)
def low_half(pair: Any) -> Any:
    """The float16 in the low bits, as float32."""
    return _widen(int(pair) & 0xFFFF)


@_asm("{.reg .b16 a, b; mov.b32 {a, b}, $1; cvt.f32.f16 $0, b;}", "=f,r", F32, U32)
def high_half(pair: Any) -> Any:
    """The float16 in the high bits, as float32."""
    return _widen(int(pair) >> 16)


# --- float32 arithmetic -----------------------------------------------------------------------


def _canonical(x: Any) -> Any:
    value = np.float32(x)
    return as_twin(NAN) if np.isnan(value) else value


@_asm("fma.rn.f32 $0, $1, $2, $3;", "=f,f,f,f", F32, F32, F32, F32)
def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once.

    The product is exact in float64; the sum is rounded to odd there, so that the cast rounds right.
    """
    product, addend = float(a) * float(b), float(c)
    total = product + addend
    if not math.isfinite(total):
        return _canonical(total)
    # 1. TwoSum: what the sum lost.
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    # 2. Round to odd: an inexact even sum moves one place towards what was lost.
    bits = int(np.float64(total).view(np.uint64))
    if lost != 0 and not bits & 1:
        bits += 1 if (lost > 0) == (total > 0) else -1
    return _canonical(np.uint64(bits).view(np.float64))


@_asm("mul.rn.f32 $0, $1, $2;", "=f,f,f", F32, F32, F32)
def mul(a: Any, b: Any) -> Any:
    """a * b."""
    return _canonical(np.float32(a) * np.float32(b))


@_asm("add.rn.f32 $0, $1, $2;", "=f,f,f", F32, F32, F32)
def add(a: Any, b: Any) -> Any:
    """a + b."""
    return _canonical(np.float32(a) + np.float32(b))


# --- memory -----------------------------------------------------------------------------------

_FOUR = (U32, U32, U32, U32)


@_asm("ld.global.nc.L1::no_allocate.v4.u32 {$0, $1, $2, $3}, [$4];", "=r,=r,=r,=r,l", _FOUR, POINTER, I64)
def stream4(p: Any, i: Any) -> Any:
    """Words i..i+3, read once and kept out of L1; the address is a multiple of 16."""
    return tuple(p.run(i, 4))


@_asm("ld.global.nc.v4.u32 {$0, $1, $2, $3}, [$4];", "=r,=r,=r,=r,l", _FOUR, POINTER, I64)
def load4(p: Any, i: Any) -> Any:
    """Words i..i+3, which nobody writes; the address is a multiple of 16."""
    return tuple(p.run(i, 4))


@_asm("ld.global.nc.L1::no_allocate.u32 $0, [$1];", "=r,l", U32, POINTER, I64)
def stream(p: Any, i: Any) -> Any:
    """Word i, read once and kept out of L1."""
    return p[i]


@_asm("st.global.v4.u32 [$0], {$1, $2, $3, $4};", "l,r,r,r,r", None, POINTER, I64, U32, U32, U32, U32, effects=True)
def store4(p: Any, i: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    """Words i..i+3; the address is a multiple of 16."""
    p.run(i, 4)[:] = (a, b, c, d)


# --- lanes ------------------------------------------------------------------------------------


@_asm("shfl.sync.bfly.b32 $0, $1, $2, 31, -1;", "=f,f,r", F32, F32, U32, effects=True)
def butterfly(x: Any, offset: Any) -> Any:
    """The x of the lane whose id differs by the bits of offset; the whole warp takes part."""
    distance = int(offset)
    return simulator.meet("warp", x, lambda values: [values[i ^ distance] for i in range(len(values))])
