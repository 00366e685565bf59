"""Shortest plans in maps of walls, lava and goals, by a flood fill over the agent's poses."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32, UInt8

from ..core.carries import varying_with
from . import tiles
from .tiles import Kind

NO_WAY = np.int32(1 << 20)  # number of steps if no plan exists
AHEAD = ((0, 1), (1, 0), (0, -1), (-1, 0))  # change of (row, column), by direction


def steps_to_goal(
    grid: UInt8[Array, "height width"], pose: Int8[Array, "3"] | Int32[Array, "3"]
) -> Int32[Array, ""]:
    """Return the smallest number of actions with which the agent walks onto a goal.

    The result is `NO_WAY` if no plan exists. `pose` is (row, column, direction). The border of the
    map must be wall. Objects and closed doors count as walls; the result is meant for maps without
    objects and closed doors.
    """
    row, column, direction = (pose[i].astype(jnp.int32) for i in range(3))
    begins = jnp.zeros(grid.shape, jnp.bool_).at[row, column].set(True)
    is_safe = tiles.is_walkable(grid) & ~tiles.is_any(grid, Kind.GOAL, Kind.LAVA)
    entered = (is_safe | begins)[None]
    faces_goal = jnp.stack([_ahead(grid == tiles.GOAL, turn) for turn in range(4)])
    first = jnp.where(entered & faces_goal, jnp.int32(1), NO_WAY)

    def goes_on(carry: tuple[Array, Array]) -> Bool[Array, ""]:
        best, grows = carry
        return grows & (best[direction, row, column] == NO_WAY)

    def grown(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        best = carry[0]
        near = jnp.stack([_ahead(best[turn], turn) for turn in range(4)])
        near = jnp.minimum(near, jnp.minimum(jnp.roll(best, 1, 0), jnp.roll(best, -1, 0)))
        after = jnp.where(entered, jnp.minimum(best, near + 1), NO_WAY)
        return after, (after != best).any()

    best, _ = jax.lax.while_loop(goes_on, grown, (first, varying_with(first, jnp.bool_(True))))
    return best[direction, row, column]


def _ahead(values: Array, direction: int) -> Array:
    """Return for each cell the value of its neighbour in `direction`.

    A cell at the edge gets the value from the opposite edge. This value has no effect, because edge
    cells are walls, which the agent cannot enter.
    """
    down, right = AHEAD[direction]
    return jnp.roll(values, (-down, -right), (0, 1))
