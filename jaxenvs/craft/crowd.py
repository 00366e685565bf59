"""Cells of all mobs, kept up to date while the mobs move one after another.

A mob that moves must not enter a cell that another mob occupies, so it reads the current cells of
all slots from a `Crowd`.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..core.bits import any_of
from .compiler.once import once_joined
from .state import MOST_MOBS

ROW = 256  # factor of the row index in `place_of`; greater than the number of columns of any map


class Crowd(NamedTuple):
    """Cells of all mob slots, and which of the slots are marked (see `Mob.marked`).

    A marked slot occupies its cell, so no other mob may enter the cell.
    """

    # Cell of the mob in every slot, encoded by `place_of`; slots in the order of `mobs_of`.
    places: tuple[Array, ...]
    marks: Any  # bit mask of the marked slots: bit i is set if slot i is marked, see `Mob.marked`

    def on(self, place: Array) -> Array:
        """Return which mob slots are on the cell `place`, as a bit mask.

        Bit i is set if slot i is on the cell, even if its mob is dead. `place` is encoded by
        `place_of`.
        """
        bits = [jnp.where(p == place, 1 << i, 0) for i, p in enumerate(self.places)]
        return any_of(bits)

    def sees(self, place: Array) -> Bool[Array, ""]:
        """Return whether a marked mob is on the cell `place` (encoded by `place_of`).

        Other mobs cannot enter the cell of a marked mob, see `Mob.marked`.
        """
        return (self.on(place) & self.marks) != 0

    def moved(self, slot: int, place: Array, leaves: Array, stays: Array) -> "Crowd":
        """Return the crowd after the turn of the mob in `slot`, which is now on the cell `place`.

        If `leaves` is True, all slots on the mob's old cell lose their marks, as in Craftax. If
        `stays` is True, the mob stays in the game, and its slot is marked on the new cell.
        """
        marks = self.marks & ~jnp.where(leaves, self.on(self.places[slot]), 0)
        marks = marks | jnp.where(stays, 1 << slot, 0)
        place, marks = once_joined(place, marks, bits=(16, MOST_MOBS))
        places = (*self.places[:slot], place, *self.places[slot + 1 :])
        return Crowd(places, marks)


def place_of(row: Array, column: Array) -> Array:
    """Encode a cell as one integer, row * ROW + column."""
    return row * ROW + column
