"""States, levels, actions and params of rule worlds."""

from enum import IntEnum
from typing import Any

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Int8, Int32, UInt8

from ..core.bits import join
from ..core.env import Params, State
from ..core.struct import Struct, struct
from .rulesets import PackedRuleset


class Action(IntEnum):
    """What the agent can do; numbers are the package's."""

    FORWARD = 0
    RIGHT = 1  # turn
    LEFT = 2
    PICKUP = 3
    PUT = 4
    TOGGLE = 5


@struct
class XLandParams(Params):
    """Numbers of a rule world; with a leading axis, each environment has its own task."""

    # The task; `env.params_for(ruleset)` checks one and puts it here.
    ruleset: PackedRuleset


@struct
class Level(Struct):
    """Where an episode begins."""

    grid: UInt8[Array, "height width"]  # tile bytes
    pose: Int8[Array, "3"]  # row, column, direction of the agent

    @classmethod
    def of(
        cls, grid: ArrayLike, row: ArrayLike, column: ArrayLike, direction: ArrayLike
    ) -> "Level":
        """Build a level from a grid and the agent's row, column and direction."""
        pose = [jnp.asarray(x).astype(jnp.int8) for x in (row, column, direction)]
        return cls(grid=jnp.asarray(grid, jnp.uint8), pose=jnp.stack(pose))


@struct
class XLandState(State):
    """The grid and the agent, who is packed into one word: in a scan each small array that is
    rewritten costs a kernel."""

    grid: UInt8[Array, "height width"]  # tile bytes, see tiles.py
    # From the lowest byte: row, column, direction, tile in the pocket (0 none).
    agent: Int32[Array, ""]

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
        """Where the agent looks: 0 up, 1 right, 2 down, 3 left."""
        return (self.agent >> 16) & 3

    @property
    def pocket(self) -> UInt8[Array, "*batch"]:
        """Tile that the agent holds, 0 for none."""
        return ((self.agent >> 24) & 0xFF).astype(jnp.uint8)

    @classmethod
    def of(cls, level: Level, time: Any = 0, pocket: ArrayLike = 0) -> "XLandState":
        """The state in a level, with this tile in the pocket."""
        row, column, direction = level.pose
        return cls(
            time=jnp.int32(time), grid=level.grid, agent=packed(row, column, direction, pocket)
        )


def packed(
    row: ArrayLike, column: ArrayLike, direction: ArrayLike, pocket: ArrayLike
) -> Int32[Array, "*batch"]:
    """Pack the agent as `XLandState` holds it."""
    return join((row, 8), (column, 8), (direction, 8), (pocket, 8))
