"""Closed-form placement: what MiniGrid does by rejection, drawn directly with its distribution."""

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int32, UInt8, UInt32

from ..core.random import below
from . import tiles


def room(height: int, width: int) -> np.ndarray:
    """An empty grid inside a border of walls, uint8 tile bytes."""
    grid = np.full((height, width), tiles.WALL, np.uint8)
    grid[1:-1, 1:-1] = tiles.EMPTY
    return grid


def lines(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column numbers that broadcast over a grid."""
    return np.arange(height, dtype=np.int32)[:, None], np.arange(width, dtype=np.int32)[None, :]


def put(
    grid: UInt8[ArrayLike, "height width"], row: ArrayLike, column: ArrayLike, tile: ArrayLike
) -> UInt8[Array, "height width"]:
    """Write one tile; a selection over the cells, which fuses with what made the grid."""
    rows, columns = lines(*np.shape(grid))
    here = (rows == row) & (columns == column)
    return jnp.where(here, jnp.asarray(tile, jnp.uint8), grid)


def other(word: UInt32[Array, ""], count: ArrayLike, taken: ArrayLike) -> Int32[Array, ""]:
    """Uniform integer in `[0, count)` other than `taken`."""
    index = below(word, jnp.asarray(count) - 1)
    return index + (index >= taken).astype(jnp.int32)
