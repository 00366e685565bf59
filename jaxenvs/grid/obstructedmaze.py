"""ObstructedMaze: locked doors with balls in front (MiniGrid 3.2 `obstructedmaze.py`).

Keys may be hidden in boxes. The levels of version 1 are from `obstructedmaze_v1.py`.
"""

from typing import ClassVar

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Int32

from ..core.env import Ending
from ..core.random import Key
from . import tiles
from .aims import Aim
from .env import Verdict, register_level
from .plan import Plan
from .rooms import RIGHT, Ranges, RoomGrid
from .state import Action, GridState, Level
from .tiles import Colour, Kind

TARGET = Kind.BALL | Colour.BLUE << 4  # tile byte of the blue ball
OBSTACLE = Kind.BALL | Colour.GREEN << 4  # tile byte of a blocking ball
# (row change, column change) of a step towards each side of a room: right, down, left, up.
STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))
# (column, row) of the rooms next to the middle room: right, down, left, up.
AROUND = ((2, 1), (1, 2), (0, 1), (1, 0))
# (column, row) of the corner rooms, one of which has the target.
CORNERS = ((2, 0), (2, 2), (0, 2), (0, 0))


class ObstructedWorld(RoomGrid):
    """Base class of obstructed mazes: rooms and a blue ball to pick up.

    Reward: 1 - 0.9 * steps / max_steps for the blue ball. Episode ends: with the ball in the
    agent's hands, or after 4 * room_size**2 * rooms_visited steps.
    """

    room_size: int = 6
    key_in_box: bool = True  # whether keys are in grey boxes
    blocked: bool = True  # whether a green ball lies in front of each locked door
    rooms_visited: int = 2  # number of rooms to visit, from which the time limit is computed

    min_room_size: ClassVar[int] = 5
    mission: ClassVar[str] = "pick up the blue ball"

    @property
    def max_steps(self) -> int:
        """Time limit of an episode, in steps: MiniGrid's `max_steps` for this level."""
        return 4 * self.rooms_visited * self.room_size**2

    def aims(self, state: GridState) -> tuple[Aim, ...]:
        """Return the necessary condition of success: to pick up the blue ball."""
        return (Aim(state.grid == TARGET, 1, state.carried != TARGET),)

    def ending(self, level: Level) -> Ending:
        """Return a level and an action that ends its episode in success.

        The blue ball is in front of the agent, and the action picks it up.
        """
        return Ending(level.facing(TARGET), (Action.PICKUP,))

    def judge(self, before: GridState, after: GridState, action: Array, front: Array) -> Verdict:
        """Return (success, failure): success if the agent picks up the blue ball, never failure."""
        return (action == Action.PICKUP) & (after.carried == TARGET), jnp.zeros((), jnp.bool_)

    def lock(self, plan: Plan, room: int, side: int, colour: ArrayLike) -> None:
        """Add a locked door to a side of the room.

        If `blocked`, also put a green ball on the cell in front of the door, inside the room.
        """
        door = plan.add_door(room, side, colour, locked=True)
        if self.blocked:
            d_row, d_column = STEPS[side]
            plan.put(door.row - d_row, door.column - d_column, OBSTACLE)

    def hide_key(self, plan: Plan, room: int, colour: ArrayLike) -> None:
        """Place a key of this colour in the room; if `key_in_box`, hide it in a box."""
        plan.place(room, tiles.tile(Kind.KEY_BOX if self.key_in_box else Kind.KEY, colour))


