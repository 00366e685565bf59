"""Scales of a network's value output, saved with its weights.

With `reward_scaling` a network learns from rewards divided by a running standard deviation
(reward_scaling.py), and with `target_scaling` from standardised value targets (target_scaling.py).
Both scales are part of the weights, so that a policy can always return its value in units of the
environment's reward.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, PyTree

from .moments import Moments

TINY = 1e-4  # lower bound of the targets' standard deviation
SCALES = "scales"  # key of the scales in a network's weights, next to "params"


class Scales(NamedTuple):
    """Scales of a value output; () for a scale that is not used."""

    # float32 (3,), moving averages of the constant 1 (for bias correction), the target, its square
    targets: PyTree[Array] = ()
    rewards: PyTree[Array] = ()  # `Moments` of the discounted returns

    @classmethod
    def begin(cls, targets: bool, rewards: bool) -> "Scales":
        """Return the initial values of the requested scales."""
        none = Moments(jnp.float32(0), jnp.zeros(1, jnp.float32), jnp.zeros(1, jnp.float32))
        return cls(jnp.zeros(3, jnp.float32) if targets else (), none if rewards else ())


@dataclasses.dataclass(frozen=True)
class Rescaled:
    """Network whose weights include the scales of its value.

    Its value output stays on the scale of training; `in_rewards` converts it.
    """

    network: Any
    targets: bool  # whether value targets are standardised
    rewards: bool  # whether rewards are divided by a standard deviation

    @classmethod
    def of(cls, network: Any, settings: Mapping[str, Any]) -> Any:
        """Return the network itself, or a `Rescaled` one if the settings use a scale."""
        used = (bool(settings.get("target_scaling")), bool(settings.get("reward_scaling")))
        return cls(network, *used) if any(used) else network

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the network."""
        if name == "network":  # not set yet when `copy` or `pickle` makes an instance
            raise AttributeError(name)
        return getattr(self.network, name)

    def init(self, key: Array, obs: PyTree[Array]) -> PyTree[Array]:
        """Return initial weights and scales."""
        scales = Scales.begin(self.targets, self.rewards)
        return {**self.network.init(key, obs), SCALES: scales}

    def apply(self, weights: PyTree[Array], *given: Any, **more: Any) -> Any:
        """Return the network's outputs."""
        return self.network.apply(_own(weights), *given, **more)

    def think(self, weights: PyTree[Array], *given: Any) -> Any:
        """Return the next recurrent state, logits of the legal actions, and the value."""
        return self.network.think(_own(weights), *given)

    def values(self, weights: PyTree[Array], *given: Any) -> Any:
        """Return the next recurrent state and the values of all actions."""
        return self.network.values(_own(weights), *given)

    def unroll(self, weights: PyTree[Array], *given: Any) -> Any:
        """Return the outputs for successive observations of one environment."""
        return self.network.unroll(_own(weights), *given)


def _own(weights: PyTree[Array]) -> PyTree[Array]:
    return {name: part for name, part in weights.items() if name != SCALES}


def of(weights: Any) -> Scales:
    """Return the scales in a network's weights."""
    return weights.get(SCALES, Scales()) if isinstance(weights, Mapping) else Scales()


def with_scales(runner: Any, **parts: Any) -> Any:
    """Return the runner with some of its scales replaced."""
    scales = of(runner.weights)._replace(**parts)
    return runner._replace(weights={**runner.weights, SCALES: scales})


def mean_and_deviation(targets: Float32[Array, "3"]) -> tuple[Array, Array]:
    """Return mean and standard deviation of the targets so far; (0, 1) before the first."""
    weight, total, squares = targets
    known = jnp.stack([total, squares]) / weight
    mean, square = jnp.where(weight == 0, jnp.float32([0, 1]), known)  # unknown scales stay NaN
    return mean, jnp.sqrt(jnp.maximum(square - jnp.square(mean), TINY**2))


def in_learned_rewards(weights: Any, value: Array) -> Array:
    """Convert values to units of the training rewards, which may be scaled."""
    targets = of(weights).targets
    if not len(targets):
        return value
    mean, deviation = mean_and_deviation(targets)
    return mean + deviation * value


def in_rewards(weights: Any, value: Array) -> Array:
    """Convert values to units of the environment's reward."""
    value, rewards = in_learned_rewards(weights, value), of(weights).rewards
    if not isinstance(rewards, Moments):
        return value
    return value * jnp.where(rewards.number == 0, 1.0, rewards.deviation[0])


def are_known(weights: Any) -> bool:
    """Return whether a network's scales were saved: missing ones are NaN (storage/older.py)."""
    return not any(bool(jnp.isnan(leaf).any()) for leaf in jax.tree.leaves(of(weights)))


def offset_and_factor(weights: Any) -> tuple[float, float]:
    """Return (offset, factor): offset + factor * output is in units of the environment's reward."""
    offset, one = (float(in_rewards(weights, jnp.float32(x))) for x in (0.0, 1.0))
    return offset, one - offset
