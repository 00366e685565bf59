"""Tasks of levels, such as the cell or object that the agent must reach, packed into one int32.

On a GPU, each array of the state costs a kernel launch per step of a scan, so several small values
share one array.
"""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int32, UInt8

from ..core.bits import join
from .aims import Aim, cell
from .state import Action, GridState


def pack(*parts: ArrayLike) -> Int32[Array, "*n"]:
    """Pack up to four bytes, such as rows, columns or tiles, into one int32, lowest byte first."""
    return join(*((part, 8) for part in parts))


def part(task: Int32[Array, "*n"], number: int) -> Int32[Array, "*n"]:
    """Return byte `number` of a packed task; byte 0 is the lowest."""
    return (task >> (8 * number)) & 0xFF


def tile(task: Int32[Array, ""], number: int) -> UInt8[Array, ""]:
    """Return byte `number` of a packed task as a tile byte, uint8."""
    return part(task, number).astype(jnp.uint8)


def offset(
    row: Int32[Array, ""], column: Int32[Array, ""], task: Int32[Array, ""]
) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Return the distances, in rows and in columns, from (`row`, `column`) to the task's cell.

    Bytes 0 and 1 of the task are the row and the column of the task's cell.
    """
    return jnp.abs(row - part(task, 0)), jnp.abs(column - part(task, 1))


def aim_stop(state: GridState) -> Aim:
    """Return the necessary condition of success if the agent must take `done` next to a cell.

    Bytes 0 and 1 of the task are the row and the column of this cell. The agent may face any
    direction. `slack` therefore subtracts the turns, at most two, with which the agent would face
    the cell.
    """
    where = cell(state.grid.shape, part(state.task, 0), part(state.task, 1))
    return Aim(where, 1, slack=2)


def judge_stop(after: GridState, action: Array) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
    """Return (success, failure) of a step if the agent must take `done` next to the task's cell.

    Bytes 0 and 1 of the task are the row and the column of this cell. The action `done` is success
    next to the cell, facing any direction, and failure elsewhere. Toggle is always failure.
    """
    rows, columns = offset(after.row, after.column, after.task)
    beside = rows + columns == 1
    done = action == Action.DONE
    return done & beside, (done & ~beside) | (action == Action.TOGGLE)
