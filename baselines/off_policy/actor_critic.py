"""Shared code of the off-policy actor-critic learners: SAC, TD3, TQC and CrossQ.

In each iteration, every environment makes one step, then the learner takes `replays` gradient steps
on batches from the replay buffer. Log-probabilities refer to actions rescaled to [-1, 1], so
entropies do not depend on the units of the environment's actions. The networks are in
actor_critic_networks.py.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float32, PyTree

from jaxenvs.core.distributions import TanhGaussian

from ..core import minibatches, replay_buffer, rollouts
from ..core.bounds import Bounds, Count, Rate, Swept, Widths
from ..core.learner import SEEDS, Learner
from ..core.metrics import means
from ..core.replay_buffer import Batch
from ..core.rollouts import Rollout, Runner
from ..core.settings import LARGEST, Activation, Buffer
from ..networks.batch_renorm import STATISTICS
from .actor_critic_networks import Actor, critic_of, critic_values


@dataclasses.dataclass(frozen=True)
class Replaying(Buffer):
    """Hyperparameters shared by the off-policy actor-critic learners."""

    num_envs: int = 1  # number of environments stepped in parallel
    # steps that each environment makes per update; each update writes one record of the log
    rollout_steps: int = 100
    replays: Count = 1  # gradient steps per environment step (replay ratio); DroQ uses 20
    learning_rate: Swept[float] = 3e-4  # learning rate of actor, critics and temperature
    anneal: bool = False  # whether the learning rate falls linearly to 0
    max_grad_norm: Swept[float] = 1e3  # gradients are clipped to this global norm
    hidden: tuple[int, ...] = (256, 256)  # widths of the hidden layers of actor and critics
    critic_hidden: Widths = ()  # widths of the critics' hidden layers; (): use `hidden`
    activation: Activation = "relu"  # activation function of the hidden layers
    layer_norm: bool = False  # whether the critics have layer normalisation, as in DroQ
    # dropout rate of the critics; DroQ uses 0.01
    dropout: Annotated[float, Bounds(most=1.0, below=True, hint="1 drops everything")] = 0.0
    capacity: int = 1_000_000  # number of steps in the replay buffer, over all environments
    warm_up: int = 1_000  # random steps, over all environments, before the first gradient step
    batch_size: Count = 256  # transitions per gradient step, on all devices together
    critics: Count = 2  # number of critics; TD targets use their minimum, except in TQC
    target_rate: Swept[Rate] = 0.005  # Polyak coefficient of target networks; 1 copies the weights
    actor_every: Count = 1  # gradient steps of the critics per gradient step of the actor

    can_sweep = True

    @property
    def gradient_steps(self) -> int:
        """Number of gradient steps per update."""
        return self.rollout_steps * self.replays

    @property
    def warm_up_iterations(self) -> int:
        """Number of iterations in the warm-up; in each, every environment makes one random step.

        The last of these iterations completes the `warm_up` steps, and therefore takes the first
        gradient steps.
        """
        return min(-(-self.warm_up // self.num_envs), LARGEST)

    def updates_of(self, gradient_steps: Any, every: int = 1) -> Any:
        """Return the number of updates after which an optimiser has taken `gradient_steps` steps.

        The optimiser takes one step for every `every` gradient steps of the learner.
        """
        cold = min(self.warm_up_iterations - 1, self.updates * self.rollout_steps)
        return (cold * self.replays + gradient_steps * every) // self.gradient_steps


class Learned(NamedTuple):
    """The fields of a runner that gradient steps change; a field that a learner lacks is ()."""

    weights: PyTree[Array]  # weights of the actor
    critic: PyTree[Array]  # ensemble of critics, stacked along the first axis
    target: PyTree[Array]  # target networks of the critics, and of the actor in TD3
    temperature: PyTree[Array]  # logarithm of the entropy coefficient alpha
    optimiser: dict[str, PyTree[Array]]  # optimiser states of "weights", "critic", "temperature"

    @classmethod
    def of(cls, runner: Runner) -> "Learned":
        """Return those fields of the training state `runner` that gradient steps change."""
        return cls(*(getattr(runner, name) for name in cls._fields))


LEARNED = "learned"  # name of a metric: 1 in iterations with gradient steps, else 0
TURNS = "turns"  # name of a metric: fraction of the gradient steps that updated the actor
OF_TURNS = ("actor_loss", "entropy")  # metrics that only updates of the actor compute
# Function that chooses actions in rollouts: (learner, the actor's outputs, noise) -> actions.
Explore = Callable[[Learner[Any, Actor], Array, Array], Array]
# (learner, key) -> random numbers of a gradient step
Draw = Callable[[Learner[Any, Actor], Array], Any]
Step = Callable[[Learner[Any, Actor], Learned, Batch, Any], tuple[Learned, dict[str, Array]]]


class Noise(NamedTuple):
    """Random numbers for a batch of observations: noise for the actions, and a dropout key."""

    noise: Float32[Array, "*batch numbers"]  # standard normal noise from which actions are sampled
    key: Array  # random key for the critics' dropout masks


def begin(
    learner: Learner[Any, Actor], key: Array, values: int = 1, temperature: PyTree[Array] = ()
) -> Runner:
    """Return the initial training state: an empty replay buffer and newly initialised networks.

    Each critic has `values` outputs, and its target network has the same weights. `temperature` is
    the initial value of log alpha, or () for learners without a temperature.
    """
    key_rest, key_critics = jax.random.split(key)
    fields = rollouts.begin(learner, key_rest)
    first = jax.tree.map(lambda leaf: leaf[0], fields["obs"])
    space = learner.env.env.action_space
    network, count = critic_of(learner, values), learner.settings.critics
    action = space.sample(key_critics)
    # Under `vmap`, orthogonal initialisation is slow to compile, so use `lax.map`.
    keys = jax.random.split(key_critics, count)
    critic = jax.lax.map(lambda key: network.init(key, first, action), keys)
    fields["optimiser"] = {
        "weights": fields["optimiser"],
        "critic": optimiser(learner, "critic").init(minibatches.split_weights(critic)[0]),
        "temperature": optimiser(learner, "temperature").init(temperature),
    }
    return Runner(
        **fields,
        critic=critic,
        target=jax.tree.map(jnp.copy, critic),
        temperature=temperature,
        updates=jnp.int32(0),
        replay_buffer=replay_buffer.empty(fields["obs"], None, learner.settings.slots, action),
    )


def update(
    explore: Explore, draw: Draw, gradient_step: Step, learner: Learner[Any, Actor], runner: Runner
) -> tuple[Runner, dict[str, Array]]:
    """Act and learn for `rollout_steps` iterations; return the new training state and metrics.

    `explore` chooses actions. `draw(learner, key)` draws the random numbers `draws` of a gradient
    step, and `gradient_step(learner, learned, batch, draws)` takes the step.
    """
    runner, key_act, key_learn = rollouts.next_update(learner, runner)
    settings, envs = learner.settings, learner.env.num_envs
    policy: Any = learner.policy
    count = settings.rollout_steps
    # The iteration index is used only to test whether the warm-up is over. It is computed from a
    # capped number of updates, because it could overflow int32 in a long run.
    updates = jnp.minimum(runner.updates, settings.warm_up_iterations // count + 1)
    numbers = updates * count + jnp.arange(count, dtype=jnp.int32)

    def noise(key: Array) -> Array:
        return jax.random.normal(key, (envs, policy.numbers), jnp.float32)

    def to_learn(keys: Array) -> tuple[replay_buffer.SlotDraws, Any]:
        key_batch, key_step = keys
        slots = replay_buffer.draw_slots(key_batch, envs, batch_size(learner))
        return slots, draw(learner, key_step)

    # Draw all random numbers before the scan: on a CPU, XLA compiles each draw inside the scan to a
    # slow loop.
    key_random, key_action, key_step = jax.random.split(key_act, (count, 3)).swapaxes(0, 1)
    to_act = key_random, jax.vmap(noise)(key_action), key_step
    keys = jax.random.split(key_learn, (count, settings.replays, 2))
    one = functools.partial(act_and_learn, learner, explore, gradient_step)
    draws = (to_act, jax.vmap(jax.vmap(to_learn))(keys))
    runner, (ends, measured, losses) = jax.lax.scan(
        one, runner, (numbers, *draws), unroll=settings.unroll
    )
    runner = rollouts.with_measures(runner, measured)._replace(updates=runner.updates + 1)
    return runner, {**rollouts.episode_sums(ends), **mean_losses(runner, losses)}


def mean_losses(runner: Runner, losses: dict[str, Array]) -> dict[str, Array]:
    """Average each loss over the gradient steps that computed it; add the temperature.

    `losses` contains 0 for a loss that was not computed. No loss is computed during the warm-up,
    and the actor's losses only in gradient steps that update the actor.
    """
    losses = jax.tree.map(jnp.mean, losses)
    learned = losses.pop(LEARNED)
    turns = losses.pop(TURNS, learned)
    of_turns = {name: losses.pop(name) for name in OF_TURNS if name in losses}
    found = means(losses, learned) | means(of_turns, turns)
    if jax.tree.leaves(runner.temperature):
        found["temperature"] = jnp.exp(runner.temperature)
    return found


def act_and_learn(
    learner: Learner[Any, Actor],
    explore: Explore,
    gradient_step: Step,
    runner: Runner,
    now: tuple[Any, ...],
) -> tuple[Runner, tuple[Rollout, PyTree[Array], dict[str, Array]]]:
    """Make one step of every environment; after the warm-up, also take gradient steps.

    `now` is a tuple of the iteration's index and its random numbers for acting and learning. The
    scan stacks the ends of episodes, the sums of `rollouts.measure_ends` and the losses.
    """
    settings, (number, to_act, to_learn) = learner.settings, now
    # `number` is equal for all seeds. `pmax` over seeds turns it into a scalar under `vmap`, so
    # that `cond` runs only one branch. With a condition per seed, `vmap` would compute both.
    number = jax.lax.pmax(number, SEEDS)  # number of iterations before this one
    at_random = number < settings.warm_up_iterations
    runner, ends, measured = act(learner, explore, runner, to_act, at_random)
    shape = learner.env.env.action_space.shape

    def learn(learned: Learned) -> tuple[Learned, dict[str, Array]]:
        def step(learned: Learned, now: tuple[Any, Any]) -> tuple[Learned, dict[str, Array]]:
            (slot_draws, draws), buffer = now, runner.replay_buffer
            slots = replay_buffer.slots_from(slot_draws, buffer, 1)
            batch = replay_buffer.window(buffer, *slots, 1, settings.gamma)
            batch = batch._replace(action=batch.action.reshape(-1, *shape))
            return gradient_step(learner, learned, batch, draws)

        learned, losses = jax.lax.scan(step, learned, to_learn)
        return learned, {**jax.tree.map(jnp.mean, losses), LEARNED: jnp.float32(1.0)}

    learned, losses = maybe(number + 1 >= settings.warm_up_iterations, learn, Learned.of(runner))
    return runner._replace(**learned._asdict()), (ends, measured, losses)


def maybe(
    condition: Array,
    function: Callable[[Learned], tuple[Learned, dict[str, Array]]],
    learned: Learned,
) -> tuple[Learned, dict[str, Array]]:
    """Apply `function` if the condition holds; else return `learned` unchanged and losses of 0."""
    _, shapes = jax.eval_shape(function, learned)
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.lax.cond(condition, function, lambda same: (same, zeros), learned)


def act(
    learner: Learner[Any, Actor],
    explore: Explore,
    runner: Runner,
    draws: tuple[Array, Array, Array],
    at_random: Array,
) -> tuple[Runner, Rollout, PyTree[Array]]:
    """Make one step in every environment and store it in the replay buffer.

    Return the runner, the ends of episodes, and the sums of `rollouts.measure_ends`.

    If `at_random` is True (during the warm-up), actions are uniformly random. `draws` has three
    entries: the key for random actions, the noise for the policy's actions, and the key for the
    environment's step.
    """
    key_random, noise, key_step = draws

    def uniform() -> Array:
        each = jax.random.split(key_random, learner.env.num_envs)
        return jax.vmap(learner.env.env.action_space.sample)(each)

    def explored() -> Array:
        outputs = rollouts.predict(learner, runner.weights, runner.obs)
        return explore(learner, outputs, noise)

    action = jax.lax.cond(at_random, uniform, explored)
    step, successor = rollouts.advance(learner, runner, key_step, action)
    measured = rollouts.measure_ends(learner, runner, step, successor)
    buffer = replay_buffer.add(runner.replay_buffer, runner.obs, None, action, step)
    after, ends = rollouts.after_step(learner, runner._replace(replay_buffer=buffer), step)
    return after, Rollout(**ends), measured


def batch_size(learner: Learner[Any, Actor]) -> int:
    """Return the number of transitions of a batch that each device processes."""
    return learner.settings.batch_size // learner.devices.count


def draw_noise(learner: Learner[Any, Actor], key: Array) -> Noise:
    """Draw the policy's noise and the dropout key for the part of a batch on one device."""
    policy: Any = learner.policy
    shape = (batch_size(learner), policy.numbers)
    return Noise(jax.random.normal(key, shape, jnp.float32), key)


