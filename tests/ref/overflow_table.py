"""The hand-written table of policies: what each choice gives, cell by cell.

Typed from the policy definitions in words (OFP8 1.0 for saturate and nonsaturating, its table 3 for
ocp_table3, IEEE 754-2019 7.4 for the directed modes, IEEE P3109 interim report 4.0 for SatNone, SatPropagate
and SatFinite) and read by tests alone; no code computes a cell.  Codes are hex.

Cells: a code; `error`, a ValueError for this input; `refused`, a ValueError for the policy itself,
whatever the input; `-`, not asked.

Roundings, one letter each: e nearest_even, a nearest_away, z toward_zero, p toward_positive,
n toward_negative, o to_odd.
"""

from __future__ import annotations

ROUNDING_LETTERS: dict[str, str] = {
    "e": "nearest_even",
    "a": "nearest_away",
    "z": "toward_zero",
    "p": "toward_positive",
    "n": "toward_negative",
    "o": "to_odd",
}

OVERFLOW_NAMES: tuple[str, ...] = ("saturate", "nonsaturating", "propagate", "ocp_table3", "p3109_satnone")

# The row's own policies, where the argument is None: (overflow, negative).  negative is for unsigned rows.
# OpenGL itself asks for `propagate` on uf11 and uf10 (finite values above max become max, +Inf stays); the
# project's default for them is nonsaturating, like the other rows with IEEE Inf.
DEFAULTS: dict[str, tuple[str, str | None]] = {
    "e4m3": ("saturate", None), "e5m2": ("saturate", None),
    "e3m2": ("saturate", None), "e2m3": ("saturate", None), "e2m1": ("saturate", None),
    "e8m0": ("saturate", "nan"), "ue4m3": ("saturate", "nan"), "ue5m3": ("saturate", "nan"),
    "fp16": ("nonsaturating", None), "bf16": ("nonsaturating", None),
    "tf32": ("nonsaturating", None), "fp32": ("nonsaturating", None),
    "e4m3fnuz": ("saturate", None), "e5m2fnuz": ("saturate", None), "e4m3b11fnuz": ("saturate", None),
    "e4m3ieee": ("nonsaturating", None), "e3m4": ("nonsaturating", None),
    "int8": ("saturate", None), "int4": ("saturate", None), "int2": ("saturate", None),
    "uint8": ("saturate", "zero"), "uint4": ("saturate", "zero"), "mxint8": ("saturate", None),
    "nf4": ("saturate", None), "fp4_bnb": ("saturate", None),
    "uf11": ("nonsaturating", "zero"), "uf10": ("nonsaturating", "zero"),
    "binary8p3se": ("p3109_satnone", None), "binary8p3sf": ("p3109_satnone", None),
    "binary8p3ue": ("p3109_satnone", "nan"), "binary8p3uf": ("p3109_satnone", "nan"),
}  # fmt: skip

# Four times max: far beyond, so that every rounding has overflowed with an unbounded exponent.
FAR: dict[str, float] = {
    "e4m3": 1792.0, "e5m2": 229376.0, "e2m1": 24.0, "e8m0": 2.0**129, "e4m3fnuz": 960.0, "e4m3ieee": 960.0,
    "fp16": 262016.0, "ue4m3": 1792.0, "int8": 508.0, "uint8": 1020.0, "mxint8": 7.9375, "uf11": 260096.0,
    "nf4": 4.0, "binary8p3se": 196608.0, "binary8p3sf": 229376.0,
    "binary8p3ue": 10737418240.0, "binary8p3uf": 12884901888.0,
}  # fmt: skip

