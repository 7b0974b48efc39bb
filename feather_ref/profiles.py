"""Profiles: the choices of libraries by name, as in encode(x, "e4m3", profile="ml_dtypes").

A profile is data: for each format that a library converts to, the policies that give its codes for
float32 inputs.  It imitates choices, not bugs: `differs` says where the library goes its own way,
and tests/crosscheck/test_profiles_libraries.py holds both against the library.

    nan=(0x7E, 0xFE)      the codes for +NaN and for -NaN
    "binary*"             every format whose name begins like that

Source: each profile names its own.  Where `verified` is empty, that is a document alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from feather_ref.formats import FORMATS, Format

Choices = Mapping[str, Any]  # the arguments of `feather_ref.policy.resolve`


@dataclass(frozen=True, eq=False)
class Profile:
    """The choices of one library.

    choices: policies by format name, or by a pattern of names.  source: the document or code.
    verified: what it was compared with, input by input; "" is unverified.  differs: where the
    library gives other codes than these choices.
    """

    name: str
    choices: Mapping[str, Choices]
    source: str
    verified: str = ""
    differs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "choices", MappingProxyType(dict(self.choices)))


def _choose(overflow: str, nan: str | int | tuple[int, int] = "canonical", **others: str) -> Choices:
    return MappingProxyType({"overflow": overflow, "nan": nan, **others})


_CLAMP, _CLAMP_SIGNED = _choose("saturate"), _choose("saturate", "preserve_sign")
_LET_GO, _LET_GO_SIGNED = _choose("nonsaturating"), _choose("nonsaturating", "preserve_sign")
_CLAMP_MAX = _choose("saturate", "max")
_FNUZ = ("e4m3fnuz", "e5m2fnuz")

# Without a NaN, the sign bit is turned over and the rest lost: a zero of the other sign.
_ZERO6, _ZERO4 = _choose("saturate", (0x20, 0x00)), _choose("saturate", (0x8, 0x0))
_E5M2_7E = (0x7E, 0xFE)  # the IEEE quiet NaN; the canonical one of the row is 7F

_TWICE = "float64 and integers go through float32 and are rounded twice"
_E8M0_EARLY = "e8m0: above 2**-127 and below 1.5 * 2**-127 gives 01, not 00"
_PAYLOAD = "fp16: NaN keeps the upper bits of its payload"

_ML_DTYPES = {
    "e4m3": _LET_GO_SIGNED,
    "e5m2": _choose("nonsaturating", _E5M2_7E),
    **dict.fromkeys((*_FNUZ, "e4m3b11fnuz"), _LET_GO),
    **dict.fromkeys(("e4m3ieee", "e3m4", "bf16"), _LET_GO_SIGNED),
    "e8m0": _choose("nonsaturating", rounding="nearest_away", negative="nan"),
    **dict.fromkeys(("e2m3", "e3m2"), _ZERO6),
    "e2m1": _ZERO4,
}

_TORCH = {
    "e4m3": _LET_GO_SIGNED,
    "e5m2": _LET_GO_SIGNED,
    **dict.fromkeys(_FNUZ, _LET_GO),
    "e8m0": _choose("nonsaturating", rounding="nearest_away", negative="abs"),
    "bf16": _LET_GO,
    "fp16": _LET_GO_SIGNED,
}
_TORCH_DIFFERS = (
    _TWICE,
    _E8M0_EARLY,
    "bf16: NaN from float32 gives FFFF where the cast is vectorised",
    _PAYLOAD,
)

_CUDA_NARROW = {
    **dict.fromkeys(("e2m3", "e3m2", "e2m1"), _CLAMP_MAX),
    **dict.fromkeys(("bf16", "fp16"), _choose("nonsaturating", 0x7FFF)),
}
_CUDA_DIFFERS = ("e4m3, e5m2: NaN from double keeps its sign, and is 7E in e5m2",)

_ONNX = {
    "e4m3": _CLAMP_SIGNED,
    "e5m2": _choose("saturate", _E5M2_7E),
    **dict.fromkeys(_FNUZ, _CLAMP),
    **dict.fromkeys(("e2m3", "e3m2"), _ZERO6),
    "e2m1": _ZERO4,
    "e8m0": _choose("saturate", rounding="toward_positive", negative="abs"),
    "bf16": _LET_GO_SIGNED,
    "fp16": _LET_GO_SIGNED,
}

_PROFILES = (
    Profile(
        "ml_dtypes", _ML_DTYPES, "ml_dtypes, array.astype(dtype)", "ml_dtypes 0.6.0",
        (f"{_TWICE}, before 0.7", f"{_E8M0_EARLY}, before 0.7", "e8m0: zero gives FF, not 00"),
    ),
    Profile(
        "torch>=2.12", {**_TORCH, "e4m3": _CLAMP_SIGNED}, "PyTorch, tensor.to(dtype) on the CPU", "torch 2.13.0",
        _TORCH_DIFFERS,
    ),
    Profile("torch<=2.11", _TORCH, "PyTorch pull request 178817, which changed e4m3", "", _TORCH_DIFFERS),
    Profile(
        "cuda-satfinite",
        {
            "e4m3": _CLAMP, "e5m2": _CLAMP,
            "e8m0": _choose("saturate", rounding="toward_positive", negative="abs"), **_CUDA_NARROW,
        },
        "CUDA Math API, __NV_SATFINITE, cudaRoundPosInf for e8m0", "CUDA 13.5 headers on the host", _CUDA_DIFFERS,
    ),
    Profile(
        "cuda-nosat",
        {
            "e4m3": _LET_GO, "e5m2": _LET_GO,
            "e8m0": _choose("nonsaturating", rounding="toward_positive", negative="abs"), **_CUDA_NARROW,
        },
        "CUDA Math API, __NV_NOSAT, cudaRoundPosInf for e8m0", "CUDA 13.5 headers on the host", _CUDA_DIFFERS,
    ),
    Profile(
        "onnx", _ONNX, "ONNX Cast, saturate=1, round_mode=up; reference implementation", "onnx 1.23.2",
        (
            _TWICE, _PAYLOAD, "e8m0: above zero and up to 2**-127 gives 01, not 00",
            "e8m0: Inf gives FF, though finite values clamp",
        ),
    ),
    Profile(
        "hip",
        {
            "e4m3": _CLAMP_SIGNED, "e5m2": _choose("propagate", "preserve_sign"), **dict.fromkeys(_FNUZ, _CLAMP),
        },
        "ROCm clr, amd_hip_fp8.h, __HIP_SATFINITE", "",
        (
            "e4m3: Inf gives NaN, though finite values clamp", "FNUZ: Inf gives 80, though finite values clamp",
            "deep underflow shifts by more than 63 bits, which C++ leaves open",
        ),
    ),
    Profile(
        "riscv", dict.fromkeys(("e4m3", "e5m2", "bf16", "fp16"), _LET_GO),
        "RISC-V Zvfofp8min 0.2.1 (the instructions without .sat), Zfbfmin, Zfhmin", "",
        ("e4m3: overflow below zero and -Inf give the canonical 7F, not FF",),
    ),
    Profile(
        "p3109-4.0",
        {"binary*": _choose("p3109_satnone", negative="nan"), **dict.fromkeys(_FNUZ, _CLAMP)},
        "IEEE P3109 interim report 4.0; e4m3fnuz is Binary8p4sf, e5m2fnuz Binary8p3sf",
    ),
)  # fmt: skip

PROFILES: Mapping[str, Profile] = MappingProxyType({profile.name: profile for profile in _PROFILES})
"""Every profile, by name."""


def choices(profile: str, fmt: Format) -> Choices:
    """The policies of a profile for a format.

    >>> dict(choices("ml_dtypes", FORMATS["e5m2"]))
    {'overflow': 'nonsaturating', 'nan': (126, 254)}

    Raises TypeError for what is no name, ValueError for an unknown profile, or a format that the
    profile does not know.
    """
    if not isinstance(profile, str):
        raise TypeError(f"profile must be a name, got {type(profile).__name__}")
    if profile not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}; got {profile!r}")
    known = PROFILES[profile].choices
    found = next((known[name] for name in known if fnmatchcase(fmt.name, name)), None)
    if found is None or FORMATS.get(fmt.name, fmt) != fmt:  # a row of one's own, whatever its name
        raise ValueError(f"profile={profile!r} does not know format {fmt.name!r}; it knows {', '.join(known)}")
    return found
