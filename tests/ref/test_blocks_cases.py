"""Public faults of block quantisers, tried on ours: E8M0 ends, floor(log2), scale rules, NVFP4 scales.

Each test says what was wrong where, and holds the right bits.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from feather_ref import oracle
from feather_ref.blocks import BlockTensor, quantize_blocks
from feather_ref.codec import decode, encode
from feather_ref.packing import unpack_codes

U8 = np.uint8
RNG = np.random.default_rng(11)


def tensor(codes: list[int], scale: int, fmt: str = "mxfp8_e4m3") -> BlockTensor:
    return BlockTensor(np.array(codes, U8), np.array([scale], U8), fmt)


def bits(x: np.ndarray) -> list[str]:
    return [f"{b:08X}" for b in np.asarray(x, np.float32).view(np.uint32).ravel().tolist()]


def just_below(power: int) -> np.float32:
    return np.nextafter(np.float32(2.0**power), np.float32(0))


# --- E8M0 -------------------------------------------------------------------------------------


def test_the_end_codes_of_a_scale() -> None:
    """NVIDIA/TransformerEngine #3262, #2408; triton #11624: code 0 read as 0, code 255 as Inf."""
    assert bits(tensor([0x38], 0).dequantize()) == ["00400000"]
    assert bits(tensor([0x38], 254).dequantize()) == ["7F000000"]
    assert bits(tensor([0x38, 0x00], 255).dequantize()) == ["7FC00000"] * 2
    # the product 2**112 * 256 * 2**-127, 128 times, is 2**0 * 128 / 128
    assert float(tensor([0x78], 0).dequantize(np.float64)[0]) * 2.0**112 * 128 == 2.0**0 * 128 * 2.0**-7


def test_a_scale_is_no_addition_to_the_exponent_field() -> None:
    """vllm #46676: bf16 0.5 with scale byte 0 wrapped into the sign; here 0.5 is e4m3 30."""
    assert bits(tensor([0x30], 0).dequantize()) == ["00200000"]


def test_a_scale_byte_is_no_number() -> None:
    """ml-explore/mlx #3762: byte 7F taken for 127."""
    assert tensor([1, 2, 7], 0x7F, "mxfp4").dequantize().tolist() == [0.5, 1.0, 6.0]


def test_nan_of_the_scale_goes_before_inf_of_the_element() -> None:
    """ROCm/rocm-libraries #7439; and a UE4M3 scale has a mantissa."""
    assert bits(tensor([0x7C], 0xFF, "mxfp8_e5m2").dequantize()) == ["7FC00000"]
    two = BlockTensor(np.array([2], U8), np.array([0x3C], U8), "nvfp4", tensor_scale=np.float32(1))
    assert two.dequantize().tolist() == [1.5]


def test_underflow_of_a_scale_is_clamped() -> None:
    """graphcore-research/gfloat #62: below 2**-127 the value came back unchanged, with the code FF."""
    for amax in (0.0, 2.0**-128, 2.0**-149, 1e-300):
        assert quantize_blocks(np.array([amax]), "mxfp8").scales.tolist() == [0]


# --- floor(log2) ------------------------------------------------------------------------------


def test_exponents_come_from_bits_not_from_log2() -> None:
    """float32 log2 rounds up just below a power of two: one exponent too many, and the block at half its precision."""
    powers = range(-126, 128)
    amax = np.array([just_below(p) for p in powers], np.float32)
    with np.errstate(all="ignore"):
        by_log2 = np.floor(np.log2(amax)) - 2 + 127
    ours = quantize_blocks(amax[:, None], "mxfp4").scales[:, 0]
    true = [max(p - 1 - 2 + 127, 0) for p in powers]
    assert ours.tolist() == true
    assert np.count_nonzero(by_log2 != np.maximum(true, 0)) > 100  # the fault is there to be had
    assert (np.floor(np.log2(just_below(3))), np.floor(np.log2(just_below(20)))) == (3, 20)


def test_gfloat_takes_log2() -> None:
    gfloat, formats = pytest.importorskip("gfloat"), pytest.importorskip("gfloat.formats")
    x = np.zeros(32, np.float32)
    x[0] = just_below(3)
    theirs = gfloat.quantize_block(formats.format_info_mxfp4_e2m1, x, gfloat.compute_scale_amax)
    assert theirs[0] == 8.0  # scale 2: 4 * 2
    ours = quantize_blocks(x, "mxfp4")
    assert (ours.scales.tolist(), ours.dequantize()[0]) == ([0x7F], 6.0)  # scale 1, clamped at 6: the OCP rule


