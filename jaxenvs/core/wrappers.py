"""Environments around environments: statistics, observations and actions changed on the way."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Float32, Int32, PyTree

from . import checks
from .controls import Controls
from .env import Env, Reset, Step
from .facts import RGB, Fact, Features
from .random import Key
from .spaces import Box, Dict, Space
from .struct import Struct, struct


@struct
class WrappedState(Struct):
    """State of the environment inside, and what the wrapper remembers beside it."""

    env: Any
    own: Any

    @property
    def time(self) -> Int32[Array, "*batch"]:
        """Steps since reset."""
        return self.env.time


class Wrapper(Env):
    """An environment that passes everything on to `env`; the base of those below.

    A subclass overrides what it changes: `transform` for an observation that follows from the one
    inside; `inner`, `reset_to` and `step` for memory of its own, kept in a `WrappedState`;
    `default_params` and `inner_params` for params of its own; `fully_observed` where it leaves
    something out of the observation, or remembers something that the observation does not show.
    """

    env: Env

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        if not isinstance(self.env, Env):
            kind = type(self.env).__name__
            raise TypeError(f"{type(self).__name__}: env must come from jaxenvs.make, got {kind}")

    @property
    def unwrapped(self) -> Env:
        """The environment at the bottom."""
        return self.env.unwrapped if isinstance(self.env, Wrapper) else self.env

    @property
    def reset_source(self) -> str:  # type: ignore[override]  # follows the environment inside
        """Reset source of the environment inside."""
        return self.env.reset_source

    @property
    def rows_per_lane(self) -> int:  # type: ignore[override]
        """Rows for each world made at a time, of the environment inside."""
        return self.env.rows_per_lane

    @property
    def levels_at_once(self) -> int:  # type: ignore[override]
        """Levels drawn together, of the environment inside."""
        return self.env.levels_at_once

    @property
    def level_budget(self) -> int:  # type: ignore[override]
        """Levels drawn for a reset, at most, of the environment inside."""
        return self.env.level_budget

    @property
    def achievements(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the achievements of the environment inside."""
        return self.env.achievements

    @property
    def idle_action(self) -> int | None:  # type: ignore[override]
        """What a masked action counts as in the environment inside."""
        return self.env.idle_action

    @property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """Reward range of the environment inside."""
        return self.env.reward_range

    @property
    def fully_observed(self) -> bool:  # type: ignore[override]
        """Whether an observation of the environment inside determines its state."""
        return self.env.fully_observed

    @property
    def default_params(self) -> Any:
        """Params of the environment inside."""
        return self.env.default_params

    @property
    def action_space(self) -> Space:
        """Action space of the environment inside."""
        return self.env.action_space

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions of the environment inside."""
        return self.env.action_names

    @property
    def observation_space(self) -> Space:
        """Observation space of the environment inside."""
        return self.env.observation_space

    @property
    def status_rows(self) -> int:  # type: ignore[override]
        """Rows of the tiles that repeat the facts, of the environment inside."""
        return self.env.status_rows

    @property
    def controls(self) -> Controls:
        """Keys and mouse of the environment inside, unless the wrapper changes the actions."""
        if type(self).action_space is not Wrapper.action_space:
            return super().controls
        controls = self.env.controls
        pointing = controls.pointing
        if pointing is None:
            return controls

        def action(state: Any, *pointed: Any) -> int | None:
            return pointing.action(self.inner(state), *pointed)

        return controls._replace(pointing=pointing._replace(action=action))

    @property
    def features(self) -> Features:
        """Features of the environment inside, unless the wrapper changes the observation."""
        changes = ("observation_space", "transform", "observe")
        if any(getattr(type(self), name) is not getattr(Wrapper, name) for name in changes):
            return super().features
        return self.env.features

    def facts(self, state: Any, params: Any = None) -> tuple[Fact, ...]:
        """Return the facts of the environment inside."""
        return self.env.facts(self.inner(state), self.inner_params(params))

    def describe(self, state: Any, params: Any = None) -> str:
        """Describe the state of the environment inside."""
        return self.env.describe(self.inner(state), self.inner_params(params))

    def icon(self, name: str, size: int, background: RGB) -> np.ndarray | None:
        """Return an icon of the environment inside."""
        return self.env.icon(name, size, background)

    def inner(self, state: Any) -> Any:
        """State of the environment inside."""
        return state

    def inner_params(self, params: Any) -> Any:
        """Params of the environment inside; None stands for the defaults."""
        return params

    def check_values(self, params: Any, where: str) -> None:
        """Also check the params of the environment inside."""
        super().check_values(params, where)
        self.env.check_values(self.inner_params(params), where)

    def transform(self, obs: PyTree[Array]) -> PyTree[Array]:
        """Observation given for the observation of the environment inside."""
        return obs

    def draw_level(self, key: Key, params: Any) -> PyTree[Array]:
        """Draw a level of the environment inside."""
        return self.env.draw_level(key, self.inner_params(params))

    def accepts(self, level: PyTree[Array]) -> Bool[Array, ""]:
        """Tell whether a drawn level may be played, as the environment inside does."""
        return self.env.accepts(level)

    def reset_to(self, key: Key, level: PyTree[Array], params: Any = None) -> Reset:
        """Start an episode in the given level."""
        obs, state = self.env.reset_to(key, level, self.inner_params(params))
        return Reset(self.transform(obs), state)

    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> Step:
        """Advance by one action; never resets."""
        stepped = self.env.step(key, state, action, self.inner_params(params))
        return stepped._replace(obs=self.transform(stepped.obs))

    def observe(self, state: Any, params: Any = None) -> PyTree[Array]:
        """Return what the agent sees of `state`."""
        return self.transform(self.env.observe(self.inner(state), self.inner_params(params)))

    def time_limit(self, state: Any, params: Any) -> ArrayLike:
        """Return the steps after which the episode inside is truncated."""
        return self.env.time_limit(self.inner(state), self.inner_params(params))

    def action_mask(self, state: Any, params: Any = None) -> Bool[Array, " actions"]:
        """Tell which actions are legal."""
        return self.env.action_mask(self.inner(state), self.inner_params(params))

    def succeeded(self, step: Step) -> Bool[Array, ""] | None:
        """Tell whether a step accomplished the task of the environment inside."""
        return self.env.succeeded(step._replace(state=self.inner(step.state)))

    def tiles(self, state: Any) -> Array:
        """Return indices into `atlas` that draw the state."""
        return self.env.tiles(self.inner(state))

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return the sprites, uint8 (tiles, tile_size, tile_size, 3)."""
        return self.env.atlas(tile_size)


