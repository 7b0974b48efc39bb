"""Solution of 01: every byte of e5m2."""

import math


def my_value(code: int) -> float:
    sign = -1.0 if code >> 7 else 1.0
    exponent, mantissa = code >> 2 & 31, code & 3
    if exponent == 31:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        return sign * mantissa / 4 * 2.0**-14
    return sign * (1 + mantissa / 4) * 2.0 ** (exponent - 15)
