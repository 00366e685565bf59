"""Random numbers that need few GPU kernels.

Code that draws a level or makes a step first draws all random 32-bit integers ("words") that it
needs, in one operation. Integer arithmetic then turns each word into a random number. Where words
need not be cryptographically independent, `hashed` replaces JAX's threefry: it computes each word
by a short hash of the key and a counter. The hash uses the finaliser `lowbias32` of C. Wellons,
"Prospecting for hash functions".
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float32, Int32, PRNGKeyArray, UInt32
from jaxtyping import Key as TypedKey

Key = PRNGKeyArray  # one key, typed or raw
# One key, or an array of keys, one per environment.
Keys = TypedKey[Array, "..."] | UInt32[Array, "..."]


def words(key: Key, count: int) -> UInt32[Array, " {count}"]:
    """Draw `count` random uint32 integers by hashing the key with the counters 0 to count - 1."""
    return hashed(key, jnp.arange(count, dtype=jnp.uint32))


def below(word: UInt32[Array, "*batch"], bound: ArrayLike) -> Int32[Array, "*batch"]:
    """Map a uniform uint32 `word` to a uniform integer in `[0, bound)`; `bound` may be traced.

    Returns the high 32 bits of `word * bound`. The probability of each result differs from 1 /
    bound by less than 2**-32.
    """
    return multiply_high(word, jnp.asarray(bound).astype(jnp.uint32)).astype(jnp.int32)


# JAX traces the function once per shape and inlines it into its caller.
@functools.partial(jax.jit, inline=True)
def multiply_high(a: UInt32[Array, "*batch"], b: UInt32[Array, "*#batch"]) -> Array:
    """Return the high 32 bits of the 64-bit product of two uint32 arrays.

    Uses 32-bit arithmetic only, because JAX has no 64-bit integers unless x64 is enabled.
    """
    half, mask = jnp.uint32(16), jnp.uint32(0xFFFF)
    a_high, a_low, b_high, b_low = a >> half, a & mask, b >> half, b & mask
    middle = a_high * b_low + ((a_low * b_low) >> half)
    other = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> half) + (other >> half)


def mix(word: UInt32[Array, "*batch"]) -> UInt32[Array, "*batch"]:
    """Scramble a uint32 bijectively, so that every input bit affects every output bit."""
    word = (word ^ (word >> jnp.uint32(16))) * jnp.uint32(0x7FEB352D)
    word = (word ^ (word >> jnp.uint32(15))) * jnp.uint32(0x846CA68B)
    return word ^ (word >> jnp.uint32(16))


def uniform(word: UInt32[Array, "*batch"]) -> Float32[Array, "*batch"]:
    """Map random uint32 values to floats in [0, 1) that are multiples of 2**-24."""
    return (word >> jnp.uint32(8)).astype(jnp.float32) * jnp.float32(2.0**-24)


@functools.partial(jax.jit, inline=True)
def hashed(key: Keys, counter: ArrayLike) -> UInt32[Array, "*batch"]:
    """Return one random uint32 for each counter: a hash of the key and the counter.

    On a GPU this takes two kernels; a draw with JAX's threefry takes four.
    """
    data = jax.random.key_data(key)
    word = mix(data[..., 0] + jnp.asarray(counter).astype(jnp.uint32) * jnp.uint32(0x9E3779B9))
    return mix(word ^ data[..., -1])


def choose(word: UInt32[Array, " n"], allowed: Bool[Array, " n"]) -> Int32[Array, ""]:
    """Return the index of one allowed entry, chosen uniformly; 0 if no entry is allowed.

    `word` has one random uint32 per entry; the allowed entry with the largest uint32 is chosen. The
    index of the entry replaces the low bits of its uint32, so that the maximum contains the index.
    The probabilities differ from a uniform choice by a relative error of about n**2 / 2**32.
    """
    low = np.uint32((1 << (word.shape[0] - 1).bit_length()) - 1)
    ticket = (word & ~low) | np.arange(word.shape[0], dtype=np.uint32)
    return (jnp.where(allowed, ticket, np.uint32(0)).max() & low).astype(jnp.int32)


def distinct(word: UInt32[Array, " n"], count: ArrayLike) -> Int32[Array, " n"]:
    """Draw distinct uniform integers in `[0, count)`, in random order, from random uint32s.

    Each integer first gets a rank: its index among the integers that are not yet taken (a Lehmer
    code). Rank i is therefore below count - i. Each value starts as a rank and ends as an integer:
    it is compared with all earlier ranks, from the latest to the first, and 1 is added each time
    the value is at least as large as the earlier rank. The comparisons use ranks only, not the
    earlier integers, so all integers are computed in parallel.
    """
    number = np.arange(word.shape[0], dtype=np.int32)
    narrow = np.min_scalar_type(count - 1) if isinstance(count, int) else jnp.int32
    rank = below(word, jnp.asarray(count, jnp.int32) - number).astype(narrow)
    value = rank
    for earlier in range(word.shape[0] - 2, -1, -1):
        passes = (value >= rank[earlier]) & (number > earlier)
        value = value + passes.astype(narrow)
    # The barrier keeps XLA from fusing this chain of comparisons into a kernel that uses the
    # values, such as the kernel that fills a grid. In a fused kernel, the thread of each cell would
    # repeat the whole chain.
    return jax.lax.optimization_barrier(value).astype(jnp.int32)


def permutation(word: UInt32[Array, " n"]) -> Int32[Array, " n"]:
    """Return a uniform random permutation: the rank of each entry of `word` among all entries.

    The ranks are computed by n * n comparisons, which XLA fuses into one kernel, and not by a sort.
    """
    index = jnp.arange(word.shape[0])
    before = (word[None, :] < word[:, None]) | (
        (word[None, :] == word[:, None]) & (index[None, :] < index[:, None])
    )
    return before.sum(axis=1, dtype=jnp.int32)


def shuffled(key: Key, count: int) -> Int32[Array, " count"]:
    """Return the integers 0 to count - 1 in random order, to shuffle minibatches.

    The function sorts one array of uint32s, each with random high bits and one of the integers in
    its low bits. (`jax.random.permutation` sorts two arrays, which takes ten times as long on a
    CPU.) The order is not perfectly random: integers with equal random bits stay in ascending
    order. Among pairs of neighbours in the result, the random bits are equal in about 1 of 64 pairs
    if `count` is 8,192, and in about half of the pairs if `count` is 65,536.
    """
    low = np.uint32((1 << (count - 1).bit_length()) - 1)
    bits = jax.random.bits(key, (count,), jnp.uint32) & ~low
    return (jnp.sort(bits | jnp.arange(count, dtype=jnp.uint32)) & low).astype(jnp.int32)
