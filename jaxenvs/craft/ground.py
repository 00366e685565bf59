"""The map during a step: reads see the step's writes, which are made together at its end."""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from ..core.bits import kept

_BITS = 31  # blocks in a word of a set: without the sign
_ONES = (1 << _BITS) - 1


class Ground:
    """A square map of blocks and the writes of this step, the latest last."""

    def __init__(
        self,
        cells: UInt8[Array, "size size"],
        writes: tuple[tuple[Array, Array], ...] = (),
    ) -> None:
        self.cells, self.writes = cells, writes

    @property
    def size(self) -> int:
        """Cells on a side."""
        return self.cells.shape[0]

    def inside(self, row: Array, column: Array) -> Bool[Array, "*cells"]:
        """Whether a cell is on the map."""
        return (row >= 0) & (row < self.size) & (column >= 0) & (column < self.size)

    def block(self, row: Array, column: Array) -> Int32[Array, ""]:
        """Block of a cell; beyond the border as upstream reads: the first row or column beyond
        the upper or left border is the last one of the map, else the nearest cell counts."""
        index = self._index(self._wrapped(row), self._wrapped(column))
        block = self.cells.reshape(-1).at[index].get(mode="promise_in_bounds")
        # Read once: a kernel after the step's writes that read again would need the old map.
        block = jax.lax.optimization_barrier(block).astype(jnp.int32)
        for written, new in self.writes:
            block = jnp.where(written == index, new, block)
        return block

    def nearest(self, rows: Array, columns: Array) -> Int32[Array, "*cells"]:
        """Blocks of the nearest cells of the map, before the step's writes."""
        index = self._index(rows.clip(0, self.size - 1), columns.clip(0, self.size - 1))
        return self.cells.reshape(-1).at[index].get(mode="promise_in_bounds").astype(jnp.int32)

    def put(self, row: Array, column: Array, block: Any, when: Array) -> "Ground":
        """Write a block if `when`; a cell beyond the border as upstream writes, see `block`, but
        what is farther is dropped."""
        row, column = (jnp.where(x < 0, x + self.size, x) for x in (row, column))
        index = jnp.where(when & self.inside(row, column), self._index(row, column), self._nowhere)
        write = (index, jnp.asarray(block, jnp.int32))
        return Ground(self.cells, (*self.writes, write))

    def written(self, rows: Array, columns: Array, block: int, when: Array) -> Array:
        """Return the map with all writes made, and this block on the cells of the arrays last."""
        last = jnp.where(when, self._index(rows, columns), self._nowhere)
        indices, blocks = [], []
        for i, (index, new) in enumerate(self.writes):  # of writes to one cell the last counts
            index, new = kept((index, 16), (new, 6))
            again = (last == index).any()
            for later, _ in self.writes[i + 1 :]:
                again = again | (later == index)
            indices.append(jnp.where(again, self._nowhere, index))
            blocks.append(new)
        where = jnp.concatenate([jnp.stack(indices), last])
        new = jnp.concatenate([jnp.stack(blocks), jnp.full_like(last, block)]).astype(jnp.uint8)
        # As data behind a barrier: else the scatter reads the old map itself, and must copy it.
        where, new = jax.lax.optimization_barrier((where, new))
        return self.cells.reshape(-1).at[where].set(new, mode="drop").reshape(self.cells.shape)

    @property
    def _nowhere(self) -> int:
        return self.size * self.size

    def _index(self, row: Array, column: Array) -> Array:
        return row * self.size + column

    def _wrapped(self, x: Array) -> Array:
        return jnp.where(x < 0, x + self.size, x).clip(0, self.size - 1)


def is_in(block: Array, blocks: Iterable[int]) -> Bool[Array, "*shape"]:
    """Whether a block is one of these: a bit of a constant, of two words where one is too small."""
    bits, number = sum(1 << int(b) for b in set(blocks)), block.astype(jnp.int32)
    word = jnp.int32(bits & _ONES)
    if bits > _ONES:
        word = jnp.where(number < _BITS, word, jnp.int32(bits >> _BITS))
        number = jnp.where(number < _BITS, number, number - _BITS)
    return ((word >> number) & 1) != 0  # beyond the word there are only zeros


def codes(
    blocks: Int32[Array, "*shape"], first: Iterable[int], second: Iterable[int]
) -> Int32[Array, "*shape"]:
    """Two bits a block: whether it is one of the first, and whether it is one of the second.

    Where one word is enough each block is used once: with two uses a GPU would write it and read
    it again.
    """
    sets = [set(first), set(second)]
    if max(int(b) for b in sets[0] | sets[1]) < _BITS // 2:
        table = sum(1 << (2 * int(b) + bit) for bit, those in enumerate(sets) for b in those)
        return (jnp.int32(table) >> (2 * blocks)) & 3
    bits = [is_in(blocks, those).astype(jnp.int32) << bit for bit, those in enumerate(sets)]
    return bits[0] | bits[1]
