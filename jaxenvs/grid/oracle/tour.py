"""Lower bound on the steps of missions with several aims, from the shortest tour of their cells.

An aim (see `grid.aims`) is a set of cells. To succeed, the agent must face a cell of each aim. The
agent therefore needs at least the turns and moves of the shortest tour of the aims, plus other
actions such as a pick-up. An action can serve several aims with the same object, so the bound
counts different objects only.

If the level has one locked door, a tour through the door first goes to a key and to the door.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int16, Int32

from ..aims import Aims
from ..floodfill import AHEAD, NO_WAY
from ..state import Action
from .distances import approached

MOST = 6  # largest number of aims of a tour; if a mission has more, the tour leaves some out
# Number of steps that stands for an impossible tour. Longer tours than `FAR - 1` are stored as
# `FAR - 1`, a valid lower bound.
FAR = 32_000
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
    # i of the index of a set is the aim `slot[i]`. The stages belong to the locked door; there
    # is only one if `lock` is None. The last axis is (tours that keep the order of the aims, see
    # `Aim.after`; tours that keep it only for aims that are `fixed`). The numbers include
    # `Lock.pick_up` and `Lock.toggle` where a tour unlocks the door.
    steps: Int16[Array, "sets poses stages 2"]


def tours(aims: Aims, is_free: Bool[Array, "height width"], lock: Lock | None) -> Tours:
    """Return the tours of a level.

    aims: aims of the first state.
    is_free: mask of the cells that are no wall.
    """
    count, stages = min(len(aims.active), MOST), 1 if lock is None else 3
    goes = aims.active & aims.no_slack
    slot = jnp.argsort(~goes, stable=True)[:count].astype(jnp.int32)
    used, bits = goes[slot], _bits(count)
    # Bit mask, for each slot and both kinds of tours, of the slots whose aims come before its aim.
    before = (((aims.after[slot][:, None] >> slot) & 1) * bits).sum(axis=1)
    before = jnp.stack([before, jnp.where(aims.fixed[slot], before, 0)], axis=1)
    faces = _in_front(aims.cells[slot].reshape(count, *is_free.shape))
    nothing = jnp.zeros((1 << count, *is_free.shape, 4, stages, 2), jnp.int16)

    def add(group: Array, steps: Array) -> Array:
        """Add the tours of a set of aims; its subsets have lower indices and are known."""
        is_next = ((group & bits) != 0)[:, None] & ((before & group) == 0)  # shape (slots, 2)
        can = faces[..., None, None] & is_next[:, None, None, None, None]
        begun = jnp.where(can, steps[group ^ bits], FAR).min(axis=0)
        return steps.at[group].set(_with_way(begun, is_free, lock))

    sets = jnp.int32(1) << used.sum(dtype=jnp.int32)
    steps = jax.lax.fori_loop(1, sets, add, nothing)
    return Tours(
        aims.cells, lock, jnp.where(used, slot, -1), steps.reshape(1 << count, -1, stages, 2)
    )


def _with_way(
    begun: Int16[Array, "height width 4 stages 2"],
    is_free: Bool[Array, "height width"],
    lock: Lock | None,
) -> Int16[Array, "height width 4 stages 2"]:
    """Put turns and moves before tours that begin in front of a cell of an aim.

    These turns and moves can include the way to a key and to the locked door.
    """
    last = approached(begun[..., -1, :], is_free, is_free, FAR)
    if lock is None:
        return last[..., None, :]
    masks = jnp.stack([lock.door, lock.keys]).reshape(2, *is_free.shape)
    door, key = _in_front(masks)[..., None]
    entered = is_free & ~(lock.is_there & masks[0])
    unlocked = jnp.where(door, _plus(last, lock.toggle), FAR)
    unlocked = jnp.minimum(begun[..., HAS_KEY, :], unlocked)
    with_key = approached(unlocked, is_free, entered, FAR)
    picked = jnp.where(key, _plus(with_key, lock.pick_up), FAR)
    picked = jnp.minimum(begun[..., NEEDS_KEY, :], picked)
    without = approached(picked, is_free, entered, FAR)
    return jnp.stack([without, with_key, last], axis=-2)


def _plus(steps: Int16[Array, "*n"], more: Int16[Array, ""]) -> Int16[Array, "*n"]:
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


def _bits(count: int) -> np.ndarray:
    return np.int32(1) << np.arange(count, dtype=np.int32)


class Hands(NamedTuple):
    """Facts about a state that decide how many objects the agent must pick up and drop."""

    carries: Bool[Array, ""]  # whether the agent carries an object
    needs_key: Bool[Array, ""]  # whether every plan picks up a key of the locked door


def bound(aims: Aims, tours: Tours, pose: Array, stage: Array, hands: Hands) -> Int32[Array, ""]:
    """Return a lower bound on the steps from a state to success; `NO_WAY` or more if impossible.

    aims: the aims of this state.
    pose: index of the agent's pose.
    stage: stage of the locked door, such as `NEEDS_KEY`.

    The bound leaves out closed doors that are not locked.
    """
    # Leave out aims whose objects have moved to other cells, because the tours go to the cells of
    # the first state.
    goes = aims.active & ~(aims.cells & ~tours.cells).any(axis=1)
    is_in = (tours.slot >= 0) & goes[tours.slot]
    group = jnp.where(is_in, _bits(len(tours.slot)), 0).sum()
    steps = tours.steps[group, pose, 0 if tours.lock is None else stage]
    tied, free = jnp.where(steps >= FAR, NO_WAY, steps.astype(jnp.int32))
    picks, drops, toggles = (
        aims.active & aims.needs(act) for act in (Action.PICKUP, Action.DROP, Action.TOGGLE)
    )
    different = _different(aims.cells, picks)
    picked, puts = _count(different), _count(different & drops)
    toggled = _count(_different(aims.cells, toggles))
    # The agent carries at most one object, so it drops an object between two pick-ups.
    all_picked = picked + hands.needs_key.astype(jnp.int32)
    between = jnp.where(all_picked > 0, all_picked - 1 + hands.carries.astype(jnp.int32), 0)
    picks_any, drops_any = (mask.any().astype(jnp.int32) for mask in (picks, drops))
    dropped = jnp.maximum(jnp.maximum(puts, drops_any), between)
    # A plan can deviate from the order of the aims by moving an object of a later aim. For such
    # plans the bound is the shortest tour in any order, plus the actions that move the object.
    late = goes & (aims.after != 0) & aims.no_slack & ~aims.fixed
    once = jnp.maximum(picked, 1) + jnp.maximum(dropped, 1)
    twice = jnp.maximum(picked, picks_any + 1) + jnp.maximum(dropped, drops_any + 1)
    moved = jnp.where(late.any(), twice, NO_WAY)
    moved = jnp.where((late & ~aims.twice).any(), once, moved)
    return jnp.minimum(tied + picked + dropped, free + moved) + toggled


def _different(cells: Bool[Array, "aims cells"], able: Bool[Array, " aims"]) -> Array:
    """Return a mask of aims, a part of the mask `able`, of which no two have an object in common.

    Each of these aims therefore needs an action with its own object.
    """
    taken, kept = jnp.zeros(cells.shape[1], jnp.bool_), []
    for i in range(len(cells)):
        kept.append(able[i] & ~(taken & cells[i]).any())
        taken |= cells[i] & kept[i]
    return jnp.stack(kept)


def _count(mask: Bool[Array, " n"]) -> Int32[Array, ""]:
    return mask.sum(dtype=jnp.int32)
