"""Reset sources: where environments of a batch whose episode is done get their next level.

A row is one environment of the batch.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from . import random
from .platforms import by_platform
from .ranks import Ranks, numbers_from
from .starts import LEVEL, Starts, select, tree_bytes, written

# Up to this size of a batch's states, in bytes, a GPU is faster if it makes a new state for every
# row and selects than if it lists the done rows, which costs six kernels and a wait for the host.
SELECTED_BYTES = 32 << 20
# The limit for `auto`, where a level is also generated for each row. At 65,536 rows on an H200,
# `fresh` is as fast as `exact` for DoorKey (states of 5 MB), and half as fast for rule worlds of
# `xland` (11 MB).
GENERATED_BYTES = 8 << 20

Ended = Bool[Array, " num_envs"]


def fresh(starts: Starts, states: Any, ended: Ended) -> Any:
    """Generate a level for every row, and use it where the episode is done."""
    return select(ended, starts.new_rows(starts.rows).state, states)


def auto(starts: Starts, states: Any, ended: Ended) -> Any:
    """Use `exact` on a CPU, to save work, and `fresh` elsewhere, to launch fewer kernels.

    A large batch is `exact` everywhere: levels and a selection for all rows would take longer.
    """
    if tree_bytes(states) > GENERATED_BYTES:
        return exact(starts, states, ended)
    return _by_platform(starts, states, ended, cpu=exact, default=fresh)


def pool(starts: Starts, levels: Any, states: Any, ended: Ended) -> Any:
    """Give each done row one of the prepared levels, drawn with replacement."""
    if tree_bytes(states) <= SELECTED_BYTES:
        return pool_by_selection(starts, levels, states, ended)
    return _by_platform(starts, levels, states, ended, cpu=pool_by_selection, default=pool_by_list)


def pool_by_selection(starts: Starts, levels: Any, states: Any, ended: Ended) -> Any:
    """Make a first state for every row, and use it where the episode is done."""
    return select(ended, _from_pool(starts, levels, starts.rows), states)


def pool_by_list(starts: Starts, levels: Any, states: Any, ended: Ended) -> Any:
    """Make first states for the done rows only."""
    slots = _slots(starts.num_envs, 64)
    return _listed(slots, functools.partial(_from_pool, starts, levels), states, ended)


def _from_pool(starts: Starts, levels: Any, rows: Int32[Array, " rows"]) -> Any:
    """Return the first states of these rows, each in a level drawn from the pool."""
    size = jax.tree.leaves(levels)[0].shape[0]
    keys, counters = starts.key, rows
    if keys.ndim:
        keys, counters = keys[rows], jnp.full_like(rows, LEVEL)
    picked = random.below(random.hashed(keys, counters), size)
    return starts.states(rows, jax.tree.map(lambda leaf: leaf[picked], levels))


def exact(starts: Starts, states: Any, ended: Ended, chunk: int | None = None) -> Any:
    """Generate levels for the done rows, `chunk` at a time: the same levels as `fresh`."""
    count = starts.num_envs
    narrow = min(chunk or max(1, max(512, count) // starts.env.rows_per_lane), count)
    wide = chunk or _slots(count, 192 if starts.env.level_budget == 1 else 8)

    def on_cpu(starts: Starts, states: Any, ended: Ended) -> Any:
        return _by_lane(starts, narrow, states, ended)

    def elsewhere(starts: Starts, states: Any, ended: Ended) -> Any:
        if starts.env.level_budget == 1:
            draw = functools.partial(_first_candidates, starts)
            return _listed(min(wide, count), draw, states, ended, always=False)
        return _by_candidate(starts, min(wide, count), states, ended)

    return _by_platform(starts, states, ended, cpu=on_cpu, default=elsewhere)


def _by_platform(
    starts: Starts, *given: Any, cpu: Callable[..., Any], default: Callable[..., Any]
) -> Any:
    """Apply `by_platform` to functions of (starts, *given); the arrays of `starts` are inputs."""

    def form(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda key, params, *given: function(starts._replace(key=key, params=params), *given)

    return by_platform(starts.key, starts.params, *given, cpu=form(cpu), default=form(default))


def _slots(num_envs: int, share: int) -> int:
    """Return how many rows a GPU serves together: the batch divided by `share`, at least 8."""
    return min(num_envs, max(8, num_envs // share))


def _listed(
    slots: int,
    begin: Callable[[Int32[Array, " slots"]], Any],
    states: Any,
    ended: Ended,
    always: bool = True,
) -> Any:
    """Begin episodes in the done rows, `slots` at a time.

    With `always`, the first iteration runs before the loop, because the host waits for the GPU at
    each evaluation of the loop's condition. `begin` is then compiled twice.
    """
    ranks = Ranks.of(ended)
    listed = ranks.rows()

    def serve(trip: Any, states: Any) -> Any:
        rows = numbers_from(listed, trip * slots, slots, ranks.total)
        return written(states, rows, begin(rows), in_order=True)

    trips = (ranks.total + (slots - 1)) // slots
    if not always:
        return jax.lax.fori_loop(0, trips, serve, states)
    states = serve(0, states)
    return jax.lax.fori_loop(1, jnp.maximum(trips, 1), serve, states)


def _first_candidates(starts: Starts, rows: Int32[Array, " rows"]) -> Any:
    """Return the first states of these rows, each in its first candidate level, accepted or not."""
    levels, _ = starts.candidates(
        starts.keys(LEVEL, rows), jnp.zeros_like(rows), starts.params_of(rows)
    )
    return starts.states(rows, levels)


def _by_candidate(starts: Starts, lanes: int, states: Any, ended: Ended) -> Any:
    """Generate levels that may be rejected: several candidates at a time for each done row.

    `each` is the number of lanes per done row: lane l draws for the done row of rank l // each. The
    first accepted candidate of a row counts, as if candidates were drawn one after another.
    """
    lane = np.arange(lanes, dtype=np.int32)
    nowhere = starts.num_envs + lane

    def serve(carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
        states, pending, tried = carry
        ranks = Ranks.of(pending)
        each = jnp.maximum(1, lanes // jnp.maximum(ranks.total, 1))
        rank, turn = lane // each, lane % each
        inside = rank < ranks.total
        rows = ranks.rows().at[rank].get(mode="clip")
        number = tried[rows] + turn
        keys, params = starts.keys(LEVEL, rows), starts.params_of(rows)
        levels, accepted = starts.candidates(keys, number, params)
        accepted = accepted & inside & (number < starts.env.level_budget)
        first = jnp.full(lanes, lanes, jnp.int32).at[rank].min(jnp.where(accepted, lane, lanes))
        chosen = jnp.where(accepted & (first[rank] == lane), rows, nowhere)
        states = written(states, chosen, starts.begin(rows, levels, params).state)
        pending = pending.at[chosen].set(False, mode="drop", unique_indices=True)
        last = jnp.where(inside & (turn == each - 1), rows, nowhere)
        tried = tried.at[last].add(each, mode="drop", unique_indices=True)
        return states, pending, tried

    start = (states, ended, jnp.zeros_like(ended, jnp.int32))
    return jax.lax.while_loop(lambda carry: carry[1].any(), serve, start)[0]


def _by_lane(starts: Starts, lanes: int, states: Any, ended: Ended) -> Any:
    """Generate levels for the done rows, `lanes` at a time, and write those rows in place.

    Lane `lane` serves the rows `group * lanes + lane`. Each iteration of the loop therefore finds
    its rows by a maximum over the groups, without a sort or a prefix sum over the batch.
    """
    num_envs = starts.num_envs
    groups = -(-num_envs // lanes)
    pending = jnp.pad(ended.astype(jnp.uint8), (0, groups * lanes - num_envs))
    pending = pending.reshape(groups, lanes)
    order = jnp.arange(groups, 0, -1, dtype=jnp.int32)[:, None]  # largest for the first group

    def serve(carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
        states, pending, number = carry
        first = groups - jnp.where(pending != 0, order, 0).max(axis=0)
        # A lane with no row left writes beyond the last row, which drops the write.
        rows = jnp.minimum(first * lanes + np.arange(lanes, dtype=np.int32), num_envs)
        chosen = starts.params_of(rows)
        levels, accepted = starts.candidates(starts.keys(LEVEL, rows), number, chosen)
        new = starts.begin(rows, levels, chosen).state
        places = jnp.where(accepted, rows, num_envs)
        states = jax.tree.map(
            lambda leaf, world: leaf.at[places].set(world, mode="drop"), states, new
        )
        served = (jnp.arange(groups, dtype=jnp.int32)[:, None] == first) & accepted
        # A lane whose level was not accepted stays at its row and draws the next one.
        number = jnp.where(accepted, 0, number + 1)
        return states, jnp.where(served, jnp.uint8(0), pending), number

    start = (states, pending, jnp.zeros_like(pending[0], jnp.int32))
    if starts.env.level_budget > 1:
        return jax.lax.while_loop(lambda carry: (carry[1] != 0).any(), serve, start)[0]
    trips = pending.sum(axis=0, dtype=jnp.int32).max()
    return jax.lax.fori_loop(0, trips, lambda _, carry: serve(carry), start)[0]
