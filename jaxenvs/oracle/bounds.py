"""Lower bounds on the number of steps to success, from the aims of a mission."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float32, Int32

from ..core.gridworld import direction_vector
from ..grid import tiles
from ..grid.aims import Aim
from ..grid.tiles import Kind
from .distances import FAR, Distances, distances, nearest

NEVER = jnp.float32(jnp.inf)  # bound of a state from which success is impossible


class Level(NamedTuple):
    """A level, with what the bounds need to know about it."""

    first: Any  # first state
    open: Distances  # distances if everything but walls can be entered
    # Distances if locked doors cannot be entered either; None if no level has a locked door.
    locked: Distances | None
    doors: Int32[Array, " doors"]  # cells of the locked doors, padded with -1


def level_of(first: Any, doors: int) -> Level:
    """Return a level, given its first state and the number of locked doors to which to pad."""
    is_free = first.grid != tiles.WALL
    is_locked = tiles.kind(first.grid) == Kind.LOCKED_DOOR
    if not doors:
        return Level(first, distances(is_free), None, jnp.zeros(0, jnp.int32))
    (found,) = jnp.nonzero(is_locked.reshape(-1), size=doors, fill_value=-1)
    return Level(first, distances(is_free), distances(is_free & ~is_locked), found.astype(int))


def lower_bound(env: Any, level: Level, state: Any) -> Float32[Array, ""]:
    """Return a number of steps that every plan from a state to success needs, at least 1."""
    bound = jnp.float32(1)
    for aim in env.aims(state):
        steps = _steps(env, level, state, aim)
        bound = jnp.maximum(bound, jnp.where(aim.active, steps, 0.0))
    return bound


def _steps(env: Any, level: Level, state: Any, aim: Aim) -> Float32[Array, ""]:
    """Return a lower bound on the steps that an aim takes."""
    pose = (state.row * state.grid.shape[1] + state.column) * 4 + state.direction
    cells = aim.cells.reshape(-1)
    direct = nearest(level.open.to[pose], cells, aim.slack)
    if level.locked is None:
        return _number(direct, aim.actions)
    shut = nearest(level.locked.to[pose], cells, aim.slack)
    through = _through_a_door(env, level, state, pose, cells, aim.slack)
    kind = tiles.kind(state.grid.reshape(-1)[level.doors])
    all_locked = ((kind == Kind.LOCKED_DOOR) | (level.doors < 0)).all()
    is_behind = all_locked & (shut == FAR)
    direct = jnp.where(is_behind, jnp.maximum(direct, through), direct)
    return _number(direct, aim.actions)


def _number(steps: Int32[Array, ""], actions: ArrayLike) -> Float32[Array, ""]:
    return jnp.where(steps >= FAR, NEVER, (steps + actions).astype(jnp.float32))


def _through_a_door(
    env: Any, level: Level, state: Any, pose: Array, cells: Bool[Array, " cells"], slack: int
) -> Int32[Array, ""]:
    """Return a lower bound on the steps until the agent faces one of the cells behind a door.

    All locked doors are still locked, and every way to the cells leads through one of them. So the
    agent has to get a key, go to its door, unlock it, and go on to the cells.
    """
    assert level.locked is not None
    grid, best = state.grid.reshape(-1), jnp.int32(FAR)
    contents = jnp.asarray(env.contents(state)).astype(jnp.uint8)
    needs_free_hands = (state.carried != 0).astype(jnp.int32)
    for i in range(len(level.doors)):
        door = level.doors[i]
        key = (level.first.grid.reshape(-1)[door] & jnp.uint8(0xF0)) | jnp.uint8(Kind.KEY)
        in_box = grid == ((key & jnp.uint8(0xF0)) | jnp.uint8(Kind.KEY_BOX))
        in_box |= (tiles.kind(grid) == Kind.BOX) & (contents == key)
        to_key = level.locked.to[pose].astype(jnp.int32)
        to_door = level.locked.between[:, door].astype(jnp.int32)
        fetch = jnp.where((to_key < FAR) & (to_door < FAR), to_key + to_door + 1 + in_box, FAR)
        fetch = jnp.where((grid == key) | in_box, fetch, FAR).min()
        fetch = jnp.where(fetch < FAR, fetch + needs_free_hands, FAR)
        get = jnp.where(state.carried == key, level.locked.to[pose, door], fetch)
        rest = nearest(level.open.between[door], cells, slack)
        total = jnp.where((get < FAR) & (rest < FAR) & (door >= 0), get + 1 + rest, FAR)
        best = jnp.minimum(best, total)
    return best


def front_cell(state: Any) -> Int32[Array, ""]:
    """Return the index of the cell in front of the agent, counted row by row."""
    height, width = state.grid.shape
    down, right = direction_vector(state.direction)
    row, column = (state.row + down).clip(0, height - 1), (state.column + right).clip(0, width - 1)
    return row * width + column
