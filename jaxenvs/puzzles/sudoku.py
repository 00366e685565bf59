"""Sudoku: place digits so that no row, column or 3x3 box contains a digit twice.

The rules are as in Jumanji 1.1 `Sudoku-v0`. Jumanji reads levels from a file; here they are
generated. Random symmetries of Sudoku transform a fixed full grid, and then random cells are
erased. Every level therefore has at least one solution. A level with many empty cells may have
several; any full grid that obeys the rules is a goal.
"""

import functools
import operator
import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..core import bits, checks
from ..core.controls import Controls, Place, Pointing, keyed, pointed
from ..core.env import Ending
from ..core.random import Key, permutation, words
from ..core.registry import register
from ..core.spaces import Box, Space
from ..core.texts import pairs
from . import sprites
from .puzzle import Move, Predecessors, Puzzle, PuzzleLevel, PuzzleState

CELLS = 81
ALL = np.uint32(0x1FF)  # bit mask of all nine digits
LINES = np.arange(9, dtype=np.int32)
BOX_START = LINES // 3 * 3
# A valid full grid of the digits 0 to 8. Row r is 0, 1, ... 8, rotated to the left by
# 3 * (r % 3) + r // 3 cells.
BASE = ((3 * (LINES % 3) + LINES // 3)[:, None] + LINES[None, :]) % 9
# Offset of each cell's sprite index: 19 in every other 3x3 box, else 0. The sprites from 19 to 37
# have another background colour.
GROUND = (BOX_START[:, None] + BOX_START[None, :]) // 3 % 2 * 19

Board = UInt8[Array, "9 9"]  # digits, 0 in an empty cell


@register("Puzzle-Sudoku-v0")
@register("Puzzle-Sudoku-Guided-v0", guided=True)
class Sudoku(Puzzle):
    """Fill the 9x9 grid so that no row, column or 3x3 box has a digit twice; placed digits stay.

    Normally an action chooses a cell and a digit. With the field `guided` the rules choose the
    cell: the first empty one with the fewest candidates. A board then has at most 9 legal actions
    instead of hundreds, and the same solutions, so use this variant for search.

    Actions: 81 * row + 9 * column + digit - 1; guided: digit - 1.
    Observation: uint8 (9, 9), the digits, 0 in an empty cell.
    Reward: 1 when the grid is full.
    Episode ends: when the grid is full, when no digit can be placed, or at the time limit.
    State: the board is the same array as the observation. The instance (the constant part), bool
        (9, 9), is true in cells whose digit was given at the start.
    """

    blanks: int = 40  # number of initially empty cells
    guided: bool = False  # whether the rules choose the cell, and an action chooses only the digit

    legend: ClassVar[str] = "The grid, row by row, with dots for empty cells"
    characters: ClassVar[str] = ".123456789"

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        checks.integer_field("Sudoku", "blanks", self.blanks, 1, CELLS)
        checks.one_of("Sudoku", "guided", self.guided, (False, True))

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (index, meaning) that document the values of the observation."""
        return (("`[row, column]`", "its digit, given or placed; 0 where it is empty"),)

    @property
    def observation_space(self) -> Space:
        """Matrix of the digits in the cells, 0 in an empty cell, uint8 (9, 9)."""
        return Box(0, 9, (9, 9), np.uint8)

    @property
    def action_names(self) -> tuple[str, ...]:
        """`r1c1=1`, ..., `r9c9=9`; guided: `1`, ..., `9`."""
        digits = tuple(str(digit) for digit in range(1, 10))
        if self.guided:
            return digits
        cells = [f"r{row}c{column}" for row in digits for column in digits]
        return tuple(f"{cell}={digit}" for cell in cells for digit in digits)

    @property
    def controls(self) -> Controls:
        """Digit keys write a digit at the cursor.

        With `guided` there is no cursor: the digit is written into the cell that the rules choose.
        """
        if self.guided:
            return Controls(keyed(*((digit, digit) for digit in self.action_names)))

        def written(state: Any, cell: Place, digit: int) -> int:
            return 81 * cell[0] + 9 * cell[1] + digit - 1

        cells = Pointing(9, 9, written, "write the digit", writes=True)
        return pointed(self.action_names, cells)

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Draw a full grid and erase `blanks` cells chosen uniformly at random."""
        drawn = words(key, CELLS + 9 + 2 * 12 + 1)
        cells, digits, rows, columns, last = jnp.split(drawn, (81, 90, 102, 114))
        rows, columns = _shuffled_lines(rows), _shuffled_lines(columns)
        grid = jnp.asarray(BASE)[rows[:, None], columns[None, :]]
        grid = jnp.where(last[0] >> np.uint32(31) != 0, grid.T, grid)
        digit = (1 + permutation(digits)).astype(jnp.uint8)[grid]
        clues = (permutation(cells) >= self.blanks).reshape(9, 9)
        return PuzzleLevel(board=jnp.where(clues, digit, jnp.uint8(0)), instance=clues)

    def apply(self, instance: Bool[Array, "9 9"], board: Board, action: Int32[Array, ""]) -> Move:
        """Place a digit in an empty cell, unless its row, column or box contains the digit."""
        candidates = _candidates(board)
        cell = _tightest(board, candidates) if self.guided else action // 9
        here = (np.arange(CELLS, dtype=np.int32) == cell).reshape(9, 9)
        digit = action % 9
        valid = (candidates.reshape(-1)[cell] >> digit.astype(jnp.uint32)) & 1 != 0
        placed = jnp.where(here & valid, (digit + 1).astype(jnp.uint8), board)
        return Move(placed, jnp.ones((), jnp.float32), valid)

    def action_mask(self, state: PuzzleState, params: Any = None) -> Bool[Array, " actions"]:
        """Return for each action whether its digit can be placed."""
        candidates = _candidates(state.board)
        if self.guided:
            candidates = candidates.reshape(-1)[_tightest(state.board, candidates)]
        digits = np.arange(9, dtype=np.uint32)
        return ((candidates[..., None] >> digits) & 1 != 0).reshape(-1)

    def is_goal(self, instance: Bool[Array, "9 9"], board: Board) -> Bool[Array, ""]:
        """Return whether every row, column and box has all digits."""
        complete = [used == ALL for used in _used(board)]
        return functools.reduce(operator.and_, [part.all() for part in complete])

    def is_dead(self, instance: Bool[Array, "9 9"], board: Board) -> Bool[Array, ""]:
        """Return whether a cell is empty but no action is valid."""
        candidates = _candidates(board)
        if self.guided:
            candidates = candidates.reshape(-1)[_tightest(board, candidates)]
        return (board == 0).any() & (candidates == 0).all()

    def predecessors(self, instance: Bool[Array, "9 9"], board: Board) -> Predecessors:
        """Return the boards from which an action leads to `board`: each lacks one placed digit.

        With `guided`, such a board is valid only if its first empty cell with the fewest candidates
        is the cell of the missing digit.
        """
        cells = jnp.arange(CELLS, dtype=jnp.int32)
        digits = board.reshape(-1).astype(jnp.int32) - 1
        actions = jnp.maximum(digits if self.guided else 9 * cells + digits, 0)

        def erased(cell: Array, action: Array) -> tuple[Array, Array]:
            here = (np.arange(CELLS, dtype=np.int32) == cell).reshape(9, 9)
            before = jnp.where(here, jnp.uint8(0), board)
            move = self.apply(instance, before, action)
            return before, move.valid & (move.board == board).all()

        before, valid = jax.vmap(erased)(cells, actions)
        valid = valid & ~instance.reshape(-1) & (digits >= 0)
        return Predecessors(before, actions, jnp.ones((CELLS,), jnp.float32), valid)

    def heuristic(self, instance: Bool[Array, "9 9"], board: Board) -> Float32[Array, ""]:
        """Return the number of empty cells, which is the exact cost if the board has a solution."""
        return (board == 0).sum(dtype=jnp.int32).astype(jnp.float32)

    def pack(self, board: Board) -> UInt32[Array, "11"]:
        """Encode the board in uint32 words, with four bits per cell."""
        return bits.pack(board.reshape(-1), 4)

    def unpack(self, words: UInt32[Array, "11"]) -> Board:
        """Return the board that `pack` encoded in these words."""
        return bits.unpack(words, CELLS, 4).reshape(9, 9)

    def observe_board(self, instance: Bool[Array, "9 9"], board: Board) -> Board:
        """Return the board: the digit in each cell, 0 in an empty cell."""
        return board

    def read_level(self, text: str) -> PuzzleLevel:
        """Parse nine lines of nine cells, or one line of 81: digits, `.` or `0` for empty cells.

        Skips spaces, `|`, blank lines and lines of `-` and `+`. Raises `ValueError` for another
        shape or character, and for a digit that occurs twice in a row, column or box.
        """
        board = _read(text)
        clues = jnp.asarray(board != 0)
        return PuzzleLevel(board=jnp.asarray(board, jnp.uint8), instance=clues)

    def ending(self, level: PuzzleLevel) -> Ending:
        """Return a level with one empty cell, and the action that fills this cell.

        The missing digit is 1.
        """
        line = np.arange(9)
        grid = (3 * (line % 3) + line // 3)[:, None] + line
        board = jnp.asarray((grid % 9 + 1).astype(np.uint8)).at[0, 0].set(0)
        return Ending(level.replace(board=board, instance=board != 0), (0,))

    def text_inputs(self, state: PuzzleState, params: Any = None) -> tuple[Array, ...]:
        """Return the observation; with `guided`, also the cell that the rules choose."""
        obs = self.observe_board(state.instance, state.board)
        return (obs, _tightest(state.board, _candidates(state.board))) if self.guided else (obs,)

    def texts(self, inputs: tuple[np.ndarray, ...], detail: str = "full") -> list[str]:
        """Return the grids as text; with `guided`, also the cell that the rules choose."""
        grids = super().texts(inputs[0], detail)
        if not self.guided:
            return grids
        return [f"{grid}\n{_next(cell)}" for grid, cell in pairs(grids, inputs[1].tolist())]

    def text_changes(self, old: tuple[np.ndarray, ...], new: tuple[np.ndarray, ...]) -> list[str]:
        """Describe changes of the grid.

        With `guided`, also name the cell that must be filled next, if this cell has changed.
        """
        changes = super().text_changes(old[0], new[0])
        if not self.guided:
            return changes
        both = zip(changes, old[1].tolist(), new[1].tolist(), strict=True)
        return [text if one == cell else f"{text}\n{_next(cell)}" for text, one, cell in both]

    def tiles(self, state: PuzzleState) -> Int32[Array, "9 9"]:
        """Return the sprite index of each cell: 0 empty, 1 to 9 placed, 10 to 18 given digits.

        In every other 3x3 box the index is 19 higher; these sprites have another background.
        """
        given = 9 * state.instance.astype(jnp.int32)
        return state.board.astype(jnp.int32) + given + GROUND

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return sprites in the order of `tiles`, uint8 (38, tile_size, tile_size, 3)."""
        return sprites.sudoku(tile_size)


def _next(cell: int) -> str:
    return f"The next digit goes into row {cell // 9 + 1}, column {cell % 9 + 1}."


def _shuffled_lines(drawn: UInt32[Array, "12"]) -> Int32[Array, "9"]:
    """Return a random order of the nine rows, or columns, that keeps a full grid valid.

    The lines (rows or columns) form three bands of three adjacent lines. The order permutes the
    bands, and the lines within each band.
    """
    bands = permutation(drawn[:3])
    inside = jax.vmap(permutation)(drawn[3:].reshape(3, 3))
    return (3 * bands[:, None] + inside).reshape(-1)


def _used(board: Board) -> tuple[UInt32[Array, "9"], UInt32[Array, "9"], UInt32[Array, "3 3"]]:
    """Return a bit mask of the digits in each row, in each column and in each box.

    The masks are computed by bitwise operations on slices, which XLA fuses with the operations that
    use the masks. XLA would not fuse a reduction.
    """
    bits = (jnp.uint32(1) << board.astype(jnp.uint32)) >> np.uint32(1)
    boxes = bits.reshape(3, 3, 3, 3)
    return (
        _either(bits[:, i] for i in range(9)),
        _either(bits[i] for i in range(9)),
        _either(boxes[:, i, :, j] for i in range(3) for j in range(3)),
    )


def _either(parts: Iterable[Array]) -> Array:
    return functools.reduce(operator.or_, parts)


def _candidates(board: Board) -> UInt32[Array, "9 9"]:
    """Return a bit mask of the digits that can be placed in each cell, 0 in filled cells."""
    rows, columns, boxes = _used(board)
    box = jnp.broadcast_to(boxes[:, None, :, None], (3, 3, 3, 3)).reshape(9, 9)
    used = rows[:, None] | columns[None, :] | box
    return jnp.where(board == 0, ~used & ALL, jnp.uint32(0))


def _tightest(board: Board, candidates: UInt32[Array, "9 9"]) -> Int32[Array, ""]:
    """Return the index of the first empty cell among those with the fewest candidates."""
    count = jax.lax.population_count(candidates).astype(jnp.int32)
    order = jnp.where(board == 0, count, 10).reshape(-1) * 128 + np.arange(CELLS, dtype=np.int32)
    return order.min() % 128


def _read(text: str) -> np.ndarray:
    """Parse the text of a level, and return its digits, uint8 (9, 9), with 0 in empty cells."""
    found = list(_lines(text))
    if len(found) == 1 and len(found[0][1]) == CELLS:
        number, cells = found[0]
        found = [(number, cells[i : i + 9]) for i in range(0, CELLS, 9)]
    for number, cells in found:
        if len(cells) != 9:
            raise ValueError(f"Sudoku: line {number} has {len(cells)} cells, expected 9")
    if len(found) != 9:
        raise ValueError(f"Sudoku: the text has {len(found)} lines of cells, expected 9")
    board = np.array([[int(cell) for cell in cells] for _, cells in found], np.uint8)
    _check_clashes(board, [number for number, _ in found])
    return board


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, cells) of each line that has cells; empty cells are 0."""
    for number, line in enumerate(text.splitlines(), 1):
        cells = re.sub(r"[\s|]", "", line)
        if not set(cells) - set("-+"):
            continue
        for character in cells:
            if character not in ".0123456789":
                raise ValueError(
                    f"Sudoku: line {number} has {character!r}; write a digit or . in each cell"
                )
        yield number, cells.replace(".", "0")


def _check_clashes(board: np.ndarray, numbers: list[int]) -> None:
    """Raise `ValueError` if a digit occurs twice in a row, column or 3x3 box."""
    for row, column in zip(*np.nonzero(board), strict=True):
        units = {
            "row": board[row],
            "column": board[:, column],
            "box": board[BOX_START[row] :, BOX_START[column] :][:3, :3],
        }
        for name, unit in units.items():
            if (unit == board[row, column]).sum() > 1:
                raise ValueError(
                    f"Sudoku: line {numbers[row]}, column {column + 1}: the digit "
                    f"{board[row, column]} occurs twice in its {name}"
                )