class Flatten(Wrapper):
    """One vector for each observation: its leaves, flattened and joined in order of their names.

    A single array keeps its dtype; several leaves become float32.
    """

    @property
    def observation_space(self) -> Box:
        """Vectors with the bounds of their entries."""
        boxes = _boxes(self.env.observation_space, "Flatten")
        dtype = boxes[0].dtype if len(boxes) == 1 else np.float32
        low, high = (
            np.concatenate([np.ravel(getattr(b, end)) for b in boxes]) for end in ("low", "high")
        )
        return Box(low.astype(dtype), high.astype(dtype), low.shape, dtype)

    def transform(self, obs: PyTree[Array]) -> Array:
        """Join the leaves."""
        leaves = jax.tree.leaves(obs)
        if len(leaves) == 1:
            return leaves[0].ravel()
        return jnp.concatenate([leaf.ravel().astype(jnp.float32) for leaf in leaves])


class OneHot(Wrapper):
    """One-hot uint8 vectors for integer observations.

    The entries along the last axis are expanded each by its own range and joined, so MiniGrid's
    (7, 7, 3) image becomes (7, 7, 20) and a `Discrete(n)` becomes (n,).
    """

    def __post_init__(self) -> None:
        """Refuse observations that are not integers of a small range."""
        super().__post_init__()
        for box in _boxes(self.env.observation_space, "OneHot"):
            if not np.issubdtype(box.dtype, np.integer) or sum(_counts(box)) > 65_536:
                raise ValueError(f"OneHot: needs observations of small integers, got {box}")

    @property
    def observation_space(self) -> Space:
        """Zeros and ones, the last axis as long as the ranges together."""
        return _map_space(
            lambda box: Box(0, 1, (*box.shape[:-1], sum(_counts(box))), np.uint8),
            self.env.observation_space,
        )

    def transform(self, obs: PyTree[Array]) -> PyTree[Array]:
        """Expand the integers."""
        return _map_obs(_onehot, self.env.observation_space, obs)


