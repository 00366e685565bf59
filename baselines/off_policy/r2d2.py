"""R2D2 (Kapturowski et al., 2019): recurrent Q-learning from replayed sequences.

R2D2 is DQN (dqn.py: double, dueling, n-step, prioritised) with a GRU. It samples sequences of
successive steps of one environment. The replay buffer stores the recurrent state before each
sequence. The first `burn_in` steps of a sequence only recompute the recurrent state with the
current weights, without a gradient. Run it with `jaxenvs train ID --algo r2d2`.

The network outputs h(Q) instead of Q, with the transform h of Pohlen et al. (2018), which suits
rewards of any size. Online network and target network each compute their own burn-in. Deliberate
differences from the paper: sequences continue over the ends of episodes, where the recurrent state
is reset as in acting; a truncated episode is bootstrapped from its final observation, with the
recurrent state of that step; several environments fill the replay buffer. If an environment has
illegal actions, the greedy action is the best legal action.

If forced steps are skipped (core/forced.py), they stay in the sequences, because the network reads
their observations. `n_step` then counts decisions, and a TD target bootstraps earlier if its
sequence ends. If the last observation of a sequence is forced, it has a value loss in other
sequences, because TD targets bootstrap from its value. All other forced steps have no loss.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from jaxenvs.core.facts import identity
from jaxenvs.core.masking import Mask, legal

from ..core import forced, priorities, replay_checks, returns
from ..core.bounds import Count, NonNegativeInt, Share
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.replay_buffer import ReplayBuffer
from ..core.rollouts import Runner
from ..core.settings import Memory, QLearning
from ..networks import q_network, two_hot
from ..networks.layers import dense
from ..networks.q_network import RecurrentQ
from ..on_policy.ppo_rnn import wrapped as wrapped
from . import q_learning
from .q_learning import Learned


@dataclasses.dataclass(frozen=True)
class Settings(Memory, QLearning):
    """Hyperparameters of R2D2.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    batch_size: int = 32  # sequences per gradient step, on all devices together
    n_step: int = 5  # number of rewards that a TD target adds up before it bootstraps
    priority: float = 0.9  # exponent of the TD error in sampling probabilities; 0: uniform
    importance: float = 0.6  # initial exponent (beta) of the importance weights; it rises to 1
    memory: Count = 128  # size of the GRU's state
    # number of first steps of a sequence that only recompute its recurrent state
    burn_in: NonNegativeInt = 8
    sequence: Count = 16  # number of steps of a sequence, after the burn-in, that have a loss
    period: Count = 8  # steps between the starts of sequences; if below `sequence`, they overlap
    # eta: a sequence's priority is eta * largest TD error + (1 - eta) * mean TD error
    largest_share: Share = 0.9
    squeeze: bool = True  # whether the network outputs h(value), roughly a signed square root

    def check(self) -> None:
        if self.period > self.sequence > 0:
            raise ValueError(
                f"period={self.period} leaves steps out between sequences that learn from "
                f"{self.sequence}; give period={self.sequence} or less, or a longer sequence"
            )
        super().check()

    @property
    def slots(self) -> int:
        """Number of slots of the replay buffer per environment: a multiple of `period`."""
        return self.capacity // self.num_envs // self.period * self.period

    @property
    def window(self) -> str:
        """Description of a sampled sequence and its settings, for error messages."""
        return f"a sequence with burn_in={self.burn_in} and n_step={self.n_step}"

    @property
    def length(self) -> int:
        """Number of observations of a sequence: `burn_in` + `sequence` + `n_step`.

        The last `n_step` observations have no loss, and serve only to bootstrap TD targets.
        """
        return self.burn_in + self.sequence + self.n_step

    @property
    def reach(self) -> int:
        """Distance in replay-buffer slots from a sequence's first slot to its last slot."""
        return self.length - 1

    @property
    def spacing(self) -> int:
        """Distance, in replay-buffer slots, between the beginnings of two successive sequences."""
        return self.period

    @property
    def least_slots(self) -> int:
        """Smallest multiple of `period` slots that is sure to contain a complete sequence."""
        return -(-(self.reach + self.period) // self.period) * self.period


class Sequences(NamedTuple):
    """Batch of sampled sequences; a sequence is the content of successive replay-buffer slots."""

    memory: PyTree[Array]  # recurrent states before the sequences' first slots, (batch, ...)
    obs: PyTree[Array]  # observations in each slot of the sequence, (batch, slots, ...)
    mask: Mask  # legal actions at `obs`, (batch, slots, actions)
    action: Int32[Array, "batch slots"]
    reward: Float32[Array, "batch slots"]
    terminated: Bool[Array, "batch slots"]
    truncated: Bool[Array, "batch slots"]
    # whether the slot holds a step; False: it holds only an observation, such as the final
    # observation of a truncated episode
    is_step: Bool[Array, "batch slots"]
    weight: Float32[Array, " batch"]  # importance weight


OF_SLOTS = ("obs", "mask", "action", "reward", "terminated", "truncated", "is_step")


class Network(RecurrentQ):
    """Recurrent Q-network with optional dueling heads, for one observation; `vmap` for a batch."""

    dueling: bool = False
    squeeze: bool = False  # whether the outputs are h(Q), see two_hot.py

    def setup(self) -> None:
        """Create the base class's layers and, if `dueling`, the value head."""
        super().setup()
        self.value = dense(1, 0.1) if self.dueling else None

    def heads(self, memory: Array, seen: Any, *given: Any) -> tuple[Any, ...]:
        """Return Q(s, a) of all actions, or h(Q(s, a)) if `squeeze`."""
        values = self.actions(memory)
        if self.value is None:
            return (values,)
        return (self.value(memory) + values - values.mean(),)

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """Return the next recurrent state, the policy's logits, and the best legal action's value.

        The value is in units of Q, even if the network outputs h(Q).
        """
        memory, logits, value = super().think(weights, memory, obs, mask)
        return memory, logits, two_hot.stretched(value) if self.squeeze else value


check = replay_checks.check
network = Network.of


def init(learner: Learner[Settings, Network], key: Array) -> Runner:
    """Return DQN's initial training state, with two ring buffers that have one entry per sequence.

    `memories` will store the recurrent state before each sequence, and `priorities` its priority.
    """
    settings = learner.settings
    envs, sequences = learner.env.num_envs, settings.slots // settings.period

    def ring(leaf: Array) -> Array:
        return jnp.zeros((envs, sequences, *leaf.shape), leaf.dtype)

    memories = jax.tree.map(ring, learner.network.begin())
    ranks = priorities.empty(envs, sequences)
    runner = q_learning.begin(learner, key, joins=False)
    return runner._replace(memories=memories, priorities=ranks)


def update(learner: Learner[Settings, Network], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Act, store the steps, learn from the replay buffer; return the new state and metrics."""
    runner, key, metrics = q_learning.collect(learner, runner, action_values)
    step = functools.partial(gradient_step, learner, runner.replay_buffer, runner.memories)
    runner, losses = q_learning.learn_when_ready(learner, runner, key, step)
    return runner, {**metrics, **losses}


def action_values(
    learner: Learner[Settings, Network], runner: Runner, key: Array
) -> tuple[Runner, Array]:
    """Apply the network to the runner's observations; return the runner and all action values.

    The returned runner has the next recurrent states. If an observation is the first of a sequence,
    the recurrent state before it is stored in `memories`, for replay.
    """
    over_batch = jax.vmap(learner.network.values, in_axes=(None, 0, 0))
    memory, values = over_batch(runner.weights, runner.memory, runner.obs)
    written, period = runner.replay_buffer.written, learner.settings.period
    memories = store_memory(runner.memories, runner.memory, written, period)
    # A sequence may also begin in the next slot, so store the state after this step for it. This
    # matters if the step truncates its episode: the next slot then holds the final observation, and
    # no later call stores its state. Otherwise, the next call stores the same state again.
    memories = store_memory(memories, memory, written + 1, period)
    return runner._replace(memory=memory, memories=memories), values


def store_memory(
    memories: PyTree[Array], memory: PyTree[Array], count: Int32[Array, " envs"], period: int
) -> PyTree[Array]:
    """Write `memory` into `memories` for those environments where a sequence begins in this slot.

    `count` and `memory` have one entry per environment. `count` is the number of the slot, counted
    from the start of the run, and `memory` is the recurrent state before the slot.
    """
    every = jnp.arange(len(count), dtype=jnp.int32)

    def put(ring: Array, leaf: Array) -> Array:
        sequences = ring.shape[1]
        place = jnp.where(count % period == 0, count // period % sequences, sequences)
        return ring.at[every, place].set(leaf, mode="drop")

    return jax.tree.map(put, memories, memory)


def gradient_step(
    learner: Learner[Settings, Network],
    buffer: ReplayBuffer,
    memories: PyTree[Array],
    beta: Float32[Array, ""],
    learned: Learned,
    key: Array,
) -> tuple[Learned, dict[str, Array]]:
    """Sample a batch of sequences by priority and take a gradient step."""
    settings, devices = learner.settings, learner.devices
    known = (learned.priorities, learned.sums)
    drawn = priorities.sample(key, *known, settings.batch_size, beta, devices)
    sequences = sequences_at(settings, buffer, memories, drawn.env, drawn.slot)
    sequences = devices.distribute(sequences._replace(weight=drawn.weight), drawn.device)
    target_values = unroll(learner, learned.target, sequences)
    return q_learning.descend(learner, loss, learned, drawn, sequences, target_values)


def sequences_at(
    settings: Settings,
    buffer: ReplayBuffer,
    memories: PyTree[Array],
    env: Int32[Array, " batch"],
    number: Int32[Array, " batch"],
) -> Sequences:
    """Read a batch of sequences of successive slots from the replay buffer.

    Item b of the batch is sequence `number[b]` of environment `env[b]`, which begins in slot
    `number[b]` * `period`. All importance weights are 1.
    """
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


def unroll(
    learner: Learner[Settings, Network], weights: PyTree[Array], sequences: Sequences
) -> Float32[Array, "batch steps actions"]:
    """Return the network's outputs, one per action, for the observations after the burn-in."""
    network, count = learner.network, learner.settings.burn_in
    # Reset the recurrent state after a step that terminates its episode, and after the final
    # observation of a truncated episode, whose slot has `is_step` False.
    done = sequences.terminated | ~sequences.is_step

    def values(memory: PyTree[Array], *rows: PyTree[Array]) -> Array:
        if count:
            begun = jax.tree.map(lambda leaf: leaf[:count], rows)
            memory, *_ = network.remembered(weights, memory, *begun)
        rest = jax.tree.map(lambda leaf: leaf[count:], rows)
        return network.unroll(weights, jax.lax.stop_gradient(memory), *rest)[0]

    return jax.vmap(values)(sequences.memory, sequences.obs, done)


def loss(
    learner: Learner[Settings, Network],
    weights: PyTree[Array],
    sequences: Sequences,
    target_values: Float32[Array, "batch steps actions"],
) -> Loss:
    """Return half the mean squared TD error of a batch of sequences, and metrics.

    `target_values` are the outputs of the target network. The metric `error` sets the priorities:
    for each sequence, a weighted mean of its largest and its mean absolute TD error.
    """
    settings, skips = learner.settings, forced.are_skipped(learner.env.env, learner.settings)
    values = unroll(learner, weights, sequences)
    learned = slice(settings.burn_in, settings.burn_in + settings.sequence)
    chosen = q_network.of_actions(values[:, : settings.sequence], sequences.action[:, learned])
    is_forced = forced.is_forced(sequences.mask) if skips else ()
    given = (sequences, jax.lax.stop_gradient(values), target_values, is_forced)
    target = td_target(settings, *given)
    counts = counted(settings, sequences, is_forced).astype(jnp.float32)
    steps = jnp.maximum(counts.sum(axis=1), 1.0)
    error = counts * jnp.abs(target - chosen)
    _, stretched = scales(settings)
    q = stretched(chosen).mean()
    number = steps
    if skips:  # each decision of the batch has the same weight
        number = jnp.maximum(learner.devices.mean(counts.sum(axis=1).mean()), forced.TINY)
        q = (counts * stretched(chosen)).sum(axis=1).mean() / number
    squares = 0.5 * jnp.square(error).sum(axis=1) / number
    loss = (sequences.weight * squares).mean()
    eta = settings.largest_share  # weight of the largest error; the mean error has weight 1 - eta
    error = eta * error.max(axis=1) + (1.0 - eta) * error.sum(axis=1) / steps
    return loss, {"q_loss": loss, "q": q, "error": error}


def counted(
    settings: Settings, sequences: Sequences, is_forced: Bool[Array, "batch slots"] | tuple[()]
) -> Bool[Array, "batch learned"]:
    """Return whether each slot after the burn-in has a loss.

    It has one if it holds a step that is not forced, or if it is the last slot of a sequence.
    `is_forced` is () if forced steps are not skipped.
    """
    learned = slice(settings.burn_in, settings.burn_in + settings.sequence)
    is_step = sequences.is_step[:, learned]
    if isinstance(is_forced, tuple):
        return is_step
    slot = jnp.arange(settings.length, dtype=jnp.int32)
    is_last = (settings.length - 1 - slot) % settings.period == 0
    return is_step & (~is_forced | is_last)[:, learned]


def td_target(
    settings: Settings,
    sequences: Sequences,
    values: Float32[Array, "batch steps actions"],
    target_values: Float32[Array, "batch steps actions"],
    is_forced: Bool[Array, "batch slots"] | tuple[()] = (),
) -> Float32[Array, "batch learned"]:
    """Return n-step TD targets h(reward + discount * h^-1(value)) for the steps that have a loss.

    `values` are outputs of the online network, and `target_values` outputs of the target network.
    The next action is greedy with respect to `values` if the setting `double` is on, else with
    respect to `target_values`. `is_forced` is () if forced steps are not skipped.
    """
    squeezed, stretched = scales(settings)
    mask = jax.tree.map(lambda leaf: leaf[:, settings.burn_in :], sequences.mask)
    chooser = values if settings.double else target_values
    best = legal(chooser, mask).argmax(axis=-1).astype(jnp.int32)
    next_values = stretched(q_network.of_actions(target_values, best))
    first = jnp.arange(settings.sequence, dtype=jnp.int32)
    size, stops, of_decisions = settings.n_step, sequences.truncated, ()
    if not isinstance(is_forced, tuple):
        size = settings.sequence + settings.n_step
        # a target needs no more than the last observation of its sequence
        stops = stops.at[:, -2].set(True)
        following = jnp.pad(is_forced[:, 1:], ((0, 0), (0, 1)))
        following &= ~(sequences.terminated | sequences.truncated)
        of_decisions = (following,)
    ahead = first[:, None] + jnp.arange(size, dtype=jnp.int32)
    where = jnp.minimum(settings.burn_in + ahead, settings.length - 1)

    def windows(leaf: Array) -> Array:
        return leaf[:, where].reshape(-1, size)

    ends = windows(sequences.terminated), windows(stops)
    found = returns.n_step(
        windows(sequences.reward),
        *ends,
        settings.gamma,
        *map(windows, of_decisions),
        decisions=settings.n_step,
    )
    shape = (len(sequences.reward), settings.sequence)
    total, discount, length = (leaf.reshape(shape) for leaf in found)
    value = jnp.take_along_axis(next_values, first + length, axis=1)
    return squeezed(total + discount * value)


def scales(settings: Settings) -> tuple[Any, Any]:
    """Return the transform h, which maps values to network outputs, and its inverse.

    Both are the identity if the setting `squeeze` is off.
    """
    return (two_hot.squeezed, two_hot.stretched) if settings.squeeze else (identity, identity)
