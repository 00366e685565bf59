"""Tests of the class attribute `full_shows_all`.

If it is True, the observation `full` (the whole grid) determines the state, except for the time.
"""

import functools

import defaults
import jax
import numpy as np
import pytest
from defaults import with_full

import jaxenvs
from jaxenvs.grid import GridEnv

ROWS, STEPS = 64, 128
# Ids with objects that can be carried or opened or must be remembered, and with lava.
SOME = (
    "Grid-DoorKey-5x5-v0",
    "Grid-LavaCrossingS9N1-v0",
    "Grid-MemoryS7-v0",
    "Grid-RedBlueDoors-6x6-v0",
)
# One id of each class with `full_shows_all`; for Empty, an id with random starts.
EACH = {
    kind: id
    for kind, id in defaults.CLASSES.items()
    if issubclass(kind, GridEnv) and kind.full_shows_all
}
EACH |= {jaxenvs.spec(id).env_class: id for id in (*SOME, "Grid-Empty-Random-5x5-v0")}
MORE = sorted({*EACH.values()} - {*SOME})


@functools.partial(jax.jit, static_argnums=0)
def played(env, key):
    """Return the observations, the states without the time, and `done` of random play."""

    def row(key):
        key_reset, key_actions, key_steps = jax.random.split(key, 3)
        actions = jax.vmap(env.action_space.sample)(jax.random.split(key_actions, STEPS))

        def one(state, drawn):
            step = env.step(drawn[0], state, drawn[1])
            after = step.state
            return after, (step.obs, (after.grid, after.agent, after.task), step.done)

        state = env.reset(key_reset).state
        return jax.lax.scan(one, state, (jax.random.split(key_steps, STEPS), actions))[1]

    return jax.vmap(row)(jax.random.split(key, ROWS))


def seen_again(env):
    """Return the number of repetitions, and the number of repetitions with a different state.

    A repetition is an observation that equals an earlier one. Its state is compared with the state
    of the first equal observation.
    """
    obs, state, done = jax.device_get(played(env, jax.random.key(0)))
    going_on = np.cumsum(done, axis=1) == 0
    known, again, other = {}, 0, 0
    for place in zip(*np.nonzero(going_on), strict=True):
        rest = b"".join(leaf[place].tobytes() for leaf in jax.tree.leaves(state))
        before = known.setdefault(obs[place].tobytes(), (place, rest))
        again += before[0] != place
        other += before[1] != rest
    return again, other


@pytest.mark.parametrize("id", [*SOME, *with_full(*MORE)])
def test_the_whole_grid_determines_the_state(id):
    env = jaxenvs.make(id, obs="full")
    assert env.fully_observed and jaxenvs.make(id, obs="rgb_full").fully_observed
    assert not any(jaxenvs.make(id, obs=o).fully_observed for o in ("image", "dict", "rgb"))
    again, other = seen_again(env)
    assert again > 500 and other == 0


@pytest.mark.parametrize("id", ["Grid-Fetch-5x5-N2-v0", "Grid-UnlockPickup-v0"])
def test_elsewhere_the_whole_grid_is_not_enough(id):
    """The observation `full` does not determine the state of these ids.

    In Fetch, `full` does not show the mission. In UnlockPickup, it does not show the colour of the
    door if the agent stands in the door's cell.
    """
    env = jaxenvs.make(id, obs="full")
    assert not env.fully_observed and env.full_observations == ()
    if id.startswith("Grid-Fetch"):
        assert seen_again(env)[1] > 0


def test_a_babyai_level_never_shows_all():
    levels = [jaxenvs.spec(id).env_class for id in jaxenvs.registry.list("BabyAI")]
    assert not any(kind.full_shows_all for kind in levels)