@struct
class EpisodeTotals(Struct):
    """Sums since reset."""

    total: Float32[Array, ""]  # rewards
    length: Int32[Array, ""]  # steps


class EpisodeStatistics(Wrapper):
    """Adds `info["episode"]`: `return`, `length` so far and `finished`, true in the last step.

    Averages are taken over finished episodes only: see `mean_over_finished`.
    """

    def inner(self, state: WrappedState) -> Any:
        """State of the environment inside."""
        return state.env

    def reset_to(self, key: Key, level: PyTree[Array], params: Any = None) -> Reset:
        """Start an episode in the given level."""
        obs, state = self.env.reset_to(key, level, params)
        totals = EpisodeTotals(total=jnp.float32(0), length=jnp.int32(0))
        return Reset(obs, WrappedState(env=state, own=totals))

    def step(self, key: Key, state: WrappedState, action: Any, params: Any = None) -> Step:
        """Advance and count."""
        _check_wrapped(state, "EpisodeStatistics")
        stepped = self.env.step(key, state.env, action, params)
        totals = EpisodeTotals(
            total=state.own.total + stepped.reward, length=state.own.length + jnp.int32(1)
        )
        episode = {"return": totals.total, "length": totals.length, "finished": stepped.done}
        return stepped._replace(
            state=WrappedState(env=stepped.state, own=totals),
            info={**stepped.info, "episode": episode},
        )


def mean_over_finished(episode: dict[str, Array]) -> dict[str, Array]:
    """Mean return and length over the finished episodes in `info["episode"]` of any leading shape.

    Returns float32 scalars `return` and `length` (0 when none finished) and int32 `count`.
    """
    finished = episode["finished"]
    count = finished.sum(dtype=jnp.int32)

    def mean(values: Array) -> Array:
        total = jnp.where(finished, values, jnp.zeros_like(values)).astype(jnp.float32).sum()
        return total / jnp.maximum(count, 1).astype(jnp.float32)

    return {"return": mean(episode["return"]), "length": mean(episode["length"]), "count": count}


class FrameStack(Wrapper):
    """The last `count` observations along a new first axis, oldest first; a reset fills it."""

    count: int = 4

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        checks.integer_field("FrameStack", "count", self.count, 1)

    @property
    def observation_space(self) -> Space:
        """The space inside, with a first axis of `count`."""

        def stacked(box: Box) -> Box:
            shape = (self.count, *box.shape)
            return Box(box.low, box.high, shape, box.dtype)

        return _map_space(stacked, self.env.observation_space)

    def inner(self, state: WrappedState) -> Any:
        """State of the environment inside."""
        return state.env

    def observe(self, state: WrappedState, params: Any = None) -> PyTree[Array]:
        """Return the remembered observations."""
        return state.own

    def reset_to(self, key: Key, level: PyTree[Array], params: Any = None) -> Reset:
        """Start an episode in the given level."""
        obs, state = self.env.reset_to(key, level, params)
        frames = jax.tree.map(lambda x: jnp.repeat(x[None], self.count, axis=0), obs)
        return Reset(frames, WrappedState(env=state, own=frames))

    def step(self, key: Key, state: WrappedState, action: Any, params: Any = None) -> Step:
        """Advance and move the frames on."""
        _check_wrapped(state, "FrameStack")
        stepped = self.env.step(key, state.env, action, params)
        frames = jax.tree.map(
            lambda old, new: jnp.concatenate([old[1:], new[None]]), state.own, stepped.obs
        )
        return stepped._replace(obs=frames, state=WrappedState(env=stepped.state, own=frames))


