"""Aims: conditions that are still necessary for success, from which lower bounds are computed.

An aim has a set of cells. To succeed, the agent must face one of the cells, now or later. A search
adds up the turns and moves that this takes, which gives a lower bound on the number of steps to
success.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, UInt8

from . import tiles
from .tiles import Kind


class Aim(NamedTuple):
    """A necessary condition of success: at some time the agent faces one of `cells`."""

    # Mask of the cells that now contain the aim's objects. Before the agent can move one of the
    # objects, it must face one of these cells.
    cells: Bool[Array, "height width"]
    actions: ArrayLike  # least number of actions until success after facing a cell
    # False if the condition no longer applies, for example because the agent carries the object.
    active: ArrayLike = True
    # Number of turns subtracted from the bound; more than 0 where the agent only has to stand next
    # to a cell and need not face it.
    slack: int = 0
    # Bit mask of the actions that every successful plan contains, such as bit `Action.PICKUP` for a
    # pick-up.
    acts: ArrayLike = 0
    # Bit mask of the aims that precede this aim: bit i stands for aim i. The agent must face a cell
    # of each preceding aim before a cell of this aim, unless the agent moves an object of this aim
    # to another cell.
    after: ArrayLike = 0
    # Whether the actions in `acts` move an object of another aim. If the agent also moves an object
    # of this aim, success takes two more actions.
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
