"""The judge of every float32: a wrong code is counted and named, by run files, by digests and by the codec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feather_ref as fr
from feather_kernels import driver, exhaustive, natives
from feather_ref import golden
from feather_ref.conformance import vectors


def have_vectors() -> bool:
    """Whether all of them are here: where only the kernels are tried, they need not be."""
    try:
        return "convert.f32.e2m1.rne.sat.run" in golden.manifest()
    except FileNotFoundError:
        return False


RUN = "convert.f32.e4m3.rne.sat.run"
pytestmark = pytest.mark.skipif(not have_vectors(), reason="no golden vectors are installed")
STARTS = (0, 0x3F000000, 0x43E00000 - (1 << 15), 0x7F800000 - 5, 0xC3E00000, (1 << 32) - (1 << 16))


def bits_from(start: int, count: int = 1 << 16) -> np.ndarray:
    return np.arange(start, start + count, dtype=np.uint64).astype(np.uint32)


def codes_of(bits: np.ndarray) -> np.ndarray:
    return fr.encode(bits.view(np.float32), "e4m3", overflow="saturate")


@pytest.fixture(scope="module")
def lines() -> exhaustive.Lines:
    return exhaustive.Lines(np, vectors.load(RUN, golden.question(RUN), True, None), fr.get_format("e4m3"))


@pytest.mark.parametrize("start", STARTS)
def test_right_codes_are_right_and_one_wrong_code_is_found(lines: exhaustive.Lines, start: int) -> None:
    bits = bits_from(start)
    codes = codes_of(bits)
    assert lines.part(bits, codes) == exhaustive.Part()
    for at in (0, 777, codes.size - 1):
        spoilt = codes.copy()
        spoilt[at] ^= 4
        wanted = int(codes[at]), int(spoilt[at])
        assert lines.part(bits, spoilt) == exhaustive.Part(1, 0, (int(bits[at]), wanted[1], wanted[0]))


def test_another_nan_is_counted_apart_and_a_number_for_nan_is_wrong(lines: exhaustive.Lines) -> None:
    bits = bits_from(0x7F800000 - 5, 16)
    codes = codes_of(bits)
    assert lines.part(bits, np.where(codes == 0x7F, 0xFF, codes).astype(np.uint8)) == exhaustive.Part(0, 10)
    found = lines.part(bits, np.where(codes == 0x7F, 0x7E, codes).astype(np.uint8))
    assert found == exhaustive.Part(10, 0, (0x7F800001, 0x7E, 0x7F))
    found = lines.part(bits, np.where(codes == 0x7E, 0x7F, codes).astype(np.uint8))  # NaN for a number
    assert found == exhaustive.Part(6, 0, (0x7F7FFFFB, 0x7F, 0x7E))


def test_where_the_codec_s_nan_is_wanted_another_is_wrong() -> None:
    steps: Any = vectors.load(RUN, golden.question(RUN), True, None)
    lines = exhaustive.Lines(np, steps, fr.get_format("e4m3"), any_nan=False)
    bits = bits_from(0x7F800000 - 5, 16)
    codes = codes_of(bits)
    assert lines.part(bits, codes) == exhaustive.Part()
    codes[-1] = 0xFF
    assert lines.part(bits, codes) == exhaustive.Part(1, 0, (int(bits[-1]), 0xFF, 0x7F))


def test_digests_find_one_wrong_code_in_a_chunk() -> None:
    name = "convert.f32.tf32.rne.nonsat.dig"
    digests: Any = vectors.load(name, golden.question(name), True, None)
    start = 0x7F << 24  # NaN of both kinds of payload are in it
    bits = bits_from(start, exhaustive.CHUNK)
    codes = fr.encode(bits.view(np.float32), "tf32")
    codes[-1] ^= 1  # another NaN
    assert exhaustive.hashed(digests, start, codes) == exhaustive.Part()
    right = int(codes[12345])
    codes[12345] ^= 1
    found = exhaustive.hashed(digests, start, codes)
    assert found == exhaustive.Part(1, 0, (start + 12345, right ^ 1, right))


class Host(np.ndarray):
    """An array of NumPy in the place of CuPy's."""

    def get(self) -> np.ndarray:
        return self.view(np.ndarray)


class Library:
    """What is asked of CuPy, by NumPy, for a few inputs."""

    uint32, float32 = np.uint32, np.float32
    asarray, searchsorted = staticmethod(np.asarray), staticmethod(np.searchsorted)

    @staticmethod
    def arange(count: int, dtype: type) -> np.ndarray:
        return np.arange(count, dtype=dtype).view(Host)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first 2**18 inputs, a NumPy in the place of CuPy, and a codec that is wrong at one of them."""
    monkeypatch.setattr(exhaustive, "CHUNK", 1 << 14)
    monkeypatch.setattr(exhaustive, "INPUTS", 1 << 18)
    monkeypatch.setattr(driver, "cupy", Library)

    def encode(x: Any, row: fr.Format, **policies: Any) -> Any:
        codes = fr.encode(x, row, **policies)
        codes[x.view(np.uint32) == 0x2ABCD] = 0x55
        return codes.view(Host)

    monkeypatch.setattr(exhaustive.fk, "encode", encode)


@pytest.mark.parametrize("overflow", ["saturate", "nonsaturating"])
@pytest.mark.parametrize("files", [True, False])
def test_a_sweep_names_the_first_wrong_input(
    monkeypatch: pytest.MonkeyPatch, few: None, overflow: str, files: bool
) -> None:
    if not files:

        def missing(folder: Path | None = None) -> Any:
            raise FileNotFoundError

        monkeypatch.setattr(golden, "manifest", missing)
    found = exhaustive.sweep("e4m3", overflow, progress=False)
    assert (found.wrong, found.first) == (1, (0x2ABCD, 0x55, 0))
    assert not found
    short = {"saturate": "sat", "nonsaturating": "nonsat"}[overflow]
    assert found.against == (f"convert.f32.e4m3.rne.{short}.run" if files else "the codec")
    assert "1 wrong, the first 0x0002abcd: 0x55, not 0x0" in str(found)


def test_natives_are_judged_by_vectors_of_their_rules() -> None:
    found = [(native, natives.vectors_of(native)) for native in natives.NATIVES if native.source == "fp32"]
    assert [native.text for native, name in found if name is None] == ["cvt.rna.tf32.f32"]
    for native, name in found:
        if name is not None:
            asked = golden.question(name)
            rules = {"rounding": "nearest_even", "overflow": fr.get_format(native.target).overflow, **native.rules}
            assert (asked.source, asked.target) == ("fp32", native.target)
            assert (asked.policies["rounding"], asked.policies["overflow"]) == (rules["rounding"], rules["overflow"])
            assert asked.policies.get("nan") == ("max" if rules.get("nan") == "max" else None)
