"""Search with mctx in the true environment: root and recurrent functions.

The search steps true states, hidden parts included: unless `env.fully_observed`, its plans use
information that the agent cannot have. It cannot foresee random outcomes, because its steps use
separate keys. A terminal state is absorbing, with value 0. The time limit does not end an episode
here: `evaluate` estimates the value beyond it. Illegal actions have prior probability 0.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, PyTree

from ..core.env import Env
from ..core.masking import Mask, legal, legal_actions
from . import common

# Function of (weights, observations, states) of a batch of nodes, which returns prior logits
# (nodes, actions) and values (nodes,).
Evaluate = Callable[[Any, PyTree[Array], Any], tuple[Array, Array]]


class Node(NamedTuple):
    """The embedding of a node in the search tree."""

    state: Any
    ended: Bool[Array, " nodes"]  # whether the episode has terminated: the state is absorbing


def mctx_root_fn(
    env: Env | str, evaluate: Evaluate, *, params: Any = None
) -> Callable[[Any, PyTree[Array], Any], Any]:
    """Return the function from (weights, obs, state) to mctx's root, for a batch of states.

    The first axis of observations and states is the batch. Also pass
    `invalid_actions=~jax.vmap(env.action_mask)(state)` to the search.
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
    env: Env | str, evaluate: Evaluate, *, params: Any = None, discount: ArrayLike = 1.0
) -> Callable[[Any, Array, Array, Node], tuple[Any, Node]]:
    """Return mctx's recurrent function, which steps the environment in every node.

    `evaluate` returns prior logits and values of a batch of new states, from weights, observations
    and states. `discount` applies to steps that do not terminate. Unless `env.fully_observed`,
    plans use information that the agent cannot have.
    """
    import mctx

    game = common.environment(env, {}, "mctx_recurrent_fn")
    advance = jax.vmap(lambda key, state, action: game.step(key, state, action, params))
    keep = jax.vmap(lambda ended, *leaves: jnp.where(ended, *leaves))

    def recurrent(
        weights: Any, key: Array, action: Array, node: Node
    ) -> tuple[mctx.RecurrentFnOutput, Node]:
        step = advance(jax.random.split(key, len(action)), node.state, action)
        state = jax.tree.map(functools.partial(keep, node.ended), node.state, step.state)
        ended = node.ended | step.terminated
        logits, value = evaluate(weights, step.obs, state)
        known = {
            "reward": jnp.where(node.ended, 0.0, step.reward),
            "discount": jnp.where(ended, 0.0, jnp.float32(discount)),
            "prior_logits": legal(logits, _mask(game, state, params)),
            "value": jnp.where(ended, 0.0, value),
        }
        return mctx.RecurrentFnOutput(**known), Node(state, ended)

    return recurrent


def _mask(env: Env, state: Any, params: Any) -> Mask:
    return jax.vmap(lambda one: legal_actions(env, one, params))(state)
