"""Wrappers that normalise observations and rewards by running statistics."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, PyTree

from ..env import Env, Step
from ..parts.batch import BATCH
from ..spaces import Box, Space
from ..stateful import StatefulWrapper
from ..struct import Struct, struct
from ..wrapper import Wrapper
from .observations import map_space
from .success import SuccessInInfo, with_success


@struct
class Moments(Struct):
    """Running mean and variance, with the structure of the values."""

    count: Float32[Array, ""]
    mean: PyTree[Array]
    variance: PyTree[Array]

    @classmethod
    def like(cls, values: PyTree[Array]) -> "Moments":
        """Start as Gymnasium's `RunningMeanStd` does: mean 0, variance 1, almost no weight."""
        mean = jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.float32), values)
        variance = jax.tree.map(jnp.ones_like, mean)
        return cls(count=jnp.float32(1e-4), mean=mean, variance=variance)

    def and_of(self, values: PyTree[Array], shared: bool) -> "Moments":
        """Return the statistics updated with one value, or a whole batch (Chan et al., 1979).

        `shared`: whether `values` is mapped over the batch, as the `vmap` axis `BATCH`.
        """
        values = jax.tree.map(lambda x: x.astype(jnp.float32), values)
        number, mean, variance = _over_batch(values) if shared else (jnp.float32(1), values, None)
        variance = jax.tree.map(jnp.zeros_like, mean) if variance is None else variance
        total = self.count + number

        def combined(old: Array, new: Array, before: Array, now: Array) -> Array:
            between = jnp.square(now - before) * self.count * number / total
            return (old * self.count + new * number + between) / total

        return Moments(
            count=total,
            mean=jax.tree.map(lambda a, b: a + (b - a) * number / total, self.mean, mean),
            variance=jax.tree.map(combined, self.variance, variance, self.mean, mean),
        )


def _over_batch(values: PyTree[Array]) -> tuple[Array, PyTree[Array], PyTree[Array]]:
    """Return count, means and variances over the environments of a batch."""
    try:
        number = jax.lax.psum(jnp.float32(1), BATCH)
    except NameError:
        raise ValueError(
            f"shared=True needs a batch: step with make_vec, or with "
            f"jax.vmap(env.step, axis_name={BATCH!r})"
        ) from None
    mean = jax.tree.map(lambda x: jax.lax.pmean(x, BATCH), values)
    variance = jax.tree.map(lambda x, m: jax.lax.pmean(jnp.square(x - m), BATCH), values, mean)
    return number, mean, variance


class NormalizeObservation(StatefulWrapper):
    """Observations minus their running mean, divided by their standard deviation, as float32.

    The statistics are part of the state and outlive episodes. `shared=False`: each environment has
    separate statistics, as in Gymnasium's `NormalizeObservation`. `shared=True`: the environments
    of a batch share them, as in Gymnasium's wrapper for vector environments and in PureJaxRL; first
    observations of episodes are then normalised, but not counted. `update_running_mean=False`
    freezes the statistics, for evaluations. The last digits may differ between two compiled
    programs.
    """

    epsilon: float = 1e-8  # constant added to the variance
    update_running_mean: bool = True
    shared: bool = False

    remembers_episodes = True
    fully_observed = False  # the statistics are not observed

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        _check_positive("NormalizeObservation", self.epsilon)

    @property
    def observation_space(self) -> Space:
        """All float32 numbers, in the shape of the wrapped environment's observations."""
        return map_space(
            lambda box: Box(-np.inf, np.inf, box.shape, np.float32), self.env.observation_space
        )

    def begin(self, obs: PyTree[Array], ended: Moments | None) -> Moments:
        """Keep the statistics and include the first observation."""
        before = Moments.like(obs) if ended is None else ended
        counts = self.update_running_mean and not self.shared
        return before.and_of(obs, shared=False) if counts else before

    def after(self, memory: Moments, action: Any, step: Step) -> tuple[Moments, Step]:
        """Update the statistics with the observation."""
        if not self.update_running_mean:
            return memory, step
        return memory.and_of(step.obs, self.shared), step

    def shown(self, obs: PyTree[Array], memory: Moments) -> PyTree[Array]:
        """Return the observation normalised by the statistics."""

        def scaled(x: Array, mean: Array, variance: Array) -> Array:
            centred = x.astype(jnp.float32) - mean
            return centred / jnp.sqrt(variance + np.float32(self.epsilon))

        return jax.tree.map(scaled, obs, memory.mean, memory.variance)


@struct
class RewardScale(Struct):
    """State of `NormalizeReward`."""

    total: Float32[Array, ""]  # discounted sum of the episode's rewards so far
    moments: Moments  # running statistics of these sums


class NormalizeReward(SuccessInInfo, StatefulWrapper):
    """Rewards divided by the running standard deviation of discounted returns; never centred.

    `gamma` is the learner's discount; `shared` and `update_running_mean` are explained in
    `NormalizeObservation`. Deliberate difference from Gymnasium's: the return of a step that
    terminates an episode includes all rewards of the episode, and the next episode starts at 0.
    Gymnasium's drops the earlier rewards in that step and carries its reward into the next episode.
    """

    gamma: float = 0.99
    epsilon: float = 1e-8  # constant added to the variance
    update_running_mean: bool = True
    shared: bool = False

    remembers_episodes = True
    reward_range = (-float("inf"), float("inf"))

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        _check_positive("NormalizeReward", self.epsilon)
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"NormalizeReward: gamma={self.gamma} must be from 0 to 1")

    def begin(self, obs: PyTree[Array], ended: RewardScale | None) -> RewardScale:
        """Set the return to zero and keep the statistics."""
        zero = jnp.float32(0)
        moments = Moments.like(zero) if ended is None else ended.moments
        return RewardScale(total=zero, moments=moments)

    def after(self, memory: RewardScale, action: Any, step: Step) -> tuple[RewardScale, Step]:
        """Update the statistics with the return so far, then scale the reward."""
        total = memory.total * np.float32(self.gamma) + step.reward
        moments = memory.moments
        if self.update_running_mean:
            moments = moments.and_of(total, self.shared)
        scale = jnp.sqrt(moments.variance + np.float32(self.epsilon))
        scaled = with_success(self.env, step)._replace(reward=step.reward / scale)
        return RewardScale(total=total, moments=moments), scaled


def refuse_shared(env: Env, where: str, advice: str) -> None:
    """Raise `ValueError` for a wrapper with shared statistics.

    Called where only some environments of a batch step: statistics over the batch would include
    the others.
    """
    while isinstance(env, Wrapper):
        if isinstance(env, (NormalizeObservation, NormalizeReward)) and env.shared:
            raise ValueError(f"{where}: {type(env).__name__}(shared=True) {advice}")
        env = env.env


def _check_positive(owner: str, epsilon: float) -> None:
    if not epsilon > 0:
        raise ValueError(f"{owner}: epsilon={epsilon} must be above 0")
