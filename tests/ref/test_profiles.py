"""Profiles: each choice cell by cell, typed from the libraries' documents and outputs; what wins; errors.

tests/crosscheck/test_profiles_libraries.py holds them against the libraries themselves.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import feather_ref as fr
from feather_ref import oracle
from feather_ref.formats import FORMATS, Format, get_format
from feather_ref.policy import resolve
from feather_ref.profiles import PROFILES, choices
from overflow_table import FAR

NANS = np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32)

# profile, format | codes of +4 max, -4 max, +Inf, -Inf, +NaN, -NaN
CELLS = """
ml_dtypes       e4m3         | 7F   FF   7F   FF   7F   FF
ml_dtypes       e5m2         | 7C   FC   7C   FC   7E   FE
ml_dtypes       e4m3fnuz     | 80   80   80   80   80   80
ml_dtypes       e5m2fnuz     | 80   80   80   80   80   80
ml_dtypes       e4m3b11fnuz  | 80   80   80   80   80   80
ml_dtypes       e4m3ieee     | 78   F8   78   F8   7C   FC
ml_dtypes       e3m4         | 70   F0   70   F0   78   F8
ml_dtypes       e8m0         | FF   FF   FF   FF   FF   FF
ml_dtypes       e2m3         | 1F   3F   1F   3F   20   00
ml_dtypes       e3m2         | 1F   3F   1F   3F   20   00
ml_dtypes       e2m1         | 7    F    7    F    8    0
ml_dtypes       bf16         | 7F80 FF80 7F80 FF80 7FC0 FFC0
torch>=2.12     e4m3         | 7E   FE   7E   FE   7F   FF
torch<=2.11     e4m3         | 7F   FF   7F   FF   7F   FF
torch>=2.12     e5m2         | 7C   FC   7C   FC   7F   FF
torch<=2.11     e5m2         | 7C   FC   7C   FC   7F   FF
torch>=2.12     e4m3fnuz     | 80   80   80   80   80   80
torch<=2.11     e4m3fnuz     | 80   80   80   80   80   80
torch>=2.12     e5m2fnuz     | 80   80   80   80   80   80
torch<=2.11     e5m2fnuz     | 80   80   80   80   80   80
torch>=2.12     e8m0         | FF   FF   FF   FF   FF   FF
torch<=2.11     e8m0         | FF   FF   FF   FF   FF   FF
torch>=2.12     bf16         | 7F80 FF80 7F80 FF80 7FC0 7FC0
torch<=2.11     bf16         | 7F80 FF80 7F80 FF80 7FC0 7FC0
torch>=2.12     fp16         | 7C00 FC00 7C00 FC00 7E00 FE00
torch<=2.11     fp16         | 7C00 FC00 7C00 FC00 7E00 FE00
cuda-satfinite  e4m3         | 7E   FE   7E   FE   7F   7F
cuda-satfinite  e5m2         | 7B   FB   7B   FB   7F   7F
cuda-satfinite  e8m0         | FE   FE   FE   FE   FF   FF
cuda-satfinite  e2m3         | 1F   3F   1F   3F   1F   1F
cuda-satfinite  e3m2         | 1F   3F   1F   3F   1F   1F
cuda-satfinite  e2m1         | 7    F    7    F    7    7
cuda-satfinite  bf16         | 7F80 FF80 7F80 FF80 7FFF 7FFF
cuda-satfinite  fp16         | 7C00 FC00 7C00 FC00 7FFF 7FFF
cuda-nosat      e4m3         | 7F   FF   7F   FF   7F   7F
cuda-nosat      e5m2         | 7C   FC   7C   FC   7F   7F
cuda-nosat      e8m0         | FF   FF   FF   FF   FF   FF
cuda-nosat      e2m3         | 1F   3F   1F   3F   1F   1F
cuda-nosat      e3m2         | 1F   3F   1F   3F   1F   1F
cuda-nosat      e2m1         | 7    F    7    F    7    7
cuda-nosat      bf16         | 7F80 FF80 7F80 FF80 7FFF 7FFF
cuda-nosat      fp16         | 7C00 FC00 7C00 FC00 7FFF 7FFF
onnx            e4m3         | 7E   FE   7E   FE   7F   FF
onnx            e5m2         | 7B   FB   7B   FB   7E   FE
onnx            e4m3fnuz     | 7F   FF   7F   FF   80   80
onnx            e5m2fnuz     | 7F   FF   7F   FF   80   80
onnx            e2m3         | 1F   3F   1F   3F   20   00
onnx            e3m2         | 1F   3F   1F   3F   20   00
onnx            e2m1         | 7    F    7    F    8    0
onnx            e8m0         | FE   FE   FE   FE   FF   FF
onnx            bf16         | 7F80 FF80 7F80 FF80 7FC0 FFC0
onnx            fp16         | 7C00 FC00 7C00 FC00 7E00 FE00
hip             e4m3         | 7E   FE   7E   FE   7F   FF
hip             e5m2         | 7B   FB   7C   FC   7F   FF
hip             e4m3fnuz     | 7F   FF   7F   FF   80   80
hip             e5m2fnuz     | 7F   FF   7F   FF   80   80
riscv           e4m3         | 7F   FF   7F   FF   7F   7F
riscv           e5m2         | 7C   FC   7C   FC   7F   7F
riscv           bf16         | 7F80 FF80 7F80 FF80 7FC0 7FC0
riscv           fp16         | 7C00 FC00 7C00 FC00 7E00 7E00
p3109-4.0       binary8p3se  | 7F   FF   7F   FF   80   80
p3109-4.0       binary8p3sf  | 7F   FF   7F   FF   80   80
p3109-4.0       binary8p3ue  | FE   FF   FE   FF   FF   FF
p3109-4.0       binary8p3uf  | FE   FF   FE   FF   FF   FF
p3109-4.0       e4m3fnuz     | 7F   FF   7F   FF   80   80
p3109-4.0       e5m2fnuz     | 7F   FF   7F   FF   80   80
"""  # fmt: skip
ROWS = [(*head.split(), cells.split()) for head, cells in (line.split("|") for line in CELLS.split("\n") if line)]


def far(name: str) -> float:
    """Four times the greatest value; float32 has none for the formats of its own range."""
    row = get_format(name)
    return FAR.get(name, 4 * row.max)


@pytest.mark.parametrize(("profile", "name", "cells"), ROWS, ids=lambda v: v if isinstance(v, str) else "")
def test_cells(profile: str, name: str, cells: list[str]) -> None:
    big, nans = far(name), NANS
    x = np.array([big, -big, np.inf, -np.inf])
    codes = [*fr.encode(x, name, profile=profile), *fr.encode(nans, name, profile=profile)]
    assert [f"{code:X}" for code in codes] == [cell.lstrip("0") or "0" for cell in cells]


def test_every_choice_has_its_cells() -> None:
    typed = {(profile, name) for profile, name, _ in ROWS}
    known = {(profile.name, name) for profile in PROFILES.values() for name in profile.choices if "*" not in name}
    assert typed - {row for row in typed if row[1].startswith("binary")} == known


# e8m0 has no other format's defaults: profile | codes of 1.25, 1.5, 3, -1.25, 0
E8M0 = """
ml_dtypes       | 7F 80 81 FF 00
torch>=2.12     | 7F 80 81 7F 00
torch<=2.11     | 7F 80 81 7F 00
cuda-satfinite  | 80 80 81 80 00
cuda-nosat      | 80 80 81 80 00
onnx            | 80 80 81 80 00
"""


@pytest.mark.parametrize("line", [line for line in E8M0.split("\n") if line], ids=lambda line: line.split()[0])
def test_the_scales(line: str) -> None:
    profile, *cells = line.replace("|", " ").split()
    codes = fr.encode([1.25, 1.5, 3.0, -1.25, 0.0], "e8m0", profile=profile)
    assert [f"{code:02X}" for code in codes] == cells


@pytest.mark.parametrize(("profile", "name"), [row[:2] for row in ROWS], ids=str)
def test_the_oracle_agrees_on_numbers(profile: str, name: str) -> None:
    """The choices are arguments that the oracle takes too; NaN has its cells above."""
    row = get_format(name)
    policies = {key: value for key, value in choices(profile, row).items() if key != "nan"}
    edge = Format.exact(row, row.max_magnitude)
    numbers = [0.0, -0.0, 1.0, 1.0625, -1.9, float(edge), -float(edge) * 1.25, 2.0**-20, np.inf, -np.inf]
    expected = [oracle.encode(number, row, nan=0, **policies) for number in numbers]
    assert fr.encode(numbers, name, profile=profile).tolist() == expected


# --- what wins --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "profile", "given", "x", "code"),
    [
        ("e4m3", "ml_dtypes", {}, 465.0, 0x7F),
        ("e4m3", "ml_dtypes", {"overflow": "saturate"}, 465.0, 0x7E),
        ("e5m2", "ml_dtypes", {"nan": "canonical"}, np.nan, 0x7F),
        ("e5m2", "ml_dtypes", {"nan": 0x7D}, np.nan, 0x7D),
        ("e8m0", "ml_dtypes", {"rounding": "nearest_even"}, 3.0, 0x80),  # also when it names the default
        ("e8m0", "ml_dtypes", {"negative": "abs"}, -2.0, 0x80),
        ("e4m3", "ml_dtypes", {"rounding": "toward_zero"}, 1.12, 0x38),
        ("e4m3", "ml_dtypes", {"subnormals": "flush_output"}, 2.0**-9, 0x00),
        ("e4m3", None, {}, 465.0, 0x7E),  # no profile is the row's own
        ("float8_e4m3fn", "ml_dtypes", {"overflow": None, "nan": None}, 465.0, 0x7F),  # None is not given
    ],
)
def test_an_argument_wins(name: str, profile: Any, given: dict[str, Any], x: float, code: int) -> None:
    assert fr.encode(x, name, profile=profile, **given) == code


def test_every_entry_takes_a_profile() -> None:
    x = np.array([465.0, -465.0], np.float32)
    assert fr.encode(x, "e4m3", profile="ml_dtypes").tolist() == [0x7F, 0xFF]
    assert hex(fr.pack(x, "e4m3", profile="ml_dtypes")[0]) == "0xff7f"
    assert np.isnan(fr.quantize(x, "e4m3", profile="ml_dtypes")).all()
    assert fr.convert([0x7C], "e5m2", "e4m3", profile="ml_dtypes").tolist() == [0x7F]
    assert fr.add(0x7E, 0x7E, "e4m3", profile="ml_dtypes") == 0x7F
    assert fr.pack_tensor(x, "e4m3", profile="ml_dtypes").codes().tolist() == [0x7F, 0xFF]


# --- a pair of NaN codes ----------------------------------------------------------------------


def test_a_pair_of_codes_for_nan() -> None:
    for x in (NANS, NANS.astype(np.float64), NANS.astype(np.float16), NANS.astype(np.longdouble)):
        assert fr.encode(x, "e5m2", nan=(0x7E, 0xFD)).tolist() == [0x7E, 0xFD]
    assert fr.encode(NANS, "nf4", nan=(1, 2)).tolist() == [1, 2]
    assert fr.encode(NANS, "uint8", nan=(3, np.uint8(4))).tolist() == [3, 4]
    assert resolve(FORMATS["e5m2"], nan=(np.int64(1), 2)).nan == (1, 2)
    assert type(resolve(FORMATS["e5m2"], nan=(np.int64(1), 2)).nan[0]) is int  # type: ignore[index]


@pytest.mark.parametrize(
    ("nan", "error", "match"),
    [
        ((0x7E, 0x100), ValueError, "nan=0x100 is not a code of 'e5m2'"),
        ((-1, 0x7E), ValueError, "nan=-0x1 is not a code of 'e5m2'"),
        (("canonical", 0x7E), TypeError, "nan must be a name, a code or two codes, got str"),
        ((True, 0x7E), TypeError, "nan must be a name, a code or two codes, got bool"),
        ((0x7E,), TypeError, "nan must be a name, got tuple"),
        ((0x7E, 0x7F, 0xFF), TypeError, "nan must be a name, got tuple"),
    ],
)
def test_pairs_that_are_refused(nan: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        fr.encode(1.0, "e5m2", nan=nan)


# --- the table --------------------------------------------------------------------------------

NAMES = (
    "ml_dtypes", "torch>=2.12", "torch<=2.11", "cuda-satfinite", "cuda-nosat", "onnx", "hip", "riscv", "p3109-4.0",
)  # fmt: skip


def test_names() -> None:
    assert tuple(PROFILES) == NAMES
    assert all(name == profile.name and profile.source for name, profile in PROFILES.items())


def test_those_from_documents_alone_are_unverified() -> None:
    unverified = {name for name, profile in PROFILES.items() if not profile.verified}
    assert unverified == {"torch<=2.11", "hip", "riscv", "p3109-4.0"}


def test_profiles_are_frozen() -> None:
    profile = PROFILES["onnx"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        profile.source = "me"  # type: ignore[misc]
    with pytest.raises(TypeError):
        profile.choices["e4m3"] = {}  # type: ignore[index]
    with pytest.raises(TypeError):
        profile.choices["e4m3"]["overflow"] = "saturate"  # type: ignore[index]
    with pytest.raises(TypeError):
        PROFILES["mine"] = profile  # type: ignore[index]


@pytest.mark.parametrize("name", NAMES)
def test_every_choice_is_one_that_its_format_takes(name: str) -> None:
    for fmt in PROFILES[name].choices:
        row = get_format("binary6p3ue" if fmt == "binary*" else fmt)
        policy = resolve(row, profile=name)
        assert {key: getattr(policy, key) for key in choices(name, row)} == dict(choices(name, row))


@pytest.mark.parametrize(
    ("profile", "fmt", "error", "match"),
    [
        ("numpy", "e4m3", ValueError, f"profile must be one of {', '.join(NAMES)}; got 'numpy'"),
        ("ML_DTYPES", "e4m3", ValueError, "profile must be one of .*; got 'ML_DTYPES'"),
        ("", "e4m3", ValueError, "profile must be one of .*; got ''"),
        (1, "e4m3", TypeError, "profile must be a name, got int"),
        (["ml_dtypes"], "e4m3", TypeError, "profile must be a name, got list"),
        ("ml_dtypes", "int4", ValueError, "profile='ml_dtypes' does not know format 'int4'; it knows e4m3, e5m2, .*"),
        ("ml_dtypes", "binary8p3se", ValueError, "profile='ml_dtypes' does not know format 'binary8p3se'"),
        ("p3109-4.0", "e4m3", ValueError, r"'p3109-4.0' does not know format 'e4m3'; it knows binary\*, e4m3fnuz"),
        ("riscv", "e2m1", ValueError, "profile='riscv' does not know format 'e2m1'"),
        ("ml_dtypes", Format("e4m3", 8, exponent_bits=5, mantissa_bits=2, bias=15), ValueError, "does not know"),
    ],
)
def test_errors(profile: Any, fmt: str | Format, error: type[Exception], match: str) -> None:
    for x in ([1.0], []):
        with pytest.raises(error, match=match):
            fr.encode(x, fmt, profile=profile)