# Columns after the bar: +4 max, -4 max, +Inf, -Inf, NaN (policy None), -1.5 (unsigned rows, policy None).
OVERFLOW = """
# e4m3: max 7E, NaN 7F and FF, no Inf.  Overflow and Inf make a NaN of the value's sign.
e4m3         saturate       eazpno | 7E    FE    7E    FE    7F     -
e4m3         nonsaturating  ea     | 7F    FF    7F    FF    7F     -
e4m3         nonsaturating  zo     | 7E    FE    7F    FF    7F     -
e4m3         nonsaturating  p      | 7F    FE    7F    FF    7F     -
e4m3         nonsaturating  n      | 7E    FF    7F    FF    7F     -
e4m3         propagate      eazpno | 7E    FE    7E    FE    7F     -
e4m3         ocp_table3     eazpno | 7F    FF    7F    FF    7F     -
e4m3         p3109_satnone  eazpno | refused

# e5m2: max 7B, Inf 7C.  OFP8 saturation clamps Inf too.
e5m2         saturate       eazpno | 7B    FB    7B    FB    7F     -
e5m2         nonsaturating  ea     | 7C    FC    7C    FC    7F     -
e5m2         nonsaturating  zo     | 7B    FB    7C    FC    7F     -
e5m2         nonsaturating  p      | 7C    FB    7C    FC    7F     -
e5m2         nonsaturating  n      | 7B    FC    7C    FC    7F     -
e5m2         propagate      eazpno | 7B    FB    7C    FC    7F     -
e5m2         ocp_table3     eazpno | 7C    FC    7C    FC    7F     -
e5m2         p3109_satnone  eazpno | refused

# e2m1: max 7, neither Inf nor NaN, so every policy that exists clamps.
e2m1         saturate       eazpno | 7     F     7     F     error  -
e2m1         nonsaturating  eazpno | 7     F     7     F     error  -
e2m1         propagate      eazpno | 7     F     7     F     error  -
e2m1         ocp_table3     eazpno | refused
e2m1         p3109_satnone  eazpno | refused

# e8m0: max FE, NaN FF, no Inf, no sign.  negative=nan decides every negative before overflow does.
e8m0         saturate       eazpno | FE    FF    FE    FF    FF     FF
e8m0         nonsaturating  eap    | FF    FF    FF    FF    FF     FF
e8m0         nonsaturating  zno    | FE    FF    FF    FF    FF     FF
e8m0         propagate      eazpno | FE    FF    FE    FF    FF     FF
e8m0         ocp_table3     eazpno | FF    FF    FF    FF    FF     FF
e8m0         p3109_satnone  eazpno | refused

# e4m3fnuz: max 7F, one NaN 80 without sign, no Inf.
e4m3fnuz     saturate       eazpno | 7F    FF    7F    FF    80     -
e4m3fnuz     nonsaturating  ea     | 80    80    80    80    80     -
e4m3fnuz     nonsaturating  zo     | 7F    FF    80    80    80     -
e4m3fnuz     nonsaturating  p      | 80    FF    80    80    80     -
e4m3fnuz     nonsaturating  n      | 7F    80    80    80    80     -
e4m3fnuz     propagate      eazpno | 7F    FF    7F    FF    80     -
e4m3fnuz     ocp_table3     eazpno | 80    80    80    80    80     -
e4m3fnuz     p3109_satnone  eazpno | refused

# e4m3ieee: max 77, Inf 78, quiet NaN 7C.
e4m3ieee     saturate       eazpno | 77    F7    77    F7    7C     -
e4m3ieee     nonsaturating  ea     | 78    F8    78    F8    7C     -
e4m3ieee     nonsaturating  zo     | 77    F7    78    F8    7C     -
e4m3ieee     nonsaturating  p      | 78    F7    78    F8    7C     -
e4m3ieee     nonsaturating  n      | 77    F8    78    F8    7C     -
e4m3ieee     propagate      eazpno | 77    F7    78    F8    7C     -
e4m3ieee     ocp_table3     eazpno | 78    F8    78    F8    7C     -
e4m3ieee     p3109_satnone  eazpno | refused

# fp16: IEEE 754 7.4 is the nonsaturating block (to_odd is not IEEE's: like toward_zero).
fp16         saturate       eazpno | 7BFF  FBFF  7BFF  FBFF  7E00   -
fp16         nonsaturating  ea     | 7C00  FC00  7C00  FC00  7E00   -
fp16         nonsaturating  zo     | 7BFF  FBFF  7C00  FC00  7E00   -
fp16         nonsaturating  p      | 7C00  FBFF  7C00  FC00  7E00   -
fp16         nonsaturating  n      | 7BFF  FC00  7C00  FC00  7E00   -
fp16         propagate      eazpno | 7BFF  FBFF  7C00  FC00  7E00   -
fp16         ocp_table3     eazpno | 7C00  FC00  7C00  FC00  7E00   -
fp16         p3109_satnone  eazpno | refused

# ue4m3: max 7E, NaN 7F, no Inf, no sign.
ue4m3        saturate       eazpno | 7E    7F    7E    7F    7F     7F
ue4m3        nonsaturating  eap    | 7F    7F    7F    7F    7F     7F
ue4m3        nonsaturating  zno    | 7E    7F    7F    7F    7F     7F
ue4m3        propagate      eazpno | 7E    7F    7E    7F    7F     7F
ue4m3        ocp_table3     eazpno | 7F    7F    7F    7F    7F     7F
ue4m3        p3109_satnone  eazpno | refused

# int8: two's complement, clamps to -128.
int8         saturate       eazpno | 7F    80    7F    80    error  -
int8         nonsaturating  eazpno | 7F    80    7F    80    error  -
int8         propagate      eazpno | 7F    80    7F    80    error  -
int8         ocp_table3     eazpno | refused
int8         p3109_satnone  eazpno | refused

# uint8: negative=zero.
uint8        saturate       eazpno | FF    00    FF    00    error  00
uint8        nonsaturating  eazpno | FF    00    FF    00    error  00
uint8        propagate      eazpno | FF    00    FF    00    error  00
uint8        ocp_table3     eazpno | refused
uint8        p3109_satnone  eazpno | refused

# mxint8: as int8.
mxint8       saturate       eazpno | 7F    80    7F    80    error  -
mxint8       nonsaturating  eazpno | 7F    80    7F    80    error  -
mxint8       propagate      eazpno | 7F    80    7F    80    error  -
mxint8       ocp_table3     eazpno | refused
mxint8       p3109_satnone  eazpno | refused

# uf11: max 7BF, Inf 7C0, NaN 7E0; OpenGL 2.3.4.3: negatives and -Inf become 0.
uf11         saturate       eazpno | 7BF   000   7BF   000   7E0    000
uf11         nonsaturating  eap    | 7C0   000   7C0   000   7E0    000
uf11         nonsaturating  zno    | 7BF   000   7C0   000   7E0    000
uf11         propagate      eazpno | 7BF   000   7C0   000   7E0    000
uf11         ocp_table3     eazpno | 7C0   000   7C0   000   7E0    000
uf11         p3109_satnone  eazpno | refused

# nf4: a table takes nearest alone; max F (1.0), least 0 (-1.0).
nf4          saturate       e      | F     0     F     0     error  -
nf4          saturate       azpno  | refused
nf4          nonsaturating  e      | F     0     F     0     error  -
nf4          nonsaturating  azpno  | refused
nf4          propagate      e      | F     0     F     0     error  -
nf4          propagate      azpno  | refused
nf4          ocp_table3     eazpno | refused
nf4          p3109_satnone  eazpno | refused

# P3109 signed extended: max 7E, Inf 7F and FF, one NaN 80.  SatNone with to_odd: Inf.
binary8p3se  saturate       eazpno | 7E    FE    7E    FE    80     -
binary8p3se  nonsaturating  ea     | 7F    FF    7F    FF    80     -
binary8p3se  nonsaturating  zo     | 7E    FE    7F    FF    80     -
binary8p3se  nonsaturating  p      | 7F    FE    7F    FF    80     -
binary8p3se  nonsaturating  n      | 7E    FF    7F    FF    80     -
binary8p3se  propagate      eazpno | 7E    FE    7F    FF    80     -
binary8p3se  ocp_table3     eazpno | 7F    FF    7F    FF    80     -
binary8p3se  p3109_satnone  eao    | 7F    FF    7F    FF    80     -
binary8p3se  p3109_satnone  z      | 7E    FE    7F    FF    80     -
binary8p3se  p3109_satnone  p      | 7F    FE    7F    FF    80     -
binary8p3se  p3109_satnone  n      | 7E    FF    7F    FF    80     -

# P3109 signed finite: max 7F, NaN 80, no Inf.  SatNone: max, never NaN.
binary8p3sf  saturate       eazpno | 7F    FF    7F    FF    80     -
binary8p3sf  nonsaturating  ea     | 80    80    80    80    80     -
binary8p3sf  nonsaturating  zo     | 7F    FF    80    80    80     -
binary8p3sf  nonsaturating  p      | 80    FF    80    80    80     -
binary8p3sf  nonsaturating  n      | 7F    80    80    80    80     -
binary8p3sf  propagate      eazpno | 7F    FF    7F    FF    80     -
binary8p3sf  ocp_table3     eazpno | 80    80    80    80    80     -
binary8p3sf  p3109_satnone  eazpno | 7F    FF    7F    FF    80     -

# P3109 unsigned extended: max FD, Inf FE, NaN FF.  SatNone: negatives and -Inf give NaN; to_odd gives max.
binary8p3ue  saturate       eazpno | FD    FF    FD    FF    FF     FF
binary8p3ue  nonsaturating  eap    | FE    FF    FE    FF    FF     FF
binary8p3ue  nonsaturating  zno    | FD    FF    FE    FF    FF     FF
binary8p3ue  propagate      eazpno | FD    FF    FE    FF    FF     FF
binary8p3ue  ocp_table3     eazpno | FE    FF    FE    FF    FF     FF
binary8p3ue  p3109_satnone  eap    | FE    FF    FE    FF    FF     FF
binary8p3ue  p3109_satnone  zno    | FD    FF    FE    FF    FF     FF

# P3109 unsigned finite: max FE, NaN FF, no Inf.
binary8p3uf  saturate       eazpno | FE    FF    FE    FF    FF     FF
binary8p3uf  nonsaturating  eap    | FF    FF    FF    FF    FF     FF
binary8p3uf  nonsaturating  zno    | FE    FF    FF    FF    FF     FF
binary8p3uf  propagate      eazpno | FE    FF    FE    FF    FF     FF
binary8p3uf  ocp_table3     eazpno | FF    FF    FF    FF    FF     FF
binary8p3uf  p3109_satnone  eazpno | FE    FF    FE    FF    FF     FF
"""

