"""GPU version of `sight.who`: the mobs and projectiles on each cell of the player's view.

A kernel over the cells of the view would compute the positions of all mobs in the thread of every
cell. Therefore one thread per environment first computes the cell of the view for each slot (of a
mob or projectile), and packs these cells into words. After a barrier, the thread of each cell loads
the words and spends only a few instructions on each word.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from .state import World
from .tables import Rules

# Number of low bits that encode the mob or projectile, in a word that `spots` returns. The higher
# bits are the index of its cell in the view.
MARK_BITS = 25
_NOWHERE = 127  # cell index that stands for "not in the view"; views have fewer cells
_WORD = 32  # number of cells whose bits share a word, in the words that `masks` returns


class Corner(NamedTuple):
    """Map position of the view's upper left cell."""

    row: Any
    column: Any
    floor: Any


# Pairs (slots, number of types), as in `sight.who`. The slots of a pair are all slots for the mobs
# of one role, or for projectiles. The number of types counts the types that they may have.
Groups = Sequence[tuple[Sequence[Any], int]]


def padded(rules: Rules) -> int:
    """Return the number of cells of the view, rounded up to a multiple of four.

    On a GPU, a thread computes four consecutive cells of a batch. Because the number is a multiple
    of four, the four cells belong to the same environment, so the thread loads the words of only
    one environment.
    """
    return -(-rules.view[0] * rules.view[1] // 4) * 4


def corner(rules: Rules, world: World) -> Corner:
    """Return the map position of the view's upper left cell."""
    height, width = rules.view
    floor = world.floor if rules.is_full else 0
    return Corner(world.row - height // 2, world.column - width // 2, floor)


def cells_in_row(
    rules: Rules, cells: UInt8[Array, "*floors size size"], corner: Corner
) -> tuple[Int32[Array, " cells"], Bool[Array, " cells"], Array, Array]:
    """Do the work of `sight.around` on a GPU: read the map at the cells of the view.

    Return four flat arrays with `padded(rules)` entries: the value that the map stores for each
    cell, whether the cell is on the map, its map row and its map column.
    """
    (_, width), size = rules.view, cells.shape[-1]
    number = np.arange(padded(rules), dtype=np.int32)
    rows, columns = corner.row + number // width, corner.column + number % width
    # With unsigned integers, one comparison checks both ends of a range.
    # For signed indices, XLA also adds instructions that let negative ones count from the end.
    inside = (rows.astype(jnp.uint32) < size) & (columns.astype(jnp.uint32) < size)
    index = (corner.floor * size + rows.clip(0, size - 1)) * size + columns.clip(0, size - 1)
    seen = cells.reshape(-1).at[index.astype(jnp.uint32)].get(mode="promise_in_bounds")
    return seen.astype(jnp.int32), inside, rows, columns


def masks(rules: Rules, world: World, groups: Groups) -> list[list[UInt32[Array, ""]]]:
    """Return one bit mask for each type of mob or projectile, over the cells of the view.

    The bit of a cell is set in the mask of a type if a mob or projectile of the type is visible on
    the cell. Each mask is a list of 32-bit words. The masks are in the order of the types in
    `groups`, see `sight.who`.
    """
    count = -(-rules.view[0] * rules.view[1] // _WORD)
    channels = []
    for slots, types in groups:
        group = [[jnp.uint32(0)] * count for _ in range(types)]
        for slot in slots:
            cell, seen = _place(rules, world, slot)
            for type, words in enumerate(group):
                is_type = True if types == 1 else slot.type == type
                # A shift by 32 or more yields 0, so a cell that belongs to another word sets no bit
                # in this word.
                for i, word in enumerate(words):
                    bit = jnp.uint32(1) << (cell - i * _WORD).astype(jnp.uint32)
                    bit = jnp.where(is_type, bit, 0)
                    words[i] = (word & ~bit) | jnp.where(seen, bit, 0)
        channels += group
    return channels


def unmasked(rules: Rules, channels: Sequence[Sequence[Array]]) -> Int32[Array, " cells"]:
    """Convert the output of `masks` to one integer per cell of the view.

    Bit i of a cell's integer is the cell's bit in mask i.
    """
    number = np.arange(padded(rules), dtype=np.uint32)
    bits = []
    for channel, words in enumerate(channels):
        word = words[0]
        for i, later in enumerate(words[1:], 1):
            word = jnp.where(number < i * _WORD, word, later)
        bits.append(((word >> (number % _WORD)) & 1) << np.uint32(channel))
    return sum(bits[1:], bits[0]).astype(jnp.int32)


def spots(rules: Rules, world: World, groups: Groups, marks: Any) -> list[UInt32[Array, ""]]:
    """Return one word per slot: a mark for its mob or projectile, and the index of its cell.

    The mark, an integer that encodes the mob or projectile, is in the low MARK_BITS bits. The index
    of the cell in the view is in the higher bits. The mark is `marks(type, first)`, where `first`
    is the number of types in earlier groups. If slots of the same group and type share a cell, a
    later slot hides the earlier ones, as in `sight.who`.
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


def marks_at(rules: Rules, spots: Sequence[Array]) -> list[UInt32[Array, " cells"]]:
    """Return, for each word that `spots` returned, an array over the cells of the view.

    The array has the word's mark at the cell where the mob or projectile is visible, and 0 at all
    other cells.
    """
    number = np.arange(padded(rules), dtype=np.uint32) << np.uint32(MARK_BITS)
    # In `number` and in the words of `spots`, the high bits are the index of a cell. If a word
    # belongs to the cell, XOR clears the high bits and leaves the mark. Otherwise some high bit is
    # 1, so the result is at least 1 << MARK_BITS.
    found = [spot ^ number for spot in spots]
    return [jnp.where(mark < (1 << MARK_BITS), mark, jnp.uint32(0)) for mark in found]


def _place(rules: Rules, world: World, slot: Any) -> tuple[Int32[Array, ""], Bool[Array, ""]]:
    """Return the view cell to which `sight.who` writes a slot, and whether the slot is visible.

    The cell is an index; _NOWHERE stands for no cell. As in Craftax, a slot at most one view height
    above the view gets the cell one view height lower; a slot at most one view width left of
    the view gets the cell one view width farther right. Slots outside the view and dead slots are
    not visible, but `sight.who` clears the bit of their type in their cell.
    """
    (height, width), first = rules.view, corner(rules, world)
    row, column = slot.row - first.row, slot.column - first.column
    seen = slot.alive & (row >= 0) & (row < height) & (column >= 0) & (column < width)
    row = jnp.where(row < 0, row + height, row)
    column = jnp.where(column < 0, column + width, column)
    near = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    return jnp.where(near, row * width + column, _NOWHERE), seen
