"""Solution of 02: float32 to bf16, to nearest even."""

import math
import struct


def my_bf16(x: float) -> int:
    if math.isnan(x):
        return 0x7FC0
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    kept, guard, sticky = bits >> 16, bits >> 15 & 1, bits & 0x7FFF != 0
    return kept + (guard and (sticky or kept & 1))
