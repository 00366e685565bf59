"""Random numbers in few kernels: 32-bit words, drawn once per level or step, split arithmetically.

A counter hash replaces further draws where cryptographic independence is not needed (finalizer
constants: C. Wellons, "Prospecting for hash functions", `lowbias32`).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int32, PRNGKeyArray, UInt32
from jaxtyping import Key as TypedKey

Key = PRNGKeyArray  # one key, typed or raw
Keys = TypedKey[Array, "..."] | UInt32[Array, "..."]  # one key, or one for each environment


def words(key: Key, count: int) -> UInt32[Array, " {count}"]:
    """Draw `count` random 32-bit words: hashes of the key with the counters 0 to count - 1."""
    return hashed(key, jnp.arange(count, dtype=jnp.uint32))


def below(word: UInt32[Array, "*batch"], bound: ArrayLike) -> Int32[Array, "*batch"]:
    """Map a uniform word to a uniform integer in `[0, bound)`; `bound` may be traced.

    Takes the high half of the 64-bit product; each value's probability is off by less than 2**-32.
    """
    return multiply_high(word, jnp.asarray(bound).astype(jnp.uint32)).astype(jnp.int32)


@functools.partial(jax.jit, inline=True)  # traced once per shape, compiled with its caller
def multiply_high(a: UInt32[Array, "*batch"], b: UInt32[Array, "*#batch"]) -> Array:
    """Return the high 32 bits of the 64-bit product, without 64-bit integers (x64 may be off)."""
    half, mask = jnp.uint32(16), jnp.uint32(0xFFFF)
    a_high, a_low, b_high, b_low = a >> half, a & mask, b >> half, b & mask
    middle = a_high * b_low + ((a_low * b_low) >> half)
    other = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> half) + (other >> half)


def mix(word: UInt32[Array, "*batch"]) -> UInt32[Array, "*batch"]:
    """Scramble a 32-bit word bijectively (every input bit reaches every output bit)."""
    word = (word ^ (word >> jnp.uint32(16))) * jnp.uint32(0x7FEB352D)
    word = (word ^ (word >> jnp.uint32(15))) * jnp.uint32(0x846CA68B)
    return word ^ (word >> jnp.uint32(16))


@functools.partial(jax.jit, inline=True)
def hashed(key: Keys, counter: ArrayLike) -> UInt32[Array, "*batch"]:
    """Hash (key, counter) to one word per counter: two kernels where a threefry draw takes four."""
    data = jax.random.key_data(key)
    word = mix(data[..., 0] + jnp.asarray(counter).astype(jnp.uint32) * jnp.uint32(0x9E3779B9))
    return mix(word ^ data[..., -1])


def choose(word: UInt32[Array, " n"], allowed: Bool[Array, " n"]) -> Int32[Array, ""]:
    """Choose an allowed index uniformly, given one random word per index; 0 if none is allowed.

    The index with the largest word wins. The index replaces the low bits of its word, so that one
    reduction finds it. The relative error of a probability is about n / 2**(32 - log2(n)).
    """
    low = np.uint32((1 << (word.shape[0] - 1).bit_length()) - 1)
    ticket = (word & ~low) | np.arange(word.shape[0], dtype=np.uint32)
    return (jnp.where(allowed, ticket, np.uint32(0)).max() & low).astype(jnp.int32)


def distinct(word: UInt32[Array, " n"], count: ArrayLike) -> Int32[Array, " n"]:
    """Draw distinct uniform integers in `[0, count)`, in random order.

    Decodes a Lehmer code: each value is drawn as a rank among the remaining values, then raised
    past the values drawn before it, latest first. In this order each comparison needs only the
    earlier value's rank, so all values are computed in parallel.
    """
    number = np.arange(word.shape[0], dtype=np.int32)
    narrow = np.min_scalar_type(count - 1) if isinstance(count, int) else jnp.int32
    rank = below(word, jnp.asarray(count, jnp.int32) - number).astype(narrow)
    value = rank
    for earlier in range(word.shape[0] - 2, -1, -1):
        passes = (value >= rank[earlier]) & (number > earlier)
        value = value + passes.astype(narrow)
    # Without the barrier XLA would fuse this chain into the kernel that fills a grid, and compute
    # it again for every cell.
    return jax.lax.optimization_barrier(value).astype(jnp.int32)


def permutation(word: UInt32[Array, " n"]) -> Int32[Array, " n"]:
    """Return the rank of each word, a uniform permutation, by n*n fused comparisons, not a sort."""
    index = jnp.arange(word.shape[0])
    before = (word[None, :] < word[:, None]) | (
        (word[None, :] == word[:, None]) & (index[None, :] < index[:, None])
    )
    return before.sum(axis=1, dtype=jnp.int32)


def shuffled(key: Key, count: int) -> Int32[Array, " count"]:
    """Return the integers 0 to count - 1 in random order, for minibatches.

    Sorts one array of words whose low bits are these integers and whose high bits are random
    (`jax.random.permutation` sorts two arrays, ten times slower on a CPU). Integers with equal
    random bits stay in ascending order: about one in 64 pairs of neighbours if `count` is 8,192,
    about half of them if it is 65,536.
    """
    low = np.uint32((1 << (count - 1).bit_length()) - 1)
    bits = jax.random.bits(key, (count,), jnp.uint32) & ~low
    return (jnp.sort(bits | jnp.arange(count, dtype=jnp.uint32)) & low).astype(jnp.int32)
