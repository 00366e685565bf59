"""Helpers for grids: the step in each direction, and the number of cells in a bit mask."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, UInt32


def step_of(
    action: Int32[Array, "*batch"],
) -> tuple[Int32[Array, "*batch"], Int32[Array, "*batch"]]:
    """Return (row change, column change) of one step; actions: 0 up, 1 right, 2 down, 3 left."""
    return (action - 1) * ((action + 1) & 1), (2 - action) * (action & 1)


def cell_count(sets: UInt32[Array, "*sets words"]) -> Int32[Array, "*sets"]:
    """Return the number of cells in each set; a set is a bit mask in uint32 words (last axis)."""
    return jax.lax.population_count(sets).sum(axis=-1, dtype=jnp.uint32).astype(jnp.int32)
