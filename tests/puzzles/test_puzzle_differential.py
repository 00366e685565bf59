"""Compare 2048, Minesweeper and Rubik's cube with the packages `jumanji` and `pgx`.

Each test gives the same boards and actions to jaxenvs and to one of the packages. Random outcomes,
such as the new tiles of 2048, are taken from the package.
"""

import importlib
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.puzzles import Cube, Game2048, Minesweeper, PuzzleLevel
from jaxenvs.puzzles.minesweeper import COVERED, MINE

BOARDS = 2048
# Each package's action for up, right, down and left.
ACTIONS = {"jumanji": (0, 1, 2, 3), "pgx": (1, 2, 3, 0)}
VERSIONS = {"jumanji": "1.1.2", "pgx": "2.6.0"}


def package(name, module):
    """Import a module of a package, or skip the test if the package is not installed."""
    pytest.importorskip(name, reason=f"{name} is not installed (.ci/setup installs it)")
    assert version(name) == VERSIONS[name], f"the rules are stated for {name} {VERSIONS[name]}"
    return importlib.import_module(module)


def loosely(function):
    """Compile a package's function with standard dtype promotion; strict promotion would fail."""

    @jax.jit
    def call(*args):
        with jax.numpy_dtype_promotion("standard"):
            return function(*args)

    return call


# Tests of 2048.


def random_boards(seed):
    """Draw sparse and full boards, with low tiles that often merge, and tiles up to 65536."""
    rng = np.random.default_rng(seed)
    most = rng.choice([3, 4, 6, 12, 17], (BOARDS, 1, 1))
    boards = rng.integers(1, most, (BOARDS, 4, 4))
    empty = rng.random(boards.shape) < rng.choice([0, 0, 0.1, 0.4, 0.8], (BOARDS, 1, 1))
    return np.where(empty, 0, boards).astype(np.uint8)


def jumanji_2048():
    """Return Jumanji's step: (boards, mask, action, keys) -> boards, reward, mask, end."""
    environments = package("jumanji", "jumanji.environments")
    types = package("jumanji", "jumanji.environments.logic.game_2048.types")
    env = environments.Game2048()

    def step(board, mask, action, key):
        state = types.State(
            board=board.astype(jnp.int32),
            step_count=jnp.int32(0),
            action_mask=mask,
            score=jnp.float32(0),
            key=key,
        )
        after, timestep = env.step(state, action)
        return after.board, timestep.reward, after.action_mask, timestep.last()

    return loosely(jax.vmap(step, in_axes=(0, 0, None, 0)))


def pgx_2048():
    """Return pgx's step: (boards, mask, action, keys) -> boards, reward, mask, end."""
    module = package("pgx", "pgx.play2048")
    env = module.Play2048()

    def step(board, mask, action, key):
        # The state of pgx contains the mask of legal actions: convert the mask to pgx's order.
        theirs = mask[jnp.array([3, 0, 1, 2])]
        cells = board.astype(jnp.int32).reshape(16)
        state = module.State(_board=cells, legal_action_mask=theirs)
        after = env.step(state, action, key)
        legal = after.legal_action_mask[jnp.array([1, 2, 3, 0])]
        return after._board.reshape(4, 4), after.rewards[0], legal, after.terminated

    return loosely(jax.vmap(step, in_axes=(0, 0, None, 0)))


@pytest.mark.full
@pytest.mark.parametrize("name", [pytest.param("jumanji", marks=pytest.mark.full), "pgx"])
def test_2048_moves_rewards_masks_and_ends(name):
    step = {"jumanji": jumanji_2048, "pgx": pgx_2048}[name]()
    env = Game2048()
    boards = jnp.asarray(random_boards(0))
    keys = jax.random.split(jax.random.PRNGKey(0), BOARDS)
    begin = jax.vmap(lambda board: env.reset_to(keys[0], PuzzleLevel(board=board)).state)
    masks = jax.jit(jax.vmap(env.action_mask))
    move = jax.jit(jax.vmap(env.afterstate, in_axes=(0, None)))
    before = masks(begin(boards))
    ended = 0
    for action, theirs in enumerate(ACTIONS[name]):
        ours = move(boards, jnp.int32(action))
        np.testing.assert_array_equal(ours.valid, before[:, action])
        after, reward, mask, end = map(np.asarray, step(boards, before, jnp.int32(theirs), keys))
        legal = np.asarray(ours.valid)
        came = after[legal] - np.asarray(ours.board, int)[legal]
        # The random new tile is in a single empty cell, and is a 2 or a 4.
        assert ((came != 0).sum(axis=(1, 2)) == 1).all() and set(np.unique(came)) <= {0, 1, 2}
        assert not came[np.asarray(ours.board)[legal] > 0].any()
        np.testing.assert_array_equal(np.asarray(ours.reward)[legal], reward[legal])
        again = np.asarray(masks(begin(after.astype(np.uint8))))
        np.testing.assert_array_equal(~again.any(axis=1)[legal], end[legal])
        going = legal & ~end  # after the end, pgx's mask is True everywhere, so it is not compared
        np.testing.assert_array_equal(again[going], mask[going])
        ended += end[legal].sum()
    assert ended > 20 and (~before).sum() > 500, "games that end, and moves that are not legal"


