"""Buffer of levels that a curriculum plays again. Its arrays are state of the compiled program.

Replay probabilities follow prioritised level replay (Jiang et al., 2021). With probability 1 -
staleness, a level is drawn by the rank of its score, else by the time since its last play.

Deliberate difference from jaxued, which inserts the levels of a batch one after another: here the
whole batch is inserted at once. The new level with the highest score is paired with the slot that
is least likely to be replayed, the second highest with the second least likely, and so on. In each
pair, the new level is written to the slot if its score exceeds the score of the slot's level.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt32

from jaxenvs.core.random import mix

SALTS = (0x9E3779B9, 0x85EBCA6B)  # a level has a hash of 64 bits, 32 for each salt


class Played(NamedTuple):
    """Statistics of levels that were played, one value per level."""

    score: Float32[Array, "*seeds levels"]
    best: Float32[Array, "*seeds levels"]  # largest return of an episode on the level so far
    returned: Float32[Array, "*seeds levels"]  # mean return in the last rollout on the level
    success: Float32[Array, "*seeds levels"]  # share of the last rollout's episodes that succeeded
    # Length and return of the level's shortest plan; () if the environment cannot compute them
    # inside `jit`.
    optimal_steps: PyTree[Array] = ()  # int32 (levels,)
    optimal_return: PyTree[Array] = ()  # float32 (levels,)


class LevelBuffer(NamedTuple):
    """Levels with their statistics; a slot without a level has `filled` False."""

    levels: PyTree[Array]  # the first axis of each leaf indexes slots
    hashes: UInt32[Array, "*seeds slots 2"]
    filled: Bool[Array, "*seeds slots"]
    time: Int32[Array, "*seeds slots"]  # update in which the level was last played
    played: Played


def empty(like: PyTree[Array], played: Played, slots: int) -> LevelBuffer:
    """Return an empty buffer of `slots` slots.

    The arguments `like` (levels) and `played` (statistics) are examples, which give the shapes and
    dtypes of the buffer's arrays.
    """

    def blank(leaf: Array) -> Array:
        return jnp.broadcast_to(jnp.zeros_like(leaf[:1]), (slots, *leaf.shape[1:]))

    return LevelBuffer(
        levels=jax.tree.map(blank, like),
        hashes=jnp.zeros((slots, len(SALTS)), jnp.uint32),
        filled=jnp.zeros(slots, jnp.bool_),
        time=jnp.zeros(slots, jnp.int32),
        played=jax.tree.map(blank, played),
    )


def hashes_of(levels: PyTree[Array]) -> UInt32[Array, "levels 2"]:
    """Return a 64-bit hash of each level; the first axis of every leaf indexes levels."""
    words = [_words(leaf) for leaf in jax.tree.leaves(levels)]
    joined = jnp.concatenate(words, axis=1)
    index = jnp.arange(joined.shape[1], dtype=jnp.uint32)
    found = [
        mix(mix(joined ^ mix(index * np.uint32(salt) + np.uint32(1))).sum(1, dtype=jnp.uint32))
        for salt in SALTS
    ]
    return jnp.stack(found, axis=1)


def _words(leaf: Array) -> UInt32[Array, "levels words"]:
    """Return the content of each level as 32-bit words; the first axis of `leaf` indexes levels."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.dtype.itemsize < 4:
        leaf = leaf.astype(jnp.float32)
    if leaf.dtype.itemsize >= 4:  # a 64-bit element becomes two words
        leaf = jax.lax.bitcast_convert_type(leaf, jnp.uint32)
    return leaf.reshape(len(leaf), -1).astype(jnp.uint32)


def find(
    buffer: LevelBuffer, hashes: UInt32[Array, "levels 2"]
) -> tuple[Int32[Array, " levels"], Bool[Array, " levels"]]:
    """Return the slot of each level, and a mask that is True if the buffer contains the level."""
    same = (hashes[:, None] == buffer.hashes[None]).all(axis=-1) & buffer.filled
    return jnp.argmax(same, axis=1).astype(jnp.int32), same.any(axis=1)


def best_returns(
    buffer: LevelBuffer, hashes: UInt32[Array, "levels 2"], best: Float32[Array, " levels"]
) -> Float32[Array, " levels"]:
    """Return the largest return so far on each level: the maximum of `best` and the buffer's value.

    `best` is the largest return on each level in the last rollout.
    """
    slot, known = find(buffer, hashes)
    return jnp.maximum(best, jnp.where(known, buffer.played.best[slot], -jnp.inf))


