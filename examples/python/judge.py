"""Judge a NumPy encoder of E4M3 by the vectors' files alone: python judge.py FOLDER RUN [fault]

Exit code 0: all right.  1: some are wrong.
"""

import sys
from pathlib import Path

import numpy as np

FOLDER, RUN = Path(sys.argv[1]), sys.argv[2]
VALUES = np.fromfile(FOLDER / "decode.e4m3.f32.exact.none.tab", "<f4")[:127]  # of the codes 00 .. 7E
MIDDLES = np.append((VALUES[:-1] + VALUES[1:]) / 2, np.float32(464))


def encode(x, saturate):
    """Count the middles below; a tie goes to the even code, which may be the one above."""
    size = np.abs(x)
    code = np.searchsorted(MIDDLES, size, side="left")
    if "fault" not in sys.argv:
        code += (size == MIDDLES[np.minimum(code, 126)]) & (code % 2 == 1)
    code = np.where(np.isnan(x), 127, np.minimum(code, 126 if saturate else 127))
    return np.signbit(x) * 128 + code


# The judge: a line is lo, hi, z, j; both ends and the middle of each run are tried, and both infinities.
lo, hi, z, j = np.array([[int(field, 16) for field in line.split()] for line in (FOLDER / RUN).open()]).T
if lo[0] != 0 or hi[-1] != 2**32 - 1 or (lo[1:] != hi[:-1] + 1).any():
    sys.exit(f"{RUN}: damaged")
x = np.concatenate([lo, lo + (hi - lo) // 2, hi, [0x7F800000, 0xFF800000]]).astype(np.uint32)
line = np.searchsorted(hi, x)
z, j = z[line], j[line]
got = encode(x.view(np.float32), ".nonsat." not in RUN)
passes = np.select([j == 0, j == 1, j == 2], [got >= 0, got == z, got & 0x7F == 0x7F], (got == z) | (got == z + 1))
for at in np.flatnonzero(~passes)[:20]:
    print(f"in={x[at]:08X} got={got[at]:02X} want={z[at]:02X}")
print(f"{x.size} inputs, {np.count_nonzero(~passes)} wrong")
sys.exit(not passes.all())
