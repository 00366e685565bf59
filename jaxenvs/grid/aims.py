"""Aims: necessary conditions of success, from which lower bounds on the steps are computed.

An aim has a set of cells. To succeed, the agent must face one of these cells, now or later. The
turns and moves until the agent faces a cell are a lower bound on the steps to success. The exact
solver `jaxenvs.grid.oracle` uses the bounds as the heuristic of its A* search.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int32, UInt8

from . import tiles
from .tiles import Kind


class Aim(NamedTuple):
    """A necessary condition of success: at some time the agent faces one of `cells`."""

    # Mask of the cells of which the agent must face one, such as the current cells of the objects
    # that it must pick up.
    cells: Bool[Array, "height width"]
    actions: ArrayLike  # least number of actions from facing a cell of the aim to success
    # False if the condition no longer applies, for example because the agent carries the object.
    active: ArrayLike = True
    # Number of turns to subtract from the lower bound on the steps to success. 0 if the agent must
    # face a cell; positive if it may stand next to one of `cells` and face any direction.
    slack: int = 0
    # Bit mask of the actions that every successful plan contains, such as bit `Action.PICKUP` for a
    # pick-up.
    acts: ArrayLike = 0
    # Bit mask of the earlier aims: if bit i is set, the agent must face a cell of aim i before it
    # faces a cell of this aim. A plan may ignore this order if it moves an object of this aim.
    after: ArrayLike = 0
    # Whether `acts` has a drop that puts down an object of another aim. If a plan also moves an
    # object of this aim, it needs two more actions: another pick-up and another drop.
    twice: ArrayLike = False
    # Whether the agent can move no object of this aim, because its objects are doors. Every plan
    # then keeps the order `after`, and `twice` has no effect.
    fixed: ArrayLike = False


class Aims(NamedTuple):
    """The aims of a state as arrays, one entry per aim; for the meaning of the fields see `Aim`."""

    cells: Bool[Array, "aims cells"]
    active: Bool[Array, " aims"]
    no_slack: Bool[np.ndarray, " aims"]  # whether `Aim.slack` is 0
    acts: Int32[Array, " aims"]
    after: Int32[Array, " aims"]
    twice: Bool[Array, " aims"]
    fixed: Bool[Array, " aims"]

    @classmethod
    def of(cls, aims: Sequence[Aim]) -> "Aims":
        """Stack at least one aim."""
        return cls(
            cells=jnp.stack([aim.cells.reshape(-1) for aim in aims]),
            active=jnp.stack([jnp.asarray(aim.active, jnp.bool_) for aim in aims]),
            no_slack=np.array([aim.slack == 0 for aim in aims]),
            acts=jnp.stack([jnp.asarray(aim.acts, jnp.int32) for aim in aims]),
            after=jnp.stack([jnp.asarray(aim.after, jnp.int32) for aim in aims]),
            twice=jnp.stack([jnp.asarray(aim.twice, jnp.bool_) for aim in aims]),
            fixed=jnp.stack([jnp.asarray(aim.fixed, jnp.bool_) for aim in aims]),
        )

    def needs(self, action: int) -> Bool[Array, " aims"]:
        """Return a mask of the aims that need an action, such as a pick-up, see `Aim.acts`."""
        return (self.acts >> action) & 1 != 0


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
