"""Suites: the inputs of every shape, the judge digits, batches in any order."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import feather_ref as fr
from feather_ref import golden, oracle
from feather_ref.conformance import Suite, suite, suites
from feather_ref.conformance.judge import Batch
from feather_ref.conformance.recompute import is_nan
from feather_ref.conformance.vectors import CHUNK, Digests, Lines, Steps, unravel

Array = NDArray[Any]
SAT, NONSAT = "convert.f32.e4m3.rne.sat.run", "convert.f32.e4m3.rne.nonsat.run"


def whole(s: Suite) -> Batch:
    (batch,) = s.inputs()
    return batch


def right(s: Suite) -> Array:
    """The expected results of a small suite, by the file."""
    return s.vectors.expected(0, s.domain).copy()


# --- inputs -----------------------------------------------------------------------------------


def test_ends_and_middle_of_each_run() -> None:
    runs = golden.load_runs(SAT)
    batch = whole(suite(SAT))
    keys = {int(x) for lo, hi in zip(runs.lo, runs.hi, strict=True) for x in (lo, (int(lo) + int(hi)) // 2, hi)}
    assert batch.bits[0].tolist() == sorted(keys)
    assert batch.inputs[0].dtype == np.float32 and batch.bits[0].dtype == np.uint32
    np.testing.assert_array_equal(batch.inputs[0].view(np.uint32), batch.bits[0])
    assert {0x7F800000, 0x7F800001, 0xFFFFFFFF} <= keys


def test_a_seed_adds_one_input_of_each_run() -> None:
    plain, drawn, again = (set(whole(suite(SAT, seed=seed)).bits[0].tolist()) for seed in (None, 3, 3))
    assert drawn == again and plain < drawn
    assert len(drawn) > len(plain) + 200
    assert drawn != set(whole(suite(SAT, seed=4)).bits[0].tolist())


def test_exhaustive_is_every_pattern_once() -> None:
    s = suite(SAT, exhaustive=True)
    assert s.domain == 1 << 32
    batches = s.inputs()
    first, second = next(batches), next(batches)
    assert (first.offset, second.offset) == (0, CHUNK)
    assert first.bits[0][[0, -1]].tolist() == [0, CHUNK - 1] and second.bits[0][0] == CHUNK
    runs = golden.load_runs(SAT)
    some = np.sort(np.random.default_rng(1).integers(0x7F7FF000, 0x7F840000, 1 << 17))  # another way
    many, few = s.vectors.digits(some), np.concatenate([s.vectors.digits(part) for part in np.split(some, 4)])
    assert (many == few).all() and set(many.tolist()) == {1, 2}
    for start, stop in ((0, 1000), (0x3B000000 - 50, 0x3B000000 + 70), (0xFFFFFFF0, 1 << 32), (0x7F7FFFF0, 0x7F800010)):
        found = s.vectors.expected(start, stop)
        assert found.dtype == np.uint8
        assert found.tolist() == [int(runs.z[(runs.lo <= x) & (x <= runs.hi)][0]) for x in range(start, stop)]
        digits = s.vectors.digits(np.arange(start, stop))
        assert digits.tolist() == [int(runs.j[(runs.lo <= x) & (x <= runs.hi)][0]) for x in range(start, stop)]


@pytest.mark.parametrize(("token", "dtype"), [("f16", np.float16), ("bf16", np.uint16)])
def test_narrow_sources_are_every_pattern(token: str, dtype: Any) -> None:
    s = suite(f"convert.{token}.e4m3.rne.sat.run")
    batch = whole(s)
    assert batch.bits[0].tolist() == list(range(1 << 16)) and batch.inputs[0].dtype == dtype
    want = right(s)
    for pattern in [*range(0, 1 << 16, 257), 0x7C00, 0xFC01, 0x7F80, 0x7F81, 0x8000, 0x43E8, 0x5F40, 0x5F41]:
        x = oracle.decode(pattern, "fp16" if token == "f16" else "bf16")
        assert want[pattern] == oracle.encode(x, "e4m3", overflow="saturate"), hex(pattern)


def test_float64_inputs_stand_beside_the_ends() -> None:
    s = suite("convert.f64.e4m3.rne.nonsat.run")
    batch = whole(s)
    x = batch.inputs[0]
    assert x.dtype == np.float64
    for tie in (464.0, -464.0, 2.0**-10, 1.0625):  # by hand: 448..480, 0..2^-9, 1..1.125
        assert {tie, np.nextafter(tie, np.inf), np.nextafter(tie, -np.inf)} <= set(x.tolist())
    with np.errstate(invalid="ignore"):
        want = [oracle.encode(value, "e4m3", overflow="nonsaturating") for value in x]
    assert right(s).tolist() == want
    beyond = x.tolist().index(np.nextafter(464.0, np.inf))
    assert want[beyond] == 0x7F and s.vectors.digits(np.array([beyond])).tolist() == [2]


def test_float64_has_no_verdict_where_the_file_has_none() -> None:
    """Negatives into e8m0, also one that float32 does not hold."""
    s = suite("convert.f64.e8m0.rna.nonsat.run")
    x, digits = whole(s).inputs[0], s.vectors.digits(np.arange(s.domain))
    assert (digits[x < 0] == 0).all()
    assert (digits[x >= 0] != 0).all()


def test_float64_is_judged_as_float32_is() -> None:
    """NaN by its bits where a policy says which; -2 into mxint8 may be either of two codes."""
    for name, where, digit in (
        ("convert.f64.e4m3.rne.sat.nan=preserve_sign.run", np.isnan, 1),
        ("convert.f64.e4m3.rne.sat.run", np.isnan, 2),
        ("convert.f64.mxint8.rne.sat.run", lambda x: x == -np.inf, 3),
    ):
        s = suite(name)
        with np.errstate(invalid="ignore"):
            chosen = where(whole(s).inputs[0])
        assert chosen.any() and (s.vectors.digits(np.flatnonzero(chosen)) == digit).all(), name


TABLES = ("decode.e4m3.f32.exact.none.tab", "decode.e5m2.f32.exact.none.tab", "decode.e2m1.f32.exact.none.tab")


@pytest.mark.parametrize("name", TABLES)
def test_decode_tables(name: str) -> None:
    s = suite(name)
    batch = whole(s)
    codes = batch.inputs[0]
    assert codes.dtype == np.uint8 and codes.tolist() == list(range(s.domain))
    s.judge(batch, fr.decode(codes, name.split(".")[1]))
    assert s.report()
    other = suite(name)
    other.judge(batch, -fr.decode(codes, name.split(".")[1]))
    assert other.report().failed == s.domain - (2 if "e4m3" in name else 6 if "e5m2" in name else 0)  # not the NaNs


@pytest.mark.parametrize("op", ["add", "subtract", "multiply"])
def test_pair_tables(op: str) -> None:
    s = suite(f"{op}.e4m3.e4m3.rne.sat.tab")
    batch = whole(s)
    a, b = batch.inputs
    assert (a[[0, 1, 256]].tolist(), b[[0, 1, 256]].tolist()) == ([0, 0, 1], [0, 1, 0])
    got = getattr(fr, op)(a, b, "e4m3")
    s.judge(batch, got)
    assert s.report()
    got[0x3838] ^= 1  # 1 and 1
    other = suite(s.id)
    other.judge(batch, got)
    found = other.report()
    assert found.failed == 1
    assert "in=38 38 (1, 1)" in found.lines[0]


def test_lists_of_every_operation() -> None:
    names = [name for name in suites("*.tv") if ".sr" not in name and not name.startswith("scale.")]
    seen = set()
    for name in names:
        s = suite(name)
        assert isinstance(s.vectors, Lines)
        assert s.domain == golden.find(name)["lines"]
        batch = whole(s)
        s.judge(batch, right(s))
        report = s.report()
        assert report and report.judged == s.domain, name
        seen.add(s.question.op)
    assert seen == set(golden.OPERATIONS)


def test_codes_side_by_side() -> None:
    assert [x.tolist() for x in unravel(np.array([0x123, 0xFFF]), (4, 8))] == [[1, 15], [0x23, 0xFF]]


# --- digests ----------------------------------------------------------------------------------


def small_digest(monkeypatch: pytest.MonkeyPatch, wrong_hash: bool = False) -> Suite:
    """A digest of two chunks of 256 inputs, so that it is quick: fp16 patterns into e4m3."""
    monkeypatch.setattr(golden, "CHUNK", 256)
    question = golden.question("convert.f16.e4m3.rup.nonsat.dig")
    sums = []
    for chunk in (0x3C, 0x7C):  # from 1 on, and from Inf on: NaNs
        numbers = [oracle.decode(pattern, "fp16") for pattern in range(chunk * 256, chunk * 256 + 256)]
        codes = [oracle.encode(x, "e4m3", rounding="toward_positive", overflow="nonsaturating") for x in numbers]
        sums.append(hashlib.sha256(bytes(codes) + b"!" * wrong_hash).hexdigest())
    return Suite("small", question, Digests(question, (0x3C, 0x7C), (256, 256), tuple(sums), "every input"))


def up(x: Array) -> Array:
    return fr.encode(x, "e4m3", rounding="toward_positive", overflow="nonsaturating", nan=(0xFF, 0x7F))


@pytest.mark.parametrize("op", ["divide", "compare"])
def test_digest_files_of_pairs(op: str) -> None:
    s = suite(f"{op}.e5m2.e5m2.{'exact.none' if op == 'compare' else 'rne.nonsat'}.dig")
    batch = whole(s)
    got = getattr(fr, op)(*batch.inputs, "e5m2", **({"overflow": "nonsaturating"} if op == "divide" else {}))
    s.judge(batch, got)
    assert s.report() and s.domain == 1 << 16
    other = suite(s.id)
    got[0x3C40] ^= 1  # 1 and 2
    other.judge(batch, got)
    assert other.report().failed == 1 and "in=3C 40 (1, 2)" in other.report().lines[0]


def test_digest_takes_any_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    s = small_digest(monkeypatch)
    batches = list(s.inputs())
    assert [batch.bits[0][0] for batch in batches] == [0x3C00, 0x7C00]
    for batch in batches:
        s.judge(batch, up(*batch.inputs))
    assert s.report() and s.report().judged == 512


def test_digest_says_which_input_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    s = small_digest(monkeypatch)
    for batch in s.inputs():
        got = up(*batch.inputs)
        if batch.offset == 0:
            got[5] ^= 1
        s.judge(batch, got)
    found = s.report()
    assert found.failed == 1 and "in=3C05" in found.lines[0]


def test_digest_without_known_results_says_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash that the codec does not confirm either: the chunk is all that can be said."""
    s = small_digest(monkeypatch, wrong_hash=True)
    for batch in s.inputs():
        s.judge(batch, up(*batch.inputs))
    found = s.report()
    assert found.status == "fail" and found.failed == 512
    assert found.notes == tuple(f"chunk {k}: the SHA-256 of the results differs" for k in (60, 124))


