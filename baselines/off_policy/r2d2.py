"""R2D2 (Kapturowski et al., 2019): Q-learning of a network with a memory, from replayed sequences.

Run it with `jaxenvs train ID --algo r2d2`. It is DQN (dqn.py): double, dueling, n-step returns, a
slow copy, prioritised replay. But the network has a GRU, and a sample is a sequence of successive
steps of one environment. The memory from before its first step is stored with it. The first
`burn_in` steps only renew that memory, once with the weights and once with their slow copy, and no
gradient passes through them; the network learns from the steps after them. Values are squeezed
(Pohlen et al., 2018), so that rewards of any scale can be learned.

Deliberate differences: sequences go on over the ends of episodes, where memory is renewed as in
acting; an episode cut by the time limit is bootstrapped with its true successor, as remembered at
that moment; environments fill the replay buffer side by side. Where the environment forbids
actions, the best one is the best of the legal ones.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt32

from jaxenvs.core.facts import identity
from jaxenvs.core.masking import Mask, legal

from ..core import priorities, replay_buffer, replay_checks, returns, rollouts
from ..core.bounds import Count, Share
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.replay_buffer import ReplayBuffer
from ..core.settings import Remembering, Replayed
from ..networks import q_network, two_hot
from ..networks.layers import dense
from ..networks.q_network import RecurrentQ
from ..on_policy.ppo_rnn import wrapped as wrapped
from . import dqn
from .dqn import Learned


@dataclasses.dataclass(frozen=True)
class Settings(Remembering, Replayed):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    batch_size: int = 32  # sequences that a gradient step learns from, on all devices
    n_step: int = 5  # steps whose rewards are added before the value of what follows
    priority: float = 0.9  # power of the error by which sequences are sampled; 0: all evenly
    importance: float = 0.6  # power of the importance weights at the start; it rises to 1
    memory: Count = 128  # numbers that the GRU remembers
    burn_in: int = 8  # steps of a sequence that only renew its first memory
    sequence: Count = 16  # steps of a sequence that are learned from, after those
    period: Count = 8  # slots between the beginnings of sequences; below `sequence`: they overlap
    largest_share: Share = 0.9  # weight of the largest error in a priority; the mean has the rest
    squeeze: bool = True  # whether values are learned as about their square root

    def check(self) -> None:
        if self.period > self.sequence > 0:
            raise ValueError(
                f"period={self.period} leaves steps out between sequences that learn from "
                f"{self.sequence}; give period={self.sequence} or less, or a longer sequence"
            )
        super().check()

    @property
    def slots(self) -> int:
        """Slots of the replay buffer for each environment; sequences begin at the same ones."""
        return self.capacity // self.num_envs // self.period * self.period

    @property
    def window(self) -> str:
        """What is sampled, in words."""
        return f"a sequence with burn_in={self.burn_in} and n_step={self.n_step}"

    @property
    def length(self) -> int:
        """Observations of a sequence, with those that only values are needed of."""
        return self.burn_in + self.sequence + self.n_step

    @property
    def reach(self) -> int:
        """Steps from the first slot of a sequence to its last one."""
        return self.length - 1

    @property
    def spacing(self) -> int:
        """Slots between the beginnings of sequences."""
        return self.period

    @property
    def least_slots(self) -> int:
        """Slots in which a sequence always fits, wherever the next step is written."""
        return -(-(self.reach + self.period) // self.period) * self.period


class Runner(NamedTuple):
    """Everything a run consists of between two updates: saved as it is, resumed bit for bit."""

    weights: PyTree[Array]
    target: PyTree[Array]  # their slow copy
    optimiser: PyTree[Array]  # Adam's moments and counts
    updates: Int32[Array, "*seeds"]  # made so far
    replay_buffer: ReplayBuffer
    memories: PyTree[Array]  # (*seeds, envs, sequences, ...), from before each sequence
    priorities: priorities.Priorities  # of sequences
    world: PyTree[Array]  # VectorState
    obs: PyTree[Array]  # what the next actions are chosen from
    key: UInt32[Array, "*seeds words"]  # data of the PRNG key
    returns: Float32[Array, "*seeds envs"]  # rewards so far of the episodes under way
    lengths: Int32[Array, "*seeds envs"]  # their steps so far
    memory: PyTree[Array]  # from before `obs`


class Sequences(NamedTuple):
    """Sampled sequences of successive slots, with a first axis of the batch."""

    memory: PyTree[Array]  # from before the first slot
    obs: PyTree[Array]  # (batch, slots, ...)
    mask: Mask  # likewise
    action: Int32[Array, "batch slots"]
    reward: Float32[Array, "batch slots"]
    terminated: Bool[Array, "batch slots"]
    truncated: Bool[Array, "batch slots"]
    is_step: Bool[Array, "batch slots"]  # or only the true successor of a cut episode
    weight: Float32[Array, " batch"]


class Network(RecurrentQ):
    """Values of all actions, read from a GRU; `vmap` it."""

    dueling: bool = False
    squeeze: bool = False  # whether the values are squeezed, see two_hot.py

    def setup(self) -> None:
        """Name the parts, as in the class above."""
        super().setup()
        self.value = dense(1, 0.1) if self.dueling else None

    def heads(self, memory: Array, seen: Any, *given: Any) -> tuple[Any, ...]:
        """Values of all actions."""
        values = self.actions(memory)
        if self.value is None:
            return (values,)
        return (self.value(memory) + values - values.mean(),)

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """What it remembers, logits of the trained policy, and the best legal value."""
        memory, logits, value = super().think(weights, memory, obs, mask)
        return memory, logits, two_hot.stretched(value) if self.squeeze else value


DIVIDED = (*rollouts.DIVIDED, "replay_buffer", "memories", "priorities")
check = replay_checks.check
network = Network.of


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights twice, an empty replay buffer, worlds and the key for all that follows."""
    fields, settings = rollouts.begin(learner, key), learner.settings
    mask = rollouts.legal_now(learner, fields["world"].env)
    envs, sequences = learner.env.num_envs, settings.slots // settings.period

    def ring(leaf: Array) -> Array:
        return jnp.zeros((envs, sequences, *leaf.shape), leaf.dtype)

    return Runner(
        **fields,
        target=jax.tree.map(jnp.copy, fields["weights"]),
        updates=jnp.int32(0),
        replay_buffer=replay_buffer.empty(fields["obs"], mask, settings.slots),
        memories=jax.tree.map(ring, learner.network.begin()),
        priorities=priorities.empty(envs, sequences),
    )


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Act, remember, and learn from what is remembered; also return this update's metrics."""
    runner, key, metrics = dqn.collect(learner, runner, valued)
    step = functools.partial(gradient_step, learner, runner.replay_buffer, runner.memories)
    runner, losses = dqn.learn_when_ready(learner, runner, key, step)
    return runner, {**metrics, **losses}


