"""BabyAI's levels in which the agent has to unlock doors.

Source: MiniGrid 3.2 `envs/babyai/unlock.py`.
"""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, UInt8, UInt32

from ..grid import tiles
from ..grid.plan import NUM_COLOURS, Plan
from ..grid.rooms import RIGHT, Ranges
from ..grid.tiles import Kind
from ..grid.unlock import lock
from . import mission as m
from .env import BabyEnv, TwoRooms, level
from .goto import LockedMaze


@level("Unlock-v0")
class Unlock(LockedMaze):
    """Find the key of a locked door somewhere in a maze, and open the door.

    As in MiniGrid, 4 % of the levels have no solution, because the key lies in the locked room.
    Other objects may lie there, too. If the field `key_outside` is true, the locked room is empty.
    """

    verbs: ClassVar[tuple[int, ...]] = (m.OPEN,)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Draw a maze with a locked room; return the mission to open the locked door.

        With probability 1/2, no other door has the colour of the locked door.
        """
        locked, door = self.lock_room(plan)
        colour = tiles.colour(door).astype(jnp.int32)
        plan.connect_all(avoid=jnp.where(plan.coin(), colour, NUM_COLOURS))
        self.fill(plan, locked, 3)
        return m.single(m.open_door(m.like(door)))


@level("UnlockLocal-v0")
@level("UnlockLocalDist-v0", distractors=True)
class UnlockLocal(BabyEnv):
    """Open the locked door of a room with a key that lies in the room."""

    distractors: bool = False  # whether there are three objects besides the key

    rooms_allowed: ClassVar[Ranges] = ((2, 8), (2, 8))
    verbs: ClassVar[tuple[int, ...]] = (m.OPEN,)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Add a locked door to the middle room; place its key and the agent in this room.

        Return the mission to open the door.
        """
        door = plan.add_door(plan.middle, locked=True)
        plan.add_object(plan.middle, Kind.KEY, tiles.colour(door.tile))
        if self.distractors:
            plan.add_distractors(3, plan.middle)
        plan.place_agent(plan.middle)
        return m.single(m.open_door(m.kind_of(door.tile)))


@level("KeyInBox-v0")
class KeyInBox(BabyEnv):
    """Open the locked door of a room with the key from a box in the room."""

    rooms_allowed: ClassVar[Ranges] = ((2, 8), (2, 8))
    verbs: ClassVar[tuple[int, ...]] = (m.OPEN,)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Add a locked door to the middle room; place the agent and a box with the key there.

        Return the mission to open the door. The encoded mission also stores the tile of the key,
        because all boxes of a level have the contents that its mission stores.
        """
        door = plan.add_door(plan.middle, locked=True)
        plan.add_object(plan.middle, Kind.BOX)
        plan.place_agent(plan.middle)
        key = tiles.tile(Kind.KEY, tiles.colour(door.tile)).astype(jnp.uint32)
        return m.single(m.open_door(m.kind_of(door.tile)) | (key << m.CONTENTS))

    def contents(self, state: Any) -> UInt8[Array, ""]:
        """Return the tile that boxes contain: the key of the locked door."""
        return m.contents(state.task)


@level("UnlockPickup-v0")
@level("UnlockPickupDist-v0", distractors=True)
class UnlockPickup(TwoRooms):
    """Open the locked door between two rooms and pick up the box in the other room.

    The default time limit is 72 steps, as in MiniGrid, which computes another limit of 288 steps
    but never uses it.
    """

    room_size: int = 6
    distractors: bool = False  # whether there are four objects besides key and box

    verbs: ClassVar[tuple[int, ...]] = (m.PICK_UP,)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Place a box in the right room, and the key and the agent in the left room.

        Between the rooms is a locked door. Return the mission to pick up the box.
        """
        box = plan.add_object(1, Kind.BOX)
        lock(plan)
        if self.distractors:
            plan.add_distractors(4)
        plan.place_agent(0)
        return m.single(m.pick_up(m.like(box.tile)))


@level("BlockedUnlockPickup-v0")
class BlockedUnlockPickup(TwoRooms):
    """Move a ball out of the way, unlock the door and pick up the box in the other room."""

    room_size: int = 6

    steps_per_cell: ClassVar[int] = 16
    verbs: ClassVar[tuple[int, ...]] = (m.PICK_UP,)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Place a box in the right room, and the key and the agent in the left room.

        Between the rooms is a locked door, and a ball lies in front of it. Return the mission to
        pick up the box.
        """
        box = plan.add_object(1, Kind.BOX)
        lock(plan, blocked=True)
        plan.place_agent(0)
        return m.single(m.pick_up(m.kind_of(box.tile)))


@level("UnlockToUnlock-v0")
class UnlockToUnlock(BabyEnv):
    """Unlock two of three rooms and pick up the ball.

    The key in the agent's room opens the right room. The key in the right room opens the left room,
    where the ball lies.
    """

    room_size: int = 6
    num_rows: int = 1

    steps_per_cell: ClassVar[int] = 30
    rooms_allowed: ClassVar[Ranges] = ((1, 1), (3, 3))
    verbs: ClassVar[tuple[int, ...]] = (m.PICK_UP,)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Add locked doors between three rooms; place their keys, a ball and the agent.

        Return the mission to pick up the ball.
        """
        colours = plan.colours(2)
        plan.add_door(0, RIGHT, colours[0], locked=True)
        plan.add_object(2, Kind.KEY, colours[0])
        plan.add_door(1, RIGHT, colours[1], locked=True)
        plan.add_object(1, Kind.KEY, colours[1])
        ball = plan.add_object(0, Kind.BALL)
        plan.place_agent(1)
        return m.single(m.pick_up(m.kind_of(ball.tile)))
