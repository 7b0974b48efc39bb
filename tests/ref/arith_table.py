"""The hand-written table of special results: what arithmetic on codes gives, cell by cell.

Typed from IEEE 754-2019 (5.4.1 operations, 6.1 Inf, 6.2 NaN, 6.3 the sign bit, 7.2 invalid, 7.3 division by
zero, 7.4 overflow), from OFP8 1.0 for rows without Inf and from the IEEE P3109 interim report 4.0, and read by
tests alone; no code computes a cell.  Codes are hex.

A line: operation, format, operands | roundings, overflows | the code [| further policies].
Roundings are the letters of `overflow_table` (e a z p n o); overflows are separated by commas:
own, sat, non, prop, t3.  The code is `error` where the operation is a ValueError.

Some codes, for reading:

==========  ======  ======  ======  ======  ======  =====  ==========================
format      1       2       3       max     Inf     NaN    least positive
==========  ======  ======  ======  ======  ======  =====  ==========================
e5m2        3C      40      42      7B      7C      7F     01 = 2^-16
e4m3        38      40      44      7E              7F     01 = 2^-9
e4m3ieee    38      40      44      77      78      7C     01 = 2^-9
e4m3fnuz    40      48      4C      7F              80     01 = 2^-10; no -0
e5m2fnuz    40      44      46      7F              80     01 = 2^-17; no -0
fp16        3C00    4000    4200    7BFF    7C00    7E00   0001 = 2^-24
e2m1        2       4       5       7                      1 = 0.5
e8m0        7F      80              FE              FF     00 = 2^-127; no zero
ue4m3       38      40      44      7E              7F     01 = 2^-9; no sign
uf11        3C0     400     420     7BF     7C0     7E0    001 = 2^-20; no sign
p3se        40      44      46      7E      7F      80     01 = 2^-17; no -0
p3ue        80      84      86      FD      FE      FF     01 = 2^-33; no sign
mxint8      40                      7F                     01 = 2^-6
==========  ======  ======  ======  ======  ======  =====  ==========================
"""

from __future__ import annotations

OVERFLOW_WORDS: dict[str, str | None] = {
    "own": None,
    "sat": "saturate",
    "non": "nonsaturating",
    "prop": "propagate",
    "t3": "ocp_table3",
}

# 6.3: the sum of unlike signs that is exactly zero is +0, and -0 under toward_negative; x + x keeps its sign.
ZERO_SUMS = """
add       e5m2      3C BC       | eazpo   sat,non,prop,t3 | 00
add       e5m2      3C BC       | n       sat,non,prop,t3 | 80
add       e5m2      BC 3C       | eazpo   own             | 00
add       e5m2      BC 3C       | n       own             | 80
add       e5m2      01 81       | eazpo   own             | 00
add       e5m2      01 81       | n       own             | 80
add       e5m2      FB 7B       | eazpo   non             | 00
add       e5m2      FB 7B       | n       non             | 80
add       e5m2      00 80       | eazpo   own             | 00
add       e5m2      00 80       | n       own             | 80
add       e5m2      80 00       | eazpo   own             | 00
add       e5m2      80 00       | n       own             | 80
add       e5m2      00 00       | eazpno  own             | 00
add       e5m2      80 80       | eazpno  own             | 80
subtract  e5m2      3C 3C       | eazpo   own             | 00
subtract  e5m2      3C 3C       | n       own             | 80
subtract  e5m2      BC BC       | eazpo   own             | 00
subtract  e5m2      BC BC       | n       own             | 80
subtract  e5m2      00 00       | eazpo   own             | 00
subtract  e5m2      00 00       | n       own             | 80
subtract  e5m2      80 80       | eazpo   own             | 00
subtract  e5m2      80 80       | n       own             | 80
subtract  e5m2      80 00       | eazpno  own             | 80
subtract  e5m2      00 80       | eazpno  own             | 00
add       e4m3      7E FE       | eazpo   sat,non,t3      | 00
add       e4m3      7E FE       | n       sat,non,t3      | 80
add       e2m1      2 A         | eazpo   sat,non         | 0
add       e2m1      2 A         | n       sat,non         | 8
add       fp16      0001 8001   | eazpo   own             | 0000
add       fp16      0001 8001   | n       own             | 8000
add       fp32      3F800000 BF800000 | eazpo own         | 00000000
add       fp32      3F800000 BF800000 | n     own         | 80000000
# no -0 in the format: +0 alone
add       e4m3fnuz  40 C0       | eazpno  own,non         | 00
subtract  e4m3fnuz  00 00       | eazpno  own             | 00
add       e5m2fnuz  40 C0       | eazpno  own             | 00
subtract  binary8p3se 40 40     | eazpno  own             | 00
add       int8      05 FB       | eazpno  own             | 00
subtract  mxint8    C0 C0       | eazpno  own             | 00
subtract  uint8     05 05       | eazpno  own             | 00
subtract  ue4m3     38 38       | eazpno  own             | 00
subtract  uf11      3C0 3C0     | eazpno  own             | 000
subtract  binary8p3ue 80 80     | eazpno  own             | 00
# no zero in the format: the least value
subtract  e8m0      7F 7F       | eazpno  own             | 00
"""

