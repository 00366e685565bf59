"""`to_gymnax`: one environment with the interface of gymnax, for learners that apply `vmap`.

As in gymnax, `step` restarts done episodes. There are two versions of the interface. In gymnax 1.0,
`step` returns six values. In gymnax 0.0, it returns five, with `done` in place of `terminated` and
`truncated`.

Deliberate differences from gymnax:

- `terminated` and `truncated` are never both true.
- Under `vmap`, the environment's `reset_source` determines how levels are generated: `exact`
  generates levels only for environments whose episode is done. gymnax generates a level for every
  environment in every step.
- There is no `is_terminated` or `is_terminal`, because termination does not follow from the state
  alone.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from gymnax.environments import environment, spaces
from jaxtyping import Array, Bool, PyTree

from ..core import checks
from ..core.env import Env, Step
from ..core.random import Key
from ..core.spaces import Box, Dict, Discrete, Space
from ..core.starts import STEP
from ..core.vector import VectorState, make_vec
from . import common
from .spaces import as_box, ends


# The dataclass is not frozen, because gymnax's wrappers copy environments and write attributes to
# the copies.
@dataclasses.dataclass(unsafe_hash=True)
class GymnaxEnv(environment.Environment):
    """Environment with the interface of gymnax 1.0; made by `to_gymnax`."""

    env: Env
    auto_reset: bool = True  # whether `step` begins the next episode; if False, a wrapper begins it

    @property
    def default_params(self) -> Any:
        """Default params of the environment, which include `max_steps_in_episode`."""
        return self.env.default_params

    @property
    def name(self) -> str:
        """Name of the environment: its class with its settings."""
        return self.env.name

    @property
    def num_actions(self) -> int:
        """Number of Discrete actions, or number of components if an action is a vector."""
        space = self.env.action_space
        return space.n if isinstance(space, Discrete) else math.prod(space.shape)

    def action_space(self, params: Any = None) -> Any:
        """Return the space of one action as a space of gymnax."""
        return gymnax_space(self.env.action_space)

    def observation_space(self, params: Any = None) -> Any:
        """Return the space of one observation as a space of gymnax."""
        return gymnax_space(self.env.observation_space)

    @functools.partial(jax.jit, static_argnames=("self",))
    def reset(self, key: Array, params: Any = None) -> tuple[PyTree[Array], Any]:
        """Start an episode; returns its first observation and state."""
        return self.reset_env(key, params)

    @functools.partial(jax.jit, static_argnames=("self",))
    def step(self, key: Array, state: Any, action: Any, params: Any = None) -> tuple[Any, ...]:
        """Advance by an action and restart the episode if it is done.

        Returns obs, state, reward, terminated, truncated and info. After a restart, `obs` and
        `state` are the first of the new episode, and `info["final_observation"]` is the last
        observation of the old one. Without a restart, `final_observation` equals `obs`.
        """
        step = self._step(key, state, action, params)
        return step.obs, step.state, step.reward, step.terminated, step.truncated, step.info

    def reset_env(self, key: Array, params: Any = None) -> tuple[PyTree[Array], Any]:
        """Start an episode; returns its first observation and state."""
        obs, state = common.begin(self.env, checks.single_key(key, "reset"), params)
        return obs, state

    def step_env(self, key: Array, state: Any, action: Any, params: Any = None) -> tuple[Any, ...]:
        """Advance without restarting; returns obs, state, reward, terminated and info."""
        step = self._advance(key, state, action, params)
        return step.obs, step.state, step.reward, step.terminated, step.info

    def observe(self, key: Any, state: Any, action: Any = None, params: Any = None) -> Any:
        """Return the observation of a state; `key` and `action` are not used."""
        return self.env.observe(state, self.env.checked_params(params, "observe"))

    def get_obs(self, state: Any, params: Any = None, key: Any = None) -> Any:
        """Return the observation of a state; `key` is not used."""
        return self.observe(key, state, None, params)

    def is_truncated(self, state: Any, params: Any = None) -> Bool[Array, ""]:
        """Return whether the time limit is reached.

        The result is true even if the last step also terminated the episode.
        """
        params = self.env.checked_params(params, "is_truncated")
        return jnp.asarray(state.time >= self.env.time_limit(state, params))

    def _advance(self, key: Array, state: Any, action: Any, params: Any) -> Step:
        key = jax.random.fold_in(checks.single_key(key, "step"), STEP)
        return self.env.step(key, state, action, params)

    def _step(self, key: Array, state: Any, action: Any, params: Any) -> Step:
        params = self.env.checked_params(params, "step")
        step = self._advance(key, state, action, params)
        step = step._replace(info={**step.info, **_end_of(step), "final_observation": step.obs})
        if not self.auto_reset:
            return step
        key = checks.single_key(key, "step")
        after = restarting(self.env)(step.done, key, step.state, params)
        return step._replace(obs=self.env.observe(after, params), state=after)


@dataclasses.dataclass(unsafe_hash=True)
class LegacyGymnaxEnv(GymnaxEnv):
    """Environment with the interface of gymnax 0.0; made by `to_gymnax(env, legacy=True)`."""

    @functools.partial(jax.jit, static_argnames=("self",))
    def step(self, key: Array, state: Any, action: Any, params: Any = None) -> tuple[Any, ...]:
        """Advance by an action and restart the episode if it is done.

        Returns obs, state, reward, done and info. `info["truncated"]` is true if the time limit
        ended the episode. All entries of the info are scalars, without `final_observation`, because
        learners for this interface store the info of all steps, and average each entry over the
        last steps of episodes.

        Achievements are reported as in craftax: `Achievements/<name>` is 100 in the last step of an
        episode that reached the achievement, else 0. `score` is Crafter's score of this episode:
        the geometric mean of 1 + `Achievements/<name>` over all achievements, minus 1.
        """
        step = self._step(key, state, action, params)
        return step.obs, step.state, step.reward, step.done, self._numbers(step)

    def step_env(self, key: Array, state: Any, action: Any, params: Any = None) -> tuple[Any, ...]:
        """Advance without restarting; returns obs, state, reward, done and info."""
        step = self._advance(key, state, action, params)
        step = step._replace(info={**step.info, **_end_of(step)})
        return step.obs, step.state, step.reward, step.done, self._numbers(step)

    def _numbers(self, step: Step) -> dict[str, Any]:
        """Return the scalar entries of a step's info, with achievements as craftax reports them."""
        arrays = {name: value for name, value in step.info.items() if not isinstance(value, dict)}
        numbers = {name: value for name, value in arrays.items() if jnp.ndim(value) == 0}
        names = self.env.achievements
        if not names:
            return numbers
        reached = jnp.where(step.done, step.info["achievements"].astype(jnp.float32) * 100, 0.0)
        each = {f"Achievements/{name}": reached[i] for i, name in enumerate(names)}
        return {**numbers, **each, "score": jnp.exp(jnp.log1p(reached).mean()) - 1.0}


