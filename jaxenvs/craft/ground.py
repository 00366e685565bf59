"""The map during a step.

The rules of the game read and write single cells. A read already sees earlier writes of the step,
but the map itself changes only when the stage `plants.grow` (`plants.grow_in_light` in the full
game) applies all writes together. A cell of Classic's map is a block. In the full game a cell is a
byte: the block in the bits BLOCK, the bit ITEM if a ladder or a torch lies on the cell, and the bit
LIT if the cell is lit.
"""

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8

from .compiler.barriers import materialised
from .compiler.once import once_joined

BLOCK_BITS, BLOCK, ITEM, LIT = 6, 63, 64, 128

DARKEST = 0.05  # a cell is visible if its light, which is 0 to 1, exceeds this value

# `is_in` stores a set of blocks as int32 masks with one bit per block. This is the number of blocks
# per mask; the sign bit is not used.
_BITS = 31
_ONES = (1 << _BITS) - 1
_PATCH = np.indices((9, 9), np.int32).reshape(2, -1) - 4
_FAR = np.sqrt((_PATCH**2).sum(0))
# Largest squared distance, in squared cells, at which a torch makes a cell visible. A torch reaches
# distances below 4.75 cells, and 4.75 squared is 22.6.
_REACH = 22
_LIGHT = _PATCH[:, (_PATCH**2).sum(0) <= _REACH]
_SHINE = np.round((1 - _FAR / 5).clip(0, 1) * 255).astype(np.int32)


