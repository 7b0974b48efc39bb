"""Inputs that broke other people's codecs and packers, by kind of fault.

Each row names a public report, the kind in a comment, and the right answer, typed by hand.  Where
libraries may choose, the row names the choice by its argument.  The codec and the exact oracle must
both give the answer; arrays, scalars and lists must agree.
"""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import feather_ref as fr
from feather_ref import oracle

INF, NAN = float("inf"), float("nan")
SAT: dict[str, Any] = {"overflow": "saturate"}
NONSAT: dict[str, Any] = {"overflow": "nonsaturating"}
ZERO: dict[str, Any] = {"rounding": "toward_zero"}
UP: dict[str, Any] = {"rounding": "toward_positive"}
AWAY: dict[str, Any] = {"rounding": "nearest_away"}


def f64(*x: float) -> NDArray[np.float64]:
    return np.array(x, np.float64)


def f32(*x: float) -> NDArray[np.float32]:
    return np.array(x, np.float32)


def f16(*x: float) -> NDArray[np.float16]:
    return np.array(x, np.float16)


def bits32(*patterns: int) -> NDArray[np.float32]:
    return np.array(patterns, np.uint32).view(np.float32)


def bits16(*patterns: int) -> NDArray[np.float16]:
    return np.array(patterns, np.uint16).view(np.float16)


def hexes(array: Any) -> str:
    """Codes as one string: 7E 7F; as wide as the widest."""
    return " ".join(f"{int(code):02X}" for code in np.asarray(array).ravel())


# --- encode -----------------------------------------------------------------------------------

TINY = [2.0**k for k in range(-149, -5)]  # exact in float32

