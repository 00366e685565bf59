"""Permutation groups in NumPy: stabiliser chains and pattern databases.

`chain` builds a stabiliser chain by the random Schreier-Sims method (Seress, "Permutation Group
Algorithms", 2003). To sample an element of the group uniformly, draw one permutation from each
transversal of the chain, and multiply them.
"""

from typing import NamedTuple

import numpy as np

# `chain` stops when its last `SIFTED` random elements of the group were already in the chain.
SIFTED = 40
_MOVES_OF_A_RANDOM_ELEMENT = 200


class Chain(NamedTuple):
    """A stabiliser chain of a permutation group: a sequence of subgroups, called levels.

    All permutations of a level fix the base points of the levels before it.
    """

    base: np.ndarray  # int32 (levels,): the base point of each level
    sizes: np.ndarray  # int32 (levels,): number of points in the orbit of each level's base point
    # uint8 (levels, largest orbit size, points): one permutation for each point of a level's orbit.
    # The permutation takes the level's base point to this point; entry x is the image of point x.
    transversals: np.ndarray

    @property
    def order(self) -> int:
        """Number of elements of the group."""
        return int(np.prod([int(size) for size in self.sizes], dtype=object))


class _Level:
    """One level of a stabiliser chain under construction: base point, generators and orbit.

    `orbit` is a dict: point -> a permutation that takes the base point to this point. Its keys are
    all points that the generators reach from the base point.
    """

    def __init__(self, point: int, points: int) -> None:
        self.point, self.generators = point, []
        self.orbit: dict[int, np.ndarray] = {point: np.arange(points)}

    def add(self, generator: np.ndarray) -> None:
        """Add a generator, and extend the orbit by the points that the generators now reach."""
        self.generators.append(generator)
        queue = list(self.orbit)
        for at in queue:
            for move in self.generators:
                to = int(move[at])
                if to not in self.orbit:
                    self.orbit[to] = move[self.orbit[at]]
                    queue.append(to)


def chain(generators: np.ndarray, seed: int = 0) -> Chain:
    """Build the stabiliser chain of the group that the permutations in `generators` generate.

    Entry x of a permutation is the image of point x. The method is random: the chain is incomplete
    with a probability of about 2 ** -SIFTED. A test therefore compares the orders of the puzzles'
    groups with their known values.
    """
    rng = np.random.default_rng(seed)
    points = generators.shape[1]
    levels: list[_Level] = []
    for generator in generators:
        _insert(levels, generator, points)
    good = 0
    while good < SIFTED:
        element = np.arange(points)
        for i in rng.integers(len(generators), size=_MOVES_OF_A_RANDOM_ELEMENT):
            element = generators[i][element]
        good = good + 1 if not _insert(levels, element, points) else 0
    largest = max(len(level.orbit) for level in levels)
    transversals = np.zeros((len(levels), largest, points), np.uint8)
    for i, level in enumerate(levels):
        transversals[i, : len(level.orbit)] = np.stack(list(level.orbit.values()))
    sizes = np.array([len(level.orbit) for level in levels], np.int32)
    return Chain(np.array([level.point for level in levels], np.int32), sizes, transversals)


def _insert(levels: list[_Level], element: np.ndarray, points: int) -> bool:
    """Extend the chain by `element`; return False if the chain already contains it.

    The element is sifted through the levels. Each level multiplies it by the inverse of one of the
    level's transversal permutations, so that the product fixes the level's base point. If no such
    permutation exists, sifting stops at this level.

    The chain contains the element if the identity is left after the last level. If another
    permutation is left after the last level, a new level is appended. The permutation that is left
    becomes a generator of the level where sifting stopped, or of the new level, and of all levels
    before it.
    """
    depth = 0
    for level in levels:
        to = int(element[level.point])
        if to not in level.orbit:
            break
        element = np.argsort(level.orbit[to])[element]
        depth += 1
    else:
        moved = np.flatnonzero(element != np.arange(points))
        if not moved.size:
            return False
        levels.append(_Level(int(moved[0]), points))
    for level in levels[: depth + 1]:
        level.add(element)
    return True


def distances(generators: np.ndarray, tracked: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Compute a pattern database: the fewest moves that bring the tracked points home.

    A move takes each point from a cell to a cell, and the home of point x is cell x. `cells` are
    all cells that the tracked points can reach. The result is a uint8 array with one axis for each
    tracked point. The index on the axis is the index in `cells` of the point's current cell.
    """
    rank = np.full(generators.shape[1], -1)
    rank[cells] = np.arange(len(cells))
    # moves[m, c]: index in `cells` of the cell to which move m takes a point from the cell
    # `cells[c]`.
    moves = rank[generators[:, cells]]
    shape = (len(cells),) * len(tracked)
    table = np.full(np.prod(shape), 255, np.uint8)
    reached = np.array([np.ravel_multi_index(tuple(rank[tracked]), shape)])
    depth = 0
    while reached.size:
        table[reached] = depth
        places = np.stack(np.unravel_index(reached, shape))
        new = np.zeros(table.size, np.bool_)
        for i in range(len(moves)):
            new[np.ravel_multi_index(tuple(moves[i, place] for place in places), shape)] = True
        reached = np.flatnonzero(new & (table == 255))
        depth += 1
    return table.reshape(shape)


def contains(group: Chain, element: np.ndarray) -> bool:
    """Return whether the group contains `element`; False if `element` is no permutation."""
    points = group.transversals.shape[2]
    if sorted(element.tolist()) != list(range(points)):
        return False
    for point, size, transversal in zip(group.base, group.sizes, group.transversals, strict=True):
        reached = np.flatnonzero(transversal[:size, point] == element[point])
        if not reached.size:
            return False
        element = np.argsort(transversal[reached[0]])[element]
    return bool((element == np.arange(points)).all())


def orbits(moves: np.ndarray) -> list[np.ndarray]:
    """Return, for each orbit with more than one point, an int32 array of its points.

    An orbit is a set of points that the moves can take to one another.
    """
    label = np.arange(moves.shape[1])
    while (smallest := np.minimum(label, label[moves].min(axis=0))).tolist() != label.tolist():
        label = smallest
    found = [np.flatnonzero(label == value).astype(np.int32) for value in np.unique(label)]
    return [orbit for orbit in found if len(orbit) > 1]
