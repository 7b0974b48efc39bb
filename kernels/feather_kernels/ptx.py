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
TYPES: dict[str, tuple[str | tuple[str, ...] | None, tuple[str, ...]]] = {}
"""The result and the arguments of every instruction without effects."""

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
        if not effects:
            TYPES[twin.__name__] = (result, arguments)
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
        if row.arguments[:1] == (POINTER,):
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


@_asm("mul.wide.u32 $0, $1, $2;", "=l,r,r", I64, U32, U32)
def wide(a: Any, b: Any) -> Any:
    """a * b of 32 bits without a sign, as 64 bits."""
    return np.int64(int(a) * int(b))


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


_PAIR_E4M3 = "{.reg .b16 a, b; mov.b32 {a, b}, $1; cvt.rn.f16x2.e4m3x2 $0, "


def _e4m3_pair(codes: int) -> Any:
    """Two e4m3 codes as float16; NaN is 7FFF."""
    pair = 0
    for i in range(2):
        code = codes >> 8 * i & 0xFF
        exponent, mantissa = code >> 3 & 0xF, code & 7
        value = math.ldexp(mantissa + 8 * (exponent > 0), max(exponent, 1) - 10)
        bits = 0x7FFF if code & 0x7F == 0x7F else int(np.float16(value).view(np.uint16)) | (code & 0x80) << 8
        pair |= bits << 16 * i
    return np.uint32(pair)


@_asm(_PAIR_E4M3 + "a;}", "=r,r", U32, U32)
def e4m3_low(word: Any) -> Any:
    """The two e4m3 codes in the low bits, as a pair of float16: sm_89 and up."""
    return _e4m3_pair(int(word) & 0xFFFF)


@_asm(_PAIR_E4M3 + "b;}", "=r,r", U32, U32)
def e4m3_high(word: Any) -> Any:
    """The two e4m3 codes in the high bits, as a pair of float16: sm_89 and up."""
    return _e4m3_pair(int(word) >> 16)


@_asm("{.reg .b32 z; mov.b32 z, 0x80008000; fma.rn.f16x2 $0, $1, $2, z;}", "=r,r,r", U32, U32, U32)
def mul_half(a: Any, b: Any) -> Any:
    """The products of two pairs of float16."""
    halves = (np.array([int(pair)], np.uint32).view(np.float16) for pair in (a, b))
    product = np.multiply(*halves)
    return np.where(np.isnan(product), np.uint16(0x7FFF), product.view(np.uint16)).astype(np.uint16).view(np.uint32)[0]


@_asm("{.reg .b32 z; mov.b32 z, 0x80008000; fma.rn.bf16x2 $0, $1, $2, z;}", "=r,r,r", U32, U32, U32)
def mul_bf16(a: Any, b: Any) -> Any:
    """The products of two pairs of bfloat16, from sm_80 on."""
    result = 0
    for i in range(2):
        x, y = (as_twin(np.uint32(int(pair) >> 16 * i << 16 & 0xFFFFFFFF)) for pair in (a, b))
        bits = int(_canonical(x * y).view(np.uint32))
        # bfloat16 products have 16 bits: float32 loses none, but below its least ones.
        rounded = 0x7FFF if np.isnan(x * y) else bits + 0x7FFF + (bits >> 16 & 1) >> 16
        result |= rounded << 16 * i
    return np.uint32(result)


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
    # 2. Round to odd, and then to float32.
    return _canonical(_to_odd(total, lost))


def _to_odd(total: float, lost: float) -> Any:
    """A sum rounded to odd: an inexact even one moves one place towards what was lost."""
    bits = int(np.float64(total).view(np.uint64))
    if lost != 0 and not bits & 1:
        bits += 1 if (lost > 0) == (total > 0) else -1
    return np.uint64(bits).view(np.float64)


@_asm("mul.rn.f32 $0, $1, $2;", "=f,f,f", F32, F32, F32)
def mul(a: Any, b: Any) -> Any:
    """a * b."""
    return _canonical(np.float32(a) * np.float32(b))


@_asm("add.rn.f32 $0, $1, $2;", "=f,f,f", F32, F32, F32)
def add(a: Any, b: Any) -> Any:
    """a + b."""
    return _canonical(np.float32(a) + np.float32(b))


@_asm("{.reg .f32 t; abs.f32 t, $1; min.f32 $0, t, $2;}", "=f,f,f", F32, F32, F32)
def capped(a: Any, most: Any) -> Any:
    """The lesser of |a| and a positive number; of NaN, that number."""
    size = np.abs(np.float32(a))
    return size if size < most else np.float32(most)