# 7.4: overflow of a sum.  Half a unit above max is the tie: it goes over where max is odd.
OVERFLOWING_SUMS = """
add       e5m2      7B 7B       | eazpno  sat,prop        | 7B
add       e5m2      7B 7B       | eap     non             | 7C
add       e5m2      7B 7B       | zno     non             | 7B
add       e5m2      7B 7B       | eazpno  t3              | 7C
add       e5m2      FB FB       | eazpno  sat,prop        | FB
add       e5m2      FB FB       | ean     non             | FC
add       e5m2      FB FB       | zpo     non             | FB
add       e5m2      FB FB       | eazpno  t3              | FC
# 57344 + 4096 = 61440, the tie; 57344 + 3584 stays below it
add       e5m2      7B 6C       | eap     non             | 7C
add       e5m2      7B 6C       | zno     non             | 7B
add       e5m2      7B 6B       | eazno   non             | 7B
add       e5m2      7B 6B       | p       non             | 7C
subtract  e5m2      FB 6C       | ean     non             | FC
subtract  e5m2      FB 6C       | zpo     non             | FB
add       e4m3      7E 7E       | eazpno  sat             | 7E
add       e4m3      7E 7E       | eap     non             | 7F
add       e4m3      7E 7E       | zno     non             | 7E
add       e4m3      7E 7E       | eazpno  t3              | 7F
add       e4m3      FE FE       | ean     non             | FF
add       e4m3      FE FE       | zpo     non             | FE
# 448 + 16 = 464, the tie, and 448 is even; 448 + 18 is beyond
add       e4m3      7E 58       | ezno    non             | 7E
add       e4m3      7E 58       | ap      non             | 7F
add       e4m3      7E 59       | eap     non             | 7F
add       e4m3      7E 59       | zno     non             | 7E
add       e4m3fnuz  7F 7F       | eazpno  sat             | 7F
add       e4m3fnuz  7F 7F       | eap     non             | 80
add       e4m3fnuz  7F 7F       | zno     non             | 7F
add       e4m3fnuz  FF FF       | ean     non             | 80
add       e4m3fnuz  FF FF       | zpo     non             | FF
add       e5m2fnuz  FF FF       | eazpno  sat             | FF
add       e4m3ieee  77 77       | eap     own             | 78
add       e4m3ieee  77 77       | zno     own             | 77
add       fp16      7BFF 7BFF   | eap     own             | 7C00
add       fp16      7BFF 7BFF   | zno     own             | 7BFF
add       fp16      7BFF 4C00   | eap     own             | 7C00
add       fp16      7BFF 4BFF   | eazno   own             | 7BFF
add       fp32      7F7FFFFF 73000000 | eap   own         | 7F800000
add       fp32      7F7FFFFF 73000000 | zno   own         | 7F7FFFFF
add       fp32      7F7FFFFF 72FFFFFF | eazno own         | 7F7FFFFF
add       fp32      FF7FFFFF F3000000 | ean   own         | FF800000
# neither Inf nor NaN: max
add       e2m1      7 7         | eazpno  sat,non,prop    | 7
add       e3m2      3F 3F       | eazpno  sat,non         | 3F
add       int8      7F 01       | eazpno  sat,non         | 7F
add       int8      80 FF       | eazpno  sat,non         | 80
add       int8      80 80       | eazpno  own             | 80
add       int4      7 7         | eazpno  own             | 7
add       uint8     FF 01       | eazpno  own             | FF
add       mxint8    7F 7F       | eazpno  own             | 7F
# P3109: Extended overflows to Inf; to_odd: to the odd one of max and Inf; Finite: max
add       binary8p3se 7E 7E     | eapo    own             | 7F
add       binary8p3se 7E 7E     | zn      own             | 7E
add       binary8p3sf 7F 7F     | eazpno  own             | 7F
add       binary8p3ue FD FD     | eap     own             | FE
add       binary8p3ue FD FD     | zno     own             | FD
# unsigned; 2^127 + 2^127 = 2^128, which would have the code of NaN
add       e8m0      FE FE       | eazpno  sat             | FE
add       e8m0      FE FE       | eap     non             | FF
add       e8m0      FE FE       | zno     non             | FE
add       ue4m3     7E 7E       | eap     non             | 7F
add       uf11      7BF 7BF     | eap     own             | 7C0
add       uf11      7BF 7BF     | zno     own             | 7BF
"""

