"""data/golden: its form, its sums, its contents against oracle, codec and literals, and its README.

The counts of lines are by hand: e4m3 saturating has 127 finite codes for each sign and NaN for each,
256; not saturating, the NaN of overflow joins the positive NaN inputs and stands apart from the
negative ones, 257; e5m2 has 124 finite codes, so 250, and Inf for each sign, 252.
"""

from __future__ import annotations

import csv
import importlib.util
import itertools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import numpy as np
import pytest

import feather_ref as fr
from feather_ref import golden, oracle
from literals import LITERALS

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT = REPOSITORY / "data" / "golden"
MANIFEST = json.loads((ROOT / "manifest.json").read_text(encoding="ascii"))
ROWS: list[dict[str, Any]] = MANIFEST["vectors"]
RUNS = [row["id"] for row in ROWS if row["shape"] == "run"]
TABLES = [row["id"] for row in ROWS if row["shape"] == "tab"]
LINES = {
    "convert.f32.e4m3.rne.sat.run": 256,
    "convert.f32.e4m3.rne.nonsat.run": 257,
    "convert.f32.e5m2.rne.sat.run": 250,
    "convert.f32.e5m2.rne.nonsat.run": 252,
}
GCC = shutil.which("gcc")


@cache
def tool() -> ModuleType:
    """tools/make_golden.py."""
    spec = importlib.util.spec_from_file_location("make_golden", REPOSITORY / "tools" / "make_golden.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- the manifest -----------------------------------------------------------------------------


def schema() -> dict[str, Any]:
    return json.loads((ROOT / "manifest.schema.json").read_text(encoding="ascii"))


def test_manifest_follows_its_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.Draft202012Validator(schema()).validate(MANIFEST)


def objects(node: Any) -> list[dict[str, Any]]:
    """Every part of a schema that describes an object."""
    if isinstance(node, list):
        return [found for item in node for found in objects(item)]
    if not isinstance(node, dict):
        return []
    own = [node] if node.get("type") == "object" else []
    return own + [found for item in node.values() for found in objects(item)]


def test_schema_leaves_nothing_open() -> None:
    found = objects(schema())
    assert len(found) == 5  # the file, a row, spec, source, witness
    for part in found:
        assert part["additionalProperties"] is False
        assert sorted(part["required"]) == sorted(part["properties"])


BROKEN: tuple[tuple[str, Any], ...] = (
    ("id", "convert.f32.e4m3.run"),
    ("path", "../elsewhere.run"),
    ("path", "/must/ofp8/x.run"),
    ("shape", "txt"),
    ("round", "nearest"),
    ("overflow", "saturate"),
    ("level", "best"),
    ("domain", 0),
    ("lines", -1),
    ("lines", "256"),
    ("sha256", "0" * 63),
    ("crc32", "71E8D11E"),
    ("notes", "two\tcolumns"),
    ("spec", {"document": "D", "version": "1"}),
    ("source", {"name": "x", "version": "0.1.0", "more": 1}),
    ("witnesses", [{"name": "ml_dtypes 0.6.0", "verdict": "differs", "where": ""}]),
    ("witnesses", [{"name": "ml_dtypes", "verdict": "agrees", "where": ""}]),
    ("extra", 1),
)


@pytest.mark.parametrize(("key", "value"), BROKEN)
def test_schema_refuses(key: str, value: Any) -> None:
    broken = {"version": "0.1.0", "vectors": [ROWS[0] | {key: value}]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema()).validate(broken)


def test_every_key_is_required() -> None:
    for key in ROWS[0]:
        row = {name: value for name, value in ROWS[0].items() if name != key}
        with pytest.raises(jsonschema.ValidationError, match=f"'{key}' is a required property"):
            jsonschema.Draft202012Validator(schema()).validate({"version": "0.1.0", "vectors": [row]})


def test_ids_are_unique_and_sorted() -> None:
    ids = [row["id"] for row in ROWS]
    assert ids == sorted(set(ids))
    assert list(golden.manifest()) == ids


def test_an_id_says_what_its_row_says() -> None:
    for row in ROWS:
        parts = [row[key] for key in ("op", "in", "out", "round", "overflow", "shape")]
        assert row["id"] == ".".join(parts)
        assert row["path"].startswith(f"{row['level']}/") and row["path"].endswith(f"/{row['id']}")
        assert row["spec"]["document"] == str(
            fr.get_format(row["in" if row["op"] == "decode" else "out"]).source.document
        )


def test_tsv_is_the_flat_part() -> None:
    text = (ROOT / "manifest.tsv").read_text(encoding="ascii")
    assert text.endswith("\n") and "\r" not in text
    found = list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
    flat = [{key: str(value) for key, value in row.items() if not isinstance(value, (dict, list))} for row in ROWS]
    assert found == flat


def test_every_narrow_format_has_a_decode_table() -> None:
    narrow = {name for name, row in fr.FORMATS.items() if row.bits <= 8}
    assert {row["in"] for row in ROWS if row["op"] == "decode"} == narrow


def test_tokens_are_names_of_the_api() -> None:
    known = {*fr.ROUNDINGS, *fr.OVERFLOWS, *fr.FORMATS, "float64"}  # fp64 is a source only
    assert set(golden.TOKENS.values()) <= known
    for row in ROWS:
        if row["op"] == "convert":
            policies: Any = {"rounding": golden.TOKENS[row["round"]], "overflow": golden.TOKENS[row["overflow"]]}
            assert fr.encode(0.0, row["out"], **policies) == 0
    sources = [golden.TOKENS.get(row["in"], row["in"]) for row in ROWS]
    assert all(fr.get_format(name) for name in sources)


# --- the files --------------------------------------------------------------------------------


def test_all_is_well() -> None:
    assert golden.verify() == []
    assert golden.verify(ROOT) == []


def test_tree_is_what_the_tool_writes(tmp_path: Path) -> None:
    tool().build(tmp_path)
    written = files(tmp_path)
    by_hand = {"README.md", "LICENSE"}  # and the schema, which is copied
    assert {name: data for name, data in files(ROOT).items() if name not in by_hand} == written
    assert tool().differences(tmp_path) == []
    broken = tmp_path / ROWS[0]["path"]
    broken.write_bytes(broken.read_bytes()[:-1])
    assert tool().differences(tmp_path) == [ROWS[0]["path"]]


def test_git_leaves_the_bytes_alone() -> None:
    lines = (REPOSITORY / ".gitattributes").read_text(encoding="ascii").split("\n")
    assert "data/golden/** -text" in lines
    if shutil.which("git") and (REPOSITORY / ".git").exists():
        found = subprocess.run(
            ["git", "check-attr", "text", "--", f"data/golden/{ROWS[0]['path']}", "data/golden/SHA256SUMS"],
            cwd=REPOSITORY, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert [line.split(": ")[-1] for line in found.stdout.splitlines()] == ["unset", "unset"]


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")
def test_sums_are_read_by_sha256sum() -> None:
    done = subprocess.run(
        ["sha256sum", "--strict", "--quiet", "-c", "SHA256SUMS"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    paths = [line.split("  ")[1] for line in (ROOT / "SHA256SUMS").read_text(encoding="ascii").splitlines()]
    assert paths == sorted({*(row["path"] for row in ROWS), *golden.SUMMED})


RUN, TAB = "convert.f32.e4m3.rne.sat.run", "decode.e2m1.f32.exact.none.tab"
RUN_PATH, TAB_PATH = f"must/ofp8/{RUN}", f"must/mx/{TAB}"


def flip(folder: Path) -> None:
    data = bytearray((folder / TAB_PATH).read_bytes())
    data[5] ^= 1
    (folder / TAB_PATH).write_bytes(data)


def cut(folder: Path) -> None:
    (folder / RUN_PATH).write_bytes((folder / RUN_PATH).read_bytes()[:-1])


def crlf(folder: Path) -> None:
    (folder / RUN_PATH).write_bytes((folder / RUN_PATH).read_bytes().replace(b"\n", b"\r\n"))


def delete(folder: Path) -> None:
    (folder / RUN_PATH).unlink()


def add(folder: Path) -> None:
    (folder / "must" / "ofp8" / "more.run").write_bytes(b"00000000 FFFFFFFF 00 1\n")


def edit_row(folder: Path, key: str, value: Any) -> None:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="ascii"))
    row = next(row for row in manifest["vectors"] if row["path"] == RUN_PATH)
    row[key] = value
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="ascii")


def edit_sums(folder: Path) -> None:
    text = (folder / "SHA256SUMS").read_text(encoding="ascii")
    (folder / "SHA256SUMS").write_text(text.replace("7b05", "7b06", 1), encoding="ascii")


def forget_sum(folder: Path) -> None:
    lines = (folder / "SHA256SUMS").read_text(encoding="ascii").splitlines(keepends=True)
    (folder / "SHA256SUMS").write_text("".join(line for line in lines if RUN_PATH not in line), encoding="ascii")


def forget_row(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="ascii"))
    manifest["vectors"] = [row for row in manifest["vectors"] if row["path"] != RUN_PATH]
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="ascii")


