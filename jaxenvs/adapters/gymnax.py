"""One environment with gymnax's interface: `step` restarts done episodes; callers apply `vmap`.

Two versions of the interface: gymnax 1.0 (six values) and gymnax 0.0 (five values, `done` only).
Deliberate differences: `terminated` and `truncated` are never both true; under `vmap`, levels are
generated only for environments whose episode is done (gymnax: for all, in every step). There is no
`is_terminated` or `is_terminal`, because termination does not follow from the state alone.
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


@dataclasses.dataclass(unsafe_hash=True)  # not frozen: wrappers of gymnax write to a copy of it
class GymnaxEnv(environment.Environment):
    """Adapter made by `to_gymnax`: the interface of gymnax 1.0."""

    env: Env
    auto_reset: bool = True  # whether `step` begins the next episode; if not, a wrapper must

    @property
    def default_params(self) -> Any:
        """Params of the environment, with `max_steps_in_episode`."""
        return self.env.default_params

    @property
    def name(self) -> str:
        """The class with its settings."""
        return self.env.name

    @property
    def num_actions(self) -> int:
        """Number of actions, or of components if an action is a vector."""
        space = self.env.action_space
        return space.n if isinstance(space, Discrete) else math.prod(space.shape)

    def action_space(self, params: Any = None) -> Any:
        """Return gymnax's space of one action."""
        return gymnax_space(self.env.action_space)

    def observation_space(self, params: Any = None) -> Any:
        """Return gymnax's space of one observation."""
        return gymnax_space(self.env.observation_space)

    @functools.partial(jax.jit, static_argnames=("self",))
    def reset(self, key: Array, params: Any = None) -> tuple[PyTree[Array], Any]:
        """Start an episode: observation and state."""
        return self.reset_env(key, params)

    @functools.partial(jax.jit, static_argnames=("self",))
    def step(self, key: Array, state: Any, action: Any, params: Any = None) -> tuple[Any, ...]:
        """Advance and reset after the end: obs, state, reward, terminated, truncated, info.

        `info["final_observation"]` is the observation before a reset; without `auto_reset` it
        equals `obs`.
        """
        step = self._step(key, state, action, params)
        return step.obs, step.state, step.reward, step.terminated, step.truncated, step.info

    def reset_env(self, key: Array, params: Any = None) -> tuple[PyTree[Array], Any]:
        """Start an episode: observation and state."""
        obs, state = common.begin(self.env, checks.single_key(key, "reset"), params)
        return obs, state

    def step_env(self, key: Array, state: Any, action: Any, params: Any = None) -> tuple[Any, ...]:
        """Advance without auto-reset: obs, state, reward, terminated, info."""
        step = self._advance(key, state, action, params)
        return step.obs, step.state, step.reward, step.terminated, step.info

    def observe(self, key: Any, state: Any, action: Any = None, params: Any = None) -> Any:
        """Return the observation of a state."""
        return self.env.observe(state, self.env.checked_params(params, "observe"))

    def get_obs(self, state: Any, params: Any = None, key: Any = None) -> Any:
        """Return the observation of a state."""
        return self.observe(key, state, None, params)

    def is_truncated(self, state: Any, params: Any = None) -> Bool[Array, ""]:
        """Return whether the time limit is reached, even if the same step terminated."""
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
    """Adapter made by `to_gymnax(env, legacy=True)`: the interface of gymnax 0.0."""

    @functools.partial(jax.jit, static_argnames=("self",))
    def step(self, key: Array, state: Any, action: Any, params: Any = None) -> tuple[Any, ...]:
        """Advance and reset after the end: obs, state, reward, done, info.

        `info["truncated"]` distinguishes truncation from termination. The info contains only
        scalars: learners for this interface store the entries of all steps and average each over
        the steps that end an episode. Only the gymnax 1.0 interface has `final_observation`.

        Achievements are reported as in craftax: `Achievements/<name>` is 100 in the last step of an
        episode that reached it, else 0. `score` is Crafter's score of this single episode: the
        geometric mean of these entries with an offset of 1.
        """
        step = self._step(key, state, action, params)
        return step.obs, step.state, step.reward, step.done, self._numbers(step)

    def step_env(self, key: Array, state: Any, action: Any, params: Any = None) -> tuple[Any, ...]:
        """Advance without auto-reset: obs, state, reward, done, info."""
        step = self._advance(key, state, action, params)
        step = step._replace(info={**step.info, **_end_of(step)})
        return step.obs, step.state, step.reward, step.done, self._numbers(step)

    def _numbers(self, step: Step) -> dict[str, Any]:
        """Return the scalar entries of the info, and achievements in craftax's form."""
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
    """Return an environment, or an id with its fields, with the interface of gymnax.

    `legacy` returns gymnax 0.0's five values, as PureJaxRL, rejax, PureJaxQL and Craftax_Baselines
    expect. `auto_reset=False` leaves resets to a wrapper, such as craftax's optimistic resets. Both
    interfaces work with gymnax 0.0.9 and later: only its spaces and base class are used.
    """
    kind = LegacyGymnaxEnv if legacy else GymnaxEnv
    return kind(common.environment(env, fields, "to_gymnax"), auto_reset)


class Drawn(spaces.Box):
    """A `Box` of gymnax that samples as jaxenvs' `Box` does: any integer, True as well as False."""

    def __init__(self, box: Box) -> None:
        super().__init__(*ends(box), box.shape, box.dtype)
        self.box = box

    def sample(self, key: Array) -> Array:
        """Draw an element; every element of the space is possible."""
        return self.box.sample(key)


def gymnax_space(space: Space) -> Any:
    """Return gymnax's equivalent of a space; a `MultiDiscrete` becomes a `Box` of integers."""
    if isinstance(space, Dict):
        return spaces.Dict({name: gymnax_space(part) for name, part in space.spaces.items()})
    return spaces.Discrete(space.n) if isinstance(space, Discrete) else Drawn(as_box(space))


def _end_of(step: Step) -> dict[str, Array]:
    """Return info entries about the end of the episode: terminated, truncated and discount."""
    names = ("terminated", "truncated", "discount")
    return {name: getattr(step, name) for name in names}


@functools.lru_cache(maxsize=64)
def restarting(env: Env) -> Any:
    """Return a function (ended, key, state, params) -> state that starts an episode if `ended`.

    A single call generates a level only if `ended`. Under `vmap`, `make_vec` generates levels for
    the done environments; the levels are the same.
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
