"""Tests of 2048: every line in every direction, random tiles, masks, game ends, large rewards."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.puzzles.game2048 import LARGEST, Game2048
from jaxenvs.puzzles.puzzle import PuzzleLevel

UP, RIGHT, DOWN, LEFT = range(4)
TURNS = {UP: 1, RIGHT: 2, DOWN: 3, LEFT: 0}  # number of quarter turns that map a direction to left
DEAD = [[1, 2, 1, 2], [2, 1, 2, 1], [1, 2, 1, 2], [2, 1, 2, 1]]
SIGNIFICANT = 37.7  # chi-square value for 15 degrees of freedom and p = 1e-3

env = Game2048()
step = jax.jit(env.step)
move = jax.jit(jax.vmap(env.afterstate, in_axes=(0, None)))
mask = jax.jit(env.action_mask)
keys = jax.random.split(jax.random.key(0), 8192)


def slid(line):
    """Slide a line's tiles to its start one by one; return the line and the sum of merged tiles."""
    tiles, made, whole = [], 0, []
    for tile in filter(None, line):
        if tiles and tiles[-1] == tile and whole[-1]:
            tiles[-1], whole[-1] = tile + 1, False
            made += 2 ** (tile + 1)
        else:
            tiles.append(tile)
            whole.append(True)
    return tiles + [0] * (4 - len(tiles)), made


@jax.jit
def begun(board):
    return env.reset_to(jax.random.key(0), PuzzleLevel(board=board)).state


def begin(board):
    return begun(jnp.asarray(board, jnp.uint8))


@pytest.fixture(scope="module")
def every_line():
    """Return all possible lines, the lines after sliding, and the sums of the merged tiles."""
    lines = list(itertools.product(range(LARGEST + 1), repeat=4))
    after, made = zip(*map(slid, lines), strict=True)
    return [np.array(x).reshape(-1, 4, *np.shape(x)[1:]) for x in (lines, after, made)]


@pytest.mark.parametrize("action", [UP, RIGHT, DOWN, LEFT])
def test_every_line_slides_and_merges(every_line, action):
    before, after, made = every_line
    back = -TURNS[action]
    turned = np.rot90(before, back, axes=(1, 2)).astype(np.uint8)
    result = move(jnp.asarray(turned), jnp.int32(action))
    np.testing.assert_array_equal(result.board, np.rot90(after, back, axes=(1, 2)))
    np.testing.assert_array_equal(result.reward, made.sum(axis=1))
    np.testing.assert_array_equal(result.valid, (before != after).any(axis=(1, 2)))


def test_a_tile_merges_only_once_and_from_the_wall_on():
    board = jnp.array([[1, 1, 1, 1], [1, 1, 2, 3], [0, 1, 1, 1], [2, 0, 0, 2]], jnp.uint8)
    left = env.afterstate(board, jnp.int32(LEFT))
    assert left.board.tolist() == [[2, 2, 0, 0], [2, 2, 3, 0], [2, 1, 0, 0], [3, 0, 0, 0]]
    assert left.reward == 4 + 4 + 4 + 4 + 8
    right = env.afterstate(board, jnp.int32(RIGHT))
    assert right.board.tolist() == [[0, 0, 2, 2], [0, 2, 2, 3], [0, 0, 1, 2], [0, 0, 0, 3]]


def test_the_largest_tiles_are_exact():
    """A move that makes the largest tiles, 65536 and 131072, has the exact reward: no overflow."""
    taken = step(keys[0], begin([[16, 16, 15, 15]] * 4), jnp.int32(LEFT))
    assert taken.reward == 4 * (2**17 + 2**16)
    assert np.asarray(taken.obs)[:, 0].tolist() == [17] * 4
    assert env.reward_range[1] == sum(2**e for e in range(2, 18))


def random_boards(count, most=5, seed=1):
    rng = np.random.default_rng(seed)
    full = rng.random((count, 1, 1)) < 0.7  # on a full board, few moves are possible
    boards = rng.integers(1, most, (count, 4, 4))
    return np.where(full | (rng.random(boards.shape) < 0.6), boards, 0).astype(np.uint8)


def test_the_mask_marks_moves_that_change_the_board_and_without_any_the_game_ends():
    boards = jnp.asarray(random_boards(4096, most=9))
    states = jax.jit(jax.vmap(begun))(boards)
    masks_of = jax.jit(jax.vmap(env.action_mask))
    masks = np.asarray(masks_of(states))
    for action in range(4):
        np.testing.assert_array_equal(masks[:, action], move(boards, jnp.int32(action)).valid)
    assert (~masks.any(axis=1)).sum() > 10
    assert not masks[np.asarray(boards == 0).any(axis=(1, 2)), :].all(axis=1).all()
    run = jax.jit(jax.vmap(env.step, in_axes=(0, 0, None)))
    for action in (UP, RIGHT):
        after = run(keys[:4096], states, jnp.int32(action))
        alive = np.asarray(masks_of(after.state)).any(axis=1)
        np.testing.assert_array_equal(after.terminated, ~alive)


