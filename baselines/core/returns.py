"""Advantages and returns: GAE, lambda-returns, V-trace and n-step returns.

All sums stop at the end of an episode. The bootstrap value is 0 after a termination, and the value
of the final observation after a truncation.

V-trace (Espeholt et al., 2018, IMPALA) learns from rollouts that were collected with older weights.
The TD errors are weighted by importance ratios of the current policy to the acting policy, clipped
at 1. Both of the paper's clipping limits, rho-bar and c-bar, are 1, so a single recursion gives
both the advantages and the corrections of the values. Deliberate difference from the paper:
`gae_lambda` shortens the traces of both the advantages and the corrections, so on-policy rollouts
get exactly PPO's advantages.
"""

from typing import Any

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from . import forced
from .devices import Devices

# Number of steps that each iteration of the backward scan computes. On accelerators, XLA fuses
# these steps into one kernel, so that fewer kernels are launched.
UNROLL = 16
LIMIT = 1.0  # upper limit of V-trace's importance ratios, both rho-bar and c-bar
TINY = 1e-8  # lower bound of the mean weight, so that `baselines` never divides by 0


def advantages(
    rollout: Any,
    last_value: Array,
    gamma: float | Float32[Array, ""],
    gae_lambda: float | Float32[Array, ""],
    weight: Float32[Array, "steps envs"] | None = None,
) -> Float32[Array, "steps envs"]:
    """Return generalised advantage estimates (Schulman et al., 2016).

    `rollout` is a `rollouts.Rollout`; `last_value` is the value of the observation after its last
    step. If the policy has changed since the rollout, pass V-trace weights as `weight`, and a
    rollout with values of the current network. The value targets are advantages plus values. If
    forced steps are skipped, `rollout.forced` changes discounts and traces, see forced.py.
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
    is_followed = getattr(rollout.forced, "following", ())
    discount = forced.discount(gamma, is_followed)
    delta = rollout.reward + discount * following - rollout.value
    decay = forced.discount(gamma * gae_lambda, is_followed)
    decay = jnp.where(rollout.terminated | rollout.truncated, 0.0, decay)

    def back(later: Array, step: tuple[Array, Array, Any]) -> tuple[Array, Array]:
        delta, decay, weight = step
        advantage = delta + decay * later
        advantage = advantage if weight is None else weight * advantage
        return advantage, advantage

    steps = (delta, decay, weight)
    return jax.lax.scan(back, jnp.zeros_like(last_value), steps, reverse=True, unroll=UNROLL)[1]


def limited(ratio: Float32[Array, "*batch"]) -> Float32[Array, "*batch"]:
    """Return V-trace weights: importance ratios, limited to at most 1."""
    return jnp.minimum(ratio, LIMIT)


def baselines(
    weighted: Float32[Array, "rows batch"],
    weight: Float32[Array, "rows batch"],
    devices: Devices,
    counts: Float32[Array, "rows batch"] | None = None,
) -> Float32[Array, "rows batch"]:
    """Return the baselines that are subtracted from the V-trace advantages `weighted`.

    The first axis of the arrays indexes minibatches. The baseline of a step is its V-trace weight,
    in `weight`, times the minibatch's weighted mean advantage over all devices. Advantages already
    subtract the value of the observation; the baseline reduces the variance of the policy gradient
    further. `counts` has the weights of the steps in these means, 0 for skipped forced steps; None:
    all are equal.

    The factor `weight` keeps the gradient unbiased. If all steps of a minibatch had the mean as
    their baseline, the gradient would strengthen the policy's preferences even among equally good
    actions.
    """
    chex.assert_rank(weighted, 2, custom_message="weighted is [rows, batch]")
    chex.assert_equal_shape([weighted, weight], custom_message="weighted and weight, [rows, batch]")
    both = [forced.weighted(each, () if counts is None else counts) for each in (weighted, weight)]
    sums = jnp.stack(both).mean(axis=2)
    total, weights = devices.mean(sums)
    return weight * (total / jnp.maximum(weights, TINY))[:, None]


def n_step(
    reward: Float32[Array, "batch steps"],
    terminated: Bool[Array, "batch steps"],
    truncated: Bool[Array, "batch steps"],
    gamma: float | Float32[Array, ""],
    following: Bool[Array, "batch steps"] | tuple[()] = (),
    decisions: int | None = None,
) -> tuple[Float32[Array, " batch"], Float32[Array, " batch"], Int32[Array, " batch"]]:
    """Return n-step return, bootstrap discount and number of steps of each sequence of n steps.

    A sequence stops early at the end of an episode. The n-step return is the discounted sum of
    rewards, without the bootstrap value. The bootstrap value's discount is gamma ** steps, or 0
    after a termination.

    If forced steps are skipped, `following` says whether the state after a step is forced and
    belongs to the same episode. Such a step is not discounted, and a sequence stops early at its
    next decision number `decisions`.
    """
    # number of discounted steps, up to each step and before it
    if isinstance(following, jax.Array):
        number = jnp.cumsum(~following, axis=1, dtype=jnp.int32)
    else:
        number = jnp.arange(1, reward.shape[1] + 1, dtype=jnp.int32)[None]
    power = jnp.pad(number[:, :-1], ((0, 0), (1, 0))).astype(jnp.float32)
    stops = terminated | truncated
    if decisions is not None:
        stops |= number == decisions
    goes_on = jnp.cumprod(~stops, axis=1, dtype=jnp.int32)
    reached = jnp.pad(goes_on[:, :-1], ((0, 0), (1, 0)), constant_values=1)
    length = reached.sum(axis=1, dtype=jnp.int32)
    ended = (terminated & (reached > 0)).any(axis=1)
    total = (reward * reached.astype(jnp.float32) * jnp.float32(gamma) ** power).sum(axis=1)
    last = (number * reached).max(axis=1).astype(jnp.float32)
    discount = jnp.where(ended, 0.0, jnp.float32(gamma) ** last)
    return total, discount, length
