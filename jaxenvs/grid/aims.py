"""Aims: necessary conditions of success, from which the oracle computes lower bounds.

An aim has a set of cells. To succeed, the agent must face one of these cells, now or later. The
turns and moves until the agent faces a cell are a lower bound on the steps to success.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, UInt8

from . import tiles
from .tiles import Kind


class Aim(NamedTuple):
    """A necessary condition of success: at some time the agent faces one of `cells`."""

    # Mask of the cells that now contain the aim's objects. The agent must face an object's cell
    # before it can move the object.
    cells: Bool[Array, "height width"]
    actions: ArrayLike  # least number of actions until success after facing a cell
    # False if the condition no longer applies, for example because the agent carries the object.
    active: ArrayLike = True
    # Number of turns to subtract from the bound. The number is positive if the agent must only
    # stand next to a cell, in any direction.
    slack: int = 0
    # Bit mask of the actions that every successful plan contains, such as bit `Action.PICKUP` for a
    # pick-up.
    acts: ArrayLike = 0
    # Bit mask of the aims that come before this aim: bit i is aim i. The agent must face a cell of
    # each of those aims before it faces a cell of this aim. Exception: a plan that moves an object
    # of this aim to another cell.
    after: ArrayLike = 0
    # Whether the drop in `acts` is needed for an object of another aim. Moving an object of this
    # aim, too, then takes two more actions: a pick-up and a second drop.
    twice: ArrayLike = False


def cell(
    shape: tuple[int, ...], row: ArrayLike, column: ArrayLike, reach: int = 0
) -> Bool[Array, "height width"]:
    """Return a mask of the cells at most `reach` rows and columns away from (`row`, `column`)."""
    rows, columns = jnp.arange(shape[0])[:, None], jnp.arange(shape[1])[None, :]
    return (abs(rows - row) <= reach) & (abs(columns - column) <= reach)


def has(things: UInt8[Array, "*cells"], wanted: UInt8[Array, ""]) -> Bool[Array, "*cells"]:
    """Return a mask of the tiles that are the object `wanted`, or a box with the key `wanted`."""
    box = (wanted & jnp.uint8(0xF0)) | jnp.uint8(Kind.KEY_BOX)
    return (things == wanted) | ((tiles.kind(wanted) == Kind.KEY) & (things == box))
