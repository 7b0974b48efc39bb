"""data/golden: its form, its sums, its loaders and its README.

The counts of lines are by hand: e4m3 saturating has 127 finite codes for each sign and NaN for each,
256; not saturating, the NaN of overflow joins the positive NaN inputs and stands apart from the
negative ones, 257, or joins both where NaN keeps its sign, 256; e5m2 has 124 finite codes, so 250, and
Inf for each sign, 252; e3m2 has 32 magnitudes, so 64, and a line for NaN, which joins +max: 28 at its
own code, and once more after -max.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import feather_ref as fr
from feather_ref import golden
from feather_ref._steps import load_steps
from golden.golden_tools import MANIFEST, REPOSITORY, ROOT, ROWS, replace_file, rows_of, small_tree
from literals import LITERALS

LINES = {
    "convert.f32.e4m3.rne.sat.run": 256,
    "convert.f32.e4m3.rne.nonsat.run": 257,
    "convert.f32.e4m3.rne.nonsat.nan=preserve_sign.run": 256,
    "convert.f32.e5m2.rne.sat.run": 250,
    "convert.f32.e5m2.rne.nonsat.run": 252,
    "convert.f32.e3m2.rne.sat.nan=max.run": 65,
    "convert.f32.e2m1.rne.sat.nan=max.run": 17,
    "convert.f32.e8m0.rne.sat.negative=abs.run": 512,
    "convert.f32.bf16.rne.nonsat.run": 65284,
}
A_RUN = next(row for row in ROWS if row["shape"] == "run")
GCC = shutil.which("gcc")


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
    assert len(found) == 6  # the file, a row, spec, source, class, witness
    for part in found:
        assert part["additionalProperties"] is False
        assert sorted(part["required"]) == sorted(set(part["properties"]) - {"classes"})  # lists alone have them


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
    ("nan", "7F"),
    ("classes", [{"name": "tie", "first": 1, "last": 1, "note": "no list"}]),
    ("extra", 1),
)


@pytest.mark.parametrize(("key", "value"), BROKEN)
def test_schema_refuses(key: str, value: Any) -> None:
    broken = {"version": "0.1.0", "vectors": [A_RUN | {key: value}]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema()).validate(broken)


def test_every_key_is_required() -> None:
    for key in A_RUN:
        row = {name: value for name, value in A_RUN.items() if name != key}
        with pytest.raises(jsonschema.ValidationError, match=f"'{key}' is a required property"):
            jsonschema.Draft202012Validator(schema()).validate({"version": "0.1.0", "vectors": [row]})


def test_ids_are_unique_and_sorted() -> None:
    ids = [row["id"] for row in ROWS]
    assert ids == sorted(set(ids))
    assert list(golden.manifest()) == ids


def test_an_id_says_what_its_row_says() -> None:
    for row in ROWS:
        parts, asked = row["id"].split("."), golden.question(row["id"])
        assert [*parts[:5], parts[-1]] == [row[key] for key in ("op", "in", "out", "round", "overflow", "shape")]
        nan = asked.policies.get("nan", "canonical")
        assert row["nan"] == nan or (row["nan"] == "none" and row["op"] != "decode")
        fmt = fr.get_format(asked.source if row["op"] == "decode" else asked.target)
        assert row["spec"]["document"] == fmt.source.document
        assert (row["nan"] == "none") == (nan == "canonical" and row["op"] != "decode" and not fmt.has_nan) or (
            row["op"] == "compare"
        )


def test_a_path_is_that_of_an_id() -> None:
    """The id's own, or that of a conversion to the same format with the same bits; `must` comes first.

    The draft's formats share files among themselves.
    """
    by_id = {row["id"]: row for row in ROWS}
    rank = ["must", "may", "vendor", "draft", "derived", "alternatives"]
    for row in ROWS:
        owner = by_id[row["path"].rsplit("/", 1)[1]]
        assert owner["path"] == row["path"] and row["path"].startswith(f"{owner['level']}/")
        alike = owner["out"] == row["out"] or {owner["level"], row["level"]} == {"draft/p3109-4.0"}
        assert owner is row or (row["shape"] == "run" and owner["in"] == "f32" and alike)
        if owner is not row:
            first, own = (rank.index(r["level"].split("/")[0]) for r in (owner, row))
            assert (first, owner["id"]) <= (own, row["id"].replace(f".{row['in']}.", ".f32.", 1)), row["id"]


def test_no_two_files_of_a_format_are_equal() -> None:
    runs = {
        ("draft" if row["level"].startswith("draft/") else row["out"], row["sha256"]): row["path"]
        for row in ROWS
        if row["shape"] == "run"
    }
    assert sorted(runs.values()) == sorted({row["path"] for row in ROWS if row["shape"] == "run"})


def test_tsv_has_the_short_columns() -> None:
    text = (ROOT / "manifest.tsv").read_text(encoding="ascii")
    assert text.endswith("\n") and "\r" not in text
    found = list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert set(found[0]) >= {"id", "path", "shape", "level", "lines", "crc32"}
    assert found == [{key: str(row[key]) for key in found[0]} for row in MANIFEST["vectors"]]


def test_size() -> None:
    found = [path for path in ROOT.rglob("*") if path.is_file()]
    assert len(found) < 2500
    assert sum(path.stat().st_size for path in found) < 16.5e6


def test_every_named_format_has_its_files() -> None:
    """Every rounding and overflow policy of a row of up to 11 bits, from three sources."""
    ids = {row["id"] for row in ROWS}
    for fmt in fr.FORMATS.values():
        name = {"fp16": "f16"}.get(fmt.name, fmt.name)
        if fmt.bits < 32:
            assert f"decode.{name}.f32.exact.none.{'tab' if fmt.bits <= 16 else 'dig'}" in ids
        overflows = ["sat", "nonsat", "prop", *(["table3"] if fmt.has_inf or fmt.has_nan else [])]
        roundings = ["rne", "rna", "rtz", "rup", "rdn", "rodd"] if fmt.kind != "table" else ["rne"]
        if fmt.bits <= 11:
            asked = itertools.product(("f32", "f16", "bf16"), [name], roundings, overflows)
            assert {f"convert.{'.'.join(parts)}.run" for parts in asked} <= ids
    for fmt in fr.p3109_formats():
        asked = [f"convert.f32.{fmt.name}.rne.{overflow}.run" for overflow in ("sat", "prop", "satnone")]
        assert {f"decode.{fmt.name}.f32.exact.none.tab", *asked} <= ids


def test_levels() -> None:
    """By hand from the standards' own words."""
    level, sources = {row["id"]: row["level"] for row in ROWS}, ("f32", "f16", "bf16")
    must = {
        *(f"convert.{a}.{b}.rne.{c}.run" for a in sources for b in ("e4m3", "e5m2") for c in ("sat", "nonsat")),
        *(f"convert.{a}.{b}.rne.sat.run" for a in sources for b in ("e3m2", "e2m3", "e2m1", "mxint8")),
        *(f"convert.{a}.f16.{b}.nonsat.run" for a in ("f32", "bf16") for b in ("rne", "rtz")),
        *(f"convert.f32.f16.{b}.nonsat.dig" for b in ("rna", "rup", "rdn")),
    }  # fmt: skip
    lists = {name for name in level if name.endswith(".tv")}
    assert {name for name in level if name.startswith("convert.") and level[name] == "must"} - lists == must
    assert level["convert.f32.e4m3.rup.nonsat.run"] == "may"
    assert level["convert.f32.e8m0.rne.sat.run"] == "derived"
    assert level["convert.f32.e8m0.rne.sat.negative=abs.run"] == "alternatives/negative/abs"
    assert level["convert.f32.binary8p3se.rne.satnone.run"] == "draft/p3109-4.0"
    assert {level[name] for name in level if name.startswith(("add", "fma", "multiply"))} == {"derived"}


