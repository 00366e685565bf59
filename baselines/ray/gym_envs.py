"""Gymnasium environments: `gym:CartPole-v1`, or `gym:package.module:Id-v0` from another package.

A process steps several environments one after another in Python
(`gymnasium.vector.SyncVectorEnv`). Observations are converted to dtypes that JAX supports by
default: 64-bit numbers become 32-bit numbers.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from jaxtyping import PyTree

from jaxenvs import spaces
from jaxenvs.core.facts import Features, identity

from .. import GYM

MASK = "action_mask"  # key of the legal actions' mask in Gymnasium's `info`
ACTED = (gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete, gymnasium.spaces.Box)


@dataclasses.dataclass(frozen=True)
class GymWorld:
    """Name and spaces of a Gymnasium environment, from which a network can be built."""

    name: str
    observation_space: spaces.Space
    action_space: spaces.Space
    uses_mask: bool = False  # whether resets give `info["action_mask"]`

    @property
    def features(self) -> Features:
        """Network inputs: the observations, unchanged."""
        return Features(self.observation_space, identity)


class Outcome(NamedTuple):
    """Result of one step of all environments.

    Where the step ended an episode, `final_obs` is the last observation of this episode, and `obs`
    is the first observation of the next episode (autoreset).
    """

    obs: PyTree[np.ndarray]
    reward: np.ndarray  # float32 (envs,)
    terminated: np.ndarray  # bool (envs,), whether the step terminated the episode
    # bool (envs,), whether the step truncated the episode; False where `terminated` is True
    truncated: np.ndarray
    final_obs: PyTree[np.ndarray]  # observations after the step, before any reset
    # Legal actions at `final_obs`, bool (envs, actions); None if the environments give no masks.
    final_mask: np.ndarray | None


def look(id: str, fields: dict[str, Any]) -> GymWorld:
    """Return an environment's name and spaces; raise `ValueError` if a space is unsupported."""
    env = make(id, fields)
    _, info = env.reset()
    env.close()
    if not isinstance(env.action_space, ACTED):
        raise ValueError(
            f"{id} has the action space {env.action_space}; learners on Ray take a Discrete, a "
            f"MultiDiscrete or a Box one: wrap the environment so that it has one of them"
        )
    seen = convert(env.observation_space, f"{id}: observations")
    return GymWorld(id, seen, convert(env.action_space, f"{id}: actions"), MASK in info)


def make(id: str, fields: dict[str, Any]) -> gymnasium.Env:
    """Make one environment; raise `ValueError` for an invalid id or invalid keywords."""
    name = id.removeprefix(GYM)
    try:
        return gymnasium.make(name, **fields)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise ValueError(
            f"{id}: Gymnasium cannot make it ({error}); give gym:ID of a registered one, or "
            f"gym:package.module:ID where importing the module registers it"
        ) from error


def convert(space: gymnasium.Space, what: str) -> spaces.Space:
    """Convert a Gymnasium space to a jaxenvs space; `ValueError` if there is no equivalent."""
    if isinstance(space, gymnasium.spaces.Dict):
        parts = {name: convert(part, f"{what}[{name!r}]") for name, part in space.items()}
        return spaces.Dict(parts)
    if isinstance(space, gymnasium.spaces.Discrete):
        return spaces.Discrete(int(space.n))
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec)
    if isinstance(space, gymnasium.spaces.MultiBinary):
        return spaces.Box(0, 1, space.shape, np.int8)
    if isinstance(space, gymnasium.spaces.Box):
        return _box(space)
    raise ValueError(
        f"{what} are {space}, which no network supports; wrap the environment so that it returns "
        f"Box, Discrete, MultiDiscrete, MultiBinary or a Dict of them"
    )


