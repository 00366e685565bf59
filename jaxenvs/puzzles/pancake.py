"""Pancake sorting (J. Goodman 1975): sort a stack by reversing its upper part."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..core import bits, checks
from ..core.controls import Controls, Place, Pointing, pointed
from ..core.random import Key, permutation, words
from ..core.registry import register
from ..core.spaces import Box, Space
from . import sprites
from .puzzle import Move, Puzzle, PuzzleLevel, PuzzleState

LARGEST = 64


@register("Puzzle-Pancake-10-v0", size=10, representative=True)
@register("Puzzle-Pancake-20-v0", size=20)
class Pancake(Puzzle):
    """Sort a stack of pancakes by size; a flip reverses any number of pancakes from the top.

    Actions: action a flips the upper a + 2 pancakes; always legal.
    Observation: uint8 (size,), widths 1 to size from the top down.
    Reward: 1 when the stack is sorted with the smallest on top. Episode ends: when it is sorted, or
        at the time limit.
    State: the board is the same array as the observation.
    """

    size: int = 10  # number of pancakes
    # Number of random flips that make a level from the sorted stack.
    # None: all stacks are equally likely.
    scramble: int | None = None

    legend: ClassVar[str] = "The widths of the pancakes, from the top down"

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        checks.integer_field("Pancake", "size", self.size, 2, LARGEST)
        if self.scramble is not None:
            checks.integer_field("Pancake", "scramble", self.scramble, 0)

    @property
    def action_names(self) -> tuple[str, ...]:
        """`flip n`, where n is the number of pancakes that the action flips."""
        return tuple(f"flip {count}" for count in range(2, self.size + 1))

    @property
    def controls(self) -> Controls:
        """A click on a pancake flips it together with all pancakes above it.

        Clicks on the top pancake and on the plate do nothing.
        """

        def flipped(state: Any, place: Place) -> int | None:
            return place[0] - 1 if 0 < place[0] < self.size else None

        stack = Pointing(self.size + 1, 1, flipped, "flip from here up")
        return pointed(self.action_names, stack)

    @property
    def inverse(self) -> np.ndarray:
        """The action that undoes each flip: the same flip."""
        return np.arange(self.size - 1, dtype=np.int32)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (index, meaning) that document the values of the observation."""
        return (("`[place]`", "width of the pancake there, from 1; place 0 is on top"),)

    @property
    def observation_space(self) -> Space:
        """The width of each pancake, from the top down, uint8 (size,)."""
        return Box(1, self.size, (self.size,), np.uint8)

    def apply(self, instance: Any, board: UInt8[Array, " size"], action: Array) -> Move:
        """Flip the upper `action + 2` pancakes."""
        place = np.arange(self.size, dtype=np.int32)
        source = jnp.where(place <= action + 1, action + 1 - place, place)
        return Move(board[source], jnp.ones((), jnp.float32), jnp.ones((), jnp.bool_))

    def is_goal(self, instance: Any, board: UInt8[Array, " size"]) -> Bool[Array, ""]:
        """Return whether the stack is sorted."""
        return (board == self.goal(instance)).all()

    def goal(self, instance: Any) -> UInt8[Array, " size"]:
        """Return the sorted stack, with the smallest pancake on top."""
        return jnp.arange(1, self.size + 1, dtype=jnp.uint8)

    def pack(self, board: UInt8[Array, " size"]) -> UInt32[Array, " words"]:
        """Encode the stack in uint32 words; all widths get the same number of bits."""
        return bits.pack(board - np.uint8(1), self._bits)

    def unpack(self, words: UInt32[Array, " words"]) -> UInt8[Array, " size"]:
        """Return the stack that `pack` encoded in these words."""
        return bits.unpack(words, self.size, self._bits) + np.uint8(1)

    @property
    def _bits(self) -> int:
        return (self.size - 1).bit_length()

    def observe_board(self, instance: Any, board: UInt8[Array, " size"]) -> UInt8[Array, " size"]:
        """Return the board: the widths of the pancakes from the top down."""
        return board

    def heuristic(self, instance: Any, board: UInt8[Array, " size"]) -> Float32[Array, ""]:
        """Return the number of gaps: adjacent pairs whose widths differ by more than one.

        The plate below the stack counts as a pancake of width size + 1. The sorted stack has no
        gap, and a flip closes at most one, because it changes only one adjacent pair (M. Helmert,
        "Landmark heuristics for the pancake problem", 2010).
        """
        plate = jnp.full((1,), self.size + 1, jnp.int32)
        stack = jnp.concatenate([board.astype(jnp.int32), plate])
        return (abs(stack[1:] - stack[:-1]) != 1).sum(dtype=jnp.int32).astype(jnp.float32)

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Draw a stack; all stacks are equally likely unless `scramble` is set.

        With `scramble`, make that many random flips of the sorted stack, none of which undoes the
        previous one.
        """
        if self.scramble is not None:
            return PuzzleLevel(board=self.walk(key, (), self.goal(()), self.scramble))
        board = permutation(words(key, self.size)).astype(jnp.uint8) + np.uint8(1)
        return PuzzleLevel(board=board)

    def read_level(self, text: str) -> PuzzleLevel:
        """Parse the widths from the top down.

        Raises `ValueError` unless the widths are the numbers from 1 to `size`, each once.
        """
        names = text.split()
        if sorted(names) != sorted(str(width) for width in range(1, self.size + 1)):
            raise ValueError(
                f"{self.name}: {' '.join(names)!r} is not a stack; "
                f"give the widths 1 to {self.size}, each once, from the top down"
            )
        return PuzzleLevel(board=jnp.asarray(np.array(names, np.uint8)))

    def written(self, boards: np.ndarray) -> list[str]:
        """Write the widths in the format of `read_level`."""
        return [" ".join(map(str, board)) for board in boards.tolist()]

    def tiles(self, state: PuzzleState) -> Int32[Array, "rows columns"]:
        """Return the picture as sprite indices: one row per pancake, and a last row for the plate.

        A pancake covers two tiles per unit of width. Index 0 is nothing, and 1 is the plate. Each
        pancake, from the smallest, has the next three indices: left end, middle, right end.
        """
        width = state.board.astype(jnp.int32)[:, None]
        column = np.arange(2 * self.size, dtype=np.int32)
        left, right = self.size - width, self.size + width - 1
        part = jnp.where(column == left, 0, jnp.where(column == right, 2, 1))
        inside = (column >= left) & (column <= right)
        stack = jnp.where(inside, 2 + 3 * (width - 1) + part.astype(jnp.int32), 0)
        return jnp.concatenate([stack, jnp.ones((1, 2 * self.size), jnp.int32)])

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return one sprite for each index that `tiles` uses.

        The shape is (2 + 3 * size, tile_size, tile_size, 3), uint8.
        """
        return sprites.pancakes(tile_size, self.size)