# --- the files --------------------------------------------------------------------------------


def test_all_is_well() -> None:
    assert golden.verify() == []
    assert golden.verify(ROOT) == []


def test_git_leaves_the_bytes_alone() -> None:
    lines = (REPOSITORY / ".gitattributes").read_text(encoding="ascii").split("\n")
    assert "data/golden/** -text" in lines
    if shutil.which("git") and (REPOSITORY / ".git").exists():
        found = subprocess.run(
            ["git", "check-attr", "text", "--", f"data/golden/{ROWS[0]['path']}", "data/golden/SHA256SUMS"],
            cwd=REPOSITORY, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert [line.split(": ")[-1] for line in found.stdout.splitlines()] == ["unset", "unset"]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_checkout_as_on_windows_keeps_the_sums(tmp_path: Path) -> None:
    """core.autocrlf turns every line end round, but not here; without the repository's own rule for text."""
    source, clone = tmp_path / "source", tmp_path / "clone"
    small_tree(source / "data" / "golden", SMALL)
    rules = (REPOSITORY / ".gitattributes").read_text(encoding="ascii")
    assert "* text=auto eol=lf\n" in rules
    (source / ".gitattributes").write_text(rules.replace("* text=auto eol=lf", "* text=auto"), encoding="ascii")
    (source / "other.txt").write_bytes(b"a\nb\n")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "core.autocrlf=true"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *command], cwd=source, check=True, capture_output=True)
    subprocess.run([*git, "clone", "-q", str(source), str(clone)], check=True, capture_output=True)
    assert (clone / "other.txt").read_bytes() == b"a\r\nb\r\n"  # so it is a checkout as on Windows
    assert golden.verify(clone / "data" / "golden") == []


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")
def test_sums_are_read_by_sha256sum() -> None:
    done = subprocess.run(
        ["sha256sum", "--strict", "--quiet", "-c", "SHA256SUMS"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    paths = [line.split("  ")[1] for line in (ROOT / "SHA256SUMS").read_text(encoding="ascii").splitlines()]
    assert paths == sorted({*(row["path"] for row in MANIFEST["vectors"]), *golden.SUMMED})


SMALL = ["convert.f32.e4m3.rne.sat.run", "convert.f16.e4m3.rne.sat.run", "decode.e2m1.f32.exact.none.tab"]
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
    row = next(row for row in manifest["vectors"] if row["id"] == RUN)
    row[key] = value
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="ascii")


def edit_sums(folder: Path) -> None:
    text = (folder / "SHA256SUMS").read_text(encoding="ascii")
    assert "7b053806" in text
    (folder / "SHA256SUMS").write_text(text.replace("7b053806", "7b063806", 1), encoding="ascii")


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


BOTH = (RUN, "convert.f16.e4m3.rne.sat.run")  # two ids, one file
MANIFEST_SUM = "manifest.json: SHA-256 differs from SHA256SUMS"
CORRUPTIONS: tuple[tuple[str, Callable[[Path], None], list[str]], ...] = (
    ("a bit", flip, [TAB_PATH, f"{TAB}: crc32", f"{TAB}: sha256"]),
    ("a byte short", cut, [RUN_PATH, *(f"{name}: {key}" for name in BOTH for key in ("crc32", "lines", "sha256"))]),
    ("line ends", crlf, [RUN_PATH, *(f"{name}: {key}" for name in BOTH for key in ("crc32", "sha256"))]),
    ("a file gone", delete, [f"{RUN_PATH}: missing"]),
    ("a link", link, [f"{RUN_PATH}: missing"]),
    ("no JSON", lambda folder: (folder / "manifest.json").write_text("{"), [str]),
    ("no vectors", lambda folder: (folder / "manifest.json").write_text("[]"), [str]),
    ("no sums", lambda folder: (folder / "SHA256SUMS").unlink(), [str]),
    (
        "a path that leaves",
        lambda folder: edit_row(folder, "path", "../outside.run"),
        ["../outside.run: not in SHA256SUMS", MANIFEST_SUM],
    ),
    ("a file more", add, ["must/ofp8/more.run: not listed"]),
    ("sha256 edited", lambda folder: edit_row(folder, "sha256", "0" * 64), [f"{RUN}: sha256 differs", MANIFEST_SUM]),
    ("crc32 edited", lambda folder: edit_row(folder, "crc32", "0" * 8), [f"{RUN}: crc32 differs", MANIFEST_SUM]),
    ("lines edited", lambda folder: edit_row(folder, "lines", 255), [f"{RUN}: lines differs", MANIFEST_SUM]),
    (
        "path edited",
        lambda folder: edit_row(folder, "path", "must/ofp8/x.run"),
        ["must/ofp8/x.run: not in SHA256SUMS", MANIFEST_SUM],
    ),
    ("a word edited", lambda folder: edit_row(folder, "overflow", "nonsat"), [MANIFEST_SUM]),
    ("a row gone", forget_row, [f"{RUN_PATH}: not in the manifest", MANIFEST_SUM]),
    ("a sum edited", edit_sums, [f"{RUN_PATH}: SHA-256 differs"]),
    ("a sum gone", forget_sum, [f"{RUN_PATH}: not in SHA256SUMS", f"{RUN_PATH}: not listed"]),
)


@pytest.mark.parametrize(("what", "corrupt", "expected"), CORRUPTIONS, ids=[row[0] for row in CORRUPTIONS])
def test_verify_finds(tmp_path: Path, what: str, corrupt: Callable[[Path], None], expected: list[str]) -> None:
    folder = small_tree(tmp_path / "golden", SMALL)
    assert golden.verify(folder) == []
    corrupt(folder)
    found = sorted(golden.verify(folder))
    if expected == [str]:
        assert len(found) == 1 and "unreadable" in found[0]
        return
    for start, line in itertools.zip_longest(sorted(expected), found):
        assert start and line and line.startswith(start), (what, found)


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        ('{"vectors":[{"op":"convert","path":"x"}]}', "manifest.json: row 0 has no 'id'"),
        ('{"vectors":[{"id":"a.b","path":"x"}]}', "manifest.json: row 0 has no 'op'"),
        ('{"vectors":["a"]}', "manifest.json: row 0 has no 'id'"),
        ('{"version":"1.0.0"}', "manifest.json: it has no list of vectors"),
        ("[]", "manifest.json: it has no list of vectors"),
    ],
)
def test_a_manifest_that_lacks_something_is_named(tmp_path: Path, broken: str, error: str) -> None:
    (tmp_path / "manifest.json").write_text(broken, encoding="ascii")
    for read in (golden.manifest, golden.block_manifest):
        with pytest.raises(ValueError, match=error):
            read(tmp_path)


