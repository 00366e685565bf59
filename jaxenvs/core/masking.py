"""Masks of illegal actions, and how a policy applies them to its logits."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .env import Env
from .spaces import Discrete

NEVER = -1e9  # logit or value of an illegal action: far below all others, but finite, to avoid NaN
# True where the action is legal; None if all actions are legal in every state.
Mask = Bool[Array, "*batch actions"] | None


def legal(logits: Float[Array, "*batch actions"], mask: Mask) -> Float[Array, "*batch actions"]:
    """Return logits, or action values, with `NEVER` in place of the values of illegal actions.

    An illegal action then has probability 0 and no gradient, and is never the best action. If no
    action is legal, the values of all actions stay unchanged, which avoids NaN. If `mask` is None,
    all actions are legal, and the logits are returned unchanged.
    """
    if mask is None:
        return logits
    return jnp.where(mask | ~mask.any(axis=-1, keepdims=True), logits, NEVER)


def legal_actions(env: Env, state: Any, params: Any = None) -> Mask:
    """Return the mask of legal actions in a state; None if learners use no mask in `env`."""
    return env.action_mask(state, params) if is_masked(env) else None


def is_forced(mask: Mask) -> Bool[Array, "*batch"]:
    """Return whether exactly one action is legal, for each mask of a batch; `mask` is not None."""
    assert mask is not None, "learners refuse to skip forced steps without masks"
    return mask.sum(axis=-1, dtype=jnp.int32) == 1


def is_masked(env: Env) -> bool:
    """Return whether learners use a mask in `env`: it forbids actions, and its setup has masks."""
    return env.uses_mask and has_illegal(env)


@functools.lru_cache(maxsize=256)
def has_illegal(env: Env) -> bool:
    """Return whether `env` forbids an action in some state.

    If the result is False, compiled programs need no mask. The function traces `action_mask` to
    find out whether the mask depends on the state. The result is cached for each environment.
    """
    if not isinstance(env.action_space, Discrete) or type(env).action_mask is Env.action_mask:
        return False
    params = jax.eval_shape(lambda: env.checked_params(None, "action_mask"))
    batch = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype), (env.state_shape, params)
    )
    # With `out_axes=None`, `vmap` raises ValueError if the mask depends on the state or params.
    try:
        jax.eval_shape(jax.vmap(env.action_mask, out_axes=None), *batch)
    except ValueError:
        return True
    # The mask is the same in all states, so it is computed for a state of zeros. The program is
    # compiled ahead of time, because it then returns concrete values even while JAX traces the
    # caller of `has_illegal`.
    constant = jax.jit(env.action_mask).lower(env.state_shape).compile()
    anything = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), env.state_shape)
    return not np.asarray(constant(anything)).all()
