"""Solution of 06: any cut of a code into sign, exponent and mantissa."""


def my_value(code: int, e: int, m: int) -> float:
    sign = -1.0 if code >> (e + m) else 1.0
    exponent, mantissa = code >> m & (1 << e) - 1, code & (1 << m) - 1
    bias = (1 << e - 1) - 1
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - m)
    return sign * ((1 << m) + mantissa) * 2.0 ** (exponent - bias - m)
