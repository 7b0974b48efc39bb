"""conform: known findings by themselves, the report, shards, expectations, exit codes."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import feather_ref as fr
from feather_ref import golden
from feather_ref.cli import cli
from feather_ref.conformance import adapters, conform, fingerprint
from feather_ref.conformance.adapters import Adapter, Expected
from feather_ref.conformance.conform import Outcome, Selection
from feather_ref.conformance.report import Report
from feather_ref.formats import get_format

NOTHING = Selection()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["conform", *arguments], prog_name="feather-ref")


def outcome(impl: str, vector_id: str) -> Outcome:
    return conform.run_one(adapter(impl), vector_id, NOTHING)


def adapter(impl: str) -> Adapter:
    if impl == "torch":
        pytest.importorskip("torch", reason="torch is not installed, and no dependency")
    return adapters.load(impl)


def lines(report: Report) -> str:
    return "\n".join(report.lines)


def traits(impl: str, *formats: str) -> dict[tuple[str, str], str]:
    ids = [name for name in golden.manifest() if set(name.split(".")) & {"f16" if f == "fp16" else f for f in formats}]
    found = conform.traits(conform.encoders(adapter(impl), sorted(ids)))
    return {(trait.fmt, trait.choice): trait.option for trait in found}


# --- known findings ---------------------------------------------------------------------------


@pytest.mark.parametrize("impl", ["ml_dtypes", "torch"])
@pytest.mark.parametrize("fmt", ["e5m2", "bf16"])
def test_float64_is_rounded_twice(impl: str, fmt: str) -> None:
    report, reason = outcome(impl, f"convert.f64.{fmt}.rne.nonsat.run")
    assert report.status == "fail" and set(report.classes) == {"double rounding"}
    assert "rounded twice" in reason
    if fmt == "e5m2":  # just above the tie between 0 and 2^-16
        assert "in=3EE0000000000001 (7.6293945312500017e-06) got=00 (0) want=01" in lines(report)


def test_numpy_rounds_float64_once() -> None:
    assert outcome("numpy", "convert.f64.f16.rne.nonsat.run").report.status == "pass"


@pytest.mark.parametrize("impl", ["ml_dtypes", "torch"])
def test_e8m0_rounds_up_too_early(impl: str) -> None:
    report, reason = outcome(impl, "convert.f32.e8m0.rna.nonsat.run")
    assert report.status == "fail" and "2^-127" in reason
    assert "in=005FFFFF (8.81620623e-39) got=01 (1.17549435e-38) want=00 (5.87747175e-39)" in lines(report)
    zero = "in=00000000 (0) got=FF (NaN) want=00" in lines(report)
    assert zero == (impl == "ml_dtypes")


def test_e8m0_rounds_up_too_early_for_all_2097151_inputs() -> None:
    """Every pattern around 2^-127: what is wrong is above it and below 1.5 times it, and zero."""
    from feather_ref.conformance import suite  # noqa: PLC0415 - for this test alone

    s = suite("convert.f32.e8m0.rna.nonsat.run", exhaustive=True)
    encode = adapter("ml_dtypes").make(s.question)
    for batch in itertools.islice(s.inputs(), 2):
        s.judge(batch, encode(*batch.inputs))
    assert s.report(thorough=False).failed == 2_097_151 + 1


@pytest.mark.parametrize("fmt", ["e2m1", "e2m3", "e3m2"])
def test_nan_becomes_minus_zero_in_ml_dtypes(fmt: str) -> None:
    assert traits("ml_dtypes", fmt)[fmt, "NaN"] == "-0, and -NaN to +0"
    assert outcome("ml_dtypes", f"convert.f32.{fmt}.rne.sat.run").report.status == "pass"  # the standard is silent


def test_traits_of_ml_dtypes() -> None:
    found = traits("ml_dtypes", "e4m3", "e8m0", "e5m2")
    assert found["e4m3", "overflow"].startswith("nonsaturating")
    assert found["e4m3", "NaN"] == "preserve_sign" and found["e5m2", "NaN"] == "7E (NaN), FE (NaN)"
    assert found["e8m0", "rounding"].startswith("nearest_away")
    assert found["e8m0", "zero"] == "FF (NaN)" and found["e8m0", "negative"] == "nan"
    assert found["e4m3", "float64"] == "through float32, rounded twice"
    assert found["e4m3", "subnormals"] == "keep"


def test_torch_saturates_e4m3_and_not_e5m2() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed, and no dependency")
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 12):
        pytest.skip("before the change")
    found = traits("torch", "e4m3", "e5m2", "e8m0")
    assert found["e4m3", "overflow"] == "saturate, Inf too"
    assert found["e5m2", "overflow"].startswith("nonsaturating")
    assert found["e8m0", "zero"].startswith("00 ") and found["e8m0", "negative"] == "abs"
    assert outcome("torch", "convert.f32.e4m3.rne.sat.run").report.status == "pass"
    assert outcome("torch", "convert.f32.e4m3.rne.nonsat.run").report.status == "unsupported"
    assert outcome("torch", "convert.f32.e5m2.rne.nonsat.run").report.status == "pass"
    near = conform.profiles(conform.encoders(adapter("torch"), [f"convert.f32.{f}.rne.sat.run" for f in ("e4m3",)]))
    assert near[0].profile in ("torch>=2.12", "onnx", "hip") and near[0].same == near[0].asked


def test_gfloat_wraps_e8m0() -> None:
    report, reason = outcome("gfloat", "convert.bf16.e8m0.rne.sat.run")
    assert report.status == "fail" and "wraps" in reason
    assert "got=FFFFFFFFFFFFFF" in lines(report) and "no code of e8m0" in lines(report)


def test_gfloat_on_e8m0_fails_as_expected_and_nowhere_else() -> None:
    result = run("--impl", "gfloat", "--format", "e8m0")
    assert result.exit_code == 0, result.output
    assert "negative: its own: codes that the format does not have  [e8m0]" in result.output
    assert "rounding: nearest_even  [e8m0]" in result.output


def test_gfloat_rounds_the_stochastic_sum() -> None:
    report, reason = outcome("gfloat", "convert.f64.e4m3.sra.sat.n=1.r=1.run")
    assert report.failed == 2 and "rounds the sum" in reason


def test_nearest_profile() -> None:
    ids = [name for name in conform.Selection(("e4m3", "e5m2", "e2m1", "bf16")).ids() if ".f32." in name]
    near = conform.profiles(conform.encoders(adapter("ml_dtypes"), ids))
    assert near[0].profile == "ml_dtypes" and near[0].same == near[0].asked
    assert near[1].same < near[0].same


def test_a_trait_is_what_the_oracle_says_of_the_codec() -> None:
    """The codec under each policy is recognised as that policy."""
    row = get_format("e5m2")
    for overflow in ("saturate", "nonsaturating", "propagate"):
        encode = partial(fr.encode, fmt=row, overflow=overflow, rounding="nearest_away")
        found = {t.choice: t.option for t in fingerprint.traits(row, encode)}
        assert found["rounding"] == "nearest_away"
        assert found["overflow"] == fingerprint._TEXT[overflow]
    flushed = fingerprint.traits(row, lambda x: fr.encode(x, row, subnormals="flush_output"))
    assert {t.choice: t.option for t in flushed}["subnormals"] == "flush_output"


@pytest.mark.parametrize("impl", ["numpy", "ml_dtypes"])
def test_default_run_is_clean(impl: str) -> None:
    result = run("--impl", impl)
    assert result.exit_code == 0, result.output
    assert "choices:" in result.output and "profile " in result.output


# --- expectations -----------------------------------------------------------------------------


def own(encode: Callable[..., Any], *expected: Expected) -> Adapter:
    policies = {("convert", "e4m3"): frozenset({"rne.sat"})}
    return Adapter("own", {"own": "1"}, ("fp32",), policies, lambda question: encode, expected)


def good(x: Any) -> Any:
    return fr.encode(x, "e4m3")


def dies(x: Any) -> Any:
    raise RuntimeError("no")


GOOD = own(good)
TRUNCATES = own(lambda x: fr.encode(x, "e4m3", rounding="toward_zero"))
EXPECTED = Expected(("convert.*.e4m3.*",), "it truncates", ("tie", "inexact", "subnormal"))
ID = "convert.f32.e4m3.rne.sat.run"


@pytest.mark.parametrize(
    ("made", "status", "expected", "code"),
    [
        (GOOD, "pass", "", 0),
        (TRUNCATES, "fail", "", 1),
        (own(TRUNCATES.make(golden.question(ID)), EXPECTED), "fail", "it truncates", 0),
        (own(TRUNCATES.make(golden.question(ID)), Expected(EXPECTED.patterns, "ties", ("tie",))), "fail", "", 1),
        (own(good, EXPECTED), "error", "", 2),
        (own(dies), "error", "", 2),
        (own(dies, EXPECTED), "error", "", 2),
    ],
    ids=["pass", "fail", "expected", "other classes", "expected passes", "error", "expected error"],
)  # fmt: skip
def test_expectations(made: Adapter, status: str, expected: str, code: int) -> None:
    found = conform.run_one(made, ID, NOTHING)
    assert (found.report.status, found.expected) == (status, expected)
    assert conform.exit_code([found]) == code
    if status == "error" and made.expected and made.make(golden.question(ID)) is good:
        assert found.report.message == "an expected failure passes: it truncates"


def test_nothing_ran_is_3() -> None:
    found = conform.run_one(GOOD, "convert.f32.e5m2.rne.sat.run", NOTHING)
    assert found.report.status == "unsupported"
    assert conform.exit_code([found]) == 3 and conform.exit_code([]) == 3
    result = run("--impl", "numpy", "--format", "e4m3")
    assert result.exit_code == 3
    assert result.output.splitlines()[1:] == ["nothing ran", "numpy answers no suite of e4m3; it has fp16"]
    result = run("--impl", "numpy", "--suite", "convert.f32.e4m3.rne.sat.run")
    assert result.output.splitlines()[-1] == "numpy answers no suite that is selected; it has fp16"


MINE = """
import feather_ref as fr
from feather_ref.conformance.adapters import Adapter

