"""The face of the package: every public name, its documentation, and the functions made on demand."""

from __future__ import annotations

import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

import feather_ref as fr
from feather_ref.formats import FORMATS

ROOT = Path(__file__).resolve().parents[2]
CONSTANTS = {name for name in fr.__all__ if name.isupper()}
FOREIGN = ("numba", "cupy", "ml_dtypes", "click", "rich", "safetensors", "torch", "scipy", "sklearn", "gfloat")
# the words of 1.0, with the code at the bottom of its lane (tf32: in the top 19 bits of the word)
ONE = {
    "e4m3": 0x38, "e5m2": 0x3C, "e3m2": 0x0C, "e2m3": 0x08, "e2m1": 0x2, "e8m0": 0x7F, "fp16": 0x3C00, "bf16": 0x3F80,
    "tf32": 0x3F800000, "fp32": 0x3F800000, "e4m3fnuz": 0x40, "e5m2fnuz": 0x40, "e4m3b11fnuz": 0x58, "e4m3ieee": 0x38,
    "e3m4": 0x30, "ue4m3": 0x38, "ue5m3": 0x78, "int8": 1, "uint8": 1, "int4": 1, "uint4": 1, "int2": 1,
    "mxint8": 0x40, "nf4": 0xF, "fp4_bnb": 0x3, "uf11": 0x3C0, "uf10": 0x1E0,
}  # fmt: skip
NAMES = sorted(set(fr.__all__) - CONSTANTS)
FUNCTIONS = [name for name in NAMES if not inspect.isclass(getattr(fr, name))]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(fr, name))]


def test_all_is_sorted_complete_and_unique() -> None:
    assert len(fr.__all__) == len(set(fr.__all__)) and {"CLASSES", "FORMATS", "ROUNDINGS"} <= CONSTANTS
    assert all(callable(getattr(fr, name)) for name in FUNCTIONS)
    public = {name for name in vars(fr) if not name.startswith("_") and not inspect.ismodule(getattr(fr, name))}
    made = {name for name in public if name.partition("_")[0] in ("pack", "unpack") and name not in fr.__all__}
    assert public - made - {"annotations", "Any", "Callable", "abs"} == set(fr.__all__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_documented_with_an_example(name: str) -> None:
    text = inspect.getdoc(getattr(fr, name)) or ""
    assert text.splitlines()[0].endswith((".", ":")) and ">>>" in text, name


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_is_documented(name: str) -> None:
    text = inspect.getdoc(getattr(fr, name)) or ""
    assert text and not text.startswith(f"{name}("), name  # dataclass writes its signature where there is none


@pytest.mark.parametrize("name", sorted(CONSTANTS))
def test_constants_cannot_change(name: str) -> None:
    assert isinstance(getattr(fr, name), tuple | MappingProxyType)


@pytest.mark.parametrize("name", FORMATS)
def test_pack_and_unpack_of_every_format(name: str) -> None:
    pack, unpack = getattr(fr, f"pack_{name}"), getattr(fr, f"unpack_{name}")
    words = pack([1.0])
    assert (words.dtype, words.shape, hex(words[0])) == (np.uint32, (1,), hex(ONE[name]))
    values = unpack(words, 1)
    assert (values.dtype, values.tolist()) == (np.float32, [1.0])
    assert getattr(fr, f"pack_{name}") is pack and pack.__name__ == f"pack_{name}"
    assert unpack.__name__ == f"unpack_{name}"
    assert pack.__doc__ and unpack.__doc__ and name in pack.__doc__


@pytest.mark.parametrize(
    ("attribute", "word"),
    [("pack_float8_e4m3fn", 0x38), ("pack_bfloat16", 0x3F80), ("pack_binary8p3se", 0x40), ("pack_e3m4fn", 0x30)],
)
def test_pack_by_alias_and_by_factory(attribute: str, word: int) -> None:
    assert getattr(fr, attribute)([1.0]).tolist() == [word]


def python(code: str) -> list[str]:
    """The words that a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_dir_lists_every_public_name_and_the_functions_of_every_format() -> None:
    """Asked before any of them is made."""
    listed = python("import feather_ref; print(*dir(feather_ref))")
    assert listed == sorted(set(listed))
    assert {*fr.__all__, *(f"{verb}_{name}" for verb in ("pack", "unpack") for name in FORMATS)} <= set(listed)


@pytest.mark.parametrize(
    "name", ["nonsense", "pack_nonsense", "pack_", "unpack_", "pack_e99m3fn", "repack_e4m3", "PACK_e4m3", "_no"]
)
def test_nonsense_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'feather_ref' has no attribute '{name}'"):
        getattr(fr, name)
    assert not hasattr(fr, name)


def test_an_unknown_pack_names_the_close_formats() -> None:
    with pytest.raises(AttributeError, match=r"close: .*e4m3"):
        fr.pack_e4m4  # noqa: B018 - looking it up is the test


LOADED = """
import sys
import feather_ref
feather_ref.decode(feather_ref.encode([1.0], "e4m3"), "e4m3")
feather_ref.unpack_bf16(feather_ref.pack_bf16([1.0]))
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_importing_and_using_the_core_loads_no_other_package() -> None:
    loaded = set(python(LOADED))
    assert {"feather_ref", "numpy"} <= loaded
    assert loaded & set(FOREIGN) == set()


def test_a_star_import_brings_the_public_names() -> None:
    space: dict[str, object] = {}
    exec("from feather_ref import *", space)
    assert set(fr.__all__) <= set(space)


def test_the_version_is_that_of_the_project() -> None:
    assert importlib.metadata.version("feather-ref") == fr.__version__
