"""Profiles held against the libraries that they imitate: every boundary, every 16-bit float, NaNs.

Where a library goes its own way, the float32 patterns and its codes stand in OWN_WAY, the inputs of
other dtypes in OTHER_SOURCES; one that vanishes is an error.  torch and onnx are no dependencies:
without them their tests are skipped.  The CUDA headers come from a package index (marker network)
and are compiled for the host.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401 - NumPy knows its dtypes by name then
import numpy as np
import pytest
from numpy.typing import NDArray

import feather_ref as fr
from crosscheck.edges import Steps
from crosscheck.peers import ML_DTYPES
from feather_ref.profiles import PROFILES

Array = NDArray[Any]
Encode = Callable[[str, Array], Array]  # our name of a format, floats -> codes

TORCH_NAMES = {**ML_DTYPES, "fp16": "float16"}
ONNX_NAMES = {
    "e4m3": "FLOAT8E4M3FN", "e5m2": "FLOAT8E5M2", "e4m3fnuz": "FLOAT8E4M3FNUZ", "e5m2fnuz": "FLOAT8E5M2FNUZ",
    "e8m0": "FLOAT8E8M0", "e2m3": "FLOAT6E2M3", "e3m2": "FLOAT6E3M2", "e2m1": "FLOAT4E2M1",
    "bf16": "BFLOAT16", "fp16": "FLOAT16",
}  # fmt: skip

# --- the libraries ----------------------------------------------------------------------------


def by_ml_dtypes(name: str, x: Array) -> Array:
    with np.errstate(all="ignore"):
        codes = x.astype(ML_DTYPES[name])
    return codes.view(f"u{codes.itemsize}")


def import_torch() -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed, and no dependency")
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 12):
        pytest.skip(f"torch {torch.__version__} is older than the profile")
    return torch


def by_torch(name: str, x: Array) -> Array:
    torch = import_torch()
    codes = torch.from_numpy(x).to(getattr(torch, TORCH_NAMES[name]))
    return codes.view(torch.uint8 if codes.element_size() == 1 else torch.uint16).numpy()


def by_onnx(name: str, x: Array) -> Array:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed, and no dependency")
    reference = pytest.importorskip("onnx.reference")
    kinds = {"float16": "FLOAT16", "float32": "FLOAT", "float64": "DOUBLE"}
    source, target = (getattr(onnx.TensorProto, kind) for kind in (kinds[x.dtype.name], ONNX_NAMES[name]))
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Cast", ["x"], ["y"], to=target)], "cast",
        [onnx.helper.make_tensor_value_info("x", source, x.shape)],
        [onnx.helper.make_tensor_value_info("y", target, x.shape)],
    )  # fmt: skip
    model = onnx.helper.make_model(graph)
    with np.errstate(all="ignore"):
        codes = reference.ReferenceEvaluator(model).run(None, {"x": x})[0]
    return codes.view(f"u{codes.itemsize}")


LIBRARIES: dict[str, Encode] = {"ml_dtypes": by_ml_dtypes, "torch>=2.12": by_torch, "onnx": by_onnx}

# --- where they go their own way --------------------------------------------------------------

EARLY = ((0x00400001, 0x005FFFFF, 0x01),)  # above 2**-127, below 1.5 * 2**-127
TINY = ((0x00000001, 0x00400000, 0x01), (0x80000001, 0x80400000, 0x01))  # above zero, up to 2**-127

# (profile, format): float32 patterns lo .. hi, and the code that the library gives to all of them
OWN_WAY: dict[tuple[str, str], tuple[tuple[int, int, int], ...]] = {
    ("ml_dtypes", "e8m0"): (*EARLY, (0x00000000, 0x00000000, 0xFF), (0x80000000, 0x80000000, 0xFF)),
    ("torch>=2.12", "e8m0"): (*EARLY, (0x80400001, 0x805FFFFF, 0x01)),
    ("onnx", "e8m0"): (*TINY, (0x7F800000, 0x7F800000, 0xFF), (0xFF800000, 0xFF800000, 0xFF)),
}
# The upper bits of a NaN's payload survive: quiet in torch; as they are, but not all zero, in NumPy and so in ONNX.
PAYLOAD: dict[tuple[str, str], Callable[[Array], Array]] = {
    ("torch>=2.12", "fp16"): lambda payload: payload | 0x200,
    ("onnx", "fp16"): lambda payload: np.maximum(payload, 1),
}

# (profile, format, x, our code, their code), for x of dtypes other than float32
OTHER_SOURCES: tuple[tuple[str, str, Any, int, int], ...] = (
    ("ml_dtypes", "e4m3", np.float64(-431.99999999999994), 0xFD, 0xFE),
    ("ml_dtypes", "e4m3", np.float64(1.0625 + 2.0**-40), 0x39, 0x38),
    ("ml_dtypes", "e2m1", np.float64(0.25 + 2.0**-40), 0x1, 0x0),
    ("ml_dtypes", "bf16", np.int64(16973823), 0x4B81, 0x4B82),
    ("torch>=2.12", "e4m3", np.float64(-431.99999999999994), 0xFD, 0xFE),
    ("torch>=2.12", "bf16", np.float64(1 + 2.0**-8 + 2.0**-40), 0x3F81, 0x3F80),
    ("onnx", "e4m3", np.float64(-431.99999999999994), 0xFD, 0xFE),
    ("onnx", "e2m1", np.float64(0.25 + 2.0**-40), 0x1, 0x0),
)

# --- the comparison ---------------------------------------------------------------------------


@cache
def inputs(profile: str, name: str) -> NDArray[np.uint32]:
    """float32 patterns: what decides, every float16 and bfloat16, NaNs with payloads, and a seeded lot."""
    half = np.arange(1 << 16).astype(np.uint16)
    bits = [half.astype(np.uint32) << 16, half.view(np.float16).astype(np.float32).view(np.uint32)]
    bits.append(np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, np.uint32))
    nans = np.uint32(1) << np.arange(23, dtype=np.uint32)
    bits += [nans | 0x7F800000, nans | 0xFF800000]
    if fr.get_format(name).bits <= 8:
        policies = {key: value for key, value in PROFILES[profile].choices[name].items() if key != "nan"}
        bits.append(Steps(name, nan=0, **policies).inputs())
    else:  # the tie and its neighbours, for every code
        drop = 23 - fr.get_format(name).mantissa_bits
        near = np.array([(1 << drop - 1) + d for d in (-1, 0, 1)], np.uint32)
        bits += [(codes[:, None] + near).ravel() for codes in bits[:2]]
    for lo, hi, _ in OWN_WAY.get((profile, name), ()):
        bits.append(np.array([lo, hi, (lo - 1) % (1 << 32), (hi + 1) % (1 << 32)], np.uint32))
    return np.unique(np.concatenate(bits))


def is_nan(bits: Array) -> Array:
    return (bits & 0x7FFFFFFF) > 0x7F800000


def own_codes(profile: str, name: str, bits: Array, codes: Array) -> Array:
    """Our codes, with the library's own ones in their places."""
    for lo, hi, code in OWN_WAY.get((profile, name), ()):
        codes = np.where((bits >= lo) & (bits <= hi), code, codes)
    if keep := PAYLOAD.get((profile, name)):
        codes = np.where(is_nan(bits), (bits >> 16) & 0x8000 | 0x7C00 | keep((bits >> 13) & 0x3FF), codes)
    return codes


