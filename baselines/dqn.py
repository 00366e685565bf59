"""DQN (Mnih et al., 2015), double, dueling, with n-step returns and an on-device replay buffer.

Run it with `jaxenvs train ID --algo dqn`. It is the learner for few environment steps: each is
learned from many times. World, agent, `replay_buffer` and gradient steps are one compiled
program. Actions of the n-step successor are chosen by the weights and valued by their slow copy
(van Hasselt et al., 2016); heads as in Wang et al. (2016).
Deliberate differences: environments fill the replay buffer side by side; an episode cut by the time
limit is bootstrapped with its true successor; layers are normalised (q_network.py); `n_step` > 1 is
not corrected for the actions that the policy would take now. Where the environment forbids actions,
the best one is the best of the legal ones, in acting and in targets.
"""

import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt32

from jaxenvs.core.masking import legal
from jaxenvs.core.memory import device_memory

from . import acting, evaluate, minibatches, q_network, replay_buffer
from .acting import Rollout
from .algorithms import SEEDS, Learner
from .devices import ALONE
from .minibatches import Loss
from .q_network import QNetwork
from .replay_buffer import Batch, ReplayBuffer
from .run import options
from .run.checkpoints import RunError
from .runs import Config
from .settings import Exploring


@dataclasses.dataclass(frozen=True)
class Settings(Exploring):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    rollout_steps: int = 16  # steps of each environment between updates
    learning_rate: float = 3e-4  # at the start
    max_grad_norm: float = 10.0  # global norm of the gradient, at most
    capacity: int = 200_000  # steps that the replay buffer holds, of all environments together
    warm_up: int = 10_000  # steps of all environments before the first gradient step
    gradient_steps: int = 32  # of an update
    batch_size: int = 128  # steps that a gradient step learns from, on all devices
    n_step: int = 3  # steps whose rewards are added before the value of what follows
    double: bool = True  # whether the weights choose the action that their slow copy values
    dueling: bool = True  # whether the network says a value and advantages
    target_rate: float = 0.01  # how far the slow copy moves towards the weights; 1: all the way
    target_every: int = 1  # gradient steps between its moves
    epsilon_share: float = 0.3  # share of the run's updates over which epsilon falls, linearly

    counts: ClassVar[tuple[str, ...]] = (
        *Exploring.counts,
        *("gradient_steps", "batch_size", "n_step", "target_every"),
    )

    def check(self) -> None:
        super().check()
        if self.slots <= self.n_step:
            raise ValueError(
                f"capacity={self.capacity} leaves {self.slots} slots for each of {self.num_envs} "
                f"environments; n_step={self.n_step} needs {self.n_step + 1}: give capacity="
                f"{(self.n_step + 1) * self.num_envs} or more, or fewer num_envs"
            )
        if self.warm_up < self.n_step * self.num_envs:
            raise ValueError(
                f"warm_up={self.warm_up} ends before each of {self.num_envs} environments has made "
                f"n_step={self.n_step} steps; give at least {self.n_step * self.num_envs}"
            )
        if not 0.0 < self.target_rate <= 1.0:
            raise ValueError(f"target_rate={self.target_rate} must be above 0 and at most 1")

    @property
    def slots(self) -> int:
        """Slots of the replay buffer for each environment."""
        return self.capacity // self.num_envs


class Runner(NamedTuple):
    """Everything a run consists of between two updates: saved as it is, resumed bit for bit."""

    weights: PyTree[Array]
    target: PyTree[Array]  # their slow copy
    optimiser: PyTree[Array]  # Adam's moments and counts
    updates: Int32[Array, "*seeds"]  # made so far
    replay_buffer: ReplayBuffer
    world: PyTree[Array]  # VectorState
    obs: PyTree[Array]  # what the next actions are chosen from
    key: UInt32[Array, "*seeds words"]  # data of the PRNG key
    returns: Float32[Array, "*seeds envs"]  # rewards so far of the episodes under way
    lengths: Int32[Array, "*seeds envs"]  # their steps so far
    memory: tuple[()]  # the network remembers nothing


DIVIDED = (*acting.DIVIDED, "replay_buffer")
network = QNetwork.of
report = evaluate.report


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights twice, an empty replay buffer, worlds and the key for all that follows."""
    fields = acting.begin(learner, key)
    mask = acting.legal_now(learner, fields["world"].env)
    return Runner(
        **fields,
        target=jax.tree.map(jnp.copy, fields["weights"]),
        updates=jnp.int32(0),
        replay_buffer=replay_buffer.empty(fields["obs"], mask, learner.settings.slots),
    )


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Act, remember, and learn from what is remembered; also return this update's metrics."""
    settings = learner.settings
    epsilon = settings.epsilon(runner.updates)
    runner, key_act, key_learn = acting.next_update(learner, runner)
    runner, ends = collect(learner, runner, key_act)
    runner = runner._replace(updates=runner.updates + 1)
    # All seeds are equally far; the maximum makes it one number, so that it stays a branch.
    steps = jax.lax.pmax(runner.updates, SEEDS) * settings.steps_per_update
    runner, losses = learn_when(learner, steps >= settings.warm_up, runner, key_learn)
    return runner, {**acting.episode_sums(ends), **losses, "epsilon": epsilon}


