"""The classes for actions, levels and states of grid worlds."""

from enum import IntEnum
from typing import Any

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, PyTree

from ..core.gridworld import AgentLevel, AgentState
from ..core.struct import struct
from . import tiles

REJECTED = 1 << 18  # flag in `GridState.agent`: all levels drawn for this episode were rejected


class Action(IntEnum):
    """Actions, with MiniGrid's numbers."""

    LEFT = 0
    RIGHT = 1
    FORWARD = 2
    PICKUP = 3
    DROP = 4
    TOGGLE = 5
    DONE = 6


@struct
class Level(AgentLevel):
    """A level: the map, the agent's pose and the task with which an episode begins."""

    task: PyTree[Array] = None  # data of the mission, if missions differ between episodes
    # Whether the level is valid; None for classes that never reject a level.
    accepted: Bool[Array, ""] | None = None

    def posed(self, row: ArrayLike, column: ArrayLike, direction: ArrayLike) -> Any:
        """Return the same level with the agent at (row, column), facing `direction`."""
        return self.replace(pose=Level.of(self.grid, row, column, direction).pose)

    def facing(self, *codes: ArrayLike) -> Any:
        """Return this level with the agent at (1, 1), facing right, and tiles `codes` ahead."""
        grid = jnp.asarray(self.grid).at[1, 1].set(tiles.EMPTY)
        for column, code in enumerate(codes, start=2):
            grid = grid.at[1, column].set(jnp.asarray(code).astype(jnp.uint8))
        return self.replace(grid=grid).posed(1, 1, 0)


@struct
class GridState(AgentState):
    """State of an episode: map, agent and task.

    Byte 2 of `agent` has the agent's direction in its two lowest bits. Its next bit is the flag
    `REJECTED`: all levels that were drawn for this episode were rejected as invalid.
    """

    # Data of the mission, copied from the level; its structure depends on the environment's class.
    task: PyTree[Array] = None

    @property
    def rejected(self) -> Bool[Array, "*batch"]:
        """True if all levels that were drawn for this episode were rejected."""
        return (self.agent & REJECTED) != 0
