"""What learners of real-valued actions from a replay buffer share: rounds, networks, an ensemble.

In a round every environment makes a step, then the learner takes gradient steps on batches of all
steps remembered. An actor says a Gaussian before tanh (core/distributions.py), critics the value of
an observation and an action. Log-probabilities are those of actions measured in half the distance
between their bounds, so that entropies do not depend on units.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float32, Int32, PyTree, UInt32

from jaxenvs import spaces
from jaxenvs.core.distributions import TanhGaussian
from jaxenvs.core.masking import Mask

from ..core import minibatches, replay_buffer, rollouts
from ..core.bounds import Count, Rate
from ..core.learner import SEEDS, Learner
from ..core.metrics import means
from ..core.replay_buffer import Batch, ReplayBuffer
from ..core.rollouts import Rollout
from ..core.settings import LARGEST, Activation, Common
from ..networks.batch_renorm import STATISTICS, BatchRenorm, Whole
from ..networks.encoders import Encoder
from ..networks.layers import normalise
from ..networks.policies import Network
from ..networks.products import dense

APART = 2**20  # folded into a key that is also split, whose parts are those of small numbers
CERTAIN = -20.0  # output of a policy without chance, which leaves the least spread


@dataclasses.dataclass(frozen=True)
class Replaying(Common):
    """Settings shared by learners of real-valued actions from a replay buffer."""

    num_envs: int = 1  # environments that step together
    rollout_steps: int = 100  # rounds between two lines of the log
    replays: Count = 1  # gradient steps of a round; several: a high replay ratio, as DroQ's
    learning_rate: float = 3e-4  # of actor, critics and temperature
    anneal: bool = False  # whether the learning rate falls linearly to zero
    max_grad_norm: float = 1e3  # global norm of the gradient, at most
    hidden: tuple[int, ...] = (256, 256)  # widths of the layers of actor and critics
    critic_hidden: tuple[int, ...] = ()  # of the critics alone, if others
    activation: Activation = "relu"  # between them
    layer_norm: bool = False  # whether the critics' layers are normalised, as DroQ's
    dropout: float = 0.0  # share of numbers that the critics' layers drop, as DroQ's: such as 0.01
    capacity: int = 1_000_000  # steps that the replay buffer holds, of all environments together
    warm_up: int = 1_000  # steps of all environments before the first gradient step, at random
    batch_size: Count = 256  # steps that a gradient step learns from, on all devices
    critics: Count = 2  # networks whose least value counts
    target_rate: Rate = 0.005  # Polyak coefficient of the target networks; 1 copies the weights
    actor_every: Count = 1  # gradient steps of the critics for one of the actor

    swept = ("learning_rate", "gamma", "max_grad_norm", "weight_decay", "target_rate")

    def check(self) -> None:
        super().check()
        self.check_widths("critic_hidden")
        if self.capacity // self.num_envs < 2:
            raise ValueError(
                f"capacity={self.capacity} leaves no two slots for each of {self.num_envs} "
                f"environments; give capacity={2 * self.num_envs} or more, or fewer num_envs"
            )
        if self.warm_up < self.num_envs:
            raise ValueError(
                f"warm_up={self.warm_up} ends before each of {self.num_envs} environments has made "
                f"a step; give at least {self.num_envs}"
            )
        if not self.dropout < 1.0:
            raise ValueError(f"dropout={self.dropout} leaves nothing; give less than 1")

    @property
    def gradient_steps(self) -> int:
        """Gradient steps of an update."""
        return self.rollout_steps * self.replays

    @property
    def warm_up_rounds(self) -> int:
        """Rounds in which `warm_up` steps are made; the last one learns."""
        return min(-(-self.warm_up // self.num_envs), LARGEST)

    def updates_of(self, gradient_steps: Any, every: int = 1) -> Any:
        """Whole updates by the count of an optimiser, see `Checked.updates_of`."""
        cold = min(self.warm_up_rounds - 1, self.updates * self.rollout_steps)
        return (cold * self.replays + gradient_steps * every) // self.gradient_steps


class Learned(NamedTuple):
    """What gradient steps change; a field that a learner does not need is ()."""

    weights: PyTree[Array]  # of the actor
    critic: PyTree[Array]  # with a first axis of critics
    target: PyTree[Array]  # slow copies: of the critics, and of what else the learner names
    temperature: PyTree[Array]  # logarithm of the entropy's weight
    optimiser: dict[str, PyTree[Array]]  # state of the optimiser of each of them


class Runner(NamedTuple):
    """Everything a run consists of between two updates: saved as it is, resumed bit for bit."""

    weights: PyTree[Array]
    critic: PyTree[Array]
    target: PyTree[Array]
    temperature: PyTree[Array]
    optimiser: dict[str, PyTree[Array]]
    updates: Int32[Array, "*seeds"]  # made so far
    replay_buffer: ReplayBuffer
    world: PyTree[Array]  # VectorState
    obs: PyTree[Array]  # what the next actions are chosen from
    key: UInt32[Array, "*seeds words"]  # data of the PRNG key
    returns: Float32[Array, "*seeds envs"]  # rewards so far of the episodes under way
    lengths: Int32[Array, "*seeds envs"]  # their steps so far
    memory: tuple[()]  # the network remembers nothing
    swept: PyTree[Array] = ()  # settings by name that take the place of the learner's

    @property
    def learned(self) -> Learned:
        """The part that gradient steps change."""
        return Learned(*(getattr(self, name) for name in Learned._fields))


DIVIDED = (*rollouts.DIVIDED, "replay_buffer")
LEARNED = "learned"  # 1 in rounds with gradient steps, else 0
TURNS = "turns"  # share of the gradient steps in which the actor learned
OF_TURNS = ("actor_loss", "entropy")  # metrics of those gradient steps alone
Explore = Callable[[Learner[Any], Array, Array], Array]  # of outputs and noise: actions
Draw = Callable[[Learner[Any], Array], Any]  # of a key: what a gradient step draws
Step = Callable[[Learner[Any], Learned, Batch, Any], tuple[Learned, dict[str, Array]]]


class Chance(NamedTuple):
    """What is drawn to value or improve actions in a batch of observations."""

    noise: Float32[Array, "*batch numbers"]  # standard normal
    key: Array  # of what the critics' layers drop


class Actor(Network):
    """Means and spreads of the actions in one observation; `vmap` it."""

    has_chance: bool = True  # whether it says the spreads, or leaves none
    renormalised: bool = False  # whether its layers are, see batch_renorm.py

    @nn.compact
    def __call__(
        self, obs: PyTree[Array], whole: Whole | None = None
    ) -> Float32[Array, " outputs"]:
        features = self.encoder_of(self.observation_space)(self.read(obs))
        if self.renormalised:
            features = BatchRenorm(self.dtype)(features, whole)
        for width in self.hidden:
            features = self.activate(dense(width, np.sqrt(2), self.dtype)(features))
            if self.renormalised:
                features = BatchRenorm(self.dtype)(features, whole)
        if self.has_chance:
            return dense(self.num_actions, 0.01)(features).astype(jnp.float32)
        means = dense(self.num_actions // 2, 0.01)(features).astype(jnp.float32)
        return jnp.concatenate([means, jnp.full_like(means, CERTAIN)])

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """What it remembers (nothing), its outputs, and no value."""
        return memory, self.apply(weights, obs), jnp.float32(jnp.nan)


class Critic(nn.Module):
    """Values of one observation and one action, or quantiles of the value; `vmap` it.

    Numbers are dropped if it is given the key "dropout".
    """

    actor: Network  # whose observations it reads
    low: tuple[float, ...]  # bounds of the actions
    high: tuple[float, ...]
    hidden: tuple[int, ...]  # width of each layer
    layer_norm: bool = False
    dropout: float = 0.0
    renormalised: bool = False  # see batch_renorm.py
    values: int = 1

    @nn.compact
    def __call__(
        self, obs: PyTree[Array], action: Array, whole: Whole | None = None
    ) -> Float32[Array, " values"]:
        actor = self.actor
        low, high = (np.array(end, np.float32) for end in (self.low, self.high))
        encoder = Encoder(
            actor.observation_space, actor.embed, actor.dtype, tuple(actor.conv), actor.lines
        )
        features = encoder(actor.read(obs))
        unit = (2 * action.ravel() - low - high) / (high - low)
        features = jnp.concatenate([features, unit.astype(features.dtype)])
        if self.renormalised:
            features = BatchRenorm(actor.dtype)(features, whole)
        for width in self.hidden:
            features = dense(width, np.sqrt(2), actor.dtype)(features)
            if self.has_rng("dropout"):
                features = nn.Dropout(self.dropout, deterministic=False)(features)
            if self.layer_norm:
                features = normalise(nn.LayerNorm(), features)
            features = actor.activate(features)
            if self.renormalised:
                features = BatchRenorm(actor.dtype)(features, whole)
        return dense(self.values, 1.0)(features).astype(jnp.float32)


def critic_of(learner: Learner[Any], values: int = 1) -> Critic:
    """The network of each critic."""
    space: Any = learner.env.env.action_space
    low, high = (tuple(end.ravel().tolist()) for end in (space.low, space.high))
    # Without a parent: a module made within another's `init` would become a part of that.
    actor, settings = learner.network.clone(parent=None), learner.settings
    return Critic(
        actor,
        low,
        high,
        settings.critic_hidden or settings.hidden,
        settings.layer_norm,
        settings.dropout,
        actor.renormalised,
        values,
        parent=None,
    )


def begin(
    learner: Learner[Any], key: Array, values: int = 1, temperature: PyTree[Array] = ()
) -> Runner:
    """Start: weights, their slow copies, an empty replay buffer, worlds and the key for the rest.

    `values` are those of each critic, `temperature` is its first logarithm, if there is one.
    """
    key_rest, key_critics = jax.random.split(key)
    fields = rollouts.begin(learner, key_rest)
    first = jax.tree.map(lambda leaf: leaf[0], fields["obs"])
    space = learner.env.env.action_space
    network, count = critic_of(learner, values), learner.settings.critics
    action = space.sample(key_critics)
    # One after another, by one program: orthogonal weights compile badly under `vmap`.
    keys = jax.random.split(key_critics, count)
    critic = jax.lax.map(lambda key: network.init(key, first, action), keys)
    fields["optimiser"] = {
        "weights": fields["optimiser"],
        "critic": optimiser(learner, "critic").init(minibatches.split_weights(critic)[0]),
        "temperature": optimiser(learner, "temperature").init(temperature),
    }
    slots = learner.settings.capacity // learner.settings.num_envs
    return Runner(
        **fields,
        critic=critic,
        target=jax.tree.map(jnp.copy, critic),
        temperature=temperature,
        updates=jnp.int32(0),
        replay_buffer=replay_buffer.empty(fields["obs"], None, slots, action),
    )


def rounds(
    learner: Learner[Any], runner: Runner, explore: Explore, draw: Draw, gradient_step: Step
) -> tuple[Runner, dict[str, Array]]:
    """Make `rollout_steps` rounds; also return the metrics of this update.

    `gradient_step` is given a batch and what `draw` made of a key.
    """
    runner, key_act, key_learn = rollouts.next_update(learner, runner)
    settings, envs = learner.settings, learner.env.num_envs
    policy: Any = learner.policy
    count = settings.rollout_steps
    # Counted up to the end of the warm-up only: the rounds of all updates may exceed int32.
    updates = jnp.minimum(runner.updates, settings.warm_up_rounds // count + 1)
    numbers = updates * count + jnp.arange(count, dtype=jnp.int32)

    def noise(key: Array) -> Array:
        return jax.random.normal(key, (envs, policy.numbers), jnp.float32)

    def to_learn(keys: Array) -> tuple[replay_buffer.SlotDraws, Any]:
        key_batch, key_step = keys
        lots = replay_buffer.draw_slots(key_batch, envs, batch_size(learner))
        return lots, draw(learner, key_step)

    # All at once: within a round, each draw is a loop of its own.
    key_random, key_action, key_step = jax.random.split(key_act, (count, 3)).swapaxes(0, 1)
    to_act = key_random, jax.vmap(noise)(key_action), key_step
    keys = jax.random.split(key_learn, (count, settings.replays, 2))
    one = functools.partial(play_and_learn, learner, explore, gradient_step)
    draws = (to_act, jax.vmap(jax.vmap(to_learn))(keys))
    runner, (ends, losses) = jax.lax.scan(one, runner, (numbers, *draws))
    runner = runner._replace(updates=runner.updates + 1)
    return runner, {**rollouts.episode_sums(ends), **measured(runner, losses)}


def measured(runner: Runner, losses: dict[str, Array]) -> dict[str, Array]:
    """Means of the losses of rounds over those gradient steps that had them; the temperature.

    Losses are zero in rounds of the warm-up. Actor losses are also zero where it was not its turn.
    """
    losses = jax.tree.map(jnp.mean, losses)
    learned = losses.pop(LEARNED)
    turns = losses.pop(TURNS, learned)
    of_turns = {name: losses.pop(name) for name in OF_TURNS if name in losses}
    found = means(losses, learned) | means(of_turns, turns)
    if jax.tree.leaves(runner.temperature):
        found["temperature"] = jnp.exp(runner.temperature)
    return found


def play_and_learn(
    learner: Learner[Any],
    explore: Explore,
    gradient_step: Step,
    runner: Runner,
    now: tuple[Any, ...],
) -> tuple[Runner, tuple[Rollout, dict[str, Array]]]:
    """One round: `now` is its number and what it draws to act and to learn."""
    settings, (number, to_act, to_learn) = learner.settings, now
    # All seeds are equally far; the maximum makes it one number, so that it stays a branch.
    number = jax.lax.pmax(number, SEEDS)  # of rounds before this one
    runner, ends = play(learner, explore, runner, to_act, number < settings.warm_up_rounds)
    shape = learner.env.env.action_space.shape

    def learn(learned: Learned) -> tuple[Learned, dict[str, Array]]:
        def step(learned: Learned, now: tuple[Any, Any]) -> tuple[Learned, dict[str, Array]]:
            (lots, draws), buffer = now, runner.replay_buffer
            slots = replay_buffer.slots_from(lots, buffer, 1)
            batch = replay_buffer.window(buffer, *slots, 1, settings.gamma)
            batch = batch._replace(action=batch.action.reshape(-1, *shape))
            return gradient_step(learner, learned, batch, draws)

        learned, losses = jax.lax.scan(step, learned, to_learn)
        return learned, {**jax.tree.map(jnp.mean, losses), LEARNED: jnp.float32(1.0)}

    _, shapes = jax.eval_shape(learn, runner.learned)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    learned, losses = jax.lax.cond(
        number + 1 >= settings.warm_up_rounds,
        learn,
        lambda same: (same, nothing),
        runner.learned,
    )
    return runner._replace(**learned._asdict()), (ends, losses)


def play(
    learner: Learner[Any],
    explore: Explore,
    runner: Runner,
    draws: tuple[Array, Array, Array],
    at_random: Array,
) -> tuple[Runner, Rollout]:
    """A step of every environment, remembered; actions are drawn evenly at first.

    `draws` are a key of even actions, noise of others, and a key of the step.
    """
    key_random, noise, key_step = draws

    def anything() -> Array:
        each = jax.random.split(key_random, learner.env.num_envs)
        return jax.vmap(learner.env.env.action_space.sample)(each)

    def explored() -> Array:
        outputs = rollouts.predict(learner, runner.weights, runner.obs)
        return explore(learner, outputs, noise)

    action = jax.lax.cond(at_random, anything, explored)
    step = learner.env.step(key_step, runner.world, action)
    buffer = replay_buffer.add(runner.replay_buffer, runner.obs, None, action, step)
    after, ends = rollouts.after_step(learner, runner._replace(replay_buffer=buffer), step)
    return after, Rollout(**ends)


def batch_size(learner: Learner[Any]) -> int:
    """Steps that a device learns from in a gradient step."""
    return learner.settings.batch_size // learner.devices.count


def chance(learner: Learner[Any], key: Array) -> Chance:
    """Draw for a batch."""
    policy: Any = learner.policy
    shape = (batch_size(learner), policy.numbers)
    return Chance(jax.random.normal(key, shape, jnp.float32), key)


def by_policy(learner: Learner[Any], outputs: Array, noise: Array) -> Array:
    """Explore by drawing from the policy."""
    policy: Any = learner.policy
    return policy.action(policy.spread_out(noise, outputs))


def drawn(
    learner: Learner[Any], weights: PyTree[Array], obs: PyTree[Array], noise: Array
) -> tuple[Array, Float32[Array, " batch"]]:
    """Actions of the policy in a batch of observations, and their log-probabilities."""
    return sampled(learner, rollouts.predict(learner, weights, obs), noise)


def sampled(
    learner: Learner[Any], outputs: Float32[Array, "batch outputs"], noise: Array
) -> tuple[Array, Float32[Array, " batch"]]:
    """Actions for outputs of the policy's network, and their log-probabilities."""
    policy: Any = learner.policy
    before = policy.spread_out(noise, outputs)
    return policy.action(before), policy.log_prob(outputs, before) + units(policy)


