"""Tests of environments by jumanji's smoke tests, through an adapter that exists only here."""

import collections
import dataclasses
import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jumanji import specs
from jumanji.env import Environment
from jumanji.testing import env_not_smoke
from jumanji.types import restart, termination, transition, truncation
from worlds import DOORS, FAMILIES, by_default

import jaxenvs
from jaxenvs.core.spaces import Box, Dict, Discrete


@chex.dataclass(frozen=True)
class Kept:
    """State that contains a random key, as in jumanji."""

    key: Any
    state: Any


@functools.cache
def record(*names):
    """Return a NamedTuple class with these fields, as jumanji's specs do not support dicts."""
    return collections.namedtuple("Record", names)


def named(obs):
    """Return the observation with named tuples in place of dicts."""
    if not isinstance(obs, dict):
        return obs
    return record(*obs)(**{name: named(part) for name, part in obs.items()})


@dataclasses.dataclass(eq=False)
class Jumanji(Environment):
    """An environment of this library with jumanji's interface."""

    env: jaxenvs.Env
    limit: int

    def __post_init__(self):
        self.params = self.env.default_params.replace(max_steps_in_episode=np.int32(self.limit))
        super().__init__()

    def reset(self, key):
        """Begin an episode."""
        key, key_reset = jax.random.split(key)
        obs, state = self.env.reset(key_reset, self.params)
        return Kept(key=key, state=state), restart(named(obs))

    def step(self, state, action):
        """Make a step; jumanji's discount distinguishes truncation from termination."""
        key, key_step = jax.random.split(state.key)
        step = self.env.step(key_step, state.state, action, self.params)
        obs = named(step.obs)
        after = transition(step.reward, obs)
        for over, kind in ((step.terminated, termination), (step.truncated, truncation)):
            ended = kind(step.reward, obs)
            after = jax.tree.map(lambda a, b, over=over: jnp.where(over, a, b), ended, after)
        return Kept(key=key, state=step.state), after

    @functools.cached_property
    def action_spec(self):
        """Return the spec of an action."""
        return specs.DiscreteArray(self.env.action_space.n, name="action")

    @functools.cached_property
    def observation_spec(self):
        """Return the spec of an observation."""
        return self._spec(self.env.observation_space, "observation")

    def _spec(self, space, name):
        if isinstance(space, Dict):
            parts = {key: self._spec(part, key) for key, part in space.spaces.items()}
            return specs.Spec(record(*parts), name, **parts)
        if isinstance(space, Discrete):
            return specs.DiscreteArray(space.n, name=name)
        assert isinstance(space, Box)
        return specs.BoundedArray(space.shape, space.dtype, space.low, space.high, name)


@pytest.mark.parametrize("id", [None, *by_default(["Puzzle-Hanoi-5-v0"], FAMILIES.values())])
def test_jumanji_finds_no_smoke(id):
    """Play random actions: every observation is in its spec, and all values are finite."""
    env = Jumanji(jaxenvs.make(id) if id else DOORS, limit=20)
    with jax.numpy_dtype_promotion("standard"):
        env_not_smoke.check_env_does_not_smoke(env)
        env_not_smoke.check_env_specs_does_not_smoke(env)


def test_the_checks_can_fail():
    class Outside(type(DOORS)):
        """Environment `Doors` with a fault: it observes a number outside its observation space."""

        def observe(self, state, params=None):
            """Return a number that is too large."""
            return {**super().observe(state, params), "number": jnp.int32(2000)}

    with (
        jax.numpy_dtype_promotion("standard"),
        pytest.raises(ValueError, match="not all within bounds"),
    ):
        env_not_smoke.check_env_does_not_smoke(Jumanji(Outside(), limit=20))
