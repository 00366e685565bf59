"""The search of MuZero: plans from observations, in the learned model alone.

It knows the legal actions at its root and nowhere else.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, PyTree

from jaxenvs.core.masking import Mask, legal

from ..core.learner import Learner
from . import gumbel

DIRICHLET = 0.25  # share of noise in the policy at the root of a search with chance


class Plan(NamedTuple):
    """What a search returns, by observation."""

    action: Int32[Array, " batch"]
    policy: Float32[Array, "batch actions"]  # probabilities to learn


def planned(
    learner: Learner[Any],
    weights: PyTree[Array],
    key: Array,
    obs: PyTree[Array],
    mask: Mask,
    gumbel_scale: float = 1.0,
    dirichlet: float = DIRICHLET,
) -> Plan:
    """Search from each observation, in the model alone; `gumbel_scale=0` draws no action.

    `mask` are the legal actions there, as no others are known. `dirichlet` is the share of noise at
    the root of a search with chance.
    """
    import mctx

    settings, network = learner.settings, learner.network

    def predicted(latent: Array) -> dict[str, Any]:
        logits, value = network.of_batch(weights, "predict", latent)
        return {"prior_logits": logits, "value": network.number(value)}

    def imagined(weights: Any, key: Any, action: Any, latent: Any) -> tuple[Any, Any]:
        latent, reward = network.of_batch(weights, "imagine", latent, action)
        discount = jnp.full(action.shape, settings.gamma, jnp.float32)
        known: dict[str, Any] = {"reward": network.number(reward), "discount": discount}
        return mctx.RecurrentFnOutput(**known, **predicted(latent)), latent

    latent = network.of_batch(weights, "represent", obs)
    known = {**predicted(latent), "embedding": latent}
    known["prior_logits"] = legal(known["prior_logits"], mask)
    if settings.codes:
        drawn = (gumbel_scale, dirichlet)
        return planned_with_chance(learner, weights, key, known, predicted, mask, *drawn)
    asked = (mctx.RootFnOutput(**known), imagined, mask, gumbel_scale)
    found = gumbel.searched(settings, weights, key, *asked)
    return Plan(jnp.asarray(found.action, jnp.int32), jnp.asarray(found.action_weights))


def planned_with_chance(
    learner: Learner[Any],
    weights: PyTree[Array],
    key: Array,
    known: dict[str, Any],
    predicted: Callable[[Array], dict[str, Any]],
    mask: Mask,
    temperature: float,
    dirichlet: float,
) -> Plan:
    """Search with chance between actions, from what is `known` at the root.

    `predicted` are the policy and the value of latent states. Actions are drawn by their visits
    with this `temperature`; 0 takes the most visited one.
    """
    import mctx

    settings, network = learner.settings, learner.network

    def decided(weights: Any, key: Any, action: Any, latent: Any) -> tuple[Any, Any]:
        after = network.of_batch(weights, "act", latent, action)
        logits, value = network.of_batch(weights, "expect", after)
        expected: dict[str, Any] = {"chance_logits": logits}
        expected["afterstate_value"] = network.number(value)
        return mctx.DecisionRecurrentFnOutput(**expected), after

    def happened(weights: Any, key: Any, code: Any, after: Any) -> tuple[Any, Any]:
        code = jax.nn.one_hot(code, settings.codes, dtype=jnp.float32)
        latent, reward = network.of_batch(weights, "happen", after, code)
        found = predicted(latent)
        found["action_logits"] = found.pop("prior_logits")
        found["reward"] = network.number(reward)
        found["discount"] = jnp.full_like(found["reward"], settings.gamma)
        return mctx.ChanceRecurrentFnOutput(**found), latent

    with jax.numpy_dtype_promotion("standard"):  # mctx mixes dtypes
        found = mctx.stochastic_muzero_policy(
            params=weights,
            rng_key=key,
            root=mctx.RootFnOutput(**known),
            decision_recurrent_fn=decided,
            chance_recurrent_fn=happened,
            num_simulations=settings.simulations,
            invalid_actions=jax.tree.map(jnp.logical_not, mask),
            dirichlet_fraction=dirichlet,
            temperature=temperature,
        )
    return Plan(jnp.asarray(found.action, jnp.int32), jnp.asarray(found.action_weights))
