"""Four at a time: the short ways are the codec's, what is in doubt is noticed, and every rounding is there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import _target
from feather_kernels.encoders import make_encoder
from feather_kernels.quads import make_numbers, make_quad
from feather_ref.policy import Policy, resolve
from feather_ref.rounding import DETERMINISTIC
from kernel_inputs import ROWS, deciding_numbers, in_turn, same_bits, some_rows

SHORT = (
    "e4m3",
    "e5m2",
    "e3m2",
    "e2m3",
    "e2m1",
    "fp16",
    "bf16",
    "tf32",
    "fp32",
    "e4m3ieee",
    "e3m4",
    "int8",
    "int4",
    "mxint8",
)
simulated = pytest.mark.skipif(not _target.SIMULATOR, reason="device functions are called as they are")


def policies(row: fr.Format) -> list[Policy]:
    nan = "canonical" if row.has_nan else "max"
    choices = [{"overflow": name} for name in ("saturate", "nonsaturating", "propagate")]
    choices += [{"overflow": "ocp_table3"}] if row.has_nan or row.has_inf else []
    return [resolve(row, nan=nan, negative=None if row.signed else "abs", **choice) for choice in choices]


def lanes_of(policy: Policy, x: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The lanes of four numbers each as codes, and which four are in doubt."""
    quad = make_quad(policy, width, 0)
    words = np.zeros((len(x) // 4, 4), np.uint32)
    bits = x.view(np.uint32).reshape(-1, 4)
    with np.errstate(all="ignore"):
        doubt = np.array([int(quad.doubt(*four)) for four in bits])
        for four, into in zip(bits, words, strict=True):
            quad.lanes(*four, into)
    count = 4 * width // 32 or 1
    codes = fr.unpack_codes(np.ascontiguousarray(words[:, :count]), width, 4)
    return codes, np.repeat(doubt != 0, 4).reshape(-1, 4)


@simulated
@pytest.mark.parametrize("name", SHORT)
def test_few_instructions_are_the_codec(name: str) -> None:
    row = fr.get_format(name)
    x = deciding_numbers(row)
    x = np.resize(x, -(-len(x) // 4) * 4)
    width = 8 * fr.code_dtype(row).itemsize
    short = 0
    for policy in policies(row):
        if not make_quad(policy, width, 0).short:
            continue
        short += 1
        codes, doubt = lanes_of(policy, x, width)
        wanted = fr.encode(x, row, overflow=policy.overflow, nan=policy.nan).reshape(-1, 4)
        assert (codes[~doubt] == wanted[~doubt]).all()
        assert (doubt == np.isnan(x.reshape(-1, 4)).any(axis=1, keepdims=True)).all()  # NaN, and nothing else
    assert short


@simulated
@settings(max_examples=60)
@given(st.sampled_from(ROWS), st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4), st.integers(0, 3))
def test_any_row_and_policy_is_right_or_in_doubt(row: fr.Format, bits: list[int], choice: int) -> None:
    every = policies(row)
    policy = every[choice % len(every)]
    x = np.array(bits, np.uint32)
    try:
        code_of = make_encoder(policy)
    except ValueError:  # no kernel has this row
        return
    codes, doubt = lanes_of(policy, x.view(np.float32), 8 * fr.code_dtype(row).itemsize)
    with np.errstate(all="ignore"):
        one_by_one = np.array([int(code_of(word)) for word in x])
    assert doubt.all() or (codes[0] == one_by_one).all()


@simulated
@pytest.mark.parametrize(
    "name", ["e4m3", "e5m2", "e4m3fnuz", "e4m3ieee", "ue4m3", "e8m0", "fp16", "bf16", "tf32", "fp32"]
)
def test_doubt_about_codes_is_about_inf_and_nan(name: str) -> None:
    row = fr.get_format(name)
    numbers = make_numbers(row, row.storage_bits, row.storage_shift)
    special = [row.max_magnitude, row.max_magnitude + 1, row.inf_magnitude or 0, row.canonical_nan or 0, row.code_mask]
    every = range(1 << row.bits) if row.bits <= 8 else [code & row.code_mask for code in special]
    for code in every:
        lanes = np.array([1, code, 0, row.max_magnitude], np.uint32)
        words = fr.pack_codes(lanes << np.uint32(row.storage_shift), row.storage_bits)
        with np.errstate(all="ignore"):
            doubt, got = int(numbers.doubt(words, 0)), numbers.four(words, 0)
        value = fr.decode(lanes.astype(fr.code_dtype(row)), row)
        assert doubt or same_bits(np.array(got, np.float32), value), hex(code)
        assert not doubt or not np.isfinite(value).all(), hex(code)


@pytest.mark.parametrize(
    ("fmt", "n"),
    [("e4m3", 1101), ("e3m2", 4097), ("e3m2", 1101), ("e2m1", 1102), ("fp16", 1101), ("tf32", 1101), ("uf11", 1101)],
)
def test_nan_among_many_numbers(fmt: str, n: int) -> None:
    """Quads in doubt are written a second time, and their neighbours stay."""
    row = fr.get_format(fmt)
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    x[[0, 5, 1027, n - 1]] = np.nan
    choice = {"nan": None if row.has_nan else "max", "negative": None if row.signed else "abs"}
    assert same_bits(fk.pack(x, row, **choice), fr.pack(x, row, **choice))
    assert same_bits(fk.encode(x, row, **choice), fr.encode(x, row, **choice))
    words = fr.pack(x, row, **choice)
    assert same_bits(fk.unpack(words, row, n), fr.unpack(words, row, n))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_numbers_out_of_a_scale_are_rounded_once(dtype: str) -> None:
    codes = np.arange(256, dtype=np.uint8).reshape(4, 64)
    scale = np.array([1.1, 3e-7, 1e38, 70000], np.float32).reshape(4, 1)
    packed = fr.PackedTensor(fr.pack_codes(codes.astype(np.uint32), 8), scale, (4, 64), fr.get_format("e5m2"))
    got = fk.unpack(packed, dtype=dtype).view(np.uint16)
    with np.errstate(all="ignore"):
        product = fr.decode(codes, "e5m2") * scale
        wanted = fr.encode(product, "fp16" if dtype == "float16" else "bf16").view(np.uint16)
    assert same_bits(got, wanted)


@pytest.mark.parametrize(
    ("row", "i"),
    [
        (row, i)
        for row in some_rows(row for row in ROWS if row.kind != "table" and row.name != "binary8p1ue")
        for i in in_turn(range(len(DETERMINISTIC)), row)
    ],
    ids=str,
)
def test_every_rounding_is_the_codec_s(row: fr.Format, i: int) -> None:
    x = deciding_numbers(row)
    ends = [x[:20], x[:: max(1, len(x) // 100)], x[-20:]]
    sample = np.unique(np.concatenate(ends).view(np.uint32)).view(np.float32)
    choice = {
        "rounding": DETERMINISTIC[i], "overflow": ("saturate", "nonsaturating")[i % 2],
        "nan": None if row.has_nan else "max", "negative": None if row.signed else "abs",
    }  # fmt: skip
    assert same_bits(fk.encode(sample, row, **choice), fr.encode(sample, row, **choice)), DETERMINISTIC[i]


def test_a_row_near_the_end_of_float32_goes_the_long_way() -> None:
    """The number that rounds its greatest values would be Inf."""
    row = fr.minifloat(7, 4, bias=10)
    assert not make_quad(resolve(row), 16, 0).short
    x = np.ldexp(np.float32([1.03125, 1.09375, 1.96875, 1.984375]), 116).astype(np.float32)
    assert same_bits(fk.encode(x, row), fr.encode(x, row))
