"""CrossQ (Bhatt et al., 2024): SAC with batch renormalisation and without target networks.

The critics process the sampled observations and the next observations in one batch, so that both
are normalised with the same statistics (batch_renorm.py). The TD targets are computed from the
critics' own outputs for the next observations. Everything else is as in SAC (sac.py). Run it with
`jaxenvs train ID --algo crossq`.

Actor and critics keep running statistics of their layers' inputs. The actor uses its running
statistics when it acts, in training and evaluation. The critics use their running statistics in the
actor's loss. By default, the actor and the temperature are updated in every third gradient step.
"""

import dataclasses
import functools
from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from ..core import replay_checks
from ..core.bounds import Bounds, Swept
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch
from ..core.rollouts import Runner
from ..networks import batch_renorm
from ..networks.batch_renorm import STATISTICS
from . import actor_critic, actor_critic_networks, sac
from .actor_critic import Learned, Noise
from .actor_critic_networks import Actor, critic_values
from .sac import Draws


@dataclasses.dataclass(frozen=True)
class Settings(sac.Settings):
    """Hyperparameters of CrossQ.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    learning_rate: Swept[float] = 1e-3  # learning rate of actor, critics and temperature
    momentum: Annotated[float, Bounds(most=1.0, below=True)] = (
        0.5  # decay rate of the moving average of gradients
    )
    critic_hidden: tuple[int, ...] = (2048, 2048)  # widths of the critics' hidden layers
    actor_every: int = 3  # gradient steps of the critics per gradient step of the actor
    # always 1, because CrossQ has no target networks
    target_rate: Annotated[
        float, Bounds(1.0, 1.0, hint="crossq has no target network; omit it")
    ] = 1.0


check = replay_checks.check
network = functools.partial(actor_critic_networks.network, renormalised=True)


def init(learner: Learner[Settings, Actor], key: Array) -> Runner:
    """Return SAC's initial training state, with batch statistics and without target networks."""
    return sac.init(learner, key)._replace(target=())


def gradient_step(
    learner: Learner[Settings, Actor], learned: Learned, batch: Batch, draws: Draws
) -> tuple[Learned, dict[str, Array]]:
    """Take a gradient step on the critics; return the new `Learned` and metrics.

    Every `actor_every`-th call also updates the actor and the temperature.
    """
    noise = draws.next.noise
    action, log_prob = actor_critic.sample_actions(learner, learned.weights, batch.next_obs, noise)
    entropy_cost = jnp.exp(learned.temperature) * log_prob
    loss = (critic_loss, batch, action, entropy_cost, draws.key)
    learned, of_critic = actor_critic.descend(learner, learned, "critic", *loss)
    learned, of_actor = sac.update_actor(learner, learned, actor_loss, batch, draws.now)
    return learned, {**of_critic, **of_actor}


def critic_loss(
    learner: Learner[Settings, Actor],
    critic: PyTree,
    batch: Batch,
    next_action: Array,
    entropy_cost: Float32[Array, " batch"],
    key: Array | None = None,
) -> Loss:
    """Return half the mean squared TD error, summed over the critics, and metrics.

    The metrics include the critics' updated running statistics. `entropy_cost` is
    alpha log pi(a'|s') for a' = `next_action`.
    """
    both = jax.tree.map(
        lambda *parts: jnp.concatenate(parts),
        (batch.obs, batch.action),
        (batch.next_obs, next_action),
    )
    weight = jnp.concatenate([batch.weight, batch.weight])
    values, statistics = joint_values(learner, critic, weight, *both, key=key)
    value, next_value = jnp.split(values, 2, axis=1)
    target = batch.reward + batch.discount * (next_value.min(axis=0) - entropy_cost)
    errors = jnp.square(value - jax.lax.stop_gradient(target))
    loss = 0.5 * (batch.weight * errors).mean(axis=1).sum()
    return loss, {"critic_loss": loss, "q": value.mean(), STATISTICS: statistics}


def joint_values(
    learner: Learner[Settings, Actor],
    critic: PyTree,
    weight: Float32[Array, " batch"],
    obs: PyTree[Array],
    action: Array,
    key: Array | None = None,
) -> tuple[Float32[Array, "critics batch"], PyTree[Array]]:
    """Return each critic's values for a batch, and the running statistics updated by the batch."""
    network = actor_critic_networks.critic_of(learner)

    def one(critic: PyTree, rngs: dict[str, Array], weight: Array) -> tuple[Array, PyTree]:
        given = (weight, obs, action)
        return batch_renorm.trained(network, learner.devices, critic, *given, rngs=rngs)

    # Each critic gets its own copy of the importance weights. With a shared array, XLA would
    # transpose and copy the activations to multiply them by the weights.
    weights = jnp.tile(weight, (len(jax.tree.leaves(critic)[0]), 1))
    rngs = actor_critic_networks.dropout_keys(learner, critic, key)
    values, statistics = jax.vmap(one)(critic, rngs, weights)
    return values[..., 0], statistics


def actor_loss(
    learner: Learner[Settings, Actor], weights: PyTree, learned: Learned, batch: Batch, noise: Noise
) -> Loss:
    """Return SAC's actor loss, and metrics that include the actor's updated running statistics."""
    given = (learner.devices, weights, batch.weight, batch.obs)
    outputs, statistics = batch_renorm.trained(learner.network, *given)
    action, log_prob = actor_critic.actions_and_log_probs(learner, outputs, noise.noise)
    seen = (learned.critic, batch.obs, action)
    value = critic_values(learner, *seen, key=noise.key)[..., 0]
    loss, losses = sac.soft_loss(learned, batch, value.min(axis=0), log_prob)
    return loss, {**losses, STATISTICS: statistics}


update = functools.partial(actor_critic.update, actor_critic.sample_policy, sac.draw, gradient_step)