def sample_policy(learner: Learner[Any, Actor], outputs: Array, noise: Array) -> Array:
    """Return actions for exploration: samples of the policy, computed from `noise`."""
    policy: Any = learner.policy
    return policy.action(policy.reparametrise(noise, outputs))


def sample_actions(
    learner: Learner[Any, Actor], weights: PyTree[Array], obs: PyTree[Array], noise: Array
) -> tuple[Array, Float32[Array, " batch"]]:
    """Sample the policy's actions for a batch of observations; also return log pi(a|s)."""
    return actions_and_log_probs(learner, rollouts.predict(learner, weights, obs), noise)


def actions_and_log_probs(
    learner: Learner[Any, Actor], outputs: Float32[Array, "batch outputs"], noise: Array
) -> tuple[Array, Float32[Array, " batch"]]:
    """Return actions sampled by means of `noise` from the actor's outputs, and log pi(a|s)."""
    policy: Any = learner.policy
    before = policy.reparametrise(noise, outputs)
    return policy.action(before), policy.log_prob(outputs, before) + log_half_range(policy)


def log_half_range(policy: TanhGaussian) -> float:
    """Return the sum of log(half the range) over action dimensions.

    The log-probability of an action plus this sum is the log-probability of the action rescaled to
    [-1, 1].
    """
    return float(np.log(policy.half).sum())


