"""FourRooms: four rooms that are joined by four gaps in the walls (MiniGrid 3.2 `fourrooms.py`)."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Int32

from ..core.random import Key, below, words
from . import tiles
from .env import FixedGridEnv, register_level
from .placement import other, put, room
from .state import Level

# Number of cells per side of the grid; index of the row and column of the inner walls; number of
# cells per side of a room.
SIZE, WALL, SIDE = 19, 9, 8
ROOM_CELLS = 4 * SIDE * SIDE


@register_level("FourRooms-v0")
class FourRooms(FixedGridEnv):
    """Walk to the goal; agent and goal are anywhere in four rooms or in the gaps between them.

    Reward: 1 - 0.9 * steps / max_steps on the goal. Episode ends: on the goal, or after 100 steps.
    """

    shape: ClassVar[tuple[int, int]] = (SIZE, SIZE)
    limit: ClassVar[int] = 100
    mission: ClassVar[str] = "reach the goal"
    # The grid determines the state: nothing can be carried or opened, and there is one mission.
    full_shows_all: ClassVar[bool] = True
    has_static_map: ClassVar[bool] = True

    def generate(self, key: Key) -> Level:
        """Draw the positions of the gaps, the agent and the goal."""
        word = words(key, 7)
        # Offset of the gap along each of the four inner walls: upper, lower, left and right.
        offset = 1 + below(word[:4], SIDE)
        far = offset + jnp.array([0, WALL, 0, WALL], jnp.int32)
        gaps = jnp.stack(
            [jnp.array([0, 0, WALL, WALL], jnp.int32), jnp.array([WALL, WALL, 0, 0], jnp.int32)]
        ) + jnp.stack([far.at[2:].set(0), far.at[:2].set(0)])
        walls = room(SIZE, SIZE)
        walls[WALL, :] = walls[:, WALL] = tiles.WALL
        grid = jnp.asarray(walls)
        for row, column in gaps.T:
            grid = put(grid, row, column, tiles.EMPTY)
        free = ROOM_CELLS + 4
        agent = below(word[4], free)
        goal = other(word[5], free, agent)
        grid = put(grid, *_free_cell(goal, gaps), tiles.GOAL)
        return Level.of(grid, *_free_cell(agent, gaps), below(word[6], 4))


def _free_cell(
    index: Int32[Array, ""], gaps: Int32[Array, "2 4"]
) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Return (row, column) of the free cell with this index.

    The cells of the four rooms have the first indices, room by room, and row by row within a room.
    The four gaps have the last indices.
    """
    in_room = index < ROOM_CELLS
    number, cell = index // SIDE**2, index % SIDE**2
    gap = gaps[:, jnp.clip(index - ROOM_CELLS, 0, 3)]
    row = 1 + cell // SIDE + WALL * (number // 2)
    column = 1 + cell % SIDE + WALL * (number % 2)
    return jnp.where(in_room, row, gap[0]), jnp.where(in_room, column, gap[1])
