"""Observations of PuzzleScript boards, of four kinds.

`objects` has a flag for each cell and object of the game. `planes` has the same flags as bits.
`names` has a flag for each cell and each name that an object has in any game of the collection.
`sprites` has the pixels of each cell.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8, UInt32

from ..core.spaces import Box, Space
from . import pictures
from .boards import Instance
from .collection import Collection
from .machine import planes
from .machine.sizes import WORD

KINDS = ("objects", "planes", "names", "sprites")
PIXELS = 3 * pictures.CELLS**2  # numbers per cell in observation `sprites`: RGB of each pixel


def space(collection: Collection, kind: str) -> Space:
    """Return the space of the observation `kind`, one of `KINDS`."""
    size = collection.size
    if kind == "planes":
        return Box(0, 2**WORD - 1, (size.objects, size.side, size.words), np.uint32)
    if kind == "sprites":
        return Box(0, 255, (size.side, size.side, PIXELS), np.uint8)
    count = len(names(collection)) if kind == "names" else size.objects
    return Box(0, 1, (size.side, size.side, count), np.uint8)


def layout(collection: Collection, kind: str) -> tuple[tuple[str, str], ...]:
    """Return pairs (index in the observation, name of the object that has this index).

    Return () if the observation has pixels, or if an index stands for different objects in
    different games.
    """
    if kind == "sprites" or (kind != "names" and len(collection.games) != 1):
        return ()
    place = "[{}, row, word]" if kind == "planes" else "[row, column, {}]"
    found = names(collection) if kind == "names" else collection.games[0].objects
    return tuple((f"`{place.format(i)}`", name) for i, name in enumerate(found))


def observed(
    collection: Collection, kind: str, instance: Instance, objects: UInt32[Array, "objects side w"]
) -> UInt8[Array, "side side channels"] | UInt32[Array, "objects side w"]:
    """Return the observation of a board, of the type `kind`, which is one of `KINDS`.

    `objects` has a bit plane for each object: the cells that have the object.
    """
    if kind == "planes":
        return objects
    if kind == "sprites":
        drawn = pictures.cells(collection, instance.game, objects, pictures.CELLS)
        return drawn.reshape(*drawn.shape[:2], PIXELS)
    cells = planes.cells(objects)
    if kind == "names":
        number = jnp.asarray(_numbers(collection))[instance.game]
        cells = cells[number] & (number >= 0)[:, None, None]
    return cells.transpose(1, 2, 0).astype(jnp.uint8)


def names(collection: Collection) -> tuple[str, ...]:
    """Return the names of the objects of all games without duplicates, in order of appearance."""
    return tuple(dict.fromkeys(name for game in collection.games for name in game.objects))


def _numbers(collection: Collection) -> np.ndarray:
    """Return, for each game and name, the index of the object with the name, int32 (games, names).

    The index is -1 if the game has no object with the name.
    """
    every = names(collection)
    # If a game lists an object twice, the dict keeps the last index.
    ids = [{name: i for i, name in enumerate(game.objects)} for game in collection.games]
    return np.array([[each.get(name, -1) for name in every] for each in ids], np.int32)
