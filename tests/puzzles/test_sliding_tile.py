"""Tests of sliding tiles: every board of the 8-puzzle, larger boards, Korf's instances."""

import functools

import bfs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full
from korf import INSTANCES

import jaxenvs
from jaxenvs.puzzles import SlidingTile

UP, RIGHT, DOWN, LEFT = range(4)
# Numbers of boards at each distance from the goal, from OEIS A089473, A089484 and A090031.
LEVELS = {
    3: [1, 2, 4, 8, 16, 20, 39, 62, 116, 152, 286, 396, 748, 1024, 1893, 2512, 4485, 5638, 9529,
        10878, 16993, 17110, 23952, 20224, 24047, 15578, 14560, 6274, 3910, 760, 221, 2],
    4: [1, 2, 4, 10, 24, 54, 107, 212, 446, 946, 1948, 3938],
    5: [1, 2, 4, 10, 26, 64, 159, 366, 862, 1904, 4538, 10238],
}  # fmt: skip
HARDEST = [[8, 6, 7, 2, 5, 4, 3, 0, 1], [6, 4, 7, 8, 5, 0, 3, 2, 1]]
GOAL_8 = "1 2 3\n4 5 6\n7 8 ."


@functools.cache
def every_board():
    """Return all boards of the 8-puzzle with their distances from the goal."""
    puzzle = SlidingTile(size=3)
    return bfs.distances(puzzle, (), puzzle.goal(()))


def drawn(puzzle, count, seed=0):
    """Return random boards as an array (count, cells) of tile numbers; 0 is the blank."""
    keys = jax.random.split(jax.random.key(seed), count)

    def draw(key):
        return puzzle.numbers(puzzle.sample_level(key).board)

    return np.asarray(jax.jit(jax.vmap(draw))(keys))


def test_the_number_of_8_puzzles_at_each_distance_is_the_known_one():
    found = every_board()
    assert found.counts == LEVELS[3] and len(found.words) == 181_440
    assert round(found.distance.mean(), 3) == 21.972


@pytest.mark.parametrize("size", [4, 5])
def test_numbers_of_near_boards_of_larger_puzzles_are_the_known_ones(size):
    puzzle = SlidingTile(size=size)
    found = bfs.distances(puzzle, (), puzzle.goal(()), limit=len(LEVELS[size]) - 1)
    assert found.counts == LEVELS[size]
    bound = bfs.each(puzzle, puzzle.heuristic, found.words)
    assert (bound <= found.distance).all()


def test_the_heuristic_is_a_lower_bound_of_every_8_puzzle():
    found, puzzle = every_board(), SlidingTile(size=3)
    bound = bfs.each(puzzle, puzzle.heuristic, found.words)
    assert (bound <= found.distance).all() and ((bound == 0) == (found.distance == 0)).all()
    assert ((bound - found.distance) % 2 == 0).all()
    share = bound[1:] / found.distance[1:]
    assert share.mean() == pytest.approx(0.692, abs=0.001)


@pytest.mark.parametrize("board", HARDEST)
def test_the_hardest_8_puzzles(board):
    puzzle = SlidingTile(size=3)
    words = np.asarray(puzzle.level(board).board)[None]
    assert every_board().of(words).tolist() == [31]


@pytest.mark.parametrize("instance", INSTANCES, ids=range(1, 11))
def test_bounds_of_known_15_puzzles(instance):
    puzzle = SlidingTile(size=4)
    bound = jax.jit(puzzle.heuristic)((), puzzle.level(instance.board).board)
    assert bound == instance.bound <= instance.optimal
    assert (instance.optimal - instance.bound) % 2 == 0


MOVES = [
    (UP, "1 2 3\n4 . 6\n7 5 8", "1 . 3\n4 2 6\n7 5 8"),
    (RIGHT, "1 2 3\n4 . 6\n7 5 8", "1 2 3\n4 6 .\n7 5 8"),
    (DOWN, "1 2 3\n4 . 6\n7 5 8", "1 2 3\n4 5 6\n7 . 8"),
    (LEFT, "1 2 3\n4 . 6\n7 5 8", "1 2 3\n. 4 6\n7 5 8"),
    (UP, "1 . 3\n4 2 6\n7 5 8", None),
    (RIGHT, GOAL_8, None),
    (DOWN, GOAL_8, None),
    (LEFT, "1 2 3\n. 4 6\n7 5 8", None),
]


@pytest.mark.parametrize(("action", "before", "after"), MOVES)
def test_the_blank_moves(action, before, after):
    puzzle = SlidingTile(size=3)
    move = puzzle.apply((), puzzle.read_level(before).board, jnp.int32(action))
    assert move.valid == (after is not None)
    assert puzzle.text((), move.board).split() == (after or before).split()


