"""Every table of data/golden: decoding against the codec, the oracle and literals, arithmetic on all pairs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import feather_ref as fr
from feather_ref import arith, golden, oracle
from golden.golden_tools import ROOT, rows_of
from literals import LITERALS

DECODE = [row["id"] for row in rows_of("tab") if row["op"] == "decode"]
PAIRS = [row["id"] for row in rows_of("tab") if row["op"] != "decode"]
TWINS = [row["id"] for row in rows_of("memh")]
SAMPLE = 300


@pytest.mark.parametrize("name", DECODE)
def test_values(name: str) -> None:
    """Every code by the codec; by the oracle every code of up to 8 bits, and a sample of the wider."""
    row, source = golden.find(name), golden.question(name).source
    table, codes = np.fromfile(ROOT / row["path"], "<u4"), np.arange(row["domain"])
    assert table.size == codes.size == 1 << fr.get_format(source).bits
    assert table.tolist() == fr.decode(codes, source, np.float32).view(np.uint32).tolist()
    assert golden.load_table(name).view(np.uint32).tolist() == table.tolist()
    if codes.size > 256:
        codes = np.unique(np.concatenate([codes[:4], codes[-4:], np.random.default_rng(1).choice(codes, 2000)]))
    for code in codes.tolist():
        x = oracle.decode(code, source)
        assert table[code] == 0x7FC00000 if x.kind == "nan" else oracle.decode(int(table[code]), "fp32") == x, hex(code)


@pytest.mark.parametrize(
    "literal", [row for row in LITERALS if fr.get_format(row.name).bits <= 16], ids=lambda r: r.name
)
def test_values_against_the_literals(literal: Any) -> None:
    name = {"fp16": "f16"}.get(literal.name, literal.name)
    table = golden.load_table(f"decode.{name}.f32.exact.none.tab")
    known = [literal.max, *literal.values, *(pair for pair in (literal.min_normal, literal.min_subnormal) if pair)]
    for code, value in known:
        assert table[code : code + 1].view(np.uint32) == np.float32(value).view(np.uint32), hex(code)
    nan = sorted(code for first, last in literal.nan for code in range(first, last + 1))
    assert np.flatnonzero(np.isnan(table)).tolist() == nan
    assert np.flatnonzero(np.isinf(table)).tolist() == sorted(literal.inf)
    zeros = [code for code in (literal.zero, literal.minus_zero) if code is not None]
    assert set(zeros) <= set(np.flatnonzero(table == 0).tolist())


@pytest.mark.parametrize("name", TWINS)
def test_twins(name: str) -> None:
    """What $readmemh reads is the table."""
    text = (ROOT / golden.find(name)["path"]).read_text(encoding="ascii")
    table = golden.load_table(name.replace(".memh", ".tab")).view(np.uint32)
    assert text == "".join(f"{word:08X}\n" for word in table.tolist())


def test_every_small_table_of_a_named_format_has_a_twin() -> None:
    small = [row["id"] for row in rows_of("tab") if row["domain"] <= 4096 and "binary" not in row["id"]]
    assert [name.replace(".tab", ".memh") for name in small] == TWINS


def canonical(codes: np.ndarray, fmt: fr.Format) -> np.ndarray:
    return np.where(fr.isnan(codes, fmt), fmt.canonical_nan, codes)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str) -> None:
    """All pairs by the integer algorithm; by the oracle a sample, and all pairs of the codes at the edges."""
    asked, table = golden.question(name), golden.load_table(name)
    fmt = fr.get_format(asked.target)
    codes = np.arange(256)
    got = getattr(arith, asked.op)(codes[:, None], codes[None, :], fmt, **asked.policies)
    np.testing.assert_array_equal(canonical(got, fmt).reshape(-1), table)
    edges = {
        magnitude | sign for sign in (0, 0x80) for magnitude in (0x00, 0x01, 0x07, 0x08, 0x38, 0x7B, 0x7C, 0x7E, 0x7F)
    }
    sample = np.random.default_rng(2).integers(0, 256, (SAMPLE, 2)).tolist()
    for a, b in [*itertools.product(sorted(edges), repeat=2), *sample]:
        want = getattr(oracle, asked.op)(a, b, fmt, **asked.policies)
        want = fmt.canonical_nan if fmt.is_nan(want) else want
        assert table[a << 8 | b] == want, (name, hex(a), hex(b))


# a, b, result: by hand
FACTS = (
    ("add.e4m3.e4m3.rne.sat.tab", 0x7E, 0x7E, 0x7E),  # 896 saturates
    ("add.e4m3.e4m3.rne.nonsat.tab", 0x7E, 0x7E, 0x7F),
    ("add.e4m3.e4m3.rne.nonsat.tab", 0xFE, 0xFE, 0x7F),  # a NaN is stored as the canonical one
    ("add.e4m3.e4m3.rne.nonsat.tab", 0x7E, 0x58, 0x7E),  # 448 + 16 = 464, to even
    ("subtract.e5m2.e5m2.rne.nonsat.tab", 0x7C, 0x7C, 0x7F),  # Inf - Inf
    ("subtract.e4m3.e4m3.rne.sat.tab", 0x38, 0x38, 0x00),
    ("multiply.e5m2.e5m2.rne.nonsat.tab", 0x7B, 0xC0, 0xFC),  # -114688
    ("multiply.e4m3.e4m3.rne.sat.tab", 0x81, 0x01, 0x80),  # -2**-18 underflows to -0
    ("multiply.e4m3fnuz.e4m3fnuz.rne.sat.tab", 0x81, 0x01, 0x00),  # there is no -0
    ("add.e5m2fnuz.e5m2fnuz.rne.sat.tab", 0x80, 0x00, 0x80),
)


@pytest.mark.parametrize(("name", "a", "b", "want"), FACTS)
def test_facts(name: str, a: int, b: int, want: int) -> None:
    assert golden.load_table(name)[a << 8 | b] == want
