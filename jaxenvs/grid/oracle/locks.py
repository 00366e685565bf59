"""Keys of locked doors, and the steps to unlock a door."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8

from .. import tiles
from ..aims import Aims
from ..floodfill import NO_WAY
from ..state import Action
from ..tiles import Kind
from .distances import Distances, steps
from .tour import HAS_KEY, NEEDS_KEY, UNLOCKED, Lock


class Keys(NamedTuple):
    """Keys of the locked doors of a level."""

    held: Bool[Array, " doors"]  # whether the agent carries a key of the door
    held_in_box: Bool[Array, " doors"]  # whether the agent carries a box with a key of the door
    cells: Bool[Array, "doors cells"]  # cells with a key of the door, or with a box that has one
    in_box: Bool[Array, "doors cells"]  # cells with a box that has a key of the door


def keys_of(env: Any, first: Any, doors: Int32[Array, " doors"], state: Any) -> Keys:
    """Return the keys in a state.

    first: the first state of the level.
    doors: row-major indices of the locked doors of `first`.
    """
    grid = state.grid.reshape(-1)
    colour = (first.grid.reshape(-1)[doors] & jnp.uint8(0xF0))[:, None]
    key, box = colour | jnp.uint8(Kind.KEY), colour | jnp.uint8(Kind.KEY_BOX)
    contents = jnp.asarray(env.contents(state)).astype(jnp.uint8)
    is_filled = (contents == key) | (contents == box)
    in_box = (grid == box) | ((tiles.kind(grid) == Kind.BOX) & is_filled)
    held_in_box = (state.carried == box) | ((tiles.kind(state.carried) == Kind.BOX) & is_filled)
    held = state.carried == key
    return Keys(held[:, 0], held_in_box[:, 0], (grid == key) | in_box, in_box)


def to_unlock(
    keys: Keys, locked: Distances, doors: Int32[Array, " doors"], state: Any, pose: Array
) -> Int32[Array, " doors"]:
    """Return for each door a lower bound on the steps to unlock it; `NO_WAY` or more if impossible.

    locked: distances if the agent cannot enter locked doors.
    doors: row-major indices of the doors, padded with -1.
    pose: index of the agent's pose.

    The steps are those to get a key of the door's colour, to go to the door and to unlock it. The
    bound is valid only in states in which all doors are still locked.
    """
    to_key = steps(locked.to[pose])
    to_door = steps(locked.between[:, doors].T)
    fetch = to_key + to_door + 1 + keys.in_box.astype(jnp.int32)
    # If the agent carries another object, add one step to drop it before the key is picked up.
    fetch = jnp.where(keys.cells, fetch, NO_WAY).min(axis=1)
    fetch += (state.carried != 0).astype(jnp.int32)
    # If the agent carries a box with the key, add three steps: drop the box, open it, take the key.
    go = steps(locked.to[pose, doors])
    get = jnp.where(keys.held_in_box, jnp.minimum(fetch, go + 3), fetch)
    get = jnp.where(keys.held, go, get)
    return jnp.where(doors >= 0, get + 1, NO_WAY)


def lock_of(keys: Keys, doors: Int32[Array, " doors"], aims: Aims) -> Lock | None:
    """Return the locked door of a level for its tours; None unless `doors` has one entry.

    keys, aims: the keys and the aims of the first state.
    doors: row-major indices of the locked doors, padded with -1.
    """
    if len(doors) != 1:
        return None
    serves_key = (aims.cells & keys.cells[0]).any()
    serves_door = (aims.cells[:, doors[0]] & aims.needs(Action.TOGGLE)).any()
    return Lock(
        is_there=doors[0] >= 0,
        door=np.arange(aims.cells.shape[1]) == doors[0],
        keys=keys.cells[0],
        pick_up=(~serves_key).astype(jnp.int16),
        toggle=(~serves_door).astype(jnp.int16),
    )


def stage(lock: Lock, keys: Keys, grid: UInt8[Array, "height width"]) -> Int32[Array, ""]:
    """Return the stage of the locked door in a state, such as `NEEDS_KEY`.

    keys, grid: the keys and the map of this state.

    If a key has moved to another cell, its distances are unknown. The agent then counts as having
    the key, so that the lower bound is valid.
    """
    is_locked = lock.door & (tiles.kind(grid.reshape(-1)) == Kind.LOCKED_DOOR)
    has_key = keys.held[0] | keys.held_in_box[0] | (keys.cells[0] & ~lock.keys).any()
    return jnp.where(is_locked.any(), jnp.where(has_key, HAS_KEY, NEEDS_KEY), UNLOCKED)
