"""Masks of illegal actions, and how a policy applies them."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .env import Env
from .spaces import Discrete

NEVER = -1e9  # logit or value of an illegal action: far below all others, but finite
Mask = Bool[Array, "*batch actions"] | None  # True: legal; None: all actions legal in every state


def legal(logits: Float[Array, "*batch actions"], mask: Mask) -> Float[Array, "*batch actions"]:
    """Return logits, or action values, with `NEVER` for the illegal actions.

    Illegal actions get no probability and no gradient, and are never the best. If no action is
    legal, all count as legal, so that nothing becomes NaN. A mask of None changes nothing.
    """
    if mask is None:
        return logits
    return jnp.where(mask | ~mask.any(axis=-1, keepdims=True), logits, NEVER)


def legal_actions(env: Env, state: Any, params: Any = None) -> Mask:
    """Return `env.action_mask` of one state, or None if `env` never forbids an action."""
    return env.action_mask(state, params) if has_illegal(env) else None


@functools.lru_cache(maxsize=256)
def has_illegal(env: Env) -> bool:
    """Return whether `env` may forbid an action in some state.

    Found by tracing, once per environment. If every action is always legal, compiled programs
    contain no mask at all.
    """
    if not isinstance(env.action_space, Discrete) or type(env).action_mask is Env.action_mask:
        return False
    params = jax.eval_shape(lambda: env.checked_params(None, "action_mask"))
    batch = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype), (env.state_shape, params)
    )
    try:  # `out_axes=None` raises if the mask depends on the batched state or params
        jax.eval_shape(jax.vmap(env.action_mask, out_axes=None), *batch)
    except ValueError:
        return True
    # Compiled ahead of time, so that the call computes values even inside another trace.
    constant = jax.jit(env.action_mask).lower(env.state_shape).compile()
    anything = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), env.state_shape)
    return not np.asarray(constant(anything)).all()