# 6.1, 7.2: Inf - Inf is NaN; any other sum with Inf is that Inf, which goes by `overflow` as an input does.
INF_SUMS = """
add       e5m2      7C FC       | eazpno  sat,non,prop,t3 | 7F
add       e5m2      FC 7C       | eazpno  sat,non,prop,t3 | 7F
subtract  e5m2      7C 7C       | eazpno  sat,non,prop,t3 | 7F
subtract  e5m2      FC FC       | eazpno  sat,non,prop,t3 | 7F
add       e5m2      7C 7C       | eazpno  non,prop,t3     | 7C
add       e5m2      7C 7C       | eazpno  sat             | 7B
subtract  e5m2      7C FC       | eazpno  non,prop,t3     | 7C
add       e5m2      FC 7B       | eazpno  non,prop,t3     | FC
add       e5m2      7B FC       | eazpno  non,prop,t3     | FC
add       e5m2      FC 3C       | eazpno  sat             | FB
subtract  e5m2      3C 7C       | eazpno  non,prop,t3     | FC
subtract  e5m2      00 FC       | eazpno  non             | 7C
subtract  e5m2      7C 80       | eazpno  non             | 7C
add       fp16      7C00 FC00   | eazpno  own             | 7E00
add       bf16      7F80 FF80   | eazpno  own             | 7FC0
add       tf32      3FC00 7FC00 | eazpno  own             | 3FE00
add       fp32      7F800000 FF800000 | eazpno own        | 7FC00000
add       fp32      FF800000 7F7FFFFF | eazpno own        | FF800000
add       binary8p3se 7F FF     | eazpno  own             | 80
add       binary8p3se FF 7E     | eazpno  own             | FF
subtract  uf11      7C0 7C0     | eazpno  own             | 7E0
add       uf11      7C0 001     | eazpno  own             | 7C0
# a NaN from Inf - Inf goes by `nan`
add       e5m2      7C FC       | e       own             | error | nan=error
add       e5m2      FC 7C       | e       own             | 7F    | nan=preserve_sign
add       e5m2      7C FC       | e       own             | 7B    | nan=max
add       e5m2      FC 7C       | e       own             | 00    | nan=zero
add       e5m2      7C FC       | e       own             | FD    | nan=FD
"""

# 6.3: the sign of a product or a quotient is the exclusive or of the signs, for zero too.
ZERO_PRODUCTS = """
multiply  e5m2      00 3C       | eazpno  own             | 00
multiply  e5m2      00 BC       | eazpno  own             | 80
multiply  e5m2      BC 00       | eazpno  own             | 80
multiply  e5m2      80 3C       | eazpno  own             | 80
multiply  e5m2      80 BC       | eazpno  own             | 00
multiply  e5m2      80 80       | eazpno  own             | 00
multiply  e5m2      00 80       | eazpno  own             | 80
multiply  e4m3      80 7E       | eazpno  own,non         | 80
multiply  e4m3fnuz  00 C0       | eazpno  own             | 00
multiply  binary8p3se C0 00     | eazpno  own             | 00
multiply  int8      00 FF       | eazpno  own             | 00
multiply  uint8     00 FF       | eazpno  own             | 00
divide    e5m2      00 3C       | eazpno  own             | 00
divide    e5m2      00 BC       | eazpno  own             | 80
divide    e5m2      80 3C       | eazpno  own             | 80
divide    e5m2      80 BC       | eazpno  own             | 00
divide    e4m3fnuz  00 C0       | eazpno  own             | 00
divide    int8      00 FF       | eazpno  own             | 00
"""

# Underflow: 2^-32 lies between +0 and the least subnormal of e5m2.
UNDERFLOW = """
multiply  e5m2      01 01       | eazn    own             | 00
multiply  e5m2      01 01       | po      own             | 01
multiply  e5m2      01 81       | eazp    own             | 80
multiply  e5m2      01 81       | no      own             | 81
multiply  e4m3fnuz  01 81       | eazp    own             | 00
multiply  e4m3fnuz  01 81       | no      own             | 81
multiply  e4m3fnuz  01 01       | eazn    own             | 00
multiply  e4m3fnuz  01 01       | po      own             | 01
multiply  mxint8    01 FF       | eazp    own             | 00
multiply  mxint8    01 FF       | no      own             | FF
multiply  fp32      00000001 80000001 | eazp own          | 80000000
multiply  fp32      00000001 80000001 | no   own          | 80000001
# ties: half and one and a half of the least subnormal
divide    e5m2      01 40       | ezn     own             | 00
divide    e5m2      01 40       | apo     own             | 01
divide    e5m2      03 40       | eap     own             | 02
divide    e5m2      03 40       | zno     own             | 01
divide    fp16      0001 4000   | ezn     own             | 0000
divide    fp16      0001 4000   | apo     own             | 0001
# below the least value of a format without zero there is nothing
multiply  e8m0      00 00       | eazpno  own             | 00
divide    e8m0      00 80       | eazpno  own             | 00
# a subnormal result, and one that the carry makes normal: 2^-9 * 7.5 = 7.5 * 2^-9, a tie below 2^-6
multiply  e4m3      01 4F       | eap     own             | 08
multiply  e4m3      01 4F       | zno     own             | 07
"""