# Tests of Minesweeper.


def safe_cells_mostly(rng, level, steps):
    """Draw cells to open: safe cells in random order, sometimes a mine or an open cell."""
    cells = np.flatnonzero(level.ravel() == 0)
    rng.shuffle(cells)
    actions = np.resize(cells, steps)
    wrong = rng.random(steps) < 0.01
    return np.where(wrong, rng.integers(0, level.size, steps), actions)


@pytest.mark.full
def test_minesweeper_numbers_rewards_and_ends():
    environments = package("jumanji", "jumanji.environments")
    types = package("jumanji", "jumanji.environments.logic.minesweeper.types")
    theirs, ours, rows, steps = environments.Minesweeper(), Minesweeper(strict=True), 256, 91
    keys = jax.random.split(jax.random.PRNGKey(1), rows)
    levels = jax.vmap(lambda key: ours.sample_level(key))(keys)
    rng = np.random.default_rng(0)
    actions = np.array([safe_cells_mostly(rng, level, steps) for level in np.asarray(levels.board)])
    mines = np.array([np.flatnonzero(level) for level in np.asarray(levels.board)])

    def play_ours(key, level, actions):
        def one(state, action):
            step = ours.step(key, state, action)
            solved = step.info["solved"]
            return step.state, (step.obs, step.reward, step.terminated, solved)

        return jax.lax.scan(one, ours.reset_to(key, level).state, actions)[1]

    def play_theirs(key, mines, actions):
        board = jnp.full((10, 10), -1, jnp.int32)
        state = types.State(
            board=board, step_count=jnp.int32(0), key=key, flat_mine_locations=mines
        )

        def one(state, action):
            state, timestep = theirs.step(state, jnp.stack([action // 10, action % 10]))
            return state, (state.board, timestep.reward, timestep.last())

        return jax.lax.scan(one, state, actions)[1]

    actions = jnp.asarray(actions, jnp.int32)
    obs, reward, end, solved = map(np.asarray, jax.jit(jax.vmap(play_ours))(keys, levels, actions))
    mines = jnp.asarray(mines, jnp.int32)
    board, their_reward, their_end = map(
        np.asarray, loosely(jax.vmap(play_theirs))(keys, mines, actions)
    )
    # Mask of the steps that belong to the episode, including its last step.
    alive = np.cumsum(their_end, axis=1) - their_end == 0
    np.testing.assert_array_equal(reward[alive], their_reward[alive])
    np.testing.assert_array_equal(end[alive], their_end[alive])
    shown = np.where(board < 0, COVERED, board)
    # An opened mine has a special value in this library, and a number of mines in Jumanji.
    exploded = obs == MINE
    np.testing.assert_array_equal(np.where(exploded, shown, obs)[alive], shown[alive])
    assert (exploded.any(axis=(2, 3)) <= end)[alive].all()
    lost = (end & ~solved)[alive].sum()
    assert solved[alive].sum() > 50 and exploded[alive].any() and lost > 50


# Tests of Rubik's cube.


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.full)])
def test_cube_stickers(size):
    """Make the same turns from the solved cube and compare all stickers after every turn."""
    package("jumanji", "jumanji")
    utils = package("jumanji", "jumanji.environments.logic.rubiks_cube.utils")
    cube = Cube(size=size, turns="half", all_faces=True)
    # Names of the turns, in the order of Jumanji's actions.
    names = [face + how for face in "UFRBLD" for how in ("", "'", "2")]
    rng = np.random.default_rng(size)
    theirs = rng.integers(0, len(names), 300)
    ours = np.array([cube.action_names.index(names[turn]) for turn in theirs])
    assert set(theirs) == set(range(len(names)))

    def turn_ours(board, action):
        board = cube.apply((), board, action).board
        return board, (cube.observe_board((), board), cube.is_goal((), board))

    def turn_theirs(board, action):
        board = utils.rotate_cube(board, action)
        return board, (board, utils.is_solved(board))

    start = utils.make_solved_cube(size)
    assert (np.asarray(cube.observe_board((), cube.goal(()))) == np.asarray(start)).all()
    # Append the inverses of all turns in reverse order: the sequence ends at the solved cube.
    undo = cube.inverse[ours[::-1]]
    back = np.array([names.index(cube.action_names[action]) for action in undo])
    ours, theirs = (np.concatenate(x).astype(np.int32) for x in ((ours, undo), (theirs, back)))
    _, (stickers, solved) = jax.lax.scan(turn_ours, cube.goal(()), jnp.asarray(ours))
    _, expected = loosely(lambda actions: jax.lax.scan(turn_theirs, start, actions))(theirs)
    np.testing.assert_array_equal(stickers, expected[0])
    np.testing.assert_array_equal(solved, expected[1])
    assert solved[-1]
