# %% [markdown]
# # 06 Dynamic bits from data
#
# After this you can
#
# - cut a number of bits into exponent and mantissa in every way,
# - measure which cut suits your data,
# - share out bits between layers under a budget.
#
# About 35 minutes. You need [05](05_blocks.ipynb). No GPU.

# %%
try:
    import feather_ref as fr
except ImportError:
    # %pip install -q "feather-ref[draw]==0.1.0.dev0"
    import feather_ref as fr
# %matplotlib inline

# %% [markdown]
# ## Six bits, many cuts
#
# Of six bits one is the sign. The other five you may cut as you like. `fr.minifloat(e, m)` makes a format of any cut.
# Here is much mantissa, e2m3: even steps, little range:

# %%
import numpy as np
from matplotlib.figure import Figure

from feather_ref import conformance, draw

draw.number_line(fr.minifloat(2, 3, nan=False))

# %% [markdown]
# And here is more exponent, e3m2. Both have 63 values. But now more of them crowd around zero, and those at the ends
# stand further apart:

# %%
draw.number_line(fr.minifloat(3, 2, nan=False))

# %% [markdown]
# ## By hand
#
# The greatest e2m3 is 7.5, and the last step before it is 0.5: one part in 15. The smallest step is 0.125: one part in
# 60.
#
# The greatest e3m2 is 28, and its last step is 4: one part in 7. The smallest is 0.0625: one part in **448**. More
# range costs precision.

# %%
for e, m in ((2, 3), (3, 2)):
    fmt = fr.minifloat(e, m, nan=False)
    last_step = fmt.max - fr.decode(np.uint8(fmt.max_magnitude - 1), fmt)
    print(fmt, fmt.max / last_step, fmt.max / fmt.min_subnormal)
assert (fmt.max / last_step, fmt.max / fmt.min_subnormal) == (7, 448)

# %% [markdown]
# ## Measure
#
# Which is better depends on your data. We measure how much stronger the numbers are than the error, in decibels (dB):
# 20 dB means the error is a tenth of the numbers, 40 dB a hundredth. One more bit is worth about 6 dB.

# %%
def decibels(x: np.ndarray, fmt: fr.Format) -> float:
    error = fr.pack_tensor(x, fmt, scale="tensor").dequantize() - x
    return float(10 * np.log10(np.sum(x**2) / np.sum(error**2)))


ramp = np.linspace(-1, 1, 1001, dtype=np.float32)
print(f"{decibels(ramp, fr.get_format('int4')):.1f} {decibels(ramp, fr.get_format('int8')):.1f}")
assert 20 < decibels(ramp, fr.get_format("int8")) - decibels(ramp, fr.get_format("int4")) < 28

# %% [markdown]
# ## Three kinds of data
#
# Numbers spread evenly, numbers with a bell curve as most weights have, and numbers with rare big spikes, as
# activations often have. For each, all cuts of six bits:

# %%
rng = np.random.default_rng(1)
data = {"even": rng.uniform(-1, 1, 4000), "bell": rng.standard_normal(4000), "spiky": rng.standard_normal(4000) ** 5}
cuts = [fr.minifloat(e, 5 - e, nan=False) for e in (1, 2, 3, 4)]
table = {name: [decibels(x.astype(np.float32), fmt) for fmt in cuts] for name, x in data.items()}
best = {name: cuts[int(np.argmax(row))] for name, row in table.items()}
print({name: f"e{fmt.exponent_bits}m{fmt.mantissa_bits}" for name, fmt in best.items()})
assert [best[name].exponent_bits for name in data] == [1, 2, 3]

# %% [markdown]
# The further the data spread, the more exponent bits they want. In the picture, each line is one kind of data, and its
# highest point the best cut:

# %%
figure = Figure(figsize=(4, 2.6), layout="constrained")
axes = figure.subplots()
names = [f"e{fmt.exponent_bits}m{fmt.mantissa_bits}" for fmt in cuts]
looks = (("even", "o-", "#0072B2"), ("bell", "s--", "#D55E00"), ("spiky", "^:", "#009E73"))
for name, style, colour in looks:
    axes.plot(names, table[name], style, color=colour, label=name)
axes.set(ylabel="dB, more is better", yticks=range(20, 40, 5))
axes.legend()
figure

# %% [markdown]
# ## One call
#
# `best_split` does what we did: it tries every cut and takes the best. It can also choose for each row of a matrix, or
# for each block.

# %%
from feather_ref import blocks
from feather_ref.allocate import allocate, best_split, quantize_mixed

found = {name: best_split(x.astype(np.float32), 6).fmt for name, x in data.items()}
print(best_split(data["spiky"].astype(np.float32), 6, per="block").counts)
assert found == best

