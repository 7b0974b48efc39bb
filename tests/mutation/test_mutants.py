"""tools/mutants.py: five fixed mutants are seen by the vectors, one that changes nothing is not, the tree stays."""

from __future__ import annotations

import ast
import hashlib
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import mutant_judge
import mutant_vectors
import mutants
from mutant_judge import ALIVE, FILES, TESTS, VECTORS, Judge, Scratch, Verdict
from mutant_sites import Mutant, mutants_of, sites
from mutant_vectors import Case

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "feather_ref"


@cache
def known() -> list[Mutant]:
    return [mutant for file in FILES for mutant in mutants_of(PACKAGE, file)]


# --- making -----------------------------------------------------------------------------------

CHANGES = [
    ("a < b", ["(a <= b)"]), ("a == b", ["(a != b)"]), ("a not in b", ["(a in b)"]), ("a is None", ["(a is not None)"]),
    ("a + b", ["(a - b)"]), ("a << b", ["(a >> b)"]), ("a | b", ["(a & b)"]),
    ("a and b", ["(a or b)"]), ("not a", ["(a)"]), ("-a", ["(a)"]), ("~a", ["(a)"]),
    ("a if b else c", ["(c if b else a)"]), ("np.where(a, b, c)", ["np.where(a, c, b)"]),
    ("np.minimum(a, b)", ["np.maximum(a, b)"]), ("x.any()", ["x.all()"]), ("max(a)", ["min(a)"]),
    ("x = 7", ["8", "6"]), ("x = True", ["False"]), ("x = 'saturate'", ["'p3109_satnone'"]),
    ("x = 'propagate'", ["'nonsaturating'"]), ("x = 'some text'", []),
    ("'saturate'", []), ("f'{a + b}'", []), ("a ** b", []), ("a", []),
    ("a < b + 1", ["(a <= b + 1)", "(b - 1)", "2", "0"]),
    ("raise ValueError(a + 1)", []), ("import a", []), ("a: int | None = 5", ["6", "4"]), ("a += 2", ["3", "1"]),
    ("def f(a: int | str = 1) -> int | str: return 2", ["2", "0", "3", "1"]),
    ("@overload\ndef f(a=1): ...", []), ("@lru_cache(maxsize=64)\ndef f(a): 'text'; return a", []),
    ("if a:\n b = c - d", ["False", "True", "(c + d)"]),
    ("class C:\n x = a * b", ["(a // b)"]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "new"), CHANGES)
def test_changes(source: str, new: list[str]) -> None:
    assert [text for _, _, text in sites(ast.parse(source), "")] == new


def test_a_mutant_is_the_file_with_one_change(tmp_path: Path) -> None:
    text = "# über\nKinds = A | B\ndef f(a):\n    return 1 + (\n        a << 2)\n"
    (tmp_path / "x.py").write_text(text, encoding="utf-8")
    found = mutants_of(tmp_path, "x.py")
    made = {mutant.key: mutant.apply(text.encode()).decode() for mutant in found}
    assert len(found) == 6 and made["x.py.f: 'a << 2' -> '(a >> 2)' #1"] == text.replace("a << 2", "(a >> 2)")
    assert made["x.py.f: '1 + (a << 2)' -> '(1 - (a << 2))' #1"] == text.replace(
        "1 + (\n        a << 2)", "(1 - (a << 2))"
    )


def test_every_mutant_has_a_key_of_its_own() -> None:
    keys = [mutant.key for mutant in known()]
    assert len(keys) == len(set(keys)) > 1000


def test_every_mutant_differs_from_the_file() -> None:
    source = (PACKAGE / "rounding.py").read_bytes()
    tree = ast.dump(ast.parse(source))
    assert all(ast.dump(ast.parse(mutant.apply(source))) != tree for mutant in mutants_of(PACKAGE, "rounding.py"))


# --- judging ----------------------------------------------------------------------------------


def digest() -> str:
    return hashlib.sha256(b"".join((PACKAGE / file).read_bytes() for file in FILES)).hexdigest()


def test_five_mutants_are_seen_by_the_vectors_and_nothing_else_is(tmp_path: Path) -> None:
    before, five = digest(), mutants.sample(known())
    assert [mutant.file for mutant in five] == [file for file in FILES if file != "packing.py"]
    assert mutant_vectors.write(tmp_path / "cases", mutants.QUICK) >= 3
    judge = Judge(Scratch(ROOT, tmp_path / "scratch"), tmp_path / "cases", with_tests=False)
    nothing = Mutant("rounding.py", "rounding.py", "", "# nothing\n", 1, 0, 0)
    found = [judge.verdict(mutant, listed=False) for mutant in (*five, nothing)]
    assert [verdict.by for verdict in found] == [VECTORS] * 5 + [ALIVE]
    assert all(mutants.QUICK in verdict.seen for verdict in found[:5])
    start = (PACKAGE / "rounding.py").read_bytes().index(b"Rounding = ")
    slow = Mutant("rounding.py", "rounding.py", "", "while True: pass\n", 1, start, start)
    judge.limits[VECTORS] = 0.5
    assert judge.verdict(slow, listed=False) == Verdict(slow, VECTORS, "too slow")
    assert digest() == before


