"""E3B (Henaff et al., 2022): elliptical episodic bonuses.

An inverse dynamics model predicts the action between two observations from their features. The
features are trained only for this prediction, so they omit all that the agent cannot influence.

The bonus of an observation with features `f` is `f^T C^-1 f`. The matrix `C` is `RIDGE` times the
identity, plus the sum of `f f^T` over the episode's earlier observations. `C` generalises visit
counts to continuous features.

Instead of `C`, a matrix `S` with `C^-1 = S S^T` is stored for each episode; each observation
updates `S` by a rank-1 term (Potter, 1963). The bonus is the squared norm of `S^T f`, which
rounding cannot make negative, unlike `f^T C^-1 f`.

Deliberate difference from the paper: bonuses are divided by the standard deviation of their
discounted returns, as in rnd.py.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from ..core.bonuses import Bonus, Rewards, Visits
from ..core.devices import ALONE, Devices
from ..core.minibatches import apply_gradient
from ..core.moments import Moments
from ..networks.encoders import Encoder

# Factor of the identity matrix in the initial `C`, before an episode's first observation. The bonus
# of an observation with features f is f^T C^-1 f.
RIDGE = 0.1
FEATURES = 64  # number of features that the encoder computes for an observation


class Controlled(NamedTuple):
    """Networks and statistics of the E3B bonus, replicated on all devices."""

    encoder: PyTree[Array]
    inverse: PyTree[Array]  # inverse model, which predicts the action between two observations
    optimiser: PyTree[Array]
    earned: Moments  # running mean and variance of the discounted returns of bonuses


@dataclasses.dataclass(frozen=True)
class E3B(Bonus):
    """E3B bonus.

    The bonus's networks and statistics are stored in a `Controlled`. The bonus's state in each
    episode is a matrix `S` with S S^T = C^-1. The paper's matrix `C` is `RIDGE` times the identity,
    plus the sum of f f^T over the features f of the episode's observations.
    """

    learning_rate: float = 3e-4

    def init(self, key: Array, obs: PyTree[Array]) -> Controlled:
        """Return initial networks and statistics; `obs` is an example of one observation."""
        key_encoder, key_inverse = jax.random.split(key)
        features, encoder = self.embedding.init_with_output(key_encoder, self.read(obs))
        pair = jnp.concatenate([jnp.asarray(features)] * 2)
        inverse = self.inverse_model.init(key_inverse, pair)
        none = Moments(jnp.float32(0), jnp.zeros(1, jnp.float32), jnp.zeros(1, jnp.float32))
        optimiser = optax.adam(self.learning_rate).init((encoder, inverse))
        return Controlled(encoder, inverse, optimiser, none)

    def begin(self, curiosity: Controlled, obs: PyTree[Array]) -> Float32[Array, "envs f f"]:
        """Return the bonus's state in each environment after the first observations `obs`.

        The state is a matrix `S` whose product S S^T is the inverse of the paper's matrix `C`.
        """
        features = self.features(curiosity.encoder, obs)
        return elliptical(initial_factors(len(features)), features)[0]

    def rewards(
        self,
        curiosity: Controlled,
        memory: Float32[Array, "envs f f"],
        returns: Float32[Array, " envs"],
        visits: Visits,
        devices: Devices = ALONE,
    ) -> Rewards:
        """Train on a rollout; return the elliptical bonus of each step's next observation.

        `Bonus.rewards` describes arguments and results.
        """
        steps, envs = visits.done.shape
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), visits.obs)
        features = self.features(curiosity.encoder, flat).reshape(steps + 1, envs, -1)
        memory, new = elliptical_bonuses(memory, features[1:], visits.done)
        new = jnp.where(visits.done, 0.0, new)
        earned, returns, bonus = self.scaled(curiosity.earned, returns, new, devices)
        curiosity = self.trained(curiosity._replace(earned=earned), visits, devices)
        return curiosity, memory, returns, bonus

    def trained(self, curiosity: Controlled, visits: Visits, devices: Devices) -> Controlled:
        """Train encoder and inverse model on a rollout, with one gradient step per minibatch.

        With `minibatches` = m, minibatch i consists of the transitions i, i + m, i + 2 m and so on.
        """

        def split(leaf: Array) -> Array:
            flat = leaf.reshape(-1, *leaf.shape[2:])
            return flat.reshape(-1, self.minibatches, *flat.shape[1:]).swapaxes(0, 1)

        before, after = (
            jax.tree.map(lambda leaf, part=part: leaf[part], visits.obs)
            for part in (slice(None, -1), slice(1, None))
        )
        batches = jax.tree.map(split, (before, after, visits.action, ~visits.done))

        def gradient_step(carry: Any, batch: Any) -> tuple[Any, None]:
            weights, optimiser = carry
            gradient = devices.mean(jax.grad(self.inverse_loss)(weights, *batch))
            return apply_gradient(adam, gradient, optimiser, weights), None

        adam = optax.adam(self.learning_rate)
        carry = ((curiosity.encoder, curiosity.inverse), curiosity.optimiser)
        ((encoder, inverse), optimiser), _ = jax.lax.scan(gradient_step, carry, batches)
        return curiosity._replace(encoder=encoder, inverse=inverse, optimiser=optimiser)

    def inverse_loss(
        self,
        weights: tuple[PyTree[Array], PyTree[Array]],
        before: PyTree[Array],
        after: PyTree[Array],
        action: Int32[Array, " batch"],
        is_pair: Bool[Array, " batch"],
    ) -> Float32[Array, ""]:
        """Return the mean cross-entropy of the inverse model's predicted actions.

        If the two observations of a pair belong to different episodes, `is_pair` is False, and the
        pair's cross-entropy counts as 0.
        """
        encoder, inverse = weights
        pairs = jnp.concatenate([self.features(encoder, obs) for obs in (before, after)], axis=-1)
        logits: Any = self.inverse_model.apply(inverse, pairs)
        entropies = optax.losses.softmax_cross_entropy_with_integer_labels(logits, action)
        return jnp.where(is_pair, entropies, 0.0).mean()

    def features(self, encoder: PyTree[Array], obs: PyTree[Array]) -> Float32[Array, "batch f"]:
        """Return the trained encoder's features for a batch of observations."""
        encode: Any = functools.partial(self.embedding.apply, encoder)
        return jax.vmap(lambda obs: encode(self.read(obs)))(obs)

    @property
    def embedding(self) -> nn.Sequential:
        """Encoder network: from an observation, as `read` converts it, to `FEATURES` features."""
        return nn.Sequential(
            [
                Encoder(self.space, self.embed, conv=self.conv),
                nn.Dense(self.width),
                nn.relu,
                nn.Dense(FEATURES),
            ]
        )

    @property
    def inverse_model(self) -> nn.Sequential:
        """Inverse model: from the features of two observations to logits of the action taken."""
        return nn.Sequential([nn.Dense(self.width), nn.relu, nn.Dense(self.num_actions)])


