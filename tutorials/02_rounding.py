# %% [markdown]
# # 02 Rounding at the edge
#
# After this you can
#
# - find the byte for any number, ties included,
# - name the bits that decide,
# - see why rounding twice goes wrong.
#
# About 25 minutes. You need [01](01_one_byte.ipynb). No GPU.

# %%
try:
    import feather_ref as fr
except ImportError:
    # %pip install -q "feather-ref[draw]==0.1.0.dev0"
    import feather_ref as fr
# %matplotlib inline

# %% [markdown]
# ## Between two bytes
#
# A byte has 256 values, a float32 has four billion. So most numbers lie between two bytes, and **rounding** picks
# one. Each step below is one byte of e4m3. A full dot says "this end belongs to me", an empty one "it does not":

# %%
import numpy as np

from feather_ref import conformance, draw

draw.rounding_regions("e4m3", 1.0, 1.5)

# %% [markdown]
# ## By hand
#
# Take 1.1. Its neighbours are 1 (byte `38`) and 1.125 (byte `39`), and half way between them lies 1.0625. As 1.1
# is above, it goes up. And 1.0625 itself? It is a **tie**: both are equally near. The rule takes the **even** byte,
# whose last bit is 0: `38`.

# %%
ties = np.float32([1.0625, 1.1875, 1.3125, 1.4375])
codes = fr.encode(ties, "e4m3")
for x, code in zip(ties, codes, strict=True):
    print(f"{x} -> {code:02X} = {fr.decode(code, 'e4m3')}")
assert codes.tolist() == [0x38, 0x3A, 0x3A, 0x3C]

# %% [markdown]
# Two ties went down and two went up. That is the reason for the rule: if ties always went up, a sum of many rounded
# numbers would slowly drift upwards.

# %% [markdown]
# ## Guard and sticky
#
# A float32 has 23 mantissa bits; e4m3 keeps 3. The first bit that falls away is the **guard** bit: it is worth half
# a step. All the bits after it count only as one question: is any of them 1? The answer is the **sticky** bit.
# These two decide, and for a tie the last kept bit.

# %%
bits = int(np.float32(1.1).view(np.uint32))
kept, guard, sticky = bits >> 20, bits >> 19 & 1, bits & 0x7FFFF != 0
print(f"{bits >> 23:09b} {bits >> 20 & 7:03b} | {guard} | {bits & 0x7FFFF:019b}")
print("sign and exponent, 3 kept bits | guard | the rest; sticky:", sticky)
assert (guard, sticky) == (1, True)

# %% [markdown]
# - guard 0: below the middle, go down
# - guard 1, sticky 1: above the middle, go up
# - guard 1, sticky 0: a tie, so go up only if the kept bits are odd
#
# In one line: up if guard and (sticky or odd). Then the exponent's bias changes from 127 to 7:

# %%
def round_normal(x: float) -> int:
    bits = int(np.float32(x).view(np.uint32))
    kept, guard, sticky = bits >> 20, bits >> 19 & 1, bits & 0x7FFFF != 0
    up = guard and (sticky or kept & 1)
    return kept + int(up) - (127 - 7 << 3)


x = np.linspace(1, 448, 5000, dtype=np.float32)
assert [round_normal(v) for v in x] == fr.encode(x, "e4m3").tolist()

# %% [markdown]
# ## The carry walks by itself
#
# Round 1.95 up, and the mantissa `111` is full. Adding 1 makes it `000` and carries into the exponent: `0 0111 111`
# + 1 = `0 1000 000`, which is 2.0. No special case is needed. That is why the exponent stands left of the mantissa.

# %%
code = round_normal(1.95)
print(f"{0x3F:08b} + 1 = {code:08b}")
assert code == 0x3F + 1 == 0x40
assert fr.decode(np.uint8(code), "e4m3") == 2.0
draw.bit_fields("e4m3", code)

# %% [markdown]
# ## Rounding twice
#
# Now take a float64 just above a tie: 1.0625 + 2^-40. One rounding must go up. But on the way through float32, whose
# last bit here is worth 2^-23, the tiny part is lost. What arrives is a perfect tie, and goes down.

# %%
x = np.float64(1.0625 + 2.0**-40)
once = fr.encode(x, "e4m3")
twice = fr.encode(np.float32(x), "e4m3")
print(f"once {once:02X} = {fr.decode(once, 'e4m3')}, twice {twice:02X} = {fr.decode(twice, 'e4m3')}")
assert (once, twice) == (0x39, 0x38)

# %% [markdown]
# ## Other directions
#
# Nearest-even is the usual rule, but not the only one. Here it is an argument, `rounding=`, and the explanation of a
# number says where each rule would send it, and why:

# %%
down = fr.encode(np.float32(1.1), "e4m3", rounding="toward_zero")
up = fr.encode(np.float32(1.01), "e4m3", rounding="toward_positive")
assert (down, up) == (0x38, 0x39)
fr.explain("e4m3", value=1.1)

# %% [markdown]
# ## A common mistake
#
# Forgetting the sticky bit. A converter [rounded 1.8131605 to
# 1.75](https://github.com/microsoft/onnxruntime/issues/16938), though 1.875 is nearer. It took a number just above
# the middle for a tie, as if nothing came after the guard bit.

# %%
bits = int(np.float32(1.8131605).view(np.uint32))
kept, guard = bits >> 20, bits >> 19 & 1
wrong = kept + (guard & kept & 1) - (127 - 7 << 3)
right = round_normal(1.8131605)
print(f"wrong {wrong:02X}, right {right:02X}")
assert (wrong, right) == (0x3E, 0x3F)

# %% [markdown]
# ## Your turn
#
# **bf16** is the upper half of a float32: 7 mantissa bits, the same bias. `float32_bits` gives you the 32 bits.
# Round to nearest even and return the upper 16 as an int. The carry may turn the greatest numbers into infinity, and
# that is right. For NaN return `0x7FC0`.

# %%
import struct


def float32_bits(x: float) -> int:
    return struct.unpack("<I", struct.pack("<f", x))[0]


assert float32_bits(1.0) == 0x3F800000

# %% tags=["exercise"]
def my_bf16(x: float) -> int:
    raise NotImplementedError("your code goes here")


# %% tags=["judge"]
result = conformance.check(my_bf16, "bf16", scalar=True)
print("Solved!" if result else "Not solved yet, and that is fine. The judge says:", result, sep="\n")

# %% [markdown]
# ## In the standard
#
# IEEE 754-2019, section 4.3: roundTiesToEven and the other directions. OFP8 1.0, on conversion: round to nearest
# even must be there, others may.
#
# Next: [03 Overflow, NaN and infinity](03_overflow.ipynb), for numbers beyond the last byte.
#
# Text and figures: CC BY 4.0. Code: Apache-2.0.
