"""Tasks of episodes as bytes of one int32, because in a scan each array of the state
costs a kernel."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int32, UInt8

from ..core.bits import join
from .state import Action, GridState


def pack(*parts: ArrayLike) -> Int32[Array, "*n"]:
    """Put up to four bytes into one word, the first lowest; a tile may be the last."""
    return join(*((part, 8) for part in parts))


def part(task: Int32[Array, "*n"], number: int) -> Int32[Array, "*n"]:
    """Byte `number` of a packed word."""
    return (task >> (8 * number)) & 0xFF


def tile(task: Int32[Array, ""], number: int) -> UInt8[Array, ""]:
    """Byte `number` of a packed word, as a tile."""
    return part(task, number).astype(jnp.uint8)


def offset(
    row: Int32[Array, ""], column: Int32[Array, ""], task: Int32[Array, ""]
) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Rows and columns (both >= 0) between a cell and the task's: its bytes 0 and 1."""
    return jnp.abs(row - part(task, 0)), jnp.abs(column - part(task, 1))


def judge_stop(after: GridState, action: Array) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
    """(success, failure): `done` beside the task's cell, facing any direction, is a success.

    Elsewhere `done` fails, and so does every toggle.
    """
    rows, columns = offset(after.row, after.column, after.task)
    beside = rows + columns == 1
    done = action == Action.DONE
    return done & beside, (done & ~beside) | (action == Action.TOGGLE)
