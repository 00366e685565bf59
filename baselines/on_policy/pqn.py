"""PQN (Gallici et al., 2024): Q-learning on rollouts, without a replay buffer or target network.

The training loop is the same as PPO's (ppo.py), but the network is a Q-network with LayerNorm, and
actions are epsilon-greedy. The TD targets are the lambda-returns of the rollout (Peng and Williams,
1994), which are computed once, before the gradient steps. Run it with
`jaxenvs train ID --algo pqn`.

Deliberate differences from the paper: a truncated episode is bootstrapped with the best action
value of its final observation. Exploration and maxima over actions leave out illegal actions.
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

from ..core import forced, minibatches, rollouts
from ..core.bounds import Swept
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.rollouts import Chosen, Rollout, Runner
from ..core.settings import Exploration, Optimiser, Restarting, Scaling, SkipForced
from ..networks import q_network
from ..networks.q_network import QNetwork, RecurrentQ


@dataclasses.dataclass(frozen=True)
class Settings(SkipForced, Exploration, Restarting, Scaling):
    """Hyperparameters of PQN.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    rollout_steps: int = 32  # steps that each environment makes between two updates
    # lambda of the lambda-returns; 0: one-step TD targets, 1: Monte Carlo returns
    gae_lambda: Swept[float] = 0.65
    max_grad_norm: Swept[float] = 10.0  # gradients are clipped to this global norm
    # optimiser (the paper uses radam); only adamw and muon support weight_decay
    optimiser: Optimiser = "radam"


init = rollouts.init
network = QNetwork.of


def unroll(learner: Learner, weights: PyTree, rollout: Rollout) -> Float32[Array, "*items actions"]:
    """Return Q(s, a) of all actions for each observation of a minibatch."""
    return rollouts.predict(learner, weights, rollout.obs)


def update(
    learner: Learner[Any],
    runner: Runner,
    items: Callable[..., Any] = minibatches.as_steps,
    unroll: Callable[..., Array] = unroll,
) -> tuple[Runner, dict[str, Array]]:
    """Collect a rollout and learn from it; return the new training state and metrics.

    `items` rearranges the rollout so that its first axis indexes the items that are shuffled into
    minibatches: single steps, or sequences. `unroll` returns Q(s, a) for a minibatch.
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


def choose(
    learner: Learner[Any, QNetwork | RecurrentQ],
    runner: Any,
    key: Array,
    mask: Mask,
    epsilon: Array,
) -> Chosen:
    """Choose epsilon-greedy actions.

    The result (see `Chosen`) includes the value of the best legal action.
    """
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
    """Return the loss of a minibatch, half the mean squared error of Q(s, a), and its metrics."""
    value = q_network.of_actions(unroll(learner, weights, rollout), rollout.action)
    chex.assert_equal_shape([value, target], custom_message="value and target, [*items]")
    weight = getattr(rollout.forced, "value", ())
    loss = 0.5 * forced.weighted(jnp.square(value - target), weight).mean()
    return loss, {"q_loss": loss, "q": forced.weighted(value, weight).mean()}