# (report, format, input, policies, codes)
ENCODE: tuple[tuple[str, str, Any, dict[str, Any], str], ...] = (
    # float64 and integers taken through float32 and rounded twice
    ("jax-ml/ml_dtypes #401", "e4m3", f64(-431.99999999999994, 1.0625 + 2.0**-40), {}, "FD 39"),
    ("jax-ml/ml_dtypes #401", "e2m1", f64(0.25 + 2.0**-40), {}, "01"),
    ("jax-ml/ml_dtypes #401", "bf16", f64(1 + 2.0**-8 + 2.0**-40), {}, "3F81"),
    ("jax-ml/ml_dtypes #401", "bf16", np.array([16973823]), {}, "4B81"),
    ("halide/Halide #8906", "fp16", f64(1 + 2.0**-11 + 2.0**-40), {}, "3C01"),
    ("h5py/h5py #819", "fp16", f64(0.499999990234375), {}, "3800"),
    # one overflow input, two legal answers, so the caller names one
    ("jax-ml/ml_dtypes #400", "e4m3", f32(464, 465, 1e6, INF, -1000), NONSAT, "7E 7F 7F 7F FF"),
    ("jax-ml/ml_dtypes #400", "e4m3", f32(464, 465, 1e6, INF, -1000), SAT, "7E 7E 7E 7E FE"),
    ("jax-ml/ml_dtypes #260", "e4m3", bits32(0x43E80000, 0x43E80001), NONSAT, "7E 7F"),
    # Inf of a format that has one, lost by a saturating convert
    ("triton-lang/triton #5927", "e5m2", f32(INF, -INF, 65504, 61440, 61439.99), NONSAT, "7C FC 7C 7C 7B"),
    ("triton-lang/triton #5927", "e5m2", f32(INF, -INF, 65504, 61440, 61439.99), SAT, "7B FB 7B 7B 7B"),
    ("triton-lang/triton #5927", "e5m2", f32(INF, -INF, 65504), {"overflow": "propagate"}, "7C FC 7B"),
    # float32 taken through float16 or bfloat16 and rounded twice
    ("triton-lang/triton #10846", "e4m3", f32(1.0625 + 2.0**-20, 1.0625 + 2.0**-10), {}, "39 39"),
    ("triton-lang/triton #10846", "e5m2", f32(1.125 + 2.0**-20), {}, "3D"),
    # the carry of a round-up does not reach the exponent
    ("triton-lang/triton #8322", "e4m3", f32(126.24), {}, "70"),
    # the guard bit without the sticky bits
    ("microsoft/onnxruntime #16938", "e4m3", f32(1.8131605), {}, "3F"),
    ("numpy/numpy #12721", "fp16", f32(2.0**-25 * (1 + 2.0**-20), 2.0**-25), {}, "01 00"),
    # -0 taken for the NaN of the other family
    ("intel/torch-xpu-ops #2951", "e4m3", f16(-0.0), {}, "80"),
    ("intel/torch-xpu-ops #2951", "e4m3fnuz", f16(-0.0), {}, "00"),
    # Inf into a format without Inf
    ("onnx/onnx #6220", "e4m3fnuz", f32(INF, -INF), SAT, "7F FF"),
    ("onnx/onnx #6220", "e4m3fnuz", f32(INF, -INF), NONSAT, "80 80"),
    # overflow under a directed rounding that stays inside
    ("riscv-software-src/riscv-isa-sim #2284", "e4m3", bits32(0x5BF80000), NONSAT | ZERO, "7E"),
    ("riscv-software-src/riscv-isa-sim #2284", "e4m3", bits32(0x5BF80000), NONSAT | UP, "7F"),
    # a shift count beyond the word, or an exponent that wraps, on deep underflow
    ("ROCm/rocm-systems #10591", "e5m2", f32(4.1e-25, 1e-24, 3.3e-24), {}, "00 00 00"),
    ("iree-org/iree #20242", "e4m3", f32(*TINY), {}, hexes([0] * 140 + [1, 2, 4, 8])),
    ("iree-org/iree #20242", "e5m2", f32(*TINY), {}, hexes([0] * 133 + [1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36])),
    # subnormals: wrong code, or flushed a binade too early
    ("JuliaMath/Float8s.jl #22", "e4m3", f64(0.000538887, 0.00103349), {}, "00 01"),
    ("local-inference-lab/b12x #388", "e4m3", f32(0.0015, 2.0**-9, 2.0**-10), {}, "01 01 00"),
    # bfloat16 by dropping bits: rounded the wrong way, and a NaN that becomes Inf
    ("stillwater-sc/universal #1133", "bf16", f64(0.2691408770272292), {}, "3E8A"),
    ("ROCm/rocm-systems #6877", "bf16", bits32(0x7F800001, 0xFF800001), {}, "7FC0 7FC0"),
    # ties, subnormals, the sign of zero and overflow, all in one codec
    ("ahrefs/ocannl #646", "e5m2", f64(1.125, 1.625, 2.0**-16, 1e-5, -0.0, 65504), SAT, "3C 3E 01 01 80 7B"),
    ("ahrefs/ocannl #646", "e5m2", f64(65504), NONSAT, "7C"),
    # another NaN code in each library: ours is in the row, the sign by policy, any code on request
    ("leanprover/TensorLib #97", "e5m2", f32(NAN, -NAN), {}, "7F 7F"),
    ("leanprover/TensorLib #97", "e5m2", f32(NAN, -NAN), {"nan": "preserve_sign"}, "7F FF"),
    ("leanprover/TensorLib #97", "e5m2", f32(NAN, -NAN), {"nan": 0x7E}, "7E 7E"),
    ("leanprover/TensorLib #97", "e3m4", f32(NAN), {}, "78"),
    ("leanprover/TensorLib #97", "bf16", f32(NAN), {}, "7FC0"),
    # ties to even taken for a fault
    ("jax-ml/ml_dtypes #221", "e4m3", f32(4.25, 4.75, 464, 465), NONSAT, "48 4A 7E 7F"),
    # FP4 ties and what lies just above them
    ("ROCm/aiter #974", "e2m1", f32(-1.25, 0.25), {}, "0A 00"),
    ("ROCm/aiter #974", "e2m1", bits32(0x3E800003), {}, "01"),
    # a value off the FP4 grid, or beyond it, stored as 0
    ("vllm-project/compressed-tensors #401", "e2m1", f32(5, 2.5, 0.25, 7, INF, -INF), {}, "06 04 00 07 07 0F"),
    ("vllm-project/compressed-tensors #401", "e2m1", f32(NAN), {"nan": "max"}, "07"),
    # E8M0 has no zero: underflow left the format
    ("graphcore-research/gfloat #62", "e8m0", f64(0, 2.0**-128, 2.0**-149, 1e-300), {}, "00 00 00 00"),
    ("graphcore-research/gfloat #62", "e8m0", f64(0, 2.0**-128, 2.0**-149, 1e-300), ZERO, "00 00 00 00"),
    ("graphcore-research/gfloat #62", "e8m0", f64(0, 2.0**-128, 2.0**-149, 1e-300), UP, "00 00 00 00"),
    # E8M0 of zero, negatives, ties and the top: a rule for each
    ("NVIDIA/Fuser #4665", "e8m0", f32(0, -1, 2.0**-128, 1.5, 3, 1.5 * 2.0**127, INF), {}, "00 FF 00 80 80 FE FE"),
    ("NVIDIA/Fuser #4665", "e8m0", f32(1.5, 3, 1.5 * 2.0**127), AWAY, "80 81 FE"),
    ("NVIDIA/Fuser #4665", "e8m0", f32(1.5 * 2.0**127, INF), AWAY | NONSAT, "FF FF"),
    ("NVIDIA/Fuser #4665", "e8m0", f32(-1, -2, -0.0), {"negative": "abs"}, "7F 80 00"),
    ("NVIDIA/Fuser #4665", "e8m0", f32(-1, -INF), {"negative": "zero"}, "00 00"),
    # expected values made by the function under test: these are by hand
    ("onnx/onnx #7784", "e8m0", f32(1.125, 1.25, 5, 2.0**-127), UP, "80 80 82 00"),
    # floor(log2(x)) in float32 is one too many just below a power of two
    ("ROCm/aiter #3212", "e8m0", np.nextafter(f32(8, 2**20), f32(0)), ZERO, "81 92"),
    # a scale beyond the greatest, without saturation, is the NaN byte
    ("NVIDIA/Model-Optimizer #1633", "ue4m3", f32(2688), {}, "7E"),
    ("NVIDIA/Model-Optimizer #1633", "ue4m3", f32(2688), NONSAT, "7F"),
    # a suite with one convention: both columns
    ("jax-ml/ml_dtypes #400, suites", "e4m3", f32(1000), SAT, "7E"),
    ("jax-ml/ml_dtypes #400, suites", "e4m3", f32(1000), NONSAT, "7F"),
    # -0 and NaN hidden by a comparison of values: compared as codes here
    ("numpy/numpy #8145", "bf16", f32(0, -0.0, NAN, -NAN), {"nan": "preserve_sign"}, "00 8000 7FC0 FFC0"),
    # integers above the greatest int64 in one expression with smaller ones
    ("graphcore-research/gfloat #63", "fp32", np.array([2**64 - 1, 2**63], np.uint64), {}, "5F800000 5F000000"),
    ("graphcore-research/gfloat #63", "fp32", np.array([], np.float64), {}, ""),
)


