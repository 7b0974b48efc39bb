"""The short way of a call that was seen before: the same library, dtype, shape, device and alignment.

A plan writes two addresses and launches.  What is not exactly as before is answered with None, and
goes the long way, which says what is wrong or makes it right; nothing is refused here.  A test is
one attribute of an array::

    x        dtype, shape, contiguous, sign, address on 16 bytes, GPU, which is the current one
    out      None, or type, dtype, shape, contiguous, GPU; and not over x
    stream   None is the library's current one; a named one only where nothing is allocated

Source: design of this project; CuPy 14 and torch 2 for the attributes and what they cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from feather_kernels import arrays, driver
from feather_kernels.gpu import Fixed

Quick = Callable[[Any, Any, Any], Any]


def make(x: Any, y_shape: tuple[int, ...], y_name: str, fixed: Fixed) -> Quick | None:
    """call(x, out, stream) for arrays like x: the result, or None where the long way must be gone.

    y_shape, y_name: the shape of the result and the name of its dtype.  fixed: the kernel, ready.
    Returns None where a later array of the same type may be on the GPU, and this one is not.
    """
    if arrays.is_cupy(x) and type(x).__name__ == "ndarray" and hasattr(x, "_c_contiguous"):  # not in its documentation
        return _for_cupy(x, y_shape, y_name, fixed)
    if arrays.is_torch(x) and type(x).__name__ == "Tensor":
        return _for_torch(x, y_shape, y_name, fixed) if x.is_cuda else None
    return _never


def _never(x: Any, out: Any, stream: Any) -> None:
    """No array of this type goes the short way."""


def _for_cupy(seen: Any, y_shape: tuple[int, ...], y_name: str, fixed: Fixed) -> Quick:
    cupy = driver.cupy()
    ndarray, x_dtype, y_dtype = cupy.ndarray, seen.dtype, np.dtype("uint16" if y_name == "bfloat16" else y_name)
    x_size, y_size, axes, current_stream = seen.size, math.prod(y_shape), seen.ndim, cupy.cuda.get_current_stream
    x_bytes, y_bytes = x_size * x_dtype.itemsize, y_size * y_dtype.itemsize
    local, new_block, workspace, device = fixed.local, fixed.new_block, fixed.workspace, fixed.device

    def call(x: Any, out: Any, stream: Any) -> Any:
        if x.dtype is not x_dtype or x.size != x_size or x.ndim != axes or not x._c_contiguous:
            return None
        address = x.data.ptr
        if address & 15:
            return None
        if out is None:
            if stream is not None:
                return None
            out = ndarray(y_shape, y_dtype)
        elif (
            type(out) is not ndarray
            or out.dtype is not y_dtype
            or out.size != y_size
            or out.ndim != axes
            or not out._c_contiguous
        ):
            return None
        result = out.data.ptr
        if result < address + x_bytes and address < result + y_bytes:
            return None
        at = current_stream(device).ptr if stream is None else arrays.stream_address(stream)
        try:
            values, pointers, send = local.block
        except AttributeError:
            values, pointers, send = new_block()
        values[0] = address
        values[1] = result
        if workspace is not None:
            words = workspace(at)  # held until it is launched
            values[2] = words.address
        send(at, pointers, 0)
        return out

    x_shape, current_device = seen.shape, cupy.cuda.runtime.getDevice

    def careful(x: Any, out: Any, stream: Any) -> Any:
        """Where one size may be of several shapes, or there are several GPUs."""
        if x.shape != x_shape or x.data.device_id != device or current_device() != device:
            return None
        if type(out) is ndarray and (out.shape != y_shape or out.data.device_id != device):
            return None
        return call(x, out, stream)

    return careful if axes > 1 or cupy.cuda.runtime.getDeviceCount() > 1 else call


def _for_torch(seen: Any, y_shape: tuple[int, ...], y_name: str, fixed: Fixed) -> Quick:
    import torch

    cupy = driver.cupy()
    tensor, x_shape, x_dtype, y_dtype = torch.Tensor, seen.shape, seen.dtype, getattr(torch, y_name)
    place, empty, strides = seen.device, torch.empty_strided, _strides(y_shape)
    current_stream = arrays.torch_stream()
    x_bytes, y_bytes = math.prod(x_shape) * x_dtype.itemsize, math.prod(y_shape) * y_dtype.itemsize
    local, new_block, workspace, device = fixed.local, fixed.new_block, fixed.workspace, fixed.device
    several, current_device = cupy.cuda.runtime.getDeviceCount() > 1, cupy.cuda.runtime.getDevice

    def call(x: Any, out: Any, stream: Any) -> Any:
        if x.dtype is not x_dtype or x.shape != x_shape or x.get_device() != device or not x.is_contiguous():
            return None
        address = x.data_ptr()
        if x.is_neg() or address & 15 or (several and current_device() != device):
            return None
        if out is None:
            if stream is not None:
                return None
            out = empty(y_shape, strides, dtype=y_dtype, device=place)
        elif (
            type(out) is not tensor
            or out.dtype is not y_dtype
            or out.shape != y_shape
            or out.get_device() != device
            or not out.is_contiguous()
        ):
            return None
        result = out.data_ptr()
        if result < address + x_bytes and address < result + y_bytes:
            return None
        at = current_stream(device) if stream is None else arrays.stream_address(stream)
        try:
            values, pointers, send = local.block
        except AttributeError:
            values, pointers, send = new_block()
        values[0] = address
        values[1] = result
        if workspace is not None:
            words = workspace(at)  # held until it is launched
            values[2] = words.address
        send(at, pointers, 0)
        return out

    return call


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Of a contiguous array, in elements.

    >>> _strides((2, 3, 4)), _strides((5,))
    ((12, 4, 1), (1,))
    """
    found = [1]
    for count in shape[:0:-1]:
        found.append(found[-1] * count)
    return tuple(found[::-1])
