"""Distances of a level: the fewest turns and moves until the agent faces a cell."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Integer, UInt8

from ..floodfill import AHEAD, NO_WAY

FAR = 255  # distance of a cell that cannot be faced
MOST = 254  # largest stored distance; larger ones are stored as 254, a valid lower bound


class Distances(NamedTuple):
    """Fewest actions (turns and moves) until the agent faces a cell, on one map.

    Cells have row-major indices. A pose is `cell * 4 + direction`. Larger numbers than `MOST` are
    stored as `MOST`. `FAR` means that the agent can never face the cell.
    """

    # Fewest actions from a pose (first axis) until the agent faces a cell (second axis).
    to: UInt8[Array, "*levels poses cells"]
    # Fewest actions from facing one cell (first axis) to facing another cell (second axis): the
    # minimum of `to` over the poses in which the agent faces the first of the two cells.
    between: UInt8[Array, "*levels cells cells"]


def distances(is_free: Bool[Array, "height width"]) -> Distances:
    """Return the distances on a map.

    is_free: mask of the cells that the agent can enter.
    """
    height, width = is_free.shape
    rows, columns = np.arange(height)[:, None], np.arange(width)[None, :]
    here = np.arange(height * width, dtype=np.int32).reshape(height, width)
    start = []
    for down, right in AHEAD:
        row, column = (rows + down).clip(0, height - 1), (columns + right).clip(0, width - 1)
        faced = here[row, column]
        start.append(faced[..., None] == np.arange(height * width))
    # Mask (height, width, 4, cells): whether an agent with this row, column and direction faces
    # the cell in the last axis.
    facing = jnp.asarray(np.stack(start, 2))
    first = jnp.where(facing & is_free[:, :, None, None], jnp.uint8(0), jnp.uint8(FAR))

    best = approached(first, is_free, is_free, FAR)
    # Values of `best` for each pose that faces a cell; `between` is their minimum. A cell is faced
    # from each of its neighbours. An agent on an edge cell that looks outwards faces its own cell,
    # because `start` clips the faced cell to the grid.
    backward = [_ahead(best[:, :, d], -AHEAD[d][0], -AHEAD[d][1], FAR) for d in range(4)]
    outwards = jnp.asarray(np.stack(start, 2)[rows, columns, :, here])
    backward += [jnp.where(outwards[:, :, d, None], best[:, :, d], FAR) for d in range(4)]
    between = jnp.stack(backward).min(axis=0).reshape(height * width, height * width)
    return Distances(best.reshape(height * width * 4, height * width), between)


def approached(
    steps: Integer[Array, "height width 4 *n"],
    is_free: Bool[Array, "height width"],
    entered: Bool[Array, "height width"],
    far: int,
) -> Integer[Array, "height width 4 *n"]:
    """Extend plans that start in some poses by turns and moves to these poses.

    steps: length of the shortest plan from each pose.
    is_free: mask of the cells in which the agent can be.
    entered: mask of the cells that the agent can enter.
    far: length that stands for no plan. Longer plans than `far - 1` get the length `far - 1`, a
        valid lower bound.

    Returns the length of the shortest extended plan from each pose.
    """
    inside, can_enter = (
        jnp.expand_dims(mask, tuple(range(2, steps.ndim))) for mask in (is_free, entered)
    )

    def goes_on(carry: tuple[Array, Array]) -> Array:
        return carry[1]

    def body(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        best, _ = carry
        following = jnp.where(can_enter, best, far)
        moved = jnp.stack([_ahead(following[:, :, d], *AHEAD[d], far) for d in range(4)], 2)
        near = jnp.minimum(jnp.roll(best, 1, 2), jnp.roll(best, -1, 2))
        near = jnp.minimum(near, moved)
        more = jnp.where(near >= far - 1, near, near + 1)
        after = jnp.where(inside, jnp.minimum(best, more), far)
        return after, (after != best).any()

    return jax.lax.while_loop(goes_on, body, (steps, jnp.bool_(True)))[0]


def _ahead(
    values: Integer[Array, "height width *n"], down: int, right: int, outside: int
) -> Integer[Array, "height width *n"]:
    """Return for each cell the values of the cell that is `down` rows and `right` columns away.

    down, right: -1, 0 or 1.
    outside: value of the cells outside the map.
    """
    pad = [(1, 1), (1, 1), *[(0, 0)] * (values.ndim - 2)]
    padded = jnp.pad(values, pad, constant_values=outside)
    height, width = values.shape[:2]
    return padded[1 + down : 1 + down + height, 1 + right : 1 + right + width]


def beside(values: Integer[Array, "height width"], outside: int) -> list[Array]:
    """Return four arrays: the values of the neighbours of each cell, by direction.

    outside: value of the cells outside the map.
    """
    return [_ahead(values, down, right, outside) for down, right in AHEAD]


def nearest(
    row: UInt8[Array, "*n cells"], cells: Bool[Array, " cells"], slack: int = 0
) -> Int32[Array, "*n"]:
    """Return the smallest distance to a cell of a mask, less `slack`; `NO_WAY` if all are `FAR`."""
    found = jnp.where(cells, row, jnp.uint8(FAR)).min(axis=-1)
    return jnp.where(found == FAR, NO_WAY, jnp.maximum(steps(found) - slack, 0))


def steps(distance: UInt8[Array, "*n"]) -> Int32[Array, "*n"]:
    """Convert distances to int32 numbers that can be added; `FAR` becomes `NO_WAY`."""
    return jnp.where(distance == FAR, NO_WAY, distance.astype(jnp.int32))
