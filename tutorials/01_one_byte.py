# %% [markdown]
# # 01 One byte, three fields
#
# After this you can
#
# - read any FP8 byte by hand,
# - say which number comes next,
# - tell zero, a subnormal number and NaN from the rest.
#
# About 20 minutes. You need some Python and powers of two. No GPU.

# %%
try:
    import feather_ref as fr
except ImportError:
    # %pip install -q "feather-ref[draw]==0.1.0.dev0"
    import feather_ref as fr
# %matplotlib inline

# %% [markdown]
# ## A byte is a row of eight switches
#
# What they mean is a choice. The format **e4m3** cuts the byte into three fields: one bit for the **sign**, four
# for the **exponent** (how big), three for the **mantissa** (where in between). Hence its name. The byte `45`,
# in hex, looks like this:

# %%
import numpy as np

from feather_ref import conformance, draw

draw.bit_fields("e4m3", 0x45)

# %% [markdown]
# ## By hand
#
# The sign is 0: plus. The exponent field `1000` is 8; the format says "take 7 away", so the power is 2^1 = 2. The
# mantissa field `101` is 5, and it counts eighths: 1 + 5/8 = 1.625. Together: 2 × 1.625 = **3.25**.

# %%
code = 0x45
sign, exponent, mantissa = code >> 7, code >> 3 & 0b1111, code & 0b111
value = (-1) ** sign * 2 ** (exponent - 7) * (1 + mantissa / 8)
print(f"{code:08b} -> {sign} {exponent} {mantissa} -> {value}")
assert value == 3.25 == fr.decode(np.uint8(0x45), "e4m3")

# %% [markdown]
# The 7 is called the **bias**. It lets the exponent field, which is never negative, mean small powers too: field 6
# is 2^-1, field 1 is 2^-6. The leading 1 in "1 + 5/8" is not stored. It is always there, so why spend a bit?

# %% [markdown]
# ## The next number
#
# Add 1 to the byte of a positive number, below the top, and you get the next number. Within one power of two all
# steps are equal; at the next power they double. So small numbers stand close together, and big ones far apart. In
# the picture each power of two, a long tick, has the same room:

# %%
codes = np.arange(0x40, 0x4A, dtype=np.uint8)
values = fr.decode(codes, "e4m3")
for c, v, step in zip(codes, values, np.diff(values), strict=False):
    print(f"{c:02X}  {v:5}  next is {step} away")
assert np.all(np.diff(values) == [0.25] * 8 + [0.5])
draw.number_line("e4m3", log=True)

# %% [markdown]
# ## Down to zero
#
# If the leading 1 were always there, zero would have no byte. So the exponent field 0 has a rule of its own: no
# leading 1, and the power stays at 2^-6. Such numbers are called **subnormal**. The three lowest bits count steps
# of 2^-9, and the count 0 is zero.

# %%
small = fr.decode(np.arange(9, dtype=np.uint8), "e4m3")
print(small)
assert np.all(small == np.arange(9) * 2.0**-9)
draw.bit_fields("e4m3", 0x03)

# %% [markdown]
# Look at the last two numbers: 7 steps is subnormal, 8 steps is the first normal number, and between them is one step
# like all the others. The rule was made for that: no gap before zero.

# %% [markdown]
# ## Up to the end
#
# The greatest number is `7E`. The byte after it, `7F`, is **NaN**, "not a number": the answer to 0/0. This format
# has no infinity. `fr.explain` shows all there is to say about a byte:

# %%
ends = fr.decode(np.array([0x7E, 0x7F, 0xFF, 0x00, 0x80], np.uint8), "e4m3")
print(ends)
assert ends[0] == 448 == 2**8 * (1 + 6 / 8)
assert np.isnan(ends[1]) and np.isnan(ends[2])
fr.explain("e4m3", 0x7E)

# %% [markdown]
# There are two zeros, `00` and `80`. They are equal as numbers and differ as bytes. Remember that when you compare
# results: `0.0 == -0.0` is true, so a test with `==` does not see a lost sign.

# %%
assert ends[3] == ends[4]
assert np.signbit(ends[4]) and not np.signbit(ends[3])

# %% [markdown]
# ## A common mistake
#
# Using the rule of normal numbers for every byte. A library did so [for the smallest
# values](https://github.com/local-inference-lab/b12x/pull/388): byte `01` became 0.0088 instead of 0.00195.
# Random weights rarely come so near to zero, so a test with random numbers does not see it. Try all bytes instead.

# %%
wrong = 2.0 ** (0 - 7) * (1 + 1 / 8)
right = fr.decode(np.uint8(1), "e4m3")
print(f"wrong {wrong}, right {right}: {wrong / right} times too big")
assert wrong / right == 4.5

# %% [markdown]
# ## Your turn
#
# **e5m2** has five exponent bits, two mantissa bits and the bias 15. Exponent field 31 is special: with mantissa 0
# it is infinity, `math.inf`, with its sign; else NaN. Write `my_value`, for a byte from 0 to 255. The judge tries
# all of them.

# %% tags=["exercise"]
def my_value(code: int) -> float:
    raise NotImplementedError("your code goes here")


# %% tags=["judge"]
result = conformance.check(my_value, "e5m2", op="decode", scalar=True)
print("Solved!" if result else "Not solved yet, and that is fine. The judge says:", result, sep="\n")

# %% [markdown]
# ## In the standard
#
# OCP 8-bit Floating Point Specification (OFP8), revision 1.0, 2023: table 1 has the fields, the bias and the
# special values of both formats.
#
# Next: [02 Rounding at the edge](02_rounding.ipynb), where a number lies between two bytes.
#
# Text and figures: CC BY 4.0. Code: Apache-2.0.
