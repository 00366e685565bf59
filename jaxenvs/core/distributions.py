"""Distributions of actions: what the outputs of a policy's network mean in an action space.

Discrete: a logit for each action. MultiDiscrete: the same for each number, one after another. Box:
the means and spreads of a Gaussian, which tanh and the bounds turn into an action (Haarnoja et al.,
2018). What is drawn is what `log_prob` takes, for a Box the number before tanh: taken from the
action again, it would lose its digits near the bounds.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32

from .random import Key
from .spaces import Box, Discrete, MultiDiscrete, Space

LEAST_SPREAD = 1e-3  # of a Gaussian before tanh
NODES = 16  # of the quadrature of an entropy


@dataclasses.dataclass(frozen=True)
class Categorical:
    """One of `space.n` actions, by logits."""

    space: Discrete

    @property
    def outputs(self) -> int:
        """Numbers that a network says of one observation."""
        return self.space.n

    def draw(self, key: Key, outputs: Float[Array, "*batch outputs"]) -> Array:
        """Draw by the probabilities, int32 (*batch,)."""
        return jax.random.categorical(key, outputs).astype(jnp.int32)

    def best(self, outputs: Float[Array, "*batch outputs"]) -> Array:
        """The likeliest."""
        return outputs.argmax(axis=-1).astype(jnp.int32)

    def action(self, drawn: Array) -> Array:
        """Elements of the space."""
        return drawn

    def log_prob(
        self, outputs: Float[Array, "*batch outputs"], drawn: Array
    ) -> Float32[Array, "*batch"]:
        """Logarithm of the probability of each action."""
        actions = jnp.arange(outputs.shape[-1], dtype=drawn.dtype)
        # Not by an index, whose gradient is written apart.
        known = jnp.where(drawn[..., None] == actions, jax.nn.log_softmax(outputs), 0.0)
        return known.sum(axis=-1)

    def entropy(self, outputs: Float[Array, "*batch outputs"]) -> Float32[Array, "*batch"]:
        """In nats."""
        log_probs = jax.nn.log_softmax(outputs)
        return -(jnp.exp(log_probs) * log_probs).sum(axis=-1)


@dataclasses.dataclass(frozen=True)
class MultiCategorical:
    """A vector of independent choices; their logits lie one after another."""

    space: MultiDiscrete

    @property
    def outputs(self) -> int:
        """Numbers that a network says of one observation."""
        return int(self.space.nvec.sum())

    def parts(self, outputs: Array) -> list[tuple[Categorical, Array]]:
        """Each choice with its logits."""
        counts = self.space.nvec.ravel()
        logits = jnp.split(outputs, np.cumsum(counts)[:-1], axis=-1)
        choices = [Categorical(Discrete(int(count))) for count in counts]
        return list(zip(choices, logits, strict=True))

    def draw(self, key: Key, outputs: Float[Array, "*batch outputs"]) -> Array:
        """Draw every choice, int32 (*batch, choices)."""
        parts = self.parts(outputs)
        keys = jax.random.split(key, len(parts))
        drawn = [one.draw(k, logits) for k, (one, logits) in zip(keys, parts, strict=True)]
        return jnp.stack(drawn, axis=-1)

    def best(self, outputs: Float[Array, "*batch outputs"]) -> Array:
        """The likeliest."""
        return jnp.stack([one.best(logits) for one, logits in self.parts(outputs)], axis=-1)

    def action(self, drawn: Array) -> Array:
        """Elements of the space."""
        return drawn.reshape(*drawn.shape[:-1], *self.space.shape)

    def log_prob(
        self, outputs: Float[Array, "*batch outputs"], drawn: Array
    ) -> Float32[Array, "*batch"]:
        """Logarithm of the probability of all choices together."""
        parts = enumerate(self.parts(outputs))
        return sum_of(one.log_prob(logits, drawn[..., i]) for i, (one, logits) in parts)

    def entropy(self, outputs: Float[Array, "*batch outputs"]) -> Float32[Array, "*batch"]:
        """In nats."""
        return sum_of(one.entropy(logits) for one, logits in self.parts(outputs))


@dataclasses.dataclass(frozen=True)
class TanhGaussian:
    """Numbers between bounds: a Gaussian for each, through tanh, stretched to the bounds."""

    space: Box

    @property
    def outputs(self) -> int:
        """Numbers that a network says of one observation: means, then what spreads come from."""
        return 2 * self.numbers

    @property
    def numbers(self) -> int:
        """Numbers of an action."""
        return math.prod(self.space.shape)

    @property
    def half(self) -> np.ndarray:
        """Half the distance between the bounds of each number."""
        return (self.space.high.ravel() - self.space.low.ravel()) / self.space.dtype.type(2)

    def moments(self, outputs: Float[Array, "*batch outputs"]) -> tuple[Array, Array]:
        """Mean and standard deviation of each Gaussian, (*batch, numbers)."""
        mean, raw = jnp.split(outputs, 2, axis=-1)
        return mean, jax.nn.softplus(raw) + LEAST_SPREAD

    def draw(self, key: Key, outputs: Float[Array, "*batch outputs"]) -> Array:
        """Draw before tanh, float32 (*batch, numbers)."""
        shape = (*outputs.shape[:-1], self.numbers)
        return self.spread_out(jax.random.normal(key, shape, outputs.dtype), outputs)

    def spread_out(
        self, noise: Float[Array, "*batch numbers"], outputs: Float[Array, "*batch outputs"]
    ) -> Array:
        """What is drawn before tanh if standard normal numbers are these."""
        mean, spread = self.moments(outputs)
        return mean + spread * noise

    def best(self, outputs: Float[Array, "*batch outputs"]) -> Array:
        """The means, before tanh."""
        return self.moments(outputs)[0]

    def action(self, drawn: Array) -> Array:
        """Elements of the space."""
        low, high = self.space.low.ravel(), self.space.high.ravel()
        stretched = low + self.half * (jnp.tanh(drawn) + 1)
        return jnp.clip(stretched, low, high).reshape(*drawn.shape[:-1], *self.space.shape)

    def log_prob(
        self, outputs: Float[Array, "*batch outputs"], drawn: Array
    ) -> Float32[Array, "*batch"]:
        """Logarithm of the density of each action, by the change of variables."""
        mean, spread = self.moments(outputs)
        normal = -0.5 * jnp.square((drawn - mean) / spread) - jnp.log(spread)
        return (normal - 0.5 * math.log(2 * math.pi) - self.log_slope(drawn)).sum(axis=-1)

    def entropy(self, outputs: Float[Array, "*batch outputs"]) -> Float32[Array, "*batch"]:
        """Differential entropy in nats; the mean of the slope's logarithm by Gauss and Hermite."""
        mean, spread = self.moments(outputs)
        points, weights = np.polynomial.hermite_e.hermegauss(NODES)
        points, weights = np.float32(points), np.float32(weights / weights.sum())
        slopes = self.log_slope(mean + spread * points.reshape(-1, *[1] * mean.ndim))
        stretched = jnp.tensordot(weights, slopes, axes=1)
        normal = 0.5 * math.log(2 * math.pi * math.e) + jnp.log(spread)
        return (normal + stretched).sum(axis=-1)

    def log_slope(self, drawn: Array) -> Array:
        """Logarithm of how much `action` stretches lengths at each number, without overflow."""
        tanh = 2.0 * (math.log(2.0) - drawn - jax.nn.softplus(-2.0 * drawn))
        return tanh + np.log(self.half)


Distribution = Categorical | MultiCategorical | TanhGaussian


def of(space: Space) -> Distribution:
    """The distribution of a policy over an action space.

    Raises `ValueError` for a space that no policy has: a Dict, a Box of integers, or one without
    bounds.
    """
    if isinstance(space, Discrete):
        return Categorical(space)
    if isinstance(space, MultiDiscrete):
        return MultiCategorical(space)
    if not isinstance(space, Box) or not np.issubdtype(space.dtype, np.floating):
        raise ValueError(
            f"no policy has the action space {space}; it takes a Discrete, a MultiDiscrete or a "
            f"Box of float numbers"
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise ValueError(
            f"no policy has the action space {space}: tanh needs a lowest and a highest value of "
            f"each number; give the Box finite bounds"
        )
    if not (space.low < space.high).all():
        raise ValueError(
            f"no policy has the action space {space}: a number with equal bounds is no choice; "
            f"leave it out of the Box"
        )
    return TanhGaussian(space)


def sum_of(terms: Any) -> Array:
    """Sum of arrays of one shape."""
    first, *rest = terms
    for term in rest:
        first = first + term
    return first
