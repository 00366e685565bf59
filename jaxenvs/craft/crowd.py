"""Who is on which cell, while mobs move one after another."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..core.bits import any_of, kept
from .state import MOST_MOBS

ROW = 256  # see `place_of`: more than a row has cells


class Crowd(NamedTuple):
    """Where all mobs are, while they move one after another."""

    places: tuple[Array, ...]  # cell of every slot in the order of moving, see `place_of`
    marks: Array  # bit i: the cell of slot i is seen as taken

    def on(self, place: Array) -> Array:
        """Bits of the slots on a cell."""
        bits = [jnp.where(p == place, 1 << i, 0) for i, p in enumerate(self.places)]
        return any_of(bits)

    def sees(self, place: Array) -> Bool[Array, ""]:
        """Whether a cell is seen as taken."""
        return (self.on(place) & self.marks) != 0

    def moved(self, slot: int, place: Array, leaves: Array, stays: Array) -> "Crowd":
        """Slot on its new cell. If it `leaves`, its old cell is seen as free, whoever else is on
        it; if it `stays` in the game, it is seen on the new one."""
        marks = self.marks & ~jnp.where(leaves, self.on(self.places[slot]), 0)
        marks = marks | jnp.where(stays, 1 << slot, 0)
        place, marks = kept((place, 16), (marks, MOST_MOBS))
        places = (*self.places[:slot], place, *self.places[slot + 1 :])
        return Crowd(places, marks)


def place_of(row: Array, column: Array) -> Array:
    """A cell as one number."""
    return row * ROW + column