def link(folder: Path) -> None:
    """The right bytes, from elsewhere."""
    outside = folder.parent / "outside.run"
    shutil.move(folder / RUN_PATH, outside)
    (folder / RUN_PATH).symlink_to(outside)


MANIFEST_SUM = "manifest.json: SHA-256 differs from SHA256SUMS"
CORRUPTIONS: tuple[tuple[str, Callable[[Path], None], list[str]], ...] = (
    ("a bit", flip, [TAB_PATH, f"{TAB}: crc32", f"{TAB}: sha256"]),
    ("a byte short", cut, [RUN_PATH, f"{RUN}: crc32", f"{RUN}: lines", f"{RUN}: sha256"]),
    ("line ends", crlf, [RUN_PATH, f"{RUN}: crc32", f"{RUN}: sha256"]),
    ("a file gone", delete, [f"{RUN_PATH}: missing"]),
    ("a link", link, [f"{RUN_PATH}: missing"]),
    ("no JSON", lambda folder: (folder / "manifest.json").write_text("{"), [str]),
    ("no vectors", lambda folder: (folder / "manifest.json").write_text("[]"), [str]),
    ("no sums", lambda folder: (folder / "SHA256SUMS").unlink(), [str]),
    (
        "a path that leaves",
        lambda folder: edit_row(folder, "path", "../outside.run"),
        [f"{RUN_PATH}: not in the manifest", "../outside.run: not in SHA256SUMS", MANIFEST_SUM],
    ),
    ("a file more", add, ["must/ofp8/more.run: not listed"]),
    ("sha256 edited", lambda folder: edit_row(folder, "sha256", "0" * 64), [f"{RUN}: sha256 differs", MANIFEST_SUM]),
    ("crc32 edited", lambda folder: edit_row(folder, "crc32", "0" * 8), [f"{RUN}: crc32 differs", MANIFEST_SUM]),
    ("lines edited", lambda folder: edit_row(folder, "lines", 255), [f"{RUN}: lines differs", MANIFEST_SUM]),
    (
        "path edited",
        lambda folder: edit_row(folder, "path", "must/ofp8/x.run"),
        [f"{RUN_PATH}: not in the manifest", "must/ofp8/x.run: not in SHA256SUMS", MANIFEST_SUM],
    ),
    ("a word edited", lambda folder: edit_row(folder, "overflow", "nonsat"), [MANIFEST_SUM]),
    ("a row gone", forget_row, [f"{RUN_PATH}: not in the manifest", MANIFEST_SUM]),
    ("a sum edited", edit_sums, [f"{RUN_PATH}: SHA-256 differs"]),
    ("a sum gone", forget_sum, [f"{RUN_PATH}: not in SHA256SUMS", f"{RUN_PATH}: not listed"]),
)


