"""C functions that die, hang, leave, write too much or keep a state: the judge lives, and says which input it was."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from feather_ref.cli import cli
from feather_ref.conformance import check, conform, library
from feather_ref.conformance.adapters import Adapter
from feather_ref.conformance.process import CrashError, HangError, Isolated

HEAD = """
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
"""
FAULTS = HEAD + """
static size_t calls;
void dies(const void *in, void *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (((const uint32_t *)in)[i] == 0x3F800000) abort();
        ((uint8_t *)out)[i] = 0;
    }
}
void segfault(const void *in, void *out, size_t n) {
    for (size_t i = 0; i < n; i++) if (((const uint32_t *)in)[i] == 0x7F800000) *(volatile int *)8 = 0;
}
void orphans(const void *in, void *out, size_t n) { if (fork() == 0) { sleep(30); _exit(0); } abort(); }
void leaves(const void *in, void *out, size_t n) { exit(0); }
void complains(const void *in, void *out, size_t n) { fprintf(stderr, "no licence\\n"); exit(4); }
void hangs(const void *in, void *out, size_t n) { for (;;) sleep(1); }
void prints(const void *in, void *out, size_t n) { puts("hello"); fflush(stdout); ((uint8_t *)out)[0] = 7; }
void counts(const void *in, void *out, size_t n) { ((uint8_t *)out)[0] = ++calls; }
void sums(const void *in, void *out, size_t n) {
    const struct { uint8_t a, b; } *pair = in;
    for (size_t i = 0; i < n; i++) ((uint16_t *)out)[i] = (uint16_t)(pair[i].a + 256 * pair[i].b);
}
"""
ONE = np.zeros(1, np.uint32)


@pytest.fixture
def faults(library_of: Callable[[str], Path]) -> Path:
    return library_of(FAULTS)


def isolated(path: Path, symbol: str, result: object = np.uint8, timeout: float = 60) -> Isolated:
    return Isolated(library(path, symbol), np.dtype(result), timeout)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        ("dies", "overflow='saturate'): killed by SIGABRT for in=3F800000 (1)"),
        ("segfault", "killed by SIGSEGV for in=7F800000 (inf)"),
        ("leaves", "exit status 0 for in=00000000 (0)"),
        ("complains", "exit status 4, stderr: no licence for in=00000000 (0)"),
    ],
)
def test_a_crash_is_a_verdict_with_its_input(symbol: str, text: str, faults: Path) -> None:
    result = check(library(faults, symbol), "e4m3")
    assert (result.report.status, text in str(result), bool(result)) == ("crash", True, False), str(result)


WRITES_NOTHING = HEAD + """
uint8_t one(float x) { return x > 1; }
void partly(const void *in, void *out, size_t n) { if (n) ((uint8_t *)out)[n - 1] = 0; }
"""


def test_a_function_of_another_signature_is_no_verdict(library_of: Callable[[str], Path]) -> None:
    path = library_of(WRITES_NOTHING)
    text = "no result was written: all are A5, as before; the signature is void f(const void *in, void *out, size_t n)"
    for fmt in ("e4m3", "mxfp4", "fp16"):
        report = check(library(path, "one"), fmt).report
        assert (report.status, report.message, report.lines) == ("error", text, ()), fmt
    assert check(library(path, "partly"), "e4m3").report.status == "fail"
    result = CliRunner().invoke(cli, ["check", "convert.f32.e4m3.rne.sat.run", "--library", f"{path}:one"])
    assert (result.exit_code, result.output) == (2, f"error convert.f32.e4m3.rne.sat.run: {text}\n")
    made = Adapter("c", {}, ("fp32",), {("convert", "e4m3"): frozenset({"rne.sat"})}, lambda _: library(path, "one"))
    found = conform.run_one(made, "convert.f32.e4m3.rne.sat.run", conform.Selection())
    assert (found.report.status, found.report.message) == ("error", text)


def test_a_function_that_does_not_end(faults: Path) -> None:
    function = isolated(faults, "hangs", timeout=0.3)
    for _ in range(2):  # and is asked again
        with pytest.raises(HangError, match=r"hangs does not end within 0\.3 s"):
            function(ONE)


def test_a_process_lives_from_call_to_call_and_is_started_again(faults: Path) -> None:
    function = isolated(faults, "counts")
    assert [int(function(ONE)[0]) for _ in range(3)] == [1, 2, 3]
    function = isolated(faults, "dies")
    with pytest.raises(CrashError, match="killed by SIGABRT"):
        function(np.array([0x3F800000], np.uint32))
    assert function(ONE).tolist() == [0]


def test_a_result_has_a_dtype(faults: Path) -> None:
    """NumPy takes None for float64."""
    with pytest.raises(TypeError, match="result must be a dtype, got None"):
        library(faults, "counts", None)
    with pytest.raises(TypeError, match="result: data type 'colour' not understood"):
        library(faults, "counts", "colour")


def test_what_it_prints_is_no_result(faults: Path) -> None:
    assert isolated(faults, "prints")(ONE).tolist() == [7]


def test_operands_side_by_side_and_no_records(faults: Path) -> None:
    function = isolated(faults, "sums", np.uint16)
    a = np.arange(70000, dtype=np.uint32).astype(np.uint8)
    assert function(a, a[::-1].copy()).tolist() == (a + 256 * a[::-1].astype(np.uint16)).tolist()
    assert function(a[:0], a[:0]).shape == (0,)


def test_records_of_another_size(faults: Path) -> None:
    """A process that takes 4 bytes a record does not read 2 of 8 as one."""
    function = isolated(faults, "counts")
    assert function(ONE).tolist() == [1]
    assert function(ONE.astype(np.uint64)).tolist() == [1]  # its own first call


def test_an_interrupted_call_leaves_no_half_answer(faults: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    function = isolated(faults, "counts")
    assert function(ONE).tolist() == [1]
    running = function._running
    with monkeypatch.context() as patch:
        patch.setattr(type(running), "exchange", lambda *rest: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            function(ONE)
    assert function(ONE).tolist() == [1]
    assert running._process.poll() is not None  # type: ignore[union-attr]


def test_the_process_ends_with_the_function(faults: Path) -> None:
    function = isolated(faults, "counts")
    function(ONE)
    process = function._running._process  # type: ignore[union-attr]
    assert process.poll() is None
    del function
    gc.collect()
    assert process.poll() is not None


def test_the_process_ends_with_the_judge(faults: Path) -> None:
    program = f"""
import numpy as np
from feather_ref.conformance import library
from feather_ref.conformance.process import Isolated
function = Isolated(library({str(faults)!r}, "counts"), np.dtype(np.uint8))
function(np.zeros(1, np.uint32))
print(function._running._process.pid)
"""
    root = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert not Path(f"/proc/{int(done.stdout)}").exists()


def test_what_a_function_starts_does_not_keep_the_judge(faults: Path) -> None:
    """A child has the pipe of the results too: it would not close, and no timeout would end that."""
    function, begin = Isolated(library(faults, "orphans"), np.dtype(np.uint8), timeout=15), time.monotonic()
    with pytest.raises(CrashError, match="SIGABRT"):
        function(ONE)
    assert time.monotonic() - begin < 10
