"""Tower of Hanoi (E. Lucas 1883): move a tower of disks to the last peg.

A board stores the peg of each disk in binary. It has one uint32 for each binary digit of a peg's
index. Bit i of this uint32 is the digit for disk i; disk 0 is the smallest. The disks on a peg thus
form a bit mask, whose lowest set bit is the peg's top disk.
"""

import functools
import itertools
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..core import bits, checks
from ..core.controls import Controls, Place, Pointing, pointed
from ..core.env import Params
from ..core.random import Key, below, words
from ..core.registry import register
from ..core.spaces import Box, Space
from . import sprites
from .puzzle import Move, Puzzle, PuzzleLevel, PuzzleState

MOST_DISKS, MOST_PEGS = 20, 8
_TABLE = 4096  # maximum number of entries of a distance table of the heuristic


@register("Puzzle-Hanoi-5-v0", disks=5, representative=True)
@register("Puzzle-Hanoi-8x4-v0", disks=8, pegs=4)
class Hanoi(Puzzle):
    """Move one disk at a time, never onto a smaller one, until all are on the last peg.

    Actions: move the top disk of peg a to peg b, for all pairs (0, 1), (0, 2), ... in order.
    Observation: uint8 (disks,), the peg of each disk, the smallest disk first.
    Reward: 1 when all disks are on the last peg. Episode ends: when solved, or at the time limit,
        which is four times the number of moves that solve a tower on the first peg (at least 200).
    State: the board has one uint32 per binary digit of a peg's index; bit i belongs to disk i, and
        disk 0 is the smallest.
    """

    disks: int = 5  # number of disks
    pegs: int = 3  # number of pegs; the last peg is the goal
    start: str = "random"  # "random": a random peg for each disk; "tower": all disks on peg 0

    legend: ClassVar[str] = (
        "The disks on each peg from the bottom up, 1 the smallest, a line for each peg from peg 0; "
        "- is an empty peg"
    )

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        checks.integer_field("Hanoi", "disks", self.disks, 1, MOST_DISKS)
        checks.integer_field("Hanoi", "pegs", self.pegs, 3, MOST_PEGS)
        checks.one_of("Hanoi", "start", self.start, ("random", "tower"))

    @property
    def default_params(self) -> Params:
        """The time limit: four times the number of moves that solve a tower on the first peg.

        The Frame-Stewart algorithm gives the number of moves. The time limit is at least 200 steps.
        """
        limit = max(self.steps_limit, 4 * frame_stewart(self.disks, self.pegs))
        return Params(max_steps_in_episode=np.int32(limit))

    @property
    def action_names(self) -> tuple[str, ...]:
        """`a>b`: move the top disk of peg a to peg b; the first peg is 0."""
        return tuple(f"{a}>{b}" for a, b in self._moves)

    @property
    def controls(self) -> Controls:
        """Two clicks make a move: on the peg to take a disk from, then on the peg to put it on."""
        index = {move: i for i, move in enumerate(self._moves)}

        def moved(state: Any, start: Place, end: Place) -> int | None:
            return index.get((start[1], end[1]))

        return pointed(self.action_names, Pointing(1, self.pegs, moved, "take, put", pair=True))

    @property
    def inverse(self) -> np.ndarray:
        """For each move from peg a to peg b, the index of the move from peg b to peg a."""
        index = {move: i for i, move in enumerate(self._moves)}
        return np.array([index[b, a] for a, b in self._moves], np.int32)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (index, meaning) that document the values of the observation."""
        return (("`[disk]`", "its peg, from 0; disk 0 is the smallest"),)

    @property
    def observation_space(self) -> Space:
        """The index of the peg of each disk, the smallest disk first, uint8 (disks,)."""
        return Box(0, self.pegs - 1, (self.disks,), np.uint8)

    @property
    def _moves(self) -> list[tuple[int, int]]:
        return list(itertools.permutations(range(self.pegs), 2))

    @property
    def _digits(self) -> int:
        """Number of binary digits of a peg's index; a board has one uint32 for each digit."""
        return (self.pegs - 1).bit_length()

    @property
    def _all(self) -> np.uint32:
        """Bit mask of all disks."""
        return np.uint32((1 << self.disks) - 1)

    def apply(self, instance: Any, board: UInt32[Array, " digits"], action: Array) -> Move:
        """Move the top disk of one peg to another peg.

        The move is invalid if the first peg is empty, or if the top disk of the other peg is
        smaller.
        """
        pegs = jnp.asarray(np.array(self._moves, np.uint32))[action]
        disk, other = (_lowest(self._on(board, pegs[i])) for i in (0, 1))
        # If the other peg is empty, `other` is 0, and 0 - 1 wraps around to the largest uint32. The
        # comparison is then True for every disk.
        valid = (disk != 0) & (disk - np.uint32(1) < other - np.uint32(1))
        changed = _digits_of(pegs[0] ^ pegs[1], self._digits)
        moved = board ^ jnp.where(valid & (changed == 1), disk, jnp.uint32(0))
        return Move(moved, jnp.ones((), jnp.float32), valid)

    def _on(self, board: UInt32[Array, " digits"], peg: UInt32[Array, ""]) -> UInt32[Array, ""]:
        """Return the bit mask of the disks on a peg."""
        differ = jnp.uint32(0)
        for i in range(self._digits):
            digit = (peg >> np.uint32(i)) & np.uint32(1)
            differ = differ | (board[i] ^ (jnp.uint32(0) - digit))
        return ~differ & self._all

    def is_goal(self, instance: Any, board: UInt32[Array, " digits"]) -> Bool[Array, ""]:
        """Return whether all disks are on the last peg."""
        return (board == self.goal(instance)).all()

    def goal(self, instance: Any) -> UInt32[Array, " digits"]:
        """Return the board with all disks on the last peg."""
        return self._board(jnp.full((self.disks,), self.pegs - 1, jnp.uint8))

    def _board(self, peg: UInt8[Array, " disks"]) -> UInt32[Array, " digits"]:
        """Return the board on which disk i is on peg `peg[i]`."""
        disk = np.arange(self.disks, dtype=np.uint32)
        digit = _digits_of(peg.astype(jnp.uint32)[:, None], self._digits)
        return (digit << disk[:, None]).sum(axis=0, dtype=jnp.uint32)

    def pack(self, board: UInt32[Array, " digits"]) -> UInt32[Array, " words"]:
        """Encode the board in uint32 words, with `disks` bits for each of its uint32 entries."""
        return bits.pack(board, self.disks)

    def unpack(self, words: UInt32[Array, " words"]) -> UInt32[Array, " digits"]:
        """Return the board that `pack` encoded in these words."""
        return bits.unpack(words, self._digits, self.disks, jnp.uint32)

    def observe_board(
        self, instance: Any, board: UInt32[Array, " digits"]
    ) -> UInt8[Array, " disks"]:
        """Return the index of the peg of each disk, the smallest disk first."""
        disk = np.arange(self.disks, dtype=np.uint32)
        peg = jnp.zeros((self.disks,), jnp.uint32)
        for i in range(self._digits):
            peg = peg | (((board[i] >> disk) & np.uint32(1)) << np.uint32(i))
        return peg.astype(jnp.uint8)

    def heuristic(self, instance: Any, board: UInt32[Array, " digits"]) -> Float32[Array, ""]:
        """Return a lower bound of the number of moves.

        For three pegs, the bound is the optimal number, see `oracle`. For more pegs, the disks are
        split into groups of adjacent sizes. A table has the optimal number of moves of each group
        if the other disks are ignored. The bound is the sum over the groups.
        """
        if self.pegs == 3:
            return self.oracle(instance, board)
        peg = self.observe_board(instance, board).astype(jnp.int32)
        most = max(count for count in range(1, 13) if self.pegs**count <= _TABLE)
        total, last = jnp.int32(0), self.disks
        while last > 0:
            first = max(0, last - most)
            place = np.array([self.pegs**i for i in range(last - first)], np.int32)
            table = _distances(last - first, self.pegs)
            total = total + jnp.asarray(table)[(peg[first:last] * place).sum(dtype=jnp.int32)]
            last = first
        return total.astype(jnp.float32)

    def oracle(self, instance: Any, board: UInt32[Array, " digits"]) -> Float32[Array, ""]:
        """Return the optimal number of moves; defined for three pegs only.

        The loop runs from the largest disk to the smallest, and keeps the target peg of the current
        disk. If the disk is on another peg, it must move to the target. Just before, all smaller
        disks must be on the third peg, which becomes their target.
        """
        if self.pegs != 3:
            return super().oracle(instance, board)
        peg = self.observe_board(instance, board).astype(jnp.int32)
        moves, target = jnp.int32(0), jnp.int32(2)
        for disk in reversed(range(self.disks)):
            away = peg[disk] != target
            moves = moves + jnp.where(away, np.int32(1 << disk), np.int32(0))
            target = jnp.where(away, 3 - peg[disk] - target, target)
        return moves.astype(jnp.float32)

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Draw a random peg for each disk; `start="tower"` puts all disks on the first peg."""
        if self.start == "tower":
            return PuzzleLevel(board=jnp.zeros((self._digits,), jnp.uint32))
        peg = below(words(key, self.disks), self.pegs).astype(jnp.uint8)
        return PuzzleLevel(board=self._board(peg))

    def read_level(self, text: str) -> PuzzleLevel:
        """Parse one line per peg: its disks from the bottom up, or `-` for an empty peg.

        Disk 1 is the smallest. Raises `ValueError` for a wrong number of lines, a missing disk, or
        a disk that lies on a smaller disk.
        """
        lines = text.strip().splitlines()
        if len(lines) != self.pegs:
            raise ValueError(f"{self.name}: expected {self.pegs} lines, got {len(lines)}")
        peg = np.full(self.disks, MOST_PEGS, np.uint8)
        for number, line in enumerate(lines):
            names = [] if line.strip() == "-" else line.split()
            where = f"{self.name}: line {number + 1} is {line.strip()!r}"
            allowed = {str(disk) for disk in range(1, self.disks + 1)}
            if not set(names) <= allowed:
                raise ValueError(f"{where}; give disks from 1 to {self.disks}, or '-' for none")
            stack = [int(name) for name in names]
            if any(lower < upper for lower, upper in itertools.pairwise(stack)):
                raise ValueError(f"{where}: a disk lies on a smaller one; give the largest first")
            for disk in stack:
                if peg[disk - 1] != MOST_PEGS:
                    raise ValueError(f"{where}: disk {disk} appears twice")
                peg[disk - 1] = number
        missing = np.flatnonzero(peg == MOST_PEGS) + 1
        if missing.size:
            raise ValueError(f"{self.name}: no line has disk {', '.join(map(str, missing))}")
        return PuzzleLevel(board=self._board(jnp.asarray(peg)))

    def written(self, boards: np.ndarray) -> list[str]:
        """Write one line per peg in the format of `read_level`."""
        texts = []
        for board in boards.tolist():
            stacks = [[] for _ in range(self.pegs)]
            for disk, peg in enumerate(board, 1):
                stacks[peg].append(str(disk))
            texts.append("\n".join(" ".join(reversed(stack)) or "-" for stack in stacks))
        return texts

    def tiles(self, state: PuzzleState) -> Int32[Array, "rows columns"]:
        """Return the picture as sprite indices: the pegs stand side by side.

        Disk i is `i + 1` tiles wide; disk 0 is the smallest. A disk of even width is centred on its
        pole, so each of its ends fills half a tile.

        Index 0 is nothing, 1 a pole and 2 the base. Each disk, from the smallest, has the next four
        indices: left end, middle, right end, and a disk that is one tile wide.
        """
        size, wide = self.disks, 2 * (self.disks // 2) + 1
        peg = self.observe_board(state.instance, state.board)
        index = np.arange(size, dtype=np.int32)
        lower = (peg[:, None] == peg[None, :]) & (index[:, None] < index[None, :])
        height = lower.sum(axis=1, dtype=jnp.int32)  # number of disks below each disk
        row = np.arange(size + 2, dtype=np.int32)[:, None, None]
        at, column = np.divmod(np.arange(self.pegs * wide, dtype=np.int32)[:, None], wide)
        here = (size - height == row) & (peg.astype(jnp.int32) == at)
        off, reach = column - np.int32(wide // 2), (index + 1) // 2
        part = np.where(off == -reach, 0, np.where(off == reach, 2, 1))
        part = np.where(index == 0, 3, part).astype(np.int32)
        drawn = jnp.where(here & (abs(off) <= reach), 3 + 4 * index + part, 0).max(axis=-1)
        behind = np.where(row[..., 0] == size + 1, 2, (off[:, 0] == 0).astype(np.int32))
        return jnp.maximum(drawn, behind.astype(np.int32))

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return one sprite for each index that `tiles` uses.

        The shape is (3 + 4 * disks, tile_size, tile_size, 3), uint8.
        """
        return sprites.hanoi(tile_size, self.disks)


