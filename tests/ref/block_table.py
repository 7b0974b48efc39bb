"""Hand-written edges of block formats: what a block becomes, cell by cell.

Typed from OCP MX 1.0 (5.1 to 6.3), from the definitions of the rules, and worked out with fractions on
paper; only tests read it, and no code computes a cell.  Numbers are float32 bits or short decimals, codes hex.
"""

from __future__ import annotations

# rule, element of the format, greatest magnitude of the block | scale code (e8m0: 2**(code - 127))
# emax is 8 for e4m3, 15 for e5m2, 2 for e2m1 and e2m3, 4 for e3m2, 0 for mxint8.
E8M0_SCALES = """
floor    mxfp8_e4m3   448.0                        | 7F
floor    mxfp8_e4m3   256.0                        | 7F
floor    mxfp8_e4m3   255.99998474121094           | 7E
floor    mxfp8_e4m3   957.0                        | 80
floor    mxfp8_e5m2   127.99999237060547           | 76
floor    mxfp4        3.999999761581421            | 7E
floor    mxfp4        4.0                          | 7F
floor    mxfp4        7.999999523162842            | 7F
floor    mxfp4        1048575.9375                 | 90
floor    mxfp4        6.5                          | 7F
floor    mxfp4        7.0                          | 7F
floor    mxint8       1.0                          | 7F
floor    mxint8       1.9999998807907104           | 7F
floor    mxint8       2.0                          | 80
floor    mxfp6_e3m2   16.0                         | 7F
floor    mxfp6_e2m3   7.5                          | 7F
ceil     mxfp8_e4m3   256.0                        | 7F
ceil     mxfp8_e4m3   256.000030517578125          | 80
ceil     mxfp8_e4m3   448.0                        | 80
ceil     mxfp4        4.0                          | 7F
ceil     mxfp4        4.000000476837158            | 80
ceil     mxfp8_e4m3   957.0                        | 81
even     mxfp4        6.9                          | 7F
even     mxfp4        6.999999523162842            | 7F
even     mxfp4        7.0                          | 80
even     mxfp4        6.5                          | 7F
even     mxfp8_e4m3   495.99996948242188           | 7F
even     mxfp8_e4m3   496.0                        | 80
even     mxfp8_e5m2   57344.0                      | 7F
even     mxfp8_e5m2   61440.0                      | 80
even     mxfp6_e2m3   7.75                         | 80
even     mxfp6_e2m3   7.7499995231628418           | 7F
even     mxint8       1.9921875                    | 80
even     mxint8       1.9921873807907104           | 7F
rceil    mxfp8_e4m3   448.0                        | 7F
rceil    mxfp8_e4m3   448.000030517578125          | 80
rceil    mxfp8_e4m3   957.0                        | 81
rceil    mxfp8_e5m2   127.99999237060547           | 77
rceil    mxfp4        6.0                          | 7F
rceil    mxfp4        6.000000476837158            | 80
rceil    mxfp4        6.5                          | 80
rceil    mxfp4        6.9                          | 80
rceil    mxfp4        7.0                          | 80
rceil    mxint8       1.984375                     | 7F
rceil    mxint8       1.9843751192092896           | 80
nearest  mxfp8_e4m3   448.0                        | 7F
nearest  mxfp8_e4m3   672.0                        | 80
nearest  mxfp8_e4m3   671.99993896484375           | 7F
nearest  mxfp4        9.0                          | 80
nearest  mxfp4        18.0                         | 80
nearest  mxfp4        18.000001907348633           | 81
floor    mxfp8_e4m3   1.1754943508222875e-38       | 00
floor    mxfp8_e4m3   1.504632769052528e-36        | 00
floor    mxfp8_e4m3   3.009265538105056e-36        | 01
floor    mxfp8_e4m3   1.401298464324817e-45        | 00
floor    mxfp8_e4m3   3.4028234663852886e+38       | F6
floor    mxfp4        3.4028234663852886e+38       | FC
floor    mxint8       3.4028234663852886e+38       | FE
ceil     mxint8       3.4028234663852886e+38       | FE
rceil    mxint8       3.4028234663852886e+38       | FE
floor    mxint8       0.0                          | 00
ceil     mxfp4        0.0                          | 00
even     mxfp8_e5m2   0.0                          | 00
rceil    mxfp8_e4m3   0.0                          | 00
nearest  mxfp8_e4m3   0.0                          | 00
"""

