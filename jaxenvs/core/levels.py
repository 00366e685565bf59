"""Draw levels, and draw again while the environment rejects them.

An environment that may reject a level overrides `accepts`, and sets `level_budget`, the maximum
number of candidate levels of one reset.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .carries import as_carry, varying_like
from .random import Key


def first_accepted(env: Any, key: Key, params: Any) -> PyTree[Array]:
    """Draw candidate levels until `env` accepts one; return the accepted level.

    At most `level_budget` candidates are drawn. If all but the last are rejected, the last is
    returned without a check.
    """
    if env.level_budget == 1:
        return env.draw_level(key, params)

    def again(drawn: tuple[Array, Any]) -> Array:
        number, level = drawn
        return (number == 0) | ((number < env.level_budget) & ~env.accepts(level))

    def draw(drawn: tuple[Array, Any]) -> tuple[Array, Any]:
        return drawn[0] + 1, env.candidate(key, drawn[0], params)

    shapes = jax.eval_shape(env.candidate, key, jnp.int32(0), params)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    start = jax.tree.map(lambda leaf: varying_like(key, leaf), (jnp.int32(0), nothing))
    return jax.lax.while_loop(again, draw, start)[1]


def candidate(env: Any, key: Key, number: Array, params: Any) -> PyTree[Array]:
    """Draw the candidate level with the index `number`, counted from 0 within one reset.

    If a reset may draw several candidates, a loop draws them. `as_carry` then converts the level,
    so that it can be the loop's carry.
    """
    if env.level_budget == 1:
        return env.draw_level(key, params)
    return as_carry(key, env.draw_level(jax.random.fold_in(key, number), params))
