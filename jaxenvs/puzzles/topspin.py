"""TopSpin (Binary Arts 1988): a ring of tokens, and a turnstile that reverses some of them."""

import functools
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..core import bits, checks
from ..core.controls import Controls, keyed
from ..core.random import Key, permutation, words
from ..core.registry import register
from ..core.spaces import Box, Space
from . import groups, sprites
from .puzzle import Move, Puzzle, PuzzleLevel, PuzzleState

MOVES = ("ring", "window")
LARGEST = 40
_TABLE = 1 << 18  # largest number of entries of a pattern database


@register("Puzzle-TopSpin-10-v0", size=10)
@register("Puzzle-TopSpin-20-v0", size=20)
class TopSpin(Puzzle):
    """Sort the tokens of a ring by turning the ring and by reversing the tokens in its turnstile.

    Actions: 0 turns the ring by one place to the left, 1 to the right, 2 reverses the first
        `window` tokens. With `moves="window"` the ring does not turn: action a reverses `window`
        tokens from place a on, around the ring.
    Observation: uint8 (size,), tokens from 0 in the order of the ring.
    Reward: 1 when every token i is in place i. Episode ends: when solved, or at the time limit.
    State: the board is the same array as the observation.
    """

    size: int = 20  # number of tokens
    window: int = 4  # number of tokens in the turnstile, even
    # "ring": the actions turn the ring, or reverse the tokens in the turnstile, which is fixed.
    # "window": an action moves the turnstile to any place and reverses its tokens; this is
    # a common convention.
    moves: str = "ring"
    # Number of random actions that make a level from the goal.
    # None: all reachable rings are equally likely.
    scramble: int | None = None

    legend: ClassVar[str] = "The tokens in the order of the ring, from place 0"

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        checks.integer_field("TopSpin", "size", self.size, 5, LARGEST)
        checks.integer_field("TopSpin", "window", self.window, 2, self.size - 2)
        if self.window % 2:
            raise ValueError(f"TopSpin: window={self.window} must be even, such as 4")
        checks.one_of("TopSpin", "moves", self.moves, MOVES)
        if self.scramble is not None:
            checks.integer_field("TopSpin", "scramble", self.scramble, 0)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions.

        The actions are two turns and one reversal; with `moves="window"`, one reversal per place.
        """
        if self.moves == "ring":
            return ("left", "right", "reverse")
        return tuple(f"reverse {place}" for place in range(self.size))

    @property
    def controls(self) -> Controls:
        """Arrow keys turn the ring and reverse the tokens in the turnstile."""
        if self.moves != "ring":
            return super().controls
        turns = ("turn left", "left, a"), ("turn right", "right, d")
        return Controls(keyed(*turns, ("reverse the window", "up, w")))

    @property
    def inverse(self) -> np.ndarray:
        """For each action, the index of the action that undoes it."""
        if self.moves == "ring":
            return np.array([1, 0, 2], np.int32)
        return np.arange(self.size, dtype=np.int32)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (index, meaning) that document the values of the observation."""
        meaning = "token there, from 0"
        if self.moves == "ring":
            meaning += f"; places 0 to {self.window - 1} are the turnstile"
        return (("`[place]`", meaning),)

    @property
    def observation_space(self) -> Space:
        """The token at each place of the ring, uint8 (size,)."""
        return Box(0, self.size - 1, (self.size,), np.uint8)

    @property
    def source(self) -> np.ndarray:
        """For each action and each place of the ring, the place whose token moves there.

        The shape is (actions, size), int32.
        """
        place = np.arange(self.size)
        if self.moves == "ring":
            reversed_ = np.where(place < self.window, self.window - 1 - place, place)
            tables = [np.roll(place, -1), np.roll(place, 1), reversed_]
        else:
            first = place[:, None]
            inside = (place - first) % self.size
            reversed_ = (first + self.window - 1 - inside) % self.size
            tables = np.where(inside < self.window, reversed_, place)
        return np.array(tables, np.int32)

    @property
    def reaches_odd(self) -> bool:
        """True if actions can reach odd permutations of the tokens.

        If not, only half of all rings are reachable.
        """
        turned = self.moves == "ring" and self.size % 2 == 0
        return turned or self.window % 4 == 2

    def apply(self, instance: Any, board: UInt8[Array, " size"], action: Array) -> Move:
        """Turn the ring or reverse tokens; always legal."""
        moved = board[jnp.asarray(self.source)[action]]
        return Move(moved, jnp.ones((), jnp.float32), jnp.ones((), jnp.bool_))

    def is_goal(self, instance: Any, board: UInt8[Array, " size"]) -> Bool[Array, ""]:
        """Return whether the ring is sorted."""
        return (board == self.goal(instance)).all()

    def goal(self, instance: Any) -> UInt8[Array, " size"]:
        """Return the ring with token i in place i."""
        return jnp.arange(self.size, dtype=jnp.uint8)

    def pack(self, board: UInt8[Array, " size"]) -> UInt32[Array, " words"]:
        """Encode the ring in uint32 words; all tokens get the same number of bits."""
        return bits.pack(board, (self.size - 1).bit_length())

    def unpack(self, words: UInt32[Array, " words"]) -> UInt8[Array, " size"]:
        """Return the ring that `pack` encoded in these words."""
        return bits.unpack(words, self.size, (self.size - 1).bit_length())

    def observe_board(self, instance: Any, board: UInt8[Array, " size"]) -> UInt8[Array, " size"]:
        """Return the board: the tokens in the order of the ring."""
        return board

    def heuristic(self, instance: Any, board: UInt8[Array, " size"]) -> Float32[Array, ""]:
        """Return the maximum of two lower bounds.

        The first bound is half the number of adjacent pairs of tokens that are not consecutive,
        rounded up: a reversal changes two pairs. The second bound is the largest value from the
        pattern databases. A database has the fewest moves that bring a few consecutive tokens to
        their places.
        """
        tokens = board.astype(jnp.int32)
        apart = abs(tokens - jnp.roll(tokens, 1))
        wrong = ((apart != 1) & (apart != self.size - 1)).sum(dtype=jnp.int32)
        bound = (wrong + 1) // 2
        place = np.arange(self.size, dtype=np.int32)
        here = jnp.where(tokens[:, None] == place, place[:, None], 0)
        at = here.sum(axis=0, dtype=jnp.int32)  # place of each token in the ring
        for first, table in _patterns(self.size, self.window, self.moves):
            digits = self.size ** np.arange(_tracked(self.size), dtype=np.int32)[::-1]
            entry = (at[first : first + len(digits)] * digits).sum(dtype=jnp.int32)
            bound = jnp.maximum(bound, jnp.asarray(table)[entry].astype(jnp.int32))
        return bound.astype(jnp.float32)

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Draw a ring; all reachable rings are equally likely unless `scramble` is set.

        With `scramble`, take that many random actions from the goal, none of which undoes the
        previous one.
        """
        if self.scramble is not None:
            return PuzzleLevel(board=self.walk(key, (), self.goal(()), self.scramble))
        board = permutation(words(key, self.size))
        if not self.reaches_odd:
            place = np.arange(self.size, dtype=np.int32)
            swapped = np.array([1, 0, *range(2, self.size)], np.int32)
            earlier = place[:, None] < place
            descents = (board[:, None] > board) & earlier
            odd = descents.sum(dtype=jnp.int32) % 2 == 1
            board = board[jnp.where(odd, swapped, place)]
        return PuzzleLevel(board=board.astype(jnp.uint8))

    def read_level(self, text: str) -> PuzzleLevel:
        """Parse the tokens in the order of the ring.

        Raises `ValueError` unless they are the numbers from 0, each once, in a reachable order.
        """
        names = text.split()
        if sorted(names) != sorted(map(str, range(self.size))):
            raise ValueError(
                f"{self.name}: {' '.join(names)!r} is not a ring; give the tokens 0 to "
                f"{self.size - 1}, each once"
            )
        ring = np.array(names, np.uint8)
        if not self.reaches_odd and np.triu(ring[:, None] > ring).sum() % 2:
            raise ValueError(
                f"{self.name}: this ring is unsolvable: it is an odd permutation, and every "
                "action is even; exchange two tokens"
            )
        return PuzzleLevel(board=jnp.asarray(ring))

    def written(self, boards: np.ndarray) -> list[str]:
        """Write the tokens in the format of `read_level`."""
        return [" ".join(map(str, board)) for board in boards.tolist()]

    def tiles(self, state: PuzzleState) -> Int32[Array, "rows columns"]:
        """Return the picture as sprite indices: the ring runs along the edge of a rectangle.

        Place 0 is in the upper left corner, and the ring runs clockwise. The indices are 0 nothing,
        1 + i for token i, and 1 + size + i for token i in the turnstile. With `moves="window"` no
        place is shown as the turnstile, because the turnstile may be anywhere.
        """
        place = np.arange(self.size, dtype=np.int32)
        inside = (place < self.window) & (self.moves == "ring")
        token = state.board.astype(jnp.int32) + 1 + self.size * inside.astype(np.int32)
        return jnp.concatenate([jnp.zeros(1, jnp.int32), token])[_rectangle(self.size)]

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return one sprite for each index that `tiles` uses.

        The shape is (1 + 2 * size, tile_size, tile_size, 3), uint8.
        """
        return sprites.tokens(tile_size, self.size)


