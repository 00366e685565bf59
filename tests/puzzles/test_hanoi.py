"""Tests of the Tower of Hanoi: legal moves, known optima, bounds against breadth-first search."""

import bfs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full

from jaxenvs.puzzles.hanoi import Hanoi, frame_stewart
from jaxenvs.puzzles.puzzle import PuzzleLevel

FOUR_PEGS = [1, 3, 5, 9, 13, 17, 25, 33, 41, 49, 65, 81, 97, 113, 129]


def tower(puzzle):
    return puzzle.read_level("\n".join([_stack(puzzle.disks), *"-" * (puzzle.pegs - 1)])).board


def _stack(disks):
    return " ".join(map(str, range(disks, 0, -1)))


@pytest.mark.parametrize(
    ("before", "move", "after"),
    [
        ("3 2 1/-/-", "0>2", "3 2/-/1"),
        ("3 2/-/1", "0>1", "3/2/1"),
        ("3/2/1", "2>1", "3/2 1/-"),
        ("3 2/-/1", "0>2", None),  # illegal: disk 2 would lie on disk 1
        ("3 2/-/1", "1>0", None),  # illegal: peg 1 is empty
        ("-/2 1/3", "1>2", "-/2/3 1"),
    ],
)
def test_moves(before, move, after):
    puzzle = Hanoi(disks=3)
    board = puzzle.read_level(before.replace("/", "\n")).board
    moved = puzzle.apply((), board, jnp.int32(puzzle.action_names.index(move)))
    assert bool(moved.valid) == (after is not None)
    assert puzzle.text((), moved.board).replace("\n", "/") == (after or before)


@pytest.mark.parametrize("disks", [1, 7, *with_full(4)])
def test_three_pegs_from_every_board(disks):
    puzzle = Hanoi(disks=disks)
    found = bfs.distances(puzzle, (), puzzle.goal(()), batch=256)
    assert len(found.words) == 3**disks and found.distance.max() == 2**disks - 1
    np.testing.assert_array_equal(bfs.each(puzzle, puzzle.oracle, found.words), found.distance)
    assert found.of(np.asarray(puzzle.pack(tower(puzzle)))[None]) == 2**disks - 1


@pytest.mark.parametrize(("disks", "pegs"), [(8, 4), (4, 5), *with_full((3, 4))])
def test_more_pegs(disks, pegs):
    puzzle = Hanoi(disks=disks, pegs=pegs)
    found = bfs.distances(puzzle, (), puzzle.goal(()))
    assert len(found.words) == pegs**disks
    best = found.of(np.asarray(puzzle.pack(tower(puzzle)))[None])
    assert best == frame_stewart(disks, pegs)
    bound = bfs.each(puzzle, puzzle.heuristic, found.words)
    assert (bound <= found.distance).all() and bound.mean() > 0.6 * found.distance.mean()
    with pytest.raises(NotImplementedError, match="no closed form"):
        puzzle.oracle((), puzzle.goal(()))


def test_frame_stewart_numbers():
    assert [frame_stewart(disks, 4) for disks in range(1, 16)] == FOUR_PEGS
    assert int(Hanoi(disks=8).default_params.max_steps_in_episode) == 4 * 255


def boards_of(puzzle, count):
    """Return `count` random boards of a puzzle."""
    draw = jax.jit(jax.vmap(lambda key: puzzle.draw_level(key, puzzle.default_params).board))
    return np.asarray(draw(jax.random.split(jax.random.key(0), count)))


@pytest.mark.parametrize(
    ("disks", "pegs"), [(20, 3), (17, 4), (11, 5), *with_full((16, 4), (20, 8))]
)
def test_packed_boards(disks, pegs):
    puzzle = Hanoi(disks=disks, pegs=pegs)
    boards = boards_of(puzzle, 64)
    packed = jax.jit(jax.vmap(puzzle.pack))(boards)
    np.testing.assert_array_equal(jax.jit(jax.vmap(puzzle.unpack))(packed), boards)
    pegs_of = jax.jit(jax.vmap(lambda board: puzzle.observe_board((), board)))(boards)
    assert sorted(np.unique(pegs_of)) == list(range(pegs))
    assert puzzle.text((), puzzle.read_level(puzzle.text((), boards[0])).board) == puzzle.text(
        (), boards[0]
    )


def test_every_board_is_drawn_and_start_may_be_the_tower():
    puzzle = Hanoi(disks=3)
    counts = np.unique(boards_of(puzzle, 1024), axis=0, return_counts=True)[1]
    assert len(counts) == 27 and counts.min() > 15
    puzzle = Hanoi(disks=3, start="tower")
    np.testing.assert_array_equal(boards_of(puzzle, 1)[0], tower(puzzle))


def test_tiles():
    puzzle = Hanoi(disks=3)
    board = puzzle.read_level("3\n2 1\n-").board
    drawn = np.asarray(
        puzzle.tiles(puzzle.reset_state(jax.random.key(0), PuzzleLevel(board=board), None))
    )
    expected = [
        [0, 1, 0] * 3,
        [0, 1, 0] * 3,
        [0, 1, 0, 0, 6, 0, 0, 1, 0],
        [11, 12, 13, 7, 8, 9, 0, 1, 0],
        [2] * 9,
    ]
    np.testing.assert_array_equal(drawn, expected)


@pytest.mark.parametrize(
    ("drawing", "message"),
    [
        ("3 2 1\n-", "expected 3 lines, got 2"),
        ("1 2 3\n-\n-", "line 1 is '1 2 3': a disk lies on a smaller one"),
        ("3 1\n2 4\n-", "line 2 is '2 4'; give disks from 1 to 3"),
        ("3 2\n2 1\n-", "line 2 is '2 1': disk 2 appears twice"),
        ("3\n-\n2", "no line has disk 1"),
    ],
)
def test_levels_that_cannot_be_read(drawing, message):
    with pytest.raises(ValueError, match=message):
        Hanoi(disks=3).read_level(drawing)


@pytest.mark.parametrize(
    "fields", [{"disks": 0}, {"disks": 21}, {"pegs": 2}, {"pegs": 9}, {"start": "towers"}]
)
def test_fields_out_of_range(fields):
    with pytest.raises(ValueError, match=r"out of range|not one of"):
        Hanoi(**fields)
