"""Tests of pancake sorting: flips, pancake numbers, and the gap heuristic on every stack."""

import math

import bfs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full

from jaxenvs.puzzles.pancake import Pancake
from jaxenvs.puzzles.puzzle import PuzzleLevel

MOST_FLIPS = {2: 1, 3: 3, 4: 4, 5: 5, 6: 7, 7: 8, 8: 9, 9: 10}


@pytest.mark.parametrize(
    ("name", "after"), [("flip 2", "1 3 4 2 5"), ("flip 4", "2 4 1 3 5"), ("flip 5", "5 2 4 1 3")]
)
def test_flips(name, after):
    puzzle = Pancake(size=5)
    board = puzzle.read_level("3 1 4 2 5").board
    moved = puzzle.apply((), board, jnp.int32(puzzle.action_names.index(name)))
    assert puzzle.text((), moved.board) == after and moved.valid


@pytest.mark.parametrize("size", [2, 5, 7, 8, *with_full(3, 4, 6, 9)])
def test_every_stack(size):
    puzzle = Pancake(size=size)
    found = bfs.distances(puzzle, (), puzzle.goal(()))
    assert len(found.words) == math.factorial(size)
    assert found.distance.max() == MOST_FLIPS[size]
    bound = bfs.each(puzzle, puzzle.heuristic, found.words)
    assert (bound <= found.distance).all() and (bound == 0).sum() == 1
    if size >= 7:
        assert bound.mean() > 0.85 * found.distance.mean()


def test_a_reversed_stack_has_one_gap():
    puzzle = Pancake()
    board = puzzle.read_level("10 9 8 7 6 5 4 3 2 1").board
    assert puzzle.heuristic((), board) == 1
    assert puzzle.is_goal((), puzzle.apply((), board, jnp.int32(8)).board)


def test_stacks_are_drawn_uniformly():
    puzzle = Pancake(size=4)
    boards = _drawn(puzzle, 2400)
    counts = np.unique(boards, axis=0, return_counts=True)[1]
    assert len(counts) == 24 and counts.min() > 60 and counts.max() < 145


def test_short_scrambles_have_the_distance_of_their_flips():
    puzzle = Pancake(size=6, scramble=2)
    words = np.asarray(jax.vmap(puzzle.pack)(jnp.asarray(_drawn(puzzle, 64))))
    found = bfs.distances(puzzle, (), puzzle.goal(()), limit=2)
    assert (found.of(words) == 2).all()


def _drawn(puzzle, count):
    draw = jax.jit(jax.vmap(lambda key: puzzle.draw_level(key, puzzle.default_params).board))
    return np.asarray(draw(jax.random.split(jax.random.key(0), count)))


@pytest.mark.parametrize("size", [20, 64])
def test_large_stacks_are_packed_and_read(size):
    puzzle = Pancake(size=size)
    board = _drawn(puzzle, 1)[0]
    np.testing.assert_array_equal(jax.jit(lambda b: puzzle.unpack(puzzle.pack(b)))(board), board)
    np.testing.assert_array_equal(puzzle.read_level(puzzle.text((), board)).board, board)


def test_tiles():
    puzzle = Pancake(size=3)
    level = PuzzleLevel(board=puzzle.read_level("2 1 3").board)
    drawn = puzzle.tiles(puzzle.reset_state(jax.random.key(0), level, None))
    expected = [
        [0, 5, 6, 6, 7, 0],
        [0, 0, 2, 4, 0, 0],
        [8, 9, 9, 9, 9, 10],
        [1, 1, 1, 1, 1, 1],
    ]
    np.testing.assert_array_equal(drawn, expected)


@pytest.mark.parametrize("text", ["1 2 3", "1 2 3 4 4", "0 1 2 3 4", "a b c d e", "1 2 3 4 5 6"])
def test_stacks_that_cannot_be_read(text):
    with pytest.raises(ValueError, match="give the widths 1 to 5, each once"):
        Pancake(size=5).read_level(text)


@pytest.mark.parametrize("fields", [{"size": 1}, {"size": 65}, {"scramble": -1}])
def test_fields_out_of_range(fields):
    with pytest.raises(ValueError, match="out of range"):
        Pancake(**fields)