@register_level("ObstructedMaze-1Dl-v0", key_in_box=False, blocked=False)
@register_level("ObstructedMaze-1Dlh-v0", blocked=False)
@register_level("ObstructedMaze-1Dlhb-v0")
class ObstructedDoor(ObstructedWorld):
    """Open one locked door and pick up the blue ball behind it.

    Reward: 1 - 0.9 * steps / max_steps for the blue ball. Episode ends: with the ball in the
    agent's hands, or after 4 * room_size**2 * rooms_visited steps.
    """

    num_rows: int = 1
    num_cols: int = 2

    rooms_allowed: ClassVar[Ranges] = ((1, 1), (2, 2))

    def generate(self, key: Key) -> Level:
        """Draw the door, the key, the blue ball and the agent."""
        plan = Plan(self, key)
        colour = plan.colour()
        self.lock(plan, 0, RIGHT, colour)
        self.hide_key(plan, 0, colour)
        plan.place(1, TARGET)
        plan.place_agent(0)
        return plan.level()


_ONE = {"quarters": 1, "rooms_visited": 4, "starts_outside": True}


@register_level("ObstructedMaze-2Dl-v0", key_in_box=False, blocked=False, **_ONE)
@register_level("ObstructedMaze-2Dlh-v0", blocked=False, **_ONE)
@register_level("ObstructedMaze-2Dlhb-v0", **_ONE)
@register_level("ObstructedMaze-2Dlhb-v1", keys_last=True, **_ONE)
@register_level("ObstructedMaze-1Q-v0", quarters=1, rooms_visited=5)
@register_level("ObstructedMaze-1Q-v1", quarters=1, rooms_visited=5, keys_last=True)
@register_level("ObstructedMaze-2Q-v0", quarters=2, rooms_visited=11, starts_outside=True)
@register_level(
    "ObstructedMaze-2Q-v1", quarters=2, rooms_visited=11, starts_outside=True, keys_last=True
)
@register_level("ObstructedMaze-Full-v0")
@register_level("ObstructedMaze-Full-v1", keys_last=True, representative=True)
class ObstructedMaze(ObstructedWorld):
    """Pick up the blue ball, which is in one of the four corners of nine rooms.

    The middle room has four neighbours. Each neighbour has two locked doors, which lead to the two
    corner rooms next to it. A quarter of the maze is one neighbour with its doors.

    Some mazes of version 0 have no solution: a green ball in front of a door may overwrite a key or
    a box. With `keys_last`, keys are placed after balls, so that no key is lost.

    Reward: 1 - 0.9 * steps / max_steps for the blue ball. Episode ends: with the ball in the
    agent's hands, or after 4 * room_size**2 * rooms_visited steps.
    """

    quarters: int = 4  # number of quarters of the maze that have doors, from 1 to 4
    rooms_visited: int = 25
    starts_outside: bool = False  # whether the agent starts in the room right of the middle
    # Whether the keys of a room are placed after its balls, so that no ball overwrites a key.
    keys_last: bool = False

    rooms_allowed: ClassVar[Ranges] = ((3, 3), (3, 3))
    bounds: ClassVar[dict[str, tuple[int, int]]] = {"quarters": (1, 4)}

    def generate(self, key: Key) -> Level:
        """Draw the doors, balls and keys of each quarter, then the target and the agent."""
        plan = Plan(self, key)
        colours = plan.colours(len(Colour))
        for side in range(self.quarters):
            plan.add_door(plan.middle, side, colours[side], locked=False)
            self._quarter(plan, side, colours)
        rooms = jnp.asarray([self.room(*corner) for corner in CORNERS[: self.quarters]])
        plan.place(rooms[plan.below(self.quarters)], TARGET)
        plan.place_agent(self.room(*AROUND[0]) if self.starts_outside else plan.middle)
        return plan.level()

    def _quarter(self, plan: Plan, side: int, colours: Int32[Array, "6"]) -> None:
        room = self.room(*AROUND[side])
        turns = [(side - 1, colours[side - 1]), (side + 1, colours[side + 1])]
        for turn, colour in turns:
            self.lock(plan, room, turn % 4, colour)
            if not self.keys_last:
                self.hide_key(plan, room, colour)
        if self.keys_last:
            for _, colour in turns:
                self.hide_key(plan, room, colour)
