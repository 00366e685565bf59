"""SAC (Haarnoja et al., 2018): an actor that is paid for entropy, and two critics, from a replay.

Run it with `jaxenvs train ID --algo sac`. World, agent, replay buffer and gradient steps are one
compiled program. The entropy's weight, the temperature, is learned: it rises while the policy has
less entropy than minus `negentropy` for each number of an action. With `--layer-norm --dropout 0.01
--replays 20 --actor-every 20` it is DroQ (Hiraoka et al., 2022), but that the actor follows the
least critic, not their mean. Deliberate difference: an episode cut by the time limit is
bootstrapped with its true successor.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from ..core import replay_checks
from ..core.bounds import Signed
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch
from . import actor_critic
from .actor_critic import Chance, Learned, Runner


@dataclasses.dataclass(frozen=True)
class Settings(actor_critic.Replaying):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    temperature: float = 1.0  # weight of the entropy at the start
    learn_temperature: bool = True  # whether it is learned
    # Minus the entropy that the temperature aims at: nats for each number of an action, measured as
    # if its bounds were -1 and 1.
    negentropy: Signed = 1.0

    swept = (*actor_critic.Replaying.swept, "negentropy")

    def check(self) -> None:
        super().check()
        if not 0.0 < self.temperature < math.inf:
            raise ValueError(f"temperature={self.temperature} must be above 0 and finite")
        if not -math.log(2.0) < self.negentropy < math.inf:
            raise ValueError(
                f"negentropy={self.negentropy}: no policy has so much entropy, an even one has "
                f"{math.log(2.0):.3f} nats for each number; give more than {-math.log(2.0):.3f}"
            )


class Draws(NamedTuple):
    """What a gradient step draws, before it is its turn."""

    key: Array  # of what the critics' layers drop in their loss
    next: Chance  # of what follows
    now: Chance  # of the actor's loss


DIVIDED = actor_critic.DIVIDED
check = replay_checks.check
network = actor_critic.network


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights, a temperature, an empty replay buffer and worlds."""
    return actor_critic.begin(learner, key, temperature=jnp.log(learner.settings.temperature))


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Act and learn in turns; also return the metrics of this update."""
    return actor_critic.rounds(learner, runner, actor_critic.by_policy, draw, gradient_step)


def draw(learner: Learner[Settings], key: Array) -> Draws:
    """Draw for a gradient step."""
    return Draws(key, *(actor_critic.chance(learner, each) for each in jax.random.split(key)))


def gradient_step(
    learner: Learner[Settings], learned: Learned, batch: Batch, draws: Draws
) -> tuple[Learned, dict[str, Array]]:
    """Improve the critics, the actor and the temperature; the slow copies follow."""
    goal = worth(learner, learned, batch, draws.next)
    loss = (actor_critic.squared_errors, batch, goal, draws.key)
    learned, of_critic = actor_critic.descended(learner, learned, "critic", *loss)
    learned, of_actor = acted(learner, learned, actor_loss, batch, draws.now)
    target = actor_critic.followed(learner, learned.target, learned.critic)
    return learned._replace(target=target), {**of_critic, **of_actor}


def acted(
    learner: Learner[Any],
    learned: Learned,
    loss: Callable[..., Loss],
    batch: Batch,
    chance: Chance,
) -> tuple[Learned, dict[str, Array]]:
    """Improve the actor by its loss, and the temperature, if it is their turn."""
    step = functools.partial(actor_critic.descended, learner)

    def act(learned: Learned) -> tuple[Learned, dict[str, Array]]:
        learned, told = step(learned, "weights", loss, learned, batch, chance)
        if learner.settings.learn_temperature:
            learned, _ = step(learned, "temperature", temperature_loss, told["entropy"])
        return learned, told

    return actor_critic.in_turn(learner, learned, act)


def worth(
    learner: Learner[Settings], learned: Learned, batch: Batch, chance: Chance
) -> Float32[Array, " batch"]:
    """What the sampled actions should have been worth: the least critic, and entropy."""
    action, log_prob = actor_critic.drawn(learner, learned.weights, batch.next_obs, chance.noise)
    seen = (learned.target, batch.next_obs, action)
    value = actor_critic.values(learner, *seen, key=chance.key)[..., 0]
    soft = value.min(axis=0) - jnp.exp(learned.temperature) * log_prob
    return batch.reward + batch.discount * soft


def actor_loss(
    learner: Learner[Settings], weights: PyTree, learned: Learned, batch: Batch, chance: Chance
) -> Loss:
    """Minus the least value and the entropy of what the actor would do."""
    action, log_prob = actor_critic.drawn(learner, weights, batch.obs, chance.noise)
    seen = (learned.critic, batch.obs, action)
    value = actor_critic.values(learner, *seen, key=chance.key)[..., 0]
    return soft_loss(learned, batch, value.min(axis=0), log_prob)


def soft_loss(
    learned: Learned,
    batch: Batch,
    value: Float32[Array, " batch"],
    log_prob: Float32[Array, " batch"],
) -> Loss:
    """Minus the value and the entropy of actions; also return the entropy."""
    temperature = jnp.exp(learned.temperature)
    loss = (batch.weight * (temperature * log_prob - value)).mean()
    entropy = -(batch.weight * log_prob).sum() / jnp.maximum(batch.weight.sum(), 1.0)
    return loss, {"actor_loss": loss, "entropy": entropy}


def temperature_loss(learner: Learner[Settings], temperature: Any, entropy: Array) -> Loss:
    """Of its logarithm, which rises while the entropy is below the one that is aimed at."""
    policy: Any = learner.policy
    return temperature * (entropy + policy.numbers * learner.settings.negentropy), {}
