"""Pictures of PuzzleScript boards: the sprites of a game, drawn layer over layer."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8, UInt32

from .collection import Collection
from .colors import DEFAULT, palette, rgb
from .game import Game
from .machine import planes

CELLS = 5  # width and height of a sprite in a game's source, pixels
OUTSIDE = "black"  # colour outside of a level if the game names no `background_color`


def sheet(games: tuple[Game, ...], objects: int, tile: int) -> np.ndarray:
    """Return the sprites of all games as RGBA, uint8 (games, 1 + objects, tile, tile, 4).

    On the second axis, index 0 is the colour outside of a level, and index o + 1 is the sprite of
    object o. Each image has `tile` x `tile` pixels.
    """
    result = np.zeros((len(games), 1 + objects, tile, tile, 4), np.uint8)
    at = np.arange(tile) * CELLS // tile
    for g, game in enumerate(games):
        colors = palette(game.prelude.get("color_palette", DEFAULT)) or palette(DEFAULT)
        assert colors is not None
        result[g, 0] = rgb(game.prelude.get("background_color", OUTSIDE).lower(), colors)
        for i, sprite in enumerate(game.sprites, 1):
            used = [rgb(each, colors) for each in sprite.colors]
            rows = sprite.rows or ("0" * CELLS,) * CELLS
            pixels = [
                [used[int(each)] if each.isdigit() else (0, 0, 0, 0) for each in row]
                for row in rows
            ]
            result[g, i] = np.array(pixels, np.uint8)[at][:, at]
    return result


def cells(
    collection: Collection,
    game: Array,
    objects: UInt32[Array, "objects side words"],
    tile: int,
) -> UInt8[Array, "side side tile tile 3"]:
    """Return a picture of `tile` x `tile` pixels for each cell, by line and column.

    The sprites of the cell's objects are drawn over each other in the order of their layers.
    """
    size = collection.size
    sprites = jnp.asarray(sheet(collection.games, size.objects, tile))[game]
    present = planes.cells(objects)
    layer_of = jnp.asarray(collection.tables.layer)[game].astype(jnp.int32)
    drawn = jnp.broadcast_to(sprites[0, ..., :3], (size.side, size.side, tile, tile, 3))
    number = planes.index(size.objects)[:, None, None] + np.int32(1)
    for layer in range(size.layers):
        shown = jnp.where(present & (layer_of == layer)[:, None, None], number, np.int32(0)).max(0)
        sprite = sprites[shown]
        covers = (shown > 0)[..., None, None, None] & (sprite[..., 3:] > 0)
        drawn = jnp.where(covers, sprite[..., :3], drawn)
    return drawn


def picture(
    collection: Collection,
    game: Array,
    objects: UInt32[Array, "objects side words"],
    tile: int,
) -> UInt8[Array, "rows columns 3"]:
    """Draw a level as one picture, in which each cell is `tile` pixels wide and high."""
    side = collection.size.side * tile
    drawn = cells(collection, game, objects, tile)
    return drawn.transpose(0, 2, 1, 3, 4).reshape(side, side, 3)