@pytest.mark.parametrize(("what", "corrupt", "expected"), CORRUPTIONS, ids=[row[0] for row in CORRUPTIONS])
def test_verify_finds(tmp_path: Path, what: str, corrupt: Callable[[Path], None], expected: list[str]) -> None:
    folder = tmp_path / "golden"
    shutil.copytree(ROOT, folder)
    assert golden.verify(folder) == []
    corrupt(folder)
    found = sorted(golden.verify(folder))
    if expected == [str]:
        assert len(found) == 1 and "unreadable" in found[0]
        return
    for start, line in itertools.zip_longest(sorted(expected), found):
        assert start and line and line.startswith(start), (what, found)


# --- run files --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNS)
def test_run_file_has_its_form(name: str) -> None:
    row = golden.find(name)
    text = (ROOT / row["path"]).read_text(encoding="ascii")
    lines = text.split("\n")
    assert lines.pop() == ""
    assert len(lines) == row["lines"] == LINES[name]
    assert all(re.fullmatch(r"[0-9A-F]{8} [0-9A-F]{8} [0-9A-F]{2} [0-3]", line) for line in lines)
    found = [tuple(int(field, 16) for field in line.split(" ")) for line in lines]
    assert found[0][0] == 0 and found[-1][1] == 0xFFFFFFFF == row["domain"] - 1
    assert all(lo <= hi for lo, hi, _, _ in found)
    for before, after in itertools.pairwise(found):
        assert after[0] == before[1] + 1 and after[2] != before[2]


