"""Permutation groups in NumPy: random elements without a walk, and distances of a few pieces.

The stabiliser chain is the random Schreier-Sims method (Seress, "Permutation Group Algorithms",
2003): a product of one element from each of its transversals is a uniform element of the group.
"""

from typing import NamedTuple

import numpy as np

SIFTED = 40  # successive random elements that the chain must already generate
_MOVES_OF_A_RANDOM_ELEMENT = 200


class Chain(NamedTuple):
    """A stabiliser chain: level i fixes the base points of the levels before it."""

    base: np.ndarray  # int32 (levels,), the point that a level moves
    sizes: np.ndarray  # int32 (levels,), points to which it can go
    transversals: np.ndarray  # uint8 (levels, largest size, points), x -> where x goes

    @property
    def order(self) -> int:
        """Number of elements of the group."""
        return int(np.prod([int(size) for size in self.sizes], dtype=object))


class _Level:
    """One level while the chain is built."""

    def __init__(self, point: int, points: int) -> None:
        self.point, self.generators = point, []
        self.orbit: dict[int, np.ndarray] = {point: np.arange(points)}

    def add(self, generator: np.ndarray) -> None:
        """Take one more generator and close the orbit."""
        self.generators.append(generator)
        queue = list(self.orbit)
        for at in queue:
            for move in self.generators:
                to = int(move[at])
                if to not in self.orbit:
                    self.orbit[to] = move[self.orbit[at]]
                    queue.append(to)


def chain(generators: np.ndarray, seed: int = 0) -> Chain:
    """Build the chain of the group of some permutations, each x -> where x goes.

    It is too small with a probability of about 2 ** -SIFTED; a test compares known orders.
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
    """Sift an element through the chain; add its residue and tell whether there was one."""
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
    """Least number of moves after which some points are back at their places: a pattern database.

    `cells` are the places where they can be. Returns uint8, one axis of `len(cells)` for each
    tracked point: the place (its index in `cells`) where the point is now.
    """
    rank = np.full(generators.shape[1], -1)
    rank[cells] = np.arange(len(cells))
    moves = rank[generators[:, cells]]  # (moves, cells): where the point of a cell goes
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
    """Tell whether a permutation, x -> where x goes, is in the group; -1 is no place."""
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
    """Sets of points that exchange places, without points that never move; int32 each."""
    label = np.arange(moves.shape[1])
    while (smallest := np.minimum(label, label[moves].min(axis=0))).tolist() != label.tolist():
        label = smallest
    found = [np.flatnonzero(label == value).astype(np.int32) for value in np.unique(label)]
    return [orbit for orbit in found if len(orbit) > 1]