def probabilities(
    buffer: LevelBuffer, now: Int32[Array, ""], temperature: Any, staleness: Any
) -> Float32[Array, " slots"]:
    """Return the probability with which each slot is replayed in update `now`; 0 for empty slots.

    With probability `staleness`, a level is drawn in proportion to the number of updates since its
    last play. Otherwise it is drawn by the rank of its score, see `_ranked`.
    """
    by_score = _ranked(buffer, temperature)
    age = jnp.where(buffer.filled, now - buffer.time, 0).astype(jnp.float32)
    ages = age.sum()
    filled = buffer.filled.astype(jnp.float32)
    even = filled / jnp.maximum(filled.sum(), 1.0)
    by_age = jnp.where(ages > 0.0, age / jnp.maximum(ages, 1.0), even)
    return (1.0 - staleness) * by_score + staleness * by_age


def _ranked(buffer: LevelBuffer, temperature: Any) -> Float32[Array, " slots"]:
    """Return the probability with which each slot is drawn, if levels are drawn by score.

    The probability is proportional to (1 / rank) ** (1 / temperature). Rank 1 is the level with the
    highest score.
    """
    order = jnp.argsort(jnp.where(buffer.filled, -buffer.played.score, jnp.inf), stable=True)
    slots = len(buffer.filled)
    rank = jnp.zeros(slots, jnp.float32)
    rank = rank.at[order].set(jnp.arange(1, slots + 1, dtype=jnp.float32))
    weight = jnp.where(buffer.filled, rank ** (-1.0 / jnp.float32(temperature)), 0.0)
    return weight / jnp.maximum(weight.sum(), jnp.finfo(jnp.float32).tiny)


def sample(key: Array, probability: Float32[Array, " slots"], count: int) -> Int32[Array, " count"]:
    """Draw `count` slots with replacement, each slot with its `probability`."""
    drawn = jax.random.choice(key, len(probability), (count,), p=probability)
    return drawn.astype(jnp.int32)


def inserted(
    buffer: LevelBuffer,
    levels: PyTree[Array],
    played: Played,
    now: Int32[Array, ""],
    temperature: Any,
    staleness: Any,
) -> LevelBuffer:
    """Return the buffer after a batch of levels was played in update `now`.

    A level that is already in the buffer gets its new statistics. Equal levels of the batch count
    as one level, with the mean of their statistics.
    """
    hashes = hashes_of(levels)
    played, first = _merged(played, hashes)
    slot, known = find(buffer, hashes)
    played = played._replace(best=best_returns(buffer, hashes, played.best))
    slots = len(buffer.filled)
    given = (levels, hashes, jnp.ones_like(first), jnp.full_like(slot, now), played)
    buffer = _written(buffer, jnp.where(first & known, slot, slots), given)
    is_new = first & ~known
    probability = probabilities(buffer, now, temperature, staleness)
    return _written(buffer, _replaced(buffer, probability, is_new, played.score), given)


def _merged(played: Played, hashes: UInt32[Array, "levels 2"]) -> tuple[Played, Bool[Array, " n"]]:
    """Give equal levels of a batch common statistics, and return a mask of their first copies.

    Each statistic is the mean over the equal levels, except `best`, which is their maximum. The
    mask is True for the first copy of each level in the batch.
    """
    same = (hashes[:, None] == hashes[None]).all(axis=-1)
    share = same.astype(jnp.float32)
    share = share / share.sum(axis=1, keepdims=True)
    # With a lower precision, accelerators would round the factors of the matrix product.
    mean = functools.partial(jnp.matmul, share, precision=jax.lax.Precision.HIGHEST)
    means = {name: mean(getattr(played, name)) for name in ("score", "returned", "success")}
    best = jnp.where(same, played.best, -jnp.inf).max(axis=1)
    first = jnp.argmax(same, axis=1) == np.arange(len(hashes))
    return played._replace(**means, best=best), first


def _replaced(
    buffer: LevelBuffer,
    probability: Float32[Array, " slots"],
    is_new: Bool[Array, " levels"],
    score: Float32[Array, " levels"],
) -> Int32[Array, " levels"]:
    """Return the slot to write each new level to, or an index out of range to drop the level."""
    slots, most = len(probability), min(len(score), len(probability))
    places = jnp.argsort(jnp.where(buffer.filled, probability, -1.0), stable=True)[:most]
    best_first = jnp.argsort(jnp.where(is_new, -score, jnp.inf), stable=True)[:most]
    wins = ~buffer.filled[places] | (score[best_first] > buffer.played.score[places])
    target = jnp.where(is_new[best_first] & wins, places, slots)
    return jnp.full(len(score), slots, jnp.int32).at[best_first].set(target.astype(jnp.int32))


def _written(buffer: LevelBuffer, target: Int32[Array, " levels"], given: Any) -> LevelBuffer:
    """Write a batch of levels into the slots `target`; drop levels whose target is out of range.

    `given` is a tree with the structure of the buffer and one entry per level.
    """

    def write(kept: Array, new: Array) -> Array:
        return kept.at[target].set(new, mode="drop")

    return LevelBuffer(*jax.tree.map(write, tuple(buffer), given))
