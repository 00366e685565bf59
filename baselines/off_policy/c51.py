"""C51 (Bellemare et al., 2017): DQN that learns a distribution of each action's return.

For each action the network outputs the probabilities of `atoms` evenly spaced returns from `v_min`
to `v_max`. The target distribution is projected onto these atoms, and the loss is the
cross-entropy. Run it with `jaxenvs train ID --algo c51`.

Returns beyond the bounds are clipped. The metric `clipped_targets` is the fraction of targets whose
mean is beyond the bounds, and a warning names bounds that fit (run/supports.py). All settings of
dqn.py apply, except Munchausen. As in Rainbow, the priority of a step is the Kullback-Leibler
divergence between its target distribution and the predicted distribution.
"""

import dataclasses
import functools
from typing import Annotated, Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, PyTree

from ..core import replay_checks
from ..core.bounds import Bounds, Signed
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch
from ..networks import q_network
from ..networks.q_network import QNetwork
from . import dqn, q_learning
from .q_learning import Objective

NO_MUNCHAUSEN = "it averages values or quantiles over actions: use dqn, qr-dqn or iqn, or 0"


@dataclasses.dataclass(frozen=True)
class Settings(dqn.Settings):
    """Hyperparameters of C51.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    # number of atoms: returns to which the network assigns probabilities
    atoms: Annotated[int, Bounds(least=2)] = 51
    v_min: Signed = -10.0  # return of the lowest atom; lower returns are clipped, with a warning
    v_max: Signed = 10.0  # return of the highest atom; higher returns are clipped, with a warning
    # weight of Munchausen's term tau log pi(a|s); always 0, because C51 does not support it
    munchausen: Annotated[float, Bounds(most=0.0, hint=NO_MUNCHAUSEN)] = 0.0

    def check(self) -> None:
        super().check()
        if not self.v_min < self.v_max:
            raise ValueError(
                f"v_min={self.v_min} must be below v_max={self.v_max}, such as the least and "
                f"largest discounted return"
            )


class Categorical(QNetwork):
    """Network that outputs, for each action, logits of a distribution over the atoms."""

    atoms: int = 51
    v_min: float = -10.0
    v_max: float = 10.0

    @property
    def outputs(self) -> tuple[int, ...]:
        """Shape of the output for one action: one logit per atom."""
        return (self.atoms,)

    @property
    def support(self) -> np.ndarray:
        """The return that each atom stands for (z_i in the paper), in ascending order."""
        return np.linspace(self.v_min, self.v_max, self.atoms, dtype=np.float32)

    def mean(self, answer: Array) -> Float32[Array, "*batch actions"]:
        """Return Q(s, a), the mean of each action's distribution."""
        return jax.nn.softmax(answer) @ self.support


class Target(NamedTuple):
    """Target distributions of the sampled actions."""

    mass: Float32[Array, "batch atoms"]  # probability of each atom, m_i in the paper
    clipped: Float32[Array, " batch"]  # 1 if the target's mean lies beyond the atoms, else 0


# A target counts as clipped only if its mean lies beyond the outermost atom by more than this
# fraction of the atoms' spacing. Smaller distances may be rounding errors.
ROUNDING = 1e-3
check = replay_checks.check
init = q_learning.init
network = Categorical.of


def td_target(
    learner: Learner[Settings, Categorical],
    weights: PyTree[Array],
    target: PyTree[Array],
    batch: Batch,
    key: Array | None = None,
) -> Target:
    """Return the target distributions of the sampled actions, projected onto the atoms."""
    logits = dqn.next_values(learner, weights, target, batch, key)
    support = learner.network.support
    values = batch.reward[:, None] + batch.discount[:, None] * support
    mass, edge = jax.nn.softmax(logits), ROUNDING * (support[1] - support[0])
    # The test is on each target's mean, because the tails of an untrained network's distributions
    # exceed any bounds.
    mean = (mass * values).sum(axis=1)
    is_beyond = (mean < support[0] - edge) | (mean > support[-1] + edge)
    return Target(
        jax.vmap(functools.partial(project, support))(values, mass),
        is_beyond.astype(jnp.float32),
    )


def project(
    support: np.ndarray, values: Float32[Array, " values"], mass: Float32[Array, " values"]
) -> Float32[Array, " atoms"]:
    """Project a distribution onto the evenly spaced atoms `support` (Phi in the paper).

    The distribution has the probabilities `mass` at `values`. The probability of a value between
    two atoms is divided between them, with the larger share for the closer atom. The probability of
    a value beyond all atoms goes to the outermost atom.
    """
    chex.assert_equal_shape([values, mass], custom_message="values and mass, [values]")
    step = support[1] - support[0]
    apart = jnp.abs(jnp.clip(values, support[0], support[-1])[:, None] - support)
    return mass @ jnp.clip(1.0 - apart / step, 0.0, 1.0)


def loss(
    learner: Learner[Any, Categorical],
    weights: PyTree,
    batch: Batch,
    target: Target,
    key: Array | None = None,
) -> Loss:
    """Return the mean cross-entropy with the target distributions, and metrics.

    The metric `error` is the Kullback-Leibler divergence of each step, for its priority.
    """
    is_step = (batch.weight > 0).astype(jnp.float32)
    answer = q_network.apply_batch(learner, weights, batch.obs, key)
    logits = q_network.of_actions(answer, batch.action)
    chex.assert_equal_shape(
        [target.mass, logits], custom_message="target and logits, [batch, atoms]"
    )
    cross_entropy = -(target.mass * jax.nn.log_softmax(logits)).sum(axis=1)
    entropy = -jax.scipy.special.xlogy(target.mass, target.mass).sum(axis=1)
    loss = (batch.weight * cross_entropy).mean()
    value = learner.network.mean(logits)
    return loss, {
        "q_loss": loss,
        "q": value.mean(),
        "clipped_targets": (is_step * target.clipped).sum() / jnp.maximum(is_step.sum(), 1.0),
        "error": jnp.maximum(cross_entropy - entropy, 0.0),
    }


LOSSES = (*q_learning.LOSSES, "clipped_targets")
update = functools.partial(q_learning.update, Objective(td_target, loss, LOSSES))


def support(settings: Settings) -> str:
    """Return text for messages: the bounds `v_min` and `v_max` of the atoms."""
    return f"v_min={settings.v_min:g} to v_max={settings.v_max:g}"


def wider(settings: Settings, paid: Any) -> dict[str, float]:
    """Return new bounds for the atoms, wide enough for the expected returns, as a dict.

    `paid.returns` is the range of returns that better policies may earn, estimated from the replay
    buffer. The dict contains `v_min` or `v_max` only if the bound changes.
    """
    low, high = paid.returns
    found = {"v_min": low} if low < settings.v_min else {}
    found |= {"v_max": high} if high > settings.v_max else {}
    # If all expected returns are within the bounds, targets were clipped because predicted returns
    # are too large in magnitude. In this case, double both bounds.
    return found or {"v_min": 2.0 * settings.v_min, "v_max": 2.0 * settings.v_max}
