"""DAgger (Ross et al., 2011): imitation of the oracle in the states that the policy visits.

In an update, the policy acts, and the oracle labels each visited state with the first action of a
shortest plan (`jaxenvs.levels.first_actions`). The states are added to a dataset of all updates, on
which the policy is trained by cross-entropy. Environment, policy and the searches of the oracle are
one compiled program. Run DAgger with `jaxenvs train ID --algo dagger`.

Every label is proven to begin a shortest plan. A state without a proven plan has no label and no
loss, for example if the search exceeds its node budget, or if success is impossible from the state.
At first the oracle's action is taken with probability `mixture`, which falls to 0.

Deliberate differences from the paper: one policy is trained throughout, not a new one in each
iteration; a full dataset replaces its oldest rollout; the probability of the oracle's action falls
linearly. The dataset stores the recurrent state before each rollout, which later gradient steps do
not recompute.
"""

import dataclasses
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, PyTree

from jaxenvs import levels
from jaxenvs.core.masking import Mask
from jaxenvs.core.wrapper import Wrapper

from ..core import forced, minibatches, rollouts
from ..core.bounds import Bounds, Count, NonNegativeInt, Share
from ..core.learner import Learner
from ..core.rollouts import Chosen, Rollout, Runner
from ..core.settings import Activation, Common, SkipForced
from . import bc
from .data import Rows

DIVIDED = rollouts.DIVIDED
UNKNOWN = -1  # label of a state for which the oracle has no action


@dataclasses.dataclass(frozen=True)
class Settings(SkipForced, Common):
    """Hyperparameters of DAgger."""

    total_steps: Count = 100_000  # environment steps of each seed; rounded up to chunks of updates
    num_envs: Count = 32  # number of environments that step in parallel
    rollout_steps: Count = 32  # steps that each environment makes between two updates
    gamma: float = 0.99  # has no effect: DAgger learns no values
    memory: NonNegativeInt = 128  # size of the GRU's state; 0: a feed-forward network
    activation: Activation = "tanh"  # activation function of the network's hidden layers
    # number of steps that the dataset holds, over all environments
    capacity: Count = 100_000
    gradient_steps: Count = 32  # gradient steps per update
    batch_size: Count = 32  # sequences of `rollout_steps` steps per gradient step
    mixture: Share = 1.0  # initial probability that the oracle's action is taken
    # fraction of the run's updates over which the probability of the oracle's action falls to 0
    mixture_share: Annotated[float, Bounds(most=1.0, open=True)] = 0.2
    # largest number of states that a search of the oracle stores; a search labels up to 64 states
    node_budget: Count = 65_536

    def check(self) -> None:
        super().check()
        if self.capacity < self.steps_per_update:
            raise ValueError(
                f"capacity={self.capacity} is less than a rollout of {self.num_envs} x "
                f"{self.rollout_steps} steps; give at least {self.steps_per_update}"
            )

    @property
    def slots(self) -> int:
        """Number of rollouts that the dataset holds."""
        return self.capacity // self.steps_per_update


class Dataset(NamedTuple):
    """Dataset of the latest rollouts, arrays (envs, slots, ...).

    A slot holds the rollout of one environment in one update, which has `rollout_steps` steps.
    """

    obs: PyTree[Array]
    label: Array  # int32 (envs, slots, steps), action of the oracle or `UNKNOWN`
    done: Array  # bool (envs, slots, steps), whether the step ended an episode
    memory: PyTree[Array]  # recurrent state before the first step of each sequence


network = bc.network


def check(learner: Learner[Settings], seeds: int, episodes: int) -> None:
    """Raise `TypeError` if the oracle has no shortest plans for the environment."""
    env = learner.env.env
    try:
        levels.check_first_actions(env)
    except NotImplementedError as error:
        raise TypeError(
            f"dagger: {env.name} has no oracle that could label states; Grid and BabyAI have one"
        ) from error


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Return the initial training state, with an empty dataset."""
    settings, runner = learner.settings, rollouts.init(learner, key)
    envs, slots, steps = learner.env.num_envs, settings.slots, settings.rollout_steps

    def of_slots(leaf: Array, *sizes: int) -> Array:
        return jnp.zeros((envs, slots, *sizes, *leaf.shape[1:]), leaf.dtype)

    empty = Dataset(
        obs=jax.tree.map(lambda leaf: of_slots(leaf, steps), runner.obs),
        label=jnp.full((envs, slots, steps), UNKNOWN, jnp.int32),
        done=jnp.zeros((envs, slots, steps), jnp.bool_),
        memory=jax.tree.map(of_slots, runner.memory),
    )
    return runner._replace(replay_buffer=empty, updates=jnp.int32(0))


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Collect a rollout, add it to the dataset, and train; return new state and metrics."""
    memory = runner.memory
    runner, key_act, key_learn = rollouts.next_update(learner, runner)
    mixture = probability(learner.settings, runner.updates)
    runner, rollout = rollouts.collect(learner, runner, key_act, choose)
    runner = store(runner, rollout, memory)
    runner, losses = learn(learner, runner, key_learn)
    known = (rollout.label != UNKNOWN).astype(jnp.float32).mean()
    metrics = {**losses, "labelled": known, "mixture": mixture}
    return rollouts.finish_update(learner, runner, rollout, metrics)


