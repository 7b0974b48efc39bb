"""The independent expected values: what each standard says about each format, typed by hand.

Data only, read by tests alone.  No value here was computed with feather_ref: each was typed from
the document named in its row, or worked out by hand from the document's fields (exponent bits,
mantissa bits, bias).  So a wrong row in formats.py cannot pass by agreeing with itself.

A code is a hex literal, right-aligned.  A value is an exact decimal literal or, through `x`, a C hex
float as the P3109 tables print them.

The overflow boundary under nearest_even: `last` is the float32 bit pattern of the largest float32
that still rounds to max, `last + 1` the next one, written out as `beyond`.  Where max has an even code
the tie itself is the last one; where it is odd the tie already goes over.  fp32 has no float32
beyond max, so its boundary is in float64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

x = float.fromhex

OFP8 = "OCP 8-bit Floating Point Specification (OFP8) 1.0, 2023-06-20"
MX = "OCP Microscaling Formats (MX) 1.0, 2023-09-07"
IEEE = "IEEE 754-2019"
FNUZ = "Noune et al., arXiv:2206.02915"
ML_DTYPES = "ml_dtypes README"
GL = "OpenGL 4.6 core"
P3109 = "IEEE P3109 interim report 4.0, 2026-06-26"


@dataclass(frozen=True)
class Literal:
    """What a standard says about one format.  `None`: the format has no such thing."""

    name: str
    standard: str  # document and section
    max: tuple[int, float]
    min_normal: tuple[int, float] | None
    min_subnormal: tuple[int, float] | None
    inf: tuple[int, ...]  # (+Inf, -Inf), (+Inf,) or ()
    nan: tuple[tuple[int, int], ...]  # ranges (first, last) of codes, inclusive
    canonical_nan: int | None
    sign: int  # the sign bit; 0 where the code has none
    zero: int | None
    minus_zero: int | None
    values: tuple[tuple[int, float], ...]  # further codes
    last: int | None  # bits of the largest source float that rounds to max
    beyond: int | None  # bits of the next one
    saturate: int | None  # the code of `beyond` when saturating
    nonsaturating: int | None  # the code of `beyond` when not
    satnone: int | None = None  # the code of `beyond` under P3109 SatNone
    boundary_bits: int = 32  # width of `last` and `beyond`


# fmt: off
LITERALS: tuple[Literal, ...] = (
    # --- OCP OFP8 ---------------------------------------------------------------------------------
    # 448 = 1.75 * 2^8, S.1111.110; the tie with 480 is 464 and 448 is even, so 464 stays.
    Literal("e4m3", f"{OFP8}, table 1",
        max=(0x7E, 448.0), min_normal=(0x08, x("0x1p-6")), min_subnormal=(0x01, x("0x1p-9")),
        inf=(), nan=((0x7F, 0x7F), (0xFF, 0xFF)), canonical_nan=0x7F,
        sign=0x80, zero=0x00, minus_zero=0x80,
        values=((0x07, x("0x1.cp-7")), (0x38, 1.0), (0x39, 1.125), (0xC5, -3.25), (0x54, 12.0), (0xFE, -448.0)),
        last=0x43E80000, beyond=0x43E80001, saturate=0x7E, nonsaturating=0x7F),
    # 57344 = 1.75 * 2^15, S.11110.11; odd, so the tie 61440 goes over.
    Literal("e5m2", f"{OFP8}, table 1",
        max=(0x7B, 57344.0), min_normal=(0x04, x("0x1p-14")), min_subnormal=(0x01, x("0x1p-16")),
        inf=(0x7C, 0xFC), nan=((0x7D, 0x7F), (0xFD, 0xFF)), canonical_nan=0x7F,
        sign=0x80, zero=0x00, minus_zero=0x80,
        values=((0x03, x("0x1.8p-15")), (0x3C, 1.0), (0x3D, 1.25), (0xC1, -2.5), (0x5A, 192.0), (0xFB, -57344.0)),
        last=0x476FFFFF, beyond=0x47700000, saturate=0x7B, nonsaturating=0x7C),
    # --- OCP MX: FP6, FP4, INT8, E8M0 -------------------------------------------------------------
    # Neither Inf nor NaN: both policies clamp.  Tie 30.
    Literal("e3m2", f"{MX}, 5.3.2",
        max=(0x1F, 28.0), min_normal=(0x04, 0.25), min_subnormal=(0x01, 0.0625),
        inf=(), nan=(), canonical_nan=None, sign=0x20, zero=0x00, minus_zero=0x20,
        values=((0x03, 0.1875), (0x0C, 1.0), (0x2D, -1.25), (0x16, 6.0), (0x3F, -28.0)),
        last=0x41EFFFFF, beyond=0x41F00000, saturate=0x1F, nonsaturating=0x1F),
    # Tie 7.75.
    Literal("e2m3", f"{MX}, 5.3.2",
        max=(0x1F, 7.5), min_normal=(0x08, 1.0), min_subnormal=(0x01, 0.125),
        inf=(), nan=(), canonical_nan=None, sign=0x20, zero=0x00, minus_zero=0x20,
        values=((0x05, 0.625), (0x0F, 1.875), (0x33, -2.75), (0x10, 2.0), (0x3F, -7.5)),
        last=0x40F7FFFF, beyond=0x40F80000, saturate=0x1F, nonsaturating=0x1F),
    # Tie 7.
    Literal("e2m1", f"{MX}, 5.3.3",
        max=(0x7, 6.0), min_normal=(0x2, 1.0), min_subnormal=(0x1, 0.5),
        inf=(), nan=(), canonical_nan=None, sign=0x8, zero=0x0, minus_zero=0x8,
        values=((0x0, 0.0), (0x3, 1.5), (0x4, 2.0), (0x5, 3.0), (0x6, 4.0), (0x9, -0.5), (0xB, -1.5), (0xF, -6.0)),
        last=0x40DFFFFF, beyond=0x40E00000, saturate=0x7, nonsaturating=0x7),
    # 2^(c - 127); no zero, no Inf.  The tie 1.5 * 2^127 stays on the even code FE.
    Literal("e8m0", f"{MX}, 5.4.1",
        max=(0xFE, x("0x1p+127")), min_normal=(0x00, x("0x1p-127")), min_subnormal=None,
        inf=(), nan=((0xFF, 0xFF),), canonical_nan=0xFF, sign=0, zero=None, minus_zero=None,
        values=((0x01, x("0x1p-126")), (0x7E, 0.5), (0x7F, 1.0), (0x80, 2.0), (0x85, 64.0), (0xFD, x("0x1p+126"))),
        last=0x7F400000, beyond=0x7F400001, saturate=0xFE, nonsaturating=0xFF),
    # Two's complement times 2^-6; -128 "may be unused" but has a value.  Tie 1.9921875.
    Literal("mxint8", f"{MX}, 5.3.4",
        max=(0x7F, 1.984375), min_normal=(0x01, 0.015625), min_subnormal=None,
        inf=(), nan=(), canonical_nan=None, sign=0, zero=0x00, minus_zero=None,
        values=((0x40, 1.0), (0x55, 1.328125), (0x80, -2.0), (0x81, -1.984375), (0xC0, -1.0), (0xFF, -0.015625)),
        last=0x3FFEFFFF, beyond=0x3FFF0000, saturate=0x7F, nonsaturating=0x7F),
    # --- IEEE and its relatives -------------------------------------------------------------------
    # 65504 is odd; the tie is 65520.
    Literal("fp16", f"{IEEE}, 3.4 and table 3.5, binary16",
        max=(0x7BFF, 65504.0), min_normal=(0x0400, x("0x1p-14")), min_subnormal=(0x0001, x("0x1p-24")),
        inf=(0x7C00, 0xFC00), nan=((0x7C01, 0x7FFF), (0xFC01, 0xFFFF)), canonical_nan=0x7E00,
        sign=0x8000, zero=0x0000, minus_zero=0x8000,
        values=((0x03FF, x("0x1.ff8p-15")), (0x3C00, 1.0), (0x3555, 0.333251953125), (0xC100, -2.5),
                (0x4248, 3.140625), (0xFBFF, -65504.0)),
        last=0x477FEFFF, beyond=0x477FF000, saturate=0x7BFF, nonsaturating=0x7C00),
    Literal("bf16", "Intel BFLOAT16 - Hardware Numerics Definition 1.0, 2018-11",
        max=(0x7F7F, x("0x1.fep+127")), min_normal=(0x0080, x("0x1p-126")), min_subnormal=(0x0001, x("0x1p-133")),
        inf=(0x7F80, 0xFF80), nan=((0x7F81, 0x7FFF), (0xFF81, 0xFFFF)), canonical_nan=0x7FC0,
        sign=0x8000, zero=0x0000, minus_zero=0x8000,
        values=((0x007F, x("0x1.fcp-127")), (0x3F80, 1.0), (0x3EAB, 0.333984375), (0xC049, -3.140625),
                (0x4049, 3.140625), (0xFF7F, x("-0x1.fep+127"))),
        last=0x7F7F7FFF, beyond=0x7F7F8000, saturate=0x7F7F, nonsaturating=0x7F80),
    # 1 + 8 + 10 bits: the top 19 of a float32.
    Literal("tf32", "NVIDIA PTX ISA 8.7, alternate floating-point data formats; NVIDIA A100 whitepaper, TF32",
        max=(0x3FBFF, x("0x1.ffcp+127")), min_normal=(0x00400, x("0x1p-126")), min_subnormal=(0x00001, x("0x1p-136")),
        inf=(0x3FC00, 0x7FC00), nan=((0x3FC01, 0x3FFFF), (0x7FC01, 0x7FFFF)), canonical_nan=0x3FE00,
        sign=0x40000, zero=0x00000, minus_zero=0x40000,
        values=((0x003FF, x("0x1.ff8p-127")), (0x1FC00, 1.0), (0x1F555, 0.333251953125), (0x60100, -2.5),
                (0x20100, 2.5)),
        last=0x7F7FEFFF, beyond=0x7F7FF000, saturate=0x3FBFF, nonsaturating=0x3FC00),
    # The tie, in float64, is 2^128 - 2^103; max is odd, so it goes over.
    Literal("fp32", f"{IEEE}, 3.4 and table 3.5, binary32",
        max=(0x7F7FFFFF, x("0x1.fffffep+127")), min_normal=(0x00800000, x("0x1p-126")),
        min_subnormal=(0x00000001, x("0x1p-149")),
        inf=(0x7F800000, 0xFF800000), nan=((0x7F800001, 0x7FFFFFFF), (0xFF800001, 0xFFFFFFFF)),
        canonical_nan=0x7FC00000, sign=0x80000000, zero=0x00000000, minus_zero=0x80000000,
        values=((0x007FFFFF, x("0x1.fffffcp-127")), (0x3F800000, 1.0), (0x3EAAAAAB, x("0x1.555556p-2")),
                (0xC0490FDB, x("-0x1.921fb6p+1"))),
        last=0x47EFFFFFEFFFFFFF, beyond=0x47EFFFFFF0000000, saturate=0x7F7FFFFF, nonsaturating=0x7F800000,
        boundary_bits=64),
    # --- FNUZ: bias one more, no Inf, no -0, NaN on its code ----------------------------------------
    # Max codes are 7F, odd: the ties 248, 61440, 31 go over.
    Literal("e4m3fnuz", f"{FNUZ}, FP8 1.4.3; {ML_DTYPES}, float8_e4m3fnuz",
        max=(0x7F, 240.0), min_normal=(0x08, x("0x1p-7")), min_subnormal=(0x01, x("0x1p-10")),
        inf=(), nan=((0x80, 0x80),), canonical_nan=0x80, sign=0x80, zero=0x00, minus_zero=None,
        values=((0x07, x("0x1.cp-8")), (0x40, 1.0), (0xC5, -1.625), (0x54, 6.0), (0x81, x("-0x1p-10")), (0xFF, -240.0)),
        last=0x4377FFFF, beyond=0x43780000, saturate=0x7F, nonsaturating=0x80),
    Literal("e5m2fnuz", f"{FNUZ}, FP8 1.5.2; {ML_DTYPES}, float8_e5m2fnuz",
        max=(0x7F, 57344.0), min_normal=(0x04, x("0x1p-15")), min_subnormal=(0x01, x("0x1p-17")),
        inf=(), nan=((0x80, 0x80),), canonical_nan=0x80, sign=0x80, zero=0x00, minus_zero=None,
        values=((0x03, x("0x1.8p-16")), (0x40, 1.0), (0xC1, -1.25), (0x5A, 96.0), (0x81, x("-0x1p-17")),
                (0xFF, -57344.0)),
        last=0x476FFFFF, beyond=0x47700000, saturate=0x7F, nonsaturating=0x80),
    Literal("e4m3b11fnuz", f"{ML_DTYPES}, float8_e4m3b11fnuz",
        max=(0x7F, 30.0), min_normal=(0x08, x("0x1p-10")), min_subnormal=(0x01, x("0x1p-13")),
        inf=(), nan=((0x80, 0x80),), canonical_nan=0x80, sign=0x80, zero=0x00, minus_zero=None,
        values=((0x07, x("0x1.cp-11")), (0x58, 1.0), (0xC5, -0.203125), (0x54, 0.75), (0xFF, -30.0)),
        last=0x41F7FFFF, beyond=0x41F80000, saturate=0x7F, nonsaturating=0x80),
    # --- IEEE-like 8-bit: Inf at exponent all ones ---------------------------------------------------
    Literal("e4m3ieee", f"{ML_DTYPES}, float8_e4m3",
        max=(0x77, 240.0), min_normal=(0x08, x("0x1p-6")), min_subnormal=(0x01, x("0x1p-9")),
        inf=(0x78, 0xF8), nan=((0x79, 0x7F), (0xF9, 0xFF)), canonical_nan=0x7C,
        sign=0x80, zero=0x00, minus_zero=0x80,
        values=((0x07, x("0x1.cp-7")), (0x38, 1.0), (0xC5, -3.25), (0x54, 12.0), (0xF7, -240.0)),
        last=0x4377FFFF, beyond=0x43780000, saturate=0x77, nonsaturating=0x78),
    # Tie 15.75.
    Literal("e3m4", f"{ML_DTYPES}, float8_e3m4",
        max=(0x6F, 15.5), min_normal=(0x10, 0.25), min_subnormal=(0x01, 0.015625),
        inf=(0x70, 0xF0), nan=((0x71, 0x7F), (0xF1, 0xFF)), canonical_nan=0x78,
        sign=0x80, zero=0x00, minus_zero=0x80,
        values=((0x0F, 0.234375), (0x30, 1.0), (0xC5, -2.625), (0x5A, 6.5), (0xEF, -15.5)),
        last=0x417BFFFF, beyond=0x417C0000, saturate=0x6F, nonsaturating=0x70),
    # --- Unsigned scales ----------------------------------------------------------------------------
    # e4m3 without its sign bit.
    Literal("ue4m3", "NVIDIA PTX ISA 8.7, alternate floating-point data formats, ue4m3",
        max=(0x7E, 448.0), min_normal=(0x08, x("0x1p-6")), min_subnormal=(0x01, x("0x1p-9")),
        inf=(), nan=((0x7F, 0x7F),), canonical_nan=0x7F, sign=0, zero=0x00, minus_zero=None,
        values=((0x07, x("0x1.cp-7")), (0x38, 1.0), (0x45, 3.25), (0x54, 12.0)),
        last=0x43E80000, beyond=0x43E80001, saturate=0x7E, nonsaturating=0x7F),
    # 114688 = 1.75 * 2^16; the top binade is finite up to FE.  Even, so the tie 118784 stays.
    Literal("ue5m3", "NVIDIA CUTLASS 4.x, float_ue5m3_t",
        max=(0xFE, 114688.0), min_normal=(0x08, x("0x1p-14")), min_subnormal=(0x01, x("0x1p-17")),
        inf=(), nan=((0xFF, 0xFF),), canonical_nan=0xFF, sign=0, zero=0x00, minus_zero=None,
        values=((0x07, x("0x1.cp-15")), (0x78, 1.0), (0x85, 3.25), (0xF8, 65536.0)),
        last=0x47E80000, beyond=0x47E80001, saturate=0xFE, nonsaturating=0xFF),
    # --- Integers: `min_normal` is the least positive value -------------------------------------------
    Literal("int8", "two's complement, 8 bits",
        max=(0x7F, 127.0), min_normal=(0x01, 1.0), min_subnormal=None,
        inf=(), nan=(), canonical_nan=None, sign=0, zero=0x00, minus_zero=None,
        values=((0x55, 85.0), (0x80, -128.0), (0x81, -127.0), (0xAB, -85.0), (0xFF, -1.0)),
        last=0x42FEFFFF, beyond=0x42FF0000, saturate=0x7F, nonsaturating=0x7F),
    Literal("uint8", "unsigned, 8 bits",
        max=(0xFF, 255.0), min_normal=(0x01, 1.0), min_subnormal=None,
        inf=(), nan=(), canonical_nan=None, sign=0, zero=0x00, minus_zero=None,
        values=((0x55, 85.0), (0x7F, 127.0), (0x80, 128.0), (0xAB, 171.0)),
        last=0x437F7FFF, beyond=0x437F8000, saturate=0xFF, nonsaturating=0xFF),
    Literal("int4", "two's complement, 4 bits",
        max=(0x7, 7.0), min_normal=(0x1, 1.0), min_subnormal=None,
        inf=(), nan=(), canonical_nan=None, sign=0, zero=0x0, minus_zero=None,
        values=((0x5, 5.0), (0x8, -8.0), (0x9, -7.0), (0xB, -5.0), (0xF, -1.0)),
        last=0x40EFFFFF, beyond=0x40F00000, saturate=0x7, nonsaturating=0x7),
    Literal("uint4", "unsigned, 4 bits",
        max=(0xF, 15.0), min_normal=(0x1, 1.0), min_subnormal=None,
        inf=(), nan=(), canonical_nan=None, sign=0, zero=0x0, minus_zero=None,
        values=((0x5, 5.0), (0x8, 8.0), (0xA, 10.0), (0xB, 11.0)),
        last=0x4177FFFF, beyond=0x41780000, saturate=0xF, nonsaturating=0xF),
    Literal("int2", "two's complement, 2 bits",
        max=(0x1, 1.0), min_normal=(0x1, 1.0), min_subnormal=None,
        inf=(), nan=(), canonical_nan=None, sign=0, zero=0x0, minus_zero=None,
        values=((0x0, 0.0), (0x2, -2.0), (0x3, -1.0)),
        last=0x3FBFFFFF, beyond=0x3FC00000, saturate=0x1, nonsaturating=0x1),
    # --- Tables: all values stand in NF4_FLOAT32 and FP4_BNB_FLOAT32 below ------------------------------
    Literal("nf4", "Dettmers et al., QLoRA, arXiv:2305.14314, appendix E",
        max=(0xF, 1.0), min_normal=None, min_subnormal=None,
        inf=(), nan=(), canonical_nan=None, sign=0, zero=0x7, minus_zero=None,
        values=((0x0, -1.0), (0x8, 0.07958029955625534), (0x1, -0.6961928009986877), (0xC, 0.44070982933044434)),
        last=None, beyond=None, saturate=None, nonsaturating=None),
    Literal("fp4_bnb", "bitsandbytes, csrc/kernels.cu, dDequantizeFP4Tree",
        max=(0x3, 1.0), min_normal=None, min_subnormal=None,
        inf=(), nan=(), canonical_nan=None, sign=0, zero=0x0, minus_zero=0x8,
        values=((0x5, 0.5), (0x7, 0.25), (0xB, -1.0), (0xD, -0.5)),
        last=None, beyond=None, saturate=None, nonsaturating=None),
    # --- OpenGL small unsigned floats -----------------------------------------------------------------
    # 65024 = (1 + 63/64) * 2^15; odd, tie 65280.
    Literal("uf11", f"{GL}, 2.3.4.3",
        max=(0x7BF, 65024.0), min_normal=(0x040, x("0x1p-14")), min_subnormal=(0x001, x("0x1p-20")),
        inf=(0x7C0,), nan=((0x7C1, 0x7FF),), canonical_nan=0x7E0, sign=0, zero=0x000, minus_zero=None,
        values=((0x03F, x("0x1.f8p-15")), (0x3C0, 1.0), (0x3E0, 1.5), (0x409, 2.28125)),
        last=0x477EFFFF, beyond=0x477F0000, saturate=0x7BF, nonsaturating=0x7C0),
    # 64512 = (1 + 31/32) * 2^15; odd, tie 65024.
    Literal("uf10", f"{GL}, 2.3.4.4",
        max=(0x3DF, 64512.0), min_normal=(0x020, x("0x1p-14")), min_subnormal=(0x001, x("0x1p-19")),
        inf=(0x3E0,), nan=((0x3E1, 0x3FF),), canonical_nan=0x3F0, sign=0, zero=0x000, minus_zero=None,
        values=((0x01F, x("0x1.fp-15")), (0x1E0, 1.0), (0x1F0, 1.5), (0x209, 2.5625)),
        last=0x477DFFFF, beyond=0x477E0000, saturate=0x3DF, nonsaturating=0x3E0),
    # --- IEEE P3109: bias 2^(K-P-1) signed, 2^(K-P) unsigned; NaN at 80 or FF; no -0 ---------------------
    # 49152 = 1.5 * 2^15, even: the tie 53248 stays.
    Literal("binary8p3se", f"{P3109}, value table Binary8p3se",
        max=(0x7E, 49152.0), min_normal=(0x04, x("0x1p-15")), min_subnormal=(0x01, x("0x1p-17")),
        inf=(0x7F, 0xFF), nan=((0x80, 0x80),), canonical_nan=0x80, sign=0x80, zero=0x00, minus_zero=None,
        values=((0x03, x("0x1.8p-16")), (0x40, 1.0), (0xC1, -1.25), (0x5A, 96.0), (0xFE, -49152.0)),
        last=0x47500000, beyond=0x47500001, saturate=0x7E, nonsaturating=0x7F, satnone=0x7F),
    # 57344, odd: the tie 61440 goes over.  Finite: SatNone gives max.
    Literal("binary8p3sf", f"{P3109}, value table Binary8p3sf",
        max=(0x7F, 57344.0), min_normal=(0x04, x("0x1p-15")), min_subnormal=(0x01, x("0x1p-17")),
        inf=(), nan=((0x80, 0x80),), canonical_nan=0x80, sign=0x80, zero=0x00, minus_zero=None,
        values=((0x03, x("0x1.8p-16")), (0x40, 1.0), (0xC1, -1.25), (0x7E, 49152.0), (0xFF, -57344.0)),
        last=0x476FFFFF, beyond=0x47700000, saturate=0x7F, nonsaturating=0x80, satnone=0x7F),
    # 224 = 1.75 * 2^7, even: the tie 232 stays.
    Literal("binary8p4se", f"{P3109}, value table Binary8p4se",
        max=(0x7E, 224.0), min_normal=(0x08, x("0x1p-7")), min_subnormal=(0x01, x("0x1p-10")),
        inf=(0x7F, 0xFF), nan=((0x80, 0x80),), canonical_nan=0x80, sign=0x80, zero=0x00, minus_zero=None,
        values=((0x07, x("0x1.cp-8")), (0x40, 1.0), (0xC5, -1.625), (0x54, 6.0), (0xFE, -224.0)),
        last=0x43680000, beyond=0x43680001, saturate=0x7E, nonsaturating=0x7F, satnone=0x7F),
    Literal("binary8p4sf", f"{P3109}, value table Binary8p4sf",
        max=(0x7F, 240.0), min_normal=(0x08, x("0x1p-7")), min_subnormal=(0x01, x("0x1p-10")),
        inf=(), nan=((0x80, 0x80),), canonical_nan=0x80, sign=0x80, zero=0x00, minus_zero=None,
        values=((0x07, x("0x1.cp-8")), (0x40, 1.0), (0xC5, -1.625), (0x7E, 224.0), (0xFF, -240.0)),
        last=0x4377FFFF, beyond=0x43780000, saturate=0x7F, nonsaturating=0x80, satnone=0x7F),
    # All values: 0, 1/4, 1/2, 3/4, 1, 3/2, 2, 3.  Tie 3.5.
    Literal("binary4p2sf", f"{P3109}, value table Binary4p2sf",
        max=(0x7, 3.0), min_normal=(0x2, 0.5), min_subnormal=(0x1, 0.25),
        inf=(), nan=((0x8, 0x8),), canonical_nan=0x8, sign=0x8, zero=0x0, minus_zero=None,
        values=((0x0, 0.0), (0x3, 0.75), (0x4, 1.0), (0x5, 1.5), (0x6, 2.0), (0x9, -0.25), (0xD, -1.5), (0xF, -3.0)),
        last=0x405FFFFF, beyond=0x40600000, saturate=0x7, nonsaturating=0x8, satnone=0x7),
    # Powers of two, 2^(c - 64), and 0.  The tie 1.5 * 2^62 stays on the even code 7E.
    Literal("binary8p1se", f"{P3109}, value table Binary8p1se",
        max=(0x7E, x("0x1p+62")), min_normal=(0x01, x("0x1p-63")), min_subnormal=None,
        inf=(0x7F, 0xFF), nan=((0x80, 0x80),), canonical_nan=0x80, sign=0x80, zero=0x00, minus_zero=None,
        values=((0x02, x("0x1p-62")), (0x40, 1.0), (0x41, 2.0), (0xC3, -8.0), (0xFE, x("-0x1p+62"))),
        last=0x5EC00000, beyond=0x5EC00001, saturate=0x7E, nonsaturating=0x7F, satnone=0x7F),
    # 1.25 * 2^31, odd: the tie 1.375 * 2^31 goes over, to Inf.
    Literal("binary8p3ue", f"{P3109}, value table Binary8p3ue",
        max=(0xFD, x("0x1.4p+31")), min_normal=(0x04, x("0x1p-31")), min_subnormal=(0x01, x("0x1p-33")),
        inf=(0xFE,), nan=((0xFF, 0xFF),), canonical_nan=0xFF, sign=0, zero=0x00, minus_zero=None,
        values=((0x03, x("0x1.8p-32")), (0x80, 1.0), (0x82, 1.5), (0xC1, 81920.0)),
        last=0x4F2FFFFF, beyond=0x4F300000, saturate=0xFD, nonsaturating=0xFE, satnone=0xFE),
    # 1.5 * 2^31, even: the tie 1.625 * 2^31 stays.
    Literal("binary8p3uf", f"{P3109}, value table Binary8p3uf",
        max=(0xFE, x("0x1.8p+31")), min_normal=(0x04, x("0x1p-31")), min_subnormal=(0x01, x("0x1p-33")),
        inf=(), nan=((0xFF, 0xFF),), canonical_nan=0xFF, sign=0, zero=0x00, minus_zero=None,
        values=((0x03, x("0x1.8p-32")), (0x80, 1.0), (0x82, 1.5), (0xFD, x("0x1.4p+31"))),
        last=0x4F500000, beyond=0x4F500001, saturate=0xFE, nonsaturating=0xFF, satnone=0xFE),
)

# QLoRA appendix E prints the decimals; bitsandbytes has the same.  In code order 0..F.
NF4_FLOAT32: tuple[tuple[int, float], ...] = (
    (0xBF800000, -1.0),
    (0xBF3239B1, -0.6961928009986877),
    (0xBF066B30, -0.5250730514526367),
    (0xBECA32A0, -0.39491748809814453),
    (0xBE91A24D, -0.28444138169288635),
    (0xBE3D353F, -0.18477343022823334),
    (0xBDBA7871, -0.09105003625154495),
    (0x00000000, 0.0),
    (0x3DA2FAFF, 0.07958029955625534),
    (0x3E24CAE3, 0.16093020141124725),
    (0x3E7C04DD, 0.24611230194568634),
    (0x3EAD033A, 0.33791524171829224),
    (0x3EE1A4B8, 0.44070982933044434),
    (0x3F1007AB, 0.5626170039176941),
    (0x3F3913B3, 0.7229568362236023),
    (0x3F800000, 1.0),
)

# 0, 1/16, 8, 12, 4, 6, 2, 3, each over 12 and rounded to float32; then the same with a sign (8 is -0).
FP4_BNB_FLOAT32: tuple[tuple[int, str], ...] = (
    (0x00000000, "0"), (0x3BAAAAAB, "1/192"), (0x3F2AAAAB, "2/3"), (0x3F800000, "1"),
    (0x3EAAAAAB, "1/3"), (0x3F000000, "1/2"), (0x3E2AAAAB, "1/6"), (0x3E800000, "1/4"),
    (0x80000000, "-0"), (0xBBAAAAAB, "-1/192"), (0xBF2AAAAB, "-2/3"), (0xBF800000, "-1"),
    (0xBEAAAAAB, "-1/3"), (0xBF000000, "-1/2"), (0xBE2AAAAB, "-1/6"), (0xBE800000, "-1/4"),
)

# Words of the article.  (format, values, order, words).  fp16 0.5 = 3800, 2.0 = 4000; e4m3 0.5, 2.0, 0.75, 3.0 =
# 30 40 34 44; e5m2 = 38 40 3A 42.  "big": element 0 in the high bits; "little": in the low bits.
PACKED: tuple[tuple[str, tuple[float, ...], str, tuple[int, ...]], ...] = (
    ("fp16", (0.5, 2.0), "big", (0x38004000,)),
    ("fp16", (0.5, 2.0), "little", (0x40003800,)),
    ("e4m3", (0.5, 2.0, 0.75, 3.0), "big", (0x30403444,)),
    ("e4m3", (0.5, 2.0, 0.75, 3.0), "little", (0x44344030,)),
    ("e5m2", (0.5, 2.0, 0.75, 3.0), "big", (0x38403A42,)),
    ("e5m2", (0.5, 2.0, 0.75, 3.0), "little", (0x423A4038,)),
    ("e2m1", (0.5, 6.0), "little", (0x00000071,)),  # the padding is zero
    ("e2m1", (0.5, 6.0), "big", (0x17000000,)),  # and in the low bits
)

# Ties and inexact values.  (format, value, codes under nearest_even, nearest_away, toward_zero, toward_positive,
# toward_negative, to_odd).  "Even" and "odd" are the code's: IEEE 754-2019 4.3, and where no mantissa
# bit is left (e8m0, P3109 with P = 1) the parity of the exponent field.
ROUNDED: tuple[tuple[str, float, tuple[int, int, int, int, int, int]], ...] = (
    ("e4m3", 1.0625, (0x38, 0x39, 0x38, 0x39, 0x38, 0x39)),
    ("e4m3", -1.1875, (0xBA, 0xBA, 0xB9, 0xB9, 0xBA, 0xB9)),
    ("e4m3", x("0x1p-10"), (0x00, 0x01, 0x00, 0x01, 0x00, 0x01)),  # half of the least subnormal
    ("e4m3", x("-0x1p-10"), (0x80, 0x81, 0x80, 0x80, 0x81, 0x81)),
    ("e4m3", x("0x1.ep-7"), (0x08, 0x08, 0x07, 0x08, 0x07, 0x07)),  # subnormal to normal carry
    ("e4m3", 1.9375, (0x40, 0x40, 0x3F, 0x40, 0x3F, 0x3F)),  # carry into the next binade
    ("e4m3fnuz", x("-0x1p-11"), (0x00, 0x81, 0x00, 0x00, 0x81, 0x81)),  # no -0 to underflow to
    ("e5m2", 1.125, (0x3C, 0x3D, 0x3C, 0x3D, 0x3C, 0x3D)),
    ("e2m1", 2.5, (0x4, 0x5, 0x4, 0x5, 0x4, 0x5)),
    ("e2m1", -2.5, (0xC, 0xD, 0xC, 0xC, 0xD, 0xD)),
    ("e2m1", 0.25, (0x0, 0x1, 0x0, 0x1, 0x0, 0x1)),
    ("e8m0", 3.0, (0x80, 0x81, 0x80, 0x81, 0x80, 0x81)),
    ("e8m0", 1.5, (0x80, 0x80, 0x7F, 0x80, 0x7F, 0x7F)),
    ("e8m0", x("0x1.8p-127"), (0x00, 0x01, 0x00, 0x01, 0x00, 0x01)),
    ("e8m0", x("0x1p-140"), (0x00, 0x00, 0x00, 0x00, 0x00, 0x00)),  # underflow
    ("e8m0", 0.0, (0x00, 0x00, 0x00, 0x00, 0x00, 0x00)),
    ("binary8p1se", 1.5, (0x40, 0x41, 0x40, 0x41, 0x40, 0x41)),
    ("binary8p1se", 3.0, (0x42, 0x42, 0x41, 0x42, 0x41, 0x41)),
    ("binary8p1se", -3.0, (0xC2, 0xC2, 0xC1, 0xC1, 0xC2, 0xC1)),
    ("int8", 2.5, (0x02, 0x03, 0x02, 0x03, 0x02, 0x03)),
    ("int8", -2.5, (0xFE, 0xFD, 0xFE, 0xFE, 0xFD, 0xFD)),
    ("int8", -127.5, (0x80, 0x80, 0x81, 0x81, 0x80, 0x81)),  # -128 is a value, no overflow
    ("mxint8", 0.0078125, (0x00, 0x01, 0x00, 0x01, 0x00, 0x01)),
    ("uf11", x("0x1p-21"), (0x000, 0x001, 0x000, 0x001, 0x000, 0x001)),
    ("fp16", x("0x1.004p+0"), (0x3C01, 0x3C01, 0x3C01, 0x3C01, 0x3C01, 0x3C01)),  # exact
    ("fp16", x("0x1.0020000001p+0"), (0x3C01, 0x3C01, 0x3C00, 0x3C01, 0x3C00, 0x3C01)),  # float64 just above a tie
    ("bf16", x("0x1.0100000001p+0"), (0x3F81, 0x3F81, 0x3F80, 0x3F81, 0x3F80, 0x3F81)),
)

# Tables take nearest alone, over the exact values; a tie goes to the smaller magnitude.
TABLE_TIES: tuple[tuple[str, float, int], ...] = (
    ("nf4", 0.07958029955625534 / 2, 0x7),
    ("nf4", -0.09105003625154495 / 2, 0x7),
    ("nf4", (0.7229568362236023 + 1.0) / 2, 0xE),
    ("nf4", -(0.6961928009986877 + 1.0) / 2, 0x1),
    ("fp4_bnb", 0.375, 0x4),  # above the middle of 1/4 and 1/3; nearer to 1/3 than to 1/2
    ("fp4_bnb", (0.25 + x("0x1.555556p-2")) / 2, 0x7),  # 1/4 and 1/3
    ("fp4_bnb", -(0.5 + x("0x1.555556p-1")) / 2, 0xD),  # -1/2 and -2/3
)
# fmt: on
