"""2048 (G. Cirulli 2014): merge equal tiles by sliding; after every move a random tile appears.

The board is stored as four uint32, one per row. Each cell has one byte for the exponent of its
tile. Half a byte would not suffice: the largest possible tile, 131072, has the exponent 17. A move
is computed by bit arithmetic on the four uint32. On a CPU, a lookup table of all 65,536 rows would
take three times as long.

Planners need moves and chance outcomes separately: `afterstate` slides the tiles, and `outcomes`
returns all boards that can follow when the random tile appears.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..core.env import Ending, Env, Params, State, Transition
from ..core.random import Key, below, hashed, multiply_high, words
from ..core.registry import register
from ..core.spaces import Box, Discrete, Space
from ..core.struct import struct
from ..core.texts import Memo, board_changes, board_text, pairs, row_bytes
from . import sprites
from .puzzle import DIRECTIONS, PuzzleLevel

LARGEST = 17  # exponent of 131072, the largest tile that 16 cells and new tiles of 4 can make
MERGED = np.uint32(0x80)  # bit set in a tile's byte if the current move made the tile by a merge
ONES = np.uint32(0x01010101)
BYTE = np.uint32(0xFF)
FOUR = np.uint32(0.1 * 2**32)  # a new tile is a 4 if a random uint32 is below this value, else a 2

Rows = UInt32[Array, "4"]  # one uint32 per row of the board, column 0 in the lowest byte
Board = UInt8[Array, "4 4"]  # exponent of each tile (1 for a 2, 11 for a 2048), 0 in an empty cell


class Afterstate(NamedTuple):
    """The board after the player's move, before a random tile appears."""

    board: Board
    reward: Float32[Array, ""]  # sum of the tiles made by merging: two 4s give 8
    valid: Bool[Array, ""]  # whether the move changes the board; if not, no tile appears


class Outcomes(NamedTuple):
    """All boards that can follow an afterstate when the random tile appears.

    Entry i, 0 to 15, is the board with a new 2 in cell i, counted row by row. Entry 16 + i has a
    new 4 in cell i. If cell i is occupied, entries i and 16 + i are the unchanged board, with
    probability 0.
    """

    board: UInt8[Array, "32 4 4"]
    # Probability of each board; the probabilities sum to 1. They are all 0 if the afterstate's
    # board is full, which never happens after a valid move.
    probability: Float32[Array, "32"]


@struct
class Game2048State(State):
    """State of the game: time step and board."""

    rows: UInt32[Array, "4"]  # one uint32 per row of the board, one byte per cell, see `Rows`