def check(profile: str, name: str, encode: Encode) -> None:
    bits = inputs(profile, name)
    x = bits.view(np.float32)
    ours, theirs = fr.encode(x, name, profile=profile), encode(name, x)
    expected = own_codes(profile, name, bits, ours)
    if (profile, name) == ("torch>=2.12", "bf16"):  # FFFF where the cast is vectorised, 7FC0 elsewhere
        assert set(theirs[is_nan(bits)].tolist()) <= {0xFFFF, 0x7FC0}
        theirs = np.where(is_nan(bits), expected, theirs)
    wrong = np.flatnonzero(theirs != expected)
    shown = [f"{bits[i]:08X}: {theirs[i]:X}, not {expected[i]:X}" for i in wrong[:5]]
    assert not shown, f"{len(wrong)} differ, {profile} profile, {name}: {shown}"
    if (profile, name) in OWN_WAY:
        assert (expected != ours).any()  # or the entry says nothing


ROWS = [(profile, name) for profile in LIBRARIES for name in PROFILES[profile].choices]


@pytest.mark.parametrize(("profile", "name"), ROWS)
def test_the_library_gives_the_codes_of_its_profile(profile: str, name: str) -> None:
    if profile == "onnx" and name in ("e2m3", "e3m2", "e8m0"):
        tensor_proto = pytest.importorskip("onnx", reason="onnx is not installed, and no dependency").TensorProto
        if not hasattr(tensor_proto, ONNX_NAMES[name]):
            pytest.skip(f"this onnx has no {ONNX_NAMES[name]}")
    check(profile, name, LIBRARIES[profile])