def test_a_judge_that_is_not_content_without_a_mutant_says_so(tmp_path: Path) -> None:
    assert mutant_vectors.write(tmp_path / "cases", "decode.e2m1.f32.exact.none.tab") == 1
    scratch = Scratch(ROOT, tmp_path / "scratch")
    scratch.put("rounding.py", b"raise ValueError(7)")
    with pytest.raises(RuntimeError, match="vectors: not content without a mutant: ValueError: 7"):
        Judge(scratch, tmp_path / "cases", with_tests=False)
    status, seen = scratch.run([mutant_vectors.__file__, str(tmp_path / "cases"), str(tmp_path)], None)
    assert (status, seen) == (1, "ValueError: 7")


def test_the_wrong_package_is_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mutant_vectors.main(str(tmp_path / "none"), str(tmp_path)) == 3
    assert capsys.readouterr().out.startswith("loaded ")


E4M3 = np.array([0x3F800000, 0x7FC00000, 0x3FB80000], np.uint32)  # 1, NaN, 1.4375: the tie of 3B and 3C


@pytest.mark.parametrize(
    ("z", "j", "wanted"),
    [
        ((0x38, 0x7F, 0x3C), (1, 1, 1), None),
        ((0x38, 0xFF, 0x3C), (1, 2, 1), None),
        ((0x38, 0x7F, 0x3B), (1, 2, 3), None),
        ((0x38, 0x7F, 0x00), (1, 2, 0), None),
        ((0x38, 0xFF, 0x3C), (1, 1, 1), "x: in=7FC00000 got=7F want=FF"),
        ((0x38, 0x7F, 0x3B), (1, 1, 1), "x: in=3FB80000 got=3C want=3B"),
        ((0x38, 0x7F, 0x3D), (1, 2, 3), "x: in=3FB80000 got=3C want=3D"),
        ((0x39, 0x7F, 0x3C), (2, 2, 1), "x: in=3F800000 got=38 want=39"),
    ],
)
def test_judge_digits(z: tuple[int, ...], j: tuple[int, ...], wanted: str | None) -> None:
    case = Case("x", "convert", "fp32", "e4m3", {}, (E4M3,), np.array(z, np.uint8), np.array(j, np.uint8))
    assert mutant_vectors.difference(case) == wanted


def test_every_shape_of_vector_is_judged() -> None:
    found = list(mutant_vectors.cases(".e4m3.rne."))
    assert {case.id.rpartition(".")[2] for case in found} >= {"run", "tab", "tv"}
    assert all((case.j != 0).any() for case in found)


def test_the_lists_of_tests_hold_files() -> None:
    names = (*mutant_judge.CHEAP, *mutant_judge.DEAR)
    assert all((ROOT / path).is_file() for path in mutant_judge.paths(names, FILES))


# --- lists and results ------------------------------------------------------------------------


def test_the_choice_is_the_same_on_every_run() -> None:
    chosen = mutants.choose(known(), 20)
    assert chosen == mutants.choose(known(), 20) and len(chosen) == 20 * len(FILES)
    assert mutants.choose(known(), 10**6) == known()


def test_survivors_are_mutants_with_a_reason() -> None:
    keys = {mutant.key for mutant in known()}
    for key, reason in mutants.reasons().items():
        assert key in keys and len(reason) > 10, key


def test_a_count_below_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        mutants.parse(["--each", "0"])
    assert "--each must be at least 1, got 0" in capsys.readouterr().err


def test_versions() -> None:
    assert re.fullmatch(
        r"vectors \d+\.\d+\.\d+, Python 3[.\d]+, numpy .+, hypothesis .+, pytest .+", mutants.versions()
    )


def test_results() -> None:
    some = [mutant for file in ("rounding.py", "packing.py") for mutant in mutants_of(PACKAGE, file)[:10]]
    by = [ALIVE, ALIVE, ALIVE, TESTS, *[VECTORS] * 6, *[TESTS] * 10]
    found = [Verdict(mutant, who, "" if who == ALIVE else "seen") for mutant, who in zip(some, by, strict=True)]
    why = {some[0].key: "equivalent: a reason", some[1].key: "a gap"}
    text = mutants.results(found, why, 50, 30, "at commit 1a2b+ in 2 minutes")
    assert "(seed 1) at commit 1a2b+ in 2 minutes." in text and "20 of 50 possible mutants were tried." in text
    assert "By the vectors alone: 6 of 10 (60.0%). These are 30 files" in text
    assert "By vectors and tests: 17 of 20 (85.0%)." in text
    assert "Not counting 1 that change no result: 17 of 19 (89.5%)." in text
    assert "| rounding.py | 10 | 6 | 1 | 3 |" in text and "| packing.py | 10 | - | 10 | 0 |" in text
    assert f"- `{some[0].key}`: equivalent: a reason\n" in text and f"- `{some[2].key}`: unexplained\n" in text
    assert f"- `{some[3].key}`: seen\n" in text and f"- `{some[11].key}`: seen\n" not in text
