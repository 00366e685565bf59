"""RedBlueDoors: open the red door, then the blue one (MiniGrid 3.2 `redbluedoors.py`)."""

from typing import ClassVar

import numpy as np
from jaxtyping import Array

from ..core.env import Ending
from ..core.random import Key, below, words
from . import tiles
from .aims import Aim
from .env import SquareGridEnv, Verdict, register_level
from .placement import inner_cell, put, room
from .state import Action, GridState, Level
from .tiles import Colour, Kind

OPEN_RED = np.uint8(Kind.DOOR | Colour.RED << 4)
SHUT_RED = np.uint8(Kind.CLOSED_DOOR | Colour.RED << 4)
LOCKED_RED = np.uint8(Kind.LOCKED_DOOR | Colour.RED << 4)
OPEN_BLUE = np.uint8(Kind.DOOR | Colour.BLUE << 4)
LOCKED_BLUE = np.uint8(Kind.LOCKED_DOOR | Colour.BLUE << 4)
SHUT_BLUE = np.uint8(Kind.CLOSED_DOOR | Colour.BLUE << 4)


@register_level("RedBlueDoors-6x6-v0", size=6)
@register_level("RedBlueDoors-8x8-v0", size=8)
class RedBlueDoors(SquareGridEnv):
    """Open the red door on the left of a room, then the blue door on its right.

    The red door must still be open when the blue door opens. The grid is twice as wide as high.

    Reward: 1 - 0.9 * steps / max_steps when the blue door opens while the red door is open. Episode
    ends: when the blue door opens, or after 20 * size**2 steps.
    """

    size: int = 8  # number of rows of the grid, and of rows and columns of the room

    steps_per_cell: ClassVar[int] = 20
    max_size: ClassVar[int] = 64
    mission: ClassVar[str] = "open the red door then the blue door"
    # The observation `full` determines the state. An agent in a door's cell hides the door, but
    # this door must be open, and its colour follows from the side of the room.
    full_shows_all: ClassVar[bool] = True

    @property
    def width(self) -> int:
        """Number of columns of the grid, twice `size`."""
        return 2 * self.size

    def generate(self, key: Key) -> Level:
        """Draw the positions of the two doors and of the agent."""
        size, inner = self.size, self.size - 2
        left, right = size // 2, size // 2 + size - 1
        word_red, word_blue, word_agent, word_turn = words(key, 4)
        walls = room(size, 2 * size)
        walls[:, [left, right]] = tiles.WALL
        red, blue = (tiles.tile(Kind.CLOSED_DOOR, c) for c in (Colour.RED, Colour.BLUE))
        grid = put(walls, 1 + below(word_red, inner), left, red)
        grid = put(grid, 1 + below(word_blue, inner), right, blue)
        row, column = inner_cell(below(word_agent, inner * inner), inner)
        return Level.of(grid, row, left + column, below(word_turn, 4))

    def aims(self, state: GridState) -> tuple[Aim, ...]:
        """Return the necessary conditions of success: to open the red door and the blue door.

        A handmade level may start with an open blue door. The agent must then face this door too,
        to close it and open it again.
        """
        left = np.arange(state.grid.shape[1]) == self.size // 2
        is_red = (state.grid == SHUT_RED) | (state.grid == LOCKED_RED)
        red = Aim(is_red & left, 2, ~((state.grid == OPEN_RED) & left).any())
        blue = (SHUT_BLUE, OPEN_BLUE, LOCKED_BLUE)
        return red, Aim((state.grid[..., None] == np.array(blue)).any(axis=-1), 1)

    def ending(self, level: Level) -> Ending:
        """Return a level and an action that ends its episode in failure.

        The action opens the blue door while the red one is closed.
        """
        (row,), (column,) = np.nonzero(np.asarray(level.grid) == SHUT_BLUE)
        return Ending(level.posed(row, column - 1, 0), (Action.TOGGLE,))

    def judge(self, before: GridState, after: GridState, action: Array, front: Array) -> Verdict:
        """Return (success, failure) of a step; both are False unless it opens the blue door.

        Opening the blue door is success if the red door is open, else failure.
        """
        opens_blue = (action == Action.TOGGLE) & (front == SHUT_BLUE)
        red_open = (before.grid[:, self.size // 2] == OPEN_RED).any()
        return opens_blue & red_open, opens_blue & ~red_open
