"""Lower bound on the steps of missions with several aims, from the shortest tour of their cells.

An aim (see `grid.aims`) is a set of cells. To succeed, the agent must face a cell of each aim. The
agent therefore needs at least the turns and moves of the shortest tour of the aims, plus other
actions such as a pick-up. An action can serve several aims with the same object, so the bound
counts different objects only.

If the level has one locked door, a tour through the door first goes to a key and to the door.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int16, Int32

from ..aims import Aim
from ..state import Action
from .distances import AHEAD, NO_WAY

MOST = 6  # largest number of aims of a tour; if a mission has more, the tour leaves some out
# Bit masks of the actions in `Aim.acts`.
PICKUP, DROP, TOGGLE = 1 << Action.PICKUP, 1 << Action.DROP, 1 << Action.TOGGLE
# Number of steps that stands for an impossible tour. Longer tours than `FAR - 1` are stored as
# `FAR - 1`, a valid lower bound.
FAR = np.int16(32000)
# Stages of the locked door in a tour: the agent needs a key, it has a key, or the door is unlocked.
NEEDS_KEY, HAS_KEY, UNLOCKED = range(3)


class Lock(NamedTuple):
    """The locked door of a level that has no other locked door."""

    is_there: Bool[Array, ""]  # False if the level has no locked door
    door: Bool[Array, " cells"]  # mask of the door's cell
    keys: Bool[Array, " cells"]  # mask of the cells with keys for this door, also in boxes
    # Number of pick-ups of a key and of toggles of the door that a tour counts: 0 or 1. It is 0 if
    # the action can serve an aim, because the actions of the aims are counted separately.
    pick_up: Int16[Array, ""]
    toggle: Int16[Array, ""]


class Tours(NamedTuple):
    """Lengths of the shortest tours of a level, from every pose, for every set of aims."""

    cells: Bool[Array, "aims cells"]  # cells of each aim in the first state
    lock: Lock | None  # None if tours count locked doors as open
    slot: Int32[Array, " slots"]  # indices of the aims of the tours; -1 for unused slots
    # Fewest turns and moves from a pose until the agent has faced a cell of each aim of a set. Bit
    # i of the index of a set is the aim `slot[i]`. First axis: tours that keep the order of the
    # aims (`Aim.after`), and tours that keep it only for aims that are `fixed`. Second axis: stages
    # of the locked door, only one if `lock` is None. The numbers include `Lock.pick_up` and
    # `Lock.toggle` where the tour unlocks the door.
    steps: Int16[Array, "orders stages sets poses"]


def tours(aims: Sequence[Aim], is_free: Bool[Array, "height width"], lock: Lock | None) -> Tours:
    """Return the tours of a level.

    aims: aims of the first state.
    is_free: mask of the cells that are no wall.
    """
    shape, count = is_free.shape, min(len(aims), MOST)
    cells, goes = cells_of(aims), _each(aims, "active") & has_no_slack(aims)
    slot = jnp.argsort(~goes, stable=True)[:count].astype(jnp.int32)
    used, after = goes[slot], _each(aims, "after", jnp.int32)[slot]
    bits = _bits(count)
    # Bit mask, for each slot, of the slots whose aims come before its aim.
    before = (((after[:, None] >> slot) & 1) * bits).sum(axis=1)
    before = jnp.stack([before, jnp.where(_each(aims, "fixed")[slot], before, 0)])
    faces = _in_front(cells[slot].reshape(count, *shape))
    stages = 1 if lock is None else 3
    nothing = jnp.zeros((2, stages, 1 << count, *shape, 4), jnp.int16)

    def add(group: Array, steps: Array) -> Array:
        """Add the tours of a set of aims; its subsets have lower indices and are known."""
        is_next = ((group & bits) != 0) & ((before & group) == 0)  # shape (orders, slots)
        rest = steps[:, :, group ^ bits]  # shape (orders, stages, slots, height, width, 4)
        can = is_next[:, None, :, None, None, None] & faces
        return steps.at[:, :, group].set(
            _extended(jnp.where(can, rest, FAR).min(axis=2), is_free, lock)
        )

    sets = jnp.int32(1) << used.sum(dtype=jnp.int32)
    steps = jax.lax.fori_loop(1, sets, add, nothing)
    return Tours(cells, lock, jnp.where(used, slot, -1), steps.reshape(2, stages, 1 << count, -1))


def _extended(
    steps: Int16[Array, "orders stages height width 4"],
    is_free: Bool[Array, "height width"],
    lock: Lock | None,
) -> Int16[Array, "orders stages height width 4"]:
    """Put turns and moves before tours that begin in front of a cell of an aim.

    These turns and moves can include the way to a key and to the locked door.
    """
    last = _before(steps[:, -1], is_free, is_free)
    if lock is None:
        return last[:, None]
    shape = is_free.shape
    door, key = _in_front(jnp.stack([lock.door, lock.keys]).reshape(2, *shape))
    entered = is_free & ~(lock.is_there & lock.door.reshape(shape))
    unlocked = jnp.where(door, _plus(last, lock.toggle), FAR)
    with_key = _before(jnp.minimum(steps[:, HAS_KEY], unlocked), is_free, entered)
    picked = jnp.where(key, _plus(with_key, lock.pick_up), FAR)
    without = _before(jnp.minimum(steps[:, NEEDS_KEY], picked), is_free, entered)
    return jnp.stack([without, with_key, last], axis=1)


def _plus(steps: Int16[Array, "*n"], more: ArrayLike) -> Int16[Array, "*n"]:
    """Add actions to lengths of tours; impossible tours stay impossible."""
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


def _before(
    steps: Int16[Array, "orders height width 4"],
    is_free: Bool[Array, "height width"],
    entered: Bool[Array, "height width"],
) -> Int16[Array, "orders height width 4"]:
    """Put turns and moves before the tours whose lengths are `steps`.

    is_free: mask of the cells in which the agent can be.
    entered: mask of the cells that it can enter.
    """
    height, width = is_free.shape

    def goes_on(carry: tuple[Array, Array]) -> Array:
        return carry[1]

    def body(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        best, _ = carry
        ahead = jnp.where(entered[..., None], best, FAR)
        ahead = jnp.pad(ahead, [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=FAR)
        moved = [
            ahead[:, 1 + down : 1 + down + height, 1 + right : 1 + right + width, direction]
            for direction, (down, right) in enumerate(AHEAD)
        ]
        turned = jnp.minimum(jnp.roll(best, 1, -1), jnp.roll(best, -1, -1))
        after = _plus(jnp.minimum(turned, jnp.stack(moved, axis=-1)), np.int16(1))
        after = jnp.where(is_free[..., None], jnp.minimum(best, after), FAR)
        return after, (after != best).any()

    return jax.lax.while_loop(goes_on, body, (steps, jnp.bool_(True)))[0]


def cells_of(aims: Sequence[Aim]) -> Bool[Array, "aims cells"]:
    """Return a mask of the cells of each aim."""
    return jnp.stack([aim.cells.reshape(-1) for aim in aims])


def has_no_slack(aims: Sequence[Aim]) -> Bool[np.ndarray, " aims"]:
    """Return a mask of the aims of which the agent must face a cell, see `Aim.slack`."""
    return np.array([aim.slack == 0 for aim in aims])


def _each(aims: Sequence[Aim], field: str, dtype: Any = jnp.bool_) -> Array:
    return jnp.stack([jnp.asarray(getattr(aim, field), dtype) for aim in aims])


def _bits(count: int) -> np.ndarray:
    return np.int32(1) << np.arange(count, dtype=np.int32)


class Hands(NamedTuple):
    """Facts about a state that decide how many objects the agent must pick up and drop."""

    carries: Bool[Array, ""]  # whether the agent carries an object
    needs_key: Bool[Array, ""]  # whether every plan picks up a key of the locked door


def bound(
    aims: Sequence[Aim], tours: Tours, pose: Array, stage: Array, hands: Hands
) -> Int32[Array, ""]:
    """Return a lower bound on the steps from a state to success; `NO_WAY` or more if impossible.

    aims: the aims of this state.
    pose: index of the agent's pose.
    stage: stage of the locked door, such as `NEEDS_KEY`.

    The bound leaves out closed doors that are not locked.
    """
    active, cells = _each(aims, "active"), cells_of(aims)
    # Leave out aims whose objects have moved to other cells, because the tours go to the cells of
    # the first state.
    goes = active & ~(cells & ~tours.cells).any(axis=1)
    is_in = (tours.slot >= 0) & goes[tours.slot]
    group = jnp.where(is_in, _bits(len(tours.slot)), np.int32(0)).sum()
    steps = tours.steps[:, 0 if tours.lock is None else stage, group, pose]
    tied, free = jnp.where(steps >= FAR, NO_WAY, steps.astype(jnp.int32))
    picked, puts = _objects(aims, cells, active, PICKUP)
    toggled, _ = _objects(aims, cells, active, TOGGLE)
    # The agent carries at most one object, so it drops an object between two pick-ups.
    all_picked = picked + hands.needs_key.astype(jnp.int32)
    between = jnp.where(all_picked > 0, all_picked - 1 + hands.carries.astype(jnp.int32), 0)
    dropped = jnp.maximum(jnp.maximum(puts, _has(aims, active, DROP)), between)
    # A plan can deviate from the order of the aims by moving an object of a later aim. For such
    # plans the bound is the shortest tour in any order, plus the actions that move the object.
    late = goes & (_each(aims, "after", jnp.int32) != 0) & has_no_slack(aims)
    twice = late & _each(aims, "twice")
    once = late & ~twice & ~_each(aims, "fixed")
    moved = jnp.maximum(picked, 1) + jnp.maximum(dropped, 1)
    moved_twice = jnp.maximum(picked, _has(aims, active, PICKUP) + 1)
    moved_twice += jnp.maximum(dropped, _has(aims, active, DROP) + 1)
    moved = jnp.where(once.any(), moved, jnp.where(twice.any(), moved_twice, NO_WAY))
    return jnp.minimum(tied + picked + dropped, free + moved) + toggled


def _objects(
    aims: Sequence[Aim], cells: Array, active: Array, act: int
) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Return the fewest objects with which the agent must take an action, and must then drop.

    act: bit mask of the action.

    Two aims need different objects if no object belongs to both.
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
    return (active & ((_each(aims, "acts", jnp.int32) & act) != 0)).any().astype(jnp.int32)
