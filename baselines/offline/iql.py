"""Implicit Q-learning (Kostrikov et al., 2021) for discrete actions: offline RL from a dataset.

The value V(s) is an expectile of Q(s, a) over the dataset's actions. Two Q-networks are fitted to
r + gamma V(s'). The policy is fitted to the dataset's actions, weighted by their advantage. Thus no
target depends on the Q-value of an action outside of the dataset. Run it with
`jaxenvs train ID --algo iql --demos NAME`; `jaxenvs demos` records datasets.

Deliberate differences from the paper: actions are discrete; the three losses are minimised in one
gradient step, from the same weights; the Q-networks have LayerNorm. A truncated episode is
bootstrapped with the value of its last observation. Masks of illegal actions are applied in
evaluation only, because datasets have none.
"""

import dataclasses
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, PyTree

from jaxenvs import Env

from ..core import minibatches, rollouts
from ..core.bounds import NonNegative, Positive, Rate, Share, Swept, Unlimited
from ..core.learner import Learner
from ..networks.policies import ActorCritic, Separate
from ..networks.q_network import QNetwork, of_actions
from ..off_policy.q_learning import polyak
from . import data
from .data import Transitions

Runner = rollouts.Runner
DIVIDED = rollouts.DIVIDED
LOSSES = ("value_loss", "q_loss", "policy_loss")


@dataclasses.dataclass(frozen=True)
class Settings(data.Offline):
    """Hyperparameters of implicit Q-learning."""

    learning_rate: Swept[NonNegative] = 3e-4  # initial learning rate
    max_grad_norm: Swept[Unlimited] = float("inf")  # gradients are clipped to this global norm
    gamma: Swept[Share] = 0.99  # discount factor
    expectile: Swept[Share] = 0.7  # expectile tau of the value; 0.5: the mean, 1: the maximum
    temperature: Swept[NonNegative] = 3.0  # inverse temperature beta of the advantage's weight
    largest_weight: Swept[Positive] = 100.0  # upper bound of the weight exp(beta * advantage)
    target_rate: Rate = 0.005  # Polyak coefficient of the target networks


check = data.check


def network(env: Env, **given: Any) -> Separate:
    """Return separate networks: the actor is the policy, and the critic is the value network."""
    return Separate(ActorCritic.of(env, **given))


def critic(learner: Learner[Settings]) -> QNetwork:
    """Return the network of a critic; both critics have this network, with different weights."""
    settings = learner.settings
    given = {"conv": tuple(settings.conv), "lines": settings.lines, "bfloat16": settings.bfloat16}
    return QNetwork.of(learner.env.env, settings.hidden, settings.embed, **given)


def params(learner: Learner[Settings]) -> Transitions:
    """Return the dataset, whose arrays are arguments of the compiled program, not constants."""
    return data.transitions(learner.settings.demos, learner.env.env)


