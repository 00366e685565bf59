"""Running statistics, merged from rollout to rollout and shared by all devices.

With `normalize_obs` a network reads observations normalised by their mean and standard deviation.
With `reward_scaling` rewards are divided by a standard deviation, see reward_scaling.py.
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

TINY = 1e-8  # least variance that anything is divided by
RESOLUTION = 1e-5  # least deviation as a share of the mean: what float32 can tell apart
CLIP = 10.0  # largest normalised observation
SEEN = "seen"  # beside a network's "params": moments of what it reads


class Moments(NamedTuple):
    """Number, mean and variance of everything seen so far, on all devices."""

    number: Float32[Array, ""]
    mean: Float32[Array, "*numbers"]
    variance: Float32[Array, "*numbers"]

    def and_of(self, values: Float32[Array, "numbers batch"], devices: Devices) -> "Moments":
        """Moments that include one more batch (Chan et al., 1979)."""
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
        """Standard deviation."""
        return jnp.sqrt(jnp.maximum(self.variance, TINY))


@dataclasses.dataclass(frozen=True)
class Normalised:
    """A network that reads float observations normalised by their mean and standard deviation.

    Whole numbers stay as they are: the network expands them itself. The moments are part of the
    weights, so that whatever acts with the weights has them; they change between updates only.
    """

    network: Any  # of what `read` returns
    read: Callable[[Any], Any]  # from an observation to `observation_space`

    @property
    def observation_space(self) -> spaces.Space:
        """What `read` returns."""
        return self.network.observation_space

    @property
    def evaluation_epsilon(self) -> float:
        """Share of random actions of its sampled policy, see q_network.py."""
        return getattr(self.network, "evaluation_epsilon", 0.0)

    def init(self, key: Array, obs: PyTree[Array]) -> PyTree[Array]:
        """Weights, and moments of nothing: the first rollout is read as it is, clipped."""
        return {
            **self.network.init(key, self.read(obs)),
            SEEN: _of_floats(_nothing, self.observation_space),
        }

    def apply(self, weights: PyTree[Array], obs: PyTree[Array]) -> Any:
        """What the network says of an observation."""
        return self.network.apply(*self._given(weights, obs))

    def begin(self) -> PyTree[Array]:
        """What it remembers before the first observation of an episode."""
        return self.network.begin()

    def think(self, weights: PyTree, memory: PyTree, obs: PyTree, mask: Any) -> Any:
        """Memory after one more observation, logits of the legal actions, value."""
        weights, obs = self._given(weights, obs)
        return self.network.think(weights, memory, obs, mask)

    def values(self, weights: PyTree, memory: PyTree, obs: PyTree) -> Any:
        """Memory after one more observation, values of all actions."""
        weights, obs = self._given(weights, obs)
        return self.network.values(weights, memory, obs)

    def unroll(self, weights: PyTree, memory: PyTree, obs: PyTree, done: Array) -> Any:
        """What the network says of the successive observations of one environment."""
        over_steps = jax.vmap(self._given, in_axes=(None, 0), out_axes=(None, 0))
        weights, obs = over_steps(weights, obs)
        return self.network.unroll(weights, memory, obs, done)

    def and_of(self, weights: PyTree, obs: PyTree[Array], devices: Devices) -> PyTree[Array]:
        """Weights whose moments include these observations, (steps, envs, ...).

        Numbers that are not finite count as the mean.
        """

        def merge(space: spaces.Box, moments: Moments, values: Array) -> Moments:
            values = values.reshape(-1, len(moments.mean)).T.astype(jnp.float32)
            known = jnp.where(jnp.isfinite(values), values, moments.mean[:, None])
            return moments.and_of(known, devices)

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
    """Apply a function to the float parts of trees that are arranged like a space.

    Other parts stay as the first tree has them; without trees they are ().
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
    """Whether any part of a space has float numbers."""
    return bool(jax.tree.leaves(_of_floats(lambda space: 0, space)))
