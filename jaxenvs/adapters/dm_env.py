"""`to_dm_env`: one environment with the interface `dm_env.Environment`.

The `discount` of a step is 0 if the episode terminated, and 1 if it was truncated or continues.
"""

import functools
from typing import Any

import dm_env
import jax
import numpy as np
from dm_env import specs

from ..core.env import Env
from ..core.random import Key
from ..core.starts import STEP
from . import common
from .spaces import dm_spec


class DmEnv(common.Adapter, dm_env.Environment):
    """Environment with the interface of dm_env; made by `to_dm_env`."""

    def __init__(self, env: Env | str, *, seed: int, params: Any, **fields: Any) -> None:
        """Make the environment from the arguments of `to_dm_env`."""
        self.jaxenv = env = common.environment(env, fields, "to_dm_env")
        self.params = common.host_params(env, params, "to_dm_env")
        self._key = jax.random.key(seed)
        # Number of calls of reset and step so far; it is folded into the key of each call.
        self._number = 0
        # State of the current episode; None if the next step must begin one.
        self._state: Any = None
        # Latest state, from which the next reset copies the statistics of earlier episodes that a
        # wrapper such as `LogWrapper` keeps. None before the first reset, and always None if the
        # environment keeps no statistics.
        self._ended: Any = None
        self._compile()

    def reset(self) -> dm_env.TimeStep:
        """Start an episode; return its first `TimeStep`."""
        self.params = jax.device_put(self.params)
        self._state, obs = self._reset(self._key, self._next(), self.params, self._ended)
        self._ended = self._state if self.jaxenv.carries_over else None
        return dm_env.restart(_copied(jax.device_get(obs)))

    def step(self, action: Any) -> dm_env.TimeStep:
        """Advance by an action; if the episode is over, start the next one and ignore the action.

        Returns the `TimeStep`.

        Raises `ValueError` for an action outside `action_spec`.
        """
        if self._state is None:
            return self.reset()
        action = common.taken(self.jaxenv.action_space, action, None, ValueError)
        state, seen = self._step(self._key, self._next(), self._state, action, self.params)
        obs, reward, discount, done = jax.device_get(seen)
        self._state = None if done else state
        self._ended = state if self.jaxenv.carries_over else None
        kind = dm_env.StepType.LAST if done else dm_env.StepType.MID
        return dm_env.TimeStep(kind, reward[()], discount[()], _copied(obs))

    def observation_spec(self) -> Any:
        """Return the spec of an observation; a dict of specs for a Dict space."""
        return dm_spec(self.jaxenv.observation_space, "observation")

    def action_spec(self) -> Any:
        """Return the spec of an action; a dict of specs for a Dict space."""
        return dm_spec(self.jaxenv.action_space, "action")

    def reward_spec(self) -> specs.BoundedArray:
        """Return the spec of rewards: a float32 within the environment's `reward_range`."""
        low, high = self.jaxenv.reward_range
        return specs.BoundedArray((), np.float32, low, high, "reward")

    def discount_spec(self) -> specs.BoundedArray:
        """Return the spec of discounts: a float32 from 0 to 1."""
        return specs.BoundedArray((), np.float32, 0.0, 1.0, "discount")

    def _compile(self) -> None:
        self._reset, self._step = compiled(self.jaxenv)

    def _next(self) -> np.uint32:
        self._number += 1
        return np.uint32(self._number)


def to_dm_env(env: Env | str, *, seed: int = 0, params: Any = None, **fields: Any) -> DmEnv:
    """Return a `dm_env.Environment` that plays `env`, an environment or the id of one.

    `seed` determines all random numbers. `params` (None: the environment's defaults) apply to all
    episodes. If `env` is an id, `fields` are passed to `jaxenvs.make`. Raises the errors of
    `jaxenvs.make`.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"to_dm_env: seed must be an int, got {type(seed).__name__} {seed!r}")
    return DmEnv(env, seed=int(seed), params=params, **fields)


@functools.lru_cache(maxsize=64)
def compiled(env: Env) -> tuple[Any, Any]:
    """Return jitted `reset` and `step` functions of an environment.

    The result is cached, so several `DmEnv` objects of equal environments compile only once.
    """

    def reset(key: Key, number: Any, params: Any, ended: Any) -> tuple[Any, Any]:
        obs, state = common.begin(env, jax.random.fold_in(key, number), params, ended)
        return state, obs

    def step(key: Key, number: Any, state: Any, action: Any, params: Any) -> tuple[Any, Any]:
        key = jax.random.fold_in(jax.random.fold_in(key, number), STEP)
        stepped = env.step(key, state, action, params)
        return stepped.state, (stepped.obs, stepped.reward, stepped.discount, stepped.done)

    return jax.jit(reset), jax.jit(step)


def _copied(obs: Any) -> Any:
    """Return an observation with copied arrays, so that the caller may change them."""
    return jax.tree.map(np.array, obs)
