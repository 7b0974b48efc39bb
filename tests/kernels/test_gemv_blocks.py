"""gemv of block formats and of parts of k: bit for bit what `feather_ref.ops.replay` makes of the stated order."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import _target, matrices, products
from feather_kernels.matvec import Gemv
from feather_kernels.operands import Shared
from feather_ref import ops
from kernel_inputs import here, packed_codes, same_bits

TINY = fr.BlockFormat("tiny", fr.get_format("e2m1"), (8,), fr.get_format("ue5m3"), "amax")
WIDE = fr.BlockFormat("wide", fr.get_format("e3m2"), (48,), fr.get_format("bf16"), "amax")
NARROW = fr.BlockFormat("narrow", fr.get_format("e4m3"), (2,), fr.get_format("fp16"), "amax")
TILES = fr.BlockFormat("tiles", fr.get_format("e4m3"), (2, 16), fr.get_format("fp32"), "amax")
FORMATS = (*fr.BLOCK_FORMATS.values(), TINY, WIDE, NARROW)
CUTS = (fk.Cut(), fk.Cut(4, 1), fk.Cut(2, 2), fk.Cut(1, 4, 4, 2), fk.Cut(2, 2, 4, 2, 3), fk.Cut(1, 1, 2, 1, 2))


def blocks(fmt: fr.BlockFormat, n: int, k: int, seed: int, axis: int = -1, special: bool = False) -> fr.BlockTensor:
    """Random codes; special: of elements and of scales, NaN, Inf, subnormals and all; else finite, near 1."""
    rng = np.random.default_rng(seed)
    element = fr.decode(np.arange(1 << fmt.element.bits).astype(fr.code_dtype(fmt.element)), fmt.element)
    codes = np.flatnonzero(np.isfinite(element) | special)
    some = np.arange(1 << min(fmt.scale.bits, 16)).astype(fr.code_dtype(fmt.scale))
    if fmt.scale.bits == 32:
        some = (some << 16).astype(np.uint32)
    value = fr.decode(some, fmt.scale, np.float64)
    allowed = some[special | ((np.abs(value) > 2.0**-6) & (np.abs(value) < 2.0**6))]
    shape = fr.blocks.scales_shape((n, k), fmt, axis)
    return fr.BlockTensor(
        rng.choice(codes, (n, k)).astype(fr.code_dtype(fmt.element)),
        rng.choice(allowed, shape).astype(fr.code_dtype(fmt.scale)),
        fmt,
        axis,
        np.float32(0.375) if fmt.tensor_scale != "none" else None,
        rng.choice(codes, shape).astype(fr.code_dtype(fmt.element)) if fmt.zero_point else None,
    )


def replayed(plan: fk.Plan, W: object, x: object, **given: object) -> np.ndarray:
    return ops.replay(W, x, ops.Order(**plan.order()), **given)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_every_block_format(fmt: fr.BlockFormat) -> None:
    """More than one stride of a warp, a ragged block and a ragged vector; codes of NaN and Inf, and without."""
    for special in (False, True):
        check_format(fmt, special)


def check_format(fmt: fr.BlockFormat, special: bool) -> None:
    lanes = Gemv(fmt.element, shared=Shared(fmt.tile[1], 1, fmt.scale)).lanes
    W = blocks(fmt, 2, 38 * lanes + lanes // 2 + 1, 1, special=special)
    x = np.random.default_rng(2).standard_normal(W.shape[1]).astype(np.float16)
    plan = fk.prepare(W)
    got = plan(x)
    assert same_bits(got, replayed(plan, W, x))
    assert np.isfinite(got).all() or special


@settings(max_examples=12)
@given(
    st.sampled_from(["mxfp8", "mxfp8_e5m2", "mxfp6", "mxfp4", "nvfp4", "mxint8", "uint4_g32", "q4_0", "fp8_1x128"]),
    st.sampled_from(["float16", "float32"]),
    st.sampled_from(CUTS),
    st.integers(1, 6),
    st.integers(1, 400),
    st.booleans(),
    st.sampled_from([-1, -2]),
    st.integers(0, 99),
)
def test_cuts_and_shapes(
    name: str, x_name: str, cut: fk.Cut, n: int, k: int, special: bool, axis: int, seed: int
) -> None:
    fmt = fr.get_block_format(name)
    W = blocks(fmt, n, k, seed, axis, special)
    rng = np.random.default_rng(seed)
    bias = rng.standard_normal(n).astype(np.float32) if seed % 2 else None
    x = (rng.standard_normal(k) * 2.0 ** rng.integers(-12, 12, k)).astype(x_name)
    plan = fk.prepare(W, x=x_name, bias=bias, cut=cut)
    wanted = replayed(plan, W, x, bias=bias)
    assert same_bits(plan(x), wanted)
    assert same_bits(plan(x), wanted)  # what parts leave behind does not show


def test_tiles_of_rows_and_columns() -> None:
    W = blocks(TILES, 5, 140, 3)
    x = np.random.default_rng(4).standard_normal(140).astype(np.float16)
    plan = fk.prepare(W)
    assert same_bits(plan(x), replayed(plan, W, x))


@pytest.mark.parametrize("parts", [2, 3, 7])
@pytest.mark.parametrize("k", [1, 513, 1100])
def test_parts_of_k(parts: int, k: int) -> None:
    """Parts that have much, little, or nothing to do; the last block to come adds them in order."""
    row = fr.get_format("e4m3")
    rng = np.random.default_rng(k)
    W = packed_codes(rng.integers(0, 127, (3, k)).astype(np.uint8), row)
    x = rng.standard_normal(k).astype(np.float16)
    plan = fk.prepare(W, cut=fk.Cut(2, 1, 1, 1, parts))
    assert same_bits(plan(x), replayed(plan, W, x))
    assert same_bits(plan(x), replayed(plan, W, x))


@pytest.mark.parametrize("finite", [False, True])
def test_what_the_target_widens_itself(finite: bool) -> None:
    """e4m3 by the instruction of sm_89: another order, since no power of two is left to the end."""
    if not _target.SIMULATOR and not products._native():
        pytest.skip("sm_89 has it")
    row = fr.get_format("e4m3")
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 127 if finite else 256, (3, 600)).astype(np.uint8)
    W = packed_codes(codes, row)
    x = rng.standard_normal(600).astype(np.float16)
    plan = fk.prepare(W)
    native = replace(plan.kernel, native=True)
    assert native.flag is None
    assert native.order()["factor"] == 0
    other = products._gemv_plan(native, (3, 600), matrices.take(W), None, fk.Cut())
    assert same_bits(other(x), replayed(other, W, x))


@pytest.mark.skipif(not _target.SIMULATOR, reason="words are on the host")
def test_blocks_that_are_there_already() -> None:
    W = blocks(fr.get_block_format("nvfp4"), 3, 100, 6)
    x = np.random.default_rng(7).standard_normal(100).astype(np.float16)
    given = fk.DeviceTensor(W.words, (3, 100), W.fmt, scale=np.array([W.tensor_scale]), scales=W.scales, finite=True)
    assert same_bits(fk.gemv(given, x), fk.gemv(W, x))


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"scales": None}, ValueError, "scales is missing: 'mxfp8_e4m3' has scales"),
        ({"scales": np.zeros((2, 2), np.uint8)}, ValueError, r"scales must have shape \(2, 3\), got \(2, 2\)"),
        ({"scales": np.zeros((2, 3), np.uint16)}, TypeError, "scales must be uint8, got uint16"),
        ({"zeros": np.zeros((2, 3), np.uint8)}, ValueError, "zeros: 'mxfp8_e4m3' has no zero points"),
    ],
)
def test_blocks_that_do_not_fit(change: dict[str, object], kind: type[Exception], text: str) -> None:
    fmt = fr.get_block_format("mxfp8")
    fields = {"scales": np.full((2, 3), 127, np.uint8), **change}
    with pytest.raises(kind, match=text):
        fk.prepare(fk.DeviceTensor(here(np.zeros((2, 24), np.uint32)), (2, 96), fmt, **fields))


def test_blocks_that_fill_no_words() -> None:
    odd = fr.BlockFormat("odd", fr.get_format("e4m3"), (5,), fr.get_format("e8m0"), "floor")
    with pytest.raises(ValueError, match="no kernel has blocks of 5 numbers of e4m3"):
        fk.prepare(blocks(odd, 2, 20, 1))


def test_explain_names_blocks_and_parts() -> None:
    W = blocks(fr.get_block_format("nvfp4"), 4, 64, 1)
    text = fk.prepare(W, cut=fk.Cut(1, 1, 4, 1, 2)).explain()
    assert "gemv of 4 x 64 e2m1 in blocks of 16 with ue4m3 scales" in text
    assert "1 row a warp, 2 blocks share a row; " in text
    assert f"reads {4 * 32 + 16 + 4} bytes" in text
    text = fk.prepare(W, cut=fk.Cut(1, 1, 4)).explain()
    assert "1 row a warp, 1 warp a row; " in text
    assert "one launch of 1 block of 128 threads" in text