def _between(a: Any, b: Any, greatest: bool) -> Any:
    """The greater or the lesser of two float32, +0 above -0; a NaN loses."""
    pair = [np.float32(x) for x in (a, b) if not math.isnan(x)]
    if not pair:
        return as_twin(NAN)
    rank = sorted(pair, key=lambda x: (x, not np.signbit(x)))
    return rank[-1] if greatest else rank[0]


@_asm("max.f32 $0, $1, $2;", "=f,f,f", F32, F32, F32)
def greater(a: Any, b: Any) -> Any:
    """The greater of two numbers; of a NaN and a number, the number."""
    return _between(a, b, True)


@_asm("min.f32 $0, $1, $2;", "=f,f,f", F32, F32, F32)
def lesser(a: Any, b: Any) -> Any:
    """The lesser of two numbers; of a NaN and a number, the number."""
    return _between(a, b, False)


@_asm("cvt.rzi.f32.f32 $0, $1;", "=f,f", F32, F32)
def truncate(a: Any) -> Any:
    """The integer towards zero."""
    return _canonical(np.trunc(np.float32(a)))


@_asm(
    "{.reg .pred p; setp.nan.f32 p, $1, $2; setp.nan.or.f32 p, $3, $4, p; selp.u32 $0, 1, 0, p;}",
    "=r,f,f,f,f", U32, F32, F32, F32, F32,
)  # fmt: skip
def any_nan(a: Any, b: Any, c: Any, d: Any) -> Any:
    """1 where one of the four is NaN, else 0."""
    return np.uint32(any(map(math.isnan, (a, b, c, d))))


@_asm("{.reg .b16 a, b; cvt.rn.f16.f32 a, $1; cvt.rn.f16.f32 b, $2; mov.b32 $0, {a, b};}", "=r,f,f", U32, F32, F32)
def half_pair(low: Any, high: Any) -> Any:
    """Two float32 as float16, in the low and in the high bits; NaN is 7FFF."""
    both = np.array([low, high], np.float32)
    with np.errstate(over="ignore"):
        bits = np.where(np.isnan(both), np.uint16(0x7FFF), both.astype(np.float16).view(np.uint16))
    return np.uint32(int(bits[0]) | int(bits[1]) << 16)


# --- memory -----------------------------------------------------------------------------------

_FOUR = (U32, U32, U32, U32)


@_asm("ld.global.nc.L1::no_allocate.v4.u32 {$0, $1, $2, $3}, [$4];", "=r,=r,=r,=r,l", _FOUR, POINTER, I64)
def stream4(p: Any, i: Any) -> Any:
    """Words i..i+3, read once and kept out of L1; the address is a multiple of 16."""
    return tuple(p.run(i, 4))


@_asm("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {$0, $1, $2, $3}, [$4];", "=r,=r,=r,=r,l", _FOUR, POINTER, I64)
def stream4_wide(p: Any, i: Any) -> Any:
    """`stream4` which makes L2 fetch the 256 bytes around, from sm_80 on: for lanes that take turns on a row."""
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


_IF = "{.reg .pred p; setp.ne.u32 p, "


@_asm(
    _IF + "$5, 0; mov.u32 $0, 0; mov.u32 $1, 0; mov.u32 $2, 0; mov.u32 $3, 0; "
    "@p ld.global.nc.L1::no_allocate.v4.u32 {$0, $1, $2, $3}, [$4];}",
    "=&r,=&r,=&r,=&r,l,r", _FOUR, POINTER, I64, U32, effects=True,
)  # fmt: skip
def fetch4(p: Any, i: Any, wanted: Any) -> Any:
    """`stream4`, before what stands below it; zeros, and no load, where `wanted` is 0."""
    return tuple(p.run(i, 4)) if wanted else (np.uint32(0),) * 4


@_asm(
    _IF + "$3, 0; mov.u32 $0, 0; mov.u32 $1, 0; @p ld.global.nc.L1::no_allocate.v2.u32 {$0, $1}, [$2];}",
    "=&r,=&r,l,r", (U32, U32), POINTER, I64, U32, effects=True,
)  # fmt: skip
def fetch2(p: Any, i: Any, wanted: Any) -> Any:
    """Words i and i + 1 as `fetch4`; the address is a multiple of 8."""
    return tuple(p.run(i, 2)) if wanted else (np.uint32(0),) * 2


@_asm(_IF + "$2, 0; mov.u32 $0, 0; @p ld.global.nc.u32 $0, [$1];}", "=&r,l,r", U32, POINTER, I64, U32, effects=True)
def fetch(p: Any, i: Any, wanted: Any) -> Any:
    """Word i as `fetch4`, through L1."""
    return p[i] if wanted else np.uint32(0)


