"""Sokoban: push every box onto a target (rewards and time limit as in Jumanji 1.1 `Sokoban-v0`).

Differences from Jumanji: the time limit truncates; levels are drawn, or read from a user's files.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..core import bits, checks
from ..core.env import Ending
from ..core.random import Key, below, hashed
from ..core.registry import register
from ..core.spaces import Box, Space
from ..core.struct import Struct, struct
from . import sokoban_levels
from .cells import step_of
from .puzzle import DIRECTIONS, Move, Predecessors, Puzzle, PuzzleLevel, PuzzleState
from .sokoban_levels import CHARACTERS, DEAD, WALL, Drawn

FLOOR_TILE, WALL_TILE, TARGET_TILE, BOX_TILE, HOME_TILE, PLAYER_TILE, OVER_TILE = range(7)
MOST_SIZE = 16  # cells are numbered in a byte
_MEANING = (
    f"{FLOOR_TILE} floor, {WALL_TILE} wall, {TARGET_TILE} target, {BOX_TILE} box, {HOME_TILE} box "
    f"on a target, {PLAYER_TILE} player, {OVER_TILE} player on a target"
)


@struct
class Stock(Struct):
    """What moves. Cells are numbered row by row."""

    boxes: UInt8[Array, " boxes"]  # their cells, ascending, so that equal boards are equal arrays
    player: UInt8[Array, ""]  # its cell


@register("Puzzle-Sokoban-6x6-v0", size=6, boxes=2, pulls=8)
@register("Puzzle-Sokoban-10x10-v0", size=10, boxes=4, pulls=16)
class Sokoban(Puzzle):
    """Push all boxes onto targets, one at a time, without pulling. Boxes may get stuck.

    Actions: 0 up, 1 right, 2 down, 3 left; a box ahead is pushed if the cell behind it is free.
    Observation: uint8 (size, size), 0 floor, 1 wall, 2 target, 3 box, 4 box on a target, 5 player,
        6 player on a target.
    Reward: -0.1 each step, 1 for a box pushed onto a target, -1 for one pushed off, 10 when all
        are on targets.
    Episode ends: when all boxes are on targets, at the time limit, and with `dead_ends` when a box
        is where no pushes lead to a target.
    State: cells are row * size + column. For each cell, the instance has the least pushes of a box
        from there to a target: 0 on a target, 254 if no pushes lead to one, 255 in a wall.

    Levels are drawn by pulling boxes from the targets, `pulls` times, or uniformly from `levels`,
    the path of a file or folder in the format of Boxoban (Guez et al. 2018).
    """

    size: int = 10  # cells on a side, with the walls around
    boxes: int = 4  # also the number of targets
    pulls: int = 16  # by one cell each, to make a level
    levels: str | None = None  # file or folder to read them from; None: drawn
    dead_ends: bool = False  # the episode ends when a box is where no pushes lead to a target

    reset_source: ClassVar[str] = "exact"
    reward_range: ClassVar[tuple[float, float]] = (-1.1, 10.9)
    steps_limit: ClassVar[int] = 120
    legend: ClassVar[str] = (
        "The field: # wall, @ you, $ box, . target, * box on a target, + you on a target"
    )

    def __post_init__(self) -> None:
        """Check the fields, and read the levels."""
        owner = type(self).__name__
        checks.integer_field(owner, "size", self.size, 5, MOST_SIZE)
        checks.integer_field(owner, "boxes", self.boxes, 1, max(1, (self.size - 2) ** 2 // 4))
        checks.integer_field(owner, "pulls", self.pulls, 1)
        checks.one_of(owner, "dead_ends", self.dead_ends, (False, True))
        if self.levels is not None:
            if not isinstance(self.levels, str):
                kind = type(self.levels).__name__
                raise TypeError(f"{owner}: levels must be a path (a str) or None, got {kind}")
            sokoban_levels.read(self.levels, self.size, self.boxes)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """A cell."""
        return (("`[row, column]`", _MEANING),)

    @property
    def observation_space(self) -> Space:
        """The field."""
        return Box(0, OVER_TILE, (self.size, self.size), np.uint8)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The directions."""
        return DIRECTIONS

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Draw a level, or one of those that were read."""
        if self.levels is None:
            return _level(sokoban_levels.draw(key, self.size, self.boxes, self.pulls))
        return self.level(below(hashed(key, 0), self.level_count))

    @property
    def level_count(self) -> int:
        """Number of levels read; 0 if they are drawn."""
        if self.levels is None:
            return 0
        return len(sokoban_levels.read(self.levels, self.size, self.boxes).player)

    def level(self, number: Int32[Array, ""] | int) -> PuzzleLevel:
        """Return a level that was read, by its number from 0; out of range, the nearest one.

        Raises `ValueError` if levels are drawn.
        """
        if self.levels is None:
            raise ValueError(
                f"{self.name}: levels are generated; give the path of a file as levels"
            )
        levels = sokoban_levels.read(self.levels, self.size, self.boxes)
        number = jnp.asarray(number, jnp.int32).clip(0, self.level_count - 1)
        return _level(sokoban_levels.at(levels, number, self.size))

    def apply(
        self, instance: UInt8[Array, " cells"], board: Stock, action: Int32[Array, ""]
    ) -> Move:
        """Walk a cell, and push."""
        player, boxes = board.player.astype(jnp.int32), board.boxes.astype(jnp.int32)
        down, right = step_of(action)
        delta = down * self.size + right
        ahead = player + delta  # the border is wall: it is on the field
        behind = (ahead + delta).clip(0, instance.size - 1)
        pushes = _at(boxes, ahead)
        stuck = (instance[behind] == WALL) | _at(boxes, behind)
        valid = (instance[ahead] != WALL) & ~(pushes & stuck)
        moved = jnp.where(valid & pushes, _replaced(boxes, ahead, behind), boxes)
        after = Stock(
            boxes=moved.astype(jnp.uint8),
            player=jnp.where(valid, ahead, player).astype(jnp.uint8),
        )
        return Move(after, jnp.ones((), jnp.float32), valid)

    def predecessors(self, instance: UInt8[Array, " cells"], board: Stock) -> Predecessors:
        """Boards before a step without a push (0 to 3, by action) and with a push (4 to 7)."""
        player, boxes = board.player.astype(jnp.int32), board.boxes.astype(jnp.int32)

        def before(number: Array) -> tuple[Stock, Array]:
            action, pulls = number % 4, number >= 4
            down, right = step_of(action)
            delta = down * self.size + right
            origin, ahead = player - delta, player + delta
            free = (instance[origin] != WALL) & ~_at(boxes, origin)
            pulled = jnp.where(pulls, _replaced(boxes, ahead, player), boxes)
            stock = Stock(boxes=pulled.astype(jnp.uint8), player=origin.astype(jnp.uint8))
            return stock, free & (~pulls | _at(boxes, ahead))

        numbers = np.arange(8, dtype=np.int32)
        boards, valid = jax.vmap(before)(jnp.asarray(numbers))
        return Predecessors(boards, jnp.asarray(numbers % 4), jnp.ones((8,), jnp.float32), valid)

    def is_goal(self, instance: UInt8[Array, " cells"], board: Stock) -> Bool[Array, ""]:
        """Tell whether all boxes are on targets."""
        return self._on_targets(instance, board) == self.boxes

    def is_dead(self, instance: UInt8[Array, " cells"], board: Stock) -> Bool[Array, ""]:
        """With `dead_ends`: tell whether a box is where no pushes lead to a target."""
        if not self.dead_ends:
            return jnp.zeros((), jnp.bool_)
        return (instance[board.boxes.astype(jnp.int32)] >= DEAD).any()

    def _on_targets(self, instance: UInt8[Array, " cells"], board: Stock) -> Int32[Array, ""]:
        return (instance[board.boxes.astype(jnp.int32)] == 0).sum(dtype=jnp.int32)

    def ending(self, level: PuzzleLevel) -> Ending:
        """Push the last box onto its target."""
        inside = self.size - 2
        rows = ["@$.", "", "*" * (self.boxes - 1), *[""] * (inside - 3)]
        edge = "#" * self.size
        lines = [edge, *(f"#{row:<{inside}}#" for row in rows), edge]
        return Ending(self.read_level("\n".join(lines)), (1,))

    def step_reward(
        self, instance: UInt8[Array, " cells"], before: Stock, move: Move, solved: Array
    ) -> Float32[Array, ""]:
        """-0.1, 1 or -1 for a box, 10 at the end; rounded once, so equal in all programs."""
        gained = self._on_targets(instance, move.board) - self._on_targets(instance, before)
        # Not tenths divided by ten: XLA may multiply by 0.1 instead, and round 10.9 upwards.
        whole = gained + 10 * solved.astype(jnp.int32)
        return whole.astype(jnp.float32) - np.float32(0.1)

    def pack(self, board: Stock) -> UInt32[Array, " words"]:
        """The cells of player and boxes, in as few bits as they need."""
        return bits.pack(jnp.concatenate([board.player[None], board.boxes]), self._bits)

    def unpack(self, words: UInt32[Array, " words"]) -> Stock:
        """Undo `pack`."""
        cells = bits.unpack(words, self.boxes + 1, self._bits)
        return Stock(boxes=cells[1:], player=cells[0])

    @property
    def _bits(self) -> int:
        return (self.size * self.size - 1).bit_length()

    def heuristic(self, instance: UInt8[Array, " cells"], board: Stock) -> Float32[Array, ""]:
        """Pushes of each box to its nearest target, and the steps to the nearest box.

        A push brings one box nearer by at most one; the player walks before the first push. A box
        with no way to a target counts 254.
        """
        boxes, player = board.boxes.astype(jnp.int32), board.player.astype(jnp.int32)
        pushes = instance[boxes].astype(jnp.int32).sum(dtype=jnp.int32)
        rows = abs(boxes // self.size - player // self.size)
        columns = abs(boxes % self.size - player % self.size)
        steps = (rows + columns).min() - 1
        return jnp.where(self.is_goal(instance, board), 0, pushes + steps).astype(jnp.float32)

    def observe_board(
        self, instance: UInt8[Array, " cells"], board: Stock
    ) -> UInt8[Array, "{self.size} {self.size}"]:
        """The field with boxes and player."""
        index = np.arange(instance.size, dtype=np.uint8)
        wall = jnp.where(instance == WALL, jnp.uint8(WALL_TILE), jnp.uint8(FLOOR_TILE))
        target = (instance == 0).astype(jnp.uint8)
        shown = jnp.where(instance == 0, jnp.uint8(TARGET_TILE), wall)
        boxed = (index[:, None] == board.boxes).any(axis=1)
        shown = jnp.where(boxed, BOX_TILE + target, shown)
        shown = jnp.where(index == board.player, PLAYER_TILE + target, shown)
        return shown.reshape(self.size, self.size)

    def read_level(self, text: str) -> PuzzleLevel:
        """Read a level: `#` wall, `@` player, `$` box, `.` target, `*` and `+` on a target."""
        rows = text.strip("\n").splitlines()
        walls, targets, boxes, player = sokoban_levels.parsed(rows, self.size, self.boxes)
        shape = (self.size, self.size)
        aims = np.isin(np.arange(walls.size), targets)
        pushes = sokoban_levels.push_distances(
            jnp.asarray(~walls.reshape(shape)), jnp.asarray(aims.reshape(shape))
        )
        return _level(Drawn(pushes, jnp.asarray(boxes), jnp.uint8(player)))

    def text(self, instance: UInt8[Array, " cells"], board: Stock) -> str:
        """Draw the field as `read_level` reads it."""
        shown = np.asarray(self.observe_board(instance, board))
        return "\n".join("".join(CHARACTERS[cell] for cell in row) for row in shown)

    def tiles(self, state: PuzzleState) -> Int32[Array, "{self.size} {self.size}"]:
        """The observation's numbers."""
        return self.observe_board(state.instance, state.board).astype(jnp.int32)

    def atlas(self, tile_size: int) -> np.ndarray:
        """Sprites in the order of the observation's numbers."""
        from . import sprites

        return sprites.sokoban(tile_size)


def _level(drawn: Drawn) -> PuzzleLevel:
    return PuzzleLevel(board=Stock(boxes=drawn.boxes, player=drawn.player), instance=drawn.pushes)


def _at(boxes: Int32[Array, " boxes"], cell: Int32[Array, ""]) -> Bool[Array, ""]:
    """Tell whether a box is in the cell."""
    return (boxes == cell).any()


def _replaced(
    boxes: Int32[Array, " boxes"], old: Int32[Array, ""], new: Int32[Array, ""]
) -> Int32[Array, " boxes"]:
    """Move the box at `old` to the free cell `new`, and keep the cells ascending: the entries
    between the two places shift by one."""
    place = np.arange(boxes.shape[0], dtype=np.int32)
    out = (boxes < old).sum(dtype=jnp.int32)
    into = (boxes < new).sum(dtype=jnp.int32) - (old < new).astype(jnp.int32)
    shifted = jnp.where((place >= out) & (place < into), jnp.roll(boxes, -1), boxes)
    shifted = jnp.where((place > into) & (place <= out), jnp.roll(boxes, 1), shifted)
    return jnp.where(place == into, new, shifted)
