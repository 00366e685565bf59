"""Who is where in the view, as words of each environment: the form for GPUs of `sight.who`.

A GPU's kernel repeats its arithmetic for every cell. So the slots of mobs and projectiles come
first, one thread for an environment, and a barrier keeps them: what a cell does is then a load and
a few instructions for each word.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from .state import World
from .tables import Rules

MARK_BITS = 25  # of a word of `spots`, below the cell
_NOWHERE = 127  # in place of a cell: views have fewer
_WORD = 32  # cells in a word of `masks`


class Place(NamedTuple):
    """Where the player is."""

    row: Any
    column: Any
    floor: Any = 0


Groups = Sequence[tuple[Sequence[Any], int]]  # slots, and how many types they have, as in `who`


def cells_in_row(
    rules: Rules, cells: UInt8[Array, "*floors size size"], place: Place
) -> tuple[Int32[Array, " cells"], Bool[Array, " cells"], Array, Array]:
    """Cells of the map in the view, which of them are on it, and their rows and columns: what
    `sight.around` returns, in one row, for a rectangle would cost a division."""
    (height, width), size = rules.view, cells.shape[-1]
    number = np.arange(height * width, dtype=np.int32)
    rows = place.row - height // 2 + number // width
    columns = place.column - width // 2 + number % width
    # Without a sign one comparison is enough, and there are no indices from the end to think of.
    inside = (rows.astype(jnp.uint32) < size) & (columns.astype(jnp.uint32) < size)
    index = (place.floor * size + rows.clip(0, size - 1)) * size + columns.clip(0, size - 1)
    seen = cells.reshape(-1).at[index.astype(jnp.uint32)].get(mode="promise_in_bounds")
    return seen.astype(jnp.int32), inside, rows, columns


def masks(rules: Rules, world: World, groups: Groups) -> list[list[UInt32[Array, ""]]]:
    """For each type of each group the cells of the view where it is seen: bits of words."""
    count = -(-rules.view[0] * rules.view[1] // _WORD)
    channels = []
    for slots, types in groups:
        group = [[jnp.uint32(0)] * count for _ in range(types)]
        for slot in slots:
            cell, seen = _place(rules, world, slot)
            for type, words in enumerate(group):
                is_type = True if types == 1 else slot.type == type
                for i, word in enumerate(words):  # a shift beyond a word leaves nothing
                    bit = jnp.uint32(1) << (cell - i * _WORD).astype(jnp.uint32)
                    bit = jnp.where(is_type, bit, 0)
                    words[i] = (word & ~bit) | jnp.where(seen, bit, 0)
        channels += group
    return channels


def unmasked(channels: Sequence[Sequence[Array]], cells: int) -> Int32[Array, " cells"]:
    """Undo `masks`: for each cell a bit for each channel."""
    place = np.arange(_WORD, dtype=np.uint32)
    parts = []
    for i, words in enumerate(zip(*channels, strict=True)):
        bits = [((word >> place) & 1) << np.uint32(n) for n, word in enumerate(words)]
        parts.append(sum(bits[1:], bits[0])[: cells - i * _WORD])
    return jnp.concatenate(parts).astype(jnp.int32)


def spots(rules: Rules, world: World, groups: Groups, marks: Any) -> list[UInt32[Array, ""]]:
    """A word for each slot: its cell in the view above MARK_BITS bits of a mark, nowhere if unseen.

    `marks` makes the mark from the slot's type and the number of types before its group's. Of slots
    of a group and type on one cell the last is seen if it lives, as in `sight.who`.
    """
    words, first = [], 0
    for slots, types in groups:
        places = [_place(rules, world, slot) for slot in slots]
        for i, (slot, (cell, seen)) in enumerate(zip(slots, places, strict=True)):
            for later, (other, _) in zip(slots[i + 1 :], places[i + 1 :], strict=True):
                seen = seen & ~((other == cell) & (later.type == slot.type))
            mark = marks(slot.type, first).astype(jnp.uint32)
            words.append((jnp.where(seen, cell, _NOWHERE).astype(jnp.uint32) << MARK_BITS) | mark)
        first += types
    return words


def marks_at(spots: Sequence[Array], cells: int) -> list[UInt32[Array, " cells"]]:
    """The mark of each spot in its cell, 0 in the others."""
    number = np.arange(cells, dtype=np.uint32) << np.uint32(MARK_BITS)
    found = [spot ^ number for spot in spots]  # a mark alone where the cells are the same
    return [jnp.where(mark < (1 << MARK_BITS), mark, jnp.uint32(0)) for mark in found]


def _place(rules: Rules, world: World, slot: Any) -> tuple[Int32[Array, ""], Bool[Array, ""]]:
    """The cell of the view where a slot is written, and whether it is seen there, see `sight.who`.

    Dead slots and those beyond the upper or left edge are written too.
    """
    height, width = rules.view
    row, column = slot.row - (world.row - height // 2), slot.column - (world.column - width // 2)
    seen = slot.alive & (row >= 0) & (row < height) & (column >= 0) & (column < width)
    row = jnp.where(row < 0, row + height, row)
    column = jnp.where(column < 0, column + width, column)
    near = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    return jnp.where(near, row * width + column, _NOWHERE), seen
