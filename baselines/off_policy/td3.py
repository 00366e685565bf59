"""TD3 (Fujimoto et al., 2018): a deterministic actor and two critics, with a replay buffer.

Exploration adds noise to the actions, and TD targets add clipped noise to the target actor's
actions (target policy smoothing). In every `actor_every`-th gradient step, the actor is updated to
maximise the first critic, and the target networks move (delayed updates). Run it with
`jaxenvs train ID --algo td3`.

Deliberate differences from the paper: a truncated episode is bootstrapped from its final
observation; when a trained policy samples actions instead of taking the greedy ones, it adds noise
of standard deviation 0.001 before tanh.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from ..core import replay_checks, rollouts
from ..core.bounds import NonNegative, Swept, Unlimited
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch
from ..core.rollouts import Runner
from . import actor_critic, actor_critic_networks
from .actor_critic import Learned, Noise
from .actor_critic_networks import Actor, critic_values


@dataclasses.dataclass(frozen=True)
class Settings(actor_critic.Replaying):
    """Hyperparameters of TD3.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    learning_rate: Swept[float] = 1e-3  # learning rate of actor and critics
    # standard deviation of the exploration noise, in units of half the action range
    noise: Swept[NonNegative] = 0.1
    # standard deviation of the noise of actions in TD targets, in units of half the action range
    target_noise: Swept[NonNegative] = 0.2
    # limit to which the noise in TD targets is clipped, in units of half the action range
    target_noise_limit: Swept[Unlimited] = 0.5
    actor_every: int = 2  # gradient steps of the critics per gradient step of the actor


class Draws(NamedTuple):
    """Random numbers of one gradient step."""

    next: Noise  # random numbers for the TD target's actions, at the next observations
    key: Array  # random key for dropout in the losses


check = replay_checks.check
network = functools.partial(actor_critic_networks.network, has_chance=False)


def init(learner: Learner[Settings, Actor], key: Array) -> Runner:
    """Return the initial training state, with target networks for the actor and the critics.

    Each target network starts with the weights of its online network.
    """
    runner = actor_critic.begin(learner, key)
    target = {"weights": jax.tree.map(jnp.copy, runner.weights), "critic": runner.target}
    return runner._replace(target=target)


def explore(learner: Learner[Settings, Actor], outputs: Array, noise: Array) -> Array:
    """Return actions for exploration: the actor's actions plus exploration noise."""
    policy: Any = learner.policy
    return noisy(learner, policy.action(policy.best(outputs)), noise, learner.settings.noise)


def noisy(
    learner: Learner[Settings, Actor],
    action: Array,
    noise: Float32[Array, "batch numbers"],
    scale: float | Float32[Array, ""],
    limit: float | Float32[Array, ""] = jnp.inf,
) -> Array:
    """Add noise to actions, and clip the actions to the bounds of the action space.

    The added noise is `scale` * `noise` (standard normal), clipped to [-`limit`, `limit`]. `scale`
    and `limit` are in units of half the action range.
    """
    policy: Any = learner.policy
    noise = jnp.clip(scale * noise.reshape(action.shape), -limit, limit)
    moved = action + policy.half.reshape(policy.space.shape) * noise
    return jnp.clip(moved, policy.space.low, policy.space.high)


def draw(learner: Learner[Settings, Actor], key: Array) -> Draws:
    """Draw the random numbers of a gradient step."""
    key_now = jax.random.fold_in(key, actor_critic_networks.DROPOUT + 1)
    return Draws(actor_critic.draw_noise(learner, key), key_now)


def gradient_step(
    learner: Learner[Settings, Actor], learned: Learned, batch: Batch, draws: Draws
) -> tuple[Learned, dict[str, Array]]:
    """Take a gradient step on the critics; return the new `Learned` and metrics.

    Every `actor_every`-th call also updates the actor and the target networks.
    """
    target = td_target(learner, learned, batch, draws.next)
    step = functools.partial(actor_critic.descend, learner)
    loss = (actor_critic.critic_loss, batch, target, draws.key)
    learned, of_critic = step(learned, "critic", *loss)

    def update_actor(learned: Learned) -> tuple[Learned, dict[str, Array]]:
        learned, losses = step(learned, "weights", actor_loss, learned, batch, draws.key)
        online = {"weights": learned.weights, "critic": learned.critic}
        target_weights = actor_critic.polyak(learner, learned.target, online)
        return learned._replace(target=target_weights), losses

    learned, of_actor = actor_critic.delayed(learner, learned, update_actor)
    return learned, {**of_critic, **of_actor}


def td_target(
    learner: Learner[Settings, Actor], learned: Learned, batch: Batch, noise: Noise
) -> Float32[Array, " batch"]:
    """Return r + gamma min_i Q_i(s', a'), where a' is the target actor's action plus noise."""
    settings, target = learner.settings, learned.target
    action = best_action(learner, target["weights"], batch.next_obs)
    limits = (settings.target_noise, settings.target_noise_limit)
    action = noisy(learner, action, noise.noise, *limits)
    given = (target["critic"], batch.next_obs, action)
    value = critic_values(learner, *given, key=noise.key)[..., 0]
    return batch.reward + batch.discount * value.min(axis=0)


def best_action(
    learner: Learner[Settings, Actor], weights: PyTree[Array], obs: PyTree[Array]
) -> Array:
    """Return the actor's actions for a batch of observations, without noise."""
    policy: Any = learner.policy
    return policy.action(policy.best(rollouts.predict(learner, weights, obs)))


def actor_loss(
    learner: Learner[Settings, Actor], weights: PyTree, learned: Learned, batch: Batch, key: Array
) -> Loss:
    """Return the mean of -Q_1(s, a), where a is the actor's action and Q_1 the first critic."""
    action = best_action(learner, weights, batch.obs)
    first = jax.tree.map(lambda leaf: leaf[:1], learned.critic)
    value = critic_values(learner, first, batch.obs, action, key=key)[0, :, 0]
    loss = -(batch.weight * value).mean()
    return loss, {"actor_loss": loss}


update = functools.partial(actor_critic.update, explore, draw, gradient_step)
