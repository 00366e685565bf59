"""Tests of Minesweeper: numbers, rewards and ends on a fixed field, distribution of mines."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.puzzles.minesweeper import COVERED, MINE, Minesweeper
from jaxenvs.puzzles.puzzle import PuzzleLevel

env = Minesweeper()
small = Minesweeper(rows=3, columns=4, mines=3)
step = jax.jit(small.step)
key = jax.random.key(0)
KEYS = jax.random.split(jax.random.key(1), 4096)
SIGNIFICANT = 180.0  # chi-square value for 99 degrees of freedom and p = 1e-6

FIELD = ["*...", "....", ".**."]
NUMBERS = [[MINE, 1, 0, 0], [2, 3, 2, 1], [1, MINE, MINE, 1]]


def begin(field=FIELD):
    mined = jnp.asarray([[cell == "*" for cell in line] for line in field], jnp.uint8)
    return small.reset_to(key, PuzzleLevel(board=mined)).state


def open_cells(state, *cells):
    """Open the cells (row, column) in `cells` one after another; return the steps."""
    for row, column in cells:
        taken = step(key, state, jnp.int32(4 * row + column))
        yield taken
        state = taken.state


def test_an_open_cell_shows_the_number_of_neighbouring_mines():
    for row in range(3):
        for column in range(4):
            (taken,) = open_cells(begin(), (row, column))
            shown = np.asarray(taken.obs)
            assert shown[row, column] == NUMBERS[row][column]
            assert (shown == COVERED).sum() == 11, "no other cell opens"
            mine = NUMBERS[row][column] == MINE
            assert (bool(taken.terminated), float(taken.reward)) == (mine, 1.0 - mine)
            assert not taken.info["solved"]


def test_the_whole_field_opened_is_solved():
    safe = [(r, c) for r in range(3) for c in range(4) if NUMBERS[r][c] != MINE]
    taken = list(open_cells(begin(), *safe))
    assert [bool(one.terminated) for one in taken] == [False] * 8 + [True]
    assert all(one.reward == 1 for one in taken)
    assert taken[-1].info["solved"] and (taken[-1].obs == COVERED).sum() == 3
    # Open a mine instead of the last safe cell: the game is lost.
    *_, lost = open_cells(begin(), *safe[:-1], (0, 0))
    assert lost.terminated and lost.reward == 0 and not lost.info["solved"]


def test_an_open_cell_changes_nothing_but_ends_a_strict_episode():
    first, again = open_cells(begin(), (0, 1), (0, 1))
    assert not again.done and again.reward == 0 and again.state.time == 2
    assert (again.obs == first.obs).all()
    strict = dataclasses.replace(small, strict=True)
    end = strict.step(key, first.state, jnp.int32(1))
    assert end.terminated and end.reward == 0 and not end.info["solved"]
    assert (end.obs == first.obs).all()
    assert not strict.step(key, first.state, jnp.int32(2)).terminated


def test_the_mask_marks_the_covered_cells():
    *_, taken = open_cells(begin(), (0, 1), (2, 3))
    mask = np.asarray(small.action_mask(taken.state)).reshape(3, 4)
    np.testing.assert_array_equal(mask, np.asarray(taken.obs) == COVERED)


def test_mines_are_hidden():
    """The first observation does not depend on the mines."""
    other = begin(["....", "....", "***."])
    assert (small.observe(begin()) == small.observe(other)).all()
    assert (small.observe(begin()) == COVERED).all()


def test_numbers_of_random_fields():
    mined = np.asarray(jax.vmap(lambda key: env.draw_level(key, None).board)(KEYS))
    states = jax.vmap(lambda board: env.reset_state(key, PuzzleLevel(board=board), None))(mined)
    padded = np.pad(mined, ((0, 0), (1, 1), (1, 1)))
    around = sum(padded[:, i : i + 10, j : j + 10] for i in range(3) for j in range(3)) - mined
    np.testing.assert_array_equal(states.cells, np.where(mined, MINE, around))


def test_mines_are_uniform_over_cells_and_pairs():
    mined = np.asarray(jax.jit(jax.vmap(lambda key: env.draw_level(key, None).board))(KEYS))
    mined = mined.reshape(-1, 100).astype(int)
    assert (mined.sum(axis=1) == 10).all() and mined.max() == 1
    counts = mined.sum(axis=0)
    assert ((counts - 409.6) ** 2 / 409.6).sum() < SIGNIFICANT
    pairs = mined.T @ mined - np.diag(counts)
    expected = 4096 * 10 * 9 / 100 / 99
    assert abs(pairs - expected)[np.triu_indices(100, 1)].max() < 6 * expected**0.5


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"mines": 100}, "from 1 to 99"), ({"rows": 1}, "from 2 to 32"), ({"mines": 2.0}, "int")],
)
def test_bad_fields(fields, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Minesweeper(**fields)
