"""Arrays of NumPy, CuPy, torch, and of whoever speaks DLPack or __cuda_array_interface__.

A kernel needs an address, a shape and the name of a dtype; results are made where x came from.
Device memory is never copied here; host memory goes up, and comes back, where a GPU is the target.

Source: DLPack 1.0; Numba documentation, CUDA Array Interface version 3.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from feather_kernels import _target, driver

NUMBERS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
DTYPES = {row: name for name, row in NUMBERS.items()}
_WIDE = {1: "uint8", 2: "uint16", 4: "uint32"}


class Given(NamedTuple):
    """An array that was handed in: the array on the target, and how to hand a result back.

    array: contiguous along its last axis.  name: of the dtype.  home: "numpy", "torch on the host", "cupy",
    "torch".  lent: the memory is the caller's own, and not a copy that was made on the current stream.
    """

    array: Any
    name: str
    home: str
    lent: bool = True

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
        if x.is_cuda and not _target.SIMULATOR:  # torch may note a sign beside the memory, where it lies otherwise
            return Given(x.resolve_neg().contiguous(), dtype_name(x), "torch", x.is_contiguous() and not x.is_neg())
        if x.is_cuda:
            raise ValueError(f"{name} is on a GPU, and the kernels run in the simulator (FEATHER_TARGET)")
        return take(_torch_to_numpy(x), name)._replace(home="torch on the host")
    if not isinstance(x, np.ndarray) and (hasattr(x, "__cuda_array_interface__") or _on_gpu(x)):
        return _take_device(x, name)
    array = _host_array(x, name)
    if array.dtype.kind not in "fuiV" or (array.dtype.kind == "V" and array.dtype.name not in NUMBERS):
        raise TypeError(f"{name}: no kernel takes dtype {array.dtype}")
    kind = array.dtype.name
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    array = np.ascontiguousarray(array).reshape(array.shape)
    bits = array.view(_WIDE[array.itemsize]) if kind == "bfloat16" else array
    return Given(upload(bits), kind, "numpy", _target.SIMULATOR)


def _host_array(x: Any, name: str) -> Any:
    """x as NumPy's, without a copy where it speaks DLPack."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array; fill it first, for its mask would be lost")
    if not hasattr(x, "__dlpack__") or hasattr(x, "__array__") or hasattr(x, "__array_interface__"):
        return np.asarray(x)
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError) as error:  # a dtype or a device that NumPy does not know
        raise TypeError(f"{name}: NumPy does not take it by DLPack: {error}") from error


def _on_gpu(x: Any) -> bool:
    return hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] in (2, 13)  # CUDA, CUDA managed


def _take_device(x: Any, name: str) -> Given:
    if _target.SIMULATOR:
        raise ValueError(f"{name} is on a GPU, and the kernels run in the simulator (FEATHER_TARGET)")
    cupy = driver.cupy()

    array = x if isinstance(x, cupy.ndarray) else cupy.from_dlpack(x) if _on_gpu(x) else cupy.asarray(x)
    lent = array.flags.c_contiguous
    return Given(array if lent else cupy.ascontiguousarray(array), dtype_name(array), "cupy", lent)


def _torch_to_numpy(x: Any) -> Any:
    """A host tensor as NumPy; bfloat16 by its bits, under its own name where NumPy knows it."""
    x = x.detach().resolve_neg().contiguous()
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
    return driver.cupy().asarray(array)


def wait_for_uploads() -> None:
    """Wait until what was uploaded, and computed of it, is there for every stream: CuPy's current one had it."""
    driver.cupy().cuda.get_current_stream().synchronize()


def empty(shape: tuple[int, ...], dtype: str) -> Any:
    """New memory on the target."""
    if _target.SIMULATOR:
        return np.empty(shape, dtype)
    return driver.cupy().empty(shape, dtype)


def result(given: Given, shape: tuple[int, ...], dtype: str, stream: int | None = None) -> Any:
    """New memory for a result, of the library that `given` is from; bfloat16 only where it has it.

    stream: the one that a caller named, so that the library hands out what that stream may write to.
    """
    with _on_stream(given, stream):
        if given.home == "torch":
            import torch

            return torch.empty(shape, dtype=getattr(torch, dtype), device=given.array.device)
        return empty(shape, "uint16" if dtype == "bfloat16" else dtype)


def _on_stream(given: Given, stream: int | None) -> Any:
    if stream is None or _target.SIMULATOR:
        return nullcontext()
    if given.home == "torch":
        import torch

        return torch.cuda.stream(torch.cuda.ExternalStream(stream, given.array.device))
    return cupy_stream(stream)


def cupy_stream(address: int | None) -> Any:
    """A context in which CuPy works on the stream at an address; None is its current one."""
    if address is None or _target.SIMULATOR:
        return nullcontext()
    streams = driver.cupy().cuda.Stream
    return streams.null if address == 0 else streams.from_external(_Address(address))


class _Address:
    """The address of a stream, in the words of CUDA's stream protocol."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address


def give(given: Given, array: Any) -> Any:
    """A result where `given` came from."""
    if given.home in ("cupy", "torch"):
        return array
    host = array if isinstance(array, np.ndarray) else array.get()
    if given.home == "torch on the host":
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
    if not (hasattr(out, "dtype") and hasattr(out, "flags")) and not is_torch(out):
        raise TypeError(f"out must be an array of NumPy, CuPy or torch, got {type(out).__name__}")
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
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out is read-only")
    return out.detach().numpy() if host and is_torch(out) else out


def named_stream(stream: Any, given: Given, name: str) -> int | None:
    """The address of the stream that a caller named; None where none was.

    Raises TypeError for what is no stream, and ValueError where `given` was copied to the GPU, or there, behind it.
    """
    if stream is None:
        return None
    found = stream_address(stream)
    if not given.lent:
        raise ValueError(f"stream: {name} must be on the GPU and contiguous, since a copy is made on another stream")
    return found


def stream_address(stream: Any) -> int:
    """The address of a stream of CuPy, torch, Numba or cuda.core.

    Raises TypeError for what is no stream.
    """
    for field in ("ptr", "cuda_stream"):
        if hasattr(stream, field):
            return int(getattr(stream, field))
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    if hasattr(stream, "handle"):  # Numba's
        return int(getattr(stream.handle, "value", stream.handle) or 0)
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    raise TypeError(f"stream must be a stream of CuPy, torch or cuda.core, or its address; got {type(stream).__name__}")


def stream_of(stream: Any, given: Given, name: str = "x") -> int | None:
    """The address of the stream to launch on; None is CuPy's current one.  torch's tensors take torch's current one."""
    named = named_stream(stream, given, name)
    if named is not None or given.home != "torch":
        return named
    return torch_stream()(device_of(given.array))


@cache
def torch_stream() -> Callable[[int], int]:
    """The function that gives the address of torch's current stream on a GPU; the quickest that torch has."""
    import torch

    raw: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return raw or (lambda device: int(torch.cuda.current_stream(device).cuda_stream))


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
