"""LavaGap: one gap in a wall of lava (MiniGrid 3.2 `lavagap.py`)."""

from typing import ClassVar

import jax.numpy as jnp

from ..core.random import Key, below, words
from . import tiles
from .env import SquareGridEnv, register_level
from .placement import lines, put, room
from .state import Level


@register_level("LavaGapS5-v0", size=5)
@register_level("LavaGapS6-v0", size=6)
@register_level("LavaGapS7-v0", size=7)
class LavaGap(SquareGridEnv):
    """Go through the gap in a column of deadly lava and reach the goal in the opposite corner.

    Reward: 1 - 0.9 * steps / max_steps on the goal. Episode ends: on the goal, on lava, or after
    4 * size**2 steps.
    """

    size: int = 7
    min_size: ClassVar[int] = 5
    mission: ClassVar[str] = "avoid the lava and get to the green goal square"
    # The grid determines the state: nothing can be carried or opened, and there is one mission.
    full_shows_all: ClassVar[bool] = True
    has_static_map: ClassVar[bool] = True

    def generate(self, key: Key) -> Level:
        """Draw the column of lava, and the row of the gap in it."""
        size = self.size
        word_column, word_row = words(key, 2)
        column, row = 2 + below(word_column, size - 4), 1 + below(word_row, size - 2)
        bare = room(size, size)
        rows, columns = lines(size, size)
        lava = (columns == column) & (rows != row) & (bare == tiles.EMPTY)
        grid = jnp.where(lava, jnp.uint8(tiles.LAVA), bare)
        return Level.of(put(grid, size - 2, size - 2, tiles.GOAL), 1, 1, 0)
