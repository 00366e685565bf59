"""Action distributions of policies, parametrised by the outputs of a policy network.

For a Discrete space the outputs are one logit per action; for a MultiDiscrete space the logits of
all components, concatenated. For a Box they are the mean and the raw standard deviation (before a
softplus) of one Gaussian per component. The samples of the Gaussians are squashed by tanh and
scaled to the bounds (Haarnoja et al., 2018).

`draw` returns the sample before tanh, and `log_prob` takes this sample as its argument. Computing
the sample from an action would invert tanh, which loses precision for actions near the bounds.
"""

import dataclasses
import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32

from .random import Key
from .spaces import Box, Discrete, MultiDiscrete, Space

LEAST_DEVIATION = 1e-3  # lower bound of the Gaussians' standard deviation (before tanh)
NODES = 16  # number of Gauss-Hermite quadrature nodes that approximate the entropy


@dataclasses.dataclass(frozen=True)
class Categorical:
    """Categorical distribution over the `space.n` actions, given by logits."""

    space: Discrete

    @property
    def outputs(self) -> int:
        """Number of network outputs per observation: one logit per action."""
        return self.space.n

    def draw(self, key: Key, outputs: Float[Array, "*batch outputs"]) -> Array:
        """Sample actions, int32 (*batch,)."""
        return jax.random.categorical(key, outputs).astype(jnp.int32)

    def best(self, outputs: Float[Array, "*batch outputs"]) -> Array:
        """Return the most likely action for each observation."""
        return outputs.argmax(axis=-1).astype(jnp.int32)

    def action(self, drawn: Array) -> Array:
        """Return the samples unchanged: they are already elements of the space."""
        return drawn

    def log_prob(
        self, outputs: Float[Array, "*batch outputs"], drawn: Array
    ) -> Float32[Array, "*batch"]:
        """Return the log-probability of each sampled action."""
        actions = jnp.arange(outputs.shape[-1], dtype=drawn.dtype)
        # The log-probability is selected by a masked sum over the actions, not by a gather: the
        # gradient of a gather is a scatter, for which XLA launches a separate kernel.
        known = jnp.where(drawn[..., None] == actions, jax.nn.log_softmax(outputs), 0.0)
        return known.sum(axis=-1)

    def entropy(self, outputs: Float[Array, "*batch outputs"]) -> Float32[Array, "*batch"]:
        """Return the entropy of the distribution for each observation, in nats."""
        log_probs = jax.nn.log_softmax(outputs)
        return -(jnp.exp(log_probs) * log_probs).sum(axis=-1)


@dataclasses.dataclass(frozen=True)
class MultiCategorical:
    """Distribution of a vector of independent categorical components."""

    space: MultiDiscrete

    @property
    def outputs(self) -> int:
        """Number of network outputs per observation: the logits of all components."""
        return int(self.space.nvec.sum())

    def parts(self, outputs: Array) -> list[tuple[Categorical, Array]]:
        """Return (distribution, logits) for each component, by splitting the network outputs."""
        counts = self.space.nvec.ravel()
        logits = jnp.split(outputs, np.cumsum(counts)[:-1], axis=-1)
        choices = [Categorical(Discrete(int(count))) for count in counts]
        return list(zip(choices, logits, strict=True))

    def draw(self, key: Key, outputs: Float[Array, "*batch outputs"]) -> Array:
        """Sample every component independently: int32 (*batch, components)."""
        parts = self.parts(outputs)
        keys = jax.random.split(key, len(parts))
        drawn = [one.draw(k, logits) for k, (one, logits) in zip(keys, parts, strict=True)]
        return jnp.stack(drawn, axis=-1)

    def best(self, outputs: Float[Array, "*batch outputs"]) -> Array:
        """Return the most likely value of each component, int32 (*batch, components)."""
        return jnp.stack([one.best(logits) for one, logits in self.parts(outputs)], axis=-1)

    def action(self, drawn: Array) -> Array:
        """Reshape samples to the shape of the space."""
        return drawn.reshape(*drawn.shape[:-1], *self.space.shape)

    def log_prob(
        self, outputs: Float[Array, "*batch outputs"], drawn: Array
    ) -> Float32[Array, "*batch"]:
        """Return the joint log-probability of the components of each sample."""
        parts = enumerate(self.parts(outputs))
        return sum_of(one.log_prob(logits, drawn[..., i]) for i, (one, logits) in parts)

    def entropy(self, outputs: Float[Array, "*batch outputs"]) -> Float32[Array, "*batch"]:
        """Return the joint entropy in nats: the sum over the independent components."""
        return sum_of(one.entropy(logits) for one, logits in self.parts(outputs))


