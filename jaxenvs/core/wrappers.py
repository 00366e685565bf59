"""Wrappers: episode statistics, changed observations, changed actions."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32, PyTree

from . import checks
from .env import Reset, Step
from .facts import Features
from .random import Key
from .spaces import Box, Dict, Discrete, Space
from .struct import Struct, struct
from .wrapper import WrappedState, Wrapper

__all__ = [
    "EpisodeStatistics",
    "EpisodeTotals",
    "Flatten",
    "FrameStack",
    "OneHot",
    "Previous",
    "PreviousStep",
    "StickyAction",
    "StickyParams",
    "WrappedState",
    "Wrapper",
    "mean_over_finished",
]


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

    Each entry along the last axis is expanded by its range, and the results are joined: MiniGrid's
    (7, 7, 3) image becomes (7, 7, 20), and a `Discrete(n)` becomes (n,).
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
        return Reset(obs, WrappedState(env=state, memory=totals))

    def step(self, key: Key, state: WrappedState, action: Any, params: Any = None) -> Step:
        """Advance and count."""
        _check_wrapped(state, "EpisodeStatistics")
        stepped = self.env.step(key, state.env, action, params)
        totals = EpisodeTotals(
            total=state.memory.total + stepped.reward, length=state.memory.length + jnp.int32(1)
        )
        episode = {"return": totals.total, "length": totals.length, "finished": stepped.done}
        return stepped._replace(
            state=WrappedState(env=stepped.state, memory=totals),
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
        return state.memory

    def reset_to(self, key: Key, level: PyTree[Array], params: Any = None) -> Reset:
        """Start an episode in the given level."""
        obs, state = self.env.reset_to(key, level, params)
        frames = jax.tree.map(lambda x: jnp.repeat(x[None], self.count, axis=0), obs)
        return Reset(frames, WrappedState(env=state, memory=frames))

    def step(self, key: Key, state: WrappedState, action: Any, params: Any = None) -> Step:
        """Advance and move the frames on."""
        _check_wrapped(state, "FrameStack")
        stepped = self.env.step(key, state.env, action, params)
        frames = jax.tree.map(
            lambda old, new: jnp.concatenate([old[1:], new[None]]), state.memory, stepped.obs
        )
        return stepped._replace(obs=frames, state=WrappedState(env=stepped.state, memory=frames))


@struct
class Previous(Struct):
    """What the agent did last, and what that brought."""

    action: Int32[Array, ""]  # one more than its number; 0 before the first step
    reward: Float32[Array, ""]


class PreviousStep(Wrapper):
    """Also observe the previous action and reward, as agents with memory that learn a task do.

    Observation: a dict of `obs`, what is seen inside; `action` int32, one more than the previous
        action, 0 at the start, which tells that an episode has ended before; `reward` float32, the
        previous reward, 0 at the start.
    """

    def __post_init__(self) -> None:
        """Refuse actions that are not Discrete."""
        super().__post_init__()
        if not isinstance(self.action_space, Discrete):
            raise ValueError(f"PreviousStep: needs Discrete actions, got {self.action_space}")

    @property
    def observation_space(self) -> Dict:
        """The space inside, an action or none, a reward."""
        return Dict({"obs": self.env.observation_space, **self._before})

    @property
    def features(self) -> Features:
        """Features of the environment inside, the action and the reward."""
        space, read = self.env.features
        return Features(Dict({"obs": space, **self._before}), _Beside(read))

    @property
    def map_features(self) -> Features:
        """Map features of the environment inside, the action and the reward, all side by side."""
        space, read = self.env.map_features
        parts = dict(space.spaces) if isinstance(space, Dict) else {"obs": space}
        return Features(Dict({**parts, **self._before}), _Beside(read, flat=True))

    @property
    def _before(self) -> dict[str, Space]:
        inside: Any = self.action_space
        low, high = self.reward_range
        reward = Box(min(low, 0.0), max(high, 0.0), (), np.float32)
        return {"action": Discrete(inside.n + 1), "reward": reward}

    def inner(self, state: WrappedState) -> Any:
        """State of the environment inside."""
        return state.env

    def observe(self, state: WrappedState, params: Any = None) -> dict[str, PyTree[Array]]:
        """Return what is seen inside, and what came before."""
        return _after(self.env.observe(state.env, params), state.memory)

    def reset_to(self, key: Key, level: PyTree[Array], params: Any = None) -> Reset:
        """Start an episode in the given level."""
        obs, state = self.env.reset_to(key, level, params)
        nothing = Previous(action=jnp.int32(0), reward=jnp.float32(0))
        return Reset(_after(obs, nothing), WrappedState(env=state, memory=nothing))

    def step(self, key: Key, state: WrappedState, action: Any, params: Any = None) -> Step:
        """Advance, and remember the action and its reward."""
        _check_wrapped(state, "PreviousStep")
        stepped = self.env.step(key, state.env, action, params)
        taken, _ = checks.action_in(self.action_space, action, "step")
        last = Previous(action=taken + jnp.int32(1), reward=stepped.reward)
        return stepped._replace(
            obs=_after(stepped.obs, last), state=WrappedState(env=stepped.state, memory=last)
        )


@dataclasses.dataclass(frozen=True)
class _Beside:
    """Reads the observation inside; the action and the reward stay as they are."""

    read: Callable[[Any], Any]
    flat: bool = False  # whether the parts of what is read stand beside them

    def __call__(self, obs: dict[str, Any]) -> dict[str, Any]:
        inside = self.read(obs["obs"])
        parts = inside if self.flat and isinstance(inside, dict) else {"obs": inside}
        return {**parts, "action": obs["action"], "reward": obs["reward"]}


@struct
class StickyParams(Struct):
    """Params of the environment inside, and the probability of a repeat."""

    env: Any
    repeat_probability: Float[Any, "*batch"] | float  # of repeating the previous action instead

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
        return Reset(obs, WrappedState(env=state, memory=previous))

    def step(self, key: Key, state: WrappedState, action: Any, params: Any = None) -> Step:
        """Advance by the action or by the one before."""
        _check_wrapped(state, "StickyAction")
        params = self.checked_params(params, "step")
        action, invalid = checks.action_in(self.action_space, action, "step")
        key_repeat, key_step = jax.random.split(checks.single_key(key, "step"))
        drawn = jax.random.uniform(key_repeat, dtype=jnp.float32) < params.repeat_probability
        repeats = drawn & (state.time > 0)
        action = jax.tree.map(lambda old, new: jnp.where(repeats, old, new), state.memory, action)
        stepped = self.env.step(key_step, state.env, action, params.env)
        info = {**stepped.info, "invalid_action": invalid, "repeated_action": repeats}
        return stepped._replace(state=WrappedState(env=stepped.state, memory=action), info=info)


def _after(obs: PyTree[Array], last: Previous) -> dict[str, PyTree[Array]]:
    return {"obs": obs, "action": last.action, "reward": last.reward}


def _check_wrapped(state: Any, name: str) -> None:
    if not isinstance(state, WrappedState):
        kind = type(state).__name__
        raise TypeError(f"step: {name} needs a state from its reset or step, got {kind}")


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
