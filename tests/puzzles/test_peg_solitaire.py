"""Tests of peg solitaire: jumps, numbers of boards by number of pegs, unsolvable boards."""

import bfs
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.puzzles import peg_solitaire
from jaxenvs.puzzles.peg_solitaire import PegSolitaire
from jaxenvs.puzzles.puzzle import PuzzleLevel

CLASSES = [1, 1, 2, 8, 39, 171, 719, 2757, 9751, 31312, 89927, 229614, 517854, 1022224, 1753737]
CLASSES += [2598215, 3312423, 3626632, 3413313, 2765623, 1930324, 1160977, 600372, 265865, 100565]
CLASSES += [32250, 8688, 1917, 348, 50, 7, 2]
START = "  OOO\n  OOO\nOOOOOOO\nOOO.OOO\nOOOOOOO\n  OOO\n  OOO"
FIRST = START.replace("\n  OOO\nOOOOOOO\nOOO.OOO", "\n  O.O\nOOO.OOO\nOOOOOOO")


def sets(drawings):
    words = np.stack([np.asarray(d, np.uint32) for d in drawings])
    return words[:, 0].astype(np.uint64) | (words[:, 1].astype(np.uint64) << np.uint64(32))


def one_of_each_class(words):
    """Return the representative of each board's symmetry class: the least of eight images."""
    cells = peg_solitaire._cells()
    bits = words[:, 0].astype(np.uint64) | (words[:, 1].astype(np.uint64) << np.uint64(32))
    images = []
    for turned in [np.rot90(grid, k) for grid in (cells, cells.T) for k in range(4)]:
        goes = turned[cells >= 0].astype(np.uint64)  # image of each hole under the symmetry
        image = np.zeros_like(bits)
        for first in range(0, 33, 11):  # one lookup table for each group of eleven holes
            number = np.arange(2048, dtype=np.uint64)
            table = np.zeros(2048, np.uint64)
            for i in range(11):
                table |= ((number >> np.uint64(i)) & np.uint64(1)) << goes[first + i]
            image |= table[(bits >> np.uint64(first)) & np.uint64(2047)]
        images.append(image)
    least = np.minimum.reduce(images)
    return np.stack([least & np.uint64(0xFFFFFFFF), least >> np.uint64(32)], 1).astype(np.uint32)


def central_game(puzzle):
    return PegSolitaire().draw_level(jax.random.key(0), puzzle.default_params).board


def test_the_only_first_jumps():
    puzzle = PegSolitaire()
    assert puzzle.num_actions == 76
    board = central_game(puzzle)
    assert puzzle.text((), board) == START
    moves = puzzle.neighbours((), board)
    names = [puzzle.action_names[i] for i in np.flatnonzero(moves.valid)]
    assert names == ["1,3 down", "3,1 right", "3,5 left", "5,3 up"]
    down = moves.board[puzzle.action_names.index("1,3 down")]
    assert puzzle.text((), down) == FIRST
    up = moves.board[puzzle.action_names.index("2,3 up")]
    np.testing.assert_array_equal(up, board)


@pytest.mark.parametrize("levels", [12, pytest.param(32, marks=pytest.mark.slow)])
def test_boards_by_level_up_to_symmetry(levels):
    puzzle = PegSolitaire()
    found = bfs.distances(
        puzzle, (), central_game(puzzle), limit=levels - 1, canonical=one_of_each_class
    )
    assert found.counts == CLASSES[:levels]


def test_predecessors_jump_to_the_board():
    puzzle = PegSolitaire(scramble=12)
    drawn = jax.jit(jax.vmap(lambda key: puzzle.draw_level(key, None).board))(
        jax.random.split(jax.random.key(0), 32)
    )
    before = jax.jit(jax.vmap(lambda b: puzzle.predecessors((), b)))(drawn)
    row, number = np.nonzero(np.asarray(before.valid))
    before = jax.device_get(before)
    moved = jax.jit(jax.vmap(lambda b, a: puzzle.apply((), b, a)))(
        before.board[row, number], before.action[row, number]
    )
    assert moved.valid.all() and len(row) > 100
    np.testing.assert_array_equal(moved.board, np.asarray(drawn)[row])


