"""Tests of `to_gymnax` under wrappers like the ones of craftax's learners.

These wrappers are compiled with static params, reset a batch themselves, and log infos named
`Achievements/...`.
"""

import functools
import types
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from craftax.craftax_classic.envs.common import compute_score
from worlds import Doors

import jaxenvs
from jaxenvs import wrappers
from jaxenvs.adapters import to_gymnax

KEY = jax.random.key(5)
ROWS, STEPS, RATIO = 8, 20, 4


class Feats(Doors):
    """Environment `Doors` with three achievements, each for reaching a number."""

    achievements = ("five", "ten", "fifty")

    def step_state(self, key, state, action, params):
        """Add the reached achievements to the info."""
        moved = super().step_state(key, state, action, params)
        reached = moved.state.number >= jnp.array([5, 10, 50])
        return moved._replace(info={"achievements": reached})


class Logged(NamedTuple):
    """State of the wrapper `Log`."""

    inside: Any
    total: Any  # return of the episode so far


class Log:
    """Wrapper that logs returns; its methods are compiled with static params."""

    def __init__(self, env):
        self.env = env

    @functools.partial(jax.jit, static_argnums=(0, 2))
    def reset(self, key, params=None):
        obs, inside = self.env.reset(key, params)
        return obs, Logged(inside, jnp.float32(0))

    @functools.partial(jax.jit, static_argnums=(0, 4))
    def step(self, key, state, action, params=None):
        obs, inside, reward, done, info = self.env.step(key, state.inside, action, params)
        total = state.total + reward
        info |= {"returned_episode_returns": total, "returned_episode": done}
        return obs, Logged(inside, total * (1 - done)), reward, done, info


class OptimisticResets:
    """Wrapper for a batch that generates one new level for every `RATIO` environments per step.

    An environment whose episode ends restarts in the level of its group of `RATIO` neighbours.
    """

    def __init__(self, env):
        self.env = env

    @functools.partial(jax.jit, static_argnums=(0, 2))
    def reset(self, key, params=None):
        return jax.vmap(self.env.reset, (0, None))(jax.random.split(key, ROWS), params)

    @functools.partial(jax.jit, static_argnums=(0, 4))
    def step(self, key, state, action, params=None):
        step = jax.vmap(self.env.step, (0, 0, 0, None))
        after = step(jax.random.split(key, ROWS), state, action, params)
        done = after[3]
        worlds = jax.vmap(self.env.reset, (0, None))(jax.random.split(key, ROWS // RATIO), params)
        fresh = jax.tree.map(lambda leaf: leaf.repeat(RATIO, axis=0), worlds)

        def select(new, old):
            return jnp.where(done.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        return (*jax.tree.map(select, fresh, after[:2]), *after[2:])


def played(env, params, actions=3):
    """Return all results of `STEPS` random steps."""
    obs, state = env.reset(KEY, params)
    found = []
    for key in jax.random.split(KEY, STEPS):
        action = jax.random.randint(key, (ROWS,), 0, actions)
        obs, state, reward, done, info = env.step(key, state, action, params)
        found.append((obs, reward, done, info))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *found)


def test_learners_with_static_params_and_their_own_resets_see_achievements():
    class Counted(Feats):
        step_state = chex.assert_max_traces(Feats.step_state, n=1)

    inside = to_gymnax(wrappers.Flatten(env=Counted()), legacy=True, auto_reset=False)
    env = OptimisticResets(Log(inside))
    with jax.numpy_dtype_promotion("standard"):
        _, _, done, info = played(env, inside.default_params)
    assert done.sum() > ROWS
    for name, least in (("five", 5), ("ten", 10)):
        percent = info[f"Achievements/{name}"]
        assert set(np.unique(percent[done])) == {0, 100}
        assert not percent[~done].any()
        assert (info["returned_episode_returns"][percent > 0] >= least).all()
    assert (info["discount"] == 1 - info["terminated"]).all()


def test_without_auto_reset_a_done_episode_continues():
    env, params = to_gymnax(Feats(), legacy=True, auto_reset=False), None
    with jax.numpy_dtype_promotion("standard"):
        _, state = env.reset(KEY, params)
        for time in range(1, 10):
            _, state, _, done, info = env.step(KEY, state, 1, params)
            assert state.time == time
        six = to_gymnax(Feats(), auto_reset=False)
        obs, *_, more = six.step(KEY, six.reset(KEY)[1], 1)
    assert done and info["truncated"] | info["terminated"]
    chex.assert_trees_all_equal(obs, more["final_observation"])
    assert six != to_gymnax(Feats())


@pytest.mark.parametrize("done", [False, True])
def test_achievements_are_reported_as_craftax_does(done):
    legacy = to_gymnax("Craft-Classic-Ids-v0", legacy=True)
    reached = np.arange(22) % 3 == 0
    step = jaxenvs.Step(
        None, None, jnp.float32(0), jnp.bool_(done), jnp.bool_(False), {"achievements": reached}
    )
    with jax.numpy_dtype_promotion("standard"):
        wanted = compute_score(types.SimpleNamespace(achievements=jnp.asarray(reached)), done)
        given = legacy._numbers(step)
    assert set(given) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(given[name], value, rtol=1e-6, err_msg=name)
