"""Cells of a map: the way a direction goes, and uniform choice of a cell in one pass."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32


def step_of(
    action: Int32[Array, "*batch"],
) -> tuple[Int32[Array, "*batch"], Int32[Array, "*batch"]]:
    """Rows down and columns to the right that a direction goes (0 up, 1 right, 2 down, 3 left)."""
    return (action - 1) * ((action + 1) & 1), (2 - action) * (action & 1)


def uniform_cell(words: UInt32[Array, " cells"], mask: Bool[Array, " cells"]) -> Int32[Array, ""]:
    """Choose one of the cells of the mask, by a random word for each cell; 0 if there is none.

    The largest word wins; its lowest bits give way to the cell's number, which decides between
    equals. With c cells a probability is off by about c / 2**(32 - log2(c)) of itself.
    """
    cells = np.arange(mask.size, dtype=np.uint32)
    low = np.uint32((1 << (mask.size - 1).bit_length()) - 1)
    numbered = (words & ~low) | cells
    return (jnp.where(mask, numbered, np.uint32(0)).max() & low).astype(jnp.int32)