# 7.2: 0 * Inf is NaN; otherwise Inf with the exclusive or of the signs.
INF_PRODUCTS = """
multiply  e5m2      00 7C       | eazpno  sat,non,prop,t3 | 7F
multiply  e5m2      7C 80       | eazpno  sat,non,prop,t3 | 7F
multiply  e5m2      FC 00       | eazpno  own             | 7F
multiply  e5m2      7C 01       | eazpno  non,prop,t3     | 7C
multiply  e5m2      7C BC       | eazpno  non,prop,t3     | FC
multiply  e5m2      7C BC       | eazpno  sat             | FB
multiply  e5m2      FC FC       | eazpno  non,prop,t3     | 7C
multiply  e5m2      FC 7C       | eazpno  sat             | FB
multiply  fp16      0000 FC00   | eazpno  own             | 7E00
multiply  bf16      8000 7F80   | eazpno  own             | 7FC0
multiply  uf11      000 7C0     | eazpno  own             | 7E0
multiply  binary8p3se 00 FF     | eazpno  own             | 80
multiply  binary8p3se C0 FF     | eazpno  own             | 7F
multiply  binary8p3ue 00 FE     | eazpno  own             | FF
multiply  e5m2      7B 7B       | eap     non             | 7C
multiply  e5m2      7B FB       | ean     non             | FC
multiply  e5m2      7B FB       | zpo     non             | FB
multiply  int8      80 80       | eazpno  own             | 7F
multiply  int8      80 7F       | eazpno  own             | 80
multiply  int8      80 FF       | eazpno  own             | 7F
multiply  mxint8    80 80       | eazpno  own             | 7F
multiply  mxint8    40 C0       | eazpno  own             | C0
multiply  e8m0      FE 80       | eazpno  sat             | FE
multiply  e8m0      FE 80       | eap     non             | FF
"""

# 7.3: a finite number other than 0 over 0 is an exact Inf, under every rounding; it goes by `overflow`.
BY_ZERO = """
divide    e5m2      3C 00       | eazpno  non,prop,t3     | 7C
divide    e5m2      3C 00       | eazpno  sat             | 7B
divide    e5m2      BC 00       | eazpno  non,prop,t3     | FC
divide    e5m2      BC 00       | eazpno  sat             | FB
divide    e5m2      3C 80       | eazpno  non,prop,t3     | FC
divide    e5m2      3C 80       | eazpno  sat             | FB
divide    e5m2      BC 80       | eazpno  non             | 7C
divide    e5m2      01 00       | eazpno  non             | 7C
divide    e4m3      38 00       | eazpno  non,t3          | 7F
divide    e4m3      38 00       | eazpno  sat,prop        | 7E
divide    e4m3      B8 00       | eazpno  non,t3          | FF
divide    e4m3      38 80       | eazpno  sat,prop        | FE
divide    e4m3fnuz  40 00       | eazpno  non,t3          | 80
divide    e4m3fnuz  40 00       | eazpno  sat             | 7F
divide    e4m3fnuz  C0 00       | eazpno  non,t3          | 80
divide    e4m3fnuz  C0 00       | eazpno  sat             | FF
divide    e5m2fnuz  C0 00       | eazpno  sat             | FF
divide    fp16      3C00 8000   | eazpno  own             | FC00
divide    bf16      3F80 0000   | eazpno  own             | 7F80
divide    fp32      BF800000 00000000 | eazpno own        | FF800000
divide    e2m1      2 0         | eazpno  sat,non,prop    | 7
divide    e2m1      A 0         | eazpno  sat,non,prop    | F
divide    e2m1      2 8         | eazpno  sat,non,prop    | F
divide    e3m2      0C 00       | eazpno  own             | 1F
divide    e2m3      28 00       | eazpno  own             | 3F
divide    int8      01 00       | eazpno  sat,non         | 7F
divide    int8      FF 00       | eazpno  sat,non         | 80
divide    uint8     01 00       | eazpno  own             | FF
divide    mxint8    C0 00       | eazpno  own             | 80
divide    ue4m3     38 00       | eazpno  sat             | 7E
divide    ue4m3     38 00       | eazpno  non             | 7F
divide    uf11      001 000     | eazpno  own             | 7C0
divide    binary8p3se 40 00     | eazpno  own             | 7F
divide    binary8p3se C0 00     | eazpno  own             | FF
divide    binary8p3sf C0 00     | eazpno  own             | FF
divide    binary8p3ue 80 00     | eazpno  own             | FE
divide    binary8p3uf 80 00     | eazpno  own             | FE
"""

