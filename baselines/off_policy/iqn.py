"""IQN (Dabney et al., 2018): DQN that learns the quantile function of each action's return.

The network receives fractions tau between 0 and 1, and outputs the quantile of the return at each
tau. Inside the network, the features of the observation are multiplied by a cosine embedding of
tau. In training, fractions are drawn uniformly at random. Run it with
`jaxenvs train ID --algo iqn`. All settings of dqn.py apply, including Munchausen.

Deliberate difference from the paper: the value of an action is the mean over evenly spaced
fractions instead of random ones, so that the greedy action depends only on the observation.
"""

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, PyTree

from ..core import replay_checks
from ..core.bounds import Count, Positive
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch
from ..networks import q_network
from ..networks.layers import dense
from ..networks.q_network import QLearner, QNetwork
from . import dqn, q_learning, qr_dqn
from .q_learning import Objective

# Number of evenly spaced fractions tau. The value of an action is the mean of its quantiles at
# these fractions.
FRACTIONS = 32


@dataclasses.dataclass(frozen=True)
class Settings(dqn.Settings):
    """Hyperparameters of IQN.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    # number of random fractions tau per transition, drawn separately for predictions and targets
    fractions: Count = 8
    cosines: Count = 64  # number of cosine features that represent a fraction tau
    kappa: Positive = 1.0  # TD error above which the quantile Huber loss is linear


class Implicit(QNetwork):
    """Network that outputs the quantiles of each action's return at the fractions tau.

    The argument `fractions` contains the fractions; None: `FRACTIONS` evenly spaced fractions.
    """

    cosines: int = 64

    @nn.compact
    def __call__(
        self, obs: PyTree[Array], fractions: Float32[Array, " fractions"] | None = None
    ) -> Float32[Array, "actions fractions"]:
        if fractions is None:
            fractions = qr_dqn.midpoints(FRACTIONS)
        features = self.features(obs)
        embedding = cosines(fractions, self.cosines).astype(self.dtype)
        layer = dense(features.shape[0], np.sqrt(2), self.dtype, name="Cosines")
        return self.heads(features * nn.relu(layer(embedding))).T

    def mean(self, answer: Array) -> Float32[Array, "*batch actions"]:
        """Return Q(s, a), the mean of each action's quantiles over the fractions."""
        return answer.mean(axis=-1)

    @property
    def body(self) -> set[str]:
        """Names of the Flax modules before the last hidden layer.

        A reset (`q_learning.reset`) sets the last layers to their initial weights, but moves these
        modules' weights only part of the way.
        """
        return {*super().body, "Cosines"}


def cosines(
    fractions: Float32[Array, " fractions"], count: int
) -> Float[Array, "fractions cosines"]:
    """Return cos(pi * i * tau) for each fraction tau and each i from 0 to `count` - 1."""
    turns = np.pi * np.arange(count, dtype=np.float32)
    return jnp.cos(fractions[:, None] * turns.astype(np.float32))


check = replay_checks.check
init = q_learning.init
network = Implicit.of


def td_target(
    learner: Learner[Settings, QNetwork],
    weights: PyTree[Array],
    target: PyTree[Array],
    batch: Batch,
    key: Array,
) -> Float32[Array, "batch fractions"]:
    """Return the target quantiles of the sampled actions at random fractions."""
    fractions = draw_fractions(learner, batch, key)
    return qr_dqn.td_target(learner, weights, target, batch, key, fractions)


def loss(learner: QLearner, weights: PyTree, batch: Batch, target: Array, key: Array) -> Loss:
    """Return the mean quantile Huber loss at random fractions, and metrics.

    The metric `error` is each step's loss, for its priority.
    """
    fractions = draw_fractions(learner, batch, key)
    answer = q_network.apply_batch(learner, weights, batch.obs, key, fractions)
    value = q_network.of_actions(answer, batch.action)
    return qr_dqn.mean_loss(value, fractions, target, batch, learner.settings.kappa)


def draw_fractions(
    learner: Learner[Settings, QNetwork], batch: Batch, key: Array
) -> Float32[Array, "batch fractions"]:
    """Draw the fractions tau of each sampled step, uniformly between 0 and 1."""
    shape = (len(batch.action), learner.settings.fractions)
    return jax.random.uniform(jax.random.fold_in(key, 0), shape, jnp.float32)


update = functools.partial(q_learning.update, Objective(td_target, loss))
