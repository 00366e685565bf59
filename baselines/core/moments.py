"""Running mean and variance, updated after each rollout and equal on all devices.

With the setting `normalize_obs`, a network reads observations normalised by their running mean and
standard deviation. With `reward_scaling`, rewards are divided by a running standard deviation, see
reward_scaling.py.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, PyTree

from jaxenvs import spaces

from .devices import Devices

TINY = 1e-8  # lower bound of the variance, so that no observation or reward is divided by 0
# Lower bound of the standard deviation, as a fraction of the mean. Smaller deviations are mostly
# float32's rounding errors.
RESOLUTION = 1e-5
CLIP = 10.0  # normalised observations are clipped to [-CLIP, CLIP]
SEEN = "seen"  # key of the observations' mean and variance in the weights, next to "params"


class Moments(NamedTuple):
    """Count, mean and variance of all vectors seen so far, over all devices."""

    number: Float32[Array, ""]  # number of vectors seen so far
    mean: Float32[Array, "*numbers"]
    variance: Float32[Array, "*numbers"]

    def merged_with(self, values: Float32[Array, "numbers batch"], devices: Devices) -> "Moments":
        """Return the moments after the columns of `values` are added to the vectors seen so far.

        The formulas are from Chan et al. (1979).
        """
        chex.assert_rank(values, 2, custom_message="values are [numbers, batch]")
        chex.assert_shape(self.mean, values.shape[:1], custom_message="a mean of each number")
        mean, variance = devices.moments(values)
        more = jnp.float32(values.shape[1] * devices.count)
        share, apart = more / (self.number + more), mean - self.mean
        combined = (1 - share) * self.variance + share * variance
        combined += share * (1 - share) * jnp.square(apart)
        return Moments(self.number + more, self.mean + share * apart, combined)

    @property
    def deviation(self) -> Float32[Array, "*numbers"]:
        """Standard deviation of each component, above 0."""
        return jnp.sqrt(jnp.maximum(self.variance, TINY))


@dataclasses.dataclass(frozen=True)
class Normalised:
    """Network whose float observations are normalised by their running mean and standard deviation.

    Integer observations are not normalised, because the network encodes them as one-hot vectors.
    The running mean and variance change only between updates. They are stored with the weights, so
    a saved policy includes them.
    """

    network: Any  # network whose input is the normalised result of `read`
    read: Callable[[Any], Any]  # function from an observation to an element of `observation_space`

    @property
    def observation_space(self) -> spaces.Space:
        """Space of the values that `read` returns."""
        return self.network.observation_space

    @property
    def evaluation_epsilon(self) -> float:
        """Probability of a random action in evaluations that sample actions; 0 for most networks.

        Q-networks (q_network.py) have no distribution to sample from. They take a random action
        with this probability, and otherwise the greedy action.
        """
        return getattr(self.network, "evaluation_epsilon", 0.0)

    def init(self, key: Array, obs: PyTree[Array]) -> PyTree[Array]:
        """Return initial weights, with mean 0 and variance 1 as the observations' statistics.

        Until the first update, observations are therefore clipped, but not rescaled.
        """
        return {
            **self.network.init(key, self.read(obs)),
            SEEN: _of_floats(_nothing, self.observation_space),
        }

    def apply(self, weights: PyTree[Array], obs: PyTree[Array]) -> Any:
        """Return the network's outputs for an observation."""
        return self.network.apply(*self._given(weights, obs))

    def begin(self) -> PyTree[Array]:
        """Return the recurrent state before the first observation of an episode."""
        return self.network.begin()

    def think(self, weights: PyTree, memory: PyTree, obs: PyTree, mask: Any) -> Any:
        """Return the next recurrent state, logits of the legal actions, and the value."""
        weights, obs = self._given(weights, obs)
        return self.network.think(weights, memory, obs, mask)

    def values(self, weights: PyTree, memory: PyTree, obs: PyTree) -> Any:
        """Return the next recurrent state and the values of all actions."""
        weights, obs = self._given(weights, obs)
        return self.network.values(weights, memory, obs)

    def unroll(self, weights: PyTree, memory: PyTree, obs: PyTree, done: Array) -> Any:
        """Return the network's outputs for successive observations of one environment."""
        over_steps = jax.vmap(self._given, in_axes=(None, 0), out_axes=(None, 0))
        weights, obs = over_steps(weights, obs)
        return self.network.unroll(weights, memory, obs, done)

    def merged_with(self, weights: PyTree, obs: PyTree[Array], devices: Devices) -> PyTree[Array]:
        """Return weights whose running mean and variance include the observations `obs`.

        `obs` has the shape (steps, envs, ...). A non-finite value counts as the running mean.
        """

        def merge(space: spaces.Box, moments: Moments, values: Array) -> Moments:
            values = values.reshape(-1, len(moments.mean)).T.astype(jnp.float32)
            known = jnp.where(jnp.isfinite(values), values, moments.mean[:, None])
            return moments.merged_with(known, devices)

        seen = jax.vmap(jax.vmap(self.read))(obs)
        return {**weights, SEEN: _of_floats(merge, self.observation_space, weights[SEEN], seen)}

    def _given(self, weights: PyTree, obs: PyTree[Array]) -> tuple[PyTree, PyTree]:
        def scale(space: spaces.Box, obs: Array, moments: Moments) -> Array:
            mean, least = moments.mean, jnp.abs(RESOLUTION * moments.mean)
            apart = obs.reshape(-1).astype(jnp.float32) - mean
            scaled = apart / jnp.maximum(moments.deviation, least)
            return jnp.clip(scaled, -CLIP, CLIP).reshape(obs.shape)

        own = {name: part for name, part in weights.items() if name != SEEN}
        obs = self.read(obs)
        return own, _of_floats(scale, self.observation_space, obs, weights[SEEN])


def _nothing(space: spaces.Box) -> Moments:
    size = int(np.prod(space.shape))
    return Moments(jnp.float32(0), jnp.zeros(size, jnp.float32), jnp.ones(size, jnp.float32))


def _of_floats(function: Callable[..., Any], space: spaces.Space, *trees: Any) -> Any:
    """Apply `function(space, *leaves)` to the leaves of `trees` whose space is a Box of floats.

    All trees have the structure of `space`. For a leaf of another space, the result contains the
    leaf of the first tree, or () if there are no trees.
    """
    if isinstance(space, spaces.Dict):
        return {
            name: _of_floats(function, part, *(tree[name] for tree in trees))
            for name, part in space.spaces.items()
        }
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return function(space, *trees)
    return trees[0] if trees else ()


def has_floats(space: spaces.Space) -> bool:
    """Return whether a space is, or contains, a Box of floats."""
    return bool(jax.tree.leaves(_of_floats(lambda space: 0, space)))