# 7.2: 0 / 0 and Inf / Inf are NaN; Inf / x is Inf; x / Inf is a zero.
INVALID_QUOTIENTS = """
divide    e5m2      00 00       | eazpno  sat,non,prop,t3 | 7F
divide    e5m2      00 80       | eazpno  own             | 7F
divide    e5m2      80 80       | eazpno  own             | 7F
divide    e4m3      80 00       | eazpno  sat,non         | 7F
divide    e4m3fnuz  00 00       | eazpno  sat,non         | 80
divide    fp32      80000000 00000000 | eazpno own        | 7FC00000
divide    ue4m3     00 00       | eazpno  own             | 7F
divide    uf11      000 000     | eazpno  own             | 7E0
divide    binary8p3se 00 00     | eazpno  own             | 80
divide    e5m2      7C 7C       | eazpno  sat,non,prop,t3 | 7F
divide    e5m2      7C FC       | eazpno  own             | 7F
divide    binary8p3se 7F FF     | eazpno  own             | 80
divide    e5m2      7C 00       | eazpno  non,prop,t3     | 7C
divide    e5m2      7C 80       | eazpno  non,prop,t3     | FC
divide    e5m2      FC 80       | eazpno  sat             | 7B
divide    e5m2      7C BC       | eazpno  non,prop,t3     | FC
divide    e5m2      FC 3C       | eazpno  sat             | FB
divide    e5m2      3C 7C       | eazpno  own             | 00
divide    e5m2      3C FC       | eazpno  own             | 80
divide    e5m2      00 7C       | eazpno  own             | 00
divide    e5m2      80 7C       | eazpno  own             | 80
divide    binary8p3se 40 FF     | eazpno  own             | 00
divide    e8m0      FE FE       | eazpno  own             | 7F
# no NaN in the format: an error, unless `nan` says what
divide    e2m1      0 0         | eazpno  own,non         | error
divide    e2m1      0 8         | eazpno  own,non         | error
divide    e2m1      0 0         | e       own             | 7     | nan=max
divide    e2m1      8 0         | e       own             | 0     | nan=zero
divide    e2m1      0 0         | e       own             | 5     | nan=5
divide    e3m2      00 20       | eazpno  own             | error
divide    e2m3      00 00       | eazpno  own             | error
divide    int8      00 00       | eazpno  own             | error
divide    int8      00 00       | e       own             | 7F    | nan=max
divide    uint8     00 00       | eazpno  own             | error
divide    mxint8    00 00       | eazpno  own             | error
divide    e5m2      00 00       | e       own             | error | nan=error
divide    e5m2      00 00       | e       own             | 00    | nan=zero
"""

# 6.2: a NaN operand gives the NaN of `nan`, whatever the other operand; it is made anew and has no sign.
NAN_OPERANDS = """
add       e5m2      7F 3C       | eazpno  sat,non,prop,t3 | 7F
add       e5m2      3C FD       | eazpno  own             | 7F
add       e5m2      7D 7C       | eazpno  own             | 7F
add       e5m2      FC 7E       | eazpno  own             | 7F
subtract  e5m2      7E 7E       | eazpno  own             | 7F
subtract  e5m2      3C 7F       | eazpno  own             | 7F
multiply  e5m2      7F 00       | eazpno  own             | 7F
multiply  e5m2      7C FF       | eazpno  own             | 7F
divide    e5m2      7F 00       | eazpno  own             | 7F
divide    e5m2      00 7D       | eazpno  own             | 7F
divide    e5m2      7C 7D       | eazpno  own             | 7F
add       e4m3      FF 38       | eazpno  own             | 7F
multiply  e4m3      00 FF       | eazpno  own             | 7F
add       e4m3fnuz  80 40       | eazpno  own             | 80
multiply  e5m2fnuz  00 80       | eazpno  own             | 80
subtract  e4m3fnuz  40 80       | eazpno  own             | 80
divide    e4m3fnuz  80 80       | eazpno  own             | 80
add       fp16      7C01 3C00   | eazpno  own             | 7E00
add       bf16      3F80 FFFF   | eazpno  own             | 7FC0
add       fp32      FF800001 00000000 | eazpno own        | 7FC00000
multiply  e8m0      FF 7F       | eazpno  own             | FF
divide    e8m0      7F FF       | eazpno  own             | FF
subtract  ue4m3     38 7F       | eazpno  own             | 7F
subtract  uf11      001 7E1     | eazpno  own             | 7E0
add       binary8p3se 80 FF     | eazpno  own             | 80
subtract  binary8p3ue FF 80     | eazpno  own             | FF
add       e5m2      FF 3C       | e       own             | 7F    | nan=preserve_sign
add       e5m2      FF 3C       | e       own             | 7B    | nan=max
add       e5m2      FF 3C       | e       own             | 00    | nan=zero
add       e5m2      FF 3C       | e       own             | FE    | nan=FE
add       e5m2      FF 3C       | e       own             | error | nan=error
add       e4m3      FF B8       | e       own             | 7F    | nan=preserve_sign
"""

