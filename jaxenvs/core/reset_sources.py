"""Reset sources: how `VectorEnv` obtains new levels for the environments whose episode is done.

This module implements `fresh`, `exact`, `auto` and `pool`. `exact` and `pool` have separate
variants for CPUs and GPUs. A row is one environment of the batch; `ended` is the mask of done rows.
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

# Largest size of the states of a batch, in bytes, at which a GPU makes a new state for every
# environment and selects the new states of the done environments. For a larger batch, the GPU makes
# states only for the done environments, although it costs six kernels and a wait for the host to
# list these environments.
SELECTED_BYTES = 32 << 20
# Largest size of the states of a batch, in bytes, at which `auto` on a GPU uses `fresh`, which
# generates a level for every environment. Measured on an H200 with 65,536 environments: `fresh` is
# as fast as `exact` for DoorKey (all states together 5 MB), and half as fast for rule-based `xland`
# environments (11 MB).
GENERATED_BYTES = 8 << 20

Ended = Bool[Array, " num_envs"]


def fresh(starts: Starts, states: Any, ended: Ended) -> Any:
    """Generate a level for every environment, but start episodes only in the done environments.

    The levels of the other environments are dropped. Return the states of the batch.
    """
    return select(ended, starts.new_rows(starts.rows).state, states)


def auto(starts: Starts, states: Any, ended: Ended) -> Any:
    """Start new episodes in the done environments: by `exact` on a CPU, by `fresh` on a GPU.

    `exact` generates fewer levels than `fresh`, but launches more kernels on a GPU. If the states
    of the batch exceed `GENERATED_BYTES`, a GPU uses `exact` too, because generating a level for
    every environment would then take longer than the extra kernels. Return the states of the batch.
    """
    if tree_bytes(states) > GENERATED_BYTES:
        return exact(starts, states, ended)
    return _by_platform(starts, states, ended, cpu=exact, default=fresh)


def pool(starts: Starts, levels: Any, states: Any, ended: Ended) -> Any:
    """Start an episode in each done environment, in a level that is drawn from `levels`.

    `levels` is the pool of prepared levels; the same level may be drawn several times. Return the
    states of the batch.
    """
    if tree_bytes(states) <= SELECTED_BYTES:
        return pool_by_selection(starts, levels, states, ended)
    return _by_platform(starts, levels, states, ended, cpu=pool_by_selection, default=pool_by_list)


def pool_by_selection(starts: Starts, levels: Any, states: Any, ended: Ended) -> Any:
    """Make a new state for every environment, and use it in the done environments only.

    The new states start in prepared levels. An environment that is not done keeps its state in
    `states`. Return the states of the batch.
    """
    return select(ended, _from_pool(starts, levels, starts.rows), states)


def pool_by_list(starts: Starts, levels: Any, states: Any, ended: Ended) -> Any:
    """List the done environments, and start episodes in prepared levels for the listed ones only.

    Return the states of the batch.
    """
    slots = _slots(starts.num_envs, 64)
    return _listed(slots, functools.partial(_from_pool, starts, levels), states, ended)


def _from_pool(starts: Starts, levels: Any, rows: Int32[Array, " rows"]) -> Any:
    """Return the first state of a new episode for each of the environments `rows`.

    The level of each episode is drawn from `levels`, the prepared levels of the pool.
    """
    size = jax.tree.leaves(levels)[0].shape[0]
    keys, counters = starts.key, rows
    if keys.ndim:
        keys, counters = keys[rows], jnp.full_like(rows, LEVEL)
    picked = random.below(random.hashed(keys, counters), size)
    return starts.states(rows, jax.tree.map(lambda leaf: leaf[picked], levels))


def exact(starts: Starts, states: Any, ended: Ended, chunk: int | None = None) -> Any:
    """Start new episodes in the done rows, and generate levels for these rows only.

    A row is one environment of the batch. `chunk` is the number of levels that are generated at a
    time; None means a default. The levels are the same as with `fresh`, bit for bit. Return the
    states of the batch.
    """
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
    """Call `cpu(starts, *given)` on a CPU, `default(starts, *given)` on other platforms.

    `platforms.by_platform` takes only arrays, but `starts` contains an environment too. Only its
    arrays (key and params) are therefore passed, and the called function puts them back into
    `starts`.
    """

    def form(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda key, params, *given: function(starts._replace(key=key, params=params), *given)

    return by_platform(starts.key, starts.params, *given, cpu=form(cpu), default=form(default))


def _slots(num_envs: int, share: int) -> int:
    """Return how many done environments a GPU restarts at a time: num_envs / share, at least 8."""
    return min(num_envs, max(8, num_envs // share))


def _listed(
    slots: int,
    begin: Callable[[Int32[Array, " slots"]], Any],
    states: Any,
    ended: Ended,
    always: bool = True,
) -> Any:
    """Start new episodes in the done environments, `slots` environments at a time.

    `begin` takes indices of environments and returns their first states. A loop calls `begin` until
    all done environments have started. With `always`, the first iteration runs before the loop,
    even if no environment is done. This saves one evaluation of the loop's condition on the host,
    and thus a wait for the GPU, but `begin` is compiled twice. Return the states of the batch.
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
    """Return the first state of a new episode for each of the environments `rows`.

    Each episode starts in the first level that is drawn, without a check by `accepts`.
    """
    levels, _ = starts.candidates(
        starts.keys(LEVEL, rows), jnp.zeros_like(rows), starts.params_of(rows)
    )
    return starts.states(rows, levels)


