"""feather_kernels: GPU kernels on packed words, compiled by Numba and launched by CuPy.

>>> import numpy as np
>>> import feather_ref as fr
>>> import feather_kernels as fk
>>> W = fr.pack_tensor(np.array([[1.0, 2.0], [0.5, -1.0]]), "e4m3")
>>> fk.gemv(W, np.array([1.0, 1.0], np.float16)).tolist()
[3.0, -0.5]

Whether they run on a GPU or in the simulator is chosen now, once; FEATHER_TARGET overrides.

Source: design of this project.
"""

from __future__ import annotations

from feather_kernels._target import TARGET
from feather_kernels.api import decode, encode, pack, unpack
from feather_kernels.cuts import Cut
from feather_kernels.matrices import DeviceTensor
from feather_kernels.matrix import precompile
from feather_kernels.plans import Plan
from feather_kernels.products import gemv, prepare

__all__ = [
    "TARGET",
    "Cut",
    "DeviceTensor",
    "Plan",
    "decode",
    "encode",
    "gemv",
    "pack",
    "precompile",
    "prepare",
    "unpack",
]
