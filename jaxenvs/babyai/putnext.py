"""BabyAI's levels with missions to put one object next to another.

Source: MiniGrid 3.2 `envs/babyai/putnext.py` and `envs/babyai/other.py`.
"""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, PyTree, UInt32

from ..core.env import Params
from ..core.random import Key
from ..grid import tiles
from ..grid.plan import Plan, Thing
from ..grid.rooms import RIGHT
from ..grid.state import Level
from . import mission as m
from .env import TRIES, BabyState, OneRoom, TwoRooms, level


@level("PutNextLocal-v0")
@level("PutNextLocalS5N3-v0", room_size=5, num_objs=3)
@level("PutNextLocalS6N4-v0", room_size=6, num_objs=4)
class PutNextLocal(OneRoom):
    """Put one object next to another object in the same room."""

    num_objs: int = 8  # number of objects in the room

    level_budget: ClassVar[int] = TRIES
    verbs: ClassVar[tuple[int, ...]] = (m.PUT_NEXT,)
    max_navigations: ClassVar[int] = 2
    bounds: ClassVar[dict[str, tuple[int, int]]] = {"num_objs": (2, 18)}

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Place the agent and objects; return the mission to put one object next to another.

        Reject the level if the agent cannot reach every object, or if the two objects of the
        mission are already next to each other.
        """
        plan.place_agent()
        things = plan.add_distractors(self.num_objs, 0)
        a, b = (Thing(*(x[i] for x in things)) for i in plan.sample(self.num_objs, 2))
        side_by_side = abs(a.row - b.row) + abs(a.column - b.column) == 1
        plan.accepted = plan.accepted & plan.all_reachable() & ~side_by_side
        return m.single(m.put_next(m.like(a.tile), m.like(b.tile)))


class OpenRooms(TwoRooms):
    """Base class of levels with two rooms of objects and no wall between the rooms."""

    objs_per_room: int = 1  # number of objects in each room

    bounds: ClassVar[dict[str, tuple[int, int]]] = {"objs_per_room": (1, 9)}
    level_budget: ClassVar[int] = TRIES
    verbs: ClassVar[tuple[int, ...]] = (m.PUT_NEXT,)

    def both(self, plan: Plan) -> tuple[Array, Array]:
        """Place the agent and objects in two rooms, and remove the wall between the rooms.

        Return two arrays of tiles: the objects in the left room, and those in the right room.
        """
        plan.place_agent(0)
        left, right = (plan.add_distractors(self.objs_per_room, room) for room in (0, 1))
        plan.remove_wall(0, RIGHT)
        return left.tile, right.tile


@level("PutNextS4N1-v0", room_size=4, objs_per_room=1)
@level("PutNextS5N1-v0", room_size=5, objs_per_room=1)
@level("PutNextS5N2-v0", room_size=5, objs_per_room=2)
@level("PutNextS6N3-v0", room_size=6, objs_per_room=3)
@level("PutNextS7N4-v0", room_size=7, objs_per_room=4)
class PutNext(OpenRooms):
    """Put an object of one room next to an object of the other room."""

    steps_per_cell: ClassVar[int] = 8

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Place the agent and objects; return the mission to put one object next to another.

        One of the two objects is in the left room, the other one in the right room. Which of them
        the agent has to move is random.
        """
        left, right = self.both(plan)
        a, b = left[plan.below(len(left))], right[plan.below(len(right))]
        swapped = plan.coin()
        a, b = jnp.where(swapped, b, a), jnp.where(swapped, a, b)
        return m.single(m.put_next(m.like(a), m.like(b)))


@level("PutNextS5N2Carrying-v0", room_size=5, objs_per_room=2)
@level("PutNextS6N3Carrying-v0", room_size=6, objs_per_room=3)
@level("PutNextS7N4Carrying-v0", room_size=7, objs_per_room=4)
class PutNextCarrying(PutNext):
    """Put down an object, which the agent carries from the start, next to another object.

    The objects are placed as in `PutNext`.

    If `obs` is "image", "dict" or "onehot", the first observation still shows the object on the
    floor, because MiniGrid's reset observes before it gives the object to the agent. If `obs` is
    "full", "rgb" or "rgb_full", the first observation shows the object as carried, as MiniGrid's
    wrappers do.
    """

    starts_carrying: ClassVar[bool] = True

    def reset_state(self, key: Key, level: Level, params: Params) -> BabyState:
        """Return the initial state, in which the agent already carries the object to put down.

        The mission describes two objects. The carried object is the one that fits the first
        description; bit 0 of `marks` is set in its cell.
        """
        state = super().reset_state(key, level, params)
        there = (state.marks & 1) != 0
        tile = jnp.where(there, state.grid, jnp.uint8(0)).max().astype(jnp.int32)
        held = jnp.where(there, state.marks, jnp.uint8(0)).max().astype(jnp.int32)
        return state.replace(
            grid=jnp.where(there, jnp.uint8(tiles.EMPTY), state.grid),
            agent=state.agent | (tile << 24),
            progress=state.progress | (held << 8),
        )

    def observe(self, state: Any, params: Any = None) -> PyTree[Array]:
        """Return the observation of a state.

        If `obs` is "image", "dict" or "onehot", the first observation of an episode shows the
        object that the agent carries as if it still lay on the floor.
        """
        if self.obs in ("image", "dict", "onehot"):
            first = state.time == 0
            there = first & ((state.marks & 1) != 0)
            state = state.replace(
                grid=jnp.where(there, state.carried, state.grid),
                agent=jnp.where(first, state.agent & 0xFFFFFF, state.agent),
            )
        return super().observe(state, params)


@level("MoveTwoAcrossS5N2-v0", room_size=5, objs_per_room=2)
@level("MoveTwoAcrossS8N9-v0", room_size=8, objs_per_room=9)
class MoveTwoAcross(OpenRooms):
    """Put an object of the left room next to one of the right room; then the other way round.

    The second instruction is to put an object of the right room next to an object of the left room.
    No object occurs in both instructions.
    """

    objs_per_room: int = 2

    steps_per_cell: ClassVar[int] = 16
    bounds: ClassVar[dict[str, tuple[int, int]]] = {"objs_per_room": (2, 9)}

    def draw(self, plan: Plan) -> UInt32[Array, "3"]:
        """Place the agent and objects; return a mission with two instructions.

        The first instruction is to put an object of the left room next to an object of the right
        room. The second instruction is to put another object of the right room next to another
        object of the left room.
        """
        left, right = self.both(plan)
        a, d = m.like(left[plan.sample(self.objs_per_room, 2)])
        b, c = m.like(right[plan.sample(self.objs_per_room, 2)])
        return m.sequence(m.put_next(a, b), m.put_next(c, d))
