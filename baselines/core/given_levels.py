"""Play given levels: each environment of a batch begins all its episodes in its own level.

The levels are params of the environment, so a rollout needs no special code: an environment that is
reset starts again in the level that its params hold.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree

from jaxenvs import levels
from jaxenvs.core.struct import Struct, struct
from jaxenvs.core.wrapper import Wrapper


@struct
class LevelParams(Struct):
    """Params of `GivenLevel`: the wrapped environment's params, and the level of all episodes."""

    env: Any
    level: Any

    @property
    def max_steps_in_episode(self) -> Any:
        """Time limit of the wrapped environment."""
        return self.env.max_steps_in_episode


class GivenLevel(Wrapper):
    """Begins every episode in the level `params.level`; in a batch, each row has its own level."""

    reset_source: ClassVar[str] = "fresh"  # nothing is generated, so selecting is the cheapest
    level_budget: ClassVar[int] = 1

    @property
    def default_params(self) -> LevelParams:
        """Params with a level of zeros, which only has the right shapes."""
        return LevelParams(env=self.env.default_params, level=_zeros(self.env.level_shape))

    def inner_params(self, params: LevelParams | None) -> Any:
        """Return the params of the wrapped environment."""
        return None if params is None else params.env

    def draw_level(self, key: Array, params: LevelParams) -> PyTree[Array]:
        """Return the given level."""
        return params.level

    def accepts(self, level: PyTree[Array]) -> Bool[Array, ""]:
        """Return True: a given level is played as it is."""
        return jnp.ones((), jnp.bool_)

    def params_for(self, level: PyTree[Array]) -> LevelParams:
        """Return params with a level, or with a level for each environment of a batch."""
        return LevelParams(env=self.env.default_params, level=level)


def new_levels(env: GivenLevel, key: Array, count: int) -> PyTree[Array]:
    """Draw `count` levels of the wrapped environment, with a leading axis."""
    keys = jax.random.split(key, count)
    if env.levels_at_once:
        return jax.lax.map(env.env.sample_level, keys, batch_size=env.levels_at_once)
    return jax.vmap(env.env.sample_level)(keys)


def edited(env: GivenLevel, key: Array, before: PyTree[Array], edits: int) -> PyTree[Array]:
    """Return levels with `edits` random edits each, see `jaxenvs.levels.mutate`."""
    keys = jax.random.split(key, len(jax.tree.leaves(before)[0]))

    def edit(key: Array, level: PyTree[Array]) -> PyTree[Array]:
        return levels.mutate(env, key, level, edits)

    return jax.vmap(edit)(keys, before)


def _zeros(shape: PyTree[Any]) -> PyTree[Any]:
    """Return arrays of zeros with these shapes; random keys become keys of zeros."""

    def zero(leaf: Any) -> Any:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            data = jax.eval_shape(jax.random.key_data, leaf)
            return jax.random.wrap_key_data(jnp.zeros(data.shape, data.dtype))
        return np.zeros(leaf.shape, leaf.dtype)

    return jax.tree.map(zero, shape)
