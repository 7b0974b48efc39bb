"""Tests that a mutant had to survive before anybody thought of them (tools/mutants.py)."""

from __future__ import annotations

import pytest

from feather_ref.formats import get_format
from feather_ref.policy import SHORT, resolve

SHORT_NAMES = {  # as the ids of golden vectors spell them
    "rounding": [
        ("rne", "nearest_even"), ("rna", "nearest_away"), ("rtz", "toward_zero"), ("rup", "toward_positive"),
        ("rdn", "toward_negative"), ("rodd", "to_odd"),
    ],
    "overflow": [
        ("sat", "saturate"), ("nonsat", "nonsaturating"), ("prop", "propagate"), ("table3", "ocp_table3"),
        ("satnone", "p3109_satnone"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("argument", "short", "name"), [(argument, *pair) for argument, pairs in SHORT_NAMES.items() for pair in pairs]
)
def test_short_names(argument: str, short: str, name: str) -> None:
    choice: dict[str, str] = {argument: short}
    assert getattr(resolve(get_format("binary8p3se"), **choice), argument) == name


def test_every_short_name_is_tried() -> None:
    assert set(SHORT) == {short for pairs in SHORT_NAMES.values() for short, _ in pairs}
