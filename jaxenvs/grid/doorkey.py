"""DoorKey: find the key, unlock the door, reach the goal (MiniGrid 3.2 `doorkey.py`)."""

from typing import ClassVar

import jax.numpy as jnp

from ..core.random import Key, below, words
from . import tiles
from .env import SquareGridEnv, register_level
from .placement import lines, other, put, room
from .state import Level
from .tiles import Colour, Kind


@register_level("DoorKey-5x5-v0", size=5)
@register_level("DoorKey-6x6-v0", size=6)
@register_level("DoorKey-8x8-v0", size=8, representative=True)
@register_level("DoorKey-16x16-v0", size=16)
class DoorKey(SquareGridEnv):
    """A wall splits the room; the key to the locked door in this wall lies on the agent's side.

    The goal is on the other side of the wall. The door is never in the last row of the room, as in
    MiniGrid, whose range of random rows is one too short.

    Reward: 1 - 0.9 * steps / max_steps on the goal. Episode ends: on the goal, or after 10 *
        size**2 steps.
    """

    steps_per_cell: ClassVar[int] = 10
    min_size: ClassVar[int] = 5
    mission: ClassVar[str] = "use the key to open the door and then get to the goal"
    # The grid determines the state. If the grid shows no key, the agent carries the key. If the
    # grid shows no door, the agent stands in the cell of the door, which must be open.
    full_shows_all: ClassVar[bool] = True

    def generate(self, key: Key) -> Level:
        """Draw the positions of the wall, the door, the key and the agent."""
        size, inner = self.size, self.size - 2
        word_wall, word_door, word_agent, word_turn, word_key = words(key, 5)
        wall = 2 + below(word_wall, size - 4)
        door = 1 + below(word_door, size - 3)
        # Number of free cells left of the wall. These cells are numbered column by column.
        cells = (wall - 1) * inner
        agent = below(word_agent, cells)
        lying = other(word_key, cells, agent)
        split = jnp.where(lines(size, size)[1] == wall, tiles.WALL, room(size, size))
        grid = put(split.astype(jnp.uint8), inner, inner, tiles.GOAL)
        grid = put(grid, door, wall, tiles.tile(Kind.LOCKED_DOOR, Colour.YELLOW))
        yellow_key = tiles.tile(Kind.KEY, Colour.YELLOW)
        grid = put(grid, 1 + lying % inner, 1 + lying // inner, yellow_key)
        return Level.of(grid, 1 + agent % inner, 1 + agent // inner, below(word_turn, 4))
