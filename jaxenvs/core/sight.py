"""The agent's view of a grid, and the mask of its cells that the agent sees (MiniGrid's occlusion).

A view is a square, indexed `[across, ahead]` like MiniGrid's image. `across` runs from the agent's
left to its right. `ahead` is 0 in the far row and `size - 1` in the agent's row. The agent is at
`[size // 2, size - 1]` and looks towards index 0 of `ahead`. Source: MiniGrid 3.2, `gen_obs`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8

# Largest view size for which a lookup table is used; the table has 4**size bytes, 16 kB for size 7.
TABLE_LIMIT = 7


# The inlined `jit` makes JAX trace this function, and `visible`, only once per shape.
@functools.partial(jax.jit, static_argnames=("size", "outside"), inline=True)
def window(
    grid: UInt8[Array, "height width"],
    row: Array,
    column: Array,
    direction: Array,
    size: int,
    outside: int,
) -> UInt8[Array, "{size} {size}"]:
    """Return the tiles of the agent's view, indexed `[across, ahead]`, before occlusion.

    `outside` is the tile byte for cells beyond the edge of the grid. `direction` is 0 right, 1
    down, 2 left or 3 up.
    """
    height, width = grid.shape
    # True if the agent looks down or up: `ahead` then counts rows, otherwise columns.
    along_rows = (direction & 1) == 1
    sign = jnp.where(direction < 2, 1, -1)
    ahead = np.arange(size - 1, -1, -1, dtype=np.int32)
    right = np.arange(-(size // 2), size // 2 + 1, dtype=np.int32)
    # The flat grid index of a cell is the sum of a term for `ahead` and a term for `across`,
    # because a step ahead changes one grid coordinate and a step sideways the other. The terms are
    # computed once per line of the view, so each cell costs only one addition.
    a = jnp.where(along_rows, row, column) + sign * ahead
    b = jnp.where(along_rows, column, row) + jnp.where(along_rows, -sign, sign) * right
    a_inside = jnp.clip(a, 0, jnp.where(along_rows, height, width) - 1)
    b_inside = jnp.clip(b, 0, jnp.where(along_rows, width, height) - 1)
    offset = a_inside * jnp.where(along_rows, width, 1)
    start = b_inside * jnp.where(along_rows, 1, width)
    cells = grid.reshape(-1).at[start[:, None] + offset[None, :]].get(mode="promise_in_bounds")
    inside = (b == b_inside)[:, None] & (a == a_inside)[None, :]
    return jnp.where(inside, cells, jnp.uint8(outside))


def seen_cells(
    seen: Bool[Array, "size size"],
    place: tuple[Array, Array],
    forward: tuple[Array, Array],
    shape: tuple[int, int],
) -> Bool[Array, "height width"]:
    """Turn a mask of the cells of the agent's view into a mask of the cells of the grid.

    `place` is the agent's (row, column). `forward` is the change of (row, column) by one step
    ahead. `shape` is the number of rows and columns of the grid.
    """
    size, (d_row, d_column) = seen.shape[0], forward
    rows = jnp.arange(shape[0], dtype=np.int32)[:, None] - place[0]
    columns = jnp.arange(shape[1], dtype=np.int32)[None, :] - place[1]
    ahead = size - 1 - (rows * d_row + columns * d_column)
    across = rows * d_column - columns * d_row + size // 2
    inside = (ahead >= 0) & (ahead < size) & (across >= 0) & (across < size)
    return inside & seen[across.clip(0, size - 1), ahead.clip(0, size - 1)]


@functools.partial(jax.jit, inline=True)
def visible(opaque: Bool[Array, "size size"]) -> Bool[Array, "size size"]:
    """Return the mask of the cells of the view that the agent sees ("lit" cells).

    The function follows light from the agent's row to the far row. In each row, light spreads
    sideways through transparent cells and lights the first opaque cell on each side. Each lit
    transparent cell also passes light to the three nearest cells of the row ahead.
    """
    size = opaque.shape[0]
    return _lit_by_table(~opaque, size) if size <= TABLE_LIMIT else _lit_by_loop(~opaque, size)


def _lit_by_table(clear: Bool[Array, "size size"], size: int) -> Bool[Array, "size size"]:
    """Compute `visible` with one table lookup per row of the view.

    The lit cells of all rows are packed into two 32-bit integers, because XLA computes a chain of
    scalar operations in one kernel. The barrier keeps XLA from fusing this chain into the code that
    makes the image, where the thread of every pixel would recompute the chain.
    """
    table = jnp.asarray(_reach_table(size))
    per_word = -(-size // 2)
    clear_rows = _row_bits(clear)
    seed, words = jnp.int32(1 << (size // 2)), [jnp.int32(0), jnp.int32(0)]
    for row in range(size - 1, -1, -1):
        index = (seed << size) | clear_rows[row]
        reach = table.at[index].get(mode="promise_in_bounds").astype(jnp.int32)
        word, place = divmod(row, per_word)
        words[word] |= (seed | reach) << (place * size)
        seed = reach
    low, high = jax.lax.optimization_barrier(tuple(words))
    across, ahead = np.arange(size, dtype=np.int32)[:, None], np.arange(size, dtype=np.int32)
    bit = np.left_shift(np.int32(1), across + ahead % per_word * size)
    return (jnp.where(ahead < per_word, low, high) & bit) != 0


def _lit_by_loop(clear: Bool[Array, "size size"], size: int) -> Bool[Array, "size size"]:
    """Compute `visible` by a scan over rows, for views whose table would be too large."""

    def row(seed: Array, clear_row: Array) -> tuple[Array, Array]:
        reach = _reach(seed, clear_row, size)
        return reach, seed | reach

    lit = jax.lax.scan(row, jnp.int32(1 << (size // 2)), _row_bits(clear), reverse=True)[1]
    return ((lit[None, :] >> np.arange(size, dtype=np.int32)[:, None]) & 1) != 0


def _row_bits(cells: Bool[Array, "size size"]) -> Int32[Array, " size"]:
    """Pack each row of the view into one integer per row: bit i is the cell with `across` = i."""
    weights = np.left_shift(np.int32(1), np.arange(cells.shape[0], dtype=np.int32))
    return jnp.where(cells, weights[:, None], 0).sum(axis=0, dtype=jnp.int32)


def _reach(seed, clear, size: int):  # type: ignore[no-untyped-def]  # NumPy or JAX integers
    """Return the cells of one row that light reaches, as bits.

    `seed` are the cells where light enters the row, and `clear` are the transparent cells. Light
    fills every run of clear cells that contains a seed, and one more cell on each side of the run.
    The result is also the `seed` of the row ahead. Each run is filled to both sides by steps of
    length 1, 2, 4 and so on (Kogge-Stone).
    """
    up = down = seed & clear
    via_up = via_down = clear
    step = 1
    while step < size:
        up, via_up = up | (via_up & (up << step)), via_up & (via_up << step)
        down, via_down = down | (via_down & (down >> step)), via_down & (via_down >> step)
        step *= 2
    reached = up | down
    return (reached | (reached << 1) | (reached >> 1)) & (2**size - 1)


@functools.cache
def _reach_table(size: int) -> np.ndarray:
    """Return a table of the results of `_reach` for all possible `seed` and `clear`, as uint8.

    The result for the arguments `seed` and `clear` is at the index `seed << size | clear`.
    """
    seed, clear = np.divmod(np.arange(4**size, dtype=np.int64), 2**size)
    return _reach(seed, clear, size).astype(np.uint8)
