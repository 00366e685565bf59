"""Lights Out (Tiger Electronics 1995): press lamps until all are dark.

The order of presses does not matter, and two presses of a lamp cancel out. A solution is therefore
a set of lamps to press. Linear algebra over GF(2) finds the smallest solution (M. Anderson, T.
Feil, "Turning lights out with linear algebra", 1998).
"""

import functools
import itertools
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, UInt8, UInt32

from ..core import bits, checks
from ..core.controls import Controls, cell_names, cells
from ..core.random import Key, permutation, words
from ..core.registry import register
from ..core.spaces import Box, Space
from . import sprites
from .cells import cell_count
from .puzzle import Move, PackedPuzzle, PuzzleLevel

# Largest `size`. Up to this size, `Tables.every_quiet` has at most 256 rows.
LARGEST = 16
DARK, LIT = ".0", "O1"  # characters that `read_level` accepts; `text` writes the first of each


class Tables(NamedTuple):
    """Sets of lamps or presses as bit masks in uint32 words, one bit per lamp in reading order."""

    # uint32 (lamps, words): for each lamp to press, the set of lamps that this press switches.
    presses: np.ndarray
    # uint32 (lamps, words): row p is a set of lamps. The solution of a solvable board presses lamp
    # p if an odd number of the lamps in row p are lit.
    solution: np.ndarray
    # uint32 (nullity, words): basis of the sets of presses that change no lamp. These sets are the
    # null space of the matrix `presses` over GF(2).
    quiet: np.ndarray
    every_quiet: np.ndarray  # uint32 (2 ** nullity, words): all sets of presses that change no lamp