def descend(
    learner: Learner[Any, Actor], learned: Learned, name: str, loss: Callable[..., Any], *given: Any
) -> tuple[Learned, dict[str, Array]]:
    """Take a gradient step on the field `name` of `learned`; return `learned` and metrics.

    `loss(learner, field, *given)` returns the loss and its metrics. The metric `STATISTICS`, if
    there is one, contains the field's new running batch statistics, and is not logged.
    """
    field = getattr(learned, name)
    trained, fixed = minibatches.split_weights(field) if isinstance(field, dict) else (field, {})

    def of_all(learner: Learner[Any, Actor], trained: Any, *given: Any) -> Any:
        return loss(learner, {**trained, **fixed} if fixed else trained, *given)

    gradient, losses = minibatches.gradients(learner, of_all, trained, *given)
    chain, state = optimiser(learner, name), learned.optimiser[name]
    trained, state = minibatches.apply_gradient(chain, gradient, state, trained)
    if fixed:
        trained = {**trained, **fixed, **losses.pop(STATISTICS, {})}
    states = {**learned.optimiser, name: state}
    return learned._replace(**{name: trained, "optimiser": states}), losses


def optimiser(learner: Learner[Any, Actor], name: str) -> optax.GradientTransformation:
    """Return the optimiser that trains the field `name` of `Learned`."""
    settings = learner.settings
    if name == "critic":
        return minibatches.optimiser(settings, stacked=True)
    return minibatches.optimiser(settings, settings.actor_every)


