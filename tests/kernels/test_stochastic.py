"""Stochastic rounding by kernels: the codec's code for every number and random bits, and the oracle's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import feather_kernels as fk
import feather_ref as fr
from feather_kernels import _target, arrays, exhaustive
from feather_kernels.encoders import make_noisy_encoder
from feather_ref import golden
from feather_ref.policy import resolve
from feather_ref.rounding import STOCHASTIC
from kernel_inputs import ROWS, deciding_numbers, in_turn, same_bits, some_rows

MODES = sorted(STOCHASTIC)
simulated = pytest.mark.skipif(not _target.SIMULATOR, reason="device functions are called as they are")
on_gpu = pytest.mark.skipif(_target.SIMULATOR, reason="needs a GPU")
ROUNDED = [row for row in ROWS if row.kind != "table" and row.name not in ("fp32", "binary8p1ue")]


def noise(shape: tuple[int, ...], n_bits: int) -> np.ndarray:
    """Random bits, none and all of them among these."""
    found = np.random.default_rng(n_bits).integers(0, 1 << n_bits, shape, dtype=np.uint64).astype(np.uint32)
    found.reshape(-1)[::5], found.reshape(-1)[1::5] = 0, (1 << n_bits) - 1
    return found


def choices(row: fr.Format, n_bits: int) -> dict[str, Any]:
    return {
        "overflow": ("saturate", "nonsaturating")[n_bits % 2],
        "nan": None if row.has_nan else "max",
        "negative": None if row.signed else "abs",
    }


@pytest.mark.parametrize("row", some_rows(ROUNDED), ids=str)
def test_every_row_is_rounded_as_by_the_codec(row: fr.Format) -> None:
    x = deciding_numbers(row)
    x = np.unique(np.concatenate([x[:10], x[:: max(1, len(x) // 40)], x[-10:]]).view(np.uint32)).view(np.float32)
    for mode, n_bits in in_turn([(MODES[i % 3], n) for i, n in enumerate((1, 8, 23, 24, 32))], row):
        given = {"rounding": mode, "n_bits": n_bits, "random_bits": noise(x.shape, n_bits), **choices(row, n_bits)}
        assert same_bits(fk.encode(x, row, **given), fr.encode(x, row, **given)), (mode, n_bits)


@simulated
@pytest.mark.parametrize(
    ("mode", "name", "n_bits"), [(MODES[0], "e4m3", 4), (MODES[1], "e5m2", 8), (MODES[2], "e2m3", 12)]
)
def test_every_float16(mode: Any, name: str, n_bits: int) -> None:
    row = fr.get_format(name)
    x = np.arange(1 << 16).astype(np.uint16).view(np.float16)
    random, given = noise(x.shape, n_bits), choices(row, n_bits)
    code_of = make_noisy_encoder(resolve(row, rounding=mode, **given), n_bits)
    with np.errstate(all="ignore"):
        bits = x.astype(np.float32).view(np.uint32)
        codes = np.array([code_of(word, r) for word, r in zip(bits, random, strict=True)], fr.code_dtype(row))
    assert same_bits(codes, fr.encode(x, row, rounding=mode, random_bits=random, n_bits=n_bits, **given))


def run_files() -> list[str]:
    """The vectors of one n and one r, which say of every float32 what comes of it."""
    try:
        known = golden.manifest()
    except FileNotFoundError:
        return []
    return [name for name in known if name.startswith("convert.f32.") and ".r=" in name and name.endswith(".run")]


@simulated
def test_the_oracle_s_vectors() -> None:
    """The ends of every line; of the files of each format every seventh."""
    names = run_files()[::7]
    assert len(names) > 10
    for name in names:
        asked, runs = golden.question(name), golden.load_runs(name)
        assert asked.n_bits is not None
        code_of = make_noisy_encoder(resolve(fr.get_format(asked.target), **asked.policies), asked.n_bits)
        for ends in (runs.lo, runs.hi):
            with np.errstate(all="ignore"):
                codes = [int(code_of(np.uint32(word), np.uint32(asked.random))) for word in ends]
            assert codes == runs.z.tolist(), name


def test_words_hold_the_same_codes() -> None:
    x = np.random.default_rng(1).standard_normal((3, 37)).astype(np.float32)
    for fmt, random in (("e3m2", noise((3, 37), 8)), ("e2m1", noise((37,), 8)), ("uf11", 7)):
        row = fr.get_format(fmt)
        given = {"rounding": "stochastic_b", "n_bits": 8, "random_bits": random, **choices(row, 8)}
        codes = fr.encode(x, row, **given)
        assert same_bits(fk.pack(x, row, **given), fr.pack_codes(codes.astype(np.uint32), row.storage_bits))


def test_what_is_refused_is_named() -> None:
    x = np.array([1, np.nan], np.float32)
    with pytest.raises(ValueError, match=r"x\[1\]"):
        fk.encode(x, "e2m1", rounding="stochastic_a", n_bits=4, random_bits=[1, 2])


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"rounding": "stochastic_a"}, ValueError, "rounding='stochastic_a' needs random_bits and n_bits"),
        ({"rounding": "stochastic_a", "n_bits": 4}, ValueError, "needs random_bits and n_bits"),
        ({"rounding": "stochastic_a", "random_bits": [1, 2]}, ValueError, "needs random_bits and n_bits"),
        ({"n_bits": 4}, ValueError, "for stochastic rounding, not 'nearest_even'"),
        ({"random_bits": [1, 2]}, ValueError, "for stochastic rounding, not 'nearest_even'"),
        ({"rounding": "stochastic_a", "n_bits": 33, "random_bits": [1, 2]}, ValueError, "n_bits"),
        ({"rounding": "stochastic_a", "n_bits": True, "random_bits": [1, 2]}, TypeError, "n_bits"),
        ({"rounding": "stochastic_a", "n_bits": 4, "random_bits": [1, 16]}, ValueError, r"random_bits\[1\]"),
        ({"rounding": "stochastic_a", "n_bits": 4, "random_bits": [1, 2, 3]}, ValueError, "do not broadcast"),
        ({"rounding": "stochastic_a", "n_bits": 4, "random_bits": [0.5, 1]}, TypeError, "random_bits"),
    ],
)
def test_bad_input_is_named(given: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        fk.encode(np.ones(2, np.float32), "e4m3", **given)


# --- on the GPU -------------------------------------------------------------------------------


@on_gpu
@pytest.mark.parametrize("mode", MODES)
def test_random_bits_of_the_gpu(mode: Any) -> None:
    cupy = pytest.importorskip("cupy")
    x = np.random.default_rng(2).standard_normal((700, 333)).astype(np.float32)
    random = noise(x.shape, 11)
    above = cupy.asarray(random | np.uint32(0xFFFFF800))  # bits above the n are not looked at
    given: dict[str, Any] = {"rounding": mode, "n_bits": 11}
    wanted = fr.encode(x, "e4m3", random_bits=random, **given)
    there, stream = cupy.asarray(x), cupy.cuda.Stream(non_blocking=True)
    assert same_bits(fk.encode(there, "e4m3", random_bits=above, **given).get(), wanted)
    cupy.cuda.Device().synchronize()
    made = fk.encode(there, "e4m3", random_bits=above, stream=stream, **given)
    stream.synchronize()
    assert same_bits(made.get(), wanted)
    for other, kind, text in (
        (above[:1], ValueError, "random_bits on the GPU must have the shape of x"),
        (above.astype(cupy.float32), TypeError, "random_bits on the GPU must be uint32, got float32"),
    ):
        with pytest.raises(kind, match=text):
            fk.encode(there, "e4m3", random_bits=other, **given)
    with pytest.raises(ValueError, match="stream: random_bits must be on the GPU and contiguous"):
        fk.encode(there, "e4m3", random_bits=random, stream=stream, **given)


@on_gpu
def test_random_bits_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(1000, device="cuda")
    random = torch.randint(0, 1 << 8, (1000,), dtype=torch.int32, device="cuda")
    given: dict[str, Any] = {"rounding": "stochastic_a", "n_bits": 8}
    wanted = fr.encode(x.cpu().numpy(), "e4m3", random_bits=random.cpu().numpy(), **given)
    assert same_bits(fk.encode(x, "e4m3", random_bits=random, **given).cpu().numpy(), wanted)


@on_gpu
@pytest.mark.skipif(not run_files(), reason="no golden vectors are installed")
def test_every_float32_by_the_oracle_s_vectors() -> None:
    cupy = pytest.importorskip("cupy")
    names = {tuple(name.split(".")[2:4]): name for name in run_files()}  # one of each format and mode
    for name in names.values():
        asked = golden.question(name)
        random = cupy.full(exhaustive.CHUNK, asked.random, cupy.uint32)

        def codes_of(bits: Any, asked: golden.Question = asked, random: Any = random) -> Any:
            x = bits.view(cupy.float32)
            return fk.encode(x, asked.target, random_bits=random, n_bits=asked.n_bits, **asked.policies)

        assert exhaustive.judge(name, codes_of, name, progress=False)


@simulated
def test_out_is_not_over_random_bits() -> None:
    """Of bf16, lane i lies over the bits of number i / 2, which another thread may not have read yet."""
    x, random = np.full(64, 1.03, np.float32), noise((64,), 4)
    given = {"rounding": "stochastic_a", "n_bits": 4}
    for out in (random.view(np.uint16)[:64], random.view(np.uint16)[64:]):
        with pytest.raises(ValueError, match="out shares memory with what is read"):
            fk.encode(x, "bf16", random_bits=random, out=out, **given)
    with pytest.raises(ValueError, match="out shares memory with what is read"):
        fk.pack(x, "e4m3", random_bits=random, out=random[:16], **given)
    assert same_bits(random, noise((64,), 4))


@simulated
def test_random_bits_of_the_host_go_up_on_the_stream_that_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's current stream is not CuPy's: elsewhere they come too late, and their memory goes too early."""
    streams: list[Any] = [None]
    uploads: list[Any] = []

    @contextmanager
    def cupy_stream(at: Any) -> Iterator[None]:
        streams.append(at)
        yield
        streams.pop()

    def upload(array: Any) -> Any:
        uploads.append(streams[-1])
        return array

    take, x = arrays.take, np.ones(4, np.float32)
    monkeypatch.setattr(arrays, "take", lambda given, name: take(given, name)._replace(home="torch"))
    monkeypatch.setattr(arrays, "stream_of", lambda stream, given, name="x": 77)
    monkeypatch.setattr(arrays, "give", lambda given, made: made)
    monkeypatch.setattr(arrays, "result", lambda given, shape, dtype, stream: np.empty(shape, dtype))
    monkeypatch.setattr(arrays, "cupy_stream", cupy_stream)
    monkeypatch.setattr(arrays, "upload", upload)
    fk.encode(x, "e4m3", rounding="stochastic_a", n_bits=4, random_bits=[1, 2, 3, 4])
    assert uploads[-1] == 77
