"""Unlock: two rooms with a locked door between them (MiniGrid 3.2 `unlock.py`).

UnlockPickup and BlockedUnlockPickup are from `unlockpickup.py` and `blockedunlockpickup.py`.
"""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core.env import Ending
from ..core.random import Key
from . import tiles
from .aims import Aim
from .env import Verdict, register_level
from .plan import Plan, Thing
from .rooms import RIGHT, PickUpWorld, Ranges, RoomGrid
from .state import Action, GridState, Level
from .tiles import Kind


def lock(plan: Plan, *, blocked: bool = False) -> Thing:
    """Add a locked door between the two rooms, and its key in the left room; return the door.

    The caller puts the agent into the left room, too. blocked: whether a ball lies in front of the
    door.
    """
    door = plan.add_door(0, RIGHT, locked=True)
    if blocked:
        plan.put(door.row, door.column - 1, tiles.tile(Kind.BALL, plan.colour()))
    plan.add_object(0, Kind.KEY, tiles.colour(door.tile))
    return door


@register_level("Unlock-v0")
class Unlock(RoomGrid):
    """Find the key and open the locked door.

    Reward: 1 - 0.9 * steps / max_steps when the door opens. Episode ends: with the door open, or
    after 8 * room_size**2 steps.
    """

    room_size: int = 6
    num_rows: int = 1
    num_cols: int = 2

    steps_per_cell: ClassVar[int] = 8
    rooms_allowed: ClassVar[Ranges] = ((1, 1), (2, 2))
    min_room_size: ClassVar[int] = 4
    mission: ClassVar[str] = "open the door"
    # The observation `full` (the grid) determines the state: if it does not show the key, the agent
    # carries the key.
    full_shows_all: ClassVar[bool] = True

    def generate(self, key: Key) -> Level:
        """Draw the door, the key and the agent."""
        plan = Plan(self, key)
        lock(plan)
        plan.place_agent(0)
        return plan.level()

    def aims(self, state: GridState) -> tuple[Aim, ...]:
        """Return the necessary conditions of success: to have a key, and to unlock the door."""
        keys = (Kind.KEY, Kind.KEY_BOX)
        key = Aim(tiles.is_any(state.grid, *keys), 2, ~tiles.is_any(state.carried, *keys))
        return key, Aim(tiles.kind(state.grid) == Kind.LOCKED_DOOR, 1)

    def ending(self, level: Level) -> Ending:
        """Return a level and the actions that end its episode.

        The agent takes the key, turns around and opens the door.
        """
        grid = np.asarray(level.grid)
        (row,), (column,) = np.nonzero(grid & 15 == Kind.LOCKED_DOOR)
        key = int(grid[row, column]) & 0xF0 | Kind.KEY
        ahead = np.array([key, tiles.EMPTY], np.uint8)
        cells = jnp.asarray(grid).at[row, column - 2 : column].set(ahead)
        actions = (Action.PICKUP, Action.RIGHT, Action.RIGHT, Action.TOGGLE)
        return Ending(level.replace(grid=cells).posed(row, column - 1, 2), actions)

    def judge(self, before: GridState, after: GridState, action: Array, front: Array) -> Verdict:
        """Return (success, failure): success if the agent unlocks the door, never failure.

        The colour of the carried key is not tested, because the level's only key fits the door.
        """
        key = tiles.kind(before.carried) == Kind.KEY
        unlocks = (action == Action.TOGGLE) & (tiles.kind(front) == Kind.LOCKED_DOOR) & key
        return unlocks, jnp.zeros((), jnp.bool_)


@register_level("UnlockPickup-v0")
class UnlockPickup(PickUpWorld):
    """Open the locked door and pick up the box in the other room.

    Reward: 1 - 0.9 * steps / max_steps when the agent picks up the box. Episode ends: with the box
    in the agent's hands, or after 8 * room_size**2 steps (16 * room_size**2 where a ball blocks the
    door).
    """

    room_size: int = 6
    num_rows: int = 1
    num_cols: int = 2
    blocked: bool = False  # whether a ball lies in front of the door

    rooms_allowed: ClassVar[Ranges] = ((1, 1), (2, 2))
    min_room_size: ClassVar[int] = 5

    @property
    def max_steps(self) -> int:
        """Time limit of an episode, in steps: MiniGrid's `max_steps` for this level."""
        return (16 if self.blocked else 8) * self.room_size**2

    def generate(self, key: Key) -> Level:
        """Draw the box, the door, the key and the agent."""
        plan = Plan(self, key)
        box = plan.add_object(1, Kind.BOX)
        lock(plan, blocked=self.blocked)
        plan.place_agent(0)
        return plan.level(task=box.tile.astype(jnp.int32))


register_level("BlockedUnlockPickup-v0", blocked=True, representative=True)(UnlockPickup)
