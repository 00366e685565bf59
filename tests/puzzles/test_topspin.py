"""Tests of TopSpin: turns, reachable rings and their distances, the heuristic on every ring."""

import math

import bfs
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.puzzles import groups
from jaxenvs.puzzles.puzzle import PuzzleLevel
from jaxenvs.puzzles.topspin import TopSpin

FARTHEST = {
    "ring": {6: 12, 7: 17, 8: 22, 9: 23, 10: 28},
    "window": {6: 5, 7: 6, 8: 9, 9: 9, 10: 10},
}
LONG = [(moves, size) for moves in FARTHEST for size in (9, 10)]


@pytest.mark.parametrize(
    ("moves", "name", "after"),
    [
        ("ring", "left", "1 2 3 4 5 6 0"),
        ("ring", "right", "6 0 1 2 3 4 5"),
        ("ring", "reverse", "3 2 1 0 4 5 6"),
        ("window", "reverse 1", "0 4 3 2 1 5 6"),
        ("window", "reverse 5", "6 5 2 3 4 1 0"),
    ],
)
def test_actions(moves, name, after):
    puzzle = TopSpin(size=7, moves=moves)
    moved = puzzle.apply((), puzzle.goal(()), jnp.int32(puzzle.action_names.index(name)))
    assert puzzle.text((), moved.board) == after and moved.valid


@pytest.mark.parametrize(
    ("moves", "size"),
    [(moves, size) for moves in FARTHEST for size in (6, 7, 8)]
    + [pytest.param(*case, marks=pytest.mark.slow) for case in LONG],
)
def test_every_ring(moves, size):
    puzzle = TopSpin(size=size, moves=moves)
    found = bfs.distances(puzzle, (), puzzle.goal(()))
    odd = moves == "ring" and size % 2 == 0
    assert len(found.words) == math.factorial(size) // (1 if odd else 2)
    assert found.distance.max() == FARTHEST[moves][size]
    bound = bfs.each(puzzle, puzzle.heuristic, found.words)
    assert (bound <= found.distance).all() and (bound == 0).sum() == 1
    assert bound.mean() > 0.7 * found.distance.mean()


@pytest.mark.parametrize("moves", ["ring", "window"])
@pytest.mark.parametrize("size", [5, 6, 9, 12])
def test_parity_is_the_only_invariant(moves, size):
    for window in range(2, size - 1, 2):
        puzzle = TopSpin(size=size, window=window, moves=moves)
        order = groups.chain(np.argsort(puzzle.source, axis=1)).order
        assert order == math.factorial(size) // (1 if puzzle.reaches_odd else 2)


@pytest.mark.parametrize(("moves", "size"), [("ring", 6), ("ring", 5), ("window", 6)])
def test_random_rings_are_uniform_over_reachable_ones(moves, size):
    puzzle = TopSpin(size=size, window=2 if size == 5 else 4, moves=moves)
    draw = jax.jit(jax.vmap(lambda key: puzzle.draw_level(key, puzzle.default_params).board))
    boards = draw(jax.random.split(jax.random.key(0), 1 << 14))
    found = bfs.distances(puzzle, (), puzzle.goal(()))
    drawn, count = np.unique(jax.vmap(puzzle.pack)(boards), axis=0, return_counts=True)
    assert len(drawn) == len(found.words) and (found.of(drawn) >= 0).all()
    assert count.max() < 2.2 * count.mean()


def test_a_scramble_is_at_most_its_actions_away():
    puzzle = TopSpin(scramble=3)
    draw = jax.jit(jax.vmap(lambda key: puzzle.pack(puzzle.draw_level(key, None).board)))
    words = np.asarray(draw(jax.random.split(jax.random.key(0), 64)))
    found = bfs.distances(puzzle, (), puzzle.goal(()), limit=3, batch=256)
    assert (found.of(words) == 3).all()


def test_read_level_reads_what_text_writes():
    puzzle = TopSpin()
    board = puzzle.draw_level(jax.random.key(0), puzzle.default_params).board
    np.testing.assert_array_equal(puzzle.read_level(puzzle.text((), board)).board, board)
    np.testing.assert_array_equal(puzzle.unpack(puzzle.pack(board)), board)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1 2 3 4 5", "give the tokens 0 to 6, each once"),
        ("0 1 2 3 4 5 5", "give the tokens 0 to 6, each once"),
        ("1 0 2 3 4 5 6", "this ring is unsolvable"),
    ],
)
def test_rings_that_cannot_be_read(text, message):
    with pytest.raises(ValueError, match=message):
        TopSpin(size=7).read_level(text)


def test_tiles():
    puzzle = TopSpin(size=7)
    level = PuzzleLevel(board=puzzle.read_level("3 2 1 0 4 5 6").board)
    drawn = puzzle.tiles(puzzle.reset_state(jax.random.key(0), level, None))
    np.testing.assert_array_equal(drawn, [[11, 10, 9, 8], [0, 7, 6, 5]])
    puzzle = TopSpin(size=12, moves="window")
    drawn = puzzle.tiles(
        puzzle.reset_state(jax.random.key(0), PuzzleLevel(board=puzzle.goal(())), None)
    )
    np.testing.assert_array_equal(drawn, [[1, 2, 3, 4, 5], [12, 0, 0, 0, 6], [11, 10, 9, 8, 7]])


@pytest.mark.parametrize(
    "fields",
    [{"size": 4}, {"size": 41}, {"size": 6, "window": 5}, {"window": 3}, {"moves": "rings"}],
)
def test_fields_out_of_range(fields):
    with pytest.raises(ValueError, match=r"out of range|not one of|must be even"):
        TopSpin(**fields)
