"""Ranks of the rows that a mask selects, by reductions alone: a few small kernels on a GPU."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from .bits import nth_bit

_WORD = 32  # rows in a word, and words in a block
_BLOCK = _WORD * _WORD
_PLACE = np.arange(_WORD, dtype=np.int32)


class Ranks(NamedTuple):
    """The selected rows of a mask, counted from 0 in the order of their numbers.

    A prefix sum in two levels: bits of a word, words of a block, blocks of the batch.
    """

    size: int  # rows of the mask
    words: Int32[Array, "blocks 32"]  # a bit for each row
    before: Int32[Array, " blocks"]  # selected rows before the block
    count: Int32[Array, ""]  # selected rows

    @classmethod
    def of(cls, mask: Bool[Array, " rows"]) -> "Ranks":
        """Count the selected rows."""
        size = mask.shape[0]
        bits = jnp.pad(mask, (0, -size % _BLOCK)).reshape(-1, _WORD, _WORD)
        words = (bits.astype(jnp.int32) << _PLACE).sum(axis=2, dtype=jnp.int32)
        # As data: each reduction below would otherwise read the mask again.
        words = jax.lax.optimization_barrier(words)
        of_block = jax.lax.population_count(words).sum(axis=1, dtype=jnp.int32)
        number = np.arange(words.shape[0], dtype=np.int32)
        earlier = number[None, :] < number[:, None]
        before = jnp.where(earlier, of_block[None, :], 0).sum(axis=1, dtype=jnp.int32)
        before, count = jax.lax.optimization_barrier((before, of_block.sum(dtype=jnp.int32)))
        return cls(size, words, before, count)

    def rows(self, ranks: Int32[Array, " slots"]) -> Int32[Array, " slots"]:
        """Return the row of each rank; from `count` on, distinct numbers beyond the last row.

        `ranks` must not be negative.
        """
        block = (self.before[None, :] <= ranks[:, None]).sum(axis=1, dtype=jnp.int32) - 1
        words = self.words.at[block].get(mode="promise_in_bounds")
        rest = ranks - self.before.at[block].get(mode="promise_in_bounds")
        # As data: the search below reads them once for each pair of words.
        words, rest, block = jax.lax.optimization_barrier((words, rest, block))
        ones = jax.lax.population_count(words)
        earlier = _before(ones)
        holds = (earlier <= rest[:, None]) & (rest[:, None] < earlier + ones)

        def held(values: Array) -> Int32[Array, " slots"]:
            return jnp.where(holds, values, 0).sum(axis=1, dtype=jnp.int32)

        bit = nth_bit([held(words)], rest - held(earlier), width=_WORD)
        row = block * _BLOCK + held(jnp.broadcast_to(_PLACE, words.shape)) * _WORD + bit
        beyond = self.size + np.arange(ranks.shape[0], dtype=np.int32)
        return jax.lax.optimization_barrier(jnp.where(ranks < self.count, row, beyond))

    def of_rows(self) -> Int32[Array, " rows"]:
        """Return the rank of each row: the selected rows before it."""
        ones = jax.lax.population_count(self.words)
        before = jax.lax.optimization_barrier(self.before[:, None] + _before(ones))
        lower = np.uint32((1 << _PLACE.astype(np.uint64)) - 1).astype(np.int32)
        inside = jax.lax.population_count(self.words[:, :, None] & lower)
        return (before[:, :, None] + inside).reshape(-1)[: self.size]


def _before(ones: Int32[Array, "rows 32"]) -> Int32[Array, "rows 32"]:
    """Sum of the entries before each entry of a row."""
    earlier = _PLACE[None, :] < _PLACE[:, None]
    return jnp.where(earlier, ones[:, None, :], 0).sum(axis=2, dtype=jnp.int32)
