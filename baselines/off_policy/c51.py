"""C51 (Bellemare et al., 2017): DQN that learns a categorical distribution of each return.

Run it with `jaxenvs train ID --algo c51`. Returns from `v_min` to `v_max` are divided among `atoms`
evenly spaced values, and the network outputs their probabilities. The target's distribution is
projected onto them, and the loss is the cross-entropy. Returns beyond them are clipped:
`clipped_targets` in the log is their share, and a warning names bounds that fit (run/supports.py).
Everything else is as in dqn.py, with all its settings but Munchausen; steps are prioritised by the
Kullback-Leibler divergence, as Rainbow does.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, PyTree

from ..core import replay_checks
from ..core.bounds import Count, Signed
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

    atoms: Count = 51  # values of the distribution's support
    v_min: Signed = -10.0  # the least of them
    v_max: Signed = 10.0  # the largest: discounted returns beyond them are clipped, with a warning

    def check(self) -> None:
        super().check()
        if self.atoms < 2 or not self.v_min < self.v_max:
            raise ValueError(
                f"atoms={self.atoms} from v_min={self.v_min} to v_max={self.v_max}: give at least "
                f"2 atoms, and v_min below v_max, such as the least and largest discounted return"
            )
        if self.munchausen:
            raise ValueError(
                f"munchausen={self.munchausen} averages values or quantiles over actions: use "
                f"dqn, qr-dqn or iqn, or munchausen=0"
            )


class Categorical(QNetwork):
    """Logits of the atoms of each action's return."""

    atoms: int = 51
    v_min: float = -10.0
    v_max: float = 10.0

    @property
    def outputs(self) -> tuple[int, ...]:
        """A logit for each atom."""
        return (self.atoms,)

    @property
    def support(self) -> np.ndarray:
        """The values of the atoms."""
        return np.linspace(self.v_min, self.v_max, self.atoms, dtype=np.float32)

    def mean(self, answer: Array) -> Float32[Array, "*batch actions"]:
        """Action values: means of the distributions."""
        return jax.nn.softmax(answer) @ self.support


class Target(NamedTuple):
    """Target distributions of the sampled actions."""

    mass: Float32[Array, "batch atoms"]  # probabilities of the atoms
    clipped: Float32[Array, " batch"]  # 1 if the mean lay beyond them, else 0


ROUNDING = 1e-3  # spacings by which float32 may take a value beyond the outermost atom
LOSSES = (*dqn.LOSSES, "clipped_targets")
DIVIDED = dqn.DIVIDED
check = replay_checks.check
init = dqn.init
network = Categorical.of


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Act, remember, and learn from what is remembered; also return this update's metrics."""
    runner, key, metrics = dqn.collect(learner, runner)
    runner, losses = dqn.learn(learner, runner, key, worth, loss, LOSSES)
    return runner, {**metrics, **losses}


def worth(
    learner: Learner[Settings],
    weights: PyTree[Array],
    target: PyTree[Array],
    batch: Batch,
    key: Array | None = None,
) -> Target:
    """Target distributions of the sampled actions, projected onto the atoms."""
    logits = dqn.following(learner, weights, target, batch, key)
    support = learner.network.support
    values = batch.reward[:, None] + batch.discount[:, None] * support
    mass, edge = jax.nn.softmax(logits), ROUNDING * (support[1] - support[0])
    # The wide distributions of a new network reach beyond any bounds; their means do not.
    mean = (mass * values).sum(axis=1)
    is_beyond = (mean < support[0] - edge) | (mean > support[-1] + edge)
    return Target(
        jax.vmap(functools.partial(project, support))(values, mass),
        is_beyond.astype(jnp.float32),
    )


def project(
    support: np.ndarray, values: Float32[Array, " values"], mass: Float32[Array, " values"]
) -> Float32[Array, " atoms"]:
    """Divide the mass at each value between the two atoms next to it, by nearness.

    `support` are the evenly spaced values of the atoms; what lies beyond goes to the outermost.
    """
    chex.assert_equal_shape([values, mass], custom_message="values and mass, [values]")
    step = support[1] - support[0]
    apart = jnp.abs(jnp.clip(values, support[0], support[-1])[:, None] - support)
    return mass @ jnp.clip(1.0 - apart / step, 0.0, 1.0)


def loss(
    learner: Learner, weights: PyTree, batch: Batch, target: Target, key: Array | None = None
) -> Loss:
    """Cross-entropy of the sampled actions' atoms; the errors are divergences."""
    worth, is_step = target.mass, (batch.weight > 0).astype(jnp.float32)
    answer = q_network.apply_batch(learner, weights, batch.obs, key)
    logits = q_network.of_actions(answer, batch.action)
    chex.assert_equal_shape([worth, logits], custom_message="worth and logits, [batch, atoms]")
    crossed = -(worth * jax.nn.log_softmax(logits)).sum(axis=1)
    entropy = -jax.scipy.special.xlogy(worth, worth).sum(axis=1)
    loss = (batch.weight * crossed).mean()
    value = learner.network.mean(logits)
    return loss, {
        "q_loss": loss,
        "q": value.mean(),
        "clipped_targets": (is_step * target.clipped).sum() / jnp.maximum(is_step.sum(), 1.0),
        "error": jnp.maximum(crossed - entropy, 0.0),
    }


def support(settings: Settings) -> str:
    """The support of the distributions, in words."""
    return f"v_min={settings.v_min:g} to v_max={settings.v_max:g}"


def wider(settings: Settings, paid: Any) -> dict[str, float]:
    """Bounds that hold the returns of a `supports.Paid`."""
    low, high = paid.returns
    found = {"v_min": low} if low < settings.v_min else {}
    found |= {"v_max": high} if high > settings.v_max else {}
    # Otherwise values are too large, not what was earned.
    return found or {"v_min": 2.0 * settings.v_min, "v_max": 2.0 * settings.v_max}
