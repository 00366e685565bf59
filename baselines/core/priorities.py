"""Prioritised replay (Schaul et al., 2016), proportional variant.

A slot is sampled with probability priority / sum of priorities, in three stages: an environment, a
block of its slots, and a slot in the block. Sampling therefore reads far fewer priorities than
there are slots. Each stage uses a separate random number and adds up few priorities, so float32 is
exact enough for millions of slots.

A sample is a window: a sequence of successive slots that begins in the sampled slot. Slots that
must not be sampled have priority 0: slots that hold no step, slots whose window is not yet written
to its end, and slots that are about to be overwritten.

Sampling on several devices is equivalent to sampling on one. Each device knows the sum of
priorities of every environment, so all devices draw the same environments. A device then draws
slots in its own environments, and the sampled steps are distributed evenly among the devices. New
TD errors are sent back to the device that holds their slots.
"""

import math
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32

from .devices import Devices
from .replay_buffer import ReplayBuffer, newest

LEAST = 1e-6  # added to every absolute TD error, so that a step with error 0 can be sampled again


class Priorities(NamedTuple):
    """Priorities of the slots of a replay buffer."""

    # Priority of each slot. An environment's slots are grouped into blocks of successive slots, so
    # that sampling reads few numbers. The last block is padded with zeros.
    value: Float32[Array, "*seeds envs blocks size"]
    # largest priority so far over all environments, repeated for each environment
    largest: Float32[Array, "*seeds envs"]


class SampledSlots(NamedTuple):
    """Slots of the replay buffer that `sample` drew by priority.

    `slot` and `weight` are valid only on the device that holds the slot.
    """

    env: Int32[Array, " batch"]  # environment index; out of range if another device holds the slot
    slot: Int32[Array, " batch"]
    weight: Float32[Array, " batch"]  # importance weight, at most 1
    device: Any = ()  # int32 (batch,), index of the device that holds the slot


def empty(envs: int, slots: int) -> Priorities:
    """Return priorities of 0 for an empty replay buffer of `slots` slots per environment.

    The n slots of an environment are grouped into about sqrt(n) blocks of about sqrt(n) successive
    slots. Drawing first a block and then a slot of the block reads only about 2 sqrt(n) numbers.
    """
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
    """Return the priorities after new steps were added to a replay buffer.

    Replay samples windows (sequences of successive slots) by the priority of their first slot. With
    `spacing` 1, a window can begin in every slot that holds a step, else in every `spacing`-th
    slot. The last slot of a window is `reach` slots after the first.

    A new window is complete when its last slot is written. The priority of its first slot then
    becomes the largest priority so far. Slots at which no complete window begins get priority 0.
    `before` is the result of `replay_buffer.newest` before the steps were added.
    """
    envs, slots = buffer.is_step.shape
    chex.assert_shape(before, (envs,), custom_message="before is [envs]")
    written, slot = buffer.written[:, None], jnp.arange(0, slots, spacing, dtype=jnp.int32)
    # `count` is each slot's number in the order of writing, from 0 at the start of the run;
    # negative: the slot is empty. The slot to be overwritten next already has the number of the
    # coming write, so no window that begins in it counts as complete.
    count = written - (written - slot) % slots
    last = newest(buffer)[:, None] - reach
    complete = (count >= 0) & (count > written - slots) & (count <= last)
    if spacing == 1:
        complete &= buffer.is_step
    is_new = count > before[:, None] - reach
    old = priorities.value.reshape(envs, -1)
    value = jnp.where(is_new, priorities.largest[:, None], old[:, : len(slot)])
    value = jnp.where(complete, value, 0.0)
    value = jnp.pad(value, ((0, 0), (0, old.shape[1] - len(slot))))
    return priorities._replace(value=value.reshape(priorities.value.shape))


def sums(priorities: Priorities) -> Float32[Array, "envs blocks"]:
    """Return, for each block of successive slots, the sum of the priorities of its slots."""
    return priorities.value.sum(axis=2)


def sample(
    key: Array,
    priorities: Priorities,
    sums: Float32[Array, "envs blocks"],
    size: int,
    beta: Float32[Array, ""],
    devices: Devices,
) -> SampledSlots:
    """Sample `size` slots in proportion to their priorities, over all devices together.

    Environments are drawn by stratified sampling. The sum of all priorities is divided into `size`
    equal intervals, and a random number in the i-th interval selects the environment of sample i.
    `beta` is the exponent of the importance weights, which are divided by their maximum over the
    batch.
    """
    key = devices.first_key(key)
    within_row, within_block = jax.random.uniform(key, (2, size), jnp.float32)
    stratum = jnp.arange(size, dtype=jnp.float32)
    within_stratum = jax.random.uniform(jax.random.fold_in(key, 1), (size,), jnp.float32)
    rows = devices.all_gather(sums.sum(axis=1))
    place = jax.vmap(pick, (0, None))((stratum + within_stratum) / size, rows)
    device, env = jnp.divmod(place, len(sums))
    is_here = device == devices.index
    block = jax.vmap(pick)(within_row, sums[env])
    values = priorities.value[env, block]
    place = jax.vmap(pick)(within_block, values)
    share = jnp.take_along_axis(values, place[:, None], axis=1)[:, 0] / rows.sum()
    weight = (devices.minimum(jnp.where(is_here, share, 1.0).min()) / share) ** beta
    slot = block * priorities.value.shape[2] + place
    return SampledSlots(jnp.where(is_here, env, len(sums)), slot, weight, device)


def pick(share: Float32[Array, ""], masses: Float32[Array, " items"]) -> Int32[Array, ""]:
    """Return the index of the first item at which the cumulative sum exceeds `share` of the total.

    The sum is over `masses`, the unnormalised probabilities of the items. If `share` is uniformly
    random (0 to 1), each item is drawn in proportion to its mass. An item of mass 0 is never
    returned, even after rounding errors, unless all masses are 0.
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
    """Set the priorities of the slots `drawn` from their new TD errors.

    If a slot was sampled twice, the larger error counts. Slots that other devices hold are ignored.
    Return the new priorities, and the new `sums` of the priorities in each block of slots.
    """
    chex.assert_equal_shape([drawn.slot, error], custom_message="slots and errors, [batch]")
    block, place = jnp.divmod(drawn.slot, priorities.value.shape[2])
    new = (jnp.abs(error) + LEAST) ** exponent
    where = (drawn.env, block, place)
    value = priorities.value.at[where].set(0.0).at[where].max(new)
    sums = sums.at[drawn.env, block].set(value[drawn.env, block].sum(axis=1))
    return Priorities(value, jnp.maximum(priorities.largest, new.max())), sums
