"""PPO (Schulman et al., 2017): a clipped policy gradient on rollouts of vectorised environments.

Environments, agent and updates are one compiled program, and several seeds run under `vmap`. Run it
with `jaxenvs train ID`. The learner keeps the implementation details of Huang et al. (2022) for
vectorised environments: orthogonal initial weights, Adam with epsilon 1e-5, gradients clipped by
their global norm, a learning rate annealed to zero, and advantages normalised per minibatch.

Deliberate differences from Huang et al.: a truncated episode is bootstrapped from its final
observation; the value loss is clipped only if `value_clip` is not 0; observations are stored as the
environment returns them, and the network converts them to floats. Continuous actions are sampled
from a Gaussian and squashed by tanh instead of clipped, see jaxenvs/core/distributions.py.

Advantages are divided by their standard deviation, but at least by `advantage_floor`. This floor
matters in rollouts without reward, whose advantages are nothing but errors of the value function.
Without the floor, normalisation would scale these errors up to the size of a success, and the
resulting updates would undo exploration.
"""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import chex
import jax.numpy as jnp
from jaxtyping import Array, Int32, PyTree

from jaxenvs.core.masking import Mask, legal

from ..core import minibatches, returns, rollouts, target_scaling
from ..core.bonuses import Bonus, Novelty
from ..core.bounds import Bounds, NonNegative, Swept
from ..core.learner import Learner
from ..core.rollouts import Chosen, Rollout, Runner
from ..core.settings import Activation, Restarting, Scaling, SkipForced
from ..exploration import KINDS
from ..networks.policies import ActorCritic


@dataclasses.dataclass(frozen=True)
class Settings(SkipForced, Restarting, Scaling):
    """Hyperparameters of PPO.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    value_weight: Swept[NonNegative] = 0.5  # coefficient of the value loss
    clip: Swept[NonNegative] = 0.2  # clipping range epsilon of the probability ratio
    entropy: Swept[NonNegative] = 0.01  # coefficient of the entropy bonus
    # coefficient of the entropy bonus at the end of the run, which it approaches linearly; None:
    # the coefficient is constant
    entropy_end: NonNegative | None = None
    # whether advantages are standardised in each minibatch: mean 0, standard deviation 1
    standardise: bool = True
    # lower bound of the standard deviation by which advantages are divided
    advantage_floor: Swept[NonNegative] = 1e-8
    bonus: NonNegative = 0.0  # weight of the exploration bonus (exploration/); 0: no bonus
    novelty: Novelty = "rnd"  # exploration bonus: rnd, noveld or e3b
    value_clip: NonNegative = 0.0  # clipping range of the value loss; 0: the loss is not clipped
    activation: Activation = "tanh"  # activation function of the network's hidden layers
    separate: bool = False  # whether actor and critic are separate networks
    network: str = ""  # user-defined network class, as module:name; "": default
    # update rate, such as 0.05, of the mean and deviation that standardise value targets; 0: off
    target_scaling: Annotated[
        float, Bounds(most=1.0, hint="it is the share of the newest update, such as 0.05")
    ] = 0.0

    def bonus_class(self) -> type[Bonus]:
        """Return the class of the exploration bonus that `novelty` names."""
        return KINDS[self.novelty]


init = rollouts.init
network = ActorCritic.of


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Collect a rollout and learn from it; return the new training state and metrics."""
    runner, key_act, key_learn = rollouts.next_update(learner, runner)
    runner, rollout = rollouts.collect(learner, runner, key_act, choose)
    runner, batch = scaled_targets(learner, runner, rollout)
    batch = minibatches.as_steps(batch)
    runner, losses = learn(learner, runner, batch, key_learn, loss)
    return rollouts.finish_update(learner, runner, rollout, losses)


def choose(learner: Learner, runner: Any, key: Array, mask: Mask) -> Chosen:
    """Sample actions from the policy.

    Return the next recurrent states, the actions, and the fields of `Rollout` known so far.
    """
    memory, outputs, value = rollouts.think(learner, runner, mask)
    drawn = learner.policy.draw(key, outputs)
    log_prob = learner.policy.log_prob(outputs, drawn)
    known = {"action": drawn, "log_prob": log_prob, "value": value, "mask": mask}
    return memory, learner.policy.action(drawn), known


def targets(learner: Learner[Any], runner: Any, rollout: Rollout) -> tuple[Rollout, Array, Array]:
    """Return the rollout, its advantages (GAE) and its value targets.

    `runner` is the training state after the rollout; its observations give the bootstrap values.
    """
    settings = learner.settings
    *_, last_value = rollouts.think(learner, runner, None)  # values do not depend on the mask
    advantage = returns.advantages(rollout, last_value, settings.gamma, settings.gae_lambda)
    if getattr(settings, "recompute", False):
        rollout = rollout._replace(last_value=last_value[None])
    return rollout, advantage, advantage + rollout.value


def scaled_targets(learner: Learner[Any], runner: Any, rollout: Rollout) -> tuple[Any, Any]:
    """Return the runner and the result of `targets`.

    With the setting `target_scaling`, the values and value targets in this result are standardised.
    """
    return target_scaling.scale_targets(learner, runner, targets(learner, runner, rollout))


def unroll(learner: Learner, weights: PyTree, rollout: Rollout) -> tuple[Array, Array]:
    """Return the logits of legal actions and the values for the observations of a minibatch."""
    logits, value = rollouts.predict(learner, weights, rollout.obs)
    return legal(logits, rollout.mask), value


