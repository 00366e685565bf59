"""Environments of Gymnasium: `gym:CartPole-v1`, or `gym:package.module:Id-v0` for one of a package.

They step in Python, several beside each other in one process (`gymnasium.vector.SyncVectorEnv`);
observations get the dtypes that JAX computes with (64 bits become 32).
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

MASK = "action_mask"  # in an info: which actions are legal
ACTED = (gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete, gymnasium.spaces.Box)


@dataclasses.dataclass(frozen=True)
class GymWorld:
    """What a learner must know of an environment."""

    name: str
    observation_space: spaces.Space
    action_space: spaces.Space

    @property
    def features(self) -> Features:
        """Networks read what is observed."""
        return Features(self.observation_space, identity)


class Outcome(NamedTuple):
    """What a step of all environments brought; those that ended have begun anew in `obs`."""

    obs: PyTree[np.ndarray]
    reward: np.ndarray  # (envs,) float32
    terminated: np.ndarray  # (envs,)
    truncated: np.ndarray  # (envs,), not where the task ended as well
    final_obs: PyTree[np.ndarray]  # the true successors: `obs` where nothing ended
    final_mask: np.ndarray | None  # (envs, actions), legal actions there; None without masks


def look(id: str, fields: dict[str, Any]) -> GymWorld:
    """Make the environment once to see its spaces; `ValueError` for what cannot be trained in."""
    env = make(id, fields)
    env.close()
    if not isinstance(env.action_space, ACTED):
        raise ValueError(
            f"{id} has the action space {env.action_space}; learners on Ray take a Discrete, a "
            f"MultiDiscrete or a Box one: wrap the environment so that it has one of them"
        )
    seen = convert(env.observation_space, f"{id}: observations")
    return GymWorld(id, seen, convert(env.action_space, f"{id}: actions"))


def make(id: str, fields: dict[str, Any]) -> gymnasium.Env:
    """Make one environment; `ValueError` says what is wrong with its id or fields."""
    name = id.removeprefix(GYM)
    try:
        return gymnasium.make(name, **fields)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise ValueError(
            f"{id}: Gymnasium cannot make it ({error}); give gym:ID of a registered one, or "
            f"gym:package.module:ID where importing the module registers it"
        ) from error


def convert(space: gymnasium.Space, what: str) -> spaces.Space:
    """The same space in our terms; `ValueError` for one that has no array of a fixed shape."""
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
        f"{what} are {space}, which no network here reads; wrap the environment so that it gives "
        f"Box, Discrete, MultiDiscrete, MultiBinary or a Dict of them"
    )


class GymEnvs:
    """`count` environments that step together and begin anew where they end.

    `mask` (envs, actions) tells which actions are legal now, by `info["action_mask"]`, as Taxi and
    this package's adapters give it; None where the first reset gives none.
    """

    mask: np.ndarray | None

    def __init__(self, id: str, fields: dict[str, Any], count: int) -> None:
        """Call `reset` before `step`."""
        self._envs = SyncVectorEnv(
            [lambda: make(id, fields)] * count, autoreset_mode=AutoresetMode.SAME_STEP
        )
        self._id = id
        self._see = reader(self._envs.single_observation_space)
        self._space = self._envs.single_action_space
        self.action_space = convert(self._space, f"{id}: actions")

    def reset(self, seed: int) -> PyTree[np.ndarray]:
        """Begin all of them, with seeds that count up; return what they see, by environment."""
        obs, info = self._envs.reset(seed=seed)
        self.mask = self._legal(info) if MASK in info else None
        return self._see(obs)

    def step(self, action: np.ndarray) -> Outcome:
        """Step all of them with `action` (envs, ...), where numbered ones count from 0."""
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
        """Actions as the environments take them."""
        if isinstance(self._space, gymnasium.spaces.Box):  # whose bounds may be of more digits
            return np.clip(action.astype(self._space.dtype), self._space.low, self._space.high)
        return action + np.asarray(getattr(self._space, "start", 0))

    def _legal(self, info: dict[str, Any]) -> np.ndarray:
        """Masks of all environments; `ValueError` unless each environment gave one."""
        self._require(np.all(info.get(f"_{MASK}", False)))
        return np.stack(list(info[MASK])).astype(np.bool_)

    def _require(self, given: Any) -> None:
        if not given:
            raise ValueError(
                f"{self._id} gives info[{MASK!r}] in some resets and steps but not in all; give "
                f"it in every one of them, or never"
            )

    def _final_mask(self, info: dict[str, Any]) -> np.ndarray | None:
        """Legal actions in the true successors."""
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
        """End all of them."""
        self._envs.close()


def reader(space: gymnasium.Space) -> Callable[[Any], PyTree[np.ndarray]]:
    """What turns observations of a space, one or a batch, into those of `convert(space)`."""
    if isinstance(space, gymnasium.spaces.Dict):
        parts = {name: reader(part) for name, part in space.items()}
        return lambda obs: {name: read(obs[name]) for name, read in parts.items()}
    dtype, start = convert(space, "observations").dtype, getattr(space, "start", 0)
    return lambda obs: (np.asarray(obs) - start).astype(dtype)


def _box(space: gymnasium.spaces.Box) -> spaces.Box:
    """A Box of at most 32 bits: whole numbers beyond them become floats."""
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
    """A copy of a batch in which the observations of some environments are others."""
    if isinstance(batch, dict):
        return {k: _replaced(v, {i: one[k] for i, one in ones.items()}) for k, v in batch.items()}
    batch = batch.copy()
    for i, one in ones.items():
        batch[i] = one
    return batch
