"""Ape-X (Horgan et al., 2018) over a Ray cluster: DQN with many actors and a divided replay.

Run it with `jaxenvs train ID --ray --algo apex`; it needs the extra `ray`. Actors explore, each
environment with its own epsilon, and send n-step items with first priorities to replay shards. The
learner takes prioritised batches from all shards and sends new priorities back. Nobody waits:
actors are at most one update's fragments ahead.
Deliberate differences: the learner takes `gradient_steps` steps for one fragment of every actor, so
that how often an item is learned from does not depend on the number of processes; Adam, and a slow
copy that follows in every step, as in dqn.py. A run that goes on after a stop is not bit-equal to
one that was never stopped: environments begin anew, and the shards are empty again.
"""

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, PyTree, UInt32

from jaxenvs.core.memory import machine_memory
from jaxenvs.core.spaces import Dict, Space

from ..core import minibatches
from ..core.bounds import Count, Rate, Share
from ..core.learner import Algorithm, Learner
from ..core.replay_buffer import Batch
from ..core.settings import Common
from ..networks import q_network
from ..networks.q_network import QNetwork
from ..off_policy import dqn
from ..run.keeping import Callback
from . import launch


@dataclasses.dataclass(frozen=True)
class Settings(Common):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    rollout_steps: int = 32  # steps of each environment between updates
    learning_rate: float = 3e-4  # at the start
    max_grad_norm: float = 10.0  # global norm of the gradient, at most
    capacity: int = 200_000  # steps that the replay shards hold, together
    warm_up: Count = 10_000  # steps that they must hold before the first gradient step
    gradient_steps: Count = 32  # of an update
    batch_size: Count = 128  # steps that a gradient step learns from
    n_step: Count = 3  # steps whose rewards are added before the value of what follows
    double: bool = True  # whether the weights choose the action that their slow copy values
    dueling: bool = True  # whether the network says a value and advantages
    target_rate: Rate = 0.01  # Polyak coefficient of the target network; 1 copies the weights
    priority: Share = 0.6  # power of an item's error to which it is drawn; 0: all alike
    importance: Share = 0.4  # power of importance weights at the start; it rises to 1
    epsilon: Share = 0.4  # share of random actions of the environment that explores most
    epsilon_power: float = 7.0  # the last one has epsilon to the power of one more than this
    actors: Count = 4  # processes that sample, each with its share of `num_envs`
    replays: Count = 1  # processes that hold the replay, each its share of `capacity`
    address: str | None = None  # HOST:PORT of a Ray cluster to join, or auto; None: start one here
    patience: Count = 300  # seconds until a process that does not answer counts as dead

    mode: ClassVar[str] = "async"  # actors never wait for the newest weights
    munchausen: ClassVar[float] = 0.0  # DQN has it, Ape-X has not

    @property
    def workers(self) -> int:
        """Processes of a run, each on a CPU of its own."""
        return self.actors + self.replays + 1

    def check(self) -> None:
        super().check()
        launch.check(self)
        if self.capacity < self.warm_up:
            raise ValueError(
                f"capacity={self.capacity} never holds warm_up={self.warm_up} steps; give more "
                f"--capacity, or less --warm-up"
            )

    def epsilons(self, slot: int) -> tuple[float, ...]:
        """Shares of random actions of the environments of the actor in a slot.

        They fall from `epsilon` over the environments of all actors.
        """
        share = self.num_envs // self.actors
        place = np.arange(slot * share, (slot + 1) * share) / max(self.num_envs - 1, 1)
        return tuple(q_network.epsilon_ladder(self.epsilon, self.epsilon_power, place).tolist())


class Runner(NamedTuple):
    """What the learner keeps between two updates, and a checkpoint holds."""

    weights: PyTree[Array]
    target: PyTree[Array]  # their slow copy
    optimiser: PyTree[Array]  # its moments and counts
    updates: Int32[Array, "*seeds"]  # in which something was learned
    key: UInt32[Array, "*seeds words"]  # data of the PRNG key of the run


DIVIDED: tuple[str, ...] = ()
network = QNetwork.of


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights twice; environments are the actors'."""
    key_weights, key_obs, key_rest = jax.random.split(key, 3)
    weights = learner.network.init(key_weights, learner.env.observation_space.sample(key_obs))
    optimiser = minibatches.optimiser(learner.settings).init(weights)
    target, key_data = jax.tree.map(jnp.copy, weights), jax.random.key_data(key_rest)
    return Runner(weights, target, optimiser, jnp.int32(0), key_data)


def update(
    learner: Learner[Settings], runner: Runner, batches: Batch
) -> tuple[Runner, dict[str, Array]]:
    """Take a gradient step on each batch (gradient_steps, batch, ...).

    Also returns metrics, and the new `error` (gradient_steps, batch) of each item's value.
    """

    def step(learned: Any, batch: Batch) -> tuple[Any, dict[str, Array]]:
        weights, target, state = learned
        goals = dqn.worth(learner, weights, target, batch)
        gradient, losses = minibatches.gradients(learner, dqn.loss, weights, batch, goals)
        optimiser = minibatches.optimiser(learner.settings)
        weights, state = minibatches.apply_gradient(optimiser, gradient, state, weights)
        rate = learner.settings.target_rate
        target = jax.tree.map(lambda old, new: (1.0 - rate) * old + rate * new, target, weights)
        return (weights, target, state), losses

    learned = (runner.weights, runner.target, runner.optimiser)
    (weights, target, state), losses = jax.lax.scan(step, learned, batches)
    errors = losses.pop("error")
    runner = Runner(weights, target, state, runner.updates + 1, runner.key)
    return runner, jax.tree.map(jnp.mean, losses) | {"error": errors}


def check(learner: Learner[Settings], seeds: int, episodes: int) -> None:
    """Raise `ValueError` if the replay does not fit in this machine's memory."""
    settings, there = learner.settings, machine_memory()
    obs, mask = seen(learner.env.observation_space), learner.env.action_space.n
    numbers = 3 * 4 + 2 * 8  # action, reward, discount; priority and age
    need = settings.capacity * (2 * obs + mask + numbers)
    if there is not None and settings.address is None and need > there:
        raise ValueError(
            f"replay shards of capacity={settings.capacity} take {need:,} bytes, and this machine "
            f"has {there:,}; try --capacity {int(settings.capacity * there / need / 2)}"
        )


def seen(space: Space) -> int:
    """Bytes of an observation."""
    if isinstance(space, Dict):
        return sum(map(seen, space.spaces.values()))
    return math.prod(space.shape) * np.dtype(space.dtype).itemsize


def command(algorithm: Algorithm, argv: list[str], callback: Callback | None = None) -> int:
    """Train from the command line; return the exit code. Whatever was started has ended then."""
    return launch.command(algorithm, argv, parts, callback)


def parts() -> Any:
    """The processes of a run, as `training.Parts`."""
    from .actors import Sampling
    from .explorers import Exploration, Explorer
    from .replayed import Shards
    from .training import Parts

    def given(learner: Learner[Settings], slot: int) -> Exploration:
        settings = learner.settings
        sampling = Sampling.of(learner)
        return Exploration(
            sampling, settings.n_step, float(settings.gamma), settings.epsilons(slot)
        )

    shards = Shards()
    return Parts(Explorer, given, shards.learners, shards.end)