def learn(
    learner: Learner, runner: Any, batch: tuple[Any, ...], key: Array, loss: Callable[..., Any]
) -> tuple[Any, dict[str, Array]]:
    """Take `epochs` * `minibatches` gradient steps on a batch; return the runner and mean losses.

    `batch` is the result of `targets`, but its first axis indexes items: single steps, or
    sequences. The items are shuffled into minibatches.
    """
    learner = annealed(learner, runner)
    orders = minibatches.shuffled_items(learner.settings, batch, key)
    scales = normalisers(learner, batch, orders)
    weight = getattr(batch[0].forced, "value", None)
    explained = explained_variance(learner, batch[0].value, batch[2], weight)
    runner, losses = minibatches.descend(learner, loss, runner, batch, orders, scales)
    return runner, {**losses, "explained_variance": explained}


def explained_variance(
    learner: Learner[Any], value: Array, target: Array, weight: Array | None = None
) -> Array:
    """Return 1 - Var[target - value] / Var[target] over a rollout and all devices.

    It is 1 if the values predict their targets exactly, and 0 if a constant would do as well. It is
    0 if the targets are constant. `weight` has the weights of the steps; None: all are equal.
    """
    both = jnp.stack([(target - value).reshape(-1), target.reshape(-1)])
    given = () if weight is None else (jnp.stack([weight.reshape(-1)] * 2),)
    _, (error, total) = learner.devices.moments(both, *given)
    return jnp.where(total > 0.0, 1.0 - error / jnp.where(total > 0.0, total, 1.0), 0.0)


def annealed(learner: Learner[Any], runner: Any) -> Learner[Any]:
    """Return the learner with the entropy coefficient of the next update as its setting."""
    settings = learner.settings
    if settings.entropy_end is None:
        return learner
    progress = settings.progress(settings.updates_of(minibatches.step_count(runner.optimiser)))
    entropy = settings.entropy + (settings.entropy_end - settings.entropy) * progress
    return dataclasses.replace(learner, settings=dataclasses.replace(settings, entropy=entropy))


def normalisers(
    learner: Learner[Any], batch: tuple[Any, ...], orders: Int32[Array, "minibatches items"]
) -> tuple[Array, Array]:
    """Return the mean and standard deviation of each minibatch's advantages, over all devices.

    `orders` has the indices of each minibatch's items. A standard deviation below `advantage_floor`
    is replaced by `advantage_floor`. Without the setting `standardise`, they are 0 and 1.
    """
    if not learner.settings.standardise:
        return jnp.zeros(len(orders)), jnp.ones(len(orders))
    weight = getattr(batch[0].forced, "policy", None)  # forced steps do not count
    given = (batch[1],) if weight is None else (batch[1], weight)
    mean, variance = learner.devices.moments(*(minibatches.take(leaf, orders) for leaf in given))
    return mean, jnp.maximum(jnp.sqrt(variance), learner.settings.advantage_floor)


def loss(
    learner: Learner[Any],
    weights: PyTree[Array],
    rollout: Rollout,
    advantage: Array,
    target: Array,
    mean: Array,
    std: Array,
    unroll: Callable[..., tuple[Array, Array]] = unroll,
    recompute: Callable[..., tuple[Array, ...]] | None = None,
) -> tuple[Array, dict[str, Array]]:
    """Return the loss of a minibatch (clipped policy loss, value loss, entropy bonus) and metrics.

    Advantages are normalised by their `mean` (a scalar, or one value per item) and standard
    deviation `std` over all devices. `unroll` returns logits and values for the minibatch. If not
    None, `recompute` returns `advantage`, `target`, `mean` and `std` for the current values.
    """
    settings, policy = learner.settings, learner.policy
    outputs, value = unroll(learner, weights, rollout)
    if recompute is not None:
        advantage, target, mean, std = recompute(learner, weights, rollout, value)
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
    advantage = (advantage - mean) / std
    losses = {
        "policy_loss": -jnp.minimum(ratio * advantage, near * advantage),
        "value_loss": 0.5 * value_errors(value, rollout.value, target, settings.value_clip),
        "entropy": policy.entropy(outputs),
        "kl": ratio - 1 - log_ratio,  # Schulman's estimator of the KL divergence, never negative
        "clipped": (near != ratio).astype(jnp.float32),
    }
    if rollout.forced:  # forced steps have weight 0, see forced.py
        for name, each in losses.items():
            kind = "value" if name == "value_loss" else "policy"
            losses[name] = getattr(rollout.forced, kind) * each
    means = jnp.stack([each.reshape(-1) for each in losses.values()]).mean(axis=1)
    weights = jnp.float32([1.0, settings.value_weight, -settings.entropy, 0.0, 0.0])
    return (weights * means).sum(), dict(zip(losses, means, strict=True))


def value_errors(value: Array, before: Array, target: Array, limit: float) -> Array:
    """Return the squared errors of the values, with value clipping if `limit` is not 0.

    `before` has the values that the rollout stored. With clipping, a value gets no gradient once it
    has moved from `before` towards its target by `limit` or more.
    """
    errors = jnp.square(value - target)
    if not limit:
        return errors
    near = before + jnp.clip(value - before, -limit, limit)
    return jnp.maximum(errors, jnp.square(near - target))