def to_gymnax(
    env: Env | str, *, legacy: bool = False, auto_reset: bool = True, **fields: Any
) -> GymnaxEnv:
    """Return an environment (or the environment of an id) with the interface of gymnax.

    With `legacy`, `step` returns the five values of gymnax 0.0, as PureJaxRL, rejax, PureJaxQL and
    Craftax_Baselines expect. With `auto_reset=False`, `step` does not restart episodes; a wrapper,
    such as craftax's optimistic resets, must restart them. If `env` is an id, `fields` are passed
    to `jaxenvs.make`. Both interfaces use only gymnax's spaces and base class, so they work with
    any installed gymnax from 0.0.9 on.
    """
    kind = LegacyGymnaxEnv if legacy else GymnaxEnv
    return kind(common.environment(env, fields, "to_gymnax"), auto_reset)


class Drawn(spaces.Box):
    """A `Box` of gymnax that samples as jaxenvs' `Box` does.

    Every integer or boolean of the space can be drawn. The `sample` of gymnax's own `Box` never
    draws the largest integer.
    """

    def __init__(self, box: Box) -> None:
        super().__init__(*ends(box), box.shape, box.dtype)
        self.box = box

    def sample(self, key: Array) -> Array:
        """Draw a random element; every element of the space can be drawn."""
        return self.box.sample(key)


def gymnax_space(space: Space) -> Any:
    """Return gymnax's equivalent of a space; a `MultiDiscrete` becomes a `Box` of integers."""
    if isinstance(space, Dict):
        return spaces.Dict({name: gymnax_space(part) for name, part in space.spaces.items()})
    return spaces.Discrete(space.n) if isinstance(space, Discrete) else Drawn(as_box(space))


def _end_of(step: Step) -> dict[str, Array]:
    """Return `terminated`, `truncated` and `discount` of a step as entries of its info."""
    names = ("terminated", "truncated", "discount")
    return {name: getattr(step, name) for name in names}


@functools.lru_cache(maxsize=64)
def restarting(env: Env) -> Any:
    """Return a function (ended, key, state, params) -> state that starts an episode if `ended`.

    If `ended` is false, the function returns `state`. A single call generates a level only if
    `ended` is true. Under `vmap`, the function calls `reset_rows` of a `make_vec` batch, which
    generates levels as the `reset_source` of `env` says. The source `exact` replaces `pool`,
    because gymnax's state has no place for a pool of prepared levels. A single call and a call
    under `vmap` give the same levels.
    """
    source = "exact" if env.reset_source == "pool" else env.reset_source

    @jax.custom_batching.custom_vmap
    def restart(ended: Bool[Array, ""], key: Key, state: Any, params: Any) -> Any:
        return jax.lax.cond(
            ended, lambda: common.begin(env, key, params, state).state, lambda: state
        )

    @restart.def_vmap
    def restart_rows(
        rows: int, batched: list[Any], ended: Array, key: Array, state: Any, params: Any
    ) -> tuple[Any, Any]:
        def broadcast(leaf: Array, has_rows: bool) -> Array:
            return leaf if has_rows else jnp.broadcast_to(leaf, (rows, *leaf.shape))

        ended, key, state = jax.tree.map(broadcast, (ended, key, state), tuple(batched[:3]))
        batch = make_vec(env, rows, reset_source=source)
        begun = batch.reset_rows(key, VectorState(env=state, ended=None, pool=None), ended, params)
        after = begun.state.env
        return after, jax.tree.map(lambda leaf: True, after)

    return restart
