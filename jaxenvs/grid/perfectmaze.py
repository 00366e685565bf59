"""PerfectMaze: mazes with one path between any two free cells (minimax d053054, `PerfectMaze`).

The generator is a randomised depth-first search, as in minimax, but with other random numbers.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from ..core.carries import varying_like
from ..core.random import Key, choose, hashed, words
from ..core.registry import register
from .amaze import MazeEnv, placed
from .floodfill import AHEAD
from .state import Level

DOWN, RIGHT = np.array(AHEAD, np.int32).T


@register("Grid-PerfectMaze-13x13-v0", size=15)
@register("Grid-PerfectMaze-19x19-v0", size=21)
@register("Grid-PerfectMaze-101x101-v0", size=103)
class PerfectMaze(MazeEnv):
    """Find the goal in a maze without loops; every level can be solved.

    13 x 13, 19 x 19 or 101 x 101 cells are inside the outer wall. Among these cells, counted from
    0, those with an even row and an even column are always free.

    Reward: 1 - 0.9 * steps / max_steps on the goal. Episode ends: on the goal, or after
    2 * size**2 steps.
    """

    min_size: ClassVar[int] = 5
    # Reset source "exact": in each step, new levels are generated only for the environments whose
    # episode has ended. Levels for all environments would take too long: the loop in `tree` has
    # two iterations per room, one after another.
    reset_source: ClassVar[str] = "exact"
    steps_per_cell: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        if self.size % 2 == 0:
            raise ValueError(f"PerfectMaze: size={self.size} must be odd, such as 15")

    def generate(self, key: Key) -> Level:
        """Draw a maze whose free cells form a tree, then the agent and the goal."""
        key_tree, key_place = jax.random.split(key)
        return placed(~tree((self.size - 1) // 2, key_tree), words(key_place, 3))


def tree(side: int, key: Key) -> Bool[Array, "inner inner"]:
    """Return a mask of the free cells of a maze with `side` x `side` rooms; a room is one cell.

    The mask has 2 * side - 1 cells per side, without the outer wall. The depth-first search moves
    from a room to a random unvisited neighbour, or goes back if there is none. The search enters
    each room except the first once and goes back from it once, so it takes 2 * side**2 - 2 moves.
    """
    inner = 2 * side - 1

    def walk(number: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        free, path, length = carry
        room = path[length]
        row, column = room // side, room % side
        rows, columns = row + DOWN, column + RIGHT
        inside = (rows >= 0) & (rows < side) & (columns >= 0) & (columns < side)
        beyond = free[2 * rows.clip(0, side - 1), 2 * columns.clip(0, side - 1)]
        unvisited = inside & ~beyond
        found = unvisited.any()
        counters = 4 * number.astype(jnp.uint32) + np.arange(4, dtype=np.uint32)
        way = choose(hashed(key, counters), unvisited)
        down, right = jnp.asarray(DOWN)[way], jnp.asarray(RIGHT)[way]
        opened = free.at[2 * row + down, 2 * column + right].max(found)
        opened = opened.at[2 * (row + down), 2 * (column + right)].max(found)
        longer = length + jnp.where(found, 1, -1)
        path = path.at[longer].set(
            jnp.where(found, room + down * side + right, path[longer]), mode="drop"
        )
        return opened, path, jnp.maximum(longer, 0)

    start = (hashed(key, np.uint32(2**31)) % np.uint32(side * side)).astype(jnp.int32)
    free = jnp.zeros((inner, inner), jnp.bool_)
    free = free.at[2 * (start // side), 2 * (start % side)].set(True)
    path = jnp.zeros(side * side, jnp.int32).at[0].set(start)
    length = varying_like(key, jnp.int32(0))
    return jax.lax.fori_loop(0, 2 * side * side - 2, walk, (free, path, length))[0]
