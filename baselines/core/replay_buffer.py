"""Replay buffer on the device: a ring of slots per environment; samples are successive steps.

No observation is stored twice: the next observation of a step is the observation in the next slot.
`add` writes a step's next observation (before any reset) into the next slot. Within an episode, the
next step overwrites that slot with the same observation.

The final observation of a truncated episode is needed for bootstrapping, although no step begins
there. It therefore keeps a slot, which holds no step, and the next episode begins in the slot after
it. If sampling draws a slot without a step, the sampled item has weight 0.

If forced steps are skipped (forced.py), a slot holds a decision and the forced steps after it: the
slot's reward is the sum of their rewards. Until the next decision or the end of the episode, the
slot is incomplete and no window contains it.
"""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PyTree, Shaped, UInt32

from jaxenvs import Step
from jaxenvs.core.masking import Mask

from . import forced, returns

DISCRETE = np.int32(0)  # example of an action of a Discrete space, for `empty`


class ReplayBuffer(NamedTuple):
    """Transitions in a ring of slots; new ones overwrite the oldest."""

    obs: PyTree[Array]  # (*seeds, envs, slots, ...), observations as the environment returns them
    mask: Mask  # legal actions at `obs`
    action: Array  # (*seeds, envs, slots, ...); see `empty` for actions of a single number
    reward: Float32[Array, "*seeds envs slots"]
    terminated: Bool[Array, "*seeds envs slots"]
    truncated: Bool[Array, "*seeds envs slots"]
    # Whether the slot holds a step. If False, it holds only an observation: the final one of a
    # truncated episode, or the newest one, at which no action has been taken yet.
    is_step: Bool[Array, "*seeds envs slots"]
    # number of slots written since the start of the run; modulo `slots`, the next slot to write
    written: Int32[Array, "*seeds envs"]
    # bool (*seeds, envs), whether the newest step continues in forced steps, so that its slot is
    # incomplete; (): forced steps are not skipped
    pending: PyTree[Array] = ()


class Batch(NamedTuple):
    """Sampled n-step transitions."""

    obs: PyTree[Array]
    action: Shaped[Array, "batch ..."]  # actions in the buffer's layout, which `empty` describes
    reward: Float32[Array, " batch"]  # discounted sum of the rewards between `obs` and `next_obs`
    discount: Float32[Array, " batch"]  # discount of the value of `next_obs`; 0 after termination
    next_obs: PyTree[Array]
    next_mask: Mask  # legal actions at `next_obs`
    mask: Mask  # legal actions at `obs`
    # weight in the loss: 1, or 0 if the sampled slot holds a final observation but no step
    weight: Float32[Array, " batch"]


def empty(
    obs: PyTree[Array],
    mask: Mask,
    slots: int,
    action: Any = DISCRETE,
    skip_forced: bool = False,
) -> ReplayBuffer:
    """Return an empty replay buffer with `slots` slots for each environment.

    The other arguments are examples, from which only shapes and dtypes are used: observations `obs`
    and masks of legal actions `mask`, (envs, ...), and `action` of one environment.

    If `skip_forced`, `add` joins forced steps to the decision before them.

    Actions that consist of a single number are stored without an action axis. With an axis of size
    1, XLA would choose different memory layouts inside and outside a loop, and copy the whole
    buffer.
    """
    envs = len(jax.tree.leaves(obs)[0])
    shape = () if action.size == 1 else action.shape

    def blank(dtype: Any) -> Array:
        return jnp.zeros((envs, slots), dtype)

    def ring(leaf: Array) -> Array:
        return jnp.zeros((envs, slots, *leaf.shape[1:]), leaf.dtype)

    return ReplayBuffer(
        obs=jax.tree.map(ring, obs),
        mask=jax.tree.map(ring, mask),
        action=jnp.zeros((envs, slots, *shape), action.dtype),
        reward=blank(jnp.float32),
        terminated=blank(jnp.bool_),
        truncated=blank(jnp.bool_),
        is_step=blank(jnp.bool_),
        written=jnp.zeros(envs, jnp.int32),
        pending=jnp.zeros(envs, jnp.bool_) if skip_forced else (),
    )


