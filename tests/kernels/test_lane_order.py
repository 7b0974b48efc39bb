"""Words whose lanes enter from the top: kernels read them as they read the others."""

from dataclasses import replace

import numpy as np
import pytest

import feather_kernels as fk
import feather_ref as fr
from kernel_inputs import packed_codes, same_bits, some_codes


def both_orders(name: str, shape: tuple[int, int]) -> tuple[fr.PackedTensor, fr.PackedTensor]:
    """Random codes, little and big; in "big" the bits past a row's end, which mean nothing, are ones."""
    row = fr.get_format(name)
    codes = np.random.default_rng(1).choice(some_codes(row), shape).astype(fr.code_dtype(row))
    little = packed_codes(codes, row)
    words = fr.pack_codes(codes.astype(np.uint32) << np.uint32(row.storage_shift), row.storage_bits, "big")
    words[:, -1] |= np.uint32((1 << -shape[1] * row.storage_bits % 32) - 1)
    return little, replace(little, words=words, order="big")


@pytest.mark.parametrize("name", ["e4m3", "e2m1", "e3m2", "fp16", "int4", "fp32"])
def test_prepare_and_unpack_take_either_order(name: str) -> None:
    little, big = both_orders(name, (3, 75))
    x = np.random.default_rng(2).standard_normal(75).astype(np.float16)
    assert name == "fp32" or not np.array_equal(little.words, big.words)
    assert same_bits(fk.unpack(big), fk.unpack(little))
    assert same_bits(fk.gemv(big, x), fk.gemv(little, x))
    assert same_bits(fk.unpack(big), fr.unpack(big, strict=False))
