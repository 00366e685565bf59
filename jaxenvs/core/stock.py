"""Reset source `stock`: a ring of prepared first states, each of which begins one episode.

They are made in large batches, at the rate at which episodes end. Each is drawn with a separate
key, and none depends on what happened in an episode, so episodes are as independent as with
`exact`. Which row gets which one depends on the other rows of the batch.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from . import random
from .env import Env, varying_like
from .memory import device_memory
from .ranks import Ranks
from .reset_sources import SELECTED_BYTES
from .starts import STOCK, STOCK_RESET, Starts, select, tree_bytes, written
from .struct import Struct, struct

LARGEST_CHUNK = 1024  # more levels at a time leave a GPU's cache
SLOTS = 64  # in one step on a GPU, one of this many rows is served without a loop


@struct
class Stock(Struct):
    """A ring of first states."""

    states: Any  # first axis of the ring's size
    first: Int32[Array, ""]  # place of the next unused one
    ready: Int32[Array, ""]  # unused ones from there on
    digest: UInt32[Array, ""]  # of the params that they were made with


def usual_size(num_envs: int) -> int:
    """Return the ring's size for a batch: its own size up to 4,096, then a 16th."""
    return max(16, min(num_envs, 4096), num_envs // 16)


def usual_chunk(size: int) -> int:
    """Return how many levels of a ring are made at a time."""
    return max(1, min(size // 4, LARGEST_CHUNK))


def check_memory(env: Env, size: int) -> None:
    """Raise `ValueError` for a ring that the device cannot hold."""
    needed = size * tree_bytes(env.state_shape)
    there = device_memory(jax.local_devices()[0])
    if there is not None and needed > there:
        most = there // max(1, tree_bytes(env.state_shape))
        raise ValueError(
            f"make_vec: stock_size={size:,} needs {needed / 2**30:,.1f} GiB for {env.name}, the "
            f"device has {there / 2**30:,.1f} GiB; give a stock_size far below {most:,}, or "
            f"reset_source='exact'"
        )


def filled(starts: Starts, size: int, chunk: int) -> Stock:
    """Return a full ring."""
    shapes = starts.env.state_shape
    nothing = jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), shapes)
    empty = Stock(
        states=nothing, first=jnp.int32(0), ready=jnp.int32(0), digest=digest(starts.params)
    )
    key = starts.key.reshape(-1)[0]
    return _refilled(starts, jax.tree.map(lambda leaf: varying_like(key, leaf), empty), chunk)


def restart(
    starts: Starts, stock: Stock, states: Any, ended: Bool[Array, " num_envs"], chunk: int
) -> tuple[Any, Stock]:
    """Begin an episode in each row that ended, from the ring, and refill the ring.

    States made with other params count as used.
    """
    now = digest(starts.params)
    ready = jnp.where(stock.digest == now, stock.ready, 0)
    stock = stock.replace(ready=ready, digest=now)
    ranks = Ranks.of(ended)
    serve = _serve_all if tree_bytes(states) <= SELECTED_BYTES else _serve_some
    states, stock, served = serve(stock, states, ended, ranks)
    size = _size(stock)
    slot = np.arange(min(chunk, starts.num_envs), dtype=np.int32)

    def wanted(carry: tuple[Any, Stock, Array, Array, Array]) -> Array:
        _, stock, served, _, _ = carry
        return (served < ranks.count) | (stock.ready + chunk <= size)

    def refill(carry: tuple[Any, Stock, Array, Array, Array]) -> Any:
        states, stock, served, trip, rejected = carry
        stock, rejected = _added(starts, stock, chunk, trip, rejected)
        given = slot < stock.ready
        rows = jnp.where(given, ranks.rows(served + slot), starts.num_envs + slot)
        states = written(states, rows, _taken(stock, slot), in_order=False)
        count = jnp.minimum(jnp.minimum(ranks.count - served, stock.ready), slot.size)
        return states, _moved(stock, count), served + count, trip + 1, rejected

    zero = jnp.zeros_like(served)
    return jax.lax.while_loop(wanted, refill, (states, stock, served, zero, zero))[:2]


def _serve_all(
    stock: Stock, states: Any, ended: Array, ranks: Ranks
) -> tuple[Any, Stock, Int32[Array, ""]]:
    """Serve every row, as far as the ring goes, by a selection over all of them."""
    rank = ranks.of_rows()
    states = select(ended & (rank < stock.ready), _taken(stock, rank), states)
    served = jnp.minimum(ranks.count, stock.ready)
    return states, _moved(stock, served), served


def _serve_some(
    stock: Stock, states: Any, ended: Array, ranks: Ranks
) -> tuple[Any, Stock, Int32[Array, ""]]:
    """Serve the first rows that ended, as far as the ring goes, and write only those."""
    slots = max(1, ended.shape[0] // SLOTS)
    slot = np.arange(slots, dtype=np.int32)
    rows = jnp.where(slot < stock.ready, ranks.rows(jnp.asarray(slot)), ended.shape[0] + slot)
    states = written(states, rows, _taken(stock, slot), in_order=False)
    served = jnp.minimum(jnp.minimum(ranks.count, stock.ready), slots)
    return states, _moved(stock, served), served


def _taken(stock: Stock, number: Any) -> Any:
    """Return the unused states of these numbers, counted from the next one."""
    place = (stock.first + number) % _size(stock)
    return jax.tree.map(lambda leaf: leaf.at[place].get(mode="promise_in_bounds"), stock.states)


def _moved(stock: Stock, count: Array) -> Stock:
    """Count states as used."""
    return stock.replace(first=(stock.first + count) % _size(stock), ready=stock.ready - count)


def _refilled(starts: Starts, stock: Stock, chunk: int) -> Stock:
    """Make states until no chunk has room."""

    def wanted(carry: tuple[Stock, Array, Array]) -> Array:
        return carry[0].ready + chunk <= _size(stock)

    def refill(carry: tuple[Stock, Array, Array]) -> tuple[Stock, Array, Array]:
        stock, trip, rejected = carry
        stock, rejected = _added(starts, stock, chunk, trip, rejected)
        return stock, trip + 1, rejected

    zero = jnp.zeros_like(stock.ready)
    return jax.lax.while_loop(wanted, refill, (stock, zero, zero))[0]


def _added(
    starts: Starts, stock: Stock, chunk: int, trip: Array, rejected: Array
) -> tuple[Stock, Array]:
    """Make a chunk of states and append the accepted ones, as far as there is room.

    `rejected` counts levels since one was accepted: with a budget of them any is accepted.
    """
    slot = np.arange(chunk, dtype=np.int32)
    number = trip * chunk + slot
    zeros = jnp.zeros_like(number)
    keys = starts.shared_keys(STOCK, number)
    levels, accepted = starts.candidates(keys, zeros, starts.params)
    made = starts.begin_with(starts.shared_keys(STOCK_RESET, number), levels, starts.params).state
    size, rank, count = _size(stock), slot, jnp.int32(chunk)
    if starts.env.level_budget > 1:
        accepted = accepted | (rejected >= starts.env.level_budget)
        ranks = Ranks.of(accepted)
        rank, count = ranks.of_rows(), ranks.count
        rejected = jnp.where(count > 0, 0, rejected + chunk)
    fits = accepted & (stock.ready + rank < size)
    place = jnp.where(fits, (stock.first + stock.ready + rank) % size, size + slot)
    ready = jnp.minimum(stock.ready + count, size)
    return stock.replace(states=written(stock.states, place, made), ready=ready), rejected


def digest(params: Any) -> UInt32[Array, ""]:
    """Return a hash of all numbers in params; a constant where they are constants."""
    total = jnp.uint32(0)
    for leaf in jax.tree.leaves(params):
        words = _words(jnp.asarray(leaf)).reshape(-1)
        counter = np.arange(words.size, dtype=np.uint32) * np.uint32(0x9E3779B9)
        total = random.mix(total ^ random.mix(words + counter).sum(dtype=jnp.uint32))
    return total


def _words(leaf: Array) -> UInt32[Array, "..."]:
    if jnp.issubdtype(leaf.dtype, jnp.floating):
        return jax.lax.bitcast_convert_type(leaf.astype(jnp.float32), jnp.uint32)
    return leaf.astype(jnp.uint32)


def _size(stock: Stock) -> int:
    return jax.tree.leaves(stock.states)[0].shape[0]
