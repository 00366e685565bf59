"""Distances of a level: the fewest turns and moves until the agent faces a cell."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8

FAR = 255  # distance of a cell that cannot be faced
MOST = 254  # largest stored distance; larger ones are stored as 254, a valid lower bound
# int32 that stands for an infinite number of steps, as does every larger number.
NO_WAY = np.int32(1 << 20)
AHEAD = ((0, 1), (1, 0), (0, -1), (-1, 0))  # change of (row, column), by direction


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
    entered = is_free[:, :, None, None]
    first = jnp.where(facing & entered, jnp.uint8(0), jnp.uint8(FAR))

    def shorter(best: Array) -> Array:
        moved = jnp.stack([_ahead(best[:, :, d], *AHEAD[d]) for d in range(4)], 2)
        near = jnp.minimum(jnp.roll(best, 1, 2), jnp.roll(best, -1, 2))
        near = jnp.minimum(near, moved)
        more = jnp.where(near >= MOST, near, near + jnp.uint8(1))
        return jnp.where(entered, jnp.minimum(best, more), jnp.uint8(FAR))

    def goes_on(carry: tuple[Array, Array]) -> Array:
        return carry[1]

    def body(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        after = shorter(carry[0])
        return after, (after != carry[0]).any()

    best, _ = jax.lax.while_loop(goes_on, body, (first, jnp.bool_(True)))
    # Values of `best` for each pose that faces a cell; `between` is their minimum. A cell is faced
    # from each of its neighbours. An agent on an edge cell that looks outwards faces its own cell,
    # because `start` clips the faced cell to the grid.
    backward = [_ahead(best[:, :, d], -AHEAD[d][0], -AHEAD[d][1]) for d in range(4)]
    outwards = jnp.asarray(np.stack(start, 2)[rows, columns, :, here])
    backward += [jnp.where(outwards[:, :, d, None], best[:, :, d], FAR) for d in range(4)]
    between = jnp.stack(backward).min(axis=0).reshape(height * width, height * width)
    return Distances(best.reshape(height * width * 4, height * width), between)


def _ahead(values: UInt8[Array, "height width cells"], down: int, right: int) -> Array:
    """Return for each cell the values of the cell that is `down` rows and `right` columns away.

    Values outside the map are `FAR`.
    """
    padded = jnp.pad(values, [(1, 1), (1, 1), (0, 0)], constant_values=FAR)
    height, width, _ = values.shape
    return padded[1 + down : 1 + down + height, 1 + right : 1 + right + width]


def nearest(
    row: UInt8[Array, "*n cells"], cells: Bool[Array, " cells"], slack: int = 0
) -> Int32[Array, "*n"]:
    """Return the smallest distance to a cell of a mask, less `slack`; `NO_WAY` if all are `FAR`."""
    found = jnp.where(cells, row, jnp.uint8(FAR)).min(axis=-1)
    return jnp.where(found == FAR, NO_WAY, jnp.maximum(steps(found) - slack, 0))


def steps(distance: UInt8[Array, "*n"]) -> Int32[Array, "*n"]:
    """Convert distances to int32 numbers that can be added; `FAR` becomes `NO_WAY`."""
    return jnp.where(distance == FAR, NO_WAY, distance.astype(jnp.int32))