def valued(learner: Learner[Settings], runner: Runner, key: Array) -> tuple[Runner, Array]:
    """The runner with what it remembers after one more observation, and the values of all actions.

    What is remembered where a sequence begins is also stored.
    """
    over_batch = jax.vmap(learner.network.values, in_axes=(None, 0, 0))
    memory, values = over_batch(runner.weights, runner.memory, runner.obs)
    written, period = runner.replay_buffer.written, learner.settings.period
    memories = noted(runner.memories, runner.memory, written, period)
    # The next slot is that of a true successor, or its memory is written once more.
    memories = noted(memories, memory, written + 1, period)
    return runner._replace(memory=memory, memories=memories), values


def noted(
    memories: PyTree[Array], memory: PyTree[Array], count: Int32[Array, " envs"], period: int
) -> PyTree[Array]:
    """Store what is remembered before slot `count` of each environment, if a sequence begins there.

    Slots are counted since the beginning.
    """
    every = jnp.arange(len(count), dtype=jnp.int32)

    def put(ring: Array, leaf: Array) -> Array:
        sequences = ring.shape[1]
        place = jnp.where(count % period == 0, count // period % sequences, sequences)
        return ring.at[every, place].set(leaf, mode="drop")

    return jax.tree.map(put, memories, memory)


def gradient_step(
    learner: Learner[Settings],
    buffer: ReplayBuffer,
    memories: PyTree[Array],
    beta: Float32[Array, ""],
    learned: Learned,
    key: Array,
) -> tuple[Learned, dict[str, Array]]:
    """Learn from one batch of sequences, then let the slow copy follow."""
    settings, devices = learner.settings, learner.devices
    known = (learned.priorities, learned.sums)
    drawn = priorities.sample(key, *known, settings.batch_size, beta, devices)
    sequences = cut_out(settings, buffer, memories, drawn.env, drawn.slot)
    sequences = devices.dealt(sequences._replace(weight=drawn.weight), drawn.device)
    slow = unrolled(learner, learned.target, sequences)
    return dqn.descended(learner, loss, learned, drawn, sequences, slow)


def cut_out(
    settings: Settings,
    buffer: ReplayBuffer,
    memories: PyTree[Array],
    env: Int32[Array, " batch"],
    number: Int32[Array, " batch"],
) -> Sequences:
    """Sequences of environments by their numbers in the replay buffer."""
    chex.assert_equal_shape([env, number], custom_message="env and number, [batch]")
    ahead = jnp.arange(settings.length, dtype=jnp.int32)
    slots = buffer.reward.shape[1]
    where = (env[:, None], (number[:, None] * settings.period + ahead) % slots)

    def of_slots(tree: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(lambda leaf: leaf[where], tree)

    return Sequences(
        memory=jax.tree.map(lambda leaf: leaf[env, number], memories),
        weight=jnp.ones(len(env), jnp.float32),
        **{name: of_slots(getattr(buffer, name)) for name in OF_SLOTS},
    )


OF_SLOTS = ("obs", "mask", "action", "reward", "terminated", "truncated", "is_step")


def unrolled(
    learner: Learner[Settings], weights: PyTree[Array], sequences: Sequences
) -> Float32[Array, "batch steps actions"]:
    """Values of all actions, by these weights, in the observations after the burn-in."""
    network, count = learner.network, learner.settings.burn_in
    # A cut episode is remembered until its true successor was seen, which is no step.
    done = sequences.terminated | ~sequences.is_step

    def values(memory: PyTree[Array], *rows: PyTree[Array]) -> Array:
        if count:
            begun = jax.tree.map(lambda leaf: leaf[:count], rows)
            memory, *_ = network.remembered(weights, memory, *begun)
        rest = jax.tree.map(lambda leaf: leaf[count:], rows)
        return network.unroll(weights, jax.lax.stop_gradient(memory), *rest)[0]

    return jax.vmap(values)(sequences.memory, sequences.obs, done)


def loss(
    learner: Learner[Settings],
    weights: PyTree[Array],
    sequences: Sequences,
    slow: Float32[Array, "batch steps actions"],
) -> Loss:
    """Mean squared error of the values of sequences; also return the error that ranks each.

    `slow` are the slow copy's values.
    """
    settings = learner.settings
    values = unrolled(learner, weights, sequences)
    learned = slice(settings.burn_in, settings.burn_in + settings.sequence)
    chosen = q_network.of_actions(values[:, : settings.sequence], sequences.action[:, learned])
    goal = targets(settings, sequences, jax.lax.stop_gradient(values), slow)
    is_step = sequences.is_step[:, learned].astype(jnp.float32)
    steps = jnp.maximum(is_step.sum(axis=1), 1.0)
    error = is_step * jnp.abs(goal - chosen)
    squares = 0.5 * jnp.square(error).sum(axis=1) / steps
    loss = (sequences.weight * squares).mean()
    share = settings.largest_share
    error = share * error.max(axis=1) + (1.0 - share) * error.sum(axis=1) / steps
    _, stretched = scales(settings)
    return loss, {"q_loss": loss, "q": stretched(chosen).mean(), "error": error}


def targets(
    settings: Settings,
    sequences: Sequences,
    values: Float32[Array, "batch steps actions"],
    slow: Float32[Array, "batch steps actions"],
) -> Float32[Array, "batch learned"]:
    """What the actions after the burn-in should have been worth, on the network's scale.

    If `double`, `values`, those of the weights, choose the best legal actions; `slow` values them.
    """
    squeezed, stretched = scales(settings)
    mask = jax.tree.map(lambda leaf: leaf[:, settings.burn_in :], sequences.mask)
    best = legal(values if settings.double else slow, mask).argmax(axis=-1).astype(jnp.int32)
    following = stretched(q_network.of_actions(slow, best))
    first = jnp.arange(settings.sequence, dtype=jnp.int32)
    ahead = first[:, None] + jnp.arange(settings.n_step, dtype=jnp.int32)

    def windows(leaf: Array) -> Array:
        return leaf[:, settings.burn_in + ahead].reshape(-1, settings.n_step)

    ends = windows(sequences.terminated), windows(sequences.truncated)
    found = returns.n_step(windows(sequences.reward), *ends, settings.gamma)
    shape = (len(sequences.reward), settings.sequence)
    total, discount, length = (leaf.reshape(shape) for leaf in found)
    value = jnp.take_along_axis(following, first + length, axis=1)
    return squeezed(total + discount * value)


def scales(settings: Settings) -> tuple[Any, Any]:
    """Functions from values to the network's scale, and back."""
    return (two_hot.squeezed, two_hot.stretched) if settings.squeeze else (identity, identity)