def elliptical_bonuses(
    factor: Float32[Array, "envs f f"],
    features: Float32[Array, "steps envs f"],
    done: Bool[Array, "steps envs"],
) -> tuple[Float32[Array, "envs f f"], Float32[Array, "steps envs"]]:
    """Return the matrices `S` after a rollout, and the bonus of each step's next observation.

    Each environment has a matrix `S`, and S S^T is the inverse of the paper's matrix `C`, a sum
    over the observations of an episode. `factor` has the matrices before the rollout; `S` is reset
    at the start of an episode. `features` come from each step's next observation. Where the step
    is `done`, this observation belongs to the next episode.
    """
    chex.assert_shape(done, features.shape[:2], custom_message="features, done: [steps, envs]")
    fresh = initial_factors(len(factor), factor.shape[-1])

    def step(factor: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        features, done = now
        return elliptical(jnp.where(done[:, None, None], fresh, factor), features)

    return jax.lax.scan(step, factor, (features, done))


def elliptical(
    factor: Float32[Array, "envs f f"], features: Float32[Array, "envs f"]
) -> tuple[Float32[Array, "envs f f"], Float32[Array, " envs"]]:
    """Return each environment's matrix `S` after one more observation, and the observation's bonus.

    `factor` has the matrices before the observation, and `features` the observation's features.
    S S^T is the inverse of the paper's matrix `C`, which sums f f^T over an episode's features f.
    """
    turned = jnp.einsum("eij,ei->ej", factor, features)
    bonus = jnp.square(turned).sum(axis=-1)
    left = 1.0 / (1.0 + bonus)
    along = jnp.einsum("eij,ej->ei", factor, turned) * (left / (1.0 + jnp.sqrt(left)))[:, None]
    return factor - along[:, :, None] * turned[:, None, :], bonus


def initial_factors(envs: int, features: int = FEATURES) -> Float32[Array, "envs f f"]:
    """Return each environment's matrix `S` before an episode's first observation.

    S S^T is the inverse of the paper's matrix `C`, which is then `RIDGE` times the identity. Each
    `S` is therefore the identity divided by sqrt(`RIDGE`).
    """
    one = jnp.eye(features, dtype=jnp.float32) / jnp.sqrt(jnp.float32(RIDGE))
    return jnp.broadcast_to(one, (envs, features, features))