def test_gguf_takes_log2() -> None:
    quants = pytest.importorskip("gguf.quants")
    x = np.zeros(32, np.float32)
    x[0] = just_below(3)
    assert quants.quantize(x, quants.GGMLQuantizationType.MXFP4)[0] == 0x80
    assert quantize_blocks(x, "ggml_mxfp4").scales.tolist() == [0x7F]


def test_torchao_takes_log2_for_rceil() -> None:
    """Above a power of two by one step, log2 rounds down and ceil does not round up: the block overflows."""
    torch, mx, modes = torchao()
    x = np.zeros((1, 32), np.float32)
    x[0, 0] = np.nextafter(np.float32(6 * 2.0**20), np.float32(np.inf))
    scale, _ = mx.to_mx(torch.from_numpy(x), torch.float4_e2m1fn_x2, 32, modes.RCEIL)
    assert scale.view(torch.uint8).tolist() == [[0x7F + 20]]
    assert quantize_blocks(x, "mxfp4", scale_rule="rceil").scales.tolist() == [[0x80 + 20]]


# --- which rule -------------------------------------------------------------------------------


def test_amax_is_not_narrowed_before() -> None:
    """pytorch/ao #4725: amax rounded to bf16 first made 3.9999998 a 4."""
    assert quantize_blocks(np.float32([3.9999998]), "mxfp4").scales.tolist() == [0x7E]


def test_ceil_of_an_exact_power() -> None:
    """onnxruntime #32122: frexp's mantissa of 1/2 doubled the scale of a ratio of exactly 1."""
    assert quantize_blocks([448.0], "mxfp8", scale_rule="rceil").scale_values.tolist() == [1.0]
    assert quantize_blocks([256.0], "mxfp8", scale_rule="ceil").scale_values.tolist() == [1.0]


@pytest.mark.parametrize(
    ("fmt", "amax", "floor", "rceil"),
    [("mxfp8_e4m3", 957.0, 896.0, 960.0), ("mxfp8_e5m2", 127.99999, 112.0, 128.0), ("mxfp4", 6.5, 6.0, 6.0)],
)
def test_the_floor_rule_clips_and_has_a_name(fmt: str, amax: float, floor: float, rceil: float) -> None:
    """microsoft/microxcaling #4; pytorch/ao #436; vllm #43557: both are right, and not the same."""
    values = [quantize_blocks(np.float32([amax]), fmt, scale_rule=rule).dequantize()[0] for rule in ("floor", "rceil")]
    assert values == [floor, rceil]


def test_thresholds_of_mxfp4_rules() -> None:
    x = np.float32([[6.5], [6.9], [7.0]])
    assert quantize_blocks(x, "mxfp4", scale_rule="even").scales.ravel().tolist() == [0x7F, 0x7F, 0x80]
    assert quantize_blocks(x, "mxfp4", scale_rule="rceil").scales.ravel().tolist() == [0x80] * 3


def test_ties_and_subnormals_of_fp4() -> None:
    """ROCm/aiter #974."""
    x = np.array([4.0, -1.25, 0.25, 0.25], np.float32)
    x[3:] = np.uint32(0x3E800001).view(np.float32)
    assert quantize_blocks(x, "mxfp4").dequantize().tolist() == [4.0, -1.0, 0.0, 0.5]


# --- NVFP4 ------------------------------------------------------------------------------------

TWO_LEVELS = ("nvfp4_exact", "nvfp4_te2026", "nvfp4_te2025", "nvfp4_torchao", "mse")


@pytest.mark.parametrize("rule", TWO_LEVELS)
def test_a_zero_block_beside_large_ones(rule: str) -> None:
    """NVIDIA/Model-Optimizer #1397, #1633: its scale became the NaN byte 7F."""
    x = np.zeros((2, 16), np.float32)
    x[0] = 1.0
    got = quantize_blocks(x, "nvfp4", scale_rule=rule)
    assert got.scales[1, 0] != 0x7F
    assert got.codes[1].tolist() == [0] * 16
    assert bits(got.dequantize()[1]) == ["00000000"] * 16


@pytest.mark.parametrize("rule", TWO_LEVELS)
def test_a_tensor_of_zeros(rule: str) -> None:
    """vllm-project/compressed-tensors #595; flashinfer #3448; torchao 0.18: 0/0."""
    got = quantize_blocks(np.zeros((1, 16), np.float32), "nvfp4", scale_rule=rule)
    assert np.isfinite(got.tensor_scale) and got.tensor_scale > 0
    assert got.codes.tolist() == [[0] * 16]
    assert bits(got.dequantize()) == ["00000000"] * 16