# What a NaN input gives: +NaN and -NaN under each `nan` policy.  `code` is nan=<that code>, which need not be a
# NaN.  nan="error" is a ValueError for both everywhere, and is what None means where canonical is refused;
# elsewhere None means canonical.  zero is what +0 encodes to: 00 in e8m0 too, where it means 2^-127.
NAN = """
#            canonical          preserve_sign      code      max       zero
e4m3         7F       7F        7F       FF        FF        7E        00
e5m2         7F       7F        7F       FF        7E        7B        00
e3m2         refused  refused   refused  refused   20        1F        00
e2m3         refused  refused   refused  refused   20        1F        00
e2m1         refused  refused   refused  refused   8         7         0
e8m0         FF       FF        FF       FF        7F        FE        00
fp16         7E00     7E00      7E00     FE00      7FFF      7BFF      0000
bf16         7FC0     7FC0      7FC0     FFC0      FFFF      7F7F      0000
tf32         3FE00    3FE00     3FE00    7FE00     7FFFF     3FBFF     00000
fp32         7FC00000 7FC00000  7FC00000 FFC00000  7FFFFFFF  7F7FFFFF  00000000
e4m3fnuz     80       80        80       80        00        7F        00
e5m2fnuz     80       80        80       80        00        7F        00
e4m3b11fnuz  80       80        80       80        00        7F        00
e4m3ieee     7C       7C        7C       FC        79        77        00
e3m4         78       78        78       F8        71        6F        00
ue4m3        7F       7F        7F       7F        00        7E        00
ue5m3        FF       FF        FF       FF        F8        FE        00
int8         refused  refused   refused  refused   80        7F        00
uint8        refused  refused   refused  refused   80        FF        00
int4         refused  refused   refused  refused   8         7         0
uint4        refused  refused   refused  refused   8         F         0
int2         refused  refused   refused  refused   2         1         0
mxint8       refused  refused   refused  refused   80        7F        00
nf4          refused  refused   refused  refused   0         F         7
fp4_bnb      refused  refused   refused  refused   8         3         0
uf11         7E0      7E0       7E0      7E0       7FF       7BF       000
uf10         3F0      3F0       3F0      3F0       3FF       3DF       000
binary8p3se  80       80        80       80        7F        7E        00
binary8p3sf  80       80        80       80        00        7F        00
binary8p3ue  FF       FF        FF       FF        00        FD        00
binary8p3uf  FF       FF        FF       FF        FE        FE        00
"""