REWARDS = [
    (DOWN, "1 2 3\n4 5 .\n7 8 6", 1.0, 1.0),  # The 6 reaches its place, which solves the board.
    (LEFT, GOAL_8, 0.0, -1.0),
    (UP, "1 . 3\n4 2 6\n7 5 8", 0.0, 0.0),  # the blank is at the border, so nothing moves
    (UP, "1 2 3\n4 5 6\n7 . 8", 0.0, -1.0),  # The 5 leaves its place.
    (RIGHT, "2 1 3\n4 5 6\n8 . 7", 0.0, 0.0),  # tile 7 moves from one wrong place to another
    (LEFT, "2 1 3\n4 5 6\n8 . 7", 0.0, 1.0),
]


@pytest.mark.parametrize(("action", "before", "sparse", "dense"), REWARDS)
def test_rewards(action, before, sparse, dense):
    for reward, wanted in (("sparse", sparse), ("dense", dense)):
        puzzle = SlidingTile(size=3, reward=reward)
        board = puzzle.read_level(before).board
        move = puzzle.apply((), board, jnp.int32(action))
        solved = puzzle.is_goal((), move.board)
        assert puzzle.step_reward((), board, move, solved) == wanted


@pytest.mark.parametrize("size", [3, *with_full(2, 4)])
def test_random_boards_are_uniform(size):
    """The blank's cell and the first cell's tile are uniform; all boards are solvable."""
    puzzle = SlidingTile(size=size)
    boards, cells = drawn(puzzle, 6000), size * size
    assert (np.sort(boards, axis=1) == np.arange(cells)).all()
    for counts in (
        np.bincount(np.argmin(boards, axis=1), minlength=cells),
        np.bincount(boards[:, 0], minlength=cells),
    ):
        expected = len(boards) / cells
        assert ((counts - expected) ** 2 / expected).sum() < 3 * cells + 12
    for board in boards[:100]:
        puzzle.level(board)  # `level` raises an error for unsolvable boards.


def test_every_board_of_the_smallest_is_drawn():
    """The 2 x 2 puzzle has 12 solvable boards, which are drawn with equal probability."""
    counts = np.unique(drawn(SlidingTile(size=2), 6000), axis=0, return_counts=True)[1]
    assert len(counts) == 12
    # Chi-square value for 11 degrees of freedom and p = 1e-3.
    assert ((counts - 500) ** 2 / 500).sum() < 31.3


def test_distances_of_random_8_puzzles_have_the_distribution_of_all():
    puzzle = SlidingTile(size=3)
    keys = jax.random.split(jax.random.key(1), 4000)
    words = np.asarray(jax.jit(jax.vmap(lambda key: puzzle.sample_level(key).board))(keys))
    far = every_board().of(words)
    assert far.min() >= 0 and abs(far.mean() - 21.972) < 0.2


@pytest.mark.parametrize("moves", [0, 1, 5])
def test_a_scramble_is_at_most_its_moves_away(moves):
    puzzle = SlidingTile(size=3, scramble=moves)
    keys = jax.random.split(jax.random.key(2), 64)
    words = np.asarray(jax.jit(jax.vmap(lambda key: puzzle.sample_level(key).board))(keys))
    # At most one path of up to five moves leads from the goal to a board, if no move undoes the
    # previous one. The distance of each board is therefore the number of moves.
    assert (every_board().of(words) == moves).all()


REFUSED = [
    ("1 2 3\n4 5 6\n8 7 .", "is unsolvable", "exchange two tiles"),
    ("1 2 3\n4 5 6\n7 8", "expected 9 numbers (3 rows of 3), found 8"),
    ("1 2 3\n4 five 6\n7 8 .", "line 2: 'five' is not the number"),
    ("1 2 3\n4 5 -6\n7 8 .", "line 2: '-6' is not the number"),
    ("1 2 3\n4 5 6\n7 7 .", "each of 0 (the blank) to 8 once", "[1, 2, 3, 4, 5, 6, 7, 7, 0]"),
    ("1 2 3\n4 5 6\n7 9 .", "each of 0 (the blank) to 8 once"),
]


@pytest.mark.parametrize(("text", "words"), [(text, words) for text, *words in REFUSED])
def test_bad_boards_are_refused(text, words):
    with pytest.raises(ValueError) as raised:
        SlidingTile(size=3).read_level(text)
    assert all(word in str(raised.value) for word in words), str(raised.value)


def test_commas_and_zero_are_read():
    puzzle = SlidingTile(size=3)
    level = puzzle.read_level("1, 2, 3\n4, 5, 6\r\n7, 8, 0\n")
    assert puzzle.is_goal((), level.board)


BAD_FIELDS = [
    ({"size": 1}, "size"),
    ({"size": 8}, "size"),
    ({"scramble": -1}, "scramble"),
    ({"reward": "dens"}, "dense"),
]


@pytest.mark.parametrize(("fields", "word"), BAD_FIELDS)
def test_bad_fields_are_refused(fields, word):
    with pytest.raises(ValueError, match=word):
        SlidingTile(**fields)


def test_the_default_time_limit_grows_with_the_board():
    for size in (3, 7):
        env = jaxenvs.make(f"Puzzle-SlidingTile-{size}x{size}-v0")
        assert env.default_params.max_steps_in_episode == 20 * size**2
