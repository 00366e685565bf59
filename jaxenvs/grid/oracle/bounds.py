"""Lower bounds on the number of steps to success, from the aims of a mission.

An aim is a necessary condition of success: the agent faces one of several cells, see `grid.aims`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

from ...core.gridworld import direction_vector
from .. import tiles
from ..aims import Aim, Aims
from ..floodfill import NO_WAY
from ..state import Action
from ..tiles import Kind
from . import doors, locks, tour
from .distances import Distances, distances, nearest

# The size `Sizes.rooms` is a multiple of `STEP`, or of `SHARED_STEP` if levels share a program.
STEP, SHARED_STEP = 4, 16
NEVER = np.float32(np.inf)  # lower bound for a state from which success is impossible


class Sizes(NamedTuple):
    """Sizes of the arrays of a `Level`, static (constant under `jit`).

    With a size 0, the bounds are lower, but still valid.
    """

    locked: int  # number of locked doors; with 0, the bounds count locked doors as open
    rooms: int  # number of rooms and doors; with 0, the bounds count closed doors as open


class Level(NamedTuple):
    """A level's first state, and facts about its map from which lower bounds are computed."""

    first: Any  # first state of the level
    open: Distances  # distances if the agent can enter every cell except walls
    # Distances if the agent can enter every cell except walls and locked doors. None if the bounds
    # count locked doors as open.
    locked: Distances | None
    locked_doors: Int32[Array, " doors"]  # row-major indices, padded with -1
    rooms: doors.Rooms | None  # None if the bounds count closed doors as open
    tours: tour.Tours | None  # None if there is only one aim


