"""Tests that compare the proofs and bounds of searches with exact costs.

With the marker `full`, two combinations of settings are tested on 256 random graphs each.
`pytest -m slow tests/search/test_proofs.py -s` tests all combinations on 4,096 graphs each.
"""

import functools
from typing import NamedTuple

import jax
import numpy as np
import pytest
from graphs import Graphs, random_levels, to_goal, unit_level

from jaxenvs import search
from jaxenvs.puzzles import SlidingTile

pytestmark = pytest.mark.full

TOGETHER = 256
SMALL = {"node_budget": 400, "max_length": 32}


class Way(NamedTuple):
    """Settings of a search; the search is compiled once for each `Way`."""

    name: str
    batch_size: int
    unit_cost: bool = False
    weight: float = 1.0
    terminate: str = "optimal"
    # True: a single search solves all graphs as its levels. False: one search per graph.
    table: bool = False


@functools.cache
def searching(way):
    given = {**SMALL, "batch_size": way.batch_size, "terminate": way.terminate, "admissible": True}
    if way.name != "bidirectional":
        given["weight"] = way.weight
    if way.table:
        given["node_budget"] *= TOGETHER
    run = functools.partial(getattr(search, way.name), Graphs(unit_cost=way.unit_cost), **given)
    return jax.jit(run if way.table else jax.vmap(run))


def claims(way, exact, result):
    """Return (number of false claims, number of optimality proofs, number of unsolvability proofs).

    A claim is a statement about a level, such as a lower bound; `exact` is the true cost.
    """
    cost, lower = np.asarray(result.cost), np.asarray(result.lower_bound)
    solved, optimal = np.asarray(result.solved), np.asarray(result.optimal)
    unsolvable = np.asarray(result.unsolvable)
    wrong = optimal & (cost != exact)
    wrong |= lower > exact
    wrong |= solved & (cost < exact)
    wrong |= unsolvable & np.isfinite(exact)
    if way.terminate == "first" and way.name != "bidirectional":
        wrong |= solved & (cost > max(1.0, way.weight) * exact)
    return int(wrong.sum()), int(optimal.sum()), int(unsolvable.sum())


ONE = (
    [[5], [3], [9], [12], [13], [10], [7], [], [4, 11], [1], [6], [2], [0, 5], [1]],
    [0, 0, 0, 0, 8, 1, 0, 0, 6, 0, 0, 0, 0, 0],
    8,
    7,
)
TWO = (
    [[5], [8, 6], [11], [0], [10], [9], [3], [3], [7], [], [9], [7]],
    [1, 2, 6, 0, 1, 0, 4, 2, 0, 0, 0, 0],
    1,
    9,
)


@pytest.mark.full
def test_a_cheaper_meeting_is_not_proven_away_by_one_side_alone():
    """Bidirectional search finds optimal solutions in two graphs with inconsistent heuristics.

    The heuristics are admissible. Each graph is tested with both orders of its actions.
    """
    levels = []
    for successors, bound, start, goal in (ONE, TWO):
        for turned in (successors, [to[::-1] for to in successors]):
            levels.append(unit_level(turned, bound, start, goal))
    # Repeat the levels until there are `TOGETHER`. This is the batch size of the other tests, whose
    # compiled program is reused.
    levels += levels * (TOGETHER // len(levels) - 1)
    levels = jax.tree.map(lambda *leaves: np.concatenate(leaves), *levels)
    exact = to_goal(levels.instance)[np.arange(TOGETHER), levels.board]
    assert (levels.instance.bound <= to_goal(levels.instance)).all()
    result = searching(WAYS[0])(levels)
    np.testing.assert_array_equal(exact[:4], [9, 9, 5, 5])
    np.testing.assert_array_equal(result.cost, exact)
    assert result.optimal.all() and (result.lower_bound == exact).all()


WAYS = [
    Way("bidirectional", 1, unit_cost=True),
    Way("astar", 2, weight=3.0, terminate="first"),
]
MORE_WAYS = [
    *(Way("bidirectional", size) for size in (1, 2, 3, 4)),
    *(Way("astar", size) for size in (1, 2, 3, 4)),
    Way("bidirectional", 2, unit_cost=True),
    Way("astar", 1, unit_cost=True),
    Way("astar", 1, weight=1.5, terminate="first"),
    Way("astar", 3, weight=1.0, terminate="first"),
    Way("astar", 2, weight=2.0),
    Way("qstar", 1),
    Way("qstar", 3, weight=2.0, terminate="first"),
    Way("bidirectional", TOGETHER, table=True),
    Way("astar", TOGETHER, table=True),
    Way("astar", TOGETHER, weight=5.0, terminate="first", table=True),
]


def counted(way, batches, seed):
    rng = np.random.default_rng(seed)
    total = np.zeros(3, int)
    for _ in range(batches):
        levels, exact = random_levels(rng, TOGETHER, way.unit_cost)
        total += claims(way, exact, searching(way)(levels))
    return total.tolist()


@pytest.mark.parametrize("way", [WAYS[0], pytest.param(WAYS[1], marks=pytest.mark.full)], ids=str)
def test_every_claim_holds_on_random_graphs(way):
    wrong, proofs, unsolvable = counted(way, 1, 0)
    assert wrong == 0 and proofs > 0 and unsolvable > 0


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS + MORE_WAYS, ids=str)
def test_every_claim_holds_on_many_random_graphs(way):
    batches = 16
    wrong, proofs, unsolvable = counted(way, batches, 1)
    print(f"\n{way}: {batches * TOGETHER:,} graphs, {proofs:,} proven optimal, ", end="")
    print(f"{unsolvable:,} proven unsolvable, {wrong} false claims")
    assert wrong == 0 and proofs > 0 and unsolvable > 0


@pytest.mark.slow
def test_a_larger_weight_expands_no_more_of_a_hundred_15_puzzles():
    """A larger weight expands no more boards on average; costs are at most weight * optimum.

    The costs are checked in those levels in which a search with weight 1 has proven the optimum.
    """
    puzzle = SlidingTile(size=4, scramble=70)
    keys = jax.random.split(jax.random.key(0), 100)
    levels = jax.jit(jax.vmap(puzzle.sample_level))(keys)

    def solved(weight):
        def one(level):
            settings = {"batch_size": 256, "node_budget": 1_000_000, "max_length": 200}
            found = search.astar(puzzle, level, weight=weight, **settings)
            return found.cost, found.optimal, found.lower_bound, found.expanded

        return jax.jit(lambda levels: jax.lax.map(one, levels))(levels)

    best, optimal, _, expanded = solved(1.0)
    assert optimal.sum() > 90
    for weight in (1.0, 1.5, 2.0, 3.0, 5.0):
        cost, _, lower, more = solved(weight)
        print(f"\nweight {weight}: mean cost {cost.mean():.2f}, ", end="")
        worst = (cost / best)[optimal].max()
        print(f"at most {worst:.3f} times the optimum, {more.mean():,.0f} expanded")
        assert worst <= weight and (lower <= best).all()
        assert more.mean() <= expanded.mean()
        expanded = more
