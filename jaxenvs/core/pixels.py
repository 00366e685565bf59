"""`compose` makes a picture from tiles: one gather copies the sprite of each tile from an atlas."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt8


def compose(
    tiles: Int[Array, "rows columns"], atlas: np.ndarray | UInt8[Array, "sprites size size 3"]
) -> UInt8[Array, "pixel_rows pixel_columns 3"]:
    """Return the picture of a map of tiles: each entry of `tiles` is the index of a sprite.

    `atlas` contains the sprites. An index beyond the last sprite selects the last sprite.
    """
    rows, columns = tiles.shape
    size = atlas.shape[1]
    sprites = jnp.asarray(atlas).at[tiles].get(mode="clip")
    return sprites.transpose(0, 2, 1, 3, 4).reshape(rows * size, columns * size, 3)
