"""`FromLevels`, a wrapper whose episodes begin in given levels."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, PyTree

from ..checks import counted
from ..random import Key, below, hashed
from ..wrapper import Wrapper, refuse_self_resetting
from .content import ByContent


class LevelSet(ByContent):
    """Levels of one environment, stacked along the first axis.

    A `LevelSet` is hashable, and two of them are equal if their arrays are equal.
    """

    def __init__(self, levels: PyTree[Any], name: str = "") -> None:
        """Store the stacked levels, and the path of the file that they come from ("": none)."""
        self.levels = jax.tree.map(np.asarray, jax.device_get(levels))
        self.name = name
        leaves = jax.tree.leaves(self.levels)
        if not leaves or not leaves[0].ndim or not len(leaves[0]):
            raise ValueError("LevelSet: give at least one level, stacked by jaxenvs.levels.stack")

    def __len__(self) -> int:
        """Return the number of levels."""
        return len(jax.tree.leaves(self.levels)[0])

    def __repr__(self) -> str:
        """Return text with the number of levels and the path of their file."""
        return f"<{counted(len(self), 'level')}{' of ' * bool(self.name)}{self.name}>"

    @property
    def content(self) -> PyTree[np.ndarray]:
        """The levels, without the path of their file."""
        return self.levels

    def at(self, number: ArrayLike) -> PyTree[Array]:
        """Return level `number`, counted from 0."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[number], self.levels)


class FromLevels(Wrapper):
    """Draws the level of each episode uniformly from `levels`; see `jaxenvs.levels.from_levels`."""

    levels: LevelSet

    # A reset draws one level and plays it, even if `env.accepts` would reject the level.
    level_budget: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Raise `TypeError` unless `levels` is a `LevelSet`."""
        super().__post_init__()
        refuse_self_resetting(self.env, "FromLevels", "wrap the environment inside")
        if not isinstance(self.levels, LevelSet):
            kind = type(self.levels).__name__
            raise TypeError(
                f"FromLevels: levels must be a LevelSet, got {kind}; call "
                "jaxenvs.levels.from_levels(env, levels)"
            )

    def draw_level(self, key: Key, params: Any) -> PyTree[Array]:
        """Draw one of the given levels, all with the same probability."""
        return self.levels.at(below(hashed(key, 0), len(self.levels)))

    def accepts(self, level: PyTree[Array]) -> Bool[Array, ""]:
        """Return True: every given level may be played."""
        return jnp.ones((), jnp.bool_)