def delayed(
    learner: Learner[Any, Actor],
    learned: Learned,
    update_actor: Callable[[Learned], tuple[Learned, dict[str, Array]]],
) -> tuple[Learned, dict[str, Array]]:
    """Call `update_actor` in every `actor_every`-th gradient step of the critics.

    Return the new `Learned` and metrics. In all other steps, `learned` stays unchanged, and losses
    are 0.
    """
    every = learner.settings.actor_every
    if every == 1:
        return update_actor(learned)
    # The condition is equal for all seeds. `pmax` over seeds makes it a scalar under `vmap`, so
    # that `cond` runs only one branch.
    made = jax.lax.pmax(minibatches.step_count(learned.optimiser["critic"]), SEEDS)
    is_turn = made % every == 0
    learned, losses = maybe(is_turn, update_actor, learned)
    return learned, {**losses, TURNS: is_turn.astype(jnp.float32)}


def polyak(
    learner: Learner[Any, Actor], target: PyTree[Array], weights: PyTree[Array]
) -> PyTree[Array]:
    """Move the target networks towards the weights: Polyak averaging with tau = `target_rate`."""
    return optax.incremental_update(weights, target, learner.settings.target_rate)


def critic_loss(
    learner: Learner[Any, Actor],
    critic: PyTree[Array],
    batch: Batch,
    target: Float32[Array, " batch"],
    key: Array | None = None,
) -> tuple[Array, dict[str, Array]]:
    """Return half the mean squared TD error, summed over the critics, and its metrics.

    `key` is the random key for dropout.
    """
    value = critic_values(learner, critic, batch.obs, batch.action, key=key)[..., 0]
    loss = 0.5 * (batch.weight * jnp.square(value - target)).mean(axis=1).sum()
    return loss, {"critic_loss": loss, "q": value.mean()}
