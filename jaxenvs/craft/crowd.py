"""Cells of all mobs, kept up to date while the mobs move one after another."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..core.bits import any_of
from .compiler.once import once_joined
from .state import MOST_MOBS

ROW = 256  # stride of a map row in `place_of`, more than the cells of a row


class Crowd(NamedTuple):
    """Cells of all mob slots, and which slots are marked (see `Mob.marked`)."""

    places: tuple[Array, ...]  # cell of every slot, in the order of `mobs_of`, see `place_of`
    marks: Any  # bit i: slot i is marked, see `Mob.marked`

    def on(self, place: Array) -> Array:
        """Return a word in which bit i is set if slot i is on the cell, alive or not."""
        bits = [jnp.where(p == place, 1 << i, 0) for i, p in enumerate(self.places)]
        return any_of(bits)

    def sees(self, place: Array) -> Bool[Array, ""]:
        """Return whether a marked mob is on a cell."""
        return (self.on(place) & self.marks) != 0

    def moved(self, slot: int, place: Array, leaves: Array, stays: Array) -> "Crowd":
        """Return the crowd after a slot has moved to a cell.

        If the slot `leaves`, all slots on its old cell lose their marks. If it `stays` in the game,
        it is marked on its new cell.
        """
        marks = self.marks & ~jnp.where(leaves, self.on(self.places[slot]), 0)
        marks = marks | jnp.where(stays, 1 << slot, 0)
        place, marks = once_joined(place, marks, bits=(16, MOST_MOBS))
        places = (*self.places[:slot], place, *self.places[slot + 1 :])
        return Crowd(places, marks)


def place_of(row: Array, column: Array) -> Array:
    """Return a cell as one number, row * ROW + column."""
    return row * ROW + column
