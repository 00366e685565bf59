"""Helpers of tests of level texts: draw levels and states of an environment, check their texts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import jaxenvs
from jaxenvs import levels

STEPS = 50
IDS = [*jaxenvs.registry.list("Grid"), *jaxenvs.registry.list("BabyAI")]
# Ids for the default tests. Texts of these ids and of those in `FULL` have all kinds of headers. A
# header is a line above the picture, such as `carrying: red key`.
DEFAULT = ("BabyAI-KeyInBox-v0",)  # header `contents`: the object in a box
# Ids whose texts are checked only with the marker `full`.
FULL = (
    "BabyAI-BossLevel-v0",  # missions of four instructions, with locations; all kinds of doors
    "BabyAI-OpenDoorDebug-v0",  # strict instructions
    "BabyAI-PutNextS5N2Carrying-v0",  # header `carrying`, already at the start
    "Grid-Dynamic-Obstacles-5x5-v0",  # header `balls`: order of the moving balls
    "Grid-Fetch-5x5-N2-v0",
    "Grid-GoToDoor-5x5-v0",  # header `under`: doors in the outer wall
    "Grid-GoToObject-6x6-N2-v0",  # header `target`: first cell of an object that can be moved
    "Grid-KeyCorridorS3R2-v0",
    "Grid-LavaCrossingS9N1-v0",
    "Grid-LockedRoom-v0",
    "Grid-MemoryS7-v0",
    "Grid-ObstructedMaze-1Dlhb-v0",  # key in a box
    "Grid-PutNear-6x6-N2-v0",
    "Grid-WFC-MazeSimple-v0",  # levels that are marked as rejected, but not replaced
)


@functools.lru_cache(maxsize=2)
def drawn(id, count):
    """Return `count` levels of an id, and the states of one random episode in each level.

    The levels have the leading axis (count,), the states have the leading axes (count, STEPS).
    """
    env = jaxenvs.make(id)

    @jax.jit
    @jax.vmap
    def play(key):
        level = env.sample_level(key)
        actions = jax.random.randint(key, (STEPS,), 0, env.action_space.n, jnp.int32)
        keys = jax.random.split(key, STEPS)

        def step(state, turn):
            return env.step(turn[0], state, turn[1]).state, state

        return level, jax.lax.scan(step, env.reset_to(key, level).state, (keys, actions))[1]

    return jax.device_get(play(jax.random.split(jax.random.key(7), count)))


def at(tree, *index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def assert_same(found, wanted):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)


def check_texts(id, count, moments):
    """Check that reading inverts writing, for `count` levels and for some states of their episodes.

    moments: function from the index of a level to the time steps whose states are checked.
    """
    env = jaxenvs.make(id)
    all_levels, states = drawn(id, count)
    found = [at(all_levels, i) for i in range(count)]
    found += [at(states, i, t) for i in range(count) for t in moments(i)]
    for value in found:
        text = levels.write(env, value)
        read = levels.read(env, text, strict=True)
        assert_same(read, value)
        assert levels.write(env, read) == text
    return len(found)
