"""2048 (G. Cirulli 2014): merge equal tiles by sliding; after every move a random tile appears.

The board is four uint32, one per row, with a byte per cell: exact up to 131072, the largest
possible tile (half a byte per cell would end at 32768). A move is bit arithmetic on the rows; a
lookup table of all 65,536 rows takes three times as long on a CPU.

For planners, moves and chance outcomes are separate: `afterstate` and `outcomes`.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..core.env import Ending, Env, Params, State, Transition
from ..core.facts import drawn
from ..core.random import Key, below, hashed, multiply_high, words
from ..core.registry import register
from ..core.spaces import Box, Discrete, Space
from ..core.struct import struct
from . import sprites
from .puzzle import DIRECTIONS, PuzzleLevel

LARGEST = 17  # exponent of 131072, the largest tile that 16 cells and new tiles of 4 can make
MERGED = np.uint32(0x80)  # flag in the byte of a tile that the current move has merged
ONES = np.uint32(0x01010101)
BYTE = np.uint32(0xFF)
FOUR = np.uint32(0.1 * 2**32)  # a new tile is a 4 if a uniform uint32 is below this

Rows = UInt32[Array, "4"]  # one uint32 per row of the board, column 0 in the lowest byte
Board = UInt8[Array, "4 4"]  # exponents, 0 in an empty cell


class Afterstate(NamedTuple):
    """The board after a move and before the new tile."""

    board: Board
    reward: Float32[Array, ""]  # sum of the merged tiles
    valid: Bool[Array, ""]  # whether the move changes the board; if not, no tile appears


class Outcomes(NamedTuple):
    """The boards after the new tile: a 2 in each of the 16 cells, then a 4 in each.

    For a cell that is not empty, the board is unchanged and has probability 0.
    """

    board: UInt8[Array, "32 4 4"]
    probability: Float32[Array, "32"]  # sums to 1; 0 if the board is full (not after a valid move)


@struct
class Game2048State(State):
    """Time step and board."""

    rows: UInt32[Array, "4"]  # see `Rows`


@register("Puzzle-2048-v0")
class Game2048(Env):
    """Slide all tiles in one direction; equal neighbours merge.

    Tiles merge in order from the wall towards which they slide, each at most once per move.

    After a move that changes the board, a 2 (with probability 0.1 a 4) appears in an empty cell; an
    episode begins with two tiles. A move that changes nothing costs a step.

    Actions: 0 up, 1 right, 2 down, 3 left.
    Observation: uint8 (4, 4), 0 in an empty cell, else the exponent: 1 for a 2, 11 for a 2048.
    Reward: the sum of the merged tiles.
    Episode ends: when no move changes the board. The time limit exceeds the longest game.
    """

    reset_source: ClassVar[str] = "auto"
    fully_observed: ClassVar[bool] = True
    # Upper bound of the reward: as if one move merged all tiles of the fullest board, 4 to 131072.
    reward_range: ClassVar[tuple[float, float]] = (0.0, 2.0 ** (LARGEST + 1) - 4)

    @property
    def default_params(self) -> Params:
        """Limit above the longest game: a move adds at least 2, and tiles sum to at most 262140."""
        return Params(max_steps_in_episode=np.int32(2**LARGEST))

    @property
    def action_space(self) -> Space:
        """Four directions."""
        return Discrete(4)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Directions of sliding."""
        return DIRECTIONS

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Meaning of the values of a cell of the observation."""
        return (("`[row, column]`", "0 in an empty cell, else n where the tile is 2**n"),)

    @property
    def observation_space(self) -> Space:
        """Matrix of exponents."""
        return Box(0, LARGEST, (4, 4), np.uint8)

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Draw a board with two tiles."""
        drawn = words(key, 2)
        first, second = below(drawn[0], 16), below(drawn[1], 15)
        second = jnp.where(second < first, second, second + 1)
        cells = np.arange(16, dtype=np.int32).reshape(4, 4)
        board = jnp.where(cells == first, _tile(drawn[0], 16), jnp.uint32(0))
        board = jnp.where(cells == second, _tile(drawn[1], 15), board)
        return PuzzleLevel(board=board.astype(jnp.uint8))

    def reset_state(self, key: Key, level: PuzzleLevel, params: Any) -> Game2048State:
        """Return the state with the level's board."""
        return Game2048State(time=jnp.int32(0), rows=_rows(level.board))

    def step_state(self, key: Key, state: Game2048State, action: Array, params: Any) -> Transition:
        """Move, and add a random tile if the board has changed."""
        rows, reward = _moved(state.rows, action)
        changed = _differ(rows, state.rows)
        rows = jnp.where(changed, _with_tile(rows, hashed(key, 0)), rows)
        return Transition(state.replace(rows=rows), reward, ~_may_move(rows))

    def observe(self, state: Game2048State, params: Any = None) -> Board:
        """Return the exponents."""
        return _board(state.rows)

    def action_mask(self, state: Game2048State, params: Any = None) -> Bool[Array, "4"]:
        """Return which moves change the board."""
        rows, actions = state.rows, jnp.arange(4, dtype=jnp.int32)
        return jax.vmap(lambda action: _differ(_moved(rows, action)[0], rows))(actions)

    def afterstate(self, board: Board, action: Int32[Array, ""]) -> Afterstate:
        """Apply the deterministic part of a move."""
        before = _rows(board)
        rows, reward = _moved(before, action)
        return Afterstate(_board(rows), reward, _differ(rows, before))

    def outcomes(self, board: Board) -> Outcomes:
        """Return the boards after every possible new tile, with probabilities."""
        empty = board == 0
        cell = np.eye(16, dtype=np.uint8).reshape(16, 4, 4) * empty.astype(jnp.uint8)
        count = jnp.maximum(empty.sum(dtype=jnp.int32), 1)
        uniform = empty.reshape(16).astype(jnp.float32) / count.astype(jnp.float32)
        return Outcomes(
            jnp.concatenate([board + cell, board + 2 * cell]),
            jnp.concatenate([uniform * 0.9, uniform * 0.1]),
        )

    def ending(self, level: PuzzleLevel) -> Ending:
        """Return a board and the action that ends it: two 128s merge, and no move is left."""
        board = np.array([[3, 4, 3, 4], [4, 3, 4, 3], [3, 4, 3, 4], [5, 6, 7, 7]], np.uint8)
        return Ending(level.replace(board=jnp.asarray(board)), (1,))

    def describe(self, state: Game2048State, params: Any = None) -> str:
        """Write the board with the numbers on its tiles."""
        rows = np.asarray(self.observe(state)).tolist()
        numbers = [[f"{2**exponent}" if exponent else "." for exponent in row] for row in rows]
        return f"The tiles, row by row, with dots for empty cells:\n{drawn(numbers)}"

    def tiles(self, state: Game2048State) -> Int32[Array, "4 4"]:
        """Return the exponents, which are the indices of the sprites."""
        return _board(state.rows).astype(jnp.int32)

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return sprites by exponent, uint8 (18, tile_size, tile_size, 3)."""
        return sprites.game2048(tile_size)


def _board(rows: Rows) -> Board:
    shifts = np.arange(0, 32, 8, dtype=np.uint32)
    return ((rows[:, None] >> shifts) & BYTE).astype(jnp.uint8)


def _rows(board: Board) -> Rows:
    cells = board.astype(jnp.uint32)
    return _joined([cells[:, i] for i in range(4)])


def _joined(parts: list[Array]) -> Array:
    """Join four bytes to one uint32; the first is the lowest byte."""
    word = parts[0]
    for i in (1, 2, 3):
        word = word | (parts[i] << np.uint32(8 * i))
    return word


def _moved(rows: Rows, action: Int32[Array, ""]) -> tuple[Rows, Float32[Array, ""]]:
    """Return the rows after a move, and the sum of the merged tiles."""
    vertical, far = action % 2 == 0, (action == 1) | (action == 2)
    lines = jnp.where(vertical, _transposed(rows), rows)
    lines = _slid(jnp.where(far, _reversed(lines), lines))
    reward = _made(lines)
    lines = lines & ~(MERGED * ONES)
    lines = jnp.where(far, _reversed(lines), lines)
    return jnp.where(vertical, _transposed(lines), lines), reward


def _transposed(rows: Rows) -> Rows:
    """Exchange rows and columns."""
    shifts = np.arange(0, 32, 8, dtype=np.uint32)
    return _joined([(rows[i] >> shifts) & BYTE for i in range(4)])


def _reversed(lines: Rows) -> Rows:
    """Reverse the bytes of each uint32."""
    return _joined([(lines >> np.uint32(8 * i)) & BYTE for i in (3, 2, 1, 0)])


def _slid(lines: Rows) -> Rows:
    """Slide the bytes of each uint32 towards the lowest; mark merged tiles by `MERGED`."""
    for i in (2, 1, 0):
        empty = (lines >> np.uint32(8 * i)) & BYTE == 0
        lines = jnp.where(empty, _without(lines, i), lines)
    for i in (0, 1, 2):
        tile, next_tile = ((lines >> np.uint32(8 * j)) & BYTE for j in (i, i + 1))
        joined = _without(lines, i + 1) + ((MERGED + np.uint32(1)) << np.uint32(8 * i))
        lines = jnp.where((tile == next_tile) & (tile != 0), joined, lines)
    return lines


def _without(lines: Rows, i: int) -> Rows:
    """Remove byte i and move the higher bytes down by one."""
    below = np.uint32((1 << 8 * i) - 1)
    return (lines & below) | ((lines >> np.uint32(8)) & ~below)


def _made(lines: Rows) -> Float32[Array, ""]:
    """Return the sum of the tiles marked by `MERGED`."""
    total = jnp.zeros((4,), jnp.uint32)
    for i in range(4):
        tile = (lines >> np.uint32(8 * i)) & BYTE
        made = (tile >= MERGED).astype(jnp.uint32)
        total = total + (made << (tile & ~MERGED))
    return total.sum(dtype=jnp.uint32).astype(jnp.float32)


def _empty(lines: UInt32[Array, "*words"]) -> UInt32[Array, "*words"]:
    """Return a uint32 with byte 1 for each byte of `lines` that is 0, else 0.

    Bytes must be below 128.
    """
    return ~((lines + np.uint32(0x7F) * ONES) >> np.uint32(7)) & ONES


def _with_tile(rows: Rows, word: UInt32[Array, ""]) -> Rows:
    """Put a 2 or a 4 into a random empty cell; `word` is uniform.

    In the product of `word` and the number of empty cells, the high half is the rank of the chosen
    cell, and the low half decides between 2 and 4.
    """
    empty = _empty(rows)
    shifts = np.arange(0, 32, 8, dtype=np.uint32)
    # Number of empty cells in each row, one byte per row.
    counts = (jax.lax.population_count(empty) << shifts).sum(dtype=jnp.uint32)
    sums = counts * ONES  # byte i: sum of the bytes 0 to i of `counts`
    count = sums >> np.uint32(24)
    before = ((sums << np.uint32(8)) >> shifts) & BYTE
    rank = multiply_high(word, count)
    tile = _tile(word, count)
    # Byte i of each row: the number of empty cells before it. The first product counts those in the
    # row, the second adds those in the rows above.
    ranks = empty * (ONES << np.uint32(8)) + before * ONES
    here = _empty(ranks ^ (rank * ONES)) & empty
    return rows | here * tile


def _tile(word: UInt32[Array, ""], count: Array | int) -> UInt32[Array, ""]:
    """Return the exponent of a new tile, 1 or 2, by the low 32 bits of `word * count`.

    The high 32 bits of the product choose one of `count` cells.
    """
    return jnp.where(word * jnp.uint32(count) < FOUR, jnp.uint32(2), jnp.uint32(1))


def _may_move(rows: Rows) -> Bool[Array, ""]:
    """Return whether a cell is empty or equals a neighbour."""
    below = _empty(rows[:3] ^ rows[1:])
    right = _empty(rows ^ (rows >> np.uint32(8)))  # column 3 is compared with 0
    return (_empty(rows) | right).any() | below.any()


def _differ(rows: Rows, others: Rows) -> Bool[Array, ""]:
    return (rows != others).any()
