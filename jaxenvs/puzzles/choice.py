"""Uniform choice among the cells of a mask, in one pass."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32


def uniform_cell(words: UInt32[Array, " cells"], mask: Bool[Array, " cells"]) -> Int32[Array, ""]:
    """Choose one of the cells of the mask, by a random word for each cell; 0 if there is none.

    The largest word wins; its lowest bits give way to the cell's number, which decides between
    equals. With c cells a probability is off by about c / 2**(32 - log2(c)) of itself.
    """
    cells = np.arange(mask.size, dtype=np.uint32)
    low = np.uint32((1 << (mask.size - 1).bit_length()) - 1)
    numbered = (words & ~low) | cells
    return (jnp.where(mask, numbered, np.uint32(0)).max() & low).astype(jnp.int32)
