"""One way to launch, in the simulator or on the GPU, and what every call checks.

Source: design of this project.
"""

from __future__ import annotations

from typing import Any

from feather_kernels import _target, arrays, simulator
from feather_kernels.arrays import Given
from feather_kernels.launch import Job
from feather_ref import PackedTensor

SIMULATED = 1 << 16


def run(job: Job, blocks: tuple[int, int], threads: int, arguments: tuple[Any, ...], stream: int | None) -> None:
    """Launch a kernel: on the GPU, or in the simulator."""
    if _target.SIMULATOR:
        simulator.launch(job.make(), blocks, threads, arguments)
        return
    from feather_kernels import gpu

    gpu.launcher(job)(blocks, threads, arguments, stream)


def check_size(numbers: int) -> None:
    """Refuse what would take the simulator too long."""
    if _target.SIMULATOR and numbers > SIMULATED:
        raise ValueError(
            f"no GPU here, and the simulator takes at most {SIMULATED} numbers, not {numbers}: use feather_ref instead"
        )


def made(out: Any, given: Given, shape: tuple[int, ...], dtype: str) -> Any:
    """The array to write to: the one that was handed in, or a new one."""
    return arrays.result(given, shape, dtype) if out is None else arrays.check_out(out, shape, dtype)


def check_order(packed: PackedTensor) -> None:
    """Refuse an order of lanes that no kernel reads."""
    if packed.order != "little":
        raise ValueError("W has order 'big', and kernels read 'little': pack it again, from W.codes()")