# --- run files and loaders ------------------------------------------------------------------------


@pytest.mark.parametrize("name", LINES)
def test_count_of_lines(name: str) -> None:
    row = golden.find(name)
    assert row["lines"] == LINES[name] == len((ROOT / row["path"]).read_bytes().splitlines())


@pytest.mark.parametrize("name", LINES)
def test_loaded_runs_are_the_file(name: str) -> None:
    runs, bits = golden.load_runs(name), fr.get_format(golden.question(name).target).bits
    form = f"{{:08X}} {{:08X}} {{:0{(bits + 3) // 4}X}} {{}}\n"
    lines = [form.format(*line) for line in zip(*(column.tolist() for column in runs), strict=True)]
    assert "".join(lines) == (ROOT / golden.find(name)["path"]).read_text(encoding="ascii")


@pytest.mark.parametrize("literal", [row for row in LITERALS if row.name in ("e4m3", "e5m2")], ids=lambda row: row.name)
def test_runs_against_the_literals(literal: Any) -> None:
    """The overflow boundary as the standard has it, in both modes and both signs."""
    for overflow, beyond in (("sat", literal.saturate), ("nonsat", literal.nonsaturating)):
        runs = golden.load_runs(f"convert.f32.{literal.name}.rne.{overflow}.run")
        for sign, sign32 in ((0, 0), (literal.sign, 1 << 31)):
            codes = [runs.z[np.searchsorted(runs.hi, bits | sign32)] for bits in (literal.last, literal.beyond)]
            assert codes == [literal.max[0] | sign, beyond | sign]
            assert runs.z[np.searchsorted(runs.hi, sign32)] == sign  # the zeros


