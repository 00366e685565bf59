"""Searches of many levels with one compiled program, and their results as arrays."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...puzzles.puzzle import PuzzleLevel
from ...search.astar import astar
from ..env import GridEnv
from . import bounds, nodes
from .domain import domain

LONG = 512  # length of the array of actions of a plan; a longer plan needs a second search
# Numbers of changed cells that a node can store in the first and in the second search. A changed
# cell differs from the level's first state. In a third search, a node has room for all cells that
# can ever change.
SIZES = (8, 20)


class Found(NamedTuple):
    """Results of the searches of a batch of levels; each array has one entry per level."""

    solved: np.ndarray
    cut: np.ndarray  # bool: whether the search ended because changed cells did not fit in a node
    length: np.ndarray
    actions: np.ndarray
    lower: np.ndarray  # proven lower bound on the steps of every plan
    proven: np.ndarray
    unsolvable: np.ndarray

    @property
    def closed(self) -> np.ndarray:
        """Mask of levels that need no further search: they have a proven plan or are unsolvable."""
        return self.proven | self.unsolvable

    def updated(self, rows: np.ndarray, other: "Found") -> "Found":
        """Return these results, replaced by `other` in the levels that the mask `rows` selects.

        `other` has the results of a later search. Each selected level keeps the larger of its two
        lower bounds.
        """
        width = max(self.actions.shape[1], other.actions.shape[1])
        old, new = (
            found._replace(actions=_padded(found.actions, width)) for found in (self, other)
        )
        new = new._replace(lower=np.maximum(old.lower, new.lower))
        pairs = zip(new, old, strict=True)
        return Found(*(np.where(rows.reshape(-1, *[1] * (x.ndim - 1)), x, y) for x, y in pairs))


def _padded(actions: np.ndarray, width: int) -> np.ndarray:
    return np.pad(actions, [(0, 0), (0, width - actions.shape[1])], constant_values=-1)


class Searcher(NamedTuple):
    """Settings of exact searches, and the method `answers`, which searches a batch of levels."""

    env: GridEnv
    sizes: bounds.Sizes
    most: int  # largest number of cells that can differ from the level's first state
    node_budget: int
    batch_size: int

    def answers(self, first: Any, left: np.ndarray) -> Found:
        """Search the levels of the mask `left`, which begin in the states `first`.

        All levels of a search share the node budget. Levels that are neither proven optimal nor
        proven unsolvable are therefore searched again with the whole budget, until none is left or
        a search settles none. Results outside the mask have no meaning.
        """
        tables = _tables(self.env, self.sizes)(first)
        found = self._once(tables, left)
        while (rest := left & ~found.closed).any() and rest.sum() < left.sum():
            found, left = found.updated(rest, self._once(tables, rest)), rest
        return found

    def _once(self, tables: bounds.Level, left: np.ndarray) -> Found:
        """Search with small nodes; repeat with larger nodes if a level's changed cells do not fit.

        A changed cell is one that differs from the level's first state.
        """
        found = None
        for size in (*(size for size in SIZES if size < self.most), self.most):
            is_short = size < self.most
            made = _search(self, tables, size, is_short, left)
            found = made if found is None else found.updated(left, made)
            left = left & found.cut
            if not left.any():
                break
        assert found is not None
        return found


def _search(
    searcher: Searcher, tables: bounds.Level, most: int, is_short: bool, left: np.ndarray
) -> Found:
    """Search the levels of the mask `left`; a node can store up to `most` changed cells.

    A changed cell is one that differs from the level's first state.

    is_short: whether a state of these levels can have more than `most` changed cells.
    """
    begin = jax.vmap(lambda state: nodes.start(state, most).words)(tables.first)
    # Levels outside the mask start in a goal node, so their search ends at once.
    begin = begin.at[:, 0].set(jnp.where(left, begin[:, 0], nodes.WON))
    levels = PuzzleLevel(board=begin, instance=tables)
    # All costs and lower bounds are integers, so buckets of width 1 keep the order of A*.
    settings = {
        "node_budget": searcher.node_budget,
        "batch_size": searcher.batch_size,
        "bucket_width": 1.0,
    }
    search = functools.partial(astar, domain(searcher.env, most, is_short), levels, **settings)
    found = jax.device_get(search(max_length=LONG))
    longest = int(found.length.max())
    if longest > LONG:
        found = jax.device_get(search(max_length=longest))
    cut = found.solved & (found.board[:, 0] & nodes.CUT != 0)
    bound = np.where(np.isfinite(found.lower_bound), found.lower_bound, 0)
    return Found(
        solved=found.solved & ~cut,
        cut=cut,
        length=found.length,
        actions=found.actions,
        lower=np.ceil(np.where(found.solved & found.optimal, found.cost, bound)).astype(int),
        proven=found.optimal & ~cut,
        unsolvable=found.unsolvable,
    )


@functools.lru_cache(maxsize=64)
def _tables(env: GridEnv, sizes: bounds.Sizes) -> Any:
    return jax.jit(jax.vmap(lambda first: bounds.level_of(env, first, sizes)))