# format, rule ("-": its own), numbers (as float() reads them; b... is float32 bits) | codes | scales [| values]
BLOCKS = """
mxfp8_e4m3  -              0 -0 0                        | 00 80 00       | 00  | 0 -0 0
mxfp4       -              0 -0                          | 0 8            | 00  | 0 -0
mxfp8_e4m3  -              1 nan 2                       | 7F 7F 7F       | FF  | nan nan nan
mxfp8_e5m2  -              1 nan inf                     | 7F 7F 7F       | FF  | nan nan nan
mxfp4       -              1 nan 2                       | 0 0 0          | FF  | nan nan nan
mxint8      -              nan                           | 00             | FF  | nan
mxfp8_e4m3  -              256 inf -inf                  | 78 7E FE       | 7F  | 256 448 -448
mxfp8_e5m2  -              32768 inf -inf                | 78 7B FB       | 7F  | 32768 57344 -57344
mxfp4       -              inf -inf                      | 7 F            | 00  | b01400000 b81400000
mxfp4       -              4 inf 1                       | 6 7 2          | 7F  | 4 6 1
mxfp4       -              5 2.5 3.5 0.25 0.75 1.25 1.75 | 6 4 6 0 2 2 4  | 7F  | 4 2 4 0 1 1 2
mxfp4       -              4 -1.25 b3E800000 b3E800001   | 6 A 0 1        | 7F  | 4 -1 0 0.5
mxfp4       floor          6.5 6.9 7                     | 7 7 7          | 7F  | 6 6 6
mxfp4       even           7 6.5 6                       | 6 5 5          | 80  | 8 6 6
mxfp4       rceil          6.5                           | 5              | 80  | 6
mxfp8_e4m3  floor          957                           | 7E             | 80  | 896
mxfp8_e4m3  rceil          957                           | 77             | 81  | 960
mxfp8_e5m2  floor          b42FFFFFF                     | 7B             | 76  | 112
mxfp8_e5m2  rceil          b42FFFFFF                     | 78             | 77  | 128
mxfp8_e4m3  -              b00000001 b00400000           | 00 38          | 00  | 0 b00400000
mxfp8_e4m3  -              b80000001                     | 80             | 00  | -0
mxint8      -              1 -1 2                        | 20 E0 40       | 80  | 1 -1 2
mxint8      -              1.9999998807907104 -1.99      | 7F 81          | 7F  | 1.984375 -1.984375
mxint8      -              -1.9999998807907104           | 80             | 7F  | -2
mxfp6_e3m2  -              28 -0.0625 0.03125            | 1F 21 00       | 7F  | 28 -0.0625 0
mxfp6_e2m3  -              7.5 0.125 0.0625 0.1875       | 1F 01 00 02    | 7F  | 7.5 0.125 0 0.25
q4_0        -              8 -8 4 -3.5                   | 8 7 C 4        | BC00 | 8 -7 4 -4
q4_0        -              0 -0                          | 0 0            | 8000 | -0 -0
ggml_mxfp4  -              4 2.5 5 -0 -0.1 -2.5          | 6 4 6 0 0 C    | 7F  | 4 2 4 0 0 -2
ggml_nvfp4  -              6 5 2.5 -0 -0.25 -2.5         | 7 6 4 0 0 C    | 38  | 6 4 2 0 0 -2
ggml_nvfp4  -              1488 1                        | 5 0            | 7E  | 1344 0
ggml_nvfp4  -              1487 1                        | 7 0            | 77  | 1440 0
ggml_nvfp4  -              0.0146484375 -0.01            | 7 F            | 01  | 0.01171875 -0.01171875
ggml_nvfp4  -              0.005 -0.01                   | 5 F            | 01  | 0.005859375 -0.01171875
ggml_nvfp4  -              0.005                         | 0              | 00  | 0
ggml_nvfp4  -              0.0927734375                  | 7              | 07  | 0.08203125
nvfp4       -              2688 448 -224                 | 7 2 9          | 7E  | 2688 448 -224
nvfp4       -              0 -0                          | 0 8            | 00  | 0 -0
nvfp4       nvfp4_te2026   0 -0                          | 0 8            | 00  | 0 -0
nvfp4       nvfp4_te2025   0 -0                          | 0 8            | 00  | 0 -0
nvfp4       nvfp4_torchao  0 -0                          | 0 8            | 08  | 0 -0
nvfp4       nvfp4_torchao  2688 448 -224                 | 7 2 9          | 7E  | 2688 448 -224
nvfp4       -              1 nan                         | 0 0            | 7F  | nan nan
int8_g32    -              127 -127 63.5                 | 7F 81 40       | 3F800000 | 127 -127 64
int8_g32    -              0 -0                          | 00 00          | 3F800000 | 0 0
int4_g32    -              7 -8 2.5                      | 6 9 2          | 3F924925 | b40DB6DB8 bC1000000 b40124925
fp8_1x128   -              896 -448 2 0                  | 7E F6 38 00    | 40000000 | 896 -448 2 0
fp8_1x128   -              3.4028234663852886e38         | 7E             | 7B124924 | b7F7FFFFF
q8_0        -              127 -0.5 0.5 1.5              | 7F FF 01 02    | 3C00 | 127 -1 1 2
"""
