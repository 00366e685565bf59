"""Effects of actions on the state: MiniGrid's `step` without rewards and termination."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int32, UInt8

from ..core.gridworld import direction_vector, packed
from ..core.platforms import by_platform
from . import tiles
from .state import REJECTED, Action, GridState
from .tiles import Kind

SMALL_MAP = 100  # largest number of cells of a map for which `_written` uses no scatter on a GPU
EMPTY = np.uint8(tiles.EMPTY)


def act(
    state: GridState, action: Array, contents: UInt8[ArrayLike, ""] = EMPTY
) -> tuple[GridState, UInt8[Array, ""]]:
    """Apply one action; return the new state, and the tile that was in front of the agent before.

    `contents` is the tile that replaces a box of kind `BOX` when the agent opens the box.
    """
    d_row, d_column = direction_vector(state.direction)
    row = (state.row + d_row).clip(0, state.grid.shape[0] - 1)
    column = (state.column + d_column).clip(0, state.grid.shape[1] - 1)
    cells, index = state.grid.reshape(-1), row * state.grid.shape[1] + column
    front = cells.at[index].get(mode="promise_in_bounds")
    moves = (action == Action.FORWARD) & tiles.is_walkable(front)
    picks = (action == Action.PICKUP) & tiles.is_portable(front) & (state.carried == 0)
    drops = (action == Action.DROP) & (front == tiles.EMPTY) & (state.carried != 0)
    # Tile in front of the agent after the action.
    left = jnp.where(picks, jnp.uint8(tiles.EMPTY), front)
    left = jnp.where(drops, state.carried, left)
    left = jnp.where(action == Action.TOGGLE, toggled(front, state.carried, contents), left)
    # The barrier keeps XLA from computing `index` and `left` again in the kernel that writes the
    # grid. That kernel would read the agent's old pose, so a `scan` would have to copy the pose.
    index, left = jax.lax.optimization_barrier((index, left))
    turn = (action == Action.RIGHT).astype(jnp.int32) - (action == Action.LEFT).astype(jnp.int32)
    after = state.replace(
        grid=_written(cells, index, left).reshape(state.grid.shape),
        agent=packed(
            jnp.where(moves, row, state.row),
            jnp.where(moves, column, state.column),
            (state.direction + turn) & 3,
            jnp.where(picks, front, jnp.where(drops, jnp.uint8(0), state.carried)),
        )
        | (state.agent & REJECTED),
    )
    return after, front


def _written(
    cells: UInt8[Array, " cells"], index: Int32[Array, ""], tile: UInt8[Array, ""]
) -> UInt8[Array, " cells"]:
    """Write a tile to the cell with this row-major index, by a scatter or by a selection.

    A scatter writes one byte, so a scan can update the map in place. On a GPU, however, a scatter
    is a separate kernel. Small maps on a GPU are therefore written by a selection (`where` over all
    cells), which XLA fuses with other operations.
    """

    def scatter(cells: Array, index: Array, tile: Array) -> Array:
        return cells.at[index].set(tile, mode="promise_in_bounds")

    def select(cells: Array, index: Array, tile: Array) -> Array:
        return jnp.where(np.arange(cells.size, dtype=np.int32) == index, tile, cells)

    if cells.size > SMALL_MAP:
        return scatter(cells, index, tile)
    return by_platform(cells, index, tile, cpu=scatter, default=select)


def toggled(
    front: UInt8[Array, ""], carried: UInt8[Array, ""], contents: UInt8[ArrayLike, ""]
) -> UInt8[Array, ""]:
    """Return the tile that is in front of the agent after a toggle.

    A toggle opens or closes a door. A key of the same colour unlocks a locked door for good, and
    the agent keeps the key. A box is replaced by its contents.
    """
    kind, painted = tiles.kind(front), front & jnp.uint8(0xF0)
    fits = carried == (painted | jnp.uint8(Kind.KEY))
    opens = (kind == Kind.CLOSED_DOOR) | ((kind == Kind.LOCKED_DOOR) & fits)
    changed = jnp.where(opens, painted | jnp.uint8(Kind.DOOR), front)
    changed = jnp.where(kind == Kind.DOOR, painted | jnp.uint8(Kind.CLOSED_DOOR), changed)
    changed = jnp.where(kind == Kind.KEY_BOX, painted | jnp.uint8(Kind.KEY), changed)
    return jnp.where(kind == Kind.BOX, jnp.uint8(contents), changed)
