"""One way to launch, in the simulator or on the GPU, and what every call checks.

Source: design of this project.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from feather_kernels import _target, arrays, gpu, simulator
from feather_kernels.arrays import Given
from feather_kernels.launch import Job
from feather_ref import PackedTensor, pack_codes, unpack_codes

SIMULATED = 1 << 16


def run(job: Job, blocks: tuple[int, int], threads: int, arguments: tuple[Any, ...], stream: int | None) -> None:
    """Launch a kernel: on the GPU, or in the simulator."""
    if _target.SIMULATOR:
        simulator.launch(job.make(), blocks, threads, arguments)
        return
    gpu.launcher(job)(blocks, threads, arguments, stream)


def here(given: Given) -> Any:
    """A context in which the GPU that an array is on is the current one."""
    if _target.SIMULATOR:
        return nullcontext()
    return gpu.using(arrays.device_of(given.array))


def check_size(numbers: int) -> None:
    """Refuse what would take the simulator too long."""
    if _target.SIMULATOR and numbers > SIMULATED:
        raise ValueError(
            f"no GPU here, and the simulator takes at most {SIMULATED} numbers, not {numbers}: use feather_ref instead"
        )


def made(out: Any, given: Given, shape: tuple[int, ...], dtype: str, stream: int | None = None) -> Any:
    """The array to write to: the one that was handed in, or a new one; stream: of `arrays.named_stream`."""
    if out is None:
        return arrays.result(given, shape, dtype, stream)
    found = arrays.check_out(out, shape, dtype)
    check_apart(found, given.array)
    if not _target.SIMULATOR:
        check_devices(out=arrays.device_of(found), input=arrays.device_of(given.array))
    return found


def check_apart(out: Any, read: Any) -> None:
    """Refuse to write where another block still reads."""
    begin, other = arrays.address(out), arrays.address(read)
    if begin < other + int(read.nbytes) and other < begin + int(out.nbytes):
        raise ValueError("out shares memory with what is read")


def check_devices(**devices: int) -> None:
    """Refuse arrays on different GPUs: their names, and the number of the GPU of each; the last one is the rule.

    >>> check_devices(x=0, W=0)
    """
    *others, (owner, right) = devices.items()
    for name, device in others:
        if device != right:
            raise ValueError(f"{name} is on GPU {device}, and {owner} on GPU {right}")


def check_columns(columns: int) -> None:
    """Refuse what is no number of columns."""
    if not isinstance(columns, int) or isinstance(columns, bool):
        raise TypeError(f"columns must be an int, got {type(columns).__name__}")
    if columns < 1:
        raise ValueError(f"columns must be 1 or more, got {columns}")


def check_cut(cut: Any, kind: Any) -> None:
    """Refuse what divides no work: a `kind`, Cut, has whole numbers from 1 on, and whole groups of warps."""
    if not isinstance(cut, kind):
        raise TypeError(f"cut must be a {kind.__name__}, got {type(cut).__name__}")
    for name, count in cut._asdict().items():
        if not isinstance(count, int) or isinstance(count, bool):
            raise TypeError(f"cut: {name} must be an int, got {type(count).__name__}")
        if count < 1:
            raise ValueError(f"cut: {name} must be 1 or more, got {count}")
    if cut.warps > 32 or cut.warps % cut.splits:
        raise ValueError(f"cut: warps must be a multiple of splits, {cut.splits}, up to 32; got {cut.warps}")


def little(packed: PackedTensor) -> Any:
    """The words, with their lanes in the order that kernels read: packed again on the host where it is another."""
    if packed.order == "little":
        return packed.words
    width = packed.fmt.storage_bits
    return pack_codes(unpack_codes(packed, width, strict=False), width)