# `nan` governs NaN inputs only: a NaN made by overflow, from Inf or from a negative keeps its own code, with a
# sign where the format has both.  nearest_even; columns: nan, +4 max, -4 max, +Inf, -Inf.
NAN_MADE = """
e4m3         nonsaturating  zero           | 7F    FF    7F    FF
e4m3         nonsaturating  max            | 7F    FF    7F    FF
e4m3         nonsaturating  error          | 7F    FF    7F    FF
e4m3         nonsaturating  canonical      | 7F    FF    7F    FF
e4m3         ocp_table3     zero           | 7F    FF    7F    FF
e4m3fnuz     nonsaturating  zero           | 80    80    80    80
e8m0         nonsaturating  max            | FF    FF    FF    FF
ue4m3        saturate       error          | 7E    7F    7E    7F
binary8p3sf  nonsaturating  max            | 80    80    80    80
binary8p3ue  p3109_satnone  zero           | FE    FF    FE    FF
"""

# Unsigned rows: an input below zero under each `negative` policy, with the row's own overflow, nearest_even.
# -0 is zero under every policy.  -Inf is negative.  |1.5| is a tie for e8m0 (80 is even) and uint (2 is even).
# zero is what +0 encodes to, in e8m0 too; nan is refused where no code is NaN.
NEGATIVE = """
#            input   nan      zero     abs   error
e8m0         -1.5    FF       00       80    error
e8m0         -0.0    00       00       00    00
e8m0         -inf    FF       00       FE    error
ue4m3        -1.5    7F       00       3C    error
ue4m3        -0.0    00       00       00    00
ue4m3        -inf    7F       00       7E    error
ue5m3        -1.5    FF       00       7C    error
ue5m3        -0.0    00       00       00    00
ue5m3        -inf    FF       00       FE    error
uint8        -1.5    refused  00       02    error
uint8        -0.0    refused  00       00    00
uint8        -inf    refused  00       FF    error
uint4        -1.5    refused  0        2     error
uint4        -0.0    refused  0        0     0
uint4        -inf    refused  0        F     error
uf11         -1.5    7E0      000      3E0   error
uf11         -0.0    000      000      000   000
uf11         -inf    7E0      000      7C0   error
uf10         -1.5    3F0      000      1F0   error
uf10         -0.0    000      000      000   000
uf10         -inf    3F0      000      3E0   error
binary8p3ue  -1.5    FF       00       82    error
binary8p3ue  -0.0    00       00       00    00
binary8p3ue  -inf    FF       00       FE    error
binary8p3uf  -1.5    FF       00       82    error
binary8p3uf  -0.0    00       00       00    00
binary8p3uf  -inf    FF       00       FE    error
"""

