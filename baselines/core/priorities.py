"""Prioritised replay (Schaul et al., 2016), proportional: what surprised is drawn more often.

The probability of a slot is its priority over the sum of all. Sums have three levels, so that
drawing reads a few hundred numbers however many slots there are: blocks of slots, the blocks of an
environment, the environments. Each level has a random number of its own and adds few numbers, so
float32 stays exact enough for millions of slots.

Priority 0, never drawn: slots without a step, with a window that is not complete yet, or about to
be overwritten.

Several devices draw as one would: all of them know the sums of all environments and draw the same
ones, each finds the slots in its own, and the steps are dealt out evenly. New errors go back to
where their slots are.
"""

import math
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32

from .devices import Devices
from .replay_buffer import ReplayBuffer

LEAST = 1e-6  # added to every error, so that each step can be drawn again


class Priorities(NamedTuple):
    """Priorities of the slots of a replay buffer."""

    value: Float32[Array, "*seeds envs blocks size"]  # of slots by blocks, padded with zeros
    largest: Float32[Array, "*seeds envs"]  # so far, of all environments


class SampledSlots(NamedTuple):
    """Slots that were drawn: on several devices, `slot` and `weight` are right where they are."""

    env: Int32[Array, " batch"]  # past the last one where another device has it
    slot: Int32[Array, " batch"]
    weight: Float32[Array, " batch"]  # importance weight, at most 1
    device: Any = ()  # int32, of each


def empty(envs: int, slots: int) -> Priorities:
    """Priorities of a replay buffer that is empty."""
    size = math.isqrt(slots - 1) + 1
    blank = jnp.zeros((envs, -(-slots // size), size), jnp.float32)
    return Priorities(blank, jnp.ones(envs, jnp.float32))


def add_complete(
    priorities: Priorities,
    buffer: ReplayBuffer,
    before: Int32[Array, " envs"],
    reach: int,
    spacing: int = 1,
) -> Priorities:
    """Priorities after steps were added to a buffer that had `written` equal to `before`.

    Windows begin in every slot with a step, or in each `spacing`-th slot, and end `reach` slots
    later. Those that became complete get the largest priority so far.
    """
    envs, slots = buffer.is_step.shape
    chex.assert_shape(before, (envs,), custom_message="before is [envs]")
    written, slot = buffer.written[:, None], jnp.arange(0, slots, spacing, dtype=jnp.int32)
    count = written - (written - slot) % slots  # when the slot was written last; below 0: never
    complete = (count >= 0) & (count > written - slots) & (count <= written - reach)
    if spacing == 1:
        complete &= buffer.is_step
    is_new = count > before[:, None] - reach
    old = priorities.value.reshape(envs, -1)
    value = jnp.where(is_new, priorities.largest[:, None], old[:, : len(slot)])
    value = jnp.where(complete, value, 0.0)
    value = jnp.pad(value, ((0, 0), (0, old.shape[1] - len(slot))))
    return priorities._replace(value=value.reshape(priorities.value.shape))


def sums(priorities: Priorities) -> Float32[Array, "envs blocks"]:
    """The sum of each block."""
    return priorities.value.sum(axis=2)


def sample(
    key: Array,
    priorities: Priorities,
    sums: Float32[Array, "envs blocks"],
    size: int,
    beta: Float32[Array, ""],
    devices: Devices,
) -> SampledSlots:
    """Draw `size` slots in proportion to their priorities, of all devices together.

    Environments are drawn from even strata of the whole sum. `beta` is the exponent of the
    importance weights, whose maximum over the batch is 1.
    """
    key = devices.first_key(key)
    within_row, within_block = jax.random.uniform(key, (2, size), jnp.float32)
    stratum = jnp.arange(size, dtype=jnp.float32)
    spread = jax.random.uniform(jax.random.fold_in(key, 1), (size,), jnp.float32)
    rows = devices.joined(sums.sum(axis=1))
    place = jax.vmap(pick, (0, None))((stratum + spread) / size, rows)
    device, env = jnp.divmod(place, len(sums))
    is_here = device == devices.index
    block = jax.vmap(pick)(within_row, sums[env])
    values = priorities.value[env, block]
    place = jax.vmap(pick)(within_block, values)
    share = jnp.take_along_axis(values, place[:, None], axis=1)[:, 0] / rows.sum()
    weight = (devices.least(jnp.where(is_here, share, 1.0).min()) / share) ** beta
    slot = block * priorities.value.shape[2] + place
    return SampledSlots(jnp.where(is_here, env, len(sums)), slot, weight, device)


def pick(share: Float32[Array, ""], masses: Float32[Array, " items"]) -> Int32[Array, ""]:
    """Return the item that a share (0 to 1) of the sum of all masses falls into.

    Its mass is not 0, whatever rounding does, if any is.
    """
    reached = jnp.cumsum(masses)
    item = jnp.searchsorted(reached, share * reached[-1], side="right", method="compare_all")
    item = jnp.minimum(item, len(masses) - 1).astype(jnp.int32)
    return jnp.where(masses[item] > 0.0, item, masses.argmax().astype(jnp.int32))


def update(
    priorities: Priorities,
    sums: Float32[Array, "envs blocks"],
    drawn: SampledSlots,
    error: Float32[Array, " batch"],
    exponent: float,
) -> tuple[Priorities, Float32[Array, "envs blocks"]]:
    """Priorities and sums after errors of drawn slots; one drawn twice keeps its larger error.

    Slots of other devices are left out.
    """
    chex.assert_equal_shape([drawn.slot, error], custom_message="slots and errors, [batch]")
    block, place = jnp.divmod(drawn.slot, priorities.value.shape[2])
    new = (jnp.abs(error) + LEAST) ** exponent
    where = (drawn.env, block, place)
    value = priorities.value.at[where].set(0.0).at[where].max(new)
    sums = sums.at[drawn.env, block].set(value[drawn.env, block].sum(axis=1))
    return Priorities(value, jnp.maximum(priorities.largest, new.max())), sums
