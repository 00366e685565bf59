"""Tests that the balls of Dynamic-Obstacles move with MiniGrid 3.2.0's probabilities.

Chi-square tests compare the balls' cells after one step; they fail if p < 1e-4.
"""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tasks
import upstream
from test_levels import REJECT, chance

import jaxenvs
from jaxenvs.grid import Action, Kind

ID = "Grid-Dynamic-Obstacles-6x6-v0"


def crowded(seed):
    """Return MiniGrid's environment with balls that block each other and the agent."""
    env = upstream.make(ID)
    env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    cells = rng.permutation([(1, 2), (2, 1), (2, 2), (3, 1), (3, 2), (1, 3)])[: len(env.obstacles)]
    for ball in env.obstacles:
        env.grid.set(*ball.cur_pos, None)
    for ball, cell in zip(env.obstacles, cells.tolist(), strict=True):
        env.put_obj(ball, *cell)
    return env


def moved_upstream(env, count):
    """Return the cells of MiniGrid's balls after one step, drawn `count` times."""
    found = []
    for seed in range(count):
        world = copy.deepcopy(env)
        world.np_random = np.random.default_rng(seed)
        world.step(Action.LEFT)
        found.append(tasks.balls(world))
    return np.array(found)


def moved(env, count):
    """Return the cells of this library's balls after one step from `env`'s level, `count` times.

    Also check that the grid shows the balls in these cells.
    """
    ours, level = jaxenvs.make(ID), upstream.lift(env)
    state = jax.jit(ours.reset_to)(jax.random.key(0), level).state
    keys = jax.random.split(jax.random.key(1), count)
    step = jax.jit(jax.vmap(ours.step, in_axes=(0, None, None)))
    after = step(keys, state, jnp.int32(Action.LEFT)).state
    cells = np.asarray(after.task)
    shown = np.zeros(after.grid.shape, bool)
    shown[np.arange(count)[:, None], cells & 255, cells >> 8] = True
    np.testing.assert_array_equal(np.asarray(after.grid) & 15 == Kind.BALL, shown)
    return cells


def compare(seed, count):
    env = crowded(seed)
    theirs, ours = moved_upstream(env, count), moved(env, 4 * count)
    chances = {
        **{f"ball {i}": chance(ours[:, i], theirs[:, i]) for i in range(ours.shape[1])},
        "all": chance(map(tuple, ours.tolist()), map(tuple, theirs.tolist())),
    }
    print(f"{ID}, world {seed}: {count} steps, least p {min(chances.values()):.2g}")
    assert min(chances.values()) >= REJECT, chances


def test_balls_move_as_often_as_the_packages():
    compare(0, 500)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_balls_move_as_often_as_the_packages_in_many_levels(seed):
    compare(seed, 4_000)
