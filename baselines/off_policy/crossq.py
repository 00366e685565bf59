"""CrossQ (Bhatt et al., 2024): SAC without slow copies of the critics, which are renormalised.

Run it with `jaxenvs train ID --algo crossq`. Sampled steps and what follows them pass the critics
together, so that both are normalised alike (batch_renorm.py), and the critics' own answers for what
follows are their targets. Actor and critics have running statistics, which they use in acting, in
evaluation, and where the actor learns from the critics. The actor and the temperature learn in
every third gradient step. All else is as in sac.py.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from ..core import replay_checks
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch
from ..networks import batch_renorm
from ..networks.batch_renorm import STATISTICS
from . import actor_critic, sac
from .actor_critic import Chance, Learned, Runner
from .sac import Draws


@dataclasses.dataclass(frozen=True)
class Settings(sac.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    learning_rate: float = 1e-3  # of actor, critics and temperature
    momentum: float = 0.5  # share of Adam's mean gradient that a gradient step keeps
    critic_hidden: tuple[int, ...] = (2048, 2048)  # widths of the critics' layers
    actor_every: int = 3  # gradient steps of the critics for one of the actor
    target_rate: float = 1.0  # always: there are no slow copies

    swept = tuple(name for name in sac.Settings.swept if name != "target_rate")

    def check(self) -> None:
        super().check()
        if not self.momentum < 1.0:
            raise ValueError(f"momentum={self.momentum} keeps all; give less than 1")
        if self.target_rate != 1.0:
            raise ValueError(f"target_rate={self.target_rate}: crossq has no slow copies; omit it")


DIVIDED = actor_critic.DIVIDED
check = replay_checks.check
network = functools.partial(actor_critic.network, renormalised=True)


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights with statistics, a temperature, an empty replay buffer and worlds."""
    first = jnp.log(learner.settings.temperature)
    return actor_critic.begin(learner, key, temperature=first)._replace(target=())


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Act and learn in turns; also return the metrics of this update."""
    return actor_critic.rounds(learner, runner, actor_critic.by_policy, sac.draw, gradient_step)


def gradient_step(
    learner: Learner[Settings], learned: Learned, batch: Batch, draws: Draws
) -> tuple[Learned, dict[str, Array]]:
    """Improve the critics and, in turn, the actor and the temperature."""
    noise = draws.next.noise
    action, log_prob = actor_critic.drawn(learner, learned.weights, batch.next_obs, noise)
    cost = jnp.exp(learned.temperature) * log_prob
    loss = (critic_loss, batch, action, cost, draws.key)
    learned, of_critic = actor_critic.descended(learner, learned, "critic", *loss)
    learned, of_actor = sac.acted(learner, learned, actor_loss, batch, draws.now)
    return learned, {**of_critic, **of_actor}


def critic_loss(
    learner: Learner[Settings],
    critic: PyTree,
    batch: Batch,
    next_action: Array,
    cost: Float32[Array, " batch"],
    key: Array | None = None,
) -> Loss:
    """Half the squared errors of all critics; also return their statistics.

    `cost` is the temperature times the log-probability of `next_action`.
    """
    both = jax.tree.map(
        lambda *parts: jnp.concatenate(parts),
        (batch.obs, batch.action),
        (batch.next_obs, next_action),
    )
    weight = jnp.concatenate([batch.weight, batch.weight])
    said, after = together(learner, critic, weight, *both, key=key)
    now, following = jnp.split(said, 2, axis=1)
    goal = batch.reward + batch.discount * (following.min(axis=0) - cost)
    errors = jnp.square(now - jax.lax.stop_gradient(goal))
    loss = 0.5 * (batch.weight * errors).mean(axis=1).sum()
    return loss, {"critic_loss": loss, "q": now.mean(), STATISTICS: after}


def together(
    learner: Learner[Settings],
    critic: PyTree,
    weight: Float32[Array, " batch"],
    obs: PyTree[Array],
    action: Array,
    key: Array | None = None,
) -> tuple[Float32[Array, "critics batch"], PyTree[Array]]:
    """What each critic says in training of a batch, and the critics' statistics after it."""
    network = actor_critic.critic_of(learner)

    def one(critic: PyTree, rngs: dict[str, Array], weight: Array) -> tuple[Array, PyTree]:
        given = (weight, obs, action)
        return batch_renorm.trained(network, learner.devices, critic, *given, rngs=rngs)

    # Each critic has weights of its own: XLA multiplies by shared ones in transposed copies.
    weights = jnp.tile(weight, (len(jax.tree.leaves(critic)[0]), 1))
    said, after = jax.vmap(one)(critic, actor_critic.dropping(learner, critic, key), weights)
    return said[..., 0], after


def actor_loss(
    learner: Learner[Settings], weights: PyTree, learned: Learned, batch: Batch, chance: Chance
) -> Loss:
    """As SAC's; also return the statistics of the actor, which is normalised by this batch."""
    given = (learner.devices, weights, batch.weight, batch.obs)
    outputs, after = batch_renorm.trained(learner.network, *given)
    action, log_prob = actor_critic.sampled(learner, outputs, chance.noise)
    seen = (learned.critic, batch.obs, action)
    value = actor_critic.values(learner, *seen, key=chance.key)[..., 0]
    loss, told = sac.soft_loss(learned, batch, value.min(axis=0), log_prob)
    return loss, {**told, STATISTICS: after}
