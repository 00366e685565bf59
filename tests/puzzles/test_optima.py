"""Tests that searches find optima known from Korf, breadth-first search or linear algebra.

No test runs by default; with the marker `full`, small instances are solved.
`pytest -m slow tests/puzzles/test_optima.py -s` solves large instances, and prints numbers of nodes
and times.
"""

import time

import jax
import numpy as np
import pytest
from bfs import distances
from defaults import with_full
from korf import INSTANCES

from jaxenvs import search
from jaxenvs.puzzles import Cube, LightsOut, SlidingTile

FIFTEEN = SlidingTile(size=4)
BATCH = 10_000


def drawn(puzzle, count, seed=0):
    return jax.jit(jax.vmap(puzzle.sample_level))(jax.random.split(jax.random.key(seed), count))


def solved(puzzle, levels, **settings):
    """Solve levels, check that every solution is proven optimal, and print nodes and time."""
    start = time.perf_counter()
    result = jax.block_until_ready(search.astar(puzzle, levels, terminate="optimal", **settings))
    seconds = time.perf_counter() - start
    nodes, actions = int(result.nodes), float(result.cost.sum())
    print(
        f"\n{puzzle.name}: {actions:.0f} actions in all, {nodes:,} nodes, "
        f"{seconds:.1f} s with compilation, {nodes / seconds:,.0f} nodes/s"
    )
    assert result.solved.all() and result.optimal.all()
    return result


@pytest.mark.slow
def test_all_of_korfs_first_ten():
    for row in INSTANCES:
        result = solved(FIFTEEN, FIFTEEN.level(row.board), batch_size=BATCH, node_budget=30_000_000)
        assert result.cost == row.optimal


@pytest.mark.full
def test_the_easiest_of_korfs_first_ten():
    row = INSTANCES[8]
    result = solved(FIFTEEN, FIFTEEN.level(row.board), batch_size=BATCH, node_budget=2_000_000)
    assert result.cost == row.optimal == 46


# Only with `full` or `slow`: `search/test_search.py` already checks exact distances of 8-puzzles.
@pytest.mark.parametrize("count", [*with_full(10), pytest.param(100, marks=pytest.mark.slow)])
def test_random_eight_puzzles_are_solved_at_their_exact_distance(count):
    puzzle = SlidingTile(size=3)
    levels = drawn(puzzle, count)
    result = solved(puzzle, levels, batch_size=256, node_budget=500_000)
    exact = distances(puzzle, (), puzzle.goal(())).of(
        np.asarray(jax.vmap(puzzle.pack)(levels.board))
    )
    np.testing.assert_array_equal(result.cost, exact)


@pytest.mark.slow
@pytest.mark.parametrize("turns", ["quarter", "half"])
def test_a_hundred_random_cubes_are_solved_at_their_exact_distance(turns):
    puzzle = Cube(size=2, turns=turns)
    levels = drawn(puzzle, 100)
    words = np.asarray(jax.vmap(puzzle.pack)(levels.board))
    exact = distances(puzzle, (), puzzle.goal(())).of(words)
    result = solved(puzzle, levels, batch_size=BATCH, node_budget=5_000_000)
    np.testing.assert_array_equal(result.cost, exact)
    both = search.bidirectional(puzzle, levels, batch_size=BATCH, node_budget=12_000_000)
    np.testing.assert_array_equal(both.cost, exact)
    assert both.optimal.all()


@pytest.mark.full
@pytest.mark.parametrize("presses", [5, pytest.param(7, marks=pytest.mark.slow)])
def test_lights_out_7x7_is_solved_with_the_presses_of_linear_algebra(presses):
    puzzle = LightsOut(size=7, scramble=presses)
    levels = drawn(puzzle, 4)
    result = solved(puzzle, levels, batch_size=1024, node_budget=6_000_000, max_length=16)
    exact = jax.jit(jax.vmap(puzzle.oracle))(levels.instance, levels.board)
    np.testing.assert_array_equal(result.cost, np.asarray(exact, np.float32))
