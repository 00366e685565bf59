"""Aims: conditions that an agent must still meet for success, from which bounds are computed.

An aim names cells; to succeed, the agent must face one of them, now or later. A search adds up the
turns and moves that this takes, which gives a lower bound on the number of steps to success.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, UInt8

from . import tiles
from .tiles import Kind


class Aim(NamedTuple):
    """A necessary condition of success: at some time the agent faces one of `cells`."""

    # Cells where the things of the aim are now. If things are moved later, the agent has to face
    # one of these cells before.
    cells: Bool[Array, "height width"]
    actions: ArrayLike  # number of further actions that success takes after facing a cell, at least
    # False if the condition no longer applies, for example because the agent carries the object.
    active: ArrayLike = True
    # Number of turns that may be saved, because success requires only a place next to a cell.
    slack: int = 0
    # Bit mask of the actions (bit `Action.PICKUP` ...) that success takes at least once.
    acts: ArrayLike = 0
    # Bit mask of other aims, by their index. Cells of those must be faced before a cell of this
    # one, unless the agent picks up a thing of this aim and puts it into another cell.
    after: ArrayLike = 0
    # Whether `acts` has the pick-up and the drop of another object, so moving takes two more.
    twice: ArrayLike = False


def cell(
    shape: tuple[int, ...], row: ArrayLike, column: ArrayLike, reach: int = 0
) -> Bool[Array, "height width"]:
    """Return a mask of a cell, or of all cells at most `reach` rows and columns from it."""
    rows, columns = jnp.arange(shape[0])[:, None], jnp.arange(shape[1])[None, :]
    return (abs(rows - row) <= reach) & (abs(columns - column) <= reach)


def has(things: UInt8[Array, "*cells"], wanted: UInt8[Array, ""]) -> Bool[Array, "*cells"]:
    """Return which tiles are the wanted object, or a box with the wanted key."""
    box = (wanted & jnp.uint8(0xF0)) | jnp.uint8(Kind.KEY_BOX)
    return (things == wanted) | ((tiles.kind(wanted) == Kind.KEY) & (things == box))
