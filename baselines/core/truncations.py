"""Values of final observations, which bootstrap episodes that the time limit truncates.

After a truncation the environment holds the next episode, so its final state is copied or evaluated
at once:

- Small states are copied (`store`). The network evaluates all copies once, after the rollout
  (`later`), even if every step truncates some episodes.
- Copies of large states would double the memory of the environments. The network evaluates the
  states in the step that truncates the episodes (`at_once`), a part of the environments at a time,
  because most steps truncate few. A step without a truncation only counts them.

Both ways give the same values up to rounding, which depends on the size of the network's batch.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from .learner import SEEDS, Learner

# A function that returns the values of final states. Its arguments are a batch of environment
# states, the network's recurrent states and, unless the batch has all environments, their indices.
Bootstrap = Callable[..., Array]
# Most bytes of final states, of one seed on one device, that are copied. An H200 moves this number
# of bytes in about seven microseconds. A condition in each step takes as long.
MOST_COPIED = 2**25
# `at_once` evaluates this share of the environments at a time, but at least `LEAST_AT_ONCE`.
SHARE = 32
LEAST_AT_ONCE = 64


def slots(learner: Learner, size: int) -> int:
    """Return the number of copies of final states that a rollout keeps; 0: none are copied.

    `size` is the number of bytes of one copy: environment states and recurrent states of one seed
    on one device.
    """
    count = -(-learner.settings.rollout_steps // shortest_limit(learner))
    return count if count * size <= MOST_COPIED else 0


def shortest_limit(learner: Learner) -> int:
    """Return the smallest number of steps that can lie between two truncations of an environment.

    The number is limited to the range from 1 to `rollout_steps`.
    """
    env, steps = learner.env.env, learner.settings.rollout_steps
    return max(1, min(env.shortest_limit(env.default_params), steps))


def store(finals: PyTree, slot: Array, truncated: Array, final: PyTree) -> PyTree[Array]:
    """Write `final` into a slot of `finals`, for the environments whose episode is `truncated`.

    `final` is a tuple of the environments' final states and the network's recurrent states. Leaves
    of `finals` have the shape (slots, envs, ...); `later` describes the slots.
    """
    rows = jnp.where(truncated, np.arange(len(truncated), dtype=np.int32), len(truncated))
    return jax.tree.map(
        lambda kept, leaf: kept.at[slot, rows].set(leaf, mode="drop"), finals, final
    )


def later(
    bootstrap: Bootstrap, truncated: Bool[Array, "steps envs"], finals: PyTree[Array], apart: int
) -> Float32[Array, "steps envs"]:
    """Return the value of the final state at each step that truncated an episode, else 0.

    `finals`, (slots, envs, ...), has the final environment states and recurrent states from
    `store`. Each slot is shared by `apart` successive steps of the rollout. An environment is
    truncated at most once in these steps, so one entry per environment is enough.

    The network runs only for slots in which an environment of at least one seed was truncated. The
    seeds share this condition: if each seed had its own, `vmap` would run both branches of `cond`.
    """
    steps, count = len(truncated), len(jax.tree.leaves(finals)[0])
    where = jnp.pad(truncated, ((0, count * apart - steps), (0, 0)))
    in_slot = where.reshape(count, -1).any(axis=1).astype(jnp.int32)
    in_slot = jax.lax.pmax(in_slot, SEEDS) > 0

    def value(slot: tuple[Array, PyTree[Array]]) -> Array:
        any_truncated, final = slot
        zeros = jnp.zeros(truncated.shape[1:], jnp.float32)
        return jax.lax.cond(any_truncated, bootstrap, lambda *_: zeros, *final)

    values = jnp.repeat(jax.lax.map(value, (in_slot, finals)), apart, axis=0)[:steps]
    return jnp.where(truncated, values, 0.0)


def at_once(
    bootstrap: Bootstrap, truncated: Bool[Array, " envs"], final: PyTree[Array]
) -> Float32[Array, " envs"]:
    """Return the value of the final state of each environment that a step truncated, else 0.

    `final` is a tuple of the environments' states before any reset and of the recurrent states.
    The seed with the most truncations sets the number of iterations, which is 0 in most steps.
    """
    envs = len(truncated)
    rows = max(envs // SHARE, min(envs, LEAST_AT_ONCE))
    most = jax.lax.pmax(truncated.sum(dtype=jnp.int32), SEEDS)

    def part(_: Int32[Array, ""], carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, values = carry
        # If fewer than `rows` are left, the first environment fills the other places.
        (chosen,) = jnp.nonzero(left, size=rows, fill_value=0)
        found = bootstrap(*jax.tree.map(lambda leaf: leaf[chosen], final), chosen)
        return left.at[chosen].set(False), values.at[chosen].set(found)

    start = truncated, jnp.where(truncated, 0.0, jnp.float32(0))
    values = jax.lax.fori_loop(0, (most + rows - 1) // rows, part, start)[1]
    return jnp.where(truncated, values, 0.0)
