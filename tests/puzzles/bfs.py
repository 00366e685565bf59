"""Breadth-first search over the `neighbours` of a puzzle, in NumPy, as a reference for tests.

All batches of boards have the same size, so the search compiles once per puzzle. A search of four
million states takes about ten seconds.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

BATCH = 1 << 13


class Distances(NamedTuple):
    """All boards that the search found, the nearest first."""

    words: np.ndarray  # packed boards, uint32 (boards, words), in the format of `Puzzle.pack`
    distance: np.ndarray  # int32 (boards,): number of actions from the start

    @property
    def counts(self) -> list[int]:
        """Return the number of boards at each distance."""
        return np.bincount(self.distance).tolist()

    def of(self, words: np.ndarray) -> np.ndarray:
        """Map boards, uint32 (boards, words), to distances, int32 (boards,), or -1 if not found."""
        known = keys(self.words)
        order = np.argsort(known)
        wanted = keys(words)
        at = order[np.searchsorted(known, wanted, sorter=order).clip(max=len(order) - 1)]
        return np.where(known[at] == wanted, self.distance[at], -1).astype(np.int32)


def distances(
    puzzle: Any,
    instance: Any,
    board: Any,
    limit: int | None = None,
    batch: int = BATCH,
    canonical: Callable[[np.ndarray], np.ndarray] = lambda words: words,
) -> Distances:
    """Find every board reachable from `board`, or only those at most `limit` actions away.

    The distance of a board is the number of actions from `board` to it. If every action has an
    inverse, it is also the distance back. `canonical` maps packed boards to one representative per
    symmetry class; the search then visits only representatives.
    """
    expand = _expand(puzzle, batch)
    frontier = np.asarray(_packed(puzzle)(board))[None]
    levels, visited = [frontier], keys(frontier)
    while len(frontier) and (limit is None or len(levels) <= limit):
        parts = []
        for words, count in _batches(frontier, batch):
            reached, valid = map(np.asarray, expand(instance, words))
            parts.append(unique(canonical(reached[:count][valid[:count]]))[1])
        found, frontier = unique(np.concatenate(parts))
        new = ~_among(found, visited)
        found, frontier = found[new], frontier[new]
        # A stable sort merges the two sorted arrays in linear time.
        visited = np.sort(np.concatenate([visited, found]), kind="stable")
        levels.append(frontier)
    levels = [level for level in levels if len(level)]
    numbers = np.repeat(np.arange(len(levels), dtype=np.int32), [len(level) for level in levels])
    return Distances(np.concatenate(levels), numbers)


def each(
    puzzle: Any, function: Callable, words: np.ndarray, instance: Any = (), batch: int = BATCH
) -> Any:
    """Map `function(instance, board)` over packed boards; return a pytree of NumPy arrays."""
    mapped = _mapped(puzzle, function)
    parts = []
    for part, count in _batches(words, batch):
        result = mapped(instance, part)
        parts.append(jax.tree.map(lambda leaf, real=count: np.asarray(leaf)[:real], result))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def keys(words: np.ndarray) -> np.ndarray:
    """Return a uint64 per board: its words, or a hash if it has more than two words.

    Boards with equal hashes would count as the same board. Among four million different boards,
    equal hashes have a probability of 4e-7.
    """
    key = np.zeros(len(words), np.uint64)
    for i in range(words.shape[1]):
        if i >= 2:
            key = (key ^ (key >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
            key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        else:
            key = key << np.uint64(32)
        key = key ^ words[:, i].astype(np.uint64)
    return key


def unique(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the unique keys of boards in ascending order, and the boards that have these keys."""
    found, first = np.unique(keys(words), return_index=True)
    return found, words[first]


def _among(wanted: np.ndarray, known: np.ndarray) -> np.ndarray:
    at = np.searchsorted(known, wanted).clip(max=len(known) - 1)
    return known[at] == wanted


def _batches(words: np.ndarray, batch: int) -> Any:
    """Yield (words, count) for each batch of `batch` boards; `count` is the number of real boards.

    The last batch is padded with copies of its first board.
    """
    for start in range(0, len(words), batch):
        part = words[start : start + batch]
        padded = np.concatenate([part, np.repeat(part[:1], batch - len(part), axis=0)])
        yield padded, len(part)


@functools.lru_cache(maxsize=64)
def _packed(puzzle: Any) -> Callable:
    return jax.jit(puzzle.pack)


@functools.lru_cache(maxsize=64)
def _expand(puzzle: Any, batch: int) -> Callable:
    def expand(instance: Any, words: Any) -> Any:
        moves = puzzle.neighbours(instance, puzzle.unpack(words))
        return jax.vmap(puzzle.pack)(moves.board), moves.valid

    return jax.jit(jax.vmap(expand, in_axes=(None, 0)))


@functools.lru_cache(maxsize=64)
def _mapped(puzzle: Any, function: Callable) -> Callable:
    def one(instance: Any, words: Any) -> Any:
        return function(instance, puzzle.unpack(words))

    return jax.jit(jax.vmap(one, in_axes=(None, 0)))