def test_stochastic_digest_has_the_random_bits_as_an_operand() -> None:
    question = golden.question("convert.f16.e4m3.sra.sat.n=8.dig")
    s = Suite("stochastic", question, Digests(question, (0,), (1 << 24,), ("",), "every input"))
    x, random = s.vectors.operands(0x053C00, 0x053C02)
    assert (x.dtype, x.tolist(), random.tolist()) == (np.uint16, [0x3C00, 0x3C01], [5, 5])


# --- judging ----------------------------------------------------------------------------------


def test_the_line_of_a_failure() -> None:
    s = suite(NONSAT)
    batch = whole(s)
    got = right(s)
    got[batch.bits[0].tolist().index(0x43E80001)] = 0x7E
    s.judge(batch, got)
    found = s.report()
    assert (found.status, found.failed, dict(found.classes)) == ("fail", 1, {"overflow": 1})
    assert found.lines == (
        "FAIL convert.f32.e4m3.rne.nonsat in=43E80001 (464.000031) got=7E (448) want=7F (NaN) "
        "[overflow, first above the tie]",
    )


@given(index=st.integers(0, 767), flip=st.integers(1, 255))
def test_every_wrong_bit_is_seen(index: int, flip: int) -> None:
    s = suite(SAT)
    batch = whole(s)
    got = right(s)
    index %= s.domain
    got[index] ^= flip
    s.judge(batch, got)
    both_nan = (right(s)[index] & 0x7F == 0x7F) and (got[index] & 0x7F == 0x7F)
    found = s.report(thorough=False)
    assert found.failed == (0 if both_nan else 1)
    if not both_nan:
        assert f"in={batch.bits[0][index]:08X}" in found.lines[0]


