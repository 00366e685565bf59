"""QR-DQN (Dabney et al., 2018): DQN that learns quantiles of each action's return.

For each action the network outputs `quantiles` quantiles of the return, at evenly spaced
probabilities. The loss is the quantile Huber loss of all pairs of a predicted quantile and a target
quantile. Unlike C51, QR-DQN needs no bounds of the return. Run it with
`jaxenvs train ID --algo qr-dqn`.

All settings of dqn.py apply. With Munchausen, the next value is an expectation over actions,
computed for each quantile separately, as in the code of Munchausen's authors. The priority of a
step is its loss.
"""

import dataclasses
import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from ..core import replay_checks
from ..core.bounds import Count, Positive
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch
from ..networks import q_network
from ..networks.q_network import QLearner, QNetwork
from . import dqn, q_learning
from .q_learning import Objective


@dataclasses.dataclass(frozen=True)
class Settings(dqn.Settings):
    """Hyperparameters of QR-DQN.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    quantiles: Count = 50  # number of quantiles of each action's return
    kappa: Positive = 1.0  # TD error above which the quantile Huber loss is linear


class Quantiles(QNetwork):
    """Network that outputs quantiles of each action's return."""

    quantiles: int = 50

    @property
    def outputs(self) -> tuple[int, ...]:
        """Shape of the output for one action: one value per quantile."""
        return (self.quantiles,)

    def mean(self, answer: Array) -> Float32[Array, "*batch actions"]:
        """Return Q(s, a), the mean of the quantiles of each action."""
        return answer.mean(axis=-1)


check = replay_checks.check
init = q_learning.init
network = Quantiles.of


def td_target(
    learner: QLearner,
    weights: PyTree[Array],
    target: PyTree[Array],
    batch: Batch,
    key: Array | None = None,
    *given: Array,
) -> Float32[Array, "batch targets"]:
    """Return the target quantiles of the sampled actions.

    `given` are further inputs of the network: none in QR-DQN, the fractions tau in IQN.
    """
    value = dqn.next_values(learner, weights, target, batch, key, *given)
    reward = dqn.augmented_reward(learner, target, batch, key)
    return reward[:, None] + batch.discount[:, None] * value


def loss(
    learner: QLearner, weights: PyTree, batch: Batch, target: Array, key: Array | None = None
) -> Loss:
    """Return the mean quantile Huber loss of a batch, and metrics; `error` is each step's loss."""
    answer = q_network.apply_batch(learner, weights, batch.obs, key)
    value = q_network.of_actions(answer, batch.action)
    return mean_loss(value, midpoints(value.shape[1]), target, batch, learner.settings.kappa)


def midpoints(count: int) -> Float32[Array, " count"]:
    """Return the paper's quantile midpoints: the centres of `count` equal parts of [0, 1]."""
    return (jnp.arange(count, dtype=jnp.float32) + 0.5) / count


def mean_loss(
    value: Float32[Array, "batch quantiles"],
    fraction: Array,
    target: Float32[Array, "batch targets"],
    batch: Batch,
    kappa: float,
) -> Loss:
    """Return the mean quantile Huber loss, weighted by importance, and metrics.

    `value` are predicted quantiles, and `fraction` their probabilities tau, of shape (quantiles,)
    or (batch, quantiles).
    """
    error = quantile_huber(value, fraction, target, kappa)
    chex.assert_equal_shape([batch.weight, error], custom_message="weight and error, [batch]")
    loss = (batch.weight * error).mean()
    return loss, {"q_loss": loss, "q": value.mean(), "error": error}


def quantile_huber(
    value: Float32[Array, "batch quantiles"],
    fraction: Array,
    target: Float32[Array, "batch targets"],
    kappa: float,
    share: Float32[Array, "batch targets"] | None = None,
) -> Float32[Array, " batch"]:
    """Return the quantile Huber loss, summed over predicted quantiles and averaged over targets.

    `share` contains the targets' weights in this average, which have mean 1; None: equal weights.
    Only the predicted quantiles `value` get a gradient.
    """
    loss: Any = _quantile_huber(value, fraction, target, share, kappa)
    return loss


def loss_and_gradient(
    value: Float32[Array, "batch quantiles"],
    fraction: Array,
    target: Float32[Array, "batch targets"],
    share: Float32[Array, "batch targets"] | None,
    kappa: float,
) -> tuple[Float32[Array, " batch"], Float32[Array, "batch quantiles"]]:
    """Return the quantile Huber loss and its derivative with respect to `value`.

    The sums over targets are matrix products. On a CPU, they take half the time of reductions,
    which XLA fuses with the elementwise operations before them.
    """
    chex.assert_rank([value, target], 2, custom_message="value and target are [batch, ...]")
    each = jnp.full(target.shape[1], 1.0 / (target.shape[1] * kappa), value.dtype)
    apart = target[:, None, :] - value[:, :, None]
    side = jnp.where(apart < 0.0, 1.0 - fraction[..., None], fraction[..., None])
    error = jnp.clip(apart, -kappa, kappa)
    slope = side * error if share is None else side * error * share[:, None, :]
    mean = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    return mean(slope * (apart - 0.5 * error), each).sum(axis=1), -mean(slope, each)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _quantile_huber(
    value: Array, fraction: Array, target: Array, share: Array | None, kappa: float
) -> Array:
    return loss_and_gradient(value, fraction, target, share, kappa)[0]


def _forward(
    value: Array, fraction: Array, target: Array, share: Array | None, kappa: float
) -> tuple[Array, Array]:
    return loss_and_gradient(value, fraction, target, share, kappa)


def _backward(kappa: float, slope: Array, gradient: Array) -> tuple[Array, None, None, None]:
    return gradient[:, None] * slope, None, None, None


_quantile_huber.defvjp(_forward, _backward)
update = functools.partial(q_learning.update, Objective(td_target, loss))
