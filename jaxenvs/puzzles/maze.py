"""Maze: find the path to the target (rules and level distribution of Jumanji 1.1 `Maze-v0`).

Differences from Jumanji: the time limit truncates; all cells of a level are generated in parallel.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..core import checks
from ..core.env import Params
from ..core.random import Key, choose, hashed
from ..core.registry import register
from ..core.spaces import Box, Space
from ..core.struct import Struct, struct
from . import sprites
from .cells import step_of
from .puzzle import DIRECTIONS, Move, Puzzle, PuzzleLevel

FLOOR, WALL, TARGET, PLAYER, ARRIVED = range(5)  # values of the observation

MOST_SIDE = 125  # largest side for which each bound of a chamber fits into six bits
INVERSE = np.array([2, 3, 0, 1], np.int32)
FAR = 1 << 30  # distance of a cell without a path to the target
_MEANING = (
    f"{FLOOR} floor, {WALL} wall, {TARGET} target, {PLAYER} player, {ARRIVED} player on the target"
)


@struct
class MazeInstance(Struct):
    """The map of an episode."""

    walls: UInt8[Array, "rows columns"]  # 1 in a wall, else 0
    target: Int32[Array, ""]  # cell of the target, row * columns + column


@register("Puzzle-Maze-10x10-v0", rows=10, columns=10, representative=True)
@register("Puzzle-Maze-23x23-v0", rows=23, columns=23)
class Maze(Puzzle):
    """Walk to the target of a maze in which exactly one path connects any two free cells.

    Cells in even rows and even columns (from 0) are free; those in odd rows and odd columns are
    walls. Start and target are two different free cells.

    Actions: 0 up, 1 right, 2 down, 3 left; walls and the edge of the map block.
    Observation: uint8 (rows, columns), 0 floor, 1 wall, 2 target, 3 player, 4 player on the target.
    Reward: 1 on the target.
    Episode ends: on the target, or at the time limit (by default rows * columns steps).
    State: the board is the player's cell, row * columns + column.
    """

    rows: int = 10  # rows of the map, walls included
    columns: int = 10  # columns of the map, walls included

    reset_source: ClassVar[str] = "exact"
    # Twice the default, so that `exact` generates levels in batches of half the size on a CPU. A
    # batch may contain unused levels, and here these cost more than further loop iterations.
    rows_per_lane: ClassVar[int] = 128
    legend: ClassVar[str] = "The map: # wall, @ you, . the target, + you on the target"
    characters: ClassVar[str] = " #.@+"

    def __post_init__(self) -> None:
        """Check the fields."""
        owner = type(self).__name__
        checks.integer_field(owner, "rows", self.rows, 3, MOST_SIDE)
        checks.integer_field(owner, "columns", self.columns, 3, MOST_SIDE)

    @property
    def default_params(self) -> Params:
        """The time limit: one step per cell."""
        return Params(max_steps_in_episode=np.int32(self.rows * self.columns))

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Meaning of the values of a cell of the observation."""
        return (("`[row, column]`", _MEANING),)

    @property
    def observation_space(self) -> Space:
        """Matrix of cells."""
        return Box(0, ARRIVED, (self.rows, self.columns), np.uint8)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the four directions."""
        return DIRECTIONS

    @property
    def inverse(self) -> np.ndarray:
        """Index of the opposite direction."""
        return INVERSE

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Draw a map with start and target."""
        walls = divided(key, self.rows, self.columns)
        start, target = _two_free(key, walls)
        return PuzzleLevel(board=start, instance=MazeInstance(walls=walls, target=target))

    def apply(
        self, instance: MazeInstance, board: Int32[Array, ""], action: Int32[Array, ""]
    ) -> Move:
        """Move the player by one cell."""
        down, right = step_of(action)
        row, column = board // self.columns + down, board % self.columns + right
        inside = (row >= 0) & (row < self.rows) & (column >= 0) & (column < self.columns)
        ahead = jnp.where(inside, row * self.columns + column, board)
        valid = inside & (instance.walls.reshape(-1)[ahead] == 0)
        return Move(jnp.where(valid, ahead, board), jnp.ones((), jnp.float32), valid)

    def is_goal(self, instance: MazeInstance, board: Int32[Array, ""]) -> Bool[Array, ""]:
        """Return whether the player is on the target."""
        return board == instance.target

    def goal(self, instance: MazeInstance) -> Int32[Array, ""]:
        """Return the target's cell."""
        return instance.target

    def pack(self, board: Int32[Array, ""]) -> UInt32[Array, "1"]:
        """Return the player's cell as one uint32."""
        return board.astype(jnp.uint32)[None]

    def unpack(self, words: UInt32[Array, "1"]) -> Int32[Array, ""]:
        """Decode the uint32 of `pack`."""
        return words[0].astype(jnp.int32)

    def heuristic(self, instance: MazeInstance, board: Int32[Array, ""]) -> Float32[Array, ""]:
        """Return the Manhattan distance from player to target."""
        rows = abs(board // self.columns - instance.target // self.columns)
        columns = abs(board % self.columns - instance.target % self.columns)
        return (rows + columns).astype(jnp.float32)

    def oracle(self, instance: MazeInstance, board: Int32[Array, ""]) -> Float32[Array, ""]:
        """Return the length of the shortest path to the target; infinity if there is none."""
        steps = self.distances(instance).reshape(-1)[board]
        return jnp.where(steps == FAR, np.float32(np.inf), steps.astype(jnp.float32))

    def distances(self, instance: MazeInstance) -> Int32[Array, "{self.rows} {self.columns}"]:
        """Return the steps from each cell to the target; `FAR` in walls and where no path leads."""
        walls = instance.walls != 0
        cells = jnp.arange(self.rows * self.columns, dtype=jnp.int32).reshape(walls.shape)
        start = jnp.where(cells == instance.target, 0, jnp.int32(FAR))

        def nearer(distance: Array) -> Array:
            around = jnp.pad(distance, 1, constant_values=FAR)
            sideways = jnp.minimum(around[1:-1, 2:], around[1:-1, :-2])
            vertical = jnp.minimum(around[:-2, 1:-1], around[2:, 1:-1])
            found = jnp.minimum(distance, jnp.minimum(sideways, vertical) + 1)
            return jnp.where(walls, jnp.int32(FAR), jnp.minimum(found, FAR))

        def go_on(pair: tuple[Array, Array]) -> Array:
            return (pair[0] != pair[1]).any()

        pair = (start, nearer(start))
        return jax.lax.while_loop(go_on, lambda p: (p[1], nearer(p[1])), pair)[1]

    def observe_board(
        self, instance: MazeInstance, board: Int32[Array, ""]
    ) -> UInt8[Array, "{self.rows} {self.columns}"]:
        """Return the map with target and player."""
        shape = (self.rows, self.columns)
        cells = np.arange(self.rows * self.columns, dtype=np.int32).reshape(shape)
        here, there = cells == board, cells == instance.target
        shown = jnp.where(there, jnp.uint8(TARGET), instance.walls)
        return jnp.where(here, jnp.where(there, jnp.uint8(ARRIVED), jnp.uint8(PLAYER)), shown)

    def read_level(self, text: str) -> PuzzleLevel:
        """Parse a map: `#` wall, space floor, `@` player, `.` target, `+` player on the target.

        Raises `ValueError` for another shape or character, and for several players or targets.
        """
        lines = text.strip("\n").splitlines()
        if len(lines) != self.rows:
            raise ValueError(f"maze: {len(lines)} lines, expected {self.rows}")
        for number, line in enumerate(lines, 1):
            if len(line) != self.columns:
                raise ValueError(
                    f"maze: line {number} has {len(line)} characters, expected {self.columns}"
                )
            if unknown := set(line) - set(self.characters):
                raise ValueError(
                    f"maze: line {number} has {min(unknown)!r}; known are '#' wall, ' ' floor, "
                    "'@' player, '.' target, '+' player on the target"
                )
        shown = np.array([[self.characters.index(c) for c in line] for line in lines])
        start = np.flatnonzero((shown == PLAYER) | (shown == ARRIVED))
        target = np.flatnonzero((shown == TARGET) | (shown == ARRIVED))
        for name, found in (("player", start), ("target", target)):
            if len(found) != 1:
                raise ValueError(f"maze: {len(found)} cells with a {name}, expected 1")
        instance = MazeInstance(
            walls=jnp.asarray((shown == WALL).astype(np.uint8)), target=jnp.int32(target[0])
        )
        return PuzzleLevel(board=jnp.int32(start[0]), instance=instance)

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return sprites in the order of the observation's values."""
        return sprites.maze(tile_size)


def divided(key: Key, rows: int, columns: int) -> UInt8[Array, "{rows} {columns}"]:
    """Generate walls by recursive division, all chambers of a depth in parallel.

    A chamber (at first the whole map) gets a wall across its longer side (upright if both are
    equal) at a random odd coordinate, with a door at a random even coordinate. The chambers on both
    sides are then divided in the same way, until they are one cell wide. Every cell in an even row
    and column stores the bounds of its chamber. The random uint32 of a division is a hash of these
    bounds, so it is the same for all cells of a chamber.

    Returns 1 in walls. A map with an even side is a map one cell larger without its last line.
    """
    height, width = (rows + 1) // 2, (columns + 1) // 2  # number of even rows and columns
    row, column = np.indices((height, width), np.int32)
    whole = _joined(
        jnp.int32(0), jnp.int32(rows // 2 + 1), jnp.int32(0), jnp.int32(columns // 2 + 1)
    )
    chamber = whole + 0 * row

    def divide(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        depth, cell, _ = carry
        after = _divide(key, cell, depth, row, column, (rows, columns))
        return depth + 1, after, (after != cell).any()

    start = divide((jnp.int32(0), chamber, jnp.bool_(True)))
    cell = jax.lax.while_loop(lambda carry: carry[2], divide, start)[1]
    right, below = (cell >> 24) & 1, (cell >> 25) & 1
    corner = jnp.ones_like(right)
    upper = jnp.stack([jnp.zeros_like(right), right], -1).reshape(height, 2 * width)
    lower = jnp.stack([below, corner], -1).reshape(height, 2 * width)
    walls = jnp.stack([upper, lower], 1).reshape(2 * height, 2 * width)
    return walls[:rows, :columns].astype(jnp.uint8)


def _joined(top: Array, bottom: Array, left: Array, right: Array) -> Array:
    """Pack a chamber's bounds (ends exclusive, in even rows and columns) into the low 24 bits.

    Bit 24 marks a wall on the right of the cell, and bit 25 a wall below it.
    """
    return top | (bottom << 6) | (left << 12) | (right << 18)


def _divide(
    key: Key, cell: Array, depth: Array | int, row: Any, column: Any, shape: tuple[int, int]
) -> Array:
    """Divide every chamber once.

    `cell` has the bounds of each cell's chamber and the cell's walls, packed as by `_joined`.
    """
    top, bottom, left, right = ((cell >> shift) & 63 for shift in (0, 6, 12, 18))
    high = jnp.minimum(2 * bottom - 1, shape[0]) - 2 * top  # height in cells of the map
    wide = jnp.minimum(2 * right - 1, shape[1]) - 2 * left
    upright = wide >= high
    word = hashed(key, (depth << 12) | (top << 6) | left)
    # 16 random bits for each coordinate: probabilities are uniform up to 1 / 65,536.
    places = jnp.where(upright, wide, high) // 2
    cut = jnp.where(upright, left, top) + 1 + _below_16(word >> np.uint32(16), places)
    doors = (jnp.where(upright, high, wide) + 1) // 2
    door = jnp.where(upright, top, left) + _below_16(word & np.uint32(0xFFFF), doors)
    along, across = jnp.where(upright, column, row), jnp.where(upright, row, column)
    before = along < cut
    walled = (along == cut - 1) & (across != door)
    shift = jnp.where(upright, 12, 0)
    start, end = jnp.where(upright, left, top), jnp.where(upright, right, bottom)
    moved = jnp.where(before, (cut - end) << (shift + 6), (cut - start) << shift)
    wall = jnp.where(walled, jnp.where(upright, 1 << 24, 1 << 25), 0)
    return jnp.where((high > 1) & (wide > 1), cell + moved + wall, cell)


def _below_16(bits: Array, bound: Array) -> Array:
    """Map 16 random bits to an integer in `[0, bound)`."""
    return ((bits * bound.astype(jnp.uint32)) >> np.uint32(16)).astype(jnp.int32)


def _two_free(key: Key, walls: Array) -> tuple[Array, Array]:
    """Draw two different free cells."""
    cells = np.arange(walls.size, dtype=np.int32)
    words = hashed(key, cells.astype(np.uint32) + np.uint32(1 << 31))
    free = walls.reshape(-1) == 0
    first = choose(words, free)
    return first, choose(words, free & (cells != first))
