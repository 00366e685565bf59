"""Empty: a room without obstacles, with the goal in the far corner (MiniGrid 3.2 `empty.py`)."""

from typing import ClassVar

from ..core.random import Key, below, words
from ..core.registry import register
from . import tiles
from .env import SquareGridEnv, register_level
from .placement import put, room
from .state import Level


@register("Grid-v0", size=8)
@register_level("Empty-5x5-v0", size=5)
@register_level("Empty-Random-5x5-v0", size=5, random_start=True)
@register_level("Empty-6x6-v0", size=6)
@register_level("Empty-Random-6x6-v0", size=6, random_start=True)
@register_level("Empty-8x8-v0", size=8, representative=True)
@register_level("Empty-16x16-v0", size=16)
class Empty(SquareGridEnv):
    """Walk to the green goal in the bottom right corner, from the top left or from anywhere.

    Reward: 1 - 0.9 * steps / max_steps on the goal. Episode ends: on the goal, or after
    4 * size**2 steps.
    """

    # Whether the agent starts in a random cell, not in the top left corner.
    random_start: bool = False
    see_through_walls: bool = True

    mission: ClassVar[str] = "get to the green goal square"
    # The grid determines the state: nothing can be carried or opened, and there is one mission.
    full_shows_all: ClassVar[bool] = True
    has_static_map: ClassVar[bool] = True

    def generate(self, key: Key) -> Level:
        """Place the agent; everything else is the same in all levels."""
        inner = self.size - 2
        grid = put(room(self.size, self.size), inner, inner, tiles.GOAL)
        if not self.random_start:
            return Level.of(grid, 1, 1, 0)
        word_cell, word_turn = words(key, 2)
        # Draw any inner cell except the last one, which has the goal.
        cell = below(word_cell, inner * inner - 1)
        return Level.of(grid, 1 + cell // inner, 1 + cell % inner, below(word_turn, 4))
