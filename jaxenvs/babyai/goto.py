"""BabyAI's levels with missions to go to an object or a door.

Source: MiniGrid 3.2 `envs/babyai/goto.py`.
"""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

from ..grid import tiles
from ..grid.plan import Plan
from ..grid.rooms import Ranges
from ..grid.tiles import Colour, Kind
from . import mission as m
from .env import TRIES, BabyEnv, OneRoom, any_of, level

RED_BALL = Kind.BALL | Colour.RED << 4  # tile byte of a red ball
BLUE_BALL = Kind.BALL | Colour.BLUE << 4  # tile byte of a blue ball


@level("GoToRedBallGrey-v0", grey=True)
@level("GoToRedBall-v0")
@level("GoToRedBallNoDists-v0", num_dists=0)
class GoToRedBall(OneRoom):
    """Go to the red ball in a room with other objects."""

    num_dists: int = 7  # number of objects besides the red ball
    grey: bool = False  # whether the other objects are grey

    level_budget: ClassVar[int] = TRIES

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Place the agent, the red ball and other objects; return the mission to go to the ball.

        Reject the level if the agent cannot reach every object.
        """
        plan.place_agent()
        plan.place(0, RED_BALL)
        if self.num_dists:
            others = plan.add_distractors(self.num_dists, 0, unique=False)
            if self.grey:
                plan.put(others.row, others.column, tiles.tile(others.tile & 15, Colour.GREY))
        plan.accepted = plan.accepted & plan.all_reachable()
        return m.single(m.go_to(m.description(Kind.BALL, Colour.RED)))


@level("GoToObj-v0")
@level("GoToObjS4-v0", room_size=4)
@level("GoToObjS6-v1", room_size=6)
class GoToObj(OneRoom):
    """Go to the only object in a room."""

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Place the agent and a random object; return the mission to go to this object."""
        plan.place_agent()
        return m.single(m.go_to(m.like(plan.add_object(0).tile)))


@level("GoToLocal-v0")
@level("GoToLocalS5N2-v0", room_size=5, num_dists=2)
@level("GoToLocalS6N2-v0", room_size=6, num_dists=2)
@level("GoToLocalS6N3-v0", room_size=6, num_dists=3)
@level("GoToLocalS6N4-v0", room_size=6, num_dists=4)
@level("GoToLocalS7N4-v0", room_size=7, num_dists=4)
@level("GoToLocalS7N5-v0", room_size=7, num_dists=5)
@level("GoToLocalS8N2-v0", room_size=8, num_dists=2)
@level("GoToLocalS8N3-v0", room_size=8, num_dists=3)
@level("GoToLocalS8N4-v0", room_size=8, num_dists=4)
@level("GoToLocalS8N5-v0", room_size=8, num_dists=5)
@level("GoToLocalS8N6-v0", room_size=8, num_dists=6)
@level("GoToLocalS8N7-v0", room_size=8, num_dists=7)
class GoToLocal(OneRoom):
    """Go to an object of the named kind and colour in a room with several objects."""

    num_dists: int = 8  # number of objects in the room, including the target

    level_budget: ClassVar[int] = TRIES

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Place the agent and objects; return the mission to go to one of the objects.

        Reject the level if the agent cannot reach every object.
        """
        plan.place_agent()
        objects = plan.add_distractors(self.num_dists, 0, unique=False)
        plan.accepted = plan.accepted & plan.all_reachable()
        return m.single(m.go_to(m.like(any_of(plan, objects))))


@level("GoTo-v0")
@level("GoToOpen-v0", doors_open=True)
@level("GoToObjMaze-v0", num_dists=1)
@level("GoToObjMazeOpen-v0", num_dists=1, doors_open=True)
@level("GoToObjMazeS4R2-v0", num_dists=1, room_size=4, num_rows=2, num_cols=2)
@level("GoToObjMazeS4-v0", num_dists=1, room_size=4)
@level("GoToObjMazeS5-v0", num_dists=1, room_size=5)
@level("GoToObjMazeS6-v0", num_dists=1, room_size=6)
@level("GoToObjMazeS7-v0", num_dists=1, room_size=7)
class GoTo(BabyEnv):
    """Go to an object somewhere in a maze of rooms."""

    num_dists: int = 18  # number of objects in the maze, including the target
    doors_open: bool = False  # whether all doors are open at the start

    level_budget: ClassVar[int] = TRIES

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Add doors, objects and the agent; return the mission to go to one of the objects.

        Reject the level if the agent cannot reach every object.
        """
        plan.place_agent()
        plan.connect_all()
        objects = plan.add_distractors(self.num_dists, unique=False)
        plan.accepted = plan.accepted & plan.all_reachable()
        if self.doors_open:
            plan.open_all_doors()
        return m.single(m.go_to(m.like(any_of(plan, objects))))


