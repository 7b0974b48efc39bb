"""Solution of 05: the scale byte from the exponent, without log2."""

import math


def my_scale(x: float) -> int:
    if math.isnan(x) or x < 0:
        return 0xFF
    if math.isinf(x):
        return 0xFE
    if x == 0:
        return 0x00
    _, exponent = math.frexp(x)  # x = f * 2**exponent with 0.5 <= f < 1
    return max(0, exponent - 1 + 127)