def units(policy: TanhGaussian) -> float:
    """What a log-probability grows by if actions are measured in half their range."""
    return float(np.log(policy.half).sum())


def values(
    learner: Learner[Any],
    critic: PyTree[Array],
    obs: PyTree[Array],
    action: Array,
    count: int = 1,
    key: Array | None = None,
) -> Float32[Array, "critics batch values"]:
    """What each critic says of a batch of observations and actions.

    With dropout, each item and critic drops its own numbers by the key, or none if it is None.
    """
    network = critic_of(learner, count)

    def one(critic: PyTree, rngs: dict[str, Array], obs: PyTree, action: Array) -> Any:
        return network.apply(critic, obs, action, rngs=rngs)

    def over_batch(critic: PyTree, rngs: dict[str, Array]) -> Any:
        keys = {name: jax.random.split(key, len(action)) for name, key in rngs.items()}
        return jax.vmap(one, in_axes=(None, 0, 0, 0))(critic, keys, obs, action)

    answer: Any = jax.vmap(over_batch)(critic, dropping(learner, critic, key))
    return answer


def dropping(learner: Learner[Any], critic: PyTree[Array], key: Array | None) -> dict[str, Array]:
    """Keys by which each critic drops numbers; none without dropout, or without a key."""
    if key is None or not learner.settings.dropout:
        return {}
    count = len(jax.tree.leaves(critic)[0])
    return {"dropout": jax.random.split(jax.random.fold_in(key, APART), count)}


