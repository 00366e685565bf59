"""AMaze: find a goal among random walls with a small view; a usual test of curriculum learning.

The levels have the distribution of jaxued (`DramaCow/jaxued` 0f8f128, `maze/util.py`) and minimax
(`facebookresearch/minimax` d053054, `AMaze`), but other random numbers. Rules, reward, time
limit and image are the same as in jaxued's `Maze`. Deliberate differences: the size includes the
outer wall; the default of 60 walls is minimax's (jaxued's is 25); the agent walks onto the goal
(in jaxued the same action ends the episode, but the agent stays in front of the goal); the
observation `dict` has MiniGrid's `mission` besides image and direction.
"""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from ..core import checks
from ..core.random import Key, below, words
from ..core.registry import register
from . import tiles
from .env import SquareGridEnv
from .placement import inner_cell, put
from .state import Level


class MazeEnv(SquareGridEnv):
    """Base class of mazes with walls and one goal; the agent sees 5 x 5 cells through walls."""

    size: int = 15  # number of cells per side of the grid, outer wall included
    view_size: int = 5
    see_through_walls: bool = True
    obs: str = "dict"

    mission: ClassVar[str] = "get to the green goal square"
    package: ClassVar[str] = ""  # reproduced package: none, because minigrid lacks these levels
    full_shows_all: ClassVar[bool] = True
    has_static_map: ClassVar[bool] = True


@register("Grid-AMaze-13x13-v0", size=15, representative=True)
class AMaze(MazeEnv):
    """Find the goal among randomly placed walls; some levels have no solution.

    `walls` walls are drawn with replacement, then the agent and the goal on two of the free cells.
    Nothing checks whether the goal can be reached. 13 x 13 cells are inside the outer wall.

    Reward: 1 - 0.9 * steps / 250 on the goal. Episode ends: on the goal, or after 250 steps.
    """

    walls: int = 60  # number of walls that are drawn, with replacement

    min_size: ClassVar[int] = 4

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        checks.integer_field("AMaze", "walls", self.walls, 0, (self.size - 2) ** 2 - 2)

    @property
    def max_steps(self) -> int:
        """Time limit in steps, the same for every size, as in jaxued and minimax."""
        return 250

    def generate(self, key: Key) -> Level:
        """Draw the walls, then the agent and the goal on free cells."""
        inner = self.size - 2
        word = words(key, self.walls + 3)
        drawn = below(word[3:], inner * inner)
        is_wall = jnp.zeros(inner * inner, jnp.bool_).at[drawn].set(True)
        return placed(is_wall.reshape(inner, inner), word[:3])


def placed(is_wall: Bool[Array, "inner inner"], word: UInt32[Array, "3"]) -> Level:
    """Return a level with the walls `is_wall` inside an outer wall.

    `word` has three random uint32: for the agent's cell, the goal's cell and the agent's direction.
    Both cells are free.
    """
    inner = is_wall.shape[1]
    free = ~is_wall.reshape(-1)
    agent = nth(free, below(word[0], free.sum(dtype=jnp.int32)))
    others = free & (np.arange(free.shape[0]) != agent)
    goal = nth(others, below(word[1], others.sum(dtype=jnp.int32)))
    inside = jnp.where(is_wall, jnp.uint8(tiles.WALL), jnp.uint8(tiles.EMPTY))
    grid = jnp.pad(inside, 1, constant_values=np.uint8(tiles.WALL))
    grid = put(grid, *inner_cell(goal, inner), tiles.GOAL)
    return Level.of(grid, *inner_cell(agent, inner), below(word[2], 4))


def nth(mask: Bool[Array, " n"], number: Int32[Array, ""]) -> Int32[Array, ""]:
    """Return the index of True entry `number` of a mask; True entries are counted from 0."""
    return (jnp.cumsum(mask, dtype=jnp.int32) <= number).sum(dtype=jnp.int32)
