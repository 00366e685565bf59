"""SAC (Haarnoja et al., 2018): an actor that maximises reward and entropy, and two critics.

The critics learn soft Q(s, a) by regression on TD targets from a replay buffer, and the actor
maximises min_i Q_i(s, a) - alpha log pi(a|s). The temperature alpha is learned: it rises while the
policy's entropy is below the target entropy, which is -`negentropy` per action dimension. Run it
with `jaxenvs train ID --algo sac`. Environments, agent and gradient steps are one compiled program.

With `--layer-norm --dropout 0.01 --replays 20 --actor-every 20` the learner is DroQ (Hiraoka et
al., 2022), except that the actor maximises the minimum of the critics, not their mean. Deliberate
difference from the paper: a truncated episode is bootstrapped from its final observation.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from ..core import replay_checks
from ..core.bounds import Bounds, Positive, Swept
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch
from ..core.rollouts import Runner
from . import actor_critic, actor_critic_networks
from .actor_critic import Learned, Noise
from .actor_critic_networks import Actor, critic_values

MAX_ENTROPY = math.log(2.0)  # largest entropy of actions in [-1, 1], in nats per dimension
ENTROPY_HINT = f"the entropy of a policy is at most {MAX_ENTROPY:.3f} nats per action dimension"


@dataclasses.dataclass(frozen=True)
class Settings(actor_critic.Replaying):
    """Hyperparameters of SAC.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    temperature: Positive = 1.0  # initial entropy coefficient alpha
    learn_temperature: bool = True  # whether alpha is learned
    # negative of the target entropy, in nats per action dimension, for actions in [-1, 1]
    negentropy: Swept[Annotated[float, Bounds(-MAX_ENTROPY, open=True, hint=ENTROPY_HINT)]] = 1.0


class Draws(NamedTuple):
    """Random numbers of one gradient step."""

    key: Array  # random key for dropout in the critics' loss
    next: Noise  # random numbers for the TD target's actions, at the next observations
    now: Noise  # random numbers for the actions in the actor's loss, at the batch's observations


class Objective(NamedTuple):
    """TD target and losses of a learner: the functions that differ between SAC and TQC."""

    # Function (learner, learned, batch, noise) -> TD targets of the critics.
    td_target: Callable[..., Any]
    # Function (learner, weights of the critics, batch, TD targets, key) -> loss of the critics, and
    # metrics.
    critic_loss: Callable[..., Loss]
    # Function (learner, weights of the actor, learned, batch, noise) -> loss of the actor, and
    # metrics.
    actor_loss: Callable[..., Loss]


check = replay_checks.check
network = actor_critic_networks.network


def init(learner: Learner[Any, Actor], key: Array, values: int = 1) -> Runner:
    """Return the initial training state; each critic has `values` outputs."""
    return actor_critic.begin(learner, key, values, jnp.log(learner.settings.temperature))


def draw(learner: Learner[Any, Actor], key: Array) -> Draws:
    """Draw the random numbers of a gradient step."""
    return Draws(key, *(actor_critic.draw_noise(learner, each) for each in jax.random.split(key)))


def soft_update(
    objective: Objective, learner: Learner[Any, Actor], learned: Learned, batch: Batch, draws: Draws
) -> tuple[Learned, dict[str, Array]]:
    """Take one gradient step: update critics, actor, temperature and target networks.

    Return the new `Learned` and metrics.
    """
    target = objective.td_target(learner, learned, batch, draws.next)
    loss = (objective.critic_loss, batch, target, draws.key)
    learned, of_critic = actor_critic.descend(learner, learned, "critic", *loss)
    learned, of_actor = update_actor(learner, learned, objective.actor_loss, batch, draws.now)
    target_weights = actor_critic.polyak(learner, learned.target, learned.critic)
    return learned._replace(target=target_weights), {**of_critic, **of_actor}


def update_actor(
    learner: Learner[Any, Actor],
    learned: Learned,
    loss: Callable[..., Loss],
    batch: Batch,
    noise: Noise,
) -> tuple[Learned, dict[str, Array]]:
    """Update actor and temperature in every `actor_every`-th gradient step of the critics.

    `loss` is the actor's loss function, see `Objective.actor_loss`.
    """
    step = functools.partial(actor_critic.descend, learner)

    def both(learned: Learned) -> tuple[Learned, dict[str, Array]]:
        learned, losses = step(learned, "weights", loss, learned, batch, noise)
        if learner.settings.learn_temperature:
            learned, _ = step(learned, "temperature", temperature_loss, losses["entropy"])
        return learned, losses

    return actor_critic.delayed(learner, learned, both)


def td_target(
    learner: Learner[Settings, Actor], learned: Learned, batch: Batch, noise: Noise
) -> Float32[Array, " batch"]:
    """Return r + gamma (min_i Q_i(s', a') - alpha log pi(a'|s')) with a' sampled from pi."""
    action, log_prob = actor_critic.sample_actions(
        learner, learned.weights, batch.next_obs, noise.noise
    )
    given = (learned.target, batch.next_obs, action)
    value = critic_values(learner, *given, key=noise.key)[..., 0]
    soft = value.min(axis=0) - jnp.exp(learned.temperature) * log_prob
    return batch.reward + batch.discount * soft


def actor_loss(
    learner: Learner[Settings, Actor], weights: PyTree, learned: Learned, batch: Batch, noise: Noise
) -> Loss:
    """Return the mean of alpha log pi(a|s) - min_i Q_i(s, a) with a sampled from pi."""
    action, log_prob = actor_critic.sample_actions(learner, weights, batch.obs, noise.noise)
    given = (learned.critic, batch.obs, action)
    value = critic_values(learner, *given, key=noise.key)[..., 0]
    return soft_loss(learned, batch, value.min(axis=0), log_prob)


def soft_loss(
    learned: Learned,
    batch: Batch,
    value: Float32[Array, " batch"],
    log_prob: Float32[Array, " batch"],
) -> Loss:
    """Return the actor's loss, the mean of alpha log pi(a|s) - Q(s, a), and metrics.

    `value` and `log_prob` are Q(s, a) and log pi(a|s) of the actions that the actor sampled.
    """
    temperature = jnp.exp(learned.temperature)
    loss = (batch.weight * (temperature * log_prob - value)).mean()
    entropy = -(batch.weight * log_prob).sum() / jnp.maximum(batch.weight.sum(), 1.0)
    return loss, {"actor_loss": loss, "entropy": entropy}


def temperature_loss(learner: Learner[Settings, Actor], temperature: Any, entropy: Array) -> Loss:
    """Return the loss of `temperature`, which is log alpha.

    The gradient of the loss is the entropy minus the target entropy.
    """
    policy: Any = learner.policy
    return temperature * (entropy + policy.numbers * learner.settings.negentropy), {}


gradient_step = functools.partial(
    soft_update, Objective(td_target, actor_critic.critic_loss, actor_loss)
)
update = functools.partial(actor_critic.update, actor_critic.sample_policy, draw, gradient_step)