def test_digits() -> None:
    question = golden.question("convert.f32.e4m3.rne.sat.tv")
    bits = np.arange(8, dtype=np.uint32)
    z = np.array([0, 0x10, 0x10, 0x7F, 0x7F, 0x20, 0x20, 0x7F], np.uint8)
    j = np.array([0, 1, 1, 2, 2, 3, 3, 1], np.uint8)
    s = Suite("convert.f32.e4m3.rne.sat.tv", question, Lines((bits,), z, j))
    got = np.array([0x55, 0x10, 0x11, 0xFF, 0x7E, 0x21, 0x22, 0xFF], np.uint8)
    s.judge(whole(s), got)
    found = s.report(thorough=False)
    assert [line.split("in=")[1][:8] for line in found.lines] == ["00000002", "00000004", "00000006", "00000007"]


def test_batches_in_any_order_and_the_same_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feather_ref.conformance.tally.CHUNK", 100)
    reports = []
    for turn in (1, -1):
        s = suite(SAT)
        batches = list(s.inputs())
        assert len(batches) == 8 and sum(batch.bits[0].size for batch in batches) == s.domain
        for batch in batches[::turn]:
            got = fr.encode(batch.inputs[0], "e4m3", rounding="toward_zero")
            s.judge(batch, got)
        reports.append(s.report())
    assert reports[0] == reports[1]
    assert reports[0].failed > 200 and len(reports[0].lines) == 20


