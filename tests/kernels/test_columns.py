"""Several columns: exact where nothing is rounded, within the bound elsewhere, and column by column where told.

Sums of small whole numbers are exact in any order, so there every bit is known.
"""

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import products, tensorcore
from feather_kernels.columns import ColumnsPlan
from feather_kernels.matvec import Gemv
from feather_kernels.operands import Shared
from feather_kernels.tensorcore import Columns
from feather_ref import ops
from kernel_inputs import packed_codes, same_bits

FORMATS = ("e5m2", "e4m3", "e4m3fnuz", "e3m4", "e2m1", "fp16")
CUTS = (
    fk.Cut(16, 4, 4),
    fk.Cut(16, 1, 1),
    fk.Cut(32, 2, 4),
    fk.Cut(16, 2, 2, 2),
    fk.Cut(64, 1, 2),
    fk.Cut(16, 2, 4, 1, 3),
)
BLOCKS = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp4", "nvfp4")
NAN = {"e4m3": 0x7F, "e5m2": 0x7E, "e4m3fnuz": 0x80}


def whole_numbers(name: str, shape: tuple[int, int], seed: int) -> fr.PackedTensor:
    """Whole numbers of up to 4, and halves where a format has few others: exact sums in float32."""
    rng = np.random.default_rng(seed)
    return fr.pack_tensor(
        rng.choice(np.array([-4, -2, -1.5, -1, -0.5, -0.0, 0, 0.5, 1, 1.5, 2, 3], np.float32), shape), name
    )


def numbers_of_x(shape: tuple[int, int], seed: int, dtype: object = np.float16) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def cores_take(plan: ColumnsPlan) -> bool:
    """Whether tensor cores do; where not, it is because they are too old for this."""
    if plan.order() is None:
        return True
    assert "from compute capability" in plan.explain()
    return False


def need_cores() -> None:
    """Skip where the target has no tensor cores that take float16."""
    if products._capability() < (7, 5):
        pytest.skip("tensor cores take float16 from compute capability 7.5 on")


@pytest.mark.parametrize("name", FORMATS)
def test_exact_sums(name: str) -> None:
    """All columns of two tiles and a part of one, several steps and a tail; a scale a row, and a bias."""
    W = replace(whole_numbers(name, (37, 205), 1), scale=(2.0 ** (np.arange(37) % 5 - 2)).astype(np.float32)[:, None])
    bias = np.arange(37, dtype=np.float32)
    x = numbers_of_x((8 if name == "e4m3" else 5, 205), 2)
    got = fk.prepare(W, columns=8, bias=bias, cut=fk.Cut(32, 2, 2))(x)
    assert same_bits(got, ops.matmul(x, W, bias))


@settings(max_examples=8)
@given(
    st.sampled_from(FORMATS),
    st.sampled_from(["float16", "float32"]),
    st.sampled_from(CUTS),
    st.integers(1, 35),
    st.integers(0, 300),
    st.integers(1, 10),
    st.integers(0, 9),
)
def test_cuts_and_shapes(name: str, out: str, cut: fk.Cut, n: int, k: int, count: int, seed: int) -> None:
    W, x = whole_numbers(name, (n, k), seed), numbers_of_x((count, k), seed + 1)
    plan, wanted = (
        fk.prepare(W, columns=10, out=out, cut=cut),
        ops.matmul(x, W, out="fp16" if out == "float16" else "fp32"),
    )
    assert same_bits(plan(x), wanted)


