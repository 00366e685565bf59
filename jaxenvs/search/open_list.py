"""Open list: a priority queue from which any number of entries can be popped at once.

It needs neither a heap nor a sort over all entries. Entries are kept in buckets. Each bucket
contains the entries in one range of priorities, and all ranges have the same width. A bucket is a
stack of pages, with the newest entries on top; all pages come from one pool.

The ranges lie around the lowest open priority (the front of the search). They change if the front
leaves them, or if one bucket contains most of the entries and could be narrower. All entries must
then move to a second set of buckets, which has the new ranges: until the old set is empty, `pop`
returns the entries of the old set, and the caller pushes them again.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

BUCKETS = 256  # number of buckets in each of the two sets of an `OpenList`
PAGE = 1024  # number of entries per page, for capacities from SMALL to LARGE - 1
SMALL_PAGE = 16  # number of entries per page, for capacities below SMALL
SMALL = 1 << 14
LARGE_PAGE = 4096  # number of entries per page, for capacities of LARGE or more
LARGE = 1 << 24
MOST = np.finfo(np.float32).max
# Smallest width of a bucket's range of priorities. XLA may round smaller (subnormal) numbers to 0.
LEAST = np.finfo(np.float32).tiny
# Width of the buckets' ranges of priorities as long as the search knows no action's cost.
UNKNOWN = np.float32(1e30)
# Largest factor by which a change makes the ranges wider or narrower, if an action's cost is known.
GROWTH = 16.0
# A bucket is crowded if it has more entries than CROWD iterations pop.
CROWD = 4


class OpenList(NamedTuple):
    """State of an open list.

    Each bucket contains the entries in one range of priorities. The entries are stored in pages,
    which are rows of the array `entries`. There are two sets of buckets: entries are pushed to the
    current set, and the other set is usually empty. To change the ranges, the empty set gets the
    new ranges and becomes the current set, and the search moves all entries to it.
    """

    entries: Int32[Array, "pages page"]
    # Indices of each bucket's pages in `entries`, the page with the oldest entries first.
    page_of: Int32[Array, "2 buckets pages_of_one"]
    size: Int32[Array, "2 buckets"]  # number of entries in each bucket
    # Indices of all pages. The first `used` of them belong to buckets; the others are free.
    free: Int32[Array, " pages"]
    # Number of pages that belong to a bucket.
    used: Int32[Array, ""]
    # Index, 0 or 1, of the set of buckets to which entries are pushed.
    current: Int32[Array, ""]
    # Lower end of the range of priorities of each bucket in the current set; -inf for the first
    # bucket.
    edges: Float32[Array, " buckets"]
    # Width of the range of priorities of each bucket in the current set.
    width: Float32[Array, ""]
    # Lowest priority that was pushed since the buckets' ranges last changed.
    lowest: Float32[Array, ""]
    # Highest priority that was pushed since the buckets' ranges last changed.
    highest: Float32[Array, ""]


def empty(capacity: int, start: Array, width: Array, buckets: int = BUCKETS) -> OpenList:
    """Return an empty open list for up to `capacity` entries.

    `start` is the priority at which the range of the middle bucket begins, and `width` is the width
    of the range of every bucket.
    """
    page = SMALL_PAGE if capacity < SMALL else PAGE if capacity < LARGE else LARGE_PAGE
    full = -(-capacity // page)
    pages = full + 2 * buckets  # each bucket of both sets may have a page that is not full
    nothing = jnp.float32(np.inf)
    return OpenList(
        entries=jnp.zeros((pages, page), jnp.int32),
        page_of=jnp.zeros((2, buckets, full + 1), jnp.int32),
        size=jnp.zeros((2, buckets), jnp.int32),
        free=jnp.arange(pages, dtype=jnp.int32),
        used=jnp.int32(0),
        current=jnp.int32(0),
        edges=_edges(start, width, buckets),
        width=jnp.asarray(width, jnp.float32),
        lowest=nothing,
        highest=-nothing,
    )


def push(
    todo: OpenList, entry: Int32[Array, " lanes"], priority: Float32[Array, " lanes"]
) -> OpenList:
    """Add entries with their priorities; an entry with an infinite or NaN priority is skipped."""
    lanes, buckets, page = entry.shape[0], todo.size.shape[1], todo.entries.shape[1]
    some = priority < jnp.inf
    todo = todo._replace(
        lowest=jnp.minimum(todo.lowest, jnp.where(some, priority, jnp.inf).min()),
        highest=jnp.maximum(todo.highest, jnp.where(some, priority, -jnp.inf).max()),
    )
    bucket = _bucket_of(todo, priority, some)
    order = _order(bucket, buckets)
    entry, bucket = entry[order], bucket[order]
    added = jnp.zeros(buckets, jnp.int32).at[bucket].add(1, mode="drop")
    start = jnp.cumsum(added, dtype=jnp.int32) - added
    at = jnp.minimum(bucket, buckets - 1)
    before = todo.size[todo.current]
    place = before[at] + jnp.arange(lanes, dtype=jnp.int32) - start[at]
    todo = _with_pages(todo, before + added, lanes)
    number = todo.page_of[todo.current, at, place // page]
    number = jnp.where(bucket < buckets, number, todo.entries.shape[0])
    return todo._replace(entries=todo.entries.at[number, place % page].set(entry, mode="drop"))


def pop(todo: OpenList, count: int) -> tuple[OpenList, Array, Array, Bool[Array, " {count}"]]:
    """Remove up to `count` entries, starting with the bucket of the lowest priorities.

    Returns (updated list, entries, lower bound on each entry's priority, mask of valid entries). If
    the old set of buckets is not empty (`is_moving`), the entries come from the old set, and the
    lower bounds are -inf.
    """
    page = todo.entries.shape[1]
    moving = is_moving(todo)
    source = jnp.where(moving, 1 - todo.current, todo.current)
    size = todo.size[source]
    through = jnp.cumsum(size, dtype=jnp.int32)
    before = through - size
    lane = jnp.arange(count, dtype=jnp.int32)
    valid = lane < through[-1]
    bucket = jnp.searchsorted(through, lane, side="right").astype(jnp.int32)
    bucket = jnp.minimum(bucket, size.shape[0] - 1)
    place = jnp.maximum(size[bucket] - 1 - (lane - before[bucket]), 0)
    entry = todo.entries[todo.page_of[source, bucket, place // page], place % page]
    least = jnp.where(moving, -jnp.inf, todo.edges[bucket])
    taken = jnp.clip(count - before, 0, size)
    return _without_pages(todo, source, size - taken, count), entry, least, valid


def is_moving(todo: OpenList) -> Bool[Array, ""]:
    """Return whether the old set of buckets still has entries.

    The search pops these entries and pushes them again, to the buckets with the new ranges.
    """
    return todo.size[1 - todo.current].sum() > 0


def length(todo: OpenList) -> Int32[Array, ""]:
    """Return the number of entries in both sets of buckets."""
    return todo.size.sum(dtype=jnp.int32)


def edge(todo: OpenList) -> Float32[Array, ""]:
    """Return a lower bound on the priorities of all entries; infinity for an empty list.

    The bound is -inf while the old set of buckets still has entries (`is_moving`).
    """
    first = todo.edges[_front(todo)]
    return jnp.where(is_moving(todo), -jnp.inf, jnp.where(length(todo) > 0, first, jnp.inf))


def adapted(
    todo: OpenList, finest: Float32[Array, ""], batch: int, able: Bool[Array, ""]
) -> OpenList:
    """Return the list with new ranges of the buckets, or unchanged if the present ranges fit.

    Ranges do not fit in four cases: all entries are in the last bucket; too many are in the first
    bucket; the costs of actions have become known; the bucket of the lowest priorities contains
    most entries and could be narrower. The other set of buckets gets the new ranges, and the caller
    must move all entries to it.

    finest: smallest bucket width; entries whose priorities differ by less may be popped in any
        order.
    batch: number of entries that an iteration of the search pops.
    able: whether the search has expanded entries since the last change of the ranges. If False, the
        ranges can only become narrower. This prevents endless changes.
    """
    half = todo.size.shape[1] // 2
    size, front = todo.size[todo.current], _front(todo)
    crowded = (size[front] > CROWD * batch) & (2 * size[front] >= size.sum())
    first, last = front == 0, front == size.shape[0] - 1
    unknown = (todo.width >= UNKNOWN) & (finest < UNKNOWN)
    at = jnp.where(first, todo.lowest, todo.edges[front])
    # `wide` is the width if the front has left the ranges: wide enough to cover all entries, but at
    # most GROWTH times the old width. No range is narrower than the resolution of float32.
    covered = jnp.where(first, todo.edges[1], todo.highest) - at
    usual = jnp.where(unknown, finest, todo.width)
    wide = jnp.minimum(covered / np.float32(half - 3), usual * np.float32(GROWTH))
    narrow = todo.width / np.float32(GROWTH)
    leaves = last | unknown | (first & crowded)
    resolution = jnp.abs(at) * np.float32(2.0**-20)
    width = jnp.maximum(jnp.where(leaves, wide, narrow), jnp.maximum(finest, resolution))
    width = jnp.maximum(width, LEAST)
    changes = (able & leaves) | (~leaves & crowded & (2 * width < todo.width))
    changes &= ~is_moving(todo) & (length(todo) > 0) & jnp.isfinite(at)
    edges = _edges(at, width, size.shape[0])
    return todo._replace(
        current=jnp.where(changes, 1 - todo.current, todo.current),
        edges=jnp.where(changes, edges, todo.edges),
        width=jnp.where(changes, width, todo.width),
        lowest=jnp.where(changes, jnp.inf, todo.lowest),
        highest=jnp.where(changes, -jnp.inf, todo.highest),
    )


def _front(todo: OpenList) -> Int32[Array, ""]:
    """Return the index of the first non-empty bucket in the current set of buckets."""
    return jnp.argmax(todo.size[todo.current] > 0).astype(jnp.int32)


def _edges(middle: Array, width: Array, buckets: int) -> Float32[Array, " {buckets}"]:
    """Return the lower end of each bucket's range; the middle bucket's range begins at `middle`."""
    step = np.arange(buckets, dtype=np.float32) - np.float32(buckets // 2)
    edges = jnp.asarray(middle, jnp.float32) + step * jnp.asarray(width, jnp.float32)
    # Clip the edges to finite numbers, because finite priorities never reach an edge at infinity.
    return jnp.clip(edges, -MOST, MOST).at[0].set(-jnp.inf)


def _bucket_of(todo: OpenList, priority: Array, some: Array) -> Int32[Array, " lanes"]:
    """Return for each priority the index of its bucket.

    Where the mask `some` is False, the entry is to be skipped: the index is the number of buckets.
    """
    buckets = todo.edges.shape[0]
    steps = jnp.floor((priority - todo.edges[1]) / todo.width) + 1
    bucket = jnp.where(some, jnp.clip(steps, 0, buckets - 1), buckets).astype(jnp.int32)
    # If rounding has selected a bucket whose range begins above the priority, take the bucket below
    # instead. Proofs of optimality rely on `edges` as lower bounds on priorities.
    above = some & (todo.edges[jnp.minimum(bucket, buckets - 1)] > priority)
    return bucket - above.astype(jnp.int32)


def _with_pages(todo: OpenList, size: Int32[Array, " buckets"], lanes: int) -> OpenList:
    """Allocate the pages for `size` entries in each bucket of the current set, and record `size`.

    `size` is at least the previous number of entries in each bucket, and its sum is larger by at
    most `lanes`.
    """
    page, most = todo.entries.shape[1], todo.page_of.shape[2]
    before = -(-todo.size[todo.current] // page)
    more = -(-size // page) - before
    first = todo.used + jnp.cumsum(more, dtype=jnp.int32) - more
    step = np.arange(lanes // page + 1, dtype=np.int32)
    column = jnp.where(step < more[:, None], before[:, None] + step, most)
    row = jnp.arange(size.shape[0], dtype=jnp.int32)[:, None]
    number = todo.free.at[first[:, None] + step].get(mode="clip")
    return todo._replace(
        page_of=todo.page_of.at[todo.current, row, column].set(number, mode="drop"),
        size=todo.size.at[todo.current].set(size),
        used=todo.used + more.sum(dtype=jnp.int32),
    )


def _without_pages(
    todo: OpenList, source: Array, size: Int32[Array, " buckets"], lanes: int
) -> OpenList:
    """Record that each bucket of set `source` now has `size` entries, and free the unused pages.

    `size` is at most the previous number of entries in each bucket, and its sum is smaller by at
    most `lanes`.
    """
    page, pages = todo.entries.shape[1], todo.free.shape[0]
    after = -(-size // page)
    less = -(-todo.size[source] // page) - after
    used = todo.used - less.sum(dtype=jnp.int32)
    first = used + jnp.cumsum(less, dtype=jnp.int32) - less
    step = np.arange(lanes // page + 1, dtype=np.int32)
    row = jnp.arange(size.shape[0], dtype=jnp.int32)[:, None]
    number = todo.page_of.at[source, row, after[:, None] + step].get(mode="clip")
    place = jnp.where(step < less[:, None], first[:, None] + step, pages)
    return todo._replace(
        free=todo.free.at[place].set(number, mode="drop"),
        size=todo.size.at[source].set(size),
        used=used,
    )


def _order(bucket: Int32[Array, " lanes"], buckets: int) -> Int32[Array, " lanes"]:
    """Return the indices that sort the entries by bucket (a stable sort).

    If 32 bits are enough for a bucket and an index, both are packed into one uint32, because this
    array is sorted faster than two arrays.
    """
    lanes = bucket.shape[0]
    bits = (lanes - 1).bit_length()
    if bits + buckets.bit_length() > 32:
        return jnp.argsort(bucket, stable=True).astype(jnp.int32)
    word = bucket.astype(jnp.uint32) << np.uint32(bits) | jnp.arange(lanes, dtype=jnp.uint32)
    return (jnp.sort(word) & np.uint32((1 << bits) - 1)).astype(jnp.int32)