def test_hash_of_results() -> None:
    """Of a batch it is that of the bytes, also where all are equal and none is looked at again."""
    for pattern, code in ((0, 0), (0x3F000000, None)):
        s = suite(SAT, exhaustive=True)
        batch = next(b for b in s.inputs() if b.offset + b.bits[0].size > pattern)
        got = fr.encode(batch.inputs[0], "e4m3")
        assert (got == code).all() == (code is not None)
        s.judge(batch, got)
        assert s.sha256() == hashlib.sha256(got.tobytes()).hexdigest()


def test_equal_results_are_compared_all() -> None:
    s = suite(SAT, exhaustive=True)
    batch = next(s.inputs())
    got = np.zeros(batch.bits[0].size, np.uint8)
    got[-1] = 1
    s.judge(batch, got)
    assert s.report(thorough=False).failed == 1


def test_an_output_array_may_be_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feather_ref.conformance.tally.CHUNK", 100)
    reports = []
    for reuse in (False, True):
        s, buffer = suite(SAT), np.empty(100, np.uint8)
        for batch in s.inputs():
            out = buffer[: batch.bits[0].size] if reuse else np.empty(batch.bits[0].size, np.uint8)
            s.judge(batch, fr.encode(batch.inputs[0], "e4m3", out=out, rounding="nearest_away"))
        reports.append(s.report(lambda x: fr.convert(x, "fp32", "e4m3", rounding="nearest_away").astype(np.uint64)))
    assert reports[0] == reports[1] and "ends at input 3A7FFFFF" in str(reports[0])


