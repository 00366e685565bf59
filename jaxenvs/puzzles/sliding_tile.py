"""Sliding tile puzzles: the 8-puzzle, the 15-puzzle and larger squares.

The heuristic is Manhattan distance plus linear conflict (Hansson, Mayer and Yung 1992).
"""

import functools
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..core import bits, checks
from ..core.controls import Controls, by_name
from ..core.env import Params
from ..core.random import Key, below, hashed
from ..core.registry import register
from ..core.spaces import Box, Space
from ..core.texts import Memo, written_by_row
from . import sprites
from .puzzle import DIRECTIONS, Move, PackedPuzzle, PuzzleLevel

MAX_SIZE = 7
REWARDS = ("sparse", "dense")
_LIMIT = 20  # default time limit, in steps per cell of the board
_ROWS = Memo(lambda row: " ".join(f"{n or '.':>2}" for n in row))


@register("Puzzle-SlidingTile-3x3-v0", size=3)
@register("Puzzle-SlidingTile-4x4-v0", size=4)
@register("Puzzle-SlidingTile-5x5-v0", size=5, representative=True)
@register("Puzzle-SlidingTile-6x6-v0", size=6)
@register("Puzzle-SlidingTile-7x7-v0", size=7)
class SlidingTile(PackedPuzzle):
    """Slide tiles into the blank until they read 1, 2, 3, ... with the blank at the end.

    Actions: the blank moves 0 up, 1 right, 2 down, 3 left.
    Observation: uint8 (size, size), the number on each tile, 0 for the blank.
    Reward (field `reward`): `sparse` 1 when solved; `dense` 1 for a tile that reached its place,
        -1 for one that left it. Episode ends: when solved, or at the time limit of 20 steps per
        cell.
    State: the board in the packed form that a search stores: a few bits per cell, row by row from
        the lowest bit.
    """

    size: int = 4  # number of cells per side of the board
    # Number of random moves that make a level from the goal.
    # None: all solvable boards are equally likely.
    scramble: int | None = None
    # "sparse": 1 when the puzzle is solved.
    # "dense": 1 for each tile that reaches its place, -1 for each tile that leaves its place.
    reward: str = "sparse"

    reward_range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    legend: ClassVar[str] = "The tiles, row by row, with a dot for the blank"

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        checks.integer_field("SlidingTile", "size", self.size, 2, MAX_SIZE)
        checks.one_of("SlidingTile", "reward", self.reward, REWARDS)
        if self.scramble is not None:
            checks.integer_field("SlidingTile", "scramble", self.scramble, 0)

    @property
    def default_params(self) -> Params:
        """The time limit: 20 steps per cell."""
        return Params(max_steps_in_episode=np.int32(_LIMIT * self.size**2))

    @property
    def action_names(self) -> tuple[str, ...]:
        """Directions in which the blank moves."""
        return DIRECTIONS

    @property
    def controls(self) -> Controls:
        """Arrow keys move the blank."""
        rows = by_name(self.action_names)
        return Controls(tuple(row._replace(name=f"blank {row.name}") for row in rows))

    @property
    def inverse(self) -> np.ndarray:
        """For each direction, the index of the opposite direction."""
        return np.array([2, 3, 0, 1], np.int32)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (index, meaning) that document the values of the observation."""
        return (("`[row, column]`", "number on the tile there, 0 for the blank"),)

    @property
    def observation_space(self) -> Space:
        """Matrix of the numbers on the tiles, 0 for the blank, uint8 (size, size)."""
        return Box(0, self.size**2 - 1, (self.size, self.size), np.uint8)

    def apply(self, instance: Any, board: UInt32[Array, " words"], action: Array) -> Move:
        """Exchange the blank with the tile that lies next to it in the action's direction."""
        tables = _tables(self.size)
        blank = self._blank(board)
        row, column = blank // self.size, blank % self.size
        last = self.size - 1
        # Compute the target cell by arithmetic: a lookup in a table is a gather, for which XLA
        # would compile a separate kernel.
        room = jnp.where(action % 2 == 0, row, column)
        valid = jnp.where((action == 0) | (action == 3), room > 0, room < last)
        far = jnp.where(action % 2 == 0, self.size, 1)
        target = blank + jnp.where((action == 0) | (action == 3), -far, far)
        target = jnp.where(valid, target, blank)
        per_word = tables.per_word
        places = [(cell // per_word, cell % per_word * tables.bits) for cell in (blank, target)]
        (blank_word, blank_shift), (tile_word, tile_shift) = places
        tile = (_entry(board, tile_word) >> tile_shift.astype(jnp.uint32)) & np.uint32(tables.mask)
        index = np.arange(len(tables.goal), dtype=np.int32)
        change = jnp.where(index == blank_word, tile << blank_shift.astype(jnp.uint32), 0)
        change ^= jnp.where(index == tile_word, tile << tile_shift.astype(jnp.uint32), 0)
        return Move(board ^ change, jnp.ones((), jnp.float32), valid)

    def is_goal(self, instance: Any, board: UInt32[Array, " words"]) -> Bool[Array, ""]:
        """Return whether every tile is at its place."""
        goal = _tables(self.size).goal
        wrong = board[0] ^ goal[0]
        # Use a loop instead of a reduction, because XLA fuses the unrolled loop with the operation
        # that uses `wrong`.
        for i in range(1, len(goal)):
            wrong |= board[i] ^ goal[i]
        return wrong == 0

    def goal(self, instance: Any) -> UInt32[Array, " words"]:
        """Return the solved board."""
        return jnp.asarray(_tables(self.size).goal)

    def numbers(self, board: UInt32[Array, " words"]) -> UInt8[Array, " cells"]:
        """Return the number in each cell, row by row."""
        return bits.unpack(board, self.size**2, _tables(self.size).bits)

    def observe_board(
        self, instance: Any, board: UInt32[Array, " words"]
    ) -> UInt8[Array, "size size"]:
        """Return the matrix of the numbers on the tiles."""
        return self.numbers(board).reshape(self.size, self.size)

    def heuristic(self, instance: Any, board: UInt32[Array, " words"]) -> Float32[Array, ""]:
        """Return the Manhattan distance plus linear conflicts.

        In a linear conflict, a tile must leave its row or column to let another tile pass. Each
        such tile adds two moves.
        """
        tables, n = _tables(self.size), self.size
        at = self.numbers(board).astype(jnp.int32) + np.arange(n * n, dtype=np.int32) * (n * n)
        rows = jnp.asarray(tables.row_codes)[at].reshape(n, n).sum(axis=1, dtype=jnp.int32)
        columns = jnp.asarray(tables.column_codes)[at].reshape(n, n).sum(axis=0, dtype=jnp.int32)
        lines = jnp.concatenate([rows, columns])
        conflicts = jnp.asarray(tables.conflicts)[lines >> _MANHATTAN_BITS]
        manhattan = rows & ((1 << _MANHATTAN_BITS) - 1)
        moves = manhattan.sum(dtype=jnp.int32) + conflicts.astype(jnp.int32).sum(dtype=jnp.int32)
        return moves.astype(jnp.float32)

    def step_reward(self, instance: Any, before: Any, move: Move, solved: Array) -> Array:
        """Return 1 when solved, else 0.

        With `reward="dense"`, return instead the change in the number of tiles in their places.
        """
        if self.reward == "sparse":
            return super().step_reward(instance, before, move, solved)
        goal = self.numbers(self.goal(()))
        placed = [
            ((self.numbers(board) == goal) & (goal != 0)).sum(dtype=jnp.int32)
            for board in (before, move.board)
        ]
        return (placed[1] - placed[0]).astype(jnp.float32)

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Draw a solvable board; all are equally likely unless `scramble` is set.

        With `scramble`, make that many random moves from the goal, none of which undoes the
        previous one.
        """
        if self.scramble is not None:
            return PuzzleLevel(board=self.walk(key, (), self.goal(()), self.scramble))
        return PuzzleLevel(board=self._shuffled(key))

    def _shuffled(self, key: Key) -> UInt32[Array, " words"]:
        """Draw a uniform solvable board as a product of random exchanges.

        The permutation is even if the number of exchanges is even. If the drawn board is
        unsolvable, tiles 1 and 2 are exchanged as well, which makes it solvable.

        The number in each cell is computed independently of the other cells, by following the
        cell's index through all exchanges. XLA can therefore compile one kernel that stores no
        array of cells in memory.
        """
        tables, cells = _tables(self.size), self.size**2
        others, odd = [], jnp.zeros((), jnp.bool_)
        for last in range(1, cells):
            other = below(hashed(key, last), last + 1)
            others.append(other)
            odd ^= other != last
        # Cell of the blank, found by following number 0 through the exchanges in reverse order.
        blank = jnp.int32(0)
        for last, other in enumerate(others, 1):
            blank = _exchanged(blank, last, other)
        # A board is solvable if its parity relative to the goal equals the parity of the blank's
        # distance from the last cell, or from the first cell, which has the same parity. `odd` is
        # the parity relative to the board with number i in cell i. A cycle of all numbers turns
        # that board into the goal. The cycle consists of `cells - 1` exchanges, so `cells - 1` is
        # added to the distance.
        distance = blank // self.size + blank % self.size
        wrong = odd ^ ((distance + cells - 1) % 2 == 1)
        board = jnp.asarray(tables.filled)
        for field in range(tables.per_word):
            cell = np.arange(len(tables.goal), dtype=np.int32) * tables.per_word + field
            number = jnp.asarray(cell)
            for last in range(cells - 1, 0, -1):
                number = _exchanged(number, last, others[last - 1])
            number = jnp.where(wrong, _exchanged(number, 1, jnp.int32(2)), number)
            shifted = number.astype(jnp.uint32) << np.uint32(field * tables.bits)
            board |= jnp.where(cell < cells, shifted, np.uint32(0))
        return board

    def level(self, numbers: Any) -> PuzzleLevel:
        """Return the level with the given numbers, row by row, 0 for the blank.

        Raises `ValueError` unless each number occurs once and the board is solvable.
        """
        given = np.asarray(numbers).reshape(-1)
        cells = self.size**2
        if sorted(given.tolist()) != list(range(cells)):
            raise ValueError(
                f"{self.name}: give each of 0 (the blank) to {cells - 1} once, got {given.tolist()}"
            )
        if not _is_solvable(given, self.size):
            raise ValueError(
                f"{self.name}: this board is unsolvable: {given.tolist()} differs from every "
                "solvable board by an odd number of exchanges; exchange two tiles"
            )
        packed = bits.pack(jnp.asarray(given.astype(np.uint8)), _tables(self.size).bits)
        return PuzzleLevel(board=packed | jnp.asarray(_tables(self.size).filled))

    def read_level(self, text: str) -> PuzzleLevel:
        """Parse the numbers, row by row, with 0 or `.` for the blank.

        Raises `ValueError` for text that is not a board, and for an unsolvable board.
        """
        found = []
        for row, line in enumerate(text.splitlines(), 1):
            for word in line.replace(",", " ").split():
                if word != "." and not word.isdecimal():
                    raise ValueError(
                        f"{self.name}: line {row}: {word!r} is not the number of a tile"
                    )
                found.append(0 if word == "." else int(word))
        if len(found) != self.size**2:
            raise ValueError(
                f"{self.name}: expected {self.size**2} numbers ({self.size} rows of {self.size}), "
                f"found {len(found)}"
            )
        return self.level(found)

    def written(self, boards: np.ndarray) -> list[str]:
        """Write the numbers in rows, with a dot for the blank."""
        return written_by_row(boards, _ROWS)

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return one sprite for each number, uint8 (size * size, tile_size, tile_size, 3)."""
        return sprites.numbered_tiles(self.size, tile_size)

    def _blank(self, board: UInt32[Array, " words"]) -> Int32[Array, ""]:
        """Return the index of the blank's cell, whose bit field is the only one that is 0."""
        tables = _tables(self.size)
        low, high = np.uint32(tables.low), np.uint32(tables.high)
        cell = jnp.int32(0)
        for i in range(len(tables.goal)):
            word = board[i]
            # The highest bit of the blank's bit field; 0 if the blank is not in this word.
            zero = ~(((word & low) + low) | word) & high
            below_it = jnp.where(zero == 0, 0, lax.population_count(zero - 1)).astype(jnp.int32)
            cell += jnp.where(zero == 0, 0, below_it // tables.bits + i * tables.per_word)
        return cell


# Number of low bits of a row's code (see `_line_codes`) that store the sum of the Manhattan
# distances of the row's tiles.
_MANHATTAN_BITS = 8


class _Tables(NamedTuple):
    """Constants of a board size.

    A packed board consists of uint32 words, in which each cell has a bit field.
    """

    bits: int  # number of bits of the field of a cell in a packed board
    per_word: int  # number of cells in a uint32 word of a packed board
    mask: int  # mask of the lowest bit field in a word, which belongs to the first cell
    low: int  # mask of all bit fields in a word, without the highest bit of each field
    high: int  # mask of the highest bit of each bit field in a word
    # uint32 (words,): ones in the unused bit fields of the last word, zeros in all other bits.
    filled: np.ndarray
    goal: np.ndarray  # uint32 (words,): the solved board, packed
    # int32 (cells * numbers,): amount that a number adds to the code of its row (`row_codes`)
    # or column (`column_codes`), see `_line_codes`. The index is cell * numbers + number.
    row_codes: np.ndarray
    column_codes: np.ndarray
    # Number of moves that the linear conflicts of a row or column add to the Manhattan distance,
    # uint8 ((size + 1) ** size,). The index is the code of the row or column, shifted right by
    # `_MANHATTAN_BITS`.
    conflicts: np.ndarray


@functools.lru_cache
def _tables(n: int) -> _Tables:
    cells = n * n
    width = (cells - 1).bit_length()
    per_word = 32 // width
    count = bits.words_for(cells, width)
    high = sum(1 << (i * width + width - 1) for i in range(per_word))
    low = sum(((1 << (width - 1)) - 1) << (i * width) for i in range(per_word))
    goal, filled = np.zeros(count, np.uint32), np.zeros(count, np.uint32)
    for cell in range(count * per_word):
        field, shift = (cell + 1) % cells, np.uint32(cell % per_word * width)
        if cell >= cells:
            filled[cell // per_word] |= np.uint32((1 << width) - 1) << shift
        else:
            goal[cell // per_word] |= np.uint32(field) << shift
    return _Tables(
        width, per_word, (1 << width) - 1, low, high, filled, goal | filled,
        *_line_codes(n), _conflicts(n),
    )  # fmt: skip


def _line_codes(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what each number in each cell contributes to the codes of the cell's row and column.

    A line is a row or column, and a tile belongs to a line if its goal cell is in the line. The
    code of a line is a number in base `n + 1` with one digit per cell: 0 if the cell has no tile
    that belongs to the line, else 1 + the tile's goal position in the line.

    Codes are shifted left by `_MANHATTAN_BITS`. In row codes, the low bits are the sum of the
    Manhattan distances of the row's tiles.
    """
    cell, number = np.divmod(np.arange(n**4), n * n)
    row, column = np.divmod(cell, n)
    goal_row, goal_column = np.divmod(number - 1, n)
    tile = number > 0
    manhattan = np.where(tile, abs(row - goal_row) + abs(column - goal_column), 0)
    in_row = np.where(tile & (row == goal_row), (goal_column + 1) * (n + 1) ** column, 0)
    in_column = np.where(tile & (column == goal_column), (goal_row + 1) * (n + 1) ** row, 0)
    rows = (in_row << _MANHATTAN_BITS) | manhattan
    return rows.astype(np.int32), (in_column << _MANHATTAN_BITS).astype(np.int32)


def _conflicts(n: int) -> np.ndarray:
    """Return, for each code of a row or column, the number of moves that linear conflicts add.

    The codes are from `_line_codes`, without their lower bits. Each tile that must leave its
    line (row or column) to let other tiles pass adds two moves. The largest set of tiles that can
    stay is a longest increasing subsequence of the goal positions in the line.
    """
    codes = np.arange((n + 1) ** n)
    digits = np.stack([codes // (n + 1) ** k % (n + 1) for k in range(n)])
    # longest[d] has, for each code, the length of the longest increasing subsequence of those
    # digits of the code that are at most d. The digit of a tile is 1 + its goal position.
    longest = np.zeros((n + 1, len(codes)), np.int8)
    for digit in digits:
        for place in range(n, 0, -1):
            ends_here = np.where(digit == place, longest[place - 1] + 1, 0)
            longest[place:] = np.maximum(longest[place:], ends_here)
    return (2 * ((digits > 0).sum(axis=0) - longest[n])).astype(np.uint8)


def _is_solvable(numbers: np.ndarray, n: int) -> bool:
    """Return whether a board is solvable.

    It is solvable if the permutation of its numbers has the same parity as the blank's Manhattan
    distance from the last cell.
    """
    blank = int(np.flatnonzero(numbers == 0)[0])
    tiles = np.where(numbers == 0, n * n, numbers)
    inversions = sum(int((tiles[i] > tiles[i + 1 :]).sum()) for i in range(n * n))
    return (inversions + (n - 1 - blank // n) + (n - 1 - blank % n)) % 2 == 0


def _exchanged(number: Array, a: int, b: Int32[Array, ""]) -> Array:
    """Exchange two values: return `b` for `a`, `a` for `b`, and any other number unchanged."""
    return jnp.where(number == a, b, jnp.where(number == b, a, number))


def _entry(words: UInt32[Array, " words"], index: Int32[Array, ""]) -> UInt32[Array, ""]:
    """Return `words[index]`, computed by selections instead of a gather.

    XLA fuses selections with the operations that use the result; a gather would be a separate
    kernel.
    """
    entry = words[0]
    for i in range(1, words.shape[0]):
        entry = jnp.where(index == i, words[i], entry)
    return entry
