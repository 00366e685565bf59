"""IQN (Dabney et al., 2018): DQN that learns the quantile function of each return.

Run it with `jaxenvs train ID --algo iqn`. The network is asked for the quantiles at fractions: it
multiplies what it sees with features of their cosines. Losses draw fractions at random. Everything
else, and each setting, is that of dqn.py and qr_dqn.py, Munchausen included.
Deliberate difference: actions are chosen by the mean over evenly spaced fractions, not random ones,
so that a policy is a function of what it sees.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, PyTree

from ..core import replay_checks
from ..core.bounds import Count
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch
from ..networks import q_network
from ..networks.layers import dense
from ..networks.q_network import QNetwork
from . import dqn, qr_dqn
from .dqn import Runner

FRACTIONS = 32  # over which a policy takes the mean


@dataclasses.dataclass(frozen=True)
class Settings(dqn.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    fractions: Count = 8  # drawn for each step's quantiles, and as many for its targets
    cosines: Count = 64  # of a fraction, which the network sees
    kappa: float = 1.0  # error from which the quantile Huber loss is linear

    def check(self) -> None:
        super().check()
        qr_dqn.check_kappa(self.kappa)


class Implicit(QNetwork):
    """Quantiles of each action's return at fractions, which are evenly spaced if not given."""

    cosines: int = 64

    @nn.compact
    def __call__(
        self, obs: PyTree[Array], fractions: Float32[Array, " fractions"] | None = None
    ) -> Float32[Array, "actions fractions"]:
        if fractions is None:
            fractions = (jnp.arange(FRACTIONS, dtype=jnp.float32) + 0.5) / FRACTIONS
        seen = self.features(obs)
        asked = cosines(fractions, self.cosines).astype(self.dtype)
        asked = nn.relu(dense(seen.shape[0], np.sqrt(2), self.dtype, name="Cosines")(asked))
        return self.heads(seen * asked).T

    def mean(self, answer: Array) -> Float32[Array, "*batch actions"]:
        """Action values: means over the fractions."""
        return answer.mean(axis=-1)

    @property
    def body(self) -> set[str]:
        """Names of the weights before the last layer."""
        return {*super().body, "Cosines"}


def cosines(
    fractions: Float32[Array, " fractions"], count: int
) -> Float[Array, "fractions cosines"]:
    """Cosines of 0, 1, ... `count` - 1 half turns, times each fraction."""
    turns = np.pi * np.arange(count, dtype=np.float32)
    return jnp.cos(fractions[:, None] * turns.astype(np.float32))


DIVIDED = dqn.DIVIDED
check = replay_checks.check
init = dqn.init
network = Implicit.of


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
    key: Array,
) -> Float32[Array, "batch fractions"]:
    """Values at random fractions of the returns that the sampled actions should have had."""
    fractions = drawn(learner, batch, key)
    after = dqn.following(learner, weights, target, batch, key, fractions)
    reward = dqn.rewarded(learner, target, batch, key)
    return reward[:, None] + batch.discount[:, None] * after


def loss(learner: Learner, weights: PyTree, batch: Batch, worth: Array, key: Array) -> Loss:
    """Quantile Huber loss of the sampled actions at random fractions, which is also their error."""
    fractions = drawn(learner, batch, key)
    answer = q_network.apply_batch(learner, weights, batch.obs, key, fractions)
    value = q_network.of_actions(answer, batch.action)
    return qr_dqn.of_quantiles(value, fractions, worth, batch, learner.settings.kappa)


def drawn(
    learner: Learner[Settings], batch: Batch, key: Array
) -> Float32[Array, "batch fractions"]:
    """Random fractions for each sampled step."""
    shape = (len(batch.action), learner.settings.fractions)
    return jax.random.uniform(jax.random.fold_in(key, 0), shape, jnp.float32)
