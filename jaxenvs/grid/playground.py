"""Playground: nine rooms with objects and without a task (MiniGrid 3.2 `playground.py`)."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32

from ..core.env import Step
from ..core.random import Key, below, distinct, words
from . import tiles
from .env import FixedGridEnv, register_level
from .placement import digits, item, put_all, room
from .state import GridState, Level
from .tiles import Kind

# Number of cells per side of the grid; number of rows or columns from one wall to the next.
SIZE, PITCH = 19, 6
SIDE = PITCH - 1  # number of free cells per side of a room
# Number of objects; number of (kind, colour) pairs from which they are drawn.
THINGS, SORTS = 12, 18
# One entry per wall between two rooms: row and column of the first room among the 3 x 3 rooms, and
# whether the second room is below the first one (True) or right of it (False).
INNER_WALLS = [(i, j, False) for i in range(3) for j in range(2)]
INNER_WALLS += [(i, j, True) for i in range(2) for j in range(3)]


@register_level("Playground-v0")
class Playground(FixedGridEnv):
    """Walk among nine rooms, with a closed door between neighbouring rooms, and twelve objects.

    Reward: none. Episode ends: after 100 steps.
    """

    shape: ClassVar[tuple[int, int]] = (SIZE, SIZE)
    limit: ClassVar[int] = 100

    def succeeded(self, step: Step) -> None:
        """Return None, because Playground has no task."""
        return None

    def aims(self, state: GridState) -> None:
        """Return None, because there is no task, so no condition of success."""
        return None

    def ending(self, level: Level) -> None:
        """Return None, because no action ends an episode: only the time limit does."""
        return None

    def generate(self, key: Key) -> Level:
        """Draw the doors, the agent and the objects."""
        walls = room(SIZE, SIZE)
        walls[PITCH : SIZE - 1 : PITCH, :] = walls[:, PITCH : SIZE - 1 : PITCH] = tiles.WALL
        word = words(key, 2 + 2 * THINGS + len(INNER_WALLS))
        rows, columns = _free_cell(distinct(word[1 : 2 + THINGS], 9 * SIDE * SIDE))
        things = item(below(word[2 + THINGS : 2 + 2 * THINGS], SORTS))
        place, colour = digits(word[2 + 2 * THINGS :], SIDE - 1, 6)
        above, left, is_below = np.array(INNER_WALLS, np.int32).T
        door_rows = PITCH * above + jnp.where(is_below != 0, PITCH, 1 + place)
        door_columns = PITCH * left + jnp.where(is_below != 0, 1 + place, PITCH)
        doors = tiles.tile(Kind.CLOSED_DOOR, colour)
        grid = put_all(
            walls,
            jnp.concatenate([rows[:-1], door_rows]),
            jnp.concatenate([columns[:-1], door_columns]),
            jnp.concatenate([things, doors]),
        )
        return Level.of(grid, rows[-1], columns[-1], below(word[0], 4))


def _free_cell(index: Int32[Array, " n"]) -> tuple[Int32[Array, " n"], Int32[Array, " n"]]:
    """Return the rows and the columns in the grid of the free cells with these indices.

    A free cell is a cell inside a room. The free cells of the grid are numbered row by row. A row
    has 15 of them, five in each of three rooms.
    """
    row, column = index // (3 * SIDE), index % (3 * SIDE)
    return 1 + row + row // SIDE, 1 + column + column // SIDE
