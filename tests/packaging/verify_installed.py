"""Run by test_wheel.py in a bare environment: the installed package works without its source.

usage: python -I verify_installed.py CHECKOUT     prints "ok" at the end

The words are the ones that the format standards and the article give, written by hand.
"""

import sys
from pathlib import Path

import numpy as np

import feather_ref as fr
from feather_ref import golden

OTHERS = ("numba", "cupy", "ml_dtypes", "torch", "click", "rich", "safetensors")


def check(what: str, mine: object, wanted: object) -> None:
    """Stop at the first thing that is not as it should be."""
    if mine != wanted:
        sys.exit(f"{what}: got {mine!r}, wanted {wanted!r}")


def main() -> None:
    """All checks; "ok" where they pass."""
    checkout = Path(sys.argv[1]).resolve()
    # 1. it is the installed one, and it loaded NumPy alone
    check("imported from the checkout", checkout in Path(fr.__file__).resolve().parents, False)
    check("checkout on sys.path", [p for p in sys.path if p and checkout in (Path(p), *Path(p).parents)], [])
    check("loaded", [name for name in OTHERS if name in sys.modules], [])
    check("numpy", np.__version__, "2.0.0")

    # 2. codes, words and back
    x = [0.5, 2.0, 0.75, 3.0]
    check("e4m3 codes", fr.encode(x, "e4m3").tolist(), [0x30, 0x40, 0x34, 0x44])
    check("e4m3 decode", fr.decode([0x30, 0x40, 0x34, 0x44], "e4m3").tolist(), x)
    check("e4m3 little", fr.pack_e4m3(x).tolist(), [0x44344030])
    check("e4m3 big", fr.pack_e4m3(x, order="big").tolist(), [0x30403444])
    check("e5m2 little", fr.pack_e5m2(x).tolist(), [0x423A4038])
    check("e5m2 big", fr.pack_e5m2(x, order="big").tolist(), [0x38403A42])
    check("fp16 big", fr.pack_fp16(x[:2], order="big").tolist(), [0x38004000])
    check("e4m3 unpack", fr.unpack_e4m3(np.array([0x44344030], np.uint32), 4).tolist(), x)
    check("e4m3 overflow", fr.encode([1e6, float("nan")], "e4m3").tolist(), [0x7E, 0x7F])

    # 3. the golden files travel with it
    check("golden", golden.verify(), [])
    check("golden folder", golden.root(), Path(fr.__file__).parent / "_golden")
    print("ok")


if __name__ == "__main__":
    main()