@dataclasses.dataclass(frozen=True)
class TanhGaussian:
    """One Gaussian per action component, squashed by tanh and scaled to the bounds of a Box."""

    space: Box

    @property
    def outputs(self) -> int:
        """Number of network outputs per observation: all means, then all deviations' raw values.

        `moments` turns a raw value into a standard deviation.
        """
        return 2 * self.numbers

    @property
    def numbers(self) -> int:
        """Number of components of an action."""
        return math.prod(self.space.shape)

    @property
    def half(self) -> np.ndarray:
        """Half the distance between the bounds of each component."""
        return (self.space.high.ravel() - self.space.low.ravel()) / self.space.dtype.type(2)

    def moments(self, outputs: Float[Array, "*batch outputs"]) -> tuple[Array, Array]:
        """Return mean and standard deviation of each Gaussian, both (*batch, numbers)."""
        mean, raw = jnp.split(outputs, 2, axis=-1)
        return mean, jax.nn.softplus(raw) + LEAST_DEVIATION

    def draw(self, key: Key, outputs: Float[Array, "*batch outputs"]) -> Array:
        """Sample from the Gaussians, before tanh: float32 (*batch, numbers)."""
        shape = (*outputs.shape[:-1], self.numbers)
        return self.reparametrise(jax.random.normal(key, shape, outputs.dtype), outputs)

    def reparametrise(
        self, noise: Float[Array, "*batch numbers"], outputs: Float[Array, "*batch outputs"]
    ) -> Array:
        """Return the sample before tanh for standard normal noise: mean + deviation * noise."""
        mean, deviation = self.moments(outputs)
        return mean + deviation * noise

    def spread_out(self, noise: Array, outputs: Array) -> Array:
        """Return `reparametrise`, with a warning: the next release removes this name."""
        message = "spread_out is now reparametrise; the old name goes with the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.reparametrise(noise, outputs)

    def best(self, outputs: Float[Array, "*batch outputs"]) -> Array:
        """Return the mean of each Gaussian, before tanh."""
        return self.moments(outputs)[0]

    def action(self, drawn: Array) -> Array:
        """Apply tanh to samples and scale them to the bounds and the shape of the space."""
        low, high = self.space.low.ravel(), self.space.high.ravel()
        stretched = low + self.half * (jnp.tanh(drawn) + 1)
        return jnp.clip(stretched, low, high).reshape(*drawn.shape[:-1], *self.space.shape)

    def log_prob(
        self, outputs: Float[Array, "*batch outputs"], drawn: Array
    ) -> Float32[Array, "*batch"]:
        """Return the log-density of each action; `drawn` is the sample before tanh.

        By change of variables, the result is the log-density of the sample under the Gaussians,
        minus the log of the derivative of `action`.
        """
        mean, deviation = self.moments(outputs)
        normal = -0.5 * jnp.square((drawn - mean) / deviation) - jnp.log(deviation)
        return (normal - 0.5 * math.log(2 * math.pi) - self.log_slope(drawn)).sum(axis=-1)

    def entropy(self, outputs: Float[Array, "*batch outputs"]) -> Float32[Array, "*batch"]:
        """Return the differential entropy of the action, in nats.

        It is the entropy of the Gaussians plus the expected log of the derivative of `action`. The
        expectation is approximated by Gauss-Hermite quadrature.
        """
        mean, deviation = self.moments(outputs)
        points, weights = np.polynomial.hermite_e.hermegauss(NODES)
        points, weights = np.float32(points), np.float32(weights / weights.sum())
        slopes = self.log_slope(mean + deviation * points.reshape(-1, *[1] * mean.ndim))
        stretched = jnp.tensordot(weights, slopes, axes=1)
        normal = 0.5 * math.log(2 * math.pi * math.e) + jnp.log(deviation)
        return (normal + stretched).sum(axis=-1)

    def log_slope(self, drawn: Array) -> Array:
        """Return the log of the derivative of `action` for each component of a sample.

        The formula avoids the underflow of 1 - tanh(x)**2 for large x.
        """
        tanh = 2.0 * (math.log(2.0) - drawn - jax.nn.softplus(-2.0 * drawn))
        return tanh + np.log(self.half)


Distribution = Categorical | MultiCategorical | TanhGaussian


def of(space: Space) -> Distribution:
    """Return the distribution with which a policy samples from an action space.

    Raises `ValueError` for an unsupported space: a Dict, a Box of integers, a Box without finite
    bounds, or a Box in which a component has equal bounds.
    """
    if isinstance(space, Discrete):
        return Categorical(space)
    if isinstance(space, MultiDiscrete):
        return MultiCategorical(space)
    if not isinstance(space, Box) or not np.issubdtype(space.dtype, np.floating):
        raise ValueError(
            f"policies do not support the action space {space}; use a Discrete, a MultiDiscrete or "
            f"a Box of floats"
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise ValueError(
            f"policies do not support the action space {space}: tanh needs finite bounds; give the "
            f"Box a finite low and high"
        )
    if not (space.low < space.high).all():
        raise ValueError(
            f"policies do not support the action space {space}: a component with equal bounds "
            f"leaves no choice; remove it from the Box"
        )
    return TanhGaussian(space)


def sum_of(terms: Any) -> Array:
    """Return the elementwise sum of arrays of equal shape."""
    first, *rest = terms
    for term in rest:
        first = first + term
    return first