def add(
    buffer: ReplayBuffer,
    obs: PyTree[Array],
    mask: Mask,
    action: Shaped[Array, "envs ..."],
    step: Step,
) -> ReplayBuffer:
    """Store one step of every environment, and return the replay buffer.

    `obs` are the observations before the step, `mask` the legal actions there, and `action` the
    actions taken. `step` is the result of `VectorEnv.step`.
    """
    envs, slots = buffer.reward.shape
    every = jnp.arange(envs, dtype=jnp.int32)
    # a forced step is joined to the slot before, which keeps its observation, mask and action
    joined = isinstance(buffer.pending, jax.Array)
    begun = buffer.written - buffer.pending.astype(jnp.int32) if joined else buffer.written
    here, after = begun % slots, (begun + 1) % slots

    def put(ring: Array, value: Array, at: Array = here) -> Array:
        chex.assert_shape(
            value, (envs, *ring.shape[2:]), custom_message="one slot of each environment"
        )
        chex.assert_type(value, ring.dtype, custom_message="as the replay buffer stores it")
        return ring.at[every, at].set(value)

    def put_first(ring: Array, value: Array) -> Array:
        if joined:
            is_forced = buffer.pending.reshape(envs, *[1] * (value.ndim - 1))
            value = jnp.where(is_forced, ring[every, here], value)
        return put(ring, value)

    def put_both(ring: Array, value: Array, successor: Array) -> Array:
        return put(put_first(ring, value), successor, after)

    if buffer.action.ndim == 2:  # actions of a single number have no action axis, see `empty`
        ones = (1,) * (action.ndim - 1)
        chex.assert_shape(action, (envs, *ones), custom_message="one action of each environment")
        action = action.reshape(envs)
    reward, pending = step.reward, buffer.pending
    if joined:
        reward += jnp.where(pending, buffer.reward[every, here], 0.0)
        pending = forced.is_forced(step.info["final_mask"]) & ~(step.terminated | step.truncated)
    step_here = jnp.ones(envs, jnp.bool_)
    # in Craft's setup `original`, learners use no mask, although the info has one
    final_mask = None if mask is None else step.info["final_mask"]
    return ReplayBuffer(
        obs=jax.tree.map(put_both, buffer.obs, obs, step.info["final_obs"]),
        mask=jax.tree.map(put_both, buffer.mask, mask, final_mask),
        action=put_first(buffer.action, action),
        reward=put(buffer.reward, reward),
        terminated=put(buffer.terminated, step.terminated),
        truncated=put(buffer.truncated, step.truncated),
        is_step=put_both(buffer.is_step, step_here, ~step_here),
        written=begun + 1 + step.truncated.astype(jnp.int32),
        pending=pending,
    )


def newest(buffer: ReplayBuffer) -> Int32[Array, "*seeds envs"]:
    """Return the number of the newest slot that a window may contain, from 0 at the run's start.

    This slot holds an observation, but no complete step yet.
    """
    if isinstance(buffer.pending, tuple):
        return buffer.written
    return buffer.written - buffer.pending.astype(jnp.int32)


class SlotDraws(NamedTuple):
    """Random numbers from which `slots_from` samples slots.

    They do not depend on the replay buffer's content, so the random numbers for all gradient steps
    can be drawn before the loop over these steps.
    """

    env: Int32[Array, "*batch"]  # index of an environment
    # random bits; `slots_from` computes a uniformly random slot from `high` and `low` together
    high: UInt32[Array, "*batch"]
    low: UInt32[Array, "*batch"]


def sample(
    key: Array, buffer: ReplayBuffer, size: int, n_step: int, gamma: float | Float32[Array, ""]
) -> Batch:
    """Sample `size` n-step transitions uniformly over environments and slots.

    A transition that reaches the end of its episode has fewer than n steps. Every environment must
    have made at least `n_step` steps and have more than `n_step` slots.
    """
    env, first = sample_slots(key, buffer, size, n_step)
    return window(buffer, env, first, n_step, gamma)


