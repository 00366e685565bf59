"""Functions for a tree search by mctx that steps the true environment.

The search starts from the true state. Unless `env.fully_observed`, the agent does not observe the
whole state, so the plans use information that the agent lacks. The search cannot foresee random
outcomes, because its steps use other keys than the steps of the episode.

A terminal state repeats forever with reward and value 0. In the search, the time limit does not end
an episode; `evaluate` estimates the value beyond the limit. Illegal actions have prior probability
0.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, PyTree

from ..core.env import Env
from ..core.masking import Mask, is_forced, is_masked, legal, legal_actions
from . import common

# Function of (weights, observations, states) for a batch of nodes of the search tree. It returns
# prior logits (nodes, actions) and values (nodes,).
Evaluate = Callable[[Any, PyTree[Array], Any], tuple[Array, Array]]


class Node(NamedTuple):
    """The embedding that mctx stores for each node of the search tree."""

    state: Any
    # Whether the episode has terminated, so that the state repeats forever.
    ended: Bool[Array, " nodes"]


def mctx_root_fn(
    env: Env | str, evaluate: Evaluate, *, params: Any = None
) -> Callable[[Any, PyTree[Array], Any], Any]:
    """Return a function (weights, obs, state) -> mctx's `RootFnOutput`, for a batch of states.

    The first axis of observations and states is the batch. Pass
    `invalid_actions=~jax.vmap(env.action_mask)(state)` to the search as well.
    """
    import mctx

    game = common.environment(env, {}, "mctx_root_fn")

    def root(weights: Any, obs: PyTree[Array], state: Any) -> mctx.RootFnOutput:
        logits, value = evaluate(weights, obs, state)
        known: dict[str, Any] = {
            "prior_logits": legal(logits, _mask(game, state, params)),
            "value": value,
            "embedding": Node(state, jnp.zeros(value.shape, jnp.bool_)),
        }
        return mctx.RootFnOutput(**known)

    return root


def mctx_recurrent_fn(
    env: Env | str,
    evaluate: Evaluate,
    *,
    params: Any = None,
    discount: ArrayLike = 1.0,
    skip_forced: bool = False,
) -> Callable[[Any, Array, Array, Node], tuple[Any, Node]]:
    """Return the recurrent function for mctx, which steps the environment from a node's state.

    `evaluate` is called with weights, observations and states of a batch of new nodes, and returns
    their prior logits and values. `discount` applies to steps that do not terminate. With
    `skip_forced`, it is 1 if exactly one action is legal after a step that does not end the
    episode. Unless `env.fully_observed`, plans use information that the agent cannot have. Raises
    `ValueError` if forced steps are to be skipped in an environment without masks.
    """
    import mctx

    game = common.environment(env, {}, "mctx_recurrent_fn")
    if skip_forced and not is_masked(game):
        raise ValueError(
            f"skip_forced: {type(game).__name__} has no masks of legal actions, and so no forced "
            f"steps; omit it"
        )
    advance = jax.vmap(lambda key, state, action: game.step(key, state, action, params))
    keep = jax.vmap(lambda ended, *leaves: jnp.where(ended, *leaves))

    def recurrent(
        weights: Any, key: Array, action: Array, node: Node
    ) -> tuple[mctx.RecurrentFnOutput, Node]:
        step = advance(jax.random.split(key, len(action)), node.state, action)
        state = jax.tree.map(functools.partial(keep, node.ended), node.state, step.state)
        ended = node.ended | step.terminated
        logits, value = evaluate(weights, step.obs, state)
        mask, factor = _mask(game, state, params), jnp.float32(discount)
        if skip_forced:
            factor = jnp.where(is_forced(mask) & ~step.truncated, 1.0, factor)
        known = {
            "reward": jnp.where(node.ended, 0.0, step.reward),
            "discount": jnp.where(ended, 0.0, factor),
            "prior_logits": legal(logits, mask),
            "value": jnp.where(ended, 0.0, value),
        }
        return mctx.RecurrentFnOutput(**known), Node(state, ended)

    return recurrent


def _mask(env: Env, state: Any, params: Any) -> Mask:
    return jax.vmap(lambda one: legal_actions(env, one, params))(state)