@pytest.mark.parametrize("dtype", [np.float16, "bfloat16"])
@pytest.mark.parametrize(("profile", "name"), [row for row in ROWS if row[0] == "torch>=2.12" and row[1] != "fp16"])
def test_torch_from_every_16_bit_float(profile: str, name: str, dtype: Any) -> None:
    torch = import_torch()
    codes = np.arange(1 << 16).astype(np.uint16)
    source = torch.from_numpy(codes).view(torch.float16 if dtype is np.float16 else torch.bfloat16)
    target = getattr(torch, TORCH_NAMES[name])
    if target is source.dtype:
        pytest.skip("a cast to itself keeps the bits")
    result = source.to(target)
    theirs = result.view(torch.uint8 if result.element_size() == 1 else torch.uint16).numpy()
    x = codes.view(dtype)
    bits = x.astype(np.float32).view(np.uint32)
    ours = fr.encode(x, name, profile=profile)
    np.testing.assert_array_equal(theirs, own_codes(profile, name, bits, ours))


@pytest.mark.parametrize("row", OTHER_SOURCES, ids=lambda row: f"{row[0]}-{row[1]}-{row[2]!r}")
def test_other_sources_are_rounded_twice(row: tuple[str, str, Any, int, int]) -> None:
    profile, name, x, ours, theirs = row
    assert fr.encode(x, name, profile=profile) == ours != theirs
    assert LIBRARIES[profile](name, np.array([x]))[0] == theirs


# --- CUDA -------------------------------------------------------------------------------------

CUDA_PACKAGES = ("nvidia-cuda-runtime==13.5.37", "nvidia-cuda-crt==13.5.37", "nvidia-cuda-cccl")
CUDA_PROGRAM = r"""
#include <cuda_fp8.h>
#include <cuda_fp6.h>
#include <cuda_fp4.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cstdio>
#include <cstring>
#include <string>
static unsigned convert(const std::string &fmt, __nv_saturation_t sat, float x) {
    if (fmt == "e4m3") return __nv_cvt_float_to_fp8(x, sat, __NV_E4M3);
    if (fmt == "e5m2") return __nv_cvt_float_to_fp8(x, sat, __NV_E5M2);
    if (fmt == "e8m0") return __nv_cvt_float_to_e8m0(x, sat, cudaRoundPosInf);
    if (fmt == "e2m3") return __nv_cvt_float_to_fp6(x, __NV_E2M3, cudaRoundNearest);
    if (fmt == "e3m2") return __nv_cvt_float_to_fp6(x, __NV_E3M2, cudaRoundNearest);
    if (fmt == "e2m1") return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest);
    unsigned short code;
    if (fmt == "fp16") { __half h = __float2half_rn(x); std::memcpy(&code, &h, 2); }
    else { __nv_bfloat16 b = __float2bfloat16_rn(x); std::memcpy(&code, &b, 2); }
    return code;
}
int main(int, char **argv) {
    float x;
    while (std::fread(&x, 4, 1, stdin) == 1) {
        unsigned code = convert(argv[1], argv[2][0] == 's' ? __NV_SATFINITE : __NV_NOSAT, x);
        std::fwrite(&code, 4, 1, stdout);
    }
}
"""


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program above, compiled for the host with NVIDIA's headers."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    folder = tmp_path_factory.mktemp("cuda")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*pip, *CUDA_PACKAGES], check=True)
    for wheel in folder.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(folder)
    (folder / "convert.cpp").write_text(CUDA_PROGRAM, encoding="utf-8")
    include = folder / "nvidia" / "cu13" / "include"
    paths = [f"-I{include}", f"-I{include / 'cccl'}"]
    command = [compiler, "-w", "-O1", "-std=c++17", *paths, "convert.cpp", "-o", "convert"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "convert"


@pytest.mark.network
@pytest.mark.skipif(sys.platform != "linux", reason="the headers come in wheels for Linux")
@pytest.mark.parametrize("profile", ["cuda-satfinite", "cuda-nosat"])
def test_cuda_headers_give_the_codes_of_their_profiles(cuda: Path, profile: str) -> None:
    def encode(name: str, x: Array) -> Array:
        saturation = profile.removeprefix("cuda-")
        run = subprocess.run([cuda, name, saturation], input=x.tobytes(), capture_output=True, check=True)
        return np.frombuffer(run.stdout, np.uint32)

    for name in PROFILES[profile].choices:
        check(profile, name, encode)
