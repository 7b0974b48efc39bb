"""Inputs that broke other people's codecs, each with where it was reported and the right answer by hand.

    number    the report's number in the list that was collected; several rows may share one
    inputs    a float is a number in the source, an int a bit pattern or an integer, a tuple operands
    want      results in hex; where any NaN will do, ours; where the standard is silent, 0

Source: the public reports named in each row; right answers by rational arithmetic.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from golden_cases.case import Case

INF = float("inf")
TINY = tuple(2.0**k for k in range(-149, -6))  # every power of two of float32 below 2**-6
BITS = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}

# number, class, id, inputs, want, note
Row = tuple[int, str, str, tuple[float | int | tuple[int, ...], ...], str, str]

CODECS: tuple[Row, ...] = (
    (1, "double_rounding_f32", "convert.f64.e4m3.rne.sat", (-431.99999999999994, 1.0625 + 2**-40), "FD 39",
     "jax-ml/ml_dtypes #401: float64 goes through float32 and is rounded twice"),
    (1, "double_rounding_f32", "convert.f64.bf16.rne.nonsat", (1 + 2**-8 + 2**-40,), "3F81",
     "jax-ml/ml_dtypes #401: float64 goes through float32 and is rounded twice"),
    (1, "double_rounding_f32", "convert.f64.e2m1.rne.sat", (0.25 + 2**-40,), "1",
     "jax-ml/ml_dtypes #401: float64 goes through float32 and is rounded twice"),
    (1, "double_rounding_f32", "convert.i64.bf16.rne.nonsat", (16973823,), "4B81",
     "jax-ml/ml_dtypes #401: int64 goes through float32 and is rounded twice"),
    (2, "overflow", "convert.f32.e4m3.rne.nonsat", (464.0, 0x43E80001, 465.0, 1e6, INF, -1000.0), "7E 7F 7F 7F 7F FF",
     "jax-ml/ml_dtypes #400, #260, #147: one input, two legal answers; this is the one without saturation"),
    (2, "overflow", "convert.f32.e4m3.rne.sat", (464.0, 0x43E80001, 465.0, 1e6, INF, -1000.0), "7E 7E 7E 7E 7E FE",
     "pytorch/pytorch #178817, pytorch/ao #1912: one input, two legal answers; this is the saturating one"),
    (3, "inf", "convert.f32.e5m2.rne.nonsat", (INF, -INF, 65504.0, 61440.0, 61439.99), "7C FC 7C 7C 7B",
     "triton-lang/triton #5927: Inf becomes the greatest value"),
    (3, "inf", "convert.f32.e5m2.rne.sat", (INF, -INF, 65504.0, 61440.0, 61439.99), "7B FB 7B 7B 7B",
     "tile-ai/tilelang #2944: saturation takes Inf along"),
    (3, "inf", "convert.f32.e5m2.rne.prop", (INF, -INF, 65504.0, 61440.0, 61439.99), "7C FC 7B 7B 7B",
     "tinygrad/tinygrad #12085, #18274: saturation that keeps Inf"),
    (4, "double_rounding_f16", "convert.f32.e4m3.rne.sat", (1.0625 + 2**-20,), "39",
     "triton-lang/triton #10846, #2583: float32 goes through float16"),
    (4, "double_rounding_bf16", "convert.f32.e4m3.rne.sat", (1.0625 + 2**-10,), "39",
     "uxlfoundation/oneDNN #2361: float32 goes through bfloat16"),
    (4, "double_rounding_f16", "convert.f32.e5m2.rne.sat", (1.125 + 2**-20,), "3D",
     "triton-lang/triton #10846: float32 goes through float16"),
    (6, "binade_carry", "convert.f32.e4m3.rne.sat", (126.24,), "70",
     "triton-lang/triton #8322: the carry does not reach the exponent"),
    (6, "tie_to_even_down", "convert.f16.e5m2.rne.nonsat",
     (0x0080, 0x0081, 0x0180, 0x3FFF, 0xBC80, 0x7B7F, 0x7B80, 0x7BFF), "00 01 02 40 BC 7B 7C 7C",
     "triton-lang/triton #11897: ties away, lost carries, subnormals rounded twice"),
    (7, "sticky", "convert.f32.e4m3.rne.sat", (1.8131605,), "3F",
     "microsoft/onnxruntime #16938, onnx/onnx #5456: the round bit without the bits below it"),
    (9, "decode_special", "decode.e4m3fnuz.f32.exact.none", (0x80,), "7FC00000",
     "triton-lang/triton #10745: the NaN of FNUZ read as -0"),
    (9, "decode_special", "decode.e5m2fnuz.f32.exact.none", (0x80,), "7FC00000",
     "triton-lang/triton #10745: the NaN of FNUZ read as -0"),
    (9, "decode_special", "decode.e4m3.f32.exact.none", (0x80,), "80000000",
     "triton-lang/triton #10745: -0 read as the NaN of FNUZ"),
    (9, "decode_special", "decode.e5m2.f32.exact.none", (0x80,), "80000000",
     "triton-lang/triton #10745: -0 read as the NaN of FNUZ"),
    (9, "minus_zero", "convert.f16.e4m3.rne.sat", (-0.0,), "80", "intel/torch-xpu-ops #2951: -0 became NaN"),
    (10, "order", "compare.e4m3.e4m3.exact.none", ((0x7F, 0x7F), (0xFF, 0xFF), (0x80, 0x80), (0x80, 0x00)), "3 3 1 1",
     "ROCm/rocm-libraries #5792: NaN by the codes of another family; NaN alone is not equal to itself"),
    (10, "order", "compare.e4m3fnuz.e4m3fnuz.exact.none", ((0x80, 0x80), (0x80, 0x00), (0x7F, 0x7F), (0xFF, 0xFF)),
     "3 3 1 1", "ROCm/rocm-libraries #5792: NaN by the codes of another family"),
    (10, "order", "compare.e5m2.e5m2.exact.none",
     ((0x7C, 0x7C), (0xFC, 0x7C), (0x7D, 0x7D), (0x7F, 0x7F), (0xFE, 0xFE)), "1 0 3 3 3",
     "modular/modular #4794: NaN and Inf by the codes of another family"),
    (11, "inf", "convert.f32.e4m3fnuz.rne.sat", (INF, -INF), "7F FF",
     "onnx/onnx #6220, #7085: Inf into FNUZ under saturation, table and code disagreed"),
    (11, "inf", "convert.f32.e4m3fnuz.rne.nonsat", (INF, -INF), "80 80",
     "onnx/onnx #6220, #7085: Inf into FNUZ without saturation"),
    (12, "overflow", "convert.bf16.e4m3.rtz.nonsat", (0x5BF8, 0xDBF8), "7E FE",
     "riscv-software-src/riscv-isa-sim #2284: a rounding toward zero stays inside"),
    (12, "overflow", "convert.bf16.e4m3.rup.nonsat", (0x5BF8, 0xDBF8), "7F FE",
     "riscv-software-src/riscv-isa-sim #2284: a rounding up leaves above and stays inside below"),
    (13, "decode_special", "decode.e4m3.bf16.exact.none", (0x7F, 0xFF), "7FC0 7FC0",
     "intel/intel-xpu-backend-for-triton #7771: rebias by a product makes NaN finite"),
    (13, "decode_special", "decode.e5m2.bf16.exact.none", (0x7C, 0xFC, 0x7D, 0x7E, 0x7F), "7F80 FF80 7FC0 7FC0 7FC0",
     "intel/intel-xpu-backend-for-triton #7771: rebias by a product makes Inf and NaN finite"),
    (15, "deep_underflow", "convert.f32.e5m2.rne.sat", (4.1e-25, 1e-24, 3.3e-24), "00 00 00",
     "ROCm/rocm-systems #10591: a shift count beyond the word wraps"),
    (16, "deep_underflow", "convert.f32.e4m3.rne.sat", TINY, "00 " * 140 + "01 02 04",
     "iree-org/iree #20242: the exponent wraps below the least normal"),
    (16, "deep_underflow", "convert.f32.e5m2.rne.sat", TINY, "00 " * 133 + "01 02 04 08 0C 10 14 18 1C 20",
     "iree-org/iree #20242: the exponent wraps below the least normal"),
    (18, "half_min_subnormal", "convert.f32.e4m3.rne.sat", (0.000538887, 0.00103349), "00 01",
     "JuliaMath/Float8s.jl #22: subnormals off by one or two"),
    (18, "decode_special", "decode.e4m3.f32.exact.none", (0xFF,), "7FC00000",
     "JuliaMath/Float8s.jl #23: NaN with the sign bit read as 0"),
    (19, "decode_subnormal", "decode.e4m3.f32.exact.none", (1, 2, 3, 4, 5, 6, 7),
     "3B000000 3B800000 3BC00000 3C000000 3C200000 3C400000 3C600000",
     "local-inference-lab/b12x #388: subnormals read with a hidden bit"),
    (19, "half_min_subnormal", "convert.f32.e4m3.rne.sat", (0.0015,), "01",
     "local-inference-lab/b12x #388: flushed below the least subnormal, not below its half"),
    (21, "sticky", "convert.f32.bf16.rne.nonsat", (0.2691408770272292,), "3E8A",
     "stillwater-sc/universal #1133: cut off, not rounded"),
    (21, "nan_low_payload", "convert.f32.bf16.rne.nonsat", (0x7F800001, 0xFF800001), "7FC0 7FC0",
     "ROCm/rocm-systems #6877: NaN with a low payload cut to Inf"),
    (21, "nan_low_payload", "convert.f32.bf16.rtz.nonsat", (0x7F800001, 0xFF800001), "7FC0 7FC0",
     "ROCm/rocm-systems #6877: NaN with a low payload cut to Inf"),
    (22, "tie_to_even_down", "convert.f32.e5m2.rne.sat", (1.125, 1.625, 2**-16, 1e-5, -0.0, 65504.0),
     "3C 3E 01 01 80 7B", "ahrefs/ocannl #646: ties, subnormals, the sign of zero and overflow at once"),
    (22, "overflow", "convert.f32.e5m2.rne.nonsat", (65504.0,), "7C", "ahrefs/ocannl #646: overflow"),
    (23, "decode_subnormal", "decode.e5m2.f32.exact.none", (0x00, 0x80, 1, 2, 3, 4),
     "00000000 80000000 37800000 38000000 38400000 38800000",
     "apache/tvm #20315: zeros and subnormals in a legalised cast"),
    (23, "range_ends", "convert.f32.e5m2.rne.sat", (0.0, -0.0, 2**-16, 2**-15, 3 * 2**-16, 2**-14), "00 80 01 02 03 04",
     "apache/tvm #20315: zeros and subnormals in a legalised cast"),
    (24, "decode_special", "decode.e8m0.f32.exact.none", (0xFF,), "7FC00000",
     "llvm/llvm-project #214919: NaN has no payload to carry and becomes Inf"),
    (24, "decode_special", "decode.e8m0.f16.exact.none", (0xFF,), "7E00",
     "llvm/llvm-project #214919: NaN has no payload to carry and becomes Inf"),
    (24, "decode_special", "decode.e8m0.bf16.exact.none", (0xFF,), "7FC0",
     "ROCm/composable_kernel #2640: NaN has no payload to carry and becomes Inf"),
    (24, "decode_special", "decode.e8m0.f64.exact.none", (0xFF,), "7FF8000000000000",
     "llvm/llvm-project #214919: NaN has no payload to carry and becomes Inf"),
    (25, "nan_low_payload", "convert.f32.e5m2.rne.sat", (0x7FC00000, 0xFFC00000), "7F 7F",
     "leanprover/TensorLib #97: every library has a NaN of its own; any will do"),
    (25, "nan_low_payload", "convert.f32.e5m2.rne.sat.nan=preserve_sign", (0x7FC00000, 0xFFC00000), "7F FF",
     "leanprover/TensorLib #97: NaN with the sign of the input"),
    (25, "nan_low_payload", "convert.f32.e3m4.rne.nonsat", (0x7FC00000,), "78",
     "leanprover/TensorLib #97: every library has a NaN of its own; any will do"),
    (25, "nan_low_payload", "convert.bf16.e4m3.rne.sat", (0x7FC0, 0xFFC0), "7F 7F",
     "leanprover/TensorLib #97: every library has a NaN of its own; any will do"),
    (26, "code_value", "decode.ue5m3.f32.exact.none", (248, 249, 250, 251, 252, 253, 254, 255),
     "47800000 47900000 47A00000 47B00000 47C00000 47D00000 47E00000 7FC00000",
     "NVIDIA/cutlass #3602: the top binade read by IEEE rules"),
    (27, "code_value", "decode.e2m1.f32.exact.none", (1, 9), "3F000000 BF000000",
     "intel/neural-compressor #1891: a wrong constant in the table"),
    (28, "sticky", "convert.f32.f16.rne.nonsat", (2**-25 * (1 + 2**-20), 2**-25), "0001 0000",
     "numpy/numpy #12721: the bits below the guard bit are lost in a subnormal"),
    (28, "double_rounding_f32", "convert.f64.f16.rne.nonsat", (1 + 2**-11 + 2**-40,), "3C01",
     "numpy/numpy #15977: float64 goes through float32"),
    (28, "sticky", "convert.f64.f16.rne.nonsat", (0.499999990234375,), "3800", "h5py/h5py #819: a binade lost"),
    (29, "double_rounding_f32", "convert.f64.bf16.rne.nonsat", (1 + 2**-8 + 2**-30,), "3F81",
     "halide/Halide #8906: float64 goes through float32"),
    (29, "double_rounding_f32", "convert.f64.f16.rne.nonsat", (1 + 2**-11 + 2**-30,), "3C01",
     "JuliaLang/julia #57809: float64 goes through float32"),
    (30, "code_value", "decode.bf16.f32.exact.none", (0x3F80, 0x0001, 0x8000), "3F800000 00010000 80000000",
     "numpy/numpy #26761: 16 bits shifted by 16 without being widened are 0"),
    (31, "arithmetic", "add.bf16.bf16.rne.nonsat", ((0x4020, 0x4000),), "4090",
     "nod-ai/iree-amd-aie #829: the pattern added, not the number"),
    (31, "order", "compare.bf16.bf16.exact.none", ((0xC0A0, 0xC000),), "0",
     "triton-lang/triton #10945: the pattern compared, not the number"),
    (34, "tie_to_even_down", "convert.f32.e4m3.rne.nonsat", (4.25, 4.75, 464.0, 465.0), "48 4A 7E 7F",
     "jax-ml/ml_dtypes #221, pytorch/pytorch #150756: ties to even taken for a fault"),
    (35, "overflow", "convert.f32.e4m3.rne.sat", (1e6, 500.0, INF), "7E 7E 7E",
     "pytorch/pytorch #178817: saturated as one element, refused as two"),
)  # fmt: skip

CONTAINERS: tuple[Row, ...] = (
    (39, "code_value", "decode.e2m1.f32.exact.none", (7,), "40C00000",
     "tinygrad/tinygrad #14849: a table of doubled values and a scale of half, mixed with the plain ones"),
    (42, "overflow", "convert.f32.e2m1.rne.sat", (5.0, 2.5, 0.25, 7.0, INF, -INF), "6 4 0 7 7 F",
     "vllm-project/compressed-tensors #401: off the grid or beyond it, stored as 0"),
    (42, "nan_low_payload", "convert.f32.e2m1.rne.sat.nan=max", (0x7FC00000,), "7",
     "vllm-project/compressed-tensors #401: NaN stored as 0"),
)  # fmt: skip

SCALES: tuple[Row, ...] = (
    (52, "code_value", "decode.e8m0.f32.exact.none", (0, 1, 254), "00400000 00800000 7F000000",
     "NVIDIA/TransformerEngine #3262, #2408: shifted into the exponent field, code 0 becomes 0"),
    (52, "code_value", "decode.e8m0.bf16.exact.none", (0, 1, 254), "0040 0080 7F00",
     "triton-lang/triton #11624: shifted into the exponent field, code 0 becomes 0"),
    (52, "range_ends", "convert.f32.e8m0.rne.sat", (0x00400000, 0x7F000000), "00 FE",
     "uxlfoundation/oneDNN #4218: 2**-127, the reciprocal of code 254, flushed to zero"),
    *((53, "deep_underflow", f"convert.f64.e8m0.{rounding}.sat", (0.0, 2**-128, 2**-149, 1e-300), "00 00 00 00",
       "graphcore-research/gfloat #62: there is no zero, and underflow left the format")
      for rounding in ("rne", "rtz", "rup", "rdn")),
    (54, "tie_to_even_up", "convert.f32.e8m0.rne.sat", (0.0, -1.0, 2**-128, 1.5, 3.0, 1.5 * 2**127, INF),
     "00 00 00 80 80 FE FE", "NVIDIA/Fuser #4665: zero, negatives, ties and the top, a rule in each library"),
    (54, "tie_to_even_up", "convert.f32.e8m0.rne.nonsat", (1.5, 3.0, 1.5 * 2**127, INF), "80 80 FE FF",
     "pytorch/pytorch #146427, #147466: the top without saturation"),
    (54, "tie_to_even_up", "convert.f32.e8m0.rna.sat", (1.5, 3.0, 1.5 * 2**127), "80 81 FE",
     "iree-org/iree #20847: ties away from zero"),
    (54, "tie_to_even_up", "convert.f32.e8m0.rna.nonsat", (1.5 * 2**127, INF), "FF FF",
     "iree-org/iree #20847: ties away from zero, the top without saturation"),
    (54, "negative", "convert.f32.e8m0.rne.sat.negative=abs", (-1.0, -2.0, -0.0), "7F 80 00",
     "onnx/onnx #7030: the sign ignored"),
    (54, "negative", "convert.f32.e8m0.rne.sat.negative=zero", (-1.0, -INF), "00 00",
     "NVIDIA/Fuser #4665: negatives clamped"),
    (56, "double_rounding_bf16", "convert.f32.e8m0.rtz.sat", (0x407FFFFF,), "80",
     "pytorch/ao #4725: amax narrowed to bfloat16 before its exponent is taken"),
    (57, "tie_1_ulp", "convert.f32.e8m0.rtz.sat", (0x40FFFFFF, 0x497FFFFF), "81 92",
     "ROCm/aiter #3212: floor(log2(x)) in float32 is one too many just below a power of two"),
    (58, "range_ends", "convert.f32.e8m0.rup.sat", (1.0, 0x3F800001), "7F 80",
     "microsoft/onnxruntime #32122: rounding up doubles an exact power of two"),
    (59, "overflow", "convert.f32.e4m3.rne.sat", (478.5,), "7E",
     "microsoft/microxcaling #4: what the floor rule leaves beyond the greatest value saturates"),
    (59, "overflow", "convert.f32.e5m2.rne.sat", (65535.99,), "7B",
     "pytorch/ao #436: what the floor rule leaves beyond the greatest value saturates"),
    (60, "tie_1_ulp", "convert.f32.e8m0.rup.sat", (6.5 / 6, 6.9 / 6, 7 / 6), "80 80 80",
     "vllm-project/vllm #43557: a scale that must not clip is rounded up from the first bit"),
    (60, "sticky", "convert.f32.e2m1.rne.sat", (3.25,), "5", "vllm-project/vllm #43557: 6.5 under a scale of 2"),
    (61, "tie_to_even_down", "convert.f32.e2m1.rne.sat", (-1.25, 0.25, 0x3E800003), "A 0 1",
     "ROCm/aiter #974: FP4 ties, and what lies just above one"),
    (63, "overflow", "convert.f32.e4m3.rne.nonsat", (2688.0,), "7F",
     "NVIDIA/Model-Optimizer #1397, #1633: a block scale overflows to NaN"),
    (63, "overflow", "convert.f32.e4m3.rne.sat", (2688.0,), "7E",
     "NVIDIA/Model-Optimizer #1397, #1633: the same scale, clamped"),
    (63, "overflow", "convert.f32.ue4m3.rne.sat", (2688.0,), "7E",
     "NVIDIA/Model-Optimizer #1633: the same scale in the format without sign"),
    (66, "code_value", "decode.ue4m3.f32.exact.none", (0x7E,), "43E00000",
     "kekzl/imp #1544, ml-explore/mlx #2962: read without bias, 61440"),
    (66, "overflow", "convert.f32.ue4m3.rne.sat", (500.0,), "7E",
     "kekzl/imp #1544: a block of 3000 needs a scale of 500, beyond the greatest"),
    (68, "code_value", "decode.e4m3.bf16.exact.none", (0x38, 0x01, 0x7F), "3F80 3B00 7FC0",
     "vllm-project/vllm #47315, #18026: widened by a shift without the bias"),
    (68, "code_value", "decode.e4m3.f16.exact.none", (0x38, 0x01, 0x7F), "3C00 1800 7E00",
     "vllm-project/vllm #37464: NaN widened by a shift becomes 480"),
    (69, "arithmetic", "multiply.bf16.bf16.rne.nonsat", ((0x3F00, 0x0040),), "0020",
     "vllm-project/vllm #46676: a scale added to the exponent field wraps into the sign"),
    (70, "code_value", "decode.e8m0.f32.exact.none", (0x7F, 0x80), "3F800000 40000000",
     "ml-explore/mlx #3762: the byte of a scale taken for a number"),
    (72, "code_value", "decode.ue4m3.f32.exact.none", (0x3C,), "3FC00000",
     "ROCm/rocm-libraries #7439: the mantissa of a scale dropped"),
    (72, "arithmetic", "multiply.e5m2.e5m2.rne.nonsat", ((0x7C, 0x7F), (0x7F, 0x7C)), "7F 7F",
     "ROCm/rocm-libraries #7439: NaN against Inf"),
    *((73, "stochastic", f"convert.f32.e5m2.sra.sat.n={n}.r={r}", (0x38900000,), want,
       "uxlfoundation/oneDNN #2903: random bits that do not stand against the cut ones never round up")
      for n, r, want in ((1, 0, "04"), (1, 1, "05"), (4, 7, "04"), (4, 8, "05"))),
    *((73, "stochastic", f"convert.bf16.e2m1.sra.sat.n=6.r={r}", (0x3F83,), want,
       "graphcore-research/gfloat #36: 3/64 of a step rounds up for three of 64 operands")
      for r, want in ((60, "2"), (61, "3"))),
)  # fmt: skip

KERNELS: tuple[Row, ...] = (
    (84, "code_value", "decode.uint8.f32.exact.none", (200,), "43480000",
     "tile-ai/tilelang #2961: unsigned read as signed"),
    (84, "arithmetic", "convert.i64.f32.rne.nonsat", (3000000000,), "4F32D05E",
     "NVIDIA/numba-cuda-mlir #290: unsigned read as signed"),
    (87, "float32_subnormals", "multiply.f32.f32.rne.nonsat", ((0x00000001, 0x40000000),), "00000002",
     "llvm/llvm-project #222645: subnormals flushed by fast math"),
    (87, "float32_subnormals", "add.f32.f32.rne.nonsat", ((0x00000001, 0x00000000),), "00000001",
     "llvm/llvm-project #222645: a host that flushes subnormals"),
    (90, "sticky", "convert.f32.bf16.rne.nonsat", (0x3F804000, 0x40490FDB), "3F80 4049",
     "openxla/xla #41605: the compiler removed the narrowing"),
    (91, "arithmetic", "add.f32.f32.rne.nonsat", ((0x4B800000, 0x3F800000),), "4B800000",
     "triton-lang/triton #2300: 2**24 + 1, where a sum of ones stands still"),
    (91, "arithmetic", "add.bf16.bf16.rne.nonsat", ((0x4380, 0x3F80), (0x4380, 0x4000)), "4380 4381",
     "pytorch/pytorch #188998: 2**8 + 1, where a sum of ones stands still"),
    (100, "integer_ends", "convert.i64.f32.rne.nonsat", (2**63 - 1, -(2**63)), "5F000000 DF000000",
     "graphcore-research/gfloat #63: constants at the end of int64"),
)  # fmt: skip

ORACLES: tuple[Row, ...] = (
    (102, "tie_1_ulp", "convert.f32.e8m0.rup.sat", (1.125, 1.25, 5.0, 2**-127), "80 80 82 00",
     "onnx/onnx #7784: expected values made by the function under test; these are by hand"),
    (103, "minus_zero", "convert.f32.bf16.rne.nonsat.nan=preserve_sign", (0, 0x80000000, 0x7FC00000, 0xFFC00000),
     "0000 8000 7FC0 FFC0", "numpy/numpy #8145, #19183: a comparison of values hides the sign of zero and of NaN"),
    (105, "tie_to_even_up", "convert.f32.e8m0.rne.sat", (1.25, 1.5, 1.75, 0x3FFFFFFF), "7F 80 80 80",
     "NVIDIA/Fuser #4665: a tolerance of two hides the rule"),
    (105, "tie_to_even_up", "convert.f32.e8m0.rtz.sat", (1.25, 1.5, 1.75, 0x3FFFFFFF), "7F 7F 7F 7F",
     "NVIDIA/Fuser #4665: a tolerance of two hides the rule"),
    (105, "tie_to_even_up", "convert.f32.e8m0.rup.sat", (1.25, 1.5, 1.75, 0x3FFFFFFF), "80 80 80 80",
     "NVIDIA/Fuser #4665: a tolerance of two hides the rule"),
    (106, "tie_to_even_up", "convert.f32.f16.rne.nonsat", (0x33C00000,), "0002",
     "KhronosGroup/OpenCL-CTS #182: the reference depends on a flag of the host"),
    (108, "overflow", "convert.f32.e4m3.rne.sat", (1000.0,), "7E", "jax-ml/ml_dtypes #400: a suite needs both columns"),
    (108, "overflow", "convert.f32.e4m3.rne.nonsat", (1000.0,), "7F",
     "jax-ml/ml_dtypes #400: a suite needs both columns"),
)  # fmt: skip

_ARRAYS = "arrays, not numbers: tests/ref/test_cases.py"
_LAYOUT = "order of codes in words: tests/ref/test_cases.py, tests/ref/test_packing.py"
_FILES = "files: tests/ref/test_files.py"
_BLOCKS = "blocks and their layout: the tests of feather_ref.blocks"
_KERNEL = "kernels on a GPU: the tests of the kernels"
_SETUP = "installation and notebooks: no number is wrong"
_TESTING = "how to test: every list here is compared as bits, against the oracle"

NOT_HERE = {
    **dict.fromkeys((32, 47, 50, 81), _ARRAYS),
    **dict.fromkeys((36, 37, 38, 40, 44, 46, 49, 51), _LAYOUT),
    48: _FILES,
    **dict.fromkeys((45, 64, 67, 74), _BLOCKS),
    **dict.fromkeys((75, 76, 77, 78, 80, 82, 83, 85, 88, 89, 92), _KERNEL),
    **dict.fromkeys((93, 94, 95, 96, 97, 99), _SETUP),
    **dict.fromkeys((101, 104), _TESTING),
}
"""The reports that cannot be told as one conversion or operation, and where they belong."""

ROWS: tuple[Row, ...] = (*CODECS, *CONTAINERS, *SCALES, *KERNELS, *ORACLES)


def pattern(x: float | int, source: str) -> int:
    """The bit pattern of a number, or the pattern itself."""
    if isinstance(x, float):
        real, unsigned = BITS[source]
        return int(struct.unpack(unsigned, struct.pack(real, x))[0])
    return x % (1 << 64)  # a negative integer in two's complement


def _case(row: Row) -> Case:
    """A row as a case."""
    _, cls, name, inputs, want, note = row
    op, source, target, rounding, overflow, *choices = name.split(".")
    operands = tuple(x if isinstance(x, tuple) else (pattern(x, source),) for x in inputs)
    codes = tuple(int(code, 16) for code in want.split())
    return Case(cls, op, source, target, rounding, overflow, ".".join(choices), operands, note, codes)


REPORTS: dict[int, tuple[Case, ...]] = {
    number: tuple(_case(row) for row in ROWS if row[0] == number) for number in sorted({row[0] for row in ROWS})
}
"""The cases of each report."""


def reports() -> Iterator[Case]:
    """The cases of all reports, in the order of the table."""
    yield from (_case(row) for row in ROWS)
