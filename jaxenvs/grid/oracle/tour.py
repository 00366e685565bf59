"""Lower bound on the steps of missions with several aims, from the shortest tour of their cells.

An aim (see `grid.aims`) is a set of cells. To succeed, the agent must face a cell of each aim. The
agent therefore needs at least the turns and moves of the shortest tour of the aims, plus other
actions such as a pick-up. One action can serve several aims, so the bound counts each kind of
action once.
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

# With up to `MOST` aims, the bound uses the shortest tour of all aims. With more aims, it uses the
# shortest tours of the subsets of `SOME` aims.
MOST, SOME = 4, 3
MOVED = 1 << Action.PICKUP | 1 << Action.DROP  # actions that move an object, as a bit mask
TWICE = 2  # further actions of a plan that moves a second object: a pick-up and a drop


def between(cells: Bool[Array, "aims cells"], open: Distances) -> Int32[Array, "aims aims"]:
    """Return the distances between aims: entry [i, j] is the distance from aim i to aim j.

    The distance is the fewest turns and moves from facing a cell of aim i to facing a cell of aim
    j.
    """
    to_aim = jax.vmap(lambda mask: nearest(open.between, mask))(cells)  # shape (aims, cells)
    fewest = jnp.where(cells[:, None, :], to_aim[None], NO_WAY).min(axis=-1)
    return jnp.minimum(fewest, NO_WAY)


def bound(
    aims: Sequence[Aim],
    first: Bool[Array, "aims cells"],
    start: Int32[Array, " aims"],
    apart: Int32[Array, "aims aims"],
) -> Int32[Array, ""]:
    """Return a lower bound on the steps from a state to success; `NO_WAY` or more if impossible.

    aims: the aims of this state.
    first: mask of the cells of each aim in the first state of the level.
    start: for each aim, the fewest turns and moves until the agent faces a cell of it.
    apart: the result of `between` for `first`.
    """
    active = jnp.stack([jnp.asarray(aim.active) for aim in aims])
    acts = _union(aims, active)
    # Leave out aims whose objects have moved to other cells, because `apart` has the distances
    # between the cells of the first state.
    cells = jnp.stack([aim.cells.reshape(-1) for aim in aims])
    stays = ~(cells & ~first).any(axis=1)
    no_slack = np.array([aim.slack == 0 for aim in aims])
    goes = active & stays & no_slack
    after = jnp.stack([jnp.asarray(aim.after, jnp.int32) for aim in aims])
    order = (after[:, None] >> np.arange(len(aims), dtype=np.int32)) & 1 != 0
    free = _shortest(start, apart, goes, jnp.zeros_like(order))
    tied = _shortest(start, apart, goes, order)
    # A plan can deviate from the order of the aims by moving an object of a later aim. For such
    # plans the bound is the shortest tour in any order, plus the actions that move the object.
    twice = jnp.stack([jnp.asarray(aim.twice) for aim in aims]) & (after != 0) & goes
    plain = (after != 0) & goes & ~twice
    moved = jnp.where(plain.any(), _count(acts | MOVED), _count(acts) + TWICE)
    moved = jnp.where(twice.any() | plain.any(), moved, jnp.int32(1 << 20))
    return jnp.minimum(tied + _count(acts), free + moved)


def _union(aims: Sequence[Aim], active: Array) -> Int32[Array, ""]:
    """Return a bit mask of the actions that at least one active aim needs."""
    acts = jnp.int32(0)
    for i, aim in enumerate(aims):
        acts = acts | jnp.where(active[i], jnp.asarray(aim.acts, jnp.int32), 0)
    return acts


def _count(acts: Int32[Array, ""]) -> Int32[Array, ""]:
    return jax.lax.population_count(acts)


def _shortest(
    start: Int32[Array, " aims"], apart: Array, goes: Array, order: Array
) -> Int32[Array, ""]:
    """Return the length of the shortest tour of the aims in the mask `goes`, or a lower bound.

    order: entry [i, j] is True if aim i must come after aim j.

    The result is the exact length for up to `MOST` aims. With more aims, the lower bound is the
    largest of the shortest lengths for all subsets of `SOME` aims.
    """
    count = len(start)
    size = count if count <= MOST else SOME
    groups = itertools.combinations(range(count), size)
    tours = np.array([list(itertools.permutations(group)) for group in groups])
    # Put the aims that `goes` does not select at the end of each tour, where they cost nothing.
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
