"""Lower bounds on the number of steps to success, from the aims of a mission.

An aim is a necessary condition of success: the agent faces one of several cells, see `grid.aims`.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

from ...core.gridworld import direction_vector
from .. import tiles
from ..aims import Aim
from ..tiles import Kind
from . import tour
from .distances import NO_WAY, Distances, distances, nearest, steps

NEVER = np.float32(np.inf)  # lower bound for a state from which success is impossible


class Level(NamedTuple):
    """A level's first state and the distances on its map, from which lower bounds are computed."""

    first: Any  # first state of the level
    open: Distances  # distances if the agent can enter every cell except walls
    # Distances if the agent can enter every cell except walls and locked doors. None if the bounds
    # ignore locks, because `level_of` was called with `doors` 0.
    locked: Distances | None
    doors: Int32[Array, " doors"]  # row-major indices of the locked doors, padded with -1
    # Mask of the cells of each aim in the first state; None if there is only one aim.
    cells: Bool[Array, "aims cells"] | None = None
    # Result of `tour.between` for `cells`; None if there is only one aim.
    apart: Int32[Array, "aims aims"] | None = None


def level_of(env: Any, first: Any, doors: int) -> Level:
    """Compute the `Level` that begins in the state `first`.

    doors: length of the array `Level.doors`, at least the number of locked doors. With 0, the
        bounds count locked doors as open; they are then lower, but still valid.
    """
    level = _walled(first, doors)
    aims = env.aims(first)
    if len(aims) < 2:
        return level
    cells = jnp.stack([aim.cells.reshape(-1) for aim in aims])
    return level._replace(cells=cells, apart=tour.between(cells, level.open))


def _walled(first: Any, doors: int) -> Level:
    """Return the result of `level_of`, except that `cells` and `apart` are None."""
    # The agent's first cell counts as free even if it contains a wall, because the agent can leave
    # it.
    starts = jnp.zeros(first.grid.shape, jnp.bool_).at[first.row, first.column].set(True)
    is_free = (first.grid != tiles.WALL) | starts
    is_locked = tiles.kind(first.grid) == Kind.LOCKED_DOOR
    if not doors:
        return Level(first, distances(is_free), None, jnp.zeros(0, jnp.int32))
    (found,) = jnp.nonzero(is_locked.reshape(-1), size=doors, fill_value=-1)
    locked = distances(is_free & (~is_locked | starts))
    return Level(first, distances(is_free), locked, found.astype(jnp.int32))


def lower_bound(env: Any, level: Level, state: Any) -> Float32[Array, ""]:
    """Return a lower bound, at least 1, on the number of steps from a state to success."""
    bound = jnp.float32(1)
    unlocked = None if level.locked is None else _to_unlock(env, level, state)
    aims = env.aims(state)
    for aim in aims:
        turns = _steps(level, state, aim, unlocked)
        found = jnp.where(turns >= NO_WAY, NEVER, (turns + aim.actions).astype(jnp.float32))
        bound = jnp.maximum(bound, jnp.where(aim.active, found, jnp.float32(0)))
    if level.cells is None or level.apart is None:
        return bound
    row = level.open.to[_pose(state)]
    start = jnp.stack([nearest(row, aim.cells.reshape(-1)) for aim in aims])
    whole = tour.bound(aims, level.cells, start, level.apart)
    return jnp.maximum(bound, jnp.where(whole >= NO_WAY, NEVER, whole.astype(jnp.float32)))


def _steps(
    level: Level, state: Any, aim: Aim, unlocked: Int32[Array, " doors"] | None
) -> Int32[Array, ""]:
    """Return a lower bound on the steps until the agent faces a cell of an aim.

    unlocked: the result of `_to_unlock`; None if the bounds ignore locks (see `Level.locked`).

    If all doors are still locked and the cells are behind them, the agent must first unlock a door.
    The bound is then the steps to unlock a door, plus the steps from this door to the cells,
    minimised over the doors.
    """
    pose, cells = _pose(state), aim.cells.reshape(-1)
    direct = nearest(level.open.to[pose], cells, aim.slack)
    if level.locked is None or unlocked is None:
        return direct
    kind = tiles.kind(state.grid.reshape(-1)[level.doors])
    all_locked = ((kind == Kind.LOCKED_DOOR) | (level.doors < 0)).all()
    is_behind = all_locked & (nearest(level.locked.to[pose], cells) >= NO_WAY)
    rest = nearest(level.open.between[level.doors], cells, aim.slack)
    return jnp.where(is_behind, jnp.maximum(direct, (unlocked + rest).min()), direct)


def _to_unlock(env: Any, level: Level, state: Any) -> Int32[Array, " doors"]:
    """Return for each door a lower bound on the steps to unlock it; `NO_WAY` or more if impossible.

    The steps are those to get a key of the door's colour, to go to the door and to unlock it. The
    bound is valid only in states in which all doors are still locked.
    """
    assert level.locked is not None
    grid, doors = state.grid.reshape(-1), level.doors
    colour = level.first.grid.reshape(-1)[doors] & jnp.uint8(0xF0)
    key = (colour | jnp.uint8(Kind.KEY))[:, None]
    contents = jnp.asarray(env.contents(state)).astype(jnp.uint8)
    box = (colour | jnp.uint8(Kind.KEY_BOX))[:, None]
    is_filled = (contents == key) | (contents == box)
    in_box = (grid == box) | ((tiles.kind(grid) == Kind.BOX) & is_filled)
    to_key = steps(level.locked.to[_pose(state)])
    to_door = steps(level.locked.between[:, doors].T)
    fetch = to_key + to_door + 1 + in_box.astype(jnp.int32)
    # If the agent carries another object, add one step to drop it before the key is picked up.
    fetch = jnp.where((grid == key) | in_box, fetch, NO_WAY).min(axis=1)
    fetch += (state.carried != 0).astype(jnp.int32)
    # If the agent carries a box with the key, add three steps: drop the box, open it, take the key.
    holds_box = (state.carried == box) | ((tiles.kind(state.carried) == Kind.BOX) & is_filled)
    go = steps(level.locked.to[_pose(state), doors])
    get = jnp.where(holds_box[:, 0], jnp.minimum(fetch, go + 3), fetch)
    get = jnp.where(state.carried == key[:, 0], go, get)
    return jnp.where(doors >= 0, get + 1, NO_WAY)


def _pose(state: Any) -> Int32[Array, ""]:
    return (state.row * state.grid.shape[1] + state.column) * 4 + state.direction


def front_cell(state: Any) -> Int32[Array, ""]:
    """Return the row-major index of the cell in front of the agent."""
    height, width = state.grid.shape
    down, right = direction_vector(state.direction)
    row, column = (state.row + down).clip(0, height - 1), (state.column + right).clip(0, width - 1)
    return row * width + column
