"""KeyCorridor: a corridor between rooms, one of them locked (MiniGrid 3.2 `keycorridor.py`)."""

from typing import ClassVar

import jax.numpy as jnp

from ..core.random import Key
from . import tiles
from .env import register_level
from .plan import Plan, Thing
from .rooms import LEFT, UP, PickUpWorld, Ranges
from .state import Level
from .tiles import Kind


def corridor(plan: Plan) -> Thing:
    """Draw a corridor between rooms, and return the ball that is the target.

    A locked room on the right has the ball, and a room on the left has the key. The agent starts in
    the corridor, and doors connect all rooms.
    """
    env = plan.env
    for row in range(1, env.num_rows):
        plan.remove_wall(env.room(1, row), UP)
    room = env.room(2, 0) + env.num_cols * plan.below(env.num_rows)
    door = plan.add_door(room, LEFT, locked=True)
    ball = plan.add_object(room, Kind.BALL)
    key_room = env.num_cols * plan.below(env.num_rows)
    plan.add_object(key_room, Kind.KEY, tiles.colour(door.tile))
    plan.place_agent(env.room(1, env.num_rows // 2))
    plan.connect_all()
    return ball


@register_level("KeyCorridorS3R1-v0", room_size=3, num_rows=1)
@register_level("KeyCorridorS3R2-v0", room_size=3, num_rows=2)
@register_level("KeyCorridorS3R3-v0", room_size=3, num_rows=3)
@register_level("KeyCorridorS4R3-v0", room_size=4, num_rows=3)
@register_level("KeyCorridorS5R3-v0", room_size=5, num_rows=3)
@register_level("KeyCorridorS6R3-v0", room_size=6, num_rows=3)
class KeyCorridor(PickUpWorld):
    """Find the key in a room on the left, unlock a room on the right and pick up the ball there.

    Reward: 1 - 0.9 * steps / max_steps for the ball. Episode ends: with the ball in the agent's
    hands, or after 30 * room_size**2 steps.
    """

    room_size: int = 6

    steps_per_cell: ClassVar[int] = 30
    rooms_allowed: ClassVar[Ranges] = ((1, 8), (3, 3))

    def generate(self, key: Key) -> Level:
        """Draw a level; its field `task` has the tile of the ball to pick up."""
        plan = Plan(self, key)
        ball = corridor(plan)
        return plan.level(task=ball.tile.astype(jnp.int32))
