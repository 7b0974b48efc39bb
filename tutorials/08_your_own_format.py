# %% [markdown]
# # 08 Bring your own format
#
# After this you can
#
# - describe a number format in one row,
# - encode, pack, draw and judge it with the same functions as all others,
# - see what each entry of the row decides.
#
# About 25 minutes. You need [04](04_packing_words.ipynb). No GPU.

# %%
try:
    import feather_ref as fr
except ImportError:
    # %pip install -q "feather-ref[draw]==0.1.0.dev0"
    import feather_ref as fr
# %matplotlib inline

# %% [markdown]
# ## One row
#
# Say you store the brightness of pixels. It is never negative, so no sign. Six bits: three exponent, three mantissa.
# Negative numbers, should one come, become 0. That is a whole format:

# %%
import numpy as np

from feather_ref import blocks, conformance, draw

light = fr.Format("light", bits=6, exponent_bits=3, mantissa_bits=3, bias=3, signed=False, negative="zero")
draw.number_line(light, log=True)

# %% [markdown]
# ## By hand
#
# The greatest code is `111 111`: exponent 7, mantissa 7. Its value is 2^(7-3) × (1 + 7/8) = **30**. The smallest above
# zero is `000 001`, subnormal: 2^(1-3) × 1/8 = **1/32**. From 30 down to 1/32: a range of 960 to 1 in six bits.

# %%
print(light.max, light.min_subnormal)
assert (light.max, light.min_subnormal) == (30, 1 / 32)
draw.bit_fields(light, 0b111_111)

# %% [markdown]
# ## Everything works
#
# All functions take the row where they take a name. Nothing is registered, nothing else is written:

# %%
x = np.float32([0, 0.3, 1, 7.7, 100, -2])
codes = fr.encode(x, light)
words = fr.pack(x, light)
print([f"{code:02X}" for code in codes], [f"{word:08X}" for word in words])
print(fr.unpack(words, light, len(x)))
assert fr.unpack(words, light, len(x)).tolist() == [0, 0.3125, 1, 7.5, 30, 0]

# %%
page = fr.explain(light, value=0.3)
assert page.code == 0x0A
page

# %% [markdown]
# ## Who says that it is right?
#
# The **oracle** does: a second, slow implementation with exact fractions, which knows nothing of the fast one. It
# reads the same row. So your format has a judge from the first minute:

# %%
verdict = conformance.check(lambda x: fr.encode(x, light), light)
print(verdict)
assert verdict

# %% [markdown]
# ## A row that contradicts itself
#
# It is refused, with the reason. Better now than after a night of training. Here the fields make six bits and the row
# says seven:

# %%
try:
    fr.Format("wrong", bits=7, exponent_bits=3, mantissa_bits=3, bias=3, signed=False)
except ValueError as error:
    message = str(error)
print(message)
assert "make 6 bits, not 7" in message

# %% [markdown]
# ## In blocks too
#
# A block format is a row as well: an element, a size, a scale. Here 16 of our numbers share one power of two, so that
# a dark picture keeps its detail:

# %%
tiles = blocks.BlockFormat("light16", light, (16,), fr.get_format("e8m0"), "floor")
dark = np.linspace(0, 0.001, 16, dtype=np.float32)
tensor = blocks.quantize_blocks(dark, tiles)
print(tensor, float(np.abs(tensor.dequantize() - dark).max()))
assert not fr.quantize(dark, light).any()
assert np.abs(tensor.dequantize() - dark).max() < 0.001 / 16

# %% [markdown]
# ## A common mistake
#
# Right bits, wrong ends. Two formats can have the same fields, and differ in what the highest codes mean. A library
# read [UE5M3 by the rule of IEEE](https://github.com/NVIDIA/cutlass/issues/3602), which keeps the last exponent for
# infinity and NaN. In that format these codes are numbers, and all of them were lost.

# %%
fields = {"bits": 8, "exponent_bits": 5, "mantissa_bits": 3, "bias": 15, "signed": False}
finite = fr.Format("finite", **fields, nan="all_ones")
ieee = fr.Format("ieee", **fields, inf="ieee", nan="ieee")
top = np.arange(248, 255, dtype=np.uint8)
print(fr.decode(top, ieee), fr.decode(top, finite), sep="\n")
assert fr.decode(top, finite).tolist() == fr.decode(top, "ue5m3").tolist()
assert (finite.max, ieee.max) == (114688, 61440)

# %% [markdown]
# ## Your turn
#
# Write an encoder for a format with only sixteen codes, by **search**: take the code whose value is nearest; of two
# that are equally near, the even one. Infinity gets the greatest code, negative numbers code 0. NaN has no code here,
# so the judge asks for none. `VALUES` has the values.

# %%
nibble = fr.Format("nibble", bits=4, exponent_bits=2, mantissa_bits=2, bias=1, signed=False, negative="zero")
VALUES = fr.decode(np.arange(16, dtype=np.uint8), nibble).tolist()
print(VALUES)
assert VALUES[-1] == 7


# %% tags=["exercise"]
def my_nibble(x: float) -> int:
    raise NotImplementedError("your code goes here")


# %% tags=["judge"]
result = conformance.check(my_nibble, nibble, scalar=True)
print("Solved!" if result else "Not solved yet, and that is fine. The judge says:", result, sep="\n")

# %% [markdown]
# ## In the standard
#
# IEEE 754-2019, section 3.3, describes a format by its parameters, as the row does. The P3109 interim report, 2026,
# makes whole families that way: `fr.p3109(8, 3)` is its format of 8 bits with a precision of 3.
#
# Next: [09 Judge an implementation](09_judge.ipynb), somebody else's this time.
#
# Text and figures: CC BY 4.0. Code: Apache-2.0.