# id, float32 bits, z, j: typed from the standards
FACTS = (
    ("convert.f32.e4m3.rne.sat.run", 0x43E80000, 0x7E, 1),  # 464, half way beyond 448, to even
    ("convert.f32.e4m3.rne.nonsat.run", 0x43E80000, 0x7E, 1),
    ("convert.f32.e4m3.rne.sat.run", 0x43E80001, 0x7E, 1),
    ("convert.f32.e4m3.rne.nonsat.run", 0x43E80001, 0x7F, 2),
    ("convert.f32.e5m2.rne.nonsat.run", 0x47700000, 0x7C, 1),  # 61440
    ("convert.f32.e5m2.rne.nonsat.run", 0x476FFFFF, 0x7B, 1),
    ("convert.f32.e5m2.rne.sat.run", 0x7F800000, 0x7B, 1),  # Inf saturates too
    ("convert.f32.e5m2.rne.prop.run", 0x7F800000, 0x7C, 1),
    ("convert.f32.e4m3.rne.nonsat.nan=preserve_sign.run", 0xFF800001, 0xFF, 1),
    ("convert.f32.e2m1.rne.sat.run", 0x7FC00000, 0, 0),  # NaN into FP4: nothing is said
    ("convert.f32.e2m1.rne.sat.nan=max.run", 0x7FC00000, 0x7, 1),
    ("convert.f32.e2m1.rne.sat.nan=zero.run", 0x7FC00000, 0x0, 1),
    ("convert.f32.e2m1.rne.sat.run", 0x40A00000, 0x6, 1),  # 5 goes to 4
    ("convert.f32.e8m0.rne.sat.run", 0xBF800000, 0, 0),  # -1 has no scale
    ("convert.f32.e8m0.rne.sat.negative=abs.run", 0xBF800000, 0x7F, 1),
    ("convert.f32.e8m0.rne.sat.negative=nan.run", 0xBF800000, 0xFF, 2),
    ("convert.f32.e8m0.rne.sat.run", 0x40400000, 0x80, 1),  # 3, a tie: even is 80
    ("convert.f32.e8m0.rna.sat.run", 0x40400000, 0x81, 1),
    ("convert.f32.mxint8.rne.sat.run", 0xC0000000, 0x80, 3),  # -2: 80 may be unused, then 81
    ("convert.f32.int8.rne.sat.run", 0xC3000000, 0x80, 1),
    ("convert.f32.uint8.rne.sat.run", 0xBF800000, 0x00, 1),
    ("convert.f32.e4m3fnuz.rne.sat.run", 0x80000000, 0x00, 1),  # no -0: its code is NaN
    ("convert.f32.binary8p3ue.rne.satnone.run", 0xBF800000, 0xFF, 2),
    ("convert.f32.binary8p3ue.rne.sat.run", 0xBF800000, 0, 0),
    ("convert.f32.e4m3.rne.sat.subnormals=flush_output.run", 0x3B000000, 0x00, 1),  # 2**-9
    ("convert.f32.e5m2.rne.sat.subnormals=flush_input.run", 0x807FFFFF, 0x80, 1),
    ("convert.f32.e4m3.sra.sat.n=1.r=0.run", 0x3F880000, 0x38, 1),  # 1.0625, half way: floor(0.5 * 2) + 0 < 2
    ("convert.f32.e4m3.sra.sat.n=1.r=1.run", 0x3F880000, 0x39, 1),  # floor(0.5 * 2) + 1 >= 2
)  # fmt: skip


