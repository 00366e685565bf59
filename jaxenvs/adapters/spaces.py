"""Conversion of jaxenvs' spaces to Gymnasium's spaces and to dm_env's specs."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.spaces import Box, Dict, Discrete, MultiDiscrete, Space

if TYPE_CHECKING:
    import gymnasium


def gymnasium_space(space: Space) -> "gymnasium.Space":
    """Return Gymnasium's equivalent of a space; a `Discrete` becomes int64 instead of int32."""
    import gymnasium

    if isinstance(space, Dict):
        parts = {name: gymnasium_space(part) for name, part in space.spaces.items()}
        return gymnasium.spaces.Dict(parts)
    if isinstance(space, Discrete):
        return gymnasium.spaces.Discrete(space.n)
    if isinstance(space, MultiDiscrete):
        return gymnasium.spaces.MultiDiscrete(space.nvec)
    box = as_box(space)
    if box.dtype == np.bool_:
        return gymnasium.spaces.MultiBinary(list(box.shape))
    return gymnasium.spaces.Box(box.low, box.high, box.shape, box.dtype.type)


def dm_spec(space: Space, name: str) -> Any:
    """Return dm_env's equivalent of a space: a spec called `name`, or a dict of specs."""
    from dm_env import specs

    if isinstance(space, Dict):
        return {key: dm_spec(part, key) for key, part in space.spaces.items()}
    if isinstance(space, Discrete):
        return specs.DiscreteArray(space.n, np.int32, name)
    box = as_box(space)
    return specs.BoundedArray(box.shape, box.dtype, *ends(box), name)


def as_box(space: Space) -> Box:
    """Return the space unchanged; raise `TypeError` if it is not a `Box`."""
    if not isinstance(space, Box):
        raise TypeError(f"the space {space} cannot be converted; use a Box or a Dict of them")
    return space


def ends(box: Box) -> tuple[Any, Any]:
    """Return the bounds (low, high) of a Box.

    The bounds are single numbers if they are the same for all entries, as most agents expect.
    Otherwise they are arrays.
    """
    pair = (box.low, box.high)
    if not box.low.size or any((bound != bound.flat[0]).any() for bound in pair):
        return pair
    return box.low.flat[0], box.high.flat[0]