def test_an_incomplete_suite_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feather_ref.conformance.tally.CHUNK", 100)
    s = suite(SAT)
    assert s.report().status == "notrun"
    batch = next(s.inputs())
    s.judge(batch, right(s)[:100])
    found = s.report()
    assert not found and found.status == "error" and "only 100 of 768" in found.message
    with pytest.raises(ValueError, match="offset 0 is judged already"):
        s.judge(batch, right(s)[:100])


def test_results_may_be_of_the_formats_own_dtype() -> None:
    s = suite("convert.f32.f16.rne.nonsat.run")
    batch = whole(s)
    with np.errstate(all="ignore"):
        s.judge(batch, batch.inputs[0].astype(np.float16))
    assert s.report()


def test_codes_beyond_the_format_are_wrong_not_cut() -> None:
    s = suite(SAT)
    got = right(s).astype(np.uint64)
    got[0] |= 0x100
    s.judge(whole(s), got)
    assert "got=100 (no code of e4m3)" in s.report().lines[0]


@pytest.mark.parametrize(
    ("results", "error", "text"),
    [
        (np.zeros(3, np.uint8), ValueError, "768 in one dimension are wanted"),
        (np.zeros((768, 1), np.uint8), ValueError, r"got shape \(768, 1\)"),
        (np.zeros(768), TypeError, "codes are wanted.*float64"),
        (np.zeros(768, np.float32), TypeError, "float32"),
        ([None] * 768, TypeError, "object"),
        ([1 << 70] * 768, ValueError, "more than 64 bits"),
    ],
)
def test_bad_results(results: Any, error: type[Exception], text: str) -> None:
    s = suite(SAT)
    with pytest.raises(error, match=text):
        s.judge(whole(s), results)


def test_unknown_ids() -> None:
    with pytest.raises(TypeError, match="vector_id must be a str"):
        suite(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"unknown vector.*close: .*e4m3"):
        suite("convert.f32.e4m3.rne.satnone.run")
    with pytest.raises(ValueError, match="unknown vector"):
        suite("convert.f64.e4m3.rne.satnone.run")
    with pytest.raises(ValueError, match="twin of a table"):
        suite("decode.e4m3.f32.exact.none.memh")
    with pytest.raises(ValueError):
        suites("nothing.*")


def test_steps_of_16_bits() -> None:
    s = suite("convert.f32.bf16.rne.nonsat.run")
    assert isinstance(s.vectors, Steps) and s.domain > 190_000
    batch = whole(s)
    s.judge(batch, fr.encode(batch.inputs[0], "bf16"))
    assert s.report()


@pytest.mark.parametrize(
    "row",
    [
        *map(fr.get_format, ("fp32", "tf32", "fp16", "e4m3", "e4m3fnuz", "e5m2", "e2m1")),
        fr.minifloat(8, 12),
        fr.Format("wide_fnuz", 20, exponent_bits=7, mantissa_bits=12, bias=63, nan="negative_zero"),
        fr.Format("wide_ue", 20, exponent_bits=8, mantissa_bits=12, bias=127, nan="all_ones", signed=False),
    ],
    ids=str,
)
def test_what_is_nan_is_the_row_s_own_matter(row: fr.Format) -> None:
    """Also of formats wider than a table: with one NaN, the others of the top binade are numbers."""
    ends = [0, row.exponent_mask, row.exponent_mask + 1, row.max_magnitude, row.magnitude_mask, row.sign_mask]
    codes = {(end + step) ^ sign for end in ends for step in (-1, 0, 1) for sign in (0, row.sign_mask)}
    some = np.array(sorted(code for code in codes if 0 <= code <= row.code_mask), np.uint32)
    assert is_nan(some, row).tolist() == [row.is_nan(code) for code in some.tolist()]
    beyond = np.array([row.code_mask + 1 | row.magnitude_mask], np.uint64)
    assert not is_nan(beyond, row).any()
