"""Placement of tiles, objects and agents.

MiniGrid draws positions until one is allowed (rejection sampling). The functions of this module
draw directly from the resulting distributions, without a loop.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int32, UInt8, UInt32

from ..core.random import below, multiply_high
from . import tiles


def room(height: int, width: int) -> np.ndarray:
    """Return a room without objects, with walls along its border: an array of tile bytes, uint8."""
    grid = np.full((height, width), tiles.WALL, np.uint8)
    grid[1:-1, 1:-1] = tiles.EMPTY
    return grid


def lines(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the row and the column index of every cell, as arrays that broadcast over a grid."""
    return np.arange(height, dtype=np.int32)[:, None], np.arange(width, dtype=np.int32)[None, :]


def put(
    grid: UInt8[ArrayLike, "height width"], row: ArrayLike, column: ArrayLike, tile: ArrayLike
) -> UInt8[Array, "height width"]:
    """Write one tile by a selection (`where`) over all cells, not by a scatter.

    On a GPU, a scatter would be a separate kernel; XLA fuses a selection with other operations.
    """
    rows, columns = lines(*np.shape(grid))
    here = (rows == row) & (columns == column)
    return jnp.where(here, jnp.asarray(tile, jnp.uint8), grid)


def put_all(
    grid: UInt8[ArrayLike, "height width"],
    rows: Int32[Array, " n"],
    columns: Int32[Array, " n"],
    tile: UInt8[Array, " n"] | UInt8[np.ndarray, " n"],
) -> UInt8[Array, "height width"]:
    """Write several tiles by selections (`where`), which XLA compiles to one kernel.

    If two tiles have the same cell, the later one is kept.
    """
    height, width = np.shape(grid)
    index = jax.lax.optimization_barrier(rows * width + columns)
    if isinstance(tile, jax.Array):
        tile = jax.lax.optimization_barrier(tile)
    cells = np.arange(height * width, dtype=np.int32).reshape(height, width)
    for number in range(rows.shape[0]):
        grid = jnp.where(cells == index[number], tile[number], grid)
    return jnp.asarray(grid)


def other(
    word: UInt32[Array, "*batch"], count: ArrayLike, taken: ArrayLike
) -> Int32[Array, "*batch"]:
    """Return a uniform integer in `[0, count)` that differs from `taken`."""
    index = below(word, jnp.asarray(count) - 1)
    return index + (index >= taken).astype(jnp.int32)


def inner_cell(index: Int32[Array, "*n"], inner: ArrayLike) -> tuple[Array, Array]:
    """Return (row, column) of the cell `index` inside a room whose upper left corner is (0, 0).

    The cells inside the walls are numbered row by row; each row has `inner` cells.
    """
    return 1 + index // inner, 1 + index % inner


def item(number: Int32[Array, "*n"]) -> UInt8[Array, "*n"]:
    """Return the tile of object `number`.

    Numbers 0 to 5 are keys, 6 to 11 are balls and 12 to 17 are boxes. Each of these kinds has one
    number per colour, in the order of `tiles.Colour`.
    """
    return tiles.tile(tiles.Kind.KEY + number // 6, number % 6)


def digits(word: UInt32[Array, "*n"], *bounds: ArrayLike) -> list[Int32[Array, "*n"]]:
    """Draw one uniform integer below each bound, independently, from a single random uint32.

    The error of each probability is below 2**-32 times the product of the bounds.
    """
    drawn: list[Array] = []
    for bound in bounds:
        scale = jnp.asarray(bound).astype(jnp.uint32)
        drawn.append(multiply_high(word, scale).astype(jnp.int32))
        word = word * scale
    return drawn