# negative=None on tiny negatives.  P3109 SatNone rounds first: what rounds to zero is 00 and not NaN.  Every
# other policy looks at the input: it is negative.  The least subnormal of binary8p3ue and uf is 2^-33.
TINY_NEGATIVE = """
#            overflow       input           e    a    z    p    n    o
binary8p3ue  p3109_satnone  -0x1p-34        00   FF   00   00   FF   FF
binary8p3ue  p3109_satnone  -0x1.000002p-34 FF   FF   00   00   FF   FF
binary8p3ue  p3109_satnone  -0x1.8p-34      FF   FF   00   00   FF   FF
binary8p3ue  p3109_satnone  -0x1.8p-35      00   00   00   00   FF   FF
binary8p3ue  p3109_satnone  -0x1p-149       00   00   00   00   FF   FF
binary8p3ue  p3109_satnone  -0x1p-33        FF   FF   FF   FF   FF   FF
binary8p3ue  p3109_satnone  0x1p-34         00   01   00   01   00   01
binary8p3uf  p3109_satnone  -0x1p-34        00   FF   00   00   FF   FF
binary8p3uf  p3109_satnone  -0x1p-149       00   00   00   00   FF   FF
binary8p3uf  p3109_satnone  -0x1p-33        FF   FF   FF   FF   FF   FF
binary8p3ue  saturate       -0x1p-149       FF   FF   FF   FF   FF   FF
binary8p3uf  propagate      -0x1p-149       FF   FF   FF   FF   FF   FF
ue4m3        saturate       -0x1p-149       7F   7F   7F   7F   7F   7F
e8m0         saturate       -0x1p-149       FF   FF   FF   FF   FF   FF
uf11         nonsaturating  -0x1p-149       000  000  000  000  000  000
uint8        saturate       -0x1p-149       00   00   00   00   00   00
"""