@pytest.mark.parametrize("k", [50, 64, 330])
def test_parts_meet_in_the_last_block(k: int) -> None:
    """Parts without a whole step, with one, and with some; again, since the counters must be as they were."""
    W, x = whole_numbers("e4m3", (19, k), 1), numbers_of_x((3, k), 2)
    plan = fk.prepare(W, columns=3, cut=fk.Cut(16, 1, 2, 1, 3))
    for factor in (np.float16(1), np.float16(2)):
        assert same_bits(plan(factor * x), ops.matmul(factor * x, W))
    assert "16 rows a warp share a load of x, 3 blocks share a row; " in plan.explain()


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e4m3fnuz"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_wide_x(name: str, dtype: str) -> None:
    """A float32 enters in three parts that are exact, so 24 bits of x are all there; bfloat16 as it is."""
    numpy_dtype = np.dtype(dtype) if dtype == "float32" else pytest.importorskip("ml_dtypes").bfloat16
    k = 150
    x = numbers_of_x((3, k), 3, np.float32)
    W = np.zeros((5, k), np.float32)
    W[np.arange(5), [0, 77, 64, 149, 15]] = [1, -2, 0.5, 1, 1]
    if dtype == "float32":
        x = x + np.float32(1 + 2.0**-23)
        x[1, 77], x[2, 149], x[0, 0] = 3.4e38, 2.0**-100 * (1 + 2.0**-23), -np.inf
        x[0, 1:] = 0  # Inf times 0 would be NaN
    x = x.astype(numpy_dtype)
    packed = fr.pack_tensor(W, name)
    got = fk.prepare(packed, x=dtype, columns=3)(x)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = (x.astype(np.float64) @ W.T.astype(np.float64)).astype(np.float32)
    finite = np.isfinite(wanted)
    assert same_bits(got[finite], wanted[finite])
    assert (np.isnan(got) == np.isnan(wanted)).all()
    assert (np.isinf(got) == np.isinf(wanted)).all()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "float16") for name in FORMATS), ("e4m3", "float32"), ("e2m1", "float32"), ("e5m2", "float32")],
)
def test_within_the_bound(name: str, dtype: str) -> None:
    """Random codes and numbers; three parts of x are three sums."""
    row = fr.get_format(name)
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 1 << row.bits, (18, 150)).astype(fr.code_dtype(row))
    codes = np.where(fr.isfinite(codes, row), codes, 0).astype(codes.dtype)
    W, x = packed_codes(codes, row), rng.standard_normal((3, 150)).astype(dtype)
    plan = fk.prepare(W, x=dtype, columns=4)
    if not cores_take(plan):
        wanted = [ops.replay(W, row, ops.Order(**plan.order())) for row in x]
        assert same_bits(plan(x), np.array(wanted))
        return
    bound = ops.error_bound(W, x, ops.TensorCore(factor=plan.kernel.pairs.factor)) * plan.kernel.terms
    assert (np.abs(plan(x).astype(np.float64) - ops.matmul(x, W)) <= bound).all()


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize(("dtype", "spread"), [("float16", False), ("float16", True), ("float32", False)])
def test_blocks(name: str, dtype: str, spread: bool) -> None:
    """Random codes, scales that are powers of two, a tail inside a block: exact sums.

    spread: rows of such different scales that float16 does not hold them all.
    """
    fmt, rng = fr.BLOCK_FORMATS[name], np.random.default_rng(3)
    whole = whole_numbers(fmt.element.name, (19, 100), 4)
    powers = fr.encode(np.array([0.25, 0.5, 1, 2], np.float32), fmt.scale)
    scales = powers[rng.integers(0, 4, (19, -(-100 // fmt.tile[1])))]
    if spread and fmt.scale.name == "e8m0":
        scales = (scales + np.arange(-36, 40, 4)[:, None]).astype(np.uint8)
    scale = np.float32(0.5) if fmt.tensor_scale != "none" else None
    W, x = fr.BlockTensor(whole.codes(), scales, fmt, -1, scale), numbers_of_x((3, 100), 2, dtype)
    plan = fk.prepare(W, x=dtype, columns=3, cut=fk.Cut(32, 1, 1))
    narrow = dtype == "float16" and not (spread and fmt.scale.name == "e8m0")
    assert not cores_take(plan) or plan.kernel.narrow == narrow
    assert same_bits(plan(x), ops.matmul(x, W))


@pytest.mark.parametrize("by", [-40, 40])
def test_blocks_that_are_alike_but_far_from_one(by: int) -> None:
    """Float16 does not hold them as they are; the power of two that is taken off comes back with the scale."""
    rng = np.random.default_rng(3)
    scales = (127 + by + rng.integers(0, 3, (19, 4))).astype(np.uint8)
    W = fr.BlockTensor(whole_numbers("e4m3", (19, 100), 4).codes(), scales, fr.get_block_format("mxfp8"), -1)
    x = numbers_of_x((3, 100), 2)
    plan = fk.prepare(W, columns=3, cut=fk.Cut(32, 1, 1))
    assert plan.kernel.narrow
    assert same_bits(plan(x), ops.matmul(x, W))


def test_blocks_without_a_kernel() -> None:
    """Scales that bfloat16 does not hold, far from 1, or not a number: column by column, and right."""
    W = fr.quantize_blocks(np.ones((2, 64), np.float32), "mxfp8_e4m3")
    x = np.ones((2, 64), np.float16)
    for code, why in ((127 + 100, "so far from 1"), (255, "scales in e8m0")):
        far = replace(W, scales=np.where(np.arange(4).reshape(2, 2) == 3, code, W.scales).astype(np.uint8))
        plan = fk.prepare(far, columns=2)
        assert why in plan.explain() or "from compute capability" in plan.explain()
        for row, got in zip(x, plan(x), strict=True):
            assert same_bits(got, ops.replay(far, row, ops.Order(**plan.order())))


@pytest.mark.parametrize("name", sorted(NAN))
@pytest.mark.parametrize("at", [0, 60, 175, 199])  # whole steps and the rest, in the first and in other lanes of four
def test_a_nan_of_w_is_seen_in_its_row(name: str, at: int) -> None:
    codes = whole_numbers(name, (18, 200), 5).codes()
    codes[17, at] = NAN[name]
    got = fk.prepare(packed_codes(codes, fr.get_format(name)), columns=8)(np.zeros((8, 200), np.float16))
    assert np.isnan(got[:, 17]).all()
    assert (got[:, :17].view(np.uint32) == 0).all()


def test_special_values_stay_in_their_row_and_column() -> None:
    """Inf of W and x, NaN of x, Inf times 0, Inf minus Inf."""
    W = np.ones((3, 70), np.float32)
    W[1, 69] = np.inf
    W[2, 1:] = 0
    x = np.ones((4, 70), np.float16)
    x[1, 69], x[2, 3], x[3, 69] = 0, np.inf, -np.inf
    got = fk.prepare(fr.pack_tensor(W, "e5m2", overflow="nonsaturating"), columns=4)(x)
    kinds = np.where(np.isnan(got), "nan", np.where(np.isinf(got), "inf", "number"))
    assert kinds.tolist() == [
        ["number", "inf", "number"],
        ["number", "nan", "number"],
        ["inf", "inf", "nan"],
        ["inf", "inf", "nan"],
    ]
    assert got[3, 1] == -np.inf
    assert got[0].tolist() == [70, np.inf, 1]


def test_what_lies_behind_k_is_not_read() -> None:
    """Words behind the last code may hold anything, and so may memory behind x."""
    row = fr.get_format("e4m3")
    words = np.full((2, 20), 0x7F7F7F7F, np.uint32)  # NaN
    words[:, :17] = 0x38383838  # 1
    words[:, 16] = 0x7F7F3838
    wide = np.full((3, 70), np.nan, np.float16)
    wide[:, :66] = 1
    if fk.TARGET == "gpu":
        cupy = pytest.importorskip("cupy")
        words, wide = cupy.asarray(words), cupy.asarray(wide)
    for finite in (True, False):
        got = fk.prepare(fk.DeviceTensor(words, (2, 66), row, finite=finite), columns=3)(wide[:, :66])
        assert bool((got == 66).all())


@pytest.mark.parametrize("skip", [0, 1, 3])
def test_x_may_begin_anywhere(skip: int) -> None:
    """Rows of x apart by any step, from any element on."""
    W = whole_numbers("e4m3", (5, 128), 6)
    wide = numbers_of_x((6, 128 + 2 * skip), 7)
    wanted = ops.matmul(wide[::2, skip : skip + 128], W)
    if fk.TARGET == "gpu":
        wide = pytest.importorskip("cupy").asarray(wide)
    got = fk.prepare(W, columns=3)(wide[::2, skip : skip + 128])
    assert same_bits(got if isinstance(got, np.ndarray) else got.get(), wanted)


def test_the_same_bits_whatever_the_other_columns_are() -> None:
    rng = np.random.default_rng(8)
    W = fr.pack_tensor(rng.standard_normal((5, 140)), "e4m3", scale="row")
    x = rng.standard_normal((11, 140)).astype(np.float16)
    plan = fk.prepare(W, columns=11)
    y = plan(x)
    assert same_bits(y, plan(x))
    assert same_bits(y[4:6], plan(x[4:6]))
    assert same_bits(y[9:10], plan(x[9:10]))


def test_column_by_column() -> None:
    """Where an order is wanted, or there is no decoder, every column is what its order says."""
    rng = np.random.default_rng(9)
    for name, mode in (("e4m3", "ordered"), ("nf4", "fast")):
        W = fr.pack_tensor(rng.standard_normal((6, 90)), name)
        x = rng.standard_normal((3, 90)).astype(np.float16)
        plan = fk.prepare(W, columns=4, mode=mode)
        for row, got in zip(x, plan(x), strict=True):
            assert same_bits(got, ops.replay(W, row, ops.Order(**plan.order())))
    why = "nf4 is not decoded to pairs of float16", "tensor cores take float16 from compute capability"
    assert any(f"one column after the other: {reason}" in plan.explain() for reason in why)


def test_gemv_of_columns_and_out() -> None:
    W, x = whole_numbers("e4m3", (4, 40), 1), numbers_of_x((2, 40), 2)
    wanted = ops.matmul(x, W)
    assert same_bits(fk.gemv(W, x), wanted)
    plan = fk.prepare(W, columns=2)
    assert same_bits(fk.gemv(plan, x), wanted)
    if fk.TARGET == "simulator":
        out = np.full((2, 4), np.nan, np.float32)
        assert plan(x, out=out) is out
        assert same_bits(out, wanted)


def test_empty_sizes() -> None:
    assert fk.gemv(whole_numbers("e4m3", (0, 5), 1), np.zeros((3, 5), np.float16)).shape == (3, 0)
    assert fk.gemv(whole_numbers("e4m3", (3, 0), 1), np.zeros((2, 0), np.float16)).tolist() == [[0, 0, 0]] * 2


def test_the_short_multiplication_of_older_gpus_has_the_same_result() -> None:
    need_cores()
    W, x = whole_numbers("e4m3", (16, 70), 1), numbers_of_x((8, 70), 2)
    plan = fk.prepare(W, columns=8)
    older = ColumnsPlan(8, 8, lambda *given: fk.Plan(replace(plan.kernel, short=True), *_arguments(plan, *given)), "")
    assert same_bits(older(x), ops.matmul(x, W))


def _arguments(plan: ColumnsPlan, *given: int) -> tuple[object, object]:
    made = plan._make(*given)
    return made.shape, made._arguments


def test_why_tensor_cores_are_not_taken() -> None:
    g = tensorcore.from_gemv(Gemv(fr.get_format("e4m3"), finite=True), (9, 0))
    assert tensorcore.reason_against(g, (9, 0)) is None
    assert "from compute capability 7.5 on" in str(tensorcore.reason_against(g, (7, 0)))
    assert "from compute capability 8.0 on" in str(tensorcore.reason_against(replace(g, x="bf16"), (7, 5)))
    assert "not decoded to pairs of bfloat16" in str(
        tensorcore.reason_against(Columns(fr.get_format("fp16"), "fp32", finite=True), (9, 0))
    )


def test_a_nan_is_looked_for_where_the_target_does_not_show_it() -> None:
    """It widens e4m3 to float16, NaN too; there is nothing of that kind to bfloat16."""
    row = fr.get_format("e4m3")
    assert Columns(row, "fp16", native=True).flag is None
    for g in (Columns(row, "fp16"), Columns(row, "fp32", native=True), Columns(row, "bf16", native=True)):
        assert g.flag is not None
        assert replace(g, finite=True).flag is None


def test_explain_names_the_kernel() -> None:
    need_cores()
    plan = fk.prepare(whole_numbers("e4m3", (20, 64), 1), columns=4)
    assert plan.order() is None
    assert "tensor cores: up to 8 columns a launch\nmma of 20 x 64 e4m3, and up to" in plan.explain()
    assert repr(plan).startswith("<ColumnsPlan of 4 columns: mma of 20 x 64 e4m3, and up to 8 columns of x in fp16")
    of_blocks = Columns(fr.get_format("e2m1"), "fp16", shared=Shared(32, 1, fr.get_format("e8m0")))
    assert of_blocks.explain(8, 64)[0].startswith("mma of 8 x 64 e2m1 in blocks of 32 with e8m0 scales, and up to")
    assert plan.nbytes == 20 * 64


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda W: fk.prepare(W, columns=0), ValueError, "columns must be 1 or more, got 0"),
        (lambda W: fk.prepare(W, columns=2.0), TypeError, "columns must be an int, got float"),
        (lambda W: fk.prepare(W, columns=2)(np.zeros(8, np.float16)), ValueError, r"shape \(1 to 2, 8\), got \(8,\)"),
        (lambda W: fk.prepare(W, columns=2)(np.zeros((3, 8), np.float16)), ValueError, r"got \(3, 8\)"),
        (lambda W: fk.prepare(W, columns=2)(np.zeros((2, 9), np.float16)), ValueError, r"got \(2, 9\)"),
        (lambda W: fk.prepare(W, columns=2)(np.zeros((2, 8), np.float32)), TypeError, "x must be float16, as prepared"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: object, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(fr.pack_tensor(np.ones((2, 8)), "e4m3"))


def test_a_cut_of_tensor_cores_has_whole_tiles() -> None:
    need_cores()
    with pytest.raises(ValueError, match="a multiple of 16 rows, got 4"):
        fk.prepare(fr.pack_tensor(np.ones((2, 8)), "e4m3"), columns=2, cut=fk.Cut(4, 1))


def test_threads_that_ask_at_once_have_one_plan() -> None:
    """A plan that another one replaces is freed, and its words with it, which a captured graph still needs."""
    both, got = threading.Barrier(2), []

    def make(count: int) -> Any:
        if count == 3:
            both.wait(10)
        return SimpleNamespace(kernel=None, shape=(1, 1))

    plan = ColumnsPlan(8, 8, make, "")
    threads = [threading.Thread(target=lambda: got.append(plan._plan(3))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got[0] is got[1] is plan._plan(3)
