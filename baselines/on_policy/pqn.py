"""PQN (Gallici et al., 2024): Q-learning from rollouts, without a buffer or a target network.

Run it with `jaxenvs train ID --algo pqn`. It is PPO's loop (ppo.py) around a network with LayerNorm
whose actions are epsilon-greedy; targets are the lambda-returns of the rollout (Peng and Williams,
1994), computed once before its gradient steps, so that no gradient enters them. Deliberate
difference: an episode cut by the time limit is bootstrapped with the best value of its true
successor. Where the environment forbids actions, they are neither explored nor counted among those
that might be the best.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from jaxenvs.core.masking import Mask, legal

from ..core import minibatches, rollouts
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.rollouts import Chosen, Rollout, Runner
from ..core.settings import Exploring, Optimiser, Scaled
from ..networks import q_network
from ..networks.q_network import QNetwork


@dataclasses.dataclass(frozen=True)
class Settings(Exploring, Scaled):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    rollout_steps: int = 32  # steps of each environment between updates
    gae_lambda: float = 0.65  # how far targets look ahead: 0 one step, 1 the whole episode
    max_grad_norm: float = 10.0  # global norm of the gradient, at most
    optimiser: Optimiser = "radam"  # with a clipped gradient; weight_decay is for adamw and muon

    swept = (*Scaled.swept, "epsilon_start", "epsilon_end", "epsilon_share")


DIVIDED = rollouts.DIVIDED
network = QNetwork.of


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights, worlds and the key for all that follows."""
    return Runner(**rollouts.begin(learner, key))


def unroll(learner: Learner, weights: PyTree, rollout: Rollout) -> Float32[Array, "*items actions"]:
    """Values of all actions, by these weights, in what a minibatch of the rollout saw."""
    return rollouts.predict(learner, weights, rollout.obs)


def update(
    learner: Learner[Any],
    runner: Runner,
    items: Callable[..., Any] = minibatches.as_steps,
    unroll: Callable[..., Array] = unroll,
) -> tuple[Runner, dict[str, Array]]:
    """Collect a rollout and learn from it; also return the metrics of this update.

    `items` makes the items that minibatches are drawn from; `unroll` values their actions.
    """
    settings, memory = learner.settings, runner.memory
    epsilon = settings.epsilon(settings.updates_of(minibatches.step_count(runner.optimiser)))
    runner, key_act, key_learn = rollouts.next_update(learner, runner)
    explore = functools.partial(choose, epsilon=epsilon)
    runner, rollout = rollouts.collect(learner, runner, key_act, explore)
    rollout = rollout._replace(memory=jax.tree.map(lambda leaf: leaf[None], memory))
    batch = items((rollout, rollouts.lambda_returns(learner, runner, rollout)))
    orders = minibatches.shuffled_items(settings, batch, key_learn)
    of_batch = functools.partial(loss, unroll=unroll)
    runner, losses = minibatches.descend(learner, of_batch, runner, batch, orders)
    return rollouts.finish_update(learner, runner, rollout, {**losses, "epsilon": epsilon})


def choose(learner: Learner, runner: Any, key: Array, mask: Mask, epsilon: Array) -> Chosen:
    """Explore; the values of a rollout are those of the best legal actions."""
    over_batch = jax.vmap(learner.network.values, in_axes=(None, 0, 0))
    memory, values = over_batch(runner.weights, runner.memory, runner.obs)
    values = legal(values, mask)
    action = q_network.explore(key, values, epsilon, mask)
    return memory, action, {"action": action, "value": values.max(axis=-1)}


def loss(
    learner: Learner,
    weights: PyTree,
    rollout: Rollout,
    target: Array,
    unroll: Callable[..., Array] = unroll,
) -> Loss:
    """Squared error of the values of the actions of a minibatch."""
    value = q_network.of_actions(unroll(learner, weights, rollout), rollout.action)
    chex.assert_equal_shape([value, target], custom_message="value and target, [*items]")
    loss = 0.5 * jnp.square(value - target).mean()
    return loss, {"q_loss": loss, "q": value.mean()}
