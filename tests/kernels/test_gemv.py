"""gemv: bit for bit what `feather_ref.ops.replay` makes of the stated order."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import _target, arrays, gpu, products
from feather_kernels.cuts import choose_cut
from feather_kernels.matvec import Gemv
from feather_ref import ops
from kernel_inputs import ROWS, here, packed_codes, same_bits, some_codes

CUTS = (fk.Cut(), fk.Cut(4, 1), fk.Cut(2, 2), fk.Cut(1, 4, 4, 2), fk.Cut(4, 2, 4, 2))


def matrix(row: fr.Format, n: int, k: int, seed: int, special: bool = False) -> fr.PackedTensor:
    """Random codes; without Inf and NaN unless they are asked for."""
    codes = some_codes(row, 4096)
    if row.kind == "float" and not special:
        codes = codes[[not (row.is_nan(int(code)) or row.is_inf(int(code))) for code in codes]]
    rng = np.random.default_rng(seed)
    return packed_codes(rng.choice(codes, (n, k)).astype(fr.code_dtype(row)), row)


def replayed(plan: fk.Plan, W: fr.PackedTensor, x: object, **given: object) -> np.ndarray:
    return ops.replay(W, x, ops.Order(**plan.order()), **given)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_format(row: fr.Format) -> None:
    """One stride of the warp, one vector more, and a tail; special codes and all."""
    lanes = Gemv(row).lanes
    W = matrix(row, 3, 33 * lanes + lanes // 2 + 1, 1, special=True)
    x = np.random.default_rng(2).standard_normal(W.shape[1]).astype(np.float16)
    plan = fk.prepare(W)
    assert same_bits(plan(x), replayed(plan, W, x))


@settings(max_examples=25)
@given(
    st.sampled_from(["e4m3", "e5m2", "e4m3fnuz", "e3m2", "e2m1", "nf4", "e3m4", "int8", "fp16"]),
    st.sampled_from(["float16", "float32"]),
    st.sampled_from(["float16", "float32"]),
    st.sampled_from(CUTS),
    st.integers(1, 6),
    st.integers(0, 700),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_cuts_and_shapes(
    name: str, x_name: str, out: str, cut: fk.Cut, n: int, k: int, special: bool, ends: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    W = matrix(fr.get_format(name), n, k, seed, special)
    if ends:
        W = replace(W, scale=rng.uniform(0.5, 2, (n, 1)).astype(np.float32))
    bias = rng.standard_normal(n).astype(np.float32) if ends else None
    x = (rng.standard_normal(k) * 2.0 ** rng.integers(-12, 12, k)).astype(x_name)
    plan = fk.prepare(W, x=x_name, out=out, bias=bias, cut=cut)
    wanted = replayed(plan, W, x, bias=bias, out="fp16" if out == "float16" else "fp32")
    assert same_bits(plan(x), wanted)


def test_special_values_of_x() -> None:
    """Inf, NaN, -0, the least and the greatest, in both dtypes; a NaN weight wins over all."""
    codes = np.array([[0x38] * 6, [0xB8] * 6, [0] * 6, [0x38, 0, 0, 0, 0, 0x7F]], np.uint8)
    W = packed_codes(codes, fr.get_format("e4m3"))
    for dtype in (np.float16, np.float32):
        info = np.finfo(dtype)
        for value in (np.inf, -np.inf, np.nan, -0.0, info.smallest_subnormal, info.max, -info.max):
            x = np.array([value, 0, 0, 0, -0.0, 0], dtype)
            plan = fk.prepare(W, x=dtype.__name__)
            assert same_bits(plan(x), replayed(plan, W, x)), value


@pytest.mark.parametrize("skip", range(4))
@pytest.mark.parametrize("pad", range(3))
def test_rows_may_begin_anywhere(skip: int, pad: int) -> None:
    """A view of words whose rows are apart by any stride, from any word on; x from any element on."""
    row = fr.get_format("e4m3")
    W = matrix(row, 3, 531, 5)
    wide = np.random.default_rng(6).integers(0, 1 << 32, (3, W.words.shape[1] + skip + pad), dtype=np.uint32)
    view = wide[:, skip : skip + W.words.shape[1]]
    view[...] = W.words
    x = np.random.default_rng(7).standard_normal(531 + skip).astype(np.float16)[skip:]
    if not _target.SIMULATOR:
        cupy = pytest.importorskip("cupy")
        view = cupy.asarray(wide)[:, skip : skip + W.words.shape[1]]
        x = cupy.asarray(np.append(np.zeros(skip, np.float16), x))[skip:]
    plan = fk.prepare(fk.DeviceTensor(view, (3, 531), row))
    host = x if isinstance(x, np.ndarray) else x.get()
    got = plan(x)
    assert same_bits(got if isinstance(got, np.ndarray) else got.get(), replayed(plan, W, host))


def test_finite_rows_have_the_same_bits() -> None:
    """Where there is no NaN, not looking for it changes nothing; where there is one, it is seen."""
    row = fr.get_format("e4m3")
    W = matrix(row, 3, 600, 4)
    x = np.random.default_rng(9).standard_normal(600).astype(np.float16)
    plan = fk.prepare(W)
    assert plan.kernel.finite
    if _target.SIMULATOR:
        seen = fk.prepare(fk.DeviceTensor(W.words, (3, 600), row))
        assert not seen.kernel.finite
        assert same_bits(seen(x), plan(x))
    with_nan = packed_codes(np.where(np.arange(600) == 599, 0x7F, W.codes()).astype(np.uint8), row)
    assert np.isnan(fk.gemv(with_nan, x)).all()


def test_the_same_bits_whatever_rows_warps_and_depth() -> None:
    W = matrix(fr.get_format("e4m3"), 5, 1100, 8)
    x = np.random.default_rng(9).standard_normal(1100).astype(np.float16)
    results = [fk.prepare(W, cut=fk.Cut(rows, 1, 4, depth))(x) for rows in (1, 2, 4) for depth in (1, 2)]
    assert all(same_bits(result, results[0]) for result in results)
    split = fk.prepare(W, cut=fk.Cut(1, 4))(x)
    assert not same_bits(split, results[0])  # another order: other bits, so that the test above says something


def test_empty_sizes() -> None:
    row = fr.get_format("e4m3")
    assert fk.gemv(matrix(row, 0, 5, 1), np.zeros(5, np.float16)).shape == (0,)
    assert fk.gemv(matrix(row, 3, 0, 1), np.zeros(0, np.float16)).tolist() == [0, 0, 0]


def test_gemv_is_prepare_and_call() -> None:
    W = matrix(fr.get_format("e2m1"), 4, 70, 2)
    x = np.random.default_rng(3).standard_normal(70).astype(np.float32)
    plan = fk.prepare(W, x="float32")
    assert same_bits(fk.gemv(W, x), plan(x))
    assert same_bits(fk.gemv(plan, x), plan(x))


@pytest.mark.skipif(not _target.SIMULATOR, reason="out is on the host")
def test_out() -> None:
    W = matrix(fr.get_format("e2m1"), 4, 70, 2)
    x, out = np.ones(70, np.float16), np.full(4, np.nan, np.float32)
    assert fk.prepare(W)(x, out=out) is out
    assert same_bits(out, fk.gemv(W, x))


def test_bfloat16() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    W = matrix(fr.get_format("e4m3"), 4, 70, 2)
    x = np.random.default_rng(3).standard_normal(70).astype(bfloat16)
    plan = fk.prepare(W, x="bfloat16", out="bfloat16")
    assert same_bits(plan(x), replayed(plan, W, x, out="bf16"))


def test_the_cut_fills_the_gpu() -> None:
    """As measured on 132 multiprocessors; every choice is a kernel, also for what is tiny or huge."""
    sizes = ((16384, 16384), (8192, 8192), (4096, 14336), (4096, 4096), (1024, 8192), (256, 16384), (8, 65536))
    g = Gemv(fr.get_format("e4m3"))
    assert [tuple(choose_cut(g, n, k, 132)) for n, k in sizes] == [
        (2, 1, 8, 2, 1), (4, 2, 8, 1, 1), (4, 4, 8, 1, 1), (2, 2, 4, 2, 1), (2, 8, 8, 2, 1),
        (1, 16, 16, 2, 1), (1, 8, 8, 1, 16),
    ]  # fmt: skip
    assert choose_cut(Gemv(fr.get_format("e2m1")), 16384, 16384, 132) == fk.Cut(2, 1)
    assert choose_cut(Gemv(fr.get_format("nf4")), 16384, 16384, 132) == fk.Cut(4, 1, 8)
    assert choose_cut(Gemv(fr.get_format("uf11")), 16384, 16384, 132).rows == 1
    for name in ("e4m3", "e2m1", "e3m2", "nf4", "uf11", "fp32"):
        for n, k in ((1, 1), (1, 1 << 24), (1 << 20, 1), (7, 300)):
            cut = choose_cut(Gemv(fr.get_format(name)), n, k, 80)
            assert cut.warps % cut.splits == 0
            assert cut.warps <= 32


def test_blocks_and_words_for_rows() -> None:
    """No block without a row; a counter and a sum for each part of every row of a block."""
    g = Gemv(fr.get_format("e4m3"), rows=2, splits=2, warps=4, parts=3)
    assert [g.grid(n) for n in (0, 1, 4, 5, 8)] == [0, 3, 3, 6, 6]
    assert [g.workspace(n) for n in (0, 1, 4, 5, 8)] == [0, 16, 16, 32, 32]
    assert replace(g, parts=1).workspace(8) == 0


def test_explain_names_kernel_and_bytes() -> None:
    plan = fk.prepare(matrix(fr.get_format("e4m3"), 4, 64, 1))
    assert repr(plan) == "<Plan: gemv of 4 x 64 e4m3, x in fp16, result in fp32>"
    text = plan.explain()
    assert "gemv of 4 x 64 e4m3, x in fp16, result in fp32" in text
    assert "reads 256 bytes" in text


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda W: fk.prepare(np.zeros((2, 2))), TypeError, "W must be a PackedTensor"),
        (lambda W: fk.prepare(fr.pack_tensor(np.zeros(3), "e4m3")), ValueError, r"two axes, .* \(3,\)"),
        (lambda W: fk.prepare(W, mode="quick"), ValueError, "mode must be one of fast, ordered"),
        (lambda W: fk.prepare(W, x="int8"), TypeError, "x must be float16, bfloat16 or float32, got 'int8'"),
        (lambda W: fk.prepare(W, bias=np.zeros(2)), TypeError, "bias must be float32, got float64"),
        (lambda W: fk.prepare(W, bias=np.zeros(3, np.float32)), ValueError, "bias must have 2 elements"),
        (lambda W: fk.prepare(W)(np.zeros(8, np.float32)), TypeError, "x must be float16, as prepared, got float32"),
        (lambda W: fk.prepare(W)(np.zeros(7, np.float16)), ValueError, r"x must have shape \(8,\), got \(7,\)"),
        (lambda W: fk.prepare(W)(np.zeros((3, 8), np.float16)), ValueError, r"for columns, prepare\(W, columns=3\)"),
        (lambda W: fk.pack(np.zeros(8, "f2"), "e4m3", order="big"), TypeError, "order: kernels pack little alone"),
        (lambda W: fk.gemv(fk.prepare(W), np.zeros(8, np.float16), bias=np.zeros(2)), TypeError, "bias, dtype and"),
    ],
)
def test_bad_input_is_named(call: object, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(fr.pack_tensor(np.ones((2, 8)), "e4m3"))


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(
    ("cut", "text"),
    [
        ((1, 1, 4, 1, 1), "cut must be a Cut, got tuple"),
        (fk.Cut(rows=0), "cut: rows must be 1 or more, got 0"),
        (fk.Cut(splits=-1), "cut: splits must be 1 or more, got -1"),
        (fk.Cut(depth=0), "cut: depth must be 1 or more, got 0"),  # it would never end
        (fk.Cut(rows=1.0), "cut: rows must be an int, got float"),  # type: ignore[arg-type]
        (fk.Cut(splits=3), "cut: warps must be a multiple of splits, 3, up to 32; got 4"),
        (fk.Cut(warps=33), "cut: warps must be a multiple of splits, 1, up to 32; got 33"),
    ],
)
def test_a_cut_that_divides_nothing(cut: Any, text: str, columns: int) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        fk.prepare(fr.pack_tensor(np.ones((2, 8)), "e4m3"), cut=cut, columns=columns)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("words", None, "words must be an array, got NoneType"),
        ("words", [[1, 2]], "words must be an array, got list"),
        ("fmt", "e4m3", "fmt must be a Format or a BlockFormat, as get_format gives it, got str"),
        ("shape", 8, r"shape must be two ints, \(n, k\), got 8"),
        ("shape", (2.0, 8), r"shape must be two ints, \(n, k\), got \(2.0, 8\)"),
        ("shape", (2, -8), r"W must have two axes, \(n, k\), got shape \(2, -8\)"),
        ("finite", "no", "finite must be a bool, got str"),
        ("scales", np.zeros((2, 1), np.uint8), "scales: 'e4m3' has no blocks"),
        ("scale", [1.0, 2.0], "scale must be float32, got float64"),
    ],
)
def test_a_device_tensor_that_is_none(field: str, value: Any, text: str) -> None:
    W = fr.pack_tensor(np.ones((2, 8)), "e4m3")
    given = {"words": here(W.words), "shape": (2, 8), "fmt": W.fmt, field: value}
    with pytest.raises((TypeError, ValueError), match=text):
        fk.prepare(fk.DeviceTensor(**given))


@pytest.mark.skipif(not _target.SIMULATOR, reason="rows on the GPU are of CuPy or torch")
def test_rows_backwards_are_refused() -> None:
    W = fr.pack_tensor(np.ones((2, 8)), "e4m3")
    with pytest.raises(ValueError, match="words must be contiguous along k, and its rows in their order"):
        fk.prepare(fk.DeviceTensor(W.words[::-1], (2, 8), W.fmt))


@pytest.mark.parametrize("mode", fk.products.MODES)
def test_one_column_of_two_axes(mode: str) -> None:
    W, x = fr.pack_tensor(np.ones((2, 8)), "e4m3"), np.ones((1, 8), np.float16)
    assert fk.gemv(W, x, mode=mode).tolist() == [[8.0, 8.0]]
    with pytest.raises(ValueError, match=r"x must have a column or more, got shape \(0, 8\)"):
        fk.gemv(W, x[:0], mode=mode)


@pytest.mark.parametrize("given", [{"bias": np.ones(2, np.float32)}, {"dtype": "float16"}, {"mode": "ordered"}])
def test_a_plan_has_its_own_choices(given: dict[str, Any]) -> None:
    plan = fk.prepare(fr.pack_tensor(np.ones((2, 8)), "e4m3"))
    with pytest.raises(TypeError, match="bias, dtype and mode belong to prepare; W is a Plan"):
        fk.gemv(plan, np.ones(8, np.float16), **given)


@pytest.mark.skipif(not _target.SIMULATOR, reason="says what a GPU would")
def test_what_gemv_uploads_lives_on_the_stream_of_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is freed on another stream is used again while the launch still reads it; a graph always does."""
    entered: list[Any] = []

    @contextmanager
    def cupy_stream(at: Any) -> Iterator[None]:
        entered.append(at)
        yield
        entered.append("left")

    def prepare(*given: Any, **named: Any) -> Any:
        entered.append("made")
        return lambda x, out, stream: entered.append("run")

    monkeypatch.setattr(_target, "SIMULATOR", False)
    monkeypatch.setattr(arrays, "cupy_stream", cupy_stream)
    monkeypatch.setattr(products, "prepare", prepare)
    monkeypatch.setattr(gpu, "current_device", lambda: 0)
    monkeypatch.setattr(gpu, "current_stream", lambda device: 5)
    monkeypatch.setattr(gpu, "capturing", lambda: lambda stream: stream == 6)
    W: Any = None
    fk.gemv(W, np.ones(8, np.float16), stream=77)
    assert entered == [77, "made", "left", "run"]
    with pytest.raises(ValueError, match="it is captured"):
        fk.gemv(W, np.ones(8, np.float16), stream=6)
    monkeypatch.setattr(gpu, "current_stream", lambda device: 6)
    with pytest.raises(ValueError, match="it is captured"):
        fk.gemv(W, np.ones(8, np.float16))
    assert entered[4:] == []
