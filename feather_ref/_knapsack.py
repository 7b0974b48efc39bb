"""One choice for each item, of least error, within a budget: the multiple-choice knapsack, exactly.

1. A choice that another one beats in cost and error is left out.
2. A bound from below: fractions of choices allowed, the steepest gain for its cost first, which is
   what Lagrange multipliers give.  One from above: the same without fractions.
3. Item after item, the list of sums of cost and error that nothing beats.  A sum is dropped where
   even the bound for the rest cannot bring it under the bound from above; so the best one stays.

Costs and errors are integers, so that no order of addition matters and ties are ties.  Of equal
errors the least cost wins, of equal costs too the first choice, item by item.  The lists may grow
without limit in theory: beyond `most` sums those of the best bounds go on, and the answer says so.
A first walk with few sums lowers the bound from above.

Source: Nemhauser and Ullmann, 1969 (the lists); Sinha and Zoltners, 1979 (the bound).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
MOST = 1 << 17
_FEW = 1 << 10
TOTAL_BITS = 60  # sums of errors, and of costs, stay below 2**60
_SLACK = 2.0 ** (TOTAL_BITS - 40)  # more than float64 loses in the bound


class Solution(NamedTuple):
    """The choice of each item, their sums, and whether they are proven to be the best."""

    picks: list[int]
    cost: int
    error: int
    optimal: bool


class _Item(NamedTuple):
    """The choices of an item, in rising cost and falling error; place: of each among those asked for."""

    cost: I64
    error: I64
    place: I64


class _States(NamedTuple):
    """Sums that nothing beats, in rising cost; rank: the place of what was picked, in the order of ties."""

    cost: I64
    error: I64
    rank: I64


class _Step(NamedTuple):
    """From one corner of an item to the next: less error for more cost, and the choice it leads to."""

    slope: float
    more: int
    gain: int
    to: int


class _Bound(NamedTuple):
    """The least error of some items for a cost, fractions allowed: corners of a falling line."""

    cost: NDArray[np.float64]
    error: NDArray[np.float64]

    def at(self, cost: I64) -> NDArray[np.float64]:
        return np.interp(cost.astype(np.float64), self.cost, self.error)


def solve(costs: Sequence[I64], errors: Sequence[I64], budget: int, most: int = MOST) -> Solution | None:
    """The best choices, or None where the cheapest are too dear.

    costs, errors: of each item, of each choice; int64, not negative.

    >>> costs, errors = [np.array([1, 2, 4])] * 2, [np.array([9, 5, 0]), np.array([8, 1, 0])]
    >>> solve(costs, errors, 6)
    Solution(picks=[2, 1], cost=6, error=1, optimal=True)
    """
    items = [_unbeaten(cost, error) for cost, error in zip(costs, errors, strict=True)]
    if sum(int(item.cost[0]) for item in items) > budget:
        return None
    steps = [_steps(item) for item in items]
    best = _greedy(items, steps, budget)
    for limit in (min(_FEW, most), most):  # the first walk lowers the bound from above for the second
        best = _walk(items, steps, budget, best, limit)
        if best.optimal:
            break
    return best


def _walk(items: Sequence[_Item], steps: Sequence[list[_Step]], budget: int, known: Solution, most: int) -> Solution:
    """The best choices as far as `most` sums can tell, and not worse than those known."""
    states = _States(*(np.zeros(1, np.int64) for _ in range(3)))
    trail: list[tuple[NDArray[np.int32], NDArray[np.uint16]]] = []  # of each item, each sum: the one before, the choice
    optimal, rest = True, sum(int(item.cost[0]) for item in items)
    for item, bound in zip(items, _bounds(items, steps), strict=True):
        rest -= int(item.cost[0])
        states, before, choice, whole = _next(states, item, budget, rest, bound, known.error, most)
        if not len(states.cost):
            return known
        optimal &= whole
        trail.append((before, choice))
    place = len(states.cost) - 1  # the dearest has the least error
    total, wrong = int(states.cost[place]), int(states.error[place])
    picks = []
    for before, choice in reversed(trail):
        picks.append(int(choice[place]))
        place = int(before[place])
    found = Solution(picks[::-1], total, wrong, optimal)
    return found if optimal or (wrong, total) < (known.error, known.cost) else known


def _unbeaten(cost: I64, error: I64) -> _Item:
    """The choices that none beats; of equal ones the first."""
    order = np.lexsort((np.arange(len(cost)), error, cost))
    keep = order[_falls(error[order])]
    return _Item(cost[keep], error[keep], keep)


def _falls(error: I64) -> NDArray[np.bool_]:
    """Where a number is less than all before it."""
    falls = np.ones(len(error), np.bool_)
    falls[1:] = error[1:] < np.minimum.accumulate(error)[:-1]
    return falls


def _steps(item: _Item) -> list[_Step]:
    """The lower convex corners of an item as steps, the steepest first."""
    cost, error, place = item
    corners = [0]
    for i in range(1, len(cost)):
        while len(corners) > 1 and _above(cost, error, corners[-2], corners[-1], i):
            corners.pop()
        corners.append(i)
    found = []
    for a, b in itertools.pairwise(corners):
        more, gain = int(cost[b] - cost[a]), int(error[a] - error[b])
        found.append(_Step(gain / more, more, gain, int(place[b])))
    return found


def _above(cost: I64, error: I64, a: int, b: int, c: int) -> bool:
    """Whether corner b lies on or above the line from a to c."""
    (xa, xb, xc), (ya, yb, yc) = ([int(part[i]) for i in (a, b, c)] for part in (cost, error))
    return (ya - yb) * (xc - xa) <= (ya - yc) * (xb - xa)


def _bounds(items: Sequence[_Item], steps: Sequence[list[_Step]]) -> Iterator[_Bound]:
    """The bound of all that follows the first item, the second, and so on."""
    ordered = sorted(((step, i) for i, each in enumerate(steps) for step in each), key=lambda pair: -pair[0].slope)
    more, gain = (np.array([getattr(step, name) for step, _ in ordered], np.float64) for name in ("more", "gain"))
    owner = np.array([i for _, i in ordered])
    cost, error = (sum(int(item[k][0]) for item in items) for k in (0, 1))
    for i, item in enumerate(items):
        cost, error = cost - int(item[0][0]), error - int(item[1][0])
        later = owner > i
        yield _Bound(np.cumsum([cost, *more[later]]), np.cumsum([error, *-gain[later]]))


def _greedy(items: Sequence[_Item], steps: Sequence[list[_Step]], budget: int) -> Solution:
    """Choices that fit: the steepest steps first; an item stops at its first that does not fit."""
    cost, error = (sum(int(item[k][0]) for item in items) for k in (0, 1))
    picks, stopped = [int(item.place[0]) for item in items], set()
    for i, step in sorted(((i, step) for i, each in enumerate(steps) for step in each), key=lambda x: -x[1].slope):
        if cost + step.more > budget:
            stopped.add(i)
        if i not in stopped:
            picks[i], cost, error = step.to, cost + step.more, error - step.gain
    return Solution(picks, cost, error, False)


def _next(
    states: _States, item: _Item, budget: int, rest: int, bound: _Bound, above: int, most: int
) -> tuple[_States, NDArray[np.int32], NDArray[np.uint16], bool]:
    """The sums with one item more, where they came from, and whether all of them are there."""
    # 1. every sum with every choice that leaves enough for the rest, and can still win
    sums, errors = (np.add.outer(*pair).ravel() for pair in ((states.cost, item.cost), (states.error, item.error)))
    hope = errors + bound.at(budget - sums)
    keep = np.flatnonzero((sums <= budget - rest) & (hope - _SLACK <= above))
    before, choice = np.divmod(keep, len(item.cost))
    choice = item.place[choice]
    # 2. those that nothing beats; of equal ones the first in the order of ties
    order = np.lexsort((choice, states.rank[before], errors[keep], sums[keep]))
    order = order[_falls(errors[keep][order])]
    # 3. no more than `most`
    whole = len(order) <= most
    if not whole:
        order = order[np.sort(np.argsort(hope[keep][order], kind="stable")[:most])]
    before, choice, keep = before[order], choice[order], keep[order]
    rank = np.empty(len(order), np.int64)
    rank[np.lexsort((choice, states.rank[before]))] = np.arange(len(order))
    return _States(sums[keep], errors[keep], rank), before.astype(np.int32), choice.astype(np.uint16), whole
