"""tools/make_golden.py: the tree is what it writes, and each part of it can say no.

Run files are made again for some formats only, as test_run_files.py asks for every line of every one;
digests are in test_digests.py.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys
import tarfile
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import feather_ref as fr
import golden_archive
import golden_contents
import golden_manifest
import golden_prove
import golden_steps
import golden_tables
import golden_vectors
from feather_ref import golden, oracle
from golden.golden_tools import REPOSITORY, ROOT, replace_file, small_tree

VECTORS = {vector.id: vector for vector in golden_vectors.vectors()}
AGAIN = ("e2m1", "e4m3", "e8m0", "nf4", "int4", "binary4p2sf")  # whose run files are made again


@cache
def tool() -> ModuleType:
    """tools/make_golden.py."""
    spec = importlib.util.spec_from_file_location("make_golden", REPOSITORY / "tools" / "make_golden.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# --- the tree ---------------------------------------------------------------------------------


def made_again(vector: golden_vectors.Vector) -> bool:
    if vector.shape == "run":
        return vector.dst in AGAIN and vector.round in ("rne", "rup", "sra")
    return vector.shape in ("tv", "memh") or (vector.shape == "tab" and vector.row.bits <= 8)


def test_tree_is_what_the_tool_writes() -> None:
    files = tool().build(made_again)
    assert tool().differences(files) == []
    present = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file()}
    assert present == {*files, "manifest.schema.json", "README.md", "ERRATA.md", "LICENSE"}
    broken = next(name for name in files if name.endswith(".tab"))
    files[broken] = files[broken][:-1]
    assert tool().differences(files) == [broken]


def test_a_list_of_differences_names_a_file_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = small_tree(tmp_path, ["decode.e2m1.f32.exact.none.tab"])
    (folder / "must" / "more.run").write_bytes(b"")
    monkeypatch.setattr(tool(), "ROOT", folder)
    assert tool().differences({}) == ["must/more.run: not listed"]


def test_write_leaves_what_is_right_and_takes_away_what_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = small_tree(tmp_path, ["decode.e2m1.f32.exact.none.tab"])
    monkeypatch.setattr(tool(), "ROOT", folder)
    (folder / "derived" / "old").mkdir(parents=True)
    (folder / "derived" / "old" / "x.run").write_bytes(b"x")
    kept = "must/mx/decode.e2m1.f32.exact.none.tab"
    before = (folder / kept).stat().st_mtime_ns
    tool().write({kept: (folder / kept).read_bytes(), "may/new/y.run": b"y"})
    assert (folder / kept).stat().st_mtime_ns == before
    assert (folder / "may" / "new" / "y.run").read_bytes() == b"y"
    assert not (folder / "derived").exists() and (folder / "README.md").is_file()


def test_old_vectors_are_as_they_were() -> None:
    """The first release, 0.1.0, by the SHA-256 of its lines of SHA256SUMS without the manifest."""
    lines = (ROOT / "SHA256SUMS").read_text(encoding="ascii").splitlines(keepends=True)
    named = {name for name, row in fr.FORMATS.items() if row.bits <= 8}
    old = {f"decode.{name}.f32.exact.none.tab" for name in named} | FIRST_RUNS
    kept = "".join(line for line in lines if line.rstrip().rsplit("/", 1)[-1] in old)
    assert hashlib.sha256(kept.encode("ascii")).hexdigest() == FIRST


FIRST_RUNS = {f"convert.f32.{name}.rne.{overflow}.run" for name in ("e4m3", "e5m2") for overflow in ("sat", "nonsat")}
FIRST = "8badab9b7927880e78b8e71f0541f88e1ac1798a813a6b7339a5b34c2598633f"


# --- steps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x3F7FFFFF, 0x7F7FFFFF])
def test_pattern_below(bits: int) -> None:
    source = fr.get_format("fp32")
    value, step = oracle.decode(bits, source).magnitude, Fraction(1, 1 << 200)
    assert golden_steps.pattern_below(value, source) == bits
    assert golden_steps.pattern_below(value + step, source) == bits
    if bits:
        assert golden_steps.pattern_below(value - step, source) == bits - 1


def test_steps_need_no_good_guess() -> None:
    """Breaks alone, with many steps between them, and marks that are wrong."""
    stairs = [0, 0, 0, 1, 1, 2, 5, 5, 5, 5, 9, 9, 9, 9, 9, 9]
    whole = [(0, 2, 0), (3, 4, 1), (5, 5, 2), (6, 9, 5), (10, 15, 9)]
    for marks in ([0, 15], [0, 1, 8, 15], list(range(16)), [0, 3, 5, 6, 10, 15], [0, 2, 4, 5, 9, 15]):
        assert list(golden_steps.steps(stairs.__getitem__, marks)) == whole


PIECES = (
    "convert.f32.e3m2.rdn.nonsat.nan=max.run",
    "convert.f32.e2m1.srb.sat.nan=zero.n=3.r=5.run",
    "convert.f16.e2m3.rodd.sat.nan=max.run",
    "convert.f32.uf10.rna.prop.run",
    "convert.f32.fp4_bnb.rne.sat.nan=max.run",
)


@pytest.mark.parametrize("name", PIECES)
def test_pieces_are_the_runs_of_the_oracle(name: str) -> None:
    """`oracle.runs` finds every boundary by halving, without a guess."""
    asked = golden.question(name)
    found = [piece[:3] for piece in golden_steps.pieces(asked)]
    policies = {**asked.policies, "n_bits": asked.n_bits, "random": asked.random}
    whole = oracle.runs(asked.target, asked.source, **policies)
    merged: list[tuple[int, int, int]] = []
    for lo, hi, z in found:  # another judge digit makes a line of its own
        first = merged.pop()[0] if merged and merged[-1][2] == z else lo
        merged.append((first, hi, z))
    assert merged == whole


def test_a_part_of_the_pieces() -> None:
    asked = golden.question("convert.f32.f16.rna.sat.run")
    first, last = 0x3F7F0000, 0x3F82FFFF
    source, fmt = fr.get_format("fp32"), fr.get_format("fp16")
    found = golden_steps.pieces(asked, first, last)
    assert (found[0].lo, found[-1].hi) == (first, last)
    for piece in found:
        x = np.arange(piece.lo, piece.hi + 1, dtype=np.uint32).view(np.float32)
        assert set(fr.encode(x, fmt, **asked.policies).tolist()) == {piece.z}
        assert oracle.encode(oracle.decode(piece.lo, source), fmt, **asked.policies) == piece.z


def test_fma_by_the_oracle() -> None:
    """Products and sums that are asked in groups are asked one by one here."""
    asked = golden.question("fma.e5m2.e5m2.rne.nonsat.dig")
    table, row = golden_tables.operation_table(asked), fr.get_format("e5m2")
    rng = np.random.default_rng(7)
    triples = rng.integers(0, 256, (400, 3)).tolist()
    special = [0x00, 0x80, 0x01, 0x81, 0x7B, 0xFB, 0x7C, 0xFC, 0x7F, 0x3C, 0xBC]
    triples += rng.choice(special, (600, 3)).tolist()
    for a, b, c in triples:
        want = oracle.fma(a, b, c, row, **asked.policies)
        want = 0x7F if row.is_nan(want) else want
        assert table[a << 16 | b << 8 | c] == want, (hex(a), hex(b), hex(c))


def test_a_value_that_is_no_float32() -> None:
    with pytest.raises(ValueError, match="is not a float32"):
        golden_tables.float32_bits(oracle.exact(1 + 2.0**-30))


# --- the manifest -----------------------------------------------------------------------------


def test_witnesses_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "witnesses.json"
    good = {"ids": ["*"], "name": "x 1.0", "verdict": "agrees", "where": ""}
    for bad, text in (
        ({"ids": "*"}, "row 1 must have ids"),
        ({"extra": 1}, "row 1 must have ids"),
        ({"verdict": "maybe"}, "verdict is agrees"),
        ({"verdict": "differs"}, "says where"),
    ):
        path.write_text(json.dumps([good, good | bad]), encoding="utf-8")
        with pytest.raises(ValueError, match=text):
            golden_manifest.load_witnesses(path)
    path.write_text(json.dumps([good]), encoding="utf-8")
    assert golden_manifest.load_witnesses(path) == [good]


def test_every_pattern_of_a_witness_names_something() -> None:
    claims = golden_manifest.load_witnesses()
    for row in claims:
        for pattern in row["ids"]:
            only = [row | {"ids": [pattern]}]
            assert any(golden_manifest.witnesses(vector, only) for vector in VECTORS.values()), pattern


def test_classes_of_a_list_are_gap_free() -> None:
    for row in golden.manifest().values():
        if row["shape"] != "tv":
            continue
        last = 0
        for part in row["classes"]:
            assert part["first"] == last + 1 <= part["last"], row["id"]
            last = part["last"]
        assert last == row["lines"] == row["domain"]


def test_notes_say_what_failing_means() -> None:
    for row in golden.manifest().values():
        assert "Fail" in row["notes"] or "widen it" in row["notes"] or "Twin" in row["notes"], row["id"]
        assert len(row["notes"]) < 300 and "  " not in row["notes"]


# --- proof and release ------------------------------------------------------------------------


def test_the_proof_finds_one_wrong_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On 2**16 inputs around the tie at the greatest value, with the boundary right and one off."""
    name = "convert.f32.e4m3.rne.nonsat.run"
    vector = VECTORS[name]
    folder = small_tree(tmp_path, [name])
    path = folder / golden.find(name)["path"]
    inputs = np.arange(0x43E7F000, 0x43E81000, dtype=np.uint32)
    codes = fr.encode(inputs.view(np.float32), "e4m3", overflow="nonsaturating")
    monkeypatch.setattr(golden_prove, "STEP", inputs.size)
    monkeypatch.setattr(golden_prove, "STARTS", [int(inputs[0])])
    found = golden_prove.prove(vector, folder)
    assert (found["inputs"], found["mismatches"]) == (inputs.size, 0)
    assert found["sha256"] == hashlib.sha256(codes.tobytes()).hexdigest()
    data = path.read_bytes().replace(b"43E80000", b"43E80001").replace(b"43E80001 7FFFFFFF", b"43E80002 7FFFFFFF")
    replace_file(folder, name, data)
    golden.manifest.cache_clear()
    assert golden_prove.prove(vector, folder)["mismatches"] == 1


