"""Solution of 07: e4m3fnuz by a shift and a multiplication."""

import math

import numpy as np


def my_value(code: int) -> float:
    if code == 0x80:
        return math.nan
    bits = code >> 7 << 31 | (code & 0x7F) << 20
    return float(np.uint32(bits).view(np.float32)) * 2.0 ** (127 - 8)
