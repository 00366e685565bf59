"""PPO (Schulman et al., 2017): world, agent and update in one compiled program, seeds by `vmap`.

Run it with `jaxenvs train ID`. The choices of Huang et al. (2022) for vectorised environments are
kept: orthogonal weights, Adam's epsilon 1e-5, gradients clipped by global norm, a learning rate
that falls to zero, advantages normalised per minibatch.
Deliberate differences: an episode cut by the time limit is bootstrapped with the value of its true
successor, the value loss is clipped only if `value_clip` is given, and observations are stored as
the environment gives them. Where rewards are rare, `advantage_floor` keeps normalisation from
turning the errors of the value into a gradient as large as that of a success: without it, rollouts
without reward undo exploration. Actions that are real numbers are drawn from a Gaussian and brought
between their bounds by tanh (core/distributions.py), where others cut a Gaussian off.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import chex
import jax.numpy as jnp
from jaxtyping import Array, Int32, PyTree

from jaxenvs.core.masking import Mask, legal

from ..core import minibatches, returns, rollouts, target_scaling
from ..core.bonuses import Novelty
from ..core.learner import Learner
from ..core.rollouts import Chosen, Rollout, Runner
from ..core.settings import Activation, Scaled
from ..networks.policies import ActorCritic


@dataclasses.dataclass(frozen=True)
class Settings(Scaled):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    value_weight: float = 0.5  # weight of the value loss
    clip: float = 0.2  # largest useful change of an action's probability, as a ratio
    entropy: float = 0.01  # weight of the entropy bonus
    advantage_floor: float = 1e-8  # least standard deviation that advantages are divided by
    bonus: float = 0.0  # weight of the reward for what is new (exploration.py); 0: without it
    novelty: Novelty = "rnd"  # what is new: rnd.py, noveld.py or e3b.py
    value_clip: float = 0.0  # largest useful change of a value in an update; 0: unlimited
    activation: Activation = "tanh"  # between the layers of the network
    separate: bool = False  # whether actor and critic are two networks
    network: str = ""  # your own network, module:name
    target_scaling: float = 0.0  # share of an update in the scale of value targets; 0: unscaled

    swept = (*Scaled.swept, "clip", "entropy", "value_weight", "advantage_floor")

    def check(self) -> None:
        super().check()
        if self.target_scaling > 1.0:
            raise ValueError(
                f"target_scaling={self.target_scaling} is the share of the newest update in a "
                f"moving mean; give 0 to 1, such as 0.05"
            )


DIVIDED = rollouts.DIVIDED
network = ActorCritic.of


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights, worlds, the key for all that follows, and what a bonus begins with."""
    return Runner(**rollouts.begin(learner, key))


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Collect a rollout and learn from it; also return the metrics of this update."""
    runner, key_act, key_learn = rollouts.next_update(learner, runner)
    runner, rollout = rollouts.collect(learner, runner, key_act, choose)
    runner, batch = scaled_targets(learner, runner, rollout)
    batch = minibatches.as_steps(batch)
    runner, losses = learn(learner, runner, batch, key_learn, loss)
    return rollouts.finish_update(learner, runner, rollout, losses)


def choose(learner: Learner, runner: Any, key: Array, mask: Mask) -> Chosen:
    """Draw actions from the policy."""
    memory, outputs, value = rollouts.think(learner, runner, mask)
    drawn = learner.policy.draw(key, outputs)
    log_prob = learner.policy.log_prob(outputs, drawn)
    known = {"action": drawn, "log_prob": log_prob, "value": value, "mask": mask}
    return memory, learner.policy.action(drawn), known


def targets(learner: Learner[Any], runner: Any, rollout: Rollout) -> tuple[Rollout, Array, Array]:
    """The rollout, its advantages and what its values should have been.

    The weights and the observations of the runner are those of the rollout's end.
    """
    settings = learner.settings
    *_, last_value = rollouts.think(learner, runner, None)  # that of a policy looks at no mask
    advantage = returns.advantages(rollout, last_value, settings.gamma, settings.gae_lambda)
    return rollout, advantage, advantage + rollout.value


def scaled_targets(learner: Learner[Any], runner: Any, rollout: Rollout) -> tuple[Any, Any]:
    """The runner and `targets`, standardised where the settings ask for it."""
    return target_scaling.scale_targets(learner, runner, targets(learner, runner, rollout))


def unroll(learner: Learner, weights: PyTree, rollout: Rollout) -> tuple[Array, Array]:
    """Logits and values, by these weights, of what a minibatch of the rollout saw."""
    logits, value = rollouts.predict(learner, weights, rollout.obs)
    return legal(logits, rollout.mask), value


def learn(
    learner: Learner, runner: Any, batch: tuple[Any, ...], key: Array, loss: Callable[..., Any]
) -> tuple[Any, dict[str, Array]]:
    """Take `epochs` x `minibatches` gradient steps on the items of a batch of `targets`."""
    orders = minibatches.shuffled_items(learner.settings, batch, key)
    scales = normalisers(learner, batch, orders)
    return minibatches.descend(learner, loss, runner, batch, orders, scales)


def normalisers(
    learner: Learner[Any], batch: tuple[Any, ...], orders: Int32[Array, "minibatches items"]
) -> tuple[Array, Array]:
    """Mean and spread of each minibatch's advantages, over all devices."""
    mean, variance = learner.devices.moments(minibatches.take(batch[1], orders))
    return mean, jnp.maximum(jnp.sqrt(variance), learner.settings.advantage_floor)


def loss(
    learner: Learner[Any],
    weights: PyTree[Array],
    rollout: Rollout,
    advantage: Array,
    target: Array,
    mean: Array,
    spread: Array,
    unroll: Callable[..., tuple[Array, Array]] = unroll,
) -> tuple[Array, dict[str, Array]]:
    """Clipped policy loss, value loss and entropy bonus of a minibatch.

    `mean` (one number, or one for each item) and `spread` are those of the minibatch's
    advantages, on all devices.
    """
    settings, policy = learner.settings, learner.policy
    outputs, value = unroll(learner, weights, rollout)
    log_prob = policy.log_prob(outputs, rollout.action)
    chex.assert_equal_shape(
        [log_prob, rollout.log_prob, value, rollout.value, advantage, target],
        custom_message="a number each for log_prob (new, old), value (new, old), advantage "
        "and target",
    )
    chex.assert_is_broadcastable(jnp.shape(mean), advantage.shape)
    log_ratio = log_prob - rollout.log_prob
    ratio = jnp.exp(log_ratio)
    near = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
    advantage = (advantage - mean) / spread
    losses = {
        "policy_loss": -jnp.minimum(ratio * advantage, near * advantage),
        "value_loss": 0.5 * value_errors(value, rollout.value, target, settings.value_clip),
        "entropy": policy.entropy(outputs),
        "kl": ratio - 1 - log_ratio,  # Schulman's estimate, never negative
        "clipped": (near != ratio).astype(jnp.float32),
    }
    means = jnp.stack([each.reshape(-1) for each in losses.values()]).mean(axis=1)
    weights = jnp.float32([1.0, settings.value_weight, -settings.entropy, 0.0, 0.0])
    return (weights * means).sum(), dict(zip(losses, means, strict=True))


def value_errors(value: Array, before: Array, target: Array, limit: float) -> Array:
    """Squared errors of the values; `before` are the values at the time of the rollout.

    With a limit, a value that has moved that far towards its target has no gradient.
    """
    errors = jnp.square(value - target)
    if not limit:
        return errors
    near = before + jnp.clip(value - before, -limit, limit)
    return jnp.maximum(errors, jnp.square(near - target))
