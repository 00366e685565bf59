"""TQC (Kuznetsov et al., 2020): SAC whose critics say quantiles, the highest of which are dropped.

Run it with `jaxenvs train ID --algo tqc`. A target is made of all critics' quantiles together
without the `dropped` highest of each, which holds back overestimation more finely than the least of
the critics does; the actor follows the mean of all quantiles. All else is as in sac.py.
"""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from . import actor_critic, evaluate, sac
from .actor_critic import Chance, Learned, Runner
from .algorithms import Learner
from .minibatches import Loss
from .qr_dqn import quantile_huber
from .replay_buffer import Batch
from .sac import Draws


@dataclasses.dataclass(frozen=True)
class Settings(sac.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    quantiles: int = 25  # that each critic says
    dropped: int = 2  # highest quantiles of each critic that a target leaves out

    counts: ClassVar[tuple[str, ...]] = (*sac.Settings.counts, "quantiles")

    def check(self) -> None:
        super().check()
        if self.dropped >= self.quantiles:
            raise ValueError(
                f"dropped={self.dropped} of quantiles={self.quantiles} leaves none; give less"
            )


DIVIDED = actor_critic.DIVIDED
network = actor_critic.network
build = functools.partial(actor_critic.build, "tqc")
report = evaluate.report


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights, a temperature, an empty replay buffer and worlds."""
    first = jnp.log(learner.settings.temperature)
    return actor_critic.begin(learner, key, learner.settings.quantiles, first)


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Act and learn in turns; also return the metrics of this update."""
    return actor_critic.rounds(learner, runner, actor_critic.by_policy, sac.draw, gradient_step)


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


def worth(
    learner: Learner[Settings], learned: Learned, batch: Batch, chance: Chance
) -> Float32[Array, "batch kept"]:
    """Quantiles of what the sampled actions should have been worth."""
    settings = learner.settings
    action, log_prob = actor_critic.drawn(learner, learned.weights, batch.next_obs, chance.noise)
    seen = (learned.target, batch.next_obs, action, settings.quantiles)
    said = actor_critic.values(learner, *seen, chance.key)
    soft = said - jnp.exp(learned.temperature) * log_prob[:, None]
    # In this order, as a sort is computed once and a sum anew for each pair of quantiles.
    return truncated(batch.reward[:, None] + batch.discount[:, None] * soft, settings.dropped)


def truncated(
    said: Float32[Array, "critics batch quantiles"], dropped: int
) -> Float32[Array, "batch kept"]:
    """All quantiles of each item in order, without the `dropped` highest for each critic."""
    critics, batch, quantiles = said.shape
    together = jnp.sort(said.swapaxes(0, 1).reshape(batch, -1), axis=-1)
    return together[:, : critics * (quantiles - dropped)]


def critic_loss(
    learner: Learner[Settings],
    critic: PyTree,
    batch: Batch,
    goal: Float32[Array, "batch kept"],
    key: Array | None = None,
) -> Loss:
    """Quantile regression of all critics towards all quantiles of the targets."""
    count = learner.settings.quantiles
    said = actor_critic.values(learner, critic, batch.obs, batch.action, count, key)
    errors = jax.vmap(quantile_errors, in_axes=(0, None))(said, goal)
    loss = (batch.weight * errors).mean(axis=1).sum()
    return loss, {"critic_loss": loss, "q": said.mean()}


def quantile_errors(
    said: Float32[Array, "batch quantiles"], goal: Float32[Array, "batch kept"]
) -> Float32[Array, " batch"]:
    """Mean quantile Huber loss (Dabney et al., 2018), at the middles of the quantiles."""
    count = said.shape[-1]
    share = (jnp.arange(count, dtype=jnp.float32) + 0.5) / count
    return quantile_huber(said, share, goal, 1.0) / count


def actor_loss(
    learner: Learner[Settings], weights: PyTree, learned: Learned, batch: Batch, chance: Chance
) -> Loss:
    """Minus the mean of all quantiles and the entropy of what the actor would do."""
    action, log_prob = actor_critic.drawn(learner, weights, batch.obs, chance.noise)
    seen = (learned.critic, batch.obs, action, learner.settings.quantiles)
    said = actor_critic.values(learner, *seen, chance.key)
    return sac.soft_loss(learned, batch, said.mean(axis=(0, 2)), log_prob)