def make(question):
    return lambda x: fr.encode(x, question.target, **question.policies)

mine = Adapter("mine", {"mine": "7"}, ("fp32", "fp16"), {("convert", "e4m3"): frozenset({"rne.sat", "rtz.sat"})}, make)
"""


def test_an_adapter_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_adapter.py").write_text(MINE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = run("--impl", "my_adapter:mine", "--suite", "convert.*.e4m3.*.run")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("mine (") and "mine 7" in result.output
    assert "rounding: nearest_even  [e4m3]" in result.output


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("tensorflow", ValueError, "impl must be one of gfloat, ml_dtypes, numpy, torch, or module:object"),
        ("no_such_module:x", ValueError, "no_such_module"),
        ("feather_ref:nothing", ValueError, "has no 'nothing'"),
        ("builtins:dict", TypeError, "dict must be an Adapter, or a function without .* makes one, got dict$"),
        ("math:pi", TypeError, "pi must be an Adapter, or a function .*, got float$"),
        ("feather_ref:encode", TypeError, r"got function; for a converter alone: conformance.check\(encode, 'e4m3'\)$"),
    ],
)
def test_bad_adapters(name: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        adapters.load(name)


# --- reports and shards -----------------------------------------------------------------------


def report(tmp_path: Path, name: str, *arguments: str) -> Path:
    path = tmp_path / name
    result = run("--impl", "ml_dtypes", "--json", str(path), *arguments)
    assert result.exit_code == 0, result.output
    return path


GLOB = ("--suite", "decode.e*m*.f32.exact.none.tab", "--suite", "convert.f64.e2m1.*.run")


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("shards")
    return [report(folder, f"{i}.jsonl", *GLOB, "--shard", f"{i}/3") for i in (1, 2, 3)]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_report(shards: list[Path]) -> None:
    header, *suites, choices, footer = rows(shards[0])
    assert (header["kind"], footer["kind"], choices["kind"]) == ("header", "footer", "traits")
    assert header["shard"] == [1, 3] and header["impl"] == "ml_dtypes"
    assert {"feather_ref", "vectors", "python", "platform", "ml_dtypes", "numpy"} == set(header["versions"])
    assert footer["suites"] == len(suites)
    passed = next(row for row in suites if row["status"] == "pass")
    assert len(passed["sha256"]) == 64 and passed["judged"] == passed["size"]
    assert {row["status"] for row in suites} <= set(conform.STATUSES)


def test_shards_are_all_once(shards: list[Path]) -> None:
    names = [row["id"] for path in shards for row in rows(path) if row["kind"] == "suite"]
    assert sorted(names) == Selection((), GLOB[1::2]).ids()
    assert len(set(names)) == len(names)


def test_merge(shards: list[Path]) -> None:
    result = run("--merge", *map(str, shards[::-1]))
    assert result.exit_code == 0, result.output
    assert "convert e2m1" in result.output and "expected fail convert.f64.e2m1.rne.sat.run" in result.output


def edits() -> Iterator[tuple[str, Callable[[list[Path]], None], str]]:
    def change(path: Path, edit: Callable[[list[str]], list[str]]) -> None:
        path.write_text("\n".join(edit(path.read_text().splitlines())) + "\n")

    def version(line: str) -> str:
        row = json.loads(line)
        row["versions"]["numpy"] = "1.0"
        return json.dumps(row)

    yield "a shard is missing", lambda paths: paths.pop() and None, "shards 1/3, 2/3 are given"
    yield "one is given twice", lambda paths: paths.append(paths[0]), "1/3, 1/3, 2/3, 3/3"
    yield "no footer", lambda paths: change(paths[1], lambda found: found[:-1]), "no footer"
    yield "a line is missing", lambda paths: change(paths[1], lambda found: found[:1] + found[2:]), "other lines"
    def forge(found: list[str]) -> list[str]:
        return [line.replace('"expected": ""', '"expected": "yes"') for line in found]

    yield "a verdict is changed", lambda paths: change(paths[1], forge), "other lines"
    yield "no header", lambda paths: change(paths[0], lambda found: found[1:]), "no header"
    yield "empty", lambda paths: paths[0].write_text("") and None, "no header"
    yield "no JSON", lambda paths: change(paths[0], lambda found: ["{", *found]), "line 1 is no line of a report"
    yield "a field more", (
        lambda paths: change(paths[0], lambda found: [found[0][:-1] + ', "extra": 1}', *found[1:]])
    ), "unknown or missing fields: extra"
    yield "cut in a line", lambda paths: paths[2].write_text(paths[2].read_text()[:-30]) and None, "no line of a report"
    yield "another schema", (
        lambda paths: change(paths[0], lambda found: [found[0].replace('"schema": 1', '"schema": 9'), *found[1:]])
    ), "schema 9"


@pytest.mark.parametrize(("what", "edit", "text"), list(edits()), ids=[row[0] for row in edits()])
def test_merge_refuses(shards: list[Path], tmp_path: Path, what: str, edit: Any, text: str) -> None:
    paths = [Path(shutil.copy(path, tmp_path)) for path in shards]
    edit(paths)
    result = run("--merge", *map(str, paths))
    assert result.exit_code == 2, result.output
    assert text in result.output, result.output


def test_merge_refuses_mixed_versions_and_selections(shards: list[Path], tmp_path: Path) -> None:
    other = report(tmp_path, "other.jsonl", "--suite", "decode.e2m1.*", "--shard", "1/3")
    result = run("--merge", str(other), *map(str, shards[1:]))
    assert result.exit_code == 2 and "selection differs" in result.output
    numpy = tmp_path / "numpy.jsonl"
    assert run("--impl", "numpy", "--suite", "decode.f16*", "--shard", "1/3", "--json", str(numpy)).exit_code == 0
    result = run("--merge", str(numpy), *map(str, shards[1:]))
    assert result.exit_code == 2 and "impl differs" in result.output


def test_a_failed_run_leaves_no_report(tmp_path: Path) -> None:
    result = run("--impl", "ml_dtypes", "--suite", "nothing*", "--json", str(tmp_path / "r.jsonl"))
    assert result.exit_code == 2 and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [(), ("--impl", "numpy", "--shard", "0/2"), ("--impl", "numpy", "--shard", "3/2"), ("--merge",),
     ("--impl", "numpy", "--shard", "a"), ("--impl", "numpy", "--format", "e9m9"), ("--impl", "nobody")],
)  # fmt: skip
def test_usage(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and "Error: " in result.output


def test_numbers_are_compared_as_bits() -> None:
    """A decoder that loses the sign of zero is found."""
    made = Adapter(
        "own", {}, (), {("decode", "e4m3"): frozenset({"exact.none"})},
        lambda question: lambda codes: fr.decode(codes, "e4m3") + np.float32(0),
    )  # fmt: skip
    found = conform.run_one(made, "decode.e4m3.f32.exact.none.tab", NOTHING).report
    assert found.failed == 1 and "in=80 (-0) got=00000000 (0) want=80000000 (-0)" in found.lines[0]