@pytest.mark.parametrize("name", RUNS)
def test_loaded_runs_are_the_file(name: str) -> None:
    runs = golden.load_runs(name)
    lines = [
        f"{lo:08X} {hi:08X} {z:02X} {j}\n" for lo, hi, z, j in zip(*(column.tolist() for column in runs), strict=True)
    ]
    assert "".join(lines) == (ROOT / golden.find(name)["path"]).read_text(encoding="ascii")


@pytest.mark.parametrize("name", RUNS)
def test_runs_against_oracle_and_codec(name: str) -> None:
    """Both ends and the middle of every line; j is 2 for NaN, else 1."""
    row, runs = golden.find(name), golden.load_runs(name)
    policies: Any = {"rounding": golden.TOKENS[row["round"]], "overflow": golden.TOKENS[row["overflow"]]}
    fmt = fr.get_format(row["out"])
    for bits in (runs.lo, (runs.lo + runs.hi) // 2, runs.hi):
        x = bits.astype(np.uint32).view(np.float32)
        assert fr.encode(x, fmt, **policies).tolist() == runs.z.tolist()
        assert [oracle.encode(oracle.decode(b, "fp32"), fmt, **policies) for b in bits.tolist()] == runs.z.tolist()
    assert (runs.j == np.where(fr.isnan(runs.z, fmt), 2, 1)).all()


@pytest.mark.parametrize("literal", [row for row in LITERALS if row.name in ("e4m3", "e5m2")], ids=lambda row: row.name)
def test_runs_against_the_literals(literal: Any) -> None:
    """The overflow boundary as the standard has it, in both modes and both signs."""
    for overflow, beyond in (("sat", literal.saturate), ("nonsat", literal.nonsaturating)):
        runs = golden.load_runs(f"convert.f32.{literal.name}.rne.{overflow}.run")
        for sign, sign32 in ((0, 0), (literal.sign, 1 << 31)):
            codes = [runs.z[np.searchsorted(runs.hi, bits | sign32)] for bits in (literal.last, literal.beyond)]
            assert codes == [literal.max[0] | sign, beyond | sign]
            assert runs.z[np.searchsorted(runs.hi, sign32)] == sign  # the zeros


def test_load_refuses_the_wrong_shape() -> None:
    with pytest.raises(ValueError, match=r"is a \.tab file"):
        golden.load_runs(TABLES[0])
    with pytest.raises(ValueError, match=r"is a \.run file"):
        golden.load_table(RUNS[0])
    with pytest.raises(ValueError, match=r"unknown vector .*; close: .*convert\.f32\.e4m3\.rne\.sat\.run"):
        golden.find("convert.f32.e4m3.rne.saturating.run")


# --- tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_tables_against_codec_and_oracle(name: str) -> None:
    row = golden.find(name)
    table = np.fromfile(ROOT / row["path"], "<u4")
    codes = np.arange(1 << fr.get_format(row["in"]).bits)
    assert table.size == codes.size == row["domain"]
    assert table.tolist() == fr.decode(codes, row["in"], np.float32).view(np.uint32).tolist()
    assert golden.load_table(name).view(np.uint32).tolist() == table.tolist()
    for code, bits in enumerate(table.tolist()):
        x = oracle.decode(code, row["in"])
        assert bits == 0x7FC00000 if x.kind == "nan" else oracle.decode(bits, "fp32") == x, hex(code)


@pytest.mark.parametrize("name", TABLES)
def test_tables_against_the_literals(name: str) -> None:
    literal = next(row for row in LITERALS if row.name == golden.find(name)["in"])
    table = golden.load_table(name)
    known = [literal.max, *literal.values, *(pair for pair in (literal.min_normal, literal.min_subnormal) if pair)]
    for code, value in known:
        assert table[code : code + 1].view(np.uint32) == np.float32(value).view(np.uint32), hex(code)
    nan = sorted(code for first, last in literal.nan for code in range(first, last + 1))
    assert np.flatnonzero(np.isnan(table)).tolist() == nan
    assert np.flatnonzero(np.isinf(table)).tolist() == sorted(literal.inf)
    zeros = [code for code in (literal.zero, literal.minus_zero) if code is not None]
    assert set(zeros) <= set(np.flatnonzero(table == 0).tolist())


# --- the README -------------------------------------------------------------------------------

CONVERTERS = {
    # e4m3, saturating: round at bit 20 of the float32, or below it for subnormals
    "right": """
        unsigned sign = x >> 24 & 0x80, a = x & 0x7FFFFFFF;
        if (a > 0x7F800000) return sign | 0x7F;
        if (a >= 0x43E80000) return sign | 0x7E;
        int e = (int)(a >> 23) - 127, drop = e < -6 ? 20 - 6 - e : 20;
        if (drop > 25) return sign;
        unsigned long long m = (a & 0x7FFFFF) | 0x800000, half = 1ull << (drop - 1);
        unsigned code = (unsigned)(m >> drop);
        unsigned long long rest = m & (2 * half - 1);
        if (e >= -6) code += (unsigned)(e + 6) << 3;
        if (rest > half || (rest == half && (code & 1))) code++;
        return sign | code;""",
    "wrong": "return x >> 24 & 0x80;",
}
DUT = """
unsigned convert(unsigned x) {{ {body} }}
int is_nan(unsigned code) {{ return (code & 0x7F) == 0x7F; }}
"""


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The README's program with each converter."""
    if GCC is None:
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("judge")
    program = re.findall(r"```c\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[0]
    (folder / "judge.c").write_text(program)
    for name, body in CONVERTERS.items():
        (folder / f"{name}.c").write_text(DUT.format(body=body))
        sources = [folder / "judge.c", folder / f"{name}.c"]
        command = [GCC, "-std=c99", "-Wall", "-Wextra", "-Werror", "-o", folder / name, *sources]
        subprocess.run([str(part) for part in command], check=True)
    return {name: folder / name for name in CONVERTERS}


def judge(program: Path, *arguments: str) -> tuple[int, list[str]]:
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_judge_of_the_readme(judges: dict[str, Path], tmp_path: Path) -> None:
    path = str(ROOT / RUN_PATH)
    assert judge(judges["right"], path) == (0, ["256 lines, 0 wrong"])
    # the same converter against the other overflow is found: both signs, and the ends that differ
    code, lines = judge(judges["right"], path.replace(".sat.", ".nonsat."))
    assert code == 1 and lines[0] == "in=43E80001 got=7E want=7F"
    code, lines = judge(judges["wrong"], path)
    assert code == 1 and lines[0] == "in=3A800001 got=00 want=01" and lines[-1] == "256 lines, 762 wrong"
    assert judge(judges["right"], path + "x")[0] == 3
    short = tmp_path / "short.run"
    short.write_text("".join(Path(path).read_text(encoding="ascii").splitlines(keepends=True)[:3]), encoding="ascii")
    assert judge(judges["right"], str(short))[0] == 3
    assert judge(judges["right"])[0] == 3


def test_readme_names_every_token() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tokens = {row[key] for row in ROWS for key in ("op", "round", "overflow", "shape")} | golden.TOKENS.keys()
    assert not {token for token in tokens if not re.search(rf"\b{token}\b", text)}