# %% [markdown]
# Look at what the blocks of the spiky numbers chose: not all the same. So a **mixed** format notes beside each scale
# which cut its block has. That costs a quarter bit a number. Is it worth it?

# %%
x = np.concatenate(list(data.values())).astype(np.float32)
mixed, plain = quantize_mixed(x, "mixed6"), blocks.quantize_blocks(x, "mxfp6_e2m3")
errors = [float(np.sum((tensor.dequantize() - x) ** 2)) for tensor in (mixed, plain)]
print(f"error {errors[0]:.0f} at {mixed.bits_per_value} bits, {errors[1]:.0f} at {plain.bits_per_value}")
assert errors[0] < errors[1]

# %% [markdown]
# ## How many bits where
#
# A model has many layers, and they need not all get the same. Say three layers of equal size shall have 15 bits a
# number together, five on average. Give a bit to whichever layer has the greatest error, again and again:

# %%
def best_error(x: np.ndarray, bits: int) -> float:
    formats = [fr.minifloat(e, bits - 1 - e, nan=False) for e in range(1, bits)]
    packed = [fr.pack_tensor(x, fmt, scale="tensor") for fmt in formats]
    return min(float(np.sum((p.dequantize() - x) ** 2)) for p in packed)


layers = [data["bell"].astype(np.float32) * np.float32(size) for size in (0.1, 1, 3)]
bits = [3, 3, 3]
while sum(bits) < 15:
    worst = int(np.argmax([best_error(x, n) for x, n in zip(layers, bits, strict=True)]))
    bits[worst] += 1
print(bits)

# %% [markdown]
# The loud layer gets most bits, the quiet one fewest. Does it help? Compare with five bits for everybody, at the same
# size:

# %%
chosen = sum(best_error(x, n) for x, n in zip(layers, bits, strict=True))
equal = sum(best_error(x, 5) for x in layers)
print(f"error {chosen:.0f} with {bits}, {equal:.0f} with 5 each")
assert sum(bits) == 15
assert chosen < equal / 2

# %% [markdown]
# "Always help the worst" is simple, but not always best. `allocate` finds the best of all plans, exactly, and chooses
# among block formats as well. Its budget is the mean number of bits, scales included:

# %%
model = dict(zip(("quiet", "middle", "loud"), layers, strict=True))
plan = allocate(model, budget=6, formats=("mxfp4", "mxfp6_e2m3", "mxfp8_e4m3"))
print(plan.formats, f"{plan.bits_per_value:.2f} bits")
assert plan.optimal and plan.bits_per_value <= 6
assert plan.formats["quiet"] == "mxfp4"

# %% [markdown]
# The total error of the weights is not the error of the model: a quiet layer may matter more. But the way stays the
# same. Choose a measure, then let the data decide.

# %% [markdown]
# ## A common mistake
#
# Measuring the data after they were already rounded. A library took the greatest number of a block [in
# bfloat16](https://github.com/pytorch/ao/pull/4725): 3.9999998 became 4, its exponent 2 and not 1, and the block
# another scale than everybody else's.

# %%
amax = np.float32(3.9999998)
rounded = fr.quantize(amax, "bf16")
wrong, right = np.frexp(rounded)[1] - 1, np.frexp(amax)[1] - 1
print(f"{amax:.7f} or {rounded}: exponent {right} or {wrong}")
assert (wrong, right) == (2, 1)

# %% [markdown]
# ## Your turn
#
# A decoder for **every** cut: `my_value(code, e, m)`, with a sign bit, `e` exponent bits and `m` mantissa bits. The
# bias is 2^(e-1) - 1, and no code is special: no infinity, no NaN. The judge tries three formats.

# %% tags=["exercise"]
def my_value(code: int, e: int, m: int) -> float:
    raise NotImplementedError("your code goes here")


# %% tags=["judge"]
verdicts = [
    conformance.check(lambda code, e=e, m=m: my_value(code, e, m), f"e{e}m{m}", op="decode", scalar=True)
    for e, m in ((3, 2), (2, 3), (2, 1))
]
result = all(verdicts)
print("Solved!" if result else "Not solved yet, and that is fine. The judge says:", *verdicts, sep="\n")

# %% [markdown]
# ## In the standard
#
# OCP MX 1.0, section 5.3, has the three formats of the exercise. No standard says which cut is best. The choice of
# bits from the data is an old idea: rate-distortion theory, where giving the next bit to the greatest error is called
# reverse water-filling.
#
# Next: [07 A first kernel](07_first_kernel.ipynb), where many threads decode at once.
#
# Text and figures: CC BY 4.0. Code: Apache-2.0.
