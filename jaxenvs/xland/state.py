"""States, levels, actions and params of the XLand environments."""

from enum import IntEnum
from typing import Any

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Int32, UInt8

from ..core.env import Params
from ..core.gridworld import AgentLevel, AgentState, packed
from ..core.struct import struct
from .rulesets import PackedRuleset


class Action(IntEnum):
    """Actions, numbered as in xminigrid."""

    FORWARD = 0
    RIGHT = 1  # turn right
    LEFT = 2  # turn left
    PICKUP = 3
    PUT = 4
    TOGGLE = 5


@struct
class XLandParams(Params):
    """Params of `XLand`; a leading axis gives each environment of a batch a separate task."""

    # The task. Set it with `env.params_for(ruleset)`, which checks and pads the ruleset.
    ruleset: PackedRuleset


@struct
class Level(AgentLevel):
    """Initial map of an episode, and the agent's initial position and direction."""


@struct
class XLandState(AgentState):
    """State: the map and the agent, whose direction is 0 up, 1 right, 2 down or 3 left."""

    @property
    def facing(self) -> Int32[Array, "*batch"]:
        """Direction of the agent in MiniGrid's encoding: 0 right, 1 down, 2 left, 3 up."""
        return (self.direction + 3) & 3

    @property
    def pocket(self) -> UInt8[Array, "*batch"]:
        """Tile byte (kind and colour) of the object that the agent carries, 0 for none."""
        return self.carried

    @classmethod
    def of(cls, level: Level, time: Any = 0, pocket: ArrayLike = 0) -> "XLandState":
        """Return the initial state of a level; `pocket` is the tile byte that the agent carries."""
        row, column, direction = level.pose
        return cls(
            time=jnp.int32(time), grid=level.grid, agent=packed(row, column, direction, pocket)
        )