# Subnormals.  flush_input: a subnormal of the source (float32 here) counts as a zero of its sign.
# flush_output: a result that is a subnormal of the target, after rounding, becomes a zero of its sign.
# Integers, tables and formats without a mantissa bit have no subnormals.
SUBNORMALS = """
#            input     rounding  keep      flush_input  flush_output
e4m3         3B000000  e         01        01           00
e4m3         BB000000  e         81        81           80
e4m3         3C600000  e         07        07           00
e4m3         3C780000  e         08        08           08
e4m3         3C800000  e         08        08           08
e4m3         00000001  e         00        00           00
e4m3         80000001  e         80        80           80
e4m3         00000001  p         01        00           00
e4m3         80000001  n         81        80           80
e4m3         007FFFFF  p         01        00           00
e4m3         00800000  p         01        01           00
e5m2         37800000  e         01        01           00
e4m3fnuz     BA800000  e         81        81           00
e4m3fnuz     80000001  n         81        00           00
e2m1         3F000000  e         1         1            0
e2m1         BF000000  e         9         9            8
e2m1         3F400000  e         2         2            2
fp16         35800000  e         0010      0010         0000
fp16         B5800000  e         8010      8010         8000
bf16         00080000  e         0008      0000         0000
bf16         80080000  e         8008      8000         8000
bf16         007FFFFF  e         0080      0000         0080
bf16         00800000  e         0080      0080         0080
tf32         00002000  e         00001     00000        00000
fp32         00000001  e         00000001  00000000     00000000
fp32         80000001  e         80000001  80000000     80000000
fp32         00800000  e         00800000  00800000     00800000
e8m0         00600000  p         01        00           01
e8m0         00400000  e         00        00           00
int8         3F000000  p         01        01           01
int8         00000001  p         01        00           01
uf11         35800000  e         001       001          000
binary8p3se  37000000  e         01        01           00
binary8p3se  B7000000  e         81        81           00
binary8p1se  20000000  e         01        01           01
nf4          00000001  e         7         7            7
"""
