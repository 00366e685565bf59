"""Dungeons: the floors of the full game that consist of rooms joined by corridors.

Rooms contain torches, chests and fountains. `draw` makes the random draws of all dungeons, and
`make` builds one floor from them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..core.random import below, permutation, uniform
from .full_rows import SIZE
from .tables import Block

ROOMS = 8
# Side of a chunk, in cells; each of the map's 3 x 3 chunks has the corner of at most one room.
CHUNK = 16
MOSSY = 0.1  # probability that a wall has moss, and that a path cell becomes the rare block
TORCH = 128  # bit above the block in a cell's byte; it is set if the cell has a torch
_B = Block


class Dungeon(NamedTuple):
    """Settings of a floor that consists of rooms and corridors."""

    floor: int
    special: Block  # special block in the first room, such as an enchantment table
    fountain: Block = _B.FOUNTAIN  # block that stands for a fountain; half of the rooms have one
    rare: Block = _B.PATH  # block that replaces random path cells
    ladder: Block = _B.PATH  # block on which the ladders stand
    light: float = 1.0


DUNGEONS = (
    Dungeon(floor=1, special=_B.PATH),
    Dungeon(floor=3, special=_B.ENCHANTMENT_TABLE_ICE, fountain=_B.WATER, rare=_B.WATER),
    Dungeon(floor=4, special=_B.ENCHANTMENT_TABLE_FIRE),
)
COLUMNS = {
    name: np.array([getattr(row, name) for row in DUNGEONS], np.int32)
    for name in ("special", "fountain", "rare")
}


class Rooms(NamedTuple):
    """Random draws of a dungeon's rooms and corridors. Pairs are (rows, columns).

    A corner means the upper left corner. Chest and fountain are inside the room, 1 to size - 2
    cells from its corner.
    """

    size: Int32[Array, "*floors rooms 2"]  # height and width of a room with its walls: 5 to 9
    # Index, 0 to 8, of the chunk that contains the room's corner; no two rooms share a chunk.
    chunk: Int32[Array, "*floors rooms"]
    # Offset of the room's corner from the chunk's corner, 0 to 10 cells.
    offset: Int32[Array, "*floors rooms 2"]
    chest: Int32[Array, "*floors rooms 2"]  # offset of the chest from the room's corner, in cells
    fountain: Int32[Array, "*floors rooms 2"]  # offset of the fountain from the room's corner
    has_fountain: Bool[Array, "*floors rooms"]
    # Entry i has the room to which the corridor of room i leads: the index of an earlier room, or
    # i, which stands for the last room.
    joins: Int32[Array, "*floors rooms"]


def draw(words: Callable[..., UInt32[Array, "..."]]) -> Rooms:
    """Draw the rooms of all dungeons; `words(*shape)` returns new random uint32s at each call."""
    each = (len(DUNGEONS), ROOMS)
    size = 5 + below(words(*each, 2), 5)
    return Rooms(
        size=size,
        chunk=jax.vmap(permutation)(words(len(DUNGEONS), 9))[:, :ROOMS],
        offset=below(words(*each, 2), 11),
        chest=1 + below(words(*each, 2), size - 2),
        fountain=1 + below(words(*each, 2), size - 2),
        has_fountain=uniform(words(*each)) > 0.5,
        joins=below(words(*each), np.arange(1, ROOMS + 1, dtype=np.int32)),
    )


def make(
    row: dict[str, Any], rooms: Rooms, lot: Float32[Array, "size size"]
) -> UInt8[Array, "size size"]:
    """Build the map of one dungeon floor: rooms with torches, chests and fountains, and corridors.

    `row` has the dungeon's special, fountain and rare blocks. `lot` has one uniform draw per cell,
    which decides whether a wall has moss and whether a path becomes the rare block. `_plan` encodes
    rooms, chests and corridors as words, two per map row and two per map column. The bitwise AND of
    a cell's row word and column word tells what covers the cell.
    """
    rows, columns = (jnp.pad(words, ((0, 0), (1, 1))) for words in _plan(rooms))

    def at(down: int, right: int) -> Array:
        across = columns[:, None, right : right + SIZE]
        return rows[:, down : down + SIZE, None] & across

    room, way = at(1, 1)
    beside = at(0, 1) | at(1, 0) | at(1, 2) | at(2, 1)
    is_open = (room | way) != 0
    is_near = (beside[0] | beside[1]) != 0
    covers, corner, chest, fountain = ((room >> np.uint32(8 * i)) & 0xFF for i in range(4))
    # If several rooms cover a cell, the last of these rooms decides whether the cell is a chest.
    # The last room has the highest bit in `covers`. This bit is also set in `chest` if and only if
    # `chest` exceeds `covers ^ chest`, the bits of the rooms without a chest on the cell.
    map = jnp.where(chest > (covers ^ chest), Block.CHEST, Block.PATH)
    map = jnp.where(fountain > (covers ^ fountain), row["fountain"], map)
    map = jnp.where((way >> np.uint32(16)) != 0, row["special"], map)
    rare, torch = lot < MOSSY, corner != 0
    map = jnp.where((map == Block.PATH) & rare & ~torch, row["rare"], map)
    wall = jnp.where(rare, Block.WALL_MOSS, Block.WALL)
    map = jnp.where(is_open, map, jnp.where(is_near, wall, Block.DARKNESS))
    return (map | jnp.where(torch, TORCH, 0)).astype(jnp.uint8)


def _plan(rooms: Rooms) -> tuple[UInt32[Array, "2 size"], UInt32[Array, "2 size"]]:
    """Return two 32-bit words for every map row and two for every map column.

    Each byte of a word stands for one type of object, and each bit of the byte for one room. The
    bit is 1 if the map row (or column) crosses the object of this type in this room. Bytes of the
    first word: the room, its edge, its chest, its fountain. Bytes of the second word: the section
    of the room's corridor along a map row, the section along a map column, the special block (only
    in the first room).
    """
    grid = (rooms.chunk % 3, rooms.chunk // 3)
    last = jnp.where(rooms.joins < np.arange(ROOMS, dtype=np.int32), rooms.joins, ROOMS - 1)
    line, words = np.arange(SIZE, dtype=np.int32)[:, None], []
    for axis, chunk in enumerate(grid):
        corner = CHUNK * chunk + rooms.offset[:, axis]
        far = corner + rooms.size[:, axis] - 1
        goal = corner[last]
        between = (line >= jnp.minimum(corner, goal)) & (line <= jnp.maximum(corner, goal))
        fountain = (line == corner + rooms.fountain[:, axis]) & rooms.has_fountain
        turns = (line == corner, between) if axis == 0 else (between, line == goal)
        inside = (line >= corner) & (line <= far)
        edge = (line == corner) | (line == far)
        chest = line == corner + rooms.chest[:, axis]
        special = (line == corner + 2) & (np.arange(ROOMS) == 0)
        words.append(jnp.stack([_word(inside, edge, chest, fountain), _word(*turns, special)]))
    return words[0], words[1]


def _word(*flags: Any) -> UInt32[Array, " size"]:
    """Pack boolean arrays into one 32-bit word per map row (or map column).

    Each of `flags` has the shape (map rows, rooms) or (map columns, rooms). Byte i of a word has
    the flags of array i for the map row (or map column), with one bit per room.
    """
    bit = np.arange(ROOMS, dtype=np.uint32)
    bits = [
        jnp.where(flag, np.uint32(1) << (bit + np.uint32(8 * i)), 0) for i, flag in enumerate(flags)
    ]
    return sum(bits[1:], bits[0]).sum(axis=1, dtype=jnp.uint32)
