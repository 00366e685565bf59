"""Rewards divided by the standard deviation of discounted returns so far.

Gymnasium's NormalizeReward and PureJaxRL do the same, and neither centre nor clip either.
Deliberate differences: the returns of the whole rollout are merged before its rewards are divided,
so that they have one scale; and a return restarts after the end of an episode, where theirs loses
the earlier rewards with the last one. The log stays in the environment's own units.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from . import value_scales
from .moments import Moments


def begin(settings: Any, envs: int) -> dict[str, Any]:
    """Fields of a runner for the scale of rewards; none if the settings ask for none."""
    if not getattr(settings, "reward_scaling", False):
        return {}
    return {"gain_returns": jnp.zeros(envs, jnp.float32)}


def scale_rewards(learner: Any, runner: Any, rollout: Any) -> tuple[Any, Any]:
    """Divide rewards by the standard deviation of discounted returns so far, if settings ask."""
    before = value_scales.of(runner.weights).rewards
    if not isinstance(before, Moments):
        return runner, rollout
    gamma, done = learner.settings.gamma, rollout.terminated | rollout.truncated

    def add(before: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        reward, done = step
        total = gamma * before + reward
        return jnp.where(done, 0.0, total), total

    returns, sums = jax.lax.scan(add, runner.gain_returns, (rollout.reward, done))
    after = before.and_of(sums.reshape(1, -1), learner.devices)
    runner = value_scales.with_scales(runner._replace(gain_returns=returns), rewards=after)
    return runner, rollout._replace(reward=rollout.reward / after.deviation)