# Unsigned rows: a difference below zero goes by `negative`; -0 is zero.
BELOW_ZERO = """
subtract  uint8     01 02       | eazpno  own             | 00
subtract  uint8     01 02       | e       own             | 01    | negative=abs
subtract  uint8     00 FF       | e       own             | FF    | negative=abs
subtract  uint8     01 02       | e       own             | error | negative=error
subtract  uint8     02 01       | e       own             | 01    | negative=error
subtract  uint8     02 02       | en      own             | 00    | negative=error
subtract  uint8     02 01       | e       own             | error | negative=nan
subtract  uint4     1 2         | eazpno  own             | 0
subtract  ue4m3     38 40       | eazpno  own,non         | 7F
subtract  ue4m3     38 40       | e       own             | 00    | negative=zero
subtract  ue4m3     38 40       | e       own             | 38    | negative=abs
subtract  ue4m3     38 40       | e       own             | error | negative=error
subtract  ue4m3     00 01       | eazpno  own             | 7F
subtract  ue5m3     78 80       | eazpno  own             | FF
subtract  uf11      3C0 400     | eazpno  own             | 000
subtract  uf11      3C0 400     | e       own             | 7E0   | negative=nan
subtract  uf11      3C0 7C0     | eazpno  own             | 000
subtract  uf11      3C0 7C0     | e       own             | 7C0   | negative=abs
subtract  uf10      1E0 200     | eazpno  own             | 000
subtract  e8m0      7F 80       | eazpno  own             | FF
subtract  e8m0      7F 80       | e       own             | 7F    | negative=abs
subtract  e8m0      7F 80       | e       own             | error | negative=error
subtract  binary8p3ue 80 84     | eazpno  own             | FF
subtract  binary8p3ue 80 FE     | eazpno  own             | FF
subtract  binary8p3uf 00 01     | eazpno  own             | FF
fma       uint8     01 02 03    | eazpno  own             | 05
fma       ue4m3     38 38 7F    | eazpno  own             | 7F
"""

# Ordinary results that show one rounding each: ties, integers, the even code of e8m0.
ROUNDED = """
# 1 + 1/16 and 9/8 + 1/16: ties between 1 and 9/8, 9/8 and 5/4
add       e4m3      38 18       | ezn     own             | 38
add       e4m3      38 18       | apo     own             | 39
add       e4m3      39 18       | eap     own             | 3A
add       e4m3      39 18       | zno     own             | 39
add       e4m3      B8 98       | ezp     own             | B8
add       e4m3      B8 98       | ano     own             | B9
# 1 - 2^-9: a small part of the step under 1, down to 15/16
subtract  e4m3      38 01       | eap     own             | 38
subtract  e4m3      38 01       | zno     own             | 37
# 9/8 * 9/8 = 81/64, between 80/64 and 88/64
multiply  e4m3      39 39       | eazn    own             | 3A
multiply  e4m3      39 39       | po      own             | 3B
# 1/3 lies between 5/16 and 6/16
divide    e5m2      3C 42       | eazno   own             | 35
divide    e5m2      3C 42       | p       own             | 36
divide    e5m2      BC 42       | eazpo   own             | B5
divide    e5m2      BC 42       | n       own             | B6
# 3 lies between the codes 80 and 81 of e8m0, midway; 80 is even
add       e8m0      7F 80       | ezn     own             | 80
add       e8m0      7F 80       | apo     own             | 81
subtract  e8m0      81 7F       | ezn     own             | 80
# 3.5, -3.5, 2.5, 127.5, 1.5
divide    int8      07 02       | eap     own             | 04
divide    int8      07 02       | zno     own             | 03
divide    int8      F9 02       | ean     own             | FC
divide    int8      F9 02       | zpo     own             | FD
divide    int8      05 02       | ezn     own             | 02
divide    int8      05 02       | apo     own             | 03
divide    uint8     FF 02       | eap     own             | 80
divide    uint8     FF 02       | zno     own             | 7F
divide    int4      3 2         | eap     own             | 2
divide    int4      3 2         | zno     own             | 1
# 1.5 * 1.5 = 2.25; 3/64 * 1/2 = 1.5/64; 64/48 * 64 = 85.33
multiply  mxint8    60 60       | eazpno  own             | 7F
multiply  mxint8    03 20       | eap     own             | 02
multiply  mxint8    03 20       | zno     own             | 01
divide    mxint8    40 30       | eazno   own             | 55
divide    mxint8    40 30       | p       own             | 56
"""

