"""V-trace (Espeholt et al., 2018, IMPALA): learning from fragments that older weights have made.

Ratios of the new policy's probabilities to those that chose the actions weigh what happened; they
count for 1 at most (both of the paper's limits are 1, so that the advantage of an action is the
correction of its value). Deliberate difference: `gae_lambda` shortens both, so that fragments of
the policy itself have PPO's advantages, number by number.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32

from .ppo import Rollout, advantages

LIMIT = 1.0  # of a ratio: rho-bar and c-bar


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
    surprise = advantages(rollout, last_value, gamma, 0.0)
    carried = jnp.where(rollout.terminated | rollout.truncated, 0.0, gamma * gae_lambda)

    def back(later: Array, step: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        surprise, carried, weight = step
        advantage = weight * (surprise + carried * later)
        return advantage, advantage

    steps = (surprise, carried, jnp.minimum(ratio, LIMIT))
    return jax.lax.scan(back, jnp.zeros_like(last_value), steps, reverse=True)[1]
