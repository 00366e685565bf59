"""Ape-X (Horgan et al., 2018) on a Ray cluster: DQN with many actors and a sharded replay buffer.

Actors explore, each environment with a separate epsilon. They send n-step transitions and their TD
errors to replay shards: processes that each hold a part of the replay buffer. The learner samples
prioritised batches from all shards and returns new TD errors, from which the shards compute
priorities. Actors collect transitions while the learner learns, but are at most one update ahead of
the learner. Run Ape-X with `jaxenvs train ID --ray --algo apex`; it needs the extra `ray`.

Deliberate differences from the paper: the learner takes `gradient_steps` gradient steps after every
`rollout_steps` * `num_envs` environment steps. The replay ratio thus does not depend on the number
of processes. The learner uses Adam and, as dqn.py does, updates the target network in every
gradient step.

A resumed run is not bit-identical to an uninterrupted one, because it begins with reset
environments and empty shards.
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
from ..core.bounds import Count, NonNegative, NonNegativeInt, Rate, Share
from ..core.learner import Algorithm, Learner
from ..core.replay_buffer import Batch
from ..core.settings import SkipForced
from ..networks import q_network
from ..networks.q_network import QNetwork
from ..off_policy import dqn
from ..off_policy.q_learning import polyak
from ..run.keeping import Callback
from . import launch


@dataclasses.dataclass(frozen=True)
class Settings(SkipForced):
    """Hyperparameters of Ape-X.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    rollout_steps: int = 32  # steps of each environment between updates
    learning_rate: float = 3e-4  # initial learning rate
    max_grad_norm: float = 10.0  # gradients are clipped to this global norm
    # largest number of steps that all replay shards together hold
    capacity: NonNegativeInt = 200_000
    warm_up: Count = 10_000  # steps that the shards must hold before the first gradient step
    gradient_steps: Count = 32  # gradient steps per update
    batch_size: Count = 128  # number of transitions per gradient step
    n_step: Count = 3  # number of rewards in a TD target, before it bootstraps
    double: bool = True  # whether the online network chooses the action in TD targets
    dueling: bool = True  # whether the network has value and advantage heads
    target_rate: Rate = 0.01  # Polyak coefficient of the target network; 1 copies the weights
    priority: Share = 0.6  # exponent of the TD error in sampling probabilities; 0: uniform
    importance: Share = 0.4  # initial exponent of the importance weights; it rises to 1
    epsilon: Share = 0.4  # probability of random actions in the environment that explores most
    # exponent alpha: the environment that explores least has epsilon ** (1 + alpha)
    epsilon_power: NonNegative = 7.0
    actors: Count = 4  # number of sampling processes; each steps an equal part of the environments
    replays: Count = 1  # number of replay shards: processes that each hold a part of the buffer
    # HOST:PORT of a Ray cluster to join, or auto to join the cluster on this machine; None: start a
    # cluster on this machine.
    address: str | None = None
    patience: Count = 300  # seconds without an answer after which a process counts as dead

    mode: ClassVar[str] = "async"  # mode of training.py: actors do not wait for the newest weights
    munchausen: ClassVar[float] = 0.0  # no Munchausen bonus; dqn.py reads this constant

    @property
    def workers(self) -> int:
        """Number of a run's processes besides the main process; each occupies one CPU."""
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
        """Return the epsilon of each environment of the actor with index `slot`.

        From the first environment of the first actor to the last environment of the last actor,
        epsilon falls from `epsilon` to `epsilon` ** (1 + `epsilon_power`).
        """
        share = self.num_envs // self.actors
        place = np.arange(slot * share, (slot + 1) * share) / max(self.num_envs - 1, 1)
        return tuple(q_network.epsilon_ladder(self.epsilon, self.epsilon_power, place).tolist())


class Runner(NamedTuple):
    """Training state between updates, which checkpoints store."""

    weights: PyTree[Array]
    target: PyTree[Array]  # weights of the target network
    optimiser: PyTree[Array]  # optimiser state: Adam's moments and step counts
    updates: Int32[Array, "*seeds"]  # number of updates since the warm-up
    key: UInt32[Array, "*seeds words"]  # data of the PRNG key of the run


network = QNetwork.of


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Return the initial training state; the target network is a copy of the network."""
    weights, optimiser, key_data = launch.fresh(learner, key)
    return Runner(weights, jax.tree.map(jnp.copy, weights), optimiser, jnp.int32(0), key_data)


def update(
    learner: Learner[Settings, QNetwork], runner: Runner, batches: Batch
) -> tuple[Runner, dict[str, Array]]:
    """Take one gradient step on each batch; arrays are (gradient_steps, batch, ...).

    Also return metrics. The metric `error` holds the TD errors, (gradient_steps, batch).
    """

    def step(learned: Any, batch: Batch) -> tuple[Any, dict[str, Array]]:
        weights, target, state = learned
        goal = dqn.td_target(learner, weights, target, batch)
        gradient, losses = minibatches.gradients(learner, dqn.loss, weights, batch, goal)
        optimiser = minibatches.optimiser(learner.settings)
        weights, state = minibatches.apply_gradient(optimiser, gradient, state, weights)
        target = polyak(target, weights, learner.settings.target_rate)
        return (weights, target, state), losses

    learned = (runner.weights, runner.target, runner.optimiser)
    (weights, target, state), losses = jax.lax.scan(step, learned, batches)
    errors = losses.pop("error")
    runner = Runner(weights, target, state, runner.updates + 1, runner.key)
    return runner, jax.tree.map(jnp.mean, losses) | {"error": errors}


def check(learner: Learner[Settings], seeds: int, episodes: int) -> None:
    """Raise `ValueError` if the replay shards do not fit in this machine's memory.

    If the run joins a cluster (`address`), shards may be on other machines and are not checked.
    """
    settings, there = learner.settings, machine_memory()
    obs, mask = size_of(learner.env.observation_space), learner.env.action_space.n
    # Bytes of the numbers of a stored transition: 4 each for action, reward and discount, 8 each
    # for priority and serial number.
    numbers = 3 * 4 + 2 * 8
    need = settings.capacity * (2 * obs + mask + numbers)
    if there is not None and settings.address is None and need > there:
        raise ValueError(
            f"replay shards of capacity={settings.capacity} take {need:,} bytes, and this machine "
            f"has {there:,}; try --capacity {int(settings.capacity * there / need / 2)}"
        )


def size_of(space: Space) -> int:
    """Return the size in bytes of an observation in `space`."""
    if isinstance(space, Dict):
        return sum(map(size_of, space.spaces.values()))
    return math.prod(space.shape) * np.dtype(space.dtype).itemsize


def command(algorithm: Algorithm, argv: list[str], callback: Callback | None = None) -> int:
    """Train with the command-line arguments `argv`; return the exit code."""
    return launch.command(algorithm, argv, parts, callback)


def parts() -> Any:
    """Return the `training.Parts` of Ape-X; imports are local, as they need the extra `ray`."""
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
