"""Where commands write: new files, over old ones with --force, stdout for "-"; and that nothing is left half."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest

from command import apart, ok, refused, run
from feather_ref import files
from feather_ref._cli_end import Ended, orderly
from feather_ref._cli_output import binary_stdout
from feather_ref.cli import cli

ID = "convert.f32.e4m3.rne.sat.run"
X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32)
WRITERS = {  # what is written, and all but its name
    "small.safetensors": ("pack", "model.safetensors", "--format", "e4m3", "-o"),
    "back.npz": ("unpack", "packed.safetensors", "-o"),
    "plan.json": ("allocate", "model.safetensors", "--budget", "9", "-o"),
    "plan.svg": ("allocate", "model.safetensors", "--budget", "9", "--draw"),
    "in.bin": ("gen", ID, "-o"),
    "vector.h": ("export", ID, "--as", "c", "-o"),
    "report.jsonl": ("conform", "--impl", "numpy", "--suite", "decode.f16.*", "--json"),
    "explorer.html": ("explore", "-o"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    files.save("model.safetensors", {"w": X})
    ok("pack", "model.safetensors", "-o", "packed.safetensors", "--format", "mxfp4")
    return tmp_path


# --- files that are there ---------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_replaced_with_force_alone(name: str, folder: Path) -> None:
    Path(name).write_bytes(b"old")
    said = refused(*WRITERS[name], name)
    assert said.endswith(f": {name} is there already; --force replaces it")
    assert Path(name).read_bytes() == b"old"
    assert run(*WRITERS[name], name, "--force").exit_code == 0
    assert len(Path(name).read_bytes()) > 3
    assert sorted(os.listdir()) == sorted({"model.safetensors", "packed.safetensors", name})


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_is_not_there_is_named(name: str, folder: Path) -> None:
    option = {"-o": "output", "--draw": "draw", "--json": "json"}[WRITERS[name][-1]]
    assert refused(*WRITERS[name], f"no/{name}") == f"{option}: there is no folder no"


def test_a_folder_that_is_not_there_is_named_in_python(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no such folder: '.*no'$"):
        files.save("no/x.npy", {"x": X})


def test_every_command_that_writes_is_in_the_list() -> None:
    """By the options that take a file and do not read it."""
    writes = {
        name
        for name, command in cli.commands.items()
        for option in command.params
        if getattr(option.type, "allow_dash", False) and option.param_type_name == "option"
    }
    assert writes == {command[0] for command in WRITERS.values()}
    assert all("--force" in {text for option in cli.commands[name].params for text in option.opts} for name in writes)


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in ("small.safetensors", "back.npz")])
def test_force_wants_a_file(name: str, folder: Path) -> None:
    assert "--force replaces a file; say -" in refused(*WRITERS[name][:-1], "--force")


def test_the_input_is_not_replaced_even_so(folder: Path) -> None:
    for more in ((), ("--force",)):
        said = refused("pack", "model.safetensors", "-o", "./model.safetensors", "--format", "e4m3", *more)
        assert said == "model.safetensors: is the input itself; write to another name"
    with files.load("model.safetensors") as tensors:
        np.testing.assert_array_equal(tensors["w"], X, strict=True)


# --- stdout -----------------------------------------------------------------------------------


def test_a_dash_is_stdout(folder: Path) -> None:
    """The same bytes as in a file, and nothing besides."""
    for name, arguments in WRITERS.items():
        if name == "plan.svg":
            continue
        target = "back.npy" if name == "back.npz" else name
        assert run(*arguments, target).exit_code == 0
        result = apart(*arguments, "-")
        assert result.exit_code == 0
        assert result.stdout_bytes == Path(target).read_bytes(), name
    assert sorted(os.listdir()) == sorted(
        {"model.safetensors", "packed.safetensors", "back.npy"} | WRITERS.keys() - {"back.npz", "plan.svg"}
    )


def test_bytes_are_not_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(click.UsageError, match="is not for a terminal; say --hex, or -o FILE"):
        binary_stdout("--hex, or -o FILE")


def test_unpack_can_be_piped_into_diff(folder: Path) -> None:
    data = apart("unpack", "packed.safetensors", "-o", "-").stdout_bytes
    np.testing.assert_array_equal(np.load(io.BytesIO(data)), files.load("packed.safetensors")["w"].dequantize())  # type: ignore[union-attr]
    assert run("diff", "packed.safetensors", "-", stdin=data).exit_code == 0


def test_metadata_that_is_left_behind_is_said(folder: Path) -> None:
    files.save("told.safetensors", {"w": X}, {"format": "pt", "author": "me"})
    ok("pack", "told.safetensors", "-o", "small.safetensors", "--format", "mxfp4")
    for name, lines in (("back.npz", "2 lines"), ("back.npy", "2 lines"), ("back.gguf", ""), ("back.safetensors", "")):
        said = apart("unpack", "small.safetensors", "-o", name).stderr
        assert said == (f"note: {name[4:]} has no place for metadata; {lines} of it stayed behind\n" if lines else "")
    assert apart("unpack", "packed.safetensors", "-o", "none.npz").stderr == ""


def test_two_things_do_not_go_to_stdout(folder: Path) -> None:
    for command in ("small.safetensors", "back.npz"):
        assert "both go to stdout" in refused(*WRITERS[command], "-", "--json")
    assert "one and the same" in refused(*WRITERS["plan.json"], "-", "--json")
    assert "draw: - must end in" in refused(*WRITERS["plan.svg"], "-")


# --- the end ----------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_signal_leaves_no_temporary_file(folder: Path) -> None:
    files.save("large.safetensors", {f"w{i}": np.tile(X, (4096, 1)) for i in range(64)})
    before = sorted(os.listdir())
    command = [sys.executable, "-m", "feather_ref", "pack", "large.safetensors", "-o", "out.safetensors"]
    with subprocess.Popen([*command, "--format", "nvfp4"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
        deadline = time.monotonic() + 60
        while not any(name.endswith(".tmp") for name in os.listdir()) and time.monotonic() < deadline:
            time.sleep(0.01)
        child.terminate()
        _, said = child.communicate(timeout=60)
    assert child.returncode == 143, said
    assert b"Traceback" not in said
    assert sorted(os.listdir()) == before


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_signal_is_no_fault_of_a_library(folder: Path) -> None:
    """A judge that takes every exception for a verdict must still end."""
    Path("slow.py").write_text("import os, signal\ndef f(x):\n    os.kill(os.getpid(), signal.SIGTERM)\n    return x\n")
    command = [sys.executable, "-m", "feather_ref", "conform", "--impl", "slow:f", "--scales", "--format", "mxfp4"]
    root = str(Path(files.__file__).parents[1])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": f"{root}:."}, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (143, b"")


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Whatever started the tests may ignore them."""
    old = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in old.items():
        signal.signal(number, handler)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_second_signal_does_not_break_the_clean_up(default_signals: None) -> None:
    events = []
    with pytest.raises(SystemExit) as ended, orderly():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Ended:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            events.append("clean")
            raise
    assert (ended.value.code, events) == (143, ["clean"])
    assert signal.getsignal(signal.SIGTERM) == signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_signal_that_is_ignored_stays_so(default_signals: None) -> None:
    """As by nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with orderly():
        os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


# --- options without a use --------------------------------------------------------------------

BLOCKS = "block.f32.mxfp4.rne.sat.blk"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("encode", "e4m3", "1", "--negative", "zero"), "--negative is for formats without a sign; e4m3 has one"),
        (("explain", "e4m3", "--value", "1", "--order", "big"), "--order is for a --word"),
        (("explain", "e4m3", "--word", "1", "--rounding", "to_odd"), "--rounding: a word is read"),
        (("explain", "e4m3", "--code", "38", "--rounding", "to_odd"), "--rounding: nothing here depends on it"),
        (("explain", "e4m3", "0x7E", "--nan", "zero", "--subnormals", "keep"), "--nan, --subnormals: nothing here"),
        (("explain", "e4m3", "--code", "7F", "--overflow", "saturate", "--nan", "max", "--negative", "abs"), "without"),
        (("explain", "e4m3", "--value", "1", "--negative", "nan"), "--negative is for formats without a sign"),
        (("diff", "a.npy", "a.npy", "--format", "e4m3"), "--format: no tensor of A or B is uint8, as codes of e4m3"),
        (("diff", "a.npy", "--x", "a.npy", "--format", "fp32", "--negative", "zero"), "--negative is for formats"),
        (("pack", "a.npy", "-o", "b.safetensors", "--format", "e4m3", "--scale-rule", "amax"), "no scale to make"),
        (("pack", "i.npy", "-o", "b.safetensors", "--format", "e4m3", "--scale-rule", "pow2"), "no scale to make"),
        (("pack", "a.npy", "-o", "b.safetensors", "--format", "mxfp4", "--profile", "hip"), "--profile: not for"),
        (("pack", "a.npy", "-o", "b.safetensors", "--format", "e4m3", "--negative", "abs"), "--negative is for"),
        (("pack", "a.npy", "-o", "b.safetensors", "--format", "e4m3", "--byte-order", "big"), "'big' for .gguf"),
        (("pack", "a.npy", "-o", "b.safetensors", "--plan", "p", "--scale-rule", "mse"), "no other choice: --scale-r"),
        (("pack", "a.npy", "-o", "b.safetensors", "--plan", "p", "--include", "a"), "no other choice: --include"),
        (("unpack", "a.npy", "-o", "b.npz", "--dtype", "float64"), "dtype='float64': no packed tensor is selected"),
        (("gen", BLOCKS, "--exhaustive", "--hex"), f"exhaustive: {BLOCKS} cannot have more inputs than the lines of"),
        (("gen", ID, "--exhaustive", "--seed", "1", "--hex"), f"seed=1: {ID} takes every input already"),
        (("gen", "decode.e4m3.f32.exact.none.tab", "--seed", "1", "--hex"), "takes every input already"),
        (("gen", "dequantize.mxfp4.f32.exact.none.blk", "--seed", "1", "--hex"), "takes every scale with every"),
        (("gen", "convert.f64.e4m3.rne.sat.run", "--exhaustive", "--hex"), "cannot have more inputs than run ends and"),
        (("gen", "convert.f64.e4m3.rne.sat.run", "--seed", "1", "--hex"), "draws none; it takes run ends and one"),
        (("check", BLOCKS, "a.npy", "--exhaustive"), "cannot have more inputs"),
        (("check", ID, "a.npy", "--timeout", "60"), "a file is never silent"),
        (("conform", "--impl", "numpy", "--suite", "decode.f16.*", "--seed", "1"), "--seed: no suite that is selected"),
        (("conform", "--impl", "numpy", "--suite", "*.tv", "--exhaustive"), "--exhaustive: no suite that is selected"),
        (("conform", "--impl", "numpy", "--scales", "--force"), "--scales takes --impl and --format"),
    ],
)  # fmt: skip
def test_an_option_without_a_use_is_refused(arguments: tuple[str, ...], error: str, folder: Path) -> None:
    np.save("a.npy", X)
    np.save("i.npy", np.arange(3))
    Path("p").write_text("{}")
    assert error in refused(*arguments)
    assert not Path("b.safetensors").exists()


def test_the_same_options_where_they_have_one(folder: Path) -> None:
    np.save("a.npy", X)
    assert run("encode", "ue4m3", "-1", "--negative", "zero").exit_code == 0
    assert run("explain", "e4m3", "--word", "1", "--order", "big").exit_code == 0
    for options in (("--rounding", "toward_zero", "--overflow", "nonsaturating"), ("--profile", "ml_dtypes")):
        assert ok("explain", "e4m3", "--code", "7E", *options) != ok("explain", "e4m3", "--code", "7E")
    assert ok("explain", "e4m3", "--code", "7F", "--nan", "zero") != ok("explain", "e4m3", "--code", "7F")
    assert run("pack", "a.npy", "-o", "b.safetensors", "--format", "e8m0", "--negative", "abs").exit_code == 0
    plain, drawn = (ok("gen", BLOCKS, "--hex", *more) for more in ((), ("--seed", "1")))
    assert drawn.startswith(plain) and len(drawn) > len(plain)
    text = ok("gen", "scale.f32.mxfp4.exact.sat.run", "--hex", "--seed", "1")
    assert len(text) > len(ok("gen", "scale.f32.mxfp4.exact.sat.run", "--hex"))


# --- the byte order of GGUF -------------------------------------------------------------------


@pytest.mark.parametrize("fmt", ["q8_0", "q4_0", "ggml_nvfp4", "bf16"])
def test_the_byte_order_of_a_gguf_file(fmt: str, folder: Path) -> None:
    x = np.tile(X, (2, 2))
    files.save("model.gguf", {"w": x, "n": np.arange(5, dtype=np.int32)})
    ok("pack", "model.gguf", "-o", "little.gguf", "--format", fmt)
    ok("pack", "model.gguf", "-o", "big.gguf", "--format", fmt, "--byte-order", "big")
    little, big = (Path(f"{name}.gguf").read_bytes() for name in ("little", "big"))
    assert (little[4:8], big[4:8]) == (b"\x03\0\0\0", b"\0\0\0\x03")
    assert run("diff", "little.gguf", "big.gguf").output == "equal\n"  # found without a word
    assert [json.loads(ok("inspect", f"{name}.gguf", "--json"))["byte_order"] for name in ("little", "big")] == [
        "little", "big",
    ]  # fmt: skip
    assert "byte order: big\n" in ok("inspect", "big.gguf")
    ok("pack", "big.gguf", "-o", "again.gguf", "--format", fmt)  # everything is packed already
    assert Path("again.gguf").read_bytes() == little
    ok("unpack", "big.gguf", "-o", "back.gguf", "--byte-order", "big")
    with files.load("back.gguf") as back, files.load("little.gguf") as wanted:
        assert back.byte_order == "big"
        np.testing.assert_array_equal(back["w"], wanted["w"].dequantize())  # type: ignore[union-attr]
    ok("allocate", "model.gguf", "--budget", "40", "--formats", f"{fmt}", "-o", "plan.json")
    ok("pack", "model.gguf", "-o", "planned.gguf", "--plan", "plan.json", "--byte-order", "big")
    assert Path("planned.gguf").read_bytes() == big
