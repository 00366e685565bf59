"""Lower bound of missions with several aims: the shortest tour of the cells that they name.

The agent has to face a cell of each aim. The turns and moves between these times are at least the
length of the shortest tour. Actions such as a pick-up come in addition, but one of them can serve
several aims, so each kind of action counts once.
"""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from ..aims import Aim
from ..state import Action
from .distances import NO_WAY, Distances, nearest

# Numbers of aims of which all tours are compared; of more aims, all choices of `SOME` aims.
MOST, SOME = 4, 3
MOVED = 1 << Action.PICKUP | 1 << Action.DROP  # actions by which an object gets to another cell
TWICE = 2  # further actions if a second object has to be moved as well


def between(cells: Bool[Array, "aims cells"], open: Distances) -> Int32[Array, "aims aims"]:
    """Return the fewest turns and moves between facing cells of two aims, for all pairs of aims."""
    to_aim = jax.vmap(lambda mask: nearest(open.between, mask))(cells)  # (aims, cells)
    fewest = jnp.where(cells[:, None, :], to_aim[None], NO_WAY).min(axis=-1)
    return jnp.minimum(fewest, NO_WAY)


def bound(
    aims: Sequence[Aim],
    first: Bool[Array, "aims cells"],
    start: Int32[Array, " aims"],
    apart: Int32[Array, "aims aims"],
) -> Int32[Array, ""]:
    """Return a lower bound on the steps until all aims are met.

    aims: the aims of the state. first: the cells of the aims of the first state of the level.
    start: for each aim, the fewest turns and moves until the agent faces a cell of it.
    apart: the result of `between` for `first`.

    `NO_WAY` or more if success is impossible.
    """
    active = jnp.stack([jnp.asarray(aim.active) for aim in aims])
    acts = _union(aims, active)
    # Distances of the first state hold as long as no object of the aim is in a new cell.
    cells = jnp.stack([aim.cells.reshape(-1) for aim in aims])
    stays = ~(cells & ~first).any(axis=1)
    no_slack = np.array([aim.slack == 0 for aim in aims])
    goes = active & stays & no_slack
    after = jnp.stack([jnp.asarray(aim.after, jnp.int32) for aim in aims])
    order = (after[:, None] >> np.arange(len(aims), dtype=np.int32)) & 1 != 0
    free = _shortest(start, apart, goes, jnp.zeros_like(order))
    tied = _shortest(start, apart, goes, order)
    # The order of two aims can be broken only by moving an object of the later one.
    twice = jnp.stack([jnp.asarray(aim.twice) for aim in aims]) & (after != 0) & goes
    plain = (after != 0) & goes & ~twice
    moved = jnp.where(plain.any(), _count(acts | MOVED), _count(acts) + TWICE)
    moved = jnp.where(twice.any() | plain.any(), moved, jnp.int32(1 << 20))
    return jnp.minimum(tied + _count(acts), free + moved)


def _union(aims: Sequence[Aim], active: Array) -> Int32[Array, ""]:
    """Return the bit mask of the actions that the active aims need."""
    acts = jnp.int32(0)
    for i, aim in enumerate(aims):
        acts = acts | jnp.where(active[i], jnp.asarray(aim.acts, jnp.int32), 0)
    return acts


def _count(acts: Int32[Array, ""]) -> Int32[Array, ""]:
    return jax.lax.population_count(acts)


def _shortest(
    start: Int32[Array, " aims"], apart: Array, goes: Array, order: Array
) -> Int32[Array, ""]:
    """Return the length of the shortest tour over the aims that `goes` selects.

    order: whether the aim of the row comes after the aim of the column.

    If there are many aims, the longest of the shortest tours over a few of them, a lower bound.
    """
    count = len(start)
    size = count if count <= MOST else SOME
    groups = itertools.combinations(range(count), size)
    tours = np.array([list(itertools.permutations(group)) for group in groups])
    # Aims that are left out come last and cost nothing.
    order = (order & goes[None, :] & goes[:, None]) | (goes[None, :] & ~goes[:, None])
    apart = jnp.where(goes[None, :], apart, 0)
    length = jnp.where(goes, start, 0)[tours[..., 0]]
    for at in range(1, size):
        length += apart[tours[..., at - 1], tours[..., at]]
    wrong = jnp.zeros(tours.shape[:2], jnp.bool_)
    for early, late in itertools.combinations(range(size), 2):
        wrong |= order[tours[..., early], tours[..., late]]
    length = jnp.where(wrong, NO_WAY, length).min(axis=1)
    return jnp.minimum(length.max(), NO_WAY)