@register("Puzzle-2048-v0")
class Game2048(Env):
    """Slide all tiles in one direction; equal neighbours merge.

    Tiles merge in order from the wall towards which they slide, each at most once per move.

    After a move that changes the board, a 2 (with probability 0.1 a 4) appears in an empty cell; an
    episode begins with two tiles. A move that changes nothing still counts as a time step.

    Actions: 0 up, 1 right, 2 down, 3 left.
    Observation: uint8 (4, 4), 0 in an empty cell, else the exponent: 1 for a 2, 11 for a 2048.
    Reward: the sum of the tiles made by merging; two 4s give 8.
    Episode ends: when no move changes the board. The time limit exceeds the longest game.
    """

    reset_source: ClassVar[str] = "auto"
    fully_observed: ClassVar[bool] = True
    # Lower and upper bound of the reward of one step. A reward is a sum of tiles on the board. It
    # is at most the sum of the tiles of the largest possible board: 4, 8, ... 131072.
    reward_range: ClassVar[tuple[float, float]] = (0.0, 2.0 ** (LARGEST + 1) - 4)

    @property
    def default_params(self) -> Params:
        """A time limit that no game can reach.

        Each move adds a tile of at least 2 to the sum of the tiles, and this sum is at most 262140.
        A game therefore has at most 131070 moves.
        """
        return Params(max_steps_in_episode=np.int32(2**LARGEST))

    @property
    def action_space(self) -> Space:
        """One action for each of the four directions."""
        return Discrete(4)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the four directions in which the tiles can slide."""
        return DIRECTIONS

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (index, meaning) that document the values of the observation."""
        return (("`[row, column]`", "0 in an empty cell, else n where the tile is 2**n"),)

    @property
    def observation_space(self) -> Space:
        """Matrix of the exponents of the tiles (1 for a 2), 0 in an empty cell, uint8 (4, 4)."""
        return Box(0, LARGEST, (4, 4), np.uint8)

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Draw a board with two random tiles."""
        drawn = words(key, 2)
        first, second = below(drawn[0], 16), below(drawn[1], 15)
        second = jnp.where(second < first, second, second + 1)
        cells = np.arange(16, dtype=np.int32).reshape(4, 4)
        board = jnp.where(cells == first, _tile(drawn[0], 16), jnp.uint32(0))
        board = jnp.where(cells == second, _tile(drawn[1], 15), board)
        return PuzzleLevel(board=board.astype(jnp.uint8))

    def reset_state(self, key: Key, level: PuzzleLevel, params: Any) -> Game2048State:
        """Return the initial state: the level's board at time 0."""
        return Game2048State(time=jnp.int32(0), rows=_rows(level.board))

    def step_state(self, key: Key, state: Game2048State, action: Array, params: Any) -> Transition:
        """Slide the tiles; if the board has changed, add a random tile."""
        rows, reward = _moved(state.rows, action)
        changed = _differ(rows, state.rows)
        rows = jnp.where(changed, _with_tile(rows, hashed(key, 0)), rows)
        return Transition(state.replace(rows=rows), reward, ~_may_move(rows))

    def observe(self, state: Game2048State, params: Any = None) -> Board:
        """Return the exponent of each tile, 0 in an empty cell."""
        return _board(state.rows)

    def action_mask(self, state: Game2048State, params: Any = None) -> Bool[Array, "4"]:
        """Return for each action whether it changes the board."""
        rows, actions = state.rows, jnp.arange(4, dtype=jnp.int32)
        return jax.vmap(lambda action: _differ(_moved(rows, action)[0], rows))(actions)

    def afterstate(self, board: Board, action: Int32[Array, ""]) -> Afterstate:
        """Slide and merge the tiles as `step` does, but add no random tile."""
        before = _rows(board)
        rows, reward = _moved(before, action)
        return Afterstate(_board(rows), reward, _differ(rows, before))

    def outcomes(self, board: Board) -> Outcomes:
        """Return the board for every possible new tile, with its probability."""
        empty = board == 0
        cell = np.eye(16, dtype=np.uint8).reshape(16, 4, 4) * empty.astype(jnp.uint8)
        count = jnp.maximum(empty.sum(dtype=jnp.int32), 1)
        uniform = empty.reshape(16).astype(jnp.float32) / count.astype(jnp.float32)
        return Outcomes(
            jnp.concatenate([board + cell, board + 2 * cell]),
            jnp.concatenate([uniform * 0.9, uniform * 0.1]),
        )

    def ending(self, level: PuzzleLevel) -> Ending:
        """Return a level and an action that ends its episode.

        The action merges two 128s. Afterwards no move is possible, whichever tile appears.
        """
        board = np.array([[3, 4, 3, 4], [4, 3, 4, 3], [3, 4, 3, 4], [5, 6, 7, 7]], np.uint8)
        return Ending(level.replace(board=jnp.asarray(board)), (1,))

    def text_inputs(self, state: Game2048State, params: Any = None) -> Board:
        """Return the observation, which `texts` converts to text."""
        return self.observe(state)

    def texts(self, inputs: np.ndarray, detail: str = "full") -> list[str]:
        """Return the boards as text, with the number on each tile."""
        legend = "The tiles, row by row, with dots for empty cells"
        return [board_text((), legend, board, detail) for board in _written(inputs)]

    def text_changes(self, old: np.ndarray, new: np.ndarray) -> list[str]:
        """Return, for each board of a batch, its rows that differ in `old` and `new`."""
        return [board_changes(*pair) for pair in pairs(_written(old), _written(new))]

    def tiles(self, state: Game2048State) -> Int32[Array, "4 4"]:
        """Return the index of each cell's sprite in `atlas`, which is the exponent of its tile."""
        return _board(state.rows).astype(jnp.int32)

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return one sprite per exponent, 0 (empty) to 17, uint8 (18, tile_size, tile_size, 3)."""
        return sprites.game2048(tile_size)


def _written(boards: UInt8[np.ndarray, "batch 4 4"]) -> list[str]:
    """Write the numbers of boards row by row, in columns as wide as the largest number."""
    widths = np.array([max(1, len(f"{2**i}")) for i in range(256)])[boards].max(axis=(1, 2))
    rows = [row_bytes(boards[:, i]) for i in range(4)]
    return [
        "\n".join([_ROWS[line, width] for line in lines])
        for width, *lines in zip(widths.tolist(), *rows, strict=True)
    ]


def _row(key: tuple[bytes, int]) -> str:
    line, width = key
    numbers = (f"{2**exponent}" if exponent else "." for exponent in line)
    return " ".join(f"{number:<{width}}" for number in numbers).rstrip()


_ROWS = Memo(_row)


def _board(rows: Rows) -> Board:
    shifts = np.arange(0, 32, 8, dtype=np.uint32)
    return ((rows[:, None] >> shifts) & BYTE).astype(jnp.uint8)


def _rows(board: Board) -> Rows:
    cells = board.astype(jnp.uint32)
    return _joined([cells[:, i] for i in range(4)])


def _joined(parts: list[Array]) -> Array:
    """Join four bytes into one uint32; the first byte becomes the lowest."""
    word = parts[0]
    for i in (1, 2, 3):
        word = word | (parts[i] << np.uint32(8 * i))
    return word


def _moved(rows: Rows, action: Int32[Array, ""]) -> tuple[Rows, Float32[Array, ""]]:
    """Return the rows after a move, and the reward: the sum of the tiles made by merging."""
    vertical, far = action % 2 == 0, (action == 1) | (action == 2)
    lines = jnp.where(vertical, _transposed(rows), rows)
    lines = _slid(jnp.where(far, _reversed(lines), lines))
    reward = _made(lines)
    lines = lines & ~(MERGED * ONES)
    lines = jnp.where(far, _reversed(lines), lines)
    return jnp.where(vertical, _transposed(lines), lines), reward


def _transposed(rows: Rows) -> Rows:
    """Transpose the board, so that its columns become the rows."""
    shifts = np.arange(0, 32, 8, dtype=np.uint32)
    return _joined([(rows[i] >> shifts) & BYTE for i in range(4)])


def _reversed(lines: Rows) -> Rows:
    """Mirror the rows or columns in `lines`: reverse the order of the four bytes in each uint32."""
    return _joined([(lines >> np.uint32(8 * i)) & BYTE for i in (3, 2, 1, 0)])


def _slid(lines: Rows) -> Rows:
    """Slide the tiles of each uint32 towards its lowest byte and merge equal neighbours.

    A merged tile gets the flag `MERGED` in its byte, which prevents a second merge.
    """
    for i in (2, 1, 0):
        empty = (lines >> np.uint32(8 * i)) & BYTE == 0
        lines = jnp.where(empty, _without(lines, i), lines)
    for i in (0, 1, 2):
        tile, next_tile = ((lines >> np.uint32(8 * j)) & BYTE for j in (i, i + 1))
        joined = _without(lines, i + 1) + ((MERGED + np.uint32(1)) << np.uint32(8 * i))
        lines = jnp.where((tile == next_tile) & (tile != 0), joined, lines)
    return lines


def _without(lines: Rows, i: int) -> Rows:
    """Remove byte i of each uint32, and move the higher bytes down by one."""
    below = np.uint32((1 << 8 * i) - 1)
    return (lines & below) | ((lines >> np.uint32(8)) & ~below)


def _made(lines: Rows) -> Float32[Array, ""]:
    """Return the sum of the tiles whose bytes have the flag `MERGED`."""
    total = jnp.zeros((4,), jnp.uint32)
    for i in range(4):
        tile = (lines >> np.uint32(8 * i)) & BYTE
        made = (tile >= MERGED).astype(jnp.uint32)
        total = total + (made << (tile & ~MERGED))
    return total.sum(dtype=jnp.uint32).astype(jnp.float32)


def _empty(lines: UInt32[Array, "*words"]) -> UInt32[Array, "*words"]:
    """Return words in which each byte is 1 if the byte of `lines` is 0 (an empty cell), else 0.

    All bytes of `lines` must be below 128.
    """
    return ~((lines + np.uint32(0x7F) * ONES) >> np.uint32(7)) & ONES


def _with_tile(rows: Rows, word: UInt32[Array, ""]) -> Rows:
    """Put a new tile, 2 or 4, into a random empty cell. `word` is a uniform random uint32.

    The 64-bit product of `word` and the number of empty cells gives two random numbers. The upper
    32 bits are the index of the tile's cell among the empty cells. The lower 32 bits decide between
    2 and 4.
    """
    empty = _empty(rows)
    shifts = np.arange(0, 32, 8, dtype=np.uint32)
    # Number of empty cells in each row, packed into one uint32 with one byte per row.
    counts = (jax.lax.population_count(empty) << shifts).sum(dtype=jnp.uint32)
    # Byte i: number of empty cells in rows 0 to i. The product adds the lower bytes to each byte.
    sums = counts * ONES
    count = sums >> np.uint32(24)
    before = ((sums << np.uint32(8)) >> shifts) & BYTE
    rank = multiply_high(word, count)
    tile = _tile(word, count)
    # Byte i of each row: number of empty cells before cell i in reading order. The first product
    # counts those on the left in the row, the second product those in the rows above.
    ranks = empty * (ONES << np.uint32(8)) + before * ONES
    here = _empty(ranks ^ (rank * ONES)) & empty
    return rows | here * tile


def _tile(word: UInt32[Array, ""], count: Array | int) -> UInt32[Array, ""]:
    """Return the exponent of a new tile: 1 (a 2) or 2 (a 4).

    The lower 32 bits of `word * count` decide. The caller uses the upper 32 bits of the 64-bit
    product to draw one of `count` cells, so one random uint32 serves for both draws.
    """
    return jnp.where(word * jnp.uint32(count) < FOUR, jnp.uint32(2), jnp.uint32(1))


def _may_move(rows: Rows) -> Bool[Array, ""]:
    """Return whether a move is possible: a cell is empty, or two neighbouring tiles are equal."""
    below = _empty(rows[:3] ^ rows[1:])
    # The shift puts a 0 next to column 3, which has no right neighbour; no tile is equal to 0.
    right = _empty(rows ^ (rows >> np.uint32(8)))
    return (_empty(rows) | right).any() | below.any()


def _differ(rows: Rows, others: Rows) -> Bool[Array, ""]:
    return (rows != others).any()
