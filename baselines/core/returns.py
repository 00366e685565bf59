"""What actions were worth: advantages, and with them lambda-returns; V-trace; n-step returns.

All of them end where an episode ends: what follows is worth nothing if the task ended there, and
the value of the true successor if the time limit cut the episode.

V-trace (Espeholt et al., 2018, IMPALA) learns from fragments that older weights have made. Ratios
of the new policy's probabilities to those that chose the actions weigh what happened; they count
for 1 at most (both of the paper's limits are 1, so that the advantage of an action is the
correction of its value). Deliberate difference: `gae_lambda` shortens both, so that fragments of
the policy itself have PPO's advantages, number by number.
"""

from typing import Any

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from .devices import Devices

UNROLL = 16  # steps that one kernel of an accelerator goes back
LIMIT = 1.0  # of a ratio: rho-bar and c-bar
TINY = 1e-8  # least sum that weights are divided by


def advantages(
    rollout: Any,
    last_value: Array,
    gamma: float | Float32[Array, ""],
    gae_lambda: float | Float32[Array, ""],
    weight: Float32[Array, "steps envs"] | None = None,
) -> Float32[Array, "steps envs"]:
    """Generalised advantage estimates (Schulman et al., 2016).

    `rollout` is an `acting.Rollout`, `last_value` what follows its last steps is worth. With the
    weights of V-trace, and values of the new weights, they are those under the new policy; added to
    the values they are what these should be.
    """
    chex.assert_rank(rollout.value, 2, custom_message="value is [steps, envs]")
    chex.assert_shape(
        [rollout.reward, rollout.terminated, rollout.truncated, rollout.truncation_value],
        rollout.value.shape,
        custom_message="reward, terminated, truncated, truncation_value: [steps, envs] like value",
    )
    if weight is not None:
        shapes = [rollout.value, weight]
        chex.assert_equal_shape(shapes, custom_message="value and weight, [steps, envs]")
    chex.assert_shape(last_value, rollout.value.shape[1:], custom_message="last_value is [envs]")
    following = jnp.concatenate([rollout.value[1:], last_value[None]])
    following = jnp.where(rollout.truncated, rollout.truncation_value, following)
    following = jnp.where(rollout.terminated, 0.0, following)
    surprise = rollout.reward + gamma * following - rollout.value
    carried = jnp.where(rollout.terminated | rollout.truncated, 0.0, gamma * gae_lambda)

    def back(later: Array, step: tuple[Array, Array, Any]) -> tuple[Array, Array]:
        surprise, carried, weight = step
        advantage = surprise + carried * later
        advantage = advantage if weight is None else weight * advantage
        return advantage, advantage

    steps = (surprise, carried, weight)
    return jax.lax.scan(back, jnp.zeros_like(last_value), steps, reverse=True, unroll=UNROLL)[1]


def limited(ratio: Float32[Array, "*batch"]) -> Float32[Array, "*batch"]:
    """Weights of what happened, from ratios of probabilities."""
    return jnp.minimum(ratio, LIMIT)


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


def n_step(
    reward: Float32[Array, "batch steps"],
    terminated: Bool[Array, "batch steps"],
    truncated: Bool[Array, "batch steps"],
    gamma: float | Float32[Array, ""],
) -> tuple[Float32[Array, " batch"], Float32[Array, " batch"], Int32[Array, " batch"]]:
    """Discounted rewards of each window up to its first end, the discount of what follows, steps.

    The discount is 0 where the task ended.
    """
    steps = jnp.arange(reward.shape[1], dtype=jnp.int32)
    goes_on = jnp.cumprod(~(terminated | truncated), axis=1, dtype=jnp.int32)
    reached = jnp.pad(goes_on[:, :-1], ((0, 0), (1, 0)), constant_values=1)
    length = reached.sum(axis=1, dtype=jnp.int32)
    ended = (terminated & (reached > 0)).any(axis=1)
    powers = jnp.float32(gamma) ** steps.astype(jnp.float32)
    total = (reward * reached.astype(jnp.float32) * powers).sum(axis=1)
    discount = jnp.where(ended, 0.0, jnp.float32(gamma) ** length.astype(jnp.float32))
    return total, discount, length
