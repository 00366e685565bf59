"""States, levels and actions of grid worlds."""

from enum import IntEnum
from typing import Any

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int8, Int32, PyTree, UInt8

from ..core.bits import join
from ..core.env import State
from ..core.struct import Struct, struct
from . import tiles

REJECTED = 1 << 18  # in the packed agent: no acceptable level was found


class Action(IntEnum):
    """What the agent can do; numbers are MiniGrid's."""

    LEFT = 0
    RIGHT = 1
    FORWARD = 2
    PICKUP = 3
    DROP = 4
    TOGGLE = 5
    DONE = 6


@struct
class Level(Struct):
    """Where an episode begins."""

    grid: UInt8[Array, "height width"]  # tile bytes
    pose: Int8[Array, "3"]  # row, column, direction of the agent
    task: PyTree[Array] = None  # what the episode is about, where a family's episodes differ
    accepted: Bool[Array, ""] | None = None  # by the family's rules; None where all are

    @classmethod
    def of(
        cls,
        grid: ArrayLike,
        row: ArrayLike,
        column: ArrayLike,
        direction: ArrayLike,
        **more: Any,
    ) -> "Level":
        """Build a level from a grid and the agent's row, column and direction."""
        pose = [jnp.asarray(x).astype(jnp.int8) for x in (row, column, direction)]
        return cls(grid=jnp.asarray(grid, jnp.uint8), pose=jnp.stack(pose), **more)

    def posed(self, row: ArrayLike, column: ArrayLike, direction: ArrayLike) -> Any:
        """The same level with the agent there."""
        return self.replace(pose=Level.of(self.grid, row, column, direction).pose)

    def facing(self, *codes: ArrayLike) -> Any:
        """The same level with the agent in the upper left, facing these tiles in a row."""
        grid = jnp.asarray(self.grid).at[1, 1].set(tiles.EMPTY)
        for column, code in enumerate(codes, start=2):
            grid = grid.at[1, column].set(jnp.asarray(code).astype(jnp.uint8))
        return self.replace(grid=grid).posed(1, 1, 0)


@struct
class GridState(State):
    """The grid and the agent, who is packed into one word: in a scan each small array that is
    rewritten costs a kernel."""

    grid: UInt8[Array, "height width"]  # tile bytes, see tiles.py
    # From the lowest byte: row, column, direction (2 bits) and REJECTED, carried tile (0 none).
    agent: Int32[Array, ""]
    task: PyTree[Array] = None  # what the episode is about: the level's

    @property
    def row(self) -> Int32[Array, "*batch"]:
        """Row of the agent, from the top."""
        return self.agent & 0xFF

    @property
    def column(self) -> Int32[Array, "*batch"]:
        """Column of the agent, from the left."""
        return (self.agent >> 8) & 0xFF

    @property
    def direction(self) -> Int32[Array, "*batch"]:
        """Where the agent looks: 0 right, 1 down, 2 left, 3 up."""
        return (self.agent >> 16) & 3

    @property
    def carried(self) -> UInt8[Array, "*batch"]:
        """Tile in the agent's hands, 0 for none."""
        return (self.agent >> 24).astype(jnp.uint8)

    @property
    def rejected(self) -> Bool[Array, "*batch"]:
        """Whether no acceptable level was found for this episode."""
        return (self.agent & REJECTED) != 0


def packed(row: Array, column: Array, direction: Array, carried: Array) -> Int32[Array, "*batch"]:
    """Pack the agent as `GridState` holds it."""
    return join((row, 8), (column, 8), (direction, 8), (carried, 8))
