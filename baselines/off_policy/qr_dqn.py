"""QR-DQN (Dabney et al., 2018): DQN that learns quantiles of each return.

Run it with `jaxenvs train ID --algo qr-dqn`. The network says `quantiles` values of each action's
return, at evenly spaced probabilities; the loss is the quantile Huber loss of each against each
of the target's. Unlike C51 it needs no bounds of the return. Everything else, and each setting, is
that of dqn.py; with Munchausen, targets are averaged over actions quantile by quantile, as its
authors do. Steps are prioritised by their loss.
"""

import dataclasses
import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from ..core import replay_checks
from ..core.bounds import Count
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch
from ..networks import q_network
from ..networks.q_network import QNetwork
from . import dqn
from .dqn import Runner


@dataclasses.dataclass(frozen=True)
class Settings(dqn.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    quantiles: Count = 50  # of each action's return
    kappa: float = 1.0  # error from which the quantile Huber loss is linear

    def check(self) -> None:
        super().check()
        check_kappa(self.kappa)


def check_kappa(kappa: float) -> None:
    """Raise `ValueError` unless the quantile Huber loss is defined."""
    if not kappa > 0.0:
        raise ValueError(f"kappa={kappa} must be above 0: the error at which the loss gets linear")


class Quantiles(QNetwork):
    """Quantiles of each action's return."""

    quantiles: int = 50

    @property
    def outputs(self) -> tuple[int, ...]:
        """A value for each quantile."""
        return (self.quantiles,)

    def mean(self, answer: Array) -> Float32[Array, "*batch actions"]:
        """Action values: means of the quantiles."""
        return answer.mean(axis=-1)


DIVIDED = dqn.DIVIDED
check = replay_checks.check
init = dqn.init
network = Quantiles.of


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Act, remember, and learn from what is remembered; also return this update's metrics."""
    runner, key, metrics = dqn.collect(learner, runner)
    runner, losses = dqn.learn(learner, runner, key, worth, loss)
    return runner, {**metrics, **losses}


def worth(
    learner: Learner[Settings],
    weights: PyTree[Array],
    target: PyTree[Array],
    batch: Batch,
    key: Array | None = None,
) -> Float32[Array, "batch quantiles"]:
    """Quantiles that the sampled actions should have had."""
    after = dqn.following(learner, weights, target, batch, key)
    reward = dqn.rewarded(learner, target, batch, key)
    return reward[:, None] + batch.discount[:, None] * after


def loss(
    learner: Learner, weights: PyTree, batch: Batch, worth: Array, key: Array | None = None
) -> Loss:
    """Quantile Huber loss of the sampled actions, which is also their error."""
    answer = q_network.apply_batch(learner, weights, batch.obs, key)
    value = q_network.of_actions(answer, batch.action)
    count = value.shape[1]
    fraction = (jnp.arange(count, dtype=jnp.float32) + 0.5) / count
    return of_quantiles(value, fraction, worth, batch, learner.settings.kappa)


def of_quantiles(
    value: Float32[Array, "batch quantiles"],
    fraction: Array,
    worth: Float32[Array, "batch targets"],
    batch: Batch,
    kappa: float,
) -> Loss:
    """The loss of values at fractions, [quantiles] or [batch, quantiles], of the distribution."""
    error = quantile_huber(value, fraction, worth, kappa)
    chex.assert_equal_shape([batch.weight, error], custom_message="weight and error, [batch]")
    loss = (batch.weight * error).mean()
    return loss, {"q_loss": loss, "q": value.mean(), "error": error}


def quantile_huber(
    value: Float32[Array, "batch quantiles"],
    fraction: Array,
    worth: Float32[Array, "batch targets"],
    kappa: float,
    share: Float32[Array, "batch targets"] | None = None,
) -> Float32[Array, " batch"]:
    """Sum over quantiles of the mean over targets of the asymmetric Huber loss, over kappa.

    `share` are weights of the targets in that mean, which are 1 on average; None: all are 1. It has
    a gradient by `value` alone.
    """
    loss: Any = _quantile_huber(value, fraction, worth, share, kappa)
    return loss


def pinball(
    value: Float32[Array, "batch quantiles"],
    fraction: Array,
    worth: Float32[Array, "batch targets"],
    share: Float32[Array, "batch targets"] | None,
    kappa: float,
) -> tuple[Float32[Array, " batch"], Float32[Array, "batch quantiles"]]:
    """The loss and its derivative.

    Sums are matrix products, which on a CPU take half as long as sums that XLA fuses with what they
    sum.
    """
    chex.assert_rank([value, worth], 2, custom_message="value and worth are [batch, ...]")
    each = jnp.full(worth.shape[1], 1.0 / (worth.shape[1] * kappa), value.dtype)
    apart = worth[:, None, :] - value[:, :, None]
    side = jnp.where(apart < 0.0, 1.0 - fraction[..., None], fraction[..., None])
    error = jnp.clip(apart, -kappa, kappa)
    slope = side * error if share is None else side * error * share[:, None, :]
    mean = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    return mean(slope * (apart - 0.5 * error), each).sum(axis=1), -mean(slope, each)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _quantile_huber(
    value: Array, fraction: Array, worth: Array, share: Array | None, kappa: float
) -> Array:
    return pinball(value, fraction, worth, share, kappa)[0]


def _forward(
    value: Array, fraction: Array, worth: Array, share: Array | None, kappa: float
) -> tuple[Array, Array]:
    return pinball(value, fraction, worth, share, kappa)


def _backward(kappa: float, slope: Array, gradient: Array) -> tuple[Array, None, None, None]:
    return gradient[:, None] * slope, None, None, None


_quantile_huber.defvjp(_forward, _backward)