@_asm("st.global.v2.u32 [$0], {$1, $2};", "l,r,r", None, POINTER, I64, U32, U32, effects=True)
def store2(p: Any, i: Any, a: Any, b: Any) -> None:
    """Words i and i + 1; the address is a multiple of 8."""
    p.run(i, 2)[:] = (a, b)


@_asm("ld.global.nc.u8 $0, [$1];", "=r,l", U32, POINTER, I64)
def load_8(p: Any, i: Any) -> Any:
    """Byte i, which nobody writes, as a word."""
    return np.uint32(p[i])


@_asm("ld.global.nc.u16 $0, [$1];", "=r,l", U32, POINTER, I64)
def load_16(p: Any, i: Any) -> Any:
    """Element i of 16 bits, which nobody writes, as a word."""
    return np.uint32(p[i])


@_asm("ld.global.nc.u32 $0, [$1];", "=r,l", U32, POINTER, I64)
def load_32(p: Any, i: Any) -> Any:
    """Word i, which nobody writes."""
    return p[i]


@_asm("ld.global.f32 $0, [$1];", "=f,l", F32, POINTER, I64, effects=True)
def load_float(p: Any, i: Any) -> Any:
    """The float32 i, no sooner than the program says."""
    return p[i]


@_asm("ld.global.v4.u32 {$0, $1, $2, $3}, [$4];", "=r,=r,=r,=r,l", _FOUR, POINTER, I64, effects=True)
def read4(p: Any, i: Any) -> Any:
    """Words i..i+3, no sooner than the program says; the address is a multiple of 16."""
    return tuple(p.run(i, 4))


@_asm("ld.global.u32 $0, [$1];", "=r,l", U32, POINTER, I64, effects=True)
def read_32(p: Any, i: Any) -> Any:
    """Word i, no sooner than the program says."""
    return p[i]


@_asm("ld.global.u16 $0, [$1];", "=r,l", U32, POINTER, I64, effects=True)
def read_16(p: Any, i: Any) -> Any:
    """Element i of 16 bits as a word, no sooner than the program says."""
    return np.uint32(p[i])


@_asm("ld.global.cg.u32 $0, [$1];", "=r,l", U32, POINTER, I64, effects=True)
def load_fresh(p: Any, i: Any) -> Any:
    """Word i as other blocks left it: no copy of L1."""
    return p[i]


@_asm("st.global.cg.u32 [$0], $1;", "l,r", None, POINTER, I64, U32, effects=True)
def store(p: Any, i: Any, a: Any) -> None:
    """Word i."""
    p[i] = a


@_asm("{membar.gl; atom.global.add.u32 $0, [$1], 1; membar.gl;}", "=r,l", U32, POINTER, I64, effects=True)
def count(p: Any, i: Any) -> Any:
    """Add 1 to word i, and say what it was: what was written before is there for who counts after."""
    before = np.uint32(p[i])
    p[i] = np.uint32(int(before) + 1 & 0xFFFFFFFF)
    return before


@_asm("prefetch.global.L2 [$0];", "l", None, POINTER, I64, effects=True)
def prefetch(p: Any, i: Any) -> None:
    """Begin to bring word i, and what lies around it, into L2."""
    p.run(i, 1)


# --- kernels of one stream ---------------------------------------------------------------------


@_asm("griddepcontrol.launch_dependents;", "~{memory}", None, effects=True)
def let_next_start() -> None:
    """Let the blocks of the next kernel come, where it is launched so that it may: sm_90 and up."""


@_asm("griddepcontrol.wait;", "~{memory}", None, effects=True)
def wait_for_previous() -> None:
    """Wait until the kernels before are done and what they wrote is there: sm_90 and up."""


# --- lanes ------------------------------------------------------------------------------------


@_asm("shfl.sync.idx.b32 $0, $1, $2, 31, -1;", "=r,r,r", U32, U32, U32, effects=True)
def from_lane(word: Any, lane: Any) -> Any:
    """The word of a lane of the warp; the whole warp takes part."""
    return simulator.meet("warp", (word, int(lane)), lambda given: [given[source % 32][0] for _, source in given])


@_asm(
    "{.reg .pred p; setp.ne.u32 p, $1, 0; vote.sync.any.pred p, p, -1; selp.u32 $0, 1, 0, p;}",
    "=r,r", U32, U32, effects=True,
)  # fmt: skip
def any_lane(word: Any) -> Any:
    """1 where a lane of the warp has a word that is not 0, else 0; the whole warp takes part."""
    return simulator.meet("warp", word, lambda words: [np.uint32(any(words))] * len(words))