def test_two_levels_reach_beyond_2688() -> None:
    """kekzl/imp #1544; mlx #2962: one level clips; UE4M3 7E is 448, not 61440."""
    got = quantize_blocks(np.float32([3000.0]), "nvfp4")
    assert got.scale_values.tolist() == [448.0]
    assert abs(float(got.dequantize()[0]) / 3000 - 1) < 2**-23
    assert quantize_blocks(np.float32([3000.0]), "nvfp4", scale_rule="amax").dequantize().tolist() == [2688.0]
    assert decode(0x7E, "ue4m3") == 448


@pytest.mark.parametrize("rule", TWO_LEVELS)
@pytest.mark.parametrize("power", [-100, -20, 0, 30, 120])
def test_the_tensor_scale_is_on_both_sides(rule: str, power: int) -> None:
    """jax #30467: applied on one side, everything rounded to 0, and 0 was compared with 0."""
    x = np.ldexp(RNG.uniform(0.5, 1.0, (8, 64)), power).astype(np.float32)
    got = quantize_blocks(x, "nvfp4", scale_rule=rule)
    # an element of at least 3 has a half step of 1 at most, and a scale is wrong by 1/16 at most
    assert (np.abs(got.dequantize(np.float64) - x) <= x * 0.3).all()
    assert got.codes.any()


# --- layouts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 127, 129, 384])
def test_every_row_has_its_own_scale(rows: int) -> None:
    """flashinfer #3398: rows that are no multiple of 128 read padding for scales."""
    x = np.ldexp(RNG.uniform(1, 2, (rows, 64)), np.arange(rows)[:, None] % 40 - 20).astype(np.float32)
    got = quantize_blocks(x, "mxfp8", scale_rule="rceil")
    assert got.scales.shape == (rows, 2)
    assert (np.abs(got.dequantize() - x) <= x / 16).all()


def test_words_hold_the_codes_of_any_axis() -> None:
    x = RNG.standard_normal((40, 6)).astype(np.float32)
    got = quantize_blocks(x, "mxfp6_e2m3", axis=0)
    assert got.words.shape == (6, 8)  # 40 codes of 6 bits
    np.testing.assert_array_equal(unpack_codes(got.words, 6, 40).T, got.codes)


# --- witnesses --------------------------------------------------------------------------------


def data() -> dict[str, np.ndarray]:
    """Normal deviates, blocks of all sizes, ties, just below powers of two, zeros."""
    shape = (64, 128)
    normal = RNG.standard_normal(shape).astype(np.float32)
    sizes = np.ldexp(1.0, RNG.integers(-90, 90, (64, 4))).repeat(32, axis=1)
    edges = np.where(RNG.random(shape) < 0.1, just_below(3), 0).astype(np.float32)
    integers = RNG.integers(-12, 13, shape).astype(np.float32)
    return {"normal": normal, "sizes": (normal * sizes).astype(np.float32), "edges": edges, "integers": integers / 4}


DATA = data()


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("fmt", ["q8_0", "q4_0", "ggml_mxfp4"])
def test_gguf_agrees(fmt: str, kind: str) -> None:
    """Bit by bit, but for blocks whose log2 is wrong there (see above)."""
    quants = pytest.importorskip("gguf.quants")
    kinds = {"q8_0": "Q8_0", "q4_0": "Q4_0", "ggml_mxfp4": "MXFP4"}
    x, ours = DATA[kind], quantize_blocks(DATA[kind], fmt)
    with np.errstate(all="ignore"):
        packed = quants.quantize(x, quants.GGMLQuantizationType[kinds[fmt]])
    raw = packed.reshape(256, -1)
    width = 1 if fmt == "ggml_mxfp4" else 2
    scales = raw[:, :width].copy().view(U8 if width == 1 else np.uint16).ravel()
    rest = raw[:, width:]
    codes = rest if fmt == "q8_0" else np.concatenate([rest & 15, rest >> 4], axis=1)
    codes = codes ^ 8 if fmt == "q4_0" else codes  # it counts from 8
    same = ours.scales.ravel() == scales
    if kind == "edges" and fmt == "ggml_mxfp4":
        assert not same.all()
    else:
        assert same.all()
    np.testing.assert_array_equal(ours.codes.reshape(256, 32)[same], codes[same])
    if same.all() and kind != "sizes":  # float16 scales overflow there, and Inf * 0 is a NaN
        theirs = quants.dequantize(packed, quants.GGMLQuantizationType[kinds[fmt]])
        assert bits(theirs) == bits(ours.dequantize())


