"""TD3 (Fujimoto et al., 2018): an actor without chance, and two critics, from a replay buffer.

Run it with `jaxenvs train ID --algo td3`. Noise is added to the actions in acting, cut noise to
those of the targets; the actor learns in every `actor_every`-th gradient step, by the first critic,
and the slow copies follow then. Deliberate differences: an episode cut by the time limit is
bootstrapped with its true successor, and a trained policy's actions keep a spread of a thousandth,
before tanh.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from ..core import replay_checks, rollouts
from ..core.bounds import Unlimited
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch
from . import actor_critic
from .actor_critic import Chance, Learned, Runner


@dataclasses.dataclass(frozen=True)
class Settings(actor_critic.Replaying):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    learning_rate: float = 1e-3  # of actor and critics
    noise: float = 0.1  # deviation of what is added to actions in acting, in half their range
    target_noise: float = 0.2  # the same in the targets
    target_noise_limit: Unlimited = 0.5  # where that noise is cut off
    actor_every: int = 2  # gradient steps of the critics for one of the actor

    swept = (*actor_critic.Replaying.swept, "noise", "target_noise", "target_noise_limit")


class Draws(NamedTuple):
    """What a gradient step draws, before it is its turn."""

    next: Chance  # of what follows
    key: Array  # of what the critics' layers drop in the losses


DIVIDED = actor_critic.DIVIDED
check = replay_checks.check
network = functools.partial(actor_critic.network, has_chance=False)


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights and slow copies of actor and critics, an empty replay buffer and worlds."""
    runner = actor_critic.begin(learner, key)
    slow = {"weights": jax.tree.map(jnp.copy, runner.weights), "critic": runner.target}
    return runner._replace(target=slow)


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Act and learn in turns; also return the metrics of this update."""
    return actor_critic.rounds(learner, runner, explore, draw, gradient_step)


def explore(learner: Learner[Settings], outputs: Array, noise: Array) -> Array:
    """The actor's actions with noise."""
    policy: Any = learner.policy
    return noisy(learner, policy.action(policy.best(outputs)), noise, learner.settings.noise)


def noisy(
    learner: Learner[Settings],
    action: Array,
    noise: Float32[Array, "batch numbers"],
    spread: float | Float32[Array, ""],
    limit: float | Float32[Array, ""] = jnp.inf,
) -> Array:
    """Actions with noise of this spread, in half their range, and within their bounds."""
    policy: Any = learner.policy
    noise = jnp.clip(spread * noise.reshape(action.shape), -limit, limit)
    moved = action + policy.half.reshape(policy.space.shape) * noise
    return jnp.clip(moved, policy.space.low, policy.space.high)


def draw(learner: Learner[Settings], key: Array) -> Draws:
    """Draw for a gradient step."""
    key_now = jax.random.fold_in(key, actor_critic.APART + 1)
    return Draws(actor_critic.chance(learner, key), key_now)


def gradient_step(
    learner: Learner[Settings], learned: Learned, batch: Batch, draws: Draws
) -> tuple[Learned, dict[str, Array]]:
    """Improve the critics; in some of the steps the actor too, and the slow copies follow."""
    goal = worth(learner, learned, batch, draws.next)
    step = functools.partial(actor_critic.descended, learner)
    loss = (actor_critic.squared_errors, batch, goal, draws.key)
    learned, of_critic = step(learned, "critic", *loss)

    def act(learned: Learned) -> tuple[Learned, dict[str, Array]]:
        learned, told = step(learned, "weights", actor_loss, learned, batch, draws.key)
        fast = {"weights": learned.weights, "critic": learned.critic}
        return learned._replace(target=actor_critic.followed(learner, learned.target, fast)), told

    learned, of_actor = actor_critic.in_turn(learner, learned, act)
    return learned, {**of_critic, **of_actor}


def worth(
    learner: Learner[Settings], learned: Learned, batch: Batch, chance: Chance
) -> Float32[Array, " batch"]:
    """What the sampled actions should have been worth: the least critic, near the slow actor."""
    settings, slow = learner.settings, learned.target
    action = best(learner, slow["weights"], batch.next_obs)
    limits = (settings.target_noise, settings.target_noise_limit)
    action = noisy(learner, action, chance.noise, *limits)
    seen = (slow["critic"], batch.next_obs, action)
    value = actor_critic.values(learner, *seen, key=chance.key)[..., 0]
    return batch.reward + batch.discount * value.min(axis=0)


def best(learner: Learner[Settings], weights: PyTree[Array], obs: PyTree[Array]) -> Array:
    """The actor's actions."""
    policy: Any = learner.policy
    return policy.action(policy.best(rollouts.predict(learner, weights, obs)))


def actor_loss(
    learner: Learner[Settings], weights: PyTree, learned: Learned, batch: Batch, key: Array
) -> Loss:
    """Minus what the first critic says of the actor's actions."""
    action = best(learner, weights, batch.obs)
    first = jax.tree.map(lambda leaf: leaf[:1], learned.critic)
    value = actor_critic.values(learner, first, batch.obs, action, key=key)[0, :, 0]
    loss = -(batch.weight * value).mean()
    return loss, {"actor_loss": loss}