def _lowest(word: UInt32[Array, ""]) -> UInt32[Array, ""]:
    """Return a mask of the lowest set bit of `word`; 0 if `word` is 0."""
    return word & (jnp.uint32(0) - word)


def _digits_of(number: UInt32[Array, "*rows"], digits: int) -> UInt32[Array, "*rows_digits"]:
    return (number >> np.arange(digits, dtype=np.uint32)) & np.uint32(1)


@functools.lru_cache
def frame_stewart(disks: int, pegs: int) -> int:
    """Return the number of moves in which the Frame-Stewart algorithm moves a tower to another peg.

    For 3 and 4 pegs this number is proven optimal.
    """
    if disks <= 1 or pegs == 3:
        return 2**disks - 1
    return min(
        2 * frame_stewart(upper, pegs) + frame_stewart(disks - upper, pegs - 1)
        for upper in range(1, disks)
    )


@functools.lru_cache
def _distances(disks: int, pegs: int) -> np.ndarray:
    """Return the optimal number of moves from each board to the goal, int32 (pegs ** disks,).

    At the goal, all disks are on the last peg. The index of a board is a number in base `pegs`. Its
    lowest digit is the peg of disk 0, the smallest; digit i is the peg of disk i.
    """
    count = pegs**disks
    place = pegs ** np.arange(disks)
    peg = np.arange(count)[:, None] // place % pegs
    table = np.full(count, -1, np.int32)
    table[count - 1] = 0
    frontier, moves = np.array([count - 1]), 0
    while frontier.size:
        moves += 1
        found = []
        for disk in range(disks):
            for target in range(pegs):
                smaller = peg[frontier, :disk]
                here = peg[frontier, disk]
                free = (smaller != here[:, None]) & (smaller != target)
                moved = frontier + (target - here) * place[disk]
                found.append(moved[free.all(axis=1)])
        frontier = np.unique(np.concatenate(found))
        frontier = frontier[table[frontier] < 0]
        table[frontier] = moves
    return table
