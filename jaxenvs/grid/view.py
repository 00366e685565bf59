"""The agent's egocentric view and what it can see of it (MiniGrid 3.2 `gen_obs`, in closed form).

A view cell is `[across, ahead]` as in MiniGrid's image: `across` runs from the agent's left to its
right, `ahead` from the far row 0 to the agent's own row `size - 1`; the agent is at `[size // 2,
size - 1]` and looks towards row 0.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8

from . import tiles

TABLE_LIMIT = 7  # a table over (seed, transparent) has 4**size bytes: 16 kB for 7, 256 kB for 9


def direction_vector(direction: Array) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """(rows, columns) of one step: 0 right, 1 down, 2 left, 3 up."""
    direction = direction.astype(jnp.int32)
    rows = (direction == 1).astype(jnp.int32) - (direction == 3).astype(jnp.int32)
    columns = (direction == 0).astype(jnp.int32) - (direction == 2).astype(jnp.int32)
    return rows, columns


def window(
    grid: UInt8[Array, "height width"], row: Array, column: Array, direction: Array, size: int
) -> UInt8[Array, "{size} {size}"]:
    """Tiles in front of the agent, turned to its view; outside the grid there is wall."""
    height, width = grid.shape
    d_row, d_column = direction_vector(direction)
    ahead = jnp.arange(size - 1, -1, -1, dtype=jnp.int32)[None, :]
    right = jnp.arange(-(size // 2), size // 2 + 1, dtype=jnp.int32)[:, None]
    rows = row.astype(jnp.int32) + ahead * d_row + right * d_column
    columns = column.astype(jnp.int32) + ahead * d_column - right * d_row
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    # One clamp of the flat index: whatever it reads outside is masked, and one gather is enough.
    index = jnp.clip(rows * width + columns, 0, height * width - 1)
    cells = grid.reshape(-1).at[index].get(mode="promise_in_bounds")
    return jnp.where(inside, cells, jnp.uint8(tiles.WALL))


def visible(opaque: Bool[Array, "size size"]) -> Bool[Array, "size size"]:
    """Which cells of the view are lit.

    Row by row from the agent on: light runs sideways through transparent cells of a row and one
    cell past them, and from transparent lit cells into the three cells ahead.
    """
    size = opaque.shape[0]
    weights = jnp.asarray(1 << np.arange(size), jnp.int32)
    clear = jnp.where(opaque, jnp.int32(0), weights[:, None]).sum(axis=0, dtype=jnp.int32)
    lit = _lit_rows(clear, size)
    # Behind the barrier the rows are data: fused into the image they would be traced per pixel.
    lit = jax.lax.optimization_barrier(lit)
    return (lit[None, :] & weights[:, None]) != 0


def _lit_rows(clear: Int32[Array, " size"], size: int) -> Int32[Array, " size"]:
    """Lit cells of each row as bits, from the transparent cells of each row as bits."""
    full = (1 << size) - 1
    table = jnp.asarray(_flood_table(size)) if size <= TABLE_LIMIT else None
    seed = jnp.int32(1 << (size // 2))
    if table is None:  # too large a table: a loop over the rows

        def row(seed: Array, clear_row: Array) -> tuple[Array, Array]:
            reached = _flood(seed, clear_row, size)
            spread = (reached | (reached << 1) | (reached >> 1)) & full
            return spread, seed | spread

        return jax.lax.scan(row, seed, clear, reverse=True)[1]
    rows = []
    for ahead in range(size - 1, -1, -1):
        index = (seed << size) | clear[ahead]
        reached = table.at[index].get(mode="promise_in_bounds").astype(jnp.int32)
        spread = (reached | (reached << 1) | (reached >> 1)) & full
        rows.append(seed | spread)
        seed = spread
    return jnp.stack(rows[::-1])


def _flood(seed, clear, size: int):  # type: ignore[no-untyped-def]  # NumPy or JAX integers
    """Bits of `clear` connected to `seed & clear` within one row (Kogge-Stone, both ways)."""
    up = down = seed & clear
    via_up = via_down = clear
    step = 1
    while step < size:
        up, via_up = up | (via_up & (up << step)), via_up & (via_up << step)
        down, via_down = down | (via_down & (down >> step)), via_down & (via_down >> step)
        step *= 2
    return up | down


@functools.cache
def _flood_table(size: int) -> np.ndarray:
    """`_flood` for every seed and row, indexed by `seed << size | clear`."""
    seed, clear = np.divmod(np.arange(4**size, dtype=np.int64), 2**size)
    return _flood(seed, clear, size).astype(np.uint8)
