"""States, levels and actions of grid worlds."""

from enum import IntEnum
from typing import Any

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, PyTree

from ..core.gridworld import AgentLevel, AgentState
from ..core.struct import struct
from . import tiles

REJECTED = 1 << 18  # flag in `GridState.agent`: no acceptable level was found


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
    """Map, pose and task with which an episode begins."""

    task: PyTree[Array] = None  # data of the mission, where missions differ
    accepted: Bool[Array, ""] | None = None  # whether the level is valid; None: always

    def posed(self, row: ArrayLike, column: ArrayLike, direction: ArrayLike) -> Any:
        """Return the same level with the agent at this position, facing `direction`."""
        return self.replace(pose=Level.of(self.grid, row, column, direction).pose)

    def facing(self, *codes: ArrayLike) -> Any:
        """Return the same level with the agent at (1, 1), facing right, and these tiles ahead."""
        grid = jnp.asarray(self.grid).at[1, 1].set(tiles.EMPTY)
        for column, code in enumerate(codes, start=2):
            grid = grid.at[1, column].set(jnp.asarray(code).astype(jnp.uint8))
        return self.replace(grid=grid).posed(1, 1, 0)


@struct
class GridState(AgentState):
    """Map, agent and task; the third bit of the direction's byte is the flag `REJECTED`."""

    # Mission data of the level, structured as its class needs.
    task: PyTree[Array] = None

    @property
    def rejected(self) -> Bool[Array, "*batch"]:
        """True if no acceptable level was found for this episode."""
        return (self.agent & REJECTED) != 0
