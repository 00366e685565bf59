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
from .state import Level
from .tiles import Kind

SIZE, PITCH = 19, 6  # cells on a side of the grid; cells from one wall to the next
SIDE = PITCH - 1  # free cells on a side of a room
THINGS, SORTS = 12, 18  # number of objects; number of (kind, colour) pairs to draw from
# Walls between rooms: (room's row, room's column, whether the next room is below, not right).
INNER_WALLS = [(i, j, False) for i in range(3) for j in range(2)]
INNER_WALLS += [(i, j, True) for i in range(2) for j in range(3)]


@register_level("Playground-v0")
class Playground(FixedGridEnv):
    """Nine rooms with a closed door between every two neighbours, and twelve objects.

    Reward: none. Episode ends: after 100 steps.
    """

    shape: ClassVar[tuple[int, int]] = (SIZE, SIZE)
    limit: ClassVar[int] = 100

    def succeeded(self, step: Step) -> None:
        """Return None: there is no task."""
        return None

    def ending(self, level: Level) -> None:
        """Return None: there is no task."""
        return None

    def generate(self, key: Key) -> Level:
        """Draw doors, agent and objects."""
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
    """Return (row, column) of cells by their row-major index among the rooms' cells, 15 per row."""
    row, column = index // (3 * SIDE), index % (3 * SIDE)
    return 1 + row + row // SIDE, 1 + column + column // SIDE