@pytest.mark.parametrize(("name", "bits", "z", "j"), FACTS)
def test_facts_of_the_standards(name: str, bits: int, z: int, j: int) -> None:
    runs = golden.load_runs(name)
    at = np.searchsorted(runs.hi, bits)
    assert (runs.z[at], runs.j[at]) == (z, j)


def test_a_list_is_loaded() -> None:
    row = next(row for row in rows_of("tv") if row["op"] == "fma")
    found = golden.load_vectors(row["id"])
    assert [column.size for column in (*found.operands, found.z, found.j)] == [row["lines"]] * 5
    first = (ROOT / row["path"]).read_text(encoding="ascii").splitlines()[0].split(" ")
    assert [int(field, 16) for field in first] == [int(column[0]) for column in (*found.operands, found.z, found.j)]


def test_digests_are_loaded() -> None:
    found = golden.load_digests("fma.e4m3.e4m3.rne.sat.dig")
    assert (found.chunk.tolist(), found.count.tolist()) == ([0], [1 << 24])
    line = (ROOT / golden.find("fma.e4m3.e4m3.rne.sat.dig")["path"]).read_text(encoding="ascii").split()
    assert line == ["0000", "1000000", f"{found.crc32[0]:08x}", found.sha256[0]]


def test_tables_are_loaded() -> None:
    table = golden.load_table("add.e4m3.e4m3.rne.sat.tab")
    assert (table.dtype, table.shape) == (np.uint8, (1 << 16,))
    assert table[0x38 << 8 | 0x38] == 0x40  # 1 + 1
    assert golden.load_mask("add.e4m3.e4m3.rne.sat.tab") is None


