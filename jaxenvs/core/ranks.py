"""Ranks of the rows that a mask selects: the number of selected rows before each row.

A row is an entry of the mask, one environment of a batch. The ranks are computed by reductions,
which XLA compiles to a few small kernels on a GPU.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

_WORD = 32  # number of rows in a 32-bit integer ("word"), and number of words in a block
_PLACE = np.arange(_WORD, dtype=np.int32)
# Entry i is a bit mask of the bits below bit i.
_LOWER = np.array([(1 << i) - 1 for i in range(_WORD)], np.int32)


class Ranks(NamedTuple):
    """The rows that a mask selects, ranked from 0 in the order of their indices.

    The ranks are a prefix sum over three nested groups: the bits of a word, the words of a block
    and the blocks of the batch.
    """

    size: int  # number of entries of the mask: the number of rows
    words: Int32[Array, "blocks 32"]  # the mask, packed into one bit per row
    # for each word, number of selected rows before the first row of the word
    before: Int32[Array, "blocks 32"]
    total: Int32[Array, ""]  # number of rows that the mask selects

    @classmethod
    def of(cls, mask: Bool[Array, " rows"]) -> "Ranks":
        """Prepare the ranks of the rows (entries of the mask) that `mask` selects.

        The mask is packed into 32-bit words, and the selected rows before each word are counted.
        """
        size = mask.shape[0]
        bits = jnp.pad(mask, (0, -size % (_WORD * _WORD))).reshape(-1, _WORD, _WORD)
        words = (bits.astype(jnp.int32) << _PLACE).sum(axis=2, dtype=jnp.int32)
        # The barrier keeps XLA from fusing this packing into each reduction below. If fused, each
        # reduction would read the whole mask.
        words = jax.lax.optimization_barrier(words)
        ones = jax.lax.population_count(words)
        # `blocks` is a JAX array, so XLA computes it at run time. If it were a NumPy array, the
        # matrix `earlier` (block, block) would be a large constant in the program. `blocks` has one
        # extra index at the end. All blocks come before this index, so the last entry of `sums` is
        # the total.
        blocks = jnp.arange(words.shape[0] + 1, dtype=jnp.int32)
        earlier = blocks[None, :-1] < blocks[:, None]
        of_block = ones.sum(axis=1, dtype=jnp.int32)
        sums = jnp.where(earlier, of_block[None, :], 0).sum(axis=1, dtype=jnp.int32)
        earlier = _PLACE[None, :] < _PLACE[:, None]
        in_block = jnp.where(earlier, ones[:, None, :], 0).sum(axis=2, dtype=jnp.int32)
        before, count = jax.lax.optimization_barrier((sums[:-1, None] + in_block, sums[-1]))
        return cls(size, words, before, count)

    def of_rows(self) -> Int32[Array, " rows"]:
        """Return the rank of each row: the number of selected rows before it."""
        inside = jax.lax.population_count(self.words[:, :, None] & _LOWER)
        return (self.before[:, :, None] + inside).reshape(-1)[: self.size]

    def rows(self) -> Int32[Array, " rows"]:
        """Return the indices of the rows that the mask selects, in ascending order.

        The array is as long as the mask; entries after the last selected row are 0.
        """
        selected = ((self.words[:, :, None] >> _PLACE) & 1).reshape(-1)[: self.size] != 0
        places = jnp.where(selected, self.of_rows(), self.size)
        zeros = jnp.zeros_like(places)
        number = np.arange(self.size, dtype=np.int32)
        return zeros.at[places].set(number, mode="drop", unique_indices=True)


def numbers_from(
    rows: Int32[Array, " rows"], first: Any, slots: int, count: Array
) -> Int32[Array, " slots"]:
    """Return `slots` entries of the list `rows`, from entry `first` on.

    `rows` are row indices, as `Ranks.rows` returns them, of which only the first `count` are valid.
    Each entry beyond these becomes a distinct index beyond the last row, because JAX drops writes
    to such an index.
    """
    slot = np.arange(slots, dtype=np.int32)
    listed = rows.at[first + slot].get(mode="clip")
    return jnp.where(first + slot < count, listed, rows.shape[0] + slot)