def _by_candidate(starts: Starts, lanes: int, states: Any, ended: Ended) -> Any:
    """Start new episodes in the done rows, in levels that `accepts` may reject.

    A row is one environment of the batch. Each iteration draws `lanes` candidate levels in
    parallel, and divides them evenly among the done rows that still wait for a level. The rank of a
    row is its index among the waiting rows. Candidate l belongs to the row of rank l // each, so
    each waiting row gets `each` candidates. A row takes its first accepted candidate. The result is
    therefore the same as if the candidates of a row were drawn one after another.
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
    """Start new episodes in the done rows, at most `lanes` rows at a time; write only these rows.

    A row is one environment of the batch. The rows are divided into groups of `lanes` rows, and
    lane i serves the i-th row of each group. In each iteration, every lane draws one level for the
    first of its rows that still waits for a level. A maximum over the groups finds this row, which
    is cheaper than a sort or a prefix sum over the batch.
    """
    num_envs = starts.num_envs
    groups = -(-num_envs // lanes)
    pending = jnp.pad(ended.astype(jnp.uint8), (0, groups * lanes - num_envs))
    pending = pending.reshape(groups, lanes)
    # `pending` is 1 for the rows that wait for a level. `order` decreases from group to group, so
    # its maximum over the pending rows of a lane gives the first group in which the lane has a
    # pending row.
    order = jnp.arange(groups, 0, -1, dtype=jnp.int32)[:, None]

    def serve(carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
        states, pending, number = carry
        first = groups - jnp.where(pending != 0, order, 0).max(axis=0)
        # For a lane without a pending row, the index is num_envs, and JAX drops the write.
        rows = jnp.minimum(first * lanes + np.arange(lanes, dtype=np.int32), num_envs)
        chosen = starts.params_of(rows)
        levels, accepted = starts.candidates(starts.keys(LEVEL, rows), number, chosen)
        new = starts.begin(rows, levels, chosen).state
        places = jnp.where(accepted, rows, num_envs)
        states = jax.tree.map(
            lambda leaf, world: leaf.at[places].set(world, mode="drop"), states, new
        )
        served = (jnp.arange(groups, dtype=jnp.int32)[:, None] == first) & accepted
        # A lane whose level was rejected keeps its row and draws the next candidate level for it.
        number = jnp.where(accepted, 0, number + 1)
        return states, jnp.where(served, jnp.uint8(0), pending), number

    start = (states, pending, jnp.zeros_like(pending[0], jnp.int32))
    if starts.env.level_budget > 1:
        return jax.lax.while_loop(lambda carry: (carry[1] != 0).any(), serve, start)[0]
    trips = pending.sum(axis=0, dtype=jnp.int32).max()
    return jax.lax.fori_loop(0, trips, lambda _, carry: serve(carry), start)[0]