def sample_slots(
    key: Array, buffer: ReplayBuffer, size: int, steps: int
) -> tuple[Int32[Array, " batch"], Int32[Array, " batch"]]:
    """Sample `size` pairs of a random environment and a random slot of its ring.

    Only slots after which at least `steps` slots were written are sampled.

    A slot is returned as its number in the order of writing, from 0 at the start of the run, not as
    an index in the ring. The last of the `steps` slots after a sampled slot may hold only an
    observation.
    """
    return slots_from(draw_slots(key, len(buffer.reward), size), buffer, steps)


def draw_slots(key: Array, envs: int, size: int) -> SlotDraws:
    """Draw the random numbers with which `slots_from` samples a batch of `size` slots."""
    key_env, key_slot = jax.random.split(key)
    env = jax.random.randint(key_env, (size,), 0, envs, jnp.int32)
    return SlotDraws(env, *(jax.random.bits(each, (size,)) for each in jax.random.split(key_slot)))


def slots_from(
    draws: SlotDraws, buffer: ReplayBuffer, steps: int
) -> tuple[Int32[Array, " batch"], Int32[Array, " batch"]]:
    """Return what `sample_slots` returns, computed from random bits that were drawn earlier.

    The bits are converted to slots by the arithmetic of `jax.random.randint`.
    """
    slots = buffer.reward.shape[1]
    last = newest(buffer)[draws.env]
    oldest = jnp.maximum(last - (slots - 1), 0)
    count = jnp.maximum(last - steps + 1 - oldest, 1).astype(jnp.uint32)
    half = jnp.uint32(1 << 16) % count
    offset = (draws.high % count) * (half * half % count) + draws.low % count
    return draws.env, oldest + (offset % count).astype(jnp.int32)


def holds_window(
    buffer: ReplayBuffer, env: Int32[Array, " batch"], first: Int32[Array, " batch"], steps: int
) -> Bool[Array, " batch"]:
    """Return whether the buffer holds the windows that begin in slots `first`, for learning.

    The first slot must hold a step. A window ends `steps` slots later. If forced steps are skipped,
    an environment with few decisions may have no complete window yet. And while a step is
    incomplete, the slot after it has already overwritten the oldest one.
    """
    slots = buffer.reward.shape[1]
    is_step = buffer.is_step[env, first % slots]
    if not isinstance(buffer.pending, jax.Array):
        return is_step
    written = buffer.written[env]
    number = written - (written - first) % slots
    return is_step & (number >= 0) & (number + steps <= newest(buffer)[env])


def window(
    buffer: ReplayBuffer,
    env: Int32[Array, " batch"],
    first: Int32[Array, " batch"],
    n_step: int,
    gamma: float | Float32[Array, ""],
) -> Batch:
    """Return the n-step transitions that begin in slots `first` of environments `env`.

    `first` has slot numbers, counted from the start of the run, not indices in the ring.
    """
    chex.assert_rank([env, first], 1, custom_message="env and first are [batch]")
    chex.assert_equal_shape([env, first], custom_message="env and first, [batch]")
    slots = buffer.reward.shape[1]
    ahead = jnp.arange(n_step, dtype=jnp.int32)
    where = (env[:, None], (first[:, None] + ahead) % slots)
    ends = (buffer.terminated[where], buffer.truncated[where])
    reward, discount, length = returns.n_step(buffer.reward[where], *ends, gamma)
    here, last = (env, first % slots), (env, (first + length) % slots)
    return Batch(
        obs=jax.tree.map(lambda leaf: leaf[here], buffer.obs),
        action=buffer.action[here],
        reward=reward,
        discount=discount,
        next_obs=jax.tree.map(lambda leaf: leaf[last], buffer.obs),
        next_mask=jax.tree.map(lambda leaf: leaf[last], buffer.mask),
        mask=jax.tree.map(lambda leaf: leaf[here], buffer.mask),
        weight=holds_window(buffer, env, first, n_step).astype(jnp.float32),
    )
