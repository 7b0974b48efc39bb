# %% [markdown]
# # 09 Judge an implementation
#
# After this you can
#
# - test somebody's converter for every input where its result can change,
# - read a verdict and explain a fault by hand,
# - find the fault in a library that thousands use.
#
# About 30 minutes. You need [02](02_rounding.ipynb). No GPU.

# %%
try:
    import feather_ref as fr
except ImportError:
    # %pip install -q "feather-ref[draw]==0.1.0.dev0" ml_dtypes
    import feather_ref as fr
# %matplotlib inline

# %% [markdown]
# ## The library
#
# **ml_dtypes** gives NumPy the small formats of machine learning. JAX and TensorFlow use it. It is good and careful
# work, which is why it is worth judging. We wrap its cast to e4m3 as "array in, bytes out":

# %%
import ml_dtypes
import numpy as np

from feather_ref import conformance, draw


def theirs(x: np.ndarray) -> np.ndarray:
    return x.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


print("ml_dtypes", ml_dtypes.__version__, theirs(np.float32([0.5, 448])))

# %% [markdown]
# ## From float32
#
# `check` knows, for each format and policy, where the result changes: the 256 or so borders among four billion
# float32. It tries both sides of each. ml_dtypes does not saturate, so we say so:

# %%
verdict = conformance.check(theirs, "e4m3", overflow="nonsaturating")
print(verdict)
assert verdict

# %% [markdown]
# All right, everywhere. Had we forgotten the policy, the judge would say so at the end: it tries to guess what would
# make the failures vanish.

# %%
verdict = conformance.check(theirs, "e4m3")
print(verdict)
assert not verdict
assert "nonsaturating" in str(verdict)

# %% [markdown]
# ## From float64
#
# Now the same question with wider numbers. They come from Python, from a CSV file, from NumPy's own random numbers:

# %%
verdict = conformance.check(theirs, "e4m3", overflow="nonsaturating", source="float64")
print(verdict)

# %% [markdown]
# With ml_dtypes 0.6.0 you see failures, all of one class: **double rounding**. (Does your version pass? Then it has
# been mended since. Read on; the next cell shows the fault by itself.)

# %% [markdown]
# ## By hand
#
# Take 1 + 2^-4 + 2^-40. Its neighbours in e4m3 are 1 and 1.125, and half way lies 1.0625 = 1 + 2^-4. We are a little
# above, so **1.125** is right.
#
# But a float32 near 1 has steps of 2^-23. It cannot hold 2^-40, and becomes 1.0625: a tie. The even byte is 1.

# %%
x = np.float64(1 + 2.0**-4 + 2.0**-40)
once, twice = fr.encode(x, "e4m3"), fr.encode(np.float32(x), "e4m3")
print(f"once {once:02X}, by way of float32 {twice:02X}, ml_dtypes {theirs(x)[()]:02X}")
assert (once, twice) == (0x39, 0x38)
draw.rounding_regions("e4m3", 1.0, 1.18)

# %% [markdown]
# Is that the cause? Then a correct encoder behind a cast to float32 must fail in the same way. It does, and the judge
# names it:

# %%
def through_float32(x: np.ndarray) -> np.ndarray:
    return fr.encode(x.astype(np.float32), "e4m3", overflow="nonsaturating")


verdict = conformance.check(through_float32, "e4m3", overflow="nonsaturating", source="float64")
print(verdict)
assert not verdict and "double rounding" in str(verdict)

# %% [markdown]
# The authors know: a [proposed change](https://github.com/jax-ml/ml_dtypes/pull/401) lists the same inputs. PyTorch's
# cast did the same when we tried. It is an easy mistake, and random tests hardly ever meet it.

# %% [markdown]
# ## A choice, or a fault?
#
# Scales next, e8m0. ml_dtypes rounds ties up and makes NaN of 0, because there is no zero. The standard leaves both
# open: a **choice**. But 1.4 × 2^-127 lies nearer to 2^-127, byte `00`, than to 2^-126. That is no choice:

# %%
x = np.float32(1.4 * 2.0**-127)
right = fr.encode(x, "e8m0")
got = np.asarray(x).astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)[()]
print(f"right {right:02X}, ml_dtypes {got:02X}")
assert right == 0x00

# %% [markdown]
# ## A common mistake
#
# A test that cannot fail. One compared two results that were [both all
# zeros](https://github.com/jax-ml/jax/pull/30467), and was green for that reason. Others compare with `==`, which
# takes -0 for 0. Compare **bits**:

# %%
a, b = np.float32([0.0, np.nan]), np.float32([-0.0, -np.nan])
np.testing.assert_array_equal(a, b)
same = a.view(np.uint32) == b.view(np.uint32)
print("equal for NumPy's test; the bits are equal:", same)
assert not same.any()

# %% [markdown]
# ## Your turn
#
# Mend it: `my_code` takes a float64 and may use `single`, which is right from float32. The trick is called **round to
# odd**: cut `x` *towards zero* to float32, and if anything was lost, set the last bit. It then works as a sticky bit.
#
# A trap: `np.float32(x) == x` compares in float32. Use `float(...)`.

# %%
def single(x: np.float32) -> int:
    return int(fr.encode(x, "e4m3", overflow="nonsaturating"))


assert single(np.nextafter(np.float32(0.3), np.float32(0))) == 0x2A

# %% tags=["exercise"]
def my_code(x: float) -> int:
    raise NotImplementedError("your code goes here")


# %% tags=["judge"]
result = conformance.check(my_code, "e4m3", overflow="nonsaturating", source="float64", scalar=True)
print("Solved!" if result else "Not solved yet, and that is fine. The judge says:", result, sep="\n")

# %% [markdown]
# ## In the standard
#
# IEEE 754-2019, section 4.3: a result is rounded as if it were first known exactly, so once. Round to odd as the first
# of two steps: Boldo and Melquiond, *Emulation of FMA and correctly rounded sums*, 2008.
#
# That was the last one for now. Your own converter is next: `conformance.check(yours, "e4m3")`.
#
# Text and figures: CC BY 4.0. Code: Apache-2.0.
