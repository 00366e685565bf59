"""MuZero's tree search with mctx, in the learned model, for a batch of observations.

Illegal actions are masked only at the root, because the model does not predict legal actions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, PyTree

from jaxenvs.core.masking import Mask, legal

from . import gumbel
from .muzero_network import MuZeroLearner

DIRICHLET = 0.25  # fraction of Dirichlet noise in the root policy of Stochastic MuZero


class Plan(NamedTuple):
    """Result of the search from each observation of a batch."""

    action: Int32[Array, " batch"]
    policy: Float32[Array, "batch actions"]  # improved policy, the target of the policy loss


def plan(
    learner: MuZeroLearner,
    weights: PyTree[Array],
    key: Array,
    obs: PyTree[Array],
    mask: Mask,
    gumbel_scale: float = 1.0,
    dirichlet: float = DIRICHLET,
) -> Plan:
    """Search in the model from each observation; return the actions and improved policies.

    `mask` holds the legal actions at the roots. `gumbel_scale` is the scale of the Gumbel noise at
    the root; 0 makes the actions deterministic. Stochastic MuZero uses `gumbel_scale` as the
    temperature of the visit counts instead, and `dirichlet` as the fraction of Dirichlet noise in
    the root policy; its actions are deterministic only if both are 0.
    """
    import mctx

    settings, network = learner.settings, learner.network

    def predict(latent: Array) -> dict[str, Any]:
        logits, value = network.of_batch(weights, "predict", latent)
        return {"prior_logits": logits, "value": network.number(value)}

    def transition(weights: Any, key: Any, action: Any, latent: Any) -> tuple[Any, Any]:
        latent, reward = network.of_batch(weights, "transition", latent, action)
        discount = jnp.full(action.shape, settings.gamma, jnp.float32)
        known: dict[str, Any] = {"reward": network.number(reward), "discount": discount}
        return mctx.RecurrentFnOutput(**known, **predict(latent)), latent

    latent = network.of_batch(weights, "represent", obs)
    root = {**predict(latent), "embedding": latent}
    root["prior_logits"] = legal(root["prior_logits"], mask)
    if settings.codes:
        noise = (gumbel_scale, dirichlet)
        return stochastic_plan(learner, weights, key, root, predict, mask, *noise)
    given = (mctx.RootFnOutput(**root), transition, mask, gumbel_scale)
    found = gumbel.search(settings, weights, key, *given)
    return Plan(jnp.asarray(found.action, jnp.int32), jnp.asarray(found.action_weights))


def stochastic_plan(
    learner: MuZeroLearner,
    weights: PyTree[Array],
    key: Array,
    root: dict[str, Any],
    predict: Callable[[Array], dict[str, Any]],
    mask: Mask,
    temperature: float,
    dirichlet: float,
) -> Plan:
    """Search in a tree that has a chance node after every action (Stochastic MuZero).

    `predict` returns the policy and value of latent states. The probability of an action is
    proportional to visits ** (1 / `temperature`), where `visits` is its visit count. If
    `temperature` is 0, the most visited action is chosen.
    """
    import mctx

    settings, network = learner.settings, learner.network

    def decision(weights: Any, key: Any, action: Any, latent: Any) -> tuple[Any, Any]:
        after = network.of_batch(weights, "afterstate", latent, action)
        logits, value = network.of_batch(weights, "predict_afterstate", after)
        expected: dict[str, Any] = {"chance_logits": logits}
        expected["afterstate_value"] = network.number(value)
        return mctx.DecisionRecurrentFnOutput(**expected), after

    def chance(weights: Any, key: Any, code: Any, after: Any) -> tuple[Any, Any]:
        code = jax.nn.one_hot(code, settings.codes, dtype=jnp.float32)
        latent, reward = network.of_batch(weights, "chance_transition", after, code)
        found = predict(latent)
        found["action_logits"] = found.pop("prior_logits")
        found["reward"] = network.number(reward)
        found["discount"] = jnp.full_like(found["reward"], settings.gamma)
        return mctx.ChanceRecurrentFnOutput(**found), latent

    with jax.numpy_dtype_promotion("standard"):  # mctx mixes dtypes, which strict promotion forbids
        found = mctx.stochastic_muzero_policy(
            params=weights,
            rng_key=key,
            root=mctx.RootFnOutput(**root),
            decision_recurrent_fn=decision,
            chance_recurrent_fn=chance,
            num_simulations=settings.simulations,
            invalid_actions=jax.tree.map(jnp.logical_not, mask),
            dirichlet_fraction=dirichlet,
            temperature=temperature,
        )
    return Plan(jnp.asarray(found.action, jnp.int32), jnp.asarray(found.action_weights))
