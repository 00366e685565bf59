"""Our spaces in the words of other packages."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.spaces import Box, Dict, Discrete, MultiDiscrete, Space

if TYPE_CHECKING:
    import gymnasium


def gymnasium_space(space: Space) -> "gymnasium.Space":
    """The same space of Gymnasium; a `Discrete` holds int64, as Gymnasium wants it."""
    import gymnasium

    if isinstance(space, Dict):
        parts = {name: gymnasium_space(part) for name, part in space.spaces.items()}
        return gymnasium.spaces.Dict(parts)
    if isinstance(space, Discrete):
        return gymnasium.spaces.Discrete(space.n)
    if isinstance(space, MultiDiscrete):
        return gymnasium.spaces.MultiDiscrete(space.nvec)
    box = _box(space)
    if box.dtype == np.bool_:
        return gymnasium.spaces.MultiBinary(list(box.shape) or 1)
    return gymnasium.spaces.Box(box.low, box.high, box.shape, box.dtype.type)


def gymnax_space(space: Space) -> Any:
    """The same space of gymnax, which has no `MultiDiscrete`: that becomes a `Box` of integers."""
    from gymnax.environments import spaces

    if isinstance(space, Dict):
        return spaces.Dict({name: gymnax_space(part) for name, part in space.spaces.items()})
    if isinstance(space, Discrete):
        return spaces.Discrete(space.n)
    box = _box(space)
    return spaces.Box(_ends(box.low), _ends(box.high), box.shape, box.dtype)


def dm_spec(space: Space, name: str) -> Any:
    """The same space as a spec of dm_env, or a dict of specs."""
    from dm_env import specs

    if isinstance(space, Dict):
        return {key: dm_spec(part, key) for key, part in space.spaces.items()}
    if isinstance(space, Discrete):
        return specs.DiscreteArray(space.n, np.int32, name)
    box = _box(space)
    return specs.BoundedArray(box.shape, box.dtype, _ends(box.low), _ends(box.high), name)


def _box(space: Space) -> Box:
    if not isinstance(space, Box):
        raise TypeError(f"no other package has a space like {space}; it takes a Box or a Dict")
    return space


def _ends(bound: np.ndarray) -> Any:
    """One number where all are equal: short to read, and what most agents expect."""
    return bound.flat[0] if bound.size and (bound == bound.flat[0]).all() else bound
