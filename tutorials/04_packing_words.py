# %% [markdown]
# # 04 Packing words
#
# After this you can
#
# - lay four bytes, or sixteen 6-bit codes, into 32-bit words,
# - spot three lines of NumPy that look right and lose numbers,
# - read a packed word in either order.
#
# About 30 minutes. You need [03](03_overflow.ipynb) and hex. No GPU.

# %%
try:
    import feather_ref as fr
except ImportError:
    # %pip install -q "feather-ref[draw]==0.1.0.dev0"
    import feather_ref as fr
# %matplotlib inline

# %% [markdown]
# ## Why words
#
# A GPU fetches memory in words of 32 bits or more. So four bytes of e4m3 travel together, each in a **lane** of its
# own. Here are 0.5, 2, 0.75 and 3, with the first number in the high bits:

# %%
import numpy as np

from feather_ref import conformance, draw

draw.word(0x30403444, "e4m3", order="big")

# %% [markdown]
# ## By hand
#
# 0.5 is 1 × 2^-1. The bias is 7, so the exponent field is 6: `0 0110 000`, byte `30`. 2 has field 8: `0 1000 000`,
# byte `40`. 0.75 = 1.5 × 2^-1 is `34`, and 3 = 1.5 × 2^1 is `44`. Side by side: **30403444**. You write such a word
# from left to right, as you write the numbers.

# %% [markdown]
# The article that this project grew from packs numbers with three short lines of NumPy. Below are those three ideas,
# each reduced to its core. Please guess what each prints before you run it.

# %% [markdown]
# ## Line one: shift by 16
#
# Two float16, 0.5 = `3800` and 2 = `4000`, shall become one word. Shift the first up by 16 places, and put the second
# below it:

# %%
a, b = np.float16([0.5, 2.0]).view(np.uint16)
word = (a << 16) | b
print(f"{a:04X} {b:04X} -> {word:08X}, a {word.dtype}")
assert word == 0x4000

# %% [markdown]
# The 0.5 is gone. `a` has 16 bits, and in NumPy the result of a shift has as many as its input. Shifted by 16, all of
# them fall off the end. There is no error and no warning. The remedy: make room first.

# %%
word = (np.uint32(a) << 16) | b
print(f"{word:08X}")
assert word == 0x38004000
assert word == fr.pack_fp16([0.5, 2.0], order="big")[0]

# %% [markdown]
# ## Line two: the low byte as FP8
#
# FP8 has 8 bits and a float16 has 16. Why not keep 8 of them? The line takes the low byte. Guess, then look:

# %%
x = np.float16([0.5, 2.0, 0.75, 3.0])
halves = x.view(np.uint16)
low = halves & 0xFF
print([f"{h:04X}" for h in halves], "->", [f"{byte:02X}" for byte in low])
assert not low.any()

# %% [markdown]
# Everything is zero. The low byte holds the last bits of the mantissa, which matter least. The sign, the exponent and
# the first two mantissa bits are in the **high** byte, as the picture of 0.75 shows. One sign, five exponent and two
# mantissa bits: that is just e5m2.

# %%
high = halves >> 8
word = int.from_bytes(high.astype(np.uint8).tobytes(), "big")
print(f"{word:08X}")
assert word == 0x38403A42 == fr.pack_e5m2(x, order="big")[0]
draw.bit_fields("fp16", 0x3A00)

# %% [markdown]
# But the high byte alone *cuts*, it does not round: 0.99 becomes 0.875, although 1 is much nearer. And a NaN whose
# only set bits are low turns into infinity. You will mend this line below.

# %%
x = np.array([0x3BEC, 0x7C01], np.uint16).view(np.float16)
cut = (x.view(np.uint16) >> 8).astype(np.uint8)
print(x, "cut:", fr.decode(cut, "e5m2"), "rounded:", fr.decode(fr.encode(x, "e5m2"), "e5m2"))
assert cut.tolist() == [0x3B, 0x7C]
assert fr.encode(x, "e5m2").tolist() == [0x3C, 0x7F]

# %% [markdown]
# ## Line three: the word as a float32
#
# The words are then kept in a float32 array: also 32 bits, so what could go wrong? Nothing, while nobody touches them.
# But take the FP4 numbers 6, -6, -1 and five zeros, and let one word pass through Python:

# %%
words = fr.pack([6, -6, -1, 0, 0, 0, 0, 0], "e2m1", order="big")
box = words.view(np.float32)
back = np.float32(box.item()).view(np.uint32)
print(f"{words[0]:08X} -> {back:08X}", fr.unpack([back], "e2m1", order="big"))
assert (words[0], back) == (0x7FA00000, 0x7FE00000)

# %% [markdown]
# -1 has become -4. As a float32 the pattern `7FA00000` is a NaN of the **signalling** sort. `.item()` makes a Python
# number of it, and hardware then sets one bit to make it quiet. `.tolist()` does the same, and so may a sort or an
# addition.

# %% [markdown]
# At the other end, a word that begins with a zero code looks like a subnormal float32. Much fast code treats those as
# zero ("flush to zero"). We imitate such code here; three good numbers vanish:

# %%
words = fr.pack_e4m3([0, 0.5, 2, 3], order="big")
box = words.view(np.float32)
flushed = np.where(np.abs(box) < 2.0**-126, np.float32(0), box)
print(f"{words[0]:08X} = {box[0]} ->", fr.unpack_e4m3(flushed.view(np.uint32), order="big"))
assert words[0] == 0x00304044
assert not flushed.view(np.uint32).any()

# %% [markdown]
# So keep words as `uint32`. Where a library insists on float32, `fr.as_float32` gives such a view, `fr.from_float32`
# takes it back, and in between nobody should calculate.

# %% [markdown]
# ## Which end first
#
# Most libraries put the first number in the **low** bits, the article in the **high** bits. Both are fine if both
# sides know. Here `order=` says it, and low bits first is the default:

# %%
x = [0.5, 2.0, 0.75, 3.0]
little, big = fr.pack_e4m3(x)[0], fr.pack_e4m3(x, order="big")[0]
print(f"{little:08X} {big:08X}")
assert (little, big) == (0x44344030, 0x30403444)
draw.word(little, "e4m3")

# %% [markdown]
# ## Codes that cross the border
#
# Six does not divide 32. So the codes simply lie end to end, and some begin in one word and end in the next. After 16
# codes, 96 bits or 3 words, it comes out even:

# %%
x = np.float32([1, 2, 3, 4] * 4)
words = fr.pack(x, "e3m2")
print([f"{word:08X}" for word in words])
assert words.size == 3 and np.all(fr.unpack(words, "e3m2") == x)
draw.word(words[0], "e3m2")

# %% [markdown]
# ## A common mistake
#
# Swapping the two halves of a byte. Two FP4 codes share it; one library put [the first in the high
# half](https://github.com/pytorch/ao/pull/3123), most others read it from the low half. Then every pair of weights
# changes places, and nothing crashes. A test with equal neighbours never sees it.

# %%
first, second = fr.encode([0.5, 6.0], "e2m1")
wrong, right = first << 4 | second, second << 4 | first
print(f"wrong {wrong:02X}, right {right:02X}")
assert (wrong, right) == (0x17, 0x71)
assert right == fr.pack([0.5, 6.0], "e2m1")[0]

# %% [markdown]
# ## Your turn
#
# Mend line two. `float16_bits` gives the 16 bits; return the byte of e5m2, rounded to nearest even as in 02. Too big
# becomes infinity, which the carry does by itself. For NaN return `0x7F`. The judge tries all 65,536 float16.

# %%
import struct


def float16_bits(x: float) -> int:
    return struct.unpack("<H", struct.pack("<e", x))[0]


assert float16_bits(0.75) == 0x3A00

# %% tags=["exercise"]
def my_e5m2(x: float) -> int:
    raise NotImplementedError("your code goes here")


# %% tags=["judge"]
result = conformance.check(my_e5m2, "e5m2", source="fp16", overflow="nonsaturating", scalar=True)
print("Solved!" if result else "Not solved yet, and that is fine. The judge says:", result, sep="\n")

# %% [markdown]
# ## In the standard
#
# IEEE 754-2019, table 3.5, has the fields of float16, and 6.2.1 the two sorts of NaN. How wide a shift is, NumPy's
# [NEP 50](https://numpy.org/neps/nep-0050-scalar-promotion.html) says. Each file format orders its own lanes:
# [ONNX](https://onnx.ai/onnx/technical/float4.html) puts the first in the low bits.
#
# Next: [05 Blocks and scales](05_blocks.ipynb), when a number alone has too few bits.
#
# Text and figures: CC BY 4.0. Code: Apache-2.0.