def test_load_refuses_the_wrong_shape() -> None:
    with pytest.raises(ValueError, match=r"is a \.tab file"):
        golden.load_runs("decode.e2m1.f32.exact.none.tab")
    with pytest.raises(ValueError, match=r"is a \.run file"):
        golden.load_table(RUN)
    with pytest.raises(ValueError, match=r"is a \.run file, not \.dig"):
        golden.load_digests(RUN)
    with pytest.raises(ValueError, match=r"unknown vector .*; close: .*convert\.f32\.e4m3\.rne\.sat\.run"):
        golden.find("convert.f32.e4m3.rne.saturating.run")
    with pytest.raises(TypeError, match="vector_id must be a str, got int"):
        golden.find(3)  # type: ignore[arg-type]


def test_a_folder_is_a_path_or_its_name(tmp_path: Path) -> None:
    folder = small_tree(tmp_path, SMALL)
    assert golden.read(RUN, str(folder)) == golden.read(RUN, folder) == golden.read(RUN)
    assert golden.verify(str(folder)) == []


BAD_LINES = (
    (b"00000000 3A800000 00\n", "line 1 has 3 fields, not 4"),
    (b"00000000 3A800000 00 1\n3A800001 FFFFFFFF 1 1\n", "line 2 is not 4 fields of hex as in line 1"),
    (b"00000000 3A800000 00 1\n3a800001 FFFFFFFF 01 1\n", "line 2 is not 4 fields"),  # lower case
    (b"00000000 3A800000 00 1\n3A80000G FFFFFFFF 01 1\n", "line 2 is not 4 fields"),
    (b"00000000 3A800000 00 1\r\n3A800001 FFFFFFFF 01 1\r\n", "line 1 is not 4 fields"),
    (b"00000000 3A800000 00 1\n3A800001", "line 2 is not 4 fields"),
    (b"", "line 1 has 1 fields, not 4"),
)


@pytest.mark.parametrize(("data", "text"), BAD_LINES)
def test_load_refuses_a_damaged_file(tmp_path: Path, data: bytes, text: str) -> None:
    folder = small_tree(tmp_path, SMALL)
    replace_file(folder, RUN, data)
    with pytest.raises(golden.CorruptError, match=text):
        golden.load_runs(RUN, folder)