@pytest.mark.parametrize("scramble", [0, 1, 5])
def test_scrambled_boards_are_solvable(scramble):
    puzzle = PegSolitaire(scramble=scramble)
    heuristic = jax.jit(lambda board: puzzle.heuristic((), board))
    drawn = jax.jit(jax.vmap(lambda key: puzzle.draw_level(key, None).board))(
        jax.random.split(jax.random.key(1), 32)
    )
    for board in np.unique(np.asarray(drawn), axis=0):
        found = bfs.distances(puzzle, (), jnp.asarray(board), batch=64)
        solved = found.of(np.asarray(puzzle.goal(()))[None])
        assert solved == scramble == heuristic(board)


def test_long_scrambles():
    puzzle = PegSolitaire(scramble=31)
    drawn = jax.jit(jax.vmap(lambda key: puzzle.draw_level(key, None).board))(
        jax.random.split(jax.random.key(1), 256)
    )
    pegs = np.array([bin(int(b)).count("1") for b in sets(drawn)])
    assert pegs.mean() > 20 and pegs.max() <= 32  # undoing many jumps adds many pegs
    # If all undone jumps are made again, the board is solved. The heuristic is therefore exact: the
    # number of these jumps, which is one less than the number of pegs.
    bound = jax.jit(jax.vmap(lambda b: puzzle.heuristic((), b)))(drawn)
    np.testing.assert_array_equal(bound, pegs - 1)


def test_no_jump_increases_a_pagoda_function():
    tables = peg_solitaire._tables()
    pagodas = peg_solitaire._pagodas()
    assert len(pagodas) == 5
    for one, minus in pagodas:

        def worth(words, one=one, minus=minus):
            ones, less = (np.unpackbits((words & w).view(np.uint8), axis=-1) for w in (one, minus))
            return ones.sum(axis=-1).astype(int) - less.sum(axis=-1).astype(int)

        assert (worth(tables.before) >= worth(tables.changed ^ tables.before)).all()
        assert worth(np.asarray(PegSolitaire().goal(()))) == 1


def test_the_bound_detects_some_unsolvable_boards():
    puzzle = PegSolitaire()
    lost = puzzle.read_level("  ...\n  ...\n.......\n...O...\nO.....O\n  ...\n  ...")
    assert puzzle.heuristic((), lost.board) >= 32


def test_the_end():
    puzzle = PegSolitaire(reward="pegs")
    key, params = jax.random.key(0), puzzle.default_params
    last = puzzle.read_level("  ...\n  .O.\n...O...\n.......\n.......\n  ...\n  ...").board
    step = jax.jit(puzzle.step)
    action = puzzle.action_names.index("1,3 down")
    state = puzzle.reset_to(key, PuzzleLevel(board=last)).state
    solved = step(key, state, action, params)
    assert solved.terminated and solved.info["solved"] and solved.reward == 1
    other = step(key, state, puzzle.action_names.index("2,3 up"), params)
    assert other.terminated and not other.info["solved"] and other.reward == -1
    waits = step(key, state, puzzle.action_names.index("2,3 down"), params)
    assert not waits.terminated and waits.reward == 0
    state = puzzle.reset_to(key, PuzzleLevel(board=central_game(puzzle))).state
    assert not step(key, state, 0, params).terminated
    quiet = PegSolitaire()
    state = quiet.reset_to(key, PuzzleLevel(board=last)).state
    other = jax.jit(quiet.step)(key, state, puzzle.action_names.index("2,3 up"), params)
    assert other.terminated and other.reward == 0


@pytest.mark.parametrize(
    ("drawing", "message"),
    [
        ("OOO\nOOO", "expected 7 lines, got 2"),
        (START.replace("OOO.OOO", "OOO.OO"), "line 4 is 'OOO.OO'; it must be 7 of"),
        (START.replace("OOO.OOO", "OOOxOOO"), "line 4 is 'OOOxOOO'"),
        (START.replace("OOO.OOO", "OO.OOOO"), "this board is unsolvable"),
        (START.replace(".", "O"), "this board is unsolvable"),
    ],
)
def test_boards_that_cannot_be_read(drawing, message):
    with pytest.raises(ValueError, match=message):
        PegSolitaire().read_level(drawing)


def test_every_reachable_board_can_be_read():
    puzzle = PegSolitaire()
    found = bfs.distances(puzzle, (), central_game(puzzle), limit=4)
    for words in found.words[::20]:
        board = jnp.asarray(words)
        np.testing.assert_array_equal(puzzle.read_level(puzzle.text((), board)).board, board)


@pytest.mark.parametrize("fields", [{"scramble": 32}, {"scramble": -1}, {"reward": "peg"}])
def test_fields_out_of_range(fields):
    with pytest.raises(ValueError, match=r"out of range|not one of"):
        PegSolitaire(**fields)
