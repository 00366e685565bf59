"""The open list: stacks of entries by priority, in pages, so that any number is taken at once.

No heap and no sort of the whole: an entry has a bucket, a bucket is a stack of pages of one pool.
An entry is pushed once, so that the pool needs no more room than all entries and a page a bucket.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

PAGE = 1024  # entries
LARGE_PAGE = 4096  # of a pool of more than LARGE entries
LARGE = 1 << 24


class OpenList(NamedTuple):
    """Entries by bucket; within one the newest comes first."""

    entries: Int32[Array, "pages page"]
    page_of: Int32[Array, "buckets pages_of_one"]  # pages of a bucket, bottom first
    size: Int32[Array, " buckets"]  # entries
    pages: Int32[Array, " buckets"]  # that a bucket has
    used: Int32[Array, ""]  # pages of the pool


def empty(capacity: int, buckets: int) -> OpenList:
    """Return a list for so many entries in its life."""
    page = PAGE if capacity < LARGE else LARGE_PAGE
    full = -(-capacity // page)
    nothing = jnp.zeros(buckets, jnp.int32)
    return OpenList(
        jnp.zeros((full + buckets, page), jnp.int32),
        jnp.zeros((buckets, full + 1), jnp.int32),
        nothing,
        nothing,
        jnp.int32(0),
    )


def push(todo: OpenList, entry: Int32[Array, " lanes"], bucket: Int32[Array, " lanes"]) -> OpenList:
    """Add entries; a lane whose bucket does not exist is left out."""
    lanes, buckets, page = entry.shape[0], todo.size.shape[0], todo.entries.shape[1]
    bucket = jnp.clip(bucket, 0, buckets)  # the one that does not exist comes last
    order = _order(bucket, buckets)
    entry, bucket = entry[order], bucket[order]
    added = jnp.zeros(buckets, jnp.int32).at[bucket].add(1, mode="drop")
    start = jnp.cumsum(added, dtype=jnp.int32) - added
    at = jnp.minimum(bucket, buckets - 1)
    place = todo.size[at] + jnp.arange(lanes, dtype=jnp.int32) - start[at]
    todo = _with_pages(todo, todo.size + added, lanes)
    number = todo.page_of[at, place // page]
    number = jnp.where(bucket < buckets, number, todo.entries.shape[0])
    return todo._replace(
        entries=todo.entries.at[number, place % page].set(entry, mode="drop"),
        size=todo.size + added,
    )


def pop(todo: OpenList, count: int) -> tuple[OpenList, Array, Array, Bool[Array, " {count}"]]:
    """Take the first `count` entries: list, entries, their buckets, and which lanes have one."""
    page = todo.entries.shape[1]
    through = jnp.cumsum(todo.size, dtype=jnp.int32)
    before = through - todo.size
    lane = jnp.arange(count, dtype=jnp.int32)
    valid = lane < through[-1]
    bucket = jnp.searchsorted(through, lane, side="right").astype(jnp.int32)
    bucket = jnp.minimum(bucket, todo.size.shape[0] - 1)
    place = jnp.maximum(todo.size[bucket] - 1 - (lane - before[bucket]), 0)
    entry = todo.entries[todo.page_of[bucket, place // page], place % page]
    taken = jnp.clip(count - before, 0, todo.size)
    return todo._replace(size=todo.size - taken), entry, bucket, valid


def first_bucket(todo: OpenList) -> Int32[Array, ""]:
    """Number of the first bucket with an entry; the number of buckets where there is none."""
    some = todo.size > 0
    return jnp.where(some.any(), jnp.argmax(some), some.shape[0]).astype(jnp.int32)


def _with_pages(todo: OpenList, size: Int32[Array, " buckets"], lanes: int) -> OpenList:
    """Give each bucket the pages that it needs."""
    page = todo.entries.shape[1]
    more = jnp.maximum(-(-size // page) - todo.pages, 0)
    first = todo.used + jnp.cumsum(more, dtype=jnp.int32) - more
    step = np.arange(lanes // page + 1, dtype=np.int32)
    column = jnp.where(step < more[:, None], todo.pages[:, None] + step, todo.page_of.shape[1])
    row = jnp.arange(size.shape[0], dtype=jnp.int32)[:, None]
    return todo._replace(
        page_of=todo.page_of.at[row, column].set(first[:, None] + step, mode="drop"),
        pages=todo.pages + more,
        used=todo.used + more.sum(dtype=jnp.int32),
    )


def _order(bucket: Int32[Array, " lanes"], buckets: int) -> Int32[Array, " lanes"]:
    """Lanes by bucket, in order within it; a bucket and a lane fit one word."""
    lanes = bucket.shape[0]
    bits = (lanes - 1).bit_length()
    if bits + buckets.bit_length() > 32:
        return jnp.argsort(bucket, stable=True).astype(jnp.int32)
    word = bucket.astype(jnp.uint32) << np.uint32(bits) | jnp.arange(lanes, dtype=jnp.uint32)
    return (jnp.sort(word) & np.uint32((1 << bits) - 1)).astype(jnp.int32)