def torchao() -> tuple[Any, Any, Any]:
    """torch, torchao's mx_tensor and its modes; importing them warns."""
    with warnings.catch_warnings(action="ignore"):
        torch = pytest.importorskip("torch")
        mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
        config = pytest.importorskip("torchao.prototype.mx_formats.config")
    return torch, mx, config.ScaleCalculationMode


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("rule", ["floor", "ceil", "even", "rceil"])
def test_torchao_agrees_on_mx(rule: str, kind: str) -> None:
    torch, mx, modes = torchao()
    names = {"mxfp8_e4m3": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2, "mxfp6_e3m2": "fp6_e3m2",
             "mxfp6_e2m3": "fp6_e2m3", "mxfp4": torch.float4_e2m1fn_x2}  # fmt: skip
    for fmt, dtype in names.items():
        scales, codes = mx.to_mx(torch.from_numpy(DATA[kind]), dtype, 32, modes[rule.upper()])
        codes = codes.view(torch.uint8).numpy()
        if fmt == "mxfp4":
            codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(64, 128)
        ours = quantize_blocks(DATA[kind], fmt, scale_rule=rule)
        np.testing.assert_array_equal(ours.scales, scales.view(torch.uint8).numpy())
        np.testing.assert_array_equal(ours.codes, codes)


@pytest.mark.parametrize("kind", DATA)
def test_torchao_agrees_on_nvfp4(kind: str) -> None:
    torch, _, _ = torchao()
    nvfp4_tensor = pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")
    x = torch.from_numpy(DATA[kind])
    whole = nvfp4_tensor.per_tensor_amax_to_scale(x.abs().max())
    scales, codes = nvfp4_tensor.nvfp4_quantize(x, 16, whole)
    codes = codes.view(torch.uint8).numpy()
    ours = quantize_blocks(DATA[kind], "nvfp4", scale_rule="nvfp4_torchao")
    assert ours.tensor_scale == whole.item()
    np.testing.assert_array_equal(ours.scales.ravel(), scales.view(torch.uint8).numpy().ravel())
    np.testing.assert_array_equal(ours.codes, np.stack([codes & 15, codes >> 4], axis=-1).reshape(64, 128))


def in_torchao(x: np.ndarray, rule: str) -> tuple[int, list[int]]:
    """Scale and first codes of mxfp8_e4m3 for one block."""
    torch, mx, modes = torchao()
    block = np.zeros((1, 32), np.float32)
    block[0, : len(x)] = x
    scales, codes = mx.to_mx(torch.from_numpy(block), torch.float8_e4m3fn, 32, modes[rule.upper()])
    return int(scales.view(torch.uint8)[0, 0]), codes.view(torch.uint8)[0, : len(x)].tolist()


@pytest.mark.parametrize(
    ("x", "rule", "theirs", "ours"),
    [
        # 2**-126 over a scale of 2**-127 is 2 (40); it divides by 2**-126, or makes nothing of it
        ([2.0**-126], "floor", (0x00, [0x38]), (0x00, [0x40])),
        ([2.0**-126], "rceil", (0x00, [0x00]), (0x00, [0x40])),
        # a NaN poisons the scale alone
        ([1, np.nan], "floor", (0xFF, [0x00, 0x7F]), (0xFF, [0x7F, 0x7F])),
        ([1, np.nan], "rceil", (0xFF, [0x7F, 0x7F]), (0xFF, [0x7F, 0x7F])),
        # Inf is a number of 2**128 to its scale, and here it leaves the scale alone
        ([1, np.inf], "floor", (0xF7, [0x00, 0x7E]), (0x77, [0x78, 0x7E])),
        ([1, np.inf], "rceil", (0xFE, [0x00, 0x7E]), (0x77, [0x78, 0x7E])),
        # just above 448 * 2**-100: the logarithm in float32 is -100, and its ceiling one too low
        ([float.fromhex("0x1.c00002p-92")], "rceil", (0x1B, [0x7E]), (0x1C, [0x76])),
    ],
)
def test_where_torchao_differs_on_mx(x: Any, rule: str, theirs: Any, ours: Any) -> None:
    assert in_torchao(np.array(x, np.float32), rule) == theirs
    tensor = quantize_blocks(np.array(x, np.float32), "mxfp8", scale_rule=rule)
    assert (int(tensor.scales[0]), tensor.codes.tolist()) == ours


