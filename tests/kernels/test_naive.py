"""The first rung of the ladder is right too: serial sums in the order of k."""

import numpy as np
import pytest

import feather_ref as fr
from feather_kernels import _target, naive
from feather_kernels.calls import run
from feather_ref import ops
from kernel_inputs import packed_codes, same_bits, some_codes


@pytest.mark.skipif(not _target.SIMULATOR, reason="arrays of the host")
@pytest.mark.parametrize("name", ["e4m3", "e5m2", "int8"])
def test_serial_sums(name: str) -> None:
    row = fr.get_format(name)
    rng = np.random.default_rng(1)
    W = packed_codes(rng.choice(some_codes(row), (5, 76)).astype(fr.code_dtype(row)), row)
    x, y = rng.standard_normal(76).astype(np.float16), np.full(5, np.nan, np.float32)
    arguments = W.words.reshape(-1).view(np.uint8), x.view(np.uint16), y, 5, 76, 76
    run(naive.naive_job(row), (1, 1), naive.THREADS, arguments, None)
    wanted = ops.replay(W, x, naive.ORDER)
    assert (np.isnan(y) == np.isnan(wanted)).all()
    assert same_bits(np.nan_to_num(y, nan=7), np.nan_to_num(wanted, nan=7))


def test_bytes_only() -> None:
    with pytest.raises(ValueError, match="'e3m2' does not have 8 bits"):
        naive.naive_job(fr.get_format("e3m2"))
