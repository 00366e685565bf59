"""Wrappers that change rewards: `TransformReward` and `ClipReward`."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from ..env import Step
from ..random import Key
from .success import SuccessInInfo, with_success


class TransformReward(SuccessInInfo):
    """Replaces each reward by `func(reward)`, a traceable function of a float32 scalar.

    Define `func` once. With a new lambda for each environment, JAX would compile again each time,
    because environments are hashed by their fields and every lambda has another hash.
    """

    func: Callable[[Array], Any]

    @property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """Unbounded, because the range of `func` is not known."""
        return -float("inf"), float("inf")

    def reward(self, reward: Float32[Array, ""]) -> Float32[Array, ""]:
        """Apply `func` to a reward and check that it returns one number."""
        changed = jnp.asarray(self.func(reward))
        if changed.shape != ():
            raise TypeError(f"TransformReward: func must return one number, got {changed.shape}")
        return changed.astype(jnp.float32)

    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> Step:
        """Advance by one action, and transform the reward."""
        stepped = with_success(self.env, super().step(key, state, action, params))
        return stepped._replace(reward=self.reward(stepped.reward))


class ClipReward(SuccessInInfo):
    """Clips each reward to the range from `min_reward` to `max_reward`; None means no bound."""

    min_reward: float | None = None
    max_reward: float | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` unless there is a bound and `min_reward` is at most `max_reward`."""
        super().__post_init__()
        if self.min_reward is None and self.max_reward is None:
            raise ValueError("ClipReward: give min_reward, max_reward or both")
        low, high = self._bounds
        if not low <= high:
            raise ValueError(f"ClipReward: min_reward={low} must not exceed max_reward={high}")

    @property
    def _bounds(self) -> tuple[float, float]:
        low, high = self.min_reward, self.max_reward
        return -np.inf if low is None else low, np.inf if high is None else high

    @property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """Reward range of the wrapped environment, clipped to the bounds."""
        low, high = (float(np.clip(end, *self._bounds)) for end in self.env.reward_range)
        return low, high

    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> Step:
        """Advance by one action, and clip the reward."""
        stepped = with_success(self.env, super().step(key, state, action, params))
        low, high = map(np.float32, self._bounds)
        return stepped._replace(reward=jnp.clip(stepped.reward, low, high))
