"""TQC (Kuznetsov et al., 2020): SAC whose critics say quantiles, the highest of which are dropped.

Run it with `jaxenvs train ID --algo tqc`. A target is made of all critics' quantiles together
without the `dropped` highest of each, which holds back overestimation more finely than the least of
the critics does; the actor follows the mean of all quantiles. All else is as in sac.py.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from ..core import replay_checks
from ..core.bounds import Count
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch
from . import actor_critic, sac
from .actor_critic import Chance, Learned, Runner
from .qr_dqn import quantile_huber
from .sac import Draws


@dataclasses.dataclass(frozen=True)
class Settings(sac.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    quantiles: Count = 25  # that each critic says
    dropped: int = 2  # highest quantiles of each critic that a target leaves out

    def check(self) -> None:
        super().check()
        if self.dropped >= self.quantiles:
            raise ValueError(
                f"dropped={self.dropped} of quantiles={self.quantiles} leaves none; give less"
            )


DIVIDED = actor_critic.DIVIDED
check = replay_checks.check
network = actor_critic.network


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights, a temperature, an empty replay buffer and worlds."""
    first = jnp.log(learner.settings.temperature)
    return actor_critic.begin(learner, key, learner.settings.quantiles, first)


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Act and learn in turns; also return the metrics of this update."""
    return actor_critic.rounds(learner, runner, actor_critic.by_policy, sac.draw, gradient_step)


class Goal(NamedTuple):
    """Quantiles of what sampled actions should have been worth, of all critics together."""

    value: Float32[Array, "batch quantiles"]
    share: Float32[Array, "batch quantiles"]  # weight, 1 on average; 0: dropped


def gradient_step(
    learner: Learner[Settings], learned: Learned, batch: Batch, draws: Draws
) -> tuple[Learned, dict[str, Array]]:
    """Improve the critics, the actor and the temperature; the slow copies follow."""
    goal = worth(learner, learned, batch, draws.next)
    loss = (critic_loss, batch, goal, draws.key)
    learned, of_critic = actor_critic.descended(learner, learned, "critic", *loss)
    learned, of_actor = sac.acted(learner, learned, actor_loss, batch, draws.now)
    target = actor_critic.followed(learner, learned.target, learned.critic)
    return learned._replace(target=target), {**of_critic, **of_actor}


def worth(learner: Learner[Settings], learned: Learned, batch: Batch, chance: Chance) -> Goal:
    """Quantiles of what the sampled actions should have been worth."""
    settings = learner.settings
    action, log_prob = actor_critic.drawn(learner, learned.weights, batch.next_obs, chance.noise)
    seen = (learned.target, batch.next_obs, action, settings.quantiles)
    said = actor_critic.values(learner, *seen, chance.key)
    soft = said - jnp.exp(learned.temperature) * log_prob[:, None]
    return truncated(batch.reward[:, None] + batch.discount[:, None] * soft, settings.dropped)


def truncated(said: Float32[Array, "critics batch quantiles"], dropped: int) -> Goal:
    """All quantiles of each item, but of no weight the `dropped` highest for each critic.

    The highest are looked for: a sort of all took a third of a gradient step on a CPU.
    """
    critics, batch, quantiles = said.shape
    together = said.swapaxes(0, 1).reshape(batch, critics * quantiles)
    _, highest = jax.lax.top_k(together, critics * dropped)
    # Written in place, which XLA does not do anew for each pair of quantiles in the loss.
    left_out = jnp.arange(batch, dtype=jnp.int32)[:, None], highest
    share = jnp.full_like(together, quantiles / (quantiles - dropped)).at[left_out].set(0.0)
    return Goal(together.at[left_out].set(0.0), share)


def critic_loss(
    learner: Learner[Settings],
    critic: PyTree,
    batch: Batch,
    goal: Goal,
    key: Array | None = None,
) -> Loss:
    """Quantile regression of all critics towards all quantiles of the targets."""
    count = learner.settings.quantiles
    said = actor_critic.values(learner, critic, batch.obs, batch.action, count, key)
    errors = jax.vmap(quantile_errors, in_axes=(0, None))(said, goal)
    loss = (batch.weight * errors).mean(axis=1).sum()
    return loss, {"critic_loss": loss, "q": said.mean()}


def quantile_errors(
    said: Float32[Array, "batch quantiles"], goal: Goal
) -> Float32[Array, " batch"]:
    """Mean quantile Huber loss (Dabney et al., 2018), at the middles of the quantiles."""
    count = said.shape[-1]
    middle = (jnp.arange(count, dtype=jnp.float32) + 0.5) / count
    return quantile_huber(said, middle, goal.value, 1.0, goal.share) / count


def actor_loss(
    learner: Learner[Settings], weights: PyTree, learned: Learned, batch: Batch, chance: Chance
) -> Loss:
    """Minus the mean of all quantiles and the entropy of what the actor would do."""
    action, log_prob = actor_critic.drawn(learner, weights, batch.obs, chance.noise)
    seen = (learned.critic, batch.obs, action, learner.settings.quantiles)
    said = actor_critic.values(learner, *seen, chance.key)
    return sac.soft_loss(learned, batch, said.mean(axis=(0, 2)), log_prob)