class GymEnvs:
    """Vector of `count` environments with autoreset.

    `mask` (envs, actions) is True for legal actions. It is read from `info["action_mask"]`, which
    Taxi and jaxenvs' Gymnasium adapters provide. It is None if the first reset provides no mask.
    """

    mask: np.ndarray | None

    def __init__(self, id: str, fields: dict[str, Any], count: int) -> None:
        """Make the environments; call `reset` before `step`."""
        self._envs = SyncVectorEnv(
            [lambda: make(id, fields)] * count, autoreset_mode=AutoresetMode.SAME_STEP
        )
        self._id = id
        self._see = reader(self._envs.single_observation_space)
        self._space = self._envs.single_action_space
        self.action_space = convert(self._space, f"{id}: actions")

    def reset(self, seed: int) -> PyTree[np.ndarray]:
        """Reset all environments with the seeds `seed`, `seed` + 1, ...; return observations."""
        obs, info = self._envs.reset(seed=seed)
        self.mask = self._legal(info) if MASK in info else None
        return self._see(obs)

    def step(self, action: np.ndarray) -> Outcome:
        """Step all environments with `action` (envs, ...); discrete actions count from 0."""
        obs, reward, terminated, truncated, info = self._envs.step(self._given(action))
        obs = self._see(obs)
        self.mask = self._legal(info) if self.mask is not None else None
        return Outcome(
            obs=obs,
            reward=np.asarray(reward, np.float32),
            terminated=terminated,
            truncated=truncated & ~terminated,
            final_obs=self._true_successors(obs, info),
            final_mask=self._final_mask(info),
        )

    def _given(self, action: np.ndarray) -> np.ndarray:
        """Convert the policy's actions to actions of the Gymnasium action space."""
        # Clip Box actions, because an action rounded to float32 may exceed the float64 bounds.
        if isinstance(self._space, gymnasium.spaces.Box):
            return np.clip(action.astype(self._space.dtype), self._space.low, self._space.high)
        return action + np.asarray(getattr(self._space, "start", 0))

    def _legal(self, info: dict[str, Any]) -> np.ndarray:
        """Return the masks of all environments; `ValueError` if an environment gives no mask."""
        self._require(np.all(info.get(f"_{MASK}", False)))
        return np.stack(list(info[MASK])).astype(np.bool_)

    def _require(self, given: Any) -> None:
        if not given:
            raise ValueError(
                f"{self._id} gives info[{MASK!r}] in some resets and steps but not in all; give "
                f"it in every one of them, or never"
            )

    def _final_mask(self, info: dict[str, Any]) -> np.ndarray | None:
        """Return the masks of legal actions at `Outcome.final_obs`; None if there are no masks."""
        if self.mask is None or "final_obs" not in info:
            return self.mask
        mask, ended = self.mask.copy(), np.flatnonzero(info["_final_obs"])
        final = info.get("final_info", {})
        for i in ended.tolist():
            self._require(MASK in final and final[f"_{MASK}"][i])
            mask[i] = final[MASK][i]
        return mask

    def _true_successors(self, obs: PyTree[np.ndarray], info: dict[str, Any]) -> Any:
        if "final_obs" not in info:
            return obs
        ended = np.flatnonzero(info["_final_obs"]).tolist()
        return _replaced(obs, {i: self._see(info["final_obs"][i]) for i in ended})

    def close(self) -> None:
        """Close all environments."""
        self._envs.close()


def reader(space: gymnasium.Space) -> Callable[[Any], PyTree[np.ndarray]]:
    """Return a function that converts observations from a Gymnasium space to a jaxenvs space.

    The function converts one observation or a batch. The jaxenvs space is `convert(space)`, and may
    have other dtypes.
    """
    if isinstance(space, gymnasium.spaces.Dict):
        parts = {name: reader(part) for name, part in space.items()}
        return lambda obs: {name: read(obs[name]) for name, read in parts.items()}
    dtype, start = convert(space, "observations").dtype, getattr(space, "start", 0)
    return lambda obs: (np.asarray(obs) - start).astype(dtype)


def _box(space: gymnasium.spaces.Box) -> spaces.Box:
    """Convert a Box to a dtype of at most 32 bits; integers beyond int32 become float32."""
    dtype = np.dtype(space.dtype)
    if dtype == np.bool_:
        dtype = np.dtype(np.int8)
    elif np.issubdtype(dtype, np.integer) and dtype.itemsize > 2:
        limits = np.iinfo(np.int32)
        fits = (space.low >= limits.min).all() and (space.high <= limits.max).all()
        dtype = np.dtype(np.int32 if fits else np.float32)
    elif not np.issubdtype(dtype, np.integer):
        dtype = np.dtype(np.float32)
    return spaces.Box(space.low.astype(dtype), space.high.astype(dtype), space.shape, dtype)


def _replaced(batch: PyTree[np.ndarray], ones: dict[int, Any]) -> PyTree[np.ndarray]:
    """Return a copy of `batch` whose item i is replaced by `ones[i]`, for each key i of `ones`."""
    if isinstance(batch, dict):
        return {k: _replaced(v, {i: one[k] for i, one in ones.items()}) for k, v in batch.items()}
    batch = batch.copy()
    for i, one in ones.items():
        batch[i] = one
    return batch