@register("Puzzle-LightsOut-5x5-v0", size=5)
@register("Puzzle-LightsOut-7x7-v0", size=7)
class LightsOut(PackedPuzzle):
    """Switch off all lamps; a press switches a lamp and its four neighbours.

    Actions: press the lamp `row * size + column`; always legal.
    Observation: uint8 (size, size), 1 where a lamp is lit.
    Reward: 1 when all lamps are dark. Episode ends: when all are dark, or at the time limit.
    State: the board has one bit per lamp, 1 if it is lit, row by row from the lowest bit.
    """

    size: int = 5  # number of lamps per side of the board
    # Number of random lamps that are pressed to make a level; None: each lamp with probability 1/2.
    scramble: int | None = None

    legend: ClassVar[str] = "The lamps, row by row: O is lit, a dot is dark"
    characters: ClassVar[str] = DARK[0] + LIT[0]

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        checks.integer_field("LightsOut", "size", self.size, 2, LARGEST)
        if self.scramble is not None:
            checks.integer_field("LightsOut", "scramble", self.scramble, 0, self.size**2)

    @property
    def action_names(self) -> tuple[str, ...]:
        """`row,column` of the lamp, both counted from 0."""
        return cell_names(self.size, self.size)

    @property
    def controls(self) -> Controls:
        """A click on a lamp presses it."""
        return cells(self.size, self.size, "press the lamp")

    @property
    def inverse(self) -> np.ndarray:
        """The action that undoes each press: the same press."""
        return np.arange(self.size**2, dtype=np.int32)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (index, meaning) that document the values of the observation."""
        return (("`[row, column]`", "1 where the lamp is lit, 0 where it is dark"),)

    @property
    def observation_space(self) -> Space:
        """Matrix with 1 where a lamp is lit and 0 where it is dark."""
        return Box(0, 1, (self.size, self.size), np.uint8)

    @property
    def tables(self) -> Tables:
        """Constants of this board size: what each press switches, and tables for solutions."""
        return _tables(self.size)

    def apply(self, instance: Any, board: UInt32[Array, " words"], action: Array) -> Move:
        """Press one lamp, which switches it and its neighbours."""
        pressed = board ^ jnp.asarray(self.tables.presses)[action]
        return Move(pressed, jnp.ones((), jnp.float32), jnp.ones((), jnp.bool_))

    def is_goal(self, instance: Any, board: UInt32[Array, " words"]) -> Bool[Array, ""]:
        """Return whether all lamps are dark."""
        return (board == 0).all()

    def goal(self, instance: Any) -> UInt32[Array, " words"]:
        """Return the board on which all lamps are dark."""
        return jnp.zeros((bits.words_for(self.size**2, 1),), jnp.uint32)

    def observe_board(
        self, instance: Any, board: UInt32[Array, " words"]
    ) -> UInt8[Array, "rows columns"]:
        """Return a matrix that is 1 where a lamp is lit."""
        return bits.unpack(board, self.size**2, 1).reshape(self.size, self.size)

    def heuristic(self, instance: Any, board: UInt32[Array, " words"]) -> Float32[Array, ""]:
        """Return a fifth of the number of lit lamps, rounded up: a press switches at most five."""
        return ((cell_count(board) + 4) // 5).astype(jnp.float32)

    def oracle(self, instance: Any, board: UInt32[Array, " words"]) -> Float32[Array, ""]:
        """Return the fewest presses that switch off all lamps; infinity if that is impossible."""
        tables = self.tables
        able = (_parities(board, tables.quiet) == 0).all()
        presses = bits.pack(_parities(board, tables.solution), 1)
        least = cell_count(presses ^ tables.every_quiet).min()
        return jnp.where(able, least.astype(jnp.float32), jnp.inf)

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Draw a solvable level: press random lamps, each at most once, on a dark board."""
        drawn = words(key, self.size**2)
        if self.scramble is None:
            pressed = drawn >> np.uint32(31) == 1
        else:
            pressed = permutation(drawn) < self.scramble
        presses = bits.pack(pressed.astype(jnp.uint8), 1)
        # Lamp j is lit if an odd number of the pressed lamps switch it. Row j of `tables.presses`
        # has the lamps that switch lamp j, because the matrix is symmetric.
        return PuzzleLevel(board=bits.pack(_parities(presses, self.tables.presses), 1))

    def read_level(self, text: str) -> PuzzleLevel:
        """Parse one row per line: `.` or 0 for dark, `O` or 1 for lit.

        Raises `ValueError` for another shape or character, and for an unsolvable board.
        """
        lines = text.strip().splitlines()
        if len(lines) != self.size:
            raise ValueError(f"{self.name}: expected {self.size} lines, got {len(lines)}")
        lamps = []
        for number, line in enumerate(lines, start=1):
            row = line.strip()
            if len(row) != self.size or set(row) - set(DARK + LIT):
                raise ValueError(
                    f"{self.name}: line {number} is {row!r}; it must be {self.size} of "
                    f"{DARK[0]!r} (dark) and {LIT[0]!r} (lit)"
                )
            lamps += [character in LIT for character in row]
        board = _packed(np.array([lamps]))[0]
        if np.isinf(self.oracle((), jnp.asarray(board))):
            raise ValueError(
                f"{self.name}: this board is unsolvable; one in "
                f"{len(self.tables.every_quiet)} boards of this size can be solved"
            )
        return PuzzleLevel(board=jnp.asarray(board))

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return sprites of a dark and a lit lamp, uint8 (2, tile_size, tile_size, 3)."""
        return sprites.lights(tile_size)


def _parities(board: UInt32[Array, " words"], sets: np.ndarray) -> UInt8[Array, " sets"]:
    """Return, for each set of bits, 1 if an odd number of its bits are 1 in the board, else 0."""
    return (cell_count(board & sets) & 1).astype(jnp.uint8)


@functools.lru_cache
def _tables(size: int) -> Tables:
    row, column = np.divmod(np.arange(size**2), size)
    steps = abs(row[:, None] - row) + abs(column[:, None] - column)
    presses = steps <= 1
    solution, quiet = _solved(presses)
    coins = np.array(list(itertools.product((0, 1), repeat=len(quiet))), np.int64)
    every = coins @ quiet % 2
    return Tables(_packed(presses), _packed(solution), _packed(quiet), _packed(every))


def _solved(presses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve `presses @ x = lamps` over GF(2) for all right-hand sides by Gauss-Jordan elimination.

    Returns a matrix that maps the lit lamps of a solvable board to a solution, and a basis of the
    null space. The elimination gives a basis of the left null space, which equals the null space,
    because `presses` is symmetric.
    """
    count = len(presses)
    rows = np.concatenate([presses, np.eye(count, dtype=bool)], axis=1)
    pivots: list[int] = []
    for column in range(count):
        rank = len(pivots)
        below = np.flatnonzero(rows[rank:, column])
        if below.size:
            first = rank + below[0]
            rows[[rank, first]] = rows[[first, rank]]
            others = rows[:, column].copy()
            others[rank] = False
            rows[others] ^= rows[rank]
            pivots.append(column)
    solution = np.zeros((count, count), bool)
    solution[pivots] = rows[: len(pivots), count:]
    return solution, rows[len(pivots) :, count:]


def _packed(sets: np.ndarray) -> np.ndarray:
    """Pack each row of a matrix of 0 and 1 into uint32 words; return an array (rows, words).

    `bits.pack` packs JAX arrays in the same encoding.
    """
    count, size = sets.shape
    padded = np.pad(sets.astype(np.uint32), ((0, 0), (0, -size % 32)))
    in_words = padded.reshape(count, bits.words_for(size, 1), 32)
    return np.bitwise_or.reduce(in_words << np.arange(32, dtype=np.uint32), axis=2)
