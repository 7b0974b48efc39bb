"""The main job on small models: every format is judged, and a wrong bit is found."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import feather_ref as fr

DEMO = Path(__file__).resolve().parent.parent.parent / "tools" / "demo.py"
FORMATS = ("fp16", "bf16", "e5m2", "e4m3", "e3m4", "e3m2", "e2m3", "e2m1")
HIDDEN = 8


def words(bits: int) -> int:
    """Words and row scales of an (8, 64) and a (10, 8) matrix, by hand."""
    rows = HIDDEN + 10
    packed = HIDDEN * (64 * bits // 32) + 10 * -(-HIDDEN * bits // 32)
    return packed + (rows if bits <= 8 else 0)


def last_count(text: str) -> tuple[int, int]:
    """The figures of the last sentence."""
    found = re.fullmatch(r"([\d,]+) words checked against the exact oracle, ([\d,]+) differ", text.splitlines()[-1])
    assert found, text
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


@pytest.mark.slow
def test_every_word_is_checked_and_none_differs() -> None:
    done = subprocess.run(
        [sys.executable, DEMO, "--hidden", str(HIDDEN)], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    assert last_count(done.stdout) == (sum(words(bits) for bits in (16, 16, 8, 8, 8, 6, 6, 4)), 0)
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(FORMATS)]
    assert tuple(row[0] for row in rows) == FORMATS
    for row in rows:
        assert [int(cell.replace(",", "")) for cell in row[8:]] == [words(int(row[1])), 0, 0], row


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The demo as a module, with a model of seeded random weights in place of training."""
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "demo", module)  # where dataclasses look for it
    spec.loader.exec_module(module)
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(shape).astype(np.float32) for shape in ((HIDDEN, 64), (10, HIDDEN))]
    biases = [np.zeros(len(w), np.float32) for w in weights]
    model = module.Model(weights, biases, np.zeros((4, 64), np.float32), np.zeros(4, np.int64))
    monkeypatch.setattr(module, "train", lambda hidden, seed: model)
    return module


@pytest.mark.parametrize("field", ["words", "scale"])
def test_one_wrong_bit_is_found(
    field: str, demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def faulty(w: Any, fmt: Any, **options: Any) -> fr.PackedTensor:
        packed = pack_tensor(w, fmt, **options)
        array = getattr(packed, field)
        if array is not None:
            array.view(np.uint32)[0, 0] ^= 1
        return packed

    pack_tensor = fr.pack_tensor
    monkeypatch.setattr(fr, "pack_tensor", faulty)
    with pytest.raises(SystemExit) as ended:
        demo.main.main([], standalone_mode=False)
    assert ended.value.code == 1
    matrices = 2 * (len(FORMATS) if field == "words" else 6)  # fp16 and bf16 have no scale
    assert last_count(capsys.readouterr().out)[1] == matrices
