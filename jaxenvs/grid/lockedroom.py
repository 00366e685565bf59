"""LockedRoom: take a key from one of six rooms to open another (MiniGrid 3.2 `lockedroom.py`)."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt8

from ..core.random import Key, below, permutation, words
from . import missions, tasks, tiles
from .env import FixedGridEnv, register_level
from .placement import other, put, room
from .state import GridState, Level
from .tiles import Kind

SIZE, ROOMS = 19, 6
# Columns of the hallway's two walls; number of rows from one room to the next.
LEFT, RIGHT, PITCH = 7, 11, 6
DEPTH, WIDTH = 5, 6  # number of rows and columns of free cells in a room


@register_level("LockedRoom-v0")
class LockedRoom(FixedGridEnv):
    """Take the key from one of six rooms, unlock another room, and walk to the goal in it.

    There are three rooms on each side of a hallway. The mission names the colours of the doors of
    both rooms; no two doors share a colour.

    Reward: 1 - 0.9 * steps / max_steps on the goal. Episode ends: on the goal, or after 190 steps.
    """

    obs: str = "dict"

    shape: ClassVar[tuple[int, int]] = (SIZE, SIZE)
    limit: ClassVar[int] = 10 * SIZE
    mission_length: ClassVar[int] = 18

    def generate(self, key: Key) -> Level:
        """Draw the rooms of the goal and of the key, the door colours and the agent's pose.

        The level's task has two door colours: the colour of the locked door, then the colour of the
        door to the room with the key.
        """
        word = words(key, 6 + ROOMS)
        locked = below(word[0], ROOMS)
        of_key = other(word[1], ROOMS, locked)
        colours = jax.lax.optimization_barrier(permutation(word[6:]))
        grid = jnp.asarray(_walls())
        for number in range(ROOMS):
            kind = jnp.where(locked == number, Kind.LOCKED_DOOR, Kind.CLOSED_DOOR)
            door = tiles.tile(kind, colours[number])
            grid = put(grid, 3 + PITCH * (number // 2), (LEFT, RIGHT)[number % 2], door)
        grid = put(grid, *_cell(locked, below(word[2], DEPTH * WIDTH)), tiles.GOAL)
        lying = tiles.tile(Kind.KEY, colours[locked])
        grid = put(grid, *_cell(of_key, below(word[3], DEPTH * WIDTH)), lying)
        agent, across = below(word[4], (SIZE - 2) * (RIGHT - LEFT - 1)), RIGHT - LEFT - 1
        pose = (1 + agent // across, LEFT + 1 + agent % across, below(word[5], 4))
        return Level.of(grid, *pose, task=tasks.pack(colours[locked], colours[of_key]))

    def mission_words(self, state: GridState) -> UInt8[Array, " words"]:
        """Return the mission as word ids.

        The mission names the colours of the locked door and of the door of the room with the key.
        """
        locked, of_key = (
            jnp.asarray(missions.COLOUR_WORDS)[tasks.part(state.task, i)] for i in range(2)
        )
        return missions.sentence(
            self.mission_length,
            *("get the", locked, "key from the", of_key, "room ,"),
            *("unlock the", locked, "door and go to the goal"),
        )


def _walls() -> np.ndarray:
    """Return the grid with all walls, before doors are added."""
    grid = room(SIZE, SIZE)
    grid[PITCH : SIZE - 1 : PITCH, : LEFT + 1] = tiles.WALL
    grid[PITCH : SIZE - 1 : PITCH, RIGHT:] = tiles.WALL
    grid[:, [LEFT, RIGHT]] = tiles.WALL
    return grid


def _cell(
    number: Int32[Array, ""], index: Int32[Array, ""]
) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Return (row, column) of free cell `index` in room `number`.

    Rooms with even numbers are left of the hallway, rooms with odd numbers are right of it. Rooms 2
    and 3 are below rooms 0 and 1, and so on.
    """
    row = 1 + PITCH * (number // 2) + index // WIDTH
    return row, 1 + RIGHT * (number % 2) + index % WIDTH
