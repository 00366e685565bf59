"""Tests of Lights Out: presses, solutions against breadth-first search, known optima."""

import bfs
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.puzzles.lights_out import LightsOut


def board_of(puzzle, drawing):
    return puzzle.read_level(drawing).board


@pytest.mark.parametrize(
    ("lamp", "drawing"),
    [(0, "OO./O../..."), (5, "..O/.OO/..O"), (4, ".O./OOO/.O."), (7, ".../.O./OOO")],
)
def test_a_press_switches_a_cross(lamp, drawing):
    puzzle = LightsOut(size=3)
    move = puzzle.apply((), puzzle.goal(()), jnp.int32(lamp))
    assert puzzle.text((), move.board) == drawing.replace("/", "\n")
    assert move.valid and move.cost == 1


def test_a_press_reaches_the_second_word():
    puzzle = LightsOut(size=7)
    # Press lamp 26 (row 3, column 5). Its lower neighbour, lamp 33, is in the second
    # uint32 of the board.
    move = puzzle.apply((), puzzle.goal(()), jnp.int32(26))
    lit = np.flatnonzero(np.asarray(puzzle.observe_board((), move.board)))
    np.testing.assert_array_equal(lit, [19, 25, 26, 27, 33])


@pytest.mark.parametrize(("size", "most"), [(2, 4), (3, 9), (4, 7)])
def test_the_oracle_equals_the_distance_of_breadth_first_search(size, most):
    puzzle = LightsOut(size=size)
    found = bfs.distances(puzzle, (), puzzle.goal(()))
    assert len(found.words) == 2 ** (size**2 - {2: 0, 3: 0, 4: 4}[size])
    assert found.distance.max() == most
    np.testing.assert_array_equal(bfs.each(puzzle, puzzle.oracle, found.words), found.distance)
    bound = bfs.each(puzzle, puzzle.heuristic, found.words)
    assert (bound <= found.distance).all() and bound.max() == -(-(size**2) // 5)


def test_boards_that_search_does_not_reach_are_unsolvable():
    puzzle = LightsOut(size=4)
    found = bfs.distances(puzzle, (), puzzle.goal(()))
    every = np.arange(2**16, dtype=np.uint32)[:, None]
    solvable = np.isfinite(bfs.each(puzzle, puzzle.oracle, every))
    np.testing.assert_array_equal(solvable, found.of(every) >= 0)


@pytest.mark.slow
def test_the_hardest_5x5_takes_15_presses():
    # The sets of presses that change no lamp form a space of dimension 2. Presses of 25 - 2 = 23
    # lamps, here the first ones, therefore reach all solvable boards.
    puzzle = LightsOut(size=5)
    switched = puzzle.tables.presses[:23, 0]
    boards = np.zeros(1, np.uint32)
    for lamps in switched:
        boards = np.concatenate([boards, boards ^ lamps])
    assert len(np.unique(boards)) == 2**23
    least = bfs.each(puzzle, puzzle.oracle, boards[:, None], batch=1 << 17)
    assert least.max() == 15


@pytest.mark.parametrize(
    ("size", "nullity"), [(2, 0), (3, 0), (4, 4), (5, 2), (6, 0), (7, 0), (9, 8), (11, 6), (16, 8)]
)
def test_the_null_space_has_the_known_dimension(size, nullity):
    tables = LightsOut(size=size).tables
    assert len(tables.quiet) == nullity and len(np.unique(tables.every_quiet, axis=0)) == 2**nullity
    bits = np.unpackbits(tables.every_quiet.view(np.uint8), axis=1, bitorder="little")
    pressed = np.unpackbits(tables.presses.view(np.uint8), axis=1, bitorder="little")
    assert not (bits[:, : size**2] @ pressed % 2).any()


@pytest.mark.parametrize("size", [6, 7])
def test_with_a_trivial_null_space_the_scramble_is_the_distance(size):
    for scramble in (1, 20):
        puzzle = LightsOut(size=size, scramble=scramble)
        draw = jax.jit(jax.vmap(lambda key, p=puzzle: p.draw_level(key, p.default_params).board))
        boards = draw(jax.random.split(jax.random.key(0), 64))
        least = jax.jit(jax.vmap(lambda b, p=puzzle: p.oracle((), b)))(boards)
        assert (least == scramble).all()


def test_levels_are_uniform_over_solvable_boards():
    puzzle = LightsOut(size=3)
    draw = jax.jit(jax.vmap(lambda key: puzzle.draw_level(key, puzzle.default_params).board[0]))
    boards = np.asarray(draw(jax.random.split(jax.random.key(1), 1 << 16)))
    counts = np.bincount(boards, minlength=512)
    # Each board is expected to occur 128 times.
    assert len(counts) == 512 and counts.min() > 70 and counts.max() < 200
    puzzle = LightsOut()
    draw = jax.jit(jax.vmap(lambda key: puzzle.draw_level(key, puzzle.default_params).board))
    oracle = jax.jit(jax.vmap(lambda board: puzzle.oracle((), board)))
    least = oracle(draw(jax.random.split(jax.random.key(2), 512)))
    assert np.isfinite(least).all() and 9 < least.mean() < 12


def test_read_level_reads_what_text_writes():
    puzzle = LightsOut(size=7, scramble=12)
    board = jax.jit(puzzle.sample_level)(jax.random.key(3)).board
    np.testing.assert_array_equal(board_of(puzzle, puzzle.text((), board)), board)
    np.testing.assert_array_equal(
        board_of(LightsOut(size=2), "10\n11"), board_of(LightsOut(size=2), " O.\n OO\n")
    )


@pytest.mark.parametrize(
    ("drawing", "message"),
    [
        ("....O\n.....\n.....\n.....\n.....", "this board is unsolvable; one in 4 boards"),
        (".....\n.....", "expected 5 lines, got 2"),
        (".....\n.....\n...\n.....\n.....", "line 3 is '...'; it must be 5 of '.'"),
        (".....\n..x..\n.....\n.....\n.....", "line 2 is '..x..'"),
    ],
)
def test_levels_that_cannot_be_read(drawing, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        LightsOut().read_level(drawing)


@pytest.mark.parametrize("fields", [{"size": 1}, {"size": 17}, {"scramble": 26}, {"scramble": -1}])
def test_fields_out_of_range(fields):
    with pytest.raises(ValueError, match="out of range"):
        LightsOut(**fields)
