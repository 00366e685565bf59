"""Lower bound on the steps of missions with several aims, from the shortest tour of their cells.

An aim (see `grid.aims`) is a set of cells. To succeed, the agent must face a cell of each aim. The
agent therefore needs at least the turns and moves of the shortest tour of the aims, plus other
actions such as a pick-up. One action can serve several aims, so the bound counts each kind of
action once.

If the map has one locked door, a tour through this door first goes to a key and to the door.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int16, Int32

from ..aims import Aim
from ..state import Action
from .distances import AHEAD, NO_WAY

MOST = 6  # largest number of aims of a tour; a tour of some of the aims is a lower bound too
PICKUP, DROP, TOGGLE = 1 << Action.PICKUP, 1 << Action.DROP, 1 << Action.TOGGLE  # bit masks
# Number of steps that stands for an impossible tour. Longer tours than `FAR - 1` are stored as
# `FAR - 1`, a valid lower bound.
FAR = np.int16(32000)
# States of the locked door in a tour: the agent still needs a key, it has a key, or it needs no
# key, because the door is unlocked.
NEEDS_KEY, HAS_KEY, UNLOCKED = range(3)


class Lock(NamedTuple):
    """The locked door of a map with only one."""

    is_there: Bool[Array, ""]  # whether the map has a locked door
    door: Bool[Array, " cells"]  # mask of the door's cell
    keys: Bool[Array, " cells"]  # mask of the cells with keys for this door, also in boxes
    # Number of actions to count for a pick-up of a key and for the toggle of the door: 0 if this
    # action can also serve an aim, whose own actions count it.
    pick_up: Int16[Array, ""]
    toggle: Int16[Array, ""]


class Tours(NamedTuple):
    """Lengths of the shortest tours from every pose, for every set of aims."""

    cells: Bool[Array, "aims cells"]  # cells of each aim in the first state
    lock: Lock | None  # the locked door; None if tours count locked doors as open
    slot: Int32[Array, " slots"]  # aims of the tours; their indices are the bits of a set of aims
    # Fewest turns and moves from a pose until the agent has faced a cell of each aim of a set. The
    # first axis is (tours in the order `Aim.after`, tours in any order), the second axis the state
    # of the locked door. Tours through the locked door include `Lock.pick_up` and `Lock.toggle`.
    steps: Int16[Array, "orders locks sets poses"]


def tours(
    aims: Sequence[Aim],
    is_free: Bool[Array, "height width"],
    lock: Lock | None,
) -> Tours:
    """Return the tours of a level.

    aims: aims of the first state.
    is_free: mask of the cells that are no wall.
    lock: the locked door; None if tours count locked doors as open.
    """
    shape, count = is_free.shape, min(len(aims), MOST)
    cells = jnp.stack([aim.cells.reshape(-1) for aim in aims])
    goes = jnp.stack([jnp.asarray(aim.active) for aim in aims])
    goes &= np.array([aim.slack == 0 for aim in aims])
    slot = jnp.argsort(~goes, stable=True)[:count].astype(jnp.int32)
    used = goes[slot]
    after = jnp.stack([jnp.asarray(aim.after, jnp.int32) for aim in aims])[slot]
    bits = np.int32(1) << np.arange(count, dtype=np.int32)
    # Bit mask, per aim of the tours, of the aims that must come before it.
    earlier = (((after[:, None] >> slot) & 1) * bits).sum(axis=1)
    fixed = jnp.stack([jnp.asarray(aim.fixed) for aim in aims])
    earlier = jnp.stack([earlier, jnp.where(fixed[slot], earlier, 0)])
    faces = _in_front(cells[slot].reshape(count, *shape))
    begin = jnp.zeros((2, 3, 1 << count, *shape, 4), jnp.int16)

    def add(group: Array, steps: Array) -> Array:
        """Add the tours of a set of aims; the tours of its subsets are known."""
        rest = group ^ bits
        is_in = (group & bits) != 0
        allowed = is_in & ((earlier & group) == 0)  # shape (orders, aims)
        known = steps[:, :, rest]  # shape (orders, locks, aims, height, width, 4)
        can = allowed[:, None, :, None, None, None] & faces
        least = jnp.where(can, known, FAR).min(axis=2)
        return steps.at[:, :, group].set(_by_lock(least, is_free, lock))

    steps = jax.lax.fori_loop(1, jnp.int32(1) << used.sum(dtype=jnp.int32), add, begin)
    return Tours(cells, lock, jnp.where(used, slot, -1), steps.reshape(2, 3, 1 << count, -1))


def _by_lock(least: Array, is_free: Array, lock: Lock | None) -> Int16[Array, "orders locks ..."]:
    """Extend tours by turns and moves, and by the actions that unlock the door.

    least: the lengths of the tours from the poses that face a cell of their first aim.
    """
    last = _relaxed(least[:, UNLOCKED], is_free)
    if lock is None:
        return jnp.stack([last] * 3, axis=1)
    shape = is_free.shape
    door, keys = (_in_front(x.reshape(1, *shape))[0] for x in (lock.door, lock.keys))
    closed = is_free & ~(lock.is_there & lock.door.reshape(shape))
    toggled = jnp.where(door, _plus(last, lock.toggle), FAR)
    middle = _relaxed(jnp.minimum(least[:, HAS_KEY], toggled), closed, is_free)
    picked = jnp.where(keys, _plus(middle, lock.pick_up), FAR)
    begin = _relaxed(jnp.minimum(least[:, NEEDS_KEY], picked), closed, is_free)
    return jnp.stack([begin, middle, last], axis=1)


def _plus(steps: Array, more: Any) -> Array:
    return jnp.where(steps >= FAR - 1, steps, steps + more)


def _in_front(cells: Bool[Array, "n height width"]) -> Bool[Array, "n height width 4"]:
    """Return for each pose whether the cell in front of the agent is in the mask."""
    _, height, width = cells.shape
    rows, columns = np.arange(height)[:, None], np.arange(width)
    found = [
        cells[:, (rows + down).clip(0, height - 1), (columns + right).clip(0, width - 1)]
        for down, right in AHEAD
    ]
    return jnp.stack(found, axis=-1)


def _relaxed(
    steps: Int16[Array, "orders height width 4"], is_free: Array, starts: Array | None = None
) -> Int16[Array, "orders height width 4"]:
    """Extend paths that end with `steps` by turns and moves at their beginning.

    is_free: mask of the cells that the agent can enter.
    starts: mask of the cells in which the agent can be; `is_free` if None.
    """
    entered = is_free[..., None]
    inside = entered if starts is None else starts[..., None]

    def goes_on(carry: tuple[Array, Array]) -> Array:
        return carry[1]

    def body(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        best, _ = carry
        padded = jnp.pad(
            jnp.where(entered, best, FAR), [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=FAR
        )
        height, width = is_free.shape
        moved = jnp.stack(
            [
                padded[:, 1 + down : 1 + down + height, 1 + right : 1 + right + width, d]
                for d, (down, right) in enumerate(AHEAD)
            ],
            axis=-1,
        )
        near = jnp.minimum(jnp.roll(best, 1, -1), jnp.roll(best, -1, -1))
        near = _plus(jnp.minimum(near, moved), np.int16(1))
        after = jnp.where(inside, jnp.minimum(best, near), FAR)
        return after, (after != best).any()

    return jax.lax.while_loop(goes_on, body, (steps, jnp.bool_(True)))[0]


class Hands(NamedTuple):
    """Facts about a state that decide how many objects the agent must pick up and drop."""

    carries: Bool[Array, ""]  # whether the agent carries an object
    needs_key: Bool[Array, ""]  # whether every plan picks up a key of the locked door


def bound(
    aims: Sequence[Aim], tours: Tours, pose: Array, lock: Array, hands: Hands
) -> Int32[Array, ""]:
    """Return a lower bound on the steps from a state to success; `NO_WAY` or more if impossible.

    aims: the aims of this state.
    pose: index of the agent's pose.
    lock: state of the locked door, such as `NEEDS_KEY`.
    """
    active = jnp.stack([jnp.asarray(aim.active) for aim in aims])
    # Leave out aims whose objects have moved to other cells, because the tours go to the cells of
    # the first state.
    cells = jnp.stack([aim.cells.reshape(-1) for aim in aims])
    stays = ~(cells & ~tours.cells).any(axis=1)
    goes = active & stays
    inside = (tours.slot >= 0) & goes[tours.slot]
    bits = np.int32(1) << np.arange(len(tours.slot), dtype=np.int32)
    group = jnp.where(inside, bits, np.int32(0)).sum()
    steps = tours.steps[:, lock, group, pose]
    tied, free = jnp.where(steps >= FAR, NO_WAY, steps.astype(jnp.int32))
    # A plan can deviate from the order of the aims by moving an object of a later aim. For such
    # plans the bound is the shortest tour in any order, plus the actions that move the object.
    after = jnp.stack([jnp.asarray(aim.after, jnp.int32) for aim in aims])
    no_slack = np.array([aim.slack == 0 for aim in aims])
    goes = goes & no_slack
    twice = jnp.stack([jnp.asarray(aim.twice) for aim in aims]) & (after != 0) & goes
    fixed = jnp.stack([jnp.asarray(aim.fixed) for aim in aims])
    plain = (after != 0) & goes & ~twice & ~fixed
    picked, dropped, toggled = _counts(aims, cells, active, hands)
    acts = picked + dropped + toggled
    moved = jnp.maximum(picked, 1) + jnp.maximum(dropped, 1)
    second = jnp.maximum(picked, _has(aims, active, PICKUP) + 1)
    second += jnp.maximum(dropped, _has(aims, active, DROP) + 1)
    moved = toggled + jnp.where(plain.any(), moved, second)
    moved = jnp.where(twice.any() | plain.any(), moved, jnp.int32(1 << 20))
    return jnp.minimum(tied + acts, free + moved)


def _counts(
    aims: Sequence[Aim], cells: Array, active: Array, hands: Hands
) -> tuple[Array, Array, Array]:
    """Return the fewest (pick-ups, drops, toggles) of the objects of aims."""
    picked, puts = _distinct(aims, cells, active, PICKUP)
    toggled, _ = _distinct(aims, cells, active, TOGGLE)
    # The agent carries at most one object, so it drops an object between two pick-ups.
    all_picked = picked + hands.needs_key.astype(jnp.int32)
    between = jnp.where(all_picked > 0, all_picked - 1 + hands.carries.astype(jnp.int32), 0)
    dropped = jnp.maximum(jnp.maximum(puts, _has(aims, active, DROP)), between)
    return picked, dropped, toggled


def _distinct(
    aims: Sequence[Aim], cells: Array, active: Array, act: int
) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Return how many different objects an action must be taken with, and how many to drop.

    Two aims need two objects if no object belongs to both.
    """
    taken = jnp.zeros(cells.shape[1], jnp.bool_)
    count, drops = jnp.int32(0), jnp.int32(0)
    for i, aim in enumerate(aims):
        acts = jnp.asarray(aim.acts)
        counts = active[i] & ((acts & act) != 0) & ~(taken & cells[i]).any()
        taken |= cells[i] & counts
        count += counts.astype(jnp.int32)
        drops += (counts & ((acts & DROP) != 0)).astype(jnp.int32)
    return count, drops


def _has(aims: Sequence[Aim], active: Array, act: int) -> Int32[Array, ""]:
    """Return 1 if an active aim needs the action of the bit mask `act`, and 0 otherwise."""
    acts = jnp.stack([jnp.asarray(aim.acts) for aim in aims])
    return (active & ((acts & act) != 0)).any().astype(jnp.int32)