def _rectangle(size: int) -> np.ndarray:
    """Return which place of the ring each tile of the picture shows: 1 + the place, or 0 for none.

    The places run along the edge of a rectangle of tiles.
    """
    # Half the perimeter of the rectangle: its number of rows plus its number of columns, in tiles.
    half = (size + 1) // 2 + 2
    rows = max(2, 2 * half // 5)
    columns = half - rows
    drawn = np.zeros((rows, columns), np.int32)
    edge = [(0, column) for column in range(columns)]
    edge += [(row, columns - 1) for row in range(1, rows)]
    edge += [(rows - 1, column) for column in range(columns - 2, -1, -1)]
    edge += [(row, 0) for row in range(rows - 2, 0, -1)]
    for place, (row, column) in enumerate(edge[:size], 1):
        drawn[row, column] = place
    return drawn


def _tracked(size: int) -> int:
    """Return the number of tokens per pattern database: at most 5, and fewer for large rings."""
    return max(count for count in range(1, 6) if size**count <= _TABLE)


@functools.lru_cache
def _patterns(size: int, window: int, moves: str) -> tuple[tuple[int, np.ndarray], ...]:
    """Build pattern databases that together cover all tokens.

    A pattern database is a pair (first token, flat table) for a few successive tokens. The table
    has the fewest actions that bring these tokens to their places.
    """
    puzzle, count = TopSpin(size=size, window=window, moves=moves), _tracked(size)
    goes = np.argsort(puzzle.source, axis=1)
    cells = np.arange(size)
    firsts = sorted({min(first, size - count) for first in range(0, size, count)})
    return tuple(
        (first, groups.distances(goes, cells[first : first + count], cells).reshape(-1))
        for first in firsts
    )
