"""Peg solitaire on the English board: jump until one peg is left, in the centre.

A board is a bit mask with one bit per hole in reading order, so that a jump is a single XOR. The
heuristic uses pagoda functions: weighted sums over the pegs that no jump can increase (J. Conway in
Berlekamp, Conway, Guy, "Winning Ways", 1982, chapter 23).
"""

import functools
import itertools
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, UInt8, UInt32

from ..core import checks
from ..core.controls import Controls, Place, Pointing, pointed
from ..core.random import Key, below, words
from ..core.registry import register
from ..core.spaces import Box, Space
from ..core.texts import Memo, written_by_row
from . import sprites
from .cells import cell_count
from .puzzle import Move, PackedPuzzle, Predecessors, PuzzleLevel

BOARD = ("  OOO  ", "  OOO  ", "OOOOOOO", "OOO.OOO", "OOOOOOO", "  OOO  ", "  OOO  ")
CENTRE = 16
ARROWS = ((-1, 0, "up"), (0, 1, "right"), (1, 0, "down"), (0, -1, "left"))
REWARDS = ("goal", "pegs")
# Pagoda functions. A peg counts 1 in a hole marked +, -1 in a hole marked -, and 0 in any other
# hole; no jump can increase the sum over all pegs. Of some thousand candidates, these two functions
# prove the most boards from random play unsolvable.
PAGODAS = (
    ("  -+-  ", "  +.+  ", "-+.+.+-", "+.+++.+", "-+.+.+-", "  +.+  ", "  -+-  "),
    ("  ...  ", "  +++  ", "-+.+.+-", "+.+++.+", "-+.+.+-", "  +.+  ", "  -+-  "),
)


class Tables(NamedTuple):
    """Constants of the board; a set of holes is a bit mask in two uint32."""

    row: np.ndarray  # int32 (33,): row of each hole
    column: np.ndarray  # int32 (33,): column of each hole
    names: tuple[str, ...]  # names of the jumps
    changed: np.ndarray  # uint32 (76, 2): the three holes that each jump changes
    before: np.ndarray  # uint32 (76, 2): the two holes of each jump that must have pegs


