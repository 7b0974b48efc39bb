"""The main job on real weights: train, pack, check every word, measure.

1. Train a two-layer classifier on the handwritten digits that scikit-learn ships.
2. Pack its weight matrices in eight formats; those of 8 bits and below get a scale for each row.
3. Check every word, scale and dequantized value against the exact oracle, and the codes against
   ml_dtypes (fp16: NumPy).
4. Print what each format costs and what it loses.

The expected words are made here from the oracle's codes and Python integers; nothing of the codec
or the packing under test takes part.  Biases stay float32.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import click
import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

import feather_ref as fr
from feather_ref import oracle

F32 = NDArray[np.float32]
Tick = Callable[[int], None]

# the formats of the demo, widest first, and the dtype that another library gives them
THEIR_DTYPE: dict[str, Any] = {
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e3m4": ml_dtypes.float8_e3m4,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
LEAST_SCALE = Fraction(1, 2**126)


@dataclass(frozen=True)
class Model:
    """Two layers: weights (outputs, inputs), biases (outputs,), and the held-out digits."""

    weights: list[F32]
    biases: list[F32]
    x: F32
    y: NDArray[np.int64]

    def accuracy(self, weights: list[F32]) -> float:
        """The share of held-out digits that these weights get right."""
        hidden = np.maximum(self.x @ weights[0].T + self.biases[0], np.float32(0))
        scores = hidden @ weights[1].T + self.biases[1]
        return float(np.mean(scores.argmax(axis=1) == self.y))


@dataclass
class Tally:
    """How many were compared, and how many differ."""

    checked: int = 0
    differ: int = 0

    def add(self, mine: NDArray[Any], wanted: NDArray[Any]) -> None:
        """Compare two arrays of unsigned integers, element by element."""
        if mine.shape != wanted.shape:
            raise ValueError(f"mine has shape {mine.shape}, wanted {wanted.shape}")
        self.checked += mine.size
        self.differ += int(np.count_nonzero(mine != wanted))


@dataclass(frozen=True)
class Result:
    """One line of the table."""

    fmt: fr.Format
    nbytes: int
    ratio: float
    sqnr: float
    worst: float
    accuracy: float
    words: Tally
    values: Tally
    theirs: Tally


# --- the model --------------------------------------------------------------------------------


def train(hidden: int, seed: int) -> Model:
    """A classifier for 8x8 digits: trained in float64, then float32."""
    digits = load_digits()
    x_train, x_test, y_train, y_test = train_test_split(
        digits.data / 16, digits.target, test_size=0.25, random_state=seed
    )
    with threadpool_limits(1):  # a matrix this small is slower on two
        mlp = MLPClassifier((hidden,), max_iter=2000, random_state=seed).fit(x_train, y_train)
    weights = [np.ascontiguousarray(w.T, dtype=np.float32) for w in mlp.coefs_]
    return Model(weights, [b.astype(np.float32) for b in mlp.intercepts_], x_test.astype(np.float32), y_test)


# --- what the words must be -------------------------------------------------------------------


def expected_scale(row: F32, fmt: fr.Format) -> int:
    """The float32 bits of amax / max: an exact quotient, rounded once."""
    amax = max(oracle.exact(x).magnitude for x in row)
    top = max(oracle.decode(code, fmt).magnitude for code in range(1 << fmt.bits) if not fmt.is_inf(code))
    return oracle.encode(max(amax / top, LEAST_SCALE) if amax else 1, "fp32")


def expected_codes(row: F32, scale: Fraction, fmt: fr.Format) -> Iterator[int]:
    """The code of each exact quotient x / scale."""
    for x in map(oracle.exact, row):
        yield oracle.encode(replace(x, magnitude=x.magnitude / scale), fmt)


def expected_value(code: int, scale: Fraction, fmt: fr.Format) -> int:
    """The float32 bits of the exact product decode(code) * scale, rounded once."""
    x = oracle.decode(code, fmt)
    return oracle.encode(replace(x, magnitude=x.magnitude * scale), "fp32")


def expected_words(codes: Iterable[int], bits: int) -> list[int]:
    """Lay the codes end to end as one integer, least significant first; cut it into 32 bits."""
    stream, length = 0, 0
    for code in codes:
        stream |= code << length
        length += bits
    return [stream >> i & 0xFFFFFFFF for i in range(0, length, 32)]


# --- the checks -------------------------------------------------------------------------------


def check_words(w: F32, packed: fr.PackedTensor, words: Tally, values: Tally, tick: Tick) -> None:
    """Compare words, scales and dequantized values with the oracle, row by row."""
    fmt = packed.fmt
    dequantized = packed.dequantize().view(np.uint32)
    for i, row in enumerate(w):
        scale = Fraction(1)
        if packed.scale is not None:
            bits = expected_scale(row, fmt)
            words.add(packed.scale[i].view(np.uint32), np.array([bits], np.uint32))
            scale = oracle.decode(bits, "fp32").magnitude
        codes = list(expected_codes(row, scale, fmt))
        words.add(packed.words[i], np.array(expected_words(codes, fmt.bits), np.uint32))
        values.add(dequantized[i], np.array([expected_value(code, scale, fmt) for code in codes], np.uint32))
        tick(row.size)


def check_theirs(w: F32, packed: fr.PackedTensor, tally: Tally) -> None:
    """Another library encodes the unscaled weights, and decodes the packed codes."""
    fmt = packed.fmt
    dtype = np.dtype(THEIR_DTYPE[fmt.name])
    codes = fr.encode(w, fmt)
    tally.add(codes, w.astype(dtype).view(codes.dtype))
    stored = packed.codes()
    tally.add(fr.decode(stored, fmt).view(np.uint32), stored.view(dtype).astype(np.float32).view(np.uint32))


# --- the job ----------------------------------------------------------------------------------


def loss(weights: list[F32], after: list[F32]) -> tuple[float, float]:
    """(SQNR in dB, greatest relative error over the weights that are not zero)."""
    w = np.concatenate([x.ravel() for x in weights]).astype(np.float64)
    error = np.abs(np.concatenate([x.ravel() for x in after]) - w)
    noise = float(np.sum(error**2))
    sqnr = 10 * math.log10(float(np.sum(w**2)) / noise) if noise else math.inf
    return sqnr, float(np.max(error[w != 0] / np.abs(w[w != 0])))


def measure(model: Model, fmt: fr.Format, tick: Tick) -> Result:
    """Pack every matrix in one format, check it, and see what is lost."""
    scale: Literal["row"] | None = "row" if fmt.bits <= 8 else None
    packed = [fr.pack_tensor(w, fmt, scale=scale) for w in model.weights]
    words, values, theirs = Tally(), Tally(), Tally()
    for w, p in zip(model.weights, packed, strict=True):
        check_words(w, p, words, values, tick)
        check_theirs(w, p, theirs)
    after = [p.dequantize() for p in packed]
    nbytes = sum(p.nbytes for p in packed)
    ratio = sum(w.nbytes for w in model.weights) / nbytes
    return Result(fmt, nbytes, ratio, *loss(model.weights, after), model.accuracy(after), words, values, theirs)


def run(model: Model, console: Console) -> list[Result]:
    """One result for each format, with a progress bar."""
    size = sum(w.size for w in model.weights)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("checking against the oracle", total=size * len(THEIR_DTYPE))

        def tick(n: int) -> None:
            progress.advance(task, n)

        return [measure(model, fr.get_format(name), tick) for name in THEIR_DTYPE]


def show(results: list[Result], before: float, console: Console) -> None:
    """The table; 80 columns are enough."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    heads = (
        "format", "bits", "bytes", "ratio", "SQNR\ndB", "worst\nrel err", "accuracy\nbefore", "accuracy\nafter",
        "words\nchecked", "words\ndiffer", "ml_dtypes\ndiffer",
    )  # fmt: skip
    for head in heads:
        table.add_column(head, justify="left" if head == "format" else "right", no_wrap=True)
    for r in results:
        table.add_row(
            r.fmt.name, str(r.fmt.bits), f"{r.nbytes:,}", f"{r.ratio:.2f}x", f"{r.sqnr:.1f}", f"{r.worst:.2%}",
            f"{before:.1%}", f"{r.accuracy:.1%}", f"{r.words.checked:,}", f"{r.words.differ:,}",
            f"{r.theirs.differ:,}",
        )  # fmt: skip
    console.print(table)
    console.print("Row scales count as bytes and words. 100.00%: some weight became 0.\n", highlight=False)


