"""Reward scaling by the running standard deviation of discounted returns.

As in Gymnasium's NormalizeReward and PureJaxRL, rewards are neither centred nor clipped. There are
two deliberate differences from both. First, the standard deviation is updated with the whole
rollout before its rewards are divided, so all rewards of a rollout have the same scale. Second, the
discounted return at an episode's last step still includes the episode's earlier rewards, and
restarts after this step. In Gymnasium and PureJaxRL, the return restarts one step earlier, and at
the last step it has only this step's reward. Logged returns stay in the environment's units.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from . import forced, value_scales
from .moments import Moments


def begin(settings: Any, envs: int) -> dict[str, Any]:
    """Return initial values of the `Runner` fields for reward scaling; {} if it is off."""
    if not getattr(settings, "reward_scaling", False):
        return {}
    return {"gain_returns": jnp.zeros(envs, jnp.float32)}


def scale_rewards(learner: Any, runner: Any, rollout: Any) -> tuple[Any, Any]:
    """If reward scaling is on, divide a rollout's rewards by a running standard deviation.

    The divisor is the standard deviation of all discounted returns so far, this rollout included.
    Return the runner and the rollout.
    """
    before = value_scales.of(runner.weights).rewards
    if not isinstance(before, Moments):
        return runner, rollout
    done = rollout.terminated | rollout.truncated
    gamma, is_forced = learner.settings.gamma, getattr(rollout.forced, "here", ())

    def add(before: Array, step: tuple[Array, Array, Any]) -> tuple[Array, Array]:
        reward, done, is_forced = step
        total = forced.discount(gamma, is_forced) * before + reward
        return jnp.where(done, 0.0, total), total

    returns, sums = jax.lax.scan(add, runner.gain_returns, (rollout.reward, done, is_forced))
    after = before.merged_with(sums.reshape(1, -1), learner.devices)
    runner = value_scales.with_scales(runner._replace(gain_returns=returns), rewards=after)
    return runner, rollout._replace(reward=rollout.reward / after.deviation)
