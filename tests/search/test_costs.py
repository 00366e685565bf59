"""Tests of search with arbitrary costs and no heuristic, and of the buckets of the open list."""

import functools
import heapq

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs import search
from jaxenvs.puzzles import Move, PuzzleLevel
from jaxenvs.search import open_list

SIDE = 24
CELLS = SIDE * SIDE


def neighbours(costs, cell):
    row, column = cell // SIDE, cell % SIDE
    rows = row + jnp.array([-1, 0, 1, 0], jnp.int32)
    columns = column + jnp.array([0, 1, 0, -1], jnp.int32)
    valid = (rows >= 0) & (rows < SIDE) & (columns >= 0) & (columns < SIDE)
    after = jnp.where(valid, rows * SIDE + columns, cell)
    return Move(after, costs[after], valid)


GRID = search.Domain(  # a grid of cells as a search domain; its heuristic is 0
    neighbours=neighbours,
    is_goal=lambda costs, cell: cell == CELLS - 1,
    pack=lambda cell: cell.astype(jnp.uint32)[None],
    unpack=lambda words: words[0].astype(jnp.int32),
    num_actions=4,
    num_words=1,
)


def least_cost(costs):
    """Return the lowest cost from the first cell to the last, by Dijkstra's algorithm (float32)."""
    least, heap = np.full(CELLS, np.inf, np.float32), [(np.float32(0), 0)]
    least[0] = 0
    while heap:
        cost, cell = heapq.heappop(heap)
        if cost > least[cell]:
            continue
        row, column = divmod(cell, SIDE)
        for r, c in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            if 0 <= r < SIDE and 0 <= c < SIDE:
                after = r * SIDE + c
                through = np.float32(cost + costs[after])
                if through < least[after]:
                    least[after] = through
                    heapq.heappush(heap, (through, after))
    return least[-1]


def drawn_costs(rng):
    """Return six random arrays of the costs of entering each cell, some with zeros or outliers."""
    digits = rng.integers(1, 10, CELLS)
    return np.stack(
        [
            digits,
            rng.integers(0, 2, CELLS),
            1e-6 * rng.random(CELLS),
            1e5 * digits,
            10 ** rng.uniform(-3, 3, CELLS),
            np.where(rng.random(CELLS) < 0.05, 1e6, digits),
        ]
    ).astype(np.float32)


def assert_exact(costs, **settings):
    astar = functools.partial(search.astar, GRID, **{"node_budget": 20_000, **settings})
    run = jax.jit(lambda costs: astar(PuzzleLevel(board=jnp.int32(0), instance=costs)))
    for some in costs:
        result = run(jnp.asarray(some))
        assert result.optimal and result.cost == result.lower_bound
        assert float(result.cost) == pytest.approx(float(least_cost(some)), rel=1e-6)
        assert int(result.expanded) < 5 * CELLS


def test_costs_of_any_size_are_searched_in_order_without_a_heuristic():
    assert_exact(drawn_costs(np.random.default_rng(0)), batch_size=4)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 16, 1024])
@pytest.mark.parametrize("terminate", ["first", "optimal"])
def test_many_costs_of_any_size(batch_size, terminate):
    rng = np.random.default_rng(1)
    costs = np.concatenate([drawn_costs(rng) for _ in range(16)])
    assert_exact(costs, batch_size=batch_size, terminate=terminate, node_budget=100_000)


@pytest.mark.slow
@pytest.mark.parametrize("bucket_width", [1e-9, 1e-3, 1.0, 100.0])
def test_a_given_width_changes_the_work_but_not_the_answer(bucket_width):
    costs = drawn_costs(np.random.default_rng(2))[:1]
    assert_exact(costs, batch_size=4, bucket_width=bucket_width, node_budget=100_000)


push, pop = jax.jit(open_list.push), jax.jit(open_list.pop, static_argnums=1)
adapted = jax.jit(open_list.adapted, static_argnums=2)


def moved(todo, priorities, batch):
    """Adapt the ranges of the open list's buckets until they fit the priorities.

    Returns the open list and the number of changes.

    After each change of the ranges, all entries are popped and pushed again.
    """
    able, changes = True, 0
    while True:
        todo = adapted(todo, jnp.float32(1e-4), batch, jnp.bool_(able))
        if not bool(open_list.is_moving(todo)):
            return todo, changes
        able, changes = False, changes + 1
        while bool(open_list.is_moving(todo)):
            todo, entry, _, valid = pop(todo, batch)
            todo = push(todo, entry, jnp.where(valid, priorities[entry], jnp.inf))


@pytest.mark.parametrize(
    "width",
    [
        pytest.param(1e-6, marks=pytest.mark.full),
        pytest.param(1.0, marks=pytest.mark.full),
        pytest.param(1e6, marks=pytest.mark.full),
    ],
)
def test_the_open_list_finds_ranges_that_order_its_entries(width):
    """The open list adapts the ranges of its buckets, so that entries leave roughly by priority.

    The priorities are between 1e-3 and 1e6. The parameter `width` is a bad initial width of the
    ranges.
    """
    rng, batch = np.random.default_rng(3), 64
    priorities = jnp.asarray(10 ** rng.uniform(-3, 6, 64 * batch), jnp.float32)
    todo = open_list.empty(len(priorities), jnp.float32(0), jnp.float32(width))
    for first in range(0, len(priorities), batch):
        entry = jnp.arange(first, first + batch, dtype=jnp.int32)
        todo = push(todo, entry, priorities[entry])
    left, changes = [], 0
    while int(open_list.length(todo)):
        todo, more = moved(todo, priorities, batch)
        changes += more
        edge = float(open_list.edge(todo))
        todo, entry, least, valid = pop(todo, batch)
        entry, least = np.asarray(entry)[np.asarray(valid)], np.asarray(least)[np.asarray(valid)]
        taken = np.asarray(priorities)[entry]
        assert (least <= taken).all() and (edge <= taken).all()
        left.extend(entry.tolist())
    assert sorted(left) == list(range(len(priorities))), "each entry leaves once"
    rank = np.argsort(np.argsort(np.asarray(priorities)))[left]
    displaced = np.abs(
        rank - np.arange(len(rank))
    )  # the mean would be about len(rank) / 3 if the order were random
    assert displaced.mean() < len(rank) / 10 and 0 < changes < 16
    assert int(todo.used) == 0, "and all pages are free again"