def test_load_refuses_a_damaged_digest(tmp_path: Path) -> None:
    name = "fma.e4m3.e4m3.rne.sat.dig"
    folder = small_tree(tmp_path, [name])
    replace_file(folder, name, b"0000 1000000 1234\n")
    with pytest.raises(golden.CorruptError, match="line 1 is not `chunk count crc32 sha256`"):
        golden.load_digests(name, folder)


LOADERS: tuple[tuple[str, Callable[..., Any]], ...] = (
    (RUN, golden.load_runs),
    ("decode.e2m1.f32.exact.none.tab", golden.load_table),
    ("fma.e4m3.e4m3.rne.sat.tv", golden.load_vectors),
    ("fma.e4m3.e4m3.rne.sat.dig", golden.load_digests),
    ("block.f32.mxfp4.rne.sat.blk", golden.load_blocks),
    (RUN, load_steps),
    (RUN, golden.read),
)


@pytest.mark.parametrize(("name", "load"), LOADERS)
def test_every_reader_looks_at_the_hash(tmp_path: Path, name: str, load: Callable[..., Any]) -> None:
    """A file that is well formed, but for one bit of a digit."""
    folder = small_tree(tmp_path, [name])
    load(name, folder)
    path = folder / golden.find(name)["path"]
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    with pytest.raises(golden.CorruptError, match="SHA-256 differs from the manifest"):
        load(name, folder)
    path.unlink()
    with pytest.raises(golden.CorruptError, match="No such file"):
        load(name, folder)


@pytest.mark.parametrize("key", ["path", "sha256", "crc32", "shape"])
def test_a_row_that_lacks_a_field_is_named(tmp_path: Path, key: str) -> None:
    folder = small_tree(tmp_path, SMALL)
    text = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for row in text["vectors"]:
        del row[key]
    (folder / "manifest.json").write_text(json.dumps(text), encoding="utf-8")
    with pytest.raises(golden.CorruptError, match=f"missing fields in the manifest: {key}"):
        golden.load_runs(RUN, folder)


# --- ids ------------------------------------------------------------------------------------------

QUESTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("convert.f64.f16.rup.nonsat.tv",
     ("convert", "float64", "fp16", {"rounding": "toward_positive", "overflow": "nonsaturating"}, None, None, "tv")),
    ("convert.i64.bf16.rodd.table3.tv",
     ("convert", "int64", "bf16", {"rounding": "to_odd", "overflow": "ocp_table3"}, None, None, "tv")),
    ("convert.f32.ue5m3.rna.prop.nan=max.negative=zero.subnormals=flush_output.run",
     ("convert", "fp32", "ue5m3", {"rounding": "nearest_away", "overflow": "propagate", "nan": "max",
                                   "negative": "zero", "subnormals": "flush_output"}, None, None, "run")),
    ("convert.f16.e5m2.src.sat.n=8.dig",
     ("convert", "fp16", "e5m2", {"rounding": "stochastic_c", "overflow": "saturate"}, 8, None, "dig")),
    ("decode.f16.f32.exact.none.tab", ("decode", "fp16", "fp32", {}, None, None, "tab")),
    ("compare.e4m3.e4m3.exact.none.dig", ("compare", "e4m3", "e4m3", {}, None, None, "dig")),
    ("fma.binary8p3se.binary8p3se.rdn.satnone.msk",
     ("fma", "binary8p3se", "binary8p3se", {"rounding": "toward_negative", "overflow": "p3109_satnone"}, None, None,
      "msk")),
)  # fmt: skip


@pytest.mark.parametrize(("name", "asked"), QUESTIONS)
def test_question(name: str, asked: tuple[Any, ...]) -> None:
    assert golden.question(name) == asked


