"""Reset source `stock`: a ring buffer of prepared first states, each of which begins one episode.

States are made in large batches, as fast as episodes end. Each state has its own random key and
does not depend on earlier episodes. Episodes are therefore as independent as with the reset source
`exact`, which generates a level when an episode ends. A row is one environment of the batch. The
prepared state that a row receives depends on the set of done rows.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from . import random
from .carries import varying_like
from .env import Env
from .memory import device_memory
from .ranks import Ranks, numbers_from
from .reset_sources import SELECTED_BYTES
from .starts import PURPOSE_SHIFT, STOCK, STOCK_RESET, Starts, select, tree_bytes, written
from .struct import Struct, struct

# (largest size of a state in bytes, number of levels that are made at a time). For small states, a
# GPU makes 8,192 levels in little more time than it needs to launch the kernels. For large states,
# more than 1,024 levels would not fit into the GPU's cache.
CHUNKS = ((1024, 8192), (1 << 62, 1024))
# If the states of a batch exceed SELECTED_BYTES, the first num_envs / 128 done rows (environments)
# of each step get their states in straight-line code. A loop serves the remaining done rows.
SERVED_SHARE = 128


@struct
class Stock(Struct):
    """A ring buffer of prepared first states; it is a part of the state of a batch."""

    # First axis: the `size` entries of the ring, then one chunk of scratch space. New states that
    # find no room in the ring are written to the scratch space.
    states: Any
    # Four integers: index of the next unused state, number of unused states, number of chunks made
    # so far, and a hash of the params and the ring size with which the states were made. They are
    # one array, because XLA would launch a separate kernel to copy each scalar.
    counters: Int32[Array, "4"]


class _Trip(NamedTuple):
    """Carry of the loop that makes new states and gives them to done environments."""

    rows: Any  # environment states of the batch, first axis num_envs
    states: Any  # prepared first states, as in `Stock.states`
    # Five integers: index of the next unused state, number of unused states, number of chunks made,
    # number of done environments that have received a state, and number of levels that were
    # rejected since the last accepted level.
    counters: Int32[Array, "5"]


def usual_chunk(env: Env, num_envs: int) -> int:
    """Return the default number of levels that are made at a time (`chunk`)."""
    bytes = tree_bytes(env.state_shape)
    most = next(levels for limit, levels in CHUNKS if bytes <= limit)
    return min(most, 2 * num_envs if most > 1024 else max(1, num_envs // 4))


def usual_size(chunk: int, num_envs: int) -> int:
    """Return the default number of states in the ring, a multiple of `chunk`.

    It is the largest of three sizes: two chunks; one state per environment, but at most 4,096; and
    num_envs / 16.
    """
    return chunk * max(2, -(-min(num_envs, 4096) // chunk), num_envs // (16 * chunk))


def check_memory(env: Env, size: int, chunk: int) -> None:
    """Raise `ValueError` if the ring buffer needs more memory than the device has."""
    needed = (size + chunk) * tree_bytes(env.state_shape)
    there = device_memory(jax.local_devices()[0])
    if there is not None and needed > there:
        raise ValueError(
            f"make_vec: stock_size={size:,} needs {needed / 2**30:,.1f} GiB for {env.name}, and "
            f"the device has {there / 2**30:,.1f} GiB; give a smaller stock_size, or "
            f"reset_source='exact', which keeps no levels"
        )


class Ring(NamedTuple):
    """Functions that fill, use and refill the ring buffer of a batch."""

    starts: Starts
    size: int
    chunk: int  # number of states made at a time

    def filled(self) -> Stock:
        """Return a ring filled with new states."""
        rows = self.size + self.chunk
        shapes = self.starts.env.state_shape
        states = jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), shapes)
        key = self.starts.key.reshape(-1)[0]
        trip = _Trip((), states, jnp.zeros(5, jnp.int32))
        trip = jax.tree.map(lambda leaf: varying_like(key, leaf), trip)
        trip = jax.lax.while_loop(self._has_room, self._added, trip)
        return _packed(trip, self._digest())

    def restart(
        self, stock: Stock, states: Any, ended: Bool[Array, " num_envs"]
    ) -> tuple[Any, Stock]:
        """Start an episode in each done environment from a state of the ring, and refill the ring.

        Returns the environment states of the batch and the ring. States that were made with other
        params are discarded first.
        """
        self._check(stock)
        now, count = self._digest(), self.starts.num_envs
        first, ready, chunks, made_with = stock.counters
        # An empty ring begins at 0 again, because chunks are copied to multiples of the chunk size.
        first, ready = (jnp.where(made_with == now, number, 0) for number in (first, ready))
        ranks = Ranks.of(ended)
        trip = _Trip(states, stock.states, _counters(first, ready, chunks))
        if tree_bytes(states) <= SELECTED_BYTES:
            trip = self._serve_all(trip, ended, ranks)
        else:
            trip = self._serve(trip, ranks, max(1, count // SERVED_SHARE))

        def wanted(trip: _Trip) -> Array:
            return (trip.counters[3] < ranks.total) | self._has_room(trip)

        def refill(trip: _Trip) -> _Trip:
            return self._serve(self._added(trip), ranks, min(self.chunk, count))

        trip = jax.lax.while_loop(wanted, refill, trip)
        return trip.rows, _packed(trip, now)

    def _check(self, stock: Stock) -> None:
        """Raise `ValueError` if `stock`, a part of the batch's state, has a wrong length."""
        rows = jax.tree.leaves(stock.states)[0].shape[0]
        if rows != self.size + self.chunk:
            raise ValueError(
                f"this batch keeps a stock of {self.size:,} levels and makes {self.chunk:,} at a "
                f"time, {self.size + self.chunk:,} together; the state has {rows:,}. Give make_vec "
                f"the stock_size and chunk of the batch that the state comes from"
            )

    def _digest(self) -> Int32[Array, ""]:
        """Return a hash of the params and the ring size, which determine the prepared states."""
        return digest((self.starts.params, self.size))

    def _has_room(self, trip: _Trip) -> Array:
        return trip.counters[1] + self.chunk <= self.size

    def _serve_all(self, trip: _Trip, ended: Array, ranks: Ranks) -> _Trip:
        """Give unused states of the ring to the done environments, until the ring is empty.

        The states of all environments are rewritten: a selection takes the new state of a done
        environment, and the old state of any other.
        """
        rank, ready = ranks.of_rows(), trip.counters[1]
        rows = select(ended & (rank < ready), self._taken(trip, rank), trip.rows)
        return self._served(trip._replace(rows=rows), jnp.minimum(ranks.total, ready))

    def _serve(self, trip: _Trip, ranks: Ranks, slots: int) -> _Trip:
        """Give unused states of the ring to the next done environments, at most `slots` of them.

        The next done environments are those that have not yet received a state in this step. If the
        ring has fewer than `slots` unused states, fewer environments receive one. A scatter writes
        the states of these environments only.
        """
        _, ready, _, served, _ = trip.counters
        end = jnp.minimum(ranks.total, served + jnp.minimum(ready, slots))
        places = numbers_from(ranks.rows(), served, slots, end)
        rows = written(trip.rows, places, self._taken(trip, np.arange(slots, dtype=np.int32)))
        return self._served(trip._replace(rows=rows), end - served)

    def _taken(self, trip: _Trip, number: Any) -> Any:
        """Return one or several unused states of the ring, without removing them.

        `number` is the index of each state among the unused states; 0 is the next one to be used.
        """
        place = (trip.counters[0] + number) % self.size
        return jax.tree.map(lambda leaf: leaf.at[place].get(mode="promise_in_bounds"), trip.states)

    def _served(self, trip: _Trip, count: Array) -> _Trip:
        """Return the carry with updated counters, after `count` states were given away."""
        first, ready, chunks, served, rejected = trip.counters
        first = (first + count) % self.size
        counters = _counters(first, ready - count, chunks, served + count, rejected)
        return trip._replace(counters=counters)

    def _added(self, trip: _Trip) -> _Trip:
        """Make a chunk of states, and append the accepted ones if the ring has room for a chunk.

        `env.accepts` may reject levels of the chunk. If at least `level_budget` levels were
        rejected since the last accepted level, all levels of the chunk are accepted.
        """
        first, ready, chunks, served, rejected = trip.counters
        made, accepted = self._made(chunks)
        if self.starts.env.level_budget == 1 and self.size % self.chunk == 0:
            # In this branch no level is ever rejected, so the chunk is copied as one block. A
            # scatter would compute an index for every byte. The barrier keeps XLA from fusing level
            # generation into this copy. If fused, the thread of each byte would generate the whole
            # level that the byte belongs to.
            made = jax.lax.optimization_barrier(made)
            begin = jnp.where(self._has_room(trip), (first + ready) % self.size, self.size)
            states = jax.tree.map(
                lambda ring, new: jax.lax.dynamic_update_slice_in_dim(ring, new, begin, 0),
                trip.states,
                made,
            )
            count = jnp.int32(self.chunk)
        else:
            accepted = accepted | (rejected >= self.starts.env.level_budget)
            ranks = Ranks.of(accepted)
            rank, count = ranks.of_rows(), ranks.total
            rejected = jnp.where(count > 0, 0, rejected + self.chunk)
            place = (first + ready + rank) % self.size
            dropped = self.size + np.arange(self.chunk, dtype=np.int32)
            place = jnp.where(accepted & self._has_room(trip), place, dropped)
            states = written(trip.states, place, made)
        ready = jnp.where(self._has_room(trip), ready + count, ready)
        # Chunks are counted modulo a limit, because level numbers have PURPOSE_SHIFT bits.
        chunks = (chunks + 1) % ((1 << PURPOSE_SHIFT) // self.chunk)
        counters = _counters(first, ready, chunks, served, rejected)
        return trip._replace(states=states, counters=counters)

    def _made(self, chunks: Array) -> tuple[Any, Bool[Array, " chunk"]]:
        """Make one chunk of first states, and return them with the mask of accepted levels.

        `chunks` is the number of chunks made in all steps so far. The numbers of the new levels
        follow from it and are folded into the key, so two steps with the same key still make
        different levels.
        """
        starts = self.starts
        number = chunks * self.chunk + np.arange(self.chunk, dtype=np.int32)
        keys = starts.shared_keys(STOCK, number)
        levels, accepted = starts.candidates(keys, jnp.zeros_like(number), starts.params)
        keys = starts.shared_keys(STOCK_RESET, number)
        return starts.begin_with(keys, levels, starts.params).state, accepted


def _counters(*numbers: Any) -> Int32[Array, "5"]:
    return jnp.stack([*numbers, *(jnp.int32(0),) * (5 - len(numbers))])


def _packed(trip: _Trip, hashed: Array) -> Stock:
    return Stock(states=trip.states, counters=jnp.stack([*trip.counters[:3], hashed]))


def digest(params: Any) -> Int32[Array, ""]:
    """Return a 32-bit hash of all values in `params`.

    XLA evaluates it at compile time if `params` are constants.
    """
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
