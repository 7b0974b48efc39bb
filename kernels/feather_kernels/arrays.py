"""Arrays of NumPy, CuPy, torch, and of whoever speaks DLPack or __cuda_array_interface__.

A kernel needs an address, a shape and the name of a dtype; results are made where x came from.
Device memory is never copied here; host memory goes up, and comes back, where a GPU is the target.

Source: DLPack 1.0; Numba documentation, CUDA Array Interface version 3.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from feather_kernels import _target

NUMBERS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
DTYPES = {row: name for name, row in NUMBERS.items()}
_WIDE = {1: "uint8", 2: "uint16", 4: "uint32"}


class Given(NamedTuple):
    """An array that was handed in: the array on the target, and how to hand a result back.

    array: contiguous along its last axis.  name: of the dtype.  home: "numpy", "cupy", "torch".
    """

    array: Any
    name: str
    home: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.array.shape)

    @property
    def address(self) -> int:
        """Where it begins."""
        return address(self.array)


def is_torch(x: object) -> bool:
    """Whether x is a tensor of torch, which need not be installed."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_cupy(x: object) -> bool:
    """Whether x is an array of CuPy, which need not be installed."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(x, cupy.ndarray)


def dtype_name(x: Any) -> str:
    """The name of a dtype, without its library."""
    return _name(x.dtype)


@cache
def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def device_of(array: Any) -> int:
    """The number of the GPU that an array is on."""
    return int(array.get_device() if is_torch(array) else array.data.device_id)


def address(array: Any) -> int:
    """Where an array begins, on its device."""
    if is_torch(array):
        return int(array.data_ptr())
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


def take(x: Any, name: str) -> Given:
    """x where the kernels can read it.

    Raises TypeError or ValueError naming the argument.
    """
    if is_cupy(x) and not _target.SIMULATOR and x.flags.c_contiguous:
        return Given(x, dtype_name(x), "cupy")
    if is_torch(x):
        if x.is_cuda and not _target.SIMULATOR:
            return Given(x.contiguous(), dtype_name(x), "torch")
        if x.is_cuda:
            raise ValueError(f"{name} is on a GPU, and the kernels run in the simulator (FEATHER_TARGET)")
        return take(_torch_to_numpy(x), name)._replace(home="torch")
    if not isinstance(x, np.ndarray) and (hasattr(x, "__cuda_array_interface__") or _on_gpu(x)):
        return _take_device(x, name)
    array = np.asarray(x)
    if array.dtype.kind not in "fuiV" or (array.dtype.kind == "V" and array.dtype.name not in NUMBERS):
        raise TypeError(f"{name}: no kernel takes dtype {array.dtype}")
    kind = array.dtype.name
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    array = np.ascontiguousarray(array).reshape(array.shape)
    bits = array.view(_WIDE[array.itemsize]) if kind == "bfloat16" else array
    return Given(upload(bits), kind, "numpy")


def _on_gpu(x: Any) -> bool:
    return hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] in (2, 13)  # CUDA, CUDA managed


def _take_device(x: Any, name: str) -> Given:
    if _target.SIMULATOR:
        raise ValueError(f"{name} is on a GPU, and the kernels run in the simulator (FEATHER_TARGET)")
    import cupy

    array = x if isinstance(x, cupy.ndarray) else cupy.from_dlpack(x) if _on_gpu(x) else cupy.asarray(x)
    return Given(array if array.flags.c_contiguous else cupy.ascontiguousarray(array), dtype_name(array), "cupy")


def _torch_to_numpy(x: Any) -> Any:
    """A host tensor as NumPy; bfloat16 by its bits, under its own name where NumPy knows it."""
    x = x.detach().contiguous()
    if dtype_name(x) != "bfloat16":
        return x.numpy()
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        raise TypeError("x: a bfloat16 tensor on the host needs ml_dtypes; or move it to the GPU") from None
    import torch

    return x.view(torch.int16).numpy().view(bfloat16)


# --- making and moving ------------------------------------------------------------------------


def upload(array: Any) -> Any:
    """A host array on the target."""
    if _target.SIMULATOR:
        return array
    import cupy

    return cupy.asarray(array)


def empty(shape: tuple[int, ...], dtype: str) -> Any:
    """New memory on the target."""
    if _target.SIMULATOR:
        return np.empty(shape, dtype)
    import cupy

    return cupy.empty(shape, dtype)


def result(given: Given, shape: tuple[int, ...], dtype: str) -> Any:
    """New memory for a result, of the library that `given` is from; bfloat16 only where it has it."""
    if given.home == "torch" and not _target.SIMULATOR:
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype), device=given.array.device)
    return empty(shape, "uint16" if dtype == "bfloat16" else dtype)


def give(given: Given, array: Any) -> Any:
    """A result where `given` came from."""
    if given.home == "cupy" or (given.home == "torch" and not _target.SIMULATOR):
        return array
    host = array if isinstance(array, np.ndarray) else array.get()
    if given.home == "torch":
        import torch

        return torch.from_numpy(host)
    return host


def host(given: Given) -> Any:
    """The numbers of an array on the host, for the reference: bfloat16 as float32."""
    array = given.array
    if is_torch(array):
        import torch

        bits = array.view(torch.int16) if given.name == "bfloat16" else array
        array = bits.cpu().numpy()
    elif not isinstance(array, np.ndarray):
        array = array.get()
    if given.name == "bfloat16":
        return (array.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array


def check_out(out: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """The memory that a caller offers for a result.

    Raises TypeError or ValueError naming `out`.
    """
    if dtype_name(out) not in (dtype, "uint16" if dtype == "bfloat16" else dtype):
        raise TypeError(f"out must have dtype {dtype}, got {dtype_name(out)}")
    if tuple(out.shape) != shape:
        raise ValueError(f"out must have shape {shape}, got {tuple(out.shape)}")
    contiguous = out.is_contiguous() if is_torch(out) else out.flags.c_contiguous
    if not contiguous:
        raise ValueError("out must be contiguous")
    host = isinstance(out, np.ndarray) or (is_torch(out) and not out.is_cuda)
    if host != _target.SIMULATOR:
        place = "host, since the kernels run in the simulator" if _target.SIMULATOR else "GPU"
        raise ValueError(f"out must be on the {place}")
    return out.detach().numpy() if host and is_torch(out) else out


def stream_of(stream: Any, given: Given) -> int | None:
    """The address of the stream to launch on; None is CuPy's current one.  torch's tensors take torch's current one."""
    if stream is None:
        if given.home != "torch" or _target.SIMULATOR:
            return None
        import torch

        return int(torch.cuda.current_stream(given.array.device).cuda_stream)
    for field in ("ptr", "cuda_stream"):
        if hasattr(stream, field):
            return int(getattr(stream, field))
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    raise TypeError(f"stream must be a stream of CuPy or torch, or its address; got {type(stream).__name__}")


def pointers(array: Any, kinds: tuple[str, ...]) -> tuple[Any, ...]:
    """An array, or nothing, as arguments of these kinds: its address, or in the simulator views of its memory."""
    if not _target.SIMULATOR:
        return (0 if array is None else address(array),) * len(kinds)
    if array is None:  # the kernel does not look at it
        return tuple(np.empty(0, _KINDS[kind]) for kind in kinds)
    return tuple(_view(array, _KINDS[kind]) for kind in kinds)


_KINDS: dict[str, Any] = {"u8*": np.uint8, "u16*": np.uint16, "u32*": np.uint32, "f32*": np.float32}


def _view(array: Any, dtype: Any) -> Any:
    """The memory from an array's first byte to its last, whatever lies between its rows."""
    if array.size == 0:
        return np.empty(0, dtype)
    last = sum((count - 1) * step for count, step in zip(array.shape, array.strides, strict=True))
    flat = np.lib.stride_tricks.as_strided(array, (last // array.itemsize + 1,), (array.itemsize,)).view(np.uint8)
    size = np.dtype(dtype).itemsize
    return flat[: len(flat) // size * size].view(dtype)
