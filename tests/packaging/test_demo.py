"""The main job, on a small model: every format is judged, and a wrong word is found."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "tools" / "demo.py"
FORMATS = ("fp16", "bf16", "e5m2", "e4m3", "e3m4", "e3m2", "e2m3", "e2m1")
HIDDEN = 8

# Run the demo with one bit of one packed word inverted.
FAULT = """
import runpy, sys
import feather_ref as fr
pack_tensor = fr.pack_tensor
def faulty(w, fmt, **options):
    packed = pack_tensor(w, fmt, **options)
    packed.words.setflags(write=True)
    packed.words[0, 0] ^= 1
    return packed
fr.pack_tensor = faulty
script, *sys.argv[1:] = sys.argv[1:]
runpy.run_path(script, run_name="__main__")
"""


def demo(*command: str) -> tuple[int, list[str]]:
    options = ["--hidden", str(HIDDEN)]
    done = subprocess.run(
        [sys.executable, *command, str(DEMO), *options], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def words(bits: int) -> int:
    """Words and row scales of an (8, 64) and a (10, 8) matrix, by hand."""
    rows = HIDDEN + 10
    packed = HIDDEN * (64 * bits // 32) + 10 * -(-HIDDEN * bits // 32)
    return packed + (rows if bits <= 8 else 0)


def test_every_word_is_checked_and_none_differs() -> None:
    status, lines = demo()
    total = sum(words(bits) for bits in (16, 16, 8, 8, 8, 6, 6, 4))
    assert lines[-1] == f"{total:,} words checked against the exact oracle, 0 differ"
    assert status == 0
    rows = {line.split()[0]: line.split() for line in lines if line.split() and line.split()[0] in FORMATS}
    assert tuple(rows) == FORMATS
    for name, row in rows.items():
        assert int(row[8].replace(",", "")) == words(int(row[1])), (name, row)
        assert row[9:] == ["0", "0"], (name, row)


def test_one_wrong_bit_in_a_word_is_found() -> None:
    status, lines = demo("-c", FAULT)
    differ = re.fullmatch(r".* words checked against the exact oracle, (\d+) differ", lines[-1])
    assert differ and int(differ[1]) == 2 * len(FORMATS)  # two matrices in each format
    assert status == 1
