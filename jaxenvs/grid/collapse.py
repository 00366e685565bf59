"""Wave function collapse: fill a grid with patterns so that neighbouring patterns fit.

Each cell has a set of patterns that are still possible. Each iteration reduces the cell with the
fewest patterns to one random pattern, and then removes from all cells the patterns that no longer
fit their neighbours. For the same random choices, the result is the same as in MiniGrid 3.2
(`wfclogic/solver.py`).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from ..core.bits import any_of
from ..core.carries import varying_like
from ..core.platforms import by_platform
from ..core.random import Key, below, hashed

# Maximum number of attempts per level; an attempt ends with a complete grid or a contradiction.
ATTEMPTS = 1000
RANK_BITS = 12  # number of bits of a cell's rank in the random order of cells
NOWHERE = np.int32(1 << 30)  # priority or cell index that stands for "no cell"
_ALL, _NONE = np.uint32(0xFFFFFFFF), np.uint32(0)

# The possible patterns of each cell: bit p % 32 of word p // 32 is set if pattern p is possible.
Wave = tuple[UInt32[Array, "rows columns"], ...]


class Rule(NamedTuple):
    """Rule for neighbouring cells: patterns `here` fit if the neighbour has a pattern of `there`.

    Both fields are sets of patterns: tuples of uint32 words with one bit per pattern, as in a
    `Wave`.
    """

    there: tuple[int, ...]
    here: tuple[int, ...]


class Catalogue(NamedTuple):
    """Patterns that occur in an image, their weights, and the rules for neighbouring patterns.

    Module `wfc` makes one catalogue for each of MiniGrid's presets. A preset has one image.
    """

    patterns: np.ndarray  # uint8 (patterns, width, width): 0 wall, 1 and 2 free
    # int32 (patterns,): number of the image's orientations in which the pattern occurs, 1 to 4.
    weights: np.ndarray
    # (axis, step along this axis to the neighbour, rules) for each of the four sides of a cell.
    sides: tuple[tuple[int, int, tuple[Rule, ...]], ...]
    wraps: bool

    @property
    def everything(self) -> tuple[int, ...]:
        """The set of all patterns."""
        return _as_set(np.ones(len(self.patterns), bool))

    @property
    def walls(self) -> tuple[int, ...]:
        """The set of patterns whose upper left cell is a wall."""
        return _as_set(self.patterns[:, 0, 0] == 0)


def rules(own: np.ndarray, facing: np.ndarray) -> tuple[Rule, ...]:
    """Return the rules for one side of a cell: which patterns fit next to which.

    Patterns of neighbouring cells overlap and must have equal pixels in the overlap.

    own: for each pattern, its pixels in the overlap with the neighbour at this side.
    facing: for each pattern, its pixels in the overlap if the pattern is in the neighbouring cell.
    """
    own, facing = own.reshape(len(own), -1), facing.reshape(len(facing), -1)
    strips = np.unique(own, axis=0)
    sets = [[_as_set((all_ == strip).all(axis=1)) for all_ in (facing, own)] for strip in strips]
    return tuple(Rule(there, here) for there, here in sets)


def _as_set(mask: np.ndarray) -> tuple[int, ...]:
    """Return the set of patterns that `mask` selects, as words with one bit per pattern."""
    bits = np.pad(mask, (0, -len(mask) % 32)).reshape(-1, 32)
    return tuple(int(word) for word in (bits * (1 << np.arange(32))).sum(axis=1))


def swept(book: Catalogue, wave: Wave) -> Wave:
    """Remove from each cell the patterns that fit none of the possible patterns of a neighbour."""
    near = [
        tuple(
            _shifted(word, axis, step, full, book.wraps)
            for word, full in zip(wave, book.everything, strict=True)
        )
        for axis, step, _ in book.sides
    ]
    # On a CPU, XLA computes the sweep in half the time if it first stores the shifted words.
    near = by_platform(near, cpu=jax.lax.optimization_barrier, default=lambda words: words)
    for neighbour, (_, _, rules) in zip(near, book.sides, strict=True):
        fits = [jnp.where(meets(neighbour, rule.there), _ALL, _NONE) for rule in rules]
        wave = tuple(
            word
            & any_of(fit & np.uint32(rule.here[i]) for fit, rule in zip(fits, rules, strict=True))
            for i, word in enumerate(wave)
        )
    return wave


def meets(wave: Wave, patterns: tuple[int, ...]) -> Bool[Array, "rows columns"]:
    """Return a mask of the cells in which at least one of `patterns` is possible."""
    return any_of(word & np.uint32(w) for word, w in zip(wave, patterns, strict=True)) != 0


def _shifted(
    word: UInt32[Array, "rows columns"], axis: int, step: int, full: int, wraps: bool
) -> UInt32[Array, "rows columns"]:
    """Return for each cell the word of its neighbour, the cell `step` cells away along `axis`.

    If the neighbour is outside the grid, return the word of the cell at the opposite edge if
    `wraps`, else `full`.
    """
    rolled = jnp.roll(word, -step, axis)
    if wraps:
        return rolled
    edge = np.zeros(word.shape, bool)
    edge[(slice(None),) * axis + (-1 if step > 0 else 0,)] = True
    return jnp.where(edge, np.uint32(full), rolled)


def counted(wave: Wave) -> Int32[Array, "rows columns"]:
    """Return the number of possible patterns of each cell."""
    return sum(jax.lax.population_count(word).astype(jnp.int32) for word in wave)  # type: ignore[return-value]


def priorities(wave: Wave, rank: Int32[Array, "rows columns"]) -> Int32[Array, "rows columns"]:
    """Return the priority of each cell, int32; the cell with the smallest value is reduced next.

    Cells are ordered by the number of their possible patterns, then by `rank`. The priority is
    `NOWHERE` for a cell with at most one possible pattern.
    """
    count = counted(wave)
    return jnp.where(count > 1, (count << RANK_BITS) + rank, NOWHERE)


def drawn(book: Catalogue, possible: list[Array], word: UInt32[Array, ""]) -> list[Array]:
    """Draw one of a cell's possible patterns by weight; return it as a set with one pattern.

    possible: the words of the cell's set of patterns.
    word: a random uint32.
    """
    number = np.arange(len(book.weights), dtype=np.int32)
    member = jnp.stack(possible)[number // 32] >> (number % 32).astype(np.uint32) & 1
    weights = member.astype(jnp.int32) * book.weights
    upto = jnp.where(np.tri(len(number), dtype=bool), weights, 0).sum(axis=1, dtype=jnp.int32)
    chosen = (upto <= below(word, upto[-1])).sum(dtype=jnp.int32)
    bit = jnp.uint32(1) << (chosen % 32).astype(jnp.uint32)
    return [jnp.where(chosen // 32 == i, bit, jnp.uint32(0)) for i in range(len(possible))]


class Progress(NamedTuple):
    """Carry of the loop in `collapsed`, which makes one level.

    `sweeps` counts the iterations, and `contradictions` counts the failed attempts.
    """

    wave: Wave
    sweeps: Int32[Array, ""]
    contradictions: Int32[Array, ""]
    complete: Bool[Array, ""]  # whether every cell is reduced to one pattern


def collapsed(book: Catalogue, rank: Int32[Array, "rows columns"], key: Key) -> Progress:
    """Reduce every cell to one pattern, in up to `ATTEMPTS` attempts.

    `rank` is a random order of all cells, the same in all attempts. It decides between cells with
    equally many possible patterns.
    """
    full = tuple(jnp.full(rank.shape, word, jnp.uint32) for word in book.everything)
    start = Progress(full, jnp.int32(0), jnp.int32(0), jnp.zeros((), jnp.bool_))
    return jax.lax.while_loop(
        lambda at: ~at.complete & (at.contradictions < ATTEMPTS),
        functools.partial(_advanced, book, rank, key),
        jax.tree.map(lambda leaf: varying_like(key, leaf), start),
    )


def _advanced(
    book: Catalogue, rank: Int32[Array, "rows columns"], key: Key, at: Progress
) -> Progress:
    """Sweep once; if the sweep removes no pattern, reduce the next cell to one random pattern.

    If a cell has no possible pattern, start a new attempt. One loop over sweeps makes a whole
    level. Under `vmap`, the levels of a batch therefore wait for each other only at the end of the
    loop; with an inner loop for each cell, they would wait at every cell.
    """
    wave = swept(book, at.wave)
    stable = jnp.array([(a == b).all() for a, b in zip(wave, at.wave, strict=True)]).all()
    fails = (counted(wave) == 0).any()
    priority = priorities(wave, rank)
    first = priority.min()
    here = priority == first
    possible = [jnp.where(here, word, jnp.uint32(0)).max() for word in wave]
    pattern = drawn(book, possible, hashed(key, at.sweeps))
    reduced = here & stable & (first < NOWHERE)
    wave = tuple(
        jnp.where(fails, np.uint32(full), jnp.where(reduced, bits, word))
        for word, bits, full in zip(wave, pattern, book.everything, strict=True)
    )
    complete = stable & (first == NOWHERE) & ~fails
    return Progress(wave, at.sweeps + 1, at.contradictions + fails.astype(jnp.int32), complete)