@struct
class StickyParams(Struct):
    """Params of the environment inside, and of the stickiness."""

    env: Any
    repeat_probability: Float[Any, "*batch"] | float  # that an action is replaced by the one before

    @property
    def max_steps_in_episode(self) -> Any:
        """Time limit of the environment inside."""
        return self.env.max_steps_in_episode


class StickyAction(Wrapper):
    """Repeats the previous action with a probability (0.25 by default), never in the first step.

    (Machado et al. 2018, "Revisiting the Arcade Learning Environment".) The probability is in the
    params; `info["repeated_action"]` tells when it happened.
    """

    @property
    def fully_observed(self) -> bool:  # type: ignore[override]
        """The previous action is not observed."""
        return False

    @property
    def default_params(self) -> StickyParams:
        """Params inside, and the usual probability."""
        return StickyParams(env=self.env.default_params, repeat_probability=np.float32(0.25))

    def inner(self, state: WrappedState) -> Any:
        """State of the environment inside."""
        return state.env

    def inner_params(self, params: StickyParams | None) -> Any:
        """Params of the environment inside."""
        return None if params is None else params.env

    def reset_to(self, key: Key, level: PyTree[Array], params: Any = None) -> Reset:
        """Start an episode in the given level."""
        params = self.checked_params(params, "reset_to")
        obs, state = self.env.reset_to(key, level, params.env)
        spaces = self.action_space
        previous, _ = spaces.clip(jax.tree.map(jnp.zeros_like, spaces.sample(jax.random.key(0))))
        return Reset(obs, WrappedState(env=state, own=previous))

    def step(self, key: Key, state: WrappedState, action: Any, params: Any = None) -> Step:
        """Advance by the action or by the one before."""
        _check_wrapped(state, "StickyAction")
        params = self.checked_params(params, "step")
        action, invalid = checks.action_in(self.action_space, action, "step")
        key_repeat, key_step = jax.random.split(checks.single_key(key, "step"))
        drawn = jax.random.uniform(key_repeat, dtype=jnp.float32) < params.repeat_probability
        repeats = drawn & (state.time > 0)
        action = jax.tree.map(lambda old, new: jnp.where(repeats, old, new), state.own, action)
        stepped = self.env.step(key_step, state.env, action, params.env)
        info = {**stepped.info, "invalid_action": invalid, "repeated_action": repeats}
        return stepped._replace(state=WrappedState(env=stepped.state, own=action), info=info)


def _check_wrapped(state: Any, name: str) -> None:
    if not isinstance(state, WrappedState):
        kind = type(state).__name__
        raise TypeError(f"step: {name} needs a state of its own reset or step, got {kind}")


def _boxes(space: Space, owner: str) -> list[Box]:
    """Leaves of a space in the order in which JAX flattens its elements."""
    if isinstance(space, Dict):
        return [box for name in sorted(space.spaces) for box in _boxes(space.spaces[name], owner)]
    if not isinstance(space, Box):
        raise ValueError(f"{owner}: does not support the space {space}")
    return [space]


def _map_space(change: Any, space: Space) -> Space:
    if isinstance(space, Dict):
        return Dict({name: _map_space(change, part) for name, part in space.spaces.items()})
    return change(space)


def _map_obs(change: Any, space: Space, obs: PyTree[Array]) -> PyTree[Array]:
    if isinstance(space, Dict):
        return {name: _map_obs(change, part, obs[name]) for name, part in space.spaces.items()}
    return change(space, obs)


def _counts(box: Box) -> list[int]:
    """Number of values of each entry of the last axis, over all other axes."""
    span = np.atleast_1d(box.high.astype(np.int64) - box.low.astype(np.int64) + 1)
    return span.reshape(-1, span.shape[-1]).max(axis=0).tolist()


def _onehot(box: Box, obs: Array) -> Array:
    values = jnp.atleast_1d(obs.astype(jnp.int32) - jnp.asarray(box.low.astype(np.int32)))
    parts = [
        jax.nn.one_hot(values[..., i], count, dtype=jnp.uint8)
        for i, count in enumerate(_counts(box))
    ]
    return jnp.concatenate(parts, axis=-1)