def descended(
    learner: Learner[Any], learned: Learned, name: str, loss: Callable[..., Any], *given: Any
) -> tuple[Learned, dict[str, Array]]:
    """Take a gradient step on a field of `learned`: `loss(learner, field, *given)`.

    What the loss calls `STATISTICS` takes the place of the field's own.
    """
    field = getattr(learned, name)
    trained, fixed = minibatches.split_weights(field) if isinstance(field, dict) else (field, {})

    def of_all(learner: Learner[Any], trained: Any, *given: Any) -> Any:
        return loss(learner, {**trained, **fixed} if fixed else trained, *given)

    gradient, losses = minibatches.gradients(learner, of_all, trained, *given)
    chain, state = optimiser(learner, name), learned.optimiser[name]
    trained, state = minibatches.apply_gradient(chain, gradient, state, trained)
    if fixed:
        trained = {**trained, **fixed, **losses.pop(STATISTICS, {})}
    states = {**learned.optimiser, name: state}
    return learned._replace(**{name: trained, "optimiser": states}), losses


def optimiser(learner: Learner[Any], name: str) -> optax.GradientTransformation:
    """The optimiser of a field of `Learned`."""
    settings = learner.settings
    if name == "critic":
        return minibatches.optimiser(settings, stacked=True)
    return minibatches.optimiser(settings, settings.actor_every)