def probability(settings: Settings, updates: Int32[Array, ""]) -> Array:
    """Return the probability of taking the oracle's action instead of the policy's action."""
    left = 1.0 - settings.progress(updates) / settings.mixture_share
    return settings.mixture * jnp.maximum(left, 0.0)


def choose(learner: Learner[Settings], runner: Runner, key: Array, mask: Mask) -> Chosen:
    """Choose the policy's action in each state, or with some probability the oracle's.

    Also return the oracle's label of each state. `probability` computes the probability. If forced
    steps are skipped, forced states have no label.
    """
    key_draw, key_mix = jax.random.split(key)
    memory, logits, _ = rollouts.think(learner, runner, mask)
    action = learner.policy.action(learner.policy.draw(key_draw, logits))
    label = labels(learner, runner.world.env)
    mixture = probability(learner.settings, runner.updates)
    mixed = jax.random.bernoulli(key_mix, mixture, label.shape) & (label != UNKNOWN)
    action = jnp.where(mixed, label, action)
    if forced.are_skipped(learner.env.env, learner.settings):
        label = jnp.where(forced.is_forced(mask), UNKNOWN, label)
    return memory, action, {"action": action, "label": label}


def labels(learner: Learner[Settings], state: Any) -> Int32[Array, " envs"]:
    """Return the oracle's action in each state, or `UNKNOWN` where no shortest plan is proven."""
    env: Any = learner.env.env
    while isinstance(env, Wrapper):
        state, env = jax.vmap(env.inner)(state), env.env
    budget = learner.settings.node_budget
    action, known = levels.first_actions(env, state, node_budget=budget)
    return jnp.where(known, action, UNKNOWN)


def store(runner: Runner, rollout: Rollout, memory: PyTree[Array]) -> Runner:
    """Write a rollout into the dataset; `memory` is the recurrent state before the rollout."""
    dataset: Dataset = runner.replay_buffer
    slot = runner.updates % dataset.label.shape[1]
    by_env = minibatches.as_sequences(
        (rollout.obs, rollout.label, rollout.terminated | rollout.truncated)
    )
    obs, label, done = by_env
    new = Dataset(obs, label, done, memory)
    dataset = jax.tree.map(lambda old, leaf: old.at[:, slot].set(leaf), dataset, new)
    return runner._replace(replay_buffer=dataset, updates=runner.updates + 1)


def learn(
    learner: Learner[Settings], runner: Runner, key: Array
) -> tuple[Runner, dict[str, Array]]:
    """Take gradient steps on sequences of the dataset; return the runner and mean losses."""
    settings, dataset = learner.settings, runner.replay_buffer
    envs, slots = dataset.label.shape[:2]
    flat = jax.tree.map(lambda leaf: leaf.reshape(envs * slots, *leaf.shape[2:]), dataset)
    size = (settings.gradient_steps, max(1, settings.batch_size // learner.devices.count))
    key_env, key_slot = jax.random.split(key)
    env = jax.random.randint(key_env, size, 0, envs)
    slot = jax.random.randint(key_slot, size, 0, jnp.minimum(runner.updates, slots))
    return minibatches.descend(learner, loss, runner, (flat,), env * slots + slot)


def loss(
    learner: Learner[Settings], weights: PyTree[Array], part: Dataset
) -> tuple[Array, dict[str, Array]]:
    """Return the mean cross-entropy of the oracle's actions, and a dict of loss and accuracy."""
    is_known = part.label != UNKNOWN
    rows = Rows(
        obs=part.obs,
        action=jnp.where(is_known, part.label, 0),
        done=part.done,
        weight=is_known.astype(jnp.float32),
        memory=part.memory,
    )
    return bc.loss(learner, weights, rows)