class Ground:
    """A square map, and the writes of this step that are not yet applied to it, in order.

    In the full game, `cells` has the maps of all floors; rows and columns refer to the map of
    `floor`.
    """

    def __init__(
        self,
        cells: UInt8[Array, "*floors size size"],
        floor: Any = 0,
        writes: tuple[tuple[Array, Array], ...] = (),
    ) -> None:
        self.cells, self.floor, self.writes = cells, floor, writes

    @property
    def size(self) -> int:
        """Number of cells along a side of the map."""
        return self.cells.shape[-1]

    @property
    def has_floors(self) -> bool:
        """True for a map of the full game, whose cells have the bits ITEM and LIT."""
        return self.cells.ndim == 3

    def block_of(self, cell: Array) -> Array:
        """Return the block in a cell's value; in the full game the value has two more bits."""
        return cell & BLOCK if self.has_floors else cell

    def marks_of(self, cell: Array) -> Array:
        """Return 1 if an item lies on the cell, plus 2 if the cell is lit; 0 in Classic.

        `cell` is the value that the map stores, whose bits ITEM and LIT are above the block.
        """
        return cell >> BLOCK_BITS if self.has_floors else jnp.int32(0)

    def inside(self, row: Array, column: Array) -> Bool[Array, "*cells"]:
        """Return whether a cell is on the map."""
        return (row >= 0) & (row < self.size) & (column >= 0) & (column < self.size)

    def cell(self, row: Array, column: Array) -> Int32[Array, ""]:
        """Return the value that the map stores for a cell, after the writes of this step so far.

        In Classic the value is a block, in the full game a byte, see the module's docstring.

        Beyond the border, return what Craftax reads there: for the row above the map, the last row;
        for the column left of the map, the last column; beyond the lower or right border, the
        nearest cell.
        """
        index = self.index(self._wrapped(row), self._wrapped(column))
        cell = self.at(index)
        if not self.has_floors:
            # The barrier makes XLA read the map here, before the writes of the step. A kernel that
            # read the map after the writes would force XLA to copy the old map. In the full game,
            # `compiler.edges.repack` separates reads from writes instead.
            cell = materialised(cell)
        for written, new in self.writes:
            cell = jnp.where(written == index, new, cell)
        return cell

    def block(self, row: Array, column: Array) -> Int32[Array, ""]:
        """Return the block of a cell, after the writes of this step so far.

        Beyond the border, it is the block that Craftax reads there, see `cell`.
        """
        return self.block_of(self.cell(row, column))

    def nearest(self, rows: Array, columns: Array) -> Int32[Array, "*cells"]:
        """Return the values that the map stores for cells, without the writes of this step.

        For a position beyond the border, return the value of the nearest cell on the map.
        """
        index = self.index(rows.clip(0, self.size - 1), columns.clip(0, self.size - 1))
        return self.at(index)

    def put(self, row: Array, column: Array, cell: Any, when: Array) -> "Ground":
        """Return this `Ground` with one more pending write: `cell` as the value of (row, column).

        The write has no effect if `when` is False. The method `cell` reads the new value at once,
        but the map changes only in `written`.

        As in Craftax, a negative row or column counts from the end of the map. Writes beyond the
        lower or right border are dropped.
        """
        row, column = (jnp.where(x < 0, x + self.size, x) for x in (row, column))
        index = jnp.where(when & self.inside(row, column), self.index(row, column), self._nowhere)
        write = (index, jnp.asarray(cell, jnp.int32))
        return Ground(self.cells, self.floor, (*self.writes, write))

    def lit(self, row: Array, column: Array, when: Array) -> tuple["Ground", tuple[Array, Array]]:
        """Light the cells around a torch if `when` is True, except on floor 0, which is always lit.

        The torch is at (row, column). Return two values. The first is a `Ground` with the same
        pending writes, of which those to cells near the torch now also set LIT. The second is the
        argument `more` of `written`: the flat indices and the new values of all other cells near
        the torch.
        """
        shines = when & (jnp.asarray(self.floor) != 0)
        rows, columns = row + _LIGHT[0], column + _LIGHT[1]
        cells = self.nearest(rows, columns) | LIT
        where = shines & self.inside(rows, columns)
        index = jnp.where(where, self.index(rows, columns), self._nowhere)
        writes = []
        for written, cell in self.writes:
            index = jnp.where(index == written, self._nowhere, index)
            down, right = jnp.divmod(written % (self.size * self.size), self.size)
            far = jnp.square(down - row) + jnp.square(right - column)
            light = jnp.where(shines & (far <= _REACH), LIT, 0)
            writes.append((written, cell | light))
        return Ground(self.cells, self.floor, tuple(writes)), (index, cells)

    def with_light(self, row: Array, column: Array, when: Array) -> "Ground":
        """If `when` is True, light the cells around a torch at (row, column); return the `Ground`.

        Floor 0 is always lit and stays unchanged. Call this method after `written`, when all writes
        of the step are in the map, because this method changes the map directly and ignores pending
        writes.
        """
        shines = when & (jnp.asarray(self.floor) != 0)
        rows, columns = row + _LIGHT[0], column + _LIGHT[1]
        where = shines & self.inside(rows, columns)
        index = jnp.where(where, self.index(rows, columns), self._nowhere)
        cells = self.cells.reshape(-1).at[index].apply(_lit, mode="drop")
        return Ground(cells.reshape(self.cells.shape), self.floor)

    def written(
        self,
        rows: Array,
        columns: Array,
        block: int,
        when: Array,
        more: tuple[Array, Array] | None = None,
    ) -> Array:
        """Return the map after all writes of the step.

        After the pending writes, `block` is put on the cells (`rows`, `columns`) of floor 0 where
        `when` is True. `more` is the second result of `lit`: flat indices and new values of further
        cells, to which no other write of the step may go.
        """
        last = jnp.where(when, rows * self.size + columns, self._nowhere)
        cell = block | LIT if self.has_floors else block
        indices, cells = [], []
        # If a cell is written several times, only the last write is kept.
        for i, (index, new) in enumerate(self.writes):
            index, new = once_joined(index, new, bits=(16, 8))
            again = (last == index).any()
            for later, _ in self.writes[i + 1 :]:
                again = again | (later == index)
            indices.append(jnp.where(again, self._nowhere, index))
            cells.append(new)
        parts = [(jnp.stack(indices), jnp.stack(cells)), (last, jnp.full_like(last, cell))]
        parts += [] if more is None else [more]
        where, new = (jnp.concatenate(part) for part in zip(*parts, strict=True))
        new = new.astype(jnp.uint8)
        # Without the barrier, XLA would fuse reads of the old map into the scatter.
        # The scatter then could not update the map in place.
        # Each thread of the scatter would also recompute the index of the cell that it writes.
        where, new = materialised((where, new))
        return self.cells.reshape(-1).at[where].set(new, mode="drop").reshape(self.cells.shape)

    @property
    def _nowhere(self) -> int:
        return self.cells.size

    def at(self, index: Array) -> Int32[Array, "*cells"]:
        """Return the values that the map stores for cells, given their flat indices.

        The writes of this step are not included. All indices must be on the map.
        """
        # Use unsigned indices. For signed indices, XLA adds instructions that let negative indices
        # count from the end.
        index = index.astype(jnp.uint32)
        return self.cells.reshape(-1).at[index].get(mode="promise_in_bounds").astype(jnp.int32)

    def index(self, row: Array, column: Array) -> Int32[Array, "*cells"]:
        """Return the index of a cell in the flattened map; the full game's map has all floors."""
        index = row * self.size + column
        return index + self.floor * (self.size * self.size) if self.has_floors else index

    def _wrapped(self, x: Array) -> Array:
        return jnp.where(x < 0, x + self.size, x).clip(0, self.size - 1)


