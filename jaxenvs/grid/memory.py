"""Memory: see an object, then walk to the matching object (MiniGrid 3.2 `memory.py`)."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from ..core import checks
from ..core.env import Ending, Params, Transition
from ..core.random import Key, below, words
from . import tasks, tiles
from .aims import Aim, cell
from .env import SquareGridEnv, Verdict, register_level
from .placement import lines, put, room
from .state import Action, GridState, Level
from .tiles import Colour, Kind


@register_level("MemoryS7-v0", size=7)
@register_level("MemoryS9-v0", size=9)
@register_level("MemoryS11-v0", size=11)
@register_level("MemoryS13-v0", size=13, representative=True)
@register_level("MemoryS13Random-v0", size=13, random_length=True)
@register_level("MemoryS17Random-v0", size=17, random_length=True)
class Memory(SquareGridEnv):
    """See a green key or ball in a room; walk to the matching object at the end of a hallway.

    Objects cannot be picked up: action 3 (pick up) has the effect of toggle.

    Reward: 1 - 0.9 * steps / max_steps on the cell next to the matching object. Episode ends: on
        this cell, on the cell next to the other object, or after 5 * size**2 steps.
    """

    size: int = 13  # number of cells per side of the grid, walls included; must be odd
    random_length: bool = False  # whether the hallway has a random length

    steps_per_cell: ClassVar[int] = 5
    min_size: ClassVar[int] = 7
    mission: ClassVar[str] = "go to the matching object at the end of the hallway"
    # The observation `full` determines the state. It shows the object in the room and the two
    # objects at the end of the hallway, and the cell next to the matching one is the goal.
    full_shows_all: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        if self.size % 2 == 0:
            raise ValueError(f"Memory: size={self.size} must be odd, such as 13")
        checks.one_of("Memory", "random_length", self.random_length, (False, True))

    def generate(self, key: Key) -> Level:
        """Draw the length of the hallway, the objects and the agent.

        The level's task is the row and column of the cell where the episode ends in success.
        """
        middle = self.size // 2
        word_end, word_agent, word_objects = words(key, 3)
        end = jnp.int32(self.size - 3)  # column in which the hallway ends at the fork
        if self.random_length:
            end = 4 + below(word_end, self.size - 6)
        ball_first, ball_above = (below(word_objects, 4) & bit != 0 for bit in (1, 2))
        grid = jnp.where(self._walls(end), jnp.uint8(tiles.WALL), room(self.size, self.size))
        grid = put(grid, middle - 1, 1, _object(ball_first))
        grid = put(grid, middle - 2, end + 1, _object(ball_above))
        grid = put(grid, middle + 2, end + 1, _object(~ball_above))
        wins = jnp.where(ball_first == ball_above, middle - 1, middle + 1)
        return Level.of(grid, middle, 1 + below(word_agent, end), 0, task=tasks.pack(wins, end + 1))

    def _walls(self, end: Int32[Array, ""]) -> Bool[Array, "height width"]:
        """Return a mask of the walls of the first room, the hallway and the fork at its end.

        The fork is a corridor across the end of the hallway, with an object at each of its ends.
        """
        rows, columns = lines(self.size, self.size)
        away = abs(rows - self.size // 2)
        start = ((away == 2) & (columns >= 1) & (columns <= 4)) | ((away == 1) & (columns == 4))
        hallway = (away == 1) & (columns > 4) & (columns < end)
        fork = ((away != 0) & (columns == end)) | (columns == end + 2)
        return start | hallway | fork

    def step_state(self, key: Key, state: GridState, action: Array, params: Params) -> Transition:
        """Apply the action; the action pick up is replaced by toggle."""
        meant = jnp.where(action == Action.PICKUP, jnp.int32(Action.TOGGLE), action)
        return super().step_state(key, state, meant, params)

    def aims(self, state: GridState) -> tuple[Aim, ...]:
        """Return the necessary condition of success: to enter the task's cell.

        The task's cell is next to the matching object.
        """
        row, column = tasks.part(state.task, 0), tasks.part(state.task, 1)
        is_there = (state.row == row) & (state.column == column)
        return (Aim(cell(state.grid.shape, row, column), 1, ~is_there),)

    def ending(self, level: Level) -> Ending:
        """Return a level and an action that ends its episode in success.

        The action walks onto the cell next to the matching object.
        """
        row, column = tasks.part(level.task, 0), tasks.part(level.task, 1)
        comes_from_below = row < self.size // 2
        pose = (row + 1, column, 3) if comes_from_below else (row - 1, column, 1)
        return Ending(level.posed(*pose), (Action.FORWARD,))

    def judge(self, before: GridState, after: GridState, action: Array, front: Array) -> Verdict:
        """Return (success, failure) of a step, from the agent's cell after the step.

        Entering the cell next to the matching object is success; entering the cell next to the
        other object is failure.
        """
        row, column = tasks.part(after.task, 0), tasks.part(after.task, 1)
        there = after.column == column
        loses = self.size - 1 - row
        return there & (after.row == row), there & (after.row == loses)


def _object(is_ball: Bool[Array, ""]) -> UInt8[Array, ""]:
    return tiles.tile(jnp.where(is_ball, Kind.BALL, Kind.KEY), Colour.GREEN)