def in_turn(
    learner: Learner[Any],
    learned: Learned,
    act: Callable[[Learned], tuple[Learned, dict[str, Array]]],
) -> tuple[Learned, dict[str, Array]]:
    """Let the actor learn by `act` in every `actor_every`-th gradient step of the critics."""
    every = learner.settings.actor_every
    if every == 1:
        return act(learned)
    # All seeds are equally far; the maximum makes it one number, so that it stays a branch.
    made = jax.lax.pmax(minibatches.step_count(learned.optimiser["critic"]), SEEDS)
    _, shapes = jax.eval_shape(act, learned)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    is_turn = made % every == 0
    learned, losses = jax.lax.cond(is_turn, act, lambda same: (same, nothing), learned)
    return learned, {**losses, TURNS: is_turn.astype(jnp.float32)}


def followed(learner: Learner[Any], slow: PyTree[Array], weights: PyTree[Array]) -> PyTree[Array]:
    """Slow copies after a move towards the weights."""
    return optax.incremental_update(weights, slow, learner.settings.target_rate)


def squared_errors(
    learner: Learner[Any],
    critic: PyTree[Array],
    batch: Batch,
    goal: Float32[Array, " batch"],
    key: Array | None = None,
) -> tuple[Array, dict[str, Array]]:
    """Half the squared errors of all critics; `key` is that of `values`."""
    value = values(learner, critic, batch.obs, batch.action, key=key)[..., 0]
    loss = 0.5 * (batch.weight * jnp.square(value - goal)).mean(axis=1).sum()
    return loss, {"critic_loss": loss, "q": value.mean()}


def network(
    env: Any,
    has_chance: bool = True,
    renormalised: bool = False,
    layer_norm: bool = False,
    **given: Any,
) -> Actor:
    """The network of the policy for an environment; raises `ValueError` for other actions.

    `layer_norm` is of the critics alone.
    """
    made = Actor.of(env, **given).clone(has_chance=has_chance, renormalised=renormalised)
    assert isinstance(env.action_space, spaces.Box)
    return made