@_asm("shfl.sync.bfly.b32 $0, $1, $2, 31, -1;", "=f,f,r", F32, F32, U32, effects=True)
def butterfly(x: Any, offset: Any) -> Any:
    """The x of the lane whose id differs by the bits of offset; the whole warp takes part."""
    distance = int(offset)
    return simulator.meet("warp", x, lambda values: [values[i ^ distance] for i in range(len(values))])


# --- tensor cores -----------------------------------------------------------------------------


def _halves(words: Any, dtype: str) -> list[float]:
    """The numbers of both halves of each word, the low one first."""
    bits = np.array([int(word) for word in words], np.uint32)
    if dtype == "bf16":
        return [float(x) for x in (bits.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)]
    return [float(x) for x in bits.view(np.float16)]


def _sum_once(products: list[float], addend: float) -> Any:
    """The exact sum of products and addend, rounded once."""
    if not all(map(math.isfinite, products)):
        return _canonical(np.sum(np.array([*products, addend])))
    total = math.fsum([*products, addend])
    if not math.isfinite(total):
        return _canonical(total)
    return _canonical(_to_odd(total, math.fsum([*products, addend, -total])))


def _multiply_tiles(lanes: list[Any], dtype: str) -> list[Any]:
    """Each lane's part of A B + C, of every lane's parts (a, b, c): see `mma`."""
    quads = len(lanes[0][1])  # words of B, each with two of the k
    rows: dict[int, list[float]] = {}
    columns: dict[int, list[float]] = {}
    for g in range(8):
        quad = lanes[4 * g : 4 * g + 4]
        for half in (0, 1):
            words = [lane[0][2 * i + half] for i in range(quads) for lane in quad]
            rows[g + 8 * half] = _halves(words, dtype)
        columns[g] = _halves([lane[1][i] for i in range(quads) for lane in quad], dtype)

    def one(lane: int, i: int) -> Any:
        row, column = rows[lane // 4 + 8 * (i // 2)], columns[2 * (lane % 4) + i % 2]
        return _sum_once([a * b for a, b in zip(row, column, strict=True)], float(lanes[lane][2][i]))

    return [tuple(one(lane, i) for i in range(4)) for lane in range(32)]


_TILE = (F32, F32, F32, F32)
_PARTS = "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
_PARTS_KINDS = "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f"
_PARTS_TYPES = (*[U32] * 6, *[F32] * 4)


@_asm(f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {_PARTS}", _PARTS_KINDS, _TILE, *_PARTS_TYPES, effects=True)
def mma(a0: Any, a1: Any, a2: Any, a3: Any, b0: Any, b1: Any, c0: Any, c1: Any, c2: Any, c3: Any) -> Any:
    """C + A B of 16 x 16 and 16 x 8 float16, sums in float32; the whole warp takes part.

    Lane 4 g + t holds of A the pairs (row g, k 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), of B the pairs
    (k 2t, column g), (2t + 8, g), and of C (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).

    The twin rounds the exact sum once.  A tensor core does not: see `feather_ref.ops.TensorCore`.
    """
    parts = (a0, a1, a2, a3), (b0, b1), (c0, c1, c2, c3)
    return simulator.meet("warp", parts, lambda lanes: _multiply_tiles(lanes, "fp16"))


@_asm(
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {$0, $1, $2, $3}, {$4, $5}, {$6}, {$7, $8, $9, $10};",
    "=f,=f,=f,=f,r,r,r,f,f,f,f", _TILE, *[U32] * 3, *[F32] * 4, effects=True,
)  # fmt: skip
def mma8(a0: Any, a1: Any, b0: Any, c0: Any, c1: Any, c2: Any, c3: Any) -> Any:
    """`mma` with half the k, for sm_75: A is a0, a1 and B is b0."""
    parts = (a0, a1), (b0,), (c0, c1, c2, c3)
    return simulator.meet("warp", parts, lambda lanes: _multiply_tiles(lanes, "fp16"))


@_asm(f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {_PARTS}", _PARTS_KINDS, _TILE, *_PARTS_TYPES, effects=True)
def mma_bf16(a0: Any, a1: Any, a2: Any, a3: Any, b0: Any, b1: Any, c0: Any, c1: Any, c2: Any, c3: Any) -> Any:
    """`mma` of bfloat16."""
    parts = (a0, a1, a2, a3), (b0, b1), (c0, c1, c2, c3)
    return simulator.meet("warp", parts, lambda lanes: _multiply_tiles(lanes, "bf16"))