def total(tallies: Iterable[Tally], what: str, judge: str) -> tuple[str, int]:
    """A plain sentence, and how many differ."""
    tallies = list(tallies)
    checked, differ = sum(t.checked for t in tallies), sum(t.differ for t in tallies)
    return f"{checked:,} {what} checked against {judge}, {differ:,} differ", differ


@click.command()
@click.option("--hidden", default=64, show_default=True, type=click.IntRange(min=1), help="Hidden units of the model.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of split and training.")
def main(hidden: int, seed: int) -> None:
    """Train on digits, pack the weights in eight formats, check every word, print one table.

    Exit status 1 if any word, value or code differs.
    """
    console = Console()
    model = train(hidden, seed)
    before = model.accuracy(model.weights)
    shapes = " and ".join("x".join(map(str, w.shape)) for w in model.weights)
    console.print(f"weights {shapes}, float32: {sum(w.nbytes for w in model.weights):,} bytes", highlight=False)
    results = run(model, console)
    show(results, before, console)
    totals = [
        total((r.theirs for r in results), "codes", "ml_dtypes and NumPy"),
        total((r.values for r in results), "dequantized values", "the exact oracle"),
        total((r.words for r in results), "words", "the exact oracle"),
    ]
    for sentence, _ in totals:
        console.print(sentence, highlight=False)
    sys.exit(any(differ for _, differ in totals))


if __name__ == "__main__":
    main()