def test_a_move_that_changes_nothing_spends_a_step():
    state = begin([[1, 2, 0, 0]] * 4)
    assert mask(state).tolist() == [True, True, True, False]
    after = step(keys[0], state, jnp.int32(LEFT))
    assert (after.obs == env.observe(state)).all() and after.reward == 0 and after.state.time == 1
    assert not after.done
    assert step(keys[0], begin(DEAD), jnp.int32(LEFT)).terminated


def test_the_new_tile_may_end_the_game():
    """The number on the new tile decides whether the game ends.

    After the move, the only empty cell has the neighbours 4 and 32. A new 2 ends the game; a new 4
    can merge.
    """
    board = [[5, 1, 2, 0], [2, 4, 5, 6], [1, 2, 1, 2], [2, 1, 2, 1]]
    state = begin(np.rot90(board, 2))
    after = [step(key, state, jnp.int32(LEFT)) for key in keys[:60]]
    ends = {(int(one.obs[3, 3]), bool(one.terminated)) for one in after}
    assert ends == {(1, True), (2, False)}


def test_new_tiles_depend_only_on_the_key_and_the_board():
    state = begin([[1, 1, 0, 0], [0] * 4, [0] * 4, [0] * 4])
    boards = {step(key, state, jnp.int32(LEFT)).obs.tobytes() for key in keys[:50]}
    assert len(boards) > 10
    same = [step(keys[7], state, jnp.int32(LEFT)).obs for _ in range(2)]
    assert (same[0] == same[1]).all()


def chi_square(counts, expected):
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.full
@pytest.mark.parametrize(
    "board",
    [
        [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
        [[1, 1, 2, 3], [4, 5, 6, 7], [1, 1, 2, 0], [4, 5, 6, 7]],
    ],
    ids=["15 empty cells", "3 empty cells"],
)
def test_new_tiles_are_uniform_over_empty_cells_and_a_tenth_are_fours(board):
    after = env.afterstate(jnp.asarray(board, jnp.uint8), jnp.int32(LEFT))
    state = begin(board)
    many = jax.jit(jax.vmap(env.step, in_axes=(0, None, None)))(keys, state, jnp.int32(LEFT))
    came = np.asarray(many.obs, int) - np.asarray(after.board, int)
    assert (np.sort(came.reshape(-1, 16), axis=1)[:, :15] == 0).all(), "one tile"
    empty = np.asarray(after.board) == 0
    assert not came[:, ~empty].any()
    counts = (came > 0).sum(axis=0)[empty]
    assert chi_square(counts, len(keys) / empty.sum()) < SIGNIFICANT
    # One random word decides the cell and the number of a new tile. The cells of new 4s are
    # therefore also tested alone: they must be uniform too.
    fours = (came == 2).sum(axis=0)[empty]
    assert chi_square(fours, len(keys) / 10 / empty.sum()) < SIGNIFICANT
    assert abs(fours.sum() / len(keys) - 0.1) < 0.012
    outcomes = env.outcomes(after.board)
    likely = {board.tobytes() for board in np.asarray(outcomes.board[outcomes.probability > 0])}
    assert {board.tobytes() for board in np.asarray(many.obs)} == likely


def test_outcomes_are_all_possible_new_tiles():
    board = jnp.asarray([[1, 2, 3, 4], [0, 1, 0, 1], [5, 6, 7, 8], [1, 2, 0, 3]], jnp.uint8)
    outcomes = env.outcomes(board)
    assert outcomes.board.shape == (32, 4, 4) and outcomes.board.dtype == jnp.uint8
    np.testing.assert_allclose(outcomes.probability.sum(), 1, rtol=1e-6)
    for i, (after, probability) in enumerate(zip(*outcomes, strict=True)):
        cell, tile = i % 16, 1 + i // 16
        free = int(board.reshape(-1)[cell]) == 0
        np.testing.assert_allclose(probability, free * (0.9, 0.1)[i // 16] / 3, rtol=1e-6)
        assert int(after.reshape(-1)[cell]) == (tile if free else int(board.reshape(-1)[cell]))
        assert (np.asarray(after) != np.asarray(board)).sum() == free
    full = env.outcomes(jnp.asarray(DEAD, jnp.uint8))
    assert full.probability.sum() == 0


def test_an_episode_begins_with_two_random_tiles():
    boards = np.asarray(jax.jit(jax.vmap(lambda key: env.reset(key).obs))(keys))
    assert ((boards > 0).sum(axis=(1, 2)) == 2).all()
    counts = (boards > 0).sum(axis=0).reshape(-1)
    assert chi_square(counts, len(keys) / 8) < SIGNIFICANT
    pairs = np.zeros((16, 16), int)
    for board in boards.reshape(-1, 16):
        a, b = np.nonzero(board)[0]
        pairs[a, b] += 1
    assert (pairs[np.triu_indices(16, 1)] > 20).all(), "68 expected"
    assert abs((boards == 2).sum() / (2 * len(keys)) - 0.1) < 0.01


def test_no_game_of_legal_moves_reaches_the_time_limit():
    """No game of legal moves reaches the time limit.

    Each move adds at least 2 to the sum of the tiles, whose maximum is 262,140.
    """
    most = sum(2**e for e in range(2, LARGEST + 1))
    assert env.default_params.max_steps_in_episode > (most - 4) / 2
