"""Scales of a network's value output, saved with its weights.

With the setting `reward_scaling`, a network learns from rewards divided by a running standard
deviation (reward_scaling.py). With `target_scaling`, it learns from standardised value targets
(target_scaling.py). A saved policy needs these scales to convert its value output to units of the
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
SCALES = "scales"  # key of the value output's scales in the weights, next to "params"


class Scales(NamedTuple):
    """Statistics that convert a value output to units of the reward; unused fields are ()."""

    # float32 (3,): moving averages of 1 (for bias correction), value targets, and their squares
    targets: PyTree[Array] = ()
    rewards: PyTree[Array] = ()  # `Moments` of the discounted returns of unscaled rewards

    @classmethod
    def begin(cls, targets: bool, rewards: bool) -> "Scales":
        """Return initial scales, before any update.

        `targets` is whether value targets are standardised. `rewards` is whether rewards are
        divided by a standard deviation.
        """
        none = Moments(jnp.float32(0), jnp.zeros(1, jnp.float32), jnp.zeros(1, jnp.float32))
        return cls(jnp.zeros(3, jnp.float32) if targets else (), none if rewards else ())


@dataclasses.dataclass(frozen=True)
class Rescaled:
    """Network whose weights include the scales of its value output.

    The value output itself is not converted; `in_rewards` converts it to units of the reward.
    """

    network: Any
    targets: bool  # whether value targets are standardised
    rewards: bool  # whether rewards are divided by a standard deviation

    @classmethod
    def of(cls, network: Any, settings: Mapping[str, Any]) -> Any:
        """Wrap `network` if settings scale rewards or value targets; else return it unchanged."""
        used = (bool(settings.get("target_scaling")), bool(settings.get("reward_scaling")))
        return cls(network, *used) if any(used) else network

    def __getattr__(self, name: str) -> Any:
        """Return the attribute `name` of the wrapped network, if this class does not define it."""
        # `copy` and `pickle` ask for attributes before `network` is set. Forwarding would then
        # call `__getattr__` for `network` itself, without end.
        if name == "network":
            raise AttributeError(name)
        return getattr(self.network, name)

    # The members below forward to the wrapped network, as `__getattr__` would. They must be
    # defined, because from Python 3.12 on `isinstance` with a protocol ignores `__getattr__`.

    @property
    def observation_space(self) -> Any:
        """Space of the wrapped network's input."""
        return self.network.observation_space

    @property
    def read(self) -> Any:
        """Function from an observation to the wrapped network's input."""
        return self.network.read

    def begin(self) -> PyTree[Array]:
        """Return the recurrent state before the first observation of an episode."""
        return self.network.begin()

    def init(self, key: Array, obs: PyTree[Array]) -> PyTree[Array]:
        """Return the network's initial weights, with initial scales added."""
        scales = Scales.begin(self.targets, self.rewards)
        return {**self.network.init(key, obs), SCALES: scales}

    def apply(self, weights: PyTree[Array], *given: Any, **more: Any) -> Any:
        """Return the outputs of the wrapped network's `apply`, called with `given` and `more`.

        The value output is not converted to units of the reward, see `Rescaled`.
        """
        return self.network.apply(_own(weights), *given, **more)

    def think(self, weights: PyTree[Array], *given: Any) -> Any:
        """Return the next recurrent state, logits of the legal actions, and the value output.

        `given` contains the recurrent state, the observation and the action mask. The value output
        is not converted to units of the reward, see `Rescaled`.
        """
        return self.network.think(_own(weights), *given)

    def values(self, weights: PyTree[Array], *given: Any) -> Any:
        """Return the next recurrent state and the network's action values.

        `given` contains the recurrent state and the observation. The action values are not
        converted to units of the reward, see `Rescaled`.
        """
        return self.network.values(_own(weights), *given)

    def unroll(self, weights: PyTree[Array], *given: Any) -> Any:
        """Return the outputs for successive observations of one environment."""
        return self.network.unroll(_own(weights), *given)


def _own(weights: PyTree[Array]) -> PyTree[Array]:
    return {name: part for name, part in weights.items() if name != SCALES}


def of(weights: Any) -> Scales:
    """Return the scales of the value output that are stored in a network's weights.

    If none are stored, both fields of the result are ().
    """
    return weights.get(SCALES, Scales()) if isinstance(weights, Mapping) else Scales()


def with_scales(runner: Any, **parts: Any) -> Any:
    """Return the runner with some fields of the `Scales` in its weights replaced by `parts`."""
    scales = of(runner.weights)._replace(**parts)
    return runner._replace(weights={**runner.weights, SCALES: scales})


def mean_and_deviation(targets: Float32[Array, "3"]) -> tuple[Array, Array]:
    """Return the mean and standard deviation of the value targets; (0, 1) before any target.

    `targets` are the moving averages that `Scales.targets` describes.
    """
    weight, total, squares = targets
    known = jnp.stack([total, squares]) / weight
    # If an old run did not save its scales, `known` is NaN, and so are the results.
    mean, square = jnp.where(weight == 0, jnp.float32([0, 1]), known)
    return mean, jnp.sqrt(jnp.maximum(square - jnp.square(mean), TINY**2))


def in_learned_rewards(weights: Any, value: Array) -> Array:
    """Convert a network's value outputs to units of the rewards that it is trained on.

    With `reward_scaling` these rewards are scaled; `in_rewards` converts to unscaled rewards.
    """
    targets = of(weights).targets
    if not len(targets):
        return value
    mean, deviation = mean_and_deviation(targets)
    return mean + deviation * value


def in_outputs(weights: Any, value: Array) -> Array:
    """Convert values in units of the learned rewards to a network's value outputs."""
    targets = of(weights).targets
    if not len(targets):
        return value
    mean, deviation = mean_and_deviation(targets)
    return (value - mean) / deviation


def in_rewards(weights: Any, value: Array) -> Array:
    """Convert a network's value outputs to units of the environment's unscaled reward."""
    value, rewards = in_learned_rewards(weights, value), of(weights).rewards
    if not isinstance(rewards, Moments):
        return value
    return value * jnp.where(rewards.number == 0, 1.0, rewards.deviation[0])


def are_known(weights: Any) -> bool:
    """Return whether a network's scales are known.

    Runs of old versions did not save the scales; loading such a run sets them to NaN
    (storage/older.py).
    """
    return not any(bool(jnp.isnan(leaf).any()) for leaf in jax.tree.leaves(of(weights)))


def offset_and_factor(weights: Any) -> tuple[float, float]:
    """Return the offset and factor that convert a value output to units of the reward.

    `offset + factor * output` is in units of the environment's reward.
    """
    offset, one = (float(in_rewards(weights, jnp.float32(x))) for x in (0.0, 1.0))
    return offset, one - offset
