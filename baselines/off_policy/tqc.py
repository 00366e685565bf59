"""TQC (Kuznetsov et al., 2020): SAC with quantile critics whose highest quantiles are dropped.

The TD target pools the quantiles of all critics and drops the highest of them: `dropped` quantiles
per critic. Dropping limits overestimation, and can be tuned more finely than SAC's minimum over
critics. The actor maximises the mean of all quantiles. Everything else is as in SAC (sac.py). Run
it with `jaxenvs train ID --algo tqc`.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from ..core import replay_checks
from ..core.bounds import Count, NonNegativeInt
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch
from ..core.rollouts import Runner
from . import actor_critic, actor_critic_networks, sac
from .actor_critic import Learned, Noise
from .actor_critic_networks import Actor, critic_values
from .qr_dqn import midpoints, quantile_huber


@dataclasses.dataclass(frozen=True)
class Settings(sac.Settings):
    """Hyperparameters of TQC.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    quantiles: Count = 25  # number of quantiles of each critic
    # number of the highest quantiles that the TD target drops, for each critic
    dropped: NonNegativeInt = 2

    def check(self) -> None:
        super().check()
        if self.dropped >= self.quantiles:
            raise ValueError(
                f"dropped={self.dropped} of quantiles={self.quantiles} leaves none; give less"
            )


check = replay_checks.check
network = actor_critic_networks.network


def init(learner: Learner[Settings, Actor], key: Array) -> Runner:
    """Return SAC's initial training state, but with critics of `quantiles` outputs each."""
    return sac.init(learner, key, learner.settings.quantiles)


class Target(NamedTuple):
    """TD targets: the pooled quantiles of all critics, with weights for the loss."""

    value: Float32[Array, "batch quantiles"]  # quantiles of the return; 0 where dropped
    share: Float32[Array, "batch quantiles"]  # weights of the quantiles, 1 on average; 0: dropped


def td_target(
    learner: Learner[Settings, Actor], learned: Learned, batch: Batch, noise: Noise
) -> Target:
    """Return the TD targets of a batch: one for each quantile z of each critic.

    A target is r + gamma (z - alpha log pi(a'|s')), where the actor samples a' at the next
    observation s'. The highest targets get weight 0, see `truncate`.
    """
    settings = learner.settings
    action, log_prob = actor_critic.sample_actions(
        learner, learned.weights, batch.next_obs, noise.noise
    )
    given = (learned.target, batch.next_obs, action, settings.quantiles)
    quantiles = critic_values(learner, *given, noise.key)
    soft = quantiles - jnp.exp(learned.temperature) * log_prob[:, None]
    return truncate(batch.reward[:, None] + batch.discount[:, None] * soft, settings.dropped)


def truncate(quantiles: Float32[Array, "critics batch quantiles"], dropped: int) -> Target:
    """Pool the quantiles of all critics, and give weight 0 to the highest ones.

    The highest ones are `dropped` quantiles for each critic. They are selected with `top_k`,
    because sorting would take a third of a gradient step's time on a CPU.
    """
    critics, batch, count = quantiles.shape
    pool = quantiles.swapaxes(0, 1).reshape(batch, critics * count)
    _, highest = jax.lax.top_k(pool, critics * dropped)
    # Scatter zeros into the arrays instead of multiplying them by a mask. XLA would fuse the
    # computation of a mask into the loss, and repeat it for each pair of quantiles.
    left_out = jnp.arange(batch, dtype=jnp.int32)[:, None], highest
    share = jnp.full_like(pool, count / (count - dropped)).at[left_out].set(0.0)
    return Target(pool.at[left_out].set(0.0), share)


def critic_loss(
    learner: Learner[Settings, Actor],
    critic: PyTree,
    batch: Batch,
    target: Target,
    key: Array | None = None,
) -> Loss:
    """Return the mean quantile Huber loss, summed over the critics, and its metrics."""
    count = learner.settings.quantiles
    quantiles = critic_values(learner, critic, batch.obs, batch.action, count, key)
    errors = jax.vmap(quantile_errors, in_axes=(0, None))(quantiles, target)
    loss = (batch.weight * errors).mean(axis=1).sum()
    return loss, {"critic_loss": loss, "q": quantiles.mean()}


def quantile_errors(
    quantiles: Float32[Array, "batch quantiles"], target: Target
) -> Float32[Array, " batch"]:
    """Return the quantile Huber loss of one critic (Dabney et al., 2018) for each item of a batch.

    The loss is averaged over the critic's quantiles and over the targets.
    """
    count = quantiles.shape[-1]
    return quantile_huber(quantiles, midpoints(count), target.value, 1.0, target.share) / count


def actor_loss(
    learner: Learner[Settings, Actor], weights: PyTree, learned: Learned, batch: Batch, noise: Noise
) -> Loss:
    """Return the mean of alpha log pi(a|s) minus the mean of all quantiles of Q(s, a)."""
    action, log_prob = actor_critic.sample_actions(learner, weights, batch.obs, noise.noise)
    given = (learned.critic, batch.obs, action, learner.settings.quantiles)
    quantiles = critic_values(learner, *given, noise.key)
    return sac.soft_loss(learned, batch, quantiles.mean(axis=(0, 2)), log_prob)


gradient_step = functools.partial(
    sac.soft_update, sac.Objective(td_target, critic_loss, actor_loss)
)
update = functools.partial(actor_critic.update, actor_critic.sample_policy, sac.draw, gradient_step)