# fma rounds once, 5.4.1; 0 * Inf + c is NaN whatever c is, 7.2.
FMA = """
# 81/64 - 80/64 = 2^-6; with the product rounded first it would be 0
fma       e4m3      39 39 BA    | eazpno  own             | 08
fma       e4m3      01 01 01    | eazno   own             | 01
fma       e4m3      01 01 01    | p       own             | 02
fma       e4m3      7E 7E FE    | eazpno  sat             | 7E
fma       e4m3      7E 7E FE    | eap     non             | 7F
fma       e4m3      7E 7E FE    | zno     non             | 7E
# -(1 - 2^-32), between -1 and -7/8
fma       e5m2      01 01 BC    | ean     own             | BC
fma       e5m2      01 01 BC    | zpo     own             | BB
# the product alone would overflow
fma       e5m2      7B 40 FB    | eazpno  sat,non,prop,t3 | 7B
fma       e5m2      7B 40 FC    | eazpno  non,prop,t3     | FC
fma       e5m2      7B 40 FC    | eazpno  sat             | FB
fma       e5m2      7B 7B 7B    | eap     non             | 7C
# signs of zero
fma       e5m2      3C 3C BC    | eazpo   own             | 00
fma       e5m2      3C 3C BC    | n       own             | 80
fma       e5m2      3C BC 3C    | eazpo   own             | 00
fma       e5m2      3C BC 3C    | n       own             | 80
fma       e5m2      00 BC 80    | eazpno  own             | 80
fma       e5m2      00 BC 00    | eazpo   own             | 00
fma       e5m2      00 BC 00    | n       own             | 80
fma       e5m2      80 BC 80    | eazpo   own             | 00
fma       e5m2      80 BC 80    | n       own             | 80
fma       e5m2      80 BC 00    | eazpno  own             | 00
fma       e4m3fnuz  40 40 C0    | eazpno  own             | 00
fma       e4m3fnuz  00 C0 00    | eazpno  own             | 00
fma       int8      03 05 F1    | eazpno  own             | 00
# Inf and NaN
fma       e5m2      00 7C 3C    | eazpno  sat,non,prop,t3 | 7F
fma       e5m2      FC 80 7F    | eazpno  own             | 7F
fma       e5m2      7C 3C FC    | eazpno  own             | 7F
fma       e5m2      7C BC 7C    | eazpno  own             | 7F
fma       e5m2      7C 3C 7C    | eazpno  non             | 7C
fma       e5m2      7C BC FB    | eazpno  non             | FC
fma       e5m2      3C 3C 7C    | eazpno  sat             | 7B
fma       e5m2      3C 3C FF    | eazpno  own             | 7F
fma       e5m2      7D 00 7C    | eazpno  own             | 7F
fma       e4m3fnuz  40 80 40    | eazpno  own             | 80
fma       binary8p3se 00 7F 40  | eazpno  own             | 80
fma       e2m1      7 7 F       | eazpno  own             | 7
fma       int8      80 80 80    | eazpno  own             | 7F
fma       mxint8    03 20 00    | eap     own             | 02
fma       mxint8    03 20 00    | zno     own             | 01
fma       e8m0      7F 7F 7F    | eazpno  own             | 80
# (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: exact less 1 + 2^-11, and a tie that 2^-80 breaks (float64 loses it)
fma       fp32      3F800800 3F800800 BF801000 | eazpno own | 33800000
fma       fp32      3F800800 3F800800 00000000 | ezn   own  | 3F801000
fma       fp32      3F800800 3F800800 17800000 | eapo  own  | 3F801001
fma       fp32      3F800800 3F800800 17800000 | zn    own  | 3F801000
fma       fp32      3F800800 3F800800 97800000 | eazn  own  | 3F801000
fma       fp32      3F800800 3F800800 97800000 | po    own  | 3F801001
"""

