"""Sprites of the grid worlds, drawn by code: tile byte, agent on it, in sight or not."""

import functools

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int32

from .tiles import NUM_CODES

NUM_AGENTS = 5  # nobody, or the agent facing right, down, left, up
NUM_SPRITES = 2 * NUM_AGENTS * NUM_CODES


def sprite(code: ArrayLike, agent: ArrayLike, lit: ArrayLike) -> Int32[Array, "..."]:
    """Number of the sprite for a tile byte, `agent` (0 none, 1 + direction) and whether in sight."""
    base = jnp.asarray(code).astype(jnp.int32) + NUM_CODES * jnp.asarray(agent).astype(jnp.int32)
    return base + NUM_CODES * NUM_AGENTS * jnp.asarray(lit).astype(jnp.int32)


@functools.cache
def atlas(size: int) -> np.ndarray:
    """All sprites, uint8 (NUM_SPRITES, size, size, 3), indexed as `sprite` numbers them."""
    return np.zeros((NUM_SPRITES, size, size, 3), np.uint8)