def sizes_of(first: Any, shared: bool = False) -> Sizes:
    """Return sizes for the levels of a batch; `first` has their first states.

    shared: whether to round the sizes up further, so that most levels of an environment share a
        compiled program.

    The number of rooms is rounded up to a multiple of `STEP`. It is 0 if a level has more rooms and
    doors than `doors.MOST`.
    """
    locked = int((tiles.kind(first.grid) == Kind.LOCKED_DOOR).sum((1, 2)).max())
    rooms, step = int(_most_nodes(first)), STEP
    if shared:
        locked, rooms, step = max(locked, 1), max(rooms, 1), SHARED_STEP
    return Sizes(locked, -(-rooms // step) * step if rooms <= doors.MOST else 0)


@jax.jit
def _most_nodes(first: Any) -> Int32[Array, ""]:
    """Return the largest number of rooms and doors of a level; 0 if no level has a door."""
    count, has_door = jax.vmap(doors.nodes_of)(first)
    return jnp.where(has_door.any(), count.max(), 0)


def level_of(env: Any, first: Any, sizes: Sizes) -> Level:
    """Compute the `Level` that begins in the state `first`.

    sizes: for each of the two sizes, at least the one of `sizes_of`, or 0.
    """
    is_free = doors.free_cells(first)
    is_locked = tiles.kind(first.grid) == Kind.LOCKED_DOOR
    locked, found = None, jnp.zeros(0, jnp.int32)
    if sizes.locked:
        (found,) = jnp.nonzero(is_locked.reshape(-1), size=sizes.locked, fill_value=-1)
        starts = jnp.zeros(first.grid.shape, jnp.bool_).at[first.row, first.column].set(True)
        locked = distances(is_free & (~is_locked | starts))
    found = found.astype(jnp.int32)
    rooms = doors.rooms_of(first, sizes.rooms) if sizes.rooms else None
    aims, tours = env.aims(first), None
    if len(aims) > 1:
        keys = locks.keys_of(env, first, found, first)
        stacked = Aims.of(aims)
        tours = tour.tours(stacked, is_free, locks.lock_of(keys, found, stacked))
    return Level(first, distances(is_free), locked, found, rooms, tours)


def lower_bound(env: Any, level: Level, state: Any) -> Float32[Array, ""]:
    """Return a lower bound, at least 1, on the number of steps from a state to success."""
    bound, pose, aims = jnp.float32(1), _pose(state), env.aims(state)
    if not aims:
        return bound
    keys = locks.keys_of(env, level.first, level.locked_doors, state)
    unlocked = None
    if level.locked is not None:
        unlocked = locks.to_unlock(keys, level.locked, level.locked_doors, state, pose)
    stacked = Aims.of(aims)
    for aim, opened in zip(aims, _doors_to_open(level, state, stacked), strict=True):
        turns = _steps(level, state, aim, unlocked, opened)
        found = jnp.where(turns >= NO_WAY, NEVER, (turns + aim.actions).astype(jnp.float32))
        bound = jnp.maximum(bound, jnp.where(aim.active, found, jnp.float32(0)))
    if level.tours is None:
        return bound
    lock, stage = level.tours.lock, jnp.int32(tour.UNLOCKED)
    if lock is not None:
        stage = locks.stage(lock, keys, state.grid)
    opened, needs_key = _doors_of_tour(level, state, stacked, keys)
    hands = tour.Hands(state.carried != 0, needs_key)
    whole = tour.bound(stacked, level.tours, pose, stage, hands) + opened
    return jnp.maximum(bound, jnp.where(whole >= NO_WAY, NEVER, whole.astype(jnp.float32)))


def _steps(
    level: Level,
    state: Any,
    aim: Aim,
    unlocked: Int32[Array, " doors"] | None,
    to_open: Int32[Array, ""],
) -> Int32[Array, ""]:
    """Return a lower bound on the steps until the agent faces a cell of an aim.

    unlocked: the result of `locks.to_unlock`; None if the bounds count locked doors as open.
    to_open: the fewest doors that the agent must open before it faces a cell of the aim.

    If all doors are still locked and the cells are behind them, the agent must first unlock a door.
    The bound is then the steps to unlock a door, plus the steps from this door to the cells,
    minimised over the doors.
    """
    pose, cells = _pose(state), aim.cells.reshape(-1)
    direct = nearest(level.open.to[pose], cells, aim.slack) + to_open
    if level.locked is None or unlocked is None:
        return direct
    kind = tiles.kind(state.grid.reshape(-1)[level.locked_doors])
    all_locked = ((kind == Kind.LOCKED_DOOR) | (level.locked_doors < 0)).all()
    is_behind = all_locked & (nearest(level.locked.to[pose], cells) >= NO_WAY)
    rest = nearest(level.open.between[level.locked_doors], cells, aim.slack)
    return jnp.where(is_behind, jnp.maximum(direct, (unlocked + rest).min()), direct)


def _doors_to_open(level: Level, state: Any, aims: Aims) -> Int32[Array, " aims"]:
    """Return for each aim the fewest doors that the agent must open before it faces a cell of it.

    The result is 0 if the agent may face any direction near the cells (`Aim.slack`).
    """
    rooms = level.rooms
    if rooms is None:
        return jnp.zeros(len(aims.active), jnp.int32)
    is_closed, _ = doors.closed(rooms, state.grid)
    start = doors.apart(rooms, is_closed)[rooms.node[_pose(state) // 4]]
    fewest = _to_aims(rooms, start, aims.cells)
    counts = (fewest < doors.NEVER) & aims.no_slack
    return jnp.where(counts, fewest.astype(jnp.int32), 0)


def _doors_of_tour(
    level: Level, state: Any, aims: Aims, keys: locks.Keys
) -> tuple[Int32[Array, ""], Bool[Array, ""]]:
    """Return the fewest doors to open that `tour.bound` does not count, and `Hands.needs_key`."""
    rooms, tours = level.rooms, level.tours
    needs_key = jnp.bool_(False)
    if rooms is None or tours is None:
        return jnp.int32(0), needs_key
    is_closed, is_locked = doors.closed(rooms, state.grid)
    goes = aims.active & aims.no_slack
    # A toggle of a door can serve an aim, such as "open the red door", whose own actions count it.
    serves = (aims.cells[:, rooms.door] & aims.needs(Action.TOGGLE)[:, None]).any(axis=0)
    costs = is_closed & ~serves
    if tours.lock is not None:  # the tours count the toggle of the locked door
        costs &= ~is_locked
    here, apart = rooms.node[_pose(state) // 4], doors.apart(rooms, costs)
    ends = jnp.where(goes[:, None], _to_aims(rooms, apart, aims.cells), 0)
    if tours.lock is not None:
        locked = doors.apart(rooms, jnp.where(is_locked, doors.NEVER, costs.astype(jnp.uint8)))
        is_behind = _to_aims(rooms, locked[here], aims.cells) >= doors.NEVER
        needs_key = is_locked.any() & (goes & is_behind).any()
        needs_key &= ~keys.held[0] & ~keys.held_in_box[0]
        to_key = doors.to_cells(rooms, apart, keys.cells[0])
        ends = jnp.concatenate([ends, jnp.where(needs_key, to_key, 0)[None]])
        # A pick-up of a key that also serves an aim is counted with the aims.
        can_serve = (aims.active & (aims.cells & keys.cells[0]).any(axis=1)).any()
        needs_key &= (tours.lock.pick_up != 0) & ~can_serve
    return doors.to_any_two(apart[here], ends), needs_key


_to_aims = jax.vmap(doors.to_cells, (None, None, 0))


def _pose(state: Any) -> Int32[Array, ""]:
    return (state.row * state.grid.shape[1] + state.column) * 4 + state.direction


def front_cell(state: Any) -> Int32[Array, ""]:
    """Return the row-major index of the cell in front of the agent."""
    height, width = state.grid.shape
    down, right = direction_vector(state.direction)
    row, column = (state.row + down).clip(0, height - 1), (state.column + right).clip(0, width - 1)
    return row * width + column