@pytest.mark.parametrize(("report", "fmt", "x", "policies", "codes"), ENCODE)
def test_encode(report: str, fmt: str, x: Any, policies: dict[str, Any], codes: str) -> None:
    assert hexes(fr.encode(x, fmt, **policies)) == codes, report
    assert hexes([oracle.encode(v, fmt, **policies) for v in x]) == codes, f"oracle: {report}"
    # one element, a scalar, and one of many take the same path to the same code (pytorch/pytorch #178817)
    assert hexes([fr.encode(v, fmt, **policies) for v in x]) == codes, f"scalars: {report}"
    assert hexes([fr.encode(x[i : i + 1], fmt, **policies)[0] for i in range(x.size)]) == codes, report
    many = fr.encode(np.tile(x, 40000 // max(x.size, 1)), fmt, **policies)
    assert hexes(many[: x.size]) == hexes(many[many.size - x.size :]) == codes, f"many: {report}"


REFUSED: tuple[tuple[str, str, Any, dict[str, Any], str], ...] = (
    # NaN into a format that has none must not become 0 in silence
    ("vllm-project/compressed-tensors #401", "e2m1", f32(1, NAN), {}, r"x\[1\] = 7FC00000 is NaN"),
    # a negative scale is not a scale
    ("NVIDIA/Fuser #4665", "e8m0", f32(2, -1), {"negative": "error"}, r"x\[1\] = BF800000 is negative"),
    # a code wider than the format
    ("leanprover/TensorLib #97", "e2m1", f32(NAN), {"nan": 0x10}, "nan=0x10 is not a code"),
)


@pytest.mark.parametrize(("report", "fmt", "x", "policies", "message"), REFUSED)
def test_refused(report: str, fmt: str, x: Any, policies: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fr.encode(x, fmt, **policies)
    with pytest.raises(ValueError, match=r"nan|negative"):
        oracle.encode(x[-1], fmt, **policies)


def test_every_float16_into_e5m2() -> None:
    """An emulator was wrong on 1,790 of them (triton-lang/triton #8322); e5m2 is the upper byte, rounded."""
    codes = np.arange(0x7C00 + 1)  # 0 to Inf
    low, up = codes & 0xFF, codes >> 8
    expected = up + ((low > 0x80) | ((low == 0x80) & (up % 2 == 1)))
    for sign in (0, 0x80):
        assert hexes(fr.encode(bits16(*(codes | sign << 8)), "e5m2", **NONSAT)) == hexes(expected | sign)
    nan = bits16(*range(0x7C01, 0x8000), *range(0xFC01, 0x10000))
    assert fr.isnan(fr.encode(nan, "e5m2"), "e5m2").all()


# --- decode -----------------------------------------------------------------------------------

# (report, format, codes, dtype, bits of the values)
DECODE: tuple[tuple[str, str, list[int], Any, str], ...] = (
    # the NaN of FNUZ read as -0, and -0 as NaN
    ("triton-lang/triton #10745", "e4m3fnuz", [0x80], np.float32, "7FC00000"),
    ("triton-lang/triton #10745", "e5m2fnuz", [0x80], np.float32, "7FC00000"),
    ("triton-lang/triton #10745", "e4m3", [0x80], np.float32, "80000000"),
    ("triton-lang/triton #10745", "e5m2", [0x80], np.float32, "80000000"),
    # NaN and Inf made finite by shifting and multiplying
    ("intel/intel-xpu-backend-for-triton #7771", "e4m3", [0x7F, 0xFF], np.float32, "7FC00000 7FC00000"),
    ("intel/intel-xpu-backend-for-triton #7771", "e5m2", [0x7C, 0xFC, 0x7D, 0x7F], np.float16, "7C00 FC00 7E00 7E00"),
    # a NaN with the sign bit read as 0
    ("JuliaMath/Float8s.jl #23", "e4m3", [0xFF], np.float64, "7FF8000000000000"),
    # subnormals read with a hidden bit: k * 2**-9
    ("1bit-MONSTER #300", "e4m3", [1, 2, 3, 7], np.float32, "3B000000 3B800000 3BC00000 3C600000"),
    # zeros and subnormals in a legalised cast: 0, -0, 1, 2, 3, 4 times 2**-16
    (
        "apache/tvm #20315",
        "e5m2",
        [0x00, 0x80, 1, 2, 3, 4],
        np.float32,
        "00 80000000 37800000 38000000 38400000 38800000",
    ),
    # E8M0 NaN has no payload to carry and became Inf
    ("llvm/llvm-project #214919", "e8m0", [0xFF], np.float32, "7FC00000"),
    ("llvm/llvm-project #214919", "e8m0", [0xFF], np.float16, "7E00"),
    ("llvm/llvm-project #214919", "e8m0", [0xFF], "bfloat16", "7FC0"),
    ("llvm/llvm-project #214919", "e8m0", [0xFF], np.float64, "7FF8000000000000"),
    # E8M0 shifted into the exponent field: the ends became 0 and Inf
    ("NVIDIA/TransformerEngine #3262", "e8m0", [0, 1, 254], np.float32, "400000 800000 7F000000"),
    ("vllm-project/vllm #46676", "e8m0", [0], "bfloat16", "40"),
    # the top binade of a format without Inf read by IEEE rules: 65536 to 114688
    ("NVIDIA/cutlass #3602", "ue5m3", [248, 249, 254, 255], np.float32, "47800000 47900000 47E00000 7FC00000"),
    # a wrong constant in a table: 0.5
    ("intel/neural-compressor #1891", "e2m1", [1, 9], np.float32, "3F000000 BF000000"),
    # an unsigned scale read as one without bias: 448
    ("ml-explore/mlx #2962", "ue4m3", [0x7E], np.float32, "43E00000"),
    # the scale's mantissa dropped: 1.5
    ("ROCm/rocm-libraries #7439", "ue4m3", [0x3C], np.float32, "3FC00000"),
    # widened by a shift without the bias: 1.0, and NaN
    ("vllm-project/vllm #47315", "e4m3", [0x38, 0x7F], "bfloat16", "3F80 7FC0"),
    # the raw byte of a scale taken for a number
    ("ml-explore/mlx #3762", "e8m0", [0x7F], np.float32, "3F800000"),
)


@pytest.mark.parametrize(("report", "fmt", "codes", "dtype", "bits"), DECODE)
def test_decode(report: str, fmt: str, codes: list[int], dtype: Any, bits: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    values = fr.decode(codes, fmt, dtype)
    assert hexes(values.view(f"u{values.dtype.itemsize}")) == bits, report
    target = {"float16": "fp16", "float32": "fp32", "bfloat16": "bf16"}.get(values.dtype.name)
    if target is not None:
        exact = [oracle.encode(oracle.decode(code, fmt), target, nan="canonical") for code in codes]
        assert hexes(exact) == bits, f"oracle: {report}"
        assert hexes(fr.convert(codes, fmt, target)) == bits, f"convert: {report}"


# (report, format, codes that are NaN, codes that are Inf): predicates with the codes of another family
SPECIAL = (
    ("ROCm/rocm-libraries #5792", "e4m3", "7F FF", ""),
    ("ROCm/rocm-libraries #5792", "e4m3fnuz", "80", ""),
    ("ROCm/rocm-libraries #5792", "e5m2fnuz", "80", ""),
    ("ROCm/rocm-libraries #5792", "e4m3b11fnuz", "80", ""),
    ("modular/modular #4794", "e5m2", "7D 7E 7F FD FE FF", "7C FC"),
    ("modular/modular #4794", "e2m1", "", ""),
    ("llvm/llvm-project #214919", "e8m0", "FF", ""),
)


@pytest.mark.parametrize(("report", "fmt", "nan", "inf"), SPECIAL)
def test_predicates(report: str, fmt: str, nan: str, inf: str) -> None:
    codes = np.arange(1 << fr.get_format(fmt).bits)
    assert hexes(codes[fr.isnan(codes, fmt)]) == nan, report
    assert hexes(codes[fr.isinf(codes, fmt)]) == inf, report
    assert hexes(codes[~fr.isfinite(codes, fmt)]) == " ".join(sorted((nan + " " + inf).split())), report
    kinds = [oracle.decode(code, fmt).kind for code in codes.tolist()]
    assert hexes(codes[np.array(kinds) == "nan"]) == nan and hexes(codes[np.array(kinds) == "inf"]) == inf, report


def test_codes_are_not_numbers() -> None:
    """bfloat16 kept in uint16 and used as a number (triton-lang/triton #10945)."""
    two_and_a_half, two = 0x4020, 0x4000
    assert fr.add(two_and_a_half, two, "bf16") == 0x4090  # 4.5
    minus_five, minus_two = 0xC0A0, 0xC000
    assert fr.compare(minus_five, minus_two, "bf16") == 0  # less, though its pattern is greater
    assert fr.order_key(minus_five, "bf16") < fr.order_key(minus_two, "bf16")


def test_nextafter_of_zero_towards_minus_zero() -> None:
    """NumPy gives +0 (numpy/numpy #31472); C and IEEE 754 give -0."""
    assert fr.nextafter(0x0000, 0x8000, "fp16") == 0x8000


# --- layouts of arrays ------------------------------------------------------------------------

NARROW = (np.uint8, np.int16, np.uint16, np.int64, np.uint64)


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_codes_are_widened_before_they_are_shifted(dtype: Any) -> None:
    """NumPy 2 keeps the narrow dtype and drops the upper bits (numpy/numpy #26761)."""
    codes = np.array([0x30, 0x40, 0x34, 0x44], dtype)
    assert hexes(fr.pack_codes(codes, 8, "big")) == "30403444"
    assert hexes(fr.pack_codes(codes, 16, "big")) == "300040 340044"
    assert hexes(fr.pack_codes(codes, 32)) == "30 40 34 44"
    assert fr.decode(codes, "e4m3").tolist() == [0.5, 2.0, 0.75, 3.0]
    assert hexes(fr.encode(codes, "bf16")) == "4240 4280 4250 4288"  # 48, 64, 52, 68 as numbers


@pytest.mark.parametrize("order", ["<", ">"])
def test_byte_order_of_the_input(order: str) -> None:
    """Swapped arrays, of NumPy's dtypes and of others (jax-ml/ml_dtypes #308)."""
    x = np.array([1.0, -2.0, 448.0], np.float32)
    assert hexes(fr.encode(x.astype(f"{order}f4"), "e4m3")) == "38 C0 7E"
    assert hexes(fr.encode(x.astype(f"{order}f8"), "e4m3")) == "38 C0 7E"
    assert fr.decode(np.array([0x3C00, 0xC000], f"{order}u2"), "fp16").tolist() == [1.0, -2.0]
    words = np.array([0x38004000], f"{order}u4")
    assert fr.unpack(words, "fp16", order="big").tolist() == [0.5, 2.0]


def test_arrays_of_ml_dtypes() -> None:
    """They have no buffer protocol (jax-ml/ml_dtypes #80) and no kind of their own; the dtype says what they are."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([1.0, -2.0, 0.5], ml_dtypes.bfloat16)
    assert hexes(fr.encode(x, "e4m3")) == "38 C0 30"
    assert hexes(fr.encode(x[::-1], "e4m3")) == "30 C0 38"
    assert hexes(fr.encode(x.astype(ml_dtypes.float8_e5m2), "e4m3")) == "38 C0 30"


BASE = np.arange(6, dtype=np.float32).reshape(2, 3)  # codes in e4m3: 00 38 40 44 48 4A
VIEWS = (
    ("safetensors #825", BASE.T, "00 44 38 48 40 4A"),
    ("safetensors #825", BASE.ravel()[::2], "00 40 48"),
    ("safetensors #825", BASE.ravel()[::-1], "4A 48 44 40 38 00"),
    ("numba/numba #6824", BASE[:, ::-1], "40 38 00 4A 48 44"),
    ("numba/numba #4832", np.broadcast_to(f32(1), (2, 2)), "38 38 38 38"),
    ("numba/numba #3334", np.lib.stride_tricks.as_strided(f32(*range(8)), (1, 3), (4, 8)), "00 40 48"),
)


@pytest.mark.parametrize(("report", "x", "codes"), VIEWS)
def test_strides(report: str, x: Any, codes: str) -> None:
    """The order is that of the indices, never that of memory."""
    assert hexes(fr.encode(x, "e4m3")) == codes, report
    assert hexes(fr.unpack_codes(fr.pack(x, "e4m3"), 8, x.shape[-1])) == codes, report
    packed = fr.pack_tensor(x, "e4m3")
    assert hexes(packed.codes()) == codes and packed.shape == x.shape, report


# --- packing ----------------------------------------------------------------------------------


def stream(words: NDArray[np.uint32], n_bytes: int) -> str:
    """The first bytes of the little-endian stream."""
    return words.astype("<u4").tobytes()[:n_bytes].hex()


# (report, format, input, bytes)
STREAMS = (
    # two FP4 in a byte: element 0 is the low nibble
    ("pytorch/ao #3123", "e2m1", [0.5, 6.0], "71"),
    # FP6 and FP4 tails: ceil(n * bits / 8) bytes count
    ("onnx/onnx #8349", "e2m3", [1, 2, 3, 4, 1], "08446108"),
    ("onnx/onnx #6640", "e2m1", [1, 2, 3], "4205"),
)


@pytest.mark.parametrize(("report", "fmt", "x", "expected"), STREAMS)
def test_packed_streams(report: str, fmt: str, x: list[float], expected: str) -> None:
    words = fr.pack(x, fmt)
    assert stream(words, len(expected) // 2) == expected, report
    assert stream(words, 4 * words.size) == expected.ljust(8 * words.size, "0"), f"padding: {report}"
    assert fr.unpack(words, fmt, len(x)).tolist() == x, report


def test_order_is_an_argument() -> None:
    """A byte 71 is (0.5, 6) or (6, 0.5), and the name says which (Comfy-Org/comfy-kitchen #41)."""
    low = np.array([0x71], np.uint32)
    assert fr.unpack(low, "e2m1", 2, order="little").tolist() == [0.5, 6.0]  # not [0.5, 0] (intel/llvm #22781)
    high = np.array([0x71000000], np.uint32)
    assert fr.unpack(high, "e2m1", 2, order="big").tolist() == [6.0, 0.5]


def test_neighbours_stay_neighbours() -> None:
    """Ours is the linear order; GGML pairs element j with j + 16 (ollama/ollama #12018)."""
    codes = [1, 2, 3, 4, 5, 6, 7, 0] * 4
    assert stream(fr.pack_codes(codes, 4), 4) == "21436507"


def test_scale_convention() -> None:
    """E2M1 code 7 is 6, not a doubled 12 with the scale halved (tinygrad/tinygrad #14849)."""
    assert fr.decode(7, "e2m1") * fr.decode(0x7F, "e8m0") == 6.0


# (report, shape, words of e2m1): rows are padded, each by itself, or there is nothing to pad
SHAPES = (
    ("vllm-project/compressed-tensors #401", (5, 3), (5, 1)),
    ("foundation-model-stack/fastsafetensors #79", (2, 7), (2, 1)),
    ("foundation-model-stack/fastsafetensors #79", (2, 9), (2, 2)),
    ("vipshop/cache-dit #513", (5,), (1,)),
    ("vipshop/cache-dit #513", (), (1,)),
    ("vipshop/cache-dit #513", (0,), (0,)),
    ("vipshop/cache-dit #513", (3, 0), (3, 0)),
    ("numba/numba #5017", (0, 3), (0, 1)),
)


@pytest.mark.parametrize(("report", "shape", "words"), SHAPES)
def test_odd_empty_and_scalar_shapes(report: str, shape: tuple[int, ...], words: tuple[int, ...]) -> None:
    x = np.full(shape, 1.5, np.float32)
    packed = fr.pack_tensor(x, "e2m1")
    assert packed.words.shape == words and packed.codes().shape == shape, report
    assert (packed.codes() == 3).all() and packed.dequantize().tolist() == x.tolist(), report
    scaled = fr.pack_tensor(x, "e2m1", scale="row")
    assert scaled.dequantize().tolist() == x.tolist() and (scaled.codes() == 7).all(), report


def test_every_row_starts_on_a_word() -> None:
    """(5, 3): a row of e2m1 1, 2, 3 is 0x542, and the pad is zero, not what lay in memory."""
    x = np.broadcast_to(f32(1, 2, 3), (5, 3))
    assert hexes(fr.pack(x, "e2m1")) == "542 542 542 542 542"
    memory = np.full((4, 5), 6.0, np.float32)  # neighbours that must not leak into the pad (bitsandbytes #1884)
    assert hexes(fr.pack(memory[:, :3], "e2m1")) == "777 777 777 777"


def test_the_top_nibble_is_not_a_sign() -> None:
    """A word is unsigned, so a shift brings zeros in (mit-han-lab/llm-awq #91)."""
    assert fr.unpack_codes(np.array([0xF0000000], np.uint32), 4)[7] == 15
    with pytest.raises(TypeError, match="words must be uint32, got dtype int32"):
        fr.unpack_codes(np.array([-0x10000000], np.int32), 4)


def test_logical_shape_is_checked() -> None:
    """A shape that does not fit the words is an error, not a truncation (fastsafetensors #79)."""
    with pytest.raises(ValueError, match="words have shape"):
        fr.PackedTensor(np.zeros((2, 1), np.uint32), None, (2, 9), fr.get_format("e2m1"))


# --- scales -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "fmt", "amax", "scale"),
    [
        ("microsoft/onnxruntime #32122", "e4m3", 448.0, 1.0),  # an exact power of two is not doubled
        ("vllm-project/vllm #43557", "e2m1", 6.0, 1.0),
        ("vllm-project/vllm #43557", "e2m1", 6.5, 2.0),  # nothing is clipped
        ("vllm-project/vllm #43557", "e2m1", 7.0, 2.0),
        ("microsoft/microxcaling #4", "e4m3", 957.0, 4.0),
        ("microsoft/microxcaling #4", "e5m2", 127.99999, 2.0**-8),
        ("vllm-project/compressed-tensors #595", "e2m1", 0.0, 1.0),  # all zero: neither 0/0 nor x/0
    ],
)
def test_power_of_two_scales(report: str, fmt: str, amax: float, scale: float) -> None:
    packed = fr.pack_tensor(f32(amax, 0), fmt, scale="tensor", scale_rule="pow2")
    assert packed.scale is not None and packed.scale.tolist() == scale, report
    assert packed.codes()[1] == 0, report


@pytest.mark.parametrize("rule", ["amax", "pow2"])
def test_scale_is_applied_on_both_sides(rule: Any) -> None:
    """Far from 1, one row large and one small (jax-ml/jax #30467): within half a step, not all zero."""
    x = f32(3e-20, -1e-20, 2e-20, 5e18, -7e18, 1e18).reshape(2, 3)
    packed = fr.pack_tensor(x, "e4m3", scale="row", scale_rule=rule)
    assert (packed.codes() & 0x7F != 0).all()
    np.testing.assert_array_less(np.abs(packed.dequantize().astype(np.float64) / x - 1), 2.0**-4 * 1.0001)


# --- stochastic rounding ----------------------------------------------------------------------

HALF_E5M2 = bits32(0x38900000)  # half way between 2**-14 and 1.25 * 2**-14
BF16_3_64 = bits32(0x3F800C00)  # 3/64 of a step above 1

# (report, format, x, mode, bits of the operand, how many of all operands round up)
RATES: tuple[tuple[str, str, NDArray[np.float32], str, int, int], ...] = (
    # random bits that are not lined up with the kept ones never round up
    ("uxlfoundation/oneDNN #2903", "e5m2", HALF_E5M2, "stochastic_a", 16, 1 << 15),
    ("uxlfoundation/oneDNN #2903", "e5m2", HALF_E5M2, "stochastic_b", 16, 1 << 15),
    ("uxlfoundation/oneDNN #2903", "e5m2", HALF_E5M2, "stochastic_c", 16, 1 << 15),
    # too few bits are biased, and how depends on the mode: d = 3/64 with N = 4 is floor 0, rne 1, of 16
    ("graphcore-research/gfloat #36", "bf16", BF16_3_64, "stochastic_a", 4, 0),
    ("graphcore-research/gfloat #36", "bf16", BF16_3_64, "stochastic_b", 4, 1),
    ("graphcore-research/gfloat #36", "bf16", BF16_3_64, "stochastic_c", 4, 1),
    ("graphcore-research/gfloat #36", "bf16", BF16_3_64, "stochastic_a", 6, 3),
    ("graphcore-research/gfloat #36", "bf16", BF16_3_64, "stochastic_b", 6, 3),
    ("graphcore-research/gfloat #36", "bf16", BF16_3_64, "stochastic_c", 6, 3),
)


@pytest.mark.parametrize(("report", "fmt", "x", "mode", "n_bits", "ups"), RATES)
def test_stochastic_rates(report: str, fmt: str, x: NDArray[np.float32], mode: Any, n_bits: int, ups: int) -> None:
    lower = int(fr.encode(x, fmt, rounding="toward_zero")[0])
    operands = np.arange(1 << n_bits)
    codes = fr.encode(np.broadcast_to(x, operands.shape), fmt, rounding=mode, random_bits=operands, n_bits=n_bits)
    assert codes.min() >= lower and codes.max() <= lower + 1
    assert int((codes == lower + 1).sum()) == ups, report
    edge = [0, operands.size - ups - 1, operands.size - 1] + [operands.size - ups] * (ups > 0)
    for operand in edge:
        got = oracle.encode(x[0], fmt, rounding=mode, random=operand, n_bits=n_bits)
        assert got == codes[operand] == lower + (operand >= operands.size - ups), report


# --- a processor that flushes subnormals ------------------------------------------------------

FLUSH = """
#include <xmmintrin.h>
unsigned get(void) { return _mm_getcsr(); }
void set(unsigned state) { _mm_setcsr(state); }
"""


@pytest.fixture
def flushing(tmp_path: Path) -> Iterator[None]:
    """Flush-to-zero and denormals-are-zero for this thread, as fast-math libraries leave it."""
    if platform.machine() not in ("x86_64", "AMD64") or shutil.which("gcc") is None:
        pytest.skip("needs an x86-64 processor and gcc")
    source, library = tmp_path / "flush.c", tmp_path / "flush.so"
    source.write_text(FLUSH)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    state = ctypes.CDLL(str(library))
    before = state.get()
    state.set(before | 0x8040)
    try:
        assert np.float32(1e-40) * np.float32(1) == 0, "the processor does not flush"
        yield
    finally:
        state.set(before)


def check_codec() -> None:
    # 1.5 * 2**-24
    assert hexes(fr.encode(bits32(0x33C00000), "fp16")) == "02"
    # subnormals in: float32, float64, float16
    assert hexes(fr.encode(bits32(1, 0x00400000, 0x80000001), "fp32")) == "01 400000 80000001"
    assert hexes(fr.encode(bits32(0x00400000, 0x00018000, 1), "bf16")) == "40 02 00"
    assert hexes(fr.encode(bits32(1, 0x80000001), "bf16", **UP)) == "01 8000"
    assert hexes(fr.encode(bits32(1, 0x80000001), "e4m3", **UP)) == "01 80"
    assert hexes(fr.encode(bits32(1, 0x80000001), "e2m1", **UP)) == "01 08"
    assert hexes(fr.encode(np.array([1], np.uint64).view(np.float64), "fp32", **UP)) == "01"
    assert hexes(fr.encode([5e-324], "fp32", **UP)) == "01"
    assert hexes(fr.encode(bits16(1, 0x8001), "fp32")) == "33800000 B3800000"
    assert hexes(fr.encode(bits32(0x00400000, 0x00600001), "e8m0")) == "00 01"
    # subnormals out
    assert hexes(fr.decode([0, 1], "e8m0").view(np.uint32)) == "400000 800000"
    assert hexes(fr.decode([0x0001, 0x8040], "bf16").view(np.uint32)) == "10000 80400000"
    assert hexes(fr.decode([1], "fp32").view(np.uint32)) == "01"
    # both
    assert hexes(fr.quantize(bits32(1, 0x00400000), "fp32").view(np.uint32)) == "01 400000"
    assert hexes(fr.convert([0x0001], "bf16", "fp32")) == "10000"
    assert hexes(fr.unpack(fr.pack(bits32(1), "fp32"), "fp32").view(np.uint32)) == "01"
    assert hexes(fr.add([0x0001], [0x0001], "bf16")) == "02"
    assert hexes(fr.multiply([1], [1], "fp32", **UP)) == "01"
    assert hexes(fr.encode_quotient(bits32(1), bits32(0x40000000), "fp32", **UP)) == "01"


def check_tensors() -> None:
    # 2**-127 and -2**-128 over the least scale, 2**-126: 1/2 and -1/4
    packed = fr.pack_tensor(bits32(0x00400000, 0x80200000, 0), "e4m3", scale="row")
    assert packed.scale is not None and hexes(packed.scale.view(np.uint32)) == "800000"
    assert hexes(packed.codes()) == "30 A8 00"
    assert hexes(packed.dequantize().view(np.uint32)) == "400000 80200000 00"


def check_oracle() -> None:
    assert oracle.encode(bits32(0x33C00000)[0], "fp16") == 2
    assert oracle.encode(bits32(1)[0], "fp32") == 1
    assert oracle.encode(5e-324, "fp32", rounding="toward_positive") == 1
    assert oracle.runs("e8m0")[0] == (0, 0x00600000, 0)


CHECKS = (check_codec, check_tensors, check_oracle)


@pytest.mark.parametrize("check", CHECKS)
def test_with_subnormals_kept(check: Callable[[], None]) -> None:
    check()


@pytest.mark.usefixtures("flushing")
@pytest.mark.parametrize("check", CHECKS)
def test_with_subnormals_flushed(check: Callable[[], None]) -> None:
    """The answers do not depend on the state of the processor (a reference did: KhronosGroup/OpenCL-CTS #182)."""
    check()
