"""BabyAI's levels with missions to pick up an object.

Source: MiniGrid 3.2 `envs/babyai/pickup.py`.
"""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, UInt32

from ..grid import tiles
from ..grid.plan import Plan
from ..grid.rooms import UP, Ranges
from . import mission as m
from .env import TRIES, BabyEnv, OneRoom, any_of, level


@level("Pickup-v0")
@level("UnblockPickup-v0", num_dists=20, unblock=True)
class Pickup(BabyEnv):
    """Pick up an object in a maze of rooms.

    With `unblock`, the agent can reach some objects only after moving other objects out of the way.
    """

    num_dists: int = 18  # number of objects in the maze
    unblock: bool = False  # whether the agent can reach some object only by moving other ones

    level_budget: ClassVar[int] = TRIES
    verbs: ClassVar[tuple[int, ...]] = (m.PICK_UP,)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Add doors, objects and the agent; return the mission to pick up one of the objects.

        Without `unblock`, reject the level if the agent cannot reach every object. With `unblock`,
        reject it if the agent can reach every object.
        """
        plan.place_agent()
        plan.connect_all()
        objects = plan.add_distractors(self.num_dists, unique=False)
        plan.accepted = plan.accepted & (plan.all_reachable() != self.unblock)
        return m.single(m.pick_up(m.like(any_of(plan, objects))))


@level("PickupDist-v0")
@level("PickupDistDebug-v0", debug=True)
class PickupDist(OneRoom):
    """Pick up an object in a room; the mission names the object's kind, colour or both."""

    room_size: int = 7
    debug: bool = False  # whether picking up any object but the target fails the mission

    level_budget: ClassVar[int] = TRIES
    verbs: ClassVar[tuple[int, ...]] = (m.PICK_UP,)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Place the agent and five objects that differ in kind or colour.

        Return the mission to pick up one of the objects; it names the object by kind, colour or
        both.
        """
        objects = plan.add_distractors(5, 0)
        plan.place_agent(0)
        tile = any_of(plan, objects)
        by_colour = m.description(colour=tiles.colour(tile))
        named = jnp.stack([m.kind_of(tile), by_colour, m.like(tile)])
        return m.single(m.pick_up(named[plan.below(3)], strict=self.debug))


@level("PickupAbove-v0")
class PickupAbove(BabyEnv):
    """Pick up the object in the room above the agent's room."""

    room_size: int = 6

    steps_per_cell: ClassVar[int] = 8
    rooms_allowed: ClassVar[Ranges] = ((3, 3), (3, 3))
    verbs: ClassVar[tuple[int, ...]] = (m.PICK_UP,)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Place an object in the room above the agent's room, and a door between the two rooms.

        Return the mission to pick up the object.
        """
        target = plan.add_object(self.room(1, 0))
        plan.add_door(plan.middle, UP, locked=False)
        plan.place_agent(plan.middle)
        plan.connect_all()
        return m.single(m.pick_up(m.like(target.tile)))
