"""BabyAI's levels `ActionObjDoor`, `FindObj`, `KeyCorridor` and `OneRoom`.

Source: MiniGrid 3.2 `envs/babyai/other.py`.
"""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, UInt32

from ..grid import tiles
from ..grid.keycorridor import corridor
from ..grid.plan import Plan
from ..grid.rooms import Ranges
from ..grid.tiles import Kind
from . import mission as m
from .env import BabyEnv, OneRoom, any_of, level


@level("ActionObjDoor-v0")
class ActionObjDoor(BabyEnv):
    """Go to or pick up one of five objects, or go to or open one of four doors."""

    room_size: int = 7

    rooms_allowed: ClassVar[Ranges] = ((3, 8), (3, 8))
    verbs: ClassVar[tuple[int, ...]] = (m.GO_TO, m.OPEN, m.PICK_UP)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Place five objects, four doors and the agent in the middle room; return the mission.

        The target of the mission is one of the objects or doors. The verb is `GO_TO` with
        probability 1/2; otherwise it is `OPEN` for a door and `PICK_UP` for an object.
        """
        objects = plan.add_distractors(5, plan.middle)
        doors = [plan.add_door(plan.middle, locked=False) for _ in range(4)]
        plan.place_agent(plan.middle)
        tile = any_of(plan, objects, *doors)
        door = tiles.kind(tile) == Kind.CLOSED_DOOR
        verb = jnp.where(plan.coin(), m.GO_TO, jnp.where(door, m.OPEN, m.PICK_UP))
        return m.single(m.instruction(verb, m.like(tile)))


@level("FindObjS5-v0", room_size=5)
@level("FindObjS6-v0", room_size=6)
@level("FindObjS7-v0", room_size=7)
class FindObj(BabyEnv):
    """Pick up the only object in a maze of rooms."""

    room_size: int = 5

    steps_per_cell: ClassVar[int] = 20
    verbs: ClassVar[tuple[int, ...]] = (m.PICK_UP,)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Place an object in a random room and the agent in the middle room; add random doors.

        Return the mission to pick up the object.
        """
        target = plan.add_object(plan.below(plan.num_rooms))
        plan.place_agent(plan.middle)
        plan.connect_all()
        return m.single(m.pick_up(m.kind_of(target.tile)))


@level("KeyCorridor-v0")
@level("KeyCorridorS3R1-v0", room_size=3, num_rows=1)
@level("KeyCorridorS3R2-v0", room_size=3, num_rows=2)
@level("KeyCorridorS3R3-v0", room_size=3, num_rows=3)
@level("KeyCorridorS4R3-v0", room_size=4, num_rows=3)
@level("KeyCorridorS5R3-v0", room_size=5, num_rows=3)
@level("KeyCorridorS6R3-v0", room_size=6, num_rows=3)
class KeyCorridor(BabyEnv):
    """Find the key in a room on the left, unlock a room on the right and pick up the ball there."""

    room_size: int = 6

    steps_per_cell: ClassVar[int] = 30
    rooms_allowed: ClassVar[Ranges] = ((1, 8), (3, 3))
    min_room_size: ClassVar[int] = 3
    verbs: ClassVar[tuple[int, ...]] = (m.PICK_UP,)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Draw rooms, key and ball as `jaxenvs.grid.keycorridor` does.

        Return the mission to pick up the ball.
        """
        return m.single(m.pick_up(m.kind_of(corridor(plan).tile)))


@level("OneRoomS8-v0")
@level("OneRoomS12-v0", room_size=12)
@level("OneRoomS16-v0", room_size=16)
@level("OneRoomS20-v0", room_size=20, representative=True)
class PickUpBall(OneRoom):
    """Pick up the only object in a room, a ball."""

    verbs: ClassVar[tuple[int, ...]] = (m.PICK_UP,)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Place a ball of a random colour and the agent; return the mission to pick up the ball."""
        ball = plan.add_object(0, Kind.BALL)
        plan.place_agent(0)
        return m.single(m.pick_up(m.kind_of(ball.tile)))
