"""Wrappers that change the shape or encoding of observations: `Flatten`, `OneHot`, `FrameStack`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .. import checks
from ..env import Step
from ..spaces import Box, Dict, Space
from ..stateful import StatefulWrapper
from ..wrapper import Wrapper


class Flatten(Wrapper):
    """Flattens an observation into one vector: its leaves, joined in the order of their names.

    A single array keeps its dtype; several leaves are cast to float32.
    """

    @property
    def observation_space(self) -> Box:
        """Space of the joined vector; each entry keeps its bounds."""
        parts = boxes(self.env.observation_space, "Flatten")
        dtype = parts[0].dtype if len(parts) == 1 else np.float32
        low, high = (
            np.concatenate([np.ravel(getattr(b, end)) for b in parts]) for end in ("low", "high")
        )
        return Box(low.astype(dtype), high.astype(dtype), low.shape, dtype)

    def transform(self, obs: PyTree[Array]) -> Array:
        """Flatten the leaves and join them."""
        leaves = jax.tree.leaves(obs)
        if len(leaves) == 1:
            return leaves[0].ravel()
        return jnp.concatenate([leaf.ravel().astype(jnp.float32) for leaf in leaves])


class OneHot(Wrapper):
    """Replaces integers in observations by one-hot vectors, uint8.

    Each integer becomes a vector with one element per possible value. The vectors of the integers
    along the last axis are concatenated. MiniGrid's image (7, 7, 3) becomes (7, 7, 20), and a
    `Discrete(n)` becomes (n,).
    """

    def __post_init__(self) -> None:
        """Raise `ValueError` unless all observations are integers with few possible values."""
        super().__post_init__()
        for box in boxes(self.env.observation_space, "OneHot"):
            if not np.issubdtype(box.dtype, np.integer) or sum(_counts(box)) > 65_536:
                raise ValueError(f"OneHot: needs observations of small integers, got {box}")

    @property
    def observation_space(self) -> Space:
        """Arrays of zeros and ones, whose last axis holds the joined one-hot vectors."""
        return map_space(
            lambda box: Box(0, 1, (*box.shape[:-1], sum(_counts(box))), np.uint8),
            self.env.observation_space,
        )

    def transform(self, obs: PyTree[Array]) -> PyTree[Array]:
        """Replace each integer by its one-hot vector, and join the vectors along the last axis."""
        return map_obs(_onehot, self.env.observation_space, obs)


class FrameStack(StatefulWrapper):
    """Returns the last `count` observations, stacked along a new first axis, the oldest first.

    At a reset, the first observation fills the whole stack.
    """

    count: int = 4

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        checks.integer_field("FrameStack", "count", self.count, 1)

    @property
    def observation_space(self) -> Space:
        """Space of the wrapped environment's observations, with a new first axis of `count`."""

        def stacked(box: Box) -> Box:
            shape = (self.count, *box.shape)
            return Box(box.low, box.high, shape, box.dtype)

        return map_space(stacked, self.env.observation_space)

    def begin(self, obs: PyTree[Array], ended: PyTree[Array] | None) -> PyTree[Array]:
        """Fill the stack with copies of the first observation."""
        return jax.tree.map(lambda x: jnp.repeat(x[None], self.count, axis=0), obs)

    def after(self, memory: PyTree[Array], action: Any, step: Step) -> tuple[PyTree[Array], Step]:
        """Drop the oldest observation and append the new one."""
        frames = jax.tree.map(
            lambda old, new: jnp.concatenate([old[1:], new[None]]), memory, step.obs
        )
        return frames, step

    def shown(self, obs: PyTree[Array], memory: PyTree[Array]) -> PyTree[Array]:
        """Return the stacked observations."""
        return memory


def boxes(space: Space, owner: str) -> list[Box]:
    """Return the Box spaces of all leaves of an observation, in JAX's order of flattening.

    Raises `ValueError` if a leaf is not a Box; the message begins with `owner`.
    """
    if isinstance(space, Dict):
        return [box for name in sorted(space.spaces) for box in boxes(space.spaces[name], owner)]
    if not isinstance(space, Box):
        raise ValueError(f"{owner}: does not support the space {space}")
    return [space]


def map_space(change: Any, space: Space) -> Space:
    if isinstance(space, Dict):
        return Dict({name: map_space(change, part) for name, part in space.spaces.items()})
    return change(space)


def map_obs(change: Any, space: Space, obs: PyTree[Array]) -> PyTree[Array]:
    if isinstance(space, Dict):
        return {name: map_obs(change, part, obs[name]) for name, part in space.spaces.items()}
    return change(space, obs)


def _counts(box: Box) -> list[int]:
    """Return how many values are possible at each index of the last axis of a space.

    If the number for an index differs along the other axes, return the largest.
    """
    span = np.atleast_1d(box.high.astype(np.int64) - box.low.astype(np.int64) + 1)
    return span.reshape(-1, span.shape[-1]).max(axis=0).tolist()


def _onehot(box: Box, obs: Array) -> Array:
    values = jnp.atleast_1d(obs.astype(jnp.int32) - jnp.asarray(box.low.astype(np.int32)))
    parts = [
        jax.nn.one_hot(values[..., i], count, dtype=jnp.uint8)
        for i, count in enumerate(_counts(box))
    ]
    return jnp.concatenate(parts, axis=-1)