@pytest.mark.parametrize("special", [0.0, np.nan, np.inf])
def test_where_torchao_differs_on_nvfp4(special: float) -> None:
    """A tensor scale of 0, NaN or Inf spoils every block; here all are numbers, but for the block of the NaN."""
    torch, _, _ = torchao()
    nvfp4_tensor = pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")
    x = np.zeros((1, 32), np.float32)
    x[0, 0] = special
    x[0, 16] = 0.0 if special == 0 else 1.0
    whole = nvfp4_tensor.per_tensor_amax_to_scale(torch.from_numpy(x).abs().max())
    _, codes = nvfp4_tensor.nvfp4_quantize(torch.from_numpy(x), 16, whole)
    assert not 0 < whole.item() < np.inf and 0xCC in codes.view(torch.uint8).numpy()
    ours = quantize_blocks(x, "nvfp4", scale_rule="nvfp4_torchao")
    assert ours.tensor_scale is not None and 0 < ours.tensor_scale < np.inf
    assert ours.dequantize()[0, 16:].tolist() == x[0, 16:].tolist()


def test_gfloat_agrees_where_log2_is_right() -> None:
    gfloat, formats = pytest.importorskip("gfloat"), pytest.importorskip("gfloat.formats")
    infos = {"mxfp8_e4m3": formats.format_info_mxfp8_e4m3, "mxfp4": formats.format_info_mxfp4_e2m1}
    x = DATA["normal"][:4].reshape(-1, 32)
    for fmt, info in infos.items():
        theirs = [gfloat.quantize_block(info, row, gfloat.compute_scale_amax) for row in x.astype(np.float64)]
        assert bits(np.array(theirs)) == bits(quantize_blocks(x, fmt).dequantize())


def test_ml_dtypes_agrees_on_the_elements() -> None:
    """Its casts of the exact quotient, where it does not overflow."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    names = {"mxfp8_e4m3": "float8_e4m3fn", "mxfp8_e5m2": "float8_e5m2", "mxfp4": "float4_e2m1fn",
             "mxfp6_e2m3": "float6_e2m3fn", "mxfp6_e3m2": "float6_e3m2fn"}  # fmt: skip
    for fmt, name in names.items():
        ours = quantize_blocks(DATA["sizes"], fmt, scale_rule="rceil")
        quotient = DATA["sizes"] / ours.scale_values.repeat(32, axis=1)  # a power of two: exact
        theirs = quotient.astype(getattr(ml_dtypes, name)).view(U8)
        np.testing.assert_array_equal(ours.codes, theirs & ours.fmt.element.code_mask)


def test_a_scale_by_hand_in_fractions() -> None:
    """One block, worked out beside the oracle: 5 / 3 in float32, and what the codes make of it."""
    got = quantize_blocks(np.float32([5.0, 1.0]), "fp8_1x128")
    exact = Fraction(5, 448)
    assert int(got.scales[0]) == oracle.encode(exact, "fp32")
    scale = Fraction(float(got.scale_values[0]))
    assert got.codes.tolist() == [oracle.encode(x / scale, "e4m3") for x in (Fraction(5), Fraction(1))]
    assert encode(float(Fraction(1) / scale), "e4m3") == got.codes[1]


def test_a_processor_that_flushes_changes_nothing() -> None:
    """torch.set_flush_denormal: subnormals of float32 and of float64 are read and written as bits."""
    torch = pytest.importorskip("torch")
    x = np.ldexp(RNG.uniform(1, 2, (12, 48)), RNG.integers(-149, -100, (12, 48)))
    least = np.ldexp(RNG.uniform(1, 2, (12, 48)), RNG.integers(-149, -127, (12, 48))).astype(np.float32)
    sources = (x.astype(np.float32), x, np.ldexp(x, -920), least)
    formats = ("mxfp8_e4m3", "mxint8", "nvfp4", "fp8_1x128", "int8_g32", "uint4_g32", "q8_0", "q4_0", "ggml_mxfp4",
               "ggml_nvfp4")  # fmt: skip
    rules = (*((fmt, None) for fmt in formats), ("nvfp4", "nvfp4_te2026"), ("nvfp4", "nvfp4_torchao"))

    def results() -> list[bytes]:
        tensors = [quantize_blocks(source, fmt, scale_rule=rule) for fmt, rule in rules for source in sources]
        return [part.tobytes() for t in tensors for part in (t.codes, t.scales, t.dequantize())]

    usual = results()
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush")
    try:
        flushed = results()
    finally:
        torch.set_flush_denormal(False)
    assert usual == flushed
