"""Small integers packed into 32-bit integers ("words").

`join` packs fields of different widths into one word; `cut` unpacks them. `pack` packs an array of
values of equal width into one or more words; `unpack` unpacks them.
"""

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Int32, UInt8, UInt32

from .settle import settled


def join(*fields: tuple[ArrayLike, int]) -> Int32[Array, "*batch"]:
    """Pack fields (value, number of bits) into one int32.

    The first field takes the lowest bits.
    """
    word, offset = jnp.int32(0), 0
    for value, bits in fields:
        word = word | (jnp.asarray(value).astype(jnp.int32) << offset)
        offset += bits
    return word


def cut(word: Int32[Array, "*batch"], *bits: int) -> list[Int32[Array, "*batch"]]:
    """Return the fields that `join` packed into `word`; `bits` are their widths in order."""
    values, offset = [], 0
    for count in bits:
        values.append((word >> offset) & ((1 << count) - 1))
        offset += count
    return values


def kept(*fields: tuple[Any, int]) -> list[Array]:
    """Return the values of pairs (value, number of bits) unchanged, but each computed only once.

    Without this function, XLA on a CPU would recompute a value in every operation that uses it.
    Therefore `join` packs the values into one int32, `settled` makes XLA on a CPU store this int32
    in memory, and `cut` unpacks the values.
    """
    values = cut(settled(join(*fields)), *(bits for _, bits in fields))
    flags = [value.dtype == jnp.bool_ for value, _ in fields]
    return [v != 0 if flag else v for v, flag in zip(values, flags, strict=True)]


def any_of(words: Iterable[Array]) -> Array:
    """Return the OR of all arrays in `words`: bitwise for integers, logical for booleans."""
    return functools.reduce(operator.or_, [*words])


def rank_of(uniform: Array, count: Int32[Array, "*batch"]) -> Int32[Array, "*batch"]:
    """Convert a random number, uniform in [0, 1), to a random integer, uniform in 0 .. count - 1.

    The result is 0 if the count is 0.
    """
    rank = jnp.ceil(count.astype(jnp.float32) * (1 - uniform)).astype(jnp.int32) - 1
    return rank.clip(0, jnp.maximum(count - 1, 0))


def nth_bit(
    words: Sequence[Int32[Array, "*batch"]], rank: Array, width: int = 16
) -> Int32[Array, "*batch"]:
    """Return the position of the `rank`-th 1 bit in a sequence of words.

    `rank` counts from 0. A word has `width` bits (16 or 32). Positions count from 0 at the lowest
    bit of the first word. The result is undefined if at most `rank` bits are 1.
    """
    word, number, before = words[0], jnp.zeros_like(rank), jnp.zeros_like(rank)
    seen = jax.lax.population_count(word)
    for i in range(1, len(words)):
        later = rank >= seen
        word, number = jnp.where(later, words[i], word), jnp.where(later, width * i, number)
        before = jnp.where(later, seen, before)
        seen = seen + jax.lax.population_count(words[i])
    rank = rank - before
    while width > 1:  # binary search for the bit within the word
        width //= 2
        low = jax.lax.population_count(word & ((1 << width) - 1))
        above = rank >= low
        rank = jnp.where(above, rank - low, rank)
        word = jnp.where(above, word >> width, word)
        number = number + jnp.where(above, width, 0)
    return number


def words_for(count: int, bits: int) -> int:
    """Return the number of words that `pack` needs for `count` values; no value spans two words."""
    return -(-count // (32 // bits))


def pack(
    values: UInt8[Array, " count"] | UInt32[Array, " count"], bits: int
) -> UInt32[Array, " words"]:
    """Pack values of `bits` bits each into 32-bit words.

    The first value takes the lowest bits of the first word.
    """
    per_word = 32 // bits
    count = values.shape[0]
    padded = jnp.pad(values.astype(jnp.uint32), (0, -count % per_word)).reshape(-1, per_word)
    # A Python loop combines the columns of `padded`, because XLA can fuse the loop's chain of
    # operations into the code that reads the words. XLA would not fuse a reduction over an axis.
    word = jnp.zeros_like(padded[:, 0])
    for i in range(per_word):
        word = word | (padded[:, i] << np.uint32(i * bits))
    return word


def unpack(
    words: UInt32[Array, " words"], count: int, bits: int, dtype: DTypeLike = jnp.uint8
) -> UInt8[Array, " {count}"] | UInt32[Array, " {count}"]:
    """Return the `count` values, of `bits` bits each, that `pack` packed into `words`."""
    per_word = 32 // bits
    index = np.arange(count)
    shift = (index % per_word * bits).astype(np.uint32)
    return ((words[index // per_word] >> shift) & np.uint32((1 << bits) - 1)).astype(dtype)