def _lit(cell: Any) -> Any:
    return cell | LIT


def shone(light: UInt8[Array, "floors size size"], at: tuple[Array, ...], when: Array) -> Array:
    """Return the light of all cells (0 to 255), raised around a new torch if `when` is True.

    `at` is the floor, row and column of the torch.
    """
    floor, row, column = at
    ground = Ground(light, floor)
    rows, columns = row + _PATCH[0], column + _PATCH[1]
    new = jnp.minimum(ground.nearest(rows, columns) + _SHINE, 255).astype(jnp.uint8)
    index = (floor * ground.size + rows) * ground.size + columns
    index = jnp.where(when & ground.inside(rows, columns), index, light.size)
    return light.reshape(-1).at[index].set(new, mode="drop").reshape(light.shape)


def is_in(block: Array, blocks: Iterable[int]) -> Bool[Array, "*shape"]:
    """Return whether a block is one of `blocks`, by a bit test in one or two constant bit masks."""
    bits, number = sum(1 << int(b) for b in set(blocks)), block.astype(jnp.int32)
    word = jnp.int32(bits & _ONES)
    if bits > _ONES:
        word = jnp.where(number < _BITS, word, jnp.int32(bits >> _BITS))
        number = jnp.where(number < _BITS, number, number - _BITS)
    # The shift moves all bits out of the word if the block is beyond this word; the result is 0.
    return ((word >> number) & 1) != 0


def span(blocks: Iterable[int]) -> tuple[int, int]:
    """Encode a set of blocks as a pair (low, mask); `low` is the lowest block of the set.

    Bit i of `mask` is 1 if the set contains the block number `low + i`.
    """
    low = min(int(b) for b in blocks)
    return low, sum(1 << (int(b) - low) for b in set(blocks))


def in_span(block: Int32[Array, "*shape"], low: Any, bits: Any) -> Int32[Array, "*shape"]:
    """Return 1 where a block is in the set that `span` encoded as `low` and `bits`, else 0.

    A block outside the range of the mask gives 0, because a shift by 32 or more yields 0.
    """
    place = (block - low).astype(jnp.uint32)
    return ((jnp.asarray(bits, jnp.uint32) >> place) & 1).astype(jnp.int32)


def codes(
    blocks: Int32[Array, "*shape"], first: Iterable[int], second: Iterable[int]
) -> Int32[Array, "*shape"]:
    """Return, for each block, 1 if it is in `first`, plus 2 if it is in `second`.

    If both sets fit into one constant word, the result is computed by a shift of this word, which
    uses `blocks` only once. XLA on a GPU writes an array that is used twice to memory and reads it
    back.
    """
    sets = [set(first), set(second)]
    if max(int(b) for b in sets[0] | sets[1]) < _BITS // 2:
        table = sum(1 << (2 * int(b) + bit) for bit, those in enumerate(sets) for b in those)
        return (jnp.int32(table) >> (2 * blocks)) & 3
    bits = [is_in(blocks, those).astype(jnp.int32) << bit for bit, those in enumerate(sets)]
    return bits[0] | bits[1]


def cells_of(block: Array, item: Array, light: Array) -> UInt8[Array, "floors size size"]:
    """Return the full game's map bytes from blocks, items (`Item`) and light (0 to 1)."""
    lies = jnp.where(item != 0, ITEM, 0)
    lit = jnp.where(light > DARKEST, LIT, 0)
    return (block.astype(jnp.int32) | lies | lit).astype(jnp.uint8)
