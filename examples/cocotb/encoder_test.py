"""A cocotb test of verilog/e4m3_encode.v: both ends and the middle of every run of the golden vectors, and infinity.

run.py starts it; cocotb calls the function.
"""

import os

import cocotb
from cocotb.triggers import Timer

from feather_ref import golden


def verdict(got, z, j):
    """Whether a code is right; `got` is None where a bit is unknown."""
    if j == 0:
        return True
    if got is None:
        return False
    return {1: got == z, 2: got & 0x7F == 0x7F, 3: got in (z, z + 1)}[j]


@cocotb.test()
async def every_run(dut):
    wrong = []
    for lo, hi, z, j in zip(*(column.tolist() for column in golden.load_runs(os.environ["VECTOR"])), strict=True):
        infinities = [x for x in (0x7F800000, 0xFF800000) if lo <= x <= hi]  # an encoder has a path of its own
        for x in (lo, (lo + hi) // 2, hi, *infinities):
            getattr(dut, "in").value = x  # `in` is a word of Python
            await Timer(1, "step")
            got = int(dut.out.value) if dut.out.value.is_resolvable else None
            if not verdict(got, z, j):
                wrong.append(f"in={x:08X} got={dut.out.value} want={z:08b}")
    assert not wrong, f"{len(wrong)} wrong, the first: {wrong[0]}"