@register("Puzzle-PegSolitaire-v0")
class PegSolitaire(PackedPuzzle):
    """Remove pegs until one is left: a peg jumps over another into a hole; the other is removed.

    The central game begins with a peg in every hole but the centre, and takes 31 jumps.

    Actions: 76 jumps, ordered by the hole of the jumping peg, then up, right, down, left.
    Observation: uint8 (7, 7), 0 outside the board, 1 a hole, 2 a peg.
    Reward: 1 when one peg is left and it is in the centre. With `reward="pegs"` an episode that
        ends unsolved is also rewarded: minus the number of pegs left.
    Episode ends: when solved, or when no peg can jump.
    State: the board has one bit for each of the 33 holes, 1 for a peg, row by row from bit 0.
    """

    # Number of random jumps that are undone from the goal to make a level. None: the central game,
    # in which every hole but the centre has a peg at the start.
    scramble: int | None = None
    # "goal": 1 if solved; "pegs": also minus the number of pegs left if the episode ends unsolved.
    reward: str = "goal"

    reward_range: ClassVar[tuple[float, float]] = (-32.0, 1.0)
    legend: ClassVar[str] = "The board, row by row: O is a peg, a dot an empty hole"

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        if self.scramble is not None:
            checks.integer_field("PegSolitaire", "scramble", self.scramble, 0, 31)
        checks.one_of("PegSolitaire", "reward", self.reward, REWARDS)

    @property
    def action_names(self) -> tuple[str, ...]:
        """`row,column direction` of each jump: the cell of the jumping peg, and its direction."""
        return _tables().names

    @property
    def controls(self) -> Controls:
        """Two clicks make a jump: on the jumping peg, then on the hole where it lands."""
        names = {name: i for i, name in enumerate(self.action_names)}
        jumps = {(2 * down, 2 * right): name for down, right, name in ARROWS}

        def jumped(state: Any, start: Place, end: Place) -> int | None:
            jump = jumps.get((end[0] - start[0], end[1] - start[1]))
            return names.get(f"{start[0]},{start[1]} {jump}")

        return pointed(self.action_names, Pointing(7, 7, jumped, "take, jump", pair=True))

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (index, meaning) that document the values of the observation.

        The observation is a 7 x 7 matrix, whose corners lie outside the board.
        """
        return (("`[row, column]`", "0 outside the board, 1 a hole without a peg, 2 a peg"),)

    @property
    def observation_space(self) -> Space:
        """Matrix of the values of the cells: 0 outside the board, 1 a hole, 2 a peg."""
        return Box(0, 2, (7, 7), np.uint8)

    def apply(self, instance: Any, board: UInt32[Array, "2"], action: Array) -> Move:
        """Jump, if the jumping and the jumped-over hole have pegs and the landing hole is empty."""
        changed, before = (jnp.asarray(t)[action] for t in (_tables().changed, _tables().before))
        valid = _same(board & changed, before)
        moved = board ^ jnp.where(valid, changed, jnp.uint32(0))
        return Move(moved, jnp.ones((), jnp.float32), valid)

    def is_goal(self, instance: Any, board: UInt32[Array, "2"]) -> Bool[Array, ""]:
        """Return whether the only peg is in the centre."""
        return _same(board, jnp.asarray(_set(CENTRE)))

    def is_dead(self, instance: Any, board: UInt32[Array, "2"]) -> Bool[Array, ""]:
        """Return whether no peg can jump and the board is not solved."""
        jumps = _same(board & _tables().changed, jnp.asarray(_tables().before))
        return ~jumps.any() & ~self.is_goal(instance, board)

    def goal(self, instance: Any) -> UInt32[Array, "2"]:
        """Return the board with one peg in the centre."""
        return jnp.asarray(_set(CENTRE))

    def predecessors(self, instance: Any, board: UInt32[Array, "2"]) -> Predecessors:
        """Return the boards from which one jump leads to `board`.

        A jump can be undone if its landing hole has a peg and its other two holes are empty.
        """
        changed, before = jnp.asarray(_tables().changed), jnp.asarray(_tables().before)
        valid = _same(board & changed, changed ^ before)
        undone = board ^ jnp.where(valid[:, None], changed, jnp.uint32(0))
        action = jnp.arange(len(changed), dtype=jnp.int32)
        return Predecessors(undone, action, jnp.ones(action.shape, jnp.float32), valid)

    def observe_board(self, instance: Any, board: UInt32[Array, "2"]) -> UInt8[Array, "7 7"]:
        """Return the value of each cell: 0 outside the board, 1 a hole, 2 a peg."""
        cell = _cells()
        hole = np.maximum(cell, 0)
        peg = (board[hole // 32] >> (hole % 32).astype(np.uint32)) & np.uint32(1)
        return jnp.where(cell < 0, np.uint8(0), peg.astype(jnp.uint8) + np.uint8(1))

    def heuristic(self, instance: Any, board: UInt32[Array, "2"]) -> Float32[Array, ""]:
        """Return the number of jumps to a single peg, plus 32 if the board is proven unsolvable.

        Each jump removes one peg. A pagoda function is a weighted sum over the pegs that no jump
        can increase. The board is unsolvable if its sum is lower than the sum of the goal, which is
        1 for every function in `PAGODAS`.
        """
        jumps = cell_count(board) - 1
        lost = jnp.zeros((), jnp.bool_)
        for one, minus in _pagodas():
            pagoda = cell_count(board & one) - cell_count(board & minus)
            lost = lost | (pagoda < 1)
        return (jumps + jnp.where(lost, np.int32(32), np.int32(0))).astype(jnp.float32)

    def step_reward(self, instance: Any, before: Any, move: Move, solved: Array) -> Array:
        """Return 1 when solved, else 0.

        With `reward="pegs"`, return minus the number of pegs if the board is unsolved and no peg
        can jump.
        """
        reward = solved.astype(jnp.float32)
        if self.reward == "goal":
            return reward
        pegs = cell_count(move.board).astype(jnp.float32)
        return jnp.where(self.is_dead(instance, move.board), -pegs, reward)

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Return the start of the central game; with `scramble`, undo random jumps from the goal.

        The central game begins with a peg in every hole but the centre. `scramble` is the number of
        jumps to undo. Fewer jumps are undone if a board is reached in which no jump can be undone.
        """
        if self.scramble is None:
            start = np.array([~np.uint32(1 << CENTRE), 1], np.uint32)
            return PuzzleLevel(board=jnp.asarray(start))
        drawn = words(key, max(1, self.scramble))

        def step(i: Array, board: UInt32[Array, "2"]) -> UInt32[Array, "2"]:
            able = self.predecessors((), board).valid
            rank = jnp.cumsum(able, dtype=jnp.int32) - 1
            chosen = able & (rank == below(drawn[i], able.sum(dtype=jnp.int32)))
            changed = jnp.where(chosen[:, None], _tables().changed, jnp.uint32(0))
            return board ^ changed.sum(axis=0, dtype=jnp.uint32)

        # `shard_map` requires that the initial carry of the loop varies between devices, as the
        # random numbers do. Adding 0 times a random number achieves this, and does not change the
        # board.
        board = self.goal(()) + drawn[0] * np.uint32(0)
        return PuzzleLevel(board=jax.lax.fori_loop(0, self.scramble, step, board))

    def read_level(self, text: str) -> PuzzleLevel:
        """Parse seven lines of `O` (a peg) and `.` (a hole) with omitted or blank corners.

        Raises `ValueError` for another shape or character, and for a board that the rule of three
        (see `_thirds`) proves unsolvable. The rule does not recognise all unsolvable boards.
        """
        lines = [line.strip() for line in text.strip().splitlines()]
        if len(lines) != len(BOARD):
            raise ValueError(f"{self.name}: expected {len(BOARD)} lines, got {len(lines)}")
        for number, (line, like) in enumerate(zip(lines, BOARD, strict=True), start=1):
            if len(line) != len(like.strip()) or set(line) - set("O."):
                raise ValueError(
                    f"{self.name}: line {number} is {line!r}; it must be {len(like.strip())} of "
                    "'O' (a peg) and '.' (a hole)"
                )
        pegs = [i for i, character in enumerate("".join(lines)) if character == "O"]
        if _thirds(pegs) != _thirds([CENTRE]):
            raise ValueError(
                f"{self.name}: this board is unsolvable: jumps preserve the parities of pegs on "
                "every third diagonal, and these differ from the goal's"
            )
        return PuzzleLevel(board=jnp.asarray(_set(*pegs)))

    def written(self, boards: np.ndarray) -> list[str]:
        """Write the board in the format of `read_level`."""
        return written_by_row(boards, _ROWS)

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return sprites of a tile outside the board, a hole and a peg.

        The shape is (3, tile_size, tile_size, 3), uint8.
        """
        return sprites.pegs(tile_size)


_ROWS = Memo(lambda row: "".join(" .O"[cell] for cell in row).rstrip())


def _same(one: UInt32[Array, "*sets 2"], other: UInt32[Array, "*sets 2"]) -> Bool[Array, "*sets"]:
    return (one[..., 0] == other[..., 0]) & (one[..., 1] == other[..., 1])


def _set(*holes: int) -> np.ndarray:
    """Return a set of holes as a bit mask in two uint32."""
    bits = sum(1 << int(hole) for hole in holes)
    return np.array([bits & 0xFFFFFFFF, bits >> 32], np.uint32)


@functools.lru_cache
def _cells() -> np.ndarray:
    """Return the index of the hole in each cell, int32 (7, 7); -1 outside the board."""
    inside = np.array([[character != " " for character in row] for row in BOARD])
    return np.where(inside, np.cumsum(inside).reshape(7, 7) - 1, -1).astype(np.int32)


@functools.lru_cache
def _tables() -> Tables:
    cells = np.pad(_cells(), 2, constant_values=-1)
    row, column = (index.astype(np.int32) for index in np.nonzero(_cells() >= 0))
    names, changed, before = [], [], []
    for (r, c), (down, right, name) in itertools.product(zip(row, column, strict=True), ARROWS):
        holes = [int(cells[2 + r + i * down, 2 + c + i * right]) for i in range(3)]
        if min(holes) >= 0:
            names.append(f"{r},{c} {name}")
            changed.append(_set(*holes))
            before.append(_set(*holes[:2]))
    return Tables(row, column, tuple(names), np.stack(changed), np.stack(before))


def _thirds(pegs: list[int]) -> list[int]:
    """Return four parities that no jump changes (the rule of three).

    The diagonals of each of the two directions are numbered modulo 3. A jump crosses three adjacent
    diagonals, one of each number, and changes the number of pegs on each of them by one. The number
    of pegs on all diagonals with one of two given numbers therefore keeps its parity. Two
    directions with two pairs of numbers each give four parities.
    """
    row, column = _tables().row[pegs], _tables().column[pegs]
    counts = [np.bincount(lines % 3, minlength=3) for lines in (row + column, row - column)]
    return [int(c[i] + c[j]) % 2 for c in counts for i, j in ((0, 1), (1, 2))]


@functools.lru_cache
def _pagodas() -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Return two bit masks for each distinct rotation of each function in `PAGODAS`.

    The first is the set of holes with value 1, the second the set of holes with value -1.
    """
    known = {}
    for drawing, turns in itertools.product(PAGODAS, range(4)):
        grid = np.rot90(np.array([list(row) for row in drawing]), turns)
        signs = grid[_tables().row, _tables().column]
        known["".join(signs)] = tuple(_set(*np.flatnonzero(signs == s).tolist()) for s in "+-")
    return tuple(known.values())
