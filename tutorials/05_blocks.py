# %% [markdown]
# # 05 Blocks and scales, and where log2 lies
#
# After this you can
#
# - say why 4-bit numbers need a scale, and small blocks more than big ones,
# - quantize a block by hand,
# - take an exponent from the bits, where `log2` gets it wrong.
#
# About 30 minutes. You need [03](03_overflow.ipynb). No GPU.

# %%
try:
    import feather_ref as fr
except ImportError:
    # %pip install -q "feather-ref[draw]==0.1.0.dev0"
    import feather_ref as fr
# %matplotlib inline

# %% [markdown]
# ## Eight sizes are not many
#
# The 4-bit format **e2m1** knows the sizes 0, 0.5, 1, 1.5, 2, 3, 4 and 6, each with a sign. That is all:

# %%
import numpy as np

from feather_ref import blocks, conformance, draw

draw.number_line("e2m1")

# %% [markdown]
# Weights of a network are often near 0.02. In e2m1 they would all be 0. So we divide them by a number, the **scale**,
# before we store them, and multiply by it when we read them. It is chosen so that the greatest weight just fits.

# %% [markdown]
# ## One outlier spoils it
#
# With one scale for all, the greatest weight decides for everybody. Below, one weight is 3, all others are about 0.02.
# Then one step of e2m1 is 0.25, and the others vanish:

# %%
w = np.random.default_rng(0).standard_normal(4096).astype(np.float32) * np.float32(0.02)
w[100] = 3
one_scale = fr.pack_tensor(w, "e2m1", scale="tensor").dequantize()
lost = float(np.mean(one_scale == 0))
print(f"{lost:.2%} of the weights became 0")
assert lost > 0.99

# %% [markdown]
# ## A scale for every 32
#
# So cut the weights into **blocks** of 32 and give each its own scale. An outlier then spoils one block. The format
# **mxfp4** does this. The price is small: 8 bits of scale for 32 numbers, a quarter bit each.

# %%
tensor = blocks.quantize_blocks(w, "mxfp4")
block_scales = tensor.dequantize()
lost = float(np.mean(block_scales == 0))
print(f"{lost:.2%} became 0, at {tensor.bits_per_value} bits a number")
assert lost < 0.1 and tensor.bits_per_value == 4.25

# %% [markdown]
# ## The scale is a byte too
#
# It has no sign and no mantissa, only an exponent of 8 bits: **e8m0**. The byte `82` is 130, and 130 - 127 = 3, so it
# means 2^3 = 8. Multiplying by it changes the exponent and leaves the mantissa alone. There is no zero, and `FF` is
# NaN.

# %%
scales = fr.decode(np.array([0x7E, 0x7F, 0x82, 0xFF], np.uint8), "e8m0")
print(scales)
assert scales[:3].tolist() == [0.5, 1.0, 8.0] and np.isnan(scales[3])
draw.bit_fields("e8m0", 0x82)

# %% [markdown]
# ## By hand
#
# Take the block 0.5, -3, 40, 0. The greatest size is 40, and 32 ≤ 40 < 64 = 2^6, so its exponent is 5. The greatest
# e2m1, 6, has exponent 2. The scale is 2^(5 - 2) = **8**.
#
# Divide by 8: 0.0625, -0.375, 5, 0. Round: 0, -0.5, 4 (a tie), 0. Times 8: **0, -4, 32, 0**.

# %%
tensor = blocks.quantize_blocks([0.5, -3, 40, 0], "mxfp4")
print([f"{code:X}" for code in tensor.codes], f"scale {tensor.scales[0]:02X}", tensor.dequantize())
assert tensor.scales[0] == 0x82 and tensor.scale_values[0] == 8
assert tensor.dequantize().tolist() == [0, -4, 32, 0]

# %% [markdown]
# ## Where log2 lies
#
# "Exponent of the greatest size" is `floor(log2(x))`. So many programs write just that. Try it on the float32 just
# below 8, whose exponent is 2:

# %%
x = np.nextafter(np.float32(8), np.float32(0))
by_log2 = int(np.floor(np.log2(x)))
by_bits = (int(x.view(np.uint32)) >> 23 & 0xFF) - 127
print(f"{x:.7f}: log2 says {by_log2}, the bits say {by_bits}")
assert (by_log2, by_bits) == (3, 2)

# %% [markdown]
# `log2` is not broken. The true value is 2.99999991, and the nearest float32 to that *is* 3. But then `floor` cannot
# know. The scale comes out twice too big, for rare blocks only, which is the worst way to fail. The exponent stands in
# the bits: read it there, or use `frexp`.

# %%
x = np.array([x, 8, 1e-40], np.float32)
exponent = np.frexp(x)[1] - 1
print(exponent)
assert exponent.tolist() == [2, 3, -133]
assert blocks.quantize_blocks(x[:1], "mxfp4").scale_values[0] == 2.0 ** (2 - 2)

# %% [markdown]
# ## More than one rule
#
# The rule above, called **floor**, makes 7 too big for its block: 7 / 1 is clipped to 6. Other rules choose a greater
# scale then. None is wrong, but two programs must use the same. Here the rule has a name:

# %%
for rule in ("floor", "even", "ceil", "rceil"):
    got = [float(blocks.quantize_blocks([x], "mxfp4", scale_rule=rule).scale_values[0]) for x in (4, 6, 6.5, 7)]
    print(f"{rule:6}", got)
assert got == [1, 1, 2, 2]

# %% [markdown]
# ## A common mistake
#
# Making the scale by shifting its byte into a float32: `byte << 23`. It works for 254 of the 256 bytes. A library
# found [both others](https://github.com/NVIDIA/TransformerEngine/pull/3262): byte 0 is 2^-127 but became 0, so whole
# blocks became 0, and NaN became infinity.

# %%
codes = np.arange(256, dtype=np.uint8)
wrong = (codes.astype(np.uint32) << 23).view(np.float32)
right = fr.decode(codes, "e8m0")
differ = codes[(wrong != right) & ~(np.isnan(wrong) & np.isnan(right))]
print(differ, wrong[differ], right[differ])
assert differ.tolist() == [0, 255]

# %% [markdown]
# ## Your turn
#
# Write `my_scale`: the byte of the greatest power of two that is not above `x`. What has no such byte gets the
# nearest: 0 and tiny numbers `00`, infinity `FE`. NaN and negative numbers get `FF`. `math.frexp(8.0)` is `(0.5, 4)`;
# no `log2`, please.

# %%
import math

assert math.frexp(8.0) == (0.5, 4)
assert math.frexp(7.9) == (0.9875, 3)


# %% tags=["exercise"]
def my_scale(x: float) -> int:
    raise NotImplementedError("your code goes here")


# %% tags=["judge"]
result = conformance.check(my_scale, "e8m0", rounding="toward_zero", scalar=True)
print("Solved!" if result else "Not solved yet, and that is fine. The judge says:", result, sep="\n")

# %% [markdown]
# ## In the standard
#
# OCP Microscaling Formats (MX) 1.0, 2023: section 5 has the formats and the scale, section 6.3 the conversion, where
# the floor rule is a recommendation ("should").
#
# Next: [06 Dynamic bits](06_dynamic_bits.ipynb), where the data choose the format.
#
# Text and figures: CC BY 4.0. Code: Apache-2.0.