# flush_input makes zeros of subnormal operands, flush_output of a subnormal result, after rounding.
FLUSHED = """
add       e5m2      01 01       | eazpno  own             | 02    | subnormals=keep
add       e5m2      01 01       | eazpno  own             | 00    | subnormals=flush_input
add       e5m2      01 01       | eazpno  own             | 00    | subnormals=flush_output
add       e5m2      81 81       | eazpno  own             | 80    | subnormals=flush_input
add       e5m2      81 81       | eazpno  own             | 80    | subnormals=flush_output
add       e5m2      81 02       | eazpo   own             | 00    | subnormals=flush_input
add       e5m2      81 02       | n       own             | 80    | subnormals=flush_input
add       e5m2      03 04       | eazpno  own             | 07    | subnormals=keep
add       e5m2      03 04       | eazpno  own             | 04    | subnormals=flush_input
add       e5m2      03 04       | eazpno  own             | 07    | subnormals=flush_output
subtract  e5m2      04 05       | eazpno  own             | 80    | subnormals=flush_output
multiply  e5m2      03 40       | eazpno  own             | 06    | subnormals=flush_output
multiply  e5m2      03 C0       | eazpno  own             | 80    | subnormals=flush_input
multiply  e5m2      7C 01       | eazpno  non             | 7F    | subnormals=flush_input
multiply  e5m2      7C 01       | eazpno  non             | 7C    | subnormals=flush_output
divide    e5m2      3C 03       | eazno   non             | 75    | subnormals=keep
divide    e5m2      3C 03       | eazpno  non             | 7C    | subnormals=flush_input
divide    e5m2      01 03       | eazpno  own             | 7F    | subnormals=flush_input
multiply  e4m3      01 4F       | eap     own             | 08    | subnormals=flush_output
multiply  e4m3      01 4F       | zno     own             | 00    | subnormals=flush_output
multiply  e4m3      81 4F       | zpo     own             | 80    | subnormals=flush_output
add       e4m3fnuz  81 81       | eazpno  own             | 00    | subnormals=flush_output
add       e2m1      1 1         | eazpno  own             | 2     | subnormals=flush_output
add       e2m1      1 1         | eazpno  own             | 0     | subnormals=flush_input
add       uf11      001 001     | eazpno  own             | 000   | subnormals=flush_output
fma       e5m2      3C 01 3C    | p       own             | 3D    | subnormals=keep
fma       e5m2      3C 01 3C    | p       own             | 3C    | subnormals=flush_input
fma       e5m2      3C 3C BD    | eazpno  own             | B4    | subnormals=flush_output
# no subnormals in the format
add       int8      01 01       | eazpno  own             | 02    | subnormals=flush_input
add       int8      01 01       | eazpno  own             | 02    | subnormals=flush_output
add       e8m0      00 00       | eazpno  own             | 01    | subnormals=flush_input
add       e8m0      00 00       | eazpno  own             | 01    | subnormals=flush_output
"""

SECTIONS: dict[str, str] = {
    "zero sums": ZERO_SUMS,
    "overflowing sums": OVERFLOWING_SUMS,
    "inf sums": INF_SUMS,
    "zero products": ZERO_PRODUCTS,
    "underflow": UNDERFLOW,
    "inf products": INF_PRODUCTS,
    "by zero": BY_ZERO,
    "invalid quotients": INVALID_QUOTIENTS,
    "nan operands": NAN_OPERANDS,
    "below zero": BELOW_ZERO,
    "rounded": ROUNDED,
    "fma": FMA,
    "flushed": FLUSHED,
}

# 5.11: 0 less, 1 equal, 2 greater, 3 unordered.  Format, operands, verdict.
COMPARED = """
e5m2        00 80   1
e5m2        80 00   1
e5m2        3C 40   0
e5m2        40 3C   2
e5m2        BC C0   2
e5m2        C0 BC   0
e5m2        BC 3C   0
e5m2        3C 3C   1
e5m2        BC BC   1
e5m2        81 80   0
e5m2        81 01   0
e5m2        01 80   2
e5m2        7C 7B   2
e5m2        FC FB   0
e5m2        FC 7C   0
e5m2        FC 00   0
e5m2        7C 7C   1
e5m2        FC FC   1
e5m2        7D 7D   3
e5m2        7F 00   3
e5m2        00 FF   3
e5m2        7C 7E   3
e4m3        7E FE   2
e4m3        FF FF   3
e4m3fnuz    80 00   3
e4m3fnuz    00 00   1
e4m3fnuz    FF 7F   0
e8m0        00 01   0
e8m0        FF FF   3
ue4m3       7F 7E   3
uf11        7C0 7BF 2
int8        80 7F   0
int8        FF 00   0
int8        80 80   1
uint8       80 7F   2
nf4         0 F     0
nf4         7 7     1
nf4         8 7     2
fp4_bnb     0 8     1
fp4_bnb     3 2     2
fp4_bnb     B 2     0
binary8p3se FF 00   0
binary8p3se FF 80   3
fp32        80000000 00000000 1
fp32        00000001 80000000 2
fp32        7F800000 7F7FFFFF 2
fp32        7FC00000 7FC00000 3
"""
