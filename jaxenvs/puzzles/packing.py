"""Small numbers of one width side by side in 32-bit words, as a search stores a board."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8, UInt32


def words_for(count: int, bits: int) -> int:
    """Words that `count` values of so many bits need; a value never lies in two words."""
    return -(-count // (32 // bits))


def pack(values: UInt8[Array, " count"], bits: int) -> UInt32[Array, " words"]:
    """Write values side by side, the first lowest in the first word."""
    per_word = 32 // bits
    count = values.shape[0]
    padded = jnp.pad(values.astype(jnp.uint32), (0, -count % per_word)).reshape(-1, per_word)
    # A sum of slices and not over an axis: it fuses with what reads the words.
    word = jnp.zeros_like(padded[:, 0])
    for i in range(per_word):
        word = word | (padded[:, i] << np.uint32(i * bits))
    return word


def unpack(words: UInt32[Array, " words"], count: int, bits: int) -> UInt8[Array, " {count}"]:
    """Undo `pack`."""
    per_word = 32 // bits
    index = np.arange(count)
    shift = (index % per_word * bits).astype(np.uint32)
    return ((words[index // per_word] >> shift) & np.uint32((1 << bits) - 1)).astype(jnp.uint8)
