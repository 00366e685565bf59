"""Wrappers that normalise observations or rewards by running statistics."""

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
    """Running mean and variance of a pytree of values.

    `count` is the number of values so far; `mean` and `variance` have the structure of the values.
    """

    count: Float32[Array, ""]
    mean: PyTree[Array]
    variance: PyTree[Array]

    @classmethod
    def like(cls, values: PyTree[Array]) -> "Moments":
        """Return the initial statistics of `RunningMeanStd` of Gymnasium.

        The mean is 0, the variance 1 and the count 1e-4. With so small a count, the first value
        almost replaces the initial mean and variance.
        """
        mean = jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.float32), values)
        variance = jax.tree.map(jnp.ones_like, mean)
        return cls(count=jnp.float32(1e-4), mean=mean, variance=variance)

    def and_of(self, values: PyTree[Array], shared: bool) -> "Moments":
        """Return the statistics updated with one value, or with the values of a whole batch.

        With `shared`, the caller must use `vmap` with the axis name `BATCH`; the values of all
        environments then update the statistics. Source: Chan et al., 1979.
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
    """Return the count, means and variances of `values` over the `vmap` axis `BATCH`."""
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
    """Normalises observations: subtracts their running mean and divides by the standard deviation.

    Observations are float32. The statistics are part of the state and outlive episodes.
    `update_running_mean=False` freezes the statistics, for evaluations.

    With `shared=False`, each environment has separate statistics, as in Gymnasium's
    `NormalizeObservation`. With `shared=True`, all environments of a batch use the same statistics,
    as in Gymnasium's wrapper for vector environments and in PureJaxRL. Shared statistics are not
    updated with the first observation of an episode, but this observation is normalised too.

    The last digits of the observations may differ between two compiled programs.
    """

    epsilon: float = 1e-8  # constant added to the variance, against division by zero
    update_running_mean: bool = True
    shared: bool = False

    persists_across_episodes = True
    fully_observed = False  # the statistics affect observations, but are not observed

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        _check_positive("NormalizeObservation", self.epsilon)

    @property
    def observation_space(self) -> Space:
        """Unbounded float32 space, in the shape of the wrapped environment's observations."""
        return map_space(
            lambda box: Box(-np.inf, np.inf, box.shape, np.float32), self.env.observation_space
        )

    def begin(self, obs: PyTree[Array], ended: Moments | None) -> Moments:
        """Return the statistics at the start of an episode.

        `ended` has the statistics at the end of the previous episode, which this episode continues;
        None in the first episode. The first observation updates the statistics, unless they are
        shared or frozen.
        """
        before = Moments.like(obs) if ended is None else ended
        counts = self.update_running_mean and not self.shared
        return before.and_of(obs, shared=False) if counts else before

    def after(self, memory: Moments, action: Any, step: Step) -> tuple[Moments, Step]:
        """Update the statistics with the new observation."""
        if not self.update_running_mean:
            return memory, step
        return memory.and_of(step.obs, self.shared), step

    def shown(self, obs: PyTree[Array], memory: Moments) -> PyTree[Array]:
        """Return the observation, normalised by the current statistics."""

        def scaled(x: Array, mean: Array, variance: Array) -> Array:
            centred = x.astype(jnp.float32) - mean
            return centred / jnp.sqrt(variance + np.float32(self.epsilon))

        return jax.tree.map(scaled, obs, memory.mean, memory.variance)


@struct
class RewardScale(Struct):
    """State of `NormalizeReward`."""

    total: Float32[Array, ""]  # discounted sum of the current episode's rewards so far
    moments: Moments  # running mean and variance of `total` over all steps


class NormalizeReward(SuccessInInfo, StatefulWrapper):
    """Divides rewards by the running standard deviation of discounted returns.

    The mean is not subtracted. `gamma` is the learner's discount; `shared` and
    `update_running_mean` are explained in `NormalizeObservation`. Deliberate difference from
    Gymnasium's `NormalizeReward`: when a step terminates an episode, the discounted return here
    includes all rewards of the episode, and the next episode starts with a return of 0. In
    Gymnasium, the return includes only the reward of this step, and the next episode starts with
    this reward.
    """

    gamma: float = 0.99
    epsilon: float = 1e-8  # constant added to the variance, against division by zero
    update_running_mean: bool = True
    shared: bool = False

    persists_across_episodes = True
    reward_range = (-float("inf"), float("inf"))

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        _check_positive("NormalizeReward", self.epsilon)
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"NormalizeReward: gamma={self.gamma} must be from 0 to 1")

    def begin(self, obs: PyTree[Array], ended: RewardScale | None) -> RewardScale:
        """Set the discounted return to zero and keep the statistics of earlier episodes."""
        zero = jnp.float32(0)
        moments = Moments.like(zero) if ended is None else ended.moments
        return RewardScale(total=zero, moments=moments)

    def after(self, memory: RewardScale, action: Any, step: Step) -> tuple[RewardScale, Step]:
        """Update the statistics with the discounted return so far, then scale the reward."""
        total = memory.total * np.float32(self.gamma) + step.reward
        moments = memory.moments
        if self.update_running_mean:
            moments = moments.and_of(total, self.shared)
        scale = jnp.sqrt(moments.variance + np.float32(self.epsilon))
        scaled = with_success(self.env, step)._replace(reward=step.reward / scale)
        return RewardScale(total=total, moments=moments), scaled


def refuse_shared(env: Env, where: str, advice: str) -> None:
    """Raise `ValueError` if `env` contains a normalising wrapper with `shared=True`.

    `ActionRepeat`, and `make_vec` with `autoreset="next_step"`, call this function. In both, some
    environments of a batch may have ended and make no real step, while others do. Shared statistics
    would wrongly include the environments without a real step.
    """
    while isinstance(env, Wrapper):
        if isinstance(env, (NormalizeObservation, NormalizeReward)) and env.shared:
            raise ValueError(f"{where}: {type(env).__name__}(shared=True) {advice}")
        env = env.env


def _check_positive(owner: str, epsilon: float) -> None:
    if not epsilon > 0:
        raise ValueError(f"{owner}: epsilon={epsilon} must be above 0")