@pytest.mark.parametrize(
    ("z", "j", "wrong"), [(0x7E, 1, 3), (0x7F, 2, 2), (0x7D, 3, 3), (0x00, 0, 0), (0x7E, 3, 2), (0x7F, 1, 3)]
)
def test_judge_digits(z: int, j: int, wrong: int) -> None:
    got = np.array([0x7E, 0x7F, 0xFF, 0x00], np.uint8)
    assert golden_prove.count_wrong(got, z, j, golden_prove.nan_codes(fr.get_format("e4m3"))) == wrong


def test_the_proof_covers_every_must_file() -> None:
    proved = {vector.id for vector in golden_prove.provable(VECTORS.values())}
    for row in golden.manifest().values():
        if row["level"] == "must" and row["shape"] in ("run", "dig", "tab"):
            assert row["path"].rsplit("/", 1)[1] in proved, row["id"]


def test_archive_is_reproducible(tmp_path: Path) -> None:
    folder = small_tree(tmp_path / "golden", ["convert.f32.e4m3.rne.sat.run"])
    assert golden_archive.pack(folder, tmp_path / "a.tar.gz") == 6
    (folder / "README.md").touch()
    golden_archive.pack(folder, tmp_path / "b.tar.gz")
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        entries = tar.getmembers()
        assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)
        assert {(e.uid, e.gid, e.uname, e.mtime, e.mode) for e in entries} == {(0, 0, "", golden_archive.MTIME, 0o644)}
        tar.extractall(tmp_path / "out", filter="data")
    assert golden.verify(tmp_path / "out" / f"feather-golden-{golden_manifest.VERSION}") == []
    (folder / "manifest.tsv").write_bytes(b"")
    with pytest.raises(ValueError, match=r"manifest\.tsv: SHA-256 differs"):
        golden_archive.pack(folder, tmp_path / "c.tar.gz")
    assert not (tmp_path / "c.tar.gz").exists()


def test_the_command_says_what_it_does() -> None:
    done = subprocess.run(
        [sys.executable, REPOSITORY / "tools" / "make_golden.py", "--help"], capture_output=True, text=True, check=True
    )
    for option in ("--check", "--digests", "--prove", "--archive", "--only", "--log", "--seed", "--all", "--workers"):
        assert option in done.stdout


def test_contents_by_shape() -> None:
    """Text of each kind, by hand."""
    tie: Any = [golden_steps.Piece(0, 0x28, 0, 1), golden_steps.Piece(0x29, 0xFFFFFFFF, 0xA, 2)]
    assert golden_contents.run_lines(tie, 32, 7) == b"00000000 00000028 00 1\n00000029 FFFFFFFF 0A 2\n"
    assert golden_tables.memh(np.array([1, 0x7FC00000], np.uint32)) == b"00000001\n7FC00000\n"