BAD_IDS = (
    ("", "is not op"),
    ("convert.f32.e4m3.rne.run", "is not op"),
    ("cast.f32.e4m3.rne.sat.run", "op must be one of decode"),
    ("convert.f32.e4m3.rne.sat.txt", "shape must be one of run"),
    ("convert.f32.e4m3.nearest.sat.run", "rounding must be one of rne"),
    ("convert.f32.e4m3.sat.rne.run", "rounding must be one of rne"),
    ("convert.f32.e4m3.rne.clamp.run", "overflow must be one of sat"),
    ("convert.fp32.e4m3.rne.sat.run", "unknown format 'fp32'"),
    ("convert.f32.float8_e4m3fn.rne.sat.run", "unknown format 'float8_e4m3fn'"),
    ("convert.f32.src.rne.sat.run", "unknown format 'src'"),
    ("convert.f32.e4m3.rne.sat.nan=error.run", "unknown choice 'nan=error'"),
    ("convert.f32.e4m3.rne.sat.nan.run", "unknown choice 'nan'"),
    ("convert.f32.e8m0.rne.sat.negative=abs.nan=max.run", "in the order nan, negative"),
    ("convert.f32.e8m0.rne.sat.nan=max.nan=max.run", "once each"),
    ("convert.f32.e4m3.rne.sat.n=4.r=1.run", "n and r are for stochastic rounding"),
    ("convert.f32.e4m3.sra.sat.n=2.r=4.run", "r must be below"),
    ("convert.f32.e4m3.sra.sat.n=0.run", "n must be at least 1"),
    ("convert.f32.e4m3.sra.sat.n=04.run", "unknown choice 'n=04'"),
)


@pytest.mark.parametrize(("name", "text"), BAD_IDS)
def test_question_refuses(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        golden.question(name)


def test_question_refuses_what_is_no_text() -> None:
    with pytest.raises(ValueError, match="vector_id: 7 is not"):
        golden.question(7)  # type: ignore[arg-type]  # on purpose


def test_tokens_are_names_of_the_api() -> None:
    known = {*fr.ROUNDINGS, *fr.OVERFLOWS, *fr.FORMATS, "float64", "int64"}  # the last two are sources only
    assert set(golden.TOKENS.values()) <= known


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("convert.f32.tf32.rne.nonsat.dig", np.uint32), ("decode.e2m1.f32.exact.none.tab", np.uint32),
     ("compare.bf16.bf16.exact.none.tv", np.uint8), ("convert.f32.uf11.rne.sat.run", np.uint16)],
)  # fmt: skip
def test_dtype_of_results(name: str, dtype: Any) -> None:
    assert golden.result_dtype(name) == dtype


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
# the right one without saturation, but of infinity alone
CONVERTERS["infinity"] = CONVERTERS["right"].replace(
    "if (a >= 0x43E80000) return sign | 0x7E;",
    "if (a > 0x43E80000) return sign | (a == 0x7F800000 ? 0x7E : 0x7F);",
)
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
    assert code == 1 and lines[0] == "in=3A800001 got=00 want=01" and lines[-1] == "256 lines, 764 wrong"
    # infinity within the run of all that is too big: neither an end nor the middle
    code, lines = judge(judges["infinity"], path.replace(".sat.", ".nonsat."))
    assert code == 1 and lines[0] == "in=7F800000 got=7E want=7F" and {line[:11] for line in lines[:-1]} == {
        "in=7F800000", "in=FF800000"
    }  # fmt: skip
    assert judge(judges["right"], path + "x")[0] == 3
    short = tmp_path / "short.run"
    short.write_text("".join(Path(path).read_text(encoding="ascii").splitlines(keepends=True)[:3]), encoding="ascii")
    assert judge(judges["right"], str(short))[0] == 3
    assert judge(judges["right"])[0] == 3


def test_readme_names_every_token() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tokens = {row[key] for row in ROWS for key in ("op", "round", "overflow", "shape")} | golden.TOKENS.keys()
    for name, options in golden.CHOICES.items():
        assert f"| {name}= |" in text
        tokens |= set(options)
    assert not {token for token in tokens if not re.search(rf"\b{token}\b", text)}
