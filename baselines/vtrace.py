"""V-trace (Espeholt et al., 2018, IMPALA): learning from fragments that older weights have made.

Ratios of the new policy's probabilities to those that chose the actions weigh what happened; they
count for 1 at most (both of the paper's limits are 1, so that the advantage of an action is the
correction of its value). Deliberate difference: `gae_lambda` shortens both, so that fragments of
the policy itself have PPO's advantages, number by number.
"""

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32

from .devices import Devices
from .ppo import Rollout, advantages

LIMIT = 1.0  # of a ratio: rho-bar and c-bar
TINY = 1e-8  # least sum that weights are divided by


def limited(ratio: Float32[Array, "*batch"]) -> Float32[Array, "*batch"]:
    """Weights of what happened, from ratios of probabilities."""
    return jnp.minimum(ratio, LIMIT)


def corrected_advantages(
    rollout: Rollout,
    last_value: Float32[Array, " envs"],
    ratio: Float32[Array, "steps envs"],
    gamma: float,
    gae_lambda: float,
) -> Float32[Array, "steps envs"]:
    """Advantages of the actions under the new policy; added to the values, what these should be.

    `rollout.value` and `last_value` are those of the new weights, `ratio` is how many times as
    probable they make each action. Ends are those of `ppo.advantages`.
    """
    chex.assert_equal_shape([rollout.value, ratio], custom_message="value and ratio, [steps, envs]")
    surprise = advantages(rollout, last_value, gamma, 0.0)
    carried = jnp.where(rollout.terminated | rollout.truncated, 0.0, gamma * gae_lambda)

    def back(later: Array, step: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        surprise, carried, weight = step
        advantage = weight * (surprise + carried * later)
        return advantage, advantage

    steps = (surprise, carried, limited(ratio))
    return jax.lax.scan(back, jnp.zeros_like(last_value), steps, reverse=True)[1]


def baselines(
    weighted: Float32[Array, "rows batch"], weight: Float32[Array, "rows batch"], devices: Devices
) -> Float32[Array, "rows batch"]:
    """Return the baseline to subtract from each row of weighted advantages: `weight` times their
    weighted mean, taken over all devices.

    A baseline favours no action only if it carries the same weights as the advantages: with their
    plain mean, equally good actions would teach the policy to do more of what it already prefers.
    """
    chex.assert_rank(weighted, 2, custom_message="weighted is [rows, batch]")
    chex.assert_equal_shape([weighted, weight], custom_message="weighted and weight, [rows, batch]")
    sums = jnp.stack([weighted.mean(axis=1), weight.mean(axis=1)])
    total, weights = devices.mean(sums)
    return weight * (total / jnp.maximum(weights, TINY))[:, None]
