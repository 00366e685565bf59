"""GoToDoor: go to the door of the mission's colour (MiniGrid 3.2 `gotodoor.py`)."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, UInt8

from ..core.env import Ending
from ..core.random import Key, below, distinct, words
from . import missions, tasks, tiles
from .aims import Aim
from .env import SquareGridEnv, Verdict, register_level
from .placement import inner_cell, lines, put_all
from .state import Action, GridState, Level
from .tiles import Kind

DOORS = 4


@register_level("GoToDoor-5x5-v0", size=5)
@register_level("GoToDoor-6x6-v0", size=6)
@register_level("GoToDoor-8x8-v0", size=8)
class GoToDoor(SquareGridEnv):
    """Take action `done` in front of the door that the mission names; each wall has one door.

    No two doors share a colour. The room is 5 to `size` cells high and wide and lies in the grid's
    upper left corner.

    Reward: 1 - 0.9 * steps / max_steps for `done` on the cell in front of the door,
    facing any direction. Episode ends: on `done`, on toggle, or after 4 * size**2 steps.
    """

    size: int = 5
    obs: str = "dict"
    see_through_walls: bool = True

    min_size: ClassVar[int] = 5

    def generate(self, key: Key) -> Level:
        """Draw the room, the doors, the agent and the target.

        The field `task` of the level has the row, column and tile of the target door.
        """
        word = words(key, 9 + DOORS)
        height, width = (5 + below(word[i], self.size - 4) for i in range(2))
        down, across = (2 + below(word[i : i + 2], n - 4) for i, n in ((2, height), (4, width)))
        # The doors are in the upper, lower, left and right wall, in this order.
        door_rows = jnp.stack([jnp.int32(0), height - 1, down[0], down[1]])
        door_columns = jnp.stack([across[0], across[1], jnp.int32(0), width - 1])
        doors = tiles.tile(Kind.CLOSED_DOOR, distinct(word[9:], 6))
        rows, columns = lines(self.size, self.size)
        inside = (rows < height) & (columns < width)
        border = (rows == 0) | (rows == height - 1) | (columns == 0) | (columns == width - 1)
        grid = jnp.where(inside & border, jnp.uint8(tiles.WALL), jnp.uint8(tiles.EMPTY))
        grid = put_all(grid, door_rows, door_columns, doors)
        agent = inner_cell(below(word[6], (height - 2) * (width - 2)), width - 2)
        wanted = below(word[7], DOORS)
        task = tasks.pack(door_rows[wanted], door_columns[wanted], doors[wanted])
        return Level.of(grid, *agent, below(word[8], 4), task=task)

    def judge(self, before: GridState, after: GridState, action: Array, front: Array) -> Verdict:
        """Return (success, failure) of a step.

        Action `done` is success next to the target's cell and failure elsewhere; toggle is failure.
        """
        return tasks.judge_stop(after, action)

    def aims(self, state: GridState) -> tuple[Aim, ...]:
        """Return the necessary condition of success: to stand next to the target."""
        return (tasks.aim_stop(state),)

    def ending(self, level: Level) -> Ending:
        """Return a level and an action that ends its episode in failure.

        The action is toggle, which fails everywhere.
        """
        return Ending(level, (Action.TOGGLE,))

    def mission_words(self, state: GridState) -> UInt8[Array, " words"]:
        """Return the mission as word ids; it names the colour of the target door."""
        colour = missions.colour_word(tasks.tile(state.task, 2))
        return missions.sentence(self.mission_length, "go to the", colour, "door")
