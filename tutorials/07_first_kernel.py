# %% [markdown]
# # 07 A first kernel: decode
#
# After this you can
#
# - write a function that thousands of threads run at once,
# - decode four numbers of a word with a shift, a mask and one multiplication,
# - test it without a GPU, for every code.
#
# About 30 minutes. You need [04](04_packing_words.ipynb). No GPU: it runs in the simulator.

# %%
try:
    import feather_ref as fr
except ImportError:
    # %pip install -q "feather-ref[draw,kernels]==0.1.0.dev0"
    import feather_ref as fr
# %matplotlib inline

# %%
import os

import numpy as np

os.environ["FEATHER_TARGET"] = "simulator"  # before the first import of the kernels

from feather_kernels import TARGET, ptx
from feather_kernels.simulator import cuda, launch
from feather_ref import conformance, draw

print("The kernels below run in the", TARGET)

# %% [markdown]
# ## Many threads, one function
#
# A GPU runs one small function, the **kernel**, in thousands of **threads**. Each asks "which one am I?" and takes
# its own element. Threads come in blocks of equal size. Here are 3 blocks of 4 threads for 10 numbers:

# %%
def double(source, target, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        target[i] = 2 * source[i]


numbers, doubled = np.arange(10, dtype=np.uint32), np.zeros(10, np.uint32)
launch(double, 3, 4, (numbers, doubled, 10))
print(doubled)
assert doubled.tolist() == [2 * i for i in range(10)]

# %% [markdown]
# 3 × 4 threads are 12, two too many. The `if` lets them do nothing. Forget it, and the simulator stops at the first
# step outside. A real GPU would read and write whatever lies there.

# %%
def careless(source, target):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    target[i] = 2 * source[i]


try:
    launch(careless, 3, 4, (numbers, doubled))
except IndexError as error:
    print(error, *error.__notes__)

# %% [markdown]
# ## By hand
#
# A float32 has the fields of e4m3, only longer: sign, 8 exponent bits, 23 mantissa bits. So put each field at its
# place: the sign to bit 31, the other seven bits to 26..20. The byte `45`, 3.25, becomes `04500000`. Its exponent
# field is still 8. But here the bias is 127, not 7: too small by 2^120. So multiply by **2^120**.

# %%
code = 0x45
bits = (code & 0x80) << 24 | (code & 0x7F) << 20
small = np.uint32(bits).view(np.float32)
print(f"{bits:08X} = {small}, times 2^120 = {small * np.float32(2.0**120)}")
assert bits == 0x04500000 and small * np.float32(2.0**120) == 3.25
draw.bit_fields("fp32", bits)

# %% [markdown]
# Subnormal numbers need no rule of their own. A small byte makes a subnormal float32, and the multiplication turns it
# into the right normal one. For that the hardware must not flush subnormals to zero; our kernels never ask it to.

# %%
def shifted(code):
    bits = np.uint32((code & 0x80) << 24 | (code & 0x7F) << 20)
    return ptx.mul(ptx.as_float(bits), np.float32(2.0**120))


codes = np.arange(256, dtype=np.uint8)
got = np.array([shifted(int(code)) for code in codes], np.float32)
wrong = codes[got.view(np.uint32) != fr.decode(codes, "e4m3").view(np.uint32)]
print([f"{code:02X}" for code in wrong])
assert wrong.tolist() == [0x7F, 0xFF]

# %% [markdown]
# `ptx.mul` and `ptx.as_float` are single instructions on a GPU; here each has a twin in Python with the same bits. Two
# bytes of 256 come out wrong. You know them.

# %% [markdown]
# ## A common mistake
#
# Forgetting just those two. A compiler for GPUs [decoded NaN this
# way](https://github.com/intel/intel-xpu-backend-for-triton/issues/7771) and got ±480, a harmless looking number.
# Whoever marks missing values with NaN then calculates with 480.

# %%
print(shifted(0x7F), fr.decode(np.uint8(0x7F), "e4m3"))
assert shifted(0x7F) == 480


def value(code):
    x = shifted(code)
    return np.float32(np.nan) if code & 0x7F == 0x7F else x

# %% [markdown]
# ## The kernel
#
# Each thread takes one word and decodes its four lanes, lowest bits first. That is all of it:

# %%
def decode_words(words, out, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        for lane in range(4):
            out[4 * i + lane] = value(words[i] >> np.uint32(8 * lane) & np.uint32(0xFF))


words = fr.pack_codes(codes, 8)
out = np.zeros(256, np.float32)
launch(decode_words, 3, 32, (words, out, len(words)))
assert np.array_equal(out.view(np.uint32), fr.unpack_e4m3(words).view(np.uint32))

# %% [markdown]
# We compared the **bits** of all 256 codes, NaN and both zeros among them. A test with random weights and a tolerance
# would have passed the kernel without its NaN line as well.

# %%
draw.word(words[0x45 // 4], "e4m3")

# %% [markdown]
# ## Your turn
#
# Decode **e4m3fnuz** the same way: same fields, but the bias is 8, and `80` is NaN, the only special code. `shifted`
# is your model. For a code from 0 to 255 return a float.

# %% tags=["exercise"]
def my_value(code: int) -> float:
    raise NotImplementedError("your code goes here")


# %% tags=["judge"]
result = conformance.check(my_value, "e4m3fnuz", op="decode", scalar=True)
print("Solved!" if result else "Not solved yet, and that is fine. The judge says:", result, sep="\n")

# %% [markdown]
# ## In the standard
#
# OFP8 1.0, table 1, for e4m3; IEEE 754-2019, table 3.5, for float32. Threads and blocks: CUDA C++ Programming Guide,
# chapter 2. The instructions: NVIDIA PTX ISA, `mul` and `mov`.
#
# Next: [08 Bring your own format](08_your_own_format.ipynb), in one row.
#
# Text and figures: CC BY 4.0. Code: Apache-2.0.