class LockedMaze(BabyEnv):
    """Base class of mazes with a locked room.

    Unless `key_outside` is true, the key and other objects may lie in the locked room. This
    reproduces a bug of MiniGrid, which compares room indices with `is` instead of `==`.
    """

    key_outside: bool = False  # whether the locked room contains neither its key nor other objects

    rooms_allowed: ClassVar[Ranges] = ((2, 8), (2, 8))
    level_budget: ClassVar[int] = TRIES

    def lock_room(self, plan: Plan) -> tuple[Array, Array]:
        """Lock a random room and place its key; return the room's index and its door's tile."""
        locked = plan.below(plan.num_rooms)
        door = plan.add_door(locked, locked=True)
        rooms = jnp.arange(plan.num_rooms, dtype=np.int32)
        room = plan.pick(rooms != locked) if self.key_outside else plan.below(plan.num_rooms)
        plan.add_object(room, Kind.KEY, tiles.colour(door.tile))
        return locked, door.tile

    def fill(self, plan: Plan, locked: Array, count: int) -> None:
        """Place `count` objects in each room, and the agent outside the locked room.

        With `key_outside`, the locked room gets no objects. Reject the maze if the agent cannot
        reach every object with all doors unlocked.
        """
        number = plan.num_rooms - 1 if self.key_outside else plan.num_rooms
        rooms = jnp.arange(number, dtype=np.int32)
        if self.key_outside:
            rooms = rooms + (rooms >= locked).astype(jnp.int32)
        plan.add_distractors(number * count, jnp.repeat(rooms, count), unique=False)
        plan.place_agent(avoid_room=locked)
        plan.accepted = plan.accepted & plan.all_reachable()


@level("GoToImpUnlock-v0")
class GoToImpUnlock(LockedMaze):
    """Go to an object in a locked room; the mission does not say that the door must be unlocked.

    As in MiniGrid, 5 % of the levels have no solution, because the key lies in the locked room.
    Other objects may lie there, too. If the field `key_outside` is true, the locked room has only
    the target.
    """

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Draw a maze with a locked room; return the mission to go to an object in that room."""
        locked, _ = self.lock_room(plan)
        plan.connect_all()
        self.fill(plan, locked, 2)
        target = plan.add_object(locked)
        return m.single(m.go_to(m.like(target.tile)))


@level("GoToRedBlueBall-v0")
class GoToRedBlueBall(OneRoom):
    """Go to the ball that is red or blue, in a room with other objects."""

    num_dists: int = 7  # number of objects besides the target

    level_budget: ClassVar[int] = TRIES

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Place a red or blue ball, other objects and the agent; return the mission.

        The mission is to go to this ball. Reject the level if one of the other objects is a red or
        blue ball too, or if the agent cannot reach every object.
        """
        plan.place_agent()
        others = plan.add_distractors(self.num_dists, 0, unique=False)
        rival = (others.tile == RED_BALL) | (others.tile == BLUE_BALL)
        ball = jnp.where(plan.coin(), jnp.uint8(RED_BALL), jnp.uint8(BLUE_BALL))
        plan.place(0, ball)
        plan.accepted = plan.accepted & ~rival.any() & plan.all_reachable()
        return m.single(m.go_to(m.like(ball)))


@level("GoToDoor-v0")
class GoToDoor(BabyEnv):
    """Go to one of the four doors of a room; the mission names the door's colour."""

    room_size: int = 7

    rooms_allowed: ClassVar[Ranges] = ((3, 8), (3, 8))

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Add four doors to the middle room, and place the agent there.

        Each door is locked with probability 1/2. Return the mission to go to one of the doors.
        """
        doors = [plan.add_door(plan.middle) for _ in range(4)]
        plan.place_agent(plan.middle)
        return m.single(m.go_to(m.like(any_of(plan, *doors))))


@level("GoToObjDoor-v0")
class GoToObjDoor(BabyEnv):
    """Go to an object in a room or to one of the room's doors."""

    rooms_allowed: ClassVar[Ranges] = ((3, 8), (3, 8))
    level_budget: ClassVar[int] = TRIES

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Place eight objects, four doors and the agent in the middle room.

        Return the mission to go to one of the objects or doors. Reject the level if the agent
        cannot reach every object.
        """
        plan.place_agent(plan.middle)
        objects = plan.add_distractors(8, plan.middle, unique=False)
        doors = [plan.add_door(plan.middle) for _ in range(4)]
        plan.accepted = plan.accepted & plan.all_reachable()
        return m.single(m.go_to(m.like(any_of(plan, objects, *doors))))
