"""The GPU's own conversions, judged: which rules they follow, and on how many inputs they are the codec.

    for row in natives.NATIVES:
        print(natives.judge(row))

Each row is one instruction in a kernel of its own, from a word x to a word y: a number stands at
the bottom of either, and of instructions that convert pairs the other one is zero.  The rules are
found by `feather_ref.conformance.fingerprint`, and then proved on every input: on the device, against
`encode` where the source is float32 or float16, against `feather_ref.decode` where it is a code.  Then
the golden vectors judge every input once more, where there are some with these rules.

Source: NVIDIA PTX ISA 9.0, cvt.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import driver, exhaustive, gpu
from feather_ref import conformance
from feather_ref.conformance.fingerprint import traits

THREADS = 256


class Native(NamedTuple):
    """An instruction: its text, what it converts, and the first architecture that has it.

    body: PTX from $x to $y, both .b32, with scratch registers h (.b16), c (.b8), f (.f32), and z, which is 0.0.
    rules: the choices of `encode` that its codes follow; of a decoder, nothing.
    """

    text: str
    source: str
    target: str
    since: str
    body: str
    rules: dict[str, Any]

    @property
    def decodes(self) -> bool:
        """Whether it goes from codes to numbers."""
        return self.target in ("fp16", "bf16") and self.source not in ("fp32", "fp16")


_TO_HALF = "mov.b32 f, $x; {text} h, f; cvt.u32.u16 $y, h;"
_TO_WORD = "mov.b32 f, $x; {text} $y, f;"
_TO_BYTES = "mov.b32 f, $x; {text} h, z, f; cvt.u32.u16 $y, h; and.b32 $y, $y, 255;"
_TO_NIBBLES = "mov.b32 f, $x; {text} c, z, f; mov.b32 $y, {{c, c, c, c}}; and.b32 $y, $y, 15;"
_FROM_HALF = "{text} h, $x; cvt.u32.u16 $y, h; and.b32 $y, $y, 255;"
_BYTES = "cvt.u16.u32 h, $x; {text} $y, h; and.b32 $y, $y, 65535;"
_NIBBLES = "{{.reg .b8 d, e, g; mov.b32 {{c, d, e, g}}, $x;}} {text} $y, c; and.b32 $y, $y, 65535;"

_SATURATE = {"overflow": "saturate"}


def _native(text: str, source: str, target: str, since: str, body: str, **rules: Any) -> Native:
    return Native(text, source, target, since, body.format(text=text), rules)


NATIVES: tuple[Native, ...] = (
    _native("cvt.rn.f16.f32", "fp32", "fp16", "53", _TO_HALF, nan=0x7FFF),
    _native("cvt.rz.f16.f32", "fp32", "fp16", "53", _TO_HALF, nan=0x7FFF, rounding="toward_zero"),
    _native("cvt.rn.satfinite.f16.f32", "fp32", "fp16", "80", _TO_HALF, nan=0x7FFF, **_SATURATE),
    _native("cvt.rn.bf16.f32", "fp32", "bf16", "80", _TO_HALF, nan=0x7FFF),
    _native("cvt.rz.bf16.f32", "fp32", "bf16", "80", _TO_HALF, nan=0x7FFF, rounding="toward_zero"),
    _native("cvt.rna.tf32.f32", "fp32", "tf32", "80", _TO_WORD, nan=0x3FFFF, rounding="nearest_away"),
    _native("cvt.rn.tf32.f32", "fp32", "tf32", "90", _TO_WORD, nan=0x3FFFF),
    _native("cvt.rn.satfinite.e4m3x2.f32", "fp32", "e4m3", "89", _TO_BYTES, **_SATURATE),
    _native("cvt.rn.satfinite.e5m2x2.f32", "fp32", "e5m2", "89", _TO_BYTES, nan=0x7F, **_SATURATE),
    _native("cvt.rn.satfinite.e4m3x2.f16x2", "fp16", "e4m3", "89", _FROM_HALF, **_SATURATE),
    _native("cvt.rn.satfinite.e5m2x2.f16x2", "fp16", "e5m2", "89", _FROM_HALF, nan=0x7F, **_SATURATE),
    _native("cvt.rn.f16x2.e4m3x2", "e4m3", "fp16", "89", _BYTES),
    _native("cvt.rn.f16x2.e5m2x2", "e5m2", "fp16", "89", _BYTES),
    _native("cvt.rn.satfinite.e2m1x2.f32", "fp32", "e2m1", "100a", _TO_NIBBLES, nan="max"),
    _native("cvt.rn.satfinite.e2m3x2.f32", "fp32", "e2m3", "100a", _TO_BYTES, nan="max"),
    _native("cvt.rn.satfinite.e3m2x2.f32", "fp32", "e3m2", "100a", _TO_BYTES, nan="max"),
    _native("cvt.rz.satfinite.ue8m0x2.f32", "fp32", "e8m0", "100a", _TO_BYTES, rounding="toward_zero"),
    _native("cvt.rp.satfinite.ue8m0x2.f32", "fp32", "e8m0", "100a", _TO_BYTES, rounding="toward_positive"),
    _native("cvt.rn.f16x2.e2m1x2", "e2m1", "fp16", "100a", _NIBBLES),
    _native("cvt.rn.f16x2.e2m3x2", "e2m3", "fp16", "100a", _BYTES),
    _native("cvt.rn.f16x2.e3m2x2", "e3m2", "fp16", "100a", _BYTES),
    _native("cvt.rn.bf16x2.ue8m0x2", "e8m0", "bf16", "100a", _BYTES),
)
"""In the order of their architectures, numbers to codes first."""

_KERNEL = """\
.version {version}
.target sm_{arch}
.address_size 64
.visible .entry convert(.param .u64 x, .param .u64 y, .param .u64 n)
{{
    .reg .pred p; .reg .b16 h; .reg .b8 c; .reg .f32 f, z; .reg .b32 a, b, t; .reg .b64 i, k, r;
    mov.u32 a, %ctaid.x; mov.u32 b, %ntid.x; mov.u32 t, %tid.x;
    mul.wide.u32 i, a, b; cvt.u64.u32 k, t; add.u64 i, i, k;
    ld.param.u64 k, [n]; setp.ge.u64 p, i, k; @p ret;
    shl.b64 i, i, 2; mov.f32 z, 0f00000000;
    ld.param.u64 r, [x]; add.u64 r, r, i; ld.global.u32 a, [r];
    {body}
    ld.param.u64 r, [y]; add.u64 r, r, i; st.global.u32 [r], b;
}}
"""


def ptx_of(native: Native, arch: str) -> str:
    """The kernel of an instruction, as PTX."""
    version = "8.6" if arch.endswith("a") else "8.1"
    return _KERNEL.format(version=version, arch=arch, body=native.body.replace("$x", "a").replace("$y", "b"))


def assemble(native: Native, arch: str | None = None) -> bytes:
    """Its cubin, for the first architecture that has it where none is named; needs a toolkit and no GPU."""
    from cuda.core import Linker, LinkerOptions, ObjectCode

    arch = arch or native.since
    code = ObjectCode.from_ptx(ptx_of(native, arch).encode())
    return bytes(Linker(code, options=LinkerOptions(arch=f"sm_{arch}")).link("cubin").code)


# --- on the device ----------------------------------------------------------------------------


def runs_here(native: Native) -> bool:
    """Whether this GPU has it; what ends in "a" only its own architecture has."""
    major, minor = gpu.capability(gpu.current_device())
    own = f"{major}{minor}"
    return native.since == f"{own}a" if native.since.endswith("a") else int(own) >= int(native.since)


@cache
def _function(native_text: str) -> Any:
    native = next(row for row in NATIVES if row.text == native_text)
    major, minor = gpu.capability(gpu.current_device())
    module = driver.cupy().cuda.function.Module()
    module.load(assemble(native, f"{major}{minor}" + "a" * native.since.endswith("a")))
    return module.get_function("convert")


def convert(native: Native, x: Any) -> Any:
    """The words that an instruction makes of words, CuPy arrays of uint32."""
    cupy = driver.cupy()
    y = cupy.empty_like(x)
    blocks = -(-x.size // THREADS)
    _function(native.text)((blocks,), (THREADS,), (x.data.ptr, y.data.ptr, np.int64(x.size)))
    return y


class Verdict(NamedTuple):
    """What came of an instruction: its choices in words, and on how many of all inputs it is not the codec.

    different: numbers; payloads: NaNs that become another NaN; lost: NaNs that become none, and should.  vectors:
    the id of those that judged it, and failed: on how many of all inputs they say no; None where there are none
    with its rules.
    """

    text: str
    choices: dict[str, str]
    inputs: int
    different: int
    payloads: int = 0
    lost: int = 0
    vectors: str | None = None
    failed: int | None = None


def judge(native: Native) -> Verdict:
    """Find the rules of an instruction that this GPU has, and prove them on every input."""
    if native.decodes:
        inputs, different = _decoded(native)
        return Verdict(native.text, {}, inputs, different, 0, 0, *_judged(native))
    row = fr.get_format(native.target)
    found = {trait.choice: trait.option for trait in traits(row, lambda x: _codes_of(native, x))}
    return Verdict(native.text, found, *_encoded(native, row), *_judged(native))


def vectors_of(native: Native) -> str | None:
    """The vectors that speak of every float32 that an instruction converts by its rules; None without such.

    >>> [vectors_of(native) for native in NATIVES[4:7]]  # bf16 towards zero, tf32 to nearest away and even
    ['convert.f32.bf16.rtz.nonsat.run', None, 'convert.f32.tf32.rne.nonsat.dig']
    """
    if native.source != "fp32":
        return None
    given = {"overflow": fr.get_format(native.target).overflow, **native.rules}
    if not isinstance(given.get("nan"), str):  # a code: any NaN passes
        given.pop("nan", None)
    return exhaustive.find(native.target, **given)


def _judged(native: Native) -> tuple[str | None, int | None]:
    """The vectors that judged every input, and on how many they say no."""
    name = vectors_of(native)
    if name is not None:
        return name, exhaustive.judge(name, lambda bits: _codes(native, bits), native.text).wrong
    if native.source == "fp32":
        return None, None
    if native.decodes:
        found = conformance.check(lambda codes: _values_of(native, codes), native.source, op="decode", exhaustive=True)
    else:
        found = conformance.check(
            lambda x: _codes_of(native, x), native.target, source=native.source, exhaustive=True,
            overflow=native.rules.get("overflow"),
        )  # fmt: skip
    return found.report.id, found.report.failed


def _codes_of(native: Native, x: Any) -> Any:
    """The codes of a few float32, on the host."""
    with np.errstate(over="ignore"):
        numbers = np.asarray(x).astype(np.float16 if native.source == "fp16" else np.float32)
    words = numbers.view(f"u{numbers.itemsize}").astype(np.uint32)
    return _codes(native, driver.cupy().asarray(words)).get()


def _codes(native: Native, words: Any) -> Any:
    """The codes of numbers, of `code_dtype`."""
    made = convert(native, words)
    return (made >> 13 if native.target == "tf32" else made).astype(fr.code_dtype(native.target))


def _values_of(native: Native, codes: Any) -> Any:
    """The float32 that codes become, on the host."""
    words = convert(native, driver.cupy().asarray(np.asarray(codes, np.uint32))).get()
    return fr.decode(words.astype(np.uint16), native.target)


def _encoded(native: Native, row: fr.Format) -> tuple[int, int, int, int]:
    """(all inputs, numbers with another code than the codec's, NaNs with another NaN, NaNs with another code)."""
    cupy = driver.cupy()
    is_nan = cupy.asarray(fr.isnan(np.arange(1 << row.bits), row))
    wide, total, counts = native.source == "fp32", 0, cupy.zeros(3, cupy.int64)
    for _, bits in exhaustive.chunks() if wide else [(0, cupy.arange(1 << 16, dtype=cupy.uint32))]:
        total += bits.size
        x = bits.view(cupy.float32) if wide else bits.astype(cupy.uint16).view(cupy.float16)
        codes = _codes(native, bits)
        wrong, was, still = codes != fk.encode(x, row, **native.rules), cupy.isnan(x), is_nan[codes]
        counts += cupy.stack([(wrong & kind).sum() for kind in (~was, was & still, was & ~still)])
    numbers, others, lost = (int(count) for count in counts.get())
    return total, numbers, others, lost


def _decoded(native: Native) -> tuple[int, int]:
    """(all codes, those with another value than the codec's); any NaN is as good as another."""
    source = fr.get_format(native.source)
    codes = np.arange(1 << source.bits).astype(fr.code_dtype(source))
    both = _values_of(native, codes), fr.decode(codes, source)
    same = (both[0].view(np.uint32) == both[1].view(np.uint32)) | (np.isnan(both[0]) & np.isnan(both[1]))
    return codes.size, int((~same).sum())


def table() -> Iterator[str]:
    """Every instruction as a row of Markdown: judged where this GPU has it, else only assembled."""
    yield "| instruction | from | rules | inputs | numbers wrong, NaNs another, NaNs lost | wrong, by the vectors |"
    yield "|---|---|---|---|---|---|"
    for native in NATIVES:
        if runs_here(native):
            verdict = judge(native)
            rules = "; ".join(f"{choice}: {option}" for choice, option in verdict.choices.items()) or "exact"
            wrong = f"{verdict.different}, {verdict.payloads}, {verdict.lost}"
            judged = "there are none" if verdict.vectors is None else f"{verdict.failed}, `{verdict.vectors}`"
            yield f"| `{native.text}` | sm_{native.since} | {rules} | {_power(verdict.inputs)} | {wrong} | {judged} |"
        else:
            size = len(assemble(native))
            yield f"| `{native.text}` | sm_{native.since} | not here: assembled, {size} bytes | | | |"


def _power(count: int) -> str:
    return f"2^{count.bit_length() - 1}"