def collect(learner: Learner[Settings], runner: Runner, key: Array) -> tuple[Runner, Rollout]:
    """Act for `rollout_steps` steps in every environment, and remember them."""
    epsilon = learner.settings.epsilon(runner.updates)

    def act(runner: Runner, key: Array) -> tuple[Runner, Rollout]:
        key_action, key_step = jax.random.split(key)
        mask = acting.legal_now(learner, runner.world.env)
        values = acting.predict(learner, runner.weights, runner.obs)
        action = q_network.explore(key_action, values, epsilon, mask)
        step = learner.env.step(key_step, runner.world, action)
        buffer = replay_buffer.add(runner.replay_buffer, runner.obs, mask, action, step)
        after, ends = acting.stepped(learner, runner._replace(replay_buffer=buffer), step)
        return after, Rollout(**ends)

    steps, unroll = learner.settings.rollout_steps, learner.settings.unroll
    return jax.lax.scan(act, runner, jax.random.split(key, steps), unroll=unroll)


def learn_when(
    learner: Learner[Settings], ready: Bool[Array, ""], runner: Runner, key: Array
) -> tuple[Runner, dict[str, Array]]:
    """Take `gradient_steps` gradient steps, or none before the replay buffer is `ready`."""
    learned = (runner.weights, runner.target, runner.optimiser)
    nothing = {"q_loss": jnp.float32(0.0), "q": jnp.float32(0.0)}

    def learn(learned: Any) -> Any:
        keys = jax.random.split(key, learner.settings.gradient_steps)
        step = functools.partial(gradient_step, learner, runner.replay_buffer)
        learned, losses = jax.lax.scan(step, learned, keys)
        return learned, jax.tree.map(jnp.mean, losses)

    learned, losses = jax.lax.cond(ready, learn, lambda same: (same, nothing), learned)
    weights, target, optimiser = learned
    return runner._replace(weights=weights, target=target, optimiser=optimiser), losses


def gradient_step(
    learner: Learner[Settings], buffer: ReplayBuffer, learned: Any, key: Array
) -> tuple[Any, dict[str, Array]]:
    """Learn from one batch, then let the slow copy follow."""
    settings = learner.settings
    weights, target, state = learned
    size = settings.batch_size // learner.devices.count
    batch = replay_buffer.sample(key, buffer, size, settings.n_step, settings.gamma)
    goals = worth(learner, weights, target, batch)
    gradient, losses = minibatches.gradients(learner, loss, weights, batch, goals)
    optimiser = minibatches.optimiser(settings)
    weights, state = minibatches.apply_gradient(optimiser, gradient, state, weights)
    moves = minibatches.counted(state) % settings.target_every == 0
    rate = jnp.where(moves, settings.target_rate, 0.0)
    target = jax.tree.map(lambda old, new: (1.0 - rate) * old + rate * new, target, weights)
    return (weights, target, state), losses


def worth(
    learner: Learner[Any], weights: PyTree[Array], target: PyTree[Array], batch: Batch
) -> Float32[Array, " batch"]:
    """What the sampled actions should have been worth."""
    values = acting.predict(learner, target, batch.next_obs)
    double = learner.settings.double
    chooser = acting.predict(learner, weights, batch.next_obs) if double else values
    action = legal(chooser, batch.next_mask).argmax(axis=-1).astype(jnp.int32)
    value = q_network.chosen(values, action)
    chex.assert_equal_shape(
        [batch.reward, batch.discount, value],
        custom_message="reward, discount and the successor's value, [batch]",
    )
    return batch.reward + batch.discount * value


def loss(learner: Learner, weights: PyTree, batch: Batch, worth: Array) -> Loss:
    """Huber loss of the values of the sampled actions."""
    value = q_network.chosen(acting.predict(learner, weights, batch.obs), batch.action)
    chex.assert_equal_shape(
        [batch.weight, value, worth], custom_message="weight, value and worth, [batch]"
    )
    loss = (batch.weight * optax.losses.huber_loss(value, worth)).mean()
    return loss, {"q_loss": loss, "q": value.mean()}


def fit(learner: Learner[Settings], seeds: int) -> None:
    """Raise `RunError` if the replay buffer does not fit on the device."""
    alone = dataclasses.replace(learner, devices=ALONE)
    shapes = jax.eval_shape(alone.init, jax.random.key(0)).replay_buffer
    need = seeds * sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    device = jax.local_devices()[0]
    there = device_memory(device)
    if there is not None and need > there:
        fits = int(learner.settings.capacity * there / need / 2)
        raise RunError(
            f"a replay buffer of capacity={learner.settings.capacity} takes {need:,} bytes of a "
            f"device ({seeds} seeds), {device.platform} has {there:,}; try --capacity {fits}, or "
            f"fewer --seeds"
        )


def build(asked: options.Options[Settings], config: Config) -> Learner[Settings]:
    """Return the algorithm for what was asked; raises for what cannot work."""
    learner, size = options.learner("dqn", asked, config), asked.settings.batch_size
    if size % learner.devices.count:
        raise RunError(
            f"batch_size={size} does not divide evenly among {learner.devices.count} devices; give "
            f"--batch-size {-(-size // learner.devices.count) * learner.devices.count}"
        )
    fit(learner, asked.seeds)
    return learner
