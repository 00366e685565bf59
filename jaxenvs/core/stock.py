"""Reset source `stock`: a ring of prepared first states, each of which begins one episode.

They are made in large batches, at the rate at which episodes end. Each is drawn with a separate
key, and none depends on what happened in an episode, so episodes are as independent as with
`exact`. Which row gets which one depends on the other rows of the batch.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from . import random
from .env import Env, varying_like
from .memory import device_memory
from .ranks import Ranks, numbers_from
from .reset_sources import SELECTED_BYTES
from .starts import STOCK, STOCK_RESET, Starts, select, tree_bytes, written
from .struct import Struct, struct

# Levels that a GPU makes at a time: with more, large ones no longer fit into its cache, and with
# fewer, small ones cost little more than the launches of their kernels.
CHUNKS = ((1024, 4096), (1 << 62, 1024))  # (bytes of a state at most, levels)
SERVED_SHARE = 64  # one of this many rows may end in a step and be served without a loop


@struct
class Stock(Struct):
    """A ring of first states."""

    states: Any  # first axis of the ring's size
    # Place of the next unused state, unused states from there on, and a hash of the params that
    # they were made with. In one array: each number alone would be copied by a separate kernel.
    counters: Int32[Array, "3"]


class _Trip(NamedTuple):
    """Carry of the loop that makes states."""

    rows: Any  # states of the batch
    states: Any  # of the ring
    # Place of the next unused state, unused ones, rows served, chunks made, levels rejected since
    # one was accepted.
    counters: Int32[Array, "5"]


def usual_chunk(env: Env, num_envs: int) -> int:
    """Return how many levels are made at a time."""
    bytes = tree_bytes(env.state_shape)
    most = next(levels for limit, levels in CHUNKS if bytes <= limit)
    return max(1, min(most, num_envs // 4))


def usual_size(chunk: int, num_envs: int) -> int:
    """Return the size of the ring: four chunks, or a 16th of a large batch."""
    return max(4 * chunk, num_envs // 16)


def check_memory(env: Env, size: int) -> None:
    """Raise `ValueError` for a ring that the device cannot hold."""
    needed = size * tree_bytes(env.state_shape)
    there = device_memory(jax.local_devices()[0])
    if there is not None and needed > there:
        raise ValueError(
            f"make_vec: stock_size={size:,} needs {needed / 2**30:,.1f} GiB for {env.name}, and "
            f"the device has {there / 2**30:,.1f} GiB; give a smaller stock_size, or "
            f"reset_source='exact', which keeps no levels"
        )


def filled(starts: Starts, size: int, chunk: int) -> Stock:
    """Return a full ring."""
    shapes = starts.env.state_shape
    states = jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), shapes)
    key = starts.key.reshape(-1)[0]
    trip = _Trip((), states, jnp.zeros(5, jnp.int32))
    trip = jax.tree.map(lambda leaf: varying_like(key, leaf), trip)

    def wanted(trip: _Trip) -> Array:
        return trip.counters[1] + chunk <= size

    trip = jax.lax.while_loop(wanted, lambda trip: _added(starts, trip, chunk), trip)
    return _packed(trip, digest(starts.params))


def restart(
    starts: Starts, stock: Stock, states: Any, ended: Bool[Array, " num_envs"], chunk: int
) -> tuple[Any, Stock]:
    """Begin an episode in each row that ended, from the ring, and refill the ring.

    States made with other params count as used.
    """
    size, now = _size(stock.states), digest(starts.params)
    ready = jnp.where(stock.counters[2] == now, stock.counters[1], 0)
    ranks = Ranks.of(ended)
    trip = _Trip(states, stock.states, _counters(stock.counters[0], ready))
    if tree_bytes(states) <= SELECTED_BYTES:
        trip = _serve_all(trip, ended, ranks)
    else:
        trip = _serve(trip, ranks, max(1, starts.num_envs // SERVED_SHARE))

    def wanted(trip: _Trip) -> Array:
        return (trip.counters[2] < ranks.count) | (trip.counters[1] + chunk <= size)

    def refill(trip: _Trip) -> _Trip:
        return _serve(_added(starts, trip, chunk), ranks, min(chunk, starts.num_envs))

    trip = jax.lax.while_loop(wanted, refill, trip)
    return trip.rows, _packed(trip, now)


def _serve_all(trip: _Trip, ended: Array, ranks: Ranks) -> _Trip:
    """Serve all rows, as far as the ring goes, by a selection."""
    rank, ready = ranks.of_rows(), trip.counters[1]
    rows = select(ended & (rank < ready), _taken(trip, rank), trip.rows)
    return _served(trip._replace(rows=rows), jnp.minimum(ranks.count, ready))


def _serve(trip: _Trip, ranks: Ranks, slots: int) -> _Trip:
    """Serve the next rows, as far as the ring goes, and write only those."""
    _, ready, served, *_ = trip.counters
    end = jnp.minimum(ranks.count, served + jnp.minimum(ready, slots))
    places = numbers_from(ranks.rows(), served, slots, end)
    rows = written(trip.rows, places, _taken(trip, np.arange(slots, dtype=np.int32)))
    return _served(trip._replace(rows=rows), end - served)


def _taken(trip: _Trip, number: Any) -> Any:
    """Return the unused states of these numbers, counted from the next one."""
    place = (trip.counters[0] + number) % _size(trip.states)
    return jax.tree.map(lambda leaf: leaf.at[place].get(mode="promise_in_bounds"), trip.states)


def _served(trip: _Trip, count: Array) -> _Trip:
    """Count states as used."""
    first, ready, served, chunks, rejected = trip.counters
    first = (first + count) % _size(trip.states)
    return trip._replace(counters=_counters(first, ready - count, served + count, chunks, rejected))


def _added(starts: Starts, trip: _Trip, chunk: int) -> _Trip:
    """Make a chunk of states and append the accepted ones, as far as there is room.

    After as many rejected levels as the environment's budget, any level is accepted.
    """
    first, ready, served, chunks, rejected = trip.counters
    slot, size = np.arange(chunk, dtype=np.int32), _size(trip.states)
    number = chunks * chunk + slot
    keys = starts.shared_keys(STOCK, number)
    levels, accepted = starts.candidates(keys, jnp.zeros_like(number), starts.params)
    made = starts.begin_with(starts.shared_keys(STOCK_RESET, number), levels, starts.params).state
    rank, count = slot, jnp.int32(chunk)
    if starts.env.level_budget > 1:
        accepted = accepted | (rejected >= starts.env.level_budget)
        ranks = Ranks.of(accepted)
        rank, count = ranks.of_rows(), ranks.count
        rejected = jnp.where(count > 0, 0, rejected + chunk)
    fits = accepted & (ready + rank < size)
    place = jnp.where(fits, (first + ready + rank) % size, size + slot)
    ready = jnp.minimum(ready + count, size)
    counters = _counters(first, ready, served, chunks + 1, rejected)
    return trip._replace(states=written(trip.states, place, made), counters=counters)


def _counters(*numbers: Any) -> Int32[Array, "5"]:
    numbers = (*numbers, *(jnp.int32(0),) * (5 - len(numbers)))
    return jnp.stack(numbers)


def _packed(trip: _Trip, hashed: Array) -> Stock:
    first, ready, *_ = trip.counters
    return Stock(states=trip.states, counters=jnp.stack([first, ready, hashed]))


def digest(params: Any) -> Int32[Array, ""]:
    """Return a hash of all numbers in params; a constant where they are constants."""
    total = jnp.uint32(0)
    for leaf in jax.tree.leaves(params):
        words = _words(jnp.asarray(leaf)).reshape(-1)
        counter = np.arange(words.size, dtype=np.uint32) * np.uint32(0x9E3779B9)
        total = random.mix(total ^ random.mix(words + counter).sum(dtype=jnp.uint32))
    return jax.lax.bitcast_convert_type(total, jnp.int32)


def _words(leaf: Array) -> Array:
    if jnp.issubdtype(leaf.dtype, jnp.floating):
        return jax.lax.bitcast_convert_type(leaf.astype(jnp.float32), jnp.uint32)
    return leaf.astype(jnp.uint32)


def _size(states: Any) -> int:
    return jax.tree.leaves(states)[0].shape[0]
