"""Products of packed numbers: exact, bounded, and in the order of a kernel.

======================  ========================================================================
`dot gemv matmul`       the exact sum, rounded once
`error_bound`           how far a kernel may be from it, under named assumptions
`Order`, `replay`       the result of a kernel whose order is stated, bit for bit
`fma32 add32 mul32`     the float32 operations that such a kernel is made of
======================  ========================================================================

W is (n, k), packed along k: gemv(W, x[k]) -> (n,), matmul(x[m, k], W) -> (m, n) = x @ W.T.

Source: design of this project; IEEE 754-2019, 5.4.1, for the operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from feather_ref import _fma
from feather_ref._bound import TensorCore, error_bound
from feather_ref._exact import exact_products
from feather_ref._operands import Operand, check_bias, check_float32, check_shapes, dequantized, operand
from feather_ref._order import Order
from feather_ref._replay import as_numbers, replay
from feather_ref._sweep import Array
from feather_ref.formats import Format, get_format
from feather_ref.policy import Policies, resolve
from feather_ref.rounding import STOCHASTIC

__all__ = [
    "Order",
    "TensorCore",
    "add32",
    "dot",
    "error_bound",
    "fma32",
    "gemm",
    "gemv",
    "matmul",
    "mul32",
    "replay",
]


def dot(a: object, b: object, out: str | Format = "fp32", **policies: Unpack[Policies]) -> Any:
    """The exact sum of a[i] * b[i], rounded once.

    a, b: (k,) numbers up to float64, or packed.  out, policies: the result's format, and how `encode`
    rounds to it: float32 for "fp32", float16 for "fp16", else a code.  An exact zero is +0.

    >>> float(dot([2.0**100, 1.0, -(2.0**100)], [1.0, 2.0**-149, 1.0])).hex()
    '0x1.0000000000000p-149'

    Raises TypeError or ValueError naming the argument.
    """
    operands = operand(a, "a"), operand(b, "b")
    for x in operands:
        if len(x.shape) != 1:
            raise ValueError(f"{x.name} must have shape (k,), got {x.shape}")
    if operands[0].shape != operands[1].shape:
        raise ValueError(f"a of shape {operands[0].shape} and b of shape {operands[1].shape} differ in k")
    return _exact(operands[0].matrix(), operands[1], None, out, policies)[0]


def gemv(
    W: object,  # noqa: N803 - the name of a matrix
    x: object,
    bias: object = None,
    out: str | Format = "fp32",
    **policies: Unpack[Policies],
) -> Array:
    """The exact W @ x + bias, each sum rounded once.

    W: (n, k), x: (k,): numbers up to float64, or packed.  bias: (n,), likewise.  out, policies:
    as for `dot`.  Returns (n,).

    >>> from feather_ref import pack_tensor
    >>> [float(y).hex() for y in gemv(pack_tensor([[0.5, 2.0], [448.0, -448.0]], "e4m3"), [1.0, 2.0**-24])]
    ['0x1.0000040000000p-1', '0x1.bffffe0000000p+8']
    """
    matrix, vector = operand(W, "W"), operand(x, "x")
    if len(vector.shape) != 1:
        raise ValueError(f"x must have shape (k,), got {vector.shape}")
    return _exact(matrix, vector, bias, out, policies)


def matmul(
    x: object,
    W: object,  # noqa: N803 - the name of a matrix
    bias: object = None,
    out: str | Format = "fp32",
    **policies: Unpack[Policies],
) -> Array:
    """The exact x @ W.T + bias, each sum rounded once.

    x: (m, k) or (k,), W, bias, out, policies: as for `gemv`.  Returns (m, n) or (n,).

    >>> matmul([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [[1.0, 3.0]]).tolist()
    [[1.0], [3.0], [4.0]]
    """
    return _exact(operand(W, "W"), operand(x, "x"), bias, out, policies)


gemm = matmul


def _exact(w: Operand, x: Operand, bias: object, out: str | Format, policies: Policies) -> Array:
    shape, end = check_shapes(w, x), check_bias(bias, w.shape[0])
    policy = resolve(get_format(out), **policies)
    if policy.rounding in STOCHASTIC:
        raise ValueError(f"rounding={policy.rounding!r}: products take the deterministic roundings")
    return as_numbers(exact_products(w, x.matrix(), policy, end).reshape(shape), policy.fmt)


def fma32(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Array:
    """a * b + c of float32 with one rounding, subnormals kept, a NaN 7FC00000; shapes broadcast.

    >>> hex(fma32(np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(2**-60)).view(np.uint32))
    '0x3f801001'

    Raises TypeError for a dtype that float32 does not hold.
    """
    return _apply(_fma.fma, a=a, b=b, c=c)


def add32(a: ArrayLike, b: ArrayLike) -> Array:
    """a + b of float32, as `fma32`.

    >>> hex(add32(np.float32(2**-149), np.float32(-(2**-126))).view(np.uint32))
    '0x807fffff'
    """
    return _apply(_fma.add, a=a, b=b)


def mul32(a: ArrayLike, b: ArrayLike) -> Array:
    """a * b of float32, as `fma32`.

    >>> hex(mul32(np.float32(2**-75), np.float32(-1.5 * 2**-75)).view(np.uint32))
    '0x80000001'
    """
    return _apply(_fma.mul, a=a, b=b)


def _apply(operation: Callable[..., _fma.F64], **named: ArrayLike) -> Array:
    operands = {name: operand(dequantized(x), name) for name, x in named.items()}
    for x in operands.values():
        check_float32(x)
    try:
        np.broadcast_shapes(*(x.shape for x in operands.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {x.shape}" for name, x in operands.items())
        raise ValueError(f"shapes do not broadcast: {shapes}") from None
    return _fma.to_float32(operation(*(x.elements() for x in operands.values())))
