# %% [markdown]
# # 03 Overflow, NaN and infinity: whose rules
#
# After this you can
#
# - find by hand where a format overflows,
# - name the choices that libraries make there,
# - say which choice you want, instead of getting one.
#
# About 20 minutes. You need [02](02_rounding.ipynb). No GPU.

# %%
try:
    import feather_ref as fr
except ImportError:
    # %pip install -q "feather-ref[draw]==0.1.0.dev0"
    import feather_ref as fr
# %matplotlib inline

# %% [markdown]
# ## The last step
#
# The greatest e4m3 is 448, byte `7E`. If there were one more, it would be 480. So first we **round** as if it
# existed, and only then ask whether the result is beyond the end. Half way between 448 and 480 lies 464:

# %%
import numpy as np

from feather_ref import conformance, draw

draw.rounding_regions("e4m3", 410, 520, overflow="nonsaturating")

# %% [markdown]
# ## By hand
#
# 464 is a tie. The even byte is `7E`, so 464 still becomes 448, without overflow. The very next float32 is above the
# middle, rounds to 480, and that does not exist. What now? The standard knows two answers: **saturate**, which means
# stay at 448, or give NaN.

# %%
x = np.float32([464, np.nextafter(np.float32(464), np.float32(500)), 1000, np.inf])
saturated = fr.encode(x, "e4m3", overflow="saturate")
let_go = fr.encode(x, "e4m3", overflow="nonsaturating")
print("saturate     ", [f"{code:02X}" for code in saturated])
print("nonsaturating", [f"{code:02X}" for code in let_go])
assert saturated.tolist() == [0x7E, 0x7E, 0x7E, 0x7E]
assert let_go.tolist() == [0x7E, 0x7F, 0x7F, 0x7F]

# %% [markdown]
# Both are right. Saturating keeps a training run alive; NaN tells you that something went wrong. What is not right
# is to mix them without knowing.

# %% [markdown]
# ## A format with infinity
#
# **e5m2** has infinity, byte `7C`. Its greatest number is 57344, a further one would be 65536, and the middle is
# 61440. There the even byte is the one *above*, `7C`. So here the tie itself overflows:

# %%
x = np.float32([61439, 61440, np.inf])
saturated = fr.encode(x, "e5m2", overflow="saturate")
let_go = fr.encode(x, "e5m2", overflow="nonsaturating")
print(fr.decode(saturated, "e5m2"), fr.decode(let_go, "e5m2"))
assert saturated.tolist() == [0x7B, 0x7B, 0x7B]
assert let_go.tolist() == [0x7B, 0x7C, 0x7C]

# %% [markdown]
# Note that saturating takes infinity away too: it becomes 57344. Some libraries clamp numbers and keep infinity.
# That choice is called `"propagate"` here.

# %% [markdown]
# ## Who does what
#
# A **profile** holds the choices of one library. Here is the same number, 1000, and the same infinity, in e4m3. Two
# releases of one library even differ:

# %%
x = np.float32([1000, np.inf])
for name in ("ml_dtypes", "torch<=2.11", "torch>=2.12", "onnx"):
    print(f"{name:12}", fr.quantize(x, "e4m3", profile=name))
assert np.isnan(fr.quantize(x, "e4m3", profile="ml_dtypes")).all()
assert np.all(fr.quantize(x, "e4m3", profile="torch>=2.12") == 448)

# %% [markdown]
# ## One byte, three meanings
#
# The byte `80` is -0 in e4m3. The format **e4m3fnuz** of some accelerators has no -0: there `80` is the only NaN,
# and its bias is 8. In **int8** it is -128. Bytes never say which format they are in.

# %%
byte = np.uint8(0x80)
values = {name: float(fr.decode(byte, name)) for name in ("e4m3", "e4m3fnuz", "int8")}
print(values)
assert np.isnan(values["e4m3fnuz"]) and values["int8"] == -128
draw.bit_fields("e4m3fnuz", 0x80)

# %% [markdown]
# ## No room for NaN
#
# Formats of 4 and 6 bits spend every code on a number. What shall become of NaN? We refuse, unless you say so: an
# error at once is better than a silent 0 in the weights.

# %%
try:
    fr.encode([1.0, np.nan], "e2m1")
except ValueError as error:
    print(error)
codes = fr.encode([1.0, np.nan], "e2m1", nan="max")
assert fr.decode(codes, "e2m1").tolist() == [1.0, 6.0]

# %% [markdown]
# ## A common mistake
#
# Asking for NaN with another format's rule. A library's test for NaN in e4m3 [looked for
# `80`](https://github.com/ROCm/rocm-libraries/pull/5792), which is right for FNUZ. So it called -0 a NaN and let the
# two real ones, `7F` and `FF`, pass as numbers.

# %%
codes = np.arange(256, dtype=np.uint8)
wrong = codes == 0x80
right = fr.isnan(codes, "e4m3")
print([f"{code:02X}" for code in codes[wrong != right]])
assert codes[wrong != right].tolist() == [0x7F, 0x80, 0xFF]

# %% [markdown]
# ## Your turn
#
# `saturating` below never gives NaN for a number. Use it to write `my_code`, which does not saturate: beyond the
# last step it gives `7F`, or `FF` for a negative number. Infinity overflows as well. NaN stays NaN.

# %%
def saturating(x: float) -> int:
    return int(fr.encode(x, "e4m3", overflow="saturate"))


assert saturating(1000.0) == 0x7E

# %% tags=["exercise"]
def my_code(x: float) -> int:
    raise NotImplementedError("your code goes here")


# %% tags=["judge"]
result = conformance.check(my_code, "e4m3", overflow="nonsaturating", scalar=True)
print("Solved!" if result else "Not solved yet, and that is fine. The judge says:", result, sep="\n")

# %% [markdown]
# ## In the standard
#
# OFP8 1.0, on conversion: first round, then compare with the greatest number. A saturating and a non-saturating mode
# must both exist; which one is the default is left to you.
#
# Next: [04 Packing words](04_packing_words.ipynb), four bytes in one go.
#
# Text and figures: CC BY 4.0. Code: Apache-2.0.
