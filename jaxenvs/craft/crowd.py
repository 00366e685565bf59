"""Who is on which cell, while mobs move one after another."""

import functools
import operator
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool

ROW = 256  # see `place_of`: more than a row has cells


class Crowd(NamedTuple):
    """Where all mobs are, while they move one after another."""

    places: tuple[Array, ...]  # cell of every slot in the order of moving, see `place_of`
    marks: Array  # bit i: the cell of slot i is seen as taken

    def on(self, place: Array) -> Array:
        """Bits of the slots on a cell."""
        bits = [jnp.where(p == place, 1 << i, 0) for i, p in enumerate(self.places)]
        return functools.reduce(operator.or_, bits)

    def sees(self, place: Array) -> Bool[Array, ""]:
        """Whether a cell is seen as taken."""
        return (self.on(place) & self.marks) != 0

    def moved(self, slot: int, place: Array, leaves: Array, stays: Array) -> "Crowd":
        """Slot on its new cell. If it `leaves`, its old cell is seen as free, whoever else is on
        it; if it `stays` in the game, it is seen on the new one."""
        marks = self.marks & ~jnp.where(leaves, self.on(self.places[slot]), 0)
        marks = marks | jnp.where(stays, 1 << slot, 0)
        places = (*self.places[:slot], place, *self.places[slot + 1 :])
        return Crowd(places, marks)


def place_of(row: Array, column: Array) -> Array:
    """A cell as one number."""
    return row * ROW + column