def init(learner: Learner[Settings], key: Array, given: Transitions) -> Runner:
    """Return the initial training state."""
    key_weights, key_critics, key_rest = jax.random.split(key, 3)
    obs = jax.tree.map(lambda leaf: leaf[0], given.obs)
    weights = learner.network.init(key_weights, obs)
    critics = [critic(learner).init(each, obs) for each in jax.random.split(key_critics)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *critics)
    chain = minibatches.optimiser(learner.settings, stacked="critic")
    return Runner(
        weights=weights,
        critic=stacked,
        target=jax.tree.map(jnp.copy, stacked),
        optimiser=chain.init({"policy": weights, "critic": stacked}),
        key=jax.random.key_data(key_rest),
    )


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Take the gradient steps of an update; return the new training state and metrics."""
    settings = learner.settings
    key, key_steps = jax.random.split(jax.random.wrap_key_data(runner.key))
    chain = minibatches.optimiser(settings, stacked="critic")

    def step(carry: Any, index: Array) -> tuple[Any, dict[str, Array]]:
        weights, target, state = carry
        given = (target, sampled(runner.params, index))
        gradient, losses = minibatches.gradients(learner, loss, weights, *given)
        weights, state = minibatches.apply_gradient(chain, gradient, state, weights)
        target = polyak(target, weights["critic"], settings.target_rate)
        return (weights, target, state), losses

    size = settings.batch_size // learner.devices.count
    indices = jax.random.randint(
        learner.devices.local_key(key_steps),
        (settings.gradient_steps, size),
        0,
        len(runner.params.reward),
    )
    weights = {"policy": runner.weights, "critic": runner.critic}
    carry, losses = jax.lax.scan(step, (weights, runner.target, runner.optimiser), indices)
    weights, target, state = carry
    runner = runner._replace(
        weights=weights["policy"],
        critic=weights["critic"],
        target=target,
        optimiser=state,
        key=jax.random.key_data(key),
    )
    return runner, {**data.no_episodes(), **jax.tree.map(jnp.mean, losses)}


class Batch(NamedTuple):
    """Sampled transitions, arrays (batch, ...)."""

    obs: PyTree[Array]
    next_obs: PyTree[Array]
    action: Array  # int32 (batch,)
    reward: Array  # float32 (batch,)
    terminated: Array  # bool (batch,)


def sampled(given: Transitions, index: Int32[Array, " batch"]) -> Batch:
    """Return the transitions with the given indices."""

    def at(leaf: Array, index: Array) -> Array:
        return minibatches.take(leaf, index)

    before = at(given.index, index)
    return Batch(
        obs=jax.tree.map(lambda leaf: at(leaf, before), given.obs),
        next_obs=jax.tree.map(lambda leaf: at(leaf, before + 1), given.obs),
        action=at(given.action, index),
        reward=at(given.reward, index),
        terminated=at(given.terminated, index),
    )


def loss(
    learner: Learner[Settings], weights: PyTree[Array], target: PyTree[Array], batch: Batch
) -> tuple[Array, dict[str, Array]]:
    """Return the sum of three losses (value, critics, policy), and a dict of metrics.

    The dict has each loss, the mean value, the mean Q-value, and the mean weight of the policy
    loss.
    """
    settings, policy = learner.settings, learner.network
    over_batch = jax.vmap(policy.apply, in_axes=(None, 0))
    logits, value = over_batch(weights["policy"], batch.obs)
    _, next_value = over_batch(weights["policy"], batch.next_obs)
    least = q_values(learner, target, batch).min(axis=0)
    values = q_values(learner, weights["critic"], batch)
    going = 1.0 - batch.terminated.astype(jnp.float32)
    td_target = batch.reward + settings.gamma * going * jax.lax.stop_gradient(next_value)
    advantage = jax.lax.stop_gradient(least - value)
    weight = jnp.minimum(jnp.exp(settings.temperature * advantage), settings.largest_weight)
    log_prob = of_actions(jax.nn.log_softmax(logits), batch.action)
    chex.assert_equal_shape(
        [value, next_value, least, td_target, log_prob, weight],
        custom_message="a number for each transition, [batch]",
    )
    losses = {
        "value_loss": expectile_loss(least - value, settings.expectile).mean(),
        "q_loss": jnp.square(values - td_target).mean(axis=1).sum(),
        "policy_loss": -(weight * log_prob).mean(),
    }
    logged = {"value": value.mean(), "q": least.mean(), "weight": weight.mean()}
    return sum(losses.values(), jnp.float32(0)), {**losses, **logged}


def q_values(
    learner: Learner[Settings], critics: PyTree[Array], batch: Batch
) -> Float32[Array, "2 batch"]:
    """Return the Q-value that each critic predicts for each action in the batch."""
    one = jax.vmap(critic(learner).apply, in_axes=(None, 0))
    values: Any = jax.vmap(one, in_axes=(0, None))(critics, batch.obs)
    return jax.vmap(of_actions, in_axes=(0, None))(values, batch.action)


def expectile_loss(error: Float32[Array, " batch"], expectile: Any) -> Float32[Array, " batch"]:
    """Return weighted squared errors; positive errors have weight `expectile`.

    Negative errors have weight 1 - `expectile`. An error is a target minus a predicted value. The
    mean loss is smallest if the value is the expectile of the targets.
    """
    return jnp.where(error > 0, expectile, 1.0 - expectile) * jnp.square(error)


def shown(settings: Settings, record: dict[str, Any]) -> str:
    """Return the text of the progress line: the losses, averaged over the seeds."""
    return data.numbers(record, LOSSES)
