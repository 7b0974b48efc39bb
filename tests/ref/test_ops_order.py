"""Order: what it states, refuses, prints and reads back."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
from typing import Any

import numpy as np
import pytest

from feather_ref.ops import Order

PAIRS = (0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15)


def test_strides() -> None:
    order = Order(vector=16, warps=4, splits=3)
    assert (order.lane_stride, order.warp_stride, order.stride) == (16, 512, 2048)
    assert [order.loads(k) for k in (0, 1, 6144, 6145)] == [0, 1, 1, 2]


def test_indices_by_hand() -> None:
    order = Order(vector=4, elements=(1, 0), lanes=2, warps=2, splits=2, sum_warps="serial")
    where = order.indices(33)  # a stride is 16, two splits of 16 do not hold 33: two loads each
    assert where.shape == (2, 4, 2, 2, 2)
    assert where[0, :, 0, 0, 0].tolist() == [1, 0, 3, 2]
    assert where[0, 0].ravel().tolist() == [1, 5, 9, 13, 33, 37, 41, 45]  # split, warp, lane
    assert where[1, 0, 0].ravel().tolist() == [17, 21, 25, 29]


@pytest.mark.parametrize("k", [1, 7, 64, 65, 1000])
@pytest.mark.parametrize("tail", ["skip", "vector", "stride"])
def test_every_number_is_taken_once(k: int, tail: Any) -> None:
    order = Order(vector=16, elements=PAIRS, lanes=4, warps=3, splits=2, tail=tail)
    where, live = order.indices(k), order.live(k)
    taken = where[live]
    assert sorted(taken[taken < k]) == list(range(k))
    assert len(set(taken.tolist())) == len(taken)


def test_tails_by_hand() -> None:
    def taken(tail: Any) -> list[int]:
        order = Order(vector=2, lanes=4, splits=2, tail=tail)
        return sorted(order.indices(11)[order.live(11)].tolist())

    # two splits of 8: the second has 8, 9 | 10, 11 | 12, 13 | 14, 15
    assert taken("skip") == list(range(11))
    assert taken("vector") == list(range(12))
    assert taken("stride") == list(range(16))
    warps = Order(vector=2, lanes=2, warps=2, splits=2, tail="stride")
    assert sorted(warps.indices(11)[warps.live(11)].tolist()) == list(range(16))
    beyond = Order(vector=2, lanes=4, splits=3, tail="stride")  # the third split begins at 16
    assert beyond.indices(11)[beyond.live(11)].max() == 15


def test_repr_and_text() -> None:
    order = Order(vector=8, elements=[1, 0], accumulators=2, sum_lanes=[1, 2, 4, 8, 16], factor=8)
    assert repr(order) == "Order(vector=8, elements=(1, 0), accumulators=2, sum_lanes=(1, 2, 4, 8, 16), factor=8)"
    assert eval(repr(order)) == order
    assert str(order).splitlines() == [
        "1 x 1 x 32 splits, warps, lanes share a row; a lane takes 8 at a time",
        "split s, warp w, lane t, load i: k = s * part + 256 i + 256 w + 8 t; part = 256 * ceil(k / 256)",
        "order within a vector: 1, 0, and so on",
        "acc = fma(w, x, acc) from +0; past the end of k: skip",
        "2 accumulators, changing every 1",
        "sum over accumulators: in order",
        "sum over lanes: butterfly 1, 2, 4, 8, 16",
        "w enters times 2**-8, x times 2**0; 2**8 into the scale, else the sum",
        "then times scale, plus bias",
    ]
    text = str(Order(warps=2, splits=2, sum_warps="butterfly", fold=False, x_factor=1, fused=True))
    assert "sum over warps: butterfly 1" in text
    assert "sum over splits: in order" in text
    assert "w enters times 2**-1, x times 2**1; 2**0 into the sum" in text
    assert text.endswith("then fma(sum, scale, bias)")


def test_equal_orders_are_equal() -> None:
    assert Order(sum_lanes=(16, 8, 4, 2, 1)) == Order()
    assert Order(elements=tuple(range(16))) == Order()
    assert len({Order(), Order(vector=np.int64(16)), Order(vector=8)}) == 2
    assert Order(lanes=1) == Order(lanes=1, sum_lanes=())
    assert pickle.loads(pickle.dumps(Order(vector=8))) == Order(vector=8)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Order().vector = 3


def test_json() -> None:
    order = Order(vector=8, elements=(1, 0), warps=4, sum_warps=(1, 2), tail="stride", x_factor=60, factor=60)
    fields = json.loads(order.to_json())
    assert fields["elements"] == [1, 0]
    assert list(fields) == [field.name for field in dataclasses.fields(Order)]
    assert Order.from_json(order.to_json()) == order
    assert Order.from_json("{}") == Order()


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("{", ValueError, "text is not JSON"),
        ("[]", ValueError, "text must be a JSON object, got list"),
        ('{"vektor": 4}', ValueError, "an Order has no field 'vektor'; it has vector, elements"),
        ('{"vector": "4"}', TypeError, "vector must be an int, got str"),
        ('{"vector": true}', TypeError, "vector must be an int, got bool"),
        ('{"fold": 1}', TypeError, "fold must be a bool, got int"),
    ],
)
def test_bad_json(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        Order.from_json(text)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"vector": 0}, ValueError, "vector must be 1..65536, got 0"),
        ({"lanes": 1.0}, TypeError, "lanes must be an int, got float"),
        ({"accumulators": -1}, ValueError, "accumulators must be 1..65536, got -1"),
        ({"factor": 128}, ValueError, "factor must be -126..127, got 128"),
        ({"elements": (0, 2)}, ValueError, "elements must be a permutation of range(p), p a divisor of vector=16"),
        ({"elements": (0, 1, 2)}, ValueError, "p a divisor of vector=16; got (0, 1, 2)"),
        ({"elements": ()}, ValueError, "elements must be a permutation"),
        ({"elements": 0}, TypeError, "elements must be a tuple of ints, got 0"),
        ({"elements": (0, True)}, TypeError, "elements must be a tuple of ints"),
        ({"lanes": 24}, ValueError, "sum_lanes: a butterfly needs a power of two, and lanes=24"),
        ({"sum_lanes": (16, 8, 4, 2)}, ValueError, "sum_lanes must have each power of two below lanes=32 once"),
        ({"warps": 3, "sum_warps": (1, 2)}, ValueError, "sum_warps must have each power of two below warps=3 once"),
        ({"sum_splits": "tree"}, ValueError, "sum_splits must be 'serial', 'butterfly' or offsets; got 'tree'"),
        ({"sum_splits": None}, TypeError, "sum_splits must be a tuple of ints, got None"),
        ({"tail": "pad"}, ValueError, "tail must be one of skip, vector, stride; got 'pad'"),
        ({"fused": 1}, TypeError, "fused must be a bool, got int"),
    ],
)
def test_refusals(fields: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        Order(**fields)
